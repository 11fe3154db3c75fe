"""Who may see what: the published counts, nested fractions, nothing of the target."""

import json

import numpy as np
import pytest

from onestyle.data.datasets import DATASETS
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
    """A hundredth of the published sizes."""
    sizes = {"hospital_0": (1008, 112), "hospital_3": (1008, 112), "hospital_4": (1008, 112)}
    counts = {(name, "tumor"): sum(n) for name, n in sizes.items()}
    counts |= {("hospital_1", "tumor"): 349, ("hospital_2", "tumor"): 850}

    def official(domain, k):
        whole = {"hospital_1": "val", "hospital_2": "test"}
        return whole.get(domain) or ("train" if k < sizes[domain][0] else "id_val")

    (combination,) = DATASETS["camelyon17"].combinations
    split = make_split(table_of(counts, official), sources=combination[0], targets=combination[1])
    assert (len(split.train), len(split.val)) == (3024, 336)
    assert len(split.labelled(1)) == 3 * 11
    assert [split.n_target(name) for name in split.targets] == [349, 850]


def test_the_digits_are_divided_as_ever():
    split = make_split(open_store("digits").table, targets=["ink"])
    assert split.hash == "dab635969a348d4e5b7a7134dfc42483720746f65fa64c1d7cfe1ea958a874be"


def test_real_pacs_is_divided_as_ever(pacs_path):
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
    split = make_split(table, targets=["sketch"])
    assert split.hash == "8cb239d822de55107da2e1d660e2bd697f09cd8118ddb51884d66b6da3c717db"
    assert len(split.labelled(1)) == 64


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
    assert not any(path.startswith("b/") for path in pool.paths)


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
