"""Camelyon17-WILDS, as in the paper: random weights, 150,000 steps of 256 images.

onestyle pretrain camelyon17/simclr --data stores/camelyon17 --targets hospital_1 hospital_2
"""

from dataclasses import replace

from onestyle.colour import Colour
from onestyle.geometry import Geometry
from onestyle.recipes import pacs
from onestyle.recipes.recipe import Recipe

# Tissue has no upright: flips both ways and quarter turns. Of the colours the paper has the jitter.
TISSUE = Geometry(vertical_flip=0.5, rotation=0.0, quarter_turns=True)
SIMCLR = Recipe(
    data="camelyon17",
    method="simclr",
    backbone="resnet50",
    views="8x128 0.2..1",
    ratios=(0.02, 0.1),
    geometry=TISSUE,
    colour=Colour.only_jitter(),
    steps=150_000,
)
VIT = "vit_small_patch8_224"
MOCO = pacs.MOCO | {"geometry": replace(TISSUE, scale=(0.2, 1.0), cutout=0)}

RECIPES = {
    "simclr": SIMCLR,
    "swav": replace(SIMCLR, method="swav", views="2x128 0.14..1 + 6x128 0.05..0.14"),
    "msn": replace(
        SIMCLR,
        method="msn",
        backbone=VIT,
        views="2x96 0.3..1 + 10x64 0.05..0.3",
        colour=Colour.only_jitter().scaled(0.5),
    ),
    "mocov2": replace(SIMCLR, **MOCO, views="2x128"),
    "mae": replace(SIMCLR, **pacs.MAE, views="1x96", backbone=VIT),
    "dimae": replace(SIMCLR, **pacs.DIMAE, views="1x96", backbone=VIT),
    "cyclemae": replace(SIMCLR, **pacs.CYCLEMAE, views="1x96", backbone=VIT),
}
