"""Features of images, unaugmented: in memory, or written with what is known of each image."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from onestyle.checkpoint import write_whole
from onestyle.data.protocol import Images, Pool, Split
from onestyle.data.store import Store
from onestyle.progress import progress
from onestyle.report import escape
from onestyle.run import write_result
from onestyle.views import IMAGENET_MEAN, IMAGENET_STD

if TYPE_CHECKING:
    from onestyle.stages.frozen import Frozen

__all__ = ["COLUMNS", "check_out", "embed", "features", "prepare"]

COLUMNS = ("path", "domain", "class", "split", "part")
MISSING = "parquet needs pip install 'onestyle[hub]'; a name that ends in .npy does without"
Three = tuple[float, ...]


def prepare(
    images: Tensor, size: int, mean: Three = IMAGENET_MEAN, std: Three = IMAGENET_STD
) -> Tensor:
    """uint8 (n, 3, S, S) -> (n, 3, size, size), normalised."""
    x = images.float() / 255
    if x.shape[-1] != size:
        x = F.interpolate(x, (size, size), mode="bilinear", antialias=True).clamp_(0, 1)
    centre, spread = (x.new_tensor(three)[:, None, None] for three in (mean, std))
    return (x - centre) / spread


@torch.inference_mode()
def features(
    network: Callable[[Tensor], Tensor],
    pool: Images,
    size: int,
    device: torch.device | str = "cpu",
    *,
    mean: Three = IMAGENET_MEAN,
    std: Three = IMAGENET_STD,
    chunk: int = 256,
    show: Callable[[int], object] = lambda done: None,
) -> Tensor:
    """The features (n, d) of a pool's images at `size` pixels, float32 on the CPU.

    The network is to be in eval mode; images are read, and features made, a chunk at a time.
    """
    found = []
    for start in range(0, len(pool), chunk):
        places = range(start, min(start + chunk, len(pool)))
        images = torch.from_numpy(pool.images(places)).to(device)
        found.append(network(prepare(images, size, mean, std)).float().cpu())
        show(places.stop)
    return torch.cat(found)


# ------------------------------------------------------------------------------- as a file


class Part(NamedTuple):
    """`name` is train, val or target; that of images outside any protocol is empty."""

    name: str
    pool: Pool


def embed(
    frozen: Frozen,
    store: Store,
    split: Split | None,
    out: Path,
    *,
    device: torch.device | str = "cpu",
    force: bool = False,
) -> int:
    """Write the features of a store's images to `out`, in the order of the store; how many.

    OUT.npy holds (n, d) float32, the rows of OUT.csv name the images; OUT.parquet holds both. What
    they are of is said beside them, in OUT.npy.json or OUT.parquet.json. With a run's split its
    parts are taken: images in no part stay unseen, target images are counted as opened. Without a
    split all images are.
    """
    check_out(out, force=force)
    parts, done = _parts(frozen, store, split), 0
    n, found = sum(len(pool) for _, pool in parts), []
    with progress("features", n) as bar:
        for _, pool in parts:
            show = lambda now, before=done: bar.show(before + now)  # noqa: E731
            found.append(frozen.features(pool, device, show=show).numpy())
            done += len(pool)
    rows = np.concatenate([pool.rows for _, pool in parts])
    names = np.repeat([name for name, _ in parts], [len(pool) for _, pool in parts])
    order = np.argsort(rows)
    table = _table(store, rows[order], names[order].tolist())
    write = _write_parquet if out.suffix == ".parquet" else _write_npy
    write(out, np.concatenate(found)[order], table)
    write_result(_beside(out)[0], _about(frozen, store, split, parts), _config(frozen))
    return n


def check_out(out: Path, *, force: bool = False) -> None:
    """Say what would keep features from being written, before any work is done."""
    if out.suffix not in (".npy", ".parquet"):
        raise ValueError(f"{out}: features go into a file that ends in .npy or .parquet")
    if not out.parent.is_dir():
        raise ValueError(f"{out}: there is no folder {out.parent}")
    if out.suffix == ".parquet":
        try:
            import pyarrow.parquet  # noqa: F401
        except ModuleNotFoundError as error:
            raise ValueError(MISSING) from error
    for file in (out, *_beside(out)):
        if file.exists() and not force:
            raise ValueError(f"{file} exists; --force overwrites it")


def _beside(out: Path) -> list[Path]:
    about = out.with_name(f"{out.name}.json")
    return [about, out.with_suffix(".csv")] if out.suffix == ".npy" else [about]


def _parts(frozen: Frozen, store: Store, split: Split | None) -> list[Part]:
    if frozen.run is None or split is None:
        return [Part("", Pool(store, np.arange(len(store))))]
    log = frozen.run.openings
    parts = [Part("train", Pool(store, split.train)), Part("val", Pool(store, split.val))]
    opened = [split.open_target(store, name, log=log, why="analysis") for name in split.targets]
    parts += [Part("target", pool) for pool in opened]
    return [part for part in parts if len(part.pool)]


def _table(store: Store, rows: np.ndarray, parts: list[str]) -> dict[str, list[str]]:
    table = store.table
    domains, classes = (*table.domains, ""), (*table.classes, "")  # -1 is the last
    columns = (
        [table.path[row] for row in rows],
        [domains[k] for k in table.domain[rows]],
        [classes[k] for k in table.label[rows]],
        [table.split[row] for row in rows],
        parts,
    )
    return dict(zip(COLUMNS, columns, strict=True))


def _write_npy(out: Path, found: np.ndarray, table: dict[str, list[str]]) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table)
    writer.writerows(map(escape.csv, row) for row in zip(*table.values(), strict=True))
    write_whole(out, lambda file: np.save(file, found))
    write_whole(_beside(out)[1], lambda file: file.write(text.getvalue().encode()))


def _write_parquet(out: Path, found: np.ndarray, table: dict[str, list[str]]) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    columns: dict[str, Any] = {name: pa.array(words, pa.string()) for name, words in table.items()}
    columns["feature"] = pa.FixedSizeListArray.from_arrays(found.ravel(), found.shape[1])
    write_whole(out, lambda file: parquet.write_table(pa.table(columns), file))


def _config(frozen: Frozen) -> dict[str, Any]:
    return frozen.run.config if frozen.run else frozen.about


def _about(frozen: Frozen, store: Store, split: Split | None, parts: list[Part]) -> dict[str, Any]:
    counts: dict[str, int] = {}
    for name, pool in parts:
        counts[name or "all"] = counts.get(name or "all", 0) + len(pool)
    data = {"store": store.name, "n": len(store), "size": store.size, "parts": counts}
    data |= {"split": split.hash, "targets": list(split.targets)} if split else {}
    of = {"network": frozen.about, "size": frozen.size, "width": frozen.width}
    return {"stage": "embed", **of, "data": data}
