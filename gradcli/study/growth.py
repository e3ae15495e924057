"""Study how the evaluations, sweeps, operations, bytes and time of each mode grow with a size.

Counts come from the recorded program. For sizes that are too large to run, they are predicted: the program is recorded at
a few small sizes, polynomials of the size are fitted to the shapes of its lines, and the prediction is tested at one more
size. Times are measured, and for the sizes that are not run estimated from those that were.
"""

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from gradcli.arithmetic.program import Program
from gradcli.arithmetic.tape import CONSTANT, SPENT, Line, Recorded, sweep_back
from gradcli.checks.request import Request
from gradcli.checks.run_modes import attempt
from gradcli.errors import BadOption, GradcliError, TooLarge
from gradcli.modes.mode import Question
from gradcli.modes.problem import Effort
from gradcli.modes.registry import MODES
from gradcli.modes.schemes import log_slope
from gradcli.modes.steps import TAME
from gradcli.report.growth import CHECKPOINTED, Cell, Crossing, Exponents, Growth, Row, primal
from gradcli.study import cost
from gradcli.study.cost import Counts, Outline, counts, outline
from gradcli.tracing.shapes import shape
from gradcli.words import Derivative

# The limits of what is run
MOST_WORK = 2 * 10**10  # of one mode at one size, in quarters of an addition: about a quarter of a nanosecond each
MOST_BALLS = 300_000  # operations in balls of the certified mode
MOST_FORMULA = 5_000  # operations of f times entries, for the symbolic mode
MOST_CALLS = 100_000  # of f, if its operations cannot be counted
MOST_BYTES = 2**30  # of inputs, Jacobian and the memory of a mode
MOST_RECOMPUTED = 2 * 10**9  # work of a gradient that is also timed with checkpoints
_ALWAYS = 64  # the largest size that is run even if its cost is unknown
_FIT = 3  # an exponent is fitted to this many of the largest sizes
_LONG = 16  # lines: shorter programs have nothing to recompute
_TIMES = 3
_CUBE = 3.0  # the assumed exponent of the work if only one size is known
_SAME = 1.5  # ratios that differ by at most this factor count as the same for all sizes
_CHEAP = 5  # times the operations of f: the bound of the cheap gradient principle for f with a reverse sweep
_WHY_NOT = "its shapes or operations depend on values, or do not grow as a polynomial of degree 3 or less"


# Predict the cost of a program at sizes that were not run, from exact counts at small sizes.

SPACINGS = (12, 64, 60)  # between tried sizes, so that size // 2, size // 3, size // 4, ... are polynomials too
TRIED = 5  # sizes: enough for a polynomial of degree 3 and one spare point
MOST_TRIED = 4 * 10**7  # work at the size at which a prediction is tested
MOST_TRIED_LINES = 2_000  # of the program at that size
_UNKNOWN = 10**4  # assumed work for each unit of a size whose work is unknown

_View = Callable[[Outline], Any]
_Finish = Callable[[Any], Counts]
# What is predicted, the most exact first: the shapes of all lines, because the peak of memory may move in large programs;
# the counts, if the number of lines grows; else only what the shapes of inputs and result determine.
_WAYS: tuple[tuple[_View, _Finish], ...] = (
    (lambda made: made, counts),
    (counts, lambda found: found),
    (lambda made: counts(made).of_shapes, lambda found: found),
)


# Predict integers at other sizes by the exact polynomial through the values at tried sizes.

SPARE = 1  # extra points, beyond those that determine a polynomial, that it must also go through


class NotPolynomial(Exception):
    """The values at the tried sizes follow no polynomial of a degree low enough to be tested."""


def at_size(tried: Sequence[int], found: Sequence[Any], n: int) -> Any:
    """Return the predicted structure at size n; its integers follow polynomials, and all other parts must be equal.

    Shapes  `found` holds one structure for each size in `tried`: nested tuples of integers and other values.
    Error   none in the arithmetic, which is exact; the polynomial is tested at one spare point.
    Raises  NotPolynomial if an integer follows no polynomial, or if other parts differ between sizes.
    """
    known: dict[tuple[int, ...], int] = {}

    def value(same: Sequence[Any]) -> Any:
        first = same[0]
        if type(first) is int and all(type(x) is int for x in same):
            key = tuple(same)
            if key not in known:
                known[key] = polynomial_at(tried, key, n)
            return known[key]
        if isinstance(first, tuple) and all(type(x) is type(first) and len(x) == len(first) for x in same):
            parts = [value(part) for part in zip(*same, strict=True)]
            return first._make(parts) if hasattr(first, "_make") else tuple(parts)
        if any(x is not first and x != first for x in same[1:]):
            raise NotPolynomial
        return first

    return value(found)


def polynomial_at(xs: Sequence[int], ys: Sequence[int], n: int) -> int:
    """Return the value at n of the polynomial of least degree through all points.

    Raises  NotPolynomial if no point is left to test it, or if the value is not a non-negative integer.
    Source  Newton's divided differences.
    """
    if all(y == ys[0] for y in ys):
        return ys[0]
    coefficients, column = [Fraction(ys[0])], [Fraction(y) for y in ys]
    for order in range(1, len(xs)):
        column = [(b - a) / (xs[k + order] - xs[k]) for k, (a, b) in enumerate(itertools.pairwise(column))]
        coefficients.append(column[0])
    while coefficients and not coefficients[-1]:
        coefficients.pop()
    if len(coefficients) + SPARE > len(xs):
        raise NotPolynomial
    value = Fraction(0)
    for x, c in reversed(list(zip(xs, coefficients, strict=False))):
        value = value * (n - x) + c
    if value.denominator != 1 or value < 0:
        raise NotPolynomial
    return int(value)


class Prediction:
    """The cost of a program at any size: counted if it was recorded there, else predicted from small sizes."""

    def __init__(self, name: str, make: Callable[[int], Request]) -> None:
        self.name = name
        self.make = make
        self.outlines: dict[int, Outline | None] = {}
        self.known: dict[int, Counts | None] = {}
        self.predictable = True

    def question(self, n: int) -> tuple[Question, Request]:
        """Return the question at a size, and the request that it was made from."""
        request = self.make(n)
        return request.question(request.points[0], request.budget.at_least(Effort.ALL)), request

    def at(self, n: int) -> Counts | None:
        """Return the cost at a size; None if no exact prediction is possible."""
        if n not in self.known:
            self.known[n] = self._predicted(n) if self.predictable else None
        return self.known[n]

    def counted(self, n: int, q: Question) -> Counts | None:
        """Return the counted cost at a size that is run; if it differs from the prediction, predictions stop."""
        made = self._recorded(n, q)
        if made is None:
            return self.at(n)
        found = counts(made)
        expected = self.known.get(n)
        self.predictable &= expected is None or expected == (found if expected.counted else found.of_shapes)
        self.known[n] = found
        return found

    @property
    def recorded(self) -> list[tuple[int, Counts]]:
        """The costs of the recorded sizes, in order of size."""
        return [(n, counts(made)) for n, made in sorted(self.outlines.items()) if made is not None]

    def _recorded(self, n: int, q: Question | None = None) -> Outline | None:
        """Return the outline of the program at a size; None if it has too many lines. Errors of the function are raised."""
        if n not in self.outlines:
            with np.errstate(all="ignore"):
                self.outlines[n] = outline(q or self.question(n)[0], self.name)
        return self.outlines[n]

    def _predicted(self, n: int) -> Counts | None:
        """Return the cost by the first way of prediction that is exact at one more size; None if none is."""
        for view, finish in _WAYS:
            for spacing in SPACINGS:
                tried = [n % spacing + spacing * k for k in range(1, TRIED + 1)]
                try:
                    found = [self._recorded(m) for m in tried]
                    seen = [view(made) for made in found if made is not None]
                    predicted = finish(at_size(tried, seen, n)) if len(seen) == TRIED else None
                    if predicted is not None and self._holds(tried, seen, n, view, finish):
                        return predicted
                except (GradcliError, NotPolynomial, MemoryError):
                    continue  # the function is undefined at some size, or follows no polynomial
        return None

    def _holds(self, tried: Sequence[int], seen: Sequence[Any], n: int, view: _View, finish: _Finish) -> bool:
        """Whether the prediction is exact at one more size: the largest below n that is quick to record; True if none is."""
        spacing = tried[1] - tried[0]
        for m in reversed([tried[-1] + spacing * 2**k for k in range(20) if tried[-1] + spacing * 2**k < n]):
            expected = at_size(tried, seen, m)
            takes = finish(expected)
            work = takes.gradient_work + takes.tangent_work if takes.counted else m * _UNKNOWN
            if work + takes.input_bytes <= MOST_TRIED and takes.lines <= MOST_TRIED_LINES:
                made = self._recorded(m)
                return made is not None and view(made) == expected
        return True


def growth(
    name: str, sizes: Sequence[int], make: Callable[[int], Request], derivative: Derivative = "Jacobian"
) -> Growth:
    """Return the cost of each mode at every size; `derivative` names the derivative of a vector result in sentences.

    Raises  BadOption for fewer than two sizes; any error of `make` or of the function at the smallest size.
    """
    wanted = sorted(set(sizes))
    if len(wanted) < 2:
        raise BadOption("--sizes needs two sizes at least", do=f"--sizes {name}=10,100,1000")
    program = Prediction(name, make)
    rows: list[Row] = []
    messages: list[str] = []
    modes: tuple[str, ...] = ()
    for n in wanted:
        why = _why_not(program, n) if rows else None
        if why is None:
            try:
                row, modes = _measured(n, program)
                rows.append(row)
                continue
            except (TooLarge, MemoryError) as error:
                if not rows:
                    raise
                why = error.what if isinstance(error, GradcliError) else "there is not enough memory"
        messages.append(f"{name}={n:,} was not run: {why}.")
        takes = program.at(n)
        if takes is None or (takes.traced and not takes.counted):
            messages.append(
                f"{'What' if takes is None else 'How many operations'} {name}={n:,} takes is not predicted: {_WHY_NOT}."
            )
        rows.append(_row(n, takes))
    rows = [_completed(row, [r for r in rows if r.run], modes, program) for row in rows]
    said = (*_in_words(name, rows, derivative), *messages)
    return Growth(name, tuple(rows), _exponents(rows), tuple(_crossings(rows)), said, derivative)


def _why_not(program: Prediction, n: int) -> str | None:
    """Return why a size is not run: its cost is too large, or unknown and possibly too large; None if it is run."""
    takes = program.at(n) if n > _ALWAYS else None
    if takes is not None and _needs(takes) > MOST_BYTES:
        return f"f and its record take {_needs(takes):,} bytes; the limit is {MOST_BYTES:,}"
    if takes is not None and takes.counted:
        return None if takes.gradient_work <= MOST_WORK else f"a gradient takes {takes.gradient:,} operations"
    known = program.recorded
    for pick, most in ((_needs, MOST_BYTES), (_work, MOST_WORK)):
        if n > _ALWAYS and _extrapolated([(m, pick(c)) for m, c in known], n) > most:
            return "its cost is not known, and judging by smaller sizes it may be too large"
    return None


def _needs(takes: Counts) -> int:
    return takes.input_bytes + takes.tape_bytes + takes.live_bytes


def _work(takes: Counts) -> int:
    return takes.gradient_work


def _extrapolated(known: Sequence[tuple[int, int]], n: int) -> float:
    """Return a count extrapolated to size n, by the exponent between the last two sizes, or by the cube of one size."""
    if not known:
        return np.inf
    if len(known) == 1:
        ((m, y),) = known
        return float(y * (n / m) ** _CUBE)
    (m0, y0), (m, y) = known[-2:]
    return float(y * (n / m) ** max(1.0, np.log(max(1, y) / max(1, y0)) / np.log(m / m0)))


def _measured(n: int, program: Prediction) -> tuple[Row, tuple[str, ...]]:
    """Return the row of one size with every mode that is not too much work, and the requested modes."""
    q, request = program.question(n)
    q.prepare()
    takes = program.counted(n, q)
    cells: dict[str, Cell] = {}
    formula: tuple[int | None, int | None] = (None, None)
    for mode in request.modes:
        estimate = attempt(MODES[mode], q).estimate if _affordable(takes, mode) else None
        if estimate is not None:
            formula = (estimate.cost.formula, estimate.cost.shared) if mode == "symbolic" else formula
            took = cost.least_seconds(q, mode, estimate.cost)
            cell = _counted(takes, mode, estimate.cost.evaluations)
            cells[mode] = replace(
                cell, seconds=took, relative_time=took / q.seconds, peak_bytes=cost.measured_bytes(q, mode)
            )
    over = None
    deep = shape(q.value) == () and len(q.lines) >= _LONG
    if "reverse" in cells and deep and takes is not None and takes.gradient_work <= MOST_RECOMPUTED:
        cells[CHECKPOINTED], over = _recomputing(q, takes)
    row = _row(n, takes, run=True)
    peak = cost.measured_bytes(q, "finite-difference")
    return replace(
        row, modes=cells, entries=q.entries, f_seconds=q.seconds, f_peak_bytes=peak, recomputing_time=over,
        formula=formula[0], formula_shared=formula[1],
        formula_program=takes.gradient if takes is not None and takes.counted and formula[0] is not None else None,
    ), request.modes  # fmt: skip


def _affordable(takes: Counts | None, mode: str) -> bool:
    """Whether the counted work and memory of a mode are within the limits, so that it is run."""
    if takes is None or not takes.counted:
        return takes is None or TAME * takes.entries <= MOST_CALLS
    most = {"certified": MOST_BALLS, "symbolic": MOST_FORMULA}.get(mode, MOST_WORK)
    needs = takes.input_bytes + takes.jacobian_bytes + (takes.held_bytes(mode) or 0)
    return takes.work(mode, TAME) <= most and needs <= MOST_BYTES


def _counted(takes: Counts | None, mode: str, evaluations: int | None) -> Cell:
    """Return the counts of a mode; `evaluations` is used if their number depends on values."""
    if takes is None:
        return Cell(evaluations)
    calls = takes.evaluations(mode)
    calls = evaluations if calls is None else calls
    return Cell(calls, takes.sweeps(mode), takes.operations(mode, calls), takes.held_bytes(mode))


def _row(n: int, takes: Counts | None, run: bool = False) -> Row:
    if takes is None:
        return Row(n, run)
    return Row(
        n, run, not run, takes.entries, takes.outputs, takes.input_bytes, takes.jacobian_bytes,
        takes.function if takes.counted else None,
        operations_ratio=takes.gradient / takes.function if takes.function else None,
    )  # fmt: skip


# Gradients by checkpointing: recompute a recorded program of L lines in sqrt(L) segments instead of storing all values.
#
# Source  Griewank and Walther (2008), Evaluating Derivatives, chapter 12; Chen et al. (2016), sublinear memory cost.


@dataclass(frozen=True, slots=True)
class Skeleton:
    """A recorded program without its values; `last[k]` is the last line that uses slot k."""

    lines: tuple[Line, ...]
    inputs: tuple[int, ...]
    last: tuple[int, ...]

    @property
    def segment(self) -> int:
        """The length of a segment: the square root of the program's length."""
        return max(1, int(np.sqrt(len(self.lines))))


def skeleton(program: Program) -> Skeleton:
    """Return the lines of a recorded program without the values of its variables; constants are kept."""
    y, inputs, tape = program
    lines: list[Line] = []
    last = list(range(y.slot + 1))
    for k, (primitive, slots, xs, _, params, _) in enumerate(tape.lines[: y.slot + 1]):
        constants = tuple(x if slot == CONSTANT else None for slot, x in zip(slots, xs, strict=True))
        lines.append((primitive, slots, constants, None, params, None))
        for slot in slots:
            if slot != CONSTANT:
                last[slot] = k
    last[y.slot] = len(lines)
    return Skeleton(tuple(lines), tuple(x.slot for x in inputs), tuple(last))


def gradient(made: Skeleton, xs: Sequence[Any], segment: int | None = None) -> list[Any]:
    """Return the gradient of a scalar program; values are stored only at the starts of segments, and the rest recomputed.

    Without `segment` everything is stored.

    Shapes  the gradients have the shapes of `xs`.
    Cost    f twice at most, and one reverse sweep; the values of one segment and those alive at the starts are held.
    """
    count = len(made.lines)
    length = segment or count
    starts = range(0, count, length)
    values: dict[int, Any] = dict(zip(made.inputs, xs, strict=True))
    lines: list[Line] = [SPENT] * count
    kept: list[dict[int, Any]] = []
    for start in starts:
        kept.append(dict(values))
        stop = min(start + length, count)
        if stop < count:
            _run(made, values, start, stop)
            values = {k: x for k, x in values.items() if made.last[k] >= stop or k in made.inputs}
    bars: list[Any] = [None] * count
    bars[-1] = np.float64(1)
    for start in reversed(starts):
        stop = min(start + length, count)
        lines[start:stop] = _run(made, kept.pop(), start, stop)
        sweep_back(lines, bars, stop - 1, start, keep=False, once=True)
    return [np.zeros(np.shape(x)) if bars[k] is None else bars[k] for k, x in zip(made.inputs, xs, strict=True)]


def _run(made: Skeleton, values: dict[int, Any], start: int, stop: int) -> list[Line]:
    """Run one segment and return its lines with their values; the values are also added to `values`."""
    lines = []
    for k in range(start, stop):
        primitive, slots, constants, y, params, position = made.lines[k]
        xs: Sequence[Any] = constants
        if primitive is not None:
            xs = [x if slot == CONSTANT else values[slot] for slot, x in zip(slots, constants, strict=True)]
            y = values[k] = primitive.fun(*xs, **(params or {}))
        lines.append((primitive, slots, xs, y, params, position))
    return lines


def _recomputing(q: Question, takes: Counts) -> tuple[Cell, float | None]:
    """Return the cost of a reverse sweep with checkpoints, and its time divided by that of a sweep that stores everything."""
    if not isinstance(q.recording.y, Recorded):
        return Cell(1, 1, takes.gradient, seconds=0.0, relative_time=0.0, peak_bytes=0), None
    made = skeleton(q.recording)
    xs = list(q.xs)
    runs: dict[int, Callable[[], object]] = {0: lambda: gradient(made, xs), 1: lambda: gradient(made, xs, made.segment)}
    best = {0: np.inf, 1: np.inf}
    with np.errstate(all="ignore"):
        for _ in range(_TIMES):
            for k, run in runs.items():
                start = time.perf_counter()
                run()
                best[k] = min(best[k], time.perf_counter() - start)
    took = float(best[1])
    cell = _recomputed(takes)
    return replace(cell, seconds=took, relative_time=took / q.seconds, peak_bytes=cost.peak_bytes(runs[1])), float(
        best[1] / best[0]
    )


def _recomputed(takes: Counts) -> Cell:
    """Return the counts of a reverse sweep with checkpoints, in which f runs twice. Its memory is not predicted."""
    return Cell(2, 1, takes.gradient - takes.recomputed + takes.function if takes.counted else None)


def _completed(row: Row, ran: Sequence[Row], modes: Sequence[str], program: Prediction) -> Row:
    """Return a row completed by the modes that were not run, with their counts and estimated times."""
    takes = program.at(row.size)
    if takes is None:
        return row
    seconds = row.f_seconds
    if seconds is None:
        last = program.at(ran[-1].size)
        seconds = _scaled(ran[-1].f_seconds, last and last.function_work, takes.function_work)
    cells = dict(row.modes)
    for mode in (*modes, CHECKPOINTED):
        known = next((r for r in reversed(ran) if mode in r.modes), None)
        if mode in cells or (mode == CHECKPOINTED and (row.run or known is None)):
            continue
        last = None if known is None else program.at(known.size)
        before = None if known is None or last is None else (known.modes[mode], last)
        cell = _predicted_cell(mode, before, takes, seconds)
        cells |= {} if cell is None else {mode: cell}
    return replace(row, modes=cells, f_seconds=seconds)


def _predicted_cell(
    mode: str, before: tuple[Cell, Counts] | None, takes: Counts, f_seconds: float | None
) -> Cell | None:
    """Return the counts of a mode that was not run, with its time estimated from a smaller size; None if nothing is counted."""
    known, then = before or (Cell(None), takes)
    guess = mode == "finite-difference" and known.evaluations
    calls = round(known.evaluations * takes.entries / max(1, then.entries)) if guess and known.evaluations else None
    cell = _recomputed(takes) if mode == CHECKPOINTED else _counted(takes, mode, calls)
    if cell.evaluations is None:
        return None
    of = "reverse" if mode == CHECKPOINTED else mode
    seconds = _scaled(known.seconds, then.work(of, TAME), takes.work(of, TAME))
    relative = seconds / f_seconds if seconds is not None and f_seconds else None
    held = cell.held_bytes
    made = replace(
        cell, predicted=True, seconds=seconds, relative_time=relative,
        peak_bytes=None if held is None else held + takes.jacobian_bytes,
    )  # fmt: skip
    guessed = (("evaluations", "operations") if calls is not None else ()) + ("seconds", "relative_time")
    return replace(made, estimated=tuple(name for name in guessed if getattr(made, name) is not None))


def _scaled(seconds: float | None, then: int | None, now: int) -> float | None:
    """Return a measured time scaled from the work `then` to the work `now`; None if one is unknown."""
    return seconds * now / then if seconds is not None and then and now else None


def _exponents(rows: Sequence[Row]) -> dict[str, Exponents]:
    """Return the exponents by which the counts of all sizes, and the times of the sizes that were run, grow."""
    found = {}
    for mode in dict.fromkeys(mode for row in rows for mode in row.modes):
        cells = [(row.size, row.modes[mode]) for row in rows if mode in row.modes]
        ran = [(n, cell) for n, cell in cells if not cell.predicted]
        found[mode] = Exponents(
            _exponent([(n, c.evaluations) for n, c in cells if "evaluations" not in c.estimated]),
            _exponent([(n, c.sweeps) for n, c in cells]),
            _exponent([(n, c.operations) for n, c in cells if "operations" not in c.estimated]),
            _exponent([(n, c.held_bytes) for n, c in cells]),
            _exponent([(n, c.seconds) for n, c in ran]),
            _exponent([(n, c.peak_bytes) for n, c in ran]),
        )
    return found


def _exponent(pairs: Sequence[tuple[int, float | None]]) -> float | None:
    """Return the exponent by which the figures of the largest sizes grow; None if too few are known."""
    known = [(n, float(y)) for n, y in pairs if y][-_FIT:]
    if len(known) < 2 or len(known) < min(_FIT, len(pairs)):
        return None
    x, y = [n for n, _ in known], [figure for _, figure in known]
    return log_slope(x, y) if len(x) > 2 else float(np.log(y[1] / y[0]) / np.log(x[1] / x[0]))


def _crossings(rows: Sequence[Row]) -> list[Crossing]:
    """Return the sizes at which a mode becomes faster than another that was faster before."""
    found = []
    modes = [mode for mode in dict.fromkeys(mode for row in rows for mode in row.modes) if mode in MODES]
    for a, b in itertools.permutations(modes, 2):
        both = [(row.size, row.modes[a], row.modes[b]) for row in rows if a in row.modes and b in row.modes]
        timed = [(n, _log_ratio(x, y), x.predicted or y.predicted) for n, x, y in both if x.seconds and y.seconds]
        for (n, before, _), (m, after, predicted) in itertools.pairwise(timed):
            if before > 0 >= after:
                share = before / (before - after)
                found.append(Crossing(a, b, float(n * (m / n) ** share), predicted))
    return found


def _log_ratio(x: Cell, y: Cell) -> float:
    return float(np.log((x.seconds or 1.0) / (y.seconds or 1.0)))


def _in_words(name: str, rows: Sequence[Row], derivative: Derivative) -> Iterator[str]:
    """Yield sentences that summarise the figures."""
    yield from _sweeps_in_words(name, rows, derivative)
    f = primal(derivative)
    ratios = [(row.size, row.operations_ratio) for row in rows if row.operations_ratio is not None]
    if ratios:
        low, high = (pick(ratio for _, ratio in ratios) for pick in (min, max))
        if high <= _SAME * low:
            times = " to ".join(dict.fromkeys(f"{ratio:.2g}" for ratio in (low, high)))
            always = f", whatever {name} is" if len(ratios) > 1 else ""
        else:
            times, always = " to ".join(f"{ratio:.2g} (at {name}={n:,})" for n, ratio in (ratios[0], ratios[-1])), ""
        cheap = f" (the cheap gradient principle: {_CHEAP} at most)" if high <= _CHEAP else ""
        yield f"One reverse sweep takes {times} times the operations of {f}, its run forward included{always}{cheap}."
    overs = [(row.size, row.recomputing_time) for row in rows if row.recomputing_time is not None]
    if overs:
        yield (
            f"checkpointed: the reverse sweep over the recorded program in sqrt(L) segments, each run again; at {name}="
            f"{overs[-1][0]:,} it takes {overs[-1][1]:.2f} of the time of one that stores everything."
        )
    sizes = [row.size for row in rows if row.run and "symbolic" not in row.modes]
    if sizes and any("symbolic" in row.modes for row in rows):
        yield f"From {name}={min(sizes):,} on the formula of the symbolic mode is too large."


def _sweeps_in_words(name: str, rows: Sequence[Row], derivative: str) -> Iterator[str]:
    """Yield a sentence with the number of sweeps of a Jacobian, if the result is a vector."""
    known = [row for row in rows if row.outputs is not None]
    if not any(row.outputs != 1 for row in known):
        return
    outputs, entries = (_at_sizes(name, [(row.size, pick(row)) for row in known]) for pick in (_outputs, _entries))
    yield (
        f"A {derivative} takes one reverse sweep for each output ({outputs}), or one forward sweep for each entry of the "
        f"inputs ({entries})."
    )


def _outputs(row: Row) -> int:
    return row.outputs or 0


def _entries(row: Row) -> int:
    return row.entries or 0


def _at_sizes(name: str, figures: Sequence[tuple[int, int]]) -> str:
    """Return figures in words with their sizes; one figure if it is the same for all sizes."""
    if len({figure for _, figure in figures}) == 1:
        return f"{figures[0][1]:,} whatever {name} is"
    if all(n == figure for n, figure in figures):
        return name
    return ", ".join(f"{figure:,} at {name}={n:,}" for n, figure in figures)
