"""Functions that cannot be traced and whose central differences mislead by symmetry, beside smooth ones that do not.

At a cusp no claim is right; at a kink the claims between the one-sided slopes are subgradients; the rest is calculus.
"""

import ctypes
import decimal
import json
import math
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
from generated import Claim, Generated

NAMES = frozenset({"kink", "not-a-subgradient", "noise", "jump", "non-finite"})  # findings that name the reason

EXITS: tuple[Callable[[Any], float], ...] = (  # ways in which a number leaves the trace
    float,
    lambda x: x.item() if hasattr(x, "item") else float(x),
    lambda x: struct.unpack("d", struct.pack("d", x))[0],
    lambda x: json.loads(json.dumps(float(x))),
    lambda x: float(repr(float(x))),
    lambda x: ctypes.c_double(x).value,
    lambda x: float(decimal.Decimal(float(x))),
)

EXACT, KINK, CUSP = "smooth", "kink", "cusp"


def _or(f: Callable[[float], float], at_zero: float) -> Callable[[float], float]:
    """Return a function with its value at 0, where the formula has none."""
    return lambda x: f(x) if x else at_zero


# (family, name, f, point, slope from the left, from the right); for a cusp both are what a central difference sees
ONE: tuple[tuple[str, str, Callable[[float], float], float, float, float], ...] = (
    (KINK,  "abs(x)",                lambda x: abs(x),                                   0.0, -1, 1),
    (KINK,  "abs(x - 1)",            lambda x: abs(x - 1),                               1.0, -1, 1),
    (KINK,  "3*x + abs(x)",          lambda x: 3 * x + abs(x),                           0.0, 2, 4),
    (KINK,  "1e6*x + abs(x)",        lambda x: 1e6 * x + abs(x),                         0.0, 1e6 - 1, 1e6 + 1),
    (KINK,  "1e-6*abs(x) + x",       lambda x: 1e-6 * abs(x) + x,                        0.0, 1 - 1e-6, 1 + 1e-6),
    (KINK,  "max(x, 0)",             lambda x: max(x, 0.0),                              0.0, 0, 1),
    (KINK,  "max(x, -x)/1e5",        lambda x: max(x, -x) / 1e5,                         0.0, -1e-5, 1e-5),
    (KINK,  "exp(-abs(x))",          lambda x: math.exp(-abs(x)),                        0.0, 1, -1),
    (KINK,  "abs(sin(x))",           lambda x: abs(math.sin(x)),                         0.0, -1, 1),
    (KINK,  "sqrt(x*x)",             lambda x: math.sqrt(x * x),                         0.0, -1, 1),
    (KINK,  "cos(x) + abs(x)",       lambda x: math.cos(x) + abs(x),                     0.0, -1, 1),
    (KINK,  "log(1 + abs(x))",       lambda x: math.log1p(abs(x)),                       0.0, -1, 1),
    (KINK,  "abs(x**2 - 4)",         lambda x: abs(x * x - 4),                           2.0, -4, 4),
    (CUSP,  "abs(x)**0.5",           lambda x: abs(x) ** 0.5,                            0.0, 0, 0),
    (CUSP,  "x**(2/3)",              lambda x: (x * x) ** (1 / 3),                       0.0, 0, 0),
    (CUSP,  "abs(x)**0.9",           lambda x: abs(x) ** 0.9,                            0.0, 0, 0),
    (CUSP,  "3*x + abs(x)**0.5",     lambda x: 3 * x + abs(x) ** 0.5,                    0.0, 3, 3),
    (CUSP,  "abs(x - 2)**(1/3)",     lambda x: abs(x - 2) ** (1 / 3),                    2.0, 0, 0),
    (CUSP,  "x*sin(1/x)",            _or(lambda x: x * math.sin(1 / x), 0.0),            0.0, 0, 0),
    (CUSP,  "abs(x)*cos(1/x)",       _or(lambda x: abs(x) * math.cos(1 / x), 0.0),       0.0, 0, 0),
    (CUSP,  "-x*x*log(x*x)/abs(x)",  _or(lambda x: -abs(x) * math.log(x * x), 0.0),      0.0, 0, 0),
    (CUSP,  "1/log(abs(x))",         lambda x: 1 / math.log(abs(x)) if abs(x) > 1e-300 else 0.0, 0.0, 0, 0),
    (EXACT, "cos(x)",                math.cos,                                           0.0, 0, 0),
    (EXACT, "x**2",                  lambda x: x * x,                                    0.0, 0, 0),
    (EXACT, "x**4",                  lambda x: x**4,                                     0.0, 0, 0),
    (EXACT, "x**3",                  lambda x: x**3,                                     0.0, 0, 0),
    (EXACT, "(x - 3)**2 + 5",        lambda x: (x - 3) ** 2 + 5,                         3.0, 0, 0),
    (EXACT, "cosh(x)",               math.cosh,                                          0.0, 0, 0),
    (EXACT, "exp(-x*x)",             lambda x: math.exp(-x * x),                         0.0, 0, 0),
    (EXACT, "abs(x)**1.5",           lambda x: abs(x) ** 1.5,                            0.0, 0, 0),
    (EXACT, "x*abs(x)",              lambda x: x * abs(x),                               0.0, 0, 0),
    (EXACT, "x**2*sin(1/x)",         _or(lambda x: x * x * math.sin(1 / x), 0.0),        0.0, 0, 0),
    (EXACT, "1e-6*x**2",             lambda x: 1e-6 * x * x,                             0.0, 0, 0),
    (EXACT, "sin(x)/x",              _or(lambda x: math.sin(x) / x, 1.0),                0.0, 0, 0),
    (EXACT, "7",                     lambda x: 7.0,                                      0.0, 0, 0),
    (EXACT, "x - sin(x)",            lambda x: x - math.sin(x),                          0.0, 0, 0),
)  # fmt: skip
# (family, name, f of a list, point, right or central claim)
MANY: tuple[tuple[str, str, Callable[[list[float]], float], list[float], list[float]], ...] = (
    (KINK,  "norm(v)",                 lambda v: math.hypot(*v),                               [0, 0, 0], [0, 0, 0]),
    (KINK,  "sum(abs(v)), one at 0",   lambda v: sum(map(abs, v)),                             [0, 2, -1], [0, 1, -1]),
    (CUSP,  "sqrt(norm(v))",           lambda v: math.sqrt(math.hypot(*v)),                    [0, 0, 0], [0, 0, 0]),
    (EXACT, "norm(v)**2",              lambda v: sum(x * x for x in v),                        [0, 0, 0], [0, 0, 0]),
)  # fmt: skip
COUNT = len(ONE) + len(MANY)


def generated(number: int, seed: int) -> Generated:
    """Return one case; the seed chooses how its number leaves the trace."""
    leave = EXITS[(number + seed) % len(EXITS)]
    if number % COUNT >= len(ONE):
        return _of_many(*MANY[number % COUNT - len(ONE)], leave)
    family, name, g, at, left, right = ONE[number % COUNT]

    def f(x: Any) -> float:
        return g(leave(x))

    return Generated(family, name, lambda: f, {"x": at}, _claims(family, float(left), float(right)))


def _claims(family: str, left: float, right: float) -> tuple[Claim, ...]:
    width, middle = abs(right - left) or 1.0, (left + right) / 2
    if family == CUSP:
        return tuple(Claim("wrong", f"{g:g}", {"x": g}) for g in (middle, middle + 0.5))
    off = lambda g: Claim("wrong", f"{g:g}", {"x": g}, width / max(abs(left), abs(right), 1e-300))
    if family == EXACT:
        return (Claim("right", f"{middle:g}", {"x": middle}, 0.0), off(middle + 0.5))
    inside = [left, right, middle, left + 0.3 * (right - left)]
    outside = [max(left, right) + width, min(left, right) - width]
    return (*(Claim("subgradient", f"{g:g}", {"x": g}, 0.0) for g in inside), *map(off, outside))


def _of_many(
    family: str, name: str, g: Callable[[list[float]], float], at: list[float], claim: list[float],
    leave: Callable[[Any], float],
) -> Generated:  # fmt: skip
    def f(v: Any) -> float:
        return g([leave(x) for x in v])

    truth = {CUSP: "wrong", KINK: "subgradient", EXACT: "right"}[family]
    off = np.array(claim, dtype=float)
    off[0] += 1.5
    claims = (
        Claim(truth, str(claim), {"v": np.array(claim, dtype=float)}, np.inf if family == CUSP else 0.0),
        Claim("wrong", f"{off}", {"v": off}, np.inf),
    )
    return Generated(family, name, lambda: f, {"v": np.array(at, dtype=float)}, claims)
