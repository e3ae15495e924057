"""Recording of a function and its reverse sweep as graphs, at three sizes for each name at which the function is finite."""

import itertools
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from gradcli.arithmetic.recorded_program import RecordedProgram, record
from gradcli.arithmetic.tape import Line, Recorded, Tape, sweep_back
from gradcli.arithmetic.value_graph import GraphNode, NotStraight
from gradcli.classes import dataclass
from gradcli.derivation.algebra import ORDERS, identity, multiply, sum_over
from gradcli.derivation.axes import (
    Axis,
    Sized,
    align_to_axes,
    fresh_axis_like,
    indices_of_axes,
    match_indices,
    opaque_function,
    single_index,
    value_with_axes,
    with_fresh_indices,
)
from gradcli.derivation.axes import Value as Indexed
from gradcli.derivation.index import (
    Atom,
    Index,
    Tensor,
    add,
    apply_function,
    fresh_index,
    scalar,
    scale_tensor,
    slot,
    tensor_of_atom,
)
from gradcli.derivation.sized_problem import MOVED, RECORDINGS, DerivationProblem, draw_point
from gradcli.derivation.units import (
    FIRST,
    Position,
    complement_of_triangle,
    cut_span,
    inverse_span,
    parse_position,
    roll_span,
    selection_matrix,
    triangle_of_ones,
    unit_vector,
)
from gradcli.errors import BadOption, GradcliError, NotSupported
from gradcli.rules.kinds import Linear, Partial
from gradcli.rules.linalg import T, expm_frechet
from gradcli.rules.reductions import PEAKS
from gradcli.rules.shaping import GETITEM, SCATTER
from gradcli.targets.derived import OnSurfaces, Weighted
from gradcli.targets.facts import SYMMETRIC, length_of
from gradcli.tracing.primitive import Params, Primitive, Rule, Transposer, Value
from gradcli.tracing.primitive import primitive_by_name as primitive_named
from gradcli.tracing.shapes import shape

SEED = "seed of the sweep"  # names the cotangent of a result that is not a scalar; no input can have this name


@dataclass(frozen=True, slots=True)
class Sweep:
    """One recording: the value, its cotangents by input, and the tape."""

    y: Value
    xbars: list[Value]
    tape: Tape
    inputs: list[Recorded]


def record_sweep(g: Callable[..., Value], values: Mapping[str, Any], wrt: Sequence[str], seed: str = SEED) -> Sweep:
    """Return the reverse sweep of `g`, a function of named values, as graphs; `seed` names the cotangent of an array.

    The cotangents are zero if the result does not depend on the inputs.
    """
    graphs = {name: GraphNode.variable(name, x) if _is_float(x) else x for name, x in values.items()}
    with np.errstate(all="ignore"):
        program = record(lambda *xs: g(graphs | dict(zip(wrt, xs, strict=True))), [graphs[name] for name in wrt])
        program, xbars = _mark_shifts(program, _seeded_cotangents(program, seed), seed)
        return Sweep(program.y, list(xbars), program.tape, program.inputs)


def _seeded_cotangents(program: RecordedProgram, seed: str) -> list[Value]:
    if not program.moves:
        return [np.zeros(np.shape(x.primal.value)) for x in program.inputs]
    shape = program.y.primal.shape
    rng = np.random.default_rng(0)
    one = GraphNode.lift(1.0) if shape == () else GraphNode.variable(seed, rng.uniform(0.5, 1.5, shape))
    return _cotangents_by_rules(program, one)


def gradient_of(g: Callable[..., Value], wrt: Sequence[str]) -> Callable[[Mapping[str, Value]], Value]:
    """Return the gradient of a scalar function with respect to one input, as a function that can itself be recorded.

    Raises  NotSupported, when it is called, if the result does not depend on the input.
    """

    def gradient(values: Mapping[str, Value]) -> Value:
        program = record(lambda *xs: g({**values, **dict(zip(wrt, xs, strict=True))}), [values[name] for name in wrt])
        if not program.moves:
            raise NotSupported("the gradient is zero, and so are all derivatives after it")
        return _cotangents_by_rules(program, GraphNode.lift(1.0))[0]

    return gradient


# The rules of a derivation where those that compute numbers are not what a textbook writes.
#
# A numerical rule avoids an inverse, or takes a matrix of twice the size; a formula names the function. Functions that only
# formulas have, such as the adjoint of a Cholesky factor, are nodes that `derivation/axes.py` reads.


def formula_node(op: str, value: Callable[..., Any], *xs: Value) -> GraphNode:
    """Return a node of a function that only formulas have. Raises NotSupported within a second sweep."""
    if not all(isinstance(x, GraphNode | np.ndarray | float) for x in xs):
        raise NotSupported(f"the derivative of {op} has no closed form here", do="gradcli check verifies its gradient")
    plain = [np.asarray(x.value if isinstance(x, GraphNode) else x) for x in xs]
    try:
        found = value(*plain)
    except np.linalg.LinAlgError:  # values give shapes and branches only
        found = np.full(plain[-1].shape, np.nan)
    return GraphNode(op, tuple(GraphNode.lift(x) for x in xs), {}, found)


Formula = Callable[..., Value]  # of a tangent or a cotangent, the value and the argument, and the parameters


@dataclass(frozen=True, slots=True)
class FormulaRule:
    """A rule of a function of one argument, for formulas: its adjoint and, where it is not that for numbers, its differential."""

    adjoint: Formula
    differential: Formula | None = None

    def push(self, primitive: Primitive, i: int, y: Value, xs: Sequence[Value], xdot: Value, params: Params) -> Value:
        if self.differential is not None:
            return self.differential(xdot, y, xs[0], **params)
        numerical: Rule = primitive.rules[0]
        return numerical.push(primitive, i, y, xs, xdot, params)

    def pull(self, ybar: Value, i: int, y: Value, xs: Sequence[Value], params: Params, transpose: Transposer) -> Value:
        return self.adjoint(ybar, y, xs[0], **params)


def _cumsum_adjoint(ybar: Value, x: Value, *, axis: int) -> Value:
    """Return the product with a triangle of ones, whose transpose pulls back without reversing an axis."""
    if len(shape(x)) > 2:
        raise NotSupported("cumsum of an array of more than two axes has no closed form here")
    ones = np.tri(shape(x)[axis])
    return ybar @ ones if axis == 1 else ones.T @ ybar


def _pinv_differential(xdot: Value, y: Value, x: Value, *, rcond: float) -> Value:
    """Return the differential of a pseudoinverse of full rank, whether the matrix is wide or tall."""
    right = y @ T(y) @ T(xdot)
    left = T(xdot) @ T(y) @ y
    return -y @ xdot @ y + right - right @ x @ y + left - y @ x @ left


def _pinv_adjoint(ybar: Value, y: Value, x: Value, *, rcond: float) -> Value:
    right = T(ybar) @ y @ T(y)
    left = T(y) @ y @ T(ybar)
    return -T(y) @ ybar @ T(y) + right - x @ y @ right + left - left @ y @ x


def _cholesky_differential(xdot: Value, y: Value, x: Value) -> Value:
    inner = np.linalg.inv(y) @ xdot @ T(np.linalg.inv(y))
    return y @ formula_node("lower_half", lambda m: np.tril(m) - np.diag(np.diag(m)) / 2, inner)


def _singular_vectors(x: Value) -> tuple[GraphNode, GraphNode]:
    """Return the vectors with which a singular value moves: u.T @ dX @ v."""
    left = formula_node("left_vectors", lambda x: np.linalg.svd(x, full_matrices=False)[0], x)
    return left, formula_node("right_vectors", lambda x: np.linalg.svd(x, full_matrices=False)[2].T, x)


def _svdvals_differential(xdot: Value, y: Value, x: Value) -> Value:
    u, v = _singular_vectors(x)
    return np.sum(u * (xdot @ v), axis=0)


def _svdvals_adjoint(ybar: Value, y: Value, x: Value) -> Value:
    u, v = _singular_vectors(x)
    return (u * ybar) @ T(v)


class ShiftRule:
    """A largest entry that is only subtracted to keep exponentials small, and cancels: f does not change with it.

    `cotangents` are those that reached it.
    """

    def __init__(self) -> None:
        self.cotangents: list[Value] = []

    def push(self, primitive: Primitive, i: int, y: Value, xs: Sequence[Value], xdot: Value, params: Params) -> Value:
        return np.sum(xdot, axis=params["axis"]) * 0.0

    def pull(self, ybar: Value, i: int, y: Value, xs: Sequence[Value], params: Params, transpose: Transposer) -> Value:
        self.cotangents.append(ybar)
        return np.zeros(shape(xs[0]))


def is_shift(primitive: Primitive | None) -> bool:
    """Whether an operation is the largest entry, by which f does not change."""
    return primitive is not None and bool(primitive.rules) and isinstance(primitive.rule(0), ShiftRule)


def is_sorting_index(index: Any, x: Value) -> bool:
    """Whether an index sorts a vector, whose entries all differ."""
    value = np.asarray(getattr(x, "value", x))
    order = np.asarray(index) if isinstance(index, np.ndarray) else np.zeros(0)
    rolled = order.ndim == 1 and len(order) and np.array_equal(order, np.roll(np.arange(len(order)), -int(order[0])))
    return value.ndim == 1 and order.shape == value.shape and not rolled and np.array_equal(order, np.argsort(value))


def _getitem_differential(xdot: Value, y: Value, x: Value, *, index: Any) -> Value:
    if is_sorting_index(index, x):
        return formula_node("sorted along", lambda x, xdot: xdot[np.argsort(x)], x, xdot)
    return GETITEM(xdot, index=index)


def _getitem_adjoint(ybar: Value, y: Value, x: Value, *, index: Any) -> Value:
    """Return the cotangent of an array; that of a sorted vector goes back to where its entries were."""
    if is_sorting_index(index, x):
        return formula_node("unsorted", lambda x, ybar: ybar[np.argsort(np.argsort(x))], x, ybar)
    return SCATTER(ybar, index=index, into=shape(x))


_PIECEWISE: dict[str, Callable[..., list[Any]]] = {  # by function, the branches that it takes, of those of its arguments
    "maximum": lambda a, b: [*a, *b], "minimum": lambda a, b: [*a, *b], "where": lambda condition, a, b: [*a, *b],
    "relu": lambda x: [*x, 0.0], "absolute": lambda x: [*x, *(-v for v in x)],
}  # fmt: skip
_STRAIGHT = {"elementwise", "linear", "bilinear"}  # kinds of primitives that have a value wherever their arguments do
_MOST_PIECES = 64  # of one value
_ROUNDED = 1e-12  # relative: two forms of one value, such as u + (v - u) and v


def _rules_of_extreme(*, largest: bool) -> tuple[Rule, Rule]:
    """Return the rules of the larger or smaller of two operands; where they are equal all around, the first is taken.

    So are a*r and a*clip(r, 0.8, 1.2), for r between 0.8 and 1.2. Operands that are equal at single points alone are compared
    strictly, both ways.
    """

    def slope(mine: Value, other: Value, first: bool) -> Value:
        if not _may_be_equal(mine, other):
            return (mine > other if largest else mine < other) * 1.0 + (mine == other) * 0.5
        if first:
            return (mine >= other if largest else mine <= other) * 1.0
        return (mine > other if largest else mine < other) * 1.0

    return Partial(lambda y, a, b: slope(a, b, first=True)), Partial(lambda y, a, b: slope(b, a, first=False))


def _may_be_equal(*xs: Value) -> bool:
    """Whether two values are equal if each of their piecewise functions takes one of its branches at all entries."""
    graphs = []
    for x in xs:
        while isinstance(x, Recorded):  # the value underneath the sweeps
            x = x.primal
        graphs.append(GraphNode.lift(x))
    if not any(node.op in _PIECEWISE for x in graphs for node in walk_nodes(x)):
        return False
    with np.errstate(all="ignore"):
        first, second = map(_values_of_branches, graphs)
        return any(np.allclose(u, v, rtol=_ROUNDED, atol=0) for u in first for v in second)


def _values_of_branches(x: GraphNode) -> list[Any]:
    """Return the values that a graph has at its point if each piecewise function takes one branch, or the other."""
    found: dict[int, list[Any]] = {}
    for node in walk_nodes(x):
        args = [found[id(a)] if isinstance(a, GraphNode) else [a] for a in node.args]
        if node.op in _PIECEWISE:
            branches = _PIECEWISE[node.op](*args)[:_MOST_PIECES]
            found[id(node)] = [np.broadcast_to(v, np.shape(node.value)) for v in branches]
        elif max(map(len, args), default=1) == 1 or primitive_named(node.op).kind not in _STRAIGHT:
            found[id(node)] = [node.value]
        else:
            several = itertools.islice(itertools.product(*args), _MOST_PIECES)
            found[id(node)] = [primitive_named(node.op).fun(*own, **(node.params or {})) for own in several]
    return found[id(x)]


def _correlate(ybar: Value, other: Value) -> Value:
    return formula_node("correlate", lambda a, v: np.correlate(a, v, "valid"), ybar, other)


RULES: dict[str, tuple[Rule, ...]] = {  # by operation, the rule of each argument
    #                      the cotangent of x, given ybar, y and x; ydot, given xdot, y and x
    "det": (FormulaRule(lambda ybar, y, x: ybar * y * np.transpose(np.linalg.inv(x)),
                        lambda xdot, y, x: y * np.sum(np.transpose(np.linalg.inv(x)) * xdot)),),
    "logdet": (FormulaRule(lambda ybar, y, x: ybar * np.transpose(np.linalg.inv(x)),
                           lambda xdot, y, x: np.sum(np.transpose(np.linalg.inv(x)) * xdot)),),
    "cumsum": (Linear(_cumsum_adjoint),),
    "expm": (FormulaRule(lambda ybar, y, x: formula_node("expm_frechet", expm_frechet, T(x), ybar),
                         lambda xdot, y, x: formula_node("expm_frechet", expm_frechet, x, xdot)),),
    # adjoints that are simple for a trace
    "sqrtm": (FormulaRule(lambda ybar, y, x: formula_node("sqrtm_adjoint", lambda y, ybar: ybar, T(y), ybar)),),
    "logm": (FormulaRule(lambda ybar, y, x: formula_node("logm_adjoint", lambda x, ybar: ybar, T(x), ybar)),),
    "pinv": (FormulaRule(_pinv_adjoint, _pinv_differential),),
    "cholesky": (FormulaRule(lambda ybar, y, x: formula_node("cholesky_adjoint", lambda y, ybar: ybar, y, ybar),
                             _cholesky_differential),),
    "svdvals": (FormulaRule(_svdvals_adjoint, _svdvals_differential),),
    # the largest entry has slope 1, all others have slope 0
    "max": (FormulaRule(lambda ybar, y, x, axis: np.expand_dims(ybar, axis) * PEAKS(x, axis=axis),
                        lambda xdot, y, x, axis: np.sum(PEAKS(x, axis=axis) * xdot, axis=axis)),),
    "getitem": (FormulaRule(_getitem_adjoint, _getitem_differential),),
    "convolve": (Linear(lambda ybar, a, v: _correlate(ybar, v)), Linear(lambda ybar, a, v: _correlate(ybar, a))),
    "maximum": _rules_of_extreme(largest=True), "minimum": _rules_of_extreme(largest=False),
}  # fmt: skip


def rule_of(primitive: Primitive, i: int) -> Rule:
    """Return the rule of an argument for formulas, where it has one, else that for numbers."""
    own = primitive.rule(i)
    return own if isinstance(own, ShiftRule) or primitive.name not in RULES else RULES[primitive.name][i]


@dataclass(frozen=True, slots=True)
class _NamingRule:
    """A rule that stores the cotangent of its line, as that of recording `r`, and continues with a name for it."""

    rule: Rule
    name: str
    store: list[Value]
    r: int

    def pull(self, ybar: Value, i: int, y: Value, xs: Sequence[Value], params: Params, transpose: Transposer) -> Value:
        self.store[self.r] = ybar
        named = GraphNode.variable(self.name, np.asarray(getattr(ybar, "value", ybar)) + 0 * y.value)
        return self.rule.pull(named, i, y, xs, params, transpose)

    def push(self, primitive: Primitive, i: int, y: Value, xs: Sequence[Value], xdot: Value, params: Params) -> Value:
        return self.rule.push(primitive, i, y, xs, xdot, params)


def sweep_back_by_names(
    lines: Sequence[Line], one: Value, named: Mapping[int, tuple[str, list[Value]]], r: int = 0
) -> list[Value]:
    """Return the cotangents of lines by the rules for formulas, given that of the last line.

    The cotangent of a line that is `named` is stored as the r-th of its list, and the sweep goes on with its name instead.
    """
    renamed: list[Line] = []
    for k, (primitive, slots, xs, y, params, position) in enumerate(lines):
        if primitive is not None:
            rules = [rule_of(primitive, i) for i in range(len(slots))]
            if k in named:
                rules = [_NamingRule(rule, *named[k], r) for rule in rules]
            primitive = replace(primitive, rules=tuple(rules))
        renamed.append((primitive, slots, xs, y, params, position))
    bars: list[Value] = [*[None] * (len(lines) - 1), one]
    sweep_back(renamed, bars, len(lines) - 1)
    return bars


def _cotangents_by_rules(program: RecordedProgram, one: Value) -> list[Value]:
    """Return the cotangents of the inputs, by the rules for formulas."""
    rules = {
        k: {i: rule_of(primitive, i) for i in range(len(slots))}
        for k, (primitive, slots, *_) in enumerate(program.lines)
        if primitive is not None and primitive.name in RULES
    }
    return program.with_rules(rules).pull(one)


def _mark_shifts(
    program: RecordedProgram, xbars: Sequence[Value], seed: str
) -> tuple[RecordedProgram, Sequence[Value]]:
    """Return a program and its cotangents, with those of its largest entries as shifts whose own cotangent is 0."""
    for k, (primitive, *_) in enumerate(program.lines if program.moves else ()):
        if primitive is not None and primitive.name == "max":
            rule = ShiftRule()
            shifted = program.with_rules({k: {0: rule}})
            found = _seeded_cotangents(shifted, seed)
            # what reached it is 0 up to rounding, beside the cotangents of the inputs
            reached, beside = ([np.max(np.abs(_floats(v)), initial=0.0) for v in vs] for vs in (rule.cotangents, xbars))
            if max(reached, default=0.0) <= _ROUNDED * max(1.0, *beside):
                program, xbars = shifted, found
    return program, xbars


def _floats(x: Any) -> Any:
    """Return the value of a node, or a constant, as an array of floats."""
    return np.asarray(getattr(x, "value", x), dtype=float)


def _shapes_of_operands(graphs: Sequence[GraphNode], k: int = 0) -> list[tuple[int, ...]]:
    """Return the shapes of an operand in the recordings."""
    return [np.shape(getattr(g.args[k], "value", g.args[k])) for g in graphs]


def _is_float(x: Any) -> bool:
    return isinstance(x, float | np.floating) or (isinstance(x, np.ndarray) and x.dtype.kind == "f")


_MOST_ORDERS = 24
_LEAST = (3, 9)  # the smallest size; the second one is for indices beyond the first
_HUGE = 1e10  # larger values of f come from a matrix that is singular up to rounding
_INVERTING = {"inv", "solve", "det", "logdet"}

Sizes = dict[str, tuple[int, ...]]


def choose_sizes(problem: DerivationProblem) -> Sizes:
    """Return three sizes for each name, in an order of the names for which f is finite: tall matrices if it needs them."""
    tried = _possible_sizes(problem)
    return next((sizes for sizes in tried if is_finite_at_sizes(problem, sizes)), next(_possible_sizes(problem)))


def _possible_sizes(problem: DerivationProblem) -> Iterator[Sizes]:
    """Yield sizes for each name, in all orders, at which no axis is shorter than 2. Raises BadOption where there are none."""
    dims = {d for own in problem.dims.values() for d in own if not d.isdecimal()}
    tried = _sizes_in_every_order(problem.names)
    found = (s for s in tried if all(length_of(d, {n: v[0] for n, v in s.items()}) > 1 for d in dims))
    first = next(found, None)
    if first is None:
        least = {n: v[0] for n, v in list(_sizes_in_every_order(problem.names))[-1].items()}
        small = sorted(d for d in dims if length_of(d, least) < 2)
        says = f"the size {small[0]} is below 2 where all names are small"
        raise BadOption(says, do="write it as a sum: x: m+k; y: m")
    yield from itertools.chain([first], found)


def _sizes_in_every_order(names: tuple[str, ...]) -> Iterator[Sizes]:
    for least in _LEAST:
        for order in itertools.islice(itertools.permutations(names), _MOST_ORDERS):
            # the last length is quadratic in the rank, so that no two sums of two sizes are alike
            lengths = [(least + r, least + 2 + 2 * r, least + 4 + 2 * r + r * (r + 1) // 2) for r in range(len(order))]
            yield {n: lengths[order.index(n)] for n in names}


def value_as_graph(f: Callable[[Mapping[str, Any]], Any], inputs: Container[str], point: Mapping[str, Any]) -> Any:
    """Return the value of a function at a point as a graph of its inputs."""
    with np.errstate(all="ignore"):
        return f({n: GraphNode.variable(n, x) if n in inputs else x for n, x in point.items()})


def is_finite_at_sizes(problem: DerivationProblem, sizes: Mapping[str, tuple[int, ...]]) -> bool:
    for k in range(RECORDINGS):
        point = draw_point(problem, {n: v[k] for n, v in sizes.items()}, np.random.default_rng([0, k]))
        try:
            y = value_as_graph(problem.f, problem.dims, point)
        except NotStraight:
            raise
        except (np.linalg.LinAlgError, GradcliError):
            return False
        if not np.all(np.abs(_floats(y)) < _HUGE):
            return False
        if any(_is_singular(node) or _is_cut_off(node) for node in walk_nodes(y)):
            return False
    return True


_TRIANGULAR = {"cholesky", "eigvalsh", "eigenvectors"}  # functions that read one triangle of their argument


def function_of_one_triangle(tape: Tape) -> str | None:
    """Return a function that a program takes, and that reads one triangle of its argument; None if there is none."""
    names = (primitive.name for primitive, *_ in tape.lines if primitive is not None)
    return next((name for name in names if name in _TRIANGULAR), None)


def prepare_problem(problem: DerivationProblem) -> DerivationProblem:
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
    if names and any(node.op in _TRIANGULAR for node in walk_nodes(y)):
        f = OnSurfaces(f, dict.fromkeys(names, SYMMETRIC))
    return replace(problem, f=f, compared=_compared_inputs(problem, y))


def _first_value(problem: DerivationProblem) -> Any:
    """Return the value of f as a graph, at the first sizes and the first random point at which f runs; None if there are none."""
    for sizes in _possible_sizes(problem):
        first = {n: v[0] for n, v in sizes.items()}
        for moved in (None, *MOVED):
            point = draw_point(problem, first, np.random.default_rng(0), moved)
            try:
                return value_as_graph(problem.f, problem.dims, point)
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


def equality_comparisons(y: Any) -> Iterator[GraphNode]:
    """Yield the comparisons by == and != in a graph, those of numbers that are no truth values themselves."""
    for node in walk_nodes(y):
        compared = [x for x in node.args if names_of_inputs(x)] if node.op in ("equal", "not_equal") else []
        if compared and not any(map(_is_truth, compared)):
            yield node


def order_comparisons(y: Any) -> Iterator[GraphNode]:
    """Yield the comparisons by <, <=, > and >= in a graph."""
    yield from (node for node in walk_nodes(y) if node.op in ORDERS)


def has_infinity(y: Any) -> bool:
    """Whether a graph has infinity as a constant, as a mask of logits does."""
    constants = (x for node in walk_nodes(y) for x in node.args if not isinstance(x, GraphNode) or x.op == "constant")
    return any(bool(np.any(np.isinf(_floats(x)))) for x in constants)


def names_of_inputs(node: Any) -> set[str]:
    """Return the names of the inputs in a graph."""
    return {n.op.removeprefix("input ") for n in walk_nodes(node) if n.op.startswith("input ")}


def _is_truth(x: Any) -> bool:
    """Whether a node is a comparison, or a product of comparisons."""
    if not isinstance(x, GraphNode) or x.op == "constant":
        return bool(np.all(np.asarray(getattr(x, "value", x)) == 1))
    return x.op in _TRUTHS or (x.op in ("multiply", *_MOVING) and all(map(_is_truth, x.args)))


def _compared_inputs(problem: DerivationProblem, y: Any) -> dict[str, tuple[float, ...]]:
    """Return the inputs that f compares by == or !=, with numbers for the points of the proof; none where f compares several."""
    found: dict[str, set[float]] = {}
    for node in equality_comparisons(y):
        for x, other in (node.args, node.args[::-1]):
            names = names_of_inputs(x) & set(problem.dims)
            for name in names:
                found.setdefault(name, set())
            if len(names) != 1 or any(n.op in _TRUTHS for n in walk_nodes(x)):
                continue
            moving = bool(names_of_inputs(other))
            found[name] |= {float(v) for v in (() if moving else np.unique(_floats(other))[:4]) if np.isfinite(v)}
            if moving or not all(n.op in _MOVING or n.op.startswith("input ") for n in walk_nodes(x)):
                found[name] |= {*_FEW_INTEGERS}
    return {name: tuple(sorted(met)) for name, met in found.items()}


def walk_nodes(y: Any) -> Iterator[GraphNode]:
    """Yield the nodes of a graph, each once and after its operands; none of a value that is no graph."""
    done: set[int] = set()
    pending = [(y, False)]
    while pending:
        node, ready = pending.pop()
        if ready:
            yield node
        elif isinstance(node, GraphNode) and id(node) not in done:
            done.add(id(node))
            pending.append((node, True))
            pending += [(x, False) for x in reversed(node.args)]


def _is_singular(node: GraphNode) -> bool:
    """Whether a node inverts a matrix that does not have full rank, or takes its determinant."""
    if node.op not in _INVERTING:
        return False
    matrix = np.asarray(getattr(node.args[0], "value", node.args[0]))
    return not np.all(np.isfinite(matrix)) or bool(np.any(np.linalg.matrix_rank(matrix) < matrix.shape[-1]))


# Indexing, its transpose (a scatter into zeros), concatenation and cumsum as tensors; and constant arrays with names.

_NOWHERE = "an index that depends on the values, or on the sizes in this way, has no formula"
_WHOLE = "write sums and products of whole arrays, or give sizes as numbers: --shapes x:3"


class AxisPick(NamedTuple):
    """What an index does with one axis: add a `new` one, keep `all`, take one `at` a position, a `span`, or a `diagonal`."""

    kind: str
    text: str = ""


def parse_index(
    indices: Sequence[Any], shapes: Sequence[tuple[int, ...]], dim: Callable[[Sequence[int]], str] | None = None
) -> list[AxisPick]:
    """Return what an index does with each axis; `dim` names the size that a bound of a slice is.

    Raises  NotSupported unless it does the same at all sizes.
    """
    spelled = [_index_by_axis(index, len(shape)) for index, shape in zip(indices, shapes, strict=True)]
    if len({len(parts) for parts in spelled}) > 1:
        raise NotSupported(_NOWHERE, do=_WHOLE)
    found, axis = [], 0
    for here in zip(*spelled, strict=True):
        if all(p is None for p in here):
            found.append(AxisPick("new"))
            continue
        found.append(_parse_axis_index(here, [shape[axis] for shape in shapes], dim))
        axis += 1
    kinds = [p.kind for p in found]
    diagonal = [k for k, kind in enumerate(kinds) if kind == "diagonal"]
    if len(diagonal) == 1:
        found[diagonal[0]] = AxisPick("all")
    several = sum(p.text.startswith("[") for p in found)
    apart = len(diagonal) > 1 and diagonal != [diagonal[0], diagonal[0] + 1]
    if apart or several > 1 or (several and {"at", "diagonal"} & set(kinds)):
        raise NotSupported(_NOWHERE, do=_WHOLE)
    return found


def _index_by_axis(index: Any, rank: int) -> list[Any]:
    """Return an index with a part for each axis."""
    parts = list(index) if isinstance(index, tuple) else [index]
    dots = next((k for k, p in enumerate(parts) if p is Ellipsis), len(parts))
    named = sum(p is not None and p is not Ellipsis for p in parts)
    return [*parts[:dots], *[slice(None)] * (rank - named), *parts[dots + 1 :]]


def _parse_axis_index(
    here: Sequence[Any], lengths: Sequence[int], dim: Callable[[Sequence[int]], str] | None
) -> AxisPick:
    if all(isinstance(p, slice) for p in here):
        return _parse_slice(here, lengths, dim)
    arrays = [np.asarray(p) for p in here]
    if any(a.dtype.kind not in "iu" or a.ndim > 1 for a in arrays):
        raise NotSupported(_NOWHERE, do=_WHOLE)
    if arrays[0].ndim == 0:
        return AxisPick("at", common_position([int(a) for a in arrays], lengths))
    if all(np.array_equal(a, np.arange(n)) for a, n in zip(arrays, lengths, strict=True)):
        return AxisPick("diagonal")
    if any(not np.array_equal(a, arrays[0]) for a in arrays):
        if (turn := _roll_of_index(arrays, lengths)) is None:
            raise NotSupported(_NOWHERE, do=_WHOLE)
        return AxisPick("span", roll_span(turn))
    return AxisPick("span", str([int(k) for k in arrays[0]]))


def _roll_of_index(arrays: Sequence[Any], lengths: Sequence[int]) -> int | None:
    """Return by how many positions an index rolls an axis, at all sizes; None for any other index."""
    pairs = list(zip(arrays, lengths, strict=True))
    if any(len(a) != n or not np.array_equal(a, np.roll(np.arange(n), -a[0])) for a, n in pairs):
        return None
    first = int(arrays[0][0])
    return next((k for k in (-first, lengths[0] - first) if all(a[0] == -k % n for a, n in pairs)), None)


def _parse_slice(here: Sequence[slice], lengths: Sequence[int], dim: Callable[[Sequence[int]], str] | None) -> AxisPick:
    """Return what a slice does. Raises NotSupported if it is cut off at one size, and would be longer at a larger one."""
    exact = [s.indices(n) for s, n in zip(here, lengths, strict=True)]
    steps = {step for _, _, step in exact}
    step = steps.pop()
    if steps or any(abs(b or 0) > n for s, n in zip(here, lengths, strict=True) for b in (s.start, s.stop)):
        raise NotSupported(_NOWHERE, do=_WHOLE)
    firsts, lasts = ([0 if step > 0 else n - 1 for n in lengths], [n if step > 0 else -1 for n in lengths])
    starts, stops = ([a for a, _, _ in exact], [b for _, b, _ in exact])
    start = "" if starts == firsts else common_position(starts, lengths, dim)
    stop = "" if stops == lasts else common_position(stops, lengths, dim)
    if (start, stop, step) == ("", "", 1):
        return AxisPick("all")
    return AxisPick("span", f"{start}:{stop}" + (f":{step}" if step != 1 else ""))


def common_position(
    places: Sequence[int], lengths: Sequence[int], dim: Callable[[Sequence[int]], str] | None = None
) -> str:
    """Return a position that is the same at all sizes, counted from the start or from the end, or a size by its name.

    Raises  NotSupported if there is none.
    """
    from_end = {k if k < 0 else k - n for k, n in zip(places, lengths, strict=True)}
    from_start = {k + n if k < 0 else k for k, n in zip(places, lengths, strict=True)}
    for found in (from_start, from_end):
        if len(found) == 1:
            return str(found.pop())
    if dim is None or min(places) < 0:
        raise NotSupported(_NOWHERE, do=_WHOLE)
    return dim(places)


def _getitem(reader: Sized, xs: list[Indexed], params: list[Any], graphs: Sequence[GraphNode]) -> Indexed:
    sorts = (is_sorting_index(p["index"], g.args[0]) for p, g in zip(params, graphs, strict=True))
    if len(xs[0].axes) == 1 and all(sorts):
        return opaque_function("sort", xs, [reader.dim([g.shape[0] for g in graphs])])
    wanted = parse_index([p["index"] for p in params], _shapes_of_operands(graphs), reader.dim)
    after = iter(reader.axes([g.shape for g in graphs]))
    own, tensor = iter(xs[0].axes), xs[0].tensor
    axes: list[Axis] = []
    diagonal: list[Axis] = []  # its first axis, once that is met
    for pick in wanted:
        if pick.kind == "new":
            axes.append(next(after))
            continue
        i = next(own)
        if pick.kind == "at":
            if (place := single_index(i)) is not None:
                tensor = sum_over(multiply(tensor, _unit_vector(place, int(pick.text))), [place])
        elif pick.kind == "diagonal" and diagonal:
            tensor = tensor.renamed(match_indices([i], diagonal))
            tensor = Tensor(tuple(dict.fromkeys(tensor.free)), tensor.terms)
        elif pick.kind == "span":
            axes.append(next(after))
            tensor = _cut_axis(tensor, i, axes[-1], pick.text)
        else:
            next(after)
            axes.append(i)
            diagonal += [i] if pick.kind == "diagonal" else []
    return value_with_axes(axes, tensor)


def _read_sorted(reader: Sized, xs: list[Indexed], params: list[Any], graphs: Sequence[GraphNode]) -> Indexed:
    """Return 1 where an entry of x is at a place of sort(x), summed with a vector over the places, or over the entries."""
    place, entry = (fresh_index(i.dim) for i in indices_of_axes(*xs[0].axes) * 2)
    whole = opaque_function("sort", xs[:1], [place.dim])
    x = xs[0].tensor.renamed({indices_of_axes(*xs[0].axes)[0]: entry})
    placed = whole.tensor.renamed({indices_of_axes(*whole.axes)[0]: place})
    kept, summed = (entry, place) if graphs[0].op == "unsorted" else (place, entry)
    same = apply_function("equal", [x, placed], (entry, place))
    along = with_fresh_indices(xs[1])
    v = along.tensor.renamed({indices_of_axes(*along.axes)[0]: summed})
    return value_with_axes([kept], sum_over(multiply(same, v), [summed]))


def _cut_axis(x: Tensor, axis: Axis, after: Axis, span: str) -> Tensor:
    """Return the span of a tensor along an axis; a span of length 1 has no index."""
    i, new = single_index(axis), single_index(after)
    if i is None:
        return x
    if new is None:
        return sum_over(multiply(x, _unit_vector(i, _position_of_span(span))), [i])
    return cut_span(x, i, new, span)


def _unit_vector(i: Index, place: int) -> Tensor:
    return tensor_of_atom(unit_vector(i.dim, place), (i,))


def _position_of_span(span: str) -> int:
    """Return the one position of a span of length 1."""
    if span.startswith("["):
        return int(span[1:-1])
    return int(span.partition(":")[0] or ("-1" if span.endswith(":-1") else "0"))


def _scatter(reader: Sized, xs: list[Indexed], params: list[Any], graphs: Sequence[GraphNode]) -> Indexed:
    """Return the transpose of taking a part: the part in its place, and zeros around it."""
    wanted = parse_index([p["index"] for p in params], [p["into"] for p in params], reader.dim)
    into = reader.axes([p["into"] for p in params])
    if len(into) == 1 and len(xs[0].axes) == 1 and (padded := _pad_vector(xs[0], wanted[-1].text, into[0])) is not None:
        return padded
    own, to, tensor = iter(xs[0].axes), iter(into), xs[0].tensor
    axes: list[Axis] = []
    diagonal: list[Axis] = []  # its first axis, once that is met
    for pick in wanted:
        if pick.kind == "new":
            next(own)
            continue
        j = next(to)
        if pick.kind == "at":
            place = single_index(j)
            tensor = tensor if place is None else multiply(tensor, _unit_vector(place, int(pick.text)))
        elif pick.kind == "diagonal" and diagonal:
            for one, other in zip(indices_of_axes(*diagonal), indices_of_axes(j), strict=True):
                tensor = multiply(tensor, tensor_of_atom(identity(one.dim), (one, other)))
        elif pick.kind == "span" and j is not None:
            tensor = _place_among_zeros(tensor, next(own), j, pick.text)
        else:
            j = next(own)
            diagonal += [j] if pick.kind == "diagonal" else []
        axes.append(j)
    return value_with_axes(axes, tensor)


def _place_among_zeros(x: Tensor, axis: Axis, into: Axis, span: str) -> Tensor:
    i, j = single_index(axis), single_index(into)
    assert j is not None
    if i is None:
        return multiply(x, _unit_vector(j, _position_of_span(span)))
    back = inverse_span(span, j.dim)
    picks = selection_matrix(span, i, j) if back is None else selection_matrix(back, j, i)
    return sum_over(multiply(x, picks), [i])


def _pad_vector(x: Indexed, span: str, into: Axis) -> Indexed | None:
    """Return a vector padded with zeros, if the numbers of zeros before and after are known; else None."""
    i, j = single_index(x.axes[0]), single_index(into)
    start, colon, stop = span.partition(":")
    if i is None or j is None or not colon or ":" in stop or not (start or "0").isdecimal():
        return None
    if stop and not stop.startswith("-") and not j.dim.isdecimal():
        return None
    inner = x.tensor.renamed({i: slot(0, i.dim)})
    atom = Atom("pad", span, (inner,), (j.dim,), axes=(0,))
    new = fresh_index(j.dim)
    return Indexed((new,), tensor_of_atom(atom, (new,)))


def _concatenate(reader: Sized, xs: list[Indexed], params: list[Any], graphs: Sequence[GraphNode]) -> Indexed:
    """Return a concatenation as a sum of padded parts."""
    k = params[0]["axis"]
    if len(xs) == 1:
        return xs[0]
    into = reader.axes([g.shape for g in graphs])
    spans = _spans_of_parts(reader, [[own[k] for own in _shapes_of_operands(graphs, n)] for n in range(len(xs))])
    full = [(x, span) for x, span in zip(xs, spans, strict=True) if x.tensor.terms]
    if len(full) == 1 and len(into) == 1 and (padded := _pad_vector(full[0][0], full[0][1], into[0])) is not None:
        return padded
    j = into[k]
    axes = [j if n == k else i for n, i in enumerate(into)]
    parts = []
    for x, span in full:
        others = [(mine, to) for n, (mine, to) in enumerate(zip(x.axes, axes, strict=True)) if n != k]
        i = x.axes[k]
        new = fresh_axis_like(i)
        names = match_indices([i, *(mine for mine, _ in others)], [new, *(to for _, to in others)])
        parts.append(_place_among_zeros(x.tensor.renamed(names), new, j, span))
    return value_with_axes(axes, add(parts, indices_of_axes(*axes)) if parts else Tensor((), ()))


def _spans_of_parts(reader: Sized, lengths: Sequence[Sequence[int]]) -> list[str]:
    """Return the spans of concatenated parts; behind the last length that is no number they are counted from the end."""
    moving = [k for k, n in enumerate(lengths) if len(set(n)) > 1]
    last = moving[-1] if moving else len(lengths)
    found, start = [], FIRST
    for k, n in enumerate(lengths[:last], 1):
        own = parse_position(reader.dim(n))
        stop = Position((*start.names, *own.names), start.number + own.number)
        found.append(f"{start.text() if start != FIRST else ''}:{stop.text() if k < len(lengths) else ''}")
        start = stop
    rest = [n[0] for n in lengths[last + 1 :]]
    if moving:
        found.append(f"{start.text() if start != FIRST else ''}:{-sum(rest) or ''}")
    for k, length in enumerate(rest):
        after = sum(rest[k + 1 :])
        found.append(f"-{length + after}:{-after or ''}")
    return found


def _cumsum(reader: Sized, xs: list[Indexed], params: list[Any], graphs: Sequence[GraphNode]) -> Indexed:
    """Return running sums, as the product with a triangle of ones."""
    k = params[0]["axis"]
    i = single_index(xs[0].axes[k])
    if i is None:
        return xs[0]
    new = fresh_index(i.dim)
    whole = sum_over(multiply(xs[0].tensor, tensor_of_atom(triangle_of_ones((i.dim, i.dim), 0), (new, i))), [i])
    return value_with_axes([new if n == k else a for n, a in enumerate(xs[0].axes)], whole)


def _put(reader: Sized, xs: list[Indexed], params: list[Any], graphs: Sequence[GraphNode]) -> Indexed:
    """Return an array after an assignment to all of it, or of a number at the places of a mask. Raises NotSupported."""
    axes = xs[0].axes
    if all(p["index"] is Ellipsis for p in params):
        return value_with_axes(axes, Tensor(indices_of_axes(*axes), align_to_axes(xs[1], axes).terms))
    masks = [np.asarray(p["index"]) for p in params]
    if any(m.dtype != bool or m.shape != g.shape for m, g in zip(masks, graphs, strict=True)) or xs[1].axes:
        raise NotSupported("an assignment to a part of an array has no formula", do="write where(mask, value, x)")
    mask = reader.constant([m.astype(float) for m in masks])
    there = mask.tensor.renamed(match_indices(mask.axes, axes))
    rest = complement_of_triangle(there) or add([scalar(Fraction(1)), scale_tensor(there, -1)], there.free)
    parts = [multiply(rest, xs[0].tensor), multiply(there, xs[1].tensor)]
    return value_with_axes(axes, add(parts, indices_of_axes(*axes)))


INDEXING: dict[str, Callable[[Sized, list[Indexed], list[Any], Sequence[GraphNode]], Indexed]] = {
    "getitem": _getitem, "scatter": _scatter, "cumsum": _cumsum, "concatenate": _concatenate, "put": _put,
    "unsorted": _read_sorted, "sorted along": _read_sorted,
}  # fmt: skip


_DIAGONALS = range(-3, 4)  # at which a triangle of ones may end, to be recognised


def name_constant_array(at: Sequence[Index], arrays: Sequence[Any]) -> tuple[Tensor, list[float]] | None:
    """Return a constant array as one with a name, and the number before it at each size; None if it has no name."""
    numbers = [float(x.flat[np.argmax(np.abs(x))]) if x.size else 0.0 for x in arrays]
    if not all(numbers):
        return None
    ones = [x / c for x, c in zip(arrays, numbers, strict=True)]
    if any(not np.all((x == 0) | (x == 1)) for x in ones):
        return None
    found = next(_match_matrix(at, ones), None) if len(at) == 2 else None
    if len(at) == 1 and all(np.sum(x) == 1 for x in ones):
        with suppress(NotSupported):
            place = common_position([int(np.argmax(x)) for x in ones], [len(x) for x in ones])
            found = _unit_vector(at[0], int(place))
    return None if found is None else (found, numbers)


def _match_matrix(at: Sequence[Index], ones: Sequence[Any]) -> Iterator[Tensor]:
    if at[0].dim == at[1].dim and all(np.array_equal(x, np.eye(len(x))) for x in ones):
        yield tensor_of_atom(identity(at[0].dim), at)
    for order in ((0, 1), (1, 0)):
        new, old = (at[n] for n in order)
        turned = [np.transpose(x, order) for x in ones]
        yield from _match_selected_rows(new, old, turned)
        for k in _DIAGONALS:
            if all(np.array_equal(x, np.tri(x.shape[0], x.shape[1], k)) for x in turned):
                yield tensor_of_atom(triangle_of_ones((new.dim, old.dim), k), (new, old))


def _match_selected_rows(new: Index, old: Index, ones: Sequence[Any]) -> Iterator[Tensor]:
    """Yield the matrix that selects rows of the identity: a slice of them, or a list."""
    if any(not np.all(np.sum(x, axis=1) == 1) for x in ones):
        return
    places = [np.argmax(x, axis=1) for x in ones]
    step = int(places[0][1] - places[0][0]) if len(places[0]) > 1 else 1
    spans = [slice(int(p[0]), int(p[-1]) + step if int(p[-1]) + step >= 0 else None, step) for p in places if step]
    lengths = [x.shape[1:] for x in ones]
    pairs = zip(lengths, spans, places, strict=False)
    fits = len(spans) == len(ones) and all(np.array_equal(np.arange(n)[s], p) for (n,), s, p in pairs)
    for wanted in (spans, places) if fits else (places,):
        with suppress(NotSupported):
            (pick,) = parse_index(wanted, lengths)
            if pick.kind == "span":
                yield selection_matrix(pick.text, new, old)


def _is_cut_off(node: GraphNode) -> bool:
    """Whether a node takes a slice that ends beyond the array, and so would take more of a larger one."""
    if node.op != "getitem":
        return False
    try:
        parse_index([node.params["index"]], _shapes_of_operands([node]))
    except NotSupported:
        return True
    return False
