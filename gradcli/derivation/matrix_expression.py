"""Expressions of matrices: trees that are printed in any notation."""

import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field, replace
from enum import StrEnum
from fractions import Fraction
from functools import cached_property

import numpy as np

from gradcli.classes import dataclass
from gradcli.derivation.sized_problem import first_free_name
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


# Programs: expressions whose repeated parts have names.

_WORTH = 3  # operations that a name must save
_USERS = 4  # operations that a part counts for in addition if the user has named it
_NUMBERED = re.compile(r"t\d+")  # the name in the steps of a part that has no usual letter
_KNOWN = {"eye", "ones", "zeros", "ones_like", "zeros_like"}
_LETTERS = {
    "softmax": "p", "sigmoid": "s", "tanh": "h", "inv": "P", "exp": "e", "det": "D", "var": "v", "mean": "m", "sqrt": "r",
    "outer": "M", Op.ADD: "d", Op.MATMUL: "u", "relu": "a",
}  # fmt: skip


@dataclass(frozen=True)
class Statements:
    """Named parts in order, and the result."""

    parts: tuple[tuple[str, E], ...]
    result: E

    @property
    def size(self) -> int:
        """The number of operations of the whole program."""
        return sum(e.size for _, e in self.parts) + self.result.size

    def text(self) -> str:
        """Return the program in gradcli's language, with a statement for each part."""
        return "; ".join([*(f"{n} = {expression_text(e)}" for n, e in self.parts), expression_text(self.result)])


# The number of axes of an expression, by which code can tell arrays from Python's own numbers.

PLAIN = -1  # the rank of a Python number: a literal, or the length of an axis
_RANKS: dict[
    str, Callable[[E, list[int]], int]
] = {  # by function or operation, given the numbers of axes of its arguments
    **dict.fromkeys(("det", "trace", "norm"), lambda e, args: 0),
    **dict.fromkeys(("arange", "eigvalsh", "svdvals"), lambda e, args: 1),
    **dict.fromkeys(("outer", "eye", "inv"), lambda e, args: 2),
    **dict.fromkeys(("ones", "zeros"), lambda e, args: len(args)),
    **dict.fromkeys(
        ("sum", "mean", "var", "logsumexp", "prod", "max", "min"),
        lambda e, args: PLAIN if args == [PLAIN] else args[0] - 1 if e.options else 0,
    ),
    "einsum": lambda e, args: len(dict(e.options)["first"].strip('"').partition("->")[2]),
    "diag": lambda e, args: 3 - args[0],
    "solve": lambda e, args: args[1],
    "index": lambda e, args: args[0] - count_removed_axes(e) + e.text.count("None"),
    "column": lambda e, args: args[0] + 1,
    "concat": lambda e, args: args[0],
}


def rank(e: E, known: Mapping[str, int]) -> int:
    """Return the number of axes; PLAIN for a number of Python's own. Names that are not known are sizes.

    Raises  NotSupported for a product by `@` of operands that do not have one or two axes.
    """
    args = [rank(a, known) for a in e.args]
    if e.op == "name":
        return known.get(e.text, PLAIN)
    if e.op in (Op.MATMUL, Op.DOT):  # a chain from the left: each product takes one axis of both sides
        if not all(r in (1, 2) for r in args):
            raise NotSupported("an operand of @ or dot must have one or two axes")
        left, *rest = args
        for right in rest:
            if left < 1:
                raise NotSupported("a scalar cannot be an operand of @")
            left += right - 2
        return left
    found = _RANKS.get(e.text if e.op == "call" else e.op)
    return max(args, default=PLAIN) if found is None else found(e, args)


def count_axes(e: E) -> int | None:
    """Return the number of axes, names without known axes being plain numbers; None for a plain number or an unsupported `@`."""
    if e.op == "name":
        return e.axes
    try:
        found = rank(e, {a.text: a.axes for a in e.walk() if a.op == "name" and a.axes is not None})
    except NotSupported:
        return None
    return None if found == PLAIN else found


def name_repeated_parts(
    e: E,
    taken: Sequence[str],
    known: Mapping[E, str] | None = None,
    least: int = _WORTH,
    begun: Sequence[tuple[str, E]] = (),
    steps: Mapping[E, str] | None = None,
) -> Statements:
    """Return an expression with repeated parts named, the largest first.

    Parts that the user has named, which are `known`, keep their names; repeated ones have the names of the `steps`, or new
    ones, where a name saves `least` operations or more. Parts that are `begun` have their names already.
    """
    names = dict(known or {})
    called = {e: n for e, n in (steps or {}).items() if e not in names}
    parts = list(begun)
    used = {*taken, *(n for n, _ in begun), *names.values(), *called.values()}
    while True:
        every = (a for x in (e, *(part for _, part in parts)) for a in x.walk())
        found = Counter(a for a in every if a.size >= 1 and _is_worth_naming(a))
        saved = {a: (n - 1) * a.size for a, n in found.items() if n > 1}
        lettered = {a for a in saved if a.size > 1 and not _NUMBERED.fullmatch(called.get(a, "t1"))}
        worth = {a: size for a, size in saved.items() if size >= least or a in lettered}
        worth |= {a: _USERS for a in found if a in names and a not in worth}
        if not worth:
            return Statements(_sort_by_dependency(parts), e)
        best = max(worth, key=lambda a: (worth[a] + _USERS * (a in names), a.size))
        letter = _LETTERS.get(best.text if best.op == "call" else best.op, "t")
        axes = count_axes(best)
        letter = letter.upper() if letter == "p" and axes == 2 else letter
        new = names.get(best) or called.get(best) or first_free_name([letter], letter, used)
        used.add(new)
        short = name(new, axes=axes)
        names, called = (
            {replace_part(a, best, short): n for a, n in own.items() if n != new} for own in (names, called)
        )
        e = replace_part(e, best, short)
        parts = [(n, replace_part(p, best, short)) for n, p in parts]
        parts.append((new, best))


def _is_worth_naming(e: E) -> bool:
    """Whether a name would be clearer than the part itself; identities and unit vectors, for example, are clear."""
    inner = e.args[0] if e.op == "index" else e
    return e.op not in (Op.NEG, Op.TRANSPOSE, "column") and not inner.is_call(*_KNOWN)


def with_transposes(e: E, turned: Mapping[E, E]) -> E:
    """Return an expression with the transposes of parts written as such; `turned` has how they are written otherwise."""
    for other, part in turned.items():
        e = replace_part(e, other, transpose(part))
    return e


def replace_part(e: E, old: E, new: E) -> E:
    """Return an expression with one part replaced wherever it occurs."""
    if e == old:
        return new
    if not e.args:
        return e
    return replace(e, args=tuple(replace_part(a, old, new) for a in e.args))


def _sort_by_dependency(parts: list[tuple[str, E]]) -> tuple[tuple[str, E], ...]:
    """Return the parts, each after those it uses."""
    by_name = dict(parts)
    used = {n: [a.text for a in part.walk() if a.op == "name" and a.text in by_name] for n, part in parts}
    done: list[str] = []
    while left := [n for n in by_name if n not in done]:
        done.append(next(n for n in left if not {*used[n]} & {*left}))
    return tuple((n, by_name[n]) for n in done)
