"""A hand derivation: whether it is right, and what is likely to be wrong with it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from gradcli.core.shapes import shape
from gradcli.derivation.derive import Derivation
from gradcli.derivation.expression import text as written
from gradcli.derivation.index import add, scaled
from gradcli.derivation.matrices import Printer
from gradcli.derivation.problem import RECORDINGS, in_sizes, named_shape
from gradcli.derivation.simplify import simplified
from gradcli.derivation.structure import matched
from gradcli.derivation.verified import ALLOWED, Verifier
from gradcli.errors import BadOption, BadShape, GradcliError, NotSupported
from gradcli.options import Options
from gradcli.point import Point
from gradcli.reports.derive import Answer, Result
from gradcli.source.expression import Expression
from gradcli.source.facts import FACTS
from gradcli.verify.build import Settings, request_for
from gradcli.verify.check import check
from gradcli.verify.claims import Claiming
from gradcli.verify.probe import LocateOptions, expression_at
from gradcli.verify.request import Request
from gradcli.words import OF_SHAPE, DiagnosisKind, Verdict

_SAME = 1e-9  # relative: ratios of entries that are one number
_OF_ONE_POINT = {DiagnosisKind.SCALED, DiagnosisKind.FACTOR}  # ratios, which say nothing if they differ at other points
_MODES = "certified,reverse,finite-difference"


def judged(made: Derivation, result: Result, text: str) -> Answer:
    """Return whether a hand derivation is right: by numbers and, where it can be read, as a formula.

    Raises  BadOption if it uses a name that is not an input.
    """
    formula = Expression(text)
    unknown = [n for n in formula.inputs if n not in made.problem.dims and n not in made.sizes]
    if unknown:
        raise BadOption(
            f"the answer uses '{unknown[0]}', which is not an input", do=f"inputs: {', '.join(made.problem.dims)}"
        )
    what = f"{result.kind} by {result.wrt}" + (f", times {result.direction}" if result.direction else "")
    hand = _Hand(made, result, text, formula)
    wrong = hand.wrong()
    if wrong is not None:
        right = f"; the {result.kind} is {result.formula.expression}"
        mistake = next(hand.mistakes(), None)
        likely = f"; likely mistake: {mistake}" if mistake else ""
        return Answer(text, "wrong", "numbers", f"{text} is not the {what}: {wrong}{right}{likely}")
    how: Literal["formulas", "numbers"] = "formulas" if hand.equals_the_result() else "numbers"
    error = hand.error()
    sure = f"{f'to {error:.0e}' if error else 'exactly,'} at random points of three sizes"
    sure = "the difference simplifies to zero" if how == "formulas" else sure
    return Answer(text, "right", how, f"{text} is the {what}: {sure}")


_TAKEN_FOR_GRANTED = {
    "symmetric": "{} is symmetric",
    "simplex": "the entries of {} sum to 1",
    "simplex rows": "the rows of {} sum to 1",
}
_STRONGER = {
    "symmetric": {"spd", "diagonal", "tied"},
    "simplex": {"onehot", "index"},
    "simplex rows": {"onehot rows", "index"},
}


class _Hand:
    """A hand derivation beside the derivative that was found."""

    def __init__(self, made: Derivation, result: Result, text: str, formula: Expression) -> None:
        self.made, self.result, self.text, self.formula = made, result, text, formula
        self.verifier = Verifier(made.problem, made.sizes, result.wrt, result.kind)

    def error(self) -> float:
        return self.verifier.error(self.formula)

    def wrong(self) -> str | None:
        """Return what is wrong with it as a phrase, in the user's sizes; None if nothing is."""
        point, truth = self.verifier.points()[0]
        sizes = self.sizes(0)
        try:
            found = np.shape(self.verifier.value(self.formula, point))
            error = self.error()
        except BadShape as bad:
            return f"it cannot be computed: {in_sizes(bad.what, sizes)}"
        if found != np.shape(truth):
            return f"its shape is {named_shape(found, sizes)}, not {named_shape(np.shape(truth), sizes)}"
        if error <= ALLOWED:
            return None
        return f"it is off by {error:.2g} times the largest entry" if np.isfinite(error) else "it is not finite"

    def sizes(self, k: int) -> dict[str, int]:
        return {n: v[k] for n, v in self.made.sizes.items()}

    def mistakes(self) -> Iterator[str]:
        """Yield likely mistakes: what would make the answer right, the likeliest first."""
        try:
            ratios = self._ratios()
            varies = bool(ratios) and not _is_constant(np.asarray(ratios))
            yield from self._of_sizes(ratios) if varies else ()
            yield from self._needs("simplex", "simplex rows")
            yield from self._as_a_claim(frozenset(_OF_ONE_POINT) if varies else frozenset())
        except (GradcliError, ValueError, ArithmeticError, np.linalg.LinAlgError):
            return

    def _needs(self, *assumed: str) -> Iterator[str]:
        """Yield what the answer takes for granted of an input, where it is right if that is assumed."""
        problem = self.made.problem
        for name, dims in problem.dims.items():
            facts = problem.facts.get(name, frozenset())
            for word in assumed:
                if name == self.result.wrt or not FACTS[word].fits(dims) or facts & (_STRONGER[word] | {word}):
                    continue
                under = replace(problem, facts={**problem.facts, name: facts | {word}})
                other = Verifier(under, self.made.sizes, self.result.wrt, self.result.kind)
                if other.error(self.formula) <= ALLOWED:
                    yield f'it is right only if {_TAKEN_FOR_GRANTED[word].format(name)} (--assume "{name}: {word}")'

    def _ratios(self) -> list[float]:
        """Return the answer over the right derivative at each of the sizes; nothing where that is no single number."""
        found = []
        points = self.verifier.points()
        for k in range(RECORDINGS):
            here = next(((p, t) for p, t in points if self._has(p, self.sizes(k))), None)
            if here is None:
                return []
            point, truth = here
            with np.errstate(all="ignore"):
                ratio = np.asarray(self.verifier.value(self.formula, point)) / truth
            if not _is_constant(ratio):
                return []
            found.append(float(np.ravel(ratio)[0]))
        return found

    def _has(self, point: Mapping[str, Any], sizes: Mapping[str, int]) -> bool:
        dims = self.made.problem.dims
        return all(
            n == sizes.get(d, n) for name, own in dims.items() for n, d in zip(shape(point[name]), own, strict=True)
        )

    def _of_sizes(self, ratios: list[float]) -> Iterator[str]:
        """Yield the ratio as a formula of the sizes."""
        try:
            ratio = self.made.reader().number(ratios)
        except NotSupported:
            return
        yield f"it is {written(Printer({}).write(ratio, ()))} times the right one: a size is mistaken for another"

    def _as_a_claim(self, without: frozenset[DiagnosisKind]) -> Iterator[str]:
        """Yield the mistake that `check` names at a point, and the edit that makes the answer right there."""
        problem = self.made.problem
        if self.result.kind != "gradient" or problem.f.kind != "expression" or problem.layout != "denominator":
            return
        values = {n: x for n, x in self.verifier.points()[0][0].items() if n in problem.f.inputs}
        located = expression_at(
            problem.f.text, [values], LocateOptions(problem.seed, wrt=self.result.wrt, sizes=self.sizes(0))
        )
        request = request_for(located, Claiming("grad", self.text), Settings(Options(modes=_MODES)))
        report = check(request)
        diagnosis = report.points[0].diagnosis
        if report.verdict != Verdict.FAIL or diagnosis is None:
            return
        if diagnosis.kind not in {DiagnosisKind.UNKNOWN, *OF_SHAPE, *without}:
            yield diagnosis.message
        yield from self._needs("symmetric")
        yield from self._repair(request, request.points[0])

    def _repair(self, request: Request, point: Point) -> Iterator[str]:
        from gradcli.diagnosis.budget import MOST, CauseBudget
        from gradcli.repair.patch import slip_of
        from gradcli.repair.repair import formula_repair

        for repair in formula_repair(request, point, (self.result.wrt,), CauseBudget(MOST)).repairs:
            if self.verifier.error(Expression(repair.text)) <= ALLOWED:  # at every size, too
                yield f"{slip_of(repair)}; {repair.text} is right"

    def equals_the_result(self) -> bool:
        """Whether the difference of the answer and the result simplifies to zero."""
        try:
            both = [
                self.made.read(self._of_inputs(f)) for f in (self.formula, Expression(self.result.formula.expression))
            ]
        except GradcliError:
            return False
        one, other = both
        again = other.tensor.renamed(matched(other.axes, one.axes))
        difference = add([one.tensor, scaled(again, -1)], one.tensor.free)
        return not simplified(difference, lambda t: len(t.terms)).terms

    @staticmethod
    def _of_inputs(f: Expression) -> Callable[[Mapping[str, Any]], Any]:
        return lambda values: f({n: x for n, x in values.items() if n in f.inputs})


def _is_constant(x: Any) -> bool:
    x = np.ravel(x)
    return bool(x.size and np.all(np.isfinite(x)) and np.all(np.abs(x - x[0]) <= _SAME * abs(x[0])) and x[0])
