"""What a report shows of its runs, from their folders and the images they were trained on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from onestyle.analysis import embedding, homogeneity, purity, similarity
from onestyle.analysis.embedding import Embedding
from onestyle.analysis.homogeneity import Homogeneity
from onestyle.analysis.purity import Purity
from onestyle.analysis.similarity import Similarity
from onestyle.data.store import Store
from onestyle.methods import Method, method_named
from onestyle.report.contents import Finding, Names, Report, Views
from onestyle.report.groups import STYLES, Group
from onestyle.run import read_rows
from onestyle.stages.analyze import Seen, Subject, known_of, open_subject
from onestyle.stream import seeded
from onestyle.views import ViewPlan
from onestyle.views import Views as PlannedViews

__all__ = ["gather"]

N_IMAGES, N_VIEWS = 6, 6  # of the grids of views; of each group of a plan at most
PER_DOMAIN, N_HOMOGENEITY = 2000, 200  # unseen images of a domain, at most
N_BATCHES = 3  # of training views: some million pairs
MOST_DOTS = 1200  # of a map: the page stays small


def gather(
    groups: Sequence[Group],
    store: Path | str | None = None,
    *,
    images: bool = True,
    per_domain: int = PER_DOMAIN,
    say: Callable[[str], object] = lambda line: None,
) -> Report:
    """Look at the runs of all groups; without `images`, no pixel gets into the report."""
    subjects = [[open_subject(run.path, store) for run in group.runs] for group in groups]
    opened, split = subjects[0][0].store, subjects[0][0].split
    pixels = opened.read(_spread(opened, split.train, N_IMAGES)) if images else None
    findings, rows = [], None
    for group, of in zip(groups, subjects, strict=True):
        say(f"looking at {group.name}")
        seen = [subject.features(subject.unseen(per_domain)) for subject in of]
        found = Finding(
            views=views_of(group, pixels) if pixels is not None else (),
            rows=tuple(read_rows(run.metrics) for run in group.runs),
            purity=tuple(map(_purity, seen)) if _is_known(seen[0]) else (),
            similarity=tuple(_similarity(subject) for subject in of if _has_weights(subject, say)),
            homogeneity=_homogeneity(of[0], per_domain),
            embedding=_embedding(seen[0]),
        )
        findings.append(found)
        rows = seen[0].rows if found.embedding is None else seen[0].rows[found.embedding.rows]
    names = Names(opened.table.domains, opened.table.classes, split.targets)
    thumbs = opened.read(rows) if images and rows is not None else None
    return Report(groups, findings, names, images=pixels, thumbs=thumbs)


def _has_weights(subject: Subject, say: Callable[[str], object]) -> bool:
    """Whether the whole method was kept, not its backbone alone."""
    kept = subject.run.last.exists() or any((subject.run.path / "snapshots").glob("step_*"))
    if not kept:
        say(f"{subject.run.path} kept neither checkpoint nor snapshot: no similarities of it")
    return kept


def _is_known(seen: Seen) -> bool:
    return seen.label is not None or seen.domain is not None


def _purity(seen: Seen) -> Purity:
    return purity.compute(seen.features, seen.label, seen.domain)


def _similarity(subject: Subject) -> Similarity:
    return similarity.compute(batch["projector"] for batch in subject.embeddings(N_BATCHES))


def _homogeneity(subject: Subject, per_domain: int) -> Homogeneity | None:
    """Of runs that kept snapshots of prototypes, and whose images have domains or classes."""
    recipe = subject.run.recipe
    has_none = method_named(recipe.method).prototype_scores is Method.prototype_scores
    if has_none or not recipe.snapshot_every:
        return None
    pools = subject.unseen(min(per_domain, N_HOMOGENEITY))
    known = known_of(pools)
    if known == (None, None):
        return None
    return homogeneity.compute(subject.prototype_scores(pools), *known)


def _embedding(seen: Seen) -> Embedding | None:
    if len(seen.rows) < 4:
        return None
    return embedding.compute(seen.features, seen.label, seen.domain, most=MOST_DOTS)


def views_of(group: Group, images: NDArray[np.uint8]) -> tuple[Views, ...]:
    """uint8 (N, 3, S, S) -> their views by the plan and seed of the group's first run."""
    plan = group.recipe.plan()
    made = plan(torch.from_numpy(images), seeded(group.recipe.seed, 0))
    return tuple(
        Views(_words(views, plan), _pixels(x[:N_VIEWS].transpose(0, 1), plan))
        for views, x in zip(plan.groups, made, strict=True)
    )


def _words(views: PlannedViews, plan: ViewPlan) -> str:
    """ "4 views of 32 px", with their style where a plan may have several."""
    words = f"{views.n} views of {views.size} px"
    several = len(plan.groups) > 1
    return f"{words}, {STYLES.get(str(views.style), 'a style of its own')}" if several else words


def _pixels(views: torch.Tensor, plan: ViewPlan) -> NDArray[np.uint8]:
    """Normalised (N, V, 3, s, s) -> uint8."""
    mean, std = (views.new_tensor(three)[:, None, None] for three in (plan.mean, plan.std))
    return ((views * std + mean).clamp(0, 1) * 255 + 0.5).byte().numpy()


def _spread(store: Store, rows: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    """n of the rows, of all domains alike, always the same."""
    domain = store.table.domain[rows]
    order = np.random.default_rng(0).permutation(len(rows))
    rank = np.empty(len(rows), np.int64)
    for d in np.unique(domain):
        of = order[domain[order] == d]
        rank[of] = np.arange(len(of))
    chosen = np.lexsort((domain, rank))[:n]
    return rows[chosen[np.argsort(domain[chosen], kind="stable")]]
