"""The walkthrough of a point that was checked, with the adjoints of a wrong claim beside the right ones."""

import ast
import linecache
from dataclasses import replace

import numpy as np

from gradcli.arithmetic.recorded_program import RecordedProgram, record
from gradcli.arithmetic.tape import Recorded
from gradcli.checks.on_tape import SlipSearch, find_slip_on_tape
from gradcli.checks.request import Request
from gradcli.checks.wrong import MOST, CauseBudget, Gradient, Wrong
from gradcli.errors import BadClaim, GradcliError
from gradcli.modes.claim import Claimed, ClaimedExpressions
from gradcli.modes.mode import Question
from gradcli.report.check import CheckReport, worst_point
from gradcli.report.common import Absent, SourceLine, finding
from gradcli.report.framework_gradient import NativeReport, Part
from gradcli.report.point_report import PointReport
from gradcli.report.trace import ScalarProgram, TraceReport
from gradcli.study.walkthrough import scalar_program, walkthrough
from gradcli.targets.derived import inner_gradient, original_function, record_checkpoints
from gradcli.targets.layers import Engine
from gradcli.targets.loading import run_user_code
from gradcli.targets.nesting import put_together
from gradcli.tracing.primitive import Value
from gradcli.tracing.shapes import shape, zeros_like
from gradcli.tracing.tracer import plain_value
from gradcli.words import Kind, Severity, Verdict

_ROUNDED = 1e-6  # relative, also of a value in float32
MOST_NODES = 200_000  # lines of a program that is walked through


# Where a wrong claim departs from the right gradient: the node, and the line of code with the mistake.

_LONGEST = 60  # lines of a function that are shown


def locate_mistake(trace: TraceReport, report: CheckReport, number: int) -> TraceReport:
    """Return the walkthrough of a point with the line of code that makes its claim depart.

    Where a custom gradient of a framework is wrong, the claim departs at what enters it.
    """
    said = report.points[number].diagnosis
    for part in report.native.parts if isinstance(report.native, NativeReport) else ():
        node = _last_node_read(trace, part) if part.verdict == Verdict.FAIL else None
        if node is not None and isinstance(part.file, str) and isinstance(part.line, int):
            at = SourceLine(part.file, part.line, str(part.source or ""))
            same_file = said is not None and said.file == at.file
            if said is not None and same_file and said.line in _innermost_lines(at.file, at.line, ast.FunctionDef):
                at = SourceLine(at.file, said.line or at.line, said.source or "")
            return replace(show_function_around(trace, at.file, at.line), departs=node, mistake=at)
    if said is None or said.file is None or said.line is None:
        return trace
    return replace(
        show_function_around(trace, said.file, said.line), mistake=SourceLine(said.file, said.line, said.source or "")
    )


def show_function_around(trace: TraceReport, file: str, line: int) -> TraceReport:
    """Return the walkthrough with the whole function around a line among the lines of code that are shown."""
    lines = _innermost_lines(file, line, ast.FunctionDef)[:_LONGEST]
    known = {(shown.file, shown.line) for shown in trace.source}
    more = [SourceLine(file, k, linecache.getline(file, k).rstrip("\n")) for k in lines if (file, k) not in known]
    files = list(dict.fromkeys(shown.file for shown in (*trace.source, *more)))
    return replace(trace, source=tuple(sorted((*trace.source, *more), key=lambda s: (files.index(s.file), s.line))))


def _last_node_read(trace: TraceReport, part: Part) -> str | None:
    """Return the name of the last node that a custom gradient reads; None if its forward function was not recorded."""
    lines = _innermost_lines(part.file, part.line, ast.ClassDef) if part.file and part.line else range(0)
    inside = {node.name for node in trace.nodes if node.file == part.file and node.line in lines}
    read = {name for node in trace.nodes if node.name in inside for name in node.partials} - inside
    return next((node.name for node in reversed(trace.nodes) if node.name in read), None)


def _innermost_lines(file: str, line: int, kind: type[ast.ClassDef] | type[ast.FunctionDef]) -> range:
    """Return the lines of the innermost class or function that holds a line; none where there is none."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return range(0)
    found = [node for node in ast.walk(tree) if isinstance(node, kind)]
    ranges = [range(node.lineno, (node.end_lineno or node.lineno) + 1) for node in found]
    return min((lines for lines in ranges if line in lines), key=len, default=range(0))


# The adjoints that a wrong claim has: at the inputs those claimed, inside the program those that its mistake makes.

_SAME_ADJOINT = 1e-9  # relative: adjoints that differ by less differ by rounding


def claimed_adjoints(q: Question, point: PointReport) -> dict[int, Value]:
    """Return, by the number of a line, the adjoints that a wrong claim at a point has otherwise than the right gradient.

    Each is the derivative of the sum of all outputs, as the right adjoints are.
    """
    claim = point.modes.get("claim")
    if claim is None or not point.mismatches or point.reference is None:
        return {}
    claimed = {name: np.asarray(x, dtype=float) for name, x in claim.values.items() if name in q.wrt}
    right = {
        name: np.asarray(x, dtype=float) for name, x in point.modes[point.reference].values.items() if name in claimed
    }
    if claimed.keys() != right.keys() or any(claimed[name].shape != right[name].shape for name in claimed):
        return {}
    outputs = tuple(range(np.ndim(q.value)))
    wrong = {m.input for m in point.mismatches}
    inputs = {x.slot: name for x, name in zip(q.recording.inputs, q.wrt, strict=True)}
    found = {k: np.sum(claimed[name], axis=outputs)[()] for k, name in inputs.items() if name in wrong}
    program = _program_with_slip(q, point, claimed, right)
    if program is None:
        return found
    bars = program.tape.sweep(program.y.slot, np.ones(shape(q.value))[()])
    inside = range(len(inputs), len(bars))
    return found | {k: bars[k] for k in inside if bars[k] is not None and _is_changed(bars[k], q.bars[k])}


def engine_walkthrough(q: Question, engine: Engine, *, prove: bool = False) -> TraceReport:
    """Return the walkthrough of a function of an engine's values, with the gradients that its objects have otherwise.

    The function is run twice, on tracers and on numbers: the objects that are made first, second and so on are the same ones.
    """
    f = original_function(q.f)
    arguments = {name: put_together(node, q.point.values) for name, node in getattr(f, "arguments", {}).items()}
    with np.errstate(all="ignore"):
        with engine.objects() as traced:
            program = record(q.g, q.xs)
        with engine.objects() as run, run_user_code(f"{engine.name}.backward", BadClaim):
            engine.gradients(**arguments)
    claimed: dict[int, Value] = {}
    if not traced or len(traced) != len(run) or len(program.lines) != len(q.lines):
        says = f"the objects of {engine.name} cannot be followed: two runs make {len(traced)} and {len(run)} of them"
        found = walkthrough(q, prove=prove)
        return replace(found, findings=(*found.findings, finding(Kind.NOTICE, Severity.WARNING, says)))
    with run_user_code(f"{engine.name}.backward", BadClaim):
        for y, slope in zip(engine.values_of(traced), engine.slopes_of(run), strict=True):
            given = np.asarray(slope, dtype=float)[()]
            right = q.bars[y.slot] if isinstance(y, Recorded) else None
            if isinstance(y, Recorded) and _is_changed(given, zeros_like(plain_value(y)) if right is None else right):
                claimed[y.slot] = given
    return replace(walkthrough(q, prove=prove, claimed=claimed), engine=engine.name)


def _is_changed(slipped: Value, right: Value | None) -> bool:
    """Whether a mistake changes an adjoint; both are computed by the same operations, up to where the mistake is."""
    if right is None or shape(slipped) != shape(right):
        return True
    with np.errstate(invalid="ignore"):
        apart = np.abs(np.asarray(slipped) - right) > _SAME_ADJOINT * np.abs(right)
    return bool(np.any(apart | (np.isfinite(slipped) != np.isfinite(right))))


def _program_with_slip(q: Question, point: PointReport, claimed: Gradient, right: Gradient) -> RecordedProgram | None:
    """Return the recorded program with the one slip that makes the whole claim; None if none on a line of it does."""
    if point.diagnosis is None or point.diagnosis.line is None:
        return None
    masks = {name: np.zeros(x.shape, dtype=bool) for name, x in claimed.items()}
    room = {name: np.zeros(x.shape) for name, x in claimed.items()}
    for mismatch in point.mismatches:
        at = (*(mismatch.output if isinstance(mismatch.output, tuple) else ()), *mismatch.index)
        masks[mismatch.input][at], room[mismatch.input][at] = True, mismatch.bound
    wrong = Wrong(q, claimed, right, masks, room)
    if find_slip_on_tape(wrong) is None or not wrong.slipped:
        return None
    program = wrong.slipped[-1]
    search = SlipSearch(replace(wrong, budget=CauseBudget(MOST)), program)
    return program if search.explains(search.made(program)) == "" else None


def point_walkthrough(request: Request, report: CheckReport) -> TraceReport | str:
    """Return the walkthrough at the point that decides the verdict, or a sentence that says why there is none."""
    number = worst_point(report)
    if number >= len(request.points):
        return "The point was found later, and the function was not recorded there."
    if inner_gradient(request.f) is not None:
        return f"The computation is drawn for gradients and Jacobians, not for a {request.derivative}."
    q = request.question(request.points[number])
    try:
        q.refuse_untraced()
        if len(q.lines) > MOST_NODES:
            return f"The computation has {len(q.lines):,} operations, too many to be drawn."
        with np.errstate(all="ignore"), record_checkpoints():
            value = report.points[number].value
            # up to what threads and devices change
            if not isinstance(value, Absent) and not np.allclose(
                plain_value(q.recording.y), value, rtol=_ROUNDED, atol=0, equal_nan=True
            ):
                return "The computation is not drawn: the function gave another value when it was called again."
            engine = None if request.layer is None else request.layer.engine
            if engine is not None:
                return locate_mistake(engine_walkthrough(q, engine, prove=True), report, number)
            found = walkthrough(q, prove=True, claimed=claimed_adjoints(q, report.points[number]))
            return locate_mistake(replace(found, claims=_claim_programs(request.claim, q)), report, number)
    except GradcliError as error:
        return f"The computation cannot be drawn: {error.what}."


def _claim_programs(claim: Claimed | None, q: Question) -> dict[str, ScalarProgram]:
    """Return the claims that are expressions of numbers as programs, by input: a page can compute them at other values."""
    found: dict[str, ScalarProgram] = {}
    if not isinstance(claim, ClaimedExpressions) or any(map(np.ndim, q.xs)):
        return found
    fixed = {**claim.sizes, **q.point.values}
    for name, instructions in claim.programs.items():
        try:
            made = record(lambda *xs, run=instructions.run: run(fixed | dict(zip(q.wrt, xs, strict=True))), q.xs)
        except GradcliError:  # an operation that has a value and no derivative: this claim stays that of the point
            continue
        program = scalar_program(made.tape, made.y.slot) if made.moves and isinstance(made.y, Recorded) else None
        found |= {} if program is None else {name: program}
    return found
