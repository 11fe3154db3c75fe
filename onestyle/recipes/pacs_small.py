"""PACS at 64 px, for machines without a GPU: hours on two cores, minutes on a GPU.

onestyle pretrain pacs-small/simclr --data stores/pacs96 --targets sketch   (pack it with --size 96)
"""

from dataclasses import replace

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

RECIPES = {
    "simclr": SIMCLR,
    "swav": replace(SIMCLR, method="swav", views="2x64 + 4x40", options={"prototypes": 128}),
    "mocov2": replace(
        SIMCLR, method="mocov2", views="2x64", style="none", options={"queue_size": 2560}
    ),
    "brad": replace(
        SIMCLR,
        method="brad",
        views="4x64",
        style="none",
        balance=True,
        options={"queue_size": 1536, "adversary_weight": 0.1, "edge_weight": 10.0},  # as digits
    ),
}
