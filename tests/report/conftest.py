"""Real runs, small: a few steps on the embedded digits, probed."""

import os
from pathlib import Path

import pytest

from onestyle.recipes import override, recipe_named
from onestyle.report.write import report
from onestyle.stages.pretrain import pretrain
from onestyle.stages.probe import probe
from tests.report.browser import browser, find

SMALL = ("views=2x16", "batch_size=16", "steps=4", "log_every=1", "monitor_every=2")


def train(folder, *settings, recipe="digits/simclr", targets=("photo",), store=None):
    """A finished run in `folder`."""
    changed = override(recipe_named(recipe), [*SMALL, "precision=32-true", *settings])
    return pretrain(changed, store, targets=targets, out=folder).path


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """FA with two seeds and BSS with one, each probed with 10% and all labels."""
    folder, paths = tmp_path_factory.mktemp("runs"), []
    for name, style, seed in (("fa0", "fa", 0), ("fa1", "fa", 1), ("bss0", "bss", 0)):
        paths.append(train(folder / name, f"style={style}", f"seed={seed}"))
        probe(str(paths[-1]), percents=(10, 100), seeds=2, settings=["steps=20"])
    return paths


@pytest.fixture(scope="session")
def page(runs, tmp_path_factory):
    return report(runs, out=tmp_path_factory.mktemp("page") / "report.html")


@pytest.fixture(scope="session")
def tab(tmp_path_factory):
    """A tab of a real Chromium."""
    program = find()
    if program is None:
        pytest.skip("needs Chromium: `make browser` installs Debian's; or set ONESTYLE_CHROMIUM")
    with browser(program, tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture(scope="session")
def screenshots(tmp_path_factory):
    """Where pictures of the page are kept: the folder that ONESTYLE_SCREENSHOTS names, or one of
    pytest's."""
    named = os.environ.get("ONESTYLE_SCREENSHOTS")
    folder = Path(named) if named else tmp_path_factory.mktemp("screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    yield folder
    print(f"\nscreenshots of the report: {folder}")
