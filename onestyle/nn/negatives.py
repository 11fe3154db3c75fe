"""Negatives that are learned: they climb the loss that the network descends."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.optim import SGD

from onestyle.nn.encode import unit

__all__ = ["Negatives", "gradient_only"]


class Negatives(nn.Module):
    """Banks of `size` vectors, whose directions are compared. The keys of the first steps take the
    places of random vectors; until there is a key in every place, all negatives stand still."""

    filled: Tensor  # (S,) how many places of a bank have had a key

    def __init__(self, size: int, dim: int, n_banks: int = 1):
        super().__init__()
        if size < 1:
            raise ValueError(f"negatives must be at least 1, got {size}")
        self.weight = nn.Parameter(torch.randn(n_banks, size, dim))
        self.register_buffer("filled", torch.zeros(n_banks, dtype=torch.long))

    @property
    def full(self) -> bool:
        return int(self.filled.min()) == self.weight.shape[1]

    def directions(self) -> Tensor:
        """(S, K, D), unit length."""
        return unit(self.weight)

    @torch.no_grad()
    def fill(self, keys: Tensor, bank: Tensor | None = None) -> bool:
        """(n, D), each of a bank (n,) or all of the only one, into the next places that wait for a
        key; true when these keys took the last ones."""
        if self.full:
            return False
        for s, places in enumerate(self.weight):
            own = keys if bank is None else keys[bank == s]
            waiting = places[int(self.filled[s]) :][: len(own)]
            waiting.copy_(own[: len(waiting)])
            self.filled[s] += len(waiting)
        return self.full

    def before_step(self) -> None:
        if not self.full:
            self.weight.grad = None

    def ascent(self, lr: float) -> SGD:
        """v <- 0.9 v - g + 1e-4 W;   W <- W - lr v: the decay is no part of what is climbed.

        AdCo's numbers. As in its code the rate stays while that of the network falls.
        """
        group = {"params": [self.weight], "scheduled": False}
        return SGD([group], lr, momentum=0.9, weight_decay=1e-4, maximize=True)

    def health(self) -> dict[str, Tensor | float]:
        """To be logged: the share of places that have had a key, and how long the vectors are, by
        which their steps on the sphere are divided."""
        filled = self.filled.sum() / self.weight[..., 0].numel()
        norm = self.weight.detach().norm(dim=-1).mean()
        return {"negatives_filled": filled, "negatives_norm": norm}


def gradient_only(loss: Tensor) -> Tensor:
    """0 with the gradient of `loss`: for what learns beside the loss that is told."""
    return loss - loss.detach()
