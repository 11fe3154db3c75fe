"""Colour operations with an explicit scope: one draw for a whole view ("batch") or for each image.

BSS gives all images of a view ONE style; colours drawn image by image would undo that. So the scope
"batch" shares the parameters and the apply-or-skip coins among the N images of a view and draws
them anew for each view; the scope "image" draws them for every image and view.

N images, V views, h x w pixels; B images chosen from the N x V. Pixels are float32 in [0, 1].
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

__all__ = ["Colour", "ColourDraw"]

LUMA = (0.2989, 0.587, 0.114)  # ITU-R 601, rounded as in torchvision
TO_8_BITS = 255.999  # floor(TO_8_BITS * x), as torchvision's conversion
BRIGHTNESS, CONTRAST, SATURATION, HUE = range(4)
SIDE = 224  # of the views for which the literature gives sigma in pixels; others are in proportion


class ColourDraw(NamedTuple):
    """The random part, on the CPU; `of` a part of the images and views it is the same."""

    jitter: Tensor  # (N, V) bool: the coins
    equalize: Tensor
    posterize: Tensor
    solarize: Tensor
    grayscale: Tensor
    factors: Tensor  # (N, V, 4) brightness, contrast, saturation; hue shift in turns of the circle
    order: Tensor  # (N, V, 4) the jitter's four operations in their order
    blur: Tensor  # (N, V) bool
    sigma: Tensor  # (N, V) of the blur

    def of(self, images: slice, views: slice) -> ColourDraw:
        return ColourDraw(*(part[images, views] for part in self))


@dataclass(frozen=True)
class Colour:
    """The paper's colour augmentation: jitter, equalize, posterize, solarize, grayscale, in turn;
    last the blur, which the paper does not have and the literature's methods do.

    The fields named after these six are probabilities. The jitter's factors are uniform in
    [max(0, 1 - s), 1 + s], its hue shift in [-hue, hue] turns, the order of the four is random. The
    blur is Gaussian, its sigma uniform.
    """

    brightness: float = 0.8
    contrast: float = 0.8
    saturation: float = 0.8
    hue: float = 0.2
    jitter: float = 0.8
    equalize: float = 0.2
    posterize: float = 0.2
    bits: int = 4  # posterize keeps this many of 8
    solarize: float = 0.2
    threshold: float = 0.5  # solarize inverts from here on
    grayscale: float = 0.2
    # Later than the others: recipes that were saved before it stay as they are (recipes/recipe.py).
    blur: float = field(default=0.0, metadata={"later": True})
    # In pixels of a view of 224 (see `SIDE`).
    sigma: tuple[float, float] = field(default=(0.1, 2.0), metadata={"later": True})

    def __post_init__(self):
        for name in ("brightness", "contrast", "saturation"):
            self._require(0 <= getattr(self, name) < float("inf"), name, "0 or more")
        self._require(0 <= self.hue <= 0.5, "hue", "in [0, 0.5]")
        for name in ("jitter", "equalize", "posterize", "solarize", "grayscale", "blur"):
            self._require(0 <= getattr(self, name) <= 1, name, "a probability in [0, 1]")
        self._require(self.bits in range(1, 9), "bits", "one of 1, 2, ..., 8")
        self._require(0 <= self.threshold <= 1, "threshold", "in [0, 1]")
        low, high = self.sigma
        self._require(0 < low <= high < float("inf"), "sigma", "positive, the smaller one first")

    def _require(self, holds: bool, name: str, legal: str) -> None:
        if not holds:
            raise ValueError(f"Colour.{name} must be {legal}, got {getattr(self, name)!r}")

    @classmethod
    def only_jitter(cls) -> Colour:
        """The recipe of Camelyon17: no more than the jitter."""
        return cls(equalize=0, posterize=0, solarize=0, grayscale=0)

    def scaled(self, strength: float) -> Colour:
        """The same with the jitter's strengths (not its probability) times `strength`."""
        names = ("brightness", "contrast", "saturation", "hue")
        return replace(self, **{name: strength * getattr(self, name) for name in names})

    def draw(
        self, n_images: int, n_views: int, scope: str, generator: Generator | None = None
    ) -> ColourDraw:
        """All randomness of N x V images; the scope is "batch" (one draw a view) or "image"."""
        if scope not in ("batch", "image"):
            raise ValueError(f'colour scope must be "batch" or "image", got {scope!r}')
        if min(n_images, n_views) < 1:
            raise ValueError(f"nothing to draw for {n_images} images and {n_views} views")
        shape = (1 if scope == "batch" else n_images, n_views, 5 + 4 + 4)
        device = generator.device if generator else "cpu"
        options = {"generator": generator, "device": device, "dtype": torch.float32}
        uniform = torch.rand(shape, **options).cpu()
        coins, factors, keys = uniform.split((5, 4, 4), dim=-1)
        chances = (self.jitter, self.equalize, self.posterize, self.solarize, self.grayscale)
        strengths = uniform.new_tensor((self.brightness, self.contrast, self.saturation, self.hue))
        low = torch.cat(((1 - strengths[:HUE]).clamp_min(0), -strengths[HUE:]))
        high = torch.cat((1 + strengths[:HUE], strengths[HUE:]))
        coins = (coins < uniform.new_tensor(chances)).unbind(-1)
        drawn = (*coins, torch.lerp(low, high, factors), keys.argsort(-1))
        drawn += self._draw_blur(shape[:2], options)
        return ColourDraw(*(part.expand(n_images, *part.shape[1:]) for part in drawn))

    def _draw_blur(self, shape: tuple[int, int], options: dict) -> tuple[Tensor, Tensor]:
        """Coins and sigmas. Where there is no blur nothing is drawn: who comes next in line finds
        the generator as it was before there was any."""
        if not self.blur:
            none = torch.zeros(shape, device="cpu", dtype=torch.float32)
            return none.bool(), none
        coin, place = torch.rand((*shape, 2), **options).cpu().unbind(-1)
        low, high = self.sigma
        return coin < self.blur, low + (high - low) * place

    @torch.no_grad()
    def apply(self, images: Tensor, draw: ColourDraw) -> Tensor:
        """(N, V, 3, h, w) -> the same. May write into `images`: go on with what it returns."""
        _check_images(images, draw)
        x = images.flatten(0, 1)
        jitter_(x, draw)
        _replace(x, draw.equalize, equalize)
        _replace(x, draw.posterize, lambda chosen: posterize(chosen, self.bits))
        _replace(x, draw.solarize, lambda chosen: solarize(chosen, self.threshold))
        _replace(x, draw.grayscale, lambda chosen: luma(chosen).expand_as(chosen))
        scale = min(x.shape[-2:]) / SIDE
        sigma, radius = draw.sigma[draw.blur] * scale, math.ceil(4 * self.sigma[1] * scale)
        _replace(x, draw.blur, lambda chosen: blur(chosen, sigma, radius))
        return x.unflatten(0, images.shape[:2])


def luma(x: Tensor) -> Tensor:
    """(B, 3, h, w) -> (B, 1, h, w)."""
    red, green, blue = x.split(1, dim=1)
    return (LUMA[0] * red).add_(green, alpha=LUMA[1]).add_(blue, alpha=LUMA[2])


def equalize(x: Tensor) -> Tensor:
    """Spread each channel's 8-bit values evenly, by PIL's formula (as they are if too few)."""
    level = x.flatten(2).mul(TO_8_BITS).long().clamp_(0, 255)  # (B, 3, hw)
    one = torch.ones((), dtype=torch.int32, device=x.device).expand_as(level)
    count = one.new_zeros((*level.shape[:2], 256)).scatter_add_(2, level, one)
    darker = count.cumsum(2) - count
    step = torch.where(count > 0, darker, 0).amax(2, keepdim=True) // 255
    table = ((darker + step // 2) // step.clamp_min(1)).clamp_max_(255)
    table = torch.where(step > 0, table, torch.arange(256, device=x.device))
    table = table.to(x.dtype).div_(255)
    return table.gather(2, level).view_as(x)


def posterize(x: Tensor, bits: int) -> Tensor:
    """Keep the highest `bits` bits of the 8-bit value."""
    step = 2 ** (8 - bits)
    return x.mul(TO_8_BITS / step).floor_().mul_(step / 255)


def solarize(x: Tensor, threshold: float) -> Tensor:
    """Invert what is as bright as the threshold or brighter."""
    bright = torch.ge(x, threshold, out=torch.empty_like(x))
    return bright.sub_(x).abs_()  # = torch.where(bright, 1 - x, x), 15 times faster


def blur(x: Tensor, sigma: Tensor, radius: int) -> Tensor:
    """Images (B, 3, h, w) times a Gaussian of their own sigma (B,), cut off beyond `radius` pixels.

    Columns, then rows, tap by tap: as fast as a convolution with a kernel for each image, and the
    same numbers whatever the device's matrix units round to. Beyond the rim lies the mirror image.
    """
    radius = min(radius, *(side - 1 for side in x.shape[-2:]))
    steps = torch.arange(radius + 1, device=sigma.device)
    weight = (-0.5 * (steps / sigma[:, None]).square()).exp()
    weight /= weight[:, :1] + 2 * weight[:, 1:].sum(1, keepdim=True)
    weight = weight.to(x.device)[..., None, None, None]
    for axis, rim in ((3, (radius, radius, 0, 0)), (2, (0, 0, radius, radius))):
        wide, n = F.pad(x, rim, mode="reflect"), x.shape[axis]
        x = wide.narrow(axis, radius, n) * weight[:, 0]
        for step in range(1, radius + 1):
            both = wide.narrow(axis, radius - step, n) + wide.narrow(axis, radius + step, n)
            x.addcmul_(both, weight[:, step])
    return x.clamp_(0, 1)  # of rounding alone


def blend_(x: Tensor, factor: Tensor, grey: Tensor, mean_grey: Tensor) -> Tensor:
    """x <- factor x + grey luma(x) + mean_grey mean(luma(x)), clamped, with (B, 1, 1, 1) weights.

    Brightness, contrast and saturation in one: the blend with black, the mean grey, the own grey.
    """
    towards = luma(x)
    mean = towards.mean((2, 3), keepdim=True)
    towards.mul_(grey).add_(mean.mul_(mean_grey))
    return torch.addcmul(towards, x, factor, out=x).clamp_(0, 1)


def hue_mix(shift: Tensor) -> tuple[Tensor, Tensor]:
    """The weights of `rotate_hue_` for shifts in turns, (B,) -> (B, 3, 3) and (B,)."""
    third = (3 * shift).round()
    t = 6 * shift - 2 * third  # in [-1, 1] sixths of a turn
    weights = torch.stack((torch.ones_like(t), -2 * t.clamp_max(0) - 1, 2 * t.clamp_min(0) - 1), 1)
    channel = torch.arange(3, device=shift.device)
    offset = channel - channel[:, None] + third.long()[:, None, None]  # (B, to, from)
    return weights.gather(1, offset.remainder(3).flatten(1)).view(-1, 3, 3), 1 - t.abs()


def rotate_hue_(x: Tensor, mix: Tensor, level: Tensor) -> Tensor:
    """HSV's hue rotation without HSV: x_c <- clamp(mix_c . x + level (max + min), min, max).

    By t in [0, 1] sixths of a turn, x_c <- x_c - x_c+1 + (2t - 1) x_c+2 + (1 - t) (max + min),
    clamped, is the same piecewise linear function; backwards c+1 and c+2 swap their weights;
    whole thirds of a turn permute the channels.
    """
    red, green, blue = x.split(1, dim=1)
    to_red, to_green, to_blue = mix[..., None, None].unbind(2)
    high, low = x.amax(1, keepdim=True), x.amin(1, keepdim=True)
    mixed = torch.addcmul((high + low).mul_(level[:, None, None, None]), red, to_red)
    mixed.addcmul_(green, to_green).addcmul_(blue, to_blue)
    return torch.clamp(mixed, low, high, out=x)


def jitter_(x: Tensor, draw: ColourDraw) -> None:
    """Jitter the images of x (NV, 3, h, w) whose coin is on, each in its own order.

    Whatever their orders, they share one rotation: first come all blends before an image's hue,
    last those after it. Sorted by the place of the hue, the images of a blend are neighbours.
    """
    if not draw.jitter.any():
        return
    chosen, order = _on(draw.jitter), draw.order.flatten(0, 1)
    chosen = chosen[(order[chosen] == HUE).int().argmax(1).argsort()]
    order, factors = order[chosen], draw.factors.flatten(0, 1)[chosen]
    starts = (order == HUE).sum(0).cumsum(0).tolist()[:3]

    blends = order[order != HUE].view(-1, 3)
    factor = factors.gather(1, blends)
    greys = ((1 - factor) * (blends == operation) for operation in (SATURATION, CONTRAST))
    weights = torch.stack((factor, *greys))[..., None, None, None].to(x.device)
    mix, level = (weight.to(x.device) for weight in hue_mix(factors[:, HUE]))

    index = chosen.to(x.device)
    y = x.index_select(0, index)
    for blend, start in enumerate(starts):
        blend_(y[start:], *weights[:, start:, blend])
    rotate_hue_(y, mix, level)
    for blend, start in enumerate(starts):
        blend_(y[:start], *weights[:, :start, blend])
    x.index_copy_(0, index, y)


def _replace(x: Tensor, coins: Tensor, operation: Callable[[Tensor], Tensor]) -> None:
    """Apply the operation to the images of x (NV, 3, h, w) whose coin is on."""
    if coins.any():
        index = _on(coins).to(x.device)
        x.index_copy_(0, index, operation(x.index_select(0, index)))


def _on(coins: Tensor) -> Tensor:
    return coins.flatten().nonzero().squeeze(1)


def _check_images(images: Tensor, draw: ColourDraw) -> None:
    if images.ndim != 5 or images.shape[2] != 3 or images.dtype != torch.float32:
        raise ValueError(
            "colour needs float32 images of shape (N, V, 3, h, w), "
            f"got {images.dtype} of shape {tuple(images.shape)}"
        )
    if images.shape[:2] != draw.jitter.shape:
        raise ValueError(
            f"the draw is for N, V = {tuple(draw.jitter.shape)}, the images are N, V = "
            f"{tuple(images.shape[:2])}; take the draw `of` the same images and views"
        )
