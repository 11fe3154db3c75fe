"""A finished run to be looked at: features of unseen images, embeddings under its own views, scores
of prototypes over training; what the analyses of onestyle/analysis/ need.

    subject = open_subject("runs/NAME")
    seen = subject.features(subject.unseen(per_domain=2000))
    result = purity.compute(seen.features, seen.label, seen.domain)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from onestyle.checkpoint import load_strictly, read_about, read_weights
from onestyle.data.loader import Loader
from onestyle.data.protocol import Pool, Split, UnlabelledTargets
from onestyle.data.store import Store
from onestyle.methods import Batch, Method
from onestyle.progress import Progress, progress
from onestyle.run import Run
from onestyle.stages.embed import features
from onestyle.stages.frozen import Frozen, open_frozen, open_images
from onestyle.stages.pretrain import make_method
from onestyle.stream import Stream

__all__ = ["PARTS", "Seen", "Subject", "known_of", "open_subject", "open_subjects"]

PARTS = ("all", "val")  # source validation and target images, or the former alone
N_BATCHES, N_IMAGES = 10, 256  # of training views; images of each batch, at most
CHUNK = 64  # images whose views are embedded at a time


@dataclass(frozen=True, eq=False)
class Seen:
    """Features (n, d) of images, their rows of the store, and what is known of them."""

    features: Tensor
    rows: NDArray[np.int64]
    label: Tensor | None  # (n,) the numbers of their classes, where every image has one
    domain: Tensor | None


@dataclass(frozen=True, eq=False)
class Subject:
    """A finished run and the store and split that it was trained on."""

    name: str
    frozen: Frozen
    store: Store
    split: Split
    device: torch.device

    @property
    def run(self) -> Run:
        assert self.frozen.run is not None  # as open_subject made sure
        return self.frozen.run

    def unseen(self, per_domain: int, part: str = "all") -> list[Pool]:
        """Images that were not trained on, a pool a domain: of source validation and, unless `part`
        is "val", of the targets. Of each domain as many as of the smallest one, at most
        `per_domain`, drawn at random but always the same."""
        if part not in PARTS:
            raise ValueError(f"part must be {' or '.join(PARTS)}, got {part!r}")
        val = Pool(self.store, self.split.val)
        pools = [val.some(np.flatnonzero(val.domains == d)) for d in np.unique(val.domains)]
        if part == "all":
            for name in self.split.targets:
                opening = {"log": self.run.openings, "why": "analysis"}
                pools.append(self.split.open_target(self.store, name, **opening))
        n = min([per_domain, *map(len, pools)])
        if n * len(pools) < 2:
            raise ValueError(
                f"{self.run.path}: {n} unseen images of {len(pools)} domains are too few to compare"
            )
        dice = np.random.default_rng(0)
        return [pool.some(np.sort(dice.permutation(len(pool))[:n])) for pool in pools]

    def features(self, pools: Sequence[Pool]) -> Seen:
        """The backbone's features of the pools' images, one pool after the other."""
        network = self.frozen.network.to(self.device)
        with progress(f"features of {self.name}", sum(map(len, pools))) as shown:
            found = self._over(network, pools, shown)
        return Seen(found, np.concatenate([pool.rows for pool in pools]), *known_of(pools))

    def prototype_scores(self, pools: Sequence[Pool]) -> Iterator[tuple[int, Tensor]]:
        """The steps of the snapshots, and the scores (n, K) that the pools' images have then."""
        files, n = self.snapshots(), sum(map(len, pools))
        with progress(f"snapshots of {self.name}", n * len(files)) as shown:
            for k, file in enumerate(files):
                method = self._method(read_weights(file), file)
                scores = self._over(method.prototype_scores, pools, shown, k * n)
                yield int(read_about(file)["step"]), scores

    @torch.no_grad()
    def embeddings(self, n_batches: int = N_BATCHES) -> Iterator[dict[str, Tensor]]:
        """Batches of training images under the run's own views, the next ones that training would
        have come to: what its loss compares, "projector" (V, n, D), and "backbone" (V, n, d).

        The method is at rest: BatchNorm has its running statistics.
        """
        recipe, method = self.run.recipe, self.last
        size, start = min(recipe.batch_size, N_IMAGES), recipe.steps * recipe.accumulate
        pool = self.split.unlabelled(self.store, uses_target=recipe.uses_target)
        if isinstance(pool, UnlabelledTargets):
            pool.open(self.run.openings, why="analysis")
        loader = Loader(pool, size, recipe.seed, recipe.balance)
        stream = Stream(loader, recipe.plan(), self.device, recipe.seed, method.needs)
        with progress(f"views of {self.name}", n_batches) as shown:
            for k, batch in enumerate(stream.batches(start, start + n_batches), 1):
                some = [*_parts(batch)]
                z = torch.cat([method.embeddings(part).cpu() for part in some], 1)
                h = torch.cat([Method.embeddings(method, part).cpu() for part in some], 1)
                yield {"projector": z, "backbone": h}
                shown.show(k)

    @cached_property
    def last(self) -> Method:
        """The method as the run left it: from its last checkpoint, or else its last snapshot."""
        state = self.run.load()
        if state is not None:
            return self._method(state["method"], self.run.last)
        if not (self.run.path / "snapshots").is_dir():
            raise ValueError(f"{self.run.last} is gone, and no snapshot was kept in its place")
        file = self.snapshots()[-1]
        return self._method(read_weights(file), file)

    def snapshots(self) -> list[Path]:
        """In the order of their steps."""
        files = sorted((self.run.path / "snapshots").glob("step_*.safetensors"))
        if not files:
            raise ValueError(
                f"{self.run.path} has no snapshots: pretrain with --set snapshot_every=N"
            )
        return files

    def require_prototypes(self) -> None:
        """Refuse a method that has none, before the first snapshot is read."""
        size = self.frozen.size
        self._begun().prototype_scores(torch.zeros(1, 3, size, size))

    def _method(self, state: dict[str, Tensor], where: Path) -> Method:
        method = self._begun()
        load_strictly(method, state, where)
        return method.to(self.device)

    def _begun(self) -> Method:
        recipe = replace(self.run.recipe, init="random")  # other weights take their place
        return make_method(recipe, self.store, self.split).eval()

    def _over(
        self,
        network: Callable[[Tensor], Tensor],
        pools: Sequence[Pool],
        shown: Progress,
        done: int = 0,
    ) -> Tensor:
        """What the network makes of the pools' images, one pool after the other."""
        size, found = self.frozen.size, []
        for pool in pools:

            def show(k: int, before: int = done) -> None:
                shown.show(before + k)

            found.append(features(network, pool, size, self.device, show=show))
            done += len(pool)
        return torch.cat(found)


def known_of(pools: Sequence[Pool]) -> tuple[Tensor | None, Tensor | None]:
    """The classes and domains of the pools' images, each None unless every image has one."""
    both = [[pool.labels for pool in pools], [pool.domains for pool in pools]]
    numbers = [torch.from_numpy(np.concatenate(each)).long() for each in both]
    label, domain = (x if bool((x >= 0).all()) else None for x in numbers)
    return label, domain


def _parts(batch: Batch) -> Iterator[Batch]:
    """A batch's images, a few at a time."""
    for start in range(0, len(batch.places), CHUNK):
        part = slice(start, start + CHUNK)
        views = [group[:, part] for group in batch.views]
        domain = None if batch.domain is None else batch.domain[part]
        yield replace(batch, views=views, places=batch.places[part], domain=domain)


def open_subject(
    path: Path | str, store: Path | str | None = None, *, name: str | None = None
) -> Subject:
    """A finished run's folder; `store` where its own is not where it was."""
    if not Path(path).is_dir():
        raise ValueError(f"{path} is not a run; onestyle pretrain makes one")
    frozen = open_frozen(str(path))
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    name = name or Path(path).resolve().name
    return Subject(name, frozen, *open_images(frozen, store), device)


def open_subjects(
    paths: Sequence[Path | str], store: Path | str | None = None, *, names: Sequence[str] = ()
) -> list[Subject]:
    """Several runs of one split: side by side they are shown the same images."""
    if names and len(names) != len(paths):
        raise ValueError(f"there are {len(paths)} runs and {len(names)} names: {' '.join(names)}")
    names = names or [Path(path).resolve().name for path in paths]
    if twice := [name for name, times in Counter(names).items() if times > 1]:
        raise ValueError(f"several runs are called {', '.join(twice)}: give --names, all different")
    subjects = [
        open_subject(path, store, name=name) for path, name in zip(paths, names, strict=True)
    ]
    for subject in subjects[1:]:
        first, other = subjects[0].run, subject.run
        if other.config["data"] != first.config["data"]:
            raise ValueError(
                f"{other.path} was trained on other images than {first.path}, or left others "
                "unseen: look at them one by one"
            )
    return subjects
