"""Quick looks at frozen features: nearest neighbours and logistic regression, of scikit-learn."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from onestyle.data.protocol import FRACTIONS
from onestyle.progress import progress
from onestyle.stages.evaluation import check_free, write_evaluation
from onestyle.stages.exam import Draw, Exam, default_device, draws_of, n_seeds
from onestyle.stages.frozen import open_frozen

__all__ = ["LOOKS", "quick_looks"]

K = 20
# Each is made for so many labelled images.
LOOKS = {
    "knn": lambda n: KNeighborsClassifier(min(K, n), metric="cosine", algorithm="brute"),
    "logistic": lambda n: make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000)),
}


def quick_looks(
    what: str,
    store: Path | str | None = None,
    *,
    percents: Iterable[int] = FRACTIONS,
    seeds: int | None = None,
    network: Mapping[str, Any] | None = None,
    device: str | None = None,
    out: Path | str | None = None,
    **options: Any,
) -> list[Path]:
    """An evaluation of each of LOOKS, with `probe`'s options; below `out`, its folder has its name.

    Nothing but the labels varies, so that all of them are tried once.
    """
    began, frozen = time.monotonic(), open_frozen(what, **(network or {}))
    options["out"] = Path(out, "knn") if out else None
    exam = Exam.open("knn", frozen, store, **options)
    folders = {stage: exam.folder.with_name(stage) for stage in LOOKS}
    for folder in folders.values():
        check_free(folder, force=options.get("force", False))
    draws = draws_of(exam.split, percents, n_seeds(exam.store.name, seeds))
    draws = [draw for draw in draws if draw.percent < 100 or draw.seed == 0]
    rows = np.unique(np.concatenate([draw.rows for draw in draws]))
    features = exam.features(rows, device or default_device())
    arrays = {name: of.numpy() for name, of in features.items()}
    for stage, folder in folders.items():
        _look(stage, replace(exam, folder=folder), draws, rows, arrays, began)
    return list(folders.values())


def _look(
    stage: str, exam: Exam, draws: list[Draw], rows: np.ndarray, features: dict, began: float
) -> None:
    labels, found = exam.store.table.label[rows], {name: [] for name in exam.parts}
    with progress(stage, len(draws)) as shown:
        for k, draw in enumerate(draws):
            places = np.searchsorted(rows, draw.rows)
            look = LOOKS[stage](len(places)).fit(features["train"][places], labels[places])
            for name, classes in found.items():
                classes.append(torch.from_numpy(look.predict(features[name])))
            shown.show(k + 1)
    parts = exam.predicted(lambda name: torch.stack(found[name]))
    config = exam.about(stage, draws, {"labels": sorted({draw.seed for draw in draws})})
    config["selector"] = "none"
    spent = {"target_openings": exam.openings, "seconds": round(time.monotonic() - began, 1)}
    write_evaluation(exam.folder, config, parts, exam.n_classes, spent=spent)
