"""The functions of scipy that take a gradient, and how each calls it, as a table."""

import copy
import functools
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from gradcli.classes import dataclass
from gradcli.project.capture.definitions import definition_name
from gradcli.project.capture.recorder import Convention, GradientPair, Last, Recorder, note_last_call, record_calls
from gradcli.words import DerivativeKind


@dataclass(frozen=True, slots=True)
class Taken:
    """A parameter of a function of scipy that takes a derivative, and the parameter `of` that takes its function.

    `own` and `wrt` are as in a Pair; `of_own` is how many arguments scipy gives to the function. `joint` names the part of
    what the function returns that is the derivative, where the parameter is True, or is left out if it is `alone`.
    """

    name: str
    kind: DerivativeKind
    of: str
    convention: Convention = "plain"
    wrt: int = 0
    own: int = 1
    joint: int | None = None
    alone: bool = False


_MINIMIZED = (
    Taken("jac", "grad", "fun", joint=1), Taken("hess", "hess", "fun"), Taken("hessp", "hvp", "fun", "along", own=2),
)  # fmt: skip
_ODE = (Taken("jac", "jac", "fun", wrt=1, own=2),)
FUNCTIONS: Mapping[str, tuple[Taken, ...]] = {
    "scipy.optimize.minimize": _MINIMIZED,
    "scipy.optimize.basinhopping": _MINIMIZED,  # its own parameters are in `minimizer_kwargs`
    "scipy.optimize.dual_annealing": _MINIMIZED,
    "scipy.optimize.shgo": _MINIMIZED,
    "scipy.optimize.differential_evolution": (),  # constraints alone
    "scipy.optimize.least_squares": (Taken("jac", "jac", "fun"),),
    "scipy.optimize.leastsq": (Taken("Dfun", "jac", "func", "transposed"),),
    "scipy.optimize.root": (Taken("jac", "jac", "fun", "transposed", joint=1),),
    "scipy.optimize.fsolve": (Taken("fprime", "jac", "func", "transposed"),),
    "scipy.optimize.newton": (
        Taken("fprime", "grad", "func", "elementwise"), Taken("fprime2", "hess", "func", "elementwise"),
    ),
    "scipy.optimize.root_scalar": (
        Taken("fprime", "grad", "f", "elementwise", joint=1), Taken("fprime2", "hess", "f", "elementwise", joint=2),
    ),
    "scipy.optimize.curve_fit": (Taken("jac", "jac", "f", "curve", wrt=1),),
    "scipy.optimize.fmin_bfgs": (Taken("fprime", "grad", "f"),),
    "scipy.optimize.fmin_cg": (Taken("fprime", "grad", "f"),),
    "scipy.optimize.fmin_ncg": (
        Taken("fprime", "grad", "f"), Taken("fhess_p", "hvp", "f", "along", own=2), Taken("fhess", "hess", "f"),
    ),
    "scipy.optimize.fmin_l_bfgs_b": (Taken("fprime", "grad", "func", joint=1, alone=True),),
    "scipy.optimize.fmin_tnc": (Taken("fprime", "grad", "func", joint=1, alone=True),),
    "scipy.optimize.fmin_slsqp": (
        Taken("fprime", "grad", "func"), Taken("fprime_eqcons", "jac", "f_eqcons"),
        Taken("fprime_ieqcons", "jac", "f_ieqcons"),
    ),
    "scipy.optimize.line_search": (Taken("myfprime", "grad", "f"),),
    "scipy.optimize.check_grad": (Taken("grad", "grad", "func"),),
    "scipy.integrate.solve_ivp": _ODE,
    "scipy.integrate.odeint": (Taken("Dfun", "jac", "func", "transposed", own=2),),
    "scipy.integrate.solve_bvp": (
        Taken("fun_jac", "jac", "fun", "mesh", wrt=1, own=3), Taken("bc_jac", "jac", "bc", "ends", own=3),
    ),
    "scipy.integrate.ode.__init__": (Taken("jac", "jac", "f", wrt=1, own=2),),
    "scipy.integrate.BDF.__init__": _ODE,
    "scipy.integrate.Radau.__init__": _ODE,
    "scipy.integrate.LSODA.__init__": _ODE,
}  # fmt: skip
_NESTED = {"minimizer_kwargs": "func", "options": "func"}  # dictionaries that hold derivatives of another parameter
MODULES = ("scipy.optimize", "scipy.integrate")


def replacements(recorder: Recorder, module: str) -> Iterator[tuple[Any, str, Callable[..., Any]]]:
    """Yield the object that holds each function of a module of scipy, its name there, and what replaces it."""
    for whole, taken in FUNCTIONS.items():
        inside = whole.removeprefix(f"{module}.")
        if inside == whole:
            continue
        *path, name = inside.split(".")
        holder: Any = sys.modules[module]
        for part in path:
            holder = getattr(holder, part, None)
        original = getattr(holder, name, None)
        if original is not None:
            replacement = _recording_function(recorder, original, taken)
            replacement.__module__, replacement.__qualname__ = module, inside  # by which pickle finds it
            yield holder, name, replacement


def _recording_function(
    recorder: Recorder, original: Callable[..., Any], taken: tuple[Taken, ...]
) -> Callable[..., Any]:
    """Return a function of scipy that records the gradients that it is given, and does what it did."""
    signature = inspect.signature(original)
    others = next((p.name for p in signature.parameters.values() if p.kind is p.VAR_KEYWORD), "")

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        caller = sys._getframe(1)
        if not recorder.is_on or str(caller.f_globals.get("__name__", "")).startswith("scipy."):
            return original(*args, **kwargs)  # one function of scipy calls another
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError:
            return original(*args, **kwargs)  # scipy says what is wrong
        further = bound.arguments.pop(others, {})  # such as the options of solve_ivp, of which jac is one
        flat = {**bound.arguments, **further}
        try:
            _Given(recorder, flat, (caller.f_code.co_filename, caller.f_lineno)).replace(taken)
        except Exception:  # whatever the user's objects raise: the call is not watched
            return original(*args, **kwargs)
        bound.arguments.update((name, flat[name]) for name in bound.arguments)
        return original(*bound.args, **bound.kwargs, **{name: flat[name] for name in further})

    return call


class _Given:
    """The arguments of one call of scipy, in which gradients are replaced."""

    def __init__(self, recorder: Recorder, arguments: dict[str, Any], at: tuple[str, int]) -> None:
        self._recorder, self._arguments, self._at = recorder, arguments, at

    def replace(self, taken: tuple[Taken, ...]) -> None:
        """Replace the gradients, and the functions that they belong to, by ones that record their calls."""
        arguments = self._arguments
        self._replace_gradients(arguments, taken)
        for name, of in _NESTED.items():
            if isinstance(arguments.get(name), dict) and of in arguments:
                inside = {**arguments[name], "fun": arguments[of]}
                self._replace_gradients(inside, taken)
                arguments[of] = inside.pop("fun")
                if "constraints" in inside:
                    inside["constraints"] = self._record_constraints(inside["constraints"])
                arguments[name] = inside
        if "constraints" in arguments:
            arguments["constraints"] = self._record_constraints(arguments["constraints"])

    def _replace_gradients(self, arguments: dict[str, Any], taken: tuple[Taken, ...]) -> None:
        functions: dict[str, tuple[Any, Last]] = {}
        for each in taken:
            function, gradient = arguments.get(each.of), arguments.get(each.name)
            if not callable(function):
                continue
            plain, last = functions.setdefault(each.of, (function, Last()))
            joint = gradient is True or (each.alone and gradient is None and not arguments.get("approx_grad"))
            recorder, options, at = self._recorder, self._options_of_gradient(each), self._at
            if joint and each.joint is not None:
                pair = GradientPair(
                    each.kind, plain, plain, each.convention, each.wrt, each.own, True, each.joint, options
                )
                recorded = recorder.recorded(plain, each.kind, None)
                if recorded is not None:
                    arguments[each.of] = record_calls(recorded, pair, Last(), at, arguments[each.of])
            elif callable(gradient) and not isinstance(gradient, type):
                more = any(arguments.get(other.name) is True for other in taken if other.of == each.of)  # beside values
                wrt = 1 if options.get("tfirst") else each.wrt
                pair = GradientPair(each.kind, plain, gradient, each.convention, wrt, each.own, more, None, options)
                recorded = recorder.recorded(gradient, each.kind, definition_name(plain))
                if recorded is None:
                    continue
                if arguments[each.of] is plain and not more:
                    arguments[each.of] = note_last_call(plain, last, wrt)
                arguments[each.name] = record_calls(recorded, pair, last, at, gradient)

    def _options_of_gradient(self, each: Taken) -> dict[str, Any]:
        """Return the options of scipy that say what the gradient returns, or takes."""
        more = self._arguments.get("options")
        known = {**(more if isinstance(more, dict) else {}), **self._arguments}
        found = {name: bool(known[name]) for name in ("col_deriv", "tfirst") if known.get(name)}
        with_parameters = known.get("p") is not None and each.convention in ("mesh", "ends")
        return found | ({"parameters": True} if with_parameters else {})

    def _record_constraints(self, given: Any) -> Any:
        """Return constraints that record their derivatives: dictionaries, and objects with a function `fun`."""
        if isinstance(given, list | tuple):
            return type(given)([self._record_constraints(each) for each in given])
        taken = (Taken("jac", "jac", "fun"), Taken("hess", "hess", "fun", "weighted", own=2))
        if isinstance(given, dict):
            inside = dict(given)
            self._replace_gradients(inside, taken)
            return inside
        if callable(getattr(given, "fun", None)) and hasattr(given, "jac"):
            inside = dict(vars(given))
            self._replace_gradients(inside, taken)
            given = copy.copy(given)
            vars(given).update(inside)
        return given
