"""FixMatch: what the network says of a weak view of an image is the label of a strong one, where it
is sure.

Sohn et al., "FixMatch: simplifying semi-supervised learning with consistency and confidence", 2020.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from onestyle.methods.base import Batch, Method
from onestyle.nn.ema import ema_copy, ema_update
from onestyle.nn.health import embedding_std
from onestyle.nn.precision import full_precision

__all__ = ["FixMatch", "Guess", "consistency", "guess", "largest_share"]


class Guess(NamedTuple):
    """Of n unlabelled images."""

    label: Tensor  # (n,)
    sure: Tensor  # (n,) bool: it counts


class FixMatch(Method):
    """Cross entropy on weak views of labelled images plus, `weight` times, on strong views of
    unlabelled ones, with what the network guesses from their weak view as labels.

    The first group of views is the weak one. `backbone` is the teacher's, the slow copy that is
    evaluated and that guesses nothing; with `momentum=0` it is the student as it is.
    """

    needs: ClassVar = frozenset({"label", "unlabelled"})

    def __init__(
        self,
        backbone: nn.Module,
        *,
        n_classes: int,
        threshold: float = 0.95,
        weight: float = 1.0,
        momentum: float = 0.999,
    ):
        for name, value in {"threshold": threshold, "momentum": momentum}.items():
            if not 0 <= value <= 1:
                raise ValueError(f"{name} must be in [0, 1], got {value}")
        super().__init__(ema_copy(backbone))
        self.student = backbone
        self.linear = nn.Linear(int(backbone.num_features), n_classes)  # pyright: ignore
        self.teacher_linear = ema_copy(self.linear)
        self.threshold, self.weight, self.momentum = threshold, weight, momentum

    @classmethod
    def styles(cls, style: str, n_groups: int) -> tuple[str, ...]:
        """A style belongs to the strong views: guesses are made from images as they are."""
        if n_groups != 2:
            raise ValueError(
                "FixMatch needs two groups of views, a weak and a strong one, as '1x224 + 1x224'; "
                f"got {n_groups}"
            )
        return ("weak", style)

    def loss(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor | float]]:
        few = batch.labelled
        assert few is not None and few.label is not None
        (known, weak, strong), spread = self._logits([few.views[0], *_one_weak(batch.views)])
        known, label = known.flatten(0, 1), few.label.repeat(len(known))
        guesses = guess(weak[0], self.threshold)

        supervised, unsupervised = F.cross_entropy(known, label), consistency(strong, *guesses)
        return supervised + self.weight * unsupervised, {
            "supervised": supervised.detach(),
            "unsupervised": unsupervised.detach(),
            "accuracy": (known.argmax(1) == label).double().mean(),
            "mask": guesses.sure.double().mean(),
            "largest_class": largest_share(guesses, known.shape[1]),
            "embedding_std": spread,
        }

    def _logits(self, groups: list[Tensor]) -> tuple[list[Tensor], Tensor]:
        """The student's of each group (V, n, 3, s, s), as (V, n, C), and its embedding_std.

        One pass, as the official code: BatchNorm sees labelled, weak and strong views together.
        """
        encoded = self.student(torch.cat([group.flatten(0, 1) for group in groups]))
        parts = classify(self.linear, encoded).split([group.shape[:2].numel() for group in groups])
        logits = [
            part.unflatten(0, group.shape[:2]) for part, group in zip(parts, groups, strict=True)
        ]
        return logits, embedding_std(encoded)

    def logits(self, images: Tensor) -> Tensor:
        """(n, 3, s, s), normalised -> the teacher's, (n, C)."""
        return classify(self.teacher_linear, self.backbone(images))

    @torch.no_grad()
    def after_step(self, step: int, steps: int) -> None:
        """The teacher's statistics of BatchNorm are the student's, as in the official code."""
        ema_update(self.backbone, self.student, self.momentum)
        ema_update(self.teacher_linear, self.linear, self.momentum)
        for its, seen in zip(self.backbone.buffers(), self.student.buffers(), strict=True):
            its.copy_(seen)


def _one_weak(views: list[Tensor]) -> list[Tensor]:
    weak, strong = views
    if len(weak) != 1 or weak.shape[-1] != strong.shape[-1]:
        raise ValueError(
            "FixMatch guesses from one weak view, of the strong ones' size, as '1x224 + 1x224'; "
            f"got {len(weak)} of {weak.shape[-1]} px and {strong.shape[-1]} px"
        )
    return views


@full_precision
def classify(linear: nn.Module, encoded: Tensor) -> Tensor:
    return linear(encoded)


@full_precision
@torch.no_grad()
def guess(weak: Tensor, threshold: float) -> Guess:
    """Logits (n, C) -> the likeliest class, sure where its probability is the threshold's or more.
    No gradient goes through it."""
    confidence, label = weak.softmax(-1).max(-1)
    return Guess(label, confidence >= threshold)


@full_precision
def consistency(strong: Tensor, label: Tensor, sure: Tensor) -> Tensor:
    """mean over views and ALL images of 1[sure] H(label, softmax(strong)); strong (V, n, C)."""
    each = F.cross_entropy(strong.flatten(0, 1), label.repeat(len(strong)), reduction="none")
    return torch.where(sure.repeat(len(strong)), each, 0).mean()


@torch.no_grad()
def largest_share(guesses: Guess, n_classes: int) -> Tensor:
    """Of the class that most of the sure guesses name; 1 where one class takes all, 0 if none."""
    counts = torch.bincount(guesses.label[guesses.sure], minlength=n_classes)
    return counts.max() / counts.sum().clamp_min(1)
