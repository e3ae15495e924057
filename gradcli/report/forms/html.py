"""Reports as one HTML page: one file, no request to anywhere, formulas in MathML, and all text in it escaped.

What it shows needs no script; a script adds the steps through a computation. The page's policy allows this script and this
style sheet alone, by their hashes.
"""

import ast
import base64
import hashlib
import json
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Any

import numpy as np

from gradcli.report import numbers
from gradcli.report.blocks import (
    Bars,
    Block,
    Cell,
    Chart,
    Figure,
    Folded,
    Heading,
    Headline,
    HeatMap,
    Piece,
    Table,
    Walk,
    escape_markup,
    make_visible,
    shorten_text,
)
from gradcli.report.common import Absent, SourceLine, Target
from gradcli.report.drawing import chart
from gradcli.report.drawing.chart import Scale, as_matrix, coarsen_matrix
from gradcli.report.drawing.graph import MOST, Drawing, brief_value, draw_graph, levels_of
from gradcli.report.encode import Values
from gradcli.report.forms import Page
from gradcli.report.forms.elements import write_elements
from gradcli.report.numbers import is_small, largest_entries, norm, write_shape
from gradcli.report.trace import Contribution, Node, ScalarLine, ScalarProgram, TraceReport

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


def render_html(report: Any, page: Page) -> str:
    """Return the report as an HTML page, whose title is what was looked at."""
    target = getattr(report, "target", None)
    title = target.text.strip() if isinstance(target, Target) else "gradcli"
    blocks = report.page_blocks() if hasattr(report, "page_blocks") else report.blocks()
    first = [] if any(isinstance(b, Heading) and b.level == 1 for b in blocks) else [Heading(title, 1)]
    body = "\n".join(filter(None, (_write_block(block, page) for block in (*first, *blocks))))
    body = chart.define_marks() + body if "<use " in body else body
    style, walks = read_asset("page.css"), [block.trace for block in blocks if isinstance(block, Walk)]
    scripts = [*filter(None, [write_script(walks)]), read_asset("page.js")] if walks else []
    policy = f"default-src 'none'; style-src {_policy_hash(style)}; base-uri 'none'; form-action 'none'"
    policy += f"; script-src {' '.join(map(_policy_hash, scripts))}" if scripts else ""
    head = _HEAD.format(title=escape_markup(shorten_text(title, _TITLE)), style=style, policy=policy)
    end = "".join(f"<script>{script}</script>\n" for script in scripts)
    return f"{head}{body}\n</main>\n{end}</body>\n</html>\n"


@cache
def read_asset(name: str) -> str:
    """Return the page's style sheet or script."""
    return resources.files("gradcli.report.forms").joinpath(name).read_text(encoding="utf-8")


def _policy_hash(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


# The part of a page that walks through a computation: its graph, the code, the step at hand, and a table of all of it.

_MOST_TERMS = 6  # of a sum that are shown one by one
_CELLS = 8  # rows and columns of the map of an array; the script knows them, too
_LISTED = 6  # entries of an array that are all written
_WORST = 3  # entries of a larger array that are named
_CODE = 60  # letters of an operation in the table
_OPERATION = 300  # letters of one at its step
_CONTROLS = """<div class="controls" role="group" aria-label="steps" hidden="">
<button type="button" data-go="first" aria-label="first step">|◀</button>
<button type="button" data-go="back" aria-label="one step back">◀</button>
<button type="button" data-go="play" aria-label="play">▶ play</button>
<button type="button" data-go="next" aria-label="next step">▶</button>
<button type="button" data-go="last" aria-label="last step">▶|</button>
<input type="range" min="0" value="0" aria-label="step"/>
<button type="button" data-zoom="out" aria-label="smaller">−</button>
<button type="button" data-zoom="fit">fit</button>
<button type="button" data-zoom="in" aria-label="larger">+</button>
<button type="button" data-lecture="" aria-pressed="false">lecture</button>
<a class="here" href="#">link to this step</a>
</div>
<p class="hint dim" hidden="">Use the arrow keys to step{open}, f to show it large; drag the graph to move it.</p>
"""


_PLAY = """<fieldset class="play" hidden=""><legend>other values of the inputs, computed here to at most 6 digits</legend>
<div class="inputs"></div><button type="button" class="reset">back to the point of the report</button>
<span class="now" role="status"></span> <span class="crossed" role="status"></span></fieldset>
"""


def walk_section(walk: Walk, down: bool) -> str:
    """Return the section of a page that shows a computation: forward, backward, and what a wrong claim makes of it."""
    trace: TraceReport = walk.trace
    each = levels_of(trace)
    drawings = [draw_graph(trace, level, number=k, down=down) for k, level in enumerate(each)]
    levels: list[dict[str, Any]] = []
    for level, drawing in zip(each, drawings, strict=True):
        boxes = _Data(trace, drawing)
        departs = boxes.boxes.get(trace.departs) if isinstance(trace.departs, str) else None
        nodes = [boxes.of(k) for k in range(len(drawing.boxes))]
        levels.append({"nodes": nodes, "title": level.title, "above": level.above, "departs": departs})
    data = {"levels": levels, "result": trace.loss(), "begins": walk.begins, "program": _program_data(trace)}
    # JSON that cannot end its script element
    written = make_visible(json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False))
    written = written.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    says = f"Above each box is its value (blue), below it its adjoint (green), the derivative of {trace.loss()} by it. "
    says += "A number on an edge is the local derivative: of the box that it leads to, by the one that it comes from."
    if any(np.ndim(node.value) for node in trace.nodes):
        says += " Of an array: its shape, and its norm between ‖ and ‖."
    drawing, *inner = drawings
    graphs = drawing.svg + "".join(one.svg.replace("<svg", '<svg hidden=""', 1) for one in inner)
    keys = ", o to open a dashed box, Escape to close it" * bool(inner)
    return "\n".join((
        '<section class="walk" aria-label="steps of the computation">',
        _CONTROLS.replace("{open}", keys) + _drawing_sentences(trace, drawing) + '<p class="said" role="status"></p>',
        '<nav class="path" aria-label="opened boxes" hidden=""></nav>' * bool(inner),
        f'<div class="stage wide" tabindex="0" role="region" aria-label="graph">{graphs}</div>',
        _PLAY * (data["program"] is not None) + f'<p class="dim">{escape_markup(says)}</p>',
        '<div class="beside">', _code_list(trace),
        '<div class="step" tabindex="0" role="group" aria-label="this step" hidden=""></div>', "</div>",
        '<details class="all" open=""><summary>all values as a table</summary>'
        f"{write_elements((_table_of_boxes(drawing, trace),))}</details>",
        f'<script type="application/json">{written}</script>',
        "</section>",
    ))  # fmt: skip


def _drawing_sentences(trace: TraceReport, drawing: Drawing) -> str:
    """Return sentences on what is drawn, and on where a claim goes wrong."""
    found = []
    if len(drawing.boxes) < len(trace.nodes):
        counts = f"{len(trace.nodes):,} values, drawn as {len(drawing.boxes):,} boxes"
        found.append(f"The whole computation has {counts}; a dashed box holds several, and shows the last of them.")
    if any(not isinstance(node.claimed, Absent) for node in trace.nodes):
        found.append("Red: where the claim has another adjoint.")
    found += [trace.departure()] if trace.departure() else []
    if isinstance(trace.mistake, SourceLine):
        at = trace.mistake
        where = "in the derivative of this line" if _is_recorded_line(trace, at) else "here"
        found.append(f"The mistake is {where}: {at.file}:{at.line}    {at.source}".rstrip())
    return f"<p>{escape_markup(' '.join(found))}</p>\n" if found else ""


def _is_recorded_line(trace: TraceReport, at: SourceLine) -> bool:
    """Whether a line of code is one of the computation, not of the claim."""
    return any((node.file, node.line) == (at.file, at.line) for node in trace.nodes)


def _program_data(trace: TraceReport) -> dict[str, Any] | None:
    """Return what a page needs to compute a program again; None where it cannot."""
    program = trace.program
    if program is None or len(trace.nodes) > MOST or not write_function(program):
        return None
    operands = [[x if isinstance(x, int) else -1 for x in line.operands] for line in program.lines]
    result = next((k for k, node in enumerate(trace.nodes) if node.name == trace.result), 0)
    found = {"steps": program.steps, "operands": operands, "answers": program.answers, "places": program.places}
    claims = claims_by_input(trace)
    results = [claim.result if claim and write_function(claim) else None for claim in claims]
    return found | {"result": result, "claims": results}


class _Data:
    """What the script of a page shows of each box. `boxes` has the number of the box for the name of each node."""

    def __init__(self, trace: TraceReport, drawing: Drawing) -> None:
        self._trace, self._drawing = trace, drawing
        members = ((k, i) for k, box in enumerate(drawing.boxes) for i in range(box.group.first, box.group.last + 1))
        self.boxes = {trace.nodes[i].name: k for k, i in members}
        self._lines = {(s.file, s.line): k for k, s in enumerate(trace.source)}
        self._nodes = {node.name: node for node in trace.nodes}

    def of(self, k: int) -> dict[str, Any]:
        """Return the data of one box, without what is empty; the script says what the short names are."""
        box = self._drawing.boxes[k]
        node, several = self._trace.nodes[box.group.last], box.group.count > 1
        uses, proved, partials, product = node.contributions, node.proved, list[list[str]](), list[Any]()
        if not several:
            numbered = ((n, p) for n, p in node.partials.items() if not isinstance(p, str) and not np.ndim(p))
            partials = [[name, numbers.few_digits(p, 8)] for name, p in numbered]
            if node.operation == "matmul" and len(node.inputs) == 2:
                a, b = node.inputs
                a = f"{a}ᵀ" if np.ndim(self._value_by_name(a)) == 1 else a
                product = self._matrix_product((a, b), node.value)
        found = {
            "o": "" if node.operation == "input" else _operation_text(node), "i": int(node.operation == "input"),
            "u": 0 if isinstance(node.column, Absent) else node.column,
            "c": "" if isinstance(node.claimed, Absent) else _value_in_full(node.claimed), "m": box.name if several else "",
            "t": [self._contribution_data(use) for use in uses[:_MOST_TERMS]], "more": max(0, len(uses) - _MOST_TERMS),
            "p": partials, "in": box.group.level or 0,
            "d": [proved.value, proved.adjoint, proved.value_digits, proved.adjoint_digits] if proved else [],
            "s": _maps_of_node(node), "x": product,
        }  # fmt: skip
        always: dict[str, Any] = {"n": node.name, "v": _value_in_full(node.value), "a": _value_in_full(node.adjoint)}
        if node.line is not None:  # the number of its line among the lines of code that are shown
            in_file = None if isinstance(node.file, Absent) else self._lines.get((node.file, node.line))
            line = node.line - 1 if self._trace.target.kind == "expression" else in_file
            always |= {} if line is None else {"l": line}
        return always | {name: x for name, x in found.items() if x}

    def _contribution_data(self, use: Contribution) -> list[Any]:
        """Return what one use adds to an adjoint.

        The number of the box that uses it, null where it is not drawn; the name of the using node, empty if the box has the
        same; the product; the rule; and either its adjoint and the partial as numbers, or the formula and, if it is one, the
        product of small matrices.
        """
        k = self.boxes.get(use.from_)
        same = k is not None and self._trace.nodes[self._drawing.boxes[k].group.last].name == use.from_
        product = brief_value(use.product) if np.ndim(use.product) else numbers.few_digits(use.product, 8)
        head = [k, "" if same else use.from_, product, "" if isinstance(use.rule, Absent) else use.rule]
        if use.of_numbers:
            return [*head, numbers.few_digits(use.adjoint, 6), numbers.few_digits(use.partial, 6)]
        user = self._nodes.get(use.from_)
        matrices: list[Any] = []
        if user is not None and user.operation == "matmul" and isinstance(use.formula, str):  # such as `(dL/dy) Bᵀ`
            matrices = self._matrix_product(use.formula.split(" "), use.product)
        return [*head, _formula_of_use(use), *([matrices] if matrices else [])]

    def _value_by_name(self, name: str) -> Any:
        """Return the value of a node or of an input, or the adjoint `(dL/dy)`; None where there is none of this name."""
        if name.startswith("(dL/d"):
            return self._nodes[name[len("(dL/d") : -1]].adjoint
        return self._nodes[name].value if name in self._nodes else self._trace.at.get(name)

    def _matrix_product(self, factors: Sequence[str], y: Values) -> list[Any]:
        """Return two small matrices with their names, their product, and how many indices an entry of it has.

        Nothing where `y` is not their product. A vector is a column, and with ᵀ a row.
        """
        written: list[Any] = []
        matrices = []
        for name in factors:
            x = self._value_by_name(name.removesuffix("ᵀ"))
            if not isinstance(x, np.ndarray) or not is_small(x):
                return []
            x = x if x.ndim == 2 else x[:, None]
            matrices.append(np.asarray(x.T if name.endswith("ᵀ") else x, dtype=float))
            written += [name, numbers.list_entries(matrices[-1])]
        if len(matrices) != 2 or matrices[0].shape[1] != matrices[1].shape[0]:
            return []
        with np.errstate(all="ignore"):
            found = matrices[0] @ matrices[1]
        if found.size != np.size(y) or not np.allclose(found, np.reshape(y, found.shape), equal_nan=True):
            return []
        return [*written, numbers.list_entries(np.reshape(y, found.shape)), np.ndim(y)]


def _formula_of_use(use: Contribution) -> str:
    return f"(dL/d{use.from_})" if isinstance(use.formula, Absent) else use.formula


def _operation_text(node: Node) -> str:
    if not isinstance(node.text, str):
        return node.operation
    return node.text if len(node.text) <= _OPERATION else shorten_text(node.text, _OPERATION)


def _value_in_full(x: Values) -> str:
    """Return a value in full where it is a number; an array by its entries, or its shape, norm and largest entries."""
    array = np.asarray(x, dtype=float)
    if array.ndim == 0:
        return numbers.all_digits(array)
    if array.size <= _LISTED or is_small(array):
        return numbers.list_entries(array)
    places = largest_entries(array, _WORST)
    largest = ", ".join(f"[{','.join(map(str, at))}] {numbers.few_digits(array[at], 6)}" for at in places)
    return f"{write_shape(array.shape)}, norm {numbers.few_digits(norm(array), 6)}, largest {largest}"


def _maps_of_node(node: Node) -> list[Any]:
    """Return maps of the value, the adjoint and, with the same scale, the claimed adjoint of an array that is not small."""
    if np.size(node.value) <= _LISTED or is_small(node.value):
        return []
    value = as_matrix(node.value)
    backward = [as_matrix(x) for x in (node.adjoint, node.claimed) if not isinstance(x, Absent)]
    return [_map_data(value, Scale.over(value)), *(_map_data(x, Scale.over(*backward)) for x in backward)]


def _map_data(matrix: np.ndarray, scale: Scale) -> list[Any]:
    """Return a map: its rows, its columns, the letter of the colour of each cell, the values of both ends, and all colours.

    A cell of a large array is the entry of largest size of several.
    """
    letters = "".join(scale.letters(coarsen_matrix(matrix, _CELLS, np.abs)[0]).reshape(-1))
    return [*matrix.shape, letters, numbers.few_digits(scale.low, 3), numbers.few_digits(scale.high, 3), scale.colors]


def _code_list(trace: TraceReport) -> str:
    """Return the lines of code, or the expression, as a list."""
    lines: list[tuple[str, int | None, str]] = [(s.file, s.line, s.source) for s in trace.source]
    if not lines and trace.target.kind == "expression":
        lines = [("", None, line) for line in trace.target.text.split("\n")]
    if not lines:
        return ""
    mistake, look = None, ""
    if isinstance(trace.mistake, SourceLine):
        mistake = (trace.mistake.file, trace.mistake.line)
        look = f' class="{"slip" if _is_recorded_line(trace, trace.mistake) else "wrong"}"'
    found, before = [], ("", 0)
    for file, number, source in lines:
        if file != before[0]:
            found.append(f'<li class="file">{escape_markup(file)}</li>')
        elif number is not None and number > before[1] + 1:
            found.append('<li class="file dim">…</li>')
        marked = look if (file, number) == mistake else ""
        found.append(f"<li{marked}><i>{number or ''}</i><code>{escape_markup(source) or ' '}</code></li>")
        before = file, number or 0
    return f'<ol class="code" tabindex="0" aria-label="lines of code">{"".join(found)}</ol>'


def _table_of_boxes(drawing: Drawing, trace: TraceReport) -> Table:
    """Return all boxes as a table, the inputs first: what a page without a script shows."""
    claims = any(box.claimed for box in drawing.boxes)
    rows: list[tuple[Cell, ...]] = []
    for box in drawing.boxes:
        node = trace.nodes[box.group.last]
        name = box.name if box.group.count > 1 else node.name
        operation = "" if node.operation == "input" else " ".join(_operation_text(node).split())[:_CODE]
        claimed = (Piece(box.claimed, "bad") if box.claimed else "",) * claims
        uses = []  # of which the adjoint is the sum
        for use in node.contributions[:_MOST_TERMS]:
            numbered = use.of_numbers and f"{numbers.few_digits(use.adjoint, 5)}*{numbers.few_digits(use.partial, 5)}"
            uses.append(numbered or _formula_of_use(use))
        uses += ["..."] * (len(node.contributions) > _MOST_TERMS)
        rows.append((name, operation, box.value, box.adjoint, *claimed, " + ".join(uses)))
    return Table(("node", "operation", "value", "adjoint", *("claimed",) * claims, "sum"), tuple(rows))


def _write_block(block: Block | Figure, page: Page) -> str:
    if isinstance(block, Walk):
        return walk_section(block, page.down)
    if isinstance(block, Folded):
        opened = ' open=""' if block.opened else ""
        title, inside = escape_markup(block.title), write_elements(block.blocks, width=page.width)
        return f"<details{opened}><summary><h2>{title}</h2></summary>\n{inside}\n</details>"
    if isinstance(block, Headline):
        return f'<div class="banner {block.tone}">{write_elements((block,))}</div>'
    if isinstance(block, Chart):
        return _chart_with_switches(block)
    if isinstance(block, Bars):
        title = f"{block.title}, in {block.unit}{', on a logarithmic scale' * block.log}"
        return _write_figure(title, "", chart.draw_bars(block))
    if isinstance(block, HeatMap):
        return _write_figure(block.title, "map", chart.draw_heat_map(block))
    return write_elements((block,), width=page.width)


def _write_figure(title: str, look: str, drawn: str) -> str:
    """Return a picture with its title; nothing where nothing is drawn."""
    head = f'<figure class="picture {look}">\n<figcaption>{escape_markup(title)}</figcaption>\n'
    return f"{head}{drawn}\n</figure>" if drawn else ""


def _chart_with_switches(block: Chart) -> str:
    """Return a chart with a switch for each name and, where there are several, each style; the style sheet makes them work."""
    drawn = chart.draw_chart(block)
    if not drawn:
        return ""
    switches = ""
    for kind, k, sample, name in chart.Looks.of(block).samples(block):
        known = k < (chart.SWITCHED_NAMES if kind == "n" else chart.SWITCHED_STYLES)
        switch = f'<input type="checkbox" class="x{kind}{k}" checked=""/>' if known else ""
        switches += f"<label>{switch}{sample} {escape_markup(name)}</label>"
    legend = f"<fieldset><legend>curves</legend>{switches}</fieldset>"
    scrolled = f'<div class="wide" tabindex="0" role="region" aria-label="chart">{drawn}</div>'
    return _write_figure(block.title, "lines", legend + scrolled)


# The script with which a page computes a program of numbers again, at other values of its inputs.

# What an operation computes from its operands a, b and its parameters, in the notation of the rules of its partials.
VALUES = {
    "absolute": "abs(a)", "add": "a + b", "arccos": "arccos(a)", "arccosh": "arccosh(a)", "arcsin": "arcsin(a)",
    "arcsinh": "arcsinh(a)", "arctan": "arctan(a)", "arctan2": "arctan2(a, b)", "arctanh": "arctanh(a)", "cbrt": "cbrt(a)",
    "cos": "cos(a)", "cosh": "cosh(a)", "divide": "a/b", "exp": "exp(a)", "exp2": "2**a", "expit": "expit(a)",
    "expm1": "expm1(a)", "hypot": "hypot(a, b)", "integer_power": "a**n", "log": "log(a)", "log10": "log10(a)",
    "log1p": "log1p(a)", "log2": "log2(a)", "log_expit": "-(max(-a, 0) + log1p(exp(-abs(a))))",
    "logaddexp": "max(a, b) + log1p(exp(-abs(a - b)))", "maximum": "max(a, b)", "minimum": "min(a, b)", "multiply": "a*b",
    "negative": "-a", "positive": "a", "power": "a**b", "real": "a", "reciprocal": "1/a", "relu": "max(a, 0)", "sin": "sin(a)",
    "sinh": "sinh(a)", "sqrt": "sqrt(a)", "square": "a*a", "subtract": "a - b", "tan": "tan(a)", "tanh": "tanh(a)",
}  # fmt: skip
_DECISIONS = {
    "greater": "a > b", "greater_equal": "a >= b", "less": "a < b", "less_equal": "a <= b", "equal": "a == b",
    "not_equal": "a != b", "floor": "floor(a)", "ceil": "ceil(a)", "trunc": "trunc(a)", "sign": "sign(a)",
}  # fmt: skip
_FUNCTIONS = {
    "arccos": "Math.acos", "arccosh": "Math.acosh", "arcsin": "Math.asin", "arcsinh": "Math.asinh", "arctan": "Math.atan",
    "arctan2": "Math.atan2", "arctanh": "Math.atanh", "where": "choose", "heaviside": "heaviside",
    "square": "square", "expit": "expit",
    **{name: f"Math.{name}" for name in (
        "abs", "cbrt", "ceil", "cos", "cosh", "exp", "expm1", "floor", "hypot", "log", "log10", "log1p", "log2", "max", "min",
        "sign", "sin", "sinh", "sqrt", "tan", "tanh", "trunc",
    )},
}  # fmt: skip
_HELPERS = """const choose = (is, a, b) => (is ? a : b);
const heaviside = (a, b) => (a < 0 ? 0 : a > 0 ? 1 : b);
const square = (a) => a * a;
const expit = (a) => 1 / (1 + Math.exp(-a));
"""
_SIGNS = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Gt: ">", ast.GtE: ">=", ast.Lt: "<", ast.LtE: "<=",
    ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip


def write_script(walks: Sequence[TraceReport]) -> str:
    """Return the script of the programs of a page; an empty text where it has none that a browser can compute.

    It defines RECOMPUTE, for each walk the function of its program and those of the claims by each input: of the values x of
    the inputs, and of a function r that rounds, each returns the values v of all lines, the partials p of each line by its
    operands, and the answers d of all decisions. It has null where an operation has no counterpart in a browser.
    """
    functions = [[write_function(walk.program), *map(write_function, claims_by_input(walk))] for walk in walks]
    written = ", ".join(f"[{', '.join(one or 'null' for one in of_walk)}]" for of_walk in functions)
    return f"{_HELPERS}const RECOMPUTE = [{written}];\n" if any(of_walk[0] for of_walk in functions) else ""


def claims_by_input(walk: TraceReport) -> list[ScalarProgram | None]:
    """Return the claim by each input that is a program, in the order of the inputs."""
    return [walk.claims.get(node.name) for node in walk.nodes if node.operation == "input"]


def write_function(program: ScalarProgram | None) -> str:
    """Return the function of one program; an empty text where a browser cannot compute it."""
    if program is None:
        return ""
    lines, partials = [], []
    try:
        for k, line in enumerate(program.lines):
            if line.operation != "input":
                lines.append(f"  v[{k}] = r({_write_javascript(VALUES[line.operation], line, k)});")
            partials.append(f"[{', '.join(_write_javascript(partial, line, k) for partial in line.partials)}]")
        decisions = [_write_javascript(_DECISIONS[line.operation], line, -1) for line in program.decisions]
    except (KeyError, ValueError):
        return ""
    body = "\n".join(lines)
    answer = f"  return {{ v, p: [{', '.join(partials)}], d: [{', '.join(decisions)}].map(Number) }};"
    return f"(x, r) => {{\n  const v = [...x];\n{body}\n{answer}\n}}"


def _write_javascript(formula: str, line: ScalarLine, k: int) -> str:
    """Return a formula in a, b, ..., the parameters and the result y of a line as JavaScript."""
    names = {"y": f"v[{k}]"} | {name: _write_number(x) for name, x in line.params}
    names |= {
        letter: f"v[{x}]" if isinstance(x, int) else _write_number(x)
        for letter, x in zip("abcd", line.operands, strict=False)
    }

    def of(node: ast.expr) -> str:
        match node:
            case ast.BinOp(op=ast.Pow()):
                return f"Math.pow({of(node.left)}, {of(node.right)})"
            case ast.BinOp() if type(node.op) in _SIGNS:
                return f"({of(node.left)} {_SIGNS[type(node.op)]} {of(node.right)})"
            case ast.UnaryOp(op=ast.USub()):
                return f"(-{of(node.operand)})"
            case ast.Compare():  # rules write one after another without brackets
                found = of(node.left)
                for sign, right in zip(node.ops, node.comparators, strict=True):
                    found = f"({found} {_SIGNS[type(sign)]} {of(right)})"
                return found
            case ast.Call(func=ast.Name(id=name), keywords=[]) if name in _FUNCTIONS:
                return f"{_FUNCTIONS[name]}({', '.join(map(of, node.args))})"
            case ast.Name(id=name) if name in names:
                return names[name]
            case ast.Constant(value=int() | float() as value):
                return _write_number(float(value))
        raise ValueError(f"a browser cannot compute {ast.unparse(node)}")

    return of(ast.parse(formula, mode="eval").body)


def _write_number(x: float) -> str:
    """Return a number in JavaScript."""
    if x != x:
        return "NaN"
    if abs(x) == float("inf"):
        return "Infinity" if x > 0 else "(-Infinity)"
    return f"({x!r})" if x < 0 else repr(x)
