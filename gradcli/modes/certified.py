"""The certified value: a reverse sweep in balls, confirmed by a difference that uses no rules."""

import math
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
from flint import arb

from gradcli.arithmetic.ball import (
    Ball,
    bound_error,
    decimal_strings,
    exact_constants,
    nearest_float64,
    precision,
    radius,
    round_up,
)
from gradcli.arithmetic.dual import cotangent_rows
from gradcli.arithmetic.recorded_program import RecordedProgram, record
from gradcli.arithmetic.tape import CONSTANT, Line
from gradcli.classes import dataclass
from gradcli.compiling.written import BallCode, compile_to_balls
from gradcli.errors import GradcliError, TraceDiffers, Undecided
from gradcli.modes.difference_steps import Difference
from gradcli.modes.kinks import TO_FINITE
from gradcli.modes.mode import Available, Contradiction, Question
from gradcli.modes.recording import NotRun
from gradcli.modes.rounding import FUNCTION_ERROR, has_factored_matrix
from gradcli.request.point import Array, Estimate, EstimateCost, Witness
from gradcli.rules.reductions import SUM
from gradcli.rules.shaping import SELECT
from gradcli.targets.derived import random_signs
from gradcli.targets.facts import Function
from gradcli.tracing.primitive import Value
from gradcli.tracing.shapes import BLOCK, entries_of_part, iterate_blocks, largest_finite, shape, size

# A recorded program run block by block along its large arrays, so that memory does not grow with them.
#
# It works for programs whose large arrays have one shape, meet entry by entry, and end in sums: losses of many numbers. Where a
# sum enters the large arrays again, as in a softmax, their entries are computed once more for each such level.


@dataclass(frozen=True, slots=True)
class Blockwise:
    """A program with, for each line, its level: how many sums over large arrays it needs, one after the other.

    `large` are the lines whose values have the large shape, and `sums` those that add up a large array.
    """

    program: RecordedProgram
    large: frozenset[int]
    sums: frozenset[int]
    levels: tuple[int, ...]

    @property
    def count(self) -> int:
        """The number of entries of a large array."""
        return max(size(self.program.tape.value(k)) for k in self.large)

    def run(self, inputs: Callable[[slice], Sequence[list[Value]]]) -> list[Value]:
        """Return the program's value at each of some points, on the branches of the record.

        Shapes  `inputs(part)` returns the values of the inputs at each point: for large inputs only that part of their
                entries, in C order.
        """
        small = inputs(slice(0, 0))
        numbers = {x.slot: k for k, x in enumerate(self.program.inputs)}
        points: list[dict[int, Value]] = [{} for _ in small]
        for level in range(max(self.levels) + 1):
            for values, given in zip(points, small, strict=True):
                for k, line in enumerate(self.program.lines):
                    if self.levels[k] == level and k not in self.large | self.sums:
                        values[k] = given[numbers[k]] if k in numbers else _compute_line(line, values, None)
            added = [k for k in self.sums if self.levels[k] == level + 1]
            for part in iterate_blocks(self.count) if added else ():
                for values, given in zip(points, inputs(part), strict=True):
                    here = dict(values)
                    for k in sorted(self.large):
                        if self.levels[k] <= level:
                            here[k] = (
                                given[numbers[k]] if k in numbers else _compute_line(self.program.lines[k], here, part)
                            )
                    for k in added:
                        (slot,) = self.program.tape.operands(k)
                        total = np.sum(here[slot])
                        values[k] = values[k] + total if k in values else total
        return [values[self.program.y.slot] for values in points]


def prepare_blockwise(program: RecordedProgram) -> Blockwise | None:
    """Return the program prepared to be run in blocks, or None where its large arrays do more than meet entry by entry."""
    shapes = {shape(x.primal) for x in program.inputs if size(x.primal) > BLOCK}
    if len(shapes) != 1 or not program.moves:
        return None
    (whole,) = shapes
    large, sums, levels = set[int](), set[int](), list[int]()
    for k, (primitive, slots, xs, y, _, _) in enumerate(program.lines):
        level = max((levels[s] for s in slots if s != CONSTANT), default=0)
        entry_by_entry = (
            primitive and (primitive.kind == "elementwise" or primitive.is_a(SELECT)) and not primitive.body
        )
        if primitive is None:
            large |= {k} if shape(y) == whole else set()
        elif not (large.intersection(slots) or any(shape(x) == whole for x in xs)):
            if shape(y) == whole:  # made of smaller arrays, as an outer product is
                return None
        elif entry_by_entry and shape(y) == whole and all(shape(x) in (whole, ()) for x in xs):
            large.add(k)
        elif primitive is SUM and shape(y) == ():
            sums.add(k)
            level += 1
        else:
            return None
        levels.append(level)
    if program.y.slot in large:
        return None
    return Blockwise(program, frozenset(large), frozenset(sums), tuple(levels))


def _compute_line(line: Line, values: dict[int, Value], part: slice | None) -> Value:
    """Return the value of a line, given those of its operands; in a large line, a part of the entries of constants."""
    primitive, slots, xs, _, params, _ = line
    assert primitive is not None
    operands = [
        (x if part is None else entries_of_part(x, part)) if slot == CONSTANT else values[slot]
        for slot, x in zip(slots, xs, strict=True)
    ]
    return primitive.fun(*operands, **(params or {}))


FIRST_BITS = 128
MOST_ENTRIES = 2**22  # in balls: about 4 GB, with those of the gradient and of two displaced points
LAST_BITS = 4096
RELATIVE_RADIUS = 1e-30
ACCURATE_BITS = 100  # the same of a ball, also where float64 underflows
DIGITS = 50  # of the decimals; 4096 bits are asked for only to reach 1e-30
WITNESS_AGREEMENT = 1e-18  # of the sum of |g v|; truncation at h = 2^-(bits/3) is far below it for tame functions
LEAST = 5e-324  # of float64's numbers above zero
ROUNDED = 1e-22  # relative: beyond what float64 keeps of a number
MOST_DECIMALS = 1_000
MOST_OPERATIONS = 1_000  # of a program whose zeros are looked at with all bits
UNSEEN = 1e-6  # of the size of f and of its adjoints: slopes below it are not told from zero by the witness
_LOST = 16 * FUNCTION_ERROR  # of what the value is made of: digits that cancel in the function and not in the trace
_FACTORED = 1e-2  # of the value: LAPACK's factors round by the condition number, in another order than balls do
FLOAT_CONSTANTS = "the gradient is certified with the float64 values of pi and e: "
_OF_CONSTANTS = 1e-10  # of an entry: what an ulp in pi or e may change where these are exact
_EXPONENTS = 1000  # of float64's numbers, below which ldexp loses nothing


# A function in balls, as the certified mode runs it: traced at each precision, or compiled once for all of them.

_SEED = 0x5EED  # of the directions
_CODE: weakref.WeakKeyDictionary[Function, dict[Any, BallCode | None]] = weakref.WeakKeyDictionary()
_DIRECTIONS: dict[tuple[int, int], list[float]] = {}  # by seed and count: a generator costs more than the rest
_MOST_KEPT = 64
Table = list[list[Any]]  # for each entry of the output, something of each input


class Traced:
    """A function of balls, and its reverse sweep, at whatever precision is set: traced at each."""

    def __init__(self, q: Question) -> None:
        self.q = q

    def value(self, xs: list[Value]) -> Value:
        """Return the function's value."""
        return self.q.g(*xs)

    def value_at_53(self, xs: list[Value]) -> Value:
        """Return its value at the point itself, at 53 bits."""
        return Ball.lift(0) + (self.q.balls[53].value if 53 in self.q.balls else self.value(xs))

    def swept(self, xs: list[Value]) -> tuple[Value, list[list[Value]], list[Line]]:
        """Return the value, the cotangents of the inputs for each entry of it, and the lines of the trace."""
        program = record(self.q.g, xs)
        return program.y, cotangent_rows(program, Ball.lift(1)), program.lines[len(program.inputs) :]

    def directions(self, count: int) -> tuple[list[Any], Any]:
        """Return a random direction in the inputs, and random weights of so many outputs.

        Its steps are in proportion to the entries, so that small entries do not hide behind large ones.
        """
        rng = np.random.default_rng([self.q.seed, _SEED])
        weights = random_signs(rng, (count,)) if shape(self.q.value) else [1.0]
        steps = []
        for x, mask in zip(self.q.xs, self.q.undecided, strict=True):
            scale = np.abs(x)
            if not np.all(scale):
                scale = np.where(scale == 0, float(np.median(scale)) or 1.0, scale)
            steps.append(np.where(mask, 0.0, random_signs(rng, shape(x)) * scale))
        return steps, weights


def compile_in_balls(q: Question) -> BallCode | None:
    """Return the code of an expression of numbers without kinks, written once for all points and precisions; None of others."""
    numbers = all(isinstance(x, float) for x in q.point.values.values())
    if q.f.kind != "expression" or q.blind is not None or not numbers:
        return None
    known = _CODE.setdefault(q.f, {})
    key = (tuple(q.point.values), q.wrt)
    if key not in known:
        try:
            with np.errstate(all="ignore"):
                known[key] = compile_to_balls(q.f, q.point.values, q.wrt)
        except (GradcliError, TypeError, ValueError, ArithmeticError):  # the traced function says what the matter is
            known[key] = None
    return known[key]


def _signs_of_direction(q: Question) -> list[float]:
    """Return the signs of the direction in which code is compared with its slopes."""
    key = (q.seed, len(q.wrt))
    if key not in _DIRECTIONS:
        if len(_DIRECTIONS) >= _MOST_KEPT:
            _DIRECTIONS.clear()
        _DIRECTIONS[key] = random_signs(np.random.default_rng([q.seed, _SEED]), (key[1],)).tolist()
    return _DIRECTIONS[key]


class Certified:
    """A reverse sweep in ball arithmetic, precision doubled until the radius is small, and a witness of function values.

    The ball bounds every rounding error; `<g, v> = D_v f` along a random v, in high precision, catches a wrong rule in
    any component; and the ball must contain the untouched function's value, which catches a wrong trace.
    """

    name = "certified"
    rests_on = frozenset({Witness.RULES, Witness.FUNCTION_VALUES, Witness.TRACING})

    def available(self) -> Available:
        return Available()

    def gradient(self, q: Question) -> Estimate:
        """Error: proved. Cost: per precision tried, one reverse sweep and two evaluations in balls.

        pi and e are exact, but where their rounding alone changes the gradient, or leaves it open.

        Raises  NotRun if it is more work than a mode may be; Undecided if 4096 bits do not settle it; Contradiction.
        """
        code = compile_in_balls(q)
        if code is not None and not code.has_constants:  # nothing is traced for it
            found = self._gradient_by_code(q, code)
            if found is not None:
                return found
        if q.untraced is not None or not q.by_constants:
            return self._gradient_by_sweeps(q)
        if all(np.all(x <= _OF_CONSTANTS * np.abs(q.slopes[name])) for name, x in q.by_constants.items()):
            try:
                return self._gradient_by_sweeps(q, exact_constants)
            except Undecided:
                note = FLOAT_CONSTANTS + "with exact ones the function may have a kink at this point"
        else:
            note = FLOAT_CONSTANTS + "some ulps in one of them change its first ten digits, or make f raise an error"
        found = self._gradient_by_sweeps(q)
        return replace(found, notes=(*found.notes, note))

    def _gradient_by_sweeps(self, q: Question, constants: Callable[[], Any] = nullcontext) -> Estimate:
        """Return the gradient by sweeps with the given `constants`; the function's value is compared with float64's."""
        code = compile_in_balls(q)
        if code is not None and code.has_constants:
            found = self._gradient_by_code(q, code, constants)
            if found is not None:
                return found
        q.refuse_untraced()
        if q.crowded:
            raise NotRun(f"there are {q.entries:,} entries", do="--modes all")
        if q.entries > MOST_ENTRIES:
            raise NotRun(
                f"there are {q.entries:,} entries, and ball arithmetic is used for at most {MOST_ENTRIES:,}",
                do="--modes certified,reverse certifies one random direction instead, if f can be run in blocks",
            )
        q.budget.admit(q.ball_work, q.ball_work_text)
        if not np.all(np.isfinite(q.value)):
            raise Undecided("f is not finite here", do=TO_FINITE)
        traced = Traced(q)
        with np.errstate(all="ignore"):
            lifted = [Ball.lift(x) for x in q.xs]  # exact, and so the same at every precision
            self._require_value_in_ball(q, traced, lifted)
            evaluations, bits = 1, FIRST_BITS
            while bits <= LAST_BITS:
                with constants():
                    found = self._gradient_at_precision(q, traced, lifted, bits)
                evaluations += 3
                if found is not None:
                    return replace(found, cost=EstimateCost(evaluations=evaluations), notes=(f"{bits} bits",))
                bits *= 2
        raise Undecided(
            f"{LAST_BITS} bits of precision are not enough to determine the gradient here",
            do="the function may have a kink at this point, or none of its digits are known",
        )

    def _gradient_by_code(
        self, q: Question, code: BallCode, constants: Callable[[], Any] = nullcontext
    ) -> Estimate | None:
        """Return the gradient by compiled code at the first precision, or None: what it leaves open is traced."""
        y = float(q.value)
        if not math.isfinite(y):
            return None
        at = {name: Ball.entry(x) for name, x in q.point.values.items()}
        try:
            with precision(53):
                ball = code.value(*at.values())
            if not abs(arb(y) - ball).upper() <= 3 * ball.rad() + FUNCTION_ERROR * abs(y):  # nor where the ball is not
                return None
            with precision(FIRST_BITS), constants():
                _, slopes = code.both(*at.values())
                near, radii = [float(g) for g in slopes], [round_up(g.rad()) for g in slopes]
                if not all(
                    math.isfinite(g) and r <= RELATIVE_RADIUS * abs(g) for g, r in zip(near, radii, strict=True)
                ):
                    return None
                if not self._agree_with_difference(q, code, at, slopes, near):
                    return None
        except Undecided:
            return None
        bounds = (np.float64(r + abs(g) * 10.0 ** (1 - DIGITS)) for g, r in zip(near, radii, strict=True))
        decimals = {name: g.mid().str(DIGITS, radius=False) for name, g in zip(q.wrt, slopes, strict=True)}
        return Estimate(
            dict(zip(q.wrt, map(np.float64, near), strict=True)), dict(zip(q.wrt, bounds, strict=True)), proved=True,
            decimals=decimals, cost=EstimateCost(evaluations=4), notes=(f"{FIRST_BITS} bits",),
        )  # fmt: skip

    def _agree_with_difference(
        self, q: Question, code: BallCode, at: dict[str, arb], slopes: list[arb], near: list[float]
    ) -> bool:
        """Whether slopes by code agree with a symmetric difference of its values along a direction, in which no rule is used."""
        sizes = [abs(float(q.point.values[name])) or 1.0 for name in q.wrt]
        h = arb(2) ** -(FIRST_BITS // 3)
        signs = _signs_of_direction(q)
        steps = [arb(sign * size) * h for sign, size in zip(signs, sizes, strict=True)]
        moved = [
            code.value(*(at | {name: at[name] + way * step for name, step in zip(q.wrt, steps, strict=True)}).values())
            for way in (1, -1)
        ]
        along = sum((slope * step for slope, step in zip(slopes, steps, strict=True)), start=arb(0))
        unit = max(sizes)  # in which nothing is too small for float64
        scale = sum(abs(g) * (size / unit) for g, size in zip(near, sizes, strict=True))
        return bool(abs((moved[0] - moved[1]) / 2 - along).upper() <= arb(WITNESS_AGREEMENT * scale) * unit * h)

    def _require_value_in_ball(self, q: Question, run: Traced, lifted: list[Value]) -> None:
        """The ball at 53 bits must contain the untouched function's float64 value: else the trace is not the function."""
        try:
            with precision(53):
                y = run.value_at_53(lifted)
                distance, allowed = bound_error(y, q.value), radius(y)
        except Undecided:
            return  # at 53 bits a comparison is open; the higher precisions decide it, the witness still checks
        excess = distance - 3 * allowed - FUNCTION_ERROR * np.abs(q.value)
        if not np.any(excess > 0):
            return
        excess = excess - FUNCTION_ERROR * np.abs(q.value) * (np.sqrt(len(q.lines) + 1) - 1)
        excess = excess - _LOST * _largest_value(q.lines) * max(1.0, q.largest_adjoint)
        if has_factored_matrix(q.lines):
            excess = excess - _FACTORED * np.abs(q.value)
        if np.any(excess > 0):
            raise TraceDiffers("the trace differs from the function: the ball does not contain the function's value")

    def _gradient_at_precision(self, q: Question, run: Traced, lifted: list[Value], bits: int) -> Estimate | None:
        """Return the gradient at this precision, or None where it is not yet known well enough."""
        with precision(bits):
            try:
                y, rows, lines = run.swept(lifted)
                near = [list(map(nearest_float64, row)) for row in rows]
                radii = [list(map(radius, row)) for row in rows]
                if not self._is_precise_enough(q, rows, near, radii, lines, bits):
                    return None
                if not self._agrees_with_difference(q, run, lifted, rows, near, bits):
                    return None
            except Undecided:
                return None
            bounds = [
                # what writing the midpoint in decimals loses is added
                [np.asarray(r + np.abs(g) * 10.0 ** (1 - DIGITS))[()] for r, g in zip(*row, strict=True)]
                for row in zip(radii, near, strict=True)
            ]
            decimals = None
            if _has_few_entries(near):
                written = [[decimal_strings(xbar, DIGITS) for xbar in row] for row in rows]
                decimals = _arrays_by_input(q, y, written)
        return Estimate(_arrays_by_input(q, y, near), _arrays_by_input(q, y, bounds), proved=True, decimals=decimals)

    def _is_precise_enough(
        self, q: Question, rows: Table, near: Table, radii: Table, lines: list[Line], bits: int
    ) -> bool:
        """Whether every entry is known to 1e-30, of itself or, where it may be zero, of what it was summed from.

        An entry that may be zero must be known better than by float64: more bits may distinguish a slope that is far smaller
        than what it is made of from zero.

        Among many, of which no digits are written, a small one may also be known to 1e-30 of what it was summed from while
        that is far beyond what it is rounded to.
        """
        if all(np.all((r <= RELATIVE_RADIUS * np.abs(g)) & np.isfinite(g)) for g, r in _zip_tables(near, radii)):
            return True
        reach = 0.0 if bits == FIRST_BITS else _largest_value(lines) + q.largest_adjoint
        floats = radii
        if bits != LAST_BITS and q.operations <= MOST_OPERATIONS:  # else bits cost more than they tell
            slopes = [np.reshape(q.slopes[name], (len(near), *shape(x))) for name, x in zip(q.wrt, q.xs, strict=True)]
            floats = [[slope[k] for slope in slopes] for k in range(len(near))]
        scale = max((float(np.max(np.abs(g), initial=0.0)) for row in near for g in row), default=0.0)
        allowed = max(RELATIVE_RADIUS * max(scale, reach), LEAST)
        enough = 0.0 if _has_few_entries(near) else ROUNDED
        for xbar, g, r, by_floats in _zip_tables(rows, near, radii, floats):
            own = np.abs(g)
            zero = (own <= r) & ((r <= np.abs(by_floats)) | (r <= LEAST))
            known = (r <= RELATIVE_RADIUS * own) | ((r <= allowed) & (zero | (r <= enough * own)))
            balls = np.reshape(np.asarray(Ball.objects(xbar), dtype=object), -1)[~np.reshape(known, -1)]
            if not np.all(np.isfinite(r)) or not all(x.rel_accuracy_bits() >= ACCURATE_BITS for x in balls):
                return False
        return True

    def _agrees_with_difference(
        self, q: Question, run: Traced, lifted: list[Value], rows: Table, near: Table, bits: int
    ) -> bool:
        """Compare <g, v> with a symmetric difference along v in the same arithmetic; no rule is used in the latter.

        Raises  Contradiction at the highest precision.
        """
        v, weights = run.directions(len(rows))
        if not any(np.any(part) for part in v):
            return True
        unit = max(float(np.max(np.abs(part), initial=0.0)) for part in v)  # in which nothing is too small for float64
        halvings = bits // 3
        steps = [scale_by_halvings(part, halvings) for part in v]
        up = self._weighted_sum(q, run, [x + step for x, step in zip(lifted, steps, strict=True)], weights)
        down = self._weighted_sum(q, run, [x - step for x, step in zip(lifted, steps, strict=True)], weights)
        along = Ball.lift(0)
        scale = 0.0
        for weight, row, floats in zip(weights, rows, near, strict=True):
            for xbar, step, g, part in zip(row, steps, floats, v, strict=True):
                terms = np.ravel(xbar) @ np.ravel(step) if shape(xbar) else xbar * step
                along = along + float(weight) * terms
                scale += float(abs(weight) * np.sum(np.abs(g * (part / unit))))
        distance = float(bound_error(((up - down) / 2 - along) / (Ball(arb(2) ** -halvings) * Ball.lift(unit)), 0.0))
        if distance <= WITNESS_AGREEMENT * scale:
            return True
        natural = float(np.float64(abs(nearest_float64(up))) / unit) + q.largest_adjoint
        agrees = distance <= WITNESS_AGREEMENT * (scale + UNSEEN * natural)
        if not agrees and bits == LAST_BITS and np.isfinite(distance):
            # the user's own rules are suspected first
            own = sorted({primitive.name for primitive, *_ in q.lines if primitive is not None and primitive.body})
            advice = f"a primitive of your own is wrong ({', '.join(own)}): correct its partial derivatives"
            raise Contradiction(
                "the rules disagree with the function's values along a random direction",
                do=advice if own else "please report it: a rule of gradcli is wrong",
            )
        return agrees

    def _weighted_sum(self, q: Question, run: Traced, xs: list[Value], weights: Any) -> Value:
        """Return the weighted sum of f's outputs, in balls."""
        y = run.value(xs)
        if shape(y) != shape(q.value):
            raise Undecided(
                "the shape of the result changes near the point", do="return a result of the same shape for all inputs"
            )
        if not shape(q.value):
            return Ball.lift(0) + y
        return np.sum(Ball.lift(0) + y * np.reshape(weights, shape(y)))


def _zip_tables(*tables: Table) -> Iterator[tuple[Any, ...]]:
    """Yield, row by row and input by input, what tables alike hold."""
    for row in zip(*tables, strict=True):
        yield from zip(*row, strict=True)


def _largest_value(lines: list[Line]) -> float:
    """Return the largest finite entry of all lines, by size."""
    numbers = (y if type(y) in (np.float64, np.ndarray) else nearest_float64(y) for _, _, _, y, _, _ in lines)
    return max(map(largest_finite, numbers), default=0.0)


def _has_few_entries(near: Table) -> bool:
    """Whether entries are so few that their digits are written."""
    return sum(size(g) for row in near for g in row) <= MOST_DECIMALS


def scale_by_halvings(v: Any, halvings: int) -> Value:
    """Return v / 2^halvings, exact: of float64's numbers where these hold it."""
    if isinstance(v, float):
        return Ball(arb(v) * arb(2) ** -halvings)
    exponents = np.frexp(v)[1]
    if halvings + 1 - int(np.min(exponents, where=v != 0, initial=0)) < _EXPONENTS:
        return Ball.lift(np.ldexp(v, -halvings))
    return Ball.lift(v) * Ball(arb(2) ** -halvings)


def _arrays_by_input(q: Question, y: Value, rows: Table) -> dict[str, Any]:
    """Return row by row results as one array for each input: the output's shape, then the input's."""
    if shape(y) == ():
        return {name: np.asarray(part)[()] for name, part in zip(q.wrt, rows[0], strict=True)}
    return {
        name: np.stack([np.asarray(row[k]) for row in rows]).reshape(shape(y) + shape(x))[()]
        if rows
        else np.zeros(shape(y) + shape(x))
        for k, (name, x) in enumerate(zip(q.wrt, q.xs, strict=True))
    }


# One random direction certified, where there are too many entries for a ball each: f in balls, block by block.


def certified_difference(q: Question, vs: Sequence[Array], slope_size: float) -> Difference | None:
    """Return the slope of a scalar f along v by a symmetric difference in balls; no rule is used in it.

    Return None where f cannot be run in blocks: its large arrays must have one shape, meet entry by entry, and end in sums.

    Shapes  `vs` have the shapes of the inputs.
    Units   `slope_size` is the sum of the sizes of the terms of <g, v>, in those of f.
    Error   the radius of the balls, and for truncation, at a step of 2^-42, 1e-18 of `slope_size`.
    Cost    two evaluations of f in balls; memory for one block of each of its lines.
    """
    prepared = prepare_blockwise(q.recording) if q.untraced is None and shape(q.value) == () else None
    if prepared is None:
        return None
    halvings = FIRST_BITS // 3

    def moved(part: slice) -> tuple[list[Value], list[Value]]:
        """Return a part of the inputs, moved by the step along v and against it."""
        up, down = [], []
        for x, v in zip(q.xs, vs, strict=True):
            if size(x) == prepared.count:
                x, v = entries_of_part(x, part), entries_of_part(v, part)
            middle, step = Ball.lift(x), scale_by_halvings(v, halvings)
            up.append(middle + step)
            down.append(middle - step)
        return up, down

    try:
        with precision(FIRST_BITS), np.errstate(all="ignore"):
            up, down = prepared.run(moved)
            slope = (up - down) * Ball.lift(2.0 ** (halvings - 1))
            value, bound = float(nearest_float64(slope)), float(radius(slope)) + WITNESS_AGREEMENT * slope_size
    except GradcliError:  # an operation has no balls, or a comparison is undecided
        return None
    return Difference(np.float64(value), np.float64(bound), np.float64(2.0**-halvings), calls=2)
