"""Reports of derivations as a complete LaTeX document."""

from typing import Any

from gradcli.forms import Page
from gradcli.reports.escape import visible

_SPECIAL = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "_": r"\_", "%": r"\%",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
}  # fmt: skip
_HEAD = r"""\documentclass{article}
\usepackage{amsmath}
\usepackage{amssymb}
\begin{document}
"""


def render(report: Any, page: Page) -> str:
    """Return the results of a derivation as a LaTeX document."""
    lines = [_HEAD, r"\noindent\texttt{" + escaped(f"f = {report.target.text}") + "}\n"]
    for result in report.results:
        lines.append(rf"\section*{{{escaped(f'{result.kind.capitalize()} by {result.wrt}')}}}")
        shown = [line.replace(" = ", " &= ", 1) for line in result.formula.latex.split(r" \\ ")]
        lines += [r"\begin{align*}", *(rf"  {line} \\" for line in shown), r"\end{align*}"]
        if result.direction:
            lines.append(escaped(f"{report.said_of_direction(result)}.") + "\n")
        if result.steps:
            lines.append(r"\begin{enumerate}")
            lines += [rf"  \item {escaped(s.rule)}: \texttt{{{escaped(s.after)}}}" for s in result.steps]
            lines.append(r"\end{enumerate}")
        error = f"{result.check.max_relative_error:.0e}"
        lines.append(escaped(f"Checked at {result.check.points} points: largest relative error {error}.") + "\n")
    for f in report.findings:
        lines.append(escaped(f"{f.kind}: {f.message}") + "\n")
    return "\n".join([*lines, r"\end{document}", ""])


def escaped(text: str) -> str:
    """Return text escaped for LaTeX; characters beyond ASCII become question marks."""
    plain = visible(text).encode("ascii", "replace").decode()
    return "".join(_SPECIAL.get(c, c) for c in plain)
