"""What a report of `check` says of one point."""

from dataclasses import dataclass, field

from gradcli.report.common import Finding
from gradcli.report.encode import ABSENT, TEXT_ONLY, Absent, Given, Values
from gradcli.words import Verdict


@dataclass(frozen=True, slots=True)
class Detects:
    """The smallest relative error of an entry that the check would have seen, and the entry where it is largest.

    Where every entry is 0 there is no relative error: `absolute` is the smallest error that would have been seen.
    """

    relative: float | None
    at: str | None
    absolute: float | None = field(default=None, metadata={TEXT_ONLY: True})


NO_SIZE = Detects(None, None)  # no error is certain to be seen, or there is no verdict


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One entry of a claim that is wrong."""

    input: str
    index: tuple[int, ...]
    claimed: float
    reference: float
    difference: float
    bound: float
    ratio: float
    output: tuple[int, ...] | Absent = ABSENT


@dataclass(frozen=True, slots=True)
class Mutant:
    """A mistake planted in the gradient under test: in how many entries, each alone, and how many would be caught.

    For a mistake of a size: the smallest at which every entry would be caught, and the smallest for any.
    """

    mistake: str
    planted: int
    caught: int
    smallest_in_every: float | None
    smallest_in_any: float | None

    @property
    def sizeless(self) -> bool:
        """Whether the mistake has no size that could be smaller."""
        return self.smallest_in_any is None


@dataclass(frozen=True, slots=True)
class Entries:
    """How many entries were compared, and how that went."""

    compared: int
    wrong: int
    undecided: int


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The likely mistake behind a wrong claim."""

    kind: str
    message: str
    file: str | None = None
    line: int | None = None
    source: str | None = None
    corrected: str | None = None


@dataclass(frozen=True, slots=True)
class ModeResult:
    """What one mode answered, or why it did not."""

    status: str
    gradient: dict[str, Values] | Absent = ABSENT
    jacobian: dict[str, Values] | Absent = ABSENT
    bound: dict[str, Values] | Absent = ABSENT
    decimals: dict[str, Values] | Absent = ABSENT
    proved: bool | Absent = ABSENT
    verdict: str | Absent = ABSENT
    evaluations: int | Absent = ABSENT
    seconds: float | Absent = ABSENT
    rests_on: tuple[str, ...] | Absent = ABSENT
    message: str | Absent = ABSENT
    hint: str | Absent | None = ABSENT

    @property
    def values(self) -> dict[str, Values]:
        """The gradient or Jacobian, by input."""
        return self.gradient or self.jacobian or {}


@dataclass(frozen=True, slots=True)
class TraceReport:
    """Whether the recorded program gives the function's values beside the point; None where this could not be compared.

    `detects` is the smallest term that would have been seen to be lost, relative to all contributions of the gradient.
    """

    agrees: bool | None
    detects: float | None
    evaluations: int
    message: str | Absent = ABSENT


@dataclass(frozen=True, slots=True)
class PointReport:
    """One point: the value, every mode, and the verdict."""

    at: dict[str, Given]
    drawn: tuple[str, ...]
    differentiated: tuple[str, ...]
    constant: tuple[str, ...]
    value: Values | Absent
    verdict: Verdict
    reference: str | None
    gradient: dict[str, Values] | Absent
    jacobian: dict[str, Values] | Absent
    entries: Entries
    mismatches: tuple[Mismatch, ...]
    modes: dict[str, ModeResult]
    findings: tuple[Finding, ...]
    diagnosis: Diagnosis | None
    detects: Detects
    outputs: tuple[str, ...] | Absent = ABSENT
    mutants: tuple[Mutant, ...] | Absent = ABSENT
    trace_test: TraceReport | Absent = ABSENT
    not_claimed: tuple[str, ...] | Absent = ABSENT
