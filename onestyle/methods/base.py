"""The contract between a method and the loop: all that either knows of the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Generator, Tensor, nn
from torch.optim import Optimizer

from onestyle.nn import world
from onestyle.nn.encode import encode, unit

__all__ = ["Batch", "MakeOptimizer", "Method"]

MakeOptimizer = Callable[[Iterable[nn.Parameter]], Optimizer]


@dataclass
class Batch:
    """One process's share of a step's batch, as far as a method may see it: n of N images.

    views: for each group of the plan (V, n, 3, s, s), normalised. places (n,): where the images lie
    in the pool, equal for the same image. domain (n,): for methods that need "domain". label (n,):
    for methods that need "label", whose images are those of the drawn fraction alone. A method that
    needs "unlabelled" ones as well gets those, without label, and in labelled the second stream,
    of n' images of the fraction.
    """

    views: list[Tensor]
    places: Tensor
    step: int
    generator: Generator  # of the step, in the same state in every process
    domain: Tensor | None = None
    label: Tensor | None = None
    labelled: Batch | None = None

    def uniform(self, *shape: int) -> Tensor:
        """(n, *shape) in [0, 1): this share of numbers that are drawn for all N images."""
        n, device = len(self.places), self.places.device
        drawn = torch.rand(n * world.size(), *shape, generator=self.generator)
        return drawn[world.share(n)].to(device)


class Method(nn.Module):
    """A loss of views, the networks it trains, and the one that is kept: the backbone."""

    # Of {"label", "domain"}, which the loop withholds, and, beside "label", "unlabelled".
    needs: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, backbone: nn.Module):
        super().__init__()
        self.backbone = backbone  # what is probed and exported

    @classmethod
    def styles(cls, style: str, n_groups: int) -> tuple[str, ...]:
        """The style of each group of views: all alike, unless the loss compares only some."""
        return (style,) * n_groups

    def loss(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor | float]]:
        """The mean loss over this process's images, and what else to log."""
        raise NotImplementedError  # abstract

    def forward(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor | float]]:
        """The loss, by the name that DDP and autocast know."""
        return self.loss(batch)

    def before_step(self, step: int) -> None:
        """Gradients are there, the optimisers have not moved yet."""

    def after_step(self, step: int, steps: int) -> None:
        """The optimisers have made step `step` of `steps`: teachers and queues follow."""

    def optimizers(self, make: MakeOptimizer) -> list[Optimizer]:
        return [make(p for p in self.parameters() if p.requires_grad)]

    def features(self, images: Tensor) -> Tensor:
        """(n, 3, s, s), normalised -> (n, d), for probing."""
        return self.backbone(images)

    def tuned(self) -> nn.Module:
        """What fine-tuning begins with, (n, 3, s, s) -> (n, num_features): the backbone, unless
        layers after it are worth keeping too. Everything else looks at the backbone."""
        return self.backbone

    def logits(self, images: Tensor) -> Tensor:
        """(n, 3, s, s), normalised -> (n, C), for evaluation: of methods that learn from labels."""
        raise NotImplementedError  # abstract

    def embeddings(self, batch: Batch) -> Tensor:
        """What the loss compares of each view, unit (V, n, D); by default the view's features."""
        return unit(encode(self.features, batch.views))

    def prototype_scores(self, images: Tensor) -> Tensor:
        """(n, 3, s, s) -> cosines (n, K) of images' embeddings and the prototypes."""
        raise ValueError(f"{type(self).__name__} has no prototypes; SWaV and MSN have")
