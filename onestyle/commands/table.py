"""`onestyle table`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from onestyle.commands.words import note, say, share, whole

if TYPE_CHECKING:
    from onestyle.report.tables import Table
    from onestyle.tables.collect import Harvest
    from onestyle.tables.plan import Ask, Job

N_OTHERS = 5  # that are named
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
    shares = {"nargs": "+", "type": share, "default": [], "metavar": "F"}
    add("--fractions", **shares, help="shares of the labels (the table's: .01 .05 .1 1)")
    seeds = {"nargs": "+", "type": whole(0, 10**6), "default": [0], "metavar": "SEED"}
    add("--seeds", **seeds, help="of pretraining (0)")
    probes = "each evaluation is done with the seeds 0..N-1 (the paper's number of runs)"
    add("--probe-seeds", type=whole(1, 1000), metavar="N", help=probes)
    evaluation = "change every probe and fine-tuning: steps, batch_size, lr, weight_decay"
    add("--probe-set", action="append", default=[], metavar="FIELD=VALUE", help=evaluation)
    add("--set", action="append", default=[], metavar="FIELD=VALUE", help="change every recipe")
    add("--run", action="store_true", help="carry out the cells that are missing")
    add("--jobs", type=whole(1, 1024), metavar="N", help="cells at once (one for each GPU, or 1)")
    slurm = "each cell a job of SLURM; submitit's parameters, as slurm_partition=gpu"
    add("--slurm", nargs="*", metavar="KEY=VALUE", help=slurm)
    add("--no-trial", action="store_true", help="do not try the methods to estimate their price")
    add("--format", choices=FORMATS, help="(that of --out, else md)")
    add("--out", type=Path, metavar="FILE", help="where the table goes (default: to the terminal)")
    add(
        "--picture", type=Path, metavar="FILE", help="of batch-size: accuracy over N for each style"
    )
    kept = "copy the small files of the cells there: results, recipes, curves, no weights"
    add("--keep", type=Path, metavar="DIR", help=kept)
    add("--force", action="store_true", help="overwrite these files")


def run(args: argparse.Namespace) -> int:
    from onestyle.tables.collect import collect
    from onestyle.tables.layout import default_data, layout_named, open_data
    from onestyle.tables.plan import plan
    from onestyle.tables.sheet import make_table

    layout, ask, kind = layout_named(args.name), _ask(args), _kind(args)
    layout = layout.with_recipes(args.recipes) if args.recipes else layout
    jobs, data = plan(layout, ask), args.data or default_data(layout)
    store = open_data(layout, data) if data else None
    harvest, n_failed = collect(args.runs, jobs, store), 0
    _show_plan(args, jobs, harvest, data)
    if args.run and harvest.missing(jobs):
        n_failed = _work(args, jobs, harvest, data)
        harvest = collect(args.runs, jobs, store)
    _show_table(args, make_table(layout, ask, jobs, harvest), kind)
    if args.keep:
        from onestyle.tables.keep import keep

        note(f"{args.keep} keeps {keep(harvest.found.values(), args.keep)} runs")
    for line in harvest.problems:
        note(f"onestyle: error: {line}")
    return 2 if harvest.problems else int(n_failed > 0)


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
        evaluation=tuple(args.probe_set),
    )


def _kind(args: argparse.Namespace) -> str:
    """The format, once it is sure that all can be written where it shall."""
    from onestyle.page import check_out, check_place

    kind = args.format or (args.out.suffix[1:] if args.out else "md")
    if kind not in FORMATS:
        raise ValueError(f"{args.out}: its ending must be one of {', '.join(FORMATS)}, or --format")
    if args.out:
        check_place(args.out, force=args.force)
    if args.picture and args.name != "batch-size":
        raise ValueError(f"--picture is of batch-size, not of {args.name}")
    if args.picture:
        check_out(args.picture, force=args.force)
    return kind


def _show_plan(
    args: argparse.Namespace, jobs: list[Job], harvest: Harvest, data: str | None
) -> None:
    """How many cells there are and, unless they are run now, what the missing ones cost."""
    missing = harvest.missing(jobs)
    begun = sum(harvest.of(job) is not None for job in missing)
    cells = "1 cell" if len(jobs) == 1 else f"{len(jobs)} cells"
    note(
        f"{args.name}: {cells} in {args.runs}, {len(jobs) - len(missing)} done, "
        f"{begun} begun, {len(missing) - begun} not begun"
    )
    for other in harvest.others[:N_OTHERS]:
        note(f"of no cell of this table: {other}")
    if more := harvest.others[N_OTHERS:]:
        note(f"of no cell of this table: {len(more)} more in {args.runs}")
    if missing and not data:
        note("--data STORE tells the hours and the disk that the missing ones take")
    elif missing and data and not (args.run or args.no_trial):
        from onestyle.tables.price import price_lines

        for line in price_lines(jobs, harvest, data, note):
            note(line)


def _work(args: argparse.Namespace, jobs: list[Job], harvest: Harvest, data: str | None) -> int:
    """Carry out what is missing, a line a cell; how many failed."""
    if not data:
        raise ValueError(f"--data must name a store of {args.name}; onestyle data pack makes one")
    import torch

    from onestyle.tables.work import run_here, run_on_cluster, tasks_of

    tasks, states = tasks_of(jobs, harvest, args.runs, data), []
    if args.slurm is not None:
        outcomes = run_on_cluster(tasks, args.slurm)
    else:
        outcomes = run_here(tasks, args.jobs or max(1, torch.cuda.device_count()))
    for outcome in outcomes:
        states.append(outcome.state)
        note(f"cell {len(states)} of {len(tasks)} {outcome}")
    return states.count("failed")


def _show_table(args: argparse.Namespace, table: Table, kind: str) -> None:
    from onestyle.checkpoint import write_whole
    from onestyle.report.tables import FORMATS

    text = FORMATS[kind](table)
    if args.out:
        write_whole(args.out, lambda file: file.write(text.encode()))
        note(f"{args.out} has the table")
    else:
        say(text.rstrip("\n"))
    if args.picture:
        from onestyle.page import save
        from onestyle.tables.sweep import draw

        save(draw(table), args.picture, force=args.force)
        note(f"{args.picture} shows it")
