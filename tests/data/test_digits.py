import hashlib

import numpy as np
import pytest
from sklearn.datasets import load_digits

from onestyle.data import digits


@pytest.fixture(scope="module")
def loaded():
    return digits.load()


def test_every_digit_comes_once_with_its_own_label(loaded):
    images, label, domain = loaded
    assert images.shape == (1797, 3, 32, 32) and images.dtype == np.uint8
    assert (label == load_digits().target).all()
    assert label.dtype == domain.dtype == np.int64


def test_domains_are_dealt_evenly_within_each_class(loaded):
    _, label, domain = loaded
    counts = np.array([np.bincount(domain[label == c], minlength=4) for c in range(10)])
    assert counts.shape == (10, len(digits.STYLES)) and counts.min() > 40
    assert np.ptp(counts, axis=1).max() <= 1 and np.ptp(counts.sum(0)) <= 1


def test_domains_never_change():
    dealt = digits.domains().astype(np.uint8).tobytes()
    assert hashlib.sha256(dealt).hexdigest()[:16] == "eb8319a924cfd1b4"


def test_a_row_is_its_digit_in_the_style_of_its_domain(loaded):
    images, _, domain = loaded
    for row in (0, 5, 1796):
        style = digits.STYLES[domain[row]]
        assert (images[row] == digits.render(style, row)[0]).all()


@pytest.mark.parametrize("style", digits.STYLES)
def test_a_picture_depends_on_seed_style_and_digit_alone(style):
    some = digits.render(style, [3, 900, 41])
    assert (some == digits.render(style, [3, 900, 41])).all()
    assert (some[::-1] == digits.render(style, [41, 900, 3])).all()
    large = digits.render(style, np.arange(300), size=64)  # drawn in several blocks
    assert (large[299] == digits.render(style, 299, size=64)[0]).all()
    assert (some != digits.render(style, [3, 900, 41], seed=1)).mean() > 0.3
    assert (digits.render(style, 3) != digits.render(style, 4)).mean() > 0.3


@pytest.mark.parametrize("style", digits.STYLES)
@pytest.mark.parametrize("size", [32, 33, 96])
def test_every_size_shows_the_same_picture(style, size):
    """Its colours and strokes; what is finer than the pixels of the smaller one differs."""
    from PIL import Image

    for index in (7, 12):
        small, large = (digits.render(style, index, s)[0].transpose(1, 2, 0) for s in (size, 160))
        shrunk = np.asarray(Image.fromarray(large).resize((size, size), Image.Resampling.BOX))
        assert np.abs(shrunk.mean((0, 1)) - small.mean((0, 1))).max() < 12
        assert np.corrcoef(shrunk.mean(2).ravel(), small.mean(2).ravel())[0, 1] > 0.75


def test_the_seed_changes_the_looks_and_not_the_split(loaded):
    images, label, domain = digits.load(size=16, seed=3)
    assert images.shape == (1797, 3, 16, 16)
    assert (label == loaded[1]).all() and (domain == loaded[2]).all()


def statistics(images):
    """Brightness, saturation, and the share of fine detail and of contrast: what a style is."""
    x = images / 255
    saturation = (x.max(1) - x.min(1)).mean((1, 2))
    grey = x.mean(1)
    fine = np.abs(np.diff(grey)).mean((1, 2))
    return np.stack([grey.mean((1, 2)), saturation, fine, grey.std((1, 2))], 1)


def test_styles_differ_more_than_their_pictures_do(loaded):
    """Each pair of styles is told apart by at least one plain statistic, for most pictures."""
    images, _, domain = loaded
    values = [statistics(images[domain == k]) for k in range(len(digits.STYLES))]
    for k, one in enumerate(values):
        for other in values[:k]:
            spread = np.sqrt((one.var(0) + other.var(0)) / 2)
            assert (np.abs(one.mean(0) - other.mean(0)) / spread).max() > 1


def test_pictures_vary_inside_a_style(loaded):
    images, _, domain = loaded
    for k in range(len(digits.STYLES)):
        values = statistics(images[domain == k])
        assert (values.std(0) / values.mean(0)).min() > 0.05


@pytest.mark.parametrize("style", digits.STYLES)
def test_strokes_can_be_seen(style):
    """Where there is much ink the picture differs from where there is none, in every single one."""
    index = np.arange(200)
    ink = load_digits().images[index] / 16
    blocks = digits.render(style, index).reshape(200, 3, 8, 4, 8, 4).mean((3, 5)) / 255
    contrast = []
    for picture, strokes in zip(blocks, ink, strict=True):
        on, off = picture[:, strokes > 0.9], picture[:, strokes == 0]
        contrast.append(np.abs(np.median(on, 1) - np.median(off, 1)).max())
    assert min(contrast) > 0.1 and np.median(contrast) > 0.3


def test_a_sample_has_every_style_and_distinct_digits():
    images = digits.sample(8, size=16)
    assert images.shape == (8, 3, 16, 16)
    assert len(np.unique(images.reshape(8, -1), axis=0)) == 8
    assert (images == digits.sample(8, size=16)).all()
    assert (images != digits.sample(8, size=16, seed=1)).any()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("oil", [0]), "unknown style 'oil'; the styles are ink, chalk, neon, photo"),
        (("ink", [0], 15), "at least 16"),
        (("ink", [1797]), "digits 0..1796"),
        (("ink", [-1]), "digits 0..1796"),
    ],
)
def test_mistakes_are_told(arguments, said):
    with pytest.raises(ValueError, match=said):
        digits.render(*arguments)


def test_no_digits_are_no_pictures():
    assert digits.render("ink", []).shape == (0, 3, 32, 32)
