"""The modes by name; those by sweeps of the recorded program and by sympy are here."""

import pickle

import numpy as np

from gradcli.arithmetic.devices import find_device
from gradcli.arithmetic.dual import cotangent_rows, jacobian_by_columns, jacobian_from_rows
from gradcli.arithmetic.recorded_program import make_plan, record
from gradcli.arithmetic.tape import METER, held_bytes
from gradcli.classes import dataclass
from gradcli.errors import BadOption, GradcliError, Installed, NotSupported, Undecided, install_command
from gradcli.modes.certified import Certified
from gradcli.modes.finite_difference import ComplexStep, FiniteDifference
from gradcli.modes.framework_modes import FrameworkMode, JaxLowering, MlxLowering, TensorFlowLowering, TorchLowering
from gradcli.modes.kinks import TO_FINITE
from gradcli.modes.mode import Available, Mode, Question
from gradcli.modes.recording import TRACED, Effort, NotRun, time_limit_error
from gradcli.modes.rounding import FUNCTION_ERROR
from gradcli.process.workers import WORKERS, Worker, WorkerTimeout
from gradcli.request.point import Estimate, EstimateCost, Witness
from gradcli.tracing.shapes import size

# The symbolic mode: sympy's own `diff` of the traced expression, in a child process that can be stopped.

MOST_TERMS = 20_000  # of the formula, times the entries of the inputs: about ten seconds of sympy
OPERATIONS_BY_DEFAULT = 30  # of the formula, over all entries: a few milliseconds of sympy
MEMORY_BYTES = 2 * 2**30


class Symbolic:
    """Differentiates with sympy and evaluates at 30 and 60 digits with mpmath."""

    name = "symbolic"
    rests_on = frozenset({Witness.SYMPY, Witness.TRACING})

    def available(self) -> Available:
        return Available()

    def gradient(self, q: Question) -> Estimate:
        """Return the gradient by sympy.

        Error   estimated from the two precisions, plus the rounding of our float64 gradient, as constants of the formula
                are rounded while tracing.
        Raises  NotRun if the formula would be too large; OutOfTime; NotSupported; Undecided.
        """
        return self.begin(q).result()

    def begin(self, q: Question) -> "Asked":
        """Ask the child process for the gradient, and do not wait for it. Raises NotRun, NotSupported, Undecided."""
        q.refuse_untraced()
        if not q.program.moves:
            return Asked(q, None)
        if q.not_finite is not None:
            raise Undecided("f or its gradient is not finite here", do=TO_FINITE)
        recorded = make_plan(q.program)
        entries = q.entries
        terms = recorded.terms[recorded.result] * size(q.value)
        by_default = q.budget.by_default
        if terms * entries > MOST_TERMS or (by_default and terms > OPERATIONS_BY_DEFAULT):
            count = f"{terms:,.0f}" if terms < 1e6 else f"{terms:.0e}"
            raise NotRun(
                f"the formula would have about {count} terms, to be differentiated by {entries:,} entries",
                do="--modes all" if terms * entries <= MOST_TERMS else "--modes without symbolic",
            )
        worker = WORKERS.take()
        worker.send(pickle.dumps(((recorded, q.xs, q.value.shape), MEMORY_BYTES)))
        return Asked(q, worker)


@dataclass(frozen=True, slots=True)
class Asked:
    """A gradient that a child process computes; `worker` is None if f does not depend on its inputs."""

    q: Question
    worker: Worker | None

    def result(self) -> Estimate:
        """Wait for the gradient and return it. Raises OutOfTime, NotSupported."""
        q = self.q
        if self.worker is None:
            zeros = {name: np.zeros(np.shape(q.value) + np.shape(x))[()] for name, x in zip(q.wrt, q.xs, strict=True)}
            return Estimate(zeros, zeros, cost=EstimateCost(evaluations=1))
        limit = q.budget.mode_timeout
        try:
            output = self.worker.receive(limit)
        except WorkerTimeout:
            raise time_limit_error(limit or 0.0) from None
        if not output:
            status, allowed = self.worker.status, f"{MEMORY_BYTES / 2**30:g} GiB allowed"
            raise NotSupported(f"sympy ended with status {status}, probably for lack of memory ({allowed})")
        WORKERS.give(self.worker)
        kind, answer = pickle.loads(output)
        if kind == "error":
            raise answer if isinstance(answer, GradcliError) else NotSupported(f"sympy failed: {answer}")
        return Estimate(
            dict(zip(q.wrt, answer["values"], strict=True)),
            {name: bound + q.rounding[name] for name, bound in zip(q.wrt, answer["bounds"], strict=True)},
            cost=EstimateCost(
                evaluations=1, formula=answer["operations"], shared=answer["shared"], seconds=answer["seconds"]
            ),
        )

    def cancel(self) -> None:
        """End the child process."""
        if self.worker is not None:
            self.worker.stop()


# Forward mode: dual numbers.


class Forward:
    """One dual evaluation for each entry of the inputs."""

    name = "forward"
    rests_on = frozenset({Witness.RULES, Witness.TRACING})

    def available(self) -> Available:
        return Available()

    def gradient(self, q: Question) -> Estimate:
        """Return the gradient by forward sweeps.

        Error   rounding, bounded by balls of 53 bits or estimated by shaken runs of the reverse sweep. A forward sweep sums
                the terms of an entry in another order; some ulps of the largest entry are added for terms that cancel.
        Cost    one dual evaluation for each entry of the inputs.
        Raises  NotRun if that is too much; the error that ended the trace.
        """
        q.refuse_untraced()
        count = q.entries
        q.budget.admit(TRACED * count * q.work, f"{count:,} forward sweeps")
        with np.errstate(all="ignore"):
            value = {name: jacobian_by_columns(q.g, q.xs, k, q.value) for k, name in enumerate(q.wrt)}
        cost = EstimateCost(evaluations=count, operations=3 * q.operations * count)
        bound = {name: q.rounding[name] + FUNCTION_ERROR * np.max(np.abs(x), initial=0.0) for name, x in value.items()}
        return Estimate(value, bound, statistical=q.rounding_is_estimated, cost=cost)


# Reverse mode: the tape.


class Reverse:
    """One recorded evaluation, and one sweep back for each entry of the output."""

    name = "reverse"
    rests_on = frozenset({Witness.RULES, Witness.TRACING})

    def available(self) -> Available:
        return Available()

    def gradient(self, q: Question) -> Estimate:
        """Return the gradient by reverse sweeps.

        Error   rounding, bounded by balls of 53 bits or estimated by shaken runs.
        Cost    one recorded evaluation, and one sweep back for each entry of the output.
        Raises  NotRun for a Jacobian that is too large; the error that ended the trace.
        """
        q.refuse_untraced()
        q.refuse_large_jacobian()
        if q.checkpointed:
            return self._gradient_of_new_recording(q)
        cost = EstimateCost(1, self._count_operations(q), q.reverse_seconds, peak_bytes=q.recorded_bytes)
        value = {name: jacobian_from_rows(q.rows, q.program.y, k, q.xs[k]) for k, name in enumerate(q.wrt)}
        return Estimate(value, q.rounding, statistical=q.rounding_is_estimated, cost=cost)

    def _gradient_of_new_recording(self, q: Question) -> Estimate:
        """Return the gradient from a new recording, for a function with checkpoints."""
        METER.most_nested = 0
        with np.errstate(all="ignore"):
            program = record(q.g, q.xs)
            rows = cotangent_rows(program, np.float64(1))
        value = {name: jacobian_from_rows(rows, program.y, k, q.xs[k]) for k, name in enumerate(q.wrt)}
        cost = EstimateCost(1, self._count_operations(q), peak_bytes=held_bytes(program.tape) + METER.most_nested)
        return Estimate(value, q.rounding, statistical=q.rounding_is_estimated, cost=cost)

    def _count_operations(self, q: Question) -> int:
        return q.operations * (1 + 2 * size(q.value))


# The modes by name.

OWN: dict[str, Mode] = {
    mode.name: mode for mode in (Certified(), Symbolic(), Forward(), Reverse(), ComplexStep(), FiniteDifference())
}
FRAMEWORKS: dict[str, Mode] = {
    mode.name: mode
    for mode in (
        FrameworkMode(TorchLowering(), Witness.TORCH),
        FrameworkMode(JaxLowering(), Witness.JAX),
        FrameworkMode(TensorFlowLowering(), Witness.TENSORFLOW),
        FrameworkMode(MlxLowering(), Witness.MLX),
    )
}
MODES = OWN | FRAMEWORKS
FOR_DEVICES = ("torch", "jax")  # run on a device that is chosen if no framework is named; the first that has it
SHORT = {"fd": "finite-difference", "cs": "complex-step", "fwd": "forward", "rev": "reverse"}


def parse_modes(text: str | None) -> tuple[str, ...]:
    """Return the modes a `--modes` list names: full names, unique prefixes, `fd cs fwd rev`, or `all` but the frameworks.

    Raises  BadOption.
    """
    if text is None or text.strip() == "all":
        return tuple(OWN)
    wanted = {name for part in text.split(",") if part.strip() for name in _full_names(part.strip())}
    if not wanted:
        raise BadOption("--modes names no mode", do=f"modes: {', '.join(MODES)}, all")
    return tuple(name for name in MODES if name in wanted)


def add_mode_for_device(modes: tuple[str, ...], device: str) -> tuple[str, ...]:
    """Return the modes with one that runs on a device: torch or JAX is added if no framework is among them.

    Raises  BadOption if a framework has no such device here, or if neither of the two is installed.
    """
    named = [name for name in modes if name in FRAMEWORKS]
    here = [name for name in named or FOR_DEVICES if FRAMEWORKS[name].available().yes]
    if named:
        for name in here:
            find_device(name, device, in_float64=True)
        return modes
    if not here:
        raise BadOption(
            f"--device {device} needs {' or '.join(FOR_DEVICES)}",
            where=Installed("expressions and numpy functions run on a device in a framework, and neither is installed"),
            do=install_command(*FOR_DEVICES),
        )
    refused = []
    for name in here:
        try:
            find_device(name, device, in_float64=True)
        except BadOption as error:
            refused.append(error)
        else:
            return (*modes, name)
    raise refused[0]


def effort_of(text: str | None) -> Effort:
    """Return how much work the modes of a `--modes` list may take."""
    if text is None:
        return Effort.DEFAULT
    return Effort.ALL if "all" in (part.strip() for part in text.split(",")) else Effort.NAMED


def _full_names(word: str) -> tuple[str, ...]:
    if word == "all":
        return tuple(OWN)
    matches = (SHORT[word],) if word in SHORT else tuple(name for name in MODES if name.startswith(word))
    if len(matches) != 1:
        what = f"'{word}' could be {' or '.join(matches)}" if matches else f"there is no mode '{word}'"
        raise BadOption(what, do=f"modes: {', '.join(MODES)}; short: {', '.join(SHORT)}; all")
    return matches
