"""Linear probes of a frozen network: all fractions of the labels and all seeds at once.

    folder = probe("runs/digits-simclr-bss-photo-s0")
    read_evaluation(folder).summary[5]["photo"]          # {"mean": ..., "std": ..., "n": 3}

Seed s is the draw of the labels s and the probe's seed s.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from onestyle.checkpoint import save_tensors
from onestyle.data.protocol import FRACTIONS, Rows
from onestyle.progress import progress
from onestyle.recipes import changed
from onestyle.stages.evaluation import Predicted, scores, write_evaluation
from onestyle.stages.exam import Draw, Exam, default_device, draws_of, n_seeds
from onestyle.stages.frozen import open_frozen
from onestyle.stages.linear import Heads, Probing, Problem, follow_probes, probing_of

__all__ = ["probe"]

LOOKS = 10  # at which a selector that is not the last step may choose


def probe(
    what: str,
    store: Path | str | None = None,
    *,
    percents: Iterable[int] = FRACTIONS,
    seeds: int | None = None,
    settings: Iterable[str] = (),
    network: Mapping[str, Any] | None = None,
    device: str | None = None,
    oracle: bool = False,
    **options: Any,
) -> Path:
    """Probe `what` (see `open_frozen`, whose options are `network`); the evaluation's folder.

    `options` are those of `Exam.open`: targets, sources, out, force, allow_missing. `settings`
    change the data set's `Probing`: "steps=100". `oracle` also tells what choosing by the targets
    would give.
    """
    began, device, settings = time.monotonic(), device or default_device(), [*settings]
    changed(Probing(), settings)  # refuses wrong ones before a target is opened
    why = "oracle" if oracle else "evaluation"
    frozen = open_frozen(what, **(network or {}))
    exam = Exam.open("probe", frozen, store, why=why, **options)
    how = changed(probing_of(exam.store.name), settings)
    seeds = n_seeds(exam.store.name, seeds)
    draws = draws_of(exam.split, percents, seeds)
    rows = np.unique(np.concatenate([draw.rows for draw in draws]))
    features = {name: of.to(device) for name, of in exam.features(rows, device).items()}
    looks = sorted({-(-how.steps * k // LOOKS) for k in range(1, LOOKS + 1)})
    followed = _train(exam, features["train"], rows, draws, how, looks)
    each = [exam.predicted(lambda name, h=heads: h.predict(features[name])) for heads in followed]

    numbers = list(range(seeds))
    config = exam.about("probe", draws, {"labels": numbers, "probe": numbers})
    chosen = {"source validation": _choose(each, lambda score: score["val"])}
    if oracle and exam.split.targets:
        chosen["oracle"] = _choose(each, lambda score: score["average"])
    config |= {
        "probing": asdict(how),
        "steps": {k: [looks[i] for i in v] for k, v in chosen.items()},
    }
    _save_heads(exam, followed[-1], config)
    beside = {selector: _mix(each, places) for selector, places in chosen.items()}
    spent = {"target_openings": exam.openings, "seconds": round(time.monotonic() - began, 1)}
    write_evaluation(exam.folder, config, each[-1], exam.n_classes, beside=beside, spent=spent)
    return exam.folder


def _train(
    exam: Exam,
    features: Tensor,
    rows: Rows,
    draws: Sequence[Draw],
    probing: Probing,
    looks: Sequence[int],
) -> list[Heads]:
    """The heads of all draws at every look; `rows` are those of the features."""
    labels = torch.from_numpy(exam.store.table.label[rows].astype(np.int64))
    problems = [Problem(np.searchsorted(rows, draw.rows), draw.seed) for draw in draws]
    with progress("probes", len(problems) * probing.steps) as shown:
        return follow_probes(
            features,
            labels.to(features.device),
            problems,
            exam.n_classes,
            probing,
            at=looks,
            show=shown.show,
        )


def _choose(looks: Sequence[Mapping[str, Predicted]], by: Callable[[dict], float]) -> list[int]:
    """For each value the look with the highest score, the latest of equals."""
    n_values, last = len(looks[0]["val"].classes), len(looks)
    return [max(range(last), key=lambda i: (by(scores(looks[i], k)), i)) for k in range(n_values)]


def _mix(looks: Sequence[Mapping[str, Predicted]], places: Sequence[int]) -> dict[str, Predicted]:
    """Each value's predictions at its own look."""
    return {
        name: part._replace(
            classes=np.stack([looks[i][name].classes[k] for k, i in enumerate(places)])
        )
        for name, part in looks[0].items()
    }


def _save_heads(exam: Exam, heads: Heads, config: Mapping[str, Any]) -> None:
    """With what is needed to use them on other images."""
    store = exam.store
    about = {"classes": config["classes"], "values": config["values"], "size": store.size}
    about |= {"resize": store.manifest.get("resize", "stretch"), "network": config["network"]}
    exam.folder.mkdir(parents=True, exist_ok=True)
    words = {name: json.dumps(value, ensure_ascii=False) for name, value in about.items()}
    save_tensors(exam.folder / "heads.safetensors", heads._asdict(), words)
