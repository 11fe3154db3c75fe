import json

import pytest
import torch

from onestyle.analysis import purity
from tests.analysis.pictures import words_of
from tests.analysis.test_neighbours import numbers, points


def test_domains_apart_and_classes_mixed():
    """Features that know the domain alone: pure for domains, by chance for classes."""
    domain, label = torch.arange(4).repeat_interleave(100), torch.arange(400) % 2
    found = purity.compute(torch.eye(4)[domain] + 0.01 * points(400, 4), label, domain, (10, 300))
    assert found.curves["domain"] == pytest.approx((1, 99 / 300))
    assert found.most["domain"] == found.curves["domain"]
    assert found.curves["class"][0] == pytest.approx(0.5, abs=0.03)
    assert found.chance == pytest.approx({"domain": 99 / 399, "class": 199 / 399})
    assert str(found).startswith("domain purity 1.00 (chance 0.25), class purity 0.")
    assert str(found).endswith("of 10 neighbours among 400")


def test_the_usual_k_as_far_as_there_are_images():
    assert purity.compute(points(), numbers(), None).ks == (1, 5, 10, 20, 50)
    assert purity.compute(points(2), numbers(2), None).ks == (1,)
    with pytest.raises(ValueError, match="neither is known"):
        purity.compute(points(), None, None)


def test_numbers_have_chance_beside_them():
    found = purity.compute(points(), numbers(), None, (1, 50)).numbers()
    assert json.loads(json.dumps(found)) == found
    assert found["k"] == [1, 50] and found["n"] == 60
    assert found["class"].keys() == {"purity", "chance", "most"} and "domain" not in found


def test_the_picture_has_a_curve_a_run_and_chance():
    one, other = (purity.compute(points(seed=s), numbers(), numbers(seed=3)) for s in (0, 5))
    figure = purity.draw({"plain": one, "BSS": other})
    said = words_of(figure)
    assert {"Neighbours", "plain", "BSS", "of the same domain", "of the same class"} <= {*said}
    for axes, kind in zip(figure.axes[1:], ("domain", "class"), strict=True):
        drawn = [tuple(line.get_ydata()) for line in axes.lines]
        assert {one.curves[kind], other.curves[kind], one.most[kind]} <= {*drawn}
        assert (one.chance[kind],) * 2 in drawn
