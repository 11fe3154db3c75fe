"""CycleMAE is its equation: three terms, and no way back from the cycle into the first images."""

import math
from dataclasses import replace

import pytest
import timm
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from onestyle.methods import Batch
from onestyle.methods.cyclemae import CycleMAE, domain_contrast
from onestyle.nn.decoder import masked_error, patchify, unpatchify
from onestyle.nn.masking import encode_patches
from onestyle.nn.style_mix import mix_styles

DOMAIN = (0, 1, 2, 0, 1)
S, N = 3, len(DOMAIN)


def cyclemae(**options):
    torch.manual_seed(0)
    tiny = {"img_size": 16, "patch_size": 4, "embed_dim": 24, "depth": 2, "num_heads": 2}
    vit = timm.create_model("vit_tiny_patch16_224", num_classes=0, dynamic_img_size=True, **tiny)
    options = {"n_domains": S, "decoder_dim": 16, "decoder_depth": 2, "decoder_heads": 2, **options}
    return CycleMAE(vit, **options).double()


def batch(seed=0):
    generator = torch.Generator().manual_seed(seed)
    views = torch.randn(1, N, 3, 16, 16, dtype=torch.double, generator=generator)
    return Batch([views], torch.arange(N), 0, generator, domain=torch.tensor(DOMAIN))


def literal(method, same, cut=torch.Tensor.detach):
    """Reconstruction, cycle and contrast, every decoder on every image, image by image."""
    x, domain = same.views[0][0], same.domain
    mixed, target = mix_styles(x, domain, same.uniform(S), 0.3), patchify(x, (4, 4))
    keep = same.uniform(1 + S, 16).argsort(dim=2)[:, :, :4]
    decode = [lambda z, k, d=d: method.decoders[d](z, k, (4, 4)) for d in range(S)]

    def error_of_own(z, k):
        own = [decode[d](z[n : n + 1], k[n : n + 1]) for n, d in enumerate(DOMAIN)]
        return masked_error(torch.cat(own), target, k)

    z, features = encode_patches(method.backbone, mixed, keep[:, 0]), []
    for decoder in method.decoders:
        hook = decoder.blocks[0].register_forward_hook(lambda m, given, out: features.append(out))
        decoder(z, keep[:, 0], (4, 4))
        hook.remove()
    drawn = [unpatchify(cut(decode[i](z, keep[:, 0])), (4, 4), (4, 4)) for i in range(S)]
    again = [encode_patches(method.backbone, y, keep[:, 1 + i]) for i, y in enumerate(drawn)]
    cycle = sum(error_of_own(z_i, keep[:, 1 + i]) for i, z_i in enumerate(again))
    u = [F.normalize(f.mean(1), dim=-1) for f in features]
    return error_of_own(z, keep[:, 0]), cycle, contrast_of(u, 0.1)


def contrast_of(u, temperature):
    """Anchor by anchor, positive by positive."""
    n_decoders, terms = len(u), []
    for i in range(n_decoders):
        for n in range(len(u[i])):
            e = [[torch.exp(u[i][n] @ v / temperature) for v in u[j]] for j in range(n_decoders)]
            others = sum(sum(e[j]) for j in range(n_decoders) if j != i)
            terms += [-(e[i][m] / (e[i][m] + others)).log() for m in range(len(u[i])) if m != n]
    return torch.stack(terms).mean()


def gradients(method, loss):
    trained = [p for p in method.parameters() if p.requires_grad]
    return torch.autograd.grad(loss, trained)


@pytest.mark.parametrize("weights", [(2.0, 2.0), (0.7, 0.0), (0.0, 1.3)])
def test_the_loss_is_the_equation_and_so_is_its_gradient(weights):
    method = cyclemae(cycle_weight=weights[0], contrast_weight=weights[1])
    loss, told = method.loss(batch())
    error, cycle, contrast = literal(method, batch())
    expected = error + weights[0] * cycle + weights[1] * contrast
    assert_close(loss, expected)
    assert_close(gradients(method, loss), gradients(method, expected))
    parts = told["reconstruction"], told["cycle"], told["domain_contrast"]
    assert_close(parts, (error.detach(), cycle.detach(), contrast.detach()))


def test_the_cycle_does_not_reach_the_first_images():
    """As gradients would if the images were not cut off: then they differ."""
    method = cyclemae(cycle_weight=1.0, contrast_weight=0.0)
    ours = gradients(method, method.loss(batch())[0])
    open_ = literal(method, batch(), cut=lambda y: y)
    through = gradients(method, open_[0] + open_[1])
    assert any((a - b).abs().max() > 1e-4 for a, b in zip(ours, through, strict=True))
    keep = torch.arange(4).expand(N, 4)
    tokens = encode_patches(method.backbone, batch().views[0][0], keep)
    drawn, seen = method._by_every_decoder(tokens, keep, (4, 4))
    assert drawn.shape == (S * N, 3, 16, 16) and seen.shape == (S, N, 16)
    assert not drawn.requires_grad and seen.requires_grad


def test_a_cycle_trains_the_decoder_of_the_images_domain_alone():
    """In both passes: without contrast a decoder learns nothing from other domains' images, be it
    that they were drawn by itself."""
    method, same = cyclemae(contrast_weight=0.0), batch()
    method.loss(replace(same, domain=torch.tensor([0, 1, 1, 0, 1])))[0].backward()
    assert all(torch.equal(p.grad, torch.zeros_like(p)) for p in method.decoders[2].parameters())


def test_every_pass_is_masked_anew():
    masks = cyclemae()._masks(batch(), (4, 4))
    assert len(masks) == 1 + S and all(mask.shape == (N, 4) for mask in masks)
    assert len({tuple(mask.flatten().tolist()) for mask in masks}) == 1 + S


def unit(*shape):
    return F.normalize(torch.randn(*shape, dtype=torch.double), dim=-1)


@pytest.mark.parametrize("shape", [(2, 2, 5), (3, 4, 6)])
@pytest.mark.parametrize("temperature", [0.1, 1.0])
def test_the_contrast_is_the_equation(shape, temperature):
    u = unit(*shape).requires_grad_()
    ours, theirs = domain_contrast(u, temperature), contrast_of(u, temperature)
    assert_close(ours, theirs)
    assert_close(*(torch.autograd.grad(loss, u)[0] for loss in (ours, theirs)))


@pytest.mark.parametrize("n_decoders, n", [(2, 5), (3, 4)])
def test_chance_and_floor_of_the_contrast(n_decoders, n):
    """Equal features: ln(1 + (S - 1) N). A direction for each decoder: ln(1 + (S - 1) N e^-1/T)."""
    same = unit(1, 1, 8).expand(n_decoders, n, 8)
    chance = math.log(1 + (n_decoders - 1) * n)
    assert_close(domain_contrast(same, 0.1), torch.tensor(chance).double())
    apart = torch.eye(n_decoders, 8).double()[:, None].expand(n_decoders, n, 8)
    floor = math.log1p((n_decoders - 1) * n * math.exp(-2))
    assert_close(domain_contrast(apart, 0.5), torch.tensor(floor).double())


def test_half_precision_is_contrasted_in_single():
    u = unit(2, 6, 8).bfloat16()
    assert torch.equal(domain_contrast(u, 0.1), domain_contrast(u.float(), 0.1))


def test_what_cannot_work_is_refused():
    with pytest.raises(ValueError, match="mask is a share of the patches"):
        cyclemae(mask=0.0)
    for wrong in ({"n_domains": 1}, {"style_weight": -0.5}, {"temperature": 0.0}):
        with pytest.raises(ValueError, match="CycleMAE needs n_domains of 2 or more, a style_w"):
            cyclemae(**wrong)
    with pytest.raises(ValueError, match="CycleMAE needs a timm VisionTransformer"):
        CycleMAE(torch.nn.Identity(), n_domains=2)
    with pytest.raises(ValueError, match="CycleMAE needs one view, '1x224 none', got groups of"):
        cyclemae().loss(replace(batch(), views=batch().views * 2))
