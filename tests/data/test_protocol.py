"""Who may see what: the published counts, nested fractions, nothing of the target."""

import json

import numpy as np
import pytest

from onestyle.data.datasets import DATASETS
from onestyle.data.loader import Loader
from onestyle.data.protocol import FRACTIONS, Pool, make_split
from onestyle.data.store import Store, Table, open_store
from tests.conftest import read


def table_of(counts, splits=None):
    """A table with so many images of each (domain, class)."""
    rows = [
        (f"{domain}/{label}/{k}.png", domain, label, splits(domain, k) if splits else "")
        for (domain, label), n in counts.items()
        for k in range(n)
    ]
    path, domain, label, split = zip(*rows, strict=True)
    domains, classes = sorted({*domain}), sorted({*label} - {""})
    number = np.array([domains.index(d) for d in domain], np.int32)
    labels = np.array([classes.index(c) if c else -1 for c in label], np.int32)
    return Table(path, number, labels, split, path, tuple(domains), tuple(classes))


def store_of(table):
    """Image k holds the number k."""
    images = np.arange(len(table.path), dtype=np.uint8)[:, None, None, None] * np.ones(
        (1, 3, 2, 2), np.uint8
    )
    return Store("made", images, table, {"dataset": ""})


SMALL = {(d, c): 20 + 3 * k for k, d in enumerate("abc") for c in ("cat", "dog")}
PACS = {key[:2]: n for key, n in DATASETS["pacs"].counts.items()}


# ------------------------------------------------------------------------------------- the counts

# train, 1%, 5%, 10% of each domain, as public lists of this protocol have them (DomCLP)
PUBLISHED = {
    "photo": (1500, 17, 79, 153),
    "art_painting": (1840, 22, 96, 187),
    "cartoon": (2107, 25, 109, 215),
    "sketch": (3534, 38, 180, 357),
}


@pytest.mark.parametrize("target", PUBLISHED)
def test_pacs_has_the_published_counts(target):
    table = table_of(PACS)
    split = make_split(table, targets=[target])
    assert split.sources == tuple(sorted({*PUBLISHED} - {target}))
    parts = [split.train, *(split.labelled(percent) for percent in (1, 5, 10))]
    for name in split.sources:
        domain = table.domains.index(name)
        assert tuple((table.domain[part] == domain).sum() for part in parts) == PUBLISHED[name]
    assert split.n_target(target) == sum(n for (d, _), n in PACS.items() if d == target)


def test_domainnet_uses_its_official_lists():
    """Published sizes, one class: a tenth of train is source validation, targets show test."""
    published = {key[0]: n for key, n in DATASETS["domainnet"].counts.items() if key[2] == "test"}
    train = {key[0]: n for key, n in DATASETS["domainnet"].counts.items() if key[2] == "train"}
    counts = {(d, "bee"): n + train.get(d, 7000) for d, n in published.items()}
    table = table_of(counts, lambda domain, k: "test" if k < published[domain] else "train")
    for sources, targets in DATASETS["domainnet"].combinations:
        split = make_split(table, sources=sources, targets=targets)
        pool = [train.get(name, 7000) for name in sources]
        assert len(split.train) == sum(9 * n // 10 for n in pool)
        assert len(split.train) + len(split.val) == sum(pool)
        assert {name: split.n_target(name) for name in targets} == {
            n: published[n] for n in targets
        }


def test_camelyon17_uses_its_official_splits():
    """The published sizes; which hospital has how many is not published, nor does it matter."""
    published = {key[2]: n for key, n in DATASETS["camelyon17"].counts.items()}
    hospitals = ("hospital_0", "hospital_3", "hospital_4")
    n_train, n_val = published["train"] // 6, published["id_val"] // 6
    counts = {(name, c): n_train + n_val for name in hospitals for c in ("normal", "tumor")}
    counts["hospital_0", "normal"] += published["id_val"] % 6
    counts |= {("hospital_1", "tumor"): published["val"], ("hospital_2", "tumor"): 85_054}

    def official(domain, k):
        whole = {"hospital_1": "val", "hospital_2": "test"}
        return whole.get(domain) or ("train" if k < n_train else "id_val")

    table = table_of(counts, official)
    assert not DATASETS["camelyon17"].differences(table) and len(table.path) == 455_954
    (combination,) = DATASETS["camelyon17"].combinations
    split = make_split(table, sources=combination[0], targets=combination[1])
    assert (len(split.train), len(split.val), split.n_unused) == (302_436, 33_560, 0)
    assert len(split.labelled(1)) == 6 * 505  # of 50,406 each, rounded up
    assert [split.n_target(name) for name in split.targets] == [34_904, 85_054]


@pytest.mark.parametrize(
    ("target", "pinned"),
    [
        ("chalk", "d453b452f938afbd08eb08ce5b992ec10d429f44b7eb8ad8db2b0c5f53a19da6"),
        ("ink", "10f3030550bf327dcbe1a632df22e58710c8069b89bae4ebec5ab5bb625d9b06"),
        ("neon", "e0ff15dbfefe210cac94f4f93d9a0a2c0ea32df293501089cf4c3ebbffe2fa78"),
        ("photo", "912a46e3ce6cb0b0a79c4be6ec31b03ac62999ac4b93277da5616eff736f6f34"),
    ],
)
def test_the_digits_are_divided_as_ever(target, pinned):
    assert make_split(open_store("digits").table, targets=[target]).hash == pinned


@pytest.mark.parametrize(
    ("target", "pinned", "hundredth"),
    [
        ("art_painting", "5f59ce49688cd80e6064e6607a56a8418c194ace353dd8515906dab6d366affe", 80),
        ("cartoon", "de40aa8b98587a614d3d1dc656246459b7ad206777cf80738de454a7387ca2cb", 77),
        ("photo", "640cf32b25015166ddecfdc18727863e3486eb1721096e4c82ef5a40bdb9d861", 85),
        ("sketch", "aee2834cd7a9d31cee38868e3cd0edc6ba000f40124e286c5b2dc2c25fdcfd0b", 64),
    ],
)
def test_real_pacs_is_divided_as_ever(pacs_path, target, pinned, hundredth):
    names = []
    read(pacs_path, lambda found: names.extend(found) or [])
    paths = sorted("/".join(name.split("/")[-3:]) for name in names)
    domains, classes = (sorted({path.split("/")[k] for path in paths}) for k in (0, 1))
    numbers = np.array(
        [(domains.index(d), classes.index(c)) for d, c, _ in (p.split("/") for p in paths)],
        np.int32,
    )
    none = ("",) * len(paths)
    table = Table(tuple(paths), *numbers.T, none, none, tuple(domains), tuple(classes))
    split = make_split(table, targets=[target])
    assert split.hash == pinned
    assert len(split.labelled(1)) == hundredth


# --------------------------------------------------------------------------------------- the laws


def test_parts_are_apart_and_whole():
    table = table_of(SMALL)
    split = make_split(table, targets=["b"])
    parts = [split.train, split.val, Pool(store_of(table), split.train)._rows]
    assert not {*parts[0]} & {*parts[1]}
    sources = np.flatnonzero(table.domain != table.domains.index("b"))
    assert sorted([*split.train, *split.val]) == sources.tolist()
    for (domain, label), n in SMALL.items():
        kind = (table.domain == table.domains.index(domain)) & (
            table.label == table.classes.index(label)
        )
        assert kind[split.train].sum() == (0 if domain == "b" else 9 * n // 10)


@pytest.mark.parametrize("draw", [0, 1, 2])
def test_fractions_are_nested_stratified_and_of_train(draw):
    table = table_of(SMALL)
    split = make_split(table, targets=["a"], draw=draw)
    before = set()
    for percent in (1, 5, 10, 37, 100):
        rows = {*split.labelled(percent)}
        assert before <= rows <= {*split.train}
        before = rows
        for (domain, label), n in SMALL.items():
            names = [
                table.path[row] for row in rows if table.path[row].startswith(f"{domain}/{label}")
            ]
            n_train = 9 * n // 10
            assert len(names) == (0 if domain == "a" else -(-percent * n_train // 100))
    assert before == {*split.train}


def test_another_draw_changes_the_labels_alone():
    first, other = (make_split(table_of(SMALL), targets=["a"], draw=draw) for draw in (0, 1))
    assert np.array_equal(first.train, other.train) and np.array_equal(first.val, other.val)
    assert not np.array_equal(first.labelled(10), other.labelled(10))
    assert first.hash != other.hash


def test_another_seed_divides_anew():
    first, other = (make_split(table_of(SMALL), targets=["a"], seed=seed) for seed in (0, 1))
    assert len(first.train) == len(other.train) and not np.array_equal(first.train, other.train)


def test_the_order_of_the_store_does_not_matter():
    table = table_of(SMALL)
    order = np.random.default_rng(0).permutation(len(table.path))
    shuffled = table._replace(
        path=tuple(table.path[k] for k in order),
        domain=table.domain[order],
        label=table.label[order],
    )
    one, other = (make_split(t, targets=["c"]) for t in (table, shuffled))
    assert one.hash == other.hash
    assert {table.path[k] for k in one.train} == {shuffled.path[k] for k in other.train}


def test_without_classes_or_domains_there_is_a_pool_all_the_same():
    unlabelled = table_of({("", ""): 50})._replace(domains=(), domain=np.full(50, -1, np.int32))
    split = make_split(unlabelled)
    assert (len(split.train), len(split.val), split.sources) == (45, 5, ())
    with pytest.raises(ValueError, match="no fraction"):
        split.labelled(10)
    assert len(split.hash) == 64


def test_of_images_without_a_class_none_is_labelled():
    table = table_of({("a", "cat"): 40, ("a", ""): 60, ("b", "cat"): 40, ("b", "dog"): 3})
    split = make_split(table, targets=["b"])
    assert len(split.train) == 36 + 54
    assert all(table.path[row].startswith("a/cat/") for row in split.labelled(100))
    assert [len(split.labelled(percent)) for percent in (1, 50, 100)] == [1, 18, 36]


def test_tiny_classes():
    """floor(9 n / 10) of one image is none, of two is one; any train image is 1% already."""
    table = table_of({("a", c): n for n, c in enumerate(("one", "two", "three"), 1)})
    split = make_split(table)
    names = sorted(table.path[row].split("/")[1] for row in split.train)
    assert names == ["three", "three", "two"] and len(split.val) == 3
    assert len(split.labelled(1)) == 2
    with pytest.raises(ValueError, match="no image to train on in a: each class needs two"):
        make_split(table_of({("a", "one"): 1, ("a", "another"): 1}))


def test_each_domain_follows_its_own_official_split():
    """Otherwise one domain with lists would silence all that have none."""
    counts = {("listed", "cat"): 40, ("plain", "cat"): 20, ("other", "cat"): 10}
    kinds = {"listed": ["train", "train", "id_val", "test"], "plain": [""], "other": ["", "test"]}
    table = table_of(counts, lambda domain, k: kinds[domain][k % len(kinds[domain])])
    split = make_split(table, targets=["other"])
    of = [[table.path[row].split("/")[0] for row in part] for part in (split.train, split.val)]
    assert [(part.count("listed"), part.count("plain")) for part in of] == [(20, 18), (10, 2)]
    assert (split.n_target("other"), split.n_unused) == (5, 15)


def test_a_domain_may_be_called_as_a_part_is():
    counts = {(name, "cat"): 20 for name in ("train", "val", "1%")}
    one, other = (make_split(table_of(counts), targets=[name]).hash for name in ("train", "val"))
    assert one != other


# ------------------------------------------------------------------------- nothing of the target


def test_training_cannot_read_a_target_image():
    table = table_of(SMALL)
    store = store_of(table)
    split = make_split(table, targets=["b"])
    pool = Pool(store, split.train)
    seen = {int(image[0, 0, 0]) for image in pool.images(range(len(pool)))}
    of_target = {*np.flatnonzero(table.domain == table.domains.index("b")).tolist()}
    assert seen == {*split.train.tolist()} and not seen & of_target
    for place in (-1, len(pool), 10**6):
        with pytest.raises(IndexError, match="asked for"):
            pool.images([place])
    for places in (np.ones(len(pool), bool), [0.9]):
        with pytest.raises(IndexError, match=r"places are whole numbers, got (bool|float64)"):
            pool.images(places)
    assert len(pool.images([])) == 0
    assert not any(path.startswith("b/") for path in pool.paths)


def test_a_pool_knows_its_own_rows():
    table = table_of(SMALL)
    rows = np.array([120, 3, 57])
    pool = Pool(store_of(table), rows)
    assert pool.images([2, 0])[:, 0, 0, 0].tolist() == [57, 120]
    assert pool.labels.tolist() == table.label[rows].tolist()
    assert pool.domains.tolist() == table.domain[rows].tolist()
    assert pool.paths == [table.path[row] for row in rows]
    assert len({*pool.domains}) == 3 and len({*pool.labels}) == 2


def test_every_opening_of_a_target_is_counted(tmp_path):
    table = table_of(SMALL)
    split, log = make_split(table, targets=["b"]), tmp_path / "openings.jsonl"
    for n in (1, 2):
        pool = split.open_target(store_of(table), "b", log=log)
        assert len(pool) == split.n_target("b")
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        assert len(lines) == n and lines[-1]["target"] == "b"
    with pytest.raises(ValueError, match="'a' is not a target; the targets are b"):
        split.open_target(store_of(table), "a", log=log)
    assert len(log.read_text().splitlines()) == 2


def test_a_target_is_not_opened_as_training_would(tmp_path):
    """Uncounted, for another purpose, out of another store, or to draw batches from."""
    table, log = table_of(SMALL), tmp_path / "openings.jsonl"
    split, store = make_split(table, targets=["b"]), store_of(table_of(SMALL))
    with pytest.raises(ValueError, match="each opening of target images is counted"):
        split.open_target(store, "b", log=None)
    with pytest.raises(ValueError, match="evaluation, analysis, oracle, not for 'pretraining'"):
        split.open_target(store, "b", log=log, why="pretraining")
    with pytest.raises(ValueError, match="made is not the store that was split"):
        split.open_target(store_of(table_of({("b", "cat"): 99})), "b", log=log)
    assert not log.exists()
    with pytest.raises(ValueError, match="target images are not for training"):
        Loader(split.open_target(store, "b", log=log), 4)


def test_the_door_for_a_recipe_that_uses_the_target(tmp_path):
    """Without the flag the sources, as ever; with it the targets, once that is written down."""
    table, log = table_of(SMALL), tmp_path / "openings.jsonl"
    split, store = make_split(table, targets=["b", "c"]), store_of(table)
    plain = split.unlabelled(store)
    assert type(plain) is Pool and np.array_equal(plain.rows, split.train)
    pool = split.unlabelled(store, uses_target=True)
    of_targets = np.flatnonzero(table.domain != table.domains.index("a"))
    assert np.array_equal(pool.rows, of_targets) and len({*pool.domains}) == 2
    loader = Loader(pool, 8)
    with pytest.raises(ValueError, match="cannot be read before `open` has logged it"):
        loader.batch(0)
    assert not log.exists()
    pool.open(log)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(line["target"], line["why"]) for line in lines] == [
        ("b", "training"), ("c", "training"),
    ]  # fmt: skip
    assert {*loader.batch(0).images[:, 0, 0, 0].tolist()} <= {*of_targets.tolist()}


def test_the_door_gives_no_label_and_needs_a_target():
    table = table_of(SMALL)
    pool = make_split(table, targets=["b"]).unlabelled(store_of(table), uses_target=True)
    with pytest.raises(ValueError, match="labels of target images are for evaluation alone"):
        _ = pool.labels
    with pytest.raises(ValueError, match="names of target images may tell their classes"):
        _ = pool.paths
    with pytest.raises(ValueError, match="cannot be read before"):
        pool.some(np.arange(3)).images([0])
    with pytest.raises(ValueError, match="needs one: name it by --targets"):
        make_split(table).unlabelled(store_of(table), uses_target=True)


# --------------------------------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (dict(targets=["skech"]), "unknown target 'skech'; did you mean sketch"),
        (dict(sources=["x"]), "unknown source 'x'; domains are: photo, sketch"),
        (dict(sources=["photo"], targets=["photo"]), "photo cannot be source and target at once"),
        (dict(targets=["photo", "sketch"]), "no source is left"),
    ],
)
def test_wrong_names_are_told(options, said):
    with pytest.raises(ValueError, match=said):
        make_split(table_of({("photo", "cat"): 20, ("sketch", "cat"): 20}), **options)


@pytest.mark.parametrize("percent", [0, 101, -1, 0.5])
def test_wrong_fractions_are_told(percent):
    with pytest.raises(ValueError, match="whole number of percent from 1 to 100"):
        make_split(table_of(SMALL)).labelled(percent)


def test_the_fractions_of_the_paper():
    assert FRACTIONS == (1, 5, 10, 100)
