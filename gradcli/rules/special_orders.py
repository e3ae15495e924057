"""scipy.special's functions with an order, its functions made of others, and the look-up of a handler for each ufunc."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from gradcli.errors import NoRule
from gradcli.rules.elementwise import pi
from gradcli.rules.kinds import Partial
from gradcli.rules.special_parts import (
    Chebyshev,
    Confluent,
    Laguerre,
    Late,
    Modified,
    Oscillating,
    Polynomial,
    Refusal,
    counted,
    inaccurate_hyperu,
)
from gradcli.tracing.bind import found_late
from gradcli.tracing.primitive import PRIMITIVES, Primitive, Value, declare, named
from gradcli.tracing.tracer import Tracer, exact, plain
from gradcli.tracing.unmoving import is_zero


@dataclass(frozen=True, slots=True)
class ByOrder:
    """The rule of an order: the derivative has no closed form, and NoRule is raised."""

    what: str

    def push(self, *args: Any) -> Value:
        """Raise NoRule."""
        raise self.error()

    def pull(self, *args: Any) -> Value:
        """Raise NoRule."""
        raise self.error()

    def error(self) -> NoRule:
        """Return the error that names the function."""
        return NoRule(f"{self.what} has no derivative by its order", do="pass the order as a plain number")


def ordered(
    name: str, *partials: Callable[..., Value] | None, kind: Callable[..., Late] = Late, refuses: Refusal | None = None
) -> Primitive:
    """Declare a function of scipy.special; None in place of a partial marks an order.

    `refuses` returns an error for arguments at which scipy's values are wrong, else None.
    """
    rules = tuple(ByOrder(name) if partial is None else Partial(partial) for partial in partials)
    fun = kind(name, refuses=refuses)
    return declare(Primitive(name, fun, rules, on=(), analytic=False))


def polynomial(
    name: str, *partials: Callable[..., Value] | None, kind: Callable[..., Late] = Polynomial, whole: bool = False
) -> Primitive:
    """Declare a family of polynomials of scipy.special by degree; `whole` refuses degrees other than 0, 1, 2, ..."""
    return ordered(name, *partials, kind=kind, refuses=counted(name) if whole else None)


def _shifted(name: str, sign: float) -> Callable[..., Value]:
    """Return the slope of a Bessel function: half the sum or difference of the neighbouring orders."""
    return lambda y, v, x: (named(name)(v - 1, x) + sign * named(name)(v + 1, x)) / 2


def _lower(name: str, n: Value, *rest: Value) -> Value:
    """Return a polynomial of one degree less, 0 for degree 0."""
    flat = is_zero(n)
    return np.where(flat, 0.0, named(name)(np.where(flat, 1, n) - 1, *rest))


def _expn_slope(y: Value, n: Value, x: Value) -> Value:
    first = is_zero(n)
    return np.where(first, -np.exp(-x) * (1 / x + 1 / (x * x)), -named("expn")(np.where(first, 1, plain(n)) - 1, x))


def _jacobi_slope(y: Value, n: Value, a: Value, b: Value, x: Value) -> Value:
    return (n + a + b + 1) / 2 * _lower("eval_jacobi", n, a + 1, b + 1, x)


def _hyp2f1_slope(y: Value, a: Value, b: Value, c: Value, x: Value) -> Value:
    # hyp2f1 has a pole at c = 0, -1, ... unless its series ends before.
    ends, last = -np.maximum(_degree(a), _degree(b)), -_degree(c)
    pole = np.isfinite(last) & (ends > last)
    return np.where(pole, np.nan, a * b / c) * named("hyp2f1")(a + 1, b + 1, c + 1, x)


def _degree(a: Value) -> Value:
    """Return `a` where it is one of 0, -1, -2, ..., and -inf elsewhere."""
    a = plain(a)
    return np.where((a <= 0) & (a == np.floor(a)), a, -np.inf)


# fmt: off
#       name                dy/d order  ...  dy/dx
ordered("jv",               None, _shifted("jv", -1.0), kind=partial(Oscillating, second=False))
ordered("yv",               None, _shifted("yv", -1.0), kind=partial(Oscillating, second=True))
ordered("iv",               None, _shifted("iv", 1.0), kind=Modified)
ordered("kv",               None, lambda y, v, x: -_shifted("kv", 1.0)(y, v, x))
ordered("ive",              None, lambda y, v, x: _shifted("ive", 1.0)(y, v, x) - np.sign(x) * y, kind=Modified)
ordered("kve",              None, lambda y, v, x: y - _shifted("kve", 1.0)(y, v, x))
ordered("expn",             None, _expn_slope, refuses=counted("expn"))
ordered("hyp0f1",           None, lambda y, v, x: named("hyp0f1")(v + 1, x) / v)
ordered("hyp1f1",           None, None, lambda y, a, b, x: a / b * named("hyp1f1")(a + 1, b + 1, x), kind=Confluent)
ordered("hyp2f1",           None, None, None, _hyp2f1_slope)
ordered("hyperu",           None, None, lambda y, a, b, x: -a * named("hyperu")(a + 1, b + 1, x), refuses=inaccurate_hyperu)
polynomial("eval_jacobi",      None, None, None, _jacobi_slope)
polynomial("eval_legendre",    None, lambda y, n, x: (n + 1) / 2 * _lower("eval_jacobi", n, np.float64(1), np.float64(1), x))
polynomial("eval_gegenbauer",  None, None, lambda y, n, a, x: 2 * a * _lower("eval_gegenbauer", n, a + 1, x))
polynomial("eval_chebyt",      None, lambda y, n, x: n * _lower("eval_chebyu", n, x), kind=Chebyshev)
polynomial("eval_chebyu",      None, lambda y, n, x: 2 * _lower("eval_gegenbauer", n, np.float64(2), x))
polynomial("eval_hermite",     None, lambda y, n, x: 2 * n * _lower("eval_hermite", n, x), whole=True)
polynomial("eval_hermitenorm", None, lambda y, n, x: n * _lower("eval_hermitenorm", n, x), whole=True)
polynomial("eval_laguerre",    None, lambda y, n, x: -_lower("eval_genlaguerre", n, np.float64(1), x), kind=Laguerre)
polynomial("eval_genlaguerre", None, None, lambda y, n, a, x: -_lower("eval_genlaguerre", n, a + 1, x), kind=Laguerre)
# fmt: on


def huber(delta: Value, r: Value) -> Value:
    """Return r^2 / 2 where |r| <= delta, and its linear continuation elsewhere; infinity for a negative delta."""
    size = np.abs(r)
    inside = np.less_equal(size, delta)
    y = np.where(inside, np.square(r) / 2, delta * (size - delta / 2))
    return np.where(plain(delta) < 0, np.inf, y) if np.any(plain(delta) < 0) else y


def _power_difference(t: Value, lmbda: Value) -> Value:
    """Return (exp(lmbda t) - 1) / lmbda; at lmbda = 0 it is t, and the first three derivatives are exact."""
    flat = is_zero(lmbda)
    near = t + lmbda * t * t / 2 + lmbda * lmbda * t**3 / 6 + lmbda**3 * t**4 / 24
    return np.where(flat, near, np.expm1(lmbda * t) / np.where(flat, 1.0, lmbda))


def boxcox(x: Value, lmbda: Value) -> Value:
    """Return (x^lmbda - 1) / lmbda, and log(x) for lmbda = 0."""
    return _power_difference(np.log(x), lmbda)


def boxcox1p(x: Value, lmbda: Value) -> Value:
    """Return boxcox(1 + x)."""
    return _power_difference(np.log1p(x), lmbda)


def _log_quotient(y: Value, lmbda: Value) -> Value:
    """Return log(1 + lmbda y) / lmbda; at lmbda = 0 it is y, and the first three derivatives are exact."""
    flat = is_zero(lmbda)
    near = y - lmbda * y * y / 2 + lmbda * lmbda * y**3 / 3 - lmbda**3 * y**4 / 4
    return np.where(flat, near, np.log1p(lmbda * y) / np.where(flat, 1.0, lmbda))


def inv_boxcox(y: Value, lmbda: Value) -> Value:
    """Return the inverse of boxcox."""
    return np.exp(_log_quotient(y, lmbda))


def binom(n: Value, k: Value) -> Value:
    """Return the binomial coefficient n over k, by the beta function."""
    return 1 / ((n + 1) * named("beta")(1 + n - k, 1 + k))


def _shift(name: str) -> Callable[..., Value]:
    """Return a family of polynomials, evaluated at 2x - 1."""
    return lambda n, x: named(name)(n, 2.0 * x - 1.0)


COMPOSITES: dict[str, Callable[..., Any]] = {
    "huber": huber, "boxcox": boxcox, "boxcox1p": boxcox1p, "inv_boxcox": inv_boxcox,
    "inv_boxcox1p": lambda y, lmbda: np.expm1(_log_quotient(y, lmbda)),
    "binom": binom, "poch": lambda z, m: named("gamma")(z + m) * named("rgamma")(z),
    "cosm1": lambda x: -2 * np.square(np.sin(x / 2)), "powm1": lambda x, y: np.expm1(y * np.log(x)),
    "exp10": lambda x: np.power(exact(10, x), x), "radian": lambda d, m, s: (d + m / 60 + s / 3600) * (pi(d) / 180),
    "sici": lambda x: (named("si")(x), named("ci")(x)), "shichi": lambda x: (named("shi")(x), named("chi")(x)),
    "fresnel": lambda x: (named("fresnel_s")(x), named("fresnel_c")(x)),
    "log1p": np.log1p, "expm1": np.expm1, "exp2": np.exp2, "cbrt": np.cbrt, "round": np.rint,
    "eval_chebyc": lambda n, x: 2 * named("eval_chebyt")(n, x / 2), "eval_chebys": lambda n, x: named("eval_chebyu")(n, x / 2),
    "eval_sh_legendre": _shift("eval_legendre"), "eval_sh_chebyt": _shift("eval_chebyt"), "eval_sh_chebyu": _shift("eval_chebyu"),
    "chdtr": lambda v, x: named("gammainc")(v / 2, x / 2), "chdtrc": lambda v, x: named("gammaincc")(v / 2, x / 2),
    "pdtr": lambda k, m: named("gammaincc")(np.floor(k) + 1, m), "pdtrc": lambda k, m: named("gammainc")(np.floor(k) + 1, m),
    "gdtr": lambda a, b, x: named("gammainc")(b, a * x), "gdtrc": lambda a, b, x: named("gammaincc")(b, a * x),
    "fdtr": lambda n, d, x: named("betainc")(n / 2, d / 2, n * x / (d + n * x)),
    "fdtrc": lambda n, d, x: named("betainc")(d / 2, n / 2, d / (d + n * x)),
    "gammasgn": lambda x: np.sign(named("rgamma")(plain(x))),
}  # fmt: skip
ORDERS: dict[str, int] = {
    "eval_chebyc": 1, "eval_chebys": 1, "eval_sh_legendre": 1, "eval_sh_chebyt": 1, "eval_sh_chebyu": 1, "pdtr": 1, "pdtrc": 1,
    "fdtr": 2, "fdtrc": 2,
}  # fmt: skip
SAME = {"psi": "digamma", "kn": "kv", "yn": "yv"}
WHY = {"airy": "it has four complex-valued results", "zetac": "scipy has no derivative of the zeta function"}


def _guarded(name: str, function: Callable[..., Any], orders: list[int]) -> Callable[..., Any]:
    """Return the function; it raises NoRule when it is called with a traced order."""

    def call(*xs: Value) -> Value:
        for k in orders:
            if isinstance(xs[k], Tracer):
                raise ByOrder(name).error()
        return function(*xs)

    return call


def with_plain_orders(name: str) -> Callable[..., Any]:
    """Return a function of the table, which raises NoRule when it is called with a traced order."""
    row = PRIMITIVES[name]
    orders = [k for k, rule in enumerate(row.rules) if isinstance(rule, ByOrder)]
    return _guarded(name, row, orders) if orders else row


def special(function: Callable[..., Any]) -> Callable[..., Any] | None:
    """Return the handler of a ufunc of scipy.special, or None.

    Raises  NoRule for a function that is refused for a reason in `WHY`.
    """
    if not isinstance(function, np.ufunc):
        return None
    name = SAME.get(function.__name__, function.__name__)
    if name in COMPOSITES:
        return _guarded(name, COMPOSITES[name], list(range(ORDERS.get(name, 0))))
    if name in PRIMITIVES and PRIMITIVES[name].kind == "elementwise":
        return with_plain_orders(name)
    if name in WHY:
        raise NoRule(
            f"{name} has no derivative rule: {WHY[name]}", do="write it with functions that have one: gradcli ops"
        )
    return None


found_late(special)
