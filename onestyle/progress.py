"""How far a long work is: a bar on stderr where that is a terminal, else a line now and then."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["Progress", "progress"]

LINE_EVERY = 60.0  # seconds between lines where there is no terminal


class Progress:
    """`show(done, "loss 3.21")`; in a file or a pipe, at most a line a minute."""

    def __init__(self, what: str, total: int, start: int, bar=None, *, quiet: bool = False):
        self.what, self.total, self.start, self._bar = what, total, start, bar
        self._quiet = quiet
        self.began = self._said = time.monotonic()
        if bar:
            self._task = bar.add_task(what, total=total, completed=start, words="")

    def show(self, done: int, words: str = "") -> None:
        now = time.monotonic()
        if self._bar:
            self._bar.update(self._task, completed=done, total=self.total, words=words)
        elif now - self._said >= LINE_EVERY and not self._quiet:
            self._said = now
            left = (now - self.began) / max(1, done - self.start) * (self.total - done)
            parts = [f"{done:,} of {self.total:,}", words, f"{clock(left)} left"]
            line = f"{self.what}: {', '.join(filter(None, parts))}"
            print(line, file=sys.stderr, flush=True)

    def say(self, text: str) -> None:
        """A line that stays."""
        if self._bar:
            self._bar.console.print(text, markup=False, highlight=False)
        elif not self._quiet:
            print(text, file=sys.stderr, flush=True)


@contextmanager
def progress(what: str, total: int, start: int = 0, *, quiet: bool = False) -> Iterator[Progress]:
    if quiet or not sys.stderr.isatty():
        yield Progress(what, total, start, quiet=quiet)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    words = TextColumn("{task.fields[words]}")
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), words, TimeRemainingColumn())
    with Bar(*columns, console=Console(stderr=True)) as bar:
        yield Progress(what, total, start, bar)


def clock(seconds: float) -> str:
    """75 s, 12 min, 3.4 h, 2.1 days."""
    for unit, length in (("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length or (unit == "h" and seconds >= length):
            n = seconds / length
            return f"{n:.1f} {unit}" if unit != "min" else f"{n:.0f} {unit}"
    return f"{seconds:.0f} s"
