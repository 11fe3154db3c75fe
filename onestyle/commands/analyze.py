"""`onestyle analyze`."""

from __future__ import annotations

import argparse
from pathlib import Path

from onestyle.commands.words import say, whole

ANALYSES = {
    "purity": "of a feature's nearest neighbours, how many share its domain, its class?",
    "similarity": "how alike are embeddings of different images, under the run's own views?",
    "homogeneity": "do images of one prototype share a domain, a class? followed over training",
    "map": "t-SNE of features: domains in colour, classes as markers",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="what", metavar="ANALYSIS", required=True)
    for name, summary in ANALYSES.items():
        add = commands.add_parser(name, help=summary, description=summary).add_argument
        add("runs", nargs="+", metavar="RUN", help="folders of finished runs, to be shown together")
        picture = "the picture, .png .jpg .webp or .pdf; its numbers go beside it, into a .json"
        add("--out", type=Path, required=True, metavar="PICTURE", help=picture)
        add("--data", metavar="STORE", help="the runs' store, where it is not where it was")
        add("--names", nargs="+", default=[], metavar="NAME", help="of the runs (their folders')")
        add("--small", action="store_true", help="a PNG of 256 colours")
        add("--force", action="store_true", help="overwrite the picture and the .json")
        if name == "similarity":  # of images that were trained on
            continue
        per_domain = "images of a domain, at most (homogeneity 200, else 2000)"
        add("--per-domain", type=whole(1, 10**9), metavar="N", help=per_domain)
        part = "val: source validation images alone, no target is opened (%(default)s)"
        add("--part", choices=("all", "val"), default="all", help=part)


def run(args: argparse.Namespace) -> None:
    from onestyle.stages.analyze import analyze

    options = {"names": args.names, "force": args.force, "small": args.small}
    if args.what != "similarity":
        options |= {"per_domain": args.per_domain, "part": args.part}
    for name, words in analyze(args.what, args.runs, args.out, args.data, **options).items():
        say(f"{name}: {words}")
    say(f"{args.out} shows it, {args.out.with_suffix('.json')} has the numbers")
