"""Neighbours against a loop over all pairs; agreement against its closed forms."""

from collections import Counter

import pytest
import torch
import torch.nn.functional as F

from onestyle.analysis import neighbours as room
from onestyle.analysis.labels import (
    chance_agreement,
    known,
    most_agreement,
    shuffled,
)
from onestyle.analysis.neighbours import agreement, agreements, knn_accuracy, majority, neighbours


def points(n=60, d=7, seed=0):
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed))


def numbers(n=60, high=3, seed=1):
    return torch.randint(high, (n,), generator=torch.Generator().manual_seed(seed))


def by_loop(features, k):
    """The k other points with the largest cosines, in float64, nearest first."""
    z = F.normalize(features.double(), dim=1)
    order = [sorted(range(len(z)), key=lambda j: -float(z[i] @ z[j])) for i in range(len(z))]
    return [[j for j in near if j != i][:k] for i, near in enumerate(order)]


@pytest.fixture(params=["one block", "many blocks"])
def blocks(request, monkeypatch):
    """Rows seven at a time: 60 is no multiple of it."""
    if request.param == "many blocks":
        monkeypatch.setattr(room, "BLOCK", 7 * 60)


def test_neighbours_are_those_with_the_largest_cosines(blocks):
    assert neighbours(points(), 9).tolist() == by_loop(points(), 9)
    assert neighbours(points(), 500).shape == (60, 59)


def test_only_directions_count():
    lengths = torch.logspace(-3, 3, 60)[torch.randperm(60)]
    turned = torch.linalg.qr(points(7)).Q
    assert torch.equal(neighbours(points() * lengths[:, None], 5), neighbours(points(), 5))
    assert torch.equal(neighbours(points() @ turned, 5), neighbours(points(), 5))


def test_across_domains_neighbours_are_of_other_domains(blocks):
    label, domain, hits = numbers(), numbers(high=4, seed=2), 0.0
    for i, near in enumerate(by_loop(points(), 59)):
        votes = Counter([int(label[j]) for j in near if domain[j] != domain[i]][:5])
        most = [kind for kind, count in votes.items() if count == max(votes.values())]
        hits += (int(label[i]) in most) / len(most)
    assert knn_accuracy(points(), label, 5, across=domain) == pytest.approx(hits / 60)


def test_a_domain_of_its_own_style_hides_the_class_from_all_but_neighbours_across():
    """Where style decides who is near, neighbours know the class within a domain alone."""
    label, domain = torch.arange(80) % 2, torch.arange(80) // 40
    within = F.one_hot(2 * domain + label, 4).float()
    content = F.one_hot(label, 2).float()
    misleading = 0.1 * F.one_hot((label + domain) % 2, 2)  # of all that two domains share
    mixed = torch.cat([within, misleading], 1)
    assert knn_accuracy(mixed, label, 5) == 1
    assert knn_accuracy(mixed, label, 5, across=domain) == 0
    assert knn_accuracy(content, label, 5, across=domain) == 1
    with pytest.raises(ValueError, match="two domains or more"):
        knn_accuracy(content, label, 5, across=domain * 0)


def test_agreement_counts_neighbours_of_the_same_label(blocks):
    label, near = numbers(), by_loop(points(), 20)
    found = agreement(points(), label, (1, 4, 20))
    for k in (1, 4, 20):
        same = [label[j] == label[i] for i in range(60) for j in near[i][:k]]
        assert found[k] == pytest.approx(sum(same).item() / (60 * k))
    both = agreements(points(), {"a": label, "b": label * 0}, (4, 20, 4))
    assert both == {"a": {k: found[k] for k in (4, 20)}, "b": {4: 1.0, 20: 1.0}}


def test_among_all_others_agreement_is_chance():
    label = numbers()
    assert agreement(points(), label, (59,))[59] == pytest.approx(chance_agreement(label))


def test_of_labels_that_mean_nothing_agreement_is_chance():
    label = numbers(3000)
    assert agreement(points(3000), label, (10,))[10] == pytest.approx(1 / 3, abs=0.01)


@pytest.mark.parametrize("feature", [1.0, 0.0])
def test_features_that_are_all_alike_agree_by_chance(feature):
    """Else the order of the images would decide, which is often that of their domains: all
    neighbours of the frequent one, or of the other."""
    label = torch.tensor([0] * 900 + [1] * 300)
    alike = torch.full((1200, 5), feature)
    assert agreement(alike, label, (10,))[10] == pytest.approx(0.625, abs=0.05)
    assert knn_accuracy(alike, label, 1) == pytest.approx(0.625, abs=0.04)


def test_the_purest_neighbours_agree_most():
    label = torch.tensor([0] * 5 + [1] * 9 + [2] * 30)
    corners = torch.eye(3)[label] + 0.01 * points(44, 3)
    ks = (1, 4, 5, 8, 20, 43)
    found = agreement(corners, label, ks)
    assert found == pytest.approx({k: most_agreement(label, k) for k in ks})
    assert found[4] == 1 and found[43] == pytest.approx(chance_agreement(label))


def test_chance_is_over_pairs_of_different_images():
    label = numbers(40)
    pairs = [label[i] == label[j] for i in range(40) for j in range(40) if i != j]
    assert chance_agreement(label) == pytest.approx(sum(pairs).item() / len(pairs))
    assert chance_agreement(torch.arange(5)) == 0


def test_the_most_frequent_label_wins_and_ties_are_shared():
    label, near = numbers(), by_loop(points(), 7)

    def right(i):
        votes = Counter(label[near[i]].tolist())
        first = [c for c, n in votes.items() if n == max(votes.values())]
        return (label[i].item() in first) / len(first)

    assert knn_accuracy(points(), label, 7) == pytest.approx(sum(map(right, range(60))) / 60)
    votes = torch.tensor([[0, 0, 5], [0, 5, 7]])
    assert majority(votes, torch.tensor([0, 7])).tolist() == [1, pytest.approx(1 / 3)]
    assert majority(votes, torch.tensor([5, 9])).tolist() == [0, 0]


def test_what_cannot_be_compared_is_said():
    spoilt = points()
    spoilt[3, 2], spoilt[5, 0] = torch.nan, torch.inf
    with pytest.raises(ValueError, match="2 of 60 features are not finite"):
        neighbours(spoilt, 3)
    with pytest.raises(ValueError, match="got 1 images, k = 3"):
        neighbours(points(1), 3)
    with pytest.raises(ValueError, match="5 images have no k neighbours each: k is from 1 to 4"):
        agreement(points(5), numbers(5), (5, 10))


def test_labels_are_numbered_without_gaps_or_refused():
    kinds = known(4, torch.tensor([7, 3, 7, 9]), None)
    assert {name: x.tolist() for name, x in kinds.items()} == {"class": [1, 0, 1, 2]}
    with pytest.raises(ValueError, match="2 of 4 images have no domain: leave them out"):
        known(4, None, torch.tensor([-1, 0, 1, -1]))
    with pytest.raises(ValueError, match=r"4 images but labels of shape \(3,\)"):
        known(4, torch.arange(3), None)


def test_shuffled_labels_are_the_same_ones_in_other_orders():
    orders = shuffled(numbers())
    assert len({tuple(order.tolist()) for order in orders}) == 10
    assert all(order.sort().values.equal(numbers().sort().values) for order in orders)
    assert all(a.equal(b) for a, b in zip(orders, shuffled(numbers()), strict=True))
