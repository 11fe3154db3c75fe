"""Each method learns 64 images by heart: it cannot generalise, but it must be able to learn."""

import math

import numpy as np
import pytest
import torch
from lightning_fabric import Fabric

from onestyle.data.loader import Loader
from onestyle.data.protocol import Pool
from onestyle.data.store import open_store
from onestyle.methods import METHODS
from onestyle.methods.mae import normalize_patches
from onestyle.nn.backbone import make_backbone
from onestyle.nn.decoder import patchify
from onestyle.recipes import RECIPES, override, recipe_named
from onestyle.stages.finetune import labelled_views
from onestyle.stream import Stream
from onestyle.train import fit

N, K = 64, 64  # images, prototypes
VIEWS = [
    "style=none", "geometry.cutout=0", "geometry.rotation=0", "geometry.horizontal_flip=0",
    "colour.jitter=0", "colour.equalize=0", "colour.posterize=0", "colour.solarize=0",
    "colour.grayscale=0",
]  # fmt: skip
LOOP = [
    "precision=32-true", f"batch_size={N}", "lr=2e-3", "monitor_every=0", "log_every=10",
    "warmup=0.1",
]  # fmt: skip
SETTINGS = {
    "simclr": ["steps=60", "views=2x24 0.5..1", "options.temperature=0.5"],
    "swav": [
        "steps=80", "views=2x24 0.5..1 + 1x16 0.5..1", "options.freeze_steps=10",
        "options.hidden_dim=128",
    ],
    "msn": [
        "steps=60", "views=1x32 0.5..1 + 2x24 0.5..1", "options.hidden_dim=128",
        "options.momentum=0.95",
    ],
    "simclrv2": ["steps=60", "views=2x24 0.5..1", "options.temperature=0.5"],
    "byol": ["steps=80", "views=2x24 0.5..1", "options.momentum=0.9"],
    "mocov2": ["steps=80", "views=2x24 0.5..1", f"options.queue_size={N}", "options.momentum=0.9"],
    "adco": ["steps=80", "views=2x24 0.5..1", f"options.negatives={N}", "options.momentum=0.9"],
    "darling": ["steps=80", "views=2x24 0.5..1", "options.negatives=16", "options.momentum=0.9"],
    "brad": [
        "steps=260", "lr=5e-4", "views=4x24 0.5..1", f"options.queue_size={N}",
        "options.momentum=0.9",
    ],
    "erm": ["method=erm", "steps=60", "views=1x24 0.5..1"],
    "fixmatch": [
        "steps=100", "views=1x24 0.5..1 + 1x24 0.5..1", "options.momentum=0.5", "optimizer=adamw",
        "lr=2e-3", "options.threshold=0.8",
    ],
    "mae": ["steps=220", "lr=5e-3", "views=1x32 0.8..1"],
    "dimae": ["steps=300", "lr=5e-3", "views=1x32 0.8..1"],
    "cyclemae": [
        "steps=180", "lr=5e-3", "views=1x32 0.8..1", "options.cycle_weight=0.2",
        "options.contrast_weight=0.2",
    ],
}  # fmt: skip


def learnt(name):
    """The stream, and the last row of metrics."""
    known = f"digits/{name}" if f"digits/{name}" in RECIPES else "digits/simclr"
    recipe = override(recipe_named(known), VIEWS + LOOP + SETTINGS[name])
    torch.manual_seed(0)
    backbone = make_backbone(
        recipe.backbone, recipe.view_size, options=recipe.backbone_options, init=recipe.init
    )
    pool = Pool(open_store("digits"), 7 * np.arange(N))
    n_domains = len(np.unique(pool.domains))
    method = recipe.make_method(backbone, n_domains=n_domains, n_classes=10)
    both = "unlabelled" in method.needs  # the same images twice: with labels, and without
    needs, loader = method.needs, Loader(pool, N, 0)
    few = Stream(loader, labelled_views(recipe), torch.device("cpu"), 0, needs) if both else None
    needs = needs - {"label"} if both else needs
    stream = Stream(loader, recipe.plan(), torch.device("cpu"), 0, needs, few)
    row = fit(method, stream, recipe, fabric=Fabric(accelerator="cpu", devices=1))
    assert row["embedding_std"] > 0.3
    return stream, row


def half_way(chance, floor):
    return (chance + floor) / 2


def test_each_method_has_settings():
    assert SETTINGS.keys() == METHODS.keys()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["simclr", "simclrv2"])
def test_simclr(name):
    """Chance ln(NV - 1); the floor of images at right angles to each other, at T = 0.5."""
    _, row = learnt(name)
    chance, floor = math.log(2 * N - 1), math.log(math.e**2 + 2 * (N - 1)) - 2
    assert floor < row["loss"] < half_way(chance, floor)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["swav", "msn"])
def test_prototypes(name):
    _, row = learnt(name)
    assert row.get("cross_entropy", row["loss"]) < 0.6 * math.log(K)
    assert row["prototypes_used"] >= 30


@pytest.mark.slow
def test_byol():
    """4 at right angles; and it has not come down by making all images one."""
    _, row = learnt("byol")
    assert row["loss"] < half_way(4, 0)


@pytest.mark.slow
def test_mocov2():
    """The queue holds one older key of every image, of the anchor's own too, at T = 0.2."""
    _, row = learnt("mocov2")
    chance, floor = math.log(N + 1), math.log(2 * math.e**5 + N - 1) - 5
    assert row["loss"] < half_way(chance, floor)


@pytest.mark.slow
def test_adco():
    """Among the keys of the batch and as many learned negatives, at T = 0.12."""
    _, row = learnt("adco")
    assert row["negatives_filled"] == 1
    assert row["loss"] < half_way(math.log(2 * N), 0)


@pytest.mark.slow
def test_darling():
    """Among the 16 negatives of a bank, whichever the classifier takes an image to be of."""
    _, row = learnt("darling")
    assert row["negatives_filled"] == 1 and row["domain_accuracy"] > 0.7
    assert row["loss"] < half_way(math.log(1 + 16), 0)


@pytest.mark.slow
def test_brad():
    """It takes longer than MoCo v2: edge maps and images must come together first. A queue holds
    four or so keys of every image of its domain, of which the anchor's own are masked."""
    _, row = learnt("brad")
    assert row["cross_entropy"] < 0.8 * math.log(N - 3)
    assert row["edge_error"] < 0.05  # empty maps have 0.3


@pytest.mark.slow
def test_erm():
    _, row = learnt("erm")
    assert row["loss"] < 0.3 * math.log(10)


@pytest.mark.slow
def test_fixmatch():
    _, row = learnt("fixmatch")
    assert row["supervised"] < 0.3 * math.log(10) and row["unsupervised"] < 0.5 * math.log(10)
    assert row["mask"] > 0.8 and row["largest_class"] < 0.3


@pytest.mark.slow
def test_mae():
    """A third better than the mean patch, which is all that can be said without the image."""
    stream, row = learnt("mae")
    (batch,) = stream.batches(0, 1)
    patches = normalize_patches(patchify(batch.views[0].flatten(0, 1), (4, 4)))
    blind = (patches - patches.mean((0, 1))).square().mean()
    assert row["loss"] < 0.7 * blind


@pytest.mark.slow
@pytest.mark.parametrize("name, share", [("dimae", 0.75), ("cyclemae", 0.9)])
def test_a_decoder_for_each_domain(name, share):
    """Better than the domain's mean patch of the place in the image, which is all that can be said
    without the image. The contrast has found directions of their own for the decoders."""
    stream, row = learnt(name)
    (batch,) = stream.batches(0, 1)
    patches, domains = patchify(batch.views[0][0], (4, 4)), batch.domain.unique()
    blind = [(own - own.mean(0)).square() for d in domains for own in [patches[batch.domain == d]]]
    assert row.get("reconstruction", row["loss"]) < share * torch.cat(blind).mean()
    assert row.get("domain_contrast", 0.0) < 0.1 * math.log(1 + (len(domains) - 1) * N)
