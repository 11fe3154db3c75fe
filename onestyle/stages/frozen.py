"""A network to be looked at, not trained: of a run, of timm or of a file; and its images."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from onestyle.checkpoint import load_strictly, read_about, read_weights
from onestyle.data.protocol import Images, Split, make_split
from onestyle.data.store import Store, open_store
from onestyle.methods import Method, method_named
from onestyle.nn.backbone import make_backbone
from onestyle.recipes import Recipe
from onestyle.run import Run, read_run
from onestyle.stages.embed import features
from onestyle.torchvision_cpu import make_importable
from onestyle.views import IMAGENET_MEAN, IMAGENET_STD

__all__ = ["Frozen", "open_frozen", "open_images", "open_untrained"]


@dataclass(frozen=True)
class Frozen:
    """`network`, in eval mode, makes features (n, d) of normalised images (n, 3, size, size)."""

    network: nn.Module
    timm: str  # its name there
    size: int
    about: dict[str, Any]  # where it comes from, for a result.json
    run: Run | None = None
    mean: tuple[float, ...] = IMAGENET_MEAN
    std: tuple[float, ...] = IMAGENET_STD

    @property
    def width(self) -> int:
        return int(self.network.num_features)  # pyright: ignore

    def features(self, pool: Images, device: torch.device | str = "cpu", **options) -> Tensor:
        """(n, d) of a pool's images, float32 on the CPU."""
        normal = {"mean": self.mean, "std": self.std}
        return features(self.network.to(device), pool, self.size, device, **normal, **options)


def open_frozen(
    what: str,
    *,
    backbone: str | None = None,
    size: int | None = None,
    options: Mapping[str, Any] | None = None,
    seed: int = 0,
    tuned: bool = False,
) -> Frozen:
    """`what` is a run's folder, "timm:NAME" (its pretrained weights), "random:NAME" (the same
    network, untrained, with the weights of `seed`) or a file of weights.

    A file that does not say which network it is of needs `backbone`, timm's name. `size` is the
    side of the images that are given to the network; a run has that of its largest views. `options`
    are timm's, of a network that is named so. With `tuned` a run's network is what its method has
    fine-tuned, which may be more than its backbone.
    """
    kind, colon, name = what.partition(":")
    if colon and kind in ("timm", "random"):
        torch.manual_seed(seed)
        return _of_timm(name, kind, size, dict(options or {}))
    path = Path(what)
    if path.is_dir():
        return _of_run(read_run(path), size, tuned)
    return _of_file(path, backbone, size)


def open_untrained(recipe: Recipe, seed: int) -> Frozen:
    """The network that a recipe begins with."""
    torch.manual_seed(seed)
    options = {"init": recipe.init, "options": recipe.backbone_options}
    network = make_backbone(recipe.backbone, recipe.view_size, **options)
    init = recipe.init if recipe.init in ("random", "timm") else "file"
    about = {"timm": recipe.backbone, "init": init, "own": True}  # the recipe's, not one named
    return Frozen(_still(network), recipe.backbone, recipe.view_size, about)


def _of_run(run: Run, size: int | None, tuned: bool) -> Frozen:
    recipe = run.recipe
    size = size or recipe.view_size
    options = {"init": str(run.backbone), "options": recipe.backbone_options}
    network = make_backbone(recipe.backbone, recipe.view_size, **options)
    result = run.read_result()
    about = {key: result[key] for key in ("recipe", "config_hash", "images_seen", "views_seen")}
    about = {"run": run.path.resolve().name, **about, "pretraining_data": result["data"]}
    if tuned and method_named(recipe.method).tuned is not Method.tuned:
        network = _tuned(run, network)
        about["weights"] = run.tuned.name
    return Frozen(_still(network), recipe.backbone, size, about, run)


def _tuned(run: Run, backbone: nn.Module) -> nn.Module:
    """The backbone with the layers after it that the run's method keeps, weights and all."""
    n_domains = len(run.config["data"]["sources"])
    network = run.recipe.make_method(backbone, n_domains=n_domains).tuned()
    load_strictly(network, read_weights(run.tuned), run.tuned)
    return network


def _of_timm(name: str, init: str, size: int | None, options: dict[str, Any]) -> Frozen:
    make_importable()
    import timm.data

    network = make_backbone(name, size or 224, init=init, options=options)
    there = timm.data.resolve_model_data_config(network)  # pyright: ignore
    about = {"timm": name, "init": init} | ({"options": options} if options else {})
    size = size or int(there["input_size"][-1])
    return Frozen(_still(network), name, size, about, None, there["mean"], there["std"])


def _of_file(path: Path, backbone: str | None, size: int | None) -> Frozen:
    if not path.is_file():
        raise ValueError(f"{path} is neither a run nor a file of weights; timm:NAME is one of timm")
    name = backbone or read_about(path).get("timm")
    if name is None:
        raise ValueError(f"{path} does not say which network it is of: name it by --backbone")
    network = make_backbone(name, size or 224, init=str(path))
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    about = {"file": path.name, "sha256": sha256, "timm": name, "init": "file"}
    return Frozen(_still(network), name, size or 224, about)


def _still(network: nn.Module) -> nn.Module:
    return network.eval().requires_grad_(False)


def open_images(
    frozen: Frozen,
    store: Path | str | None = None,
    *,
    targets: Iterable[str] = (),
    sources: Iterable[str] = (),
    draw: int = 0,
) -> tuple[Store, Split]:
    """The store and the split of a run, which must be those that it was trained on.

    For a network without a run they are what is asked for.
    """
    run, targets, sources = frozen.run, tuple(targets), tuple(sources)
    if run is None:
        if store is None:
            raise ValueError(
                f"{next(iter(frozen.about.values()))} has no images: name --data STORE"
            )
        opened = open_store(store)
        return opened, make_split(opened.table, sources=sources, targets=targets, draw=draw)
    opened = open_store(store or run.store_name)
    of = run.config["data"]
    for what, asked in (("targets", targets), ("sources", sources)):
        if asked and sorted(asked) != sorted(of[what]):
            there = ", ".join(of[what]) or "none"
            raise ValueError(
                f"{run.path} was trained with the {what} {there}, not {' '.join(asked)}"
            )
    protocol = {"sources": of["sources"], "targets": of["targets"]}
    same = (len(opened), opened.size) == (of["n"], of["size"])
    same = same and opened.manifest.get("pixels_sha256") == of.get("pixels_sha256")
    same = same and {*of["sources"], *of["targets"]} <= {*opened.table.domains}
    if not same or make_split(opened.table, **protocol).hash != of["split"]:
        raise ValueError(f"{opened.path or store} is not the store that {run.path} was trained on")
    return opened, make_split(opened.table, **protocol, draw=draw)
