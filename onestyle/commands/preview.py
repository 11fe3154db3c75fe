"""`onestyle preview`."""

from __future__ import annotations

import argparse
from pathlib import Path

from onestyle.commands.words import ratios, say, whole


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add, digits = parser.add_argument, "default: the embedded digits"
    add("sources", nargs="*", type=Path, metavar="FOLDER_OR_IMAGE", help=digits)
    picture = "the picture, .png .jpg .webp or .pdf (%(default)s)"
    add("--out", type=Path, default="preview.png", help=picture)
    add("--images", type=whole(2, 12), default=5, metavar="N", help="how many (%(default)s)")
    add("--views", type=whole(1, 10), default=5, metavar="V", help="of each image (%(default)s)")
    add("--ratio", type=ratios, default="0.02,1", metavar="R", help="R or MIN,MAX (%(default)s)")
    add("--seed", type=whole(0, 2**63 - 1), default=0, metavar="S", help="(%(default)s)")
    add("--size", type=whole(16, 512), default=128, metavar="S", help="in pixels (%(default)s)")
    parts = ("grids", "reach", "way")
    add("--part", choices=parts, action="append", help="only this part; may be repeated")
    add("--small", action="store_true", help="a PNG of 256 colours")
    add("--force", action="store_true", help="overwrite the picture")


def run(args: argparse.Namespace) -> None:
    from onestyle.preview import preview

    what = preview(
        args.sources,
        args.out,
        n_images=args.images,
        n_views=args.views,
        ratios=args.ratio,
        seed=args.seed,
        size=args.size,
        parts=args.part,
        force=args.force,
        small=args.small,
    )
    say(f"{args.out} shows {what}")
