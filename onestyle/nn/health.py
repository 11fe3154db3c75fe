"""What tells that a method is alive."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from onestyle.nn import world
from onestyle.nn.precision import full_precision

__all__ = ["embedding_std", "prototypes_used"]


@full_precision
@torch.no_grad()
def embedding_std(embeddings: Tensor) -> Tensor:
    """(n, D) -> sqrt(D) times the mean std of unit embeddings: 1 if spread, 0 if all are equal."""
    spread = F.normalize(embeddings, dim=-1).std(dim=0, correction=0)
    return spread.mean() * embeddings.shape[-1] ** 0.5


@torch.no_grad()
def prototypes_used(scores: Tensor) -> Tensor:
    """(n, K) -> how many prototypes are the nearest one of an image of any process."""
    nearest = world.gather(scores.argmax(dim=-1))
    return scores.new_zeros(scores.shape[-1]).index_fill_(0, nearest, 1).sum()
