"""Complex values as pairs of real ones, their arithmetic, and the numpy functions that accept them.

A pair runs each primitive as primitives on its real and its imaginary part. Every interpreter, nested or not, can
therefore differentiate complex intermediate values without code for them. An operation on a complex number and a traced
value makes a pair, and so does a Fourier transform; `.real`, `.imag`, `abs` and `angle` make real values of it again.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradcli.errors import NoRule, TraceEnded
from gradcli.rules.elementwise import ln, pi
from gradcli.rules.kinds import elementwise, make_refusal
from gradcli.rules.shaping import as_value
from gradcli.tracing import primitive as core
from gradcli.tracing.primitive import MOVE, F, Params, Primitive, Value, handle, handles
from gradcli.tracing.shapes import broadcast_like, is_number, shape, zeros_like
from gradcli.tracing.tracer import Tracer, make_view, plain_value

Part = Value | None  # None is exactly zero

# not analytic: where a value leaves a pair, its imaginary part is dropped, which the complex step needs
REAL = elementwise(lambda x: np.positive(x), 1.0, name="real", analytic=False, cost=MOVE)


class ComplexPair(Tracer):
    """A real and an imaginary part, in any arithmetic. Its level is above that of every sweep, which sees the parts only."""

    __slots__ = ("im", "re")
    level = math.inf
    leads = True
    scalar_class = np.complex128

    def __init__(self, re: Value, im: Value) -> None:
        self.re = re
        self.im = im
        self.storage = None

    def process(self, primitive: Primitive, xs: Sequence[Value], params: Params) -> Value:
        return run_on_pairs(primitive, xs, params)

    def hold(self, x: Value) -> Tracer:
        inner = next((part for part in (self.re, self.im) if isinstance(part, Tracer)), None)
        parts = np.array(np.real(x), dtype=float), np.array(np.imag(x), dtype=float)
        return ComplexPair(*(inner.hold(part) for part in parts)) if inner is not None else ComplexPair(*parts)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        own = OWN.get(function)
        if own is not None:
            return own(*args, **kwargs)
        if function not in TAKES:
            raise _no_rule_error(getattr(function, "__name__", str(function)))
        return super().__array_function__(function, types, args, kwargs)

    @property
    def primal(self) -> Value:
        return plain_value(self.re) + 1j * plain_value(self.im)

    @property
    def under(self) -> Value:
        """A traced part, if there is one; it determines the arithmetic of this value."""
        return self.re if isinstance(self.re, Tracer) else self.im

    @property
    def shape(self) -> tuple[int, ...]:
        return shape(self.re)

    @property
    def real(self) -> Value:
        """The real part, which is read-only."""
        return _view_of_part(self, "re")

    @property
    def imag(self) -> Value:
        """The imaginary part, which is read-only."""
        return _view_of_part(self, "im")

    def astype(self, dtype: Any, **kwargs: Any) -> "ComplexPair":
        if not np.issubdtype(np.dtype(dtype), np.complexfloating):
            raise TraceEnded("a complex value is converted to a real one", do="take .real, .imag or np.abs")
        return self

    def var(self, *args: Any, **kwargs: Any) -> Value:
        return _var(self, *args, **kwargs)

    def std(self, *args: Any, **kwargs: Any) -> Value:
        return np.sqrt(_var(self, *args, **kwargs))


def _view_of_part(x: ComplexPair, part: str) -> Value:
    """Return a part as a real value: a read-only view that follows later writes into the pair."""
    if not x.shape or not isinstance(getattr(x, part), Tracer):
        return REAL(getattr(x, part))

    def view(y: Any) -> Any:  # of the pair, or of the positions of its entries
        if type(y) is ComplexPair:
            return REAL(getattr(y, part))
        seen = y.view()
        seen.flags.writeable = False
        return seen

    return make_view(x, view)


def pair(re: Part, im: Part) -> ComplexPair:
    """Return the complex value with these parts, broadcast to their common shape."""
    first = im if re is None else re
    re, im = (zeros_like(first) if part is None else part for part in (re, im))
    if shape(re) != shape(im):
        both = zeros_like(re) + zeros_like(im)
        re, im = broadcast_like(re, both), broadcast_like(im, both)
    return ComplexPair(re, im)


def is_complex(x: Value) -> bool:
    """Return whether a value is complex, traced or not."""
    return type(x) is ComplexPair or (not isinstance(x, Tracer) and bool(np.iscomplexobj(x)))


def complex_parts(x: Value) -> tuple[Part, Part]:
    """Return the real and the imaginary part of any value; at most one of them is None."""
    if type(x) is ComplexPair:
        re, im = x.re, x.im
    elif is_complex(x):
        wide = np.asarray(x, dtype=np.complex128)
        re, im = wide.real.copy()[()], wide.imag.copy()[()]
    else:
        return x, None
    if _is_zero(im):
        return re, None
    return (None if _is_zero(re) else re), im


def _is_zero(part: Value) -> bool:
    return is_number(part) and not np.any(part)


def filled_parts(x: Value) -> tuple[Value, Value]:
    """Return the real and the imaginary part, as arrays of zeros where a part is None."""
    made = pair(*complex_parts(x))
    return made.re, made.im


def add_parts(a: Part, b: Part) -> Part:
    """Return the sum of two parts."""
    return b if a is None else a if b is None else a + b


def _no_rule_error(name: str) -> NoRule:
    return NoRule(f"{name} of a complex value has no derivative rule", do="take .real, .imag or np.abs first")


def run_on_pairs(primitive: Primitive, xs: Sequence[Value], params: Params) -> Value:
    """Run a primitive on operands of which at least one is complex.

    Raises  NoRule if the primitive has no rule for complex values, or would write one into a real array.
    """
    rule = RULES.get(primitive.name)
    if rule is not None:
        return rule(*xs, **params)
    if primitive.name == "put" and type(xs[0]) is not ComplexPair:
        raise NoRule("a complex value is written into a real array", do="make the array complex: 0j * x")
    if primitive.kind == "linear":
        return run_linear(primitive, xs, params)
    if primitive.kind == "bilinear":
        return _run_multilinear(primitive, xs, params)
    raise _no_rule_error(primitive.name)


def run_linear(primitive: Primitive, xs: Sequence[Value], params: Params) -> Value:
    """Run a linear primitive on the real parts and on the imaginary parts; both use the same leading operand (a condition)."""
    leading = getattr(primitive.rules[0], "leading", 0)
    split = [complex_parts(x) for x in xs[leading:]]
    made: list[Part] = []
    for k in (0, 1):
        mine = [found[k] for found in split]
        full = [zeros_like(x) if part is None else part for part, x in zip(mine, xs[leading:], strict=True)]
        nothing = all(part is None for part in mine)
        made.append(None if nothing else primitive(*xs[:leading], *full, **params))
    return pair(*made)


def _run_multilinear(primitive: Primitive, xs: Sequence[Value], params: Params) -> Value:
    """Run a multilinear primitive on every choice of parts; each imaginary part contributes a factor i."""
    split = [complex_parts(x) for x in xs]
    total: list[Part] = [None, None]
    for choice in itertools.product((0, 1), repeat=len(xs)):
        chosen = [found[k] for found, k in zip(split, choice, strict=True)]
        if any(part is None for part in chosen):
            continue
        y, turns = primitive(*chosen, **params), sum(choice) % 4
        total[turns % 2] = add_parts(total[turns % 2], -y if turns >= 2 else y)
    return pair(*total)


def _var(a: Value, *args: Any, **kwargs: Any) -> Value:
    """Return the mean squared distance from the mean."""
    return np.add(*(np.var(part, *args, **kwargs) for part in filled_parts(a)))


def _norm(x: Value, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Value:
    count = len(shape(x)) if axis is None else np.size(axis)
    if count == 2 and ord in (2, -2, "nuc"):
        raise _no_rule_error(f"norm of order {ord!r}")
    return np.linalg.norm(np.hypot(*filled_parts(x)), ord, axis, keepdims)


OWN: dict[Callable[..., Any], Callable[..., Any]] = {
    np.var: _var,
    np.std: lambda a, *args, **kwargs: np.sqrt(_var(a, *args, **kwargs)),
    np.linalg.norm: _norm,
}
_TAKES = """
    sum mean average prod cumsum cumprod dot vdot inner outer tensordot einsum kron trace diag diagflat diagonal convolve
    transpose permute_dims matrix_transpose swapaxes moveaxis rollaxis reshape ravel squeeze expand_dims broadcast_to
    broadcast_arrays concatenate concat stack unstack hstack vstack dstack column_stack block split array_split hsplit vsplit
    dsplit append insert delete where select diff flip fliplr flipud rot90 roll take take_along_axis compress extract repeat
    tile tril triu pad atleast_1d atleast_2d atleast_3d zeros_like ones_like empty_like full_like shape ndim size copy
    meshgrid vander sinc cross real imag angle iscomplexobj isrealobj iscomplex isreal any all allclose isclose array_equal
    polyval trapezoid gradient nansum count_nonzero nonzero cov
"""
_TAKES_LINALG = """
    solve inv matrix_power multi_dot matmul outer tensordot trace diagonal matrix_transpose vecdot cross tensorsolve tensorinv
"""
_TAKES_FFT = "fft ifft rfft irfft hfft ihfft fft2 ifft2 rfft2 irfft2 fftn ifftn rfftn irfftn fftshift ifftshift"
TAKES: set[Any] = {
    getattr(module, name)
    for module, names in ((np, _TAKES), (np.linalg, _TAKES_LINALG), (np.fft, _TAKES_FFT))
    for name in names.split()
    if hasattr(module, name)
}


@handles(np.conjugate)
def conjugate(x: Value) -> Value:
    """Return the complex conjugate; of a real value, itself."""
    if type(x) is ComplexPair:
        return ComplexPair(x.re, -x.im)
    return REAL(x) if isinstance(x, Tracer) else np.conjugate(x)


@handles(np.real)
def real(val: Value) -> Value:
    x = as_value(val)
    return x.real if type(x) is ComplexPair else REAL(x)


@handles(np.imag)
def imag(val: Value) -> Value:
    x = as_value(val)
    return x.imag if type(x) is ComplexPair else zeros_like(x)


@handles(np.angle)
def angle(z: Value, deg: bool = False) -> Value:
    re, im = filled_parts(as_value(z))
    y = np.arctan2(im, re)
    return np.degrees(y) if deg else y


handle({
    np.iscomplexobj: lambda x: type(x) is ComplexPair,
    np.iscomplex: lambda x: np.not_equal(np.imag(x), 0),
    np.isreal: lambda x: np.equal(np.imag(x), 0),
})  # fmt: skip


@handles(complex)
def as_complex(x: Value) -> ComplexPair:
    """Return a value as a complex pair; `astype(complex)` calls this."""
    return pair(*complex_parts(x))


core.ON_COMPLEX.append(run_on_pairs)


# The arithmetic of complex values, primitive by primitive, written with real operations on their parts.


def _negate_part(a: Part) -> Part:
    return None if a is None else -a


def _multiply_parts(a: Part, b: Part) -> Part:
    return None if a is None or b is None else a * b


def _subtract(a: Value, b: Value) -> ComplexPair:
    (ar, ai), (br, bi) = complex_parts(a), complex_parts(b)
    return pair(add_parts(ar, _negate_part(br)), add_parts(ai, _negate_part(bi)))


def _multiply(a: Value, b: Value) -> ComplexPair:
    (ar, ai), (br, bi) = complex_parts(a), complex_parts(b)
    return pair(
        add_parts(_multiply_parts(ar, br), _negate_part(_multiply_parts(ai, bi))),
        add_parts(_multiply_parts(ar, bi), _multiply_parts(ai, br)),
    )


def _divide(a: Value, b: Value) -> ComplexPair:
    br, bi = complex_parts(b)
    if bi is not None:
        size = add_parts(_multiply_parts(br, br), _multiply_parts(bi, bi))
        return _divide(_multiply(a, pair(br, -bi)), size)
    ar, ai = complex_parts(a)
    return pair(None if ar is None else ar / br, None if ai is None else ai / br)


def _integer_power(x: Value, *, n: int) -> Value:
    if n < 0:
        return _divide(1.0, _integer_power(x, n=-n))
    y: Value = None
    while n:
        if n & 1:
            y = x if y is None else y * x
        n >>= 1
        x = x * x if n else x
    return pair(zeros_like(x) + 1.0, None) if y is None else y


def _exp(x: Value) -> ComplexPair:
    re, im = complex_parts(x)
    size = None if re is None else np.exp(re)
    if im is None:
        return pair(size, None)
    turn = pair(np.cos(im), np.sin(im))
    return turn if size is None else _multiply(size, turn)


def _by_parts(parts: Callable[[Value, Value], tuple[Value, Value]]) -> Callable[[Value], ComplexPair]:
    """Return a function of a complex value whose parts are functions of the value's parts."""
    return lambda x: pair(*parts(*filled_parts(x)))


_log = _by_parts(lambda re, im: (np.log(np.hypot(re, im)), np.arctan2(im, re)))
_log1p = _by_parts(lambda re, im: (np.log1p(re * (2 + re) + im * im) / 2, np.arctan2(im, 1 + re)))
_sin = _by_parts(lambda re, im: (np.sin(re) * np.cosh(im), np.cos(re) * np.sinh(im)))
_cos = _by_parts(lambda re, im: (np.cos(re) * np.cosh(im), -np.sin(re) * np.sinh(im)))
_sinh = _by_parts(lambda re, im: (np.sinh(re) * np.cos(im), np.cosh(re) * np.sin(im)))
_cosh = _by_parts(lambda re, im: (np.cosh(re) * np.cos(im), np.sinh(re) * np.sin(im)))


def _sqrt(x: Value) -> ComplexPair:
    re, im = filled_parts(x)
    root, half = np.sqrt(np.hypot(re, im)), np.arctan2(im, re) / 2
    return pair(root * np.cos(half), root * np.sin(half))


def _power(x: Value, p: Value) -> Value:
    return np.exp(p * _log(x))


def _multiply_by_i(x: Value, sign: int = 1) -> ComplexPair:
    """Return i x, or -i x."""
    re, im = filled_parts(x)
    return pair(-sign * im, sign * re)


def _arcsinh(x: Value) -> ComplexPair:
    return _log(x + _sqrt(1 + x * x))


def _arcsin(x: Value) -> ComplexPair:
    return _multiply_by_i(_arcsinh(_multiply_by_i(x)), -1)


def _arctanh(x: Value) -> ComplexPair:
    return _divide(_subtract(_log1p(x), _log1p(-x)), 2.0)


def _absolute(x: Value) -> Value:
    re, im = complex_parts(x)
    if re is not None and im is not None:
        return np.hypot(re, im)
    alone: Value = im if re is None else re
    return np.abs(alone)


def _equal(a: Value, b: Value) -> Any:
    (ar, ai), (br, bi) = filled_parts(a), filled_parts(b)
    return np.logical_and(np.equal(ar, br), np.equal(ai, bi))


def _solve(a: Value, b: Value) -> ComplexPair:
    """Return the solution of a @ y = b, by the equivalent real system of twice the size."""
    (ar, ai), (br, bi) = filled_parts(a), filled_parts(b)
    upper, lower = np.concatenate([ar, -ai], axis=-1), np.concatenate([ai, ar], axis=-1)
    y = np.linalg.solve(np.concatenate([upper, lower], axis=-2), np.concatenate([br, bi], axis=-2))
    n = shape(ar)[-1]
    return pair(y[..., :n, :], y[..., n:, :])


# fmt: off
RULES: dict[str, Callable[..., Value]] = {  # how a primitive runs on complex operands, by its name
    "positive": lambda x: x, "negative": lambda x: run_linear(F.negative, [x], {}),
    "add": lambda a, b: pair(*map(add_parts, complex_parts(a), complex_parts(b))), "subtract": _subtract,
    "multiply": _multiply, "divide": _divide, "square": lambda x: _multiply(x, x),
    "reciprocal": lambda x: _divide(1.0, x), "integer_power": _integer_power, "power": _power,
    "expm1": _by_parts(lambda re, im: (
        np.expm1(re) * np.cos(im) - 2 * np.square(np.sin(im / 2)), np.exp(re) * np.sin(im))),
    "exp": _exp, "log": _log, "log1p": _log1p, "sqrt": _sqrt,
    "sin": _sin, "cos": _cos, "tan": lambda x: _divide(_sin(x), _cos(x)),
    "sinh": _sinh, "cosh": _cosh, "tanh": lambda x: _divide(_sinh(x), _cosh(x)),
    "arcsinh": _arcsinh, "arccosh": lambda x: _log(x + _multiply(_sqrt(x + 1), _sqrt(x - 1))), "arctanh": _arctanh,
    "arcsin": _arcsin, "arccos": lambda x: _subtract(pi(x) / 2, _arcsin(x)),
    "arctan": lambda x: _multiply_by_i(_arctanh(_multiply_by_i(x)), -1),
    "log2": lambda x: _divide(_log(x), ln(2, x)), "log10": lambda x: _divide(_log(x), ln(10, x)),
    "exp2": lambda x: _exp(x * ln(2, x)), "sign": lambda x: x / _absolute(x),
    "absolute": _absolute, "norm": lambda x: np.linalg.norm(np.concatenate([np.ravel(part) for part in filled_parts(x)])),
    "equal": _equal, "not_equal": lambda a, b: np.logical_not(_equal(a, b)),
    "isfinite": lambda x: np.logical_and(*map(np.isfinite, filled_parts(x))),
    "isnan": lambda x: np.logical_or(*map(np.isnan, filled_parts(x))),
    "isinf": lambda x: np.logical_or(*map(np.isinf, filled_parts(x))),
    "solve": _solve, "inv": lambda a: _solve(a, np.eye(shape(a)[-1])),
}
RULES |= dict.fromkeys(("less", "less_equal", "greater", "greater_equal", "maximum", "minimum", "max", "peaks"),
                       make_refusal("complex values have no order", "compare .real, .imag or np.abs"))
# fmt: on
