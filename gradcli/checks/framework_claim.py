"""A framework's own gradient as the claim that is checked, and an implementation that is checked against a reference."""

import copy
import platform
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any, TypeVar

import numpy as np

from gradcli.arithmetic.recorded_program import record, value_and_gradient
from gradcli.checks.probe import Located
from gradcli.classes import dataclass
from gradcli.errors import (
    BadClaim,
    BadOption,
    BadPoint,
    BadShape,
    BadTarget,
    FunctionFailed,
    GradcliError,
    NotSupported,
)
from gradcli.frameworks.framework import EPS
from gradcli.frameworks.native import (
    SURROGATES,
    Native,
    adapt_target,
    explain_failure,
    flat_function,
    native_of,
    replaceable_steps,
    undifferentiated_steps,
)
from gradcli.modes.bounds import FORMAT_RUNS, apply_least_error
from gradcli.modes.claim import FLOAT64, Claimed, ClaimedFunction, ClaimFormat, WrongShape, prepare_claim
from gradcli.process.start import thread_count
from gradcli.request.options import Options
from gradcli.request.target_text import is_python
from gradcli.targets.derived import STEP, Along, GivenGradient, Gradient, Weighted, random_direction
from gradcli.targets.facts import Function, Notice, restrict_to_inputs
from gradcli.targets.loading import load
from gradcli.targets.python import PythonFunction
from gradcli.tracing.primitive import Value
from gradcli.tracing.provenance import place_of_position
from gradcli.tracing.shapes import shape
from gradcli.words import Kind, Severity

# An implementation of a function, which is checked against a reference: another implementation of the same function.


@dataclass(frozen=True, slots=True)
class Implementation:
    """A function that takes the inputs of its reference by their names; `native` is its function in a framework, if any."""

    text: str
    f: PythonFunction
    native: Native | None


def implementation_of(
    target: str | Callable[..., Any], reference: Located, options: Options
) -> tuple[Implementation, Located]:
    """Return the implementation that a target names, and its reference at values that its format holds.

    Raises  BadTarget if it is no Python function; BadClaim if its result has another size than the reference's.
    """
    module, text = None, getattr(target, "__qualname__", type(target).__name__)
    function: Any = target
    if isinstance(target, str):
        if not is_python(target):
            raise BadTarget(f"'{target}' is an expression", do="--reference is for Python functions: file.py:name")
        loaded = load(target)
        module, function, text = loaded.module, loaded.found, loaded.text
    native = adapt_target(function, text, module, options)
    taken = prepare_claim(function if native is None else native, text, reference.arguments).function
    found = Implementation(text, taken, native)
    if native is not None:
        points = []
        for point in reference.points:
            values = dict(point.values)
            for name, x in point.values.items():
                if isinstance(x, float | np.ndarray) and np.asarray(x).dtype.kind == "f":
                    values[name] = native.numbers(x)
            points.append(replace(point, values=values, value=None))
        reference = replace(reference, points=tuple(points))
    values = reference.points[0].values
    ours, theirs = np.asarray(found.f(values)), np.asarray(reference.f(values))
    if ours.size != theirs.size:
        says = f"{found.text} returns shape {shape(ours)}, and its reference {reference.f.text} shape {shape(theirs)}"
        raise BadClaim(says, do="give a reference with the same result")
    return found, replace(reference, module=module)


# The versions and settings that a report records about the machine.


def installed_version(package: str) -> str | None:
    """Return the version of an installed package without importing it, or None if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def describe_environment(frameworks: tuple[str, ...] = ()) -> dict[str, str | int]:
    """Return the versions that a result depends on, with those of the frameworks used, and the thread limit if one is set."""
    limit = thread_count()
    return _collect_versions(frameworks) if limit is None else {**_collect_versions(frameworks), "threads": limit}


@cache
def _collect_versions(frameworks: tuple[str, ...]) -> dict[str, str | int]:
    own: dict[str, str | int] = {
        "gradcli": installed_version("gradcli") or "unknown", "python": platform.python_version(), "numpy": np.__version__,
    }  # fmt: skip
    return own | {name: installed_version(name) or "unknown" for name in frameworks}


# A framework's own gradient as the claim.

T = TypeVar("T")

_LIKE = 1e-6  # a gradient this near that of a surrogate is taken to mean that surrogate; the check then compares them
_LIKE_ULPS = 16  # the same in a narrow format


class FrameworkClaim:
    """The gradient of w . f as the function's own framework computes it, with fixed weights w of the outputs."""

    def __init__(self, f: PythonFunction, native: Native, wrt: tuple[str, ...], w: Any) -> None:
        self.f = f
        self.native = native
        self.wrt = wrt
        self.w = w
        self.value: Any = None  # of f in the last call, all results in one vector
        self.declined: tuple[str, ...] = ()  # the numbers that a custom backward returns None for

    def tensors(self, values: Mapping[str, Value]) -> list[Any]:
        """Return the differentiated inputs as tensors."""
        return [self.native.framework.tensor(values[name], self.native.placed) for name in self.wrt]

    def flat(self, values: Mapping[str, Value]) -> Any:
        """Return the function of the differentiated tensors; its float results are concatenated into one vector."""
        return flat_function(self.f, values, self.wrt, self.native.framework)

    def __call__(self, values: Mapping[str, Value]) -> dict[str, Any]:
        """Return the gradient for each input.

        Raises  WrongShape if the framework reports a shape, BadClaim for its other errors, with its message.
        """
        native = self.native
        try:
            found = native.framework.pulled(self.flat(values), self.tensors(values), self.w, native.seed)
            self.value, bars = found
        except (FunctionFailed, RuntimeError, TypeError, ValueError) as error:
            kind, said = explain_failure(error, native.__name__, native.framework.name)
            raise WrongShape(said.what) if kind == "shape" else said from error
        except GradcliError as error:
            raise BadClaim(error.what, where=error.where, do=error.do) from error
        return dict(zip(self.wrt, bars, strict=True))

    def along(self, values: Mapping[str, Value], v: Mapping[str, Any]) -> Any:
        """Return the derivative of the gradient along v: one vector, the entries of all inputs in order."""
        native = self.native
        vs = [v[name] for name in self.wrt]
        parts = native.framework.curvature(self.flat(values), self.tensors(values), self.w, vs, native.seed)
        return np.concatenate([np.reshape(part, (-1,)) for part in parts])


def precision_of(
    f: Function, wrt: tuple[str, ...], derived: Callable[[Function], Function] = lambda f: f
) -> ClaimFormat:
    """Return the precision of a claim that is computed in the framework of f.

    `derived(f)` is the scalar that is differentiated.
    """
    native = native_of(f)
    if native is None or not isinstance(f, PythonFunction):
        return FLOAT64

    def gradient(g: PythonFunction, values: Mapping[str, Value]) -> list[Any]:
        scalar = restrict_to_inputs(derived(g), values, wrt)
        return value_and_gradient(scalar, [values[name] for name in wrt], np.ones_like)[1]

    @keep_last_result
    def typical(values: Mapping[str, Value]) -> dict[str, Any] | None:
        try:
            right = gradient(f, values)
            runs = [gradient(with_function(f, native.with_rounding(run)), values) for run in range(FORMAT_RUNS)]
        except (NotSupported, BadShape):  # a step whose rounding is unknown, or several outputs
            return None
        offs = [[np.nan_to_num(np.asarray(a) - b) for a, b in zip(run, right, strict=True)] for run in runs]
        roots = (np.sqrt(np.mean(np.square(off), axis=0)) for off in zip(*offs, strict=True))
        return {
            name: apply_least_error(x, y, EPS[native.narrowest]) for name, x, y in zip(wrt, roots, right, strict=True)
        }

    return ClaimFormat(lambda: native.coarseness, typical)


def keep_last_result(function: Callable[[Mapping[str, Value]], T]) -> Callable[[Mapping[str, Value]], T]:
    """Return the function, which keeps its last result for another call with the same mapping."""
    kept: list[tuple[Mapping[str, Value], T]] = []

    def keeping(values: Mapping[str, Value]) -> T:
        if not kept or kept[0][0] is not values:
            kept[:] = [(values, function(values))]
        return kept[0][1]

    return keeping


def with_function(f: PythonFunction, function: Any) -> PythonFunction:
    """Return f with another function in its place, which takes the same arguments."""
    other = copy.copy(f)
    other.function = function
    return other


def own_gradient(
    found: Located,
    seed: int,
    order: int,
    expect: frozenset[str] = frozenset(),
    weighted: bool = False,
    by: Implementation | None = None,
) -> tuple[Located, Claimed, FrameworkClaim] | None:
    """Return the framework's own gradient as a claim, and the function it should be the gradient of; None for plain Python.

    With an implementation `by`, it is the gradient of that, and `found` is its reference.

    If f has several outputs, the claim is the gradient of a sum with random weights. For order 2 it is the product of the
    Hessian and a vector. Straight-through estimators and stopped gradients in `expect` are checked against the surrogate
    function. With `weighted`, a scalar output gets a weight too: this tests that a backward pass uses its cotangent.

    Raises  BadPoint if the points give results of different shapes; BadOption if there is no gradient to check.
    """
    native = native_of(found.f) if by is None else by.native
    f = found.f if by is None else by.f
    if native is None or not isinstance(f, PythonFunction):
        return None
    at = found.points[0].values
    y = found.points[0].value if by is None else found.f(at)
    plain = shape(y) == () and not weighted
    shapes = dict.fromkeys(shape(point.value) for point in found.points if point.value is not None)
    if not plain and len(shapes) > 1:
        says = f"the points give results of different shapes, {' and '.join(map(str, shapes))}"
        raise BadPoint(f"{says}: a framework's gradient is checked at one", do="check each point alone")
    w = np.float64(1.0) if plain else draw_output_weights(seed, y)
    own = FrameworkClaim(f, native, found.wrt, w)
    declined = _find_declined_inputs(own, at)
    if declined:
        kept = tuple(name for name in found.wrt if name not in declined)
        if not kept:
            says = f"backward returns None for {', '.join(declined)}, so that there is no gradient to check"
            raise BadOption(says, do="give a tensor, or choose other inputs: --wrt")
        found, own = replace(found, wrt=kept), FrameworkClaim(f, native, kept, w)
        own.declined = declined
    if expect:
        found = _locate_surrogate(found, own, at, expect)
    derived: Callable[[Function], Function] = lambda f: f if plain else Weighted(f, w)
    precision = precision_of(found.f, found.wrt, derived)
    if by is not None:
        both = precision.coarseness
        precision = replace(precision, coarseness=lambda: max(both(), native.coarseness))
    claim = ClaimedFunction(f"{native.framework.name}'s gradient", own, _return_unchanged, at, precision)
    if order == 2:
        return (*_claim_second_derivative(found, own, claim, derived, seed), own)
    return (found if plain else found.with_function(derived(found.f))), claim, own


def _find_declined_inputs(own: FrameworkClaim, values: Mapping[str, Value]) -> tuple[str, ...]:
    """Return the inputs that were given as numbers and that a custom backward returns None for, as it does for eps.

    None for a tensor is a gradient that is missing.
    """
    native = own.native
    numbers = [k for k, name in enumerate(own.wrt) if not np.ndim(values[name]) and not _is_tensor(native, name)]
    if not numbers:
        return ()
    try:
        found = native.framework.declined(own.flat(values), own.tensors(values), native.seed)
    except (GradcliError, RuntimeError, TypeError, ValueError):
        return ()  # the check of the gradient reports this error
    return tuple(own.wrt[k] for k in numbers if k in found)


def _is_tensor(native: Native, name: str) -> bool:
    return name in native.given_as_tensors or name in native.parameters


def _claim_second_derivative(
    found: Located, own: FrameworkClaim, first: Claimed, derived: Callable[[Function], Function], seed: int
) -> tuple[Located, Claimed]:
    """Return the framework's product of the Hessian and a vector as a claim, and the gradient along that vector.

    The gradient is gradcli's, or the framework's own, `first`, where the function is not recorded.
    """
    native, at = own.native, found.points[0].values
    v = {name: random_direction(seed, name, at[name]) for name in found.wrt}
    kind = Gradient if native.is_recorded else GivenGradient
    given = None if native.is_recorded else first
    along = found.along_line(Along(kind(derived(found.f), found.wrt, at, given), v))
    compute = lambda values: {STEP: own.along({n: x for n, x in values.items() if n != STEP}, v)}
    precision = ClaimFormat(lambda: native.coarseness)
    text = f"{native.framework.name}'s second derivative"
    return along, ClaimedFunction(text, compute, _return_unchanged, along.points[0].values, precision)


def claim_traced_gradient(found: Located, by: Implementation, seed: int) -> tuple[Located, Claimed]:
    """Return the gradient of an implementation in numpy by the reverse mode as a claim, and what it should be the gradient of.

    Raises  BadClaim if the implementation cannot be traced.
    """
    at = found.points[0].values
    y = found.f(at)
    w = np.float64(1.0) if shape(y) == () else draw_output_weights(seed, y)
    derived: Callable[[Function], Function] = lambda f: f if shape(y) == () else Weighted(f, w)

    def compute(values: Mapping[str, Value]) -> dict[str, Any]:
        try:
            _, bars = value_and_gradient(
                restrict_to_inputs(derived(by.f), values, found.wrt), [values[name] for name in found.wrt], np.ones_like
            )
        except NotSupported as error:
            raise BadClaim(
                f"{by.text} cannot be differentiated: {error.what}", where=error.where, do="claim its gradient: --grad"
            ) from error
        return dict(zip(found.wrt, bars, strict=True))

    claim = ClaimedFunction(f"gradcli's gradient of {by.text}", compute, _return_unchanged, at)
    return found.with_function(derived(found.f)), claim


def _locate_surrogate(found: Located, own: FrameworkClaim, at: Mapping[str, Any], expect: frozenset[str]) -> Located:
    """Return the surrogate function that an expected deviation of the gradient stands for; f itself if there is none.

    Values behind a stopped gradient are held constant. Staircases are replaced by the surrogate whose gradient is the
    framework's.
    """
    native, f = own.native, own.f
    try:
        record(restrict_to_inputs(f, at, found.wrt), [at[name] for name in found.wrt])  # so that its program is known
    except NotSupported as error:
        raise BadOption(
            f"--expect needs the operations of the function: {error.what}", do="leave out --expect"
        ) from error
    if native.program is None:
        return found
    steps, held = (
        replaceable_steps(native.program) if Kind.STRAIGHT_THROUGH in expect else [],
        undifferentiated_steps(native.program),
    )
    if not steps and not held:
        return found
    says, smooth = "", None
    if steps:
        claimed = own(at)
        fits = (
            s
            for s, smooth in SURROGATES.items()
            if _is_gradient_of(_surrogate_function(f, native, smooth), own, at, claimed)
        )
        says = next(fits, next(iter(SURROGATES)))
        smooth = SURROGATES[says]
    kind = Kind.STOP_GRADIENT if Kind.STOP_GRADIENT in expect else Kind.STRAIGHT_THROUGH
    notices = [
        Notice(
            Kind.STRAIGHT_THROUGH,
            Severity.INFO,
            f"{step.name} {says}; the surrogate is checked",
            at=place_of_position(step.position),
        )
        for step in steps
    ]
    notices += [
        Notice(kind, Severity.INFO, f"{step.name} is held constant", at=place_of_position(step.position))
        for step in held
        if kind == Kind.STOP_GRADIENT or not steps
    ]
    found = found.with_function(_surrogate_function(f, native, smooth))
    return replace(found, notices=(*found.notices, *notices))


def _surrogate_function(f: PythonFunction, native: Native, smooth: Any) -> PythonFunction:
    return with_function(f, native.with_surrogate(smooth))


def _is_gradient_of(
    other: PythonFunction, own: FrameworkClaim, at: Mapping[str, Any], claimed: Mapping[str, Any]
) -> bool:
    """Whether a claimed gradient is nearly the gradient of a function."""
    scalar = restrict_to_inputs(Weighted(other, own.w, ""), at, own.wrt)
    _, bars = value_and_gradient(scalar, [at[name] for name in own.wrt], np.ones_like)
    like = max(_LIKE, _LIKE_ULPS * EPS[own.native.narrowest])
    return all(np.allclose(bar, claimed[name], rtol=like, atol=like) for bar, name in zip(bars, own.wrt, strict=True))


def _return_unchanged(found: dict[str, Any]) -> dict[str, Any]:
    return found


def draw_output_weights(seed: int, y: Any) -> Any:
    """Return random weights for the outputs, with absolute values from 0.5 to 1.5 that are exact in every format.

    Shapes  the shape of y.
    """
    rng = np.random.default_rng([seed, 0xCAFE])
    w = np.asarray(rng.integers(8, 25, shape(y)) / 16 * rng.choice([-1.0, 1.0], shape(y)))
    w.flags.writeable = False
    return w[()]
