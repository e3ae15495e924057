"""By a matrix, the second derivative is a product with a direction: right by hand, right at random, named, told and refused."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradcli.checks.run_modes import run_mode
from gradcli.derivation import derive
from gradcli.derivation.index import scale_tensor
from gradcli.derivation.simplify import simplified
from gradcli.modes.mode import Question
from gradcli.modes.registry import MODES
from gradcli.request.point import Point
from gradcli.targets.derived import Gradient
from gradcli.targets.expression import Expression
from tests.derivation import problems, test_random
from tests.derivation.test_textbook import BY_HAND, SIZES, point
from tests.rows import for_rows

Gradcli = Callable[..., Any]
LEAST = ("0.5*sum((X@W - Y)**2)", "X: m n; W: n k; Y: m k", "W")

# fmt: off
KNOWN = [
    # function                                  sizes                     by   its Hessian times V                             assuming
    (*LEAST,                                                                   "X.T@X@V",                                      ""),
    ("sum(log(1 + exp(X@W)))",                  "X: m n; W: n k",         "W", "X.T@(sigmoid(X@W)*sigmoid(-X@W)*(X@V))",       ""),
    ("log(det(S))",                             "S: n n",                 "S", "-(inv(S)@V@inv(S)).T",                         ""),
    ("log(det(S))",                             "S: n n",                 "S", "-inv(S)@V.T@inv(S)",                           "S: spd"),
    ("trace(inv(S)@A)",                         "S: n n; A: n n",         "S", "(inv(S)@(V@inv(S)@A + A@inv(S)@V)@inv(S)).T",  ""),
    ("det(S)",                                  "S: n n",                 "S", "det(S)*(trace(inv(S)@V)*inv(S) - inv(S)@V@inv(S)).T", ""),
    ("trace(X.T@A@X)",                          "X: m n; A: m m",         "X", "(A + A.T)@V",                                  ""),
    ("sum((X@X.T)**2)",                         "X: m n",                 "X", "4*(V@X.T@X + X@V.T@X + X@X.T@V)",              ""),
    ("trace(X@X@X)",                            "X: n n",                 "X", "3*(V@X + X@V).T",                              ""),
    ("norm(X)",                                 "X: m n",                 "X", "V/norm(X) - sum(X*V)*X/norm(X)**3",            ""),
    ("sum(W**4)",                               "W: m n",                 "W", "12*W**2*V",                                    ""),
    ("sum(W)**3",                               "W: m n",                 "W", "6*sum(W)*sum(V)*ones((4, 3))",                 ""),
    ("a@tanh(W@x)",                             "W: m n; x: n; a: m",     "W", "-2*outer(a*tanh(W@x)*(1 - tanh(W@x)**2)*(V@x), x)", ""),
    ("logsumexp(W@x)",                          "W: m n; x: n",           "W", "outer(softmax(W@x)*(V@x - softmax(W@x)@V@x), x)", ""),
    ("sum(log(sum(exp(W), axis=1)))",           "W: m n",                 "W", "rowsoftmax(W)*(V - sum(rowsoftmax(W)*V, axis=1)[:, None])", ""),
    ("-sum(Y*log(softmax(X@W, axis=1)))",       "X: m n; W: n k; Y: m k", "W", "X.T@(rowsoftmax(X@W)*(X@V - sum(rowsoftmax(X@W)*(X@V), axis=1)[:, None]))", "Y: onehot rows"),
    ("sum(A*W)",                                "W: m n; A: m n",         "W", "0*V",                                          ""),
    ("x@S@x",                                   "S: n n; x: n",           "S", "0*V",                                          "S: symmetric"),
]
# fmt: on


def derived(gradcli: Gradcli, f: str, shapes: str, wrt: str, assume: str = "", *more: str) -> Any:
    """Return the one result of a second derivative, as JSON has it."""
    facts = ("--assume", assume) if assume else ()
    ran = gradcli("derive", f, "--shapes", shapes, "--wrt", wrt, "--order", "2", *facts, *more, "--json")
    assert ran.exit_status == 0, ran.stdout
    (result,) = ran.json["results"]
    return result


def computed(code: str, at: dict[str, Any]) -> Any:
    scope: dict[str, Any] = {}
    exec(code, scope)
    return scope["hessian"](**at)


@pytest.mark.slow
@pytest.mark.parametrize(("f", "shapes", "wrt", "right", "assume"), KNOWN, ids=[f"{row[0]} {row[4]}" for row in KNOWN])
def test_the_product_is_right(gradcli: Gradcli, f: str, shapes: str, wrt: str, right: str, assume: str) -> None:
    result = derived(gradcli, f, shapes, wrt, assume, "--no-steps")
    assert (result["kind"], result["direction"]) == ("hessian", "V")
    assert "einsum" not in result["formula"]["expression"]
    for seed in (3, 4):
        at = point(problems.Problem(f, shapes, wrt, right, assume), seed)
        at["V"] = np.random.default_rng(seed).normal(size=np.shape(at[wrt]))
        want = eval(right, {**BY_HAND, **at})
        formula = Expression(result["formula"]["expression"])
        read = formula({n: {**at, **SIZES}[n] for n in formula.inputs})
        for found in (computed(result["code"]["numpy"], at), read):
            np.testing.assert_allclose(found, want, rtol=0, atol=1e-11 * (1 + np.max(np.abs(want))))


def test_of_a_tied_matrix_the_direction_is_symmetric(gradcli: Gradcli) -> None:
    result = derived(gradcli, "log(det(S))", "S: n n", "S", "S: spd, tied", "--no-steps")
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(2, 3, 3))
    S, V, h = A @ A.T + np.eye(3), B + B.T, 1e-6

    def gradient(at: Any) -> Any:
        P = np.linalg.inv(at)
        return 2 * P - np.diag(np.diag(P))

    slope = (gradient(S + h * V) - gradient(S - h * V)) / (2 * h)
    np.testing.assert_allclose(computed(result["code"]["numpy"], {"S": S, "V": V}), slope, rtol=1e-6, atol=1e-8)
    text = gradcli("derive", "log(det(S))", "--shapes", "S: n n", "--assume", "S: tied", "--order", "2").stdout
    assert "V has the shape of S and is symmetric" in text


@for_rows(("f", "shapes", "name"), [
    ("sum(W**3)", "W: m n", "V"), ("sum(V*W**3)", "W: m n; V: m n", "dW"), ("sum(V*W**3)*dW", "W: m n; V: m n", "V1"),
    ("sum(W**3)", "W: m V", "dW"),
])  # fmt: skip
def test_the_direction_has_a_name_of_its_own(gradcli: Gradcli, f: str, shapes: str, name: str) -> None:
    result = derived(gradcli, f, shapes, "W")
    assert result["direction"] == name
    assert f", {name}):" in result["code"]["numpy"] and result["index"].startswith(f"H[{name}][i,j] = ")


def test_the_direction_is_not_called_as_a_line_is(gradcli: Gradcli, tmp_path: Path) -> None:
    file = tmp_path / "layer.py"
    file.write_text(
        "import numpy as np\n\ndef loss(W, X):\n    V = np.tanh(X @ W)\n    return np.sum(V**3)\n", encoding="utf-8"
    )
    result = derived(gradcli, f"{file}:loss", "X: m n; W: n k", "W")
    assert result["direction"] == "V" and all(name != "V" for name, _ in result["program"])
    X, W, V = (np.random.default_rng(0).normal(size=shape) for shape in ((4, 3), (3, 2), (3, 2)))
    t, u = np.tanh(X @ W), X @ V
    right = X.T @ (6 * t * (1 - t**2) ** 2 * u - 6 * t**3 * (1 - t**2) * u)
    np.testing.assert_allclose(computed(result["code"]["numpy"], {"W": W, "X": X, "V": V}), right, rtol=1e-12)


@pytest.mark.parametrize(("shapes", "wrt"), [("x: n", "x"), ("x: 3", "x"), ("x:", "x")])
def test_a_vector_or_a_number_has_its_hessian(gradcli: Gradcli, shapes: str, wrt: str) -> None:
    result = derived(gradcli, "sum(exp(x))", shapes, wrt)
    assert "direction" not in result and ", V)" not in result["code"]["numpy"]


@for_rows("shapes", ["W: n 1", "W: 1 n", "W: 3 2", "W: n n"])
def test_sizes_of_all_kinds(gradcli: Gradcli, shapes: str) -> None:
    result = derived(gradcli, "sum(W**3)", shapes, "W")
    W, V = np.random.default_rng(0).normal(size=(2, *(int(d) if d.isdecimal() else 3 for d in shapes[2:].split())))
    np.testing.assert_allclose(computed(result["code"]["numpy"], {"W": W, "V": V}), 6 * W * V, rtol=1e-14)


def test_the_layout_leaves_it_as_it_is(gradcli: Gradcli) -> None:
    assert derived(gradcli, *LEAST, "", "--layout", "numerator")["formula"]["expression"] == "X.T@X@V"


def test_the_text_says_what_the_direction_is(gradcli: Gradcli) -> None:
    argv = ("derive", LEAST[0], "--shapes", LEAST[1], "--wrt", "W", "--order", "2")
    shown = " ".join(gradcli(*argv).stdout.split())
    assert "hessian by W, n x k H[V] = Xᵀ X V V has the shape of W" in shown
    assert "read off H[V] = Xᵀ X V" in shown and "def hessian(*, X, W, Y, V):" in shown
    latex = gradcli(*argv, "--format", "latex").stdout
    assert r"H[V] &= \boxed{X^{\top} \, X \, V}" in latex and "V has the shape of W." in latex


def test_the_code_tests_itself(gradcli: Gradcli, capsys: pytest.CaptureFixture[str]) -> None:
    code = derived(gradcli, *LEAST)["code"]["numpy"]
    exec(code, {"__name__": "__main__"})
    assert capsys.readouterr().out == "ok\n"
    with pytest.raises(AssertionError):
        exec(code.replace("return X.T", "return 1.001*X.T"), {"__name__": "__main__"})


@pytest.mark.parametrize(("answer", "status", "says"), [
    ("X.T@(X@V)", 0, "your hessian by W, times V, is right: the difference simplifies to zero"),
    ("X.T@X@V + 1e-3*V", 1, "your hessian by W, times V, is wrong: it is off by"), ("X@V", 1, "its shape is m x k, not n x k"),
])  # fmt: skip
def test_an_answer_may_use_the_direction(gradcli: Gradcli, answer: str, status: int, says: str) -> None:
    argv = ("derive", LEAST[0], "--shapes", LEAST[1], "--wrt", "W", "--order", "2", "--answer", answer, "--json")
    ran = gradcli(*argv)
    assert ran.exit_status == status and says in ran.json["results"][0]["answer"]["message"]


@pytest.mark.parametrize("factor", [-1, 2])
def test_a_planted_mistake_is_refused(gradcli: Gradcli, monkeypatch: pytest.MonkeyPatch, factor: int) -> None:
    holds = derive.Derivation.closed

    def planted(x: Any, cost: Any, steps: Any = None) -> Any:
        return scale_tensor(simplified(x, cost, steps), factor)

    def closed(self: Any, wrt: str) -> Any:
        with monkeypatch.context() as patched:
            if self.problem.direction:
                patched.setattr(derive, "simplified", planted)
            return holds(self, wrt)

    monkeypatch.setattr(derive.Derivation, "closed", closed)
    ran = gradcli("derive", LEAST[0], "--shapes", LEAST[1], "--wrt", "W", "--order", "2")
    assert ran.exit_status == 3 and "differs from the certified derivative" in " ".join(ran.stdout.split())
    assert "def hessian" not in ran.stdout


def drawn(seed: int) -> test_random.Drawn:
    """Return a random function of a matrix."""
    rng = random.Random(seed)
    while True:
        f = test_random.grown("", rng.choice((1, 2, 2)), rng)
        names = [n for n in Expression(f).inputs if n in test_random.INPUTS]
        if matrices := [n for n in names if " " in test_random.INPUTS[n]]:
            break
    facts = test_random.FACTS
    assume = {n: word for n in names if n in facts and (word := rng.choice(facts[n]))}
    return test_random.Drawn(f, rng.choice(matrices), {n: test_random.INPUTS[n] for n in names}, assume, "hessian")


@pytest.mark.parametrize("seed", range(60))
def test_random_functions_are_right_or_refused(gradcli: Gradcli, seed: int) -> None:
    problem = drawn(seed)
    ran = gradcli(*problem.argv(), "--json", "--no-steps")
    if ran.exit_status == 3:
        return
    assert ran.exit_status == 0, (problem, ran.stderr)
    (result,) = ran.json["results"]
    for k, sizes in enumerate(test_random.SIZES):
        at = test_random.point(problem, sizes, k)
        shape = np.shape(at[problem.wrt])
        v = np.random.default_rng(k).normal(size=shape)
        whole = at | {n: np.float64(s) for n, s in sizes.items() if n in Expression(problem.f).inputs}
        f = Gradient(Expression(problem.f), (problem.wrt,), whole)
        with np.errstate(all="ignore"):
            estimate = run_mode(MODES["reverse"], Question(f, Point(whole), (problem.wrt,))).estimate
            found = computed(result["code"]["numpy"], {**at, result["direction"]: v})
        assert estimate is not None
        hessian = np.asarray(estimate.value[problem.wrt]).reshape(*shape, *shape)
        right = np.tensordot(hessian, v, 2)
        if np.all(np.isfinite(right)):
            scale = 1 + np.max(np.abs(hessian))
            np.testing.assert_allclose(found, right, rtol=0, atol=1e-8 * scale, err_msg=str(problem.argv()))


@pytest.mark.slow
def test_few_random_ones_are_refused(gradcli: Gradcli) -> None:
    asked = [gradcli(*drawn(seed).argv(), "--no-steps").exit_status for seed in range(30)]
    assert asked.count(3) <= 6
