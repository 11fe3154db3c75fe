"""What the analyses are given of a run, and the command that shows what they find."""

import json
import shutil
from collections import Counter

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from torch.testing import assert_close

from onestyle.analysis import purity
from onestyle.checkpoint import read_weights
from onestyle.cli import main
from onestyle.data.protocol import TargetPool
from onestyle.data.store import open_store
from onestyle.run import read_rows
from onestyle.stages.analyze import open_subject, open_subjects
from onestyle.stages.embed import prepare
from onestyle.stages.pretrain import Pretraining, make_fabric
from tests.stages.runs import pretrained

FOUR = {"batch_size": 32, "steps": 4, "monitor_every": 0, "snapshot_every": 2}
UNSEEN = ("--targets", "photo")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    pretrained(folder / "simclr", *UNSEEN, **FOUR)
    pretrained(folder / "simclr-fa", *UNSEEN, style="fa", **FOUR | {"snapshot_every": 0})
    pretrained(folder / "swav", *UNSEEN, recipe="digits/swav", **FOUR | {"views": "2x16 + 1x8"})
    return folder


@pytest.fixture
def runs(folder):
    """Without a word of earlier tests' openings."""
    for log in folder.glob("*/target_openings.jsonl"):
        log.unlink()
    return folder


# What is gathered -------------------------------------------------------------------------------


def test_unseen_images_are_as_many_of_every_domain(runs):
    subject = open_subject(runs / "simclr")
    split, table = subject.split, subject.store.table
    pools = subject.unseen(per_domain=1000)
    smallest = min(Counter(table.domain[split.val].tolist()).values())
    assert [len(pool) for pool in pools] == [smallest] * 4
    names = [table.domains[pool.domains[0]] for pool in pools]
    assert sorted(names[:3]) == sorted(split.sources) and names[3:] == ["photo"]
    assert [len(pool) for pool in subject.unseen(per_domain=7)] == [7] * 4
    for pool in pools[:3]:
        assert {*pool.rows} <= {*split.val} and not isinstance(pool, TargetPool)
    assert isinstance(pools[3], TargetPool)
    again = open_subject(runs / "simclr-fa").unseen(per_domain=1000)
    assert all((a.rows == b.rows).all() for a, b in zip(pools, again, strict=True))


def test_every_opening_of_a_target_is_counted_and_val_opens_none(runs):
    subject = open_subject(runs / "simclr")
    log = runs / "simclr/target_openings.jsonl"
    assert {*np.concatenate([p.rows for p in subject.unseen(50, "val")])} <= {*subject.split.val}
    assert not log.exists()
    subject.unseen(50)
    subject.unseen(50)
    assert [(row["target"], row["why"]) for row in read_rows(log)] == [("photo", "analysis")] * 2
    with pytest.raises(ValueError, match="part must be all or val, got 'test'"):
        subject.unseen(50, "test")


def test_features_are_the_backbone_s_of_these_rows(runs):
    subject = open_subject(runs / "simclr")
    seen = subject.features(subject.unseen(per_domain=9))
    store = open_store("digits")
    images = torch.from_numpy(store.read(seen.rows))
    with torch.no_grad():
        expected = subject.last.backbone(prepare(images, 16))
    assert_close(seen.features, expected)  # the checkpoint's backbone is the one that was kept
    assert_close(seen.label, torch.from_numpy(store.table.label[seen.rows]).long())
    assert_close(seen.domain, torch.from_numpy(store.table.domain[seen.rows]).long())


def test_embeddings_are_of_the_batches_that_would_have_come_next(runs):
    """The views of a run that goes on for a step: trained 5 steps, the fifth sees these."""
    subject = open_subject(runs / "simclr")
    first, second = subject.embeddings(n_batches=2)
    assert first["projector"].shape == (2, 32, 128) and first["backbone"].shape == (2, 32, 96)
    assert not torch.equal(first["projector"], second["projector"])
    recipe, fabric = subject.run.recipe, make_fabric(accelerator="cpu")
    job = Pretraining.plan(recipe, "digits", ["photo"], [], fabric)
    (batch,) = job.stream.batches(recipe.steps, recipe.steps + 1)
    with torch.no_grad():
        h = subject.last.backbone(batch.views[0].flatten(0, 1))
        z = subject.last.projector(h)
    assert_close(first["backbone"].flatten(0, 1), F.normalize(h, dim=1))
    assert_close(first["projector"].flatten(0, 1), F.normalize(z, dim=1))


def test_scores_follow_the_snapshots(runs):
    subject = open_subject(runs / "swav")
    pools = subject.unseen(per_domain=5)
    (two, _), (four, scores) = subject.prototype_scores(pools)
    assert (two, four) == (2, 4) and scores.shape == (20, 64)
    images = torch.cat([torch.from_numpy(pool.images(range(5))) for pool in pools])
    with torch.no_grad():
        assert_close(scores, subject.last.prototype_scores(prepare(images, 16)))


def test_without_its_checkpoint_a_run_has_its_last_snapshot(runs, tmp_path):
    shutil.copytree(runs / "simclr", tmp_path / "run")
    whole = open_subject(tmp_path / "run").last.state_dict()
    (tmp_path / "run/checkpoints/last.ckpt").unlink()
    assert_close(open_subject(tmp_path / "run").last.state_dict(), whole, rtol=0, atol=0)
    (tmp_path / "run/snapshots/step_000004.safetensors").unlink()
    older = read_weights(tmp_path / "run/snapshots/step_000002.safetensors")
    assert_close(dict(open_subject(tmp_path / "run").last.state_dict()), older, rtol=0, atol=0)
    shutil.rmtree(tmp_path / "run/snapshots")
    with pytest.raises(ValueError, match=r"last\.ckpt is gone, and no snapshot was kept"):
        open_subject(tmp_path / "run").last  # noqa: B018


def test_what_cannot_be_analysed_is_said(runs, tmp_path):
    with pytest.raises(ValueError, match="SimCLR has no prototypes; SWaV and MSN have"):
        open_subject(runs / "simclr").require_prototypes()
    open_subject(runs / "swav").require_prototypes()
    with pytest.raises(ValueError, match="has no snapshots: pretrain with --set snapshot_every=N"):
        open_subject(runs / "simclr-fa").snapshots()
    with pytest.raises(ValueError, match="0 unseen images of 4 domains are too few to compare"):
        open_subject(runs / "simclr").unseen(per_domain=0)
    with pytest.raises(ValueError, match="timm:resnet18 is not a run"):
        open_subject("timm:resnet18")
    with pytest.raises(ValueError, match="several runs are called simclr: give --names"):
        open_subjects([runs / "simclr", runs / "simclr"])
    with pytest.raises(ValueError, match="there are 1 runs and 2 names: a b"):
        open_subjects([runs / "simclr"], names=["a", "b"])
    other = pretrained(tmp_path / "other", "--targets", "neon")
    with pytest.raises(ValueError, match=f"{other} was trained on other images than"):
        open_subjects([runs / "simclr", other])


# The command ------------------------------------------------------------------------------------


def analyzed(capsys, *words):
    """Exit code, stdout, stderr of `onestyle analyze WORDS`."""
    capsys.readouterr()
    try:
        code = main(["analyze", *map(str, words)])
    except SystemExit as stop:
        code = stop.code
    return code, *capsys.readouterr()


def refused(capsys, *words):
    code, out, err = analyzed(capsys, *words)
    assert code == 2 and out == "" and err.count("\n") == 1
    return err.removeprefix("onestyle: error: ").rstrip()


def test_purity_of_runs_side_by_side(runs, tmp_path, capsys):
    out = tmp_path / "a.png"
    words = ("purity", runs / "simclr", runs / "simclr-fa", "--names", "BSS", "FA", "--out", out)
    code, said, _ = analyzed(capsys, *words, "--per-domain", 20)
    lines = said.splitlines()
    assert code == 0 and lines[2] == f"{out} shows it, {tmp_path / 'a.json'} has the numbers"
    assert lines[0].startswith("BSS: domain purity 0.") and lines[1].startswith("FA: domain ")
    assert lines[0].endswith("of 20 neighbours among 80") and "(chance 0.24)" in lines[0]
    with Image.open(out) as picture:
        picture.load()

    found = json.loads((tmp_path / "a.json").read_text())
    subject = open_subject(runs / "simclr")
    seen = subject.features(subject.unseen(20))
    expected = purity.compute(seen.features, seen.label, seen.domain).numbers()
    assert found["runs"]["BSS"]["purity"] == expected
    assert found["runs"]["FA"]["run"] == "simclr-fa" and found["runs"]["FA"]["style"] == "fa"
    assert found["runs"]["FA"]["target_openings"] == 1
    assert (found["part"], found["per_domain"]) == ("all", 20)
    assert found["data"] == subject.run.config["data"]
    assert str(tmp_path) not in json.dumps(found) and str(runs) not in json.dumps(found)


@pytest.mark.parametrize("what", ["purity", "homogeneity", "map"])
def test_source_validation_alone_opens_no_target(what, runs, tmp_path, capsys):
    words = (what, runs / "swav", "--out", tmp_path / "a.png", "--part", "val")
    code, said, _ = analyzed(capsys, *words, "--per-domain", 10)
    assert code == 0 and said.startswith("swav: ") and " 30" in said  # of three sources
    assert not (runs / "swav/target_openings.jsonl").exists()
    found = json.loads((tmp_path / "a.json").read_text())
    assert found["runs"]["swav"]["target_openings"] == 0 and found["part"] == "val"


def test_similarity_looks_at_training_images(runs, tmp_path, capsys):
    code, said, _ = analyzed(capsys, "similarity", runs / "simclr", "--out", tmp_path / "a.png")
    assert code == 0 and said.startswith("simclr: projector: mean ") and "; backbone: " in said
    assert not (runs / "simclr/target_openings.jsonl").exists()
    found = json.loads((tmp_path / "a.json").read_text())["runs"]["simclr"]["similarity"]
    assert found["projector"]["pairs"] == 10 * 4 * 32 * 31 / 2
    assert (found["projector"]["dim"], found["backbone"]["dim"]) == (128, 96)
    code, _, err = analyzed(capsys, "similarity", "a", "--out", "a.png", "--part", "val")
    assert code == 2 and "unrecognized arguments: --part" in err


def test_homogeneity_over_the_snapshots(runs, tmp_path, capsys):
    words = ("homogeneity", runs / "swav", "--out", tmp_path / "a.png", "--per-domain", 15)
    code, said, _ = analyzed(capsys, *words)
    assert code == 0 and said.startswith("swav: at step 4 domain homogeneity 0.")
    found = json.loads((tmp_path / "a.json").read_text())["runs"]["swav"]["homogeneity"]
    assert [step["step"] for step in found["steps"]] == [2, 4] and found["n"] == 60


def test_a_run_without_prototypes_is_refused_before_anything_is_opened(runs, tmp_path, capsys):
    words = ("homogeneity", runs / "swav", runs / "simclr", "--out", tmp_path / "a.png")
    assert refused(capsys, *words) == "SimCLR has no prototypes; SWaV and MSN have"
    assert not [*tmp_path.iterdir()] and not [*runs.glob("*/target_openings.jsonl")]


def test_a_map_names_domains_and_classes(runs, tmp_path, capsys):
    words = ("map", runs / "simclr", "--per-domain", 10, "--out", tmp_path / "a.pdf")
    code, said, _ = analyzed(capsys, *words)
    assert code == 0 and said.startswith("simclr: 40 of 40 images, domain purity ")
    assert (tmp_path / "a.pdf").read_bytes().startswith(b"%PDF")


def test_nothing_is_overwritten_unless_forced(runs, tmp_path, capsys):
    words = ("purity", runs / "simclr", "--part", "val", "--out", tmp_path / "a.png")
    (tmp_path / "a.json").write_text("mine")
    said = refused(capsys, *words)
    assert said == f"{tmp_path / 'a.json'} exists; --force overwrites it"
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
    assert analyzed(capsys, *words, "--force")[0] == 0
    assert json.loads((tmp_path / "a.json").read_text())["analysis"] == "purity"
    said = refused(capsys, *words)
    assert said == f"{tmp_path / 'a.png'} exists; --force overwrites it"


def test_bad_input_is_told_in_a_line(runs, tmp_path, capsys):
    words = ("purity", "--out", tmp_path / "a.png")
    said = refused(capsys, *words, tmp_path)
    assert said == f"{tmp_path} is not a run; onestyle pretrain makes one"
    said = refused(capsys, *words, runs / "simclr", "--data", "digits:16")
    assert said == f"digits:16 is not the store that {runs / 'simclr'} was trained on"
    shutil.copytree(runs / "simclr", tmp_path / "run")
    (tmp_path / "run/result.json").unlink()
    assert "is not finished" in refused(capsys, *words, tmp_path / "run")
    said = refused(capsys, "purity", runs / "simclr", "--out", tmp_path / "a.gif")
    assert "the name of a picture ends in one of" in said
    shutil.copytree(runs / "swav", tmp_path / "cut")
    snapshot = tmp_path / "cut/snapshots/step_000002.safetensors"
    snapshot.write_bytes(snapshot.read_bytes()[:999])
    said = refused(capsys, "homogeneity", tmp_path / "cut", "--out", tmp_path / "a.png")
    assert said.startswith(f"{snapshot} cannot be read: ")
    assert not (tmp_path / "a.png").exists() and not (tmp_path / "a.json").exists()


@pytest.fixture(scope="module")
def unnamed(tmp_path_factory):
    """A run on 40 images in one folder: no domains, no classes."""
    folder, dice = tmp_path_factory.mktemp("unnamed"), np.random.default_rng(0)
    (folder / "images").mkdir()
    for k in range(40):
        pixels = dice.integers(0, 256, (16, 16, 3), np.uint8)
        Image.fromarray(pixels).save(folder / f"images/{k:02}.png")
    words = ["data", "pack", str(folder / "images"), str(folder / "store"), "--size", "16"]
    assert main(words) == 0
    return pretrained(folder / "run", "--data", str(folder / "store"))


def test_without_labels_there_are_still_cosines_and_maps(unnamed, tmp_path, capsys):
    out = ("--out", tmp_path / "a.png")
    said = refused(capsys, "purity", unnamed, *out)
    assert said == "purity needs domains or classes, and neither is known"
    assert analyzed(capsys, "similarity", unnamed, *out)[0] == 0
    code, said, _ = analyzed(capsys, "map", unnamed, *out, "--force")
    assert code == 0 and said.startswith("run: 4 of 4 images\n")
