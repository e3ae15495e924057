"""Expressions of matrices: trees that are printed in any notation."""

import itertools
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field, replace
from enum import StrEnum
from fractions import Fraction
from functools import cached_property

import numpy as np

from gradcli.classes import dataclass
from gradcli.errors import NotSupported

Number = Fraction | float
_EINSUM = 8  # operations that an einsum counts for, so that a matrix form is preferred

_LIST = re.compile(r"\[[^]]*\]")

# how tightly operators bind, from comparisons to atoms, which need no brackets
COMPARE, SUM, PRODUCT, MINUS, POWER, ATOM = range(6)


class Op(StrEnum):
    """The operators of an expression; other nodes are names, numbers, calls and parts of arrays."""

    ADD = "add"
    NEG = "neg"
    MUL = "mul"
    DIV = "div"
    MATMUL = "matmul"
    DOT = "dot"
    POW = "pow"
    TRANSPOSE = "T"


@dataclass(frozen=True)
class E:
    """A node: `op` is name, number, add, mul, div, matmul, neg, pow, T, call, compare, column; `text` its name or sign.

    `axes` is the number of axes of a name, if it is known.
    """

    op: str
    args: tuple["E", ...] = ()
    text: str = ""
    number: Number = Fraction(0)
    options: tuple[tuple[str, str], ...] = ()
    axes: int | None = field(default=None, compare=False)

    @cached_property
    def size(self) -> int:
        """The number of operations; names and numbers do not count."""
        own = 0 if self.op in ("name", "number") else 1
        if self.op in (Op.ADD, Op.MUL, Op.MATMUL):
            own = max(0, len(self.args) - 1)
        if self.is_call("einsum"):
            own = _EINSUM
        if self.op == Op.ADD:  # a difference is one operation
            return own + sum(a.args[0].size if a.op == Op.NEG else a.size for a in self.args)
        return own + sum(a.size for a in self.args)

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.op, self.args, self.text, self.number, self.options))

    def is_call(self, *names: str) -> bool:
        """Whether it is the call of a function of one of these names."""
        return self.op == "call" and self.text in names

    def walk(self) -> Iterator["E"]:
        """Yield the node and all nodes below it, each before its operands."""
        pending = [self]
        while pending:
            node = pending.pop()
            yield node
            pending += reversed(node.args)


def name(text: str, axes: int | None = None) -> E:
    """Return a name, with its number of axes if that is known."""
    return E("name", text=text, axes=axes)


_SPELLED = {  # functions that are a part of what another one returns
    "eigenvectors": "eigh({0})[1]",
    "left_vectors": "svd({0}, full_matrices=False)[0]",
    "right_vectors": "svd({0}, full_matrices=False)[2].T",
    "mirrored": "(tril({0}) + tril({0}, -1).T)",  # the lower triangle, and its mirror image above
    "lower_half": "(tril({0}) - 0.5*diag(diag({0})))",  # the lower triangle, with half the diagonal
    "normal_density": "(exp(-0.5*({0})**2)/sqrt(2*pi))",
}


def index_array(a: E, parts: list[str]) -> E:
    """Return an array indexed by a position or a span along each axis; `:` is the whole axis."""
    while parts and parts[-1] == ":":
        parts = parts[:-1]
    if a.op == "index" and parts and "[" not in (inner := a.text[1:-1]):  # spans of different axes are one index
        pairs = list(itertools.zip_longest(inner.split(", "), parts, fillvalue=":"))
        if all(":" in own and ":" in (own, more) for own, more in pairs):
            return E("index", a.args, f"[{', '.join(more if own == ':' else own for own, more in pairs)}]")
    return E("index", (a,), f"[{', '.join(parts)}]") if parts else a


def count_removed_axes(e: E) -> int:
    """Return how many axes an index removes by taking one entry: one for `[:, 0]`, none for `[1:]` and `[[0, 2]]`."""
    return sum(part.strip(" -").isdigit() for part in _LIST.sub(":", e.text[1:-1]).split(","))


def dot(a: E, b: E) -> E:
    """Return the product of two vectors."""
    return E(Op.DOT, (a, b))


def number(x: Number) -> E:
    """Return a number; a negative one as a minus and a positive number."""
    return neg(E("number", number=-x)) if x < 0 else E("number", number=x)


ONE = number(Fraction(1))


def neg(a: E) -> E:
    """Return -a; two minuses cancel."""
    return a.args[0] if a.op == Op.NEG else E(Op.NEG, (a,))


def call(f: str, *args: E, **options: str) -> E:
    """Return the call of a function, with options such as `axis`."""
    return E("call", args, f, options=tuple(options.items()))


def transpose(a: E) -> E:
    """Return a transpose, distributed over products."""
    if a.op == Op.TRANSPOSE:
        return a.args[0]
    if a.op == Op.MATMUL:
        return matmul(*(transpose(x) for x in reversed(a.args)))
    if a.is_call("eye", "diag"):
        return a
    if a.is_call("outer"):
        return call("outer", *a.args[::-1])
    if a.op == Op.NEG:
        return neg(transpose(a.args[0]))
    return E(Op.TRANSPOSE, (a,))


def matmul(*parts: E) -> E:
    """Return the matrix product of several parts."""
    flat = [x for p in parts for x in (p.args if p.op == Op.MATMUL else (p,))]
    return flat[0] if len(flat) == 1 else E(Op.MATMUL, tuple(flat))


def mul(parts: list[E], below: list[E] | None = None) -> E:
    """Return the quotient of two products, without factors that are 1."""
    top = [x for p in parts for x in (p.args if p.op == Op.MUL else (p,)) if x != ONE]
    low = [x for p in below or [] for x in (p.args if p.op == Op.MUL else (p,)) if x != ONE]
    sign = sum(x.op == Op.NEG for x in top) % 2
    top = [y for x in top for y in [x.args[0] if x.op == Op.NEG else x] if y != ONE]
    y = ONE if not top else top[0] if len(top) == 1 else E(Op.MUL, tuple(top))
    if low:
        y = E(Op.DIV, (y, low[0] if len(low) == 1 else E(Op.MUL, tuple(low))))
    return neg(y) if sign else y


def add(parts: list[E]) -> E:
    """Return a sum, with positive terms first."""
    flat = [x for p in parts for x in (p.args if p.op == Op.ADD else (p,))]
    flat.sort(key=lambda x: x.op == Op.NEG)
    if len(flat) == 2 and flat[0] == ONE and flat[1].op == Op.NEG:
        (opposite,) = flat[1].args
        if opposite.op == "compare" and opposite.text == "==":
            return replace(opposite, text="!=")
    return flat[0] if len(flat) == 1 else E(Op.ADD, tuple(flat))


def power(a: E, p: Number) -> E:
    """Return a**p; a square root as sqrt."""
    if p == 1:
        return a
    if a.op == Op.DOT and a.args[0] == a.args[1] and p in (Fraction(1, 2), Fraction(3, 2)):
        return power(call("norm", a.args[0]), 2 * p)
    if p == Fraction(1, 2):
        return call("sqrt", a)
    return E(Op.POW, (a, number(p)))


_SIMPLE = 1_000  # the largest factor of a constant such as pi; beyond it, a number is written as a float
_THROUGH = {"outer", "diag", "trace", "sum", "mean"}  # calls that are linear in their first argument


def without_minus(e: E) -> E:
    """Return an expression with a leading minus moved into a difference: -(y - h)*a is (h - y)*a."""
    return (_flip_difference(e.args[0]) or e) if e.op == Op.NEG else e


def _flip_difference(e: E) -> E | None:
    """Return -e by turning a difference inside it round; None if there is no such difference."""
    if e.op == Op.ADD and len(e.args) == 2 and e.args[1].op == Op.NEG:
        return E(Op.ADD, (e.args[1].args[0], neg(e.args[0])))
    if e.op not in (Op.MUL, Op.MATMUL, Op.DIV, Op.DOT, Op.TRANSPOSE) and not (e.op == "call" and e.text in _THROUGH):
        return None
    for k, a in enumerate(e.args[:1] if e.op in (Op.DIV, "call") else e.args):
        turned = _flip_difference(a)
        if turned is not None:
            return replace(e, args=(*e.args[:k], turned, *e.args[k + 1 :]))
    return None


def complement_of_sigmoid(e: E) -> E | None:
    """Return sigmoid(-u) for sigmoid(u), with b - a for -(a - b); None for anything else."""
    if not e.is_call("sigmoid"):
        return None
    (u,) = e.args
    return replace(e, args=(without_minus(add([neg(a) for a in u.args]) if u.op == Op.ADD else neg(u)),))


_CONSTANTS = {
    "e": np.e,
    "pi": np.pi,
    "(e - 1)": np.e - 1,  # in the power rule of x^e
    "(pi - 1)": np.pi - 1,
    "sqrt(pi)": np.sqrt(np.pi),
    "sqrt(2)": np.sqrt(2),
    "sqrt(2*pi)": np.sqrt(2 * np.pi),
    "log(2)": np.log(2),
}


_FRACTIONS: ContextVar[bool] = ContextVar("whether numbers are fractions", default=False)
_DECIMAL = re.compile(r"\d\.\d|(?<!\w)\.\d|\d[eE]-?\d")
_LONGEST = 8  # characters of a decimal number that stands for a fraction


@contextmanager
def show_numbers_as_in(formula: str | None) -> Iterator[None]:
    """Show fractions as fractions in the block if a formula has no decimal number, else as decimals where these end."""
    token = _FRACTIONS.set(formula is not None and not _DECIMAL.search(formula))
    try:
        yield
    finally:
        _FRACTIONS.reset(token)


def _short_decimal(x: Fraction) -> str | None:
    """Return a fraction as a short decimal number; None where it has none."""
    text = repr(float(x))
    return text if len(text) <= _LONGEST and "e" not in text and Fraction(text) == x else None


def is_fraction(x: Number) -> bool:
    """Whether a number is shown as a fraction: it has no short decimal, or the user's formula has fractions."""
    return isinstance(x, Fraction) and x.denominator != 1 and (_FRACTIONS.get() or _short_decimal(x) is None)


def formula_number(x: Number) -> str:
    """Return a positive number as a formula shows it. Raises NotSupported for a number that is not finite."""
    return f"{x.numerator}/{x.denominator}" if isinstance(x, Fraction) and is_fraction(x) else number_as_code(x)


def number_as_code(x: Number) -> str:
    """Return a positive number as code: a decimal or a fraction, a multiple of a known constant, or a float in full.

    Raises  NotSupported for a number that is not finite.
    """
    if isinstance(x, Fraction):
        if x.denominator == 1:
            return str(x.numerator)
        return _short_decimal(x) or f"{x.numerator}/{x.denominator}"
    if not np.isfinite(x):
        raise NotSupported("a number in the formula is not finite")
    found = match_known_constant(x)
    if found is not None:
        ratio, name, below = found
        r = number_as_code(ratio)
        return f"{r}/{name}" if below else name if r == "1" else f"{r}*{name}"
    return repr(float(x))


def match_known_constant(x: float) -> tuple[Fraction, str, bool] | None:
    """Return the ratio of a number to a known constant, its name, and whether it stands below; None if there is none."""
    for name, value in _CONSTANTS.items():
        for ratio, below in ((x / value, False), (x * value, True)):
            nice = Fraction(ratio).limit_denominator(64)
            if nice and nice.numerator <= _SIMPLE and abs(float(nice) / ratio - 1) < 4e-15:
                return nice, name, below
    return None


def expression_text(e: E, within: int = COMPARE) -> str:
    """Return an expression in gradcli's input language, which is Python's."""
    shown, level = _PYTHON.get(e.op, _call_text)(e)
    return f"({shown})" if level < within else shown


def _number_text(e: E) -> tuple[str, int]:
    shown = number_as_code(e.number)
    return shown, PRODUCT if "/" in shown or "*" in shown else ATOM


def _sum_text(e: E) -> tuple[str, int]:
    shown = expression_text(e.args[0], SUM)
    for a in e.args[1:]:
        sign, term = ("-", a.args[0]) if a.op == Op.NEG else ("+", a)
        shown += f" {sign} {expression_text(term, PRODUCT)}"
    return shown, SUM


def _factor_text(e: E, within: int) -> str:
    """Return a factor; a product of arrays is in brackets, as `*` and `@` bind alike."""
    return f"({expression_text(e)})" if e.op in (Op.MATMUL, Op.DOT) else expression_text(e, within)


def _concat_text(e: E) -> tuple[str, int]:
    before, _, after = e.text.partition("|")
    return f"concatenate([{', '.join(filter(None, [before, expression_text(e.args[0]), after]))}])", ATOM


def _dot_text(e: E) -> tuple[str, int]:
    """Return the product of two vectors; A@x@(A@x) is not A@x@A@x, which is one product more."""
    first = e.args[0].op == Op.MATMUL
    loose = e.args[1].op == Op.MATMUL and not first
    left, right = (expression_text(a, PRODUCT + (not bare)) for a, bare in zip(e.args, (first, loose), strict=True))
    return f"{left}@{right}", PRODUCT


_PRODUCTS = (Op.MUL, Op.MATMUL, Op.DIV, Op.DOT)
_PYTHON: dict[str, Callable[[E], tuple[str, int]]] = {  # by operation: the text, and how tightly it binds
    "name": lambda e: (e.text, ATOM),
    "number": _number_text,
    Op.NEG: lambda e: (f"-{expression_text(e.args[0], PRODUCT if e.args[0].op in _PRODUCTS else MINUS)}", SUM),
    Op.ADD: _sum_text,
    Op.MUL: lambda e: ("*".join(_factor_text(a, MINUS if k else PRODUCT) for k, a in enumerate(e.args)), PRODUCT),
    Op.DIV: lambda e: (f"{_factor_text(e.args[0], PRODUCT)}/{expression_text(e.args[1], MINUS)}", PRODUCT),
    Op.MATMUL: lambda e: ("@".join(expression_text(a, PRODUCT + 1) for a in e.args), PRODUCT),
    Op.DOT: _dot_text,
    Op.POW: lambda e: (f"{expression_text(e.args[0], ATOM)}**{expression_text(e.args[1], ATOM)}", POWER),
    Op.TRANSPOSE: lambda e: (f"{expression_text(e.args[0], ATOM)}.T", ATOM),
    "index": lambda e: (f"{expression_text(e.args[0], ATOM)}{e.text}", ATOM),
    "column": lambda e: (f"{expression_text(e.args[0], ATOM)}[:, None]", ATOM),
    "compare": lambda e: (f"{expression_text(e.args[0], SUM)} {e.text} {expression_text(e.args[1], SUM)}", COMPARE),
    "concat": _concat_text,
}


def _call_text(e: E) -> tuple[str, int]:
    args = [expression_text(a) for a in e.args]
    word = e.text.rpartition(".")[2]
    if word in ("ones", "zeros") and len(args) > 1:
        return f"{e.text}([{', '.join(args)}])", ATOM
    if word in ("concatenate", "cat"):
        along = "".join(f", {k}={v}" for k, v in e.options if v != "0")
        return f"{e.text}([{', '.join(args)}]{along})", ATOM
    if e.text in _SPELLED:
        return _SPELLED[e.text].format(args[0]), ATOM
    lead = [v for k, v in e.options if k == "first"]
    return f"{e.text}({', '.join([*lead, *args, *(f'{k}={v}' for k, v in e.options if k != 'first')])})", ATOM
