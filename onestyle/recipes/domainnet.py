"""DomainNet, 20 classes, as in the paper: from ImageNet's weights, 60,000 steps of 512 images.

onestyle pretrain domainnet/simclr --data stores/domainnet --targets clipart infograph quickdraw
"""

from dataclasses import replace

from onestyle.recipes import pacs

SIMCLR = replace(pacs.SIMCLR, data="domainnet", init="timm", batch_size=512, lr=0.4)
MOCO = pacs.MOCO | {"lr": 0.06}
MAE = pacs.MAE | {"lr": 3e-4}
# From random weights, although the papers of both begin with MAE's of ImageNet: see recipes/pacs.
DIMAE, CYCLEMAE = (known | {"lr": 3e-4, "init": "random"} for known in (pacs.DIMAE, pacs.CYCLEMAE))

RECIPES = {
    "simclr": SIMCLR,
    "swav": replace(SIMCLR, method="swav", snapshot_every=1000),
    "mocov2": replace(SIMCLR, **MOCO, views="2x224", options={"queue_size": 4096}),
    "mae": replace(SIMCLR, **MAE, views="1x224", backbone=pacs.VIT),
    "dimae": replace(SIMCLR, **DIMAE, views="1x224", backbone=pacs.VIT),
    "cyclemae": replace(SIMCLR, **CYCLEMAE, views="1x224", backbone=pacs.VIT),
}
