"""Make torchvision, and so timm, kornia and lightly, importable beside a CPU-only torch on Linux.

PyPI's torchvision for Linux is linked against CUDA. Beside a CPU-only torch its compiled half does
not load; torchvision says nothing, then fails at import with `operator torchvision::nms does not
exist`, because it annotates two operators that only the compiled half declares. Declared here, they
let the Python half (transforms, models) import and work. They get no kernel: `torchvision.ops.nms`
still raises torchvision's own error. Where torchvision works (its CPU build does) nothing is done.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

import torch

OPERATORS = ("nms", "qnms")
SCHEMA = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"

_declared = []  # a Library takes its declarations along when it is collected


def make_importable() -> bool:
    """Declare torchvision's operators if only that lets it import; True if this call did.

    Call it before the first import of torchvision or of a package that imports it.
    """
    missing = [name for name in OPERATORS if not hasattr(torch.ops.torchvision, name)]
    if not missing or sys.platform != "linux" or torch.version.cuda or _compiled_half_loads():
        return False
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in missing:
        library.define(name + SCHEMA)
    _declared.append(library)
    return True


def _compiled_half_loads() -> bool:
    """Ask as torchvision does, by loading the file; without torchvision nothing is amiss."""
    spec = find_spec("torchvision")
    if spec is None or spec.origin is None:
        return True
    try:
        torch.ops.load_library(next(Path(spec.origin).parent.glob("_C*.so")))
    except (OSError, StopIteration):
        return False
    return True
