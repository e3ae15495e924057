"""The child process of the symbolic mode: reads requests, differentiates with sympy, writes answers."""

import contextlib
import gc
import os
import pickle
import sys
import time
from typing import Any

import mpmath
import numpy as np
import sympy as sp

import gradcli.rules  # noqa: F401  (declares the primitives that the plan names)
from gradcli.arithmetic.symbol import Symbol
from gradcli.errors import GradcliError
from gradcli.process.process import LENGTH

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
