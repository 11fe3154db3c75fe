"""The published layouts, small: what is packed from them is the data set, what is not is told."""

import csv
from collections import Counter

import pytest

from onestyle.data.datasets import DATASETS, dataset_named
from onestyle.data.protocol import make_split
from onestyle.data.store import open_store
from tests.conftest import read
from tests.data.files import content, fill, picture, refused, run
from tests.data.test_sources import write_parquet

DOMAINNET, CAMELYON17 = DATASETS["domainnet"], DATASETS["camelyon17"]


def pack(capsys, source, out, *words):
    code, said, err = run(capsys, "pack", source, out, "--size", 16, *words)
    assert (code, err) == (0, "")
    return open_store(out), said


# ------------------------------------------------------------------------------------------ PACS


@pytest.fixture(scope="session")
def real_pacs(pacs_path, tmp_path_factory):
    """The real images as files: domain/class/image."""
    folder, names = tmp_path_factory.mktemp("pacs"), []
    contents = read(pacs_path, lambda found: names.extend(found) or names)
    for name, data in zip(names, contents, strict=True):
        path = folder.joinpath(*name.split("/")[-3:])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


@pytest.mark.slow
def test_real_pacs_from_packing_to_its_split(capsys, real_pacs, tmp_path):
    code, said, _ = run(capsys, "pack", real_pacs, tmp_path / "pacs", "--as", "pacs")
    assert code == 0 and "9,991 images of 227 px" in said
    code, said, _ = run(capsys, "check", tmp_path / "pacs")
    assert code == 0 and "the counts are the published ones of pacs" in said
    assert said.endswith("the store is whole\n")
    code, said, _ = run(capsys, "split", tmp_path / "pacs", "--targets", "sketch")
    assert "labels 1%: 64 (art_painting 22, cartoon 25, photo 17)\n" in said
    assert said.endswith("hash aee2834cd7a9d31cee38868e3cd0edc6ba000f40124e286c5b2dc2c25fdcfd0b\n")


def test_pacs_as_the_hub_has_it(capsys, tmp_path):
    """flwrlabs/pacs: one file, domains as text, classes as numbers."""
    rows = [(d, k) for d in DATASETS["pacs"].domains for k in (*range(7), *range(7))]
    path = tmp_path / "hub/data/train-00000-of-00001.parquet"
    columns = {"domain": [d for d, _ in rows], "label": [k for _, k in rows]}
    write_parquet(path, columns, {"label": list(DATASETS["pacs"].classes)})
    store, _ = pack(capsys, tmp_path / "hub", tmp_path / "store", "--as", "pacs")
    assert (store.name, store.table.domains) == ("pacs", DATASETS["pacs"].domains)
    assert store.table.classes == DATASETS["pacs"].classes and len(store) == 56
    split = make_split(store.table, targets=["photo"])
    assert (split.n_target("photo"), split.n_unused) == (14, 0)


def test_a_folder_of_something_else_is_told(capsys, tmp_path):
    said = refused(capsys, "pack", fill(tmp_path / "files"), tmp_path / "store", "--as", "pacs")
    assert said == (
        "no image of files belongs to pacs: its domains are ['a', 'b'], its classes ['cat', 'dog']"
    )


# ------------------------------------------------------------------------------------- DomainNet


def official(folder, names):
    """clipart_train.txt and so on: every third image is for the test."""
    for k, name in enumerate(names):
        part = "test" if k % 3 == 0 else "train"
        domain = name.split("/")[0]
        with (folder / f"{domain}_{part}.txt").open("a") as file:
            file.write(f"{name} {k}\n")


def domainnet_names(classes):
    return [f"{d}/{c}/{d}_{k:06}.jpg" for d in DOMAINNET.domains for c in classes for k in range(3)]


def test_domainnet_as_it_is_published(capsys, tmp_path):
    """A folder for each domain and, beside them, the official lists of the cleaned images."""
    folder = tmp_path / "DomainNet"
    listed = domainnet_names(["bee", "zigzag", "airplane"])  # the last is of list B
    fill(folder, [*listed, "clipart/bee/not_cleaned.jpg"])
    official(folder, listed)
    store, said = pack(capsys, folder, tmp_path / "store", "--as", "domainnet")
    assert store.table.classes == ("bee", "zigzag") and len(store) == 36
    assert Counter(store.table.split) == {"train": 24, "test": 12}
    assert "passed over 19 images that are not of domainnet\n" in said
    assert "passed over 12 files that are no images: .txt 12\n" in said
    for sources, targets in DOMAINNET.combinations:
        split = make_split(store.table, sources=sources, targets=targets)
        assert len(split.train) + len(split.val) == 12 and split.n_unused == 18
        assert [split.n_target(name) for name in targets] == [2, 2, 2]
        assert all(store.table.split[row] == "train" for row in (*split.train, *split.val))
    said = refused(capsys, "check", tmp_path / "store")
    assert "clipart train: 4 images, published are 2,689; clipart test: 2 images" in said
    store, _ = pack(capsys, folder, tmp_path / "b", "--as", "domainnet-b")
    assert store.table.classes == ("airplane",)


def test_a_list_that_is_not_utf_8_is_no_hindrance(capsys, tmp_path):
    fill(tmp_path / "files", domainnet_names(["bee"]))
    line = b"clipart/bee/clipart_000000.jpg 24\r\nclipart/caf\xe9/1.jpg 3\r\n"
    (tmp_path / "files/clipart_train.txt").write_bytes(line)
    store, _ = pack(
        capsys, tmp_path / "files", tmp_path / "store", "--as", "domainnet", "--skip-bad"
    )
    assert store.table.path == ("clipart/bee/clipart_000000.jpg",)


def test_domainnet_without_its_lists_is_told(capsys, tmp_path):
    fill(tmp_path / "files", domainnet_names(["bee"]))
    store, said = pack(capsys, tmp_path / "files", tmp_path / "store", "--as", "domainnet")
    assert {*store.table.split} == {""}
    assert "not as published: clipart train: 0 images, published are 2,689\n" in said


def test_domainnet_as_the_hub_has_it(capsys, tmp_path):
    """wltjr1007/DomainNet: domains and classes as numbers, the official lists as two splits."""
    classes = ["airplane", "bee", "zigzag"]
    names = {"domain": list(DOMAINNET.domains), "label": classes}
    rows = [(d, c) for d in range(6) for c in range(3)]
    columns = {"domain": [d for d, _ in rows], "label": [c for _, c in rows]}
    for part in ("train-00000-of-00002", "train-00001-of-00002", "test-00000-of-00001"):
        images = [{"bytes": content(k), "path": f"{part}_{k}.jpg"} for k in range(18)]
        write_parquet(tmp_path / "hub/data" / f"{part}.parquet", columns, names, images)
    store, said = pack(capsys, tmp_path / "hub", tmp_path / "store", "--as", "domainnet")
    assert (store.table.domains, store.table.classes) == (DOMAINNET.domains, ("bee", "zigzag"))
    assert Counter(store.table.split) == {"train": 24, "test": 12}
    assert "passed over 18 images that are not of domainnet" in said
    place = store.table.path.index("real/bee/test-00000-of-00001_13.jpg")
    assert (store.images[place] == picture(13).transpose(2, 0, 1)).all()


def test_the_lists_of_classes():
    assert [len({*DATASETS[name].classes}) for name in ("domainnet", "domainnet-b")] == [20, 20]
    assert {*DOMAINNET.classes} & {*DATASETS["domainnet-b"].classes} == {"bird", "sun"}
    with pytest.raises(ValueError, match="did you mean domainnet"):
        dataset_named("domainet")


# ------------------------------------------------------------------------------------ Camelyon17

# hospital, the file's own split column, the official split
KINDS = [
    (hospital, split, {1: "val", 2: "test"}.get(hospital, ("train", "id_val")[split]))
    for hospital in range(5)
    for split in (0, 1)
    for _ in range(4)
]


def wilds(folder):
    """metadata.csv with pandas's nameless index, and patches/patient_*_node_*/."""
    (folder / "patches").mkdir(parents=True)
    head = ("", "patient", "node", "x_coord", "y_coord", "tumor", "slide", "center", "split")
    with (folder / "metadata.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(head)
        for k, (hospital, split, _) in enumerate(KINDS):
            table.writerow((k, f"{20 * hospital:03}", 4, 3328 + k, 96, k % 2, 0, hospital, split))
            node = f"patient_{20 * hospital:03}_node_4"
            fill(folder / "patches", [f"{node}/patch_{node}_x_{3328 + k}_y_96.png"])
    return folder


def test_camelyon17_as_wilds_has_it(capsys, tmp_path):
    store, _ = pack(capsys, wilds(tmp_path / "camelyon17_v1.0"), tmp_path / "store")
    assert (store.name, store.table.classes) == ("camelyon17", ("normal", "tumor"))
    assert store.table.split == tuple(part for *_, part in KINDS)
    assert store.table.domains == tuple(f"hospital_{k}" for k in range(5))
    assert store.table.label.tolist() == [k % 2 for k in range(len(KINDS))]
    ((sources, targets),) = CAMELYON17.combinations
    split = make_split(store.table, sources=sources, targets=targets)
    assert (len(split.train), len(split.val), split.n_unused) == (12, 12, 0)
    assert [split.n_target(name) for name in targets] == [8, 8]


@pytest.mark.parametrize(
    "row",
    [
        "9,000,4,1,1,1,0,5,0",
        "9,000,4,1,1,-1,0,0,0",
        "9,000,4,1,1,1,0,0,-1",
        "9",
        "9,,4,1,1,1,0,0,x",
    ],
)
def test_rows_that_are_not_of_camelyon17_are_named(capsys, tmp_path, row):
    folder = wilds(tmp_path / "camelyon17")
    with (folder / "metadata.csv").open("a") as file:
        file.write(row + "\n")
    said = refused(capsys, "pack", folder, tmp_path / "store")
    assert "(1 x not a row of Camelyon17-WILDS): metadata.csv line 42" in said


HUB = {
    "label": ["non-tumor", "tumor"],
    "center": [
        "train-center1",
        "validation-center",
        "test-center",
        "train-center2",
        "train-center3",
    ],
}


@pytest.mark.parametrize("names", [HUB, {}], ids=["with its names", "numbers alone"])
def test_camelyon17_as_the_hub_has_it(capsys, tmp_path, names):
    """wltjr1007/Camelyon17-WILDS: id_val and val in one `validation`, names of its own."""
    parts = {"train": "train", "id_val": "validation", "val": "validation", "test": "test"}
    for name in {*parts.values()}:
        rows = [k for k, (*_, part) in enumerate(KINDS) if parts[part] == name]
        columns = {"label": [k % 2 for k in rows], "center": [KINDS[k][0] for k in rows]}
        images = [{"bytes": content(k), "path": f"{k}.png"} for k in rows]
        path = tmp_path / f"hub/data/{name}-00000-of-00001.parquet"
        write_parquet(path, columns | {"patient": rows}, names, images)
    hub, _ = pack(capsys, tmp_path / "hub", tmp_path / "hub_store", "--as", "camelyon17")
    assert hub.table.classes == ("normal", "tumor")
    known = pack(capsys, wilds(tmp_path / "wilds"), tmp_path / "store")[0].table.counts()
    assert hub.table.counts() == known
