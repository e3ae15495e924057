"""What can stand at a place of the claim's code: the names that have values there, and the expressions around it."""

import ast
import itertools
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from types import ModuleType
from typing import Any

import numpy as np

from gradcli.classes import dataclass
from gradcli.modes.rounding import EPS
from gradcli.request.point import Array
from gradcli.targets.expression import column_in_characters, extent_of_node

Code = tuple[str, int]  # the text of an expression, and how strongly it binds
New = tuple[str, float, str, int]  # kind, cost, text, how strongly it binds


# Source text and its syntax tree: where a node is, what replaces it, and when brackets are needed.

Span = tuple[int, int]
_LOOSEST, _SUM, _PRODUCT, SIGN, _POWER, ATOM = 0, 10, 11, 12, 13, 15
BINDING: dict[type[ast.AST], int] = {  # how strongly an operation binds
    ast.Add: _SUM, ast.Sub: _SUM, ast.Mult: _PRODUCT, ast.Div: _PRODUCT, ast.MatMult: _PRODUCT, ast.FloorDiv: _PRODUCT,
    ast.Mod: _PRODUCT, ast.Pow: _POWER,
}  # fmt: skip
SIGNS: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.MatMult: "@", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Change:
    """One replacement in a text: the characters from `start` to `end` become `new`."""

    start: int
    end: int
    new: str


def apply_changes(text: str, changes: Sequence[Change]) -> str:
    """Return the text after some replacements, which do not overlap."""
    for change in sorted(changes, key=lambda c: -c.start):
        text = text[: change.start] + change.new + text[change.end :]
    return text


@dataclass(frozen=True)
class Text:
    """A source text, of which `span` gives the characters of a node."""

    text: str
    span: Callable[[ast.AST], Span]

    def piece(self, node: ast.AST) -> str:
        """Return the text of a node, without brackets around it."""
        start, end = self.span(node)
        return self.text[start:end]

    def code(self, node: ast.AST) -> Code:
        """Return the text of a node, and how strongly it binds."""
        return self.piece(node), binding_strength(node)


def lines_of(text: str) -> list[str]:
    """Return the lines of a text with their ends; only a newline ends a line, as in Python's parser and in git."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def spans_of(text: str) -> Callable[[ast.AST], Span]:
    """Return the function that gives the span of a node of this text's own tree."""
    lines = lines_of(text)
    starts = list(itertools.accumulate(map(len, lines), initial=0))

    def span(node: ast.AST) -> Span:
        first, last = (starts[k - 1] + column_in_characters(lines[k - 1], at) for k, at in extent_of_node(node))
        return first, last

    return span


def binding_strength(node: ast.AST) -> int:
    """Return how strongly an expression binds; the operands of a stronger one need brackets."""
    if isinstance(node, ast.BinOp):
        return BINDING.get(type(node.op), _LOOSEST)
    if isinstance(node, ast.UnaryOp):
        return SIGN
    if isinstance(node, ast.Name | ast.Call | ast.Attribute | ast.Subscript | ast.List | ast.Tuple | ast.Dict):
        return ATOM
    if isinstance(node, ast.Constant):
        negative = isinstance(node.value, int | float) and node.value < 0
        return SIGN if negative else ATOM
    return _LOOSEST


def bracket_operand(text: str, bound: int, operator: type[ast.AST], right: bool = False) -> str:
    """Return a text as an operand of an operator, in brackets if it binds less."""
    need = BINDING[operator]
    return f"({text})" if bound < need or (bound == need and right) or (operator is ast.Pow and bound <= need) else text


def write_operation(operator: type[ast.AST], left: Code, right: Code) -> Code:
    """Return an operation on two operands, each in brackets where these are needed."""
    first, second = bracket_operand(*left, operator), bracket_operand(*right, operator, right=True)
    return f"{first} {SIGNS[operator]} {second}", BINDING[operator]


def _needed_strength(node: ast.AST, parent: ast.AST) -> int:
    """Return how strongly what replaces a node must bind to need no brackets."""
    if isinstance(parent, ast.BinOp):
        need = BINDING.get(type(parent.op), ATOM)
        after = node is parent.right and not isinstance(parent.op, ast.Add | ast.Pow)
        before_power = isinstance(parent.op, ast.Pow) and node is parent.left
        return need + 1 if after or before_power else need
    if isinstance(parent, ast.UnaryOp):
        return SIGN if isinstance(parent.op, ast.USub | ast.UAdd) else _LOOSEST
    is_indexed = isinstance(parent, ast.Subscript) and node is parent.value
    if is_indexed or isinstance(parent, ast.Attribute) or (isinstance(parent, ast.Call) and node is parent.func):
        return ATOM
    return _SUM if isinstance(parent, ast.Compare | ast.BoolOp | ast.IfExp | ast.comprehension) else _LOOSEST


def walk_expressions(root: ast.AST) -> Iterator[tuple[ast.expr, ast.AST]]:
    """Yield every expression below a statement, with its parent; nested functions are statements of their own."""
    for _, value in ast.iter_fields(root):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.expr):
                yield child, root
            if isinstance(child, ast.AST) and not isinstance(child, ast.stmt | ast.JoinedStr | ast.Lambda):
                yield from walk_expressions(child)


@dataclass(frozen=True, slots=True)
class Edit:
    """An edit of a source text: its kind, the line, and the changed text; likelier edits cost less."""

    kind: str
    cost: float
    line: int
    changes: tuple[Change, ...]
    is_next_step: bool = False  # of a value that is right: it is taken for that of what it is made of

    @property
    def exchanges(self) -> bool:
        """Whether two texts change places, as two statements do: no value is changed by it alone."""
        return self.kind == "order" and len(self.changes) == 2


UNKNOWN: Any = type("Unknown", (), {"__repr__": lambda self: "unknown"})()
_MOST_TERMS = 120  # expressions of a function that are tried as terms and factors
_MOST_OF_OBJECTS = 24  # arrays of objects that are tried as factors
_DIVIDED = re.compile(r"(?<!/)/\s*([^\W\d]\w*)$")
_LARGEST = 100_000  # entries of a value that is looked at


@dataclass(frozen=True, slots=True)
class CandidateTerm:
    """An expression that can stand in another place, its value, and how strongly it binds."""

    text: str
    value: Any
    bound: int = ATOM
    unread: bool = False  # a name that is assigned and nowhere read, or an expression that only the function has

    @property
    def code(self) -> Code:
        return self.text, self.bound


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
    given: frozenset[str] = frozenset()  # the parameters of the code
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
    def names(self) -> tuple[CandidateTerm, ...]:
        """The names with numbers or arrays, those that nothing reads first."""
        found = [CandidateTerm(name, x, unread=name in self.unread) for name, x in self.values.items() if is_number(x)]
        return tuple(sorted(found, key=lambda term: not term.unread))

    @cached_property
    def object_arrays(self) -> tuple[CandidateTerm, ...]:
        """The arrays and numbers that objects here hold and the code does not read, such as `self.mask`, masks among them."""
        found, own = [], {*self.around} - self.of_f
        for name, holder in self.values.items():
            for attribute, x in [*getattr(holder, "__dict__", {}).items()] if not callable(holder) else ():
                text = f"{name}.{attribute}"
                if (is_number(x) or is_mask(x)) and shape_of(x) and text not in own:
                    found.append(CandidateTerm(text, x, unread=True))
        return tuple(found[:_MOST_OF_OBJECTS])

    @cached_property
    def divisors(self) -> frozenset[str]:
        """The names by which other expressions of the code are divided."""
        own = (text for text in self.around if text not in self.of_f)
        return frozenset(found[1] for text in own if (found := _DIVIDED.search(text)))

    @cached_property
    def sizes(self) -> tuple[CandidateTerm, ...]:
        """Sizes of the arrays here, each number once; a name that holds it is among the names."""
        found: dict[int, CandidateTerm] = {}
        for name, x in self.values.items():
            if is_number(x) and shape_of(x):
                shape = shape_of(x)
                spelled = [(shape[0], f"len({name})")]
                if len(shape) > 1:
                    spelled = [(n, f"{name}.shape[{k}]") for k, n in enumerate(shape)]
                    spelled.append((int(np.prod(shape)), f"{name}.size"))
                for n, text in spelled:
                    if n > 1:
                        found.setdefault(n, CandidateTerm(text, float(n)))
        return tuple(found.values()) if self.prefix else tuple(CandidateTerm(str(n), float(n)) for n in found)

    @cached_property
    def terms(self) -> tuple[CandidateTerm, ...]:
        """Other expressions of the code that have a value here."""
        found = {}
        for text in dict.fromkeys(self.around):
            x = self.value(text)
            if is_number(x) and text not in self.values:
                found[text] = CandidateTerm(text, x, _binding_of_text(text), text in self.of_f)
            if len(found) >= _MOST_TERMS:
                break
        return tuple(found.values())


def _binding_of_text(text: str) -> int:
    try:
        return binding_strength(ast.parse(text, mode="eval").body)
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


def is_complex(x: Any) -> bool:
    """Whether a value is a complex number or an array of them."""
    return "complex" in str(getattr(x, "dtype", ""))


def is_mask(x: Any) -> bool:
    """Whether a value is an array of truth values."""
    return str(getattr(x, "dtype", "")) == "bool"


def is_index(x: Any) -> bool:
    """Whether a value is an integer number."""
    return isinstance(x, int | np.integer) and not isinstance(x, bool)


def shape_of(x: Any) -> tuple[int, ...]:
    """Return the shape of a number or array."""
    shape = getattr(x, "shape", ())
    return () if callable(shape) else tuple(int(n) for n in shape)


def can_broadcast_into(part: Any, whole: Any) -> bool:
    """Whether `part`, broadcast with `whole`, keeps the shape of `whole`; a number fits everything."""
    if part is UNKNOWN:
        return False
    if whole is UNKNOWN or not is_number(whole):
        return shape_of(part) == ()
    try:
        return np.broadcast_shapes(shape_of(part), shape_of(whole)) == shape_of(whole)
    except ValueError:
        return False


def texts_of_expressions(text: Text, roots: Iterable[ast.AST]) -> tuple[str, ...]:
    """Return the texts of the expressions below some nodes that can stand elsewhere: operations, calls, items, numbers."""
    kinds = ast.BinOp | ast.UnaryOp | ast.Call | ast.Subscript | ast.Attribute
    pieces = (
        text.piece(node)
        for root in roots
        for node in ast.walk(root)
        if isinstance(node, kinds)  # or a number other than those that are tried everywhere
        or (isinstance(node, ast.Constant) and is_number(node.value) and node.value not in (0, 0.5, 1, 2, 3, 4))
    )
    return tuple(sorted(dict.fromkeys(p for p in pieces if len(p) <= 80 and "\n" not in p), key=len))


# A place in a claim's source, and an edit of it.


@dataclass(frozen=True)
class EditPlace:
    """An expression of the claim's code, and what may stand there."""

    node: ast.expr
    parent: ast.AST
    text: Text
    scope: Scope

    @cached_property
    def piece(self) -> str:
        return self.text.piece(self.node)

    @cached_property
    def value(self) -> Any:
        """The value of the expression when the claim ran."""
        return UNKNOWN if self.stored else self.scope.value(self.piece)

    @property
    def stored(self) -> bool:
        """Whether it is the target of an assignment."""
        return isinstance(getattr(self.node, "ctx", None), ast.Store | ast.Del)

    @property
    def is_written_into(self) -> bool:
        """Whether an entry of it is the target of an assignment, which would be one of a new array if it were an operation."""
        is_array = isinstance(self.parent, ast.Subscript) and self.parent.value is self.node
        return is_array and isinstance(self.parent.ctx, ast.Store)  # type: ignore[attr-defined]

    @property
    def is_function(self) -> bool:
        return isinstance(self.parent, ast.Call) and self.parent.func is self.node

    @property
    def in_index(self) -> bool:
        """Whether its value is used as an index."""
        if isinstance(self.node, ast.Constant):
            return isinstance(self.parent, ast.Subscript | ast.Slice)
        return is_index(self.value) or (isinstance(self.parent, ast.Subscript) and self.node is self.parent.slice)

    @property
    def carries_numbers(self) -> bool:
        """Whether it is a value that can be scaled or added to: no function, index, keyword, or array that is written into."""
        if self.stored or self.is_function or self.in_index or isinstance(self.node, ast.Slice | ast.Tuple | ast.List):
            return False
        if self.is_written_into or isinstance(self.parent, ast.keyword | ast.Attribute | ast.Compare):
            return False
        return self.value is UNKNOWN or is_number(self.value)

    @property
    def is_factor(self) -> bool:
        """Whether it is a factor of a product, so that an edit of the product is the same."""
        return isinstance(self.parent, ast.BinOp) and isinstance(self.parent.op, ast.Mult | ast.Div)

    @property
    def divides(self) -> bool:
        """Whether its parent is a division."""
        return isinstance(self.parent, ast.AugAssign | ast.BinOp) and isinstance(self.parent.op, ast.Div)

    @property
    def is_term(self) -> bool:
        return isinstance(self.parent, ast.BinOp) and isinstance(self.parent.op, ast.Add | ast.Sub)

    @property
    def code(self) -> Code:
        return self.text.code(self.node)

    def edit(self, kind: str, cost: float, new: str, bound: int) -> Edit:
        """Return the edit that writes a text in this place, in brackets if it binds less than what is around it."""
        start, end = self.text.span(self.node)
        before, after = self.text.text[:start].rstrip()[-2:], self.text.text[end:].lstrip()[:1]
        bracketed = before[-1:] == "(" and after == ")"
        if bound < _needed_strength(self.node, self.parent) and not bracketed:
            new = f"({new})"
        elif bracketed and bound == ATOM and re.fullmatch(r"(^|[^\w)\]])\(", before):  # no call's
            start, end = self.text.text.rindex("(", 0, start), self.text.text.index(")", end) + 1
        return Edit(kind, cost, getattr(self.node, "lineno", 1), (Change(start, end, new),))


# The right gradient at the given point and at others, and which entries of a claim are wrong there.

Gradient = Mapping[str, Array]


@dataclass(frozen=True, slots=True)
class Right:
    """The right gradient at one point, and how far a right claim may be from it.

    Shapes  each array has the shape of the output, then that of the input.
    Units   `room` is in units of the gradient.

    `resized` says that its arrays have other sizes than at the given point; named sizes are those in `sizes`.
    """

    at: Mapping[str, Any]
    gradient: Gradient
    room: Gradient
    outputs: tuple[int, ...] = ()
    resized: bool = False
    sizes: Mapping[str, Any] = field(default_factory=dict)

    def wrong(self, made: Gradient | None, names: Collection[str] | None = None) -> dict[str, Any] | None:
        """Return a mask of the wrong entries of each input, or of some; None if their gradient is not there."""
        names = self.gradient if names is None else names
        if made is None or not set(names) <= set(made):
            return None
        found = {}
        for name in names:
            right, x = np.asarray(self.gradient[name]), np.asarray(made[name])
            if x.shape != right.shape:
                found[name] = np.ones(right.shape, dtype=bool)
                continue
            with np.errstate(all="ignore"):
                found[name] = ~(np.abs(x - right) <= self.room[name] + 4 * EPS * np.abs(right))
        return found

    def copied_values(self) -> dict[str, Any]:
        """Return the values of the point, whose arrays may be written into."""
        return {name: np.array(x) if isinstance(x, np.ndarray) else x for name, x in self.at.items()}

    def holds(self, made: Gradient | None, names: Collection[str] | None = None) -> bool:
        """Whether a claimed gradient is right, by each input or by some."""
        wrong = self.wrong(made, names)
        return wrong is not None and not any(np.any(mask) for mask in wrong.values())
