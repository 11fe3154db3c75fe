"""What the analyses are given of a run, and the command that shows what they find."""

from collections import Counter

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from onestyle.checkpoint import read_weights
from onestyle.cli import main
from onestyle.data.protocol import TargetPool
from onestyle.data.store import open_store
from onestyle.run import read_rows
from onestyle.stages.analyze import open_subject, open_subjects
from onestyle.stages.embed import prepare

SMALL = ("batch_size=32", "steps=4", "precision=32-true", "monitor_every=0", "snapshot_every=2")
VIEWS = {"simclr": "2x16", "swav": "2x16 + 1x8"}


def pretrained(path, method, *settings, targets=("photo",)):
    words = ["pretrain", f"digits/{method}", "--targets", *targets, "--accelerator", "cpu"]
    settings = (*SMALL, f"views={VIEWS[method]}", *settings)
    words += [word for setting in settings for word in ("--set", setting)]
    assert main([*words, "--out", str(path)]) == 0
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    pretrained(folder / "simclr", "simclr")
    pretrained(folder / "simclr-fa", "simclr", "style=fa", "snapshot_every=0")
    pretrained(folder / "swav", "swav")
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
    from onestyle.stages.pretrain import Pretraining, make_fabric

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
    import shutil

    shutil.copytree(runs / "simclr", tmp_path / "run")
    whole = open_subject(tmp_path / "run").last.state_dict()
    (tmp_path / "run/checkpoints/last.ckpt").unlink()
    assert_close(open_subject(tmp_path / "run").last.state_dict(), whole, rtol=0, atol=0)
    (tmp_path / "run/snapshots/step_000004.safetensors").unlink()
    older = read_weights(tmp_path / "run/snapshots/step_000002.safetensors")
    assert_close(dict(open_subject(tmp_path / "run").last.state_dict()), older, rtol=0, atol=0)


def test_what_cannot_be_analysed_is_said(runs, tmp_path):
    with pytest.raises(ValueError, match="SimCLR has no prototypes; SWaV and MSN have"):
        open_subject(runs / "simclr").require_prototypes()
    open_subject(runs / "swav").require_prototypes()
    with pytest.raises(ValueError, match="has no snapshots: pretrain with --set snapshot_every=N"):
        open_subject(runs / "simclr-fa").snapshots()
    with pytest.raises(ValueError, match="timm:resnet18 is not a run"):
        open_subject("timm:resnet18")
    with pytest.raises(ValueError, match="several runs are called simclr: give --names"):
        open_subjects([runs / "simclr", runs / "simclr"])
    with pytest.raises(ValueError, match="there are 1 runs and 2 names: a b"):
        open_subjects([runs / "simclr"], names=["a", "b"])
    other = pretrained(tmp_path / "other", "simclr", targets=["neon"])
    with pytest.raises(ValueError, match=f"{other} was trained on other images than"):
        open_subjects([runs / "simclr", other])
