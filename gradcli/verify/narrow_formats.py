"""Check gradients in narrow formats: measure their errors in ulps, and distinguish wrong ones from inexact ones."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gradcli.core.shapes import end_to_end
from gradcli.errors import GradcliError
from gradcli.frameworks.framework import EPS
from gradcli.point import Array, Point
from gradcli.reports import numbers
from gradcli.reports.check import CheckReport
from gradcli.reports.common import finding
from gradcli.reports.native import Aspect, Exactness
from gradcli.reports.point_report import Diagnosis, PointReport
from gradcli.source.python import PythonFunction
from gradcli.verify.native import FrameworkClaim, own_gradient
from gradcli.verify.probe import Located
from gradcli.words import DiagnosisKind, Kind, Severity, Verdict

if TYPE_CHECKING:
    from gradcli.verify.request import Request

_SCALE = 2.0**16  # the initial scale of torch's GradScaler
_HALVINGS = 16
_WIDE = "float64"
_SHRINKS = 1e-3  # an error that shrinks by this factor in float64 is rounding; a mistake keeps its size


def exactness(
    dtype: str, claim: Mapping[str, Array], right: Mapping[str, Array], room: Mapping[str, Array]
) -> Exactness:
    """Return how far a gradient in a format is from the right one, in ulps and as a share of the allowed difference.

    Shapes  `claim[x]`, `right[x]` and `room[x]` have the shape of input x, or of the output followed by it.
    Units   `room` is the allowed difference of each entry, in units of the gradient.
    """
    x, y, most = (end_to_end([np.asarray(part[name], dtype=float) for name in claim]) for part in (claim, right, room))
    with np.errstate(all="ignore"):
        apart = np.abs(x - y)
        ulp = EPS[dtype] * 2.0 ** np.floor(np.log2(np.abs(y)))
        ulps = np.where(y != 0, apart / ulp, 0.0)
        share = np.where(most > 0, apart / most, 0.0)
    ulps, share = (np.nan_to_num(part, nan=np.inf, posinf=np.inf) for part in (ulps, share))
    vanished = int(np.sum((x == 0) & (y != 0)))
    return Exactness(
        float(np.median(ulps)), float(np.max(ulps, initial=0.0)), float(np.max(share, initial=0.0)), vanished
    )


def scaled(
    own: FrameworkClaim, values: Mapping[str, Any], right: Mapping[str, Array], room: Mapping[str, Array]
) -> Aspect:
    """Compare the gradient under loss scaling, as by torch's GradScaler; the scale is halved while the gradient overflows."""
    scale = _SCALE
    for _ in range(_HALVINGS):
        try:
            with np.errstate(all="ignore"):
                claim = {
                    name: g / scale
                    for name, g in FrameworkClaim(own.f, own.native, own.wrt, own.w * scale)(values).items()
                }
        except GradcliError as error:
            return Aspect("GradScaler", "wrong", message=f"scaled by {scale:,.0f}: {error.what}")
        if all(np.all(np.isfinite(g)) for g in claim.values()):
            break
        scale /= 2
    found = exactness(own.native.narrowest, claim, right, room)
    says = f"scaled by {scale:,.0f}, {_entries(found.vanished)} to 0"
    return Aspect("GradScaler", "agrees" if found.share <= 1 else "wrong", message=says)


def _entries(count: int) -> str:
    return "no entry underflows" if not count else f"{count} entr{'y underflows' if count == 1 else 'ies underflow'}"


def told_apart(
    request: "Request", report: CheckReport, own: FrameworkClaim, verify: Callable[["Request"], CheckReport]
) -> CheckReport:
    """Return the report; for a wrong gradient in a narrow format it says whether the gradient is right in float64."""
    native = own.native
    if report.verdict != Verdict.FAIL or native.narrowest == _WIDE or request.derivative != "gradient":
        return report
    alone = _in_float64(request, own)
    if alone is None:
        return report
    point = report.points[0]
    narrow, wide = _error(point), _error(verify(alone).points[0])
    if narrow is None or wide is None:
        return report
    says = f"it is off by {numbers.power(narrow)} of the largest entry, in float64 by {numbers.power(wide)}"
    if wide <= _SHRINKS * narrow:
        says = f"too inexact in {native.narrowest}, not wrong: {says}"
        point = replace(point, diagnosis=Diagnosis(DiagnosisKind.TOO_INEXACT, says))
    else:
        says = f"wrong, not just inexact in {native.narrowest}: {says}"
        point = replace(point, findings=(*point.findings, finding(Kind.PRECISION, Severity.INFO, says)))
    return replace(report, points=(point, *report.points[1:]))


def _error(point: PointReport) -> float | None:
    """Return the largest error of a claim relative to the largest entry; None if there is nothing to compare."""
    claim = point.modes["claim"].gradient if "claim" in point.modes else None
    if not isinstance(claim, dict) or not isinstance(point.gradient, dict):
        return None
    x, y = (end_to_end([np.asarray(part[name], dtype=float) for name in claim]) for part in (claim, point.gradient))
    largest = float(np.max(np.abs(y), initial=0.0))
    return float(np.max(np.abs(x - y), initial=0.0)) / largest if largest else None


def _in_float64(request: "Request", own: FrameworkClaim) -> "Request | None":
    """Return the request for the same function in float64; None if it takes no float64, or casts to a narrower format."""
    f: PythonFunction = copy.copy(own.f)
    values = dict(request.points[0].values)
    try:
        wide = own.native.in_float64()
        if wide is None:
            return None
        f.function = wide
        value, _ = f.survey(values)
        found = Located(f, (Point(values, (), 0, (), value, f.seconds),), own.wrt, True, f.arguments)
        made = own_gradient(found, request.seed, 1)
    except GradcliError:  # the function or its backward pass takes no float64
        return None
    if made is None or (wide.program is not None and wide.narrowest != _WIDE):
        return None
    located, claim, _ = made
    return replace(
        request, f=located.f, points=located.points, wrt=located.wrt, claim=claim, own=None, notices=(), command=()
    )


def rooms(point: PointReport) -> dict[str, Any]:
    """Return the allowed error of each entry of a claim, by input: the bounds of the claim and the reference added."""
    bounds: Any = point.modes["claim"].bound
    right: Any = point.modes[point.reference].bound if point.reference else {}
    return {name: np.asarray(bound) + np.asarray(right.get(name, 0.0)) for name, bound in bounds.items()}
