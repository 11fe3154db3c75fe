"""Which pretrainings a table needs, and what is to be measured on each."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from onestyle.data.protocol import FRACTIONS
from onestyle.data.store import Store
from onestyle.names import instead
from onestyle.recipes import Recipe, changed, override, plain
from onestyle.stages.linear import probing_of
from onestyle.tables.layout import STYLES, Layout, Line, recipes_in

__all__ = [
    "Ask",
    "Job",
    "differences",
    "fingerprint",
    "lines_of",
    "pixels",
    "plan",
    "scratch",
    "targets_of",
]

# What changes no weight: runs that differ in it alone are the same.
_ASIDE = ("log_every", "monitor_every", "snapshot_every", "save_minutes")
EVALUATION = ("steps", "batch_size", "lr", "weight_decay")  # what a probe and a fine-tuning have
_OPTIONS = {"seed": "--seeds", "style": "--styles", "data": "--recipes", "method": "--methods"}


@dataclass(frozen=True)
class Ask:
    """What of a table is asked for; what is empty means all."""

    methods: tuple[str, ...] = ()
    styles: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    fractions: tuple[int, ...] = ()
    seeds: tuple[int, ...] = (0,)  # of pretraining
    n_probes: int | None = None  # seeds of the labels and the probe, 0..n - 1
    settings: tuple[str, ...] = ()  # FIELD=VALUE, for every recipe
    evaluation: tuple[str, ...] = ()  # FIELD=VALUE, for every probe and fine-tuning


@dataclass(frozen=True)
class Job:
    """One pretraining, and what is measured on it: the work behind some cells of a table. A method
    that learns from labels is trained as often as it is measured."""

    line: Line
    recipe: Recipe  # of "erm" that of simclr, whose network it takes untrained
    recipes: str
    sources: tuple[str, ...]
    targets: tuple[str, ...]
    probed: tuple[int, ...]  # fractions
    finetuned: tuple[int, ...]
    n_seeds: int  # of labels and probe, from 0 on
    settings: tuple[str, ...] = ()  # of the evaluations, where they are not the data set's own
    batch_size: int | None = None  # where the table varies it

    @property
    def pretrained(self) -> bool:
        return self.line.pretrained

    @property
    def has_recipe(self) -> bool:
        """Or it takes the network of another method's."""
        return self.recipe.method == self.line.method

    @cached_property
    def key(self) -> str:
        """The same for all that ends in the same weights."""
        tree = plain(self.recipe)
        if not self.has_recipe:
            how = self.recipe
            tree = scratch(how.backbone, how.view_size, how.backbone_options)
        return fingerprint(tree, self.sources, self.targets)

    @cached_property
    def protocol(self) -> dict[str, Any]:
        """What probes and fine-tuning are to have in common; a recipe of labels has its own."""
        how = self.recipe
        if self.pretrained or not self.has_recipe:
            how = changed(probing_of(self.recipe.data), self.settings)
        return {name: getattr(how, name) for name in EVALUATION}

    def folder(self, store: Store) -> str:
        """The name of a new run: what it is, and eight digits of what it is exactly."""
        pixels = str(store.manifest.get("pixels_sha256", store.size))
        exactly = hashlib.sha256(f"{self.key} {pixels}".encode()).hexdigest()[:8]
        parts = [self.recipes, self.line.name, "+".join(self.targets), exactly]
        if self.has_recipe:
            parts[2:2] = [self.line.style]
        if self.pretrained:
            parts[4:4] = [f"s{self.recipe.seed}"]
        return "-".join(parts)

    def __str__(self) -> str:
        seed = f", seed {self.recipe.seed}" if self.pretrained else ""
        size = f", N = {self.batch_size}" if self.batch_size else ""
        scope = f", colour per {self.line.scope}" if self.line.scope else ""
        style = f" {self.line.style}" if self.has_recipe else ""
        return f"{self.line.name}{style} -> {' '.join(self.targets)}{size}{scope}{seed}"


def fingerprint(recipe: dict[str, Any], sources: Iterable[str], targets: Iterable[str]) -> str:
    """Of all that decides the weights, apart from the store."""
    text = json.dumps([_decisive(recipe), sorted(sources), sorted(targets)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def scratch(backbone: str, size: int, options: Mapping[str, Any]) -> dict[str, Any]:
    """What stands for the recipe of a network that is not pretrained."""
    network = {"backbone": backbone, "backbone_options": dict(options)}
    return {"method": "erm", **network, "views": f"1x{size}"}


def _decisive(recipe: dict[str, Any]) -> dict[str, Any]:
    """A field that a saved recipe does not name, as it is newer than that, has its default."""
    return {k: v for k, v in {**_DEFAULTS, **recipe}.items() if k not in _ASIDE}


def differences(recipe: dict[str, Any], wanted: Recipe) -> list[str]:
    """What of a saved recipe is otherwise than wanted."""
    was, now = _decisive(recipe), _decisive(plain(wanted))
    return [
        f"{name} {was.get(name)!r}, not {now.get(name)!r}"
        for name in {**was, **now}
        if was.get(name) != now.get(name)
    ]


def pixels(recipe: Recipe) -> int:
    """Of all views that a pretraining sees."""
    views = sum(group.n * group.size**2 for group in recipe.plan().groups)
    return recipe.steps * recipe.accumulate * recipe.batch_size * views


_DEFAULTS = plain(Recipe(data="", method="simclr", steps=1))


def plan(layout: Layout, ask: Ask) -> list[Job]:
    """Row by row, target by target, seed by seed."""
    ask = _checked(layout, ask)
    combinations = [
        (sources, targets)
        for sources, targets in layout.dataset.combinations
        if not ask.targets or {*targets} & {*ask.targets}
    ]
    jobs = []
    for line in lines_of(layout, ask):
        for batch_size in layout.batch_sizes:
            recipe = _recipe(layout, line, batch_size, ask.settings)
            seeds = ask.seeds if line.pretrained else (0,)
            jobs += [
                _job(layout, ask, line, replace(recipe, seed=seed), pair, batch_size)
                for pair in combinations
                for seed in seeds
            ]
    return jobs


def _job(layout: Layout, ask: Ask, line: Line, recipe: Recipe, pair, batch_size) -> Job:
    whole = layout.finetuned if line.pretrained else FRACTIONS
    wanted = ask.fractions or layout.fractions
    finetuned = tuple(p for p in wanted if p in whole)
    # All fractions are probed together at hardly more than the price of one.
    probed = tuple(sorted({*FRACTIONS, *wanted})) if {*wanted} - {*finetuned} else ()
    sources, targets = pair
    return Job(
        line=line,
        recipe=recipe,
        recipes=layout.recipes,
        sources=sources,
        targets=targets,
        probed=probed,
        finetuned=finetuned,
        n_seeds=ask.n_probes or layout.n_probes,
        settings=ask.evaluation,
        batch_size=batch_size,
    )


def lines_of(layout: Layout, ask: Ask) -> list[Line]:
    """The rows that are ours; a method whose recipe has no style is asked for others by name."""
    lines = layout.lines or tuple(_all_lines(recipes_in(layout.recipes), ask.styles))
    return [
        line
        for line in lines
        if (not ask.methods or {line.name, line.method} & {*ask.methods})
        and (not ask.styles or line.style in ask.styles)
    ]


def _all_lines(recipes: dict[str, Recipe], styles: Sequence[str]) -> Iterable[Line]:
    yield Line("erm", "none")
    for name, recipe in recipes.items():
        own = "" if name == recipe.method else name
        for style in styles or (STYLES if recipe.style == "bss" else (recipe.style,)):
            if _takes(recipe, style):
                yield Line(recipe.method, style, recipe=own, uses_target=recipe.uses_target)


def _takes(recipe: Recipe, style: str) -> bool:
    """A method that refuses a style, as one that mixes styles by itself, has no row with it."""
    try:
        replace(recipe, style=style)
    except ValueError:
        return False
    return True


def _recipe(layout: Layout, line: Line, batch_size: int | None, settings: Sequence[str]) -> Recipe:
    recipes = recipes_in(layout.recipes)
    recipe = override(recipes[line.name if line.name in recipes else "simclr"], settings)
    scope = line.scope if line.scope != ("batch" if line.style == "bss" else "image") else None
    recipe = replace(recipe, style=line.style, colour_scope=scope or recipe.colour_scope)
    if batch_size is None:
        return recipe
    lr = recipe.lr * batch_size / recipe.batch_size  # the linear rule; the same number of steps
    return replace(recipe, batch_size=batch_size, lr=lr)


def _checked(layout: Layout, ask: Ask) -> Ask:
    """The ask, once every name in it is known to be one of this table's."""
    lines = lines_of(layout, Ask())
    methods = {name: None for line in lines for name in (line.method, line.name)}
    if layout.paper:
        methods |= {row.method: None for row in layout.paper.rows}
    _known("method", ask.methods, methods)
    _known("style", ask.styles, STYLES)
    _known("target", ask.targets, targets_of(layout))
    _known("fraction", ask.fractions, FRACTIONS)
    for setting in ask.settings:
        name = setting.partition("=")[0].strip()
        if name in _OPTIONS:
            raise ValueError(f"--set {setting}: that is what {_OPTIONS[name]} is for")
        if name == "uses_target":
            raise ValueError(f"--set {setting}: rows that use the target have recipes of their own")
        if name == "batch_size" and layout.over == "batch sizes":
            raise ValueError(f"--set {setting}: the table varies it")
    for setting in ask.evaluation:
        _known("evaluation setting", [setting.partition("=")[0].strip()], EVALUATION)
    return ask


def targets_of(layout: Layout) -> tuple[str, ...]:
    """The targets that a table shows, in the paper's order."""
    there = tuple(name for _, targets in layout.dataset.combinations for name in targets)
    printed = layout.paper.columns if layout.paper else ()
    return layout.targets or tuple(sorted(there, key=lambda name: _place(name, printed)))


def _place(name: str, names: Sequence[str]) -> int:
    return names.index(name) if name in names else len(names)


def _known(what: str, names: Iterable, legal: Iterable) -> None:
    for name in names:
        if name not in (legal := tuple(legal)):
            hint = instead(str(name), map(str, legal), f"its {what}s")
            raise ValueError(f"the table has no {what} {name!r}{hint}")
