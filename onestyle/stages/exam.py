"""What an evaluation begins with: a network, the labels it may see, the images it is tried on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from onestyle.data.protocol import Pool, Rows, Split
from onestyle.data.store import Store
from onestyle.progress import progress
from onestyle.run import OPENINGS, read_rows
from onestyle.stages.evaluation import Predicted, check_classes, check_free, open_parts
from onestyle.stages.frozen import Frozen, open_images
from onestyle.stages.pretrain import describe_data

__all__ = ["Draw", "Exam", "default_device", "draws_of", "n_seeds"]

SEEDS = {"camelyon17": 10}  # the paper's runs; else 3


class Draw(NamedTuple):
    """The labels of a value: a fraction and a seed."""

    percent: int
    seed: int
    rows: Rows  # of the store


def draws_of(split: Split, percents: Iterable[int], seeds: int) -> list[Draw]:
    pairs = [(percent, seed) for percent in dict.fromkeys(percents) for seed in range(seeds)]
    return [Draw(p, seed, replace(split, draw=seed).labelled(p)) for p, seed in pairs]


def n_seeds(data: str, asked: int | None = None) -> int:
    if asked is not None and asked < 1:
        raise ValueError(f"seeds must be at least 1, got {asked}")
    return asked or SEEDS.get(data, 3)


@dataclass(frozen=True)
class Exam:
    """A network, the images that it is tried on, and the folder that says what came of it."""

    frozen: Frozen
    store: Store
    split: Split
    folder: Path
    parts: dict[str, Pool]
    missing: dict[str, list[str]]  # classes

    @classmethod
    def open(
        cls,
        stage: str,
        frozen: Frozen,
        store: Path | str | None,
        *,
        targets: Iterable[str] = (),
        sources: Iterable[str] = (),
        out: Path | str | None = None,
        force: bool = False,
        allow_missing: bool = False,
        why: str = "evaluation",
    ) -> Exam:
        opened, split = open_images(frozen, store, targets=targets, sources=sources)
        folder = Path(out) if out else _home(frozen, opened, split) / stage
        check_free(folder, force=force)
        parts = open_parts(opened, split, _log_of(frozen, folder), why)
        seen = {name: pool.labels for name, pool in parts.items()}
        missing = check_classes(opened, split, seen, allow_missing=allow_missing)
        return cls(frozen, opened, split, folder, parts, missing)

    @property
    def n_classes(self) -> int:
        return len(self.store.table.classes)

    @property
    def log(self) -> Path:
        """Of openings of target images."""
        return _log_of(self.frozen, self.folder)

    @property
    def openings(self) -> int:
        """How often target images were opened, this time included."""
        return len(read_rows(self.log))

    def about(self, stage: str, draws: Sequence[Draw], seeds: Mapping[str, Any]) -> dict[str, Any]:
        """What all results of this exam say."""
        varied = [name for name, of in seeds.items() if isinstance(of, list) and len(of) > 1]
        run = self.frozen.run
        return {
            "stage": stage,
            "network": self.frozen.about,
            "data": describe_data(self.store, self.split),
            "classes": list(self.store.table.classes),
            "missing": self.missing,
            "seeds": {"pretraining": run.recipe.seed if run else None, **seeds},
            "varied": varied,
            "selector": "last step",
            "values": [
                {"percent": draw.percent, "seed": draw.seed, "n_labels": len(draw.rows)}
                for draw in draws
            ],
        }

    def over(
        self, what: str, pools: Mapping[str, Pool], make: Callable[..., Tensor]
    ) -> dict[str, Tensor]:
        """`make(pool, show=...)` of every pool."""
        found, done = {}, 0
        with progress(what, sum(map(len, pools.values()))) as shown:
            for name, pool in pools.items():

                def show(n: int, before: int = done) -> None:
                    shown.show(before + n)

                found[name] = make(pool, show=show)
                done += len(pool)
        return found

    def features(self, rows: Rows, device: str) -> dict[str, Tensor]:
        """Of the labelled rows ("train") and of every part, unaugmented."""
        pools = {"train": Pool(self.store, rows), **self.parts}
        return self.over("features", pools, partial(self.frozen.features, device=device))

    def predicted(self, classify: Callable[[str], Tensor]) -> dict[str, Predicted]:
        """`classify` makes the classes (values, images) of a part."""
        return {
            name: Predicted(
                classify(name).cpu().numpy().astype(np.int16),
                pool.labels.astype(np.int16),
                pool.rows,
            )
            for name, pool in self.parts.items()
        }


def _log_of(frozen: Frozen, folder: Path) -> Path:
    """Where openings of target images are counted."""
    return (frozen.run.path if frozen.run else folder) / OPENINGS


def _home(frozen: Frozen, store: Store, split: Split) -> Path:
    """The run's folder, or one that is named like a run's."""
    if frozen.run:
        return frozen.run.path
    name = "-".join([str(frozen.about["init"]), frozen.timm, store.name, *split.targets])
    return Path("runs", "".join(c if c.isalnum() or c in "-_." else "_" for c in name))


def default_device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"
