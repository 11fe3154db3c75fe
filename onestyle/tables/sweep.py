"""The table over batch sizes as a picture: a panel for each fraction, a curve for each style."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from onestyle.analysis.drawing import chart, key, line, looks_of, page_of
from onestyle.report.tables import Row, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw"]

NAMES = {"none": "plain", "fa": "FA", "bss": "BSS"}


def draw(table: Table) -> Figure:
    """Accuracy over N, with the standard deviation where there are several values."""
    page = page_of(
        table.title,
        "Accuracy on the unseen domain in percent over the batch size N, the learning rate "
        "proportional to N. Bars: one standard deviation.",
    )
    styles = dict.fromkeys(row.style for row in table.rows)
    looks = looks_of(NAMES[style] for style in styles)
    key(page, [(look.marker, look.colour, name) for name, look in looks.items()])
    for group in table.groups:
        axes = chart(page, group, "N")
        sizes = [_size(column) for column in table.columns]
        axes.set_xscale("log", base=2)
        axes.set_xticks(sizes, map(str, sizes))
        for row in table.of(group):
            if points := _points(table, row):
                n, mean, std = zip(*points, strict=True)
                look = looks[NAMES[row.style]]
                axes.errorbar(n, mean, std, fmt="none", ecolor=look.colour, elinewidth=3)
                line(axes, n, mean, look)
    return page.figure()


def _points(table: Table, row: Row) -> list[tuple[int, float, float]]:
    cells = [(_size(column), row.cell(column)) for column in table.columns]
    return [(n, cell.mean, cell.std or 0.0) for n, cell in cells if cell.mean is not None]


def _size(column: str) -> int:
    return int(re.sub(r"\D", "", column))
