"""Empirical risk minimisation: cross entropy on the labelled images, and nothing else."""

from __future__ import annotations

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from onestyle.methods.base import Batch, Method
from onestyle.nn.encode import encode
from onestyle.nn.health import embedding_std
from onestyle.nn.precision import full_precision

__all__ = ["ERM"]


class ERM(Method):
    """The backbone and a probe's head, BatchNorm without affine and a linear layer, trained
    together: the baseline without pretraining, and fine-tuning with it."""

    needs: ClassVar = frozenset({"label"})

    def __init__(self, backbone: nn.Module, *, n_classes: int):
        super().__init__(backbone)
        width = int(backbone.num_features)  # pyright: ignore
        self.norm = nn.BatchNorm1d(width, eps=1e-6, affine=False)
        self.linear = nn.Linear(width, n_classes)
        nn.init.trunc_normal_(self.linear.weight, std=0.01)
        nn.init.zeros_(self.linear.bias)

    def loss(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor | float]]:
        assert batch.label is not None
        encoded = encode(self.backbone, batch.views)  # (V, n, d)
        label = batch.label.repeat(len(encoded))
        normalised, logits = self._head(encoded.flatten(0, 1))
        with torch.no_grad():
            accuracy = (logits.argmax(1) == label).double().mean()
        spread = embedding_std(normalised)
        return F.cross_entropy(logits, label), {"accuracy": accuracy, "embedding_std": spread}

    @full_precision
    def _head(self, encoded: Tensor) -> tuple[Tensor, Tensor]:
        """(m, d) -> normalised (m, d), logits (m, C)."""
        normalised = self.norm(encoded)
        return normalised, self.linear(normalised)

    def logits(self, images: Tensor) -> Tensor:
        """(n, 3, s, s), normalised -> (n, C)."""
        return self._head(self.backbone(images))[1]
