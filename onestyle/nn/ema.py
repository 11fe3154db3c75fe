"""Teachers: exponential moving averages of a student, in the precision of its parameters."""

from __future__ import annotations

import copy

import torch
from torch import nn

__all__ = ["ema_copy", "ema_update"]


def ema_copy(student: nn.Module) -> nn.Module:
    """A teacher that starts as the student and never gets a gradient."""
    return copy.deepcopy(student).requires_grad_(False)


@torch.no_grad()
def ema_update(teacher: nn.Module, student: nn.Module, momentum: float) -> None:
    """teacher <- momentum teacher + (1 - momentum) student; parameters alone, no buffers."""
    pairs = list(teacher.parameters()), list(student.parameters())
    torch._foreach_lerp_(*pairs, 1 - momentum)  # pyright: ignore
