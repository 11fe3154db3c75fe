"""Pairs of views for methods whose keys come from a slow copy of the network."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from onestyle.nn.encode import unit

__all__ = ["encode_keys", "halves", "two_views"]


def two_views(views: list[Tensor], method: str) -> Tensor:
    """The only group of views, (2, n, 3, s, s) with an even n: those of queries and of keys."""
    group = views[0]
    if len(views) != 1 or len(group) != 2 or group.shape[1] % 2:
        raise ValueError(
            f"{method} needs one group of 2 views, as '2x224 none', of an even number of images "
            f"a process; got groups of {[len(group) for group in views]} views of "
            f"{group.shape[1]} images"
        )
    return group


def halves(coin: Tensor) -> tuple[Tensor, Tensor]:
    """Coins (n,) in [0, 1) -> two random halves of n images, (n / 2,) each.

    One of each two neighbours goes into the first half, so that any process which has an even
    number of images can split its own share: together the shares are halves of the global batch.
    """
    even = torch.arange(0, len(coin), 2, device=coin.device)
    swap = (coin[::2] < 0.5).long()
    return even + swap, even + 1 - swap


@torch.no_grad()
def encode_keys(
    network: Callable[[Tensor], Tensor], images: Tensor, parts: tuple[Tensor, Tensor]
) -> Tensor:
    """(n, 3, s, s) -> unit keys (n, D), the halves apart: a BatchNorm that had all keys of a
    batch together, as it has the queries, would give away which key belongs to which query."""
    encoded = torch.cat([network(images[part]) for part in parts])
    return unit(encoded)[torch.cat(parts).argsort()]
