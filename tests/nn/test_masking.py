"""A transformer with some of its patches: the same tokens, at the places that they come from."""

import pytest
import timm
import torch
from torch.testing import assert_close

from onestyle.nn import masking
from onestyle.nn.masking import choose, encode_patches, n_kept


def vit(name="vit_tiny_patch16_224", **options):
    torch.manual_seed(0)
    tiny = {"img_size": 32, "patch_size": 8, "embed_dim": 24, "depth": 2, "num_heads": 2}
    options = {"dynamic_img_size": True, **tiny, **options}
    return timm.create_model(name, num_classes=0, **options).double().eval()


def images(n=3, side=32):
    return torch.randn(n, 3, side, side, dtype=torch.double)


def permuted(n=3, n_patches=16):
    return torch.rand(n, n_patches).argsort(dim=1)


KINDS = {
    "class token": {},
    "registers": {"reg_tokens": 4},
    "registers without positions": {"reg_tokens": 4, "no_embed_class": True},
    "norm first": {"pre_norm": True},
}


@pytest.mark.parametrize("options", KINDS.values(), ids=list(KINDS))
def test_unmasked_it_is_timms_forward(options):
    network, x = vit(**options), images()
    assert_close(encode_patches(network, x), network.forward_features(x))
    assert_close(encode_patches(network, x)[:, 0], network(x))


@pytest.mark.parametrize("options", KINDS.values(), ids=list(KINDS))
def test_patches_keep_the_position_of_their_place(options):
    """A transformer sees a set: all patches in another order give the same tokens, reordered."""
    network, x, keep = vit(**options), images(), permuted()
    prefix = network.num_prefix_tokens
    tokens = encode_patches(network, x)
    expected = torch.stack([t[prefix:][k] for t, k in zip(tokens, keep, strict=True)])
    shuffled = encode_patches(network, x, keep)
    assert_close(shuffled, torch.cat([tokens[:, :prefix], expected], dim=1))


def test_what_is_dropped_is_not_seen():
    network, x, keep = vit(), images(), permuted()[:, :5]
    changed = torch.randn_like(x)
    for image, other, kept in zip(changed, x, keep.tolist(), strict=True):
        for row, column in (divmod(k, 4) for k in kept):
            here = (..., slice(8 * row, 8 * row + 8), slice(8 * column, 8 * column + 8))
            image[here] = other[here]
    tokens = encode_patches(network, x, keep)
    assert tokens.shape == (3, 6, 24)
    assert_close(encode_patches(network, changed, keep), tokens)


def test_96_and_64_pixels_at_patches_of_8():
    network = vit(img_size=96)
    assert masking.grid(network, images(side=96)) == (12, 12)
    assert masking.grid(network, images(side=64)) == (8, 8)
    assert [n_kept(144, 0.3), n_kept(64, 0.3)] == [100, 44]
    assert encode_patches(network, images(side=64)).shape == (3, 65, 24)


def test_positions_of_a_smaller_image_are_resampled():
    """Positions that rise along x and y still do, over the 8 x 8 patches, from the same range."""
    network = vit(img_size=96)
    ramp = torch.linspace(0, 1, 12).double()
    with torch.no_grad():
        network.pos_embed.zero_()
        network.pos_embed[0, 1:, 0] = ramp.repeat_interleave(12)
        network.pos_embed[0, 1:, 1] = ramp.repeat(12)
        network.cls_token.zero_()
    added = network._pos_embed(torch.zeros(1, 8, 8, 24).double())[0, 1:].unflatten(0, (8, 8))
    even = (torch.arange(8).double() * 1.5 + 0.25) / 11  # centres of pixels 12 / 8 as large
    assert_close(added[1:-1, 0, 0], even[1:-1], atol=0.01, rtol=0)
    assert_close(added[0, 1:-1, 1], even[1:-1], atol=0.01, rtol=0)
    assert_close(added[:, :, 0], added[:, :, 1].T)


@pytest.mark.parametrize("n_patches", [10, 49, 196])
@pytest.mark.parametrize("drop", [0.0, 0.1, 0.3, 0.5, 0.75, 0.9])
def test_a_share_is_rounded_down(n_patches, drop):
    percent = round(100 * drop)
    assert n_kept(n_patches, drop) == n_patches * (100 - percent) // 100


def test_patches_are_chosen_by_their_noise():
    noise = torch.rand(500, 9)
    keep = choose(noise, 4)
    assert all(len(set(row)) == 4 for row in keep.tolist())
    left = noise.scatter(1, keep, torch.inf)
    assert (noise.gather(1, keep).amax(dim=1) < left.amin(dim=1)).all()
    share = torch.bincount(keep.flatten(), minlength=9) / 500
    assert_close(share, torch.full((9,), 4 / 9), atol=0.1, rtol=0)


@pytest.mark.parametrize("drop", [1.0, 0.99, -0.2])
def test_a_drop_that_leaves_nothing_is_refused(drop):
    with pytest.raises(ValueError, match=r"drop of .* leaves .* of 16 patches"):
        n_kept(16, drop)


def test_other_networks_are_refused():
    for other in (torch.nn.Identity(), vit(global_pool="avg"), vit(pos_embed="none")):
        with pytest.raises(
            ValueError, match="MAE needs a timm VisionTransformer with a class token"
        ):
            masking.transformer(other, "MAE")
