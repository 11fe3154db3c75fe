"""DomainNet, 20 classes, as in the paper: from ImageNet's weights, 60,000 steps of 512 images.

onestyle pretrain domainnet/simclr --data stores/domainnet --targets clipart infograph quickdraw
"""

from dataclasses import replace

from onestyle.recipes import pacs

SIMCLR = replace(pacs.SIMCLR, data="domainnet", init="timm", batch_size=512, lr=0.4)
MOCO = pacs.MOCO | {"lr": 0.06}
BRAD = pacs.BRAD | {"lr": 0.06}
MAE = pacs.MAE | {"lr": 3e-4}

RECIPES = {
    "simclr": SIMCLR,
    "swav": replace(SIMCLR, method="swav", snapshot_every=1000),
    "mocov2": replace(SIMCLR, **MOCO, views="2x224", options={"queue_size": 4096}),
    "brad": replace(SIMCLR, **BRAD, views="4x224", options={"queue_size": 2560}),
    "mae": replace(SIMCLR, **MAE, views="1x224", backbone="vit_base_patch16_224"),
}
