"""Balls (python-flint's `arb`): numbers with a proved bound on their error, and what `arb` has for each primitive.

A comparison of balls that overlap raises Undecided, unless they are equal and exact; flint itself returns False.
"""

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache, partial, reduce
from typing import Any, ClassVar

import numpy as np
from flint import acb, acb_mat, arb, arb_mat, ctx, fmpq

from gradcli.errors import NotSupported, Undecided
from gradcli.rules.special import gammainc_ball
from gradcli.tracing.primitive import F, Params, Primitive, Value
from gradcli.tracing.tracer import Arithmetic, Tracer

# Arithmetic on object arrays: the common base of balls and symbols.
#
# Elementwise primitives use a table of functions of single entries. Primitives that only move or add entries run without
# change, because numpy accepts object arrays in them.

EntryFunction = Callable[..., Any]


class Objectwise(Arithmetic):
    """A value whose entries are Python objects: one entry for a scalar, an object array otherwise."""

    __slots__ = ("value",)
    level = 0
    what: ClassVar[str]
    entries: ClassVar[dict[str, EntryFunction]]
    whole: ClassVar[dict[str, EntryFunction]]
    _ufuncs: ClassVar[dict[tuple[str, int], Any]]

    def __init__(self, value: Any) -> None:
        self.value = value
        self.storage = None

    def __init_subclass__(cls) -> None:
        cls._ufuncs = {}

    @classmethod
    def entry(cls, number: Any) -> Any:
        """Return one plain number as an entry."""
        raise NotImplementedError

    @classmethod
    def entries_of(cls, numbers: Any) -> Iterable[Any]:
        """Return an iterator over the entries for an array of plain numbers."""
        return map(cls.entry, numbers.reshape(-1).tolist())

    @classmethod
    def lift(cls, number: Value) -> Any:
        return cls(cls.objects(number))

    def hold(self, x: Value) -> Tracer:
        return type(self)(self.objects(x))

    @classmethod
    def objects(cls, x: Value) -> Any:
        """Return a value as an entry or an object array of entries; boolean arrays are returned without change."""
        if isinstance(x, Objectwise):
            return x.value
        if isinstance(x, float | int | np.floating | np.integer) and not isinstance(x, bool | np.bool_):
            return cls.entry(x)
        x = np.asarray(x)
        if x.dtype == bool or x.dtype == object:
            return x
        return np.fromiter(cls.entries_of(x), object, x.size).reshape(x.shape)[()]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape if type(self.value) is np.ndarray else ()

    def process(self, primitive: Primitive, xs: Sequence[Value], params: Params) -> Value:
        name = primitive.name
        objects = [self.objects(x) for x in xs]
        if name in self.whole:
            y = _unbox_entry(self.whole[name](*_box_entries(objects), **params))
        elif name in self.entries:
            y = self._apply_elementwise(name, objects, params)
        elif name in ("scatter", "sum"):
            y = _unbox_entry(self._add_entries(name, _box_entries(objects)[0], params))
        elif primitive.kind in ("linear", "bilinear"):
            y = _unbox_entry(primitive.fun(*_box_entries(objects), **params))
        elif primitive.body:
            return primitive.fun(*[x if isinstance(x, Tracer) else self.lift(x) for x in xs], **params)
        else:
            raise NotSupported(f"{primitive.title(params)} is not available in {self.what}")
        return np.asarray(y, dtype=bool)[()] if _is_truth(y) else type(self)(y)

    def _add_entries(self, name: str, x: Any, params: Params) -> Any:
        """Return a sum over axes, or entries added into zeros, with zeros of this arithmetic where nothing is added."""
        zero = self.entry(0)
        if name == "sum":
            return np.sum(x, axis=params["axis"], initial=zero)
        y = np.full(params["into"], zero, dtype=object)
        np.add.at(y, params["index"], x)
        return y

    def _apply_elementwise(self, name: str, objects: Sequence[Any], params: Params) -> Any:
        function = self.entries[name]
        if not any(type(x) is np.ndarray for x in objects):
            return function(*objects, **params)
        if params:
            return np.frompyfunc(functools.partial(function, **params), len(objects), 1)(*objects)
        key = (name, len(objects))
        if key not in self._ufuncs:
            self._ufuncs[key] = np.frompyfunc(function, len(objects), 1)
        return self._ufuncs[key](*objects)


def install_quick_operator(kind: type[Objectwise], name: str, dunder: str) -> None:
    """Make an operator of `kind` use its table directly for single entries; the results are those of `process`."""
    function = kind.entries[name]
    slow, reflected_slow = getattr(Tracer, f"__{dunder}__"), getattr(Tracer, f"__r{dunder}__")

    def entry_of(self: Objectwise, other: Any) -> Any:
        if type(self) is not kind or type(self.value) is np.ndarray:
            return None
        if type(other) is kind:
            return None if type(other.value) is np.ndarray else other.value
        return self.entry(other) if type(other) in _SINGLE else None

    def forward(self: Objectwise, other: Any) -> Any:
        b = entry_of(self, other)
        return slow(self, other) if b is None else kind(function(self.value, b))

    def reflected(self: Objectwise, other: Any) -> Any:
        b = entry_of(self, other)
        return reflected_slow(self, other) if b is None else kind(function(b, self.value))

    setattr(kind, f"__{dunder}__", forward)
    setattr(kind, f"__r{dunder}__", reflected)


_SINGLE = {float, int, np.float64}


def _box_entries(objects: Sequence[Any]) -> list[Any]:
    """Return values as arrays; a single entry becomes an array without axes."""
    boxed = []
    for x in objects:
        if type(x) is not np.ndarray:
            box = np.empty((), dtype=object)
            box[()] = x
            x = box
        boxed.append(x)
    return boxed


def array_of_entries(entries: Sequence[Any], shape: tuple[int, ...]) -> Any:
    """Return entries as an object array of a shape."""
    filled = np.empty(shape, dtype=object)
    filled.reshape(-1)[:] = entries
    return filled


def apply_to_stacks(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of matrices as a function of stacks of matrices, called matrix by matrix."""

    def of_stacks(*xs: Any, **params: Any) -> Any:
        stack = np.broadcast_shapes(*(x.shape[:-2] for x in xs))
        if not stack:
            return function(*xs, **params)
        xs = tuple(np.broadcast_to(x, stack + x.shape[-2:]) for x in xs)
        found = [function(*(x[at] for x in xs), **params) for at in np.ndindex(*stack)]
        entries = [entry for y in found for entry in (y.reshape(-1).tolist() if isinstance(y, np.ndarray) else [y])]
        return array_of_entries(entries, stack + getattr(found[0], "shape", ()) if found else stack)

    return of_stacks


def _unbox_entry(y: Any) -> Any:
    return y[()] if type(y) is np.ndarray and y.shape == () else y


def _is_truth(y: Any) -> bool:
    if type(y) is np.ndarray:
        return y.size > 0 and type(y.reshape(-1)[0]) in (bool, np.bool_)
    return type(y) in (bool, np.bool_)


# What python-flint's `arb` has for each primitive.


def less(a: arb, b: arb) -> bool:
    """Return whether a < b.

    Raises  Undecided if the balls overlap.
    """
    if a < b:
        return True
    if a >= b:
        return False
    raise undecided_error(a, b)


def equal(a: arb | bool, b: arb | bool) -> bool:
    """Return whether a == b; either may be the truth of another comparison.

    Raises  Undecided if the balls overlap and are not exact.
    """
    if isinstance(a, bool):
        a = arb(a)
    if isinstance(b, bool):
        b = arb(b)
    if a == b:
        return True
    if not a.overlaps(b):
        return False
    raise undecided_error(a, b)


def undecided_error(a: arb, b: arb) -> Undecided:
    """Return the error for two balls that overlap, so that a comparison cannot be decided."""
    return Undecided(
        f"{float(a.mid()):.6g} and {float(b.mid()):.6g} are too close to compare",
        do="the function may have a kink here",
    )


def sign(x: arb) -> arb:
    """Return -1, 0 or 1; raise Undecided if the ball contains 0 and is not exact."""
    return arb(0) if equal(x, arb(0)) else arb(-1) if less(x, arb(0)) else arb(1)


def heaviside(x: arb, middle: arb) -> arb:
    """Return 0, `middle` or 1; raise Undecided if the ball contains 0 and is not exact."""
    return middle if equal(x, arb(0)) else arb(0) if less(x, arb(0)) else arb(1)


def maximum(a: arb, b: arb) -> arb:
    """Return the larger of two balls; if they overlap, a ball that contains the maximum."""
    return a if a > b else b if b > a else a.max(b)


def _round_by(name: str) -> Callable[[arb], arb]:
    def step(x: arb) -> arb:
        y = getattr(x, name)()
        if y.is_exact():
            return y
        raise undecided_error(x, y)

    return step


def trunc(x: arb) -> arb:
    return _round_by("ceil")(x) if less(x, arb(0)) else _round_by("floor")(x)


def rint(x: arb) -> arb:
    """Round to nearest, halves to even."""
    low = _round_by("floor")(x)
    rest = x - low - arb("0.5")
    up = int(float(low)) % 2 == 1 if equal(rest, arb(0)) else less(arb(0), rest)
    return low + 1 if up else low


def power(x: arb, p: arb) -> arb:
    if p.is_exact() and p.is_integer() and abs(p) <= 10**6:
        return integer_power(x, n=int(float(p)))
    if x.is_zero() and p > 0:
        return arb(0)
    return x**p


def integer_power(x: arb, *, n: int) -> arb:
    """Return x**n by squaring; flint's power is nan for a ball around zero."""
    if isinstance(x, bool):
        x = arb(x)
    if n < 0:
        return 1 / integer_power(x, n=-n)
    y = None
    while n:
        if n & 1:
            y = x if y is None else y * x
        n, x = n >> 1, x * x if n > 1 else x
    return arb(1) if y is None else y


def cbrt(x: arb) -> arb:
    """Return the real cube root; negative for negative x."""
    return arb(0) if x.is_zero() else -((-x).root(3)) if x < 0 else x.root(3)


def logaddexp(a: arb, b: arb) -> arb:
    top, low = (b, a) if b > a else (a, b)
    return top + (low - top).exp().log1p()


# scipy.special's functions in ball arithmetic.


def gammaln(x: arb) -> arb:
    return x.lgamma() if x > 0 else abs(x.gamma()).log()


def expit(x: arb) -> arb:
    """Return 1 / (1 + exp(-x)), by the exponential that does not overflow."""
    if x > 0:
        return 1 / (1 + (-x).exp())
    e = x.exp()
    return e / (1 + e)


def root_2() -> arb:
    return arb(2).sqrt()


def ndtr(x: arb) -> arb:
    return (-x / root_2()).erfc() / 2


def log_ndtr(x: arb) -> arb:
    return (-((x / root_2()).erfc() / 2)).log1p() if x > 0 else ndtr(x).log()


def times_log(x: arb, log: arb) -> arb:
    """Return x log, 0 for x = 0."""
    return arb(0) if x.is_zero() else x * log


def pseudo_huber(d: arb, r: arb) -> arb:
    """Return d^2 (sqrt(1 + (r/d)^2) - 1) without cancellation."""
    return r * r / (1 + (1 + (r / d) * (r / d)).sqrt()) if d > 0 else arb.nan()


def relative_entropy(x: arb, y: arb) -> arb:
    """Return x log(x / y); nan unless x >= 0 and y > 0."""
    return times_log(x, (x / y).log()) if x >= 0 and y > 0 else arb.nan()


def elliptic_integral(name: str) -> Callable[[arb], arb]:
    """Return an elliptic integral, which is real for m < 1, and nan elsewhere."""
    return lambda m: getattr(acb(m), name)().real if m < 1 else arb.nan()


def scaled_bessel_i(v: arb, x: arb) -> arb:
    """Return exp(-|x|) I_v(x)."""
    return x.bessel_i(v) * (-abs(x)).exp()


def gammainc(a: arb, x: arb) -> arb:
    """Return the regularised lower incomplete gamma function; for large orders by a sum, where flint's takes long or is wide."""
    return gammainc_ball(a, x, n=0) if _has_large_order(a, x) else x.gamma_lower(a, regularized=1)


def gammaincc(a: arb, x: arb) -> arb:
    """Return the regularised upper incomplete gamma function."""
    return 1 - gammainc_ball(a, x, n=0) if _has_large_order(a, x) else x.gamma_upper(a, regularized=1)


def _has_large_order(a: arb, x: arb) -> bool:
    return bool(a > 200) and bool(x < 2 * a)


def student_cdf(df: arb, x: arb) -> arb:
    """Return the distribution function of Student's t: half an incomplete beta function, taken on the side without cancellation."""
    if x == 0:
        return arb(1) / 2
    tail = (df / (df + x * x)).beta_lower(df / 2, arb(1) / 2, regularized=1) / 2
    if x < 0:
        return tail
    if x > 0:
        return 1 - tail
    raise Undecided("the sign of the argument of stdtr is not known in balls", do="take another point")


def hyp2f1(a: arb, b: arb, c: arb, x: arb) -> arb:
    if not x < 1:
        raise Undecided("hyp2f1 is not known in balls from 1 on", do="take x < 1")
    return x.hypgeom_2f1(a, b, c)


# fmt: off
SPECIAL: dict[str, Callable[..., Any]] = {
    "erf": arb.erf, "erfc": arb.erfc, "erfi": arb.erfi, "erfinv": arb.erfinv, "erfcinv": arb.erfcinv,
    "erfcx": lambda x: (x * x).exp() * x.erfc(), "dawsn": lambda x: arb.pi().sqrt() / 2 * (-x * x).exp() * x.erfi(),
    "ndtr": ndtr, "log_ndtr": log_ndtr, "ndtri": lambda x: -root_2() * (2 * x).erfcinv(),
    "expit": expit, "logit": lambda x: (x / (1 - x)).log(), "exprel": lambda x: arb(1) if x.is_zero() else x.expm1() / x,
    "entr": lambda x: -times_log(x, x.log()), "xlogy": lambda a, b: times_log(a, b.log()), "xlog1py": lambda a, b: times_log(a, b.log1p()),
    "rel_entr": relative_entropy, "kl_div": lambda a, b: relative_entropy(a, b) - a + b,
    "pseudo_huber": pseudo_huber,
    "gamma": arb.gamma, "rgamma": arb.rgamma, "gammaln": gammaln, "loggamma": arb.lgamma, "digamma": arb.digamma,
    "polygamma": lambda x, *, n: acb(x).polygamma(n).real,
    "beta": lambda a, b: a.gamma() * b.gamma() * (a + b).rgamma(), "betaln": lambda a, b: gammaln(a) + gammaln(b) - gammaln(a + b),
    "j0": lambda x: x.bessel_j(0), "j1": lambda x: x.bessel_j(1), "y0": lambda x: x.bessel_y(0), "y1": lambda x: x.bessel_y(1),
    "i0": lambda x: x.bessel_i(0), "i1": lambda x: x.bessel_i(1), "i0e": lambda x: scaled_bessel_i(arb(0), x), "i1e": lambda x: scaled_bessel_i(arb(1), x),
    "k0": lambda x: x.bessel_k(0), "k1": lambda x: x.bessel_k(1),
    "k0e": lambda x: x.bessel_k(0, scaled=True), "k1e": lambda x: x.bessel_k(1, scaled=True),
    "jv": lambda v, x: x.bessel_j(v), "yv": lambda v, x: x.bessel_y(v), "iv": lambda v, x: x.bessel_i(v), "kv": lambda v, x: x.bessel_k(v),
    "ive": scaled_bessel_i, "kve": lambda v, x: x.bessel_k(v, scaled=True),
    "exp1": lambda x: x.expint(1), "expi": lambda x: -(-x).expint(1) if x < 0 else x.ei(), "expn": lambda n, x: x.expint(n),
    "si": arb.si, "ci": arb.ci, "shi": arb.shi, "chi": arb.chi, "fresnel_s": arb.fresnel_s, "fresnel_c": arb.fresnel_c,
    "spence": lambda x: (1 - x).polylog(2), "wrightomega": lambda x: x.exp().lambertw(),
    "ellipk": elliptic_integral("elliptic_k"), "ellipe": elliptic_integral("elliptic_e"), "ellipkm1": lambda p: elliptic_integral("elliptic_k")(1 - p),
    "sindg": lambda x: (x / 180).sin_pi(), "cosdg": lambda x: (x / 180).cos_pi(), "tandg": lambda x: (x / 180).tan_pi(), "cotdg": lambda x: (x / 180).cot_pi(),
    "gammainc": gammainc, "gammaincc": gammaincc,
    "stdtr": student_cdf, "gammainc_order": gammainc_ball,
    "betainc": lambda a, b, x: x.beta_lower(a, b, regularized=1), "betaincc": lambda a, b, x: (1 - x).beta_lower(b, a, regularized=1),
    "hyp0f1": lambda v, x: x.hypgeom_0f1(v), "hyp1f1": lambda a, b, x: x.hypgeom_1f1(a, b), "hyp2f1": hyp2f1, "hyperu": lambda a, b, x: x.hypgeom_u(a, b),
    "eval_jacobi": lambda n, a, b, x: x.jacobi_p(n, a, b), "eval_legendre": lambda n, x: x.legendre_p(n),
    "eval_gegenbauer": lambda n, a, x: x.gegenbauer_c(n, a), "eval_chebyt": lambda n, x: x.chebyshev_t(n), "eval_chebyu": lambda n, x: x.chebyshev_u(n),
    "eval_hermite": lambda n, x: x.hermite_h(n), "eval_hermitenorm": lambda n, x: (x / root_2()).hermite_h(n) / arb(2) ** (n / 2),
    "eval_laguerre": lambda n, x: x.laguerre_l(n), "eval_genlaguerre": lambda n, a, x: x.laguerre_l(n, a),
}


ENTRIES: dict[str, Callable[..., Any]] = {
    "positive": lambda x: +x, "negative": lambda x: -x,
    "add": lambda a, b: a + b, "subtract": lambda a, b: a - b, "multiply": lambda a, b: a * b, "divide": lambda a, b: a / b,
    "power": power, "integer_power": integer_power, "square": lambda x: x * x, "reciprocal": lambda x: 1 / x,
    "sqrt": arb.sqrt, "cbrt": cbrt, "absolute": abs, "hypot": lambda a, b: (a * a + b * b).sqrt(),
    "exp": arb.exp, "exp2": lambda x: arb(2) ** x, "expm1": arb.expm1, "log": arb.log, "log1p": arb.log1p,
    "log2": lambda x: x.log() / arb.const_log2(), "log10": lambda x: x.log() / arb.const_log10(), "logaddexp": logaddexp,
    "sin": arb.sin, "cos": arb.cos, "tan": arb.tan, "arcsin": arb.asin, "arccos": arb.acos, "arctan": arb.atan,
    "arctan2": lambda a, b: arb.atan2(a, b), "sinh": arb.sinh, "cosh": arb.cosh, "tanh": arb.tanh,
    "arcsinh": arb.asinh, "arccosh": arb.acosh, "arctanh": arb.atanh,
    "maximum": maximum, "minimum": lambda a, b: -maximum(-a, -b), "relu": lambda x: maximum(x, arb(0)),
    "remainder": lambda a, b: a - b * _round_by("floor")(a / b), "floor_divide": lambda a, b: _round_by("floor")(a / b),
    "fmod": lambda a, b: a - b * trunc(a / b), "logical_xor": lambda a, b: bool(a) != bool(b),
    "sign": sign, "heaviside": heaviside, "floor": _round_by("floor"), "ceil": _round_by("ceil"), "trunc": trunc, "rint": rint,
    "log_expit": lambda x: -logaddexp(arb(0), -x), **SPECIAL,
    "less": less, "greater": lambda a, b: less(b, a), "equal": equal, "not_equal": lambda a, b: not equal(a, b),
    "less_equal": lambda a, b: not less(b, a), "greater_equal": lambda a, b: not less(a, b),
    "isfinite": lambda x: bool(x.is_finite()), "isnan": lambda x: bool(x.is_nan()), "isinf": lambda x: not x.is_finite() and not x.is_nan(),
    "real": lambda x: x, "signbit": lambda x: less(x, arb(0)), "logical_not": lambda x: not x,
    "logical_and": lambda a, b: bool(a) and bool(b), "logical_or": lambda a, b: bool(a) or bool(b),
}
# fmt: on


def reduce_along(axis: tuple[int, ...], x: Any, function: Callable[[list[Any]], Any]) -> Any:
    """Return `function` of the entries along `axis`, an object array over the other axes."""
    kept = [k for k in range(x.ndim) if k not in axis]
    rows = np.transpose(x, (*kept, *axis)).reshape(*(x.shape[k] for k in kept), -1)
    if not kept:
        return function(rows.tolist())
    y = np.empty(rows.shape[:-1], dtype=object)
    for at in np.ndindex(*rows.shape[:-1]):
        y[at] = function(rows[at].tolist())
    return y


def peaks(x: Any, *, axis: tuple[int, ...]) -> Any:
    """Return 1 at the largest entries along the axes and 0 elsewhere; exact entries that are equal share the 1.

    Raises  Undecided if the largest entry overlaps with another one and they are not exact.
    """
    order = [k for k in range(x.ndim) if k not in axis] + list(axis)
    moved = np.transpose(x, order)
    flat = moved.reshape(*moved.shape[: x.ndim - len(axis)], -1)
    shares = np.empty(flat.shape, dtype=object)
    for at in np.ndindex(*flat.shape[:-1]):
        entries = flat[at].tolist()
        best = max(range(len(entries)), key=lambda k: float(entries[k].mid()))
        tied = [k for k, entry in enumerate(entries) if k == best or not less(entry, entries[best])]
        shares[at] = [arb(1) / len(tied) if k in tied else arb(0) for k in range(len(entries))]
    return np.transpose(shares.reshape(moved.shape), np.argsort(order))


def logsumexp(x: Any, *, axis: tuple[int, ...]) -> Any:
    def one(entries: list[Any]) -> Any:
        shift = max(entries, key=lambda e: float(e.mid())).mid()
        return sum(((entry - shift).exp() for entry in entries), arb(0)).log() + shift

    return reduce_along(axis, x, one)


# Matrix primitives in ball arithmetic, by the primitive's name: on object arrays of `arb`, through `arb_mat`.
#
# Arbitrary signs (of eigenvectors, of singular vectors and of the rows of R) are the signs that numpy chooses for the
# midpoints.

FLOAT64_BITS = 53
SLACK = 8.0  # in units of 2**-53: the error of LAPACK, relative to the largest entry, which is not in the balls
ITERATED = 4.0  # a factor on SLACK for a routine that computes singular values by iteration


def _as_matrix(a: Any) -> arb_mat:
    return arb_mat(a.shape[0], a.shape[1], a.reshape(-1).tolist())


def _as_array(m: arb_mat) -> Any:
    return array_of_entries(m.entries(), (m.nrows(), m.ncols()))


def _midpoints(a: Any) -> Any:
    return np.fromiter(map(float, a.reshape(-1).tolist()), np.float64, a.size).reshape(a.shape)


def _solve_or_undecided(solve: Callable[[], Any], what: str = "a matrix cannot be told from a singular one") -> Any:
    """Return `solve()`.

    Raises  Undecided if it divides by a ball that contains zero, or the result is not finite.
    """
    try:
        y = solve()
    except ZeroDivisionError:
        y = None
    if y is None or not all(entry.is_finite() for entry in y.reshape(-1).tolist()):
        raise Undecided(what, do="move the point, or add a multiple of eye(n)")
    return y


def _widen_to_float64(y: Any, condition: float = 1.0) -> Any:
    """Return `y`; balls of 53 bits, which must contain the float64 result, are widened by the error of LAPACK.

    That error is relative to the largest entry, times the condition number if a system is solved. flint's own balls may be
    narrower.
    """
    if ctx.prec > FLOAT64_BITS or not y.size:
        return y
    return y + _lapack_error(min(condition, 2.0**FLOAT64_BITS) * float(np.max(np.abs(_midpoints(y)))))


def _lapack_error(size: float) -> arb:
    return arb(0, SLACK * 2.0**-FLOAT64_BITS * size)


def _condition_number(a: Any) -> float:
    return float(np.linalg.cond(_midpoints(a))) if ctx.prec <= FLOAT64_BITS and a.size else 1.0


def _exact_balls(numbers: Any) -> Any:
    return array_of_entries([arb(x) for x in numbers.reshape(-1).tolist()], numbers.shape)


def _exact_solve(a: Any, b: Any) -> Any:
    return _solve_or_undecided(lambda: _as_array(_as_matrix(a).solve(_as_matrix(b))))


def _solve(a: Any, b: Any) -> Any:
    return _widen_to_float64(_exact_solve(a, b), _condition_number(a))


def _dot(a: Any, b: Any) -> Any:
    return _as_array(_as_matrix(a) * _as_matrix(b))


def _widened_product(a: Any, b: Any) -> Any:
    """Return the product; balls of 53 bits are widened, because float64 rounds every term of a sum, and balls only once."""
    y = _dot(a, b)
    if ctx.prec > FLOAT64_BITS or not y.size or a.shape[1] < 2:
        return y
    sizes = np.abs(_midpoints(a)) @ np.abs(_midpoints(b)) * (a.shape[1] * 2.0**-FLOAT64_BITS)
    return y + np.array([arb(0, size) for size in sizes.reshape(-1).tolist()], dtype=object).reshape(y.shape)


def _sum_of_squares(entries: list[Any]) -> arb:
    return sum((x * x for x in entries), arb(0))


def _cholesky(s: Any) -> Any:
    n = len(s)
    y = np.full((n, n), arb(0), dtype=object)
    for j in range(n):
        pivot = s[j, j] - _sum_of_squares(y[j, :j].tolist())
        if not pivot > 0:
            raise Undecided("a matrix cannot be told from one that is not positive", do="add a multiple of eye(n)")
        y[j, j] = pivot.sqrt()
        for i in range(j + 1, n):
            y[i, j] = (s[i, j] - np.dot(y[i, :j], y[j, :j])) / y[j, j]
    return _widen_to_float64(y)


def _eigenvalues(s: Any) -> Any:
    """Return the eigenvalues in ascending order: the k-th is between the k-th smallest lower and upper bounds of all."""
    m = acb_mat(_as_matrix(s))
    try:
        found = [value.real for value in m.eig(multiple=True)] if len(s) else []
    except ValueError:
        raise _equal_values_error() from None
    lower, upper = sorted(x.lower() for x in found), sorted(x.upper() for x in found)
    return array_of_entries([low.union(high) for low, high in zip(lower, upper, strict=True)], (len(s),))


def _equal_values_error() -> Undecided:
    return Undecided("eigenvalues or singular values cannot be told apart", do="they have a kink where two are equal")


def _eigenvectors(s: Any, like: Any) -> Any:
    """Return the eigenvectors in the columns, eigenvalues ascending, with the signs of the float64 columns of `like`."""
    n = len(s)
    try:
        values, right = acb_mat(_as_matrix(s)).eig(right=True)
    except ValueError:
        raise _equal_values_error() from None
    reals = [value.real for value in values]
    order = sorted(range(n), key=lambda k: reals[k].mid())
    if any(reals[a].overlaps(reals[b]) for a, b in itertools.pairwise(order)):
        raise _equal_values_error()
    columns = [_unit_vector([right[i, k] for i in range(n)], like[:, column]) for column, k in enumerate(order)]
    return _solve_or_undecided(lambda: np.stack(columns, axis=-1), "an eigenvector is not known")


def _unit_vector(entries: list[acb], like: Any) -> Any:
    """Return a real vector of length 1 from any complex multiple of it, with the sign of `like`."""
    largest = max(range(len(entries)), key=lambda i: float(abs(entries[i]).mid()))
    real = [(entry / entries[largest]).real for entry in entries]
    length = _sum_of_squares(real).sqrt() * (-1 if like[largest] < 0 else 1)
    return array_of_entries([x / length for x in real], (len(real),))


def _singular_values(a: Any) -> Any:
    """Return the roots of the eigenvalues of the smaller Gram matrix, descending."""
    found = _eigenvalues(_dot(a.T, a) if a.shape[0] >= a.shape[1] else _dot(a, a.T))
    return array_of_entries([x.nonnegative_part().sqrt() for x in found.tolist()[::-1]], found.shape)


def _singular_vectors(a: Any) -> Any:
    u, _, vt = np.linalg.svd(_midpoints(a), full_matrices=False)
    if a.shape[0] >= a.shape[1]:
        right = _eigenvectors(_dot(a.T, a), vt[::-1].T)[:, ::-1]
        return np.concatenate([_normalise_columns(_dot(a, right)), right])
    left = _eigenvectors(_dot(a, a.T), u[:, ::-1])[:, ::-1]
    return np.concatenate([left, _normalise_columns(_dot(a.T, left))])


def _normalise_columns(a: Any) -> Any:
    """Return `a` with columns of length 1."""
    lengths = array_of_entries([_sum_of_squares(column).sqrt() for column in a.T.tolist()], (a.shape[1],))
    return _solve_or_undecided(lambda: a / lengths, "a singular value cannot be told from zero")


def _pinv(a: Any, *, rcond: float) -> Any:
    """Return the pseudo-inverse of a matrix of full rank."""
    tall = a.shape[0] >= a.shape[1]
    y = _exact_solve(_dot(a.T, a), a.T) if tall else _exact_solve(_dot(a, a.T), a).T
    return _widen_to_float64(y, ITERATED * _condition_number(a))


def _qr(a: Any) -> Any:
    """Return Q stacked on top of R, by the Gram-Schmidt process, with numpy's signs."""
    rows, columns = a.shape
    signs = np.where(np.diagonal(np.linalg.qr(_midpoints(a))[1]) < 0, -1, 1).tolist()
    q, r = np.empty((rows, columns), dtype=object), np.full((columns, columns), arb(0), dtype=object)
    for k in range(columns):
        rest = a[:, k]
        for j in range(k):
            r[j, k] = np.dot(q[:, j], rest)
            rest = rest - q[:, j] * r[j, k]
        r[k, k] = _sum_of_squares(rest.tolist()).sqrt() * signs[k]
        q[:, k] = rest / r[k, k]
    dependent = "the columns of a matrix cannot be told from dependent ones"
    return _solve_or_undecided(lambda: np.concatenate([_widen_to_float64(q), _widen_to_float64(r)]), dependent)


@lru_cache(maxsize=8)
def _wave_matrix(n: int, sine: bool, bits: int) -> arb_mat:
    """Return cos(2 pi j k / n) at row j and column k, or the sine."""
    wave = arb.sin_pi_fmpq if sine else arb.cos_pi_fmpq
    table = [wave(fmpq(2 * k, n)) for k in range(n)]
    return arb_mat(n, n, [table[j * k % n] for j in range(n) for k in range(n)])


def _fourier_transform(sine: bool) -> Callable[..., Any]:
    def transform(x: Any, *, axis: int) -> Any:
        last = np.moveaxis(x, axis, -1)
        n = last.shape[-1]
        rows = last.reshape(-1, n)
        y = _as_array(_as_matrix(rows) * _wave_matrix(n, sine, ctx.prec))
        if ctx.prec <= FLOAT64_BITS:  # the error of a fast transform is relative to the norm of the whole row
            y = y + np.array([[_lapack_error(float(length))] for length in np.linalg.norm(_midpoints(rows), axis=1)])
        return np.moveaxis(y.reshape(last.shape), -1, axis)

    return transform


# The square root and the logarithm of a matrix in ball arithmetic, each with a proof that the result is one.

_MOST_ROWS = 16  # of a matrix whose root is proved: the proof solves a system with the square of that many rows
_MOST_STEPS = 60
_NEAR = 0.25  # of the largest entry times the rows: so near to the identity the series of the logarithm is short


def matrix_root(a: arb_mat) -> arb_mat:
    """Return the principal square root.

    X is found by Newton's method on midpoints. The error E solves XE + EX = A - X^2 - E^2; with K the inverse of the linear
    part and r = K(A - X^2), an E with |E| <= 2|r| exists if 4 |K| |r| < 1 (Newton and Kantorovich).

    Raises  Undecided if the iteration does not converge, or the proof fails.
    """
    n = a.nrows()
    if n % 2 == 0 and all(a[i, j].is_zero() for i in range(n // 2, n) for j in range(n // 2)):
        return _root_of_blocks(a)
    if n > _MOST_ROWS:
        says = f"the root of a matrix of more than {_MOST_ROWS} rows is not proved"
        raise Undecided(says, do="take a smaller matrix")
    x = _approximate_root(a)
    try:
        inverse = _sylvester_matrix(x, x).inv()
    except ZeroDivisionError:
        raise _unproved_error() from None
    rest = a - x * x
    moved = inverse * arb_mat(n * n, 1, rest.entries())
    error, size = _largest_magnitude(moved), _largest_row_sum(inverse)
    if not 4 * size * n * error < 1:
        raise _unproved_error()
    radius = (2 * error).upper()
    return arb_mat(n, n, [entry + arb(0, radius) for entry in x.entries()])


def _unproved_error() -> Undecided:
    return Undecided("a square root of a matrix is not proved", do="move the point away from matrices without a root")


def _approximate_root(a: arb_mat) -> arb_mat:
    """Return a midpoint matrix near the root, by the product form of the iteration of Denman and Beavers."""
    n = a.nrows()
    x, y = a.mid(), arb_mat(n, n, 1)
    for _ in range(_MOST_STEPS):
        try:
            following = ((x + y.inv()) / 2).mid(), ((y + x.inv()) / 2).mid()
        except ZeroDivisionError:
            raise _unproved_error() from None
        moved = _largest_magnitude(following[0] - x)
        x, y = following
        if moved < arb(2) ** (8 - ctx.prec) * (1 + _largest_magnitude(x)):
            return x
    raise _unproved_error()


def _root_of_blocks(a: arb_mat) -> arb_mat:
    """Return the root of [[P, Q], [0, R]], as a rule takes it for a derivative: [[X, Z], [0, Y]], where XZ + ZY = Q."""
    h = a.nrows() // 2
    p, q, r = (
        arb_mat(h, h, [a[i + down, j + right] for i in range(h) for j in range(h)])
        for down, right in ((0, 0), (0, h), (h, h))
    )
    x = matrix_root(p)
    y = x if p.entries() == r.entries() else matrix_root(r)
    try:
        z = _sylvester_matrix(x, y).solve(arb_mat(h * h, 1, q.entries()))
    except ZeroDivisionError:
        raise _unproved_error() from None
    upper = [[x[i, j] for j in range(h)] + [z[i * h + j, 0] for j in range(h)] for i in range(h)]
    lower = [[arb(0)] * h + [y[i, j] for j in range(h)] for i in range(h)]
    return arb_mat(upper + lower)


def _sylvester_matrix(x: arb_mat, y: arb_mat) -> arb_mat:
    """Return the matrix of E -> XE + EY, for E as one column of rows."""
    n = x.nrows()
    entries = [arb(0)] * n**4
    for i in range(n):
        for j in range(n):
            row = (i * n + j) * n * n
            for k in range(n):
                entries[row + k * n + j] += x[i, k]
                entries[row + i * n + k] += y[k, j]
    return arb_mat(n * n, n * n, entries)


def _largest_magnitude(m: arb_mat) -> arb:
    return reduce(arb.max, (abs(entry).upper() for entry in m.entries()), arb(0))


def _largest_row_sum(m: arb_mat) -> arb:
    sums = (sum((abs(entry).upper() for entry in row), arb(0)) for row in m.tolist())
    return reduce(arb.max, sums, arb(0))


def matrix_logarithm(a: arb_mat) -> arb_mat:
    """Return the principal logarithm: roots until the matrix is near the identity, then the series, with its remainder.

    Raises  Undecided if a root is not proved.
    """
    n, times = a.nrows(), 0
    while not _largest_magnitude(a - arb_mat(n, n, 1)) * n < _NEAR:
        a, times = matrix_root(a), times + 1
        if times > _MOST_STEPS:
            raise _unproved_error()
    z = a - arb_mat(n, n, 1)
    size = _largest_magnitude(z) * n
    power, total, k = z, z, 1
    while size**k > arb(2) ** (-ctx.prec - 8) and k < 4 * ctx.prec:
        k += 1
        power = power * z
        total = total + power / k if k % 2 else total - power / k
    remainder = (size ** (k + 1) / ((k + 1) * (1 - size))).upper()
    scale = arb(2) ** times
    return arb_mat(n, n, [scale * (entry + arb(0, remainder)) for entry in total.entries()])


# fmt: off
MATRICES: dict[str, Callable[..., Any]] = {  # of one matrix; of two, if they are a product or an equation
    "matmul": _widened_product,
    "det": lambda a: _as_matrix(a).det(),
    "logdet": lambda a: abs(_as_matrix(a).det()).log(),
    "inv": lambda a: _solve_or_undecided(lambda: _as_array(_as_matrix(a).inv())),
    "solve": _solve,
    "cholesky": _cholesky,
    "eigvalsh": lambda s, *, uplo: _eigenvalues(s),
    "eigenvectors": lambda s, *, uplo: _eigenvectors(s, np.linalg.eigh(_midpoints(s), uplo)[1]),
    "svdvals": _singular_values,
    "singular_vectors": _singular_vectors,
    "eigenvector_signs": lambda s, *, uplo: _exact_balls(F.eigenvector_signs(_midpoints(s), uplo=uplo)),
    "singular_vector_signs": lambda a: _exact_balls(F.singular_vector_signs(_midpoints(a))),
    "pinv": _pinv,
    "qr": _qr,
    "expm": lambda a: _widen_to_float64(
        _as_array(_as_matrix(a).exp()), ITERATED * (1.0 + len(a) * float(np.max(np.abs(_midpoints(a)), initial=0.0)))),
    "logm": lambda a: _widen_to_float64(_as_array(matrix_logarithm(_as_matrix(a))), ITERATED * _condition_number(a)),
    "sqrtm": lambda a: _widen_to_float64(_as_array(matrix_root(_as_matrix(a))), ITERATED * _condition_number(a)),
}
WHOLE: dict[str, Callable[..., Any]] = {
    "max": lambda x, *, axis: reduce_along(axis, x, partial(reduce, maximum)),
    "peaks": peaks,
    "norm": lambda x: _sum_of_squares(np.reshape(x, -1).tolist()).sqrt(),
    "logsumexp": logsumexp,
    "dft_cos": _fourier_transform(sine=False),
    "dft_sin": _fourier_transform(sine=True),
    **{name: apply_to_stacks(function) for name, function in MATRICES.items()},
}
# fmt: on


# Balls: arbitrary-precision numbers that carry a proved bound on their error (python-flint's `arb`).


class Ball(Objectwise):
    """A ball, or an array of balls; each contains the exact result of the operations on the exact operands."""

    __slots__ = ()
    what = "ball arithmetic"
    entries = ENTRIES
    whole = WHOLE

    @classmethod
    def entry(cls, number: Any) -> arb:
        return arb(float(number)) if isinstance(number, float | np.floating) else arb(int(number))

    @classmethod
    def entries_of(cls, numbers: Any) -> Iterator[arb]:
        return map(arb, numbers.reshape(-1).tolist())

    @classmethod
    def lift_constant(cls, name: str, value: Value) -> Any:
        return cls(ball_of_constant(name, value))

    @property
    def moves(self) -> bool:
        """Whether it is more than one number; a ball without a radius is as good as a plain one."""
        return bool(np.any(radius(self) > 0))

    @property
    def primal(self) -> Value:
        return nearest_float64(self)


for _name, _dunder in (("add", "add"), ("subtract", "sub"), ("multiply", "mul"), ("divide", "truediv")):
    install_quick_operator(Ball, _name, _dunder)
_EXACT = ContextVar("exact constants", default=False)


def ball_of_constant(name: str, value: Value) -> arb:
    """Return pi or e: their float64 `value`, or inside `exact_constants` a ball around them of the precision that is set."""
    if not _EXACT.get():
        return arb(float(value))
    return arb.pi() if name == "pi" else arb.const_e()


@contextmanager
def exact_constants() -> Iterator[None]:
    """Take pi and e themselves inside the context, not the float64 of that name."""
    token = _EXACT.set(True)
    try:
        yield
    finally:
        _EXACT.reset(token)


@contextmanager
def precision(bits: int) -> Iterator[None]:
    """Compute with `bits` bits inside the context; restore the former precision on exit, also when user code raises."""
    before = ctx.prec
    ctx.prec = bits
    try:
        yield
    finally:
        ctx.prec = before


def _entries_and_shape(x: Value) -> tuple[list[arb], tuple[int, ...]]:
    entries = Ball.objects(x)
    return (entries.reshape(-1).tolist(), entries.shape) if type(entries) is np.ndarray else ([entries], ())


def nearest_float64(x: Value) -> Value:
    """Return the midpoints, rounded to float64."""
    if type(x) is Ball and type(x.value) is arb:
        return np.float64(float(x.value))
    entries, shape = _entries_and_shape(x)
    return np.fromiter(map(float, entries), np.float64, len(entries)).reshape(shape)[()]


def radius(x: Value) -> Value:
    """Return the radii, rounded up to float64; infinite where a ball is not finite."""
    if type(x) is Ball and type(x.value) is arb:
        return np.float64(round_up(x.value.rad()) if math.isfinite(float(x.value)) else math.inf)
    entries, shape = _entries_and_shape(x)
    known = np.isfinite(np.fromiter(map(float, entries), np.float64, len(entries)))
    return np.where(known, _round_up_all(list(map(arb.rad, entries))), np.inf).reshape(shape)[()]


def decimal_strings(x: Value, digits: int) -> Any:
    """Return the midpoints as decimal strings of `digits` significant digits, in an object array."""
    entries = np.asarray(Ball.objects(x), dtype=object)
    written = [str(entry.mid().str(digits, radius=False)) for entry in entries.reshape(-1).tolist()]
    return np.array(written, dtype=object).reshape(entries.shape)


def bound_error(x: Value, approximate: Value) -> Value:
    """Return a float64 upper bound on |approximate - x|, entry by entry.

    Shapes  `approximate` and x broadcast; the bound has their common shape.
    Error   rounded up, and zero only if the error is zero; infinite where a ball is not finite.
    """
    if type(x) is Ball and type(x.value) is arb and isinstance(approximate, float):
        apart = Ball.entry(approximate) - x.value
        return np.float64(round_up(abs(apart).upper()) if apart.is_finite() else math.inf)
    entries, shape = _entries_and_shape(np.subtract(Ball.lift(approximate), x))
    bounds = _round_up_all([abs(entry).upper() if entry.is_finite() else _INFINITE for entry in entries])
    return bounds.reshape(shape)[()]


def round_up(bound: arb) -> float:
    """Return an exact bound as a float64 number that is not smaller; zero only for zero."""
    return 0.0 if bound.is_zero() else math.nextafter(float(bound), math.inf)


def _round_up_all(bounds: list[arb]) -> Any:
    """Return exact bounds as float64 numbers that are not smaller; zero only for zero."""
    floats = np.fromiter(map(float, bounds), np.float64, len(bounds))
    up = np.nextafter(floats, np.inf)
    for k in np.flatnonzero(floats == 0).tolist():
        up[k] = round_up(bounds[k])
    return up


_INFINITE = arb("inf")
