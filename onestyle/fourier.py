"""Style by Fourier amplitude: Batch Styles Standardization and its baseline, Fourier Augmentation.

The amplitude of an image's low frequencies carries its style, the phase its content. Both swap the
former and keep the latter; they differ in who chooses the style: BSS draws ONE style image a view
for the whole batch, FA draws one for every image and view.

This file needs torch alone and may be copied into any code base.
N images, V views, C channels, H x W pixels, frequencies (u, v), window half side l.
"""

from __future__ import annotations

import ctypes
import math
import mmap
from collections.abc import Iterator
from numbers import Integral
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Generator, Tensor, nn

__all__ = ["BatchStylesStandardization", "FourierAugmentation", "StyleDraw", "transfer_style"]


class StyleDraw(NamedTuple):
    """The random part of a call: whose style, and up to which frequency."""

    source: Tensor  # index of the image that gives the style: (V,) in BSS, (N, V) in FA
    ratio: Tensor  # broadcasts with it


class _StyleTransform(nn.Module):
    """What BSS and FA share: everything but the draw."""

    def __init__(self, ratios, ratio_kind: str, symmetric: bool):
        super().__init__()
        try:
            r_min, r_max = map(float, ratios)
        except (TypeError, ValueError):
            r_min = r_max = math.nan
        if not 0 <= r_min <= r_max <= 1:
            legal = "(r_min, r_max), 0 <= r_min <= r_max <= 1"
            raise ValueError(f"ratios must be {legal}, got {ratios}")
        self.ratios = r_min, r_max
        _one_of("ratio_kind", ratio_kind, ("side", "area"))
        self.options = {"ratio_kind": ratio_kind, "symmetric": symmetric}

    def draw(self, n_images: int, n_views: int, generator: Generator | None = None) -> StyleDraw:
        raise NotImplementedError  # abstract: who chooses the style

    def forward(self, images: Tensor, n_views: int, generator: Generator | None = None) -> Tensor:
        """(N, C, H, W) in [0, 1] -> (N, V, C, H, W) in [0, 1]."""
        return self.transfer(images, self.draw(len(images), n_views, generator))

    def transfer(self, images: Tensor, draw: StyleDraw, *, styles: Tensor | None = None) -> Tensor:
        """The views that a draw describes: the same operation with nothing random."""
        return transfer_style(images, *draw, styles=styles, **self.options)

    def extra_repr(self) -> str:
        options = {"ratios": self.ratios, **self.options}
        return ", ".join(f"{name}={value!r}" for name, value in options.items())

    def _draw_ratio(self, shape: tuple[int, ...], generator: Generator | None) -> Tensor:
        options = {"generator": generator, "device": _device_of(generator)}
        uniform = torch.rand(shape, dtype=torch.float32, **options)
        r_min, r_max = torch.tensor(self.ratios, dtype=torch.float64, device="cpu")
        return torch.lerp(r_min, r_max, uniform.cpu().double())


class BatchStylesStandardization(_StyleTransform):
    """Give every image of a batch the style of ONE of them, anew for each view (the listing).

    `ratios = (r_min, r_max)`: r ~ U(r_min, r_max) is the side of the swapped window over that of
    the spectrum. One r serves all views of a call; `ratio_scope="view"` draws one a view.
    `ratio_kind="area"` reads r as a share of the area. `symmetric=True` swaps the frequencies -l..l
    in place of the listing's -l..l-1.

    Called with the `group` of the processes that share a batch (n images each, on the group's
    device), all of them use the draw of its first process: one style for the global batch.
    """

    def __init__(self, ratios, *, ratio_scope="call", ratio_kind="side", symmetric=False):
        super().__init__(ratios, ratio_kind, symmetric)
        self.ratio_scope = _one_of("ratio_scope", ratio_scope, ("call", "view"))

    def forward(
        self,
        images: Tensor,
        n_views: int,
        generator: Generator | None = None,
        group: dist.ProcessGroup | None = None,
    ) -> Tensor:
        if group is None:
            return super().forward(images, n_views, generator)
        draw = self.draw(len(images) * dist.get_world_size(group), n_views, generator)
        draw = StyleDraw(*(_of_the_first(part.to(images.device), group) for part in draw))
        here = StyleDraw(torch.arange(n_views), draw.ratio)
        return self.transfer(images, here, styles=shared_styles(images, draw.source, group))

    def draw(self, n_images: int, n_views: int, generator: Generator | None = None) -> StyleDraw:
        """index (V,): distinct images while V <= N, with replacement beyond; ratio () or (V,)."""
        _check_counts(n_images, n_views)
        device = _device_of(generator)
        if n_views <= n_images:
            index = torch.randperm(n_images, generator=generator, device=device)[:n_views]
        else:
            index = torch.randint(n_images, (n_views,), generator=generator, device=device)
        shape = (n_views,) if self.ratio_scope == "view" else ()
        return StyleDraw(index, self._draw_ratio(shape, generator))


class FourierAugmentation(_StyleTransform):
    """The baseline: a style image and a ratio of its own for every image and view."""

    def __init__(self, ratios, *, ratio_kind="side", symmetric=False):
        super().__init__(ratios, ratio_kind, symmetric)

    def draw(
        self,
        n_images: int,
        n_views: int,
        generator: Generator | None = None,
        *,
        shares: int = 1,
    ) -> StyleDraw:
        """index (N, V) from the batch, with replacement; ratio (N, V).

        Each of `shares` equal parts of the batch takes its styles from itself: processes that hold
        one each need nothing of each other.
        """
        _check_counts(n_images, n_views)
        if n_images % shares:
            raise ValueError(f"{n_images} images do not divide into {shares} equal shares")
        shape, n = (n_images, n_views), n_images // shares
        index = torch.randint(n, shape, generator=generator, device=_device_of(generator))
        index += n * torch.arange(shares, device=index.device).repeat_interleave(n)[:, None]
        return StyleDraw(index, self._draw_ratio(shape, generator))


def transfer_style(
    images: Tensor,
    index: Tensor,
    ratio: Tensor | float,
    *,
    styles: Tensor | None = None,
    ratio_kind: str = "side",
    symmetric: bool = False,
) -> Tensor:
    """Low-frequency amplitude of `styles[index]`, everything else of `images` -> (N, V, C, H, W).

    images (N, C, H, W) in [0, 1]; index (V,) or (N, V); ratio broadcasts with index; styles
    (M, C, H, W), by default the images.

    With A = |F(x)|, e^{iP} = F(x) / A and c(k) = (1[k in window] + 1[-k in window]) / 2,

        x_nv = clamp(x_n + F^-1[c (A_style - A_n) e^{iP_n}])

    The listing swaps A in a window with one edge more than its mirror image and takes the real
    part, which averages each frequency with its mirror: the same thing. Where an image's spectrum
    vanishes up to rounding (black, constant, flat images) the listing's phase is noise, ours 0.
    """
    check_images(images)
    _one_of("ratio_kind", ratio_kind, ("side", "area"))
    index, n_styles = torch.as_tensor(index), len(images if styles is None else styles)
    if index.ndim < 1 or index.shape[:-1] not in ((), (len(images),)) or not index.numel():
        legal = f"(V,) or ({len(images)}, V)"
        raise ValueError(f"index must be of shape {legal}, got {tuple(index.shape)}")
    if index.dtype not in (torch.int64, torch.int32):  # a mask or bytes would select otherwise
        raise ValueError(f"index must be of whole numbers, int64 or int32, got {index.dtype}")
    if not -n_styles <= index.min() <= index.max() < n_styles:
        raise ValueError(f"index must name some of {n_styles} styles, got {index.tolist()}")
    if styles is not None:
        check_images(styles)
        if styles.shape[1:] != images.shape[1:]:
            unlike = f"{tuple(styles.shape[1:])} and {tuple(images.shape[1:])}"
            raise ValueError(f"styles and images must be equal in (C, H, W), got {unlike}")
    like = images.new_empty(0, dtype=_at_least_float32(images))
    out = empty_in_huge_pages(like, len(images), index.shape[-1], *images.shape[1:])
    options = {"styles": styles, "ratio_kind": ratio_kind, "symmetric": symmetric}
    for _ in styled_blocks(images, index, ratio, out=out, **options):
        pass
    return out.to(images.dtype)


@torch.no_grad()
def styled_blocks(
    images: Tensor,
    index: Tensor,
    ratio: Tensor | float,
    *,
    styles: Tensor | None = None,
    ratio_kind: str = "side",
    symmetric: bool = False,
    out: Tensor | None = None,
) -> Iterator[tuple[slice, Tensor]]:
    """`transfer_style` a few images at a time: yields their slice of the batch and their views.

    Without `out` the views (b, V, C, H, W) lie in a buffer that the next block overwrites: whoever
    goes on with them block by block never needs memory for all N x V, and finds them in the cache.
    """
    x = images.detach().to(_at_least_float32(images))
    index = torch.atleast_2d(torch.as_tensor(index, device=x.device))
    half = torch.atleast_2d(window_half_side(ratio, min(x.shape[-2:]), ratio_kind))
    if any(n not in (1, of) for n, of in zip(half.shape, index.shape, strict=False)):
        shapes = f"{tuple(half.shape)} and {tuple(index.shape)}"
        raise ValueError(f"ratio must broadcast with index, got the shapes {shapes}")
    half = half.expand(len(index), -1)
    n_views = index.shape[1]
    rows = blocks(x, n_views)[0].stop if out is None else 0
    buffer = x.new_empty(rows, n_views, *x.shape[1:])
    with torch.autocast(x.device.type, enabled=False):
        swap = _Swap(x, x if styles is None else styles.to(x), index, half, symmetric)
    for chunk in blocks(x):
        with torch.autocast(x.device.type, enabled=False):
            content = swap.content(chunk)
        for inside in blocks(x[chunk], n_views):
            block = slice(chunk.start + inside.start, chunk.start + inside.stop)
            views = buffer[: inside.stop - inside.start] if out is None else out[block]
            with torch.autocast(x.device.type, enabled=False):
                swap.write(block, *(part[inside] for part in content), out=views)
            yield block, views


def shared_styles(images: Tensor, index: Tensor, group: dist.ProcessGroup) -> Tensor:
    """(n, C, H, W) in each process of the group -> all[index] (V, C, H, W) of their whole batch."""
    place = index.to(images.device) - dist.get_rank(group) * len(images)
    mine = (place >= 0) & (place < len(images))
    styles = images.new_zeros(len(place), *images.shape[1:])
    styles[mine] = images[place[mine]]
    dist.all_reduce(styles, group=group)  # every style has one owner: sums of it and zeros
    return styles


def _of_the_first(x: Tensor, group: dist.ProcessGroup) -> Tensor:
    x = x.contiguous()
    dist.broadcast(x, dist.get_global_rank(group, 0), group=group)
    return x


def blocks(images: Tensor, n_views: int = 1) -> list[slice]:
    """Slices of the batch whose views outweigh the calls they take and stay in a CPU's cache.

    A GPU asks for more at a time; there only the memory counts.
    """
    floats = 2**20 if images.device.type == "cpu" else 2**26
    size = max(1, floats // (n_views * images[0].numel()))
    n = len(images)
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


def empty_in_huge_pages(like: Tensor, *shape: int) -> Tensor:
    """`like.new_empty(shape)`; where Linux lets us ask, much memory of the CPU in huge pages.

    From 32 MB on glibc has the kernel map anew what is allocated. To touch 100 MB of it for the
    first time takes 25,000 page faults, a third of a call's time; in huge pages, 50.
    """
    out = like.new_empty(shape)
    size, page = out.numel() * out.element_size(), mmap.PAGESIZE
    if out.device.type == "cpu" and hasattr(mmap, "MADV_HUGEPAGE") and size >= 2**25:
        start = -(-out.data_ptr() // page) * page
        length = (out.data_ptr() + size - start) // page * page
        place, length = ctypes.c_void_p(start), ctypes.c_size_t(length)
        ctypes.CDLL(None).madvise(place, length, mmap.MADV_HUGEPAGE)  # refused: small pages
    return out


def window_half_side(ratio: Tensor | float, side: int, ratio_kind: str = "side") -> Tensor:
    """l = int(r side / 2), as the listing rounds it; "area" puts sqrt(r) for r.  On the CPU."""
    ratio = torch.as_tensor(ratio, dtype=torch.float64, device="cpu")
    if not ((ratio >= 0) & (ratio <= 1)).all():
        raise ValueError(f"ratio must lie in [0, 1], got {ratio.tolist()}")
    ratio = ratio.sqrt() if ratio_kind == "area" else ratio
    return (ratio * side / 2).long()


def check_images(images: Tensor) -> None:
    """Refuse what the transform would silently turn into nonsense (resizing may round past 1)."""
    if images.ndim != 4:
        raise ValueError(f"images must be (N, C, H, W), got the shape {tuple(images.shape)}")
    if 0 in images.shape:
        raise ValueError(f"images must not be empty, got the shape {tuple(images.shape)}")
    if not images.is_floating_point():
        raise ValueError(
            f"images must be floating point in [0, 1], got {images.dtype}; divide by 255"
        )
    low, high = (float(value) for value in images.detach().aminmax())
    if not (low >= -1e-6 and high <= 1 + 1e-6):  # true for NaN too
        what = "NaN" if math.isnan(low) else f"values in [{low:.7g}, {high:.7g}]"
        raise ValueError(f"images must lie in [0, 1], got {what}; normalise after the transform")


class _Swap:
    """x_n + F^-1[c (A_style - A_n) e^{iP_n}] for the images of one call, in three steps.

    index (1 or N, V) and half (1 or N, 1 or V); a first dimension of 1 is BSS: one choice for the
    whole batch, so c A_style is made once.
    """

    def __init__(self, x: Tensor, styles: Tensor, index: Tensor, half: Tensor, symmetric: bool):
        self.spectrum = _spectrum_for(x, int(half.max()))
        self.x, self.index, self.half = x, index, half.to(x.device)[..., None]  # + the channel
        self.symmetric = symmetric
        self.shared = len(index) == 1
        self.amplitude = self.spectrum.amplitude(styles[index[0]] if self.shared else styles)
        if self.shared:
            self.weight = self.spectrum.weight(self.half, symmetric)
            self.amplitude = self.weight * self.amplitude

    def content(self, chunk: slice) -> tuple[Tensor, Tensor]:
        """-A_n e^{iP_n} (in BSS times c) and e^{iP_n}, with a dimension for the views."""
        amplitude, phase = (part[:, None] for part in self.spectrum.polar(self.x[chunk]))
        return (-self.weight * amplitude if self.shared else -amplitude) * phase, phase

    def write(self, block: slice, own: Tensor, phase: Tensor, *, out: Tensor) -> None:
        """out (b, V, C, H, W) = the views of the images x[block]."""
        target = self.amplitude
        if not self.shared:
            weight = self.spectrum.weight(self.half[block], self.symmetric)
            target = weight * target[self.index[block]]
            own = weight * own
        change = torch.addcmul(own, target, phase)
        self.spectrum.add_inverse(self.x[block, None], change, out)
        out.clamp_(0, 1)


def _spectrum_for(x: Tensor, reach: int) -> _Spectrum:
    """The cheaper of the two ways back for windows up to `reach`; the factors are measured."""
    h, w = x.shape[-2:]
    by_fft = 2.5 * h * w * math.log2(h * w)  # floating-point operations an image
    by_products = 4 * (reach + 1) * w * (2 * (reach + 1) + h)
    # Products in bfloat16 or TF32, if the user allows them, are too coarse for pixels.
    backend = (torch.backends.cuda if x.is_cuda else torch.backends.mkldnn).matmul  # pyright: ignore
    exact = x.dtype == torch.float64 or backend.fp32_precision in ("none", "ieee")
    fft_is_slow = 3 if max(map(_largest_prime_factor, (h, w))) > 11 else 1
    if exact and 2 * reach < min(h, w) and by_products < 10 * fft_is_slow * by_fft:
        return _LowFrequencies(h, w, reach, x)
    return _FullSpectrum(h, w, x)


def _largest_prime_factor(n: int) -> int:
    factor = 2
    while factor * factor <= n:
        n, factor = (n // factor, factor) if n % factor == 0 else (n, factor + 1)
    return n


class _Spectrum:
    """Some frequencies (u, v) of real H x W images, and the way back.

    A spectrum is a real tensor whose last dimension runs over v as pairs (real, imaginary): real
    arithmetic is several times faster than complex arithmetic with a real factor.
    """

    size: tuple[int, int]
    u: Tensor  # the frequencies that are kept, each v twice; they broadcast together
    v: Tensor

    def amplitude(self, x: Tensor) -> Tensor:
        """A = |F(x)|, each value twice."""
        return torch.cat([_modulus(self._transform(x[block])) for block in blocks(x)])

    def polar(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """A = |F(x)|, each value twice, and e^{iP} = F(x) / A; 1 where A is only rounding."""
        f = self._transform(x)
        amplitude = _modulus(f)
        # What comes of rounding the pixels, and of rounding in float64 beside the largest |F|.
        pixels = torch.finfo(x.dtype).eps * torch.linalg.vector_norm(x, dim=(-2, -1))
        noise = pixels + 2 * torch.finfo(torch.float64).eps * x.sum((-2, -1))
        vanishes = amplitude <= noise.reshape(*noise.shape, *[1] * self.u.ndim)
        one = torch.tensor([1, 0], dtype=x.dtype, device=x.device).repeat(f.shape[-1] // 2)
        return amplitude, torch.where(vanishes, one, f / amplitude)

    def _transform(self, x: Tensor) -> Tensor:
        """F(x) (..., C, u, v), by way of float64: the phase of a weak frequency needs the digits.

        It is done once an image, not once a view. MPS has no float64.
        """
        exact = (x.cpu() if x.device.type == "mps" else x).double()
        f = self.forth(exact)
        return torch.view_as_real(f).flatten(-2).to(x.dtype).to(x.device)

    def forth(self, x: Tensor) -> Tensor:
        """Those of the frequencies F(x) of (..., H, W) that are kept."""
        raise NotImplementedError  # abstract

    def weight(self, half: Tensor, symmetric: bool) -> Tensor:
        """c(u, v) = (1[(u, v) in window] + 1[(-u, -v) in window]) / 2 for each half side l."""
        half = half.reshape(*half.shape, *[1] * self.u.ndim)

        def inside(k):
            return (-half <= k) & ((k <= half) & (half > 0) if symmetric else k < half)

        def mirrored(k, n):
            return torch.where(2 * k == -n, k, -k)  # -n / 2 and n / 2 are one frequency

        h, w = self.size
        here = inside(self.u) & inside(self.v)
        there = inside(mirrored(self.u, h)) & inside(mirrored(self.v, w))
        return (here.float() + there.float()) / 2

    def add_inverse(self, x: Tensor, change: Tensor, out: Tensor) -> None:
        """out = x + F^-1[change]."""
        raise NotImplementedError  # abstract


class _FullSpectrum(_Spectrum):
    """The half spectrum of rfft2: for wide windows."""

    def __init__(self, h: int, w: int, like: Tensor):
        self.size = h, w
        self.u = torch.fft.fftfreq(h, 1 / h, device=like.device)[:, None]
        v = torch.fft.fftfreq(w, 1 / w, device=like.device)[: w // 2 + 1]
        self.v = v.repeat_interleave(2)

    def forth(self, x: Tensor) -> Tensor:
        return torch.fft.rfft2(x)

    def add_inverse(self, x: Tensor, change: Tensor, out: Tensor) -> None:
        change = torch.view_as_complex(change.unflatten(-1, (-1, 2)))
        torch.add(x, torch.fft.irfft2(change, s=self.size), out=out)


class _LowFrequencies(_Spectrum):
    """|u|, |v| <= reach, and back by two small matrix products: for small windows, at any size.

    Rows come in pairs (u, -u), so a spectrum D is (..., 2, L, 2L), L = reach + 1, v >= 0. With
    P = D(u) + D(-u), Q = D(u) - D(-u), and v > 0 counted twice for its mirror,

        F^-1[D](y, x) = sum_u [cos(uy) Re sum_v P e^{ivx} + sin(uy) Re sum_v iQ e^{ivx}] / HW
    """

    def __init__(self, h: int, w: int, reach: int, like: Tensor):
        self.size = h, w
        k = torch.arange(reach + 1, device="cpu")
        self.rows, self.columns = torch.stack([k, -k]), reach + 1
        self.u = self.rows[..., None].to(like.device)
        self.v = k.repeat_interleave(2).to(like.device)

        def angle(n):  # 2 pi k m / n, reduced exactly before it meets floating point
            return (k[:, None] * torch.arange(n, device="cpu") % n).double() * (2 * math.pi / n)

        y, x = angle(h).T, angle(w)
        count = torch.where(k > 0, 2.0, 1.0)[:, None].double() / (h * w)
        bases = (
            torch.cat([y.cos(), y.sin()], 1),
            torch.stack([count * x.cos(), -count * x.sin()], 1).flatten(0, 1),  # Re P, Im P
            torch.stack([-count * x.sin(), -count * x.cos()], 1).flatten(0, 1),  # Re Q, Im Q
        )
        self.rows_y, self.p_x, self.q_x = (b.to(like.dtype).to(like.device) for b in bases)

    def forth(self, x: Tensor) -> Tensor:
        lines = torch.fft.rfft(x)[..., : self.columns]  # half the work of rfft2 if these are few
        return torch.fft.fft(lines, dim=-2)[..., self.rows, :]

    def weight(self, half: Tensor, symmetric: bool) -> Tensor:
        weight = super().weight(half, symmetric)
        weight[..., 1, 0, :] = 0  # u = 0 is its own mirror
        return weight

    def add_inverse(self, x: Tensor, change: Tensor, out: Tensor) -> None:
        plus, minus = change.unbind(-3)
        lines = torch.stack([(plus + minus) @ self.p_x, (plus - minus) @ self.q_x], -3)
        lines = lines.flatten(-3, -2).flatten(0, 2)  # (bVC, 2L, W)
        out.copy_(x)
        out.flatten(0, 2).baddbmm_(self.rows_y.expand(len(lines), -1, -1), lines)


def _modulus(pairs: Tensor) -> Tensor:
    """sqrt(re^2 + im^2), each value twice; several times faster than `abs` of complex numbers."""
    squares = pairs.square()
    modulus = (squares[..., 0::2] + squares[..., 1::2]).sqrt_()
    return torch.stack([modulus, modulus], -1).flatten(-2)


def _at_least_float32(images: Tensor) -> torch.dtype:
    """A phase needs the digits of float32, whatever the images or autocast say."""
    return torch.promote_types(images.dtype, torch.float32)


def _device_of(generator: Generator | None) -> torch.device:
    return generator.device if generator is not None else torch.device("cpu")


def _check_counts(n_images: int, n_views: int) -> None:
    for name, count in (("n_images", n_images), ("n_views", n_views)):
        if not (isinstance(count, Integral) and count >= 1):
            raise ValueError(f"{name} must be a whole number of at least 1, got {count!r}")


def _one_of(name: str, value: str, legal: tuple[str, ...]) -> str:
    if value not in legal:
        raise ValueError(f"{name} must be one of {', '.join(legal)}, got {value!r}")
    return value
