"""The cost of a program, as polynomials of the sizes: its operations, and the most numbers it holds at once.

The count is of what numpy runs: linear solves in place of inverses, and products from left to right, but vectors first.
Sums, products and functions take one operation for each entry; an m x k matrix times a k x n matrix takes 2 m k n. Arrays
count as held, but not inputs or single numbers; an elementwise operation reuses the memory of an operand that nothing else
needs.

Source   Golub and Van Loan (2013), Matrix Computations, sections 1.1 and 3.2.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from flint import fmpq, fmpq_mpoly, fmpq_mpoly_ctx

from gradcli.derivation.algebra import FUNCTIONS
from gradcli.derivation.code.writer import chained, solved
from gradcli.derivation.expression import E, Op
from gradcli.derivation.statements import Statements
from gradcli.errors import NotSupported
from gradcli.reports.absent import ABSENT, Absent
from gradcli.reports.derive import Cost

Shape = tuple[fmpq_mpoly, ...]
_DIM = re.compile(r"(\w+)(?: ([-+]) (\d+))?")
_PART = re.compile(r"\[[^]]*\]|[^,\s]+")
_PER_ENTRY = {"softmax": 5, "logsumexp": 4, "var": 4, "norm": 2}  # operations; all other functions take one
_ASIDE = {"softmax", "logsumexp", "var"}  # functions that need a temporary array
_REDUCING = {"sum", "mean", "var", "norm", "logsumexp", "prod", "max", "min"}
_EACH = FUNCTIONS | {"exp", "log", "sqrt", "abs", "sigmoid", "softplus", "softmax"}  # functions entry by entry
_SIZED = {"eye", "ones", "zeros"}  # functions of sizes
_BARE: dict[str, tuple[str, ...]] = {
    Op.MUL: (Op.MUL, Op.DIV),
    Op.DIV: (Op.MUL, Op.DIV),
    Op.MATMUL: (),
}  # by operator, the first factors that are written without brackets


def cost_of(made: Statements, dims: Mapping[str, Sequence[str]]) -> Cost | Absent:
    """Return the cost of a program whose inputs have the sizes `dims`, names or numbers; ABSENT if it is not known.

    Units   an operation is one arithmetic operation, or one function of a number; memory is in numbers, not in bytes.
    """
    try:
        return _counted(made, _Count(dims))
    except NotSupported:
        return ABSENT


def _counted(made: Statements, count: "_Count") -> Cost:
    for name, e in made.parts:
        count.shapes[name] = count.run(e).shape
    count.run(made.result)
    peaks = [written(p) for p in _largest(count.peaks)]
    memory = peaks[0] if len(peaks) == 1 else f"max({', '.join(peaks)})"
    return Cost(written(count.operations), written(_leading(count.operations)), memory)


@dataclass(frozen=True)
class _Array:
    """The shape of a value, and how many numbers are held for it alone; none for an input or a view."""

    shape: Shape
    own: fmpq_mpoly


class _Count:
    """A running count: the operations so far, the numbers held now, and those held during each operation."""

    def __init__(self, dims: Mapping[str, Sequence[str]]) -> None:
        names = dict.fromkeys(d for own in dims.values() for d in own if not d.isdecimal())
        self.ring = fmpq_mpoly_ctx.get(list(names), "deglex")
        self.sizes = dict(zip(names, self.ring.gens(), strict=True))
        self.one = self.ring.constant(1)
        self.none = self.operations = self.held = self.ring.constant(0)
        self.shapes: dict[str, Shape] = {n: tuple(map(self.dim, own)) for n, own in dims.items()}
        self.peaks = [self.none]

    def dim(self, text: str) -> fmpq_mpoly:
        """Return a size: m, 3, or n - 1. Raises NotSupported."""
        match = _DIM.fullmatch(text)
        if match is None or not (match[1].isdecimal() or match[1] in self.sizes):
            raise NotSupported(f"{text} is no size")
        whole = self.one * int(match[1]) if match[1].isdecimal() else self.sizes[match[1]]
        return whole + int(f"{match[2]}{match[3]}") if match[2] else whole

    def run(self, e: E) -> _Array:
        """Count an expression, computed in the order of the generated code, and return its array."""
        ranks = {name: len(shape) for name, shape in self.shapes.items()}
        return self.value(_signed(chained(solved(e), ranks)))

    def value(self, e: E) -> _Array:
        """Count an expression and return its array. Raises NotSupported for a function of unknown cost."""
        if e.op == "name" or self._literal(e):
            return _Array(self.shapes.get(e.text, ()), self.none)
        if e.op in (Op.ADD, Op.MUL, Op.MATMUL):
            return self._chain(e)
        args = [self.value(a) for a in e.args]
        if e.op in (Op.TRANSPOSE, "column", "index") or e.text == "flip":  # a view of the same numbers
            seen = self._seen(e, args[0].shape)
            return self.made(seen, self.none, args) if "[" in e.text[1:] else replace(args[0], shape=seen)
        rule = _RULES.get(e.text if e.op == "call" else e.op)
        if rule:
            return rule(self, e, args)
        if e.op == "call" and e.text not in _EACH:
            raise NotSupported(f"what {e.text} costs is not known")
        return self.each(args, _PER_ENTRY.get(e.text, 1), e.text in _ASIDE)

    def _literal(self, e: E) -> bool:
        """Whether an expression is a number that does not depend on inputs, which is not counted."""
        if e.op == "name":
            return e.text == "pi" and "pi" not in self.shapes
        return e.op == "number" or (bool(e.args) and e.text not in _SIZED and all(map(self._literal, e.args)))

    def _chain(self, e: E) -> _Array:
        """Count a sum or a product from left to right, and return its array; a difference is one operation."""
        left = self.value(e.args[0])
        for a in e.args[1:]:
            right = self.value(a.args[0] if e.op == Op.ADD and a.op == Op.NEG else a)
            left = self._product(left, right) if e.op == Op.MATMUL else self.each([left, right])
        return left

    def _product(self, a: _Array, b: _Array) -> _Array:
        shape = (*a.shape[:-1], *b.shape[1:])
        return self.made(shape, 2 * self.entries(shape) * b.shape[0], [a, b])

    def _seen(self, e: E, shape: Shape) -> Shape:
        if e.op == Op.TRANSPOSE:
            return shape[::-1]
        if e.op == "column":
            return (*shape, self.one)
        if e.op == "call":
            return shape
        parts = _PART.findall(e.text[1:-1])
        kept = [self._kept(part, n) for part, n in zip(parts, shape, strict=False)]
        return (*(n for n in kept if n is not None), *shape[len(parts) :])

    def _kept(self, part: str, n: fmpq_mpoly) -> fmpq_mpoly | None:
        """Return how many of n positions an index keeps (1:, :-2, ::-1, [0, 2]); None for a single one, which drops the axis."""
        if part.startswith("["):
            return self.one * len(part.split(","))
        if ":" not in part:
            return None
        if n.is_constant():
            places = slice(*(int(text) if text else None for text in part.split(":")))
            return self.one * len(range(int(n.leading_coefficient().p))[places])
        start, stop, *step = part.split(":")
        if step not in ([], [""], ["-1"]):
            raise NotSupported(f"the index {part} has no size")
        first, last = int(start or 0), int(stop or 0)
        begin = n + first if first < 0 else self.one * first
        end = n + last if last <= 0 else self.one * last
        return end - begin

    def each(self, args: Sequence[_Array], operations: int = 1, aside: bool = False) -> _Array:
        """Count an elementwise operation, and return its array."""
        shape: Shape = ()
        for a in args:
            shape = self._together(shape, a.shape)
        size = self.entries(shape)
        return self.made(shape, operations * size, args, size if aside else self.none, in_place=not aside)

    def _together(self, a: Shape, b: Shape) -> Shape:
        long, short = (a, b) if len(a) >= len(b) else (b, a)
        rest = len(long) - len(short)
        pairs = zip(long[rest:], short, strict=True)
        return (*long[:rest], *(y if x == self.one else x for x, y in pairs))

    def entries(self, shape: Shape) -> fmpq_mpoly:
        """Return how many entries a shape has."""
        count = self.one
        for n in shape:
            count = count * n
        return count

    def made(
        self,
        shape: Shape,
        operations: fmpq_mpoly,
        args: Sequence[_Array],
        aside: fmpq_mpoly = 0,
        in_place: bool = False,
    ) -> _Array:
        """Count an operation that frees its operands, and return its array; `aside` is memory held only during it."""
        self.operations = self.operations + operations
        size = self.entries(shape) if shape else self.none
        given = [a.own for a in args]
        taken = in_place and any(a.shape == shape and a.own == size for a in args)
        self.peaks.append(self.held + aside + (self.none if taken else size))
        self.held = self.held + size - sum(given, self.none)
        return _Array(shape, size)


Rule = Callable[[_Count, E, list[_Array]], _Array]


def _reduced(count: _Count, e: E, args: list[_Array]) -> _Array:
    (x,) = args
    axis = dict(e.options).get("axis")
    shape = () if axis is None else tuple(n for k, n in enumerate(x.shape) if k != int(axis))
    size = count.entries(x.shape)
    aside = size if e.text in _ASIDE and x.shape else count.none
    return count.made(shape, _PER_ENTRY.get(e.text, 1) * size, args, aside)


def _alike(count: _Count, e: E, args: list[_Array]) -> _Array:
    x = args[0].shape
    return count.made(x, count.entries(x) if e.text == "cumsum" else count.none, args)


def _sized(count: _Count, e: E, args: list[_Array]) -> _Array:
    lengths = [count.dim(str(a.number) if a.op == "number" else a.text) for a in e.args]
    return count.made(tuple(lengths * 2 if e.text == "eye" else lengths), count.none, [])


def _einsum(count: _Count, e: E, args: list[_Array]) -> _Array:
    inside, _, out = dict(e.options)["first"].strip('"').partition("->")
    lengths: dict[str, fmpq_mpoly] = {}
    for word, x in zip(inside.split(","), args, strict=True):
        lengths |= zip(word, x.shape, strict=True)
    operations = len(args) * count.entries(tuple(lengths.values()))
    return count.made(tuple(lengths[letter] for letter in out), operations, args)


def _diag(count: _Count, e: E, args: list[_Array]) -> _Array:
    n = args[0].shape[0]
    return count.made((n, n) if len(args[0].shape) == 1 else (n,), count.none, args)


def _outer(count: _Count, e: E, args: list[_Array]) -> _Array:
    shape = (args[0].shape[0], args[1].shape[0])
    return count.made(shape, count.entries(shape), args)


def _factored(thirds: int, whole: bool) -> Rule:
    """Return the rule of an operation that factorises a copy of a square matrix: (2 + thirds)/3 n^3 operations."""

    def rule(count: _Count, e: E, args: list[_Array]) -> _Array:
        n = args[0].shape[0]
        return count.made((n, n) if whole else (), fmpq(2 + thirds, 3) * n**3, args, n**2)

    return rule


def _solve(count: _Count, e: E, args: list[_Array]) -> _Array:
    n, b = args[0].shape[0], args[1].shape
    return count.made(b, fmpq(2, 3) * n**3 + 2 * n * count.entries(b), args, n**2)


def _trace(count: _Count, e: E, args: list[_Array]) -> _Array:
    return count.made((), args[0].shape[0], args)


def _padded(count: _Count, e: E, args: list[_Array]) -> _Array:
    return count.made((args[0].shape[0] + e.text.count("0"),), count.none, args)


_RULES: dict[str, Rule] = {
    **dict.fromkeys(_REDUCING, _reduced), **dict.fromkeys(_SIZED, _sized), "concat": _padded, "einsum": _einsum,
    **dict.fromkeys(("ones_like", "zeros_like", "tril", "triu", "cumsum"), _alike), "diag": _diag, "outer": _outer,
    "det": _factored(0, whole=False), "inv": _factored(4, whole=True), "solve": _solve, "trace": _trace,
}  # fmt: skip


def _signed(e: E) -> E:
    """Return an expression with each minus where Python applies it: at the first factor of a product; literals take none."""
    if e.op == Op.NEG:
        return _negative(_signed(e.args[0]))
    less = [k and e.op == Op.ADD and a.op == Op.NEG for k, a in enumerate(e.args)]  # differences
    args = [replace(a, args=(_signed(a.args[0]),)) if k else _signed(a) for k, a in zip(less, e.args, strict=True)]
    return replace(e, args=tuple(args))


def _negative(e: E) -> E:
    if e.op not in _BARE:
        return e if e.op == "number" else E(Op.NEG, (e,))
    first, *rest = e.args
    bare = first.op in _BARE[e.op] or first.op == "number"
    return replace(e, args=(_negative(first) if bare else E(Op.NEG, (first,)), *rest))


def _largest(sizes: Iterable[fmpq_mpoly]) -> list[fmpq_mpoly]:
    """Return the sizes that no other size is sure to be at least as large as, whatever the names stand for."""
    found: list[fmpq_mpoly] = []
    for p in sizes:
        if not any(_at_least(q, p) for q in found):
            found = [q for q in found if not _at_least(p, q)] + [p]
    return found


def _at_least(p: fmpq_mpoly, q: fmpq_mpoly) -> bool:
    """Whether p >= q is sure for integers: terms in which q is larger are covered by multiples of them in p."""
    more = dict((p - q).terms())
    for powers in [m for m, c in more.items() if c < 0]:
        for other in [m for m, c in more.items() if c > 0 and _divides(powers, m)]:
            share = min(more[other], -more[powers])
            more[other], more[powers] = more[other] - share, more[powers] + share
    return all(c >= 0 for c in more.values())


def _leading(p: fmpq_mpoly) -> fmpq_mpoly:
    """Return the leading terms: those that divide no other term."""
    kept = {m: c for m, c in p.terms() if not any(m != other and _divides(m, other) for other in p.monoms())}
    return p.context().from_dict(kept)


def _divides(powers: Sequence[int], others: Sequence[int]) -> bool:
    return all(a <= b for a, b in zip(powers, others, strict=True))


def written(p: fmpq_mpoly) -> str:
    """Return a polynomial as an expression, the terms of the highest degree first: 2*m*n**2 + 3*m."""
    shown = ""
    for powers, c in p.terms():
        names = [n if k == 1 else f"{n}**{k}" for n, k in zip(p.context().names(), powers, strict=True) if k]
        size = Fraction(int(c.p), int(c.q))
        factors = [str(abs(size))] if abs(size) != 1 or not names else []
        sign = ("-" if size < 0 else "") if not shown else " - " if size < 0 else " + "
        shown += sign + "*".join([*factors, *names])
    return shown or "0"
