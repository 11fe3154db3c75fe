"""Sinkhorn-Knopp is the official loop; it cannot overflow; it has no gradient."""

import pytest
import torch
from torch.testing import assert_close

from onestyle.nn.sinkhorn import sinkhorn


def official(scores, epsilon, iterations):
    """As SwAV's code does it, on the transposed matrix."""
    q = (scores / epsilon).exp().T
    n_prototypes, n = q.shape
    q /= q.sum()
    for _ in range(iterations):
        q /= q.sum(1, keepdim=True) * n_prototypes
        q /= q.sum(0, keepdim=True) * n
    return (q * n).T


@pytest.mark.parametrize("iterations", [1, 3, 10])
@pytest.mark.parametrize("n, k", [(8, 5), (5, 8)])
def test_it_is_the_official_loop(n, k, iterations):
    scores = torch.rand(n, k).double()
    assert_close(sinkhorn(scores / 0.05, iterations), official(scores, 0.05, iterations))


def test_images_have_one_whole_prototypes_equal_shares():
    q = sinkhorn(torch.rand(60, 7).double() / 0.05, 500)
    assert_close(q.sum(1), torch.ones(60).double())
    assert_close(q.sum(0), torch.full((7,), 60 / 7).double())


def test_equal_images_are_assigned_evenly():
    same = torch.rand(1, 7).double().expand(9, 7) / 0.05
    assert_close(sinkhorn(same), torch.full((9, 7), 1 / 7).double())


def test_a_constant_changes_nothing():
    scores = torch.rand(9, 7).double() / 0.05
    assert_close(sinkhorn(scores + 1000), sinkhorn(scores))


def test_what_would_overflow_does_not():
    q = sinkhorn(torch.randn(9, 7).half() * 1000)
    assert q.dtype == torch.float32 and q.isfinite().all()
    assert_close(q.sum(1), torch.ones(9))


def test_no_gradient():
    assert not sinkhorn(torch.rand(4, 3).requires_grad_()).requires_grad
