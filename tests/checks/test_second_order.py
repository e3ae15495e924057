"""Hessians and products with vectors: claims of every kind, right ones confirmed, planted mistakes found."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradcli as package
from tests.rows import for_rows
from tests.targets.test_loading import written

QUICK = ("--modes", "forward,reverse,fd")
CODE = """
    def f(x): return np.sum(np.sin(x)*x[0])
    def g(x):
        found = x[0]*np.cos(x)
        found[0] += np.sum(np.sin(x))
        return found
    def H(x):
        found = np.diag(-x[0]*np.sin(x))
        found[0] += np.cos(x)
        found[:, 0] += np.cos(x)
        return found
    def H_rows(x): return H(x).tolist()
    def H_dict(x): return {"x": {"x": H(x)}}
    def H_sign(x): return -H(x)
    def H_slightly(x): return H(x)*(1 + 1e-7)
    def H_entry(x):
        found = H(x)
        found[0, 1] += 1e-3
        return found
    def H_nan(x): return H(x)*np.nan
    def H_diagonal(x): return np.diag(np.diag(H(x)))
    def H_vector(x): return np.diag(H(x))
    def H_column(x): return H(x)[:, :1]
    def H_raises(x): raise ArithmeticError("singular")
    def Hv(x, v): return H(x) @ v
    def Hv_sign(x, v): return -H(x) @ v
    def Hv_slip(x, v): return H(x) @ v + 1e-4*v
    def Hv_short(x, v): return (H(x) @ v)[:1]
    def Hv_raises(x, v): raise ArithmeticError("singular")

    def F(x): return np.array([x[0]*x[1], x[0]**2, np.sin(x[1])])
    def J(x): return np.array([[x[1], x[0]], [2*x[0], 0.0], [0.0, np.cos(x[1])]])
    def Jv(x, v): return J(x) @ v
    def Jv_slip(x, v): return J(x) @ v * (1 + 1e-6)
    def Jv_sign(x, v): return -J(x) @ v
    def Jv_short(x, v): return (J(x) @ v)[:2]
    def wJ(x, w): return w @ J(x)
    def wJ_slip(x, w): return w @ J(x) + 1e-5
    def wJ_detached(x, w): return 0*x
    def wJ_short(x, w): return (w @ J(x))[:1]
    def wJ_long(x, w): return w

    def s(x, y): return np.sum(x**2)*y
    def s_dict(x, y): return {"x": {"x": 2*np.eye(2)*y, "y": 2*x}, "y": {"x": 2*x, "y": 0.0}}
    def s_tuple(x, y): return (2*np.eye(2)*y, 2*x), (2*x, 0.0)
    def s_whole(x, y): return np.block([[2*np.eye(2)*y, 2*x[:, None]], [2*x[None], np.zeros((1, 1))]])
    def s_first(x, y): return 2*np.eye(2)*y
    def s_slip(x, y): return {"x": {"x": 2*np.eye(2)*y, "y": 2*x}, "y": {"x": 2*x, "y": 1e-3}}
    def s_corner(x, y): return s_whole(x, y) + np.diag([0.0, 0.0, 1.0])
    def s_Hv(x, y, v): return 2*y*v[0] + 2*x*v[1], 2*x @ v[0]
    def s_Hv_slip(x, y, v): return 2*y*v[0] + 2*x*v[1], 2.01*x @ v[0]
    def s_Jv(x, y, v): return 2*x @ v[0]*y + np.sum(x**2)*v[1]
    def s_Jv_slip(x, y, v): return 2*x @ v[0]*y
    def s_wJ(x, y, w): return w*2*x*y, w*np.sum(x**2)
    def s_wJ_slip(x, y, w): return w*2*x*y, w*np.sum(x)

    def of_t(t): return t**3
    def of_t_J(t, v): return 3*t**2*v
    def of_t_H(t, v): return 6*t*v
    def with_t(x, t): return np.sum(x**2)*t
    def with_t_J(x, t, v): return 2*x @ v[0]*t + np.sum(x**2)*v[1]
"""
X = ("x=[0.5, 2]",)
XY = ("x=[0.5, 2]", "y=3")


@pytest.fixture(autouse=True)
def _importable_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))


@pytest.fixture(name="claiming")
def _claiming(gradcli: Callable[..., Any], tmp_path: Path) -> Callable[..., Any]:
    file = written(tmp_path, CODE)
    return lambda target, *words: gradcli("check", f"{file}:{target}", *words, *QUICK)


# fmt: off
RIGHT = [
    ("f", X,  "--hess", "H"),
    ("f", X,  "--hess", "H_rows"),
    ("f", X,  "--hess", "H_dict"),
    ("f", X,  "--hvp",  "Hv"),
    ("f", X,  "--grad", "g"),
    ("F", X,  "--jac",  "J"),
    ("F", X,  "--jvp",  "Jv"),
    ("F", X,  "--vjp",  "wJ"),
    ("s", XY, "--hess", "s_dict"),
    ("s", XY, "--hess", "s_whole"),
    ("s", XY, "--hess", "s_first"),
    ("s", XY, "--hess", "s_tuple"),
    ("s", XY, "--hvp",  "s_Hv"),
    ("s", XY, "--jvp",  "s_Jv"),
    ("s", XY, "--vjp",  "s_wJ"),
    ("of_t",   ("t=3",),               "--jvp", "of_t_J"),
    ("of_t",   ("t=3",),               "--hvp", "of_t_H"),
    ("with_t", ("x=[0.5, 2]", "t=3"),  "--jvp", "with_t_J"),
]
WRONG = [
    ("f", X,  "--hess", "H_sign"),
    ("f", X,  "--hess", "H_slightly"),
    ("f", X,  "--hess", "H_entry"),
    ("f", X,  "--hess", "H_nan"),
    ("f", X,  "--hess", "H_diagonal"),
    ("f", X,  "--hvp",  "Hv_sign"),
    ("f", X,  "--hvp",  "Hv_slip"),
    ("F", X,  "--jvp",  "Jv_slip"),
    ("F", X,  "--jvp",  "Jv_sign"),
    ("F", X,  "--vjp",  "wJ_slip"),
    ("F", X,  "--vjp",  "wJ_detached"),
    ("s", XY, "--hess", "s_slip"),
    ("s", XY, "--hess", "s_corner"),
    ("s", XY, "--hvp",  "s_Hv_slip"),
    ("s", XY, "--jvp",  "s_Jv_slip"),
    ("s", XY, "--vjp",  "s_wJ_slip"),
]
SHAPES = [
    ("f", X, "--hess", "H_vector"),
    ("f", X, "--hess", "H_column"),
    ("f", X, "--hvp",  "Hv_short"),
    ("F", X, "--jvp",  "Jv_short"),
    ("F", X, "--vjp",  "wJ_short"),
    ("F", X, "--vjp",  "wJ_long"),
]
# fmt: on


@pytest.mark.parametrize(("target", "at", "option", "claim"), RIGHT)
def test_right_claims_pass(claiming: Callable[..., Any], target: str, at: tuple, option: str, claim: str) -> None:
    ran = claiming(target, *at, option, claim, "--json")
    assert (ran.exit_status, ran.json.get("verdict")) == (0, "pass"), ran.stdout
    assert ran.json["claim"] == claim


@pytest.mark.parametrize(("target", "at", "option", "claim"), WRONG)
def test_planted_mistakes_are_found(
    claiming: Callable[..., Any], target: str, at: tuple, option: str, claim: str
) -> None:
    ran = claiming(target, *at, option, claim, "--json")
    assert (ran.exit_status, ran.json.get("verdict")) == (1, "fail"), ran.stdout
    assert ran.json["points"][0]["mismatches"]


@pytest.mark.parametrize(("target", "at", "option", "claim"), SHAPES)
def test_wrong_shapes_are_wrong(claiming: Callable[..., Any], target: str, at: tuple, option: str, claim: str) -> None:
    ran = claiming(target, *at, option, claim, "--json")
    assert ran.exit_status == 1, ran.stdout
    assert ran.json["points"][0]["diagnosis"]["kind"] in ("shape", "diagonal-only")


UNTRACED = """
    def f(x): return x[0].__float__()**3*x[2].__float__() + x[0].__float__()*x[1].__float__()**2
    def g(x): return np.array([3*x[0]**2*x[2] + x[1]**2, 2*x[0]*x[1], x[0]**3])
    def g_slip(x): return g(x)*np.array([1.0, 1.0, 1.01])
    def H(x): return np.array([[6*x[0]*x[2], 2*x[1], 3*x[0]**2], [2*x[1], 2*x[0], 0.0], [3*x[0]**2, 0.0, 0.0]])
    def H_slip(x): return H(x) + 1e-4*np.eye(3)
    def H_off(x): return H(x)*np.array([[1, 1, 1.001], [1, 1, 1], [1, 1, 1]])
    def Hv(x, v): return H(x) @ v
    def Hv_slip(x, v): return H_off(x) @ v
    def bent(x): return x[0].__float__()*abs(x[0].__float__()) + x[1].__float__()**2 + x[2].__float__()
    def bent_H(x): return np.diag([2*np.sign(x[0]), 2.0, 0.0])
    def mixed(x): return x[0].__float__()*abs(x[1].__float__()) + x[2].__float__()
    def mixed_H(x): return np.zeros((3, 3))
    def vector(x): return np.array([x[0].__float__(), x[1].__float__()])
    def g_short(x): return g(x)[:1]
    def two_g(x, y): return {"x": np.array([2*x[0]*y**3, 1.0]), "y": 3*x[0]**2*y**2}
    def two_first(x, y): return np.diag([2*y**3, 0.0])
    def two(x, y): return x[0].__float__()**2*y.__float__()**3 + x[1].__float__()
    def two_H(x, y): return {"x": {"x": np.diag([2*y**3, 0.0]), "y": np.array([6*x[0]*y**2, 0.0])},
                             "y": {"x": np.array([6*x[0]*y**2, 0.0]), "y": 6*x[0]**2*y}}
    def traced(x): return np.sum(x**3)
    def traced_g(x): return 3*x**2
    def traced_slip(x): return 3*x**2 + 1e-3
    def traced_H(x): return np.diag(6*x)
"""
THREE = ("x=[1.2, 0.7, -0.4]",)


@pytest.mark.parametrize(
    ("f", "at", "words", "status"),
    [
        ("f", THREE, ("--hess", "H"), 0),
        ("f", THREE, ("--hess", "H_slip"), 1),
        ("f", THREE, ("--hess", "H_off"), 1),
        ("f", THREE, ("--hvp", "Hv"), 0),
        ("f", THREE, ("--hvp", "Hv_slip"), 1),
        ("f", THREE, ("--grad", "g", "--hess", "H"), 0),
        ("f", THREE, ("--grad", "g", "--hess", "H_slip"), 1),
        ("f", THREE, ("--grad", "g_slip", "--hess", "H"), 1),
        ("f", THREE, ("--grad", "g", "--hvp", "Hv"), 0),
        ("f", THREE, ("--grad", "g", "--hvp", "Hv_slip"), 1),
        ("f", THREE, ("--order", "2"), 3),
        ("two", XY, ("--hess", "two_H"), 0),
        ("two", XY, ("--grad", "two_g", "--hess", "two_H"), 0),
        ("two", XY, ("--grad", "two_g", "--hess", "two_first"), 0),
        ("bent", ("x=[0, 0.7, 1]",), ("--hess", "bent_H"), 3),
        ("bent", ("x=[0.5, 0.7, 1]",), ("--hess", "bent_H"), 0),
        ("mixed", ("x=[0, 0, 1]",), ("--hess", "mixed_H"), 3),
        ("vector", THREE, ("--hess", "mixed_H"), 2),
        ("f", THREE, ("--grad", "g_short", "--hess", "H"), 2),
        ("traced", X, ("--grad", "traced_g", "--hess", "traced_H"), 0),
        ("traced", X, ("--grad", "traced_slip", "--hess", "traced_H"), 1),
    ],
)
def test_functions_that_can_only_be_called(
    gradcli: Callable[..., Any], tmp_path: Path, f: str, at: tuple, words: tuple, status: int
) -> None:
    file = written(tmp_path, UNTRACED)
    ran = gradcli("check", f"{file}:{f}", *at, *words)
    assert ran.exit_status == status, ran.stdout
    if words[:2] in (("--grad", "g_slip"), ("--grad", "traced_slip")):
        assert "the claimed gradient is wrong" in ran.stdout


def test_scipys_own_second_derivatives(gradcli: Callable[..., Any]) -> None:
    point = "x=[1.2, 0.7, 0.9]"
    assert gradcli("check", "scipy.optimize:rosen", "--hess", "scipy.optimize:rosen_hess", point).exit_status == 0
    assert gradcli("check", "scipy.optimize:rosen", "--hvp", "scipy.optimize:rosen_hess_prod", point).exit_status == 0


def test_a_hessian_of_many_entries_is_left_to_differences_of_a_gradient(
    gradcli: Callable[..., Any], tmp_path: Path
) -> None:
    code = "from scipy.optimize import rosen\ndef f(x):\n    return rosen(np.frombuffer(x.tobytes()))\n"  # not traced
    words = ("check", f"{written(tmp_path, code)}:f", "--hess", "scipy.optimize:rosen_hess", "x=randn(12)")
    ran = gradcli(*words, "--budget", "2000")
    assert ran.exit_status == 3 and "--grad g --hess h" in ran.stdout
    assert gradcli(*words, "--grad", "scipy.optimize:rosen_der").exit_status == 0


def test_both_claims_in_python(tmp_path: Path) -> None:
    report = package.check(
        lambda x: x[0].__float__() ** 3, {"x": np.array([2.0])}, grad=lambda x: 3 * x**2, hess=lambda x: np.diag(6 * x)
    )
    assert report.verdict == "pass"


# fmt: off
REFUSED = [
    ("f", X, ("--hess", "H_raises"),              "ArithmeticError: singular"),
    ("f", X, ("--hvp", "Hv_raises"),              "ArithmeticError: singular"),
    ("f", X, ("--hess", "Hh"),                    "Hh"),
    ("f", X, ("--grad", "g", "--order", "2"),     "--hess"),
    ("f", X, ("--order", "3"),                    "--order"),
    ("f", X, ("--hvp", "6*x*v"),                  "--hvp"),
    ("f", X, ("--hess", "H", "--hvp", "Hv"),      "two claims"),
    ("F", X, ("--order", "2"),                    "scalar"),
    ("F", X, ("--hess", "J"),                     "scalar"),
]
# fmt: on


@pytest.mark.parametrize(("target", "at", "words", "said"), REFUSED)
def test_what_cannot_be_asked_is_the_users_error(
    claiming: Callable[..., Any], target: str, at: tuple, words: tuple, said: str
) -> None:
    ran = claiming(target, *at, *words)
    assert (ran.exit_status, ran.stdout) == (2, "")
    assert said in ran.stderr and "internal" not in ran.stderr


def test_order_two_confirms_our_own_hessian(claiming: Callable[..., Any]) -> None:
    ran = claiming("f", *X, "--order", "2", "--json")
    (point,) = ran.json["points"]
    x = np.array([0.5, 2.0])
    right = np.diag(-x[0] * np.sin(x))
    right[0] += np.cos(x)
    right[:, 0] += np.cos(x)
    assert ran.exit_status == 0
    np.testing.assert_allclose(point["jacobian"]["x"], right, rtol=1e-14, atol=1e-15)
    assert "Hessian" in claiming("f", *X, "--order", "2").stdout


def test_a_hessian_is_named_so_and_its_entries_too(claiming: Callable[..., Any]) -> None:
    ran = claiming("f", *X, "--hess", "H_entry")
    assert "the claimed Hessian is wrong" in " ".join(ran.stdout.split())
    assert "x[0]" in ran.stdout and "x[1]" in ran.stdout
    document = claiming("f", *X, "--hess", "H_entry", "--json").json
    (mismatch,) = document["points"][0]["mismatches"]
    assert (mismatch["output"], mismatch["index"]) == ([0], [1])


@pytest.mark.parametrize(
    "words", [("f", "--order", "2"), ("f", "--hess", "H"), ("F", "--jvp", "Jv"), ("F", "--vjp", "wJ")]
)
def test_the_document_names_the_target_as_it_was_written(claiming: Callable[..., Any], words: tuple) -> None:
    document = claiming(words[0], *X, *words[1:], "--json").json
    assert document["target"]["text"].endswith(f".py:{words[0]}")
    assert not document["target"]["text"].startswith(("gradient", "w "))


@pytest.mark.parametrize("words", [("F", "--jvp", "Jv"), ("f", "--hvp", "Hv")])
def test_the_point_of_a_product_is_the_point_that_was_given(claiming: Callable[..., Any], words: tuple) -> None:
    document = claiming(words[0], *X, *words[1:], "--json").json
    assert document["points"][0]["at"] == {"x": [0.5, 2.0]}


# fmt: off
EXPRESSIONS = [
    ("sum(x**3)", "diag(6*x)",                        0),
    ("sum(x**3)", "[[6*x[0], 0], [0, 6*x[1]]]",       0),
    ("sum(x**3)", "diag(5*x)",                        1),
    ("sum(x**3)", "6*x",                              0),
    ("sum(x**3)", "5*x",                              1),
    ("prod(x)",   "0*x",                              1),
    ("x[0]*x[1]", "[[0, 1], [1, 0]]",                 0),
    ("x[0]*x[1]", "[[0, 1], [0, 0]]",                 1),
]
# fmt: on


@for_rows(("target", "claim", "status"), EXPRESSIONS)
def test_hessians_may_be_claimed_as_expressions(
    gradcli: Callable[..., Any], target: str, claim: str, status: int
) -> None:
    assert gradcli("check", target, *X, "--hess", claim, *QUICK).exit_status == status


def test_a_kink_of_the_first_derivative_is_inconclusive(gradcli: Callable[..., Any]) -> None:
    assert gradcli("check", "sum(maximum(x, 0)**2)", "x=[1, 0]", "--order", "2", *QUICK).exit_status == 3
    assert gradcli("check", "sum(maximum(x, 0)**2)", "x=[1, -1]", "--order", "2", *QUICK).exit_status == 0


def test_compare_modes_compares_hessians(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    file = written(tmp_path, CODE)
    for claim, status in (("H", 0), ("H_entry", 1)):
        ran = gradcli("compare-modes", f"{file}:f", *X, "--hess", claim, *QUICK, "--json")
        assert ran.exit_status == status
        assert np.shape(ran.json["modes"]["reverse"]["jacobian"]["x"]) == (2, 2)


def test_nested_parameters_have_a_hessian(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    code = """
        def f(p): return np.sum(p["W"]**2)*p["b"]
        def Hv(p, v): return {"W": 2*p["b"]*v["W"] + 2*p["W"]*v["b"], "b": 2*p["W"] @ v["W"]}
        def slip(p, v): return {"W": 2*p["b"]*v["W"], "b": 2*p["W"] @ v["W"]}
        point = {"p": {"W": np.array([1.0, 2.0]), "b": 3.0}}
    """
    file = written(tmp_path, code)
    argv = ("check", f"{file}:f", "--at", f"{file}:point", *QUICK)
    assert gradcli(*argv, "--order", "2").exit_status == 0
    assert gradcli(*argv, "--hvp", "Hv").exit_status == 0
    assert gradcli(*argv, "--hvp", "slip").exit_status == 1


def cube(x: Any) -> Any:
    return np.sum(x**3)


# fmt: off
API = [
    ({"hess": lambda x: np.diag(6 * x)},     "pass"),
    ({"hess": lambda x: np.diag(5 * x)},     "fail"),
    ({"hvp": lambda x, v: 6 * x * v},        "pass"),
    ({"hvp": lambda x, v: 6 * x * v + 1e-6}, "fail"),
    ({"jvp": lambda x, v: 3 * x**2 @ v},     "pass"),
    ({"jvp": lambda x, v: 3 * x @ v},        "fail"),
    ({"vjp": lambda x, w: 3 * x**2 * w},     "pass"),
    ({"vjp": lambda x, w: 3 * x**2},         "fail"),
    ({"jac": lambda x: 3 * x**2},            "pass"),
    ({"order": 2},                           "pass"),
]
# fmt: on


@for_rows(("claim", "verdict"), API, parts=2)
def test_the_api_takes_claims_of_every_kind(claim: dict[str, Any], verdict: str) -> None:
    report = package.check(cube, np.array([1.0, 2.0]), modes="forward,reverse,fd", **claim)
    assert report.verdict == verdict


def test_without_a_claim_the_hessian_is_checked() -> None:
    assert package.check("x**3", {"x": 2.0}, order=2).derivative == "Hessian"


def test_a_gradient_that_loses_digits_by_rounding_is_as_right_beside_a_hessian_as_it_is_alone() -> None:
    alone = package.check("1 - cos(x)", "x=1e-4", grad="sqrt(1 - cos(x)**2)")
    beside = package.check("1 - cos(x)", "x=1e-4", hess="cos(x)", grad="sqrt(1 - cos(x)**2)")
    assert (alone.verdict, beside.verdict) == ("pass", "pass")
