"""How evaluations, time and memory of each mode grow with a size, measured where it is quick enough, predicted beyond."""

import itertools
import time
from collections.abc import Callable, Sequence

import numpy as np

from gradcli.core.shapes import shape
from gradcli.errors import BadOption, GradcliError, TooLarge
from gradcli.interpreters.tape import Recorded
from gradcli.modes.mode import Question
from gradcli.modes.registry import MODES
from gradcli.modes.work import Effort
from gradcli.numerics.slopes import log_slope
from gradcli.report.growth import CHECKPOINTED, Cell, Crossing, Exponents, Growth, Row
from gradcli.source.memory import memory_bytes
from gradcli.study import checkpointing, cost
from gradcli.verify.check import Request
from gradcli.verify.compare import attempt

QUICK = 2.0  # seconds that a mode may take at one size, unless --mode-timeout is less
_SLOW = 0.5  # seconds: a longer sweep is not run again in segments
_FIT = 3  # measured sizes, the largest, that an exponent is fitted to
_EACH = ("finite-difference", "forward", "complex-step")  # modes that evaluate f for each entry
_SHARE = 0.5  # of the memory that is free
_LONG = 16  # lines: shorter programs have nothing to recompute
_TIMES = 3
_POWERS, _HALVINGS = (0.1, 6.0), 40


def growth(name: str, sizes: Sequence[int], make: Callable[[int], Request], timeout: float | None = None) -> Growth:
    """Return the cost of each mode at every size.

    Raises  BadOption for fewer than two sizes; what `make` raises at the smallest.
    """
    wanted = sorted(set(sizes))
    if len(wanted) < 2:
        raise BadOption("--sizes needs two sizes at least", do=f"--sizes {name}=10,100,1000")
    started = time.perf_counter()
    rows: list[Row] = []
    messages: list[str] = []
    for n in wanted:
        why = _why_not(rows, n, started, timeout)
        if why is None:
            try:
                rows.append(_measured(n, make(n)))
                continue
            except (TooLarge, MemoryError) as error:
                if not rows:
                    raise
                why = error.what if isinstance(error, GradcliError) else "there is not enough memory"
        rows.append(Row(n, 0, 0.0, None, {}, True))
        messages.append(f"{name}={n:,} was not run: {why}.")
    measured = [row for row in rows if not row.predicted]
    if len(measured) == 1 and len(rows) > 1:
        messages.append(f"One size was measured, {name}={measured[0].size:,}: it tells nothing of growth.")
    rows = [_completed(row, measured) for row in rows]
    return Growth(name, tuple(rows), _exponents(measured), tuple(_crossings(rows)), (*_said(name, measured), *messages))


def _why_not(rows: Sequence[Row], n: int, started: float, timeout: float | None) -> str | None:
    """Return why a size is not run: no time is left, or its memory, as it grew so far, is not there."""
    if timeout is not None and time.perf_counter() - started > timeout:
        return f"{timeout:g} s are over"
    done = [row for row in rows if not row.predicted and row.f_peak_bytes]
    if len(done) > 1:
        needs = {"f": _bytes([r.size for r in done], [float(r.f_peak_bytes or 0) for r in done], n)}
        kept = [r for r in done if "reverse" in r.modes and r.modes["reverse"].peak_bytes]
        if len(kept) > 1:  # what it stores is the record that every other mode needs too
            peaks = [float(r.modes["reverse"].peak_bytes or 0) for r in kept]
            needs["its record"] = _bytes([r.size for r in kept], peaks, n)
        for what, need in needs.items():
            if need > _SHARE * memory_bytes():
                return f"{what} would need about {need / 2**30:.2g} GiB"
        took = _extrapolated([r.size for r in done], [r.f_seconds for r in done], n)
        if timeout is not None and 10 * took > timeout:
            return f"one evaluation of f would take about {took:.2g} s"
    return None


def _measured(n: int, request: Request) -> Row:
    """Return one size, every mode run that is quick enough."""
    q = Question(request.f, request.points[0], request.wrt, request.seed, Effort.DEFAULT, None, request.stepping)
    q.prepare()
    cells: dict[str, Cell] = {}
    for mode in request.modes:
        estimate = attempt(MODES[mode], q).estimate
        if estimate is not None:
            took = cost.least_seconds(q, mode, estimate.cost)
            peak = cost.measured_bytes(q, mode, took / max(1, estimate.cost.evaluations))
            cells[mode] = Cell(estimate.cost.evaluations, took, took / q.seconds, peak, False)
    ratio = over = None
    if not q.untraced and len(q.lines) <= cost.MOST_LINES:
        ratio = cost.of_reverse(q).total / max(1, cost.of_function(q).total)
    if "reverse" in cells and shape(q.value) == () and len(q.lines) >= _LONG and cells["reverse"].seconds < _SLOW:
        cells[CHECKPOINTED], over = _recomputing(q)
    return Row(
        n, q.entries, q.seconds, cost.measured_bytes(q, "finite-difference", q.seconds), cells, False, ratio, over
    )


def _recomputing(q: Question) -> tuple[Cell, float | None]:
    """Return what the reverse sweep takes when it recomputes, and its time over that of one which stores."""
    y, inputs, tape = q.recording
    if not isinstance(y, Recorded):
        return Cell(1, 0.0, 0.0, 0, False), None
    made = checkpointing.program(y, inputs, tape)
    xs = list(q.xs)
    runs: dict[int, Callable[[], object]] = {
        0: lambda: checkpointing.gradient(made, xs),
        1: lambda: checkpointing.gradient(made, xs, made.segment),
    }
    best = {0: np.inf, 1: np.inf}
    with np.errstate(all="ignore"):
        for _ in range(_TIMES):
            for k, run in runs.items():
                start = time.perf_counter()
                run()
                best[k] = min(best[k], time.perf_counter() - start)
    over = float(best[1] / best[0])
    return Cell(2, float(best[1]), float(best[1]) / q.seconds, cost.peak_bytes(runs[1]), False), over


def _exponents(measured: Sequence[Row]) -> dict[str, Exponents]:
    found = {}
    for mode in dict.fromkeys(mode for row in measured for mode in row.modes):
        rows = [row for row in measured if mode in row.modes]
        cells = [row.modes[mode] for row in rows]
        sizes = [row.size for row in rows]
        bytes_ = [float(c.peak_bytes) for c in cells if c.peak_bytes]
        found[mode] = Exponents(
            _exponent(sizes, [float(c.evaluations) for c in cells]),
            _exponent(sizes, [c.seconds for c in cells]),
            _exponent(sizes, bytes_) if len(bytes_) == len(cells) else None,
        )
    return found


def _exponent(sizes: Sequence[int], ys: Sequence[float]) -> float | None:
    """Return the power by which the figures of the largest sizes grow."""
    x, y = list(sizes)[-_FIT:], list(ys)[-_FIT:]
    if len(x) < 2 or min(y) <= 0:
        return None
    return log_slope(x, y) if len(x) > 2 else float(np.log(y[1] / y[0]) / np.log(x[1] / x[0]))


def _extrapolated(sizes: Sequence[int], ys: Sequence[float], n: int) -> float:
    """Return what the last two figures grow to: small sizes tell of overheads, not of growth."""
    power = _exponent(sizes[-2:], ys[-2:])
    return float(ys[-1] * (n / sizes[-1]) ** (power or 0.0))


def _bytes(sizes: Sequence[int], ys: Sequence[float], n: int) -> float:
    """Return the memory that the last figures grow to: a + b n^p through three, for what all sizes hold hides the rest."""
    if len(sizes) < _FIT or not ys[-3] < ys[-2] < ys[-1]:
        return _extrapolated(sizes, ys, n)
    (n0, n1, n2), (y0, y1, y2) = sizes[-_FIT:], ys[-_FIT:]
    wanted, low, high = (y2 - y1) / (y1 - y0), *_POWERS

    def ratio(p: float) -> float:
        return float((n2**p - n1**p) / (n1**p - n0**p))

    if not ratio(low) < wanted < ratio(high):
        return _extrapolated(sizes, ys, n)
    for _ in range(_HALVINGS):
        p = (low + high) / 2
        low, high = (p, high) if ratio(p) < wanted else (low, p)
    return float(y2 + (y2 - y1) * (n**p - n2**p) / (n2**p - n1**p))


def _completed(row: Row, measured: Sequence[Row]) -> Row:
    """Return a row in which what was not run is predicted from the smaller sizes."""
    known = [r for r in measured if r.size < row.size]
    if not known or (row.predicted and len(known) == 1):
        return row
    sizes = [r.size for r in known]
    entries, f_seconds, memory = row.entries, row.f_seconds, row.f_peak_bytes
    if row.predicted:
        entries = round(_extrapolated(sizes, [float(r.entries) for r in known], row.size))
        f_seconds = _extrapolated(sizes, [r.f_seconds for r in known], row.size)
        memory = round(_bytes(sizes, [float(r.f_peak_bytes or 1) for r in known], row.size))
    cells = dict(row.modes)
    for mode in dict.fromkeys(mode for r in known for mode in r.modes):
        if mode not in cells:
            cells[mode] = _predicted(mode, [r for r in known if mode in r.modes], row.size, entries, f_seconds)
    return Row(row.size, entries, f_seconds, memory, cells, row.predicted, row.operations_ratio, row.recomputing_time)


def _predicted(mode: str, known: Sequence[Row], n: int, entries: int, f_seconds: float) -> Cell:
    """Return a cell for a size that was not run.

    Modes that evaluate f for each entry take as many evaluations more, each as long as now in times of f; of others, the
    larger of what their last times grew by and what f does.
    """
    last = known[-1]
    cell = last.modes[mode]
    grown = entries / max(1, last.entries) if mode in _EACH else 1.0
    took = cell.relative_time * grown * f_seconds
    if mode not in _EACH and len(known) > 1:
        took = max(took, _extrapolated([r.size for r in known], [r.modes[mode].seconds for r in known], n))
    peaks = [float(r.modes[mode].peak_bytes or 0) for r in known]
    peak = round(_bytes([r.size for r in known], peaks, n)) if min(peaks) > 0 and len(known) > 1 else None
    return Cell(round(cell.evaluations * grown), took, took / f_seconds, peak, True)


def _crossings(rows: Sequence[Row]) -> list[Crossing]:
    """Return where a mode that was slower becomes faster than another."""
    found = []
    modes = [mode for mode in dict.fromkeys(mode for row in rows for mode in row.modes) if mode in MODES]
    for a, b in itertools.permutations(modes, 2):
        both = [(row.size, row.modes[a], row.modes[b]) for row in rows if a in row.modes and b in row.modes]
        for (n, a0, b0), (m, a1, b1) in itertools.pairwise(both):
            before, after = np.log(a0.seconds / b0.seconds), np.log(a1.seconds / b1.seconds)
            if before > 0 >= after:
                share = before / (before - after)
                found.append(Crossing(a, b, float(n * (m / n) ** share), a1.predicted or b1.predicted))
    return found


def _said(name: str, measured: Sequence[Row]) -> list[str]:
    """Return what the figures come to, in sentences."""
    lines = []
    ratios = [row.operations_ratio for row in measured if row.operations_ratio is not None]
    if ratios:
        times = " to ".join(dict.fromkeys(f"{ratio:.2g}" for ratio in (min(ratios), max(ratios))))
        lines.append(
            f"One reverse sweep takes {times} times the operations of f, whatever the size "
            "(the cheap gradient principle: 2 to 4)."
        )
    overs = [row.recomputing_time for row in measured if row.recomputing_time is not None]
    if overs:
        lines.append(
            f"checkpointed: the reverse sweep over the recorded program in sqrt(L) segments, each run again; at {name}="
            f"{measured[-1].size:,} it takes {overs[-1]:.2f} of the time of one that stores everything."
        )
    sizes = [row.size for row in measured if "symbolic" not in row.modes]
    if sizes and any("symbolic" in row.modes for row in measured):
        lines.append(f"From {name}={min(sizes):,} on the formula of the symbolic mode is too large.")
    return lines
