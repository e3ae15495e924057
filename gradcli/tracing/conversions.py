"""Conversions of a traced value to a plain one: they end the trace, for the derivative would be lost."""

import sys
from typing import Any, NoReturn

import numpy as np

from gradcli.errors import TraceEnded
from gradcli.tracing.bind import bind
from gradcli.tracing.linear_form import Operand, affordable
from gradcli.tracing.provenance import called_name, package_called


class Conversions:
    """The methods of a tracer by which Python and numpy ask for a plain number or array."""

    __slots__ = ()

    def __float__(self) -> NoReturn:
        raise TraceEnded(
            "float() of a traced value loses its derivative",
            do="drop float() and use np.* instead of math.*; compiled code that calls float() cannot be traced",
        )

    def __int__(self) -> NoReturn:
        raise TraceEnded(
            "int() of a traced value loses its derivative", do="use np.floor, or pass integers as integer inputs"
        )

    def __index__(self) -> NoReturn:
        raise TraceEnded(
            "a traced value is used as an index or a size", do="index with plain integers: pass them as integer inputs"
        )

    def __complex__(self) -> NoReturn:
        raise TraceEnded("complex() of a traced value loses its derivative", do="leave out complex()")

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        caller = sys._getframe(1)
        of_product = dtype in (None, np.dtype(object)) and called_name(caller.f_code, caller.f_lasti) == (
            "attribute",
            "dot",
        )
        if of_product and affordable(self):
            return Operand(self, lambda a, x: bind(np.matmul, a, bind(np.reshape, x, (-1,)))).forms()
        called = package_called()
        if called is not None:
            raise TraceEnded(
                f"{called[0]} of {called[1]} is not traced: it converts a traced value to a plain array",
                do="write it with numpy's functions, or give your own gradient to check: --grad",
            )
        raise TraceEnded(
            "a traced value is converted to a plain array",
            do="call numpy's functions (np.dot(a, x), a @ x) instead of methods of plain arrays; leave out dtype=",
        )


class FloatResult:
    """What `float(x)` gives for a traced number: it can be returned, and every other use ends the trace."""

    def __init__(self, traced: Any) -> None:
        self.traced = traced


def traced_result(y: Any) -> Any:
    """Return the traced number behind a result of float(), and anything else as it is."""
    return y.traced if isinstance(y, FloatResult) else y


def _ended(self: FloatResult, *args: Any, **kwargs: Any) -> NoReturn:
    raise TraceEnded(
        "float() of a traced value loses its derivative",
        do="drop float() and use np.* instead of math.*; a function may return float(...) at its end",
    )


for _name in (
    "add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "pow", "rpow", "mod", "rmod", "floordiv", "rfloordiv",
    "neg", "pos", "abs", "lt", "le", "gt", "ge", "eq", "ne", "bool", "float", "int", "index", "complex", "hash", "array", "round",
    "array_ufunc", "array_function", "str", "format", "repr", "iter", "getitem", "len", "floor", "ceil", "trunc", "divmod",
    "rdivmod", "matmul", "rmatmul", "getattr",
):  # fmt: skip
    setattr(FloatResult, f"__{_name}__", _ended)
