"""`onestyle predict`."""

from __future__ import annotations

import argparse
from pathlib import Path

from onestyle.commands.words import note, share, whole


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("network", metavar="RUN", help="a run that was probed; with --probe any network")
    add("images", nargs="+", type=Path, metavar="IMAGES", help="image files, folders of them")
    add("--out", type=Path, required=True, metavar="FILE", help="path, class, probability as .csv")
    add("--fraction", type=share, metavar="F", help="the heads' share of the labels (the largest)")
    add("--seed", type=whole(0, 999), metavar="S", help="one head (the mean of all seeds)")
    add("--probabilities", action="store_true", help="a column for each class")
    add("--probe", type=Path, metavar="DIR", help="the evaluation's folder (the run's)")
    add("--backbone", metavar="NAME", help="timm's name of the network in a file of weights")
    add("--size", type=whole(8, 2048), metavar="S", help="side of the images, as it was probed")
    add("--device", help="cpu, cuda, mps (cuda if there is one)")
    add("--skip-bad", action="store_true", help="leave out and name what cannot be read")
    add("--force", action="store_true", help="overwrite the file")


def run(args: argparse.Namespace) -> None:
    from onestyle.page import check_place

    check_place(args.out, force=args.force)
    from onestyle.stages.predict import predict, write_labels

    labelled = predict(
        args.network,
        args.images,
        probe=args.probe,
        percent=args.fraction,
        seed=args.seed,
        network={"backbone": args.backbone, "size": args.size},
        device=args.device,
        skip_bad=args.skip_bad,
    )
    write_labels(args.out, labelled, every=args.probabilities)
    note(f"{args.out}: {len(labelled.paths):,} images, by heads of {labelled.heads}")
    for problem in labelled.bad:
        note(f"left out {problem.path}: {problem.reason}")
