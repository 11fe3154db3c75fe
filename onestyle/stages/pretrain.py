"""Pretraining without labels: a recipe, a store, the domains that stay unseen -> a run's folder."""

from __future__ import annotations

import copy
import inspect
import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lightning_fabric import Fabric
from lightning_fabric.strategies.ddp import DDPStrategy
from torch.nn.parallel import DistributedDataParallel

from onestyle.analysis.neighbours import agreement, knn_accuracy
from onestyle.checkpoint import save_weights
from onestyle.data.loader import Loader
from onestyle.data.protocol import Pool, Split, UnlabelledTargets, make_split
from onestyle.data.store import Store, open_store
from onestyle.methods import Method, method_named
from onestyle.nn.backbone import make_backbone
from onestyle.progress import clock
from onestyle.recipes import Recipe, plain
from onestyle.run import Run, open_run, read_rows
from onestyle.stages.embed import features
from onestyle.stream import Stream
from onestyle.train import fit, trial

__all__ = ["Pretraining", "describe_data", "make_fabric", "make_method", "pretrain", "store_of"]

N_MONITOR = 2000  # source validation images that are looked at
N_NEIGHBOURS = 20  # of each, at most
LOOKS = {  # what is measured, and by which labels
    "val_knn": ("classes",),
    "val_across": ("classes", "domains"),
    "val_purity": ("domains",),
}


def pretrain(
    recipe: Recipe,
    store: Path | str | None = None,
    *,
    targets: Iterable[str] = (),
    sources: Iterable[str] = (),
    out: Path | str | None = None,
    fabric: Fabric | None = None,
    force: bool = False,
    say: Callable[[str], object] = lambda line: None,
) -> Run:
    """Carry out the recipe, or go on with it where `out` has been interrupted; the finished run."""
    fabric = fabric or make_fabric(recipe.precision)
    job = Pretraining.plan(recipe, store, targets, sources, fabric)
    out = Path(out) if out else job.default_out()
    with open_run(out, job.config, force=force) if fabric.is_global_zero else nullcontext():
        fabric.barrier()
        run = Run(out, job.config)
        if fabric.is_global_zero:
            run.remember(job.store)
        job.execute(run, say if fabric.is_global_zero else lambda line: None)
        return run


@dataclass
class Pretraining:
    """Everything that a pretraining needs, made and checked before it begins."""

    recipe: Recipe
    store: Store
    split: Split
    method: Method
    stream: Stream
    fabric: Fabric
    config: dict[str, Any]

    @classmethod
    def plan(
        cls,
        recipe: Recipe,
        store: Path | str | None,
        targets: Iterable[str],
        sources: Iterable[str],
        fabric: Fabric,
    ) -> Pretraining:
        opened = open_store(store or store_of(recipe))
        split = make_split(opened.table, sources=sources, targets=targets)
        method = make_method(recipe, opened, split)
        loader = Loader(
            split.unlabelled(opened, uses_target=recipe.uses_target),
            recipe.batch_size,
            recipe.seed,
            recipe.balance,
            rank=fabric.global_rank,
            world_size=fabric.world_size,
        )
        stream = Stream(loader, recipe.plan(), fabric.device, recipe.seed, method.needs)
        config = {"recipe": plain(recipe), "data": describe_data(opened, split)}
        return cls(recipe, opened, split, method, stream, fabric, config)

    def execute(self, run: Run, say: Callable[[str], object]) -> None:
        state = run.load()
        if state and state["step"] == self.recipe.steps and run.result.exists():
            say(f"{run.path} is finished; --force starts it anew")
            return
        if isinstance(self.stream.loader.pool, UnlabelledTargets):
            self.stream.loader.pool.open(run.openings)
        say(self.cost(run, state["step"] if state else 0))
        there = _labels(self.watched)
        for name, kinds in LOOKS.items():
            if missing := [f"two {kind} or more" for kind in kinds if kind not in there]:
                what = f"source validation images of {' and '.join(missing)}, with their names"
                say(f"there will be no {name}: it needs {what}")
        began = time.monotonic()
        options = {"fabric": self.fabric, "run": run, "monitor": self.look}
        row = fit(self.method, self.stream, self.recipe, **options)
        seconds = time.monotonic() - began + (state["seconds"] if state else 0)
        if self.fabric.is_global_zero:
            about = {"timm": self.recipe.backbone, "num_features": str(self.width)}
            save_weights(run.backbone, self.method.backbone, about)
            if (tuned := self.method.tuned()) is not self.method.backbone:
                save_weights(run.tuned, tuned, about)
            opened = {"target_openings": len(read_rows(run.openings))}
            run.finish(self.result(row, seconds) | opened)

    @property
    def width(self) -> int:
        return int(self.method.backbone.num_features)  # pyright: ignore

    def cost(self, run: Run, start: int) -> str:
        """What is to come: steps, images, time by a trial on a copy, disk."""
        recipe, left = self.recipe, self.recipe.steps - start
        seconds = trial(copy.deepcopy(self.method), self.stream, recipe, self.fabric)
        images = left * recipe.batch_size * recipe.accumulate
        begin = f"from step {start:,} on, " if start else ""
        return (
            f"{run.path}: {begin}{left:,} steps, {images:,} images "
            f"({images / len(self.stream.loader.pool):,.0f} times each) in "
            f"{self.stream.n_views} views, about {clock(left * seconds)} "
            f"on {self.devices}, {self.disk / 1e6:,.0f} MB of disk"
        )

    @property
    def devices(self) -> str:
        return f"{self.fabric.world_size} x {self.fabric.device.type}"

    @property
    def disk(self) -> int:
        """Bytes of checkpoints and snapshots, at most."""
        recipe = self.recipe
        weights = sum(x.nbytes for x in self.method.state_dict().values())
        trained = sum(p.nbytes for p in self.method.parameters() if p.requires_grad)
        moments = 2 if recipe.optimizer in ("adam", "adamw") else 1
        kept = -(-recipe.steps // recipe.snapshot_every) if recipe.snapshot_every else 0
        return 2 * (weights + moments * trained) + kept * weights  # two: while one is replaced

    def look(self, method: Method) -> dict[str, float]:
        """Of source validation images, leaving each out: k-NN accuracy, the same with neighbours of
        other domains alone, domain purity."""
        pool = self.watched
        there = _labels(pool)
        if not there:
            return {}
        k, k_purity = _n_neighbours(there), min(N_NEIGHBOURS, len(pool) - 1)
        kind, size = next(method.parameters()).dtype, self.recipe.view_size
        z = features(lambda x: method.features(x.to(kind)), pool, size, self.fabric.device)
        measures: dict[str, Callable[..., float]] = {
            "val_knn": lambda classes: knn_accuracy(z, classes, k),
            "val_across": lambda classes, domains: knn_accuracy(z, classes, k, across=domains),
            "val_purity": lambda domains: agreement(z, domains, (k_purity,))[k_purity],
        }
        return {
            name: measures[name](*(there[kind] for kind in kinds))
            for name, kinds in LOOKS.items()
            if there.keys() >= {*kinds}
        }

    @property
    def watched(self) -> Pool:
        rows = self.split.val
        if len(rows) > N_MONITOR:
            rows = np.sort(np.random.default_rng(0).choice(rows, N_MONITOR, replace=False))
        return Pool(self.store, rows)

    def result(self, row: dict[str, float], seconds: float) -> dict[str, Any]:
        recipe, n_images = self.recipe, self.recipe.steps * self.recipe.batch_size
        return {
            "stage": "pretrain",
            **self.config,
            "seeds": {"pretraining": recipe.seed},
            "selector": "last step",
            "images_seen": n_images * recipe.accumulate,
            "views_seen": n_images * recipe.accumulate * self.stream.n_views,
            "parameters": sum(p.numel() for p in self.method.backbone.parameters()),
            "seconds": round(seconds, 1),
            "devices": self.devices,
            "last": row,
        }

    def default_out(self) -> Path:
        recipe = self.recipe
        unseen = "".join(f"-{name}" for name in self.split.targets)
        return Path(
            "runs", f"{self.store.name}-{recipe.method}-{recipe.style}{unseen}-s{recipe.seed}"
        )


def make_fabric(
    precision: str = "32-true",
    *,
    devices: int | str = 1,
    nodes: int = 1,
    accelerator: str = "auto",
) -> Fabric:
    """One device, or DDP over several: launched by torchrun or SLURM, or by fabric itself."""
    if precision == "16-mixed" and (accelerator == "cpu" or not torch.accelerator.is_available()):
        raise ValueError("precision 16-mixed needs a GPU; take bf16-mixed")
    if "LOCAL_WORLD_SIZE" in os.environ:  # torchrun has decided
        devices = int(os.environ["LOCAL_WORLD_SIZE"])
        nodes = int(os.environ["WORLD_SIZE"]) // devices
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)
    several = nodes > 1 or devices not in (1, "1")
    strategy = DDPStrategy(**_BUFFERS_STAY) if several else "auto"
    fabric = Fabric(
        accelerator=accelerator,
        devices=devices,
        num_nodes=nodes,
        precision=precision,  # pyright: ignore
        strategy=strategy,
    )
    fabric.launch()
    return fabric


# Statistics of the global batch are equal everywhere. torch 2.12 gave the option another name.
_NAMES = inspect.signature(DistributedDataParallel.__init__).parameters
_NAME = "forward_sync_buffers" if "forward_sync_buffers" in _NAMES else "broadcast_buffers"
_BUFFERS_STAY: dict[str, Any] = {_NAME: False}


def _labels(pool: Pool) -> dict[str, torch.Tensor]:
    """What neighbours can be compared by: labels that every image has, of two kinds or more."""
    both = {"classes": pool.labels, "domains": pool.domains}
    return {
        name: torch.from_numpy(x) for name, x in both.items() if len(x) and 0 <= x.min() < x.max()
    }


def _n_neighbours(there: Mapping[str, torch.Tensor]) -> int:
    """That vote on a class: at most as many as it has images in a domain, on average. Else features
    that know class and domain perfectly would be outvoted by the other classes of the domain."""
    groups = torch.stack([*there.values()], 1)
    return max(1, min(N_NEIGHBOURS, len(groups) // len(groups.unique(dim=0))))


def store_of(recipe: Recipe) -> str:
    """The store that a recipe has without being told."""
    if recipe.data != "digits":
        raise ValueError(f"--data must name a store of {recipe.data}; onestyle data pack makes one")
    return recipe.data


def make_method(recipe: Recipe, store: Store, split: Split) -> Method:
    """The recipe's method, as training begins with it."""
    needs = method_named(recipe.method).needs
    if "label" in needs:
        raise ValueError(
            f"{recipe.method} learns from labels: onestyle finetune does that (--recipe)"
        )
    n_domains = len(np.unique(store.table.domain[split.train]))
    if "domain" in needs and (not store.table.domains or n_domains < 2):
        raise ValueError(f"{recipe.method} needs images of two domains or more, with their names")
    torch.manual_seed(recipe.seed)
    options = {"init": recipe.init, "options": recipe.backbone_options}
    backbone = make_backbone(recipe.backbone, recipe.view_size, **options)
    return recipe.make_method(backbone, n_domains=n_domains, n_classes=len(store.table.classes))


def describe_data(store: Store, split: Split) -> dict[str, Any]:
    """Which images these are, and who sees what."""
    known = {key: store.manifest[key] for key in ("pixels_sha256",) if key in store.manifest}
    about = {"store": store.name, "n": len(store), "size": store.size, **known}
    return about | {
        "sources": list(split.sources),
        "targets": list(split.targets),
        "split": split.hash,
    }
