"""Inputs on sets: right claims pass along the set, whatever part across it they have, and wrong ones fail."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradcli as package
from gradcli.arithmetic.dual import jvp
from gradcli.arithmetic.recorded_program import vjp
from gradcli.errors import BadOption, BadPoint
from gradcli.request.options import Options
from gradcli.targets.derived import tangent_to_surfaces
from gradcli.targets.facts import FACTS, draw_with_facts, first_broken_fact, surface_of
from tests.derivation.test_problem import HOLDS
from tests.rows import for_rows

RNG = np.random.default_rng(7)
B, C = RNG.standard_normal((2, 3, 3))
b = RNG.standard_normal(3)
P = B @ B.T + np.eye(3)
ON_SURFACES = [word for word, fact in FACTS.items() if fact.surface is not None]


def point(word: str) -> Any:
    shape = {4: 3, 5: 3}
    return draw_with_facts(frozenset({word}), tuple(shape.get(n, n) for n in HOLDS[word][0]), np.random.default_rng(1))


def off(word: str, x: Any) -> Any:
    """A gradient by x that has no effect along the set."""
    v = np.random.default_rng(2).standard_normal(np.shape(x))
    surface = FACTS[word].surface
    assert surface is not None
    return v - surface.pull(x, v)


@pytest.mark.parametrize("word", ON_SURFACES)
class TestSurface:
    def test_it_brings_values_to_the_set_and_leaves_those_on_it(self, word: str) -> None:
        surface, x = FACTS[word].surface, point(word)
        assert surface is not None
        assert np.allclose(surface.bring(x), x, rtol=0, atol=1e-15)
        moved = surface.bring(x + 0.05 * np.random.default_rng(0).standard_normal(np.shape(x)))
        assert first_broken_fact(frozenset({word}), moved) is None and not np.allclose(moved, x)

    def test_what_it_pulls_is_the_adjoint_of_bringing(self, word: str) -> None:
        surface, x = FACTS[word].surface, point(word)
        assert surface is not None
        g, v = np.random.default_rng(4).standard_normal((2, *np.shape(x)))
        _, pull = vjp(surface.bring, [x])
        assert np.allclose(surface.pull(x, g), pull(g)[0], atol=1e-13)
        assert np.allclose(np.sum(surface.pull(x, g) * v), np.sum(g * jvp(surface.bring, [x], [v])[1]))

    def test_a_tangent_stays_on_the_set_to_first_order(self, word: str) -> None:
        surface, x = FACTS[word].surface, point(word)
        assert surface is not None
        v = tangent_to_surfaces({"x": surface}, {"x": x}, {"x": np.random.default_rng(5).standard_normal(np.shape(x))})[
            "x"
        ]
        assert np.max(np.abs(surface.bring(x + 1e-6 * v) - (x + 1e-6 * v))) < 1e-10

    @pytest.mark.parametrize("traced", [True, False])
    def test_a_claim_is_compared_along_the_set(self, word: str, traced: bool) -> None:
        x = point(word)
        w = np.random.default_rng(6).uniform(0.5, 2.0, np.shape(x))

        def f(x: Any) -> Any:
            return (
                np.sum(np.exp(w * x))
                if traced
                else np.float64(np.sum(np.exp(w * np.array([*map(float, np.ravel(x))]).reshape(np.shape(x)))))
            )

        grad = lambda x: w * np.exp(w * x) + 3 * off(word, x)
        right = package.check(f, {"x": x}, grad=grad, assume=f"x: {word}")
        assert right.passed and f" on {FACTS[word].surface.name}" in right.gist(), str(right)  # type: ignore[union-attr]
        assert "is not compared: " in " ".join(str(right).split())
        wrong = package.check(f, {"x": x}, grad=lambda x: 1.01 * grad(x), assume=f"x: {word}")
        assert wrong.exit_status == 1, str(wrong)

    def test_without_the_assumption_the_same_claim_is_wrong(self, word: str) -> None:
        x = point(word)
        grad = lambda x: B.ravel()[0] * np.cos(x) + 3 * off(word, x)
        assert package.check(lambda x: B.ravel()[0] * np.sum(np.sin(x)), {"x": x}, grad=grad).exit_status == 1


def test_two_sets_at_once_are_refused_and_open_facts_have_no_surface() -> None:
    with pytest.raises(BadOption, match="two sets at once"):
        surface_of(frozenset({"symmetric", "orthogonal"}))
    assert surface_of(frozenset({"positive"})) is None
    assert surface_of(frozenset({"spd", "tied"})).name == "symmetric positive definite matrices"  # type: ignore[union-attr]


S = B + B.T
QUADRATIC = ({"A": S, "x": np.array([0.6, 0.0, 0.8])}, lambda A, x: x @ A @ x)


def test_each_input_has_its_own_set() -> None:
    at, f = QUADRATIC
    claim = lambda A, x: (2 * np.tril(np.outer(x, x)) - np.diag(x * x), 2 * A @ x + 5 * x)
    report = package.check(f, at, grad=claim, assume="A: symmetric; x: unit")
    assert report.passed and "on symmetric matrices (A) and unit vectors (x)" in report.gist()
    assert report.on == {"A": "symmetric matrices", "x": "unit vectors"}


OTHERS = {
    "jac":         (lambda A: A @ b, {"jac": lambda A: np.einsum("ij,k->ijk", np.eye(3), b)}),
    "flat jac":    (lambda A: A @ b, {"jac": lambda A: np.einsum("ij,k->ijk", np.eye(3), b).reshape(3, 9)}),
    "jvp":         (lambda A: np.sin(A @ b), {"jvp": lambda A, v: np.cos(A @ b) * (v @ b)}),
    "vjp":         (lambda A: np.sin(A @ b), {"vjp": lambda A, w: np.outer(w * np.cos(A @ b), b)}),
    "expression":  ("sum(sin(A@B))", {"grad": "A=cos(A@B)@B.T"}),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("word", ["symmetric", "orthogonal"])
@pytest.mark.parametrize("kind", OTHERS)
def test_other_claims_along_a_set(kind: str, word: str) -> None:
    f, claim = OTHERS[kind]
    at = {"A": np.linalg.qr(S)[0] if word == "orthogonal" else S} | ({"B": B} if kind == "expression" else {})
    more = {"wrt": "A"} if kind == "expression" else {}
    assert package.check(f, at, assume=f"A: {word}", **claim, **more).passed
    (name, right), *_ = claim.items()
    if callable(right):
        assert package.check(f, at, assume=f"A: {word}", **{name: lambda *xs: 0.9 * right(*xs)}).exit_status == 1


def test_a_claim_of_the_wrong_shape_is_wrong_as_ever() -> None:
    report = package.check(lambda A: np.sum(A**2), S, grad=lambda A: np.ones(4), assume="A: symmetric")
    assert report.exit_status == 1 and "has shape (4,)" in report.gist()


@for_rows(("word", "x"), [
    ("symmetric", S + 1e-6 * B), ("spd", S - 9 * np.eye(3)), ("simplex", np.array([0.5, 0.6])), ("simplex", np.array([1.5, -0.5])),
    ("unit", np.array([1.0, 1e-3])), ("orthogonal", 2 * np.eye(2)), ("orthogonal", 50.0 * B), ("lower", B), ("mask", np.array([0.0, 0.5])),
])  # fmt: skip
def test_a_point_off_the_set_is_refused(word: str, x: Any) -> None:
    with pytest.raises(BadPoint, match="does not hold at the point"):
        package.check(lambda x, y: np.sum(x * x) * y, {"x": x, "y": 2.0}, assume=f"x: {word}")


def test_a_point_that_is_off_by_its_decimals_is_brought_back() -> None:
    x = np.array([0.333333333, 0.333333333, 0.333333333])
    report = package.check(lambda x: np.sum(x**3), x, grad=lambda x: 3 * x**2, assume="x: simplex")
    assert report.passed and abs(np.sum(report.points[0].at["x"]) - 1) < 1e-15  # type: ignore[arg-type]


def test_an_input_of_single_values_is_not_differentiated() -> None:
    f, at = lambda M, x: np.sum(M * x**2), {"M": np.array([0.0, 1.0, 1.0]), "x": b}
    report = package.check(f, at, grad=lambda M, x: {"x": 2 * M * x}, assume="M: mask")
    assert report.passed and report.points[0].constant == ("M",)
    with pytest.raises(BadOption, match="no derivative"):
        package.check(f, at, wrt="M", assume="M: mask")


@pytest.mark.parametrize(("options", "says"), [
    ({"hess": lambda x: np.eye(3)}, "hess="), ({"order": 2}, "order=2"), ({"reference": lambda x: np.sum(x)}, "reference="),
])  # fmt: skip
def test_what_is_not_compared_on_a_set_is_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(BadOption, match=says):
        package.check(lambda x: np.sum(x), np.array([0.2, 0.3, 0.5]), assume="x: simplex", **options)


# Without the assumption


def cholesky(A: Any) -> Any:
    return 2 * np.sum(np.log(np.diag(np.linalg.cholesky(A))))


def only_symmetric(A: Any) -> Any:
    if not np.allclose(A, A.T):
        raise ValueError("A is not symmetric")
    return np.sum(A * B)


def only_symmetric_values(A: Any) -> Any:
    rows = [[float(x) for x in row] for row in A]
    if not np.array_equal(A, A.T):
        raise ValueError("A is not symmetric")
    return float(np.sum(rows * B))


def only_distributions(p: Any) -> Any:
    if abs(np.sum(p) - 1) > 1e-9:
        raise ValueError("no distribution")
    return np.sum(p * b)


p = np.array([0.2, 0.3, 0.5])
LEFT_OPEN: dict[str, tuple[Callable[..., Any], Any, Callable[..., Any], str, str]] = {
    "one triangle":           (cholesky, P, np.linalg.inv, "f reads one triangle of A", 'A: symmetric'),
    "raises off symmetric":   (only_symmetric, S, lambda A: (B + B.T) / 2, "f raises off symmetric matrices", "A: symmetric"),
    "raises, untraced":       (only_symmetric_values, S, lambda A: (B + B.T) / 2, "f raises off symmetric matrices", "A: symmetric"),
    "raises off the simplex": (only_distributions, p, lambda p: b - np.mean(b), "f raises off the simplex", "p: simplex"),
}  # fmt: skip


@pytest.mark.parametrize("what", LEFT_OPEN)
def test_a_claim_that_is_right_on_the_set_of_f_is_left_open_with_the_option(what: str) -> None:
    f, at, grad, says, fact = LEFT_OPEN[what]
    report = package.check(f, at, grad=grad)
    assert report.exit_status == 3 and says in report.gist(), str(report)
    assert f"assume='{fact}'" in " ".join(str(report).split())
    assert package.check(f, at, grad=grad, assume=fact).passed
    assert package.check(f, at, grad=lambda x: 1.1 * grad(x)).exit_status in ((1, 3) if "untraced" in what else (1,))
    assert package.check(f, at, grad=lambda x: 1.1 * grad(x), assume=fact).exit_status == 1


def test_a_finding_on_the_set_is_excused_by_name(gradcli: Callable[..., Any]) -> None:
    argv = ("check", "sum(log(diag(cholesky(A))))", "A=[[2,1],[1,3]]", "--grad", "inv(A)/2")
    assert gradcli(*argv).exit_status == 3
    assert gradcli(*argv, "--allow", "structure").exit_status == 0


FAILS = {
    "all of A is read":             (lambda A: np.sum(A * B), np.eye(3), lambda A: B.T),
    "the point is not symmetric":   (lambda A: np.sum(np.tril(A) * B), C, lambda A: np.tril(B).T),
    "wrong on symmetric ones, too": (cholesky, P, lambda A: 2 * np.linalg.inv(A)),
    "softmax's convention":         (lambda p: np.sum(p * b), p, lambda p: b - np.mean(b)),
}  # fmt: skip


@for_rows("what", FAILS)
def test_elsewhere_such_a_claim_is_wrong(what: str) -> None:
    f, at, grad = FAILS[what]
    report = package.check(f, at, grad=grad)
    assert report.exit_status == 1, str(report)
    if what == "all of A is read":
        assert report.points[0].diagnosis.kind == "transposed"  # type: ignore[union-attr]


# Hard points and suites

ENTROPY = ("sum(p*log(p))", "p=[0.2, 0.3, 0.5]", "--assume", "p: simplex")


def test_on_the_command_line(gradcli: Callable[..., Any]) -> None:
    done = gradcli("check", *ENTROPY, "--grad", "log(p)")
    assert done.exit_status == 0 and "--assume 'p: simplex'" in done.stdout, done.stdout
    assert gradcli("check", *ENTROPY, "--grad", "log(p)", "--json").json["on"] == {"p": "the simplex"}
    assert gradcli("check", "sum(p*log(p))", "p=[0.2, 0.4, 0.5]", "--assume", "p: simplex").exit_status == 2


def test_with_stress_the_points_alone_are_on_the_set_unless_structure_is_given(gradcli: Callable[..., Any]) -> None:
    stress = ("--stress-points", "20")
    assert gradcli("check", *ENTROPY, "--grad", "log(p) + 1", *stress).exit_status == 0
    assert gradcli("check", *ENTROPY, "--grad", "log(p)", *stress).exit_status == 1
    done = gradcli("check", *ENTROPY, "--grad", "log(p)", *stress, "--structure")
    assert done.exit_status == 0 and "on the simplex" in done.stdout, done.stdout
    assert not Options(assume=("p: simplex",), stress=True).assumptions_of_check


@pytest.mark.parametrize(("keys", "status"), [("structure = true", 0), ("stress_points = 9", 1), ("", 2)])
def test_in_a_suite_structure_is_asked_for(
    keys: str, status: int, gradcli: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gradcli.toml").write_text(
        f'[[check]]\ntarget = "sum(p*log(p))"\nat = "p=[0.2, 0.3, 0.5]"\ngrad = "log(p)"\nassume = "p: simplex"\n'
        f"{keys.replace('_', '-')}\n"
    )
    done = gradcli("check")
    assert done.exit_status == status, done.stdout
    if status == 2:
        assert "add structure = true" in done.stderr


def test_drawn_points_lie_on_the_set(gradcli: Callable[..., Any]) -> None:
    argv = ("check", "log(det(S)) + x@S@x", "--shapes", "S: 3 3; x: 3", "--assume", "S: spd")
    done = gradcli(*argv, "--grad", "S=inv(S)+outer(x,x), x=2*S@x", "--json")
    assert done.exit_status == 0 and len(done.json["points"]) == 3, done.stdout
    assert all(np.linalg.eigvalsh(each["at"]["S"]).min() > 0 for each in done.json["points"])
