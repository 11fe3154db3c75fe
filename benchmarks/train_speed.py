"""What does the loop cost beside the network, and how many views a second does it train on?

python benchmarks/train_speed.py [--rounds 8] [--json]

ResNet-18, bf16, channels_last, N = 128 images (the embedded digits as JPEGs), 64 px views, AdamW:
1. a step of SimCLR + BSS, from the store to the moved weights (V = 4), over the forward and
   backward pass and the move of the same network and loss on ready-made views, taken in turn;
2. views a second from stored images to moved weights (V = 2), against lightly's SimCLR: its
   transform, its data set of the JPEGs and torch's data loader with two workers, one run at a time,
   in turn. The JPEGs have 96 px, as the store that was packed from them; 227 px (those of PACS),
   where the store has them at 96; and 96 px, already decoded.
"""

import argparse
import itertools
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks import machine
from onestyle.data.loader import Loader
from onestyle.data.packing import pack
from onestyle.data.protocol import Pool
from onestyle.data.sources import find_source
from onestyle.data.store import open_store
from onestyle.methods import Batch
from onestyle.nn.backbone import make_backbone
from onestyle.recipes import override, recipe_named
from onestyle.stages.pretrain import make_fabric
from onestyle.stream import Stream
from onestyle.torchvision_cpu import make_importable
from onestyle.train import fit

make_importable()
from lightly.data import LightlyDataset  # noqa: E402
from lightly.loss import NTXentLoss  # noqa: E402
from lightly.models.modules.heads import SimCLRProjectionHead  # noqa: E402
from lightly.transforms import SimCLRTransform  # noqa: E402

N, SIDE, PHOTO, SIZE, WARM, STEPS = 128, 96, 227, 64, 3, 8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for side in (SIDE, PHOTO):
            make_jpegs(Path(folder, f"jpegs{side}"), side)
        store = packed(Path(folder))
        result = {"machine": machine.describe()} | beside_the_network(store, 2 * options.rounds)
        result |= end_to_end(store, Path(folder), options.rounds)
    if options.json:
        print(json.dumps(result, indent=2))
        return
    for key, value in (result.pop("machine") | result).items():
        print(f"{key}: {value:.4g}" if isinstance(value, float) else f"{key}: {value}")


def make_jpegs(folder: Path, side: int) -> None:
    folder.mkdir()
    for k, image in enumerate(open_store(f"digits:{side}").images):
        Image.fromarray(image.transpose(1, 2, 0)).save(folder / f"{k:04}.jpg", quality=92)


def packed(folder: Path):
    pack(find_source(str(folder / f"jpegs{SIDE}")), folder / "store", size=SIDE)
    return open_store(folder / "store")


def simclr(store, n_views: int, steps: int):
    """The recipe's method and stream, as `onestyle pretrain` makes them."""
    settings = [f"views={n_views}x{SIZE}", f"steps={steps}", "monitor_every=0", "log_every=1000"]
    recipe = override(recipe_named("pacs-small/simclr"), settings)
    method = recipe.make_method(make_backbone("resnet18", SIZE))
    loader = Loader(Pool(store, np.arange(len(store))), N)
    return recipe, method, Stream(loader, recipe.plan(), torch.device("cpu"), 0)


def beside_the_network(store, rounds: int) -> dict:
    """Step by step in turn: one of fit(), one of the bare network."""
    recipe, method, stream = simclr(store, 4, rounds + WARM)
    turns = Turns(stream, bare_step(store))
    fit(method, turns, recipe, fabric=make_fabric(recipe.precision, accelerator="cpu"))
    full, bare = turns.full[WARM:], turns.bare[WARM:]
    return {
        "step_ms": 1e3 * statistics.median(full),
        "bare_step_ms": 1e3 * statistics.median(bare),
        "step_over_bare": machine.ratio(full, bare),
    }


class Turns:
    """The stream, with a step of the bare network after each step that it feeds, both timed."""

    def __init__(self, stream: Stream, other):
        self.stream, self.other, self.n_views = stream, other, stream.n_views
        self.seconds, self.full, self.bare = stream.seconds, [], []

    def batches(self, start: int, stop: int):
        inner = self.stream.batches(start, stop)
        while True:
            began = time.perf_counter()
            batch = next(inner, None)
            if batch is None:
                return
            yield batch
            self.full.append(time.perf_counter() - began)
            began = time.perf_counter()
            self.other()
            self.bare.append(time.perf_counter() - began)


def bare_step(store):
    """Plain torch on views that are there."""
    recipe, method, stream = simclr(store, 4, 1)
    method = method.train().to(memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(method.parameters(), recipe.lr, fused=True)
    (ready,) = stream.batches(0, 1)
    batch = Batch(ready.views, ready.places, 0, ready.generator)

    def step() -> None:
        with torch.autocast("cpu", torch.bfloat16):
            loss, _ = method(batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def end_to_end(store, folder: Path, rounds: int) -> dict:
    decoded = [Image.fromarray(image.transpose(1, 2, 0)) for image in store.images]

    def of_files(side: int) -> float:
        return lightlys(LightlyDataset(str(folder / f"jpegs{side}"), transform=transform()))

    ways = {
        "onestyle": lambda: ours(store),
        f"lightly_{SIDE}": lambda: of_files(SIDE),
        f"lightly_{PHOTO}": lambda: of_files(PHOTO),
        "lightly_decoded": lambda: lightlys(Decoded(decoded)),
    }
    speeds = {name: [] for name in ways}
    for _ in range(max(1, rounds // 2)):
        for name, way in ways.items():
            speeds[name].append(way())
    found = {f"{name}_views_a_second": statistics.median(s) for name, s in speeds.items()}
    for name in list(ways)[1:]:
        found[f"faster_than_{name}"] = machine.ratio(speeds["onestyle"], speeds[name])
    return found


def ours(store) -> float:
    """Views a second of STEPS steps of fit(), after WARM of them."""
    recipe, method, stream = simclr(store, 2, WARM + STEPS)
    turns = Turns(stream, lambda: None)
    fit(method, turns, recipe, fabric=make_fabric(recipe.precision, accelerator="cpu"))
    return 2 * N * STEPS / sum(turns.full[WARM:])


def transform() -> SimCLRTransform:
    return SimCLRTransform(input_size=SIZE)


class Decoded(torch.utils.data.Dataset):
    """The same images without a file to open."""

    def __init__(self, images: list):
        self.images, self.transform = images, transform()

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, k: int):
        return self.transform(self.images[k]), 0, ""


def lightlys(dataset) -> float:
    """lightly's SimCLR as its documentation puts it together, in bf16 and channels_last as ours."""
    torch.manual_seed(0)
    backbone = make_backbone("resnet18", SIZE)
    network = torch.nn.Sequential(backbone, SimCLRProjectionHead(512, 512, 128))
    network = network.to(memory_format=torch.channels_last)
    optimizer, criterion = torch.optim.AdamW(network.parameters(), 1e-3), NTXentLoss(0.5)
    loader = torch.utils.data.DataLoader(
        dataset, N, shuffle=True, drop_last=True, num_workers=2, persistent_workers=True
    )
    epochs = itertools.chain.from_iterable(itertools.repeat(loader))
    for step, (views, *_) in enumerate(itertools.islice(epochs, WARM + STEPS)):
        if step == WARM:
            began = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16):
            z0, z1 = (network(v.contiguous(memory_format=torch.channels_last)) for v in views[:2])
            loss = criterion(z0.float(), z1.float())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return 2 * N * STEPS / (time.perf_counter() - began)


if __name__ == "__main__":
    main()
