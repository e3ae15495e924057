"""Recording of a function and its reverse sweep as graphs, at three sizes for each name at which the function is finite."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gradcli.arithmetic.graph import Graph, NotStraight
from gradcli.arithmetic.program import Program, record
from gradcli.arithmetic.tape import Recorded, Tape
from gradcli.derivation.adjoints import RULES
from gradcli.derivation.indexing import picks
from gradcli.derivation.problem import MOVED, RECORDINGS, Problem, point_of
from gradcli.errors import GradcliError, NotSupported
from gradcli.targets.derived import OnSurfaces, Weighted
from gradcli.targets.facts import SYMMETRIC
from gradcli.tracing.primitive import Value
from gradcli.tracing.shapes import shape

SEED = "seed of the sweep"  # names the cotangent of a result that is not a scalar; no input can have this name


@dataclass(frozen=True, slots=True)
class Sweep:
    """One recording: the value, its cotangents by input, and the tape."""

    y: Value
    xbars: list[Value]
    tape: Tape
    inputs: list[Recorded]


def swept(g: Callable[..., Value], values: Mapping[str, Any], wrt: Sequence[str], seed: str = SEED) -> Sweep:
    """Return the reverse sweep of `g`, a function of named values, as graphs; `seed` names the cotangent of an array.

    The cotangents are zero if the result does not depend on the inputs.
    """
    graphs = {name: Graph.variable(name, x) if _numeric(x) else x for name, x in values.items()}

    def of_wrt(*xs: Value) -> Value:
        return g(graphs | dict(zip(wrt, xs, strict=True)))

    with np.errstate(all="ignore"):
        program = record(of_wrt, [graphs[name] for name in wrt])
        return Sweep(program.y, _cotangents(program, seed), program.tape, program.inputs)


def _cotangents(program: Program, seed: str) -> list[Value]:
    if not program.moves:
        return [np.zeros(np.shape(x.primal.value)) for x in program.inputs]
    shape = program.y.primal.shape
    rng = np.random.default_rng(0)
    one = Graph.lift(1.0) if shape == () else Graph.variable(seed, rng.uniform(0.5, 1.5, shape))
    return _swept_back(program, one)


def gradient_of(g: Callable[..., Value], wrt: Sequence[str]) -> Callable[[Mapping[str, Value]], Value]:
    """Return the gradient of a scalar function with respect to one input, as a function that can itself be recorded.

    Raises  NotSupported, when it is called, if the result does not depend on the input.
    """

    def gradient(values: Mapping[str, Value]) -> Value:
        program = record(lambda *xs: g({**values, **dict(zip(wrt, xs, strict=True))}), [values[name] for name in wrt])
        if not program.moves:
            raise NotSupported("the gradient is zero, and so are all derivatives after it")
        return _swept_back(program, Graph.lift(1.0))[0]

    return gradient


def _swept_back(program: Program, one: Value) -> list[Value]:
    """Return the cotangents of the inputs, by the rules for formulas."""
    rules = {
        k: dict.fromkeys(range(len(slots)), RULES[primitive.name])
        for k, (primitive, slots, *_) in enumerate(program.lines)
        if primitive is not None and primitive.name in RULES
    }
    return program.with_rules(rules).pull(one)


def _numeric(x: Any) -> bool:
    return isinstance(x, float | np.floating) or (isinstance(x, np.ndarray) and x.dtype.kind == "f")


_MOST_ORDERS = 24
_LEAST = (3, 9)  # the smallest size; the second one is for indices beyond the first
_HUGE = 1e10  # larger values of f come from a matrix that is singular up to rounding
_INVERTING = {"inv", "solve", "det", "logdet"}

Sizes = dict[str, tuple[int, ...]]


def sizes_of(problem: Problem) -> Sizes:
    """Return three sizes for each name, in an order of the names for which f is finite: tall matrices if it needs them."""
    tried = _all(problem.names)
    return next((sizes for sizes in tried if suits(problem, sizes)), next(_all(problem.names)))


def _all(names: tuple[str, ...]) -> Iterator[Sizes]:
    for least in _LEAST:
        for order in itertools.islice(itertools.permutations(names), _MOST_ORDERS):
            rank = {n: r for r, n in enumerate(order)}
            yield {n: (least + rank[n], least + 2 + 2 * rank[n], least + 4 + 3 * rank[n]) for n in names}


def suits(problem: Problem, sizes: Mapping[str, tuple[int, ...]]) -> bool:
    for k in range(RECORDINGS):
        point = point_of(problem, {n: v[k] for n, v in sizes.items()}, np.random.default_rng([0, k]))
        held = {n: Graph.variable(n, x) if n in problem.dims else x for n, x in point.items()}
        with np.errstate(all="ignore"):
            try:
                y = problem.f(held)
            except NotStraight:
                raise
            except (np.linalg.LinAlgError, GradcliError):
                return False
        value = np.asarray(getattr(y, "value", y), dtype=float)
        if not np.all(np.abs(value) < _HUGE) or any(_singular(node) or _cut_off(node) for node in _nodes(y)):
            return False
    return True


_TRIANGULAR = {"cholesky", "eigvalsh", "eigenvectors"}  # functions that read one triangle of their argument


def one_sided(tape: Tape) -> str | None:
    """Return a function that a program takes, and that reads one triangle of its argument; None if there is none."""
    names = (primitive.name for primitive, *_ in tape.lines if primitive is not None)
    return next((name for name in names if name in _TRIANGULAR), None)


def prepared(problem: Problem) -> Problem:
    """Return the problem with f as it is derived.

    A value of one entry is a number, whatever its shape. If f reads one triangle of a matrix, it is a function of the
    symmetric parts of the symmetric inputs. Inputs that f compares by == or != are known.

    Raises  NotStraight for a function with branches or loops by values, which might not end at a drawn point.
    """
    y = _first_value(problem)
    if y is None:
        return problem
    f = problem.f
    if shape(y) and set(shape(y)) == {1}:
        f = Weighted(f, 1.0, f.text)
    names = tuple(n for n, words in problem.facts.items() if words & {"symmetric", "spd"} and "tied" not in words)
    if names and any(node.op in _TRIANGULAR for node in _nodes(y)):
        f = OnSurfaces(f, dict.fromkeys(names, SYMMETRIC))
    return replace(problem, f=f, compared=_compared_inputs(problem, y))


def _first_value(problem: Problem) -> Any:
    """Return the value of f as a graph, at the first sizes and the first random point at which f runs; None if there are none."""
    for sizes in _all(problem.names):
        first = {n: v[0] for n, v in sizes.items()}
        for moved in (None, *MOVED):
            point = point_of(problem, first, np.random.default_rng(0), moved)
            try:
                with np.errstate(all="ignore"):
                    return problem.f({n: Graph.variable(n, x) if n in problem.dims else x for n, x in point.items()})
            except NotStraight:
                raise
            except (np.linalg.LinAlgError, GradcliError):
                continue
    return None


_TRUTHS = {
    "equal", "not_equal", "greater", "greater_equal", "less", "less_equal", "logical_and", "logical_or", "logical_xor",
    "logical_not",
}  # fmt: skip
_MOVING = {"getitem", "reshape", "transpose", "broadcast_to", "positive"}  # operations that change no entry
_FEW_INTEGERS = (0.0, 1.0, 2.0)


def comparisons(y: Any) -> Iterator[Graph]:
    """Yield the comparisons by == and != in a graph, those of numbers that are no truth values themselves."""
    for node in _nodes(y):
        compared = [x for x in node.args if inputs_of(x)] if node.op in ("equal", "not_equal") else []
        if compared and not any(map(_is_truth, compared)):
            yield node


def inputs_of(node: Any) -> set[str]:
    """Return the names of the inputs in a graph."""
    return {n.op.removeprefix("input ") for n in _nodes(node) if n.op.startswith("input ")}


def _is_truth(x: Any) -> bool:
    """Whether a node is a comparison, or a product of comparisons."""
    if not isinstance(x, Graph):
        return bool(np.all(np.asarray(x) == 1))
    if x.op == "constant":
        return bool(np.all(np.asarray(x.value) == 1))
    return x.op in _TRUTHS or (x.op in ("multiply", *_MOVING) and all(map(_is_truth, x.args)))


def _compared_inputs(problem: Problem, y: Any) -> dict[str, tuple[float, ...]]:
    """Return the inputs that f compares by == or !=, with numbers for the points of the proof; none where f compares several."""
    found: dict[str, set[float]] = {}
    for node in comparisons(y):
        for x, other in (node.args, node.args[::-1]):
            names = inputs_of(x) & set(problem.dims)
            for name in names:
                found.setdefault(name, set())
            if len(names) != 1 or any(n.op in _TRUTHS for n in _nodes(x)):
                continue
            met = () if inputs_of(other) else np.unique(np.asarray(getattr(other, "value", other), dtype=float))[:4]
            found[name] |= {float(v) for v in met if np.isfinite(v)}
            if inputs_of(other) or not all(n.op in _MOVING or n.op.startswith("input ") for n in _nodes(x)):
                found[name] |= {*_FEW_INTEGERS}
    return {name: tuple(sorted(met)) for name, met in found.items()}


def _nodes(y: Any) -> Iterator[Graph]:
    seen: set[int] = set()
    pending = [y]
    while pending:
        node = pending.pop()
        if isinstance(node, Graph) and id(node) not in seen:
            seen.add(id(node))
            pending += node.args
            yield node


def _singular(node: Graph) -> bool:
    """Whether a node inverts a matrix that does not have full rank, or takes its determinant."""
    if node.op not in _INVERTING:
        return False
    matrix = np.asarray(getattr(node.args[0], "value", node.args[0]))
    return not np.all(np.isfinite(matrix)) or bool(np.any(np.linalg.matrix_rank(matrix) < matrix.shape[-1]))


def _cut_off(node: Graph) -> bool:
    """Whether a node takes a slice that ends beyond the array, and so would take more of a larger one."""
    if node.op != "getitem":
        return False
    try:
        picks([node.params["index"]], [np.shape(getattr(node.args[0], "value", node.args[0]))])
    except NotSupported:
        return True
    return False
