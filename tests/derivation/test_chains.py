"""Chains of products are computed from the vector, and what is printed does not differ from run to run."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from gradcli.derivation.languages import multiply_from_right
from gradcli.derivation.matrix_expression import COMPARE, E, expression_text, matmul, name
from tests.rows import for_rows

RANKS = {"A": 2, "B": 2, "C": 2, "x": 1, "y": 1}


@for_rows(("chain", "code"), [
    ("A x", "A@x"), ("A B x", "A@(B@x)"), ("A B C x", "A@(B@(C@x))"), ("x A B", "x@A@B"), ("x A y", "x@A@y"), ("A B C", "A@B@C"),
    ("A B x y", "A@(B@x)@y"), ("A x B", "A@x@B"),
])  # fmt: skip
def test_matrices_before_a_vector_meet_it_first(chain: str, code: str) -> None:
    assert expression_text(multiply_from_right(matmul(*map(name, chain.split())), RANKS), COMPARE) == code


def test_inside_other_expressions_too() -> None:
    e = E("call", (E("add", (matmul(name("A"), name("B"), name("x")), name("y"))),), "exp")
    assert expression_text(multiply_from_right(e, RANKS)) == "exp(A@(B@x) + y)"


@pytest.mark.parametrize(("f", "wrt", "line"), [
    ("sum((A@x)**2)", "x", "return 2*(A.T@(A@x))"), ("norm(A@x)**4", "x", "return 4*(A@x@(A@x))*(A.T@(A@x))"),
])  # fmt: skip
def test_the_code_multiplies_so(gradcli: Callable[..., Any], f: str, wrt: str, line: str) -> None:
    (result,) = gradcli("derive", f, "--shapes", "A: m n; x: n", "--wrt", wrt, "--json").json["results"]
    for language in ("numpy", "torch", "jax"):
        assert f"    {line}\n" in result["code"][language]


@pytest.mark.slow
def test_every_run_prints_the_same() -> None:
    argv = [
        "derive",
        "0.5*y@inv(s*K + t*eye(n))@y + (y@K@K@y)/(y@y)",
        "--shapes",
        "y: n; K: n n",
        "--assume",
        "K: spd",
        "--json",
    ]
    printed = []
    for seed in ("1", "2", "3"):
        run = subprocess.run(
            [sys.executable, "-m", "gradcli", *argv],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        )
        document = json.loads(run.stdout)
        printed.append([(r["formula"], r["index"], r["steps"], r["code"]) for r in document["results"]])
    assert printed[0] == printed[1] == printed[2] and len(printed[0]) == 4
