"""AdCo: most of the negatives are learned, by climbing the loss that the network descends.

Hu et al., "AdCo: adversarial contrast for efficient learning of unsupervised representations from
self-trained negative adversaries", 2021.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import Optimizer

from onestyle.methods.base import Batch, MakeOptimizer, Method
from onestyle.nn import world
from onestyle.nn.ema import ema_copy, ema_update
from onestyle.nn.encode import unit
from onestyle.nn.heads import mlp
from onestyle.nn.health import embedding_std
from onestyle.nn.keys import encode_keys, halves, two_views
from onestyle.nn.negatives import Negatives, gradient_only
from onestyle.nn.precision import full_precision

__all__ = ["AdCo", "contrast"]


class AdCo(Method):
    """The first of two views asks which key is the second one's, among those of the batch and the
    learned negatives. These have a temperature, an optimiser and a direction of their own."""

    def __init__(
        self,
        backbone: nn.Module,
        *,
        dim: int = 128,
        negatives: int = 65536,
        temperature: float = 0.12,
        negatives_temperature: float = 0.02,
        negatives_lr: float = 3.0,
        momentum: float = 0.999,
    ):
        super().__init__(backbone)
        if temperature <= 0 or negatives_temperature <= 0:
            given = f"{temperature} and {negatives_temperature}"
            raise ValueError(f"temperatures must be positive, got {given}; AdCo's: 0.12 and 0.02")
        width = int(backbone.num_features)  # pyright: ignore
        self.projector = mlp(width, width, dim, norm=False)
        self.key_backbone, self.key_projector = ema_copy(backbone), ema_copy(self.projector)
        self.negatives = Negatives(negatives, dim)
        self.temperature, self.negatives_temperature = temperature, negatives_temperature
        self.negatives_lr, self.momentum = negatives_lr, momentum
        self._new_keys: list[Tensor] = []

    def loss(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor | float]]:
        q, k = self._queries_and_keys(batch)
        keys, (negatives,) = world.gather(k), self.negatives.directions()
        self._new_keys.append(keys)
        # Both play with the same embeddings; neither has a gradient of the other's loss.
        loss = contrast(q, keys, negatives.detach(), self.temperature)
        adversary = contrast(q.detach(), keys, negatives, self.negatives_temperature)
        return loss + gradient_only(adversary), {
            "embedding_std": embedding_std(q),
            **self.negatives.health(),
        }

    def embeddings(self, batch: Batch) -> Tensor:
        return torch.stack(self._queries_and_keys(batch))

    def _queries_and_keys(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """The first view's (n, D) with gradient, the second one's without."""
        queries, keys = two_views(batch.views, "AdCo")
        q = unit(self.projector(self.backbone(queries)))
        return q, encode_keys(self._slowly, keys, halves(batch.uniform()))

    def _slowly(self, images: Tensor) -> Tensor:
        return self.key_projector(self.key_backbone(images))

    def optimizers(self, make: MakeOptimizer) -> list[Optimizer]:
        """The recipe's for the network alone: no recipe's LARS or Adam ever moves a negative."""
        trained = (p for p in self.parameters() if p.requires_grad)
        network = make(p for p in trained if p is not self.negatives.weight)
        return [network, self.negatives.ascent(self.negatives_lr)]

    def before_step(self, step: int) -> None:
        self.negatives.before_step()

    def after_step(self, step: int, steps: int) -> None:
        complete = self.negatives.fill(torch.cat(self._new_keys))
        self._new_keys.clear()
        # When the negatives are complete, keys and queries have one network again, as officially.
        momentum = 0.0 if complete else self.momentum
        ema_update(self.key_backbone, self.backbone, momentum)
        ema_update(self.key_projector, self.projector, momentum)


@full_precision
def contrast(q: Tensor, keys: Tensor, negatives: Tensor, temperature: float) -> Tensor:
    """-log(exp(q_i . k_i / T) / (sum_i' exp(q_i . k_i' / T) + sum_j exp(q_i . n_j / T))), averaged.

    Queries (n, D) of this process, keys (N, D) of all, negatives (K, D), all of unit length.
    """
    logits = q @ torch.cat([keys, negatives]).T / temperature
    own = torch.arange(len(keys), device=q.device)[world.share(len(q))]
    return F.cross_entropy(logits, own)
