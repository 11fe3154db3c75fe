"""From what was found to the table that is shown: ours beside the paper's."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from onestyle.recipes import RECIPES, SEEN, Recipe
from onestyle.recipes.paper import PAPER, PaperRow, PaperTable
from onestyle.report.tables import Cell, Row, Table
from onestyle.tables.collect import Evaluated, Found, Harvest, Seeds
from onestyle.tables.layout import Layout, Line
from onestyle.tables.plan import Ask, Job, lines_of, pixels, targets_of

__all__ = ["make_table"]

LABELS = {row.method: row.label for table in PAPER.values() for row in table.rows} | {"erm": "ERM"}
STYLED = {"none": "", "fa": " w/ FA", "bss": " w/ BSS"}
WEIGHTS, MISPRINT = "¶", "!"


class Column(NamedTuple):
    title: str
    percent: int
    targets: tuple[str, ...]  # that its number is of
    overall: bool = False  # over their images, not the mean of the targets
    batch_size: int | None = None
    printed: str = ""  # the paper's name of the column


def make_table(layout: Layout, ask: Ask, jobs: Sequence[Job], harvest: Harvest) -> Table:
    sheet = _Sheet(layout, ask, jobs, harvest)
    blocks = list(_blocks(layout, ask))
    rows = tuple(row for group, columns in blocks for row in sheet.rows(group, columns))
    if not rows:
        raise ValueError(f"no row of {layout.name} has such a method with such a style")
    columns = tuple(column.title for column in blocks[0][1])
    of_the_paper = layout.paper.notes if layout.paper else {}
    notes = {**of_the_paper, **sheet.notes()}
    own = layout.recipes != layout.dataset.name
    title = f"{layout.title}, recipes {layout.recipes}" if own else layout.title
    return Table(title, columns, rows, notes, tuple(sheet.remarks(rows)))


def _blocks(layout: Layout, ask: Ask) -> Iterator[tuple[str, list[Column]]]:
    """The groups of rows, each with its columns."""
    percents, targets = ask.fractions or layout.fractions, _targets(layout, ask)
    if layout.over == "fractions":
        printed = targets[0] if len(targets) == 1 else "average"
        yield "", [Column(f"{p}%", p, targets, printed=printed) for p in percents]
        return
    for percent in percents:
        group = f"{percent}% of the labels"
        if layout.over == "batch sizes":
            sizes = layout.batch_sizes
            yield group, [Column(f"N = {n}", percent, targets, batch_size=n) for n in sizes]
            continue
        columns = [Column(name, percent, (name,), printed=name) for name in targets]
        if targets == targets_of(layout):
            names = layout.summaries
            columns += [
                Column(name, percent, targets, name == "overall", printed=name) for name in names
            ]
        whole = percent in layout.finetuned
        yield group + (", the whole network trained" if whole else ""), columns


def _targets(layout: Layout, ask: Ask) -> tuple[str, ...]:
    return tuple(name for name in targets_of(layout) if not ask.targets or name in ask.targets)


class _Sheet:
    def __init__(self, layout: Layout, ask: Ask, jobs: Sequence[Job], harvest: Harvest):
        self.layout, self.ask = layout, ask
        self.lines, self.targets = lines_of(layout, ask), _targets(layout, ask)
        self.done = [(job, found) for job in jobs if (found := harvest.of(job))]

    def rows(self, group: str, columns: list[Column]) -> Iterator[Row]:
        for line, printed in self._order():
            if line is None:
                assert printed
                yield _paper_row(group, columns, printed)
                continue
            cells = {column.title: self.cell(line, column, printed) for column in columns}
            yield Row(
                label_of(line),
                cells,
                group,
                line.name,
                line.style,
                self.marks(line),
                printed.mark if printed else "",
            )

    def _order(self) -> list[tuple[Line | None, PaperRow | None]]:
        """The paper's rows in its order, ours at their places, before them what it has not."""
        paper, ask = self.layout.paper, self.ask
        pairs = {line: _row_beside(paper, line) for line in self.lines}
        order: list[tuple[Line | None, PaperRow | None]] = []
        for row in paper.rows if paper else ():
            mine = next((line for line, its in pairs.items() if its is row), None)
            wanted = (not ask.methods or row.method in ask.methods) and (
                not ask.styles or row.style in ask.styles
            )
            order += [(mine, row)] if mine or wanted else []
        for line in reversed([line for line, its in pairs.items() if its is None]):
            order.insert(_place(line, [row for _, row in order]), (line, None))
        return order

    def cell(self, line: Line, column: Column, printed: PaperRow | None) -> Cell:
        place = (column.percent, column.printed)
        number = printed.accuracy.get(place) if printed else None
        arrow = printed.arrows.get(place) if printed else None
        wrong = any(one and one.corrected is not None for one in (number, arrow))
        paper = {
            "paper": number.value if number else None,
            "paper_arrow": arrow.value if arrow else None,
            "paper_marks": MISPRINT if wrong else "",
        }
        behind = list(self._behind(line, column))
        numbers = _numbers(column, [evaluated for _, _, evaluated in behind])
        if not numbers:
            return Cell(**paper)
        several = _by_pretraining(numbers)
        values = [*(several or numbers).values()]
        std = statistics.stdev(values) if len(values) > 1 else None
        recipe = behind[0][0].recipe
        return Cell(
            statistics.fmean(values),
            std,
            len(values),
            budget=budget(line.name, recipe, self.layout) if behind[0][0].has_recipe else None,
            provenance=_provenance(behind, numbers),
            by_pretraining=several,
            **paper,
        )

    def _behind(self, line: Line, column: Column) -> Iterator[tuple[Job, Found, Evaluated]]:
        """The evaluations that a cell is made of."""
        for job, found in self.done:
            same = (job.line, job.batch_size) == (line, column.batch_size)
            if same and {*job.targets} & {*column.targets}:
                stage = "finetune" if column.percent in job.finetuned else "probe"
                if stage in found.evaluated:
                    yield job, found, found.evaluated[stage]

    def marks(self, line: Line) -> str:
        mine = [(job, found) for job, found in self.done if job.line == line and job.has_recipe]
        marks = WEIGHTS if any(job.recipe.init != "random" for job, _ in mine) else ""
        seen = any(found.result and found.result["target_openings"] for _, found in mine)
        return marks + (SEEN if seen or line.uses_target else "")

    def notes(self) -> dict[str, str]:
        inits = sorted({job.recipe.init for job, _ in self.done} - {"random"})
        named = " and ".join("ImageNet's" if init == "timm" else init for init in inits)
        notes = {WEIGHTS: f"began from weights, {named}"} if inits else {}
        notes[SEEN] = "sees images of the target without their labels"
        return notes | {MISPRINT: "; ".join(_misprints(self.layout.paper))}

    def remarks(self, rows: Iterable[Row]) -> Iterator[str]:
        if self.layout.paper:
            paper = self.layout.paper
            yield f"The paper: mean of {paper.n_runs} runs; {paper.protocol}."
        if self.layout.over != "targets":
            mean = ", the mean over the domains" if len(self.targets) > 1 else ""
            yield f"Unseen: {', '.join(self.targets)}{mean}."
        if any(line.method == "erm" for line in self.lines):
            yield "ERM: random weights, the whole network trained on the labelled images alone."
        others = [line for line in self.lines if not line.pretrained and line.method != "erm"]
        for label in dict.fromkeys(map(label_of, others)):
            yield f"{label}: the whole network trained anew for each fraction of the labels."
        for what, settings in (("recipe", self.ask.settings), ("evaluation", self.ask.evaluation)):
            if settings:
                yield f"Changed in every {what}: {', '.join(settings)}."
        cells = [cell for row in rows for cell in row.cells.values() if cell.n]
        for varied in dict.fromkeys(cell.provenance["varied"] for cell in cells):
            some = sum(cell.provenance["varied"] == varied for cell in cells)
            yield f"Ours, {some} of {len(cells)} numbers: what varies is {varied or 'nothing'}."
        copied = sum(cell.provenance["predictions"] != "checked" for cell in cells)
        if copied:
            yield (
                f"{copied} of our {len(cells)} numbers come from copies without the predictions, "
                "against which they cannot be checked."
            )


def label_of(line: Line) -> str:
    scope = f", colour per {line.scope}" if line.scope else ""
    return LABELS.get(line.method, line.method) + STYLED[line.style] + scope


def _row_beside(paper: PaperTable | None, line: Line) -> PaperRow | None:
    if paper is None:
        return None
    return paper.row(line.method, line.style, line.scope or "", uses_target=line.uses_target)


def _place(line: Line, rows: Sequence[PaperRow | None]) -> int:
    """Before the first of its method, else before all but ERM."""
    for k, row in enumerate(rows):
        if row and row.method == line.method and not row.uses_target:
            return k
    return int(bool(rows) and rows[0] is not None and rows[0].method == "erm")


def _paper_row(group: str, columns: Iterable[Column], row: PaperRow) -> Row:
    """A row that only the paper has."""
    cells = {
        column.title: Cell(paper=number.value)
        for column in columns
        if (number := row.accuracy.get((column.percent, column.printed)))
    }
    label = row.label + STYLED[row.style]
    return Row(label, cells, group, row.method, row.style, paper_marks=row.mark, ours=False)


def _misprints(paper: PaperTable | None) -> Iterator[str]:
    for row in paper.rows if paper else ():
        for what, numbers in (("", row.accuracy), (" the difference", row.arrows)):
            for (percent, column), number in numbers.items():
                if number.corrected is not None:
                    place = f"{row.label}{STYLED[row.style]}, {percent}%, {column}"
                    yield f"at {place} is printed{what} {number.printed:.2f}, a misprint"


def _numbers(column: Column, evaluations: Iterable[Evaluated]) -> dict[Seeds, float]:
    """The value of each run that has seen every target of the column."""
    by_seeds: dict[Seeds, dict[str, Mapping[str, float]]] = {}
    for evaluated in evaluations:
        for percent, seeds, targets in evaluated.values():
            if percent == column.percent:
                mine = {name: targets[name] for name in column.targets if name in targets}
                by_seeds.setdefault(seeds, {}).update(mine)
    whole = {seeds: of for seeds, of in sorted(by_seeds.items()) if len(of) == len(column.targets)}
    return {seeds: _mean(list(of.values()), column.overall) for seeds, of in whole.items()}


def _by_pretraining(numbers: Mapping[Seeds, float]) -> dict[int, float]:
    """Of several pretrainings each counts once, by the mean of its probes; nothing of a single one,
    of which every probe counts."""
    probes: dict[int, list[float]] = {}
    for (pretraining, _), value in numbers.items():
        if pretraining is not None:
            probes.setdefault(pretraining, []).append(value)
    several = len(probes) > 1
    return {seed: statistics.fmean(values) for seed, values in probes.items() if several}


def _mean(targets: list[Mapping[str, float]], overall: bool) -> float:
    weights = [one["n"] if overall else 1 for one in targets]
    pairs = zip(targets, weights, strict=True)
    return sum(one["accuracy"] * weight for one, weight in pairs) / sum(weights)


def budget(name: str, recipe: Recipe, layout: Layout) -> float | None:
    """The share of the paper's budget, in pixels of all views; None where it is the paper's."""
    theirs = RECIPES.get(f"{layout.dataset.name}/{name}")
    if layout.dataset.name == "digits" or theirs is None:
        return None
    share = pixels(recipe) / pixels(theirs)
    return None if abs(share - 1) < 0.005 else share


def _provenance(
    behind: list[tuple[Job, Found, Evaluated]], numbers: Mapping[Seeds, float]
) -> dict[str, str]:
    founds = list({found.folder: found for _, found, _ in behind}.values())
    evaluations = [evaluated for _, _, evaluated in behind]
    varied = {name: None for one in evaluations for name in one.result["varied"]}
    if len({seeds[0] for seeds in numbers}) > 1:
        varied = {"pretraining (each the mean of its probes)": None}
    made = [one.result["made_with"] for one in evaluations]
    pretrained = [found.result for found in founds if found.result]
    made += [result["made_with"] for result in pretrained]
    job = behind[0][0]
    return {
        "recipe": f"{job.recipes}/{job.line.name}",
        "runs": _words(found.folder.name for found in founds),
        "stage": _words(one.result["stage"] for one in evaluations),
        "selector": _words(one.result["selector"] for one in evaluations),
        "varied": ", ".join(varied),
        "seeds": _words(f"{seeds[0]}/{seeds[1]}" for seeds in numbers),
        "config_hash": _words(result["config_hash"][:12] for result in pretrained),
        "split_hash": _words(found.data["split"][:12] for found in founds),
        "evaluation_hash": _words(one.result["config_hash"][:12] for one in evaluations),
        "commit": _words(one["commit"] for one in made),
        "versions": _words(f"onestyle {one['onestyle']}, torch {one['torch']}" for one in made),
        "predictions": "checked" if all(one.checked for one in evaluations) else "not kept",
    }


def _words(words: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(filter(None, words)))
