"""SIGTERM and Ctrl-C: a wish that is granted between two steps, or an end that tidies up."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["Interrupted", "tidily", "wishes"]


class Interrupted(Exception):
    """A signal asked a run to end; it has saved its state."""

    def __init__(self, number: int, after: str):
        self.number = number
        name = signal.Signals(number).name
        super().__init__(f"{name} after {after}: the state is saved, the same command goes on")


@contextmanager
def wishes() -> Iterator[list[int]]:
    """The signals that came: a cluster takes the machine back, or Ctrl-C. A second one kills."""
    asked: list[int] = []

    def note(number: int, frame: object) -> None:
        if asked:
            signal.signal(number, old[number])
            signal.raise_signal(number)
        asked.append(number)

    with _handled(note, signal.SIGTERM, signal.SIGINT) as old:
        yield asked


@contextmanager
def tidily() -> Iterator[None]:
    """SIGTERM unwinds the stack as Ctrl-C does, so that what is half made is removed."""

    def leave(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    with _handled(leave, signal.SIGTERM):
        yield


@contextmanager
def _handled(handler: Callable[[int, object], None], *numbers: int) -> Iterator[dict[int, Any]]:
    """The handlers that were there before, by number."""
    main = threading.current_thread() is threading.main_thread()  # only it may catch signals
    old = {number: signal.signal(number, handler) for number in (numbers if main else ())}
    try:
        yield old
    finally:
        for number, handler_before in old.items():
            signal.signal(number, handler_before)
