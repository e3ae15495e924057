"""What a report of `compare-modes` says of each mode, format, scheme and batch."""

from dataclasses import dataclass

import numpy as np

from gradcli.report.encode import ABSENT, Absent, Values

EXACT = 99.0  # digits of a reference whose bound is zero


@dataclass(frozen=True, slots=True)
class RightDigits:
    """How many digits are right, in the worst and in the median entry.

    `at_least` where the reference itself is known to no more: the figures are lower bounds then.
    """

    worst: float
    median: float
    at_least: bool | Absent = ABSENT


@dataclass(frozen=True, slots=True)
class ModeRow:
    """What one mode answered and what it cost. Units: seconds, evaluations and operations of f, sweeps, bytes.

    Of the evaluations, `recomputed` are those that reverse sweeps over a checkpointed function run again. `sweeps` go back
    for each output, or forward for each entry of the inputs.
    """

    status: str
    gradient: dict[str, Values] | Absent = ABSENT
    jacobian: dict[str, Values] | Absent = ABSENT
    right_digits: RightDigits | Absent = ABSENT
    bound: dict[str, Values] | Absent = ABSENT
    proved: bool | Absent = ABSENT
    bound_held: bool | Absent = ABSENT
    reference: bool | Absent = ABSENT
    evaluations: int | Absent = ABSENT
    recomputed: int | Absent = ABSENT
    sweeps: int | Absent = ABSENT
    operations: int | Absent | None = ABSENT
    additions: int | Absent = ABSENT
    multiplications: int | Absent = ABSENT
    transcendental: int | Absent = ABSENT
    formula: int | Absent = ABSENT
    formula_shared: int | Absent = ABSENT
    seconds: float | Absent = ABSENT
    relative_time: float | Absent = ABSENT
    peak_bytes: int | Absent | None = ABSENT
    message: str | Absent = ABSENT
    hint: str | Absent | None = ABSENT

    @property
    def values(self) -> dict[str, Values]:
        """The gradient or Jacobian, by input."""
        return self.gradient or self.jacobian or {}


@dataclass(frozen=True, slots=True)
class SchemeSummary:
    """One difference scheme along one direction: what was observed and what theory predicts. h in units of the inputs' size."""

    scheme: str
    order: float | None
    best_h: float
    relative_error: float
    digits: float
    predicted_h: float | None
    predicted_error: float | None


@dataclass(frozen=True, slots=True)
class Precision:
    """A gradient in low precision. Units: ulps of that precision; entries; events of the whole reverse sweep.

    `loss_scale` is k where the loss was scaled by 2^k; `restored` entries are finite then, and no longer zero.
    """

    dtype: str
    ulps_worst: float
    ulps_median: float
    zeros: int
    not_finite: int
    underflows: int
    subnormals: int
    overflows: int
    loss_scale: int | None = None
    restored: int | None = None
    scaled_ulps_worst: float | None = None
    scaled_ulps_median: float | None = None
    scaled_overflows: int | None = None
    scaled_not_finite: int | None = None


@dataclass(frozen=True, slots=True)
class Accumulation:
    """Gradients of micro-batches against that of the full batch: differences relative to its largest entry."""

    count: int
    inputs: tuple[str, ...]
    batch: int
    how: str | None
    mean_differs: float
    sum_differs: float
    uneven: bool

    def says(self) -> str:
        """Return the finding in a sentence."""
        whole = f"{self.count} micro-batches of {', '.join(self.inputs)} ({self.batch} rows)"
        weighted = "mean, weighted by their rows," if self.uneven else "mean"
        if not np.isfinite(self.mean_differs):
            return f"{whole}: a gradient is not finite, so there is nothing to compare"
        if self.how is None:
            return (
                f"{whole}: neither the {weighted} ({self.mean_differs:.1e} off) nor the sum ({self.sum_differs:.1e} off) "
                "of their gradients is that of the full batch: the loss mixes rows (batch statistics, a norm over rows)"
            )
        differs = self.mean_differs if self.how == "mean" else self.sum_differs
        other = "their sum" if self.how == "mean" else "their mean"
        off = self.sum_differs if self.how == "mean" else self.mean_differs
        which = weighted if self.how == "mean" else "sum"
        right = f"the {which} of their gradients is that of the full batch to {differs:.1e} (rounding)"
        return f"{whole}: {right}; {other} is off by {off:.2g} {'times' if off >= 1 else 'of'} the largest entry"


@dataclass(frozen=True, slots=True)
class Product:
    """One way to a product H v. Units: evaluations of the gradient, seconds, time in those of one gradient.

    `at_least` where the Hessian that digits are counted against is known to no more.
    """

    name: str
    evaluations: int
    seconds: float
    relative_time: float
    digits: float | None
    at_least: bool | Absent = ABSENT
