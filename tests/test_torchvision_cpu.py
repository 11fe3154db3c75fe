"""Each test needs a fresh process: an operator once declared cannot be withdrawn."""

import subprocess
import sys


def run(script):
    """Run it with every warning an error."""
    command = [sys.executable, "-W", "error", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_it_acts_exactly_where_the_bare_import_fails_and_makes_up_no_operator():
    run("""
try:
    import torchvision
    fails = False
except RuntimeError as error:
    assert "operator torchvision::nms does not exist" in str(error), error
    fails = True

from onestyle.torchvision_cpu import make_importable
assert make_importable() is fails

import torch, torchvision
try:
    torchvision.ops.nms(torch.tensor([[0.0, 0, 1, 1]]), torch.ones(1), 0.5)
    raised = False
except RuntimeError as error:
    assert "Couldn't load custom C++ ops" in str(error), error
    raised = True
assert raised is fails
""")


def test_timm_and_the_transforms_work_after_it_and_twice_is_harmless():
    run("""
from onestyle.torchvision_cpu import make_importable
make_importable()
assert make_importable() is False
import kornia, lightly, timm, torch
from torchvision.transforms import v2
images = torch.rand(2, 3, 64, 64)
assert v2.functional.adjust_hue(images, 0.1).shape == images.shape
with torch.no_grad():
    assert timm.create_model("resnet18").eval()(images).shape == (2, 1000)
assert make_importable() is False
""")


def test_a_torchvision_that_works_is_left_alone():
    run("""
import torch
from onestyle.torchvision_cpu import make_importable

def declared():
    return hasattr(torch.ops.torchvision, "nms")

really, torch.version.cuda = torch.version.cuda, "13.0"  # torch has CUDA
assert not make_importable() and not declared()

torch.version.cuda = really
load, torch.ops.load_library = torch.ops.load_library, lambda file: None  # the half loads
assert not make_importable() and not declared()
torch.ops.load_library = load

library = torch.library.Library("torchvision", "FRAGMENT")  # it has been loaded already
for name in ("nms", "qnms"):
    library.define(name + "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
assert not make_importable()
""")
