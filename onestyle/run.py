"""A run's folder: what was asked for, what came of it, and one process at a time.

runs/NAME/recipe.yaml       the resolved recipe, the data, the protocol
          metrics.jsonl     a row a look; rows beyond a resumed checkpoint are dropped
          tensorboard/      the same
          checkpoints/last.ckpt        snapshots/step_001000.safetensors
          backbone.safetensors         plain timm keys
          tuned.safetensors            what fine-tuning begins with, where that is more
          result.json
          store.txt         where the images lie on this machine
          target_openings.jsonl        a row each time that images of a target were opened
          probe/, ...       what was made of the backbone, each with its result.json
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import yaml

import onestyle
from onestyle.checkpoint import load, save, write_whole
from onestyle.data.store import Store
from onestyle.recipes import Recipe, recipe_of

__all__ = [
    "OPENINGS",
    "InUse",
    "Run",
    "config_hash",
    "lock",
    "open_run",
    "read_result",
    "read_rows",
    "read_run",
    "write_result",
]

FORMAT = 1
OPENINGS = "target_openings.jsonl"


def config_hash(config: dict) -> str:
    return hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()


class Run:
    """The folder of one run; everything in it is written whole or appended row by row."""

    def __init__(self, path: Path, config: dict[str, Any]):
        self.path, self.config = path, config

    @property
    def metrics(self) -> Path:
        return self.path / "metrics.jsonl"

    @property
    def last(self) -> Path:
        return self.path / "checkpoints" / "last.ckpt"

    @property
    def result(self) -> Path:
        return self.path / "result.json"

    @property
    def openings(self) -> Path:
        return self.path / OPENINGS

    @property
    def backbone(self) -> Path:
        return self.path / "backbone.safetensors"

    @property
    def tuned(self) -> Path:
        return self.path / "tuned.safetensors"

    @property
    def recipe(self) -> Recipe:
        return recipe_of(self.config["recipe"])

    @property
    def store_name(self) -> str:
        """What `remember` wrote."""
        file = self.path / "store.txt"
        if not file.is_file():
            raise ValueError(f"{self.path} does not say where its images lie: name --data STORE")
        return file.read_text(encoding="utf-8").rstrip("\n")

    def remember(self, store: Store) -> None:
        """Where the images lie on this machine: in a file of its own, as it is nobody else's."""
        where = store.path.resolve() if store.path else f"{store.name}:{store.size}"
        write_whole(self.path / "store.txt", lambda file: file.write(f"{where}\n".encode()))

    def begin(self, step: int) -> None:
        """Go on from a step: what was logged after it is dropped."""
        kept = [json.dumps(row) + "\n" for row in read_rows(self.metrics) if row["step"] <= step]
        write_whole(self.metrics, lambda file: file.write("".join(kept).encode()))
        self._board = self._open_board(step)

    def row(self, step: int) -> dict[str, Any]:
        """All that was logged of a step."""
        rows = [row for row in read_rows(self.metrics) if row["step"] == step]
        return {name: value for row in rows for name, value in row.items()}

    def log(self, row: dict[str, Any]) -> None:
        with self.metrics.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        for name in row.keys() - {"step"}:
            self._board.add_scalar(name, row[name], row["step"])

    def _open_board(self, step: int):
        from torch.utils.tensorboard import SummaryWriter

        return SummaryWriter(self.path / "tensorboard", purge_step=step + 1)

    def save(self, state: dict[str, Any]) -> None:
        self.last.parent.mkdir(exist_ok=True)
        save(self.last, {"format": FORMAT, "config": config_hash(self.config), **state})

    def load(self) -> dict[str, Any] | None:
        """The last checkpoint, if there is one."""
        if not self.last.exists():
            return None
        state = load(self.last)
        if state.get("format") != FORMAT or state.get("config") != config_hash(self.config):
            raise ValueError(f"{self.last} is of another run or version")
        return state

    def read_result(self) -> dict[str, Any]:
        return read_result(self.result)

    def finish(self, result: dict[str, Any]) -> None:
        write_result(self.result, result, self.config)


def write_result(path: Path, result: dict[str, Any], config: dict[str, Any]) -> None:
    """A result.json, with where it comes from."""
    whence = {"format": FORMAT, "config_hash": config_hash(config), "made_with": _versions()}
    text = json.dumps({**result, **whence}, indent=1, ensure_ascii=False) + "\n"
    write_whole(path, lambda file: file.write(text.encode()))


def read_result(path: Path) -> dict[str, Any]:
    """A result.json of this version."""
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
        made, _ = result["format"], result["config_hash"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} cannot be read: {' '.join(str(error).split())}") from error
    if made != FORMAT:
        raise ValueError(f"{path} is of format {made}; this version reads {FORMAT}")
    return result


def read_run(path: Path | str) -> Run:
    """A finished run, whose result.json is there and of this version."""
    path = Path(path)
    recipe, result = path / "recipe.yaml", path / "result.json"
    if not recipe.is_file():
        raise ValueError(f"{path} is not a run; onestyle pretrain makes one")
    if not result.is_file():
        raise ValueError(f"{path} is not finished; the command that began it goes on with it")
    try:
        run = Run(path, yaml.safe_load(recipe.read_text(encoding="utf-8")))
    except (ValueError, yaml.YAMLError) as error:
        raise ValueError(f"{recipe} cannot be read: {' '.join(str(error).split())}") from error
    if run.read_result()["config_hash"] != config_hash(run.config):
        raise ValueError(f"{recipe} is not the one that {result.name} is of: it was changed")
    return run


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a .jsonl; a last one that was not finished is left out."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").split("\n")
    return [json.loads(line) for line in lines[:-1]]  # the last is empty, or half a row


@contextmanager
def open_run(path: Path, config: dict[str, Any], *, force: bool = False) -> Iterator[Run]:
    """Make or enter the run's folder, alone; it must have been made for the same config."""
    there = {inside.name for inside in path.iterdir()} if path.exists() else set()
    if there - {"lock"} and "recipe.yaml" not in there:
        raise ValueError(f"{path} is not empty and not a run; choose another --out")
    path.mkdir(parents=True, exist_ok=True)
    with lock(path):
        file = path / "recipe.yaml"
        if force:
            _clear(path)
        if file.exists():
            _compare(path, yaml.safe_load(file.read_text(encoding="utf-8")), config)
        else:
            text = yaml.safe_dump(config, sort_keys=False, allow_unicode=True)
            write_whole(file, lambda opened: opened.write(text.encode()))
        yield Run(path, config)


class InUse(ValueError):
    """Another process is at it."""


@contextmanager
def lock(path: Path) -> Iterator[None]:
    """flock, and the name of who holds it: that of a dead process is taken over and named."""
    me = f"{socket.gethostname()} process {os.getpid()}"
    with (path / "lock").open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise InUse(f"{path} is in use by {file.read().strip()}") from None
        file.seek(0)
        other = file.read().strip()
        if other and other.split()[0] != socket.gethostname():
            raise InUse(
                f"{path} is locked by {other}, another machine; if that process is gone, "
                f"delete {path / 'lock'}"
            )
        if other:
            said = f"{path}: taking over from {other}, which ended without a word"
            print(said, file=sys.stderr, flush=True)
        file.truncate(0)
        file.write(me)
        file.flush()
        try:
            yield
        finally:
            file.truncate(0)


def _compare(path: Path, there: dict, asked: dict) -> None:
    was, now = _flat(there), _flat(asked)
    differ = [
        f"{key} is {was.get(key)!r} there and {now.get(key)!r} now"
        for key in {**was, **now}
        if was.get(key) != now.get(key)
    ]
    if differ:
        what = "; ".join(differ[:4])
        raise ValueError(f"{path} is a run of another recipe: {what}; choose another --out")


def _flat(tree: Any, name: str = "") -> dict[str, Any]:
    if not isinstance(tree, dict) or not tree:
        return {name: tree}
    parts = (_flat(value, f"{name}.{key}" if name else str(key)) for key, value in tree.items())
    return {key: value for part in parts for key, value in part.items()}


def _clear(path: Path) -> None:
    for inside in path.iterdir():
        if inside.name == "lock":
            continue
        shutil.rmtree(inside) if inside.is_dir() else inside.unlink()


def _versions() -> dict[str, str]:
    from importlib.metadata import version

    known = {name: version(name) for name in ("timm", "lightning-fabric", "numpy")}
    known |= {"onestyle": onestyle.__version__, "commit": _commit(), "torch": torch.__version__}
    return known | {"python": platform.python_version()}


def _commit() -> str:
    """Of the checkout that this code lies in; nothing where it was installed."""
    here = Path(onestyle.__file__).parents[1]
    if not (here / ".git").exists():
        return ""
    command = ["git", "-C", str(here), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""
