"""Compare an implementation with its reference in the circumstances in which kernels go wrong: each is a row."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gradcli.checks.narrow_formats import limit_of_wide
from gradcli.checks.native import FrameworkClaim, with_function
from gradcli.checks.reference_comparison import (
    RAISED,
    VALUE,
    Quantities,
    Reference,
    Side,
    WideSide,
    computed_by,
    quantities,
)
from gradcli.checks.request import Request
from gradcli.errors import GradcliError
from gradcli.frameworks.framework import EPS as FORMATS
from gradcli.frameworks.framework import Run
from gradcli.frameworks.native import native_of
from gradcli.modes.rounding import EPS
from gradcli.report.check import CheckReport, Comparison
from gradcli.report.common import finding
from gradcli.report.native import Aspect
from gradcli.targets.derived import root_of
from gradcli.targets.python import PythonFunction, message_of
from gradcli.words import Exit, Kind, Severity, Verdict

Values = Mapping[str, Any]
_MOST_TEXT = 100  # characters of an error's message in a row
_CHANGES = (0.5, 1.5)  # factors between which values are changed: signs and zeros stay


def compared(request: Request, report: CheckReport) -> CheckReport:
    """Return the report with a row for each circumstance; if the implementation is wrong in one, the verdict is fail."""
    f = root_of(request.f)
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of empty inputs, and of what overflows
            rows = _compared(request)
    except RAISED as error:  # the reference cannot be traced, or the implementation raises
        rows = (Aspect("value and gradient", "unavailable", message=_said(error)),)
    report = replace(report, comparison=Comparison(getattr(f, "text", ""), rows))
    wrong = [f"{row.name}: {row.message}" for row in rows if row.status == "wrong"]
    if wrong:
        return _with(report, wrong, Severity.ERROR, Verdict.FAIL, Exit.WRONG)
    if report.verdict == Verdict.PASS and all(row.status == "unavailable" for row in rows):
        says = [f"the reference could not be compared: {rows[0].message}"]
        return _with(report, says, Severity.INCONCLUSIVE, Verdict.INCONCLUSIVE, Exit.INCONCLUSIVE)
    return report


def _with(report: CheckReport, says: Sequence[str], severity: Severity, verdict: Verdict, status: Exit) -> CheckReport:
    """Return the report with findings on the comparison, and the verdict that follows from them."""
    said = tuple(finding(Kind.UNLIKE_REFERENCE, severity, message) for message in says)
    point = report.points[0]
    points = (replace(point, verdict=verdict, findings=(*point.findings, *said)), *report.points[1:])
    return replace(report, points=points, verdict=verdict, exit_status=int(status))


def _compared(request: Request) -> tuple[Aspect, ...]:
    """Return the rows, each in the format that was asked for and in a wider one, if there is one."""
    values = dict(request.points[0].values)
    coarseness = request.claim.precision.coarseness() if request.claim is not None else 1.0
    reference = Reference(root_of(request.f), values, request.wrt, request.seed, EPS * coarseness)
    sizes = list(_other_sizes(values, request.wrt))
    changed = _changed(values, request)
    if request.own is None:
        side = Side(reference, _in_numpy(request, reference), None, EPS)
        return tuple(_rows(side, values, changed, sizes))
    side = Side(reference, computed_by(request.own, reference), request.own, EPS * coarseness)
    wide = _wider(request.own)
    if wide is not None:
        limit = limit_of_wide(request.own.native.narrowest)
        side.wider = WideSide(reference, computed_by(wide, reference), wide, EPS * coarseness, limit)
    rows = [*_reference_itself(reference), *_rows(side, values, changed, sizes)]
    try:
        also = [] if side.wider is None else list(_rows(side.wider, values, changed, sizes))
    except RAISED:  # it takes no float64
        also = []
    wrong = {row.name: row for row in also if row.status == "wrong"}
    return tuple(row if row.status == "wrong" else wrong.get(row.name, row) for row in rows)


def _wider(own: FrameworkClaim) -> FrameworkClaim | None:
    """Return the implementation in float64; None if it takes none, or is in float64 already."""
    if FORMATS[own.native.placed.dtype] <= EPS:
        return None
    try:
        wide = own.native.in_float64()
    except GradcliError:
        return None
    return None if wide is None else FrameworkClaim(with_function(own.f, wide), wide, own.wrt, own.w)


def _in_numpy(request: Request, reference: Reference) -> Any:
    def compute(values: Values) -> Quantities:
        f = request.implementation.f if request.implementation is not None else reference.f
        scalar = np.ndim(reference.weights(values)) == 0 and request.claim is not None
        gradient = dict(request.claim(values)) if scalar and request.claim is not None else {}
        return {VALUE: np.ravel(np.asarray(f(values), dtype=float)), **gradient}

    return compute


def _rows(side: Side, values: Values, changed: Values, sizes: Sequence[tuple[str, Values]]) -> Iterator[Aspect]:
    own = side.own
    if own is not None:
        alone = own.native.framework.value(own.flat(values), own.tensors(values), own.native.seed)
        yield side.row("value", {VALUE: np.ravel(alone)}, values)
    found = side.compute(values)
    at_point = side.row("value and gradient", found, values)
    yield at_point
    side.off = side.largest_ratio(found, values) if at_point.status == "differs" else 0.0
    if own is not None:
        yield _inputs(own, values)
        yield from _in_turn(side, own, values, changed)
    else:
        yield side.row("changed values", side.compute(changed), changed)
    for name, other in sizes:
        yield _at(side, name, other)


def _reference_itself(reference: Reference) -> Iterator[Aspect]:
    """Compare the reference's own backward pass with the derivative of its values, and say where it is wrong."""
    native, values = native_of(reference.f), reference.point
    if native is None or not isinstance(reference.f, PythonFunction):
        return
    theirs = FrameworkClaim(reference.f, native, reference.wrt, reference.weights(values))
    side = Side(reference, computed_by(theirs, reference), theirs, reference.eps)
    try:
        found = side.compute(values)
    except RAISED:  # it has none
        return
    row = side.row("the reference's own backward pass", found, values)
    if row.status == "wrong":
        yield replace(row, status="differs", message=f"{row.message}; compared is the derivative of its values")


def _inputs(own: FrameworkClaim, values: Values) -> Aspect:
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


def _in_turn(side: Side, own: FrameworkClaim, values: Values, changed: Values) -> Iterator[Aspect]:
    """Compare runs one after the other, at these values and at changed ones."""
    native, made = own.native, list[Run]()
    try:  # all runs come before any comparison, which runs the implementation too
        made.extend(
            native.framework.in_turn(own.flat(values), own.tensors(values), own.tensors(changed), own.w, native.seed)
        )
    except RAISED as error:
        yield Aspect("calls in turn", "wrong", message=_said(error))
    for run in made:
        at_changed = all(np.array_equal(x, changed[n]) for n, x in zip(own.wrt, run.inputs, strict=True))
        yield side.row(run.name, quantities(own.wrt, run), changed if at_changed else values)


def _changed(values: Values, request: Request) -> dict[str, Any]:
    """Return other values of the differentiated inputs, in the format of the implementation."""
    rng = np.random.default_rng([request.seed, 0xC4A])
    native = None if request.own is None else request.own.native
    changed = dict(values)
    for name in request.wrt:
        moved = values[name] * rng.uniform(*_CHANGES, np.shape(values[name]))
        changed[name] = moved if native is None else native.numbers(moved)
    return changed


def _at(side: Side, name: str, values: Values) -> Aspect:
    """Compare at inputs of another size, unless the reference does not take them."""
    try:
        side.reference.right(values)
    except RAISED as error:
        return Aspect(name, "not run", message=f"the reference does not take it: {_said(error)}")
    try:
        return side.row(name, side.compute(values), values)
    except RAISED as error:  # a size that it refuses is not wrong
        return Aspect(name, "unavailable", message=_said(error))


def _said(error: Exception) -> str:
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
            yield name, {key: _cut(x, batch, size, only_first=True) for key, x in values.items()}
    for length in dict.fromkeys(first[1:] or first):
        odd = length - 1 if length % 2 == 0 else length - 2
        if odd > 0 and (length != batch or len(first) == 1):
            other = {key: _cut(x, length, odd, only_first=False) for key, x in values.items()}
            yield f"an odd length, {odd} for {length}", other


def _cut(x: Any, length: int, to: int, only_first: bool) -> Any:
    """Return an array whose axes of a length are cut, or only its first axis; indices along such an axis stay inside it."""
    if not isinstance(x, np.ndarray):
        return x
    cut = [n == length and (k == 0 or not only_first) for k, n in enumerate(x.shape)]
    found = np.ascontiguousarray(x[tuple(slice(to) if here else slice(None) for here in cut)])
    points_there = not only_first and x.dtype.kind in "iu" and x.size and x.min() >= 0 and to <= x.max() < length
    return found % to if points_there else found
