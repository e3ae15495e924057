"""Slips in one partial: the expressions that people write instead. A row is an argument of a primitive and a slip."""

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from gradcli.classes import dataclass
from gradcli.rules.kinds import ConstantSlope, Partial
from gradcli.rules.linalg import INV, LOGDET, MATMUL, SOLVE
from gradcli.rules.reductions import CUMSUM, LOGSUMEXP, MAX, SUM
from gradcli.tracing.primitive import Params, Primitive, Rule, Transposer, Value, table_by_name
from gradcli.tracing.shapes import shape, size, unbroadcast
from gradcli.words import DiagnosisKind


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
_SAME = 1e-12  # relative: the rounding of 1/n
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
            is_named = not re.fullmatch(r"[-+\d.e_()]+", operand)
            count = f" ({operand} = {constant:.0f})" if is_count and is_named else ""
            quoted = operand if re.fullmatch(r"[\w.]+", operand) or not inverse else f"({operand})"
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
    if abs(n) < 2 or abs(factor * n - 1) > _SAME:
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
