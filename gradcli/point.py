"""The words modes and verdicts share: what a point is, what an estimate is, and what a mode can rest on."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np

Array = Any  # np.float64 or ndarray of float64
Values = Mapping[str, Array]


class Witness(Enum):
    """What a mode's answer depends on; two modes confirm each other only where they share none of it."""

    RULES = "rules"
    FUNCTION_VALUES = "function values"
    TRACING = "tracing"
    SYMPY = "sympy"
    USER = "your claim"
    TORCH = "torch"
    JAX = "jax"
    TENSORFLOW = "tensorflow"
    MLX = "mlx"


@dataclass(frozen=True, slots=True)
class Point:
    """Named inputs with values: scalars as np.float64, arrays as ndarray of float64; `drawn` names those we chose.

    A Python function's point holds its other arguments too, untouched; `notices`, `value` and `seconds` are what
    its first calls showed.
    """

    values: dict[str, Array]
    drawn: tuple[str, ...] = ()
    number: int = 0
    notices: tuple[Any, ...] = ()
    value: Array | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Cost:
    """What an estimate took. Units: evaluations of f, scalar operations, seconds, bytes held at the peak.

    `formula` counts the operations of a derivative written out as a formula, `shared` those with common subexpressions named.
    """

    evaluations: int = 0
    operations: int | None = None
    seconds: float = 0.0
    peak_bytes: int | None = None
    formula: int | None = None
    shared: int | None = None


@dataclass(frozen=True, slots=True)
class Slopes:
    """What differences of function values showed beside one slope, entry by entry; nan where they showed nothing.

    `left` and `right` are one-sided slopes that do not meet: a kink. `other` is the slope by steps `other_h`, beside the
    one by steps `h`: structure finer than the wider steps, or where `jumps`, rounding between whose jumps it was measured.

    Shapes  each as the estimate's value of one input.
    """

    h: Array
    left: Array
    right: Array
    other: Array
    other_bound: Array
    other_h: Array
    jumps: Array


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a mode returns.

    Where a value is known beyond float64, `decimals` holds it as decimal strings, `value` is the nearest float64, and
    the bound is that of the decimals.

    Shapes  `value[x]` and `bound[x]` have the shape of the output followed by the shape of input x.
    Error   |value - truth| <= bound, entry by entry; proved if `proved`, drawn from samples if `statistical`; `narrow`
            if it was computed in a format of few digits, so that small entries beside large ones have none.
    `slopes[x]` is there where differences showed a kink or a second slope.
    """

    value: dict[str, Array]
    bound: dict[str, Array]
    proved: bool = False
    statistical: bool = False
    narrow: bool = False
    cost: Cost = field(default_factory=Cost)
    notes: tuple[str, ...] = ()
    decimals: dict[str, Any] | None = None
    slopes: Mapping[str, Slopes] = field(default_factory=dict)


def as_value(x: Any) -> Array:
    """Return a number or array as gradcli holds it: np.float64 for scalars, float64 arrays of their own otherwise."""
    array = np.array(x, dtype=np.float64)
    return array[()] if array.ndim == 0 else array
