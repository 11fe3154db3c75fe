"""DiMAE (Yang et al., "Domain invariant masked autoencoders for self-supervised learning from
multi-domains", 2022). Details from an unofficial repository and from memory: docs/methods/dimae.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from torch import Tensor, nn

from onestyle.methods.base import Batch, Method
from onestyle.nn import masking
from onestyle.nn.decoder import Decoder, decode_by_domain, fix_positions, masked_error, patchify
from onestyle.nn.health import embedding_std
from onestyle.nn.style_mix import mix_styles, refuse_style

if TYPE_CHECKING:
    from timm.models.vision_transformer import VisionTransformer

__all__ = ["DiMAE"]


class DiMAE(Method):
    """A few patches of an image in a mixture of styles are encoded, and the decoder of the image's
    domain predicts the others as they were. With d the domain of x, D_d its decoder, i its masked
    patches:

        mean of (D_d(E(kept patches of mix(x)))_i - x_i)^2
    """

    needs: ClassVar[frozenset[str]] = frozenset({"domain"})
    backbone: VisionTransformer  # pyright: ignore  # narrower than any method's

    def __init__(
        self,
        backbone: nn.Module,
        *,
        n_domains: int,
        mask: float = 0.75,
        style_weight: float = 0.3,
        decoder_dim: int = 512,
        decoder_depth: int = 8,
        decoder_heads: int = 16,
    ):
        masking.check_share(mask)
        if n_domains < 2 or not 0 <= style_weight <= 1:
            legal = "n_domains of 2 or more and a style_weight in [0, 1]"
            raise ValueError(f"DiMAE needs {legal}, got {n_domains} and {style_weight}")
        vit = masking.transformer(backbone, "DiMAE")
        super().__init__(vit)
        fix_positions(vit)
        decoder = decoder_dim, decoder_depth, decoder_heads
        self.decoders = nn.ModuleList(Decoder(vit, *decoder) for _ in range(n_domains))
        self.mask, self.style_weight = mask, style_weight

    @classmethod
    def styles(cls, style: str, n_groups: int) -> tuple[str, ...]:
        """None: the decoder of a domain is to find the domain's style in what it rebuilds."""
        refuse_style(style, "DiMAE")
        return (style,) * n_groups

    def loss(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor | float]]:
        if len(batch.views) != 1 or len(batch.views[0]) != 1:
            n_views = [len(group) for group in batch.views]
            raise ValueError(f"DiMAE needs one view, '1x224 none', got groups of {n_views} views")
        assert batch.domain is not None
        images, domain = batch.views[0][0], batch.domain
        draw = batch.uniform(len(self.decoders))
        mixed = mix_styles(images, domain, draw, self.style_weight)

        rows, columns = masking.grid(self.backbone, images)
        n_keep = masking.n_kept(rows * columns, self.mask)
        keep = masking.choose(batch.uniform(rows * columns), n_keep)
        tokens = masking.encode_patches(self.backbone, mixed, keep)
        predicted = decode_by_domain(self.decoders, domain, tokens, keep, (rows, columns))
        target = patchify(images, self.backbone.patch_embed.patch_size)
        return masked_error(predicted, target, keep), {"embedding_std": embedding_std(tokens[:, 0])}
