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
from onestyle.nn.precision import full_precision
from onestyle.nn.queue import Queue

__all__ = ["MoCoV2", "halves", "info_nce"]


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
        queries, keys = self._two_views(batch)
        q = unit(self.projector(self.backbone(queries)))
        with torch.no_grad():
            return q, self._encode_keys(keys, halves(batch.uniform()))

    def _two_views(self, batch: Batch) -> Tensor:
        views = batch.views[0]
        if len(batch.views) != 1 or len(views) != 2 or views.shape[1] % 2:
            raise ValueError(
                "MoCo v2 needs one group of 2 views, as '2x224 none', of an even number of images "
                f"a process; got groups of {[len(group) for group in batch.views]} views of "
                f"{views.shape[1]} images"
            )
        return views

    def _encode_keys(self, images: Tensor, parts: tuple[Tensor, Tensor]) -> Tensor:
        """(n, 3, s, s) -> unit keys (n, D), the halves apart: a BatchNorm that had all keys of a
        batch together, as it has the queries, would give away which key belongs to which query."""
        encoded = torch.cat([self.key_projector(self.key_backbone(images[part])) for part in parts])
        return unit(encoded)[torch.cat(parts).argsort()]

    def after_step(self, step: int, steps: int) -> None:
        # The official code moves the key encoder at the beginning of the next step, from the same
        # weights: here it is the same numbers, and what is saved between two steps is complete.
        ema_update(self.key_backbone, self.backbone, self.momentum)
        ema_update(self.key_projector, self.projector, self.momentum)
        self.queue.push(torch.cat(self._new_keys))
        self._new_keys.clear()


def halves(coin: Tensor) -> tuple[Tensor, Tensor]:
    """Coins (n,) in [0, 1) -> two random halves of n images, (n / 2,) each.

    One of each two neighbours goes into the first half, so that any process which has an even
    number of images can split its own share: together the shares are halves of the global batch.
    """
    even = torch.arange(0, len(coin), 2, device=coin.device)
    swap = (coin[::2] < 0.5).long()
    return even + swap, even + 1 - swap


@full_precision
def info_nce(q: Tensor, k: Tensor, queue: Tensor, temperature: float) -> Tensor:
    """-log(exp(q . k / T) / (exp(q . k / T) + sum_j exp(q . queue_j / T))), averaged over images.

    Queries and keys (n, D), queue (K, D), all of unit length.
    """
    logits = torch.cat([(q * k).sum(-1, keepdim=True), q @ queue.T], dim=1) / temperature
    return F.cross_entropy(logits, torch.zeros(len(q), dtype=torch.long, device=q.device))
