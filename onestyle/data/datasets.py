"""The data sets that are known by name: what they consist of, as published.

Published counts check a store, they never make one. A key of `counts` is (domain, class, split);
"" stands for any.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from onestyle.data.sources import Item
from onestyle.data.store import Table
from onestyle.names import instead

__all__ = ["DATASETS", "Dataset", "dataset_named"]

Counts = dict[tuple[str, str, str], int]


@dataclass(frozen=True)
class Dataset:
    name: str
    size: int  # side of its images in a store
    classes: tuple[str, ...]
    counts: Counts
    # (sources, targets) that the paper sets against each other
    combinations: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]

    @property
    def domains(self) -> tuple[str, ...]:
        return tuple(sorted({name for pair in self.combinations for part in pair for name in part}))

    def adapter(self, root: Path) -> Callable[[Item], Item | None]:
        """Item of a source below root -> the item as it belongs to this data set, or None."""
        split = _official_lists(root)

        def adapt(item: Item) -> Item | None:
            if item.label not in self.classes or item.domain not in self.domains:
                return None
            if not split:
                return item
            return item._replace(split=split[item.path]) if item.path in split else None

        return adapt

    def differences(self, table: Table) -> list[str]:
        """What is otherwise than published, one line each."""
        found = []
        for key, published in self.counts.items():
            there = _count(table, key)
            if there != published:
                what = " ".join(filter(None, key)) or "in all"
                found.append(f"{what}: {there:,} images, published are {published:,}")
        return found


class Camelyon17(Dataset):
    def adapter(self, root: Path) -> Callable[[Item], Item | None]:
        """The hub's copy has names of its own, or numbers, and one `validation` for both."""
        adapt = super().adapter(root)

        def with_names(item: Item) -> Item | None:
            hospital = _HUB_HOSPITALS.get(item.domain, item.domain)
            if hospital.isdecimal():
                item = item._replace(domain=f"hospital_{hospital}")
            item = item._replace(label=_HUB_CLASSES.get(item.label, item.label))
            if item.split == "validation":
                item = item._replace(split="val" if item.domain == "hospital_1" else "id_val")
            return adapt(item)

        return with_names


_HUB_HOSPITALS = {
    "train-center1": "0",
    "validation-center": "1",
    "test-center": "2",
    "train-center2": "3",
    "train-center3": "4",
}
_HUB_CLASSES = {"non-tumor": "normal", "0": "normal", "1": "tumor"}


def dataset_named(name: str) -> Dataset:
    if name not in DATASETS:
        raise ValueError(f"unknown data set {name!r}{instead(name, DATASETS, 'data sets')}")
    return DATASETS[name]


def _official_lists(root: Path) -> dict[str, str]:
    """`clipart_train.txt` of DomainNet: lines "clipart/bee/x.jpg 24" -> {name: "train"}."""
    split = {}
    for part in ("train", "test"):
        for file in sorted(root.glob(f"*_{part}.txt")) if root.is_dir() else ():
            for line in file.read_text(encoding="utf-8", errors="surrogateescape").splitlines():
                split[line.rsplit(" ", 1)[0]] = part
    return split


def _count(table: Table, key: tuple[str, str, str]) -> int:
    domain, label, split = key
    return sum(
        n
        for (d, c, s), n in table.counts().items()
        if domain in ("", d) and label in ("", c) and split in ("", s)
    )


def _by_class(classes: tuple[str, ...], **domains: tuple[int, ...]) -> Counts:
    """For each domain the counts of the classes in their order."""
    return {
        (domain, label, ""): n
        for domain, counts in domains.items()
        for label, n in zip(classes, counts, strict=True)
    }


def _leave_one_out(*domains: str):
    return tuple((tuple(d for d in domains if d != target), (target,)) for target in domains)


# PACS (Li et al., 2017): counted on the images, 9,991 in all.
_PACS_CLASSES = ("dog", "elephant", "giraffe", "guitar", "horse", "house", "person")
PACS = Dataset(
    "pacs",
    227,
    _PACS_CLASSES,
    _by_class(
        _PACS_CLASSES,
        art_painting=(379, 255, 285, 184, 201, 295, 449),
        cartoon=(389, 457, 346, 135, 324, 288, 405),
        photo=(189, 202, 182, 186, 199, 280, 432),
        sketch=(772, 740, 753, 608, 816, 80, 160),
    ),
    _leave_one_out("art_painting", "cartoon", "photo", "sketch"),
)

# DomainNet (Peng et al., 2019), cleaned. The 20 classes of DARLING, as later public code lists
# them; counts of the official lists restricted to them.
_PSR, _CIQ = ("painting", "real", "sketch"), ("clipart", "infograph", "quickdraw")
_COMBINATIONS = ((_PSR, _CIQ), (_CIQ, _PSR))
_LIST_A = (
    "The_Eiffel_Tower bee bird blueberry broccoli fish flower giraffe grass hamburger hexagon "
    "horse sun tiger toaster tornado train violin watermelon zigzag"
)
_LIST_B = (
    "airplane bird cooler face finger fork helmet hot_dog laptop mouth parrot pizza postcard "
    "potato rainbow sink star sun table truck"
)
DOMAINNET = Dataset(
    "domainnet",
    256,
    tuple(_LIST_A.split()),
    {
        ("clipart", "", "train"): 2689,
        ("clipart", "", "test"): 1166,
        ("infograph", "", "train"): 3617,
        ("infograph", "", "test"): 1559,
        ("painting", "", "train"): 3917,
        ("painting", "", "test"): 1669,
        ("sketch", "", "train"): 3000,
        ("sketch", "", "test"): 1301,
        ("real", "", "test"): 3239,
        ("quickdraw", "", "test"): 3000,
    },
    _COMBINATIONS,
)
# The other 20 classes that are in use, in an unofficial code of DiMAE and CycleMAE.
DOMAINNET_B = Dataset("domainnet-b", 256, tuple(_LIST_B.split()), {}, _COMBINATIONS)

# Camelyon17-WILDS (Koh et al., 2021), the official split.
CAMELYON17 = Camelyon17(
    "camelyon17",
    96,
    ("normal", "tumor"),
    {
        ("", "", "train"): 302_436,
        ("", "", "id_val"): 33_560,
        ("hospital_1", "", "val"): 34_904,
        ("hospital_2", "", "test"): 85_054,
    },
    ((("hospital_0", "hospital_3", "hospital_4"), ("hospital_1", "hospital_2")),),
)

# The embedded digits: see data/digits.py.
DIGITS = Dataset(
    "digits",
    32,
    tuple("0123456789"),
    {},
    _leave_one_out("ink", "chalk", "neon", "photo"),
)

DATASETS = {each.name: each for each in (PACS, DOMAINNET, DOMAINNET_B, CAMELYON17, DIGITS)}
