"""Closed forms: a reverse sweep recorded at three sizes, read as tensors, simplified, written as code, and verified."""

import contextlib
import functools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from flint import fmpq, fmpq_mpoly, fmpq_mpoly_ctx

from gradcli.arithmetic.recorded_program import RecordedProgram, record
from gradcli.arithmetic.tape import CONSTANT, Recorded
from gradcli.arithmetic.value_graph import GraphNode
from gradcli.classes import dataclass
from gradcli.derivation import languages
from gradcli.derivation import matrix_expression as ex
from gradcli.derivation.algebra import FUNCTIONS, apply_rules, identity, multiply
from gradcli.derivation.axes import Value, single_index
from gradcli.derivation.convert import Reader
from gradcli.derivation.ending import (
    ERROR,
    OPEN,
    Begun,
    NamedParts,
    add_direction,
    coefficient_of_seed,
    distinct_name,
    name_densities,
    name_layer_errors,
    name_standardised,
    printed_size,
    use_known_names,
    write_choices,
    write_complements,
    write_in_cases,
)
from gradcli.derivation.index import SINGLE, Index, IndexedTerm, Tensor, add, add_terms, scale_tensor, tensor_of_atom
from gradcli.derivation.languages import multiply_from_right, use_linear_solves
from gradcli.derivation.mathematics import LineWriter, Writing, entry_of, write_with_indices
from gradcli.derivation.matrix_expression import (
    E,
    Op,
    Statements,
    expression_text,
    name_repeated_parts,
    transpose,
    with_transposes,
)
from gradcli.derivation.matrix_printing import Printer, Shapes, factors_in, restore_single_axes
from gradcli.derivation.notation import NOTATIONS, Latex, M, Mathml
from gradcli.derivation.simplify import shorter_forms, simplified
from gradcli.derivation.sized_problem import MOVED, RECORDINGS, DerivationProblem, TooLong, draw_point
from gradcli.derivation.sized_recording import (
    SEED,
    Sweep,
    choose_sizes,
    function_of_one_triangle,
    gradient_of,
    record_sweep,
    sweep_back_by_names,
    value_as_graph,
    walk_nodes,
)
from gradcli.derivation.steps import (
    QUIET,
    Closed,
    PartNames,
    assigned_names,
    choose_letters,
    is_row,
    lines_to_show,
    steps_of,
    write_with_transpose,
)
from gradcli.derivation.verified import ALLOWED, NotFinite, Unverified, Verifier
from gradcli.errors import BadOption, GradcliError, NotSupported
from gradcli.report.common import ABSENT, Absent
from gradcli.report.derive import Check, Cost, DerivedKind, Formula, Result, split_subscript
from gradcli.targets.derived import OnSurfaces, original_function
from gradcli.targets.expression import Expression
from gradcli.targets.facts import SIZE, length_of, size_names
from gradcli.tracing.provenance import place_of_position
from gradcli.tracing.shapes import shape

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
    count = _Count(dims)
    try:
        for name, e in made.parts:
            count.shapes[name] = count.run(e).shape
        count.run(made.result)
    except NotSupported:
        return ABSENT
    peaks = [polynomial_text(p) for p in _largest_sizes(count.peaks)]
    memory = peaks[0] if len(peaks) == 1 else f"max({', '.join(peaks)})"
    # the leading terms are those that divide no other term
    every = count.operations.monoms()
    leading = {m: c for m, c in count.operations.terms() if not any(m != n and _is_divisor(m, n) for n in every)}
    return Cost(polynomial_text(count.operations), polynomial_text(count.ring.from_dict(leading)), memory)


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
        return self.value(_move_minus_signs(multiply_from_right(use_linear_solves(e), ranks)))

    def value(self, e: E) -> _Array:
        """Count an expression and return its array. Raises NotSupported for a function of unknown cost."""
        if e.op == "name" or self._is_literal(e):
            return _Array(self.shapes.get(e.text, ()), self.none)
        if e.op in (Op.ADD, Op.MUL, Op.MATMUL):  # from left to right; a difference is one operation
            left = self.value(e.args[0])
            for a in e.args[1:]:
                right = self.value(a.args[0] if e.op == Op.ADD and a.op == Op.NEG else a)
                if e.op == Op.MATMUL:
                    shape = (*left.shape[:-1], *right.shape[1:])
                    left = self.made(shape, 2 * self.entries(shape) * right.shape[0], [left, right])
                else:
                    left = self.each([left, right])
            return left
        args = [self.value(a) for a in e.args]
        if e.op in (Op.TRANSPOSE, "column", "index") or e.text == "flip":  # a view of the same numbers
            seen = self._shape_of_view(e, args[0].shape)
            return self.made(seen, self.none, args) if "[" in e.text[1:] else replace(args[0], shape=seen)
        rule = _RULES.get(e.text if e.op == "call" else e.op)
        if rule:
            shape, operations, aside = rule(self, e, [a.shape for a in args])
            return self.made(shape, operations, args, aside)
        if e.op == "call" and e.text not in _EACH:
            raise NotSupported(f"what {e.text} costs is not known")
        return self.each(args, _PER_ENTRY.get(e.text, 1), e.text in _ASIDE)

    def _is_literal(self, e: E) -> bool:
        """Whether an expression is a number that does not depend on inputs, which is not counted."""
        if e.op == "name":
            return e.text == "pi" and "pi" not in self.shapes
        return e.op == "number" or (bool(e.args) and e.text not in _SIZED and all(map(self._is_literal, e.args)))

    def _shape_of_view(self, e: E, shape: Shape) -> Shape:
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
        kept = [self._length_of_index(part, n) for part, n in zip(parts, shape, strict=False)]
        return (*(n for n in kept if n is not None), *shape[len(parts) :])

    def _length_of_index(self, part: str, n: fmpq_mpoly) -> fmpq_mpoly | None:
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

        def bound(text: str, edge: fmpq_mpoly) -> fmpq_mpoly:
            known = edge if not text or text.startswith("-") else self.dim(text)
            return n + int(text) if text.startswith("-") else known  # one below 0 counts from the end

        return bound(stop, n) - bound(start, self.none)

    def each(self, args: Sequence[_Array], operations: int = 1, aside: bool = False) -> _Array:
        """Count an elementwise operation, and return its array."""
        shape: Shape = ()
        for a in args:
            long, short = (shape, a.shape) if len(shape) >= len(a.shape) else (a.shape, shape)
            rest = len(long) - len(short)
            shape = (*long[:rest], *(y if x == self.one else x for x, y in zip(long[rest:], short, strict=True)))
        size = self.entries(shape)
        return self.made(shape, operations * size, args, size if aside else self.none, in_place=not aside)

    def entries(self, shape: Shape) -> fmpq_mpoly:
        """Return how many entries a shape has."""
        return math.prod(shape, start=self.one)

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
        taken = in_place and any(a.shape == shape and a.own == size for a in args)
        self.peaks.append(self.held + aside + (self.none if taken else size))
        self.held = self.held + size - sum((a.own for a in args), self.none)
        return _Array(shape, size)


# the shape, the operations, and the memory that is held only during them
Counted = tuple[Shape, fmpq_mpoly | int, fmpq_mpoly | int]
Rule = Callable[[_Count, E, list[Shape]], Counted]


def _count_reduction(count: _Count, e: E, shapes: list[Shape]) -> Counted:
    (x,), axis = shapes, dict(e.options).get("axis")
    shape = () if axis is None else tuple(n for k, n in enumerate(x) if k != int(axis))
    size = count.entries(x)
    return shape, _PER_ENTRY.get(e.text, 1) * size, size if e.text in _ASIDE and x else 0


def _count_filled_array(count: _Count, e: E, shapes: list[Shape]) -> Counted:
    lengths = [count.dim(str(a.number) if a.op == "number" else a.text) for a in e.args]
    return tuple(lengths * 2 if e.text == "eye" else lengths), 0, 0


def _count_einsum(count: _Count, e: E, shapes: list[Shape]) -> Counted:
    inside, _, out = dict(e.options)["first"].strip('"').partition("->")
    lengths: dict[str, fmpq_mpoly] = {}
    for word, own in zip(inside.split(","), shapes, strict=True):
        lengths |= zip(word, own, strict=True)
    return tuple(lengths[letter] for letter in out), len(shapes) * count.entries(tuple(lengths.values())), 0


def _count_concatenation(count: _Count, e: E, shapes: list[Shape]) -> Counted:
    axis = int(dict(e.options)["axis"])
    return (*shapes[0][:axis], sum((s[axis] for s in shapes), count.none), *shapes[0][axis + 1 :]), 0, 0


_RULES: dict[str, Rule] = {
    **dict.fromkeys(_REDUCING, _count_reduction), **dict.fromkeys(_SIZED, _count_filled_array),
    **dict.fromkeys(("ones_like", "zeros_like", "tril", "triu"), lambda count, e, xs: (xs[0], 0, 0)),
    "einsum": _count_einsum, "concatenate": _count_concatenation,
    "concat":  lambda count, e, xs: ((xs[0][0] + e.text.count("0"),), 0, 0),
    "cumsum":  lambda count, e, xs: (xs[0], count.entries(xs[0]), 0),
    "trace":   lambda count, e, xs: ((), xs[0][0], 0),
    "outer":   lambda count, e, xs: ((xs[0][0], xs[1][0]), xs[0][0] * xs[1][0], 0),
    "diag":    lambda count, e, xs: (xs[0] * 2 if len(xs[0]) == 1 else xs[0][:1], 0, 0),
    # those that factorise a copy of a square matrix
    "det":     lambda count, e, xs: ((), fmpq(2, 3) * xs[0][0] ** 3, xs[0][0] ** 2),
    "inv":     lambda count, e, xs: (xs[0], 2 * xs[0][0] ** 3, xs[0][0] ** 2),
    "solve":   lambda count, e, xs: (xs[1], fmpq(2, 3) * xs[0][0] ** 3 + 2 * xs[0][0] * count.entries(xs[1]), xs[0][0] ** 2),
}  # fmt: skip


def _move_minus_signs(e: E) -> E:
    """Return an expression with each minus where Python applies it: at the first factor of a product; literals take none."""
    if e.op == Op.NEG:
        return _negate_first_factor(_move_minus_signs(e.args[0]))
    less = [k and e.op == Op.ADD and a.op == Op.NEG for k, a in enumerate(e.args)]  # differences
    bare = [_move_minus_signs(a.args[0] if k else a) for k, a in zip(less, e.args, strict=True)]
    return replace(e, args=tuple(E(Op.NEG, (a,)) if k else a for k, a in zip(less, bare, strict=True)))


def _negate_first_factor(e: E) -> E:
    if e.op not in _BARE:
        return e if e.op == "number" else E(Op.NEG, (e,))
    first, *rest = e.args
    bare = first.op in _BARE[e.op] or first.op == "number"
    return replace(e, args=(_negate_first_factor(first) if bare else E(Op.NEG, (first,)), *rest))


def _largest_sizes(sizes: Iterable[fmpq_mpoly]) -> list[fmpq_mpoly]:
    """Return the sizes that no other size is sure to be at least as large as, whatever the names stand for."""
    found: list[fmpq_mpoly] = []
    for p in sizes:
        if not any(_is_at_least(q, p) for q in found):
            found = [q for q in found if not _is_at_least(p, q)] + [p]
    return found


def _is_at_least(p: fmpq_mpoly, q: fmpq_mpoly) -> bool:
    """Whether p >= q is sure for integers: terms in which q is larger are covered by multiples of them in p."""
    more = dict((p - q).terms())
    for powers in [m for m, c in more.items() if c < 0]:
        for other in [m for m, c in more.items() if c > 0 and _is_divisor(powers, m)]:
            share = min(more[other], -more[powers])
            more[other], more[powers] = more[other] - share, more[powers] + share
    return all(c >= 0 for c in more.values())


def _is_divisor(powers: Sequence[int], others: Sequence[int]) -> bool:
    return all(a <= b for a, b in zip(powers, others, strict=True))


def polynomial_text(p: fmpq_mpoly) -> str:
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
        self.sizes = dict(sizes or choose_sizes(problem))
        self.points: Sequence[Any] = list(points) or [self.point(k, problem.seed) for k in range(RECORDINGS)]
        self.begun: Begun | None = None
        self.wrt: str | None = None
        single = any("1" in own for own in problem.dims.values())
        if single and problem.layout == "numerator":
            raise NotSupported("columns and rows are not derived in numerator layout", do="leave out --layout")
        self.squeezed = False if single else None  # whether axes of length 1 are left out; None if there are none

    def point(self, k: int, seed: int) -> dict[str, Any]:
        """Return values of all inputs in the k-th recording's sizes, where f has a value if that can be, and the sizes."""
        sizes = {n: v[k] for n, v in self.sizes.items()}

        def drawn(moved: Callable[[Any], Any] | None = None) -> dict[str, Any]:
            return draw_point(self.problem, sizes, np.random.default_rng([seed, k]), moved)

        return next(filter(self._has_value_at, map(drawn, (None, *MOVED))), None) or drawn()

    def _has_value_at(self, at: Mapping[str, Any]) -> bool:
        """Whether f has a value at a point; shapes that do not fit are an error of another kind."""
        try:
            with np.errstate(all="ignore"):
                self.problem.f({n: at[n] for n in self.problem.f.inputs if n in at})
        except NotSupported:
            return False
        except (GradcliError, KeyError, np.linalg.LinAlgError):
            pass
        return True

    def by(self, wrt: str) -> "Derivation":
        """Return the derivation with respect to one input.

        One of order two begins with the gradient's form and may have a direction.
        """
        if self.problem.order == 1 or self.wrt == wrt:
            return self
        own = Derivation(add_direction(self.problem, wrt), self.sizes)
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
            made = name_repeated_parts(closed.e, [*dims, *self.sizes], closed.known, least=1)
            f = Expression(made.text())  # each part is differentiated once
            if not Verifier(drawn, self.sizes, wrt, "gradient").error(f) <= ALLOWED:
                return None
        except GradcliError:  # the derivative of the recorded gradient may still have a form
            return None
        return Begun(f, closed.made, {e: name for e, name in closed.known.items() if name != problem.direction})

    def closed(self, wrt: str) -> Closed:
        """Return the closed form of the derivative with respect to one input, not yet verified. Raises NotSupported."""
        f = self.begun.f if self.begun else self.problem.f
        g = gradient_of(f, [wrt]) if self.problem.order == 2 and self.begun is None else f
        names, seed = dict.fromkeys((wrt, *f.inputs)), self.problem.direction or SEED
        points = [self._values_in_recording(k) for k in range(RECORDINGS)]
        sweeps = [record_sweep(g, {n: point[n] for n in names}, [wrt], seed) for point in points]
        reader = self.reader()
        try:
            value = reader.read([s.xbars[0] for s in sweeps])
        except TooLong:
            raise
        except NotSupported as error:
            raise error if self.begun else locate_first_refusal(sweeps, self.reader(), error) from None
        shapes = [shape(s.y.primal if isinstance(s.y, Recorded) else s.y) for s in sweeps]
        output = tuple(map(single_index, reader.axes(shapes)))
        kind: DerivedKind = "hessian" if self.problem.order == 2 else "jacobian" if output else "gradient"
        axes, tensor = value.singles, value.tensor
        if output and not self.problem.direction:
            axes = (*output, *axes)
            tensor = coefficient_of_seed(tensor, SEED, tuple(i for i in output if i is not None))
        if "tied" in self.problem.facts.get(wrt, ()) and (kind == "gradient" or self.problem.direction):
            # mirrored entries of a symmetric matrix move together: G + G.T - diag(G)
            i, j = tensor.free
            diagonal = multiply(tensor, tensor_of_atom(identity(i.dim), (i, j)))
            turned_terms = tensor.renamed({i: j, j: i}).terms
            tensor = add([tensor, Tensor((i, j), turned_terms), scale_tensor(diagonal, -1)], (i, j))
        if self.problem.layout == "numerator" and kind == "gradient":
            axes = axes[::-1]
        if self.problem.layout == "denominator" and kind == "jacobian":
            axes = (*value.singles, *output)
        if self.squeezed is False and kind != "gradient" and not self.problem.direction:
            return self._without_single_axes().closed(wrt)
        free = tensor.free
        if tensor.terms:
            tensor = add_terms([apply_rules(term, free) for term in tensor.terms], free)
        if any(f.atom.op == "inf" for f in factors_in(tensor)):
            raise NotSupported("a part of f is inf, whatever its inputs are")
        printer = Printer(self._inputs_by_shape())
        known = self.begun.known if self.begun else {}
        own, letters, turned = self._name_expressions(sweeps, reader, printer)
        moves: list[tuple[str, Tensor]] = []
        small = simplified(tensor, lambda t: printed_size(printer, t, axes), moves)
        small = self.in_order_of_f(small, wrt)
        with np.errstate(all="ignore"):  # the lines and their rules are run, at points where f may have no value
            lines = lines_to_show(self, wrt, sweeps, printer, letters)
        parts = PartNames({**known, **own}, letters, lines, turned)
        return self._write_closed_form(wrt, kind, sweeps, axes, tensor, moves, small, printer, parts)

    def in_order_of_f(self, x: Tensor, wrt: str) -> Tensor:
        """Return a sum with its terms in the order in which f has what they are made of, beside the input."""
        words = re.findall(r"[^\W\d]\w*", self.problem.f.text)
        named = [*(word for word in words if word in self.problem.dims), *self.problem.dims]
        place = {name: k for k, name in reversed(list(enumerate(named)))}

        def first(term: IndexedTerm) -> int:
            inputs = Tensor((), (term,)).inputs - {wrt}
            return min((place.get(name, len(named)) for name in inputs), default=len(named))

        return Tensor(x.free, tuple(sorted(x.terms, key=first)))

    def _write_closed_form(
        self, wrt: str, kind: DerivedKind, sweeps: Sequence[Sweep], axes: tuple[Index | None, ...], tensor: Tensor,
        moves: Sequence[tuple[str, Tensor]], small: Tensor, printer: Printer, names: PartNames,
    ) -> Closed:  # fmt: skip
        """Return a closed form with its program: `small` with its parts named."""
        e = printer.write(small, axes)
        if self.squeezed is not None and (kind == "gradient" or self.problem.direction):
            right = None if self.problem.direction else sweeps[0].xbars[0]
            e, fits = restore_single_axes(
                e, axes, wrt, {**{n: v[0] for n, v in self.sizes.items()}, **self.points[0]}, right
            )
            if not (fits or self.squeezed):
                return self._without_single_axes().closed(wrt)
        taken = [*self.taken, *names.known.values(), *names.called.values()]
        apart = NamedParts(e) if self.squeezed is not None else name_standardised(small, axes, printer, taken)
        if kind == "gradient" and self.squeezed is None and not apart.parts:
            apart = self._name_layer_errors(wrt, sweeps, axes, printer, taken) or apart
        apart = use_known_names(apart, names.known)
        whole, known = write_complements(name_densities(apart, taken), names.known)
        whole = whole.map_expressions(lambda x: with_transposes(x, names.turned))
        made = name_repeated_parts(whole.e, self.taken, known, begun=whole.parts, steps=names.called)
        shown = {line.name for line in names.lines}
        fixed = ((x, n) for x, n in names.letters.items() if n not in shown)
        held = {x: n for x, n in fixed if not any(a == ex.name(wrt) for a in x.walk())}
        return Closed(kind, sweeps, axes, tensor, moves, small, printer, e, known | held, apart, whole, made, names)

    def _name_layer_errors(
        self, wrt: str, sweeps: Sequence[Sweep], axes: tuple[Index | None, ...], printer: Printer, taken: Sequence[str]
    ) -> NamedParts | None:
        """Return the derivative in terms of the errors of a network's layers; None where f is no network, or it needs none."""
        chain = find_layer_chain(sweeps[0].y.primal) if isinstance(sweeps[0].y, Recorded) else ()
        stacks = any(len(own) > 2 for own in self.problem.dims.values())
        if not chain or stacks or (len(chain) == 1 and len(self.problem.dims[wrt]) < 2):
            return None
        names: list[str] = []
        for number in layer_numbers(chain):
            names.append(distinct_name([f"{ERROR}{number}"], ERROR, [*taken, *names]))
        with np.errstate(all="ignore"):
            errors, derivative = find_layer_errors(sweeps, names)
        if not errors:
            return None
        reader = self.reader()
        try:
            value = reader.read(derivative)
            found = {word: reader.read(graphs) for word, graphs in errors.items()}
            renamed = {i: own for i, own in zip(value.singles, axes, strict=True) if i is not None and own is not None}
            whole = Tensor(tuple(i for i in axes if i is not None), value.tensor.renamed(renamed).terms)
            return name_layer_errors(whole, found, axes, printer, chained=len(chain) > 1)
        except TooLong:
            raise
        except NotSupported:
            return None

    def _possible_forms(self, wrt: str, found: Closed) -> Iterator[Closed]:
        """Yield a closed form, and other ones that may be finite where it is not: with choices, and not simplified.

        None has a choice by single points of the input itself, where its derivative is not that of the branch.
        """
        if wrt in self.problem.compared:
            yield found
            return
        yield from self._forms_with_choices(found)
        with contextlib.suppress(NotSupported):  # as it was found it may have no matrix form
            again = (found.sweeps, found.axes, found.tensor, (), found.tensor, found.printer, found.names)
            yield from self._forms_with_choices(self._write_closed_form(wrt, found.kind, *again))

    def _forms_with_choices(self, form: Closed) -> Iterator[Closed]:
        """Yield a form, and the same with choices where a branch has no value."""
        yield form
        tried = [form.whole]
        masks = tuple(n for n, words in self.problem.facts.items() if "mask" in words)
        for shared in (True, False):
            chosen = form.whole.map_expressions(functools.partial(write_choices, shared=shared, masks=masks))
            if chosen not in tried:
                tried.append(chosen)
                made = name_repeated_parts(
                    chosen.e, self.taken, form.known, begun=chosen.parts, steps=form.names.called
                )
                yield replace(form, whole=chosen, made=made)

    def _without_single_axes(self) -> "Derivation":
        """Return the derivation with the inputs without their axes of length 1."""
        own = copy(self)
        own.squeezed = True
        return own

    def result(self, wrt: str) -> Result:
        """Return the derivative with respect to one input, verified. Raises NotSupported, Unverified."""
        found = self.closed(wrt)
        kind = found.kind
        verifier = Verifier(self.problem, self.sizes, wrt, kind)
        verifier.refuse_unmet_comparisons()
        found, check = self._first_right_form(wrt, found, verifier)
        made = found.made
        wanted = languages.CodeRequest(made, kind, self.problem.dims, wrt)
        with np.errstate(all="ignore"):  # the rules in the steps are run, at points where f may have no value
            steps = steps_of(self, wrt, found)
        index = write_with_indices(found.small, found.axes, self.problem.letter, self.problem.dims)
        if (shorter := self._find_shorter_form(found, verifier, wanted)) is not None:
            rule, e, made, check = shorter
            value = Value(found.axes, found.small)
            step = LineWriter(self.problem.dims).step(rule, expression_text(found.e), self.problem.letter, e, value)
            steps = (*steps, step)
            found, wanted = replace(found, e=e, made=made), replace(wanted, made=made)
            index = index if found.axes else (step.after.replace("**", "^"), step.latex, step.mathml)
        code, uncoded = languages.write_all_languages(wanted, verifier.test)
        values = self._values_in_recording(0)
        lines = record_sweep(self.problem.f, {n: values[n] for n in self.problem.f.inputs}, [wrt]).tape.lines
        count = sum(primitive is not None and primitive.name not in QUIET for primitive, *_ in lines)
        return Result(
            wrt, tuple(self.problem.dims[wrt]), kind, self._write_formula(wrt, found),
            tuple((n, expression_text(p)) for n, p in made.parts),
            steps, code, {"function": count, "program": made.size, "inlined": found.e.size}, check,
            *index, uncoded=uncoded,
            direction=self.problem.direction or ABSENT, cost=cost_of(made, self.problem.dims),
        )  # fmt: skip

    def _find_shorter_form(
        self, found: Closed, verifier: Verifier, wanted: languages.CodeRequest
    ) -> tuple[str, E, Statements, Check] | None:
        """Return a form of the gradient that is shorter for a reader: its rule, program and check.

        That is a choice between cases and, of a function of numbers, what sympy simplifies it to. None is returned where there
        is none that is verified and finite wherever the derivative is.
        """
        for rule, e in self._shorter_forms(found, wanted.wrt):
            made = name_repeated_parts(e, self.taken, found.known)
            code = languages.write_array_code(replace(wanted, made=made), languages.NUMPY)
            try:
                check = verifier.check(made, code)
            except Unverified:
                continue
            if verifier.is_finite(code):
                return rule, e, made, check
        return None

    def _shorter_forms(self, found: Closed, wrt: str) -> Iterator[tuple[str, E]]:
        if found.kind != "gradient" or self.problem.order != 1:
            return
        cases = None if found.whole.parts else write_in_cases(found.small, found.axes, found.printer)
        if cases is not None and cases.size <= found.e.size:
            yield "cases", cases
        if not any(self.problem.dims.values()):
            value = self.read(self.problem.f)
            f = found.printer.write(value.tensor, value.singles)
            yield from shorter_forms(found.e, f, self.problem.f.text, wrt)

    def _first_right_form(self, wrt: str, found: Closed, verifier: Verifier) -> tuple[Closed, Check]:
        """Return the first form that is right, and finite wherever the derivative is; if none is finite, the first right one.

        Raises  NotSupported, Unverified.
        """
        right: tuple[Closed, Check] | None = None
        refused: Unverified | None = None
        for form in self._possible_forms(wrt, found):
            wanted = languages.CodeRequest(form.made, form.kind, self.problem.dims, wrt)
            code = languages.write_array_code(wanted, languages.NUMPY)
            try:
                check = verifier.check(form.made, code)
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
        if (reads := function_of_one_triangle(found.sweeps[0].tape)) is None:
            raise refused
        says = f"{reads} reads one triangle of its argument; the closed form is for a symmetric matrix"
        raise NotSupported(says, do=f'--assume "{wrt}: symmetric"')

    def function_written(self) -> tuple[str, str]:
        """Return f as a formula with a left side, in LaTeX and in MathML; nothing where it has none."""
        printer = Printer(self._inputs_by_shape())
        try:
            value = self.read(self.problem.f)
            e = write_in_cases(value.tensor, value.singles, printer) or printer.write(value.tensor, value.singles)
            shown = Writing(Shapes(self.problem.dims)).formula(e)
            notations = (Latex([*self.problem.dims]), Mathml([*self.problem.dims]))
            latex, mathml = (w.statements([(w.name("f"), w.write(shown))]) for w in notations)
            return latex, mathml
        except (GradcliError, np.linalg.LinAlgError):
            return "", ""

    def read(self, f: Callable[[Mapping[str, Any]], Any]) -> Value:
        """Return the value of a function of the inputs as a tensor. Raises NotSupported."""
        points = map(self._values_in_recording, range(RECORDINGS))
        return self.reader().read([value_as_graph(f, self.problem.dims, point) for point in points])

    def _write_formula(self, wrt: str, found: Closed) -> Formula:
        """Return the program of a closed form in every notation; what only indices can write is one entry."""
        problem, dims, made = self.problem, self.problem.dims, found.made
        shapes = Shapes(dims)
        writing = Writing(shapes)
        parts: list[tuple[str, M]] = []
        letters: tuple[str, ...] = ()
        try:
            for n, e in made.parts:
                parts.append((n, writing.formula(e)))
                shapes.add(n, e)
            write = writing.row if is_row(problem, wrt, found.kind == "gradient") else writing.formula
            result = write(made.result)
        except NotSupported:
            parts, (letters, result) = [], entry_of(found.small, found.axes, dims)
        of_input = sum(d != "1" for d in dims[wrt])
        outputs = sum(i is not None for i in found.axes) - of_input if found.kind == "jacobian" else 0
        above, below = letters[:outputs], letters[outputs:]
        if problem.layout == "denominator":  # the axes of the input come first
            inputs = len(letters) - outputs
            above, below = letters[inputs:], letters[:inputs]
        taken = [*dims, *(d for own in dims.values() for d in own), *(n for n, _ in made.parts)]
        shown = {}
        for key, kind in NOTATIONS.items():
            w = kind(taken)
            left = w.derivative(wrt, problem.order, above, below)
            if problem.direction:
                left = w.product(problem.letters[problem.order - 1], problem.direction, letters)
            shown[key] = w.statements([*((w.name(n), w.write(m)) for n, m in parts), (left, w.write(result))])
        return Formula(made.text(), **shown)

    def _name_expressions(
        self, sweeps: Sequence[Sweep], reader: Reader, printer: Printer
    ) -> tuple[dict[E, str], dict[E, str], dict[E, E]]:
        """Return the expressions that the user's own lines compute, with their names, and those that have a usual letter.

        The third are the forms of transposes of both, each with what it is the transpose of. A letter is for the same
        expression whatever f is differentiated by.
        """
        found: dict[E, str] = {}
        letters: dict[E, str] = {}
        turned: dict[E, E] = {}
        recorded = [] if self.begun else [self._record_function(k) for k in range(RECORDINGS)]
        tapes = [program.tape for program in recorded] or [sweep.tape for sweep in sweeps]
        given = assigned_names(tapes[0].lines)
        statements = list(self._named_statements(printer))
        words = {*given.values(), *(n for n, _ in statements), *self.taken}
        lettered = choose_letters(recorded[0], words) if recorded else {}
        for k, name in (lettered | given).items():
            try:
                value = reader.read([tape.value(k) for tape in tapes])
                printer.write_straight(value)
                e, other = write_with_transpose(printer, value)
            except NotSupported:
                continue
            own = found if k in given else letters
            own.setdefault(e, name)
            own.setdefault(printer.write_shorter(value.tensor, value.singles), name)
            if other is not None and None not in value.axes and e.size and other not in (e, transpose(e)):
                turned[other] = e
        found = {**{e: n for n, e in statements}, **found}
        known = {e: n for e, n in found.items() if e.size and n not in self.taken}
        return known, {e: n for e, n in letters.items() if e not in known}, turned

    def _record_function(self, k: int) -> RecordedProgram:
        """Return f in the k-th recording, with the lines that depend on any input."""
        f = self.problem.f
        values = self._values_in_recording(k)
        inputs = [n for n in f.inputs if n in self.problem.dims]
        with np.errstate(all="ignore"):
            graphs = [GraphNode.variable(n, np.asarray(values[n])) for n in inputs]
            rest = {n: values[n] for n in f.inputs if n not in inputs}
            return record(lambda *xs: f({**rest, **dict(zip(inputs, xs, strict=True))}), graphs)

    def _named_statements(self, printer: Printer) -> Iterator[tuple[str, E]]:
        """Yield the names that the statements of an expression give, each with what it stands for."""
        f = original_function(self.problem.f)
        known = {*self.points[0], *self.sizes}
        named = f.program.named() if isinstance(f, Expression) and set(f.inputs) <= known else {}
        for word, values in named.items():
            try:
                value = self.read(values)
                yield word, printer.write(value.tensor, value.singles)
            except (GradcliError, np.linalg.LinAlgError):
                continue

    def _values_in_recording(self, k: int) -> dict[str, Any]:
        return {**self.points[k], **{n: int(v[k]) for n, v in self.sizes.items()}}

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

    def _inputs_by_shape(self) -> dict[tuple[str, ...], str]:
        named = [(name, dims) for name, dims in self.problem.dims.items() if dims]
        return {tuple(d for d in dims if d != "1"): name for name, dims in reversed(named)}


def locate_first_refusal(sweeps: Sequence[Sweep], reader: Reader, error: NotSupported) -> NotSupported:
    """Return the error of the first line that has no formula, with its position; or `error` if every line has one."""
    tapes = [s.tape for s in sweeps]
    for k, (primitive, slots, _, _, _, position) in enumerate(tapes[0].lines):
        same = (primitive, slots)
        if any(k >= len(t.lines) or (t.primitive(k), t.operands(k)) != same for t in tapes[1:]):
            where = place_of_position(max(tapes, key=lambda t: len(t.lines)).position(k))
            says, do = "the program is another one at another size", "give sizes as numbers: --shapes x:3"
            return NotSupported(says, where=where, do=do)
        if primitive is not None:
            try:
                reader.read([t.value(k) for t in tapes])
            except NotSupported as found:
                found.where = place_of_position(position)
                return found
    return error


# The layers of a network, and the errors of backpropagation: the derivative of f by what each layer passes to its function.
#
# A layer is a product with an input of f, its weights, to which a bias may be added. Layers are a chain where each takes a
# function, entry by entry, of what the one before gave.
#
# Source   Nielsen (2015), Neural Networks and Deep Learning, chapter 2: the four equations of backpropagation.

_PRODUCTS = {"matmul", "einsum", "dot"}
_MOVING = {"reshape", "transpose", "broadcast_to", "positive"}  # operations that change no entry


@dataclass(frozen=True)
class NetworkLayer:
    """A layer of a network: the node of what it passes on, and the name of its weights."""

    node: GraphNode
    weights: str


def find_layer_chain(y: GraphNode) -> tuple[NetworkLayer, ...]:
    """Return the layers of which a value is a function, the first one first; none where they are no chain."""
    users: dict[int, list[GraphNode]] = {}
    order = list(walk_nodes(y.fixed()))
    for node in order:
        for x in node.args:
            if isinstance(x, GraphNode):
                users.setdefault(id(x), []).append(node)
    found: dict[int, NetworkLayer] = {}
    for node in order:
        inputs = [x for x in map(_skip_rearrangements, node.args) if _is_input(x)] if node.op in _PRODUCTS else []
        if inputs and len(node.args) == 2:
            end = _output_of_layer(node, users)
            # the weights: the input or, of two inputs, the one that is a matrix, the last of two
            weights = max(reversed(inputs), key=lambda x: len(x.shape)).op.removeprefix("input ")
            found.setdefault(id(end), NetworkLayer(end, weights))
    chain: list[NetworkLayer] = []
    for layer in (own for node in order if (own := found.get(id(node))) is not None and node is not y.fixed()):
        if chain and not _is_next_layer(layer.node, chain[-1].node):
            return ()
        chain.append(layer)
    return tuple(chain)


def layer_numbers(chain: Sequence[NetworkLayer]) -> tuple[str, ...]:
    """Return the number of each layer: that of its weights, where all have one and they rise by one, else its place."""
    own = [split_subscript(layer.weights)[1] for layer in chain]
    counted = own and own[0] and own == [str(int(own[0]) + k) for k in range(len(own))]
    return tuple(own) if counted else tuple(str(k) for k in range(1, len(chain) + 1))


def _skip_rearrangements(x: Any) -> Any:
    """Return what a node moves the entries of; any other node as it is."""
    while isinstance(x, GraphNode) and x.op in _MOVING:
        x = x.args[0]
    return x


def _is_input(x: Any) -> bool:
    return isinstance(x, GraphNode) and x.op.startswith("input ")


def _output_of_layer(product: GraphNode, users: Mapping[int, list[GraphNode]]) -> GraphNode:
    """Return what a layer passes on: its product, other products and inputs added."""
    node = product
    while len(own := users.get(id(node), [])) == 1:
        (user,) = own
        others = [_skip_rearrangements(x) for x in user.args if x is not node]
        added = user.op == "add" and all(
            _is_input(x) or (isinstance(x, GraphNode) and x.op in _PRODUCTS) for x in others
        )
        if not (added or (user.op == "reshape" and user.shape == tuple(n for n in node.shape if n != 1))):
            break
        node = user
    return node


def _is_next_layer(z: GraphNode, before: GraphNode) -> bool:
    """Whether a layer's product is with a function, entry by entry, of what the layer before gave."""
    pending: list[Any] = [z]
    while pending:
        node = pending.pop()
        if not isinstance(node, GraphNode):
            continue
        if node.op in _PRODUCTS:
            return any(_is_elementwise_function(_skip_rearrangements(x), before) for x in node.args)
        pending += node.args if node.op == "add" or node.op in _MOVING else []
    return False


def _is_elementwise_function(x: Any, z: GraphNode) -> bool:
    """Whether a value is a function of z entry by entry, and not z itself: all between them have the shape of z."""
    if x is z or not isinstance(x, GraphNode) or x.shape != z.shape:
        return False
    met = False
    pending = [x]
    seen: set[int] = set()
    while pending:
        node = pending.pop()
        for a in (a for a in node.args if isinstance(a, GraphNode) and a is not z and id(a) not in seen):
            seen.add(id(a))
            if (a.shape != z.shape or a.op in _PRODUCTS) and any(n is z for n in walk_nodes(a)):
                return False
            pending.append(a)
        met = met or any(a is z for a in node.args)
    return met


# The errors, by a reverse sweep that goes on with their names.


def find_layer_errors(sweeps: Sequence[Sweep], names: Sequence[str]) -> tuple[dict[str, list[Any]], list[Any]]:
    """Return the errors of the layers that depend on the one input, and the derivative in terms of them, in every recording.

    `names` has one for each layer, the first layer's first; the errors have them, the last layer's first.
    """
    found: dict[str, list[Any]] = {}
    derivative: list[Any] = []
    for sweep in sweeps:
        if not isinstance(sweep.y, Recorded) or sweep.y.slot == CONSTANT:
            return {}, []
        by_node = {
            id(layer.node): name
            for layer, name in zip(find_layer_chain(sweep.tape.value(sweep.y.slot)), names, strict=True)
        }
        own: dict[str, list[Any]] = {}
        named: dict[int, tuple[str, list[Any]]] = {}
        lines = sweep.tape.lines[: sweep.y.slot + 1]
        for k, (primitive, _, _, y, _, _) in enumerate(lines):
            name = by_node.get(id(y.fixed()), "") if primitive is not None and isinstance(y, GraphNode) else ""
            if name:
                named[k] = name, own.setdefault(name, [None])
        bars = sweep_back_by_names(lines, GraphNode.lift(1.0), named)
        derivative.append(bars[sweep.inputs[0].slot])
        for name, (bar,) in own.items():
            found.setdefault(name, []).append(bar)
    return {name: found[name] for name in reversed(names) if name in found}, derivative
