"""Image files: which there are, and their pixels."""

import os
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

__all__ = ["find_images", "read_image"]

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


def read_image(path: Path, size: int) -> NDArray[np.uint8]:
    """The middle square of an image -> (3, size, size), upright, on white where transparent."""
    if not path.is_file():  # a broken link, a pipe
        raise ValueError(f"{path} is not a file")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of harmless metadata, and of sizes below MAX_PIXELS
            with Image.open(path, formats=FORMATS) as image:
                if image.width * image.height > MAX_PIXELS:
                    raise Image.DecompressionBombError
                return _square(image, size)
    except Image.DecompressionBombError as error:
        raise ValueError(f"{path} has more than {MAX_PIXELS:,} pixels") from error
    except UnidentifiedImageError as error:
        raise ValueError(
            f"{path} is not an image of a known format: {', '.join(FORMATS)}"
        ) from error
    except Exception as error:  # decoders fail in many ways, and each of them means a bad file
        raise ValueError(f"cannot read {path}: {error}") from error


def _square(image: Image.Image, size: int) -> NDArray[np.uint8]:
    image = ImageOps.exif_transpose(image)
    if image.mode.startswith(("I", "F")):  # 16 or 32 bits a pixel: convert() would cut them off
        deep = np.asarray(image, np.float64)
        white = 65535 if deep.max() > 255 else 255 if deep.max() > 1 else 1
        image = Image.fromarray((deep / white * 255).clip(0, 255).astype(np.uint8))
    if image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    square = ImageOps.fit(image.convert("RGB"), (size, size), Image.Resampling.LANCZOS)
    return np.asarray(square).transpose(2, 0, 1)
