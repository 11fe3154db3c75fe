"""What a page shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onestyle.analysis.embedding import Embedding
from onestyle.analysis.homogeneity import Homogeneity
from onestyle.analysis.purity import Purity
from onestyle.analysis.similarity import Similarity
from onestyle.report.groups import Group

__all__ = ["Finding", "Names", "Report", "Views"]


class Names(NamedTuple):
    domains: tuple[str, ...]
    classes: tuple[str, ...]
    targets: tuple[str, ...]


@dataclass(frozen=True)
class Views:
    """Views (N, V, 3, s, s) of one group of a plan, in words "4 views of 32 px, BSS"."""

    words: str
    pixels: NDArray[np.uint8]


@dataclass(frozen=True)
class Finding:
    """What was found of a group: of its first run, or of every one."""

    views: tuple[Views, ...] = ()
    rows: tuple[list[dict[str, Any]], ...] = ()  # metrics.jsonl of every run
    purity: tuple[Purity, ...] = ()  # of every run
    similarity: tuple[Similarity, ...] = ()
    homogeneity: Homogeneity | None = None
    embedding: Embedding | None = None


@dataclass(frozen=True)
class Report:
    """`findings` in the order of `groups`; without `images` and `thumbs` the page has no pixels."""

    groups: Sequence[Group]
    findings: Sequence[Finding]
    names: Names
    images: NDArray[np.uint8] | None = None  # (N, 3, S, S) of which the views are
    thumbs: NDArray[np.uint8] | None = None  # (m, 3, S, S) of the dots

    def having(self, what: str) -> list[tuple[int, Group, Any]]:
        """Number, group and finding of those groups that have it."""
        pairs = enumerate(zip(self.groups, self.findings, strict=True))
        return [(k, group, it) for k, (group, found) in pairs if (it := getattr(found, what))]
