"""The top of a report: the question, the answer in words, and a bar for each group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from onestyle.recipes import SEEN
from onestyle.report.charts import Bar, bars
from onestyle.report.escape import html
from onestyle.report.groups import Group, Score, budget_of, chance_of, percents_of, score

__all__ = ["answer", "headline"]

FEW = (
    10  # percent of the labels: the most that the headline's fraction may be, if there is a choice
)


class Headline(NamedTuple):
    """The one number of each probed group that stands on top."""

    measure: str
    percent: int
    scores: dict[int, Score]  # by the number of the group
    chance: float | None


def headline(groups: Sequence[Group]) -> Headline | None:
    """Of the only unseen domain, the mean of several, or held-out source images where none is; with
    the largest fraction up to FEW that all probed groups have. Chosen before any result is seen."""
    targets = groups[0].runs[0].config["data"]["targets"]
    measure = "val" if not targets else targets[0] if len(targets) == 1 else "average"
    found: dict[int, dict[int, Score]] = {}
    for percent in percents_of(groups):
        scores = {k: score(group, percent, measure) for k, group in enumerate(groups)}
        found[percent] = {k: s for k, s in scores.items() if s}
    if not found:
        return None
    most = max(map(len, found.values()))
    common = [percent for percent, scores in found.items() if len(scores) == most]
    percent = max((p for p in common if p <= FEW), default=min(common))
    return Headline(measure, percent, found[percent], chance_of(groups, measure))


def answer(groups: Sequence[Group]) -> str:
    top = headline(groups)
    if top is None or not top.scores:
        words = (
            "No run has been probed, so there is no accuracy to show: "
            "<code>onestyle probe RUN</code> measures it, if the images have classes. "
            "What training and features look like is below."
        )
        return _hero(groups, f'<p class="answer">{words}</p>')
    rows = [
        Bar(groups[k].name, k, s.values, _words(s))
        for k, s in sorted(top.scores.items(), key=lambda pair: -pair[1].mean)
    ]
    missing = [group.name for k, group in enumerate(groups) if k not in top.scores]
    said = f'<p class="answer">{_sentence(groups, top)}</p>'
    verdict = " ".join(filter(None, [_verdict(groups, top), _unprobed(missing)]))
    notes = f'<p class="verdict">{verdict}</p>' if verdict else ""
    return _hero(groups, said + bars(rows, top.chance, _dots(top)) + notes)


def _hero(groups: Sequence[Group], inside: str) -> str:
    return (
        f'<section class="hero"><h1>{_question(groups)}</h1>{inside}'
        f'<p class="budget">{_budget(groups)}</p></section>\n'
    )


def _question(groups: Sequence[Group]) -> str:
    data = groups[0].runs[0].config["data"]
    targets = data["targets"]
    if not targets:
        return f"How well does a network that saw no labels recognise {html(data['store'])}?"
    unseen, but = html(_and(targets)), ""
    if any(group.recipe.uses_target for group in groups):
        but = f" (but for {SEEN}, which saw its images without their labels)"
    return f"How well does a network recognise <mark>{unseen}</mark>, which it has never seen{but}?"


def _sentence(groups: Sequence[Group], top: Headline) -> str:
    best_first = sorted(top.scores.items(), key=lambda pair: -pair[1].mean)
    said = [
        f'<b style="--c:var(--s{k})">{html(groups[k].name)}</b> on <b>{s.mean:.1f}%</b>'
        for k, s in best_first
    ]
    said[0] = said[0].replace(" on ", " is right on ", 1) + " of the images"
    of = {"val": ", of held-out images of the sources", "average": ", as the mean of the domains"}
    labels = "all labels" if top.percent == 100 else f"{top.percent}% of the labels"
    return f"With {labels} of the sources{of.get(top.measure, '')}: {', '.join(said)}."


def _words(s: Score) -> str:
    spread = f" ± {s.std:.1f}" if s.std is not None else ""
    return f"<b>{s.mean:.1f}</b>{spread} <small>n = {len(s.values)}</small>"


def _dots(top: Headline) -> str:
    """Which seeds the dots are of."""
    varied = " or ".join(sorted({s.varied for s in top.scores.values()}))
    return f"dots and ±: seeds of {varied}"


def _verdict(groups: Sequence[Group], top: Headline) -> str:
    """BSS - FA of each method, and whether the seeds differ by as much."""
    said = []
    for k, group in enumerate(groups):
        for j, other in enumerate(groups):
            pair = (group.recipe.style, other.recipe.style) == ("bss", "fa")
            if pair and group.recipe.method == other.recipe.method and {k, j} <= {*top.scores}:
                said.append(_difference(group, top.scores[k], other, top.scores[j]))
    return " ".join(said)


def _difference(group: Group, ours: Score, other: Group, theirs: Score) -> str:
    by = ours.mean - theirs.mean
    signed = f"{by:+.1f}".replace("-", "&minus;")
    said = f"{html(group.name)} &minus; {html(other.name)}: <b>{signed}</b> points"
    if ours.std is None or theirs.std is None:
        return f"{said}, of one value each: another seed may turn it round."
    spread = (ours.std**2 + theirs.std**2) ** 0.5
    if abs(by) < spread:
        return f"{said}, less than the seeds differ ({spread:.1f}): it may be chance."
    return f"{said}; the seeds differ by {spread:.1f} ({ours.varied} varied)."


def _unprobed(names: Sequence[str]) -> str:
    return f"Not probed: {html(', '.join(names))}." if names else ""


def _budget(groups: Sequence[Group]) -> str:
    """What it took, once for all groups if it is the same for all."""
    of: dict[str, list[str]] = {}
    for group in groups:
        of.setdefault(budget_of(group), []).append(group.name)
    if len(of) == 1:
        return f"{html(next(iter(of)))}."
    return "<br>".join(html(f"{' and '.join(names)}: {words}.") for words, names in of.items())


def _and(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
