"""Textbook problems through the program: the code is right at points of its own, the formula reads, and neither is larger than the textbook's."""

import ast
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg
from scipy.special import erf, expit, ndtr

from gradcli.targets.expression import Expression
from tests.derivation.problems import PROBLEMS, Problem

SIZES = {"n": 3, "m": 4, "k": 5, "d": 2}


def softmax(z: Any) -> Any:
    return np.exp(z) / np.sum(np.exp(z))


def rowsoftmax(z: Any) -> Any:
    return np.exp(z) / np.sum(np.exp(z), axis=1, keepdims=True)


def standardised(x: Any) -> Any:
    return (x - np.mean(x, axis=0)) / np.std(x, axis=0)


BY_HAND = {
    **{name: getattr(np, name) for name in ["abs", "cos", "cosh", "cumsum", "diag", "diagonal", "exp", "eye", "flip", "log", "maximum", "minimum", "mean", "ones", "outer", "sin", "sinh", "sqrt", "std", "sum", "tanh", "trace", "var", "zeros", "pi", "prod", "tril", "triu", "concatenate", "convolve", "correlate", "hstack", "max", "min", "abs", "sign"]},
    **{name: getattr(np.linalg, name) for name in ["det", "inv", "norm", "solve", "svd", "eigh", "pinv"]},
    **{name: getattr(scipy.linalg, name) for name in ["expm", "expm_frechet", "logm", "sqrtm"]},
    "erf": erf, "ndtr": ndtr, "sigmoid": expit, "softmax": softmax, "rowsoftmax": rowsoftmax, "hat": standardised, **SIZES,
}  # fmt: skip
DRAWN: dict[str, Callable[[Any], Any]] = {
    "symmetric": lambda x: x + x.T,
    "spd": lambda x: x @ x.T + np.eye(len(x)),
    "tied": lambda x: (x + x.T) / 2,
    "diagonal": lambda x: np.diag(np.diag(x)),
    "orthogonal": lambda x: np.linalg.qr(x)[0],
    "positive": lambda x: np.abs(x) + 0.5,
    "signs": np.sign,
    "simplex": lambda x: np.abs(x) / np.sum(np.abs(x)),
    "onehot": lambda x: np.eye(len(x))[1],
    "simplex rows": rowsoftmax,
    "onehot rows": lambda x: np.eye(x.shape[1])[np.argmax(x, axis=1)],
}


def point(problem: Problem, seed: int) -> dict[str, Any]:
    """Return values of which the assumptions hold."""
    rng = np.random.default_rng(seed)
    words = dict(part.split(": ") for part in problem.assume.split("; ") if part)
    found = {}
    for part in problem.shapes.split("; "):
        name, _, dims = part.partition(":")
        x = rng.normal(size=tuple(eval(d, dict(SIZES)) for d in dims.split()))
        for word in words.get(name, "").split(", "):
            x = DRAWN[word](x) if word else x
        found[name] = x[()]
    return found


def operations(text: str) -> int:
    """Return how many operations a text has."""
    kinds = (ast.BinOp, ast.UnaryOp, ast.Call, ast.Subscript, ast.Compare, ast.Attribute)
    return sum(isinstance(node, kinds) for node in ast.walk(ast.parse(text)))


SLOW = {"norm(kron(Y.T, X)@vec(C) - vec(Z))**2 by C"}


@pytest.mark.parametrize(
    "problem",
    [pytest.param(p, marks=pytest.mark.slow) if name in SLOW else p for name, p in PROBLEMS.items()],
    ids=PROBLEMS,
)
def test_the_textbooks_answer_is_found(gradcli: Callable[..., Any], problem: Problem) -> None:
    options = ["--shapes", problem.shapes, "--wrt", problem.wrt, "--order", str(problem.order), "--no-steps", "--json"]
    ran = gradcli("derive", problem.f, *options, *(["--assume", problem.assume] if problem.assume else []))
    assert ran.exit_status == 0, ran.stdout
    (result,) = ran.json["results"]
    formula = result["formula"]["expression"]
    assert set(Expression(formula).inputs) <= {*point(problem, 0), *SIZES}
    assert "einsum" not in formula and ("softplus" not in formula or "softplus" in problem.right)
    assert operations(formula) <= max(problem.larger * operations(problem.right), 2), formula
    scope: dict[str, Any] = {}
    exec(result["code"]["numpy"], scope)
    for seed in (5, 6):
        at = point(problem, seed)
        found, right = scope[result["kind"]](**at), eval(problem.right, {**BY_HAND, **at})
        assert np.shape(found) == np.shape(right)
        scale = 1 + np.max(np.abs(right))
        np.testing.assert_allclose(found, right, rtol=0, atol=1e-9 * scale, err_msg=formula)
