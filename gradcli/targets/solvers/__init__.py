"""scipy's solvers: what they return as the solution of an equation, differentiated by the rule for solutions.

`integrate` has differential equations and integrals, `optimize` roots and minima, `polynomial` numpy's roots. Their
derivatives are not those of the solver's steps but those of the solution, to the solver's own error, which is estimated by
the equation's residual. They use the stand-ins that are in place while tracing, and so add theirs here, not there.
"""

from collections.abc import Callable, Mapping
from typing import Any

from gradcli.rules import scipy as of_scipy
from gradcli.targets import numpy_replacements
from gradcli.tracing.primitive import Value


def _integrate_functions() -> Mapping[str, Callable[..., Any]]:
    from gradcli.targets.solvers import integrate

    return integrate.FUNCTIONS


def _optimize_functions() -> Mapping[str, Callable[..., Any]]:
    from gradcli.targets.solvers import optimize

    return optimize.FUNCTIONS


def _replace_roots(p: Value) -> Value:
    from gradcli.targets.solvers import optimize

    return optimize.roots(p)


of_scipy.SOLVERS.update(integrate=_integrate_functions, optimize=_optimize_functions)
numpy_replacements.SOLVED["roots"] = _replace_roots
