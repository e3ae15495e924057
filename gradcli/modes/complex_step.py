"""The complex step: Im f(x + i h) / h, where the function is analytic and accepts complex numbers."""

import warnings

import numpy as np

from gradcli.errors import GradcliError, NotSupported, OutOfTime
from gradcli.modes.jacobians import jacobian_from_columns, unit_directions
from gradcli.modes.kinks import refuse_undefined
from gradcli.modes.mode import Available, Question
from gradcli.modes.problem import TRACED
from gradcli.request.point import Array, Estimate, EstimateCost, Witness
from gradcli.targets.derived import inner_gradient
from gradcli.tracing.provenance import place_of_position
from gradcli.tracing.shapes import shape

_SAME = 1e-9  # of f: how near its real part must stay to its value for real numbers
_AT_ZERO = 1e-3  # the size assumed for an entry of 0
_LEAST = 1e-250  # the least size of an entry: the step for a smaller one would lose its digits
_APART = 1e-3  # of the entry's size: how far it is moved to see whether f depends on it at all
H = 2.0**-66  # of the entry's size: nothing is subtracted, so the step can be far below rounding


class ComplexStep:
    """One complex evaluation for each entry of the inputs.

    Source  Squire and Trapp (1998), Using complex variables to estimate derivatives of real functions.
    """

    name = "complex-step"
    rests_on = frozenset({Witness.FUNCTION_VALUES})

    def available(self) -> Available:
        return Available()

    def gradient(self, q: Question) -> Estimate:
        """Return the gradient by complex steps.

        Error   rounding, as for the sweeps of other modes; truncation is below it.
        Cost    one complex evaluation for each entry of the inputs.
        Raises  NotSupported if an operation is not analytic or does not take complex numbers; NotRun, Undecided.
        """
        q.refuse_untraced()
        refuse_undefined(q.value)
        if inner_gradient(q.f) is not None:
            raise NotSupported("gradcli's gradient is made for real numbers")
        self.refuse_if_not_analytic(q)
        value: dict[str, Array] = {}
        count = 0
        q.budget.admit(TRACED * q.entries * q.work, f"{q.entries:,} evaluations with complex numbers")
        for k, name in enumerate(q.wrt):
            columns = []
            for direction in unit_directions(q.xs[k]):
                columns.append(self._derivative_along(q, k, direction))
            count += len(columns)
            value[name] = jacobian_from_columns(columns, q.value, q.xs[k])
        # complex functions take more operations than real ones; truncation is of the order of H squared
        loss = max((p.complex_loss for p, *_ in q.program_lines if p is not None), default=0.0)
        largest = max((float(np.max(np.abs(x), initial=0.0)) for x in q.xs), default=1.0)
        truncation = float(np.max(np.abs(q.value), initial=0.0)) / max(1e-3, largest)  # in f per unit of its inputs
        least = (H**1.5 + loss) * q.largest_adjoint + H**1.5 * truncation
        bound = {name: 4 * b + least + loss * np.abs(value[name]) for name, b in q.rounding.items()}
        cost = EstimateCost(evaluations=count, operations=4 * q.operations * count)
        return Estimate(value, bound, statistical=q.rounding_is_estimated, cost=cost)

    def refuse_if_not_analytic(self, q: Question) -> None:
        """Raise NotSupported if an operation on the path has no complex derivative."""
        for primitive, _, _, _, params, position in (*q.program_lines, *q.program.tape.decisions):
            if primitive is not None and not primitive.analytic:
                raise NotSupported(f"{primitive.title(params)} is not analytic", where=place_of_position(position))

    def _derivative_along(self, q: Question, k: int, direction: Array) -> Array:
        size = float(np.max(np.abs(q.xs[k] * direction)))
        if 0 < size < _LEAST:
            raise NotSupported(f"an entry of {size:.1e} is too small to step from with complex numbers")
        h = float(np.exp2(np.rint(np.log2(H * (size or _AT_ZERO)))))  # of 2: imaginary parts round as derivatives do
        xs = list(q.xs)
        xs[k] = q.xs[k] + 1j * h * direction
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("error", np.exceptions.ComplexWarning)
            try:
                y = np.asarray(q.g(*xs))
            except OutOfTime:
                raise
            except (GradcliError, TypeError, np.exceptions.ComplexWarning) as error:
                what = getattr(error, "what", str(error)).split("\n")[0]
                raise NotSupported(f"the function does not take complex numbers: {what[:120]}") from None
        if not np.iscomplexobj(y) and np.size(y):
            xs[k] = q.xs[k] + _APART * np.maximum(1.0, np.abs(q.xs[k])) * direction
            if np.array_equal(q.near(*xs), q.value):
                return np.zeros(shape(q.value))[()]  # f does not depend on this entry
            raise NotSupported("the function does not take complex numbers: its result is real")
        apart = np.abs(np.real(y) - q.value)
        if np.any(apart > _SAME * (np.abs(q.value) + q.largest_adjoint * _SAME) + 1e3 * q.noise_floor):
            raise NotSupported("the function behaves differently for complex numbers")
        return np.imag(y) / h if shape(y) else np.float64(np.imag(y) / h)
