"""scipy.interpolate: splines, grids, scattered data."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from gradcli.errors import NoRule
from gradcli.rules.kinds import make_refusal
from gradcli.rules.scipy.linear import linear_map
from gradcli.rules.shaping import as_value
from gradcli.rules.sorting import searchsorted
from gradcli.tracing.primitive import Value
from gradcli.tracing.shapes import shape
from gradcli.tracing.tracer import Tracer, is_differentiated, plain_value

# Parts of scipy.interpolate: splines and interpolation on grids, as functions of the place and of the values.
#
# Coefficients are linear in the values; at a place inside a piece, a spline is a polynomial.


def require_fixed(name: str, what: str, x: Any) -> Any:
    """Return an argument as a plain array. Raises NoRule if it depends on what is differentiated."""
    if is_differentiated(x):
        raise NoRule(f"scipy.interpolate.{name} has no derivative rule by its {what}", do=f"keep the {what} fixed")
    return plain_value(as_value(x))


def _piecewise_polynomial(coefficients: Value, breaks: Any, x: Value, nu: int, outside: Any) -> Value:
    """Return a piecewise polynomial, or its derivative of order `nu`, at `x`.

    Shapes  coefficients (degree + 1, pieces, ...), the highest power first; the result has the shape of x, then `...`.
    """
    if np.any(np.diff(breaks) < 0):
        raise NoRule("a piecewise polynomial with decreasing breakpoints is not traced", do="sort the breakpoints")
    degree, last = shape(coefficients)[0] - 1, shape(coefficients)[2:]
    row = np.reshape(x, (-1,))
    piece = np.clip(searchsorted(breaks, row, "right") - 1, 0, len(breaks) - 2)
    t = np.reshape(row - breaks[piece], (-1,) + (1,) * len(last))
    y: Any = np.zeros((row.shape[0], *last))
    for k in range(degree + 1 - nu):
        power = degree - k
        factor = float(np.prod(np.arange(power, power - nu, -1)))
        y = y * t + factor * coefficients[k, piece]
    beyond = (plain_value(row) < breaks[0]) | (plain_value(row) > breaks[-1])
    if outside is False and np.any(beyond):
        y = np.where(np.reshape(beyond, (-1,) + (1,) * len(last)), np.nan, y)
    return np.reshape(y, (*shape(x), *last))


def _move_places_to_axis(y: Value, places: int, axis: int) -> Value:
    """Move the axes of the places, which are first, to where the axis of interpolation was."""
    order = list(range(len(shape(y))))
    return np.transpose(y, order[places : places + axis] + order[:places] + order[places + axis :]) if axis else y


def _fold_period(x: Value, extrapolate: Any, first: float, last: float) -> tuple[Value, Any]:
    if isinstance(extrapolate, str):  # periodic
        return first + np.remainder(x - first, last - first), False
    return x, extrapolate


def evaluate(spline: Any, x: Value, nu: int = 0, extrapolate: Any = None) -> Value:
    """Return the value of a piecewise polynomial of scipy (CubicSpline, PPoly, PchipInterpolator ...)."""
    x, places = as_value(x), len(shape(as_value(x)))
    extrapolate = spline.extrapolate if extrapolate is None else extrapolate
    breaks = plain_value(spline._x)
    x, extrapolate = _fold_period(x, extrapolate, breaks[0], breaks[-1])
    return _move_places_to_axis(_piecewise_polynomial(spline._c, breaks, x, nu, extrapolate), places, spline.axis)


def integrate(spline: Any, a: Value, b: Value, extrapolate: Any = None) -> Value:
    """Return the integral of a piecewise polynomial."""
    extrapolate = spline.extrapolate if extrapolate is None else extrapolate
    if isinstance(extrapolate, str):
        raise NoRule("the integral of a periodic spline is not traced", do="integrate within one period")
    primitive = antiderivative(spline)
    return evaluate(primitive, b, 0, extrapolate) - evaluate(primitive, a, 0, extrapolate)


def antiderivative(spline: Any, nu: int = 1) -> Any:
    if nu != 1:
        raise NoRule("only the first antiderivative of a spline is traced", do="call antiderivative() again")
    c, breaks = spline._c, plain_value(spline._x)
    count = shape(c)[0]
    widths = np.reshape(np.diff(breaks), (-1,) + (1,) * (len(shape(c)) - 2))
    powers = [c[k] / (count - k) for k in range(count)]
    pieces: Any = 0.0
    for power in powers:
        pieces = (pieces + power) * widths
    starts = np.concatenate([np.zeros_like(plain_value(pieces)[:1]), np.cumsum(pieces, axis=0)[:-1]])
    return _make_polynomial(np.stack([*powers, starts]), spline)


def derivative(spline: Any, nu: int = 1) -> Any:
    c = spline._c
    degree = shape(c)[0] - 1
    if nu < 0 or nu > degree:
        return antiderivative(spline, -nu) if nu < 0 else _make_polynomial(0.0 * c[:1], spline)
    factors = [float(np.prod(np.arange(power, power - nu, -1))) for power in range(degree, nu - 1, -1)]
    return _make_polynomial(np.stack([factor * c[k] for k, factor in enumerate(factors)]), spline)


def _make_polynomial(coefficients: Value, like: Any) -> Any:
    """Return a piecewise polynomial of scipy with traced coefficients."""
    from scipy.interpolate import PPoly

    made = PPoly.construct_fast(plain_value(coefficients), plain_value(like._x), like.extrapolate, like.axis)
    made._c = coefficients
    return made


def make_cubic_spline(
    self: Any, x: Any, y: Value, axis: int = 0, bc_type: Any = "not-a-knot", extrapolate: Any = None
) -> None:
    """Make a CubicSpline whose coefficients are a linear function of y."""
    from scipy.interpolate import CubicSpline

    x = require_fixed("CubicSpline", "knots", x)
    if not isinstance(bc_type, str) and any(is_differentiated(end) for pair in bc_type for end in pair):
        raise NoRule("scipy.interpolate.CubicSpline has no derivative rule by its ends", do="keep bc_type= fixed")
    type(self).__init__(self, x, plain_value(as_value(y)), axis, bc_type, extrapolate)
    self._c = linear_map(lambda v: CubicSpline(x, v, axis, bc_type, extrapolate)._c, y, "scipy.interpolate.CubicSpline")


def evaluate_b_spline(self: Any, x: Value, nu: int = 0, extrapolate: Any = None) -> Value:
    """Return the value of a B-spline, by its polynomial on each piece."""
    from scipy.interpolate import BSpline, PPoly

    x, places = as_value(x), len(shape(as_value(x)))
    knots, k = plain_value(self._t), self.k
    inner = slice(k, len(knots) - k - 1)

    def pieces(c: Any) -> Any:
        flat = np.reshape(c, (len(c), -1))
        made = [PPoly.from_spline(BSpline(knots, column, k))._c[:, inner] for column in flat.T]
        return np.reshape(np.stack(made, axis=-1), (*made[0].shape, *np.shape(c)[1:]))

    c = self._c
    coefficients = linear_map(pieces, c, "scipy.interpolate.BSpline") if isinstance(c, Tracer) else pieces(c)
    breaks = knots[k : len(knots) - k]
    x, extrapolate = _fold_period(x, self.extrapolate if extrapolate is None else extrapolate, breaks[0], breaks[-1])
    return _move_places_to_axis(_piecewise_polynomial(coefficients, breaks, x, nu, extrapolate), places, self.axis)


def make_interp_spline(
    x: Any, y: Value, k: int = 3, t: Any = None, bc_type: Any = None, axis: int = 0, **others: Any
) -> Any:
    import scipy.interpolate

    x = require_fixed("make_interp_spline", "knots", x)
    made: Any = lambda v: scipy.interpolate.make_interp_spline(x, v, k, t, bc_type, axis, **others)
    spline = made(plain_value(as_value(y)))
    spline._c = linear_map(lambda v: made(v)._c, y, "scipy.interpolate.make_interp_spline")
    return spline


def splev(x: Value, tck: Any, der: int = 0, ext: int = 0) -> Value:
    from scipy.interpolate import BSpline

    knots, c, k = (tck.t, tck._c, tck.k) if isinstance(tck, BSpline) else tck
    knots = require_fixed("splev", "knots", knots)
    if ext not in (0, 3) or isinstance(c, list):
        raise NoRule(f"scipy.interpolate.splev with ext={ext} or of a curve is not traced", do="BSpline(t, c, k)(x)")
    count = len(knots) - k - 1
    spline = BSpline(knots, plain_value(as_value(c))[:count], k)
    spline._c = as_value(c)[:count]
    x = np.clip(as_value(x), knots[k], knots[count]) if ext == 3 else x
    return evaluate_b_spline(spline, x, der)


def make_interp1d(self: Any, x: Any, y: Value, kind: Any = "linear", axis: int = -1, **others: Any) -> None:
    """Make an interp1d with traced values: scipy makes it with plain ones, and they are replaced."""
    from scipy.interpolate import interp1d as original

    x = require_fixed("interp1d", "places", x)
    y = as_value(y)
    original.__init__(self, x, plain_value(y), kind, axis, **others)
    order = np.arange(len(x)) if others.get("assume_sorted") else np.argsort(np.asarray(x), kind="mergesort")
    y = np.moveaxis(y, self.axis, 0)[order]
    self._y = np.reshape(y, (shape(y)[0], -1))


def evaluate_interp1d(self: Any, x: Value) -> Value:
    """Return the interpolated values at places in one row; outside, the fill value, or an error, as in scipy."""
    row, values = as_value(x), self._y
    if self._kind == "linear":
        widths = np.diff(self.x)[:, None]
        lines = np.stack([(values[1:] - values[:-1]) / widths, values[:-1]])
        y = _piecewise_polynomial(lines, self.x, row, 0, True)
    elif self._kind == "spline":
        traced = isinstance(values, Tracer)
        y = evaluate_b_spline(make_interp_spline(self.x, values, self._spline.k) if traced else self._spline, row)
    else:
        says = f"scipy.interpolate.interp1d with kind={self._kind!r} is a staircase"
        raise NoRule(says, do="kind='linear' or 'cubic'")
    if not self._extrapolate:
        low, high = self._check_bounds(plain_value(row))
        for side, fill in ((low, self._fill_value_below), (high, self._fill_value_above)):
            y = np.where(side[:, None], np.reshape(fill, (1, -1)), y) if np.any(side) else y
    return y


def make_grid(self: Any, points: Any, values: Value, *args: Any, **kwargs: Any) -> None:
    """Make a RegularGridInterpolator with traced values."""
    points = tuple(require_fixed("RegularGridInterpolator", "points", line) for line in points)
    type(self).__init__(self, points, plain_value(as_value(values)), *args, **kwargs)
    if any(not np.array_equal(own, given) for own, given in zip(self._grid, points, strict=True)):
        raise NoRule("scipy.interpolate.RegularGridInterpolator with decreasing points is not traced", do="sort them")
    self._values = as_value(values)


def evaluate_grid(self: Any, xi: Value, method: str | None = None, *, nu: Any = None) -> Value:
    """Return the multilinear interpolation: a sum over the corners of the cell."""
    method = self.method if method is None else method
    if method != "linear":
        do = "method='linear', or give your own gradient to check: --grad"
        raise NoRule(f"scipy.interpolate.RegularGridInterpolator with method={method!r} has no derivative rule", do=do)
    values, axes = self._values, len(self._grid)
    places = np.stack(np.broadcast_arrays(*xi), axis=-1) if isinstance(xi, tuple) else as_value(xi)
    outer = shape(places)[:-1] or (1,)
    places = np.reshape(places, (-1, axes))
    beyond: Any = np.zeros(shape(places)[0], dtype=bool)
    at, parts = [], []
    for k, knots in enumerate(self._grid):
        x = places[:, k]
        j = np.clip(searchsorted(knots, x, "right") - 1, 0, len(knots) - 2)
        at.append(j)
        parts.append((x - knots[j]) / (knots[j + 1] - knots[j]))
        beyond = beyond | (plain_value(x) < knots[0]) | (plain_value(x) > knots[-1])
    if self.bounds_error and np.any(beyond):
        raise ValueError("One of the requested xi is out of bounds")
    last = shape(values)[axes:]
    y: Any = 0.0
    for corner in itertools.product((0, 1), repeat=axes):
        weight: Any = 1.0
        for up, part in zip(corner, parts, strict=True):
            weight = weight * (part if up else 1 - part)
        found = values[tuple(j + up for j, up in zip(at, corner, strict=True))]
        y = y + found * np.reshape(weight, (-1,) + (1,) * len(last))
    if not self.bounds_error and self.fill_value is not None and np.any(beyond):
        y = np.where(np.reshape(beyond, (-1,) + (1,) * len(last)), self.fill_value, y)
    return np.reshape(y, (*outer, *last))


def interpn(
    points: Any, values: Value, xi: Value, method: str = "linear", bounds_error: bool = True, fill_value: Any = np.nan
) -> Value:
    from scipy.interpolate import RegularGridInterpolator

    made = RegularGridInterpolator(points, plain_value(as_value(values)), method, bounds_error, fill_value)
    made._values = as_value(values)
    return evaluate_grid(made, xi)


# scipy.interpolate: RBFInterpolator, and the splines of FITPACK (UnivariateSpline, InterpolatedUnivariateSpline).


def _zero_slope_at_0(square: Value, formula: Callable[[Value], Value]) -> Value:
    """Return a function of the squared distance that is 0, and has slope 0, where the distance is 0."""
    zero = plain_value(square) == 0
    return np.where(zero, 0.0, formula(np.where(zero, 1.0, square))) if np.any(zero) else formula(square)


_KERNELS: dict[str, Callable[[Value], Value]] = {  # of the squared distance
    "linear": lambda q: -np.sqrt(q),
    "thin_plate_spline": lambda q: _zero_slope_at_0(q, lambda q: q * np.log(q) / 2),
    "cubic": lambda q: _zero_slope_at_0(q, lambda q: q * np.sqrt(q)),
    "quintic": lambda q: _zero_slope_at_0(q, lambda q: -q * q * np.sqrt(q)),
    "multiquadric": lambda q: -np.sqrt(q + 1),
    "inverse_multiquadric": lambda q: 1 / np.sqrt(q + 1),
    "inverse_quadratic": lambda q: 1 / (q + 1),
    "gaussian": lambda q: np.exp(-q),
}


def _rbf_error() -> NoRule:
    says = "scipy.interpolate.RBFInterpolator with neighbors= or complex values is not traced"
    return NoRule(says, do="leave it out")


def make_rbf(
    self: Any, y: Any, d: Value, neighbors: Any = None, smoothing: Any = 0.0, *args: Any, **kwargs: Any
) -> None:
    """Make an RBFInterpolator whose coefficients are a linear function of the values d."""
    from scipy.interpolate import RBFInterpolator

    places = require_fixed("RBFInterpolator", "places of the data", y)
    others = require_fixed("RBFInterpolator", "smoothing", smoothing)
    if neighbors is not None or np.iscomplexobj(d):
        raise _rbf_error()
    values = as_value(d)
    made = lambda v: RBFInterpolator(places, v, neighbors, others, *args, **kwargs)._coeffs
    type(self).__init__(self, places, plain_value(values), neighbors, others, *args, **kwargs)
    self._c = linear_map(made, values, "scipy.interpolate.RBFInterpolator")


def evaluate_rbf(self: Any, x: Value) -> Value:
    """Return the interpolated values: a sum of kernels, and a polynomial."""
    if self.neighbors is not None or self.d_dtype is complex:
        raise _rbf_error()
    x = as_value(x)
    square = np.sum(np.square((x[:, None, :] - self.y[None, :, :]) * self.epsilon), axis=-1)
    scaled = (x - self._shift) / self._scale
    monomials = [np.prod(scaled ** np.asarray(power, dtype=float), axis=-1) for power in self.powers if np.any(power)]
    constant = [np.ones(shape(x)[0])] if len(self.powers) > len(monomials) else []
    rows = [_KERNELS[self.kernel](square), *(np.reshape(m, (-1, 1)) for m in (*constant, *monomials))]
    y = np.matmul(np.concatenate(rows, axis=1), getattr(self, "_c", self._coeffs))
    return np.reshape(y, (shape(x)[0], *self.d_shape))


def _spline_constructor(name: str) -> Callable[..., None]:
    """Return the stand-in of a constructor of FITPACK's splines: the coefficients are a linear function of the values."""

    def made(self: Any, x: Any, y: Value, *args: Any, **kwargs: Any) -> None:
        import scipy.interpolate

        cls = getattr(scipy.interpolate, name)
        x = require_fixed(name, "places of the data", x)
        if any(map(is_differentiated, (*args, *kwargs.values()))):
            says = f"scipy.interpolate.{name} has a derivative rule by its values alone"
            raise NoRule(says, do="keep the others fixed")
        cls.__init__(self, x, plain_value(as_value(y)), *args, **kwargs)
        smoothing = kwargs.get("s", args[3] if len(args) > 3 else None)
        if name == "UnivariateSpline" and (smoothing is None or smoothing != 0):
            says = "scipy.interpolate.UnivariateSpline with smoothing chooses its knots by the values"
            raise NoRule(f"{says}, and is not traced", do="s=0, or scipy.interpolate.make_interp_spline")

        def coefficients(v: Any) -> Any:
            t, c, k = cls(x, v, *args, **kwargs)._eval_args
            return c[: len(t) - k - 1]

        self._c = linear_map(coefficients, y, f"scipy.interpolate.{name}")

    return made


def evaluate_spline(self: Any, x: Value, nu: int = 0, ext: Any = None) -> Value:
    """Return the value of a spline of FITPACK, or a derivative; outside, what `ext` says."""
    from scipy.interpolate import BSpline

    ext = self.ext if ext is None else ext
    ext = {"extrapolate": 0, "zeros": 1, "raise": 2, "const": 3}.get(ext, ext)
    t, c, k = self._eval_args
    spline, x = BSpline(t, c[: len(t) - k - 1], k), as_value(x)
    if isinstance(getattr(self, "_c", None), Tracer):
        spline._c = self._c
    first, last = spline.t[spline.k], spline.t[-spline.k - 1]
    beyond = (plain_value(x) < first) | (plain_value(x) > last)
    if ext == 2 and np.any(beyond):
        raise ValueError("x is outside of the domain of the spline, and ext is 'raise'")
    y = evaluate_b_spline(spline, np.clip(x, first, last) if ext == 3 else x, nu)
    return np.where(beyond, 0.0, y) if ext == 1 and np.any(beyond) else y


def methods() -> Iterator[tuple[type, str, Callable[..., Any]]]:
    from scipy import interpolate

    yield interpolate.CubicSpline, "__init__", make_cubic_spline
    yield interpolate._interpolate._PPolyBase, "__call__", evaluate
    yield interpolate.PPoly, "derivative", derivative
    yield interpolate.PPoly, "antiderivative", antiderivative
    yield interpolate.PPoly, "integrate", integrate
    yield interpolate.BSpline, "__call__", evaluate_b_spline
    yield interpolate.interp1d, "__init__", make_interp1d
    yield interpolate.interp1d, "_evaluate", evaluate_interp1d
    yield interpolate.RegularGridInterpolator, "__init__", make_grid
    yield interpolate.RegularGridInterpolator, "__call__", evaluate_grid
    yield interpolate.RBFInterpolator, "__init__", make_rbf
    yield interpolate.RBFInterpolator, "__call__", evaluate_rbf
    for name in ("UnivariateSpline", "InterpolatedUnivariateSpline", "LSQUnivariateSpline"):
        yield getattr(interpolate, name), "__init__", _spline_constructor(name)
    yield interpolate.UnivariateSpline, "__call__", evaluate_spline
    for name in ("integral", "derivative", "derivatives", "antiderivative", "roots", "get_coeffs", "get_residual"):
        says = f"scipy.interpolate.UnivariateSpline.{name} is not traced"
        yield interpolate.UnivariateSpline, name, make_refusal(says, "make_interp_spline, and its methods")


_INTERPOLATE: dict[str, Callable[..., Any]] = {
    "make_interp_spline": make_interp_spline, "splev": splev, "interpn": interpn,
}  # fmt: skip

FUNCTIONS = {"interpolate": _INTERPOLATE}
