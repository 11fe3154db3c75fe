"""Anchors and negatives (section 5.2 of the paper): how alike are different images' embeddings?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from onestyle.analysis.drawing import CHANCE, chart, key, looks_of, page_of
from onestyle.analysis.neighbours import directions
from onestyle.page import GREY

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Similarity", "compute", "draw"]

BINS, FINE = 100, 20_000  # of the histogram on [-1, 1]; for quantiles, which are right to 1e-4
QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
BLOCK = 2**24  # cosines at a time: 64 MB, and a float32 counts as far


@dataclass(frozen=True)
class Similarity:
    """Cosines of `pairs` pairs of embeddings of `dim` dimensions; shares of 100 bins on [-1, 1].

    Beside them, directions drawn at random: mean 0, std 1 / sqrt(dim).
    """

    pairs: int
    dim: int
    mean: float
    std: float
    quantiles: dict[float, float]
    shares: tuple[float, ...]

    @property
    def isotropic_std(self) -> float:
        return self.dim**-0.5

    def numbers(self) -> dict[str, Any]:
        return {
            "pairs": self.pairs,
            "dim": self.dim,
            "mean": {"value": self.mean, "chance": 0.0},
            "std": {"value": self.std, "chance": self.isotropic_std},
            "quantiles": {f"{q:g}": value for q, value in self.quantiles.items()},
            "histogram": {"from": -1.0, "to": 1.0, "shares": list(self.shares)},
        }


def compute(batches: Iterable[Tensor]) -> Similarity:
    """Batches of embeddings (V, N, D), one after the other -> cosines of all pairs (anchor,
    negative) of a batch: different images, whatever their views; each pair once."""
    counts, total, squares, dim = torch.zeros(FINE, dtype=torch.float64), 0.0, 0.0, 0
    for batch in batches:
        dim = batch.shape[-1]
        for cosine in _negatives(batch):
            counts += torch.histc(cosine, FINE, -1, 1).double().cpu()
            total += float(cosine.sum(dtype=torch.float64))
            squares += float(cosine.square_().sum(dtype=torch.float64))
    n = int(counts.sum())
    if not n:
        raise ValueError("there is no pair of different images: give batches of two or more")
    mean = total / n
    std = max(squares / n - mean**2, 0) ** 0.5
    shares = (counts.view(BINS, -1).sum(1) / n).tolist()
    return Similarity(n, dim, mean, std, _quantiles(counts.numpy() / n), tuple(shares))


def _negatives(batch: Tensor) -> Iterator[Tensor]:
    """(V, N, D) -> the cosines of an image's views and those of all later images, in parts."""
    n_views, n, _ = batch.shape
    z = directions(batch.transpose(0, 1).flatten(0, 1))  # row = c V + s
    n_rows = n_views * max(1, min(n, BLOCK // len(z) // n_views))
    image = torch.arange(n_rows, device=z.device) // n_views
    for anchors, others in (
        (part, z[(i + 1) * n_rows :]) for i, part in enumerate(z.split(n_rows))
    ):
        among = (anchors @ anchors.T).clamp_(-1, 1)
        own = image[: len(anchors)]
        yield among[own[:, None] < own]
        yield (anchors @ others.T).clamp_(-1, 1)


def _quantiles(shares: np.ndarray) -> dict[float, float]:
    """Shares of FINE bins on [-1, 1] -> the quantiles, values being spread evenly in a bin."""
    below = np.concatenate([[0], shares.cumsum()])  # each edge
    width, found = 2 / FINE, {}
    for q in QUANTILES:
        right = int(np.searchsorted(below, q))
        inside = (q - below[right - 1]) / shares[right - 1]
        found[q] = float(-1 + width * (right - 1 + inside))
    return found


def draw(results: dict[str, Similarity]) -> Figure:
    """One histogram over the other."""
    page = page_of(
        "Anchors and negatives",
        "How alike are the embeddings of different images of a batch? Shares of all pairs over "
        "their cosine. Grey: directions drawn at random, mean and std.",
    )
    looks = looks_of(results)
    means = {name: f"{name}, mean {result.mean:.2f}" for name, result in results.items()}
    key(page, [("-", look.colour, means[name]) for name, look in looks.items()])
    axes = chart(page, "share of the pairs, in %", "cosine")
    for std in sorted({result.isotropic_std for result in results.values()}):
        axes.axvspan(-std, std, color=CHANCE, alpha=0.25, lw=0)
    axes.axvline(0, color=GREY, lw=2, ls="--")
    edges = np.linspace(-1, 1, BINS + 1)
    for name, result in results.items():
        shares, colour = 100 * np.array(result.shares), looks[name].colour
        axes.stairs(shares, edges, fill=True, color=colour, alpha=0.15)
        axes.stairs(shares, edges, color=colour, lw=3)
    axes.set(xlim=(-1, 1), ylim=(0, None), xticks=(-1, -0.5, 0, 0.5, 1))
    return page.figure()
