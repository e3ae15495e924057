"""How mistakes are planted here: one edit in the source of a right gradient, or one rule of its recorded run."""

import inspect
import re
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import gradcli
from gradcli.arithmetic import recorded_program as recorded
from gradcli.report.check import CheckReport
from gradcli.report.point_report import Diagnosis
from gradcli.tracing.primitive import Rule
from gradcli.tracing.provenance import place_of_position

Point = dict[str, Any]
MODES = "reverse,finite-difference"


@dataclass(frozen=True)
class Slip:
    """An edit of a gradient's source, what it has to be called, and the source of the line that has to be named."""

    old: str
    new: str
    kind: str
    says: str
    source: str | None = None
    defect: str = ""  # why it is not named so yet


@dataclass(frozen=True)
class Program:
    """A function, its point, its right gradient in plain numpy, and slips in that."""

    f: Callable[..., Any]
    at: Point
    g: Callable[..., Any]
    slips: tuple[Slip, ...]


def slipped(g: Callable[..., Any], old: str, new: str) -> Callable[..., Any]:
    """Return the function whose source has one piece exchanged for another."""
    source = textwrap.dedent(inspect.getsource(g))
    assert source.count(old) == 1, f"{old!r} is in the source of {g.__name__} {source.count(old)} times"
    space = dict(g.__globals__)
    exec(source.replace(old, new), space)
    made: Callable[..., Any] = space[g.__name__]
    return made


def checked(f: Any, at: Any, g: Any, **rest: Any) -> CheckReport:
    """Check a claim by the two modes that are always there."""
    return gradcli.check(f, at, grad=g, modes=MODES, **rest)


def diagnosis_of(report: CheckReport) -> Diagnosis | None:
    """Return what the first point is said to be wrong by."""
    return report.points[0].diagnosis


def named(f: Any, at: Point, wrong: Any, right: Any, **rest: Any) -> Diagnosis:
    """Return the diagnosis of a wrong claim, whose corrected value has to be the right one."""
    report = checked(f, at, wrong, **rest)
    assert (report.verdict, report.exit_status) == ("fail", 1)
    found = diagnosis_of(report)
    assert found is not None
    corrected(found, values(right, at), values(wrong, at))
    return found


def values(g: Any, at: Point) -> dict[str, Any]:
    """Return a gradient by input."""
    made = g(**at)
    if isinstance(made, dict):
        return made
    return dict(zip(at, made, strict=True)) if isinstance(made, tuple) else {next(iter(at)): made}


def corrected(found: Diagnosis, right: dict[str, Any], wrong: dict[str, Any]) -> None:
    """Assert that the entry shown as wrong is that of the claim, and the one shown for it that of the right gradient."""
    shown = re.fullmatch(
        r"(?:f\[(?P<output>[\d,]+)\]/)?(?P<name>\w+)(?:\[(?P<entry>[\d,]+)\])? = (\S+), not (\S+)", str(found.corrected)
    )
    assert shown is not None, found.corrected
    at = tuple(int(k) for part in (shown["output"], shown["entry"]) if part for k in part.split(","))
    for text, of in ((shown[4], right), (shown[5], wrong)):
        np.testing.assert_allclose(float(text), np.asarray(of[shown["name"]])[at], rtol=1e-5, atol=1e-12)


def line_of(f: Callable[..., Any], source: str) -> int:
    """Return the number of the line of a function that reads so."""
    lines, first = inspect.getsourcelines(f)
    (found,) = [first + k for k, line in enumerate(lines) if line.split("#")[0].strip() == source]
    return found


def on_line(found: Diagnosis, f: Callable[..., Any], source: str | None) -> None:
    """Assert that a diagnosis names this line of a function, or none."""
    assert found.source == source
    if source is None:
        assert (found.file, found.line) == (None, None)
        return
    assert found.line == line_of(f, source)
    assert Path(str(found.file)).resolve() == Path(str(inspect.getsourcefile(f))).resolve()


Rules = Callable[[Any], Rule]  # what a line is given instead of its own rule


def with_planted(
    f: Callable[..., Any], at: Point, name: str, i: int, rule: Rules, source: str
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return the right gradient at the point, and that with another rule of one argument of a primitive on a line."""
    program = recorded.record(f, [np.asarray(x, dtype=float)[()] for x in at.values()])
    lines = [
        k
        for k, line in enumerate(program.lines)
        if line[0] is not None
        and line[0].name == name
        and getattr(place_of_position(line[5]), "source", None) == source
    ]
    assert len(lines) == 1, f"{name} is on {len(lines)} lines {source!r}"
    other = program.with_rules({k: {i: rule(program.lines[k])} for k in lines})
    right, wrong = (_swept(made) for made in (program, other))
    return lambda **_: dict(zip(at, right, strict=True)), lambda **_: dict(zip(at, wrong, strict=True))


def _swept(program: recorded.RecordedProgram) -> list[Any]:
    with np.errstate(all="ignore"):
        return program.pull(np.float64(1))
