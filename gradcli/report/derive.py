"""The report of `derive`: closed forms, how they were found, code, and how well they were checked."""

import re
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import field
from itertools import groupby
from typing import Literal
from xml.sax.saxutils import escape

from gradcli.classes import dataclass
from gradcli.report import numbers
from gradcli.report.blocks import (
    WORDS,
    Block,
    Cell,
    Code,
    Figure,
    Folded,
    Heading,
    Headline,
    Mathematics,
    Paragraph,
    Piece,
    Table,
    make_visible,
    shorten_text,
)
from gradcli.report.check import CheckReport
from gradcli.report.common import ABSENT, Absent, ErrorDetail, Finding, Printed, Target, seed_line
from gradcli.report.encode import TEXT_ONLY, Given, Status, Values
from gradcli.report.trace import TraceReport
from gradcli.words import Verdict

DerivedKind = Literal["gradient", "jacobian", "hessian"]


@dataclass(frozen=True, slots=True)
class Formula:
    """A closed form in several notations; `expression` is gradcli's language.

    expression  The formula in gradcli's own language, which it can read again.
    unicode     The formula for people, with signs such as ᵀ.
    latex       The formula in LaTeX.
    mathml      The formula in MathML.
    """

    expression: str
    unicode: str
    latex: str
    mathml: str

    def whole(self) -> Mathematics:
        """Return all its statements under each other."""
        return Mathematics(self.unicode, "strong", align_equations(self.latex.split(BREAK)), self.mathml)

    def lines(self) -> tuple[Mathematics, ...]:
        """Return its statements, those of named parts first."""
        mathml = [mathml_lines([row]) for row in mathml_rows(self.mathml)]
        parts = zip(self.unicode.split("; "), self.latex.split(BREAK), mathml, strict=True)
        return tuple(Mathematics(text, "strong", latex, element) for text, latex, element in parts)


ERROR_OF_LAYER = "error of a layer"
NAMING = ("name", ERROR_OF_LAYER)  # the rules of steps that give a name to a value
_DERIVATIVES = {
    "inverse": "derivative of an inverse", "determinant": "derivative of a determinant", "log det": "derivative of log det",
    "solve": "derivative of the solution of a linear system", "norm": "derivative of a norm",
    "squared norm": "derivative of a squared norm", "exponential": "derivative of the exponential",
    "logarithm": "derivative of the logarithm", "softmax": "derivative of softmax", "logsumexp": "derivative of logsumexp",
    "linearity": "linearity of the differential", "constant multiple": "linearity of the differential",
    "logarithmic differentiation": "derivative of a power whose exponent moves, too",
}  # fmt: skip
_REASONS = {
    "name": "Let",
    ERROR_OF_LAYER: "The error δ of a layer is the derivative of f with respect to what the layer gives its function:",
    "gradient": "The gradient is",
    "adjoint": "Backward, the adjoint of each value, the derivative of f with respect to it:",
    "substitute": "Substitute the lines above into it:",
    "scalar = trace": "A number is its own trace, in which a row and a column change places:",
    "cyclic rule": "Rotate the factors of each trace, tr(AB) = tr(BA), so that the differential of the input stands last:",
    "transpose": "Transpose the products, so that the differential of the input stands last:",
    "collect": "Collect the terms:",
    "cases": "Write it by cases:",
    "symmetry": "The derivative is its own transpose:",
    "read off": "The derivative is what the differential of the input is multiplied with:",
    "Kronecker delta": "A sum with a Kronecker delta has one term that is not 0:",
}


@dataclass(frozen=True, slots=True)
class Step:
    """One move: its rule, what it was applied to, what came of it, where, and what it needs.

    rule       The name of the rule.
    before     What the rule was applied to; empty for a name that is introduced.
    after      What came of it.
    where      The file and line of the code, or the columns of the expression; null where it is not known.
    condition  What has to hold for the rule; null where nothing has.
    unicode    What came of it, for people, with signs such as ᵀ.
    latex      What came of it in LaTeX.
    mathml     What came of it in MathML.
    """

    rule: str
    before: str
    after: str
    where: str | None = None
    condition: str | None = None
    unicode: str = ""
    latex: str = ""
    mathml: str = ""

    @property
    def reason(self) -> str:
        """What is done and why, as the beginning of a sentence that ends with the formula, and what it needs in brackets."""
        rules = self.rule.split(", ")
        if self.rule == "transpose" and not self.after.startswith("df "):
            said = "Transpose both sides:"
        elif self.rule == "read off" and self.before.endswith("_bar"):
            said = "The derivative is the adjoint of the input:"
        elif self.rule == "read off" and self.before.endswith("_bar, which is linear in its seed"):
            said = "The derivative is read off the adjoint of the input, which is linear in its seed:"
        elif self.rule == "read off" and ".T@" in self.before:
            said = "The transpose of the derivative is what the differential of the input is multiplied with:"
        elif self.rule == "read off" and ".T = " in self.after:
            said = "The transpose of the derivative is what stands before the differential of the input in the trace:"
        elif self.rule in _REASONS:
            said = _REASONS[self.rule]
        elif all(rule in _DERIVATIVES or rule.endswith(" rule") or rule.startswith("chain rule: ") for rule in rules):
            *most, last = (_DERIVATIVES.get(rule, rule.replace("chain rule:", "chain rule for")) for rule in rules)
            said = f"By the {', the '.join(most)} and the {last}:" if most else f"By the {last}:"
        else:
            said = f"Rewrite, since {self.rule}:" if " is " in self.rule else f"Rewrite ({self.rule}):"
        return f"{said[:-1]} ({self.condition}):" if self.condition else said

    @property
    def names(self) -> bool:
        """Whether it gives a name to a value."""
        return self.rule in NAMING

    @property
    def formula(self) -> Piece:
        """What came of it, as mathematics where that has a sign for everything."""
        return Mathematics(self.unicode, "plain", self.latex, self.mathml) if self.mathml else Piece(self.unicode)


@dataclass(frozen=True, slots=True)
class Check:
    """How well a closed form was checked: against certified derivatives at random points of several sizes.

    verdict             The outcome; what does not pass is refused, and is no result.
    max_relative_error  The largest relative error of the formula and of the code over all points.
    points              The number of random points.
    sizes               The sizes by name at which it was checked.
    finite              Whether the code is finite at the extreme values that were tried, wherever the derivative is.
    """

    verdict: Literal["pass"]
    max_relative_error: float
    points: int
    sizes: tuple[dict[str, int], ...]
    finite: bool = True


@dataclass(frozen=True, slots=True)
class Cost:
    """What the program costs, as expressions of the sizes: operations, the leading ones, and numbers held at once.

    operations  The number of operations, as an expression of the sizes.
    leading     Its leading terms.
    memory      The numbers held at once, as an expression of the sizes.
    """

    operations: str
    leading: str
    memory: str

    def said(self) -> str:
        """Return it as a line: 2 m n + 3 m operations, m + n numbers of memory; of many terms those that lead."""
        long = len(self.operations.split(" ")) > 2 * _TERMS - 1
        shown = f"about {_write_polynomial(self.leading)}" if long else _write_polynomial(self.operations)
        held = "" if self.memory == "0" else f", {_write_polynomial(self.memory)} numbers of memory"
        return f"{shown} operations{held}"


_TERMS = 3  # of a polynomial, that are all shown
_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def _write_polynomial(text: str) -> str:
    raised = re.sub(r"\*\*(\d+)", lambda found: found[1].translate(_RAISED), text)
    return raised.replace("*", " ")


@dataclass(frozen=True, slots=True)
class Answer:
    """Whether a hand derivation is right, and how it was found out.

    text     The hand derivation as it was given.
    verdict  Whether the hand derivation is right.
    how      Whether formulas or numbers decided it.
    message  The same as a sentence.
    slip     The slip that was shown to be in a wrong hand derivation; null where none was.
    """

    text: str
    verdict: Literal["right", "wrong"]
    how: Literal["formulas", "numbers"]
    message: str
    slip: str | None = None

    def blocks(self) -> tuple[Block, ...]:
        """Return the verdict, then the slip, then what was judged."""
        if self.verdict == "right":
            return (Headline(*WORDS[Verdict.PASS], self.message),)
        slip = self.slip or "gradcli knows none that explains it"
        return Headline(*WORDS[Verdict.FAIL], self.message), Paragraph((Piece("slip: ", "bad"), Piece(slip)))


@dataclass(frozen=True, slots=True)
class Result:
    """The derivative with respect to one input.

    wrt          The input with respect to which the derivative is taken.
    shape        The sizes of this input, by name or number; empty for a number.
    kind         Which derivative it is.
    formula      The closed form in several notations.
    program      The parts that the formula names, each a name and an expression; empty where it names none.
    steps        How it was found, in order.
    code         The code by language.
    operations   The operations of the function, of the program, and of the formula written out.
    check        How well the closed form was checked.
    index        The closed form with indices.
    index_latex  The same in LaTeX.
    index_mathml  The same in MathML.
    answer       Whether the hand derivation (--answer) is right.
    uncoded      Why there is no code, by language.
    cost         What the program costs, as expressions of the sizes.
    value        The derivative at the point that was given.
    value_error  The relative error of this value against the certified derivative, where there is one.
    direction    What a Hessian is multiplied with, one more argument of the code.
    """

    wrt: str
    shape: tuple[str, ...]
    kind: DerivedKind
    formula: Formula
    program: tuple[tuple[str, str], ...]
    steps: tuple[Step, ...]
    code: dict[str, str]
    operations: dict[str, int]
    check: Check
    index: str
    index_latex: str
    index_mathml: str
    answer: Answer | Absent = ABSENT
    uncoded: dict[str, str] = field(default_factory=dict)
    cost: Cost | Absent = ABSENT
    value: Values | Absent = ABSENT
    value_error: float | Absent = ABSENT
    direction: str | Absent = ABSENT

    @property
    def kind_name(self) -> str:
        """What the derivative is called: by a number, a Hessian is a second derivative."""
        return "second derivative" if self.kind == "hessian" and not self.shape else self.kind


@dataclass(frozen=True, slots=True, repr=False)
class DeriveReport(Printed):
    """Closed forms of the derivatives of one function.

    target       What was differentiated.
    shapes       The sizes of every input by name; empty for a number.
    assume       What is assumed of inputs, by name.
    seed         The seed of everything that was drawn.
    layout       How derivatives are laid out, in words.
    results      The derivative with respect to each input, where it has a closed form.
    findings     What is worth knowing of the function, and what was refused.
    exit_status  The exit status of this command.
    environment  The versions of what the result depends on, by name, and the number of threads.
    schema       The name of this schema, with its number.
    line         The line of standard input that asked for it, counted from 1.
    at           The value of every input by name, where --at gives a point.
    drawn        The inputs whose values were drawn at random, where --at gives a point.
    sizes        The lengths at the point that got names, by name.
    refused      Why there is no closed form, by the input.
    function     What was differentiated, in LaTeX; empty where it has no formula.
    function_mathml  The same in MathML.
    """

    target: Target
    shapes: dict[str, tuple[str, ...]]
    assume: dict[str, tuple[str, ...]]
    seed: int
    layout: str
    results: tuple[Result, ...]
    findings: tuple[Finding, ...]
    exit_status: Status
    environment: dict[str, str | int]
    schema: str = "gradcli.derive/2"
    line: int | Absent = ABSENT
    at: dict[str, Given] | Absent = ABSENT
    drawn: tuple[str, ...] | Absent = ABSENT
    sizes: dict[str, int] | Absent = ABSENT  # the names that were given to lengths at the point
    refused: dict[str, ErrorDetail] | Absent = ABSENT
    function: str = ""
    function_mathml: str = ""
    shown: tuple[str, ...] = field(default=("numpy",), metadata={TEXT_ONLY: True})  # the languages whose code is text
    solution: bool = field(default=True, metadata={TEXT_ONLY: True})  # whether text has it, beside an answer

    def blocks(self) -> tuple[Block, ...]:
        """Return what is said of answers, the variables, then for each input the steps, the result, the check and the code."""
        hidden = [Paragraph("--show shows the derivation, the result and its code")]
        solution = self._solution_blocks(narrated=False) if self.solution else hidden
        return (*self._answer_blocks(), *self._heading_blocks(), *solution, *seed_line(self.seed))

    def page_blocks(self) -> tuple[Block | Figure, ...]:
        """Return the same for a page: the function as a formula, the results, and a sentence before the formulas of each step.

        Beside an answer the solution is folded.
        """
        text = self.target.text.strip()
        title = Mathematics(text, "plain", self.function, self.function_mathml) if self.function_mathml else text
        found = [Paragraph(r.formula.whole()) for r in self.results] if self.solution else []
        derived = tuple(self._solution_blocks(narrated=True))
        solution = derived if self.solution else (Folded("The derivation, the result and its code", derived),)
        head = (Heading(title, 1), *found, *self._answer_blocks(), *self._heading_blocks())
        return (*head, *solution, *seed_line(self.seed))

    def _answer_blocks(self) -> list[Block]:
        return [block for r in self.results if isinstance(r.answer, Answer) for block in r.answer.blocks()]

    def _heading_blocks(self) -> Iterator[Block]:
        variables: list[Piece] = []
        for name, dims in self.shapes.items():
            shown = f"{name} {_sizes_in_words(dims) if dims else 'a number'}"
            variables += [Piece("; ")] if variables else []
            variables.append(Mathematics(shown, "plain", space_in_latex(name, dims), _space_in_mathml(name, dims)))
            variables += [Piece(f" ({', '.join(self.assume[name])})")] if name in self.assume else []
        rows: list[Sequence[Cell]] = [("f", self.target.text), ("variables", tuple(variables))]
        if not isinstance(self.at, Absent):
            rows.append(("at", numbers.write_point(self.at, self.drawn or ())))
        if not isinstance(self.sizes, Absent):
            named = ", ".join(f"{n} = {k}" for n, k in self.sizes.items())
            rows.append(("sizes", f"from --at: {named}; give --shapes if equal lengths are not the same size"))
        rows.append(("layout", self.layout))
        yield Table(("", ""), rows)
        for f in self.findings:
            place = "" if f.line is None else f" ({f.file}:{f.line}: {f.source})" if f.file else f" ({f.source})"
            said = f"{f.message}{place}" + (f"; {f.hint}" if f.hint else "")
            yield Paragraph((Piece(f"{f.kind}: ", "unsure"), Piece(said)))

    def _solution_blocks(self, *, narrated: bool) -> Iterator[Block]:
        several = len(self.results) > 1
        if shared := self.shared:
            yield from narrate_steps(shared) if narrated else [_step_table(shared, "used below")]
        for result in self.results:
            title = f"{result.kind_name} by {result.wrt}:" if several else ""
            own = self.own_steps(result)
            if narrated:
                math = f'<math xmlns="http://www.w3.org/1998/Math/MathML">{mathml_name(result.wrt)}</math>'
                name = Mathematics(result.wrt, "plain", latex_name(result.wrt), math)
                yield Heading((Piece(f"{result.kind_name.capitalize()} by "), name))
                yield from narrate_steps(own)
            elif own:
                yield _step_table(own, title=title)
            yield _result_table(result, self.said_of_direction(result), narrated)
            yield from _code_blocks(result, self.shown)

    def brief(self) -> tuple[str, ...]:
        """Return what is said of answers, a line for each derivative, and for each that was refused."""
        answers = [r.answer for r in self.results if isinstance(r.answer, Answer)]
        judged = [f"{WORDS[Verdict.PASS if a.verdict == 'right' else Verdict.FAIL][0]} {a.message}" for a in answers]
        slips = [f"  slip: {a.slip}" for a in answers if a.slip]
        derived = [f"{r.kind_name} by {r.wrt}: {r.formula.expression}" for r in self.results]
        refused = [f"none by {wrt}: {error.message}" for wrt, error in (self.refused or {}).items()]
        return tuple(" ".join(make_visible(line).split()) for line in (*judged, *slips, *derived, *refused))

    def gist(self) -> str:
        """Return the target, what was derived, and what was refused."""
        kinds = dict.fromkeys(result.kind for result in self.results)
        said = [f"{kind} by {', '.join(r.wrt for r in self.results if r.kind == kind)}" for kind in kinds]
        said += [f"none by {', '.join(self.refused)}"] if self.refused else []
        return f"{shorten_text(self.target.text)}: {'; '.join(said) or 'no closed form'}"

    @property
    def shared(self) -> tuple[Step, ...]:
        """The named lines of the function that the steps of several results have, each once."""
        named: dict[str, list[Step]] = {}  # the steps that give each name
        for step in (step for result in self.results for step in result.steps if step.names):
            named.setdefault(step.after.partition(" = ")[0].partition("[")[0], []).append(step)
        shared: dict[str, Step] = {}
        for word, (step, *others) in named.items():
            used = set(_WORD.findall(step.after.partition(" = ")[2])) & named.keys()
            if others and {other.unicode for other in others} == {step.unicode} and used <= shared.keys():
                shared[word] = step
        return tuple(shared.values())

    def own_steps(self, result: Result) -> tuple[Step, ...]:
        """Return the steps of a result that are not shared with others."""
        shared = {step.unicode for step in self.shared}
        return tuple(step for step in result.steps if not step.names or step.unicode not in shared)

    def said_of_direction(self, result: Result) -> str:
        """Return what the direction is of which a Hessian's product is a function; nothing where there is none."""
        tied = " and is symmetric" if "tied" in self.assume.get(result.wrt, ()) else ""
        return f"{result.direction} has the shape of {result.wrt}{tied}" if result.direction else ""


_WORD = re.compile(r"[^\W\d]\w*")


def _step_table(steps: tuple[Step, ...], head: str = "step", title: str = "") -> Table:
    """Return steps, those of a program with its lines; its file is not said where it is the only one."""
    places = [(s.where or "").rpartition(":") for s in steps]
    files = {file for file, _, _ in places if file}
    lines = [line if len(files) == 1 or not file else f"{file}:{line}" for file, _, line in places] if files else []
    columns: dict[str, list[Cell]] = {
        "": [str(k) for k in range(1, len(steps) + 1)],
        head: [s.rule for s in steps],
        "formula": [s.formula for s in steps],
        "condition": [s.condition or "" for s in steps],
        "line": [*lines],
    }
    kept = {name: cells for name, cells in columns.items() if any(cells)}
    return Table([*kept], [*zip(*kept.values(), strict=True)], {0}, title)


def narrate_steps(steps: Sequence[Step]) -> Iterator[Block]:
    """Yield steps as sentences with their formulas, those with one reason under each other."""
    for reason, own in groupby(steps, key=lambda step: step.reason):
        formulas = list(own)
        yield Paragraph(reason)
        rows = [row for step in formulas if step.mathml for row in mathml_rows(step.mathml)]
        if rows:
            text = "; ".join(step.unicode for step in formulas if step.mathml)
            latex = align_equations([line for step in formulas if step.latex for line in step.latex.split(BREAK)])
            yield Paragraph(Mathematics(text, "plain", latex, mathml_lines(rows)), 4)
        for step in formulas:
            if not step.mathml:
                yield Paragraph(step.unicode, 4)


def _result_table(result: Result, direction: str, narrated: bool) -> Table:
    """Return what was derived, how well it was checked, and what it costs."""
    head = f"{result.kind_name} by {result.wrt}" + (f", {_sizes_in_words(result.shape)}" if result.shape else "")
    lines = (result.formula.whole(),) if narrated else result.formula.lines()
    rows: list[Sequence[Cell]] = [(head if k == 0 else "", line) for k, line in enumerate(lines)]
    rows += [("", direction)] if direction else []
    if not isinstance(result.value, Absent):
        compared = "not compared with a derivative"
        if not isinstance(result.value_error, Absent):
            compared = f"relative error {numbers.write_bound(result.value_error)} against the derivative there"
        rows.append(("at the point", f"{numbers.list_entries(result.value)}; {compared}"))
    rows.append(("with indices", Mathematics(result.index, "plain", result.index_latex, result.index_mathml)))
    sizes = ", ".join(sorted({str(n) for s in result.check.sizes for n in s.values()}, key=int))
    checked = f"{result.check.points} points{f', sizes {sizes}' if sizes else ''}"
    error = numbers.write_bound(result.check.max_relative_error)
    rows.append(("checked", f"{checked}: largest relative error {error} against certified values"))
    rows.append(("operations", ", ".join(f"{k} {v:,}" for k, v in result.operations.items())))
    rows += [("cost", result.cost.said())] if result.cost else []
    says = "the numpy code was run against certified values"
    others = ((_SPELLED.get(name, name), code) for name, code in result.code.items() if name != "numpy")
    tested = [name for name, code in others if strip_self_test(code) != code]
    if tested:
        names = " and ".join(filter(None, [", ".join(tested[:-1]), tested[-1]]))
        says += f"; the {names} code {'carry' if len(tested) > 1 else 'carries'} a self-test"
    if not result.check.finite:
        says += "; it is not finite at some extreme values where the derivative is"
    return Table(("", ""), (*rows, ("code", says)))


def _sizes_in_words(dims: Sequence[str]) -> str:
    """Return sizes as they are read: m x n, m x (n + k)."""
    return " x ".join(f"({d})" if " " in d and len(dims) > 1 else d for d in dims)


_SPELLED = {"c": "C"}
_TESTS = ("\n\nif __name__", "\n\n#include <stdio.h>")


def _code_blocks(result: Result, shown: tuple[str, ...]) -> Iterator[Block]:
    """Yield the code that is shown, its self-test left out: documents have that too; and why there is none."""
    for name, why in result.uncoded.items():
        if name in shown or name != "c":  # most derivatives are of arrays, for which nobody expects C
            yield Paragraph(f"no {_SPELLED.get(name, name)} code: {why}")
    for name in shown:
        if name in result.code:
            if len(shown) > 1:
                yield Paragraph(f"in {_SPELLED.get(name, name)}:")
            yield Code(strip_self_test(result.code[name]).rstrip(), "c" if name == "c" else "python")


def strip_self_test(code: str) -> str:
    for test in _TESTS:
        code = code.partition(test)[0]
    return code


# A derivation, the walkthrough at a point and the check of the gradient there, as one document for people.


@dataclass(frozen=True, slots=True, repr=False)
class Lecture(Printed):
    """What `derive` writes into a document where values are given.

    derivation   The closed forms with their steps and code.
    walkthrough  The forward values and the adjoints at the point.
    check        What all modes say of the gradient at the point.
    """

    derivation: DeriveReport
    walkthrough: TraceReport
    check: CheckReport

    @property
    def target(self) -> Target:
        """What was differentiated."""
        return self.derivation.target

    def blocks(self) -> tuple[Block, ...]:
        """Return the three parts, each under its heading."""
        return (
            Heading(self.target.text.strip(), 1), Heading("Derivation"), *self.derivation.blocks(), *self.at_the_point(),
        )  # fmt: skip

    def page_blocks(self) -> tuple[Block | Figure, ...]:
        """Return the derivation, the computation as a graph with its steps, and the check."""
        title, *derivation = self.derivation.page_blocks()
        return (
            title, Heading("Derivation"), *derivation,
            Heading("Forward and backward at the point"), *self.walkthrough.page_blocks(),
            Heading("Check"), *self.check.blocks(),
        )  # fmt: skip

    def gist(self) -> str:
        """Return what the check at the point says."""
        return self.check.gist()

    def at_the_point(self) -> tuple[Block, ...]:
        """Return the parts that need values."""
        return (
            Heading("Forward and backward at the point"), *self.walkthrough.blocks(), Heading("Check"), *self.check.blocks(),
        )  # fmt: skip


# Names as mathematics writes them: Greek letters, digits at the end as a subscript.

_WORDS = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau upsilon phi chi psi omega"
_LETTERS = "αβγδεζηθικλμνξπρστυφχψω"
_CAPITALS = "Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega"
GREEK = dict(zip(f"{_WORDS} {_CAPITALS}".split(), f"{_LETTERS}ΓΔΘΛΞΠΣΥΦΨΩ", strict=True)) | {"lam": "λ", "lambda_": "λ"}
_ENDING = re.compile(r"(?P<stem>.*?[^\d_])_?(?P<digits>\d+)$")


def split_subscript(name: str) -> tuple[str, str]:
    """Return a name without the digits at its end, which are a subscript, and these digits."""
    found = _ENDING.match(name)
    return (found["stem"], found["digits"]) if found else (name, "")


_TEX_GREEK = {word: {"lam": "lambda", "lambda_": "lambda"}.get(word, word) for word in GREEK}
_TEX_GREEK |= {sign: _TEX_GREEK[word] for word, sign in GREEK.items() if word not in ("lam", "lambda_")}


def latex_name(name: str) -> str:
    """Return a name as LaTeX writes it in a formula, escaped."""
    stem, digits = split_subscript(name)
    if stem in _TEX_GREEK:
        shown = "\\" + _TEX_GREEK[stem]
    else:
        words = "".join(f"\\{c}" if c in "_#$%&{}" else c if c.isascii() else f"u{ord(c):04X}" for c in stem)
        shown = words if len(words) == 1 else rf"\mathrm{{{words}}}"
    return f"{shown}_{{{digits}}}" if digits else shown


def mathml_name(name: str) -> str:
    """Return a name in MathML."""
    stem, digits = split_subscript(name)
    shown = f"<mi>{escape(GREEK.get(stem, stem))}</mi>"
    return f"<msub>{shown}<mn>{digits}</mn></msub>" if digits else shown


def _write_size(
    size: str, number: Callable[[str], str], name: Callable[[str], str], sign: Callable[[str], str] = str
) -> str:
    """Return a size, such as m + 1, in a notation."""
    words = size.split()
    return "".join(sign(w) if w in "+-" else number(w) if w.isdecimal() else name(w) for w in words)


def space_in_latex(name: str, dims: Sequence[str]) -> str:
    """Return the space that a variable is in: W ∈ ℝ^(m × n)."""
    sizes = r" \times ".join(_write_size(d, lambda n: n, latex_name) for d in dims)
    return rf"{latex_name(name)} \in \mathbb{{R}}" + (f"^{{{sizes}}}" if sizes else "")


def _space_in_mathml(name: str, dims: Sequence[str]) -> str:
    written = (_write_size(d, "<mn>{}</mn>".format, mathml_name, "<mo>{}</mo>".format) for d in dims)
    sizes = "<mo>&#215;</mo>".join(written)
    space = f"<msup><mi>ℝ</mi><mrow>{sizes}</mrow></msup>" if sizes else "<mi>ℝ</mi>"
    return f'<math xmlns="http://www.w3.org/1998/Math/MathML">{mathml_name(name)}<mo>&#8712;</mo>{space}</math>'


def greek_name(name: str) -> str:
    """Return a name with a letter for a Greek word, as formulas print it."""
    stem, digits = split_subscript(name)
    return f"{GREEK[stem]}{digits}" if stem in GREEK else GREEK.get(name, name)


_INDICES = "ijklmnpqrstuvwabcdgh"


def index_letters(taken: Container[str]) -> list[str]:
    """Return the letters for indices, those first that textbooks take; none of them is the name of anything else."""
    return [c for c in (*_INDICES, *_LETTERS, *_INDICES.upper()) if c not in taken]


# Equations in LaTeX and in MathML: several lines of a formula under each other, their signs of equality, too.

BREAK = r" \\ "  # between the lines of a formula


def align_equations(lines: Sequence[str]) -> str:
    """Return equations under each other, their signs of equality, too."""
    shown = [line if line.startswith("&") else line.replace(" = ", " &= ", 1) for line in lines]
    return rf"\begin{{aligned}} {BREAK.join(shown)} \end{{aligned}}"


def mathml_lines(lines: Sequence[tuple[str, str]]) -> str:
    """Return equations in MathML, each with its left and its right side; several stand under each other at their signs."""
    if len(lines) == 1:
        body = "<mo>=</mo>".join(lines[0])
    else:
        rows = (f"<mtr><mtd>{left}</mtd>{_EQUALS}<mtd>{right}</mtd></mtr>" for left, right in lines)
        body = f'<mtable columnalign="right center left">{"".join(rows)}</mtable>'
    return f'<math xmlns="http://www.w3.org/1998/Math/MathML" display="block">{body}</math>'


_EQUALS = "<mtd><mo>=</mo></mtd>"
_ROW = re.compile(  # the rows of a table in a formula have no sign of equality in a cell of their own
    rf"<mtr><mtd>((?:(?!<mtr>).)*?)</mtd>{_EQUALS}<mtd>(.*?)</mtd></mtr>(?=<mtr><mtd>(?:(?!</mtr>).)*?{_EQUALS}|</mtable></math>)"
)


def mathml_rows(mathml: str) -> list[tuple[str, str]]:
    """Return the two sides of each equation of such an element."""
    left, _, right = mathml.partition(">")[2].removesuffix("</math>").partition("<mo>=</mo>")
    return _ROW.findall(mathml) or [(left, right)]
