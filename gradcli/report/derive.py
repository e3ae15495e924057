"""The report of `derive`: closed forms, how they were found, code, and how well they were checked."""

from dataclasses import dataclass

from gradcli.report import numbers
from gradcli.report.blocks import WORDS, Block, Cell, Code, Paragraph, Piece, Table, Verdict
from gradcli.report.common import Finding, Target
from gradcli.report.encode import ABSENT, Absent


@dataclass(frozen=True, slots=True)
class Formula:
    """A closed form in several notations; `expression` is gradcli's language."""

    expression: str
    unicode: str
    latex: str
    mathml: str


@dataclass(frozen=True, slots=True)
class Step:
    """One move: its rule, what it was applied to, what came of it, where, and what it needs."""

    rule: str
    before: str
    after: str
    where: str | None = None
    condition: str | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """How well a closed form was checked: against certified derivatives at random points of several sizes."""

    verdict: str
    max_relative_error: float
    points: int
    sizes: tuple[dict[str, int], ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """Whether a hand derivation is right, and how it was found out."""

    text: str
    verdict: str
    how: str
    message: str


@dataclass(frozen=True, slots=True)
class Result:
    """The derivative by one input."""

    wrt: str
    shape: tuple[str, ...]
    kind: str
    formula: Formula
    program: tuple[tuple[str, str], ...]
    steps: tuple[Step, ...]
    code: dict[str, str]
    operations: dict[str, int]
    check: Check
    index: str
    answer: Answer | Absent = ABSENT


@dataclass(frozen=True, slots=True)
class DeriveReport:
    """Closed forms of the derivatives of one function."""

    target: Target
    shapes: dict[str, tuple[str, ...]]
    assume: dict[str, tuple[str, ...]]
    layout: str
    results: tuple[Result, ...]
    findings: tuple[Finding, ...]
    exit_status: int
    environment: dict[str, str]
    schema: str = "gradcli.derive/1"
    line: int | Absent = ABSENT

    def blocks(self) -> tuple[Block, ...]:
        """Return the variables, then for each input the steps, the result, the check and the code."""
        rows: list[tuple[Cell, ...]] = [("f", self.target.text)]
        rows.append(("variables", "; ".join(self._variable(name) for name in self.shapes)))
        rows.append(("layout", self.layout))
        blocks: list[Block] = [Table(("", ""), tuple(rows))]
        for f in self.findings:
            blocks.append(Paragraph((Piece(f"{f.kind}: ", "unsure"), Piece(f.message))))
        for result in self.results:
            blocks += _blocks(result)
        return tuple(blocks)

    def _variable(self, name: str) -> str:
        dims = self.shapes[name]
        facts = f" ({', '.join(self.assume[name])})" if name in self.assume else ""
        return f"{name} {' x '.join(dims) if dims else 'a number'}{facts}"


def _blocks(result: Result) -> list[Block]:
    found: list[Block] = []
    if isinstance(result.answer, Answer):
        words = {"right": "pass", "wrong": "fail"}
        found.append(Verdict(*WORDS[words.get(result.answer.verdict, "inconclusive")], result.answer.message))
    if result.steps:
        told = tuple((str(k), s.rule, s.after, s.condition or "") for k, s in enumerate(result.steps, 1))
        found.append(Table(("", "step", "", "where"), told, frozenset({0})))
    head = f"{result.kind} by {result.wrt}" + (f", {' x '.join(result.shape)}" if result.shape else "")
    lines = result.formula.unicode.split("; ")
    rows: list[tuple[Cell, ...]] = [(head if k == 0 else "", Piece(line, "strong")) for k, line in enumerate(lines)]
    rows.append(("with indices", result.index))
    sizes = ", ".join(sorted({str(n) for s in result.check.sizes for n in s.values()}, key=int))
    checked = f"{result.check.points} points, sizes {sizes}" if sizes else f"{result.check.points} points"
    error = numbers.power(result.check.max_relative_error)
    rows.append(("checked", f"{checked}: largest relative error {error} against certified"))
    rows.append(("operations", ", ".join(f"{k} {v:,}" for k, v in result.operations.items())))
    found.append(Table(("", ""), tuple(rows)))
    shown = result.code["numpy"].partition("\n\nif __name__")[0]  # files and --json have its self-test too
    found.append(Code(shown.rstrip(), "python"))
    return found
