"""What `sweep` reports of one curve of error against step size, and of the remainders of a claim."""

from dataclasses import dataclass

from gradcli.report.encode import ABSENT, Absent


@dataclass(frozen=True, slots=True)
class Best:
    """The step at which a scheme errs least; the error is the median of three neighbouring steps."""

    h: float
    relative_error: float
    digits: float
    h_absolute: float | Absent = ABSENT


@dataclass(frozen=True, slots=True)
class Predicted:
    """What theory says of the best step, with the numbers in it."""

    h: float
    relative_error: float
    formula: str
    h_absolute: float | Absent = ABSENT


@dataclass(frozen=True, slots=True)
class Useless:
    """A range of steps at which no digit is right, and why."""

    from_: float
    to: float
    why: str


@dataclass(frozen=True, slots=True)
class Curve:
    """One scheme along one ray in one format. Units: h in units of `scale`, `h_absolute` and `scale` in those of the input.

    Errors are relative to the slope, or `absolute` where that is 0; it is known to `known_to`, where it is an estimate.
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
    """

    verdict: str
    message: str
    order: float | None
    claimed: float
    slope: float
    h: tuple[float, ...]
    remainder: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class NoisyStep:
    """The step of one scheme by the noise of f, and the error that is left.

    Units  h in units of the scale, `h_absolute` of the input; the error of the slope by one scale.
    """

    scheme: str
    h: float
    error: float
    relative_error: float | None
    h_absolute: float | Absent = ABSENT


@dataclass(frozen=True, slots=True)
class Noise:
    """How far values of f scatter, in units of f, by how many values that is known, and the steps that follow from it."""

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
