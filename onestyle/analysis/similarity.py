"""Anchors and negatives (section 5.2 of the paper): how alike are different images' embeddings?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from onestyle.analysis.drawing import CHANCE, Look, chart, key, looks_of, page_of
from onestyle.analysis.labels import Measured
from onestyle.analysis.neighbours import directions
from onestyle.page import GREY

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Similarity", "compute", "draw"]

BINS, FINE = 100, 20_000  # of the histogram on [-1, 1]; for quantiles, which are right to 1e-4
QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
SPACE = 30  # between panels, whose keys come first
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

    def isotropic_quantile(self, q: float) -> float:
        """(1 + cosine) / 2 of random directions is of the Beta distribution (D - 1) / 2, twice."""
        from scipy.stats import beta

        half = (self.dim - 1) / 2
        return 2 * float(beta.ppf(q, half, half)) - 1

    def numbers(self) -> dict[str, Any]:
        return {
            "pairs": self.pairs,
            "dim": self.dim,
            "mean": {"value": self.mean, "chance": 0.0},
            "std": {"value": self.std, "chance": self.isotropic_std},
            "quantiles": {
                f"{q:g}": {"value": value, "chance": self.isotropic_quantile(q)}
                for q, value in self.quantiles.items()
            },
            "histogram": {"from": -1.0, "to": 1.0, "shares": list(self.shares)},
        }

    def __str__(self) -> str:
        return f"mean {Measured(self.mean, 0)}, std {Measured(self.std, self.isotropic_std)}"


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


def draw(results: Mapping[str, Mapping[str, Similarity]]) -> Figure:
    """A panel for each kind of embedding that the runs have, one histogram over the other."""
    page = page_of(
        "Anchors and negatives",
        "How alike are the embeddings of different images of a batch, under the views of their own "
        "training? Shares of all pairs over their cosine. Grey: directions drawn at random.",
    )
    looks = looks_of(results)
    for i, kind in enumerate(next(iter(results.values()))):
        page.y += SPACE * min(i, 1)
        shown = {name: kinds[kind] for name, kinds in results.items()}
        means = {name: f"{name}, mean {result.mean:.2f}" for name, result in shown.items()}
        key(page, [("-", look.colour, means[name]) for name, look in looks.items()])
        axes = chart(page, f"{kind}: share of the pairs, in %", "cosine")
        _histograms(axes, shown, looks)
    return page.figure()


def _histograms(axes: Axes, shown: dict[str, Similarity], looks: dict[str, Look]) -> None:
    for std in sorted({result.isotropic_std for result in shown.values()}):
        axes.axvspan(-std, std, color=CHANCE, alpha=0.25, lw=0)
    axes.axvline(0, color=GREY, lw=2, ls="--")
    edges = np.linspace(-1, 1, BINS + 1)
    for name, result in shown.items():
        shares, colour = 100 * np.array(result.shares), looks[name].colour
        axes.stairs(shares, edges, fill=True, color=colour, alpha=0.15)
        axes.stairs(shares, edges, color=colour, lw=3)
    axes.set(xlim=(-1, 1), ylim=(0, None), xticks=(-1, -0.5, 0, 0.5, 1))
