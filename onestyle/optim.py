"""Optimisers and their schedule, counted in steps."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import nn
from torch.optim import SGD, Adam, AdamW, Optimizer

from onestyle.methods.base import MakeOptimizer, Method

__all__ = ["LARS", "LATER", "Training", "maker", "set_lr"]

# A field that came when there were runs already: it is written down where it is not its default, so
# that the runs before it keep their words and their hashes.
LATER = {"later": True}


@dataclass(frozen=True, kw_only=True)
class Training:
    """What the loop needs to know. `batch_size` counts the images of all processes."""

    steps: int
    batch_size: int = 256
    accumulate: int = 1  # batches a step; each has its own style and its own loss
    optimizer: Literal["lars", "sgd", "adam", "adamw"] = "lars"
    lr: float = 0.2
    weight_decay: float = 1e-6
    momentum: float = 0.9  # of LARS and SGD
    nesterov: bool = False  # SGD
    betas: tuple[float, float] = (0.9, 0.999)  # Adam and AdamW
    warmup: float = 0.05  # share of the steps in which the rate rises to lr
    final_lr: float = 0.0  # where the cosine ends, over lr
    schedule: Literal["cosine", "seven-sixteenths", "power"] = field(  # see `rate`
        default="cosine", metadata=LATER
    )
    clip: float | None = None  # largest norm of the gradient
    precision: Literal["bf16-mixed", "16-mixed", "32-true", "64-true"] = "bf16-mixed"
    seed: int = 0  # of the pretraining: weights, batches, views
    log_every: int = 50  # steps
    monitor_every: int = 1000  # steps between looks at the source validation images; 0: never
    snapshot_every: int = 0  # steps between kept copies of the method; 0: none
    save_minutes: float = 5.0  # between checkpoints

    def __post_init__(self):
        for name in ("steps", "batch_size", "accumulate", "log_every"):
            self._require(getattr(self, name) >= 1, name, "at least 1")
        for name in ("lr", "weight_decay", "monitor_every", "snapshot_every", "save_minutes"):
            self._require(getattr(self, name) >= 0, name, "0 or more")
        for name in ("momentum", "warmup", "final_lr"):
            self._require(0 <= getattr(self, name) <= 1, name, "in [0, 1]")
        self._require(self.clip is None or self.clip > 0, "clip", "positive, or null")

    def _require(self, holds: bool, name: str, legal: str) -> None:
        if not holds:
            raise ValueError(f"{name} must be {legal}, got {getattr(self, name)!r}")

    def rate(self, step: int) -> float:
        """The learning rate of a step over `lr`: a straight line up, then, with the share t of the
        steps that is done, a cosine down to final_lr; or cos(7 pi t / 16), FixMatch's; or
        (1 + 10 t)^-0.75, that of WILDS for it."""
        warm = round(self.warmup * self.steps)
        if step < warm:
            return (step + 1) / warm
        done = (step - warm) / max(1, self.steps - warm)
        if self.schedule == "seven-sixteenths":
            return math.cos(7 * math.pi * done / 16)
        if self.schedule == "power":
            return (1 + 10 * done) ** -0.75
        return self.final_lr + (1 - self.final_lr) * (1 + math.cos(math.pi * done)) / 2


class LARS(Optimizer):
    """SGD whose step is scaled, tensor by tensor, to the size of the weights (You et al., 2017).

        g <- trust |p| / |g + wd p| (g + wd p);   m <- momentum m + g;   p <- p - lr m

    This is the form of MoCo v3 and MAE. Groups with `adapt=False` get plain SGD.
    """

    def __init__(self, params, lr: float, *, weight_decay=0.0, momentum=0.9, trust=0.001):
        defaults = {"lr": lr, "weight_decay": weight_decay, "momentum": momentum}
        super().__init__(params, defaults | {"trust": trust, "adapt": True})

    @torch.no_grad()
    def step(self, closure=None):  # pyright: ignore
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self._move(p, group)

    def _move(self, p: torch.Tensor, group: dict) -> None:
        g = p.grad
        assert g is not None
        if group["adapt"]:
            g = g.add(p, alpha=group["weight_decay"])
            size, slope = p.norm(), g.norm()
            scale = torch.where((size > 0) & (slope > 0), group["trust"] * size / slope, 1.0)
            g = g * scale
        state = self.state[p]
        if "momentum" not in state:
            state["momentum"] = torch.zeros_like(p)
        p.add_(state["momentum"].mul_(group["momentum"]).add_(g), alpha=-group["lr"])


def maker(training: Training, method: Method) -> MakeOptimizer:
    """The function that a method calls to get an optimiser for some of its parameters.

    Biases, norms, class tokens and positions (and what a method marks with `no_adapt`) are neither
    decayed nor, in LARS, adapted.
    """
    tokens = ("cls_token", "reg_token", "pos_embed")
    apart = {
        p
        for name, p in method.named_parameters()
        if p.ndim <= 1 or name.endswith(tokens) or getattr(p, "no_adapt", False)
    }

    def make(params: Iterable[nn.Parameter]) -> Optimizer:
        params = list(params)
        groups = [
            {"params": [p for p in params if p not in apart]},
            {"params": [p for p in params if p in apart], "weight_decay": 0.0},
        ]
        groups = [group for group in groups if group["params"]]
        lr, decay = training.lr, training.weight_decay
        if training.optimizer in ("adam", "adamw"):  # the decay is of the loss, or of the weights
            kind = Adam if training.optimizer == "adam" else AdamW
            fused = training.precision != "16-mixed"  # else it hides the gradients that are clipped
            return kind(groups, lr, betas=training.betas, weight_decay=decay, fused=fused)
        if training.optimizer == "sgd":
            options = {"momentum": training.momentum, "nesterov": training.nesterov}
            return SGD(groups, lr, weight_decay=decay, **options)
        for group in groups:
            group["adapt"] = "weight_decay" not in group
        return LARS(groups, lr, weight_decay=decay, momentum=training.momentum)

    return make


def set_lr(optimizers: Iterable[Optimizer], rate: float) -> None:
    """Every group's rate to `rate` times the one that it began with; `scheduled=False` keeps it."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            if group.get("scheduled", True):
                group["lr"] = rate * group.setdefault("initial_lr", group["lr"])
