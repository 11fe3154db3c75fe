"""Pictures of what the styles do: FA beside BSS, the reach of the ratio r, and one image's way.

`compose` is pure: images in, a matplotlib figure out. `preview` is the command.
N images, V views, s x s pixels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onestyle.data import digits
from onestyle.data.images import find_images, read_image
from onestyle.page import ACCENT, GREY, MARGIN, Page, check_out, save

if TYPE_CHECKING:  # torch loads late: a mistyped path is told at once
    from matplotlib.figure import Figure
    from torch import Tensor

    from onestyle.fourier import StyleDraw

__all__ = ["PARTS", "compose", "preview"]

REACH = (0.02, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0)  # the ratios of the gallery
WAY_RATIO = 0.3  # of the explaining figure, where the caller fixes none
GAP, GROUP_GAP, END = 6, 56, 56


def preview(
    sources: Sequence[Path],
    out: Path,
    *,
    n_images: int = 5,
    n_views: int = 5,
    ratios: tuple[float, float] = (0.02, 1.0),
    seed: int = 0,
    size: int = 128,
    parts: Sequence[str] | None = None,
    force: bool = False,
    small: bool = False,
) -> str:
    """Write the picture of the sources' images, by default digits; returns what it shows."""
    check_out(out, force=force, small=small)
    if sources:
        found = find_images(sources)
        if len(found) == 1:
            alone = "a batch of one has only its own style; give two images or more"
            raise ValueError(f"{found[0]} is the only image, and {alone}")
        chosen = _spread(found, n_images)
        pixels, what = np.stack([read_image(path, size) for path in chosen]), f"of {len(found)}"
    else:
        pixels, what = digits.sample(n_images, size, seed), "embedded"

    import torch

    images = torch.from_numpy(pixels).float() / 255
    figure = compose(images, n_views=n_views, ratios=ratios, seed=seed, parts=parts)
    save(figure, out, force=force, small=small)
    what += " images" if sources else " digits"
    views = f"{n_views} view{'s' * (n_views > 1)}"
    shown = ", ".join(PARTS[part].title.lower() for part in parts or PARTS)
    return f"{len(images)} {what} in {views}: {shown}"


def compose(
    images: Tensor,
    *,
    n_views: int = 5,
    ratios: tuple[float, float] = (0.02, 1.0),
    seed: int = 0,
    parts: Sequence[str] | None = None,
) -> Figure:
    """All PARTS, or those named, one below the other, for images (N, 3, s, s) in [0, 1]."""
    import torch

    from onestyle.fourier import BatchStylesStandardization, FourierAugmentation

    generator = torch.Generator().manual_seed(seed)
    bss = BatchStylesStandardization(ratios).draw(len(images), n_views, generator)
    fa = FourierAugmentation(ratios).draw(len(images), n_views, generator)
    shown = Shown(images, n_views, ratios, fa, bss)

    page = Page(max(1200, 2 * MARGIN + shown.first_width + 2 * (GROUP_GAP + shown.group_width)))
    for part in parts or PARTS:
        page.heading(PARTS[part].title, PARTS[part].explanation)
        PARTS[part].draw(page, shown)
    return page.figure()


class Shown(NamedTuple):
    """What all parts show: images (N, 3, s, s) and how each transform drew their styles."""

    images: Tensor
    n_views: int
    ratios: tuple[float, float]
    fa: StyleDraw
    bss: StyleDraw

    @property
    def cell(self) -> int:
        """Side of a grid's cell: a whole multiple of s where that fits well."""
        gaps = 2 * MARGIN + 2 * GROUP_GAP + 2 * (self.n_views - 1) * GAP
        fit = min(192, (1720 - gaps) // (2 * self.n_views + 1))
        whole = fit // self.images.shape[-1] * self.images.shape[-1]
        return whole if whole >= 0.7 * fit else fit

    @property
    def first_width(self) -> int:
        return max(110, self.cell)  # the words above it

    @property
    def group_width(self) -> int:
        return max(360, self.n_views * (self.cell + GAP) - GAP)

    @property
    def style(self) -> int:
        """The image that is the style where one is enough: far from the first in sorted folders."""
        return len(self.images) // 2


def draw_grids(page: Page, shown: Shown) -> None:
    """Images | N x V by FA | N x V by BSS; above each column the styles that it is made with."""
    import torch

    from onestyle.fourier import transfer_style

    images, cell = shown.images, shown.cell
    (fa_index, fa_ratio), (bss_index, bss_ratio) = shown.fa, shown.bss
    low, high = fa_ratio.min().item(), fa_ratio.max().item()
    r = f"r = {low:.2f}" if low == high else f"r from {low:.2f} to {high:.2f}"
    fa, bss = (
        f"a style for every cell, {r}",
        f"a style for every column, r = {bss_ratio.mean():.2f}",
    )

    x, top, thumb = MARGIN, page.y, round(0.45 * cell)
    line = top + 92 + thumb
    page.text(x, top + 26, "Images", 27, weight="bold")
    page.text(x, line - 5, "styles", 20, GREY)
    _grid(page, x, line + 12, cell, images[:, None])
    x += shown.first_width + GROUP_GAP
    for title, caption, index, ratio in (
        ("FA", fa, fa_index, fa_ratio),
        ("BSS", bss, bss_index, bss_ratio),
    ):
        page.text(x, top + 26, title, 27, weight="bold")
        page.text(x, top + 60, caption, 20, GREY)
        for v, styles in enumerate(torch.atleast_2d(index).T):
            left, side = x + v * (cell + GAP), min(thumb, (cell + 2) // len(styles) - 2)
            start = left + (cell - len(styles) * (side + 2) + 2) // 2
            for i, k in enumerate(styles):
                page.tile(start + i * (side + 2), line - side - 5, side, images[k])
            page.line(left, left + cell, line)
        _grid(page, x, line + 12, cell, transfer_style(images, index, ratio))
        x += shown.group_width + GROUP_GAP
    page.y = line + 12 + len(images) * (cell + GAP) + END


def draw_reach(page: Page, shown: Shown) -> None:
    """One style image | images | every ratio of the gallery."""
    import torch

    from onestyle.fourier import transfer_style

    images, k = shown.images, shown.style
    content = images[_spread([i for i in range(len(images)) if i != k], 4)]
    index, ratio = torch.full((len(REACH),), k), torch.tensor(REACH, dtype=torch.float64)
    views = transfer_style(content, index, ratio, styles=images)

    cell = (page.width - 2 * MARGIN - 2 * GROUP_GAP - 7 * GAP) // (2 + len(REACH))
    top, left = page.y + 44, MARGIN + cell + GROUP_GAP
    middle = top + (len(content) - 1) * (cell + GAP) / 2
    page.text(MARGIN, middle - 14, "style", 20, GREY)
    page.tile(MARGIN, middle, cell, images[k])
    page.text(left, top - 14, "images", 20, GREY)
    _grid(page, left, top, cell, content[:, None])
    left += cell + GROUP_GAP
    _grid(page, left, top, cell, views)
    for column, r in enumerate(REACH):
        page.text(left + column * (cell + GAP), top - 14, f"r = {r:g}", 20, GREY)
    page.y = top + len(content) * (cell + GAP) + END


def draw_way(page: Page, shown: Shown) -> None:
    """Image and style image -> phase and amplitudes -> the swapped amplitude -> the result."""
    import torch

    from onestyle.fourier import transfer_style

    low, high = shown.ratios
    ratio = low if low == high else WAY_RATIO
    pair = shown.images[[0, shown.style]]
    result = transfer_style(pair[:1], torch.tensor([1]), ratio, styles=pair)[0, 0]
    phase, amplitudes, start, stop = _spectra(pair, ratio)

    side = int(min(250, (page.width - 2 * MARGIN) / 6))
    step, top = (page.width - 2 * MARGIN - side) / 3, page.y + 40
    x = [MARGIN + round(step * column) for column in range(4)]
    y = [top + round((side + 62) * row / 2) for row in range(5)]  # in half rows
    at = {
        "image": (x[0], y[1]),
        "style image": (x[0], y[4]),
        "phase": (x[1], y[0]),
        "amplitude": (x[1], y[2]),
        "its amplitude": (x[1], y[4]),
        "swapped amplitude": (x[2], y[3]),
        "result": (x[3], (y[0] + y[3]) // 2),
    }
    pixels = [*pair, phase, *amplitudes, result]
    for (title, place), picture in zip(at.items(), pixels, strict=True):
        page.panel(*place, side, picture, title)
    for title in ("amplitude", "its amplitude", "swapped amplitude"):
        left, upper = at[title]
        page.frame(left + side * start, upper + side * start, side * (stop - start))
    for start_at, end_at, label, colour in (
        ("image", "phase", "", GREY),
        ("image", "amplitude", "Fourier", GREY),
        ("style image", "its amplitude", "Fourier", GREY),
        ("amplitude", "swapped amplitude", "outside", GREY),
        ("its amplitude", "swapped amplitude", "inside", ACCENT),
        ("phase", "result", "kept", GREY),
        ("swapped amplitude", "result", "inverse", GREY),
    ):
        (x0, y0), (x1, y1) = at[start_at], at[end_at]
        page.arrow(x0 + side + 14, y0 + side / 2, x1 - 14, y1 + side / 2, label, colour)
    page.text(x[2], y[4] + side - 34, f"window: r = {ratio:g}", 20, ACCENT)
    page.y = y[4] + side + END


class Part(NamedTuple):
    title: str
    explanation: str
    draw: Callable[[Page, Shown], None]


PARTS = {
    "grids": Part(
        "One style for a whole batch",
        "Both give an image the low-frequency amplitude of another, its style. "
        "They differ in who chooses it.",
        draw_grids,
    ),
    "reach": Part(
        "How far the style reaches",
        "The swapped window is r times as wide as the spectrum: first light and colour follow, "
        "then ever finer texture.",
        draw_reach,
    ),
    "way": Part(
        "One image's way",
        "It keeps its phase, and its amplitude outside the window; inside, it takes the amplitude "
        "of the style image.",
        draw_way,
    ),
}


def _spread(items: Sequence, n: int) -> list:
    """n of the items (all, if they are fewer), evenly spread: of sorted folders some of each."""
    n = min(n, len(items))
    return [items[(2 * i + 1) * len(items) // (2 * n)] for i in range(n)]


def _grid(page: Page, x: float, y: float, cell: int, views: Tensor) -> None:
    """(N, V, 3, s, s): a row an image, a column a view."""
    for i, row in enumerate(views):
        for v, view in enumerate(row):
            page.tile(x + v * (cell + GAP), y + i * (cell + GAP), cell, view)


def _spectra(pair: Tensor, ratio: float) -> tuple[NDArray, list[NDArray], float, float]:
    """Content and style (2, 3, s, s) -> pictures of the content's phase and of three amplitudes.

    What the swap leaves out of the content's and the style's amplitude is veiled. The window's
    edges are shares of the side. Zero frequency is in the middle; phase is shown of green.
    """
    import torch
    from matplotlib import colormaps

    content, style = torch.fft.fftshift(torch.fft.fft2(pair), dim=(-2, -1))
    size, half = pair.shape[-1], int(ratio * pair.shape[-1] / 2)
    start, stop = size // 2 - half, size // 2 + half
    inside = torch.zeros(size, size, dtype=torch.bool)
    inside[start:stop, start:stop] = True
    swapped = torch.where(inside, style.abs(), content.abs())

    amplitudes = torch.stack([content.abs(), style.abs(), swapped]).log1p().mean(1)
    amplitudes = (amplitudes / amplitudes.max().clamp(min=1e-6)).numpy()
    colours = [colormaps["magma"](a)[..., :3].transpose(2, 0, 1) for a in amplitudes]
    for picture, veiled in zip(colours, (inside.numpy(), ~inside.numpy()), strict=False):
        picture[:, veiled] = 0.75 + 0.25 * picture[:, veiled]
    phase = np.repeat((content[1:2].angle() / (2 * torch.pi) + 0.5).numpy(), 3, 0)
    return phase, colours, start / size, stop / size
