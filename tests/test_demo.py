"""The demonstration, with few steps: it compares three styles, and goes on where it ended."""

import re
import shutil

import pytest

from onestyle.recipes import override, recipe_named
from onestyle.stages.demo import demo

FEW = ("views=2x16", "batch_size=16", "steps=4", "monitor_every=2", "precision=32-true")


@pytest.mark.slow
def test_it_runs_through_and_then_says_that_it_has(tmp_path):
    recipe, said = override(recipe_named("digits/simclr"), FEW), []
    first = demo(tmp_path / "demo", n_seeds=1, recipe=recipe, say=said.append)
    assert first.took and [line for line in said if line.startswith("3 of 3")]
    head, percents, *rows, budget = first.table.splitlines()
    assert "photo" in head and "chance 10.2" in head
    assert percents.split() == ["1%", "5%", "10%", "100%"]
    assert [row.split()[0] for row in rows] == ["plain", "FA", "BSS"]
    for row in rows:
        cells = re.findall(r"([\d.]+) ± ([\d.]+)", row)
        assert len(cells) == 4 and all(0 <= float(mean) <= 100 for mean, _ in cells)
    assert "0.37 M parameters" in budget and "4 steps of 16 images in 2 views" in budget
    before = first.page.read_bytes()

    again = demo(tmp_path / "demo", n_seeds=1, recipe=recipe, say=said.append)
    assert (again.took, again.table) == (None, first.table)
    assert again.page.read_bytes() == before

    shutil.rmtree(tmp_path / "demo/fa-s0/probe")
    told = []
    resumed = demo(tmp_path / "demo", n_seeds=1, recipe=recipe, say=told.append)
    assert resumed.table == first.table and told[0] == "1 of 1: SimCLR, FA, seed 0"

    with pytest.raises(ValueError, match="another recipe"):
        demo(tmp_path / "demo", n_seeds=1, recipe=override(recipe, ["lr=0.1"]))
