"""A list of images: .csv or .jsonl."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from onestyle.data.sources.base import USUAL, Files, Item, printable

__all__ = ["ListSource", "rows"]


class ListSource(Files):
    """Columns path (relative to the list's folder), domain, class and split; all but path optional.

    `columns` says what they are called where that is not usual.
    """

    def __init__(self, path: Path, columns: dict[str, str] | None = None):
        super().__init__(path.parent)
        self.name, named = path.name, columns or {}
        words = USUAL | {key: (name,) for key, name in named.items()}
        seen: set[str] = set()
        for line, row in rows(path):
            place, surplus = f"{path.name} line {line}", row.pop(None, ())
            seen |= row.keys()
            name, *labels = (_field(row, words[key]) for key in USUAL)
            if any(surplus):  # a comma without quotes has shifted the labels
                self.refuse(place, "more fields than columns")
            else:
                self._add(name, labels, place)
        if not seen:
            raise ValueError(f"{path} lists no image")
        for key in ("path", *named):
            if not seen & {*words[key]}:
                there = printable(", ".join(sorted(seen)))
                what = " or ".join(words[key])
                raise ValueError(f"{path}: no column {what}, only {there}; --column {key}=NAME")

    def _add(self, name: str, labels: list[str], line: str) -> None:
        if not name:
            self.refuse(line, "has no path")
        elif reason := _not_relative(name):
            self.refuse(f"{name} ({line})", reason)
        else:
            self.add(Item(PurePosixPath(name).as_posix(), *labels))


def _field(row: dict, names: tuple[str, ...]) -> str:
    found = (row.get(name) for name in names)
    return next((str(word).strip() for word in found if word is not None), "")


def _not_relative(name: str) -> str | None:
    if "://" in name:
        return "an address; only files below the list's folder are read"
    if name.startswith(("/", "\\", "~")) or re.match(r"[A-Za-z]:", name):
        return "an absolute path; only files below the list's folder are read"
    return "leads out of the folder" if ".." in re.split(r"[/\\]", name) else None


def rows(path: Path) -> Iterator[tuple[int, dict]]:
    """Line number and fields of a .csv or .jsonl; no fields where the line cannot be read."""
    read = _csv_rows if path.suffix.lower() == ".csv" else _json_rows
    with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        try:
            yield from read(file)
        except csv.Error as error:
            raise ValueError(f"{path} cannot be read: {error}") from error


def _csv_rows(file: io.TextIOBase) -> Iterator[tuple[int, dict]]:
    table = csv.DictReader(file)
    names = table.fieldnames or ()
    if len({*names}) < len(names):
        raise csv.Error("a column comes twice")
    for row in table:
        yield table.line_num, row


def _json_rows(file: io.TextIOBase) -> Iterator[tuple[int, dict]]:
    for number, line in enumerate(file, 1):
        if line.strip():
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                row = None
            yield number, row if isinstance(row, dict) else {}
