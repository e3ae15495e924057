"""`--pick`: which parts of what a function returns are its value and its gradient."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradcli import check
from gradcli.errors import BadOption, GradcliError
from gradcli.request.option_values import pick
from gradcli.request.target_text import Pick
from tests.rows import for_rows
from tests.targets.test_loading import written

QUICK = ("--modes", "forward,reverse,fd")

RETURNS = """
    import ctypes
    from collections import namedtuple
    from dataclasses import dataclass

    Result = namedtuple("Result", "aux loss grad")

    @dataclass
    class Answer:
        fun: float
        jac: object

    def g(x): return 3*x**2
    def behind(x): return np.sum(x**3), g(x), {"steps": 3}
    def in_front(x): return g(x), np.sum(x**3)
    def last(x): return "note", 7, np.sum(x**3), g(x)
    def by_key(w): return {"loss": np.sum(w**3), "dw": g(w), "steps": 3}
    def by_number(x): return {0: np.sum(x**3), 1: g(x)}
    def by_field(x): return Result(None, np.sum(x**3), g(x))
    def answer(x): return Answer(np.sum(x**3), g(x))
    def wrong(x): return None, 2*g(x), np.sum(x**3)
    def two(x, y): return np.sum(x*y), (y, x), 1
    def two_named(x, y): return np.sum(x*y), {"y": x, "x": y}, 1
    def nested(params): return np.sum(params["a"]**2)*params["b"], {"a": 2*params["a"]*params["b"], "b": np.sum(params["a"]**2)}
    def point(): return {"params": {"a": np.array([1.0, 2.0]), "b": 0.5}}
    def as_list(x): return [np.sum(x**3), g(x), 5]
    def opaque(x):
        y = np.array([float(t) for t in x])
        return 0, float(np.sum(y**3)), 3*y**2
    def opaque_wrong(x):
        y = np.array([float(t) for t in x])
        return 0, float(np.sum(y**3)), 2*y**2
    def alone(x): return np.sum(x**3)
    def array(x): return x**3
"""

X = ("x=[0.5, 2]",)
# fmt: off
PICKS = [
    ("behind",       X,              "grad=1",             0, "gradient is right"),
    ("behind",       X,              "value=0,grad=1",     0, "gradient is right"),
    ("behind",       X,              " grad = 1 , value = 0", 0, "gradient is right"),
    ("in_front",     X,              "value=1,grad=0",     0, "gradient is right"),
    ("last",         X,              "value=2,grad=3",     0, "gradient is right"),
    ("last",         X,              "value=2,grad=-1",    0, "gradient is right"),
    ("as_list",      X,              "grad=1",             0, "gradient is right"),
    ("by_key",       ("w=[0.5, 2]",), "value=loss,grad=dw", 0, "gradient is right"),
    ("by_number",    X,              "grad=1",             0, "gradient is right"),
    ("by_field",     X,              "value=loss,grad=grad", 0, "gradient is right"),
    ("by_field",     X,              "value=1,grad=2",     0, "gradient is right"),
    ("answer",       X,              "value=fun,grad=jac", 0, "gradient is right"),
    ("two",          ("x=[1, 2]", "y=[3, 4]"), "grad=1",   0, "gradient is right"),
    ("two_named",    ("x=[1, 2]", "y=[3, 4]"), "grad=1",   0, "gradient is right"),
    ("opaque",       X,              "value=1,grad=2",     0, "gradient is right"),
    ("wrong",        X,              "value=2,grad=1",     1, "a factor 2 too large"),
    ("opaque_wrong", X,              "value=1,grad=2",     1, "wrong"),
    ("behind",       X,              "grad=3",             2, "returns 3 parts, and --pick names part 3"),
    ("behind",       X,              "value=-4,grad=1",    2, "positions are 0 to 2"),
    ("behind",       X,              "value=loss,grad=dw", 2, "3 parts, which have no names"),
    ("by_key",       ("w=[0.5, 2]",), "value=loss,grad=dW", 2, "did you mean 'dw'? it has: loss, dw, steps"),
    ("by_key",       ("w=[0.5, 2]",), "grad=1",            2, "has no '0'"),
    ("by_field",     X,              "value=los,grad=grad", 2, "did you mean 'loss'?"),
    ("alone",        X,              "grad=1",             2, "returns a number, not a tuple or a dict"),
    ("array",        X,              "grad=1",             2, "returns an array, not a tuple or a dict"),
    ("last",         X,              "value=0,grad=3",     2, "returns a string"),
]
# fmt: on


@pytest.mark.parametrize(("target", "at", "parts", "status", "said"), PICKS)
def test_the_value_and_the_gradient_are_the_parts_that_are_named(
    gradcli: Callable[..., Any], tmp_path: Path, target: str, at: tuple, parts: str, status: int, said: str
) -> None:
    ran = gradcli("check", f"{written(tmp_path, RETURNS)}:{target}", *at, "--pick", parts, *QUICK)
    assert ran.exit_status == status, ran.stdout + ran.stderr
    assert said in " ".join((ran.stdout + ran.stderr).split())


def test_a_gradient_in_the_structure_of_the_input(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    file = written(tmp_path, RETURNS)
    ran = gradcli("check", f"{file}:nested", "--at", f"{file}:point", "--pick", "grad=1", *QUICK, "--json")
    assert ran.exit_status == 0, ran.stdout
    assert ran.json["points"][0]["differentiated"] == ["params.a", "params.b"]


PAIRS = {  # what is returned, and what of it is compared; None where the parts are not known
    "(f, g)": ["x"],
    "(g, f)": ["x"],
    "(g, f[None])": ["x"],
    "(f, g, h)": ["x", "y"],
    "({'dx': g, 'dy': h}, f)": ["x", "y"],
    "(f, dy, dx)": ["x", "y"],
    "(f, g, 'note')": None,
    "(g, h, f)": None,
}


@for_rows("returned", PAIRS)
def test_a_value_and_its_gradients_are_told_apart(tmp_path: Path, returned: str) -> None:
    file = tmp_path / f"both_{[*PAIRS].index(returned)}.py"
    file.write_text(
        f"def both(x, y):\n    f, g, h = (x**2 * y[0]).sum(), 2 * x * y[0], 0 * y\n    h[0] = (x**2).sum()\n"
        f"    dx, dy = g, h\n    return {returned}\n"
    )
    at = {"x": np.array([0.5, 2.0]), "y": np.ones(3)}
    if PAIRS[returned] is None:
        with pytest.raises(GradcliError, match="does not return a pair"):
            check(f"{file}:both", at, value_and_grad=True)
        return
    report = check(f"{file}:both", at, value_and_grad=True)
    assert report.verdict == "pass" and sorted(report.points[0].differentiated) == PAIRS[returned]


@for_rows(
    ("parts", "said"),
    [
        ("", "takes value=... and grad=..."), ("value=1", "each once"), ("grad", "not 'grad'"), ("grad=", "not 'grad='"),
        ("grad=1,grad=2", "each once"), ("grad=1,other=2", "not 'grad=1,other=2'"), ("grad=dw", "not the value"),
        ("value=1,grad=1", "part 1 as the value and as the gradient"), ("grad=0", "part 0"), ("0,1", "not '0'"),
        ("grad=a\tb", "not 'grad=a\tb'"),
    ],
)  # fmt: skip
def test_other_texts_are_refused(parts: str, said: str) -> None:
    with pytest.raises(BadOption) as error:
        pick("--pick", parts)
    assert said in error.value.what and "--pick value=" in str(error.value.do)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--grad", "g"), "--pick is itself a claim, and --grad is another"),
        (("--vjp", "g"), "--pick is itself a claim, and --vjp is another"),
        (("--value-and-grad",), "drop --value-and-grad"),
    ],
)
def test_a_pick_is_a_claim(gradcli: Callable[..., Any], tmp_path: Path, more: tuple[str, ...], said: str) -> None:
    ran = gradcli("check", f"{written(tmp_path, RETURNS)}:behind", *X, "--pick", "grad=1", *more, *QUICK)
    assert ran.exit_status == 2 and said in ran.stderr


def test_an_expression_has_no_parts_to_pick(gradcli: Callable[..., Any]) -> None:
    ran = gradcli("check", "x**2", "x=1", "--pick", "grad=1", *QUICK)
    assert ran.exit_status == 2 and "drop --pick" in ran.stderr


@pytest.mark.parametrize("command", ["compare-modes", "sweep"])
def test_other_commands_with_claims_pick_too(gradcli: Callable[..., Any], tmp_path: Path, command: str) -> None:
    ran = gradcli(command, f"{written(tmp_path, RETURNS)}:last", *X, "--pick", "value=2,grad=3", "--json")
    assert ran.exit_status == 0, ran.stderr
    assert ran.json["verdict"] == "pass"


def test_a_suite_and_a_decorator_pick(
    gradcli: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "losses.py").write_text(
        "import gradcli\nimport numpy as np\n"
        "@gradcli.checked(id='declared', pick='value=1,grad=0', at='x=[1, 2]')\n"
        "def swapped(x): return 2*x, np.sum(x**2)\n"
    )
    (tmp_path / "gradcli.toml").write_text(
        '[[check]]\nid = "listed"\ntarget = "losses.py:swapped"\nat = "x=[1, 2]"\npick = "value=1,grad=0"\n'
    )
    ran = gradcli("check", "--json")
    assert ran.exit_status == 0, ran.stdout
    assert {check["id"]: check["verdict"] for check in ran.json["checks"]} == {"listed": "pass", "declared": "pass"}
    assert ran.json["checks"][0]["document"]["claim"] == "losses.py:swapped (part 0 of its result)"


def test_python_picks_by_a_text_or_a_dict() -> None:
    f = lambda x: {"loss": np.sum(x**3), "dx": 3 * x**2}
    for parts in ("value=loss,grad=dx", {"value": "loss", "grad": "dx"}, Pick("loss", "dx")):
        assert check(f, np.array([1.0, 2.0]), pick=parts).verdict == "pass"
    with pytest.raises(GradcliError, match="itself a claim"):
        check(f, np.array([1.0, 2.0]), pick="grad=1", grad=lambda x: x)


@pytest.mark.parametrize(
    ("target", "hint"), [("in_front", "--pick value=1,grad=0"), ("behind", "--pick value=0,grad=1")]
)
def test_a_result_that_looks_like_both_says_what_to_write(
    gradcli: Callable[..., Any], tmp_path: Path, target: str, hint: str
) -> None:
    code = RETURNS.replace('{"steps": 3}', "3.0")
    ran = gradcli("check", f"{written(tmp_path, code)}:{target}", *X, *QUICK, "--json")
    (notice,) = [f for f in ran.json["points"][0]["findings"] if f["kind"] == "value-and-gradient"]
    assert hint in notice["hint"]


def test_value_and_grad_of_more_parts_says_to_pick(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    ran = gradcli("check", f"{written(tmp_path, RETURNS)}:behind", *X, "--value-and-grad", *QUICK)
    assert ran.exit_status == 2 and "--pick value=0,grad=1" in ran.stderr
