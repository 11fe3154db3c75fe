"""BatchNorm with the statistics of the global batch."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from onestyle.nn import world
from onestyle.torchvision_cpu import make_importable

__all__ = ["GlobalBatchNorm", "make_global"]


def make_global(module: nn.Module) -> nn.Module:
    """The module, with BatchNorm over the batches of all processes; alone, as it is.

    Parameters, buffers and their names stay. On CUDA the layers become torch's SyncBatchNorm, which
    works nowhere else: move the module to its device first. Use the result, not the argument.
    """
    if world.size() == 1:
        return module
    make_importable()
    from timm.layers.norm_act import BatchNormAct2d, convert_sync_batchnorm

    local = (nn.BatchNorm1d, nn.BatchNorm2d, BatchNormAct2d)
    _refuse_others(module, local)
    if any(tensor.is_cuda for tensor in (*module.parameters(), *module.buffers())):
        return convert_sync_batchnorm(module)
    for layer in module.modules():
        if type(layer) in local:
            layer.__class__ = GlobalBatchNorm  # as torch's lazy modules do: all it holds stays
    return module


def _refuse_others(module: nn.Module, local: tuple[type, ...]) -> None:
    """Layers that keep a variance, and so use that of their batch, but not in a known way."""
    for name, layer in module.named_modules():
        kind = type(layer)
        known = kind in local or isinstance(layer, (nn.SyncBatchNorm, GlobalBatchNorm))
        frozen = kind.__name__.startswith("Frozen")
        if hasattr(layer, "running_var") and not (known or frozen):
            raise ValueError(
                f"{name} is a {kind.__name__}, whose batch statistics cannot be shared between "
                "processes; take another backbone, or train in one process"
            )


class GlobalBatchNorm(_BatchNorm):
    """BatchNorm, and the activation that timm's BatchNormAct2d has inside, on any device."""

    def forward(self, x: Tensor) -> Tensor:  # pyright: ignore
        """(n, C, ...), the same n in every process."""
        x = self._normalised(x) if self.training else self._with_running_statistics(x)
        return self.act(self.drop(x)) if hasattr(self, "act") else x  # pyright: ignore

    def _normalised(self, x: Tensor) -> Tensor:
        full = x.to(torch.promote_types(x.dtype, torch.float32))
        axes = [axis for axis in range(x.ndim) if axis != 1]
        column = (-1, *[1] * (x.ndim - 2))

        mean = world.mean(full.mean(axes))
        centred = full - mean.view(column)
        variance = world.mean(centred.square().mean(axes))
        self._track(mean.detach(), variance.detach(), world.size() * x.numel() // x.shape[1])

        y = centred * (variance + self.eps).rsqrt().view(column)
        y = y if self.weight is None else y * self.weight.view(column)
        y = y if self.bias is None else y + self.bias.view(column)
        return y.to(x.dtype)

    @torch.no_grad()
    def _track(self, mean: Tensor, variance: Tensor, count: int) -> None:
        """As torch: the variance that is kept is the unbiased one."""
        if self.running_mean is None or self.running_var is None:
            return
        self.num_batches_tracked += 1  # pyright: ignore
        weight = 1 / float(self.num_batches_tracked) if self.momentum is None else self.momentum  # pyright: ignore
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), weight)
        unbiased = variance * count / (count - 1)
        self.running_var.lerp_(unbiased.to(self.running_var.dtype), weight)

    def _with_running_statistics(self, x: Tensor) -> Tensor:
        """Without any, those of this process's batch, as torch."""
        mean, variance = self.running_mean, self.running_var
        batch_only = mean is None
        return F.batch_norm(x, mean, variance, self.weight, self.bias, batch_only, 0.0, self.eps)
