"""How all analyses look: one page, one column, curves whose colours mean the same everywhere.

Pages are narrow and their letters large, so that they can be read on a phone. The colours can be
told apart by the colour-blind (blue, vermilion and grey differ in lightness as well), and runs
have a marker each.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from onestyle.page import ACCENT, GREY, INK, MARGIN, Page

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "CHANCE",
    "COLOURS",
    "MARKERS",
    "Look",
    "chance_line",
    "chart",
    "key",
    "line",
    "looks_of",
    "page_of",
    "short",
]

WIDTH, HEIGHT = 900, 400  # of a page, of a chart
TEXT, TICKS, ROW = 24, 22, 36
CHANCE, GRID = "#98a1a9", "#e4e7ea"
BLUE = "#1f77b4"
FIXED = {"plain": "#59636d", "none": "#59636d", "fa": BLUE, "bss": ACCENT}
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#8a4b08", "#1c1f24", "#b4a800")
MARKERS = ("o", "s", "D", "^", "v", "P", "X", "*", "<", ">", "p", "h")


class Look(NamedTuple):
    marker: str
    colour: str


def looks_of(names: Iterable[str]) -> dict[str, Look]:
    """Runs called plain, FA or BSS (or "SimCLR, BSS") have their colour, others what is left."""
    names = list(names)
    own = {}
    for name in names:
        for word in re.findall(r"[a-z]+", name.lower()):
            if word in FIXED and FIXED[word] not in own.values():
                own[name] = FIXED[word]
    others = iter(colour for colour in COLOURS[1:] * len(names) if colour not in own.values())
    colours = [own.get(name) or next(others) for name in names]
    return {
        name: Look(MARKERS[i % len(MARKERS)], colour)
        for i, (name, colour) in enumerate(zip(names, colours, strict=True))
    }


def page_of(title: str, explanation: str, width: int = WIDTH) -> Page:
    page = Page(width)
    page.heading(title, explanation)
    page.y += 14
    return page


def key(page: Page, items: Sequence[tuple[str, str, str]]) -> None:
    """What markers and colours mean, (marker, colour, words), side by side in rows."""
    x = MARGIN
    for marker, colour, words in items:
        words = short(words, 48)
        width = 52 + 0.62 * TEXT * len(words)
        if x > MARGIN and x + width > page.width - MARGIN:
            x, page.y = MARGIN, page.y + ROW
        page.mark(x + 15, page.y - 0.36 * TEXT, marker, colour)
        page.text(x + 40, page.y, words, TEXT, INK)
        x += width + 12
    page.y += ROW


def short(words: str, most: int) -> str:
    """Words of the user's on one line, with at most so many letters."""
    words = " ".join(words.split())
    return words if len(words) <= most else words[: most - 1] + "…"


def chart(page: Page, title: str, below: str, height: int = HEIGHT) -> Axes:
    """Axes across the page, with what they show above them and what they run over below."""
    page.text(MARGIN, page.y + 30, title, TEXT, weight="bold")
    left = MARGIN + 56
    axes = page.chart(left, page.y + 52, page.width - MARGIN - left, height)
    page.y += height + 52
    page.text(page.width - MARGIN, page.y + 62, below, TEXT, GREY, ha="right")
    page.y += 62 + MARGIN
    axes.tick_params(labelsize=TICKS, labelcolor=GREY, length=0, pad=8)
    axes.grid(color=GRID, lw=1.5)
    axes.set_axisbelow(True)
    axes.margins(x=0.03, y=0.12)
    for side in axes.spines.values():
        side.set_visible(False)
    return axes


def line(axes: Axes, x: Sequence[float], y: Sequence[float], look: Look) -> None:
    style = {"color": look.colour, "marker": look.marker, "ms": 11, "mew": 2, "mec": "white"}
    axes.plot(x, y, lw=4, clip_on=False, **style)


def chance_line(axes: Axes, levels: Iterable[float]) -> None:
    """Where curves would lie if labels had nothing to do with features."""
    for level in sorted({round(level, 2): level for level in levels}.values()):
        axes.axhline(level, color=CHANCE, lw=3, ls="--", zorder=1.5)
