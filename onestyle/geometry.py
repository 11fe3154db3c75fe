"""Geometry, of its own for every image and view: crop, flip and rotation in one resampling; cutout.

N images, V views. Coordinates are those of `grid_sample`: -1..1 across the image, from its border
to its border (align_corners=False).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

_TRIES = 10  # crops drawn at once; the first that fits is taken, as torchvision's loop does


class GeometryDraw(NamedTuple):
    """The random part, on the CPU."""

    affine: Tensor  # (N, V, 2, 3): from a pixel of the view to its place in the image
    cutout: Tensor  # (N, V, 4): top, left, bottom, right in -1..1; an empty box where there is none


@dataclass(frozen=True)
class Geometry:
    """Strengths and probabilities: the paper names the operations, docs/views.md the numbers."""

    scale: tuple[float, float] = (0.14, 1.0)  # area of the crop over that of the image
    aspect: tuple[float, float] = (3 / 4, 4 / 3)  # width over height of the crop
    horizontal_flip: float = 0.5
    vertical_flip: float = 0.0
    rotation: float = 0.5
    degrees: float = 15.0
    quarter_turns: bool = False  # then a turn by 0, 90, 180 or 270 degrees as well
    cutout: float = 0.5
    cutout_side: tuple[float, float] = (0.1, 0.4)  # over the side of the view

    def __post_init__(self):
        for name in ("horizontal_flip", "vertical_flip", "rotation", "cutout"):
            _require(0 <= getattr(self, name) <= 1, self, name, "a probability in [0, 1]")
        for name in ("scale", "cutout_side"):
            low, high = getattr(self, name)
            _require(0 < low <= high <= 1, self, name, "0 < low <= high <= 1")
        low, high = self.aspect
        _require(0 < low <= high < math.inf, self, "aspect", "0 < low <= high")
        _require(0 <= self.degrees <= 180, self, "degrees", "in [0, 180]")

    def draw(self, n_images: int, n_views: int, generator: Generator | None = None) -> GeometryDraw:
        """Everything random, for every image and view."""
        device = generator.device if generator else "cpu"

        def uniform(low, high, *more):
            empty = torch.empty(n_images, n_views, *more, dtype=torch.float32, device=device)
            return empty.uniform_(low, high, generator=generator).cpu()

        def coin(probability):
            return uniform(0, 1) < probability

        log_aspect = uniform(*map(math.log, self.aspect), _TRIES)
        size = _crop_size(uniform(*self.scale, _TRIES), log_aspect)
        angle = torch.where(coin(self.rotation), uniform(-self.degrees, self.degrees), 0)
        turns = uniform(0, 4).floor() if self.quarter_turns else torch.zeros_like(angle)
        reach = torch.where(turns[..., None] % 2 == 1, size.flip(-1), size)  # of a turned box
        centre, angle = uniform(-1, 1, 2) * (1 - reach), angle + 90 * turns
        flip = torch.stack([coin(self.horizontal_flip), coin(self.vertical_flip)], -1)
        affine = _affine(size, centre, angle.deg2rad(), flip)
        side = torch.where(coin(self.cutout), uniform(*self.cutout_side), 0)[..., None]
        middle = uniform(-1, 1, 2)
        return GeometryDraw(affine, torch.cat([middle - side, middle + side], -1))


def warp(images: Tensor, affine: Tensor, size: int) -> Tensor:
    """(M, C, H, W), (M, 2, 3) -> (M, C, size, size), bilinear; beyond the border, its mirror."""
    places = _places(size, images.device)[:, None]
    in_x, in_y, shift = affine.to(images)[:, None].unbind(-1)  # (M, 1, 2) each
    grid = (in_y * places + shift)[:, :, None] + (in_x * places)[:, None]  # (M, size, size, 2)
    return F.grid_sample(images, grid, padding_mode="reflection", align_corners=False)


def cut_out(views: Tensor, boxes: Tensor) -> Tensor:
    """Fill the box (..., 4) of each view (..., C, s, s) with 0, in place."""
    places = _places(views.shape[-1], views.device)
    top, left, bottom, right = boxes.to(views.device)[..., None].unbind(-2)
    rows = (top <= places) & (places < bottom)
    columns = (left <= places) & (places < right)
    return views.masked_fill_((rows[..., :, None] & columns[..., None, :]).unsqueeze(-3), 0)


def _places(size: int, device: torch.device) -> Tensor:
    """The centres of `size` pixels across -1..1."""
    return (2 * torch.arange(size, device=device, dtype=torch.float32) + 1) / size - 1


def _crop_size(area: Tensor, log_aspect: Tensor) -> Tensor:
    """(N, V, tries) twice -> width, height (N, V, 2) of the first that fits, else the image's."""
    aspect = log_aspect.exp()
    sizes = torch.stack([(area * aspect).sqrt(), (area / aspect).sqrt()], -1)
    whole = torch.ones_like(sizes[..., :1, :])
    sizes = torch.cat([sizes, whole], -2)
    first = (sizes <= 1).all(-1).byte().argmax(-1)
    return sizes.take_along_dim(first[..., None, None], -2).squeeze(-2)


def _affine(size: Tensor, centre: Tensor, angle: Tensor, flip: Tensor) -> Tensor:
    """place in image = R(angle) diag(size, flipped) place in view + centre, as (N, V, 2, 3)."""
    cos, sin = angle.cos(), angle.sin()
    rotation = torch.stack([torch.stack([cos, -sin], -1), torch.stack([sin, cos], -1)], -2)
    scaled = rotation * torch.where(flip, -size, size)[..., None, :]
    return torch.cat([scaled, centre[..., None]], -1)


def _require(holds: bool, owner: object, name: str, legal: str) -> None:
    if not holds:
        given = getattr(owner, name)
        raise ValueError(f"{type(owner).__name__}.{name} must be {legal}, got {given!r}")
