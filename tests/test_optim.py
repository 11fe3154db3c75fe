"""Optimisers step as their equations say, at the rate that the schedule says."""

import math

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from onestyle.methods.base import Method
from onestyle.optim import LARS, Training, maker, set_lr


def test_lars_is_its_equation():
    p = nn.Parameter(torch.randn(4, 3).double())
    optimizer, m, w = LARS([p], 0.3, weight_decay=0.1), torch.zeros(4, 3).double(), p.detach()
    for _ in range(3):
        p.grad = torch.randn(4, 3).double()
        g = p.grad + 0.1 * w
        m = 0.9 * m + 0.001 * w.norm() / g.norm() * g
        w = w - 0.3 * m
        optimizer.step()
        assert_close(p.detach(), w)


def test_lars_of_zero_weights_or_gradients_is_sgd():
    p = nn.Parameter(torch.zeros(3).double())
    p.grad = torch.ones(3).double()
    LARS([p], 0.3).step()
    assert_close(p.detach(), torch.full((3,), -0.3).double())
    q = nn.Parameter(torch.ones(3).double())
    q.grad = torch.zeros(3).double()
    LARS([q], 0.3).step()
    assert_close(q.detach(), torch.ones(3).double())


class Net(Method):
    def __init__(self):
        super().__init__(nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)))
        self.cls_token = nn.Parameter(torch.ones(1, 1, 3))
        self.marked = nn.Parameter(torch.ones(2, 2))
        self.marked.no_adapt = True
        self.frozen = nn.Parameter(torch.ones(2, 2), requires_grad=False)


@pytest.mark.parametrize("kind", ["lars", "sgd", "adamw"])
def test_only_matrices_are_decayed_and_adapted(kind):
    method = Net()
    training = Training(steps=1, optimizer=kind, weight_decay=0.1)
    (optimizer,) = method.optimizers(maker(training, method))
    decayed, apart = optimizer.param_groups
    assert [tuple(p.shape) for p in decayed["params"]] == [(2, 3)]
    assert decayed["weight_decay"] == 0.1 and apart["weight_decay"] == 0
    assert len(apart["params"]) == 5
    if kind == "lars":
        assert decayed["adapt"] and not apart["adapt"]


def test_rates_of_other_schedules():
    sixteenths = Training(steps=160, warmup=0.0, schedule="seven-sixteenths")
    power = Training(steps=100, warmup=0.5, schedule="power")
    assert [sixteenths.rate(0), power.rate(50)] == [1, 1] and power.rate(24) == 0.5
    assert sixteenths.rate(80) == pytest.approx(math.cos(7 * math.pi / 32))
    assert power.rate(75) == pytest.approx(6**-0.75)


def test_rates_rise_in_a_line_and_fall_as_a_cosine():
    training = Training(steps=100, warmup=0.1, final_lr=0.2)
    rates = [training.rate(step) for step in range(100)]
    assert_close(torch.tensor(rates[:10]), torch.arange(1, 11) / 10)
    expected = [0.2 + 0.8 * (1 + math.cos(math.pi * t / 90)) / 2 for t in range(90)]
    assert rates[10:] == pytest.approx(expected)
    assert [Training(steps=3, warmup=0.0, final_lr=1).rate(step) for step in range(3)] == [1] * 3


def test_every_group_keeps_its_own_rate():
    p, q = nn.Parameter(torch.ones(1)), nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([{"params": [p], "lr": 3.0}, {"params": [q]}], lr=0.1)
    for rate in (0.5, 0.25):
        set_lr([optimizer], rate)
        assert [group["lr"] for group in optimizer.param_groups] == [3.0 * rate, 0.1 * rate]


def test_a_group_may_be_left_out_of_the_schedule():
    p, q = nn.Parameter(torch.ones(1)), nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([{"params": [p], "lr": 3.0, "scheduled": False}, {"params": [q]}])
    set_lr([optimizer], 0.25)
    assert [group["lr"] for group in optimizer.param_groups] == [3.0, 0.25e-3]


@pytest.mark.parametrize(
    "wrong", [{"steps": 0}, {"lr": -1.0}, {"warmup": 2.0}, {"clip": 0.0}, {"accumulate": 0}]
)
def test_what_cannot_be_trained_is_refused(wrong):
    (name,) = wrong
    with pytest.raises(ValueError, match=f"{name} must be .*, got {wrong[name]}"):
        Training(**{"steps": 1, **wrong})
