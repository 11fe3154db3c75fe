"""The examples run, and do what they say."""

import importlib
import importlib.util
from pathlib import Path

import torch
from lightly.loss import VICRegLoss

from onestyle.data import digits

EXAMPLES = Path(__file__).parents[1] / "examples"


def example(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_in_your_loop_both_losses_are_one_and_fall():
    losses = example("in_your_loop").main(12)
    plain, lightly = (torch.tensor(losses[name]) for name in ("plain", "lightly"))
    assert torch.allclose(plain, lightly, atol=0.05)  # the same steps, up to rounding
    assert plain[-3:].mean() < plain[:3].mean()


def test_a_method_of_your_own_is_lightlys_and_trains(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)  # where python finds the file that it runs
    new_method = importlib.import_module("new_method")
    z = torch.randn(2, 32, 8).double()
    theirs = VICRegLoss(lambda_param=25.0, mu_param=25.0, nu_param=1.0)(*z)
    torch.testing.assert_close(new_method.vicreg(z, 25.0, 25.0, 1.0), theirs)
    first, later = (new_method.main(n, str(tmp_path / str(n))) for n in (1, 12))
    assert later < first


def test_with_your_data_loader_a_column_has_one_style():
    """Mean colours differ from image to image, and little down a column of views."""
    pixels = torch.from_numpy(digits.load(size=32)[0]) / 255
    torch.manual_seed(0)  # at some ratios much is clamped
    unlike = pixels.mean((-2, -1)).std(0)  # (3,)
    for views in example("with_your_data_loader").main():
        assert views.shape == (64, 2, 3, 32, 32)
        assert (views.mean((-2, -1)).std(0) < 0.5 * unlike).all()
