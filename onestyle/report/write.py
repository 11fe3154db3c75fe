"""`report`: from the folders of runs to one page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from onestyle.checkpoint import write_whole
from onestyle.page import check_place
from onestyle.report.gather import gather
from onestyle.report.groups import read_groups
from onestyle.report.page import render

__all__ = ["report"]


def report(
    runs: Sequence[Path | str],
    store: Path | str | None = None,
    *,
    out: Path | str = "report.html",
    images: bool = True,
    force: bool = False,
    say: Callable[[str], object] = lambda line: None,
) -> Path:
    """Write the page about the runs; `images=False` keeps all pixels out of it."""
    out = Path(out)
    _check_out(out, force)
    groups = read_groups(runs)
    page = render(gather(groups, store, images=images, say=say)).encode()
    write_whole(out, lambda file: file.write(page))
    return out


def _check_out(out: Path, force: bool) -> None:
    """Say what would keep the page from being written, before any work is done."""
    if out.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"{out}: the name of a report ends in .html")
    check_place(out, force=force)
