"""What do style and views cost beside the network, and against the usual way of making them?

python benchmarks/view_speed.py [--rounds 9] [--device cpu] [--json]

64 px views of 96 px images, N = 128, V = 4, in one run, taken in turn:
1. style + views over the forward and backward pass of a ResNet-18 on them (bf16, channels_last);
2. the same views by the paper's listing and kornia's operations with the same probabilities.
"""

import argparse
import json
import statistics
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks import machine
from onestyle.torchvision_cpu import make_importable
from onestyle.views import IMAGENET_MEAN, IMAGENET_STD, ViewPlan
from tests import listing

make_importable()
import kornia.augmentation as K  # noqa: E402
import timm  # noqa: E402

N, V, SIDE, SIZE, RATIOS = 128, 4, 96, 64, (0.02, 1.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    images = torch.randint(0, 256, (N, 3, SIDE, SIDE), dtype=torch.uint8, device=options.device)
    plans = {style: ViewPlan.parse(f"{V}x{SIZE} {style}", ratios=RATIOS) for style in ("bss", "fa")}
    train = network_pass(plans["bss"](images)[0])
    kornia = kornia_views()
    calls = {"network": train, "kornia": lambda: kornia(images)}
    calls |= {style: lambda plan=plan: plan(images) for style, plan in plans.items()}
    seconds = machine.interleaved(calls, options.rounds)
    result = {"machine": machine.describe()}
    result |= {f"{name}_ms": 1e3 * statistics.median(s) for name, s in seconds.items()}
    for style in plans:
        result[f"{style}_over_network"] = machine.ratio(seconds[style], seconds["network"])
        result[f"{style}_faster_than_kornia"] = machine.ratio(seconds["kornia"], seconds[style])
    if options.json:
        print(json.dumps(result, indent=2))
        return
    for key, value in (result.pop("machine") | result).items():
        print(f"{key}: {value:.3f}" if isinstance(value, float) else f"{key}: {value}")


def network_pass(views: torch.Tensor):
    """Forward and backward of a ResNet-18 on all views at once."""
    network = timm.create_model("resnet18", num_classes=0).to(views.device)
    network = network.to(memory_format=torch.channels_last).train()
    batch = views.flatten(0, 1).to(memory_format=torch.channels_last)

    def step():
        network.zero_grad()
        with torch.autocast(views.device.type, torch.bfloat16):
            features = network(batch)
        features.float().square().mean().backward()

    return step


def kornia_views():
    """The listing, then the PACS recipe by kornia: geometry per image, colour per view."""
    style = listing.BatchStylesStandardization(RATIOS)
    batch = {"same_on_batch": True}
    augment = K.AugmentationSequential(
        K.RandomResizedCrop((SIZE, SIZE), scale=(0.14, 1.0)),
        K.RandomHorizontalFlip(p=0.5),
        K.RandomRotation(15.0, p=0.5),
        K.ColorJitter(0.8, 0.8, 0.8, 0.2, p=0.8, **batch),
        K.RandomEqualize(p=0.2, **batch),
        K.RandomPosterize((4, 4), p=0.2, **batch),
        K.RandomSolarize((0.5, 0.5), (0.0, 0.0), p=0.2, **batch),
        K.RandomGrayscale(p=0.2, **batch),
        K.Normalize(IMAGENET_MEAN, IMAGENET_STD),
        K.RandomErasing(p=0.5, scale=(0.01, 0.16), ratio=(1.0, 1.0)),
    )

    def make(images):
        styled = style(images.float() / 255, V)
        return torch.stack([augment(view) for view in styled.unbind(1)])

    return make


if __name__ == "__main__":
    main()
