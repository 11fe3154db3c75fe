"""Words from outside (names of domains, classes, runs, files), made harmless for what shows them.

Each takes any text and gives one line that reads as that text, markup included.
"""

from __future__ import annotations

import html as standard
import re

__all__ = ["csv", "html", "latex", "markdown"]

_TO_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        "`": r"\textasciigrave{}",
        '"': r"\textquotedbl{}",
        **{letter: f"\\{letter}" for letter in "{}$&#_%"},
        **{letter: f"{{{letter}}}" for letter in "[]*-'"},  # after a line's end, or in a ligature
        "±": r"$\pm$",
        "↑": r"$\uparrow$",
        "↓": r"$\downarrow$",
        "°": r"$^\circ$",
        "†": r"\dag{}",
        "‡": r"\ddag{}",
        "§": r"\S{}",
        "¶": r"\P{}",
    }
)


def one_line(text: str) -> str:
    """Line ends, tabs, control and direction marks become spaces, several of them one."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def html(text: str) -> str:
    return standard.escape(one_line(text))


def markdown(text: str) -> str:
    """For a cell of a table or a paragraph: no emphasis, code, link, picture, tag or new cell."""
    return re.sub(r"([\\`*_\[\]{}|#~$!:@])", r"\\\1", standard.escape(one_line(text), quote=False))


def latex(text: str) -> str:
    return one_line(text).translate(_TO_LATEX)


def csv(text: str) -> str:
    """No cell that a spreadsheet takes for a formula, also where it parts cells at semicolons."""
    return re.sub(r"(^|[,;])(\s*)([=+\-@＝＋－＠])", r"\1\2'\3", one_line(text))  # noqa: RUF001
