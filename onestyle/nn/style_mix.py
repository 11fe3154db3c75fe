"""Images in a mixture of their own style and those of other domains (DiMAE, CycleMAE)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.fft import irfft2, rfft2

from onestyle.nn import world
from onestyle.nn.precision import full_precision
from onestyle.views import IMAGENET_MEAN, IMAGENET_STD

__all__ = ["mix_amplitude", "mix_styles", "refuse_style"]


def refuse_style(style: str, method: str) -> None:
    """Any but none: what is mixed here is not to be changed before."""
    if style != "none":
        why = "rebuilds images in the style of their domain, and mixes styles by itself"
        raise ValueError(f"style {style} is not for {method}, which {why}: take style none")


@full_precision
@torch.no_grad()
def mix_styles(images: Tensor, domain: Tensor, draw: Tensor, weight: float) -> Tensor:
    """Normalised views (n, 3, s, s) -> the same contents: the mean over all other domains e of
    `mix_amplitude(x, a_e, weight)`, where a_e is an image of domain e, of the batch of all
    processes, that `draw` (n, S), uniform in [0, 1), points to.

    A domain that is absent from the batch is left out; an image without others stays as it is.
    """
    mean, std = (images.new_tensor(three)[:, None, None] for three in (IMAGENET_MEAN, IMAGENET_STD))
    pixels = images * std + mean
    everyone, domains = world.gather(pixels), world.gather(domain)
    total, n_styles = torch.zeros_like(pixels), torch.zeros_like(pixels[:, :1, :1, :1])
    for e in range(draw.shape[1]):
        ours, theirs = (domain != e).nonzero()[:, 0], (domains == e).nonzero()[:, 0]
        if len(ours) and len(theirs):
            drawn = theirs[(draw[ours, e] * len(theirs)).long()]
            total[ours] += mix_amplitude(pixels[ours], everyone[drawn], weight)
            n_styles[ours] += 1
    mixed = torch.where(n_styles > 0, total / n_styles.clamp_min(1), pixels)
    return (mixed - mean) / std


@full_precision
def mix_amplitude(images: Tensor, styles: Tensor, weight: float) -> Tensor:
    """The image of amplitude weight A(style) + (1 - weight) A(image) over the whole spectrum and
    the phase of the image: (n, 3, h, w) in [0, 1] and as many styles -> (n, 3, h, w) in [0, 1]."""
    spectrum = rfft2(images)
    amplitude = torch.lerp(spectrum.abs(), rfft2(styles).abs(), weight)
    return irfft2(torch.polar(amplitude, spectrum.angle()), s=images.shape[-2:]).clamp(0, 1)
