"""The study behind `grad`: the gradient alone."""

import numpy as np

from gradcli.core.shapes import shape
from gradcli.modes.mode import Question
from gradcli.numerics.jacobians import stacked
from gradcli.reports.absent import ABSENT
from gradcli.reports.common import Target
from gradcli.reports.grad import GradReport
from gradcli.verify.environment import environment
from gradcli.words import Exit


def gradient(q: Question) -> GradReport:
    """Return a report of the gradient by the reverse mode; its status is inconclusive if the gradient is not finite."""
    with np.errstate(all="ignore"):
        found = {name: stacked(q.rows, q.value, k, q.xs[k]) for k, name in enumerate(q.wrt)}
    vector = shape(q.value) != ()
    finite = all(np.all(np.isfinite(g)) for g in found.values()) and np.all(np.isfinite(q.value))
    return GradReport(
        Target(q.f.kind, q.f.text), q.point.values, q.point.drawn, q.seed, q.value,
        ABSENT if vector else found, found if vector else ABSENT,
        environment(), exit_status=int(Exit.CONFIRMED if finite else Exit.INCONCLUSIVE),
    )  # fmt: skip
