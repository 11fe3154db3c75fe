"""Nearest neighbours by cosine: domain purity, k-NN accuracy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["agreement", "agreements", "directions", "knn_accuracy", "majority", "neighbours"]

BLOCK = 2**25  # cosines at a time: 128 MB
APART = 2**-20  # cosines that are closer are equal, as far as float32 can tell


def directions(features: Tensor) -> Tensor:
    """(n, d) -> float32 of length 1; a feature of length 0 stays so, at right angles to all."""
    features = features.detach().float()
    lengths = torch.linalg.vector_norm(features, dim=1)
    if n_bad := int((~lengths.isfinite()).sum()):
        raise ValueError(f"{n_bad:,} of {len(features):,} features are not finite numbers")
    return F.normalize(features, dim=1)


def neighbours(features: Tensor, k: int) -> Tensor:
    """(n, d) -> (n, min(k, n - 1)) the nearest other points by cosine, nearest first."""
    n = len(features)
    found = torch.empty(n, min(k, n - 1), dtype=torch.int64, device=features.device)
    for rows, nearest in _nearest(features, k):
        found[rows] = nearest
    return found


def agreement(features: Tensor, labels: Tensor, ks: Iterable[int]) -> dict[int, float]:
    """For each k < n, the share of a point's k nearest neighbours that have its label, averaged.
    With domains for labels this is domain purity."""
    return agreements(features, {"": labels}, ks)[""]


def agreements(
    features: Tensor, kinds: Mapping[str, Tensor], ks: Iterable[int]
) -> dict[str, dict[int, float]]:
    """The agreement of several kinds of labels, for one search of neighbours."""
    n = len(features)
    ks = sorted({k for k in ks if 0 < k < n})
    if not ks:
        raise ValueError(f"{n} images have no k neighbours each: k is from 1 to {n - 1}")
    hits = {name: features.new_zeros(ks[-1], dtype=torch.int64) for name in kinds}  # by rank
    for rows, nearest in _nearest(features, ks[-1]):
        for name, labels in kinds.items():
            hits[name] += (labels[nearest] == labels[rows][:, None]).sum(0)
    total = {name: by_rank.cumsum(0).tolist() for name, by_rank in hits.items()}
    return {name: {k: within[k - 1] / (n * k) for k in ks} for name, within in total.items()}


def knn_accuracy(
    features: Tensor, labels: Tensor, k: int = 20, *, across: Tensor | None = None
) -> float:
    """How often the majority of a point's k nearest neighbours has its label, leaving it out.

    across: domains; then a point's neighbours are sought among the other domains' points alone, so
    that only a content that is recognised in another style counts.
    """
    labels = labels.unique(return_inverse=True)[1]
    found = (
        majority(labels[near], labels[rows]).sum() for rows, near in _nearest(features, k, across)
    )
    return float(sum(found)) / len(features)


def majority(labels: Tensor, own: Tensor) -> Tensor:
    """Neighbours' labels (m, k) -> (m,): 1 if one's own (m,) has most votes, 1/j if j have them."""
    votes = labels.new_zeros(len(labels), int(max(labels.max(), own.max())) + 1)
    votes.scatter_add_(1, labels, torch.ones_like(labels))
    most = votes == votes.amax(1, keepdim=True)
    return most.gather(1, own[:, None])[:, 0] / most.sum(1)


def _nearest(
    features: Tensor, k: int, across: Tensor | None = None
) -> Iterator[tuple[Tensor, Tensor]]:
    """Some rows (m,) after others, their nearest other points (m, min(k, n - 1)), nearest first;
    with `across` (n,), those whose number there is another than the row's.

    Ties are drawn by lot: else the order of the images, often that of their domains, would decide.
    As near 1 a float32 has few numbers for lots, the images are taken in random order besides.
    """
    n = len(features)
    if n < 2 or k < 1:
        raise ValueError(f"neighbours need two images and k = 1 or more; got {n} images, k = {k}")
    kinds = torch.arange(n) if across is None else across  # a point is not its own neighbour
    k = min(k, n - int(kinds.unique(return_counts=True)[1].max()))
    if k < 1:
        raise ValueError("neighbours of other domains need images of two domains or more")
    generator = torch.Generator(features.device).manual_seed(0)
    order = torch.randperm(n, generator=generator, device=features.device)
    kinds = kinds.to(order.device)[order]
    z, n_rows = directions(features[order]), max(1, min(n, BLOCK // n))
    lots = APART * torch.rand(n_rows, n, generator=generator, device=z.device)
    block = torch.empty_like(lots)
    for start in range(0, n, n_rows):
        m = min(n_rows, n - start)
        cosine = torch.addmm(lots[:m], z[start : start + m], z.T, out=block[:m])
        cosine.masked_fill_(kinds[start : start + m, None] == kinds, -torch.inf)
        yield order[start : start + m], order[cosine.topk(k).indices]
