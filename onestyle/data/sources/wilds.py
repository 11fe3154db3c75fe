"""The folder of Camelyon17-WILDS (Koh et al., 2021), without the package of that name."""

from __future__ import annotations

from pathlib import Path

from onestyle.data.sources.base import Files, Item
from onestyle.data.sources.lists import rows

__all__ = ["WildsSource"]


class WildsSource(Files):
    """metadata.csv and patches/, hospitals as domains.

    The official splits: hospitals 0, 3, 4 train and id_val, hospital 1 val, hospital 2 test.
    """

    def __init__(self, root: Path):
        super().__init__(root)
        self.name = "camelyon17"
        for line, row in rows(root / "metadata.csv"):
            try:
                item = _item(row)
            except (KeyError, AttributeError):
                self.refuse(f"metadata.csv line {line}", "not a row of Camelyon17-WILDS")
            else:
                self.add(item)
        if not self.items and not self.problems:
            raise ValueError(f"{root / 'metadata.csv'} lists no image")


def _item(row: dict) -> Item:
    node = f"patient_{row['patient'].zfill(3)}_node_{row['node']}"
    path = f"patches/{node}/patch_{node}_x_{row['x_coord']}_y_{row['y_coord']}.png"
    source = {"0": "train", "1": "id_val"}[row["split"]]
    split = {"0": source, "3": source, "4": source, "1": "val", "2": "test"}[row["center"]]
    label = {"0": "normal", "1": "tumor"}[row["tumor"]]
    return Item(path, f"hospital_{row['center']}", label, split)
