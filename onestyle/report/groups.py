"""The runs of a report: those that differ in their seed alone are a group, of one name and colour.

An evaluation is the content of its result.json; its accuracies are in percent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NamedTuple

from onestyle.analysis.drawing import looks_of
from onestyle.methods import method_named
from onestyle.recipes import SEEN, Recipe, plain
from onestyle.run import Run, read_run
from onestyle.stages.evaluation import read_evaluation

__all__ = [
    "STYLES",
    "Group",
    "Score",
    "budget_of",
    "chance_of",
    "percents_of",
    "read_groups",
    "score",
]

STYLES = {"none": "plain", "fa": "FA", "bss": "BSS"}
SEEDS = {"seed", "log_every", "monitor_every", "snapshot_every", "save_minutes"}  # what may differ


@dataclass(frozen=True)
class Group:
    """Finished runs, their results and, of those that were probed, the evaluations."""

    name: str
    marker: str
    colour: str
    runs: tuple[Run, ...]
    results: tuple[dict[str, Any], ...]
    evaluations: tuple[dict[str, Any], ...]

    @property
    def recipe(self) -> Recipe:
        """That of the first run."""
        return self.runs[0].recipe


class Score(NamedTuple):
    """Accuracies of the seeds that varied: of pretraining, or of labels and probe if one run was
    pretrained."""

    values: tuple[float, ...]
    varied: str

    @property
    def mean(self) -> float:
        return fmean(self.values)

    @property
    def std(self) -> float | None:
        return stdev(self.values) if len(self.values) > 1 else None


def read_groups(paths: Iterable[Path | str]) -> list[Group]:
    """The runs, which must be of the same data, by method and style: plain, FA, BSS."""
    runs = [read_run(path) for path in paths]
    _require_one_protocol(runs)
    alike: dict[str, list[Run]] = {}
    for run in runs:
        alike.setdefault(str(_kind(run.recipe)), []).append(run)
    order = list(STYLES)
    groups = sorted(alike.values(), key=lambda g: (g[0].recipe.method, order.index(_style(g[0]))))
    for group in groups:
        _require_different_seeds(group)
    names = _names([group[0].recipe for group in groups])
    looks = looks_of(names)
    return [
        Group(
            name,
            looks[name].marker,
            looks[name].colour,
            tuple(group),
            tuple(run.read_result() for run in group),
            tuple(filter(None, map(_probed, group))),
        )
        for name, group in zip(names, groups, strict=True)
    ]


def score(group: Group, percent: int, measure: str) -> Score | None:
    """`measure` is a target's name, average, overall or worst of them, or val."""
    each = []
    for evaluation in group.evaluations:
        values = [v for v in evaluation["values"] if v["percent"] == percent]
        found = [_accuracy(value, measure) for value in values]
        each.append([value for value in found if value is not None])
    each = [values for values in each if values]
    if len(each) < 2:
        return Score(tuple(each[0]), "labels and probe") if each else None
    return Score(tuple(map(fmean, each)), "pretraining")


def percents_of(groups: Sequence[Group]) -> list[int]:
    """The label fractions that any group was probed with."""
    evaluations = (evaluation for group in groups for evaluation in group.evaluations)
    return sorted({value["percent"] for one in evaluations for value in one["values"]})


def chance_of(groups: Sequence[Group], measure: str) -> float | None:
    """The accuracy of always saying the most frequent class; None where that is not known."""
    for group in groups:
        for evaluation in group.evaluations:
            known = {name: each["majority"] for name, each in evaluation["chance"].items()}
            if measure in known:
                return known[measure]
            if measure == "average" and known:
                return fmean(known.values())
    return None


def budget_of(group: Group) -> str:
    """Network, steps, images and views of the group's runs."""
    recipe, result = group.recipe, group.results[0]
    size, views = recipe.batch_size * recipe.accumulate, recipe.plan().groups
    return (
        f"{recipe.backbone}, {result['parameters'] / 1e6:.2g} M parameters, "
        f"{recipe.init} initialisation; {recipe.steps:,} steps of {size} images in "
        f"{sum(each.n for each in views)} views"
    )


def _accuracy(value: dict[str, Any], measure: str) -> float | None:
    if measure in value["targets"]:
        return value["targets"][measure]["accuracy"]
    return value.get(measure)


def _probed(run: Run) -> dict[str, Any] | None:
    """The result of the run's probe, if it has one, whose predictions were not changed."""
    folder = run.path / "probe"
    if not (folder / "result.json").is_file():
        return None
    result = read_evaluation(folder).result
    if result["network"].get("config_hash") != run.read_result()["config_hash"]:
        raise ValueError(f"{folder} is not of {run.path}: onestyle probe --force makes it anew")
    return result


def _style(run: Run) -> str:
    return run.recipe.style


def _kind(recipe: Recipe) -> dict[str, Any]:
    """The recipe without what may differ between runs of one group."""
    return {key: value for key, value in plain(recipe).items() if key not in SEEDS}


def _require_one_protocol(runs: Sequence[Run]) -> None:
    first = runs[0]
    for run in runs[1:]:
        if run.config["data"] != first.config["data"]:
            one, other = (f"{r.path} ({_data(r)})" for r in (first, run))
            raise ValueError(
                f"{one} and {other} are of different data and cannot be compared: make a report "
                "of each"
            )


def _data(run: Run) -> str:
    data = run.config["data"]
    targets = ", ".join(data["targets"]) or "none"
    return f"{data['store']} of {data['size']} px, targets: {targets}"


def _require_different_seeds(group: Sequence[Run]) -> None:
    seeds: dict[int, Run] = {}
    for run in group:
        other = seeds.setdefault(run.recipe.seed, run)
        if other is not run:
            raise ValueError(
                f"{other.path} and {run.path} are the same recipe with the same seed: name one"
            )


def _names(recipes: Sequence[Recipe]) -> list[str]:
    """ "BSS"; "SimCLR, BSS" beside other methods; with what else differs, where needed."""
    methods = [method_named(recipe.method).__name__ for recipe in recipes]
    names = [STYLES[recipe.style] for recipe in recipes]
    if len({*methods}) > 1:
        names = [f"{method}, {name}" for method, name in zip(methods, names, strict=True)]
    names = [
        name + (SEEN if recipe.uses_target else "")
        for name, recipe in zip(names, recipes, strict=True)
    ]
    return [
        f"{name}, {_difference(recipe, recipes)}" if names.count(name) > 1 else name
        for name, recipe in zip(names, recipes, strict=True)
    ]


def _difference(recipe: Recipe, recipes: Sequence[Recipe]) -> str:
    """The fields in which recipes of the same method and style differ, with this one's values."""
    alike = [_kind(r) for r in recipes if (r.method, r.style) == (recipe.method, recipe.style)]
    mine = _kind(recipe)
    differ = [key for key in mine if any(other.get(key) != mine[key] for other in alike)]
    return ", ".join(f"{key} {mine[key]}" for key in differ)
