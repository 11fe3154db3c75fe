"""PACS at 64 px, for machines without a GPU: hours on two cores, minutes on a GPU.

onestyle pretrain pacs-small/simclr --data pacs96 --targets sketch     (packed with --size 96)
"""

from onestyle.recipes.recipe import Recipe

SMALL = dict(data="pacs", backbone="resnet18", steps=4000, batch_size=128, ratios=(0.02, 1.0))
SMALL |= dict(optimizer="adamw", lr=1e-3, weight_decay=1e-4, monitor_every=500)

RECIPES = {
    "simclr": Recipe(method="simclr", views="4x64", **SMALL),
    "swav": Recipe(method="swav", views="2x64 + 4x40", options={"prototypes": 128}, **SMALL),
    "mocov2": Recipe(
        method="mocov2", views="2x64", style="none", options={"queue_size": 2560}, **SMALL
    ),
}
