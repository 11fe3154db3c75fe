"""MAE (He et al., "Masked autoencoders are scalable vision learners", 2022)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from onestyle.methods.base import Batch, Method
from onestyle.nn import masking
from onestyle.nn.decoder import Decoder, fix_positions, masked_error, patchify
from onestyle.nn.health import embedding_std
from onestyle.nn.precision import full_precision

if TYPE_CHECKING:
    from timm.models.vision_transformer import VisionTransformer

__all__ = ["MAE", "normalize_patches"]


class MAE(Method):
    """A few patches are encoded, and a decoder predicts the pixels of the others."""

    backbone: VisionTransformer  # pyright: ignore  # narrower than any method's

    def __init__(
        self,
        backbone: nn.Module,
        *,
        mask: float = 0.75,
        norm_pix: bool = True,
        decoder_dim: int = 512,
        decoder_depth: int = 8,
        decoder_heads: int = 16,
    ):
        masking.check_share(mask)
        vit = masking.transformer(backbone, "MAE")
        super().__init__(vit)
        fix_positions(vit)
        self.decoder = Decoder(vit, decoder_dim, decoder_depth, decoder_heads)
        self.mask, self.norm_pix = mask, norm_pix

    def loss(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor | float]]:
        if len(batch.views) != 1:
            raise ValueError(f"MAE needs one group of views, '1x224 none', got {len(batch.views)}")
        images = batch.views[0].flatten(0, 1)  # (V n, 3, s, s)
        rows, columns = masking.grid(self.backbone, images)
        noise = batch.uniform(len(batch.views[0]), rows * columns)  # (n, V, L)
        n_keep = masking.n_kept(rows * columns, self.mask)
        keep = masking.choose(noise.transpose(0, 1).flatten(0, 1), n_keep)

        tokens = masking.encode_patches(self.backbone, images, keep)
        predicted = self.decoder(tokens, keep, (rows, columns))
        target = patchify(images, self.backbone.patch_embed.patch_size)
        target = normalize_patches(target) if self.norm_pix else target
        return masked_error(predicted, target, keep), {"embedding_std": embedding_std(tokens[:, 0])}


@full_precision
def normalize_patches(patches: Tensor) -> Tensor:
    """Each patch (..., 3 p p) with mean 0 and variance 1: what is left to predict is structure."""
    variance, mean = torch.var_mean(patches, dim=-1, keepdim=True)
    return (patches - mean) / (variance + 1e-6).sqrt()
