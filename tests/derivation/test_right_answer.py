"""The closed form that is shown beside a wrong claim: for which functions it is sought."""

from typing import Any

import numpy as np
import pytest

from gradcli.api import locate_target
from gradcli.checks.build import request_for
from gradcli.derivation import study
from gradcli.derivation.right_answer import right_answer
from gradcli.report.common import ABSENT
from gradcli.request.options import Options
from gradcli.request.point import Point


def recurrence(steps: int) -> Any:
    def f(p: Any) -> Any:
        s, out = 10.0, 0.0
        for k in range(steps):
            q = p[0] * s ** p[1]
            s = s + k - q
            out = out + (q - 1) ** 2
        return out

    return f


@pytest.mark.parametrize(("steps", "sought"), [(2, True), (7, False)])
def test_no_closed_form_is_sought_of_a_recurrence_that_grows(
    monkeypatch: pytest.MonkeyPatch, steps: int, sought: bool
) -> None:
    asked = []
    derive = study.derive

    def derive_briefly(*args: Any) -> Any:
        asked.append(args)
        return derive(*args)

    monkeypatch.setattr(study, "derive", derive_briefly)
    at = {"p": np.array([0.12, 1.1])}
    request = request_for(locate_target(recurrence(steps), at, Options()), None, Options())
    found = right_answer(Point(at), ("p",), "numpy", request)
    assert bool(asked) == sought
    assert sought or found == ({}, ABSENT)
