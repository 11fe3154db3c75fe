"""Names of anybody's choosing come back as they were and mean nothing to what shows them."""

import csv
import io
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from onestyle.report import escape
from tests.report.oracles import of_html, of_markdown, plain_of_latex

TEXT = st.text(
    alphabet=st.one_of(st.characters(), st.sampled_from("\\`*_[]{}()|#~$!:@<>&\"'=+-,;"))
)
NASTY = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "a | b",
    "![x](https://example.org/x.png)",
    "**bold** _it_ ~~gone~~ `code`",
    "\\textbf{x} \\input{/etc/passwd}",
    "50% & #1_a ^ ~",
    "=HYPERLINK(1)",
    "a;=1+1",
    "a, @x",
    "&amp;lt;",
    "one\ntwo\ttabs\u202eback",
]


def nasty(test):
    for text in NASTY:
        test = example(text)(test)
    return given(TEXT)(test)


@nasty
def test_html(text):
    ((cell,),) = of_html(f"<table><tr><td>{escape.html(text)}</td></tr></table>")
    assert cell.text == escape.one_line(text)


@nasty
def test_markdown(text):
    ((head,), (cell,)) = of_markdown(f"| x |\n| --- |\n| {escape.markdown(text)} |")
    assert head.text == "x" and cell.text == escape.one_line(text) and not cell.bold


@nasty
def test_latex(text):
    meant = r"[\\~^<>|`\"{}$&#_%\[\]*\-'±↑↓°†‡§¶]"
    assert plain_of_latex(escape.latex(text)) == re.sub(meant, "", escape.one_line(text))


@nasty
def test_csv(text):
    file = io.StringIO()
    csv.writer(file).writerow([escape.csv(text)])
    ((cell,),) = csv.reader(io.StringIO(file.getvalue())) if file.getvalue().strip() else [("",)]
    for part in re.split("[,;]", cell):
        assert not part.lstrip().startswith(("=", "+", "-", "@"))
    assert cell.replace("'", "") == escape.one_line(text).replace("'", "")


@pytest.mark.parametrize("name", ["html", "markdown", "latex", "csv"])
def test_a_line_end_ends_no_row(name):
    assert "\n" not in getattr(escape, name)("a\r\nb\u2028c\x0bd")
