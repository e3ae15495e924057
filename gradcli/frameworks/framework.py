"""The interface that gradcli needs from a framework, and the table of known frameworks."""

import importlib.util
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from importlib import metadata
from inspect import Parameter, Signature, signature
from typing import Any, Protocol

import numpy as np

from gradcli.classes import dataclass
from gradcli.errors import BadOption, GradcliError, NotSupported, Place, install_command
from gradcli.request.point import Array
from gradcli.targets.facts import Notice
from gradcli.tracing import shapes
from gradcli.tracing.primitive import Value
from gradcli.tracing.provenance import HERE
from gradcli.tracing.shapes import shape
from gradcli.tracing.tracer import Tracer

Tensor = Any
Flat = Callable[[Sequence[Tensor]], Tensor]  # maps the differentiated tensors to one vector of all float results


MIXED = ("bfloat16", "float16")
_BY_VALUES = "check compares gradients with values; derive and trace need numpy, torch or JAX"


@dataclass(frozen=True, slots=True)
class Placed:
    """The number format and the device of new tensors; the device by its full name, as `find_device` returns it."""

    dtype: str = "float64"
    device: str = "cpu"


@dataclass(frozen=True, slots=True)
class Prepared:
    """A target as a callable of tensors, with its parameters (those of a module) and notices.

    `built` creates the parameters of a module that has none before its first call, by calling it with the given arguments.
    """

    function: Callable[..., Any]
    name: str
    parameters: dict[str, Array]
    notices: tuple[Notice, ...] = ()
    built: Callable[[dict[str, Any]], dict[str, Array]] | None = None


@dataclass(frozen=True, slots=True)
class CustomCall:
    """One call of a function with a custom gradient, or of a module: the function and the arguments it received.

    `position` is where the call is in the source, and `rule` is where its gradient is defined. `constants` are the positions
    and names of arguments that no derivative reaches: numbers, and arrays that do not depend on the inputs. `no_forward` says
    why the forward mode does not go through it; it is empty where it may.
    """

    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    position: Any = None
    rule: Place | None = None
    constants: frozenset[int | str] = frozenset()
    no_forward: str = ""


# What the ranks of a distributed program answer.


@dataclass(frozen=True, slots=True)
class Failure:
    """What the target raised on a rank, and where; or what is wrong with the target, where it raised nothing."""

    message: str
    where: Place | None = None
    raised: bool = True
    failed: bool = True


@dataclass(frozen=True, slots=True)
class Described:
    """A target: its signature, and the parameters of a module: this rank's part, and the axis of a DTensor.

    `synced` is whether all ranks hold the parameters, as those of DDP.
    """

    signature: Signature | None
    parameters: dict[str, tuple[Array, int | None]]
    synced: bool = False


@dataclass(frozen=True, slots=True)
class RankCall:
    """One call of a custom function on one rank: its arguments, the cotangents of its results, and what backward returned.

    `names` are those of the arguments. None stands for what is no tensor of floats, and for what has no gradient.
    """

    name: str
    names: tuple[str, ...]
    rule: Place | None
    xs: list[Array | None]
    ybars: list[Array | None]
    xbars: list[Array | None]


@dataclass(frozen=True, slots=True)
class Measured:
    """The cost of a gradient: seconds forward and backward, bytes saved in between (without inputs), peak bytes on a GPU."""

    forward: float
    backward: float
    saved: int
    peak: int | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """One more run of a function and its backward pass: the values of the inputs, the result, and the gradient."""

    name: str
    inputs: list[Array]
    value: Array
    gradient: list[Array]


@dataclass(frozen=True, slots=True)
class Inside:
    """What one run of a function shows: the format with the fewest digits that it computes in, and its stopped gradients.

    `stops` are the positions in the source where a gradient is stopped.
    """

    narrowest: str = "float64"
    stops: tuple[Any, ...] = ()


# The operations that a framework's function ran at one point, as steps that gradcli can replay on its own values.

EPS = {
    "float64": 2.0**-52, "float32": 2.0**-23, "tf32": 2.0**-10, "bfloat16": 2.0**-7, "float16": 2.0**-10,
    "float8_e4m3fn": 2.0**-3, "float8_e5m2": 2.0**-2,
}  # fmt: skip
EXACT = "exact"  # the format of a step that moves values and rounds none
_SAME = {"float64": 1e-9, "float32": 1e-3}  # relative to the largest entry; the rounding order may differ
_LOOSE = 5e-2  # for narrower formats


def rounds_to(dtypes: Iterable[str]) -> str:
    """Return the format to which an operation with results of these types rounds; it is exact if none are floats."""
    return next((dtype for dtype in dtypes if dtype in EPS), EXACT)


@dataclass(frozen=True, slots=True)
class Slot:
    """A reference to the value that a step takes as an operand."""

    number: int


@dataclass(frozen=True, slots=True)
class FrameworkStep:
    """One operation: the function that computes it, its operands (slots or constants), its result slots, its source line.

    If `writes` is set, the step stores its result in the memory of its first operand. If `stopped` is set, it ran in a block
    where the user switched differentiation off, such as no_grad. `rounds_to` is the format of its results, `EXACT` if it
    only moves values; None if it computes values in between that are rounded too.
    """

    name: str
    compute: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    outs: tuple[int, ...]
    position: Any = None
    writes: bool = False
    stopped: bool = False
    rounds_to: str | None = None


@dataclass
class RecordedSteps:
    """A recorded program: steps in order, and the constants they use.

    `first` are the results of the run that was recorded, if they are kept.
    `cuts` are the lines where a value leaves the framework's graph. `narrowest` is the format with the fewest digits among
    the intermediate values. `holds_everywhere` says that the function was recorded with abstract values, which it could not
    read, so that the program is valid at every point. `has_custom_gradients` says that it called a function with a gradient of
    its own, so that not all derivatives are those of the framework's operations.
    """

    steps: list[FrameworkStep] = field(default_factory=list)
    constants: dict[int, Any] = field(default_factory=dict)
    inputs: list[int] = field(default_factory=list)
    results: list[int] = field(default_factory=list)
    first: list[Value] | None = None
    cuts: list[tuple[str, Any]] = field(default_factory=list)
    narrowest: str = "float64"
    holds_everywhere: bool = False
    has_custom_gradients: bool = False

    @property
    def writes(self) -> bool:
        """Whether any step writes into memory that other values may share."""
        return any(step.writes or step.name == "put" for step in self.steps)

    def narrow(self, dtype: str) -> None:
        """Update the narrowest format by that of an intermediate value."""
        if EPS.get(dtype, 0.0) > EPS[self.narrowest]:
            self.narrowest = dtype

    def __call__(self, xs: Sequence[Value]) -> list[Value]:
        """Return the results at other inputs, which may be traced. Raises what an operation raises."""
        values = dict(zip(self.inputs, xs, strict=True)) | self.constants
        if self.writes:  # into copies, which share no memory with what is given
            traced = [x for x in xs if isinstance(x, Tracer)]
            hold = max(traced, key=lambda x: x.level).hold if traced else np.asarray
            for number, x in zip(self.inputs, xs, strict=True):
                values[number] = (
                    x.twin() if isinstance(x, Tracer) else np.array(x)[()] if isinstance(x, np.ndarray) else x
                )
            for number, x in self.constants.items():
                if isinstance(x, np.ndarray):  # traced values may be written into one of floats
                    values[number] = hold(x.copy()) if x.dtype in (np.float64, np.complex128) else x.copy()
        before = HERE.position
        try:
            for step in self.steps:
                HERE.position = step.position
                run_step(step, values)
        finally:
            HERE.position = before
        return [values[number] for number in self.results]


def is_equal_up_to_rounding(ours: Any, theirs: Any, dtype: str, least_size: float = 0.0) -> bool:
    """Return whether two results of the same operation in a format differ by rounding alone.

    The difference is compared with the largest entry of `theirs`, or with `least_size` if that is larger.
    """
    room = _SAME.get(dtype, _LOOSE) * max(largest_entry(theirs), least_size) + 1e-300
    if np.shape(ours) != np.shape(theirs):
        return False
    with np.errstate(invalid="ignore"):  # of infinities, which allclose compares
        is_near = bool(np.all(np.abs(ours - theirs) <= room))
    return is_near or np.allclose(ours, theirs, rtol=0.0, atol=room, equal_nan=True)


def run_step(step: FrameworkStep, values: dict[int, Any]) -> None:
    """Run one step on `values` and store its results there. Raises NotSupported, naming the step, if it fails."""
    args = [fill_slots(a, values) for a in step.args]
    try:
        y = step.compute(*args, **{name: fill_slots(a, values) for name, a in step.kwargs.items()})
        if step.writes and shape(args[0]):
            args[0][...] = y
            y = args[0]
    except GradcliError:
        raise
    except (TypeError, ValueError, IndexError, AttributeError, KeyError) as error:
        raise NotSupported(f"{step.name} cannot be run on these operands: {error}") from error
    if len(step.outs) == 1 and not isinstance(y, tuple | list):
        values[step.outs[0]] = y
    else:
        values.update(zip(step.outs, y, strict=False))


def fill_slots(a: Any, values: dict[int, Any]) -> Any:
    """Return an operand with each slot replaced by its value, also inside lists and tuples."""
    if isinstance(a, Slot):
        return values[a.number]
    if isinstance(a, list | tuple):
        return type(a)(fill_slots(part, values) for part in a)
    return a


def largest_entry(x: Any) -> float:
    """Return the largest absolute value among the finite entries of a float array; 0 for anything else."""
    x = np.asarray(x)
    return shapes.largest_finite(x) if x.dtype.kind == "f" else 0.0


class Framework(Protocol):
    """The adapter of one framework: converts tensors, computes its own derivatives, and records calls as programs.

    What has a body here is that of a framework without complex inputs, autocast, deterministic algorithms or cost measurement,
    whose functions are not recorded, but compared by their values.

    Shapes  `w` has the length of the vector that `f` returns; a gradient has the shapes of the inputs `xs`.
    """

    name: str
    rules_return_values: bool = False  # whether a custom rule computes the value anew, beside the function itself

    def holds(self, x: Any) -> bool:
        """Whether a value is a tensor of this framework."""

    def owns(self, x: Any) -> bool:
        """Whether a target (a function, a class, an instance) is of a type that this framework defines."""

    def tensor(self, x: Array, placed: Placed) -> Tensor:
        """Return an array as a tensor: floats in the format `placed.dtype`, integers and booleans with their own type."""

    def array(self, x: Tensor) -> Array:
        """Return a tensor as a numpy array, with floats in float64."""

    def is_float(self, x: Tensor) -> bool:
        """Whether a tensor holds floats, so that it can have a gradient."""

    def joined(self, ys: Sequence[Tensor]) -> Tensor:
        """Return the entries of all tensors concatenated into one vector."""

    def complex(self, real: Tensor, imag: Tensor) -> Tensor:
        """Return a complex tensor from its real and imaginary parts. Raises NotSupported."""
        raise NotSupported(f"complex numbers are not checked in {self.name}", do="pass real and imaginary parts")

    def parts(self, y: Tensor) -> Tensor:
        """Return a complex tensor with its real and imaginary parts along a new last axis; any other tensor unchanged."""
        return y

    def prepared(self, found: Any, placed: Placed, seed: int) -> Prepared:
        """Return a target as a callable of tensors, with a module's parameters. Raises BadOption for its format."""

    def called(
        self, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], seed: int, differentiates: bool
    ) -> Any:
        """Call a function with reseeded random numbers; `differentiates` says that it computes a gradient itself."""

    def gradient(self, f: Flat, xs: Sequence[Tensor], w: Array, seed: int) -> list[Array]:
        """Return the gradient of <w, f> by the framework's reverse mode."""
        return self.pulled(f, xs, w, seed)[1]

    def pulled(self, f: Flat, xs: Sequence[Tensor], w: Array, seed: int) -> tuple[Array, list[Array]]:
        """Return the value of f while its gradient is computed, as a custom rule returns it, and the gradient of <w, f>."""

    def value(self, f: Flat, xs: Sequence[Tensor], seed: int) -> Array:
        """Return the value of f, without a gradient."""

    def declined(self, f: Flat, xs: Sequence[Tensor], seed: int) -> frozenset[int]:
        """Return the positions of inputs that custom functions take, and whose backward returns None for them."""
        return frozenset()

    def in_turn(self, f: Flat, xs: Sequence[Tensor], others: Sequence[Tensor], w: Array, seed: int) -> Iterator[Run]:
        """Yield runs at other values, in the same memory and in other memory, in which results that were kept would show."""
        for name, inputs in (("changed values", others), ("the first values again", xs)):
            value, gradient = self.pulled(f, inputs, w, seed)
            yield Run(name, [self.array(x) for x in inputs], value, gradient)

    def tangent(self, f: Flat, xs: Sequence[Tensor], vs: Sequence[Array], seed: int) -> Array:
        """Return the derivative of f along v by the framework's forward mode. Raises NotSupported where it has none."""

    def curvature(self, f: Flat, xs: Sequence[Tensor], w: Array, vs: Sequence[Array], seed: int) -> list[Array]:
        """Return the derivative of the gradient of <w, f> along v, by differentiating the gradient again."""

    def mapped(self, f: Flat, xs: Sequence[Tensor], others: Sequence[Tensor], w: Array, seed: int) -> list[Array]:
        """Return the gradients of <w, f> at two points, computed in one batched (vmap) call and stacked. Raises NotSupported."""

    def variants(
        self, f: Flat, xs: Sequence[Tensor], w: Array, seed: int, own: frozenset[int]
    ) -> Mapping[str, list[Array | None] | str | NotSupported]:
        """Return the gradient recomputed in other ways (strided inputs, one input at a time), keyed by what was varied.

        None stands for an input whose gradient was not requested; a string describes a mistake. `own` are the positions of a
        module's own parameters, whose memory layout is not varied.
        """

    def compiled(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function compiled by the framework."""

    def other_way(self, function: Callable[..., Any], way: str) -> Callable[..., Any]:
        """Return a function that runs `eager`, although it is compiled, or under a `checkpoint`. Raises NotSupported."""

    def mixed(self, function: Callable[..., Any], placed: Placed, dtype: str) -> Callable[..., Any]:
        """Return a function that runs in mixed precision. Raises BadOption where there is none."""
        raise BadOption(f"{self.name} has no autocast", do="choose the format it runs in with --dtype")

    def settled(self, f: Flat, xs: Sequence[Tensor], w: Array, seed: int) -> list[Array]:
        """Return the gradient by deterministic algorithms. Raises NotSupported, naming an operation that has none."""
        raise NotSupported(f"{self.name} has no setting for deterministic algorithms")

    def measured(self, f: Flat, xs: Sequence[Tensor], w: Array, seed: int) -> Measured | None:
        """Return the cost of the forward and the backward pass, or None if it cannot be measured."""
        return None

    def recorded(
        self, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], xs: Sequence[Tensor], seed: int
    ) -> tuple[RecordedSteps, Any]:
        """Record a call as a program of the tensors `xs`; return it with the call's result. Raises NotSupported."""
        raise NotSupported(f"gradcli has no rules for the operations of {KNOWN[self.name].title}", do=_BY_VALUES)

    def inside(
        self, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], xs: Sequence[Tensor], seed: int
    ) -> Inside:
        """Return which formats a call computes in, and where it stops gradients, for a function that is not recorded."""
        return Inside()  # of a function that is recorded, the program shows it

    def calls(self, f: Flat, xs: Sequence[Tensor], seed: int, every: bool) -> list[CustomCall]:
        """Return the calls of custom gradients during one run; also those of modules if `every` is set."""


@dataclass(frozen=True, slots=True)
class KnownFramework:
    """A framework gradcli can work with: how its package is imported and installed.

    `dtype` is the format that targets are converted to. If it is narrower than float64, the framework computes some of its
    functions of float64 with fewer digits, `inexact`.
    """

    name: str
    title: str
    package: str
    distribution: str
    dtype: str = "float64"
    inexact: str = ""

    @property
    def install(self) -> str:
        """The command that installs it."""
        return install_command(self.name)

    @property
    def is_there(self) -> bool:
        """Whether it is installed."""
        return importlib.util.find_spec(self.package.partition(".")[0]) is not None

    @property
    def version(self) -> str | None:
        """The installed version, read without importing the framework; None if it is not installed."""
        if not self.is_there:
            return None
        loaded = getattr(sys.modules.get(self.package), "__version__", None)
        if isinstance(loaded, str):
            return loaded
        try:
            return metadata.version(self.distribution)
        except metadata.PackageNotFoundError:
            return "unknown"


KNOWN = {
    known.name: known
    for known in (
        KnownFramework("torch", "torch", "torch", "torch"),
        KnownFramework("jax", "JAX", "jax", "jax"),
        KnownFramework("tensorflow", "TensorFlow", "tensorflow", "tensorflow"),
        KnownFramework("mlx", "MLX", "mlx.core", "mlx", "float32", "exp, sin, erf and others"),
    )
}


# What the adapters have in common.


def function_name(function: Any) -> str:
    """Return the name of a function; "function" for a callable that has none."""
    return str(getattr(function, "__name__", "function"))


def with_parameters(call: Callable[..., Any], like: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return `call` with a name, the signature of another function, and a keyword `parameters`: those of a module."""
    own = list(signature(like).parameters.values())
    keyword = Parameter("parameters", Parameter.KEYWORD_ONLY, default=None)
    last = [p for p in own if p.kind is p.VAR_KEYWORD]
    call.__signature__ = Signature([*(p for p in own if p not in last), keyword, *last])  # type: ignore[attr-defined]
    call.__name__ = name
    return call


@contextmanager
def replace_attribute(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Replace an attribute in the block."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


# Conversion of unusual error types of users' rules and frameworks into RuntimeError, which callers expect.

_NOISE = re.compile(r"\{\{[^{}]*\}\}|\[Op:\w+\]|\bname: *$")


@contextmanager
def reraise_as_runtime_error() -> Iterator[None]:
    """Re-raise errors of unusual types as a RuntimeError subclass of the same name, with the message cleaned up."""
    try:
        yield
    except (GradcliError, RuntimeError, TypeError, ValueError):
        raise
    except Exception as error:
        said = " ".join(_NOISE.sub("", str(error)).split())
        named = type(type(error).__name__, (RuntimeError,), {})
        raise named(said).with_traceback(error.__traceback__) from error
