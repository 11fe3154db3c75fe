import math
from itertools import permutations, product

import pytest
import torch
import torch.nn.functional as F
import torchvision.transforms.v2.functional as oracle
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from onestyle.colour import (
    BRIGHTNESS,
    CONTRAST,
    HUE,
    SATURATION,
    Colour,
    ColourDraw,
    blur,
    equalize,
    hue_mix,
    luma,
    posterize,
    rotate_hue_,
    solarize,
)

COINS = ("jitter", "equalize", "posterize", "solarize", "grayscale", "blur")
JITTER = {
    BRIGHTNESS: oracle.adjust_brightness,
    CONTRAST: oracle.adjust_contrast,
    SATURATION: oracle.adjust_saturation,
    HUE: oracle.adjust_hue,
}
EVERYTHING = Colour(jitter=1, equalize=1, posterize=1, solarize=1, grayscale=1, blur=1)
BLURRED = Colour(blur=0.5, sigma=(1.0, 20.0))
ALL = slice(None)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def examples(height=17, width=19):
    """(B, 3, h, w): noise, black, white, greys, pure colours, ties, few levels, almost black."""
    noise = torch.rand(8, 3, height, width, generator=seeded())
    grey = noise[0, :1].expand(3, -1, -1)
    pure = (noise[1] > 0.5).float()
    tied = torch.stack((noise[2, 0], noise[2, 0], noise[2, 1]))
    flat = [torch.full_like(grey, value) for value in (0, 1, 0.5)]
    return torch.stack((*noise, *flat, grey, pure, tied, (3 * noise[3]).round() / 3, noise[4] / 99))


def every_8_bit_value():
    return torch.arange(256, dtype=torch.uint8).expand(3, -1).view(1, 3, 16, 16)


def hand_made(n_images, n_views, factors=(1, 1, 1, 0), order=(0, 1, 2, 3), on=()):
    """A draw with these coins on everywhere and one jitter."""
    *coins, blurred = (torch.full((n_images, n_views), name in on) for name in COINS)
    jitter = torch.tensor(factors).float(), torch.tensor(order)
    jitter = (field.expand(n_images, n_views, 4) for field in jitter)
    return ColourDraw(*coins, *jitter, blurred, torch.full((n_images, n_views), 20.0))


def rotated(images, shift):
    mix = hue_mix(torch.full((len(images),), shift))
    return rotate_hue_(images.clone(), *mix)


def as_8_bit(images):
    """Back from v / 255, which must be what they are."""
    assert_close(images, (255 * images).round() / 255, rtol=0, atol=1e-7)
    return (255 * images).round().byte()


# --- each operation is torchvision's ---------------------------------------------------------


@pytest.mark.parametrize("factor", [0.0, 0.3, 1.0, 1.8])
@pytest.mark.parametrize("operation", [BRIGHTNESS, CONTRAST, SATURATION])
def test_blends_are_torchvisions(operation, factor):
    images, factors = examples(), [1.0, 1.0, 1.0, 0.0]
    factors[operation] = factor
    draw = hand_made(len(images), 1, factors, on=("jitter",))
    ours = Colour().apply(images[:, None].clone(), draw).squeeze(1)
    assert_close(ours, JITTER[operation](images, factor), rtol=0, atol=2e-6)


@pytest.mark.parametrize(
    "shift", [-0.5, -0.34, -1 / 3, -0.2, -1 / 6, -0.05, 0, 0.1, 0.25, 0.4, 0.5]
)
def test_hue_is_torchvisions(shift):
    images = examples()
    assert_close(rotated(images, shift), oracle.adjust_hue(images, shift), rtol=0, atol=2e-6)


def test_hue_laws():
    images = examples()
    once = rotated(images, 0.2)
    assert_close(rotated(once, -0.2), images, rtol=0, atol=5e-6)
    assert_close(rotated(images, 1 / 3), images.roll(1, dims=1), rtol=0, atol=2e-6)
    assert_close(once.amax(1), images.amax(1), rtol=0, atol=0)
    assert_close(once.amin(1), images.amin(1), rtol=0, atol=0)


def test_jitter_is_torchvisions_in_every_order():
    orders = list(permutations(range(4)))
    images = examples()[7:, None].repeat(1, len(orders), 1, 1, 1)
    draw = Colour(jitter=1).draw(len(images), len(orders), "image", seeded())
    draw.order[:] = torch.tensor(orders)
    off = torch.zeros_like(draw.jitter)
    draw = draw._replace(equalize=off, posterize=off, solarize=off, grayscale=off)
    expected = images.clone()
    for n, v in product(range(len(images)), range(len(orders))):
        for operation in draw.order[n, v].tolist():
            factor = draw.factors[n, v, operation].item()
            expected[n, v] = JITTER[operation](expected[n, v], factor)
    assert_close(Colour().apply(images, draw), expected, rtol=0, atol=2e-5)


@pytest.mark.parametrize("size", [(17, 19), (40, 64), (5, 5)])  # 5 x 5: too few to equalize
def test_equalize_is_torchvisions_in_8_bits(size):
    images = (255 * examples(*size)).byte()
    assert torch.equal(as_8_bit(equalize(images / 255)), oracle.equalize(images))


def test_equalize_of_floats_is_torchvisions():
    assert torch.equal(as_8_bit(equalize(examples())), as_8_bit(oracle.equalize(examples())))


def test_equalize_forgives_rounding_beyond_the_range():
    images = 1.01 * examples() - 0.005
    assert torch.equal(equalize(images), equalize(images.clamp(0, 1)))


@pytest.mark.parametrize("bits", range(1, 9))
def test_posterize_is_torchvisions_in_8_bits(bits):
    images = torch.cat((examples(16, 16), every_8_bit_value() / 255))
    expected = oracle.posterize(oracle.to_dtype(images, torch.uint8, scale=True), bits)
    assert torch.equal(as_8_bit(posterize(images, bits)), expected)


@pytest.mark.parametrize("threshold", [0.0, 0.5, 128 / 255, 1.0])
def test_solarize_is_torchvisions(threshold):
    images = torch.cat((examples(16, 16), every_8_bit_value() / 255))
    assert torch.equal(solarize(images, threshold), oracle.solarize(images, threshold))


def test_grayscale_is_torchvisions():
    assert torch.equal(luma(examples()), oracle.rgb_to_grayscale(examples()))


@pytest.mark.parametrize("sigma", [0.05, 0.4, 1.3, 3.0])
@pytest.mark.parametrize("size", [(33, 40), (13, 14)])
def test_blur_is_torchvisions(size, sigma):
    """To rounding with the same kernel; with one without end to what lies beyond four sigma."""
    images = examples(*size)[6:10]
    radius = min(12, math.ceil(4 * sigma))
    ours = blur(images, torch.full((len(images),), sigma), radius)
    assert_close(ours, torchvisions_blur(images, sigma, radius), rtol=0, atol=2e-6)
    exact = torchvisions_blur(images.double(), sigma, min(12 if size[0] == 13 else 32, 4 + radius))
    assert_close(ours.double(), exact, rtol=0, atol=2e-4)


def torchvisions_blur(images, sigma, radius):
    return oracle.gaussian_blur(images, [2 * radius + 1] * 2, [sigma] * 2)


def test_every_image_is_blurred_by_its_own_sigma():
    images = torch.rand(6, 2, 3, 56, 60, generator=seeded())
    draw = BLURRED.draw(6, 2, "image", seeded())
    off = torch.zeros_like(draw.blur)
    draw = draw._replace(**dict.fromkeys(COINS[:-1], off))
    ours = BLURRED.apply(images.clone(), draw)
    for n, v in product(range(6), range(2)):
        sigma, expected = draw.sigma[n, v].item() * 56 / 224, images[n, v]
        if draw.blur[n, v]:
            expected = torchvisions_blur(images[n, v], sigma, 20)
        assert_close(ours[n, v], expected, rtol=0, atol=4e-6)


def test_a_blur_is_the_same_to_the_eye_at_every_size():
    """Of a smooth picture: sigma is in pixels of 224, and goes with the side."""
    x = torch.linspace(0, 3, 224)
    picture = (0.5 + 0.4 * torch.sin(x[:, None] * 2) * torch.cos(x)).expand(1, 1, 3, -1, -1)
    draw, colour = hand_made(1, 1, on=("blur",)), Colour(sigma=(0.1, 20.0))
    small, large = (
        colour.apply(F.interpolate(picture[0], (n, n), mode="area")[None], draw)[0]
        for n in (56, 224)
    )
    inside = (..., slice(20, 36), slice(20, 36))  # the rim is one pixel at every size
    large = F.interpolate(large, (56, 56), mode="area")
    assert_close(small[inside], large[inside], rtol=0, atol=2e-3)
    assert (small - F.interpolate(picture[0], (56, 56)))[inside].abs().max() > 0.02


def test_blur_laws():
    """It keeps what is constant, the mean but for the rim, and turns with the picture."""
    images = examples(25, 25)
    sigma = torch.full((len(images),), 1.5)
    ours = blur(images, sigma, 6)
    assert_close(ours[8:11], images[8:11], rtol=0, atol=1e-6)
    assert_close(blur(images.mT, sigma, 6).mT, ours, rtol=0, atol=1e-6)
    assert_close(blur(images.flip(3), sigma, 6).flip(3), ours, rtol=0, atol=1e-6)
    one = torch.zeros(1, 3, 25, 25)
    one[:, :, 12, 12] = 1
    assert_close(blur(one, sigma[:1], 6).sum((2, 3)), torch.ones(1, 3))


def test_operations_follow_one_another():
    images = examples()
    colour, factors = Colour(bits=3, threshold=0.4), (1.2, 0.7, 0.5, 0.1)
    draw = hand_made(len(images), 1, factors, on=("jitter",))
    expected = colour.apply(images[:, None].clone(), draw).squeeze(1)
    expected = posterize(oracle.equalize(expected), 3)  # torchvision's floats have no 8 bits here
    expected = oracle.rgb_to_grayscale(oracle.solarize(expected, 0.4), 3)
    expected = torchvisions_blur(expected, 20 * 17 / 224, 1)
    ours = colour.apply(images[:, None].clone(), hand_made(len(images), 1, factors, on=COINS))
    assert_close(ours.squeeze(1), expected, rtol=0, atol=1e-6)


# --- scope -----------------------------------------------------------------------------------


def test_batch_scope_treats_the_images_of_a_view_alike():
    image = examples()[0].expand(6, 12, 3, 17, 19)
    views = BLURRED.apply(image.clone(), BLURRED.draw(6, 12, "batch", seeded()))
    assert torch.equal(views, views[:1].expand_as(views))
    assert len({tuple(view.flatten().tolist()) for view in views[0]}) > 8


def test_batch_scope_shares_parameters_and_coins():
    draw = BLURRED.draw(5, 40, "batch", seeded())
    for field in draw:
        assert torch.equal(field, field[:1].expand_as(field))
        assert (field[0] != field[0, 0]).any()


def test_batch_scope_does_not_depend_on_the_number_of_images():
    few, many = (BLURRED.draw(n, 6, "batch", seeded()) for n in (2, 9))
    assert all(map(torch.equal, few, many.of(slice(2), ALL)))


def test_image_scope_treats_every_image_its_own_way():
    image = examples()[0].expand(4, 3, 3, 17, 19)
    colour = Colour(jitter=1)
    views = colour.apply(image.clone(), colour.draw(4, 3, "image", seeded()))
    assert len({tuple(view.flatten().tolist()) for view in views.flatten(0, 1)}) == 12
    for field in BLURRED.draw(50, 50, "image", seeded()):
        assert (field != field[:1]).any() and (field != field[:, :1]).any()


# --- the draw --------------------------------------------------------------------------------


@pytest.mark.parametrize("scope", ["batch", "image"])
def test_frequencies_and_ranges(scope):
    n_images, n_views = (1, 20_000) if scope == "batch" else (100, 200)
    colour = Colour(
        brightness=1.5, equalize=0.3, posterize=0.4, solarize=0.5, grayscale=0.6, blur=0.7
    )
    draw = colour.draw(n_images, n_views, scope, seeded())
    for name in COINS:
        coins = getattr(draw, name).float()
        assert coins.mean().item() == pytest.approx(getattr(colour, name), abs=0.02)
    assert draw.sigma.min() >= 0.1 and draw.sigma.max() <= 2
    assert draw.sigma.mean().item() == pytest.approx(1.05, abs=0.02)
    together = (draw.equalize & draw.posterize).float().mean().item()
    assert together == pytest.approx(0.3 * 0.4, abs=0.02)  # the coins are independent
    factors = draw.factors.flatten(0, 1)
    low, high = torch.tensor(((0, 0.2, 0.2, -0.2), (2.5, 1.8, 1.8, 0.2)))
    assert (factors >= low).all() and (factors <= high).all()
    assert_close(factors.mean(0), (low + high) / 2, rtol=0, atol=0.03)
    assert_close(factors.amin(0), low, rtol=0, atol=0.01)
    orders, counts = draw.order.flatten(0, 1).unique(dim=0, return_counts=True)
    assert orders.tolist() == [list(order) for order in permutations(range(4))]
    assert counts.min() > 0.7 * counts.max()


@pytest.mark.parametrize("scope, rows", [("batch", 1), ("image", 5)])
def test_blur_changes_no_other_draw(scope, rows):
    """What was drawn before there was a blur is drawn still; without it, so is what comes after."""
    generators = seeded(), seeded(), seeded()
    without = Colour().draw(5, 4, scope, generators[0])
    with_it = BLURRED.draw(5, 4, scope, generators[1])
    assert all(map(torch.equal, without[:7], with_it[:7]))
    assert with_it.blur.any() and not without.blur.any()
    torch.rand(rows, 4, 13, generator=generators[2])
    assert torch.equal(generators[0].get_state(), generators[2].get_state())


@pytest.mark.parametrize("scope", ["batch", "image"])
def test_same_generator_same_draw(scope):
    draws = [Colour().draw(3, 4, scope, seeded(seed)) for seed in (1, 1, 2)]
    assert all(map(torch.equal, draws[0], draws[1]))
    assert not torch.equal(draws[0].factors, draws[2].factors)
    torch.manual_seed(5)
    first = Colour().draw(3, 4, scope)
    torch.manual_seed(5)
    assert all(map(torch.equal, first, Colour().draw(3, 4, scope)))


def test_draw_is_on_the_cpu_whatever_the_default_device():
    with torch.device("meta"):
        draw = Colour().draw(3, 4, "image", seeded())
    assert all(map(torch.equal, draw, Colour().draw(3, 4, "image", seeded())))


@pytest.mark.parametrize("scope", ["batch", "image"])
def test_parts_make_the_whole(scope):
    images = torch.rand(11, 5, 3, 24, 20, generator=seeded())
    draw = BLURRED.draw(11, 5, scope, seeded())
    whole = BLURRED.apply(images.clone(), draw)
    parts = []
    for rows in (slice(0, 4), slice(4, 5), slice(5, 11)):
        groups = [
            BLURRED.apply(images[rows, columns], draw.of(rows, columns))
            for columns in (slice(0, 2), slice(2, 5))
        ]
        parts.append(torch.cat(groups, 1))
    assert torch.equal(torch.cat(parts), whole)


def test_recipes():
    chances = dict(jitter=0.8, equalize=0.2, posterize=0.2, solarize=0.2, grayscale=0.2)
    assert Colour() == Colour(0.8, 0.8, 0.8, 0.2, **chances, bits=4, threshold=0.5)
    only = Colour.only_jitter()
    assert (only.equalize, only.posterize, only.solarize, only.grayscale) == (0, 0, 0, 0)
    assert Colour().blur == only.blur == 0  # the paper has none
    assert Colour.only_jitter().draw(20, 20, "image").jitter.any()
    assert Colour().scaled(0.5) == Colour(brightness=0.4, contrast=0.4, saturation=0.4, hue=0.1)


# --- the pixels ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", COINS)
def test_only_images_whose_coin_is_on_change(name):
    images = torch.rand(20, 4, 3, 17, 19, generator=seeded())
    colour = Colour(**{**dict.fromkeys(COINS, 0), name: 0.5}, sigma=(5.0, 20.0))
    draw = colour.draw(20, 4, "image", seeded())
    same = (colour.apply(images.clone(), draw) == images).flatten(2).all(2)
    assert torch.equal(same, ~getattr(draw, name))


def test_no_chance_no_change():
    colour = Colour(**dict.fromkeys(COINS, 0))
    images = examples()[:, None]
    draw = colour.draw(len(images), 1, "image")
    assert torch.equal(colour.apply(images.clone(), draw), images)


@given(
    st.floats(0, 3),
    st.floats(0, 0.5),
    st.floats(0, 1),
    st.integers(1, 8),
    st.sampled_from(["batch", "image"]),
    st.tuples(st.integers(1, 9), st.integers(1, 9)),
    st.integers(0, 1000),
)
def test_result_is_finite_and_in_range(strength, hue, threshold, bits, scope, size, seed):
    changes = {**dict.fromkeys(COINS, 0.7), "sigma": (1.0, 200.0)}
    colour = Colour(strength, strength, strength, hue, bits=bits, threshold=threshold, **changes)
    images = examples(*size)[:, None].repeat(1, 2, 1, 1, 1)
    images = colour.apply(images, colour.draw(len(images), 2, scope, seeded(seed)))
    assert images.isfinite().all() and images.min() >= 0 and images.max() <= 1


def test_autocast_changes_nothing():
    images = examples()[:, None]
    draw = EVERYTHING.draw(len(images), 1, "image", seeded())
    expected = EVERYTHING.apply(images.clone(), draw)
    with torch.autocast("cpu", torch.bfloat16):
        result = EVERYTHING.apply(images.clone(), draw)
    assert result.dtype == torch.float32 and torch.equal(result, expected)


@pytest.mark.parametrize(
    "device",
    [
        "meta",  # refuses tensors of two devices, as a GPU does
        pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="GPU")),
    ],
)
def test_other_devices(device):
    images = examples()[:, None]
    draw = EVERYTHING.draw(len(images), 1, "image", seeded())
    result = EVERYTHING.apply(images.to(device), draw)
    assert result.device.type == device and result.shape == images.shape


# --- errors ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"brightness": -0.1}, "Colour.brightness must be 0 or more, got -0.1"),
        ({"contrast": float("nan")}, "Colour.contrast must be 0 or more, got nan"),
        ({"saturation": float("inf")}, "Colour.saturation must be 0 or more, got inf"),
        ({"hue": 0.6}, r"Colour.hue must be in \[0, 0.5\], got 0.6"),
        ({"jitter": 1.1}, r"Colour.jitter must be a probability in \[0, 1\], got 1.1"),
        ({"equalize": -1}, r"Colour.equalize must be a probability in \[0, 1\], got -1"),
        ({"bits": 0}, "Colour.bits must be one of 1, 2, ..., 8, got 0"),
        ({"blur": 2}, r"Colour.blur must be a probability in \[0, 1\], got 2"),
        (
            {"sigma": (2.0, 0.1)},
            r"Colour.sigma must be positive, the smaller one first, got \(2.0, 0",
        ),
        ({"sigma": (0, 1)}, "Colour.sigma must be positive"),
        ({"threshold": 128}, r"Colour.threshold must be in \[0, 1\], got 128"),
    ],
)
def test_wrong_strengths(wrong, message):
    with pytest.raises(ValueError, match=message):
        Colour(**wrong)


def test_wrong_draws():
    with pytest.raises(ValueError, match='colour scope must be "batch" or "image", got \'view\''):
        Colour().draw(2, 2, "view")
    with pytest.raises(ValueError, match="nothing to draw for 0 images and 2 views"):
        Colour().draw(0, 2, "batch")


def test_wrong_images():
    draw = Colour().draw(2, 3, "batch")
    with pytest.raises(ValueError, match=r"float32 .* got torch.uint8 of shape \(2, 3, 3, 4, 4\)"):
        Colour().apply(torch.zeros(2, 3, 3, 4, 4, dtype=torch.uint8), draw)
    with pytest.raises(ValueError, match=r"\(N, V, 3, h, w\), got .* of shape \(2, 3, 4, 4\)"):
        Colour().apply(torch.zeros(2, 3, 4, 4), draw)
    with pytest.raises(ValueError, match=r"draw is for N, V = \(2, 3\), the images .* \(2, 2\)"):
        Colour().apply(torch.zeros(2, 2, 3, 4, 4), draw)
