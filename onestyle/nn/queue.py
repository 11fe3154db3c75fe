"""Keys of past steps, as negatives."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

__all__ = ["DomainQueues", "Queue"]


class Queue(nn.Module):
    """The last `size` keys; random directions until as many have come. Saved with its owner."""

    keys: Tensor  # (size, dim), unit length
    pointer: Tensor  # () the place of the oldest key

    def __init__(self, size: int, dim: int):
        super().__init__()
        if size < 1:
            raise ValueError(f"a queue holds at least one key, got size {size}")
        self.register_buffer("keys", F.normalize(torch.randn(size, dim), dim=1))
        self.register_buffer("pointer", torch.zeros((), dtype=torch.long))

    @torch.no_grad()
    def push(self, keys: Tensor) -> None:
        """(n, dim) in the place of the n oldest keys."""
        size, n = len(self.keys), len(keys)
        if size % n:
            raise ValueError(
                f"{n} keys a step do not divide a queue of {size}; take a multiple of {n}"
            )
        places = self.pointer + torch.arange(n, device=self.keys.device)
        self.keys[places] = keys.to(self.keys.dtype)
        self.pointer.copy_((self.pointer + n) % size)


class DomainQueues(nn.Module):
    """For each domain its last `size` keys and the places of their images; until as many have come
    random directions, of no image (-1). Saved with its owner."""

    keys: Tensor  # (S, size, dim), unit length
    places: Tensor  # (S, size)
    pointer: Tensor  # (S,) the place of the oldest key

    def __init__(self, n_domains: int, size: int, dim: int):
        super().__init__()
        if size < 1:
            raise ValueError(f"a queue holds at least one key, got size {size}")
        self.size = size
        self.register_buffer("keys", F.normalize(torch.randn(n_domains, size, dim), dim=-1))
        self.register_buffer("places", torch.full((n_domains, size), -1))
        self.register_buffer("pointer", torch.zeros(n_domains, dtype=torch.long))

    @torch.no_grad()
    def push(self, keys: Tensor, domain: Tensor, places: Tensor) -> None:
        """(m, dim), (m,) and (m,): any number of a domain, in the place of its oldest ones."""
        for d in range(len(self.keys)):
            mine = (domain == d).nonzero()[-self.size :, 0]
            slots = (self.pointer[d] + torch.arange(len(mine), device=mine.device)) % self.size
            self.keys[d, slots] = keys[mine].to(self.keys.dtype)
            self.places[d, slots] = places[mine]
            self.pointer[d] = (self.pointer[d] + len(mine)) % self.size
