"""Frameworks as modes, as far as that goes without them: what is said where one is missing, and when one is run."""

import importlib.util
from collections.abc import Callable
from typing import Any

import pytest

from gradcli.errors import BadOption
from gradcli.modes.registry import FRAMEWORKS, MODES, OWN, parse_modes
from gradcli.request.point import Witness
from tests.rows import for_rows

NAMES = ("torch", "jax", "tensorflow", "mlx")


@pytest.fixture(name="bare")
def _bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no framework be installed."""
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name in NAMES else real(name, *rest))


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_framework_is_unavailable_and_the_status_is_2(
    gradcli: Callable[..., Any], bare: None, name: str
) -> None:
    ran = gradcli("check", "x**2", "x=1", "--modes", f"reverse,fd,{name}", "--json")
    assert ran.exit_status == ran.json["exit_status"] == 2
    assert ran.json["verdict"] == "pass"
    mode = ran.json["points"][0]["modes"][name]
    assert mode["status"] == "unavailable"
    assert (mode["message"], mode["hint"]) == (
        f"{name} is not installed",
        f'in a clone of gradcli: pip install ".[{name}]"',
    )
    assert name not in ran.json["environment"]


def test_it_is_said_in_words(gradcli: Callable[..., Any], bare: None) -> None:
    ran = gradcli("check", "x**2", "x=1", "--modes", "reverse,fd,jax", "--grad", "2*x")
    assert ran.stdout.startswith("ERROR  x**2: jax is not installed (in a clone of gradcli: pip install")
    assert "PASS" not in ran.stdout
    assert 'unavailable: jax is not installed\n    in a clone of gradcli: pip install ".[jax]"' in ran.stdout


def test_a_wrong_claim_is_wrong_first(gradcli: Callable[..., Any], bare: None) -> None:
    assert gradcli("check", "x**2", "x=1", "--modes", "reverse,fd,mlx", "--grad", "x=3*x").exit_status == 1


def test_compare_modes_says_it_too(gradcli: Callable[..., Any], bare: None) -> None:
    ran = gradcli("compare-modes", "x**2", "x=1", "--modes", "reverse,fd,tensorflow", "--json")
    assert ran.exit_status == ran.json["exit_status"] == 2
    assert ran.json["modes"]["tensorflow"]["status"] == "unavailable"
    assert ran.json["modes"]["tensorflow"]["hint"] == 'in a clone of gradcli: pip install ".[tensorflow]"'
    assert [f["hint"] for f in ran.json["findings"] if f["kind"] == "unavailable"] == [
        'in a clone of gradcli: pip install ".[tensorflow]"'
    ]


def test_compare_modes_says_it_in_words(gradcli: Callable[..., Any], bare: None) -> None:
    ran = gradcli("compare-modes", "x**2", "x=1", "--modes", "reverse,fd,mlx")
    assert 'unavailable: mlx is not installed: in a clone of gradcli: pip install ".[mlx]"' in ran.stdout


@pytest.mark.parametrize("command", ["check", "compare-modes"])
def test_all_modes_say_nothing_of_frameworks(gradcli: Callable[..., Any], bare: None, command: str) -> None:
    ran = gradcli(command, "x**2", "x=1", "--modes", "all")
    assert ran.exit_status == 0
    assert not any(name in ran.stdout + ran.stderr for name in NAMES)


def test_modes_lists_them_with_the_command_that_installs_them(gradcli: Callable[..., Any], bare: None) -> None:
    listed = {mode["name"]: mode for mode in gradcli("modes", "--json").json["modes"]}
    for name in NAMES:
        assert (listed[name]["available"], listed[name]["hint"]) == (
            False,
            f'in a clone of gradcli: pip install ".[{name}]"',
        )


def test_all_and_nothing_mean_gradclis_own_modes() -> None:
    assert parse_modes(None) == parse_modes("all") == tuple(OWN)
    assert parse_modes("all,torch") == (*OWN, "torch")
    assert parse_modes("mlx,jax,reverse") == ("reverse", "jax", "mlx")


@for_rows(
    ("word", "mode"),
    [("for", "forward"), ("rev", "reverse"), ("fin", "finite-difference"), ("cer", "certified"), ("s", "symbolic"),
     ("com", "complex-step"), ("to", "torch"), ("te", "tensorflow"), ("j", "jax"), ("m", "mlx")],
)  # fmt: skip
def test_prefixes_are_as_unique_as_they_were(word: str, mode: str) -> None:
    assert parse_modes(word) == (mode,)


def test_an_ambiguous_prefix_is_refused() -> None:
    with pytest.raises(BadOption, match="'t' could be torch or tensorflow"):
        parse_modes("t")


def test_a_framework_shares_no_rule_with_gradcli() -> None:
    assert set(MODES) == set(OWN) | set(NAMES)
    for name, mode in FRAMEWORKS.items():
        assert mode.rests_on == {Witness(name), Witness.TRACING}
