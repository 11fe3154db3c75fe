"""BYOL (Grill et al., "Bootstrap your own latent", 2020): nothing repels, and nothing collapses."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from onestyle.methods.base import Batch, Method
from onestyle.nn.ema import ema_copy, ema_update
from onestyle.nn.encode import encode, project
from onestyle.nn.heads import mlp
from onestyle.nn.health import embedding_std
from onestyle.nn.precision import full_precision

__all__ = ["BYOL", "momentum_at", "regression"]


class BYOL(Method):
    """From each view a predictor guesses what a slow teacher makes of the image's other views.

    The teacher has BatchNorm statistics of its own: those of the batch while it trains, and its own
    running ones; only its parameters follow the student's.
    """

    def __init__(
        self,
        backbone: nn.Module,
        *,
        dim: int = 256,
        hidden_dim: int = 4096,
        momentum: float = 0.996,
    ):
        super().__init__(backbone)
        if not 0 <= momentum <= 1:
            raise ValueError(f"momentum must be in [0, 1], got {momentum}; BYOL begins with 0.996")
        self.projector = mlp(int(backbone.num_features), hidden_dim, dim)  # pyright: ignore
        self.predictor = mlp(dim, hidden_dim, dim)
        self.teacher, self.teacher_projector = ema_copy(backbone), ema_copy(self.projector)
        self.momentum = momentum

    def loss(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor | float]]:
        p = self.embeddings(batch)
        return regression(p, self.targets(batch)), {"embedding_std": embedding_std(p.flatten(0, 1))}

    def embeddings(self, batch: Batch) -> Tensor:
        """The predictions, which are compared with the targets of other views."""
        encoded = encode(self.backbone, batch.views)
        return project(nn.Sequential(self.projector, self.predictor), encoded)

    @torch.no_grad()
    def targets(self, batch: Batch) -> Tensor:
        """The teacher's unit projections (V, n, D)."""
        return project(self.teacher_projector, encode(self.teacher, batch.views))

    def after_step(self, step: int, steps: int) -> None:
        momentum = momentum_at(step, steps, self.momentum)
        ema_update(self.teacher, self.backbone, momentum)
        ema_update(self.teacher_projector, self.projector, momentum)


@full_precision
def regression(p: Tensor, t: Tensor) -> Tensor:
    """2 - 2 p_s . t_s', averaged over images and pairs of views s != s', both orders added.

    Predictions and targets (V, n, D), of unit length; with two views this is the paper's loss.
    """
    n_views = len(p)
    if n_views < 2:
        raise ValueError("BYOL predicts one view from others: the plan needs 2 or more, got 1")
    cosine = ((t.sum(0) - t) * p).sum(-1) / (n_views - 1)  # over s' != s
    return 2 * (2 - 2 * cosine).mean()


def momentum_at(step: int, steps: int, start: float) -> float:
    """From `start` at step 0 along a cosine to 1 at the end, where the teacher stands still."""
    return 1 - (1 - start) * (1 + math.cos(math.pi * step / steps)) / 2
