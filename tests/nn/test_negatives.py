"""Learned negatives take the first keys, wait for each other, then climb."""

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from onestyle.nn.negatives import Negatives, gradient_only


def filled(size, dim, n_banks=1):
    negatives = Negatives(size, dim, n_banks).double()
    for s in range(n_banks):
        negatives.fill(torch.randn(size, dim).double(), torch.full((size,), s))
    return negatives


def test_keys_take_the_places_in_their_order():
    negatives, keys = Negatives(10, 3), torch.randn(12, 3)
    before = negatives.weight.detach().clone()
    assert [negatives.fill(part) for part in keys.split(4)] == [False, False, True]
    assert torch.equal(negatives.weight.detach()[0], keys[:10])
    assert not torch.equal(before[0], keys[:10])
    assert not negatives.fill(torch.zeros(4, 3))  # complete: it takes no more
    assert torch.equal(negatives.weight.detach()[0], keys[:10])


def test_each_bank_takes_its_own_and_waits_for_the_others():
    negatives, keys, bank = Negatives(3, 2, n_banks=2), torch.randn(8, 2), torch.tensor([1, 0] * 4)
    uneven = torch.tensor([1, 1, 1, 1, 0, 1, 1, 1])
    assert not negatives.fill(keys, uneven)
    assert negatives.filled.tolist() == [1, 3] and not negatives.full
    assert torch.equal(negatives.weight.detach()[1], keys[:3])
    assert negatives.fill(-keys, bank)
    expected = torch.stack([keys[4], -keys[1], -keys[3]])
    assert torch.equal(negatives.weight.detach()[0], expected)
    assert torch.equal(negatives.weight.detach()[1], keys[:3])


def test_they_stand_still_until_all_are_filled():
    negatives = Negatives(4, 3, n_banks=2)
    optimizer, banks = negatives.ascent(1.0), torch.tensor([0, 0, 1, 1])
    for complete in (False, False, True):
        before = negatives.weight.detach().clone()
        negatives.weight.grad = torch.ones_like(before)
        negatives.before_step()
        optimizer.step()
        assert torch.equal(before, negatives.weight.detach()) != complete
        negatives.fill(torch.randn(4, 3), banks)


def test_the_optimiser_is_that_of_the_official_code():
    """v <- 0.9 v + g + 1e-4 W, W <- W - 3 v, where g is the negative of the gradient."""
    negatives = filled(5, 3)
    optimizer, W, v = negatives.ascent(3.0), negatives.weight.detach().clone(), 0.0
    for _ in range(4):
        negatives.weight.grad = torch.randn(1, 5, 3).double()
        v = 0.9 * v - negatives.weight.grad + 1e-4 * W
        W = W - 3.0 * v
        optimizer.step()
        assert_close(negatives.weight.detach(), W)


def test_directions_are_unit_and_health_is_told():
    negatives = Negatives(4, 3, n_banks=2)
    assert_close(negatives.directions(), F.normalize(negatives.weight, dim=2))
    negatives.fill(F.normalize(torch.randn(6, 3), dim=1), torch.tensor([0, 0, 0, 0, 1, 1]))
    health = negatives.health()
    assert health["negatives_filled"] == 6 / 8
    assert_close(health["negatives_norm"], negatives.weight.detach().norm(dim=2).mean())


def test_a_gradient_without_a_value():
    x = torch.tensor(3.0, requires_grad=True)
    silent = gradient_only(x**2)
    silent.backward()
    assert silent == 0 and x.grad == 6


def test_none_are_refused():
    with pytest.raises(ValueError, match="negatives must be at least 1, got 0"):
        Negatives(0, 3)
