"""What all sources share: items, what is wrong with them, files below a root."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from PIL import Image

from onestyle.data.images import SUFFIXES

__all__ = ["USUAL", "Files", "Item", "Problem", "Source", "image_suffixes", "printable"]

# what columns are usually called
USUAL = {
    "path": ("path", "file_name"),
    "domain": ("domain", "center"),
    "class": ("class", "label"),
    "split": ("split",),
}


class Item(NamedTuple):
    path: str  # its name: relative, with slashes
    domain: str = ""
    label: str = ""  # its class
    split: str = ""


class Problem(NamedTuple):
    path: str
    reason: str


class Source:
    """Items in their order, what reads each, and what was wrong with the list."""

    def __init__(self, name: str):
        self.name = printable(name)
        self.items: list[Item] = []
        self.problems: list[Problem] = []
        self.ignored: Counter[str] = Counter()  # files that are no images, by their ending
        self.names: set[str] = set()

    def contents(self) -> Iterator[Callable[[], bytes]]:
        """What reads each item, in their order."""
        raise NotImplementedError  # abstract

    def add(self, item: Item) -> bool:
        """Keep the item, or tell what is wrong with it."""
        reason = _wrong_name(item) or self.wrong_place(item.path)
        if not reason and item.path in self.names:
            reason = "the same name again"
        if reason:
            self.refuse(item.path, reason)
        else:
            self.items.append(item)
            self.names.add(item.path)
        return not reason

    def wrong_place(self, path: str) -> str | None:
        """Why this name must not be, or cannot be, opened."""
        return None

    def refuse(self, path: str, reason: str) -> None:
        self.problems.append(Problem(printable(path), reason))


class Files(Source):
    """Items that are files below a root."""

    def __init__(self, root: Path):
        super().__init__(root.name)
        self.root = root
        self._real = os.path.realpath(root)

    def contents(self) -> Iterator[Callable[[], bytes]]:
        return ((self.root / item.path).read_bytes for item in self.items)

    def wrong_place(self, path: str) -> str | None:
        real = os.path.realpath(self.root / path)
        if os.path.commonpath([self._real, real]) != self._real:
            return "leads out of the folder"
        if not os.path.exists(real):
            return "there is no such file"
        return None if os.path.isfile(real) else "not a file"


def printable(text: str) -> str:
    """Any file name as text that can be stored and shown."""
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def _wrong_name(item: Item) -> str | None:
    for word in item:
        try:
            word.encode("utf-8")
        except UnicodeEncodeError:
            return "the name is not UTF-8"
        if not word.isprintable():
            return "the name has a control character"
    suffix = PurePosixPath(item.path).suffix.lower()
    return f"{suffix} files are not read" if suffix in image_suffixes() - SUFFIXES else None


def image_suffixes() -> set[str]:
    """Whatever looks like an image, so that what cannot be read is named and not passed over."""
    Image.init()
    return {*Image.registered_extensions(), *SUFFIXES, ".heic", ".svg", ".dng"}
