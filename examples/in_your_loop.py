"""Batch Styles Standardization in a training loop of your own: plain PyTorch, and lightly's loss.

python examples/in_your_loop.py [STEPS]

The one line is `views = standardize(images, n_views=2)`. Crop and flip after it, image by image; a
colour augmentation must be one for the whole batch, or each image has its own style again.
"""

import sys

import torch
import torch.nn.functional as F
from torch import nn

from onestyle import BatchStylesStandardization
from onestyle.data import digits
from onestyle.torchvision_cpu import make_importable

make_importable()  # only beside a CPU-only torch, and only before timm, torchvision or lightly
from lightly.loss import NTXentLoss  # noqa: E402

standardize = BatchStylesStandardization(ratios=(0.02, 1.0))


def main(steps: int = 30) -> dict[str, list[float]]:
    images = torch.from_numpy(digits.load(size=32)[0]).float() / 255  # (1797, 3, 32, 32) in [0, 1]
    return {"plain": train(images, nt_xent, steps), "lightly": train(images, by_lightly, steps)}


def train(images, loss_of, steps):
    torch.manual_seed(0)
    network = small_network()
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    losses = []
    for _ in range(steps):
        batch = images[torch.randint(len(images), (64,))]
        views = standardize(batch, n_views=2)  # (N, V, 3, H, W): a column has one style
        z = network(views.flatten(0, 1)).unflatten(0, views.shape[:2])  # (N, V, D)
        loss = loss_of(*z.unbind(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def nt_xent(z0, z1, temperature=0.5):
    """-log softmax over the other 2N - 1 embeddings, of the other view of the same image."""
    z = F.normalize(torch.cat([z0, z1]), dim=1)
    logits = (z @ z.T / temperature).fill_diagonal_(float("-inf"))
    return F.cross_entropy(logits, torch.arange(len(z)).roll(len(z0)))


by_lightly = NTXentLoss(temperature=0.5)


def small_network():
    def block(c_in, c_out):
        return nn.Conv2d(c_in, c_out, 3, stride=2, padding=1), nn.BatchNorm2d(c_out), nn.ReLU()

    return nn.Sequential(
        *block(3, 16), *block(16, 32), *block(32, 64), nn.Flatten(), nn.LazyLinear(32)
    )


if __name__ == "__main__":
    for name, losses in main(*map(int, sys.argv[1:])).items():
        print(f"{name}: loss {losses[0]:.3f} -> {losses[-1]:.3f} in {len(losses)} steps")
