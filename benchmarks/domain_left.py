"""How much of a data set's domains does one style for all images leave?

python benchmarks/domain_left.py [--data digits] [--targets photo] [--images 300] [--json]

BSS makes low-frequency amplitudes equal; what tells domains apart in the phase or beyond the window
stays, and negatives of one style still differ by it. For several r, held at that value: source
images, as many of each domain, are given the style of one of them (the mean over four such), or
with FA each its own, and go through an untrained ResNet-18 of half the width. Domain purity of 20
neighbours, and the accuracy of a linear classifier of the domain on a third of the images that it
was not fitted on. No target image is opened.
"""

import argparse
import json
import sys
from pathlib import Path

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks import machine
from onestyle import BatchStylesStandardization, FourierAugmentation
from onestyle.analysis.neighbours import agreement
from onestyle.data.protocol import Pool, make_split
from onestyle.data.store import open_store
from onestyle.nn.backbone import make_backbone
from onestyle.views import IMAGENET_MEAN, IMAGENET_STD

RATIOS = (0.06, 0.1, 0.15, 0.3, 0.5, 1.0)
N_STYLES = 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="digits")
    parser.add_argument("--targets", nargs="*", default=["photo"])
    parser.add_argument("--images", type=int, default=300, help="of each domain")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    images, domain = source_images(options.data, options.targets, options.images)
    torch.manual_seed(0)
    channels = {"channels": (32, 64, 128, 256)}
    network = make_backbone("resnet18", images.shape[-1], options=channels).train()

    found = {"as they are": told_apart(network, images, domain)}
    for r in RATIOS:
        generator = torch.Generator().manual_seed(1)
        one = BatchStylesStandardization((r, r))(images, N_STYLES, generator=generator)
        own = FourierAugmentation((r, r))(images, 1, generator=generator)[:, 0]
        each = [told_apart(network, one[:, v], domain) for v in range(N_STYLES)]
        found[f"r = {r}, BSS"] = tuple(np.mean(each, 0))
        found[f"r = {r}, FA"] = told_apart(network, own, domain)

    chance = 1 / len(domain.unique())
    if options.json:
        about = {"machine": machine.describe(), "data": options.data, "chance": chance}
        print(json.dumps(about | found, indent=2))
        return
    print(f"{options.data}, {len(images)} source images, chance {chance:.2f}: purity, linear")
    for name, (purity, linear) in found.items():
        print(f"{name:14} {purity:.2f} {linear:.2f}")


def source_images(data: str, targets: list[str], n: int) -> tuple[Tensor, Tensor]:
    """(N, 3, S, S) in [0, 1] and their domains, n of each source."""
    store, dice = open_store(data), np.random.default_rng(0)
    train = make_split(store.table, targets=targets).train
    domains = store.table.domain[train]
    rows = [dice.permutation(train[domains == d])[:n] for d in np.unique(domains)]
    pool = Pool(store, np.concatenate(rows))
    pixels = torch.from_numpy(pool.images(np.arange(len(pool))))
    return pixels / 255, torch.from_numpy(pool.domains).long()


@torch.no_grad()
def told_apart(network: torch.nn.Module, images: Tensor, domain: Tensor) -> tuple[float, float]:
    """Domain purity of the network's features, and the accuracy of a linear classifier."""
    mean, std = (torch.tensor(three)[:, None, None] for three in (IMAGENET_MEAN, IMAGENET_STD))
    features = network((images - mean) / std)
    order = torch.randperm(len(features), generator=torch.Generator().manual_seed(0))
    fitted, tried = order[len(order) // 3 :], order[: len(order) // 3]
    z = (features - features[fitted].mean(0)) / (features[fitted].std(0) + 1e-6)
    classifier = LogisticRegression(C=0.1, max_iter=300).fit(z[fitted], domain[fitted])
    linear = classifier.score(z[tried].numpy(), domain[tried].numpy())
    return agreement(features, domain, (20,))[20], float(linear)


if __name__ == "__main__":
    main()
