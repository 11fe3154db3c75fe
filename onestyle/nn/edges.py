"""Edge maps: Canny's, a small network's, and those of HED.

Images are (n, 3, h, w) in [0, 1], edges (n, 1, h, w) in [0, 1].
"""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from onestyle.checkpoint import load_strictly, read_weights
from onestyle.nn.precision import full_precision

__all__ = ["HED_STAGES", "SMALL_STAGES", "EdgeNet", "blurred", "canny", "load_hed", "stretched"]

LOW, HIGH = 0.1, 0.2  # of the gradient of a grey image in [0, 1], as scikit-image has them
ROUNDING = 1e-5  # equal but for that is equal: the edge of a symmetric slope has two pixels

Stages = tuple[tuple[int, int], ...]  # (width, how many convolutions)
SMALL_STAGES: Stages = ((16, 2), (32, 2), (64, 2))
HED_STAGES: Stages = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))  # VGG-16's
BGR_MEAN = (104.00698793, 116.66876762, 122.67891434)  # what HED's weights were trained with


@torch.no_grad()
@full_precision
def canny(images: Tensor, sigma: float = 1.0) -> Tensor:
    """Canny's edges of the mean of the channels: 1 on an edge, 0 elsewhere and on the border.

    Blur, Sobel's gradient, its local maxima along itself, and of these what is steeper than LOW and
    connected to one steeper than HIGH (Canny, 1986; the steps and thresholds of scikit-image). Sums
    are written out, so that an image's edges do not depend on those it shares a batch with.
    """
    red, green, blue = images.split(1, dim=1)
    grey = blurred((red + green + blue) / 3, sigma)
    down, right = _sobel(grey, 2), _sobel(grey, 3)
    steepness = (down * down + right * right).sqrt()
    ridge = _is_ridge(steepness, down, right)
    return _connected(ridge & (steepness >= HIGH), ridge & (steepness >= LOW)).to(images.dtype)


@full_precision
def blurred(maps: Tensor, sigma: float = 1.0) -> Tensor:
    """(n, 1, h, w) -> the same, Gaussian; near the border the mean of what there is."""
    radius = int(4 * sigma + 0.5)
    weights = [math.exp(-0.5 * (k / sigma) ** 2) for k in range(-radius, radius + 1)]
    for axis in (2, 3):
        there = torch.ones_like(maps[:1])
        maps = _shifted_sum(maps, weights, axis) / _shifted_sum(there, weights, axis)
    return maps


@full_precision
def stretched(maps: Tensor) -> Tensor:
    """(n, 1, h, w) -> from 0 to 1 in each; what is constant is 0."""
    low, high = maps.amin((1, 2, 3), keepdim=True), maps.amax((1, 2, 3), keepdim=True)
    return (maps - low) / (high - low).clamp_min(1e-12)


def _shifted_sum(maps: Tensor, weights: list[float], axis: int) -> Tensor:
    """The sum of weights[k] times the map moved by k - radius along the axis, zeros beyond."""
    radius, size = len(weights) // 2, maps.shape[axis]
    ends = [radius, radius, 0, 0] if axis == 3 else [0, 0, radius, radius]
    padded = F.pad(maps, ends)
    moved = (padded.narrow(axis, k, size) * weight for k, weight in enumerate(weights))
    return sum(moved, torch.zeros_like(maps))


def _sobel(grey: Tensor, axis: int) -> Tensor:
    """The slope along an axis, times 8; beyond the border the image goes on as it ends."""
    smooth, slope = [1.0, 2.0, 1.0], [-1.0, 0.0, 1.0]
    padded = _shifted_sum(F.pad(grey, (1, 1, 1, 1), mode="replicate"), slope, axis)
    return _shifted_sum(padded, smooth, 5 - axis)[:, :, 1:-1, 1:-1]


def _is_ridge(steepness: Tensor, down: Tensor, right: Tensor) -> Tensor:
    """Where neither neighbour along the gradient is steeper, the neighbours being interpolated
    between the pixel beside and the one across; the border has too few of them."""
    steeper = down.abs() >= right.abs()
    y, x = down.sign().long(), right.sign().long()
    beside = torch.where(steeper, y, 0), torch.where(steeper, 0, x)
    least, most = torch.minimum(down.abs(), right.abs()), torch.maximum(down.abs(), right.abs())
    across = least / most.clamp_min(1e-12)

    ridge = steepness > 0
    for way in (1, -1):
        near = _at(steepness, way * beside[0], way * beside[1])
        far = _at(steepness, way * y, way * x)
        ridge &= steepness * (1 + ROUNDING) >= near * (1 - across) + far * across
    inside = torch.zeros_like(ridge)
    inside[:, :, 1:-1, 1:-1] = True
    return ridge & inside


def _at(maps: Tensor, down: Tensor, right: Tensor) -> Tensor:
    """The values so many pixels down and right of each; at the border, of the last pixel."""
    height, width = maps.shape[2:]
    row = (torch.arange(height, device=maps.device)[:, None] + down).clamp(0, height - 1)
    column = (torch.arange(width, device=maps.device) + right).clamp(0, width - 1)
    return maps.flatten(2).gather(2, (row * width + column).flatten(2)).view_as(maps)


def _connected(seeds: Tensor, allowed: Tensor) -> Tensor:
    """The allowed pixels that a walk over allowed ones, corners too, leads to from a seed."""
    found, before = seeds, torch.zeros_like(seeds)
    while not torch.equal(found, before):
        before, found = found, _grown(_grown(found, 2), 3) & allowed
    return found


def _grown(there: Tensor, axis: int) -> Tensor:
    """Booleans, and their neighbours along the axis."""
    n, grown = there.shape[axis] - 1, there.clone()
    grown.narrow(axis, 1, n).logical_or_(there.narrow(axis, 0, n))
    grown.narrow(axis, 0, n).logical_or_(there.narrow(axis, 1, n))
    return grown


class EdgeNet(nn.Module):
    """A network of HED's form (Xie and Tu, "Holistically-nested edge detection", 2015).

    Stages of 3x3 convolutions, each at half the size of the one before; each gives a map of its own
    by a 1x1 convolution; another one fuses the maps, brought to the image's size.
    """

    def __init__(self, stages: Stages = SMALL_STAGES, scale: float = 4.0):
        super().__init__()
        widths = [3, *(width for width, _ in stages)]
        self.stages = nn.ModuleList(
            _stage(before, width, depth)
            for (before, width), (_, depth) in zip(pairwise(widths), stages, strict=True)
        )
        self.sides = nn.ModuleList(nn.Conv2d(width, 1, 1) for width in widths[1:])
        self.fuse = nn.Conv2d(len(stages), 1, 1)
        self.scale = scale
        self._initialize()

    @torch.no_grad()
    def _initialize(self) -> None:
        """One pixel in ten is an edge. From the usual half a network rushes to none, and stays
        there, where a sigmoid is flat."""
        for side in self.sides:
            nn.init.normal_(side.weight, std=0.1)  # pyright: ignore
            nn.init.zeros_(side.bias)  # pyright: ignore
        nn.init.constant_(self.fuse.weight, 1 / len(self.sides))
        nn.init.constant_(self.fuse.bias, math.log(0.1 / 0.9))  # pyright: ignore

    def forward(self, images: Tensor) -> Tensor:
        mean = images.new_tensor(BGR_MEAN)[:, None, None] / 255
        x, maps = self.scale * (images.flip(1) - mean), []
        for k, (stage, side) in enumerate(zip(self.stages, self.sides, strict=True)):
            x = stage(F.max_pool2d(x, 2) if k else x)
            size = images.shape[2:]
            maps.append(F.interpolate(side(x), size, mode="bilinear", align_corners=False))
        return self.fuse(torch.cat(maps, dim=1)).sigmoid()


def _stage(before: int, width: int, depth: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for k in range(depth):
        layers += [nn.Conv2d(width if k else before, width, 3, padding=1), nn.ReLU()]
        nn.init.kaiming_normal_(layers[-2].weight)  # pyright: ignore
    return nn.Sequential(*layers)


def load_hed(path: Path | str) -> EdgeNet:
    """HED with the weights of pytorch-hed (`network-bsds500.pytorch`), or of a file of that layout.

    There stages are moduleVggOne to moduleVggFiv, from the second on with their pooling as layer 0,
    the sides moduleScoreOne to moduleScoreFiv, the fusion moduleCombine.0; module may read net.
    """
    state, ours = read_weights(Path(path)), {}
    net = EdgeNet(HED_STAGES, scale=255.0)
    for name, weight in state.items():
        ours[_our_name(name)] = weight
    load_strictly(net, ours, path)
    return net


NUMBERS = ("One", "Two", "Thr", "Fou", "Fiv")
PARTS = {
    **{f"Vgg{number}": f"stages.{k}" for k, number in enumerate(NUMBERS)},
    **{f"Score{number}": f"sides.{k}" for k, number in enumerate(NUMBERS)},
    "Combine": "fuse",
}


def _our_name(name: str) -> str:
    """moduleVggTwo.3.weight -> stages.1.2.weight; a name that is not theirs stays."""
    owner, *rest = name.split(".")
    part = PARTS.get(owner.removeprefix("module").removeprefix("net"))
    if part is None or not rest:
        return name
    if part == "fuse":
        rest = rest[1:]
    elif part.startswith("stages") and part != "stages.0" and rest[0].isdigit():
        rest = [str(int(rest[0]) - 1), *rest[1:]]
    return ".".join([part, *rest])
