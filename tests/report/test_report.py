"""What a report says of runs: what belongs together, what is missing, what stays outside."""

import json
import re
import shutil
import socket
from statistics import fmean, stdev

import pytest

from onestyle.cli import main
from onestyle.report.answer import answer, headline
from onestyle.report.card import Check, card
from onestyle.report.groups import read_groups, score
from onestyle.report.results import results_table
from onestyle.report.write import report
from onestyle.stages.evaluation import read_evaluation
from onestyle.stages.frozen import open_frozen
from onestyle.stages.probe import probe
from tests.data.files import fill, packed
from tests.report.conftest import train
from tests.stages.runs import pretrained


def values(run, percent):
    found = json.loads((run / "probe/result.json").read_text())["values"]
    return [value["targets"]["photo"]["accuracy"] for value in found if value["percent"] == percent]


def test_seeds_of_a_recipe_are_one_group(runs):
    fa, bss = read_groups([runs[2], runs[0], runs[1]])
    assert (fa.name, bss.name) == ("FA", "BSS")
    assert [run.path for run in fa.runs] == runs[:2]
    means = [fmean(values(run, 10)) for run in runs[:2]]
    found = score(fa, 10, "photo")
    assert (found.mean, found.std) == pytest.approx((fmean(means), stdev(means)))
    assert found.varied == "pretraining"
    alone = score(bss, 10, "photo")
    assert alone.values == tuple(values(runs[2], 10)) and alone.varied == "labels and probe"


def test_the_headline_has_few_labels_and_chance_beside_it(runs):
    top = headline(read_groups(runs))
    assert (top.measure, top.percent) == ("photo", 10)
    result = json.loads((runs[0] / "probe/result.json").read_text())
    assert top.chance == result["chance"]["photo"]["majority"]


def test_the_page_says_what_the_results_say(runs, page):
    text = page.read_text()
    bss, fa = (fmean(values(runs[2], 10)), fmean(fmean(values(run, 10)) for run in runs[:2]))
    for number in (bss, fa):
        assert f"<b>{number:.1f}%</b>" in text
    assert f"<b>{bss - fa:+.1f}</b>".replace("-", "&minus;") in text
    for fact in ("0.37 M parameters", "4 steps of 16 images in 2 views", "n = 2"):
        assert fact in text


@pytest.mark.parametrize(
    "targets, measure, words",
    [
        ((), "val", "of held-out images of the sources"),
        (("neon", "photo"), "average", "as the mean of the domains"),
    ],
)
def test_the_headline_without_and_with_several_unseen_domains(targets, measure, words, tmp_path):
    run = train(tmp_path / "run", "style=bss", targets=targets)
    probe(str(run), percents=(5,), seeds=1, settings=["steps=5"])
    groups = read_groups([run])
    top = headline(groups)
    (value,) = read_evaluation(run / "probe").result["values"]
    assert (top.measure, top.percent) == (measure, 5)
    assert top.scores[0].values == (value[measure],) and top.scores[0].std is None
    said = answer(groups)
    assert words in said and f"{value[measure]:.1f}%" in said and "n = 1" in said
    assert all(name in said for name in targets)


def test_without_images_there_is_no_pixel(runs, tmp_path):
    out = tmp_path / "report.html"
    assert main(["report", str(runs[2]), "--out", str(out), "--no-images"]) == 0
    text = out.read_text()
    assert "data:image" not in text and "<img" not in text and "background-image" not in text
    assert 'class="map"' in text and 'id="card"' in text


def test_nothing_of_this_machine_is_in_the_page(runs, page):
    text = page.read_text()
    text = re.sub(r"data:image/webp;base64,[\w+/=]+", "", text)
    assert socket.gethostname() not in text
    assert str(runs[0].parent) not in text and "/home/" not in text and "/tmp/" not in text
    assert not re.search(r"(src|href)=.?(https?:)?//|@import|url\(['\"]?http", text)


KINDS = [f"{d}/{c}" for d in ("x<b>&", "'y") for c in ("c<img src=q onerror=alert(1)>", 'd"')]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A run on a store whose names are markup, with one target."""
    folder = tmp_path_factory.mktemp("hostile")
    fill(folder / "in", [f"{kind}/{k:02}.png" for kind in KINDS for k in range(24)])
    packed(folder / "in", folder / "store")
    return train(folder / "run", "style=fa", targets=("'y",), store=folder / "store")


def test_names_are_shown_and_not_carried_out(hostile, tmp_path):
    text = report([hostile], out=tmp_path / "report.html").read_text()
    assert "<img src=q" not in text and "x<b>&" not in text
    assert "c&lt;img src=q onerror=alert(1)&gt;" in text and "x&lt;b&gt;&amp;" in text
    assert "&#x27;y" in text


def test_names_that_are_markup_do_nothing_in_a_browser(hostile, tmp_path, tab):
    page = report([hostile], out=tmp_path / "report.html")
    tab.open(page)
    assert tab.complaints == []
    assert tab.ask("document.querySelector('[data-only=c0] span').textContent") == (
        "c<img src=q onerror=alert(1)>"
    )


def test_no_labels_no_domains_no_probe(tmp_path):
    fill(tmp_path / "in", [f"{k:02}.png" for k in range(30)])
    packed(tmp_path / "in", tmp_path / "store")
    run = train(tmp_path / "run", "style=bss", targets=(), store=tmp_path / "store")
    text = report([run], out=tmp_path / "report.html").read_text()
    assert "No run has been probed" in text and "saw no labels" in text
    assert 'class="map"' not in text or 'data-by="' not in text
    assert "chance" not in re.sub(r"(?s)<style>.*?</style>|<script>.*?</script>", "", text)


def test_prototypes_are_followed_where_snapshots_were_kept(tmp_path):
    settings = ("views=2x16 + 1x8", "snapshot_every=2", "style=bss")
    run = train(tmp_path / "run", *settings, recipe="digits/swav")
    assert "What prototypes stand for" in report([run], out=tmp_path / "report.html").read_text()


def refusal(capsys, *words):
    assert main(["report", *map(str, words)]) == 2
    said = capsys.readouterr().err
    assert said.startswith("onestyle: error: ") and said.count("\n") == 1
    return said


def test_what_cannot_be_compared_is_refused(runs, hostile, tmp_path, capsys):
    out = ("--out", tmp_path / "report.html")
    assert "are of different data" in refusal(capsys, runs[0], hostile, *out)
    assert "the same recipe with the same seed" in refusal(capsys, runs[0], runs[0], *out)
    assert "is not a run" in refusal(capsys, tmp_path, *out)
    assert not (tmp_path / "report.html").exists()


def test_what_has_seen_the_target_bears_a_dagger(tmp_path):
    unseen = "--targets", "photo"
    pretrained(tmp_path / "a", *unseen)
    pretrained(tmp_path / "b", *unseen, uses_target="true")
    assert main(["probe", str(tmp_path / "b"), "--seeds", "1", "--set", "steps=5"]) == 0
    groups = read_groups([tmp_path / "a", tmp_path / "b"])
    assert [group.name for group in groups] == ["BSS", "BSS†"]
    top = answer(groups)
    assert "which it has never seen (but for †, which saw its images without their labels)" in top
    assert "†" not in answer(groups[:1])
    assert any(remark.startswith("†: learned") for remark in results_table(groups).remarks)
    check = Check("digits", 16, 0.0, 1e-4)
    seen, not_seen = (card(open_frozen(str(tmp_path / name)), "timm", "x", check) for name in "ba")
    assert "# b†" in seen and "seen without labels †" in seen and "held back" not in seen
    assert "†" not in not_seen and "never seen" in not_seen and "held back" in not_seen


def test_edited_predictions_are_refused(runs, tmp_path, capsys):
    run = shutil.copytree(runs[2], tmp_path / "run")
    file = run / "probe/predictions.safetensors"
    file.write_bytes(file.read_bytes()[:-1] + b"\x07")
    assert "it was changed" in refusal(capsys, run, "--out", tmp_path / "report.html")


def test_a_page_that_is_there_stays(runs, tmp_path, capsys):
    out = tmp_path / "report.html"
    out.write_text("mine")
    assert "--force overwrites it" in refusal(capsys, runs[0], "--out", out)
    assert "ends in .html" in refusal(capsys, runs[0], "--out", tmp_path / "report.txt")
    assert out.read_text() == "mine"
