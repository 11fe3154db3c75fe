"""The forms in which a backbone leaves: what is written, and the lines of Python that load it.

The lines have one gap, {images}. A reader of the card finds an example in it; the check, which runs
the very same lines, puts real images there.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch

from onestyle.checkpoint import load_strictly, save, save_weights
from onestyle.stages.frozen import Frozen
from onestyle.torchvision_cpu import make_importable

__all__ = ["FORMATS", "Format"]

RESNETS = (  # those whose keys and shapes are the same in timm and torchvision
    *("resnet18", "resnet34", "resnet50", "resnet101", "resnet152"),
    *("resnext50_32x4d", "resnext101_32x8d", "resnext101_64x4d"),
    *("wide_resnet50_2", "wide_resnet101_2"),
)
OF_INPUT = ("input_size", "fixed_input_size", "mean", "std", "interpolation", "crop_pct")
OF_LAYERS = ("num_classes", "first_conv", "classifier", "custom_load")
MISSING = "an export to ONNX needs pip install 'onestyle[onnx]'"


class Format(NamedTuple):
    library: str
    write: Callable[[Frozen, Path], str]  # into a folder; the lines
    example: str  # what a reader finds in the gap
    real: str  # what the check puts there: `given` are images (n, 3, s, s), float32 numpy


def _write_timm(frozen: Frozen, folder: Path) -> str:
    from timm.models import get_model_args

    about = {"timm": frozen.timm, "num_features": str(frozen.width)}
    save_weights(folder / "model.safetensors", frozen.network, about)
    options = [f"{key}={value!r}" for key, value in get_model_args(frozen.network).items()]
    options = ", ".join([repr(frozen.timm), *options, 'checkpoint_path="model.safetensors"'])
    return _TIMM.format(options=options) + _forward(frozen)


def _write_hub_folder(frozen: Frozen, folder: Path) -> str:
    from timm.models import save_for_hf

    side = (3, frozen.size, frozen.size)
    data = {"input_size": side, "mean": frozen.mean, "std": frozen.std, "crop_pct": 1.0}
    data["interpolation"] = "bilinear"
    save_for_hf(frozen.network, str(folder), safe_serialization=True, data_config=data)
    file = folder / "config.json"
    config = json.loads(file.read_text(encoding="utf-8"))
    said = config["pretrained_cfg"]  # tag and licence too, but those are of timm's own weights
    config["pretrained_cfg"] = {key: said[key] for key in OF_INPUT + OF_LAYERS if key in said}
    file.write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
    return _TIMM.format(options='"local-dir:.", pretrained=True') + _forward(frozen)


def _write_torchvision(frozen: Frozen, folder: Path) -> str:
    name = frozen.timm.partition(".")[0]
    if name not in RESNETS:
        raise ValueError(
            f"torchvision has no {frozen.timm} with these layers, only {', '.join(RESNETS)}; "
            "timm and hub-folder take every network"
        )
    make_importable()
    import torchvision

    there, state = torchvision.models.get_model(name), frozen.network.state_dict()
    there.fc = torch.nn.Identity()
    load_strictly(there, state, f"the backbone of torchvision's {name}:")
    save(folder / "model.pth", dict(state))
    return _TORCHVISION.format(name=name) + _forward(frozen)


def _write_onnx(frozen: Frozen, folder: Path) -> str:
    """With any number of images; the side is fixed."""
    try:
        import onnx
        import onnxruntime  # noqa: F401  the check needs it
        import onnxscript  # noqa: F401  torch's exporter does
    except ModuleNotFoundError as error:
        raise ValueError(MISSING) from error
    example = torch.zeros(2, 3, frozen.size, frozen.size)
    options: dict[str, Any] = {"input_names": ["images"], "output_names": ["features"]}
    options |= {"dynamic_shapes": ({0: torch.export.Dim("n")},), "dynamo": True, "verbose": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # torch's, of its own parts
        program = torch.onnx.export(frozen.network, (example,), **options)
    assert program is not None
    for node in program.model.graph.all_nodes():
        node.metadata_props.clear()  # stack traces with the paths of this machine
    onnx.save(program.model_proto, folder / "model.onnx")
    return _ONNX.format(**_numbers(frozen))


def _forward(frozen: Frozen) -> str:
    return _FORWARD.format(**_numbers(frozen))


def _numbers(frozen: Frozen) -> dict[str, object]:
    mean, std = list(frozen.mean), list(frozen.std)
    return {"mean": mean, "std": std, "size": frozen.size, "width": frozen.width}


_TIMM = """\
import timm
import torch

network = timm.create_model({options}).eval()
"""
_TORCHVISION = """\
import torch
import torchvision

network = torchvision.models.{name}()
network.fc = torch.nn.Identity()
network.load_state_dict(torch.load("model.pth", weights_only=True))
network.eval()
"""
_FORWARD = """\
mean, std = torch.tensor([{mean}, {std}])[..., None, None]
images = {{images}}  # RGB in [0, 1], {size} x {size}
features = network((images - mean) / std)  # (n, {width})
"""
_ONNX = """\
import numpy
import onnxruntime

session = onnxruntime.InferenceSession("model.onnx", providers=["CPUExecutionProvider"])
mean, std = numpy.float32([{mean}, {std}])[..., None, None]
images = {{images}}  # RGB in [0, 1], {size} x {size}
features = session.run(None, {{{{"images": (images - mean) / std}}}})[0]  # (n, {width})
"""

_TORCH = "torch.rand(2, 3, {size}, {size})", "torch.from_numpy(given)"
_NUMPY = 'numpy.random.rand(2, 3, {size}, {size}).astype("float32")', "given"

FORMATS = {
    "timm": Format("timm", _write_timm, *_TORCH),
    "torchvision": Format("torchvision", _write_torchvision, *_TORCH),
    "onnx": Format("onnx", _write_onnx, *_NUMPY),
    "hub-folder": Format("timm", _write_hub_folder, *_TORCH),
}
