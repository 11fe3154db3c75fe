"""`onestyle table`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from onestyle.commands.words import note, say, whole

if TYPE_CHECKING:
    from onestyle.report.tables import Table
    from onestyle.tables.collect import Harvest
    from onestyle.tables.plan import Ask, Job

FORMATS = ("md", "tex", "csv", "html")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add, several = parser.add_argument, {"nargs": "+", "default": [], "metavar": "NAME"}
    add("name", metavar="TABLE", help="pacs, domainnet, camelyon17, ablation, batch-size or digits")
    add("--data", metavar="STORE", help="a packed store (default: the embedded digits, for theirs)")
    add("--recipes", metavar="FOLDER", help="as pacs-small (the table's own: the paper's)")
    add("--runs", type=Path, default=Path("runs"), metavar="DIR", help="of runs (%(default)s)")
    add("--methods", **several, help="these rows alone")
    add("--styles", **several, help="these rows alone: none, fa, bss")
    add("--targets", **several, help="these unseen domains alone")
    percents = {"nargs": "+", "type": whole(1, 100), "default": [], "metavar": "PERCENT"}
    add("--fractions", **percents, help="of the labels (1 5 10 100)")
    seeds = {"nargs": "+", "type": whole(0, 10**6), "default": [0], "metavar": "SEED"}
    add("--seeds", **seeds, help="of pretraining (0)")
    probes = "each evaluation is done with the seeds 0..N-1 (the paper's number of runs)"
    add("--probe-seeds", type=whole(1, 1000), metavar="N", help=probes)
    add("--set", action="append", default=[], metavar="FIELD=VALUE", help="change every recipe")
    add("--no-trial", action="store_true", help="do not try the methods to estimate their price")
    add("--format", choices=FORMATS, help="(that of --out, else md)")
    add("--out", type=Path, metavar="FILE", help="where the table goes (default: to the terminal)")
    add("--force", action="store_true", help="overwrite the file")


def run(args: argparse.Namespace) -> int:
    from onestyle.tables.collect import collect
    from onestyle.tables.layout import default_data, layout_named, open_data
    from onestyle.tables.plan import plan
    from onestyle.tables.sheet import make_table

    layout, ask, kind = layout_named(args.name), _ask(args), _kind(args)
    layout = layout.with_recipes(args.recipes) if args.recipes else layout
    jobs, data = plan(layout, ask), args.data or default_data(layout)
    store = open_data(layout, data) if data else None
    harvest = collect(args.runs, jobs, store)
    _show_plan(args, jobs, harvest, data)
    _show_table(args, make_table(layout, ask, jobs, harvest), kind)
    for line in harvest.problems:
        note(f"onestyle: error: {line}")
    return 2 if harvest.problems else 0


def _ask(args: argparse.Namespace) -> Ask:
    from onestyle.tables.plan import Ask

    return Ask(
        methods=tuple(args.methods),
        styles=tuple(args.styles),
        targets=tuple(args.targets),
        fractions=tuple(sorted({*args.fractions})),
        seeds=tuple(sorted({*args.seeds})),
        n_probes=args.probe_seeds,
        settings=tuple(args.set),
    )


def _kind(args: argparse.Namespace) -> str:
    """The format, once it is sure that it can be written where it shall."""
    kind = args.format or (args.out.suffix[1:] if args.out else "md")
    if kind not in FORMATS:
        raise ValueError(f"{args.out}: its ending must be one of {', '.join(FORMATS)}, or --format")
    if args.out and args.out.exists() and not args.force:
        raise ValueError(f"{args.out} exists; --force overwrites it")
    if args.out and not args.out.absolute().parent.is_dir():
        raise ValueError(f"{args.out.parent} is not a folder")
    return kind


def _show_plan(
    args: argparse.Namespace, jobs: list[Job], harvest: Harvest, data: str | None
) -> None:
    """How many cells there are and, unless they are run now, what the missing ones cost."""
    missing = harvest.missing(jobs)
    begun = sum(harvest.of(job) is not None for job in missing)
    note(
        f"{args.name}: {len(jobs)} cells in {args.runs}, {len(jobs) - len(missing)} done, "
        f"{begun} begun, {len(missing) - begun} not begun"
    )
    if harvest.n_others:
        note(f"{harvest.n_others} other runs in {args.runs} belong to no cell of it")
    if missing and not data:
        note("--data STORE tells the hours and the disk that the missing ones take")
    elif missing and data and not args.no_trial:
        from onestyle.tables.price import price_lines

        for line in price_lines(jobs, harvest, data, note):
            note(line)


def _show_table(args: argparse.Namespace, table: Table, kind: str) -> None:
    from onestyle.checkpoint import write_whole
    from onestyle.report.tables import FORMATS

    text = FORMATS[kind](table)
    if args.out is None:
        say(text.rstrip("\n"))
        return
    write_whole(args.out, lambda file: file.write(text.encode()))
    note(f"the table is in {args.out}")
