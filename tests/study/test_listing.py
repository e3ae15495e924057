"""`modes` and `ops`: what there is, and how good it is."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from gradcli.modes.registry import MODES
from gradcli.rules.kinds import ConstantSlope, Partial
from gradcli.study.accuracy import worst_ulps
from gradcli.targets.names import FUNCTIONS
from gradcli.tracing.primitive import PRIMITIVES
from tests.rows import for_rows

WITH_RULES = {name for name, row in PRIMITIVES.items() if row.rules}
ELEMENTWISE = {
    name for name in WITH_RULES if all(isinstance(r, Partial | ConstantSlope) for r in PRIMITIVES[name].rules)
}


@pytest.fixture(name="listed", scope="module")
def _listed() -> Any:
    from gradcli.study.accuracy import known_operations

    return known_operations(None)


@pytest.mark.slow
def test_ops_lists_every_primitive(listed: Any) -> None:
    assert {op.name for op in listed.operations} == WITH_RULES
    assert len(listed.operations) == len(WITH_RULES) > 50


def test_ops_lists_the_accuracy_of_every_elementwise_primitive(listed: Any) -> None:
    assert {op.name for op in listed.operations if op.ulps is not None} == ELEMENTWISE
    assert all(op.ulps >= 0 for op in listed.operations if op.ulps is not None)


def test_an_inaccurate_derivative_has_its_reason(listed: Any) -> None:
    assert [op.name for op in listed.operations if (op.ulps or 0) > 100 and not op.reason] == []


def test_ops_lists_domain_and_derivative(listed: Any) -> None:
    for op in listed.operations:
        assert op.partials and all(op.partials)
        assert bool(op.domain) is (op.name in ELEMENTWISE)


def test_ops_lists_the_functions_an_expression_can_call(listed: Any) -> None:
    assert set(listed.functions) == set(FUNCTIONS)


@for_rows(("name", "partials"), [("sin", ("cos(x)",)), ("exp", ("y",)), ("negative", ("-1",)), ("log", ("1/x",))])
def test_derivatives_are_written_as_formulas(gradcli: Callable[..., Any], name: str, partials: tuple) -> None:
    (op,) = gradcli("ops", name, "--json").json["operations"]
    assert [text.replace(" ", "") for text in op["partials"]] == [text.replace(" ", "") for text in partials]


def test_kinks_are_noted(gradcli: Callable[..., Any]) -> None:
    (op,) = gradcli("ops", "absolute", "--json").json["operations"]
    assert op["kinks"]
    assert "kink where" in gradcli("ops", "absolute").stdout


def test_a_formula_that_cancels_has_large_errors() -> None:
    assert worst_ulps(PRIMITIVES["cos"]) < 10
    assert worst_ulps(replace(PRIMITIVES["tanh"], rules=(Partial(lambda y, x: 1 - y * y),))) > 1e6


@pytest.mark.parametrize(("typed", "near"), [("coshh", "cosh"), ("sine", "sin"), ("arctan", "arctan")])
def test_names_are_found_or_suggested(gradcli: Callable[..., Any], typed: str, near: str) -> None:
    ran = gradcli("ops", typed)
    assert near in ran.stdout + ran.stderr
    assert ran.exit_status == (0 if typed == near else 2)


def test_a_name_unlike_any_gets_the_way_to_the_list(gradcli: Callable[..., Any]) -> None:
    assert "gradcli ops" in gradcli("ops", "qqqqqq").stderr


def test_modes_lists_every_mode_with_what_it_rests_on(gradcli: Callable[..., Any]) -> None:
    modes = {mode["name"]: mode for mode in gradcli("modes", "--json").json["modes"]}
    assert list(modes) == list(MODES)
    assert modes["finite-difference"]["rests_on"] == ["function values"]
    assert "rules" in modes["reverse"]["rests_on"] and "sympy" in modes["symbolic"]["rests_on"]


def test_a_mode_that_is_missing_says_how_to_install_it(
    gradcli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from gradcli.modes.mode import Available

    monkeypatch.setattr(
        type(MODES["forward"]), "available", lambda self: Available(False, "not here", "pip install forward")
    )
    mode = {mode["name"]: mode for mode in gradcli("modes", "--json").json["modes"]}["forward"]
    assert (mode["available"], mode["hint"]) == (False, "pip install forward")
    assert "pip install forward" in " ".join(gradcli("modes", environ={"COLUMNS": "120"}).stdout.split())
