"""What gradcli asks of a framework, and which frameworks there are."""

import importlib
import importlib.util
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Any, Protocol

from gradcli.errors import BadOption, NotSupported, Place
from gradcli.frameworks.recorded_steps import RecordedSteps
from gradcli.lowering.quiet import quiet_imports
from gradcli.point import Array
from gradcli.source.function import Notice

Tensor = Any
Flat = Callable[[Sequence[Tensor]], Tensor]  # from the differentiated tensors to all float results, laid end to end


EXPECTED = frozenset({"straight-through", "stop-gradient"})
MIXED = ("bfloat16", "float16")
EPS = {"float64": 2.0**-52, "float32": 2.0**-23, "tf32": 2.0**-10, "bfloat16": 2.0**-7, "float16": 2.0**-10}


@dataclass(frozen=True, slots=True)
class Placed:
    """In which format and on which device tensors are made."""

    dtype: str = "float64"
    device: str = "cpu"


@dataclass(frozen=True, slots=True)
class FrameworkOptions:
    """What the user says of a target in a framework: which, in which format, where, and what else is to be checked."""

    framework: str | None = None
    dtype: str | None = None
    device: str | None = None
    compiles: bool = False
    localises: bool = False
    expect: frozenset[str] = frozenset()
    autocast: str | None = None


@dataclass(frozen=True, slots=True)
class Prepared:
    """A target as a callable of tensors, what it has beside its arguments (a module's parameters), and remarks.

    `built` gives the parameters of what has none before it was called, from the arguments of a first call.
    """

    function: Callable[..., Any]
    name: str
    parameters: dict[str, Array]
    notices: tuple[Notice, ...] = ()
    built: Callable[[dict[str, Any]], dict[str, Array]] | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a custom gradient during a run: the function as the user's rule has it, and the tensors it got.

    `position` is where it was called and `rule` where its gradient is written.
    """

    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    position: Any = None
    rule: Place | None = None


@dataclass(frozen=True, slots=True)
class Measured:
    """Seconds of a run and of the way back, bytes that are kept in between beside the inputs, and at most on a GPU."""

    forward: float
    backward: float
    saved: int
    peak: int | None = None


class Without:
    """What a framework says that has no complex numbers for us, and runs a gradient in no other way than it does."""

    name: str

    def complex(self, real: Tensor, imag: Tensor) -> Tensor:
        """Raises NotSupported."""
        raise NotSupported(f"complex numbers are not checked in {self.name}", do="pass real and imaginary parts")

    def parts(self, y: Tensor) -> Tensor:
        """Return a tensor that is not complex."""
        return y

    def mixed(self, function: Callable[..., Any], placed: Placed, dtype: str) -> Callable[..., Any]:
        """Raises BadOption."""
        raise BadOption(f"{self.name} has no autocast", do="choose the format it runs in with --dtype")

    def settled(self, f: Flat, xs: Sequence[Tensor], w: Array, seed: int) -> list[Array]:
        """Raises NotSupported."""
        raise NotSupported(f"{self.name} has no setting for deterministic algorithms")

    def measured(self, f: Flat, xs: Sequence[Tensor], w: Array, seed: int) -> Measured | None:
        """Return that it is not known."""
        return None


class Framework(Protocol):
    """One framework: tensors from arrays and back, its own derivatives, and what it did as a program."""

    name: str

    def holds(self, x: Any) -> bool:
        """Whether a value is a tensor of this framework."""

    def owns(self, x: Any) -> bool:
        """Whether a target (a function, a class, an instance) is an object of this framework's own making."""

    def tensor(self, x: Array, placed: Placed) -> Tensor:
        """Return a tensor: floats in the format that is asked for, integers and truth values as they are."""

    def array(self, x: Tensor) -> Array:
        """Return a tensor as numpy has it, floats in float64."""

    def is_float(self, x: Tensor) -> bool:
        """Whether a tensor holds floats, so that it can have a gradient."""

    def joined(self, ys: Sequence[Tensor]) -> Tensor:
        """Return tensors laid end to end."""

    def complex(self, real: Tensor, imag: Tensor) -> Tensor:
        """Return a complex tensor of its parts. Raises NotSupported."""

    def parts(self, y: Tensor) -> Tensor:
        """Return a complex tensor as real and imaginary parts along a last axis, any other as it is."""

    def prepared(self, found: Any, placed: Placed, seed: int) -> Prepared:
        """Return a target as a callable: a module with its parameters, a custom function's application."""

    def called(
        self, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], seed: int, differentiates: bool
    ) -> Any:
        """Call a function for its value, random numbers the same at every call; a claim `differentiates` by itself."""

    def gradient(self, f: Flat, xs: Sequence[Tensor], w: Array, seed: int) -> list[Array]:
        """Return the gradient of <w, f> by the framework's reverse mode."""

    def tangent(self, f: Flat, xs: Sequence[Tensor], vs: Sequence[Array], seed: int) -> Array:
        """Return the derivative of f along v by the framework's forward mode. Raises NotSupported where it has none."""

    def curvature(self, f: Flat, xs: Sequence[Tensor], w: Array, vs: Sequence[Array], seed: int) -> list[Array]:
        """Return the derivative of the gradient of <w, f> along v, by differentiating the gradient again."""

    def mapped(self, f: Flat, xs: Sequence[Tensor], others: Sequence[Tensor], w: Array, seed: int) -> list[Array]:
        """Return the gradients of <w, f> at two points at once, stacked. Raises NotSupported where that is not possible."""

    def variants(
        self, f: Flat, xs: Sequence[Tensor], w: Array, seed: int, own: frozenset[int]
    ) -> dict[str, list[Array | None] | str]:
        """Return the gradient as it comes when the same values are laid out or asked for otherwise, by what is otherwise.

        None stands for an input that was not asked for; a text says what is wrong. `own` are the places of a module's
        own parameters, which lie in memory as they always do.
        """

    def compiled(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function compiled by the framework."""

    def mixed(self, function: Callable[..., Any], placed: Placed, dtype: str) -> Callable[..., Any]:
        """Return a function that runs in mixed precision. Raises BadOption where there is none."""

    def settled(self, f: Flat, xs: Sequence[Tensor], w: Array, seed: int) -> list[Array]:
        """Return the gradient by deterministic algorithms. Raises NotSupported, naming what has none."""

    def measured(self, f: Flat, xs: Sequence[Tensor], w: Array, seed: int) -> Measured | None:
        """Return what a run and the way back cost, or None where that is not known."""

    def recorded(
        self, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], xs: Sequence[Tensor], seed: int
    ) -> tuple[RecordedSteps, Any]:
        """Return what a call did as a program of the tensors `xs`, and the call's result. Raises NotSupported."""

    def calls(self, f: Flat, xs: Sequence[Tensor], seed: int, every: bool) -> list[Call]:
        """Return the calls of custom gradients during one run; of modules too where `every` is asked for."""


@dataclass(frozen=True, slots=True)
class Known:
    """A framework gradcli can work with: how its package is imported and installed."""

    name: str
    package: str
    adapter: str
    distribution: str
    dtype: str = "float64"  # that targets are copied to

    @property
    def install(self) -> str:
        """The command that installs it."""
        return f"pip install 'gradcli[{self.name}]'"

    @property
    def is_there(self) -> bool:
        """Whether it is installed."""
        return importlib.util.find_spec(self.package.partition(".")[0]) is not None

    @property
    def version(self) -> str | None:
        """The installed version, without importing it; None where it is not there."""
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
        Known("torch", "torch", "gradcli.frameworks.torch.adapter", "torch"),
        Known("jax", "jax", "gradcli.frameworks.jax.adapter", "jax"),
        Known("tensorflow", "tensorflow", "gradcli.frameworks.tensorflow.adapter", "tensorflow"),
        Known("mlx", "mlx.core", "gradcli.frameworks.mlx.adapter", "mlx", "float32"),
    )
}


def framework(name: str) -> Framework:
    """Return a framework by name, importing it. Raises BadOption for one that is not known or not installed."""
    known = KNOWN.get(name)
    if known is None:
        raise BadOption(f"there is no framework '{name}'", do=f"frameworks: {', '.join(KNOWN)}")
    if not known.is_there:
        raise BadOption(f"{name} is not installed", do=known.install)
    with quiet_imports():
        return importlib.import_module(known.adapter).FRAMEWORK  # type: ignore[no-any-return]
