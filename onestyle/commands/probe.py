"""`onestyle probe`."""

from __future__ import annotations

import argparse
from pathlib import Path

from onestyle.commands.words import note, share, whole


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    network_arguments(parser)
    add("--fractions", nargs="+", type=share, default=[1, 5, 10, 100], metavar="F",
        help="shares of the labels (.01 .05 .1 1)")  # fmt: skip
    add("--set", action="append", default=[], metavar="FIELD=VALUE",
        help="steps, batch_size, lr, weight_decay, eps (the data set's)")  # fmt: skip
    add("--quick", action="store_true", help="nearest neighbours and logistic regression instead")
    add(
        "--oracle", action="store_true", help="also what choosing by the targets would give, marked"
    )


def network_arguments(parser: argparse.ArgumentParser, **options) -> None:
    """What is evaluated, on which images, how often."""
    add = parser.add_argument
    what = "a RUN's folder, timm:NAME, random:NAME or a file"
    add("network", metavar="NETWORK", help=what, **options)
    add("--data", metavar="STORE", help="a packed store, or digits (a run's own)")
    add("--targets", nargs="+", default=[], metavar="NAME", help="the unseen domains (a run's own)")
    add("--sources", nargs="+", default=[], metavar="NAME", help="by default all others")
    add("--seeds", type=whole(1, 1000), metavar="N", help="of labels and head (3; camelyon17: 10)")
    add("--backbone", metavar="NAME", help="timm's name of the network in a file of weights")
    add("--size", type=whole(8, 2048), metavar="S", help="side of the images in pixels")
    add("--device", help="cpu, cuda, mps (cuda if there is one)")
    add("--out", type=Path, metavar="DIR", help="the evaluation's folder (within the run's)")
    add("--force", action="store_true", help="overwrite an evaluation")
    add("--allow-missing", action="store_true", help="evaluate although a domain lacks a class")


def network_options(args: argparse.Namespace) -> dict:
    names = ("targets", "sources", "seeds", "device", "out", "force", "allow_missing")
    network = {"backbone": args.backbone, "size": args.size}
    return {**{name: getattr(args, name) for name in names}, "network": network}


def run(args: argparse.Namespace) -> None:
    from onestyle.report.terminal import print_evaluation
    from onestyle.stages.evaluation import read_evaluation
    from onestyle.stages.probe import probe
    from onestyle.stages.quick import quick_looks

    options = network_options(args) | {"percents": args.fractions}
    if args.quick:
        folders = quick_looks(args.network, args.data, **options)
    else:
        more = {"settings": args.set, "oracle": args.oracle}
        folders = [probe(args.network, args.data, **options, **more)]
    for folder in folders:
        print_evaluation(read_evaluation(folder))
        note(f"{folder / 'result.json'} has all of it")
