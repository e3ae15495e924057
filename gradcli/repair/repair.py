"""Add to the report of a wrong claim the edit of its own source that makes it right."""

import pickle
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np

from gradcli.core.provenance import shown as shown_path
from gradcli.diagnosis.budget import CauseBudget
from gradcli.errors import GradcliError
from gradcli.modes.claim import ClaimedExpressions
from gradcli.modes.claimed import ClaimedFunction
from gradcli.modes.workers import Late, Worker
from gradcli.point import Point
from gradcli.repair.formula import FormulaClaim
from gradcli.repair.patch import edits_in, patch_of, slip_of
from gradcli.repair.points import further_points_of, points_of
from gradcli.repair.right import Right
from gradcli.repair.search import Repair, Search
from gradcli.repair.worker import Found, Otherwise, Wanted
from gradcli.reports.absent import ABSENT
from gradcli.reports.check import CheckReport
from gradcli.reports.point_report import Diagnosis
from gradcli.source.loading import NOTEBOOK
from gradcli.source.target_request import TargetRequest
from gradcli.source.targets import is_python
from gradcli.verify.asked import CheckOptions, lengths_at
from gradcli.verify.request import Request
from gradcli.words import DiagnosisKind

_IN_A_NOTEBOOK = "edits are tried in files, and the claim is in a notebook"
_NO_POINTS = "the right gradient is not known at enough points to try edits"


def point_to_repair(report: CheckReport) -> int | None:
    """Return the number of the first point whose mistake was looked for; None if there is none."""
    return next((k for k, p in enumerate(report.points) if p.diagnosis is not None), None)


def repaired(
    report: CheckReport, request: Request, ask: TargetRequest, options: CheckOptions, budget: CauseBudget,
    otherwise: Otherwise,
) -> CheckReport:  # fmt: skip
    """Return the report of a wrong claim with the smallest edit that makes it right or, where there is none, the closed form.

    Expressions are edited here, as they are data; Python code in a process that may write no file. The number of edits
    that are tried, and the time, are limited by the budget. `otherwise` makes the closed form, in the same process.
    """
    number = point_to_repair(report)
    if number is None or request.claim is None:
        return report
    point, claim = report.points[number], request.claim
    diagnosis = point.diagnosis
    names = tuple(name for name in (claim.names or request.wrt) if name in request.wrt)
    if diagnosis is None:
        return report
    at = request.points[number] if number < len(request.points) else Point(dict(point.at))
    editable = isinstance(claim, ClaimedExpressions | ClaimedFunction) and bool(names)
    in_a_notebook = ask.target.startswith(f"{NOTEBOOK}:")
    has_code = is_python(ask.target) or isinstance(claim, ClaimedFunction)
    if isinstance(claim, ClaimedExpressions) or in_a_notebook or not has_code:
        found = formula_repair(request, at, names, budget) if isinstance(claim, ClaimedExpressions) else Found()
        if not found.repairs:
            form, shapes = otherwise(request)
            found = replace(found, closed_form=form, shapes=shapes)
        if in_a_notebook and editable:
            found = replace(found, why=found.why or _IN_A_NOTEBOOK)
    else:
        points = points_of(request, at, names) if editable else []
        points = points if len(points) > 1 else []
        found = _in_a_process(Wanted(ask, options, tuple(points), "", budget.left, budget.seconds, otherwise), budget)
        found = replace(found, why=found.why or ("" if points or not editable else _NO_POINTS))
    points_ = list(report.points)
    if editable:
        diagnosis = _with(diagnosis, found, isinstance(claim, ClaimedExpressions))
    if found.closed_form and not found.repairs:
        diagnosis = replace(diagnosis, closed_form=dict(found.closed_form), closed_form_shapes=found.shapes)
    points_[number] = replace(point, diagnosis=diagnosis)
    return replace(report, points=tuple(points_))


def formula_repair(request: Request, point: Point, names: tuple[str, ...], budget: CauseBudget) -> Found:
    """Return the edits of a claim that is an expression: an expression is data, and is evaluated here."""
    claim = request.claim
    points = points_of(request, point, names)
    if len(points) < 2 or not isinstance(claim, ClaimedExpressions):
        return Found(why=_NO_POINTS)
    evaluated = list(points)

    @cache
    def further() -> list[Right]:
        evaluated.extend(further_points_of(request, points, partial(_formula_at, request)))
        return evaluated[len(points) :]

    search = Search(points, further, budget)
    repairs = tuple(search.repairs(FormulaClaim(claim.text, request.wrt, claim.sizes, evaluated)))
    why = "" if repairs else "no edit, and no two edits, of the claim make it right"
    return Found("", claim.text, repairs, tuple(search.right_here), why, search.evaluations)


def _formula_at(request: Request, values: Mapping[str, Any]) -> Request:
    """Return the request at other values, with the named sizes of the claim as they are there."""
    claim = request.claim
    if not isinstance(claim, ClaimedExpressions):
        return request
    lengths = lengths_at(request.points[0].values, values)
    sizes = {name: lengths.get(int(n), int(n)) for name, n in claim.sizes.items()}
    moved = {**values, **{name: np.float64(n) for name, n in sizes.items() if name in values}}
    again = ClaimedExpressions(claim.text, request.wrt, frozenset(request.f.inputs), sizes)
    return replace(request, points=(Point(moved),), claim=again)


def _in_a_process(wanted: Wanted, budget: CauseBudget) -> Found:
    try:
        with tempfile.TemporaryDirectory(prefix="gradcli-repair-", ignore_cleanup_errors=True) as empty:
            return _asked(replace(wanted, empty=empty), budget)
    except OSError as error:  # the disk is full, or no process can be started
        return Found(why=f"no process can be started to try edits in: {error.strerror or error}")


def _asked(wanted: Wanted, budget: CauseBudget) -> Found:
    """Return what a process of its own answers; its calls are taken from the budget."""
    try:
        request = pickle.dumps(wanted)
    except (pickle.PicklingError, TypeError, AttributeError):
        return Found(why="the point holds objects that cannot be given to another process")
    worker = Worker("gradcli.repair.worker")
    try:
        answer = worker.ask(request, budget.wait)
        found = pickle.loads(answer) if answer else None
    except Late:
        budget.late = True
        return Found(why="timeout")
    except (pickle.UnpicklingError, EOFError, GradcliError):
        found = None
    finally:
        worker.stop()
    if not isinstance(found, Found):
        return Found(why="the process that tried edits ended")
    budget.calls -= min(found.evaluations, budget.calls)
    return found


def _with(diagnosis: Diagnosis, found: Found, formula: bool) -> Diagnosis:
    """Return the diagnosis with the repairs that were found: the first as the patch, the others as alternatives."""
    texts = [_shown(found, repair, formula) for repair in found.repairs]
    shown = [text for text in texts if text]
    if not shown:
        why = found.why or "the claim's file is outside the project"
        here = min(found.right_here, key=lambda repair: repair.cost, default=None)
        return replace(diagnosis, no_patch=why, right_here_only=ABSENT if here is None else edits_in(here))
    more = dict.fromkeys(shown[1:])
    first = found.repairs[texts.index(shown[0])]
    edits = edits_in(first)
    if diagnosis.kind is DiagnosisKind.UNKNOWN:
        diagnosis = replace(diagnosis, kind=DiagnosisKind.SLIP, message=slip_of(first))
    if not formula:  # the mistake is in the claim, also where it is named after an operation of f
        file, line, source = shown_path(found.path), edits[0].line, edits[0].before
        diagnosis = replace(diagnosis, file=file, line=line, source=source)
    return replace(
        diagnosis,
        patch=None if formula else shown[0],
        replacement=shown[0] if formula else ABSENT,
        edits=edits,
        alternatives=tuple(more) or ABSENT,
    )


def _shown(found: Found, repair: Repair, formula: bool) -> str | None:
    return repair.text if formula else patch_of(found.path, found.text, repair.text)
