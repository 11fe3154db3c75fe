"""`onestyle pretrain`."""

from __future__ import annotations

import argparse
from pathlib import Path

from onestyle.commands.words import note


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("recipe", metavar="RECIPE", help="data/method, as pacs/simclr; `list` names all")
    add("--data", metavar="STORE", help="a packed store (default: the embedded digits, for theirs)")
    add("--targets", nargs="+", default=[], metavar="NAME", help="the domains that stay unseen")
    add("--sources", nargs="+", default=[], metavar="NAME", help="by default all others")
    add("--style", choices=("bss", "fa", "none"), help="(the recipe's)")
    add("--set", action="append", default=[], metavar="FIELD=VALUE", help="change the recipe")
    add("--out", type=Path, metavar="DIR", help="the run's folder (runs/...); go on if it is there")
    add("--force", action="store_true", help="start the run anew")
    add("--print-recipe", action="store_true", help="print the resolved recipe and end")
    add("--devices", default="1", metavar="N", help="processes a machine, or auto (%(default)s)")
    add("--nodes", type=int, default=1, metavar="N", help="machines (%(default)s)")
    add("--accelerator", default="auto", help="cpu, cuda, mps (%(default)s)")


def run(args: argparse.Namespace) -> None:
    from onestyle.recipes import RECIPES, override, plain, recipe_named

    if args.recipe == "list":
        print("\n".join(RECIPES))
        return
    settings = [*args.set, *([f"style={args.style}"] if args.style else [])]
    recipe = override(recipe_named(args.recipe), settings)
    if args.print_recipe:
        import yaml

        print(yaml.safe_dump(plain(recipe), sort_keys=False), end="")
        return
    from onestyle.stages.pretrain import make_fabric, pretrain

    devices = int(args.devices) if args.devices.isdecimal() else args.devices
    options = {"devices": devices, "nodes": args.nodes, "accelerator": args.accelerator}
    fabric = make_fabric(recipe.precision, **options)
    protocol = {"targets": args.targets, "sources": args.sources}
    options = {"out": args.out, "fabric": fabric, "force": args.force, "say": note}
    done = pretrain(recipe, args.data, **protocol, **options)
    if fabric.is_global_zero:
        last = done.read_result()["last"]
        found = [f"{name} {value:.3f}" for name, value in last.items() if name.startswith("val_")]
        note(f"{done.backbone}: loss {last['loss']:.4f}" + "".join(f", {one}" for one in found))
