"""What rebuilds images: patches there and back, positions, the error, one decoder a domain."""

import math

import pytest
import timm
import torch
from lightly.models import utils
from torch import nn
from torch.testing import assert_close

from onestyle.nn.decoder import (
    Decoder,
    decode_by_domain,
    masked_error,
    patchify,
    sin_cos,
    unpatchify,
)


def decoders(n=3, depth=2):
    torch.manual_seed(0)
    tiny = {"img_size": 16, "patch_size": 4, "embed_dim": 24, "depth": 1, "num_heads": 2}
    vit = timm.create_model("vit_tiny_patch16_224", num_classes=0, **tiny)
    return nn.ModuleList(Decoder(vit, 16, depth, 2) for _ in range(n)).double()


def tokens(n=6):
    keep = torch.rand(n, 16).argsort(dim=1)[:, :4]
    return torch.randn(n, 5, 24, dtype=torch.double, requires_grad=True), keep


def test_patches_are_those_of_lightly():
    images = torch.randn(2, 3, 16, 16)
    assert torch.equal(patchify(images, (4, 4)), utils.patchify(images, 4))


def test_patches_may_be_oblong():
    images = torch.randn(2, 3, 8, 12)
    patches = patchify(images, (2, 4))  # 4 rows, 3 columns
    assert torch.equal(patches[1, 5].view(2, 4, 3), images[1, :, 2:4, 8:12].permute(1, 2, 0))


@pytest.mark.parametrize("patch_size, grid", [((4, 4), (4, 4)), ((2, 4), (4, 3)), ((8, 2), (1, 5))])
def test_patches_become_the_image_again(patch_size, grid):
    images = torch.randn(2, 3, grid[0] * patch_size[0], grid[1] * patch_size[1])
    assert torch.equal(unpatchify(patchify(images, patch_size), patch_size, grid), images)


def test_positions_are_the_equation_and_those_of_lightly():
    positions = sin_cos((3, 5), 8).view(3, 5, 8)
    for place, first in [(4, 0), (2, 4)]:  # column 4, then row 2
        angles = [place, place / 100]  # 10000 ** -(k / 2)
        expected = [math.sin(a) for a in angles] + [math.cos(a) for a in angles]
        assert_close(positions[2, 4, first : first + 4], torch.tensor(expected))
    oracle = utils.get_2d_sine_cosine_positional_embedding(24, 7, cls_token=False)
    assert_close(sin_cos((7, 7), 24), torch.from_numpy(oracle).float(), atol=1e-5, rtol=0)


def test_only_masked_patches_count():
    predicted, target = torch.randn(3, 16, 48), torch.randn(3, 16, 48)
    keep = torch.rand(3, 16).argsort(dim=1)[:, :4]
    loss = masked_error(predicted, target, keep)
    kept = keep[:, :, None].expand(-1, -1, 48)
    assert torch.equal(masked_error(predicted.scatter(1, kept, 100.0), target, keep), loss)
    all_but_kept = target.scatter(1, kept, predicted.gather(1, kept))
    assert_close((predicted - all_but_kept).square().mean() * 16 / 12, loss)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_first_block_and_the_rest_are_the_decoder(depth):
    (decoder,), (x, keep), seen = decoders(1, depth), tokens(), []
    decoder.blocks[0].register_forward_hook(lambda module, given, out: seen.append(out))
    whole, first = decoder(x, keep, (4, 4)), decoder.first(x, keep, (4, 4))
    assert torch.equal(first, seen[0]) and first.shape == (6, 1 + 16, 16)
    assert torch.equal(decoder.pixels(first, (4, 4)), whole)


def test_each_image_is_decoded_by_its_domain():
    own, (x, keep), domain = decoders(), tokens(), torch.tensor([2, 0, 1, 0, 2, 2])
    pixels = decode_by_domain(own, domain, x, keep, (4, 4))
    one_by_one = [own[d](x[n : n + 1], keep[n : n + 1], (4, 4)) for n, d in enumerate(domain)]
    assert_close(pixels, torch.cat(one_by_one))


def test_a_decoder_without_images_has_gradients_of_nothing():
    """Of exactly 0, where images of other domains have errors; and never none."""
    own, (x, keep) = decoders(), tokens()
    decode_by_domain(
        own, torch.tensor([2, 0, 0, 0, 2, 2]), x, keep, (4, 4)
    ).square().sum().backward()
    assert all(torch.equal(p.grad, torch.zeros_like(p)) for p in own[1].parameters())
    assert all(p.grad.abs().sum() > 0 for d in (0, 2) for p in own[d].parameters())


def test_what_cannot_work_is_refused():
    with pytest.raises(
        ValueError, match="decoder_dim must be a multiple of 4 and of decoder_heads"
    ):
        Decoder(None, 18, 1, 2)
