import os
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from onestyle.data import images
from onestyle.data.images import find_images, read_image
from tests.data.files import open_to_all

RED, GREEN, BLUE = (255, 0, 0), (0, 255, 0), (0, 0, 255)


def thirds(width=60, height=20):
    """Red, green and blue from left to right."""
    picture = np.zeros((height, width, 3), np.uint8)
    for k in range(3):
        picture[:, k * width // 3 : (k + 1) * width // 3, k] = 255
    return Image.fromarray(picture)


def mean(path, size=16):
    pixels = read_image(path, size)
    assert pixels.shape == (3, size, size) and pixels.dtype == np.uint8
    return tuple(pixels.mean((1, 2)).round().astype(int))


def test_the_middle_square_is_taken(tmp_path):
    thirds().save(tmp_path / "wide.png")
    thirds().rotate(90, expand=True).save(tmp_path / "tall.png")
    for name in ("wide.png", "tall.png"):
        assert np.abs(np.subtract(mean(tmp_path / name), GREEN)).max() <= 1


def test_the_camera_s_rotation_is_undone(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # was held a quarter turn to the right
    picture = Image.new("RGB", (32, 32), BLUE)
    picture.paste(RED, (0, 0, 32, 16))
    picture.rotate(90).save(tmp_path / "a.jpg", exif=exif, quality=95, subsampling=0)
    upper, lower = np.split(read_image(tmp_path / "a.jpg", 32).astype(int), 2, axis=1)
    assert upper[0].mean() > 240 and lower[2].mean() > 240


@pytest.mark.parametrize("kind", ["jpg", "png", "webp", "bmp", "tif", "ppm"])
def test_formats(tmp_path, kind):
    path = tmp_path / f"a.{kind}"
    Image.new("RGB", (20, 20), (200, 100, 50)).save(path)
    assert np.abs(np.subtract(mean(path), (200, 100, 50))).max() <= 3


@pytest.mark.parametrize(
    ("mode", "colour", "seen"),
    [
        ("L", 200, (200, 200, 200)),
        ("1", 1, (255, 255, 255)),
        ("CMYK", (0, 255, 255, 0), RED),
        ("I;16", 51400, (200, 200, 200)),
        ("RGBA", (255, 0, 0, 0), (255, 255, 255)),
        ("RGBA", (255, 0, 0, 255), RED),
        ("LA", (0, 0), (255, 255, 255)),
        ("F", 0.5, (127, 127, 127)),
    ],
)
def test_modes(tmp_path, mode, colour, seen):
    Image.new(mode, (20, 20), colour).save(tmp_path / "a.tif")
    assert np.abs(np.subtract(mean(tmp_path / "a.tif"), seen)).max() <= 1


def test_a_palette_with_a_transparent_colour(tmp_path):
    picture = Image.new("P", (20, 20), 0)
    picture.putpalette([*RED, *GREEN])
    picture.save(tmp_path / "a.png", transparency=0)
    assert mean(tmp_path / "a.png") == (255, 255, 255)


def bad_files(folder):
    whole = folder / "whole.png"
    thirds().save(whole)
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
    Image.fromarray(noise).save(folder / "noise.jpg")
    contents = {
        "empty.png": b"",
        "text.jpg": b"this is no picture",
        "cut.png": whole.read_bytes()[:60],
        "cut.jpg": (folder / "noise.jpg").read_bytes()[:2000],
        "script.png": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EOF\n",
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    (folder / "link.png").symlink_to(folder / "gone.png")
    os.mkfifo(folder / "pipe.png")
    return [*contents, "link.png", "pipe.png", "gone.png"]


def test_a_bad_file_is_named(tmp_path):
    for name in bad_files(tmp_path):
        with pytest.raises(ValueError) as error:
            read_image(tmp_path / name, 16)
        assert str(tmp_path / name) in str(error.value)
        assert "\n" not in str(error.value)


@pytest.mark.parametrize("kind", ["GIF", "EPS", "PDF", "ICO"])
def test_other_formats_are_not_even_tried(tmp_path, kind):
    thirds(32, 32).save(tmp_path / "a.png", kind)
    with pytest.raises(ValueError, match=r"a\.png: not an image of a known format: JPEG, PNG"):
        read_image(tmp_path / "a.png", 16)


@pytest.mark.parametrize("side", [9000, 20000])  # beyond the limit; beyond Pillow's own as well
def test_a_small_file_with_far_too_many_pixels_is_not_decoded(tmp_path, side):
    path = tmp_path / "bomb.png"
    Image.new("1", (side, side)).save(path)
    assert path.stat().st_size < 100_000
    with pytest.raises(ValueError, match=r"bomb\.png: more than 64,000,000 pixels"):
        read_image(path, 16)
    assert side**2 > images.MAX_PIXELS


def test_find_images_goes_down_sorted_and_leaves_out_what_is_hidden_or_no_image(tmp_path):
    names = ["b/2.JPG", "b/10.png", "a/x/1.webp", "c.tif"]
    for name in [*names, "b/notes.txt", ".hidden/1.png", "a/._1.png"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    found = [str(path.relative_to(tmp_path)) for path in find_images([tmp_path])]
    assert found == ["c.tif", "a/x/1.webp", "b/10.png", "b/2.JPG"]


def test_named_files_keep_their_order_and_need_no_known_ending(tmp_path):
    for name in ("z", "a.png"):
        (tmp_path / name).touch()
    assert find_images([tmp_path / "z", tmp_path / "a.png"]) == [tmp_path / "z", tmp_path / "a.png"]


def test_what_is_missing_or_empty_is_told(tmp_path):
    with pytest.raises(ValueError, match="gone does not exist"):
        find_images([tmp_path, tmp_path / "gone"])
    (tmp_path / "notes.txt").touch()
    with pytest.raises(ValueError, match=r"no image in .* \(looked for \.bmp \.jpeg"):
        find_images([tmp_path])


def test_a_folder_that_cannot_be_read_is_told_and_not_passed_over(tmp_path):
    """As another user: nothing is hidden from root."""
    (tmp_path / "open.png").touch()
    (tmp_path / "closed").mkdir(mode=0)
    open_to_all(tmp_path)
    script = """
import os, sys
from pathlib import Path
from onestyle.data.images import find_images
os.getuid() or os.setuid(65534)
try:
    find_images([Path(sys.argv[1])])
except PermissionError as error:
    print(error.filename)
"""
    done = subprocess.run([sys.executable, "-c", script, tmp_path], capture_output=True, text=True)
    assert done.stdout == f"{tmp_path / 'closed'}\n", done.stderr
