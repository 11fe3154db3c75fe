"""MAE (He et al., "Masked autoencoders are scalable vision learners", 2022)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from onestyle.methods.base import Batch, Method
from onestyle.nn import masking
from onestyle.nn.health import embedding_std
from onestyle.nn.precision import full_precision

if TYPE_CHECKING:
    from timm.models.vision_transformer import VisionTransformer

__all__ = ["MAE", "Decoder", "masked_error", "normalize_patches", "patchify", "sin_cos"]


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
        if not 0 < mask < 1:
            raise ValueError(f"mask is a share of the patches, between 0 and 1, got {mask}")
        if decoder_dim % 4 or decoder_dim % decoder_heads:
            legal = f"a multiple of 4 and of decoder_heads, {decoder_heads}"
            raise ValueError(f"decoder_dim must be {legal}, got {decoder_dim}")
        vit = masking.transformer(backbone, "MAE")
        super().__init__(vit)
        self._fix_positions()
        rows, columns = vit.patch_embed.patch_size
        pixels = 3 * rows * columns
        self.decoder = Decoder(vit.num_features, pixels, decoder_dim, decoder_depth, decoder_heads)
        self.mask, self.norm_pix = mask, norm_pix

    @torch.no_grad()
    def _fix_positions(self) -> None:
        """Sines and cosines in the place of timm's learned positions, never trained."""
        positions = sin_cos(self.backbone.patch_embed.grid_size, self.backbone.num_features)
        stored = self.backbone.pos_embed
        assert stored is not None  # as masking.transformer made sure
        stored.requires_grad_(False).zero_()  # that of the class token stays 0
        stored[0, -len(positions) :] = positions

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


class Decoder(nn.Module):
    """A small transformer from the tokens of the kept patches to the pixels of all patches."""

    def __init__(self, width: int, pixels: int, dim: int, depth: int, heads: int):
        super().__init__()
        from timm.models.vision_transformer import Block

        norm = partial(nn.LayerNorm, eps=1e-6)
        block = partial(Block, dim, heads, qkv_bias=True, norm_layer=norm)  # pyright: ignore
        self.embed = nn.Linear(width, dim)
        self.mask_token = nn.Parameter(0.02 * torch.randn(dim))
        self.blocks, self.norm = nn.Sequential(*(block() for _ in range(depth))), norm(dim)
        self.predict = nn.Linear(dim, pixels)
        self.apply(_initialize)

    def forward(self, tokens: Tensor, keep: Tensor, grid: tuple[int, int]) -> Tensor:
        """(n, prefix + k, d) and the places of the k patches (n, k) -> (n, L, pixels)."""
        prefix, kept = self.embed(tokens).tensor_split([tokens.shape[1] - keep.shape[1]], dim=1)
        positions = sin_cos(grid, kept.shape[-1], tokens.device)
        patches = self.mask_token.to(kept.dtype).expand(len(kept), *positions.shape)
        patches = patches.scatter(1, keep[:, :, None].expand_as(kept), kept) + positions
        decoded = self.norm(self.blocks(torch.cat([prefix, patches], dim=1)))
        return self.predict(decoded[:, prefix.shape[1] :])


def _initialize(module: nn.Module) -> None:
    if isinstance(module, nn.Linear):  # as the official code: timm's 0.02 starts more slowly
        nn.init.xavier_uniform_(module.weight)
        nn.init.zeros_(module.bias)


def sin_cos(grid: tuple[int, int], dim: int, device: torch.device | None = None) -> Tensor:
    """Positions (rows * columns, dim): sines and cosines of the column, then those of the row.

    dim / 4 frequencies, from 1 down to 1 / 10000 (Vaswani et al., 2017), for each.
    """
    frequencies = 10000 ** -(torch.arange(dim // 4, device=device) * 4 / dim)
    row, column = (torch.arange(n, device=device)[:, None] * frequencies for n in grid)
    row = row.repeat_interleave(grid[1], dim=0)
    column = column.repeat(grid[0], 1)
    return torch.cat([column.sin(), column.cos(), row.sin(), row.cos()], dim=1)


def patchify(images: Tensor, patch_size: tuple[int, int]) -> Tensor:
    """(n, 3, h, w) -> (n, L, 3 p p), the patches row by row, each as (p, p, 3)."""
    rows, columns = patch_size
    patches = images.unflatten(3, (-1, columns)).unflatten(2, (-1, rows))  # (n, 3, r, p, c, p)
    return patches.permute(0, 2, 4, 3, 5, 1).flatten(3).flatten(1, 2)


@full_precision
def normalize_patches(patches: Tensor) -> Tensor:
    """Each patch (..., 3 p p) with mean 0 and variance 1: what is left to predict is structure."""
    variance, mean = torch.var_mean(patches, dim=-1, keepdim=True)
    return (patches - mean) / (variance + 1e-6).sqrt()


@full_precision
def masked_error(predicted: Tensor, target: Tensor, keep: Tensor) -> Tensor:
    """Mean squared error of the patches (n, L, 3 p p) that were not kept, keep (n, k)."""
    error = (predicted - target).square().mean(-1)
    masked = torch.ones_like(error).scatter(1, keep, 0.0)
    return (error * masked).sum() / masked.sum()
