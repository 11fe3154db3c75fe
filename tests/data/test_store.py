"""Reading a store, a damaged one too."""

import json

import numpy as np
import pytest

from onestyle.data import digits
from onestyle.data.store import open_store
from tests.data.files import fill, packed, picture


@pytest.fixture
def folder(tmp_path):
    packed(fill(tmp_path / "files"), tmp_path / "store")
    return tmp_path / "store"


def test_rows_are_read_in_the_order_asked_for(folder):
    rows = np.array([5, 0, 5, 7])
    images = open_store(folder).read(rows)
    assert np.array_equal(images, [picture(k).transpose(2, 0, 1) for k in rows])
    images[:] = 0
    assert open_store(folder).images.any()


def test_large_batches_are_gathered_in_parts(tmp_path):
    store = packed(fill(tmp_path / "files"), tmp_path / "store", size=256)
    rows = np.arange(203) * 5 % 8  # 40 MB, four parts that are not equally long
    assert np.array_equal(store.read(rows), store.images[rows])


@pytest.mark.parametrize("row", [-1, 8])
def test_rows_that_are_not_there_are_refused(folder, row):
    with pytest.raises(IndexError, match="of 8 images"):
        open_store(folder).read(np.array([0, row]))


def test_digits_are_a_store(tmp_path):
    store = open_store("digits")
    images, label, domain = digits.load()
    assert np.array_equal(store.images, images) and np.array_equal(store.table.label, label)
    names = [store.table.domains[k] for k in store.table.domain]
    assert names == [digits.STYLES[k] for k in domain]
    assert open_store("digits:48").size == 48 and len({*store.table.path}) == 1797


@pytest.mark.parametrize("size", [8, 513, 100_000])
def test_digits_are_not_drawn_at_any_size(size):
    with pytest.raises(ValueError, match=f"drawn from 16 to 512 px, got {size}"):
        open_store(f"digits:{size}")


def damage(path, old, new):
    content = path.read_bytes()
    assert old in content
    path.write_bytes(content.replace(old, new, 1))


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        ("table.csv", b"path,", b"name,", "row 1: the columns must be path, domain, class"),
        ("table.csv", b"a/cat/1.png,a,", b"a/cat/1.png,", "row 2: 4 fields, not 5"),
        ("table.csv", b"a/cat/1.png", b"\xff", "row 1: 'utf-8' codec"),
        ("table.csv", b"a/cat/1.png", b'"' + b"x" * 200_000, "row 2: field larger than"),
        ("manifest.json", b"{", b"", "manifest.json cannot be read"),
        ("manifest.json", b'"format": 1', b'"format": 2', "reads stores of format 1"),
        ("manifest.json", b'"size"', b'"side"', "says nothing of size; pack it again"),
        ("manifest.json", b'"n": 8', b'"n": 9', r"holds uint8 \(8, 3, 16, 16\), the manifest says"),
        ("images.npy", b"NUMPY", b"NUMPI", "images.npy cannot be read"),
        ("images.npy", b"|u1", b"|i1", "holds int8"),
    ],
)
def test_what_is_damaged_is_told(folder, name, old, new, said):
    damage(folder / name, old, new)
    with pytest.raises(ValueError, match=said):
        open_store(folder)


def test_a_table_that_is_too_short_is_told(folder):
    lines = (folder / "table.csv").read_text().splitlines(keepends=True)
    (folder / "table.csv").write_text("".join(lines[:-1]))
    with pytest.raises(ValueError, match="does not go with its images: 7 rows for 8"):
        open_store(folder)


@pytest.mark.parametrize("more", [-1, 1])
def test_pixels_that_are_cut_are_not_mapped(folder, more):
    """Reading beyond the end of a mapped file would kill the process."""
    content = (folder / "images.npy").read_bytes()
    (folder / "images.npy").write_bytes(content[:-1] if more < 0 else content + b"0")
    whole = 7 if more < 0 else 8
    with pytest.raises(ValueError, match=f"of its 8 images only the first {whole} are there"):
        open_store(folder)


def test_what_is_no_store_is_told(tmp_path):
    with pytest.raises(ValueError, match="gone does not exist"):
        open_store(tmp_path / "gone")
    with pytest.raises(ValueError, match="is not a store; onestyle data pack makes one"):
        open_store(tmp_path)


def test_names_with_commas_and_quotes_survive(tmp_path):
    names = ['a,b/"cat"/1, 2.png', 'c/"cat"/é\'.png']
    store = packed(fill(tmp_path / "files", names), tmp_path / "store")
    assert store.table.path == tuple(names) and store.table.domains == ("a,b", "c")
    counts = json.loads((tmp_path / "store/manifest.json").read_text())["counts"]
    assert counts == {"a,b": {'"cat"': 1}, "c": {'"cat"': 1}}
    assert store.table.counts() == {("a,b", '"cat"', ""): 1, ("c", '"cat"', ""): 1}


def test_labels_are_optional(tmp_path):
    store = packed(fill(tmp_path / "files", ["1.png", "2.png"]), tmp_path / "store")
    assert store.table.domains == store.table.classes == ()
    assert store.table.domain.tolist() == store.table.label.tolist() == [-1, -1]
