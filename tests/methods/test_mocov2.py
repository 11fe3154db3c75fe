"""MoCo v2 is its equation; keys come from the slow encoder, in halves, and wait in the queue."""

import math

import pytest
import torch
import torch.nn.functional as F
from lightly.loss import NTXentLoss
from torch import nn
from torch.testing import assert_close

from onestyle.methods import Batch
from onestyle.methods.mocov2 import MoCoV2, info_nce
from onestyle.nn.keys import encode_keys, halves


class Backbone(nn.Module):
    num_features = 6

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(48, 6), nn.BatchNorm1d(6), nn.ReLU())

    def forward(self, images):
        return self.layers(images)


def moco(**options):
    torch.manual_seed(0)
    return MoCoV2(Backbone(), **{"dim": 5, "queue_size": 16, **options}).double()


def batch(n=8, n_views=2, seed=0):
    generator = torch.Generator().manual_seed(seed)
    views = torch.randn(n_views, n, 3, 4, 4, dtype=torch.double, generator=generator)
    return Batch([views], torch.arange(n), 0, generator)


def unit(*shape):
    return F.normalize(torch.randn(*shape, dtype=torch.double), dim=-1)


def step(method, batch, rate=0.1):
    """One step of gradient descent, as the loop makes it."""
    loss, _ = method.loss(batch)
    loss.backward()
    with torch.no_grad():
        for p in method.parameters():
            if p.grad is not None:
                p -= rate * p.grad
                p.grad = None
    method.after_step(0, 10)
    return loss.detach()


def test_the_loss_is_the_equation():
    q, k, queue, T = unit(3, 5), unit(3, 5), unit(7, 5), 0.2
    terms = []
    for i in range(3):
        positive = math.exp(q[i] @ k[i] / T)
        terms.append(-math.log(positive / (positive + sum(math.exp(q[i] @ n / T) for n in queue))))
    assert_close(info_nce(q, k, queue, T), torch.tensor(terms, dtype=torch.double).mean())


def test_the_loss_is_that_of_lightly():
    x, k, queue = torch.randn(3, 5).double().requires_grad_(), unit(3, 5), unit(7, 5)
    oracle = NTXentLoss(temperature=0.2, memory_bank_size=(7, 5)).double()
    oracle.memory_bank.bank.copy_(queue)
    ours, expected = info_nce(F.normalize(x, dim=1), k, queue, 0.2), oracle(x, k)
    assert_close(ours, expected)
    assert_close(*(torch.autograd.grad(loss, x)[0] for loss in (ours, expected)))


def test_equal_keys_give_ln_of_one_plus_their_number():
    q, k = unit(3, 5), unit(1, 5)
    loss = info_nce(q, k.expand(3, 5), k.expand(7, 5), 0.2)
    assert_close(loss, torch.tensor(math.log(8)).double())


def test_the_loss_from_views_to_number():
    method = moco()
    loss, _ = method.loss(batch())
    same = batch()
    queries, images = same.views[0]
    coin = same.uniform()[::2] < 0.5
    first = [2 * i + int(heads) for i, heads in enumerate(coin)]
    keys = torch.empty(8, 5).double()
    for part in (first, sorted(set(range(8)) - set(first))):
        keys[part] = method.key_projector(method.key_backbone(images[part]))
    q, k = method.projector(method.backbone(queries)), keys
    q, k = F.normalize(q, dim=1), F.normalize(k, dim=1)
    assert_close(loss, info_nce(q, k, method.queue.keys, 0.2))


def test_statistics_of_keys_are_those_of_a_half():
    """A key of the first half does not change with the images of the second."""
    method, images = moco(), torch.randn(8, 3, 4, 4).double()
    first, second = parts = halves(torch.rand(8))
    keys = encode_keys(method._slowly, images, parts)
    images[second] += torch.randn(4, 3, 4, 4)
    changed = encode_keys(method._slowly, images, parts)
    assert torch.equal(keys[first], changed[first])
    assert (keys[second] - changed[second]).abs().max() > 0.01


def test_keys_enter_the_queue_after_the_logits():
    """The first loss meets only what was in the queue before; then the keys are in it, in order."""
    method, before = moco(), moco().queue.keys
    method.loss(batch())
    assert torch.equal(method.queue.keys, before)
    method.after_step(0, 10)
    same = batch()
    expected = encode_keys(moco()._slowly, same.views[0][1], halves(same.uniform()))
    assert_close(method.queue.keys[:8], expected)
    assert torch.equal(method.queue.keys[8:], before[8:])


def test_batches_of_an_accumulated_step_all_enter():
    method = moco()
    before = method.queue.keys.clone()
    method.loss(batch(seed=1))
    method.loss(batch(seed=2))
    method.after_step(0, 10)
    assert method.queue.pointer == 0
    assert (method.queue.keys != before).any(dim=1).all()


def test_steps_are_those_of_the_official_order():
    """Query, key encoder moves, key, logits, enqueue, optimiser: the same losses, the same keys."""
    ours, other = moco(momentum=0.5), moco(momentum=0.5)
    losses = [step(ours, batch(seed=s)) for s in range(3)]
    official = [official_step(other, batch(seed=s)) for s in range(3)]
    assert_close(losses, official)
    assert_close(ours.queue.keys, other.queue.keys)
    assert_close(ours.backbone.state_dict(), other.backbone.state_dict())


def official_step(method, batch):
    queries, images = batch.views[0]
    q = F.normalize(method.projector(method.backbone(queries)), dim=1)
    with torch.no_grad():
        pairs = zip(
            [*method.key_backbone.parameters(), *method.key_projector.parameters()],
            [*method.backbone.parameters(), *method.projector.parameters()],
            strict=True,
        )
        for slow, fast in pairs:
            slow.copy_(0.5 * slow + 0.5 * fast)
        k = encode_keys(method._slowly, images, halves(batch.uniform()))
    loss = info_nce(q, k, method.queue.keys.clone(), 0.2)
    method.queue.push(k)
    trained = [p for p in method.parameters() if p.requires_grad]
    with torch.no_grad():
        for p, gradient in zip(trained, torch.autograd.grad(loss, trained), strict=True):
            p -= 0.1 * gradient
    return loss.detach()


def test_keys_are_no_way_back():
    method = moco()
    method.loss(batch())[0].backward()
    slow = [*method.key_backbone.parameters(), *method.key_projector.parameters()]
    fast = [*method.backbone.parameters(), *method.projector.parameters()]
    assert all(p.grad is None and not p.requires_grad for p in slow)
    assert all(p.grad is not None for p in fast)


def test_the_head_has_no_batchnorm():
    assert [type(layer).__name__ for layer in moco().projector] == ["Linear", "ReLU", "Linear"]


@pytest.mark.parametrize("options", [{"n_views": 3}, {"n_views": 1}, {"n": 7}])
def test_other_plans_are_refused(options):
    with pytest.raises(ValueError, match=r"needs one group of 2 views.* even number of images"):
        moco().loss(batch(**options))


def test_what_cannot_work_is_refused():
    two = batch()
    two.views = two.views * 2
    with pytest.raises(ValueError, match=r"got groups of \[2, 2\] views of 8 images"):
        moco().loss(two)
    with pytest.raises(ValueError, match="temperature must be positive"):
        moco(temperature=0.0)
    method = moco(queue_size=12)
    method.loss(batch())
    with pytest.raises(ValueError, match="8 keys a step do not divide a queue of 12"):
        method.after_step(0, 10)
