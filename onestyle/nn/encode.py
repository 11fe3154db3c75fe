"""Several views through one network."""

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = ["encode"]


def encode(network: nn.Module, views: list[Tensor]) -> Tensor:
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
