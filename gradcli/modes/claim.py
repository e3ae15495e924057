"""The user's own gradient as a mode."""

import contextlib
import copy
import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import field, replace
from typing import Any, Protocol

import numpy as np

from gradcli.classes import dataclass
from gradcli.errors import BadClaim, BadShape, FunctionFailed, Place, Undecided
from gradcli.modes.bounds import SAFETY, hardly_rounds_with_inputs, infinite_errors, input_rounding, typical_errors
from gradcli.modes.mode import Available, Question
from gradcli.modes.recording import MOST_JACOBIAN
from gradcli.modes.rounding import EPS
from gradcli.request.point import Array, Estimate, EstimateCost, Witness
from gradcli.request.target_text import normalise_name
from gradcli.targets.draws import NO_SIZES, Sizes
from gradcli.targets.expression import Compiler
from gradcli.targets.instructions import Instructions
from gradcli.targets.nesting import ContainerNode, Leaf, Node, paths_of_leaves, take_apart
from gradcli.targets.python import PythonFunction, signature_of
from gradcli.targets.tokens import shared_and_parts
from gradcli.tracing.primitive import Value
from gradcli.tracing.shapes import largest_finite, map_in_blocks, redefines_arithmetic, shape, size, split_like

Matcher = Callable[[Any], dict[str, Any]]


GRANT = 1000.0  # rounding radii granted to a claim, whose algorithm is unknown
GRANT_SOLVER = 10.0  # times the change of a difference quotient by smaller tolerances of the solvers in f
GRANT_NARROW = 20.0  # ulps granted to a gradient in a narrow format whose program is unknown
TYPICAL = 6.0  # typical errors granted to a claim in a narrow format; right ones were off by 2.4 at most
GRANT_INPUTS = 8.0  # roundings of the inputs, which a right claim may be off by whatever its algorithm
_LITTLE = 1e-3  # of the largest entry: larger errors come from no rounding of inputs that leaves a gradient
_NO_BIT = 0.5  # of the largest entry: float64 keeps no bit of what is computed of other inputs if it loses more
GRANT_ESTIMATED = GRANT / SAFETY  # the same, if the radius is an estimate that has its own safety factor


@dataclass(frozen=True, slots=True)
class ClaimFormat:
    """The number format that a claim is computed in; by default float64.

    `coarseness` is how much larger one rounding is than in float64. `typical(values)` returns the typical error of each
    entry of the gradient if the function's own formula is computed in this format, by input; None if it is not known.

    Error   of `typical`: the root mean square of some runs with random roundings.
    """

    coarseness: Callable[[], float] = lambda: 1.0
    typical: Callable[[Mapping[str, Value]], dict[str, Array] | None] = lambda values: None


FLOAT64 = ClaimFormat()


class Claimed(Protocol):
    """A claimed gradient: its text, the inputs it is claimed for, and its value at a point.

    `place` is the line of the user's code that defines it, None for an expression and where it is not known.
    """

    text: str
    place: Place | None
    precision: ClaimFormat

    @property
    def names(self) -> tuple[str, ...]:
        """The inputs whose gradient is claimed."""

    @property
    def mutates(self) -> bool:
        """Whether it writes into the inputs it is given."""

    def __call__(self, values: Mapping[str, Value]) -> dict[str, Array]:
        """Return the claimed gradient for each of these inputs."""


MAY_BE_TRANSPOSED = "; it may be transposed"  # what is said of the shape where the entries are not known


class WrongShape(BadClaim):
    """A claimed gradient of the wrong shape: it is wrong, whatever its numbers.

    `name` is the input, and `claimed` the value that was claimed for it, if these are known. `diagonal` is the claim by
    input, if it has the shape of the diagonal of the Jacobian or Hessian.
    """

    kind = "shape"

    def __init__(
        self, what: str, name: str = "", claimed: Array | None = None, diagonal: Mapping[str, Array] | None = None
    ) -> None:
        super().__init__(what)
        self.name = name
        self.claimed = claimed
        self.diagonal = diagonal


class ClaimedExpressions:
    """A claim written as `x=2*x, y=1`, with shared statements first, or as one bare expression; it may use named sizes.

    Raises  BadClaim for an empty string, an input that is claimed twice or not differentiated, and a shared name that
            looks like a claim; BadExpression, TooLarge.
    """

    mutates = False
    precision = FLOAT64
    place: Place | None = None
    diagonal: frozenset[str] = frozenset()  # inputs whose claim is the diagonal of a Jacobian

    def __init__(
        self, text: str, wrt: tuple[str, ...], given: frozenset[str] = frozenset(), sizes: Sizes = NO_SIZES
    ) -> None:
        self.text = text
        self.sizes = {name: np.float64(n) for name, n in sizes.items()}
        given = given | frozenset(sizes)
        self.programs: dict[str, Instructions] = {}
        self.excluded: set[str] = set()
        shared, pieces = shared_and_parts(text)
        if not pieces:
            raise BadClaim("the claimed gradient is empty", do='write --grad "x=2*x, y=1"')
        for piece in pieces:
            if piece.name is None and (len(wrt) != 1 or len(pieces) != 1):
                raise BadClaim(
                    "a claim for several inputs names each of them",
                    do='write --grad "' + ", ".join(f"{name}=..." for name in wrt) + '"',
                )
            name = wrt[0] if piece.name is None else normalise_name(piece.name.text)
            if name in self.programs or name in self.excluded:
                raise BadClaim(f"the gradient of {name} is claimed twice", where=piece.span(0, 1), do="leave one out")
            if piece.source == "None":
                self.excluded.add(name)
                continue
            compiler = Compiler(given)
            for statement in (*shared, piece):
                compiler.add(statement)
            self.programs[name] = compiler.program
        for statement in shared:  # as in `x=2*x; y=1`: the gradient of x would go unchecked
            if statement.name is not None and normalise_name(statement.name.text) in set(wrt) - set(self.programs):
                name = statement.name.text
                raise BadClaim(
                    f"'{name} = ...;' names a shared value, and the gradient of {name} is not claimed",
                    where=statement.span(0, 1),
                    do="separate the gradients of inputs by commas: x=..., y=...",
                )
        if not self.programs:
            raise BadClaim("the claim names no input", do='write --grad "x=2*x, y=1"')
        strangers = set(self.programs) - set(wrt)
        if strangers:
            raise BadClaim(
                f"the claim names {', '.join(sorted(strangers))}, which is not differentiated",
                do=f"differentiated: {', '.join(wrt)} (--wrt chooses)",
            )

    @property
    def names(self) -> tuple[str, ...]:
        """The inputs whose gradient is claimed."""
        return tuple(self.programs)

    def inputs(self) -> set[str]:
        """The names the claim uses."""
        return {name for program in self.programs.values() for name in program.inputs}

    def __call__(self, values: Mapping[str, Value]) -> dict[str, Array]:
        """Return the claimed gradient for each input it names."""
        found = {}
        values = {**self.sizes, **values}
        for name, program in self.programs.items():
            missing = set(program.inputs) - set(values)
            if missing:
                raise BadClaim(
                    f"the claim uses {', '.join(sorted(missing))}, which is not an input of the function",
                    do='use the inputs\' names, and those of sizes: --shapes "x: n"',
                )
            with np.errstate(all="ignore"):
                try:
                    found[name] = np.asarray(program.survey(values)[0], dtype=float)[()]
                except BadShape as error:
                    raise BadClaim(
                        f"in the claim for {name}, {error.what}", where=error.where, do="check the claim"
                    ) from None
        return expand_diagonals(found, self.diagonal)


class Claim:
    """The user's claimed gradient. Its algorithm is unknown, so it is granted many times the rounding error of ours."""

    name = "claim"
    rests_on = frozenset({Witness.USER})

    def __init__(self, claimed: Claimed) -> None:
        self.claimed = claimed

    def available(self) -> Available:
        return Available()

    def gradient(self, q: Question) -> Estimate:
        """Return the claimed gradient with the rounding error that it is granted.

        Raises  WrongShape: a claim is never broadcast, but a Jacobian may be flat. BadClaim.
        """
        given = self.claimed(q.point.values)
        value = reshape_claims(given, q)
        notes = tuple(
            f"the claimed gradient of {name} has shape {shape(given[name])}: taken as {shape(x)}"
            for name, x in value.items()
            if shape(x) != shape(given[name])
        )
        coarse = self.claimed.precision.coarseness()
        if coarse > 1.0 and not q.untraced:
            try:
                typical = self.claimed.precision.typical(q.point.values) or typical_errors(q, coarse)
            except Undecided:
                typical = infinite_errors(q)
            typical = {name: np.broadcast_to(typical[name], shape(x)) for name, x in value.items()}
            bound = {name: TYPICAL * typical[name] + EPS * coarse * np.abs(x) for name, x in value.items()}
            return Estimate(value, bound, narrow=True, typical=typical, notes=notes)
        known = None if q.untraced else q.rounding_of_textbook
        grant = GRANT if known is None or known.proved else GRANT_ESTIMATED
        if coarse != 1.0:
            grant = GRANT_NARROW * coarse

        def granted(slope: Array, error: Array) -> Array:
            return grant * error + 4 * coarse * EPS * np.abs(slope)

        terms = 4.0 if coarse > 1.0 else 0.0  # roundings of the largest entry, whose terms cancel in smaller ones
        bound = {
            name: EPS * ((grant + 4 * coarse) * np.abs(x) + terms * coarse * largest_finite(x))
            if known is None
            else np.asarray(map_in_blocks(granted, np.float64, x, known.errors[name]))[()]
            for name, x in value.items()
        }
        if not q.untraced and q.solvers:
            bound = {name: b + q.solver_error[name] for name, b in bound.items()}
        return Estimate(value, bound, narrow=coarse > 1.0, cost=EstimateCost(evaluations=0), notes=notes)


def expand_diagonals(claimed: dict[str, Any], diagonal: frozenset[str]) -> dict[str, Any]:
    """Return a claim with the zeros beside the diagonals of some inputs' Jacobians."""
    return {n: np.reshape(np.diag(np.ravel(x)), shape(x) * 2) if n in diagonal else x for n, x in claimed.items()}


def grant_input_rounding(claim: Estimate, right: Estimate, q: Question) -> tuple[Estimate, dict[str, Array]]:
    """Return a claim with the rounding of the inputs granted, if it needs that, and how far off it would be granted.

    Inputs that are not differentiated, and constants, with which Python code computes in float64, are looked at where the
    claim still differs, by no more than they may explain; a note says so where they do.

    Cost    nothing where an entry differs by more than a part of the largest one, or where a claim of very many entries
            needs no such grant.
    """
    if q.untraced is not None or claim.narrow or not q.affords_slopes:
        return claim, {}
    with np.errstate(all="ignore"):
        apart = {name: np.abs(np.asarray(x) - right.value[name]) for name, x in claim.value.items()}
        top = max((largest_finite(right.value[name]) for name in apart), default=0.0)

        def is_within(room: Mapping[str, Array]) -> bool:
            return all(np.all(x <= room[name] + right.bound[name]) for name, x in apart.items())

        holds, granted = is_within(claim.bound), dict[str, Array]()
        if all(np.all(x <= _LITTLE * top) for x in apart.values()):
            granted = _allowance_for_inputs(claim, right, q, holds)
        if not holds and not (granted and is_within(granted)):
            if top > 0 and not all(np.all(x <= _NO_BIT * top) for x in apart.values()):
                return claim, {}
            rounding = q.rounding_with_other_inputs
            if rounding is not None:
                granted = {name: np.fmax(granted.get(name, 0.0), GRANT_INPUTS * rounding[name]) for name in apart}
                if is_within(granted):
                    claim = replace(claim, notes=(*claim.notes, _describe_lost_digits(rounding, right)))
        if holds or not granted:
            return claim, granted
        return replace(claim, bound={n: np.fmax(b, granted[n])[()] for n, b in claim.bound.items()}), granted


def _describe_lost_digits(rounding: Mapping[str, Array], right: Estimate) -> str:
    """Return in words how far off the reference may be, by what f computes with numbers that are not differentiated."""
    sizes = ((rounding[name], np.abs(right.value[name])) for name in rounding)
    most = max(float(np.max(np.divide(r, y, out=np.zeros(np.shape(r)), where=y > 0), initial=0.0)) for r, y in sizes)
    return (
        "f computes with numbers that are not differentiated, and float64 loses digits there: the gradient of the exact "
        f"formula may differ from the reference by {most:.0e} (relative)"
    )


def _allowance_for_inputs(claim: Estimate, right: Estimate, q: Question, holds: bool) -> dict[str, Array]:
    """Return how far off each entry may be, as the inputs are rounded; empty if that is unknown, or of no use."""
    if holds and q.drops_values:
        return {}
    sizes = {name: np.abs(right.value[name]) for name in claim.value}
    limit = max(np.max(np.where(y > 0, claim.bound[name] / y, 0.0), initial=0.0) for name, y in sizes.items())
    if holds and hardly_rounds_with_inputs(q, {name: limit / GRANT_INPUTS * y for name, y in sizes.items()}):
        return {}
    rounding = input_rounding(q)
    return {} if rounding is None else {name: GRANT_INPUTS * rounding[name] for name in claim.value}


def reshape_claims(claimed: Mapping[str, Array], q: Question) -> dict[str, Array]:
    """Return a claimed gradient in the shapes of the Jacobian. Raises WrongShape, which names the input that a lone part fits."""
    at = q.point.values
    try:
        return {name: reshape_claim(name, x, shape(q.value), shape(at[name])) for name, x in claimed.items()}
    except WrongShape as wrong:
        given = np.shape(np.asarray(wrong.claimed))
        fits = [name for name, x in at.items() if given == shape(q.value) + np.shape(x)]
        if len(claimed) > 1 or not fits:
            raise
        raise WrongShape(
            f"{wrong.what}; it fits {fits[0]}: --wrt {fits[0]}", wrong.name, wrong.claimed, wrong.diagonal
        ) from None


def reshape_claim(name: str, x: Array, outputs: tuple[int, ...], inputs: tuple[int, ...]) -> Array:
    """Return a claimed Jacobian in its proper shape, which some other shapes imply without ambiguity.

    Shapes  the result is `outputs + inputs`. If the output is an array, x may also be flat, (entries of the output, entries
            of the input), lack all axes of length 1, or have the shape of the input or of the output where the other
            has one entry.
    Raises  WrongShape for other shapes.
    """
    rows, columns = math.prod(outputs), math.prod(inputs)
    squeezed = tuple(n for n in outputs + inputs if n != 1)
    others = [(rows, columns), squeezed, *([inputs] if rows == 1 else []), *([outputs] if columns == 1 else [])]
    if shape(x) not in (outputs + inputs, *(others if outputs else [])):
        turned = MAY_BE_TRANSPOSED if shape(x) == (outputs + inputs)[::-1] else ""
        says = f"the claimed gradient of {name} has shape {shape(x)}; the right one has shape {outputs + inputs}"
        raise WrongShape(says + turned, name, x, {name: x} if outputs == inputs == shape(x) else None)
    return np.reshape(x, outputs + inputs)[()]


# Claims made by the user's code: match what a gradient function returns to the inputs that are differentiated.


class ClaimedFunction:
    """A claim that is computed: `compute(values)` calls the user's code, and `match` assigns its result to the inputs.

    Raises  BadClaim if the user's code raises an error, or returns no gradient.
    """

    for_first: bool  # whether it is one value, for the first input only, as in scipy and jax
    declines: bool  # whether it returns None for an input
    place: Place | None = None
    diagonal: frozenset[str] = frozenset()  # inputs whose claim is the diagonal of a Jacobian

    def __init__(
        self,
        text: str,
        compute: Callable[[Mapping[str, Value]], Any],
        match: Matcher,
        at: Mapping[str, Any],
        precision: ClaimFormat = FLOAT64,
    ) -> None:
        self.text = text
        self.precision = precision
        self.compute = compute
        self._match = match
        self._first: tuple[Mapping[str, Any], dict[str, Any]] | None = None
        self.names: tuple[str, ...] = ()
        self.for_first = self.declines = False
        try:
            self._first = (at, self(at))
        except WrongShape:
            return  # wrong for all inputs: the comparison will report it
        self.names = tuple(self._first[1])
        if not self.names:
            raise BadClaim(f"{text} returns no gradient", do="does it lack a return statement?")

    @property
    def mutates(self) -> bool:
        """Whether the user's code writes into the inputs it is given."""
        return isinstance(self.compute, Called) and self.compute.function.copies

    def __call__(self, values: Mapping[str, Value]) -> dict[str, Any]:
        """Return the claimed gradient for each input it is claimed for. Raises BadClaim, WrongShape if it is no gradient."""
        if self._first is not None and values is self._first[0]:
            return expand_diagonals(self._first[1], self.diagonal)
        try:
            with np.errstate(all="ignore"):
                found = self.compute(values)
        except FunctionFailed as error:
            do = error.do or (self.compute.advice if isinstance(self.compute, Called) else None)
            raise BadClaim(error.what, where=error.where, do=do) from error
        parts = list(found.values()) if isinstance(found, dict) else found
        parameters = {path.partition(".")[0].partition("[")[0] for path in values} | set(values)
        by_input = isinstance(found, dict) and set(map(str, found)) <= parameters
        self.for_first = not isinstance(found, tuple | list) and not by_input
        self.declines = isinstance(parts, tuple | list) and any(part is None for part in parts)
        return expand_diagonals(self._match(found), self.diagonal)

    @property
    def in_another_order(self) -> Callable[[], AbstractContextManager[None]] | None:
        """For an engine's gradients, a context in which sets go through its objects the other way; else None."""
        function = self.compute.function.function if isinstance(self.compute, Called) else None
        return getattr(function, "in_another_order", None)

    def after(self, call: Callable[[Mapping[str, Value]], Any]) -> "ClaimedFunction":
        """Return the same claim, for which `call` is called right before it at the same point."""
        other, compute = copy.copy(self), self.compute

        def in_turn(values: Mapping[str, Value]) -> Any:
            call(values)
            return compute(values)

        other.compute = replace(compute, before=call) if isinstance(compute, Called) else in_turn
        other._first = None
        return other


@dataclass(frozen=True, slots=True)
class Called:
    """The user's claim as a function of the point; the `fixed` arguments are the same at every point.

    A claim that reads what another function kept has that function called right `before` it, at the same point. `advice`
    is what to do where it fails.
    """

    function: PythonFunction
    fixed: Mapping[str, Any] = field(default_factory=dict)
    before: Callable[[Mapping[str, Value]], Any] | None = None
    advice: str | None = None

    def __call__(self, values: Mapping[str, Value]) -> Any:
        if self.before is not None:
            self.before(values)
        return self.function.returned({**values, **self.fixed})


def prepare_claim(claim: Callable[..., Any], text: str, arguments: Mapping[str, Node], *more: Any) -> Called:
    """Return the user's claim, prepared to be called at a point.

    It gets f's arguments by name if its parameters have these names, else by position, followed by `more`.

    Raises  BadClaim for an object that is not callable.
    """
    if not callable(claim):
        raise BadClaim(f"{text} is not a function", do="name a function that takes the same arguments")
    signature = signature_of(claim)
    parameters = list(signature.parameters.values()) if signature else []
    names = {p.name for p in parameters if p.kind is not p.POSITIONAL_ONLY}
    required = {p.name for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}
    kinds = {p.kind for p in parameters}
    passes_on = inspect.Parameter.VAR_POSITIONAL in kinds and not names & set(arguments)  # all that it gets, in order
    everything = inspect.Parameter.VAR_KEYWORD in kinds and not passes_on
    spread = inspect.Parameter.VAR_POSITIONAL in kinds and not everything and bool(set(arguments) - names)
    if not more and not spread and required <= set(arguments) and (names & set(arguments) or everything):
        nodes = {name: node for name, node in arguments.items() if name in names or everything}
        return Called(PythonFunction(claim, text, nodes, ()))
    left_over = sorted(required - set(arguments))
    if len(more) == len(left_over) == 1 and len(required) > 1:  # the vector has its own name, in any position
        nodes = {name: node for name, node in arguments.items() if name in names}
        with_vector = PythonFunction(claim, text, nodes | {left_over[0]: Leaf("the vector")}, ())
        return Called(with_vector, {"the vector": more[0]})
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    takes_all = not parameters or any(p.kind is p.VAR_POSITIONAL for p in parameters)
    count = len(arguments) if takes_all else max(0, len(positional) - len(more))
    chosen: dict[str, Node] = {f"argument {k}": node for k, node in enumerate(list(arguments.values())[:count])}
    extra = {f"extra {k}": x for k, x in enumerate(more)}
    by_position = PythonFunction(lambda *xs: claim(*xs), text, chosen | {key: Leaf(key) for key in extra}, ())
    advice = f"if it is a backward pass, which takes a cotangent or a cache: --backward {text}"
    return Called(by_position, extra, advice=advice if left_over and not more else None)


def make_claim_matcher(arguments: Mapping[str, Node], wrt: Sequence[str], *, chosen: bool) -> Matcher:
    """Return a function that assigns a returned gradient to the inputs `wrt`. It raises BadClaim and WrongShape.

    A dict is keyed by parameter or by path; a tuple follows the order of the parameters. One array is for the only
    differentiated parameter or, unless the user has `chosen` inputs, for the first. None means not differentiated.
    """
    float_paths = {name: [path for path in paths_of_leaves(node) if path in wrt] for name, node in arguments.items()}
    parameters = [name for name, found in float_paths.items() if found]
    names = {*arguments, *wrt}
    left_out = {path for node in arguments.values() for path in paths_of_leaves(node)} - names

    def gradients(parts: Iterable[tuple[str, Any]]) -> dict[str, Any]:
        each = (_gradients_of_parameter(name, x, arguments.get(name, Leaf(name)), wrt) for name, x in parts)
        return {path: x for found in each for path, x in found.items()}

    def match(found: Any) -> dict[str, Any]:
        found = _gather_star_arguments(found, [arguments[name] for name in parameters])
        if chosen and isinstance(found, dict):
            found = {name: x for name, x in found.items() if str(name) not in left_out}
        if isinstance(found, dict) and found and set(map(str, found)) <= names:
            return gradients((str(name), part) for name, part in found.items())
        if len(parameters) > 1 and isinstance(found, tuple | list) and not hasattr(found, "_fields"):
            # one gradient for each parameter, or for the first ones where none were chosen
            for_first = not chosen and isinstance(found, tuple) and 1 < len(found) < len(parameters)
            if len(found) == len(parameters) or (for_first and not isinstance(arguments[parameters[0]], ContainerNode)):
                return gradients(zip(parameters, found, strict=False))
        if isinstance(found, dict) and found and set(map(str, found)) & names:
            strangers = [f"'{name}'" for name in found if str(name) not in names]
            raise BadClaim(
                f"the claim names {', '.join(strangers)}, which is not an input", do=f"inputs: {', '.join(wrt)}"
            )
        if not parameters:
            raise BadClaim("nothing is differentiated", do="--wrt chooses inputs")
        if isinstance(found, dict) and isinstance(arguments[parameters[0]], Leaf):
            strangers = [f"'{name}'" for name in found]
            says = (
                f"the claim names {', '.join(strangers)}, which is not an input"
                if found
                else "the claim is an empty dict"
            )
            raise BadClaim(says, do=f"inputs: {', '.join(wrt)}")
        if chosen and len(parameters) > 1:
            raise BadClaim(
                f"one gradient is claimed, and {len(parameters)} inputs are differentiated: {', '.join(parameters)}",
                do="return a tuple in this order, or a dict by name",
            )
        if isinstance(found, tuple) and len(found) == 1 and not isinstance(arguments[parameters[0]], ContainerNode):
            found = found[0]
        return _gradients_of_parameter(parameters[0], found, arguments[parameters[0]], wrt)

    return match


def _gather_star_arguments(found: Any, nodes: Sequence[Node]) -> Any:
    """Return a tuple with a gradient for each value of `*args` with these in one tuple, as the last parameter holds them."""
    last = nodes[-1] if len(nodes) > 1 else None
    if not isinstance(last, ContainerNode) or not isinstance(found, tuple | list) or len(last.parts) < 2:
        return found
    first = len(nodes) - 1
    return (*found[:first], tuple(found[first:])) if len(found) == first + len(last.parts) else found


def _gradients_of_parameter(name: str, found: Any, node: Node, wrt: Sequence[str]) -> dict[str, Any]:
    """Return the claimed gradients of one parameter's leaves, by path."""
    if found is None:
        return {}
    if isinstance(node, Leaf):
        return {node.path: to_dense_array(name, found)} if node.path in wrt else {}
    if not isinstance(found, dict | list | tuple) and not hasattr(found, "__dataclass_fields__"):
        # one array was returned for a list or tuple of scalars
        found, leaves = to_dense_array(name, found), [path for path in paths_of_leaves(node) if path in wrt]
        if len(leaves) == 1 and shape(found)[-1:] != (1,):
            return {leaves[0]: found}  # of one value of *args
        if shape(found)[-1:] != (len(leaves),):
            raise WrongShape(f"the claimed gradient of {name} has shape {shape(found)}; it has {len(leaves)} entries")
        return {path: found[..., k] for k, path in enumerate(leaves)}
    parts = take_apart(name, found)[1]
    strangers = [path for path in parts if path not in paths_of_leaves(node)]
    if strangers:
        raise WrongShape(f"the claim has an entry {strangers[0]}, but {name} has no such entry")
    return {path: to_dense_array(path, x) for path, x in parts.items() if path in wrt and x is not None}


def to_dense_array(name: str, x: Any) -> Any:
    """Return a claimed gradient as an array: sparse matrices filled in, LinearOperators applied to the unit matrix.

    Raises  BadClaim for values that are not real numbers, masked arrays, and rows of different lengths.
    """
    operator = hasattr(x, "matmat") and hasattr(x, "shape")
    if (operator or hasattr(x, "toarray")) and math.prod(x.shape) > MOST_JACOBIAN:
        return x  # too large: only its products with vectors are used
    if hasattr(x, "toarray"):
        x = x.toarray()
    elif operator:
        x = x.matmat(np.eye(x.shape[1]))
    if redefines_arithmetic(x) and np.any(np.ma.getmaskarray(x)):
        raise BadClaim(f"the claimed gradient of {name} is a masked array", do="return x.filled(0.0)")
    try:
        array = np.asarray(x)
    except ValueError:
        raise BadClaim(f"the claimed gradient of {name} has rows of different lengths", do="return an array") from None
    if array.dtype.kind == "O" and array.size and not any(isinstance(part, str) for part in array.reshape(-1)):
        with contextlib.suppress(TypeError, ValueError):
            array = array.astype(float)
    if array.dtype.kind not in "fiub":
        what = "complex" if array.dtype.kind == "c" else f"of type {type(x).__name__}"
        raise BadClaim(f"the claimed gradient of {name} is {what}, not real numbers", do="return arrays of floats")
    return array.astype(np.float64)[()]


def hessian_blocks(found: Any, wrt: Sequence[str], at: Mapping[str, Any]) -> dict[str, Any]:
    """Return a claimed Hessian as the Jacobian of the gradient, which is one vector: one array for each input.

    The claim is one array, for a single input or for all entries together, or a dict of dicts, or a tuple of tuples.

    Shapes  each result is (n, *shape of the input), n the number of all entries; a claim for all entries is (n, n).
    Raises  WrongShape for other shapes; BadClaim for values that are not real numbers.
    """
    sizes = [size(at[name]) for name in wrt]
    n = sum(sizes)
    if isinstance(found, dict | tuple | list) and not hasattr(found, "toarray") and _is_made_of_blocks(found, wrt):
        rows = [found[name] for name in wrt] if isinstance(found, dict) else list(found)
        columns: dict[str, list[Any]] = {name: [] for name in wrt}
        for row, of_row in zip(rows, sizes, strict=True):
            for k, name in enumerate(wrt):
                block = to_dense_array(name, row[name] if isinstance(row, dict) else row[k])
                if size(block) != of_row * size(at[name]):
                    raise WrongShape(f"a block of the claimed Hessian beside {name} has shape {shape(block)}")
                columns[name].append(np.reshape(block, (of_row, *shape(at[name]))))
        return {name: np.concatenate(parts) for name, parts in columns.items()}
    whole = to_dense_array("the Hessian", found)
    expected = shape(at[wrt[0]]) * 2 if len(wrt) == 1 else (n, n)
    if shape(whole) != expected:
        says = f"the claimed Hessian has shape {shape(whole)}; the right one has shape {expected}"
        raise WrongShape(says, diagonal=hessian_diagonal(found, wrt, at))
    columns_of = np.split(np.reshape(whole, (n, n)), np.cumsum(sizes)[:-1], axis=1)
    return {name: np.reshape(part, (n, *shape(at[name]))) for name, part in zip(wrt, columns_of, strict=True)}


def hessian_diagonal(found: Any, wrt: Sequence[str], at: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what a claim says of the diagonal of the Hessian, by input; None if it does not have the shape of one.

    Shapes  one array of the shape of the only input, or a dict or tuple of such arrays by input, or the entries of all
            inputs as one vector.
    """
    rows = list(found.values()) if isinstance(found, dict) else found if isinstance(found, tuple | list) else []
    if any(isinstance(row, dict | tuple | list) and len(wrt) > 1 for row in rows):
        return None  # the blocks of a whole Hessian
    if isinstance(found, dict):
        parts = found if set(found) == set(wrt) else {}
    elif len(wrt) == 1:
        parts = {wrt[0]: found}
    elif isinstance(found, tuple | list) and len(found) == len(wrt):
        parts = dict(zip(wrt, found, strict=True))
    elif shape(found) == (sum(size(at[name]) for name in wrt),):
        parts = dict(zip(wrt, split_like(np.asarray(found), [at[name] for name in wrt]), strict=True))
    else:
        parts = {}
    if not parts or any(not shape(at[name]) or shape(x) != shape(at[name]) for name, x in parts.items()):
        return None
    return {name: to_dense_array(name, parts[name]) for name in wrt}


def _is_made_of_blocks(found: Any, wrt: Sequence[str]) -> bool:
    if isinstance(found, dict):
        return set(found) == set(wrt)
    if len(wrt) < 2 or not all(isinstance(x, tuple | list | dict) and len(x) == len(wrt) for x in (found, *found)):
        return False
    return any(np.ndim(part) > 0 for row in found for part in (row.values() if isinstance(row, dict) else row))
