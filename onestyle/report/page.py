"""The report: one page that needs no network, no library and no other file."""

from __future__ import annotations

import base64
import hashlib
from importlib import resources

from onestyle.report.contents import Report
from onestyle.report.dots import hues
from onestyle.report.escape import html
from onestyle.report.sections import SECTIONS

__all__ = ["render"]

HUES = {  # a group's colour: on a light and on a dark ground, to be read as a word too
    "#59636d": ("#59636d", "#a4adb5"),
    "#1f77b4": ("#1f77b4", "#62aee6"),
    "#c2511b": ("#c2511b", "#f18a54"),
    "#0072b2": ("#0072b2", "#4aa8e0"),
    "#e69f00": ("#b57a00", "#f0b03c"),
    "#009e73": ("#00805d", "#2fc195"),
    "#cc79a7": ("#b8588f", "#e29ac4"),
    "#56b4e9": ("#2b88bf", "#92d0f2"),
    "#8a4b08": ("#8a4b08", "#c98b4a"),
    "#1c1f24": ("#1c1f24", "#e8eaed"),
    "#b4a800": ("#857c00", "#d6cb3a"),
}


def render(report: Report) -> str:
    """The whole page; a policy in its head forbids it to fetch anything or run another script."""
    script, style = (_own(name) for name in ("script.js", "style.css"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
    policy += f"script-src 'sha256-{digest}'"
    data = report.groups[0].runs[0].config["data"]
    title = html(f"onestyle: {data['store']}" + "".join(f", {name}" for name in data["targets"]))
    sections = [section(report) for section in SECTIONS]
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="referrer" content="no-referrer">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>
{style}{_colours(report)}
</style>
</head>
<body>
<header><span class="brand">onestyle</span>
<button type="button" id="theme" aria-label="light or dark">◐</button></header>
<main>
{"".join(filter(None, sections))}</main>
<footer>Made by onestyle. Everything on this page is inside it: nothing is fetched.</footer>
<script>{script}</script>
</body>
</html>
"""


def _own(name: str) -> str:
    return (resources.files("onestyle.report") / name).read_text(encoding="utf-8")


def _colours(report: Report) -> str:
    series = "".join(
        f"--s{k}:light-dark({','.join(HUES[group.colour])});"
        for k, group in enumerate(report.groups)
    )
    maps = report.having("embedding")
    return f":root{{{series}}}\n" + (hues(maps[0][2]) if maps else "")
