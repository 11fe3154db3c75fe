"""SwAV with global and local views, without a queue (section 3.3 and appendix B of the paper)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from onestyle.methods.base import Batch, Method
from onestyle.nn.encode import encode, project, unit
from onestyle.nn.heads import mlp
from onestyle.nn.health import embedding_std, prototypes_used
from onestyle.nn.precision import full_precision
from onestyle.nn.sinkhorn import sinkhorn

__all__ = ["SWaV", "swapped_prediction"]


class SWaV(Method):
    """Every view predicts to which prototypes a global view of its image is assigned. A global view
    is assigned as one batch, which should have one style; the local views may have many."""

    def __init__(
        self,
        backbone: nn.Module,
        *,
        dim: int = 128,
        prototypes: int = 256,
        temperature: float = 0.1,
        epsilon: float = 0.05,
        iterations: int = 3,
        freeze_steps: int = 313,
        hidden_dim: int = 2048,
    ):
        super().__init__(backbone)
        for name, value in {"temperature": temperature, "epsilon": epsilon}.items():
            if value <= 0:
                raise ValueError(f"{name} must be positive, got {value}")
        if iterations < 1:
            raise ValueError(f"Sinkhorn needs 1 iteration or more (the paper: 3), got {iterations}")
        self.projector = mlp(int(backbone.num_features), hidden_dim, dim)  # pyright: ignore
        self.prototypes = nn.Linear(dim, prototypes, bias=False)
        self.temperature, self.epsilon, self.iterations = temperature, epsilon, iterations
        self.freeze_steps = freeze_steps
        self._to_unit_length()

    @classmethod
    def styles(cls, style: str, n_groups: int) -> tuple[str, ...]:
        """BSS for the views that Sinkhorn sees, FA for the local ones."""
        local = "fa" if style == "bss" else style
        return (style, *[local] * (n_groups - 1))

    def loss(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor | float]]:
        """The first group of views are the global ones."""
        n_global = len(batch.views[0])
        z = self.embeddings(batch)
        scores = similarities(z, self.prototypes.weight)
        q = [sinkhorn(view / self.epsilon, self.iterations) for view in scores[:n_global].detach()]
        loss = swapped_prediction(scores / self.temperature, torch.stack(q))
        return loss, {
            "embedding_std": embedding_std(z.flatten(0, 1)),
            "prototypes_used": prototypes_used(scores[:n_global].flatten(0, 1)),
        }

    def embeddings(self, batch: Batch) -> Tensor:
        return project(self.projector, encode(self.backbone, batch.views))

    def prototype_scores(self, images: Tensor) -> Tensor:
        return similarities(unit(self.projector(self.backbone(images))), self.prototypes.weight)

    def before_step(self, step: int) -> None:
        if step < self.freeze_steps:  # first the embeddings spread over prototypes that stand still
            self.prototypes.weight.grad = None

    def after_step(self, step: int, steps: int) -> None:
        self._to_unit_length()

    @torch.no_grad()
    def _to_unit_length(self) -> None:
        self.prototypes.weight.copy_(unit(self.prototypes.weight))


@full_precision
def similarities(z: Tensor, prototypes: Tensor) -> Tensor:
    """(..., n, D) and (K, D) -> (..., n, K)."""
    return z @ prototypes.T


@full_precision
def swapped_prediction(logits: Tensor, q: Tensor) -> Tensor:
    """Cross-entropy H(q_i, p_v), averaged over images, global views i and all views v != i.

    logits (V, n, K), whose softmax is p; q (G, n, K), the assignments of the first G of the views.
    """
    n_views, n_global = len(logits), len(q)
    if n_views < 2:
        raise ValueError("SWaV predicts one view from others: the plan needs 2 or more, got 1")
    log_p = logits.log_softmax(dim=-1)
    others = log_p.sum(0) - log_p[:n_global]
    return -(q * others).sum(-1).mean() / (n_views - 1)
