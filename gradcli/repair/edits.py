"""The edits of one place in a claim's source, from the likeliest: an operator, a sign, a factor, a name, an axis, a term."""

import ast
import itertools
import re
from collections.abc import Callable, Iterator
from functools import partial, reduce
from typing import Any

import numpy as np

from gradcli.repair.scope import (
    ATOM,
    BINDING,
    SIGN,
    UNKNOWN,
    CandidateTerm,
    Code,
    Edit,
    EditPlace,
    Gradient,
    New,
    Right,
    binding_strength,
    bracket_operand,
    can_broadcast_into,
    is_complex,
    is_index,
    is_mask,
    is_number,
    shape_of,
    write_operation,
)

# Edits of arithmetic: a number, an operator, brackets, a sign, a power, a factor, a term.


def constant_edits(place: EditPlace) -> Iterator[New]:
    """Change a number: by one, twice, half, its inverse."""
    node = place.node
    if not isinstance(node, ast.Constant) or not isinstance(node.value, int | float) or isinstance(node.value, bool):
        return
    x = node.value
    parent = place.parent
    right_of = type(parent.op) if isinstance(parent, ast.BinOp) and node is parent.right else None
    kind = "constant"
    if place.in_index:
        kind = "index"
    elif isinstance(parent, ast.keyword):
        kind = "axis"
    elif right_of is ast.Pow or (
        isinstance(parent, ast.UnaryOp) and place.text.text[: place.text.span(parent)[0]].rstrip(" (").endswith("**")
    ):
        kind = "exponent"
    for cost, new in ((1.0, x + 1), (1.0, x - 1), (1.3, x * 2), (1.3, x / 2), (1.6, x * x), (1.8, x * 4), (1.8, x / 4)):
        of_product = isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Mult)
        idle = new == 0 or (new == 1 and (of_product or right_of in (ast.Div, ast.Pow)))
        if isinstance(parent, ast.BinOp) and idle:
            continue  # such an operation is better left out: + 0, * 1, / 1, ** 1
        whole = isinstance(x, int) and float(new).is_integer()
        yield kind, cost, repr(int(new) if whole else new), ATOM if new >= 0 else SIGN
    if x and not place.in_index:
        yield kind, 1.7, *write_operation(ast.Div, ("1", ATOM), place.code)


_TWIN_OPERATORS: dict[type[ast.AST], tuple[tuple[type[ast.AST], float], ...]] = {
    ast.Add: ((ast.Sub, 1.0), (ast.Mult, 2.0)), ast.Sub: ((ast.Add, 1.0), (ast.Mult, 2.5)),
    ast.Mult: ((ast.Div, 1.2), (ast.MatMult, 1.5), (ast.Add, 2.0), (ast.Sub, 2.2)),
    ast.Div: ((ast.Mult, 1.2),), ast.MatMult: ((ast.Mult, 1.5),), ast.Pow: ((ast.Mult, 1.6),),
}  # fmt: skip


def operator_edits(place: EditPlace) -> Iterator[New]:
    """Change an operator, exchange its operands, or leave one out."""
    node, text = place.node, place.text
    if not isinstance(node, ast.BinOp):
        return
    own, left, right = type(node.op), text.code(node.left), text.code(node.right)
    for other, cost in _TWIN_OPERATORS.get(own, ()):
        kind = "sign" if {own, other} == {ast.Add, ast.Sub} else "operator"
        yield kind, cost, *write_operation(other, left, right)
    if own in (ast.Sub, ast.Div, ast.MatMult, ast.Pow):
        yield "order", 1.2, *write_operation(own, right, left)
    kind = "term" if own in (ast.Add, ast.Sub) else "factor"
    costs = [1.0 if kind == "factor" and isinstance(side, ast.Constant) else 1.5 for side in (node.left, node.right)]
    yield kind, 1.3 if place.in_index else costs[1], *left
    if own is ast.Sub:
        yield kind, 1.8, f"-{bracket_operand(*right, ast.Mult)}", SIGN
    elif own is ast.Div:
        yield kind, 1.8, *write_operation(own, ("1", ATOM), right)
    yield kind, costs[0], *right


def grouping_edits(place: EditPlace) -> Iterator[New]:
    """Move a product into or out of a sum: a - b*c and (a - b)*c, a/b*c and a/(b*c)."""
    node, text = place.node, place.text
    if not isinstance(node, ast.BinOp):
        return
    own, left, right = type(node.op), text.code(node.left), text.code(node.right)
    products, sums = (ast.Mult, ast.Div, ast.MatMult), (ast.Add, ast.Sub)
    inside: dict[str, tuple[type[ast.AST], ...]] = {}  # the operations on each side that are moved
    if own in sums:
        inside = {"right": products, "left": (ast.Mult, ast.MatMult)}
    elif own in products:
        inside = {"left": sums, "right": sums if own is not ast.Div else ()}
    for side, operators in inside.items():
        operand = getattr(node, side)
        if not isinstance(operand, ast.BinOp) or type(operand.op) not in operators:
            continue
        op, first, last = type(operand.op), text.code(operand.left), text.code(operand.right)
        if side == "right":
            yield "grouping", 1.4, *write_operation(op, write_operation(own, left, first), last)
        else:
            yield "grouping", 1.4, *write_operation(op, first, write_operation(own, last, right))
    if isinstance(node.left, ast.BinOp) and isinstance(node.left.op, ast.Div) and own is ast.Mult:
        below = write_operation(own, text.code(node.left.right), right)
        yield "grouping", 1.4, *write_operation(ast.Div, text.code(node.left.left), below)


def sign_edits(place: EditPlace) -> Iterator[New]:
    """Change the sign of a factor or term, or leave it out."""
    node = place.node
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        counts = isinstance(place.parent, ast.keyword | ast.Call) and isinstance(node.operand, ast.Constant)
        cost = 1.2 if counts else 1.0  # an axis from the end
        yield "sign", cost, *place.text.code(node.operand)
    elif place.carries_numbers and not place.is_factor:
        yield "sign", 1.2, f"-{bracket_operand(*place.code, ast.Mult)}", SIGN


def power_edits(place: EditPlace) -> Iterator[New]:
    """Square an expression, or leave out its power."""
    node = place.node
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        yield "exponent", 1.2, *place.text.code(node.left)
    elif place.carries_numbers and not isinstance(node, ast.Constant):
        for cost, power in ((1.6, "2"), (2.5, "3"), (2.8, "-1")):
            yield "exponent", cost, f"{bracket_operand(*place.code, ast.Pow)}**{power}", BINDING[ast.Pow]


_NUMBERS = (("2", 1.4), ("0.5", 1.4), ("3", 1.9), ("4", 1.9))


def factor_edits(place: EditPlace) -> Iterator[New]:
    """Multiply or divide by a number, a name or a size, or by what a derivative often lacks: 1 - t, 1 - t**2."""
    # an array of which a method takes a sum, a mean and the like: `d` in `d.mean(axis=0)`
    reduces = isinstance(place.parent, ast.Attribute) and place.parent.attr in _REDUCTIONS
    is_reduced = reduces and is_number(place.value) and shape_of(place.value) != ()
    if not (place.carries_numbers or is_reduced) or place.is_factor or isinstance(place.node, ast.Constant):
        return
    product = bracket_operand(*place.code, ast.Mult)
    for number, cost in _NUMBERS:
        yield "factor", cost, f"{number} * {product}", BINDING[ast.Mult]
    plain = [(term, 1.3 if term.unread else 1.9) for term in place.scope.names]
    plain += [(term, 1.3) for term in place.scope.object_arrays]
    plain += [(term, 2.1) for term in place.scope.sizes]
    plain += [(term, 1.2 if term.unread and not shape_of(term.value) else 2.4) for term in place.scope.terms]
    for term, cost in plain:
        if isinstance(term.value, int | float | np.number) and float(term.value) in (0.0, 1.0):
            continue
        # or one that is wider, of an array that nothing reads, such as the cotangent
        if can_broadcast_into(term.value, place.value) or (term.unread and can_broadcast_into(place.value, term.value)):
            by = bracket_operand(*term.code, ast.Mult, right=True)
            first = not shape_of(term.value) and term.bound == ATOM
            yield "factor", cost, f"{by} * {product}" if first else f"{product} * {by}", BINDING[ast.Mult]
            division = min(cost + 0.1, 1.5) if term.text in place.scope.divisors else cost + 0.1
            yield "factor", division, *write_operation(ast.Div, place.code, term.code)
    of_f = [term for term in place.scope.terms if term.unread and shape_of(term.value)]
    terms = [(term, 0.0) for term in place.scope.names] + [(term, 0.3) for term in (*place.scope.object_arrays, *of_f)]
    for term, dearer in terms:
        if can_broadcast_into(term.value, place.value) and not is_index(term.value) and not is_mask(term.value):
            t = bracket_operand(*term.code, ast.Mult, right=True)
            usual = (
                (1.9, f"(1 - {t})"), (1.9, f"(1 - {t}**2)"), (2.2, f"({t} > 0)"), (2.3, f"{t} * (1 - {t})"), (2.4, f"{t}**2"),
                (2.4, f"2 * {t}"),
            )  # fmt: skip
            for cost, by in usual:
                yield "factor", cost + dearer, f"{product} * {by}", BINDING[ast.Mult]
            yield "factor", 2.4 + dearer, f"{product} / {t}**2", BINDING[ast.Div]
            for name in ("exp", "cos", "sin", "sign", "sqrt"):
                yield "factor", 2.6 + dearer, f"{product} * {place.scope.prefix}{name}({t})", BINDING[ast.Mult]


def term_edits(place: EditPlace) -> Iterator[New]:
    """Add or subtract 1, a name, or an expression of the code."""
    if not (place.carries_numbers or place.in_index) or place.is_term or isinstance(place.node, ast.Constant):
        return
    one = ("1", ATOM)
    if not place.in_index:
        yield "term", 1.8, f"1 + {bracket_operand(*place.code, ast.Add)}", BINDING[ast.Add]
        yield "term", 1.8, *write_operation(ast.Sub, one, place.code)
        yield "term", 1.9, *write_operation(ast.Sub, place.code, one)
    found: list[tuple[CandidateTerm, float]] = [(term, 1.4 if term.unread else 2.2) for term in place.scope.names]
    found += [(term, 2.1 if term.unread else 2.5) for term in place.scope.terms]
    whole = isinstance(place.parent, ast.stmt | ast.Tuple | ast.List | ast.Dict | ast.Expression | ast.Subscript)
    for term, cost in found:
        cost += 0.0 if whole else 0.15
        if can_broadcast_into(term.value, place.value) and not (is_index(place.value) and not is_index(term.value)):
            added = bracket_operand(*term.code, ast.Add)
            yield "term", cost, f"{bracket_operand(*place.code, ast.Add)} + {added}", BINDING[ast.Add]
            yield "term", cost, *write_operation(ast.Sub, place.code, term.code)


# Edits of names and calls: another name or function, an axis, a sum, a transpose, an index, an order.


def name_edits(place: EditPlace) -> Iterator[New]:
    """Take another name or attribute of the same shape."""
    node, own = place.node, place.value
    if isinstance(node, ast.Name) and not place.stored and not place.is_function and is_number(own):
        kept = place.scope.given if place.is_written_into else ()  # no gradient is written into what is given
        for term in place.scope.names:
            same = is_index(term.value) == is_index(own) and shape_of(term.value) == shape_of(own)
            if same and term.text != node.id and term.text not in kept:
                yield "name", 1.2 if term.unread else 1.3 if are_alike(term.text, node.id) else 1.8, term.text, ATOM
        if is_index(own) and not place.is_term:
            if isinstance(place.parent, ast.Call) and len(place.parent.args) > 1:
                yield "index", 1.4, "0", ATOM  # range(n) for range(k, n)
            for cost, new in ((1.4, f"{node.id} + 1"), (1.4, f"{node.id} - 1")):
                yield "index", cost, new, BINDING[ast.Add]
            others = [term for term in place.scope.names if is_index(term.value) and term.text != node.id]
            for term in others:
                yield "index", 1.8, f"{node.id} + {term.text}", BINDING[ast.Add]
            for term in (*others, *place.scope.sizes) if place.divides else ():
                yield "factor", 1.8, f"{node.id} * {term.text}", BINDING[ast.Mult]
    if isinstance(node, ast.Attribute) and not place.stored and not place.is_function and is_number(own):
        holder = place.scope.value(place.text.piece(node.value))
        for name, x in getattr(holder, "__dict__", {}).items():
            if name != node.attr and is_number(x) and shape_of(x) == shape_of(own):
                yield "name", 1.8, f"{place.text.piece(node.value)}.{name}", ATOM


def are_alike(one: str, other: str) -> bool:
    """Whether two names differ by an end or by their last letter, as K and Ky or x1 and x2: they are easily confused."""
    return one.startswith(other) or other.startswith(one) or (len(one) > 1 and one[:-1] == other[:-1])


CONFUSED_FUNCTIONS = (
    ("sin", "cos"), ("sinh", "cosh", "tanh"), ("exp", "expm1", "log", "log1p"), ("log", "log2", "log10"), ("sum", "mean"),
    ("max", "min", "mean"), ("argmax", "argmin"), ("maximum", "minimum"), ("amax", "amin"), ("zeros_like", "ones_like"),
    ("zeros", "ones"), ("tril", "triu"), ("sigmoid", "softplus", "tanh"), ("arcsin", "arccos", "arctan"), ("inv", "pinv"),
    ("sqrt", "square", "cbrt"), ("abs", "sign"), ("var", "std"), ("outer", "dot", "inner"), ("cumsum", "cumprod"),
    ("expit", "log_expit", "logit"), ("floor", "ceil"), ("real", "imag"), ("argsort", "sort"), ("norm", "sum"),
    ("pdf", "cdf", "sf"), ("logpdf", "logcdf", "logsf", "pdf", "cdf"), ("gamma", "gammaln", "digamma"),
    ("sin", "sinh"), ("cos", "cosh"), ("tan", "tanh"), ("arcsin", "arcsinh"), ("arccos", "arccosh"), ("arctan", "arctanh"),
)  # fmt: skip
_WRAPPERS = ("sqrt", "exp", "log", "cos", "sin", "tanh", "abs", "sign", "cosh", "sinh")


def function_edits(place: EditPlace) -> Iterator[New]:
    """Call another function of the same kind, or none."""
    node, text = place.node, place.text
    if place.is_function:
        start, _, last = place.piece.rpartition(".")
        for group in CONFUSED_FUNCTIONS:
            for other in group if last in group else ():
                yield "function", 1.0, f"{start}.{other}" if start else other, ATOM
        own = place.scope.value(place.piece)
        for name, other in place.scope.values.items():
            if callable(other) and callable(own) and other is not own and _arity(other) == _arity(own) is not None:
                yield "function", 1.2, name, ATOM
    elif isinstance(node, ast.Call) and node.args and not place.in_index:
        first = node.args[0]
        if place.value is UNKNOWN or shape_of(place.scope.value(text.piece(first))) == shape_of(place.value):
            yield "function", 1.7, *text.code(first)
    if place.carries_numbers and not isinstance(node, ast.Constant):
        for name in _WRAPPERS:
            yield "function", 2.6, f"{place.scope.prefix}{name}({place.piece})", ATOM
    elif is_index(place.value) and place.divides and not isinstance(node, ast.Constant):
        yield "function", 1.9, f"{place.scope.prefix}sqrt({place.piece})", ATOM


def _arity(function: Any) -> int | None:
    code = getattr(function, "__code__", None)
    return None if code is None else int(code.co_argcount)


_REDUCTIONS = frozenset((
    "sum", "mean", "prod", "max", "min", "var", "std", "norm", "softmax", "logsumexp", "cumsum", "diff", "argmax", "argmin",
    "any", "all", "flip", "roll",
))  # fmt: skip
AXES = ("axis", "dim")


def axis_edits(place: EditPlace) -> Iterator[New]:
    """Reduce along another axis, along all, keep the axis or not."""
    node, text = place.node, place.text
    if not isinstance(node, ast.Call):
        return
    whole, start = place.piece, text.span(node)[0]
    for keyword in node.keywords:
        first, last = text.span(keyword.value)
        before, after = whole[: first - start], whole[last - start :]
        if keyword.arg in AXES:
            for axis in ("0", "1", "-1", "None", "2"):
                yield "axis", 1.0, f"{before}{axis}{after}", ATOM
        elif keyword.arg == "keepdims" and isinstance(keyword.value, ast.Constant):
            yield "axis", 1.4, f"{before}{not keyword.value.value}{after}", ATOM
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if name in _REDUCTIONS and not any(keyword.arg in AXES for keyword in node.keywords):
        inner = whole[:-1].rstrip().rstrip(",")
        for axis in ("0", "1", "-1"):
            comma = "" if inner.endswith("(") else ", "
            yield "axis", 1.3, f"{inner}{comma}axis={axis})", ATOM
            yield "axis", 1.6, f"{inner}{comma}axis={axis}, keepdims=True)", ATOM


def sum_edits(place: EditPlace) -> Iterator[New]:
    """Sum or average an array, along an axis or wholly."""
    if not place.carries_numbers or not shape_of(place.value) or place.value is UNKNOWN:
        return
    count = len(shape_of(place.value))
    for axis in [*(f", axis={k}" for k in range(count) if count > 1), ""]:
        for name, cost in (("sum", 1.7), ("mean", 2.2)):
            yield "sum", cost, f"{place.scope.prefix}{name}({place.piece}{axis})", ATOM


def transpose_edits(place: EditPlace) -> Iterator[New]:
    """Transpose a matrix, or the matrices of a stack, or do not; of vectors, write the outer product that `u@v.T` is on paper."""
    node, dimensions = place.node, len(shape_of(place.value)) if place.carries_numbers else 0
    match node:
        case ast.BinOp(left, ast.MatMult(), ast.Attribute(right, "T")):
            vector = place.text.piece(right)
            if len(shape_of(place.scope.value(vector))) == 1:
                yield "outer", 1.0, f"{place.scope.prefix}outer({place.text.piece(left)}, {vector})", ATOM
    cost, whole = 1.1 if place.code[1] == ATOM else 1.2, bracket_operand(*place.code, ast.Pow)
    match node:
        case ast.Attribute(value, "T" | "mT") | ast.Call(ast.Attribute(value, "transpose" | "swapaxes")):
            yield "transpose", 1.0, *place.text.code(value)
        case _ if dimensions == 2 and not isinstance(node, ast.Constant):
            yield "transpose", cost, f"{whole}.T", ATOM
        case _ if dimensions > 2:
            order = f".transpose({', '.join(map(str, [*range(dimensions - 2), dimensions - 1, dimensions - 2]))})"
            yield "transpose", cost, whole + (order if order in place.text.text else ".swapaxes(-1, -2)"), ATOM


def conjugate_edits(place: EditPlace) -> Iterator[New]:
    """Take the conjugate of complex numbers, or do not."""
    node, text = place.node, place.text
    match node:
        case ast.Call(ast.Attribute(value, "conj" | "conjugate"), []):
            yield "conjugate", 1.0, *text.code(value)
        case ast.Call(ast.Attribute(_, "conj" | "conjugate"), [value]):
            yield "conjugate", 1.0, *text.code(value)
        case _ if is_complex(place.value) and not place.stored and not place.is_function and not _is_conjugated(place):
            alone = isinstance(node, ast.Name | ast.Attribute | ast.Subscript)
            new = f"{place.piece}.conj()" if alone else f"{place.scope.prefix}conj({place.piece})"
            yield "conjugate", 1.1 if alone else 1.2, new, ATOM


def _is_conjugated(place: EditPlace) -> bool:
    around = place.parent.func if isinstance(place.parent, ast.Call) else place.parent
    return isinstance(around, ast.Attribute) and around.attr in ("conj", "conjugate")


def subscript_edits(place: EditPlace) -> Iterator[New]:
    """Exchange letters of einsum's subscripts."""
    node = place.node
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or "->" not in node.value:
        return
    letters = [k for k, c in enumerate(node.value) if c.isalpha()]
    quote = place.piece[:1]
    for k, first in enumerate(letters):
        for second in letters[k + 1 :]:
            made = [*node.value]
            made[first], made[second] = made[second], made[first]
            yield "subscripts", 1.2, f"{quote}{''.join(made)}{quote}", ATOM


def index_edits(place: EditPlace) -> Iterator[New]:
    """Take the neighbouring slice, or the indices in another order."""
    node = place.node
    if isinstance(node, ast.Slice) and node.step is None:
        for cost, new in ((1.0, "1:"), (1.0, ":-1"), (1.5, "2:"), (1.5, ":-2"), (1.5, "1:-1"), (1.6, ":")):
            yield "index", cost, new, ATOM
    elif isinstance(node, ast.Tuple) and isinstance(place.parent, ast.Subscript):
        pieces = list(map(place.text.piece, node.elts))
        for k, m in itertools.combinations(range(len(pieces)), 2):
            exchanged = [*pieces[:k], pieces[m], *pieces[k + 1 : m], pieces[k], *pieces[m + 1 :]]
            yield "index", 1.2 + 0.1 * (m - k), ", ".join(exchanged), ATOM
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        twins = {ast.Lt: ("<=", ">"), ast.LtE: ("<", ">="), ast.Gt: (">=", "<"), ast.GtE: (">", "<=")}
        left, right = place.text.piece(node.left), place.text.piece(node.comparators[0])
        for sign in twins.get(type(node.ops[0]), ()):
            yield "comparison", 1.4, f"{left} {sign} {right}", 5


def exchange_edits(place: EditPlace) -> Iterator[New]:
    """Exchange two of the gradients that are returned together."""
    node, text = place.node, place.text
    if not isinstance(place.parent, ast.Return):
        return
    parts = node.elts if isinstance(node, ast.Tuple | ast.List) else node.values if isinstance(node, ast.Dict) else []
    start = text.span(node)[0]
    for k, first in enumerate(parts):
        for second in parts[k + 1 :]:
            (a, b), (c, d) = ((x - start for x in text.span(part)) for part in (first, second))
            new = place.piece[:a] + place.piece[c:d] + place.piece[b:c] + place.piece[a:b] + place.piece[d:]
            yield "order", 0.9, new, ATOM


def reversal_edits(place: EditPlace) -> Iterator[New]:
    """Accumulate from the other end, or reverse an array."""
    node, text = place.node, place.text
    name = node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else ""
    if isinstance(node, ast.Call) and name in ("cumsum", "cumprod") and node.args:
        first, last = (k - text.span(node)[0] for k in text.span(node.args[0]))
        inner = bracket_operand(*text.code(node.args[0]), ast.Pow)
        yield "order", 1.5, f"{place.piece[:first]}{inner}[::-1]{place.piece[last:]}[::-1]", ATOM
    elif place.carries_numbers and len(shape_of(place.value)) == 1 and not isinstance(node, ast.Constant):
        whole = bracket_operand(*place.code, ast.Pow)
        yield "order", 2.3, f"{whole}[::-1]", ATOM
        yield "sum", 2.3, f"{place.scope.prefix}cumsum({whole}[::-1])[::-1]", ATOM
        yield "sum", 2.3, f"{place.scope.prefix}cumsum({place.piece})", ATOM


def matrix_edits(place: EditPlace) -> Iterator[New]:
    """Symmetrise a matrix, multiply by another one, or take its inverse for the reciprocals of its entries."""
    shape = shape_of(place.value)
    match place.node:
        case ast.BinOp(ast.Constant(1), ast.Div(), matrix) if len(shape) == 2 and shape[0] == shape[1]:
            module = f"{place.scope.prefix}linalg." if place.scope.prefix else ""
            yield "inverse", 1.0, f"{module}inv({place.text.piece(matrix)})", ATOM
            yield "inverse", 1.2, f"{module}inv({place.text.piece(matrix)}).T", ATOM
    if not place.carries_numbers or len(shape) != 2 or isinstance(place.node, ast.Constant):
        return
    whole = bracket_operand(*place.code, ast.Pow)
    match place.node:
        case ast.BinOp(ast.Constant(2), ast.Mult(), matrix) if shape[0] == shape[1]:
            alone = place.text.code(matrix)
            yield "transpose", 1.2, f"({alone[0]} + {bracket_operand(*alone, ast.Pow)}.T)", ATOM
    if shape[0] == shape[1]:
        yield "transpose", 1.7, f"({place.piece} + {whole}.T)", ATOM
    for term in place.scope.names:
        other = shape_of(term.value)
        spelled = ((term.text, ATOM), (f"{term.text}.T", ATOM))
        for factor in spelled if other == (shape[0], shape[0]) else ():
            yield "factor", 2.2, *write_operation(ast.MatMult, factor, place.code)
        for factor in spelled if other == (shape[1], shape[1]) else ():
            yield "factor", 2.2, *write_operation(ast.MatMult, place.code, factor)


def mean_edits(place: EditPlace) -> Iterator[New]:
    """Take the mean of an array away from it, as the derivative of what has been centred does."""
    count = len(shape_of(place.value))
    if not count or not place.carries_numbers or isinstance(place.node, ast.Constant):
        return
    for over in (", axis=-1, keepdims=True", ", axis=0") if count > 1 else ("",):
        mean = f"{place.scope.prefix}mean({place.piece}{over})", ATOM
        yield "term", 2.3, *write_operation(ast.Sub, place.code, mean)


def softmax_edits(place: EditPlace) -> Iterator[New]:
    """Take the mean under probabilities p away from what they multiply, as the derivative of softmax does: p*(g - sum(p*g)).

    A factor 1 - p, which holds for the diagonal of that derivative alone, is left out.
    """
    shape, text = shape_of(place.value), place.text
    is_part_of_product = isinstance(place.parent, ast.BinOp) and isinstance(place.parent.op, ast.Mult)
    if not shape or not place.carries_numbers or is_part_of_product:
        return
    over = ", axis=-1, keepdims=True" if len(shape) > 1 else ""
    factors = list(_factors_of(place.node))
    for p in factors:
        one_less = ast.unparse(ast.BinOp(ast.Constant(1), ast.Sub(), p))
        others = [f for f in factors if f is not p and ast.unparse(f) != one_less]
        if not others or any(shape_of(place.scope.value(text.piece(f))) != shape for f in (p, *others)):
            continue
        g = reduce(partial(write_operation, ast.Mult), map(text.code, others))
        product, _ = write_operation(ast.Mult, text.code(p), g)
        mean = f"{place.scope.prefix}sum({product}{over})", ATOM
        yield "term", 2.0, *write_operation(ast.Mult, text.code(p), write_operation(ast.Sub, g, mean))


def _factors_of(node: ast.expr) -> Iterator[ast.expr]:
    """Yield the factors of a product, or an expression that is none."""
    match node:
        case ast.BinOp(left, ast.Mult(), right):
            yield from _factors_of(left)
            yield from _factors_of(right)
        case _:
            yield node


_ITEM = re.compile(r"\w+\[[^\[\]]+\]")  # such as V[i]


def whole_edits(place: EditPlace) -> Iterator[New]:
    """Take a name for an expression of its shape, or sum what one item was taken of."""
    node = place.node
    if isinstance(node, ast.Subscript) and not place.stored:
        one = isinstance(node.slice, ast.Constant) and type(node.slice.value) is int
        if is_number(place.value) and not shape_of(place.value):
            yield "sum", 2.0, f"{place.scope.prefix}sum({place.text.piece(node.value)})", ATOM
        for term in place.scope.terms if place.carries_numbers and not place.in_index else ():
            if _ITEM.fullmatch(term.text) and shape_of(term.value) == shape_of(place.value):
                yield "name", 1.7, term.text, ATOM
        if one and shape_of(place.value) and place.carries_numbers:
            yield "sum", 1.8, f"{place.scope.prefix}sum({place.text.piece(node.value)}, axis=0)", ATOM
    if isinstance(node, ast.BinOp | ast.Call | ast.Subscript) and place.carries_numbers and place.value is not UNKNOWN:
        for term in place.scope.names:
            if shape_of(term.value) == shape_of(place.value) and not is_index(term.value):
                yield "name", 1.6 if term.unread else 2.1, term.text, ATOM


_MAKERS: tuple[Callable[[EditPlace], Iterator[New]], ...] = (
    constant_edits, operator_edits, grouping_edits, sign_edits, power_edits, conjugate_edits, name_edits, function_edits,
    axis_edits, sum_edits, transpose_edits, subscript_edits, index_edits, factor_edits, term_edits, reversal_edits,
    matrix_edits, mean_edits, softmax_edits, whole_edits, exchange_edits,
)  # fmt: skip


def edits_of(place: EditPlace) -> Iterator[Edit]:
    """Yield the edits of one expression."""
    seen = {place.piece}
    for make in _MAKERS:
        for kind, cost, new, bound in make(place):
            if new not in seen:
                seen.add(new)
                yield place.edit(kind, cost, new, bound)


# What an output of a claim lacks: a term or a factor that is made of the names around it, found by its numbers.

_NEAR = 1e-9  # relative: how near a term is to what is lacking, before the repair is tried
_MOST = 60  # terms that are combined
_LOOKED_AT = 5  # entries of what is lacking, by which combinations are chosen
_SIMPLE_NUMBERS = ((1.0, ""), (2.0, "2"), (0.5, "0.5"), (3.0, "3"), (4.0, "4"), (0.25, "0.25"), (1.5, "1.5"))
_COMBINED = ((ast.Mult, np.multiply), (ast.Div, np.divide), (ast.Sub, np.subtract), (ast.Add, np.add))


def missing_part_edits(place: EditPlace, name: str, claimed: Gradient, right: Right) -> Iterator[Edit]:
    """Yield edits that add to an output of the claim what it lacks, or multiply it by that.

    Source  the difference and the ratio of the right gradient and the claim, compared with what two or three of the values
            that the code has at this place give, times a simple number.
    """
    wanted, own = np.asarray(right.gradient[name], dtype=float), np.asarray(claimed.get(name, np.nan), dtype=float)
    if own.shape != wanted.shape or not np.all(np.isfinite(own)):
        return
    with np.errstate(all="ignore"):
        ratio = wanted / own
        for term, factor in _find_combinations(place, wanted - own):
            if term.text != place.piece:  # else a factor is wrong: nobody writes g - 1.5 * g
                number, sign = dict(_SIMPLE_NUMBERS)[abs(factor)], "-" if factor < 0 else "+"
                operator = ast.Mult if number else ast.Sub if factor < 0 else ast.Add
                more = [number, bracket_operand(*term.code, operator, right=operator is ast.Sub)]
                new = f"{bracket_operand(*place.code, ast.Add)} {sign} {' * '.join(filter(None, more))}"
                yield place.edit("term", 2.5, new, BINDING[ast.Add])
        if np.all(np.isfinite(ratio)):
            for term, factor in _find_combinations(place, ratio):
                # the right gradient over the claim itself is no factor
                if place.piece not in term.text or place.piece.isidentifier():
                    first = bracket_operand(*place.code, ast.Mult)
                    first = first if factor > 0 else first[1:] if first.startswith("-") else f"-{first}"
                    regroups = any(sign in term.text for sign in ("@", "%", "//"))  # x * A @ b is not x * (A @ b)
                    more = [dict(_SIMPLE_NUMBERS)[abs(factor)], bracket_operand(*term.code, ast.Mult, right=regroups)]
                    divisor = _other_divisor(place, term) if factor == 1 else None
                    if divisor is not None:
                        yield place.edit("factor", 2.4, *divisor)
                    yield place.edit("factor", 2.5, " * ".join(filter(None, (first, *more))), BINDING[ast.Mult])


def _other_divisor(place: EditPlace, term: CandidateTerm) -> Code | None:
    """Return a quotient a/b times a term b/c as a/c; None for other factors."""
    match place.node, ast.parse(term.text, mode="eval").body:
        case ast.BinOp(above, ast.Div(), below), ast.BinOp(lost, ast.Div(), divisor):
            if np.array_equal(place.scope.value(place.text.piece(below)), place.scope.value(ast.unparse(lost))):
                below_it = ast.unparse(divisor), binding_strength(divisor)
                return write_operation(ast.Div, place.text.code(above), below_it)
    return None


def _find_combinations(place: EditPlace, wanted: Any) -> Iterator[tuple[CandidateTerm, float]]:
    """Yield combinations whose value, times a number of `_SIMPLE_NUMBERS`, is the wanted one at the entries looked at."""
    if not np.all(np.isfinite(wanted)) or not np.any(wanted):
        return
    entries = np.unique(np.argsort(-np.abs(wanted), axis=None)[np.linspace(0, wanted.size - 1, _LOOKED_AT).astype(int)])
    sample = wanted.reshape(-1)[entries]
    if not np.all(sample) or (wanted.size > 1 and len(sample) < 2):
        sample, entries = sample[sample != 0], entries[sample != 0]
    terms = list(_terms_of_shape(place, wanted.shape, entries))
    names = [term for term in terms if term.text.isidentifier()]
    pairs = list(_combine_pairs(terms, terms, _COMBINED))
    yield from _find_simple_multiples(terms, sample)
    yield from _find_simple_multiples(pairs, sample)
    of_names = list(_combine_pairs(names, names, _COMBINED))
    yield from _find_simple_multiples(list(_combine_pairs(of_names, names, _COMBINED[:2])), sample)


def _terms_of_shape(place: EditPlace, shape: tuple[int, ...], entries: Any) -> Iterator[CandidateTerm]:
    """Yield the values of this place that broadcast to a shape, at some entries."""
    found = 0
    for term in (*place.scope.names, *place.scope.sizes, *place.scope.terms):
        try:
            value = np.broadcast_to(np.asarray(term.value, dtype=float), shape).reshape(-1)[entries]
        except (TypeError, ValueError, RuntimeError):
            continue
        if np.all(np.isfinite(value)) and (shape_of(term.value) != () or np.any(value)):
            yield CandidateTerm(term.text, value, term.bound)
            found += 1
        if found == _MOST:
            return


def _combine_pairs(first: list[CandidateTerm], second: list[CandidateTerm], operations: Any) -> Iterator[CandidateTerm]:
    for a in first:
        for b in second:
            if a is b:
                continue
            for op, function in operations:
                if op in (ast.Mult, ast.Add) and a.text > b.text and a.bound == b.bound == ATOM:
                    continue
                text, bound = write_operation(op, a.code, b.code)
                yield CandidateTerm(text, function(a.value, b.value), bound)


def _find_simple_multiples(terms: list[CandidateTerm], sample: Any) -> Iterator[tuple[CandidateTerm, float]]:
    """Yield the terms whose values are a simple multiple of a sample."""
    if not terms:
        return
    ratios = sample / np.array([term.value for term in terms])
    factors = ratios[:, 0]
    same = np.all(np.abs(ratios - factors[:, None]) <= _NEAR * np.abs(factors)[:, None], axis=1)
    for k in np.flatnonzero(same):
        number = next((n for n, _ in _SIMPLE_NUMBERS if abs(abs(factors[k]) - n) <= _NEAR * n), None)
        if number is not None:
            yield terms[k], number if factors[k] > 0 else -number
