"""Losses, softmax, Sinkhorn and norms are computed in float32, whatever autocast says."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import torch
from torch import Tensor

__all__ = ["full_precision"]

P = ParamSpec("P")
R = TypeVar("R")


def full_precision(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator: outside autocast, with half precision tensors as float32 (float64 stays)."""

    def full(x):
        low = isinstance(x, Tensor) and x.dtype in (torch.float16, torch.bfloat16)
        return x.float() if low else x

    @wraps(function)
    def outside(*args: P.args, **options: P.kwargs) -> R:
        tensors = [x for x in (*args, *options.values()) if isinstance(x, Tensor)]
        with torch.autocast(tensors[0].device.type, enabled=False):
            options = {name: full(x) for name, x in options.items()}  # pyright: ignore
            return function(*map(full, args), **options)  # pyright: ignore

    return outside
