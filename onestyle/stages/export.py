"""A run's backbone for other libraries, with a card, and checked there before it is called done.

    export("runs/digits-simclr-bss-photo-s0", "hub-folder")

The check runs the lines of Python that the card shows, in a process of their own and in the folder
that was written, on real images of the run's sources; their features must be the run's.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from onestyle.data.store import open_store
from onestyle.progress import progress
from onestyle.report.card import Check, card
from onestyle.run import Run, read_run
from onestyle.stages.embed import prepare
from onestyle.stages.formats import FORMATS, Format
from onestyle.stages.frozen import Frozen, open_frozen

__all__ = ["TOLERANCE", "Exported", "export"]

TOLERANCE = 1e-4  # how far features may differ, as a share of the largest
N_IMAGES = 16
WRITTEN = {"README.md", "config.json", "model.safetensors", "model.pth", "model.onnx"}


class Exported(NamedTuple):
    path: Path
    check: Check


def export(
    run: Path | str,
    to: str,
    *,
    data: Path | str | None = None,
    out: Path | str | None = None,
    force: bool = False,
) -> Exported:
    """Write the folder RUN/export/TO or `out`; `data` is a store whose images check it (the run's).

    Where the other library gives other features, ValueError, and nothing is left.
    """
    if to not in FORMATS:
        raise ValueError(f"unknown format {to!r}; there are {', '.join(FORMATS)}")
    read = read_run(run)
    out = Path(out) if out else read.path / "export" / to
    _check_out(out, force)
    frozen, form = open_frozen(str(read.path)), FORMATS[to]
    whose, images = _real_images(read, data, frozen.size)
    expected = _forward(frozen, images)  # before a writer has the network in its hands
    with _in_the_making(out) as folder, progress(f"export to {to}", 2) as bar:
        lines = form.write(frozen, folder)
        bar.show(1, "checking")
        difference = _difference(expected, _features(lines, form, folder, images))
        if not difference <= TOLERANCE:  # NaN too
            raise ValueError(
                f"{read.path} is not exported: read by {form.library}, features differ by "
                f"{difference:.1e} of the largest on {len(images)} images of {whose}, allowed are "
                f"{TOLERANCE:.0e}"
            )
        check = Check(whose, len(images), difference, TOLERANCE)
        shown = lines.format(images=form.example.format(size=frozen.size))
        (folder / "README.md").write_text(card(frozen, form.library, shown, check), "utf-8")
    return Exported(out, check)


def _check_out(out: Path, force: bool) -> None:
    if out.exists() and not force:
        raise ValueError(f"{out} exists; --force overwrites it")
    others = {path.name for path in out.iterdir()} - WRITTEN if out.is_dir() else {out.name}
    if out.exists() and others:
        raise ValueError(f"{out} is not an export ({min(others)}); it is not overwritten")


def _real_images(run: Run, data: Path | str | None, size: int) -> tuple[str, Tensor]:
    """Some images (n, 3, size, size) in [0, 1], none of a target; and of which store."""
    store = open_store(data or run.store_name)
    unseen = [store.table.domains.index(name) for name in _targets(run) & {*store.table.domains}]
    rows = np.flatnonzero(~np.isin(store.table.domain, unseen))
    if not len(rows):
        raise ValueError(f"{store.name} has target images alone; name another store by --data")
    rows = np.unique(rows[np.linspace(0, len(rows) - 1, N_IMAGES).astype(int)])
    images = torch.from_numpy(store.read(rows))
    return store.name, prepare(images, size, mean=(0, 0, 0), std=(1, 1, 1))


def _targets(run: Run) -> set[str]:
    return {*run.config["data"]["targets"]}


@torch.inference_mode()
def _forward(frozen: Frozen, images: Tensor) -> Tensor:
    mean, std = torch.tensor([frozen.mean, frozen.std])[..., None, None]
    return frozen.network((images - mean) / std)


@contextmanager
def _in_the_making(out: Path) -> Iterator[Path]:
    """A folder that takes the place of `out` if all goes well, and is gone if not."""
    part = out.with_name(f".{out.name}.{os.getpid()}.part")
    part.mkdir(parents=True)
    try:
        yield part
        shutil.rmtree(out, ignore_errors=True)
        part.rename(out)
    finally:
        shutil.rmtree(part, ignore_errors=True)


# ------------------------------------------------------------------------------- the check

BEFORE = """\
import sys

import numpy

from onestyle.torchvision_cpu import make_importable

make_importable()
given = numpy.load(sys.argv[1])
"""
AFTER = """
numpy.save(sys.argv[2], features if isinstance(features, numpy.ndarray) else features.detach())
"""


def _features(lines: str, form: Format, folder: Path, images: Tensor) -> Tensor:
    """What the lines make of the images, in a new process."""
    with TemporaryDirectory() as place:
        script, given, found = (Path(place, name) for name in ("it.py", "given.npy", "found.npy"))
        script.write_text(BEFORE + lines.format(images=form.real) + AFTER, "utf-8")
        np.save(given, images.numpy())
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        command = [sys.executable, str(script), str(given), str(found)]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["it was killed"])[-1]
            raise ValueError(f"{form.library} does not read what was written: {last}")
        return torch.from_numpy(np.load(found))


def _difference(expected: Tensor, found: Tensor) -> float:
    """The largest, as a share of the largest feature."""
    if found.shape != expected.shape:
        return float("inf")
    return float((found - expected).abs().max() / expected.abs().max())
