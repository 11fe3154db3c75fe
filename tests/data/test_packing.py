"""A store is what the files are, whole or not there, and the same whenever it is made."""

import fcntl
import hashlib
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from PIL import Image

from onestyle.data.check import check
from onestyle.data.packing import pack
from onestyle.data.sources import find_source
from onestyle.data.store import open_store
from tests.data.files import FOUR, content, fill, packed, picture

PACK = """
import os, resource, signal, sys
from pathlib import Path
from onestyle.data.packing import pack
from onestyle.data.sources import find_source
source, out = Path(sys.argv[1]), Path(sys.argv[2])
"""


def child(script, *words):
    command = [sys.executable, "-c", PACK + script, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True)


def files_of(store):
    return {path.name: path.read_bytes() for path in sorted(store.iterdir())}


# ---------------------------------------------------------------------------------- what it holds


def test_a_store_holds_what_the_files_do(tmp_path):
    store = packed(fill(tmp_path / "files"), tmp_path / "store")
    assert np.array_equal(store.images, [picture(k).transpose(2, 0, 1) for k in range(8)])
    assert store.images.dtype == np.uint8 and isinstance(store.images, np.memmap)
    assert store.table.path == tuple(FOUR) and store.name == "store" and store.size == 16
    assert (store.table.domains, store.table.classes) == (("a", "b"), ("cat", "dog"))
    assert store.table.domain.tolist() == [0] * 4 + [1] * 4
    assert store.table.label.tolist() == [0, 0, 1, 1] * 2
    files = [(tmp_path / "files" / name).read_bytes() for name in FOUR]
    assert store.table.sha256 == tuple(hashlib.sha256(file).hexdigest() for file in files)


def test_the_manifest_says_what_was_done(tmp_path):
    manifest = packed(fill(tmp_path / "files"), tmp_path / "store", resize="pad").manifest
    assert manifest["counts"] == {d: {"cat": 2, "dog": 2} for d in "ab"}
    expected = {"n": 8, "size": 16, "resize": "pad", "source": "files", "left_out": []}
    assert expected.items() <= manifest.items()
    pixels = hashlib.sha256(np.stack([picture(k).transpose(2, 0, 1) for k in range(8)]).tobytes())
    assert manifest["pixels_sha256"] == pixels.hexdigest()


@pytest.mark.parametrize(
    ("resize", "corner", "middle"),
    [("stretch", 255, 128), ("crop", 128, 128), ("pad", 0, 128)],
)
def test_what_is_not_square(tmp_path, resize, corner, middle):
    """White at the left and right edge of a wide grey image: kept, cut off, below a black band."""
    wide = np.full((32, 96, 3), 128, np.uint8)
    wide[:, :24] = wide[:, -24:] = 255
    (tmp_path / "files").mkdir()
    Image.fromarray(wide).save(tmp_path / "files/a.png")
    (image,) = packed(tmp_path / "files", tmp_path / "store", resize=resize).images
    assert (image[:, 0, 0] == corner).all() and (image[:, 8, 8] == middle).all()


def test_the_same_files_give_the_same_bytes(tmp_path):
    """In whatever order the folder has them, and whatever is bad or passed over among them."""
    names = [f"{d}/cat/{k:02}.png" for d in "ab" for k in range(40)]
    stores = []
    for run, order in enumerate((names, names[::-1])):
        folder = tmp_path / str(run) / "files"
        for name in order:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content(names.index(name)))
        for name in ("x", "y", "z")[:: 1 - 2 * run]:
            (folder / f"{name}.txt").touch()
            (folder / name).symlink_to("a")
            (folder / f"a/cat/{name}.png").touch()
        packed(folder, tmp_path / str(run) / "store", skip_bad=True)
        stores.append(files_of(tmp_path / str(run) / "store"))
    assert stores[0] == stores[1] and set(stores[0]) == {"images.npy", "table.csv", "manifest.json"}
    assert len(json.loads(stores[0]["manifest.json"])["left_out"]) == 6


def test_the_pixels_are_an_ordinary_npy_file(tmp_path):
    store = packed(fill(tmp_path / "files"), tmp_path / "store")
    assert np.array_equal(np.load(tmp_path / "store/images.npy"), store.images)


def test_nobody_can_write_into_a_store(tmp_path):
    store = packed(fill(tmp_path / "files"), tmp_path / "store")
    before = files_of(tmp_path / "store")
    store.images[:] = 0
    assert files_of(tmp_path / "store") == before


# ------------------------------------------------------------------------------ whole or not there


def test_killed_in_the_middle_it_leaves_no_store_and_starts_clean(tmp_path):
    names = [f"{d}/cat/{k:03}.png" for d in "ab" for k in range(150)]
    out = tmp_path / "store"
    done = child(
        "pack(find_source(str(source)), out, size=16,\n"
        "     progress=lambda n, of: n == 200 and os.kill(os.getpid(), signal.SIGKILL))",
        fill(tmp_path / "files", names),
        out,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert not out.exists() and (tmp_path / ".store.part/images.npy").exists()
    with pytest.raises(ValueError, match="is not a store"):
        open_store(tmp_path / ".store.part")
    (tmp_path / "fresh").mkdir()
    packed(tmp_path / "files", tmp_path / "fresh/store")
    packed(tmp_path / "files", out)
    assert files_of(out) == files_of(tmp_path / "fresh/store")
    assert not (tmp_path / ".store.part").exists()


def test_interrupted_it_tidies_up(tmp_path):
    def interrupt(n, of):
        raise KeyboardInterrupt

    fill(tmp_path / "files")
    with pytest.raises(KeyboardInterrupt):
        packed(tmp_path / "files", tmp_path / "store", progress=interrupt)
    assert os.listdir(tmp_path) == ["files"]


def test_asked_to_end_it_tidies_up(tmp_path):
    """As a cluster asks: in the middle of 120 MB."""
    fill(tmp_path / "files", [f"{k:03}.png" for k in range(600)])
    command = [sys.executable, "-m", "onestyle", "data", "pack", "files", "store"]
    packing = subprocess.Popen(command, cwd=tmp_path)
    while not (tmp_path / ".store.part/images.npy").exists():
        assert packing.poll() is None
        time.sleep(0.01)
    packing.terminate()
    assert packing.wait() == 128 + signal.SIGTERM
    assert os.listdir(tmp_path) == ["files"]


def test_a_domain_without_classes_makes_no_class_lonely(tmp_path):
    """One hospital has labels, the others do not: that is what few labels look like."""
    fill(tmp_path / "files", [*FOUR, "c/1.png"])
    rows = [f"{name},{name[0]},{'' if name[0] == 'b' else name.split('/')[1]}" for name in FOUR]
    (tmp_path / "files/list.csv").write_text("\n".join(["path,domain,class", *rows, "c/1.png,c,"]))
    store = packed(tmp_path / "files/list.csv", tmp_path / "store")
    assert store.table.classes == ("cat", "dog") and store.table.domains == ("a", "b", "c")
    assert not check(tmp_path / "store").notes


def test_a_full_disk_is_told_and_leaves_nothing(tmp_path):
    """A limit on the size of files: the disk is full after 100,000 bytes, images take 154,000."""
    done = child(
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        "from onestyle.cli import main\n"
        "sys.exit(main(['data', 'pack', str(source), str(out), '--size', '80']))",
        fill(tmp_path / "files"),
        tmp_path / "store",
    )
    assert done.returncode == 2
    assert done.stderr == f"onestyle: error: {tmp_path / 'store'}: File too large\n"
    assert os.listdir(tmp_path) == ["files"]


def test_a_store_that_would_not_fit_is_not_begun(tmp_path):
    """Images of 2048 px for as many names of one file as the disk has no room for."""
    free = os.statvfs(tmp_path)
    n = free.f_bavail * free.f_frsize // (3 * 2048**2) + 2
    if n > 50_000:
        pytest.skip("the disk is too large to be filled by so few names")
    (tmp_path / "0.png").write_bytes(content(0))
    source = find_source(str(tmp_path))
    source.items *= n
    with pytest.raises(ValueError, match=r"store needs [\d,]+ MB, [\d,]+ MB are free there"):
        pack(source, tmp_path / "store", size=2048)
    assert os.listdir(tmp_path) == ["0.png"]


def test_the_room_of_one_who_was_killed_is_there_again(tmp_path):
    """A disk of 2 MB, of which 1.5 are half a store; the whole one takes 0.7."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", disk]).returncode:
        pytest.skip("this user may not mount a small disk")
    try:
        (disk / ".store.part").mkdir()
        (disk / ".store.part/images.npy").write_bytes(bytes(1_500_000))
        assert len(packed(fill(tmp_path / "files"), disk / "store", size=170)) == 8
        with pytest.raises(ValueError, match="another needs 2 MB, 1 MB are free there"):
            packed(tmp_path / "files", disk / "another", size=256)
        assert os.listdir(disk) == ["store"]
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True)


def test_two_cannot_make_one_store(tmp_path):
    fill(tmp_path / "files")
    (tmp_path / ".store.part").mkdir()
    with (tmp_path / ".store.part/lock").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(ValueError, match="store is being made by another process"):
            packed(tmp_path / "files", tmp_path / "store")
    assert len(packed(tmp_path / "files", tmp_path / "store")) == 8


def test_what_is_there_is_overwritten_only_by_force_and_only_if_a_store(tmp_path):
    out = tmp_path / "store"
    packed(fill(tmp_path / "files"), out)
    fill(tmp_path / "more", [*FOUR, "a/cat/2.png"])
    with pytest.raises(ValueError, match="store exists; --force overwrites it"):
        packed(tmp_path / "more", out)
    (tmp_path / ".store.old").mkdir()  # left by one who was killed while overwriting
    (tmp_path / ".store.old/images.npy").touch()
    assert len(packed(tmp_path / "more", out, force=True)) == 9
    with pytest.raises(ValueError, match="files is not a store; it is not overwritten"):
        packed(tmp_path / "more", tmp_path / "files", force=True)
    assert sorted(os.listdir(tmp_path)) == ["files", "more", "store"]


def test_overwriting_by_force_fails_with_the_old_store_in_place(tmp_path):
    out = tmp_path / "store"
    packed(fill(tmp_path / "files"), out)
    before = files_of(out)
    (tmp_path / "files/a/cat/empty.png").touch()
    with pytest.raises(ValueError, match="the file is empty"):
        packed(tmp_path / "files", out, force=True)
    assert files_of(out) == before


def test_a_store_that_comes_meanwhile_is_kept(tmp_path):
    def meanwhile(n, of):
        (tmp_path / "store").mkdir(exist_ok=True)
        (tmp_path / "store/manifest.json").touch()

    with pytest.raises(OSError, match="not empty"):
        packed(fill(tmp_path / "files"), tmp_path / "store", progress=meanwhile)
    assert os.listdir(tmp_path / "store") == ["manifest.json"]


def test_a_link_to_a_store_stays_one(tmp_path):
    packed(fill(tmp_path / "files"), tmp_path / "disk/store")
    (tmp_path / "store").symlink_to("disk/store")
    fill(tmp_path / "more", [*FOUR, "a/cat/2.png"])
    assert len(packed(tmp_path / "more", tmp_path / "store", force=True)) == 9
    assert (tmp_path / "store").is_symlink() and os.listdir(tmp_path / "disk") == ["store"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (dict(size=7), "from 8 to 2048 pixels, got 7"),
        (dict(resize="squash"), "one of stretch, crop, pad, got 'squash'"),
    ],
)
def test_mistakes_are_told_before_any_work(tmp_path, options, said):
    with pytest.raises(ValueError, match=said):
        packed(fill(tmp_path / "files"), tmp_path / "store", **options)
    assert os.listdir(tmp_path) == ["files"]
