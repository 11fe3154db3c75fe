"""Any timm network by name, without its classifier."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import nn

from onestyle.checkpoint import load_strictly, read_weights
from onestyle.names import nearest
from onestyle.torchvision_cpu import make_importable

__all__ = ["make_backbone"]


def make_backbone(
    name: str, size: int, *, init: str = "random", options: dict[str, Any] | None = None
) -> nn.Module:
    """(n, 3, s, s) -> (n, num_features); `size` is the largest s.

    init: "random", "timm" (its pretrained weights) or a file of weights, every key of which must
    fit. A transformer gets positions for `size`, resampled for smaller views, and gives its class
    token unless `options` say otherwise.
    """
    make_importable()
    import timm

    if not timm.is_model(name):
        hint = nearest(name, timm.list_models(), at_most=3)
        raise ValueError(f"timm has no network {name!r}{hint}")
    backbone = _create(name, size, init == "timm", options or {})
    if init not in ("random", "timm"):
        load_strictly(backbone, read_weights(Path(init)), init)
    return backbone


def _create(name: str, size: int, pretrained: bool, options: dict[str, Any]) -> nn.Module:
    """With as much of `size` as the network knows what to do with."""
    import timm

    token = {"img_size": size, "dynamic_img_size": True, "global_pool": "token"}
    for extra in (token, {"img_size": size}, {}):
        try:
            return timm.create_model(name, pretrained, num_classes=0, **{**extra, **options})
        except (TypeError, AssertionError) as error:
            if not extra:
                raise ValueError(f"{name} does not take the options {options}: {error}") from error
        except Exception as error:
            if pretrained:
                reason = str(error).splitlines()[0]
                raise ValueError(f"timm's weights of {name} cannot be had: {reason}") from error
            raise
    raise AssertionError  # the last attempt returns or raises
