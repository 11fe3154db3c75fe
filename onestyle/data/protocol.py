"""Who may see what: the all-correlated protocol of unsupervised domain generalization.

    split = make_split(store.table, targets=["sketch"], draw=0)
    pool = Pool(store, split.train)          # all that pretraining can read
    few = Pool(store, split.labelled(5))     # 5% of it, with labels
    test = split.open_target(store, "sketch", log=run / "target_openings.jsonl")

A recipe that says `uses_target` learns, without labels, from target images: by one door,
`split.unlabelled(store, uses_target=True)`, whose images cannot be read before `open(log)` has
written that they are.

Rows of a domain and class are put into an order that depends on the seed and their names alone
(SHA-256, no generator of random numbers). Of n, the first floor(9 n / 10) are train, the rest
source validation; of the train rows, in an order of the label draw, the first ceil(p n / 100) are
the fraction of p percent: so fractions are nested. Integers only.

Three seeds never mix: that of pretraining belongs to the loader, that of the labels is `draw`, that
of the probe to the probe.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from onestyle.data.store import Store, Table
from onestyle.names import instead

__all__ = [
    "FRACTIONS",
    "WHY",
    "Images",
    "Pool",
    "Split",
    "TargetPool",
    "UnlabelledTargets",
    "make_split",
]

FRACTIONS = (1, 5, 10, 100)  # percent
WHY = ("evaluation", "analysis", "oracle")  # what target images are opened for, never training
Rows = NDArray[np.int64]


class Images(Protocol):
    """What features are made of: a pool, or files that are read when they are asked for."""

    def __len__(self) -> int: ...

    def images(self, places: Sequence[int] | NDArray[np.integer]) -> NDArray[np.uint8]: ...


class Pool:
    """Some rows of a store; whoever is given it can read those and no others."""

    def __init__(self, store: Store, rows: Rows):
        self._store, self._rows = store, rows

    def __len__(self) -> int:
        return len(self._rows)

    def images(self, places: Sequence[int] | NDArray[np.integer]) -> NDArray[np.uint8]:
        """Places in the pool, 0..len - 1 -> (n, 3, S, S)."""
        places = np.asarray(places)
        if len(places) and places.dtype.kind not in "iu":  # a mask would read the places 0 and 1
            raise IndexError(f"places are whole numbers, got {places.dtype}")
        if len(places) and not 0 <= places.min() <= places.max() < len(self):
            span = f"{places.min()}..{places.max()}"
            raise IndexError(f"the pool has the places 0..{len(self) - 1}, asked for {span}")
        return self._store.read(self._rows[places.astype(np.int64)])

    def some(self, places: NDArray[np.integer]) -> Pool:
        """A pool of the same kind, of these places."""
        return type(self)(self._store, self._rows[places])

    @property
    def rows(self) -> Rows:
        """Their rows of the store."""
        return self._rows.copy()

    @property
    def labels(self) -> NDArray[np.int32]:
        return self._store.table.label[self._rows]

    @property
    def domains(self) -> NDArray[np.int32]:
        return self._store.table.domain[self._rows]

    @property
    def paths(self) -> list[str]:
        return [self._store.table.path[row] for row in self._rows]


class TargetPool(Pool):
    """Target images: no loader takes them."""


class UnlabelledTargets(Pool):
    """Target images for a recipe that says `uses_target`: closed until their opening is logged, and
    without anything that tells their classes."""

    _is_open = False

    def open(self, log: Path, why: Literal["training", "analysis"] = "training") -> None:
        """From now on images can be read; a line of `log` for each target."""
        for number in np.unique(self.domains):
            _log_opening(log, self._store.table.domains[number], why)
        self._is_open = True

    def images(self, places: Sequence[int] | NDArray[np.integer]) -> NDArray[np.uint8]:
        if not self._is_open:
            raise ValueError("target images cannot be read before `open` has logged it")
        return super().images(places)

    @property
    def labels(self) -> NDArray[np.int32]:
        raise ValueError("labels of target images are for evaluation alone")

    @property
    def paths(self) -> list[str]:
        raise ValueError("names of target images may tell their classes")


@dataclass(frozen=True)
class Split:
    """Rows of one division of a store, sorted; the seed of the labels is `draw`."""

    sources: tuple[str, ...]
    targets: tuple[str, ...]
    draw: int
    train: Rows
    val: Rows
    _table: Table
    _target_rows: dict[str, Rows]

    def labelled(self, percent: int) -> Rows:
        """The rows of `train` whose labels may be used: stratified by domain and class, nested.

        Of images without a class none; the fraction is one of those that have one.
        """
        if percent != int(percent) or not 1 <= percent <= 100:
            raise ValueError(
                f"a fraction is a whole number of percent from 1 to 100, got {percent}"
            )
        if not self.has_labels:
            raise ValueError("no image has a class, so there is no fraction to draw")
        with_class = self.train[self._table.label[self.train] >= 0]
        chosen = [
            rows[: -(-int(percent) * len(rows) // 100)]
            for rows in _strata(self._table, with_class, f"labels {self.draw}")
        ]
        return np.sort(np.concatenate(chosen))

    @property
    def has_labels(self) -> bool:
        return bool((self._table.label[self.train] >= 0).any())

    def n_target(self, name: str) -> int:
        return len(self._target_rows[name])

    @property
    def n_unused(self) -> int:
        """Images that nobody sees: a source's test images, a target's training images."""
        used = len(self.train) + len(self.val) + sum(map(len, self._target_rows.values()))
        return len(self._table.path) - used

    def open_target(
        self, store: Store, name: str, *, log: Path, why: str = "evaluation"
    ) -> TargetPool:
        """The images of a target domain; each opening is a line of `log`.

        The only way to them and their labels: training is given pools of rows of its own, and its
        loader takes no TargetPool.
        """
        if name not in self._target_rows:
            raise ValueError(f"{name!r} is not a target; the targets are {', '.join(self.targets)}")
        if why not in WHY:
            raise ValueError(f"target images are for {', '.join(WHY)}, not for {why!r}")
        if not isinstance(log, Path):
            raise ValueError(f"each opening of target images is counted: log is a file, not {log}")
        if store.table.path != self._table.path:
            raise ValueError(f"{store.name} is not the store that was split")
        _log_opening(log, name, why)
        return TargetPool(store, self._target_rows[name])

    def unlabelled(self, store: Store, *, uses_target: bool = False) -> Pool:
        """What a training may learn from without labels: the sources' train images or, for a recipe
        that says so, the images of all targets in their place."""
        if not uses_target:
            return Pool(store, self.train)
        if not self.targets:
            raise ValueError("a recipe that uses the target needs one: name it by --targets")
        return UnlabelledTargets(store, np.sort(np.concatenate([*self._target_rows.values()])))

    @property
    def hash(self) -> str:
        """Of the names in every part, whatever the order of the store."""
        parts = {"train": self.train, "val": self.val}
        parts |= {f"target {name}": rows for name, rows in self._target_rows.items()}
        if self.has_labels:
            parts |= {f"{percent}%": self.labelled(percent) for percent in FRACTIONS}
        sha256 = hashlib.sha256()
        for part, rows in parts.items():
            names = sorted(self._table.path[row] for row in rows)
            sha256.update("\n".join([part, *names, ""]).encode())
        return sha256.hexdigest()


def make_split(
    table: Table,
    *,
    sources: Iterable[str] = (),
    targets: Iterable[str] = (),
    draw: int = 0,
    seed: int = 0,
) -> Split:
    """Divide a store. Sources are by default all domains that are not targets.

    Where a domain has an official split, its train rows are what a source gives, its id_val rows
    the source validation (without them a tenth of train), its test rows all that a target shows.
    Images without a domain, in a store that has some, are in no part.
    """
    targets = _known("target", targets, table)
    sources = _known("source", sources, table)
    if both := {*sources} & {*targets}:
        raise ValueError(f"{', '.join(sorted(both))} cannot be source and target at once")
    sources = sources or tuple(name for name in table.domains if name not in targets)
    if table.domains and not sources:
        raise ValueError(f"no source is left: all of {', '.join(targets)} are targets")
    split = np.array(table.split, dtype=object)
    each = [_of(table, name) for name in sources] or [np.arange(len(table.path))]
    divided = [_divide(table, rows, split, f"split {seed}") for rows in each]
    train, val = (np.sort(np.concatenate(part)) for part in zip(*divided, strict=True))
    if not len(train):
        where = ", ".join(sources) or "the store"
        raise ValueError(f"no image to train on in {where}: each class needs two or more")
    shown = {name: _test_rows(_of(table, name), split) for name in targets}
    return Split(sources, targets, draw, train, val, table, shown)


def _log_opening(log: Path, name: str, why: str) -> None:
    opening = {"time": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "target": name, "why": why}
    with log.open("a", encoding="utf-8") as file:
        file.write(json.dumps(opening) + "\n")


def _divide(table: Table, rows: Rows, split: NDArray, salt: str) -> tuple[Rows, Rows]:
    """Train and validation of one source."""
    official = [rows[split[rows] == part] for part in ("train", "id_val")]
    if len(official[1]):
        return official[0], official[1]
    strata = _strata(table, official[0] if len(official[0]) else rows, salt)
    train, val = zip(*(np.split(some, [9 * len(some) // 10]) for some in strata), strict=True)
    return np.concatenate(train), np.concatenate(val)


def _test_rows(rows: Rows, split: NDArray) -> Rows:
    test = rows[split[rows] == "test"]
    return test if len(test) else rows


def _of(table: Table, name: str) -> Rows:
    return np.flatnonzero(table.domain == table.domains.index(name))


def _strata(table: Table, rows: Rows, salt: str) -> list[Rows]:
    """The rows of each domain and class, in the order of their salted names' SHA-256."""
    kinds: dict[tuple[int, int], list[tuple[bytes, int]]] = {}
    for row in rows.tolist():
        order = hashlib.sha256(f"{salt} {table.path[row]}".encode()).digest()
        kind = int(table.domain[row]), int(table.label[row])
        kinds.setdefault(kind, []).append((order, row))
    return [np.array([row for _, row in sorted(kinds[kind])], np.int64) for kind in sorted(kinds)]


def _known(what: str, names: Iterable[str], table: Table) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(names))
    for name in names:
        if name not in table.domains:
            raise ValueError(f"unknown {what} {name!r}{instead(name, table.domains, 'domains')}")
    return names
