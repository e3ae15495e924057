"""Types that modes and verdicts share: points, estimates, and the witnesses that a mode can rest on."""

from collections.abc import Mapping
from dataclasses import field
from enum import Enum
from typing import Any

import numpy as np

from gradcli.classes import dataclass
from gradcli.words import RanOn

Array = Any  # np.float64 or ndarray of float64
Values = Mapping[str, Array]


class Witness(Enum):
    """What the answer of a mode depends on; two modes confirm each other only if they share none of it."""

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
    """Named inputs with values: scalars as np.float64, arrays as ndarray of float64; `drawn` names randomly drawn inputs.

    The point of a Python function also holds its other arguments, unchanged. `notices`, `value` and `seconds` come from
    the first calls of f there: what was noticed, the value, and the time of one call. `own_value` is the value with the user's
    tolerances, where `value` is that with smaller tolerances of the solvers in f.
    """

    values: dict[str, Array]
    drawn: tuple[str, ...] = ()
    number: int = 0
    notices: tuple[Any, ...] = ()
    value: Array | None = None
    seconds: float | None = None
    own_value: Array | None = None


@dataclass(frozen=True, slots=True)
class EstimateCost:
    """The cost of an estimate.

    `formula` counts the operations of a derivative written as one formula, `shared` those after common subexpressions are
    computed only once.

    Units  evaluations of f, scalar operations, seconds, and bytes of memory at the peak.
    """

    evaluations: int = 0
    operations: int | None = None
    seconds: float = 0.0
    peak_bytes: int | None = None
    formula: int | None = None
    shared: int | None = None


@dataclass(frozen=True, slots=True)
class Slopes:
    """Further slopes that differences of function values showed, for each entry; nan where they showed none.

    `left` and `right` are one-sided slopes that differ, as at a kink. `other` is a second slope over steps `other_h`,
    where the slope over steps `h` differs: f has structure finer than the wider steps or, if `jumps` is set, f jumps by
    rounding, and this is the slope between the jumps.

    Shapes  each has the shape of the estimate's value of one input.
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
    """The gradient or Jacobian that a mode returns, with an error bound and its cost.

    If more digits are known than float64 holds, `decimals` holds them as strings, `value` is the nearest float64, and
    the bound is that of the decimals. `slopes[x]` is present if differences showed a kink or a second slope, and `ran_on` if a
    framework computed it. `solvers[x]` is the part of the bound that the tolerances of solvers in f make, if they make one.

    Shapes  `value[x]` and `bound[x]` have the shape of the output followed by the shape of input x.
    Error   |value - truth| <= bound, for each entry; proved if `proved`, estimated from samples if `statistical`.
            `narrow` means a format of few digits, in which small entries beside large ones have no right digit;
            `typical[x]` then is the typical error of the function's own formula in that format, where it is known.
    """

    value: dict[str, Array]
    bound: dict[str, Array]
    proved: bool = False
    statistical: bool = False
    narrow: bool = False
    cost: EstimateCost = field(default_factory=EstimateCost)
    notes: tuple[str, ...] = ()
    decimals: dict[str, Any] | None = None
    typical: Mapping[str, Array] | None = None
    slopes: Mapping[str, Slopes] = field(default_factory=dict)
    solvers: Mapping[str, Array] = field(default_factory=dict)
    ran_on: RanOn | None = None


def as_value(x: Any) -> Array:
    """Return a number or array in gradcli's form: np.float64 for a scalar, else a new float64 array."""
    array = np.array(x, dtype=np.float64)
    return array[()] if array.ndim == 0 else array
