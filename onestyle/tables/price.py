"""What the missing cells cost: hours, from finished runs or by a short trial, and disk."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import torch
from lightning_fabric import Fabric

from onestyle.data.protocol import Split, make_split
from onestyle.data.store import Store, open_store
from onestyle.methods import Method
from onestyle.progress import clock
from onestyle.recipes import SEEN, Recipe, recipe_of
from onestyle.stages.finetune import lesson
from onestyle.stages.frozen import open_untrained
from onestyle.stages.linear import Problem, probing_of, train_probes
from onestyle.stages.pretrain import Pretraining, make_fabric
from onestyle.stream import Stream
from onestyle.tables.collect import Harvest
from onestyle.tables.plan import Job, pixels
from onestyle.tables.sheet import label_of
from onestyle.train import trial

__all__ = ["Price", "Pricing", "price_lines"]

TRIAL_PIXELS = 4e6  # of a step's views: more than that fills a CPU
TRIAL_STEPS = 100  # of probes
FORWARD = 1 / 3  # of the time of a step


@dataclass(frozen=True)
class Price:
    seconds: float = 0.0
    disk: float = 0.0  # bytes

    def __add__(self, other: Price) -> Price:
        return Price(self.seconds + other.seconds, self.disk + other.disk)


@dataclass
class Pricing:
    """Prices jobs on this machine. A method is tried once, whatever its style and target."""

    data: str  # the store's name
    harvest: Harvest
    fabric: Fabric
    say: Callable[[str], object] = lambda line: None
    tried: dict[str, tuple[float, float, int]] = field(default_factory=dict)

    @cached_property
    def store(self) -> Store:
        return open_store(self.data)

    def of(self, job: Job) -> Price:
        """Of the stages that are missing."""
        stages = self.harvest.lacks(job)
        if not stages:
            return Price()
        split = make_split(self.store.table, sources=job.sources, targets=job.targets)
        seconds, disk, width = self._rate(job, split)
        size2, how = job.recipe.view_size**2, job.protocol
        price = Price()
        if "pretrain" in stages:
            price += Price(seconds * pixels(job.recipe), disk)
        if "probe" in stages:
            n_heads = len(job.probed) * job.n_seeds
            forward = seconds * FORWARD * size2 * _n_images(split)
            price += Price(forward + how["steps"] * n_heads * self._head_step(width))
        if "finetune" in stages:
            n, learnt = len(job.finetuned) * job.n_seeds, how["steps"] * how["batch_size"] * size2
            if job.has_recipe and not job.pretrained:
                learnt = pixels(job.recipe)
            price += Price(n * seconds * (learnt + FORWARD * size2 * _n_images(split)))
        return price

    def _rate(self, job: Job, split: Split) -> tuple[float, float, int]:
        """Seconds a pixel of views, bytes a run, features; no target is opened to find out."""
        name = job.line.name if job.has_recipe else job.recipe.method
        if name not in self.tried:
            n, m = self._batch_size(job.recipe), job.recipe.labelled_batch_size
            few = {"batch_size": n, "labelled_batch_size": -(-m * n // job.recipe.batch_size)}
            recipe = replace(job.recipe, init="random", uses_target=False, **few)
            learns = job.pretrained or not job.has_recipe
            self.tried[name] = (self._unlabelled if learns else self._labelled)(recipe, job, split)
        return self.tried[name]

    def _unlabelled(self, recipe: Recipe, job: Job, split: Split) -> tuple[float, float, int]:
        made = Pretraining.plan(recipe, self.data, job.targets, job.sources, self.fabric)
        seconds = self._seen(recipe, made.devices)
        return seconds or self._try(recipe, made.method, made.stream), made.disk, made.width

    def _labelled(self, recipe: Recipe, job: Job, split: Split) -> tuple[float, float, int]:
        frozen, device = open_untrained(recipe, 0), self.fabric.device
        method, stream = lesson(recipe, frozen, self.store, split, split.labelled(1), device=device)
        return self._try(recipe, method, stream), 0.0, frozen.width

    def _seen(self, recipe: Recipe, devices: str) -> float:
        """By the finished runs of such a method and network on such devices; 0 where none is."""
        results = [found.result for found in self.harvest.found.values() if found.result]
        wanted = recipe.method, recipe.backbone, devices
        same = [
            (result["seconds"], pixels(recipe_of(result["recipe"])))
            for result in results
            if (*map(result["recipe"].get, ("method", "backbone")), result["devices"]) == wanted
        ]
        seconds, seen = map(sum, zip(*same, strict=True)) if same else (0, 1)
        return seconds / seen

    def _try(self, recipe: Recipe, method: Method, stream: Stream) -> float:
        where = f"{self.fabric.world_size} x {self.fabric.device.type}"
        self.say(f"trying {recipe.method} on {where}, to estimate its price")
        step = trial(method, stream, recipe, self.fabric)
        return step * recipe.steps / pixels(recipe)

    def _batch_size(self, recipe: Recipe) -> int:
        """As large as it need be to see what a pixel takes."""
        if self.fabric.device.type != "cpu":
            return recipe.batch_size
        image = pixels(recipe) / recipe.steps / recipe.accumulate / recipe.batch_size
        enough = 2 ** int(np.log2(max(8, TRIAL_PIXELS / image)))
        return min(recipe.batch_size, enough)

    def _head_step(self, width: int) -> float:
        """Seconds that a step of one linear head takes, among a dozen."""
        name, n_classes = f"head {width}", len(self.store.table.classes)
        if name not in self.tried:
            features, labels = torch.randn(512, width), torch.arange(512) % n_classes
            heads = [Problem(np.arange(512), seed) for seed in range(12)]
            probing = replace(probing_of(self.store.name), steps=TRIAL_STEPS)
            began = time.perf_counter()
            train_probes(features, labels, heads, n_classes, probing)
            self.tried[name] = (time.perf_counter() - began) / TRIAL_STEPS / 12, 0.0, width
        return self.tried[name][0]


def price_lines(
    jobs: Sequence[Job], harvest: Harvest, data: str, say: Callable[[str], object]
) -> Iterator[str]:
    """A line for every row that lacks something, and one for all."""
    pricing, rows = Pricing(data, harvest, make_fabric(jobs[0].recipe.precision), say), {}
    for job in jobs:
        if harvest.lacks(job):
            label = label_of(job.line) + (SEEN if job.line.uses_target else "")
            price, n = rows.get(label, (Price(), 0))
            rows[label] = price + pricing.of(job), n + 1
    for label, (price, n) in rows.items():
        yield f"  {label}: {n} missing, about {clock(price.seconds)}, {_size(price.disk)}"
    total = sum((price for price, _ in rows.values()), Price())
    where = f"on 1 x {pricing.fabric.device.type}"
    yield f"  in all about {clock(total.seconds)} {where}, {_size(total.disk)} of disk"


def _size(n_bytes: float) -> str:
    return f"{n_bytes / 1e9:.1f} GB" if n_bytes >= 1e9 else f"{n_bytes / 1e6:.0f} MB"


def _n_images(split: Split) -> int:
    return len(split.train) + len(split.val) + sum(map(split.n_target, split.targets))
