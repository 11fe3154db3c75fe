"""Parquet files as the Hugging Face hub keeps images, local or fetched: no code of theirs runs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from onestyle.data.sources.base import USUAL, Item, Source

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetFile

__all__ = ["ParquetSource", "download"]

SPLITS = ("train", "id_val", "val", "validation", "test")
MISSING = "hub and parquet sources need pip install 'onestyle[hub]'"


class ParquetSource(Source):
    """A column of {bytes, path} and columns of labels, read a few rows at a time."""

    def __init__(self, path: Path, name: str, columns: dict[str, str] | None = None):
        super().__init__(name)
        self.root = path.parent if path.is_file() else path
        self.files = [path] if path.is_file() else sorted(path.rglob("*.parquet"))
        self._kept: list[bool] = []  # of every row
        for file in self.files:
            self._list(file, columns or {})
        if not self._kept:
            raise ValueError(f"{name} has no image")

    def contents(self) -> Iterator[Callable[[], bytes]]:
        images = chain.from_iterable(map(_images, self.files))
        for image, kept in zip(images, self._kept, strict=True):
            if kept:
                yield partial(_bytes, image)

    def _list(self, file: Path, columns: dict[str, str]) -> None:
        parquet = _open(file)
        image, names = _image_column(parquet, file), _label_columns(parquet, file, columns)
        paths = _paths(parquet, image)
        none = [_split_named(file)] * len(paths)
        words = {key: _words(parquet, file, name) for key, name in names.items()}
        splits = words.get("split", none)
        none = [""] * len(paths)
        labels = zip(words.get("domain", none), words.get("class", none), splits, strict=True)
        here = file.relative_to(self.root).with_suffix("").as_posix()
        for row, (path, label) in enumerate(zip(paths, labels, strict=True)):
            name = self._name(path, label, f"{here}/{row:08d}")
            self._kept.append(self.add(Item(name, *label)))

    def _name(self, path: str | None, label: tuple[str, str, str], place: str) -> str:
        """As in a folder: the hub keeps file names without theirs, and often none or twice."""
        if not path:
            return place
        name = path if "/" in path else "/".join(filter(None, (*label[:2], path)))
        return place if name in self.names else name


def _label_columns(parquet: ParquetFile, file: Path, columns: dict[str, str]) -> dict[str, str]:
    """Which column is the domain, the class, the split."""
    there, found = parquet.schema_arrow.names, {}
    for key in ("domain", "class", "split"):
        named = columns.get(key)
        if named is not None and named not in there:
            raise ValueError(f"{file.name} has no column {named!r}, only {', '.join(there)}")
        name = named or next((word for word in USUAL[key] if word in there), None)
        if name is not None:
            found[key] = name
    return found


def _split_named(file: Path) -> str:
    """data/train-00000-of-00003.parquet, or default/train/0000.parquet as the hub converts."""
    words = re.split(r"[-.]", file.name)[0], file.parent.name.removeprefix("partial-")
    return next((word for word in words if word in SPLITS), "")


def _open(file: Path) -> ParquetFile:
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ModuleNotFoundError as error:
        raise ValueError(MISSING) from error
    try:
        return ParquetFile(file)
    except (ArrowException, OSError) as error:
        raise ValueError(f"{file} cannot be read: {error}") from error


def _images(file: Path) -> Iterator:
    from pyarrow import ArrowException

    parquet = _open(file)
    try:
        for batch in parquet.iter_batches(256, columns=[_image_column(parquet, file)]):
            yield from batch.column(0)
    except (ArrowException, OSError) as error:
        raise ValueError(f"{file} cannot be read: {error}") from error


def _image_column(parquet: ParquetFile, file: Path) -> str:
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


def _paths(parquet: ParquetFile, image: str) -> list[str | None]:
    """Without touching the bytes."""
    field = parquet.schema_arrow.field(image).type
    if field.get_field_index("path") < 0:
        return [None] * parquet.metadata.num_rows
    rows = parquet.read([f"{image}.path"]).column(0).to_pylist()
    return [row and row.get("path") for row in rows]


def _words(parquet: ParquetFile, file: Path, name: str) -> list[str]:
    """A column as text; numbers become the class names that the file knows."""
    values = parquet.read([name]).column(0).to_pylist()
    metadata = (parquet.schema_arrow.metadata or {}).get(b"huggingface", b"{}")
    feature = json.loads(metadata).get("info", {}).get("features", {}).get(name) or {}
    known = feature.get("names")
    if not known:
        return ["" if value is None else str(value) for value in values]
    if wrong := {*values} - {None, *range(-1, len(known))}:
        raise ValueError(f"{file.name}: {name} has {min(wrong)}, beyond its {len(known)} names")
    return ["" if value in (None, -1) else known[value] for value in values]


def _bytes(image) -> bytes:
    content = image.as_py()
    if not content or content["bytes"] is None:
        raise ValueError("the row has no bytes")
    return content["bytes"]


def download(name: str) -> Path:
    """hub:OWNER/NAME or hub:OWNER/NAME@REVISION -> the folder, named by its commit, of its files.

    Only parquet files: what their authors did not convert the hub does (refs/convert/parquet).
    """
    try:
        from huggingface_hub import snapshot_download
    except ModuleNotFoundError as error:
        raise ValueError(MISSING) from error
    repo, _, revision = name.removeprefix("hub:").partition("@")
    try:
        folder = snapshot_download(
            repo, repo_type="dataset", revision=revision or None, allow_patterns="*.parquet"
        )
    except Exception as error:  # no network, no such name, no right to it: all the user's to mend
        raise ValueError(f"cannot fetch {name}: {error}") from error
    if not any(Path(folder).rglob("*.parquet")):
        raise ValueError(f"{name} has no parquet files; try {name}@refs/convert/parquet")
    return Path(folder)
