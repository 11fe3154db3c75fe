"""Textures and colours that belong to a picture's number: what the embedded data is drawn with.

n pictures, s x s pixels: textures are (n, s, s), colours (n, 3, 1, 1), pictures (n, 3, s, s), all
float32; numbers drawn for each picture are (n, 1, 1).
"""

from functools import cache
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Floats", "Sheet", "bump", "hsv", "line", "mitchell", "over", "step"]

Floats = NDArray[Any]  # float32
GOLDEN = np.array([0x9E3779B97F4A7C15], np.uint64)


class Sheet:
    """n blank sheets, each with dice of its own: its k-th roll is the same in whatever company.

    SplitMix64 on a counter: independent of numpy's generators and of how many are rolled at once.
    """

    def __init__(self, style: str, indices: NDArray[np.int64], size: int, seed: int):
        self.size = size
        place = (np.arange(size, dtype=np.float32) + 0.5) / size
        self.y, self.x = place[:, None], place[None, :]
        stream = _mix(np.array([seed % 2**64], np.uint64))
        for byte in style.encode():
            stream = _mix(stream + np.uint64(byte))
        self._stream = _mix(stream + GOLDEN * indices.astype(np.uint64))

    def roll(self, *shape: int) -> Floats:
        """Uniform numbers in [0, 1), (n, *shape) or (n, 1, 1)."""
        self._stream = _mix(self._stream + GOLDEN)
        counter = GOLDEN * np.arange(1, prod(shape) + 1, dtype=np.uint64)
        bits = _mix(self._stream[:, None] + counter) >> np.uint64(40)
        uniform = bits.astype(np.float32) * np.float32(2**-24)
        return uniform.reshape(len(uniform), *(shape or (1, 1)))

    def speckle(self, *channels: int) -> Floats:
        """Noise of the pixels, uniform in -0.5..0.5."""
        return self.roll(*channels, self.size, self.size) - 0.5

    def noise(self, rows: int, columns: int) -> Floats:
        """Smooth noise of mean 0 and variance about 1 with so many bumps along each side."""
        rows, columns = min(rows, self.size // 2), min(columns, self.size // 2)
        lattice = 7.2 * (self.roll(rows + 3, columns + 3) - 0.5)
        return _spread(rows, self.size) @ lattice @ _spread(columns, self.size).T

    def pink(self, fall: Floats) -> Floats:
        """Octaves of noise up to the pixels: amplitude 1/f at fall = 0, smoother above."""
        after = _mix(self._stream + GOLDEN)  # larger sizes roll more often: what follows must not
        octaves = [2**k for k in range(1, self.size.bit_length() - 1)]
        mixed = sum(self.noise(bumps, bumps) * bumps**-fall for bumps in octaves)
        self._stream = _mix(~after)
        return mixed / np.sqrt(sum(bumps ** (-2 * fall) for bumps in octaves))

    def slope(self) -> Floats:
        """A gradient from about 0 to 1 across the sheet, in any direction."""
        angle = 2 * np.pi * self.roll()
        along = (self.y - 0.5) * np.sin(angle) + (self.x - 0.5) * np.cos(angle)
        return (0.5 + 0.7 * along).clip(0, 1)


def _mix(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@cache
def _spread(bumps: int, size: int) -> Floats:
    place = (np.arange(size, dtype=np.float32) + 0.5) / size * bumps + 1
    return bump(place[:, None] - np.arange(bumps + 3, dtype=np.float32))


def bump(x: Floats) -> Floats:
    """The cubic B-spline."""
    x = np.abs(x)
    return np.where(x < 1, 2 / 3 - x**2 + x**3 / 2, np.maximum(0, 2 - x) ** 3 / 6)


def mitchell(x: Floats) -> Floats:
    """The cubic of Mitchell and Netravali: less blur than the B-spline, hardly any ringing."""
    x = np.abs(x)
    near, far = (21 * x**3 - 36 * x**2 + 16) / 18, (2 - x) ** 2 * (8 - 7 * x) / 18
    return np.where(x < 1, near, np.where(x < 2, far, 0))


def step(field: Floats, at: Floats | float, half: float) -> Floats:
    t = ((field - at) / (2 * half) + 0.5).clip(0, 1)
    return t * t * (3 - 2 * t)


def line(distance: Floats, width: float) -> Floats:
    return (1 - np.abs(distance - width) / width).clip(0, 1)


def over(ground: Floats, colour: Floats | np.float32, cover: Floats) -> Floats:
    return ground + (colour - ground) * cover[:, None]


def hsv(hue: Floats, saturation: Floats, value: Floats) -> Floats:
    """(n, 1, 1) each -> colour (n, 3, 1, 1)."""
    wheel = np.abs((hue * 6 + np.array([[0], [4], [2]], np.float32)) % 6 - 3) - 1
    colour = value * (1 - saturation * (1 - wheel.clip(0, 1)))
    return colour.astype(np.float32)[..., None]
