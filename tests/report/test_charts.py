"""Charts put numbers where they belong."""

import math
import re

import pytest

from onestyle.report.charts import Axis, Bar, Curve, bars, line_chart


def test_an_axis_is_linear_or_logarithmic():
    axis = Axis(10, 30, 0, 200)
    assert [axis(x) for x in (10, 15, 30)] == [0, 50, 200]
    log = Axis(1, 100, 0, 200, log=True)
    assert [log(x) for x in (1, 10, 100)] == pytest.approx([0, 100, 200])
    assert Axis(5, 5, 0, 200)(5) == 0


def points(path):
    return [tuple(map(float, pair.split(","))) for pair in re.findall(r"[\d.]+,[\d.]+", path)]


def test_a_line_goes_through_its_points():
    chart = line_chart([Curve("a", 0, (0, 5, 10), (1.0, 2.0, 4.0))], "title", "step")
    (line,) = re.findall(r'class="line" d="([^"]+)"', chart)
    (x0, y0), (x1, y1), (x2, y2) = points(line)
    assert x1 - x0 == pytest.approx(x2 - x1)
    assert y1 - y2 == pytest.approx(2 * (y0 - y1), abs=0.2) and y0 > y1 > y2


def test_an_error_bar_reaches_a_standard_deviation():
    curve = Curve("a", 1, (1, 2), (10.0, 20.0), "o", (5.0, None))
    chart = line_chart([curve], "title", "x", y_from=0)
    (low, high), (same, other) = (
        map(float, pair) for pair in re.findall(r'd="M[\d.]+,([\d.]+)V([\d.]+)"', chart)
    )
    (line,) = re.findall(r'class="line" d="(M[^V"]+L[^"]+)"', chart)
    assert math.isclose((low + high) / 2, points(line)[0][1], abs_tol=0.1)
    assert low - high == pytest.approx(points(line)[0][1] - points(line)[1][1], abs=0.2)
    assert same == other


def test_a_bar_is_as_long_as_its_mean_and_has_a_dot_for_each_seed():
    drawn = bars([Bar("a<b", 0, (40.0, 60.0), "")], 10, "")
    assert 'style="width:50.00%"' in drawn and "a&lt;b" in drawn
    assert re.findall(r'<i style="left:([\d.]+)%', drawn) == ["40.00", "60.00"]
    assert re.findall(r'<u style="left:([\d.]+)%', drawn) == ["10.00"]
