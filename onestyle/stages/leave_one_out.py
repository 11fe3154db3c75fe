"""Leave one domain out, in turn: a pretraining and a probe for each, and one table of all.

OUT/0-NAME/   the run in which the first domain was unseen, and its probe
OUT/          their evaluation together: what lies in the runs is not done again
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from lightning_fabric import Fabric

from onestyle.data.protocol import FRACTIONS, make_split
from onestyle.data.store import Store, open_store
from onestyle.recipes import Recipe, changed, plain
from onestyle.run import Run
from onestyle.stages.evaluation import (
    Evaluation,
    Predicted,
    check_classes,
    read_evaluation,
    write_evaluation,
)
from onestyle.stages.exam import n_seeds
from onestyle.stages.linear import probing_of
from onestyle.stages.pretrain import make_fabric, pretrain, store_of
from onestyle.stages.probe import probe

__all__ = ["leave_one_out"]

Say = Callable[[str], object]


def leave_one_out(
    recipe: Recipe,
    store: Path | str | None = None,
    *,
    percents: Iterable[int] = FRACTIONS,
    seeds: int | None = None,
    settings: Iterable[str] = (),
    out: Path | str | None = None,
    fabric: Fabric | None = None,
    force: bool = False,
    allow_missing: bool = False,
    say: Say = lambda line: None,
) -> Path:
    """Pretrain and probe with each domain of the store as target; the folder of all."""
    opened = open_store(store or store_of(recipe))
    _check(opened, allow_missing)
    name = f"{opened.name}-{recipe.method}-{recipe.style}-each-s{recipe.seed}"
    folder = Path(out) if out else Path("runs", name)
    if (folder / "recipe.yaml").exists():
        raise ValueError(f"{folder} is a run; choose another --out")
    fabric, seeds = fabric or make_fabric(recipe.precision), n_seeds(opened.name, seeds)
    how = {"percents": [*percents], "seeds": seeds, "settings": [*settings]}
    runs, found = {}, {}
    for k, domain in enumerate(opened.table.domains):
        at = folder / f"{k}-{re.sub('[^A-Za-z0-9._-]', '_', domain)}"
        options = {"targets": [domain], "out": at, "fabric": fabric, "force": force, "say": say}
        runs[domain] = pretrain(recipe, store, **options)
        found[domain] = _probed(runs[domain], store, how, allow_missing)
    _gather(folder, opened, recipe, runs, found)
    return folder


def _check(store: Store, allow_missing: bool) -> None:
    """What would go wrong after the first pretraining."""
    domains, table = store.table.domains, store.table
    if len(domains) < 2:
        there = ", ".join(domains) or "none"
        raise ValueError(f"leaving one domain out needs two or more; {store.name} has {there}")
    for k, domain in enumerate(domains):
        split = make_split(table, targets=[domain])
        seen = {f"target/{domain}": table.label[table.domain == k]}
        check_classes(store, split, seen, allow_missing=allow_missing)


def _probed(
    run: Run, store: Path | str | None, how: Mapping[str, Any], allow_missing: bool
) -> Evaluation:
    folder = run.path / "probe"
    if not (folder / "result.json").exists():
        probe(str(run.path), store, **how, allow_missing=allow_missing)
    found = read_evaluation(folder)
    there = {(value["percent"], value["seed"]) for value in found.result["values"]}
    asked = {(percent, seed) for percent in how["percents"] for seed in range(how["seeds"])}
    probing = changed(probing_of(found.result["data"]["store"]), how["settings"])
    if (there, found.result["probing"]) != (asked, asdict(probing)):
        raise ValueError(f"{folder} is of other fractions, seeds or settings; delete it first")
    return found


def _gather(
    folder: Path,
    store: Store,
    recipe: Recipe,
    runs: Mapping[str, Run],
    found: Mapping[str, Evaluation],
) -> None:
    """The targets of all runs in one evaluation; its n_labels are the fewest of any run's."""
    results = [evaluation.result for evaluation in found.values()]
    first, domains = results[0], list(found)
    values = [
        {**{name: value[name] for name in ("percent", "seed")}, "n_labels": min(counts)}
        for value, *counts in zip(
            first["values"], *([v["n_labels"] for v in r["values"]] for r in results), strict=True
        )
    ]
    missing = {name: of for result in results for name, of in result["missing"].items()}
    config = {
        "stage": "leave-one-out",
        "network": {
            "run": folder.resolve().name,
            "runs": {domain: run.path.name for domain, run in runs.items()},
            "recipe": plain(recipe),
        },
        "data": {**first["data"], "sources": domains, "targets": domains, "split": None},
        "missing": missing,
        "values": values,
    }
    config |= {key: first[key] for key in ("classes", "probing", "seeds", "varied", "selector")}
    parts = {"val": _joined([evaluation.parts["val"] for evaluation in found.values()])}
    parts |= {f"target/{name}": of.parts[f"target/{name}"] for name, of in found.items()}
    openings, seconds = (sum(r[name] for r in results) for name in ("target_openings", "seconds"))
    n_classes = len(store.table.classes)
    spent = {"target_openings": openings, "seconds": round(seconds, 1)}
    write_evaluation(folder, config, parts, n_classes, spent=spent)


def _joined(parts: Sequence[Predicted]) -> Predicted:
    return Predicted(*(np.concatenate(each, axis=-1) for each in zip(*parts, strict=True)))
