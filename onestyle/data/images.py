"""Image files: which there are, and their pixels."""

import io
import os
import warnings
from collections.abc import Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

__all__ = ["FORMATS", "RESIZE", "SUFFIXES", "decode", "find_images", "quiet", "read_image"]

FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "TIFF", "PPM")  # none of them runs an interpreter
SUFFIXES = {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff", ".ppm", ".pgm"}
MAX_PIXELS = 64_000_000


def find_images(sources: Sequence[Path]) -> list[Path]:
    """The named files, and the image files below the named folders in sorted order."""
    found: list[Path] = []
    for source in sources:
        if not source.exists():
            raise ValueError(f"{source} does not exist")
        found += _below(source) if source.is_dir() else [source]
    if not found:
        where, kinds = ", ".join(map(str, sources)), " ".join(sorted(SUFFIXES))
        raise ValueError(f"no image in {where} (looked for {kinds})")
    return found


def _below(folder: Path) -> list[Path]:
    def fail(error: OSError):
        raise error

    found = []
    for parent, folders, files in os.walk(folder, onerror=fail):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        images = (name for name in files if Path(name).suffix.lower() in SUFFIXES)
        found += [Path(parent, name) for name in sorted(images) if not name.startswith(".")]
    return found


def read_image(path: Path, size: int, resize: str = "crop") -> NDArray[np.uint8]:
    """An image file -> (3, size, size), upright, on white where transparent."""
    if not path.is_file():  # a broken link, a pipe
        raise ValueError(f"{path}: not a file")
    with quiet():
        try:
            return decode(path.read_bytes(), size, resize)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error


def decode(content: bytes, size: int, resize: str = "crop") -> NDArray[np.uint8]:
    """The contents of an image file -> (3, size, size); a ValueError says what is wrong with it.

    Not square: "crop" takes the middle, "stretch" all of it, "pad" all of it on black.
    """
    if not content:
        raise ValueError("the file is empty")
    try:
        with Image.open(io.BytesIO(content), formats=FORMATS) as image:
            if image.width * image.height > MAX_PIXELS:
                raise Image.DecompressionBombError
            return _square(image, size, resize)
    except Image.DecompressionBombError as error:
        raise ValueError(f"more than {MAX_PIXELS:,} pixels") from error
    except UnidentifiedImageError as error:
        raise ValueError(f"not an image of a known format: {', '.join(FORMATS)}") from error
    except Exception as error:  # decoders fail in many ways, and each of them means a bad file
        raise ValueError(f"cannot be read: {error}") from error


@contextmanager
def quiet():
    """No warnings of harmless metadata, and of sizes below MAX_PIXELS. Not for threads to enter."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="PIL")
        warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)
        yield


def _square(image: Image.Image, size: int, resize: str) -> NDArray[np.uint8]:
    image = ImageOps.exif_transpose(image)
    if image.mode.startswith(("I", "F")):  # 16 or 32 bits a pixel: convert() would cut them off
        deep = np.asarray(image, np.float64)
        if not np.isfinite(deep).all():
            raise ValueError("pixels that are no numbers")
        is_16 = image.mode.startswith("I;16") or deep.max() > 255
        white = 65535 if is_16 else 255 if deep.max() > 1 else 1
        image = Image.fromarray((deep / white * 255).clip(0, 255).astype(np.uint8))
    if image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    image = image.convert("RGB")
    if image.size != (size, size):
        image = RESIZE[resize](image, (size, size))
    return np.asarray(image).transpose(2, 0, 1)


_LANCZOS = Image.Resampling.LANCZOS
RESIZE = {
    "stretch": lambda image, size: image.resize(size, _LANCZOS),
    "crop": lambda image, size: ImageOps.fit(image, size, _LANCZOS),
    "pad": lambda image, size: ImageOps.pad(image, size, _LANCZOS),
}
