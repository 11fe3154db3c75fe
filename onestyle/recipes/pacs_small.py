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

RECIPES = {
    "simclr": SIMCLR,
    "swav": replace(SIMCLR, method="swav", views="2x64 + 4x40", options={"prototypes": 128}),
    "mocov2": replace(
        SIMCLR, method="mocov2", views="2x64", style="none", options={"queue_size": 2560}
    ),
    "msn": replace(SIMCLR, method="msn", views="2x64 0.3..1 + 4x40 0.05..0.3", **VIT),
    "mae": replace(SIMCLR, **pacs.MAE | SMALL),
    "dimae": replace(SIMCLR, **pacs.DIMAE | SMALL),
    "cyclemae": replace(SIMCLR, **pacs.CYCLEMAE | SMALL),
}
