"""Is a store what it was when it was packed, and what its data set is said to be?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from onestyle.data.datasets import DATASETS
from onestyle.data.store import Store, checksum, open_store

__all__ = ["Report", "check"]


class Report(NamedTuple):
    store: Store
    wrong: list[str]  # a line each
    notes: list[str]


def check(path: Path | str, progress: Callable[[int, int], None] = lambda done, of: None) -> Report:
    """Checksums, published counts, images that occur twice. `progress` hears of MB."""
    store = open_store(path)
    wrong, notes = [], []
    if store.path:
        wrong += _changed(store, store.path, progress)
    dataset = DATASETS.get(store.manifest["dataset"])
    if dataset is not None and dataset.counts:
        differences = dataset.differences(store.table)
        wrong += differences
        if not differences:
            notes.append(f"the counts are the published ones of {dataset.name}")
    return Report(store, wrong, [*notes, *_lonely(store), *_twins(store), *_left_out(store)])


def _changed(store: Store, folder: Path, progress: Callable[[int, int], None]) -> list[str]:
    mb, start = 10**6, (folder / "images.npy").stat().st_size - store.images.nbytes
    of = store.images.nbytes // mb
    pixels = checksum(folder / "images.npy", start, lambda n: progress(n // mb, of))
    found = {"images.npy": pixels, "table.csv": checksum(folder / "table.csv")}
    packed = {"images.npy": "pixels_sha256", "table.csv": "table_sha256"}
    return [
        f"{name} is not what was packed: its checksum differs"
        for name, key in packed.items()
        if found[name] != store.manifest[key]
    ]


def _lonely(store: Store) -> list[str]:
    """Classes that tell the domain; packing refuses them, unless bad images were all the others."""
    homes: dict[str, set[str]] = {}
    for domain, label, _ in store.table.counts():
        if label:
            homes.setdefault(label, set()).add(domain)
    several = len(set().union(*homes.values())) > 1
    lonely = sorted(label for label, found in homes.items() if len(found) == 1)
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
