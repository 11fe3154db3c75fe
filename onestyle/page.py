"""A picture made of pictures: tiles pasted pixel by pixel, words and lines above them, one file."""

from __future__ import annotations

import io
import os
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from PIL import Image

if TYPE_CHECKING:  # matplotlib loads late: a mistyped path is told at once
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["ACCENT", "GREY", "INK", "MARGIN", "Page", "check_out", "check_place", "save"]

INK, GREY, ACCENT = "#1c1f24", "#667079", "#c2511b"
HAIRLINE = (214, 218, 224)
MARGIN = 44
SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".pdf")


class Page:
    """A white sheet of given width that is filled downwards; `y` is how far. Lengths are pixels."""

    def __init__(self, width: int):
        from matplotlib.figure import Figure

        self.width = width
        self.y: float = MARGIN
        self._tiles: list[tuple[int, int, np.ndarray]] = []
        self._charts: list[tuple[Axes, tuple[float, float, float, float]]] = []
        self._figure = Figure(dpi=72)  # a point is a pixel
        self._axes = self._figure.add_axes((0, 0, 1, 1))
        self._axes.axis("off")

    def heading(self, title: str, explanation: str) -> None:
        self.text(MARGIN, self.y + 30, title, 36, weight="bold")
        for line in textwrap.wrap(explanation, (self.width - 2 * MARGIN) // 12):
            self.y += 34
            self.text(MARGIN, self.y + 34, line, 22, GREY)
        self.y += 70

    def text(self, x, y, text, size=20, colour=INK, **style) -> None:
        """Text from x on (unless `ha` says else) that stands on y; markup in it means nothing."""
        self._axes.text(x, y, text, fontsize=size, color=colour, parse_math=False, **style)

    def tile(self, x: float, y: float, side: int, pixels: ArrayLike) -> None:
        """Paste (3, s, s) in [0, 1], with its own pixels where they are large, else smoothly."""
        array = (np.asarray(pixels).transpose(1, 2, 0) * 255 + 0.5).astype(np.uint8)
        if side % len(array) == 0:
            array = array.repeat(side // len(array), 0).repeat(side // len(array), 1)
        else:
            how = Image.Resampling.NEAREST if side > 3 * len(array) else Image.Resampling.LANCZOS
            array = np.asarray(Image.fromarray(array).resize((side, side), how))
        self._tiles.append((round(x), round(y), array))

    def panel(self, x: float, y: float, side: int, pixels: ArrayLike, title: str) -> None:
        self.text(x, y - 12, title)
        self.tile(x, y, side, pixels)

    def frame(self, x: float, y: float, side: float) -> None:
        corners = [x, x + side, x + side, x, x], [y, y, y + side, y + side, y]
        self._axes.plot(*corners, color=ACCENT, lw=3, solid_joinstyle="miter")

    def line(self, x0: float, x1: float, y: float) -> None:
        self._axes.plot([x0, x1], [y, y], color=ACCENT, lw=2.5, solid_capstyle="butt")

    def arrow(self, x0, y0, x1, y1, label="", colour=GREY) -> None:
        style: dict[str, Any] = {
            "arrowstyle": "-|>",
            "mutation_scale": 26,
            "color": colour,
            "lw": 2,
        }
        style.update(shrinkA=0, shrinkB=0)
        self._axes.annotate("", (x1, y1), (x0, y0), arrowprops=style)
        if label:
            behind = {"facecolor": "white", "edgecolor": "none", "pad": 5}
            middle = (x0 + x1) / 2, (y0 + y1) / 2
            self.text(*middle, label, 20, colour, ha="center", va="center", bbox=behind)

    def mark(self, x: float, y: float, marker: str, colour: str, size: float = 15) -> None:
        """A marker, or for "-" a short line, in the middle of (x, y)."""
        if marker == "-":
            self._axes.plot([x - size, x + size], [y, y], color=colour, lw=4)
        else:
            self._axes.plot(x, y, marker=marker, color=colour, ms=size, mew=0)

    def chart(self, x: float, y: float, width: float, height: float) -> Axes:
        """Axes whose frame, without what stands around it, has its upper left corner at (x, y)."""
        axes = self._figure.add_axes((0, 0, 1, 1))
        self._charts.append((axes, (x, y, width, height)))
        return axes

    def figure(self) -> Figure:
        sheet = np.full((round(self.y), self.width, 3), 255, np.uint8)
        for x, y, array in self._tiles:
            side = len(array)
            sheet[y - 1 : y + side + 1, x - 1 : x + side + 1] = HAIRLINE  # an edge for white images
            sheet[y : y + side, x : x + side] = array
        self._figure.set_size_inches(self.width / 72, len(sheet) / 72)
        self._axes.set(xlim=(0, self.width), ylim=(len(sheet), 0))
        for axes, (x, y, width, height) in self._charts:
            across, down = self.width, len(sheet)
            bottom = (down - y - height) / down
            axes.set_position((x / across, bottom, width / across, height / down))
        self._figure.figimage(sheet, origin="upper", zorder=-1)
        return self._figure


def check_out(out: Path, *, force: bool = False, small: bool = False) -> None:
    """Say what would keep a picture from being written, before any work is done."""
    if out.suffix.lower() not in SUFFIXES:
        raise ValueError(f"{out}: the name of a picture ends in one of {' '.join(SUFFIXES)}")
    if small and out.suffix.lower() != ".png":
        raise ValueError(f"{out}: only a .png can be small")
    check_place(out, force=force)


def check_place(out: Path, *, force: bool = False) -> None:
    """The same for any file."""
    if not out.parent.is_dir():
        raise ValueError(f"{out}: there is no folder {out.parent}")
    if out.is_dir():
        raise ValueError(f"{out} is a folder")
    if out.exists() and not force:
        raise ValueError(f"{out} exists; --force overwrites it")
    if not os.access(out.parent, os.W_OK):
        raise ValueError(f"{out}: nothing can be written into the folder {out.parent}")


def save(figure: Figure, out: Path, *, force: bool = False, small: bool = False) -> None:
    """Write the figure, whole or not at all, as `out` is called; a small PNG has 256 colours."""
    check_out(out, force=force, small=small)
    buffer = io.BytesIO()
    if out.suffix.lower() == ".pdf":
        figure.savefig(buffer, format="pdf", dpi=72)
    else:
        raw = io.BytesIO()
        figure.savefig(raw, format="rgba", dpi=72)
        image = Image.frombuffer("RGBA", figure.canvas.get_width_height(), raw.getvalue())
        image = _with_256_colours(image.convert("RGB")) if small else image.convert("RGB")
        kind = Image.registered_extensions()[out.suffix.lower()]
        image.save(buffer, kind, quality=92, optimize=small)
    part = out.with_name(f".{out.name}.{os.getpid()}.part")
    try:
        part.write_bytes(buffer.getvalue())
        part.replace(out)
    finally:
        part.unlink(missing_ok=True)


def _with_256_colours(image: Image.Image) -> Image.Image:
    image = image.quantize(palette=image.quantize(256))  # dithered
    colours = np.array(image.getpalette() or [], np.uint8).reshape(-1, 3)
    colours[np.asarray(image)[0, 0]] = 255  # the paper stays white
    image.putpalette(colours.flatten().tolist())
    return image
