"""What can be wrong with a source is named and refused, or left out and recorded."""

import json
import os
import subprocess
import sys

import pytest
from PIL import Image

from onestyle.data.store import open_store
from tests.data.files import FOUR, content, fill, open_to_all, refused, run


@pytest.fixture
def folder(tmp_path):
    return fill(tmp_path / "files")


def write(name, data):
    return lambda folder: (folder / name).write_bytes(data)


def bomb(folder):
    Image.new("1", (9000, 9000)).save(folder / "a/cat/bomb.png")
    assert (folder / "a/cat/bomb.png").stat().st_size < 20_000


def link(name, target):
    return lambda folder: (folder / name).symlink_to(target)


def elsewhere(name, is_folder):
    """A link to something real outside."""

    def make(folder):
        outside = fill(folder.parent / "outside", ["1.png"])
        (folder / name).symlink_to(outside if is_folder else outside / "1.png")

    return make


def wrong_name(folder):
    with open(os.fsencode(folder) + b"/a/cat/caf\xe9.png", "wb") as file:
        file.write(content(0))


EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EOF\n"
BAD = {
    "empty": ("a/cat/x.png", write("a/cat/x.png", b""), "the file is empty"),
    "text": ("a/cat/x.jpg", write("a/cat/x.jpg", b"text"), "not an image of a known format"),
    "bomb": ("a/cat/bomb.png", bomb, "more than 64,000,000 pixels"),
    "eps": ("a/cat/x.eps", write("a/cat/x.eps", EPS), ".eps files are not read"),
    "hidden eps": ("a/cat/x.png", write("a/cat/x.png", EPS), "not an image of a known format"),
    "gif": ("a/cat/x.gif", write("a/cat/x.gif", content(0, "GIF")), ".gif files are not read"),
    "svg": ("a/cat/x.svg", write("a/cat/x.svg", b"<svg/>"), ".svg files are not read"),
    "pdf": ("a/cat/x.pdf", write("a/cat/x.pdf", content(0, "PDF")), ".pdf files are not read"),
    "link out": ("a/cat/x.png", elsewhere("a/cat/x.png", False), "leads out of the folder"),
    "linked folder": ("a/x", elsewhere("a/x", True), "a link to a folder is not followed"),
    "broken link": ("a/cat/x.png", link("a/cat/x.png", "gone"), "there is no such file"),
    "circular link": ("a/cat/x.png", link("a/cat/x.png", "x.png"), "there is no such file"),
    "pipe": ("a/cat/x.png", lambda f: os.mkfifo(f / "a/cat/x.png"), "not a file"),
    "lonely": ("a/bird/1.png", lambda f: fill(f, ["a/bird/1.png"]), "class bird is in domain a"),
    "empty domain": ("c", lambda f: (f / "c/cat").mkdir(parents=True), "a domain without images"),
    "not utf-8": (r"a/cat/caf\udce9.png", wrong_name, "the name is not UTF-8"),
    "control": (r"a/cat/x\n.png", lambda f: fill(f, ["a/cat/x\n.png"]), "a control character"),
}
for kind, suffix in (("JPEG", "jpg"), ("PNG", "png"), ("WEBP", "webp"), ("BMP", "bmp")):
    name, cut = f"a/cat/cut.{suffix}", content(1, kind)[:-200]
    BAD[f"cut {suffix}"] = name, write(name, cut), "cannot be read: "
BAD["cut tif"] = "a/cat/x.tif", write("a/cat/x.tif", content(1, "TIFF")[:400]), "cannot be read: "


@pytest.mark.parametrize("kind", BAD)
def test_what_is_bad_is_refused_by_name_or_left_out_and_recorded(capsys, tmp_path, folder, kind):
    name, make, reason = BAD[kind]
    make(folder)
    out = tmp_path / "store"
    said = refused(capsys, "pack", folder, out, "--size", 16)
    assert said.startswith("refused: 1 bad (1 x ") and reason in said
    assert said.endswith(f": {name}; --skip-bad packs the rest")
    assert not {".store.part", "store"} & {*os.listdir(tmp_path)}

    code, said, err = run(capsys, "pack", folder, out, "--size", 16, "--skip-bad")
    assert (code, err) == (0, "") and f"left out 1, each named in {out}/manifest.json" in said
    assert open_store(out).table.path == tuple(FOUR)
    ((left_out, why),) = json.loads((out / "manifest.json").read_text())["left_out"]
    assert left_out == name and reason in why


def test_many_are_counted_and_some_named(capsys, tmp_path, folder):
    for k in range(12):
        (folder / f"b/dog/{k}.jpg").write_bytes(b"text" * (k % 3 > 0))
    said = refused(capsys, "pack", folder, tmp_path / "store")
    assert said.startswith("refused: 12 bad (8 x not an image of a known format")
    assert "4 x the file is empty): b/dog/0.jpg, b/dog/1.jpg" in said
    assert said.endswith("b/dog/5.jpg and 4 more; --skip-bad packs the rest")


def test_nothing_good_is_no_store(capsys, tmp_path):
    (tmp_path / "files").mkdir()
    (tmp_path / "files/x.png").touch()
    said = refused(capsys, "pack", tmp_path / "files", tmp_path / "store", "--skip-bad")
    assert said == "no image is left: 1 bad (1 x the file is empty): x.png"
    assert os.listdir(tmp_path) == ["files"]


def test_what_may_not_be_read_is_named(tmp_path, folder):
    """As another user: nothing is hidden from root."""
    (folder / "a/cat/1.png").chmod(0)
    (folder / "a/secret").mkdir(0)
    open_to_all(tmp_path)
    tmp_path.chmod(0o777)
    script = """
import os, sys
from onestyle.cli import main
main(["data", "pack", sys.argv[1] + "/b", sys.argv[2] + "/b", "--levels", "class"])  # imports all
os.getuid() or os.setuid(65534)
words = ["data", "pack", sys.argv[1], sys.argv[2] + "/store", "--size", "16"]
print(main(words), main([*words, "--skip-bad"]))
"""
    command = [sys.executable, "-c", script, folder, tmp_path]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout.endswith("\n2 0\n"), done.stderr
    reason = "a folder that cannot be read: Permission denied"
    assert f"refused: 1 bad (1 x {reason}): a/secret;" in done.stderr
    left_out = json.loads((tmp_path / "store/manifest.json").read_text())["left_out"]
    assert left_out == [["a/secret", reason], ["a/cat/1.png", "Permission denied"]]


# ------------------------------------------------------------------------------------ in a list

LISTED = {
    "../files/a/cat/0.png": "leads out of the folder",
    "a/../../files/a/cat/0.png": "leads out of the folder",
    "a\\..\\..\\x.png": "leads out of the folder",
    "/etc/passwd": "an absolute path",
    "~/x.png": "an absolute path",
    "C:/x.png": "an absolute path",
    "\\\\server\\x.png": "an absolute path",
    "https://example.org/x.png": "an address",
    "file:///etc/passwd": "an address",
    "a/cat/gone.png": "there is no such file",
    "a/cat": "not a file",
    "a/cat/0.png": "the same name again",
    "a/./cat//0.png": "the same name again",
    "a/cat/\0.png": "the name has a control character",
    "a/cat/\ud800.png": "the name is not UTF-8",
    "": "has no path",
}


@pytest.mark.parametrize("name", LISTED)
def test_a_list_names_files_of_its_folder_and_no_others(capsys, tmp_path, folder, name):
    rows = [{"path": name} for name in [*FOUR, name]]
    (folder / "list.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    said = refused(capsys, "pack", folder / "list.jsonl", tmp_path / "store")
    assert said.startswith("refused: 1 bad (1 x ") and LISTED[name] in said
    code, _, _ = run(
        capsys, "pack", folder / "list.jsonl", tmp_path / "store", "--size", 16, "--skip-bad"
    )
    assert code == 0 and open_store(tmp_path / "store").table.path == tuple(FOUR)


@pytest.mark.parametrize(
    "line", ["{", "3", "1" * 5000, '["a/cat/0.png"]', "[" * 100_000, '{"name": "x"}']
)
def test_lines_that_are_no_rows_are_named(capsys, tmp_path, folder, line):
    (folder / "list.jsonl").write_text('{"path": "a/cat/0.png"}\n\n' + line)
    said = refused(capsys, "pack", folder / "list.jsonl", tmp_path / "store")
    assert "(1 x has no path): list.jsonl line 3;" in said


@pytest.mark.parametrize("name", ["files.tar", "files.tar.gz", "files.zip"])
def test_archives_are_not_unpacked(capsys, tmp_path, name):
    (tmp_path / name).touch()
    said = refused(capsys, "pack", tmp_path / name, tmp_path / "store")
    assert said.endswith("hub:OWNER/NAME; unpack an archive first")
