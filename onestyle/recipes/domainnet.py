"""DomainNet, 20 classes, as in the paper: from ImageNet's weights, 60,000 steps of 512 images.

onestyle pretrain domainnet/simclr --data stores/domainnet --targets clipart infograph quickdraw
"""

from dataclasses import replace

from onestyle.recipes import pacs

SIMCLR = replace(pacs.SIMCLR, data="domainnet", init="timm", batch_size=512, lr=0.4)
MOCO = pacs.MOCO | {"lr": 0.06}
ADCO = pacs.ADCO | {"lr": 0.06}
DARLING = pacs.DARLING | {"lr": 0.06}
BRAD = pacs.BRAD | {"lr": 0.06}
MAE = pacs.MAE | {"lr": 3e-4}
SIMCLR_V2 = pacs.SIMCLR_V2 | {"lr": 0.6}
# From random weights, although the papers of both begin with MAE's of ImageNet: see recipes/pacs.
DIMAE, CYCLEMAE = (known | {"lr": 3e-4, "init": "random"} for known in (pacs.DIMAE, pacs.CYCLEMAE))

RECIPES = {
    "simclr": SIMCLR,
    "swav": replace(SIMCLR, method="swav", snapshot_every=1000),
    "simclrv2": replace(SIMCLR, **SIMCLR_V2, views="2x224"),
    "byol": replace(SIMCLR, **pacs.BYOL, views="2x224"),
    "mocov2": replace(SIMCLR, **MOCO, views="2x224", options={"queue_size": 4096}),
    "adco": replace(SIMCLR, **ADCO, views="2x224", options={"negatives": 4096}),
    "darling": replace(SIMCLR, **DARLING, views="2x224", options={"negatives": 2048}),
    "brad": replace(SIMCLR, **BRAD, views="4x224", options={"queue_size": 2560}),
    "mae": replace(SIMCLR, **MAE, views="1x224", backbone=pacs.VIT),
    "dimae": replace(SIMCLR, **DIMAE, views="1x224", backbone=pacs.VIT),
    "cyclemae": replace(SIMCLR, **CYCLEMAE, views="1x224", backbone=pacs.VIT),
    "fixmatch": replace(SIMCLR, **pacs.FIXMATCH, views="1x224 + 1x224"),
}
