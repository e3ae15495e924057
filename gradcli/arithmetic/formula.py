"""Formulas: a rule that is run on names prints itself, so that the listed formula is the one that is computed."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradcli.tracing.primitive import Params, Primitive, Value
from gradcli.tracing.tracer import Arithmetic

_INFIX = {"add": (" + ", 1), "subtract": (" - ", 1), "multiply": ("*", 2), "divide": ("/", 2), "power": ("**", 4)}
_COMPARISONS = {"equal": " == ", "not_equal": " != ", "greater": " > ", "less": " < "}
_ATOM = 5


class Formula(Arithmetic):
    """A formula as text, and how tightly its outermost operator binds."""

    __slots__ = ("binds", "text")
    level = 0

    def __init__(self, text: str, binds: int = _ATOM) -> None:
        self.text = text
        self.binds = binds
        self.storage = None

    @classmethod
    def lift(cls, number: Value) -> Any:
        return cls(f"{float(number):g}")

    @property
    def shape(self) -> tuple[int, ...]:
        return ()

    @property
    def primal(self) -> Value:
        return np.float64(np.nan)

    def process(self, primitive: Primitive, xs: Sequence[Value], params: Params) -> Value:
        parts = [x if isinstance(x, Formula) else Formula.lift(x) for x in xs]
        name = primitive.name
        if name == "positive":
            return parts[0]
        if name == "negative":
            return Formula("-" + _inside(parts[0], 3), 3)
        if name == "integer_power":
            return Formula(f"{_inside(parts[0], 5)}**{params['n']}", 4)
        if name in _INFIX:
            sign, binds = _INFIX[name]
            right = binds + (sign in (" - ", "/"))
            return Formula(_inside(parts[0], binds) + sign + _inside(parts[1], right), binds)
        if name in _COMPARISONS:
            return Formula(_COMPARISONS[name].join(part.text for part in parts), 0)
        extra = [f"{key}={value}" for key, value in params.items()]
        return Formula(f"{name}({', '.join([*(part.text for part in parts), *extra])})")


def _inside(part: Formula, binds: int) -> str:
    return part.text if part.binds >= binds else f"({part.text})"


def written(rule: Any, y: str, xs: Sequence[str], params: Params) -> str:
    """Return a partial derivative as text, by running the rule on names."""
    found = rule(Formula(y), *(Formula(x) for x in xs), **params)
    return found.text if isinstance(found, Formula) else f"{float(found):g}"
