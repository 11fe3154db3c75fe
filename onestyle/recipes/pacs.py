"""PACS, as in the paper: ResNet-18 from random weights, 60,000 steps of 256 images.

    onestyle pretrain pacs/simclr --data stores/pacs --targets sketch

The paper gives N, V, sizes, r, steps, LARS, lr, weight decay and each method's D, K and
temperatures; what it leaves open is set in `Training`, `Geometry`, `Colour` and the methods.
"""

from dataclasses import replace
from typing import Any

from onestyle.colour import Colour
from onestyle.geometry import Geometry
from onestyle.recipes.recipe import Recipe

SIMCLR = Recipe(
    data="pacs",
    method="simclr",
    backbone="resnet18",
    views="2x224 + 6x128",
    ratios=(0.02, 1.0),
    steps=60_000,
)

# What the literature's methods bring along: their optimiser and their view (crop, flip, jitter,
# grey), without Fourier.
MOCO: dict[str, Any] = {
    "method": "mocov2",
    "style": "none",
    "geometry": Geometry(scale=(0.2, 1.0), rotation=0, cutout=0),
    "colour": Colour(0.4, 0.4, 0.4, 0.1, equalize=0, posterize=0, solarize=0),
    "optimizer": "sgd",
    "lr": 0.03,
    "weight_decay": 1e-4,
    "warmup": 0.0,
}
VIT = "vit_base_patch16_224"
MAE: dict[str, Any] = {
    "method": "mae",
    "style": "none",
    "geometry": Geometry(scale=(0.2, 1.0), rotation=0, cutout=0),
    "colour": Colour(jitter=0, equalize=0, posterize=0, solarize=0, grayscale=0),
    "optimizer": "adamw",
    "lr": 1.5e-4,
    "weight_decay": 0.05,
    "betas": (0.9, 0.95),
}

# From random weights, as all rows of PACS here. The papers of both begin with MAE's of ImageNet:
# backbone=vit_base_patch16_224.mae init=timm, or init=FILE with the official encoder's weights.
DIMAE: dict[str, Any] = MAE | {"method": "dimae", "balance": True}
CYCLEMAE: dict[str, Any] = DIMAE | {"method": "cyclemae"}

RECIPES = {
    "simclr": SIMCLR,
    "swav": replace(SIMCLR, method="swav", snapshot_every=1000),
    # 2,560: less than half of the 5,453 images that the smallest set of sources trains on, so that
    # the queue does not hold several old keys of every image.
    "mocov2": replace(SIMCLR, **MOCO, views="2x224", options={"queue_size": 2560}),
    "mae": replace(SIMCLR, **MAE, views="1x224", backbone=VIT),
    "dimae": replace(SIMCLR, **DIMAE, views="1x224", backbone=VIT),
    "cyclemae": replace(SIMCLR, **CYCLEMAE, views="1x224", backbone=VIT),
}
