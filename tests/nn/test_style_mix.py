"""Amplitudes are mixed, phases stay, and style images are those of other domains of the batch."""

import pytest
import torch
from torch.testing import assert_close

from onestyle.nn import world
from onestyle.nn.style_mix import mix_amplitude, mix_styles
from onestyle.views import IMAGENET_MEAN, IMAGENET_STD
from tests.listing import BatchStylesStandardization
from tests.processes import run

MEAN, STD = (torch.tensor(three).double()[:, None, None] for three in (IMAGENET_MEAN, IMAGENET_STD))


def images(*shape, seed=0):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.double)


@pytest.mark.parametrize("sides", [(8, 8), (9, 9), (6, 7)])
@pytest.mark.parametrize("weight", [0.3, 0.8])
def test_it_is_the_equation(sides, weight):
    """Over the full spectrum, with what the real part drops being nothing."""
    x, a = images(4, 3, *sides), images(4, 3, *sides, seed=1)
    own, other = torch.fft.fft2(x), torch.fft.fft2(a)
    amplitude = weight * other.abs() + (1 - weight) * own.abs()
    mixed = torch.fft.ifft2(torch.polar(amplitude, own.angle()))
    assert mixed.imag.abs().max() < 1e-12
    assert_close(mix_amplitude(x, a, weight), mixed.real.clamp(0, 1))


def test_nothing_and_everything_of_the_style():
    """At weight 1 it is the paper's listing with the whole spectrum as its window."""
    x, a = images(4, 3, 8, 8), images(1, 3, 8, 8, seed=1)
    assert_close(mix_amplitude(x, a.expand_as(x), 0.0), x)
    assert_close(mix_amplitude(x, x, 0.7), x)
    listing = BatchStylesStandardization((1, 1))(torch.cat([a, x]), 1, index=[0])
    assert_close(mix_amplitude(x, a.expand_as(x), 1.0), listing[1:, 0])


def test_every_other_domain_gives_one_image():
    """Image by image: the mean of the mixtures in [0, 1], then normalised again."""
    pixels, domain = images(7, 3, 6, 6), torch.tensor([0, 1, 2, 0, 1, 0, 2])
    draw = images(7, 3, seed=2)
    mixed = mix_styles((pixels - MEAN) / STD, domain, draw, 0.3)
    for n, d in enumerate(domain.tolist()):
        mixtures = []
        for e in {0, 1, 2} - {d}:
            theirs = [m for m in range(7) if domain[m] == e]
            style = pixels[theirs[int(draw[n, e] * len(theirs))]]
            mixtures.append(mix_amplitude(pixels[n : n + 1], style[None], 0.3)[0])
        assert_close(mixed[n], (sum(mixtures) / 2 - MEAN) / STD)


def test_what_is_absent_from_the_batch_gives_nothing():
    """Domain 2 of three: the mixture is of the other one alone; without others there is none."""
    x, draw = (images(4, 3, 6, 6) - MEAN) / STD, images(4, 3, seed=2)
    domain = torch.tensor([0, 1, 0, 1])
    assert_close(mix_styles(x, domain, draw, 0.3), mix_styles(x, domain, draw[:, :2], 0.3))
    assert_close(mix_styles(x, torch.zeros_like(domain), draw, 0.3), x)


def test_any_image_of_the_domain_may_be_drawn_up_to_the_last():
    """The largest number below 1 is still the last image."""
    x, domain = (images(6, 3, 4, 4) - MEAN) / STD, torch.tensor([0, 1, 1, 1, 1, 1])
    last = torch.full((6, 2), 1 - 2**-24)
    pair = mix_styles(x[[0, 5]], domain[[0, 5]], last[[0, 5]], 0.3)
    assert_close(mix_styles(x, domain, last, 0.3)[0], pair[0])


def test_autocast_changes_nothing():
    x, domain = ((images(4, 3, 6, 6) - MEAN) / STD).float(), torch.tensor([0, 1, 0, 1])
    exact = mix_styles(x, domain, images(4, 2, seed=2), 0.3)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(mix_styles(x, domain, images(4, 2, seed=2), 0.3), exact)


def own_share(x, domain, draw):
    mine = world.share(len(x) // world.size())
    return mix_styles(x[mine], domain[mine], draw[mine], 0.3)


@pytest.mark.parametrize("domain", [[0, 1, 0, 1], [0, 0, 1, 1], [0, 0, 0, 1]])
def test_style_images_may_lie_in_another_process(domain):
    given = (images(4, 3, 6, 6) - MEAN) / STD, torch.tensor(domain), images(4, 2, seed=2)
    assert_close(torch.cat(run(own_share, 2, *given)), own_share(*given), rtol=0, atol=0)
