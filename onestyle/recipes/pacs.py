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
# grey, blur), without Fourier.
MOCO: dict[str, Any] = {
    "method": "mocov2",
    "style": "none",
    "geometry": Geometry(scale=(0.2, 1.0), rotation=0, cutout=0),
    "colour": Colour(0.4, 0.4, 0.4, 0.1, equalize=0, posterize=0, solarize=0, blur=0.5),
    "optimizer": "sgd",
    "lr": 0.03,
    "weight_decay": 1e-4,
    "warmup": 0.0,
}
ADCO = MOCO | {"method": "adco", "final_lr": 0.02}  # 0.03 -> 0.0006
DARLING = MOCO | {"method": "darling", "balance": True}
SIMCLR_V2: dict[str, Any] = {
    "method": "simclrv2",
    "style": "none",
    "geometry": Geometry(scale=(0.08, 1.0), rotation=0, cutout=0),
    "colour": Colour(equalize=0, posterize=0, solarize=0, blur=0.5),
    "lr": 0.3,
}
BYOL: dict[str, Any] = {
    "method": "byol",
    "style": "none",
    "geometry": Geometry(scale=(0.08, 1.0), rotation=0, cutout=0),
    # The paper blurs the first view always, the second in 0.1 and solarizes that in 0.2 of all
    # cases: both views get the mean of the two, as a plan has one colour.
    "colour": Colour(0.4, 0.4, 0.2, 0.1, equalize=0, posterize=0, solarize=0.1, blur=0.55),
    "weight_decay": 1.5e-6,
}
# Four views, as the official code: two for the pair whose query is the image, two for the other.
BRAD = MOCO | {"method": "brad", "balance": True}
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
# Learns from labels. The weak view of FixMatch's paper is shifted where this one is cropped; in the
# place of RandAugment stand our colours and rotation; its cutout is not left to chance.
FIXMATCH: dict[str, Any] = {
    "method": "fixmatch",
    "style": "none",
    "geometry": Geometry(scale=(0.7, 1.0), cutout=1.0),
    "steps": 10_000,
    "batch_size": 448,
    "labelled_batch_size": 64,
    "optimizer": "sgd",
    "nesterov": True,
    "lr": 0.03,
    "weight_decay": 5e-4,
    "warmup": 0.0,
    "schedule": "seven-sixteenths",
}

# From random weights, as all rows of PACS here. The papers of both begin with MAE's of ImageNet:
# backbone=vit_base_patch16_224.mae init=timm, or init=FILE with the official encoder's weights.
DIMAE: dict[str, Any] = MAE | {"method": "dimae", "balance": True}
CYCLEMAE: dict[str, Any] = DIMAE | {"method": "cyclemae"}

RECIPES = {
    "simclr": SIMCLR,
    "swav": replace(SIMCLR, method="swav", snapshot_every=1000),
    "simclrv2": replace(SIMCLR, **SIMCLR_V2, views="2x224"),
    "byol": replace(SIMCLR, **BYOL, views="2x224"),
    # 2,560: less than half of the 5,453 images that the smallest set of sources trains on, so that
    # the queue does not hold several old keys of every image.
    "mocov2": replace(SIMCLR, **MOCO, views="2x224", options={"queue_size": 2560}),
    "adco": replace(SIMCLR, **ADCO, views="2x224", options={"negatives": 4096}),
    # 1,280 a domain: no more than the smallest one has images to fill them with.
    "darling": replace(SIMCLR, **DARLING, views="2x224", options={"negatives": 1280}),
    # An image leaves two keys: 1,536 are of half of the 1,500 images that the smallest domain has.
    "brad": replace(SIMCLR, **BRAD, views="4x224", options={"queue_size": 1536}),
    "mae": replace(SIMCLR, **MAE, views="1x224", backbone=VIT),
    "dimae": replace(SIMCLR, **DIMAE, views="1x224", backbone=VIT),
    "cyclemae": replace(SIMCLR, **CYCLEMAE, views="1x224", backbone=VIT),
    "fixmatch": replace(SIMCLR, **FIXMATCH, views="1x224 + 1x224"),
}
