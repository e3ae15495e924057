"""What a report of `sweep` says of each curve, and of a claim."""

from dataclasses import dataclass
from typing import Literal, get_args

from gradcli.report.absent import ABSENT, Absent
from gradcli.words import Remains

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
