"""A backbone that leaves gives the same features elsewhere, by the lines of its own card."""

import json
import re
import shutil
import socket
from dataclasses import replace
from pathlib import Path

import pytest
import timm
import torch
import torchvision
import yaml
from torch.testing import assert_close

from onestyle.checkpoint import save_weights
from onestyle.cli import main
from onestyle.nn.backbone import make_backbone
from onestyle.report.card import Check, card
from onestyle.stages import export as stage
from onestyle.stages.evaluation import read_evaluation
from onestyle.stages.export import export
from onestyle.stages.formats import FORMATS, RESNETS
from onestyle.stages.frozen import open_frozen
from tests.data.files import fill, packed
from tests.stages.runs import pretrained


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return pretrained(tmp_path_factory.mktemp("runs") / "my|run", "--targets", "photo")


def by_the_card(folder):
    """The images that the lines of the card take, in [0, 1], and the features that they make."""
    lines = re.search(r"^```python\n(.*?)^```", (folder / "README.md").read_text(), re.M | re.S)
    scope = {}
    exec(lines[1], scope)
    return torch.as_tensor(scope["images"]), torch.as_tensor(scope["features"]).detach()


def of_the_run(run, images):
    frozen = open_frozen(str(run))
    mean, std = torch.tensor([frozen.mean, frozen.std])[..., None, None]
    return frozen.network((images - mean) / std)


def exported(run, to, monkeypatch, *words):
    assert main(["export", str(run), "--to", to, *words]) == 0
    monkeypatch.chdir(run / "export" / to)
    return run / "export" / to


def test_a_hub_folder_gives_the_same_features_and_its_card_tells_no_paths(run, monkeypatch):
    folder = exported(run, "hub-folder", monkeypatch)
    images, found = by_the_card(folder)
    assert_close(found, of_the_run(run, images))
    assert {path.name for path in folder.iterdir()} == {
        "README.md", "config.json", "model.safetensors",
    }  # fmt: skip
    config = json.loads((folder / "config.json").read_text())["pretrained_cfg"]
    assert config["input_size"] == [3, 16, 16] and not {"tag", "license"} & config.keys()
    card = (folder / "README.md").read_text()
    assert yaml.safe_load(card.split("---")[1])["library_name"] == "timm"
    assert "# my\\|run" in card and "| never seen | photo |" in card and "32 images in 64" in card
    for private in (str(run), str(Path.home()), socket.gethostname()):
        assert private not in card


@pytest.mark.slow
@pytest.mark.parametrize("to", ["timm", "onnx", "hub-folder"])
def test_a_transformer_gives_the_same_features(tmp_path, monkeypatch, to):
    views = {"views": "1x32", "batch_size": 8}
    run = pretrained(tmp_path / "run", "--targets", "photo", recipe="digits/mae", **views)
    images, found = by_the_card(exported(run, to, monkeypatch))
    assert_close(found, of_the_run(run, images), rtol=1e-4, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("to", ["torchvision", "onnx"])
def test_a_resnet_gives_the_same_features(tmp_path, monkeypatch, to):
    run = pretrained(tmp_path / "run", "--targets", "photo", backbone="resnet18", views="2x32")
    folder = exported(run, to, monkeypatch, "--data", "digits:48")
    images, found = by_the_card(folder)
    assert_close(found, of_the_run(run, images), rtol=1e-4, atol=1e-4)
    for file in folder.iterdir():
        for private in (Path(timm.__file__).parents[1], run, Path(stage.__file__).parents[2]):
            assert str(private).encode() not in file.read_bytes(), file


def card_of(run):
    return card(open_frozen(str(run)), "timm", "", Check("digits", 16, 0.0, 1e-4))


def test_a_card_tells_what_a_probe_found_unless_it_was_edited(run, tmp_path):
    run = shutil.copytree(run, tmp_path / "run")
    assert "## Results" not in card_of(run)
    words = ["probe", str(run), "--fractions", ".05", "1", "--seeds", "2", "--set", "steps=20"]
    assert main(words) == 0
    photo = read_evaluation(run / "probe").summary[5]["photo"]
    rows = [line.split(" | ") for line in card_of(run).splitlines() if " | " in line]
    rows = {row[0].strip("| "): [cell.strip("| ") for cell in row[1:]] for row in rows}
    there = rows["5%"][rows["labels"].index("photo")]
    assert there == f"{photo['mean']:.1f} ± {photo['std']:.1f} (2)" and "100%" in rows
    with (run / "probe/predictions.safetensors").open("ab") as file:
        file.write(b"0")
    with pytest.raises(ValueError, match="it was changed"):
        card_of(run)


def test_names_and_paths_are_no_markup_in_a_card(tmp_path):
    names = [f"{domain}/{c}/{k}.png" for domain in ("<b>x|y", "*z*") for c in "pq" for k in "01"]
    packed(fill(tmp_path / "files", names), tmp_path / "store")
    start = tmp_path / "secret/start.safetensors"
    start.parent.mkdir()
    save_weights(start, make_backbone("test_resnet", 16), {})
    run = pretrained(tmp_path / "run", "--data", str(tmp_path / "store"), batch_size=4, init=start)
    said = card_of(run)
    assert "&lt;b&gt;x\\|y" in said and "\\*z\\*" in said and "<b>" not in said
    assert "init: start.safetensors" in said and "secret" not in said


def test_what_does_not_give_the_same_features_is_no_export(run, monkeypatch, capsys):
    whole = FORMATS["timm"]

    def lossy(frozen, folder):
        return whole.write(replace(frozen, network=frozen.network.half().float()), folder)

    monkeypatch.setitem(FORMATS, "timm", whole._replace(write=lossy))
    assert main(["export", str(run), "--to", "timm"]) == 2
    said = capsys.readouterr().err
    assert "is not exported: read by timm, features differ by" in said and said.count("\n") == 1
    assert list((run / "export").glob("*timm*")) == []


@pytest.mark.parametrize("name", RESNETS)
def test_resnets_are_the_same_in_timm_and_torchvision(name):
    with torch.device("meta"):
        here, there = timm.create_model(name, num_classes=0), torchvision.models.get_model(name)
        there.fc = torch.nn.Identity()
    shapes = [{key: x.shape for key, x in net.state_dict().items()} for net in (here, there)]
    assert shapes[0] == shapes[1]


def test_what_is_wrong_is_told_and_nothing_is_overwritten(run, tmp_path, capsys):
    def refuses(*words):
        assert main(["export", *map(str, words)]) == 2
        return capsys.readouterr().err

    assert "is not a run" in refuses("timm:resnet18", "--to", "timm")
    assert "torchvision has no test_resnet" in refuses(run, "--to", "torchvision")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.tex").write_text("years")
    out = ["--to", "timm", "--out", tmp_path / "mine"]
    assert "exists; --force" in refuses(run, *out)
    assert "is not an export (thesis.tex)" in refuses(run, *out, "--force")
    assert (tmp_path / "mine/thesis.tex").read_text() == "years"
    with pytest.raises(ValueError, match="unknown format 'pickle'; there are timm, torchvision"):
        export(run, "pickle")
