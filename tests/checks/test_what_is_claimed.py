"""What a claim leaves out is said, and claims that are no gradients, or another at each call, do not pass."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradcli as package
from gradcli.errors import BadClaim

CODE = """\
import numpy as np
def f(params, x):
    return np.sum(params["w"] * x) ** 2 + params["b"]
def whole(params, x):
    s = 2 * np.sum(params["w"] * x)
    return {"params": {"w": s * x, "b": 1.0}, "x": s * params["w"]}
def without_x(params, x):
    return {"params": whole(params, x)["params"]}
def without_b(params, x):
    found = whole(params, x)
    return {"params": {"w": found["params"]["w"]}, "x": found["x"]}
def declining(params, x):
    return {"params": whole(params, x)["params"], "x": None}
def wrong(params, x):
    return {"params": {"w": x, "b": 1.0}}
def g(x, y):
    return np.sum(x * y)
def first(x, y):
    return y
def unknown(x, y):
    return {"z": y}
def empty(x, y):
    return {}
"""
AT = ("params.w=[1,2]", "params.b=0.5", "x=[0.3,0.7]")


@pytest.fixture
def check(gradcli: Callable[..., Any], tmp_path: Path) -> Callable[..., Any]:
    (tmp_path / "claims.py").write_text(
        CODE + "point = {'params': {'w': np.array([1., 2.]), 'b': 0.5}, 'x': np.array([0.3, 0.7])}\n"
    )
    file = tmp_path / "claims.py"

    def checked(claim: str, *more: str, target: str = "f") -> Any:
        at = ("--at", f"{file}:point") if target == "f" else ("x=[1,2]", "y=[3,4]")
        return gradcli("check", f"{file}:{target}", "--grad", claim, *at, *more)

    return checked


@pytest.mark.parametrize(
    ("claim", "left"), [("without_x", ["x"]), ("without_b", ["params.b"]), ("declining", ["x"]), ("whole", [])]
)
def test_what_is_left_out_is_said_first_and_in_the_document(
    check: Callable[..., Any], claim: str, left: list[str]
) -> None:
    (point,) = check(claim, "--json").json["points"]
    everything = ["params.w", "params.b", "x"]
    assert point["differentiated"] == [name for name in everything if name not in left]
    assert point.get("not_claimed", []) == left and not set(left) & set(point["constant"])
    shown = " ".join(check(claim).stdout.split())
    assert shown.startswith(f"PASS ({', '.join(left)} not checked) …/" if left else "PASS …/"), shown
    assert ": the claimed" in shown.partition(" at ")[0]


@pytest.mark.parametrize(("claim", "status"), [("without_x", 2), ("without_b", 2), ("declining", 0), ("whole", 0)])
def test_a_claim_may_be_required_for_every_input(check: Callable[..., Any], claim: str, status: int) -> None:
    ran = check(claim, "--require-claim", "--json")
    assert ran.exit_status == status
    if status:
        assert ran.json["error"]["message"].startswith("--require-claim is given, but the claim does not cover ")
        assert "--wrt " in ran.json["error"]["hint"]


def test_inputs_that_are_chosen_are_all_that_is_required(check: Callable[..., Any]) -> None:
    assert check("without_x", "--require-claim", "--wrt", "params").exit_status == 0


def test_one_array_is_for_the_first_input_and_leaves_nothing_out(check: Callable[..., Any]) -> None:
    (point,) = check("first", "--json", target="g").json["points"]
    assert (point["differentiated"], point["constant"]) == (["x"], ["y"]) and "not_claimed" not in point
    assert check("first", "--require-claim", target="g").exit_status == 0


def test_a_wrong_claim_fails_whatever_it_leaves_out(check: Callable[..., Any]) -> None:
    ran = check("wrong", "--json")
    assert ran.exit_status == 1 and ran.json["points"][0]["not_claimed"] == ["x"]


@pytest.mark.parametrize(
    ("claim", "says"),
    [("unknown", "the claim names 'z', which is not an input"), ("empty", "the claim is an empty dict")],
)
def test_a_dict_that_names_no_input_is_an_error(check: Callable[..., Any], claim: str, says: str) -> None:
    ran = check(claim, "--json", target="g")
    assert ran.exit_status == 2 and ran.json["error"]["message"] == says
    assert ran.json["error"]["hint"] == "inputs: x, y"


def squared(x: Any) -> Any:
    return np.sum(x**2)


def now_and_then(right: Any, wrong: Any) -> Callable[[Any], Any]:
    calls = [0]

    def claim(x: Any) -> Any:
        calls[0] += 1
        return right(x) if calls[0] == 1 else wrong(x)

    return claim


rng = np.random.default_rng(0)
CHANGING = {
    "random": lambda x: 2 * x * (1 + 1e-6 * rng.normal()),
    "right at the first call alone": now_and_then(lambda x: 2 * x, lambda x: 0 * x),
    "another shape at the second call": now_and_then(lambda x: 2 * x, lambda x: x[:1]),
}


def raises(x: Any) -> Any:
    raise ValueError("no more")


@pytest.mark.parametrize("name", CHANGING)
def test_a_claim_that_changes_does_not_pass(name: str) -> None:
    report = package.check(squared, {"x": np.array([1.0, 2.0])}, grad=CHANGING[name])
    assert report.verdict == "fail"
    assert any(f.kind == "not-deterministic" for f in report.points[0].findings) or report.points[0].diagnosis


def test_a_claim_that_raises_at_its_second_call_does_not_pass() -> None:
    report = package.check(squared, {"x": np.array([1.0, 2.0])}, grad=now_and_then(lambda x: 2 * x, raises))
    assert report.verdict == "fail"


def test_a_claim_that_raises_at_once_is_an_error() -> None:
    with pytest.raises(BadClaim, match="no more"):
        package.check(squared, {"x": np.array([1.0, 2.0])}, grad=raises)


def unpacks_its_cache(dout: Any, cache: Any) -> Any:
    (x,) = cache
    return 2 * x * dout


def needs_a_cotangent(g: Any, x: Any) -> Any:
    return 2 * x * g


@pytest.mark.parametrize("claim", [unpacks_its_cache, needs_a_cotangent])
def test_a_backward_pass_that_is_given_as_a_gradient_is_told_its_option(claim: Any) -> None:
    with pytest.raises(BadClaim) as raised:
        package.check(squared, {"x": np.array([1.0, 2.0])}, grad=claim)
    assert f"backward='{claim.__name__}'" in str(raised.value.do)


@pytest.mark.parametrize("x", [np.array([1.0, np.nan]), np.array([1.0, np.inf])])
def test_a_point_that_is_not_finite_does_not_pass(x: Any) -> None:
    for claim in (None, lambda x: 2 * x):
        report = package.check(squared, {"x": x}, grad=claim)
        assert report.exit_status == 3
        assert "non-finite" in {f.kind for f in report.points[0].findings}
