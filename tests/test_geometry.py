"""Crop, flip, rotation, cutout: against their definitions and torchvision."""

import pytest
import torch
import torchvision.transforms.v2.functional as tv
from torch.testing import assert_close

from onestyle.geometry import Geometry, cut_out, warp

STILL = dict(scale=(1, 1), aspect=(1, 1), horizontal_flip=0, vertical_flip=0, rotation=0, cutout=0)


def geometry(**changes):
    return Geometry(**(STILL | changes))


def smooth(n=6, side=48):
    """Images without aliasing, so that two ways of resampling can be compared."""
    places = torch.linspace(0, 1, side)
    waves = torch.rand(n, 3, 4, 1, 1, generator=torch.Generator().manual_seed(0))
    x, y = places[None, :], places[:, None]
    phase = waves[:, :, 0] * 6 * x + waves[:, :, 1] * 6 * y + 6 * waves[:, :, 2]
    return 0.5 + 0.4 * phase.sin()


def warped(images, size, **changes):
    draw = geometry(**changes).draw(len(images), 1, torch.Generator().manual_seed(3))
    return warp(images, draw.affine[:, 0], size), draw


def test_nothing_drawn_is_the_image_itself():
    images = smooth()
    assert_close(warped(images, 48)[0], images, rtol=0, atol=1e-5)


@pytest.mark.parametrize("flip, dim", [("horizontal_flip", -1), ("vertical_flip", -2)])
def test_flips_are_exact(flip, dim):
    images = torch.rand(5, 3, 20, 20)
    assert_close(warped(images, 20, **{flip: 1})[0], images.flip(dim), rtol=0, atol=1e-5)


def test_quarter_turns_are_exact_and_all_occur():
    images = torch.rand(1, 3, 16, 16).expand(60, -1, -1, -1)
    turned, _ = warped(images, 16, quarter_turns=True)
    seen = set()
    for view in turned:
        fits = [torch.allclose(view, images[0].rot90(k, (-2, -1)), atol=1e-5) for k in range(4)]
        assert sum(fits) == 1
        seen.add(fits.index(True))
    assert seen == {0, 1, 2, 3}


def test_a_crop_is_torchvisions_resized_crop():
    images = smooth(side=60)
    views, draw = warped(images, 32, scale=(0.2, 0.6), aspect=(0.8, 1.25))
    for image, view, affine in zip(images, views, draw.affine[:, 0], strict=True):
        width, height = affine[0, 0] * 60, affine[1, 1] * 60
        left, top = (affine[:, 2] + 1) * 30 - torch.stack([width, height]) / 2
        box = [round(float(edge)) for edge in (top, left, height, width)]
        expected = tv.resized_crop(image, *box, [32, 32], antialias=False)
        assert (view - expected).abs().max() < 0.06  # their box is rounded to whole pixels


def test_a_crop_of_whole_pixels_is_torchvisions_to_rounding():
    """But for its rim, which sees the neighbours beyond the box where torchvision has none left."""
    images = torch.rand(2, 3, 60, 60)
    for top, left, height, width in ((0, 0, 60, 60), (7, 21, 30, 24), (40, 0, 20, 44)):
        size, corner = torch.tensor([width, height]) / 60, torch.tensor([left, top]) / 30 - 1
        affine = torch.cat([size.diag(), (corner + size)[:, None]], 1).expand(2, -1, -1)
        expected = tv.resized_crop(images, top, left, height, width, [32, 32], antialias=False)
        inner = (..., slice(1, -1), slice(1, -1))
        assert_close(warp(images, affine, 32)[inner], expected[inner], rtol=0, atol=1e-5)


def test_a_rotation_is_torchvisions_inside_the_circle():
    images = smooth()
    views, draw = warped(images, 48, rotation=1, degrees=15)
    places = torch.linspace(-1, 1, 48)
    inside = (places[:, None] ** 2 + places**2) < 0.95
    for image, view, affine in zip(images, views, draw.affine[:, 0], strict=True):
        angle = float(torch.atan2(affine[1, 0], affine[0, 0]).rad2deg())
        assert abs(angle) <= 15
        bilinear = tv.InterpolationMode.BILINEAR
        expected = tv.rotate(image, angle, interpolation=bilinear)
        assert_close(view[:, inside], expected[:, inside], rtol=0, atol=5e-3)


def test_beyond_the_border_is_the_mirror_not_black():
    views, _ = warped(torch.ones(20, 3, 32, 32), 32, rotation=1, degrees=45)
    assert_close(views, torch.ones_like(views))
    image = torch.rand(1, 3, 16, 16)
    double = torch.tensor([[[2.0, 0, 0], [0, 2, 0]]])  # the image in the middle of the view
    mirrored = torch.cat([image[..., :8].flip(-1), image, image[..., 8:].flip(-1)], -1)
    mirrored = torch.cat([mirrored[:, :, :8].flip(-2), mirrored, mirrored[:, :, 8:].flip(-2)], -2)
    assert_close(warp(image, double, 32), mirrored, rtol=0, atol=1e-5)


def test_crops_stay_inside_and_keep_area_and_aspect():
    draw = geometry(scale=(0.05, 0.14), aspect=(3 / 4, 4 / 3)).draw(500, 4)
    width, height = draw.affine[..., 0, 0], draw.affine[..., 1, 1]
    area, aspect = width * height, width / height
    assert area.min() >= 0.0499 and area.max() <= 0.1401
    assert aspect.min() >= 0.7499 and aspect.max() <= 1.3334
    reach = draw.affine[..., 2].abs() + torch.stack([width, height], -1)
    assert reach.max() <= 1 + 1e-6 and reach.max() > 0.99
    wide = geometry(scale=(0.05, 0.1), aspect=(1 / 2, 2)).draw(500, 4).affine
    assert abs((wide[..., 0, 0] / wide[..., 1, 1]).log().mean()) < 0.05  # as often tall as wide


def test_a_crop_that_does_not_fit_is_drawn_again():
    affine = geometry(scale=(0.14, 1.0), aspect=(3 / 4, 4 / 3)).draw(500, 4).affine
    assert (affine[..., 0, 0] * affine[..., 1, 1]).max() < 1


def test_strengths_are_those_of_the_documentation():
    assert Geometry() == Geometry(
        (0.14, 1.0), (3 / 4, 4 / 3), 0.5, 0, 0.5, 15, False, 0.5, (0.1, 0.4)
    )


def test_a_turned_crop_stays_inside_and_reaches_the_border():
    draw = geometry(scale=(0.3, 0.3), aspect=(2, 2), quarter_turns=True).draw(500, 4)
    extent = draw.affine[..., :2].abs().sum(-1)  # half of it, along x and y of the image
    reach = draw.affine[..., 2].abs() + extent
    assert reach.max() <= 1 + 1e-6 and (reach.amax((0, 1)) > 0.99).all()


def test_every_image_and_view_has_its_own_geometry():
    affine = Geometry().draw(50, 4).affine.flatten(0, 1).flatten(1)
    assert len(affine.unique(dim=0)) == 200


def test_draws_follow_their_probabilities():
    draw = Geometry(horizontal_flip=0.3, cutout=0.7).draw(2000, 2)
    centre = (draw.cutout[..., 2:] + draw.cutout[..., :2]).flatten(0, 1) / 2
    assert_close(centre.std(0), torch.full((2,), 3**-0.5), rtol=0, atol=0.02)  # of U(-1, 1)
    assert abs(centre.T.corrcoef()[0, 1]) < 0.08
    determinant = torch.linalg.det(draw.affine[..., :2])
    assert abs((determinant < 0).float().mean() - 0.3) < 0.03
    sides = (draw.cutout[..., 2:] - draw.cutout[..., :2])[..., 0] / 2
    assert abs((sides > 0).float().mean() - 0.7) < 0.03
    assert sides[sides > 0].min() >= 0.0999 and sides.max() <= 0.4001
    turned = geometry(rotation=0.3, degrees=20).draw(2000, 2).affine
    angle = torch.atan2(turned[..., 1, 0], turned[..., 0, 0]).rad2deg()
    assert abs((angle != 0).float().mean() - 0.3) < 0.03
    assert -20.001 < angle.min() < -19 and 19 < angle.max() < 20.001


def test_cutout_clears_one_square_and_nothing_else():
    draw = geometry(cutout=1, cutout_side=(0.25, 0.25)).draw(30, 2)
    views = cut_out(torch.ones(30, 2, 3, 40, 40), draw.cutout)
    assert torch.equal(views[:, :, 0], views[:, :, 1])
    for view, box in zip(views[:, :, 0].flatten(0, 1), draw.cutout.flatten(0, 1), strict=True):
        rows, columns = (view == 0).any(1), (view == 0).any(0)
        assert torch.equal(view == 0, rows[:, None] & columns)  # a rectangle
        whole = bool((box.abs() <= 1).all())  # else it is cut by the border
        for cleared in (rows, columns):
            assert int(cleared.sum()) in ((9, 10, 11) if whole else range(4, 12))


def test_a_generator_fixes_the_draw():
    first, again = (Geometry().draw(4, 3, torch.Generator().manual_seed(1)) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))


@pytest.mark.parametrize(
    "wrong",
    [
        dict(horizontal_flip=1.5),
        dict(cutout=-0.1),
        dict(scale=(0.5, 0.2)),
        dict(scale=(0, 1)),
        dict(cutout_side=(0.1, 1.2)),
        dict(aspect=(2, 1)),
        dict(aspect=(1, float("inf"))),
        dict(degrees=200),
    ],
)
def test_wrong_numbers_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Geometry(**wrong)
