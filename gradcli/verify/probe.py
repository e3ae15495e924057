"""Finding points: completing the user's, and drawing others inside the smooth domain."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradcli.errors import BadExpression, BadPoint, BadShape, GradcliError
from gradcli.modes.mode import Question
from gradcli.point import Point
from gradcli.source.expression import Expression
from gradcli.source.names import nearest
from gradcli.source.points import as_input, drawn, read
from gradcli.source.tokens import folded

ATTEMPTS = 60


def locate(
    text: str, at: Sequence[str], *, seed: int, shapes: dict[str, tuple[int, ...]], count: int, wrt: str | None = None
) -> tuple[Expression, tuple[Point, ...], tuple[str, ...]]:
    """Return an expression, the points to look at, and the inputs to differentiate.

    Raises  BadExpression, BadPoint, TooLarge.
    """
    given = read(at, seed)
    f = Expression(text, frozenset(name for point in given for name in point))
    _known(f, [*given, dict.fromkeys(shapes)])
    names = chosen_inputs(f, wrt)
    wanted = given or [{} for _ in range(count if f.inputs else 1)]
    return f, tuple(_complete(f, point, number, seed, shapes) for number, point in enumerate(wanted)), names


def _known(f: Expression, points: Sequence[dict[str, Any]]) -> None:
    for name in (name for point in points for name in point):
        if name not in f.inputs:
            close = nearest(name, f.inputs)
            inputs = ", ".join(f.inputs) or "none"
            raise BadPoint(
                f"'{name}' is no input of the expression",
                do=f"did you mean '{close}'?" if close else f"its inputs: {inputs}",
            )


def chosen_inputs(f: Expression, wrt: str | None) -> tuple[str, ...]:
    """Return the inputs that `--wrt` names (globs allowed), or all of them."""
    if wrt is None:
        return f.inputs
    import fnmatch

    patterns = [folded(part.strip()) for part in wrt.split(",") if part.strip()]
    for pattern in patterns:
        if not fnmatch.filter(f.inputs, pattern):
            close = nearest(pattern, f.inputs)
            raise BadPoint(
                f"--wrt names '{pattern}', which is no input",
                do=f"did you mean '{close}'?" if close else f"inputs: {', '.join(f.inputs) or 'none'}",
            )
    return tuple(name for name in f.inputs if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns))


def _complete(
    f: Expression, given: dict[str, Any], number: int, seed: int, shapes: dict[str, tuple[int, ...]]
) -> Point:
    """Return a point with every input: given, or drawn where f is smooth."""
    values = {name: as_input(name, x) for name, x in given.items()}
    missing = tuple(name for name in f.inputs if name not in values)
    if not missing:
        _survey(f, values, (), shapes)
        return Point({name: values[name] for name in f.inputs}, (), number)
    last = None
    for attempt in range(ATTEMPTS):
        candidate = values | {name: drawn(name, shapes.get(name, ()), seed, number, attempt) for name in missing}
        point = Point({name: candidate[name] for name in f.inputs}, missing, number)
        _survey(f, candidate, missing, shapes)
        last = last or point
        if smooth(Question(f, point, f.inputs, seed)):
            return point
    if last is None:
        raise BadPoint("no point was drawn", do="give one with --at")
    return last


def _survey(f: Expression, values: dict[str, Any], missing: Sequence[str], shapes: dict[str, tuple[int, ...]]) -> None:
    """Evaluate once, sizes checked before anything is allocated."""
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # numpy's advice on empty slices; what is not finite becomes a finding
            value, _ = f.survey(values)
    except BadShape as error:
        missing = [name for name in missing if name not in shapes]
        if missing:
            drawn_ = f"{', '.join(missing)} {'was' if len(missing) == 1 else 'were'} drawn as scalars"
            error.do = f'{drawn_}; give shapes: --shapes "{missing[0]}: 3 4" or --at "{missing[0]}=randn(3, 4)"'
        raise
    if isinstance(value, tuple) or np.asarray(value).dtype == object:
        raise BadExpression("the result is several values", do="pick one: slogdet(S)[1]")


def smooth(q: Question) -> bool:
    """Whether the function and its gradient are finite here, off every kink and inside every operation's smooth domain."""
    try:
        _, _, tape = q.recording
        finite = np.all(np.isfinite(q.value)) and q.not_finite is None
        return bool(finite and not q.kinks and all(_inside(line) for line in tape.lines))
    except GradcliError:
        return False


def _inside(line: Any) -> bool:
    primitive, slots, xs, _, _, _ = line
    if primitive is None or primitive.kind != "elementwise":
        return True
    return all(
        bool(np.all(domain.contains(np.asarray(x))))
        for domain, slot, x in zip(primitive.on, slots, xs, strict=False)
        if slot >= 0
    )
