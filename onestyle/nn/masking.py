"""A timm vision transformer that sees some of its patches.

Positions are timm's: with `dynamic_img_size` they are resampled (bicubic, antialiased) for images
of another size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from onestyle.torchvision_cpu import make_importable

if TYPE_CHECKING:
    from timm.models.vision_transformer import VisionTransformer

__all__ = ["check_share", "choose", "encode_patches", "grid", "n_kept", "transformer"]


def transformer(backbone: nn.Module, method: str) -> VisionTransformer:
    """The backbone, if its patches can be masked and its features are the class token."""
    make_importable()
    from timm.models.vision_transformer import VisionTransformer

    vit = backbone if isinstance(backbone, VisionTransformer) else None
    if vit is not None and vit.global_pool == "token" and vit.pos_embed is not None:
        return vit
    raise ValueError(
        f"{method} needs a timm VisionTransformer with a class token (global_pool='token') and "
        f"positions (pos_embed), as vit_small_patch16_224 has; got {type(backbone).__name__}"
    )


def grid(vit: VisionTransformer, images: Tensor) -> tuple[int, int]:
    """Rows and columns of patches of (n, 3, h, w)."""
    rows, columns = vit.patch_embed.dynamic_feat_size((images.shape[-2], images.shape[-1]))
    return rows, columns


def check_share(mask: float) -> None:
    """Some patches are to be seen, others to be rebuilt."""
    if not 0 < mask < 1:
        raise ValueError(f"mask is a share of the patches, between 0 and 1, got {mask}")


def n_kept(n_patches: int, drop: float) -> int:
    """The whole patches in a share of 1 - drop of them: 44 of 64 and 100 of 144 at 0.3."""
    kept = int(round(n_patches * (1 - drop), 9))  # 10 patches at 0.9: 0.9999999999999998
    if not 1 <= kept <= n_patches:
        raise ValueError(
            f"a drop of {drop} leaves {kept} of {n_patches} patches; take 0 <= drop < 1"
        )
    return kept


def choose(noise: Tensor, n_keep: int) -> Tensor:
    """Noise (n, L) -> the n_keep patches of each image with the least of it, (n, n_keep)."""
    return noise.argsort(dim=1)[:, :n_keep]


def encode_patches(vit: VisionTransformer, images: Tensor, keep: Tensor | None = None) -> Tensor:
    """(n, 3, h, w) -> tokens (n, prefix + L, d) after the last norm, the class token first.

    keep (n, k): the patches that an image keeps, L = k; each has the position of its place.
    """
    tokens = vit._pos_embed(vit.patch_embed(images))
    if keep is not None:
        prefix, patches = tokens.tensor_split([vit.num_prefix_tokens], dim=1)
        index = keep[:, :, None].expand(-1, -1, patches.shape[-1])
        tokens = torch.cat([prefix, patches.gather(1, index)], dim=1)
    return vit.norm(vit.blocks(vit.norm_pre(tokens)))
