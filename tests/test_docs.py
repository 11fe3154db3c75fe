"""Every snippet and command of the documentation runs."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from onestyle.cli import main
from tests.stages.runs import pretrained

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def fenced(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


def commands():
    """Lines of sh blocks and of indented blocks that begin with a program of ours."""
    for page in PAGES:
        indented = re.findall(
            r"^    ((?:make|\.venv/|python |onestyle ).*)", page.read_text(), re.M
        )
        for line in "\n".join(fenced(page, "sh") + indented).splitlines():
            command = re.sub(r"\s+#.*", "", line)
            long = ("benchmarks/", "runs/", "leave-one-out", "pretrain digits")
            slow = any(word in command for word in long)
            marks = [pytest.mark.slow] if slow else []
            yield pytest.param(command, id=f"{page.stem}: {command}", marks=marks)


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """What the pages take for granted: runs, here short ones."""
    path, unseen = tmp_path_factory.mktemp("pages") / "runs", ("--targets", "photo")
    pretrained(path / "digits-simclr-bss-photo-s0", *unseen, views="2x32")
    for style in ("fa", "none"):
        pretrained(path / f"digits-simclr-{style}-photo-s0", *unseen, style=style)
    for style in ("fa", "bss"):
        options = {"recipe": "digits/swav", "style": style, "snapshot_every": 1}
        pretrained(path / f"digits-swav-{style}-photo-s0", *unseen, **options)
    probe = ["probe", str(path / "digits-swav-bss-photo-s0"), "--seeds", "2"]
    assert main([*probe, "--set", "steps=10"]) == 0
    return path


@pytest.mark.parametrize("page", [p for p in PAGES if fenced(p, "python")], ids=lambda p: p.stem)
def test_snippets(page, tmp_path, monkeypatch, runs):
    """One after the other, as a reader would type them."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(runs, "runs")
    scope = {}
    for snippet in fenced(page, "python"):
        exec(compile(snippet, str(page), "exec"), scope)
    assert scope.keys() > {"__builtins__"}


@pytest.mark.parametrize("command", list(commands()))
def test_commands(command, tmp_path, runs):
    """`make` only says what it would do: these are the commands that run this test."""
    if command.startswith("make "):
        subprocess.run(["make", "-n", *command.split()[1:]], cwd=ROOT, check=True)
        return
    if "benchmarks/" in command:
        command += " --rounds 1"
    for name in ("benchmarks", "examples", "results", "tests", "pyproject.toml"):
        (tmp_path / name).symlink_to(ROOT / name)
    for name in ("photos/a.png", "photos/b.png", "scans/17.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        Image.fromarray(np.random.default_rng(0).integers(0, 255, (40, 40, 3), np.uint8)).save(
            tmp_path / name
        )
    binaries = Path(sys.executable).parent
    if "runs/" in command:
        shutil.copytree(runs, tmp_path / "runs")
    command = command.replace(".venv/bin/", f"{binaries}/")
    environment = os.environ | {"PATH": f"{binaries}:{os.environ['PATH']}"}
    subprocess.run(["bash", "-ec", command], cwd=tmp_path, env=environment, check=True)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
        assert target.startswith("https://") or (page.parent / target).exists(), target
