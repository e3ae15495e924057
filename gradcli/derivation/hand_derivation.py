"""Hand derivations (--answer): which input each is by, whether it is right, and the slip that a wrong one has.

A slip is a hypothesis. It is named only where the right derivative with this slip in it has the values of the answer, or the
answer without it those of the derivative, at several random points of three sizes.
"""

import itertools
import re
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from gradcli.arithmetic.dual import jacobian_from_rows, unit_directions
from gradcli.arithmetic.recorded_program import RecordedProgram
from gradcli.arithmetic.tape import CONSTANT
from gradcli.checks.gradient_slips import (
    FACTORS,
    WHOLE_SLIPS,
    is_operation,
    negated,
    omit_contribution,
    pass_cotangent,
    slips_of_argument,
)
from gradcli.checks.on_tape import Edge, block_slips, change_rule_on_edge, edges_of
from gradcli.checks.wrong import MOST, CauseBudget
from gradcli.derivation.axes import match_indices
from gradcli.derivation.derive import Derivation
from gradcli.derivation.ending import OPEN
from gradcli.derivation.index import subtract
from gradcli.derivation.matrix_expression import expression_text as written
from gradcli.derivation.matrix_printing import Printer
from gradcli.derivation.simplify import simplified
from gradcli.derivation.sized_problem import RECORDINGS, name_shapes_in_text, named_shape
from gradcli.derivation.sized_recording import names_of_inputs, order_comparisons
from gradcli.derivation.verified import ALLOWED, Verifier
from gradcli.errors import BadOption, BadShape, GradcliError, NotSupported
from gradcli.modes.mode import Question
from gradcli.modes.recording import Budget, Effort
from gradcli.report.derive import Answer, Result
from gradcli.request.point import Array, Point
from gradcli.request.target_text import normalise_name
from gradcli.targets.derived import original_function
from gradcli.targets.expression import Expression
from gradcli.targets.facts import FACTS
from gradcli.targets.tokens import Statement, split_parts
from gradcli.tracing.primitive import Primitive, Rule
from gradcli.tracing.provenance import code_at
from gradcli.tracing.shapes import shape, size
from gradcli.words import DiagnosisKind

if TYPE_CHECKING:
    from gradcli.repair.repair import FormulaClaim


_LEFT_SIDES = ("d", "∂", "grad_", "grad", "g_", "nabla_", "∇_", "∇")  # before the name of an input
_QUOTIENT = re.compile(r"(?:(?<=^)|(?<=;))\s*[d∂]\s*\w*\s*/\s*[d∂]\s*(\w+)\s*=(?!=)")  # dL/dW =


def parse_answers(text: str, inputs: Collection[str]) -> dict[str | None, str]:
    """Return the answers in a text such as `p = softmax(z); dW = outer(p - y, x); b = p - y`, by the inputs that they name.

    Statements before them that name no input are helpers. The key is None for an answer that names no input either.

    Raises  BadOption for an input that is answered twice, and for a text without an answer.
    """
    helpers: list[str] = []
    found: dict[str | None, str] = {}
    pieces = split_parts(_QUOTIENT.sub(r" \1 =", text))
    for k, piece in enumerate(pieces):
        name, own = None if piece.name is None else normalise_name(piece.name.text), _text_without_name(piece)
        later = [normalise_name(_text_without_name(other)) for other in pieces[k + 1 :]]
        helps = name is not None and any(re.search(rf"\b{re.escape(name)}\b", text) for text in later)
        if name is not None and name not in inputs and not helps:
            rest = (name.removeprefix(start) for start in _LEFT_SIDES if name.startswith(start))
            name = next((word for word in rest if word in inputs), name)
        if name in found:
            raise BadOption(f"the derivative by {name} is answered twice", do="leave one out")
        if name in inputs or (name is None and piece is pieces[-1] and not found):
            found[name] = "; ".join([*helpers, own])
        elif name is None:
            raise BadOption(f"'{own}' does not say which input it is by", do="name it: x = ...; y = ...")
        else:
            helpers.append(f"{name} = {own}")
    if not found:
        says = f"the answer ends with '{helpers[-1]}', which is by no input"
        raise BadOption(says, do=f"inputs: {', '.join(inputs)}")
    return found


def _text_without_name(statement: Statement) -> str:
    """Return a statement as the user wrote it, without its name."""
    return statement.text[statement.columns[0] : statement.columns[-1] + 1]


def judge_answer(made: Derivation, result: Result, text: str) -> Answer:
    """Return whether a hand derivation is right: by numbers and, where it can be read, as a formula.

    Raises  BadOption if it uses a name that is neither an input nor a name of the function or of the steps.
    """
    hand = _Hand(made, result, text)
    what = f"your {result.kind} by {result.wrt}" + (f", times {result.direction}," if result.direction else "")
    wrong = hand.wrong()
    if wrong is not None:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # a slip may be tried where it has no value
            slip = next(hand.slips(), None)
        return Answer(text, "wrong", "numbers", f"{what} is wrong: {wrong}", slip)
    if hand.equals_the_result():
        return Answer(text, "right", "formulas", f"{what} is right: the difference simplifies to zero")
    error = hand.verifier.error(hand.formula)
    sure = f"{f'to {error:.0e}' if error else 'exactly,'} at random points of three sizes"
    return Answer(text, "right", "numbers", f"{what} is right: {sure}")


# The names that an answer may use beside inputs: those of the user's own statements, and those of the steps.

_NAMING = ("name", "adjoint")  # the steps that give a name to a part


def _statements_of_parts(made: Derivation, result: Result) -> Iterator[str]:
    """Yield the statements that give names to parts of the function, in order, such as `H = tanh(X@W)`."""
    f = original_function(made.problem.f)
    parts = split_parts(f.text, (";", "\n")) if isinstance(f, Expression) else []
    yield from (f"{s.name.text} = {_text_without_name(s)}" for s in parts if s.name is not None)
    yield from (step.after for step in result.steps if step.rule in _NAMING)
    yield from (f"{name} = {text}" for name, text in result.program)


def _resolve_names(made: Derivation, result: Result, text: str) -> tuple[dict[str, str], Expression]:
    """Return the statements that the names in an answer stand for, and the answer behind them. Raises BadOption."""
    inputs = frozenset(made.problem.dims)
    known = {*inputs, *made.sizes}
    places = "|".join(n for n, words in made.problem.facts.items() if "index" in words and n in made.problem.dims)
    if places and made.problem.dims[result.wrt]:
        # e_c and onehot(c), as it is written on paper, are onehot(c, n): n is the input's last size
        length = made.problem.dims[result.wrt][-1]
        text = re.sub(rf"\b(?:e_({places})\b|onehot\(({places})\))", rf"onehot(\1\2, {length})", text)
    offered: dict[str, tuple[str, Expression]] = {}
    for statement in _statements_of_parts(made, result):
        name = statement.partition(" = ")[0]
        try:
            value = Expression(statement, inputs)
        except GradcliError:  # a step that only indices can write
            continue
        if name.isidentifier() and name not in known | offered.keys() and {*value.inputs} <= known | offered.keys():
            offered[name] = statement, value
    needed = {*(alone := Expression(text, inputs)).inputs} - known
    if strange := [n for n in alone.inputs if n in needed - offered.keys()]:
        names = f"; names of parts: {', '.join(offered)}" if offered else ""
        do = f"inputs: {', '.join(made.problem.dims)}{names}; or say what it is: {strange[0]} = ...; {text}"
        raise BadOption(f"the answer uses '{strange[0]}', which is not an input", do=do)
    used: dict[str, str] = {}
    for name, (statement, value) in reversed(offered.items()):
        if name in needed:
            used = {name: statement, **used}
            needed |= {*value.inputs}
    return used, Expression("; ".join([*used.values(), text]), inputs)


# Slips. Tables: factors and changes of a whole derivative (gradcli.checks.gradient_slips), wrong partials
# (gradcli.checks.gradient_slips), edits of the text (gradcli.repair.edits); here what is taken for granted, and the rules of
# calculus.

_TAKEN_FOR_GRANTED = {
    "symmetric": "{} is symmetric",
    "simplex": "the entries of {} are not negative and sum to 1",
    "simplex rows": "the entries of {} are not negative and its rows sum to 1",
    "positive": "the entries of {} are positive",
    "signs": "the entries of {} are 1 or -1",
    "mask": "the entries of {} are 0 or 1",
    "unit": "{} has length 1",
    "orthogonal": "{} is orthogonal",
    "diagonal": "{} is diagonal",
}
_STRONGER = {
    "symmetric": {"spd", "diagonal", "tied"},
    "simplex": {"onehot", "index"},
    "simplex rows": {"onehot rows", "index"},
}
_RULES = {"product": "(u v)' = u' v + u v'", "quotient": "(u/v)' = (u' v - u v')/v**2"}
_OVER_AN_AXIS: tuple[tuple[str, Callable[[Array, int], Any]], ...] = (
    (
        "the derivative has it at each place of axis {}, which is missing",
        lambda g, axis: np.take(g, 0, axis=axis) if not np.any(np.ptp(g, axis=axis)) else None,
    ),
    ("it is summed over axis {} of the derivative, which stays", lambda g, axis: np.sum(g, axis=axis)),
    ("it is averaged over axis {} of the derivative, which stays", lambda g, axis: np.mean(g, axis=axis)),
)
_POWERS_OF_A_PART = {1: "is one too many", -1: "is missing", 2: "is twice too many", -2: "is missing twice"}
_SAME = 1e-9  # relative: two factors that are one number
_MOST_TRIALS = 2_000  # of changes of a rule, each a reverse sweep
_MOST_ENTRIES = 300  # of an operand, whose Jacobian is computed row by row


class _Hand:
    """A hand derivation beside the derivative that was found."""

    def __init__(self, made: Derivation, result: Result, text: str) -> None:
        self.made, self.result, self.text = made, result, text
        self.names, self.formula = _resolve_names(made, result, text)
        self.verifier = Verifier(made.problem, made.sizes, result.wrt, result.kind)

    @cached_property
    def rights(self) -> list[Array]:
        """The right derivative at the points of the verifier."""
        return [truth for _, truth in self.verifier.points()]

    @cached_property
    def values(self) -> list[Array]:
        """The values of the answer at the points of the verifier. Raises BadShape."""
        with np.errstate(all="ignore"):
            return [np.asarray(self.verifier.value(self.formula, point)) for point, _ in self.verifier.points()]

    def wrong(self) -> str | None:
        """Return what is wrong with it as a phrase, in the user's sizes; None if nothing is."""
        truth, sizes = self.rights[0], self._sizes_in_recording(0)
        try:
            found = np.shape(self.values[0])
        except BadShape as bad:
            return f"it cannot be computed: {name_shapes_in_text(bad.what, sizes)}"
        if found != np.shape(truth):
            return f"its shape is {named_shape(found, sizes)}, not {named_shape(np.shape(truth), sizes)}"
        error = self.verifier.error(self.formula)
        if error <= ALLOWED:
            return None
        return f"it is off by {error:.2g} times the largest entry" if np.isfinite(error) else "it is not finite"

    def equals_the_result(self) -> bool:
        """Whether the difference of the answer and the result simplifies to zero."""

        def taking_its_inputs(f: Expression) -> Callable[[Mapping[str, Any]], Any]:
            return lambda values: f({n: x for n, x in values.items() if n in f.inputs})

        try:
            found = Expression(self.result.formula.expression)
            one, other = (self.made.read(taking_its_inputs(f)) for f in (self.formula, found))
        except GradcliError:
            return False
        again = other.tensor.renamed(match_indices(other.axes, one.axes))
        difference = subtract(one.tensor, again, one.tensor.free)
        return not simplified(difference, lambda t: len(t.terms)).terms

    def _sizes_in_recording(self, k: int) -> dict[str, int]:
        return {n: v[k] for n, v in self.made.sizes.items()}

    def slips(self) -> Iterator[str]:
        """Yield the slips that explain the answer, the likeliest first."""
        try:
            computed = all(np.all(np.isfinite(value)) for value in self.values)
        except BadShape:
            computed = False
        for find in _OF_VALUES if computed else _OF_TEXT:
            yield from find(self)

    def _is_answer_at(self, k: int, made: Any) -> bool:
        """Whether the answer has these values at point k."""
        value, truth = self.values[k], self.rights[k]
        if np.shape(made) != np.shape(value) or not np.all(np.isfinite(made)):
            return False
        scale = max(float(np.max(np.abs(x), initial=0.0)) for x in (made, truth))
        return bool(np.max(np.abs(value - made), initial=0.0) <= ALLOWED * scale)

    def _is_answer(self, made: Iterable[Any]) -> bool:
        """Whether the answer has these values, one for each point; None is no value."""
        return all(x is not None and self._is_answer_at(k, x) for k, x in enumerate(made))

    # A whole derivative times a factor, transposed, or reduced.

    def factors(self) -> Iterator[str]:
        """Yield the factor by which the answer, or its transpose, is wrong: a sign, a number, or a formula of the sizes."""
        for turned in (False, True):
            found = self._find_factors([right.T if turned else right for right in self.rights])
            if not found or (turned and np.ndim(self.values[0]) < 2):
                continue
            flipped = found[0] < 0
            if any((x < 0) != flipped for x in found):
                continue
            factor = self._describe_factor([abs(x) for x in found], flipped)
            slips = ("the answer is transposed" if turned else "", factor, "the sign is flipped" if flipped else "")
            if factor is not None and any(slips):
                yield ", and ".join(filter(None, slips))

    def _describe_factor(self, found: list[float], flipped: bool) -> str | None:
        """Return a factor at each of the sizes in words; an empty text for 1, None for no formula of the sizes."""
        if self._is_one_number([1.0, *found]):
            return ""
        if self._is_one_number(found):
            named = (says for value, says in FACTORS if abs(found[0] / value - 1) <= _SAME)
            says = next(named, f"it is {found[0]:.6g} times the right one")
            cause = None if flipped else next(self.on_tape(), None)
            return f"{says}: {cause}" if cause else says
        try:
            ratio = written(Printer({}).write(self.made.reader().number(found), ()))
        except NotSupported:
            return None
        f = original_function(self.made.problem.f)
        averages = isinstance(f, Expression) and any(getattr(s, "operation", "") == "mean" for s in f.program.steps)
        for name in self.made.sizes:
            mean = "the mean's" if averages or name in f.inputs else "a factor"
            if ratio == name:
                return f"{mean} 1/{name} is missing"
            if ratio == f"{name}/2":
                return f"{mean} 1/{name} is missing, and so is a factor 2"
            if ratio == f"1/{name}":
                return f"a factor 1/{name} is too much"
        return f"it is {ratio} times the right one: a factor of sizes is wrong"

    def _find_factors(self, rights: list[Array]) -> list[float]:
        """Return the number by which the answer is a multiple of arrays, at each of the sizes; nothing where it is none."""
        found: list[float] = []
        if any(np.shape(right) != np.shape(value) for right, value in zip(rights, self.values, strict=True)):
            return []
        sizes = [self.verifier.sizes_at(p) for p, _ in self.verifier.points()]
        for k in range(RECORDINGS):
            own = [n for n, here in enumerate(sizes) if here == self._sizes_in_recording(k)]
            ratios = [float(np.vdot(rights[n], self.values[n]) / np.vdot(rights[n], rights[n])) for n in own]
            fits = all(self._is_answer_at(n, ratio * rights[n]) for n, ratio in zip(own, ratios, strict=True))
            if not own or not fits or not ratios[0] or not self._is_one_number(ratios):
                return []
            found.append(ratios[0])
        return found

    @staticmethod
    def _is_one_number(xs: Iterable[float]) -> bool:
        first, *rest = xs
        return all(abs(x - first) <= _SAME * abs(first) for x in rest)

    def as_a_whole(self) -> Iterator[str]:
        """Yield the change of the whole derivative that gives the answer: a sum that was broadcast, an axis that it lacks."""
        for slip in WHOLE_SLIPS:
            if slip.kind is not DiagnosisKind.ONE_TRIANGLE and self._is_answer(map(slip.makes, self.rights)):
                yield slip.says
        axes = np.ndim(self.rights[0])
        for axis, (says, how) in itertools.product(range(axes if np.ndim(self.values[0]) < axes else 0), _OVER_AN_AXIS):
            if self._is_answer(how(g, axis) for g in self.rights):
                yield says.format(axis)

    # What the answer takes for granted of an input, and derivatives by something else.

    def needs(self, *assumed: str) -> Iterator[str]:
        """Yield what the answer takes for granted of an input, where it is right if that is assumed."""
        problem = self.made.problem
        y = self.verifier.graph_at(self.verifier.points()[0][0])
        conditions = set().union(*map(names_of_inputs, order_comparisons(y)))
        for name, dims in problem.dims.items():
            facts = problem.facts.get(name, frozenset())
            for word in (w for w in assumed if name not in conditions or w == "positive"):  # 0 may be on the other side
                known = facts & (_STRONGER.get(word, facts) | {word})
                moves = name == self.result.wrt and word not in OPEN
                if known or moves or not FACTS[word].fits(dims):
                    continue
                under = replace(problem, facts={**problem.facts, name: facts | {word}})
                other = Verifier(under, self.made.sizes, self.result.wrt, self.result.kind)
                if other.error(self.formula) <= ALLOWED:
                    yield f'it is right if {_TAKEN_FOR_GRANTED[word].format(name)} (--assume "{name}: {word}")'

    def by_another(self) -> Iterator[str]:
        """Yield the input, or the part of f, of which the answer is the derivative in place of that by the input asked for."""
        wrt, problem = self.result.wrt, self.made.problem
        if self.result.kind == "hessian":
            return
        points = [dict(point) for point, _ in self.verifier.points()]
        for other in problem.dims:
            if other != wrt and "index" not in problem.facts.get(other, ()):
                verifier = Verifier(problem, self.made.sizes, other, self.result.kind)
                if self._is_answer(map(verifier.truth, points)):
                    yield f"it is the {self.result.kind} by {other}, and not by {wrt}"
        programs = self._recorded_programs
        if not programs or size(programs[0].y) != 1 or self.result.kind != "gradient":
            return
        bars = [p.tape.sweep(p.y.slot, np.ones(shape(p.y))[()]) for p in programs]
        for slot in range(programs[0].y.slot, len(programs[0].inputs) - 1, -1):
            code = code_at(programs[0].tape.position(slot))
            if code and self._is_answer(
                None if bar[slot] is None else self.verifier.in_layout(bar[slot]) for bar in bars
            ):
                yield f"it is the gradient by `{code}`, and not by {wrt}: the last factor of the chain rule is missing"

    # Slips in the rules of calculus, tried on the recorded program.

    @cached_property
    def _recorded_programs(self) -> list[RecordedProgram]:
        """The function recorded at each point as a function of the input; none where it cannot be."""
        f, wrt, found = self.made.problem.f, self.result.wrt, []
        if self.result.kind == "hessian":
            return []
        for point, _ in self.verifier.points():
            q = Question(f, Point({n: point[n] for n in f.inputs}), (wrt,), budget=Budget(Effort.ALL))
            if q.untraced is not None or not q.recording.moves:
                return []
            found.append(q.recording)
        return found

    def on_tape_and_factor(self) -> Iterator[str]:
        """Yield such a slip beside a wrong sign or a factor 2."""
        for sign, also in ((-1.0, "the sign is flipped"), (2.0, "a factor 2 too large"), (0.5, "a factor 2 too small")):
            yield from (f"{says}, and {also}" for says in self.on_tape(sign))

    def on_tape(self, factor: float = 1.0) -> Iterator[str]:
        """Yield the slip in a rule of calculus, in one operation of f, that gives the answer, up to a factor."""
        for number, (says, first) in enumerate(self._slips_at_first_point):
            if first is None or not self._is_answer_at(0, factor * first):
                continue

            def with_slip(program: RecordedProgram, number: int = number) -> Any:
                trials = itertools.islice(_planted_slips(program, self.result.wrt), number, None)
                return next((self._compute_slip(makes) for _, makes in trials), None)

            others = map(with_slip, self._recorded_programs[1:])
            if self._is_answer(factor * x if x is not None else None for x in (first, *others)):
                yield says

    @cached_property
    def _slips_at_first_point(self) -> list[tuple[str, Any]]:
        """Each slip in words, and the derivative that has it at the first point; None where it cannot be computed."""
        trials = (trial for first in self._recorded_programs[:1] for trial in _planted_slips(first, self.result.wrt))
        return [(says, self._compute_slip(makes)) for says, makes in itertools.islice(trials, _MOST_TRIALS)]

    def _compute_slip(self, makes: Callable[[], Any]) -> Any:
        try:
            found = makes()
            return None if found is None else self.verifier.in_layout(found)
        except (GradcliError, ValueError, IndexError, NotImplementedError, np.linalg.LinAlgError):
            return None  # this slip does not fit the shapes

    def by_slope(self) -> Iterator[str]:
        """Yield the function entry by entry whose derivative is a factor too many in the answer."""
        programs, rights = self._recorded_programs, self.rights
        for slot in reversed(range(len(programs[0].lines))) if programs else ():
            found = (_elementwise_slope(p, slot) for p in programs)
            slopes = [self._as_factor_of_rows(x, g) for x, g in zip(found, rights, strict=True)]
            code = code_at(programs[0].tape.position(slot))
            if code and self._is_answer(g * x for g, x in zip(rights, slopes, strict=True)):
                yield f"the derivative of `{code}` is a factor too many"

    def by_part(self) -> Iterator[str]:
        """Yield the part of f that is a factor too many in the answer, or one that is missing."""
        programs, rights = self._recorded_programs, self.rights
        for slot in reversed(range(len(programs[0].lines))) if programs else ():
            code = code_at(programs[0].tape.position(slot)) or self.result.wrt
            factors = [self._as_factor_of_rows(p.tape.value(slot), g) for p, g in zip(programs, rights, strict=True)]
            for power, says in _POWERS_OF_A_PART.items():
                if self._is_answer(g * x ** float(power) for g, x in zip(rights, factors, strict=True)):
                    quotients = [s for p, s, *_ in programs[0].lines if p is not None and p.name == "divide"]
                    divides = power == 1 and any(slots[1] == slot for slots in quotients)
                    why = ": the quotient rule has the square of the denominator" if divides else ""
                    yield f"a factor `{code}` {says}{why}"

    @staticmethod
    def _as_factor_of_rows(x: Any, right: Array) -> Any:
        """Return a part of f as a factor of each row, or of each entry, of a derivative; nan where it is neither."""
        x = x[:, None] if np.ndim(x) == 1 and np.ndim(right) == 2 and len(x) == len(right) else x
        fits = np.shape(x) in ((), np.shape(right), (*np.shape(right)[:1], 1))
        return x if fits else np.nan

    def by_number(self) -> Iterator[str]:
        """Say that each entry is wrong by one factor, a number that depends on the inputs."""
        if np.shape(self.rights[0]) in ((), (1,)) or np.shape(self.rights[0]) != np.shape(self.values[0]):
            return
        if self._is_answer(g * (np.vdot(g, v) / np.vdot(g, g)) for g, v in zip(self.rights, self.values, strict=True)):
            yield "all entries are wrong by one factor, a number that depends on the inputs"

    # Edits of the answer's text.

    def by_edit(self) -> Iterator[str]:
        """Yield the edit of the answer that makes it right: a transpose, an axis, a sum, a name."""
        from gradcli.repair.repair import describe_repair
        from gradcli.repair.search import RepairSearch

        claim = self._editable_claim
        if claim is None:
            return
        for sign, also in ((1.0, ""), (-1.0, ", up to the sign, which is flipped")):
            points = [replace(p, gradient={name: sign * g for name, g in p.gradient.items()}) for p in claim.points]
            for repair in RepairSearch(points, budget=CauseBudget(MOST)).repairs(claim):
                yield f"{describe_repair(repair)}, and it is right then{also}"

    def by_transpose(self) -> Iterator[str]:
        """Yield a transpose with which the shapes fit, although the answer is wrong then."""
        from gradcli.repair.repair import describe_repair
        from gradcli.repair.scope import apply_changes as edited
        from gradcli.repair.search import Repair

        claim = self._editable_claim
        if claim is None or claim.gradient((), 0) is not None:
            return
        for edit in claim.edits():
            if edit.kind == "transpose" and claim.gradient(edit.changes, 0) is not None:
                repair = Repair(edited(claim.text, edit.changes), (edit,), (claim.text,))
                yield f"{describe_repair(repair)} for the shapes to fit, but the answer is wrong then, too"

    @cached_property
    def _editable_claim(self) -> "FormulaClaim | None":
        """The answer as a text that can be edited; None for the transpose of a gradient, which edits cannot be compared with."""
        from gradcli.repair.repair import FormulaClaim
        from gradcli.repair.scope import Right

        wrt, inputs, points = self.result.wrt, frozenset(self.made.problem.dims), []
        if self.made.problem.layout == "numerator" and len(self.made.problem.dims[wrt]) > 1:
            return None
        for point, truth in self.verifier.points():
            sizes = self.verifier.sizes_at(point)
            known = {name: Expression("; ".join([*self.names.values(), name]), inputs) for name in self.names}
            named = {name: self.verifier.value(f, point) for name, f in known.items()}
            room = ALLOWED * float(np.max(np.abs(truth), initial=0.0))
            outputs = np.shape(truth)[: np.ndim(truth) - len(shape(point[wrt]))]
            points.append(Right({**sizes, **point, **named}, {wrt: truth}, {wrt: room}, outputs, sizes=sizes))
        return FormulaClaim(self.text, (wrt,), {}, points)


_OF_VALUES: tuple[Callable[[_Hand], Iterator[str]], ...] = (
    _Hand.factors, _Hand.as_a_whole, lambda hand: hand.needs("simplex", "simplex rows"),
    _Hand.by_another, _Hand.by_slope, _Hand.on_tape, lambda hand: hand.needs("symmetric"), _Hand.by_part,
    _Hand.on_tape_and_factor,
    lambda hand: hand.needs("positive", "signs", "mask", "unit", "orthogonal", "diagonal"),
    _Hand.by_edit, _Hand.by_number, _Hand.by_transpose,
)  # fmt: skip
_OF_TEXT = (_Hand.by_edit, _Hand.by_transpose)  # where the answer cannot be computed


def _elementwise_slope(program: RecordedProgram, slot: int) -> Any:
    """Return the derivative of a function entry by entry at each of its entries; nan for anything else."""
    primitive, slots, xs, y, params, _ = program.lines[slot]
    if primitive is None or len(slots) != 1 or primitive.kind != "elementwise":
        return np.nan
    return primitive.rule(0).push(primitive, 0, y, xs, np.ones(shape(y))[()], params or {})


def _planted_slips(program: RecordedProgram, wrt: str) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield each slip in a rule of calculus in words, with the function that returns the derivative that has it."""
    edges = list(edges_of(program))
    for edge in edges:
        for says, rule in _slips_in_rule(program, edge, wrt):
            yield says, partial(_derivative_of_program, change_rule_on_edge(program, edge, rule))
    yield from _slips_in_products(program)
    for edge in edges:
        _, _, xs, y, _, _ = program.lines[edge.lines[-1]]
        code = code_at(edge.position)
        for _, says, other in slips_of_argument(edge.primitive, edge.i, y, xs, code):
            yield f"{says}, in `{code}`", partial(_derivative_of_program, change_rule_on_edge(program, edge, other))
    for trial in block_slips(program):
        yield f"{trial.says}, in `{code_at(trial.position)}`", partial(_derivative_of_program, trial.program)


def _derivative_of_program(program: RecordedProgram) -> Any:
    value = program.tape.value(program.y.slot)
    rows = [program.pull(seed) for seed in unit_directions(value)]
    return jacobian_from_rows(rows, value, 0, program.inputs[0].primal)


def _slips_in_rule(program: RecordedProgram, edge: Edge, wrt: str) -> Iterator[tuple[str, Callable[[Rule], Rule]]]:
    """Yield the slips in the product rule, the quotient rule, the chain rule and the sum rule at one operand."""
    k = edge.lines[-1]
    slots, code = program.tape.operands(k), code_at(edge.position)
    operand = code_at(program.tape.position(slots[edge.i])) or wrt
    if sum(slot != CONSTANT for slot in slots) > 1:
        if slots.count(slots[edge.i]) > 1:
            return
        rule = _name_of_rule(edge.primitive, code)
        which = f"the one with the derivative of `{operand}`: in `{code}`, {_RULES[rule]}" if rule else ""
        term = f"a term of the {rule} rule" if rule else f"a part of the derivative of `{code}`"
        where = f", {which}" if rule else f", that through `{operand}`" if operand != code else ""
        yield f"{term} is missing{where}", omit_contribution
        yield f"{term} has the wrong sign{where}", negated
    else:
        yield f"`{code}` is taken as a constant", omit_contribution
        yield f"the derivative of `{code}` has the wrong sign", negated
        if edge.primitive.kind == "elementwise" and k != program.y.slot:
            yield f"a factor of the chain rule is missing: the derivative of `{code}`", pass_cotangent


def _name_of_rule(primitive: Primitive, code: str) -> str:
    """Return the rule by which an operation is differentiated as the user wrote it; nothing for the inside of a function."""
    if primitive.kind == "bilinear":
        return "product"
    return {"multiply": "product", "divide": "quotient"}.get(primitive.name, "") if is_operation(code) else ""


def _slips_in_products(program: RecordedProgram) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield the product, or quotient, of derivatives in place of the product rule at each product of f."""
    for k, (primitive, slots, xs, _, _, position) in enumerate(program.lines):
        rule = "" if primitive is None else _name_of_rule(primitive, code_at(position))
        if rule and CONSTANT not in slots and slots[0] != slots[1] and max(map(size, xs)) <= _MOST_ENTRIES:
            says = f"the derivative of the {rule} `{code_at(position)}` is taken as the {rule} of the derivatives"
            yield f"{says}; the {rule} rule is {_RULES[rule]}", partial(_product_of_derivatives, program, k)


def _product_of_derivatives(program: RecordedProgram, k: int) -> Any:
    """Return the gradient in which line k, an operation of two operands, is that operation of their derivatives."""
    y, (x,), tape = program
    primitive, slots, xs, _, params, _ = program.lines[k]
    if primitive is None or size(tape.value(y.slot)) != 1:
        return None
    rest = _derivative_of_program(program.with_rules({k: {i: omit_contribution(primitive.rule(i)) for i in (0, 1)}}))
    ybar = tape.sweep(y.slot, np.ones(shape(tape.value(y.slot)))[()])[k]
    columns = []
    for slot, operand in zip(slots, xs, strict=True):
        rows = [tape.sweep(slot, seed)[x.slot] for seed in unit_directions(operand)]
        whole = np.stack([np.ravel(np.zeros(shape(x.primal)) if row is None else row) for row in rows], axis=-1)
        columns.append(whole.reshape(-1, *shape(operand)))
    moved = [np.sum(ybar * primitive.fun(u[()], v[()], **(params or {}))) for u, v in zip(*columns, strict=True)]
    return rest + np.reshape(moved, shape(x.primal))
