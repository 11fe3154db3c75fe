"""The paper's listing, written from its description: the reference of the tests and benchmarks."""

import random

import torch


class BatchStylesStandardization:
    """(N, C, H, W) in [0, 1] -> (N, V, C, H, W); `index` and `ratio` may be given, not drawn."""

    def __init__(self, ratios):
        self.ratios = ratios

    def __call__(self, images, n_views, index=None, ratio=None):
        spectrum = torch.fft.fftshift(torch.fft.fftn(images, dim=(-2, -1)), dim=(-2, -1))
        amplitude, phase = spectrum.abs(), spectrum.angle()
        if index is None:
            index = torch.randperm(len(images))[:n_views]
        if ratio is None:
            ratio = random.uniform(*self.ratios)
        own = amplitude.unsqueeze(1).repeat([1, n_views, 1, 1, 1])
        style = amplitude[index].unsqueeze(0).expand(len(images), -1, -1, -1, -1)
        h, w = images.shape[-2:]
        y, x, half = h // 2, w // 2, min(int(ratio * h / 2), int(ratio * w / 2))
        window = (..., slice(y - half, y + half), slice(x - half, x + half))
        own[window] = style[window]
        spectrum = torch.fft.ifftshift(torch.polar(own, phase.unsqueeze(1)), dim=(-2, -1))
        return torch.fft.ifftn(spectrum, dim=(-2, -1)).real.clamp(0, 1)
