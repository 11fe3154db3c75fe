"""PACS, as in the paper: ResNet-18 from random weights, 60,000 steps of 256 images.

    onestyle pretrain pacs/simclr --data pacs --targets sketch

The paper gives N, V, sizes, r, steps, LARS, lr, weight decay and each method's D, K and
temperatures; what it leaves open is set in `Training`, `Geometry`, `Colour` and the methods.
"""

from onestyle.colour import Colour
from onestyle.geometry import Geometry
from onestyle.recipes.recipe import Recipe

PAPER = dict(data="pacs", backbone="resnet18", steps=60_000, ratios=(0.02, 1.0))

# The literature's own view: crop, flip, jitter, grey.
MOCO_VIEW = dict(
    geometry=Geometry(scale=(0.2, 1.0), rotation=0, cutout=0),
    colour=Colour(0.4, 0.4, 0.4, 0.1, equalize=0, posterize=0, solarize=0),
)
MOCO = dict(optimizer="sgd", lr=0.03, weight_decay=1e-4, warmup=0.0) | MOCO_VIEW
MAE_VIEW = dict(
    geometry=Geometry(scale=(0.2, 1.0), rotation=0, cutout=0),
    colour=Colour(jitter=0, equalize=0, posterize=0, solarize=0, grayscale=0),
)
MAE = dict(optimizer="adamw", lr=1.5e-4, weight_decay=0.05, betas=(0.9, 0.95)) | MAE_VIEW

RECIPES = {
    "simclr": Recipe(method="simclr", views="2x224 + 6x128", **PAPER),
    "swav": Recipe(method="swav", views="2x224 + 6x128", snapshot_every=1000, **PAPER),
    # 2,560: less than half of the 5,453 images that the smallest set of sources trains on, so that
    # the queue does not hold several old keys of every image.
    "mocov2": Recipe(
        method="mocov2", views="2x224", style="none", options={"queue_size": 2560}, **PAPER | MOCO
    ),
    "mae": Recipe(
        method="mae", views="1x224", style="none", **PAPER | MAE | {"backbone": "vit_base_patch16_224"}
    ),
}
