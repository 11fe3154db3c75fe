"""The tables that are known by name: their data, rows, columns and protocol.

A table over targets has a block for each fraction of the labels and a column for each target; one
over fractions or batch sizes has the mean over the targets in each cell.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from onestyle.data.datasets import DATASETS, Dataset
from onestyle.data.store import Store, open_store
from onestyle.methods import method_named
from onestyle.names import instead
from onestyle.recipes import RECIPES, Recipe
from onestyle.recipes.paper import PAPER, PaperTable

__all__ = [
    "STYLES",
    "TABLES",
    "Layout",
    "Line",
    "default_data",
    "layout_named",
    "open_data",
    "recipes_in",
]

STYLES = ("none", "fa", "bss")


@dataclass(frozen=True)
class Line:
    """A row: a method with a style; `scope` is that of its colours, None the style's own. `recipe`
    is the name of its recipe, where that is not the method's."""

    method: str  # "erm", which has no recipe: the network of simclr's on the labelled images alone
    style: str
    scope: Literal["batch", "image"] | None = None
    recipe: str = ""
    uses_target: bool = False

    @property
    def name(self) -> str:
        """What it is asked for by."""
        return self.recipe or self.method

    @property
    def pretrained(self) -> bool:
        """What learns from labels is trained anew for each fraction of them."""
        return "label" not in method_named(self.method).needs


@dataclass(frozen=True)
class Layout:
    name: str
    title: str
    recipes: str  # the folder of recipes/ that its pretrainings are of
    paper: PaperTable | None = None
    lines: tuple[Line, ...] = ()  # (): every method of `recipes`, with every style that it has
    over: Literal["targets", "fractions", "batch sizes"] = "targets"
    targets: tuple[str, ...] = ()  # that are shown; (): all
    fractions: tuple[int, ...] = (1, 5, 10, 100)  # of the labels, in percent
    finetuned: tuple[int, ...] = ()  # fractions at which the whole network is trained
    batch_sizes: tuple[int | None, ...] = (None,)  # None: the recipe's
    n_probes: int = 3  # runs of each evaluation
    summaries: tuple[str, ...] = ("average",)  # columns behind the targets

    @property
    def dataset(self) -> Dataset:
        return DATASETS[recipes_in(self.recipes)["simclr"].data]

    def with_recipes(self, folder: str) -> Layout:
        """The same table from other recipes, be it of other data where its rows are a study."""
        data = recipes_in(folder)["simclr"].data
        if data == self.dataset.name:
            return replace(self, recipes=folder)
        if self.over == "targets":
            raise ValueError(
                f"the table {self.name} is of {self.dataset.name}, the recipes {folder} of {data}"
            )
        title = f"{self.title}, on {data}"
        return replace(self, recipes=folder, title=title, paper=None, targets=(), n_probes=3)


def default_data(layout: Layout) -> str | None:
    """The name of a store that needs not be packed."""
    return "digits" if layout.dataset.name == "digits" else None


def open_data(layout: Layout, name: str) -> Store:
    """A store, which must be one of the table's data set."""
    store, wanted = open_store(name), layout.dataset
    domains, classes = store.table.domains, store.table.classes
    if store.name != wanted.name:
        raise ValueError(
            f"{name} is a store of {store.name}, the table is of {wanted.name}; "
            f"onestyle data pack SOURCE STORE --as {wanted.name} makes one"
        )
    missing = [one for one in wanted.domains if one not in domains]
    missing += [one for one in wanted.classes if one not in classes]
    if missing:
        raise ValueError(f"{name} has no {', '.join(missing[:4])}: it is not all of {wanted.name}")
    return store


def recipes_in(folder: str) -> dict[str, Recipe]:
    """{name: recipe} of a folder of recipes; the name is the method, or begins with it."""
    found = {
        name.partition("/")[2]: recipe
        for name, recipe in RECIPES.items()
        if name.partition("/")[0] == folder
    }
    if not found:
        known = dict.fromkeys(name.partition("/")[0] for name in RECIPES)
        raise ValueError(f"there are no recipes {folder!r} (recipes: {', '.join(known)})")
    return found


def layout_named(name: str) -> Layout:
    if name not in TABLES:
        raise ValueError(f"there is no table {name!r}{instead(name, TABLES, 'tables')}")
    return TABLES[name]


HOSPITAL = ("hospital_2",)  # the test set; hospital_1 is unseen as well
TABLES = {
    layout.name: layout
    for layout in (
        Layout("pacs", "PACS", "pacs", PAPER["pacs"], finetuned=(100,)),
        Layout(
            "domainnet",
            "DomainNet, 20 classes",
            "domainnet",
            PAPER["domainnet"],
            fractions=(1, 5, 10),
            summaries=("overall", "average"),
        ),
        Layout(
            "camelyon17",
            "Camelyon17-WILDS",
            "camelyon17",
            PAPER["camelyon17"],
            over="fractions",
            targets=HOSPITAL,
            n_probes=10,
        ),
        Layout(
            "ablation",
            "Styles and colours",
            "camelyon17",
            PAPER["ablation"],
            lines=(
                Line("simclr", "none", "image"),
                Line("simclr", "none", "batch"),
                Line("simclr", "fa", "image"),
                Line("simclr", "bss", "batch"),
            ),
            over="fractions",
            targets=HOSPITAL,
            n_probes=10,
        ),
        Layout(
            "batch-size",
            "Batch size",
            "camelyon17",
            lines=tuple(Line("simclr", style) for style in STYLES),
            over="batch sizes",
            targets=HOSPITAL,
            batch_sizes=(32, 64, 128, 256, 512),
            n_probes=10,
        ),
        Layout("digits", "Embedded digits", "digits"),
    )
}
