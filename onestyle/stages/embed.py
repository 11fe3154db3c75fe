"""Features of images, unaugmented."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from onestyle.data.protocol import Pool
from onestyle.views import IMAGENET_MEAN, IMAGENET_STD

__all__ = ["features", "prepare"]

Three = tuple[float, ...]


def prepare(
    images: Tensor, size: int, mean: Three = IMAGENET_MEAN, std: Three = IMAGENET_STD
) -> Tensor:
    """uint8 (n, 3, S, S) -> (n, 3, size, size), normalised."""
    x = images.float() / 255
    if x.shape[-1] != size:
        x = F.interpolate(x, (size, size), mode="bilinear", antialias=True).clamp_(0, 1)
    centre, spread = (x.new_tensor(three)[:, None, None] for three in (mean, std))
    return (x - centre) / spread


@torch.inference_mode()
def features(
    network: Callable[[Tensor], Tensor],
    pool: Pool,
    size: int,
    device: torch.device | str = "cpu",
    *,
    mean: Three = IMAGENET_MEAN,
    std: Three = IMAGENET_STD,
    chunk: int = 256,
    show: Callable[[int], object] = lambda done: None,
) -> Tensor:
    """The features (n, d) of a pool's images at `size` pixels, float32 on the CPU.

    The network is to be in eval mode; images are read, and features made, a chunk at a time.
    """
    found = []
    for start in range(0, len(pool), chunk):
        places = range(start, min(start + chunk, len(pool)))
        images = torch.from_numpy(pool.images(places)).to(device)
        found.append(network(prepare(images, size, mean, std)).float().cpu())
        show(places.stop)
    return torch.cat(found)
