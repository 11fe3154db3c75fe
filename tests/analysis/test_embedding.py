"""Which images a map shows, that it keeps apart what is apart, and what its numbers mean."""

import json

import numpy as np
import pytest
import torch

from onestyle.analysis import embedding
from onestyle.analysis.embedding import SHAPES, compute, spread_rows
from onestyle.analysis.neighbours import agreement, knn_accuracy
from tests.analysis.pictures import words_of
from tests.analysis.test_neighbours import numbers, points


def clusters(n=60, d=8, n_clusters=3):
    """n points near the corners of a cube, and their corners."""
    corner = torch.arange(n) % n_clusters
    return 5 * torch.eye(d)[corner] + points(n, d), corner


def test_as_many_of_every_domain_and_class():
    domain, label = numbers(900, 3, seed=1), numbers(900, 4, seed=2)
    rows = spread_rows(900, [domain, label], most=240)
    assert rows.tolist() == sorted({*rows.tolist()}) and len(rows) == 240
    assert torch.bincount(domain[rows] * 4 + label[rows]).tolist() == [20] * 12
    assert torch.equal(rows, spread_rows(900, [domain, label], most=240))
    assert not torch.equal(rows, spread_rows(900, [domain, label], seed=1, most=240))


def test_of_the_rare_all_and_of_none_more_than_500():
    label = torch.tensor([0] * 3 + [1] * 700 + [2] * 40)
    rows = spread_rows(743, [label])
    assert torch.bincount(label[rows]).tolist() == [3, 500, 40]
    assert spread_rows(700, []).shape == (500,)


def test_what_is_apart_stays_apart():
    features, corner = clusters()
    found = compute(features, None, corner)
    flat = torch.from_numpy(found.coordinates)
    assert found.rows.tolist() == list(range(60)) and found.coordinates.shape == (60, 2)
    near = torch.cdist(flat, flat).topk(11, largest=False).indices[:, 1:]
    assert (corner[near] == corner[:, None]).float().mean() > 0.98


def test_its_numbers_are_of_the_features_it_shows():
    features, domain = clusters()
    label = numbers(60, 4)
    found = compute(features, label, domain, k=5)
    assert found.domain_purity.value == pytest.approx(agreement(features, domain, (5,))[5])
    assert found.class_knn.value == pytest.approx(knn_accuracy(features, label, 5))
    assert found.domain_purity.chance == pytest.approx(19 / 59)
    assert found.class_knn.chance == pytest.approx(1 / 4, abs=0.08)
    small = compute(features, label, domain, k=5, most=24)
    assert small.domain_purity.value == pytest.approx(
        agreement(features[small.rows], domain[small.rows], (5,))[5]
    )
    assert (small.n, len(small.rows)) == (60, 24)
    assert (small.label == label[small.rows].numpy()).all()
    assert json.loads(json.dumps(small.numbers())) == small.numbers()
    assert str(small).startswith("24 of 60 images, domain purity 0.")


def test_a_seed_decides_all():
    features, corner = clusters()
    first, same, other = (compute(features, None, corner, seed=s).coordinates for s in (1, 1, 2))
    assert (first == same).all() and (first != other).any()


@pytest.mark.parametrize(
    "features", [torch.ones(30, 4), torch.zeros(30, 4), points(30, 1), points(4)]
)
def test_features_that_are_alike_or_few_have_a_map(features):
    found = compute(features, None, torch.arange(len(features)) % 2)
    assert np.isfinite(found.coordinates).all()


def test_fewer_than_four_images_have_none():
    with pytest.raises(ValueError, match="a map needs 4 images or more, got 3"):
        compute(points(3), None, torch.arange(3))


def test_runs_are_told_apart_by_the_ends_of_their_names():
    names = [f"digits-simclr-bss-photo-lr=0.002-seed-{k}" for k in (0, 1)]
    said = words_of(embedding.draw(dict.fromkeys(names, compute(points(), None, None))))
    assert {*names} <= {*said}


def drawn(n_classes, n_domains, names=(), n_runs=1):
    label, domain = torch.arange(60) % n_classes, torch.arange(60) % n_domains
    runs = {f"run {k}": compute(points(60, seed=k), label, domain) for k in range(n_runs)}
    return embedding.draw(runs, domains=names, classes=names)


def test_the_picture_names_domains_and_classes_and_numbers():
    figure = drawn(3, 2, names=("cat", "a very long name of a class", "$x$"), n_runs=4)
    said = words_of(figure)
    assert said.count("cat") == 2 and said.count("$x$") == 1
    assert sum(word.startswith("domain purity 0.") for word in said) == 4
    maps = figure.axes[1:]
    shown = [np.concatenate([dots.get_offsets() for dots in axes.collections]) for axes in maps]
    assert [len(dots) for dots in shown] == [60] * 4


@pytest.mark.parametrize("n_classes", [12, 13, len(SHAPES), len(SHAPES) + 5])
def test_a_marker_for_every_class_as_long_as_they_last(n_classes):
    said = words_of(drawn(n_classes, 9))
    more = "and, with the same markers again, 5 more"
    assert (more in said) == (n_classes > len(SHAPES))
    assert str(min(n_classes, len(SHAPES)) - 1) in said


def test_without_labels_dots_are_grey():
    found = compute(points(), None, None)
    assert found.domain_purity is None and found.class_knn is None
    words_of(embedding.draw({"a run": found}))
