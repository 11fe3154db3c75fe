"""What has come of a plan's jobs: folders are found by what they say, not by their names.

A copy without weights and predictions (recipe.yaml, result.json, probe/result.json) serves as well;
its numbers cannot be checked against predictions any more, and are marked so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from onestyle.data.store import Store
from onestyle.run import Run, read_result, read_run
from onestyle.stages.evaluation import read_evaluation, summarize
from onestyle.tables.plan import EVALUATION, Job, differences, fingerprint, scratch

__all__ = ["STAGES", "Evaluated", "Found", "Harvest", "collect", "look_into"]

STAGES = ("probe", "finetune")
WORDS = {  # that a result must have, besides those which `read_result` and `read_run` ask for
    "pretrain": {"seconds", "devices", "target_openings", "made_with"},
    "probe": {"probing"},
    "finetune": {"training", "views"},
}
COMMON = {"network", "data", "seeds", "varied", "selector", "made_with"}
COMMON |= {"values", "summary", "beside", "predictions_sha256"}
PART = "part"  # the key of a folder within an evaluation
Seeds = tuple[int | None, int]  # of the pretraining; of labels and probe


@dataclass(frozen=True)
class Evaluated:
    """One evaluation of one network."""

    folder: Path
    result: dict[str, Any]
    checked: bool  # against its predictions

    @property
    def protocol(self) -> dict[str, Any]:
        how = self.result.get("probing") or self.result["training"]
        return {name: how[name] for name in EVALUATION}

    def values(self) -> Iterator[tuple[int, Seeds, dict[str, dict[str, float]]]]:
        """Percent, seeds, what was found on each target."""
        pretraining = self.result["seeds"]["pretraining"]
        for value in self.result["values"]:
            yield value["percent"], (pretraining, value["seed"]), value["targets"]


@dataclass
class Found:
    """The folder of a job, and how far it is."""

    folder: Path
    data: dict[str, Any] = field(default_factory=dict)
    result: dict[str, Any] | None = None  # of the pretraining; None: not finished
    evaluated: dict[str, Evaluated] = field(default_factory=dict)  # by stage

    def lacks(self, job: Job) -> list[str]:
        """The stages that the job has still to go through."""
        stages = ["pretrain"] if job.pretrained and self.result is None else []
        for stage, percents in (("probe", job.probed), ("finetune", job.finetuned)):
            wanted = {(percent, seed) for percent in percents for seed in range(job.n_seeds)}
            there = self.evaluated.get(stage)
            known = {(p, seeds[1]) for p, seeds, _ in there.values()} if there else set()
            stages += [stage] if wanted - known else []
        return stages


@dataclass
class Harvest:
    found: dict[str, Found]  # by the job's key
    problems: list[str]  # of folders that belong here and cannot be used, a line each
    others: list[str] = field(default_factory=list)  # runs of no job, and why they are of none

    def of(self, job: Job) -> Found | None:
        return self.found.get(job.key)

    def lacks(self, job: Job) -> list[str]:
        return (self.of(job) or Found(Path())).lacks(job)

    def missing(self, jobs: Iterable[Job]) -> list[Job]:
        return [job for job in jobs if self.lacks(job)]


def collect(runs: Path, jobs: Sequence[Job], store: Store | None = None) -> Harvest:
    """Look through a folder of runs, whatever their depth; with a store, only for runs on it."""
    known, harvest = {job.key: job for job in jobs}, Harvest({}, [])
    for folder in sorted(_folders(runs)):
        try:
            key, data = _identify(folder)
        except ValueError as error:
            harvest.problems.append(str(error))
            continue
        if key == PART:
            continue
        if key not in known or (store and not _same_images(data, store)):
            harvest.others.append(f"{folder}{_why_not(folder, data, jobs, store)}")
            continue
        found, problems = look_into(folder, known[key])
        harvest.problems += problems
        _keep(harvest, known[key], found)
    _refuse_several_stores(harvest)
    return harvest


def _folders(runs: Path) -> set[Path]:
    """Of runs, and of networks without one that have been trained on labels."""
    pretrained = {file.parent for file in runs.rglob("recipe.yaml")}
    scratch = {
        file.parent
        for file in runs.rglob("result.json")
        if file.parent not in pretrained and file.parent.parent not in pretrained
    }
    return pretrained | scratch


def _identify(folder: Path) -> tuple[str, dict[str, Any]]:
    """The key of the job that a folder is of, and its data."""
    file = folder / "recipe.yaml"
    if not file.is_file():
        return _identify_scratch(read_result(folder / "result.json"))
    try:
        config = yaml.safe_load(file.read_text(encoding="utf-8"))
        if config.get("stage") == "finetune":
            return PART, {}
        data = config["data"]
        return fingerprint(config["recipe"], data["sources"], data["targets"]), data
    except (ValueError, KeyError, TypeError, yaml.YAMLError) as error:
        raise ValueError(f"{file} cannot be read: {' '.join(str(error).split())}") from error


def _identify_scratch(result: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    network, data = result.get("network", {}), result.get("data", {})
    if "recipe" in result:  # of labels, on the recipe's own network or on another one
        its = fingerprint(result["recipe"], data["sources"], data["targets"])
        return its if network.get("own") else "", data
    if result.get("stage") != "finetune" or network.get("init") != "random":
        return "", data
    size, options = result["views"]["groups"][0]["size"], network.get("options", {})
    recipe = scratch(network["timm"], size, options)
    return fingerprint(recipe, data["sources"], data["targets"]), data


def _why_not(folder: Path, data: dict[str, Any], jobs: Sequence[Job], store: Store | None) -> str:
    """What keeps a run from being that of the job which is most like it."""
    if store and not _same_images(data, store):
        return f": on other images than those of {store.path or store.name}"
    if not (folder / "recipe.yaml").is_file():
        return ""
    recipe = yaml.safe_load((folder / "recipe.yaml").read_text(encoding="utf-8"))["recipe"]
    like = [job for job in jobs if job.line.method == recipe["method"]]
    like = [job for job in like if sorted(job.targets) == sorted(data["targets"])]
    apart = min((differences(recipe, job.recipe) for job in like), key=len, default=[])
    return f": {', '.join(apart)}" if apart else ""


def _same_images(data: dict[str, Any], store: Store) -> bool:
    return _images(data) == (len(store), store.size, store.manifest.get("pixels_sha256"))


def _images(data: dict[str, Any]) -> tuple:
    return data.get("n"), data.get("size"), data.get("pixels_sha256")


def look_into(folder: Path, job: Job) -> tuple[Found, list[str]]:
    """What a folder holds for a job, and of what cannot be used a line each."""
    found, problems = _read(folder)
    for stage, evaluated in [*found.evaluated.items()]:
        was, wanted = evaluated.protocol, job.protocol
        apart = [
            f"{name} {was[name]}, not {wanted[name]}" for name in was if was[name] != wanted[name]
        ]
        if apart:
            del found.evaluated[stage]
            how = "--probe-set asks for that, or delete it"
            problems.append(f"{evaluated.folder} was made with {'; '.join(apart)}: {how}")
    return found, problems


def _read(folder: Path) -> tuple[Found, list[str]]:
    found, problems = Found(folder, _identify(folder)[1]), []
    if not (folder / "recipe.yaml").is_file():
        _read_evaluation(folder, "finetune", found, problems)
    elif (folder / "result.json").is_file():
        try:
            result = read_run(folder).read_result()
            found.result = _with_words(folder / "result.json", result, WORDS["pretrain"])
        except ValueError as error:
            return found, [str(error)]
        for stage in STAGES:
            if (folder / stage / "result.json").is_file():
                _read_evaluation(folder / stage, stage, found, problems)
    return found, problems


def _read_evaluation(folder: Path, stage: str, found: Found, problems: list[str]) -> None:
    try:
        found.evaluated[stage] = _evaluation(folder, stage, found)
    except ValueError as error:
        problems.append(str(error))


def _evaluation(folder: Path, stage: str, found: Found) -> Evaluated:
    file, kept = folder / "result.json", (folder / "predictions.safetensors").exists()
    result = _with_words(file, read_result(file), COMMON | WORDS[stage])
    if kept or Run(found.folder, {}).backbone.exists():
        read_evaluation(folder)  # refuses what was edited
    elif summarize(result["values"]) != result["summary"]:
        raise ValueError(f"{file}: its summary is not that of its values")
    if found.result and result["network"].get("config_hash") != found.result["config_hash"]:
        raise ValueError(f"{folder} is of another run than {found.folder}")
    return Evaluated(folder, result, checked=kept)


def _with_words(file: Path, result: dict[str, Any], words: set[str]) -> dict[str, Any]:
    if missing := sorted(words - result.keys()):
        raise ValueError(f"{file} says nothing of {', '.join(missing)}: it was changed")
    return result


def _keep(harvest: Harvest, job: Job, found: Found) -> None:
    """Of several folders of one job, the one that is furthest; then the first by name."""
    there = harvest.of(job)
    if there is None or len(found.lacks(job)) < len(there.lacks(job)):
        harvest.found[job.key] = found


def _refuse_several_stores(harvest: Harvest) -> None:
    where: dict[tuple, Found] = {}
    for found in harvest.found.values():
        where.setdefault(_images(found.data), found)
    if len(where) > 1:
        two = " and ".join(str(found.folder) for found in list(where.values())[:2])
        raise ValueError(f"{two} were trained on other images; --data STORE says which are meant")
