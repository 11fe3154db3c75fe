"""MSN, masked siamese networks (section 3.3 and appendix B of the paper)."""

from __future__ import annotations

import math
from functools import partial

import torch
from torch import Tensor, nn

from onestyle.methods.base import Batch, Method
from onestyle.nn import masking, world
from onestyle.nn.ema import ema_copy, ema_update
from onestyle.nn.encode import encode, project, unit
from onestyle.nn.heads import mlp
from onestyle.nn.health import embedding_std, prototypes_used
from onestyle.nn.precision import full_precision
from onestyle.nn.sinkhorn import sinkhorn

__all__ = ["MSN", "cross_entropy", "entropy_gap", "log_probabilities"]


class MSN(Method):
    """A student that sees some patches of a view predicts to which prototypes its teacher assigns a
    whole view of the image. A whole view is assigned as one batch, which should have one style.

    The first group of views are the whole ones (targets), all others the masked ones (anchors).
    `backbone` is the teacher's. With `hidden_dim=0` class tokens are compared, without a projector.
    """

    def __init__(
        self,
        backbone: nn.Module,
        *,
        dim: int = 384,
        prototypes: int = 128,
        temperature: float = 0.1,
        target_temperature: float = 0.025,
        iterations: int = 3,
        memax_weight: float = 1.0,
        drop: float = 0.3,
        momentum: float = 0.995,
        hidden_dim: int = 2048,
    ):
        for name, value in {
            "temperature": temperature,
            "target_temperature": target_temperature,
        }.items():
            if value <= 0:
                raise ValueError(f"{name} must be positive, got {value}")
        student = masking.transformer(backbone, "MSN")
        width = student.num_features
        if not hidden_dim and dim != width:
            raise ValueError(f"without a projector dim is the backbone's {width}, got {dim}")
        super().__init__(ema_copy(student))
        self.student = student
        self.projector = nn.Identity()
        if hidden_dim:
            self.projector = mlp(width, hidden_dim, hidden_dim, dim, activation=nn.GELU)
        self.teacher_projector = ema_copy(self.projector)
        self.prototypes = nn.Parameter(torch.empty(prototypes, dim).uniform_(-1, 1) / dim**0.5)
        self.prototypes.no_adapt = True  # pyright: ignore  # as official: only their direction counts
        self.temperature, self.target_temperature = temperature, target_temperature
        self.iterations, self.memax_weight = iterations, memax_weight
        self.drop, self.momentum = drop, momentum

    @classmethod
    def styles(cls, style: str, n_groups: int) -> tuple[str, ...]:
        """BSS for the targets, which Sinkhorn sees; FA for the anchors."""
        masked = "fa" if style == "bss" else style
        return (style, *[masked] * (n_groups - 1))

    def loss(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor | float]]:
        z_target, z = self._targets_and_anchors(batch)
        log_p = log_probabilities(z, self.prototypes, self.temperature)
        with torch.no_grad():
            log_q = log_probabilities(z_target, self.prototypes, self.target_temperature)
        q = torch.stack([sinkhorn(view, self.iterations) for view in log_q])

        error, gap = cross_entropy(q, log_p), entropy_gap(log_p)
        return error + self.memax_weight * gap, {
            "cross_entropy": error.detach(),
            "entropy_gap": gap.detach(),
            "embedding_std": embedding_std(z.flatten(0, 1)),
            "prototypes_used": prototypes_used(log_q.flatten(0, 1)),
        }

    def embeddings(self, batch: Batch) -> Tensor:
        return torch.cat(self._targets_and_anchors(batch))

    def prototype_scores(self, images: Tensor) -> Tensor:
        """Of the teacher, who assigns."""
        return unit(self.teacher_projector(self.backbone(images))) @ unit(self.prototypes).T

    def _targets_and_anchors(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """The teacher's unit embeddings of whole views, the student's of masked ones."""
        targets, *anchors = batch.views
        if not anchors:
            raise ValueError(
                "MSN's first group of views are targets, the others anchors, and the plan has one "
                "group: add one, as in '2x96 bss + 10x64 fa'"
            )
        z = project(self.projector, encode(partial(self._masked, batch), anchors))
        with torch.no_grad():
            return project(self.teacher_projector, encode(self.backbone, [targets])), z

    def _masked(self, batch: Batch, images: Tensor) -> Tensor:
        """(V n, 3, s, s) -> the student's class tokens, each from patches of its own choice."""
        rows, columns = masking.grid(self.student, images)
        noise = batch.uniform(len(images) // len(batch.places), rows * columns)  # (n, V, L)
        n_keep = masking.n_kept(rows * columns, self.drop)
        keep = masking.choose(noise.transpose(0, 1).flatten(0, 1), n_keep)
        return masking.encode_patches(self.student, images, keep)[:, 0]

    def after_step(self, step: int, steps: int) -> None:
        ema_update(self.backbone, self.student, self.momentum)
        ema_update(self.teacher_projector, self.projector, self.momentum)


@full_precision
def log_probabilities(z: Tensor, prototypes: Tensor, temperature: float) -> Tensor:
    """log softmax(z . C / tau): z (V, n, D) of unit length, C (K, D) made so -> (V, n, K)."""
    return (z @ unit(prototypes).T / temperature).log_softmax(dim=-1)


@full_precision
def cross_entropy(q: Tensor, log_p: Tensor) -> Tensor:
    """H(q, p), averaged over targets q (T, n, K), anchors p (M, n, K) and images."""
    return -(q.mean(0) * log_p.mean(0)).sum(-1).mean()  # linear in both


@full_precision
def entropy_gap(log_p: Tensor) -> Tensor:
    """ln K - H(mean p over all anchors of all processes): 0 if all prototypes serve alike."""
    p = world.mean(log_p.exp().mean((0, 1)))
    return math.log(len(p)) + (p * p.clamp_min(1e-12).log()).sum()
