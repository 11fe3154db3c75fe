"""DiMAE is its equation; a decoder learns from its own domain alone, wherever the images lie."""

from dataclasses import replace

import pytest
import timm
import torch
from torch.testing import assert_close

from onestyle.checkpoint import read_weights
from onestyle.cli import main
from onestyle.methods import Batch
from onestyle.methods.dimae import DiMAE
from onestyle.nn import masking, world
from onestyle.nn.backbone import make_backbone
from onestyle.nn.style_mix import mix_styles
from tests.methods.cases import make_batch, make_method, make_optimizers, train_step
from tests.processes import run

DOMAIN = (0, 1, 2, 0, 1, 2, 1)


def vit():
    tiny = {"img_size": 16, "patch_size": 4, "embed_dim": 24, "depth": 2, "num_heads": 2}
    return timm.create_model("vit_tiny_patch16_224", num_classes=0, dynamic_img_size=True, **tiny)


def dimae(**options):
    torch.manual_seed(0)
    options = {"n_domains": 3, "decoder_dim": 16, "decoder_depth": 2, "decoder_heads": 2, **options}
    return DiMAE(vit(), **options).double()


def batch(domain=DOMAIN, seed=0):
    generator, n = torch.Generator().manual_seed(seed), len(domain)
    views = torch.randn(1, n, 3, 16, 16, dtype=torch.double, generator=generator)
    return Batch([views], torch.arange(n), 0, generator, domain=torch.tensor(domain))


def test_the_loss_is_the_equation():
    """Image by image, patch by patch: seen is the mixture, rebuilt are the pixels as they were."""
    method = dimae()
    loss, _ = method.loss(batch())
    same, errors = batch(), []
    images = same.views[0][0]
    mixed = mix_styles(images, same.domain, same.uniform(3), 0.3)
    keep = same.uniform(16).argsort(dim=1)[:, :4]
    for n, d in enumerate(DOMAIN):
        one = slice(n, n + 1)
        tokens = masking.encode_patches(method.backbone, mixed[one], keep[one])
        predicted = method.decoders[d](tokens, keep[one], (4, 4))[0]
        for patch in set(range(16)) - set(keep[n].tolist()):
            y, x = 4 * (patch // 4), 4 * (patch % 4)
            target = images[n, :, y : y + 4, x : x + 4].permute(1, 2, 0).flatten()
            errors.append((predicted[patch] - target).square().mean())
    assert len(errors) == 7 * 12
    assert_close(loss, torch.stack(errors).mean())
    assert not torch.allclose(mixed, images, atol=0.1)


def test_a_decoder_learns_from_its_own_domain_alone():
    """Other images of domain 0 leave the gradients of the decoders 1 and 2 as they are, to the
    bit; without them it has one of exactly 0. (No styles are mixed: that would carry them over.)"""
    gradients = []
    for other in (0.0, 1.0):
        method, same = dimae(style_weight=0.0), batch()
        same.views[0][0, [0, 3]] += other
        method.loss(same)[0].backward()
        gradients.append([[p.grad for p in decoder.parameters()] for decoder in method.decoders])
    (zero, *others), (moved, *after) = gradients
    assert_close(after, others, rtol=0, atol=0)
    assert not any(torch.equal(a, b) for a, b in zip(zero, moved, strict=True))
    method = dimae()
    method.loss(batch((1, 2, 2, 1)))[0].backward()
    assert all(torch.equal(p.grad, torch.zeros_like(p)) for p in method.decoders[0].parameters())


@pytest.mark.parametrize("name", ["dimae", "cyclemae"])
@pytest.mark.parametrize("domain", [(0, 0, 0, 0), (1, 0, 0, 0), (0, 1, 1, 1)])
def test_a_domain_may_be_missing(name, domain):
    """In a whole batch: gradients of 0, never none, and the loss is finite."""
    method, few = make_method(name, n_domains=3), make_batch(name, n_images=4)
    loss, _ = method(replace(few, domain=torch.tensor(domain)))
    loss.backward()
    assert loss.isfinite()
    assert all(p.grad is not None for p in method.parameters() if p.requires_grad)
    last = [p.grad for p in [*method.decoders[2].predict.parameters()]]
    assert all(torch.equal(grad, torch.zeros_like(grad)) for grad in last)


def steps_apart(name):
    """Two steps on a batch whose first half is of domain 0, the second of domain 1."""
    method = make_method(name, dtype=torch.float64)
    optimizers, losses, gradients = make_optimizers(method), [], {}
    for step in range(2):
        half = make_batch(name, step, dtype=torch.float64)
        whole = torch.arange(8) // 4
        half.domain = whole[world.share(len(half.places))]
        losses.append(train_step(method, optimizers, half))
        gradients |= {(step, k): p.grad.clone() for k, p in trained(method)}
    return torch.stack(losses), gradients, dict(method.state_dict())


def trained(method):
    return [(name, p) for name, p in method.named_parameters() if p.requires_grad]


@pytest.mark.parametrize("name", ["dimae", "cyclemae"])
def test_domains_may_lie_in_different_processes(name):
    """Neither process has images of both, each decoder has a gradient in both: as in one."""
    alone = steps_apart(name)
    for found in run(steps_apart, 2, name):
        assert_close(found, alone, rtol=1e-7, atol=1e-9)


def test_only_the_backbone_is_kept_and_its_features_are_class_tokens():
    method, images = dimae(), torch.randn(2, 3, 16, 16).double()
    assert method.backbone.state_dict().keys() == vit().state_dict().keys()
    assert_close(method.features(images), masking.encode_patches(method.backbone, images)[:, 0])


def test_it_begins_from_weights_in_the_official_layout(tmp_path):
    """A torch file with the encoder below "model": its weights are taken as they are, positions,
    which are sines and cosines in both, included."""
    name, options = "test_vit", {"patch_size": 8}
    official = make_method("mae", seed=5).backbone.state_dict()
    torch.save({"model": official}, tmp_path / "mae_pretrain.pth")
    backbone = make_backbone(name, 32, options=options, init=str(tmp_path / "mae_pretrain.pth"))
    method = DiMAE(backbone, n_domains=2, decoder_dim=16, decoder_depth=1, decoder_heads=2)
    assert_close(dict(method.backbone.state_dict()), read_weights(tmp_path / "mae_pretrain.pth"))


def test_data_of_one_domain_are_refused(tmp_path, capsys):
    words = ["pretrain", "digits/dimae", "--sources", "ink", "--out", str(tmp_path / "run")]
    assert main(words) == 2
    said = capsys.readouterr().err
    assert "dimae needs images of two domains or more, with their names" in said
    assert not (tmp_path / "run").exists()


def test_what_cannot_work_is_refused(capsys):
    with pytest.raises(ValueError, match="mask is a share of the patches"):
        dimae(mask=1.0)
    for wrong in ({"n_domains": 1}, {"style_weight": 1.5}):
        with pytest.raises(ValueError, match="DiMAE needs n_domains of 2 or more and a style_w"):
            dimae(**wrong)
    with pytest.raises(ValueError, match="DiMAE needs a timm VisionTransformer"):
        DiMAE(torch.nn.Identity(), n_domains=2)
    for views in ([batch().views[0]] * 2, [batch().views[0].repeat(2, 1, 1, 1, 1)]):
        with pytest.raises(ValueError, match="DiMAE needs one view, '1x224 none', got groups of"):
            dimae().loss(replace(batch(), views=views))
    assert main(["pretrain", "digits/dimae", "--style", "bss", "--print-recipe"]) == 2
    assert "style bss is not for DiMAE, which rebuilds" in capsys.readouterr().err
