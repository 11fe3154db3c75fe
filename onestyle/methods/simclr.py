"""SimCLR with any number of views (section 3.3 and appendix B of the paper)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from onestyle.methods.base import Batch, Method
from onestyle.nn import world
from onestyle.nn.encode import encode, project
from onestyle.nn.heads import mlp
from onestyle.nn.health import embedding_std
from onestyle.nn.precision import full_precision

__all__ = ["SimCLR", "nt_xent"]


class SimCLR(Method):
    """Views of an image attract each other, all other images repel: those of the same view share
    the anchor's style if every view has one style, so use BSS on all views."""

    def __init__(self, backbone: nn.Module, *, dim: int = 128, temperature: float = 0.5):
        super().__init__(backbone)
        if temperature <= 0:
            raise ValueError(f"temperature must be positive, got {temperature}; the paper's is 0.5")
        width = int(backbone.num_features)  # pyright: ignore
        self.projector = mlp(width, width, dim, last_norm=True)
        self.temperature = temperature

    def loss(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor | float]]:
        z = self.embeddings(batch)
        loss = nt_xent(z, self.temperature)
        return loss, {"embedding_std": embedding_std(z.flatten(0, 1))}

    def embeddings(self, batch: Batch) -> Tensor:
        return project(self.projector, encode(self.backbone, batch.views))


@full_precision
def nt_xent(z: Tensor, temperature: float, *, block: int = 2**24) -> Tensor:
    """Averaged over images c, views s and the other views s' of the image,

        -log(exp(z_cs . z_cs' / T) / sum_{(c'', s'') != (c, s)} exp(z_cs . z_c''s'' / T)).

    z (V, n, D), of unit length: the anchors, compared with all processes' embeddings (V, N, D).
    Beyond `block` similarities, these are made a block at a time, and again in the backward pass.
    """
    n_views, n, _ = z.shape
    if n_views < 2:
        raise ValueError("SimCLR compares the views of an image: the plan needs 2 or more, got 1")
    attraction = ((z.sum(0) - z) * z).sum(-1) / (temperature * (n_views - 1))  # over s' != s

    others = world.gather(z, dim=1)
    own = torch.arange(others[..., 0].numel(), device=z.device).view(others.shape[:2])
    own = own[:, world.share(n)].flatten()  # where an anchor is among the others
    repulsion = _log_sum_exp(z.flatten(0, 1), others.flatten(0, 1), own, temperature, block)
    return repulsion.mean() - attraction.mean()


def _log_sum_exp(z: Tensor, others: Tensor, own: Tensor, temperature: float, block: int) -> Tensor:
    """(m, D) and (M, D) -> (m,): log of the sum of exp(z . others / T) without the anchor's own."""

    def rows(z: Tensor, own: Tensor) -> Tensor:
        similarity = z @ others.T / temperature
        return similarity.scatter_(1, own[:, None], -math.inf).logsumexp(dim=1)

    if len(z) * len(others) <= block:
        return rows(z, own)
    n_rows = max(1, block // len(others))
    parts = zip(z.split(n_rows), own.split(n_rows), strict=True)
    return torch.cat([checkpoint(rows, *part, use_reentrant=False) for part in parts])  # pyright: ignore
