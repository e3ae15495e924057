"""The test of the product: mistakes planted in rules, in traces and in claims must come out, right ones never."""

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from gradcli.rules.kinds import Partial
from gradcli.targets.names import FUNCTIONS
from gradcli.tracing.primitive import PRIMITIVES, Primitive
from tests.checks.test_check import checked
from tests.rows import for_rows

FUNCTIONS_TO_CHECK = [
    # expression, point, and its right gradient
    ("sum(x*sin(x))", "x=randn(5)", "sin(x) + x*cos(x)"),
    ("sum(tanh(W@x)**2)", "W=randn(3,4), x=randn(4)", "t = tanh(W@x); d = 2*t*(1 - t**2); W=outer(d, x), x=W.T@d"),
    ("-sum(y*log_softmax(z))", "z=randn(4), y=[0, 1, 0, 0]", "z=softmax(z)*sum(y) - y, y=-log_softmax(z)"),
    ("0.5*sum((A@x - b)**2)", "A=randn(4,3), x=randn(3), b=randn(4)", "r = A@x - b; A=outer(r, x), x=A.T@r, b=-r"),
    ("log(det(S))", "S=spd(3)", "S=inv(S).T"),
    ("logsumexp(z)", "z=randn(6)", "z=softmax(z)"),
    ("sum(x**3)/3", "x=randn(4)", "x=x**2"),
    ("mean((x - y)**2)", "x=randn(4), y=randn(4)", "x=(x - y)/2, y=(y - x)/2"),
]
SLIPS = [
    ("1.01*({0})", "one percent too large"),
    ("(1 + 1e-4)*({0})", "a relative 1e-4"),
    ("(1 + 1e-8)*({0})", "a relative 1e-8"),
    ("-({0})", "sign"),
    ("2*({0})", "factor"),
    ("0*({0})", "detached"),
    ("({0}) + 1e-6", "a constant added"),
]


def slipped(grad: str, slip: str) -> str:
    """Return a claim with a slip in its last part."""
    head, separator, last = grad.rpartition("; ")
    parts = last.split(", ") if "=" in last else [last]
    joined = _joined(parts)
    name, equals, formula = joined[-1].partition("=") if "=" in joined[-1] else ("", "", joined[-1])
    joined[-1] = f"{name}{equals}{slip.format(formula)}"
    return head + separator + ", ".join(joined)


def _joined(parts: list[str]) -> list[str]:
    """Join what a comma inside brackets split."""
    found: list[str] = []
    for part in parts:
        if found and found[-1].count("(") != found[-1].count(")"):
            found[-1] += ", " + part
        else:
            found.append(part)
    return found


@for_rows(("text", "at", "grad"), FUNCTIONS_TO_CHECK)
def test_the_right_claim_passes(text: str, at: str, grad: str) -> None:
    assert checked(text, at, grad).verdict == "pass"


@for_rows("slip", SLIPS, ids=[says for _, says in SLIPS], parts=5)
@for_rows(("text", "at", "grad"), FUNCTIONS_TO_CHECK)
def test_a_slip_is_caught(text: str, at: str, grad: str, slip: tuple[str, str]) -> None:
    assert checked(text, at, slipped(grad, slip[0])).verdict == "fail"


@for_rows(("slip", "kind"), [("-({0})", "sign"), ("2*({0})", "factor"), ("0*({0})", "detached")], parts=2)
@for_rows(("text", "at", "grad"), FUNCTIONS_TO_CHECK)
def test_a_slip_is_named(text: str, at: str, grad: str, slip: str, kind: str) -> None:
    diagnosis = checked(text, at, slipped(grad, slip)).points[0].diagnosis
    assert diagnosis is not None
    assert diagnosis.kind == kind


@contextmanager
def planted(name: str, rule: Any) -> Iterator[None]:
    """Replace a primitive by one with a wrong rule, in the table and in the language."""
    right = PRIMITIVES[name]
    wrong = dataclasses.replace(right, rules=(rule,))
    aliases = [alias for alias, found in FUNCTIONS.items() if found is right]
    try:
        PRIMITIVES[name] = wrong
        FUNCTIONS.update(dict.fromkeys(aliases, wrong))
        yield
    finally:
        PRIMITIVES[name] = right
        FUNCTIONS.update(dict.fromkeys(aliases, right))


@pytest.mark.parametrize("error", [1e-3, 1e-8, 1e-12])
def test_a_wrong_rule_is_never_a_pass(error: float) -> None:
    with planted("sin", Partial(lambda y, x: np.cos(x) * (1 + error))):
        report = checked("sin(x)*x", "x=0.7")
    assert report.verdict == "fail"
    assert any("rules disagree with the function's values" in f.message for f in report.points[0].findings)


def test_a_trace_that_is_not_the_function_is_never_a_pass() -> None:
    def off(x: Any) -> Any:  # what it computes on plain numbers is not what it does when traced
        return np.exp(x) if isinstance(x, np.float64) and type(x) is np.float64 else np.exp(x) * 1.0000001

    exp = FUNCTIONS["exp"]
    FUNCTIONS["exp"] = off
    try:
        report = checked("exp(x)*x", "x=0.7")
    finally:
        FUNCTIONS["exp"] = exp
    assert report.verdict != "pass"
    assert any("trace differs" in f.message for f in report.points[0].findings)


def test_planting_leaves_the_table_as_it_was() -> None:
    before: Primitive = PRIMITIVES["sin"]
    with planted("sin", Partial(lambda y, x: x)):
        assert PRIMITIVES["sin"] is not before
    assert PRIMITIVES["sin"] is before is FUNCTIONS["sin"]
