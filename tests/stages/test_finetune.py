"""onestyle finetune: ERM by the loop of pretraining, for fractions and seeds; it goes on."""

import os
import shutil
import signal
import time
from functools import partial

import numpy as np
import pytest
import torch
import yaml
from torch.testing import assert_close

from onestyle.checkpoint import load, read_weights
from onestyle.cli import main
from onestyle.data.protocol import Pool, make_split
from onestyle.data.store import open_store
from onestyle.methods.erm import ERM
from onestyle.nn.heads import mlp
from onestyle.recipes import plain, recipe_named
from onestyle.run import read_rows
from onestyle.stages.embed import features
from onestyle.stages.evaluation import read_evaluation
from onestyle.stages.finetune import erm, lesson, training_of
from onestyle.stages.frozen import open_frozen
from tests.processes import start
from tests.stages.runs import pretrained

WORDS = (
    "finetune", "random:test_resnet", "--data", "digits", "--targets", "photo", "--size", "16",
    "--device", "cpu", "--seeds", "2", "--fractions", ".05",
)  # fmt: skip


def command(out, *words, **options):
    return command_of(WORDS, out, *words, **options)


def command_of(begin, out, *words, steps=4, fractions=()):
    settings = {"steps": steps, "batch_size": 16, "precision": "32-true", "save_minutes": 0}
    settings |= {"log_every": 1}
    found = [*begin, *fractions, "--out", str(out), *words]
    return found + [word for key, of in settings.items() for word in ("--set", f"{key}={of}")]


def test_what_it_leaves(tmp_path, capsys):
    assert main(command(tmp_path / "a", fractions=["1"])) == 0
    found = read_evaluation(tmp_path / "a")
    result = found.result
    assert (result["stage"], result["selector"]) == ("finetune", "last step")
    assert result["seeds"] == {"pretraining": None, "labels": [0, 1], "finetuning": [0, 1]}
    split = make_split(open_store("digits").table, targets=["photo"])
    assert [(v["percent"], v["seed"], v["n_labels"]) for v in result["values"]] == [
        (percent, seed, len(split.labelled(percent))) for percent in (5, 100) for seed in (0, 1)
    ]
    assert result["training"]["optimizer"] == "adam" and result["training"]["steps"] == 4
    words = capsys.readouterr().out
    assert "fine-tuning" in words and f"{found.summary[100]['photo']['mean']:.2f}" in words
    assert sorted(os.listdir(tmp_path / "a/p5-s1")) == [
        "lock", "metrics.jsonl", "network.safetensors", "predictions.safetensors", "recipe.yaml",
        "result.json", "tensorboard",
    ]  # fmt: skip


def test_predictions_are_those_of_the_saved_network(tmp_path):
    assert main(command(tmp_path / "a")) == 0
    weights = read_weights(tmp_path / "a/p5-s1/network.safetensors")
    frozen = open_frozen("random:test_resnet", size=16)
    method = ERM(frozen.network, n_classes=10)
    method.load_state_dict(weights)
    found = read_evaluation(tmp_path / "a").parts["val"]
    pool = Pool(open_store("digits"), found.rows)
    ours = features(method.eval().logits, pool, 16, mean=frozen.mean, std=frozen.std)
    assert np.array_equal(ours.argmax(1).numpy(), found.classes[1])


def wait_for_row(path, step, process):
    for _ in range(6000):
        if any(row["step"] >= step for row in read_rows(path / "metrics.jsonl")):
            return
        assert process.is_alive(), "it ended by itself"
        time.sleep(0.01)
    raise TimeoutError(path)


def test_what_is_finished_is_not_done_again(tmp_path):
    assert main(command(tmp_path / "a")) == 0
    first, second = (tmp_path / "a" / name for name in ("p5-s0", "p5-s1"))
    done, weights = first.joinpath("result.json").stat().st_mtime_ns, second / "network.safetensors"
    before, told = weights.read_bytes(), read_evaluation(tmp_path / "a").result["summary"]
    for file in (tmp_path / "a/result.json", second / "result.json", weights):
        file.unlink()
    assert main(command(tmp_path / "a")) == 0
    assert first.joinpath("result.json").stat().st_mtime_ns == done
    assert weights.read_bytes() == before
    assert read_evaluation(tmp_path / "a").result["summary"] == told


FIXMATCH = (
    "finetune", "--recipe", "digits/fixmatch", "--data", "digits", "--targets", "photo",
    "--device", "cpu", "--seeds", "2", "--fractions", ".05", "--set", "views=1x16 + 1x16",
    "--set", "labelled_batch_size=8",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    "number, words", [(signal.SIGKILL, WORDS), (signal.SIGTERM, WORDS), (signal.SIGKILL, FIXMATCH)]
)
def test_interrupted_it_goes_on_to_the_same_bits(tmp_path, number, words):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    command = partial(command_of, words)
    assert start(main, command(whole, steps=40)).wait() == 0
    process = start(main, command(cut, steps=40))
    wait_for_row(cut / "p5-s1", 2, process)  # the first seed is done, the second has begun
    os.kill(process.pid, number)
    process.join()
    assert process.exitcode == (-number if number == signal.SIGKILL else 128 + number)
    assert not (cut / "result.json").exists() and (cut / "p5-s0/result.json").exists()
    done = (cut / "p5-s0/result.json").stat().st_mtime_ns
    assert start(main, command(cut, steps=40)).wait() == 0
    assert (cut / "p5-s0/result.json").stat().st_mtime_ns == done  # was not trained again
    for seed in ("p5-s0", "p5-s1"):
        ours, theirs = (read_weights(at / seed / "network.safetensors") for at in (cut, whole))
        assert_close(ours, theirs, rtol=0, atol=0)
    assert read_evaluation(cut).result["summary"] == read_evaluation(whole).result["summary"]


def test_a_recipe_of_labels_leaves_what_erm_does(tmp_path, capsys):
    words = command_of(FIXMATCH, tmp_path / "a", steps=2)
    assert main(words) == 0
    result = read_evaluation(tmp_path / "a").result
    assert (result["stage"], result["recipe"]["method"]) == ("finetune", "fixmatch")
    assert result["network"] == {"timm": "test_resnet", "init": "random", "own": True}
    assert result["training"]["optimizer"] == "sgd" and result["training"]["steps"] == 2
    assert [group["style"] for group in result["views"]["groups"]] == ["weak"]  # of labelled ones
    assert result["target_openings"] == 1
    shown = capsys.readouterr()
    assert "fine-tuning, by fixmatch" in shown.out and "†" not in shown.out
    assert "66 labelled images and 1,198 unlabelled ones of the source domains" in shown.err
    rows = read_rows(tmp_path / "a/p5-s1/metrics.jsonl")
    assert {"mask", "largest_class", "supervised", "unsupervised"} <= rows[-1].keys()
    weights = read_weights(tmp_path / "a/p5-s1/network.safetensors")
    method = recipe_named("digits/fixmatch").make_method(
        open_frozen("random:test_resnet", size=16).network, n_classes=10
    )
    method.load_state_dict(weights)
    found = read_evaluation(tmp_path / "a").parts["val"]
    pool = Pool(open_store("digits"), found.rows)
    ours = features(method.eval().logits, pool, 16)
    assert np.array_equal(ours.argmax(1).numpy(), found.classes[1])


def test_a_recipe_that_uses_the_target_is_counted_and_marked(tmp_path, capsys):
    words = ["--set", "uses_target=true", "--seeds", "1"]
    assert main(command_of(FIXMATCH, tmp_path / "a", *words, steps=2)) == 0
    shown = capsys.readouterr()
    assert "random:test_resnet† on digits, fine-tuning, by fixmatch" in shown.out
    assert "†: learned from images of the targets without their labels" in shown.out
    assert "unlabelled ones of the target domains" in shown.err
    whys = [row["why"] for row in read_rows(tmp_path / "a/target_openings.jsonl")]
    assert whys == ["evaluation", "training"]
    result = read_evaluation(tmp_path / "a").result
    assert result["recipe"]["uses_target"] and result["target_openings"] == 2


def test_recipes_it_cannot_take(capsys):
    assert main(["finetune", "--data", "digits"]) == 2
    assert "name a network to fine-tune, or how to learn by --recipe" in capsys.readouterr().err
    assert main(["finetune", "--recipe", "digits/simclr"]) == 2
    assert "simclr learns without labels: onestyle pretrain does" in capsys.readouterr().err


def test_erm_is_written_down_as_ever(tmp_path):
    """So that what was begun by an older version is gone on with."""
    assert main(command(tmp_path / "a", "--seeds", "1")) == 0
    config = yaml.safe_load((tmp_path / "a/p5-s0/recipe.yaml").read_text())
    assert not {"recipe", "method"} & config.keys() and "schedule" not in config["training"]
    frozen = open_frozen("random:test_resnet", size=16)
    views = plain(erm("digits", frozen, training_of("digits")).plan())
    normal = {"mean": list(frozen.mean), "std": list(frozen.std)}
    assert config["views"] == views | normal
    (group,) = config["views"]["groups"]
    assert group == {
        "n": 1, "size": 16, "style": "none", "colour_scope": None, "scale": None,
    }  # fmt: skip


def test_other_words_are_refused(tmp_path, capsys):
    assert main(command(tmp_path / "a")) == 0
    before = (tmp_path / "a/result.json").read_bytes()
    assert main(command(tmp_path / "a")) == 2
    assert "holds an evaluation; --force overwrites it" in capsys.readouterr().err
    assert (tmp_path / "a/result.json").read_bytes() == before
    (tmp_path / "a/result.json").unlink()
    assert main(command(tmp_path / "a", steps=5)) == 2
    assert "training.steps is 4 there and 5 now" in capsys.readouterr().err
    assert main(command(tmp_path / "a", "--force", steps=5)) == 0
    assert read_evaluation(tmp_path / "a").result["training"]["steps"] == 5


@pytest.fixture(scope="module")
def simclrv2(tmp_path_factory):
    path = tmp_path_factory.mktemp("tuned") / "run"
    return pretrained(path, "--targets", "photo", recipe="digits/simclrv2", views="2x24")


def test_a_method_may_be_tuned_from_a_later_layer(simclrv2):
    """SimCLR v2 from its projector's first, with the weights and statistics of the run's end."""
    backbone, tuned = open_frozen(str(simclrv2)), open_frozen(str(simclrv2), tuned=True)
    images = torch.randn(4, 3, 24, 24)
    state = load(simclrv2 / "checkpoints/last.ckpt")["method"]
    last = mlp(96, 96, 96, 128, last_norm=True).eval()
    last.load_state_dict({key[10:]: x for key, x in state.items() if key.startswith("projector.")})
    with torch.no_grad():
        h = backbone.network(images)
        assert_close(tuned.network(images), last[:3](h))
    assert not torch.allclose(last[1].running_mean, torch.zeros(96))
    assert (backbone.width, tuned.width, tuned.about["weights"]) == (96, 96, "tuned.safetensors")
    assert "weights" not in backbone.about
    plain = open_frozen("random:test_resnet").network.state_dict()
    assert read_weights(simclrv2 / "backbone.safetensors").keys() == plain.keys()  # timm's own


def test_it_is_tuned_and_nothing_else_changes(simclrv2):
    """Fine-tuning moves the first layer with the backbone; the probe has the backbone alone."""
    words = ["--fractions", ".05", "--seeds", "1", "--device", "cpu"]
    small = ["steps=4", "batch_size=16", "precision=32-true", "log_every=1", "lr=0.01"]
    small = [word for setting in small for word in ("--set", setting)]
    assert main(["finetune", str(simclrv2), *words, *small]) == 0
    before = read_weights(simclrv2 / "tuned.safetensors")
    after = read_weights(simclrv2 / "finetune/p5-s0/network.safetensors")
    assert {f"backbone.{key}" for key in before} <= after.keys()
    for key in (next(iter(before)), "1.0.weight", "1.1.weight"):
        assert not torch.equal(before[key], after[f"backbone.{key}"])
    assert read_evaluation(simclrv2 / "finetune").result["network"]["weights"]
    assert main(["probe", str(simclrv2), *words, "--set", "steps=5"]) == 0
    assert "weights" not in read_evaluation(simclrv2 / "probe").result["network"]


def test_weights_that_are_tuned_must_be_there(simclrv2, tmp_path, capsys):
    shutil.copytree(simclrv2, tmp_path / "run", ignore=shutil.ignore_patterns("tuned*", "finetune"))
    assert main(["finetune", str(tmp_path / "run"), "--seeds", "1"]) == 2
    assert "tuned.safetensors is not a file of weights" in capsys.readouterr().err


def test_others_are_tuned_from_the_backbone(tmp_path):
    run = pretrained(tmp_path / "run", "--targets", "photo")
    assert not (run / "tuned.safetensors").exists()
    backbone, tuned = open_frozen(str(run)), open_frozen(str(run), tuned=True)
    assert_close(tuned.network.state_dict(), backbone.network.state_dict(), rtol=0, atol=0)
    assert tuned.about == backbone.about


def test_each_seed_begins_with_a_network_of_its_own():
    weights = [
        open_frozen("random:test_resnet", seed=seed).network.state_dict() for seed in (0, 0, 1)
    ]
    assert_close(weights[0], weights[1], rtol=0, atol=0)
    assert any(not torch.equal(weights[0][name], weights[2][name]) for name in weights[0])


def test_the_stream_hands_over_labels_of_the_fraction_alone():
    """And of each image its own label, whatever the batch is larger than."""
    store = open_store("digits")
    split = make_split(store.table, targets=["photo"])
    frozen, device = open_frozen("random:test_resnet", size=32), torch.device("cpu")
    recipe = erm("digits", frozen, training_of("digits"))
    _, stream = lesson(recipe, frozen, store, split, split.labelled(1), device=device)
    pool = stream.loader.pool
    for batch in stream.batches(0, 3):
        assert (
            batch.domain is None
            and batch.labelled is None
            and batch.views[0].shape == (1, 64, 3, 32, 32)
        )
        rows = pool.rows[batch.places.numpy()]
        assert np.array_equal(batch.label.numpy(), store.table.label[rows])
        assert {*rows.tolist()} <= {*split.labelled(1).tolist()}


def test_the_settings_are_the_papers():
    pacs, camelyon = training_of("pacs"), training_of("camelyon17")
    assert (pacs.steps, pacs.batch_size, camelyon.steps, camelyon.batch_size) == (
        5000, 128, 15_000, 64,
    )  # fmt: skip
    for training in (pacs, camelyon):
        assert (training.optimizer, training.lr, training.weight_decay) == ("adam", 1e-4, 1e-4)
        assert training.rate(0) == 1 and training.rate(training.steps - 1) < 1e-6  # no warm-up
