"""AdCo is its equation; what it learns as negatives climbs it, at a temperature of its own."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.optim import SGD
from torch.testing import assert_close

from onestyle.methods import Batch
from onestyle.methods.adco import AdCo, contrast
from onestyle.nn.keys import encode_keys, halves
from onestyle.optim import Training, maker, set_lr

T, T_MEM = 0.12, 0.02


class Backbone(nn.Module):
    num_features = 6

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(48, 6), nn.BatchNorm1d(6), nn.ReLU())

    def forward(self, images):
        return self.layers(images)


def adco(complete=True, **options):
    torch.manual_seed(0)
    method = AdCo(Backbone(), **{"dim": 5, "negatives": 7, **options}).double()
    if complete:  # not all of one length, as they are after some steps
        method.negatives.fill(torch.randn(method.negatives.weight.shape[1], 5).double())
    return method


def batch(n=8, n_views=2, seed=0):
    generator = torch.Generator().manual_seed(seed)
    views = torch.randn(n_views, n, 3, 4, 4, dtype=torch.double, generator=generator)
    return Batch([views], torch.arange(n), 0, generator)


def unit(*shape):
    return F.normalize(torch.randn(*shape, dtype=torch.double), dim=-1)


def optimizers(method, **options):
    return method.optimizers(lambda parameters: SGD(parameters, 0.03, momentum=0.9, **options))


def step(method, moved, batch):
    loss, _ = method(batch)
    for optimizer in moved:
        optimizer.zero_grad()
    loss.backward()
    method.before_step(0)
    for optimizer in moved:
        optimizer.step()
    method.after_step(0, 10)
    return loss.detach()


def test_the_loss_is_the_equation():
    """Every key of the batch is in the denominator, and every learned negative."""
    q, keys, n = unit(3, 5), unit(3, 5), unit(7, 5)
    terms = []
    for i in range(3):
        total = sum(math.exp(q[i] @ k / T) for k in keys) + sum(math.exp(q[i] @ x / T) for x in n)
        terms.append(-math.log(math.exp(q[i] @ keys[i] / T) / total))
    assert_close(contrast(q, keys, n, T), torch.tensor(terms).double().mean())


def test_equal_embeddings_give_ln_of_all_their_number():
    one = unit(1, 5)
    loss = contrast(one.expand(3, 5), one.expand(3, 5), one.expand(7, 5), T)
    assert_close(loss, torch.tensor(math.log(3 + 7)).double())


def climbed(q, keys, W):
    """The gradient of the negatives by hand: p_ij (q_i - (q_i . n_j) n_j) / (|W_j| T_mem),
    averaged over images; p is the softmax over the batch's keys and the negatives."""
    gradient = torch.zeros_like(W)
    for j, w in enumerate(W):
        n_j = w / w.norm()
        for q_i in q:
            others = [math.exp(q_i @ x / x.norm() / T_MEM) for x in (*keys, *W)]
            p_ij = math.exp(q_i @ n_j / T_MEM) / sum(others)
            gradient[j] += p_ij * (q_i - (q_i @ n_j) * n_j) / (w.norm() * T_MEM) / len(q)
    return gradient


def test_the_negatives_gradient_by_hand():
    q, keys, W = unit(4, 5), unit(4, 5), torch.randn(7, 5).double().requires_grad_()
    contrast(q, keys, F.normalize(W, dim=1), T_MEM).backward()
    assert_close(W.grad, climbed(q, keys, W.detach()))


def test_the_negatives_have_their_own_temperature_and_the_networks_cosines():
    method = adco()
    q, keys = (z.detach() for z in method.embeddings(batch()))
    method.loss(batch())[0].backward()
    W = method.negatives.weight
    assert_close(W.grad[0], climbed(q, keys, W.detach()[0]))


def test_the_network_has_its_temperature_and_negatives_that_stand():
    """Value and gradient are those of the loss at T = 0.12, and of nothing else."""
    method = adco()
    loss, _ = method.loss(batch())
    loss.backward()
    q, keys = method.embeddings(batch())
    fixed = F.normalize(method.negatives.weight[0].detach(), dim=1)
    alone = contrast(q, keys, fixed, T)
    assert_close(loss.detach(), alone.detach())
    trained = [*method.backbone.parameters(), *method.projector.parameters()]
    assert_close([p.grad for p in trained], list(torch.autograd.grad(alone, trained)))


def test_the_negatives_step_makes_the_loss_larger_and_the_networks_smaller():
    method = adco(negatives_lr=0.001)
    network, climbing = optimizers(method)

    @torch.no_grad()
    def loss(temperature):
        return float(
            contrast(*method.embeddings(batch()), *method.negatives.directions(), temperature)
        )

    before = loss(T_MEM), loss(T)
    method.loss(batch())[0].backward()
    climbing.step()
    assert loss(T_MEM) > before[0]
    between = loss(T)
    network.step()
    assert loss(T) < between


def test_steps_are_those_of_the_official_code():
    """Its order (keys move first in a step, negatives last) and its update without autograd."""
    ours, other = adco(momentum=0.5), adco(momentum=0.5)
    moved, state = optimizers(ours), {"v": 0.0}
    network, _ = optimizers(other)
    losses = [step(ours, moved, batch(seed=s)) for s in range(4)]
    official = [official_step(other, network, state, batch(seed=s)) for s in range(4)]
    assert_close(losses, official)
    assert_close(ours.negatives.weight, other.negatives.weight)
    assert_close(ours.backbone.state_dict(), other.backbone.state_dict())


def official_step(method, optimizer, state, batch):
    queries, images = batch.views[0]
    q = F.normalize(method.projector(method.backbone(queries)), dim=1)
    slow = [*method.key_backbone.parameters(), *method.key_projector.parameters()]
    fast = [*method.backbone.parameters(), *method.projector.parameters()]
    W = method.negatives.weight.detach()[0]
    with torch.no_grad():
        for p, from_ in zip(slow, fast, strict=True):
            p.copy_(0.5 * p + 0.5 * from_)
        k = encode_keys(method._slowly, images, halves(batch.uniform()))
    cosines = q @ torch.cat([k, F.normalize(W, dim=1)]).T
    loss = F.cross_entropy(cosines / T, torch.arange(len(q)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        g = -climbed(q.detach(), k, W)
        state["v"] = 0.9 * state["v"] + g + 1e-4 * W
        W -= 3.0 * state["v"]
    return loss.detach()


@pytest.mark.parametrize("kind", ["lars", "sgd", "adam", "adamw"])
def test_no_recipe_reaches_the_negatives(kind):
    """Their optimiser is their own whatever the network's, and so is its rate, which stays."""
    method = adco()
    training = Training(steps=10, optimizer=kind, lr=0.2, weight_decay=0.5, warmup=0.0)
    network, climbing = moved = method.optimizers(maker(training, method))
    assert type(climbing) is SGD
    (group,) = climbing.param_groups
    assert [id(p) for p in group["params"]] == [id(method.negatives.weight)]
    known = {"momentum": 0.9, "weight_decay": 1e-4, "maximize": True, "nesterov": False}
    assert known.items() <= group.items()
    ids = {id(p) for group in network.param_groups for p in group["params"]}
    assert id(method.negatives.weight) not in ids
    for t in (0, 5, 9):
        set_lr(moved, training.rate(t))
        assert group["lr"] == 3.0
        assert network.param_groups[0]["lr"] == 0.2 * training.rate(t)


def test_the_first_keys_become_the_negatives_then_both_networks_are_one():
    method = adco(complete=False, negatives=20, momentum=0.5)
    moved, keys = optimizers(method), []
    for s in range(3):
        keys.append(method.embeddings(batch(seed=s))[1].detach())
        step(method, moved, batch(seed=s))
        same = all(
            torch.equal(slow, fast)
            for slow, fast in zip(
                method.key_backbone.parameters(), method.backbone.parameters(), strict=True
            )
        )
        assert same == (s == 2)
    assert torch.equal(method.negatives.weight.detach()[0], torch.cat(keys)[:20])
    step(method, moved, batch(seed=3))
    moving = (method.negatives.weight.detach()[0] - torch.cat(keys)[:20]).norm(dim=1)
    assert (moving > 1e-6).all()


def test_batches_of_an_accumulated_step_all_become_negatives():
    method = adco(complete=False, negatives=16)
    method.loss(batch(seed=1))
    method.loss(batch(seed=2))
    method.after_step(0, 10)
    assert method.negatives.full


def test_keys_are_no_way_back():
    method = adco()
    method.loss(batch())[0].backward()
    slow = [*method.key_backbone.parameters(), *method.key_projector.parameters()]
    assert all(p.grad is None and not p.requires_grad for p in slow)


def test_what_cannot_work_is_refused():
    with pytest.raises(ValueError, match="AdCo needs one group of 2 views"):
        adco().loss(batch(n_views=3))
    with pytest.raises(ValueError, match=r"temperatures must be positive, got 0.12 and 0.0"):
        adco(negatives_temperature=0.0)
    with pytest.raises(ValueError, match="negatives must be at least 1, got 0"):
        adco(negatives=0)
