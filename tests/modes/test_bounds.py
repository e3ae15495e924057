"""Bounds on rounding: they contain what rounding did, follow the conditioning, and excuse no wrong gradient."""

import math
from typing import Any

import numpy as np
import pytest

import gradcli
from gradcli.arithmetic.recorded_program import record
from gradcli.modes.bounds import Shake, gradient_rounding_error, has_kernels, input_rounding, perturb_program
from gradcli.modes.finite_difference import FiniteDifference
from gradcli.modes.mode import Question
from gradcli.request.point import Point
from gradcli.targets.expression import Expression
from tests.rows import for_rows


def logistic_map(x: Any) -> Any:
    for _ in range(30):
        x = 3.9 * x * (1 - x)
    return x


def slope_of_map(x: Any, factor: float = 1.0) -> Any:
    slope = factor
    for _ in range(30):
        slope, x = slope * 3.9 * (1 - 2 * x), 3.9 * x * (1 - x)
    return slope


CASES = [  # expression, point: tame, cancelling, saturated, summed, long
    ("sum(x*sin(x))", {"x": np.linspace(0.1, 2, 7)}),
    ("exp(x) - exp(1.0000001*x)", {"x": np.float64(0.7)}),
    ("sum(tanh(20*x)**2)", {"x": np.linspace(0.1, 2, 9)}),
    ("sum((x - mean(x))**2)*1e6 + sum(x)", {"x": 1e6 + np.arange(20.0)}),
    ("log(sum(exp(W@x)))", {"W": np.arange(12.0).reshape(3, 4) / 7, "x": np.arange(4.0)}),
]


class WithoutBalls(Question):
    affords_balls = False


def question(text: str, at: dict[str, Any], kind: type[Question] = Question) -> Question:
    return kind(Expression(text, frozenset(at)), Point(at), tuple(at))


@for_rows("kind", [Question, WithoutBalls], ids=["balls", "shaken"])
@for_rows(("text", "at"), CASES)
def test_the_bound_contains_what_rounding_did(text: str, at: dict[str, Any], kind: type[Question]) -> None:
    found = gradient_rounding_error(question(text, at, kind), kernels=True)
    bound, by_balls = found.errors, found.proved
    assert by_balls == (kind is Question and "exp(1.0000001*x)" not in text)  # there even balls are wide
    points = gradcli.check(text, at, modes="certified,reverse").points[0].modes
    for name in at:
        apart = np.abs(points["reverse"].values[name] - points["certified"].values[name])
        assert np.all(apart <= bound[name])


def test_shaken_bounds_are_not_far_from_those_of_balls() -> None:
    for text, at in CASES:
        balls, shaken_ = (
            gradient_rounding_error(question(text, at, kind), kernels=True).errors for kind in (Question, WithoutBalls)
        )
        for name in at:
            large = balls[name] > 1e-3 * np.max(balls[name])
            assert (
                np.median(np.asarray(shaken_[name] / balls[name])[large]) < 250
            )  # 16 of safety, times runs that move by up to 16


def test_where_balls_know_nothing_a_right_claim_passes_and_a_wrong_one_fails() -> None:
    assert gradcli.check(logistic_map, {"x": 0.3}, grad=slope_of_map)
    wrong = gradcli.check(logistic_map, {"x": 0.3}, grad=lambda x: slope_of_map(x, 1.01))
    assert wrong.verdict == "fail"


def test_a_shaken_run_moves_every_operation_by_a_rounding() -> None:
    program = record(lambda x: np.sum(np.sin(x) * x), [np.linspace(0.1, 2, 40_000)])
    _, inputs, tape = program
    again = perturb_program(program, Shake(0))
    assert len(again.lines) == len(tape.lines)
    assert again.lines[0] is not None
    for before, after in zip(tape.lines[len(inputs) :], again.lines[len(inputs) :], strict=True):
        relative = np.abs(after[3] / before[3] - 1)
        assert 0 < np.max(relative) < 1e-14


@for_rows("n", [3, 4, 5, 6], parts=4)
@for_rows("nodes", [(0.1, 1.0), (-1.0, 1.0), (1.0, 9.0)], ids=str)
def test_where_a_matrix_is_factored_the_bound_is_that_of_lapack(n: int, nodes: tuple[float, float]) -> None:
    x = np.linspace(*nodes, n)
    whole = gradcli.check("det(V)", {"V": np.vander(x)}, grad="det(V)*inv(V).T", modes="certified,forward,reverse,fd")
    entries = gradcli.check(lambda x: np.linalg.det(np.vander(x)), {"x": x}, modes="certified,forward,reverse,fd")
    assert (whole.verdict, entries.verdict) == ("pass", "pass")
    assert gradcli.check("det(V)", {"V": np.vander(x)}, grad="1.0001*det(V)*inv(V).T").verdict == "fail"


def test_an_entry_that_cancels_widens_no_other() -> None:
    q = question("det(V)", {"V": np.vander(np.linspace(-1.0, 1.0, 5))}, WithoutBalls)
    found = gradient_rounding_error(q, kernels=True)
    bound, by_balls = found.errors, found.proved
    assert not by_balls and np.max(bound["V"]) < 1e-12 * np.max(np.abs(q.slopes["V"]))


@for_rows(
    ("text", "kernels"),
    [
        ("x*y + exp(x)", False), ("sin(x)/y - x**3", False), ("log1p(x)*sqrt(y)", False), ("hypot(x, y)", False),
        ("tanh(x)*y", True), ("expm1(x) + y", True), ("x**y", True),
    ],
)  # fmt: skip
def test_without_kernels_one_bound_is_that_of_the_textbook_too(text: str, kernels: bool) -> None:
    q = Question(Expression(text), Point({"x": np.float64(0.7), "y": np.float64(1.3)}), ("x", "y"))
    assert has_kernels(q.lines) is kernels
    own, textbook = gradient_rounding_error(q, kernels=True).errors, gradient_rounding_error(q, kernels=False).errors
    assert kernels or own == textbook


def bending(x: Any) -> Any:
    return 0.5 * np.sum((x[1:] - x[:-1]) ** 2)


def slope_of_bending(x: Any) -> Any:
    """Return the gradient as plain numbers: twice each entry minus its neighbours, one after the other."""
    found = []
    for i, entry in enumerate(map(float, x)):
        neighbours = [float(x[k]) for k in (i - 1, i + 1) if 0 <= k < len(x)]
        total = len(neighbours) * entry
        for neighbour in neighbours:
            total -= neighbour
        found.append(total)
    return np.array(found)


@pytest.mark.parametrize("size", [1e-1, 1e3, 1e12])
@pytest.mark.parametrize("seed", range(3))
def test_a_right_claim_is_granted_the_rounding_of_its_inputs(size: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = size * (rng.normal() + rng.normal() * np.arange(5) + 1e-7 * rng.normal(size=5))
    report = gradcli.check(bending, {"x": x}, grad=slope_of_bending)
    assert report.verdict == "pass"
    for k in (0, 2):
        wrong = np.where(np.arange(5) == k, 1.01, 1.0)
        assert gradcli.check(bending, {"x": x}, grad=lambda x, w=wrong: w * slope_of_bending(x)).verdict == "fail"


@pytest.mark.parametrize(
    ("z", "verdicts"), [(1e-3, "pass fail"), (1e-9, "pass fail"), (1e-15, "inconclusive fail"), (1.0, "pass fail")]
)
@pytest.mark.parametrize(
    ("f", "kind"), [(lambda x, z: np.sum(x) * (np.exp(z) - 1), "grad"), (lambda x, z: x * (np.exp(z) - 1), "jac")]
)
def test_a_right_claim_is_granted_the_rounding_of_what_is_not_differentiated(
    z: float, verdicts: str, f: Any, kind: str
) -> None:
    at, found = {"x": np.array([2.0, -1.0]), "z": np.float64(z)}, []
    for factor in (1.0, 1.001 if z > 1e-10 else 3.0):
        claim = {kind: lambda x, z, w=factor: w * np.expm1(z) * (np.ones(2) if kind == "grad" else np.eye(2))}
        found.append(gradcli.check(f, at, wrt="x", diagnose=False, **claim).verdict)
    assert " ".join(found) == verdicts


TINY, TINIES = 1e-9, {"of z": [1e-9, 2e-9]}


def with_module_constant(x: Any) -> Any:
    return np.sum(x) * (np.exp(TINY) - 1)


def with_default(x: Any, tiny: float = 1e-9) -> Any:
    return np.sum(x) * ((1 + tiny) - 1)


def with_literal(x: Any) -> Any:
    return np.sum(x) * (math.exp(1e-9) - 1)


def with_container(x: Any) -> Any:
    return np.sum(x * (np.exp(np.array(TINIES["of z"])) - 1)[0])


def with_closure(tiny: float) -> Any:
    return lambda x: with_default(x, tiny)


@pytest.mark.parametrize("f", [with_module_constant, with_default, with_literal, with_container, with_closure(1e-9)])
def test_a_right_claim_is_granted_the_rounding_of_what_is_computed_of_constants(f: Any) -> None:
    at = {"x": np.array([2.0, -1.0])}
    claims = lambda x: np.full(2, np.expm1(TINY)), lambda x: np.full(2, np.exp(TINY) - 1)
    reports = [gradcli.check(f, at, grad=claim, diagnose=False) for claim in claims]
    assert [report.verdict for report in reports] == ["pass", "pass"]
    notes = [found.message for report in reports for found in report.points[0].findings]
    assert sum("float64 loses digits there" in note for note in notes) == 1
    wrong = gradcli.check(f, at, grad=lambda x: np.full(2, 1.0001 * TINY), diagnose=False)
    assert wrong.verdict == "fail"


@pytest.mark.parametrize("f", [lambda x: np.sum(x**2) * TINY, lambda x: np.sum(x**2.0) * 1e-9])
def test_nothing_is_granted_where_constants_lose_no_digits(f: Any) -> None:
    report = gradcli.check(f, {"x": np.array([2.0, -1.0])}, grad=lambda x: 2 * x * TINY * (1 + 1e-8), diagnose=False)
    assert report.verdict == "fail"


def test_the_bounds_of_all_modes_hold_what_is_lost_in_arrays_that_are_not_differentiated() -> None:
    """In balls the arrays are exact; the check was inconclusive, as the trace seemed to differ from the function."""
    at = {"x": np.float64(1.5), "Z": 1e4 + np.arange(20) / 19}

    def f(x: Any, Z: Any) -> Any:
        return x**2 * (np.mean(Z**2) - np.mean(Z) ** 2)

    assert gradcli.check(f, at, wrt="x").verdict == "pass"
    for verdict, claim in (
        ("pass", lambda x, Z: 2 * x * np.var(Z)),
        ("pass", lambda x, Z: 2 * x * (np.mean(Z**2) - np.mean(Z) ** 2)),
        ("fail", lambda x, Z: 2.02 * x * np.var(Z)),
    ):
        assert gradcli.check(f, at, wrt="x", grad=claim, diagnose=False).verdict == verdict


@pytest.mark.parametrize(
    "of_z", [lambda z: np.arccos(z) + 1, lambda z: np.sqrt(1 - z) + 1, lambda z: np.array([1.0, 2.0])[int(z)]]
)
def test_nothing_is_granted_where_what_is_not_differentiated_has_no_rounding_error(of_z: Any) -> None:
    at = {"x": np.float64(2.0), "z": np.float64(1.0)}
    report = gradcli.check(
        lambda x, z: x**2 * of_z(z), at, wrt="x", diagnose=False, grad=lambda x, z: 2 * x * of_z(z) * (1 + 1e-6)
    )
    assert report.verdict == "fail"


@pytest.mark.parametrize("f", [np.std, np.var])
def test_the_limit_of_a_right_claim_covers_what_the_rounding_of_inputs_excuses(f: Any) -> None:
    def claim(x: Any, factor: Any = 1.0) -> Any:
        return factor * (x - np.mean(x)) / (x.size * np.std(x) if f is np.std else x.size / 2)

    x = 1e6 + np.array([1.0, 2.0, 4.0, 9.0])
    limit, at = (getattr(gradcli.check(f, {"a": x}, grad=claim).detects, name) for name in ("relative", "at"))
    assert 1e-11 < limit < 1e-8
    assert gradcli.check(f, {"a": x}, grad=lambda a: claim(a, 1 + 1.1 * limit)).verdict == "fail"
    entry = np.arange(4) == int(at[2])
    passed = gradcli.check(f, {"a": x}, grad=lambda a: claim(a, 1 + 0.3 * limit * entry))
    assert passed.verdict == "pass" and passed.detects.relative == pytest.approx(limit, rel=1e-3)


@pytest.mark.slow
def test_hard_points_call_no_right_claim_wrong_whose_rounding_is_large() -> None:
    x = 1e6 * (1 + 0.3 * np.arange(5.0))
    report = gradcli.check(bending, {"x": x}, grad=slope_of_bending, stress=True)
    assert report.verdict == "pass"
    assert gradcli.check(bending, {"x": x}, grad=lambda x: -slope_of_bending(x), stress=True).verdict == "fail"


def test_a_jump_of_the_slope_is_no_rounding_of_the_inputs() -> None:
    q = question("sum(where(x > 1, 3*x, 2*x)) + x[0]**2*1e3", {"x": np.array([1e3, np.nextafter(1.0, 2.0)])})
    found = input_rounding(q)
    assert found is not None and found["x"][1] == 0.0 and 1e-10 < found["x"][0] < 1e-8


def test_where_a_matrix_is_singular_up_to_rounding_nothing_is_called_a_bound() -> None:
    u, v = (np.linalg.qr(np.random.default_rng(seed).normal(size=(3, 3)))[0] for seed in (0, 1))
    for smallest, known in ((1e-3, True), (3e-8, False)):
        A = u @ np.diag([1.0, 0.5, smallest]) @ v
        q = question("logdet(A@A.T) + sum(x**2)", {"A": A, "x": np.array([1.0, 2.0])})
        assert np.all(np.isfinite(q.rounding["A"])) == known and np.all(np.isfinite(q.rounding["x"]))


def test_differences_of_the_nuclear_norm_are_bounded_beside_its_kink() -> None:
    """The rounding that a singular matrix may have hides the kink of the least singular value from small steps."""
    u, v = (np.linalg.qr(np.random.default_rng(k).normal(size=(3, 3)))[0] for k in range(2))
    q = Question(Expression("sum(svdvals(A))"), Point({"A": u @ np.diag([1.5, 0.4, 1e-12]) @ v.T}), ("A",))
    found = FiniteDifference().gradient(q)
    assert np.all(np.abs(found.value["A"] - u @ v.T) <= found.bound["A"])
