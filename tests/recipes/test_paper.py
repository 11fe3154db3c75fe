"""The paper's numbers agree with each other, but for the two misprints."""

from statistics import mean, median

import pytest

from onestyle.data.datasets import DATASETS
from onestyle.recipes.paper import PAPER, Number

SKETCH, MSN = (5, "sketch"), (100, "hospital_2")
ROUNDING = 0.005 + 1e-6  # of a number with two decimals


ROWS = [
    pytest.param(table, row, id=f"{name} {row.label}{row.mark} {row.style}")
    for name, table in PAPER.items()
    for row in table.rows
]


def sums(table, row):
    """Percents for which the row has an average, with its parts."""
    domains = [column for column in table.columns if column not in ("overall", "average")]
    for percent in table.percents:
        if (percent, "average") in row.accuracy:
            yield percent, [row.accuracy[percent, domain] for domain in domains]


# rows, percents, columns, numbers, arrows: numbers that the paper does not print are none
@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("pacs", (14, 4, 5, 14 * 20 - 5, 2 * 20)),
        ("domainnet", (13, 3, 8, 13 * 24, 2 * 24)),
        ("camelyon17", (10, 4, 1, 10 * 4 - 6, 3 * 4)),
        ("ablation", (4, 4, 1, 4 * 4, 0)),
    ],
)
def test_nothing_is_left_out(name, counts):
    table = PAPER[name]
    n_numbers = sum(len(row.accuracy) for row in table.rows)
    n_arrows = sum(len(row.arrows) for row in table.rows)
    there = len(table.rows), len(table.percents), len(table.columns), n_numbers, n_arrows
    assert there == counts


def test_domains_are_those_of_the_data():
    for table in PAPER.values():
        targets = {name for _, names in DATASETS[table.data].combinations for name in names}
        domains = {*table.columns} - {"overall", "average"}
        assert domains == targets or (domains == {"hospital_2"} and table.data == "camelyon17")


@pytest.mark.parametrize(("table", "row"), ROWS)
def test_averages_are_means(table, row):
    """Parts and mean are rounded each."""
    for percent, parts in sums(table, row):
        printed = row.accuracy[percent, "average"].printed
        assert abs(mean(part.value for part in parts) - printed) <= 2 * ROUNDING


@pytest.mark.parametrize(("table", "row"), ROWS)
def test_arrows_are_differences(table, row):
    assert {*row.arrows} == ({*row.accuracy} if row.style == "bss" and row.arrows else set())
    if row.arrows:
        without = table.row(row.method, "fa")
        for place, arrow in row.arrows.items():
            difference = row.accuracy[place].value - without.accuracy[place].value
            assert arrow.value == pytest.approx(difference, abs=ROUNDING), place


def test_there_are_two_misprints_and_the_sums_show_them():
    found = {
        (name, row.label, row.style, place, number)
        for name, table in PAPER.items()
        for row in table.rows
        for numbers in (row.accuracy, row.arrows)
        for place, number in numbers.items()
        if number.corrected is not None
    }
    assert found == {
        ("pacs", "SimCLR", "bss", SKETCH, Number(65.63, 65.36)),
        ("camelyon17", "MSN", "bss", MSN, Number(3.76, 3.16)),
    }
    row = PAPER["pacs"].row("simclr", "bss")
    parts = dict(sums(PAPER["pacs"], row))[5]
    assert abs(mean(part.printed for part in parts) - row.accuracy[5, "average"].printed) > 0.05
    assert row.accuracy[SKETCH].printed - 55.32 - row.arrows[SKETCH].value > 0.2
    camelyon = PAPER["camelyon17"]
    bss, fa = (camelyon.row("msn", style).accuracy[MSN].printed for style in ("bss", "fa"))
    assert (bss, fa) == (91.98, 88.82)


def test_overall_pools_the_images_of_both_directions():
    """Of earlier work: the accuracies weighted by the sizes of the official test lists. CycleMAE's
    and the paper's own lie up to 0.7 below that."""
    table, counts = PAPER["domainnet"], DATASETS["domainnet"].counts
    sizes = {domain: n for (domain, _, split), n in counts.items() if split == "test"}
    near, below = [], []
    for row in table.rows:
        some = below if row.style != "none" or row.label == "CycleMAE" else near
        for percent in table.percents:
            pooled = sum(row.accuracy[percent, name].value * n for name, n in sizes.items())
            some.append(pooled / sum(sizes.values()) - row.accuracy[percent, "overall"].value)
    assert (len(sizes), len(near), len(below)) == (6, 24, 15)
    assert median(map(abs, near)) < 0.01 and max(map(abs, near)) < 0.1
    assert all(0 < error < 0.7 for error in below)


def test_the_ablation_repeats_the_rows_of_camelyon17():
    ablation, camelyon = PAPER["ablation"], PAPER["camelyon17"]
    for style in ("fa", "bss"):
        there = camelyon.row("simclr", style)
        assert ablation.row("simclr", style).accuracy == there.accuracy
    first = [row.accuracy[1, "hospital_2"].printed for row in ablation.rows]
    assert first == [63.54, 66.81, 90.82, 92.27]


def test_a_row_is_found_by_what_a_run_is():
    ablation, pacs = PAPER["ablation"], PAPER["pacs"]
    assert ablation.row("simclr", "none", "batch").accuracy[100, "hospital_2"].value == 68.53
    assert ablation.row("simclr", "none").accuracy[100, "hospital_2"].value == 65.06
    assert ablation.row("simclr", "bss", "image") is None
    assert pacs.row("mocov2", "none").label == "MoCo V2" and pacs.row("msn", "bss") is None
    brad = pacs.row("brad", "none")
    assert brad.mark == "*" and (100, "photo") not in brad.accuracy


def test_no_run_is_set_beside_a_row_that_has_seen_the_target():
    camelyon = PAPER["camelyon17"]
    assert {row.label for row in camelyon.rows if row.mark == "†"} == {"FixMatch", "SWaV"}
    assert camelyon.row("swav", "none") is None and camelyon.row("fixmatch", "none") is None
    assert camelyon.row("swav", "fa").accuracy[1, "hospital_2"].value == 91.03


def test_every_mark_is_explained():
    for table in PAPER.values():
        assert {row.mark for row in table.rows} - {""} == {*table.notes}
