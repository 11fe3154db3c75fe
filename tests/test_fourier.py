"""The laws of the styles, and their equality with the paper's listing."""

import itertools
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

import onestyle.fourier as fourier
from onestyle.fourier import (
    BatchStylesStandardization,
    FourierAugmentation,
    styled_blocks,
    transfer_style,
    window_half_side,
)
from tests import listing

sides = st.integers(1, 40)
ratios = st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.02, 0.1, 0.5, 0.999, 1.0]))


def noise(n, *shape, seed=0, dtype=torch.double):
    return torch.rand(n, *shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def by_listing(images, index, ratio):
    return listing.BatchStylesStandardization((0, 1))(images, len(index), index, float(ratio))


@pytest.fixture(params=["fft", "products"])
def way(request, monkeypatch):
    """Both ways back from the spectrum, whatever the engine would pick."""

    def pick(x, reach):
        h, w = x.shape[-2:]
        if request.param == "products" and 2 * reach < min(h, w):
            return fourier._LowFrequencies(h, w, reach, x)
        return fourier._FullSpectrum(h, w, x)

    monkeypatch.setattr(fourier, "_spectrum_for", pick)


# ------------------------------------------------------------------------- equal to the listing


@given(h=sides, w=sides, ratio=ratios, n=st.integers(1, 4), channels=st.integers(1, 4))
def test_bss_is_the_listing_at_every_size_and_ratio(h, w, ratio, n, channels):
    images, index = noise(n, channels, h, w), torch.randperm(n)
    assert_close(
        transfer_style(images, index, ratio), by_listing(images, index, ratio), rtol=0, atol=1e-10
    )


@pytest.mark.parametrize("ratio", [0, 0.02, 0.06, 0.3, 0.5, 0.77, 0.95, 1])
@pytest.mark.parametrize("size", [(96, 96), (64, 33), (33, 64), (97, 61), (113, 113)])
def test_both_ways_back_are_the_listing(way, size, ratio):
    images, index = noise(3, 3, *size), torch.tensor([2, 0])
    expected = by_listing(images, index, ratio)
    assert_close(transfer_style(images, index, ratio), expected, rtol=0, atol=1e-10)
    error = (transfer_style(images.float(), index, ratio) - expected).abs().max()
    listing_error = (by_listing(images.float(), index, ratio) - expected).abs().max()
    assert error <= 2 * listing_error + 1e-6


@pytest.mark.parametrize("ratio", [0.06, 0.5, 1])
def test_float32_is_as_exact_as_the_listing_on_real_images(pacs, ratio):
    images = pacs(120)
    for part in images.split(8):
        exact = part.double() / 255
        index = torch.tensor([0, 5, 7])
        expected = by_listing(exact, index, ratio)
        error = (transfer_style(exact.float(), index, ratio) - expected).abs().max()
        listing_error = (by_listing(exact.float(), index, ratio) - expected).abs().max()
        assert error <= 2 * listing_error + 1e-6


def test_float64_is_the_listing_on_real_images(pacs):
    images, index = pacs(24).double() / 255, torch.tensor([0, 5, 7])
    views = transfer_style(images, index, 0.5)
    assert_close(views, by_listing(images, index, 0.5), rtol=0, atol=1e-10)


def test_a_weak_frequency_keeps_its_phase_in_float32(way):
    """At |F| = 0.001 a transform in float32 would err by 1e-3 rad, for the style to magnify."""
    content = 0.2 + 0.6 * noise(1, 97, 61)
    spectrum = torch.fft.rfft2(content)
    spectrum[..., 5, 3] *= 0.001 / spectrum[..., 5, 3].abs()
    content = torch.fft.irfft2(spectrum, s=(97, 61)).float()
    y, x = torch.arange(97)[:, None], torch.arange(61)
    style = 0.5 + 0.5 * (2 * torch.pi * (5 * y / 97 + 3 * x / 61)).cos()  # |F| = 1479 there
    index, styles = torch.tensor([0]), style.expand(1, 1, -1, -1)
    views = transfer_style(content[None], index, 0.4, styles=styles)
    exact = transfer_style(content[None].double(), index, 0.4, styles=styles.double())
    assert_close(views.double(), exact, rtol=0, atol=2e-6)


def test_fa_is_the_listing_image_by_image():
    images = noise(4, 3, 32, 27)
    fa = FourierAugmentation((0, 1))
    style, ratio = fa.draw(4, 3, torch.Generator().manual_seed(1))
    views = fa(images, 3, torch.Generator().manual_seed(1))
    for n, v in itertools.product(range(4), range(3)):
        alone = by_listing(images, style[n, v : v + 1], ratio[n, v])[n, 0]
        assert_close(views[n, v], alone, rtol=0, atol=1e-10)


@pytest.mark.parametrize("ratio_kind", ["side", "area"])
def test_the_ratio_is_of_sides_unless_area_is_asked(ratio_kind):
    images, index = noise(2, 3, 40, 40), torch.tensor([1])
    as_side = 0.49**0.5 if ratio_kind == "area" else 0.49
    views = transfer_style(images, index, 0.49, ratio_kind=ratio_kind)
    assert_close(views, by_listing(images, index, as_side), rtol=0, atol=1e-10)


def test_half_side_rounds_down_as_the_listing():
    for side, ratio in itertools.product([1, 7, 96, 227], torch.linspace(0, 1, 101).tolist()):
        assert int(window_half_side(ratio, side)) == int(ratio * side / 2)


@pytest.mark.parametrize("size", [(16, 16), (15, 22)])
def test_the_symmetric_window_swaps_l_and_minus_l(size):
    images, half = noise(2, 3, *size), int(0.5 * min(size) / 2)
    views = transfer_style(images, torch.tensor([1]), 0.5, symmetric=True)
    spectrum, style = torch.fft.fft2(images[0]), torch.fft.fft2(images[1])
    u, v = (torch.fft.fftfreq(n, 1 / n).abs() <= half for n in size)
    amplitude = torch.where(u[:, None] & v, style.abs(), spectrum.abs())
    swapped = torch.fft.ifft2(torch.polar(amplitude, spectrum.angle()))
    assert swapped.imag.abs().max() < 1e-12  # the law that the listing's window breaks
    assert_close(views[0, 0], swapped.real.clamp(0, 1), rtol=0, atol=1e-10)
    assert_close(transfer_style(images, torch.tensor([1]), 0.0, symmetric=True)[:, 0], images)


# ---------------------------------------------------------------------------------------- laws


def test_ratio_zero_changes_nothing(way):
    images = noise(3, 3, 20, 24, dtype=torch.float)
    assert torch.equal(transfer_style(images, torch.tensor([2]), 0.0)[:, 0], images)


@pytest.mark.parametrize("ratio", [0.1, 0.4, 1.0])
def test_the_style_image_is_unchanged(way, ratio):
    images = noise(5, 3, 30, 31, dtype=torch.float)
    assert_close(
        transfer_style(images, torch.tensor([3]), ratio)[3, 0], images[3], rtol=0, atol=1e-6
    )


def faint(images):
    """Around mid-grey, so that nothing is clamped."""
    return 0.5 + 0.02 * (images - images.mean((-2, -1), keepdim=True))


def test_at_ratio_one_every_image_has_the_amplitude_of_the_style():
    images = faint(noise(4, 3, 32, 32))
    views = transfer_style(images, torch.tensor([2]), 1.0)
    amplitude = torch.fft.fft2(images[2]).abs().expand(4, 1, -1, -1, -1)
    assert_close(torch.fft.fft2(views).abs(), amplitude)


@pytest.mark.parametrize("ratio", [0.1, 0.5, 1.0])
def test_the_phase_is_kept(way, ratio):
    images = faint(noise(4, 3, 32, 30))
    views = transfer_style(images, torch.tensor([1]), ratio)[:, 0]
    turn = torch.fft.fft2(views) / torch.fft.fft2(images)
    assert turn.imag.abs().max() < 1e-9 and turn.real.min() > 0


def test_a_column_of_bss_shares_its_low_frequencies_and_fa_does_not():
    images = faint(noise(6, 3, 32, 32))
    for transform, spread in ((BatchStylesStandardization, 0), (FourierAugmentation, 1)):
        views = transform((0.5, 0.5))(images, 4, torch.Generator().manual_seed(0))
        low = torch.fft.fft2(views).abs()[..., 1:7, 1:7]
        assert (low.std(0).amax((1, 2, 3)) > 1e-6).all() == bool(spread)


@pytest.mark.parametrize("n_views", [3, 9])
def test_a_generator_fixes_the_views(n_views):
    images = noise(5, 3, 24, 24)
    for transform in (BatchStylesStandardization((0, 1)), FourierAugmentation((0, 1))):
        first, again, other = (
            transform(images, n_views, torch.Generator().manual_seed(seed)) for seed in (0, 0, 1)
        )
        assert torch.equal(first, again) and not torch.equal(first, other)
        torch.manual_seed(5)
        by_global = transform(images, 3)
        torch.manual_seed(5)
        assert torch.equal(transform(images, 3), by_global)


def test_bss_draws_distinct_styles_while_it_can():
    bss = BatchStylesStandardization((0.1, 0.9))
    for seed in range(20):
        generator = torch.Generator().manual_seed(seed)
        style, ratio = bss.draw(6, 6, generator)
        assert sorted(style.tolist()) == list(range(6)) and ratio.shape == ()
        assert 0.1 <= ratio <= 0.9
    beyond = torch.stack([bss.draw(3, 4, generator).source for _ in range(300)])
    assert_close(beyond.flatten().bincount() / 1200, torch.full((3,), 1 / 3), rtol=0, atol=0.05)
    assert (beyond == beyond[:, :1]).all(1).any()  # with replacement
    scoped = BatchStylesStandardization((0.1, 0.9), ratio_scope="view").draw(6, 4)
    assert scoped.ratio.shape == (4,) and len(scoped.ratio.unique()) == 4


def test_fa_draws_style_and_ratio_for_every_image_and_view():
    style, ratio = FourierAugmentation((0.1, 0.9)).draw(50, 8, torch.Generator().manual_seed(0))
    assert style.shape == ratio.shape == (50, 8) and len(ratio.unique()) == 400
    assert style.unique().numel() == 50
    assert (style != style[:1]).any() and (style != style[:, :1]).any()
    quantiles = torch.tensor([0, 0.25, 0.5, 0.75, 1], dtype=torch.double)  # ratios are uniform
    assert_close(ratio.quantile(quantiles), 0.1 + 0.8 * quantiles, rtol=0, atol=0.05)


def test_fa_of_shares_takes_styles_from_each_share():
    style = FourierAugmentation((0, 1)).draw(12, 40, shares=3).source
    for share in range(3):
        mine = slice(4 * share, 4 * share + 4)
        assert style[mine].unique().tolist() == list(range(4 * share, 4 * share + 4))


def test_a_ratio_for_each_view_is_used():
    images, index = noise(3, 3, 24, 24), torch.tensor([0, 2])
    views = transfer_style(images, index, torch.tensor([0.2, 0.9]))
    for v, ratio in enumerate((0.2, 0.9)):
        assert_close(views[:, v], by_listing(images, index[v : v + 1], ratio)[:, 0])


def test_a_batch_of_one_and_more_views_than_images():
    image = noise(1, 3, 17, 17)
    assert_close(BatchStylesStandardization((1, 1))(image, 4), image.expand(4, -1, -1, -1)[None])
    assert BatchStylesStandardization((0, 1))(noise(2, 3, 16, 16), 7).shape == (2, 7, 3, 16, 16)


def test_styles_may_come_from_elsewhere():
    images = noise(5, 3, 24, 24)
    apart = transfer_style(images[:2], torch.tensor([1]), 0.5, styles=images[3:])
    assert_close(apart, transfer_style(images, torch.tensor([4]), 0.5)[:2])


@pytest.mark.parametrize("index", [torch.tensor([3, 1]), torch.randint(40, (40, 2))])
def test_blocks_are_the_whole(index, monkeypatch):
    images = noise(40, 3, 20, 20)
    whole = transfer_style(images, index, 0.4)
    monkeypatch.setattr(fourier, "blocks", lambda x, v=1: list(map(slice, *pairs(len(x), 7 // v))))
    for block, views in styled_blocks(images, index, 0.4):
        assert_close(views, whole[block], rtol=0, atol=1e-13)


def pairs(n, step):
    starts = range(0, n, step)
    return starts, [min(start + step, n) for start in starts]


# ---------------------------------------------------------------------- where the spectrum vanishes


def flat_images(h, w):
    images = torch.rand(1, 3, h, w).repeat(6, 1, 1, 1)
    images[1] = 0  # black
    images[2] = 1  # white
    images[3] = 1 / 3  # grey
    images[4, :, : h // 2], images[4, :, h // 2 :] = 0.7, 0.1  # two flat halves
    images[5] = (torch.arange(w) % 7 == 0).float() * 0.2 + 0.7  # stripes
    return images


@pytest.mark.parametrize("size", [(64, 64), (97, 61), (113, 113)])
@pytest.mark.parametrize("ratio", [0.1, 0.6, 1.0])
def test_flat_images_have_phase_zero_not_noise(way, size, ratio):
    images = flat_images(*size)
    views = transfer_style(images, torch.tensor([0]), ratio)
    assert torch.equal(views, transfer_style(images, torch.tensor([0]), ratio))
    assert views.min() >= 0 and views.max() <= 1
    # Where |F| = 0 apart from the mean, e^{iP} = 1: the picture is even in both directions,
    # whatever grey it was; rounding noise would make each a different picture.
    exact = transfer_style(images.double(), torch.tensor([0]), ratio)
    assert_close(views.double(), exact, rtol=0, atol=1e-5)
    for even in views[1:4, 0]:
        assert_close(even, even.flip(-1, -2).roll((1, 1), (-1, -2)), rtol=0, atol=1e-5)
    assert_close(views[1], views[3], rtol=0, atol=1.0 if ratio < 1 else 1e-5)


def test_what_rounding_a_flat_image_leaves_has_phase_zero(way):
    flat = torch.full((1, 1, 64, 64), 0.3)
    rounded = torch.where(noise(1, 1, 64, 64) < 0.1, flat, flat.nextafter(torch.ones(())))
    style, index = noise(1, 1, 64, 64, seed=1).float(), torch.tensor([0])
    views = (transfer_style(images, index, 0.8, styles=style) for images in (rounded, flat))
    assert_close(*views, rtol=0, atol=1e-5)


def test_a_flat_style_keeps_only_its_mean():
    images = torch.cat([noise(2, 3, 16, 16), torch.full((1, 3, 16, 16), 0.4)])
    views = transfer_style(images, torch.tensor([2]), 1.0)
    assert_close(views, torch.full_like(views, 0.4))


# -------------------------------------------------------------------------------- types and devices


def test_autocast_and_reduced_products_do_not_touch_the_pixels():
    images, index = noise(4, 3, 48, 48, dtype=torch.float), torch.tensor([1, 2])
    expected = transfer_style(images, index, 0.2)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(transfer_style(images, index, 0.2), expected)
    torch.set_float32_matmul_precision("medium")
    try:
        assert_close(transfer_style(images, index, 0.2), expected, rtol=0, atol=2e-6)
    finally:
        torch.set_float32_matmul_precision("highest")


@pytest.mark.parametrize("dtype", [torch.half, torch.bfloat16, torch.float, torch.double])
def test_the_type_of_the_images_is_kept(dtype):
    images, index = noise(3, 3, 16, 16).to(dtype), torch.tensor([1])
    views = transfer_style(images, index, 0.5)
    assert views.dtype == dtype
    exact = transfer_style(images.double(), index, 0.5)
    assert_close(views.double(), exact, rtol=0, atol=2 * torch.finfo(dtype).eps + 1e-6)


def test_images_that_need_a_gradient_or_are_not_contiguous_are_fine():
    images = noise(3, 20, 20, 3).permute(0, 3, 1, 2).requires_grad_()
    views = BatchStylesStandardization((0.3, 0.3))(images, 2)
    assert not views.requires_grad and not views.isnan().any()


# --------------------------------------------------------------------------------------- mistakes


@pytest.mark.parametrize("transform", [BatchStylesStandardization, FourierAugmentation])
@pytest.mark.parametrize(
    "images, complaint",
    [
        (torch.zeros(2, 3, 8, 8, dtype=torch.uint8), "uint8; divide by 255"),
        (torch.full((2, 3, 8, 8), 1.5), r"values in \[1.5, 1.5\]"),
        (torch.full((2, 3, 8, 8), -0.1), r"values in \[-0.1, -0.1\]"),
        (torch.full((2, 3, 8, 8), float("nan")), "got NaN"),
        (torch.full((2, 3, 8, 8), float("inf")), "values in"),
        (torch.zeros(3, 8, 8), r"\(N, C, H, W\)"),
        (torch.zeros(0, 3, 8, 8), "n_images must be"),
        (torch.zeros(2, 3, 0, 8), "empty"),
    ],
)
def test_wrong_images_are_refused(transform, images, complaint):
    with pytest.raises(ValueError, match=complaint):
        transform((0, 1))(images, 2)


@pytest.mark.parametrize("transform", [BatchStylesStandardization, FourierAugmentation])
@pytest.mark.parametrize("wrong", [(-0.1, 1), (0, 1.1), (0.6, 0.5), (float("nan"), 1), (0.5,), 0.5])
def test_wrong_ratios_are_refused(transform, wrong):
    with pytest.raises(ValueError, match="r_min"):
        transform(wrong)


def test_other_wrong_arguments_are_refused():
    bss = BatchStylesStandardization((0, 1))
    for n_views in (0, -1, 1.5):
        with pytest.raises(ValueError, match="n_views"):
            bss(noise(2, 3, 8, 8), n_views)
    with pytest.raises(ValueError, match="call, view"):
        BatchStylesStandardization((0, 1), ratio_scope="batch")
    with pytest.raises(ValueError, match="side, area"):
        FourierAugmentation((0, 1), ratio_kind="volume")
    with pytest.raises(ValueError, match=r"ratio must lie in \[0, 1\]"):
        transfer_style(noise(2, 3, 8, 8), torch.tensor([0]), 1.2)
    with pytest.raises(ValueError, match="4 images do not divide into 3 equal shares"):
        FourierAugmentation((0, 1)).draw(4, 2, shares=3)


@pytest.mark.parametrize(
    "index, ratio, complaint",
    [
        (torch.tensor([2]), 0.5, r"some of 2 styles, got \[2\]"),
        (torch.tensor([-3]), 0.5, r"some of 2 styles, got \[-3\]"),
        (torch.tensor(0), 0.5, r"shape \(V,\) or \(2, V\), got \(\)"),
        (torch.zeros(3, 2).long(), 0.5, r"got \(3, 2\)"),
        (torch.zeros(0).long(), 0.5, r"got \(0,\)"),
        (torch.tensor([True, False]), 0.5, "whole numbers, int64 or int32, got torch.bool"),
        (torch.tensor([0.0]), 0.5, "whole numbers, int64 or int32, got torch.float32"),
        (torch.tensor([0, 1]), torch.rand(3), "ratio must broadcast with index"),
        (torch.tensor([0, 1]), torch.rand(2, 2), "ratio must broadcast with index"),
    ],
)
def test_a_wrong_draw_is_refused(index, ratio, complaint):
    with pytest.raises(ValueError, match=complaint):
        transfer_style(noise(2, 3, 8, 8), index, ratio)


def test_wrong_styles_are_refused():
    images, index = noise(2, 3, 8, 8), torch.tensor([0])
    with pytest.raises(ValueError, match=r"equal in \(C, H, W\), got \(1, 8, 8\)"):
        transfer_style(images, index, 0.5, styles=images[:, :1])
    with pytest.raises(ValueError, match="normalise after"):
        transfer_style(images, index, 0.5, styles=2 + images)


def test_the_file_stands_alone(tmp_path):
    """Copied out of the package it still works, with torch and nothing else of ours."""
    copy = tmp_path / "vendored.py"
    copy.write_text(Path(fourier.__file__).read_text())
    code = (
        "import sys, vendored as v, torch; v.FourierAugmentation((0, 1))(torch.rand(2, 3, 8, 8), 2)"
    )
    code += "; assert not any(name.split('.')[0] == 'onestyle' for name in sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
