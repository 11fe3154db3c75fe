"""The embedded data: real handwritten digits in four visual styles, which are the domains.

The strokes are the 1,797 handwritten digits that come with scikit-learn (8 x 8, 17 greys). Each is
upsampled smoothly and drawn in ONE style, so that no stroke is seen in two domains. The styles
differ in colour, contrast, texture and spatial frequency, and vary inside themselves (hue, ground,
thickness, noise) by numbers that depend on (seed, style, digit) alone. Nothing is downloaded.

n digits, s x s pixels: masks and textures are (n, s, s), colours (n, 3, 1, 1), pictures
(n, 3, s, s), all float32; numbers drawn for each digit are (n, 1, 1).
"""

from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onestyle.data.drawing import Floats, Sheet, bump, hsv, line, mitchell, over, step

__all__ = ["STYLES", "domains", "labels", "load", "render", "sample"]

Labels = NDArray[np.int64]

BLOCK = 1 << 18  # pixels drawn at a time: the work stays in cache


def load(size: int = 32, seed: int = 0) -> tuple[NDArray[np.uint8], Labels, Labels]:
    """All digits, each in one style: images (1797, 3, s, s), label 0..9, domain = index in STYLES.

    Rows keep scikit-learn's order. `seed` changes how digits look, never the domain they belong to.
    """
    label, domain = labels(), domains()
    images = np.empty((len(label), 3, size, size), np.uint8)
    for number, style in enumerate(STYLES):
        of_style = np.flatnonzero(domain == number)
        images[of_style] = render(style, of_style, size, seed)
    return images, label, domain


def labels() -> Labels:
    return _sources()[1].copy()


def domains() -> Labels:
    """The one domain of each digit: every class is shuffled and dealt round to the styles."""
    label = labels()
    lot = Sheet("", np.arange(len(label)), 1, 0).roll()[:, 0, 0]
    domain = np.empty(len(label), np.int64)
    domain[np.lexsort((lot, label))] = np.arange(len(label)) % len(STYLES)
    return domain


def render(style: str, indices: ArrayLike, size: int = 32, seed: int = 0) -> NDArray[np.uint8]:
    """Digits `indices` (0..1796) in a style -> (n, 3, s, s), the same in whatever company."""
    if style not in STYLES:
        raise ValueError(f"unknown style {style!r}; the styles are {', '.join(STYLES)}")
    if size < 16:
        raise ValueError(f"size={size} is too small to read a digit; it must be at least 16")
    ink, indices = _sources()[0], np.atleast_1d(np.asarray(indices, np.int64))
    if len(indices) and not 0 <= indices.min() <= indices.max() < len(ink):
        legal, given = f"0..{len(ink) - 1}", f"{indices.min()}..{indices.max()}"
        raise ValueError(f"there are digits {legal}, but indices span {given}")

    from threadpoolctl import threadpool_limits  # comes with scikit-learn

    images = np.empty((len(indices), 3, size, size), np.uint8)
    block = max(1, BLOCK // size**2)
    with threadpool_limits(1, "blas"):  # many small products: threads on busy cores are 20x slower
        for start in range(0, len(indices), block):
            part = indices[start : start + block]
            sheet = Sheet(style, part, size, seed)
            picture = _DRAW[style](_Strokes(ink[part], sheet), sheet)
            images[start : start + block] = picture.clip(0, 1) * 255 + 0.5
    return images


def sample(n: int, size: int = 32, seed: int = 0) -> NDArray[np.uint8]:
    """n digits to show, style by style, of several classes: those nearest to their class mean."""
    (ink, label), domain, chosen = _sources(), domains(), []
    for k in range(n):
        style, digit = k * len(STYLES) // n, 3 * (k + 1) % 10
        alike = np.flatnonzero((domain == style) & (label == digit))
        far = ((ink[alike] - ink[label == digit].mean(0)) ** 2).sum((1, 2))
        index = alike[np.argsort(far)[(seed + k) % len(alike)]]
        chosen.append(render(STYLES[style], index, size, seed))
    return np.concatenate(chosen)


# The styles -------------------------------------------------------------------------------------


def _ink(strokes: "_Strokes", sheet: Sheet) -> Floats:
    """Blue or black ink on off-white paper, plain, ruled or squared, with fibres and a shade."""
    roll, size = sheet.roll, sheet.size
    paper = hsv(0.06 + 0.10 * roll(), 0.03 + 0.13 * roll(), 0.90 + 0.09 * roll())
    fibres = 0.016 * (sheet.noise(12, 48) + sheet.noise(48, 12)) + 0.02 * sheet.speckle()
    paper = paper * (1 + fibres - (0.02 + 0.10 * roll()) * sheet.slope())[:, None]

    kind, period, start = roll(), 0.17 + 0.10 * roll(), roll()  # a quarter plain, a third squared
    width = max(0.016, 0.5 / size)
    rows = line((sheet.y / period + start) % 1 * period, width) * (kind > 0.25)
    columns = line((sheet.x / period + start) % 1 * period, width) * (kind > 0.65)
    rule = hsv(0.55 + 0.10 * roll(), 0.35 + 0.30 * roll(), 0.75 + 0.10 * roll())
    paper = over(paper, rule, 0.7 * np.maximum(rows, columns))

    pen = hsv(0.58 + 0.09 * roll(), 0.25 + 0.65 * roll(), 0.10 + 0.32 * roll())
    flow = (0.90 + 0.05 * sheet.noise(6, 6)).clip(0, 1)
    return over(paper, pen, flow * strokes.mask(0.50 + 0.16 * roll()))


def _chalk(strokes: "_Strokes", sheet: Sheet) -> Floats:
    """Dusty strokes, white or pastel, on a green, black or slate board with wiped smears."""
    roll = sheet.roll
    board = hsv(0.36 + 0.24 * roll(), 0.10 + 0.45 * roll(), 0.16 + 0.14 * roll())
    wiped = np.where(roll() > 0.5, sheet.noise(10, 2), sheet.noise(2, 10)) + sheet.noise(3, 3)
    dust = (0.10 + 0.05 * wiped + 0.05 * sheet.speckle()).clip(0, 0.4)
    board = over(board, np.float32(0.85), dust)

    chalk = hsv(roll(), 0.28 * (roll() > 0.4) * roll(), 0.90 + 0.08 * roll())
    tooth = 0.80 + 0.11 * sheet.noise(64, 64) + 0.33 * sheet.speckle()
    cover = strokes.mask(0.44 + 0.16 * roll(), 1.2) * tooth.clip(0.2, 1)
    return over(board, chalk, np.maximum(cover, 0.2 * strokes.glow()))


def _neon(strokes: "_Strokes", sheet: Sheet) -> Floats:
    """A glowing tube, white inside and saturated around, that lights a dark brick wall."""
    roll, size = sheet.roll, sheet.size
    height, seam = 0.11 + 0.06 * roll(), max(0.018, 0.6 / size)
    course = sheet.y / height + roll()
    brick = sheet.x / (2.2 * height) + roll() + 0.5 * (np.floor(course) % 2)
    bed, joint = line(course % 1 * height, seam), line(brick % 1 * 2.2 * height, seam)
    clay = hsv(0.97 + 0.07 * roll(), 0.25 + 0.35 * roll(), 0.30 + 0.20 * roll())
    rough = 1 + 0.16 * (sheet.noise(20, 20) + sheet.noise(4, 4)) + 0.25 * sheet.speckle()
    wall = clay * (rough * (1 - 0.6 * np.maximum(bed, joint)))[:, None]

    hue = roll()
    light, tube = hsv(hue, 0.85 + 0.15 * roll(), np.ones_like(hue)), 0.42 + 0.12 * roll()
    glow = strokes.glow()[:, None]
    lit = wall * (0.35 + 0.25 * roll()[:, None] + 2.2 * light * glow)
    lit = lit + light * (0.55 * strokes.blurred(0.40)[:, None] + 0.18 * glow)
    return over(over(lit, light, strokes.mask(tube)), 0.2 * light + 0.8, strokes.mask(0.98, 2.5))


def _photo(strokes: "_Strokes", sheet: Sheet) -> Floats:
    """Strokes painted on a photographed ground: coloured 1/f texture, shadow, sensor noise."""
    roll, hue = sheet.roll, sheet.roll()
    one = hsv(hue, 0.15 + 0.55 * roll(), 0.35 + 0.65 * roll())
    two = hsv(hue + 0.5 * roll(), 0.15 + 0.55 * roll(), 0.35 + 0.65 * roll())
    fall = 0.1 + 0.9 * roll()
    ground = over(one, two, (0.5 + 0.35 * sheet.pink(fall)).clip(0, 1))
    texture = 1 + 0.22 * sheet.pink(0.3 * fall) - 0.5 * roll() * sheet.slope()
    streaks = 1 + 0.2 * roll() * sheet.noise(40, 5) + 0.2 * roll() * sheet.noise(5, 40)
    edge = step(sheet.slope() + 0.12 * sheet.noise(3, 3), 0.55, 0.12)
    shade = 1 - 0.45 * roll() * edge
    ground = (ground * (texture * streaks * shade)[:, None]).clip(0.03, 0.97)

    luminance = np.tensordot(ground, np.array([0.299, 0.587, 0.114], np.float32), ([1], [0]))
    light = luminance.mean((1, 2), keepdims=True) < 0.40 + 0.18 * roll()  # paint that can be seen
    value = np.where(light, 0.92, 0.06) + 0.07 * roll()
    paint = hsv(roll(), np.where(light, 0.35, 0.7) * roll(), value)
    bristles, level = 1 + 0.05 * sheet.noise(6, 30), 0.46 + 0.16 * roll()
    ground = ground * (1 - 0.35 * strokes.blurred(level, down=0.025, right=0.035))[:, None]
    picture = over(ground, paint * bristles[:, None], 0.93 * strokes.mask(level))
    return picture + (0.02 + 0.08 * roll())[:, None] * sheet.speckle(3)


_DRAW: dict[str, Callable[["_Strokes", Sheet], Floats]] = {
    "ink": _ink,
    "chalk": _chalk,
    "neon": _neon,
    "photo": _photo,
}
STYLES = tuple(_DRAW)


class _Strokes:
    """The digits as smooth fields of ink, each with its own small change of place and scale."""

    def __init__(self, ink: Floats, sheet: Sheet):
        self.ink, self.size = ink, sheet.size
        self.scale, self.centre = 0.76 + 0.12 * sheet.roll(), 0.5 + 0.07 * (sheet.roll(2, 1) - 0.5)
        self.field = self._field(mitchell)

    def mask(self, level: Floats | float, softness: float = 1) -> Floats:
        """1 where there is more ink than `level`: the lower, the thicker. Soft by about a pixel."""
        return step(self.field, level, softness * max(0.12, 9 / self.size))

    def blurred(self, level: Floats | float, down: float = 0, right: float = 0) -> Floats:
        """The mask as a shadow, moved by shares of the sheet."""
        return step(self._field(mitchell, down, right), level, 0.45)

    def glow(self) -> Floats:
        """The light that the strokes throw around them."""
        return (1.6 * self._field(lambda x: bump(x / 2.2) / 2.2)).clip(0, 1)

    def _field(self, kernel: Callable[[Floats], Floats], down=0.0, right=0.0) -> Floats:
        centre = self.centre + np.array([[down], [right]], np.float32)
        pixel = (np.arange(self.size, dtype=np.float32) + 0.5) / self.size
        source = (pixel - centre) / self.scale * 8 + 3.5  # (n, 2, s)
        weight = kernel(source[..., None] - np.arange(8, dtype=np.float32))  # (n, 2, s, 8)
        return weight[:, 0] @ self.ink @ weight[:, 1].swapaxes(1, 2)


@cache
def _sources() -> tuple[Floats, Labels]:
    """Ink (1797, 8, 8), sharpened a little so that small loops stay open, and label."""
    from sklearn.datasets import load_digits  # a second of import that only the digits cost

    flat, label = load_digits(return_X_y=True)
    grey = np.pad(np.reshape(flat, (-1, 8, 8)) / 16, ((0, 0), (1, 1), (1, 1)))
    around = grey[:, :-2] + grey[:, 2:]
    beside = around[..., 1:-1] + grey[:, 1:-1, :-2] + grey[:, 1:-1, 2:]
    corners = around[..., :-2] + around[..., 2:]
    ink = 2.4 * grey[:, 1:-1, 1:-1] - 0.25 * beside - 0.10 * corners
    return ink.astype(np.float32), np.asarray(label, np.int64)
