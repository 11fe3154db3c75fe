"""`onestyle data`: what is printed, what is written, what is refused."""

import json
import subprocess
import sys

import pytest
from PIL import Image

from onestyle.data.protocol import make_split
from onestyle.data.store import open_store
from tests.data.files import content, fill, packed, refused, run


@pytest.fixture
def store(tmp_path):
    names = [f"{d}/{c}/{k:02}.png" for d in "ab" for c in ("cat", "dog") for k in range(20)]
    packed(fill(tmp_path / "files", names), tmp_path / "store")
    return tmp_path / "store"


# pack -------------------------------------------------------------------------------------------


def test_pack_says_what_it_made_and_what_it_passed_over(capsys, tmp_path):
    fill(tmp_path / "files")
    (tmp_path / "files/notes.txt").touch()
    code, said, err = run(capsys, "pack", tmp_path / "files", tmp_path / "store")
    first, second = said.splitlines()
    assert (code, err) == (0, "")
    assert first.startswith(f"{tmp_path / 'store'}: 8 images of 256 px in ")
    assert second == "passed over 1 files that are no images: .txt 1"


def test_pack_takes_columns_and_levels(capsys, tmp_path):
    fill(tmp_path / "files", ["x/1.png"])
    (tmp_path / "files/a.csv").write_text("image,site\nx/1.png,north\n")
    words = ("--column", "path=image", "--column", "domain=site", "--size", 16)
    assert run(capsys, "pack", tmp_path / "files/a.csv", tmp_path / "one", *words)[0] == 0
    assert open_store(tmp_path / "one").table.domains == ("north",)
    words = ("--levels", "class", "--size", 16)
    assert run(capsys, "pack", tmp_path / "files", tmp_path / "two", *words)[0] == 0
    assert open_store(tmp_path / "two").table.classes == ("x",)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--size", 0), "size must be from 8 to 2048 pixels, got 0"),
        (("--size", "big"), "argument --size: invalid int value: 'big' (see onestyle data pack"),
        (("--resize", "squash"), "argument --resize: invalid choice: 'squash'"),
        (("--as", "office"), "argument --as: invalid choice: 'office'"),
        (("--column", "site"), "--column is path, domain, class or split = NAME, got site"),
        (("--column", "kind=site"), "--column is path, domain, class or split = NAME"),
    ],
)
def test_pack_refuses_wrong_words(capsys, tmp_path, words, said):
    fill(tmp_path / "files")
    assert said in refused(capsys, "pack", tmp_path / "files", tmp_path / "store", *words)


# check ------------------------------------------------------------------------------------------


def test_check_of_a_whole_store(capsys, store):
    code, said, _ = run(capsys, "check", store)
    lines = [line.split() for line in said.splitlines()]
    assert code == 0 and said.startswith("store: 80 images of 16 px\n")
    assert lines[1:4] == [["domain", "cat", "dog", "all"], *([d, "20", "20", "40"] for d in "ab")]
    assert said.endswith("the store is whole\n")


@pytest.mark.parametrize("name", ["images.npy", "table.csv"])
def test_check_finds_a_single_changed_byte(capsys, store, name):
    damaged = bytearray((store / name).read_bytes())
    damaged[-1000] ^= 1
    (store / name).write_bytes(damaged)
    said = refused(capsys, "check", store)
    assert said == f"{store}: {name} is not what was packed: its checksum differs"


def test_check_names_rows_that_cannot_be_read(capsys, store):
    cut = (store / "images.npy").read_bytes()[: -3 * 16 * 16 - 1]
    (store / "images.npy").write_bytes(cut)
    assert "of its 80 images only the first 78 are there" in refused(capsys, "check", store)


def test_check_tells_of_twins_and_of_what_was_left_out(capsys, tmp_path):
    fill(tmp_path / "files")
    for name in ("a/cat/again.png", "b/cat/again.png"):
        (tmp_path / "files" / name).write_bytes(content(0))
    (tmp_path / "files/a/cat/empty.png").touch()
    packed(tmp_path / "files", tmp_path / "store", skip_bad=True)
    code, said, _ = run(capsys, "check", tmp_path / "store")
    assert code == 0
    assert "3 files are not unique (1 contents, 1 of them in several domains)\n" in said
    assert "left out when packed: 1 x the file is empty\n" in said


def test_check_tells_of_a_class_that_bad_images_made_lonely(capsys, tmp_path):
    fill(tmp_path / "files")
    for k in (0, 1):
        (tmp_path / f"files/b/dog/{k}.png").write_bytes(b"")
    packed(tmp_path / "files", tmp_path / "store", skip_bad=True)
    assert "class dog is in domain a alone\n" in run(capsys, "check", tmp_path / "store")[1]


def test_check_of_the_digits(capsys):
    code, said, _ = run(capsys, "check", "digits")
    assert code == 0 and said.startswith("digits: 1,797 images of 32 px\n")


# show -------------------------------------------------------------------------------------------


def test_show_is_a_picture_of_each_domain_and_class(capsys, store, tmp_path):
    out = tmp_path / "a.png"
    code, said, _ = run(capsys, "show", store, "--out", out)
    assert (code, said) == (0, f"{out} shows images of every domain and class of store\n")
    with Image.open(out) as picture:
        assert picture.width > 300 and picture.height > 300
    assert refused(capsys, "show", store, "--out", out) == f"{out} exists; --force overwrites it"


def test_show_takes_stores_without_labels_and_with_odd_names(capsys, tmp_path):
    packed(fill(tmp_path / "files", ["1.png", "2.png"]), tmp_path / "$x^$")
    assert run(capsys, "show", tmp_path / "$x^$", "--out", tmp_path / "a.png")[0] == 0
    names = [f"{d}/{c}/1.png" for d in ("$\\frac$", "b" * 80) for c in map(str, range(30))]
    packed(fill(tmp_path / "many", names), tmp_path / "many_store")
    assert run(capsys, "show", tmp_path / "many_store", "--out", tmp_path / "b.png")[0] == 0


# split ------------------------------------------------------------------------------------------


def test_split_prints_the_counts_and_writes_the_names(capsys, store, tmp_path):
    out = tmp_path / "split.json"
    words = ("--targets", "b", "--draw", 1, "--out", out)
    code, said, _ = run(capsys, "split", store, *words)
    split = make_split(open_store(store).table, targets=["b"], draw=1)
    assert code == 0 and said == (
        "train: 36 (a 36)\nval: 4 (a 4)\nlabels 1%: 2 (a 2)\nlabels 5%: 2 (a 2)\n"
        f"labels 10%: 4 (a 4)\nlabels 100%: 36 (a 36)\ntarget b: 40\nhash {split.hash}\n"
    )
    written = json.loads(out.read_text(encoding="utf-8"))
    assert written["hash"] == split.hash and written["targets"] == ["b"]
    names = [open_store(store).table.path[row] for row in split.labelled(10)]
    assert written["labels 10%"] == names
    assert not any(name.startswith("b/") for part in ("train", "val") for name in written[part])
    assert refused(capsys, "split", store, *words) == f"{out} exists; --force overwrites it"


def test_split_says_at_once_where_it_cannot_write(capsys, store, tmp_path):
    said = refused(capsys, "split", store, "--out", tmp_path / "gone/a.json")
    assert said.endswith(f"there is no folder {tmp_path / 'gone'}")


def test_split_of_what_has_no_labels(capsys, tmp_path):
    packed(fill(tmp_path / "files", [f"{k}.png" for k in range(10)]), tmp_path / "store")
    code, said, _ = run(capsys, "split", tmp_path / "store")
    assert code == 0 and said.startswith("train: 9\nval: 1\nhash ")
    assert "unknown target 'b'; domains are: none" in refused(
        capsys, "split", tmp_path / "store", "--targets", "b"
    )


# ------------------------------------------------------------------------------------------------


def test_help_names_the_commands_and_loads_nothing_heavy():
    script = """
import sys
from onestyle.cli import main
try:
    main(["data", "--help"])
finally:
    print(*{"numpy", "PIL", "rich", "pyarrow", "torch", "sklearn"} & set(sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.endswith("\n\n")
    assert all(word in done.stdout for word in ("pack", "check", "show", "split"))
