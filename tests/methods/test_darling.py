"""DARLING is its equation: a mixture over domains, each with a bank of negatives that climb it."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.optim import SGD
from torch.testing import assert_close

from onestyle.cli import main
from onestyle.methods import Batch
from onestyle.methods.darling import DARLING, mixture
from onestyle.methods.mocov2 import info_nce
from onestyle.optim import Training, maker, set_lr
from tests.data.files import fill

T, T_MEM, S, K = 0.12, 0.02, 3, 4


class Backbone(nn.Module):
    num_features = 6

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(48, 6), nn.BatchNorm1d(6), nn.ReLU())

    def forward(self, images):
        return self.layers(images)


def darling(complete=True, **options):
    torch.manual_seed(0)
    options = {"dim": 5, "negatives": K, "n_domains": S, **options}
    method = DARLING(Backbone(), **options).double()
    if complete:  # not all of one length, as they are after some steps
        method.banks.fill(torch.randn(S * K, 5).double(), torch.arange(S * K) % S)
    return method


def batch(domain=(0, 1, 2, 0, 1, 2, 2, 2), seed=0, n_views=2):
    n, generator = len(domain), torch.Generator().manual_seed(seed)
    views = torch.randn(n_views, n, 3, 4, 4, dtype=torch.double, generator=generator)
    return Batch([views], torch.arange(n), 0, generator, domain=torch.tensor(domain))


def unit(*shape):
    return F.normalize(torch.randn(*shape, dtype=torch.double), dim=-1)


def chances(q, k, banks, temperature):
    """p(image | its query, domain), (n, S), by loops."""
    p = torch.zeros(len(q), len(banks)).double()
    for i, d in [(i, d) for i in range(len(q)) for d in range(len(banks))]:
        own = math.exp(q[i] @ k[i] / temperature)
        p[i, d] = own / (own + sum(math.exp(q[i] @ n / temperature) for n in banks[d]))
    return p


def test_the_loss_is_the_equation():
    q, k, banks, w = unit(4, 5), unit(4, 5), unit(S, K, 5), torch.randn(4, S).double().softmax(1)
    expected = -(w * chances(q, k, banks, T)).sum(1).log().mean()
    assert_close(mixture(q, k, banks, w.log(), T), expected)


def test_equal_embeddings_give_ln_of_one_plus_a_banks_size():
    one, w = unit(1, 5), torch.randn(4, S).double().softmax(1)
    loss = mixture(one.expand(4, 5), one.expand(4, 5), one.expand(S, K, 5), w.log(), T)
    assert_close(loss, torch.tensor(math.log(1 + K)).double())


def test_with_one_hot_weights_it_is_a_loss_within_each_domain():
    q, k, banks, domain = unit(6, 5), unit(6, 5), unit(S, K, 5), torch.tensor([0, 1, 2, 0, 1, 2])
    loss = mixture(q, k, banks, F.one_hot(domain).double().log(), T)
    within = [info_nce(q[domain == d], k[domain == d], banks[d], T) for d in range(S)]
    assert_close(loss, torch.stack(within).mean())


def test_the_probabilities_of_what_cannot_be_are_no_overflow():
    q = unit(1, 5)
    loss = mixture(q, -q, q.expand(S, K, 5), torch.full((1, S), -math.log(S)).double(), 1e-3)
    assert_close(loss, torch.tensor(2000 + math.log(K)).double())


def climbed(q, k, W, w):
    """The gradient of the banks by hand: AdCo's for each bank by itself, times how much the bank
    answers for the image, r_d = w_d p_d / sum_e w_e p_e, averaged over images."""
    n = F.normalize(W, dim=2)
    p, gradient = chances(q, k, n, T_MEM), torch.zeros_like(W)
    r = w * p / (w * p).sum(1, keepdim=True)
    for i in range(len(q)):
        for d in range(len(W)):
            scores = [math.exp(q[i] @ x / T_MEM) for x in (k[i], *n[d])]
            for j, n_j in enumerate(n[d]):
                p_j = scores[1 + j] / sum(scores)
                along = (q[i] - (q[i] @ n_j) * n_j) / (W[d, j].norm() * T_MEM)
                gradient[d, j] += r[i, d] * p_j * along / len(q)
    return gradient


def test_the_banks_gradient_by_hand():
    q, k, w = unit(4, 5), unit(4, 5), torch.randn(4, S).double().softmax(1)
    W = torch.randn(S, K, 5).double().requires_grad_()
    mixture(q, k, F.normalize(W, dim=2), w.log(), T_MEM).backward()
    assert_close(W.grad, climbed(q, k, W.detach(), w))


@pytest.mark.parametrize("weights", ["soft", "onehot", "uniform"])
def test_the_banks_have_their_own_temperature_and_the_networks_cosines(weights):
    method, same = darling(weights=weights), batch()
    q, k = (z.detach() for z in method.embeddings(batch()))
    w = {
        "soft": lambda: method.classifier(method.backbone(same.views[0][0])).softmax(1),
        "onehot": lambda: F.one_hot(same.domain).double(),
        "uniform": lambda: torch.full((8, S), 1 / S).double(),
    }[weights]().detach()
    loss, logged = method.loss(same)
    loss.backward()
    W = method.banks.weight
    assert_close(W.grad, climbed(q, k, W.detach(), w))
    assert_close(loss.detach(), mixture(q, k, method.banks.directions(), w.log(), T).detach())
    assert ("domain_accuracy" in logged) == hasattr(method, "classifier") == (weights == "soft")


def test_an_anchor_never_meets_the_bank_of_another_domain():
    """With one-hot weights images of domain 1 alone leave the banks 0 and 2 without any gradient,
    and these banks without any effect."""
    method = darling(weights="onehot")
    loss, _ = method.loss(batch(domain=[1] * 8))
    loss.backward()
    gradient = method.banks.weight.grad
    assert (gradient[[0, 2]] == 0).all() and (gradient[1].norm(dim=1) > 0).all()
    other = darling(weights="onehot")
    with torch.no_grad():
        other.banks.weight[[0, 2]] = torch.randn(2, K, 5).double()
    assert torch.equal(other.loss(batch(domain=[1] * 8))[0], loss)


def test_the_network_learns_from_the_mixture_alone():
    """The weights have no way back, the classifier learns from copies of the features."""
    method = darling()
    method.loss(batch())[0].backward()
    trained = [*method.backbone.parameters(), *method.projector.parameters()]
    q, k = method.embeddings(batch())
    encoded = method.backbone(batch().views[0][0]).detach()
    logits = method.classifier(encoded)
    fixed = method.banks.directions().detach()
    alone = mixture(q, k, fixed, logits.detach().log_softmax(1), T)
    assert_close([p.grad for p in trained], list(torch.autograd.grad(alone, trained)))
    error, its = F.cross_entropy(logits, batch().domain), list(method.classifier.parameters())
    assert_close([p.grad for p in its], list(torch.autograd.grad(error, its)))


def optimizers(method):
    return method.optimizers(lambda parameters: SGD(parameters, 0.03, momentum=0.9))


def step(method, moved, batch):
    loss, _ = method(batch)
    for optimizer in moved:
        optimizer.zero_grad()
    loss.backward()
    method.before_step(0)
    for optimizer in moved:
        optimizer.step()
    method.after_step(0, 10)


def test_the_banks_step_makes_the_loss_larger_and_the_networks_smaller():
    method = darling(negatives_lr=0.001, weights="onehot")
    network, climbing = optimizers(method)
    log_w = F.one_hot(batch().domain).double().log()

    @torch.no_grad()
    def loss(temperature):
        z = method.embeddings(batch())
        return float(mixture(*z, method.banks.directions(), log_w, temperature))

    before = loss(T_MEM)
    method.loss(batch())[0].backward()
    climbing.step()
    assert loss(T_MEM) > before
    between = loss(T)
    network.step()
    assert loss(T) < between


def test_each_bank_begins_with_keys_of_its_domain():
    """Bank 0 has all of its own after the first step, 1 and 2 after the second: then all climb."""
    method, drawn = darling(complete=False, momentum=0.5), [(0, 0, 1, 2) * 2, (2, 1, 2, 1)]
    moved, first = optimizers(method), [[], [], []]
    for seed, domain in enumerate(drawn):
        for d, key in zip(domain, method.embeddings(batch(domain, seed))[1], strict=True):
            first[d].append(key.detach())
        assert not method.banks.full
        step(method, moved, batch(domain, seed))
    expected = torch.stack([torch.stack(keys[:K]) for keys in first])
    assert torch.equal(method.banks.weight.detach(), expected)
    pairs = zip(method.key_backbone.parameters(), method.backbone.parameters(), strict=True)
    assert all(torch.equal(slow, fast) for slow, fast in pairs)
    step(method, moved, batch(seed=2))
    assert ((method.banks.weight.detach() - expected).norm(dim=2) > 1e-9).all()


@pytest.mark.parametrize("kind", ["lars", "sgd", "adamw"])
def test_no_recipe_reaches_the_banks(kind):
    method = darling()
    training = Training(steps=10, optimizer=kind, lr=0.2, weight_decay=0.5, warmup=0.0)
    network, climbing = moved = method.optimizers(maker(training, method))
    assert type(climbing) is SGD and climbing.param_groups[0]["maximize"]
    ids = {id(p) for group in network.param_groups for p in group["params"]}
    assert id(method.banks.weight) not in ids
    assert {id(p) for p in method.classifier.parameters()} <= ids
    set_lr(moved, 0.1)
    assert climbing.param_groups[0]["lr"] == 3.0


def test_data_without_domains_are_refused(tmp_path, capsys):
    fill(tmp_path / "files", [f"{k}.png" for k in range(40)])
    store = str(tmp_path / "store")
    assert main(["data", "pack", str(tmp_path / "files"), store, "--size", "16"]) == 0
    words = ["pretrain", "digits/darling", "--data", store, "--out", str(tmp_path / "run")]
    assert main([*words, "--accelerator", "cpu"]) == 2
    assert (
        "darling needs images of two domains or more, with their names" in capsys.readouterr().err
    )
    assert not (tmp_path / "run").exists()


def test_what_cannot_work_is_refused():
    with pytest.raises(ValueError, match="DARLING needs one group of 2 views"):
        darling().loss(batch(n_views=3))
    with pytest.raises(ValueError, match=r"temperatures must be positive, got -1 and 0.02"):
        darling(temperature=-1)
    with pytest.raises(ValueError, match="weights are soft, onehot or uniform, got 'hard'"):
        darling(weights="hard")
