"""Prices follow from what finished runs took, or from a trial."""

from dataclasses import replace
from pathlib import Path

import pytest

from onestyle.stages.pretrain import Pretraining, make_fabric
from onestyle.tables.collect import collect
from onestyle.tables.layout import TABLES
from onestyle.tables.plan import Ask, pixels, plan
from onestyle.tables.price import Price, Pricing, price_lines
from tests.tables.made import made

SMALL = ("views=2x16", "batch_size=16", "steps=4", "precision=32-true")


def jobs_of(*settings, **ask):
    ask = {"methods": ("simclr",), "targets": ("photo",), "settings": SMALL + settings} | ask
    return plan(TABLES["digits"], Ask(**ask))


@pytest.fixture
def priced(tmp_path):
    """Prices where the run with FA took 100 s; what is said of trials."""
    jobs, said = jobs_of(), []
    made(tmp_path, jobs[1], lambda *_: 1, seconds=100.0)
    fabric = make_fabric("32-true", accelerator="cpu")
    return Pricing("digits", collect(tmp_path, jobs), fabric, said.append), jobs, said


def test_a_finished_run_tells_what_another_takes(priced):
    pricing, (plain, fa, bss), said = priced
    assert pricing.of(fa) == Price()
    assert pricing.of(plain) == pricing.of(bss)
    (twice,) = jobs_of("steps=8", styles=("bss",))
    assert pricing.of(twice).seconds - pricing.of(bss).seconds == pytest.approx(100)
    assert not said


def test_fine_tuning_is_priced_by_its_images(priced):
    pricing, (*_, bss), _ = priced
    (erm,) = jobs_of(methods=("erm",))
    more = replace(erm, n_seeds=erm.n_seeds + 1)
    a_pixel = 100 / pixels(bss.recipe)
    n_images = 1797  # each once to be predicted, a third of a step
    each = 2000 * 64 + n_images / 3
    difference = pricing.of(more).seconds - pricing.of(erm).seconds
    assert difference == pytest.approx(4 * a_pixel * 16**2 * each)
    assert pricing.of(erm).disk == 0


def test_what_learns_from_labels_is_tried_on_both_streams_and_no_target(tmp_path):
    settings = ("batch_size=16", "labelled_batch_size=4", "steps=4")
    (job,) = jobs_of(methods=("fixmatch",), settings=("views=1x16 + 1x16", *settings))
    job = replace(job, recipe=replace(job.recipe, uses_target=True))
    said, fabric = [], make_fabric("32-true", accelerator="cpu")
    pricing = Pricing("digits", collect(tmp_path, [job]), fabric, said.append)
    price = pricing.of(job)
    assert said == ["trying fixmatch on 1 x cpu, to estimate its price"]
    rate = pricing.tried["fixmatch"][0]
    each = pixels(job.recipe) + 16**2 * 1797 / 3
    assert price.seconds == pytest.approx(4 * job.n_seeds * rate * each)


def test_without_runs_a_method_is_tried_once(tmp_path):
    jobs, said = jobs_of(), []
    lines = list(price_lines(jobs, collect(tmp_path, jobs), "digits", said.append))
    assert len(said) == 1 and "trying simclr" in said[0]
    assert [line.split(":")[0].strip() for line in lines[:3]] == [
        "SimCLR", "SimCLR w/ FA", "SimCLR w/ BSS"
    ]  # fmt: skip
    job = Pretraining.plan(jobs[0].recipe, "digits", ["photo"], [], make_fabric("32-true"))
    assert f"{3 * job.disk / 1e6:.0f} MB of disk" in lines[-1]
    assert not any(Path(tmp_path).iterdir())
