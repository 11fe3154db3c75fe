"""Several views through one network."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from onestyle.nn.precision import full_precision

__all__ = ["encode", "project", "unit"]


def encode(network: Callable[[Tensor], Tensor], views: list[Tensor]) -> Tensor:
    """Groups (V_g, n, 3, s, s) -> (V, n, d) in the groups' order: one pass for each size, as SwAV.

    A BatchNorm of the network therefore sees all views of a size together.
    """
    sizes = list(dict.fromkeys(group.shape[-1] for group in views))
    passes = {}
    for size in sizes:
        same = torch.cat([group for group in views if group.shape[-1] == size])
        encoded = network(same.flatten(0, 1)).unflatten(0, same.shape[:2])
        parts = [len(group) for group in views if group.shape[-1] == size]
        passes[size] = iter(encoded.split(parts))
    return torch.cat([next(passes[group.shape[-1]]) for group in views])


def project(head: Callable[[Tensor], Tensor], encoded: Tensor) -> Tensor:
    """(V, n, d) -> unit embeddings (V, n, D): one pass, so a BatchNorm sees all views together."""
    return unit(head(encoded.flatten(0, 1))).unflatten(0, encoded.shape[:2])


@full_precision
def unit(embeddings: Tensor) -> Tensor:
    """(..., D), each made of length 1."""
    return F.normalize(embeddings, dim=-1)
