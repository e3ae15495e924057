"""What can stand at a place of the claim's code: the names that have values there, and the expressions around it."""

import ast
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import ModuleType
from typing import Any

import numpy as np

from gradcli.repair.text import ATOM, Text, binding

UNKNOWN: Any = type("Unknown", (), {"__repr__": lambda self: "unknown"})()
_MOST_TERMS = 120  # expressions of a function that are tried as terms and factors
_LARGEST = 100_000  # entries of a value that is looked at


@dataclass(frozen=True, slots=True)
class Term:
    """An expression that can stand in another place, its value, and how strongly it binds."""

    text: str
    value: Any
    bound: int = ATOM
    unread: bool = False  # a name that is assigned and nowhere read, or an expression that only the function has


@dataclass(frozen=True)
class Scope:
    """The names at one statement, with their values when it ran, and how to evaluate an expression there.

    `prefix` is how the code names numpy: `np.`; empty in the language of expressions.
    """

    values: Mapping[str, Any]
    evaluate: Callable[[str], Any]
    unread: frozenset[str] = frozenset()
    prefix: str = "np."
    around: tuple[str, ...] = ()  # the texts of other expressions of the code
    of_f: frozenset[str] = frozenset()  # those of them that only the function has
    _known: dict[str, Any] = field(default_factory=dict)

    def value(self, text: str) -> Any:
        """Return the value of an expression here, UNKNOWN where it has none."""
        if text not in self._known:
            try:
                with np.errstate(all="ignore"):
                    found = self.values[text] if text in self.values else self.evaluate(text)
            except Exception:  # the user's names and shapes: whatever is wrong with it, it is no candidate
                found = UNKNOWN
            self._known[text] = found
        return self._known[text]

    @cached_property
    def names(self) -> tuple[Term, ...]:
        """The names with numbers or arrays, those that nothing reads first."""
        found = [Term(name, x, unread=name in self.unread) for name, x in self.values.items() if is_number(x)]
        return tuple(sorted(found, key=lambda term: not term.unread))

    @cached_property
    def sizes(self) -> tuple[Term, ...]:
        """Sizes of the arrays here, each number once; a name that holds it is among the names."""
        found: dict[int, Term] = {}
        for name, x in self.values.items():
            if is_number(x) and shape_of(x):
                shape = shape_of(x)
                spelled = [(len(x), f"len({name})")] if len(shape) == 1 else []
                spelled += [(n, f"{name}.shape[{k}]") for k, n in enumerate(shape)] if len(shape) > 1 else []
                spelled += [(int(np.prod(shape)), f"{name}.size")] if len(shape) > 1 else []
                for n, text in spelled:
                    if n > 1:
                        found.setdefault(n, Term(text, float(n)))
        return tuple(found.values()) if self.prefix else tuple(Term(str(n), float(n)) for n in found)

    @cached_property
    def terms(self) -> tuple[Term, ...]:
        """Other expressions of the code that have a value here."""
        found = {}
        for text in dict.fromkeys(self.around):
            x = self.value(text)
            if is_number(x) and text not in self.values:
                found[text] = Term(text, x, _bound(text), text in self.of_f)
            if len(found) >= _MOST_TERMS:
                break
        return tuple(found.values())


def _bound(text: str) -> int:
    try:
        return binding(ast.parse(text, mode="eval").body)
    except SyntaxError:
        return 0


def is_number(x: Any) -> bool:
    """Whether a value is a real number or an array of numbers, of a size that is looked at."""
    if isinstance(x, bool | np.bool_ | type | ModuleType) or callable(x):
        return False
    if isinstance(x, int | float | np.number):
        return True
    dtype = str(getattr(x, "dtype", ""))
    return ("float" in dtype or "int" in dtype) and int(np.prod(shape_of(x))) <= _LARGEST


def is_index(x: Any) -> bool:
    """Whether a value is an integer number."""
    return isinstance(x, int | np.integer) and not isinstance(x, bool)


def shape_of(x: Any) -> tuple[int, ...]:
    """Return the shape of a number or array."""
    shape = getattr(x, "shape", ())
    return () if callable(shape) else tuple(int(n) for n in shape)


def fits(part: Any, whole: Any) -> bool:
    """Whether `part`, broadcast with `whole`, keeps the shape of `whole`; a number fits everything."""
    if part is UNKNOWN:
        return False
    if whole is UNKNOWN or not is_number(whole):
        return shape_of(part) == ()
    try:
        return np.broadcast_shapes(shape_of(part), shape_of(whole)) == shape_of(whole)
    except ValueError:
        return False


def _is_unusual(x: Any) -> bool:
    """Whether a constant is a number other than those that are tried everywhere."""
    return is_number(x) and x not in (0, 0.5, 1, 2, 3, 4)


def texts_of(text: Text, roots: Iterable[ast.AST]) -> tuple[str, ...]:
    """Return the texts of the expressions below some nodes that can stand elsewhere: operations, calls, items, numbers."""
    kinds = (ast.BinOp, ast.UnaryOp, ast.Call, ast.Subscript, ast.Attribute, ast.Constant)
    found = []
    for root in roots:
        for node in ast.walk(root):
            if isinstance(node, kinds) and not (isinstance(node, ast.Constant) and not _is_unusual(node.value)):
                piece = text.piece(node)
                if len(piece) <= 80 and "\n" not in piece:
                    found.append(piece)
    return tuple(sorted(dict.fromkeys(found), key=len))
