"""Every method of the table at a size that a test can afford. A new method adds a line."""

from typing import NamedTuple

import torch
from torch import Generator

from onestyle.methods import Batch, method_named
from onestyle.nn import world
from onestyle.nn.backbone import make_backbone
from onestyle.views import ViewPlan


class Case(NamedTuple):
    views: str  # a plan; the sizes differ where a method takes several groups
    options: dict
    backbone: str = "test_resnet"
    backbone_options: dict = {}  # noqa: RUF012


VIT = {"backbone": "test_vit", "backbone_options": {"patch_size": 8}}

DECODER = {"decoder_dim": 32, "decoder_depth": 1, "decoder_heads": 2}
PLAIN = {"dimae", "cyclemae"}  # methods that take no style but none

CASES = {
    "simclr": Case("2x32 bss + 2x24 bss", {"dim": 16}),
    "swav": Case(
        "2x32 bss + 2x24 fa", {"dim": 16, "prototypes": 8, "hidden_dim": 32, "freeze_steps": 1}
    ),
    "msn": Case(
        "2x32 bss + 3x24 fa", {"dim": 16, "prototypes": 8, "hidden_dim": 32, "momentum": 0.9}, **VIT
    ),
    "simclrv2": Case("2x32 none + 1x24 none", {"dim": 16}),
    "byol": Case("2x32 none + 1x24 none", {"dim": 16, "hidden_dim": 32, "momentum": 0.9}),
    "mocov2": Case("2x32 none", {"dim": 16, "queue_size": 16, "momentum": 0.9}),
    # One step of 8 images fills the negatives, from the second on they climb.
    "adco": Case("2x32 none", {"dim": 16, "negatives": 8, "momentum": 0.9}),
    "darling": Case("2x32 none", {"dim": 16, "negatives": 4, "momentum": 0.9, "n_domains": 2}),
    "brad": Case("4x32 none", {"n_domains": 2, "dim": 16, "queue_size": 12, "momentum": 0.9}),
    "mae": Case("1x32 none", DECODER, **VIT),
    "dimae": Case("1x32 none", {"n_domains": 2, **DECODER}, **VIT),
    "cyclemae": Case("1x32 none", {"n_domains": 2, **DECODER, "decoder_depth": 2}, **VIT),
    "erm": Case("1x32 none", {"n_classes": 3}),
    "fixmatch": Case("1x32 weak + 1x32 none", {"n_classes": 3, "threshold": 0.35, "momentum": 0.9}),
}


def make_method(name, seed=0, dtype=torch.float32, **options):
    """The same weights in every process."""
    torch.manual_seed(seed)
    case = CASES[name]
    backbone = make_backbone(case.backbone, 32, options=case.backbone_options)
    return method_named(name)(backbone, **case.options | options).to(dtype).train()


def make_batch(name, step=0, n_images=8, dtype=torch.float32, kind=Batch):
    """This process's share of step `step`'s batch: noise as views, the same for the same step."""
    needs, groups = method_named(name).needs, ViewPlan.parse(CASES[name].views).groups
    if "unlabelled" not in needs:
        return noise(groups, needs, 100 + step, n_images, dtype, kind)
    batch = noise(groups, needs - {"label"}, 100 + step, n_images, dtype, kind)
    weak = [group for group in groups if group.style == "weak"]
    batch.labelled = noise(weak, needs, 200 + step, n_images // 2, dtype)
    return batch


def noise(groups, needs, seed, n_images, dtype, kind=Batch):
    generator = Generator().manual_seed(seed)
    share = world.share(n_images // world.size())
    shapes = [(group.n, n_images, 3, group.size, group.size) for group in groups]
    views = [torch.randn(shape, generator=generator, dtype=torch.double) for shape in shapes]
    return kind(
        views=[group[:, share].to(dtype) for group in views],
        places=torch.arange(n_images)[share],
        step=seed % 100,
        generator=generator,
        domain=(torch.arange(n_images) % 2)[share] if "domain" in needs else None,
        label=(torch.arange(n_images) % 3)[share] if "label" in needs else None,
    )


def make_optimizers(method, lr=0.05):
    return method.optimizers(lambda parameters: torch.optim.SGD(parameters, lr, momentum=0.9))


def train_step(method, optimizers, batch):
    """What the loop does in a step, with DDP's average by hand; the loss of the global batch."""
    loss, _ = method(batch)
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss.backward()
    for parameter in method.parameters():
        if parameter.grad is not None:
            parameter.grad = world.mean(parameter.grad)
    method.before_step(batch.step)
    for optimizer in optimizers:
        optimizer.step()
    method.after_step(batch.step, 10)
    return world.mean(loss.detach())
