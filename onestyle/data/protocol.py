"""Who may see what: the all-correlated protocol of unsupervised domain generalization.

    split = make_split(store.table, targets=["sketch"], draw=0)
    pool = Pool(store, split.train)          # all that pretraining can read
    few = Pool(store, split.labelled(5))     # 5% of it, with labels
    test = split.open_target(store, "sketch", log=run / "target_openings.jsonl")

Rows of a domain and class are put into an order that depends on the seed and their names alone
(SHA-256, no generator of random numbers). Of n, the first floor(9 n / 10) are train, the rest
source validation; of the train rows, in an order of the label draw, the first ceil(p n / 100) are
the fraction of p percent: so fractions are nested. Integers only.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from onestyle.data.store import Store, Table

__all__ = ["FRACTIONS", "Pool", "Split", "make_split"]

FRACTIONS = (1, 5, 10, 100)  # percent
Rows = NDArray[np.int64]


class Pool:
    """Some rows of a store; whoever is given it can read those and no others."""

    def __init__(self, store: Store, rows: Rows):
        self._store, self._rows = store, rows

    def __len__(self) -> int:
        return len(self._rows)

    def images(self, places: Sequence[int] | NDArray[np.integer]) -> NDArray[np.uint8]:
        """Places in the pool, 0..len - 1 -> (n, 3, S, S)."""
        places = np.asarray(places, np.int64)
        if len(places) and not 0 <= places.min() <= places.max() < len(self):
            span = f"{places.min()}..{places.max()}"
            raise IndexError(f"the pool has the places 0..{len(self) - 1}, asked for {span}")
        return self._store.read(self._rows[places])

    @property
    def labels(self) -> NDArray[np.int32]:
        return self._store.table.label[self._rows]

    @property
    def domains(self) -> NDArray[np.int32]:
        return self._store.table.domain[self._rows]

    @property
    def paths(self) -> list[str]:
        return [self._store.table.path[row] for row in self._rows]


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
        """The rows of `train` whose labels may be used: stratified by domain and class, nested."""
        if percent != int(percent) or not 1 <= percent <= 100:
            raise ValueError(
                f"a fraction is a whole number of percent from 1 to 100, got {percent}"
            )
        if (self._table.label[self.train] < 0).any():
            raise ValueError("not all images have a class, so there is no fraction to draw")
        chosen = [
            rows[: -(-int(percent) * len(rows) // 100)]
            for rows in _strata(self._table, self.train, f"labels {self.draw}")
        ]
        return np.sort(np.concatenate(chosen))

    def n_target(self, name: str) -> int:
        return len(self._target_rows[name])

    def open_target(
        self, store: Store, name: str, *, log: Path | None, why: str = "evaluation"
    ) -> Pool:
        """The images of a target domain, for evaluation; each opening is a line of `log`."""
        if name not in self._target_rows:
            raise ValueError(f"{name!r} is not a target; the targets are {', '.join(self.targets)}")
        if log is not None:
            opening = {"time": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "target": name, "why": why}
            with log.open("a", encoding="utf-8") as file:
                file.write(json.dumps(opening) + "\n")
        return Pool(store, self._target_rows[name])

    @property
    def hash(self) -> str:
        """Of the names in every part, whatever the order of the store."""
        parts = {"train": self.train, "val": self.val, **self._target_rows}
        if not (self._table.label[self.train] < 0).any():
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

    Where the store has an official split, its train rows are the sources' pool, its id_val rows
    the source validation (without them a tenth of train), its test rows all that a target shows.
    """
    targets = _known("target", targets, table)
    sources = _known("source", sources, table)
    if both := {*sources} & {*targets}:
        raise ValueError(f"{', '.join(sorted(both))} cannot be source and target at once")
    sources = sources or tuple(name for name in table.domains if name not in targets)
    if table.domains and not sources:
        raise ValueError(f"no source is left: all of {', '.join(targets)} are targets")
    split = np.array(table.split, dtype=object)
    pool = _of(table, sources)
    official = pool[np.isin(split[pool], ("train", "id_val"))]
    train, val = pool, pool[:0]
    if len(official):
        train, val = (official[split[official] == part] for part in ("train", "id_val"))
    if not len(val):
        strata = [(rows, 9 * len(rows) // 10) for rows in _strata(table, train, f"split {seed}")]
        train = np.sort(np.concatenate([rows[:n] for rows, n in strata]))
        val = np.sort(np.concatenate([rows[n:] for rows, n in strata]))
    shown = {name: _test_rows(_of(table, (name,)), split) for name in targets}
    return Split(sources, targets, draw, train, val, table, shown)


def _test_rows(rows: Rows, split: NDArray) -> Rows:
    test = rows[split[rows] == "test"]
    return test if len(test) else rows


def _of(table: Table, names: tuple[str, ...]) -> Rows:
    """The rows of these domains; all of a store without domains."""
    if not table.domains:
        return np.arange(len(table.path))
    numbers = [table.domains.index(name) for name in names]
    return np.flatnonzero(np.isin(table.domain, numbers))


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
            near = difflib.get_close_matches(name, table.domains, n=1)
            hint = f"did you mean {near[0]}? " if near else ""
            known = ", ".join(table.domains) or "none"
            raise ValueError(f"unknown {what} {name!r}; {hint}domains are: {known}")
    return names
