"""The self-test of generated code passes where the code is right, and fails where it is not."""

from collections.abc import Callable
from typing import Any

import pytest

from gradcli.derivation.verified import MADE
from gradcli.targets.facts import FACTS

CASES = [
    ("x@inv(S)@x", "S: n n; x: n", "S: spd", "S"),
    ("sum(Y*log(softmax(X@W, axis=1)))", "X: m n; W: n d; Y: m d", "Y: onehot rows", "W"),
    ("lam*sum(abs(x)**q)", "x: n; lam:; q:", "q: positive", "x"),
    ("trace(A@X)", "A: n m; X: m n", "", "X"),
]


@pytest.fixture(name="code", params=CASES, ids=[case[0] for case in CASES])
def _code(request: pytest.FixtureRequest, gradcli: Callable[..., Any]) -> str:
    text, shapes, assume, wrt = request.param
    words = ("--assume", assume) if assume else ()
    found = gradcli("derive", text, "--shapes", shapes, *words, "--wrt", wrt, "--json").json
    return str(found["results"][0]["code"]["numpy"])


def test_it_passes(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(code, {"__name__": "__main__"})
    assert capsys.readouterr().out == "ok\n"


def test_it_fails_where_the_code_is_wrong(code: str) -> None:
    with pytest.raises(AssertionError):
        exec(code.replace("    return ", "    return 1.001*", 1), {"__name__": "__main__"})


def test_it_is_no_part_of_the_function_when_imported(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(code, {"__name__": "derived"})
    assert capsys.readouterr().out == ""


def test_every_fact_can_be_written_out() -> None:
    assert set(MADE) == set(FACTS)
