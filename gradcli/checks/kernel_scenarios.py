"""Compare an implementation with its reference in the circumstances in which kernels go wrong: each is a row."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from typing import Any

import numpy as np

from gradcli.arithmetic.recorded_program import RecordedProgram, record
from gradcli.checks.evidence import LESS_EXACT, error_ratios
from gradcli.checks.framework_claim import FrameworkClaim, draw_output_weights, with_function
from gradcli.checks.lost_digits import limit_of_wide
from gradcli.checks.request import Request
from gradcli.classes import dataclass
from gradcli.errors import GradcliError, NotSupported
from gradcli.frameworks.framework import EPS as FORMATS
from gradcli.frameworks.framework import Run
from gradcli.frameworks.native import native_of
from gradcli.modes.bounds import Shake, apply_least_error, perturb_program, undecided_if_raised
from gradcli.modes.claim import GRANT, TYPICAL
from gradcli.modes.rounding import EPS, errors_change, loses_as_many_digits
from gradcli.report import numbers
from gradcli.report.check import CheckReport, Comparison
from gradcli.report.common import ABSENT, finding
from gradcli.report.point_report import Aspect
from gradcli.targets.derived import original_function
from gradcli.targets.facts import Function, restrict_to_inputs
from gradcli.targets.python import PythonFunction, message_of
from gradcli.tracing.shapes import largest_magnitude, shape
from gradcli.tracing.tracer import plain_value
from gradcli.words import Exit, Kind, Severity, Verdict

Values = Mapping[str, Any]
_MOST_TEXT = 100  # characters of an error's message in a row
_CHANGES = (0.5, 1.5)  # factors between which values are changed: signs and zeros stay


# What an implementation and its reference compute at any values of the inputs, and how far apart rounding may set them.

VALUE = "value"
RAISED = (GradcliError, RuntimeError, TypeError, ValueError, IndexError)  # by an implementation or its reference
_RUNS = 8  # with random rounding errors, from which typical errors are estimated
_SUMS = 64.0  # ulps of the largest entry: what sums that are not kept in a wider format may be off
_MORE = 3.0  # times the error at the point: what a less exact implementation may be off at other values
Quantities = dict[str, Any]  # the value of f as a vector, and the gradient of <w, f> by input


@dataclass(eq=False)
class Reference:
    """What the reference computes in float64, and the typical errors of its formula in a format of machine epsilon `eps`.

    `rounds_like` is a function with the same formula in other formats, if the errors are those of that. Results are kept by the
    mapping of values, as long as this object lives.
    """

    f: Function
    point: Values
    wrt: tuple[str, ...]
    seed: int
    eps: float
    rounds_like: PythonFunction | None = None
    _kept: dict[int, tuple[Values, RecordedProgram, Quantities]] = field(default_factory=dict)
    _typical: dict[int, Quantities] = field(default_factory=dict)

    def weights(self, values: Values) -> Any:
        """Return the weights w of the outputs; 1 for a scalar."""
        y = self.f(values)
        return np.float64(1.0) if shape(y) == () else draw_output_weights(self.seed, y)

    def right(self, values: Values) -> Quantities:
        """Return the value and the gradient. Raises GradcliError if f does not take these values, or cannot be traced."""
        return self._record_at(values)[2]

    def _record_at(self, values: Values) -> tuple[Values, RecordedProgram, Quantities]:
        if id(values) not in self._kept:
            program = self._record(self.f, values)
            self._kept[id(values)] = values, program, self._pull(program, values)
        return self._kept[id(values)]

    def _record(self, f: Function, values: Values) -> RecordedProgram:
        return record(restrict_to_inputs(f, values, self.wrt), [values[name] for name in self.wrt])

    def _pull(self, program: RecordedProgram, values: Values) -> Quantities:
        bars = map(np.asarray, program.pull(self.weights(values)))
        return name_quantities(self.wrt, np.asarray(plain_value(program.y), dtype=float), bars)

    def typical(self, values: Values) -> Quantities:
        """Return the root mean square of the errors that random roundings make."""
        if id(values) not in self._typical:
            exact, runs = self._runs_with_rounding(values)
            roots = {
                key: np.sqrt(np.mean([np.square(np.nan_to_num(run[key] - x)) for run in runs], axis=0))
                for key, x in exact.items()
            }
            self._typical[id(values)] = {key: apply_least_error(x, exact[key], self.eps) for key, x in roots.items()}
        return self._typical[id(values)]

    def _runs_with_rounding(self, values: Values) -> tuple[Quantities, list[Quantities]]:
        """Return the quantities without rounding errors, and some runs with random ones."""
        f = self.rounds_like or self.f
        native = native_of(f)
        if native is not None and isinstance(f, PythonFunction):
            rounding = [with_function(f, native.with_rounding(run)) for run in range(_RUNS)]
            with suppress(NotSupported):  # where it is not known how one of its operations rounds
                exact, *runs = (self._pull(self._record(g, values), values) for g in (f, *rounding))
                return exact, runs
        _, program, exact = self._record_at(values)
        shakes = (Shake(self.seed + run, 0.5 * self.eps / EPS) for run in range(_RUNS))
        with undecided_if_raised():
            return exact, [self._pull(perturb_program(program, shake, kernels=False), values) for shake in shakes]


class Side:
    """An implementation in one format beside its reference.

    `compute(values)` returns its quantities. `narrow` is the machine epsilon of the format that is asked about, `eps` that of
    the format in which this side computes. `off` is the largest error at the point, in typical errors.
    """

    def __init__(
        self, reference: Reference, compute: Callable[[Values], Quantities], own: FrameworkClaim | None, eps: float
    ) -> None:
        self.reference, self.compute, self.own, self.eps = reference, compute, own, eps
        self.granted = TYPICAL if eps > EPS else GRANT
        self.sums = _SUMS if eps <= FORMATS["float32"] else 0.0
        self.wider: Side | None = None
        self.off = 0.0

    def row(self, name: str, found: Quantities, values: Values) -> Aspect:
        """Return how the quantities found at some values compare with the reference's."""
        right, typical = self.reference.right(values), self.reference.typical(values)
        over = {}
        for key, x in found.items():
            y, what = right[key], _name_quantity(key)
            if np.shape(x) != np.shape(y):
                return Aspect(name, "wrong", message=f"{what} has shape {np.shape(x)}, not {np.shape(y)}")
            if np.any(~np.isfinite(x) & np.isfinite(y)):
                return Aspect(name, "wrong", message=f"{what} is not finite where the reference's is")
            least = self.eps * np.maximum(np.abs(y), self.sums * np.max(np.abs(y), initial=0.0))
            mask = np.abs(x - y) > max(self.granted, _MORE * self.off) * typical[key] + least
            if np.any(mask):
                over[key] = mask
        if not over:
            says = self._describe_error_ratio(found, values) if self.eps > EPS else ABSENT
            return Aspect(name, "agrees", message=says)
        error, key = max((relative_error(found[key], right[key]), key) for key in over)
        if self._is_rounding(found, values, over, error):
            return Aspect(name, "differs", error, message=self._describe_error_ratio(found, values))
        return report_wrong_quantity(name, key, error)

    def error_ratios(self, found: Quantities, values: Values) -> tuple[float, float]:
        """Return the errors over the typical errors of the reference's formula: of the worst quantity, and entry."""
        return error_ratios(found, self.reference.right(values), self.reference.typical(values), self.eps / EPS)

    def _describe_error_ratio(self, found: Quantities, values: Values) -> str:
        ratio, _ = self.error_ratios(found, values)
        return f"{'right, but ' if ratio > LESS_EXACT else ''}{numbers.two_digits(ratio)} times the reference's error"

    def _is_rounding(self, found: Quantities, values: Values, over: Quantities, error: float) -> bool:
        """Whether the errors are those of rounding: much smaller in a wider format, or changing between nearby points."""
        try:
            same = self.compute(values)
        except RAISED:
            return False
        for key, mask in over.items():  # a mistake of one run alone, such as a stale buffer, is none of rounding
            if np.shape(same[key]) != np.shape(mask):
                return False
            if not np.allclose(same[key][mask], found[key][mask], rtol=1e-3, atol=0.0):
                return False
        if self.wider is not None:
            try:
                wide = self.wider.compute(values)
            except RAISED:
                return False
            right = self.reference.right(values)
            least = max(relative_error(wide[key], right[key]) for key in over)
            if loses_as_many_digits(error, least, self.eps, self.wider.eps):
                return True
        return has_changing_errors(self, over, values, self.eps)


class WideSide(Side):
    """An implementation in a wider format than the one that is asked about, of machine epsilon `narrow`.

    It may compute in float32, or in the narrow format, whatever the format of its inputs.
    """

    def __init__(self, reference: Reference, own: FrameworkClaim, narrow: float, limit: float) -> None:
        super().__init__(reference, compute_by_framework(own, reference), own, EPS)
        self.narrow, self.limit = narrow, limit

    def row(self, name: str, found: Quantities, values: Values) -> Aspect:
        """Return whether the quantities found in the wider format are right, to the digits of float32."""
        right = self.reference.right(values)
        error, key = max(
            (relative_error(x, right[key]) if np.shape(x) == np.shape(right[key]) else np.inf, key)
            for key, x in found.items()
        )
        if error <= self.limit:
            return Aspect(name, "agrees")
        over = {key: np.abs(x - right[key]) > self.limit * np.max(np.abs(right[key])) for key, x in found.items()}
        if np.isfinite(error) and has_changing_errors(self, over, values, self.narrow):
            return Aspect(name, "agrees")
        wrong = report_wrong_quantity(name, key, error)
        return replace(wrong, message=f"{wrong.message}, in a wider format")


def has_changing_errors(side: Side, over: Quantities, values: Values, eps: float) -> bool:
    """Whether the errors in the entries `over` change between nearby points, as rounding errors do."""

    def off(moved: Values) -> Any | None:
        try:
            ours, right = side.compute(moved), side.reference.right(moved)
        except RAISED:
            return None
        if any(np.shape(ours[key]) != np.shape(mask) for key, mask in over.items()):
            return None
        return np.concatenate([np.ravel(ours[key] - right[key])[np.ravel(mask)] for key, mask in over.items()])

    return bool(errors_change(off, values, side.reference.wrt, side.reference.seed, eps))


def compute_by_framework(own: FrameworkClaim, reference: Reference) -> Callable[[Values], Quantities]:
    """Return a function of the inputs that computes the quantities by a framework."""

    def compute(values: Values) -> Quantities:
        framework, w = own.native.framework, reference.weights(values)
        return name_quantities(own.wrt, *framework.pulled(own.flat(values), own.tensors(values), w, own.native.seed))

    return compute


def name_quantities(wrt: tuple[str, ...], value: Any, bars: Iterable[Any]) -> Quantities:
    """Return a value and the gradients by input as the quantities of one run."""
    return {VALUE: np.ravel(value), **dict(zip(wrt, bars, strict=True))}


def report_wrong_quantity(name: str, key: str, error: float) -> Aspect:
    """Return the row of a quantity that is wrong."""
    says = f"{_name_quantity(key)} is off by {numbers.write_bound(error)} of its largest entry"
    return Aspect(name, "wrong", error, message=says)


def _name_quantity(key: str) -> str:
    return "the value" if key == VALUE else f"the gradient by {key}"


def relative_error(x: Any, y: Any) -> float:
    """Return the largest difference, relative to the largest entry of `y`."""
    largest = largest_magnitude(y)
    return largest_magnitude(x - y) / (largest or 1.0)


def compare_with_reference(request: Request, report: CheckReport) -> CheckReport:
    """Return the report with a row for each circumstance; if the implementation is wrong in one, the verdict is fail."""
    f = original_function(request.f)
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of empty inputs, and of what overflows
            rows = _compare_circumstances(request)
    except RAISED as error:  # the reference cannot be traced, or the implementation raises
        rows = (Aspect("value and gradient", "unavailable", message=_shorten_error(error)),)
    report = replace(report, comparison=Comparison(getattr(f, "text", ""), rows))
    wrong = [f"{row.name}: {row.message}" for row in rows if row.status == "wrong"]
    severity, verdict, status = Severity.ERROR, Verdict.FAIL, Exit.WRONG
    if not wrong:
        if report.verdict != Verdict.PASS or not all(row.status == "unavailable" for row in rows):
            return report
        wrong = [f"the reference could not be compared: {rows[0].message}"]
        severity, verdict, status = Severity.INCONCLUSIVE, Verdict.INCONCLUSIVE, Exit.INCONCLUSIVE
    said = tuple(finding(Kind.UNLIKE_REFERENCE, severity, message) for message in wrong)
    point = report.points[0]
    points = (replace(point, verdict=verdict, findings=(*point.findings, *said)), *report.points[1:])
    return replace(report, points=points, verdict=verdict, exit_status=int(status))


def _compare_circumstances(request: Request) -> tuple[Aspect, ...]:
    """Return the rows, each in the format that was asked for and in a wider one, if there is one."""
    values = dict(request.points[0].values)
    coarseness = request.claim.precision.coarseness() if request.claim is not None else 1.0
    reference = Reference(original_function(request.f), values, request.wrt, request.seed, EPS * coarseness)
    sizes = list(_other_sizes(values, request.wrt))
    changed = _change_values(values, request)
    if request.own is None:
        side = Side(reference, _compute_in_numpy(request, reference), None, EPS)
        return tuple(_compare_rows(side, values, changed, sizes))
    side = Side(reference, compute_by_framework(request.own, reference), request.own, EPS * coarseness)
    wide = _implementation_in_float64(request.own)
    if wide is not None:
        limit = limit_of_wide(request.own.native.narrowest)
        side.wider = WideSide(reference, wide, EPS * coarseness, limit)
    rows = [*_compare_reference_itself(reference), *_compare_rows(side, values, changed, sizes)]
    try:
        also = [] if side.wider is None else list(_compare_rows(side.wider, values, changed, sizes))
    except RAISED:  # it takes no float64
        also = []
    wrong = {row.name: row for row in also if row.status == "wrong"}
    return tuple(row if row.status == "wrong" else wrong.get(row.name, row) for row in rows)


def _implementation_in_float64(own: FrameworkClaim) -> FrameworkClaim | None:
    """Return the implementation in float64; None if it takes none, or is in float64 already."""
    if FORMATS[own.native.placed.dtype] <= EPS:
        return None
    try:
        wide = own.native.in_float64()
    except GradcliError:
        return None
    return None if wide is None else FrameworkClaim(with_function(own.f, wide), wide, own.wrt, own.w)


def _compute_in_numpy(request: Request, reference: Reference) -> Any:
    def compute(values: Values) -> Quantities:
        f = request.implementation.f if request.implementation is not None else reference.f
        scalar = np.ndim(reference.weights(values)) == 0 and request.claim is not None
        gradient = dict(request.claim(values)) if scalar and request.claim is not None else {}
        return {VALUE: np.ravel(np.asarray(f(values), dtype=float)), **gradient}

    return compute


def _compare_rows(side: Side, values: Values, changed: Values, sizes: Sequence[tuple[str, Values]]) -> Iterator[Aspect]:
    own = side.own
    if own is not None:
        alone = own.native.framework.value(own.flat(values), own.tensors(values), own.native.seed)
        yield side.row("value", {VALUE: np.ravel(alone)}, values)
    found = side.compute(values)
    at_point = side.row("value and gradient", found, values)
    yield at_point
    side.off = side.error_ratios(found, values)[1] if at_point.status == "differs" else 0.0
    if own is not None:
        yield _check_inputs_unchanged(own, values)
        yield from _compare_calls_in_turn(side, own, values, changed)
    else:
        yield side.row("changed values", side.compute(changed), changed)
    for name, other in sizes:
        yield _compare_at_size(side, name, other)


def _compare_reference_itself(reference: Reference) -> Iterator[Aspect]:
    """Compare the reference's own backward pass with the derivative of its values, and say where it is wrong."""
    native, values = native_of(reference.f), reference.point
    if native is None or not isinstance(reference.f, PythonFunction):
        return
    theirs = FrameworkClaim(reference.f, native, reference.wrt, reference.weights(values))
    side = Side(reference, compute_by_framework(theirs, reference), theirs, reference.eps)
    try:
        found = side.compute(values)
    except RAISED:  # it has none
        return
    row = side.row("the reference's own backward pass", found, values)
    if row.status == "wrong":
        yield replace(row, status="differs", message=f"{row.message}; compared is the derivative of its values")


def _check_inputs_unchanged(own: FrameworkClaim, values: Values) -> Aspect:
    """Return whether the inputs are as they were after a forward and a backward pass."""
    framework, xs = own.native.framework, own.tensors(values)
    before = [framework.array(x) for x in xs]
    framework.pulled(own.flat(values), xs, own.w, own.native.seed)
    written = [
        name
        for name, x, y in zip(own.wrt, before, xs, strict=True)
        if not np.array_equal(x, framework.array(y), equal_nan=True)
    ]
    if not written:
        return Aspect("inputs", "agrees", message="unchanged")
    return Aspect("inputs", "wrong", message=f"it writes into {', '.join(written)}: work on a copy")


def _compare_calls_in_turn(side: Side, own: FrameworkClaim, values: Values, changed: Values) -> Iterator[Aspect]:
    """Compare runs one after the other, at these values and at changed ones."""
    native, made = own.native, list[Run]()
    try:  # all runs come before any comparison, which runs the implementation too
        made.extend(
            native.framework.in_turn(own.flat(values), own.tensors(values), own.tensors(changed), own.w, native.seed)
        )
    except RAISED as error:
        yield Aspect("calls in turn", "wrong", message=_shorten_error(error))
    for run in made:
        at_changed = all(np.array_equal(x, changed[n]) for n, x in zip(own.wrt, run.inputs, strict=True))
        found = name_quantities(own.wrt, run.value, run.gradient)
        yield side.row(run.name, found, changed if at_changed else values)


def _change_values(values: Values, request: Request) -> dict[str, Any]:
    """Return other values of the differentiated inputs, in the format of the implementation."""
    rng = np.random.default_rng([request.seed, 0xC4A])
    native = None if request.own is None else request.own.native
    changed = dict(values)
    for name in request.wrt:
        moved = values[name] * rng.uniform(*_CHANGES, np.shape(values[name]))
        changed[name] = moved if native is None else native.numbers(moved)
    return changed


def _compare_at_size(side: Side, name: str, values: Values) -> Aspect:
    """Compare at inputs of another size, unless the reference does not take them."""
    try:
        side.reference.right(values)
    except RAISED as error:
        return Aspect(name, "not run", message=f"the reference does not take it: {_shorten_error(error)}")
    try:
        return side.row(name, side.compute(values), values)
    except RAISED as error:  # a size that it refuses is not wrong
        return Aspect(name, "unavailable", message=_shorten_error(error))


def _shorten_error(error: Exception) -> str:
    """Return what an error says, in a line."""
    text = error.what if isinstance(error, GradcliError) else f"it raises {message_of(error)}"
    return text if len(text) <= _MOST_TEXT else text[: _MOST_TEXT - 3] + "..."


def _other_sizes(values: Values, wrt: tuple[str, ...]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the inputs at other sizes, with a name: other batches, and odd lengths of the other axes of the first input."""
    first = next((np.shape(values[name]) for name in wrt if np.ndim(values[name])), None)
    if first is None:
        return
    batch = first[0]
    for size, name in ((0, "no rows"), (1, "a batch of 1"), (2, "a batch of 2")):
        if size < batch:
            yield name, {key: _cut_axes(x, batch, size, only_first=True) for key, x in values.items()}
    for length in dict.fromkeys(first[1:] or first):
        odd = length - 1 if length % 2 == 0 else length - 2
        if odd > 0 and (length != batch or len(first) == 1):
            other = {key: _cut_axes(x, length, odd, only_first=False) for key, x in values.items()}
            yield f"an odd length, {odd} for {length}", other


def _cut_axes(x: Any, length: int, to: int, only_first: bool) -> Any:
    """Return an array whose axes of a length are cut, or only its first axis; indices along such an axis stay inside it."""
    if not isinstance(x, np.ndarray):
        return x
    cut = [n == length and (k == 0 or not only_first) for k, n in enumerate(x.shape)]
    found = np.ascontiguousarray(x[tuple(slice(to) if here else slice(None) for here in cut)])
    points_there = not only_first and x.dtype.kind in "iu" and x.size and x.min() >= 0 and to <= x.max() < length
    return found % to if points_there else found
