"""Batches depend on (seed, step) alone; each process reads its share of them."""

import gc
import subprocess
import sys
import threading
from collections import Counter
from itertools import chain

import numpy as np
import pytest

from onestyle.data.loader import Loader
from onestyle.data.protocol import Pool
from tests.data.test_protocol import store_of, table_of


def pool_of(**domains):
    """Images of one class in so many domains; image k holds the number k."""
    table = table_of({(name, "cat"): n for name, n in domains.items()})
    return Pool(store_of(table), np.arange(len(table.path)))


def numbers(batch):
    return batch.images[:, 0, 0, 0].tolist()


def joined(batches):
    return [*chain.from_iterable(map(numbers, batches))]


@pytest.mark.parametrize("options", [{}, dict(balance=True), dict(replacement=True)])
def test_any_step_can_be_entered_anew(options):
    pool = pool_of(a=40, b=30)
    steps = [numbers(batch) for batch in Loader(pool, 12, seed=3, **options).batches(0, 20)]
    assert [numbers(Loader(pool, 12, seed=3, **options).batch(7))] == steps[7:8]
    again = Loader(pool, 12, seed=3, **options).batches(13, 20)
    assert [numbers(batch) for batch in again] == steps[13:]
    assert numbers(Loader(pool, 12, seed=4, **options).batch(7)) != steps[7]


def test_an_epoch_shows_no_image_twice_and_drops_the_incomplete_batch():
    loader = Loader(pool_of(a=50), 12)  # four batches, two images left over
    epochs = [joined(loader.batches(4 * e, 4 * e + 4)) for e in range(8)]
    assert all(len({*epoch}) == 48 for epoch in epochs)
    assert {*chain(*epochs)} == set(range(50))  # not always the same two
    assert epochs[0] != epochs[1]


def test_the_images_are_those_of_the_places():
    batch = Loader(pool_of(a=50), 12).batch(5)
    assert numbers(batch) == batch.places.tolist() and batch.step == 5
    assert batch.images.dtype == np.uint8 and batch.images.shape == (12, 3, 2, 2)


def test_balance_draws_every_domain_alike():
    pool = pool_of(a=100, b=20, c=40)
    loader = Loader(pool, 16, balance=True)
    shares = [Counter(pool.domains[batch.places].tolist()) for batch in loader.batches(0, 30)]
    assert all(sorted(share.values()) == [5, 5, 6] for share in shares)
    assert set(sum(shares, Counter()).values()) == {160}  # and none is favoured
    natural = Counter(pool.domains[Loader(pool, 160).batch(0).places].tolist())
    assert natural == {0: 100, 1: 20, 2: 40}


def test_each_process_reads_its_share():
    pool = pool_of(a=50, b=50)
    whole = Loader(pool, 12, balance=True).batch(3)
    for n in (2, 3, 4):
        shares = [Loader(pool, 12, balance=True, rank=r, world_size=n).batch(3) for r in range(n)]
        assert joined(shares) == numbers(whole)
        assert {len(share.places) for share in shares} == {12 // n}


def test_a_process_reads_nothing_but_its_share():
    pool, read = pool_of(a=50), []

    class Watched(Pool):
        def images(self, places):
            read.extend(places.tolist())
            return super().images(places)

    watched = Watched(pool._store, pool._rows)
    mine = Loader(watched, 12, rank=1, world_size=3)
    assert joined(mine.batches(0, 6)) == read and len(read) == 6 * 4


def test_processes_of_their_own_draw_the_same_batch():
    """What a batch is depends on nothing that a process has for itself, such as a hash seed."""
    script = """
import sys
import numpy as np
from onestyle.data.loader import Loader
from onestyle.data.protocol import Pool
from onestyle.data.store import Store, Table
domain, none = np.repeat(np.arange(2, dtype=np.int32), (50, 30)), ("",) * 80
table = Table(none, domain, domain, none, none, ("a", "b"), ("cat", "dog"))
pool = Pool(Store("", np.zeros((80, 3, 2, 2), np.uint8), table, {}), np.arange(80))
print(*Loader(pool, 12, 5, True, rank=int(sys.argv[1]), world_size=2).batch(9).places)
"""
    command = [sys.executable, "-c", script]
    processes = [
        subprocess.Popen([*command, rank], stdout=subprocess.PIPE, text=True) for rank in "01"
    ]
    shares = [process.communicate()[0].split() for process in processes]
    whole = numbers(Loader(pool_of(a=50, b=30), 12, 5, True).batch(9))
    assert [int(word) for word in [*shares[0], *shares[1]]] == whole


def test_few_images_fill_a_large_batch_by_replacement():
    """1% of PACS: 64 images, batches of 128."""
    loader = Loader(pool_of(a=64), 128, replacement=True)
    batches = [numbers(batch) for batch in loader.batches(0, 10)]
    assert all(len(batch) == 128 for batch in batches)
    assert {*chain(*batches)} == set(range(64))
    assert batches[0] != batches[1]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (dict(batch_size=101), "needs 101 images and the pool has 100: lower the batch size or"),
        (dict(batch_size=61, balance=True), "needs 31 images and the smallest domain has 30"),
        (dict(batch_size=0), "must be a multiple of 1"),
        (dict(batch_size=10, world_size=3), r"a multiple of 3 \(processes\), got 10"),
        (dict(batch_size=10, world_size=2, rank=2), "rank must be from 0 to 1, got 2"),
    ],
)
def test_what_cannot_be_drawn_is_told_at_once(options, said):
    with pytest.raises(ValueError, match=said):
        Loader(pool_of(a=70, b=30), **options)


def test_an_empty_pool_is_told():
    table = table_of({("a", "cat"): 5})
    with pytest.raises(ValueError, match="the pool has 0"):
        Loader(Pool(store_of(table), np.array([], np.int64)), 4, replacement=True)


def test_a_loop_that_stops_early_leaves_no_reader_behind():
    for batch in Loader(pool_of(a=50), 5).batches(0, 1000):
        if batch.step == 3:
            break
    del batch
    gc.collect()
    assert not [t for t in threading.enumerate() if t.name.startswith("batches") and t.is_alive()]


def test_an_error_while_reading_reaches_the_loop():
    pool = pool_of(a=50)
    pool._store.__dict__["images"] = pool._store.images[:10]  # a file that became shorter
    with pytest.raises(IndexError):
        list(Loader(pool, 40).batches(0, 2))
