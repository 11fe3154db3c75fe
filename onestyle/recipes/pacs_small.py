"""PACS at 64 px, for machines without a GPU: hours on two cores, minutes on a GPU.

onestyle pretrain pacs-small/simclr --data stores/pacs96 --targets sketch   (pack it with --size 96)
"""

from dataclasses import replace
from typing import Any

from onestyle.recipes import pacs
from onestyle.recipes.recipe import Recipe

SIMCLR = Recipe(
    data="pacs",
    method="simclr",
    backbone="resnet18",
    views="4x64",
    ratios=(0.02, 1.0),
    steps=4000,
    batch_size=128,
    optimizer="adamw",
    lr=1e-3,
    weight_decay=1e-4,
    monitor_every=500,
)

VIT: dict[str, Any] = {  # 5.4 M parameters, 192 features, 64 patches of an image
    "backbone": "vit_tiny_patch16_224",
    "backbone_options": {"patch_size": 8},
}
SMALL: dict[str, Any] = {
    "views": "1x64",
    "lr": 1e-3,
    "options": {"decoder_dim": 128, "decoder_depth": 2, "decoder_heads": 4},
    **VIT,
}


def brought(by: dict[str, Any]) -> dict[str, Any]:
    """The method, its views and batches, of what one of the literature brings along: not its
    optimiser."""
    taken = ("method", "style", "geometry", "colour", "balance")
    return {name: by[name] for name in taken if name in by}


RECIPES = {
    "simclr": SIMCLR,
    "swav": replace(SIMCLR, method="swav", views="2x64 + 4x40", options={"prototypes": 128}),
    "simclrv2": replace(
        SIMCLR, **brought(pacs.SIMCLR_V2), views="2x64", options={"temperature": 0.5}
    ),
    "byol": replace(SIMCLR, **brought(pacs.BYOL), views="2x64"),
    "mocov2": replace(SIMCLR, **brought(pacs.MOCO), views="2x64", options={"queue_size": 2560}),
    "adco": replace(SIMCLR, **brought(pacs.ADCO), views="2x64", options={"negatives": 4096}),
    "darling": replace(SIMCLR, **brought(pacs.DARLING), views="2x64", options={"negatives": 1280}),
    "fixmatch": replace(
        SIMCLR,
        **pacs.FIXMATCH | {"steps": 2000, "batch_size": 112, "labelled_batch_size": 16},
        views="1x64 + 1x64",
    ),
    "brad": replace(
        SIMCLR,
        method="brad",
        views="4x64",
        style="none",
        balance=True,
        options={"queue_size": 1536, "adversary_weight": 0.1, "edge_weight": 10.0},  # as digits
    ),
    "msn": replace(SIMCLR, method="msn", views="2x64 0.3..1 + 4x40 0.05..0.3", **VIT),
    "mae": replace(SIMCLR, **pacs.MAE | SMALL),
    "dimae": replace(SIMCLR, **pacs.DIMAE | SMALL),
    "cyclemae": replace(SIMCLR, **pacs.CYCLEMAE | SMALL),
}
