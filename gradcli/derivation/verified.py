"""Nothing is shown that was not checked: the printed form and the code are run against certified derivatives."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from gradcli.derivation.problem import RECORDINGS, Problem, point_of
from gradcli.derivation.selftest import SelfTest
from gradcli.derivation.statements import Statements
from gradcli.errors import GradcliError
from gradcli.modes.budget import Budget
from gradcli.modes.mode import Question
from gradcli.modes.registry import MODES
from gradcli.modes.work import Effort
from gradcli.point import Point
from gradcli.report.derive import Check
from gradcli.source.derived import Gradient, Weighted
from gradcli.source.expression import Expression
from gradcli.verify.run_modes import attempt

POINTS = 3  # at each of three sizes
ALLOWED = 1e-9  # relative to the largest entry: forms round in other orders
_TRIES = 4  # random points of any signs, before inputs are moved to where f may have a value:
_MOVED = (lambda x: np.abs(x) + 0.3, lambda x: np.abs(np.tanh(x)))  # all positive; all between 0 and 1
UNSEEN = 1e-6  # of f, or of 1: slopes below are compared as if they were this large


class Unverified(GradcliError):
    """A closed form that could not be confirmed: it is not shown."""

    kind = "unverified"


class Verifier:
    """Compares formulas with certified derivatives at random points of several sizes."""

    def __init__(self, problem: Problem, sizes: Mapping[str, tuple[int, ...]], wrt: str, kind: str) -> None:
        self.problem = problem
        self.sizes = sizes
        self.wrt = wrt
        self.kind = kind
        self.truths: list[tuple[dict[str, Any], Any]] = []

    def points(self) -> list[tuple[dict[str, Any], Any]]:
        """Return points with the certified derivative at each. Raises Unverified where there is none."""
        if self.truths:
            return self.truths
        for k in range(RECORDINGS):
            sizes = {n: v[k] for n, v in self.sizes.items()}
            for j in range(POINTS):
                rng = np.random.default_rng([self.problem.seed, 77, k, j])
                for moved in (*[None] * _TRIES, *_MOVED):
                    point = point_of(self.problem, sizes, rng, moved)
                    truth = self.truth(point)
                    if truth is not None:
                        self.truths.append((point, truth))
                        break
        if not self.truths:
            raise Unverified(
                "no random point has a certified derivative", do='assume what f needs: --assume "q: positive"'
            )
        return self.truths

    def truth(self, point: dict[str, Any]) -> Any:
        """Return the certified derivative at a point; None where there is none."""
        f = self.problem.f
        given = {n: x for n, x in point.items() if n != self.problem.direction}
        if self.kind == "hessian":
            f = Gradient(f, (self.wrt,), given)
        if self.problem.direction:  # H[V] is the gradient of <G, V>
            f = Weighted(f, np.ravel(point[self.problem.direction]), f"gradient along {self.problem.direction}")
        q = Question(f, Point(given), (self.wrt,), budget=Budget(Effort.ALL))
        with np.errstate(all="ignore"):
            for name in ("certified", "reverse"):
                found = attempt(MODES[name], q)
                if found.estimate is not None:
                    value = np.asarray(found.estimate.value[self.wrt], dtype=np.float64)
                    if self.kind == "hessian" and not self.problem.direction:
                        value = value.reshape((*np.shape(point[self.wrt]), *np.shape(point[self.wrt])))
                    if "tied" in self.problem.facts.get(self.wrt, ()):
                        value = value + value.T - np.diag(np.diag(value))
                    if self.problem.layout == "numerator" and self.kind == "gradient":
                        value = value.T
                    return value if np.all(np.isfinite(value)) else None
        return None

    def check(self, made: Statements, code: str, test: SelfTest | None = None) -> Check:
        """Return how well a form and its code agree with certified derivatives; the code passes its test. Raises Unverified."""
        try:
            worst = max(self.error(Expression(made.text())), self._error_of(self._ran(code)))
        except GradcliError as error:
            raise Unverified(f"the closed form found for {self.wrt} cannot be read: {error.what}") from None
        if not worst <= ALLOWED:
            says = f"the closed form found for {self.wrt} differs from the certified derivative ({worst:.1e})"
            raise Unverified(says, do="please report it; gradcli grad computes the derivative")
        if test is not None and not test.holds(self._ran(code)):
            says = f"the closed form found for {self.wrt} differs from the certified derivative at the point of its self-test"
            raise Unverified(says, do="please report it; gradcli grad computes the derivative")
        sizes = tuple({n: v[k] for n, v in self.sizes.items()} for k in range(RECORDINGS))
        return Check("pass", worst, len(self.points()), sizes)

    def error(self, formula: Expression) -> float:
        """Return the largest relative error of a formula over all points."""

        def value(point: dict[str, Any]) -> Any:
            known = {n: x for n, x in (point | self._named(point)).items() if n in formula.inputs}
            return formula(known)

        return self._error_of(value)

    def _named(self, point: dict[str, Any]) -> dict[str, Any]:
        found = {}
        for name, dims in self.problem.dims.items():
            for k, d in enumerate(dims):
                if not d.isdecimal():
                    found[d] = np.float64(np.shape(point[name])[k])
        return found

    def _least(self, point: dict[str, Any]) -> float:
        """Return the size below which a slope is one that cancels to zero but for rounding."""
        y = self.problem.f({n: x for n, x in point.items() if n != self.problem.direction})
        return UNSEEN * max(1.0, float(np.max(np.abs(np.asarray(y, dtype=float)), initial=0.0)))

    def _ran(self, code: str) -> Any:
        scope: dict[str, Any] = {}
        exec(compile(code, "<derived>", "exec"), scope)  # our own text: names are identifiers, all else from tables
        return lambda point: scope[self.kind](**{n: point[n] for n in self.problem.dims})

    def _error_of(self, value: Any) -> float:
        worst = 0.0
        with np.errstate(all="ignore"):
            for point, truth in self.points():
                found = np.asarray(value(point), dtype=np.float64)
                if found.shape != truth.shape:
                    return float("inf")
                scale = max(float(np.max(np.abs(truth), initial=0.0)), self._least(point))
                worst = max(worst, float(np.max(np.abs(found - truth), initial=0.0)) / scale)
                if not np.all(np.isfinite(found)):
                    return float("inf")
        return worst
