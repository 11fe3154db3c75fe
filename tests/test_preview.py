import numpy as np
import pytest
import torch
from PIL import Image

from onestyle import page, preview
from onestyle.data import digits
from onestyle.fourier import BatchStylesStandardization, transfer_style


def pixels(figure):
    """(H, W, 3) uint8, as it is saved."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3]


def embedded(n, size):
    return torch.from_numpy(digits.sample(n, size)).float() / 255


def eight_bit(image):
    """(3, s, s) in [0, 1] -> (s, s, 3) uint8."""
    return (image.permute(1, 2, 0).numpy() * 255 + 0.5).astype(np.uint8)


def places(sheet, array):
    """Corners (y, x) of an array (s, s, 3) in the sheet, equal in every pixel."""
    side = len(array)
    candidates = np.argwhere((sheet == array[0, 0]).all(-1))
    inside = candidates[(candidates <= np.subtract(sheet.shape[:2], side)).all(1)]
    return [
        (y, x) for y, x in inside.tolist() if (sheet[y : y + side, x : x + side] == array).all()
    ]


@pytest.fixture(scope="module")
def grids():
    images = embedded(4, 128)  # a size at which cells are shown as they are
    figure = preview.compose(images, n_views=4, seed=5, parts=["grids"])
    return images, pixels(figure)


def test_the_grid_shows_the_transform_s_own_pixels(grids):
    images, sheet = grids
    views = BatchStylesStandardization((0.02, 1.0))(images, 4, torch.Generator().manual_seed(5))
    corners = [[places(sheet, eight_bit(view)) for view in row] for row in views]
    for row in corners:
        assert all(len(found) >= 1 for found in row)
    ys = [{y for found in row for y, _ in found} for row in corners]
    assert all(len(y) == 1 for y in ys)  # a row an image
    xs = [max(x for _, x in corners[0][v]) for v in range(4)]
    assert xs == sorted(xs) and len(set(np.diff(xs))) == 1  # a column a view


def test_words_and_lines_lie_above_the_pixels(grids):
    _, sheet = grids
    ink, accent = ([int(c[k : k + 2], 16) for k in (1, 3, 5)] for c in (page.INK, page.ACCENT))
    assert (sheet[page.MARGIN : page.MARGIN + 40] == ink).all(-1).sum() > 500  # the title
    columns = (sheet == accent).all(-1).any(0)
    assert np.diff(columns.astype(int)).clip(0).sum() == 8  # a line over each column of FA and BSS


def test_the_images_stand_on_the_left(grids):
    images, sheet = grids
    left = [min(places(sheet, eight_bit(image)), key=lambda place: place[1]) for image in images]
    assert {x for _, x in left} == {page.MARGIN}
    assert [y for y, _ in left] == sorted(y for y, _ in left)


def test_a_bss_column_has_one_style_and_an_fa_column_has_several():
    """Mean colours are the style's at any ratio: they agree down a BSS column up to the clamp."""
    images = embedded(4, 64) * 0.2 + 0.4  # far from the clamp
    shown = []
    original = preview._grid

    def record(sheet, x, y, cell, views):
        shown.append(views)
        original(sheet, x, y, cell, views)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(preview, "_grid", record)
        preview.compose(images, n_views=4, parts=["grids"])
    _, fa, bss = (views.mean((-2, -1)) for views in shown)
    assert (bss - bss[:1]).abs().max() < 2e-3
    assert (fa - fa[:1]).abs().max() > 0.02


def test_the_gallery_has_every_ratio_of_one_style():
    images = embedded(4, 128)
    sheet = pixels(preview.compose(images, n_views=5, parts=["reach"]))
    index, ratio = torch.full((8,), 2), torch.tensor(preview.REACH, dtype=torch.float64)
    side = (sheet.shape[1] - 2 * page.MARGIN - 2 * preview.GROUP_GAP - 7 * preview.GAP) // 10
    for view in transfer_style(images[:1], index, ratio, styles=images)[0]:
        picture = Image.fromarray(eight_bit(view))
        assert places(sheet, np.asarray(picture.resize((side, side), Image.Resampling.LANCZOS)))


def test_the_way_swaps_the_window_s_amplitude_and_veils_what_is_left_out():
    pair = embedded(2, 32)
    phase, (content, style, swapped), start, stop = preview._spectra(pair, 0.5)
    assert (start, stop) == (0.25, 0.75)
    inside = np.zeros((32, 32), bool)
    inside[8:24, 8:24] = True
    assert phase.shape == (3, 32, 32) and 0 <= phase.min() <= phase.max() <= 1
    assert (swapped[:, inside] == style[:, inside]).all()
    assert (swapped[:, ~inside] == content[:, ~inside]).all()
    assert content[:, inside].min() >= 0.75 and style[:, ~inside].min() >= 0.75


@pytest.mark.parametrize(
    ("n", "n_views", "ratios"), [(2, 1, (0, 0)), (2, 10, (1, 1)), (12, 1, (0, 1)), (5, 7, (0, 0.1))]
)
def test_any_number_of_images_and_views(n, n_views, ratios):
    parts = ["grids"] if n == 12 else ["grids", "reach"]
    sheet = pixels(preview.compose(embedded(n, 17), n_views=n_views, ratios=ratios, parts=parts))
    assert 1200 <= sheet.shape[1] <= 1800
    assert (sheet[:4] == 255).all() and (sheet[-4:] == 255).all()  # nothing touches the edge
    assert (sheet[:, :4] == 255).all() and (sheet[:, -4:] == 255).all()


def test_the_window_is_framed_where_it_is_taken_and_where_it_is_put():
    sheet = pixels(preview.compose(embedded(2, 64), ratios=(0.5, 0.5), parts=["way"]))
    accent = [int(page.ACCENT[k : k + 2], 16) for k in (1, 3, 5)]
    rows = (sheet == accent).all(-1)
    runs = [np.diff(np.flatnonzero(np.diff(np.pad(row.astype(int), 1)))[:2]) for row in rows]
    assert sum(run.size > 0 and run[0] > 90 for run in runs) >= 6  # three frames, two edges each


def test_the_same_seed_makes_the_same_picture_and_another_another():
    images = embedded(3, 32)
    one, same, other = (
        pixels(preview.compose(images, seed=seed, parts=["grids"])) for seed in (1, 1, 2)
    )
    assert (one == same).all() and (one != other).any()


def test_flat_images_are_shown():
    flat = torch.tensor([0, 0.5, 1]).reshape(3, 1, 1, 1).expand(3, 3, 32, 32)
    preview.compose(flat, n_views=2)
    preview.compose(flat[:1].expand(3, -1, -1, -1), n_views=2, parts=["way"])


@pytest.mark.parametrize("kind", ["png", "jpg", "webp"])
def test_a_saved_picture_can_be_read(tmp_path, kind):
    figure = preview.compose(embedded(2, 32), n_views=2, parts=["grids"])
    page.save(figure, tmp_path / f"a.{kind}")
    with Image.open(tmp_path / f"a.{kind}") as image:
        image.load()
        assert image.size == pixels(figure).shape[1::-1]
    assert [path.name for path in tmp_path.iterdir()] == [f"a.{kind}"]


def test_a_small_picture_is_small_and_its_paper_white(tmp_path):
    figure = preview.compose(embedded(2, 128), n_views=3, parts=["grids"])
    full, small = tmp_path / "full.png", tmp_path / "small.png"
    page.save(figure, full)
    page.save(figure, small, small=True)
    assert small.stat().st_size < 0.5 * full.stat().st_size
    full, small = (np.asarray(Image.open(path).convert("RGB"), int) for path in (full, small))
    assert (small[:20] == 255).all()
    assert np.abs(full - small).mean() < 3


def test_pdf(tmp_path):
    page.save(preview.compose(embedded(2, 32), parts=["way"]), tmp_path / "a.pdf")
    assert (tmp_path / "a.pdf").read_bytes().startswith(b"%PDF")
