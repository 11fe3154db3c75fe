"""Assignments of a batch to prototypes that use all prototypes alike."""

from __future__ import annotations

import torch
from torch import Tensor

from onestyle.nn import world
from onestyle.nn.precision import full_precision

__all__ = ["sinkhorn"]


@torch.no_grad()
@full_precision
def sinkhorn(logits: Tensor, iterations: int = 3) -> Tensor:
    """Sinkhorn-Knopp on exp(logits): (n, K) -> q (n, K), each row a distribution, no gradient.

    An iteration gives every prototype the same share of the global batch, then every image a total
    of 1. As both only rescale, they are subtractions of logarithms, which cannot overflow.
    """
    log_q = world.gather(logits)  # (N, K): few numbers, and the same sums in every process
    for _ in range(iterations):
        log_q = log_q.log_softmax(dim=0)
        log_q = log_q.log_softmax(dim=1)
    return log_q[world.share(len(logits))].exp()
