"""Batch Styles Standardization at either end of a DataLoader of your own.

python examples/with_your_data_loader.py

In the collate function, the workers make the views. After the loader, the images travel once and
the device makes all views of them: on a GPU that is the better place.
"""

import torch
from torch.utils.data import DataLoader, TensorDataset, default_collate

from onestyle import BatchStylesStandardization
from onestyle.data import digits

standardize = BatchStylesStandardization(ratios=(0.02, 1.0))


def collate(samples):
    """[(image, label), ...] -> views (N, V, 3, H, W), labels (N,)."""
    images, labels = default_collate(samples)
    return standardize(images, n_views=2), labels


def main():
    pixels, labels, _ = digits.load(size=32)
    images = TensorDataset(torch.from_numpy(pixels) / 255, torch.from_numpy(labels))
    options = dict(batch_size=64, shuffle=True, drop_last=True)

    views, _ = next(iter(DataLoader(images, collate_fn=collate, num_workers=2, **options)))

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    batch, _ = next(iter(DataLoader(images, **options)))
    views_there = standardize(batch.to(device, non_blocking=True), n_views=2)
    return views, views_there


if __name__ == "__main__":
    for where, views in zip(("collate function", "after the loader"), main(), strict=True):
        print(f"{where}: views {tuple(views.shape)} on {views.device}")
