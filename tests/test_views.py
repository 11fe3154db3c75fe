"""A plan says what its views are: how many, what size, whose style, which scope; in what order."""

import pytest
import torch
from torch.testing import assert_close

import onestyle.views as views_module
from onestyle.colour import Colour
from onestyle.fourier import FourierAugmentation, transfer_style
from onestyle.geometry import Geometry, cut_out, warp
from onestyle.views import ViewPlan, Views

STILL = Geometry(horizontal_flip=0, rotation=0, cutout=0, aspect=(1, 1))
PLAIN = Colour(jitter=0, equalize=0, posterize=0, solarize=0, grayscale=0)
RAW = dict(mean=(0, 0, 0), std=(1, 1, 1))
WHOLE = (1.0, 1.0)


def batch(n=6, side=32):
    return torch.rand(n, 3, side, side, generator=torch.Generator().manual_seed(0))


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def test_a_plan_reads_like_the_papers_tables():
    plan = ViewPlan.parse("2x224 bss + 6x128 fa")
    assert plan.groups == (
        Views(2, 224, "bss"),
        Views(6, 128, "fa", scale=(0.05, 0.14)),
    )
    assert [views.scope for views in plan.groups] == ["batch", "image"]
    assert plan.ratios == (0.02, 1.0)
    assert (plan.mean, plan.std) == ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))  # ImageNet's
    scaled = ViewPlan.parse("2x224 bss 0.3..1 + 6x128 fa .05..0.3")
    assert [views.scale for views in scaled.groups] == [(0.3, 1.0), (0.05, 0.3)]


def test_groups_have_their_number_and_size():
    large, small = ViewPlan.parse("2x24 bss + 3x16 fa")(batch(), seeded())
    assert large.shape == (2, 6, 3, 24, 24) and small.shape == (3, 6, 3, 16, 16)


def test_all_bss_views_come_from_one_draw():
    draws = ViewPlan.parse("2x24 bss + 3x16 bss + 1x16 fa").draw(5, seeded())
    assert sorted(torch.cat([draws[0].style.source, draws[1].style.source]).tolist()) == list(
        range(5)
    )
    assert draws[0].style.ratio == draws[1].style.ratio
    assert draws[2].style.source.shape == (5, 1)
    scoped = ViewPlan.parse("2x24 bss + 3x16 bss", ratio_scope="view").draw(5, seeded())
    assert torch.cat([scoped[0].style.ratio, scoped[1].style.ratio]).unique().numel() == 5
    assert [len(draw.style.ratio) for draw in scoped] == [2, 3]


@pytest.mark.parametrize("style", ["bss", "fa", "none"])
def test_without_geometry_and_colour_a_plan_is_the_style_alone(style):
    images = batch()
    plan = ViewPlan((Views(3, 32, style, scale=WHOLE),), geometry=STILL, colour=PLAIN, **RAW)
    (draw,) = plan.draw(6, seeded())
    (views,) = plan.apply(images, [draw])
    styled = images[:, None].expand(-1, 3, -1, -1, -1)
    if style != "none":
        styled = transfer_style(images, *draw.style)
    assert_close(views, styled.transpose(0, 1), rtol=0, atol=2e-5)


def test_weak_views_are_a_crop_and_a_flip():
    """Whatever the plan's geometry and colour do to others."""
    options = {"geometry": Geometry(scale=(1, 1), aspect=(1, 1), rotation=1, cutout=1)}
    plan = ViewPlan.parse("2x16 weak + 1x16 none", **options, mean=(0, 0, 0), std=(1, 1, 1))
    images = torch.rand(5, 3, 16, 16)
    weak, strong = plan(images, torch.Generator().manual_seed(0))
    for view in weak:
        for image, seen in zip(images, view, strict=True):
            flipped = [(seen - other).abs().max() < 1e-5 for other in (image, image.flip(-1))]
            assert any(flipped)
    assert (strong - images).abs().max() > 0.1
    assert [group.scope for group in plan.groups] == ["image", "image"]


def test_order_is_style_geometry_colour_mean_and_std_cutout():
    images = batch()
    colour = Colour(posterize=1, bits=2, jitter=1, solarize=1, blur=1, sigma=(10.0, 20.0))
    plan = ViewPlan((Views(2, 20, "bss"),), colour=colour)
    (draw,) = plan.draw(6, seeded())
    (views,) = plan.apply(images, [draw])
    styled = transfer_style(images, *draw.style)
    cropped = warp(styled.flatten(0, 1), draw.geometry.affine.flatten(0, 1), 20)
    coloured = colour.apply(cropped.unflatten(0, (6, 2)), draw.colour)
    mean, std = (torch.tensor(t)[:, None, None] for t in (plan.mean, plan.std))
    expected = cut_out((coloured - mean) / std, draw.geometry.cutout)
    assert_close(views, expected.transpose(0, 1), rtol=0, atol=1e-5)


def test_colour_is_one_for_a_bss_view_and_geometry_is_not():
    same = batch(1).expand(12, -1, -1, -1)
    for style, shared in (("bss", True), ("fa", False), ("none", False)):
        colour = Colour(blur=0.5, sigma=(1.0, 20.0))
        plan = ViewPlan((Views(3, 32, style, scale=WHOLE),), geometry=STILL, colour=colour)
        (views,) = plan(same, seeded())
        assert all((view == view[:1]).all() for view in views) == shared
        assert not torch.equal(views[0], views[1])
    (views,) = ViewPlan((Views(3, 32, "bss"),), colour=PLAIN)(same, seeded())
    assert all(len(view.flatten(1).unique(dim=0)) == 12 for view in views)


def test_the_scope_can_be_chosen_against_the_style():
    same = batch(1).expand(8, -1, -1, -1)
    plan = ViewPlan((Views(2, 32, "none", "batch", scale=WHOLE),), geometry=STILL)
    assert all((view == view[:1]).all() for view in plan(same, seeded())[0])


def test_uint8_images_are_the_same_as_floats():
    pixels = torch.randint(0, 256, (4, 3, 24, 24), dtype=torch.uint8)
    plan = ViewPlan.parse("2x16 fa")
    assert torch.equal(plan(pixels, seeded())[0], plan(pixels / 255, seeded())[0])


@pytest.mark.parametrize("style", ["bss", "fa", "none"])
def test_a_generator_fixes_the_views(style):
    plan, images = ViewPlan.parse(f"2x24 {style} + 2x16 fa"), batch()
    first, again, other = (plan(images, seeded(seed)) for seed in (0, 0, 1))
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not any(torch.equal(a, b) for a, b in zip(first, other, strict=True))


@pytest.mark.parametrize("style", ["bss", "fa", "none"])
def test_blocks_do_not_change_the_views(style, monkeypatch):
    plan, images = ViewPlan.parse(f"2x24 {style}"), batch(9)
    whole = plan(images, seeded())[0]

    def by_two(images, n_views=1):
        return [slice(i, min(i + 2, len(images))) for i in range(0, len(images), 2)]

    monkeypatch.setattr(views_module, "blocks", by_two)
    monkeypatch.setattr("onestyle.fourier.blocks", by_two)
    assert_close(plan(images, seeded())[0], whole, rtol=0, atol=1e-4)


def test_any_function_can_be_the_style():
    images = batch()

    def dimmed(images, n_views, generator):
        gains = torch.rand(n_views, 1, 1, 1, generator=generator)
        return images[:, None] * gains

    plan = ViewPlan(
        (Views(2, 32, dimmed, "image", scale=WHOLE),), geometry=STILL, colour=PLAIN, **RAW
    )
    (views,) = plan(images, seeded())
    assert torch.equal(views, plan(images, seeded())[0])
    gains = (views / images).flatten(1)
    assert_close(gains, gains[:, :1].expand_as(gains), rtol=1e-3, atol=1e-3)
    assert not torch.allclose(gains[0, 0], gains[1, 0])


def test_a_style_function_may_write_into_its_images():
    def darkened(images, n_views, generator):
        return images.mul_(0.5)[:, None].expand(-1, n_views, -1, -1, -1)

    images = batch()
    before = images.clone()
    plan = ViewPlan((Views(1, 32, darkened, "image"), Views(1, 32, "none")))
    alone = ViewPlan((plan.groups[1],))
    draws = plan.draw(6, seeded())
    assert_close(plan.apply(images, draws)[1], alone.apply(images, draws[1:])[0])
    assert torch.equal(images, before)


@pytest.mark.parametrize("style", ["fa", "none"])
def test_a_share_of_the_images_gets_its_part_of_the_draw(style):
    images, plan = batch(), ViewPlan.parse(f"2x24 {style}")
    (draw,) = plan.draw(6, seeded(), shares=2)
    (whole,) = plan.apply(images, [draw])
    for share in (slice(0, 3), slice(3, 6)):
        (part,) = plan.apply(images[share], [draw.of(share)])
        assert_close(part, whole[:, share], rtol=0, atol=1e-4)


def test_the_options_of_style_arrive():
    images, options = batch(), dict(ratio_kind="area", symmetric=True)
    plan = ViewPlan(
        (Views(2, 32, "fa", scale=WHOLE),),
        ratios=(0.3, 0.3),
        geometry=STILL,
        colour=PLAIN,
        **RAW,
        **options,
    )
    views = plan(images, seeded())[0]
    expected = FourierAugmentation((0.3, 0.3), **options)(images, 2, seeded())
    assert_close(views, expected.transpose(0, 1), rtol=0, atol=2e-5)


def test_wrong_plans_are_refused():
    with pytest.raises(ValueError, match="2x224 bss"):
        ViewPlan.parse("two views please")
    with pytest.raises(ValueError, match="bss, fa, none"):
        ViewPlan.parse("2x224 fda")
    with pytest.raises(ValueError, match="batch or image"):
        Views(2, 224, "bss", "sample")
    for n, size in ((0, 224), (2, 0), (1.5, 224), (2, 22.4)):
        with pytest.raises(ValueError, match="n >= 1 and size >= 1"):
            Views(n, size)
    with pytest.raises(ValueError, match="groups of Views, at least one"):
        ViewPlan(())
    with pytest.raises(ValueError, match="r_min"):
        ViewPlan.parse("2x224 bss", ratios=(1, 0))
    with pytest.raises(ValueError, match=r"\(N, 3, S, S\)"):
        ViewPlan.parse("2x16 bss")(torch.rand(2, 3, 16, 20))
    for wrong in (dict(std=(1, 0, 1)), dict(std=(1, 1, float("nan"))), dict(mean=(0, 0))):
        with pytest.raises(ValueError, match="three numbers"):
            ViewPlan.parse("2x224 bss", **wrong)
    with pytest.raises(ValueError, match="a number of images of 5, to be applied to 4"):
        ViewPlan.parse("2x16 none").apply(batch(4), ViewPlan.parse("2x16 none").draw(5))
    with pytest.raises(ValueError, match=r"Geometry\.scale"):
        Views(2, 224, scale=(0.5, 0.2))
    with pytest.raises(ValueError, match="needs a colour_scope"):
        Views(2, 224, lambda images, n_views, generator: images)
    with pytest.raises(ValueError, match="no images"):
        ViewPlan.parse("2x16 bss").draw(0)
    with pytest.raises(ValueError, match="normalise after"):
        ViewPlan.parse("2x16 bss")(2 * torch.ones(2, 3, 16, 16))


@pytest.mark.parametrize("styled", [torch.zeros(4, 3, 16, 16), 2 * torch.ones(4, 2, 3, 16, 16)])
def test_a_style_function_that_gives_no_views_is_refused(styled):
    plan = ViewPlan((Views(2, 16, lambda *_: styled, "batch"),))
    with pytest.raises(ValueError, match=r"a style must give views|must lie in"):
        plan(batch(4, 16))


def test_autocast_and_the_default_type_do_not_touch_the_views():
    plan, images = ViewPlan.parse("2x24 bss + 2x16 fa"), batch()
    expected = plan(images, seeded())
    with torch.autocast("cpu", torch.bfloat16):
        assert all(map(torch.equal, plan(images, seeded()), expected))
    torch.set_default_dtype(torch.double)
    try:
        assert all(map(torch.equal, plan(images, seeded()), expected))
    finally:
        torch.set_default_dtype(torch.float)


def test_the_plans_crop_is_its_geometrys_unless_a_group_names_one():
    plan = ViewPlan((Views(1, 8), Views(1, 8, scale=(0.5, 0.5))), geometry=Geometry(scale=(1, 1)))
    areas = [d.geometry.affine[..., :2].det().abs() for d in plan.draw(40, seeded())]
    assert_close(areas[0], torch.ones(40, 1))
    assert_close(areas[1], torch.full((40, 1), 0.5))
