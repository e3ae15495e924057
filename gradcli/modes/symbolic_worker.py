"""The child process of the symbolic mode: reads requests, differentiates with sympy, writes answers."""

import contextlib
import gc
import os
import pickle
import sys
import time
from collections.abc import Callable
from typing import Any, ClassVar

import mpmath
import numpy as np
import sympy as sp

import gradcli.rules  # noqa: F401  (declares the primitives that the plan names)
from gradcli.arithmetic.ball import Objectwise, apply_to_stacks, array_of_entries
from gradcli.errors import GradcliError, NotSupported
from gradcli.process.process import LENGTH
from gradcli.tracing.primitive import Value

# Primitives as sympy expressions, by the primitive's name.
#
# Branches are not in this table: a recorded program has already decided them, and replaces them by weights (arithmetic/recorded_program.py).


def det(a: Any) -> Any:
    return sp.Matrix(a).det(method="berkowitz")


def inv(a: Any) -> Any:
    """Return the adjugate over the determinant, so that no pivot is tested for zero."""
    m = sp.Matrix(a)
    return np.array((m.adjugate() / det(a)).tolist(), dtype=object)


def fourier_sums(x: Any, axis: int, wave: Callable[[Any], Any]) -> Any:
    """Return the sums of x_k wave(2 pi j k / n) along an axis."""
    last = np.moveaxis(x, axis, -1)
    n = last.shape[-1]
    table = [wave(2 * sp.pi * k / n) for k in range(n)]
    waves = np.array([[table[j * k % n] for k in range(n)] for j in range(n)], dtype=object)
    return np.moveaxis(np.dot(last, waves), -1, axis)


class _WithoutOrderDerivative:
    """An incomplete gamma function; sympy's derivative by the order takes minutes or loses its digits."""

    def fdiff(self, argindex: int = 2) -> Any:
        if argindex == 1:
            raise NotSupported("sympy has no accurate derivative of an incomplete gamma function by its order")
        return super().fdiff(argindex)  # type: ignore[misc]


class lowergamma(_WithoutOrderDerivative, sp.lowergamma):  # type: ignore[misc]  # its name is written in formulas
    """The lower incomplete gamma function."""


class uppergamma(_WithoutOrderDerivative, sp.uppergamma):  # type: ignore[misc]
    """The upper incomplete gamma function."""


# fmt: off
ENTRIES: dict[str, Callable[..., Any]] = {
    "positive": lambda x: x, "real": lambda x: x, "negative": lambda x: -x,
    "add": lambda a, b: a + b, "subtract": lambda a, b: a - b, "multiply": lambda a, b: a * b, "divide": lambda a, b: a / b,
    "power": lambda x, p: x**p, "integer_power": lambda x, *, n: x**n, "square": lambda x: x**2, "reciprocal": lambda x: 1 / x,
    "sqrt": sp.sqrt, "cbrt": lambda x: x / (x**2) ** sp.Rational(1, 3), "hypot": lambda a, b: sp.sqrt(a**2 + b**2),
    "exp": sp.exp, "exp2": lambda x: sp.Integer(2) ** x, "expm1": lambda x: sp.exp(x) - 1,
    "log": sp.log, "log1p": lambda x: sp.log(1 + x), "log2": lambda x: sp.log(x) / sp.log(2), "log10": lambda x: sp.log(x) / sp.log(10),
    "logaddexp": lambda a, b: sp.log(sp.exp(a) + sp.exp(b)),
    "sin": sp.sin, "cos": sp.cos, "tan": sp.tan, "arcsin": sp.asin, "arccos": sp.acos, "arctan": sp.atan, "arctan2": sp.atan2,
    "sinh": sp.sinh, "cosh": sp.cosh, "tanh": sp.tanh, "arcsinh": sp.asinh, "arccosh": sp.acosh, "arctanh": sp.atanh,
    "erf": sp.erf, "erfc": sp.erfc, "gamma": sp.gamma, "gammaln": sp.loggamma, "digamma": sp.digamma,
    "polygamma": lambda x, *, n: sp.polygamma(n, x),
    "erfi": sp.erfi, "erfinv": sp.erfinv, "erfcinv": lambda x: sp.erfinv(1 - x), "erfcx": lambda x: sp.exp(x**2) * sp.erfc(x),
    "dawsn": lambda x: sp.sqrt(sp.pi) / 2 * sp.exp(-(x**2)) * sp.erfi(x),
    "ndtr": lambda x: sp.erfc(-x / sp.sqrt(2)) / 2, "log_ndtr": lambda x: sp.log(sp.erfc(-x / sp.sqrt(2)) / 2),
    "ndtri": lambda x: sp.sqrt(2) * sp.erfinv(2 * x - 1), "exprel": lambda x: (sp.exp(x) - 1) / x,
    "entr": lambda x: -x * sp.log(x), "xlogy": lambda a, b: a * sp.log(b), "xlog1py": lambda a, b: a * sp.log(1 + b),
    "rel_entr": lambda a, b: a * sp.log(a / b), "kl_div": lambda a, b: a * sp.log(a / b) - a + b,
    "pseudo_huber": lambda d, r: d**2 * (sp.sqrt(1 + (r / d) ** 2) - 1), "rgamma": lambda x: 1 / sp.gamma(x), "loggamma": sp.loggamma,
    "beta": lambda a, b: sp.gamma(a) * sp.gamma(b) / sp.gamma(a + b),
    "betaln": lambda a, b: sp.loggamma(a) + sp.loggamma(b) - sp.loggamma(a + b),
    "j0": lambda x: sp.besselj(0, x), "j1": lambda x: sp.besselj(1, x), "y0": lambda x: sp.bessely(0, x), "y1": lambda x: sp.bessely(1, x),
    "i0": lambda x: sp.besseli(0, x), "i1": lambda x: sp.besseli(1, x), "k0": lambda x: sp.besselk(0, x), "k1": lambda x: sp.besselk(1, x),
    "jv": sp.besselj, "yv": sp.bessely, "iv": sp.besseli, "kv": sp.besselk, "k0e": lambda x: sp.exp(x) * sp.besselk(0, x),
    "k1e": lambda x: sp.exp(x) * sp.besselk(1, x), "kve": lambda v, x: sp.exp(x) * sp.besselk(v, x),
    "exp1": lambda x: sp.expint(1, x), "expi": sp.Ei, "expn": sp.expint, "si": sp.Si, "ci": sp.Ci, "shi": sp.Shi, "chi": sp.Chi,
    "fresnel_s": sp.fresnels, "fresnel_c": sp.fresnelc, "ellipk": sp.elliptic_k, "ellipkm1": lambda p: sp.elliptic_k(1 - p), "ellipe": sp.elliptic_e,
    "gammainc": lambda a, x: lowergamma(a, x) / sp.gamma(a),
    "gammaincc": lambda a, x: uppergamma(a, x) / sp.gamma(a),
    "eval_jacobi": sp.jacobi, "eval_legendre": sp.legendre, "eval_gegenbauer": sp.gegenbauer, "eval_chebyt": sp.chebyshevt,
    "eval_chebyu": sp.chebyshevu, "eval_hermite": sp.hermite, "eval_laguerre": sp.laguerre, "eval_genlaguerre": sp.assoc_laguerre,
    "eval_hermitenorm": lambda n, x: sp.hermite(n, x / sp.sqrt(2)) / sp.sqrt(2) ** n,
    "sindg": lambda x: sp.sin(sp.pi * x / 180), "cosdg": lambda x: sp.cos(sp.pi * x / 180),
    "tandg": lambda x: sp.tan(sp.pi * x / 180), "cotdg": lambda x: sp.cot(sp.pi * x / 180),
    "expit": lambda x: 1 / (1 + sp.exp(-x)), "log_expit": lambda x: -sp.log(1 + sp.exp(-x)), "logit": lambda x: sp.log(x / (1 - x)),
}
WHOLE: dict[str, Callable[..., Any]] = {
    "matmul": lambda a, b: np.matmul(a, b),
    "norm": lambda x: sp.sqrt(sum(e**2 for e in np.reshape(x, -1).tolist())),
    "logsumexp": lambda x, *, axis: np.frompyfunc(sp.log, 1, 1)(np.sum(np.frompyfunc(sp.exp, 1, 1)(x), axis=axis)),
    "det": apply_to_stacks(det),
    "logdet": apply_to_stacks(lambda a: sp.Rational(1, 2) * sp.log(det(a) ** 2)),
    "inv": apply_to_stacks(inv),
    "solve": apply_to_stacks(lambda a, b: np.matmul(inv(a), b)),
    "dft_cos": lambda x, *, axis: fourier_sums(x, axis, sp.cos),
    "dft_sin": lambda x, *, axis: fourier_sums(x, axis, sp.sin),
}
# fmt: on


# Symbols: real sympy expressions as entries.


class Symbol(Objectwise):
    """A sympy expression, or an array of them. Each number that is not a small integer becomes a symbol.

    `numbers` maps each of these symbols to its number, so that sympy neither rounds nor combines numbers. Symbols are named in
    order: what sympy has found out about a formula serves the next one of the same form.
    """

    __slots__ = ()
    what = "the symbolic mode"
    entries = ENTRIES
    whole = WHOLE
    numbers: ClassVar[dict[Any, float]] = {}

    @classmethod
    def entry(cls, number: Any) -> Any:
        if float(number).is_integer() and abs(number) <= 1000:
            return sp.Integer(int(number))
        symbol = sp.Symbol(f"c{len(cls.numbers)}", real=True)
        cls.numbers[symbol] = float(number)
        return symbol

    @classmethod
    def variables(cls, x: Value, name: str) -> "Symbol":
        """Return new symbols in the shape of `x`."""
        if np.shape(x) == ():
            return cls(sp.Symbol(name, real=True))
        return cls(array_of_entries([sp.Symbol(f"{name}_{k}", real=True) for k in range(np.size(x))], np.shape(x)))

    @property
    def primal(self) -> Value:
        return np.full(self.shape, np.nan)[()]


# The child process: it reads requests, differentiates with sympy, and writes answers.

DIGITS = (30, 60)


def main() -> None:
    """Answer requests from standard input on standard output, until there are no more."""
    gc.freeze()  # what was loaded stays, and is not looked at again
    gc.enable()
    sys.setrecursionlimit(20_000)
    while length := sys.stdin.buffer.read(LENGTH):
        request, memory = pickle.loads(sys.stdin.buffer.read(int.from_bytes(length, "big")))
        with contextlib.suppress(ImportError):  # not on this platform; the time limit still holds
            import resource

            resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        output = pickle.dumps(_answer_request(request))
        sys.stdout.buffer.write(len(output).to_bytes(LENGTH, "big") + output)
        sys.stdout.buffer.flush()
    os._exit(0)  # unloading sympy would take as long as the differentiation


def _answer_request(request: Any) -> tuple[str, Any]:
    Symbol.numbers.clear()
    start = time.perf_counter()
    try:
        return "ok", {**differentiate(*request), "seconds": time.perf_counter() - start}
    except GradcliError as error:
        return "error", error
    except (MemoryError, RecursionError, ValueError, TypeError, NotImplementedError, ArithmeticError) as error:
        return "error", f"{type(error).__name__}: {str(error)[:200]}"


def differentiate(recorded: Any, xs: list[Any], output: tuple[int, ...]) -> dict[str, Any]:
    """Return values and bounds of the gradient for each input, and the operations in the differentiated formulas.

    Shapes  the output's shape, then the input's.
    """
    symbols = [Symbol.variables(x, f"x{k}") for k, x in enumerate(xs)]
    y = recorded.run(symbols)
    outputs = np.reshape(np.asarray(Symbol.objects(y), dtype=object), -1).tolist()
    variables = [np.reshape(np.asarray(s.value, dtype=object), -1).tolist() for s in symbols]
    formulas = [[[sp.diff(out, x) for x in names] for out in outputs] for names in variables]
    flat = [formula for group in formulas for row in group for formula in row]
    numbers = dict(Symbol.numbers)
    for names, x in zip(variables, xs, strict=True):
        numbers |= dict(zip(names, np.reshape(x, -1).tolist(), strict=True))
    named, shared = sp.cse(flat)
    coarse, fine = evaluate(flat, numbers, lambda formulas: (named, shared))
    values = np.array([float(b) for b in fine])
    apart = np.array([float(abs(a - b)) for a, b in zip(coarse, fine, strict=True)])
    bounds = 2 * apart + np.spacing(np.abs(values))
    sizes = np.cumsum([len(group) * (len(group[0]) if group else 0) for group in formulas])[:-1]
    shaped = [
        [part.reshape(output + np.shape(x))[()] for part, x in zip(np.split(array, sizes), xs, strict=True)]
        for array in (values, bounds)
    ]
    return {
        "values": shaped[0],
        "bounds": shaped[1],
        "operations": _count_operations(flat),
        "shared": _count_operations([formula for _, formula in named] + list(shared)),
    }


def _count_operations(formulas: list[Any]) -> int:
    """Return the number of operations in formulas that are written out as trees."""
    return sum(int(sp.count_ops(formula)) for formula in formulas)


def evaluate(formulas: list[Any], numbers: dict[Any, float], cse: Any = True) -> tuple[list[Any], list[Any]]:
    """Return the formulas' values at 30 and at 60 digits; nan where one is not real."""
    function = sp.lambdify(list(numbers), formulas, modules="mpmath", cse=cse)
    found = []
    for digits in DIGITS:
        with mpmath.workdps(digits):
            try:
                values = function(*map(mpmath.mpf, numbers.values()))
                found.append([_real_or_nan(mpmath.mpmathify(value)) for value in values])
            except (ZeroDivisionError, ValueError):  # there are no values
                found.append([mpmath.nan] * len(formulas))
    return found[0], found[1]


def _real_or_nan(value: Any) -> Any:
    if not isinstance(value, mpmath.mpc):
        return value
    return value.real if abs(value.imag) <= abs(value.real) * mpmath.mpf(10) ** (-mpmath.mp.dps // 2) else mpmath.nan
