"""The lines of a derivation, computed at a point: what is printed is shown only where it holds."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gradcli.errors import GradcliError
from gradcli.reports.derive import Step
from gradcli.source.expression import Expression

_CLOSE = 1e-6  # relative to the largest entry: a line that is wrong is further off


def lines_hold(steps: Sequence[Step], point: Mapping[str, Any], wrt: str, letter: str) -> bool:
    """Return whether lines of one name agree at a point, and the last differential is that of the derivative `letter`.

    Lines with indices are not computed. Where an input has the name of a differential or of the function, no line is clear.
    """
    moved = f"d{wrt}"
    if {moved, "f", "df", letter} & point.keys():
        return False
    direction = np.random.default_rng(5).uniform(0.5, 1.0, np.shape(point[wrt]))[()]
    known: dict[str, Any] = {**point, moved: direction}
    for step in steps:
        name, _, code = step.after.partition(" = ")
        if "[" in name:
            return True
        try:
            f = Expression(code, frozenset(known))
            with np.errstate(all="ignore"):
                value = np.asarray(f({n: known[n] for n in f.inputs}))
        except (GradcliError, KeyError, np.linalg.LinAlgError):
            return False
        if name in known and not _agree(known[name], value):
            return False
        known[name] = value[()]
    if not {"df", letter} <= known.keys() or np.ndim(known["df"]) or np.shape(known[letter]) != np.shape(direction):
        return True
    return _agree(known["df"], np.sum(known[letter] * direction))


def _agree(x: Any, y: Any) -> bool:
    if np.shape(x) != np.shape(y):
        return False
    scale = float(np.max(np.abs(x), initial=0.0, where=np.isfinite(x)))
    return bool(np.allclose(x, y, rtol=_CLOSE, atol=_CLOSE * (1 + scale), equal_nan=True))
