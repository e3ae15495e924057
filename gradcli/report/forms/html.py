"""Reports as one HTML page: one file, no request to anywhere, formulas in MathML, and all text in it escaped.

What it shows needs no script; a script adds the steps through a computation. The page's policy allows this script and this
style sheet alone, by their hashes.
"""

import base64
import hashlib
from functools import cache
from importlib import resources
from typing import Any

from gradcli.report.blocks import Bars, Block, Chart, Figure, Heading, HeatMap, Walk, cut, in_markup
from gradcli.report.drawing import chart
from gradcli.report.forms import Page
from gradcli.report.forms.elements import elements
from gradcli.report.forms.walk import section

_TITLE = 80  # letters of a page's title
_HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/>
<meta http-equiv="Content-Security-Policy" content="{policy}"/>
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main>
"""


def render(report: Any, page: Page) -> str:
    """Return the report as an HTML page, whose title is what was looked at."""
    target = getattr(report, "target", None)
    title = "gradcli" if target is None else target.text.strip()
    blocks = report.page_blocks() if hasattr(report, "page_blocks") else report.blocks()
    first = [] if any(isinstance(b, Heading) and b.level == 1 for b in blocks) else [Heading(title, 1)]
    body = "\n".join(filter(None, (_part(block, page) for block in (*first, *blocks))))
    body = chart.marks() + body if "<use " in body else body
    style, script = asset("page.css"), asset("page.js") if any(isinstance(block, Walk) for block in blocks) else ""
    policy = f"default-src 'none'; style-src {_hashed(style)}; base-uri 'none'; form-action 'none'"
    policy += f"; script-src {_hashed(script)}" if script else ""
    head = _HEAD.format(title=in_markup(cut(title, _TITLE)), style=style, policy=policy)
    end = f"<script>{script}</script>\n" if script else ""
    return f"{head}{body}\n</main>\n{end}</body>\n</html>\n"


@cache
def asset(name: str) -> str:
    """Return the page's style sheet or script."""
    return resources.files("gradcli.report.forms").joinpath(name).read_text(encoding="utf-8")


def _hashed(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


def _part(block: Block | Figure, page: Page) -> str:
    if isinstance(block, Walk):
        return section(block)
    if isinstance(block, Chart):
        return _chart(block)
    if isinstance(block, Bars):
        return _figure(f"{block.title}, in {block.unit}{', on a logarithmic scale' * block.log}", "", chart.bars(block))
    if isinstance(block, HeatMap):
        return _figure(block.title, "map", chart.heat_map(block))
    return elements((block,), width=page.width)


def _figure(title: str, look: str, *parts: str) -> str:
    """Return a picture with its title; nothing where nothing is drawn."""
    if not any(parts):
        return ""
    return f'<figure class="picture {look}">\n<figcaption>{in_markup(title)}</figcaption>\n{"".join(parts)}\n</figure>'


def _chart(block: Chart) -> str:
    """Return a chart with a switch for each name and, where there are several, each style; the style sheet makes them work."""
    drawn = chart.chart(block)
    if not drawn:
        return ""
    looks = chart.Looks.of(block)
    switches = [
        _switch(f"xn{k}" if k < chart.SWITCHED_NAMES else "", looks.of_name(block, k), name)
        for k, name in enumerate(looks.names)
    ]
    if len(looks.styles) > 1:
        switches += [
            _switch(f"xy{k}" if k < chart.SWITCHED_STYLES else "", looks.of_style(k), style)
            for k, style in enumerate(looks.styles)
        ]
    legend = f"<fieldset><legend>curves</legend>{''.join(switches)}</fieldset>"
    return _figure(
        block.title, "lines", legend, f'<div class="wide" tabindex="0" role="region" aria-label="chart">{drawn}</div>'
    )


def _switch(look: str, sample: str, name: str) -> str:
    """Return the entry of a legend, with a switch where the style sheet has one of this name."""
    switch = f'<input type="checkbox" class="{look}" checked=""/>' if look else ""
    return f"<label>{switch}{sample} {in_markup(name)}</label>"
