"""Classes of images that nobody has labelled, by the saved heads of a probe."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from onestyle.checkpoint import read_about, read_weights, write_whole
from onestyle.data.images import SUFFIXES, decode, quiet
from onestyle.data.sources import FolderSource, Problem
from onestyle.data.sources.base import printable
from onestyle.progress import progress
from onestyle.report import escape
from onestyle.stages.exam import default_device
from onestyle.stages.frozen import Frozen, open_frozen
from onestyle.stages.linear import Heads

__all__ = ["Labelled", "predict", "write_labels"]

Read = Callable[[], bytes]


class Labelled(NamedTuple):
    """What was predicted, and what could not be read."""

    paths: list[str]
    classes: list[str]  # that there are
    probability: NDArray[np.float32]  # (images, classes)
    bad: list[Problem]
    heads: str  # which of them were asked


def predict(
    what: str,
    images: Iterable[Path | str],
    *,
    probe: Path | str | None = None,
    percent: int | None = None,
    seed: int | None = None,
    network: Mapping[str, Any] | None = None,
    device: str | None = None,
    skip_bad: bool = False,
) -> Labelled:
    """Image files, and those in folders, by the heads of `percent` of the labels (the most that
    there are) and `seed`, or else by the mean probability of all seeds.

    `probe` is the evaluation's folder, by default the run's. An image that cannot be read is
    refused, or left out and named with `skip_bad`.
    """
    device, frozen = device or default_device(), open_frozen(what, **(network or {}))
    folder = Path(probe) if probe else frozen.run.path / "probe" if frozen.run else None
    if folder is None:
        raise ValueError(f"{what} is no run: name by --probe the folder of its evaluation")
    heads, about = read_heads(folder / "heads.safetensors", frozen)
    chosen = _choose(about["values"], percent, seed, folder)
    files = _Files(images, about["size"], about["resize"], skip_bad)
    with progress("images", len(files)) as shown:
        features = frozen.features(files, device, chunk=64, show=shown.show)
    some = heads.some(chosen).to(device)
    probability = _probability(some, features.to(device)).cpu().numpy()
    good = [k for k in range(len(files)) if k not in files.bad]
    values = [about["values"][k] for k in chosen]
    asked = f"{values[0]['percent']}% of the labels, seeds " + " ".join(
        str(value["seed"]) for value in values
    )
    paths = [files.paths[k] for k in good]
    return Labelled(paths, about["classes"], probability[good], files.problems, asked)


def read_heads(file: Path, frozen: Frozen) -> tuple[Heads, dict[str, Any]]:
    """Saved heads of this very network, and what `probe` wrote of them."""
    if not file.is_file():
        raise ValueError(f"{file.parent} has no heads; onestyle probe makes them")
    heads, words = read_weights(file), read_about(file)
    try:
        about = {name: json.loads(words[name]) for name in ABOUT}
        found = Heads(**heads)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{file} is not what onestyle probe writes") from error
    if _identity(about["network"]) != _identity(frozen.about):
        raise ValueError(f"{file} has heads of another network")
    return found, about


ABOUT = ("classes", "values", "size", "resize", "network")


def _identity(about: Mapping[str, Any]) -> dict[str, Any]:
    """Without the name of the run's folder, which may have moved."""
    return {name: value for name, value in json.loads(json.dumps(about)).items() if name != "run"}


def _choose(
    values: Sequence[Mapping[str, Any]], percent: int | None, seed: int | None, folder: Path
) -> list[int]:
    wanted = max(value["percent"] for value in values) if percent is None else percent
    chosen = [
        k
        for k, value in enumerate(values)
        if value["percent"] == wanted and seed in (None, value["seed"])
    ]
    if not chosen:
        there = ", ".join(f"{value['percent']}% seed {value['seed']}" for value in values)
        raise ValueError(f"{folder} has no such head; it has {there}")
    return chosen


@torch.inference_mode()
def _probability(heads: Heads, features: Tensor, chunk: int = 1024) -> Tensor:
    """(n, d) -> (n, C), the mean over the heads."""
    some = [heads.logits(part).softmax(-1).mean(0) for part in features.split(chunk)]
    return torch.cat(some)


class _Files:
    """Image files, decoded when they are asked for; black where one is bad."""

    def __init__(self, images: Iterable[Path | str], size: int, resize: str, skip_bad: bool):
        self.paths: list[str] = []
        self.problems: list[Problem] = []
        self.bad: set[int] = set()
        self._read: list[Read] = []
        self._how, self._skip_bad = (size, resize), skip_bad
        for name in images:
            for path, read in self._below(Path(name)):
                self.paths.append(printable(str(path)))
                self._read.append(read)
        self._refuse(self.problems)
        if not self.paths:
            raise ValueError("there is no image to predict")

    def __len__(self) -> int:
        return len(self.paths)

    def images(self, places: Sequence[int] | NDArray[np.integer]) -> NDArray[np.uint8]:
        with ThreadPoolExecutor() as threads, quiet():
            found = list(threads.map(self._decode, places))
        bad = [
            Problem(self.paths[place], reason)
            for place, reason in zip(places, found, strict=True)
            if isinstance(reason, str)
        ]
        self._refuse(bad)
        self.problems += bad
        self.bad |= {int(k) for k, x in zip(places, found, strict=True) if isinstance(x, str)}
        size = self._how[0]
        black = np.zeros((3, size, size), np.uint8)
        return np.stack([black if isinstance(x, str) else x for x in found])

    def _below(self, path: Path) -> Iterator[tuple[Path, Read]]:
        """An image, or the images of a folder; what is wrong with its names is a problem."""
        if path.is_dir():
            source = FolderSource(path.resolve(), "")
            self.problems += [Problem(f"{path}/{p.path}", p.reason) for p in source.problems]
            for item, read in zip(source.items, source.contents(), strict=True):
                yield path / item.path, read
        elif not path.exists():
            raise ValueError(f"{path} does not exist")
        elif path.suffix.lower() not in SUFFIXES or not path.is_file():
            raise ValueError(f"{path} is neither a folder nor one of {' '.join(sorted(SUFFIXES))}")
        else:
            yield path, path.read_bytes

    def _decode(self, place: int) -> NDArray[np.uint8] | str:
        """The pixels, or what is wrong."""
        try:
            return decode(self._read[place](), *self._how)
        except OSError as error:
            return str(error.strerror or error)
        except ValueError as error:
            return " ".join(str(error).split())

    def _refuse(self, problems: Sequence[Problem]) -> None:
        if problems and not self._skip_bad:
            path, reason = problems[0]
            more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
            raise ValueError(f"{path}: {reason}{more}; --skip-bad leaves out what is bad")


def write_labels(out: Path, labelled: Labelled, *, every: bool = False) -> None:
    """path, class, probability, and with `every` the probability of each class, as .csv."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    more = [f"p({escape.csv(name)})" for name in labelled.classes] if every else []
    writer.writerow(["path", "class", "probability", *more])
    for path, row in zip(labelled.paths, labelled.probability, strict=True):
        best = int(row.argmax())
        words = escape.csv(path), escape.csv(labelled.classes[best])
        writer.writerow([*words, f"{row[best]:.4f}", *(f"{p:.4f}" for p in row if every)])
    write_whole(out, lambda opened: opened.write(file.getvalue().encode()))
