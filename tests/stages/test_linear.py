"""Many heads together are the same heads as one after the other, trained by torch's own layers."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.testing import assert_close

from onestyle.stages.linear import (
    PERIOD,
    PROBING,
    Heads,
    Probing,
    Problem,
    draw,
    first_weight,
    follow_probes,
    probing_of,
    train_probes,
)

N, DIM, N_CLASSES = 300, 24, 5
HOW = Probing(steps=130, batch_size=32, lr=3e-3, weight_decay=1e-2)


def data(dtype, n=N, seed=0):
    """Classes that overlap, features of different sizes."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(N_CLASSES, (n,), generator=generator)
    centres = torch.randn(N_CLASSES, DIM, generator=torch.Generator().manual_seed(9))
    features = centres[labels] + 1.5 * torch.randn(n, DIM, generator=generator)
    return (features * torch.linspace(0.01, 30, DIM) + 5).to(dtype), labels


def problems(n=N):
    return [Problem(np.arange(0, n, stride), seed) for stride in (1, 30) for seed in range(2)]


def one_after_the_other(features, labels, problem, probing):
    """What the method is: BatchNorm without affine, a linear layer, Adam, cosine."""
    norm = nn.BatchNorm1d(DIM, eps=probing.eps, affine=False).to(features)
    linear = nn.Linear(DIM, N_CLASSES).to(features)
    nn.init.zeros_(linear.bias)
    with torch.no_grad():
        linear.weight.copy_(first_weight(N_CLASSES, DIM, problem.seed))
    options = {"lr": probing.lr, "weight_decay": probing.weight_decay}
    optimizer = torch.optim.Adam(linear.parameters(), **options)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, probing.steps)
    for step in range(probing.steps):
        period, k = divmod(step, PERIOD)
        places = draw(len(problem.rows), probing.batch_size, problem.seed, period)[k]
        rows = torch.from_numpy(problem.rows[places])
        optimizer.zero_grad()
        nn.functional.cross_entropy(linear(norm(features[rows])), labels[rows]).backward()
        optimizer.step()
        schedule.step()
    return norm.eval(), linear.eval()


def test_in_double_precision_the_weights_are_the_loops():
    features, labels = data(torch.float64)
    heads = train_probes(features, labels, problems(), N_CLASSES, HOW)
    for k, problem in enumerate(problems()):
        norm, linear = one_after_the_other(features, labels, problem, HOW)
        assert_close(heads.weight[k], linear.weight.detach(), rtol=0, atol=1e-8)
        assert_close(heads.bias[k], linear.bias.detach(), rtol=0, atol=1e-8)
        assert_close(heads.mean[k], norm.running_mean, rtol=1e-10, atol=0)
        assert_close(heads.var[k], norm.running_var, rtol=1e-10, atol=0)
        with torch.no_grad():
            assert_close(heads.logits(features)[k], linear(norm(features)), rtol=0, atol=1e-8)


def test_in_single_precision_the_accuracy_is_the_loops():
    features, labels = data(torch.float32)
    others, truth = data(torch.float32, n=4000, seed=1)
    heads = train_probes(features, labels, problems(), N_CLASSES, HOW)
    ours = (heads.predict(others) == truth).double().mean(1)
    for k, problem in enumerate(problems()):
        norm, linear = one_after_the_other(features, labels, problem, HOW)
        theirs = (linear(norm(others)).argmax(1) == truth).double().mean()
        assert abs(ours[k] - theirs) <= 0.002
    assert ours[0] > 0.6  # of 0.2 by chance: something was learnt


def test_company_changes_nothing():
    """A head of a block is the head that is trained alone, whatever the threads."""
    features, labels = data(torch.float64)
    together = train_probes(features, labels, problems(), N_CLASSES, HOW)
    alone = train_probes(features, labels, problems()[2:3], N_CLASSES, HOW)
    for many, one in zip(together[:4], alone[:4], strict=True):
        assert_close(many[2], one[0], rtol=0, atol=1e-10)


def test_heads_are_followed_step_by_step():
    features, labels = data(torch.float64)
    early, last = follow_probes(features, labels, problems(), N_CLASSES, HOW, at=(50, 130))
    assert_close(
        last, train_probes(features, labels, problems(), N_CLASSES, HOW), rtol=0, atol=1e-10
    )
    assert (early.weight - last.weight).abs().max() > 1e-3
    (first,) = follow_probes(features, labels, problems()[:1], N_CLASSES, HOW, at=(1,))
    step = (first.weight[0] - first_weight(N_CLASSES, DIM, 0)).abs()
    assert_close(step, torch.full_like(step, HOW.lr), rtol=1e-3, atol=0)  # Adam's first: lr


def test_a_constant_feature_is_ignored():
    features, labels = data(torch.float32)
    features[:, 3] = 1000.1
    heads = train_probes(features, labels, problems(), N_CLASSES, HOW)
    assert all(part.isfinite().all() for part in heads)
    without = [k for k in range(DIM) if k != 3]
    rest = Heads(
        heads.weight[:, :, without], heads.bias, *(x[:, without] for x in heads[2:4]), heads.eps
    )
    assert_close(heads.logits(features), rest.logits(features[:, without]), rtol=0, atol=0.02)


def test_rows_smaller_than_a_batch_are_drawn_with_replacement():
    features, labels = data(torch.float64)
    few = [Problem(np.array([0, 1, 2]), 0)]
    heads = train_probes(features, labels, few, N_CLASSES, HOW)
    assert (heads.predict(features)[0, :3] == labels[:3]).all()


def test_progress_counts_every_step_of_every_problem():
    features, labels = data(torch.float32)
    told = []
    train_probes(features, labels, problems(), N_CLASSES, HOW, show=told.append)
    assert told == sorted(told) and told[-1] == 4 * 130


def test_the_papers_settings():
    pacs, domainnet, camelyon = (PROBING[name] for name in ("pacs", "domainnet", "camelyon17"))
    assert [(p.steps, p.batch_size) for p in (pacs, domainnet, camelyon)] == [
        (5000, 128), (1000, 64), (15_000, 64),
    ]  # fmt: skip
    assert {(p.lr, p.weight_decay, p.eps) for p in (pacs, domainnet, camelyon)} == {
        (1e-4, 1e-4, 1e-6)
    }
    assert probing_of("mine") == pacs and probing_of("domainnet-b") == domainnet
    assert pacs.rate(0) == 1e-4 and abs(pacs.rate(2500) - 5e-5) < 1e-12 and pacs.rate(4999) < 1e-10


def test_what_cannot_be_probed():
    features, labels = data(torch.float32)
    with pytest.raises(ValueError, match="not finite, the first in row 7: the backbone has div"):
        spoilt = features.clone()
        spoilt[7, 2] = torch.nan
        train_probes(spoilt, labels, problems(), N_CLASSES, HOW)
    with pytest.raises(ValueError, match="needs labelled images and got none"):
        train_probes(features, labels, [Problem(np.array([], np.int64), 0)], N_CLASSES, HOW)
    with pytest.raises(ValueError, match=r"classes are 0..2, the labels 0..4"):
        train_probes(features, labels, problems(), 3, HOW)
    with pytest.raises(ValueError, match="batch_size must be at least 2, for BatchNorm, got 1"):
        Probing(batch_size=1)
