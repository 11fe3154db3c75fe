"""What several commands say and understand."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable


def say(text: str) -> None:
    """Print, whatever bytes a file name has and whatever the terminal can show."""
    encoding = sys.stdout.encoding or "utf-8"
    print(text.encode(encoding, "backslashreplace").decode(encoding))


def note(text: str) -> None:
    """What is not the answer: on stderr."""
    print(text, file=sys.stderr, flush=True)


def whole(low: int, high: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not (text.isdecimal() and low <= int(text) <= high):
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {low} to {high}")
        return int(text)

    return parse


def share(text: str) -> int:
    """.05 -> 5, the percent."""
    try:
        percent = 100 * float(text)
    except ValueError:
        percent = 0.0
    if not (1 <= percent <= 100 and abs(percent - round(percent)) < 1e-6):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a whole percentage from .01 to 1; fewer labels than .01 "
            "would leave classes without an image"
        )
    return round(percent)


def ratios(text: str) -> tuple[float, float]:
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        values = []
    if len(values) not in (1, 2) or not 0 <= values[0] <= values[-1] <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is neither R nor MIN,MAX within 0..1")
    return values[0], values[-1]
