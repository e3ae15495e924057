"""A recorded program that rounds as its framework does: each result, and each cotangent, to the format of its step."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gradcli.errors import NotSupported
from gradcli.frameworks.recorder import EPS, EXACT, RecordedSteps, Step
from gradcli.tracing.primitive import Params, Primitive, Transposer, Value

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


def rounded(program: RecordedSteps, seed: int, float32: str = "float32") -> RecordedSteps:
    """Return the program with random rounding errors in place of those that its framework makes.

    `float32` is the format to which steps in float32 round: matrix products may be computed in tf32.

    Raises  NotSupported if a step has intermediate values whose format is unknown.
    """
    rng = np.random.default_rng([seed, 0x6E0D])
    return replace(program, steps=[_rounded(step, rng, float32) for step in program.steps])


def _rounded(step: Step, rng: np.random.Generator, float32: str) -> Step:
    if step.rounds_to == EXACT:
        return step
    if step.rounds_to is None:
        raise NotSupported(f"it is not known how {step.name} rounds")
    rounding = Rounding(float32 if step.rounds_to == "float32" else step.rounds_to, rng)
    rounds = Primitive("round", rounding, (_Rounded(rounding),), kind="linear")

    def compute(*args: Any, **kwargs: Any) -> Any:
        ys = step.compute(*args, **kwargs)
        several = isinstance(ys, tuple | list)
        found = [rounds(y) if _rounding_is_float(y) else y for y in (ys if several else [ys])]
        return found if several else found[0]

    return replace(step, compute=compute)


def _rounding_is_float(y: Any) -> bool:
    return getattr(y, "dtype", None) == np.float64
