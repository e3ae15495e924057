"""Verification: the printed form and the code are compared with certified derivatives before they are shown."""

import itertools
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from gradcli.arithmetic.ball import Ball, nearest_float64, precision, radius
from gradcli.checks.run_modes import run_mode
from gradcli.derivation.languages import SelfTest
from gradcli.derivation.matrix_expression import Statements
from gradcli.derivation.sized_problem import MOVED, RECORDINGS, DerivationProblem, draw_point, two_other_numbers
from gradcli.derivation.sized_recording import (
    equality_comparisons,
    has_infinity,
    is_finite_at_sizes,
    names_of_inputs,
    order_comparisons,
    value_as_graph,
)
from gradcli.errors import GradcliError
from gradcli.modes.mode import Question
from gradcli.modes.recording import Budget, Effort
from gradcli.modes.registry import MODES
from gradcli.report.derive import Check
from gradcli.request.point import Point
from gradcli.targets.derived import Gradient, Weighted
from gradcli.targets.expression import Expression
from gradcli.targets.facts import length_of

# the first point with a derivative is taken; if all is numbers, all of them
_STARTS = ("{sine}", "2 + {sine}", "0.5*{sine}", "{sine} - 3")
_RANDOM = 3  # of the points at which formulas are checked are added, if all is numbers
_NUDGE = 1e-12  # relative change of the inputs, if all is numbers: a point is left out if it moves the derivative by
_MOVES = 1e-7  # more than this, because rounding of 1e-16 then moves it by more than 1e-11
#                how a value x is changed so that the fact holds
MADE: dict[str, str] = {
    "symmetric":    "({x} + {x}.T)/2",
    "tied":         "({x} + {x}.T)/2",
    "spd":          "{x}@{x}.T + np.eye(len({x}))",
    "skew":         "({x} - {x}.T)/2",
    "diagonal":     "np.diag(np.diag({x}))",
    "lower":        "np.tril({x})",
    "upper":        "np.triu({x})",
    "orthogonal":   "np.linalg.qr({x})[0]",
    "unit":         "{x}/np.linalg.norm({x})",
    "simplex":      "np.abs({x})/np.sum(np.abs({x}))",
    "simplex rows": "np.abs({x})/np.sum(np.abs({x}), axis=1, keepdims=True)",
    "onehot":       "np.eye(len({x}))[0]",
    "onehot rows":  "np.eye({x}.shape[1])[np.arange(len({x})) % {x}.shape[1]]",
    "signs":        "np.where({x} < 0, -1.0, 1.0)",
    "mask":         "np.where({x} < 0, 0.0, 1.0)",
    "positive":     "np.abs({x}) + 0.3",
    "index":        "np.floor(np.abs(3*{x})) % 3",
}  # fmt: skip


def _is_finite(value: Callable[[dict[str, Any]], Any], point: dict[str, Any]) -> bool:
    """Whether a function has a value at a point, and a finite one."""
    try:
        return bool(np.all(np.isfinite(value(point))))
    except (np.linalg.LinAlgError, GradcliError):
        return False


POINTS = 3  # at each of three sizes
ALLOWED = 1e-9  # relative to the largest entry: different forms round differently
_EXACT_BITS = 256  # of ball arithmetic, in which rounding is far below what is allowed
_TRIES = 4  # random points of any signs, before inputs are moved to where f may have a value
UNSEEN = 1e-6  # relative to f, or to 1: smaller derivatives are compared as if they were this large


# how values are made hard: logits at which exp overflows or vanishes, of either sign; zeros; ties; tiny and huge ones
_HARD: tuple[Callable[[Any], Any], ...] = (
    lambda x: 1e3 * (1 + np.abs(x)), lambda x: -1e3 * (1 + np.abs(x)), lambda x: 3.5e3 * np.sign(x),
    lambda x: 0 * x, lambda x: 0 * x + 1, lambda x: 1e-100 * x, lambda x: 1e100 * x,
)  # fmt: skip


class Unverified(GradcliError):
    """A closed form that could not be confirmed, and is not shown."""

    kind = "unverified"


class NotFinite(Unverified):
    """A closed form that is not finite where the derivative is."""


class Verifier:
    """Compares formulas with certified derivatives at random points of several sizes."""

    def __init__(self, problem: DerivationProblem, sizes: Mapping[str, tuple[int, ...]], wrt: str, kind: str) -> None:
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
            sizes = self.sizes_in_recording(k)
            for j in range(POINTS):
                rng = np.random.default_rng([self.problem.seed, 77, k, j])
                for moved in (*[None] * _TRIES, *MOVED):
                    point = draw_point(self.problem, sizes, rng, moved)
                    truth = self.truth(point)
                    if truth is not None and _is_finite(self._largest_value, point):
                        self.truths.append((point, truth))
                        break
        if not self.truths:
            point = draw_point(self.problem, self.sizes_in_recording(0), np.random.default_rng(0))
            masked = self._has_mask(point)
            named = f'--assume "{self.wrt}: positive"'
            do = "write -1e9 for -inf: 0 times -inf is nan" if masked else f"assume what f needs, such as {named}"
            raise Unverified("f has no value, or no certified derivative, at any random point", do=do)
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
                found = run_mode(MODES[name], q)
                if found.estimate is not None:
                    value = np.asarray(found.estimate.value[self.wrt], dtype=np.float64)
                    if self.kind == "hessian" and not self.problem.direction:
                        value = value.reshape((*np.shape(point[self.wrt]), *np.shape(point[self.wrt])))
                    whole = self.kind == "gradient" or self.problem.direction
                    if not whole and any("1" in own for own in self.problem.dims.values()):
                        value = np.squeeze(value)  # a Jacobian has no axes of length 1
                    if "tied" in self.problem.facts.get(self.wrt, ()):
                        value = value + value.T - np.diag(np.diag(value))
                    return self.in_layout(value) if np.all(np.isfinite(value)) else None
        return None

    def in_layout(self, derivative: Any) -> Any:
        """Return a derivative that is indexed [output, input], a gradient as its input, in the layout of the problem."""
        if self.problem.layout == "denominator" and self.kind == "jacobian":
            inputs = sum(d != "1" for d in self.problem.dims[self.wrt])
            return np.moveaxis(derivative, range(-inputs, 0), range(inputs))
        return np.transpose(derivative) if (self.problem.layout, self.kind) == ("numerator", "gradient") else derivative

    @cached_property
    def test(self) -> SelfTest | None:
        """The test that the code runs if it is run as a program; None if the name of an input hides one in the test.

        The point is made by lines of code or, if f has no derivative there, is the first of the points, written out. A function
        of numbers, which may have branches, is tested at several points.
        """
        dims, known = self.problem.dims, self.points()
        if {self.kind, "np"} & set(dims):
            return None
        written = [({n: at[n] for n in dims}, d) for at, d in known[:_RANDOM] if self._is_defined(at)]
        fallback = ({n: known[0][0][n] for n in dims}, known[0][1])
        if not any(dims.values()) and np.ndim(known[0][1]) == 0:
            made = [one[1:] for start in _STARTS if (one := self._make_test_point(start)) is not None]
            steady = [(point, d) for point, d in (*made, *written) if self._is_stable(point, d)]
            return SelfTest((), tuple(steady or [*made, *written, fallback][:1]))
        for start in _STARTS:
            if (one := self._make_test_point(start)) is None:
                continue
            lines, point, derivative = one
            # whether a number occurs twice among the entries of all inputs without assumptions
            entries = np.concatenate([np.zeros(0), *(np.ravel(point[name]) for name in self._free_inputs)])
            if len(np.unique(entries)) == len(entries) or self._is_stable(self._with_sizes(point), derivative):
                return SelfTest(tuple(lines), ((point, derivative),))
        point, derivative = (*written, fallback)[0]
        arrays = {name: f"np.array({x.tolist()})" if np.ndim(x) else repr(float(x)) for name, x in point.items()}
        return SelfTest(tuple(f"{name} = {code}" for name, code in arrays.items()), ((point, derivative),))

    def _make_test_point(self, start: str) -> tuple[list[str], dict[str, Any], Any] | None:
        """Return lines that make a point, the point, and the derivative there; None where there is none."""
        lines = self._lines_making_point(start)
        scope: dict[str, Any] = {"np": np}
        try:
            exec("\n".join(lines), scope)  # our own text: names are identifiers, all else from the tables above
            point = {name: np.asarray(scope[name], dtype=np.float64)[()] for name in self.problem.dims}
            at = self._with_sizes(point)
            derivative = self.truth(at) if self._is_defined(at) else None
        except (np.linalg.LinAlgError, GradcliError):
            return None
        return None if derivative is None else (lines, point, derivative)

    def _lines_making_point(self, start: str) -> list[str]:
        problem, lines = self.problem, []
        for k, (name, dims) in enumerate(problem.dims.items(), 1):
            shape = [length_of(d, self.sizes_in_recording(0)) for d in dims]
            count = math.prod(shape)
            sine = f"np.sin({k}.0 + np.arange({count})**2)" if shape else f"np.sin({k}.0)"
            value = start.format(sine=f"{sine}.reshape({shape})" if len(shape) > 1 else sine)
            met = problem.compared.get(name, ())
            if met and not problem.facts.get(name):  # an array of these numbers in turn, or one of them
                numbers = [*met, *two_other_numbers(met)]
                value = f"np.array({numbers})[np.arange({count}) % {len(numbers)}]"
                value = f"{value}.reshape({shape})" if len(shape) > 1 else value
                value = value if shape else repr(numbers[_STARTS.index(start) % len(numbers)])
            lines.append(f"{name} = {value}")
            lines += [f"{name} = {MADE[word].format(x=name)}" for word in MADE if word in problem.facts.get(name, ())]
        return lines

    def _with_sizes(self, point: dict[str, Any]) -> dict[str, Any]:
        """Return a point of the first sizes, with those that f uses by their names."""
        sizes = self.sizes_in_recording(0).items()
        return point | {d: np.float64(s) for d, s in sizes if d in self.problem.f.inputs and d not in point}

    def _is_stable(self, point: Mapping[str, Any], derivative: Any) -> bool:
        """Whether a derivative is stable under rounding, which differs between libraries, of inputs without assumptions."""
        rng = np.random.default_rng(0)
        moves = {name: _NUDGE * rng.uniform(0.5, 1.5, np.shape(point[name])) for name in self._free_inputs}
        for sign in (1, -1):  # of equal entries, which are in another order on either side
            moved = self.truth({**point, **{name: point[name] * (1 + sign * move) for name, move in moves.items()}})
            if moved is None or np.any(np.abs(moved - derivative) > _MOVES * (1 + np.abs(derivative))):
                return False
        return True

    @property
    def _free_inputs(self) -> list[str]:
        return [name for name in self.problem.dims if not self.problem.facts.get(name)]

    def _is_defined(self, at: Mapping[str, Any]) -> bool:
        """Whether f and all its intermediate values are finite at a point."""
        try:
            with np.errstate(all="raise", under="ignore"):
                return bool(np.all(np.isfinite(self.problem.f({n: at[n] for n in self.problem.f.inputs}))))
        except (FloatingPointError, np.linalg.LinAlgError, GradcliError):
            return False

    def sizes_in_recording(self, k: int) -> dict[str, int]:
        """Return the k-th of the sizes of each name."""
        return {n: v[k] for n, v in self.sizes.items()}

    def check(self, made: Statements, code: str) -> Check:
        """Return how well a form and its code agree with certified derivatives.

        Raises  Unverified if they do not: NotFinite if the form has no value at a point, or another shape.
        """
        run = self._compile_code(code)
        try:
            formula = Expression(made.text())
            worst = max(self.error(formula), self._largest_error(run))
        except GradcliError as error:
            raise Unverified(f"the closed form found for {self.wrt} cannot be read: {error.what}") from None
        finite = bool(np.isfinite(worst))
        if worst > ALLOWED and not (finite and self._differs_by_rounding(formula, run)):
            says = f"the closed form found for {self.wrt} differs from the certified derivative ({worst:.1e})"
            kind = Unverified if finite else NotFinite
            raise kind(says, do="please report it; gradcli grad computes the derivative")
        if self.test is not None and not self.test.holds(run):
            says = f"the closed form found for {self.wrt} differs from the certified derivative at the point of its self-test"
            raise Unverified(says, do="please report it; gradcli grad computes the derivative")
        other = self._point_of_mirrored_sizes()
        if other is not None and not self._largest_error(run, [other]) <= ALLOWED:
            where = ", ".join(f"{n} = {k}" for n, k in self._mirrored_sizes().items())
            says = f"the closed form found for {self.wrt} holds at some sizes only, and not for {where}"
            raise Unverified(says, do="give the sizes as numbers: --shapes x:3")
        sizes = tuple(map(self.sizes_in_recording, range(RECORDINGS)))
        return Check("pass", worst, len(self.points()), sizes)

    def _differs_by_rounding(self, formula: Expression, run: Callable[[dict[str, Any]], Any]) -> bool:
        """Whether a formula is right in exact arithmetic, and its values are as far off as rounding can make them.

        So is logsumexp(z/T) - z@softmax(z/T)/T at a small T: a difference of large numbers.
        """
        for point, truth in self.points():
            found = [run(point), self.value(formula, point)]
            if all(self._relative_error(x, point, truth) <= ALLOWED for x in found):
                continue
            lifted = {n: Ball.lift(x) for n, x in (point | self.sizes_at(point)).items() if n in formula.inputs}
            try:
                with np.errstate(all="ignore"):
                    with precision(_EXACT_BITS):
                        exact = nearest_float64(formula(lifted))
                    with precision(53):
                        rounding = radius(formula(lifted))
            except GradcliError:
                return False
            known = bool(np.all(np.isfinite(rounding))) and self._relative_error(exact, point, truth) <= ALLOWED
            if not known or any(np.any(np.abs(x - truth) > rounding) for x in found):
                return False
        return True

    def is_finite(self, code: str) -> bool:
        """Whether code has a finite value at hard points, wherever f and its derivative have one."""
        run = self._compile_code(code)
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return all(
                _is_finite(run, point) or not _is_finite(self._largest_value, point) or self.truth(point) is None
                for point in self._hard_points()
            )

    def _hard_points(self) -> Iterator[dict[str, Any]]:
        """Yield points with large, tiny and equal values of the input, and of all inputs without assumptions, masked or not."""
        rng = np.random.default_rng([self.problem.seed, 79])
        point = draw_point(self.problem, self.sizes_in_recording(0), rng)
        free = {n for n in self._free_inputs if n not in self.problem.compared}
        for moved in dict.fromkeys((frozenset({self.wrt} & free), frozenset(free))):
            for harden in _HARD if moved else ():
                yield point | {n: harden(point[n]) for n in moved}
        masks = [n for n, words in self.problem.facts.items() if "mask" in words]
        for value, harden in itertools.product((0.0, 1.0) if masks else (), _HARD):
            yield point | {n: harden(point[n]) for n in free} | {n: np.full_like(point[n], value) for n in masks}

    def refuse_unmet_comparisons(self) -> None:
        """Raise Unverified if a comparison of f by == or != is true at all points, or false at all of them.

        Beside a mask of -inf a comparison by order has to be met, too: where 0 times -inf is nan, no masked entry was seen.
        """
        seen: dict[int, set[bool]] = {}
        names: dict[int, set[str]] = {}
        masked = self._has_mask(self.points()[0][0])
        for point, _ in self.points() if self.problem.compared or masked else ():
            y = self.graph_at(point)
            for k, node in enumerate([*equality_comparisons(y), *(order_comparisons(y) if masked else ())]):
                names[k] = names_of_inputs(node)
                seen.setdefault(k, set()).update(np.unique(node.value).tolist())
        for k, met in seen.items():
            if len(met) < 2 and self.problem.continuous not in names[k] and names[k]:
                word = ", ".join(sorted(names[k]))
                where = "f has a value" if masked else "f was evaluated"
                says = f"a comparison of {word}, or a condition, is {str(bool(*met)).lower()} wherever {where}"
                do = "write -1e9 for -inf: 0 times -inf is nan, and f has no value where an entry is masked"
                by_number = f'compare an input with numbers, or say that it is 0 or 1: --assume "{min(names[k])}: mask"'
                raise Unverified(f"{says}, so that its formula cannot be confirmed", do=do if masked else by_number)

    def _has_mask(self, point: Mapping[str, Any]) -> bool:
        """Whether f has -inf as a constant; not where it has no value."""
        try:
            return has_infinity(self.graph_at(point))
        except (np.linalg.LinAlgError, GradcliError):
            return False

    def graph_at(self, point: Mapping[str, Any]) -> Any:
        """Return the value of f at a point as a graph of its inputs."""
        given = {n: x for n, x in point.items() if n != self.problem.direction}
        return value_as_graph(self.problem.f, self.problem.dims, given)

    def error(self, formula: Expression) -> float:
        """Return the largest error of a formula over all points.

        Error   relative to the largest entry; inf if the shape differs or an entry is not finite.
        """
        return self._largest_error(lambda point: self.value(formula, point))

    def value(self, formula: Expression, point: dict[str, Any]) -> Any:
        """Return the value of a formula at a point, whose sizes it may use by their names."""
        return formula({n: x for n, x in (point | self.sizes_at(point)).items() if n in formula.inputs})

    def sizes_at(self, point: Mapping[str, Any]) -> dict[str, Any]:
        """Return the sizes that the inputs have at a point, by their names."""
        found = {}
        for name, dims in self.problem.dims.items():
            for k, d in enumerate(dims):
                if d.isidentifier():
                    found[d] = np.float64(np.shape(point[name])[k])
        return found

    def _largest_value(self, point: dict[str, Any]) -> float:
        """Return the largest entry of |f|; nan if one is."""
        with np.errstate(all="ignore"):
            y = self.problem.f({n: x for n, x in point.items() if n != self.problem.direction})
        return float(np.max(np.abs(np.asarray(y, dtype=float)), initial=0.0))

    def _compile_code(self, code: str) -> Any:
        scope: dict[str, Any] = {}
        exec(compile(code, "<derived>", "exec"), scope)  # our own text: names are identifiers, all else from tables
        return lambda point: scope[self.kind](**{n: point[n] for n in self.problem.dims})

    def _mirrored_sizes(self) -> dict[str, int]:
        """Return sizes in the reverse of the order in which all others are: matrices that were wide are tall."""
        names = sorted(self.sizes, key=lambda n: self.sizes[n][0])
        return {n: self.sizes[other][0] for n, other in zip(names, reversed(names), strict=True)}

    def _point_of_mirrored_sizes(self) -> tuple[dict[str, Any], Any] | None:
        """Return a point of mirrored sizes with the derivative; None where f has none, such as the inverse of X.T @ X."""
        sizes = self._mirrored_sizes()
        if len(sizes) < 2 or not is_finite_at_sizes(self.problem, {n: (k,) * RECORDINGS for n, k in sizes.items()}):
            return None
        point = draw_point(self.problem, sizes, np.random.default_rng([self.problem.seed, 78]))
        truth = self.truth(point)
        return None if truth is None else (point, truth)

    def _largest_error(self, value: Any, points: Sequence[tuple[dict[str, Any], Any]] | None = None) -> float:
        known = self.points() if points is None else points
        with np.errstate(all="ignore"):
            return max((self._relative_error(value(point), point, truth) for point, truth in known), default=0.0)

    def _relative_error(self, found: Any, point: dict[str, Any], truth: Any) -> float:
        """Return the largest error of a value at a point, as `error` has it."""
        x = np.asarray(found, dtype=np.float64)
        if x.shape != truth.shape or not np.all(np.isfinite(x)):
            return float("inf")
        least = UNSEEN * max(1.0, self._largest_value(point))  # below it a derivative may be all rounding error
        scale = max(float(np.max(np.abs(truth), initial=0.0)), least)
        return float(np.max(np.abs(x - truth), initial=0.0)) / scale
