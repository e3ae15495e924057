"""Formulas in matrix notation for the adjoint of an operand from the adjoint of the result: dL/dW = (dL/dz) xᵀ."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Use:
    """One operation: its name, the names of its operands and of its result, and their shapes.

    `params` are the parameters of a primitive; None for a function that consists of several operations.
    """

    operation: str
    operands: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    y: str
    shape: tuple[int, ...]
    params: Mapping[str, Any] | None
    elementwise: bool

    @property
    def bar(self) -> str:
        """The adjoint of the result."""
        return f"(dL/d{self.y})"

    def times(self, factor: str) -> str:
        """Return the adjoint of the result times a factor; the product is elementwise if the result is an array."""
        return f"{self.bar} {'∘' if self.shape else '*'} {factor}"


def formula(use: Use, i: int) -> str:
    """Return the formula of the contribution to the adjoint of the i-th operand."""
    if i >= len(use.operands):
        return f"{use.bar} through {use.operation}"
    rule = _RULES.get(use.operation) if use.params is not None else None
    said = rule(use, i) if rule is not None else _of_function(use)
    narrow = use.operation in _BROADCASTING and use.shapes[i] != use.shape
    return f"sum of {said}" if narrow else said[1:-1] if said == use.bar else said


def _of_function(use: Use) -> str:
    """Return the formula by the derivative for a function of one operand; by name for any other operation."""
    if len(use.operands) != 1:
        return f"{use.bar} through {use.operation}"
    slope = f"{use.operation}'({use.operands[0]})"
    return use.times(slope) if use.elementwise or not use.shape else f"{slope}ᵀ {use.bar}"


def _other(use: Use, i: int) -> str:
    return use.operands[1 - i]


def _matmul(use: Use, i: int) -> str:
    (a, b), (left, right) = use.operands, use.shapes
    if len(left) == len(right) == 1:
        return f"{use.bar} * {_other(use, i)}"
    if i == 0:
        return f"{b} {use.bar}" if len(left) == 1 else f"{use.bar} {b}ᵀ"
    return f"{a} {use.bar}ᵀ" if len(left) == 1 else f"{a}ᵀ {use.bar}"


def _einsum(use: Use, i: int) -> str:
    vectors = len(use.shapes) == 2 and all(len(sizes) == 1 for sizes in use.shapes)
    return f"{use.bar} * {_other(use, i)}" if vectors and not use.shape else f"{use.bar} through einsum"


def _power(use: Use, i: int) -> str:
    n = (use.params or {})["n"]
    return use.times(f"{n} {use.operands[0]}" if n == 2 else f"{n} {use.operands[0]}^{n - 1}")


def _divide(use: Use, i: int) -> str:
    a, b = use.operands
    return f"{use.bar} / {b}" if i == 0 else f"-{use.bar} {'∘' if use.shape else '*'} {a} / {b}^2"


_RULES: dict[str, Callable[[Use, int], str]] = {
    "add": lambda use, i: use.bar,
    "subtract": lambda use, i: use.bar if i == 0 else f"-{use.bar}",
    "negative": lambda use, i: f"-{use.bar}",
    "multiply": lambda use, i: use.times(_other(use, i)),
    "divide": _divide,
    "matmul": _matmul,
    "einsum": _einsum,
    "integer_power": _power,
    "sum": lambda use, i: f"{use.bar} in every entry",
    "mean": lambda use, i: f"{use.bar} / n in every entry",
    "transpose": lambda use, i: f"{use.bar}ᵀ",
    "reshape": lambda use, i: f"{use.bar} in the shape of {use.operands[i]}",
    "getitem": lambda use, i: f"{use.bar} at its place, else 0",
}  # fmt: skip
_BROADCASTING = ("add", "subtract", "multiply", "divide")
