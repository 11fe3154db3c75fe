"""BYOL is its equation; the teacher only ever follows; without a predictor it would not be BYOL."""

import math
from itertools import permutations

import pytest
import torch
import torch.nn.functional as F
from lightly.loss import NegativeCosineSimilarity
from torch import nn
from torch.testing import assert_close

from onestyle.methods import Batch
from onestyle.methods.byol import BYOL, momentum_at, regression


class Backbone(nn.Module):
    num_features = 6

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(48, 6), nn.BatchNorm1d(6), nn.ReLU())

    def forward(self, images):
        return self.layers(images)


def byol(**options):
    torch.manual_seed(0)
    return BYOL(Backbone(), **{"dim": 5, "hidden_dim": 7, **options}).double()


def batch(n_views=2, n=8, seed=0):
    generator = torch.Generator().manual_seed(seed)
    views = torch.randn(n_views, n, 3, 4, 4, dtype=torch.double, generator=generator)
    return Batch([views], torch.arange(n), 0, generator)


def unit(*shape):
    return F.normalize(torch.randn(*shape, dtype=torch.double), dim=-1)


def teachers(method):
    return [*method.teacher.parameters(), *method.teacher_projector.parameters()]


def students(method):
    return [*method.backbone.parameters(), *method.projector.parameters()]


def descend(method, rate=0.1):
    """An optimiser's step, without what the method does after it."""
    with torch.no_grad():
        for p in method.parameters():
            if p.grad is not None:
                p -= rate * p.grad


@pytest.mark.parametrize("n_views", [2, 3, 5])
def test_the_loss_is_its_double_loop(n_views):
    """Every view predicts every other view's target; of a pair of views both orders are added."""
    p, t, terms = unit(n_views, 4, 5), unit(n_views, 4, 5), []
    for s, other in permutations(range(n_views), 2):
        terms += [2 - 2 * float(p[s, c] @ t[other, c]) for c in range(4)]
    n_pairs = n_views * (n_views - 1) // 2
    assert_close(regression(p, t), torch.tensor(sum(terms) / 4 / n_pairs).double())


def test_of_two_views_it_is_the_papers():
    """Squared distances between unit vectors, the second order the first with views swapped."""
    p, t = unit(2, 4, 5), unit(2, 4, 5)
    orders = [(p[0] - t[1]).square().sum(1).mean(), (p[1] - t[0]).square().sum(1).mean()]
    assert_close(regression(p, t), sum(orders))
    assert_close(regression(p.flip(0), t.flip(0)), sum(orders))


def test_the_loss_is_that_of_lightly():
    x, t = torch.randn(2, 4, 5).double().requires_grad_(), unit(2, 4, 5)
    similarity = NegativeCosineSimilarity()
    expected = 4 + 2 * (similarity(x[0], t[1]) + similarity(x[1], t[0]))
    ours = regression(F.normalize(x, dim=-1), t)
    assert_close(ours, expected)
    assert_close(*(torch.autograd.grad(loss, x)[0] for loss in (ours, expected)))


def test_closed_forms():
    p = unit(1, 4, 5).expand(3, 4, 5)
    assert_close(regression(p, p), torch.zeros(()).double())
    assert_close(regression(p, -p), torch.tensor(8.0).double())


def test_the_loss_from_views_to_number():
    method = byol()
    loss, _ = method.loss(batch())
    same, images = byol(), batch().views[0].flatten(0, 1)
    p = same.predictor(same.projector(same.backbone(images))).unflatten(0, (2, 8))
    t = same.teacher_projector(same.teacher(images)).unflatten(0, (2, 8))
    terms = [2 - 2 * F.cosine_similarity(p[s], t[1 - s]).mean() for s in (0, 1)]
    assert_close(loss, sum(terms))


def test_views_of_two_sizes_predict_each_other():
    """A plan of two groups is one of all their views."""
    method, two = byol(), batch(n_views=3)
    whole = method.loss(two)[0]
    two.views = [two.views[0][:1], two.views[0][1:]]
    assert_close(method.loss(two)[0], whole)


def test_the_predictor_stands_between():
    """Before anything is learnt the teacher is the student: without a predictor views of the same
    pixels would be compared with themselves, and the loss would be 0."""
    method, twins = byol(), batch()
    twins.views = [twins.views[0][:1].expand(2, -1, -1, -1, -1)]
    loss, _ = method.loss(twins)
    loss.backward()
    assert loss > 0.1 and all(p.grad is not None for p in method.predictor.parameters())
    method.predictor = nn.Identity()
    assert_close(method.loss(twins)[0], torch.zeros(()).double())


def test_targets_are_constants_to_the_gradient():
    method, same = byol(), byol()
    method.loss(batch())[0].backward()
    assert all(p.grad is None and not p.requires_grad for p in teachers(method))
    asking = batch()
    asking.views[0].requires_grad_()  # even then
    assert method.embeddings(asking).requires_grad and not method.targets(asking).requires_grad
    constant = same.targets(batch()).detach().clone()
    regression(same.embeddings(batch()), constant).backward()
    assert_close([p.grad for p in students(method)], [p.grad for p in students(same)])


def test_the_teacher_begins_as_the_student():
    method = byol()
    assert_close(teachers(method), [p.detach() for p in students(method)], rtol=0, atol=0)


def test_the_teacher_moves_by_ema_alone_and_after_the_optimiser():
    method, momentum = byol(momentum=0.9), 0.9
    for step in range(3):
        before = [p.clone() for p in teachers(method)]
        method.zero_grad()
        method.loss(batch(seed=step))[0].backward()
        descend(method)
        assert_close(teachers(method), before, rtol=0, atol=0)
        method.after_step(step, 10)
        momentum = 1 - 0.1 * (1 + math.cos(math.pi * step / 10)) / 2
        pairs = zip(before, students(method), strict=True)
        expected = [momentum * slow + (1 - momentum) * fast.detach() for slow, fast in pairs]
        assert_close(teachers(method), expected)


def test_the_momentums_way():
    assert momentum_at(0, 1000, 0.996) == 0.996
    assert momentum_at(500, 1000, 0.996) == pytest.approx(0.998)
    assert momentum_at(1000, 1000, 0.996) == 1
    way = [momentum_at(step, 1000, 0.996) for step in range(1001)]
    assert way == sorted(way) and 1 - way[999] < 1e-7


def test_at_the_end_the_teacher_stands_still():
    method = byol()
    method.loss(batch())[0].backward()
    descend(method)
    before = [p.clone() for p in teachers(method)]
    method.after_step(10, 10)
    assert_close(teachers(method), before, rtol=0, atol=0)


def test_statistics_of_the_teacher_are_its_own():
    """Of the batch while it trains; its running ones follow what it sees, not the student's."""
    method = byol(momentum=0.5).train()
    layers = method.teacher.layers
    nn.init.constant_(layers[1].weight, 0.1)  # the teacher sees other numbers than the student
    given = layers[1](layers[0](batch().views[0].flatten(0, 1))).detach()
    method.loss(batch())
    running = layers[2].running_mean.clone()
    assert_close(running, 0.1 * given.mean(0))
    assert (running - method.backbone.layers[2].running_mean).abs().max() > 1e-3
    method.after_step(0, 10)
    assert torch.equal(layers[2].running_mean, running)

    before = method.targets(batch())
    layers[2].running_mean.add_(5)
    assert_close(method.targets(batch()), before, rtol=0, atol=0)  # in training they are not used
    assert not torch.allclose(method.eval().targets(batch()), before)


def test_the_heads():
    torch.manual_seed(0)
    method = BYOL(Backbone())
    for head, width in ((method.projector, 6), (method.predictor, 256)):
        names = [type(layer).__name__ for layer in head]
        assert names == ["Linear", "BatchNorm1d", "ReLU", "Linear"]
        assert (head[0].in_features, head[0].out_features) == (width, 4096)
        assert (head[3].in_features, head[3].out_features) == (4096, 256)
    assert method.momentum == 0.996


def test_what_cannot_work_is_refused():
    with pytest.raises(ValueError, match="the plan needs 2 or more, got 1"):
        byol().loss(batch(n_views=1))
    with pytest.raises(ValueError, match=r"momentum must be in \[0, 1\], got 1.5"):
        byol(momentum=1.5)
