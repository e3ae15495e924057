"""Perturbed, displaced and replayed runs of operations that raise an error anywhere but at the point itself."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import gradcli as api
from gradcli.arithmetic import dual
from gradcli.arithmetic.recorded_program import record
from gradcli.errors import GradcliError
from gradcli.targets.expression import Expression
from gradcli.tracing.primitive import PRIMITIVES, Primitive, Rule, Value
from tests.rows import for_rows

S = np.array([[9.29, 2.22, 2.0], [2.22, 4.17, 1.72], [2.0, 1.72, 16.45]])
CALLS = {
    "cholesky": "sum(cholesky(S))",
    "det": "det(S)",
    "eigenvectors": "sum(eigh(S)[1][:, 0]**3)",
    "eigvalsh": "sum(eigvalsh(S)**2)",
    "expm": "sum(expm(S/8))",
    "inv": "sum(inv(S))",
    "logdet": "logdet(S)",
    "logm": "sum(logm(S))",
    "pinv": "sum(pinv(S))",
    "qr": "sum(qr(S)[1])",
    "singular_vectors": "sum(svd(S)[0]**3)",
    "solve": "sum(solve(S, [1, 2, 3]))",
    "sqrtm": "sum(sqrtm(S))",
    "svdvals": "sum(svdvals(S)**3)",
}


@dataclass
class AtThePointAlone:
    """Lets a primitive, or its rules, raise an error at all operands but those that it saw while it was `learning`."""

    primitive: Primitive
    error: Exception
    learning: bool = True
    known: set[tuple[bytes, ...]] = field(default_factory=set)

    def look(self, xs: Any) -> None:
        if not all(type(x) in (float, int, np.float64, np.ndarray) for x in xs):
            return  # another arithmetic
        key = tuple(np.asarray(x).tobytes() for x in xs)
        if self.learning:
            self.known.add(key)
        elif key not in self.known:
            raise self.error

    def fun(self, compute: Callable[..., Value]) -> Callable[..., Value]:
        def computed(*xs: Value, **params: Any) -> Value:
            self.look(xs)
            return compute(*xs, **params)

        return computed


@dataclass
class Raising:
    """A rule that raises an error at all operands but some."""

    rule: Rule
    where: AtThePointAlone

    def push(self, primitive: Any, i: int, y: Any, xs: Any, xdot: Any, params: Any) -> Any:
        self.where.look(xs)
        return self.rule.push(primitive, i, y, xs, xdot, params)

    def pull(self, ybar: Any, i: int, y: Any, xs: Any, params: Any, transpose: Any) -> Any:
        self.where.look(xs)
        return self.rule.pull(ybar, i, y, xs, params, transpose)


@contextmanager
def raising(name: str, part: str, error: Exception) -> Iterator[None]:
    """Let a primitive raise an error where its operands are not those of its call in `CALLS`."""
    primitive, f = PRIMITIVES[name], Expression(CALLS[name])
    where, kept = AtThePointAlone(primitive, error), getattr(primitive, part)
    made = where.fun(kept) if part == "fun" else tuple(Raising(rule, where) for rule in kept)
    object.__setattr__(primitive, part, made)
    try:
        record(lambda x: f({"S": x}), [S]).pull(np.float64(1))
        dual.jvp(lambda x: f({"S": x}), [S], [np.ones((3, 3))])
        where.learning = False
        yield
    finally:
        object.__setattr__(primitive, part, kept)


ERRORS = [np.linalg.LinAlgError("Singular matrix"), ValueError("array must not contain infs or NaNs")]


def test_every_primitive_that_raises_is_tried() -> None:
    bad = [np.ones((2, 2)), np.full((2, 2), np.nan), -np.eye(2), np.zeros((2, 2))]

    def raises(primitive: Primitive, x: Any) -> bool:
        operands = [x] * max(1, len(primitive.rules))
        try:
            with np.errstate(all="ignore"):
                primitive.fun(*operands)
        except (np.linalg.LinAlgError, GradcliError):
            return True
        except (TypeError, ValueError, IndexError, AttributeError, KeyError, RecursionError):
            return False
        return False

    found = {name for name, p in PRIMITIVES.items() if p.kind == "differential" and any(raises(p, x) for x in bad)}
    assert found
    assert found <= set(CALLS)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("part", ["fun", "rules"])
def test_a_check_survives_an_error_beside_the_point(name: str, part: str) -> None:
    right = api.grad(lambda x: Expression(CALLS[name])({"S": x}), verify=False)(S)
    with raising(name, part, ERRORS[len(name) % 2]):
        report = api.check(CALLS[name], {"S": S}, grad=lambda S: 2 * right)
    assert report.exit_status == 3
    says = [f.message for f in report.points[0].findings if f.kind == "noise"]
    assert any("has no bound: a run with random rounding errors raises" in said for said in says), says


@for_rows("name", ["cholesky", "expm"], parts=2)
@for_rows("part", ["fun", "rules"])
@for_rows("command", ["check", "compare-modes", "grad", "sweep", "trace"])
def test_a_command_survives_an_error_beside_the_point(gradcli: Any, name: str, part: str, command: str) -> None:
    with raising(name, part, ERRORS[0]):
        ran = gradcli(command, CALLS[name], "--at", "S=" + str(S.tolist()))
    assert ran.exit_status in (0, 3), ran.stderr


@pytest.mark.parametrize("at", ["[[1,1],[1,1.0000000000000004]]", "[[4,2],[2,1.0000000000000002]]"])
def test_a_factor_at_the_edge_of_definiteness_has_no_bound(gradcli: Any, at: str) -> None:
    ran = gradcli("check", "sum(cholesky(S))", "--at", f"S={at}", "--grad", "inv(cholesky(S)).T @ tril(ones([2,2]))")
    assert ran.exit_status == 3
    assert "raises LinAlgError: Matrix is not positive definite" in " ".join(ran.stdout.split())


def test_a_primitive_that_checks_its_input_may_raise_beside_the_point() -> None:
    def checked(x: Any) -> Any:
        if isinstance(x, float | np.ndarray) and np.any(np.asarray(x) != 0.5):
            raise AssertionError("0.5 alone")
        return x * x

    square = api.primitive(checked, lambda y, x: 2 * x)
    report = api.check(lambda x: square(x) * 3.0, 0.5, grad=lambda x: 3.0)
    assert report.exit_status == 3


def test_a_function_that_checks_its_input_is_refused_beside_the_point_alone() -> None:
    def f(p: Any) -> Any:
        if np.any(np.asarray(p, dtype=float) > 1) if isinstance(p, np.ndarray) else False:
            raise ValueError("probabilities are at most 1")
        return np.sum(p**2)

    report = api.check(f, {"p": np.array([1.0, 0.5])}, grad=lambda p: 2 * p)
    assert report.exit_status in (0, 3)
    assert api.check(f, {"p": np.array([1.0, 0.5])}, grad=lambda p: -2 * p).exit_status in (1, 3)
