"""Pixels for a page: grids of views and sheets of thumbnails, as small WebP data URIs."""

from __future__ import annotations

import base64
import io
import math

import numpy as np
from numpy.typing import NDArray
from PIL import Image

__all__ = ["THUMB", "grid", "sheet", "side_of"]

THUMB, CELL, GAP = 56, 72, 2  # pixels: of a thumbnail and a view at most, between views

Pixels = NDArray[np.uint8]


def grid(views: Pixels) -> str:
    """(N, V, 3, s, s): a row an image, a column a view; transparent between them. Pixels of small
    views are made larger, whole."""
    size = views.shape[-1]
    if (times := CELL // size) > 1:
        views = views.repeat(times, 3).repeat(times, 4)
    n, n_views, _, size, _ = views.shape
    side = min(size, CELL)
    step = side + GAP
    canvas = np.zeros((n * step - GAP, n_views * step - GAP, 4), np.uint8)
    for i, row in enumerate(views):
        for v, view in enumerate(row):
            cell = canvas[i * step :, v * step :][:side, :side]
            cell[..., :3], cell[..., 3] = _resized(view, side), 255
    return _uri(Image.fromarray(canvas), quality=88)


def sheet(images: Pixels) -> tuple[str, int]:
    """(n, 3, s, s) -> one picture of all, row by row, and how many are in a row."""
    side, columns = side_of(images.shape[-1]), math.ceil(math.sqrt(len(images)))
    canvas = np.zeros((-(-len(images) // columns) * side, columns * side, 3), np.uint8)
    for i, image in enumerate(images):
        y, x = (side * at for at in divmod(i, columns))
        canvas[y : y + side, x : x + side] = _resized(image, side)
    return _uri(Image.fromarray(canvas), quality=72), columns


def side_of(size: int) -> int:
    """Of a thumbnail of images of `size` pixels."""
    return min(size, THUMB)


def _resized(image: Pixels, side: int) -> Pixels:
    """(3, s, s) -> (side, side, 3)"""
    array = image.transpose(1, 2, 0)
    if len(array) == side:
        return array
    return np.asarray(Image.fromarray(array).resize((side, side), Image.Resampling.LANCZOS))


def _uri(image: Image.Image, quality: int) -> str:
    file = io.BytesIO()
    image.save(file, "webp", quality=quality, method=6)
    return "data:image/webp;base64," + base64.b64encode(file.getvalue()).decode()
