"""NT-Xent of many views is equation 6; in blocks it is the same."""

import math
from itertools import product

import pytest
import torch
import torch.nn.functional as F
from lightly.loss import NTXentLoss
from torch import nn
from torch.testing import assert_close

from onestyle.methods import Batch
from onestyle.methods.simclr import SimCLR, nt_xent


def unit(*shape):
    return F.normalize(torch.randn(*shape, dtype=torch.double), dim=-1)


@pytest.mark.parametrize("n_views, n", [(2, 5), (3, 4), (5, 2)])
@pytest.mark.parametrize("temperature", [0.1, 0.5])
def test_it_is_the_equation(n_views, n, temperature):
    z, grid = unit(n_views, n, 6), list(product(range(n_views), range(n)))
    e = {(a, b): (z[a] @ z[b] / temperature).exp() for a in grid for b in grid if a != b}
    terms = [-(e[a, b] / sum(e[a, o] for o in grid if o != a)).log() for a, b in e if a[1] == b[1]]
    assert_close(nt_xent(z, temperature), torch.stack(terms).mean())


def test_two_views_are_those_of_lightly():
    x = torch.randn(2, 7, 6).double().requires_grad_()
    ours, theirs = nt_xent(F.normalize(x, dim=-1), 0.5), NTXentLoss(temperature=0.5)(*x)
    assert_close(ours, theirs)
    assert_close(*(torch.autograd.grad(loss, x)[0] for loss in (ours, theirs)))


@pytest.mark.parametrize("n_views, n", [(2, 8), (8, 3)])
def test_chance_and_floor(n_views, n):
    """Equal embeddings: ln(VN - 1). Each image in a direction of its own: the least there is of
    orthogonal images."""
    same = unit(1, 1, 16).expand(n_views, n, 16)
    assert_close(nt_xent(same, 0.5), torch.tensor(math.log(n_views * n - 1)).double())
    apart = torch.eye(n, dtype=torch.double).expand(n_views, n, n)
    own, others = (n_views - 1) * math.e**2, n_views * (n - 1)
    assert_close(nt_xent(apart, 0.5), torch.tensor(math.log(own + others) - 2).double())


def test_neither_the_order_of_views_nor_of_images_counts():
    z = unit(4, 6, 5)
    assert_close(nt_xent(z[[2, 0, 3, 1]], 0.3), nt_xent(z, 0.3))
    assert_close(nt_xent(z[:, torch.randperm(6)], 0.3), nt_xent(z, 0.3))


@pytest.mark.parametrize("block", [1, 40, 24 * 7])
def test_blocks_change_neither_loss_nor_gradient(block):
    z = unit(4, 6, 5).requires_grad_()
    whole, parts = nt_xent(z, 0.2), nt_xent(z, 0.2, block=block)
    assert_close(parts, whole)
    assert_close(*(torch.autograd.grad(loss, z)[0] for loss in (parts, whole)))


def test_blocks_do_not_keep_the_similarities():
    """What backward needs of 512 embeddings: without blocks their 512 x 512 similarities."""

    def kept(block):
        sizes = []

        def pack(x):
            sizes.append(x.numel())
            return x

        z = F.normalize(torch.randn(4, 128, 8, requires_grad=True), dim=-1)
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
            nt_xent(z, 0.5, block=block)
        return max(sizes)

    assert kept(2**24) == 512 * 512
    assert kept(512 * 16) <= 512 * 8


def test_half_precision_is_summed_in_single():
    z = unit(4, 64, 32).float()
    assert nt_xent(z.bfloat16(), 0.1).dtype == torch.float32
    assert_close(nt_xent(z.bfloat16(), 0.1), nt_xent(z.bfloat16().float(), 0.1), rtol=0, atol=0)


class Mean(nn.Module):
    """A backbone whose feature is the mean of each channel, whatever the size of the view."""

    num_features = 3

    def forward(self, images):
        return images.mean((2, 3))


def test_all_views_of_all_sizes_meet():
    method = SimCLR(Mean(), dim=4, temperature=0.3).double()
    views = [torch.randn(v, 5, 3, s, s).double() for v, s in ((2, 8), (3, 4))]
    loss, _ = method.loss(Batch(views, torch.arange(5), 0, torch.Generator()))
    features = torch.cat([view.mean((3, 4)) for view in views]).flatten(0, 1)
    z = F.normalize(method.projector(features), dim=-1).unflatten(0, (5, 5))
    assert_close(loss, nt_xent(z, 0.3))


def test_the_projector_is_the_official_one():
    """Linear, BN, ReLU, Linear, BN without bias: no bias that a BatchNorm would take away."""
    head = SimCLR(Mean(), dim=4).projector
    assert [type(layer) for layer in head] == [
        nn.Linear, nn.BatchNorm1d, nn.ReLU, nn.Linear, nn.BatchNorm1d,
    ]  # fmt: skip
    assert head[0].bias is None and head[3].bias is None and head[4].bias is None
    assert (head[0].out_features, head[3].out_features) == (3, 4)


def test_what_cannot_work_is_refused():
    with pytest.raises(ValueError, match="the plan needs 2 or more, got 1"):
        nt_xent(unit(1, 4, 3), 0.5)
    with pytest.raises(ValueError, match="temperature must be positive, got 0"):
        SimCLR(Mean(), temperature=0)
