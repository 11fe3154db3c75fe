"""Batches for training: any step can be entered anew, each process reads its own share.

A batch depends on (seed, step) alone. Without replacement an epoch is a permutation of the pool
whose last incomplete batch is dropped.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onestyle.data.protocol import Pool, TargetPool

__all__ = ["Batch", "Loader"]

Places = NDArray[np.int64]


class Batch(NamedTuple):
    """One process's share of a step's batch."""

    step: int
    images: NDArray[np.uint8]  # (n, 3, S, S)
    places: Places  # (n,) in the pool


@dataclass(frozen=True)
class Loader:
    """`batch_size` is global, of which process `rank` of `world_size` reads a slice.

    `balance` draws equally many images of every domain, in turn, so that a slice has all of them
    too. `replacement` is for pools that are smaller than a batch.
    """

    pool: Pool
    batch_size: int
    seed: int = 0
    balance: bool = False
    replacement: bool = False
    rank: int = 0
    world_size: int = 1

    def __post_init__(self):
        if isinstance(self.pool, TargetPool):
            raise ValueError("target images are not for training; read them by pool.images")
        if not 0 <= self.rank < self.world_size:
            raise ValueError(f"rank must be from 0 to {self.world_size - 1}, got {self.rank}")
        if self.batch_size < 1 or self.batch_size % self.world_size:
            what = f"a multiple of {self.world_size} (processes)"
            raise ValueError(f"batch_size must be {what}, got {self.batch_size}")
        smallest = min(map(len, self._groups), default=0)
        if smallest < (1 if self.replacement else self._slots):
            what = "the smallest domain has" if self.balance else "the pool has"
            raise ValueError(
                f"a batch of {self.batch_size} needs {self._slots} images and {what} {smallest}: "
                "lower the batch size or draw with replacement"
            )

    def places(self, step: int) -> Places:
        """The places in the pool of the whole batch of a step."""
        drawn = [self._draw(group, step) for group in range(len(self._groups))]
        return np.roll(np.stack(drawn, 1), step, 1).reshape(-1)[: self.batch_size]

    def batch(self, step: int) -> Batch:
        share = self.batch_size // self.world_size
        places = self.places(step)[self.rank * share :][:share]
        return Batch(step, self.pool.images(places), places)

    def batches(self, start: int, stop: int, ahead: int = 2) -> Iterator[Batch]:
        """Steps start..stop - 1; up to `ahead` of them are read while others are worked on."""
        reader = ThreadPoolExecutor(1, "batches")
        try:
            waiting = deque()
            for step in range(start, stop):
                waiting.append(reader.submit(self.batch, step))
                if len(waiting) > ahead:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            reader.shutdown(cancel_futures=True)

    @cached_property
    def _groups(self) -> list[Places]:
        """What is drawn from: the pool, or each of its domains."""
        if not self.balance:
            return [np.arange(len(self.pool))]
        domains = self.pool.domains
        return [np.flatnonzero(domains == domain) for domain in np.unique(domains)]

    @property
    def _slots(self) -> int:
        """How many of each group a batch draws."""
        return -(-self.batch_size // max(1, len(self._groups)))

    def _draw(self, group: int, step: int) -> Places:
        places = self._groups[group]
        if self.replacement:
            dice = np.random.default_rng((self.seed, group, step))
            return places[dice.integers(len(places), size=self._slots)]
        epoch, at = divmod(step, len(places) // self._slots)
        return self._permutation(group, epoch)[at * self._slots :][: self._slots]

    def _permutation(self, group: int, epoch: int) -> Places:
        known, places = self._epochs.get(group, (None, self._groups[group]))
        if known != epoch:  # two threads may ask for two epochs: each returns its own
            dice = np.random.default_rng((self.seed, group, epoch))
            places = dice.permutation(self._groups[group])
            self._epochs[group] = epoch, places
        return places

    @cached_property
    def _epochs(self) -> dict[int, tuple[int, Places]]:
        """The permutation in use of each group: to make one anew every step would take long."""
        return {}
