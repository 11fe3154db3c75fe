"""Cosines of anchors and negatives against a loop over all pairs, and closed forms."""

import json
import math
from itertools import combinations, product

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from onestyle.analysis import similarity
from onestyle.analysis.similarity import compute
from tests.analysis.pictures import words_of


def embeddings(n_views=3, n=5, dim=4, seed=0):
    return torch.randn(n_views, n, dim, generator=torch.Generator().manual_seed(seed))


def by_loop(batch):
    """Cosines of any view of an image with any view of a later one."""
    z = F.normalize(batch.double(), dim=-1)
    pairs = combinations(range(batch.shape[1]), 2)
    views = [*product(range(batch.shape[0]), repeat=2)]
    return np.array([float(z[s, c] @ z[t, e]) for c, e in pairs for s, t in views])


@pytest.mark.parametrize("block", [2**24, 60, 1])
def test_all_pairs_of_different_images_once(block, monkeypatch):
    monkeypatch.setattr(similarity, "BLOCK", block)
    batches = embeddings(), embeddings(2, 7, seed=1)
    cosines = np.concatenate([by_loop(batch) for batch in batches])
    found = compute(batches)
    assert found.pairs == len(cosines) == 9 * 10 + 4 * 21
    assert found.mean == pytest.approx(cosines.mean(), abs=1e-6)
    assert found.std == pytest.approx(cosines.std(), abs=1e-6)
    shares = np.histogram(cosines, 100, (-1, 1))[0] / len(cosines)
    assert np.abs(np.array(found.shares) - shares).sum() <= 2 / len(cosines)  # one on an edge
    for q, value in found.quantiles.items():
        assert (cosines < value - 2e-4).mean() <= q <= (cosines < value + 2e-4).mean()


def test_images_and_views_have_no_order():
    batch = embeddings(3, 6)
    other = batch[[2, 0, 1]][:, [5, 3, 0, 1, 4, 2]] * torch.rand(3, 6, 1).add(0.1)
    assert compute([other]).mean == pytest.approx(compute([batch]).mean, abs=1e-6)
    assert compute([other]).quantiles == pytest.approx(compute([batch]).quantiles, abs=2e-4)


def test_views_of_one_image_are_no_negatives():
    """Two images at opposite ends, whose own views are all alike."""
    ends = torch.tensor([1.0, -1.0])[None, :, None].expand(4, 2, 3)
    found = compute([ends])
    assert (found.pairs, found.mean, found.shares[0]) == (16, pytest.approx(-1), 1)


@pytest.mark.parametrize(("cosine", "angle"), [(1, 0), (0, 90), (0.5, 60)])
def test_embeddings_at_one_angle(cosine, angle):
    turn = math.radians(angle)
    pair = torch.tensor([[1, 0], [math.cos(turn), math.sin(turn)]])
    found = compute([pair[None]] * 3)
    assert found.pairs == 3 and found.std == pytest.approx(0, abs=1e-3)
    assert found.mean == pytest.approx(cosine, abs=1e-6)
    assert [*found.quantiles.values()] == pytest.approx([cosine] * 7, abs=2e-4)
    assert sum(found.shares) == 1 == max(found.shares)


def test_random_directions_are_what_stands_beside():
    found = compute([embeddings(1, 1500, 16)])
    assert found.mean == pytest.approx(0, abs=0.01)
    assert found.std == pytest.approx(found.isotropic_std, abs=0.01)
    chance = {q: found.isotropic_quantile(q) for q in found.quantiles}
    assert found.quantiles == pytest.approx(chance, abs=0.02)


def test_one_image_has_no_negatives():
    with pytest.raises(ValueError, match="no pair of different images"):
        compute([embeddings(4, 1)])
    with pytest.raises(ValueError, match="2 of 10 features are not finite"):
        compute([embeddings().index_fill(1, torch.tensor(2), torch.nan)[:2], embeddings()])


def test_numbers_have_chance_beside_them():
    found = compute([embeddings(2, 9)]).numbers()
    assert json.loads(json.dumps(found)) == found
    assert found["mean"]["chance"] == 0 and found["std"]["chance"] == 0.5
    assert found["quantiles"]["0.5"]["chance"] == pytest.approx(0, abs=1e-9)
    assert len(found["histogram"]["shares"]) == 100


def test_the_picture_has_a_panel_a_kind_and_a_histogram_a_run():
    one, other = (compute([embeddings(2, 9, seed=s)]) for s in (0, 1))
    results = {name: {"projector": one, "backbone": other} for name in ("FA", "BSS")}
    figure = similarity.draw(results)
    said = words_of(figure)
    assert {f"FA, mean {one.mean:.2f}", f"BSS, mean {other.mean:.2f}"} <= {*said}
    for axes, result in zip(figure.axes[1:], (one, other), strict=True):
        steps = [patch.get_data().values for patch in axes.patches if hasattr(patch, "get_data")]
        assert len(steps) == 4  # filled, and its edge
        assert all(np.allclose(values, 100 * np.array(result.shares)) for values in steps)
