"""The small networks after a backbone."""

from __future__ import annotations

from itertools import pairwise

from torch import nn

__all__ = ["Extended", "mlp"]


def mlp(
    *dims: int,
    norm: bool = True,
    last_norm: bool = False,
    activation: type[nn.Module] = nn.ReLU,
) -> nn.Sequential:
    """dims[0] -> ... -> dims[-1]: linear layers with BatchNorm (if `norm`) and activation between.

    A layer that a BatchNorm follows has no bias. `last_norm` ends in a BatchNorm without a shift.
    """
    layers: list[nn.Module] = []
    for k, (d_in, d_out) in enumerate(pairwise(dims), 1):
        last = k == len(dims) - 1
        normed = last_norm if last else norm
        layers.append(nn.Linear(d_in, d_out, bias=not normed))
        if normed:
            layers.append(nn.BatchNorm1d(d_out))
        if not last:
            layers.append(activation())
    if last_norm:
        layers[-1].register_parameter("bias", None)
    return nn.Sequential(*layers)


class Extended(nn.Sequential):
    """A backbone and layers after it, (n, 3, s, s) -> (n, num_features), as one network."""

    def __init__(self, backbone: nn.Module, layers: nn.Module, num_features: int):
        super().__init__(backbone, layers)
        self.num_features = num_features
