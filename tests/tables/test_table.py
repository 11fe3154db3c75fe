"""onestyle table: cells are run, interrupted, shared and collected as a user would."""

import json
import os
import signal
import time

import pytest
from PIL import Image

from onestyle.cli import main
from onestyle.data.store import open_store
from onestyle.run import lock, read_rows
from onestyle.tables.collect import collect
from onestyle.tables.layout import TABLES
from onestyle.tables.plan import Ask, plan
from onestyle.tables.sheet import make_table
from onestyle.tables.sweep import draw
from tests.processes import start
from tests.tables.made import made

SMALL = {"views": "2x16", "batch_size": 16, "steps": 4, "precision": "32-true", "monitor_every": 0}


def command(runs, *words, name="digits", **settings):
    pairs = [f"{key}={value}" for key, value in (SMALL | settings).items()]
    settings = [word for pair in pairs for word in ("--set", pair)]
    rows = ["--methods", "simclr", "--styles", "fa", "bss", "--targets", "photo"]
    few = ["--fractions", ".05", "1", "--probe-seeds", "2", "--probe-set", "steps=5"]
    return ["table", name, *rows, *few, "--runs", str(runs), "--no-trial", *settings, *words]


def harvest_of(runs, **settings):
    """The jobs of `command`, and what of them is there."""
    pairs = tuple(f"{key}={value}" for key, value in (SMALL | settings).items())
    rows = {"methods": ("simclr",), "styles": ("fa", "bss"), "targets": ("photo",)}
    few = {"fractions": (5, 100), "n_probes": 2, "evaluation": ("steps=5",)}
    jobs = plan(TABLES["digits"], Ask(**rows, **few, settings=pairs))
    return jobs, collect(runs, jobs)


def test_what_is_missing_is_run_and_only_that(tmp_path, capsys):
    assert main(command(tmp_path)) == 0
    out, said = capsys.readouterr()
    assert "2 cells" in said and "2 not begun" in said and out.count("not run") == 4
    assert not any(tmp_path.iterdir())
    assert main(command(tmp_path, "--run")) == 0
    out, said = capsys.readouterr()
    assert "cell 2 of 2 done: simclr bss -> photo, seed 0: pretrain, probe" in said
    assert "not run" not in out and out.count("(2)") == 4
    before = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*") if file.is_file()}
    assert main(command(tmp_path, "--run")) == 0
    assert {file: file.stat().st_mtime_ns for file in before} == before
    assert "cell " not in capsys.readouterr().err

    assert main(command(tmp_path, "--run", "--probe-seeds", "3")) == 0  # the heads there stay
    out, said = capsys.readouterr()
    assert "cell 1 of 2 done: simclr fa -> photo, seed 0: probe, " in said and "(3)" in out


def test_the_table_is_what_the_runs_say(tmp_path, capsys):
    out = tmp_path / "table.csv"
    assert main(command(tmp_path / "runs", "--run", "--out", str(out))) == 0
    jobs, harvest = harvest_of(tmp_path / "runs")
    lines = [line.split(",") for line in out.read_text().splitlines()[1:]]
    for job in jobs:
        result = harvest.of(job).evaluated["probe"].result
        for line in (line for line in lines if line[4] == job.line.style):
            summary = result["summary"][line[1].partition("%")[0]]["photo"]
            assert line[6:9] == [f"{summary['mean']:.4f}", f"{summary['std']:.4f}", "2"]
    assert main(command(tmp_path / "runs", "--out", str(out))) == 2
    assert f"{out} exists; --force overwrites it" in capsys.readouterr().err


def begun(runs, process, step=3):
    """The folder of the first run that has come so far."""
    for _ in range(6000):
        for metrics in runs.glob("*/metrics.jsonl"):
            if any(row["step"] >= step for row in read_rows(metrics)):
                return metrics.parent
        assert process.is_alive(), "it ended by itself"
        time.sleep(0.01)
    raise TimeoutError(runs)


def test_a_signal_stops_the_table_and_the_same_command_goes_on(tmp_path):
    long = {"steps": 120, "log_every": 1}
    process = start(main, command(tmp_path, "--run", **long))
    folder = begun(tmp_path, process)
    os.kill(process.pid, signal.SIGTERM)
    assert process.wait() == 128 + signal.SIGTERM
    jobs, harvest = harvest_of(tmp_path, **long)
    assert [harvest.lacks(job) for job in jobs] == [["pretrain", "probe"]] * 2
    assert harvest.of(jobs[0]).folder == folder and harvest.of(jobs[1]) is None
    assert start(main, command(tmp_path, "--run", **long)).wait() == 0
    jobs, harvest = harvest_of(tmp_path, **long)
    assert not harvest.missing(jobs)
    steps = [row["step"] for row in read_rows(folder / "metrics.jsonl")]
    assert steps == list(range(1, 121))


def test_two_at_the_same_table_share_its_cells(tmp_path):
    long = {"steps": 60, "log_every": 1}
    first = start(main, command(tmp_path, "--run", **long))
    begun(tmp_path, first)
    second = start(main, command(tmp_path, "--run", **long))
    assert first.wait() == second.wait() == 0
    jobs, harvest = harvest_of(tmp_path, **long)
    assert not harvest.missing(jobs) and len(list(tmp_path.glob("digits-*"))) == 2
    for job in jobs:
        folder = harvest.of(job).folder
        assert [row["step"] for row in read_rows(folder / "metrics.jsonl")] == list(range(1, 61))
        assert len(read_rows(folder / "target_openings.jsonl")) == 1


def test_what_another_is_at_is_left_to_it(tmp_path, capsys):
    job = harvest_of(tmp_path)[0][0]
    desk = tmp_path / ".cells" / job.folder(open_store("digits"))
    desk.mkdir(parents=True)
    with lock(desk):  # also between the stages of a cell
        assert main(command(tmp_path, "--run", "--styles", "fa")) == 0
        me = f"{os.uname().nodename} process {os.getpid()}"
        assert f"in use: simclr fa -> photo, seed 0: {desk} is in use by {me}" in (
            capsys.readouterr().err
        )
    assert not list(tmp_path.glob("digits-*"))


def test_a_cell_that_fails_is_told_and_the_others_go_on(tmp_path, capsys):
    assert main(command(tmp_path, "--run", "--styles", "fa")) == 0
    (folder,) = tmp_path.glob("digits-*")
    path = folder / "probe/predictions.safetensors"
    path.write_bytes(path.read_bytes()[:-2] + b"\1\0")
    assert main(command(tmp_path, "--run")) == 2
    out, said = capsys.readouterr()
    assert "cell 1 of 2 failed: simclr fa -> photo, seed 0: " in said and "it was changed" in said
    assert "cell 2 of 2 done: simclr bss" in said
    assert out.count("not run") == 2


def test_erm_and_fine_tuning_are_cells_too(tmp_path, capsys):
    words = ["table", "digits", "--methods", "erm", "--targets", "photo", "--runs", str(tmp_path)]
    words += ["--fractions", ".05", "1", "--probe-seeds", "1", "--no-trial", "--run"]
    words += ["--probe-set", "steps=2", "--probe-set", "batch_size=8"]
    assert main(words) == 0
    out, said = capsys.readouterr()
    assert "cell 1 of 1 done: erm -> photo: finetune" in said and out.count("(1)") == 2
    (folder,) = (path for path in tmp_path.iterdir() if path.name.startswith("digits-erm-photo"))
    parts = [folder / f"p{percent}-s0/result.json" for percent in (5, 100)]
    before = [part.stat().st_mtime_ns for part in parts]
    assert main([*words, "--probe-seeds", "2"]) == 0  # what is there already stays
    assert [part.stat().st_mtime_ns for part in parts] == before
    out, said = capsys.readouterr()
    assert out.count("(2)") == 2 and "of no cell" not in said
    assert "what varies is labels, finetuning" in out


def test_fixmatch_is_a_cell_and_is_found_again(tmp_path, capsys):
    words = ["table", "digits", "--methods", "fixmatch", "--targets", "photo", "--no-trial"]
    words += ["--runs", str(tmp_path), "--fractions", ".05", "1", "--probe-seeds", "1", "--run"]
    settings = ["steps=2", "batch_size=8", "labelled_batch_size=4", "views=1x16 + 1x16"]
    settings.append("precision=32-true")
    words += [word for setting in settings for word in ("--set", setting)]
    assert main(words) == 0
    out, said = capsys.readouterr()
    assert "cell 1 of 1 done: fixmatch none -> photo: finetune" in said and out.count("(1)") == 2
    (folder,) = (path for path in tmp_path.iterdir() if path.name.startswith("digits-fixmatch-"))
    parts = [folder / f"p{percent}-s0/result.json" for percent in (5, 100)]
    before = [part.stat().st_mtime_ns for part in parts]
    assert main([*words, "--probe-seeds", "2"]) == 0  # what is there already stays
    assert [part.stat().st_mtime_ns for part in parts] == before
    assert capsys.readouterr().out.count("(2)") == 2


@pytest.mark.slow
def test_several_at_once_each_in_its_process(tmp_path):
    long = {"steps": 200, "log_every": 1}
    assert start(main, command(tmp_path / "whole", "--run", "--jobs", "2")).wait() == 0
    jobs, harvest = harvest_of(tmp_path / "whole")
    assert not harvest.missing(jobs)
    process = start(main, command(tmp_path / "cut", "--run", "--jobs", "2", **long))
    begun(tmp_path / "cut", process)
    os.kill(process.pid, signal.SIGTERM)
    assert process.wait() == 128 + signal.SIGTERM
    assert start(main, command(tmp_path / "cut", "--run", "--jobs", "2", **long)).wait() == 0
    jobs, harvest = harvest_of(tmp_path / "cut", **long)
    for job in jobs:
        rows = read_rows(harvest.of(job).folder / "metrics.jsonl")
        assert [row["step"] for row in rows] == list(range(1, 201))


@pytest.mark.slow
def test_a_cluster_takes_a_job_for_each_cell(tmp_path, capsys):
    words = ("--run", "--slurm", "cluster=local", "timeout_min=5")
    assert main(command(tmp_path / "runs", *words)) == 0
    assert capsys.readouterr().err.count("done: simclr") == 2
    jobs, harvest = harvest_of(tmp_path / "runs")
    assert not harvest.missing(jobs)


def test_a_run_of_another_is_no_cell_of_the_table(tmp_path, capsys):
    assert main(command(tmp_path, "--run", "--styles", "fa")) == 0
    assert main(command(tmp_path, lr=0.5)) == 0
    out, said = capsys.readouterr()
    assert "lr 0.0014, not 0.5" in said.split("of no cell of this table: ")[1]
    assert out.count("not run") == 4


def test_another_store_gets_runs_of_its_own(tmp_path, capsys):
    rows = ["--styles", "fa", "--run"]
    assert main(command(tmp_path, *rows)) == 0
    assert main(command(tmp_path, *rows, "--data", "digits:24")) == 0
    said = capsys.readouterr().err
    assert "on other images than those of digits" in said
    assert "cell 1 of 1 done: simclr fa -> photo, seed 0: pretrain, probe" in said.splitlines()[-1]
    assert len(list(tmp_path.glob("digits-*"))) == 2
    assert main([*command(tmp_path, *rows), "--data", "digits:24"]) == 0
    assert "1 done" in capsys.readouterr().err


def test_the_sweep_is_drawn(tmp_path, capsys):
    sizes = TABLES["batch-size"].with_recipes("digits")
    jobs = plan(sizes, Ask(styles=("fa", "bss"), targets=("photo",)))
    for job in jobs:
        made(tmp_path / "runs", job, lambda p, s, t, n=job.batch_size: n // 8 + s)
    words = ["--styles", "fa", "bss", "--targets", "photo", "--fractions", "1", "--no-trial"]
    words += ["--recipes", "digits", "--runs", str(tmp_path / "runs")]
    picture = tmp_path / "sweep.png"
    assert main(["table", "batch-size", *words, "--picture", str(picture)]) == 0
    assert "N = 512" in capsys.readouterr().out
    with Image.open(picture) as image:
        assert image.width == 900
    ask = Ask(styles=("fa", "bss"), targets=("photo",), fractions=(100,))
    figure = draw(make_table(sizes, ask, jobs, collect(tmp_path / "runs", jobs)))
    curves = [line for axes in figure.axes[1:] for line in axes.lines if len(line.get_xdata()) == 5]
    assert [list(line.get_xdata()) for line in curves] == [[32, 64, 128, 256, 512]] * 2
    assert [list(line.get_ydata()) for line in curves] == [[5, 9, 17, 33, 65]] * 2


WRONG = {
    "there is no table 'digit'; did you mean digits": ["digit"],
    "the table has no target 'foto'; did you mean photo": ["digits", "--targets", "foto"],
    "the table has no method 'simcrl'; did you mean simclr": ["digits", "--methods", "simcrl"],
    "the table has no style 'plain'": ["digits", "--styles", "plain"],
    "the table has no fraction 7": ["digits", "--fractions", ".07"],
    "there are no recipes 'large'": ["digits", "--recipes", "large"],
    "the table pacs is of pacs, the recipes digits of digits": ["pacs", "--recipes", "digits"],
    "--set seed=3: that is what --seeds is for": ["digits", "--set", "seed=3"],
    "there is no field 'stepps'; did you mean steps": ["digits", "--set", "stepps=3"],
    "rows that use the target have recipes of their own": [
        "digits",
        "--set",
        "uses_target=true",
    ],
    "the table varies it": ["batch-size", "--set", "batch_size=3"],
    "no evaluation setting 'warmup'": ["digits", "--probe-set", "warmup=1"],
    "digits is a store of digits, the table is of pacs": ["pacs", "--data", "digits"],
    "--data must name a store of pacs": ["pacs", "--run"],
    "--picture is of batch-size, not of digits": ["digits", "--picture", "x.png"],
    "x.doc: its ending must be one of md, tex, csv, html": ["digits", "--out", "x.doc"],
    "there is no SLURM here": ["digits", "--run", "--slurm"],
    "--slurm takes KEY=VALUE": ["digits", "--run", "--slurm", "cluster"],
    "no row of digits": ["digits", "--methods", "erm", "--styles", "bss"],
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_words_are_refused_before_any_work(message, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "")  # no sbatch
    assert main(["table", *WRONG[message], *(["--no-trial"])]) == 2
    said = capsys.readouterr().err
    assert message in said.splitlines()[-1], said
    assert not any(tmp_path.iterdir())


def test_broken_folders_are_named_and_the_rest_is_shown(tmp_path, capsys):
    assert main(command(tmp_path, "--run")) == 0
    fa, bss = sorted(tmp_path.glob("digits-*"), key=lambda path: "bss" in path.name)
    result = json.loads((fa / "result.json").read_text())
    (fa / "result.json").write_text(json.dumps(result | {"format": 99}))
    odd = tmp_path / "odd"
    odd.mkdir()
    (odd / "recipe.yaml").write_text("recipe: [")
    capsys.readouterr()
    assert main(command(tmp_path)) == 2
    out, said = capsys.readouterr()
    assert f"{fa / 'result.json'} is of format 99; this version reads 1" in said
    assert f"{odd / 'recipe.yaml'} cannot be read" in said
    assert out.count("not run") == 2 and "(2)" in out

    (fa / "result.json").write_text(json.dumps(result))
    (odd / "recipe.yaml").unlink()
    odd.rmdir()
    value = json.loads((bss / "probe/result.json").read_text())
    value["values"][0]["targets"]["photo"]["accuracy"] = 99.0
    (bss / "probe/result.json").write_text(json.dumps(value))
    assert main(command(tmp_path)) == 2
    assert "does not say what its predictions say" in capsys.readouterr().err
    (bss / "probe/result.json").write_text(json.dumps({**value, "values": []}))
    assert main(command(tmp_path)) == 2
    assert f"{bss / 'probe/result.json'} does not say" in capsys.readouterr().err
    del result["devices"]
    (fa / "result.json").write_text(json.dumps(result))
    assert main(command(tmp_path)) == 2
    said = capsys.readouterr().err
    assert f"{fa / 'result.json'} says nothing of devices: it was changed" in said
    (bss / "probe").rename(bss / "moved")
    (fa / "probe").rename(bss / "probe")
    assert main(command(tmp_path)) == 2
    assert f"{bss / 'probe'} is of another run than {bss}" in capsys.readouterr().err


def test_evaluations_by_another_protocol_are_not_mixed_in(tmp_path, capsys):
    assert main(command(tmp_path, "--run", "--styles", "fa")) == 0
    assert main([*command(tmp_path, "--styles", "fa"), "--probe-set", "steps=6"]) == 2
    out, said = capsys.readouterr()
    assert "was made with steps 5, not 6: --probe-set asks for that" in said
    assert "not run" in out
