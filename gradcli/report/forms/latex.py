"""Reports of derivations as a complete LaTeX document."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from gradcli.report.blocks import (
    Block,
    Cell,
    Code,
    Heading,
    Headline,
    Mathematics,
    Paragraph,
    Table,
    make_visible,
    plain_text,
    split_into_pieces,
)
from gradcli.report.derive import (
    BREAK,
    GREEK,
    Lecture,
    Step,
    align_equations,
    latex_name,
    space_in_latex,
    strip_self_test,
)
from gradcli.report.forms import Page

_SPECIAL = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "_": r"\_", "%": r"\%",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}",
}  # fmt: skip
_SIGNS = {
    "ᵀ": r"\(^{\top}\)", "∘": r"\(\circ\)", "∂": r"\(\partial\)",
    "𝟏": r"\(\mathbf{1}\)", "⁻": r"\(^{-}\)", "·": r"\(\cdot\)", "×": r"\(\times\)",
    "±": r"\(\pm\)", "≤": r"\(\leq\)", "≥": r"\(\geq\)", "→": r"\(\to\)",
    "…": r"\dots{}", "−": "-", "√": r"\(\surd\)", "‖": r"\(\|\)",
    **{sign: rf"\({latex_name(sign)}\)" for sign in GREEK.values()},
    **{sign: rf"\(^{{{k}}}\)" for k, sign in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")},
    **{sign: rf"\(_{{{k}}}\)" for k, sign in enumerate("₀₁₂₃₄₅₆₇₈₉")},
}  # fmt: skip
_WIDE = 40  # characters of a cell that count for the width of its column
_HEAD = r"""\documentclass{article}
\usepackage[margin=25mm]{geometry}
\usepackage{amsmath}
\usepackage{amssymb}
\usepackage{graphicx}
\usepackage{textcomp}
\usepackage{listings}
\lstset{basicstyle=\ttfamily\small, breaklines=true, columns=fullflexible, keepspaces=true, showstringspaces=false, upquote=true}
\setlength{\parindent}{0pt}
\raggedright
\allowdisplaybreaks
\newsavebox{\formula}
\newcommand{\fitted}[1]{% a formula, made smaller where it is wider than the line
  \sbox{\formula}{\(\displaystyle #1\)}%
  \ifdim\wd\formula>\linewidth\resizebox{\linewidth}{!}{\usebox{\formula}}\else\usebox{\formula}\fi}
\begin{document}
"""
_AS_INPUT = r"a gradient has the shape of its input, \(\mathrm{d}f = \operatorname{tr}(G^{\top} \, \mathrm{d}X)\)"
_LAYOUTS = {
    "mixed": f"{_AS_INPUT}; a Jacobian is indexed [output, input]",
    "denominator": f"{_AS_INPUT}; a Jacobian is indexed [input, output]",
    "numerator": (
        r"a gradient has the shape of the transpose of its input, \(\mathrm{d}f = \operatorname{tr}(G \, \mathrm{d}X)\); "
        "a Jacobian is indexed [output, input]"
    ),
}


def render_latex(report: Any, page: Page) -> str:
    """Return the results of a derivation as a LaTeX document: the function, its variables, the steps, the results, the code.

    A lecture has the walkthrough and the check after it, as tables.
    """
    below: list[str] = []
    if isinstance(report, Lecture):
        report, below = report.derivation, [_write_block(block) for block in report.at_the_point()]
    lines = [_HEAD]
    if report.function:  # several lines stand under each other
        formula = report.function
        formula = align_equations(formula.split(BREAK)) if BREAK in formula else formula
        lines += [r"\[", rf"  \fitted{{{formula}}}", r"\]"]
    variables = []
    for name, dims in report.shapes.items():
        assumed = f" ({escape_latex(', '.join(report.assume[name]))})" if name in report.assume else ""
        variables.append(rf"\({space_in_latex(name, dims)}\){assumed}")
    lines.append(f"Let {' and '.join(filter(None, [', '.join(variables[:-1]), variables[-1]]))}.\n")
    lines.append(f"Layout: {_LAYOUTS[report.layout.partition(':')[0]]}.\n")
    if report.shared:
        lines += _write_steps(report.shared)
    for result in report.results:
        lines += _write_result(report, result)
    lines += [escape_latex(f"{f.kind}: {f.message}") + "\n" for f in report.findings]
    return "\n".join([*lines, *filter(None, below), r"\end{document}", ""])


def _write_block(block: Block) -> str:
    if isinstance(block, Heading):
        return rf"\section*{{{_write_cell(block.text)}}}"
    if isinstance(block, Headline):
        return rf"\textbf{{{escape_latex(block.word)}}} {_write_cell(block.sentence)}" + "\n"
    if isinstance(block, Paragraph):
        return _write_cell(block.text) + "\n"
    if isinstance(block, Code):
        return "\n".join(_write_listing(block.text))
    return _write_table(block) if isinstance(block, Table) else ""


def _write_cell(cell: Cell) -> str:
    """Return text escaped, and formulas as formulas."""
    return "".join(
        rf"\({p.latex}\)" if isinstance(p, Mathematics) else escape_latex(p.text) for p in split_into_pieces(cell)
    )


def _write_table(table: Table) -> str:
    """Return a table whose columns share the width of the page as their longest cells do."""
    count = len(table.columns)
    rows = [row for row in table.rows if len(row) == count]
    widths = [[min(len(plain_text(cell)), _WIDE) for cell in row] for row in rows]
    longest = [max([len(name), *(row[k] for row in widths), 2]) for k, name in enumerate(table.columns)]
    room = 0.92 - 0.02 * count
    columns = "".join(rf"p{{{room * n / sum(longest):.3f}\linewidth}}" for n in longest)
    shown = [[_write_cell(cell) for cell in row] for row in ([table.columns] if any(table.columns) else []) + rows]
    body = [("{}" if row[0].startswith("[") else "") + " & ".join(row) + r" \\" for row in shown]  # \\[ has a meaning
    title = [escape_latex(table.title) + r"\par"] if table.title else []
    head = [r"{\footnotesize\raggedright", *title, rf"\begin{{tabular}}{{@{{}}{columns}@{{}}}}"]
    below = [escape_latex(" ".join(map(plain_text, row))) + r"\par" for row in table.rows if len(row) < count]
    return "\n".join([*head, *body, r"\end{tabular}", r"\par", *below, "}", ""])


def _write_steps(steps: Sequence[Step]) -> list[str]:
    """Return steps as sentences with their formulas, those with one reason under each other."""
    lines: list[str] = []
    for reason, several in groupby(steps, key=lambda step: step.reason):
        own = list(several)
        shown = [line for step in own for line in step.latex.split(BREAK) if step.latex]
        lines.append(escape_latex(reason))
        if shown:
            lines += [r"\[", rf"  \fitted{{{align_equations(shown)}}}", r"\]"]
        lines += [rf"\texttt{{{escape_latex(step.after)}}}" + "\n" for step in own if not step.latex]
    return lines


def _write_result(report: Any, result: Any) -> list[str]:
    lines = [rf"\section*{{{result.kind.capitalize()} with respect to \({latex_name(result.wrt)}\)}}"]
    lines += _write_steps(report.own_steps(result))
    *parts, last = result.formula.latex.split(BREAK)
    left, _, right = last.partition(" = ")
    if result.direction:  # what the product of a Hessian and a direction is
        x = latex_name(result.wrt)
        moved = rf"{x} + t \, {latex_name(result.direction)}"
        gradient = rf"\frac{{\partial f}}{{\partial {x}}}\left({moved}\right)"
        meaning = rf"\left. \frac{{\mathrm{{d}}}}{{\mathrm{{d}} t}} {gradient} \right|_{{t = 0}}"
        parts.insert(0, f"{left} = {meaning}")
    shown = align_equations([*parts, rf"{left} = \boxed{{{right}}}"])
    lines += ["The result is", r"\[", rf"  \fitted{{{shown}}}", r"\]"]
    if result.direction:
        lines.append(escape_latex(f"{report.said_of_direction(result)}.") + "\n")
    error = f"{result.check.max_relative_error:.0e}"
    lines.append(escape_latex(f"Checked at {result.check.points} points: largest relative error {error}.") + "\n")
    for language in report.shown:
        if language in result.code:
            lines += _write_listing(strip_self_test(result.code[language]))
    return lines


def _write_listing(code: str) -> list[str]:
    """Return the lines of a listing, whose end no text can write."""
    words = {sign: word for word, sign in GREEK.items() if word != "lambda"}
    text = "".join(words.get(c, c) for c in make_visible(code.rstrip())).encode("ascii", "replace").decode()
    return [r"\begin{lstlisting}", text.replace(r"\end{lstlisting}", r"\end {lstlisting}"), r"\end{lstlisting}"]


def escape_latex(text: str) -> str:
    """Return text escaped for LaTeX; characters beyond ASCII that have no sign here become question marks."""
    shown = (_SPECIAL.get(c) or _SIGNS.get(c) or c.encode("ascii", "replace").decode() for c in make_visible(text))
    return "".join(shown).replace("--", "-{}-")  # two hyphens would become a dash
