"""DomainNet, 20 classes, as in the paper: from ImageNet's weights, 60,000 steps of 512 images.

onestyle pretrain domainnet/simclr --data domainnet --targets clipart infograph quickdraw
"""

from onestyle.recipes.pacs import MAE, MOCO
from onestyle.recipes.recipe import Recipe

PAPER = dict(data="domainnet", backbone="resnet18", init="timm", steps=60_000)
PAPER |= dict(batch_size=512, lr=0.4, ratios=(0.02, 1.0))

RECIPES = {
    "simclr": Recipe(method="simclr", views="2x224 + 6x128", **PAPER),
    "swav": Recipe(method="swav", views="2x224 + 6x128", snapshot_every=1000, **PAPER),
    "mocov2": Recipe(
        method="mocov2",
        views="2x224",
        style="none",
        options={"queue_size": 4096},
        **PAPER | MOCO | {"lr": 0.06},
    ),
    "mae": Recipe(
        method="mae",
        views="1x224",
        style="none",
        **PAPER | MAE | {"lr": 3e-4, "backbone": "vit_base_patch16_224"},
    ),
}
