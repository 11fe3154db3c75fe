"""`onestyle finetune`."""

from __future__ import annotations

import argparse

from onestyle.commands.probe import network_arguments, network_options
from onestyle.commands.words import note, share


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    network_arguments(parser, nargs="?")
    add("--recipe", metavar="RECIPE",
        help="learn by it, as digits/fixmatch (ERM); it has a NETWORK of its own")  # fmt: skip
    add("--fractions", nargs="+", type=share, default=[100], metavar="F",
        help="shares of the labels (1: all)")  # fmt: skip
    add("--set", action="append", default=[], metavar="FIELD=VALUE",
        help="steps, lr, precision, ... (the data set's), or fields of the recipe")  # fmt: skip


def run(args: argparse.Namespace) -> None:
    from onestyle.recipes import recipe_named
    from onestyle.report.terminal import print_evaluation
    from onestyle.stages.evaluation import read_evaluation
    from onestyle.stages.finetune import finetune

    options = network_options(args) | {"percents": args.fractions, "settings": args.set}
    options["recipe"] = recipe_named(args.recipe) if args.recipe else None
    folder = finetune(args.network, args.data, **options, say=note)
    print_evaluation(read_evaluation(folder))
    note(f"{folder / 'result.json'} has all of it")
