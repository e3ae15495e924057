"""Gradients that are passed to scipy, in every way that scipy takes them."""

from pathlib import Path

import pytest

from tests.project.discovery.reading import HEAD, found, names
from tests.rows import for_rows


@pytest.fixture(autouse=True)
def _inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


DEFINED = "def bowl(x): return x @ x\ndef slope(x): return 2 * x\ndef curve(x): return 2 * np.eye(2)\n"

# fmt: off
PASSED = {  # what is called: name, kind and function of what is found
    "minimize(bowl, x0, jac=slope)":                          ("slope", "grad", "bowl"),
    "minimize(bowl, x0, (), 'BFGS', slope)":                  ("slope", "grad", "bowl"),
    "minimize(bowl, x0, jac=slope if fast else None)":        ("slope", "grad", "bowl"),
    "minimize(bowl, x0, jac=functools.partial(slope))":       ("slope", "grad", "bowl"),
    "minimize(bowl, x0, jac=lambda x: slope(x))":             ("slope", "grad", "bowl"),
    "minimize(lambda x: x @ x, x0, jac=slope)":               ("slope", "grad", "<lambda>"),
    "minimize(bowl, x0, jac=lambda x: -2 * x)":               ("<lambda>", "grad", "bowl"),
    "minimize(bowl, x0, hess=curve)":                         ("curve", "hess", "bowl"),
    "minimize(bowl, x0, hessp=curve)":                        ("curve", "hvp", "bowl"),
    "minimize(slope, x0, jac=True)":                          ("slope", "value-and-grad", None),
    "minimize(bowl, x0, **dict(jac=slope))":                  ("slope", "grad", "bowl"),
    "minimize(bowl, x0, **{'jac': slope})":                   ("slope", "grad", "bowl"),
    "least_squares(slope, x0, jac=curve)":                    ("curve", "jac", "slope"),
    "least_squares(slope, x0, curve)":                        ("curve", "jac", "slope"),
    "newton(bowl, 1.0, slope)":                               ("slope", "grad", "bowl"),
    "newton(bowl, 1.0, fprime=slope)":                        ("slope", "grad", "bowl"),
    "newton(bowl, 1.0, fprime2=slope)":                       ("slope", "hess", "bowl"),
    "so.root(slope, x0, jac=curve)":                          ("curve", "jac", "slope"),
    "so.fmin_l_bfgs_b(bowl, x0, slope)":                      ("slope", "grad", "bowl"),
    "so.fmin_l_bfgs_b(bowl, x0)":                             ("bowl", "value-and-grad", None),
    "so.line_search(bowl, slope, x0, x0)":                    ("slope", "grad", "bowl"),
    "so.line_search(bowl, xk=x0, pk=x0, myfprime=slope)":     ("slope", "grad", "bowl"),
    "so.leastsq(slope, x0, Dfun=curve)":                      ("curve", "jac", "slope"),
    "scipy.integrate.odeint(slope, x0, t, Dfun=curve)":       ("curve", "jac", "slope"),
    "scipy.integrate.solve_ivp(slope, (0, 1), x0, jac=curve)": ("curve", "jac", "slope"),
    "solve_bvp(slope, bowl, t, x0, fun_jac=curve)":           ("curve", "jac", "slope"),
    "solve_bvp(slope, bowl, t, x0, bc_jac=curve)":            ("curve", "jac", "bowl"),
    "solve_bvp(slope, bowl, t, x0, None, None, None, curve)": ("curve", "jac", "bowl"),
    "solve_bvp(fun=slope, bc=bowl, x=t, y=x0, bc_jac=curve)": ("curve", "jac", "bowl"),
    "so.fmin_slsqp(bowl, x0, f_eqcons=slope, fprime_eqcons=curve)": ("curve", "jac", "slope"),
    "so.fmin_slsqp(bowl, x0, (), None, (), slope, (), None, None, curve)": ("curve", "jac", "slope"),
    "so.fmin_slsqp(bowl, x0, fprime_eqcons=curve)":           ("curve", "jac", None),
    "run({'type': 'eq', 'fun': slope, 'jac': curve})":        ("curve", "jac", "slope"),
    "so.basinhopping(bowl, x0, minimizer_kwargs={'jac': slope})": ("slope", "jac", None),
}
NOTHING = [
    "minimize(bowl, x0)",
    "minimize(bowl, x0, jac='2-point')",
    "minimize(bowl, x0, jac=None)",
    "minimize(bowl, x0, jac=False)",
    "minimize(bowl, x0, jac=given)",
    "minimize(bowl, x0, jac=problem.jac)",
    "minimize(bowl, x0, jac=jax.grad(bowl))",
    "minimize(so.rosen, x0, jac=so.rosen_der)",
    "other.minimize(bowl, x0, jac=slope)",
    "so.fmin_l_bfgs_b(bowl, x0, approx_grad=True)",
]
# fmt: on
IMPORTS = (
    HEAD
    + "import functools, jax, other, scipy.integrate, scipy.optimize as so\nfrom scipy.integrate import solve_bvp\n"
)


@for_rows("call", PASSED)
def test_what_is_passed_is_found(tmp_path: Path, call: str) -> None:
    text = IMPORTS + DEFINED + f"def fit(x0, t, given, problem, fast):\n    return {call}\n"
    name, kind, of = PASSED[call]
    whole = "fit.<lambda>"
    expected = (whole if name == "<lambda>" else name, kind, whole if of == "<lambda>" else of, "scipy")
    assert names(tmp_path, text) == [expected]


@for_rows("call", NOTHING)
def test_what_is_passed_through_or_differentiated_is_not_found(tmp_path: Path, call: str) -> None:
    text = IMPORTS + DEFINED + f"def fit(x0, t, given, problem, fast):\n    return {call}\n"
    assert names(tmp_path, text) == []


def test_one_that_is_passed_and_paired_counts_once(tmp_path: Path) -> None:
    text = HEAD + "def bowl(x): return x @ x\ndef bowl_grad(x): return 2 * x\nminimize(bowl, [1], jac=bowl_grad)\n"
    assert names(tmp_path, text) == [("bowl_grad", "grad", "bowl", "scipy")]


def test_names_are_followed_through_assignments_methods_and_files(tmp_path: Path) -> None:
    files = {
        "losses.py": "def slope(x): return 2 * x\n",
        "fits.py": HEAD + "from losses import slope as s\nimport losses\ng = s\n"
        "class Fit:\n    def bent(self, x): return x * 3\n    def run(self, x0):\n"
        "        h = lambda x: x * 4\n        minimize(sum, x0, jac=self.bent)\n        minimize(sum, x0, jac=h)\n"
        "        minimize(sum, x0, jac=losses.slope)\n        return minimize(sum, x0, jac=g)\n",
    }
    assert [(g["file"], g["name"]) for g in found(tmp_path, files)] == [
        ("fits.py", "Fit.bent"), ("fits.py", "Fit.run.h"), ("losses.py", "slope"),
    ]  # fmt: skip


def test_a_star_import_of_scipy_is_followed(tmp_path: Path) -> None:
    text = "from scipy.optimize import *\ndef up(x): return 2 * x\nminimize(sum, [1], jac=up)\n"
    assert names(tmp_path, text) == [("up", "grad", None, "scipy")]
