"""Features in a file: those of the network, each beside the name of its image."""

import csv
import json

import numpy as np
import pytest
import torch

from onestyle.cli import main
from onestyle.data.protocol import make_split
from onestyle.data.store import open_store
from onestyle.stages.frozen import open_frozen
from tests.data.files import fill, packed
from tests.stages.runs import pretrained


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return pretrained(tmp_path_factory.mktemp("runs") / "run", "--targets", "photo")


def read(out):
    """The features and the rows of the table."""
    if out.suffix == ".npy":
        with out.with_suffix(".csv").open(newline="") as file:
            return np.load(out), list(csv.DictReader(file))
    from pyarrow import parquet

    table = parquet.read_table(out)
    return np.stack(table["feature"].to_numpy()), table.drop("feature").to_pylist()


@pytest.mark.parametrize("name", ["f.npy", "f.parquet"])
def test_every_image_of_a_run_has_its_features_names_and_part(run, tmp_path, name):
    log = run / "target_openings.jsonl"
    before = log.read_text().count("\n") if log.exists() else 0
    assert main(["embed", str(run), "--out", str(tmp_path / name)]) == 0
    found, rows = read(tmp_path / name)
    store, frozen = open_store("digits"), open_frozen(str(run))
    split = make_split(store.table, targets=["photo"])
    assert [row["path"] for row in rows] == list(store.table.path)
    assert [row["domain"] for row in rows] == [path.split("/")[0] for path in store.table.path]
    assert [row["class"] for row in rows] == [path.split("/")[1] for path in store.table.path]
    parts = np.array([row["part"] for row in rows])
    assert set(np.flatnonzero(parts == "train")) == set(split.train)
    assert set(np.flatnonzero(parts == "val")) == set(split.val)
    assert {row["domain"] for row in rows if row["part"] == "target"} == {"photo"}
    some = [0, 700, len(store) - 1]
    images = torch.from_numpy(store.read(np.array(some))) / 255
    images = torch.nn.functional.interpolate(images, (16, 16), mode="bilinear", antialias=True)
    mean, std = (torch.tensor(x)[:, None, None] for x in (frozen.mean, frozen.std))
    expected = frozen.network((images - mean) / std)
    torch.testing.assert_close(torch.from_numpy(found[some]), expected, rtol=1e-4, atol=1e-5)
    assert log.read_text().count("\n") == before + 1
    about = json.loads((tmp_path / f"{name}.json").read_text())
    assert about["data"]["parts"] == {"train": 1198, "val": 150, "target": 449}


def test_a_network_without_a_run_embeds_every_image(tmp_path):
    out = tmp_path / "f.npy"
    assert (
        main(["embed", "random:test_resnet", "digits:16", "--size", "16", "--out", str(out)]) == 0
    )
    found, rows = read(out)
    assert found.shape == (1797, 96) and len(rows) == 1797
    assert {row["part"] for row in rows} == {""}


def test_images_in_no_part_stay_unseen(tmp_path, capsys):
    """Here those that an official split keeps from everybody: a target's training images."""
    parts = [("train", "a"), ("id_val", "a"), ("train", "b"), ("test", "b")]
    names = [f"{split}/{domain}/{c}/{k}.png" for split, domain in parts for c in "xy" for k in "01"]
    files, store = fill(tmp_path / "files", names), str(tmp_path / "store")
    levels = ["--levels", "split/domain/class", "--size", "16"]
    assert main(["data", "pack", str(files), store, *levels]) == 0
    run = pretrained(tmp_path / "run", "--targets", "b", "--data", store, batch_size=4)
    assert main(["embed", str(run), "--out", str(tmp_path / "f.npy")]) == 0
    assert {(row["domain"], row["split"], row["part"]) for row in read(tmp_path / "f.npy")[1]} == {
        ("a", "train", "train"), ("a", "id_val", "val"), ("b", "test", "target"),
    }  # fmt: skip
    assert "4 images are in no part of the run's split" in capsys.readouterr().err


def test_what_is_wrong_is_told_and_nothing_is_overwritten(run, tmp_path, capsys):
    def refuses(*words):
        assert main(["embed", *map(str, words)]) == 2
        return capsys.readouterr().err

    out = tmp_path / "f.npy"
    assert "ends in .npy or .parquet" in refuses(run, "--out", tmp_path / "f.csv")
    assert "there is no folder" in refuses(run, "--out", tmp_path / "nowhere/f.npy")
    assert "name the STORE" in refuses("random:test_resnet", "--out", out)
    assert "is not the store that" in refuses(run, "digits:16", "--out", out)
    assert "photo: a target of" in refuses(run, "digits:16", "--new", "--out", out)
    (tmp_path / "f.csv").write_text("mine")
    assert "f.csv exists; --force" in refuses(run, "--out", out)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["f.csv"]


def test_names_are_no_formulas_in_the_csv(tmp_path):
    names = ["=1+1/x/0.png", "plain/x/1.png"]
    packed(fill(tmp_path / "files", names), tmp_path / "store")
    out = tmp_path / "f.npy"
    words = ["random:test_resnet", str(tmp_path / "store"), "--size", "16", "--out", str(out)]
    assert main(["embed", *words]) == 0
    assert {row["domain"] for row in read(out)[1]} == {"'=1+1", "plain"}
