"""The demonstration: SimCLR on the embedded digits, plain, with FA and with BSS, from nothing to a
report.

    shown = demo("runs/demo")
    print(shown.table)

Everything is that of the recipe digits/simclr; the target was chosen before any result was seen. A
part that is finished is not done again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from onestyle.progress import clock
from onestyle.recipes import Recipe, recipe_named
from onestyle.report.groups import (
    STYLES,
    Group,
    budget_of,
    chance_of,
    percents_of,
    read_groups,
    score,
)
from onestyle.report.write import report
from onestyle.run import read_run
from onestyle.stages.pretrain import pretrain
from onestyle.stages.probe import probe

__all__ = ["TARGET", "Shown", "demo", "small_table"]

TARGET = "photo"  # coloured texture behind the digits: the style that is farthest from the others


class Shown(NamedTuple):
    """The page, the small table, and how long it took; None if all was finished before."""

    page: Path
    table: str
    took: str | None


def demo(
    out: Path | str = "runs/demo",
    *,
    n_seeds: int = 2,
    recipe: Recipe | None = None,
    say: Callable[[str], object] = lambda line: None,
) -> Shown:
    """Pretrain, probe and report into the folder `out`; called again, go on where it ended."""
    out, began = Path(out), time.monotonic()
    recipe = recipe or recipe_named("digits/simclr")
    page, jobs = out / "report.html", _jobs(out, recipe, n_seeds)
    todo = [job for job in jobs if not _is_done(*job)]
    for k, (folder, job) in enumerate(todo, 1):
        say(f"{k} of {len(todo)}: SimCLR, {STYLES[job.style]}, seed {job.seed}")
        pretrain(job, targets=[TARGET], out=folder, say=say)
        probe(str(folder))
    folders = [folder for folder, _ in jobs]
    finished = not todo and page.exists()
    if not finished:
        report(folders, out=page, force=True, say=say)
    groups = read_groups(folders)
    took = None if finished else clock(time.monotonic() - began)
    return Shown(page, small_table(groups, TARGET), took)


def _jobs(out: Path, recipe: Recipe, n_seeds: int) -> list[tuple[Path, Recipe]]:
    """Seed by seed, so that there is something to compare early."""
    return [
        (out / f"{STYLES[style].lower()}-s{seed}", replace(recipe, style=style, seed=seed))
        for seed in range(n_seeds)
        for style in STYLES
    ]


def _is_done(folder: Path, recipe: Recipe) -> bool:
    """Whether the run is finished, of this recipe, and probed; another recipe's is not entered."""
    if not (folder / "probe" / "result.json").is_file():
        return False
    return read_run(folder).recipe == recipe


def small_table(groups: Sequence[Group], measure: str) -> str:
    """A row a group, a column a fraction of the labels: mean ± std; the groups' common budget."""
    percents = percents_of(groups)
    width = max(len(group.name) for group in groups)
    lines = [" " * width + "".join(f"{f'{percent}%':>14}" for percent in percents)]
    n, varied = 0, ""
    for group in groups:
        found = [score(group, percent, measure) for percent in percents]
        cells = [_cell(one.mean, one.std) if one else "-" for one in found]
        lines.append(f"{group.name:<{width}}" + "".join(f"{cell:>14}" for cell in cells))
        n, varied = (len(found[0].values), found[0].varied) if found[0] else (n, varied)
    chance = chance_of(groups, measure)
    above = f"{measure}, never seen: accuracy in % by the share of labels, mean ± std of {n} seeds"
    beside = f" (chance {chance:.1f})" if chance is not None else ""
    return "\n".join([f"{above} of {varied}{beside}", *lines, budget_of(groups[0])])


def _cell(mean: float, std: float | None) -> str:
    return f"{mean:.1f}" + (f" ± {std:.1f}" if std is not None else "")
