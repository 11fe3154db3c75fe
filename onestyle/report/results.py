"""The accuracies of a report's groups as one of the tables of `tables.py`."""

from __future__ import annotations

from collections.abc import Sequence

from onestyle.recipes import SEEN
from onestyle.report.groups import Group, chance_of, percents_of, score
from onestyle.report.tables import Cell, Row, Table

__all__ = ["results_table"]


def results_table(groups: Sequence[Group]) -> Table:
    """A column for each label fraction, rows of groups below each measure."""
    data = groups[0].runs[0].config["data"]
    percents, targets = percents_of(groups), tuple(data["targets"])
    measures = {name: f"{name}, unseen" for name in targets}
    if len(targets) > 1:
        measures |= {"average": "mean of the unseen", "worst": "worst of the unseen"}
    measures["val"] = "held-out images of the sources"
    rows, varied = [], {}
    for measure, words in measures.items():
        chance = chance_of(groups, measure)
        words += f" (chance {chance:.1f})" if chance is not None else ""
        for group in groups:
            cells = {}
            for percent in percents:
                if found := score(group, percent, measure):
                    cells[_column(percent)] = Cell(found.mean, found.std, len(found.values))
                    varied[group.name] = found.varied
            method, style = group.recipe.method, group.recipe.style
            rows.append(Row(group.name, cells, group=words, method=method, style=style))
    remarks = tuple(f"{name}: the seeds of {what} varied." for name, what in varied.items())
    if len({*varied.values()}) == 1:
        remarks = (f"The seeds of {next(iter(varied.values()))} varied.",)
    if any(group.recipe.uses_target for group in groups):
        remarks += (f"{SEEN}: learned from images of the targets without their labels.",)
    return Table(
        f"Linear probes on {data['store']}",
        tuple(map(_column, percents)),
        tuple(rows),
        remarks=remarks,
    )


def _column(percent: int) -> str:
    return f"{percent}%"
