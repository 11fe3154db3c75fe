"""SimCLR v2 is SimCLR's equation behind three layers, the first of which is worth keeping."""

import math
from itertools import product

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from onestyle.methods import Batch
from onestyle.methods.simclrv2 import SimCLRV2


class Backbone(nn.Module):
    num_features = 6

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(48, 6))

    def forward(self, images):
        return self.layers(images)


def simclrv2(**options):
    torch.manual_seed(0)
    return SimCLRV2(Backbone(), **options).double()


def batch(n_views=2, n=5):
    generator = torch.Generator().manual_seed(0)
    views = torch.randn(n_views, n, 3, 4, 4, dtype=torch.double, generator=generator)
    return Batch([views], torch.arange(n), 0, generator)


def test_the_loss_from_views_to_number():
    method, n, T = simclrv2(dim=4), 5, 0.1
    loss, _ = method.loss(batch())
    images = batch().views[0].flatten(0, 1)
    z = F.normalize(method.projector(method.backbone(images)), dim=1).detach().unflatten(0, (2, n))
    grid, terms = list(product(range(2), range(n))), []
    for s, c in grid:
        others = [math.exp(z[s, c] @ z[o] / T) for o in grid if o != (s, c)]
        terms.append(-math.log(math.exp(z[s, c] @ z[1 - s, c] / T) / sum(others)))
    assert_close(loss, torch.tensor(terms).double().mean())


def test_the_projector_has_three_layers_with_batchnorm():
    torch.manual_seed(0)
    layers = list(SimCLRV2(Backbone()).projector)
    names = ["Linear", "BatchNorm1d", "ReLU"] * 2 + ["Linear", "BatchNorm1d"]
    assert [type(layer).__name__ for layer in layers] == names
    linear = [layer for layer in layers if isinstance(layer, nn.Linear)]
    assert [tuple(layer.weight.shape) for layer in linear] == [(6, 6), (6, 6), (128, 6)]
    assert all(layer.bias is None for layer in linear)  # BatchNorm would take it away
    assert [layers[k].bias is None for k in (1, 4, 7)] == [False, False, True]


def test_what_is_tuned_is_the_backbone_and_the_first_layer():
    method, images = simclrv2(dim=4), batch().views[0][0]
    method.loss(batch())  # running statistics that are not those of the beginning
    method.eval()
    tuned, (linear, norm) = method.tuned(), method.projector[:2]
    h = F.linear(method.backbone(images), linear.weight)
    h = (h - norm.running_mean) / (norm.running_var + norm.eps).sqrt() * norm.weight + norm.bias
    assert_close(tuned(images), h.relu())
    assert tuned.num_features == tuned(images).shape[1] == 6
    kept = {*map(id, method.backbone.parameters()), *map(id, method.projector[:3].parameters())}
    assert {*map(id, tuned.parameters())} == kept  # the method's own, not a copy
    assert_close(method.features(images), method.backbone(images))  # and probes see the backbone


def test_what_cannot_work_is_refused():
    with pytest.raises(ValueError, match=r"temperature must be positive, got 0.0; SimCLR v2's"):
        simclrv2(temperature=0.0)
    with pytest.raises(ValueError, match="needs 2 or more, got 1"):
        simclrv2().loss(batch(n_views=1))
