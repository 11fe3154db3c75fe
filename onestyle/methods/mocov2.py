"""MoCo v2: the keys of past batches, made by a slow copy of the network, are the negatives.

He et al., "Momentum contrast for unsupervised visual representation learning", 2020; Chen et al.,
"Improved baselines with momentum contrastive learning", 2020.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from onestyle.methods.base import Batch, Method
from onestyle.nn import world
from onestyle.nn.ema import ema_copy, ema_update
from onestyle.nn.encode import unit
from onestyle.nn.heads import mlp
from onestyle.nn.health import embedding_std
from onestyle.nn.keys import encode_keys, halves, two_views
from onestyle.nn.precision import full_precision
from onestyle.nn.queue import Queue

__all__ = ["MoCoV2", "info_nce"]


class MoCoV2(Method):
    """The first of two views asks which key is the second one's."""

    def __init__(
        self,
        backbone: nn.Module,
        *,
        dim: int = 128,
        queue_size: int = 65536,
        temperature: float = 0.2,
        momentum: float = 0.999,
    ):
        super().__init__(backbone)
        if temperature <= 0:
            raise ValueError(f"temperature must be positive, got {temperature}; MoCo v2's is 0.2")
        width = int(backbone.num_features)  # pyright: ignore
        self.projector = mlp(width, width, dim, norm=False)
        self.key_backbone, self.key_projector = ema_copy(backbone), ema_copy(self.projector)
        self.queue = Queue(queue_size, dim)
        self.temperature, self.momentum = temperature, momentum
        self._new_keys: list[Tensor] = []

    def loss(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor | float]]:
        q, k = self._queries_and_keys(batch)
        self._new_keys.append(world.gather(k))
        return info_nce(q, k, self.queue.keys, self.temperature), {
            "embedding_std": embedding_std(q)
        }

    def embeddings(self, batch: Batch) -> Tensor:
        return torch.stack(self._queries_and_keys(batch))

    def _queries_and_keys(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """The first view's (n, D) with gradient, the second one's without."""
        queries, keys = two_views(batch.views, "MoCo v2")
        q = unit(self.projector(self.backbone(queries)))
        return q, encode_keys(self._slowly, keys, halves(batch.uniform()))

    def _slowly(self, images: Tensor) -> Tensor:
        return self.key_projector(self.key_backbone(images))

    def after_step(self, step: int, steps: int) -> None:
        # The official code moves the key encoder at the beginning of the next step, from the same
        # weights: here it is the same numbers, and what is saved between two steps is complete.
        ema_update(self.key_backbone, self.backbone, self.momentum)
        ema_update(self.key_projector, self.projector, self.momentum)
        self.queue.push(torch.cat(self._new_keys))
        self._new_keys.clear()


@full_precision
def info_nce(q: Tensor, k: Tensor, queue: Tensor, temperature: float) -> Tensor:
    """-log(exp(q . k / T) / (exp(q . k / T) + sum_j exp(q . queue_j / T))), averaged over images.

    Queries and keys (n, D), queue (K, D), all of unit length.
    """
    logits = torch.cat([(q * k).sum(-1, keepdim=True), q @ queue.T], dim=1) / temperature
    return F.cross_entropy(logits, torch.zeros(len(q), dtype=torch.long, device=q.device))
