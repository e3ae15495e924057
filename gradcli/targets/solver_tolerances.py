"""The tolerances of scipy's solvers: which solvers a function calls, and the same calls with smaller tolerances.

A solver stops at a tolerance, so that its result, and differences of it, are off by far more than rounding. By how much is
measured: the function is evaluated again with the tolerances of its solvers a hundred times smaller, or still smaller where
that changes nothing, as where the last step of a solver was much better than its tolerance. A tolerance that is at its floor,
below which scipy or float64 cannot go, is left.
"""

import functools
import inspect
import os
import re
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path
from typing import Any

import numpy as np

from gradcli.classes import dataclass
from gradcli.errors import GradcliError

_EPS = float(np.finfo(np.float64).eps)
TIGHTER = (1e-2, 1e-4, 1e-6)  # factors of tolerances: the reference is taken at the first that changes the value
_ROOT_OF_EPS = 1.5e-8  # a minimum is not known better than this by values of the function alone
_Tolerances = Mapping[str, tuple[float | None, float]]  # by name: what scipy takes where none is given, and its floor
_Reducible = dict[str, tuple[Any, float]]  # by name: a tolerance that can be made smaller, and its floor


@dataclass(frozen=True, slots=True)
class SolverRow:
    """The tolerances of one of scipy's solvers.

    arguments  Tolerances that are arguments; they may depend on the other arguments, by name.
    options    Those in its argument `options`, given its arguments by name.
    more       What else is passed with smaller tolerances where the user does not pass it: a larger limit of steps, or better
               differences.
    fast       Whether it needs few steps more for a far smaller tolerance, so that the factor is squared.
    """

    arguments: _Tolerances | Callable[[Mapping[str, Any]], _Tolerances] = field(default_factory=dict)
    options: Callable[[Mapping[str, Any]], _Tolerances] = lambda given: {}
    more: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda given: {}
    fast: bool = False

    def of(self, given: Mapping[str, Any]) -> tuple[_Reducible, _Reducible]:
        """Return the tolerances of a call that can be made smaller: the arguments, and those in `options`."""
        own = self.arguments(given) if callable(self.arguments) else self.arguments
        options = self.options(given)
        if "tol" in own and given.get("tol") is not None:  # it replaces the defaults of all options
            options = {name: (None, floor) for name, (_, floor) in options.items()}
        return _reducible_tolerances(own, given), _reducible_tolerances(options, given.get("options") or {})

    def smaller(self, given: Mapping[str, Any], factor: float) -> dict[str, Any]:
        """Return the arguments that make a call one with smaller tolerances; none if all are at their floors."""
        factor = factor**2 if self.fast else factor
        both = self.of(given)
        if not any(both):
            return {}
        smaller = [{name: _reduce_tolerance(x, factor, floor) for name, (x, floor) in each.items()} for each in both]
        own, options = smaller
        found = {**{name: x for name, x in self.more(given).items() if given.get(name) is None}, **own}
        return {**found, "options": {**(given.get("options") or {}), **options}} if options else found


def _reducible_tolerances(known: _Tolerances, given: Mapping[str, Any]) -> _Reducible:
    """Return the tolerances, given or those of scipy, that are above their floors; one may be an array."""
    values = {name: default if given.get(name) is None else given[name] for name, (default, _) in known.items()}
    arrays = {name: np.asarray(np.nan if x is None else x) for name, x in values.items()}
    above = [name for name, x in arrays.items() if x.dtype.kind in "fiu" and np.any(x > known[name][1])]
    return {name: (values[name], known[name][1]) for name in above}


def _reduce_tolerance(x: Any, factor: float, floor: float) -> Any:
    x = np.asarray(x, dtype=float)
    found = np.where(x > floor, np.maximum(x * factor, floor), x)
    return found if found.ndim else float(found)


_ODE = {"rtol": (1e-3, 100 * _EPS), "atol": (1e-6, 0.0)}
_BRACKETED = SolverRow({"xtol": (2e-12, 0.0), "rtol": (None, 4 * _EPS)}, fast=True)
_BY_RESIDUAL = SolverRow({"rtol": (1e-5, 1e-14), "atol": (0.0, 0.0)})
_FIT = {"ftol": (1.49e-8, 1e-15), "xtol": (1.49e-8, 1e-15), "gtol": (None, 1e-15)}
_F_TOL = SolverRow({"f_tol": (6.06e-6, 1e-14), **dict.fromkeys(("f_rtol", "x_tol", "x_rtol"), (None, 1e-14))})
_QUAD = {"epsabs": (1.49e-8, 0.0), "epsrel": (1.49e-8, 5e-14)}
_GRADIENT = {"gtol": (1e-5, 1e-12)}
_TRUST = {"gtol": (1e-4, 1e-12)}
_METHODS: dict[str, _Tolerances] = {  # of scipy.optimize.minimize
    "bfgs": {**_GRADIENT, "xrtol": (None, 1e-15)}, "cg": _GRADIENT, "newton-cg": {"xtol": (1e-5, 1e-14)},
    "l-bfgs-b": {"ftol": (2.22e-9, 1e-16), **_GRADIENT}, "slsqp": {"ftol": (1e-6, 1e-16)},
    "tnc": {"ftol": (None, 1e-16), "xtol": (1.49e-8, 1e-15), "gtol": (None, 1e-16)},
    "nelder-mead": {"xatol": (1e-4, 1e-9), "fatol": (1e-4, 1e-15)},
    "powell": {"xtol": (1e-4, 1e-10), "ftol": (1e-4, 1e-15)},
    "trust-constr": {"gtol": (1e-8, 1e-13), "xtol": (1e-8, 1e-14), "barrier_tol": (1e-8, 1e-13)},
    "dogleg": _TRUST, "trust-ncg": _TRUST, "trust-krylov": _TRUST, "trust-exact": _TRUST,
    "cobyla": {"tol": (1e-4, 1e-12)}, "cobyqa": {"final_tr_radius": (1e-6, 1e-12)},
}  # fmt: skip
_WITH_DIFFERENCES = ("bfgs", "cg", "newton-cg", "l-bfgs-b", "slsqp", "tnc", "trust-constr")
_OF_ROOTS = {
    "hybr": {"xtol": (1.49e-8, 1e-15)}, "lm": {"xtol": (1.49e-8, 1e-15), "ftol": (1.49e-8, 1e-15)},
}  # fmt: skip


def _method_name(given: Mapping[str, Any], default: str = "") -> str:
    method = given.get("method")
    return method.lower() if isinstance(method, str) else default if method is None else "of the user's"


def _minimizer_name(given: Mapping[str, Any]) -> str:
    limited = "l-bfgs-b" if given.get("bounds") is not None else "bfgs"
    return _method_name(given, "slsqp" if given.get("constraints") else limited)


def _better_differences(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a better difference for a gradient that scipy itself computes by differences."""
    return {"jac": "3-point"} if _minimizer_name(given) in _WITH_DIFFERENCES and not given.get("jac") else {}


def _scalar_minimum_tolerances(given: Mapping[str, Any]) -> _Tolerances:
    bounded = _method_name(given, "bounded" if given.get("bounds") is not None else "brent") == "bounded"
    return {"xatol": (1e-5, _ROOT_OF_EPS)} if bounded else {"xtol": (None, _ROOT_OF_EPS)}


def _root_tolerances(given: Mapping[str, Any]) -> _Tolerances:
    other = {"fatol": (6.06e-6, 1e-14), "ftol": (None, 1e-14), "xatol": (None, 1e-14)}
    return _OF_ROOTS.get(_method_name(given, "hybr"), other)


def _scalar_root_tolerances(given: Mapping[str, Any]) -> _Tolerances:
    bracketed = _method_name(given, "brentq" if given.get("bracket") is not None else "newton") in _BRACKETING
    return {"xtol": (2e-12 if bracketed else 1.48e-8, 0.0), "rtol": (None, 4 * _EPS)}


_BRACKETING = ("brentq", "brenth", "bisect", "ridder", "toms748")
_HIGHS = {"primal_feasibility_tolerance": (1e-7, 1e-10), "dual_feasibility_tolerance": (1e-7, 1e-10)}

SOLVERS: Mapping[str, Mapping[str, SolverRow]] = {  # by the name of scipy's module
    "integrate": {
        "solve_ivp": SolverRow(_ODE),
        "odeint": SolverRow({"rtol": (1.49e-8, 1e-12), "atol": (1.49e-8, 0.0)}, more=lambda given: {"mxstep": 50_000}),
        "solve_bvp": SolverRow({"tol": (1e-3, 100 * _EPS), "bc_tol": (None, 100 * _EPS)},
                               more=lambda given: {"max_nodes": 20_000}),
        "quad": SolverRow(_QUAD, more=lambda given: {"limit": 200}, fast=True),
        "dblquad": SolverRow(_QUAD), "tplquad": SolverRow(_QUAD),
        "quad_vec": SolverRow({"epsabs": (None, 1e-150), "epsrel": (1e-8, 1e-13)}, fast=True),
        "cubature": SolverRow({"rtol": (1e-8, 1e-13), "atol": (None, 0.0)}),
        "tanhsinh": SolverRow({"rtol": (None, 1e-13), "atol": (None, 0.0)}),
    },
    "optimize": {
        "minimize": SolverRow({"tol": (None, 1e-14)}, lambda given: _METHODS.get(_minimizer_name(given), {}),
                              _better_differences),
        "minimize_scalar": SolverRow({"tol": (None, _ROOT_OF_EPS)}, _scalar_minimum_tolerances),
        "root": SolverRow({"tol": (None, 1e-15)}, _root_tolerances, fast=True),
        "root_scalar": SolverRow(_scalar_root_tolerances, fast=True),
        "brentq": _BRACKETED, "brenth": _BRACKETED, "bisect": _BRACKETED, "ridder": _BRACKETED, "toms748": _BRACKETED,
        "newton": SolverRow({"tol": (1.48e-8, 1e-15), "rtol": (None, 1e-15)}, fast=True),
        "fixed_point": SolverRow({"xtol": (1e-8, 1e-14)}, more=lambda given: {"maxiter": 5_000}, fast=True),
        "fsolve": SolverRow({"xtol": (1.49e-8, 1e-15)}, fast=True),
        "newton_krylov": _F_TOL, "anderson": _F_TOL, "broyden1": _F_TOL, "broyden2": _F_TOL,
        "least_squares": SolverRow(dict.fromkeys(("ftol", "xtol", "gtol"), (1e-08, 1e-15))),
        "leastsq": SolverRow(_FIT),
        "curve_fit": SolverRow(_FIT),
        "lsq_linear": SolverRow({"tol": (1e-10, 1e-15), "lsmr_tol": (None, 1e-15)}),
        "linprog": SolverRow(options=lambda given: _HIGHS if _method_name(given, "highs").startswith("highs") else {}),
        "milp": SolverRow(options=lambda given: {"mip_rel_gap": (1e-4, 0.0)}),
        "fmin": SolverRow({"xtol": (1e-4, 1e-9), "ftol": (1e-4, 1e-15)}),
        "fmin_powell": SolverRow({"xtol": (1e-4, 1e-10), "ftol": (1e-4, 1e-15)}),
        "fmin_bfgs": SolverRow(_GRADIENT), "fmin_cg": SolverRow(_GRADIENT),
        "fmin_ncg": SolverRow({"avextol": (1e-5, 1e-14)}),
        "fmin_l_bfgs_b": SolverRow({"factr": (1e7, 0.1), "pgtol": (1e-5, 1e-12)}),
        "fmin_slsqp": SolverRow({"acc": (1e-6, 1e-16)}),
        "fminbound": SolverRow({"xtol": (1e-5, _ROOT_OF_EPS)}),
        "brent": SolverRow({"tol": (None, _ROOT_OF_EPS)}), "golden": SolverRow({"tol": (None, _ROOT_OF_EPS)}),
    },
    "sparse.linalg": {
        **dict.fromkeys(("bicg", "bicgstab", "cg", "cgs", "gcrotmk", "gmres", "lgmres", "qmr", "tfqmr"), _BY_RESIDUAL),
        "minres": SolverRow({"rtol": (1e-5, 1e-14)}),
        **dict.fromkeys(("lsqr", "lsmr"), SolverRow({"atol": (1e-6, 1e-14), "btol": (1e-6, 1e-14)})),
        **dict.fromkeys(("eigs", "eigsh", "lobpcg", "svds"), SolverRow({"tol": (None, 1e-14)})),
    },
}  # fmt: skip


class _Watch(threading.local):
    """What happens to calls of solvers in this thread.

    `factor` is that of their tolerances, `seen` collects the solvers by what a sentence says of them, and the two act only
    while a function of the user's runs that is `watched`. `running` counts the solvers that have not returned.
    """

    factor = 1.0
    seen: dict[str, None] | None = None
    watched = 0
    running = 0


_WATCH = _Watch()


@contextmanager
def scale_tolerances(factor: float) -> Iterator[dict[str, None]]:
    """Context in which the solvers that the user's functions call get `factor` times their tolerances; yields their names.

    The functions run in `watch_solvers`, and the replacements of scipy's functions are installed.
    """
    before = _WATCH.factor, _WATCH.seen
    _WATCH.factor, _WATCH.seen = factor, {}
    try:
        yield _WATCH.seen
    finally:
        _WATCH.factor, _WATCH.seen = before


@contextmanager
def watch_solvers() -> Iterator[None]:
    """Context for one call of a function whose solvers are watched."""
    _WATCH.watched += 1
    try:
        yield
    finally:
        _WATCH.watched -= 1


def tolerances_are_smaller() -> bool:
    """Whether solvers get smaller tolerances than the user's now."""
    return _WATCH.factor < 1.0


def is_inside_solver(file: str) -> bool:
    """Whether a call from this file is one that a solver makes itself, such as that of brentq for the time of an event."""
    return _WATCH.running > 0 and file.startswith(_folder_of_scipy())


def call_solver(
    name: str, row: SolverRow, original: Callable[..., Any], function: Callable[..., Any], args: Any, kwargs: Any
) -> Any:
    """Call a solver, or what stands in for it, and note it; with smaller tolerances where the thread asks for them.

    A call that raises or fails with smaller tolerances is made as the user wrote it.
    """
    if not _WATCH.watched or (_WATCH.seen is None and _WATCH.factor == 1.0):
        return function(*args, **kwargs)
    try:
        given = arguments_by_name(original, args, kwargs)
    except (TypeError, ValueError):
        return function(*args, **kwargs)  # scipy says what is wrong
    if _WATCH.seen is not None:
        own, options = row.of(given)
        if own or options:
            shown = ", ".join(f"{key}={_format_tolerance(x)}" for key, (x, _) in {**own, **options}.items())
            _WATCH.seen[f"{name} at {shown}"] = None
    smaller = row.smaller(given, _WATCH.factor) if _WATCH.factor < 1.0 else {}
    _WATCH.running += 1
    try:
        if smaller:
            y = _call_with_smaller(original, function, args, kwargs, smaller)
            if y is not None and (name not in _TO_THE_END or y.success):
                return y
        return function(*args, **kwargs)
    finally:
        _WATCH.running -= 1


def _call_with_smaller(
    original: Callable[..., Any], function: Callable[..., Any], args: Any, kwargs: Any, smaller: dict[str, Any]
) -> Any:
    """Return the result of a call with some arguments replaced; None if it raises, as scipy may with small tolerances."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [name for name, p in _cached_signature(original).parameters.items() if p.kind in kinds]
    changed = [smaller.pop(names[k], x) if k < len(names) else x for k, x in enumerate(args)]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the call with the user's own tolerances has warned
            odeint_warns = getattr(sys.modules.get("scipy.integrate"), "ODEintWarning", ResourceWarning)
            warnings.filterwarnings("error", category=odeint_warns)  # its result is then no solution
            return function(*changed, **{**kwargs, **smaller})
    except GradcliError:
        raise
    except Exception:
        return None


_TO_THE_END = ("solve_ivp", "solve_bvp")  # what they return without success is no solution


@functools.lru_cache(maxsize=1)
def _folder_of_scipy() -> str:
    return str(Path(str(sys.modules["scipy"].__file__)).parent) + os.sep


@functools.lru_cache(maxsize=256)
def _cached_signature(original: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(original)


def arguments_by_name(original: Callable[..., Any], args: Any, kwargs: Any) -> dict[str, Any]:
    """Return the arguments of a call by name; those of `**options` are among them."""
    signature = _cached_signature(original)
    given = dict(signature.bind_partial(*args, **kwargs).arguments)
    rest = next((name for name, p in signature.parameters.items() if p.kind is p.VAR_KEYWORD), None)
    return {**given, **given.pop(rest, {})} if rest is not None else given


def _format_tolerance(x: Any) -> str:
    """Return the largest tolerance, such as 1e-8."""
    text = f"{float(np.max(np.asarray(x, dtype=float))):.3g}"
    return re.sub(r"e([-+])0+", lambda found: f"e{found[1]}".replace("+", ""), text)
