"""A picture of a store: images of each domain and class."""

from __future__ import annotations

import hashlib
import textwrap
from typing import TYPE_CHECKING

import numpy as np

from onestyle.data.store import Store
from onestyle.page import GREY, MARGIN, Page

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["compose"]

GAP, HEAD, MOST = 8, 190, 24  # pixels; pixels for a domain's name; columns


def compose(store: Store, seed: int = 0) -> Figure:
    """A row a domain, a column a class; without classes, some images of each domain."""
    table = store.table
    domains = table.domains or ("",)
    classes = table.classes[:MOST] or ("",) * 8
    cell = int(min(128, max(56, (1600 - 2 * MARGIN - HEAD) / len(classes) - GAP)))
    page = Page(2 * MARGIN + HEAD + len(classes) * (cell + GAP))
    left_over = len(table.classes) - MOST
    more = f", the first {MOST} of them shown" if left_over > 0 else ""
    page.heading(
        textwrap.shorten(store.name, 60),
        f"{len(store):,} images of {store.size} px: {len(table.domains)} domains, "
        f"{len(table.classes)} classes{more}.",
    )
    for column, name in enumerate(classes):
        x = MARGIN + HEAD + column * (cell + GAP)
        page.text(x, page.y - 8, _short(name, cell), 16, GREY)
    for name in domains:
        page.text(MARGIN, page.y + cell / 2 + 6, _short(name, HEAD, 18), 18)
        for column, row in enumerate(_rows(store, name, seed)):
            if row is not None:
                x = MARGIN + HEAD + column * (cell + GAP)
                page.tile(x, page.y, cell, store.images[row] / 255)
        page.y += cell + GAP
    page.y += MARGIN
    return page.figure()


def _rows(store: Store, domain: str, seed: int) -> list[int | None]:
    """For every column a row of the store: one of each class, or simply eight."""
    table = store.table
    of_domain = np.flatnonzero(table.domain == table.domains.index(domain)) if domain else None
    rows = np.arange(len(store)) if of_domain is None else of_domain
    drawn = sorted(rows.tolist(), key=lambda row: _lot(f"{seed} {table.path[row]}"))
    if not table.classes:
        return [*drawn[:8]]
    first = {}
    for row in drawn:
        first.setdefault(int(table.label[row]), row)
    return [first.get(label) for label in range(min(MOST, len(table.classes)))]


def _lot(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest()


def _short(name: str, width: float, size: int = 16) -> str:
    fits = int(width / (0.6 * size))
    return name if len(name) <= fits else name[: fits - 1] + "…"
