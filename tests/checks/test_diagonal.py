"""Claims of a diagonal: elementwise derivatives, and the diagonals of Hessians of sums of entries."""

import math

import numpy as np
import pytest

from gradcli import api
from gradcli.checks.diagonal import _is_diagonal_by_trace, _test_diagonal_by_values
from gradcli.targets.derived import SumOfEntries
from gradcli.targets.nesting import Leaf
from gradcli.targets.python import PythonFunction
from tests.rows import for_rows

X = np.array([-1.3, 0.4, 2.1, 0.9])


def f(function):
    return PythonFunction(function, "f", {"x": Leaf("x")}, ())


def sigmoid(x):
    """Return the sigmoid of each entry, without overflow."""
    y = np.empty_like(x)
    y[x >= 0] = 1 / (1 + np.exp(-x[x >= 0]))
    y[x < 0] = np.exp(x[x < 0]) / (1 + np.exp(x[x < 0]))
    return y


def opaque(x):
    return np.array([math.sin(float(v)) for v in x])


def shifted(x):
    return np.exp(x - np.max(x)) * np.exp(np.max(x))


def softmax(x):
    e = np.exp(x)
    return e / np.sum(e)


def neighbours(x):
    y = np.sin(x)
    y[1:] += 1e-6 * x[:-1]
    return y


def first(x):
    return np.array([math.sin(float(v)) + 1e-6 * float(x[0]) for v in x])


RIGHT = {
    "an expression": (lambda x: np.tanh(x), lambda x: 1 - np.tanh(x) ** 2),
    "written in parts": (sigmoid, lambda x: sigmoid(x) * (1 - sigmoid(x))),
    "entry by entry": (lambda x: np.array([v * np.sin(v) for v in x]), lambda x: np.sin(x) + x * np.cos(x)),
    "without a trace": (opaque, np.cos),
    "with a maximum that cancels": (shifted, np.exp),
    "a matrix": (lambda x: np.sqrt(1 + x.reshape(2, 2) ** 2).reshape(4), lambda x: x / np.sqrt(1 + x**2)),
    "a table of functions, for each entry": (
        lambda x: np.sum(np.stack([x, x**2, x**3], axis=1) * np.array([1.0, 2.0, 3.0]), axis=1),
        lambda x: 1 + 4 * x + 9 * x**2,
    ),
    "constant": (lambda x: np.ones(4), lambda x: np.zeros(4)),
}  # fmt: skip


@for_rows("name", RIGHT)
def test_the_derivative_of_each_entry_is_right(name):
    function, slope = RIGHT[name]
    report = api.check(function, grad=slope, at={"x": X})
    assert report.verdict == "pass"
    assert report.derivative == "elementwise derivative"
    assert "the claimed elementwise derivative is right" in report.sentence()
    assert any(f.kind == "diagonal" and "elementwise" in f.message for f in report.points[0].findings)
    assert report.points[0].gradient["x"].shape == (4,)


@for_rows("name", [n for n in RIGHT if n != "constant"], parts=2)
@for_rows(("mistake", "kind"), [(lambda g: -g, "sign"), (lambda g: 2 * g, "factor")])
def test_a_mistake_has_its_name(name, mistake, kind):
    function, slope = RIGHT[name]
    report = api.check(function, grad=lambda x: mistake(slope(x)), at={"x": X})
    assert report.verdict == "fail"
    assert report.points[0].diagnosis.kind == kind
    assert report.points[0].entries.compared == report.points[0].entries.wrong == 4


@pytest.mark.parametrize("function", [softmax, neighbours, first])
def test_a_jacobian_with_other_entries_needs_all_of_them(function):
    diagonal = np.diag(api.jacobian(function)(X)) if function is not first else np.cos(X) + 1e-6 * (np.arange(4) == 0)
    report = api.check(function, grad=lambda x: diagonal, at={"x": X})
    assert report.verdict == "fail"
    assert report.points[0].diagnosis.kind == "diagonal-only"
    assert "equals the diagonal; the Jacobian has other entries, such as df[" in report.sentence()
    report = api.check(function, grad=lambda x: 2 * diagonal, at={"x": X})
    assert "is not even right there" in report.sentence()
    assert report.verdict == "fail"


def test_the_gradient_of_the_sum_is_called_so():
    report = api.check(neighbours, grad=lambda x: np.cos(x) + 1e-6 * (np.arange(4) < 3), at={"x": X})
    assert "is the gradient of the sum of all entries, not the Jacobian" in report.sentence()


def test_both_inputs_may_be_elementwise():
    report = api.check(
        lambda x, y: x * np.sin(y), grad=lambda x, y: (np.sin(y), x * np.cos(y)), at={"x": X, "y": X[::-1]}
    )
    assert report.verdict == "pass"
    report = api.check(
        lambda x, y: x * np.sin(y), grad=lambda x, y: (np.sin(y), x * np.sin(y)), at={"x": X, "y": X[::-1]}
    )
    assert {m.input for m in report.points[0].mismatches} == {"y"}


def test_a_parameter_has_its_whole_jacobian_beside_a_diagonal():
    def leaky(x, a):
        return np.where(x > 0, x, a * x)

    def slopes(x, a):
        return np.where(x > 0, 1.0, a), np.where(x > 0, 0.0, x)

    at = {"x": X, "a": 0.1}
    report = api.check(leaky, grad=slopes, at=at)
    assert (report.verdict, report.derivative) == ("pass", "Jacobian")
    report = api.check(leaky, grad=lambda x, a: (np.where(x > 0, 1.0, 2 * a), slopes(x, a)[1]), at=at)
    assert report.points[0].entries.wrong == 1
    report = api.check("where(x > 0, x, a*x)", grad="x = where(x > 0, 1, a), a = where(x > 0, 0, x)", at=at)
    assert report.verdict == "pass"


def test_at_the_kinks_of_an_activation_a_subgradient_passes():
    x = np.array([-1.0, 0.0, 2.0, 0.0])
    report = api.check(lambda x: np.maximum(x, 0), grad=lambda x: 1.0 * (x > 0), at={"x": x})
    assert report.verdict == "pass"
    report = api.check(lambda x: np.maximum(x, 0), grad=lambda x: 1.0 * (x < 0), at={"x": x})
    assert report.verdict == "fail"


HESSIANS = {
    "a sum of entries": (lambda x: np.sum(np.cosh(x)), np.cosh),
    "an average of losses": (lambda x: np.mean(np.logaddexp(0, x)), lambda x: sigmoid(x) * (1 - sigmoid(x)) / 4),
    "without a trace": (lambda x: sum(math.cosh(float(v)) for v in x), np.cosh),
}  # fmt: skip


@pytest.mark.parametrize("name", HESSIANS)
def test_the_diagonal_of_a_hessian(name):
    function, second = HESSIANS[name]
    report = api.check(function, hess=second, at={"x": X})
    assert report.verdict == "pass"
    assert "the claimed diagonal of the Hessian is right" in report.sentence()
    report = api.check(function, hess=lambda x: -second(x), at={"x": X})
    assert report.verdict == "fail"
    assert report.points[0].diagnosis.kind == "sign"


def test_the_square_of_the_slope_is_no_second_derivative():
    report = api.check(lambda x: np.sum(np.cosh(x)), hess=lambda x: np.sinh(x) ** 2, at={"x": X})
    assert report.points[0].diagnosis.kind == "squared"


@pytest.mark.parametrize(
    "function",
    [lambda x: np.sum(x**2) + x[0] * x[1], lambda x: sum(float(v) ** 2 for v in x) + float(x[0]) * float(x[1])],
)
def test_a_hessian_with_other_entries_needs_all_of_them(function):
    report = api.check(function, hess=lambda x: 2 + 0 * x, at={"x": X})
    assert report.verdict == "fail"
    assert report.points[0].diagnosis.kind == "diagonal-only"
    assert "the Hessian has other entries, such as d2f/dx[0]dx[1] = " in report.sentence()


def test_the_diagonal_of_a_hessian_of_several_inputs():
    def loss(x, y):
        return np.sum(np.sin(x)) + np.sum(y**3)

    at = {"x": X[:2], "y": X[2:]}
    for claim in (
        lambda x, y: (-np.sin(x), 6 * y),
        lambda x, y: {"y": 6 * y, "x": -np.sin(x)},
        lambda x, y: np.concatenate([-np.sin(x), 6 * y, 0 * y])[:4],
    ):
        assert api.check(loss, hess=claim, at=at, wrt="x,y").verdict == "pass"
    report = api.check(lambda x, y: loss(x, y) + x[0] * y[0], hess=lambda x, y: (-np.sin(x), 6 * y), at=at, wrt="x,y")
    assert report.points[0].diagnosis.kind == "diagonal-only"


@pytest.mark.slow
@pytest.mark.repairs
def test_a_repair_of_an_elementwise_claim(gradcli, tmp_path, monkeypatch):
    (tmp_path / "act.py").write_text(
        "import numpy as np\n\n\ndef f(x):\n    return x * np.tanh(x)\n\n\n"
        "def g(x):\n    t = np.tanh(x)\n    return t + x * (1 + t**2)\n"
    )
    monkeypatch.chdir(tmp_path)
    ran = gradcli("check", "act.py:f", "--grad", "g", "x=[0.3, -1.2, 2]", "--patch", "fix.diff")
    assert ran.exit_status == 1
    assert "+    return t + x * (1 - t**2)" in (tmp_path / "fix.diff").read_text()


@for_rows(
    ("function", "trace", "values"),
    [
        (np.sin, True, True), (sigmoid, True, True), (softmax, False, False), (neighbours, False, False),
        (shifted, False, True), (opaque, False, True), (first, False, False), (lambda x: x[::-1] * 1.0, False, False),
        (lambda x: x * np.mean(x), False, False), (lambda x: np.linalg.inv(np.diag(x)) @ np.ones(4), False, False),
        (lambda x: np.cumsum(x), False, False), (lambda x: np.sort(x) ** 2, False, False),
    ],
)  # fmt: skip
def test_how_a_diagonal_is_known(function, trace, values):
    labels = {"x": np.arange(4)}
    assert _is_diagonal_by_trace(f(function), {"x": X}, labels) is trace
    if function.__name__ != "<lambda>" or values:
        assert (_test_diagonal_by_values(f(function), {"x": X}, labels) is not None) is values


def test_the_sum_of_entries_has_the_diagonal_as_its_gradient():
    assert np.allclose(api.grad(lambda x: SumOfEntries(f(np.sin))({"x": x}))(X), np.cos(X))
