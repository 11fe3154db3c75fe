"""The embedded digits: minutes on two cores, to see that everything works and how it looks.

onestyle pretrain digits/simclr --targets photo
"""

from dataclasses import replace
from typing import Any

from onestyle.geometry import Geometry
from onestyle.recipes import pacs
from onestyle.recipes.recipe import Recipe

# A digit's mirror image is no digit, and a seventh of one is none either.
WHOLE = Geometry(scale=(0.5, 1.0), horizontal_flip=0.0)
SIMCLR = Recipe(
    data="digits",
    method="simclr",
    backbone="test_resnet",  # timm's smallest: 0.37 M parameters, 96 features
    options={"temperature": 0.2},
    views="4x32",
    ratios=(0.02, 0.15),  # at 32 px the window is the digit before it is half of the spectrum
    geometry=WHOLE,
    steps=1000,
    batch_size=64,
    optimizer="adamw",
    lr=1.4e-3,
    weight_decay=1e-4,
    log_every=20,
    monitor_every=200,
)
VIT: dict[str, Any] = {  # 0.3 M parameters, 64 features
    "backbone": "test_vit",
    "backbone_options": {"patch_size": 4},
    "precision": "32-true",  # so small a transformer is faster in it on a CPU
}
# A copy of the network that moves by 0.001 is, after 1,000 steps, still 37% what it was at first.
SOON = {"momentum": 0.99}
SWAV = {"prototypes": 64, "freeze_steps": 50}
BYOL = {"dim": 64, "hidden_dim": 256, "momentum": 0.99}
DECODER = {"decoder_dim": 64, "decoder_depth": 2, "decoder_heads": 4}
FIXMATCH = pacs.FIXMATCH | {
    "geometry": Geometry(scale=(0.7, 1.0), horizontal_flip=0.0, cutout=1.0),
    "options": {"momentum": 0.99},
    "steps": 500,
    "batch_size": 112,
    "labelled_batch_size": 16,
}

# A domain's style is to be rebuilt as it was: other colours would make it many.
DIMAE: dict[str, Any] = {
    "views": "1x32",
    "style": "none",
    "geometry": replace(WHOLE, cutout=0),
    "colour": pacs.MAE["colour"],
    "balance": True,
    "options": DECODER,
    **VIT,
}

RECIPES = {
    "simclr": SIMCLR,
    "swav": replace(
        SIMCLR, method="swav", views="2x32 + 2x24 0.2..0.6", options=SWAV, snapshot_every=100
    ),
    "msn": replace(
        SIMCLR,
        method="msn",
        views="1x32 + 3x24 0.2..0.6",
        options={"prototypes": 64, "dim": 64},
        **VIT,
    ),
    "simclrv2": replace(SIMCLR, method="simclrv2", views="2x32", style="none"),
    "byol": replace(SIMCLR, method="byol", views="2x32", style="none", options=BYOL),
    "mocov2": replace(
        SIMCLR, method="mocov2", views="2x32", style="none", options={"queue_size": 512, **SOON}
    ),
    "adco": replace(
        SIMCLR, method="adco", views="2x32", style="none", options={"negatives": 512, **SOON}
    ),
    "darling": replace(
        SIMCLR,
        method="darling",
        views="2x32",
        style="none",
        balance=True,
        options={"negatives": 256, **SOON},
    ),
    # An adversary of weight 1 would empty the edge maps before the contrast has begun to learn, and
    # at twice the rate all embeddings become alike.
    "brad": replace(
        SIMCLR,
        method="brad",
        views="4x32",
        style="none",
        balance=True,
        options={"momentum": 0.99, "queue_size": 256, "adversary_weight": 0.1, "edge_weight": 10.0},
        batch_size=64,
        lr=5e-4,
        steps=600,
    ),
    "mae": replace(SIMCLR, method="mae", views="1x32", style="none", options=DECODER, **VIT),
    "dimae": replace(SIMCLR, method="dimae", **DIMAE),
    # From random weights a cycle of weight 2 hides the images for longer than this takes.
    "cyclemae": replace(
        SIMCLR,
        method="cyclemae",
        **DIMAE | {"options": DECODER | {"cycle_weight": 0.2}},
        batch_size=64,
        steps=200,
    ),
    "fixmatch": replace(SIMCLR, **FIXMATCH, views="1x32 + 1x32"),
}
