"""Assertions for tests of gradients, with any test runner."""

import dataclasses
import warnings
from typing import Any

from gradcli.api import check
from gradcli.errors import GradcliError, NotConfirmed
from gradcli.report.check import CheckReport
from gradcli.request.options import find_claim, options_from_keywords, replace_claim, words_to_repeat
from gradcli.targets.arguments import Function
from gradcli.words import Exit

__all__ = ["assert_gradient"]


def assert_gradient(f: Function | str, at: Any = None, **options: Any) -> CheckReport:
    """Return the report of `gradcli.check` if every gradient is confirmed, or every reason against it is in `allow`.

    It takes what `gradcli.check` takes: a claim (`grad=`, `jac=`, ...), `seed`, `modes`, `allow` and so on. It keeps no
    state, and the same arguments give the same report. Numpy's warnings are not shown: values that are not finite are
    findings of the report.

    Raises  NotConfirmed, an AssertionError, whose message is the report: FAIL where a gradient is wrong, INCONCLUSIVE where
            nothing can be said. Its `report` is the report itself. TypeError and GradcliError as `gradcli.check`.

    >>> import numpy as np
    >>> report = assert_gradient(lambda x: np.sum(x**3), np.array([1.0, 2.0]), grad=lambda x: 3 * x**2)
    >>> report.passed
    True
    """
    __tracebackhide__ = True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            report = check(f, at, **options)
    except GradcliError as error:
        if error.do is not None:
            error.add_note(error.do)
        raise error.with_traceback(None) from error.__cause__  # gradcli's own lines would hide what it says
    report = dataclasses.replace(report, command=_command_words(f, at, {**options, "seed": report.seed}))
    if report.exit_status != Exit.CONFIRMED:
        raise NotConfirmed(str(report).rstrip(), report)
    return report


def _command_words(f: Function | str, at: Any, given: dict[str, Any]) -> tuple[str, ...]:
    """Return the words of the command that repeats a check; none where something of it is not text."""
    points = () if at is None else tuple(at) if isinstance(at, list) else (at,)
    options = dataclasses.replace(options_from_keywords(given), at=points)
    claim = find_claim(options)
    texts = [f, *points, *([] if claim is None else [claim[1]])]
    if not all(isinstance(text, str) for text in texts):
        return ()
    return ("gradcli", "check", str(f), *words_to_repeat(replace_claim(options, claim)))
