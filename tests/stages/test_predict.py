"""onestyle predict: the probe's own classes, for images from anywhere; and what is refused."""

import csv
import json
import shutil

import numpy as np
import pytest
import torch
from PIL import Image

from onestyle.checkpoint import read_about, read_weights, save_tensors
from onestyle.cli import main
from onestyle.data.store import open_store
from onestyle.stages.evaluation import read_evaluation

SMALL = ("views=2x16", "batch_size=16", "steps=2", "precision=32-true", "monitor_every=0")


@pytest.fixture(scope="module")
def probed(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "run"
    settings = [word for setting in SMALL for word in ("--set", setting)]
    words = ["pretrain", "digits/simclr", "--targets", "photo", "--accelerator", "cpu"]
    assert main([*words, "--out", str(out), *settings]) == 0
    probe = ["probe", str(out), "--seeds", "2", "--fractions", ".05", "1", "--device", "cpu"]
    assert main([*probe, "--set", "steps=200"]) == 0
    return out


@pytest.fixture
def photos(probed, tmp_path):
    """The target's first images as files, named by their place among the predictions."""
    store, part = open_store("digits"), read_evaluation(probed / "probe").parts["target/photo"]
    (tmp_path / "photos/below").mkdir(parents=True)
    for k, row in enumerate(part.rows[:20]):
        folder = tmp_path / "photos" / ("below" if k % 2 else "")
        Image.fromarray(store.images[row].transpose(1, 2, 0)).save(folder / f"{k:02}.png")
    return tmp_path / "photos"


def rows_of(file):
    with file.open(newline="") as opened:
        return list(csv.DictReader(opened))


def said(capsys, *words):
    capsys.readouterr()
    code = main(["predict", *map(str, words)])
    out, err = capsys.readouterr()
    return code, out + err


@pytest.mark.parametrize(("percent", "seed"), [(5, 0), (100, 1)])
def test_a_head_says_what_it_said_when_it_was_evaluated(
    probed, photos, tmp_path, capsys, percent, seed
):
    words = ("--out", tmp_path / "a.csv", "--fraction", percent / 100, "--seed", seed)
    assert said(capsys, probed, photos, *words)[0] == 0
    found = read_evaluation(probed / "probe")
    values = [(value["percent"], value["seed"]) for value in found.result["values"]]
    classes = found.parts["target/photo"].classes[values.index((percent, seed))]
    rows = rows_of(tmp_path / "a.csv")
    assert len(rows) == 20
    for row in rows:
        assert row["path"].startswith(str(photos))
        assert row["class"] == str(classes[int(row["path"][-6:-4])])


def test_seeds_are_averaged_and_probabilities_add_up(probed, photos, tmp_path, capsys):
    tables = []
    for k, words in enumerate([("--seed", "0"), ("--seed", "1"), ()]):
        out = tmp_path / f"{k}.csv"
        code, text = said(capsys, probed, photos, "--out", out, "--probabilities", *words)
        assert code == 0 and "20 images, by heads of 100% of the labels" in text  # the largest
        tables.append(
            np.array([[float(row[f"p({c})"]) for c in range(10)] for row in rows_of(out)])
        )
        for row, p in zip(rows_of(out), tables[-1], strict=True):  # of four digits: some are equal
            assert float(row["probability"]) == p[int(row["class"])] == p.max()
    assert np.abs(tables[2].sum(1) - 1).max() < 1e-3
    assert np.abs((tables[0] + tables[1]) / 2 - tables[2]).max() < 2e-4


def test_names_cannot_become_formulas_or_lines(probed, photos, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(photos)
    names = ["=cmd|x!A1.png", "-1\n2.png", "a,b;c.png"]
    for name in names:
        shutil.copy(photos / "00.png", photos / name)
    assert said(capsys, probed, *names[:1], names[2], "--out", tmp_path / "a.csv")[0] == 0
    assert [row["path"] for row in rows_of(tmp_path / "a.csv")] == ["'=cmd|x!A1.png", "a,b;c.png"]
    code, text = said(capsys, probed, ".", "--out", tmp_path / "b.csv")
    assert code == 2 and "control character" in text and "--skip-bad" in text


def test_bad_images_are_refused_or_named(probed, photos, tmp_path, capsys):
    (photos / "below/cut.png").write_bytes((photos / "00.png").read_bytes()[:60])
    (photos / "drawing.svg").write_text("<svg/>")
    code, text = said(capsys, probed, photos, "--out", tmp_path / "a.csv")
    assert code == 2 and "drawing.svg: .svg files are not read" in text
    (photos / "drawing.svg").unlink()
    code, text = said(capsys, probed, photos, "--out", tmp_path / "a.csv")
    assert code == 2 and "below/cut.png: cannot be read" in text
    assert not (tmp_path / "a.csv").exists()
    code, text = said(capsys, probed, photos, "--out", tmp_path / "a.csv", "--skip-bad")
    assert code == 0 and "left out" in text and "cut.png" in text
    assert len(rows_of(tmp_path / "a.csv")) == 20


def test_sizes_other_than_the_stores_are_taken(probed, tmp_path, capsys):
    dice = np.random.default_rng(0)
    for k, shape in enumerate([(40, 90, 3), (300, 200, 3), (7, 7, 3)]):
        Image.fromarray(dice.integers(0, 255, shape, np.uint8)).save(tmp_path / f"{k}.png")
    files = [tmp_path / f"{k}.png" for k in range(3)]
    assert said(capsys, probed, *files, "--out", tmp_path / "a.csv")[0] == 0
    assert [row["path"] for row in rows_of(tmp_path / "a.csv")] == [str(file) for file in files]


def test_the_run_may_move(probed, photos, tmp_path, capsys):
    moved = shutil.copytree(probed, tmp_path / "elsewhere")
    for run, out in ((probed, "a.csv"), (moved, "b.csv")):
        assert said(capsys, run, photos, "--out", tmp_path / out)[0] == 0
    assert (tmp_path / "a.csv").read_text() == (tmp_path / "b.csv").read_text()


def test_what_is_refused(probed, photos, tmp_path, capsys):
    out = tmp_path / "a.csv"
    assert "has no such head; it has 5% seed 0" in said(
        capsys, probed, photos, "--out", out, "--fraction", ".1")[1]  # fmt: skip
    assert "does not exist" in said(capsys, probed, tmp_path / "gone", "--out", out)[1]
    assert "no image in" in said(capsys, probed, _folder(tmp_path / "none"), "--out", out)[1]
    (tmp_path / "notes.txt").touch()
    assert "neither a folder nor" in said(capsys, probed, tmp_path / "notes.txt", "--out", out)[1]
    other = ("random:test_resnet", photos, "--out", out)
    assert "is no run: name by --probe" in said(capsys, *other)[1]
    assert "heads of another network" in said(capsys, *other, "--probe", probed / "probe")[1]
    assert "there is no folder" in said(capsys, probed, photos, "--out", tmp_path / "x/a.csv")[1]
    assert not out.exists()
    out.write_text("mine")
    code, text = said(capsys, probed, photos, "--out", out)
    assert code == 2 and "exists; --force overwrites it" in text and out.read_text() == "mine"
    assert said(capsys, probed, photos, "--out", out, "--force")[0] == 0


def _folder(path):
    path.mkdir()
    return path


def test_heads_that_are_none(probed, photos, tmp_path, capsys):
    run = shutil.copytree(probed, tmp_path / "run")
    file, words = run / "probe/heads.safetensors", (photos, "--out", tmp_path / "a.csv")
    tensors, about = read_weights(file), read_about(file)
    save_tensors(file, tensors, {**about, "network": json.dumps({"timm": "resnet18"})})
    assert "heads of another network" in said(capsys, run, *words)[1]
    save_tensors(file, {"weight": torch.zeros(1)}, about)
    assert "is not what onestyle probe writes" in said(capsys, run, *words)[1]
    file.unlink()
    assert "has no heads; onestyle probe makes them" in said(capsys, run, *words)[1]
