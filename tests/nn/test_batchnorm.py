"""BatchNorm over several processes is BatchNorm of the global batch."""

import copy

import pytest
import torch
from timm.layers.norm_act import BatchNormAct2d, FrozenBatchNormAct2d
from torch import nn
from torch.testing import assert_close
from torch.utils._pytree import tree_map

from onestyle.nn import world
from onestyle.nn.batchnorm import GlobalBatchNorm, make_global
from tests.processes import run

N, C = 6, 3


def without_bias(layer):
    layer.register_parameter("bias", None)
    return layer


LAYERS = {
    "1d": (nn.BatchNorm1d(C), ()),
    "1d of sequences": (nn.BatchNorm1d(C), (4,)),
    "2d": (nn.BatchNorm2d(C), (4, 5)),
    "without bias": (without_bias(nn.BatchNorm1d(C)), ()),
    "without affine": (nn.BatchNorm2d(C, affine=False), (4, 5)),
    "cumulative": (nn.BatchNorm2d(C, momentum=None), (4, 5)),
    "without running statistics": (nn.BatchNorm2d(C, track_running_stats=False), (4, 5)),
    "with activation": (BatchNormAct2d(C, act_layer=nn.PReLU), (4, 5)),
}


DEVICES = ["cpu", *["cuda"] * torch.cuda.is_available()]


def two_steps(name, dtype, device):
    """Output, gradients, state, and what evaluation gives, after two batches of all processes."""
    layer, shape = LAYERS[name]
    torch.manual_seed(0)
    layer = copy.deepcopy(layer).to(device, dtype)
    for parameter in layer.parameters():
        nn.init.normal_(parameter)
    layer = make_global(layer)
    everyone = 3 * torch.randn(2, N, C, *shape, dtype=torch.double).to(device, dtype) + 5
    weights = torch.randn(N, C, *shape, dtype=torch.double).to(device, dtype)
    share = world.share(N // world.size())

    for batch in everyone:
        x = batch[share].requires_grad_()
        y = layer(x)
        (y.square() * weights[share]).sum().div(len(x)).backward()
    gradients = {k: world.mean(p.grad) for k, p in layer.named_parameters()}
    layer.eval()
    result = {
        "output": world.gather(y.detach()),
        "input gradient": world.gather(x.grad) / world.size(),
        "gradients": gradients,
        "state": dict(layer.state_dict()),
        "eval": layer(everyone[0]).detach(),
    }
    return tree_map(torch.Tensor.cpu, result)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", LAYERS)
def test_processes_share_their_statistics(name, device):
    for n, dtype, tolerance in (2, torch.double, 1e-9), (3, torch.float32, 1e-4):
        alone = two_steps(name, dtype, device)
        for together in run(two_steps, n, name, dtype, device):
            assert_close(together, alone, rtol=tolerance, atol=tolerance)


def in_half_precision():
    layer = make_global(nn.BatchNorm1d(C))
    x = torch.randn(N, C).bfloat16()
    return type(layer) is GlobalBatchNorm, layer(x).dtype, layer.running_mean.dtype


def test_half_precision_stays_outside_and_full_inside():
    assert run(in_half_precision, 2) == [(True, torch.bfloat16, torch.float32)] * 2


def refusal():
    make_global(nn.Sequential(FrozenBatchNormAct2d(C)))  # has no statistics of a batch
    with pytest.raises(ValueError, match=r"1 is a BatchNorm3d.*train in one process"):
        make_global(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm3d(C)))
    return True


def test_unknown_batch_statistics_are_refused():
    assert all(run(refusal, 2))


def test_alone_nothing_changes():
    layer = nn.BatchNorm2d(C)
    assert make_global(layer) is layer
    assert type(layer) is nn.BatchNorm2d
