"""Camelyon17-WILDS, as in the paper: random weights, 150,000 steps of 256 images.

onestyle pretrain camelyon17/simclr --data camelyon17 --targets hospital_1 hospital_2
"""

from dataclasses import replace

from onestyle.colour import Colour
from onestyle.geometry import Geometry
from onestyle.recipes.pacs import MAE, MOCO
from onestyle.recipes.recipe import Recipe

# Tissue has no upright: flips both ways and quarter turns. Of the colours the paper has the jitter.
TISSUE = Geometry(vertical_flip=0.5, rotation=0.0, quarter_turns=True)
PAPER = dict(data="camelyon17", backbone="resnet50", steps=150_000, ratios=(0.02, 0.1))
PAPER |= dict(geometry=TISSUE, colour=Colour.only_jitter())
VIT = dict(backbone="vit_small_patch8_224")

RECIPES = {
    "simclr": Recipe(method="simclr", views="8x128 0.2..1", **PAPER),
    "swav": Recipe(method="swav", views="2x128 0.14..1 + 6x128 0.05..0.14", **PAPER),
    "msn": Recipe(
        method="msn",
        views="2x96 0.3..1 + 10x64 0.05..0.3",
        **PAPER | VIT | {"colour": Colour.only_jitter().scaled(0.5)},
    ),
    "mocov2": Recipe(
        method="mocov2",
        views="2x128",
        style="none",
        **PAPER | MOCO | {"geometry": replace(TISSUE, scale=(0.2, 1.0), cutout=0)},
    ),
    "mae": Recipe(method="mae", views="1x96", style="none", **PAPER | MAE | VIT),
}
