"""Which lines of a program a derivation names, and by which rules each is differentiated.

A name is for what is used again: a value that a differential has as a factor, that several lines use, or that the user has
named. All else is written where it is used. What is computed twice is one line.
"""

from collections.abc import Collection
from functools import cached_property
from typing import Any

import numpy as np

from gradcli.derivation.matrices import NAMES
from gradcli.interpreters.graph import Graph
from gradcli.interpreters.lines import names, products
from gradcli.interpreters.tape import CONSTANT, Line, Tape

_LINEAR = {  # in all operands together
    "add": "sum rule", "subtract": "sum rule", "sum": "linearity", "negative": "linearity", "cumsum": "linearity",
    "concatenate": "linearity", "trace": "linearity", "diag": "linearity", "mean": "linearity",
}  # fmt: skip
_PRODUCTS = {"multiply", "matmul", "einsum", "dot", "outer"}  # linear in each operand
_RULES = {
    "multiply": "product rule", "divide": "quotient rule", "matmul": "product rule", "einsum": "product rule", "inv": "inverse",
    "det": "determinant", "logdet": "determinant", "solve": "solve", "square": "power rule", "integer_power": "power rule",
    "power": "power rule", "sqrt": "power rule", "reciprocal": "power rule", "norm": "norm", "prod": "product rule",
    "exp": "exponential", "log": "logarithm", "dot": "product rule", "outer": "product rule",
}  # fmt: skip
_CONDITIONS = {
    "inv": "invertible", "solve": "invertible", "det": "invertible", "log": "positive", "sqrt": "positive",
    "divide": "divisor not 0", "reciprocal": "not 0", "absolute": "not 0", "sign": "not 0", "maximum": "no tie",
    "minimum": "no tie", "relu": "not 0", "norm": "not 0", "prod": "not 0", "power": "base positive",
}  # fmt: skip


class Plan:
    """The plan of a program's lines up to its result; `quiet` primitives only move entries, and are never named.

    `merged` says whether equal lines are one.
    """

    def __init__(self, tape: Tape, result: int, quiet: Collection[str], *, merged: bool) -> None:
        self.tape, self.result, self.quiet = tape, result, quiet
        self.given = names(tape.lines)
        self.within = products(tape.lines)  # lines of one product, which is named as a whole
        self.first = self._first() if merged else list(range(result + 1))

    def _first(self) -> list[int]:
        """Return, for each line, the first line that computes the same."""
        found: list[int] = []
        seen: dict[Any, int] = {}
        for k, (primitive, slots, xs, _, params, _) in enumerate(self.tape.lines[: self.result + 1]):
            key: Any = k
            if primitive is not None:
                own = [found[s] if s != CONSTANT else _constant(x) for s, x in zip(slots, xs, strict=True)]
                key = primitive.name, tuple(own), repr(params)
            found.append(seen.setdefault(key, k) if k != self.result else k)
        return found

    def _is_quiet(self, k: int) -> bool:
        primitive = self.tape.primitive(k)
        idle = primitive is not None and (primitive.name in self.quiet or k in self.within)
        return idle or _adds_nothing(self.tape.lines[k])

    def _moving(self, k: int) -> list[int]:
        """Return the lines that a line uses and that depend on the input."""
        return [self.first[s] for s in self.tape.operands(k) if s != CONSTANT]

    def _is_linear(self, k: int) -> bool:
        """Whether the differential of a line has no operand as a factor that depends on the input."""
        primitive, slots = self.tape.primitive(k), self.tape.operands(k)
        if primitive is None or self._is_quiet(k) or primitive.name in _LINEAR:
            return True
        if primitive.name == "divide":
            return slots[1] == CONSTANT
        return primitive.name in _PRODUCTS and len(self._moving(k)) == 1

    @cached_property
    def named(self) -> frozenset[int]:
        """The lines that get a name."""
        kept = [k for k, j in enumerate(self.first) if j == k and self.tape.primitive(k) is not None]
        factors = {s for k in kept if not self._is_linear(k) for s in self._moving(k)}
        uses = [s for k in kept for s in dict.fromkeys(self._moving(k))]
        wanted = factors | {s for s in uses if uses.count(s) > 1} | {k for k in kept if self.given[k]}
        for k in reversed(kept):  # a name for what only moves entries is a name for what it moves
            if k in wanted and self._is_quiet(k):
                wanted |= set(self._moving(k))
        return frozenset(k for k in wanted if k in kept and not self._is_quiet(k))

    def rules(self, k: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the rules by which a named line is differentiated, the innermost first, and what they need."""
        found: dict[str, None] = {}
        conditions: dict[str, None] = {}
        self._collect(k, found, conditions)
        return tuple(found) or (self._linear_rule(k),), tuple(conditions)

    def _collect(self, k: int, found: dict[str, None], conditions: dict[str, None]) -> None:
        primitive = self.tape.primitive(k)
        if primitive is None:
            return
        for s in self._moving(k):
            if s not in self.named:
                self._collect(s, found, conditions)
        if self._is_quiet(k) or self._is_linear(k):
            return
        name = "prod" if k - 1 in self.within else primitive.name
        found.setdefault(_RULES.get(name, f"chain rule: {NAMES.get(name, name)}"))
        if name in _CONDITIONS:
            conditions.setdefault(_CONDITIONS[name])

    def _linear_rule(self, k: int) -> str:
        """Return the rule of a line that is linear: its own or, where that only moves entries, that of what it moves."""
        primitive = self.tape.primitive(k)
        moving = self._moving(k)
        if primitive is not None and not self._is_quiet(k):
            return _LINEAR.get(primitive.name, "constant multiple")
        return self._linear_rule(moving[0]) if primitive is not None and moving else "linearity"


def _constant(x: Any) -> Any:
    """Return what tells constant operands apart."""
    if isinstance(x, Graph):
        return id(x)
    return "constant", np.shape(x), np.asarray(x).tobytes() if np.asarray(x).dtype != object else id(x)


def _adds_nothing(line: Line) -> bool:
    """Whether a line adds zero, such as a shift that would keep an exponential from overflowing."""
    primitive, slots, xs, _, _, _ = line
    if primitive is None or primitive.name not in ("add", "subtract"):
        return False
    return slots[-1] == CONSTANT and not isinstance(xs[-1], Graph) and not np.any(xs[-1])
