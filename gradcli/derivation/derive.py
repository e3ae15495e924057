"""Closed forms: a reverse sweep recorded at three sizes, read as tensors, simplified, written as code, and verified."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gradcli.core.shapes import shape
from gradcli.derivation.code import dialect, languages
from gradcli.derivation.convert import Reader
from gradcli.derivation.cost import cost_of
from gradcli.derivation.ending import Found
from gradcli.derivation.expression import E, text
from gradcli.derivation.index import SINGLE, Index, Tensor, add, of_atom, scaled
from gradcli.derivation.index_notation import indexed
from gradcli.derivation.jacobians import OPEN, Begun, directed, unseeded
from gradcli.derivation.matrices import Printer
from gradcli.derivation.measure import measure
from gradcli.derivation.notes import first_refused
from gradcli.derivation.operands import with_single_axes
from gradcli.derivation.printed import Derivative, formula, in_latex
from gradcli.derivation.problem import MOVED, RECORDINGS, Problem, point_of
from gradcli.derivation.products import identity, multiply, tidied
from gradcli.derivation.record import SEED, Sweep, gradient_of, one_sided, sizes_of, swept
from gradcli.derivation.simplify import simplified
from gradcli.derivation.statements import Statements, program
from gradcli.derivation.steps import QUIET, assigned, letter_for, steps_of
from gradcli.derivation.structure import Value, single
from gradcli.derivation.textbook import Named, named, with_densities
from gradcli.derivation.verified import ALLOWED, Unverified, Verifier, self_test
from gradcli.derivation.work import TooLong
from gradcli.errors import BadOption, GradcliError, NotSupported
from gradcli.interpreters.graph import Graph
from gradcli.interpreters.tape import Recorded
from gradcli.reports.absent import ABSENT
from gradcli.reports.derive import DerivedKind, Formula, Result
from gradcli.source.derived import OnSurfaces, root_of
from gradcli.source.expression import Expression


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
    named: Named
    made: Statements


class Derivation:
    """The recordings of one problem at three sizes, and the derivatives found from them.

    Raises  BadOption for a function without inputs.
    """

    def __init__(
        self, problem: Problem, sizes: Mapping[str, tuple[int, ...]] | None = None, points: Sequence[Any] = ()
    ) -> None:
        if not problem.dims:
            raise BadOption("f has no input to differentiate by", do="name one: x**2")
        self.problem = problem
        self.sizes = dict(sizes or sizes_of(problem))
        self.points: Sequence[Any] = list(points) or [self.point(k, problem.seed) for k in range(RECORDINGS)]
        self.begun: Begun | None = None
        self.wrt: str | None = None
        if any("1" in own for own in problem.dims.values()) and problem.layout == "numerator":
            raise NotSupported("columns and rows are derived in denominator layout", do="leave out --layout")
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
        own = replace(problem, order=1, dims=dims, facts=facts, direction=None, layout="denominator")
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
        if self.squeezed is False and kind != "gradient" and not self.problem.direction:
            return self._squeezed().closed(wrt)
        free = tensor.free
        tensor = add([Tensor(free, (tidied(term, free),)) for term in tensor.terms], free) if tensor.terms else tensor
        printer = Printer(self._likes())
        moves: list[tuple[str, Tensor]] = []
        small = simplified(tensor, lambda t: measure(printer, t, axes), moves)
        e = printer.write(small, axes)
        if self.squeezed is not None and (kind == "gradient" or self.problem.direction):
            right = None if self.problem.direction else sweeps[0].xbars[0]
            e, fits = with_single_axes(e, axes, wrt, {**self._first(), **self.points[0]}, right)
            if not (fits or self.squeezed):
                return self._squeezed().closed(wrt)
        known = {**(self.begun.known if self.begun else {}), **self._named(sweeps, reader, printer)}
        taken = [*self.taken, *known.values()]
        apart = Named(e) if self.squeezed is not None else named(small, axes, wrt, printer, taken)
        whole = with_densities(apart, taken)
        made = program(whole.e, self.taken, known, begun=whole.parts)
        return Closed(kind, sweeps, axes, tensor, moves, small, printer, e, known, apart, made)

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
        made, kind = found.made, found.kind
        verifier = Verifier(self.problem, self.sizes, wrt, kind)
        wanted = languages.CodeRequest(made, kind, self.problem.dims, wrt)
        test = self_test(self.problem, kind, self._first(), verifier.truth, verifier.points())
        verifier.refuse_unmet_comparisons()
        try:
            check = verifier.check(made, languages.in_arrays(wanted, dialect.NUMPY), test)
        except Unverified:
            if (reads := one_sided(found.sweeps[0].tape)) is None:
                raise
            says = f"{reads} reads one triangle of its argument; the closed form is for a symmetric matrix"
            raise NotSupported(says, do=f'--assume "{wrt}: symmetric"') from None
        with np.errstate(all="ignore"):  # the rules in the steps are run, at points where f may have no value
            steps = steps_of(
                self,
                wrt,
                found.sweeps,
                Found(found.tensor, found.moves),
                found.printer,
                found.axes,
                found.named,
                found.known,
            )
        code, uncoded = languages.every(wanted, test)
        return Result(
            wrt, tuple(self.problem.dims[wrt]), kind, self._formula(wrt, found), tuple((n, text(p)) for n, p in made.parts),
            steps, code, {"function": self._operations(wrt), "program": made.size, "inlined": found.e.size}, check,
            indexed(found.small, found.axes, self.letter, self.problem.dims), uncoded=uncoded,
            direction=self.problem.direction or ABSENT, cost=cost_of(made, self.problem.dims),
        )  # fmt: skip

    def function_in_latex(self) -> str:
        """Return f as a formula with a left side; nothing where it has none."""
        printer = Printer(self._likes())
        try:
            value = self.read(self.problem.f)
            return in_latex("f", printer.write(value.tensor, value.singles), self.problem.dims)
        except (GradcliError, np.linalg.LinAlgError):
            return ""

    def read(self, f: Callable[[Mapping[str, Any]], Any]) -> Value:
        """Return the value of a function of the inputs as a tensor. Raises NotSupported."""
        graphs = []
        for k in range(RECORDINGS):
            point = self.points[k] | {n: v[k] for n, v in self.sizes.items()}
            with np.errstate(all="ignore"):
                graphs.append(f({n: Graph.variable(n, x) if n in self.problem.dims else x for n, x in point.items()}))
        return self.reader().read(graphs)

    def _formula(self, wrt: str, found: Closed) -> Formula:
        of_input = sum(d != "1" for d in self.problem.dims[wrt])
        outputs = sum(i is not None for i in found.axes) - of_input if found.kind == "jacobian" else 0
        row = self.problem.layout == "numerator" and found.kind == "gradient" and of_input == 1
        along = self.problem.direction
        product = (letter_for(self.problem.dims, self.problem.order), along) if along else None
        return formula(
            found.made,
            Derivative(wrt, self.problem.order, found.small, found.axes, outputs, product, row),
            self.problem.dims,
        )

    def _named(self, sweeps: Sequence[Sweep], reader: Reader, printer: Printer) -> dict[E, str]:
        """Return the expressions that the user's own lines compute, with the names they get there."""
        found: dict[E, str] = {}
        for k, name in assigned(sweeps[0].tape.lines).items():
            try:
                value = reader.read([sweep.tape.value(k) for sweep in sweeps])
                found.setdefault(printer.write(value.tensor, value.singles), name)
            except NotSupported:
                continue
        found = {**{e: n for n, e in self._statements(printer)}, **found}
        return {e: n for e, n in found.items() if e.size and n not in self.taken}

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
