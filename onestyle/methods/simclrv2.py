"""SimCLR v2: SimCLR with a deeper projector, of which fine-tuning keeps the first layer.

Chen et al., "Big self-supervised models are strong semi-supervised learners", 2020.
"""

from __future__ import annotations

from torch import Tensor, nn

from onestyle.methods.base import Batch, Method
from onestyle.methods.simclr import nt_xent
from onestyle.nn.encode import encode, project
from onestyle.nn.heads import Extended, mlp
from onestyle.nn.health import embedding_std

__all__ = ["SimCLRV2"]

FIRST_LAYER = 3  # modules: linear, BatchNorm, ReLU


class SimCLRV2(Method):
    """Views of an image attract each other, all other images repel. The backbone is probed; what is
    fine-tuned is the backbone and the projector's first layer."""

    def __init__(self, backbone: nn.Module, *, dim: int = 128, temperature: float = 0.1):
        super().__init__(backbone)
        if temperature <= 0:
            raise ValueError(f"temperature must be positive, got {temperature}; SimCLR v2's is 0.1")
        width = int(backbone.num_features)  # pyright: ignore
        self.projector = mlp(width, width, width, dim, last_norm=True)
        self.temperature = temperature

    def loss(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor | float]]:
        z = self.embeddings(batch)
        loss = nt_xent(z, self.temperature)
        return loss, {"embedding_std": embedding_std(z.flatten(0, 1))}

    def embeddings(self, batch: Batch) -> Tensor:
        return project(self.projector, encode(self.backbone, batch.views))

    def tuned(self) -> nn.Module:
        width = int(self.backbone.num_features)  # pyright: ignore
        return Extended(self.backbone, self.projector[:FIRST_LAYER], width)
