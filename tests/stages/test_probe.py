"""onestyle probe: what it leaves, what it refuses, and that its protocol is kept."""

import csv
import json
import shutil

import numpy as np
import pytest
import torch
from PIL import Image

from onestyle.checkpoint import read_about, read_weights
from onestyle.cli import main
from onestyle.data.protocol import make_split
from onestyle.data.store import open_store
from onestyle.run import read_rows
from onestyle.stages.evaluation import read_evaluation
from onestyle.stages.frozen import open_frozen
from onestyle.stages.linear import Heads

SMALL = ("views=2x16", "batch_size=16", "steps=2", "precision=32-true", "monitor_every=0")
FAST = ("--set", "steps=30", "--seeds", "2", "--device", "cpu")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "run"
    settings = [word for setting in SMALL for word in ("--set", setting)]
    words = ["pretrain", "digits/simclr", "--targets", "photo", "neon", "--accelerator", "cpu"]
    assert main([*words, "--out", str(out), *settings]) == 0
    return out


@pytest.fixture
def run(trained, tmp_path):
    return shutil.copytree(trained, tmp_path / "run")


def said(capsys, *words):
    """The exit code and everything that is printed."""
    capsys.readouterr()
    code = main([str(word) for word in words])
    out, err = capsys.readouterr()
    return code, out + err


def test_what_a_probe_leaves(run, capsys):
    code, words = said(capsys, "probe", run, *FAST, "--oracle")
    assert code == 0, words
    found = read_evaluation(run / "probe")
    result, store = found.result, open_store("digits")
    assert (result["stage"], result["selector"]) == ("probe", "last step")
    assert result["seeds"] == {"pretraining": 0, "labels": [0, 1], "probe": [0, 1]}
    assert result["varied"] == ["labels", "probe"] and result["target_openings"] == 2
    assert [(v["percent"], v["seed"]) for v in result["values"]] == [
        (percent, seed) for percent in (1, 5, 10, 100) for seed in (0, 1)
    ]
    assert list(found.parts) == ["val", "target/neon", "target/photo"]
    for name in ("neon", "photo"):
        _, label, rows = found.parts[f"target/{name}"]
        domain = store.table.domains.index(name)
        assert np.array_equal(rows, np.flatnonzero(store.table.domain == domain))
        assert np.array_equal(label, store.table.label[rows])
        assert f"{found.summary[100][name]['mean']:.2f}" in words
    assert set(result["beside"]) == {"source validation", "oracle"}
    assert "ORACLE" in words and "the most common class" in words
    assert str(run.parent) not in (run / "probe/result.json").read_text()


def test_labels_are_those_of_the_drawn_fraction(run, capsys):
    said(capsys, "probe", run, *FAST, "--fractions", ".05")
    store = open_store("digits")
    draws = [make_split(store.table, targets=["photo", "neon"], draw=s).labelled(5) for s in (0, 1)]
    values = read_evaluation(run / "probe").result["values"]
    assert [value["n_labels"] for value in values] == [len(rows) for rows in draws]


def test_the_selector_beside_chooses_by_source_validation_alone(run, capsys):
    said(capsys, "probe", run, *FAST, "--oracle")
    result = read_evaluation(run / "probe").result
    for k, own in enumerate(result["values"]):
        by_val, by_target = (
            result["beside"][s]["values"][k] for s in ("source validation", "oracle")
        )
        assert by_val["val"] >= own["val"] and by_target["average"] >= own["average"]
    assert max(result["steps"]["oracle"]) <= 30


def test_heads_are_saved_and_say_what_they_are(run, capsys):
    said(capsys, "probe", run, *FAST)
    file, found = run / "probe/heads.safetensors", read_evaluation(run / "probe")
    heads, about = Heads(**read_weights(file)), read_about(file)
    assert json.loads(about["classes"]) == list("0123456789")
    frozen, store = open_frozen(str(run)), open_store("digits")
    part = found.parts["val"]
    from onestyle.data.protocol import Pool

    features = frozen.features(Pool(store, part.rows))
    assert np.array_equal(heads.predict(features).numpy(), part.classes)


def test_every_opening_of_a_target_is_counted(run, capsys):
    said(capsys, "probe", run, *FAST)
    code, words = said(capsys, "probe", run, *FAST, "--quick")
    assert code == 0 and "opened 4 times so far" in words
    rows = read_rows(run / "target_openings.jsonl")
    assert [(row["target"], row["why"]) for row in rows] == 2 * [
        ("photo", "evaluation"), ("neon", "evaluation"),
    ]  # fmt: skip
    said(capsys, "probe", run, *FAST, "--oracle", "--force")
    assert [row["why"] for row in read_rows(run / "target_openings.jsonl")[4:]] == ["oracle"] * 2


def test_quick_looks(run, capsys):
    code, words = said(capsys, "probe", run, "--quick", "--seeds", "2", "--fractions", ".1", "1")
    assert code == 0 and "nearest neighbours" in words and "logistic regression" in words
    for stage in ("knn", "logistic"):
        found = read_evaluation(run / stage)
        assert found.result["seeds"]["labels"] == [0, 1] and found.result["varied"] == ["labels"]
        assert [found.summary[p]["val"]["n"] for p in (10, 100)] == [2, 1]  # all labels: one draw
    said(capsys, "probe", run, *FAST)
    assert found.summary[100]["val"]["mean"] > 15  # of 10 by chance, on random features


def test_the_same_words_give_the_same_bytes(run, capsys):
    said(capsys, "probe", run, *FAST)
    first = (run / "probe/predictions.safetensors").read_bytes()
    said(capsys, "probe", run, *FAST, "--force")
    assert (run / "probe/predictions.safetensors").read_bytes() == first


def test_a_network_without_a_run(tmp_path, capsys):
    words = ("--data", "digits", "--targets", "ink", "--out", tmp_path / "a", "--size", 32, *FAST)
    code, text = said(capsys, "probe", "random:test_resnet", *words)
    assert code == 0, text
    result = read_evaluation(tmp_path / "a").result
    assert result["network"] == {"timm": "test_resnet", "init": "random"}
    assert result["seeds"]["pretraining"] is None
    assert said(capsys, "probe", "random:test_resnet", *words)[0] == 2
    first = (tmp_path / "a/predictions.safetensors").read_bytes()
    torch.manual_seed(5)
    assert said(capsys, "probe", "random:test_resnet", *words, "--force")[0] == 0
    assert (tmp_path / "a/predictions.safetensors").read_bytes() == first


# what is refused ---------------------------------------------------------------------------


def test_nothing_is_overwritten(run, capsys):
    said(capsys, "probe", run, *FAST)
    before = (run / "probe/result.json").read_bytes()
    code, words = said(capsys, "probe", run, *FAST)
    assert code == 2 and "holds an evaluation; --force overwrites it" in words
    assert (run / "probe/result.json").read_bytes() == before
    assert len(read_rows(run / "target_openings.jsonl")) == 2  # a refusal opens nothing


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--targets", "ink"), "was trained with the targets photo, neon, not ink"),
        (("--data", "digits:64"), "is not the store that"),
        (("--set", "step=3"), "there is no field 'step'; did you mean steps?"),
        (("--set", "steps=many"), "steps"),
        (("--set", "batch_size=1"), "batch_size must be at least 2, for BatchNorm"),
    ],
)
def test_what_does_not_go_together(run, capsys, words, text):
    code, printed = said(capsys, "probe", run, *FAST, *words)
    assert code == 2 and text in printed and printed.count("\n") == 1
    assert not (run / "probe").exists() and not (run / "target_openings.jsonl").exists()


@pytest.mark.parametrize("fraction", ["0.001", "0", "5", "-.1", "0.155", "nan", "few"])
def test_fractions_are_whole_percentages(run, capsys, fraction):
    with pytest.raises(SystemExit) as stop:
        main(["probe", str(run), f"--fractions={fraction}"])
    assert stop.value.code == 2 and "whole percentage from .01 to 1" in capsys.readouterr().err


def test_a_run_that_is_none(run, tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    assert "is not a run; onestyle pretrain" in said(capsys, "probe", tmp_path / "empty")[1]
    (run / "result.json").unlink()
    code, words = said(capsys, "probe", run)
    assert code == 2 and "is not finished" in words


def test_a_target_that_is_a_source(tmp_path, capsys):
    words = ("--data", "digits", "--targets", "ink", "--sources", "ink", "--out", tmp_path / "a")
    code, text = said(capsys, "probe", "random:test_resnet", *words)
    assert code == 2 and "ink cannot be source and target at once" in text


def store_of(tmp_path, rows):
    """Six images of each domain and class."""
    lines = [("path", "domain", "class")]
    for domain, label in rows:
        for _ in range(6):
            pixels = np.random.default_rng(len(lines)).integers(0, 255, (16, 16, 3), np.uint8)
            Image.fromarray(pixels).save(tmp_path / f"{len(lines)}.png")
            lines.append((f"{len(lines)}.png", domain, label))
    with (tmp_path / "list.csv").open("w", newline="") as file:
        csv.writer(file).writerows(lines)
    words = ["data", "pack", str(tmp_path / "list.csv"), str(tmp_path / "store"), "--size", "16"]
    assert main([*words, "--skip-bad"]) == 0
    return tmp_path / "store"


BOTH = [(domain, label) for domain in "ab" for label in ("cat", "dog")]


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ([*BOTH, ("c", "cat")], "c: no image of 1 of 2 classes (dog); --allow-missing"),
        ([*BOTH[::2], ("c", "cat"), ("c", "dog"), ("d", "dog")], "labelled images: no image of"),
        ([(domain, "") for domain in "abc"], "has a class: there is nothing to evaluate"),
        ([*BOTH, ("c", "")], "c: no image has a class"),
    ],
)
def test_classes_that_are_not_there(tmp_path, capsys, rows, text):
    store, out = store_of(tmp_path, rows), tmp_path / "out"
    unseen = sorted({domain for domain, _ in rows} - {*"ab"})
    words = ("--data", store, "--targets", *unseen, "--out", out, "--size", 16, *FAST)
    code, printed = said(capsys, "probe", "random:test_resnet", *words)
    assert code == 2 and text in printed
    assert not (out / "result.json").exists()


def test_a_target_without_a_class_may_be_allowed(tmp_path, capsys):
    store, out = store_of(tmp_path, [*BOTH, ("c", "cat")]), tmp_path / "out"
    words = ("--data", store, "--targets", "c", "--out", out, "--size", 16, *FAST)
    code, printed = said(capsys, "probe", "random:test_resnet", *words, "--allow-missing")
    assert code == 0 and "c: no image of dog" in printed
    result = read_evaluation(out).result
    assert result["missing"] == {"c": ["dog"]} and result["chance"]["c"]["majority"] == 100
    for value in result["values"]:
        assert value["targets"]["c"]["balanced"] == value["targets"]["c"]["accuracy"]
