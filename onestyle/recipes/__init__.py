"""The paper's settings, and smaller ones, by the name `data/method`."""

from __future__ import annotations

from onestyle.names import instead
from onestyle.recipes import camelyon17, digits, domainnet, pacs, pacs_small
from onestyle.recipes.recipe import SEEN, Recipe, changed, override, plain, recipe_of

__all__ = [
    "RECIPES",
    "SEEN",
    "Recipe",
    "changed",
    "override",
    "plain",
    "recipe_named",
    "recipe_of",
]

RECIPES = {
    f"{folder}/{name}": recipe
    for folder, module in {
        "pacs": pacs,
        "domainnet": domainnet,
        "camelyon17": camelyon17,
        "digits": digits,
        "pacs-small": pacs_small,
    }.items()
    for name, recipe in module.RECIPES.items()
}


def recipe_named(name: str) -> Recipe:
    if name not in RECIPES:
        folder = f"{name.partition('/')[0]}/"
        near = [known for known in RECIPES if known.startswith(folder)] or RECIPES
        raise ValueError(f"there is no recipe {name!r}{instead(name, near, 'recipes')}")
    return RECIPES[name]
