"""docs/results.md and the README's table, from the runs that are kept here. `make results` runs it.

A section is a command, `onestyle table`, and what it prints; what there are no runs of yet is left
out. Nothing is typed in by hand.
"""

import contextlib
import io
import shlex
from pathlib import Path

from onestyle.cli import main

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
BEGIN, END = "<!-- results -->", "<!-- /results -->"

ABOUT = """# Results

Written by `make results` from the small files in [results](../results): recipes, results, curves
and openings of targets of every run, without weights. The command above a table makes it, with
`--run` in the place of `--no-trial` also its runs. How the recipes were chosen stands in
[decisions](decisions.md)."""

HOW = "--targets photo --runs results/digits --no-trial"
DEMO = f"digits --methods simclr --seeds 0 1 2 3 4 {HOW}"
SECTIONS = {
    "The demonstration, with five seeds": DEMO,
    "Styles and colours on the digits": f"ablation --recipes digits --seeds 0 1 2 {HOW}",
    "BSS with colours of each image": f"digits --methods simclr --styles bss --seeds 0 1 2 "
    f"--set colour_scope=image {HOW}",
}


def section(title: str, words: str) -> str:
    return f"## {title}\n\n```sh\nonestyle table {words}\n```\n\n{table(words)}"


def table(words: str) -> str:
    """What the command prints, run at the root of the repository."""
    here = words.replace("--runs results", f"--runs {shlex.quote(str(HERE))}")
    printed, said = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(said):
        code = main(["table", *shlex.split(here)])
    if code:
        raise SystemExit(f"onestyle table {words}: {said.getvalue()}")
    return printed.getvalue().strip()


def kept(words: str) -> bool:
    arguments = shlex.split(words)
    return (ROOT / arguments[arguments.index("--runs") + 1]).is_dir()


def page() -> str:
    there = {title: words for title, words in SECTIONS.items() if kept(words)}
    return "\n\n".join([ABOUT, *(section(*pair) for pair in there.items())]) + "\n"


def readme(text: str) -> str:
    """The README with the demonstration's table of 10% of the labels in its place."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table(DEMO + ' --fractions .1')}\n\n{END}{after}"


if __name__ == "__main__":
    front = ROOT / "README.md"
    front.write_text(readme(front.read_text(encoding="utf-8")), encoding="utf-8")
    (ROOT / "docs" / "results.md").write_text(page(), encoding="utf-8")
