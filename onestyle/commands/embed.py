"""`onestyle embed`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from onestyle.commands.words import note, whole

if TYPE_CHECKING:
    from onestyle.data.store import Store
    from onestyle.stages.frozen import Frozen


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("what", metavar="RUN|timm:NAME|FILE", help="a run, a network of timm, a file of weights")
    add("store", nargs="?", metavar="STORE", help="whose images (the run's)")
    add("--out", type=Path, required=True, metavar="FILE", help=".npy (with a .csv) or .parquet")
    add("--new", action="store_true", help="STORE is not the run's: embed all of its images")
    add("--backbone", metavar="NAME", help="timm's name of the network that FILE is of")
    size = "side of the images in pixels (the network's)"
    add("--size", type=whole(8, 2048), metavar="S", help=size)
    add("--device", help="cpu, cuda, mps (cuda if there is one)")
    add("--force", action="store_true", help="overwrite the files")


def run(args: argparse.Namespace) -> None:
    from onestyle.data.store import open_store
    from onestyle.stages.embed import check_out, embed
    from onestyle.stages.exam import default_device
    from onestyle.stages.frozen import open_frozen, open_images

    check_out(args.out, force=args.force)
    frozen = open_frozen(args.what, backbone=args.backbone, size=args.size)
    if frozen.run and not args.new:
        store, split = open_images(frozen, args.store)
    elif args.store is None:
        raise ValueError("name the STORE whose images are to be embedded")
    else:
        store, split = open_store(args.store), None
        _refuse_targets(frozen, store)
    device = args.device or default_device()
    n = embed(frozen, store, split, args.out, device=device, force=args.force)
    note(f"{args.out}: {n:,} images of {store.name}, {frozen.width} features each")
    if n < len(store):
        note(f"{len(store) - n:,} images are in no part of the run's split and were left out")


def _refuse_targets(frozen: Frozen, store: Store) -> None:
    """A run's target images are opened by its split alone, which counts them."""
    run = frozen.run
    if run and (known := {*run.config["data"]["targets"]} & {*store.table.domains}):
        names = ", ".join(sorted(known))
        raise ValueError(f"{names}: a target of {run.path}, so not new; leave out --new")
