"""Where function values contradict a traced gradient: is a rule wrong, or is the trace not the function?"""

from typing import Any

import numpy as np

from gradcli.core.shapes import is_plain, shape
from gradcli.interpreters.tape import CONSTANT, Line
from gradcli.modes.mode import Question
from gradcli.numerics.extrapolation import quick_derivative
from gradcli.numerics.noise import EPS

_MOST_LINES = 400
_CLEAR = 10.0  # bounds that a rule must be off by
_RESOLVED = 1e-11  # of the slope: what the kernels of rules may lose


def wrong_rule(q: Question) -> Line | None:
    """Return the line of the run whose rule contradicts the values of its own operation; None where all agree.

    Cost  six evaluations of each operation, one line for each argument of each primitive.
    """
    rng = np.random.default_rng([q.seed, 0xB1A])
    tried: set[tuple[str, int]] = set()
    with np.errstate(all="ignore"):
        for line in q.lines[:_MOST_LINES]:
            primitive, slots, xs, y, _, _ = line
            if primitive is None or not is_plain(y) or not all(map(is_plain, xs)):
                continue
            for i, slot in enumerate(slots):
                if slot != CONSTANT and (primitive.name, i) not in tried:
                    tried.add((primitive.name, i))
                    if _contradicts(line, i, rng):
                        return line
    return None


def _contradicts(line: Line, i: int, rng: np.random.Generator) -> bool:
    primitive, _, xs, y, params, _ = line
    if primitive is None:
        return False
    x = np.asarray(xs[i])
    xdot = (rng.choice([-1.0, 1.0], shape(x)) * rng.uniform(0.5, 1.0, shape(x)) * np.where(x == 0, 1.0, np.abs(x)))[()]
    weights = rng.uniform(0.5, 1.5, shape(y)) * ~_at_its_kink(line)  # there a rule states a convention

    def phi(t: float) -> Any:
        moved = list(xs)
        moved[i] = (x + t * xdot)[()]
        return float(np.sum(weights * primitive.fun(*moved, **(params or {}))))

    found = quick_derivative(phi, EPS * float(np.sum(np.abs(weights * y))))
    by_rule = weights * primitive.rule(i).push(primitive, i, y, xs, xdot, params or {})
    apart = abs(float(np.sum(by_rule)) - float(found.value))
    room = _CLEAR * float(found.bound) + _RESOLVED * float(np.sum(np.abs(by_rule)))
    return bool(np.isfinite(room)) and apart > room


def on_a_flat_kink(q: Question) -> bool:
    """Whether the run hits a kink through which no slope flows: only higher derivatives jump there."""
    return any(np.any(_at_its_kink(line)) for line in q.lines)


def _at_its_kink(line: Line) -> Any:
    """Return the entries of the result of a line that are at a kink of its operation."""
    primitive, _, xs, y, params, _ = line
    kink = None if primitive is None else primitive.kink
    return np.zeros(shape(y), dtype=bool) if kink is None else np.asarray(kink(y, *xs, **(params or {})))
