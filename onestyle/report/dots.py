"""Embedding maps whose dots show their image: SVG for each run, one sheet of thumbnails for all.

Dot i is the same image in every map. Its colour follows from the classes `d2` for domain 2 and `c7`
for class 7, so that a page can switch from one to the other, and hide the rest.
"""

from __future__ import annotations

import numpy as np

from onestyle.analysis.embedding import Embedding
from onestyle.report.contents import Names
from onestyle.report.escape import html

__all__ = ["dot_map", "hues", "legend"]

SIDE, EDGE = 360, 8

LIGHT = ("#0072b2", "#d98500", "#008a63", "#b8588f", "#3a9fd4", "#8a4b08", "#4a5058", "#948a00")
DARK = ("#4aa8e0", "#f0b03c", "#2fc195", "#e29ac4", "#92d0f2", "#c98b4a", "#c3c9d0", "#d6cb3a")


def dot_map(result: Embedding, name: str) -> str:
    """Dots in one random order for all maps, that no domain covers the others."""
    low, high = result.coordinates.min(0), result.coordinates.max(0)
    scale = (SIDE - 2 * EDGE) / max(float((high - low).max()), 1e-6)
    places = (result.coordinates - (low + high) / 2) * scale + SIDE / 2
    n = len(places)
    radius = 3.6 if n < 400 else 2.9 if n < 1500 else 2.2
    dots = []
    for i in np.random.default_rng(0).permutation(n):
        kinds = " ".join(_kinds(result, int(i)))
        x, y = places[i]
        dots.append(f'<circle class="{kinds}" data-i="{i}" cx="{x:.1f}" cy="{y:.1f}"/>')
    label = html(f"{name}: map of {n:,} images")
    return (
        f'<svg class="map" viewBox="0 0 {SIDE} {SIDE}" style="--r:{radius}" role="img" '
        f'tabindex="0" aria-label="{label}">{"".join(dots)}</svg>'
    )


def _kinds(result: Embedding, i: int) -> list[str]:
    given = {"d": result.domain, "c": result.label}
    return [f"{letter}{numbers[i]}" for letter, numbers in given.items() if numbers is not None]


def legend(result: Embedding, names: Names) -> str:
    """Buttons for the domains and classes that are there: each shows its dots alone."""
    rows = []
    for kind, letter, numbers, words in (
        ("domain", "d", result.domain, names.domains),
        ("class", "c", result.label, names.classes),
    ):
        if numbers is None:
            continue
        buttons = "".join(
            f'<button type="button" data-only="{letter}{k}" aria-pressed="false">'
            f"<i></i><span>{html(words[k])}</span>{_unseen(words[k], kind, names)}</button>"
            for k in np.unique(numbers).tolist()
        )
        rows.append(f'<div class="key by-{kind}">{buttons}</div>')
    return "".join(rows)


def _unseen(name: str, kind: str, names: Names) -> str:
    return " <em>unseen</em>" if kind == "domain" and name in names.targets else ""


def hues(result: Embedding) -> str:
    """The rules that give dots and buttons their colours."""
    rules = []
    for kind, letter, numbers in (("domain", "d", result.domain), ("class", "c", result.label)):
        present = [] if numbers is None else np.unique(numbers).tolist()
        for i, k in enumerate(present):
            which = f'[data-colour="{kind}"] .{letter}{k},[data-only="{letter}{k}"]'
            rules.append(f"{which}{{--c:{_colour(i, len(present))}}}")
    return "\n".join(rules)


def _colour(i: int, n: int) -> str:
    """The i-th of n, for light and for dark."""
    if n <= len(LIGHT):
        return f"light-dark({LIGHT[i]},{DARK[i]})"
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    return to_hex(colormaps["turbo"](0.06 + 0.88 * i / (n - 1)))
