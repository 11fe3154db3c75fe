"""Domain purity (section 5.2 of the paper): how many of a feature's neighbours share its domain."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor

from onestyle.analysis.drawing import CHANCE, chance_line, chart, key, line, looks_of, page_of
from onestyle.analysis.labels import Measured, chance_agreement, known, most_agreement
from onestyle.analysis.neighbours import agreements

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["KS", "Purity", "compute", "draw"]

KS = (1, 5, 10, 20, 50, 100, 200, 500)


@dataclass(frozen=True)
class Purity:
    """For "domain" and "class", what is known of them: a value for each k, and those of chance and
    of neighbours as pure as can be."""

    n: int
    ks: tuple[int, ...]
    curves: dict[str, tuple[float, ...]]
    chance: dict[str, float]
    most: dict[str, tuple[float, ...]]

    def numbers(self) -> dict[str, Any]:
        curves = {
            kind: {
                "purity": list(curve),
                "chance": self.chance[kind],
                "most": list(self.most[kind]),
            }
            for kind, curve in self.curves.items()
        }
        return {"n": self.n, "k": list(self.ks), **curves}

    def __str__(self) -> str:
        at = max(i for i, k in enumerate(self.ks) if k <= max(20, self.ks[0]))
        found = [
            f"{kind} purity {Measured(curve[at], self.chance[kind])}"
            for kind, curve in self.curves.items()
        ]
        return f"{', '.join(found)} of {self.ks[at]} neighbours among {self.n:,}"


def compute(
    features: Tensor, label: Tensor | None, domain: Tensor | None, ks: Iterable[int] = KS
) -> Purity:
    """Features (n, d); class and domain (n,), or None if unknown -> purity over k < n."""
    kinds = known(len(features), label, domain)
    if not kinds:
        raise ValueError("purity needs domains or classes, and neither is known")
    found = agreements(features, kinds, ks)
    curves = {kind: tuple(curve.values()) for kind, curve in found.items()}
    ks = tuple(next(iter(found.values())))
    chance = {kind: chance_agreement(labels) for kind, labels in kinds.items()}
    most = {kind: tuple(most_agreement(x, k) for k in ks) for kind, x in kinds.items()}
    return Purity(len(features), ks, curves, chance, most)


def draw(results: dict[str, Purity]) -> Figure:
    """A panel for domains and one for classes, a curve a run."""
    page = page_of(
        "Neighbours",
        "Of the k nearest neighbours of a feature (cosine), how many share its domain, "
        "how many its class? Dashed: chance. Dotted: the most there can be.",
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
        for most in {(result.ks, result.most[kind]) for result in shown.values()}:
            axes.plot(*most, color=CHANCE, lw=3, ls=":", zorder=1.5)
        for name, result in shown.items():
            line(axes, result.ks, result.curves[kind], looks[name])
        chance_line(axes, [result.chance[kind] for result in shown.values()])
    return page.figure()
