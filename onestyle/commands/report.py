"""`onestyle report`."""

from __future__ import annotations

import argparse
from pathlib import Path

from onestyle.commands.words import note


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("runs", nargs="+", metavar="RUN", help="folders of finished runs, of the same data")
    add("--out", type=Path, default="report.html", metavar="FILE", help="the page (%(default)s)")
    add("--data", metavar="STORE", help="where the images lie (default: where the runs say)")
    add("--no-images", action="store_true", help="no pixels in the page: for patient data")
    add("--force", action="store_true", help="overwrite the page")


def run(args: argparse.Namespace) -> None:
    from onestyle.report.write import report

    options = {"out": args.out, "images": not args.no_images, "force": args.force, "say": note}
    page = report(args.runs, args.data, **options)
    note(f"{page}: {page.stat().st_size / 1e6:.1f} MB, all in one file")
