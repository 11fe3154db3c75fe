"""Prototype homogeneity (section 5.2 of the paper): do images of one prototype share a domain, a
class? Followed over training."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from onestyle.analysis.drawing import chart, key, line, looks_of, page_of
from onestyle.analysis.labels import Measured, known, shuffled
from onestyle.nn.sinkhorn import sinkhorn

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Homogeneity", "Moment", "assign", "compute", "draw", "homogeneity"]


@dataclass(frozen=True)
class Moment:
    """One step of training: prototypes that have images, and the means over these."""

    step: int
    n_used: int
    purity: dict[str, Measured]  # of "domain" and "class", what is known of them
    certainty: dict[str, Measured]


@dataclass(frozen=True)
class Homogeneity:
    """n images on K prototypes, step by step."""

    n: int
    n_prototypes: int
    moments: tuple[Moment, ...]

    def numbers(self) -> dict[str, Any]:
        steps = [
            {"step": moment.step, "prototypes_used": moment.n_used}
            | {
                kind: {"purity": purity._asdict(), "certainty": moment.certainty[kind]._asdict()}
                for kind, purity in moment.purity.items()
            }
            for moment in self.moments
        ]
        return {"n": self.n, "prototypes": self.n_prototypes, "steps": steps}

    def __str__(self) -> str:
        last = self.moments[-1]
        found = [f"{kind} homogeneity {purity}" for kind, purity in last.purity.items()]
        used = f"{last.n_used} of {self.n_prototypes} prototypes have images"
        return f"at step {last.step:,} {', '.join(found)}; {used} among {self.n:,}"


def compute(
    snapshots: Iterable[tuple[int, Tensor]],
    label: Tensor | None,
    domain: Tensor | None,
    *,
    epsilon: float = 0.05,
    iterations: int = 3,
) -> Homogeneity:
    """Steps with the scores (n, K) that the same n images have then, one after the other."""
    moments, n_images, n_prototypes = [], 0, 0
    for step, scores in snapshots:
        kinds = known(len(scores), label, domain)
        if not kinds:
            raise ValueError("homogeneity needs domains or classes, and neither is known")
        prototype = assign(scores, epsilon, iterations)
        found = {kind: _beside_chance(prototype, labels) for kind, labels in kinds.items()}
        purity, certainty = ({kind: two[i] for kind, two in found.items()} for i in (0, 1))
        moments.append(Moment(step, len(prototype.unique()), purity, certainty))
        n_images, n_prototypes = scores.shape
    if not moments:
        raise ValueError("there is no snapshot to follow")
    return Homogeneity(n_images, n_prototypes, tuple(moments))


def assign(scores: Tensor, epsilon: float = 0.05, iterations: int = 3) -> Tensor:
    """Scores (n, K) -> the prototype of each image, (n,): the largest of its Sinkhorn assignment,
    in float64 and over all images at once."""
    if not bool(scores.isfinite().all()):
        raise ValueError("there are scores that are not finite numbers")
    return sinkhorn(scores.detach().double() / epsilon, iterations).argmax(dim=1)


def homogeneity(prototype: Tensor, labels: Tensor) -> tuple[float, float]:
    """Averaged over prototypes that have images, with p_l the share of label l among them: purity
    max_l p_l, and certainty 1 - H(p) / ln L, which is 0 if all L labels are as frequent."""
    n_labels = int(labels.max()) + 1
    prototype = prototype.unique(return_inverse=True)[1]
    table = torch.bincount(
        prototype * n_labels + labels, minlength=n_labels * (int(prototype.max()) + 1)
    )
    p = table.view(-1, n_labels).double()
    p /= p.sum(1, keepdim=True)
    entropy = -torch.xlogy(p, p).sum(1)
    return float(p.amax(1).mean()), 1 - float(entropy.mean()) / math.log(max(2, n_labels))


def _beside_chance(prototype: Tensor, labels: Tensor) -> list[Measured]:
    """Purity and certainty; few images on a prototype make both large, and chance as well."""
    by_chance = [homogeneity(prototype, other) for other in shuffled(labels)]
    values = zip(homogeneity(prototype, labels), *by_chance, strict=True)
    return [Measured(value, sum(others) / len(others)) for value, *others in values]


def draw(results: dict[str, Homogeneity]) -> Figure:
    """A panel for domains and one for classes, a curve a run, dashed that of shuffled labels."""
    page = page_of(
        "Prototypes",
        "How large a share of a prototype's images is of its most frequent domain, or class? "
        "Mean over the prototypes that have images. Dashed: the same with shuffled labels.",
    )
    looks = looks_of(results)
    key(page, [(look.marker, look.colour, name) for name, look in looks.items()])
    kinds = (kind for r in results.values() for m in r.moments for kind in m.purity)
    for kind in dict.fromkeys(kinds):
        axes = chart(page, f"of the most frequent {kind}", "step")
        for name, result in results.items():
            moments = [moment for moment in result.moments if kind in moment.purity]
            steps = [moment.step for moment in moments]
            axes.plot(
                steps,
                [m.purity[kind].chance for m in moments],
                "--",
                color=looks[name].colour,
                lw=3,
            )
            line(axes, steps, [m.purity[kind].value for m in moments], looks[name])
    return page.figure()
