"""How fast is a store packed and read, and does memory stay flat however large it is?

python benchmarks/data_speed.py [--rounds 15] [--images 200000] [--json]

1. Batches of 256 images of 227 px, random rows of a warm store, against a plain copy of as many
   bytes; decoding against a plain loop with Pillow, on the same 600 photographs-like JPEGs.
2. A store of 200,000 images of 32 px, packed and read through: the peak of the process's anonymous
   resident memory (RssAnon), in a fresh process.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks import machine
from onestyle.data.loader import Loader
from onestyle.data.packing import pack
from onestyle.data.protocol import Pool
from onestyle.data.sources import find_source
from onestyle.data.store import open_store

SIDE, BATCH = 227, 256


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--images", type=int, default=200_000, help="of the large store")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--peak-in", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peak_in:
        print(machine.peak_memory(lambda: pack_and_read(options.peak_in)))
        return
    with tempfile.TemporaryDirectory() as folder:
        result = {"machine": machine.describe()} | reading(Path(folder), options.rounds)
        if options.images:
            result |= large_store(Path(folder) / "large", options.images)
    if options.json:
        print(json.dumps(result, indent=2))
        return
    for key, value in (result.pop("machine") | result).items():
        print(f"{key}: {value:.3g}" if isinstance(value, float) else f"{key}: {value}")


def reading(folder: Path, rounds: int) -> dict:
    make_jpegs(folder / "jpegs", 600)
    started = time.perf_counter()
    for path in sorted((folder / "jpegs").iterdir()):
        np.asarray(Image.open(path).convert("RGB").resize((SIDE, SIDE), Image.Resampling.LANCZOS))
    by_pillow = time.perf_counter() - started
    started = time.perf_counter()
    pack(find_source(str(folder / "jpegs")), folder / "store", size=SIDE)
    packed = time.perf_counter() - started

    store = open_store(folder / "store")
    dice = np.random.default_rng(0)
    plain = store.read(np.arange(BATCH))
    seconds = machine.interleaved(
        {
            "read": lambda: store.read(dice.permutation(len(store))[:BATCH]),
            "copy": lambda: plain.copy(),
        },
        rounds,
    )
    return {
        "read_ms": 1e3 * statistics.median(seconds["read"]),
        "copy_ms": 1e3 * statistics.median(seconds["copy"]),
        "read_over_copy": machine.ratio(seconds["read"], seconds["copy"]),
        "packed_images_a_second": 600 / packed,
        "pillow_images_a_second": 600 / by_pillow,
        "packing_over_pillow": by_pillow / packed,
    }


def make_jpegs(folder: Path, n: int) -> None:
    """Smooth noise, 320 x 240: as many bytes as a photograph of that size."""
    folder.mkdir()
    dice = np.random.default_rng(0)
    for k in range(n):
        rough = Image.fromarray(dice.integers(0, 256, (60, 80, 3), np.uint8))
        rough.resize((320, 240), Image.Resampling.BICUBIC).save(folder / f"{k:04}.jpg", quality=90)


def large_store(folder: Path, n: int) -> dict:
    """n files of 32 px in ten domains and ten classes, packed and read by a process of its own."""
    dice = np.random.default_rng(0)
    pixels = dice.integers(0, 256, (100, 32, 32, 3), np.uint8)
    for kind in range(100):
        here = folder / "files" / f"domain_{kind // 10}" / f"class_{kind % 10}"
        here.mkdir(parents=True)
        for k in range(n // 100):
            Image.fromarray(pixels[k % 100]).save(here / f"{k:06}.bmp")
    started = time.perf_counter()
    command = [sys.executable, __file__, "--peak-in", str(folder)]
    peak = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    seconds = time.perf_counter() - started
    return {"large_store": f"{n:,} images", "large_s": seconds, "peak_rss_anon_mb": peak / 1e6}


def pack_and_read(folder: Path) -> None:
    pack(find_source(str(folder / "files")), folder / "store", size=32)
    store = open_store(folder / "store")
    loader = Loader(Pool(store, np.arange(len(store))), BATCH)
    for _ in loader.batches(0, len(store) // BATCH):
        pass


if __name__ == "__main__":
    main()
