"""Notices about input that may be misread, and the reason why something has no closed form."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from gradcli.derivation.convert import Reader
from gradcli.derivation.fitting import fitting
from gradcli.derivation.problem import Problem, shapes_line
from gradcli.derivation.record import Sweep
from gradcli.errors import BadOption, NotSupported
from gradcli.report.common import Finding, finding
from gradcli.targets.expression import Expression, axisless
from gradcli.targets.facts import Dims
from gradcli.targets.instructions import Instruction
from gradcli.tracing.primitive import Value
from gradcli.tracing.provenance import place
from gradcli.tracing.shapes import shape
from gradcli.words import Kind, Severity

_OF_ARRAYS = {
    "sum", "mean", "prod", "softmax", "log_softmax", "logsumexp", "norm", "dot", "trace", "tr", "det", "logdet", "inv", "std",
    "var", "cumsum", "cross_entropy", "mse", "layer_norm", "outer", "[]", ".T",
}  # fmt: skip
_ENTRY_BY_ENTRY = {
    "exp": "the matrix exponential is expm",
    "log": "the matrix logarithm is logm",
    "sqrt": "the matrix square root is sqrtm",
}


def refuse_numbers(problem: Problem, shapes: Mapping[str, Dims], point: Mapping[str, Value]) -> None:
    """Raise BadOption, with the sizes to add, if a function of arrays gets a number because no sizes were given."""
    silent = [name for name in problem.dims if name not in shapes]
    if not isinstance(problem.f, Expression) or not silent:
        return

    def watch(step: Instruction, args: Sequence[Value], kwargs: Mapping[str, Value]) -> None:
        if step.operation in _OF_ARRAYS and args and _dims(args[0]) == ():
            found = fitting(problem.f, shapes)
            known, added = shapes_line(shapes), "; ".join(f"{name}: n" for name in silent)
            line = "; ".join(filter(None, (known, added))) if found is None else shapes_line(found)
            says = f"'{step.operation}' takes an array, and {', '.join(silent)} would be numbers"
            do = f'give sizes: --shapes "{line}"; of a number: "{silent[0]}:"'
            raise BadOption(says, where=step.span, do=do)

    with np.errstate(all="ignore"):
        problem.f.watched(point, watch)


def notes(problem: Problem, point: Mapping[str, Any]) -> list[Finding]:
    """Return notices of what may be misread: names, and functions of square matrices that act entry by entry."""
    found = [finding(Kind.NOTICE, Severity.INFO, says) for says in _of_names(problem)]
    if isinstance(problem.f, Expression):
        seen: dict[Any, str] = {}

        def watch(step: Instruction, args: Sequence[Value], kwargs: Mapping[str, Value]) -> None:
            says = _of_operation(step, args) or (axisless(args, kwargs) if step.notice is axisless else None)
            if says:
                seen[step.span] = says

        with np.errstate(all="ignore"):
            problem.f.watched(point, watch)
        found += [finding(Kind.NOTICE, Severity.INFO, says, at=span) for span, says in seen.items()]
    return found


def _of_names(problem: Problem) -> Iterator[str]:
    for name in problem.f.inputs:
        owner = next((other for other, dims in problem.dims.items() if name in dims), None)
        if owner is not None:
            yield f"{name} is the size of {owner} here, and no input"
        elif name == "I":
            yield "I is an input here, not the identity matrix; write eye(n) for that"


def _dims(x: Any) -> tuple[int, ...] | None:
    """Return the shape of a value; None for several values in a list."""
    return None if isinstance(x, list | tuple) else shape(x)


def _of_operation(step: Instruction, args: Sequence[Value]) -> str | None:
    """Return a notice if an operation is an abbreviation, or takes a square matrix entry by entry."""
    if step.operation == "tr":
        return "tr is read as trace"
    dims = _dims(args[0]) if args else None
    if dims is None or len(dims) != 2 or dims[0] != dims[1] or dims[0] == 1:
        return None
    if step.operation in _ENTRY_BY_ENTRY:
        return f"taken entry by entry: {_ENTRY_BY_ENTRY[step.operation]}"
    if step.operation == "**" and isinstance(args[1], int) and args[1] < 0:
        base = step.span.source.partition("^")[0].partition("**")[0].strip()
        return f"taken entry by entry: for the inverse of the matrix write inv({base})"
    return None


def first_refused(sweeps: Sequence[Sweep], reader: Reader, error: NotSupported) -> NotSupported:
    """Return the error of the first line that has no formula, with its position; or `error` if every line has one."""
    tapes = [s.tape for s in sweeps]
    for k, (primitive, slots, _, _, _, position) in enumerate(tapes[0].lines):
        same = (primitive, slots)
        if any(k >= len(t.lines) or (t.primitive(k), t.operands(k)) != same for t in tapes[1:]):
            says, longest = "the program is another one at another size", max(tapes, key=lambda t: len(t.lines))
            return NotSupported(says, where=place(longest.position(k)), do="give sizes as numbers: --shapes x:3")
        if primitive is not None:
            try:
                reader.read([t.value(k) for t in tapes])
            except NotSupported as found:
                found.where = place(position)
                return found
    return error
