"""Every number of an evaluation follows from its predictions, and says so when it does not."""

import json
import statistics

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, balanced_accuracy_score

from onestyle.checkpoint import read_weights, save_tensors
from onestyle.stages.evaluation import (
    Predicted,
    chance,
    read_evaluation,
    scores,
    summarize,
    write_evaluation,
)

VALUES = [
    {"percent": percent, "seed": seed, "n_labels": 10 * percent}
    for percent in (5, 100)
    for seed in range(3)
]


def predicted(n, seed, n_classes=4):
    dice = np.random.default_rng(seed)
    label = dice.choice(n_classes, n, p=[0.5, 0.2, 0.2, 0.1]).astype(np.int16)
    guess = dice.integers(n_classes, size=(len(VALUES), n))
    classes = np.where(dice.random((len(VALUES), n)) < 0.4, label, guess).astype(np.int16)
    return Predicted(classes, label, np.arange(n) + 1000 * seed)


PARTS = {"val": predicted(50, 1), "target/a": predicted(200, 2), "target/b": predicted(40, 3)}


def test_scores_are_scikit_learns():
    for k in range(len(VALUES)):
        found = scores(PARTS, k)
        for name in ("a", "b"):
            classes, label, _ = PARTS[f"target/{name}"]
            theirs = accuracy_score(label, classes[k]), balanced_accuracy_score(label, classes[k])
            ours = found["targets"][name]
            wanted = {"accuracy": 100 * theirs[0], "balanced": 100 * theirs[1], "n": len(label)}
            assert ours == pytest.approx(wanted, abs=1e-12)
        a, b = (found["targets"][name]["accuracy"] for name in ("a", "b"))
        assert found["average"] == pytest.approx((a + b) / 2)
        assert found["overall"] == pytest.approx((200 * a + 40 * b) / 240)  # over images
        assert found["worst"] == min(a, b)
        val = accuracy_score(PARTS["val"].label, PARTS["val"].classes[k])
        assert found["val"] == pytest.approx(100 * val)


def test_images_without_a_class_do_not_count():
    part = PARTS["target/a"]
    half = part._replace(label=np.where(np.arange(200) < 100, part.label, -1).astype(np.int16))
    first = Predicted(part.classes[:, :100], part.label[:100], part.rows[:100])
    parts = [{"val": PARTS["val"], "target/a": of} for of in (half, first)]
    assert scores(parts[0], 2) == scores(parts[1], 2)
    assert chance(parts[0], 4) == chance(parts[1], 4)


def test_summary_has_mean_std_and_n_of_each_fraction():
    values = [{**value, **scores(PARTS, k)} for k, value in enumerate(VALUES)]
    found = summarize(values)
    assert list(found) == ["5", "100"] and set(found["5"]) == {
        "average", "overall", "worst", "val", "a", "b",
    }  # fmt: skip
    of = [value["targets"]["b"]["accuracy"] for value in values[3:]]
    assert found["100"]["b"] == {
        "mean": statistics.fmean(of),
        "std": pytest.approx(np.std(of, ddof=1)),
        "n": 3,
    }
    assert summarize(values[:1])["5"]["a"]["std"] is None  # of one value nobody knows it


def test_chance_is_the_most_common_class():
    label = PARTS["target/b"].label
    assert chance(PARTS, 4)["b"] == {
        "majority": 100 * np.bincount(label).max() / 40,
        "uniform": 25.0,
    }


@pytest.fixture
def folder(tmp_path):
    config = {"stage": "probe", "values": VALUES}
    again = {name: part._replace(classes=part.classes.copy()) for name, part in PARTS.items()}
    write_evaluation(tmp_path, config, PARTS, 4, beside={"oracle": again}, spent={"seconds": 1.5})
    return tmp_path


def test_it_is_read_as_it_was_written(folder):
    found = read_evaluation(folder)
    for name, part in PARTS.items():
        assert all(map(np.array_equal, found.parts[name], part))
    assert found.summary[100]["a"]["n"] == 3 and found.result["seconds"] == 1.5
    assert found.result["beside"]["oracle"]["summary"] == found.result["summary"]
    assert sorted(path.name for path in folder.iterdir()) == [
        "predictions.safetensors", "result.json",
    ]  # fmt: skip


def test_edited_predictions_are_refused(folder):
    file = folder / "predictions.safetensors"
    tensors = read_weights(file)
    tensors["target/a"][0] = tensors["label/target/a"]
    save_tensors(file, tensors)
    with pytest.raises(ValueError, match=r"predictions.safetensors is not what .* it was changed"):
        read_evaluation(folder)
    file.unlink()
    with pytest.raises(ValueError, match="it was changed"):
        read_evaluation(folder)


@pytest.mark.parametrize("place", ["values", "summary"])
def test_edited_numbers_are_refused(folder, place):
    file = folder / "result.json"
    result = json.loads(file.read_text())
    if place == "values":
        result["values"][0]["targets"]["a"]["accuracy"] = 99.0
    else:
        result["summary"]["5"]["average"]["mean"] += 1
    file.write_text(json.dumps(result))
    with pytest.raises(ValueError, match="does not say what its predictions say"):
        read_evaluation(folder)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "cannot be read"),
        ("[]", "cannot be read"),
        ('{"format": 99, "config_hash": ""}', "is of format 99; this version reads 1"),
    ],
)
def test_a_result_that_is_none(folder, text, said):
    (folder / "result.json").write_text(text)
    with pytest.raises(ValueError, match=said):
        read_evaluation(folder)
    (folder / "result.json").unlink()
    with pytest.raises(ValueError, match="no finished evaluation; onestyle probe makes one"):
        read_evaluation(folder)
