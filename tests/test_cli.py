import os
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from onestyle import __version__, preview
from onestyle.cli import COMMANDS, main
from tests.data.files import open_to_all

QUICK = ("--images", "2", "--views", "1", "--size", "16", "--part", "grids")


def run(capsys, *words):
    """Exit code, stdout, stderr of `onestyle WORDS`."""
    try:
        code = main([str(word) for word in words])
    except SystemExit as stop:
        code = stop.code
    return code, *capsys.readouterr()


def refused(capsys, *words):
    """What is said, in one line, where the user can put something right."""
    code, out, err = run(capsys, *words)
    assert code == 2 and out == ""
    assert err.startswith("onestyle: error: ") and err.endswith("\n") and err.count("\n") == 1
    return err.removeprefix("onestyle: error: ").rstrip()


@pytest.fixture
def folder(tmp_path):
    """Six flat pictures in two domains: red 0, 50, 100 and green 0, 50, 100."""
    for channel, domain in enumerate(("a", "b")):
        (tmp_path / "data" / domain).mkdir(parents=True)
        for k in (0, 50, 100):
            picture = np.full((24, 32, 3), 20, np.uint8)
            picture[..., channel] += k
            Image.fromarray(picture).save(tmp_path / "data" / domain / f"{k}.png")
    return tmp_path / "data"


# preview ----------------------------------------------------------------------------------------


def test_preview_of_the_embedded_digits(capsys, tmp_path):
    out = tmp_path / "a.png"
    code, said, err = run(capsys, "preview", "--out", out)
    assert (code, err) == (0, "")
    assert said == (
        f"{out} shows 5 embedded digits in 5 views: one style for a whole batch, "
        "how far the style reaches, one image's way\n"
    )
    with Image.open(out) as image:
        image.load()
        assert image.width == 1656 and image.height > 2000


def test_preview_of_a_folder_shows_images_of_all_its_folders(capsys, tmp_path, folder):
    out = tmp_path / "a.png"
    words = ("--images", "4", "--views", "2", "--ratio", "0", "--size", "64", "--part", "grids")
    code, said, _ = run(capsys, "preview", folder, "--out", out, *words)
    assert (code, said) == (
        0,
        f"{out} shows 4 of 6 images in 2 views: one style for a whole batch\n",
    )
    colours = {colour for _, colour in Image.open(out).convert("RGB").getcolors(2**24)}
    assert {(70, 20, 20), (20, 70, 20)} <= colours


def test_preview_of_named_images_and_fewer_than_asked_for(capsys, tmp_path, folder):
    pair = folder / "a/50.png", folder / "b/50.png"
    code, said, _ = run(capsys, "preview", *pair, "--out", tmp_path / "a.webp", "--views", "1")
    assert code == 0 and "shows 2 of 2 images in 1 view:" in said


def test_the_same_words_make_the_same_file_and_another_seed_another(capsys, tmp_path, folder):
    def made(name, *words):
        assert run(capsys, "preview", folder, "--out", tmp_path / name, *words)[0] == 0
        return (tmp_path / name).read_bytes()

    words = ("--images", "5", "--views", "3", "--size", "32", "--part", "grids")
    assert made("1.png", *words) == made("2.png", *words) != made("3.png", *words, "--seed", "7")


def test_nothing_is_overwritten_unless_forced(capsys, tmp_path):
    out = tmp_path / "a.png"
    out.write_text("mine")
    assert (
        refused(capsys, "preview", "--out", out, *QUICK) == f"{out} exists; --force overwrites it"
    )
    assert out.read_text() == "mine"
    assert run(capsys, "preview", "--out", out, "--force", *QUICK)[0] == 0
    assert out.read_bytes().startswith(b"\x89PNG")
    assert os.listdir(tmp_path) == ["a.png"]


def test_a_bad_image_is_named_and_nothing_is_written(capsys, tmp_path, folder):
    (folder / "a/25.png").write_bytes((folder / "a/50.png").read_bytes()[:50])
    (folder / "b/75.jpg").write_text("no picture")
    words = ("preview", "--out", tmp_path / "a.png")
    said = refused(capsys, *words, folder / "a")
    assert said.startswith(f"{folder / 'a/25.png'}: cannot be read: ")
    said = refused(capsys, *words, folder / "b")
    assert said.startswith(f"{folder / 'b/75.jpg'}: not an image of a known format: JPEG, PNG")
    assert not (tmp_path / "a.png").exists()


def test_sources_that_give_no_batch(capsys, tmp_path, folder):
    words = ("preview", "--out", tmp_path / "a.png")
    (tmp_path / "none").mkdir()
    (tmp_path / "none/notes.txt").touch()
    assert refused(capsys, *words, tmp_path / "gone") == f"{tmp_path / 'gone'} does not exist"
    said = refused(capsys, *words, tmp_path / "none")
    assert said.startswith(f"no image in {tmp_path / 'none'} (looked for .bmp ")
    one = folder / "a/50.png"
    assert refused(capsys, *words, one) == (
        f"{one} is the only image, and a batch of one has only its own style; "
        "give two images or more"
    )


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("a.gif", "a.gif: the name of a picture ends in one of .png .jpg .jpeg .webp .pdf"),
        ("a", "a: the name of a picture ends in one of"),
        ("gone/a.png", "gone/a.png: there is no folder "),
        ("file/a.png", "file/a.png: there is no folder "),
        ("folder.png", "folder.png is a folder"),
    ],
)
def test_a_picture_that_cannot_be_written(capsys, tmp_path, name, said):
    (tmp_path / "file").touch()
    (tmp_path / "folder.png").mkdir()
    assert said in refused(capsys, "preview", "--out", tmp_path / name, *QUICK)


def test_a_folder_that_cannot_be_written(tmp_path):
    """As another user: root may write anywhere."""
    open_to_all(tmp_path)
    script = """
import os, sys
from onestyle import cli
cli.main(["preview", "--out", "a.gif"])  # imports what it needs while it may read it
os.getuid() or os.setuid(65534)
sys.exit(cli.main(["preview", "--out", sys.argv[1]]))
"""
    if os.getuid():
        tmp_path.chmod(0o555)
    command = [sys.executable, "-c", script, str(tmp_path / "a.png")]
    done = subprocess.run(command, capture_output=True, text=True)
    said = f"{tmp_path / 'a.png'}: nothing can be written into the folder {tmp_path}"
    assert (done.returncode, done.stderr.splitlines()[1:]) == (2, [f"onestyle: error: {said}"])


@pytest.mark.skipif(sys.platform != "linux", reason="a folder where even root cannot write")
def test_what_the_system_refuses_is_told(capsys):
    assert refused(capsys, "preview", "--out", "/proc/a.png", *QUICK).startswith("/proc/")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--images", "0"), "argument --images: '0' is not a whole number from 2 to 12"),
        (("--images", "1"), "argument --images: '1' is not a whole number from 2 to 12"),
        (("--views", "-3"), "argument --views: '-3' is not a whole number from 1 to 10"),
        (("--views", "2.5"), "argument --views: '2.5' is not a whole number from 1 to 10"),
        (("--size", "8"), "argument --size: '8' is not a whole number from 16 to 512"),
        (("--seed", "x"), "argument --seed: 'x' is not a whole number from 0 to"),
        (("--ratio", "1.5"), "argument --ratio: '1.5' is neither R nor MIN,MAX within 0..1"),
        (("--ratio", "0.5,0.2"), "argument --ratio: '0.5,0.2' is neither"),
        (("--ratio", "nan"), "argument --ratio: 'nan' is neither"),
        (("--ratio", "0.1,0.2,0.3"), "argument --ratio: '0.1,0.2,0.3' is neither"),
        (("--part", "grid"), "argument --part: invalid choice: 'grid'"),
        (("--frobnicate",), "unrecognized arguments: --frobnicate"),
    ],
)
def test_values_out_of_range(capsys, tmp_path, words, said):
    told = refused(capsys, "preview", "--out", tmp_path / "a.png", *words)
    assert told.startswith(said) and "--help)" in told


def test_the_picture_is_preview_png_unless_named(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(capsys, "preview", *QUICK)[0] == 0
    assert os.listdir(tmp_path) == ["preview.png"]


def test_a_flag_is_not_guessed_from_its_beginning(capsys):
    assert "--forc" in refused(capsys, "preview", "--forc", *QUICK)


def test_only_a_png_is_small(capsys, tmp_path):
    said = refused(capsys, "preview", "--out", tmp_path / "a.jpg", "--small", *QUICK)
    assert said == f"{tmp_path / 'a.jpg'}: only a .png can be small"


def test_a_file_name_of_any_bytes_is_printed(capsys, tmp_path):
    out = os.fsdecode(os.fsencode(tmp_path / "a") + b"\xff.png")
    code, said, _ = run(capsys, "preview", "--out", out, *QUICK)
    assert code == 0 and "shows 2 embedded digits" in said and os.path.exists(out)


# The command line -------------------------------------------------------------------------------


def test_help_and_version(capsys):
    code, out, _ = run(capsys, "--help")
    assert code == 0 and all(name in out for name in COMMANDS)
    assert run(capsys, "--version")[:2] == (0, f"onestyle {__version__}\n")
    assert all(run(capsys, name, "--help")[0] == 0 for name in COMMANDS)


def test_without_a_command_the_help_is_shown_and_nothing_succeeds(capsys):
    code, out, err = run(capsys)
    assert (code, out) == (2, "") and err.startswith("usage: onestyle")


def test_a_wrong_command_suggests_the_nearest(capsys):
    said = refused(capsys, "previw")
    assert said.startswith("there is no command 'previw'; did you mean preview?")
    assert "did you mean" not in refused(capsys, "zzz")


def test_a_bug_keeps_its_traceback(tmp_path, monkeypatch):
    def broken(*_, **__):
        raise TypeError("a bug")

    monkeypatch.setattr(preview, "preview", broken)
    with pytest.raises(TypeError, match="a bug"):
        main(["preview", "--out", str(tmp_path / "a.png")])


def test_the_parts_of_the_picture_are_those_of_the_option(capsys):
    assert "{" + ",".join(preview.PARTS) + "}" in run(capsys, "preview", "--help")[1]


@pytest.mark.parametrize("module", ["onestyle.cli", "onestyle.preview"])
def test_nothing_heavy_is_imported_before_there_is_work(module):
    heavy = "{'torch', 'matplotlib', 'sklearn', 'scipy', 'timm', 'torchvision'}"
    script = f"import sys, {module}; print({heavy} & set(sys.modules))"
    command = [sys.executable, "-W", "error", "-c", script]
    assert subprocess.run(command, capture_output=True, text=True).stdout == "set()\n"


def test_a_missing_library_is_named_with_what_brings_it():
    script = """
import sys
from onestyle.cli import main
sys.modules["PIL"] = None
sys.exit(main(["preview", "--out", "never.png"]))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 2
    assert (
        done.stderr == "onestyle: error: PIL is missing; pip install 'onestyle[train]' brings it\n"
    )
