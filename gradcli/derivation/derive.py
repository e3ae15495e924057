"""Closed forms: a reverse sweep recorded at three sizes, read as tensors, simplified, written as code, and verified."""

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from flint import fmpq, fmpq_mpoly, fmpq_mpoly_ctx

from gradcli.arithmetic.recorded_program import RecordedProgram, record
from gradcli.arithmetic.tape import Recorded
from gradcli.arithmetic.value_graph import GraphNode
from gradcli.classes import dataclass
from gradcli.derivation import matrix_expression as ex
from gradcli.derivation.algebra import FUNCTIONS, identity, multiply, tidied
from gradcli.derivation.axes import Value, single
from gradcli.derivation.code import languages, writer
from gradcli.derivation.code.writer import chained, solved
from gradcli.derivation.convert import Reader
from gradcli.derivation.ending import (
    ERROR,
    OPEN,
    Begun,
    NamedParts,
    Simplification,
    directed,
    in_cases,
    measure,
    named,
    unlike,
    unseeded,
    with_choices,
    with_complements,
    with_densities,
    with_errors,
    with_known_names,
)
from gradcli.derivation.index import SINGLE, Index, IndexedTerm, Tensor, add, of_atom, scaled
from gradcli.derivation.layer_errors import chain_of, errors_of, numbered
from gradcli.derivation.mathematics import LineWriter, Writing, entry_of, indexed
from gradcli.derivation.matrix_expression import E, Op, text, transpose
from gradcli.derivation.matrix_printing import Printer, Shapes, factors_in, with_single_axes
from gradcli.derivation.notation import NOTATIONS, Latex, M, Mathml, Notation
from gradcli.derivation.notes import first_refused
from gradcli.derivation.scalar_forms import shorter_forms
from gradcli.derivation.simplify import simplified
from gradcli.derivation.sized_problem import MOVED, RECORDINGS, DerivationProblem, TooLong, point_of
from gradcli.derivation.sized_recording import SEED, Sweep, gradient_of, one_sided, sizes_of, swept
from gradcli.derivation.statements import Statements, program, with_transposes
from gradcli.derivation.steps import (
    QUIET,
    NamedLine,
    assigned,
    both_ways,
    is_row,
    letter_for,
    letters_of,
    lines_of,
    steps_of,
)
from gradcli.derivation.verified import ALLOWED, NotFinite, SelfTest, Unverified, Verifier, self_test
from gradcli.errors import BadOption, GradcliError, NotSupported
from gradcli.report.common import ABSENT, Absent
from gradcli.report.derive import Check, Cost, DerivedKind, Formula, Result
from gradcli.targets.derived import OnSurfaces, root_of
from gradcli.targets.expression import Expression
from gradcli.targets.facts import SIZE, length_of, size_names
from gradcli.tracing.shapes import shape


@dataclass(frozen=True)
class PartNames:
    """The names of parts: those the user gave, letters of the steps, the steps' lines, and parts that are written turned."""

    known: dict[E, str]
    letters: dict[E, str]
    lines: Sequence[NamedLine]
    turned: dict[E, E]

    @property
    def called(self) -> dict[E, str]:
        """The names that parts have in the steps."""
        return self.letters | {form: line.name for line in self.lines for form, _ in line.forms}


@dataclass(frozen=True)
class Closed:
    """A closed form, not yet verified: its tensor as found, the simplifying moves, the simplified tensor, its program."""

    kind: DerivedKind
    sweeps: Sequence[Sweep]
    axes: tuple[Index | None, ...]
    tensor: Tensor
    moves: Sequence[tuple[str, Tensor]]
    small: Tensor
    printer: Printer
    e: E
    known: dict[E, str]
    named: NamedParts
    whole: NamedParts
    made: Statements
    names: PartNames


# A closed form as it is printed: in gradcli's language, in Unicode, in LaTeX and in MathML, each with its left sides.

Line = tuple[str, M, tuple[str, ...]]  # a name, what it is, and the letters if that is one entry


@dataclass(frozen=True)
class Derivative:
    """What a closed form is: the derivative of f, with `outputs` axes, by an input.

    `tensor` is the same closed form, with its axes, for what can only be written with indices. A `product` H[V] has these two
    letters. A `row` is the gradient by a vector in numerator layout. A Jacobian that is `turned` has the axes of the input first.
    """

    wrt: str
    order: int
    tensor: Tensor
    axes: Sequence[Index | None]
    outputs: int = 0
    product: tuple[str, str] | None = None
    row: bool = False
    turned: bool = False


def formula(made: Statements, of: Derivative, dims: Mapping[str, Sequence[str]]) -> Formula:
    """Return a program in every notation; `dims` are the sizes of the inputs by their names."""
    try:
        lines = _matrices(made, dims, row=of.row)
    except NotSupported:
        entry = entry_of(of.tensor, of.axes, dims)
        lines = [("", entry.formula, entry.letters)]
    taken = [*dims, *(d for own in dims.values() for d in own), *(n for n, _ in made.parts)]
    shown = {key: _written(kind(taken), lines, of) for key, kind in NOTATIONS.items()}
    return Formula(made.text(), shown["unicode"], shown["latex"], shown["mathml"])


def written_out(name: str, e: E, dims: Mapping[str, Sequence[str]]) -> tuple[str, str]:
    """Return an expression with its name in LaTeX and in MathML. Raises NotSupported for what only indices can write."""
    shown = Writing(Shapes(dims)).formula(e)
    latex, mathml = (w.statements([(w.name(name), w.write(shown))]) for w in (Latex([*dims]), Mathml([*dims])))
    return latex, mathml


def _matrices(made: Statements, dims: Mapping[str, Sequence[str]], *, row: bool) -> list[Line]:
    """Return a program in matrix notation. Raises NotSupported for what only indices can write."""
    shapes = Shapes(dims)
    writing = Writing(shapes)
    lines: list[Line] = []
    for n, e in (*made.parts, ("", made.result)):
        lines.append((n, writing.formula(e) if n or not row else writing.row(e), ()))
        if n:
            shapes.add(n, e)
    return lines


def _written(notation: Notation, lines: Sequence[Line], of: Derivative) -> str:
    shown = []
    for n, m, letters in lines:
        if n:
            left = notation.indexed(n, letters)
        elif of.product is not None:
            left = notation.product(*of.product, letters)
        else:
            inputs = len(letters) - of.outputs
            above, below = letters[: of.outputs], letters[of.outputs :]
            if of.turned:
                above, below = letters[inputs:], letters[:inputs]
            left = notation.derivative(of.wrt, of.order, above, below)
        shown.append((left, notation.write(m)))
    return notation.statements(shown)


# The cost of a program, as polynomials of the sizes: its operations, and the most numbers it holds at once.
#
# The count is of what numpy runs: linear solves in place of inverses, and products from left to right, but vectors first.
# Sums, products and functions take one operation for each entry; an m x k matrix times a k x n matrix takes 2 m k n. Arrays
# count as held, but not inputs or single numbers; an elementwise operation reuses the memory of an operand that nothing else
# needs.
#
# Source   Golub and Van Loan (2013), Matrix Computations, sections 1.1 and 3.2.

Shape = tuple[fmpq_mpoly, ...]
_PART = re.compile(r"\[[^]]*\]|[^,\s]+")
_PER_ENTRY = {"softmax": 5, "logsumexp": 4, "var": 4, "norm": 2}  # operations; all other functions take one
_ASIDE = {"softmax", "logsumexp", "var"}  # functions that need a temporary array
_REDUCING = {"sum", "mean", "var", "norm", "logsumexp", "prod", "max", "min"}
_EACH = FUNCTIONS | {"exp", "log", "sqrt", "abs", "sigmoid", "softplus", "softmax", "where"}  # functions entry by entry
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
        names = size_names(map(tuple, dims.values()))
        self.ring = fmpq_mpoly_ctx.get(names, "deglex")
        self.sizes = dict(zip(names, self.ring.gens(), strict=True))
        self.one = self.ring.constant(1)
        self.none = self.operations = self.held = self.ring.constant(0)
        self.shapes: dict[str, Shape] = {n: tuple(map(self.dim, own)) for n, own in dims.items()}
        self.peaks = [self.none]

    def dim(self, text: str) -> fmpq_mpoly:
        """Return a size: m, 3, n - 1 or m + k. Raises NotSupported."""
        if SIZE.fullmatch(text) is None or {*size_names([(text,)])} - {*self.sizes}:
            raise NotSupported(f"{text} is no size")
        return self.none + length_of(text, self.sizes)

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
        if "None" in parts:
            own = iter(shape)
            return (*(self.one if p == "None" else next(own) for p in parts), *own)
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
        begin, end = (self._bound(text, n) if text else edge for text, edge in ((start, self.none), (stop, n)))
        return end - begin

    def _bound(self, text: str, n: fmpq_mpoly) -> fmpq_mpoly:
        """Return a bound of a slice along an axis of n positions; one below 0 counts from the end."""
        return n + int(text) if text.startswith("-") else self.dim(text)

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


def _concatenated(count: _Count, e: E, args: list[_Array]) -> _Array:
    axis = int(dict(e.options)["axis"])
    shape = list(args[0].shape)
    shape[axis] = sum((x.shape[axis] for x in args), count.none)
    return count.made(tuple(shape), count.none, args)


_RULES: dict[str, Rule] = {
    **dict.fromkeys(_REDUCING, _reduced), **dict.fromkeys(_SIZED, _sized), "concat": _padded, "einsum": _einsum,
    **dict.fromkeys(("ones_like", "zeros_like", "tril", "triu", "cumsum"), _alike), "diag": _diag, "outer": _outer,
    "concatenate": _concatenated,
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


class Derivation:
    """The recordings of one problem at three sizes, and the derivatives found from them.

    Raises  BadOption for a function without inputs.
    """

    def __init__(
        self, problem: DerivationProblem, sizes: Mapping[str, tuple[int, ...]] | None = None, points: Sequence[Any] = ()
    ) -> None:
        if not problem.dims:
            raise BadOption("f has no input to differentiate by", do="name one: x**2")
        self.problem = problem
        self.sizes = dict(sizes or sizes_of(problem))
        self.points: Sequence[Any] = list(points) or [self.point(k, problem.seed) for k in range(RECORDINGS)]
        self.begun: Begun | None = None
        self.wrt: str | None = None
        if any("1" in own for own in problem.dims.values()) and problem.layout == "numerator":
            raise NotSupported("columns and rows are not derived in numerator layout", do="leave out --layout")
        self.squeezed = (
            False if any("1" in own for own in problem.dims.values()) else None
        )  # whether axes of length 1 are left out; None if there are none

    def point(self, k: int, seed: int) -> dict[str, Any]:
        """Return values of all inputs in the k-th recording's sizes, where f has a value if that can be, and the sizes."""
        sizes = {n: v[k] for n, v in self.sizes.items()}
        tried = (point_of(self.problem, sizes, np.random.default_rng([seed, k]), moved) for moved in (None, *MOVED))
        return next(
            (at for at in tried if self._runs(at)), point_of(self.problem, sizes, np.random.default_rng([seed, k]))
        )

    def _runs(self, at: Mapping[str, Any]) -> bool:
        """Whether f has a value at a point; shapes that do not fit are an error of another kind."""
        try:
            with np.errstate(all="ignore"):
                self.problem.f({n: at[n] for n in self.problem.f.inputs if n in at})
        except NotSupported:
            return False
        except (GradcliError, KeyError, np.linalg.LinAlgError):
            return True
        return True

    def by(self, wrt: str) -> "Derivation":
        """Return the derivation with respect to one input.

        One of order two begins with the gradient's form and may have a direction.
        """
        if self.problem.order == 1 or self.wrt == wrt:
            return self
        own = Derivation(directed(self.problem, wrt), self.sizes)
        own.wrt, own.begun = wrt, own.begin(wrt)
        return own

    def begin(self, wrt: str) -> Begun | None:
        """Return the gradient's closed form, verified; None if it has none.

        Assumptions about the input itself, which hold at a point but not around it, are not used: inv(S).T equals inv(S) for a
        symmetric S, but has another derivative.
        """
        problem = self.problem
        words = problem.facts.get(wrt, frozenset())
        facts = {**problem.facts, wrt: words & OPEN}
        dims = {n: d for n, d in problem.dims.items() if n != problem.direction}
        own = replace(problem, order=1, dims=dims, facts=facts, direction=None, layout="mixed")
        drawn = replace(own, facts={**facts, wrt: frozenset("symmetric" if w == "tied" else w for w in words)})
        try:
            closed = Derivation(own, self.sizes, self.points).closed(wrt)
            f = Expression(
                program(closed.e, [*dims, *self.sizes], closed.known, least=1).text()
            )  # each part is differentiated once
            if not Verifier(drawn, self.sizes, wrt, "gradient").error(f) <= ALLOWED:
                return None
        except GradcliError:  # the derivative of the recorded gradient may still have a form
            return None
        return Begun(f, closed.made, {e: name for e, name in closed.known.items() if name != problem.direction})

    def closed(self, wrt: str) -> Closed:
        """Return the closed form of the derivative with respect to one input, not yet verified. Raises NotSupported."""
        sweeps = [self._swept(wrt, k) for k in range(RECORDINGS)]
        reader = self.reader()
        try:
            value = reader.read([s.xbars[0] for s in sweeps])
        except TooLong:
            raise
        except NotSupported as error:
            raise error if self.begun else first_refused(sweeps, self.reader(), error) from None
        shapes = [shape(s.y.primal if isinstance(s.y, Recorded) else s.y) for s in sweeps]
        output = tuple(map(single, reader.axes(shapes)))
        kind, axes, tensor = self._kind(value, output)
        if "tied" in self.problem.facts.get(wrt, ()) and (kind == "gradient" or self.problem.direction):
            tensor = _tied(tensor)
        if self.problem.layout == "numerator" and kind == "gradient":
            axes = axes[::-1]
        if self.problem.layout == "denominator" and kind == "jacobian":
            axes = (*value.singles, *output)
        if self.squeezed is False and kind != "gradient" and not self.problem.direction:
            return self._squeezed().closed(wrt)
        free = tensor.free
        tensor = add([Tensor(free, (tidied(term, free),)) for term in tensor.terms], free) if tensor.terms else tensor
        if any(f.atom.op == "inf" for f in factors_in(tensor)):
            raise NotSupported("a part of f is inf, whatever its inputs are")
        printer = Printer(self._likes())
        known = self.begun.known if self.begun else {}
        own, letters, turned = self._named(sweeps, reader, printer)
        moves: list[tuple[str, Tensor]] = []
        small = simplified(tensor, lambda t: measure(printer, t, axes), moves)
        small = self.in_order_of_f(small, wrt)
        with np.errstate(all="ignore"):  # the lines and their rules are run, at points where f may have no value
            lines = lines_of(self, wrt, sweeps, printer, letters)
        names = PartNames({**known, **own}, letters, lines, turned)
        return self._written(wrt, kind, sweeps, axes, tensor, moves, small, printer, names)

    def in_order_of_f(self, x: Tensor, wrt: str) -> Tensor:
        """Return a sum with its terms in the order in which f has what they are made of, beside the input."""
        words = re.findall(r"[^\W\d]\w*", self.problem.f.text)
        named = [*dict.fromkeys(word for word in words if word in self.problem.dims), *self.problem.dims]
        place = {name: k for k, name in reversed(list(enumerate(named)))}

        def first(term: IndexedTerm) -> int:
            inputs = Tensor((), (term,)).inputs - {wrt}
            return min((place.get(name, len(named)) for name in inputs), default=len(named))

        return Tensor(x.free, tuple(sorted(x.terms, key=first)))

    def _written(
        self, wrt: str, kind: DerivedKind, sweeps: Sequence[Sweep], axes: tuple[Index | None, ...], tensor: Tensor,
        moves: Sequence[tuple[str, Tensor]], small: Tensor, printer: Printer, names: PartNames,
    ) -> Closed:  # fmt: skip
        """Return a closed form with its program: `small` with its parts named."""
        e = printer.write(small, axes)
        if self.squeezed is not None and (kind == "gradient" or self.problem.direction):
            right = None if self.problem.direction else sweeps[0].xbars[0]
            e, fits = with_single_axes(e, axes, wrt, {**self._first(), **self.points[0]}, right)
            if not (fits or self.squeezed):
                return self._squeezed().closed(wrt)
        taken = [*self.taken, *names.known.values(), *names.called.values()]
        apart = NamedParts(e) if self.squeezed is not None else named(small, axes, printer, taken)
        if kind == "gradient" and self.squeezed is None and not apart.parts:
            apart = self._in_errors(wrt, sweeps, axes, printer, taken) or apart
        apart = with_known_names(apart, names.known)
        whole, known = with_complements(with_densities(apart, taken), names.known)
        straight, *parts = (with_transposes(x, names.turned) for x in (whole.e, *(part for _, part in whole.parts)))
        whole = replace(
            whole, e=straight, parts=tuple((n, part) for (n, _), part in zip(whole.parts, parts, strict=True))
        )
        made = program(whole.e, self.taken, known, begun=whole.parts, steps=names.called)
        shown = {line.name for line in names.lines}
        fixed = ((x, n) for x, n in names.letters.items() if n not in shown)
        held = {x: n for x, n in fixed if not any(a == ex.name(wrt) for a in x.walk())}
        return Closed(kind, sweeps, axes, tensor, moves, small, printer, e, known | held, apart, whole, made, names)

    def _in_errors(
        self, wrt: str, sweeps: Sequence[Sweep], axes: tuple[Index | None, ...], printer: Printer, taken: Sequence[str]
    ) -> NamedParts | None:
        """Return the derivative in terms of the errors of a network's layers; None where f is no network, or it needs none."""
        chain = chain_of(sweeps[0].y.primal) if isinstance(sweeps[0].y, Recorded) else ()
        stacks = any(len(own) > 2 for own in self.problem.dims.values())
        if not chain or stacks or (len(chain) == 1 and len(self.problem.dims[wrt]) < 2):
            return None
        names: list[str] = []
        for number in numbered(chain):
            names.append(unlike([f"{ERROR}{number}"], ERROR, [*taken, *names]))
        with np.errstate(all="ignore"):
            errors = errors_of(sweeps, names)
        if errors is None:
            return None
        reader = self.reader()
        try:
            value = reader.read(errors.derivative)
            found = {word: reader.read(graphs) for word, graphs in errors.by_name.items()}
            renamed = {i: own for i, own in zip(value.singles, axes, strict=True) if i is not None and own is not None}
            whole = Tensor(tuple(i for i in axes if i is not None), value.tensor.renamed(renamed).terms)
            return with_errors(whole, found, axes, printer, chained=len(chain) > 1)
        except TooLong:
            raise
        except NotSupported:
            return None

    def _forms(self, wrt: str, found: Closed) -> Iterator[Closed]:
        """Yield a closed form, and other ones that may be finite where it is not: with choices, and not simplified.

        None has a choice by single points of the input itself, where its derivative is not that of the branch.
        """
        if wrt in self.problem.compared:
            yield found
            return
        yield from self._with_choices(found)
        with contextlib.suppress(NotSupported):  # as it was found it may have no matrix form
            yield from self._with_choices(
                self._written(
                    wrt,
                    found.kind,
                    found.sweeps,
                    found.axes,
                    found.tensor,
                    (),
                    found.tensor,
                    found.printer,
                    found.names,
                )
            )

    def _with_choices(self, form: Closed) -> Iterator[Closed]:
        """Yield a form, and the same with choices where a branch has no value."""
        yield form
        chosen = with_choices(form.whole)
        if chosen != form.whole:
            made = program(chosen.e, self.taken, form.known, begun=chosen.parts, steps=form.names.called)
            yield replace(form, whole=chosen, made=made)

    def _squeezed(self) -> "Derivation":
        """Return the derivation with the inputs without their axes of length 1."""
        own = copy(self)
        own.squeezed = True
        return own

    def result(self, wrt: str) -> Result:
        """Return the derivative with respect to one input, verified. Raises NotSupported, Unverified."""
        own = self.by(wrt)
        return own._checked(wrt, own.closed(wrt))

    def _checked(self, wrt: str, found: Closed) -> Result:
        kind = found.kind
        verifier = Verifier(self.problem, self.sizes, wrt, kind)
        test = self_test(self.problem, kind, self._first(), verifier.truth, verifier.points())
        verifier.refuse_unmet_comparisons()
        found, check = self._verified(wrt, found, verifier, test)
        made = found.made
        wanted = languages.CodeRequest(made, kind, self.problem.dims, wrt)
        with np.errstate(all="ignore"):  # the rules in the steps are run, at points where f may have no value
            steps = steps_of(
                self,
                wrt,
                found.sweeps,
                Simplification(found.tensor, found.moves),
                found.printer,
                found.axes,
                found.named,
                found.known,
                found.names.turned,
                found.names.lines,
            )
        index = indexed(found.small, found.axes, self.letter, self.problem.dims)
        if (shorter := self._shorter(found, verifier, wanted, test)) is not None:
            rule, e, made, check = shorter
            step = LineWriter(self.problem.dims).step(
                rule, text(found.e), self.letter, e, Value(found.axes, found.small)
            )
            steps = (*steps, step)
            found, wanted = replace(found, e=e, made=made), replace(wanted, made=made)
            index = index if found.axes else (step.after.replace("**", "^"), step.latex, step.mathml)
        code, uncoded = languages.every(wanted, test)
        return Result(
            wrt, tuple(self.problem.dims[wrt]), kind, self._formula(wrt, found), tuple((n, text(p)) for n, p in made.parts),
            steps, code, {"function": self._operations(wrt), "program": made.size, "inlined": found.e.size}, check,
            *index, uncoded=uncoded,
            direction=self.problem.direction or ABSENT, cost=cost_of(made, self.problem.dims),
        )  # fmt: skip

    def _shorter(
        self, found: Closed, verifier: Verifier, wanted: languages.CodeRequest, test: SelfTest | None
    ) -> tuple[str, E, Statements, Check] | None:
        """Return a form of the gradient that is shorter for a reader: its rule, program and check.

        That is a choice between cases and, of a function of numbers, what sympy simplifies it to. None is returned where there
        is none that is verified and finite wherever the derivative is.
        """
        for rule, e in self._shorter_forms(found, wanted.wrt):
            made = program(e, self.taken, found.known)
            code = languages.in_arrays(replace(wanted, made=made), writer.NUMPY)
            try:
                check = verifier.check(made, code, test)
            except Unverified:
                continue
            if verifier.is_finite(code):
                return rule, e, made, check
        return None

    def _shorter_forms(self, found: Closed, wrt: str) -> Iterator[tuple[str, E]]:
        if found.kind != "gradient" or self.problem.order != 1:
            return
        cases = None if found.whole.parts else in_cases(found.small, found.axes, found.printer)
        if cases is not None and cases.size <= found.e.size:
            yield "cases", cases
        if not any(self.problem.dims.values()):
            value = self.read(self.problem.f)
            f = found.printer.write(value.tensor, value.singles)
            yield from shorter_forms(found.e, f, self.problem.f.text, wrt)

    def _verified(self, wrt: str, found: Closed, verifier: Verifier, test: SelfTest | None) -> tuple[Closed, Check]:
        """Return the first form that is right, and finite wherever the derivative is; if none is finite, the first right one.

        Raises  NotSupported, Unverified.
        """
        right: tuple[Closed, Check] | None = None
        refused: Unverified | None = None
        for form in self._forms(wrt, found):
            wanted = languages.CodeRequest(form.made, form.kind, self.problem.dims, wrt)
            code = languages.in_arrays(wanted, writer.NUMPY)
            try:
                check = verifier.check(form.made, code, test)
            except NotFinite as error:
                refused = refused or error
                continue
            except Unverified as error:
                refused = refused or error
                break
            if verifier.is_finite(code):
                return form, check
            right = right or (form, replace(check, finite=False))
        if right is not None:
            return right
        assert refused is not None
        if (reads := one_sided(found.sweeps[0].tape)) is None:
            raise refused
        says = f"{reads} reads one triangle of its argument; the closed form is for a symmetric matrix"
        raise NotSupported(says, do=f'--assume "{wrt}: symmetric"')

    def function_written(self) -> tuple[str, str]:
        """Return f as a formula with a left side, in LaTeX and in MathML; nothing where it has none."""
        printer = Printer(self._likes())
        try:
            value = self.read(self.problem.f)
            e = in_cases(value.tensor, value.singles, printer) or printer.write(value.tensor, value.singles)
            return written_out("f", e, self.problem.dims)
        except (GradcliError, np.linalg.LinAlgError):
            return "", ""

    def read(self, f: Callable[[Mapping[str, Any]], Any]) -> Value:
        """Return the value of a function of the inputs as a tensor. Raises NotSupported."""
        graphs = []
        for k in range(RECORDINGS):
            point = self.points[k] | {n: v[k] for n, v in self.sizes.items()}
            with np.errstate(all="ignore"):
                graphs.append(
                    f({n: GraphNode.variable(n, x) if n in self.problem.dims else x for n, x in point.items()})
                )
        return self.reader().read(graphs)

    def _formula(self, wrt: str, found: Closed) -> Formula:
        of_input = sum(d != "1" for d in self.problem.dims[wrt])
        outputs = sum(i is not None for i in found.axes) - of_input if found.kind == "jacobian" else 0
        along = self.problem.direction
        product = (letter_for(self.problem.dims, self.problem.order), along) if along else None
        return formula(
            found.made,
            Derivative(
                wrt,
                self.problem.order,
                found.small,
                found.axes,
                outputs,
                product,
                row=is_row(self.problem, wrt, found.kind == "gradient"),
                turned=self.problem.layout == "denominator",
            ),
            self.problem.dims,
        )

    def _named(
        self, sweeps: Sequence[Sweep], reader: Reader, printer: Printer
    ) -> tuple[dict[E, str], dict[E, str], dict[E, E]]:
        """Return the expressions that the user's own lines compute, with their names, and those that have a usual letter.

        The third are the forms of transposes of both, each with what it is the transpose of. A letter is for the same
        expression whatever f is differentiated by.
        """
        found: dict[E, str] = {}
        letters: dict[E, str] = {}
        turned: dict[E, E] = {}
        recorded = [] if self.begun else [self._recorded(k) for k in range(RECORDINGS)]
        tapes = [program.tape for program in recorded] or [sweep.tape for sweep in sweeps]
        given = assigned(tapes[0].lines)
        words = {*given.values(), *(n for n, _ in self._statements(printer)), *self.taken}
        lettered = letters_of(recorded[0], words) if recorded else {}
        for k, name in (lettered | given).items():
            try:
                value = reader.read([tape.value(k) for tape in tapes])
                printer.write_straight(value)
                e, other = both_ways(printer, value)
            except NotSupported:
                continue
            own = found if k in given else letters
            own.setdefault(e, name)
            own.setdefault(printer.write_shorter(value.tensor, value.singles), name)
            if other is not None and None not in value.axes and e.size and other not in (e, transpose(e)):
                turned[other] = e
        found = {**{e: n for n, e in self._statements(printer)}, **found}
        known = {e: n for e, n in found.items() if e.size and n not in self.taken}
        return known, {e: n for e, n in letters.items() if e not in known}, turned

    def _recorded(self, k: int) -> RecordedProgram:
        """Return f in the k-th recording, with the lines that depend on any input."""
        f = self.problem.f
        values = self.points[k] | {n: int(v[k]) for n, v in self.sizes.items()}
        inputs = [n for n in f.inputs if n in self.problem.dims]
        with np.errstate(all="ignore"):
            graphs = [GraphNode.variable(n, np.asarray(values[n])) for n in inputs]
            rest = {n: values[n] for n in f.inputs if n not in inputs}
            return record(lambda *xs: f({**rest, **dict(zip(inputs, xs, strict=True))}), graphs)

    def _statements(self, printer: Printer) -> Iterator[tuple[str, E]]:
        """Yield the names that the statements of an expression give, each with what it stands for."""
        f = root_of(self.problem.f)
        known = {*self.points[0], *self.sizes}
        named = f.program.named() if isinstance(f, Expression) and set(f.inputs) <= known else {}
        for word, values in named.items():
            try:
                value = self.read(values)
                yield word, printer.write(value.tensor, value.singles)
            except (GradcliError, np.linalg.LinAlgError):
                continue

    def _kind(
        self, value: Value, output: Sequence[Index | None]
    ) -> tuple[DerivedKind, tuple[Index | None, ...], Tensor]:
        if not output:
            return ("hessian" if self.problem.order == 2 else "gradient"), value.singles, value.tensor
        if self.problem.direction:
            return "hessian", value.singles, value.tensor
        free = tuple(i for i in output if i is not None)
        tensor = unseeded(value.tensor, SEED, free)
        return ("hessian" if self.problem.order == 2 else "jacobian"), (*output, *value.singles), tensor

    def _swept(self, wrt: str, k: int) -> Sweep:
        f = self.begun.f if self.begun else self.problem.f
        g: Callable[[Mapping[str, Any]], Any] = f
        if self.problem.order == 2 and self.begun is None:
            g = gradient_of(f, [wrt])
        values = self.points[k] | {n: int(v[k]) for n, v in self.sizes.items()}
        return swept(g, {n: values[n] for n in dict.fromkeys((wrt, *f.inputs))}, [wrt], self.problem.direction or SEED)

    @property
    def function(self) -> str:
        """The name of what is differentiated: f, or for order two the letter of its gradient."""
        return "f" if self.problem.order == 1 else letter_for(self.problem.dims)

    @property
    def letter(self) -> str:
        """The letter of the derivative: G, or H for order two, or H[V] for its product with a direction."""
        letter = letter_for(self.problem.dims, self.problem.order)
        return f"{letter}[{self.problem.direction}]" if self.problem.direction else letter

    @property
    def taken(self) -> list[str]:
        """The names of the inputs and the sizes, which no index has."""
        return [*self.problem.dims, *self.sizes]

    def reader(self) -> Reader:
        """Return a reader for graphs of f, or of other functions of the same inputs."""
        facts = dict(self.problem.facts)
        for name, own in self.problem.dims.items() if self.squeezed else ():
            facts[name] = facts.get(name, frozenset()) | {f"{SINGLE}{k}" for k, d in enumerate(own) if d == "1"}
        if isinstance(self.problem.f, OnSurfaces):
            facts |= {f"d{n}": frozenset({"symmetric"}) for n in self.problem.f.surfaces}
        compared, continuous = self.problem.compared, self.problem.continuous
        return Reader(self.sizes, facts, list(self.problem.dims), compared, continuous)

    def _likes(self) -> dict[tuple[str, ...], str]:
        return {
            tuple(d for d in dims if d != "1"): name for name, dims in reversed(list(self.problem.dims.items())) if dims
        }

    def _first(self) -> dict[str, int]:
        return {n: v[0] for n, v in self.sizes.items()}

    def _operations(self, wrt: str) -> int:
        """Return how many operations on arrays the function takes as it is written."""
        values = self.points[0] | {n: int(v[0]) for n, v in self.sizes.items()}
        lines = swept(self.problem.f, {n: values[n] for n in self.problem.f.inputs}, [wrt]).tape.lines
        return sum(primitive is not None and primitive.name not in QUIET for primitive, *_ in lines)


def _tied(x: Tensor) -> Tensor:
    """Return the gradient with respect to a symmetric matrix whose mirrored entries move together: G + G.T - diag(G)."""
    i, j = x.free
    turned = x.renamed({i: j, j: i})
    diagonal = multiply(x, of_atom(identity(i.dim), (i, j)))
    return add([x, Tensor(x.free, turned.terms), scaled(diagonal, -1)], x.free)
