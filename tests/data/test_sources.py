"""Folders, lists, parquet files, the hub's cache: what becomes the name, the domain, the class."""

import json
import os
import subprocess
import sys

import pyarrow as pa
import pytest
from pyarrow import parquet

from onestyle.data.sources import find_source
from onestyle.data.store import open_store
from tests.data.files import FOUR, content, fill, packed, picture, refused, run


def items(source, **options):
    return [tuple(item) for item in find_source(str(source), **options).items]


# ------------------------------------------------------------------------------------- a folder


@pytest.mark.parametrize(
    ("names", "levels", "expected"),
    [
        (["x.png", "y.png"], None, [("x.png", "", "", ""), ("y.png", "", "", "")]),
        (["a/cat/x.png"], None, [("a/cat/x.png", "a", "cat", "")]),
        (["a/cat/deep/x.png"], None, [("a/cat/deep/x.png", "a", "cat", "")]),
        (["a/x.png"], "domain", [("a/x.png", "a", "", "")]),
        (["a/x.png"], "class", [("a/x.png", "", "a", "")]),
        (["a/x.png", "y.png"], "", [("a/x.png", "", "", ""), ("y.png", "", "", "")]),
        (["cat/a/x.png"], "class/domain", [("cat/a/x.png", "a", "cat", "")]),
        (["train/cat/x.png"], "split/class", [("train/cat/x.png", "", "cat", "train")]),
    ],
)
def test_folders_mean_what_is_said(tmp_path, names, levels, expected):
    source = find_source(str(fill(tmp_path, names)), levels=levels)
    assert [tuple(item) for item in source.items] == expected and not source.problems


@pytest.mark.parametrize(
    "names", [["a/x.png"], ["a/cat/x.png", "y.png"], ["a/cat/x.png", "a/y.png"]]
)
def test_what_folders_mean_is_never_guessed(tmp_path, names):
    """One stray image must not take the labels from all the others."""
    with pytest.raises(ValueError, match=r"is not domain/class/image \([a-y/]+\.png\): say what"):
        find_source(str(fill(tmp_path, names)))


def test_with_levels_a_stray_image_is_bad(tmp_path):
    source = find_source(str(fill(tmp_path, ["a/cat/x.png", "y.png"])), levels="domain/class")
    assert source.problems == [("y.png", "does not lie in <domain>/<class>")]


def test_hidden_and_other_files_are_passed_over_and_counted(tmp_path):
    fill(tmp_path, ["a/cat/x.png", "a/cat/.y.png", ".git/z.png"])
    for name in ("list.txt", "a/README", "a/cat/Thumbs.db"):
        (tmp_path / name).touch()
    source = find_source(str(tmp_path))
    assert [item.path for item in source.items] == ["a/cat/x.png"] and not source.problems
    assert source.ignored == {".txt": 1, "no ending": 1, ".db": 1, ".png": 1}


def test_a_folder_whose_name_is_not_utf_8(tmp_path):
    folder = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9")
    os.makedirs(folder + "/a/cat")
    with open(folder + "/a/cat/0.png", "wb") as file:
        file.write(content(0))
    assert packed(folder, tmp_path / "store").manifest["source"] == r"caf\udce9"


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("gone", {}, "gone does not exist"),
        ("", {}, r"no image in .* \(looked for \.bmp"),
        ("some", dict(levels="domain/kind"), "words of domain, class and split .* got domain/kind"),
        ("some", dict(levels="class/class"), "got class/class"),
    ],
)
def test_wrong_folders_are_told(tmp_path, name, options, said):
    (tmp_path / "none").mkdir()
    if name == "some":
        fill(tmp_path / name)
    with pytest.raises(ValueError, match=said):
        find_source(str(tmp_path / (name or "none")), **options)


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("a.csv", dict(levels="class"), "levels are of folders of images, and .*a.csv is none"),
        ("a.parquet", dict(levels=""), "levels are of folders of images"),
        ("hub:owner/name", dict(levels="class"), "levels are of folders of images"),
        ("files", dict(columns={"domain": "site"}), "columns are of lists and parquet files"),
        ("wilds", dict(columns={"domain": "site"}), "columns are of lists and parquet files"),
        ("a.parquet", dict(columns={"path": "x"}), "a column path is of lists"),
    ],
)
def test_words_that_would_change_nothing_are_refused(tmp_path, monkeypatch, name, options, said):
    monkeypatch.chdir(tmp_path)
    fill(tmp_path / "files")
    (tmp_path / "wilds/patches").mkdir(parents=True)
    for each in ("a.csv", "a.parquet", "wilds/metadata.csv"):
        (tmp_path / each).touch()
    with pytest.raises(ValueError, match=said):
        find_source(name, **options)


# --------------------------------------------------------------------------------------- a list


def test_lists_of_both_kinds_say_the_same(tmp_path):
    fill(tmp_path)
    rows = [(name, *name.split("/")[:2], "train") for name in FOUR]
    head = ("path", "domain", "class", "split")
    csv = "\n".join(map(",".join, [head, *rows]))
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbf" + csv.encode())  # as spreadsheets write it
    lines = [json.dumps(dict(zip(head, row, strict=True))) for row in rows]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    assert items(tmp_path / "a.csv") == items(tmp_path / "a.jsonl") == rows
    assert packed(tmp_path / "a.csv", tmp_path / "store").table.split == ("train",) * 8


def test_columns_by_other_names(tmp_path):
    fill(tmp_path, ["x.png"])
    (tmp_path / "a.csv").write_text("file_name,label,scanner\nx.png, cat,3\n")
    assert items(tmp_path / "a.csv") == [("x.png", "", "cat", "")]  # the hub's own words
    assert items(tmp_path / "a.csv", columns={"domain": "scanner"}) == [("x.png", "3", "cat", "")]
    (tmp_path / "a.jsonl").write_text('{"file_name": "x.png", "label": 0, "domain": null}')
    assert items(tmp_path / "a.jsonl") == [("x.png", "", "0", "")]


@pytest.mark.parametrize(
    ("text", "columns", "said"),
    [
        ("image;class\nx.png;cat\n", {}, "no column path or file_name, only image;class"),
        ("path,class\nx.png,cat\n", {"domain": "site"}, "no column site, only class, path"),
        ("", {}, "lists no image"),
        ("path\n" + "x" * 200_000, {}, "a.csv cannot be read: field larger than"),
        ("path,class,class\nx.png,cat,dog\n", {}, "a.csv cannot be read: a column comes twice"),
        ("p\x1b[31m\nx.png\n", {}, r"only p\\x1b\[31m"),  # no orders to the terminal
    ],
)
def test_wrong_lists_are_told(tmp_path, text, columns, said):
    fill(tmp_path, ["x.png"])
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(ValueError, match=said):
        find_source(str(tmp_path / "a.csv"), columns=columns)


def test_a_comma_without_quotes_does_not_shift_the_labels(tmp_path):
    fill(tmp_path, ["x.png", "y.png"])
    (tmp_path / "a.csv").write_text("path,class,domain\nx.png,tower, Paris,photo\ny.png,bee,b,\n")
    source = find_source(str(tmp_path / "a.csv"))
    assert source.problems == [("a.csv line 2", "more fields than columns")]
    assert [item.path for item in source.items] == ["y.png"]  # nothing is lost after a last comma


# ------------------------------------------------------------------------------- parquet, the hub


def write_parquet(path, columns, features=None, images=None, **options):
    """As `datasets` writes: images as {bytes, path}, class names in the schema's metadata."""
    n = len(next(iter(columns.values())))
    images = images or [{"bytes": content(k), "path": f"{k}.png"} for k in range(n)]
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    table = pa.table({"image": pa.array(images, kind)} | columns)
    named = {
        name: {"names": names, "_type": "ClassLabel"} for name, names in (features or {}).items()
    }
    info = {"info": {"features": {"image": {"_type": "Image"}} | named}}
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(
        table.replace_schema_metadata({"huggingface": json.dumps(info)}), path, **options
    )


def test_a_parquet_file_holds_what_the_folder_does(tmp_path):
    """Names, pixels and checksums: so that a split of one is that of the other."""
    folder = packed(fill(tmp_path / "files"), tmp_path / "one")
    words = [name.split("/") for name in FOUR]
    images = [{"bytes": content(k), "path": f"{k % 2}.png"} for k in range(8)]
    columns = {"domain": [w[0] for w in words], "label": [int(w[1] == "dog") for w in words]}
    path = tmp_path / "hub/data/train-00000-of-00001.parquet"
    write_parquet(path, columns, {"label": ["cat", "dog"]}, images, row_group_size=3)
    store = packed(tmp_path / "hub", tmp_path / "two")
    assert (store.images == folder.images).all()
    same = ("path", "domains", "classes", "sha256")
    assert all(getattr(store.table, key) == getattr(folder.table, key) for key in same)
    assert store.table.split == ("train",) * 8
    assert store.manifest["pixels_sha256"] == folder.manifest["pixels_sha256"]


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("data/train-00000-of-00001.parquet", "train"),
        ("default/validation/0000.parquet", "validation"),
        ("default/partial-test/0000.parquet", "test"),
        ("train.parquet", "train"),
        ("images.parquet", ""),
    ],
)
def test_the_split_is_in_the_name_of_the_file(tmp_path, name, split):
    write_parquet(tmp_path / name, {"label": [0, 1]})
    assert items(tmp_path) == [("0/0.png", "", "0", split), ("1/1.png", "", "1", split)]


def test_rows_without_names_or_with_one_name_get_their_place(tmp_path):
    images = [{"bytes": content(k), "path": path} for k, path in enumerate((None, "x", "x", "a/x"))]
    write_parquet(tmp_path / "data/train-0.parquet", {"split": ["test"] * 4}, images=images)
    names = ["data/train-0/00000000", "x", "data/train-0/00000002", "a/x"]
    assert items(tmp_path) == [(name, "", "", "test") for name in names]


def test_rows_without_an_image_are_bad_and_the_rest_keep_their_own(capsys, tmp_path):
    images = [{"bytes": content(0), "path": "0"}, None, {"bytes": None, "path": "2"}]
    images += [{"bytes": b"", "path": "3"}, {"bytes": content(4), "path": "4"}]
    path = tmp_path / "a.parquet"
    write_parquet(path, {"label": [0, 1, 0, 1, 1]}, images=images)
    said = refused(capsys, "pack", path, tmp_path / "store", "--size", 16)
    assert "3 bad (2 x the row has no bytes, 1 x the file is empty): a/00000001, 0/2, 1/3" in said
    assert run(capsys, "pack", path, tmp_path / "store", "--size", 16, "--skip-bad")[0] == 0
    store = open_store(tmp_path / "store")
    assert store.table.path == ("0/0", "1/4")
    assert (store.images == [picture(k).transpose(2, 0, 1) for k in (0, 4)]).all()


def test_wrong_parquet_files_are_told(tmp_path):
    path = tmp_path / "a.parquet"
    write_parquet(path, {"label": [0, 5]}, {"label": ["cat", "dog"]})
    with pytest.raises(ValueError, match="label has 5, beyond its 2 names"):
        find_source(str(path))
    with pytest.raises(ValueError, match="no column 'site', only image, label"):
        find_source(str(path), columns={"domain": "site"})
    parquet.write_table(pa.table({"text": ["x"]}), path)
    with pytest.raises(ValueError, match=r"no column of images \(bytes and path\), only text"):
        find_source(str(path))
    path.write_bytes(b"PAR1 not at all")
    with pytest.raises(ValueError, match=r"a\.parquet cannot be read"):
        find_source(str(path))


def test_a_parquet_file_that_is_damaged_inside_is_told(tmp_path):
    path = tmp_path / "a.parquet"
    write_parquet(path, {"label": list(range(100))}, compression="none", write_page_checksum=True)
    source, damaged = find_source(str(path)), bytearray(path.read_bytes())
    damaged[4:2000] = bytes(1996)
    path.write_bytes(damaged)
    with pytest.raises(ValueError, match=r"a\.parquet cannot be read"):
        for read in source.contents():
            read()


OFFLINE = os.environ | {"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
COMMIT = "394113073258ead631f617d2e13bb377c0715c4b"


def test_the_hub_is_read_from_its_cache(tmp_path):
    """As its own client lays it out; nothing but this fetches over the network."""
    cache = tmp_path / "cache/datasets--flwrlabs--pacs"
    snapshot = cache / "snapshots" / COMMIT
    write_parquet(snapshot / "data/train-00000-of-00001.parquet", {"domain": ["a", "b"]})
    (cache / "refs").mkdir()
    (cache / "refs/main").write_text(COMMIT)
    command = [sys.executable, "-m", "onestyle", "data", "pack", "hub:flwrlabs/pacs", "store"]
    done = subprocess.run(
        [*command, "--size", "16"],
        cwd=tmp_path,
        env=OFFLINE | {"HF_HUB_CACHE": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    store = open_store(tmp_path / "store")
    assert store.table.path == ("a/0.png", "b/1.png")
    assert store.manifest["source"] == f"hub:flwrlabs/pacs@{COMMIT}"


@pytest.mark.parametrize(
    ("before", "said"),
    [
        ("", "cannot fetch hub:flwrlabs/pacs@main: "),
        ("sys.modules['huggingface_hub'] = None", "hub and parquet sources need pip install"),
    ],
)
def test_without_network_or_extra_it_is_one_line(tmp_path, before, said):
    script = f"import sys; {before}\nfrom onestyle.cli import main\nsys.exit(main(sys.argv[1:]))"
    words = ["data", "pack", "hub:flwrlabs/pacs@main", "store"]
    done = subprocess.run(
        [sys.executable, "-c", script, *words],
        cwd=tmp_path,
        env=OFFLINE | {"HF_HUB_CACHE": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2 and done.stderr.startswith(f"onestyle: error: {said}")
    assert done.stderr.count("\n") == 1 and not (tmp_path / "store").exists()
