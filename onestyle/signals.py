"""SIGTERM and Ctrl-C as a wish that is granted between two steps."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["Interrupted", "wishes"]


class Interrupted(Exception):
    """A signal asked a run to end; it has saved its state."""

    def __init__(self, number: int, step: int):
        self.number, self.step = number, step
        name = signal.Signals(number).name
        super().__init__(
            f"{name} after step {step:,}: the state is saved, the same command goes on"
        )


@contextmanager
def wishes() -> Iterator[list[int]]:
    """The signals that came: a cluster takes the machine back, or Ctrl-C. A second one kills."""
    asked: list[int] = []

    def note(number: int, frame: object) -> None:
        if asked:
            signal.signal(number, old[number])
            signal.raise_signal(number)
        asked.append(number)

    main = threading.current_thread() is threading.main_thread()  # only it may catch signals
    numbers = (signal.SIGTERM, signal.SIGINT) if main else ()
    old: dict[int, Any] = {number: signal.signal(number, note) for number in numbers}
    try:
        yield asked
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
