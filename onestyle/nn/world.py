"""The processes that share a batch; alone, everything here is the identity.

Each process computes the loss of its own n images and DDP averages the gradients: the gradient of
a collective is therefore the SUM over the processes of what each of them asks for.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd import Function

__all__ = ["gather", "mean", "rank", "share", "size", "total"]


def size() -> int:
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    return dist.get_rank() if size() > 1 else 0


def share(n_local: int) -> slice:
    """This process's part of a global batch of n_local images a process."""
    return slice(rank() * n_local, (rank() + 1) * n_local)


def gather(x: Tensor, dim: int = 0) -> Tensor:
    """n entries along `dim` -> those of all processes in their order, with gradient."""
    return _Gather.apply(x, dim) if size() > 1 else x  # pyright: ignore


def mean(x: Tensor) -> Tensor:
    """The mean over the processes, with gradient."""
    return _Sum.apply(x) / size() if size() > 1 else x  # pyright: ignore


def total(x: Tensor) -> Tensor:
    """The sum over the processes, with gradient."""
    return _Sum.apply(x) if size() > 1 else x  # pyright: ignore


class _Sum(Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        return _summed(x)

    @staticmethod
    def backward(ctx, grad: Tensor) -> Tensor:  # pyright: ignore
        return _summed(grad)


class _Gather(Function):
    @staticmethod
    def forward(ctx, x: Tensor, dim: int) -> Tensor:
        ctx.dim, ctx.share = dim, share(x.shape[dim])
        parts = [torch.empty_like(x, memory_format=torch.contiguous_format) for _ in range(size())]
        dist.all_gather(parts, x.contiguous())
        return torch.cat(parts, dim)

    @staticmethod
    def backward(ctx, grad: Tensor):  # pyright: ignore
        mine = ctx.share
        return _summed(grad).narrow(ctx.dim, mine.start, mine.stop - mine.start), None


def _summed(x: Tensor) -> Tensor:
    x = x.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(x)
    return x
