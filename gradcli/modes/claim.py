"""The user's own gradient as a mode."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from gradcli.errors import BadClaim, BadShape, Place, Undecided
from gradcli.modes.bounds import SAFETY, infinite, input_rounding, typical_errors
from gradcli.modes.mode import Available, Question
from gradcli.modes.rounding import EPS
from gradcli.request.point import Array, Cost, Estimate, Witness
from gradcli.request.target_text import folded
from gradcli.targets.draws import NO_SIZES, Sizes
from gradcli.targets.expression import Compiler
from gradcli.targets.instructions import Instructions
from gradcli.targets.tokens import Statement, shared_and_parts
from gradcli.tracing.primitive import Value
from gradcli.tracing.shapes import largest, mapped, shape

GRANT = 1000.0  # rounding radii granted to a claim, whose algorithm is unknown
GRANT_SOLVER = 10.0  # times the change of a difference quotient by smaller tolerances of the solvers in f
GRANT_NARROW = 20.0  # ulps granted to a gradient in a narrow format whose program is unknown
TYPICAL = 6.0  # typical errors granted to a claim in a narrow format; right ones were off by 2.4 at most
GRANT_INPUTS = 8.0  # roundings of the inputs, which a right claim may be off by whatever its algorithm
_LITTLE = 1e-3  # of the largest entry: larger errors come from no rounding of inputs that leaves a gradient
GRANT_ESTIMATED = GRANT / SAFETY  # the same, if the radius is an estimate that has its own safety factor


@dataclass(frozen=True, slots=True)
class Precision:
    """The number format that a claim is computed in; by default float64.

    `coarseness` is how much larger one rounding is than in float64. `typical(values)` returns the typical error of each
    entry of the gradient if the function's own formula is computed in this format, by input; None if it is not known.

    Error   of `typical`: the root mean square of some runs with random roundings.
    """

    coarseness: Callable[[], float] = lambda: 1.0
    typical: Callable[[Mapping[str, Value]], dict[str, Array] | None] = lambda values: None


FLOAT64 = Precision()


class Claimed(Protocol):
    """A claimed gradient: its text, the inputs it is claimed for, and its value at a point.

    `place` is the line of the user's code that defines it, None for an expression and where it is not known.
    """

    text: str
    place: Place | None
    precision: Precision

    @property
    def names(self) -> tuple[str, ...]:
        """The inputs whose gradient is claimed."""

    @property
    def mutates(self) -> bool:
        """Whether it writes into the inputs it is given."""

    def __call__(self, values: Mapping[str, Value]) -> dict[str, Array]:
        """Return the claimed gradient for each of these inputs."""


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
            name = _name(piece, wrt, len(pieces))
            if name in self.programs or name in self.excluded:
                raise BadClaim(f"the gradient of {name} is claimed twice", where=piece.span(0, 1), do="leave one out")
            if piece.source == "None":
                self.excluded.add(name)
                continue
            compiler = Compiler(given)
            for statement in (*shared, piece):
                compiler.add(statement)
            self.programs[name] = compiler.program
        _not_meant_as_claims(shared, wrt, self.programs)
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
        return with_zeros(found, self.diagonal)


def _not_meant_as_claims(shared: list[Statement], wrt: tuple[str, ...], claimed: dict[str, Instructions]) -> None:
    """Refuse `x=2*x; y=1`: a semicolon makes `x` a shared value, and the gradient of x would go unchecked."""
    for statement in shared:
        if statement.name is not None and folded(statement.name.text) in set(wrt) - set(claimed):
            name = statement.name.text
            raise BadClaim(
                f"'{name} = ...;' names a shared value, and the gradient of {name} is not claimed",
                where=statement.span(0, 1),
                do="separate the gradients of inputs by commas: x=..., y=...",
            )


def _name(piece: Statement, wrt: tuple[str, ...], count: int) -> str:
    if piece.name is not None:
        return folded(piece.name.text)
    if len(wrt) == 1 and count == 1:
        return wrt[0]
    raise BadClaim(
        "a claim for several inputs names each of them",
        do='write --grad "' + ", ".join(f"{name}=..." for name in wrt) + '"',
    )


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
        value = shaped(given, q)
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
                typical = infinite(q)
            typical = {name: np.broadcast_to(typical[name], shape(x)) for name, x in value.items()}
            bound = {name: TYPICAL * typical[name] + EPS * coarse * np.abs(x) for name, x in value.items()}
            return Estimate(value, bound, narrow=True, typical=typical, notes=notes)
        known = None if q.untraced else q.rounding_of_textbook
        grant = (
            (GRANT if known is None or known.proved else GRANT_ESTIMATED) if coarse == 1.0 else GRANT_NARROW * coarse
        )

        def granted(slope: Array, error: Array) -> Array:
            return grant * error + 4 * coarse * EPS * np.abs(slope)

        terms = 4.0 if coarse > 1.0 else 0.0  # roundings of the largest entry, whose terms cancel in smaller ones
        bound = {
            name: EPS * ((grant + 4 * coarse) * np.abs(x) + terms * coarse * largest(x))
            if known is None
            else np.asarray(mapped(granted, np.float64, x, known.errors[name]))[()]
            for name, x in value.items()
        }
        if not q.untraced and q.solvers:
            bound = {name: b + q.solver_error[name] for name, b in bound.items()}
        return Estimate(value, bound, narrow=coarse > 1.0, cost=Cost(evaluations=0), notes=notes)


def with_zeros(claimed: dict[str, Any], diagonal: frozenset[str]) -> dict[str, Any]:
    """Return a claim with the zeros beside the diagonals of some inputs' Jacobians."""
    return {n: np.reshape(np.diag(np.ravel(x)), shape(x) * 2) if n in diagonal else x for n, x in claimed.items()}


def allow_for_inputs(claim: Estimate, right: Estimate, q: Question) -> Estimate:
    """Return a claim with the rounding of the inputs granted, if it differs from the right gradient by hardly more.

    Cost    nothing, unless each entry differs by little beside the largest one, and one by more than the bounds.
    """
    if q.untraced is not None or claim.narrow or not q.affords_slopes:
        return claim
    with np.errstate(all="ignore"):
        apart = {name: np.abs(np.asarray(x) - right.value[name]) for name, x in claim.value.items()}
        far = {name: x > claim.bound[name] + right.bound[name] for name, x in apart.items()}
        top = max((largest(right.value[name]) for name in apart), default=0.0)
        if not any(map(np.any, far.values())) or any(np.any(~(x <= _LITTLE * top)) for x in apart.values()):
            return claim
        rounding = input_rounding(q)
        if rounding is None:
            return claim
        return replace(claim, bound={n: np.fmax(b, GRANT_INPUTS * rounding[n])[()] for n, b in claim.bound.items()})


def shaped(claimed: Mapping[str, Array], q: Question) -> dict[str, Array]:
    """Return a claimed gradient in the shapes of the Jacobian. Raises WrongShape, which names the input that a lone part fits."""
    at = q.point.values
    try:
        return {name: in_shape(name, x, shape(q.value), shape(at[name])) for name, x in claimed.items()}
    except WrongShape as wrong:
        given = np.shape(np.asarray(wrong.claimed))
        fits = [name for name, x in at.items() if given == shape(q.value) + np.shape(x)]
        if len(claimed) > 1 or not fits:
            raise
        raise WrongShape(
            f"{wrong.what}; it fits {fits[0]}: --wrt {fits[0]}", wrong.name, wrong.claimed, wrong.diagonal
        ) from None


def in_shape(name: str, x: Array, outputs: tuple[int, ...], inputs: tuple[int, ...]) -> Array:
    """Return a claimed Jacobian in its proper shape, which some other shapes imply without ambiguity.

    Shapes  the result is `outputs + inputs`. If the output is an array, x may also be flat, (entries of the output, entries
            of the input), or have the input's shape if the output has one entry.
    Raises  WrongShape for other shapes.
    """
    entries = math.prod(outputs)
    flat = [(entries, math.prod(inputs)), *([inputs] if entries == 1 else [])] if outputs else []
    if shape(x) not in (outputs + inputs, *flat):
        turned = "; it may be transposed" if shape(x) == (outputs + inputs)[::-1] else ""
        says = (
            f"the claimed gradient of {name} has shape {shape(x)}; the right one has shape {outputs + inputs}{turned}"
        )
        raise WrongShape(says, name, x, {name: x} if outputs == inputs == shape(x) else None)
    return np.reshape(x, outputs + inputs)[()]
