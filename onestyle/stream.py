"""From stored images to a method's batches: read ahead, moved to the device, made into views."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Generator, Tensor

from onestyle.data.loader import Batch as Raw
from onestyle.data.loader import Loader
from onestyle.methods.base import Batch
from onestyle.nn import world
from onestyle.views import ViewPlan

__all__ = ["Stream", "seeded"]


def seeded(*numbers: int) -> Generator:
    """A generator on the CPU that depends on these numbers, in every process alike."""
    (seed,) = np.random.SeedSequence(numbers).generate_state(1, np.uint64)
    return Generator().manual_seed(int(seed >> np.uint64(1)))


@dataclass
class Stream:
    """Batches of one pool, each a function of (seed, step).

    `needs` says which labels the batches carry; `labelled` is the second stream, of the few images
    whose labels may be used. `seconds` adds up the time that both spend on waiting for images and
    on views.
    """

    loader: Loader
    plan: ViewPlan
    device: torch.device
    seed: int
    needs: frozenset[str] = frozenset()
    labelled: Stream | None = None
    seconds: dict[str, float] = field(default_factory=lambda: {"data": 0.0, "views": 0.0})

    def __post_init__(self):
        if self.labelled:
            self.labelled.seconds = self.seconds

    @property
    def n_views(self) -> int:
        """Of an image."""
        return sum(group.n for group in self.plan.groups)

    def batches(self, start: int, stop: int) -> Iterator[Batch]:
        """The batches of the steps start..stop - 1."""
        second = self.labelled.batches(start, stop) if self.labelled else None
        raw = self.loader.batches(start, stop)
        while True:
            asked = time.perf_counter()
            found = next(raw, None)
            if found is None:
                return
            self.seconds["data"] += time.perf_counter() - asked
            yield self._batch(found, next(second) if second else None)

    def _batch(self, raw: Raw, labelled: Batch | None) -> Batch:
        generator, started = seeded(self.seed, raw.step), time.perf_counter()
        images = torch.from_numpy(raw.images).to(self.device, non_blocking=True)
        draws = self.plan.draw(self.loader.batch_size, generator, shares=world.size())
        group = torch.distributed.group.WORLD if world.size() > 1 else None
        views = self.plan.apply(images, draws, group)
        self.seconds["views"] += time.perf_counter() - started
        batch = Batch(views, self._tensor(raw.places), raw.step, generator, labelled=labelled)
        pool = self.loader.pool
        if "domain" in self.needs:
            domains = np.unique(pool.domains)
            batch.domain = self._tensor(np.searchsorted(domains, pool.domains[raw.places]))
        if "label" in self.needs:
            batch.label = self._tensor(pool.labels[raw.places])
        return batch

    def _tensor(self, numbers: np.ndarray) -> Tensor:
        return torch.from_numpy(numbers.astype(np.int64)).to(self.device)
