"""`onestyle leave-one-out`."""

from __future__ import annotations

import argparse
from pathlib import Path

from onestyle.commands.words import note, share, whole


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("recipe", metavar="RECIPE", help="data/method, as pacs/simclr")
    add("--data", metavar="STORE", help="a packed store with classes and domains")
    add("--style", choices=("bss", "fa", "none"), help="(the recipe's)")
    add("--set", action="append", default=[], metavar="FIELD=VALUE", help="change the recipe")
    add("--fractions", nargs="+", type=share, default=[1, 5, 10, 100], metavar="F",
        help="shares of the labels (.01 .05 .1 1)")  # fmt: skip
    add("--seeds", type=whole(1, 1000), metavar="N", help="of labels and head (3; camelyon17: 10)")
    add("--probe-set", action="append", default=[], metavar="FIELD=VALUE",
        help="steps, batch_size, lr, weight_decay of the probes")  # fmt: skip
    add("--out", type=Path, metavar="DIR", help="a folder for all (runs/...); go on if it is there")
    add("--force", action="store_true", help="start all runs anew")
    add("--allow-missing", action="store_true", help="evaluate although a domain lacks a class")
    add("--accelerator", default="auto", help="cpu, cuda, mps (%(default)s)")


def run(args: argparse.Namespace) -> None:
    from onestyle.recipes import override, recipe_named
    from onestyle.report.terminal import print_evaluation
    from onestyle.stages.evaluation import read_evaluation
    from onestyle.stages.leave_one_out import leave_one_out
    from onestyle.stages.pretrain import make_fabric

    settings = [*args.set, *([f"style={args.style}"] if args.style else [])]
    recipe = override(recipe_named(args.recipe), settings)
    folder = leave_one_out(
        recipe,
        args.data,
        percents=args.fractions,
        seeds=args.seeds,
        settings=args.probe_set,
        out=args.out,
        fabric=make_fabric(recipe.precision, accelerator=args.accelerator),
        force=args.force,
        allow_missing=args.allow_missing,
        say=note,
    )
    print_evaluation(read_evaluation(folder))
    note(f"{folder / 'result.json'} has all of it")
