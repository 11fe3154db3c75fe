"""Homogeneity of prototypes against tables made by hand."""

import json
import math

import numpy as np
import pytest
import torch

from onestyle.analysis import homogeneity as room
from onestyle.analysis.homogeneity import assign, compute, homogeneity
from tests.analysis.pictures import words_of


def scores(n=60, n_prototypes=8, seed=0):
    return torch.rand(n, n_prototypes, generator=torch.Generator().manual_seed(seed)) * 2 - 1


def test_a_prototype_of_one_label_is_pure_and_one_of_all_is_not():
    prototype, apart = torch.tensor([3, 3, 0, 0, 0]), torch.tensor([1, 1, 0, 0, 0])
    assert homogeneity(prototype, apart) == (1, pytest.approx(1))
    prototype, mixed = torch.arange(12) % 3, torch.arange(12) // 3
    assert homogeneity(prototype, mixed) == (pytest.approx(1 / 4), pytest.approx(0, abs=1e-12))


def test_the_mean_is_over_prototypes_that_have_images():
    """3 images of labels 0 0 1 and 1 image of label 1; prototypes 1 and 2 have none."""
    prototype, label = torch.tensor([0, 0, 0, 3]), torch.tensor([0, 0, 1, 1])
    purity, certainty = homogeneity(prototype, label)
    entropy = -(2 / 3 * math.log(2 / 3) + 1 / 3 * math.log(1 / 3))
    assert purity == pytest.approx((2 / 3 + 1) / 2)
    assert certainty == pytest.approx(1 - (entropy + 0) / 2 / math.log(2))


def test_one_label_alone_is_everywhere():
    assert homogeneity(torch.arange(4), torch.zeros(4, dtype=torch.long)) == (1, 1)


def by_hand(scores, epsilon=0.05, iterations=3):
    """Sinkhorn-Knopp as it is written down: columns, then rows, of exp(scores / epsilon)."""
    q = np.exp((scores.double().numpy() - 1) / epsilon)
    for _ in range(iterations):
        q /= q.sum(0)
        q /= q.sum(1, keepdims=True)
    return q.argmax(1).tolist()


def test_assignments_are_sinkhorn_s():
    assert assign(scores()).tolist() == by_hand(scores())
    nearest = scores().argmax(1).tolist()
    assert by_hand(scores() + torch.tensor([1.0] + [0] * 7)) != nearest  # all prototypes are used
    assert assign(scores() + 0.3).tolist() == by_hand(scores())


def test_where_one_prototype_is_nearest_to_all_others_are_used_as_well():
    drawn = scores(800) * 0.1 + torch.tensor([0.9] + [0.0] * 7)
    assert (drawn.argmax(1) == 0).all()
    counts = torch.bincount(assign(drawn), minlength=8)
    assert counts.min() > 60 and counts.max() < 140


def test_prototypes_that_are_domains():
    domain, label = torch.arange(60) % 4, torch.arange(60) // 15
    apart = torch.eye(4)[domain]
    found = compute([(100, scores(60, 4)), (200, apart)], label, domain)
    first, last = found.moments
    assert (first.step, last.step, last.n_used, found.n, found.n_prototypes) == (100, 200, 4, 60, 4)
    assert last.purity["domain"].value == 1 == last.certainty["domain"].value
    assert last.purity["domain"].chance == pytest.approx(0.4, abs=0.05)
    assert last.purity["class"].value == pytest.approx(4 / 15)
    assert first.purity["domain"].value < 0.6
    assert str(found).startswith("at step 200 domain homogeneity 1.00 (chance 0.")
    assert str(found).endswith("4 of 4 prototypes have images among 60")


def test_prototypes_that_know_nothing_are_as_pure_as_chance():
    found = compute([(1, scores(4000, 200))], None, torch.arange(4000) % 4).moments[0]
    purity, certainty = found.purity["domain"], found.certainty["domain"]
    assert purity.value == pytest.approx(purity.chance, abs=0.01)
    assert certainty.value == pytest.approx(certainty.chance, abs=0.01)
    assert purity.chance > 0.3  # few images a prototype: more than 1 / 4


def test_what_cannot_be_followed_is_said():
    with pytest.raises(ValueError, match="no snapshot to follow"):
        compute([], torch.zeros(3), None)
    with pytest.raises(ValueError, match="neither is known"):
        compute([(1, scores())], None, None)
    with pytest.raises(ValueError, match="not finite"):
        compute([(1, scores() * torch.nan)], None, torch.zeros(60).long())


def followed(seed):
    steps = [(100 * k, scores(seed=seed + k)) for k in (1, 2)]
    return compute(steps, torch.arange(60) % 10, torch.arange(60) % 4)


def test_numbers_have_chance_beside_them():
    found = followed(0).numbers()
    assert json.loads(json.dumps(found)) == found
    assert [step["step"] for step in found["steps"]] == [100, 200]
    for kind in ("domain", "class"):
        for what in ("purity", "certainty"):
            assert found["steps"][0][kind][what].keys() == {"value", "chance"}


def test_the_picture_has_a_curve_a_run_and_chance():
    one, other = followed(0), followed(5)
    figure = room.draw({"FA": one, "BSS": other})
    assert {"FA", "BSS", "of the most frequent domain"} <= {*words_of(figure)}
    for axes, kind in zip(figure.axes[1:], ("domain", "class"), strict=True):
        drawn = {tuple(line.get_ydata()) for line in axes.lines}
        for result in (one, other):
            values = [moment.purity[kind] for moment in result.moments]
            assert {tuple(v.value for v in values), tuple(v.chance for v in values)} <= drawn
