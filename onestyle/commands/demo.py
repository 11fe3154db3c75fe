"""`onestyle demo`."""

from __future__ import annotations

import argparse
from pathlib import Path

from onestyle.commands.words import note, say, whole


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--out",
        type=Path,
        default="runs/demo",
        metavar="DIR",
        help="go on if it is there (%(default)s)",
    )
    add("--seeds", type=whole(1, 100), default=2, metavar="N", help="of pretraining (%(default)s)")


def run(args: argparse.Namespace) -> None:
    from onestyle.stages.demo import demo

    shown = demo(args.out, n_seeds=args.seeds, say=note)
    say(shown.table)
    took = f"It took {shown.took}" if shown.took else "It was finished before"
    say(f"{took}; look at {shown.page}")
