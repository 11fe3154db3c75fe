"""A view plan, which is data, and the views it makes of a batch.

    plan = ViewPlan.parse("2x224 bss + 6x128 fa", ratios=(0.02, 1))
    large, small = plan(images)                     # (2, N, 3, 224, 224) and (6, N, 3, 128, 128)

The order is fixed: style on the whole square image, then geometry (one resampling), colour, mean
and standard deviation, cutout (0 after normalisation: the mean colour).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Generator, Tensor

from onestyle.colour import Colour, ColourDraw
from onestyle.fourier import (
    BatchStylesStandardization,
    FourierAugmentation,
    StyleDraw,
    blocks,
    check_images,
    empty_in_huge_pages,
    shared_styles,
    styled_blocks,
)
from onestyle.geometry import Geometry, GeometryDraw, cut_out, warp

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SMALL_CROP = (0.05, 0.14)  # SwAV's
NO_COLOUR = Colour(jitter=0, equalize=0, posterize=0, solarize=0, grayscale=0)

# images (N, C, H, W) in [0, 1], n_views, generator -> (N, V, C, H, W) in [0, 1]
StyleFunction = Callable[[Tensor, int, Generator], Tensor]


@dataclass(frozen=True)
class Views:
    """`n` views of `size` pixels that share a style ("bss", "fa", "none" or any StyleFunction);
    "weak" ones have neither style nor colours: a crop and a flip of the image as it is.

    `colour_scope` is "batch" (one draw a view, for all images) or "image"; by default it follows
    the style: colours drawn image by image would undo BSS. `scale` is the area of the crop over
    that of the image, by default that of the plan's geometry.
    """

    n: int
    size: int
    style: str | StyleFunction = "bss"
    colour_scope: str | None = None
    scale: tuple[float, float] | None = None

    def __post_init__(self):
        if not all(isinstance(count, int) and count >= 1 for count in (self.n, self.size)):
            raise ValueError(f"Views needs whole n >= 1 and size >= 1, got {self.n}x{self.size}")
        if not (callable(self.style) or self.style in ("bss", "fa", "none", "weak")):
            legal = "bss, fa, none, weak or a callable"
            raise ValueError(f"style must be {legal}, got {self.style!r}")
        if self.colour_scope not in (None, "batch", "image"):
            raise ValueError(f"colour_scope must be batch or image, got {self.colour_scope!r}")
        if callable(self.style) and self.colour_scope is None:
            raise ValueError("a style function needs a colour_scope: batch if images share a style")
        if self.scale is not None:
            Geometry(scale=self.scale)  # refuses a wrong one now

    @property
    def scope(self) -> str:
        return self.colour_scope or ("batch" if self.style == "bss" else "image")


class ViewsDraw(NamedTuple):
    """All randomness of one group of views."""

    style: StyleDraw | int | None  # an int seeds a StyleFunction
    geometry: GeometryDraw
    colour: ColourDraw

    def of(self, share: slice) -> ViewsDraw:
        """The part for some of the images, whose own styles (of FA) lie among themselves."""
        style = self.style
        if isinstance(style, StyleDraw) and style.source.ndim == 2:
            style = StyleDraw(style.source[share] - share.start, style.ratio[share])
        geometry = GeometryDraw(*(part[share] for part in self.geometry))
        return ViewsDraw(style, geometry, self.colour.of(share, slice(None)))


@dataclass(frozen=True)
class ViewPlan:
    """Groups of views and how to make them.

    All BSS views come from one draw: V distinct styles while V <= N, one r unless
    `ratio_scope="view"`; the options of style are those of `BatchStylesStandardization`.
    """

    groups: tuple[Views, ...]
    ratios: tuple[float, float] = (0.02, 1.0)
    geometry: Geometry = field(default_factory=Geometry)
    colour: Colour = field(default_factory=Colour)
    mean: tuple[float, float, float] = IMAGENET_MEAN
    std: tuple[float, float, float] = IMAGENET_STD
    ratio_scope: str = "call"
    ratio_kind: str = "side"
    symmetric: bool = False

    def __post_init__(self):
        if not self.groups or not all(isinstance(views, Views) for views in self.groups):
            raise ValueError(f"a view plan needs groups of Views, at least one, got {self.groups}")
        right = len(self.mean) == len(self.std) == 3 and all(s > 0 for s in self.std)
        if not (right and all(math.isfinite(number) for number in (*self.mean, *self.std))):
            given = f"{self.mean} and {self.std}"
            raise ValueError(f"mean and std must be three numbers, std positive, got {given}")
        _ = self._bss  # refuses wrong ratios now, not in the first step

    @classmethod
    def parse(cls, text: str, style: Sequence[str] = (), **options) -> ViewPlan:
        """ "2x224 bss + 6x128 fa"; with the crops' areas "2x224 bss 0.3..1 + 6x128 fa 0.05..0.3".

        Sizes below the largest are small crops unless it says else. `style` names the styles of the
        groups where the text does not: ViewPlan.parse("2x224 + 6x128", style=("bss", "fa")).
        """
        number = r"(\d*\.?\d+)"
        pattern = rf"\s*(\d+)x(\d+)(?: +([a-z]+))?(?: +{number}\.\.{number})?\s*"
        found = [re.fullmatch(pattern, part) for part in text.split("+")]
        if not all(found):
            raise ValueError(f"a view plan reads like '2x224 bss + 6x128 fa', got {text!r}")
        parts = [m.groups() for m in found if m]
        words = [word for *_, word, _, _ in parts if word] or list(style)
        if len(words) != len(parts) or (style and words != list(style)):
            raise ValueError(f"each group of views needs one style, got {text!r} {(*style,)}")
        largest = max(int(size) for _, size, *_ in parts)
        groups = []
        for (n, size, _, low, high), word in zip(parts, words, strict=True):
            usual = None if int(size) == largest else SMALL_CROP
            scale = (float(low), float(high)) if low else usual
            groups.append(Views(int(n), int(size), word, scale=scale))
        return cls(tuple(groups), **options)

    @torch.no_grad()
    def __call__(self, images: Tensor, generator: Generator | None = None) -> list[Tensor]:
        """(N, 3, S, S), uint8 or in [0, 1] -> for each group (V, N, 3, size, size), normalised."""
        return self.apply(images, self.draw(len(images), generator))

    def draw(
        self, n_images: int, generator: Generator | None = None, *, shares: int = 1
    ) -> list[ViewsDraw]:
        """Everything random, for each group; it depends on N alone, not on the images.

        Where `shares` processes hold an equal part of the N images each, FA takes a part's styles
        from the part itself.
        """
        if n_images < 1:
            raise ValueError("there are no images to make views of")
        bss = self._draw_bss(n_images, generator)
        device, draws = generator.device if generator else "cpu", []
        for views in self.groups:
            style = None
            if views.style == "bss":
                style = next(bss)
            elif views.style == "fa":
                style = self._fa.draw(n_images, views.n, generator, shares=shares)
            elif callable(views.style):
                style = int(torch.randint(2**62, (), generator=generator, device=device))
            geometry = self._geometry_of(views).draw(n_images, views.n, generator)
            colour = self._colour_of(views).draw(n_images, views.n, views.scope, generator)
            draws.append(ViewsDraw(style, geometry, colour))
        return draws

    def _draw_bss(self, n_images: int, generator: Generator | None) -> Iterator[StyleDraw]:
        """One draw for all BSS views, split among their groups."""
        sizes = [views.n for views in self.groups if views.style == "bss"]
        if sizes:
            index, ratio = self._bss.draw(n_images, sum(sizes), generator)
            ratios = ratio.split(sizes) if ratio.ndim else [ratio] * len(sizes)
            yield from map(StyleDraw, index.split(sizes), ratios)

    @torch.no_grad()
    def apply(
        self, images: Tensor, draws: list[ViewsDraw], group: dist.ProcessGroup | None = None
    ) -> list[Tensor]:
        """The views that `draws` describes.

        With a `group` of processes, `images` are this one's share of the batch that was drawn for
        (with as many shares): the same views come out as from the whole batch in one process.
        """
        if images.ndim != 4 or images.shape[1] != 3 or images.shape[2] != images.shape[3]:
            raise ValueError(f"views are made of (N, 3, S, S) images, got {tuple(images.shape)}")
        if images.dtype != torch.uint8:
            check_images(images)
        n = len(images) * (dist.get_world_size(group) if group else 1)
        for draw in draws:
            if len(draw.geometry.affine) != n:
                given = f"{len(draw.geometry.affine)}, to be applied to {n}"
                raise ValueError(f"the views are drawn for a number of images of {given}")
        x = images.float() / 255 if images.dtype == torch.uint8 else images.float()
        groups = zip(self.groups, draws, strict=True)
        return [self._make(x, views, draw, group) for views, draw in groups]

    def _make(
        self, x: Tensor, views: Views, draw: ViewsDraw, group: dist.ProcessGroup | None
    ) -> Tensor:
        first = len(x) * dist.get_rank(group) if group else 0
        draw, styles = draw.of(slice(first, first + len(x))), None
        if group and isinstance(draw.style, StyleDraw) and draw.style.source.ndim == 1:
            styles = shared_styles(x, draw.style.source, group)  # BSS: another process may own them
            draw = draw._replace(style=StyleDraw(torch.arange(len(styles)), draw.style.ratio))
        out = empty_in_huge_pages(x, views.n, len(x), 3, views.size, views.size)
        affine, cutout = (part.to(x.device) for part in draw.geometry)
        for block, styled in self._styled(x, views, draw.style, styles):
            flat = warp(styled.flatten(0, 1), affine[block].flatten(0, 1), views.size)
            out[:, block] = flat.unflatten(0, (-1, views.n)).transpose(0, 1)
        mean, std = (x.new_tensor(three)[:, None, None] for three in (self.mean, self.std))
        for v, view in enumerate(out):
            colour = draw.colour.of(slice(None), slice(v, v + 1))
            coloured = self._colour_of(views).apply(view[:, None], colour)[:, 0]
            torch.addcmul(-mean / std, coloured, 1 / std, out=view)
            cut_out(view, cutout[:, v])
        return out

    def _styled(
        self, x: Tensor, views: Views, draw: StyleDraw | int | None, styles: Tensor | None
    ) -> Iterator[tuple[slice, Tensor]]:
        """Blocks of images and their views (b, V, 3, S, S) before any crop."""
        if isinstance(draw, StyleDraw):
            options = {"ratio_kind": self.ratio_kind, "symmetric": self.symmetric}
            yield from styled_blocks(x, *draw, styles=styles, **options)
        elif callable(views.style):
            assert isinstance(draw, int)
            generator = torch.Generator(x.device).manual_seed(draw)
            styled = views.style(x.clone(), views.n, generator)
            legal = (len(x), views.n, *x.shape[1:])
            if styled.shape != legal:
                raise ValueError(f"a style must give views {legal}, got {tuple(styled.shape)}")
            check_images(styled.flatten(0, 1))
            styled = styled.float()
            yield from ((block, styled[block]) for block in blocks(x, views.n))
        else:
            plain = x[:, None].expand(-1, views.n, -1, -1, -1)
            yield from ((block, plain[block]) for block in blocks(x, views.n))

    def _geometry_of(self, views: Views) -> Geometry:
        weaker = {"rotation": 0.0, "cutout": 0.0} if views.style == "weak" else {}
        return replace(self.geometry, scale=views.scale or self.geometry.scale, **weaker)

    def _colour_of(self, views: Views) -> Colour:
        return NO_COLOUR if views.style == "weak" else self.colour

    @property
    def _bss(self) -> BatchStylesStandardization:
        options = {"ratio_kind": self.ratio_kind, "symmetric": self.symmetric}
        return BatchStylesStandardization(self.ratios, ratio_scope=self.ratio_scope, **options)

    @property
    def _fa(self) -> FourierAugmentation:
        return FourierAugmentation(
            self.ratios, ratio_kind=self.ratio_kind, symmetric=self.symmetric
        )
