"""Sizes that fit: the line that an error proposes runs, and is the one that a person would write."""

from collections.abc import Callable
from typing import Any

import pytest

from gradcli.derivation.sized_problem import parse_shapes, shapes_line
from gradcli.derivation.study import find_fitting_shapes
from gradcli.targets.expression import Expression
from tests.rows import for_rows

# fmt: off
PROPOSED = [  # a function, the sizes that are given, those that fit
    ("sum((W@x - y)**2)",                       "",                             "W: m n; x: n; y: m"),
    ("x@A@x",                                   "",                             "x: n; A: n n"),
    ("trace(A@B)",                              "",                             "A: m n; B: n m"),
    ("trace(A@inv(X)@B)",                       "",                             "A: m n; X: n n; B: n m"),
    ("0.5*norm(X@w-y)**2 + lam*norm(w)**2",     "",                             "X: m n; w: n; y: m; lam:"),
    ("sum((W@x - y)**2)",                       "W: m n; x: n; y: n",           "W: m n; x: n; y: m"),
    ("trace(A@B@C)",                            "A: m n; B: n k; C: m k",       "A: m n; B: n k; C: k m"),
    ("x@y",                                     "x: d",                         "x: d; y: d"),
    ("-sum(y*log(softmax(z)))",                 "",                             "y: n; z: n"),
    ("-z[c] + logsumexp(z)",                    "",                             "z: n; c:"),
    ("sum(softmax(Q@K.T/sqrt(d), axis=1)@V)",   "",                             "Q: m n; K: m n; d:; V: m k"),
]
# fmt: on


@for_rows(("f", "given", "line"), PROPOSED)
def test_the_sizes_are_those_a_person_would_write(f: str, given: str, line: str) -> None:
    shapes = parse_shapes([given]) if given else {}
    found = find_fitting_shapes(Expression(f), shapes, wrong=len(shapes) == len(Expression(f).inputs))
    assert found is not None and shapes_line(found) == line


@pytest.mark.slow
@pytest.mark.parametrize(("f", "given", "line"), PROPOSED)
def test_the_error_says_them_and_they_run(gradcli: Callable[..., Any], f: str, given: str, line: str) -> None:
    ran = gradcli("derive", f, *(["--shapes", given] if given else []))
    assert ran.exit_status == 2 and f'--shapes "{line}"' in ran.stderr
    assert gradcli("derive", f, "--shapes", line, "--no-steps").exit_status == 0


def test_a_python_function_is_not_called_to_find_sizes() -> None:
    def refused(values: object) -> object:
        raise AssertionError("called")

    f: Any = type("Loaded", (), {"inputs": ("x",), "__call__": refused})()
    assert find_fitting_shapes(f, {}) is None


def test_more_sizes_than_are_tried_have_no_line() -> None:
    f = Expression("x@y")
    assert find_fitting_shapes(f, {name: (f"n{k}",) for k, name in enumerate("abcdefghij")}) is None


def test_what_fits_nowhere_has_no_line() -> None:
    assert find_fitting_shapes(Expression("inv(x[9])@x"), {}) is None
