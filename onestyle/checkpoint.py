"""Files that are whole or not there, and weights that are read without executing anything."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import BinaryIO

import torch
from torch import Tensor, nn

__all__ = [
    "load",
    "load_strictly",
    "read_about",
    "read_weights",
    "save",
    "save_tensors",
    "save_weights",
    "write_whole",
]


def write_whole(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Write beside `path`, then take its place: a crash or a full disk leaves the old file."""
    part = path.with_name(f".{path.name}.part")
    try:
        with part.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        raise OSError(error.errno, f"cannot be written: {error.strerror}", str(path)) from error
    except RuntimeError as error:  # torch.save's word for a failed write
        raise OSError(None, f"cannot be written: {error}", str(path)) from error
    finally:
        part.unlink(missing_ok=True)


def save(path: Path, state: dict) -> None:
    write_whole(path, lambda file: torch.save(state, file))


def load(path: Path) -> dict:
    """Tensors, numbers, strings and their containers; anything else in the file is refused."""
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except (RuntimeError, pickle.UnpicklingError, EOFError) as error:
        reason = str(error).splitlines()[0] if str(error) else "it is cut or damaged"
        raise ValueError(f"{path} cannot be read: {reason}") from error


def save_weights(path: Path, module: nn.Module, about: Mapping[str, str]) -> None:
    """The module's tensors under their own names, as safetensors."""
    save_tensors(path, module.state_dict(), about)


def save_tensors(
    path: Path, tensors: Mapping[str, Tensor], about: Mapping[str, str] | None = None
) -> None:
    """Tensors, and words `about` them, as safetensors."""
    from safetensors.torch import save as to_bytes

    tensors = {name: x.detach().cpu().contiguous() for name, x in tensors.items()}
    content = to_bytes(tensors, dict(about or {}))
    write_whole(path, lambda file: file.write(content))


def read_about(path: Path) -> dict[str, str]:
    """What `save_weights` wrote beside the tensors; of another kind of file, nothing."""
    if path.suffix != ".safetensors":
        return {}
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt") as file:
            return dict(file.metadata() or {})
    except SafetensorError as error:
        raise ValueError(f"{path} cannot be read: {error}") from error


def read_weights(path: Path) -> dict[str, Tensor]:
    """A state dict from .safetensors or a torch file (plain, or below `state_dict` or `model`)."""
    if not path.is_file():
        raise ValueError(f"{path} is not a file of weights")
    if path.suffix == ".safetensors":
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        try:
            return load_file(path)
        except SafetensorError as error:
            raise ValueError(f"{path} cannot be read: {error}") from error
    state = load(path)
    for key in ("state_dict", "model"):
        state = (
            state[key] if isinstance(state, dict) and isinstance(state.get(key), dict) else state
        )
    if not (isinstance(state, dict) and all(isinstance(x, Tensor) for x in state.values())):
        raise ValueError(f"{path} holds no state dict of tensors")
    return state


def load_strictly(module: nn.Module, state: Mapping[str, Tensor], where: object) -> None:
    """Every key and every shape must fit; the difference is told."""
    there = module.state_dict()
    wrong = [f"{name} is missing" for name in there if name not in state]
    wrong += [f"{name} is unknown" for name in state if name not in there]
    wrong += [
        f"{name} is {tuple(state[name].shape)}, not {tuple(x.shape)}"
        for name, x in there.items()
        if name in state and state[name].shape != x.shape
    ]
    if wrong:
        more = f" and {len(wrong) - 6} more" if len(wrong) > 6 else ""
        raise ValueError(f"{where} does not fit the network: {'; '.join(wrong[:6])}{more}")
    module.load_state_dict(state)
