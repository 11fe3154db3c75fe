"""Where images come from: a folder, a list, WILDS, parquet files, the Hugging Face hub.

A source knows its items (name, domain, class, split) and what is wrong with its list before it
opens one image; then it hands out contents, one by one. Nothing is followed out of its folder.
"""

from __future__ import annotations

from pathlib import Path

from onestyle.data.sources.base import Item, Problem, Source
from onestyle.data.sources.folder import FolderSource
from onestyle.data.sources.hub import ParquetSource, download
from onestyle.data.sources.lists import ListSource
from onestyle.data.sources.wilds import WildsSource

__all__ = ["Item", "Problem", "Source", "WildsSource", "find_source"]


def find_source(
    name: str, *, levels: str | None = None, columns: dict[str, str] | None = None
) -> Source:
    """The source that a word on the command line means.

    `levels` says what the first folders of a folder mean: "domain/class", "split/class", "domain",
    "class" or ""; `columns` what the columns of a table are called, such as {"domain": "scanner"}.
    """
    path, columns = Path(name).resolve(), columns or {}
    kind = _kind(name, path)
    if levels is not None and kind != "folder":
        raise ValueError(f"levels are of folders of images, and {name} is none")
    if columns and kind in ("folder", "wilds"):
        raise ValueError(f"columns are of lists and parquet files, and {name} is none")
    if "path" in columns and kind != "list":
        raise ValueError(f"a column path is of lists, and {name} is none")
    if kind == "hub":
        folder = download(name)
        return ParquetSource(folder, f"{name.partition('@')[0]}@{folder.name}", columns)
    if kind == "parquet":
        return ParquetSource(path, path.name, columns)
    if kind == "list":
        return ListSource(path, columns)
    return WildsSource(path) if kind == "wilds" else FolderSource(path, levels)


def _kind(name: str, path: Path) -> str:
    if name.startswith("hub:"):
        return "hub"
    if not path.exists():
        raise ValueError(f"{name} does not exist")
    if path.is_dir():
        if (path / "metadata.csv").is_file() and (path / "patches").is_dir():
            return "wilds"
        return "parquet" if any(path.rglob("*.parquet")) else "folder"
    if path.suffix.lower() in (".csv", ".jsonl"):
        return "list"
    if path.suffix.lower() == ".parquet":
        return "parquet"
    raise ValueError(
        f"{path}: a source is a folder, a .csv or .jsonl list of images, .parquet or "
        "hub:OWNER/NAME; unpack an archive first"
    )
