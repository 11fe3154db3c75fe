"""Tables of accuracies, ours beside the paper's, as Markdown, LaTeX, HTML and CSV.

    table = Table("PACS", ("photo", "average"), rows)
    print(to_markdown(table))

Nothing here reads or writes a file. A row of ours has a line and, where the paper has numbers, a
second one with them, its arrows and the differences. The CSV has a line for each cell, and all of
its provenance.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from onestyle.report import escape

__all__ = [
    "FORMATS",
    "Cell",
    "Row",
    "Table",
    "paired_interval",
    "to_csv",
    "to_html",
    "to_latex",
    "to_markdown",
]

MIN_PAIRS, N_DRAWS = 3, 10_000  # of paired differences; of bootstrap samples of them


@dataclass(frozen=True)
class Cell:
    """Accuracy in percent: ours, of n values, and the paper's."""

    mean: float | None = None  # None: not run
    std: float | None = None  # shown if n > 1
    n: int = 0
    paper: float | None = None
    paper_arrow: float | None = None  # its BSS - FA
    budget: float | None = None  # share of the paper's, where ours is another
    marks: str = ""
    paper_marks: str = ""
    provenance: Mapping[str, str] = field(default_factory=dict)
    by_pretraining: Mapping[int, float] = field(default_factory=dict)  # of several, by their seeds

    @property
    def difference(self) -> float | None:
        return None if self.mean is None or self.paper is None else self.mean - self.paper


@dataclass(frozen=True)
class Row:
    """A method with a style. Rows of the same `method` and `group` are compared: BSS - FA."""

    label: str
    cells: Mapping[str, Cell]  # by column
    group: str = ""  # rows of a group stand together, below its name
    method: str = ""
    style: str = ""
    marks: str = ""
    paper_marks: str = ""
    ours: bool = True  # False: the paper's numbers are all that there will be

    def cell(self, column: str) -> Cell:
        return self.cells.get(column, Cell())


@dataclass(frozen=True)
class Table:
    title: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    notes: Mapping[str, str] = field(default_factory=dict)  # what a mark means
    remarks: tuple[str, ...] = ()

    @property
    def groups(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(row.group for row in self.rows))

    def of(self, group: str) -> list[Row]:
        return [row for row in self.rows if row.group == group]

    def arrow(self, row: Row, column: str) -> float | None:
        """Ours with BSS - ours with FA."""
        mean, without = row.cell(column).mean, self._with_fa(row, column).mean
        return None if mean is None or without is None else mean - without

    def interval(self, row: Row, column: str) -> tuple[float, float] | None:
        """Where the arrow's size lies, by the pretrainings that both have."""
        ours, without = row.cell(column), self._with_fa(row, column)
        return paired_interval(ours.by_pretraining, without.by_pretraining)

    def _with_fa(self, row: Row, column: str) -> Cell:
        """What a row with BSS is compared with; an empty cell if there is nothing."""
        for other in self.of(row.group) if row.style == "bss" else ():
            if (other.method, other.style) == (row.method, "fa"):
                return other.cell(column)
        return Cell()

    def best(self, row: Row, column: str, whose: str) -> bool:
        """Whether no number of the column and group, of "mean" or "paper", is larger as shown."""
        cells = (other.cell(column) for other in self.of(row.group))
        shown = [f"{x:.2f}" for cell in cells if (x := getattr(cell, whose)) is not None]
        x = getattr(row.cell(column), whose)
        return x is not None and float(f"{x:.2f}") == max(map(float, shown))

    def legend(self) -> list[str]:
        """What is needed to read the table, and no more."""
        cells = [cell for row in self.rows for cell in row.cells.values()]
        pairs = [(row, column) for row in self.rows for column in self.columns]
        arrows = any(self.arrow(*pair) is not None for pair in pairs)
        lines = ["Accuracy in percent: mean ± standard deviation (how many values)."]
        whose = (
            "of ours and the best of the paper's" if any(c.paper is not None for c in cells) else ""
        )
        lines.append(f"Bold: the best {whose}".strip() + ", column by column.")
        if arrows or any(cell.paper_arrow is not None for cell in cells):
            lines.append("↑ ↓: BSS - FA.")
        if any(self.interval(*pair) for pair in pairs):
            lines.append("[..]: the middle 95% of bootstrap means of BSS - FA, seed by seed.")
        if any(cell.difference is not None for cell in cells):
            lines.append("(ours ..): ours - the paper's.")
        if any(cell.budget is not None for cell in cells):
            lines.append("§: share of the paper's budget, counted in pixels of all views.")
        used = "".join(c.marks + c.paper_marks for c in cells)
        used += "".join(row.marks + row.paper_marks for row in self.rows)
        lines += [f"{mark}: {text}." for mark, text in self.notes.items() if mark in used]
        return [" ".join(lines[:2]), *lines[2:], *self.remarks]


def paired_interval(
    ours: Mapping[int, float], theirs: Mapping[int, float]
) -> tuple[float, float] | None:
    """The middle 95% of bootstrap means of the differences of three or more common seeds."""
    differences = [value - theirs[seed] for seed, value in sorted(ours.items()) if seed in theirs]
    if len(differences) < MIN_PAIRS:
        return None
    draws = np.random.default_rng(0).choice(differences, (N_DRAWS, len(differences)))
    low, high = np.quantile(draws.mean(1), (0.025, 0.975))
    return float(low), float(high)


# ------------------------------------------------------------------------------ what cells say


class Syntax(NamedTuple):
    word: Callable[[str], str]
    bold: Callable[[str], str]


class Line(NamedTuple):
    kind: str  # ours or paper
    label: str
    cells: list[str]


def _lines(table: Table, group: str, syntax: Syntax) -> Iterator[Line]:
    for row in table.of(group):
        if row.ours:
            cells = [_ours(table, row, column, syntax) for column in table.columns]
            yield Line("ours", syntax.word(row.label + row.marks), cells)
        if not row.ours or any(cell.paper is not None for cell in row.cells.values()):
            cells = [_paper(table, row, column, syntax) for column in table.columns]
            yield Line("paper", syntax.word(f"{row.label}{row.paper_marks}, paper"), cells)


def _ours(table: Table, row: Row, column: str, syntax: Syntax) -> str:
    cell = row.cell(column)
    if cell.mean is None:
        return syntax.word("not run")
    words = [f"± {cell.std:.2f}"] if cell.std is not None and cell.n > 1 else []
    words.append(f"({cell.n})")
    if (arrow := table.arrow(row, column)) is not None:
        words.append(_arrow(arrow))
    if interval := table.interval(row, column):
        words.append("[{:+.2f}, {:+.2f}]".format(*interval))
    if cell.budget is not None:
        words.append(f"§{_share(cell.budget)}")
    number = syntax.word(f"{cell.mean:.2f}")
    number = syntax.bold(number) if table.best(row, column, "mean") else number
    return f"{number}{syntax.word(cell.marks)} {syntax.word(' '.join(words))}"


def _paper(table: Table, row: Row, column: str, syntax: Syntax) -> str:
    cell = row.cell(column)
    if cell.paper is None:
        return syntax.word("none")
    words = [] if cell.paper_arrow is None else [_arrow(cell.paper_arrow)]
    if cell.difference is not None:
        words.append(f"(ours {cell.difference:+.2f})")
    number = syntax.word(f"{cell.paper:.2f}")
    number = syntax.bold(number) if table.best(row, column, "paper") else number
    return f"{number}{syntax.word(cell.paper_marks)} {syntax.word(' '.join(words))}".rstrip()


def _arrow(difference: float) -> str:
    size = f"{abs(difference):.2f}"
    return ("=" if float(size) == 0 else "↑" if difference > 0 else "↓") + size


def _share(share: float) -> str:
    percent = 100 * share
    return f"{percent:.0f}%" if percent >= 10 else f"{percent:.2g}%"


# -------------------------------------------------------------------------------- the formats


def to_markdown(table: Table) -> str:
    syntax = Syntax(escape.markdown, lambda number: f"**{number}**")
    word = syntax.word
    blocks = [f"**{word(table.title)}**"]
    for group in table.groups:
        heads = ["", *map(word, table.columns)]
        lines = [heads, ["---", *["---:"] * len(table.columns)]]
        lines += [[line.label, *line.cells] for line in _lines(table, group, syntax)]
        blocks += [word(group)] if group else []
        blocks.append("\n".join(f"| {' | '.join(cells)} |" for cells in lines))
    blocks.append("\n".join(f"- {word(line)}" for line in table.legend()))
    return "\n\n".join(blocks) + "\n"


def to_latex(table: Table) -> str:
    """Needs the package booktabs."""
    syntax = Syntax(escape.latex, lambda number: rf"\textbf{{{number}}}")
    word, n = syntax.word, len(table.columns)
    body = [" & ".join(["", *map(word, table.columns)])]
    for group in table.groups:
        body[-1] += r" \\ \midrule"
        body += [rf"\multicolumn{{{n + 1}}}{{l}}{{{word(group)}}} \\"] if group else []
        lines = [" & ".join([line.label, *line.cells]) for line in _lines(table, group, syntax)]
        body.append(" \\\\\n".join(lines))
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering\footnotesize",
            rf"\caption{{{word(table.title)}}}",
            rf"\begin{{tabular}}{{l{'r' * n}}}",
            r"\toprule",
            *body,
            r"\\ \bottomrule",
            r"\end{tabular}",
            *(rf"\par {word(line)}" for line in table.legend()),
            r"\end{table}",
            "",
        ]
    )


def to_html(table: Table) -> str:
    """A fragment without style or script; its classes are ours, paper, missing."""
    syntax = Syntax(escape.html, lambda number: f"<b>{number}</b>")
    word, n = syntax.word, len(table.columns)
    heads = "".join(f'<th scope="col">{word(column)}</th>' for column in table.columns)
    parts = ['<table class="results">', f"<caption>{word(table.title)}</caption>"]
    parts.append(f"<thead><tr><td></td>{heads}</tr></thead>")
    for group in table.groups:
        parts.append("<tbody>")
        if group:
            parts.append(f'<tr><th scope="rowgroup" colspan="{n + 1}">{word(group)}</th></tr>')
        for line in _lines(table, group, syntax):
            cells = "".join(map(_td, line.cells))
            parts.append(f'<tr class="{line.kind}"><th scope="row">{line.label}</th>{cells}</tr>')
        parts.append("</tbody>")
    notes = "".join(f"<li>{word(line)}</li>" for line in table.legend())
    return "\n".join([*parts, "</table>", f'<ul class="notes">{notes}</ul>', ""])


def _td(cell: str) -> str:
    return '<td class="missing">not run</td>' if cell == "not run" else f"<td>{cell}</td>"


CSV_COLUMNS = [
    "table",
    "group",
    "row",
    "method",
    "style",
    "column",
    "mean",
    "std",
    "n",
    "paper",
    "difference",
    "arrow",
    "arrow_low",
    "arrow_high",
    "paper_arrow",
    "budget",
    "best",
    "marks",
    "paper_marks",
]


def to_csv(table: Table) -> str:
    """A line for each cell; a cell that was not run has n = 0 and no mean."""
    cells = [cell for row in table.rows for cell in row.cells.values()]
    known = dict.fromkeys(name for cell in cells for name in cell.provenance)
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([*CSV_COLUMNS, *map(escape.csv, known)])
    for row in table.rows:
        for column in table.columns:
            cell = row.cell(column)
            where = (table.title, row.group, row.label, row.method, row.style, column)
            std = cell.std if cell.n > 1 else None
            means = cell.mean, std, cell.n, cell.paper, cell.difference
            means += table.arrow(row, column), *(table.interval(row, column) or (None, None))
            means += cell.paper_arrow, cell.budget
            marks = row.marks + cell.marks, row.paper_marks + cell.paper_marks
            whence = (cell.provenance.get(name, "") for name in known)
            best = int(table.best(row, column, "mean"))
            writer.writerow(
                [
                    *map(escape.csv, where),
                    *map(_number, means),
                    best,
                    *map(escape.csv, (*marks, *whence)),
                ]
            )
    return file.getvalue()


def _number(x: float | None) -> str:
    return "" if x is None else str(x) if isinstance(x, int) else f"{x:.4f}"


FORMATS = {"md": to_markdown, "tex": to_latex, "html": to_html, "csv": to_csv}
