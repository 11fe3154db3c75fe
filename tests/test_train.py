"""The loop: a run that was killed ends as one that was not; what goes wrong loses nothing."""

import json
import os
import resource
import signal
import time

import pytest
import torch
import torch.nn.functional as F
from lightning_fabric import Fabric
from torch import nn
from torch.testing import assert_close

from onestyle.checkpoint import load
from onestyle.cli import main
from onestyle.methods import method_named
from onestyle.methods.base import Batch, Method
from onestyle.optim import Training
from onestyle.recipes import RECIPES, override, recipe_named
from onestyle.run import Run, read_rows
from onestyle.stages import pretrain as pretraining
from onestyle.stages.pretrain import Pretraining, pretrain
from onestyle.train import fit
from tests.data.files import fill
from tests.processes import start

SMALL = {
    "views": "2x16",
    "batch_size": 16,
    "steps": 8,
    "precision": "32-true",
    "log_every": 1,
    "monitor_every": 4,
    "save_minutes": 0,
}
VIEWS = {"swav": "2x16 + 1x8", "msn": "1x16 0.3..1 + 2x8 0.05..0.3", "brad": "4x16"}
VIEWS |= dict.fromkeys(("mae", "dimae", "cyclemae"), "1x16")
# Learned negatives are filled in two steps, so that they move in those that are left.
MORE = {"adco": {"options.negatives": 32}, "darling": {"options.negatives": 8}}


def command(name, out, **changes):
    method = name.partition("/")[2]
    settings = SMALL | {"views": VIEWS.get(method, SMALL["views"])} | MORE.get(method, {}) | changes
    words = ["pretrain", name, "--targets", "photo", "--accelerator", "cpu", "--out", str(out)]
    return words + [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]


def weights(path):
    return load(path / "checkpoints/last.ckpt")["method"]


def wait_for_row(path, step, process):
    for _ in range(3000):
        if any(row["step"] >= step for row in read_rows(path / "metrics.jsonl")):
            return
        assert process.is_alive(), "the run ended by itself"
        time.sleep(0.01)
    raise TimeoutError(path)


def interrupted(words, path, step, number):
    """A run that gets a signal after some step; its exit code."""
    process = start(main, words)
    wait_for_row(path, step, process)
    os.kill(process.pid, number)
    process.join()
    return process.exitcode


UNLABELLED = [
    name for name, recipe in RECIPES.items() if "label" not in method_named(recipe.method).needs
]


@pytest.mark.parametrize("name", [name for name in UNLABELLED if name.startswith("digits/")])
def test_killed_and_resumed_it_ends_with_the_same_bits(name, tmp_path):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    assert start(main, command(name, whole)).wait() == 0
    step = 1 + torch.randint(5, ()).item()
    assert interrupted(command(name, cut), cut, step, signal.SIGKILL) == -signal.SIGKILL
    assert not (cut / "result.json").exists()
    assert start(main, command(name, cut)).wait() == 0
    assert_close(weights(cut), weights(whole), rtol=0, atol=0)
    rows = [[row.get("loss") for row in read_rows(p / "metrics.jsonl")] for p in (whole, cut)]
    assert rows[0] == rows[1]  # none lost, none twice
    assert (cut / "backbone.safetensors").read_bytes() == (
        whole / "backbone.safetensors"
    ).read_bytes()


def test_sigterm_saves_and_says_so_by_its_code(tmp_path):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    words = command("digits/simclr", cut, save_minutes=60)
    assert interrupted(words, cut, 2, signal.SIGTERM) == 128 + signal.SIGTERM
    saved = load(cut / "checkpoints/last.ckpt")["step"]
    assert 2 <= saved < 8
    assert start(main, words).wait() == 0
    assert start(main, command("digits/simclr", whole, save_minutes=60)).wait() == 0
    assert_close(weights(cut), weights(whole), rtol=0, atol=0)


def no_file_over(size, words):
    """The command, where a disk that is full is a file that may not grow."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    return main(words)


def test_a_failed_write_keeps_the_last_good_checkpoint_and_the_log(tmp_path):
    words = command("digits/simclr", tmp_path / "run")
    run = tmp_path / "run"
    interrupted(words, run, 3, signal.SIGKILL)
    good, step = run / "checkpoints/last.ckpt", load(run / "checkpoints/last.ckpt")["step"]
    assert start(no_file_over, 10_000, words).wait() == 2
    assert load(good)["step"] == step
    assert os.listdir(good.parent) == ["last.ckpt"]
    assert {row["step"] for row in read_rows(run / "metrics.jsonl")} >= set(range(1, step + 1))
    assert start(main, words).wait() == 0


def test_a_flat_folder_of_images_is_enough(tmp_path, capsys):
    """No domains, no classes: it trains, and says what cannot be seen on the way."""
    fill(tmp_path / "files", [f"{k}.png" for k in range(40)])
    store, out = str(tmp_path / "store"), tmp_path / "run"
    assert main(["data", "pack", str(tmp_path / "files"), store, "--size", "16"]) == 0
    words = [word for word in command("digits/simclr", out) if word not in ("--targets", "photo")]
    assert main([*words, "--data", store]) == 0
    said = capsys.readouterr().err
    both = "classes or more and two domains"
    for name, labels in (("val_knn", "classes"), ("val_across", both), ("val_purity", "domains")):
        what = f"source validation images of two {labels} or more"
        assert f"there will be no {name}: it needs {what}" in said
    rows = read_rows(out / "metrics.jsonl")
    assert len(rows) == 8 and not any(name.startswith("val_") for row in rows for name in row)
    assert (out / "backbone.safetensors").exists()


def test_features_that_know_class_and_domain_have_the_best_k_nn_accuracy(monkeypatch):
    """The embedded digits hold 5 validation images of each: 20 neighbours would outvote them."""
    recipe = override(recipe_named("digits/simclr"), ["precision=32-true"])
    fabric = Fabric(accelerator="cpu", devices=1)
    job = Pretraining.plan(recipe, "digits", ["photo"], [], fabric)
    pool = job.watched
    known = torch.from_numpy(100 * pool.domains + pool.labels).long()
    monkeypatch.setattr(pretraining, "features", lambda *_: F.one_hot(known).float())
    found = job.look(job.method)
    assert found["val_knn"] == 1
    assert found["val_across"] < 0.2  # such features know nothing across
    assert found["val_purity"] < 0.5  # of 20 neighbours: 4 of its kind, the others by lot


def test_a_recipe_that_uses_the_target_learns_from_it_and_says_so(tmp_path, capsys):
    out = tmp_path / "run"
    words = [*command("digits/swav", out, steps=2, monitor_every=0), "--set", "uses_target=true"]
    assert main(words) == 0
    assert [row["why"] for row in read_rows(out / "target_openings.jsonl")] == ["training"]
    result = json.loads((out / "result.json").read_text())
    assert result["target_openings"] == 1 and result["recipe"]["uses_target"]
    cost = capsys.readouterr().err
    assert "2 steps, 32 images (0 times each)" in cost
    alone = [word for word in words if word not in ("--targets", "photo")]
    assert main([*alone, "--force"]) == 2
    assert "a recipe that uses the target needs one: name it by --targets" in (
        capsys.readouterr().err
    )


def test_killed_between_the_last_checkpoint_and_the_result_it_finishes(tmp_path):
    words, run = command("digits/simclr", tmp_path / "run", steps=2), tmp_path / "run"
    assert main(words) == 0
    result = json.loads((run / "result.json").read_text())
    (run / "result.json").unlink()
    assert main(words) == 0
    assert json.loads((run / "result.json").read_text())["last"] == result["last"]


def test_another_recipe_is_refused_by_its_difference(tmp_path, capsys):
    words = command("digits/simclr", tmp_path / "run", steps=1)
    assert main(words) == 0
    before = (tmp_path / "run/result.json").read_bytes()
    assert main([*words, "--set", "lr=0.5"]) == 2
    assert "recipe.lr is 0.0014 there and 0.5 now" in capsys.readouterr().err
    assert (tmp_path / "run/result.json").read_bytes() == before
    assert main(words) == 0
    assert "is finished" in capsys.readouterr().err
    assert main([*words, "--set", "lr=0.5", "--force"]) == 0


def test_one_process_a_run_and_a_dead_one_is_named(tmp_path, capsys):
    words, run = command("digits/simclr", tmp_path / "run", steps=400), tmp_path / "run"
    process = start(main, words)
    wait_for_row(run, 1, process)
    assert main(words) == 2
    assert f"is in use by {os.uname().nodename} process {process.pid}" in capsys.readouterr().err
    process.kill()
    process.join()
    assert main([*words, "--set", "steps=1", "--force"]) == 0
    assert (
        f"taking over from {os.uname().nodename} process {process.pid}" in capsys.readouterr().err
    )


class Line(Method):
    """A loss that can be followed by hand: w times the sum of the batch's numbers."""

    def __init__(self, spoilt=None):
        super().__init__(nn.Identity())
        self.w, self.spoilt, self.seen = nn.Parameter(torch.ones(())), spoilt, []

    def loss(self, batch):
        self.seen.append(batch.step)
        x = batch.views[0].mean()
        return self.w * (x * torch.nan if batch.step == self.spoilt else x), {}


class Numbers:
    """A stream whose k-th batch is the number (k + 1) times `unit`."""

    n_views, seconds = 1, {"data": 0.0, "views": 0.0}

    def __init__(self, unit=1.0):
        self.unit = unit

    def batches(self, start, stop):
        for k in range(start, stop):
            view = torch.full((1, 1, 1, 1, 1), (k + 1) * self.unit)
            yield Batch([view], torch.arange(1), k, torch.Generator())


def training(**options):
    options = {"steps": 6, "optimizer": "sgd", "lr": 0.1, "warmup": 0.0, **options}
    return Training(batch_size=1, weight_decay=0, momentum=0, final_lr=1, **options)


def fabric(precision="32-true"):
    return Fabric(accelerator="cpu", devices=1, precision=precision)


def test_batches_are_accumulated_to_their_mean():
    method = Line()
    fit(method, Numbers(), training(steps=2, accumulate=3), fabric=fabric())
    assert_close(method.w.detach(), torch.tensor(1 - 0.1 * (2 + 5)))  # means of 1 2 3 and 4 5 6
    assert method.seen == [0, 0, 0, 1, 1, 1]


def test_gradients_are_clipped():
    method = Line()
    fit(method, Numbers(), training(steps=2, clip=0.5), fabric=fabric())
    assert_close(method.w.detach(), torch.tensor(1 - 0.1 * (0.5 + 0.5)))


class Dead(Line):
    """Says of itself that all embeddings are alike and one prototype takes all."""

    def loss(self, batch):
        loss, _ = super().loss(batch)
        return loss, {"embedding_std": 0.01, "prototypes_used": 1}


def test_a_collapse_is_warned_of_once(tmp_path, capsys):
    run = Run(tmp_path, {})
    fit(Dead(), Numbers(), training(log_every=2), fabric=fabric(), run=run)
    said = capsys.readouterr().err
    assert said.count("step 2: embedding_std is 0.01: all embeddings are nearly the same") == 1
    assert said.count("step 2: prototypes_used is 1: hardly any prototype is in use") == 1
    assert said.count("has collapsed") == 2
    assert [row["embedding_std"] for row in read_rows(run.metrics)] == [0.01] * 3


def test_nan_stops_the_run_and_names_step_and_checkpoint(tmp_path):
    run = Run(tmp_path, {})
    with pytest.raises(
        FloatingPointError, match=r"loss is nan at step 4; .* checkpoint is of step 4"
    ):
        fit(Line(spoilt=4), Numbers(), training(save_minutes=0), fabric=fabric(), run=run)
    assert run.load()["step"] == 4 and run.load()["method"]["w"].isfinite()


def test_a_weight_that_is_lost_is_not_saved(tmp_path):
    run = Run(tmp_path, {})
    with pytest.raises(FloatingPointError, match=r"a weight is -inf at step 0"):
        fit(Line(), Numbers(10.0), training(lr=1e38, save_minutes=0), fabric=fabric(), run=run)
    assert run.load() is None


def test_half_precision_of_a_gpu_is_refused_without_one(tmp_path, capsys):
    words = command("digits/simclr", tmp_path / "run", precision="16-mixed")
    assert main(words) == 2
    assert "16-mixed needs a GPU; take bf16-mixed" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("precision", ["bf16-mixed", "64-true"])
def test_weights_keep_their_precision(precision, tmp_path):
    recipe = recipe_named("digits/simclr")
    settings = {**SMALL, "precision": precision, "steps": 2, "views": "2x32"}
    recipe = override(recipe, [f"{key}={value}" for key, value in settings.items()])
    run = pretrain(recipe, targets=["photo"], out=tmp_path / "run", fabric=fabric(precision))
    kinds = {x.dtype for x in weights(run.path).values() if x.is_floating_point()}
    assert kinds == {torch.float64 if precision == "64-true" else torch.float32}
    assert run.read_result()["last"]["loss"] < 8


def test_what_a_run_leaves(tmp_path):
    assert main(command("digits/swav", tmp_path / "run", steps=4, snapshot_every=2)) == 0
    there = sorted(path.name for path in (tmp_path / "run").iterdir())
    assert there == [
        "backbone.safetensors", "checkpoints", "lock", "metrics.jsonl", "recipe.yaml",
        "result.json", "snapshots", "store.txt", "tensorboard",
    ]  # fmt: skip
    assert sorted(os.listdir(tmp_path / "run/snapshots")) == [
        "step_000002.safetensors", "step_000004.safetensors",
    ]  # fmt: skip
    result = json.loads((tmp_path / "run/result.json").read_text())
    assert result["selector"] == "last step" and result["seeds"] == {"pretraining": 0}
    assert result["images_seen"] == 64 and result["views_seen"] == 3 * 64
    assert result["data"]["targets"] == ["photo"] and result["target_openings"] == 0
    assert {"loss", "lr", "embedding_std", "prototypes_used", "val_knn"} <= result["last"].keys()
    assert str(tmp_path) not in (tmp_path / "run/result.json").read_text()
