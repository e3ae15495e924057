"""Types that modes and verdicts share: points, estimates, the witnesses that a mode rests on, and how differences may step."""

from collections.abc import Mapping
from dataclasses import field
from enum import Enum
from typing import Any

import numpy as np

from gradcli.classes import dataclass
from gradcli.errors import BadOption
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

    The point of a Python function also holds its other arguments, unchanged. `notices` and `value` come from the first
    calls of f there. `own_value` is the value with the user's tolerances, where `value` is that with smaller tolerances of the
    solvers in f.
    """

    values: dict[str, Array]
    drawn: tuple[str, ...] = ()
    number: int = 0
    notices: tuple[Any, ...] = ()
    value: Array | None = None
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


# How differences may step: their length, the edges of the domain, the typical size of an input, the calls allowed.

Edges = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Stepping:
    """How differences may step; gradcli chooses what is not given.

    Units   `h`, and by input `edges` and `scales`, in units of the input; `budget` in evaluations of f.
    Raises  BadOption for steps, sizes and budgets that are not positive, and for edges in the wrong order.
    """

    h: float | None = None
    edges: Mapping[str, Edges] = field(default_factory=dict)
    scales: Mapping[str, float] = field(default_factory=dict)
    budget: int | None = None

    def __post_init__(self) -> None:
        if self.h is not None and not 0 < self.h < np.inf:
            raise BadOption(f"--h takes a positive step, not {self.h:g}", do="drop --h: gradcli chooses steps itself")
        for name, (low, high) in self.edges.items():
            if not low < high:
                says = f"--bounds takes NAME=LOW:HIGH, not '{name}={low:g}:{high:g}'"
                raise BadOption(says, do='write --bounds "k=0:inf"')
        if not all(0 < size < np.inf for size in self.scales.values()):
            raise BadOption("--scale takes positive sizes", do='write --scale "x=1e-3"')
        if self.budget is not None and self.budget < 1:
            says = f"--budget takes a positive number of evaluations, not {self.budget}"
            raise BadOption(says, do="write --budget 500")

    def edges_of(self, name: str) -> Edges:
        """Return the lower and the upper edge of an input; infinite if there is none."""
        return self.edges.get(name, (-np.inf, np.inf))

    def sizes_of_entries(self, name: str, x: Any) -> Any:
        """Return the size of each entry of an input; for an entry of zero, the user's scale, or one."""
        sizes = np.abs(x)
        return sizes if np.all(sizes) else np.where(np.asarray(x) == 0, self.scales.get(name, 1.0), sizes)

    def turn_inward(self, name: str, x: Any, v: Any) -> Any:
        """Return a direction in which entries at an edge of the domain point inward."""
        if name not in self.edges:
            return v
        low, high = self.edges_of(name)
        return np.where(np.asarray(x) <= low, np.abs(v), np.where(np.asarray(x) >= high, -np.abs(v), v))

    def moved_inside(self, name: str, x: Any) -> Any:
        """Return values moved inside the edges where they lie outside."""
        low, high = self.edges_of(name)
        if np.isinf(low) or np.isinf(high):
            moved = low + np.abs(x) if np.isinf(high) else high - np.abs(x)
        else:
            moved = low + (high - low) / (1 + np.exp(-x))
        return np.where((low <= x) & (x <= high), x, moved)[()]

    def are_inside(self, names: tuple[str, ...], xs: tuple[Any, ...]) -> bool:
        """Whether values lie inside the edges; tracers are not checked."""
        for name, x in zip(names, xs, strict=True):
            low, high = self.edges_of(name)
            if isinstance(x, np.ndarray | float) and not np.all((low <= np.asarray(x)) & (np.asarray(x) <= high)):
                return False
        return True


DEFAULT_STEPPING = Stepping()
