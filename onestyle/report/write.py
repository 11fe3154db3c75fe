"""`report`: from the folders of runs to one page."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from onestyle.checkpoint import write_whole
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
    if not out.parent.is_dir():
        raise ValueError(f"{out}: there is no folder {out.parent}")
    if out.is_dir():
        raise ValueError(f"{out} is a folder")
    if out.exists() and not force:
        raise ValueError(f"{out} exists; --force overwrites it")
    if not os.access(out.parent, os.W_OK):
        raise ValueError(f"{out}: nothing can be written into the folder {out.parent}")
