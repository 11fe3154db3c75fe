"""An evaluation: predicted classes of every image, and the numbers that follow from them.

FOLDER/result.json               values of each fraction and seed; mean, std, n; where it comes from
       predictions.safetensors   by part ("val", "target/sketch"): (values, images) classes,
                                 "label/PART" (images,) and "rows/PART", the rows of the store

A value is a trained head or network: a fraction of the labels and a seed, in the order of the
result's "values". Accuracies are in percent.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from onestyle.checkpoint import read_weights, save_tensors
from onestyle.data.protocol import Pool, Split
from onestyle.data.store import Store, checksum
from onestyle.run import read_result, write_result

__all__ = [
    "COLUMNS",
    "Evaluation",
    "Predicted",
    "chance",
    "check_classes",
    "check_free",
    "open_parts",
    "read_evaluation",
    "scores",
    "summarize",
    "write_evaluation",
]

COLUMNS = ("average", "overall", "worst", "val")  # of targets, of their images; the lowest target


class Predicted(NamedTuple):
    """What was predicted of the images of a part; a label of -1 is not known and does not count."""

    classes: NDArray[np.int16]  # (values, images)
    label: NDArray[np.int16]  # (images,)
    rows: NDArray[np.int64]  # (images,) of the store


@dataclass(frozen=True)
class Evaluation:
    path: Path
    result: dict[str, Any]
    parts: dict[str, Predicted]

    @property
    def summary(self) -> dict[int, dict[str, dict[str, Any]]]:
        """By percent and column (COLUMNS and the targets): mean, std (None of one value), n."""
        return {int(percent): columns for percent, columns in self.result["summary"].items()}


def open_parts(store: Store, split: Split, log: Path, why: str = "evaluation") -> dict[str, Pool]:
    """Source validation and every target: what is predicted. Each opening is a line of `log`."""
    log.parent.mkdir(parents=True, exist_ok=True)
    parts = {"val": Pool(store, split.val)}
    for name in split.targets:
        parts[f"target/{name}"] = split.open_target(store, name, log=log, why=why)
    return parts


def check_classes(
    store: Store, split: Split, seen: Mapping[str, NDArray], *, allow_missing: bool = False
) -> dict[str, list[str]]:
    """The classes that the labelled images or a target lack; refused unless allowed.

    `seen` are the labels of the images that are predicted, by part."""
    if not split.has_labels:
        raise ValueError(f"no image of {store.name} has a class: there is nothing to evaluate")
    if clash := {*COLUMNS} & {*split.targets}:
        raise ValueError(f"a target cannot be called {clash.pop()!r}: a column of results is")
    labels = {"the labelled images": store.table.label[split.train]}
    labels |= {name.removeprefix("target/"): of for name, of in seen.items()}
    there = {name: {*of[of >= 0].tolist()} for name, of in labels.items()}
    every, missing = set().union(*there.values()), {}
    for name, found in there.items():
        if not found:
            raise ValueError(f"{name}: no image has a class, so nothing can be counted there")
        if name != "val" and found != every:
            missing[name] = [store.table.classes[k] for k in sorted(every - found)]
    if missing and not allow_missing:
        name, classes = next(iter(missing.items()))
        few = ", ".join(classes[:6]) + (", ..." if len(classes) > 6 else "")
        raise ValueError(
            f"{name}: no image of {len(classes)} of {len(every)} classes ({few}); "
            "--allow-missing evaluates all the same, balanced over the classes that are there"
        )
    return missing


def check_free(folder: Path, *, force: bool) -> None:
    if (folder / "result.json").exists() and not force:
        raise ValueError(f"{folder} holds an evaluation; --force overwrites it")


# ------------------------------------------------------------------------- what follows


def scores(parts: Mapping[str, Predicted], k: int) -> dict[str, Any]:
    """The accuracies of the k-th value."""
    targets = {name[7:]: part for name, part in parts.items() if name.startswith("target/")}
    counts = {name: _hits(part, k) for name, part in targets.items()}
    found = {
        "val": _accuracy(*_hits(parts["val"], k)),
        "targets": {
            name: {
                "accuracy": _accuracy(*counts[name]),
                "balanced": _balanced(part, k),
                "n": counts[name][1],
            }
            for name, part in targets.items()
        },
    }
    if targets:
        each = [_accuracy(*count) for count in counts.values()]
        found["average"] = statistics.fmean(each)
        found["overall"] = _accuracy(*map(sum, zip(*counts.values(), strict=True)))
        found["worst"] = min(each)
    return found


def _hits(part: Predicted, k: int) -> tuple[int, int]:
    known = part.label >= 0
    return int((part.classes[k] == part.label)[known].sum()), int(known.sum())


def _accuracy(hits: int, n: int) -> float:
    return 100 * hits / n


def _balanced(part: Predicted, k: int) -> float:
    """The mean of the accuracies of the classes that are there."""
    right, n = part.classes[k] == part.label, np.bincount(part.label[part.label >= 0])
    hits = np.bincount(part.label[right], minlength=len(n))
    there = n > 0
    return statistics.fmean(map(_accuracy, hits[there].tolist(), n[there].tolist()))


def summarize(values: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, dict[str, Any]]]:
    """By percent and column: mean, std (with n - 1; None of one value) and n."""
    found = {}
    for percent in dict.fromkeys(value["percent"] for value in values):
        same = [value for value in values if value["percent"] == percent]
        columns = {name: [value[name] for value in same] for name in COLUMNS if name in same[0]}
        for name in same[0]["targets"]:
            columns[name] = [value["targets"][name]["accuracy"] for value in same]
        found[str(percent)] = {name: _spread(numbers) for name, numbers in columns.items()}
    return found


def _spread(numbers: Sequence[float]) -> dict[str, Any]:
    n = len(numbers)
    std = statistics.stdev(numbers) if n > 1 else None
    return {"mean": statistics.fmean(numbers), "std": std, "n": n}


def chance(parts: Mapping[str, Predicted], n_classes: int) -> dict[str, dict[str, float]]:
    """For each target, the accuracy of naming its most common class, and that of guessing."""
    found = {}
    for name, part in parts.items():
        if name.startswith("target/"):
            counts = np.bincount(part.label[part.label >= 0])
            majority = _accuracy(int(counts.max()), int(counts.sum()))
            found[name[7:]] = {"majority": majority, "uniform": 100 / n_classes}
    return found


# ----------------------------------------------------------------------------- on the disk


def write_evaluation(
    folder: Path,
    config: Mapping[str, Any],
    parts: Mapping[str, Predicted],
    n_classes: int,
    *,
    beside: Mapping[str, Mapping[str, Predicted]] | None = None,
    spent: Mapping[str, Any] | None = None,
) -> None:
    """`config` says all that decided the result; its "values" (percent, seed, n_labels) get their
    accuracies here. `beside` are the predictions that another selector than its own chose,
    `spent` what decided nothing.

    result.json comes last: what lies beside none was not finished.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "result.json").unlink(missing_ok=True)
    chosen, file = {"": parts, **(beside or {})}, folder / "predictions.safetensors"
    save_tensors(file, _tensors(chosen))
    found = _numbers(config["values"], chosen) | {"chance": chance(parts, n_classes)}
    result = {**config, **found, "predictions_sha256": checksum(file), **(spent or {})}
    write_result(folder / "result.json", result, dict(config))


def _numbers(values: Sequence[Mapping[str, Any]], chosen: Mapping[str, Any]) -> dict[str, Any]:
    """What the predictions of each selector say; those of "", the evaluation's own, first."""
    found = {}
    for selector, parts in chosen.items():
        scored = [{**value, **scores(parts, k)} for k, value in enumerate(values)]
        found[selector] = {"values": scored, "summary": summarize(scored)}
    return {**found.pop(""), "beside": found}


def _tensors(chosen: Mapping[str, Mapping[str, Predicted]]) -> dict[str, torch.Tensor]:
    """The classes by selector and part, what is known of the images by part."""
    named = {}
    for selector, parts in chosen.items():
        for name, part in parts.items():
            named[f"{selector}:{name}" if selector else name] = part.classes
            named |= {f"label/{name}": part.label, f"rows/{name}": part.rows}
    return {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in named.items()}


def read_evaluation(folder: Path | str) -> Evaluation:
    """A finished evaluation whose predictions are those that its numbers are of."""
    folder = Path(folder)
    if not (folder / "result.json").is_file():
        raise ValueError(f"{folder} holds no finished evaluation; onestyle probe makes one")
    result, file = read_result(folder / "result.json"), folder / "predictions.safetensors"
    if not file.is_file() or checksum(file) != result.get("predictions_sha256"):
        raise ValueError(f"{file} is not what {folder / 'result.json'} is of: it was changed")
    tensors = read_weights(file)
    chosen = {selector: _parts(tensors, selector) for selector in ("", *result["beside"])}
    told = _numbers(result["values"], chosen)
    if any(told[name] != result[name] for name in told):
        raise ValueError(f"{folder / 'result.json'} does not say what its predictions say")
    return Evaluation(folder, result, chosen[""])


def _parts(tensors: Mapping[str, torch.Tensor], selector: str) -> dict[str, Predicted]:
    names = [name.removeprefix("rows/") for name in tensors if name.startswith("rows/")]
    where, found = f"{selector}:" if selector else "", {}
    for name in sorted(names, key=lambda name: (name != "val", name)):
        keys = where + name, f"label/{name}", f"rows/{name}"
        found[name] = Predicted(*(tensors[key].numpy() for key in keys))
    return found
