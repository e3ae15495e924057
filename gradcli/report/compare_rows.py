"""What a report of `compare-modes` says of each mode, format, scheme and batch."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from gradcli.report.absent import ABSENT, Absent
from gradcli.report.encode import Values
from gradcli.words import ModeStatus, RanOn

EXACT = 99.0  # digits of a reference whose bound is zero


@dataclass(frozen=True, slots=True)
class RightDigits:
    """How many digits are right, in the worst and in the median entry.

    `at_least` where the reference itself is known to no more: the figures are lower bounds then.

    worst     The right decimal digits of the worst entry; 99 where it is exact.
    median    The right decimal digits of the median entry; 99 where it is exact.
    at_least  Whether the true figures may be larger, because the reference is known to no more.
    """

    worst: float
    median: float
    at_least: bool | Absent = ABSENT


@dataclass(frozen=True, slots=True)
class ModeRow:
    """What one mode answered and what it cost. Units: seconds, evaluations and operations of f, sweeps, bytes.

    Of the evaluations, `recomputed` are those that reverse sweeps over a checkpointed function run again. `sweeps` go back
    for each output, or forward for each entry of the inputs.

    status           Whether the mode answered, and if not, why.
    gradient         The gradient with respect to each input, shaped as the input, for a scalar result.
    jacobian         The Jacobian with respect to each input, indexed [output, input], for a result that is no scalar.
    right_digits     The decimal digits in which it agrees with the reference.
    bound            A bound on the error of each entry by input, shaped as the gradient or Jacobian.
    proved           Whether the bound is proved, not estimated.
    bound_held       Whether the difference from the reference lies within the bound.
    reference        Whether the others are compared with this mode; left out where they are not.
    evaluations      The number of evaluations of f.
    recomputed       The number of these that a checkpointed function runs again.
    sweeps           The number of sweeps: back for each output, or forward for each entry of the inputs.
    operations       The number of scalar operations, null where they cannot be counted.
    additions        The number of additions, subtractions and comparisons.
    multiplications  The number of multiplications and divisions.
    transcendental   The number of evaluations of transcendental functions, square roots among them.
    formula          The number of operations of the derivative written out as a formula.
    formula_shared   The same number with common subexpressions named.
    seconds          The time of one gradient, in seconds.
    relative_time    The same time in evaluations of f.
    peak_bytes       The memory held at the peak of one run, in bytes; null where it was not measured.
    ran_on           Where a framework computed it: the framework, its version, the device and the format.
    message          Why there is no answer, as a sentence.
    hint             What to do to get an answer, null where nothing is known to help.
    """

    status: ModeStatus
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
    ran_on: RanOn | Absent = ABSENT
    message: str | Absent = ABSENT
    hint: str | Absent | None = ABSENT

    @property
    def values(self) -> dict[str, Values]:
        """The gradient or Jacobian, by input."""
        return self.gradient or self.jacobian or {}


@dataclass(frozen=True, slots=True)
class SchemeSummary:
    """One difference scheme along one direction: what was observed and what theory predicts. h in units of the inputs' size.

    scheme           The name of the difference scheme.
    order            The observed power of h with which the error falls; null where it follows none.
    best_h           The step of the least error, in units of the inputs' size.
    relative_error   The relative error at this step, the median of three neighbouring steps.
    digits           The right decimal digits at this step.
    predicted_h      The best step by theory, in units of the inputs' size; null where nothing is predicted.
    predicted_error  The relative error there by theory; null where nothing is predicted.
    """

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

    dtype               The format that the gradient was computed in.
    ulps_worst          The error of the worst entry, in units in the last place of the format.
    ulps_median         The error of the median entry, in the same units.
    zeros               The number of entries that are 0 in the format and not in truth.
    not_finite          The number of entries that are infinite or nan in the format.
    underflows          The number of operations of the reverse sweep that underflowed to 0.
    subnormals          The number of operations of the reverse sweep with a subnormal result.
    overflows           The number of operations of the reverse sweep that overflowed.
    loss_scale          The power of two that the loss was scaled by; null where it was not scaled.
    restored            The number of entries that are finite and not 0 with the scaled loss.
    scaled_ulps_worst   The error of the worst entry with the scaled loss, in units in the last place.
    scaled_ulps_median  The error of the median entry with the scaled loss, in the same units.
    scaled_overflows    The number of operations that overflowed with the scaled loss.
    scaled_not_finite   The number of entries that are infinite or nan with the scaled loss.
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
    """Gradients of micro-batches against that of the full batch: differences relative to its largest entry.

    count         The number of micro-batches.
    inputs        The inputs that were split along their first axis.
    batch         The number of rows of the full batch.
    how           Which of their gradients' mean and sum is that of the full batch; null where neither is.
    mean_differs  The largest difference of the mean, relative to the largest entry of the full gradient.
    sum_differs   The largest difference of the sum, relative to the same entry.
    uneven        Whether the micro-batches have different numbers of rows, by which the mean is weighted then.
    """

    count: int
    inputs: tuple[str, ...]
    batch: int
    how: Literal["mean", "sum"] | None
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

    name           How the product is computed.
    evaluations    The number of evaluations of the gradient.
    seconds        The time of one product, in seconds.
    relative_time  The same time in evaluations of the gradient.
    digits         The right decimal digits of the worst entry; null where they are not known.
    at_least       Whether the true figure may be larger, because the Hessian is known to no more.
    """

    name: str
    evaluations: int
    seconds: float
    relative_time: float
    digits: float | None
    at_least: bool | Absent = ABSENT
