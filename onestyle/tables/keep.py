"""The small files behind a table's numbers, copied to where they can be kept: a repository."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from onestyle.run import OPENINGS
from onestyle.tables.collect import STAGES, Found

__all__ = ["keep"]

# No weights, no predictions, no store.txt, which says where the images lie on this machine.
SMALL = ("recipe.yaml", "result.json", "metrics.jsonl", OPENINGS)


def keep(founds: Iterable[Found], out: Path) -> int:
    """Into a folder for each run, in the place of an older copy; how many runs that were."""
    folders = {found.folder for found in founds if found.result or found.evaluated}
    for folder in folders:
        if (out / folder.name).resolve() == folder.resolve():
            raise ValueError(f"{folder} lies where it would be kept; --keep takes another folder")
        shutil.rmtree(out / folder.name, ignore_errors=True)
        for part in (folder, *(folder / stage for stage in STAGES)):
            for name in SMALL:
                if (part / name).is_file():
                    copy = out / folder.name / part.relative_to(folder) / name
                    copy.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(part / name, copy)
    return len(folders)
