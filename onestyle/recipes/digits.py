"""The embedded digits: minutes on two cores, to see that everything works and how it looks.

onestyle pretrain digits/simclr --targets photo
"""

from onestyle.recipes.recipe import Recipe

# test_resnet: timm's smallest, 0.37 M parameters, 96 features. test_vit: 0.3 M, 64 features.
SMALL = dict(data="digits", backbone="test_resnet", steps=600, batch_size=128, ratios=(0.02, 1.0))
SMALL |= dict(optimizer="adamw", lr=2e-3, weight_decay=1e-4, log_every=20, monitor_every=100)
VIT = dict(backbone="test_vit", backbone_options={"patch_size": 4})

RECIPES = {
    "simclr": Recipe(method="simclr", views="4x32", **SMALL),
    "swav": Recipe(
        method="swav",
        views="2x32 + 2x24",
        options={"prototypes": 64, "freeze_steps": 50},
        snapshot_every=100,
        **SMALL,
    ),
    "msn": Recipe(
        method="msn",
        views="1x32 0.3..1 + 3x24 0.05..0.3",
        options={"prototypes": 64, "dim": 64},
        **SMALL | VIT,
    ),
    "mocov2": Recipe(
        method="mocov2", views="2x32", style="none", options={"queue_size": 512}, **SMALL
    ),
    "mae": Recipe(
        method="mae",
        views="1x32",
        style="none",
        options={"decoder_dim": 64, "decoder_depth": 2, "decoder_heads": 4},
        **SMALL | VIT,
    ),
}
