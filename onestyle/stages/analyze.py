"""The analyses of onestyle/analysis/ of finished runs, side by side: a picture, and a .json of its
numbers and what chance would give."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from onestyle.analysis import embedding, homogeneity, purity, similarity
from onestyle.page import check_out, check_place, save
from onestyle.run import config_hash, read_rows, write_result
from onestyle.stages.subject import (
    PARTS,
    Seen,
    Subject,
    known_of,
    open_subject,
    open_subjects,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "ANALYSES",
    "PARTS",
    "Seen",
    "Subject",
    "analyze",
    "known_of",
    "open_subject",
    "open_subjects",
]


class Found(NamedTuple):
    """Of an analysis: its picture, and for each run its numbers and what is said of them."""

    figure: Figure
    numbers: dict[str, dict[str, Any]]
    words: dict[str, str]


def analyze(
    what: str,
    paths: Sequence[Path | str],
    out: Path,
    store: Path | str | None = None,
    *,
    names: Sequence[str] = (),
    per_domain: int | None = None,
    part: str = "all",
    force: bool = False,
    small: bool = False,
) -> dict[str, str]:
    """Write an analysis of the runs as a picture, and its numbers beside it as .json; what is to be
    said of each run.

    `per_domain` and `part` say which unseen images; similarity is of training images.
    """
    if what not in ANALYSES:
        raise ValueError(f"there is no analysis {what!r}; there are {', '.join(ANALYSES)}")
    file = out.with_suffix(".json")
    check_out(out, force=force, small=small)
    check_place(file, force=force)
    subjects = open_subjects(paths, store, names=names)
    per_domain = per_domain or PER_DOMAIN.get(what, 2000)
    found = ANALYSES[what](subjects, per_domain, part)
    save(found.figure, out, force=force, small=small)
    unseen = {} if what == "similarity" else {"per_domain": per_domain, "part": part}
    asked = {"analysis": what, **unseen}
    runs = {
        subject.name: _about(subject) | {what: found.numbers[subject.name]} for subject in subjects
    }
    result = {"stage": "analyze", **asked, "data": subjects[0].run.config["data"], "runs": runs}
    write_result(file, result, asked | {"runs": [run["run_hash"] for run in runs.values()]})
    return found.words


def _about(subject: Subject) -> dict[str, Any]:
    run = subject.run
    opened = len(read_rows(subject.run.openings))
    known = {key: getattr(run.recipe, key) for key in ("method", "style", "seed", "steps")}
    whence = {"run": run.path.resolve().name, "run_hash": config_hash(run.config)}
    return {**whence, **known, "target_openings": opened}


def _purity(subjects: list[Subject], per_domain: int, part: str) -> Found:
    results = {}
    for subject in subjects:
        seen = subject.features(subject.unseen(per_domain, part))
        results[subject.name] = purity.compute(seen.features, seen.label, seen.domain)
    return _found(purity.draw(results), results)


def _similarity(subjects: list[Subject], *_) -> Found:
    results = {}
    for subject in subjects:
        batches = [*subject.embeddings()]
        results[subject.name] = {
            kind: similarity.compute(batch[kind] for batch in batches) for kind in batches[0]
        }
    numbers = {name: {k: r.numbers() for k, r in of.items()} for name, of in results.items()}
    words = {name: "; ".join(f"{k}: {r}" for k, r in of.items()) for name, of in results.items()}
    return Found(similarity.draw(results), numbers, words)


def _homogeneity(subjects: list[Subject], per_domain: int, part: str) -> Found:
    for subject in subjects:
        subject.snapshots()
        subject.require_prototypes()
    results = {}
    for subject in subjects:
        pools = subject.unseen(per_domain, part)
        scores = subject.prototype_scores(pools)
        results[subject.name] = homogeneity.compute(scores, *known_of(pools))
    return _found(homogeneity.draw(results), results)


def _map(subjects: list[Subject], per_domain: int, part: str) -> Found:
    results = {}
    for subject in subjects:
        seen = subject.features(subject.unseen(per_domain, part))
        results[subject.name] = embedding.compute(seen.features, seen.label, seen.domain)
    table = subjects[0].store.table
    figure = embedding.draw(results, domains=table.domains, classes=table.classes)
    return _found(figure, results)


def _found(figure: Figure, results: dict[str, Any]) -> Found:
    numbers = {name: result.numbers() for name, result in results.items()}
    return Found(figure, numbers, {name: str(result) for name, result in results.items()})


ANALYSES: dict[str, Callable[[list[Subject], int, str], Found]] = {
    "purity": _purity,
    "similarity": _similarity,
    "homogeneity": _homogeneity,
    "map": _map,
}
PER_DOMAIN = {"homogeneity": 200}  # images of a domain, at most; of the others 2,000
