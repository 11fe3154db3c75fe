"""CycleMAE (Yang et al., "Cycle-consistent masked autoencoder for unsupervised domain
generalization", 2023). Details from an unofficial repository and from memory:
docs/methods/cyclemae.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from onestyle.methods.base import Batch, Method
from onestyle.nn import masking, world
from onestyle.nn.decoder import (
    Decoder,
    decode_by_domain,
    fix_positions,
    masked_error,
    patchify,
    unpatchify,
)
from onestyle.nn.encode import unit
from onestyle.nn.health import embedding_std
from onestyle.nn.precision import full_precision
from onestyle.nn.style_mix import mix_styles, refuse_style

if TYPE_CHECKING:
    from timm.models.vision_transformer import VisionTransformer

__all__ = ["CycleMAE", "domain_contrast"]


class CycleMAE(Method):
    """DiMAE, whose images then go around: drawn by the decoder of every domain, encoded again, and
    rebuilt by that of their own. With z = E(kept patches of mix(x)), y_i = D_i(z), d the domain of
    x and |.|^2 the error of the masked patches, masked anew each time:

        |D_d(z) - x|^2  +  2 sum_i |D_d(E(kept patches of sg(y_i))) - x|^2  +  2 domain_contrast
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
        cycle_weight: float = 2.0,
        contrast_weight: float = 2.0,
        temperature: float = 0.1,
        decoder_dim: int = 512,
        decoder_depth: int = 8,
        decoder_heads: int = 16,
    ):
        masking.check_share(mask)
        if n_domains < 2 or not 0 <= style_weight <= 1 or temperature <= 0:
            legal = "n_domains of 2 or more, a style_weight in [0, 1] and a positive temperature"
            given = f"{n_domains}, {style_weight} and {temperature}"
            raise ValueError(f"CycleMAE needs {legal}, got {given}")
        vit = masking.transformer(backbone, "CycleMAE")
        super().__init__(vit)
        fix_positions(vit)
        decoder = decoder_dim, decoder_depth, decoder_heads
        self.decoders = nn.ModuleList(Decoder(vit, *decoder) for _ in range(n_domains))
        self.mask, self.style_weight, self.temperature = mask, style_weight, temperature
        self.cycle_weight, self.contrast_weight = cycle_weight, contrast_weight

    @classmethod
    def styles(cls, style: str, n_groups: int) -> tuple[str, ...]:
        """None: the decoder of a domain is to find the domain's style in what it rebuilds."""
        refuse_style(style, "CycleMAE")
        return (style,) * n_groups

    def loss(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor | float]]:
        if len(batch.views) != 1 or len(batch.views[0]) != 1:
            n_views = [len(group) for group in batch.views]
            raise ValueError(f"CycleMAE needs one view, '1x224 none', got groups of {n_views}")
        assert batch.domain is not None
        images, domain, n_domains = batch.views[0][0], batch.domain, len(self.decoders)
        mixed = mix_styles(images, domain, batch.uniform(n_domains), self.style_weight)
        grid = masking.grid(self.backbone, images)
        first, *others = self._masks(batch, grid)
        target = patchify(images, self.backbone.patch_embed.patch_size)

        tokens = masking.encode_patches(self.backbone, mixed, first)
        rebuilt = decode_by_domain(self.decoders, domain, tokens, first, grid)
        error = masked_error(rebuilt, target, first)
        drawn, seen = self._by_every_decoder(tokens, first, grid)
        cycle = n_domains * self._error_of(drawn, domain, torch.cat(others), target)
        contrast = domain_contrast(unit(seen), self.temperature)
        return error + self.cycle_weight * cycle + self.contrast_weight * contrast, {
            "reconstruction": error.detach(),
            "cycle": cycle.detach(),
            "domain_contrast": contrast.detach(),
            "embedding_std": embedding_std(tokens[:, 0]),
        }

    def _masks(self, batch: Batch, grid: tuple[int, int]) -> tuple[Tensor, ...]:
        """The patches that are kept (n, k): of the mixture, then of each decoder's image."""
        n_patches = grid[0] * grid[1]
        noise = batch.uniform(1 + len(self.decoders), n_patches)
        n_keep = masking.n_kept(n_patches, self.mask)
        return tuple(masking.choose(noise[:, k], n_keep) for k in range(noise.shape[1]))

    def _by_every_decoder(
        self, tokens: Tensor, keep: Tensor, grid: tuple[int, int]
    ) -> tuple[Tensor, Tensor]:
        """The images of all S decoders, one after the other, without a way back (S n, 3, s, s);
        and with it what their first blocks see, the mean over the tokens (S, n, dim)."""
        firsts = [decoder.first(tokens, keep, grid) for decoder in self.decoders]  # pyright: ignore
        with torch.no_grad():
            pairs = zip(self.decoders, firsts, strict=True)
            patches = torch.cat([decoder.pixels(f, grid) for decoder, f in pairs])  # pyright: ignore
        images = unpatchify(patches, self.backbone.patch_embed.patch_size, grid)
        return images, torch.stack([f.mean(1) for f in firsts])

    def _error_of(self, drawn: Tensor, domain: Tensor, keep: Tensor, target: Tensor) -> Tensor:
        """|D_d(E(kept patches of y)) - x|^2, the mean over images y (S n, 3, s, s) of x (n, ..)."""
        n_domains, grid = len(self.decoders), masking.grid(self.backbone, drawn)
        tokens = masking.encode_patches(self.backbone, drawn, keep)
        rebuilt = decode_by_domain(self.decoders, domain.repeat(n_domains), tokens, keep, grid)
        return masked_error(rebuilt, target.repeat(n_domains, 1, 1), keep)


@full_precision
def domain_contrast(u: Tensor, temperature: float) -> Tensor:
    """What decoder i sees of image n is like what it sees of m, and unlike what others see:

        -log( e(im) / (e(im) + sum over j != i and k of e(jk)) ),  e(jk) = exp(u_in . u_jk / T)

    averaged over decoders i and images n, m != n: unit u (S, n, D), m and k of all processes.
    """
    n_decoders, n = u.shape[:2]
    everyone = world.gather(u, dim=1)
    logits = torch.einsum("ind,jmd->ijnm", u, everyone) / temperature
    same = torch.eye(n_decoders, dtype=torch.bool, device=u.device)[:, :, None, None]
    others = logits.masked_fill(same, -torch.inf).logsumexp((1, 3))  # (S, n)
    terms = F.softplus(others[:, :, None] - logits.diagonal().permute(2, 0, 1))  # (S, n, N)
    itself = torch.eye(terms.shape[2], dtype=torch.bool, device=u.device)[world.share(n)]
    return terms[:, ~itself].mean()
