"""Which lines of a program a derivation names, and by which rules each is differentiated.

A name is for what is used again: a value that a differential has as a factor, that several lines use, or that the user has
named. All else is written where it is used. What is computed twice is one line.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
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
_OF_ITSELF = {
    "exp",
    "sqrt",
    "tanh",
    "expit",
    "cholesky",
    "reciprocal",
    "inv",
}  # functions whose differential is in terms of their value
_CHAINED = {"matmul", "einsum", "dot"}  # products that read as one where they are nested
_LETTERS = {"softmax": "p", "expit": "s", "inv": "P", "tanh": "h", "cholesky": "L"}
_PRODUCTS = {"multiply", "matmul", "einsum", "dot", "outer"}  # linear in each operand
_RULES = {
    "multiply": "product rule", "divide": "quotient rule", "matmul": "product rule", "einsum": "product rule", "inv": "inverse",
    "det": "determinant", "logdet": "determinant", "solve": "solve", "square": "power rule", "integer_power": "power rule",
    "power": "power rule", "sqrt": "power rule", "reciprocal": "power rule", "norm": "norm", "prod": "product rule",
    "power of both": "logarithmic differentiation", "exp": "exponential", "log": "logarithm",
    "dot": "product rule", "outer": "product rule",
}  # fmt: skip
_SIGNS = {"ndtr": "Φ"}
_CONDITIONS = {
    "inv": "invertible", "solve": "invertible", "det": "invertible", "log": "positive", "sqrt": "positive",
    "divide": "divisor not 0", "reciprocal": "not 0", "absolute": "not 0", "sign": "not 0", "maximum": "no tie",
    "minimum": "no tie", "relu": "not 0", "norm": "not 0", "prod": "not 0", "power": "base positive",
}  # fmt: skip


@dataclass(frozen=True)
class Group:
    """Lines that are one function together, such as a softmax: the rule that has its name, and the lines inside."""

    rule: str
    inside: frozenset[int]
    conditions: tuple[str, ...] = ()


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
        for k, (primitive, slots, xs, y, params, _) in enumerate(self.tape.lines[: self.result + 1]):
            key: Any = k
            if primitive is not None:
                own = [
                    self._spread(found[s], found) if s != CONSTANT else _constant(x)
                    for s, x in zip(slots, xs, strict=True)
                ]
                key = primitive.name, tuple(own), repr(params), _shape(y)
            found.append(seen.setdefault(key, k) if k != self.result else k)
        return found

    def _spread(self, k: int, found: Sequence[int]) -> int:
        """Return what a reshape that puts axes of length 1 before the others reshapes, which broadcasts alike; else the line."""
        primitive, slots, xs, y, _, _ = self.tape.lines[k]
        if primitive is None or primitive.name != "reshape" or slots[0] == CONSTANT:
            return k
        before, after = map(_shape, (xs[0], y))
        return found[slots[0]] if after[len(after) - len(before) :] == before else k

    @cached_property
    def groups(self) -> dict[int, Group]:
        """The lines that end a group, with it; no line inside is used elsewhere, and the user has named none."""
        found = {k: group for k, j in enumerate(self.first) if j == k and (group := self._group(k)) is not None}
        return {
            k: g for k, g in found.items() if not any(self.given[s] for s in g.inside) and self._closed(k, g.inside)
        }

    def _group(self, k: int) -> Group | None:
        name, moving = self._name(k), [self._behind(s) for s in self._moving(k)]
        inner = moving[0] if moving else CONSTANT
        if name == "log" and self._name(inner) == "det":
            return Group("log det", frozenset({inner}), ("invertible",))
        if (
            name == "log"
            and self._name(inner) == "sum"
            and self._name(e := self._behind(self._moving(inner)[0])) == "exp"
        ):
            return Group("logsumexp", frozenset({inner, e}))
        _, _, _, _, params, _ = self.tape.lines[k]
        if name == "square" or (name == "integer_power" and (params or {}).get("n") == 2):
            return Group("squared norm", frozenset({inner})) if self._name(inner) == "norm" else None
        if name == "divide" and len(moving) == 2 and self._name(inner) == "exp" and self._name(moving[1]) == "sum":
            whole = self._behind(self._moving(moving[1])[0])
            return Group("softmax", frozenset({inner, moving[1]})) if whole == inner else None
        return None

    def _name(self, k: int) -> str:
        primitive = self.tape.primitive(k) if k != CONSTANT else None
        return "" if primitive is None else primitive.name

    def _behind(self, k: int) -> int:
        """Return the line that a reshape reshapes."""
        while self._name(k) == "reshape" and self._moving(k):
            k = self._moving(k)[0]
        return k

    def _closed(self, end: int, inside: frozenset[int]) -> bool:
        """Whether lines inside a group are used in it alone."""
        others = (k for k, j in enumerate(self.first) if j == k and k != end and k not in inside)
        users = [k for k in others if self._name(k) not in ("", "reshape")]
        return not any(self._behind(s) in inside for k in users for s in self._moving(k))

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

    def _kept(self) -> list[int]:
        """Return the lines that the result uses, in order; equal ones are one."""
        kept, pending = set(), [self.result]
        while pending:
            k = pending.pop()
            if k != CONSTANT and k not in kept:
                kept.add(k)
                pending += self._moving(k)
        return sorted(k for k in kept if self.tape.primitive(k) is not None)

    def _factors(self, k: int) -> list[int]:
        """Return the lines that are factors of the differential of a line: its operands, or its own value, as that of exp is."""
        product = k - 1 in self.within  # written as the exponential of a sum
        own = (self._name(k) in _OF_ITSELF and not product) or (k in self.groups and self.groups[k].rule == "softmax")
        return [k] if own and k != self.result else self._moving(k)

    @cached_property
    def named(self) -> frozenset[int]:
        """The lines that get a name."""
        kept = self._kept()
        factors = {s for k in kept if not self._is_linear(k) for s in self._factors(k)}
        uses = [s for k in kept for s in dict.fromkeys(self._moving(k))]
        wanted = factors | {s for s in uses if uses.count(s) > 1} | {k for k in kept if self.given[k]}
        for k in reversed(kept):  # a name for what only moves entries is a name for what it moves
            if k in wanted and self._is_quiet(k):
                wanted |= set(self._moving(k))
        multiples = (k for k in wanted if self._name(k) in ("multiply", "divide") and self._is_linear(k))
        wanted -= {k for k in multiples if not self.given[k] and self._of_one(k, wanted)}
        inside = {s for group in self.groups.values() for s in group.inside}
        return frozenset(k for k in wanted - inside - self._links(kept) if k in kept and not self._is_quiet(k))

    def _of_one(self, k: int, wanted: Collection[int]) -> bool:
        """Whether a line is a constant multiple of an input, or of a line that has a name, whatever its sign."""
        moving = self._moving(k)
        while len(moving) == 1 and moving[0] not in wanted and self._name(moving[0]) in ("negative", "reshape"):
            moving = self._moving(moving[0])
        return len(moving) == 1 and (moving[0] in wanted or self.tape.primitive(moving[0]) is None)

    def _links(self, kept: Sequence[int]) -> set[int]:
        """Return the matrix products that are factors of one other product alone, as x @ A is in x @ A @ x."""
        users: dict[int, list[int]] = {}
        for k in kept:
            for s in {self._behind(s) for s in self._moving(k)} - {k}:
                if self._name(k) != "reshape":
                    users.setdefault(s, []).append(k)
        chained = {s: own for s, own in users.items() if self._name(s) in _CHAINED and not self.given[s]}
        return {s for s, own in chained.items() if len(own) == 1 and self._name(own[0]) in _CHAINED}

    def letter(self, k: int) -> str:
        """Return the letter for the value of a line; t where it has none of its own."""
        group = self.groups.get(k)
        letter = _LETTERS.get(self._name(k) if group is None else group.rule, "t")
        return letter.upper() if letter == "p" and len(_shape(self.tape.value(k))) == 2 else letter

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
        group = self.groups.get(k)
        pending = list(self._moving(k))
        while pending:
            s = pending.pop(0)
            if group is not None and self._behind(s) in group.inside:
                pending += self._moving(self._behind(s))
            elif s not in self.named:
                self._collect(s, found, conditions)
        if group is not None:
            found.setdefault(group.rule)
            conditions.update(dict.fromkeys(group.conditions))
            return
        if self._is_quiet(k) or self._is_linear(k):
            return
        name = "prod" if k - 1 in self.within else primitive.name
        if name == "power" and self.tape.operands(k)[1] != CONSTANT:
            name = "exp" if self.tape.operands(k)[0] == CONSTANT else "power of both"
        found.setdefault(_RULES.get(name, f"chain rule: {_SIGNS.get(name) or NAMES.get(name, name)}"))
        if name in _CONDITIONS:
            conditions.setdefault(_CONDITIONS[name])

    def _linear_rule(self, k: int) -> str:
        """Return the rule of a line that is linear: its own or, where that only moves entries, that of what it moves."""
        primitive = self.tape.primitive(k)
        moving = self._moving(k)
        if primitive is not None and not self._is_quiet(k):
            return _LINEAR.get(primitive.name, "constant multiple")
        return self._linear_rule(moving[0]) if primitive is not None and moving else "linearity"


def _shape(x: Any) -> tuple[int, ...]:
    return np.shape(getattr(x, "value", x))


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
