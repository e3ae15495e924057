"""The report of `check`: what was found at each point, and what it comes to."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from gradcli.errors import NotConfirmed
from gradcli.report import numbers
from gradcli.report.blocks import (
    WORDS,
    Begins,
    Block,
    Code,
    Figure,
    Heading,
    Headline,
    HeatMap,
    Paragraph,
    Piece,
    Table,
    Tone,
    Walk,
    cut,
)
from gradcli.report.check_blocks import (
    diagnosis_blocks,
    edit_lines,
    other_points,
    point_blocks,
    repair_blocks,
    stress_blocks,
    wrong_entries,
)
from gradcli.report.common import ABSENT, Absent, Finding, Printed, SourceLine, Target, seed_line
from gradcli.report.encode import TEXT_ONLY, Status, Values
from gradcli.report.native import Aspect, Exactness, NativeReport, Part, aspect_cell
from gradcli.report.point_report import (
    Detects,
    Diagnosis,
    PointReport,
    StressReport,
    UnresolvedEntries,
    as_exact_as,
    worst_first,
)
from gradcli.report.tidy import entries
from gradcli.report.trace import TraceReport
from gradcli.words import OF_SHAPE, Derivative, DiagnosisKind, Exit, Kind, Severity, Verdict, slug

COLUMNS = ("point", "mode", "input", "index", "value", "bound", "mode_verdict", "verdict")  # of the rows of csv
_FIRST = {Severity.ERROR: Kind.FIRST_ORDER, Severity.INCONCLUSIVE: Kind.NOT_A_SUBGRADIENT}  # what says most
LESS_EXACT = "right, but less exact than the same formula"
_WORST = (Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.PASS)


# What a check found of an implementation beside its reference.


@dataclass(frozen=True, slots=True)
class Comparison:
    """An implementation beside its reference, in circumstances in which kernels go wrong.

    reference  The reference, as it was given.
    rows       How value and gradient compare with those of the reference in each circumstance. The reference's error is the
               typical error of its formula in the same format.
    """

    reference: str
    rows: tuple[Aspect, ...]

    @property
    def agrees(self) -> bool:
        """Whether something was compared, and nothing of it is wrong."""
        states = {row.status for row in self.rows}
        return "agrees" in states and "wrong" not in states

    def blocks(self) -> list[Block]:
        """Return what people read of it."""
        rows = tuple((row.name, aspect_cell(row)) for row in self.rows)
        return [Paragraph(f"Beside {cut(self.reference)}:"), Table(("", ""), rows)]


# The errors of gradients as matrices, for pictures.

_MARKED = 3  # worst entries of a map that are ringed
_LARGEST = 1_000  # rows or columns of a picture
_FLOOR = 1e-17  # relative error shown for entries that are right to the last bit


def error_maps(
    mode: str,
    values: Mapping[str, Values],
    reference: Mapping[str, Values],
    outputs: int = 0,
    *,
    vectors: bool = False,
    worst: Mapping[str, Sequence[tuple[int, ...]]] | None = None,
) -> list[HeatMap]:
    """Return the relative errors of each matrix of a mode, in powers of ten; absolute ones where the right entry is 0.

    The entries in `worst`, the first ones of each input, are ringed; without it the worst that there are.

    Shapes  gradients that are matrices; Jacobians, whose first `outputs` axes are those of the result, with all outputs
            along the rows and all entries of the input along the columns. With `vectors`, these too, each as a row.
    """
    found = []
    for name, right in reference.items():
        if name not in values or np.shape(values[name]) != np.shape(right):
            continue
        g, own = _as_matrix(right, outputs), _as_matrix(values[name], outputs)
        if vectors and g.ndim == 1:
            g, own = g[None, :], own[None, :]
        if g.ndim != 2 or not g.size or not 1 < max(g.shape) <= _LARGEST:
            continue
        with np.errstate(all="ignore"):
            error = np.abs(own - g) / np.where(g == 0, 1.0, np.abs(g))
        error = np.where(own == g, 0.0, np.where(np.isnan(error), np.inf, error))
        if worst is None:
            ringed = [at for at in worst_first(np.ravel(own), np.ravel(g))[:_MARKED] if np.ravel(error)[at] > 0]
        else:
            ringed = [np.ravel_multi_index(at, np.shape(right)) for at in worst.get(name, ())[:_MARKED]]
        marked = tuple(tuple(int(k) for k in np.unravel_index(at, g.shape)) for at in ringed)
        title = f"{mode}: relative error of the entries of {name}, the largest ringed"
        found.append(HeatMap(title, "power of ten", np.log10(np.maximum(error, _FLOOR)), marked))  # type: ignore[arg-type]
    return found


def _as_matrix(x: Values, outputs: int) -> np.ndarray:
    array = np.asarray(x, dtype=float)
    if not outputs or array.ndim == 2:
        return array
    return array.reshape(int(np.prod(array.shape[:outputs])), int(np.prod(array.shape[outputs:])))


@dataclass(frozen=True, slots=True, repr=False)
class CheckReport(Printed):
    """Everything `gradcli check` found for one target.

    target       What was checked.
    claim        The claimed gradient as it was given; null where there is none, and gradcli's own is checked.
    seed         The seed of everything that was drawn.
    command      The words of the command that repeats this check.
    exit_status  The exit status of this check.
    verdict      The verdict over all points.
    detects      How small an error would have been seen at every point.
    points       What was found at each point, in the order in which they were checked.
    environment  The versions of what the result depends on, by name, and the number of threads.
    schema       The name of this schema, with its number.
    derivative   Which derivative was checked.
    line         The line of standard input that asked for this check, counted from 1.
    native       What was found of a function that is written in a framework.
    id           The name of this check among several.
    claimed_at   The line of the code that defines the claimed gradient.
    stress       How many hard points were looked at (--stress).
    comparison   How an implementation compares with its reference (--reference).
    headline     The verdict as it is printed, where it has a limit: `PASS (a subgradient at a kink)`.
    on           The set that each input is assumed to lie on, by name; derivatives are along these sets (--assume).
    """

    target: Target
    claim: str | None
    seed: int
    command: tuple[str, ...]
    exit_status: Status
    verdict: Verdict
    detects: Detects
    points: tuple[PointReport, ...]
    environment: dict[str, str | int]
    schema: str = "gradcli.check/3"
    derivative: Derivative = "gradient"
    line: int | Absent = ABSENT
    native: NativeReport | Absent = ABSENT
    id: str | Absent = ABSENT
    claimed_at: SourceLine | Absent = ABSENT
    stress: StressReport | Absent = ABSENT
    comparison: Comparison | Absent = ABSENT
    headline: str | Absent = ABSENT
    on: dict[str, str] | Absent = ABSENT
    full: bool = field(default=False, metadata={TEXT_ONLY: True})  # every point in full, not the worst one alone
    # the computation at the worst point, or why it is not drawn; for pages, where it is made when it is needed
    walk: Callable[[], TraceReport | str] | None = field(
        default=None, compare=False, repr=False, metadata={TEXT_ONLY: True}
    )

    def __post_init__(self) -> None:
        word = self._word()
        object.__setattr__(self, "headline", word if "(" in word else ABSENT)

    @property
    def passed(self) -> bool:
        """Whether every gradient was confirmed, by the modes that were named too."""
        return self.verdict == Verdict.PASS and self.exit_status != Exit.UNUSABLE

    def __bool__(self) -> bool:
        return self.passed

    def raise_if_failed(self, allow: Sequence[str] = ()) -> None:
        """Raise NotConfirmed unless every gradient was confirmed, or every reason against it is in `allow`."""
        open_ = {f.kind for point in self.points for f in point.findings if f.severity == Severity.INCONCLUSIVE}
        if self.passed or (self.verdict == Verdict.INCONCLUSIVE and open_ and open_ <= set(map(slug, allow))):
            return
        found = [point.diagnosis.message for point in self.points if point.diagnosis]
        said = f"{WORDS[self.verdict][0]}  {self.sentence()}" + "".join(f"; {mistake}" for mistake in found[:1])
        raise NotConfirmed(said, self)

    def blocks(self) -> tuple[Block, ...]:
        """Return what people read: the verdict, its cause, then what lets them believe it, then what to do."""
        worst = worst_point(self)
        failed = self.verdict == Verdict.FAIL
        blocks: list[Block] = [*self.opening()]
        if failed:
            blocks += self._cause()
        if isinstance(self.claimed_at, SourceLine) and failed:
            at = self.claimed_at
            blocks += [
                Paragraph("The claim is defined here:"),
                Paragraph(Piece(f"{at.file}:{at.line}    {at.source}", "dim"), 4),
            ]
        for number in range(len(self.points)) if self.full else (worst,):
            blocks += point_blocks(self, self.points[number], number, opened=failed and number == worst)
        blocks += [] if self.full else other_points(self, [k for k in range(len(self.points)) if k != worst])
        blocks += self.native.blocks() if isinstance(self.native, NativeReport) else []
        blocks += self.comparison.blocks() if isinstance(self.comparison, Comparison) else []
        blocks += stress_blocks(self.stress, self.verdict) if isinstance(self.stress, StressReport) else []
        kind = self.decisive()
        blocks += [Paragraph(f"More: gradcli explain {kind}")] if kind else []
        blocks += [Paragraph("Again:"), Code(replay(self.command))] if self.command else seed_line(self.seed)
        return (*blocks, *self._ending())

    def opening(self) -> tuple[Block, ...]:
        """Return what is printed as soon as the verdict is decided: the verdict, and the worst entries of a wrong claim."""
        tone: Tone = "bad" if self.exit_status == Exit.UNUSABLE else WORDS[self.verdict][1]
        headline = Headline(self._word(), tone, f"{cut(self.target.text)}: {self.sentence()}")
        if self.verdict != Verdict.FAIL:
            return (headline,)
        worst = worst_point(self)
        return (headline, *wrong_entries(self, self.points[worst], worst))

    def _cause(self) -> list[Block]:
        """Return the likely mistake at the worst point, and the repair; a wrong shape is said in the headline."""
        diagnosis = self.points[worst_point(self)].diagnosis
        if diagnosis is None:
            return []
        return repair_blocks(diagnosis) if diagnosis.kind in OF_SHAPE else diagnosis_blocks(diagnosis)

    def _ending(self) -> list[Block]:
        """Return a last line that repeats the verdict on a wrong claim, with the cause."""
        if self.verdict != Verdict.FAIL:
            return []
        diagnosis = self.points[worst_point(self)].diagnosis
        known = diagnosis is not None and diagnosis.kind != DiagnosisKind.UNKNOWN
        word, tone = WORDS[self.verdict]
        says = diagnosis.message if known and diagnosis is not None else self.sentence()
        return [Paragraph((Piece(f"{word}  ", tone), Piece(f"{cut(self.target.text)}: {says}")))]

    def page_blocks(self) -> tuple[Block | Figure, ...]:
        """Return the verdict, the computation with what the claim makes of it, maps of errors, and all that the text has."""
        first, *rest = self.blocks()
        mistake, ending = self._cause(), self._ending()
        walk = None if self.walk is None else self.walk()
        drawn: list[Block | Figure] = []
        if walk is not None:
            begins: Begins = "mistake" if self.verdict == Verdict.FAIL else "end"
            drawn.append(Paragraph(walk) if isinstance(walk, str) else Walk(walk, begins))
        left = (block for block in rest if block not in mistake and block not in ending)
        return (first, *mistake, *drawn, *self._error_maps(), Heading("The whole report"), *left)

    def _error_maps(self) -> list[HeatMap]:
        """Return the errors of the claim at the worst point, a map for each input whose gradient is wrong."""
        point = self.points[worst_point(self)]
        if "claim" not in point.modes or point.reference is None:
            return []
        outputs = 0 if isinstance(point.value, Absent) else int(np.ndim(point.value))
        right = point.modes[point.reference].values
        wrong = {name: right[name] for name in dict.fromkeys(m.input for m in point.mismatches) if name in right}
        worst = {name: [(*(m.output or ()), *m.index) for m in point.mismatches if m.input == name] for name in wrong}
        return error_maps("claim", point.modes["claim"].values, wrong, outputs, vectors=True, worst=worst)

    def gist(self) -> str:
        """Return the verdict, the target and the sentence that says why."""
        return f"{self._word()}: {cut(self.target.text)}: {self.sentence()}"

    def _word(self) -> str:
        """Return the verdict as it is printed; that of a pass with what it holds for: subgradients, what was left out."""
        if self.exit_status == Exit.UNUSABLE:
            return "ERROR"
        word, left, entries = WORDS[self.verdict][0], self._unclaimed(), self.detects.unresolved
        declined = self.native.declined or () if isinstance(self.native, NativeReport) else ()
        single = entries.alone() if isinstance(entries, UnresolvedEntries) else None
        limits = [f"{', '.join(left)} not checked"] * bool(left)
        limits += [f"{', '.join(declined)} not differentiated"] * bool(declined)
        limits += [single] if single else []
        limits += ["a subgradient at a kink"] * any(f.kind == Kind.SUBGRADIENT for p in self.points for f in p.findings)
        return f"{word} ({'; '.join(limits)})" if limits and self.passed else word

    def _unclaimed(self) -> tuple[str, ...]:
        """Return the inputs that the claim leaves out."""
        return (self.points[0].not_claimed or ()) if self.points else ()

    def records(self) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
        """Return every entry of every mode at every point as a row."""
        rows: list[tuple[object, ...]] = []
        for number, point in enumerate(self.points):
            for mode, result in point.modes.items():
                for name, x in result.values.items():
                    bounds = (result.bound or {})[name]
                    both = zip(entries(x), entries(np.broadcast_to(bounds, np.shape(x))), strict=True)
                    rows += [
                        (number, mode, name, index, g, b, result.verdict or "", point.verdict)
                        for (index, g), (_, b) in both
                    ]
        return COLUMNS, rows

    def sentence(self) -> str:
        """Return the verdict in words, or which of the modes that were named is not installed."""
        if self.exit_status == Exit.UNUSABLE and (missing := self._missing()):
            return "; ".join(missing)
        wrong = sum(point.entries.wrong for point in self.points)
        compared = sum(point.entries.compared for point in self.points)
        least = "at least " if any(f.kind == Kind.COVERAGE for p in self.points for f in p.findings) else ""
        if self.verdict == Verdict.FAIL:
            shape = next(
                (p.diagnosis.message for p in self.points if p.diagnosis and p.diagnosis.kind in OF_SHAPE), None
            )
            if shape:
                return shape
            whose = self._whose()
            also = self._findings(Severity.ERROR)
            if also and (not wrong or also[0].kind == Kind.FIRST_ORDER):
                return also[0].message
            return (
                f"{whose} is wrong in {least}{wrong} of {compared} entr{'y' if compared == 1 else 'ies'}{self._set()}"
                if wrong
                else f"{whose} is contradicted"
            )
        if self.verdict == Verdict.INCONCLUSIVE:
            found = self._findings(Severity.INCONCLUSIVE)
            said = found[0].message if found else "the modes cannot tell"
            return f"{said}; accepted (--allow)" if self.exit_status == 0 else said
        better = f" {self.limit()}" if self.limit() else ""
        if self.claim is not None and (exactness := self.exactness()):
            return f"{self._whose()} is right, {exactness}"
        if isinstance(self.comparison, Comparison) and self.comparison.agrees:
            return f"value and gradient are those of {cut(self.comparison.reference)}{better}{self._format()}"
        if self.claim is not None:
            return f"{self._whose()} is right{better}{self._format()}{self._set()}"
        return f"gradcli's own {self.derivative} is right{better}{self._set()}; none of yours was checked (--{self._option()})"

    def decisive(self) -> DiagnosisKind | Kind | None:
        """Return the kind of the diagnosis or finding that the verdict is about; None if the check succeeded."""
        if self.exit_status == Exit.CONFIRMED:
            return None
        if self.exit_status == Exit.UNUSABLE:
            return Kind.UNAVAILABLE
        for point in self.points:
            if point.diagnosis is not None and point.verdict == self.verdict:
                return point.diagnosis.kind
        findings = self._findings(Severity.ERROR if self.verdict == Verdict.FAIL else Severity.INCONCLUSIVE)
        return findings[0].kind if findings else None

    def _findings(self, severity: Severity) -> list[Finding]:
        """Return the findings of a severity at all points, the most important first."""
        found = [f for point in self.points for f in point.findings if f.severity == severity]
        return sorted(found, key=lambda f: f.kind != _FIRST.get(severity))

    def exactness(self) -> str:
        """Say how exact a right claim in a narrow format is as a whole, where its limit does not hold for every entry."""
        if not isinstance(self.native, NativeReport) or self.native.dtype == "float64" or self.verdict != Verdict.PASS:
            return ""
        off = max((worst_error(point) for point in self.points), default=0.0)
        said = (f for point in self.points for f in point.findings if f.kind == Kind.INACCURATE)
        less = any(f.message.startswith(LESS_EXACT) for f in said)
        if not less and (not isinstance(self.detects.relative, float) or off <= self.detects.relative):
            return ""
        found = self.native.exactness
        if not isinstance(found, Exactness):
            worst = f"worst entry {numbers.two(100 * off)} % from a difference"
            return f"as far as function values show in {self.native.dtype} ({worst})"
        ratio, largest = found.ratio or 1.0, found.largest_ratio or 1.0
        plain = f"the plain formula in {self.native.dtype} (worst entry {numbers.two(100 * off)} % off)"
        if not less:
            return f"about as exact as {plain}"
        return f"{numbers.two(ratio if ratio > 2.0 else largest)} times less exact than {plain}"

    def _missing(self) -> list[str]:
        """Return what is not installed of the modes that were named, with how it is installed."""
        found = (f for point in self.points for f in point.findings if f.kind == Kind.UNAVAILABLE)
        return list(dict.fromkeys(f"{f.message} ({f.hint})" if f.hint else f.message for f in found))

    def limit(self) -> str:
        """Return how far a gradient that is right could be off."""
        entries = self.detects.unresolved
        if isinstance(entries, UnresolvedEntries) and entries.alone() is not None:
            return limit_of(replace(self.detects, unresolved=ABSENT))  # the verdict names the entry
        return limit_of(self.detects)

    def short(self) -> str:
        """Return why it did not pass, without the name of what was checked."""
        wrong, compared = (sum(getattr(p.entries, word) for p in self.points) for word in ("wrong", "compared"))
        if self.verdict == Verdict.FAIL and wrong and self.sentence().endswith(("entry", "entries")):
            return f"{wrong:,} of {compared:,} entr{'y' if compared == 1 else 'ies'} wrong"
        return self.sentence()

    def _whose(self) -> str:
        if isinstance(self.native, NativeReport):
            return str(self.claim)
        return f"the claimed {self.derivative}" if self.claim is not None else f"gradcli's own {self.derivative}"

    def _format(self) -> str:
        """Say in which format a gradient is right, where that is not float64."""
        narrow = isinstance(self.native, NativeReport) and self.native.dtype != "float64"
        return f" in {self.native.dtype}" if narrow and isinstance(self.native, NativeReport) else ""

    def _set(self) -> str:
        """Say on which sets a gradient is right or wrong, where inputs are assumed to lie on some."""
        sets = self.on or {}
        words = [f"{name} ({of})" if len(sets) > 1 else name for of, name in sets.items()]
        return f" on {' and '.join(words)}" if words else ""

    def _option(self) -> str:
        return {"Jacobian": "jac", "Hessian": "hess"}.get(self.derivative, "grad")


def worst_error(point: PointReport) -> float:
    """Return the largest error of an entry of the claim, relative to this entry of the reference, where that is not 0."""
    claim, right = point.modes.get("claim"), point.modes.get(point.reference or "")
    if claim is None or right is None:
        return 0.0
    worst = 0.0
    for name, x in claim.values.items():
        y = np.asarray(right.values.get(name, x), dtype=float)
        off = np.abs(np.asarray(x, dtype=float) - y)
        worst = max(worst, float(np.max(off[y != 0] / np.abs(y[y != 0]), initial=0.0)))
    return worst


def worst_point(report: CheckReport) -> int:
    """Return the number of the first point with the verdict on the whole check."""
    return min(range(len(report.points)), key=lambda k: _WORST.index(report.points[k].verdict))


def limit_of(detects: Detects) -> str:
    """Return how far a gradient that is right could be off: relative to the entries, absolute where they are 0."""
    said = ""
    if detects.relative is not None:
        said = f"to better than {numbers.power(detects.relative)}"
        if detects.solvers:
            said += f", {as_exact_as(detects.solvers)}"
        if isinstance(detects.absolute, float):
            said += f"; entries of 0 to within {numbers.power(detects.absolute)} (absolute)"
    elif isinstance(detects.absolute, float):
        said = f"to within {numbers.power(detects.absolute)} (absolute: every entry is 0)"
    if said and isinstance(detects.unresolved, UnresolvedEntries):
        said += f"; {detects.unresolved.in_words()}"
    return said


def place_of(report: CheckReport) -> Diagnosis | Finding | SourceLine | Part | None:
    """Return what names the file and the line that is to be changed: the edit that makes a claim right, else the claim.

    A custom gradient inside f is the claim where it is wrong. The lines of f are named only where nothing but f is the
    user's: a framework's gradient, or gradcli's own, was checked.
    """
    diagnoses = [p.diagnosis for p in report.points if p.diagnosis is not None]
    found: list[Diagnosis | Finding | SourceLine | Part] = [d for d in diagnoses if not isinstance(d.edits, Absent)]
    found += [report.claimed_at] if isinstance(report.claimed_at, SourceLine) else []
    native = report.native if isinstance(report.native, NativeReport) else None
    found += [] if native is None else [part for part in native.parts if part.verdict == Verdict.FAIL]
    if report.claim is None or native is not None:
        found += [*diagnoses, *(f for point in report.points for f in point.findings)]
    return next((place for place in found if isinstance(place.file, str)), None)


def why_of(report: CheckReport) -> str:
    """Return the verdict in words, the mistakes that explain a wrong claim, and the edits that make it right, line by line."""
    diagnoses = [p.diagnosis for p in report.points if p.diagnosis is not None]
    said = "; ".join(dict.fromkeys([report.sentence(), *(d.message for d in diagnoses)]))
    return "\n".join([said, *(line for d in diagnoses for line in edit_lines(d.edits or ()))])


def replay(command: tuple[str, ...]) -> str:
    """Return a command as one would type it."""
    import shlex

    return " ".join(shlex.quote(word) for word in command)
