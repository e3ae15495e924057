"""Reports of derivations as a complete LaTeX document."""

from typing import Any

from gradcli.derivation.notation import Latex
from gradcli.forms import Page
from gradcli.reports.blocks import Block, Code, Heading, Headline, Paragraph, Table, text_of
from gradcli.reports.derive import bare
from gradcli.reports.escape import visible
from gradcli.reports.lecture import Lecture

_SPECIAL = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "_": r"\_", "%": r"\%",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}",
}  # fmt: skip
_SIGNS = {
    "ᵀ": r"\(^{\top}\)", "∘": r"\(\circ\)", "∂": r"\(\partial\)",
    "²": r"\(^2\)", "³": r"\(^3\)", "·": r"\(\cdot\)", "×": r"\(\times\)",
    "±": r"\(\pm\)", "≤": r"\(\leq\)", "≥": r"\(\geq\)", "→": r"\(\to\)",
    "…": r"\dots{}", "−": "-", "√": r"\(\surd\)", "‖": r"\(\|\)",
}  # fmt: skip
_WIDE = 40  # characters of a cell that count for the width of its column
_HEAD = r"""\documentclass{article}
\usepackage{amsmath}
\usepackage{amssymb}
\setlength{\parindent}{0pt}
\sloppy
\allowdisplaybreaks
\begin{document}
"""


def render(report: Any, page: Page) -> str:
    """Return the results of a derivation as a LaTeX document: the function, its variables, the steps, the results, the code.

    A lecture has the walkthrough and the check after it, as tables.
    """
    below: list[str] = []
    if isinstance(report, Lecture):
        report, below = report.derivation, [_block(block) for block in report.at_the_point()]
    lines = [_HEAD]
    if report.function:
        lines += [r"\begin{equation*}", f"  {report.function}", r"\end{equation*}"]
    variables = "; ".join(f"{escaped(name)}: {_described(report, name)}" for name in report.shapes)
    lines += [f"Variables: {variables}.\n", f"Layout: {escaped(report.layout)}.\n"]
    for result in report.results:
        lines += _result(report, result)
    lines += [escaped(f"{f.kind}: {f.message}") + "\n" for f in report.findings]
    return "\n".join([*lines, *filter(None, below), r"\end{document}", ""])


def _block(block: Block) -> str:
    if isinstance(block, Heading):
        return rf"\section*{{{escaped(block.text)}}}"
    if isinstance(block, Headline):
        return rf"\textbf{{{escaped(block.word)}}} {escaped(block.sentence)}" + "\n"
    if isinstance(block, Paragraph):
        return escaped(text_of(block.text)) + "\n"
    if isinstance(block, Code):
        return "\n".join([r"\begin{verbatim}", _plain(block.text.rstrip()), r"\end{verbatim}"])
    return _table(block) if isinstance(block, Table) else ""


def _table(table: Table) -> str:
    """Return a table whose columns share the width of the page as their longest cells do."""
    count = len(table.columns)
    rows = [row for row in table.rows if len(row) == count]
    longest = [
        max([len(name), *(min(len(text_of(row[k])), _WIDE) for row in rows), 2]) for k, name in enumerate(table.columns)
    ]
    room = 0.92 - 0.02 * count
    columns = "".join(rf"p{{{room * n / sum(longest):.3f}\linewidth}}" for n in longest)
    shown = [[escaped(text_of(cell)) for cell in row] for row in ([table.columns] if any(table.columns) else []) + rows]
    body = [("{}" if row[0].startswith("[") else "") + " & ".join(row) + r" \\" for row in shown]  # \\[ has a meaning
    title = [escaped(table.title) + r"\par"] if table.title else []
    head = [r"{\footnotesize\raggedright", *title, rf"\begin{{tabular}}{{@{{}}{columns}@{{}}}}"]
    below = [escaped(" ".join(map(text_of, row))) + r"\par" for row in table.rows if len(row) < count]
    return "\n".join([*head, *body, r"\end{tabular}", r"\par", *below, "}", ""])


def _described(report: Any, name: str) -> str:
    sizes = r" \(\times\) ".join(map(escaped, report.shapes[name])) or "a number"
    return sizes + (f" ({escaped(', '.join(report.assume[name]))})" if name in report.assume else "")


def _result(report: Any, result: Any) -> list[str]:
    lines = [rf"\section*{{{escaped(f'{result.kind.capitalize()} by {result.wrt}')}}}"]
    if result.steps:
        lines += [r"\begin{enumerate}", *(f"  \\item {_step(step)}" for step in result.steps), r"\end{enumerate}"]
    *parts, last = result.formula.latex.split(r" \\ ")
    if result.direction:
        parts = [_along(last, result), *parts]
    shown = [*(part.replace(" = ", " &= ", 1) + r" \\" for part in parts), rf"& \boxed{{{last}}}"]
    lines += [r"\begin{align*}", *(f"  {line}" for line in shown), r"\end{align*}"]
    if result.direction:
        lines.append(escaped(f"{report.said_of_direction(result)}.") + "\n")
    error = f"{result.check.max_relative_error:.0e}"
    lines.append(escaped(f"Checked at {result.check.points} points: largest relative error {error}.") + "\n")
    for language in report.shown:
        if language in result.code:
            lines += [r"\begin{verbatim}", _plain(bare(result.code[language]).rstrip()), r"\end{verbatim}"]
    return lines


def _along(last: str, result: Any) -> str:
    """Return what the product of a Hessian and a direction is, as a formula."""
    x = Latex().name(result.wrt)
    moved = rf"{x} + t \, {Latex().name(result.direction)}"
    gradient = rf"\frac{{\partial f}}{{\partial {x}}}\left({moved}\right)"
    return rf"{last.partition(' = ')[0]} = \left. \frac{{\mathrm{{d}}}}{{\mathrm{{d}} t}} {gradient} \right|_{{t = 0}}"


def _step(step: Any) -> str:
    condition = f" ({escaped(step.condition)})" if step.condition else ""
    said = rf"\(\displaystyle {step.latex}\)" if step.latex else rf"\texttt{{{escaped(step.after)}}}"
    return f"{escaped(step.rule)}{condition}: {said}"


def _plain(text: str) -> str:
    """Return text for a verbatim block, whose end no text can write."""
    return visible(text).encode("ascii", "replace").decode().replace(r"\end{verbatim}", r"\end {verbatim}")


def escaped(text: str) -> str:
    """Return text escaped for LaTeX; characters beyond ASCII that have no sign here become question marks."""
    return "".join(_SPECIAL.get(c) or _SIGNS.get(c) or c.encode("ascii", "replace").decode() for c in visible(text))
