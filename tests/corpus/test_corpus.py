"""Every function of the corpus: all modes agree on its gradient, on second derivatives, and with gradients by hand."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import gradcli
from gradcli.checks.build import request_for
from gradcli.checks.check import check
from gradcli.checks.probe import locate_function
from gradcli.modes.mode import Question
from gradcli.modes.recording import Effort
from gradcli.report.check import CheckReport
from gradcli.report.point_report import ModeResult
from gradcli.request.options import Options
from gradcli.targets.points import WHOLE
from tests.corpus import (
    buffers,
    chemistry,
    control_flow,
    distributions,
    finance,
    geometry,
    gradients,
    idioms,
    linear_algebra,
    losses,
    networks,
    physics,
    scientific,
    signals,
    statistics_,
    untraceable,
)
from tests.rows import for_rows

Function = Callable[..., Any]
MODULES = (
    losses, physics, statistics_, geometry, control_flow, buffers, signals, networks, linear_algebra, finance, chemistry,
    idioms, distributions, scientific,
)  # fmt: skip
ALL = {f: at for module in MODULES for f, at in module.POINTS.items()}
IN_PROCESS = "certified,forward,reverse,complex-step,finite-difference"
NO_COMPLEX = ("not analytic", "does not take complex numbers", "real number", "imaginary parts away")
REMARKS = ("mutates-input",)  # warnings that are right and keep nothing from agreeing
STRAIGHT = (losses.multiclass_hinge, losses.pinball, control_flow.collatz_like)  # their second derivatives are zero
SECOND_ORDER = 6  # every sixth function is also differentiated twice, unless its Hessian takes long
LARGE = (scientific.splines_along_an_axis, scientific.factorisations)
TWICE = {f: ALL[f] for f in list(ALL)[::SECOND_ORDER] if f not in LARGE}
SYMBOLIC = (
    losses.focal_loss, statistics_.normal_loglik, control_flow.determinant, buffers.swapped, finance.kelly, chemistry.morse,
)  # fmt: skip

# Known bugs of gradcli's: an entry is taken out when the function passes.
TIE = "paths that are the same function tie: certified cannot decide between them"
COMPLEX_RULES = "rules and kernels that are not analytic are run on complex numbers: the complex step disagrees"
FAILS = {
    "statistics_.ordinal_probit": "certified: ndtr(inf) is not settled",
    "buffers.views_mutated": "np.einsum('ii->i', m) is a view that can be written to",
    "buffers.edit_distance": TIE,
}
FAILS_TWICE = {}
FAILS_UNTRACED = {}


def named(f: Function) -> str:
    return f"{f.__module__.rpartition('.')[2]}.{f.__name__}"


def cases(points: Mapping[Function, Any], reasons: Mapping[str, str]) -> list[Any]:
    """Return parameters of a test; those with a reason are expected to fail."""
    marks = {name: [pytest.mark.xfail(strict=True, reason=reason)] for name, reason in reasons.items()}
    return [pytest.param(f, at, id=named(f), marks=marks.get(named(f), [])) for f, at in points.items()]


def checked(f: Function, at: Any, order: int) -> CheckReport:
    """Return what `gradcli.check` finds with the modes of this process, certified where it is little work."""
    found = locate_function(f, f.__name__, [{WHOLE: at}])
    request = request_for(found, None, Options(modes=IN_PROCESS, order=order))
    q = Question(request.f, request.points[0], request.wrt)
    dear = {"certified"} if q.untraced or q.ball_work > Effort.DEFAULT.value else set()
    return check(replace(request, modes=tuple(mode for mode in request.modes if mode not in dear)))


def may_be_silent(mode: str, result: ModeResult) -> bool:
    """Whether a mode has a good reason not to answer."""
    return mode == "complex-step" and any(word in str(result.message) for word in NO_COMPLEX)


def complaints(report: CheckReport, remarks: Sequence[str] = REMARKS) -> Iterator[str]:
    """Yield everything that keeps all modes from agreeing, but for findings that are mere remarks."""
    for point in report.points:
        for f in point.findings:
            if f.severity != "info" and f.kind not in remarks:
                yield f"{f.kind}: {f.message} ({f.file}:{f.line} {f.source})"
        for mode, result in point.modes.items():
            if result.status == "ok" and result.verdict != "agree":
                yield f"{mode}: {result.verdict}"
            if result.status != "ok" and not may_be_silent(mode, result):
                yield f"{mode} is {result.status}: {result.message}"
    if report.verdict != "pass":
        yield f"{report.verdict}: {report.sentence()}"


@pytest.mark.parametrize(("f", "at"), cases(ALL, FAILS))
def test_all_modes_agree(f: Function, at: Any) -> None:
    assert not list(complaints(checked(f, at, order=1)))


@pytest.mark.slow
@pytest.mark.parametrize(("f", "at"), cases(TWICE, FAILS_TWICE))
def test_all_modes_agree_on_second_derivatives(f: Function, at: Any) -> None:
    remarks = (*REMARKS, "weak") if f in STRAIGHT else REMARKS
    assert not list(complaints(checked(f, at, order=2), remarks))


@for_rows(("f", "at"), cases({f: ALL[f] for f in SYMBOLIC}, {}))
def test_sympy_agrees(f: Function, at: Any) -> None:
    assert not list(complaints(gradcli.check(f, at, modes="symbolic,reverse,finite-difference")))


BY_HAND = {f: at for f, at in ALL.items() if hasattr(gradients, f.__name__)}


@for_rows(("f", "at"), cases(BY_HAND, {}), parts=3)
def test_a_gradient_by_hand_passes(f: Function, at: Any) -> None:
    report = gradcli.check(f, at, grad=getattr(gradients, f.__name__), modes=IN_PROCESS)
    assert not list(complaints(report))


@pytest.mark.parametrize(("f", "at"), cases(BY_HAND, {}))
def test_a_gradient_with_a_mistake_fails(f: Function, at: Any) -> None:
    report = gradcli.check(f, at, grad=getattr(gradients, f"{f.__name__}_wrong"), modes=IN_PROCESS)
    assert report.verdict == "fail"
    assert report.points[0].mismatches
    assert report.points[0].modes["claim"].verdict == "disagree"


def right_and_wrong(f: Function, at: Any) -> tuple[CheckReport, CheckReport]:
    right = getattr(untraceable, f"{f.__name__}_gradient")

    def wrong(*args: Any) -> Any:
        y = right(*args)
        return tuple(-1.01 * part for part in y) if isinstance(y, tuple) else -1.01 * y

    passing, failing = (gradcli.check(f, at, grad=g, modes=IN_PROCESS) for g in (right, wrong))
    return passing, failing


@pytest.mark.parametrize(("f", "at"), cases(untraceable.POINTS, FAILS_UNTRACED))
def test_what_cannot_be_traced_is_checked_by_function_values_alone(f: Function, at: Any) -> None:
    passing, failing = right_and_wrong(f, at)
    assert (passing.verdict, failing.verdict) == ("pass", "fail"), passing.sentence()
    point = passing.points[0]
    assert point.reference == "finite-difference"
    assert not [
        mode for mode in ("certified", "forward", "reverse", "complex-step") if point.modes[mode].status == "ok"
    ]
    [untraced] = [found for found in point.findings if found.kind == "untraced"]
    lines, first = inspect.getsourcelines(f)
    assert Path(str(untraced.file)).resolve() == Path(untraceable.__file__)
    assert untraced.line in range(first, first + len(lines))
    assert untraced.message.startswith("checked by function values alone: ")


def test_there_are_as_many_functions_as_the_corpus_promises() -> None:
    assert len(ALL) >= 200
    assert len(BY_HAND) >= 15
    assert len(untraceable.POINTS) >= 7
