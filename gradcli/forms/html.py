"""Reports as one HTML page: no script, no request to anywhere, formulas in MathML, and all text in it escaped."""

from typing import Any

from gradcli.forms import Page
from gradcli.forms.elements import elements, text
from gradcli.reports.blocks import Heading

_STYLE = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif;
        background: light-dark(#fff, #16181c); color: light-dark(#1b1d21, #e6e6e6); }
body { margin: 0 auto; padding: 1.5rem 1rem 4rem; max-width: 62rem; }
.wide { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; }
caption { text-align: left; font-weight: 600; padding: .25rem 0; }
th, td { text-align: left; vertical-align: baseline; padding: .2rem .9rem .2rem 0; }
tbody tr { border-top: 1px solid color-mix(in srgb, currentColor 20%, transparent); }
th { font-weight: 600; }
.number { text-align: right; font-variant-numeric: tabular-nums; }
math { font-size: 1.1em; }
math[display="block"] { display: inline math; }
pre { overflow-x: auto; padding: .75rem 1rem; border-radius: .4rem;
      background: color-mix(in srgb, currentColor 8%, transparent); }
.good { color: light-dark(#116329, #7ee787); }
.bad { color: light-dark(#b3261e, #ffa198); }
.unsure { color: light-dark(#7a4f01, #e3b341); }
.dim { opacity: .75; }
.strong { font-weight: 600; }
@media print {
  :root { color-scheme: light; }
  pre { white-space: pre-wrap; }
}
"""
_HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'"/>
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
    blocks = report.blocks()
    first = [] if any(isinstance(b, Heading) and b.level == 1 for b in blocks) else [Heading(title, 1)]
    body = elements((*first, *blocks), width=page.width)
    return f"{_HEAD.format(title=text(title), style=_STYLE)}{body}\n</main>\n</body>\n</html>\n"
