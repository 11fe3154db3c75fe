"""Nearest neighbours by cosine: domain purity, k-NN accuracy."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["agreement", "knn_accuracy", "neighbours"]


def neighbours(features: Tensor, k: int, *, chunk: int = 1024) -> Tensor:
    """(n, d) -> (n, k) the nearest other points by cosine, nearest first; `chunk` rows at a time."""
    z, found = F.normalize(features.float(), dim=1), []
    for start in range(0, len(z), chunk):
        cosine = z[start : start + chunk] @ z.T
        rows = torch.arange(len(cosine), device=z.device)
        cosine[rows, start + rows] = -torch.inf  # not oneself
        found.append(cosine.topk(k, dim=1).indices)
    return torch.cat(found)


def agreement(features: Tensor, labels: Tensor, ks: tuple[int, ...]) -> dict[int, float]:
    """For each k the share of a point's k nearest neighbours that have its label, averaged.

    With domains for labels this is domain purity.
    """
    nearest = neighbours(features, max(ks))
    same = (labels[nearest] == labels[:, None]).float()
    return {k: float(same[:, :k].mean()) for k in ks}


def knn_accuracy(features: Tensor, labels: Tensor, k: int = 20) -> float:
    """How often the majority of a point's k nearest neighbours has its label, leaving it out."""
    votes = F.one_hot(labels[neighbours(features, k)].long()).sum(1)
    return float((votes.argmax(1) == labels).float().mean())
