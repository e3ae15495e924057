"""The words that programs read in documents: verdicts, severities, kinds of findings, places; and the exit statuses."""

from collections.abc import Iterable
from enum import IntEnum, StrEnum
from typing import Literal

from gradcli.classes import dataclass

OUTLINE = -1  # in place of the number of a point: the report as a whole, passed on while a check is under way


class Verdict(StrEnum):
    """The verdict on a gradient at one point, and over all points."""

    PASS = "pass"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"


class Severity(StrEnum):
    """What a finding means for the verdict: nothing, a warning, no verdict, or that a gradient is wrong."""

    INFO = "info"
    WARNING = "warning"
    INCONCLUSIVE = "inconclusive"
    ERROR = "error"


class Kind(StrEnum):
    """What a finding is about."""

    # the function has no gradient, or none that differences show
    KINK = "kink"
    JUMP = "jump"
    STAIRCASE = "staircase"
    FINE_STRUCTURE = "fine-structure"
    NON_FINITE = "non-finite"
    SUBGRADIENT = "subgradient"
    NOT_A_SUBGRADIENT = "not-a-subgradient"
    KINK_NEARBY = "kink-nearby"
    BRANCH = "branch"
    INFINITE_SLOPE = "infinite-slope"
    ZERO_SLOPE = "zero-slope"
    DETERMINISTIC = "deterministic"
    RANGE = "range"
    SCALE = "scale"
    # what the trace and the calls of the function show
    TRACE = "trace"
    TRACE_TEST = "trace-test"
    UNTRACED = "untraced"
    NOT_DETERMINISTIC = "not-deterministic"
    EARLIER_CALLS = "depends-on-earlier-calls"
    CHANGED_SINCE = "changed-since-the-call"
    MUTATES_INPUT = "mutates-input"
    INTEGER = "integer"
    VALUE_AND_GRADIENT = "value-and-gradient"
    NOTICE = "notice"
    # how far a result can be trusted
    NOISE = "noise"
    NOT_RESOLVED = "not-resolved"
    NO_SECOND_WITNESS = "no-second-witness"
    DISAGREEMENT = "disagreement"
    CONTRADICTION = "contradiction"
    DIRECTION = "direction"
    REFERENCE = "reference"
    COMPLEX = "complex"
    FIRST_ORDER = "first-order"
    SECOND_ORDER = "second-order"
    NOT_SYMMETRIC = "not-symmetric"
    WEAK = "weak"
    APPROXIMATION = "approximation"
    PRECISION = "precision"
    INACCURATE = "inaccurate"
    # the request, and what it costs
    CLAIM = "claim"
    DIAGONAL = "diagonal"
    STRUCTURE = "structure"
    NOTHING_TO_CHECK = "nothing-to-check"
    NOTHING_TO_COMPARE = "nothing-to-compare"
    REFUSED = "refused"
    MUTANT = "mutant"
    COVERAGE = "coverage"
    PROJECTION = "projection"
    TIMEOUT = "timeout"
    BUDGET = "budget"
    UNAVAILABLE = "unavailable"
    # what a framework does
    MODULE = "module"
    CUT = "cut"
    MASKED_NAN = "masked-nan"
    STRAIGHT_THROUGH = "straight-through"
    STOP_GRADIENT = "stop-gradient"
    ACCUMULATES = "accumulates"
    OTHER_DERIVATIVE = "other-derivative"
    UNLIKE_REFERENCE = "unlike-reference"
    INNER_GRADIENT = "inner-gradient"
    # what a backward pass written by hand does
    IGNORES_COTANGENT = "ignores-cotangent"


class DiagnosisKind(StrEnum):
    """The mistake that explains a wrong claim, by its name; `unknown` where none does."""

    # in the whole gradient, or in some of its entries
    SIGN = "sign"
    FACTOR = "factor"
    SCALED = "scaled"
    SQUARED = "squared"
    CLIPPED = "clipped"
    DETACHED = "detached"
    CONSTANT = "constant"
    ENTRY = "entry"
    TRANSPOSED = "transposed"
    ONE_TRIANGLE = "one-triangle"
    PERMUTED = "permuted"
    SHIFTED = "shifted"
    BROADCAST = "broadcast"
    SWAPPED = "swapped"
    SHAPE = "shape"
    DIAGONAL_ONLY = "diagonal-only"
    NON_FINITE = "non-finite"
    # in what the ranks of a distributed program tell each other
    NOT_REDUCED = "not-reduced"
    REDUCED_TWICE = "reduced-twice"
    AVERAGED = "averaged"
    RANKS_DISAGREE = "ranks-disagree"
    # in one line of the function
    SLIP = "slip"
    NEGATED = "negated"
    LEFT_OUT = "left-out"
    TERM = "term"
    AXIS = "axis"
    OVERWRITTEN = "overwritten"
    # in the point, or in the method
    STALE = "stale"
    APPROXIMATION = "approximation"
    TOO_INEXACT = "too-inexact"
    UNKNOWN = "unknown"


class Exit(IntEnum):
    """The exit status of the process; docs/reference/exit-statuses.md has the same rows."""

    CONFIRMED = 0
    WRONG = 1
    UNUSABLE = 2
    INCONCLUSIVE = 3
    INTERNAL = 70
    INTERRUPTED = 130


ModeStatus = Literal["ok", "unavailable", "not run", "timeout", "unsupported", "failed"]  # of one mode
AspectStatus = Literal["agrees", "wrong", "differs", "not run", "unavailable"]  # forward mode, vmap, a second run
Agreement = Literal["agree", "cannot tell", "disagree"]  # of a mode with the reference
Remains = Literal["right", "wrong", "cannot tell"]  # whether the Taylor remainder of a claim shrinks as it must
ExplainedGroup = Literal["prevents a pass", "informs", "mistake"]  # of the kinds that `gradcli explain` lists
TargetKind = Literal["expression", "python"]
Derivative = Literal[
    "gradient", "Jacobian", "elementwise derivative", "Hessian", "diagonal of the Hessian", "product J v", "product w J",
    "product H v",
]  # fmt: skip
OF_SHAPE = (DiagnosisKind.SHAPE, DiagnosisKind.DIAGONAL_ONLY)  # mistakes of which the headline says all
DerivativeKind = Literal["grad", "jac", "hess", "hvp", "jvp", "vjp", "backward", "value-and-grad"]  # of what is found
FoundBy = Literal["name", "scipy", "torch", "jax", "tensorflow", "mlx"]  # what shows that a function is a gradient
RuleKind = Literal["elementwise", "linear", "bilinear", "differential", "constant"]  # how a primitive is differentiated
ALLOWED = (  # kinds that prevent a pass; `--allow` can turn them into success
    Kind.KINK, Kind.JUMP, Kind.STAIRCASE, Kind.NON_FINITE, Kind.NOISE, Kind.NOT_RESOLVED, Kind.NO_SECOND_WITNESS,
    Kind.DISAGREEMENT, Kind.CONTRADICTION, Kind.NOT_DETERMINISTIC, Kind.TRACE, Kind.TRACE_TEST, Kind.EARLIER_CALLS,
    Kind.MUTATES_INPUT, Kind.TIMEOUT, Kind.MUTANT, Kind.BUDGET, Kind.FINE_STRUCTURE, Kind.INFINITE_SLOPE, Kind.INNER_GRADIENT,
    Kind.STRUCTURE,
)  # fmt: skip
_WORST_FIRST = (Exit.INTERRUPTED, Exit.INTERNAL, Exit.WRONG, Exit.UNUSABLE, Exit.INCONCLUSIVE, Exit.CONFIRMED)


@dataclass(frozen=True, slots=True)
class RanOn:
    """Where and in which number format a framework computed a gradient.

    framework  The framework, such as torch.
    version    Its version, with that of its build where there are several.
    device     The device, such as cpu or cuda:0.
    dtype      The number format, such as float64.
    """

    framework: str
    version: str
    device: str
    dtype: str = "float64"

    def says(self) -> str:
        """Return it in words."""
        return f"{self.framework} {self.version}, {self.dtype} on {self.device}"


def slug(kind: str) -> str:
    """Return the name of a kind as it is written now; blanks, as in `trace test`, were allowed before."""
    return "-".join(kind.split())


def worst_status(statuses: Iterable[Exit]) -> Exit:
    """Return the most severe status: interrupted, internal, wrong, unusable, inconclusive, confirmed, in this order."""
    return min(statuses, key=_WORST_FIRST.index, default=Exit.CONFIRMED)
