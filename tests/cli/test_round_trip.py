"""What `derive` prints, `check` reads: closed forms as claims, sizes by their names."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.rows import for_rows

# fmt: off
PROBLEMS = [
    # function                                                     sizes                                    by    values that a claim needs
    ("sum((X@w - y)**2)/m",                                        "X: m n; w: n; y: m",                    "w",  ""),
    ("sum(G*softmax(Q@K.T/sqrt(d), axis=1))",                      "G: m m; Q: m d; K: m d",                "Q",  ""),
    ("sum((X.T@X - eye(n))**2)",                                   "X: m n",                                "X",  ""),
    ("trace(A)*sum(x)",                                            "A: n n; x: n",                          "A",  ""),
    ("mean(x)**2",                                                 "x: n",                                  "x",  ""),
    ("x[0]**2*x[-1]",                                              "x: n",                                  "x",  ""),
    ("sum(X[:, 1:3]**2)",                                          "X: m n",                                "X",  ""),
    ("c@cumsum(x)",                                                "c: n; x: n",                            "x",  ""),
    ("sum(cumsum(X, axis=1)**2)",                                  "X: m n",                                "X",  ""),
    ("-log(softmax(z)[2])",                                        "z: n",                                  "z",  ""),
    ("g@((x - mean(x))/sqrt(var(x) + 1e-5))",                      "g: n; x: n",                            "x",  ""),
    ("c@inv(S + lam*eye(n))@c",                                    "c: n; S: n n; lam: ",                   "lam", "S=spd(4), lam=0.3"),
    ("0.5*m*log(det(S)) + 0.5*trace((X - v)@inv(S)@(X - v).T)",    "S: n n; X: m n; v: n",                  "v",  "S=spd(3)"),
    ("sum(diff(x)**2)/(n - 1)",                                    "x: n",                                  "x",  ""),
    ("prod(x)/sqrt(n)",                                            "x: n",                                  "x",  ""),
    ("sum(tril(A)**2)",                                            "A: n n",                                "A",  ""),
    ("sum(concatenate([[1], x])**2*y)",                            "x: n; y: 1",                            "x",  ""),
    ("sum(softplus(X@w))/(2*m)",                                   "X: m n; w: n",                          "w",  ""),
]
SECOND = [("sum(exp(x)[1:])", "x: n", "x"), ("logsumexp(x)/n", "x: n", "x"), ("x@A@x", "A: n n; x: n", "x")]
# fmt: on


@for_rows(("f", "shapes", "wrt", "at"), PROBLEMS, parts=4)
def test_a_gradient_is_a_claim(gradcli: Callable[..., Any], f: str, shapes: str, wrt: str, at: str) -> None:
    derived = gradcli("derive", f, "--shapes", shapes, "--wrt", wrt, "--no-steps", "--json")
    assert derived.exit_status == 0, derived.stdout
    formula = derived.json["results"][0]["formula"]["expression"]
    options = ("--shapes", shapes, "--wrt", wrt, *(("--at", at) if at else ()))
    ran = gradcli(
        "check",
        f,
        *options,
        "--grad",
        formula,
        "--points",
        "1",
        "--modes",
        "certified,reverse,finite-difference",
        "--json",
    )
    assert ran.exit_status == 0 and ran.json["claim"] == formula, (formula, ran.stdout[:2000], ran.stderr)


@pytest.mark.parametrize(("f", "shapes", "wrt"), SECOND)
def test_a_hessian_is_a_claim(gradcli: Callable[..., Any], f: str, shapes: str, wrt: str) -> None:
    derived = gradcli("derive", f, "--shapes", shapes, "--wrt", wrt, "--order", "2", "--no-steps", "--json")
    formula = derived.json["results"][0]["formula"]["expression"]
    ran = gradcli(
        "check", f, "--shapes", shapes, "--wrt", wrt, "--order", "2", "--hess", formula, "--points", "1", "--json"
    )
    assert ran.exit_status == 0, (formula, ran.stdout[:2000], ran.stderr)


def test_a_wrong_size_in_a_claim_is_wrong(gradcli: Callable[..., Any]) -> None:
    argv = ("check", "sum((X@w)**2)/m", "--shapes", "X: m n; w: n", "--wrt", "w", "--grad")
    assert gradcli(*argv, "2*X.T@(X@w)/m").exit_status == 0
    assert gradcli(*argv, "2*X.T@(X@w)/n").exit_status == 1


def test_the_values_give_the_sizes_of_a_claim(gradcli: Callable[..., Any]) -> None:
    options = ("--shapes", "X: m n; w: n", "--at", "X=randn(7, 2)", "--wrt", "w", "--grad", "2*X.T@(X@w)/m", "--json")
    ran = gradcli("check", "sum((X@w)**2)/7", *options)
    assert ran.exit_status == 0 and len(ran.json["points"][0]["at"]["w"]) == 2


def test_an_unknown_name_in_a_claim_says_where_sizes_are_named(gradcli: Callable[..., Any]) -> None:
    ran = gradcli("check", "sum(x**2)", "--shapes", "x: 3", "--grad", "2*x/n")
    assert ran.exit_status == 2 and "uses n" in ran.stderr and '--shapes "x: n"' in ran.stderr


def test_the_mistake_in_an_answer_with_sizes_is_named(gradcli: Callable[..., Any]) -> None:
    argv = ("derive", "sum((X@w)**2)/m", "--shapes", "X: m n; w: n", "--wrt", "w", "--answer", "X.T@(X@w)/m", "--json")
    assert "a factor 2 too small" in gradcli(*argv).json["results"][0]["answer"]["slip"]
