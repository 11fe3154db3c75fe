"""Is a store what it was when it was packed, and what its data set is said to be?"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import NamedTuple

from onestyle.data.datasets import DATASETS
from onestyle.data.store import Store, checksum, open_store

__all__ = ["Report", "check"]


class Report(NamedTuple):
    store: Store
    wrong: list[str]  # a line each
    notes: list[str]


def check(path: Path | str) -> Report:
    """Checksums, published counts, images that occur twice."""
    store = open_store(path)
    wrong, notes = [], []
    if "pixels_sha256" in store.manifest:
        folder = Path(path)
        start = (folder / "images.npy").stat().st_size - store.images.nbytes
        for name, skip, key in (
            ("images.npy", start, "pixels_sha256"),
            ("table.csv", 0, "table_sha256"),
        ):
            if checksum(folder / name, skip) != store.manifest[key]:
                wrong.append(f"{name} is not what was packed: its checksum differs")
    dataset = DATASETS.get(store.manifest["dataset"])
    if dataset is not None and dataset.counts:
        differences = dataset.differences(store.table)
        wrong += differences
        if not differences:
            notes.append(f"the counts are the published ones of {dataset.name}")
    return Report(store, wrong, [*notes, *_lonely(store), *_twins(store), *_left_out(store)])


def _lonely(store: Store) -> list[str]:
    """Classes that tell the domain; packing refuses them, unless bad images were all the others."""
    homes: dict[str, set[str]] = {}
    for domain, label, _ in store.table.counts():
        homes.setdefault(label, set()).add(domain)
    several = len(set().union(*homes.values())) > 1
    lonely = sorted(label for label, found in homes.items() if label and len(found) == 1)
    return [f"class {name} is in domain {min(homes[name])} alone" for name in lonely if several]


def _twins(store: Store) -> list[str]:
    """Images whose files are equal: where they lie in two domains, something leaks."""
    domains: dict[str, list[int]] = {}
    for sha256, domain in zip(store.table.sha256, store.table.domain.tolist(), strict=True):
        domains.setdefault(sha256, []).append(domain)
    twins = [found for sha256, found in domains.items() if sha256 and len(found) > 1]
    if not twins:
        return []
    n, across = sum(map(len, twins)), sum(len({*found}) > 1 for found in twins)
    return [
        f"{n} files are not unique ({len(twins)} contents, {across} of them in several domains)"
    ]


def _left_out(store: Store) -> list[str]:
    left_out = store.manifest.get("left_out", [])
    reasons = Counter(reason for _, reason in left_out)
    return [f"left out when packed: {n} x {reason}" for reason, n in reasons.most_common()]
