"""Small image files, no two alike, and how they are packed."""

import io
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

from onestyle.cli import main
from onestyle.data.packing import pack
from onestyle.data.sources import find_source
from onestyle.data.store import open_store

FOUR = [f"{domain}/{label}/{k}.png" for domain in "ab" for label in ("cat", "dog") for k in (0, 1)]


def picture(number, side=16):
    """Noise that the number stands for."""
    return np.random.default_rng(number).integers(0, 256, (side, side, 3), np.uint8)


def content(number, kind="PNG", **options):
    file = io.BytesIO()
    Image.fromarray(picture(number)).save(file, kind, **options)
    return file.getvalue()


def fill(folder, names=FOUR):
    """File k of the folder holds picture k."""
    for k, name in enumerate(names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content(k))
    return folder


def packed(source, out, size=16, **options):
    pack(find_source(str(source)), out, size=size, **options)
    return open_store(out)


def run(capsys, *words):
    """Exit code, stdout, stderr of `onestyle data WORDS`."""
    try:
        code = main(["data", *map(str, words)])
    except SystemExit as stop:
        code = stop.code
    return code, *capsys.readouterr()


def refused(capsys, *words):
    """What is said, in one line."""
    code, out, err = run(capsys, *words)
    assert code == 2 and err.startswith("onestyle: error: ") and err.count("\n") == 1, (out, err)
    return err.removeprefix("onestyle: error: ").rstrip()


def open_to_all(folder):
    """Let another user come as far as here: pytest's folders are closed to all but one."""
    for part in (folder, *folder.parents):
        if part == Path(tempfile.gettempdir()):
            return
        part.chmod(0o755)
