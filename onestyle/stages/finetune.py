"""Learning from labels: the whole network on a fraction of them, by the loop of pretraining.

    folder = finetune("runs/NAME")                                           # all labels, 3 seeds
    folder = finetune("random:resnet18", "stores/pacs", targets=["sketch"])  # ERM, the baseline
    folder = finetune(recipe=recipe_named("digits/fixmatch"), targets=["photo"], percents=[5])

FOLDER/p100-s0/  a fraction and a seed: a run that goes on where it ended, and then its evaluation
"""

from __future__ import annotations

import copy
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lightning_fabric import Fabric

from onestyle.checkpoint import save_weights
from onestyle.data.loader import Loader
from onestyle.data.protocol import Pool, Rows, Split, UnlabelledTargets
from onestyle.data.store import Store
from onestyle.geometry import Geometry
from onestyle.methods import Method, method_named
from onestyle.optim import Training
from onestyle.progress import clock
from onestyle.recipes import Recipe, changed, override, plain
from onestyle.run import Run, open_run
from onestyle.stages.embed import features
from onestyle.stages.evaluation import Predicted, read_evaluation, write_evaluation
from onestyle.stages.exam import Draw, Exam, draws_of, n_seeds
from onestyle.stages.frozen import Frozen, open_frozen, open_untrained
from onestyle.stages.linear import probing_of
from onestyle.stages.pretrain import make_fabric, store_of
from onestyle.stream import Stream
from onestyle.train import fit, trial
from onestyle.views import NO_COLOUR, ViewPlan

__all__ = ["erm", "finetune", "labelled_views", "lesson", "training_of"]

CROP = Geometry(scale=(0.7, 1.0), rotation=0, cutout=0)
GEOMETRY = {  # tissue has no upright, digits have no mirror image
    "camelyon17": Geometry(scale=(1, 1), aspect=(1, 1), vertical_flip=0.5, rotation=0, cutout=0),
    "digits": Geometry(scale=(0.7, 1.0), horizontal_flip=0, rotation=0, cutout=0),
}
APART = 2**32  # added to the seed of unlabelled images: nothing of them is drawn as of the labelled


def training_of(data: str) -> Training:
    """The paper's for a probe, for the whole network: Adam, cosine to 0, no warm-up."""
    probing = probing_of(data)
    return Training(
        steps=probing.steps,
        batch_size=probing.batch_size,
        optimizer="adam",
        lr=probing.lr,
        weight_decay=probing.weight_decay,
        warmup=0.0,
        monitor_every=0,
    )


def erm(data: str, frozen: Frozen, training: Training) -> Recipe:
    """What is done without a recipe: one view, a crop and a flip, of the image as it is."""
    return Recipe(
        **vars(training),
        data=data,
        method="erm",
        backbone=frozen.timm,
        views=f"1x{frozen.size}",
        style="none",
        geometry=GEOMETRY.get(data, CROP),
        colour=NO_COLOUR,
    )


def labelled_views(recipe: Recipe) -> ViewPlan:
    """The recipe's; where it has unlabelled images too, its weak ones."""
    plan = recipe.plan()
    if "unlabelled" not in method_named(recipe.method).needs:
        return plan
    return replace(plan, groups=tuple(views for views in plan.groups if views.style == "weak"))


def lesson(
    recipe: Recipe, frozen: Frozen, store: Store, split: Split, rows: Rows, *, device: torch.device
) -> tuple[Method, Stream]:
    """The recipe's method on the network, and its batches: of the labels of `rows` alone."""
    seed, normal = recipe.seed, {"mean": frozen.mean, "std": frozen.std}
    torch.manual_seed(seed)
    n_domains, n_classes = len(np.unique(store.table.domain[split.train])), len(store.table.classes)
    network = frozen.network.requires_grad_(True)
    method = recipe.make_method(network, n_domains=n_domains, n_classes=n_classes)
    both = "unlabelled" in method.needs

    size = recipe.labelled_batch_size if both else recipe.batch_size
    loader = Loader(Pool(store, rows), size, seed, recipe.balance, replacement=True)
    plan = replace(labelled_views(recipe), **normal)
    labelled = Stream(loader, plan, device, seed, method.needs)
    if not both:
        return method, labelled
    pool, seed = split.unlabelled(store, uses_target=recipe.uses_target), seed + APART
    few = len(pool) < recipe.batch_size
    loader = Loader(pool, recipe.batch_size, seed, recipe.balance, replacement=few)
    plan = replace(recipe.plan(), **normal)
    return method, Stream(loader, plan, device, seed, method.needs - {"label"}, labelled)


def finetune(
    what: str | None = None,
    store: Path | str | None = None,
    *,
    recipe: Recipe | None = None,
    percents: Iterable[int] = (100,),
    seeds: int | None = None,
    settings: Iterable[str] = (),
    network: Mapping[str, Any] | None = None,
    device: str | None = None,
    force: bool = False,
    say: Callable[[str], object] = lambda line: None,
    **options: Any,
) -> Path:
    """Train `what`, with the options of `probe`, by ERM, whose `settings` are fields of `Training`,
    or by a recipe, whose fields they are then.

    "random:NAME" begins with other weights for each seed: the baseline without pretraining. A
    recipe without `what` begins with its own network, as it says, for each seed.
    """
    began, settings = time.monotonic(), [*settings]
    recipe = _checked(what, recipe, settings)
    begin = partial(_begin, what, recipe, network or {})
    stage = recipe.method.rpartition(":")[2].lower() if recipe else "finetune"
    store = store or (store_of(recipe) if recipe and what is None else None)
    exam = Exam.open(stage, begin(0), store, force=force, **options)
    name = exam.store.name
    lessons = recipe or erm(name, exam.frozen, changed(training_of(name), settings))
    draws = draws_of(exam.split, percents, n_seeds(name, seeds))
    fabric = make_fabric(lessons.precision, accelerator=device or "auto")
    (exam.folder / "result.json").unlink(missing_ok=True)  # --force, or there is none
    exam.folder.mkdir(parents=True, exist_ok=True)
    tuned, own = [], recipe is not None
    for draw in draws:
        tuning = Tuning(exam, begin(draw.seed), draw, replace(lessons, seed=draw.seed), own, fabric)
        tuned.append(tuning.execute(say, force=force))
    parts = {
        part: one._replace(classes=np.concatenate([each[part].classes for each in tuned]))
        for part, one in tuned[0].items()
    }
    spent = {"target_openings": exam.openings, "seconds": round(time.monotonic() - began, 1)}
    config = about(exam, draws, lessons, own)
    write_evaluation(exam.folder, config, parts, exam.n_classes, spent=spent)
    return exam.folder


def _checked(what: str | None, recipe: Recipe | None, settings: Sequence[str]) -> Recipe | None:
    """The recipe with its settings; wrong ones are refused before a target is opened."""
    if recipe is None:
        changed(training_of(""), settings)
        if what is None:
            raise ValueError("name a network to fine-tune, or how to learn by --recipe")
        return None
    if "label" not in method_named(recipe.method).needs:
        raise ValueError(f"{recipe.method} learns without labels: onestyle pretrain does that")
    return override(recipe, settings)


def _begin(
    what: str | None, recipe: Recipe | None, network: Mapping[str, Any], seed: int
) -> Frozen:
    """The network as it is before it learns; of a recipe at the size of its views."""
    if what is None:
        assert recipe is not None
        return open_untrained(recipe, seed)
    frozen = open_frozen(what, **network, seed=seed, tuned=True)
    return replace(frozen, size=recipe.view_size) if recipe else frozen


@dataclass(frozen=True)
class Tuning:
    """One fraction and one seed."""

    exam: Exam
    frozen: Frozen
    draw: Draw
    recipe: Recipe  # its seed is the draw's
    own: bool  # the recipe was asked for: else it is that of ERM
    fabric: Fabric

    @property
    def folder(self) -> Path:
        return self.exam.folder / f"p{self.draw.percent}-s{self.draw.seed}"

    def execute(self, say: Callable[[str], object], *, force: bool) -> dict[str, Predicted]:
        """Train and predict, or go on with it; what was done already is read."""
        config = about(self.exam, [self.draw], self.recipe, self.own)
        with open_run(self.folder, config, force=force) as run:
            if not run.result.exists():
                self._train(run, say)
            return read_evaluation(self.folder).parts

    def _train(self, run: Run, say: Callable[[str], object]) -> None:
        exam, began = self.exam, time.monotonic()
        data = exam.store, exam.split, self.draw.rows
        method, stream = lesson(self.recipe, self.frozen, *data, device=self.fabric.device)
        if isinstance(stream.loader.pool, UnlabelledTargets):
            stream.loader.pool.open(exam.log)
        say(self._cost(run, method, stream))
        fit(method, stream, self.recipe, fabric=self.fabric, run=run)
        save_weights(run.path / "network.safetensors", method, {"timm": self.frozen.timm})
        parts = self._predict(method.eval())
        spent = {"target_openings": exam.openings, "seconds": round(time.monotonic() - began, 1)}
        write_evaluation(run.path, run.config, parts, exam.n_classes, spent=spent)
        shutil.rmtree(run.last.parent)  # three times the network, and of no more use

    def _cost(self, run: Run, method: Method, stream: Stream) -> str:
        state = run.load()
        left = self.recipe.steps - (state["step"] if state else 0)
        seconds = trial(copy.deepcopy(method), stream, self.recipe, self.fabric)
        images = f"{len(self.draw.rows):,} labelled images"
        if stream.labelled:
            whose = "target" if self.recipe.uses_target else "source"
            images += f" and {len(stream.loader.pool):,} unlabelled ones of the {whose} domains"
        return f"{run.path}: {left:,} steps on {images}, about {clock(left * seconds)}"

    def _predict(self, method: Method) -> dict[str, Predicted]:
        how = {"size": self.frozen.size, "device": self.fabric.device}
        how |= {"mean": self.frozen.mean, "std": self.frozen.std}
        logits = self.exam.over(
            "predictions", self.exam.parts, partial(features, method.logits, **how)
        )
        return self.exam.predicted(lambda name: logits[name].argmax(1)[None])


def about(exam: Exam, draws: Sequence[Draw], recipe: Recipe, own: bool) -> dict[str, Any]:
    """What decided a result; ERM's recipe is no more than its training and views."""
    seeds = sorted({draw.seed for draw in draws})
    told = exam.about("finetune", draws, {"labels": seeds, "finetuning": seeds})
    training = Training(**{field.name: getattr(recipe, field.name) for field in fields(Training)})
    normal = {"mean": exam.frozen.mean, "std": exam.frozen.std}
    views = replace(labelled_views(recipe), **normal)
    told |= {"training": plain(training), "views": plain(views)}
    return told | ({"recipe": plain(recipe)} if own else {})
