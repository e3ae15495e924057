"""Closed forms: a reverse sweep recorded at three sizes, read as tensors, simplified, written, and checked before it is shown."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gradcli.core.shapes import shape
from gradcli.derivation import notation
from gradcli.derivation.convert import Reader
from gradcli.derivation.expression import E, text
from gradcli.derivation.index import Index, Tensor, add, of_atom, scaled
from gradcli.derivation.matrices import Printer
from gradcli.derivation.problem import RECORDINGS, Problem, point_of
from gradcli.derivation.products import identity, multiply
from gradcli.derivation.program import Program, numpy_code, program, replaced
from gradcli.derivation.record import SEED, Sweep, gradient_of, swept
from gradcli.derivation.selftest import self_test
from gradcli.derivation.simplify import bulk, simplified, unseeded
from gradcli.derivation.steps import QUIET, assigned, indexed, letter_for, told
from gradcli.derivation.structure import Value
from gradcli.derivation.verified import Verifier
from gradcli.errors import BadOption, GradcliError, NotSupported
from gradcli.report.derive import Formula, Result

_UNPRINTABLE = 10**6
_MOST_ORDERS = 24
_HUGE = 1e10  # values of f beyond it come of a matrix that is singular but for rounding
_RANK_TWO = 3  # operations that an outer product inside another product counts as: it makes a matrix of two vectors


class Derivation:
    """The recordings of one problem at three sizes, and what is derived from them."""

    def __init__(self, problem: Problem) -> None:
        if not problem.dims:
            raise BadOption("f has no input to differentiate by", do="name one: x**2")
        self.problem = problem
        self.sizes = self._sizes()
        self.points = [self.point(k, problem.seed) for k in range(RECORDINGS)]

    def point(self, k: int, seed: int) -> dict[str, Any]:
        """Return random values for all inputs in the k-th recording's sizes, and the sizes themselves."""
        return point_of(self.problem, {n: v[k] for n, v in self.sizes.items()}, np.random.default_rng([seed, k]))

    def _sizes(self) -> dict[str, tuple[int, ...]]:
        """Return three sizes for each name, in an order of names at which f is finite (a tall matrix, where it must be)."""
        names = self.problem.names
        for order in itertools.islice(itertools.permutations(names), _MOST_ORDERS):
            sizes = {n: (3 + r, 5 + 2 * r, 7 + 3 * r) for r, n in enumerate(order)}
            if self._finite(sizes):
                return {n: sizes[n] for n in names}
        return {n: (3 + r, 5 + 2 * r, 7 + 3 * r) for r, n in enumerate(names)}

    def _finite(self, sizes: Mapping[str, tuple[int, ...]]) -> bool:
        for k in range(RECORDINGS):
            point = point_of(self.problem, {n: v[k] for n, v in sizes.items()}, np.random.default_rng([0, k]))
            with np.errstate(all="ignore"):
                try:
                    y = self.problem.f(point)
                except (np.linalg.LinAlgError, GradcliError):
                    return False
            value = np.asarray(y, dtype=float)
            if not np.all(np.abs(value) < _HUGE) or _flat_determinant(value):
                return False
        return True

    def result(self, wrt: str) -> Result:
        """Return the derivative by one input, verified. Raises NotSupported, Unverified."""
        sweeps = [self._swept(wrt, k) for k in range(RECORDINGS)]
        reader = self.reader()
        value = reader.read([s.xbars[0] for s in sweeps])
        output = reader.axes([shape(s.y.primal) if hasattr(s.y, "primal") else () for s in sweeps])
        kind, axes, tensor = self._kind(value, output)
        if "tied" in self.problem.facts.get(wrt, ()) and kind == "gradient":
            tensor = _tied(tensor)
        if self.problem.layout == "numerator" and kind == "gradient":
            axes = axes[::-1]
        printer = Printer(self._likes())
        moves: list[tuple[str, Tensor]] = []
        small = simplified(tensor, lambda t: _measure(printer, t, axes), moves)
        e = printer.write(small, axes)
        made = program(e, [*self.problem.dims, *self.sizes], self._named(sweeps, reader, printer))
        verifier = Verifier(self.problem, self.sizes, wrt, kind)
        check = verifier.check(made, self._code(made, kind))
        steps = told(self, wrt, sweeps, tensor, moves, printer, axes, e)
        return Result(
            wrt, tuple(self.problem.dims[wrt]), kind, _formula(made), tuple((n, text(p)) for n, p in made.parts), steps,
            {"numpy": self._code(made, kind, self_test(self.problem, kind, self._first(), verifier.truth))},
            {"function": self._operations(wrt), "program": made.size, "inlined": e.size}, check,
            indexed(small, axes, letter_for(self.problem.dims)),
        )  # fmt: skip

    def _named(self, sweeps: Sequence[Sweep], reader: Reader, printer: Printer) -> dict[E, str]:
        """Return what the user's own lines compute, by their names."""
        found: dict[E, str] = {}
        lines = [s.tape.lines for s in sweeps]
        for k, name in assigned(lines[0]).items():
            try:
                value = reader.read([line[k][3] for line in lines])
                found.setdefault(printer.write(value.tensor, value.axes), name)
            except NotSupported:
                continue
        taken = {*self.problem.dims, *self.sizes}
        return {e: n for e, n in found.items() if e.size and n not in taken}

    def _kind(self, value: Value, output: Sequence[Index | None]) -> tuple[str, tuple[Index | None, ...], Tensor]:
        if not output:
            return ("hessian" if self.problem.order == 2 else "gradient"), value.axes, value.tensor
        free = tuple(i for i in output if i is not None)
        tensor = unseeded(value.tensor, SEED, free)
        return ("hessian" if self.problem.order == 2 else "jacobian"), (*output, *value.axes), tensor

    def _swept(self, wrt: str, k: int) -> Sweep:
        g: Callable[[Mapping[str, Any]], Any] = self.problem.f
        if self.problem.order == 2:
            g = gradient_of(g, [wrt])
        point = self.points[k]
        return swept(g, {n: x for n, x in point.items() if n not in self.sizes} | self._whole(k), [wrt])

    def _whole(self, k: int) -> dict[str, Any]:
        return {n: int(v[k]) for n, v in self.sizes.items() if n in self.problem.f.inputs}

    def reader(self) -> Reader:
        return Reader(self.sizes, self.problem.facts)

    def _likes(self) -> dict[tuple[str, ...], str]:
        return {
            tuple(d for d in dims if d != "1"): name for name, dims in reversed(list(self.problem.dims.items())) if dims
        }

    def _first(self) -> dict[str, int]:
        return {n: v[0] for n, v in self.sizes.items()}

    def _operations(self, wrt: str) -> int:
        """Return how many operations on arrays the function takes, as it is written."""
        graphs = [self._swept(wrt, 0)] if self.problem.order == 1 else []
        return sum(line[0] is not None and line[0].name not in QUIET for s in graphs for line in s.tape.lines)

    def _code(self, made: Program, kind: str, test: str = "") -> str:
        owners = {
            d: (name, k)
            for name, dims in reversed(list(self.problem.dims.items()))
            for k, d in enumerate(dims)
            if not d.isdecimal()
        }
        return numpy_code(made, kind, tuple(self.problem.dims), owners, test)


def _flat_determinant(y: Any) -> bool:
    """Whether a number is zero but for rounding, as the determinant of a matrix that has not full rank."""
    return y.shape == () and 0 < abs(float(y)) < 1e-12


def _measure(printer: Printer, x: Tensor, axes: Sequence[Index | None]) -> int:
    """Return how large a tensor is as it would be printed; what has no matrix form is larger than all that has."""
    try:
        e = printer.write(x, axes)
        return 1_000 * (e.size + _RANK_TWO * (_outers(e) + _spread(e))) + bulk(x)
    except NotSupported:
        return _UNPRINTABLE * 1_000 + bulk(x)


def _outers(e: E, inside: bool = False) -> int:
    """Return how many outer products stand in other products."""
    own = inside and e.op == "call" and e.text in ("outer", "einsum")
    deeper = inside or e.op == "matmul" or (e.op == "call" and e.text in ("trace", "sum", "einsum"))
    return int(own) + sum(_outers(a, deeper) for a in e.args)


def _spread(e: E) -> int:
    """Return how many sums spread a column over a matrix, which no textbook does."""
    own = e.op == "add" and any(a.op == "column" or (a.op == "neg" and a.args[0].op == "column") for a in e.args)
    return int(own) + sum(map(_spread, e.args))


def _tied(x: Tensor) -> Tensor:
    """Return the gradient by a symmetric matrix whose mirrored entries move together: G + G.T - diag(G)."""
    i, j = x.free
    turned = x.renamed({i: j, j: i})
    diagonal = multiply(x, of_atom(identity(i.dim), (i, j)))
    return add([x, Tensor(x.free, turned.terms), scaled(diagonal, -1)], x.free)


def _formula(made: Program) -> Formula:
    lines = [*made.parts, ("", made.result)]
    raised = "; ".join(f"{n} = {notation.unicode(e)}" if n else notation.unicode(e) for n, e in lines)
    latex = r" \\ ".join(
        f"{notation.name_in_latex(n)} = {notation.latex(e)}" if n else notation.latex(e) for n, e in lines
    )
    whole = made.result
    for n, e in reversed(made.parts):
        whole = replaced(whole, E("name", text=n), e)
    return Formula(made.text(), raised, latex, notation.mathml(whole))
