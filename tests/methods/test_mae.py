"""MAE is its equation: only masked patches count, and only kept ones are seen."""

import pytest
import timm
import torch
from lightly.models import utils
from torch.testing import assert_close

from onestyle.methods import Batch
from onestyle.methods.mae import MAE, normalize_patches
from onestyle.nn.decoder import patchify, sin_cos
from onestyle.nn.masking import encode_patches


def vit(**options):
    torch.manual_seed(0)
    tiny = {"img_size": 16, "patch_size": 4, "embed_dim": 24, "depth": 2, "num_heads": 2}
    options = {"dynamic_img_size": True, **tiny, **options}
    return timm.create_model("vit_tiny_patch16_224", num_classes=0, **options)


def mae(backbone=None, **options):
    options = {"decoder_dim": 16, "decoder_depth": 2, "decoder_heads": 2, **options}
    return MAE(backbone or vit(), **options).double()


def batch(n_views=1, n=3, side=16, seed=0):
    generator = torch.Generator().manual_seed(seed)
    views = torch.randn(n_views, n, 3, side, side, dtype=torch.double, generator=generator)
    return Batch([views], torch.arange(n), 0, generator)


@pytest.mark.parametrize("norm_pix", [True, False])
def test_the_loss_is_the_equation(norm_pix):
    """Patch by patch, over those that the step's generator masks, 12 of 16."""
    method = mae(norm_pix=norm_pix)
    loss, _ = method.loss(batch(n_views=2))
    same = batch(n_views=2)
    noise, errors = same.uniform(2, 16), []
    for v in range(2):
        keep = noise[:, v].argsort(dim=1)[:, :4]
        tokens = encode_patches(method.backbone, same.views[0][v], keep)
        predicted = method.decoder(tokens, keep, (4, 4))
        for n in range(3):
            for patch in set(range(16)) - set(keep[n].tolist()):
                y, x = 4 * (patch // 4), 4 * (patch % 4)
                target = same.views[0][v, n, :, y : y + 4, x : x + 4].permute(1, 2, 0).flatten()
                if norm_pix:
                    target = (target - target.mean()) / (target.var() + 1e-6).sqrt()
                errors.append((predicted[n, patch] - target).square().mean())
    assert len(errors) == 2 * 3 * 12
    assert_close(loss, torch.stack(errors).mean())


def test_normalised_patches_are_those_of_lightly():
    patches = torch.randn(2, 16, 48)
    assert_close(normalize_patches(patches), utils.normalize_mean_var(patches))


@pytest.mark.parametrize("options", [{}, {"reg_tokens": 4}, {"no_embed_class": True}])
def test_the_backbones_positions_are_fixed(options):
    """They are in timm's own place, so that the backbone loads into a plain timm model."""
    backbone = vit(**options)
    keys, n_prefix = backbone.state_dict().keys(), backbone.pos_embed.shape[1] - 16
    method = mae(backbone)
    assert method.backbone.state_dict().keys() == keys
    assert not method.backbone.pos_embed.requires_grad
    stored = method.backbone.pos_embed[0].float()
    assert torch.equal(stored, torch.cat([torch.zeros(n_prefix, 24), sin_cos((4, 4), 24)]))
    method.loss(batch())[0].backward()
    missing = [name for name, p in method.named_parameters() if p.requires_grad and p.grad is None]
    assert missing == [] and method.backbone.pos_embed.grad is None


def test_a_masked_patch_is_predicted_from_the_kept_ones_alone():
    method = mae()
    images = batch().views[0][0].requires_grad_()
    keep = torch.tensor([[0, 5, 10, 15]] * 3)
    tokens = encode_patches(method.backbone, images, keep)
    method.decoder(tokens, keep, (4, 4))[:, 1].sum().backward()
    seen = patchify(images.grad, (4, 4)).abs().sum(-1) > 0
    assert torch.equal(seen.nonzero()[:, 1].view(3, 4), keep)


def test_the_decoder_sees_where_a_patch_belongs():
    """Equal mask tokens get unequal pixels, and kept tokens mean other things elsewhere."""
    method, keep = mae(), torch.tensor([[0, 5, 10, 15]] * 3)
    tokens = torch.randn(3, 5, 24).double()
    predicted = method.decoder(tokens, keep, (4, 4))
    masked = predicted[0, [1, 2, 3, 4, 6]]
    assert torch.pdist(masked).min() > 1e-3
    moved = method.decoder(tokens, keep.flip(1), (4, 4))
    assert (moved - predicted)[:, 1].abs().max() > 1e-3
    together = method.decoder(tokens[:, [0, 4, 3, 2, 1]], keep.flip(1), (4, 4))
    assert_close(together, predicted)


def test_every_view_of_every_image_is_masked_anew():
    method, seen = mae(), []
    method.backbone.norm_pre.register_forward_pre_hook(lambda _, x: seen.append(x[0]))
    same = batch(n=1).views[0].expand(5, 20, 3, 16, 16)
    method.loss(Batch([same], torch.arange(20), 0, torch.Generator()))
    assert seen[0].shape == (100, 1 + 4, 24)
    assert seen[0].sum((1, 2)).unique().numel() > 90


def test_another_size_than_the_backbones_own():
    loss, _ = mae().loss(batch(side=24))
    assert loss.isfinite()


def test_autocast_changes_little():
    method, losses = mae().float(), []
    for enabled in (False, True):
        same = batch()
        same.views = [same.views[0].float()]
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            losses.append(method.loss(same)[0])
    full, half = losses
    assert half.dtype == torch.float32 and half != full
    assert_close(half, full, atol=0.03, rtol=0)


def test_features_are_class_tokens():
    method, images = mae(), torch.randn(2, 3, 16, 16).double()
    assert_close(method.features(images), encode_patches(method.backbone, images)[:, 0])


def test_what_cannot_work_is_refused():
    for mask in (0.0, 1.0):
        with pytest.raises(ValueError, match="mask is a share of the patches"):
            mae(mask=mask)
    for wrong in ({"decoder_dim": 18}, {"decoder_dim": 16, "decoder_heads": 3}):
        with pytest.raises(ValueError, match="decoder_dim must be a multiple of 4 and of"):
            mae(**wrong)
    with pytest.raises(ValueError, match="MAE needs a timm VisionTransformer"):
        mae(torch.nn.Identity())
    two = batch()
    two.views = two.views * 2
    with pytest.raises(ValueError, match="MAE needs one group of views, '1x224 none', got 2"):
        mae().loss(two)
