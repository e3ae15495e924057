"""A framework's function as a function of numpy arrays: called directly, or replayed from its recording on traced values.

A framework whose functions are not recorded has their values alone, in float64 where they take it.
"""

import copy
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np

from gradcli.arithmetic.devices import CPU, find_device, quiet_imports
from gradcli.classes import dataclass
from gradcli.errors import BadClaim, BadOption, BadTarget, FunctionFailed, GradcliError, NotSupported, Place, Span
from gradcli.frameworks.framework import (
    EPS,
    EXACT,
    KNOWN,
    MIXED,
    Flat,
    Framework,
    FrameworkStep,
    Inside,
    Placed,
    Prepared,
    RecordedSteps,
    Slot,
    Tensor,
    fill_slots,
    run_step,
)
from gradcli.request.option_values import read_name
from gradcli.request.options import Options
from gradcli.targets.nesting import Node, put_together, take_apart
from gradcli.targets.python import PythonFunction, message_of, signature_of
from gradcli.targets.replacement_scope import without_tracing
from gradcli.tracing.primitive import Params, Primitive, Transposer, Value
from gradcli.tracing.provenance import place_of_error, place_of_position
from gradcli.tracing.tracer import Tracer, closure_values, nested_codes, plain_value
from gradcli.words import RanOn

_KEPT = 4  # recorded programs that are cached


# Straight-through estimators: the smooth function whose true gradient a deliberately wrong backward pass returns.

_STAIRS = {"round", "rint", "floor", "ceil", "trunc", "fix", "sign", "sgn", "heaviside"}
_TESTS = {"gt", "ge", "lt", "le"}
_CHOICES = {"where", "select_n", "masked_fill"}
_STOPS = {"detach", "stop_gradient"}
_NUMBER_CUT = "item"
STOPPING_CUTS = {"detach", "grad", "stop"}  # those that --expect stop-gradient accepts
_CASTS = {"_to_copy", "convert_element_type", "mul", "add", "sub", "type_as"}

# the smooth function that replaces a step function, up to a constant that keeps its value
SURROGATES: dict[str, Callable[[Value], Value]] = {
    "passes the gradient through":                  lambda x: x,
    "passes the gradient through within [-1, 1]":   lambda x: np.clip(x, -1.0, 1.0),
    "passes the gradient through within [0, 1]":    lambda x: np.clip(x, 0.0, 1.0),
    "has no slope, beside what is detached":         lambda x: 0.0 * x,
}  # fmt: skip


def replaceable_steps(program: RecordedSteps) -> list[FrameworkStep]:
    """Return the steps that a surrogate may replace: step functions, and comparisons whose result is used as a number."""

    def is_used_as_number(step: FrameworkStep) -> bool:
        made = Slot(step.outs[0])
        users = [other for other in program.steps if any(isinstance(x, Slot) and x == made for x in other.args)]
        return bool(users) and all(_operation_name(other) in _CASTS for other in users)  # by casts and arithmetic alone

    named = [(step, _operation_name(step)) for step in program.steps]
    return [step for step, name in named if name in _STAIRS or (name in _TESTS and is_used_as_number(step))]


def undifferentiated_steps(program: RecordedSteps) -> list[FrameworkStep]:
    """Return the steps that are not differentiated: detached values, and values computed under no_grad."""
    return [step for step in program.steps if _is_undifferentiated(step)]


def holds_values_constant(program: RecordedSteps) -> bool:
    """Whether values are not differentiated: detached ones, those computed under no_grad, and numbers taken out of tensors."""
    return bool(undifferentiated_steps(program)) or any(kind == _NUMBER_CUT for kind, _ in program.cuts)


def _is_undifferentiated(step: FrameworkStep) -> bool:
    return step.stopped or _operation_name(step) in _STOPS


def stopped_places(program: RecordedSteps) -> list[Place | Span]:
    """Return the places where values of a program are detached, taken out as numbers, or computed without a graph, in order."""
    cut = [position for kind, position in program.cuts if kind in STOPPING_CUTS or kind == _NUMBER_CUT]
    stopped = [step.position for step in program.steps if step.stopped]
    return list(dict.fromkeys(at for at in map(place_of_position, [*cut, *stopped]) if at is not None))


def is_choice(step: FrameworkStep) -> bool:
    """Whether a step chooses between values by a mask."""
    return _operation_name(step) in _CHOICES


def surrogate_program(
    program: RecordedSteps, xs: Sequence[Value], smooth: Callable[[Value], Value] | None
) -> RecordedSteps:
    """Return the program with stopped values held constant and its step functions replaced by `smooth`, if that is given.

    Its value at `xs` equals that of the original program.
    """
    values: dict[int, Any] = dict(zip(program.inputs, xs, strict=True)) | dict(program.constants)
    chosen, steps = {id(step) for step in replaceable_steps(program)}, []
    for step in program.steps:
        first = fill_slots(step.args[0], values) if step.args else None
        run_step(step, values)
        y = values[step.outs[0]] if step.outs else None
        if smooth is not None and id(step) in chosen:
            offset = np.asarray(y, dtype=float) - np.asarray(smooth(np.asarray(first, dtype=float)))
            shifted = lambda x, *args, offset=offset, **kwargs: smooth(x) + offset[()]
            steps.append(replace(step, compute=shifted))
        elif _is_undifferentiated(step) and step.outs and not step.writes:
            held = [np.array(values[number]) for number in step.outs]
            # fresh copies at each call: later steps may write into them
            constant = lambda *args, held=held, **kwargs: [np.array(y)[()] for y in held]
            steps.append(replace(step, compute=constant))
        else:
            steps.append(step)
    return replace(program, steps=steps)


def _operation_name(step: FrameworkStep) -> str:
    return step.name.rpartition(".")[2]


# Error messages of frameworks that cannot compute a gradient, and the user's mistake behind each.


@dataclass(frozen=True, slots=True)
class Pitfall:
    """A known mistake: words of the framework's message, its name, what it means and what to do."""

    words: tuple[str, ...]
    kind: str
    says: str
    do: str


PITFALLS = (
    Pitfall(("modified by an inplace operation",), "in-place",
            "a tensor that the backward pass needs was changed in place after it was saved",
            "write y = y + 1 instead of y += 1, or save a clone"),
    Pitfall(("backward through the graph a second time",), "retain-graph",
            "the graph was freed by a first backward pass", "compute both gradients in one call, or pass retain_graph=True to the first"),
    Pitfall(("does not require grad and does not have a grad_fn",), "requires-grad",
            "the result does not depend on anything that requires a gradient",
            "set requires_grad_() on the inputs, and avoid detach(), .data, .item() and no_grad() in between"),
    Pitfall(("Only Tensors of floating point", "only Tensors of floating point", "grad requires real- or complex-valued"), "integers",
            "an integer tensor cannot have a gradient", "make it a tensor of floats: x.double()"),
    Pitfall(("returned an invalid gradient", "incorrect number of gradients", "shape mismatch", "must have the same shape", "bwd rule", "function expected to return"), "shape",
            "the backward pass returns gradients of the wrong number or shape", "return one gradient for each input of forward, in its shape"),
    Pitfall(("Custom VJP fwd rule", "Custom JVP rule"), "shape",
            "the rule returns the wrong values", "fwd returns the result and the residuals; jvp the result and its tangent"),
    Pitfall(("nondiff_argnums",), "nondiff", "an argument that nondiff_argnums excludes is differentiated",
            "name the others: --wrt x"),
    Pitfall(("unhashable", "Non-hashable static"), "static", "an array is given where jit takes a static argument",
            "remove it from static_argnums"),
    Pitfall(("TracerArrayConversionError",), "numpy", "numpy is given a value that JAX differentiates", "use jax.numpy: jnp.sin(x)"),
    Pitfall(("ConcretizationTypeError", "TracerBoolConversionError", "TracerIntegerConversionError", "NonConcreteBooleanIndexError"),
            "concrete", "Python needs a number, but JAX has only a traced value",
            "use jnp.where, lax.cond or lax.fori_loop, and no float() or jit in between"),
    Pitfall(("UnexpectedTracerError",), "leak", "a traced value of an earlier call is used: it was kept in a global, a list or an attribute",
            "return it instead"),
    Pitfall(("Leaf variable", "leaf Variable that requires grad"), "in-place",
            "an input is changed in place", "work on a copy: x = x.clone()"),
)  # fmt: skip


CUTS = {
    "detach": "detach() or .data cuts the graph here",
    "grad": "torch.autograd.grad without create_graph=True cuts the graph here",
    _NUMBER_CUT: "a number is taken out of a tensor here (.item(), float(), torch.tensor([...]), math.*)",
    "data": ".data, or an array that shares the memory, bypasses the graph here",
    "stop": "a stopped gradient cuts the graph here",
}


MASKED = (
    "a choice such as where(...) hides a value that is not finite, but its gradient is 0 times an infinite slope: nan"
)


def find_pitfall(error: BaseException) -> Pitfall | None:
    """Return the mistake behind a framework's error, or None if it is not a known one."""
    said = message_of(error)
    return next((pitfall for pitfall in PITFALLS if any(word in said for word in pitfall.words)), None)


def explain_pitfall(error: BaseException, pitfall: Pitfall, kind: type[GradcliError]) -> GradcliError:
    """Return an error of type `kind` that explains the mistake behind a framework's error."""
    said, where = (error.what, error.where) if isinstance(error, GradcliError) else (message_of(error), None)
    where = where or place_of_error(error.__traceback__)
    return kind(f"{pitfall.says} ({pitfall.kind}): {said}", where=where, do=pitfall.do)


def explain_failure(error: Exception, name: str, framework: str) -> tuple[str, GradcliError]:
    """Return the kind of mistake (empty if unknown) and an error that says why a framework could not differentiate."""
    pitfall = find_pitfall(error)
    if pitfall is not None:
        return pitfall.kind, explain_pitfall(error, pitfall, BadClaim)
    where = place_of_error(error.__traceback__)
    return "", BadClaim(f"{framework} cannot differentiate {name}: {message_of(error)}", where=where)


# A recorded program that rounds as its framework does: each result, and each cotangent, to the format of its step.

TINY = {
    "float64": 2.0**-1022, "float32": 2.0**-126, "tf32": 2.0**-126, "bfloat16": 2.0**-126, "float16": 2.0**-14,
    "float8_e4m3fn": 2.0**-6, "float8_e5m2": 2.0**-14,
}  # the smallest normal numbers  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Rounding:
    """A random rounding error for each entry of a value in a format: up to half an ulp, uniformly distributed.

    An entry of zero has none. Below the smallest normal number the error keeps the size that it has there, as among
    subnormal numbers.
    """

    dtype: str
    rng: np.random.Generator

    def __call__(self, x: Value) -> Value:
        size = np.where(np.equal(x, 0), 0.0, np.maximum(np.abs(x), TINY[self.dtype]))
        return x + 0.5 * EPS[self.dtype] * size * self.rng.uniform(-1.0, 1.0, np.shape(x))


@dataclass(frozen=True, slots=True)
class _Rounded:
    """The rule of a value that is rounded: its tangent and its cotangent are rounded too."""

    rounding: Rounding

    def push(self, primitive: Primitive, i: int, y: Value, xs: Any, xdot: Value, params: Params) -> Value:
        return self.rounding(xdot)

    def pull(self, ybar: Value, i: int, y: Value, xs: Any, params: Params, transpose: Transposer) -> Value:
        return self.rounding(ybar)


def with_random_rounding(program: RecordedSteps, seed: int, float32: str = "float32") -> RecordedSteps:
    """Return the program with random rounding errors in place of those that its framework makes.

    `float32` is the format to which steps in float32 round: matrix products may be computed in tf32.

    Raises  NotSupported if a step has intermediate values whose format is unknown.
    """
    rng = np.random.default_rng([seed, 0x6E0D])

    def rounded(step: FrameworkStep) -> FrameworkStep:
        if step.rounds_to == EXACT:
            return step
        if step.rounds_to is None:
            raise NotSupported(f"it is not known how {step.name} rounds")
        rounding = Rounding(float32 if step.rounds_to == "float32" else step.rounds_to, rng)
        rounds = Primitive("round", rounding, (_Rounded(rounding),), kind="linear")

        def compute(*args: Any, **kwargs: Any) -> Any:
            ys = step.compute(*args, **kwargs)
            several = isinstance(ys, tuple | list)
            found = [rounds(y) if getattr(y, "dtype", None) == np.float64 else y for y in (ys if several else [ys])]
            return found if several else found[0]

        return replace(step, compute=compute)

    return replace(program, steps=list(map(rounded, program.steps)))


class Native:
    """A function of tensors that takes and returns numpy arrays; tensor arguments are passed through unchanged.

    Every call uses the same random seed. If the format is narrower than float64, values come from the recorded program run
    in float64, or from the function called in float64, so that finite differences of them are accurate.
    """

    def __init__(
        self, prepared: Prepared, framework: Framework, placed: Placed, seed: int, differentiates: bool = False
    ) -> None:
        self.function = prepared.function
        self.__name__ = prepared.name
        self.inner = prepared.name
        self.framework = framework
        self.placed = placed
        self.seed = seed
        self.differentiates = differentiates
        self.parameters = prepared.parameters
        self.notices = prepared.notices
        self.given_as_tensors: frozenset[str] = frozenset()  # the inputs whose values were tensors at a given point
        self._built = prepared.built
        self._has_complex = False
        self._split = complex_pair_class(self)
        self._programs: list[tuple[tuple[Any, ...], RecordedSteps, Callable[[list[Value]], Any]]] = []
        self._refused: GradcliError | None = None
        self.run_with: Callable[..., Native | None] = lambda **changes: None  # the same target with other options
        self.run_at: Callable[[Placed], Native | None] = lambda placed: None  # the same target in another format
        self._inside: Inside | None = None  # what a call shows of a function that is not recorded
        self._rounding_seed: int | None = None
        self._wide: Native | None = None
        self._takes_no_float64 = False
        self._stands_in: tuple[RecordedSteps, Callable[[list[Value]], Any]] | None = None
        signature = signature_of(prepared.function)
        if signature is not None:
            self.__signature__ = signature

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        node, leaves = take_apart("", (args, kwargs))
        if any(self.framework.holds(x) for x in leaves.values()):
            given, named = put_together(node, {path: self.tensor(x) for path, x in leaves.items()})
            return self.function(*given, **named)
        if any(map(_is_complex, leaves.values())):
            says = f"{self.framework.name} defines some functions differently for complex numbers (var, norm, abs)"
            raise FunctionFailed(says, do="drop complex-step from --modes")
        if self._stands_in is not None:
            return self._run_program(*self._stands_in, leaves)
        if any(isinstance(x, Tracer) for x in leaves.values()) or self._is_narrow(node, leaves):
            return self._run_program(*self._program_at(node, leaves), leaves)
        if self._refused is not None:  # a function that could not be recorded is called in float64, if it takes that
            self._look_inside(node, leaves)
            if self.placed.dtype != "float64" and not self._takes_no_float64:
                try:
                    wide = self.wide()
                    if wide is not None:
                        return wide(*args, **kwargs)
                except (GradcliError, RuntimeError, TypeError, ValueError):
                    self._takes_no_float64 = True
        return self._call_function(node, leaves)

    def wide(self) -> "Native | None":
        """Return the same function in float64, on the CPU where the framework has it there alone; None if it takes none."""
        if self._takes_no_float64:
            return None
        device = CPU if KNOWN[self.framework.name].inexact else self.placed.device
        self._wide = self._wide or self.run_at(Placed("float64", device))
        return self._wide

    def _look_inside(self, node: Node, leaves: Mapping[str, Any]) -> None:
        """Keep what the first call of a function that is not recorded shows; nothing if it fails, which others report."""
        if self._inside is None:
            arguments = self._arguments(node, leaves)
            try:
                self._inside = self.framework.inside(self.function, *arguments, self.seed)
            except (GradcliError, RuntimeError, TypeError, ValueError):
                self._inside = Inside()

    def _arguments(self, node: Node, leaves: Mapping[str, Any]) -> tuple[Any, Any, list[Tensor]]:
        """Return the arguments and the keyword arguments as tensors, and those of them that are differentiated."""
        tensors = {path: self.tensor(x) for path, x in leaves.items()}
        args, kwargs = put_together(node, tensors)
        return args, kwargs, [tensors[path] for path, x in leaves.items() if _is_float(x)]

    @property
    def is_recorded(self) -> bool:
        """Whether its calls are recorded, as far as is known: it is not before the first call."""
        return self._refused is None

    @property
    def values_format(self) -> str:
        """The format with the fewest digits that the values of a function which is not recorded are computed in."""
        wide = self._wide if not self._takes_no_float64 else None
        own = self.narrowest if wide is None else wide.narrowest
        return max(own, "float32", key=lambda name: EPS[name]) if KNOWN[self.framework.name].inexact else own

    @property
    def values_say(self) -> str:
        """The format of the values that a function which is not recorded is compared by, in words; "" if it is its own."""
        known = KNOWN[self.framework.name]
        if self.is_recorded or (self.placed.dtype == "float64" and not known.inexact):
            return ""
        if self.placed.dtype != "float64" and (self._wide is None or self._takes_no_float64):
            return f"in {self.placed.dtype}: it takes no float64"
        inexact = f", in which {known.title} computes {known.inexact} to float32 only" if known.inexact else ""
        return f"in float64{inexact}"

    def _is_narrow(self, node: Node, leaves: Mapping[str, Any]) -> bool:
        """Whether the function computes in a narrow format, and its program could be recorded, to be replayed in float64."""
        if self.differentiates or self._refused is not None:
            return False
        if self.program is None:
            try:
                self._program_at(node, leaves)
            except NotSupported as refused:
                self._refused = refused
        return self.program is not None and self.narrowest != "float64"

    @property
    def narrowest(self) -> str:
        """The format with the fewest digits among those of the inputs and of the intermediate values."""
        seen = self.program or self._inside or Inside()
        return max(self.placed.dtype, seen.narrowest, key=lambda name: EPS[name])

    @property
    def cuts(self) -> list[tuple[str, Any]]:
        """The kinds and positions of the places where values leave the framework's graph, or gradients are stopped."""
        if self.program is not None:
            return self.program.cuts
        return [("stop", where) for where in (self._inside or Inside()).stops]

    def in_float64(self) -> "Native | None":
        """Return the same function in float64, without mixed precision; None where its gradient would be no more exact."""
        if KNOWN[self.framework.name].inexact:
            return None
        return self.run_with(dtype="float64", autocast=None)

    @property
    def ran_on(self) -> RanOn:
        """Where it runs, and in which format."""
        name = self.framework.name
        return RanOn(name, KNOWN[name].version or "", self.placed.device, self.narrowest)

    @property
    def coarseness(self) -> float:
        """The ratio of the narrowest format's machine epsilon to that of float64."""
        return EPS[self.narrowest] / EPS["float64"]

    def _call_function(self, node: Node, leaves: Mapping[str, Any]) -> Any:
        args, kwargs = put_together(node, {path: self.tensor(x) for path, x in leaves.items()})
        try:
            y = self.framework.called(self.function, args, kwargs, self.seed, self.differentiates)
        except (RuntimeError, TypeError, ValueError) as error:
            pitfall = find_pitfall(error) if self.differentiates else None
            if pitfall is None:
                raise
            raise explain_pitfall(error, pitfall, FunctionFailed) from error
        return self._result_arrays(y)

    def build(self, point: Mapping[str, Any]) -> None:
        """Call a module once at a point, if it creates its parameters only when it is called. Raises FunctionFailed."""
        if self._built is None or self.parameters:
            return
        node, leaves = take_apart("", dict(point))
        given = put_together(node, {path: self.tensor(np.asarray(x)[()]) for path, x in leaves.items()})
        try:
            self.parameters = self._built(given)
        except (RuntimeError, TypeError, ValueError) as error:
            raise FunctionFailed(f"{self.__name__} cannot be called: {message_of(error)}") from error

    def numbers(self, x: Any) -> Any:
        """Return values with tensors as arrays, and floats rounded to the format of the inputs."""
        node, leaves = take_apart("", x)
        return put_together(node, {path: self._plain_number(leaf) for path, leaf in leaves.items()})

    def _plain_number(self, x: Any) -> Any:
        if self.framework.holds(x):
            x = self.framework.array(x)
        if _is_complex(x) or isinstance(x, complex):
            self._has_complex = True
            return self._split(self._plain_number(np.real(x) * 1.0), self._plain_number(np.imag(x) * 1.0))
        if self.placed.dtype == "float64" or not isinstance(x, float | np.ndarray) or np.asarray(x).dtype.kind != "f":
            return x
        return self.framework.array(self.framework.tensor(np.asarray(x, dtype=np.float64), self.placed))

    def tensor(self, x: Any) -> Any:
        """Return a numeric value as a tensor on the function's device and in its format; anything else unchanged."""
        return self.framework.tensor(x, self.placed) if _is_numeric(x) else x

    def _result_arrays(self, y: Any) -> Any:
        """Return a result with arrays for tensors; among several results, drop those that have no gradient."""
        own = self.framework
        node, leaves = take_apart("", y)
        # a complex result becomes real and imaginary parts along a new last axis
        found = {path: own.array(own.parts(x)) if own.holds(x) else x for path, x in leaves.items()}
        floats = [x for x in found.values() if np.asarray(x).dtype.kind == "f"]
        if not floats and any(map(own.holds, leaves.values())):
            kinds = ", ".join(sorted({str(np.asarray(x).dtype) for x in found.values()}))
            raise FunctionFailed(
                f"{self.__name__} returns a tensor of {kinds}, which has no gradient", do="return a tensor of floats"
            )
        if len(found) > len(floats) > 0:
            return tuple(floats) if len(floats) > 1 else floats[0]
        return put_together(node, found)

    def _run_program(
        self, program: RecordedSteps, made: Callable[[list[Value]], Any], leaves: Mapping[str, Any]
    ) -> Any:
        if self._rounding_seed is not None:
            float32 = "tf32" if self.placed.dtype == "tf32" else "float32"
            program = with_random_rounding(program, self._rounding_seed, float32)
        return made(program([x for x in leaves.values() if _is_float(x)]))

    def with_rounding(self, seed: int) -> "Native":
        """Return the function whose traced runs have the rounding errors of its formats, drawn at random with `seed`.

        Raises  NotSupported, when it is called, if it is not known how an operation rounds.
        """
        other = copy.copy(self)
        other._rounding_seed = seed
        return other

    def _program_at(self, node: Node, leaves: Mapping[str, Any]) -> tuple[RecordedSteps, Callable[[list[Value]], Any]]:
        """Return the program recorded for these values, recording it if it is not cached. Raises NotSupported."""
        if self._has_complex:
            raise NotSupported("gradcli has no rules for complex numbers")
        plain = {path: plain_value(x) if _is_float(x) else x for path, x in leaves.items()}
        key = tuple(plain.values())
        for kept, program, made in self._programs:
            if _is_same_call(kept, key, program.holds_everywhere):
                return program, made
        try:
            with without_tracing():  # what runs here computes with tensors, and may convert them to plain arrays
                program, y = self.framework.recorded(self.function, *self._arguments(node, plain), self.seed)
        except GradcliError:
            raise
        except Exception as error:  # frameworks and user code raise any type when they cannot handle recorded values
            raise NotSupported(f"its operations could not be recorded: {message_of(error)[:160]}") from error
        shaped, results = take_apart("", y)
        moving = [path for path, x in results.items() if self.framework.holds(x) and self.framework.is_float(x)]
        if not moving:
            raise NotSupported(f"{self.__name__} returns no tensor of floats")

        def result(floats: list[Value]) -> Any:
            if len(moving) < len(results):
                return tuple(floats) if len(floats) > 1 else floats[0]
            return put_together(shaped, dict(zip(moving, floats, strict=True)))

        self._programs = [(key, program, result), *self._programs[: _KEPT - 1]]
        return program, result

    def with_surrogate(self, smooth: Callable[[Value], Value] | None) -> "Native":
        """Return the function with the step functions of its last recorded program replaced by `smooth`, if that is given.

        Values that the framework does not differentiate are held constant. Tensor arguments still run the original function, so
        its own gradient is that of the straight-through estimator.

        Raises  NotSupported if no program could be recorded.
        """
        if not self._programs:
            raise self._refused or NotSupported("the operations of the function could not be recorded")
        key, program, made = self._programs[0]
        xs = [x for x in key if _is_float(x)]
        other = copy.copy(self)
        other._stands_in = surrogate_program(program, xs, smooth), made
        return other

    def without_recordings(self) -> "Native":
        """Return the function without recorded programs, so that it is recorded where it is called next."""
        other = copy.copy(self)
        other._programs = []
        return other

    @property
    def recorded_result(self) -> Any:
        """What the run that was recorded last returned; None if it is not known."""
        _, program, made = self._programs[0] if self._programs else (None, None, None)
        return None if program is None or made is None or program.first is None else made(program.first)

    @property
    def program(self) -> RecordedSteps | None:
        """The program recorded last; None if there is none."""
        return self._programs[0][1] if self._programs else None


def _is_numeric(x: Any) -> bool:
    return isinstance(x, np.inexact) or (isinstance(x, np.ndarray) and x.dtype.kind in "fciub")


def _is_complex(x: Any) -> bool:
    return isinstance(x, np.complexfloating) or (isinstance(x, np.ndarray) and x.dtype.kind == "c")


def _is_float(x: Any) -> bool:
    return isinstance(x, Tracer | np.float64) or (isinstance(x, np.ndarray) and x.dtype.kind == "f")


def _is_same_call(a: Sequence[Any], b: Sequence[Any], in_shape: bool) -> bool:
    """Whether two lists of arguments are equal; if `in_shape` is set, floats need only have equal shapes."""
    return len(a) == len(b) and all(
        x is y
        or (
            type(x) is type(y)
            and np.shape(x) == np.shape(y)
            and ((in_shape and _is_float(x) and _is_float(y)) or bool(np.all(np.asarray(x == y))))
        )
        for x, y in zip(a, b, strict=True)
    )


def complex_pair_class(native: Native) -> Any:
    """Return a class of pairs (real, imag), each part an input: two arrays stay a pair, tensors become one complex tensor."""

    class Split(tuple[Any, Any]):
        _fields = ("real", "imag")

        def __new__(cls, real: Any, imag: Any) -> Any:
            if not any(map(native.framework.holds, (real, imag))):
                return super().__new__(cls, (real, imag))
            return native.framework.complex(*(native.tensor(part) for part in (real, imag)))

    return Split


def flat_function(f: PythonFunction, values: Mapping[str, Any], wrt: Sequence[str], framework: Framework) -> Flat:
    """Return a function of the tensors `wrt` only; the other inputs are fixed at `values`.

    Shapes  it returns one vector: all float results of `f`, flattened and concatenated.
    Raises  FunctionFailed, when it is called, if `f` returns no tensor of floats.
    """

    def joined(tensors: Sequence[Tensor]) -> Tensor:
        leaves = take_apart("", f.raw({**values, **dict(zip(wrt, tensors, strict=True))}))[1].values()
        ys = [framework.parts(y) for y in leaves if framework.holds(y)]
        ys = [y for y in ys if framework.is_float(y)]
        if not ys:
            raise FunctionFailed(f"{f.text} returns no tensor of floats", do="return a tensor of floats")
        return framework.joined(ys)

    return joined


def native_of(f: Any) -> Native | None:
    """Return the framework function that a gradcli function wraps, or None."""
    return f.function if isinstance(f, PythonFunction) and isinstance(f.function, Native) else None


# Wrapping of targets that are written in a framework as functions of numpy arrays.

_ABOUT_FORMATS = ("dtype", "Double", "double", "float64", "scalar type")


def import_framework(name: str) -> Framework:
    """Import the adapter of a framework by name.

    Raises  BadOption for a framework that is unknown or not installed.
    """
    known = KNOWN.get(name)
    if known is None:
        raise BadOption(f"there is no framework '{name}'", do=f"frameworks: {', '.join(KNOWN)}")
    if not known.is_there:
        raise BadOption(f"{name} is not installed", do=known.install)
    with quiet_imports():
        if name == "torch":
            from gradcli.frameworks.torch.adapter import FRAMEWORK
        elif name == "jax":
            from gradcli.frameworks.jax.adapter import FRAMEWORK  # type: ignore[assignment]
        elif name == "tensorflow":
            from gradcli.frameworks.tensorflow import FRAMEWORK  # type: ignore[assignment]
        else:
            from gradcli.frameworks.mlx import FRAMEWORK  # type: ignore[assignment]
    return FRAMEWORK


def give_devices(options: Options) -> None:
    """Let JAX have as many devices as the options say, before its first operation. Raises BadOption after it."""
    if options.devices is not None:
        from gradcli.frameworks.jax.adapter import give_devices as give

        import_framework("jax")
        give(options.devices)


# Recognition of the framework that a function is written in, from the names it uses, or else from its module's imports.

_PACKAGES = {
    "torch": "torch", "jax": "jax", "jaxlib": "jax", "tensorflow": "tensorflow", "keras": "tensorflow", "mlx": "mlx",
}  # fmt: skip
_NUMPY = {"numpy", "scipy", "math", "gradcli"}
_DEPTH = 4  # levels of calls that are followed within the same module


def recognise_framework(
    found: Any, module: ModuleType | None, wanted: str | None, given: Iterable[Mapping[str, Any]] = ()
) -> str | None:
    """Return the framework that a target is written in, or None for plain Python and numpy.

    Where neither the target nor its module names one, values that are `given` as its arrays do.

    Raises  BadOption if the target uses several frameworks and the user did not choose one.
    """
    if wanted is not None:
        return None if wanted == "numpy" else import_framework(wanted).name
    tops = set(_packages_used(found, 0, set()))
    named = {_PACKAGES[top] for top in tops if top in _PACKAGES}
    if not named and not tops & _NUMPY and module is not None:
        named = {_PACKAGES[top] for top in map(_top_package, vars(module).values()) if top in _PACKAGES}
    if not named and not tops & _NUMPY:
        values = (x for point in given for x in take_apart("", dict(point))[1].values())
        tops_of_values = {type(x).__module__.partition(".")[0] for x in values}
        named = {_PACKAGES[top] for top in tops_of_values if top in _PACKAGES}
    if len(named) > 1:
        several = " and ".join(sorted(named))
        raise BadOption(f"the function uses {several}", do=f"say which it is: --framework {min(named)}")
    return next(iter(named), None)


def _packages_used(found: Any, depth: int, seen: set[int]) -> Iterator[str]:
    """Yield the top-level package of every type and name that a callable uses."""
    found = getattr(found, "__func__", found)
    if id(found) in seen or depth > _DEPTH:
        return
    seen.add(id(found))
    for one in inspect.getmro(found if inspect.isclass(found) else type(found)):
        yield one.__module__.partition(".")[0]
    wraps = inspect.isfunction(found) and hasattr(found, "__wrapped__")
    if wraps:
        yield from _packages_used(found.__wrapped__, depth + 1, seen)
    inner = inspect.unwrap(found) if callable(found) and not wraps else found
    code = getattr(inner, "__code__", None)
    if code is None:
        if inspect.isfunction(type(found).__call__):
            yield from _packages_used(type(found).__call__, depth + 1, seen)
        for name in ("fun", "func", "f"):  # attributes in which wrappers (custom_vjp, partial) keep the function
            if callable(getattr(found, name, None)):
                yield from _packages_used(getattr(found, name), depth + 1, seen)
        return
    space = {**inner.__globals__, **closure_values(inner)}
    names = [name for each in nested_codes(code) for name in (*each.co_names, *each.co_freevars)]
    named = [space[name] for name in names if name in space]
    named += [x for x in inspect.get_annotations(inner).values() if not isinstance(x, str)]
    for x in named:
        yield _top_package(x)
        if callable(x) and _module_name(x) == inner.__module__:
            yield from _packages_used(x, depth + 1, seen)


def _top_package(x: Any) -> str:
    return _module_name(x).partition(".")[0]


def _module_name(x: Any) -> str:
    """Return the module of a value: of a module its own name; no attribute of a module is asked for, which may import."""
    if isinstance(x, ModuleType):
        return x.__name__
    return str(getattr(x, "__module__", None) or type(x).__module__)


def adapt_target(
    found: Any,
    text: str,
    module: ModuleType | None,
    options: Options,
    given: Sequence[Mapping[str, Any]] = (),
    way: str | None = None,
) -> Native | None:
    """Wrap a target as a function of numpy arrays that runs in its framework; return None for plain Python and numpy.

    `way` is one of those of --same-as in which the function is run.

    Raises  BadOption for an unavailable framework, format or device, and for framework options on a plain function;
            BadTarget for a class that cannot be made without arguments.
    """
    if isinstance(found, Native):
        return found
    name = recognise_framework(found, module, options.framework, given)
    if name is None:
        refuse_options(options)
        return None
    for flag, word, words in (("--dtype", options.dtype, tuple(EPS)), ("--autocast", options.autocast, MIXED)):
        read_name(flag, word, words)
    own = import_framework(name)
    usual = KNOWN[name].dtype if options.autocast is None else "float32"  # mixed precision leaves float64 alone
    if options.dtype == "float64" and KNOWN[name].inexact:
        says = f"{KNOWN[name].title} computes {KNOWN[name].inexact} of float64 to float32 only"
        raise BadOption(says, do="leave out --dtype: gradients are checked in float32, values are taken in float64")
    placed = Placed(options.dtype or usual, find_device(name, options.device or CPU))
    made = _wrap_target(placed, own, found, text, options, way)
    made.run_with = lambda way=way, **changes: adapt_target(
        found, text, module, replace(options, **changes), given, way
    )
    made.run_at = lambda placed: _wrap_target(placed, own, found, text, replace(options, autocast=None), way)
    return made


def _wrap_target(placed: Placed, own: Framework, found: Any, text: str, options: Options, way: str | None) -> Native:
    """Wrap a target of a framework in a number format, on a device."""
    try:
        prepared = own.prepared(found, placed, options.seed)
    except TypeError as error:
        says = f"{text} cannot be made without arguments: {message_of(error)}"
        raise BadTarget(says, do="name a factory: model.py:make_net()") from error
    if options.autocast is not None:
        prepared = replace(prepared, function=own.mixed(prepared.function, placed, options.autocast))
    if options.compile or (options.devices is not None and way != "eager"):
        prepared = replace(prepared, function=own.compiled(prepared.function))
    if way is not None:
        prepared = replace(prepared, function=own.other_way(prepared.function, way))
    made = Native(prepared, own, placed, options.seed)
    made.__name__ = text
    return made


def refuse_options(options: Options) -> None:
    """Raise BadOption if an option is set that applies only to functions written in a framework."""
    option = next((o for o, on in _OPTIONS if on(options)), None)
    if option is not None:
        says = f"{option} is for functions written in a framework"
        raise BadOption(says, do="drop it, or name the framework: --framework")


def is_format_failure(said: str, dtype: str | None) -> bool:
    """Whether a failure in float64 is about the number format, and the user did not choose `dtype`."""
    return dtype is None and any(word in said for word in _ABOUT_FORMATS)


def wrap_claim(claim: Callable[..., Any], native: Native | None) -> Callable[..., Any]:
    """Wrap the user's own gradient function to take numpy arrays if the target is written in a framework."""
    if native is None or isinstance(claim, Native):
        return claim
    prepared = native.framework.prepared(claim, native.placed, native.seed)
    return Native(prepared, native.framework, native.placed, native.seed, differentiates=True)


_OPTIONS: tuple[tuple[str, Callable[[Options], Any]], ...] = (
    ("--dtype", lambda n: n.dtype),
    ("--compile", lambda n: n.compile or n.devices is not None),
    ("--localise", lambda n: n.localise),
    ("--expect", lambda n: n.expect),
    ("--autocast", lambda n: n.autocast),
    ("--same-as", lambda n: n.same_as),
)
