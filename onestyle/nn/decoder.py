"""What rebuilds images from some of their patches: decoder, positions, patches, error."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from onestyle.nn.precision import full_precision

if TYPE_CHECKING:
    from timm.models.vision_transformer import VisionTransformer

__all__ = [
    "Decoder",
    "decode_by_domain",
    "fix_positions",
    "masked_error",
    "patchify",
    "sin_cos",
    "unpatchify",
]


class Decoder(nn.Module):
    """A small transformer from the tokens of the kept patches to the pixels of all patches."""

    def __init__(self, vit: VisionTransformer, dim: int, depth: int, heads: int):
        if dim % 4 or dim % heads:
            legal = f"a multiple of 4 and of decoder_heads, {heads}"
            raise ValueError(f"decoder_dim must be {legal}, got {dim}")
        super().__init__()
        from timm.models.vision_transformer import Block

        norm = partial(nn.LayerNorm, eps=1e-6)
        block = partial(Block, dim, heads, qkv_bias=True, norm_layer=norm)  # pyright: ignore
        rows, columns = vit.patch_embed.patch_size
        self.embed = nn.Linear(vit.num_features, dim)
        self.mask_token = nn.Parameter(0.02 * torch.randn(dim))
        self.blocks, self.norm = nn.Sequential(*(block() for _ in range(depth))), norm(dim)
        self.predict = nn.Linear(dim, 3 * rows * columns)
        self.apply(_initialize)

    def forward(self, tokens: Tensor, keep: Tensor, grid: tuple[int, int]) -> Tensor:
        """(n, prefix + k, d) and the places of the k patches (n, k) -> (n, L, 3 p p)."""
        return self.pixels(self.first(tokens, keep, grid), grid)

    def first(self, tokens: Tensor, keep: Tensor, grid: tuple[int, int]) -> Tensor:
        """The same -> all tokens after the first block (n, prefix + L, dim)."""
        prefix, kept = self.embed(tokens).tensor_split([tokens.shape[1] - keep.shape[1]], dim=1)
        positions = sin_cos(grid, kept.shape[-1], tokens.device)
        patches = self.mask_token.to(kept.dtype).expand(len(kept), *positions.shape)
        patches = patches.scatter(1, keep[:, :, None].expand_as(kept), kept) + positions
        return self.blocks[:1](torch.cat([prefix, patches], dim=1))

    def pixels(self, tokens: Tensor, grid: tuple[int, int]) -> Tensor:
        """From there on: (n, prefix + L, dim) -> (n, L, 3 p p)."""
        decoded = self.norm(self.blocks[1:](tokens))
        return self.predict(decoded[:, -grid[0] * grid[1] :])


def _initialize(module: nn.Module) -> None:
    if isinstance(module, nn.Linear):  # as the official code: timm's 0.02 starts more slowly
        nn.init.xavier_uniform_(module.weight)
        nn.init.zeros_(module.bias)


def decode_by_domain(
    decoders: Iterable[nn.Module],
    domain: Tensor,
    tokens: Tensor,
    keep: Tensor,
    grid: tuple[int, int],
) -> Tensor:
    """Each image (n, prefix + k, d) by the decoder of its domain (n,) -> (n, L, 3 p p).

    A decoder without images has gradients of 0, not none: DDP waits for all of them, everywhere.
    """
    decoders, order = list(decoders), domain.argsort(stable=True)
    counts = torch.bincount(domain, minlength=len(decoders)).tolist()
    parts = zip(decoders, tokens[order].split(counts), keep[order].split(counts), strict=True)
    pixels = torch.cat([decoder(t, k, grid) for decoder, t, k in parts if len(t)])
    idle = [decoder for decoder, count in zip(decoders, counts, strict=True) if not count]
    nothing = 0.0 * sum(p.sum() for decoder in idle for p in decoder.parameters())
    return pixels[order.argsort()] + nothing


@torch.no_grad()
def fix_positions(vit: VisionTransformer) -> None:
    """Sines and cosines in the place of timm's learned positions, never trained."""
    positions = sin_cos(vit.patch_embed.grid_size, vit.num_features)
    stored = vit.pos_embed
    assert stored is not None  # as masking.transformer made sure
    stored.requires_grad_(False).zero_()  # that of the class token stays 0
    stored[0, -len(positions) :] = positions


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


def unpatchify(patches: Tensor, patch_size: tuple[int, int], grid: tuple[int, int]) -> Tensor:
    """The images (n, 3, h, w) that `patchify` made (n, L, 3 p p) of."""
    patches = patches.unflatten(2, (*patch_size, 3)).unflatten(1, grid)  # (n, r, c, p, p, 3)
    return patches.permute(0, 5, 1, 3, 2, 4).flatten(4).flatten(2, 3)


@full_precision
def masked_error(predicted: Tensor, target: Tensor, keep: Tensor) -> Tensor:
    """Mean squared error of the patches (n, L, 3 p p) that were not kept, keep (n, k)."""
    error = (predicted - target).square().mean(-1)
    masked = torch.ones_like(error).scatter(1, keep, 0.0)
    return (error * masked).sum() / masked.sum()
