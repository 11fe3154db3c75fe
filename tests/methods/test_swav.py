"""SWaV is its equation; a global view is assigned as a batch of its own; prototypes stay unit."""

import math

import pytest
import torch
import torch.nn.functional as F
from lightly.loss import SwaVLoss
from torch import nn
from torch.testing import assert_close

from onestyle.methods import Batch
from onestyle.methods.swav import SWaV, swapped_prediction
from onestyle.nn.sinkhorn import sinkhorn


class Mean(nn.Module):
    num_features = 3

    def forward(self, images):
        return images.mean((2, 3))


def swav(**options):
    torch.manual_seed(0)
    options = {"dim": 8, "prototypes": 6, "hidden_dim": 16, "freeze_steps": 2, **options}
    return SWaV(Mean(), **options).double()


def batch(*groups, step=0, n=4):
    generator = torch.Generator().manual_seed(1)
    views = [torch.randn(v, n, 3, s, s, generator=generator).double() for v, s in groups]
    return Batch(views, torch.arange(n), step, generator)


def probabilities(*shape):
    return torch.randn(*shape, dtype=torch.double).softmax(-1)


@pytest.mark.parametrize("n_global, n_views", [(1, 2), (2, 3), (2, 8)])
def test_it_is_the_equation(n_global, n_views):
    """The official double loop: for each global view i, the cross-entropy of all others to q_i."""
    logits, q = torch.randn(n_views, 5, 7).double(), probabilities(n_global, 5, 7)
    p, total = logits.softmax(-1), 0
    for i in range(n_global):
        others = [v for v in range(n_views) if v != i]
        total += sum(-(q[i] * p[v].log()).sum(-1).mean() for v in others) / len(others)
    assert_close(swapped_prediction(logits, q), total / n_global)


@pytest.mark.parametrize("n_local", [0, 3])
def test_it_is_that_of_lightly(n_local):
    scores = torch.randn(2 + n_local, 12, 6).double().mul_(0.3).requires_grad_()
    oracle = SwaVLoss(temperature=0.1, sinkhorn_iterations=3, sinkhorn_epsilon=0.05)
    theirs = oracle(list(scores[:2]), list(scores[2:])).squeeze()
    q = torch.stack([sinkhorn(view / 0.05) for view in scores[:2].detach()])
    ours = swapped_prediction(scores / 0.1, q)
    assert_close(ours, theirs)
    assert_close(*(torch.autograd.grad(loss, scores)[0] for loss in (ours, theirs)))


def test_a_collapse_costs_ln_k():
    same = torch.ones(4, 5, 6).double()
    q = torch.stack([sinkhorn(view / 0.05) for view in same[:2]])
    assert_close(q, torch.full_like(q, 1 / 6))
    assert_close(swapped_prediction(same / 0.1, q), torch.tensor(math.log(6)).double())


def test_the_loss_from_views_to_number():
    """Every step by hand: assignments of the two global views, each as a batch of its own."""
    method, same = swav(), batch((2, 8), (3, 4))
    features = torch.cat([view.mean((3, 4)) for view in same.views]).flatten(0, 1)
    z = F.normalize(method.projector(features), dim=-1).unflatten(0, (5, 4))
    scores = z @ method.prototypes.weight.T
    q = torch.stack([sinkhorn(scores[i] / 0.05) for i in range(2)])
    assert_close(method.loss(batch((2, 8), (3, 4)))[0], swapped_prediction(scores / 0.1, q))


def test_assignments_are_no_way_back():
    """The gradient is that of fixed assignments."""
    method, same = swav(), batch((2, 8), (2, 4))
    method.loss(batch((2, 8), (2, 4)))[0].backward()
    features = torch.cat([view.mean((3, 4)) for view in same.views]).flatten(0, 1)
    z = F.normalize(method.projector(features), dim=-1).unflatten(0, (4, 4)).detach()
    weight = method.prototypes.weight.detach().clone().requires_grad_()
    fixed = torch.stack([sinkhorn(z[i] @ weight.detach().T / 0.05) for i in range(2)])
    loss = swapped_prediction(z @ weight.T / 0.1, fixed)
    assert_close(method.prototypes.weight.grad, torch.autograd.grad(loss, weight)[0])


def test_prototypes_stand_still_first_and_keep_length_1():
    method = swav(freeze_steps=2)
    optimizer = torch.optim.SGD(method.parameters(), 0.5)
    before, moved = method.prototypes.weight.clone(), []
    for step in range(4):
        method.loss(batch((2, 8), step=step))[0].backward()
        method.before_step(step)
        optimizer.step()
        optimizer.zero_grad()
        method.after_step(step, 4)
        moved.append(not torch.allclose(method.prototypes.weight, before, rtol=0, atol=1e-6))
        assert_close(method.prototypes.weight.norm(dim=1), torch.ones(6).double())
    assert moved == [False, False, True, True]


def test_separate_assignments_tell_contents_where_a_joint_one_tells_styles():
    """Two views of 8 images, whose scores tell the view (its style) first, the image second:
    assigned together, each view gets half of the prototypes; apart, each gets all of them."""
    content, style = torch.eye(8).double(), torch.zeros(2, 8).double()
    style[0, :4] = style[1, 4:] = 3
    scores = torch.stack([content + style[v] for v in range(2)])
    joint = sinkhorn(scores.flatten(0, 1) / 0.05, 50).unflatten(0, (2, 8))
    apart = torch.stack([sinkhorn(view / 0.05, 50) for view in scores])
    assert_close(joint[0, :, 4:].sum(), torch.tensor(0.0).double(), atol=1e-6, rtol=0)
    assert_close(apart.sum(1), torch.ones(2, 8).double(), atol=1e-6, rtol=0)
    assert (apart[0].argmax(1) == apart[1].argmax(1)).all()


@pytest.mark.parametrize(
    "style, styles",
    [("bss", ("bss", "fa", "fa")), ("fa", ("fa",) * 3), ("none", ("none",) * 3)],
)
def test_styles_of_the_groups(style, styles):
    assert SWaV.styles(style, 3) == styles


def test_what_cannot_work_is_refused():
    with pytest.raises(ValueError, match="the plan needs 2 or more, got 1"):
        swav().loss(batch((1, 8)))
    with pytest.raises(ValueError, match="epsilon must be positive, got 0"):
        swav(epsilon=0)
    with pytest.raises(ValueError, match="needs 1 iteration or more"):
        swav(iterations=0)
