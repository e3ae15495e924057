"""Symbols: real sympy expressions as entries."""

from typing import Any, ClassVar

import numpy as np
import sympy as sp

from gradcli.arithmetic.objectwise import Objectwise
from gradcli.arithmetic.sympy import ENTRIES, WHOLE
from gradcli.tracing.primitive import Value


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
        names = np.empty(np.shape(x), dtype=object)
        names.reshape(-1)[:] = [sp.Symbol(f"{name}_{k}", real=True) for k in range(names.size)]
        return cls(names)

    @property
    def primal(self) -> Value:
        return np.full(self.shape, np.nan)[()]
