"""Each format of a table, read back: as many cells as columns, the words, what is bold and why."""

import csv
import io
from dataclasses import replace
from itertools import product

import pytest

from onestyle.report.tables import FORMATS, Cell, Row, Table, paired_interval, to_markdown
from tests.report.oracles import of_html, of_latex, of_markdown

COLUMNS = ("photo", "a|b & c_d")  # a domain may be called anything
FA = Row(
    "SimCLR w/ FA",
    {"photo": Cell(40.004, 1.5, 3, paper=42.0), COLUMNS[1]: Cell(50.0, None, 1)},
    method="simclr",
    style="fa",
)
BSS = Row(
    "SimCLR w/ BSS",
    {
        "photo": Cell(
            43.25, 0.5, 3, paper=45.0, paper_arrow=3.0, budget=0.05, marks="*",
            provenance={"run": "=cmd", "commit": "abc"},
        ),
        COLUMNS[1]: Cell(48.0, 2.0, 3, paper=40.0),
    },
    method="simclr",
    style="bss",
    paper_marks="†",
)  # fmt: skip
NOT_RUN = Row("MSN", {}, method="msn", style="bss")
THEIRS = Row("DARLING", {"photo": Cell(paper=46.5)}, ours=False)
TABLE = Table(
    "PACS <1%>",
    COLUMNS,
    (FA, BSS, NOT_RUN, THEIRS),
    {"*": "begun from ImageNet", "†": "as reported", "‡": "of nothing here"},
    ("A remark.",),
)
LABELS = ["", "SimCLR w/ FA", "SimCLR w/ FA, paper", "SimCLR w/ BSS", "SimCLR w/ BSS†, paper",
          "MSN", "DARLING, paper"]  # fmt: skip


def cells(table=TABLE):
    """Of the Markdown by row and column."""
    head, *rows = of_markdown(FORMATS["md"](table))
    names = [cell.text for cell in head]
    return {row[0].text: dict(zip(names[1:], row[1:], strict=True)) for row in rows}


@pytest.mark.parametrize(("kind", "read"), [("md", of_markdown), ("html", of_html)])
def test_every_row_has_a_cell_for_every_column(kind, read):
    rows = read(FORMATS[kind](TABLE))
    assert [len(row) for row in rows] == [3] * 7
    assert [row[0].text for row in rows] == LABELS
    assert [cell.text for cell in rows[0]][1:] == list(COLUMNS)


def test_latex_has_as_many_cells():
    rows = of_latex(FORMATS["tex"](TABLE))
    assert [len(row) for row in rows] == [3] * 7
    assert rows[0][2] == r"a\textbar{}b \& c\_d"
    assert rows[3][1] == r"\textbf{43.25}{*} $\pm$ 0.50 (3) $\uparrow$3.25 \S{}5\%"


def test_groups_stand_apart_and_are_compared_apart():
    table = replace(TABLE, rows=(replace(FA, group="1%"), replace(BSS, group="5%")))
    rows = of_html(FORMATS["html"](table))
    assert [len(row) for row in rows] == [3, 1, 3, 3, 1, 3, 3]
    assert rows[1][0].text == "1%" and rows[2][1].bold == "40.00" and rows[5][1].bold == "43.25"
    assert "↑" not in rows[5][1].text  # there is no FA in its group
    latex = of_latex(FORMATS["tex"](table))
    assert [len(row) for row in latex] == [3, 1, 3, 3, 1, 3, 3]


def test_the_best_of_ours_and_of_the_papers_are_bold():
    bold = {(row, column) for row, of in cells().items() for column, x in of.items() if x.bold}
    assert bold == {
        ("SimCLR w/ BSS", "photo"), ("SimCLR w/ FA", COLUMNS[1]),
        ("DARLING, paper", "photo"), ("SimCLR w/ BSS†, paper", COLUMNS[1]),
    }  # fmt: skip


def test_what_is_equal_as_shown_is_equally_bold():
    almost = replace(BSS, cells={"photo": Cell(40.0001, 1, 3)})
    found = cells(replace(TABLE, rows=(FA, almost)))
    assert found["SimCLR w/ FA"]["photo"].bold == found["SimCLR w/ BSS"]["photo"].bold == "40.00"
    assert "=0.00" in found["SimCLR w/ BSS"]["photo"].text


def test_a_cell_says_spread_count_arrow_and_budget():
    found = cells()
    assert found["SimCLR w/ FA"]["photo"].text == "40.00 ± 1.50 (3)"
    assert found["SimCLR w/ FA"][COLUMNS[1]].text == "50.00 (1)"  # one value has no spread
    assert found["SimCLR w/ BSS"]["photo"].text == "43.25* ± 0.50 (3) ↑3.25 §5%"
    assert found["SimCLR w/ BSS"][COLUMNS[1]].text == "48.00 ± 2.00 (3) ↓2.00"
    assert found["SimCLR w/ BSS†, paper"]["photo"].text == "45.00 ↑3.00 (ours -1.75)"
    assert found["SimCLR w/ BSS†, paper"][COLUMNS[1]].text == "40.00 (ours +8.00)"
    assert found["MSN"]["photo"].text == "not run"
    assert found["DARLING, paper"][COLUMNS[1]].text == "none"


def test_the_legend_explains_what_is_there_and_nothing_else():
    legend = "\n".join(TABLE.legend())
    for there in ("BSS - FA", "ours - the paper's", "share of the paper's budget", "A remark.",
                  "*: begun from ImageNet.", "†: as reported."):  # fmt: skip
        assert there in legend
    assert "‡" not in legend
    bare = "\n".join(
        replace(TABLE, rows=(replace(NOT_RUN, cells={"photo": Cell(1.0, 0, 2)}),)).legend()
    )
    for absent in ("BSS - FA", "the paper's", "budget", "ImageNet"):
        assert absent not in bare


def test_the_csv_has_every_cell_with_its_numbers_and_provenance():
    rows = list(csv.DictReader(io.StringIO(FORMATS["csv"](TABLE))))
    assert len(rows) == len(TABLE.rows) * len(COLUMNS)
    found = {(row["row"], row["column"]): row for row in rows}
    cell = found["SimCLR w/ BSS", "photo"]
    assert (cell["table"], cell["method"], cell["style"]) == ("PACS <1%>", "simclr", "bss")
    numbers = ("mean", "std", "n", "paper", "difference", "arrow", "paper_arrow", "budget", "best")
    assert [float(cell[name]) for name in numbers] == [
        43.25, 0.5, 3, 45.0, -1.75, pytest.approx(3.246), 3.0, 0.05, 1,
    ]  # fmt: skip
    assert (cell["marks"], cell["paper_marks"]) == ("*", "†")
    assert (cell["run"], cell["commit"]) == ("'=cmd", "abc")
    missing = found["MSN", "photo"]
    assert missing["n"] == "0" and missing["mean"] == missing["std"] == ""
    assert found["SimCLR w/ FA", COLUMNS[1]]["std"] == ""


def test_paired_intervals_are_of_differences_seed_by_seed():
    """Seeds that move both alike do not widen it; three pairs are the least."""
    fa = {0: 10.0, 1: 50.0, 2: 30.0, 3: 20.0, 9: 0.0}
    above = {seed: fa[seed] + 3 for seed in range(4)}
    assert paired_interval(above, fa) == (3.0, 3.0)
    assert paired_interval({0: 1.0, 1: 2.0, 7: 3.0}, fa) is None
    differences = {0: -1.0, 1: 0.0, 2: 4.0}
    low, high = paired_interval({seed: fa[seed] + d for seed, d in differences.items()}, fa)
    means = sorted(sum(three) / 3 for three in product(differences.values(), repeat=3))
    assert (low, high) == pytest.approx((means[0], means[-1]))  # one of 27 is more than 2.5%
    pair = [("BSS", 33, above), ("FA", 30, fa)]
    rows = [
        Row(name, {"x": Cell(mean, 1, 4, by_pretraining=of)}, method="a", style=name.lower())
        for name, mean, of in pair
    ]
    text = to_markdown(Table("T", ("x",), tuple(rows))).replace("\\", "")
    assert "↑3.00 [+3.00, +3.00]" in text and "seed by seed" in text
