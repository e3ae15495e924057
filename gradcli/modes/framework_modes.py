"""The frameworks as modes: the recorded program is run in torch, JAX, TensorFlow or MLX, and differentiated by it."""

import importlib.util
import time
from typing import Any

import numpy as np

from gradcli.arithmetic.devices import CPU, find_device, framework_version
from gradcli.arithmetic.lowering import MATCHED, SINGLE, Lowering, Tensor, TensorFunction
from gradcli.arithmetic.recorded_program import RecordedProgram, record
from gradcli.arithmetic.tape import CONSTANT, Line
from gradcli.errors import GradcliError, NotSupported, install_command
from gradcli.modes.bounds import changes_by_random_rounding
from gradcli.modes.jacobians import jacobian_from_rows, unit_directions
from gradcli.modes.kinks import refuse_undefined
from gradcli.modes.mode import Available, Question
from gradcli.modes.rounding import EPS, has_factored_matrix
from gradcli.request.point import Array, Estimate, EstimateCost, Witness
from gradcli.tracing.primitive import PRIMITIVES, Value
from gradcli.tracing.shapes import shape, size
from gradcli.words import RanOn

USUAL = 8.0  # times the textbook's rounding: for other orders of summation and other libraries of functions
_FACTORED = 64.0  # ulps of the largest slope: an entry that is zero by one matrix factorisation may not be by another
_LINE = 100_000  # scalar operations that take as long as one operation of a framework and its derivative
_TWICE = 1e9  # scalar operations: a larger program is not run a second time to be timed
_FLOAT32 = np.finfo(np.float32)

Step = tuple[int, TensorFunction, tuple[tuple[int, Tensor], ...], dict[str, Any]]


class FrameworkMode:
    """One framework: its own operations, and its own derivatives of them."""

    def __init__(self, lowering: Lowering, witness: Witness) -> None:
        self.lowering = lowering
        self.name = self.lowering.name
        self.rests_on = frozenset({witness, Witness.TRACING})
        self.__doc__ = type(self.lowering).__doc__

    def available(self) -> Available:
        if importlib.util.find_spec(self.lowering.package) is not None:
            return Available()
        return Available(False, f"{self.name} is not installed", install_command(self.name))

    def gradient(self, q: Question) -> Estimate:
        """Return the gradient that the framework computes for the recorded program.

        Error   that of the textbook's partials in float64, more if the framework is known to lose more; an estimate.
        Raises  NotSupported if the framework lacks an operation, or its derivative, or fails; NotRun, Undecided; BadOption for a
                device that is not there.
        """
        q.refuse_untraced()
        refuse_undefined(q.value)
        q.refuse_large_jacobian()
        calls = len(q.lines) * (1 + size(q.value))
        named = q.device is not None
        q.budget.admit(_LINE * calls + q.reverse_work, f"{calls:,} operations of {self.name}", essential=named)
        device = find_device(self.name, q.device or CPU, in_float64=True)
        if not q.recording.moves:
            zeros = {name: np.zeros(shape(q.value) + shape(x))[()] for name, x in zip(q.wrt, q.xs, strict=True)}
            return Estimate(zeros, zeros, cost=EstimateCost(evaluations=1))
        try:
            with np.errstate(all="ignore"), self.lowering.running(device):
                rows, seconds = self._cotangent_rows(q)
        except GradcliError:
            raise
        except Exception as error:  # each framework has its own kinds
            said = (str(error) or type(error).__name__).split("\n")[0][:200]
            raise NotSupported(f"{self.name} cannot do it: {said}") from error
        value = {name: jacobian_from_rows(rows, q.value, k, q.xs[k]) for k, name in enumerate(q.wrt)}
        cost = EstimateCost(1, q.operations * (1 + 2 * size(q.value)), seconds)
        ran_on = RanOn(self.name, framework_version(self.name), device)
        return Estimate(value, self._rounding_bound(q), statistical=True, cost=cost, ran_on=ran_on)

    def _cotangent_rows(self, q: Question) -> tuple[list[list[Array]], float]:
        """Return the cotangents of the inputs for each entry of the value, and the seconds that this takes.

        A small program runs twice: the first run compiles and loads, and the second is timed.
        """
        program = lower_program(self.lowering, q.recording)
        seeds = list(unit_directions(q.value))

        def once() -> list[list[Array]]:
            _, pull = self.lowering.vjp(program, q.xs)
            return [pull(seed) for seed in seeds]

        if q.reverse_work <= _TWICE:
            once()
        start = time.perf_counter()
        return once(), time.perf_counter() - start

    def _rounding_bound(self, q: Question) -> dict[str, Array]:
        usual = q.rounding_of_textbook.errors
        used = {primitive.name for primitive, *_ in q.lines if primitive is not None}
        loose = dict.fromkeys(self.lowering.single, SINGLE) | dict(self.lowering.ulps)
        rough = {name: ulps for name, ulps in loose.items() if name in used}
        more = changes_by_random_rounding(q, kernels=False, rough=rough) if rough else [np.float64(0)] * len(q.wrt)
        largest = max((float(np.max(np.abs(q.slopes[name]), initial=0.0)) for name in q.wrt), default=0.0)
        least = _FACTORED * EPS * largest if has_factored_matrix(q.lines) else 0.0
        return {name: (USUAL * usual[name] + moved + least)[()] for name, moved in zip(q.wrt, more, strict=True)}


def lower_program(lowering: Lowering, program: RecordedProgram) -> TensorFunction:
    """Return a recorded program as a function of a framework's tensors, on the branches that were taken.

    Raises  NotSupported for an operation that the framework does not have.
    """
    y, inputs, tape = program
    if not program.moves:
        still = lowering.tensor(_constant_operand(y, False))
        return lambda *xs: still
    needed = {y.slot}  # those of the lines that the value depends on
    for k in range(y.slot, -1, -1):
        if k in needed:
            needed.update(s for s in tape.operands(k) if s != CONSTANT)
    found = (_lower_line(lowering, slot, line) for slot, line in enumerate(tape.lines[: y.slot + 1]) if slot in needed)
    steps = [step for step in found if step is not None]

    def run(*xs: Tensor) -> Tensor:
        values = {x.slot: tensor for x, tensor in zip(inputs, xs, strict=True)}
        for slot, operation, operands, params in steps:
            values[slot] = operation(*(constant if k == CONSTANT else values[k] for k, constant in operands), **params)
        return values[y.slot]

    return run


def _lower_line(lowering: Lowering, slot: int, line: Line) -> Step | None:
    primitive, slots, xs, y, given, _ = line
    if primitive is None:
        return None
    name, params = primitive.name, dict(given or {})
    if PRIMITIVES.get(name) is not primitive:
        if not primitive.body:
            raise NotSupported(f"{lowering.name} has no {name}")

        def body(*moving: Value) -> Value:
            rest = iter(moving)
            return primitive.fun(
                *(x if s == CONSTANT else next(rest) for s, x in zip(slots, xs, strict=True)), **(given or {})
            )

        lowered = lower_program(lowering, record(body, [x for s, x in zip(slots, xs, strict=True) if s != CONSTANT]))
        return slot, lowered, tuple((s, None) for s in slots if s != CONSTANT), {}
    for value in [*xs, y] if name in lowering.single else ():  # which the framework computes in float32
        sizes = np.abs(np.asarray(value, dtype=float))
        if np.any(((sizes > 0) & (sizes < _FLOAT32.tiny)) | ((sizes > _FLOAT32.max) & np.isfinite(sizes))):
            raise NotSupported(f"{lowering.name} computes {name} in float32, which these values are outside of")
    for domain, x in zip(lowering.holds.get(name, ()), xs, strict=False):  # beyond, the framework is known to be wrong
        if not np.all(domain.contains(np.asarray(x, dtype=float))):
            raise NotSupported(f"{lowering.name} is wrong for {name} unless {domain.name}")
    if name in MATCHED:
        params["like"] = y
    constants = [
        None if s != CONSTANT else lowering.tensor(_constant_operand(x, name == "where" and i == 0))
        for i, (s, x) in enumerate(zip(slots, xs, strict=True))
    ]
    return slot, lowering.operation(name), tuple(zip(slots, constants, strict=True)), params


def _constant_operand(x: Value, condition: bool) -> Array:
    """Return a constant operand as float64, or as truth values if it is a condition."""
    plain = np.asarray(x)
    if plain.dtype.kind == "c":
        raise NotSupported("complex numbers are not lowered into a framework")
    return plain.astype(bool) if condition else plain.astype(np.float64)
