"""What all tests share: oracles that import, the same examples everywhere, real images."""

import io
import os
import random
import tarfile
from itertools import chain, islice, zip_longest
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import settings
from PIL import Image

from onestyle.torchvision_cpu import make_importable

make_importable()  # before a test imports timm, kornia, lightly or torchvision
settings.load_profile("ci")  # the same examples everywhere; no deadline, as no test asserts speed


@pytest.fixture(scope="session")
def pacs_path():
    """PACS as `domain/class/image`, an archive or a folder: the one that ONESTYLE_PACS names, else
    shared/data/pacs.tar beside the checkout. Without either, the test is skipped."""
    named = os.environ.get("ONESTYLE_PACS")
    path = Path(named or Path(__file__).parents[2] / "shared/data/pacs.tar")
    if not path.exists():
        if named:
            raise FileNotFoundError(f"ONESTYLE_PACS names {named}, which does not exist")
        pytest.skip("needs PACS: set ONESTYLE_PACS to its archive or folder (domain/class/image)")
    return path


@pytest.fixture(scope="session")
def pacs(pacs_path):
    """`pacs(n=120)`: real images, uint8 (n, 3, 227, 227), spread over domains and classes."""

    def images(n=120):
        contents = read(pacs_path, lambda names: spread(names, n))
        return torch.stack([decode(data) for data in contents])

    return images


def read(path, choose):
    """Contents of those image files of a folder or tar archive whose names `choose` returns."""
    if path.is_dir():
        files = {str(file.relative_to(path)): file for file in path.rglob("*") if is_image(file)}
        return [files[name].read_bytes() for name in choose(files)]
    with tarfile.open(path) as archive:
        files = {member.name: member for member in archive if is_image(member.name)}
        return [archive.extractfile(files[name]).read() for name in choose(files)]


def is_image(name):
    return Path(name).suffix in {".jpg", ".png"}


def spread(names, n):
    """n of the names, always the same: one of each folder in turn, in shuffled order."""
    folders = {}
    for name in sorted(names):
        folders.setdefault(Path(name).parts[-3:-1], []).append(name)
    for folder in folders.values():
        random.Random(0).shuffle(folder)
    in_turn = chain.from_iterable(zip_longest(*folders.values()))
    return list(islice(filter(None, in_turn), n))


def decode(data):
    return torch.from_numpy(np.array(Image.open(io.BytesIO(data)).convert("RGB"))).permute(2, 0, 1)
