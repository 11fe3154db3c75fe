"""Fine-tuning: the whole network on a fraction of the labels, by the loop of pretraining.

    folder = finetune("runs/NAME")                                           # all labels, 3 seeds
    folder = finetune("random:resnet18", "stores/pacs", targets=["sketch"])  # ERM, the baseline

FOLDER/p100-s0/  a fraction and a seed: a run that goes on where it ended, and then its evaluation
"""

from __future__ import annotations

import copy
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lightning_fabric import Fabric

from onestyle.checkpoint import save_weights
from onestyle.colour import Colour
from onestyle.data.loader import Loader
from onestyle.data.protocol import Pool
from onestyle.geometry import Geometry
from onestyle.methods.erm import ERM
from onestyle.optim import Training
from onestyle.progress import clock
from onestyle.recipes import changed, plain
from onestyle.run import Run, open_run
from onestyle.stages.embed import features
from onestyle.stages.evaluation import Predicted, read_evaluation, write_evaluation
from onestyle.stages.exam import Draw, Exam, draws_of, n_seeds
from onestyle.stages.frozen import Frozen, open_frozen
from onestyle.stages.linear import probing_of
from onestyle.stages.pretrain import make_fabric
from onestyle.stream import Stream
from onestyle.train import fit, trial
from onestyle.views import ViewPlan

__all__ = ["finetune", "training_of", "views_of"]

CROP = Geometry(scale=(0.7, 1.0), rotation=0, cutout=0)
GEOMETRY = {  # tissue has no upright, digits have no mirror image
    "camelyon17": Geometry(scale=(1, 1), aspect=(1, 1), vertical_flip=0.5, rotation=0, cutout=0),
    "digits": Geometry(scale=(0.7, 1.0), horizontal_flip=0, rotation=0, cutout=0),
}
AS_IT_IS = Colour(jitter=0, equalize=0, posterize=0, solarize=0, grayscale=0)


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


def views_of(data: str, frozen: Frozen) -> ViewPlan:
    """One view: a crop and a flip, of the image as it is."""
    geometry, normal = GEOMETRY.get(data, CROP), {"mean": frozen.mean, "std": frozen.std}
    plan = f"1x{frozen.size} none"
    return ViewPlan.parse(plan, geometry=geometry, colour=AS_IT_IS, **normal)  # pyright: ignore


def finetune(
    what: str,
    store: Path | str | None = None,
    *,
    percents: Iterable[int] = (100,),
    seeds: int | None = None,
    settings: Iterable[str] = (),
    network: Mapping[str, Any] | None = None,
    device: str | None = None,
    force: bool = False,
    say: Callable[[str], object] = lambda line: None,
    **options: Any,
) -> Path:
    """Fine-tune `what`, with the options of `probe`, whose `settings` are fields of `Training`.

    "random:NAME" begins with other weights for each seed: the baseline without pretraining.
    """
    began, settings, known = time.monotonic(), [*settings], {**(network or {}), "tuned": True}
    changed(training_of(""), settings)  # refuses wrong ones before a target is opened
    exam = Exam.open("finetune", open_frozen(what, **known), store, force=force, **options)
    name = exam.store.name
    training = changed(training_of(name), settings)
    draws = draws_of(exam.split, percents, n_seeds(name, seeds))
    fabric = make_fabric(training.precision, accelerator=device or "auto")
    (exam.folder / "result.json").unlink(missing_ok=True)  # --force, or there is none
    plan, tuned = views_of(name, exam.frozen), []
    exam.folder.mkdir(parents=True, exist_ok=True)
    for draw in draws:
        frozen = open_frozen(what, **known, seed=draw.seed)
        tuning = Tuning(exam, frozen, draw, replace(training, seed=draw.seed), plan, fabric)
        tuned.append(tuning.execute(say, force=force))
    parts = {
        part: one._replace(classes=np.concatenate([each[part].classes for each in tuned]))
        for part, one in tuned[0].items()
    }
    spent = {"target_openings": exam.openings, "seconds": round(time.monotonic() - began, 1)}
    config = about(exam, draws, training, plan)
    write_evaluation(exam.folder, config, parts, exam.n_classes, spent=spent)
    return exam.folder


@dataclass(frozen=True)
class Tuning:
    """One fraction and one seed."""

    exam: Exam
    frozen: Frozen
    draw: Draw
    training: Training
    plan: ViewPlan
    fabric: Fabric

    @property
    def folder(self) -> Path:
        return self.exam.folder / f"p{self.draw.percent}-s{self.draw.seed}"

    def execute(self, say: Callable[[str], object], *, force: bool) -> dict[str, Predicted]:
        """Train and predict, or go on with it; what was done already is read."""
        config = about(self.exam, [self.draw], self.training, self.plan)
        with open_run(self.folder, config, force=force) as run:
            if not run.result.exists():
                self._train(run, say)
            return read_evaluation(self.folder).parts

    def _train(self, run: Run, say: Callable[[str], object]) -> None:
        exam, seed, began = self.exam, self.draw.seed, time.monotonic()
        pool = Pool(exam.store, self.draw.rows)
        loader = Loader(pool, self.training.batch_size, seed, replacement=True)
        torch.manual_seed(seed)
        method = ERM(self.frozen.network.requires_grad_(True), n_classes=exam.n_classes)
        stream = Stream(loader, self.plan, self.fabric.device, seed, method.needs)
        say(self._cost(run, method, stream))
        fit(method, stream, self.training, fabric=self.fabric, run=run)
        save_weights(run.path / "network.safetensors", method, {"timm": self.frozen.timm})
        parts = self._predict(method.eval())
        spent = {"target_openings": exam.openings, "seconds": round(time.monotonic() - began, 1)}
        write_evaluation(run.path, run.config, parts, exam.n_classes, spent=spent)
        shutil.rmtree(run.last.parent)  # three times the network, and of no more use

    def _cost(self, run: Run, method: ERM, stream: Stream) -> str:
        state = run.load()
        left = self.training.steps - (state["step"] if state else 0)
        seconds = trial(copy.deepcopy(method), stream, self.training, self.fabric)
        labels = f"{len(self.draw.rows):,} labelled images"
        return f"{run.path}: {left:,} steps on {labels}, about {clock(left * seconds)}"

    def _predict(self, method: ERM) -> dict[str, Predicted]:
        how = {"size": self.frozen.size, "device": self.fabric.device}
        how |= {"mean": self.frozen.mean, "std": self.frozen.std}
        logits = self.exam.over(
            "predictions", self.exam.parts, partial(features, method.logits, **how)
        )
        return self.exam.predicted(lambda name: logits[name].argmax(1)[None])


def about(exam: Exam, draws: Sequence[Draw], training: Training, plan: ViewPlan) -> dict[str, Any]:
    seeds = sorted({draw.seed for draw in draws})
    told = exam.about("finetune", draws, {"labels": seeds, "finetuning": seeds})
    return told | {"training": plain(training), "views": plain(plan)}
