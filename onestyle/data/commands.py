"""`onestyle data`: pack, check, show and split. Light to import; the work imports what it needs."""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

RESIZE = ("stretch", "crop", "pad")
NAMES = ("pacs", "domainnet", "domainnet-b", "camelyon17")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="what", metavar="COMMAND", required=True)
    for name, (summary, arguments, _) in COMMANDS.items():
        arguments(commands.add_parser(name, help=summary, description=summary).add_argument)


def run(args: argparse.Namespace) -> None:
    COMMANDS[args.what][2](args)


def _pack_arguments(add) -> None:
    add("source", help="a folder, a .csv or .jsonl list, .parquet, hub:OWNER/NAME[@REVISION]")
    add("out", type=Path, metavar="STORE", help="the folder to make")
    add("--as", dest="dataset", choices=NAMES, help="its classes, names and published counts")
    add("--size", type=int, help="side in pixels (the data set's own, else 256)")
    add("--resize", choices=RESIZE, default="stretch", help="of what is not square (%(default)s)")
    add("--levels", help="what the first folders mean: domain/class, split/class, domain or ''")
    add(
        "--column",
        action="append",
        default=[],
        metavar="ROLE=NAME",
        help="the column that holds path, domain, class or split; may be repeated",
    )
    add("--skip-bad", action="store_true", help="leave out what is bad, and record it")
    add("--force", action="store_true", help="overwrite the store")


def _pack(args: argparse.Namespace) -> None:
    from onestyle.data.datasets import DATASETS
    from onestyle.data.packing import check_store, pack
    from onestyle.data.sources import WildsSource, find_source
    from onestyle.data.store import open_store
    from onestyle.progress import progress
    from onestyle.signals import tidily

    columns = _columns(args.column)
    check_store(args.out, 256 if args.size is None else args.size, args.resize, args.force)
    started = time.monotonic()
    source = find_source(args.source, levels=args.levels, columns=columns)
    name = args.dataset or ("camelyon17" if isinstance(source, WildsSource) else "")
    size, options = args.size or 256, {"skip_bad": args.skip_bad, "force": args.force}
    if name:
        size = args.size or DATASETS[name].size
        options |= {"dataset": name, "adapt": DATASETS[name].adapter(Path(args.source))}
    with tidily(), progress("packing", len(source.items)) as shown:
        options |= {"progress": _teller(shown)}
        manifest = pack(source, args.out, size=size, resize=args.resize, **options)
    seconds, n = time.monotonic() - started, manifest["n"]
    print(f"{args.out}: {n:,} images of {size} px in {seconds:.0f} s ({n / seconds:,.0f} a second)")
    _print_what_was_not_packed(manifest, args.out)
    if name:
        for line in DATASETS[name].differences(open_store(args.out).table):
            print(f"not as published: {line}")


def _print_what_was_not_packed(manifest: dict, out: Path) -> None:
    if left_out := manifest["left_out"]:
        print(f"left out {len(left_out):,}, each named in {out / 'manifest.json'}")
    if others := manifest["not_of_dataset"]:
        print(f"passed over {others:,} images that are not of {manifest['dataset']}")
    if ignored := manifest["ignored"]:
        kinds = ", ".join(f"{kind} {n:,}" for kind, n in ignored.items())
        print(f"passed over {sum(ignored.values()):,} files that are no images: {kinds}")


def _columns(words: list[str]) -> dict[str, str]:
    columns = {role: name for role, _, name in (word.partition("=") for word in words)}
    if not set(columns) <= {"path", "domain", "class", "split"} or not all(columns.values()):
        raise ValueError(f"--column is path, domain, class or split = NAME, got {' '.join(words)}")
    return columns


def _teller(shown, what: str = "") -> Callable[[int, int], None]:
    """How far it is, and how fast."""

    def tell(done: int, of: int) -> None:
        shown.total = of
        shown.show(done, f"{done / max(1e-3, time.monotonic() - shown.began):,.0f}{what}/s")

    return tell


def _store_argument(add) -> None:
    add("store", help="a packed store, or digits")


def _check(args: argparse.Namespace) -> None:
    from onestyle.data.check import check
    from onestyle.progress import progress

    with progress("reading", 0) as shown:
        store, wrong, notes = check(args.store, _teller(shown, " MB"))
    print_counts(store)
    for line in notes:
        print(line)
    if wrong:
        raise ValueError(f"{args.store}: {'; '.join(wrong)}")
    print("the store is whole")


def print_counts(store) -> None:
    """Domains x classes."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table, counts = store.table, Counter()
    for (domain, label, _), n in table.counts().items():
        counts[domain, label] += n
    print(f"{store.name}: {len(store):,} images of {store.size} px")
    domains = [*table.domains, *([""] if (table.domain < 0).any() else [])]
    classes = [*table.classes, *([""] if (table.label < 0).any() else [])]
    shown = Table("domain", box=None, pad_edge=False)
    for label in [*classes[:12], *(["..."] if len(classes) > 12 else []), "all"]:
        shown.add_column(Text(label or "(none)"), justify="right")
    for domain in domains:
        cells = [f"{counts[domain, label]:,}" for label in classes[:12]]
        cells += ["..."] if len(classes) > 12 else []
        in_all = sum(counts[domain, label] for label in classes)
        shown.add_row(Text(domain or "(none)"), *cells, f"{in_all:,}")
    Console(width=200).print(shown)


def _show_arguments(add) -> None:
    _store_argument(add)
    add("--out", required=True, type=Path, help="the picture: .png .jpg .webp or .pdf")
    add("--seed", type=int, default=0, help="of the choice of images (%(default)s)")
    add("--force", action="store_true", help="overwrite the picture")


def _show(args: argparse.Namespace) -> None:
    from onestyle.data.show import compose
    from onestyle.data.store import open_store
    from onestyle.page import check_out, save

    check_out(args.out, force=args.force)
    store = open_store(args.store)
    save(compose(store, args.seed), args.out, force=args.force)
    print(f"{args.out} shows images of every domain and class of {store.name}")


def _split_arguments(add) -> None:
    _store_argument(add)
    add("--targets", nargs="+", default=[], metavar="DOMAIN", help="the unseen domains")
    add("--sources", nargs="+", default=[], metavar="DOMAIN", help="by default all others")
    add("--draw", type=int, default=0, help="the seed of the labels (%(default)s)")
    add("--out", type=Path, help="write the names in every part as .json")
    add("--force", action="store_true", help="overwrite the file")


def _split(args: argparse.Namespace) -> None:
    from onestyle.data.protocol import FRACTIONS, make_split
    from onestyle.data.store import open_store
    from onestyle.page import check_place

    if args.out:
        check_place(args.out, force=args.force)
    store = open_store(args.store)
    split = make_split(store.table, sources=args.sources, targets=args.targets, draw=args.draw)
    parts = {"train": split.train, "val": split.val}
    if split.has_labels:
        parts |= {f"labels {percent}%": split.labelled(percent) for percent in FRACTIONS}
    for part, rows in parts.items():
        domains = store.table.domain[rows]
        each = ", ".join(
            f"{name} {(domains == k).sum():,}"
            for k, name in enumerate(store.table.domains)
            if (domains == k).any()
        )
        print(f"{part}: {len(rows):,}" + (f" ({each})" if each else ""))
    for name in split.targets:
        print(f"target {name}: {split.n_target(name):,}")
    if split.n_unused:
        print(f"in no part: {split.n_unused:,}")
    print(f"hash {split.hash}")
    if args.out:
        from onestyle.checkpoint import write_whole

        names = {part: [store.table.path[row] for row in rows] for part, rows in parts.items()}
        about = {"store": store.name, "sources": split.sources, "targets": split.targets}
        about |= {"draw": args.draw, "hash": split.hash}
        text = json.dumps(about | names, indent=1, ensure_ascii=False) + "\n"
        write_whole(args.out, lambda file: file.write(text.encode()))


COMMANDS = {
    "pack": ("turn images from anywhere into a store", _pack_arguments, _pack),
    "check": ("counts, checksums, published numbers", _store_argument, _check),
    "show": ("a picture of each domain and class", _show_arguments, _show),
    "split": ("who sees what: sources, targets, fractions of labels", _split_arguments, _split),
}
