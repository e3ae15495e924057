"""Mistakes that change a whole gradient, or some of its entries; each row of the table is one mistake."""

import ast
import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from gradcli.arithmetic.tape import CONSTANT
from gradcli.checks.wrong import CLOSE, SMALL, BudgetSpent, Gradient, Wrong
from gradcli.classes import dataclass
from gradcli.modes.mode import Question
from gradcli.report.point_report import Diagnosis
from gradcli.request.point import Array
from gradcli.rules.kinds import ConstantSlope, Partial
from gradcli.rules.linalg import INV, LOGDET, MATMUL, SOLVE
from gradcli.rules.reductions import CUMSUM, LOGSUMEXP, MAX, SUM
from gradcli.targets.derived import original_function
from gradcli.targets.python import PythonFunction, signature_of
from gradcli.tracing.primitive import Params, Primitive, Rule, Transposer, Value, table_by_name
from gradcli.tracing.provenance import code_at
from gradcli.tracing.shapes import concatenate_entries, largest_magnitude, shape, size, unbroadcast
from gradcli.words import DiagnosisKind

# Slips in one partial: the expressions that people write instead. A row is an argument of a primitive and a slip.


@dataclass(frozen=True, slots=True)
class LocalSlip:
    """A wrong partial of argument `i`, `partial(y, *xs)`, and a sentence that names the right and the wrong expression."""

    i: int
    partial: Callable[..., Value]
    says: str


def _slips(*rows: tuple[Callable[..., Value], str], i: int = 0) -> tuple[LocalSlip, ...]:
    return tuple(LocalSlip(i, partial, says) for partial, says in rows)


_ROOT = np.sqrt(2 * np.pi)
# fmt: off
_OF_POWER = _slips((lambda y, x, n: x ** (n - 1), "the derivative of x**n is n*x**(n-1): the n is missing"),
                   (lambda y, x, n: n * y, "the derivative of x**n is n*x**(n-1): the exponent is not lowered"),
                   (lambda y, x, n: n * x ** (n + 1), "the derivative of x**n is n*x**(n-1), not n*x**(n+1)"),
                   (lambda y, x, n: (n - 1) * x ** (n - 1), "the derivative of x**n is n*x**(n-1), not (n-1)*x**(n-1)"))
PARTIAL_SLIPS: dict[str, tuple[LocalSlip, ...]] = {
    "tanh":       _slips((lambda y, x: 1 - y, "tanh' is 1 - y**2, not 1 - y"),
                         (lambda y, x: 1 + y * y, "tanh' is 1 - y**2, not 1 + y**2"),
                         (lambda y, x: y, "tanh' is 1 - y**2, not y"),
                         (lambda y, x: y * y, "tanh' is 1 - y**2, not y**2"),
                         (lambda y, x: y * (1 - y), "tanh' is 1 - y**2; y*(1 - y) is that of the sigmoid"),
                         (lambda y, x: 1 - x * x, "tanh' is 1 - tanh(x)**2, not 1 - x**2")),
    "expit":      _slips((lambda y, x: y, "sigmoid' is y*(1 - y), not y"),
                         (lambda y, x: 1 - y, "sigmoid' is y*(1 - y), not 1 - y"),
                         (lambda y, x: y * (1 + y), "sigmoid' is y*(1 - y), not y*(1 + y)"),
                         (lambda y, x: 1 - y * y, "sigmoid' is y*(1 - y); 1 - y**2 is that of tanh"),
                         (lambda y, x: x * (1 - x), "sigmoid' is y*(1 - y) of its value, not x*(1 - x) of its argument")),
    "relu":       _slips((lambda y, x: y, "relu' is 1 where x is positive, not relu(x)"),),
    "exp":        _slips((lambda y, x: x * np.exp(x - 1), "exp' is exp(x), not x*exp(x - 1)"),
                         (lambda y, x: x, "exp' is exp(x), not x")),
    "log":        _slips((lambda y, x: 1 / y, "log' is 1/x, not 1/log(x)"),
                         (lambda y, x: x, "log' is 1/x, not x"),
                         (lambda y, x: 1 / x**2, "log' is 1/x, not 1/x**2")),
    "log1p":      _slips((lambda y, x: 1 / x, "log1p' is 1/(1 + x), not 1/x"),),
    "expm1":      _slips((lambda y, x: y, "expm1' is exp(x), not expm1(x)"),),
    "log10":      _slips((lambda y, x: 1 / x, "log10' is 1/(x ln 10): ln 10 is missing"),),
    "log2":       _slips((lambda y, x: 1 / x, "log2' is 1/(x ln 2): ln 2 is missing"),),
    "exp2":       _slips((lambda y, x: y, "exp2' is ln 2 * 2**x: ln 2 is missing"),),
    "sqrt":       _slips((lambda y, x: 1 / y, "sqrt' is 1/(2 sqrt(x)): the 1/2 is missing"),
                         (lambda y, x: 0.5 * y, "sqrt' is 1/(2 sqrt(x)), not sqrt(x)/2"),
                         (lambda y, x: 0.5 / x, "sqrt' is 1/(2 sqrt(x)), not 1/(2 x)"),
                         (lambda y, x: 2 / y, "sqrt' is 1/(2 sqrt(x)), not 2/sqrt(x)")),
    "square":     _slips((lambda y, x: x, "the derivative of x**2 is 2*x: the 2 is missing"),
                         (lambda y, x: 2 * y, "the derivative of x**2 is 2*x, not 2*x**2"),
                         (lambda y, x: 2.0 + 0 * x, "the derivative of x**2 is 2*x: the x is missing")),
    "power":      _OF_POWER
                + _slips((lambda y, x, n: y, "the derivative of x**n by n is x**n*log(x): the log is missing"),
                         (lambda y, x, n: n * x ** (n - 1), "by n, the derivative of x**n is x**n*log(x), not n*x**(n-1)"), i=1),
    "integer_power": _OF_POWER,
    "divide":     _slips((lambda y, a, b: 1 / b**2, "the derivative of a/b by a is 1/b, not 1/b**2"),
                         (lambda y, a, b: b, "the derivative of a/b by a is 1/b, not b"))
                + _slips((lambda y, a, b: -a / b, "the derivative of a/b by b is -a/b**2: b is not squared"),
                         (lambda y, a, b: a / b, "the derivative of a/b by b is -a/b**2, not a/b"),
                         (lambda y, a, b: -1 / b**2, "the derivative of a/b by b is -a/b**2: the a is missing"),
                         (lambda y, a, b: -1 / b, "the derivative of a/b by b is -a/b**2, not -1/b"),
                         (lambda y, a, b: 1 / b, "the derivative of a/b by b is -a/b**2, not 1/b"),
                         (lambda y, a, b: -a / b**3, "the derivative of a/b by b is -a/b**2, not -a/b**3"), i=1),
    "reciprocal": _slips((lambda y, x: -y, "the derivative of 1/x is -1/x**2: x is not squared"),),
    "multiply":   _slips((lambda y, a, b: a + 0 * b, "the derivative of a*b by a is b, not a"),)
                + _slips((lambda y, a, b: b + 0 * a, "the derivative of a*b by b is a, not b"), i=1),
    "sin":        _slips((lambda y, x: y, "sin' is cos, not sin"), (lambda y, x: np.cosh(x), "sin' is cos, not cosh")),
    "cos":        _slips((lambda y, x: y, "cos' is -sin, not cos"), (lambda y, x: -y, "cos' is -sin, not -cos"),
                         (lambda y, x: -np.sinh(x), "cos' is -sin, not -sinh")),
    "sinh":       _slips((lambda y, x: np.cos(x), "sinh' is cosh, not cos"),),
    "cosh":       _slips((lambda y, x: np.sin(x), "cosh' is sinh, not sin"),
                         (lambda y, x: -np.sin(x), "cosh' is sinh, not -sin, which is that of cos")),
    "tan":        _slips((lambda y, x: 1 - y * y, "tan' is 1 + tan(x)**2, not 1 - tan(x)**2"),
                         (lambda y, x: 1 / np.cos(x), "tan' is 1/cos(x)**2: the square is missing"),
                         (lambda y, x: 1 / np.cosh(x) ** 2, "tan' is 1/cos(x)**2, not 1/cosh(x)**2")),
    "arctan":     _slips((lambda y, x: 1 / (1 + x), "arctan' is 1/(1 + x**2): the square is missing"),
                         (lambda y, x: 1 / (1 - x * x), "arctan' is 1/(1 + x**2), not 1/(1 - x**2)"),
                         (lambda y, x: 1 / np.sqrt(1 + x * x), "arctan' is 1/(1 + x**2), without a root")),
    "arcsin":     _slips((lambda y, x: 1 / (1 - x * x), "arcsin' is 1/sqrt(1 - x**2): the root is missing"),
                         (lambda y, x: 1 / np.sqrt(1 + x * x), "arcsin' is 1/sqrt(1 - x**2), not 1/sqrt(1 + x**2)")),
    "arccos":     _slips((lambda y, x: -1 / (1 - x * x), "arccos' is -1/sqrt(1 - x**2): the root is missing"),),
    "erf":        _slips((lambda y, x: np.exp(-x * x), "erf' is 2/sqrt(pi)*exp(-x**2): 2/sqrt(pi) is missing"),
                         (lambda y, x: 2 / np.sqrt(np.pi) * np.exp(-x * x / 2), "erf' is 2/sqrt(pi)*exp(-x**2), without a half"),
                         (lambda y, x: np.exp(-x * x / 2) / _ROOT, "erf' is 2/sqrt(pi)*exp(-x**2); this is the normal density")),
    "ndtr":       _slips((lambda y, x: np.exp(-x * x / 2), "the normal density is exp(-x**2/2)/sqrt(2 pi): 1/sqrt(2 pi) is missing"),
                         (lambda y, x: np.exp(-x * x) / _ROOT, "the normal density is exp(-x**2/2)/sqrt(2 pi): the half is missing"),
                         (lambda y, x: y, "the derivative of the normal distribution is its density, not itself")),
    "hypot":      _slips((lambda y, a, b: a + 0 * b, "the derivative of hypot(a, b) is a/hypot(a, b): the division is missing"),)
                + _slips((lambda y, a, b: b + 0 * a, "the derivative of hypot(a, b) by b is b/hypot(a, b): the division is missing"), i=1),
    "arctan2":    _slips((lambda y, a, b: a / (a * a + b * b), "the derivative of arctan2(y, x) by y is x/(x**2 + y**2), not y/(x**2 + y**2)"),
                         (lambda y, a, b: b / np.hypot(a, b), "the derivative of arctan2(y, x) by y is x/(x**2 + y**2), without a root")),
    "gammaln":    _slips((lambda y, x: np.log(x), "gammaln' is digamma(x), which log(x) only approximates"),),
    "log_expit":  _slips((lambda y, x: np.exp(y), "the derivative of log sigmoid(x) is 1 - sigmoid(x), not sigmoid(x)"),),
}
# fmt: on


@dataclass(frozen=True, slots=True)
class Replaced:
    """A rule that pulls back by `instead(pulled, ybar, i, y, xs, params)`, where `pulled` is the pull of the right rule."""

    right: Rule
    instead: Callable[..., Value]

    def push(self, primitive: Primitive, i: int, y: Value, xs: Sequence[Value], xdot: Value, params: Params) -> Value:
        return self.right.push(primitive, i, y, xs, xdot, params)

    def pull(self, ybar: Value, i: int, y: Value, xs: Sequence[Value], params: Params, transpose: Transposer) -> Value:
        def pulled(bar: Value, at: Value | None = None) -> Value:
            own = xs if at is None else [*xs[:i], at, *xs[i + 1 :]]
            return self.right.pull(bar, i, y, own, params, transpose)

        found = self.instead(pulled, ybar, i, y, xs, params)
        return np.broadcast_to(found, shape(xs[i]))[()] if shape(found) != shape(xs[i]) else found


def omit_contribution(rule: Rule) -> Rule:
    """Return a rule whose pulled back cotangent is zero."""
    return Replaced(rule, lambda pulled, ybar, i, y, xs, params: np.zeros(shape(xs[i]))[()])


def scale_contribution(factor: float) -> Callable[[Rule], Rule]:
    """Return a function from a rule to one that pulls back this many times as much."""
    return lambda rule: Replaced(rule, lambda pulled, ybar, i, y, xs, params: factor * pulled(ybar))


negated = scale_contribution(-1.0)


def pass_cotangent(rule: Rule) -> Rule:
    """Return a rule that passes the cotangent on, as if the partial were 1."""
    return Replaced(rule, lambda pulled, ybar, i, y, xs, params: unbroadcast(ybar, xs[i]))


def evaluate_rule_at(rule: Rule, y: Value, xs: Sequence[Value]) -> Rule:
    """Return the rule with its partial evaluated at other values, such as those of another iteration of a loop."""

    def instead(pulled: Any, ybar: Any, i: int, _: Any, own: Any, params: Any) -> Any:
        return rule.pull(ybar, i, y, xs, params, _refuse_transpose)

    return Replaced(rule, instead)


def _refuse_transpose(*_: Any) -> Value:
    raise NotImplementedError("only partials and transposes are evaluated elsewhere")


# Name the operation with a mistake as the user wrote it, not by the primitives that were recorded for it.

_LONGEST = 30  # characters of an operand that is quoted
_COUNTS = ("mean", "average")  # functions whose factor is written 1/n, with n the number of entries
_SAME_COUNT = 1e-12  # relative: the rounding of 1/n
_AS_IF = "is missing (used as if it were 1)"
_MISSING_PARTIALS = {
    ("multiply", 0): "the derivative of a*b by a is b, not 1",
    ("multiply", 1): "the derivative of a*b by b is a, not 1",
    ("divide", 0): "the derivative of a/b by a is 1/b, not 1",
    ("divide", 1): "the derivative of a/b by b is -a/b**2, not 1",
    ("power", 0): "the derivative of x**n is n*x**(n-1), not 1",
    ("power", 1): "the derivative of x**n by n is x**n*log(x), not 1",
    ("integer_power", 0): "the derivative of x**n is n*x**(n-1), not 1",
    ("square", 0): "the derivative of x**2 is 2*x, not 1",
    ("reciprocal", 0): "the derivative of 1/x is -1/x**2, not 1",
}


def describe_missing_partial(primitive: Primitive, i: int, xs: Sequence[Value], code: str, alone: bool = True) -> str:
    """Say that the derivative with respect to argument `i` is missing; `alone` says whether the code is this one operation."""
    other = xs[1 - i] if len(xs) == 2 else None
    constant = (
        float(other) if isinstance(other, float | int | np.floating | np.integer) and shape(other) == () else None
    )
    node = _parse_code(code)
    of = node.func if isinstance(node, ast.Call) else None
    called = getattr(of, "attr", getattr(of, "id", ""))  # `mean` for `np.mean(x)` and `x.mean()`
    if primitive.name in ("multiply", "divide") and (primitive.name, i) != ("divide", 1):
        inverse = "1/" if primitive.name == "divide" else ""
        operand = _other_operand(code, i, primitive.name)
        if operand:
            is_count = constant is not None and constant >= 2 and constant.is_integer()
            if is_count and f"{constant:.0f}" in (part.strip() for part in operand.split(" * ")):
                operand = f"{constant:.0f}"  # the other factors are 1 at the point
            is_named = not re.fullmatch(r"[-+\d.e_()]+", operand)
            count = f" ({operand} = {constant:.0f})" if is_count and is_named else ""
            binds = ast.Name | ast.Call | ast.Attribute | ast.Subscript | ast.Constant
            quoted = operand if not inverse or isinstance(_parse_code(operand), binds) else f"({operand})"
            return f"the factor {inverse}{quoted} is missing{count}"
        if called and constant:
            return f"the factor {_describe_missing_factor(called, 1 / constant if inverse else constant)}"
    if (primitive.name, i) in _MISSING_PARTIALS:
        return _MISSING_PARTIALS[primitive.name, i]
    if re.search(rf"\b{primitive.name}\b", code) or not code:
        return f"the derivative of {primitive.name} {_AS_IF}"
    if called:
        return f"the derivative of {called} {_AS_IF}" if alone else f"a derivative inside {called}(...) {_AS_IF}"
    return f"the derivative of this operation {_AS_IF}"


def _describe_missing_factor(called: str, factor: float) -> str:
    """Return a missing factor of a call in words, such as `1/n of mean(...) is missing (n = 6)`."""
    n = round(1 / factor)
    if abs(n) < 2 or abs(factor * n - 1) > _SAME_COUNT:
        return f"{factor:.6g} of {called}(...) is missing"
    if called in _COUNTS:
        return f"1/n of {called}(...) is missing (n = {n})"
    return f"1/{n} of {called}(...) is missing"


def _parse_code(code: str) -> ast.AST | None:
    try:
        body = ast.parse(code.strip()).body
    except (SyntaxError, ValueError):
        return None
    return body[0].value if body and isinstance(body[0], ast.Expr) else body[0] if body else None


def is_operation(code: str) -> bool:
    """Whether the user wrote an operator between two operands, and no call."""
    return isinstance(_parse_code(code), ast.BinOp)


def _other_operand(code: str, i: int, name: str) -> str:
    """Return the source of the other operand of a product or quotient; empty if it is long or not found."""
    node, wanted = _parse_code(code), ast.Mult if name == "multiply" else ast.Div
    if isinstance(node, ast.AugAssign) and isinstance(node.op, wanted) and i == 0:
        text = ast.unparse(node.value)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, wanted):
        text = ast.unparse(node.left if i else node.right)
    else:
        return ""
    return text if len(text) <= _LONGEST else ""


def slips_of_argument(
    primitive: Primitive, i: int, y: Value, xs: Sequence[Value], code: str = "", alone: bool = True
) -> Iterator[tuple[DiagnosisKind, str, Rule]]:
    """Yield `(kind, says, rule)` for each known slip in argument `i` of a primitive, with result `y` and operands `xs`.

    `code` is the user's source of the operation, and `alone` says whether it consists of this operation only.
    """
    rule = primitive.rule(i)
    for slip in PARTIAL_SLIPS.get(primitive.name, ()):
        if slip.i == i:
            yield DiagnosisKind.SLIP, slip.says, Partial(slip.partial)
    if primitive.kind == "elementwise" and isinstance(rule, Partial):
        yield DiagnosisKind.SLIP, describe_missing_partial(primitive, i, xs, code, alone), pass_cotangent(rule)
    yield from _broadcast_slips(rule, y, xs[i])
    for kind, says, instead in PULL_SLIPS.get(primitive.name, ()):
        yield kind, says, Replaced(rule, instead)


def _broadcast_slips(rule: Rule, y: Value, x: Value) -> Iterator[tuple[DiagnosisKind, str, Rule]]:
    """Yield slips for a broadcast operand, whose cotangent is a sum over the axes that were broadcast."""
    have, want = shape(y), shape(x)
    if have == want or size(y) <= size(x) or not isinstance(rule, Partial | ConstantSlope):
        return
    padded = (1,) * (len(have) - len(want)) + want
    grew = tuple(k for k, (n, m) in enumerate(zip(have, padded, strict=True)) if n != m)
    for says, kind, makes in _SUMS:
        yield kind, says, Replaced(rule, _reduce_copies_by(grew, makes))


def _reduce_copies_by(grew: tuple[int, ...], makes: Callable[[Value, tuple[int, ...]], Value]) -> Callable[..., Value]:
    """Return a wrong pull: it reduces the cotangents of the broadcast copies by `makes` instead of the sum."""

    def instead(pulled: Any, ybar: Any, i: int, y: Any, xs: Any, params: Any) -> Any:
        copies = pulled(np.broadcast_to(ybar, shape(y)), np.broadcast_to(xs[i], shape(y)))
        return np.reshape(makes(copies, grew), shape(xs[i]))

    return instead


_SUMS: tuple[tuple[str, DiagnosisKind, Callable[[Value, tuple[int, ...]], Value]], ...] = (
    ("summed over the wrong axis: the sum is over the axes along which this operand was broadcast", DiagnosisKind.AXIS,
     lambda c, grew: np.sum(c, axis=tuple(k for k in range(np.ndim(c)) if k not in grew))),
    ("averaged over the axes along which this operand was broadcast, instead of summed", DiagnosisKind.BROADCAST, lambda c, grew: np.mean(c, axis=grew)),
    ("the first of the broadcast copies is used, instead of their sum", DiagnosisKind.BROADCAST, lambda c, grew: _take_end(c, grew, 0)),
    ("the last of the broadcast copies is used, instead of their sum", DiagnosisKind.BROADCAST, lambda c, grew: _take_end(c, grew, -1)),
)  # fmt: skip


def _take_end(copies: Value, grew: tuple[int, ...], which: int) -> Value:
    return copies[tuple(which if k in grew else slice(None) for k in range(np.ndim(copies)))]


def _matmul_other_way(pulled: Any, ybar: Any, i: int, y: Any, xs: Any, params: Any) -> Any:
    """Pull back a matrix product with the other operand not transposed."""
    other = xs[1 - i]
    if np.ndim(other) < 2 or other.shape[-1] != other.shape[-2] or (i == 0 and np.ndim(ybar) < 1):
        return pulled(ybar)
    return other @ ybar if i else ybar @ other


def _transposed_result(pulled: Any, ybar: Any, i: int, y: Any, xs: Any, params: Any) -> Any:
    right = pulled(ybar)
    return np.swapaxes(right, -1, -2) if np.ndim(right) >= 2 and right.shape[-1] == right.shape[-2] else right


def _other_axis(pulled: Any, ybar: Any, i: int, y: Any, xs: Any, params: Any) -> Any:
    right = pulled(ybar)
    return np.swapaxes(right, 0, 1) if np.ndim(right) == 2 and right.shape[0] == right.shape[1] else right


def _to_every_entry(pulled: Any, ybar: Any, i: int, y: Any, xs: Any, params: Any) -> Any:
    if np.ndim(ybar) > 0:
        return pulled(ybar)
    return np.broadcast_to(np.max(np.abs(ybar)) * np.sign(np.sum(ybar)), shape(xs[i]))


def _solve_untransposed(pulled: Any, ybar: Any, i: int, y: Any, xs: Any, params: Any) -> Any:
    bar = np.linalg.solve(xs[0], ybar)
    return bar if i == 1 else -np.outer(bar, y) if np.ndim(y) == 1 else -bar @ np.swapaxes(y, -1, -2)


PULL_SLIPS: dict[str, tuple[tuple[DiagnosisKind, str, Callable[..., Value]], ...]] = table_by_name({
    MATMUL: (
        (DiagnosisKind.SLIP, "the other operand of @ is not transposed", _matmul_other_way),
        (DiagnosisKind.SLIP, "the gradient of a matrix product is transposed: the factors of the outer product are swapped", _transposed_result),
    ),
    SUM: (
        (DiagnosisKind.BROADCAST, "the gradient of a sum is divided by the number of entries, as that of a mean would be",
         lambda pulled, ybar, i, y, xs, params: pulled(ybar) * (max(1, size(y)) / max(1, size(xs[i])))),
        (DiagnosisKind.AXIS, "the gradient of a sum is broadcast along the wrong axis", _other_axis),
    ),
    MAX: ((DiagnosisKind.BROADCAST, "the gradient of a maximum goes to every entry, not to the largest alone", _to_every_entry),),
    LOGDET: ((DiagnosisKind.SLIP, "the derivative of log det X is the transposed inverse: the transpose is missing",
              lambda pulled, ybar, i, y, xs, params: ybar * np.linalg.inv(xs[i]) if np.ndim(ybar) == 0 else pulled(ybar)),),
    CUMSUM: ((DiagnosisKind.AXIS, "the gradient of a cumulative sum is a cumulative sum from the end, not from the start",
              lambda pulled, ybar, i, y, xs, params: np.cumsum(ybar, axis=params.get("axis")) if np.ndim(ybar) == 1 else pulled(ybar)),),
    SOLVE: ((DiagnosisKind.SLIP, "the system is solved with A, not with its transpose", _solve_untransposed),),
    INV: ((DiagnosisKind.SLIP, "the gradient of an inverse is transposed", _transposed_result),),
    LOGSUMEXP: ((DiagnosisKind.BROADCAST, "the gradient of logsumexp goes to every entry equally, not weighted by the softmax", _to_every_entry),),
})  # fmt: skip


# Mistakes that change a whole gradient, or some of its entries.

_SLIGHT = 0.1  # a factor this near 1 means inexact entries, not a missing factor


@dataclass(frozen=True, slots=True)
class Slip:
    """A mistake: a function from the right gradient of one input to the wrong one (None if it does not apply), and a sentence."""

    kind: DiagnosisKind
    makes: Callable[[Array], Array | None]
    says: str


def _is_square_matrix(g: Array) -> bool:
    return bool(np.ndim(g) >= 2 and g.shape[-1] == g.shape[-2])


def _broadcast_along_axis(axis: int, how: Callable[..., Array]) -> Callable[[Array], Array | None]:
    """Return a function that replaces all entries along an axis by one number, computed from them by `how`."""

    def broadcast(g: Array) -> Array | None:
        has_several = np.ndim(g) > axis and g.shape[axis] > 1
        return np.broadcast_to(how(g, axis=axis, keepdims=True), g.shape) if has_several else None

    return broadcast


def _broadcast_to_all(how: Callable[[Array], Array]) -> Callable[[Array], Array | None]:
    return lambda g: np.broadcast_to(how(g), np.shape(g)) if np.size(g) > 1 else None


_TRIANGLE = "the claim is the symmetric part of the right gradient: the function reads one triangle of the matrix"
# fmt: off
TRANSPOSED = Slip(DiagnosisKind.TRANSPOSED, lambda g: np.swapaxes(g, -1, -2) if _is_square_matrix(g) else None, "the gradient is transposed")
REORDERED  = Slip(DiagnosisKind.TRANSPOSED, lambda g: g.T.reshape(g.shape) if np.ndim(g) == 2 else None, "the gradient is flattened by columns but reshaped by rows (or the reverse)")
REORDERED2 = Slip(DiagnosisKind.TRANSPOSED, lambda g: g.reshape(g.shape[::-1]).T if np.ndim(g) == 2 else None, "the gradient is flattened by rows but reshaped by columns (or the reverse)")
SYMMETRIC  = Slip(DiagnosisKind.ONE_TRIANGLE, lambda g: (g + g.T) / 2 if np.ndim(g) == 2 and _is_square_matrix(g) else None, _TRIANGLE)
BOTH       = Slip(DiagnosisKind.FACTOR, lambda g: g + g.T if np.ndim(g) == 2 and _is_square_matrix(g) else None, "the gradient is added to its transpose: mirrored entries are counted twice")
REVERSED   = Slip(DiagnosisKind.PERMUTED, lambda g: g[::-1] if np.ndim(g) == 1 else None, "the entries are in reversed order")
LEFT       = Slip(DiagnosisKind.SHIFTED, lambda g: np.roll(g, -1) if np.ndim(g) == 1 else None, "the entries are shifted by one")
RIGHT      = Slip(DiagnosisKind.SHIFTED, lambda g: np.roll(g, 1) if np.ndim(g) == 1 else None, "the entries are shifted by one")
LEFT_0     = Slip(DiagnosisKind.SHIFTED, lambda g: np.append(g[1:], 0.0) if np.ndim(g) == 1 and g.size > 1 else None, "the entries are shifted by one")
RIGHT_0    = Slip(DiagnosisKind.SHIFTED, lambda g: np.insert(g[:-1], 0, 0.0) if np.ndim(g) == 1 and g.size > 1 else None, "the entries are shifted by one")
SUMMED     = Slip(DiagnosisKind.BROADCAST, _broadcast_to_all(np.sum), "every entry is the sum of the right ones: summed, then broadcast")
AVERAGED   = Slip(DiagnosisKind.BROADCAST, _broadcast_to_all(np.mean), "every entry is the mean of the right ones: averaged, then broadcast")
BY_AXIS    = tuple(
    Slip(DiagnosisKind.BROADCAST, _broadcast_along_axis(axis, how), f"along axis {axis} every entry is the {word} of the right ones: {past}, then broadcast")
    for axis in range(3) for how, word, past in ((np.sum, "sum", "summed over that axis"), (np.mean, "mean", "averaged over that axis"), (lambda g, axis, keepdims: np.take(g, [0], axis=axis), "first", "picked"))
)
ABSOLUTE   = Slip(DiagnosisKind.SIGN, np.abs, "the sign is lost: every entry is the absolute value of the right one")
SQUARED    = Slip(DiagnosisKind.SQUARED, np.square, "every entry is the square of the right one")
WHOLE_SLIPS = (
    TRANSPOSED, REORDERED, REORDERED2, SYMMETRIC, BOTH, REVERSED, LEFT, RIGHT, LEFT_0, RIGHT_0,
    SUMMED, AVERAGED, *BY_AXIS, ABSOLUTE, SQUARED,
)
# fmt: on
_SIGNED = (DiagnosisKind.TRANSPOSED, DiagnosisKind.PERMUTED, DiagnosisKind.SHIFTED)


def find_mistake_in_whole(wrong: Wrong) -> Diagnosis | None:
    """Return the mistake that changed the whole gradient of each wrong input; None if there is none."""
    factor = fit_factor(wrong.claimed, wrong.right, wrong.names)
    if factor is not None and wrong.explained({name: factor * wrong.right[name] for name in wrong.names}):
        named = name_factor(factor, wrong)
        if named is not None:
            return wrong.says(named[0], named[1] + _name_wrong_inputs(wrong))
    for slip in WHOLE_SLIPS:
        made = {name: slip.makes(np.asarray(wrong.right[name])) for name in wrong.names}
        fitting = {name: g for name, g in made.items() if g is not None}
        if len(fitting) < len(made):
            continue
        for sign, also in ((1.0, ""), (-1.0, ", and the sign is flipped")) if slip.kind in _SIGNED else ((1.0, ""),):
            if wrong.explained({name: sign * g for name, g in fitting.items()}):
                return wrong.says(slip.kind, slip.says + also + _name_wrong_inputs(wrong))
    return _find_permutation(wrong)


# Factors by which gradients are commonly wrong, and the mistake behind each.

_SAME = 1e-6  # relative: two factors this near are the same
_FACTORS_WITH_A_CAUSE = (
    (2.0, "a factor 2 too large"),
    (0.5, "a factor 2 too small"),
    (np.pi / 180, "a factor pi/180: degrees for radians"),
    (180 / np.pi, "a factor 180/pi: radians for degrees"),
    (np.log(10.0), "a factor ln 10: the base of a logarithm"),
    (1 / np.log(10.0), "a factor 1/ln 10: the base of a logarithm"),
    (np.log(2.0), "a factor ln 2: the base of a logarithm"),
    (1 / np.log(2.0), "a factor 1/ln 2: the base of a logarithm"),
    (np.pi, "a factor pi too large"),
    (1 / np.pi, "a factor pi too small"),
    (2 * np.pi, "a factor 2 pi too large"),
    (0.5 / np.pi, "a factor 2 pi too small"),
    (np.sqrt(np.pi) / 2, "a factor sqrt(pi)/2: that of erf is missing"),
    (np.sqrt(2.0), "a factor sqrt(2) too large"),
    (np.sqrt(0.5), "a factor sqrt(2) too small"),
)
_SMALL_FACTORS = tuple(
    row for n in (3, 4, 6, 8) for row in ((float(n), f"a factor {n} too large"), (1.0 / n, f"a factor {n} too small"))
)
FACTORS = (*_FACTORS_WITH_A_CAUSE, *_SMALL_FACTORS)
_UNITS = tuple(
    row
    for n, of in (
        (100, "percent"),
        (365, "days of a year"),
        (252, "trading days of a year"),
        (1000, "a unit, such as kJ and J"),
    )
    for row in ((float(n), f"a factor {n} too large: {of}"), (1.0 / n, f"a factor {n} too small: {of}"))
)
# what a scalar argument causes if it is missing or repeated, such as a step size dt: a power of it
_OF_ARGUMENTS = (
    (1, "one {0} too many, or a division by {0} is missing"),
    (-1, "{0} is missing, or a division by {0} is one too many"),
    (2, "{0}**2 too many, or a division by {0}**2 is missing"),
    (-2, "{0}**2 is missing, or a division by {0}**2 is one too many"),
)


def fit_factor(claimed: Gradient, right: Gradient, names: tuple[str, ...]) -> float | None:
    """Return the factor from the right gradient to the claim by least squares; None if a gradient is zero or not finite.

    Shapes  `claimed[x]` and `right[x]` have the same shape for each input x in `names`.
    """
    a, b = (concatenate_entries(of[name] for name in names) for of in (claimed, right))
    scale = largest_magnitude(b)
    if not scale > 0 or not np.all(np.isfinite(a)):
        return None
    return float((a / scale) @ (b / scale) / ((b / scale) @ (b / scale)))


def name_factor(factor: float, wrong: Wrong) -> tuple[DiagnosisKind, str] | None:
    """Return the kind of mistake that causes a factor, and a sentence; None if no known mistake causes it."""
    if abs(factor) < 1e-9:
        return DiagnosisKind.DETACHED, "the gradient is zero: the input is detached somewhere or treated as a constant"
    if abs(factor + 1) < _SAME:
        return DiagnosisKind.SIGN, "the sign is flipped"
    given = {**wrong.q.point.values, **(defaults := _default_numbers(wrong.q))}
    numbers = {name: x for name, x in given.items() if isinstance(x, float | int) and abs(x) != 1.0}
    with np.errstate(all="ignore"):
        made = ((np.float64(x) ** n, name, says) for name, x in numbers.items() for n, says in _OF_ARGUMENTS)
        powers = [(float(y), name, says.format(name)) for y, name, says in made if y != 0.0 and np.isfinite(y)]
    of_arguments = [(y, f"a factor {y:.6g}: {says}") for y, name, says in powers if name not in defaults]
    of_defaults = [(y, f"a factor {y:.6g}: {says}") for y, name, says in powers if name in defaults]
    counts = [  # an argument may have the value of a count: dx = 0.2 where there are 5 cells
        (n, says + next((f"; or {other}" for y, _, other in powers if abs(n / y - 1) < _SAME), ""))
        for n, says in _factors_of_counts(wrong)
    ]
    for value, says in (
        *_FACTORS_WITH_A_CAUSE, *counts, *of_arguments, *_SMALL_FACTORS, *_factors_of_constants(wrong.q), *of_defaults,
    ):  # fmt: skip
        for sign, also in ((1.0, ""), (-1.0, ", and the sign is flipped")):
            if abs(factor / (sign * value) - 1) < _SAME:
                return DiagnosisKind.FACTOR, says + also
    return None


def _factors_of_constants(q: Question) -> Iterator[tuple[float, str]]:
    """Yield the factors that a number inside the function causes, such as a temperature, if it is missing or repeated."""
    seen: set[float] = set()
    for primitive, slots, xs, _, _, position in q.lines:
        for i, (slot, x) in enumerate(zip(slots, xs, strict=False)):
            if slot == CONSTANT and np.ndim(x) == 0 and isinstance(x, int | float | np.number):
                c, code = abs(float(x)), code_at(position)
                if np.isfinite(c) and c not in (0.0, 1.0) and c not in seen and code:
                    seen.add(c)
                    divides = primitive is not None and (primitive.name, i) == ("divide", 1)
                    number = f"the division by {c:.6g}" if divides else f"the factor {c:.6g}"
                    more, less = ("missing", "one too many") if divides else ("one too many", "missing")
                    yield c, f"a factor {c:.6g}: {number} is {more}, in {code}"
                    yield 1 / c, f"a factor 1/{c:.6g}: {number} is {less}, in {code}"


def _default_numbers(q: Question) -> dict[str, float]:
    """Return the real numbers that are defaults of parameters of the function, such as a step dt=0.01."""
    f = original_function(q.f)
    signature = signature_of(f.function) if isinstance(f, PythonFunction) else None
    defaults = {} if signature is None else {name: p.default for name, p in signature.parameters.items()}
    return {name: x for name, x in defaults.items() if type(x) is float and name not in q.point.values}


def _factors_of_counts(wrong: Wrong) -> Iterator[tuple[float, str]]:
    """Yield the factors that come from counts n of entries or axes: n, n - 1, and their quotients."""
    sizes: dict[int, str] = {}
    for name, x in wrong.q.point.values.items():
        if isinstance(x, np.ndarray | np.float64):
            for k, n in enumerate(shape(x)):
                sizes.setdefault(n, f"axis {k} of {name}")
            sizes.setdefault(size(x), f"the entries of {name}")
    sizes.setdefault(size(wrong.q.value), "the outputs")
    for _, _, _, y, _, _ in wrong.q.lines:
        for n in shape(y):
            sizes.setdefault(n, f"the {n} entries of an intermediate value")
    for n, what in sizes.items():
        if n > 2:
            yield float(n), f"a factor {n} too large: a mean over {what} became a sum"
            yield 1.0 / n, f"a factor {n} too small: a sum over {what} became a mean"
            yield float(n - 1), f"a factor {n - 1} too large: the division by n - 1 is missing (n counts {what})"
            yield 1.0 / (n - 1), f"a factor {n - 1} too small: divided by n - 1 once too often (n counts {what})"
            yield n / (n - 1), f"a factor {n}/{n - 1}: n and n - 1 are mixed up (n counts {what})"
            yield (n - 1) / n, f"a factor {n - 1}/{n}: n and n - 1 are mixed up (n counts {what})"


def _name_wrong_inputs(wrong: Wrong) -> str:
    return "" if len(wrong.names) == len(wrong.claimed) else f" ({', '.join(wrong.names)})"


def _find_permutation(wrong: Wrong) -> Diagnosis | None:
    """Return a diagnosis if the entries are right but in another order."""
    for name in wrong.names:
        mask = np.asarray(wrong.masks[name])
        a, b = np.asarray(wrong.claimed[name])[mask], np.asarray(wrong.right[name])[mask]
        order_a, order_b = np.argsort(a), np.argsort(b)
        made = np.array(wrong.right[name])
        if a.size < 2 or np.ptp(b) == 0:
            return None
        values = np.empty(a.size)
        values[order_a] = b[order_b]
        made[mask] = values
        if not wrong.alone(name).explained({name: made}):
            return None
    if len(wrong.names) == 1 and np.sum(wrong.masks[wrong.names[0]]) == 2:
        return wrong.says(DiagnosisKind.PERMUTED, f"two entries are exchanged{wrong.where()}")
    where = wrong.where() or _name_wrong_inputs(wrong)
    return wrong.says(DiagnosisKind.PERMUTED, f"the entries are right but in another order{where}")


def find_factor_in_entries(wrong: Wrong) -> Diagnosis | None:
    """Return one mistake that changed only the wrong entries: a sign or a known factor."""
    factor = _factor_of_wrong_entries(wrong)
    named = None if factor is None else name_factor(factor, wrong)
    return None if named is None else wrong.says(named[0], named[1] + wrong.where())


def find_factor_of_units(wrong: Wrong) -> Diagnosis | None:
    """Return a mistake of units that changed only the wrong entries, such as percent for a number.

    Such a number may also be a count, or what an argument is at the point: those are tried before.
    """
    factor = _factor_of_wrong_entries(wrong)
    if factor is None:
        return None
    whole = all(np.all(wrong.masks[name]) for name in wrong.names)
    for value, says in _UNITS:
        for sign, also in ((1.0, ""), (-1.0, ", and the sign is flipped")):
            if abs(factor / (sign * value) - 1) < _SAME:
                where = _name_wrong_inputs(wrong) if whole else wrong.where()
                return wrong.says(DiagnosisKind.FACTOR, says + also + where)
    return None


def find_factor_by_input(wrong: Wrong) -> Diagnosis | None:
    """Return a mistake for each of several wrong inputs, a sign or a known factor; None if one of them has none."""
    if len(wrong.names) < 2:
        return None
    alone = [wrong.alone(name) for name in wrong.names]
    found = [find_factor_of_units(one) or find_factor_in_entries(one) for one in alone]
    known = [one for one in found if one is not None]
    if len(known) < len(found):
        return None
    kind = known[0].kind if len({one.kind for one in known}) == 1 else DiagnosisKind.FACTOR
    said = zip(wrong.names, known, strict=True)
    return wrong.says(kind, "; ".join(f"{one.message} ({name})" for name, one in said))


def _factor_of_wrong_entries(wrong: Wrong) -> float | None:
    """Return the factor that makes the claim of the right gradient, where it is wrong; None if there is none."""
    factor = fit_factor(*wrong.masked, wrong.names)
    if factor is None or not wrong.explained(_change_wrong_entries(wrong, lambda g: factor * g)):
        return None
    return factor


def find_added_constant(wrong: Wrong) -> Diagnosis | None:
    """Return a diagnosis if one constant was added to all wrong entries, and there are several."""
    apart = np.subtract(*map(concatenate_entries, (of.values() for of in wrong.masked)))
    constant = float(np.median(apart))
    if apart.size < 2 or not wrong.explained(_change_wrong_entries(wrong, lambda g: g + constant)):
        return None
    return wrong.says(DiagnosisKind.CONSTANT, f"a constant {constant:.6g} is added{wrong.where()}")


def find_slight_error(wrong: Wrong) -> Diagnosis | None:
    """Return a diagnosis if one factor near 1 explains the wrong entries, or a single entry is slightly wrong."""
    found = find_wrong_entry(wrong) or find_unnamed_factor(wrong)
    if found is None:
        return None
    name, at = wrong.worst()
    claimed, right = float(wrong.claimed[name][at]), float(wrong.right[name][at])
    return found if abs(claimed - right) < _SLIGHT * abs(right) else None


def find_unnamed_factor(wrong: Wrong) -> Diagnosis | None:
    """Return a diagnosis if several entries are wrong, all by one factor, whether its cause is known or not."""
    return _find_common_factor(wrong) if wrong.count > 1 else None


def find_wrong_entry(wrong: Wrong) -> Diagnosis | None:
    """Return a diagnosis if one entry alone is wrong; with its factor, if the gradient has no other entry."""
    if wrong.count > 1:
        return None
    if not wrong.where():
        return _find_common_factor(wrong)
    (claimed,), (right,) = (of[wrong.names[0]] for of in wrong.masked)
    apart = (
        f"by a relative {abs(claimed - right) / abs(right):.1e}; the others agree within their bounds" if right else ""
    )
    says = f"one entry alone is wrong,{wrong.where().removeprefix(' in')}, {apart or 'where the right one is 0'}"
    return wrong.says(DiagnosisKind.ENTRY, says)


def _find_common_factor(wrong: Wrong) -> Diagnosis | None:
    factor = _factor_of_wrong_entries(wrong)
    if factor is None:
        return None
    kind = DiagnosisKind.SCALED if abs(factor - 1) < _SLIGHT else DiagnosisKind.UNKNOWN
    shown = f"{factor:.10g}" if abs(factor - 1) > 1e-8 else f"1 {'+-'[factor < 1]} {abs(factor - 1):.1e}"
    says = f"every wrong entry is {shown} times the right one{wrong.where()}"
    if kind is DiagnosisKind.UNKNOWN:
        says = f"no mistake that gradcli knows explains the claim: {says}"
    return wrong.says(kind, says)


_ROUND = 1e-5  # relative: torch divides by the norm plus 1e-6


def find_clipping(wrong: Wrong) -> Diagnosis | None:
    """Return a diagnosis if the claim is the right gradient clipped: by its norm, or entry by entry."""
    claimed, right = (np.concatenate([np.ravel(of[n]) for n in wrong.claimed]) for of in (wrong.claimed, wrong.right))
    if claimed.size < 2 or not (np.all(np.isfinite(claimed)) and np.all(np.isfinite(right))):
        return None
    norm, whole = float(np.linalg.norm(claimed)), float(np.linalg.norm(right))
    if norm and whole and _is_round_number(norm):
        share = norm / whole
        if wrong.explained({name: share * wrong.right[name] for name in wrong.claimed}):
            says = (
                f"the claim is clipped by norm, or divided by it: its norm is {float(f'{norm:.2g}'):g}, that of the right "
                f"gradient {whole:.6g}, and their direction is the same"
            )
            return wrong.says(DiagnosisKind.CLIPPED, says)
    most = float(np.max(np.abs(claimed)))
    limited = {name: np.clip(wrong.right[name], -most, most) for name in wrong.claimed}
    if most > 0 and (wrong.count > 1 or _is_round_number(most)) and wrong.explained(limited):
        says = f"the claim is clipped by value, to {most:.6g}: the direction is another one than that of the gradient"
        return wrong.says(DiagnosisKind.CLIPPED, says)
    return None


def _is_round_number(x: float) -> bool:
    """Whether a number is one that people write: of at most two digits."""
    return abs(float(f"{x:.2g}") / x - 1) < _ROUND


def _change_wrong_entries(wrong: Wrong, makes: Callable[[Array], Array]) -> dict[str, Any]:
    return {name: np.where(wrong.masks[name], makes(wrong.right[name]), wrong.right[name]) for name in wrong.names}


def find_exchanged_inputs(wrong: Wrong) -> Diagnosis | None:
    """Return a diagnosis if the claim for an input is the gradient of another input."""
    taken: dict[str, str] = {}
    for name in wrong.names:
        others = [n for n in wrong.q.wrt if n != name and n in wrong.right]
        for other in (n for n in others if shape(wrong.right[n]) == shape(wrong.right[name])):
            if wrong.alone(name).explained({name: wrong.right[other]}):
                taken[name] = other
    if not taken or set(taken) != set(wrong.names):
        return None
    if len(taken) == 2 and set(taken) == set(taken.values()):
        return wrong.says(DiagnosisKind.SWAPPED, f"the gradients of {' and '.join(taken)} are exchanged")
    says = "; ".join(f"the claim for {a} is the gradient of {b}" for a, b in taken.items())
    return wrong.says(DiagnosisKind.SWAPPED, says)


def explain_wrong_shape(claimed: Array, right: Array, name: str) -> str | None:
    """Return in words why a claim has the wrong shape: not summed, transposed, flattened; None if none of these fits.

    Shapes  `right` has the shape that the claim should have; `claimed` has any shape.
    """
    for says, made in _possible_reshapings(np.asarray(claimed), shape(right)):
        room = 1e-6 * max(largest_magnitude(right), 1e-300)
        if shape(made) == shape(right) and np.all(np.abs(made - right) <= room):
            return says.format(name)
    return None


def _possible_reshapings(g: Any, wanted: tuple[int, ...]) -> Iterator[tuple[str, Any]]:
    if g.size == int(np.prod(wanted)):
        if g.ndim > 1 and g.T.shape == wanted:
            yield "transposed, it is right", g.T
        yield "the entries are right, in another shape: reshape them", g.reshape(wanted)
        yield "the entries are right, flattened by columns", g.reshape(wanted, order="F")
    missing = "summed over {} it is right: the sum over the {} that {{}} was broadcast along is missing"
    for axis in range(g.ndim):
        yield missing.format(f"axis {axis}", "axis"), np.sum(g, axis=axis)
        yield f"averaged over axis {axis} it is right: the mean over that axis is missing", np.mean(g, axis=axis)
    if g.ndim > 1:
        yield missing.format("all entries", "axes"), np.sum(g)
    if g.ndim < len(wanted):
        with contextlib.suppress(ValueError):  # where the shapes do not fit
            g = np.broadcast_to(g, wanted)
        yield "every entry is the same: it was summed although {} was not broadcast", g


# Mistakes in what the ranks of a distributed program tell each other in backward. A row of the table says of one input, by
# the claims and the right gradients of all ranks: what would be equal, and the sentence. The first row that holds is taken; a
# value that all ranks hold and shards have rows of their own.


@dataclass(frozen=True, slots=True)
class RankSlip:
    """A mistake: the claims of all ranks as it would make them of the right ones (or of their sum), and a sentence."""

    kind: DiagnosisKind
    of_shared: bool | None  # of a value that all ranks hold, of shards, or of both (None)
    holds: Callable[["RankArrays"], bool]
    says: str


@dataclass(frozen=True, slots=True)
class RankArrays:
    """The claims of all ranks for one input, and the right gradients; `near` says whether two arrays are equal."""

    claimed: list[Array]
    right: list[Array]
    near: Callable[[Array, Array], bool]

    def all_near(self, made: Callable[[Array], Array]) -> bool:
        """Whether the claim of each rank is what `made` makes of its right gradient."""
        return all(self.near(c, made(g)) for c, g in zip(self.claimed, self.right, strict=True))

    def each_near(self, whole: Array) -> bool:
        """Whether the claim of each rank is the same array."""
        return all(shape(c) == shape(whole) and self.near(c, whole) for c in self.claimed)

    @property
    def alike(self) -> bool:
        """Whether the right gradients of all ranks have one shape."""
        return len(set(map(shape, self.right))) == 1

    @property
    def agree(self) -> bool:
        """Whether the ranks have the same claim."""
        return all(self.near(c, self.claimed[0]) for c in self.claimed)


# fmt: off
RANK_SLIPS = (
    RankSlip(DiagnosisKind.AVERAGED, None, lambda a: a.all_near(lambda g: g / len(a.right)),
             "is averaged over the {count} ranks, where {loss}"),
    RankSlip(DiagnosisKind.REDUCED_TWICE, None, lambda a: a.all_near(lambda g: g * len(a.right)),
             "is {count} times too large ({twice})"),
    RankSlip(DiagnosisKind.REDUCED_TWICE, None, lambda a: a.all_near(lambda g: g * len(a.right) ** 2),
             "is {count}**2 times too large (reduced three times)"),
    RankSlip(DiagnosisKind.NOT_REDUCED, True, lambda a: a.near(np.sum(a.claimed, axis=0), a.right[0]),
             "on every rank lacks the sum over ranks (an all-reduce in backward)"),
    RankSlip(DiagnosisKind.NOT_REDUCED, True, lambda a: a.near(np.sum(a.claimed, axis=0) / len(a.right), a.right[0]),
             "on every rank {mean} (an all-reduce in backward)"),
    RankSlip(DiagnosisKind.REDUCED_TWICE, False, lambda a: a.alike and a.each_near(np.sum(a.right, axis=0)),
             "is summed over the ranks, though each has a shard of its own (an all-reduce too many)"),
    RankSlip(DiagnosisKind.AVERAGED, False, lambda a: a.alike and a.each_near(np.sum(a.right, axis=0) / len(a.right)),
             "is averaged over the ranks, though each has a shard of its own (an all-reduce too many)"),
)
# fmt: on
_TWICE = {None: "reduced twice", "sum": "reduced twice", "mean": "summed over the ranks, where the loss is their mean"}
_PARTS_TOO_LARGE = "is a part of the sum over ranks, {count} times too large: it lacks the sum"
_MEAN = {None: _PARTS_TOO_LARGE, "sum": _PARTS_TOO_LARGE, "mean": "lacks the mean over ranks, which DDP takes"}
_NO_MEAN = {None: "the loss is one value", "sum": "the loss is a sum", "mean": "it is a mean already"}


def find_rank_mistake(wrong: Wrong) -> Diagnosis | None:
    """Return a diagnosis of what ranks tell each other, if one explains the claims of all of them; None elsewhere."""
    f = original_function(wrong.q.f)
    places = getattr(f, "by_rank", {})
    found: dict[tuple[DiagnosisKind, str], list[str]] = {}
    for name, place in places.items():
        if not any(np.any(wrong.masks.get(part, False)) for part in place.names):
            continue
        if any(part not in wrong.claimed for part in place.names):
            return None
        said = _mistake_in_one_input(wrong, name, place.names, place.replicated)
        if said is None:
            return None
        found.setdefault(said, []).append(name)
    if not found:
        return None
    loss = getattr(f, "loss", None)
    sentences = []
    for (_, says), names in found.items():
        whose = f"{names[0]}'s gradient" if len(names) == 1 else f"the gradient of {' and of '.join(names)}"
        count = len(place.names)
        mean = _MEAN[loss].format(count=count)
        of = says.format(count=count, loss=_NO_MEAN[loss], twice=_TWICE[loss], mean=mean)
        sentences.append(of if of.startswith("ranks ") else f"{whose} {of}")
    return wrong.says(next(iter(found))[0], "; ".join(sentences))


def _mistake_in_one_input(
    wrong: Wrong, name: str, parts: tuple[str, ...], shared: bool
) -> tuple[DiagnosisKind, str] | None:
    """Return the mistake in the gradients of one input on all ranks, and its sentence; None if none explains them."""
    claimed, right = ([np.asarray(of[part]) for part in parts] for of in (wrong.claimed, wrong.right))
    room = sum(np.max(wrong.room.get(part, 0.0), initial=0.0) for part in parts)
    scale = max(largest_magnitude(x) for x in (*right, *claimed))

    def near(a: Array, b: Array) -> bool:
        return bool(np.all(np.abs(a - b) <= CLOSE * np.maximum(np.abs(b), SMALL * scale) + room))

    arrays = RankArrays(claimed, right, near)
    for slip in RANK_SLIPS:
        if slip.of_shared in (shared, None) and slip.holds(arrays):
            return slip.kind, slip.says
    if shared:
        good = [k for k, c in enumerate(claimed) if near(c, right[k])]
        if good and not arrays.agree:
            bad = [k for k in range(len(parts)) if k not in good]
            says = f"ranks disagree about {name}'s gradient: that of {_name_ranks(good)} is right, that of {_name_ranks(bad)} is not"
            return DiagnosisKind.RANKS_DISAGREE, says
        return None
    own = _slopes_of_own_losses(wrong, name)
    if own and all(near(c, g) for c, g in zip(claimed, own, strict=True)):
        return DiagnosisKind.NOT_REDUCED, "lacks what the losses of the other ranks add (a reduce-scatter in backward)"
    from_others = [next((j for j, g in enumerate(right) if shape(g) == shape(c) and near(c, g)), None) for c in claimed]
    moved = [(k, j) for k, j in enumerate(from_others) if j != k]
    if moved and all(j is not None for _, j in moved):
        says = ", ".join(f"that of rank {k} is rank {j}'s" for k, j in moved)
        return DiagnosisKind.SWAPPED, f"is that of another shard: {says}"
    return None


def _slopes_of_own_losses(wrong: Wrong, name: str) -> list[Array]:
    """Return the derivative of each rank's own loss by its own shard; none where that would take too many calls."""
    f: Any = original_function(wrong.q.f)
    f = getattr(f, "ranked", f)
    try:
        wrong.budget.spend(2 * sum(size(f.point[part]) for part in f.by_rank[name].names))
    except BudgetSpent:
        return []
    return [*f.slopes_of_own(name)]


def _name_ranks(numbers: list[int]) -> str:
    return f"rank{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"
