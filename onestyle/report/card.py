"""The card of an exported backbone: what it is, how to load it, how it was made, what it can do.

It is Markdown for whoever gets the folder: names are escaped, paths are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from onestyle.progress import clock
from onestyle.recipes import SEEN
from onestyle.report.escape import markdown

if TYPE_CHECKING:
    from onestyle.stages.frozen import Frozen

__all__ = ["Check", "card"]

TAGS = ["domain-generalization", "self-supervised-learning", "onestyle"]


class Check(NamedTuple):
    """Features of n images of a store differ by at most `difference` of the largest."""

    store: str
    n: int
    difference: float
    tolerance: float

    def __str__(self) -> str:
        return (
            f"on {self.n} images of {self.store} the features differ from onestyle's by "
            f"{self.difference:.1e} of the largest ({self.tolerance:.0e} is allowed)"
        )


def card(frozen: Frozen, library: str, lines: str, check: Check) -> str:
    """`lines` load the network with the library."""
    assert frozen.run is not None
    run, result = frozen.run, frozen.run.read_result()
    head = {"library_name": library, "pipeline_tag": "image-feature-extraction", "tags": TAGS}
    recipe = {name: value for name, value in run.config["recipe"].items() if name != "seed"}
    blocks = [
        f"---\n{yaml.safe_dump(head, sort_keys=False)}---",
        f"# {markdown(run.path.resolve().name)}{SEEN if run.recipe.uses_target else ''}",
        _what(frozen, result),
        f"```python\n{lines}```",
        f"These lines, run in this folder, were checked: {markdown(str(check))}.",
        "## Data",
        _table(_data(result["data"], uses_target=run.recipe.uses_target)),
        "## Budget",
        _table(_budget(result)),
        "## Recipe",
        f"```yaml\n{yaml.safe_dump(without_paths(recipe), sort_keys=False, width=10**6)}```",
        *_results(frozen),
    ]
    return "\n\n".join(blocks) + "\n"


def _what(frozen: Frozen, result: Mapping[str, Any]) -> str:
    recipe, data = result["recipe"], result["data"]
    style = {"bss": "Batch Styles Standardization", "fa": "Fourier augmentation"}
    how = style.get(recipe["style"], "no style augmentation")
    begun = {"random": "random weights", "timm": "timm's pretrained weights"}
    begun = begun.get(recipe["init"], "weights of a file")
    targets = _names(data["targets"], "no domain")
    held = f"images of {targets} were held back."
    if frozen.run and frozen.run.recipe.uses_target:
        held = f"these were images of {targets}, without their labels ({SEEN})."
    return (
        f"{markdown(frozen.timm)} of timm, {result['parameters'] / 1e6:.1f} million parameters: "
        f"{frozen.width} features of an image of {frozen.size} x {frozen.size} pixels, no "
        f"classifier. Pretrained without labels from {begun} by {markdown(recipe['method'])} with "
        f"{how} on {markdown(data['store'])}; {held}"
    )


def _data(data: Mapping[str, Any], *, uses_target: bool) -> list[tuple[str, str]]:
    targets = f"seen without labels {SEEN}" if uses_target else "never seen"
    return [
        ("store", f"{data['store']}, {data['n']:,} images of {data['size']} px"),
        ("sources", ", ".join(data["sources"]) or "not named"),
        (targets, ", ".join(data["targets"]) or "none"),
        ("split", data["split"]),
        *([("pixels (SHA-256)", data["pixels_sha256"])] if "pixels_sha256" in data else []),
    ]


def _budget(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    made = result["made_with"]
    versions = (f"{name} {version}" for name, version in made.items() if name != "commit")
    return [
        ("steps", f"{result['recipe']['steps']:,} of {result['recipe']['batch_size']:,} images"),
        ("seen", f"{result['images_seen']:,} images in {result['views_seen']:,} views"),
        ("time", f"{clock(result['seconds'])} on {result['devices']}"),
        ("seed", str(result["seeds"]["pretraining"])),
        ("selector", result["selector"]),
        ("config", result["config_hash"]),
        ("made with", ", ".join(versions)),
        *([("commit", made["commit"])] if made.get("commit") else []),
    ]


def without_paths(tree: Any) -> Any:
    """Of a path, the name of the file."""
    if isinstance(tree, dict):
        return {key: without_paths(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [without_paths(value) for value in tree]
    return re.split(r"[/\\]", tree)[-1] if isinstance(tree, str) else tree


def _results(frozen: Frozen) -> Iterable[str]:
    """What evaluations in the run's folder say; one that was edited is refused."""
    assert frozen.run is not None
    for stage in ("probe", "finetune"):
        folder = frozen.run.path / stage
        if (folder / "result.json").is_file():
            from onestyle.stages.evaluation import read_evaluation

            yield from _result(stage, read_evaluation(folder).result)


def _result(stage: str, result: Mapping[str, Any]) -> Iterable[str]:
    summary: dict[str, dict[str, Any]] = result["summary"]
    columns = list(dict.fromkeys(name for row in summary.values() for name in row))
    rows = [["labels", *columns], ["---", *["---:"] * len(columns)]]
    for percent, row in summary.items():
        rows.append([f"{percent}%", *(_accuracy(row.get(name)) for name in columns)])
    head, rule, *body = rows
    yield f"## Results: {stage}"
    yield _rows([map(markdown, head), rule, *(map(markdown, row) for row in body)])
    chance = (
        f"{name} {of['majority']:.1f} by its most common class, {of['uniform']:.1f} by guessing"
        for name, of in result["chance"].items()
    )
    missing = (f"{name} has no {', '.join(classes)}" for name, classes in result["missing"].items())
    varied = ", ".join(result["varied"]) or "nothing"
    yield markdown(
        f"Accuracy in percent, mean ± std (n); {varied} varied; selector: {result['selector']}. "
        f"Chance: {'; '.join(chance) or 'no target'}. {'; '.join(missing)}"
    )


def _accuracy(of: Mapping[str, Any] | None) -> str:
    if of is None:
        return ""
    spread = f" ± {of['std']:.1f}" if of["n"] > 1 else ""
    return f"{of['mean']:.1f}{spread} ({of['n']})"


def _names(names: Iterable[str], none: str) -> str:
    return ", ".join(map(markdown, names)) or none


def _table(pairs: Iterable[tuple[str, str]]) -> str:
    return _rows([["", ""], ["---", "---"], *(map(markdown, pair) for pair in pairs)])


def _rows(rows: Iterable[Iterable[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
