"""Readers of what we write: each gives back the words and the bold of every cell."""

import re
from html.parser import HTMLParser
from typing import NamedTuple

from markdown_it import MarkdownIt


class Read(NamedTuple):
    text: str
    bold: str  # the part of it that is


OURS = {"table", "thead", "tbody", "tr", "td", "th", "caption", "b", "strong", "p", "ul", "li"}


class _Cells(HTMLParser):
    """Of an HTML table; a tag that is none of ours ends in `strange`."""

    def __init__(self, text):
        super().__init__()
        self.rows, self.strange, self._inside, self._bold = [], [], False, False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        if tag not in OURS:
            self.strange.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append(Read("", ""))
            self._inside = True
        self._bold = self._bold or tag in ("b", "strong")

    def handle_endtag(self, tag):
        self._inside = self._inside and tag not in ("td", "th")
        self._bold = self._bold and tag not in ("b", "strong")

    def handle_data(self, data):
        if self._inside:
            text, bold = self.rows[-1][-1]
            self.rows[-1][-1] = Read(text + data, bold + data * self._bold)


def of_html(text):
    cells = _Cells(text)
    assert not cells.strange, cells.strange
    return cells.rows


def of_markdown(text):
    """By CommonMark with GitHub's tables and strikethrough, raw HTML let through."""
    return of_html(MarkdownIt("js-default", {"html": True}).render(text))


SPECIAL = [  # what stands for one character
    r"\\[&%#_${}]",
    r"\\text\w+\{\}",
    r"\\(?:dag|ddag|S|P)\{\}",
    r"\$(?:\\pm|\\uparrow|\\downarrow|\^\\circ)\$",
    r"\{[\[\]*'-]\}",
]


def plain_of_latex(text):
    """The characters that LaTeX sets as they stand; fails if one left has a meaning."""
    rest = re.sub("|".join(SPECIAL), "", text)
    assert not re.search(r"[\\&%#_$~^{}]", rest), (text, rest)
    return rest


def of_latex(text):
    """Cells of the rows between the rules."""
    body = text.split(r"\toprule")[1].split(r"\bottomrule")[0]
    rows = [row.replace(r"\midrule", "").strip() for row in re.split(r"\\\\(?=\s)", body)]
    return [[cell.strip() for cell in re.split(r"(?<!\\)&", row)] for row in rows if row]
