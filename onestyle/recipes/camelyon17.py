"""Camelyon17-WILDS, as in the paper: random weights, 150,000 steps of 256 images.

onestyle pretrain camelyon17/simclr --data stores/camelyon17 --targets hospital_1 hospital_2
"""

from dataclasses import replace
from typing import Any

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
CROP = {"geometry": replace(TISSUE, scale=(0.2, 1.0), cutout=0)}
SMALLER = {"geometry": replace(TISSUE, scale=(0.08, 1.0), cutout=0)}  # crops of SimCLR and BYOL
MOCO = pacs.MOCO | CROP
BRAD = pacs.BRAD | CROP

# The two rows that use the target are of the WILDS challenge: its networks, optimisers and numbers
# of steps (10 epochs of the labelled images; 400 of the targets'), its FixMatch without a teacher.
FIXMATCH: dict[str, Any] = pacs.FIXMATCH | {
    "options": {"threshold": 0.7, "momentum": 0.0},
    "geometry": replace(TISSUE, scale=(1, 1), aspect=(1, 1), cutout=1.0, cutout_side=(0.05, 0.5)),
    "colour": Colour(),
    "steps": 94_500,
    "batch_size": 32,
    "labelled_batch_size": 32,
    "nesterov": False,
    "lr": 1e-3,
    "weight_decay": 0.01,
    "schedule": "power",
}
SWAV: dict[str, Any] = {
    "method": "swav",
    "style": "none",
    "options": {"prototypes": 20, "epsilon": 0.03, "freeze_steps": 5005},
    "colour": replace(Colour.only_jitter(), grayscale=0.2),
    "geometry": Geometry(rotation=0.0, cutout=0.0),
    "steps": 71_400,
    "batch_size": 672,
    "lr": 4.8 * 672 / 4096,
    "final_lr": 0.001,
    "warmup": 0.0,
}
TARGET: dict[str, Any] = {"uses_target": True, "backbone": "densenet121"}

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
    "simclrv2": replace(SIMCLR, **pacs.SIMCLR_V2 | SMALLER, views="2x128"),
    "byol": replace(SIMCLR, **pacs.BYOL | SMALLER, views="2x128"),
    "mocov2": replace(SIMCLR, **MOCO, views="2x128"),
    "adco": replace(SIMCLR, **pacs.ADCO | CROP, views="2x128"),
    "darling": replace(
        # The paper trained its own, with what it gives all methods: LARS, 0.2, 1e-6, warm-up.
        SIMCLR,
        method="darling",
        views="2x128",
        style="none",
        balance=True,
        geometry=CROP["geometry"],
        colour=MOCO["colour"],
        options={"negatives": 21760},
    ),
    "brad": replace(SIMCLR, **BRAD, views="4x128"),
    "mae": replace(SIMCLR, **pacs.MAE, views="1x96", backbone=VIT),
    "dimae": replace(SIMCLR, **pacs.DIMAE, views="1x96", backbone=VIT),
    "cyclemae": replace(SIMCLR, **pacs.CYCLEMAE, views="1x96", backbone=VIT),
    "fixmatch": replace(SIMCLR, **FIXMATCH, **TARGET, views="1x96 + 1x96"),
    "swav-target": replace(SIMCLR, **SWAV, **TARGET, views="2x96 0.14..1 + 4x96 0.14..1"),
}
