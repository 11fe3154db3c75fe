"""Domain purity (section 5.2 of the paper): how many of a feature's neighbours share its domain."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor

from onestyle.analysis.drawing import chance_line, chart, key, line, looks_of, page_of
from onestyle.analysis.labels import chance_agreement, known
from onestyle.analysis.neighbours import agreements

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["KS", "Purity", "compute", "draw"]

KS = (1, 5, 10, 20, 50, 100, 200, 500)


@dataclass(frozen=True)
class Purity:
    """For "domain" and "class", what is known of them: a value for each k, and that of chance."""

    n: int
    ks: tuple[int, ...]
    curves: dict[str, tuple[float, ...]]
    chance: dict[str, float]

    def numbers(self) -> dict[str, Any]:
        curves = {
            kind: {"purity": list(curve), "chance": self.chance[kind]}
            for kind, curve in self.curves.items()
        }
        return {"n": self.n, "k": list(self.ks), **curves}


def compute(
    features: Tensor, label: Tensor | None, domain: Tensor | None, ks: Iterable[int] = KS
) -> Purity:
    """Features (n, d); class and domain (n,), or None if unknown -> purity over k < n."""
    kinds = known(len(features), label, domain)
    if not kinds:
        raise ValueError("purity needs domains or classes, and neither is known")
    found = agreements(features, kinds, ks)
    curves = {kind: tuple(curve.values()) for kind, curve in found.items()}
    chance = {kind: chance_agreement(labels) for kind, labels in kinds.items()}
    return Purity(len(features), tuple(next(iter(found.values()))), curves, chance)


def draw(results: dict[str, Purity]) -> Figure:
    """A panel for domains and one for classes, a curve a run."""
    page = page_of(
        "Neighbours",
        "Of the k nearest neighbours of a feature (cosine), how many share its domain, "
        "how many its class? Dashed: chance.",
    )
    looks = looks_of(results)
    key(page, [(look.marker, look.colour, name) for name, look in looks.items()])
    for kind in dict.fromkeys(kind for result in results.values() for kind in result.curves):
        axes = chart(page, f"of the same {kind}", "k")
        axes.set_xscale("log")
        shown = {name: result for name, result in results.items() if kind in result.curves}
        ticks = sorted({k for result in shown.values() for k in result.ks})
        axes.set_xticks(ticks, map(str, ticks))
        axes.set_xticks([], minor=True)
        for name, result in shown.items():
            line(axes, result.ks, result.curves[kind], looks[name])
        chance_line(axes, [result.chance[kind] for result in shown.values()])
    return page.figure()
