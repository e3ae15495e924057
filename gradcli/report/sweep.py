"""The report of `sweep`: error against step size, and what to read from it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from gradcli.report import numbers
from gradcli.report.blocks import (
    WORDS,
    Block,
    Cell,
    Chart,
    Figure,
    Headline,
    Paragraph,
    Picture,
    Piece,
    Series,
    Table,
    Tone,
    Verbatim,
    cut,
    drawable,
    pieces_of,
)
from gradcli.report.common import ABSENT, Absent, Finding, Printed, Target, seed_line
from gradcli.report.encode import Status, Values
from gradcli.words import Kind, Remains, Verdict

MARKS = {
    "forward": "f", "backward": "b", "central": "c", "5-point": "5", "7-point": "7", "richardson": "r", "complex": "i",
    "float64": "d", "float32": "s", "float16": "h", "bfloat16": "b", "longdouble": "l",
    "float8_e4m3fn": "4", "float8_e5m2": "2",
}  # fmt: skip
_WORD: dict[str, Tone] = {"right": "good", "wrong": "bad"}
_LONG = 12  # curves: more are summed up
_LONG_NAME = 8  # characters of an input that a column is named by
PICTURED = 6  # rays that have a picture


# What curves of error against step size say, in sentences.


# What a report of `sweep` says of each curve, and of a claim.

Why = Literal["below one ulp", "cancellation", "truncation", "no value"]
WHYS: tuple[Why, ...] = get_args(Why)


@dataclass(frozen=True, slots=True)
class Best:
    """The step at which a scheme errs least.

    The error is the median of three neighbouring steps, and no less than a twentieth of what the rounding of f leaves in theory.

    h               The step, in units of the curve's `scale`.
    relative_error  The relative error there; the absolute one where the slope is 0.
    digits          The right decimal digits there; where the slope is 0, the right decimals.
    h_absolute      The step in units of the input; absent along all inputs.
    """

    h: float
    relative_error: float
    digits: float
    h_absolute: float | Absent = ABSENT


@dataclass(frozen=True, slots=True)
class Predicted:
    """What theory says of the best step, with the numbers in it.

    h               The best step by theory, in units of the curve's `scale`.
    relative_error  The relative error there by theory.
    formula         The formula of the step, with its numbers, in units of the input.
    h_absolute      The best step in units of the input; absent along all inputs.
    """

    h: float
    relative_error: float
    formula: str
    h_absolute: float | Absent = ABSENT


@dataclass(frozen=True, slots=True)
class Useless:
    """A range of steps at which no digit is right, and why.

    from_  The smallest step of the range, in units of the curve's `scale`.
    to     The largest step of the range, in the same units.
    why    What leaves no digit right.
    """

    from_: float
    to: float
    why: Why


@dataclass(frozen=True, slots=True)
class Curve:
    """One scheme along one ray in one format. Units: h in units of `scale`, `h_absolute` and `scale` in those of the input.

    Errors are relative to the slope, or `absolute` where that is 0; it is known to `known_to`, where it is an estimate.

    scheme          The name of the difference scheme.
    dtype           The format, such as float64, or the number of bits, such as `113 bits`.
    input           The input whose entry is moved; null where all inputs are moved at once.
    index           The index of the entry, counted from 0; empty for a number.
    scale           The size of the input, in its own units.
    slope           The derivative along the ray, in units of f per `scale`.
    rounding        The relative error of one rounding in the format.
    h               The steps, in units of `scale`, the largest first.
    relative_error  The relative error at each step, or the absolute one where the slope is 0.
    order           The observed power of h with which the error falls; null where it follows none.
    rounding_slope  The observed power of h below the best step, -1 for rounding; null where it follows none.
    best            The step of the least error.
    predicted       The best step by theory; null where nothing is predicted.
    useless         The ranges of steps at which no digit is right.
    error_at_h      The relative error at the step that --h names.
    absolute        Whether the errors are absolute, because the slope is 0.
    known_to        The relative bound of the reference, where it is an estimate; smaller errors say nothing.
    h_absolute      The steps in units of the input; absent along all inputs.
    """

    scheme: str
    dtype: str
    input: str | None
    index: tuple[int, ...]
    scale: float
    slope: float
    rounding: float
    h: tuple[float, ...]
    relative_error: tuple[float, ...]
    order: float | None
    rounding_slope: float | None
    best: Best
    predicted: Predicted | None
    useless: tuple[Useless, ...]
    error_at_h: float | Absent = ABSENT
    absolute: bool = False
    known_to: float | Absent = ABSENT
    h_absolute: tuple[float, ...] | Absent = ABSENT

    @property
    def unit(self) -> float:
        """What a step is multiplied with to be written: the scale, or 1 along all inputs."""
        return 1.0 if self.input is None else self.scale

    @property
    def ray(self) -> tuple[str | None, tuple[int, ...]]:
        """The direction: an input and an index, or none for the one along all inputs."""
        return self.input, self.index


@dataclass(frozen=True, slots=True)
class Taylor:
    """The remainder test of a claimed gradient: |f(x + h v) - f(x) - h <g, v>| against h.

    Units  `claimed` and `slope` of f per step of the inputs' own size.

    verdict    What the remainders say of the claim.
    message    The same as a sentence.
    order      The observed power of h with which the remainder falls; null where it follows none.
    claimed    The claimed derivative along v.
    slope      The right derivative along v.
    h          The steps, in units of the inputs' size, the largest first.
    remainder  The remainder at each step, in units of f.
    """

    verdict: Remains
    message: str
    order: float | None
    claimed: float
    slope: float
    h: tuple[float, ...]
    remainder: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class NoisyStep:
    """The step of one scheme by the noise of f, and the error that is left.

    scheme          The name of the difference scheme.
    h               The step, in units of the input's size.
    error           The error of the slope, in units of f per size of the input.
    relative_error  The same over the slope; null where the slope is not larger.
    h_absolute      The step in units of the input; absent along all inputs.
    """

    scheme: str
    h: float
    error: float
    relative_error: float | None
    h_absolute: float | Absent = ABSENT


@dataclass(frozen=True, slots=True)
class Noise:
    """How far values of f scatter, and the steps that follow from it.

    level    The standard deviation of the values, in units of f.
    samples  The number of values that it is estimated from.
    random   Whether they are values at the point itself, of a random function.
    input    The input that is moved; null where all inputs are moved at once.
    index    The index of the entry, counted from 0; empty for a number.
    steps    The step of each scheme.
    """

    level: float
    samples: int
    random: bool
    input: str | None
    index: tuple[int, ...]
    steps: tuple[NoisyStep, ...]


def derivative_of(c: Curve) -> str:
    """Return what a curve is the error of: df/dx[0], or the slope along all inputs."""
    if c.input is None:
        return "the slope along v"
    return f"df/d{c.input}" + (f"[{','.join(map(str, c.index))}]" if c.index else "")


def formulas(curves: tuple[Curve, ...]) -> list[str]:
    """Return the formulas of the predictions, once for each scheme of the first format."""
    first = curves[0]
    lines = [
        f"{c.scheme}: {c.predicted.formula}"
        for c in curves
        if c.predicted is not None and c.ray == first.ray and c.dtype == first.dtype
    ]
    if not lines:
        return []
    meaning = "predicted from e, the rounding error of one value of f, and the derivatives of f, measured:"
    return [meaning, *lines]


def noise_blocks(noise: Noise) -> list[Block]:
    """Return how noisy the function is, the steps that follow from it, and the one to use."""
    by = f"{noise.samples} calls at the point" if noise.random else f"{noise.samples} values beside the point"
    entry = noise.input is not None
    rows: list[tuple[Cell, ...]] = []
    for step in noise.steps:
        absolute = [] if isinstance(step.h_absolute, Absent) else [numbers.short(step.h_absolute, 2)]
        relative = "no digit" if step.relative_error is None else numbers.short(step.relative_error, 2)
        rows.append((step.scheme, *absolute, numbers.short(step.h, 2), relative))
    columns = ("scheme", *(["h (absolute)"] if entry else []), "h/|x|", "error")
    blocks: list[Block] = [
        Paragraph(f"Values of f scatter by {numbers.short(noise.level, 2)} (standard deviation, by {by})."),
        Table(
            columns,
            tuple(rows),
            frozenset(range(1, len(columns))),
            title="steps that balance this noise and truncation",
        ),
    ]
    best = min(noise.steps, key=lambda step: step.error, default=None)
    if best is None:
        return blocks
    unit = "" if entry else " times each input"
    h = best.h if isinstance(best.h_absolute, Absent) else best.h_absolute
    said = f"Use h = {numbers.short(h, 2)}{unit} with {best.scheme} differences."
    return [*blocks, Paragraph((Piece(said, "strong"),))]


def in_words(curves: tuple[Curve, ...], at: dict[str, Values], advise: bool) -> list[Block]:
    """Return what the curves say, in sentences, and where they say nothing; where they `advise`, the step to use."""
    sides = [c.rounding_slope for c in curves if c.rounding_slope is not None]
    found: list[Block] = []
    if sides:
        middle = sorted(sides)[len(sides) // 2]
        says = (
            f"Left of the best step rounding wins: the error grows as 1/h (observed slope {middle:.2f}), because f(x+h) "
            "and f(x-h) agree in all but the last digits."
        )
        if any(c.order is not None for c in curves):
            says += " Right of it truncation wins: the error grows as h to the order."
        found.append(Paragraph(says))
    first = {c.dtype: c for c in reversed(curves)}
    still = [(c, part) for c in reversed(first.values()) for part in c.useless if part.why == "below one ulp"]
    if still:
        c, part = still[0]
        found.append(Paragraph(f"Below one ulp, x + h is x: {_lost(c, part.to, at)} in {c.dtype}."))
    if any(c.best.relative_error > 0 for c in curves):
        says = "Each error is the smallest of its curve (median of three steps), so it is smaller than a typical one."
        found.append(Paragraph((Piece(says, "dim"),)))
    useless = [c for c in curves if c.useless]
    if useless:
        rays = len({c.ray for c in curves}) > 1
        named = [f"{derivative_of(c)} " * rays + f"{c.dtype} {c.scheme}" for c in useless]
        rows = tuple((name, *(_range(c, why) for why in WHYS)) for name, c in zip(named, useless, strict=True))
        right = frozenset(range(1, len(WHYS) + 1))
        found.append(Table(("no right digit", *WHYS), rows, right))
    return found + [Paragraph((Piece(said, "strong"),)) for said in _use(curves) if advise]


def _use(curves: tuple[Curve, ...]) -> list[str]:
    """Return the step to use, for each entry and format: with central differences, and with the scheme that is best."""
    found = []
    for ray, dtype in dict.fromkeys((c.ray, c.dtype) for c in curves):
        those = [c for c in curves if (c.ray, c.dtype) == (ray, dtype) and c.scheme != "complex" and _is_useful(c)]
        usual = next((c for c in those if c.scheme == "central"), None)
        best = max(those, key=lambda c: c.best.digits, default=None)
        chosen = [c for c in dict.fromkeys((usual, best)) if c is not None]
        if len(chosen) == 2 and best is not None and usual is not None and best.best.digits < usual.best.digits + 1:
            chosen = [usual]
        ways = " or ".join(f"h = {_step(c)} with {_differences(c)} ({_accuracy(c)})" for c in chosen)
        several = (f"{derivative_of(chosen[0])}: " if len({c.ray for c in curves}) > 1 else "") if chosen else ""
        narrow = f" in {dtype}" if len({c.dtype for c in curves}) > 1 else ""
        found += [f"{several}Use {ways}{narrow}."] if ways else []
    return found


def _is_useful(c: Curve) -> bool:
    """Whether the best step gives a right digit, or any estimate of a slope of 0."""
    return bool(np.isfinite(c.best.relative_error)) if c.absolute else c.best.digits >= 1


def _accuracy(c: Curve) -> str:
    """Return how good the best step is: its digits, or its error where the slope is 0, which has no digits."""
    return f"an error of {numbers.short(c.best.relative_error, 2)}" if c.absolute else f"{c.best.digits:.1f} digits"


def _step(c: Curve) -> str:
    return f"{numbers.short(c.best.h * c.unit, 2)}{' times each input' if c.input is None else ''}"


def _differences(c: Curve) -> str:
    return "Richardson's extrapolation" if c.scheme == "richardson" else f"{c.scheme} differences"


def _lost(c: Curve, h: float, at: dict[str, Values]) -> str:
    """Return a sum in which a step is lost."""
    if c.input is None:
        return f"so it is for h <= {numbers.short(h, 2)} times each input,"
    x, step = numbers.short(np.asarray(at[c.input])[c.index]), numbers.short(h * c.scale, 2)
    return f"({x} + {step}) - {x} = 0"


def _range(c: Curve, why: str) -> str:
    """Return the steps at which a curve is of no use for one reason."""
    parts = [part for part in c.useless if part.why == why]
    if not parts:
        return ""
    low, high = min(part.from_ for part in parts), max(part.to for part in parts)
    if high == c.h[0]:
        return f"h >= {numbers.short(low * c.unit, 2)}"
    return f"h <= {numbers.short(high * c.unit, 2)}"


@dataclass(frozen=True, slots=True, repr=False)
class SweepReport(Printed):
    """Error against step size at one point; the outputs of a vector function are summed with `weights`.

    target       What was differentiated.
    at           The value of every input by name.
    drawn        The inputs whose values were drawn at random.
    seed         The seed of everything that was drawn.
    value        The value of f at the point.
    reference    The mode that errors are measured against, `one-sided` at a kink; null where there is none.
    curves       The errors of each scheme along each ray in each format.
    findings     What is worth knowing of the function and the point.
    evaluations  The number of evaluations of f.
    seconds      The time of the whole sweep, in seconds.
    exit_status  The exit status of this command.
    environment  The versions of what the result depends on, by name, and the number of threads.
    taylor       The remainder test of the claim.
    verdict      The verdict on the claim, as `check` gives it.
    message      The verdict as a sentence.
    function     What was differentiated, where it is not the target itself but its gradient or a product.
    h            The step that --h names, in units of the input.
    unsupported  Why there are no curves in a format, by its name.
    weights      The weights with which the outputs are summed, shaped as the value.
    noise        How noisy the function is, where it is rounded, noisy or random, and the steps that follow.
    schema       The name of this schema, with its number.
    line         The line of standard input that asked for it, counted from 1.
    """

    target: Target
    at: dict[str, Values]
    drawn: tuple[str, ...]
    seed: int
    value: Values
    reference: str | None
    curves: tuple[Curve, ...]
    findings: tuple[Finding, ...]
    evaluations: int
    seconds: float
    exit_status: Status
    environment: dict[str, str | int]
    taylor: Taylor | Absent = ABSENT
    verdict: Verdict | Absent = ABSENT
    message: str | Absent = ABSENT
    function: str | Absent = ABSENT
    h: float | Absent = ABSENT
    unsupported: dict[str, str] | Absent = ABSENT
    weights: Values | Absent = ABSENT
    noise: Noise | Absent = ABSENT
    schema: str = "gradcli.sweep/3"
    line: int | Absent = ABSENT

    def blocks(self) -> tuple[Block, ...]:
        """Return the verdict on a claim, the plot, the table and what they say."""
        place = numbers.at_values(self.at, self.drawn)
        blocks: list[Block] = list(self._claim())
        blocks.append(Paragraph(f"{self.function or f'f = {self.target.text}'} = {numbers.value(self.value)}", 0))
        blocks += [Paragraph(f"at {place}", 0)] if place else []
        if not isinstance(self.weights, Absent):
            says = (
                f"the outputs are summed with weights w = {numbers.value(self.weights)} (drawn; --json has all of them)"
            )
            blocks.append(Paragraph(says))
        for f in self.findings:
            blocks.append(Paragraph((Piece(f"{f.kind}: ", "unsure"), Piece(f.message))))
            if f.kind == Kind.NOT_DETERMINISTIC and isinstance(self.noise, Absent):
                blocks.append(Paragraph("--samples 100 takes the step from the spread of 100 values", 4))
        if self.curves:
            shown = self._shown()
            blocks += [self._chart(shown), self._table(shown)]
            blocks += [Paragraph((Piece(line, "dim"),)) for line in formulas(shown)]
            blocks += in_words(shown, self.at, advise=isinstance(self.noise, Absent))
        blocks += noise_blocks(self.noise) if isinstance(self.noise, Noise) else []
        for name, why in (self.unsupported or {}).items():
            blocks.append(Paragraph((Piece(f"{name}: {why}", "dim"),)))
        return (*blocks, *seed_line(self.seed))

    def page_blocks(self) -> tuple[Block | Figure, ...]:
        """Return the text with the step to use first, and the pictures in place of its chart."""
        found = self.blocks()
        advice = [block for block in found if isinstance(block, Paragraph) and _is_strong(block)]
        shown = [block for block in found if block not in advice]
        drawn = next((k for k, block in enumerate(shown) if isinstance(block, Chart)), len(shown))
        return (*shown[:drawn], *advice, *self.pictures(), *shown[drawn + 1 :])

    def gist(self) -> str:
        """Return the verdict on a claim, the target, and the scheme with the most digits."""
        verdict = f"{WORDS[self.verdict][0]}: " if isinstance(self.verdict, Verdict) else ""
        if not self.curves:
            return f"{verdict}{cut(self.target.text)}: no curves"
        best = max(self.curves, key=lambda c: c.best.digits)
        format_ = f" in {best.dtype}" if best.dtype != "float64" else ""
        return f"{verdict}{cut(self.target.text)}: at best {best.best.digits:.1f} digits, by {best.scheme}{format_}"

    def _claim(self) -> Iterable[Block]:
        if isinstance(self.verdict, Verdict) and isinstance(self.message, str):
            yield Headline(*WORDS[self.verdict], (Verbatim(cut(self.target.text)), Piece(f": {self.message}")))
        if isinstance(self.taylor, Taylor):
            yield Paragraph(
                (Piece("Taylor test: ", _WORD.get(self.taylor.verdict, "unsure")), Piece(self.taylor.message))
            )

    def _shown(self) -> tuple[Curve, ...]:
        """Return the curves of the ray that does worst, where there are too many for a table."""
        rays = list(dict.fromkeys(c.ray for c in self.curves))
        if len(self.curves) <= _LONG or len(rays) == 1:
            return self.curves
        best = {ray: max(c.best.digits for c in self.curves if c.ray == ray) for ray in rays[:2000]}
        worst = min(best, key=lambda ray: best[ray])
        return tuple(c for c in self.curves if c.ray == worst)

    def _chart(self, curves: tuple[Curve, ...]) -> Chart:
        """Return the chart of the text: the schemes, or of several formats the first scheme alone."""
        first = curves[0]
        several = len({c.dtype for c in curves}) > 1
        shown = [c for c in curves if c.ray == first.ray and (not several or c.scheme == first.scheme)]
        title = _titled(shown)
        if several:
            rest = len({c.scheme for c in curves}) > 1
            title = f"{first.scheme}: {title}" + " (the table has the other schemes)" * rest
        if len({c.ray for c in self.curves}) > len({c.ray for c in curves}):
            title += ", the entry that does worst"
        named = [(c.dtype if several else c.scheme, c) for c in shown]
        series = tuple(Series(name, _points(c), MARKS.get(name, "*")) for name, c in named)
        limit = ": smaller errors cannot be measured"
        return Chart(title, _along(first), "error", (*series, *_guides(shown, limit)))

    def _picture(self, curves: tuple[Curve, ...]) -> Chart:
        """Return the picture of one ray: every scheme in every format."""
        series = tuple(Series(c.scheme, _points(c), MARKS.get(c.scheme, "*"), style=c.dtype) for c in curves)
        return Chart(_titled(curves), _along(curves[0]), "error", (*series, *_guides(curves)))

    def _table(self, curves: tuple[Curve, ...]) -> Table:
        several, rays = len({c.dtype for c in curves}) > 1, len({c.ray for c in curves}) > 1
        lead = (*(["entry"] if rays else []), *(["dtype"] if several else []), "scheme")
        fixed = ("at --h",) if not isinstance(self.h, Absent) else ()
        sides = len({c.slope for c in curves if c.ray == curves[0].ray and c.dtype == curves[0].dtype}) > 1
        lead = (*lead, "slope") if sides else lead
        h = ("h (absolute)", _relative(curves[0])) if curves[0].input is not None else ("h/|x|",)
        predicted = "h in theory" if curves[0].input is not None else "h/|x| in theory"
        columns = (*lead, "order", *h, "error", "digits", predicted, "error", *fixed)
        rows = tuple(
            (
                *([derivative_of(c)] if rays else []),
                *([c.dtype] if several else []),
                c.scheme,
                *([numbers.short(c.slope)] if sides else []),
                *_cells(c),
                *([_fixed(c)] if fixed else []),
            )
            for c in curves
        )
        return Table(columns, rows, frozenset(range(len(lead), len(columns))), title=self._title(curves))

    def _title(self, curves: tuple[Curve, ...]) -> str:
        rays = {c.ray for c in self.curves}
        pictured = f", the first {PICTURED} in --plot" if len(rays) > PICTURED else ""
        if len(rays) > len({c.ray for c in curves}):
            worst = derivative_of(curves[0])
            return f"the entry that does worst of {len(rays)}: {worst}; all are in --json and --format csv{pictured}"
        return (
            ""
            if len(rays) > 1
            else derivative_of(curves[0])
            if curves[0].input
            else "along v: all inputs, in proportion to their entries"
        )

    def pictures(self) -> tuple[Picture, ...]:
        """Return a picture for each of the first rays, and the remainders of a claim."""
        rays = list(dict.fromkeys(c.ray for c in self.curves))[:PICTURED]
        found: list[Picture] = [self._picture(tuple(c for c in self.curves if c.ray == ray)) for ray in rays]
        if isinstance(self.taylor, Taylor):
            points = tuple(zip(self.taylor.h, self.taylor.remainder, strict=True))
            series = (Series("remainder", points, "t"),)
            found.append(Chart("|f(x + h v) - f(x) - h <g, v>|", "step h", "remainder", series))
        return tuple(found)

    def records(self) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
        """Return every step of every curve as a row."""
        rows: list[tuple[object, ...]] = [
            (
                c.scheme,
                c.dtype,
                c.input or "",
                ",".join(map(str, c.index)),
                h,
                error,
                None if c.input is None else h * c.scale,
            )
            for c in self.curves
            for h, error in zip(c.h, c.relative_error, strict=True)
        ]
        return ("scheme", "dtype", "input", "index", "h", "relative_error", "h_absolute"), rows


def _is_strong(block: Paragraph) -> bool:
    """Whether all of a paragraph is strong, as the advice on the step is."""
    pieces = pieces_of(block.text)
    return bool(pieces) and all(piece.tone == "strong" for piece in pieces)


def _titled(curves: Sequence[Curve]) -> str:
    return f"{'relative ' * (not all(c.absolute for c in curves))}error of {derivative_of(curves[0])}"


def _points(c: Curve) -> tuple[tuple[float, float], ...]:
    return tuple(zip(c.h_absolute or c.h, c.relative_error, strict=True))


def _along(c: Curve) -> str:
    return "step h over the inputs' sizes" if c.input is None else "step h (absolute)"


def _guides(curves: Sequence[Curve], why: str = "") -> tuple[Series, ...]:
    """Return the limits of curves along one ray: one rounding, where the format is one, and how well the slope is known."""
    if not any(drawable(error) for c in curves for error in c.relative_error):
        return ()  # a limit alone is no picture
    first, formats = curves[0], {c.dtype for c in curves}
    found = []
    if len(formats) == 1:
        found.append((f"one rounding in {first.dtype}", first.rounding))
    if not isinstance(first.known_to, Absent):
        found.append((f"bound of the reference{why}", first.known_to))
    return tuple(Series(name, tuple((h, y) for h in _ends(first)), guide=True) for name, y in found)


def _ends(c: Curve) -> tuple[float, float]:
    """Return the smallest and the largest step, as they are drawn."""
    return c.h[-1] * c.unit, c.h[0] * c.unit


def _relative(c: Curve) -> str:
    """Return the name of the column of steps over the scale."""
    return "h/|x|" if c.input == "x" else f"h/|{c.input}|" if len(str(c.input)) < _LONG_NAME else "h/scale"


def _cells(c: Curve) -> tuple[Cell, ...]:
    order = "-" if c.order is None else f"{c.order:.2f}"
    at_most = "<=" if c.scheme == "complex" else ""
    steps = [c.best.h] if c.input is None else [c.best.h * c.scale, c.best.h]
    observed = (
        *(at_most + numbers.short(h, 2) for h in steps),
        numbers.short(c.best.relative_error, 2),
        "-" if c.absolute else f"{c.best.digits:.1f}",
    )
    if c.predicted is None:
        return (order, *observed, "-", "-")
    below = "<" if c.scheme == "complex" else ""
    predicted = numbers.short(c.predicted.h * c.unit, 2)
    return order, *observed, below + predicted, numbers.short(c.predicted.relative_error, 2)


def _fixed(c: Curve) -> Cell:
    return "-" if isinstance(c.error_at_h, Absent) else numbers.short(c.error_at_h, 2)
