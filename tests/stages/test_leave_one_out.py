"""onestyle leave-one-out: each domain unseen in turn, nothing done twice."""

import numpy as np
import pytest

from onestyle.cli import main
from onestyle.data.store import open_store
from onestyle.recipes import override, recipe_named
from onestyle.run import read_run
from onestyle.stages.evaluation import read_evaluation
from onestyle.stages.leave_one_out import leave_one_out
from tests.stages.test_probe import BOTH, store_of

SMALL = ("views=2x16", "batch_size=16", "steps=2", "precision=32-true", "monitor_every=0")
DOMAINS = ("chalk", "ink", "neon", "photo")


def command(out, *words, fractions=(".05", "1")):
    settings = [word for setting in SMALL for word in ("--set", setting)]
    found = ["leave-one-out", "digits/simclr", "--accelerator", "cpu", "--seeds", "2", *settings]
    return [*found, "--probe-set", "steps=20", "--fractions", *fractions, "--out", str(out), *words]


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "all"
    assert main(command(out)) == 0
    return out


def test_every_domain_is_the_target_of_a_run_that_never_saw_it(done):
    store, whole = open_store("digits"), read_evaluation(done)
    for k, domain in enumerate(DOMAINS):
        run = read_run(done / f"{k}-{domain}")
        assert run.config["data"]["targets"] == [domain]
        one = read_evaluation(run.path / "probe")
        ours, theirs = whole.parts[f"target/{domain}"], one.parts[f"target/{domain}"]
        assert all(map(np.array_equal, ours, theirs))
        assert (store.table.domain[ours.rows] == k).all()
        assert whole.summary[100][domain] == one.summary[100][domain]
    n = sum(len(read_evaluation(done / f"{k}-{d}/probe").parts["val"].rows)
            for k, d in enumerate(DOMAINS))  # fmt: skip
    assert len(whole.parts["val"].rows) == n
    means = [whole.summary[5][domain]["mean"] for domain in DOMAINS]
    assert whole.summary[5]["average"]["mean"] == pytest.approx(np.mean(means))
    assert whole.result["target_openings"] == 4 and whole.result["data"]["targets"] == [*DOMAINS]


def test_it_goes_on_and_does_nothing_twice(done, capsys):
    (done / "2-neon/probe/result.json").unlink()
    files = [*done.glob("*/checkpoints/last.ckpt"), *done.glob("*/probe/result.json")]
    before = {file: file.stat().st_mtime_ns for file in files}
    told = read_evaluation(done).result["summary"]
    capsys.readouterr()
    assert main(command(done)) == 0
    assert len(before) == 7 and before == {file: file.stat().st_mtime_ns for file in files}
    out, err = capsys.readouterr()
    assert err.count("is finished") == 4 and "each domain unseen in turn" in out
    for domain in DOMAINS:
        assert domain in out
    assert read_evaluation(done).result["summary"] == told


def test_other_words_are_refused(done, capsys):
    before = (done / "result.json").read_bytes()
    assert main(command(done, fractions=(".1",))) == 2
    assert "of other fractions, seeds or settings; delete it first" in capsys.readouterr().err
    assert main(command(done, "--set", "lr=0.5")) == 2
    assert "recipe.lr is 0.0014 there and 0.5 now" in capsys.readouterr().err
    assert main(command(done / "0-chalk")) == 2
    assert "is a run; choose another --out" in capsys.readouterr().err
    assert (done / "result.json").read_bytes() == before


def test_one_domain_is_too_few(tmp_path):
    recipe = override(recipe_named("digits/simclr"), SMALL)
    store = store_of(tmp_path, [("a", "cat"), ("a", "dog")])
    with pytest.raises(ValueError, match=r"needs two or more; .* has a"):
        leave_one_out(recipe, store, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_missing_class_is_told_before_anything_is_trained(tmp_path):
    recipe = override(recipe_named("digits/simclr"), SMALL)
    store = store_of(tmp_path, [*BOTH, ("c", "cat")])
    with pytest.raises(ValueError, match=r"c: no image of 1 of 2 classes \(dog\)"):
        leave_one_out(recipe, store, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()
