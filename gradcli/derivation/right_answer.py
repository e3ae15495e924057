"""The right gradient as code, to be shown beside a claim that no edit repairs."""

import re
from collections.abc import Collection, Sequence

import numpy as np

from gradcli.arithmetic.tape import CONSTANT, Line
from gradcli.checks.request import Request
from gradcli.errors import GradcliError
from gradcli.report.common import ABSENT, Absent
from gradcli.request.options import Options
from gradcli.request.point import Point
from gradcli.targets.derived import is_target
from gradcli.targets.expression import Expression

_MOST_OPERATIONS = 60  # of f, beyond which no short closed form is expected
_MOST_UNFOLDED = (
    300  # operations of f with each shared value written out wherever it is used: its gradient has many more
)
_MOST_CHARACTERS = 600
_SIZED = r"\b(?:eye|zeros|ones|full|arange|reshape|broadcast_to)\("


def right_answer(
    point: Point, names: tuple[str, ...], language: str, request: Request
) -> tuple[dict[str, str], str | Absent]:
    """Return the closed form of the gradient by each of some inputs, in a language, where there is one that was confirmed.

    `language` is `expression`, or one that `gradcli derive --code` knows. The second result are the sizes that expressions
    name, as --shapes takes them. None is sought of a function that branched or looped on values, whose formula would be that
    of one branch; closed forms that are long, and those that hold at the sizes of the point alone, are left out.
    """
    from gradcli.checks.probe import Located  # all that derives is loaded where a claim is wrong, not before
    from gradcli.derivation.sized_problem import shapes_line
    from gradcli.derivation.study import derive, function_at_point

    if not is_target(request.f) or np.shape(point.value or 0.0) != ():
        return {}, ABSENT
    q = request.question(point)
    try:
        if q.untraced is not None or len(q.lines) > _MOST_OPERATIONS or q.branches:
            return {}, ABSENT
        if _unfolded_size(q.lines) > _MOST_UNFOLDED:
            return {}, ABSENT
        given = function_at_point(Located(request.f, (point,), request.wrt, True, {}), {})
        found = derive(given.f, {}, Options(wrt=",".join(names), no_steps=True), given)
    except (GradcliError, ValueError, TypeError, ArithmeticError, IndexError, RecursionError, np.linalg.LinAlgError):
        return {}, ABSENT
    made, sizes = {}, set(given.named)
    for result in found.results:
        if result.check.verdict != "pass" or (isinstance(result.value_error, float) and result.value_error > 1e-6):
            continue
        text = result.code.get(language, "").partition("\n\n\nif __name__")[0].strip()  # without its self-test
        if language == "expression":
            text = result.formula.expression
            if not set(Expression(text).inputs) <= {*point.values, *sizes}:
                continue
        at_fixed_sizes = set(given.named.values()) if isinstance(found.sizes, Absent) else set()
        if text and len(text) <= _MOST_CHARACTERS and not _has_fixed_length(text, at_fixed_sizes):
            made[result.wrt] = text
    named = sizes & {name for text in made.values() for name in re.findall(r"[^\W\d]\w*", text)}
    dims = {name: own for name, own in given.dims.items() if named & {*own}}
    return made, shapes_line(dims) if named and language == "expression" else ABSENT


def _unfolded_size(lines: Sequence[Line]) -> int:
    """Return the number of operations of a program with each value written out wherever it is used, as in a recurrence."""
    sizes: list[int] = []
    for primitive, slots, *_ in lines:
        sizes.append((primitive is not None) + sum(sizes[slot] for slot in slots if slot != CONSTANT))
    return max(sizes, default=0)


def _has_fixed_length(text: str, lengths: Collection[int]) -> bool:
    """Whether a closed form that was found at fixed sizes holds one of them, as `eye(4)[0]` and `x/4` do."""
    return any(
        re.search(rf"(?<![\w.]){n}(?![\w.])" if n > 2 else rf"{_SIZED}[^()]*\b{n}\b", text) for n in lengths if n > 1
    )
