"""The embedded digits: minutes on two cores, to see that everything works and how it looks.

onestyle pretrain digits/simclr --targets photo
"""

from dataclasses import replace
from typing import Any

from onestyle.recipes.recipe import Recipe

SIMCLR = Recipe(
    data="digits",
    method="simclr",
    backbone="test_resnet",  # timm's smallest: 0.37 M parameters, 96 features
    views="4x32",
    ratios=(0.02, 1.0),
    steps=600,
    batch_size=128,
    optimizer="adamw",
    lr=2e-3,
    weight_decay=1e-4,
    log_every=20,
    monitor_every=100,
)
VIT: dict[str, Any] = {  # 0.3 M parameters, 64 features
    "backbone": "test_vit",
    "backbone_options": {"patch_size": 4},
}
SWAV = {"prototypes": 64, "freeze_steps": 50}
DECODER = {"decoder_dim": 64, "decoder_depth": 2, "decoder_heads": 4}

RECIPES = {
    "simclr": SIMCLR,
    "swav": replace(SIMCLR, method="swav", views="2x32 + 2x24", options=SWAV, snapshot_every=100),
    "msn": replace(
        SIMCLR,
        method="msn",
        views="1x32 0.3..1 + 3x24 0.05..0.3",
        options={"prototypes": 64, "dim": 64},
        **VIT,
    ),
    "mocov2": replace(
        SIMCLR, method="mocov2", views="2x32", style="none", options={"queue_size": 512}
    ),
    "mae": replace(SIMCLR, method="mae", views="1x32", style="none", options=DECODER, **VIT),
}
