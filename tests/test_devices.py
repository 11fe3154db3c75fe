"""CUDA and MPS make the CPU's views from the same draw. Needs pytest and torch alone."""

import pytest
import torch
from torch.testing import assert_close

import onestyle.fourier as fourier
from onestyle.fourier import BatchStylesStandardization, FourierAugmentation, transfer_style
from onestyle.geometry import Geometry
from onestyle.views import ViewPlan
from tests.listing import BatchStylesStandardization as Listing

DEVICES = [
    pytest.param(name, marks=pytest.mark.skipif(not there, reason=f"needs {name}"))
    for name, there in (
        ("cuda", torch.cuda.is_available()),
        ("mps", torch.backends.mps.is_available()),
    )
]
pytestmark = pytest.mark.parametrize("device", DEVICES)


def noise(n, side):
    return torch.rand(n, 3, side, side, generator=torch.Generator().manual_seed(0))


def seeded():
    return torch.Generator().manual_seed(0)


@pytest.mark.parametrize("transform", [BatchStylesStandardization, FourierAugmentation])
@pytest.mark.parametrize("ratio", [0.0, 0.05, 0.5, 1.0])
@pytest.mark.parametrize("side", [96, 97])
def test_styles(device, transform, ratio, side):
    images = noise(6, side)
    on_cpu, there = (transform((ratio, ratio))(x, 4, seeded()) for x in (images, images.to(device)))
    assert there.device.type == device
    assert_close(there.cpu(), on_cpu, rtol=0, atol=2e-5)


@pytest.mark.parametrize("spectrum", ["_LowFrequencies", "_FullSpectrum"])
def test_both_ways_back_are_as_exact_as_the_listing(device, spectrum, monkeypatch):
    def made(x, reach):
        reaches = (reach,) if spectrum == "_LowFrequencies" else ()
        return getattr(fourier, spectrum)(*x.shape[-2:], *reaches, x)

    monkeypatch.setattr(fourier, "_spectrum_for", made)
    images, index = noise(6, 96), torch.tensor([4, 1])
    exact = Listing((0, 1))(images.double(), 2, index, 0.3)
    error = (transfer_style(images.to(device), index, 0.3).cpu() - exact).abs().max()
    assert error <= 2 * (Listing((0, 1))(images, 2, index, 0.3) - exact).abs().max() + 1e-6


def test_a_generator_of_the_device(device):
    images = noise(5, 32).to(device)
    for transform in (BatchStylesStandardization((0, 1)), FourierAugmentation((0, 1))):
        one, again = (
            transform(images, 3, torch.Generator(device).manual_seed(1)) for _ in range(2)
        )
        assert torch.equal(one, again)


@pytest.mark.parametrize("text", ["2x64 bss + 3x32 fa", "2x64 none"])
def test_views(device, text):
    """Rounding moves a pixel across a step of posterize or equalize now and then, no more."""
    images = noise(12, 96).mul(255).byte()
    plan = ViewPlan.parse(text, geometry=Geometry(vertical_flip=0.5, quarter_turns=True))
    draws = plan.draw(12, seeded())
    for here, there in zip(
        plan.apply(images, draws), plan.apply(images.to(device), draws), strict=True
    ):
        assert there.device.type == device and there.shape == here.shape
        assert ((there.cpu() - here).abs() > 1e-3).float().mean() < 1e-3
