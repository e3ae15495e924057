"""The part of a page that walks through a computation: its graph, the code, the step at hand, and a table of all of it."""

import json
from collections.abc import Mapping
from itertools import chain
from typing import Any

import numpy as np

from gradcli.drawing.graph import Drawing, brief, draw, shaped
from gradcli.reports import numbers
from gradcli.reports.absent import Absent
from gradcli.reports.blocks import Walk
from gradcli.reports.common import SourceLine
from gradcli.reports.encode import Values
from gradcli.reports.escape import in_markup, visible
from gradcli.reports.trace import Contribution, Node, Proved, TraceReport, differs

_MOST_TERMS = 6  # of a sum that are shown one by one
_CELLS = 8  # rows and columns of the small map of an array
_LISTED = 6  # entries of an array that are all written
_WORST = 3  # entries of a larger array that are named
_CODE = 60  # letters of an operation in the table
_CONTROLS = """<div class="controls" role="group" aria-label="steps" hidden="">
<button type="button" data-go="first" aria-label="first step">|◀</button>
<button type="button" data-go="back" aria-label="one step back">◀</button>
<button type="button" data-go="play" aria-label="play">▶ play</button>
<button type="button" data-go="next" aria-label="next step">▶</button>
<button type="button" data-go="last" aria-label="last step">▶|</button>
<input type="range" min="0" value="0" aria-label="step"/>
<label><input type="checkbox" class="fit"/> fit to the page</label>
<a class="here" href="#">link to this step</a>
</div>
<p class="hint dim" hidden="">The arrow keys step, here and while nothing else has the focus.</p>
"""


def section(walk: Walk) -> str:
    """Return the section of a page that shows a computation: forward, backward, and what a wrong claim makes of it."""
    trace: TraceReport = walk.trace
    drawing = draw(trace)
    data_of = _Data(trace, drawing)
    data = {
        "nodes": [data_of.of(k) for k in range(len(drawing.drawn))],
        "result": trace.loss(),
        "departs": data_of.drawn_as.get(trace.departs) if isinstance(trace.departs, str) else None,
        "begins": walk.begins,
    }
    return "\n".join((
        '<section class="walk" aria-label="steps of the computation">',
        _CONTROLS + _sentences(trace, drawing) + '<p class="said" role="status" aria-live="polite"></p>',
        f'<div class="stage wide" tabindex="0" role="region" aria-label="graph">{drawing.svg}</div>', _legend(trace),
        '<div class="beside">', _code(trace),
        '<div class="step" tabindex="0" role="group" aria-label="this step" hidden=""></div>', "</div>",
        _table(drawing, trace),
        f'<script type="application/json">{_json(data)}</script>',
        "</section>",
    ))  # fmt: skip


def _sentences(trace: TraceReport, drawing: Drawing) -> str:
    """Return sentences on what is drawn, and on where a claim goes wrong."""
    found = []
    if len(drawing.drawn) < len(trace.nodes):
        found.append(
            f"{len(trace.nodes):,} values are drawn as {len(drawing.drawn):,} boxes, by source line and loop; each shows "
            "its last value."
        )
    if any(differs(node.claimed, node.adjoint) for node in trace.nodes):
        found.append("Red: where the claim has another adjoint.")
    if isinstance(trace.departs, str):
        inside = next(node.claimed for node in trace.nodes if node.name == trace.departs)
        inferred = "" if isinstance(inside, Absent) else ", if it makes the likely mistake"
        found.append(f"Going back from the result, the claim first goes wrong at {trace.departs}{inferred}.")
    if isinstance(trace.mistake, SourceLine):
        at = trace.mistake
        where = "in the derivative of this line" if _recorded(trace, (at.file, at.line)) else "here"
        found.append(f"The mistake is {where}: {at.file}:{at.line}    {at.source}".rstrip())
    return f"<p>{in_markup(' '.join(found))}</p>\n" if found else ""


def _legend(trace: TraceReport) -> str:
    """Say what the drawing shows."""
    says = f"Above each box is its value (blue), below it its adjoint (green), the derivative of {trace.loss()} by it; "
    says += "at the edges are the local derivatives."
    if any(np.ndim(node.value) for node in trace.nodes):
        says += " Of an array: its shape, and its norm between ‖ and ‖."
    return f'<p class="dim">{in_markup(says)}</p>'


def _recorded(trace: TraceReport, line: tuple[str, int]) -> bool:
    """Whether a line of code is one of the computation, not of the claim."""
    return any((node.file, node.line) == line for node in trace.nodes)


class _Data:
    """What the script of a page shows of each drawn node."""

    def __init__(self, trace: TraceReport, drawing: Drawing) -> None:
        self._trace, self._drawing = trace, drawing
        drawn = chain.from_iterable([k] * d.group.count for k, d in enumerate(drawing.drawn))
        self.drawn_as = {node.name: k for node, k in zip(trace.nodes, drawn, strict=True)}  # numbers of drawn nodes
        self._lines = {(s.file, s.line): k for k, s in enumerate(trace.source)}

    def of(self, k: int) -> dict[str, Any]:
        """Return the data of one drawn node, under short names, for a page has them for each.

        n name, o operation, i whether it is an input, l its line in the code, v value, a adjoint, c the claimed adjoint,
        p partials by operand, t terms of the adjoint, more the number of further terms, d proved digits, s small maps of
        arrays, m what is drawn as one.
        """
        drawn = self._drawing.drawn[k]
        node = self._trace.nodes[drawn.group.last]
        uses = node.contributions
        several = drawn.group.count > 1
        found = {
            "n": node.name, "o": "" if node.operation == "input" else _operation(node), "v": _full(node.value),
            "a": _full(node.adjoint), "i": int(node.operation == "input"), "l": self._line(node),
            "c": _full(node.claimed) if differs(node.claimed, node.adjoint) else None, "m": drawn.name if several else None,
            "t": [_term(use, *self._user(use)) for use in uses[:_MOST_TERMS]],
            "more": max(0, len(uses) - _MOST_TERMS), "p": [] if several else _partials(node),
            "d": _proved(node.proved) if isinstance(node.proved, Proved) else None,
            "s": [_small_map(node.value), _small_map(node.adjoint)] if np.size(node.value) > _LISTED else None,
        }  # fmt: skip
        return {name: x for name, x in found.items() if x or (name == "l" and x is not None)}

    def _user(self, use: Contribution) -> tuple[int, str]:
        """Return the number and the name of the drawn node that uses a value."""
        k = self.drawn_as[use.from_]
        return k, self._trace.nodes[self._drawing.drawn[k].group.last].name

    def _line(self, node: Node) -> int | None:
        """Return the number of the node's line among the lines of code that are shown."""
        return None if isinstance(node.file, Absent) else self._lines.get((node.file, node.line or 0))


def _partials(node: Node) -> list[list[str]]:
    """Return the operands whose local partials are numbers, with these."""
    return [
        [name, numbers.short(p, 8)] for name, p in node.partials.items() if not isinstance(p, str) and not np.ndim(p)
    ]


def _operation(node: Node) -> str:
    return node.text if isinstance(node.text, str) else node.operation


def _term(use: Contribution, place: int, name: str) -> list[Any]:
    """Return what one use adds to an adjoint.

    The number of the drawn node that uses it; the name of the using node, empty if this is `name`, that of the drawn node;
    the product; the rule; and either its adjoint and the partial as numbers, or the formula.
    """
    user = "" if use.from_ == name else use.from_
    product = numbers.short(use.product, 8) if not np.ndim(use.product) else brief(use.product)
    head = [place, user, product, "" if isinstance(use.rule, Absent) else use.rule]
    if _of_numbers(use):
        return [*head, numbers.short(use.adjoint, 6), numbers.short(use.partial, 6)]
    return [*head, "" if isinstance(use.formula, Absent) else use.formula]


def _of_numbers(use: Contribution) -> bool:
    """Whether a use adds the product of two numbers."""
    return not isinstance(use.partial, str) and not np.ndim(use.partial) and not np.ndim(use.adjoint)


def _proved(proved: Proved) -> list[Any]:
    return [proved.value, proved.adjoint, proved.value_digits, proved.adjoint_digits]


def _full(x: Values) -> str:
    """Return a value in full where it is a number; an array by its entries, or its shape, norm and largest entries."""
    array = np.asarray(x, dtype=float)
    if array.ndim == 0:
        return numbers.full(array)
    if array.size <= _LISTED:
        return numbers.listed(array)
    flat = np.abs(array.reshape(-1))
    order = np.argsort(-np.where(np.isfinite(flat), flat, np.inf), kind="stable")[:_WORST]
    largest = ", ".join(
        f"[{','.join(str(int(i)) for i in np.unravel_index(at, array.shape))}] {numbers.short(array.reshape(-1)[at], 6)}"
        for at in order
    )
    return f"{shaped(array.shape)}, norm {numbers.short(np.linalg.norm(flat), 6)}, largest {largest}"


def _small_map(x: Values) -> list[Any]:
    """Return a small map of an array: its rows, its columns, a shade of 0 to 8 for each cell, and the values of both ends.

    A cell of a large array is the entry of largest size of several; arrays of more than two axes have their last one as
    columns.
    """
    array = np.asarray(x, dtype=float)
    matrix = array.reshape(1, -1) if array.ndim == 1 else array.reshape(-1, array.shape[-1])
    rows, columns = (max(1, -(-n // _CELLS)) for n in matrix.shape)
    cells = np.array([
        [_of_largest_size(matrix[r : r + rows, c : c + columns]) for c in range(0, matrix.shape[1], columns)]
        for r in range(0, matrix.shape[0], rows)
    ])  # fmt: skip
    finite = cells[np.isfinite(cells)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    with np.errstate(all="ignore"):
        share = np.nan_to_num((cells - low) / ((high - low) or 1.0))
    shades = "".join(str(min(8, max(0, int(9 * s)))) for s in share.reshape(-1))
    return [*cells.shape, shades, numbers.short(low, 3), numbers.short(high, 3), rows * columns]


def _of_largest_size(part: np.ndarray) -> float:
    flat = part.reshape(-1)
    return float(flat[int(np.argmax(np.abs(flat)))])


def _code(trace: TraceReport) -> str:
    """Return the lines of code, or the expression, as a list."""
    lines: list[tuple[str, int | None, str]] = [(s.file, s.line, s.source) for s in trace.source]
    if not lines and trace.target.kind == "expression":
        lines = [("", None, line) for line in trace.target.text.strip().split("\n")]
    if not lines:
        return ""
    at = trace.mistake
    mistake = (at.file, at.line) if isinstance(at, SourceLine) else None
    wrong = "slip" if mistake is not None and _recorded(trace, mistake) else "wrong"
    found, before = [], ("", 0)
    for file, number, source in lines:
        if file != before[0]:
            found.append(f'<li class="file">{in_markup(file)}</li>')
        elif number is not None and number > before[1] + 1:
            found.append('<li class="file dim">…</li>')
        look = f' class="{wrong}"' if (file, number) == mistake else ""
        found.append(f"<li{look}><i>{'' if number is None else number}</i><code>{in_markup(source) or ' '}</code></li>")
        before = file, number or 0
    return f'<ol class="code" tabindex="0" aria-label="lines of code">{"".join(found)}</ol>'


def _table(drawing: Drawing, trace: TraceReport) -> str:
    """Return all drawn nodes as a table, the inputs first: what a page without a script shows."""
    claims = any(d.claimed for d in drawing.drawn)
    head = "".join(
        f"<th>{name}</th>" for name in ("node", "operation", "value", "adjoint", *(["claimed"] * claims), "sum")
    )
    rows = []
    for d in drawing.drawn:
        node = trace.nodes[d.group.last]
        name = d.name if d.group.count > 1 else node.name
        operation = " ".join(_operation(node).split())[:_CODE]
        cells = [in_markup(name), "" if operation == "input" else in_markup(operation), d.value, d.adjoint]
        cells += [f'<span class="bad">{in_markup(d.claimed)}</span>' if d.claimed else ""] * claims
        cells.append(in_markup(_sum(node)))
        first, *others = cells
        rows.append(f'<tr><th scope="row">{first}</th><td>{"</td><td>".join(others)}</td></tr>')
    return (
        '<details class="all" open=""><summary>all values as a table</summary>\n<div class="wide" tabindex="0" role="region" '
        f'aria-label="all values"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n' + "\n".join(rows) + "\n</tbody>\n"
        "</table></div></details>"
    )


def _sum(node: Node) -> str:
    """Return how an adjoint is summed, in one line."""
    found = []
    for use in node.contributions[:_MOST_TERMS]:
        if _of_numbers(use):
            found.append(f"{numbers.short(use.adjoint, 5)}*{numbers.short(use.partial, 5)}")
        else:
            found.append(use.from_ if isinstance(use.formula, Absent) else use.formula)
    more = " + ..." if len(node.contributions) > _MOST_TERMS else ""
    return " + ".join(found) + more


def _json(data: Mapping[str, Any]) -> str:
    """Return data as JSON that cannot end its script element."""
    written = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return visible(written).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
