"""Gradients given to scipy, in every way that it takes one: the right ones pass, and the wrong ones fail."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy import integrate, optimize

from gradcli.project.capture.session import FUNCTIONS
from tests.project.capture.watching import used, verdicts

A = np.array([[3.0, 0.5], [0.5, 2.0]])
B = np.array([1.0, -2.0])
START = np.array([0.7, -0.4])
T = np.linspace(0.1, 2.0, 12)
CURVE = 2.0 * np.exp(-1.3 * T) + 0.5


def bowl(x: Any, scale: float = 1.0) -> Any:
    return scale * (0.5 * x @ A @ x + 0.1 * np.sum(x**4) - B @ x)


def slope(x: Any, scale: float = 1.0) -> Any:
    return scale * (A @ x + 0.4 * x**3 - B)


def bend(x: Any, scale: float = 1.0) -> Any:
    return scale * (A + np.diag(1.2 * x**2))


def both(x: Any) -> Any:
    return bowl(x), slope(x)


def bend_along(x: Any, p: Any) -> Any:
    return bend(x) @ p


def residuals(x: Any) -> Any:
    return np.array([10.0 * (x[1] - x[0] ** 2), 1.0 - x[0], x[0] * x[1]])


def residuals_jac(x: Any) -> Any:
    return np.array([[-20.0 * x[0], 10.0], [-1.0, 0.0], [x[1], x[0]]])


def residuals_columns(x: Any) -> Any:
    return residuals_jac(x).T


def system(x: Any) -> Any:
    return np.array([x[0] ** 2 + x[1] - 1.0, x[0] - x[1] ** 3])


def system_jac(x: Any) -> Any:
    return np.array([[2.0 * x[0], 1.0], [1.0, -3.0 * x[1] ** 2]])


def system_and_jac(x: Any) -> Any:
    return system(x), system_jac(x)


def cubic(x: Any, a: float = 2.0) -> Any:
    return x**3 - a


def cubic_slope(x: Any, a: float = 2.0) -> Any:
    return 3 * x**2


def cubic_bend(x: Any, a: float = 2.0) -> Any:
    return 6 * x


def cubic_all(x: Any) -> Any:
    return cubic(x), cubic_slope(x), cubic_bend(x)


def decay(t: Any, a: Any, k: Any, c: Any) -> Any:
    return a * np.exp(-k * t) + c


def decay_jac(t: Any, a: Any, k: Any, c: Any) -> Any:
    e = np.exp(-k * t)
    return np.stack([e, -a * t * e, np.ones_like(t)], axis=1)


def flow(t: Any, y: Any) -> Any:
    return np.array([-500.0 * y[0] + y[1], -y[0] * y[1]])


def flow_jac(t: Any, y: Any) -> Any:
    return np.array([[-500.0, 1.0], [-y[1], -y[0]]])


def many_steps(solver: Any) -> None:
    while solver.status == "running":
        solver.step()


def flow_of_y(y: Any, t: Any) -> Any:
    return flow(t, y)


def flow_of_y_jac(y: Any, t: Any) -> Any:
    return flow_jac(t, y)


def layer(x: Any, y: Any) -> Any:
    return np.vstack([y[1], np.exp(y[0])])


def layer_jac(x: Any, y: Any) -> Any:
    J = np.zeros((2, 2, x.size))
    J[0, 1] = 1.0
    J[1, 0] = np.exp(y[0])
    return J


def edges(ya: Any, yb: Any) -> Any:
    return np.array([ya[0] + 0.1 * ya[0] ** 2 - 0.1, yb[0]])


def edges_jac(ya: Any, yb: Any) -> Any:
    return np.array([[1.0 + 0.2 * ya[0], 0.0], [0.0, 0.0]]), np.array([[0.0, 0.0], [1.0, 0.0]])


def ring(x: Any) -> Any:
    return x @ x - 0.5


def ring_jac(x: Any) -> Any:
    return 2 * x


def ring_bend(x: Any, v: Any) -> Any:
    return 2 * v[0] * np.eye(2)


Derivative = Callable[..., Any]
Given = Callable[[Derivative], Any]  # calls scipy with a derivative
CASES: dict[str, tuple[Derivative, Given]] = {
    "minimize jac": (slope, lambda g: optimize.minimize(bowl, START, jac=g, method="BFGS")),
    "minimize by position": (slope, lambda g: optimize.minimize(bowl, START, (1.5,), "BFGS", g)),
    "minimize jac=True": (both, lambda g: optimize.minimize(g, START, jac=True, method="BFGS")),
    "minimize hess": (bend, lambda g: optimize.minimize(bowl, START, jac=slope, hess=g, method="Newton-CG")),
    "minimize hess beside jac=True": (bend, lambda g: optimize.minimize(both, START, jac=True, hess=g, method="trust-exact")),
    "minimize hessp": (bend_along, lambda g: optimize.minimize(bowl, START, jac=slope, hessp=g, method="Newton-CG")),
    "minimize constraints": (ring_jac, lambda g: optimize.minimize(
        bowl, START, jac=slope, method="SLSQP", constraints={"type": "ineq", "fun": ring, "jac": g})),
    "minimize constraint object": (ring_jac, lambda g: optimize.minimize(
        bowl, START, jac=slope, method="SLSQP", constraints=[optimize.NonlinearConstraint(ring, 0.0, 9.0, jac=g)])),
    "minimize constraint hess": (ring_bend, lambda g: optimize.minimize(
        bowl, START, jac=slope, hess=bend, method="trust-constr", options={"maxiter": 5},
        constraints=optimize.NonlinearConstraint(ring, 0.0, 9.0, jac=ring_jac, hess=g))),
    "basinhopping": (slope, lambda g: optimize.basinhopping(bowl, START, 2, minimizer_kwargs={"jac": g}, rng=0)),
    "dual_annealing": (slope, lambda g: optimize.dual_annealing(
        bowl, [(-1, 1)] * 2, maxiter=2, rng=0, minimizer_kwargs={"jac": g, "method": "L-BFGS-B"})),
    "shgo": (slope, lambda g: optimize.shgo(bowl, [(-1, 1)] * 2, options={"jac": g})),
    "differential_evolution": (ring_jac, lambda g: optimize.differential_evolution(
        bowl, [(-1, 1)] * 2, maxiter=1, popsize=2, rng=0,
        constraints=optimize.NonlinearConstraint(ring, -9.0, 9.0, jac=g))),
    "least_squares": (residuals_jac, lambda g: optimize.least_squares(residuals, START, jac=g)),
    "leastsq": (residuals_jac, lambda g: optimize.leastsq(residuals, START, Dfun=g)),
    "leastsq col_deriv": (residuals_columns, lambda g: optimize.leastsq(residuals, START, Dfun=g, col_deriv=True)),
    "root": (system_jac, lambda g: optimize.root(system, START, jac=g)),
    "root jac=True": (system_and_jac, lambda g: optimize.root(g, START, jac=True)),
    "fsolve": (system_jac, lambda g: optimize.fsolve(system, START, fprime=g)),
    "newton": (cubic_slope, lambda g: optimize.newton(cubic, 1.5, g)),
    "newton args": (cubic_slope, lambda g: optimize.newton(cubic, 1.5, fprime=g, args=(3.0,))),
    "newton of arrays": (cubic_slope, lambda g: optimize.newton(cubic, np.array([1.5, 2.0]), fprime=g)),
    "newton fprime2": (cubic_bend, lambda g: optimize.newton(cubic, 1.5, fprime=cubic_slope, fprime2=g)),
    "root_scalar": (cubic_slope, lambda g: optimize.root_scalar(cubic, x0=1.5, fprime=g)),
    "root_scalar fprime2=True": (cubic_all, lambda g: optimize.root_scalar(
        g, x0=1.5, fprime=True, fprime2=True, method="halley")),
    "curve_fit": (decay_jac, lambda g: optimize.curve_fit(decay, T, CURVE, p0=[1.0, 1.0, 0.1], jac=g)),
    "fmin_bfgs": (slope, lambda g: optimize.fmin_bfgs(bowl, START, g, disp=False)),
    "fmin_cg": (slope, lambda g: optimize.fmin_cg(bowl, START, g, disp=False)),
    "fmin_ncg": (bend, lambda g: optimize.fmin_ncg(bowl, START, slope, fhess=g, disp=False)),
    "fmin_l_bfgs_b": (slope, lambda g: optimize.fmin_l_bfgs_b(bowl, START, g)),
    "fmin_l_bfgs_b alone": (both, lambda g: optimize.fmin_l_bfgs_b(g, START)),
    "fmin_tnc": (slope, lambda g: optimize.fmin_tnc(bowl, START, g, disp=0)),
    "fmin_slsqp": (ring_jac, lambda g: optimize.fmin_slsqp(
        bowl, START, fprime=slope, f_ieqcons=ring, fprime_ieqcons=g, iprint=0)),
    "line_search": (slope, lambda g: optimize.line_search(bowl, g, START, -slope(START))),
    "check_grad": (slope, lambda g: optimize.check_grad(bowl, g, START)),
    "solve_ivp": (flow_jac, lambda g: integrate.solve_ivp(flow, (0, 1), [1.0, 0.5], method="Radau", jac=g)),
    "odeint": (flow_of_y_jac, lambda g: integrate.odeint(flow_of_y, [1.0, 0.5], [0.0, 1.0], Dfun=g)),
    "odeint tfirst": (flow_jac, lambda g: integrate.odeint(flow, [1.0, 0.5], [0.0, 1.0], Dfun=g, tfirst=True)),
    "solve_bvp": (layer_jac, lambda g: integrate.solve_bvp(layer, edges, np.linspace(0, 1, 5), np.zeros((2, 5)), fun_jac=g)),
    "solve_bvp edges": (edges_jac, lambda g: integrate.solve_bvp(
        layer, edges, np.linspace(0, 1, 5), np.full((2, 5), 0.3), bc_jac=g)),
    "ode": (flow_jac, lambda g: integrate.ode(flow, g).set_integrator("vode", method="bdf").set_initial_value([1.0, 0.5]).integrate(1)),
    "BDF": (flow_jac, lambda g: integrate.BDF(flow, 0.0, np.array([1.0, 0.5]), 1.0, jac=g).step()),
    "Radau": (flow_jac, lambda g: integrate.Radau(flow, 0.0, np.array([1.0, 0.5]), 1.0, jac=g).step()),
    "LSODA": (flow_jac, lambda g: many_steps(integrate.LSODA(flow, 0.0, np.array([1.0, 0.5]), 1.0, jac=g))),
}  # fmt: skip


def planted(right: Derivative) -> Derivative:
    """Return a derivative that is a little wrong in its first entry; the value beside it stays right."""

    def wrong(*args: Any) -> Any:
        y = right(*args)
        if right in (both, system_and_jac):
            return y[0], off(y[1])
        if right is cubic_all:
            return y[0], y[1], y[2] * 1.03
        return (off(y[0]), *y[1:]) if isinstance(y, tuple) else off(y)

    def off(y: Any) -> Any:
        y = np.array(y, dtype=float)
        y[(0,) * y.ndim] = y[(0,) * y.ndim] * 1.03 + 0.02
        return y

    return wrong


QUICK = ("odeint tfirst", "solve_ivp", "line_search")  # those of the default tests


@pytest.mark.filterwarnings("ignore")  # scipy warns of what a wrong gradient leads to
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in CASES]
)
def test_a_right_derivative_passes_and_a_wrong_one_fails(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gradcli.checks.check.with_causes", lambda verified, budget: verified.report)
    right, given = CASES[name]
    found = verdicts(lambda: given(right))
    assert found[right.__name__] == "pass"
    assert set(found.values()) == {"pass"}
    assert "fail" in [
        each.verdict for each in used(lambda: given(planted(right))).gradients if each.name.endswith("wrong")
    ]


def test_every_function_of_the_table_has_a_case() -> None:
    tried = {name.split()[0] for name in CASES}
    assert {name.removesuffix(".__init__").rpartition(".")[2] for name in FUNCTIONS} <= tried


class Model:
    def __init__(self, scale: float) -> None:
        self.scale = scale

    def value(self, x: Any) -> Any:
        return bowl(x, self.scale)

    def gradient(self, x: Any) -> Any:
        return slope(x, self.scale)

    def __call__(self, x: Any) -> Any:
        return bowl(x, self.scale)


def test_methods_of_several_objects_are_one_gradient_each_checked_with_its_own_function() -> None:
    def work() -> None:
        for scale in (1.0, 2.0, 3.0):
            model = Model(scale)
            optimize.minimize(model.value, START, jac=model.gradient)

    (found,) = used(work, keep=10).gradients
    assert (found.name, found.kind, found.of, found.verdict) == ("Model.gradient", "grad", "Model.value", "pass")
    assert found.calls >= found.checked > 3


def test_partials_lambdas_and_callable_objects_are_gradients() -> None:
    fun = partial(bowl, scale=2.0)
    assert verdicts(lambda: optimize.minimize(fun, START, jac=partial(slope, scale=2.0))) == {"slope": "pass"}
    assert verdicts(lambda: optimize.minimize(Model(2.0), START, jac=lambda x: slope(x, 2.0))) == {"<lambda>": "pass"}


def test_a_function_of_scipy_that_calls_another_is_one_call() -> None:
    found = used(lambda: optimize.curve_fit(decay, T, CURVE, p0=[1.0, 1.0, 0.1], jac=decay_jac))
    assert [each.name for each in found.gradients] == ["decay_jac"]


def test_a_search_inside_the_function_is_watched_too() -> None:
    def outer(x: Any) -> float:
        optimize.minimize(bowl, START, jac=slope, options={"maxiter": 1})
        return float(x[0] ** 2)

    def outer_slope(x: Any) -> Any:
        return np.array([2 * x[0]])

    names = {each.name for each in used(lambda: optimize.minimize(outer, [1.0], jac=outer_slope)).gradients}
    assert {name.rpartition(".")[2] for name in names} == {"slope", "outer_slope"}


def test_what_was_replaced_is_put_back() -> None:
    before = optimize.minimize, integrate.BDF.__init__, integrate.solve_ivp
    used(lambda: None)
    assert before == (optimize.minimize, integrate.BDF.__init__, integrate.solve_ivp)


def test_library_functions_and_those_outside_the_sources_are_left_out(tmp_path: Any) -> None:
    work = lambda: optimize.minimize(optimize.rosen, START, jac=optimize.rosen_der)
    assert used(work).gradients == ()
    assert [each.name for each in used(work, sources=["all"]).gradients] == ["rosen_der"]
    assert used(lambda: optimize.minimize(bowl, START, jac=slope), sources=[str(tmp_path)]).gradients == ()


def test_kept_values_stay_within_the_room() -> None:
    def work() -> None:
        for n in range(2, 40):
            optimize.minimize(
                lambda x: np.sum(x**2), np.ones(n * 100), jac=lambda x: 2 * x, method="CG", options={"maxiter": 1}
            )

    (found,) = used(work, keep_bytes=20_000).gradients
    assert any("could not be kept" in note for note in found.notes)
    assert sum(len(point.check.document["points"][0]["at"]["x"]) for point in found.points) * 8 < 20_000


def test_shapes_are_kept_apart() -> None:
    def work() -> None:
        for n in (2, 3, 4):
            optimize.minimize(lambda x: np.sum(x**4), np.ones(n), jac=lambda x: 4 * x**3)

    (found,) = used(work).gradients
    assert {len(point.check.document["points"][0]["at"]["x"]) for point in found.points} == {2, 3, 4}
