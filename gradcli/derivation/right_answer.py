"""The right gradient as code, to be shown beside a claim that no edit repairs."""

import re
from collections.abc import Mapping

import numpy as np

from gradcli.derivation.study import DeriveOptions, derive, given_at
from gradcli.errors import GradcliError
from gradcli.modes.mode import Question
from gradcli.point import Point
from gradcli.source.derived import root_of
from gradcli.source.expression import Expression
from gradcli.verify.probe import Located
from gradcli.verify.request import Request

_MOST_OPERATIONS = 60  # of f, beyond which no short closed form is expected
_MOST_CHARACTERS = 600


def right_answer(request: Request, point: Point, names: tuple[str, ...], language: str) -> dict[str, str]:
    """Return the closed form of the gradient by each of some inputs, in a language, where there is one that was confirmed.

    `language` is `expression`, or one that `gradcli derive --code` knows. None is sought of a function that branched or looped
    on values, whose formula would be that of one branch; closed forms that are long are left out.
    """
    if request.f is not root_of(request.f) or request.derivative != "gradient" or np.shape(point.value or 0.0) != ():
        return {}
    q = Question(request.f, point, request.wrt, request.seed, request.budget, request.stepping)
    try:
        if q.untraced is not None or len(q.lines) > _MOST_OPERATIONS or q.branches:
            return {}
        given = given_at(Located(request.f, (point,), request.wrt, True, {}), {})
        found = derive(given.f, DeriveOptions({}, wrt=",".join(names), steps=False, given=given))
    except (GradcliError, ValueError, TypeError, ArithmeticError, IndexError, RecursionError, np.linalg.LinAlgError):
        return {}
    made = {}
    for result in found.results:
        if result.check.verdict != "pass" or (isinstance(result.value_error, float) and result.value_error > 1e-6):
            continue
        text = _function(result.code.get(language, ""))
        if language == "expression":
            text = _with_lengths(result.formula.expression, given.named)
            if not set(Expression(text).inputs) <= set(point.values):
                continue
        if text and len(text) <= _MOST_CHARACTERS:
            made[result.wrt] = text
    return made


def _with_lengths(text: str, sizes: Mapping[str, int]) -> str:
    """Return an expression with the lengths of its sizes, which have names in the derivation alone."""
    return re.sub(r"[^\W\d]\w*", lambda found: str(sizes.get(found[0], found[0])), text)


def _function(code: str) -> str:
    """Return the function of a generated program, without its test."""
    return code.partition("\n\n\nif __name__")[0].strip()
