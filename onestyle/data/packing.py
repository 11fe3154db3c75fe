"""Making a store: decode in threads, write in order, whole or not at all.

It grows in a folder beside its place and is renamed at the end.
"""

from __future__ import annotations

import csv
import fcntl
import hashlib
import json
import os
import shutil
from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import PIL

import onestyle
from onestyle.data.images import RESIZE, decode, quiet
from onestyle.data.sources import Item, Problem, Source
from onestyle.data.store import COLUMNS, FORMAT, checksum

__all__ = ["BadImages", "check_store", "pack"]

AHEAD = 64  # decoded images that may wait for their turn


class BadImages(ValueError):
    """What is wrong with a source: its message names some, `problems` all."""

    def __init__(self, problems: list[Problem], what: str = "refused"):
        self.problems = problems
        super().__init__(f"{what}: {summary(problems)}; --skip-bad packs the rest")


def pack(
    source: Source,
    out: Path,
    *,
    size: int,
    resize: str = "stretch",
    adapt: Callable[[Item], Item | None] = lambda item: item,
    dataset: str = "",
    skip_bad: bool = False,
    force: bool = False,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> dict:
    """Decode the source's images into a store at `out`; returns its manifest.

    Whatever is wrong with the source is named and refused, or left out and recorded with
    `skip_bad`. `adapt` may change an item or, by None, say that it is not of the data set. The same
    source gives the same bytes.
    """
    check_store(out, size, resize, force)
    adapted = ((k, adapt(item)) for k, item in enumerate(source.items))
    members = {k: item for k, item in adapted if item}
    if source.items and not members:
        raise ValueError(f"no image of {source.name} belongs to {dataset}: {_labels(source.items)}")
    chosen, lonely = _without_lonely_classes(members)
    problems = [*source.problems, *lonely]
    if problems and not skip_bad:
        raise BadImages(problems)
    with _in_the_making(out, force) as part:
        _check_space(part, out, len(chosen) * 3 * size * size)
        made, bad, pixels_sha256 = _write_images(source, chosen, part, size, resize, progress)
        problems += bad
        if problems and not skip_bad:
            raise BadImages(problems)
        if not made:
            raise ValueError(f"no image is left: {summary(problems)}")
        more = {"dataset": dataset, "size": size, "resize": resize, "pixels_sha256": pixels_sha256}
        more["not_of_dataset"] = len(source.items) - len(members)
        manifest = _describe(part, source, made, **more, left_out=problems)
        text = json.dumps(manifest, indent=1, ensure_ascii=False)
        (part / "manifest.json").write_text(text + "\n", encoding="utf-8")
    return manifest


def check_store(out: Path, size: int, resize: str, force: bool) -> None:
    """Say what would keep a store from being made, before any work is done."""
    if resize not in RESIZE:
        raise ValueError(f"resize must be one of {', '.join(RESIZE)}, got {resize!r}")
    if not 8 <= size <= 2048:
        raise ValueError(f"size must be from 8 to 2048 pixels, got {size}")
    if out.exists() and not force:
        raise ValueError(f"{out} exists; --force overwrites it")
    if out.exists() and not (out / "manifest.json").is_file():
        raise ValueError(f"{out} is not a store; it is not overwritten")


def _check_space(part: Path, out: Path, need: int) -> None:
    free = shutil.disk_usage(part).free
    if need > free:
        raise ValueError(f"{out} needs {need / 1e6:,.0f} MB, {free / 1e6:,.0f} MB are free there")


def summary(problems: list[Problem], shown: int = 8) -> str:
    """How many of what, and the first of them by name."""
    reasons = Counter(reason for _, reason in problems)
    counted = ", ".join(f"{n} x {reason}" for reason, n in reasons.most_common())
    names = ", ".join(path for path, _ in problems[:shown])
    more = f" and {len(problems) - shown} more" if len(problems) > shown else ""
    return f"{len(problems)} bad ({counted}): {names}{more}"


def _labels(items: list[Item], shown: int = 8) -> str:
    domains, classes = sorted({i.domain for i in items}), sorted({i.label for i in items})
    return f"its domains are {domains[:shown]}, its classes {classes[:shown]}"


class _Made(NamedTuple):
    item: Item
    sha256: str


def _write_images(
    source: Source, chosen: dict[int, Item], part: Path, size: int, resize: str, progress
) -> tuple[list[_Made], list[Problem], str]:
    """Decode in threads, write in order: (rows, problems, checksum of the pixels)."""
    rows, problems, checksum = [], [], hashlib.sha256()
    with (part / "images.npy").open("w+b") as file, quiet():
        _write_header(file, len(chosen), size)
        for item, result in _decoded(source, chosen, size, resize):
            if isinstance(result, str):
                problems.append(Problem(item.path, result))
            else:
                pixels, sha256 = result
                file.write(pixels)
                checksum.update(pixels)
                rows.append(_Made(item, sha256))
            progress(len(rows) + len(problems), len(chosen))
        file.seek(0)
        _write_header(file, len(rows), size)
        os.fsync(file.fileno())
    return rows, problems, checksum.hexdigest()


def _write_header(file, n: int, size: int) -> None:
    """An .npy header has the same length whatever n is: numpy leaves room for it to grow."""
    header = {"descr": "|u1", "fortran_order": False, "shape": (n, 3, size, size)}
    np.lib.format.write_array_header_1_0(file, header)


def _decoded(source: Source, chosen: dict[int, Item], size: int, resize: str) -> Iterator:
    """(item, (pixels, checksum of the file) or what is wrong), in order; some ahead in threads."""
    pool = ThreadPoolExecutor(os.cpu_count())
    contents = ((k, read) for k, read in enumerate(source.contents()) if k in chosen)
    jobs = ((chosen[k], pool.submit(_decode, read, size, resize)) for k, read in contents)
    try:
        waiting = deque(islice(jobs, AHEAD))
        while waiting:
            item, job = waiting.popleft()
            waiting.extend(islice(jobs, 1))
            yield item, job.result()
    finally:
        pool.shutdown(cancel_futures=True)


def _decode(read: Callable[[], bytes], size: int, resize: str) -> tuple[bytes, str] | str:
    try:
        content = read()
        pixels = decode(content, size, resize)
    except OSError as error:
        return str(error.strerror or error)
    except ValueError as error:
        return " ".join(str(error).split())
    return np.ascontiguousarray(pixels).tobytes(), hashlib.sha256(content).hexdigest()


def _without_lonely_classes(items: dict[int, Item]) -> tuple[dict[int, Item], list[Problem]]:
    """A class that one of several domains with classes alone has would tell the domain."""
    homes: dict[str, set[str]] = {}
    for item in items.values():
        if item.label:  # a domain without classes says nothing of theirs
            homes.setdefault(item.label, set()).add(item.domain)
    if len(set().union(*homes.values())) < 2:
        return items, []
    lonely = {label: min(domains) for label, domains in homes.items() if len(domains) == 1}
    reasons = {label: f"class {label} is in domain {home} alone" for label, home in lonely.items()}
    problems = [Problem(i.path, reasons[i.label]) for i in items.values() if i.label in lonely]
    return {k: item for k, item in items.items() if item.label not in lonely}, problems


def _describe(part: Path, source: Source, made: list[_Made], **more) -> dict:
    """Write the table; the manifest that goes with it."""
    with (part / "table.csv").open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(COLUMNS)
        table.writerows((*item, sha256) for item, sha256 in made)
        file.flush()
        os.fsync(file.fileno())
    counts = Counter((item.domain, item.label) for item, _ in made)
    by_domain = {domain: {} for domain, _ in sorted(counts)}
    for (domain, label), n in sorted(counts.items()):
        by_domain[domain][label] = n
    return {
        "format": FORMAT,
        "source": source.name,
        "n": len(made),
        "counts": by_domain,
        "table_sha256": checksum(part / "table.csv"),
        "ignored": dict(sorted(source.ignored.items())),
        "made_with": {"onestyle": onestyle.__version__, "pillow": PIL.__version__},
        **more,
    }


@contextmanager
def _in_the_making(out: Path, force: bool) -> Iterator[Path]:
    """A folder beside `out` that becomes `out` at the end, or vanishes; who died left his to us."""
    out = out.resolve()
    out.parent.mkdir(parents=True, exist_ok=True)
    part = out.with_name(f".{out.name}.part")
    part.mkdir(exist_ok=True)
    with (part / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(f"{out} is being made by another process") from None
        try:
            (part / "images.npy").unlink(missing_ok=True)  # its room is ours
            yield part
            (part / "lock").unlink()
            _replace(part, out, force)
        except BaseException as error:
            shutil.rmtree(part, ignore_errors=True)
            if isinstance(error, OSError) and error.filename is None:
                raise OSError(error.errno, error.strerror, str(out)) from error
            raise


def _replace(part: Path, out: Path, force: bool) -> None:
    old = out.with_name(f".{out.name}.old")
    if force and out.exists():
        shutil.rmtree(old, ignore_errors=True)  # of one who died here
        out.rename(old)
    part.rename(out)  # refused where another store has come meanwhile
    shutil.rmtree(old, ignore_errors=True)
