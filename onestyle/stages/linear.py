"""Linear probes: many heads on the same frozen features, trained together.

    problems = [Problem(rows, seed) for rows in fractions for seed in range(3)]
    heads = train_probes(features, labels, problems, n_classes, probing_of("pacs"))
    classes = heads.predict(features_of_the_target)          # (problems, images)

A head is BatchNorm without affine, then a linear layer. The features are frozen, so the statistics
of a batch are constants and the gradient of the mean cross entropy has a closed form. With x the
normalised features of a batch of B images, p the softmax of the logits W x + b and y one-hot:

    dW = (p - y)^T x / B,   db = mean(p - y)

Batches are drawn with replacement, always: 1% of a data set is often smaller than a batch. They
depend on the probe's seed, the step and the number of rows alone; the last step is the result.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.init import trunc_normal_
from torch.optim import Adam

__all__ = ["PROBING", "Heads", "Probing", "Problem", "follow_probes", "probing_of", "train_probes"]

MOMENTUM = 0.1  # of the running statistics, torch's
PERIOD = 100  # steps whose batches are drawn at once
BLOCK = 2**19  # numbers in the batches of the problems that move together: they stay in the cache

Rows = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Probing:
    """How a probe is trained: Adam with L2 decay of weight and bias, cosine to 0, no warm-up."""

    steps: int = 5000
    batch_size: int = 128
    lr: float = 1e-4
    weight_decay: float = 1e-4
    eps: float = 1e-6  # of the BatchNorm

    def __post_init__(self):
        self._require(self.steps >= 1, "steps", "at least 1")
        self._require(self.batch_size >= 2, "batch_size", "at least 2, for BatchNorm")
        self._require(self.lr > 0, "lr", "positive")
        self._require(self.weight_decay >= 0, "weight_decay", "0 or more")
        self._require(self.eps > 0, "eps", "positive")

    def _require(self, holds: bool, name: str, legal: str) -> None:
        if not holds:
            raise ValueError(f"{name} must be {legal}, got {getattr(self, name)!r}")

    def rate(self, step: int) -> float:
        return self.lr * (1 + math.cos(math.pi * step / self.steps)) / 2


PROBING = {  # the paper's, and ours for the digits
    "pacs": Probing(steps=5000, batch_size=128),
    "domainnet": Probing(steps=1000, batch_size=64),
    "domainnet-b": Probing(steps=1000, batch_size=64),
    "camelyon17": Probing(steps=15_000, batch_size=64),
    "digits": Probing(steps=2000, batch_size=64),
}


def probing_of(data: str) -> Probing:
    """The settings for a data set; your own stores get those of PACS."""
    return PROBING.get(data, Probing())


class Problem(NamedTuple):
    """One head to train: its labelled rows of the feature matrix, and the probe's seed."""

    rows: Rows
    seed: int


class Heads(NamedTuple):
    """P trained heads, all tensors: `heads._asdict()` is what safetensors takes, and back."""

    weight: Tensor  # (P, C, d)
    bias: Tensor  # (P, C)
    mean: Tensor  # (P, d) running
    var: Tensor  # (P, d) running
    eps: Tensor  # ()

    def some(self, places: Sequence[int]) -> Heads:
        """Of these problems."""
        return self._replace(**{name: getattr(self, name)[places] for name in self._fields[:4]})

    def to(self, device: torch.device | str) -> Heads:
        return Heads(*(part.to(device) for part in self))

    def logits(self, features: Tensor) -> Tensor:
        """(n, d) -> (P, n, C), normalised by the running statistics."""
        scale = (self.var.double() + self.eps).rsqrt()
        weight = self.weight.double() * scale[:, None]  # the normalisation, within the weights
        bias = self.bias.double() - (weight @ self.mean.double()[:, :, None])[:, :, 0]
        flat = weight.flatten(0, 1).to(features), bias.flatten().to(features)
        return torch.addmm(flat[1], features, flat[0].T).unflatten(1, bias.shape).transpose(0, 1)

    def predict(self, features: Tensor, chunk: int = 1024) -> Tensor:
        """(n, d) -> (P, n) classes, `chunk` rows at a time."""
        return torch.cat([self.logits(some).argmax(2) for some in features.split(chunk)], dim=1)


def train_probes(
    features: Tensor,
    labels: Tensor,
    problems: Sequence[Problem],
    n_classes: int,
    probing: Probing,
    *,
    show: Callable[[int], object] = lambda done: None,
) -> Heads:
    """Train a head for each problem on features (n, d) and labels (n,), on their device.

    `show` is told how many steps are done, of len(problems) * probing.steps. On a CPU the problems
    are cut into blocks whose batches fit the cache, and each thread of torch's trains blocks of
    its own: they never wait for each other. On a GPU all problems are one block.
    """
    at = (probing.steps,)
    return follow_probes(features, labels, problems, n_classes, probing, at=at, show=show)[0]


def follow_probes(
    features: Tensor,
    labels: Tensor,
    problems: Sequence[Problem],
    n_classes: int,
    probing: Probing,
    *,
    at: Sequence[int],
    show: Callable[[int], object] = lambda done: None,
) -> list[Heads]:
    """As `train_probes`; the heads as they are after each of the steps `at`."""
    _check(features, labels, problems, n_classes)
    on_cpu = features.device.type == "cpu"
    n_workers = min(torch.get_num_threads(), len(problems)) if on_cpu else 1
    size = BLOCK // (probing.batch_size * features.shape[1]) if on_cpu else len(problems)
    n_blocks = -(-len(problems) // (max(1, size) * n_workers)) * n_workers
    cuts = [len(problems) * k // n_blocks for k in range(n_blocks + 1)]
    tally = _Tally(show)

    def train(start: int, stop: int) -> list[Heads]:
        block = _Block(features, labels.long(), problems[start:stop], n_classes, probing)
        return block.train(tally, {*at})

    with _workers(n_workers, tally) as pool:
        blocks = [*pool.map(train, cuts[:-1], cuts[1:])]
    return [_join(each) for each in zip(*blocks, strict=True)]


def _join(blocks: Sequence[Heads]) -> Heads:
    *parts, eps = zip(*blocks, strict=True)
    weight, bias, mean, var = map(torch.cat, parts)
    return Heads(weight, bias, mean, var, eps[0])


def draw(n: int, batch_size: int, seed: int, period: int) -> Rows:
    """Places 0..n - 1 of the batches of steps period * PERIOD and after, (PERIOD, batch_size)."""
    return np.random.default_rng((seed, period)).integers(n, size=(PERIOD, batch_size))


def first_weight(n_classes: int, dim: int, seed: int) -> Tensor:
    """(C, d) normal of std 0.01, in float32 whatever the features are; the bias begins at 0."""
    return trunc_normal_(
        torch.empty(n_classes, dim), std=0.01, generator=torch.Generator().manual_seed(seed)
    )


class _Block:
    """k problems that move together, each with a batch of B images."""

    def __init__(
        self,
        features: Tensor,
        labels: Tensor,
        problems: Sequence[Problem],
        n_classes: int,
        probing: Probing,
    ):
        self.features, self.labels = features, labels
        self.problems, self.probing = problems, probing
        k, dim, size = len(problems), features.shape[1], probing.batch_size
        first = [first_weight(n_classes, dim, problem.seed) for problem in problems]
        self.weight = torch.stack(first).to(features)  # (k, C, d)
        self.bias = features.new_zeros(k, n_classes)
        self.weight.grad, self.bias.grad = map(torch.empty_like, (self.weight, self.bias))
        options = {"lr": probing.lr, "weight_decay": probing.weight_decay, "fused": True}
        self.optimizer = Adam([self.weight, self.bias], **options)
        self.mean, self.var = features.new_zeros(k, 1, dim), features.new_ones(k, 1, dim)
        self.x, self.squares = features.new_empty(2, k, size, dim)
        self.average = features.new_full((1, 1, size), 1 / size).expand(k, 1, size)
        self.minus = features.new_full((1, 1, 1), -1).expand(k, 1, size)

    def train(self, tally: _Tally, at: set[int]) -> list[Heads]:
        steps, found = self.probing.steps, []
        for period in range(-(-steps // PERIOD)):
            rows = self._draw(period)[: steps - period * PERIOD]
            for step, batch in enumerate(rows, period * PERIOD):
                self._step(batch, step)
                if step + 1 in at:
                    found.append(self._heads())
            tally.add(len(rows) * len(self.problems))
        return found

    def _heads(self) -> Heads:
        eps = torch.tensor(self.probing.eps, dtype=torch.float64)
        parts = self.weight, self.bias, self.mean[:, 0], self.var[:, 0], eps.to(self.x.device)
        return Heads(*(part.clone() for part in parts))

    def _draw(self, period: int) -> Tensor:
        """Rows of the feature matrix, (PERIOD, k B)."""
        rows = [
            problem.rows[draw(len(problem.rows), self.probing.batch_size, problem.seed, period)]
            for problem in self.problems
        ]
        return torch.from_numpy(np.concatenate(rows, axis=1)).to(self.features.device)

    def _step(self, rows: Tensor, step: int) -> None:
        x, size = self.x, self.probing.batch_size
        torch.index_select(self.features, 0, rows, out=x.view(-1, x.shape[2]))
        scale = self._centre(x)

        logits = torch.baddbmm(self.bias[:, :, None], self.weight * scale, x.mT)  # (k, C, B)
        error = logits.softmax(1)
        error.scatter_add_(1, self.labels[rows].view(-1, 1, size), self.minus)  # p - y

        assert self.weight.grad is not None
        torch.bmm(error, x, out=self.weight.grad).mul_(scale / size)
        torch.mean(error, 2, out=self.bias.grad)
        self.optimizer.param_groups[0]["lr"] = self.probing.rate(step)
        self.optimizer.step()

    def _centre(self, x: Tensor) -> Tensor:
        """Subtract the mean of each batch in place; returns 1 / std, (k, 1, d).

        A feature whose spread is below the rounding of its mean is constant and gets 0: Adam would
        blow up what is left of it. Products with 1 / B are several times faster than reductions.
        """
        size = x.shape[1]
        mean = torch.bmm(self.average, x)
        x.sub_(mean)
        var = torch.bmm(self.average, torch.mul(x, x, out=self.squares))
        self.mean.lerp_(mean, MOMENTUM)
        self.var.lerp_(var * (size / (size - 1)), MOMENTUM)
        varies = var > (mean * (size * torch.finfo(x.dtype).eps / 2)).square_()
        return (var + self.probing.eps).rsqrt_().mul_(varies)


class _Tally:
    """Steps done by all workers; an interrupted training stops them at their next word."""

    def __init__(self, show: Callable[[int], object]):
        self.show, self.done = show, 0
        self.lock, self.stopped = threading.Lock(), False

    def add(self, steps: int) -> None:
        with self.lock:
            if self.stopped:
                raise InterruptedError
            self.done += steps
            self.show(self.done)


@contextmanager
def _workers(n: int, tally: _Tally) -> Iterator[ThreadPoolExecutor]:
    """Threads that give torch one thread each; afterwards torch has as many as before."""
    before = torch.get_num_threads()
    pool = ThreadPoolExecutor(n, "probes", lambda: torch.set_num_threads(1))
    try:
        yield pool
    finally:
        tally.stopped = True
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(before)


def _check(features: Tensor, labels: Tensor, problems: Sequence[Problem], n_classes: int) -> None:
    broken = torch.nonzero(~features.sum(1).isfinite())
    if len(broken):
        raise ValueError(
            f"features of {len(broken)} of {len(features)} images are not finite, the first in "
            f"row {int(broken[0])}: the backbone has diverged, take an earlier one"
        )
    for problem in problems:
        known = labels[torch.from_numpy(problem.rows).to(labels.device)]
        if not len(known):
            raise ValueError("a probe needs labelled images and got none; take a larger fraction")
        low, high = int(known.min()), int(known.max())
        if low < 0 or high >= n_classes:
            raise ValueError(f"classes are 0..{n_classes - 1}, the labels {low}..{high}")
