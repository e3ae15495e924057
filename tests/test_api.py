"""The Python interface: derivatives of plain numpy functions, checks, and what each says of bad arguments."""

import copy
import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import gradcli as package
from gradcli import check, grad, hessian, hvp, jacobian, jvp, primitive, value_and_grad, vjp
from gradcli.errors import BadOption, BadPoint, BadShape, BadTarget, GradcliError
from tests.rows import for_rows

X = np.array([1.0, 2.0])
QUICK = "forward,reverse,fd"


def cube(x: Any) -> Any:
    return np.sum(x**3)


def scaled(x: Any, y: Any) -> Any:
    return np.sum(x**2) * y


class Pair(NamedTuple):
    W: Any
    b: Any


@dataclass
class Layer:
    W: Any
    b: Any


def same(a: Any, b: Any) -> bool:
    """Whether two structures of arrays have the same shape and values."""
    if isinstance(b, dict):
        return type(a) is type(b) and a.keys() == b.keys() and all(same(a[k], b[k]) for k in b)
    if isinstance(b, Layer):
        return isinstance(a, Layer) and same((a.W, a.b), (b.W, b.b))
    if isinstance(b, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return np.shape(a) == np.shape(b) and np.allclose(a, b, rtol=1e-14, atol=1e-15)


# fmt: off
DERIVATIVES = {
    "grad":                  (lambda: grad(cube)(X),                                        np.array([3.0, 12.0])),
    "grad of a float":       (lambda: grad(lambda x: x**3)(2.0),                            12.0),
    "grad of an int":        (lambda: grad(lambda x: x**3)(2),                              12.0),
    "grad of integers":      (lambda: grad(cube)(np.array([1, 2])),                         np.array([3.0, 12.0])),
    "grad of float32":       (lambda: grad(cube)(X.astype(np.float32)),                     np.array([3.0, 12.0])),
    "grad of the first":     (lambda: grad(scaled)(X, 3.0),                                 np.array([6.0, 12.0])),
    "by position":           (lambda: grad(scaled, wrt=1)(X, 3.0),                          5.0),
    "by position from the end": (lambda: grad(scaled, wrt=-1)(X, 3.0),                      5.0),
    "by name":               (lambda: grad(scaled, wrt="y")(X, 3.0),                        5.0),
    "by a tuple": (lambda: grad(scaled, wrt=(0, 1))(X, 3.0), (np.array([6.0, 12.0]), 5.0)),
    "by a list of names": (lambda: grad(scaled, wrt=["y", "x"])(X, 3.0), (5.0, np.array([6.0, 12.0]))),
    "by a tuple of one":     (lambda: grad(scaled, wrt=("y",))(X, 3.0),                     (5.0,)),
    "with a keyword":        (lambda: grad(scaled, wrt="y")(X, y=3.0),                      5.0),
    "with a default":        (lambda: grad(lambda x, k=2.0: k*np.sum(x**2))(X),             4*X),
    "value and grad": (lambda: value_and_grad(scaled)(X, 3.0), (15.0, np.array([6.0, 12.0]))),
    "value and two": (lambda: value_and_grad(scaled, wrt=(0, 1))(X, 3.0), (15.0, (np.array([6.0, 12.0]), 5.0))),
    "of a constant":         (lambda: grad(lambda x: 3.0)(X),                               np.zeros(2)),
    "of a dict": (lambda: grad(lambda p: np.sum(p["a"]**2)*p["b"])({"a": X, "b": 3.0}), {"a": 6*X, "b": 5.0}),
    "of a list":             (lambda: grad(lambda p: np.sum(p[0]**2)*p[1])([X, 3.0]),       [6*X, 5.0]),
    "of a tuple":            (lambda: grad(lambda p: np.sum(p[0]**2)*p[1])((X, 3.0)),       (6*X, 5.0)),
    "of a named tuple":      (lambda: grad(lambda p: np.sum(p.W**2)*p.b)(Pair(X, 3.0)),     Pair(6*X, 5.0)),
    "of a dataclass":        (lambda: grad(lambda p: np.sum(p.W**2)*p.b)(Layer(X, 3.0)),    Layer(6*X, 5.0)),
    "nested": (lambda: grad(lambda p: np.sum(p["l"][0].W**2))({"l": [Layer(X, 1.0)]}), {"l": [Layer(2*X, 0.0)]}),
    "jvp":                   (lambda: jvp(scaled, (X, 3.0), (X, 1.0)),                      (15.0, 35.0)),
    "jvp of a vector":       (lambda: jvp(lambda x: x**2, (X,), (X,)),                      (X**2, 2*X**2)),
    "jvp of a dict":         (lambda: jvp(lambda p: np.sum(p["a"]**2), ({"a": X},), ({"a": X},)), (5.0, 10.0)),
    "vjp":                   (lambda: vjp(scaled, X, 3.0)[1](2.0),                          (12*X, 10.0)),
    "vjp of a vector":       (lambda: vjp(lambda x: x**2, X)[1](np.array([1.0, 10.0])),     (np.array([2.0, 40.0]),)),
    "vjp's value":           (lambda: vjp(lambda x: x**2, X)[0],                            X**2),
    "jacobian":              (lambda: jacobian(lambda x: x**2)(X),                          np.diag(2*X)),
    "jacobian, wide":        (lambda: jacobian(lambda x: np.sum(x, keepdims=True))(X),      np.ones((1, 2))),
    "jacobian, tall": (lambda: jacobian(lambda x: np.concatenate([x, x]))(X), np.vstack([np.eye(2), np.eye(2)])),
    "jacobian of a matrix": (lambda: jacobian(lambda W: W @ X)(np.eye(2)), np.einsum("ij,k->ijk", np.eye(2), X)),
    "jacobian of a tuple": (lambda: jacobian(lambda x: (np.sum(x), x))(X), np.vstack([np.ones(2), np.eye(2)])),
    "jacobian by two":       (lambda: jacobian(lambda x, y: x*y, wrt=(0, 1))(X, 3.0),       (3*np.eye(2), X)),
    "jacobian of a scalar":  (lambda: jacobian(cube)(X),                                    np.array([3.0, 12.0])),
    "hessian":               (lambda: hessian(cube)(X),                                     np.diag(6*X)),
    "hessian of a float":    (lambda: hessian(lambda x: x**3)(2.0),                         12.0),
    "hessian of a matrix": (lambda: hessian(lambda W: np.sum(W**2))(np.eye(2)), 2*np.eye(4).reshape(2, 2, 2, 2)),
    "hessian by two": (lambda: hessian(scaled, wrt=(0, 1))(X, 3.0), ((6*np.eye(2), 2*X), (2*X, 0.0))),
    "hessian of a dict":     (lambda: hessian(lambda p: np.sum(p["a"]**2)*p["b"])({"a": X, "b": 3.0}),
                              {"a": {"a": 6*np.eye(2), "b": 2*X}, "b": {"a": 2*X, "b": 0.0}}),
    "hvp":                   (lambda: hvp(cube, X, X),                                      6*X**2),
    "hvp of two":            (lambda: hvp(scaled, (X, 3.0), (X, 1.0)),                      (8*X, 10.0)),
    "grad of grad":          (lambda: grad(grad(lambda x: x**4))(2.0),                      48.0),
    "third":                 (lambda: grad(grad(grad(lambda x: x**4)))(2.0),                48.0),
    "fifth":                 (lambda: grad(grad(grad(grad(grad(lambda x: x**5)))))(2.0),    120.0),
    "jacobian of grad":      (lambda: jacobian(grad(cube))(X),                              np.diag(6*X)),
    "grad of jvp":           (lambda: grad(lambda x: jvp(cube, (x,), (X,))[1])(X),          6*X**2),
    "grad of vjp":           (lambda: grad(lambda x: np.sum(vjp(cube, x)[1](1.0)[0]))(X),   6*X),
    "jvp of grad":           (lambda: jvp(grad(cube), (X,), (X,)),                          (3*X**2, 6*X**2)),
    "hessian with grad inside": (lambda: hessian(lambda x: np.sum(grad(cube)(x)**2))(X),    np.diag(108*X**2)),
    "grad of hvp":           (lambda: grad(lambda x: np.sum(hvp(cube, x, X)))(X),           6*X),
    "grad through a closure": (lambda: grad(lambda x: grad(lambda y: x*y**2)(3.0))(2.0),    6.0),
    "no confusion":          (lambda: grad(lambda x: x*grad(lambda y: x + y)(1.0))(1.0),    1.0),
    "hessian of a trace":    (lambda: grad(lambda x: np.trace(hessian(lambda y: np.sum(y**4))(x)))(X), 24*X),
}
# fmt: on


@for_rows("name", DERIVATIVES)
def test_derivatives(name: str) -> None:
    compute, right = DERIVATIVES[name]
    assert same(compute(), right)


def test_functions_of_one_leaf_return_numpy_values() -> None:
    assert isinstance(grad(cube)(X), np.ndarray) and isinstance(grad(lambda x: x**2)(2.0), np.float64)


def test_leaves_that_are_not_differentiated_are_none() -> None:
    found = grad(lambda p: np.sum(p["a"] ** 2))({"a": X, "name": "run", "flag": True, "none": None})
    assert same(found.pop("a"), 2 * X) and found == {"name": None, "flag": None, "none": None}


@for_rows("make", [grad, value_and_grad, jacobian, hessian])
def test_the_derivative_is_named_as_the_function(make: Callable[..., Any]) -> None:
    assert make(cube).__name__ == "cube"


# fmt: off
ERRORS = {
    "a vector has no gradient":  (lambda: grad(lambda x: x)(X),                    BadShape,     "scalar"),
    "nor a hessian":             (lambda: hessian(lambda x: x)(X),                 BadShape,     "scalar"),
    "no function":               (lambda: grad(3)(X),                              (TypeError, BadTarget), "int"),
    "no argument":               (lambda: grad(cube)(),                            TypeError,    "x"),
    "too many arguments":        (lambda: grad(cube)(X, X),                        TypeError,    "too many"),
    "no such position":          (lambda: grad(scaled, wrt=2)(X, 3.0),             BadTarget,    "2"),
    "no such name":              (lambda: grad(scaled, wrt="z")(X, 3.0),           BadTarget,    "'z'"),
    "None":                      (lambda: grad(lambda x: None)(X),                 GradcliError, "None"),
    "a string":                  (lambda: grad(lambda x: "text")(X),               GradcliError, "a string"),
    "a complex result":          (lambda: grad(lambda x: np.sum(x)*1j)(X),         GradcliError, "complex"),
    "a complex jacobian":        (lambda: jacobian(lambda x: np.exp(1j*x))(X),     GradcliError, "complex"),
    "a complex jvp":             (lambda: jvp(lambda x: np.exp(1j*x), (X,), (X,)), GradcliError, "complex"),
    "an error inside":           (lambda: grad(lambda x: {}["key"])(X),            GradcliError, "KeyError: 'key'"),
    "a lost trace":              (lambda: grad(lambda x: x[0].__float__())(X),          GradcliError, r"float\(\)"),
    "too few tangents":          (lambda: jvp(scaled, (X, 3.0), (X,)),             BadShape,     "1 tangents"),
    "a tangent of other shape":  (lambda: jvp(cube, (X,), (np.ones(3),)),          BadShape,     r"\(3,\)"),
    "a cotangent of other shape": (lambda: vjp(cube, X)[1](X),                     BadShape,     r"\(2,\)"),
    "hvp of other shape":        (lambda: hvp(cube, X, np.ones(3)),                BadShape,     r"\(3,\)"),
    "no partial":                (lambda: primitive(np.sin),                       TypeError,    "partial"),
    "a complex argument":        (lambda: grad(lambda x: np.sum(np.abs(x)))(1j*X), GradcliError, "complex"),
    "scipy's order, whole":      (lambda: check(cube, lambda x: 3*x**2, X),        TypeError,    "grad="),
    "scipy's order":             (lambda: check(cube, lambda x: 3*x**2),           TypeError,    "grad="),
    "a claim in third place":    (lambda: check(cube, X, lambda x: 3*x**2),        TypeError,    "grad="),
    "two claims":                (lambda: check(cube, X, grad=cube, jac=cube),     TypeError,    "two claims"),
    "no point":                  (lambda: check(cube),                             BadPoint,     "x"),
    "no such order": (lambda: check(cube, X, order=7), (TypeError, ValueError, GradcliError), "order"),
    "no such mode":              (lambda: check(cube, X, modes="taylor"),          GradcliError, "taylor"),
    "no such finding": (lambda: check(cube, X, allow=("knik",)), (TypeError, ValueError, GradcliError), "knik"),
    "no such input":             (lambda: check(cube, X, wrt="z"),                 BadPoint,     "'z'"),
    "a point with other names":  (lambda: check(scaled, {"x": X, "yy": 3.0}),      GradcliError, "yy"),
    "a pair that is none":       (lambda: check(cube, X, value_and_grad=True),     GradcliError, "pair"),
}
# fmt: on


@for_rows("name", ERRORS)
def test_bad_arguments_say_what_is_wrong(name: str) -> None:
    call, kind, said = ERRORS[name]
    with pytest.raises(kind, match=said):
        call()


def test_names_of_the_package_are_found_and_unknown_ones_refused() -> None:
    assert set(package.__all__) <= set(dir(package))
    assert all(hasattr(package, name) for name in package.__all__)
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = package.no_such_name


# fmt: off
CHECKS = [
    ((cube, {"x": X}),                 {},                                              "pass"),
    ((cube, X),                        {},                                              "pass"),
    ((cube, (X,)),                     {},                                              "pass"),
    ((cube, X.astype(np.float32)),     {},                                              "pass"),
    ((cube, X),                        {"grad": lambda x: 3*x**2},                      "pass"),
    ((cube, X),                        {"grad": lambda x: 2*x**2},                      "fail"),
    ((cube, X),                        {"grad": lambda x: 3*(x**2)[None]},              "fail"),
    ((cube, X),                        {"grad": "3*x**2"},                              "pass"),
    ((cube, X),                        {"grad": "x=2*x**2"},                            "fail"),
    ((scaled, (X, 3.0)),               {"grad": lambda x, y: (2*x*y, np.sum(x**2))},    "pass"),
    ((scaled, {"x": X, "y": 3.0}),     {"grad": lambda x, y: {"y": np.sum(x**2)}},      "pass"),
    ((scaled, {"x": X, "y": 3.0}),     {"grad": lambda x, y: np.sum(x**2), "wrt": "y"}, "pass"),
    ((scaled, {"x": X, "y": 3.0}),     {"wrt": ["x"]},                                  "pass"),
    ((scaled, {"x": X, "y": 3.0}),     {"wrt": ("x", "y")},                             "pass"),
    ((lambda x: np.sum(np.abs(x)), np.zeros(2)), {},                                    "inconclusive"),
    ((lambda x: x**2, X),              {"jac": lambda x: np.diag(2*x)},                 "pass"),
    ((lambda x: (cube(x), 3*x**2), X), {"value_and_grad": True},                        "pass"),
    ((lambda x: (cube(x), 2*x**2), X), {"value_and_grad": True},                        "fail"),
    ((cube, X),                        {"grad": lambda x: 3.001*x**2, "rtol": 1e-2},    "pass"),
    (("x**3", {"x": 2.0}),             {"grad": "3*x**2"},                              "pass"),
    (("x**3", "x=2"),                  {"grad": "2*x**2"},                              "fail"),
    (("x**3",),                        {},                                              "pass"),
    (("sum(x**3)", {"x": X}),          {"grad": lambda x: 3*x**2},                      "pass"),
    ((lambda p: np.sum(p["a"]**2), {"p": {"a": X}}), {"grad": lambda p: {"a": 2*p["a"]}}, "pass"),
    ((lambda p: np.sum(p["a"]**2), {"a": X}),  {},                                      "pass"),
]
# fmt: on


@for_rows(("args", "kwargs", "verdict"), CHECKS, parts=2)
def test_check_takes_points_and_claims_in_every_form(args: tuple, kwargs: dict[str, Any], verdict: str) -> None:
    report = check(*args, **kwargs, modes=QUICK)
    assert report.verdict == verdict
    assert bool(report) is report.passed is (verdict == "pass")


def test_check_gives_the_report_of_the_command_line() -> None:
    report = check(cube, {"x": X}, grad=lambda x: 2 * x**2, modes=QUICK)
    (mismatch, *_) = report.points[0].mismatches
    assert (report.exit_status, report.schema) == (1, "gradcli.check/3")
    assert mismatch.input == "x" and mismatch.ratio == pytest.approx(2 / 3)


def test_raise_if_failed() -> None:
    wrong = check(cube, X, grad=lambda x: 2 * x**2, modes=QUICK)
    with pytest.raises(package.NotConfirmed, match="FAIL"):
        wrong.raise_if_failed()
    with pytest.raises(AssertionError):
        wrong.raise_if_failed(allow=("kink",))
    kink = check(lambda x: np.sum(np.abs(x)), np.zeros(2), modes=QUICK)
    with pytest.raises(package.NotConfirmed, match="kink"):
        kink.raise_if_failed()
    with pytest.raises(package.NotConfirmed):
        kink.raise_if_failed(allow=("noise",))
    kink.raise_if_failed(allow=("kink",))
    check(cube, X, modes=QUICK).raise_if_failed()


def test_allow_is_for_the_exit_status() -> None:
    assert check(lambda x: np.sum(np.abs(x)), np.zeros(2), allow=("kink",), modes=QUICK).exit_status == 0


def writes(x: Any) -> Any:
    x *= 2
    return np.sum(x**2)


def writes_inside(p: Any) -> Any:
    p["a"] += 1
    p["b"] = 3.0
    return np.sum(p["a"] ** 2)


def test_the_callers_arrays_are_never_written_to() -> None:
    x, p = X.copy(), {"a": X.copy()}
    assert same(grad(writes)(x), 8 * X) and same(jvp(writes, (x,), (X,))[1], 40.0)
    assert same(hessian(writes)(x), 8 * np.eye(2)) and same(jacobian(writes)(x), 8 * X)
    report = check(writes, {"x": x}, modes=QUICK)
    assert report.passed and [finding.kind for finding in report.points[0].findings] == ["mutates-input"]
    check(writes_inside, {"p": p}, modes=QUICK)
    grad(writes_inside)(p)
    assert same(x, X) and same(p, {"a": X}) and x.flags.writeable and p["a"].flags.writeable


def softplus(x: Any) -> Any:
    return np.log1p(np.exp(x))


RIGHT = primitive(softplus, lambda y, x: 1 / (1 + np.exp(-x)))
WRONG = primitive(softplus, lambda y, x: 1.01 / (1 + np.exp(-x)), name="wrong_softplus")
TIMES = primitive(lambda a, b: a * b, lambda y, a, b: b, lambda y, a, b: a, name="times")
LINEAR = primitive(lambda a, b: 2 * a + b, 2.0, 1.0, name="linear")


def test_a_rule_of_the_users_is_used() -> None:
    sigmoid = 1 / (1 + np.exp(-X))
    assert RIGHT(0.0) == np.log(2)
    assert same(grad(lambda x: np.sum(RIGHT(x)))(X), sigmoid)
    assert same(jvp(RIGHT, (X,), (np.ones(2),))[1], sigmoid)
    assert same(grad(lambda x: np.sum(WRONG(x)))(X), 1.01 * sigmoid)
    assert same(grad(lambda x: np.sum(TIMES(x, 3 * x)))(X), 6 * X)
    assert same(hessian(lambda x: np.sum(TIMES(x, x)))(X), 2 * np.eye(2))
    assert same(grad(lambda x: np.sum(LINEAR(x, x**2)))(X), 2 + 2 * X)
    assert same(grad(lambda b: np.sum(TIMES(X, b)))(3.0), 3.0)


def test_a_wrong_rule_of_the_users_is_never_a_pass() -> None:
    assert check(lambda x: np.sum(RIGHT(x)), X).passed
    assert not check(lambda x: np.sum(WRONG(x)), X).passed
    assert not check(lambda x: np.sum(WRONG(x)), X, modes=QUICK).passed
    assert not check(lambda x: np.sum(WRONG(x)), X, modes=QUICK, grad=grad(lambda x: np.sum(WRONG(x)))).passed


def test_our_own_gradients_pass_as_claims() -> None:
    def f(x: Any) -> Any:
        return np.sum(np.tanh(x) * x[0])

    assert check(f, X, grad=grad(f), modes=QUICK).passed
    assert check(f, X, hess=hessian(f), modes=QUICK).passed
    assert check(f, X, hvp=lambda x, v: hvp(f, x, v), modes=QUICK).passed
    assert check(f, X, jvp=lambda x, v: jvp(f, (x,), (v,))[1], modes=QUICK).passed


def test_a_function_may_itself_call_gradcli() -> None:
    def penalty(x: Any) -> Any:
        return np.sum(grad(cube)(x) ** 2)

    report = check(penalty, X, grad=lambda x: 36 * x**3, modes=QUICK)
    assert report.passed
    assert not check(penalty, X, grad=lambda x: 35 * x**3, modes=QUICK).passed


def test_derive_is_part_of_the_package() -> None:
    report = package.derive("sum((W@x - y)**2)", {"W": "m n", "x": "n", "y": "m"}, wrt="x", answer="2*W.T@(W@x - y)")
    assert report.results[0].answer.verdict == "right" and "gradient by x" in str(report)


def test_a_function_of_python_is_derived() -> None:
    def f(x: Any, y: Any) -> Any:
        return np.sum(np.exp(x) * y)

    assert package.derive(f, {"x": "n", "y": "n"}, wrt="x").results[0].formula.expression == "y*exp(x)"


LAZY = """
import sys
import gradcli
dir(gradcli), gradcli.__version__
assert "numpy" not in sys.modules and "gradcli.api" not in sys.modules
gradcli.GradcliError, gradcli.NotConfirmed
assert "numpy" not in sys.modules
gradcli.grad
assert "numpy" in sys.modules
assert not {"sympy", "scipy", "torch", "jax", "typer", "rich"} & set(sys.modules), sorted(sys.modules)
"""


def test_the_package_is_lazy() -> None:
    done = subprocess.run([sys.executable, "-c", LAZY], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


TYPED = """
import gradcli
import numpy as np


def f(x: np.ndarray) -> float:
    return float(np.sum(x**2))


report = gradcli.check(f, {"x": np.ones(2)}, grad=lambda x: 2 * x, wrt=["x"], allow=("kink",))
passed: bool = report.passed
status: int = report.exit_status
report.raise_if_failed(allow=("kink",))
gradient = gradcli.grad(f, wrt=(0,))(np.ones(2))
value, slope = gradcli.jvp(f, (np.ones(2),), (np.ones(2),))
value, pull = gradcli.vjp(f, np.ones(2))
rule = gradcli.primitive(np.sin, lambda y, x: np.cos(x))
layer = gradcli.checkpoint(f)
error: type[Exception] = gradcli.NotConfirmed
"""


@pytest.mark.slow
def test_users_code_passes_a_strict_type_checker(tmp_path: Path) -> None:
    (tmp_path / "snippet.py").write_text(TYPED)
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--no-error-summary", "snippet.py"]
    command += [
        "--disable-error-code=type-arg",
        "--config-file=",
        f"--cache-dir={Path(__file__).parents[1] / '.mypy_cache'}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "")


def test_a_gradient_function_gives_the_same_whatever_it_was_called_with_before() -> None:
    gradient = grad(lambda x, y=2.0: np.sum(x**2) * y)
    calls = [
        ((3.0,), {}),
        ((np.array(3.0),), {}),
        ((np.array([1.0, 2.0]),), {}),
        ((3,), {}),
        ((3.0, 4.0), {}),
        ((3.0,), {"y": 5.0}),
    ]
    fresh = [grad(lambda x, y=2.0: np.sum(x**2) * y)(*args, **kwargs) for args, kwargs in calls]
    for _ in range(2):
        for (args, kwargs), right in zip(calls, fresh, strict=True):
            found = gradient(*args, **kwargs)
            assert type(found) is type(right)
            assert np.array_equal(found, right)
    with pytest.raises(TypeError):
        gradient(3.0, x=3.0)


def test_studies_give_the_reports_of_the_command_line(gradcli: Callable[..., Any]) -> None:
    swept = package.sweep("sin(x)", {"x": 1.0}, schemes="central,forward")
    assert str(swept) == gradcli("sweep", "sin(x)", "x=1", "--schemes", "central,forward").stdout
    traced = package.trace("v = x*y; v + x", {"x": 3.0, "y": 4.0})
    assert str(traced) == gradcli("trace", "v = x*y; v + x", "x=3", "y=4").stdout
    compared = package.compare_modes(cube, X, grad=lambda x: 3 * x**2, modes="certified,reverse")
    assert compared.verdict == "pass" and list(compared.modes) == ["claim", "certified", "reverse"]


def test_a_random_seed_is_drawn_and_is_in_the_report(gradcli: Callable[..., Any]) -> None:
    report = check("x**3*y", seed="random", modes=QUICK)
    again = check("x**3*y", seed=report.seed, modes=QUICK)
    assert again.points[0].at == report.points[0].at
    assert gradcli("grad", "x**3*y", "--seed", str(report.seed), "--json").json["at"] == report.points[0].at
    assert str(check(cube, X, seed="random", modes=QUICK)).rstrip().endswith("repeats this.")


@pytest.mark.parametrize("study", ["sweep", "compare_modes", "trace"])
def test_studies_take_a_random_seed(study: str) -> None:
    run = getattr(package, study)
    first = run("x**3*y", seed="random")
    assert first.seed > 1 and run("x**3*y", seed=first.seed).at == first.at
    assert f"--seed {first.seed} repeats this." in " ".join(str(first).split())
    with pytest.raises(BadOption, match="seed= takes a whole number or 'random', not '-1'"):
        run("x**3*y", seed=-1)


def test_a_sweep_takes_a_claim_and_formats() -> None:
    report = package.sweep(cube, X, grad=lambda x: 3 * x, dtype=["float32", "float64"])
    assert report.verdict == "fail" and report.taylor and report.taylor.verdict == "wrong"
    assert {curve.dtype for curve in report.curves} == {"float32", "float64"}


def test_a_walkthrough_takes_wrt_and_functions() -> None:
    assert next(iter(package.trace(scaled, (X, 2.0), wrt="y").nodes)).name == "y"
    for study in (package.trace, package.sweep, package.cost):  # compare_modes prints times
        listed, joined = (str(study("x*y", {"x": 3.0, "y": 2.0}, wrt=names)) for names in (["x", "y"], "x,y"))
        assert listed == joined
    with pytest.raises(GradcliError):
        package.trace(lambda x: x.__float__() ** 2, 2.0)


@for_rows("study", [package.check, package.cost, package.sweep, package.compare_modes, package.trace])
def test_copies_of_a_report_and_what_is_read_from_a_pickle_print_alike(study: Callable[..., Any]) -> None:
    report = study(cube, X)
    assert str(copy.deepcopy(report)) == str(pickle.loads(pickle.dumps(report))) == str(report)
