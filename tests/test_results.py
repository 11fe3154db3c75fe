"""The page of results says what the kept runs say, and so does the README."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
spec = importlib.util.spec_from_file_location("write", ROOT / "results" / "write.py")
assert spec and spec.loader
write = importlib.util.module_from_spec(spec)
spec.loader.exec_module(write)


def test_pages_are_those_that_make_results_writes():
    assert (ROOT / "docs" / "results.md").read_text(encoding="utf-8") == write.page()
    front = (ROOT / "README.md").read_text(encoding="utf-8")
    assert front == write.readme(front)


def test_kept_runs_hold_numbers_alone():
    """No weights, no images, no paths of a machine."""
    kept = {file.suffix for file in (ROOT / "results").rglob("*") if file.is_file()}
    assert kept <= {".md", ".py", ".yaml", ".json", ".jsonl", ".png", ".pyc"}
    assert sum(file.stat().st_size for file in (ROOT / "results").rglob("*.*")) < 20e6
