"""Where images come from: a folder, a manifest, parquet files, the Hugging Face hub, WILDS.

A source knows its items (name, domain, class, split) and what is wrong with its list before it
opens one image; then it hands out contents, one by one. Nothing is followed out of its folder.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from PIL import Image

from onestyle.data.images import SUFFIXES

__all__ = ["Item", "Problem", "Source", "find_source"]


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
        self.name = name
        self.items: list[Item] = []
        self.problems: list[Problem] = []
        self.ignored: Counter[str] = Counter()  # files that are no images, by their ending
        self._names: set[str] = set()

    def contents(self) -> Iterator[Callable[[], bytes]]:
        """What reads each item, in their order."""
        raise NotImplementedError  # abstract

    def add(self, item: Item) -> bool:
        """Keep the item, or tell what is wrong with it."""
        reason = _wrong_name(item) or ("the same name again" if item.path in self._names else None)
        if reason:
            self.refuse(item.path, reason)
        else:
            self.items.append(item)
            self._names.add(item.path)
        return not reason

    def refuse(self, path: str, reason: str) -> None:
        self.problems.append(Problem(printable(path), reason))


def find_source(
    name: str, *, levels: str | None = None, columns: dict[str, str] | None = None
) -> Source:
    """The source that a word on the command line means.

    `levels` says what the first folders of a folder mean: "domain/class", "domain", "class" or "";
    `columns` what the columns of a table are called, such as {"domain": "center"}.
    """
    if name.startswith("hub:"):
        folder = _download(name)
        return ParquetSource(folder, f"{name.partition('@')[0]}@{folder.name}", columns)
    path = Path(name)
    if not path.exists():
        raise ValueError(f"{name} does not exist")
    if path.is_file():
        return _file(path, columns)
    if (path / "metadata.csv").is_file() and (path / "patches").is_dir():
        return WildsSource(path)
    if any(path.rglob("*.parquet")):
        return ParquetSource(path, path.name, columns)
    return FolderSource(path, levels)


def _file(path: Path, columns: dict[str, str] | None) -> Source:
    kind = path.suffix.lower()
    if kind in (".csv", ".jsonl"):
        return ManifestSource(path, columns)
    if kind == ".parquet":
        return ParquetSource(path, path.name, columns)
    raise ValueError(
        f"{path}: a source is a folder, a .csv or .jsonl list of images, .parquet or "
        "hub:OWNER/NAME; unpack an archive first"
    )


class _Files(Source):
    """Items that are files below a root."""

    def __init__(self, name: str, root: Path):
        super().__init__(name)
        self.root = root
        self._real = os.path.realpath(root)

    def contents(self) -> Iterator[Callable[[], bytes]]:
        return ((self.root / item.path).read_bytes for item in self.items)

    def add(self, item: Item) -> bool:
        reason = self._wrong_place(item.path)
        if reason:
            self.refuse(item.path, reason)
        return not reason and super().add(item)

    def _wrong_place(self, path: str) -> str | None:
        real = os.path.realpath(self.root / path)
        if os.path.commonpath([self._real, real]) != self._real:
            return "leads out of the folder"
        if not os.path.exists(real):
            return "there is no such file"
        return None if os.path.isfile(real) else "not a file"


class FolderSource(_Files):
    """`domain/class/image`, or what `levels` says; deeper folders belong to the name."""

    def __init__(self, root: Path, levels: str | None = None):
        super().__init__(root.name, root)
        images = sorted(self._walk())
        meaning = self._meaning(images, levels)
        for path in images:
            self._add(path, meaning)
        found = {item.domain for item in self.items} if "domain" in meaning else set()
        for folder in self._first_folders() if found else ():
            if folder not in found:
                self.refuse(folder, "a domain without images")

    def _add(self, path: str, meaning: list[str]) -> None:
        folders = path.split("/")[:-1]
        if len(folders) < len(meaning):
            where = "/".join(f"<{word}>" for word in meaning)
            self.refuse(path, f"does not lie in {where}")
            return
        place = dict(zip(meaning, folders, strict=False))
        self.add(Item(path, place.get("domain", ""), place.get("class", "")))

    def _walk(self) -> Iterator[str]:
        def fail(error: OSError):
            raise error

        for parent, folders, files in os.walk(self.root, onerror=fail):
            inside = Path(parent).relative_to(self.root)
            for name in folders:
                if (Path(parent) / name).is_symlink():
                    self.refuse((inside / name).as_posix(), "a link to a folder is not followed")
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for name in files:
                suffix = Path(name).suffix.lower()
                if name.startswith(".") or suffix not in _image_suffixes():
                    self.ignored[suffix or name] += 1
                else:
                    yield (inside / name).as_posix()

    def _meaning(self, images: list[str], levels: str | None) -> list[str]:
        if not images:
            raise ValueError(f"no image in {self.root} (looked for {' '.join(sorted(SUFFIXES))})")
        if levels is not None:
            words = levels.split("/") if levels else []
            if not set(words) <= {"domain", "class"} or len(set(words)) != len(words):
                raise ValueError(
                    f"levels are domain/class, class/domain, domain or class, got {levels}"
                )
            return words
        depth = min(path.count("/") for path in images)
        if depth == 1:
            raise ValueError(
                f"{self.root} has one level of folders: say --levels domain or --levels class"
            )
        return ["domain", "class"] if depth else []

    def _first_folders(self) -> list[str]:
        return sorted(
            entry.name
            for entry in os.scandir(self.root)
            if entry.is_dir(follow_symlinks=False) and not entry.name.startswith(".")
        )


class ManifestSource(_Files):
    """A .csv or .jsonl with a column `path`, relative to its folder, and domain, class, split."""

    def __init__(self, path: Path, columns: dict[str, str] | None = None):
        super().__init__(path.name, path.parent)
        names = {key: key for key in ("path", "domain", "class", "split")} | (columns or {})
        for line, row in _rows(path):
            name = row.get(names["path"])
            if not isinstance(name, str) or not name:
                self.refuse(f"{path.name} line {line}", f"has no {names['path']}")
            elif reason := _not_relative(name):
                self.refuse(f"{name} ({path.name} line {line})", reason)
            else:
                words = (row.get(names[key]) for key in ("domain", "class", "split"))
                fields = ("" if word is None else str(word).strip() for word in words)
                self.add(Item(PurePosixPath(name).as_posix(), *fields))
        if not self.items and not self.problems:
            raise ValueError(f"{path} lists no image")


class WildsSource(_Files):
    """The folder of Camelyon17-WILDS: metadata.csv and patches/, hospitals as domains.

    The official splits: hospitals 0, 3, 4 train and id_val, hospital 1 val, hospital 2 test.
    """

    CLASSES = ("normal", "tumor")

    def __init__(self, root: Path):
        super().__init__("camelyon17", root)
        for line, row in _rows(root / "metadata.csv"):
            try:
                item = self._item(row)
            except (KeyError, ValueError, IndexError, AttributeError):
                self.refuse(f"metadata.csv line {line}", "not a row of Camelyon17-WILDS")
            else:
                self.add(item)

    def _item(self, row: dict) -> Item:
        node = f"patient_{row['patient'].zfill(3)}_node_{row['node']}"
        path = f"patches/{node}/patch_{node}_x_{row['x_coord']}_y_{row['y_coord']}.png"
        split = {1: "val", 2: "test"}.get(int(row["center"])) or ("train", "id_val")[
            int(row["split"])
        ]
        return Item(path, f"hospital_{int(row['center'])}", self.CLASSES[int(row["tumor"])], split)


class ParquetSource(Source):
    """Parquet files as the Hugging Face hub keeps images: a column of {bytes, path}, and labels.

    Read by pyarrow alone, a few rows at a time: nothing that comes with the data is executed.
    """

    def __init__(self, path: Path, name: str, columns: dict[str, str] | None = None):
        super().__init__(name)
        self.files = [path] if path.is_file() else sorted(path.rglob("*.parquet"))
        self._kept: list[bool] = []  # of every row
        for file in self.files:
            self._list(file, columns or {})
        if not self._kept:
            raise ValueError(f"{name} has no image")

    def contents(self) -> Iterator[Callable[[], bytes]]:
        images = chain.from_iterable(map(self._images, self.files))
        for image, kept in zip(images, self._kept, strict=True):
            if kept:
                yield partial(_image_bytes, image)

    def _images(self, file: Path) -> Iterator:
        parquet = _open_parquet(file)
        for batch in parquet.iter_batches(256, columns=[_image_column(parquet, file)]):
            yield from batch.column(0)

    def _list(self, file: Path, columns: dict[str, str]) -> None:
        parquet = _open_parquet(file)
        image, names = _image_column(parquet, file), self._label_columns(parquet, file, columns)
        words = {key: _words(parquet, name) for key, name in names.items()}
        split = re.split(r"[-.]", file.name)[0]
        for row, path in enumerate(_paths(parquet, image)):
            item = Item(
                path or f"{file.stem}/{row:08d}",
                words["domain"][row] if "domain" in words else "",
                words["class"][row] if "class" in words else "",
                words["split"][row] if "split" in words else split if split in _SPLITS else "",
            )
            self._kept.append(self.add(item))

    def _label_columns(self, parquet, file: Path, columns: dict[str, str]) -> dict[str, str]:
        """Which column is the domain, the class, the split."""
        there, found = parquet.schema_arrow.names, {}
        for key, usual in _USUAL.items():
            named = columns.get(key)
            if named is not None and named not in there:
                raise ValueError(f"{file.name} has no column {named!r}, only {', '.join(there)}")
            name = named or next((word for word in usual if word in there), None)
            if name is not None:
                found[key] = name
        return found


_USUAL = {"domain": ("domain", "center"), "class": ("label", "class"), "split": ("split",)}
_SPLITS = ("train", "id_val", "val", "validation", "test")


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
    if suffix in _image_suffixes() - SUFFIXES:
        return f"{suffix} files are not read"
    return None


def _not_relative(name: str) -> str | None:
    if "://" in name:
        return "an address; only files below the list's folder are read"
    if name.startswith(("/", "\\", "~")) or re.match(r"[A-Za-z]:", name):
        return "an absolute path; only files below the list's folder are read"
    if not name or ".." in re.split(r"[/\\]", name):
        return "leads out of the folder"
    return None


def _image_suffixes() -> set[str]:
    """Whatever looks like an image, so that what cannot be read is named and not passed over."""
    Image.init()
    return {*Image.registered_extensions(), *SUFFIXES, ".heic", ".svg", ".dng"}


def _rows(path: Path) -> Iterator[tuple[int, dict]]:
    """Line number and fields of a .csv or .jsonl; no fields where the line cannot be read."""
    read = _csv_rows if path.suffix.lower() == ".csv" else _json_rows
    with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        yield from read(file)


def _csv_rows(file: io.TextIOBase) -> Iterator[tuple[int, dict]]:
    rows = csv.DictReader(file)
    for row in rows:
        yield rows.line_num, row


def _json_rows(file: io.TextIOBase) -> Iterator[tuple[int, dict]]:
    for number, line in enumerate(file, 1):
        if line.strip():
            try:
                row = json.loads(line)
            except json.JSONDecodeError:
                row = None
            yield number, row if isinstance(row, dict) else {}


def _open_parquet(file: Path):
    from pyarrow import ArrowInvalid
    from pyarrow.parquet import ParquetFile

    try:
        return ParquetFile(file)
    except ArrowInvalid as error:
        raise ValueError(f"{file}: not a parquet file: {error}") from error


def _image_column(parquet, file: Path) -> str:
    """The column of {bytes, path}; of several, the one called image."""
    from pyarrow import types

    found = [
        field.name
        for field in parquet.schema_arrow
        if types.is_struct(field.type) and field.type.get_field_index("bytes") >= 0
    ]
    if not found:
        names = ", ".join(parquet.schema_arrow.names)
        raise ValueError(f"{file.name} has no column of images (bytes and path), only {names}")
    return "image" if "image" in found else found[0]


def _paths(parquet, image: str) -> Iterator[str | None]:
    for batch in parquet.iter_batches(columns=[f"{image}.path"]):
        yield from (row and row.get("path") for row in batch.column(0).to_pylist())


def _words(parquet, name: str) -> list[str]:
    """A column as text; numbers become the class names that the file knows."""
    values = parquet.read([name]).column(0).to_pylist()
    metadata = (parquet.schema_arrow.metadata or {}).get(b"huggingface", b"{}")
    feature = json.loads(metadata).get("info", {}).get("features", {}).get(name, {})
    known = feature.get("names")
    if known:
        return ["" if value in (None, -1) else known[value] for value in values]
    return ["" if value is None else str(value) for value in values]


def _image_bytes(image) -> bytes:
    content = image["bytes"].as_py()
    if content is None:
        raise ValueError("the row has no bytes; only its path is stored")
    return content


def _download(name: str) -> Path:
    """hub:OWNER/NAME or hub:OWNER/NAME@REVISION -> the folder, named by its commit, of its files.

    Only parquet files: no code, and what their authors did not convert the hub does (revision
    refs/convert/parquet).
    """
    try:
        from huggingface_hub import snapshot_download
    except ModuleNotFoundError as error:
        raise ValueError("a hub source needs pip install 'onestyle[hub]'") from error
    repo, _, revision = name.removeprefix("hub:").partition("@")
    try:
        folder = snapshot_download(
            repo, repo_type="dataset", revision=revision or None, allow_patterns="**.parquet"
        )
    except Exception as error:  # no network, no such name, no right to it: all the user's to mend
        raise ValueError(f"cannot fetch {name}: {error}") from error
    if not any(Path(folder).rglob("*.parquet")):
        raise ValueError(f"{name} has no parquet files; try {name}@refs/convert/parquet")
    return Path(folder)
