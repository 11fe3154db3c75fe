"""A map of features (appendix D of the paper): t-SNE, domains in colour, classes as markers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from onestyle.analysis.drawing import COLOURS, MARKERS, key, page_of, short
from onestyle.analysis.labels import Measured, chance_agreement, known, shuffled
from onestyle.analysis.neighbours import directions, majority, neighbours
from onestyle.page import GREY, MARGIN, Page

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Embedding", "compute", "draw", "spread_rows"]

PER_KIND, MOST = 500, 5000  # images of a domain and class; of a map
SIDE, HEAD, GAP, COLUMNS = 520, 150, 40, 3  # of a panel, pixels; how many side by side
LETTERS = tuple(rf"$\mathbf{{{letter}}}$" for letter in "ABCDEFGHIJKLMNOPQRSTUVWYZ")
SHAPES = (*MARKERS, *LETTERS)  # of classes


@dataclass(frozen=True, eq=False)
class Embedding:
    """Coordinates (m, 2) of images `rows` (m,) out of n; `label` and `domain` (m,) as given.

    domain_purity and class_knn are of the mapped images' features, by their k nearest neighbours.
    """

    n: int
    rows: NDArray[np.int64]
    coordinates: NDArray[np.float32]
    label: NDArray[np.int64] | None
    domain: NDArray[np.int64] | None
    k: int
    perplexity: float
    seed: int
    domain_purity: Measured | None
    class_knn: Measured | None

    def numbers(self) -> dict[str, Any]:
        found = {"domain_purity": self.domain_purity, "class_knn_accuracy": self.class_knn}
        how = {"perplexity": self.perplexity, "seed": self.seed, "k": self.k}
        near = {name: measured._asdict() for name, measured in found.items() if measured}
        return {"n": self.n, "mapped": len(self.rows), **how, **near}

    def __str__(self) -> str:
        found = {"domain purity": self.domain_purity, "class k-NN": self.class_knn}
        words = "".join(f", {what} {measured}" for what, measured in found.items() if measured)
        return f"{len(self.rows):,} of {self.n:,} images{words}"


def compute(
    features: Tensor,
    label: Tensor | None,
    domain: Tensor | None,
    *,
    k: int = 20,
    seed: int = 0,
    most: int = MOST,
) -> Embedding:
    """Features (n, d); class and domain (n,), or None if unknown.

    At most 500 images of each domain and class, and `most` in all, always the same for the same
    labels: made of length 1, reduced to 50 principal components, mapped with perplexity 30.
    """
    kinds = known(len(features), label, domain)
    rows = spread_rows(len(features), list(kinds.values()), seed, most)
    if len(rows) < 4:
        raise ValueError(f"a map needs 4 images or more, got {len(rows)}")
    z = directions(features[rows])
    nearest = neighbours(z, k)
    kinds = {kind: labels[rows] for kind, labels in kinds.items()}
    perplexity = min(30.0, (len(rows) - 1) / 3)
    return Embedding(
        len(features),
        rows.numpy(),
        _tsne(z.cpu().numpy(), perplexity, seed),
        None if label is None else label[rows].long().cpu().numpy(),
        None if domain is None else domain[rows].long().cpu().numpy(),
        nearest.shape[1],
        perplexity,
        seed,
        _purity(nearest, kinds["domain"]) if "domain" in kinds else None,
        _accuracy(nearest, kinds["class"]) if "class" in kinds else None,
    )


def spread_rows(n: int, kinds: list[Tensor], seed: int = 0, most: int = MOST) -> Tensor:
    """At most `most` of n rows, sorted, and of each combination of labels as many as of the others,
    as far as there are so many, but at most 500."""
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(n, generator=generator)
    stratum = torch.zeros(n, dtype=torch.int64)
    for labels in kinds:
        stratum = stratum * (int(labels.max()) + 1) + labels.cpu()
    by_stratum = order[stratum[order].argsort(stable=True)]
    counts = stratum.unique(return_counts=True)[1]
    first = (counts.cumsum(0) - counts).repeat_interleave(counts)
    rank = torch.arange(n) - first  # within the stratum
    chosen = rank.argsort(stable=True)[: min(most, int((rank < PER_KIND).sum()))]
    return by_stratum[chosen].sort().values


def _purity(nearest: Tensor, domain: Tensor) -> Measured:
    same = domain[nearest] == domain[:, None]
    return Measured(float(same.double().mean()), chance_agreement(domain))


def _accuracy(nearest: Tensor, label: Tensor) -> Measured:
    def accuracy(label: Tensor) -> float:
        return float(majority(label[nearest], label).double().mean())

    by_chance = [accuracy(other) for other in shuffled(label)]
    return Measured(accuracy(label), sum(by_chance) / len(by_chance))


def _tsne(z: NDArray[np.float32], perplexity: float, seed: int) -> NDArray[np.float32]:
    """(m, d) -> (m, 2), starting from the first two principal components and a little noise, which
    alone separates features that are equal."""
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE

    with np.errstate(invalid="ignore"):  # shares of no variance: a collapsed network
        x = PCA(min(50, *z.shape), random_state=seed).fit_transform(z)
    start = np.random.default_rng(seed).normal(scale=1e-6, size=(len(z), 2))
    start[:, : x.shape[1]] += 1e-4 * x[:, :2] / max(1e-6, float(x[:, 0].std()))
    start = start.astype(np.float32)
    tsne = TSNE(perplexity=perplexity, init=start, random_state=seed)  # pyright: ignore
    return tsne.fit_transform(x)


def draw(
    results: dict[str, Embedding], *, domains: Sequence[str] = (), classes: Sequence[str] = ()
) -> Figure:
    """A map a run, side by side; names of domains and classes by their numbers."""
    columns = min(COLUMNS, len(results))
    width = 2 * MARGIN + columns * (SIDE + GAP) - GAP
    first = next(iter(results.values()))
    page = page_of(
        "Maps of features",
        f"t-SNE of {len(first.rows):,} of {first.n:,} images: colours are domains, markers "
        f"classes. Numbers are of the features: how many of the {first.k} nearest neighbours share "
        "a domain, and how often their majority has the right class; in brackets, by chance.",
        width,
    )
    hues, shapes = _present(results, "domain"), _present(results, "label")
    colours = {number: _colour(i, len(hues)) for i, number in enumerate(hues)}
    markers = {number: SHAPES[i % len(SHAPES)] for i, number in enumerate(shapes)}
    key(page, [("o", colour, _name(domains, d)) for d, colour in colours.items()])
    key(page, _key_of_classes(markers, classes))
    for i, (name, result) in enumerate(results.items()):
        x = MARGIN + i % columns * (SIDE + GAP)
        _titles(page, x, name, result)
        axes = page.chart(x, page.y + HEAD, SIDE, SIDE)
        _scatter(axes, result, colours, markers)
        if i % columns == columns - 1 or i == len(results) - 1:
            page.y += HEAD + SIDE + MARGIN
    return page.figure()


def _present(results: dict[str, Embedding], kind: str) -> list[int]:
    """The numbers of all domains ("domain") or classes ("label") of the maps."""
    given = [getattr(result, kind) for result in results.values()]
    return sorted({*np.concatenate([x for x in given if x is not None] or [[]]).tolist()})


def _colour(i: int, n: int) -> str:
    """The i-th of n: the colours of all pictures, where they suffice."""
    if n <= len(COLOURS):
        return COLOURS[i]
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    return to_hex(colormaps["turbo"](i / (n - 1)))


def _key_of_classes(markers: dict[int, str], classes: Sequence[str]) -> list[tuple[str, str, str]]:
    items = [(marker, GREY, _name(classes, c)) for c, marker in markers.items()]
    if len(items) <= len(SHAPES):
        return items
    more = f"and, with the same markers again, {len(items) - len(SHAPES):,} more"
    return [*items[: len(SHAPES)], ("", GREY, more)]


def _name(names: Sequence[str], number: int) -> str:
    return names[number] if number < len(names) else str(number)


def _titles(page: Page, x: float, name: str, result: Embedding) -> None:
    name = short(name, 48)
    page.text(x, page.y + 44, name, min(34, int(SIDE / 0.66 / len(name))), weight="bold")
    lines = {"domain purity": result.domain_purity, "class k-NN": result.class_knn}
    for i, (what, measured) in enumerate(lines.items()):
        if measured:
            words = f"{what} {measured.value:.2f} ({measured.chance:.2f})"
            page.text(x, page.y + 88 + 40 * i, words, 30, GREY)


def _scatter(axes: Axes, result: Embedding, colours: dict[int, str], markers: dict[int, str]):
    """Dots in random order, that no domain covers the others: class by class, a few at a time."""
    nothing = np.full(len(result.rows), -1)
    label = nothing if result.label is None else result.label
    domain = nothing if result.domain is None else result.domain
    order = np.random.default_rng(0).permutation(len(result.rows))
    size = max(12, min(90, 60_000 / len(order)))
    for part in np.array_split(order, 8):
        for number in np.unique(label[part]):
            some = part[label[part] == number]
            ink = [colours.get(d, GREY) for d in domain[some].tolist()]
            marker = markers.get(int(number), "o")
            style = {"s": size, "linewidths": 0.0 if marker in LETTERS else 0.4}
            axes.scatter(*result.coordinates[some].T, c=ink, marker=marker, ec="white", **style)
    axes.set(xticks=[], yticks=[], aspect="equal", adjustable="datalim", facecolor="#f7f8f9")
    for side in axes.spines.values():
        side.set_visible(False)
