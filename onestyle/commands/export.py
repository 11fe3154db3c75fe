"""`onestyle export`."""

from __future__ import annotations

import argparse
from pathlib import Path

from onestyle.commands.words import note

FORMATS = ("timm", "torchvision", "onnx", "hub-folder")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("run", type=Path, metavar="RUN", help="a finished run")
    add("--to", required=True, choices=FORMATS, help="who shall read it")
    add("--out", type=Path, metavar="DIR", help="the folder to make (RUN/export/FORMAT)")
    images = "whose images check it (the run's store); digits are always there"
    add("--data", metavar="STORE", help=images)
    add("--force", action="store_true", help="overwrite the folder")


def run(args: argparse.Namespace) -> None:
    from onestyle.stages.export import export

    path, check = export(args.run, args.to, data=args.data, out=args.out, force=args.force)
    note(f"{path}: {check}")
