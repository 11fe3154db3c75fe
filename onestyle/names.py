"""A name that is not known is answered by the nearest one that is, and by all of them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ["instead", "nearest"]


def nearest(name: str, legal: Iterable[str], *, at_most: int = 1) -> str:
    """ "; did you mean simclr?", or nothing where no legal name is like it."""
    near = difflib.get_close_matches(name, [*legal], n=at_most, cutoff=0.5)
    return f"; did you mean {' or '.join(near)}?" if near else ""


def instead(name: str, legal: Iterable[str], plural: str) -> str:
    """What to say behind an unknown name: "; did you mean simclr? methods are: simclr, swav"."""
    legal = [*legal]
    return f"{nearest(name, legal) or ';'} {plural} are: {', '.join(legal) or 'none'}"
