"""What is known of images, and a number beside what chance would give."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

__all__ = ["Measured", "chance_agreement", "known", "most_agreement", "shuffled"]


class Measured(NamedTuple):
    """A number, and the same number if labels had nothing to do with features."""

    value: float
    chance: float

    def __str__(self) -> str:
        return f"{self.value:.2f} (chance {self.chance:.2f})"


def known(n: int, label: Tensor | None, domain: Tensor | None) -> dict[str, Tensor]:
    """(n,) each -> {"domain": (n,), "class": (n,)} of those given, 0, 1, ... without gaps."""
    given = {"domain": domain, "class": label}
    return {name: _numbered(n, name, x) for name, x in given.items() if x is not None}


def _numbered(n: int, name: str, labels: Tensor) -> Tensor:
    if labels.shape != (n,):
        raise ValueError(f"there are {n:,} images but labels of shape {tuple(labels.shape)}")
    if n_unknown := int((labels < 0).sum()):
        raise ValueError(
            f"{n_unknown:,} of {n:,} images have no {name}: leave them out, or give no "
            f"{name} at all"
        )
    return labels.unique(return_inverse=True)[1]


def chance_agreement(labels: Tensor) -> float:
    """How often two different images have one label: sum_d n_d (n_d - 1) / (n (n - 1))."""
    n, counts = len(labels), labels.unique(return_counts=True)[1].double()
    return float((counts * (counts - 1)).sum() / (n * (n - 1)))


def most_agreement(labels: Tensor, k: int) -> float:
    """How many of k other images can have one's label, averaged: a share of 1 while k is less than
    there are images of any label, less beyond."""
    own = labels.unique(return_inverse=True, return_counts=True)
    return float((own[2][own[1]] - 1).clamp(max=k).double().mean()) / k


def shuffled(labels: Tensor, times: int = 10, seed: int = 0) -> list[Tensor]:
    """The labels in random orders, always the same ones."""
    generator = torch.Generator().manual_seed(seed)
    orders = (torch.randperm(len(labels), generator=generator) for _ in range(times))
    return [labels[order.to(labels.device)] for order in orders]
