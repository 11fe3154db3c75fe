"""Line charts and bars as inline SVG and HTML: pure functions from numbers to text.

A chart is 360 wide, so that its letters stay readable on a phone, and as high as it needs. Colours
are CSS variables of the page (`--s0`, `--s1`, ...: a group's), which has them for light and dark.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from onestyle.report.escape import html

__all__ = ["Bar", "Curve", "bars", "line_chart"]

WIDTH, HEIGHT = 360, 220
LEFT, RIGHT, TOP, BOTTOM = 40, 10, 10, 34  # around the frame
MARKS = {  # matplotlib's letters; outlines around (0, 0)
    "o": "M-3.6,0a3.6,3.6 0 1,0 7.2,0a3.6,3.6 0 1,0 -7.2,0",
    "s": "M-3.2-3.2h6.4v6.4h-6.4z",
    "D": "M0-4.4L4.4,0L0,4.4L-4.4,0z",
    "^": "M0-4.2L4.2,3.4h-8.4z",
    "v": "M0,4.2L4.2-3.4h-8.4z",
    "P": "M-1.5-4.2h3v2.7h2.7v3h-2.7v2.7h-3v-2.7h-2.7v-3h2.7z",
}


class Curve(NamedTuple):
    """`series` is the number of the group's colour; `error` is drawn up and down from each y."""

    name: str
    series: int
    x: Sequence[float]
    y: Sequence[float]
    marker: str = ""
    error: Sequence[float | None] = ()
    dashed: bool = False
    filled: bool = False


class Axis(NamedTuple):
    """Values lie in low..high and are drawn from `start` to `stop`."""

    low: float
    high: float
    start: float
    stop: float
    log: bool = False

    def __call__(self, value: float) -> float:
        low, high, x = (self._scaled(v) for v in (self.low, self.high, value))
        return round(self.start + (self.stop - self.start) * (x - low) / ((high - low) or 1), 1)

    def _scaled(self, value: float) -> float:
        return math.log(value) if self.log else value


def line_chart(
    curves: Sequence[Curve],
    title: str,
    below: str,
    *,
    x_ticks: Sequence[float] = (),
    log: bool = False,
    levels: Sequence[tuple[float, str]] = (),
    y_from: float | None = None,
    y_word: Callable[[float], str] = "{:g}".format,
) -> str:
    """A figure: `title` above, `below` is what x counts; `levels` are dashed lines with words."""
    xs = [x for curve in curves for x in curve.x] + [*x_ticks]
    ys = [y for curve in curves for y in (*curve.y, *_ends(curve))] + [y for y, _ in levels]
    ticks = _ticks(min(ys) if y_from is None else y_from, max(ys))
    x = Axis(min(xs), max(xs), LEFT + 6, WIDTH - RIGHT - 6, log)
    y = Axis(ticks[0], max(ticks[-1], max(ys)), HEIGHT - BOTTOM, TOP)
    parts = [_grid(y, ticks), _below(x, x_ticks or _ticks(x.low, x.high), below)]
    parts += [_level(y, level, words) for level, words in levels]
    parts += [_curve(curve, x, y, y_word, below) for curve in curves]
    return _figure(title, "".join(parts))


def _figure(title: str, inside: str) -> str:
    name = html(title)
    return (
        f'<figure class="chart"><figcaption>{name}</figcaption>'
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{name}">{inside}</svg>'
        "</figure>"
    )


def _grid(y: Axis, ticks: Sequence[float]) -> str:
    lines = "".join(f"M{LEFT},{y(tick)}H{WIDTH - RIGHT}" for tick in ticks)
    words = (
        f'<text x="{LEFT - 7}" y="{y(tick) + 4}">{_short_number(tick)}</text>' for tick in ticks
    )
    return f'<path class="grid" d="{lines}"/><g class="y">{"".join(words)}</g>'


def _below(x: Axis, ticks: Sequence[float], below: str) -> str:
    line, inside = HEIGHT - BOTTOM + 16, [tick for tick in ticks if x.low <= tick <= x.high]
    words = (f'<text x="{x(tick)}" y="{line}">{_short_number(tick)}</text>' for tick in inside)
    return (
        f'<g class="x">{"".join(words)}</g>'
        f'<text class="below" x="{WIDTH - RIGHT}" y="{line + 15}">{html(below)}</text>'
    )


def _level(y: Axis, level: float, words: str) -> str:
    return (
        f'<path class="level" d="M{LEFT},{y(level)}H{WIDTH - RIGHT}"/>'
        f'<text class="level" x="{WIDTH - RIGHT}" y="{y(level) - 4}">{html(words)}</text>'
    )


def _curve(curve: Curve, x: Axis, y: Axis, word: Callable[[float], str], below: str) -> str:
    aside = 3 * (curve.series - 1) if curve.error else 0  # error bars stand side by side
    points = [(x(a) + aside, y(b)) for a, b in zip(curve.x, curve.y, strict=True)]
    line = "M" + "L".join(f"{a:g},{b:g}" for a, b in points)
    dashed = " dashed" if curve.dashed else ""
    parts = [f'<path class="line{dashed}" d="{line}"/>']
    if curve.filled:
        foot = f"L{points[-1][0]:g},{y.start}L{points[0][0]:g},{y.start}z"
        parts.insert(0, f'<path class="area" d="{line}{foot}"/>')
    for (at, _), low, high in zip(points, *_bounds(curve), strict=False):
        parts.append(f'<path class="line" d="M{at:g},{y(low)}V{y(high)}"/>')
    if curve.marker:
        shape = MARKS.get(curve.marker, MARKS["o"])
        for (a, b), at, value in zip(points, curve.x, curve.y, strict=True):
            words = html(f"{curve.name}: {word(value)} ({below} {_short_number(at)})")
            parts.append(
                f'<path class="mark" d="{shape}" transform="translate({a:g},{b:g})">'
                f"<title>{words}</title></path>"
            )
    return f'<g style="--c:var(--s{curve.series})">{"".join(parts)}</g>'


def _bounds(curve: Curve) -> tuple[list[float], list[float]]:
    pairs = [(y, e or 0.0) for y, e in zip(curve.y, curve.error, strict=False)]
    return [y - e for y, e in pairs], [y + e for y, e in pairs]


def _ends(curve: Curve) -> list[float]:
    return [end for bound in _bounds(curve) for end in bound]


def _ticks(low: float, high: float) -> list[float]:
    from matplotlib.ticker import MaxNLocator

    found = MaxNLocator(5, steps=[1, 2, 5, 10]).tick_values(low, high)
    return [float(f"{tick:.10g}") for tick in found]


def _short_number(x: float) -> str:
    return f"{x / 1000:g}k" if x >= 10_000 else f"{x:g}"


class Bar(NamedTuple):
    """A row: a name, the values of its seeds, and what is said at its end, which is HTML."""

    name: str
    series: int
    values: Sequence[float]
    words: str


def bars(rows: Sequence[Bar], chance: float | None, note: str) -> str:
    """Rows of 0 to 100 percent, with a dot for each seed and a line where chance is; HTML below."""
    lines = []
    for row in rows:
        mean = sum(row.values) / len(row.values)
        dots = "".join(f'<i style="left:{value:.2f}%"></i>' for value in row.values)
        level = f'<u style="left:{chance:.2f}%"></u>' if chance is not None else ""
        lines.append(
            f'<li style="--c:var(--s{row.series})"><span class="name">{html(row.name)}</span>'
            f'<span class="track"><b style="width:{mean:.2f}%"></b>{level}{dots}</span>'
            f'<span class="number">{row.words}</span></li>'
        )
    words = [f"┊ chance, {chance:.1f}%"] if chance is not None else []
    words = " · ".join([*words, note])
    return f'<ol class="bars">{"".join(lines)}</ol><p class="chance">{words}</p>'
