"""scipy.interpolate: RBFInterpolator, and the splines of FITPACK (UnivariateSpline, InterpolatedUnivariateSpline)."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from gradcli.errors import NoRule
from gradcli.rules.scipy.linear import linear_map
from gradcli.rules.scipy.splines import b_spline, fixed
from gradcli.rules.shaping import as_value
from gradcli.tracing.primitive import Value
from gradcli.tracing.tracer import Tracer, depends, plain


def _away(square: Value, formula: Callable[[Value], Value], at_0: float) -> Value:
    """Return a function of the squared distance that has slope 0 where the distance is 0."""
    zero = plain(square) == 0
    return np.where(zero, at_0, formula(np.where(zero, 1.0, square))) if np.any(zero) else formula(square)


_KERNELS: dict[str, Callable[[Value], Value]] = {  # of the squared distance
    "linear": lambda q: -np.sqrt(q),
    "thin_plate_spline": lambda q: _away(q, lambda q: q * np.log(q) / 2, 0.0),
    "cubic": lambda q: _away(q, lambda q: q * np.sqrt(q), 0.0),
    "quintic": lambda q: _away(q, lambda q: -q * q * np.sqrt(q), 0.0),
    "multiquadric": lambda q: -np.sqrt(q + 1),
    "inverse_multiquadric": lambda q: 1 / np.sqrt(q + 1),
    "inverse_quadratic": lambda q: 1 / (q + 1),
    "gaussian": lambda q: np.exp(-q),
}


def rbf(self: Any, y: Any, d: Value, neighbors: Any = None, smoothing: Any = 0.0, *args: Any, **kwargs: Any) -> None:
    """Make an RBFInterpolator whose coefficients are a linear function of the values d."""
    from scipy.interpolate import RBFInterpolator

    places = fixed("RBFInterpolator", "places of the data", y)
    others = fixed("RBFInterpolator", "smoothing", smoothing)
    if neighbors is not None or np.iscomplexobj(d):
        raise _refuse_rbf("neighbors= or complex values")
    values = as_value(d)
    made = lambda v: RBFInterpolator(places, v, neighbors, others, *args, **kwargs)._coeffs
    type(self).__init__(self, places, plain(values), neighbors, others, *args, **kwargs)
    self._c = linear_map(made, values, "scipy.interpolate.RBFInterpolator")


def _refuse_rbf(what: str) -> NoRule:
    return NoRule(f"scipy.interpolate.RBFInterpolator with {what} is not traced", do="leave it out")


def rbf_at(self: Any, x: Value) -> Value:
    """Return the interpolated values: a sum of kernels, and a polynomial."""
    if self.neighbors is not None or self.d_dtype is complex:
        raise _refuse_rbf("neighbors= or complex values")
    x = as_value(x)
    square = np.sum(np.square((x[:, None, :] - self.y[None, :, :]) * self.epsilon), axis=-1)
    scaled = (x - self._shift) / self._scale
    monomials = [np.prod(scaled ** np.asarray(power, dtype=float), axis=-1) for power in self.powers if np.any(power)]
    constant = [np.ones(np.shape(plain(x))[0])] if len(self.powers) > len(monomials) else []
    rows = [_KERNELS[self.kernel](square), *(np.reshape(m, (-1, 1)) for m in (*constant, *monomials))]
    y = np.matmul(np.concatenate(rows, axis=1), getattr(self, "_c", self._coeffs))
    return np.reshape(y, (np.shape(plain(x))[0], *self.d_shape))


def _spline(name: str) -> Callable[..., None]:
    """Return the stand-in of a constructor of FITPACK's splines: the coefficients are a linear function of the values."""

    def made(self: Any, x: Any, y: Value, *args: Any, **kwargs: Any) -> None:
        import scipy.interpolate

        cls = getattr(scipy.interpolate, name)
        x = fixed(name, "places of the data", x)
        if any(map(depends, (*args, *kwargs.values()))):
            raise NoRule(
                f"scipy.interpolate.{name} has a derivative rule by its values alone", do="keep the others fixed"
            )
        cls.__init__(self, x, plain(as_value(y)), *args, **kwargs)
        if name == "UnivariateSpline" and not _interpolates(args, kwargs):
            says = (
                "scipy.interpolate.UnivariateSpline with smoothing chooses its knots by the values, and is not traced"
            )
            raise NoRule(says, do="s=0, or scipy.interpolate.make_interp_spline")

        def coefficients(v: Any) -> Any:
            t, c, k = cls(x, v, *args, **kwargs)._eval_args
            return c[: len(t) - k - 1]

        self._c = linear_map(coefficients, y, f"scipy.interpolate.{name}")

    return made


def _interpolates(args: Any, kwargs: Any) -> bool:
    smoothing = kwargs.get("s", args[3] if len(args) > 3 else None)
    return smoothing is not None and smoothing == 0


def _as_b_spline(self: Any) -> Any:
    from scipy.interpolate import BSpline

    t, c, k = self._eval_args
    spline = BSpline(t, c[: len(t) - k - 1], k)
    if isinstance(getattr(self, "_c", None), Tracer):
        spline._c = self._c
    return spline


def spline_at(self: Any, x: Value, nu: int = 0, ext: Any = None) -> Value:
    """Return the value of a spline of FITPACK, or a derivative; outside, what `ext` says."""
    ext = self.ext if ext is None else ext
    ext = {"extrapolate": 0, "zeros": 1, "raise": 2, "const": 3}.get(ext, ext)
    spline, x = _as_b_spline(self), as_value(x)
    first, last = spline.t[spline.k], spline.t[-spline.k - 1]
    beyond = (plain(x) < first) | (plain(x) > last)
    if ext == 2 and np.any(beyond):
        raise ValueError("x is outside of the domain of the spline, and ext is 'raise'")
    y = b_spline(spline, np.clip(x, first, last) if ext == 3 else x, nu)
    return np.where(beyond, 0.0, y) if ext == 1 and np.any(beyond) else y


def _refused(name: str) -> Callable[..., Any]:
    def refuse(self: Any, *args: Any, **kwargs: Any) -> Any:
        raise NoRule(
            f"scipy.interpolate.UnivariateSpline.{name} is not traced", do="make_interp_spline, and its methods"
        )

    return refuse


_NOT_TRACED = ("integral", "derivative", "derivatives", "antiderivative", "roots", "get_coeffs", "get_residual")


def scattered_methods() -> Iterator[tuple[type, str, Callable[..., Any]]]:
    from scipy import interpolate

    yield interpolate.RBFInterpolator, "__init__", rbf
    yield interpolate.RBFInterpolator, "__call__", rbf_at
    for name in ("UnivariateSpline", "InterpolatedUnivariateSpline", "LSQUnivariateSpline"):
        yield getattr(interpolate, name), "__init__", _spline(name)
    yield interpolate.UnivariateSpline, "__call__", spline_at
    for name in _NOT_TRACED:
        yield interpolate.UnivariateSpline, name, _refused(name)
