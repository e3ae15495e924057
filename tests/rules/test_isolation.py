"""Every primitive alone: its rules, in balls and in float64, against function values; the user's own rules, too."""

from dataclasses import replace

import numpy as np
import pytest

import gradcli
from gradcli.tracing.primitive import PRIMITIVES, Primitive
from tests.rows import for_rows
from tests.rules.isolation import OK, CannotTell, holds_up

ROWS = [row for row in PRIMITIVES.values() if row.rules]


@pytest.mark.slow
@for_rows("row", ROWS, ids=lambda row: row.name, parts=8)
def test_every_primitive_holds_up(row: Primitive) -> None:
    try:
        assert holds_up(row) == OK
    except CannotTell as reason:
        pytest.skip(str(reason))


@for_rows("name", ["sin", "log", "arctan2", "sqrt", "maximum", "integer_power"])
def test_some_primitives_hold_up(name: str) -> None:
    assert holds_up(PRIMITIVES[name]) == OK


def test_a_wrong_rule_does_not_hold_up() -> None:
    assert holds_up(replace(PRIMITIVES["sin"], rules=PRIMITIVES["exp"].rules)) != OK


def test_rules_of_the_users_own_are_checked() -> None:
    def softplus(x: float) -> float:
        return np.log1p(np.exp(x))

    assert holds_up(gradcli.primitive(softplus, lambda y, x: 1 / (1 + np.exp(-x)))) == OK
    assert holds_up(gradcli.primitive(softplus, lambda y, x: 1 / (1 + np.exp(x)))) != OK
