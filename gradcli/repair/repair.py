"""Add to the report of a wrong claim the edit of its own source that makes it right."""

import ast
import difflib
import marshal
import os
import pickle
import re
import sys
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from gradcli.checks.build import map_axis_lengths
from gradcli.checks.inner_gradients import request_of_layer
from gradcli.checks.request import Request
from gradcli.checks.wrong import CauseBudget
from gradcli.classes import dataclass
from gradcli.errors import GradcliError
from gradcli.modes.claim import ClaimedExpressions, ClaimedFunction, reshape_claim
from gradcli.process.process import FORKS
from gradcli.process.workers import Workers, WorkerTimeout
from gradcli.repair.edits import AXES, edits_of, missing_part_edits
from gradcli.repair.repair_process import WITHIN, Otherwise, RepairRequest, RepairResult
from gradcli.repair.scope import (
    Change,
    Edit,
    EditPlace,
    Gradient,
    Right,
    Scope,
    Span,
    Text,
    apply_changes,
    lines_of,
    texts_of_expressions,
    walk_expressions,
)
from gradcli.repair.search import (
    NO_POINTS,
    Repair,
    RepairSearch,
    at_smaller_sizes,
    calls_of_edits,
    draw_further_points,
    draw_near_points,
)
from gradcli.report.check import CheckReport
from gradcli.report.common import ABSENT
from gradcli.report.point_report import Diagnosis, SourceEdit
from gradcli.request.point import Point
from gradcli.request.target_text import is_python
from gradcli.targets.expression import Expression, column_in_characters, extent_of_node, parse_statement
from gradcli.targets.loading import NOTEBOOK
from gradcli.targets.target_request import TargetRequest
from gradcli.targets.tokens import Statement, shared_and_parts
from gradcli.tracing.provenance import path_for_display as shown_path
from gradcli.tracing.shapes import shape
from gradcli.words import DiagnosisKind

_LACKING = (  # what a contribution that is missing is called
    DiagnosisKind.LEFT_OUT, DiagnosisKind.OVERWRITTEN, DiagnosisKind.TERM, DiagnosisKind.DETACHED, DiagnosisKind.ENTRY,
    DiagnosisKind.UNKNOWN,
)  # fmt: skip
_LOST = (DiagnosisKind.LEFT_OUT, DiagnosisKind.OVERWRITTEN)  # that nothing of a contribution is there
_OF_ONE_WORD = ("constant", "exponent", "name", "function", "index", "axis", "comparison", "transpose")
_IN_A_NOTEBOOK = "edits are tried in files, and the claim is in a notebook"


def repair_claim(
    report: CheckReport, number: int, request: Request, ask: TargetRequest, budget: CauseBudget, otherwise: Otherwise
) -> CheckReport:
    """Return the report of a claim that is wrong at a point with the smallest edit that makes it right, or the closed form.

    Expressions are edited here, as they are data; Python code in a process that may write no file. The number of edits
    that are tried, and the time, are limited by the budget. `otherwise` makes the closed form, in the same process.
    """
    point, claim = report.points[number], request.claim
    diagnosis = point.diagnosis
    if diagnosis is None or claim is None or WITHIN in os.environ:
        return report
    names = tuple(name for name in (claim.names or request.wrt) if name in request.wrt)
    at = request.points[number] if number < len(request.points) else Point(dict(point.at))
    editable = isinstance(claim, ClaimedExpressions | ClaimedFunction) and bool(names)
    in_a_notebook = ask.target.startswith(f"{NOTEBOOK}:")
    has_code = is_python(ask.target) or isinstance(claim, ClaimedFunction)
    if isinstance(claim, ClaimedExpressions) or in_a_notebook or not has_code:
        found = repair_formula(request, at, names, budget) if isinstance(claim, ClaimedExpressions) else RepairResult()
        if not found.repairs:
            form, shapes = otherwise(request)
            found = replace(found, closed_form=form, shapes=shapes)
        if in_a_notebook and editable:
            found = replace(found, why=found.why or _IN_A_NOTEBOOK)
    else:
        wanted = RepairRequest(ask, (), "", budget.left, budget.seconds, otherwise, lacks=diagnosis.kind in _LACKING)
        found = RepairResult()
        if isinstance(diagnosis.layer, str):
            found = _repair_layer(diagnosis.layer, request, wanted, budget)
        if not found.repairs:
            points = draw_near_points(request, at, names) if editable else []
            points = points if len(points) > 1 else []
            wanted = replace(wanted, points=tuple(points), names=names if editable else (), number=number)
            found = _repair_in_process(replace(wanted, calls=budget.left), budget)
            diagnosis = replace(diagnosis, layer=ABSENT) if found.repairs else diagnosis
    points_ = list(report.points)
    if editable:
        diagnosis = _add_repairs(diagnosis, found, isinstance(claim, ClaimedExpressions))
    if found.closed_form and not found.repairs:
        diagnosis = replace(diagnosis, closed_form=dict(found.closed_form), closed_form_shapes=found.shapes)
    points_[number] = replace(point, diagnosis=diagnosis)
    return replace(report, points=tuple(points_))


def _repair_layer(name: str, request: Request, wanted: RepairRequest, budget: CauseBudget) -> RepairResult:
    """Return the edits that make one layer of a network right alone: the claim may have mistakes in others, too."""
    try:
        alone = request_of_layer(request, name)
    except GradcliError:
        return RepairResult()
    if alone is None or alone.claim is None:
        return RepairResult()
    names = tuple(each for each in (alone.claim.names or alone.wrt) if each in alone.wrt)
    points = draw_near_points(alone, alone.points[0], names)
    if len(points) < 2:
        return RepairResult()
    return _repair_in_process(replace(wanted, points=tuple(points), names=names, layer=name), budget)


# A claim that is an expression, as text that can be edited: an expression is data, so that it is evaluated here.


@dataclass(frozen=True)
class FormulaClaim:
    """A claim such as `p = softmax(z); z=p - y`, and the points where it is evaluated."""

    text: str
    wrt: tuple[str, ...]
    sizes: Mapping[str, Any]
    points: Sequence[Right]

    def gradient(self, changes: Sequence[Change], number: int) -> Gradient | None:
        point = self.points[number]
        try:
            sizes = {**self.sizes, **point.sizes}
            claim = ClaimedExpressions(apply_changes(self.text, changes), self.wrt, frozenset(point.at), sizes)
            found = claim(point.at)
            return {n: reshape_claim(n, x, point.outputs, shape(point.at[n])) for n, x in found.items()}
        except (GradcliError, ValueError, TypeError, IndexError, ArithmeticError, np.linalg.LinAlgError):
            return None

    def edits(self, without: Collection[int] = ()) -> Iterator[Edit]:
        for _, place in self._places_to_edit:
            yield from edits_of(place)
        trees = self._trees_of_statements  # of the claims of single inputs:
        spans = [_spans_in_text(s)(trees[id(s)].body) for s in self._parsed_statements[1] if id(s) in trees]
        for k, first in enumerate(spans):
            for second in spans[k + 1 :]:
                exchanged = Change(*first, self.text[slice(*second)]), Change(*second, self.text[slice(*first)])
                yield Edit("order", 0.9, 1, exchanged)

    def composed(self, right: Right) -> Iterator[Edit]:
        claimed = self.gradient((), 0) or {}
        for statement, place in self._places_to_edit:
            name = self.wrt[0] if statement.name is None else statement.name.text
            if name in right.gradient and place.parent is self._trees_of_statements[id(statement)]:
                yield from missing_part_edits(place, name, claimed, right)

    def scaled(self) -> Mapping[int, tuple[Change, ...]]:
        return {}  # all of it is on one line

    def right_lines(self) -> tuple[int, ...]:
        return ()

    def later_lines(self, right: Collection[int]) -> tuple[int, ...]:
        return ()

    def after(self, edit: Edit) -> "FormulaClaim":
        return FormulaClaim(apply_changes(self.text, edit.changes), self.wrt, self.sizes, self.points)

    @cached_property
    def _parsed_statements(self) -> tuple[list[Statement], list[Statement]]:
        return shared_and_parts(self.text)

    @cached_property
    def _trees_of_statements(self) -> dict[int, ast.Expression]:
        shared, parts = self._parsed_statements
        return {id(s): ast.Expression(parse_statement(s)) for s in (*shared, *parts) if s.source != "None"}

    @cached_property
    def _places_to_edit(self) -> list[tuple[Statement, EditPlace]]:
        shared, parts = self._parsed_statements
        texts = {id(s): Text(self.text, _spans_in_text(s)) for s in (*shared, *parts)}
        trees = self._trees_of_statements
        around = [t for k, tree in trees.items() for t in texts_of_expressions(texts[k], [tree])]
        found = []
        for number, statement in enumerate((*shared, *parts)):
            if id(statement) not in trees or statement.inner:
                continue
            scope = self._scope_after(shared[:number], around)
            for node, parent in walk_expressions(trees[id(statement)]):
                found.append((statement, EditPlace(node, parent, texts[id(statement)], scope)))
        return found

    def _scope_after(self, before: Sequence[Statement], around: Iterable[str]) -> Scope:
        at = {**self.sizes, **self.points[0].at}
        given = frozenset(at)
        named = [f"{s.name.text} = {s.source}" for s in before if s.name is not None]

        def evaluate(text: str) -> Any:
            return Expression("; ".join((*named, text)), given)({**at})

        values = {**at, **{s.name.text: evaluate(s.name.text) for s in before if s.name is not None}}
        return Scope(values, evaluate, prefix="", around=tuple(around))


def _spans_in_text(statement: Statement) -> Callable[[ast.AST], Span]:
    """Return the function that gives the span in the user's text of a node of a statement."""
    source = statement.source

    def span(node: ast.AST) -> Span:
        start, stop = (column_in_characters(source, at) for _, at in extent_of_node(node))
        return statement.columns[start], statement.columns[stop - 1] + 1

    return span


def repair_formula(request: Request, point: Point, names: tuple[str, ...], budget: CauseBudget) -> RepairResult:
    """Return the edits of a claim that is an expression: an expression is data, and is evaluated here.

    Where calls are few because each takes long, edits are tried at smaller sizes first.
    """
    points = draw_near_points(request, point, names)
    most = calls_of_edits(request, budget.left)
    small = at_smaller_sizes(request, point, names, partial(_request_at_values, request), most, points)
    if small is not None:
        calls = CauseBudget(small.calls, budget.seconds)
        found = _repair_formula_at(small.request, small.points, calls, small.given)
        if found.repairs:
            return replace(found, right_here=())  # these edits were tried at the given point last
    if len(points) < 2:
        return RepairResult(why=NO_POINTS)
    return _repair_formula_at(request, points, CauseBudget(most, budget.seconds))


def _repair_formula_at(request: Request, points: list[Right], budget: CauseBudget, *also: Right) -> RepairResult:
    """Return the edits that make the claim right at some points, and at what is drawn from them; and `also` at some others."""
    claim = request.claim
    if not isinstance(claim, ClaimedExpressions):
        return RepairResult(why=NO_POINTS)
    evaluated = list(points)

    @cache
    def further() -> list[Right]:
        evaluated.extend([*also, *draw_further_points(request, points, partial(_request_at_values, request))])
        return evaluated[len(points) :]

    search = RepairSearch(points, further, budget)
    repairs = tuple(search.repairs(FormulaClaim(claim.text, request.wrt, claim.sizes, evaluated)))
    why = "" if repairs else "none of the edits that were tried makes the claim right"
    return RepairResult("", claim.text, repairs, tuple(search.right_here), why, search.evaluations)


def _request_at_values(request: Request, values: Mapping[str, Any]) -> Request:
    """Return the request at other values, with the named sizes of the claim as they are there."""
    claim = request.claim
    if not isinstance(claim, ClaimedExpressions):
        return request
    lengths = map_axis_lengths(request.points[0].values, values)
    sizes = {name: lengths.get(int(n), int(n)) for name, n in claim.sizes.items()}
    moved = {**values, **{name: np.float64(n) for name, n in sizes.items() if name in values}}
    again = ClaimedExpressions(claim.text, request.wrt, frozenset(request.f.inputs), sizes)
    return replace(request, points=(Point(moved),), claim=again)


# Those that try edits. One that is copied before the user's code is loaded starts at once.
REPAIR_WORKERS = Workers("gradcli.repair.repair_process")


def _repair_in_process(wanted: RepairRequest, budget: CauseBudget) -> RepairResult:
    try:
        with tempfile.TemporaryDirectory(prefix="gradcli-repair-", ignore_cleanup_errors=True) as empty:
            return _ask_worker(replace(wanted, empty=empty), budget)
    except OSError as error:  # the disk is full, or no process can be started
        return RepairResult(why=f"no process can be started to try edits in: {error.strerror or error}")


def _ask_worker(wanted: RepairRequest, budget: CauseBudget) -> RepairResult:
    """Return what a process of its own answers; its calls are taken from the budget."""
    try:
        path, pickled = [str(folder) for folder in sys.path], pickle.dumps(wanted)
        request = marshal.dumps((os.getcwd(), path, dict(os.environ), pickled))  # noqa: PTH109 (a text)
    except (pickle.PicklingError, TypeError, AttributeError):
        return RepairResult(why="the point holds objects that cannot be given to another process")
    worker = REPAIR_WORKERS.take()
    try:
        answer = worker.ask(request, budget.wait)
    except WorkerTimeout:
        budget.late = True
        return RepairResult(why="timeout")
    try:
        found = pickle.loads(answer) if answer else None
    except (pickle.UnpicklingError, EOFError, GradcliError):
        found = None
    if found is not None and FORKS:
        REPAIR_WORKERS.give(worker)
    else:
        worker.stop()
    if not isinstance(found, RepairResult):
        return RepairResult(why="the process that tried edits ended")
    budget.calls -= min(found.evaluations, budget.calls)
    return found


# A repair as a unified diff that `git apply` takes.

WORDS = {  # by the kind of an edit
    "sign": "a sign", "operator": "an operator", "factor": "a factor", "term": "a term", "exponent": "an exponent",
    "constant": "a number", "name": "a name", "function": "a function", "index": "an index", "axis": "an axis",
    "transpose": "a transpose", "conjugate": "a conjugate", "outer": "a product of vectors, whose .T does nothing,",
    "inverse": "a reciprocal entry by entry, which is not the inverse,",
    "subscripts": "the order of subscripts", "sum": "a sum", "order": "an order",
    "grouping": "the place of a bracket", "comparison": "a comparison", "assignment": "an assignment", "statement": "a statement",
}  # fmt: skip
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth")
_PROJECT = (".git", ".hg", "pyproject.toml")


def make_patch(path: str, before: str, after: str) -> str | None:
    """Return the difference of two texts of a file, with its path relative to the project.

    None if the file is outside the project, or its name cannot be written in a patch. Line ends stay as they are.
    """
    file, here = Path(path).resolve(), Path.cwd().resolve()
    roots = (folder for folder in (here, *here.parents) if any((folder / name).exists() for name in _PROJECT))
    root = next(roots, here)
    if not file.is_relative_to(root):
        return None
    name = file.relative_to(root).as_posix()
    if any(ord(c) < 32 or c in '"\\' for c in name):
        return None
    lines = difflib.unified_diff(lines_of(before), lines_of(after), f"a/{name}", f"b/{name}")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def source_edits(repair: Repair) -> tuple[SourceEdit, ...]:
    """Return the edits of a repair with the lines before and after each."""
    found = []
    for edit, before in zip(repair.edits, repair.before, strict=True):
        start, end = min(c.start for c in edit.changes), max(c.end for c in edit.changes)
        first = before.rfind("\n", 0, start) + 1
        last = before.find("\n", end - 1 if before[start:end].endswith("\n") else end)
        last = len(before) if last < 0 else last
        after = apply_changes(before, edit.changes)
        new = after[first : len(after) - (len(before) - last)]
        line = before.count("\n", 0, start) + 1
        found.append(SourceEdit(edit.kind, line, before[first:last].strip(), new.strip()))
    return tuple(found)


def describe_repair(repair: Repair) -> str:
    """Say what is there and what it should be, such as "a name is wrong: `X` should be `Xs`"."""
    edits = zip(repair.edits, repair.before, source_edits(repair), strict=True)
    return "; ".join(_describe_edit(edit, before, line) for edit, before, line in edits)


def _on_one_line(statements: str) -> str:
    return "; ".join(part.strip() for part in statements.splitlines())


def _describe_edit(edit: Edit, before: str, line: SourceEdit) -> str:
    word = WORDS.get(edit.kind, "the code")
    pairs = {(" ".join(before[c.start : c.end].split()), " ".join(c.new.split())) for c in edit.changes}
    old, new = next(iter(pairs)) if len(pairs) == 1 else (_on_one_line(line.before), _on_one_line(line.after))
    first, last = (text.splitlines() for text in (line.before, line.after))
    if edit.kind == "order" and len(first) == 2 and [part.strip() for part in first[::-1]] == [p.strip() for p in last]:
        return f"the order of two statements is wrong: `{last[0].strip()}` belongs before `{last[1].strip()}`"
    if not old:
        return f"{word} is missing: `{new}`"
    if not new:
        return f"{word} is one too many: `{old}`"
    turned = {f"{old}.T": "missing", old.removesuffix(".T"): "one too many"}.get(new, "wrong")
    if edit.kind == "conjugate":
        turned = "missing" if len(new) > len(old) else "one too many"
    which = ""
    if len(edit.changes) == 1:
        start = edit.changes[0].start
        left = before[before.rfind("\n", 0, start) + 1 : start]
        as_word = rf"(?<!\w){re.escape(old)}(?!\w)"
        which = _which_occurrence(len(re.findall(as_word, left)), len(re.findall(as_word, line.before)))
        old, new, which = _differing_words(line.before, line.after) or (old, new, which)
    keyword, equals, _ = old.partition("=")
    if edit.kind == "axis" and equals and keyword.isidentifier() and keyword not in AXES:
        word = "an argument"  # ddof, keepdims
    return f"{word} is {turned}: {which}`{old}` should be `{new}`"


def _differing_words(before: str, after: str) -> tuple[str, str, str] | None:
    """Return the one word in which two texts differ, with its keyword as in `axis=0`; None if they differ in more."""
    a, b = (re.findall(r"\w+=(?!=)|[\w.]+|\S", text) for text in (before, after))
    differing = [k for k, (x, y) in enumerate(zip(a, b, strict=False)) if x != y]
    if len(a) != len(b) or len(differing) != 1:
        return None
    k = differing[0]
    inside = a[:k].count("(") > a[:k].count(")")  # else `x=` begins the claim of an input
    keyword = a[k - 1] if inside and re.fullmatch(r"\w+=", a[k - 1]) else ""
    return keyword + a[k], keyword + b[k], _which_occurrence(a[:k].count(a[k]), a.count(a[k]))


def _which_occurrence(number: int, count: int) -> str:
    """Say which of several equal words is meant, counted from 0; nothing where there is one."""
    if count < 2:
        return ""
    return f"the {_ORDINALS[number]} " if number < len(_ORDINALS) else f"number {number + 1} of the texts "


def _add_repairs(diagnosis: Diagnosis, found: RepairResult, formula: bool) -> Diagnosis:
    """Return the diagnosis with the repairs that were found: the first as the patch, the others as alternatives."""
    texts = [repair.text if formula else make_patch(found.path, found.text, repair.text) for repair in found.repairs]
    shown = [text for text in texts if text]
    if not shown:
        why = found.why or "the claim's file is outside the project"
        here = min(found.right_here, key=lambda repair: repair.cost, default=None)
        return replace(diagnosis, no_patch=why, right_here_only=ABSENT if here is None else source_edits(here))
    first = found.repairs[texts.index(shown[0])]
    edits = source_edits(first)
    one_word = diagnosis.kind in _LOST and edits[0].kind in _OF_ONE_WORD  # a part of it is there, with that word wrong
    is_conjugate = edits[0].kind == "conjugate"  # elsewhere it looks like a wrong sign, or another order
    names_none = diagnosis.kind in (DiagnosisKind.UNKNOWN, DiagnosisKind.ENTRY)
    if names_none or one_word or is_conjugate:
        diagnosis = replace(diagnosis, kind=DiagnosisKind.SLIP, message=describe_repair(first))
    if not formula:  # the mistake is in the claim, also where it is named after an operation of f
        file, line, source = shown_path(found.path), edits[0].line, edits[0].before
        diagnosis = replace(diagnosis, file=file, line=line, source=source)
    diagnosis = replace(diagnosis, edits=edits, alternatives=tuple(dict.fromkeys(shown[1:])) or ABSENT)
    return replace(diagnosis, replacement=shown[0]) if formula else replace(diagnosis, patch=shown[0])
