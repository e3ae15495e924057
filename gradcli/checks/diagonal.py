"""Claims of a diagonal: of an elementwise function's Jacobian, or of a Hessian without other entries.

Where the matrix is diagonal, its diagonal is the gradient of the sum of the function's entries, and is checked as that.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from gradcli.arithmetic.recorded_program import RecordedProgram, record
from gradcli.arithmetic.tape import CONSTANT
from gradcli.checks.probe import Located
from gradcli.errors import GradcliError
from gradcli.modes.claim import ClaimedExpressions, ClaimedFunction
from gradcli.modes.difference_steps import Line, derivative
from gradcli.modes.finite_difference import GradientByValues
from gradcli.modes.kinks import reach_of_result
from gradcli.modes.mode import Question
from gradcli.modes.recording import MOST_JACOBIAN
from gradcli.report import numbers, point_report
from gradcli.request.point import Estimate
from gradcli.targets.derived import Gradient, SumOfEntries, inner_gradient, random_signs
from gradcli.targets.facts import Function, Notice, restrict_to_inputs
from gradcli.targets.python import output_entry_names
from gradcli.tracing.primitive import Value
from gradcli.tracing.shapes import shape, size
from gradcli.words import Kind, Severity

_STEP = 0.1  # of the size of an entry: how far it is moved, to see which values of f change
_SMALLER, _TRIES = 0.1, 4  # the step is made smaller where f has no value after it
_BOUNDS = 3.0  # a slope beyond three of its bounds is none of rounding
_EQUAL = 1e-9  # of the largest entry: a claim this near the diagonal is that diagonal
_ROUNDINGS = 1e3  # of f: a smaller mixed difference of it is rounding


def replace_elementwise(found: Located, claim: ClaimedExpressions | ClaimedFunction) -> Located:
    """Return the sum of f's entries in place of f, if the claim has the shape of each input and the Jacobian is diagonal.

    If the claim also has a whole Jacobian, by a parameter, f stays, and the claim fills in the zeros beside its diagonals.
    """
    first = found.points[0]
    y = first.value if first.value is not None else found.f(first.values)
    if size(y) < 2 or all(shape(first.values[name]) != shape(y) for name in found.wrt):
        return found
    try:
        parts = claim(first.values)
    except GradcliError:  # reported where the claim is compared
        return found
    claimed = {name: x for name, x in parts.items() if name in found.wrt}
    names = [name for name, x in claimed.items() if shape(x) == shape(first.values[name]) == shape(y)]
    labels = {name: np.arange(size(y)).reshape(shape(y)) for name in names}
    how = _prove_diagonal(found, found.f, labels) if names else None
    if how is None:
        return found
    several, its = " and ".join(names), "the diagonal of the Jacobian"
    says = f"f is elementwise: each entry of its value depends on the same entry of {several} alone, {how}"
    if len(names) == len(parts):
        return _sum_entries(found, f"{says}; the claim is {its}")
    if size(y) ** 2 > MOST_JACOBIAN:
        return found
    claim.diagonal = frozenset(names)
    return _add_notice(found, f"{says}; the claim for {several} is {its}")


def with_hessian_diagonal(found: Located, gradient: Located) -> Located | None:
    """Return the sum of the gradient's entries as the function to check, if the Hessian is diagonal; else None.

    `gradient` has the gradient of f at the points of `found`.
    """
    at, start, labels = found.points[0].values, 0, {}
    for name in found.wrt:
        labels[name] = start + np.arange(size(at[name])).reshape(shape(at[name]))
        start += size(at[name])
    how = _prove_diagonal(gradient, gradient.f, labels)
    if how is None:
        return None
    says = f"the Hessian is diagonal: each entry of the gradient depends on one entry of the inputs alone, {how}"
    return _sum_entries(gradient, f"{says}; the claim is its diagonal")


def explain_claimed_diagonal(q: Question, claim: Mapping[str, Any], right: Estimate) -> str | None:
    """Return what is wrong with a claim that has the shape of a diagonal, where the matrix has other entries too.

    None if it is not known to have any.
    """
    is_hessian, rows, start = inner_gradient(q.f) is not None, size(q.value), 0
    of = output_entry_names(q.f.outputs) if is_hessian else ()
    for name, x in zip(q.wrt, q.xs, strict=True):
        first, start = (start, start + size(x)) if is_hessian else (0, 0)
        if name not in claim or size(right.value[name]) != rows * size(x):
            continue
        matrix, bound = (np.reshape(part[name], (rows, size(x))) for part in (right.value, right.bound))
        columns = np.arange(size(x))
        others = np.where(np.abs(matrix) > _BOUNDS * bound, np.abs(matrix), 0.0)
        others[first + columns, columns] = 0.0
        if not np.any(others):
            continue

        def entry(k: Any, j: Any, name: str = name, x: Any = x) -> str:
            at = (*np.unravel_index(k, shape(q.value)), *np.unravel_index(j, shape(x)))
            return point_report.derivative_name((name, tuple(map(int, at))), np.ndim(q.value), of)

        k, j = np.unravel_index(int(np.argmax(others)), others.shape)
        what = "Hessian" if is_hessian else "Jacobian"
        has = f"the {what} has other entries, such as {entry(k, j)} = {numbers.few_digits(matrix[k, j])}"
        own, diagonal = np.ravel(claim[name]), matrix[first + columns, columns]
        off = np.abs(own - diagonal)
        if np.all(off <= bound[first + columns, columns] + _EQUAL * np.max(np.abs(diagonal))):
            return f"the claim for {name} equals the diagonal; {has}"
        if np.all(np.abs(own - np.sum(matrix, axis=0)) <= _EQUAL * np.max(np.abs(matrix))):
            return f"the claim for {name} is the gradient of the sum of all entries, not the {what}; {has}"
        worst = int(np.argmax(np.nan_to_num(off, nan=np.inf)))
        claimed, known = numbers.write_differing_pair(float(own[worst]), float(diagonal[worst]))
        wrong = f"and is not even right there: {entry(first + worst, worst)} = {known}, not {claimed}"
        return f"the claim for {name} has the shape of the diagonal, {wrong}; {has}"
    return None


def _sum_entries(found: Located, says: str) -> Located:
    return _add_notice(found.with_function(SumOfEntries(found.f)), says)


def _add_notice(found: Located, says: str) -> Located:
    return replace(found, notices=(*found.notices, Notice(Kind.DIAGONAL, Severity.INFO, says)))


def _prove_diagonal(found: Located, f: Function, labels: Mapping[str, Any]) -> str | None:
    """Return how it is known that every entry of f depends, at each point, on the inputs' entries of its number alone.

    `labels[x]` has the number of an entry of f for each entry of input x. None if f depends on others.
    """
    known = ""
    for point in found.points:
        if any(shape(point.values[name]) != shape(x) for name, x in labels.items()):
            return None
        if _is_diagonal_by_trace(f, point.values, labels):
            known = known or "by the recorded program"
            continue
        calls = _test_diagonal_by_values(f, point.values, labels)
        if calls is None:
            return None
        known = f"as values of f beside the point show ({calls} evaluations)"
    return known


def _separating_groups(count: int) -> list[Any]:
    """Return sets of numbers, as masks, so that of any two numbers some set has the first and not the second."""
    found = []
    for bit in range(max(count - 1, 1).bit_length()):
        has = (np.arange(count) >> bit) & 1 == 1
        found += [has, ~has]
    return found


def _is_diagonal_by_trace(f: Function, values: Mapping[str, Value], labels: Mapping[str, Any]) -> bool:
    """Whether the structure of the recorded program shows it; False too if f cannot be recorded."""
    names = list(labels)
    try:
        with np.errstate(all="ignore"):
            program = record(restrict_to_inputs(f, values, names), [values[name] for name in names])
    except GradcliError:
        return False
    if not program.moves or _is_elementwise_program(program):
        return True
    y = shape(program.tape.value(program.y.slot))
    with np.errstate(all="ignore"):
        for group in _separating_groups(int(np.prod(y))):
            reached = reach_of_result(program, group.reshape(y))
            if any(np.any(mask & ~group[labels[name]]) for name, mask in zip(names, reached, strict=True)):
                return False
    return True


def _is_elementwise_program(program: RecordedProgram) -> bool:
    """Whether all lines are elementwise, and all values that depend on the inputs have the shape of the result."""
    y = shape(program.tape.value(program.y.slot))
    if not all(shape(value) == y for value in program.tape.values):
        return False
    return all(
        primitive.kind == "elementwise" and all(s == CONSTANT or shape(x) == y for s, x in zip(slots, xs, strict=True))
        for primitive, slots, xs, _, _, _ in program.lines
        if primitive is not None
    )


def _test_diagonal_by_values(f: Function, values: Mapping[str, Value], labels: Mapping[str, Any]) -> int | None:
    """Return how many evaluations of f show it, or None if f depends on other entries or raises.

    Half of the entries are moved at once, in turns, so that each two entries are in different halves once: the values that
    belong to the other half do not change then.
    """
    if isinstance(f, GradientByValues):
        return _test_separability(f, values, labels)
    rng = np.random.default_rng(0xD1A6)
    y = np.asarray(f(values), dtype=float)
    calls = 1
    for group in _separating_groups(y.size):
        step = {name: _random_step(rng, values[name], group[x]) for name, x in labels.items()}
        others = ~group.reshape(y.shape)

        def phi(t: float, step: Mapping[str, Any] = step) -> Any:
            return np.asarray(f({**values, **{name: values[name] + t * v for name, v in step.items()}}), dtype=float)

        moved, tried = _first_finite_value(phi)
        calls += tried
        if moved is None or moved.shape != y.shape:
            return None
        if np.array_equal(moved[others], y[others], equal_nan=True):
            continue
        unmoved = Line(lambda t, phi=phi, others=others: phi(t)[others], at=y[others])  # type: ignore[misc]
        found = derivative(unmoved)
        calls += found.calls
        with np.errstate(all="ignore"):
            if not np.all(np.abs(found.value) <= _BOUNDS * np.asarray(found.bound)):
                return None
    return calls


def _random_step(rng: np.random.Generator, x: Any, mask: Any) -> Any:
    sizes = np.where(np.asarray(x) == 0, 1.0, np.abs(x))
    return _STEP * random_signs(rng, shape(x)) * sizes * mask


def _first_finite_value(phi: Callable[[float], Any]) -> tuple[Any | None, int]:
    """Return the value after the longest step where there is a finite one, and how many were tried."""
    t = 1.0
    for tried in range(1, _TRIES + 1):
        try:
            y = phi(t)
        except GradcliError:
            y = None
        if y is not None and np.all(np.isfinite(y)):
            return y, tried
        t *= _SMALLER
    return None, _TRIES


def _test_separability(gradient: Gradient, values: Mapping[str, Value], labels: Mapping[str, Any]) -> int | None:
    """Return how many evaluations show that a function which can only be called is a sum of functions of single entries."""
    f, rng, calls = gradient.f, np.random.default_rng(0xD1A6), 1
    count = sum(size(x) for x in labels.values())
    here = float(f(values))
    for group in _separating_groups(count)[::2]:
        one, other = ({n: _random_step(rng, values[n], mask[x]) for n, x in labels.items()} for mask in (group, ~group))

        def phi(t: float, one: Mapping[str, Any] = one, other: Mapping[str, Any] = other) -> Any:
            ways = (one, other, {name: one[name] + other[name] for name in labels})
            return np.array([float(f({**values, **{n: values[n] + t * v[n] for n in labels}})) for v in ways])

        moved, tried = _first_finite_value(phi)
        calls += 3 * tried
        if moved is None:
            return None
        mixed = moved[2] - moved[0] - moved[1] + here
        if abs(mixed) > _ROUNDINGS * np.finfo(float).eps * max(abs(here), float(np.max(np.abs(moved)))):
            return None
    return calls
