"""A folder of images, whose first folders mean the domain, the class or the split."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from onestyle.data.images import SUFFIXES
from onestyle.data.sources.base import Files, Item, image_suffixes, printable

__all__ = ["FolderSource"]

LEVELS = "levels are words of domain, class and split with / between, such as domain/class, or ''"


class FolderSource(Files):
    """`domain/class/image`, or what `levels` says; deeper folders belong to the name."""

    def __init__(self, root: Path, levels: str | None = None):
        super().__init__(root)
        images = sorted(self._walk())
        meaning = self._meaning(images, levels)
        for path in images:
            self._add(path, meaning)
        if meaning[:1] == ["domain"]:
            found = {path.split("/")[0] for path in images}
            for folder in self._first_folders():
                if folder not in found:
                    self.refuse(folder, "a domain without images")

    def _add(self, path: str, meaning: list[str]) -> None:
        folders = path.split("/")[:-1]
        if len(folders) < len(meaning):
            where = "/".join(f"<{word}>" for word in meaning)
            self.refuse(path, f"does not lie in {where}")
            return
        place = dict(zip(meaning, folders, strict=False))
        self.add(Item(path, *(place.get(word, "") for word in ("domain", "class", "split"))))

    def _walk(self) -> Iterator[str]:
        def fail(error: OSError) -> None:
            folder = os.path.relpath(error.filename, self.root)
            if folder == ".":
                raise error
            self.refuse(folder, f"a folder that cannot be read: {error.strerror}")

        suffixes = image_suffixes()
        for parent, folders, files in os.walk(self.root, onerror=fail):
            inside = Path(parent).relative_to(self.root)
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for name in folders:
                if os.path.islink(os.path.join(parent, name)):
                    self.refuse((inside / name).as_posix(), "a link to a folder is not followed")
            for name in files:
                suffix = Path(name).suffix.lower()
                if name.startswith(".") or suffix not in suffixes:
                    self.ignored[printable(suffix) or "no ending"] += 1
                else:
                    yield (inside / name).as_posix()

    def _meaning(self, images: list[str], levels: str | None) -> list[str]:
        if not images:
            raise ValueError(f"no image in {self.root} (looked for {' '.join(sorted(SUFFIXES))})")
        if levels is not None:
            words = levels.split("/") if levels else []
            if not set(words) <= {"domain", "class", "split"} or len(set(words)) != len(words):
                raise ValueError(f"{LEVELS}; got {levels}")
            return words
        depths = {path.count("/") for path in images}
        if depths == {0}:
            return []
        if min(depths) >= 2:
            return ["domain", "class"]
        shallow = next(path for path in images if path.count("/") == min(depths))
        raise ValueError(
            f"{self.root} is not domain/class/image ({printable(shallow)}): say what its folders "
            "mean by --levels domain/class, split/class, domain, class or ''"
        )

    def _first_folders(self) -> list[str]:
        return sorted(
            entry.name
            for entry in os.scandir(self.root)
            if entry.is_dir(follow_symlinks=False) and not entry.name.startswith(".")
        )
