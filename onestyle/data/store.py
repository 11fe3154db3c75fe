"""The packed store: square uint8 images in one memory map, a readable table, a manifest.

STORE/images.npy      (N, 3, S, S) uint8
STORE/table.csv       path, domain, class, split, sha256 of the source file: a row an image
STORE/manifest.json   counts, size, resize rule, checksums, what was left out
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["COLUMNS", "FORMAT", "Store", "Table", "checksum", "open_store"]

FORMAT = 1
COLUMNS = ("path", "domain", "class", "split", "sha256")


class Table(NamedTuple):
    """What a store knows of its images, column by column; labels may be empty everywhere."""

    path: tuple[str, ...]
    domain: NDArray[np.int32]  # number in domains; -1 where there is none
    label: NDArray[np.int32]  # number in classes; -1 where there is none
    split: tuple[str, ...]
    sha256: tuple[str, ...]
    domains: tuple[str, ...]
    classes: tuple[str, ...]

    def counts(self) -> Counter[tuple[str, str, str]]:
        """How many images have this domain, class and split."""
        domains, classes = (*self.domains, ""), (*self.classes, "")  # -1 is the last
        numbers = zip(self.domain.tolist(), self.label.tolist(), self.split, strict=True)
        return Counter((domains[d], classes[c], split) for d, c, split in numbers)


@dataclass(frozen=True)
class Store:
    """Images with what is known of them, for reading."""

    name: str
    images: NDArray[np.uint8]  # (N, 3, S, S), of a packed store a memory map
    table: Table
    manifest: dict
    path: Path | None = None  # of a packed store

    def __len__(self) -> int:
        return len(self.images)

    @property
    def size(self) -> int:
        return self.images.shape[-1]

    def read(self, rows: NDArray[np.integer]) -> NDArray[np.uint8]:
        """(n,) -> (n, 3, S, S), a copy."""
        return gather(self.images, np.asarray(rows))


def open_store(name: Path | str) -> Store:
    """A packed folder, or the embedded "digits" ("digits:64" for digits of 64 px)."""
    if re.fullmatch(r"digits(:\d+)?", str(name)):
        return _digits(int(str(name).partition(":")[2] or 32))
    path = Path(name)
    manifest = _manifest(path)
    images = _images(path, manifest)
    table = read_table(path / "table.csv", len(images))
    return Store(manifest["dataset"] or path.resolve().name, images, table, manifest, path)


def _digits(size: int) -> Store:
    if not 16 <= size <= 512:  # all are drawn at once: 1.4 GB at 512 px
        raise ValueError(f"digits are drawn from 16 to 512 px, got {size}")
    from onestyle.data import digits

    images, label, domain = digits.load(size)
    domains = tuple(sorted(digits.STYLES))
    number = np.array([domains.index(style) for style in digits.STYLES], np.int32)
    paths = [
        f"{digits.STYLES[d]}/{c}/{k:04}" for k, (c, d) in enumerate(zip(label, domain, strict=True))
    ]
    none = ("",) * len(paths)
    classes = tuple("0123456789")
    table = Table(
        tuple(paths), number[domain], label.astype(np.int32), none, none, domains, classes
    )
    return Store("digits", images, table, {"dataset": "digits", "n": len(paths), "size": size})


def gather(images: NDArray[np.uint8], rows: NDArray[np.integer]) -> NDArray[np.uint8]:
    """images[rows]; where it pays, by several cores (one does not keep up with a plain copy)."""
    if len(rows) and not 0 <= rows.min() <= rows.max() < len(images):
        raise IndexError(f"rows {rows.min()}..{rows.max()} of {len(images)} images")
    out = np.empty((len(rows), *images.shape[1:]), np.uint8)
    n_parts = min(4, os.cpu_count() or 1) if out.nbytes >= 2**22 else 1
    parts = zip(np.array_split(rows, n_parts), np.array_split(out, n_parts), strict=True)
    jobs = [partial(np.take, images, some, 0, into, "clip") for some, into in parts]
    waiting = [_threads().submit(job) for job in jobs[1:]]
    jobs[0]()
    for job in waiting:
        job.result()
    return out


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(3, "read")


os.register_at_fork(after_in_child=_threads.cache_clear)  # threads do not survive a fork


def read_table(path: Path, n: int) -> Table:
    """table.csv, which must have n rows."""
    columns = tuple([] for _ in COLUMNS)
    with path.open(encoding="utf-8", newline="") as file:
        try:
            rows = csv.reader(file)
            if tuple(next(rows, ())) != COLUMNS:
                raise ValueError(f"the columns must be {', '.join(COLUMNS)}")
            for row in rows:
                if len(row) != len(COLUMNS):
                    raise ValueError(f"{len(row)} fields, not {len(COLUMNS)}")
                for column, word in zip(columns, row, strict=True):
                    column.append(word)
        except (ValueError, csv.Error) as error:
            raise ValueError(f"{path}, row {len(columns[-1]) + 1}: {error}") from error
    if len(columns[0]) != n:
        raise ValueError(f"{path} does not go with its images: {len(columns[0])} rows for {n}")
    name, domain, label, split, sha256 = map(tuple, columns)
    domains, domain = _numbered(domain)
    classes, label = _numbered(label)
    return Table(name, domain, label, split, sha256, domains, classes)


def _numbered(words: tuple[str, ...]) -> tuple[tuple[str, ...], NDArray[np.int32]]:
    """The distinct words in order, and the number of each; -1 for none."""
    known = sorted({*words} - {""})
    number = {word: k for k, word in enumerate(known)} | {"": -1}
    return tuple(known), np.fromiter(map(number.__getitem__, words), np.int32, len(words))


def _manifest(path: Path) -> dict:
    if not path.exists():
        raise ValueError(f"{path} does not exist")
    file = path / "manifest.json"
    if not file.is_file():
        raise ValueError(f"{path} is not a store; onestyle data pack makes one")
    try:
        manifest = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{file} cannot be read: {error}") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise ValueError(f"{file}: this version reads stores of format {FORMAT}; pack it again")
    if missing := {"dataset", "n", "size", "pixels_sha256", "table_sha256"} - manifest.keys():
        raise ValueError(f"{file} says nothing of {', '.join(sorted(missing))}; pack it again")
    return manifest


def _images(path: Path, manifest: dict) -> NDArray[np.uint8]:
    """The memory map; its length is checked first, since to read beyond the end would be fatal."""
    file = path / "images.npy"
    shape = (manifest["n"], 3, manifest["size"], manifest["size"])
    with file.open("rb") as opened:
        try:
            np.lib.format.read_magic(opened)
            found, fortran, dtype = np.lib.format.read_array_header_1_0(opened)
        except ValueError as error:
            raise ValueError(f"{file} cannot be read: {error}") from error
        start = opened.tell()
    if (found, fortran, dtype) != (shape, False, np.uint8):
        raise ValueError(f"{file} holds {dtype} {found}, the manifest says uint8 {shape}")
    length, there = start + int(np.prod(shape)), file.stat().st_size
    if length != there:
        whole = max(0, there - start) // (3 * manifest["size"] ** 2)
        raise ValueError(
            f"{file} has {there:,} bytes, not {length:,}: of its {manifest['n']:,} images only the "
            f"first {min(whole, manifest['n']):,} are there; pack it again"
        )
    return np.memmap(file, np.uint8, "c", start, shape)  # private: nobody can write into the file


def checksum(path: Path, skip: int = 0, tell: Callable[[int], object] = lambda n: None) -> str:
    """SHA-256 of a file from byte `skip` on; `tell` hears how many have been read."""
    sha256 = hashlib.sha256()
    with path.open("rb") as file:
        file.seek(skip)
        while block := file.read(1 << 20):
            sha256.update(block)
            tell(file.tell())
    return sha256.hexdigest()
