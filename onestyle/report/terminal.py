"""An evaluation as a table in the terminal."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from onestyle.recipes import SEEN
from onestyle.stages.evaluation import Evaluation

__all__ = ["print_evaluation"]

STAGES = {
    "probe": "linear probes",
    "finetune": "fine-tuning",
    "leave-one-out": "linear probes, each domain unseen in turn",
    "knn": "nearest neighbours",
    "logistic": "logistic regression",
}


def print_evaluation(evaluation: Evaluation) -> None:
    """Accuracies in percent: mean ± std over the seeds; what they are of and what chance gives."""
    result, console = evaluation.result, Console(width=240, highlight=False)
    targets = result["data"]["targets"]
    several = ["average", "overall", "worst"] if len(targets) > 1 else []
    columns = [*targets, *several, "val"]
    table = Table(box=None, pad_edge=False)
    for k, name in enumerate(["labels", "images", *columns]):
        shown = "source val" if name == "val" else name
        table.add_column(Text(shown), justify="left" if k == 0 else "right", no_wrap=True)
    for label, images, cells in _rows(result):
        table.add_row(label, images, *(cells.get(name, "") for name in columns))
    console.print(Text(_title(result)))
    console.print(table)
    for name, classes in result["missing"].items():
        console.print(Text(f"{name}: no image of {', '.join(classes)}"))
    console.print(f"target images were opened {result['target_openings']} times so far")
    if _recipe(result).get("uses_target"):
        console.print(f"{SEEN}: learned from images of the targets without their labels")


def _title(result: Mapping[str, Any]) -> str:
    network = result["network"]
    name = network.get("run") or network.get("file") or f"{network['init']}:{network['timm']}"
    varied = " and ".join(result["varied"]).replace("labels", "labels (below 100%)")
    n = max(summary["val"]["n"] for summary in result["summary"].values())
    spread = f"mean ± std, n = {n}, {varied} varied" if n > 1 else "n = 1"
    name += SEEN if _recipe(result).get("uses_target") else ""
    words = [f"{name} on {result['data']['store']}", STAGES[result["stage"]]]
    words += [f"by {result['recipe']['method']}"] if "recipe" in result else []
    words += [result["selector"]] if result["selector"] != "none" else []
    return f"{', '.join(words)}: {spread}"


def _recipe(result: Mapping[str, Any]) -> Mapping[str, Any]:
    """By which labels were learned from, or else that of the pretraining."""
    return result.get("recipe") or result["network"].get("recipe") or {}


def _rows(result: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, str]]]:
    """What each row is called, how many labels it has, its cells by column."""
    counts: dict[int, set[int]] = {}
    for value in result["values"]:
        counts.setdefault(value["percent"], set()).add(value["n_labels"])
    for percent, columns in result["summary"].items():
        n_labels = " ".join(f"{n:,}" for n in sorted(counts[int(percent)]))
        yield f"{percent}%", n_labels, {name: _cell(of) for name, of in columns.items()}
    for percent in result["summary"]:
        of = [value["targets"] for value in result["values"] if value["percent"] == int(percent)]
        cells = {name: _balanced(each[name]["balanced"] for each in of) for name in of[0]}
        yield from [(f"{percent}%, classes alike", "", cells)] if cells else []
    for selector, found in result["beside"].items():
        word = (
            "chosen by source validation" if selector != "oracle" else "ORACLE, chosen by targets"
        )
        for percent, columns in found["summary"].items():
            yield f"{percent}%, {word}", "", {name: _cell(of) for name, of in columns.items()}
    for kind, word in (("majority", "the most common class"), ("uniform", "guessing")):
        cells = {name: f"{of[kind]:.2f}" for name, of in result["chance"].items()}
        yield from [(word, "", cells)] if cells else []


def _cell(of: Mapping[str, Any]) -> str:
    return f"{of['mean']:.2f}" + (f" ± {of['std']:.2f}" if of["std"] is not None else "")


def _balanced(numbers: Iterable[float]) -> str:
    numbers = list(numbers)
    std = statistics.stdev(numbers) if len(numbers) > 1 else None
    return _cell({"mean": statistics.fmean(numbers), "std": std})
