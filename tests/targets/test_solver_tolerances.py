"""Which tolerances of scipy's solvers are made smaller: those of the method that scipy takes."""

from typing import Any

from gradcli.targets.solver_tolerances import _METHODS, SOLVERS
from tests.rows import for_rows

EDGES = [(0.0, 1.0)]
METHODS = [
    ({}, "bfgs"),
    ({"bounds": EDGES}, "l-bfgs-b"),
    ({"constraints": {"type": "eq"}}, "slsqp"),
    ({"bounds": EDGES, "constraints": {"type": "eq"}}, "slsqp"),
    ({"method": "Nelder-Mead"}, "nelder-mead"),
    ({"method": "trust-constr", "bounds": EDGES}, "trust-constr"),
]


@for_rows(("given", "method"), METHODS)
def test_a_minimizer_has_the_tolerances_of_the_method_that_scipy_takes(given: dict[str, Any], method: str) -> None:
    assert SOLVERS["optimize"]["minimize"].options(given) == _METHODS[method]


def test_a_method_of_the_users_has_none() -> None:
    assert SOLVERS["optimize"]["minimize"].options({"method": lambda *args: None}) == {}
