"""The report of `sweep`: error against step size, and what to read from it."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal, get_args

import numpy as np

from gradcli.classes import dataclass
from gradcli.report import numbers
from gradcli.report.blocks import (
    WORDS,
    Block,
    Chart,
    Figure,
    Headline,
    Paragraph,
    Picture,
    Piece,
    Region,
    Series,
    Table,
    Tone,
    Verbatim,
    cut_between_words,
    is_drawable,
    shorten_text,
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
_OF_V = "Here g is the claim, and v moves each input by its own size."
PICTURED = 6  # rays that have a picture
_A_DIGIT = 0.1  # the relative error of one right digit
_AS_ROUNDING = 0.25  # how far an observed slope may be from the -1 of rounding
_TITLED = 40  # letters of f, and of the point, in the title of a picture


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
    truncation_steps  The smallest and the largest step between which the error falls with `order`, in units of `scale`.
    rounding_steps  The same for `rounding_slope`.
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
    truncation_steps: tuple[float, float] | Absent = ABSENT
    rounding_steps: tuple[float, float] | Absent = ABSENT

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

    @property
    def drawn(self) -> float:
        """The step in the units that are drawn and said."""
        return self.h if isinstance(self.h_absolute, Absent) else self.h_absolute


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

    def blocks(self) -> list[Block]:
        """Return how noisy the function is, and the steps that follow from it."""
        by = f"{self.samples} calls at the point" if self.random else f"{self.samples} values beside the point"
        rows = []
        for step in self.steps:
            absolute = [] if isinstance(step.h_absolute, Absent) else [numbers.few_digits(step.h_absolute, 2)]
            relative = "no digit" if step.relative_error is None else numbers.few_digits(step.relative_error, 2)
            rows.append((step.scheme, *absolute, numbers.few_digits(step.h, 2), relative))
        columns = ("scheme", *([] if self.input is None else ["h"]), "h/|x|", "error")
        title = "steps that balance this noise and truncation"
        says = f"Values of f scatter by {numbers.few_digits(self.level, 2)} (standard deviation, by {by})."
        return [Paragraph(says), Table(columns, rows, range(1, len(columns)), title)]


def derivative_of(c: Curve) -> str:
    """Return what a curve is the error of: df/dx[0], or the slope along all inputs."""
    if c.input is None:
        return "the slope along all inputs"
    return f"df/d{c.input}" + (f"[{','.join(map(str, c.index))}]" if c.index else "")


def _notes_on_curves(curves: tuple[Curve, ...], at: dict[str, Values]) -> list[Block]:
    """Return what the curves say, in sentences, and where they say nothing."""
    found: list[Block] = []
    first = {c.dtype: c for c in reversed(curves)}
    still = [(c, part) for c in reversed(first.values()) for part in c.useless if part.why == "below one ulp"]
    if still:
        c, part = still[0]
        if c.input is None:
            lost = f"so it is for h <= {numbers.few_digits(part.to, 2)} times each input,"
        else:
            x, step = numbers.few_digits(np.asarray(at[c.input])[c.index]), numbers.few_digits(part.to * c.scale, 2)
            if float(step) > part.to * c.scale:  # rounded up, a step may not be lost
                step = numbers.few_digits(0.9 * part.to * c.scale, 2)
            lost = f"({x} + {step}) - {x} = 0"
        found.append(Paragraph(f"A step below half a unit in the last place of x is lost: {lost} in {c.dtype}."))
    if any(c.best.relative_error > 0 for c in curves):
        says = "Each error is about the least of its curve, the median of three steps: steps close by may err more."
        found.append(Paragraph((Piece(says, "dim"),)))
    useless = [c for c in curves if c.useless]
    if useless:
        several = len({c.ray for c in curves}) > 1
        rows = []
        for c in useless:
            steps: dict[Why, list[str]] = {why: [] for why in WHYS}
            for part in reversed(c.useless):
                low, high = (numbers.few_digits(h * c.unit, 2) for h in (part.from_, part.to))
                between = low if low == high else f"{low} to {high}"
                below = f"h <= {high}" if part.from_ == c.h[-1] else between
                steps[part.why].append(f"h >= {low}" if part.to == c.h[0] else below)
            name = f"{derivative_of(c)} " * several + f"{c.dtype} {c.scheme}"
            rows.append((name, *map(", ".join, steps.values())))
        found.append(Table(("no right digit", *WHYS), rows, range(1, len(WHYS) + 1)))
    return found


def recommended_curves(curves: Sequence[Curve]) -> list[tuple[Curve, ...]]:
    """Return the curves whose step to use, for each entry and format: central differences, and a scheme that is better.

    The second one gives at least one digit more; where no central difference gives a digit, the best scheme is alone.
    """
    found: list[tuple[Curve, ...]] = []
    for ray, dtype in dict.fromkeys((c.ray, c.dtype) for c in curves):
        those = [c for c in curves if (c.ray, c.dtype) == (ray, dtype) and c.scheme != "complex" and _is_useful(c)]
        if those:
            best = max(those, key=lambda c: c.best.digits)
            usual = next((c for c in those if c.scheme == "central"), best)
            found.append((usual, best) if best.best.digits >= usual.best.digits + 1 else (usual,))
    return found


def _observed_limits(c: Curve) -> list[tuple[str, float, tuple[float, float]]]:
    """Return what makes the error at steps on either side of the best one: rounding, truncation, or neither is observed.

    Each with the observed slope, and the steps between which it was observed, in the units that are drawn.
    """
    found = []
    if c.rounding_slope is not None and abs(c.rounding_slope + 1) < _AS_ROUNDING:
        found.append(("rounding", c.rounding_slope, c.rounding_steps or ()))
    if c.order is not None:
        found.append(("truncation", c.order, c.truncation_steps or ()))
    return [(name, slope, (steps[0] * c.unit, steps[1] * c.unit)) for name, slope, steps in found if steps]


_LAWS = {
    "rounding": "the error grows as 1/h (observed slope {:.2f}), because the rounding errors of f are divided by h",
    "truncation": "the error grows as a power of h (observed slope {:.2f}), because higher derivatives of f are left out",
}


def _is_useful(c: Curve) -> bool:
    """Whether the best step gives a right digit, or any estimate of a slope of 0."""
    return bool(np.isfinite(c.best.relative_error)) if c.absolute else c.best.digits >= 1


def _accuracy_in_words(c: Curve) -> str:
    """Return how good the best step is: its digits, or its error where the slope is 0, which has no digits."""
    error = numbers.few_digits(c.best.relative_error, 2)
    return f"an error of {error}" if c.absolute else f"{c.best.digits:.1f} digits"


def _step_in_words(c: Curve) -> str:
    return f"{numbers.few_digits(c.best.h * c.unit, 2)}{' times each input' if c.input is None else ''}"


def _scheme_in_words(c: Curve) -> str:
    return "Richardson's extrapolation" if c.scheme == "richardson" else f"{c.scheme} differences"


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
        place = numbers.write_point(self.at, self.drawn)
        blocks: list[Block] = []
        if isinstance(self.verdict, Verdict) and isinstance(self.message, str):
            says = (Verbatim(shorten_text(self.target.text)), Piece(f": {self.message}"))
            blocks.append(Headline(*WORDS[self.verdict], says))
        if self.taylor:
            head = Piece("Taylor test: ", _WORD.get(self.taylor.verdict, "unsure"))
            blocks.append(Paragraph((head, Piece(f"{self.taylor.message} {_OF_V}"))))
        blocks += self._advice_blocks()
        blocks.append(Paragraph(f"{self.function or f'f = {self.target.text}'} = {numbers.write_value(self.value)}", 0))
        blocks += [Paragraph(f"at {place}", 0)] if place else []
        if not isinstance(self.weights, Absent):
            weights = f"{numbers.write_value(self.weights)} (drawn; --json has all of them)"
            blocks.append(Paragraph(f"the outputs are summed with weights w = {weights}"))
        for f in self.findings:
            blocks.append(Paragraph((Piece(f"{f.kind}: ", "unsure"), Piece(f.message))))
            if f.kind == Kind.NOT_DETERMINISTIC and isinstance(self.noise, Absent):
                blocks.append(Paragraph("--samples 100 takes the step from the spread of 100 values", 4))
        blocks += self._curve_blocks(self._curves_to_show()) if self.curves else []
        blocks += self.noise.blocks() if self.noise else []
        for name, why in (self.unsupported or {}).items():
            blocks.append(Paragraph((Piece(f"{name}: {why}", "dim"),)))
        return (*blocks, *seed_line(self.seed))

    def page_blocks(self) -> tuple[Block | Figure, ...]:
        """Return the text with the pictures in place of its chart."""
        shown = self.blocks()
        drawn = next((k for k, block in enumerate(shown) if isinstance(block, Chart)), len(shown))
        return (*shown[:drawn], *self.pictures(), *shown[drawn + 1 :])

    def gist(self) -> str:
        """Return the verdict on a claim, the target, and the scheme with the most digits."""
        verdict = f"{WORDS[self.verdict][0]}: " if isinstance(self.verdict, Verdict) else ""
        if not self.curves:
            return f"{verdict}{shorten_text(self.target.text)}: no curves"
        best = max(self.curves, key=lambda c: c.best.digits)
        format_ = f" in {best.dtype}" if best.dtype != "float64" else ""
        return f"{verdict}{shorten_text(self.target.text)}: at best {best.best.digits:.1f} digits, by {best.scheme}{format_}"

    def _advice_blocks(self) -> Iterable[Block]:
        """Return the step to use, by the noise of f or else by the curves, or that no step is of use."""
        step = self._best_noisy_step()
        if step is not None:
            unit = " times each input" if isinstance(step.h_absolute, Absent) else ""
            says = [f"Use h = {numbers.few_digits(step.drawn, 2)}{unit} with {step.scheme} differences."]
        elif isinstance(self.noise, Absent) and self.curves:
            says, curves, rays = [], self._curves_to_show(), len({c.ray for c in self.curves})
            for chosen in recommended_curves(curves):
                each = (f"h = {_step_in_words(c)} with {_scheme_in_words(c)} ({_accuracy_in_words(c)})" for c in chosen)
                worst = f" (worst of {rays})" * (len({c.ray for c in curves}) < rays)
                of_entry = f"{derivative_of(chosen[0])}{worst}: " if rays > 1 else ""
                narrow = f" in {chosen[0].dtype}" if len({c.dtype for c in curves}) > 1 else ""
                says.append(f"{of_entry}Use {' or '.join(each)}{narrow}.")
            best = next((c for c in curves if c.scheme == "complex" and _is_useful(c)), None)
            if best and not says:  # where differences are of no use
                says.append(f"Use the complex step with h <= {_step_in_words(best)} ({_accuracy_in_words(best)}).")
        else:
            says = []
        return [Paragraph((Piece(line, "strong"),), 0) for line in says]

    def _best_noisy_step(self) -> NoisyStep | None:
        """Return the step of the least error by the noise of f, if f is noisy and one gives a right digit."""
        steps = () if isinstance(self.noise, Absent) else self.noise.steps
        useful = [s for s in steps if s.relative_error is not None and s.relative_error <= _A_DIGIT]
        return min(useful, key=lambda s: s.error, default=None)

    def _is_noisy(self) -> bool:
        """Whether it is the noise of f, more than its rounding, that limits small steps."""
        return isinstance(self.noise, Noise) or any(f.kind == Kind.NOISE for f in self.findings)

    def _curves_to_show(self) -> tuple[Curve, ...]:
        """Return the curves of the ray that does worst, where there are too many for a table."""
        rays = list(dict.fromkeys(c.ray for c in self.curves))
        if len(self.curves) <= _LONG or len(rays) == 1:
            return self.curves
        best = {ray: max(c.best.digits for c in self.curves if c.ray == ray) for ray in rays[:2000]}
        worst = min(best, key=lambda ray: best[ray])
        return tuple(c for c in self.curves if c.ray == worst)

    def _curve_blocks(self, curves: tuple[Curve, ...]) -> Iterable[Block]:
        """Yield the curves of a table as a chart and as the table, and what is to be read from them.

        The chart has the schemes of the first ray, or of several formats one scheme alone, that of the step to use.
        """
        one_ray = [c for c in curves if c.ray == curves[0].ray]
        chosen = recommended_curves(one_ray)
        if len({c.dtype for c in one_ray}) == 1:
            yield self._chart_of_ray(one_ray)
        else:
            scheme = next((best.scheme for best, *_ in chosen), one_ray[0].scheme)
            drawn = self._chart_of_ray([c for c in one_ray if c.scheme == scheme])
            rest = " (the table has the other schemes)" * (len({c.scheme for c in one_ray}) > 1)
            series = (replace(s, name=s.style or s.name, mark=MARKS.get(s.style, s.mark)) for s in drawn.series)
            yield replace(drawn, title=f"{drawn.title}, {scheme}{rest}", series=tuple(series))
        yield self._curve_table(curves)
        predicted = [(c, c.predicted.formula) for c in one_ray if c.predicted and c.dtype == curves[0].dtype]
        lines = [f"{c.scheme}: {formula}" for c, formula in predicted]
        if lines:
            lines[:0] = ["predicted from e, the rounding error of one value of f, and the derivatives of f, measured:"]
        yield from (Paragraph((Piece(line, "dim"),)) for line in lines)
        if len(chosen) == 1 and not self._is_noisy():  # in one format, what limits the scheme of the step to use
            c = chosen[0][0]
            unit = " times each input" if c.input is None else ""
            whose = _scheme_in_words(c) + (f" of {derivative_of(c)}" if len({c.ray for c in curves}) > 1 else "")
            for name, slope, steps in _observed_limits(c):
                low, high = (numbers.few_digits(h, 2) for h in steps)
                law = _LAWS[name].format(slope)
                yield Paragraph(f"From h = {low} to {high}{unit}, {name} limits {whose}: {law}.")
        yield from _notes_on_curves(curves, self.at)

    def _chart_of_ray(self, curves: Sequence[Curve]) -> Chart:
        """Return the picture of one ray: every scheme in every format, the steps to use, and what limits others.

        Where rounding and truncation limit the scheme of the step to use is shown of one format.
        """
        lines = []
        for c in curves:
            points = tuple(zip(c.h_absolute or c.h, c.relative_error, strict=True))
            lines.append(Series(c.scheme, points, MARKS.get(c.scheme, "*"), style=c.dtype))
        limits = _error_limits(curves)
        heights = [y for s in (*lines, *limits) for _, y in s.points if is_drawable(y)]
        what = f"{'relative ' * (not all(c.absolute for c in curves))}error of {derivative_of(curves[0])}"
        regions: list[Region] = []
        chosen = recommended_curves(curves)
        marked: list[tuple[float, str]] = []  # the steps to use, as they are drawn, with their names
        if step := self._best_noisy_step():
            marked = [(step.drawn, step.scheme)]
        elif not self._is_noisy():
            several = len({c.dtype for c in curves}) > 1
            marked = [(c.best.h * c.unit, f"{c.scheme}{f' in {c.dtype}' * several}") for c, *_ in chosen]
        steps = []
        for h, how in marked if heights else ():
            ends = tuple((h, y) for y in (min(heights), max(heights)))
            steps.append(Series(f"h = {numbers.few_digits(h, 2)}, {how}", ends, guide=True))
        if len(chosen) == 1 and not self._is_noisy():
            for name, slope, (low, high) in _observed_limits(chosen[0][0]):
                regions.append(Region(f"{name}: slope {numbers.few_digits(slope, 2)}", low, high))
        title = f"{self._function_at_point()}: {what}"
        x = "step h over the inputs' sizes" if curves[0].input is None else "step h (absolute)"
        return Chart(title, x, "error", (*lines, *limits, *steps), tuple(regions))

    def _function_at_point(self) -> str:
        """Return f and the point, as the titles of pictures have them."""
        what, place = cut_between_words(self.function or self.target.text, _TITLED), numbers.write_point(self.at)
        return f"{what} at {cut_between_words(place, _TITLED)}" if place else what

    def _curve_table(self, curves: tuple[Curve, ...]) -> Table:
        first = curves[0]
        relative = f"h/|{first.input}|" if len(str(first.input)) < _LONG_NAME else "h/scale"
        h = ("h/|x|",) if first.input is None else ("h", relative)
        predicted = "h/|x| in theory" if first.input is None else "h in theory"
        sides = len({c.slope for c in curves if c.ray == first.ray and c.dtype == first.dtype}) > 1
        several, rays = len({c.dtype for c in curves}) > 1, len({c.ray for c in curves})
        lead = [*["entry"] * (rays > 1), *["dtype"] * several, "scheme", *["slope"] * sides]
        fixed = () if isinstance(self.h, Absent) else ("at --h",)
        columns = (*lead, "order", *h, "error", "digits", predicted, "error", *fixed)
        rows = []
        for c in curves:
            slope = numbers.few_digits(c.slope)
            which = {"entry": derivative_of(c), "dtype": c.dtype, "scheme": c.scheme, "slope": slope}
            at_h = "-" if isinstance(c.error_at_h, Absent) else numbers.few_digits(c.error_at_h, 2)
            rows.append((*(which[name] for name in lead), *_curve_cells(c), *([at_h] if fixed else [])))
        every = len({c.ray for c in self.curves})
        name = derivative_of(first)
        title = name if first.input else "along all inputs, each in proportion to its size"
        if every > rays:
            title = f"the entry that does worst of {every}: {name}; all are in --json and --format csv"
            title += f", the first {PICTURED} in --plot" if every > PICTURED else ""
        elif every > 1:
            title = ""
        return Table(columns, rows, range(len(lead), len(columns)), title)

    def pictures(self) -> tuple[Picture, ...]:
        """Return a picture for each of the first rays, and the remainders of a claim."""
        rays = list(dict.fromkeys(c.ray for c in self.curves))[:PICTURED]
        found: list[Picture] = [self._chart_of_ray(tuple(c for c in self.curves if c.ray == ray)) for ray in rays]
        if self.taylor:
            points = tuple(zip(self.taylor.h, self.taylor.remainder, strict=True))
            title = f"{self._function_at_point()}: |f(x + h v) - f(x) - h <g, v>|. {_OF_V}"
            found.append(Chart(title, "step h", "remainder", (Series("remainder", points, "t"),)))
        return tuple(found)

    def records(self) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
        """Return every step of every curve as a row."""
        rows: list[tuple[object, ...]] = []
        for c in self.curves:
            curve = (c.scheme, c.dtype, c.input or "", ",".join(map(str, c.index)))
            for h, error in zip(c.h, c.relative_error, strict=True):
                rows.append((*curve, h, error, None if c.input is None else h * c.scale))
        return ("scheme", "dtype", "input", "index", "h", "relative_error", "h_absolute"), rows


def _error_limits(curves: Sequence[Curve]) -> tuple[Series, ...]:
    """Return the limits of curves along one ray: one rounding, where the format is one, and how well the slope is known."""
    if not any(is_drawable(error) for c in curves for error in c.relative_error):
        return ()  # a limit alone is no picture
    first, formats = curves[0], {c.dtype for c in curves}
    found = []
    if len(formats) == 1:
        found.append((f"one rounding in {first.dtype}", first.rounding))
    if not isinstance(first.known_to, Absent):
        found.append(("bound of the reference", first.known_to))
    ends = (first.h[-1] * first.unit, first.h[0] * first.unit)
    return tuple(Series(name, tuple((h, y) for h in ends), guide=True) for name, y in found)


def _curve_cells(c: Curve) -> tuple[str, ...]:
    order = "-" if c.order is None else f"{c.order:.2f}"
    at_most, below = ("<=", "<") if c.scheme == "complex" else ("", "")
    steps = [c.best.h] if c.input is None else [c.best.h * c.scale, c.best.h]
    observed = [at_most + numbers.few_digits(h, 2) for h in steps]
    observed += [numbers.few_digits(c.best.relative_error, 2), "-" if c.absolute else f"{c.best.digits:.1f}"]
    if c.predicted is None:
        return (order, *observed, "-", "-")
    predicted = below + numbers.few_digits(c.predicted.h * c.unit, 2)
    return order, *observed, predicted, numbers.few_digits(c.predicted.relative_error, 2)
