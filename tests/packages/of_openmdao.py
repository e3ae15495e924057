"""OpenMDAO: components with their partial derivatives, called as OpenMDAO calls them, or run as parts of a problem."""

import numpy as np
import openmdao.api as om
from openmdao.components.interp_util.interp_akima import abs_smooth_complex, dv_abs_smooth_complex
from openmdao.components.ks_comp import KSfunction
from openmdao.test_suite.components.branin import Branin
from openmdao.test_suite.components.paraboloid import Paraboloid

from tests.packages.cases import Case, after, negated, scaled

G = np.array([0.2, -0.4, 0.3])
A, B = np.array([[0.3, -1.2, 0.7]]), np.array([[1.1, 0.4, -0.6]])


def called(kind, out, inputs):
    """Return compute and compute_partials of a component of numbers as functions of its inputs."""
    component = kind()

    def f(*values):
        outputs = {}
        component.compute(dict(zip(inputs, values, strict=True)), outputs)
        return outputs[out]

    def claim(*values):
        partials = {}
        component.compute_partials(dict(zip(inputs, values, strict=True)), partials)
        return tuple(partials[out, name] for name in inputs)

    return f, claim


def run(component, out, inputs):
    """Return a component's output, and the derivatives that a problem makes of its partials, as functions of its inputs."""
    problem = om.Problem(reports=None)
    problem.model.add_subsystem("c", component, promotes=["*"])
    problem.setup()
    problem.final_setup()

    def moved(values):
        for name, x in zip(inputs, values, strict=True):
            problem[name] = x
        problem.run_model()

    def f(*values):
        moved(values)
        return problem[out].copy()

    def claim(*values):
        moved(values)
        found = problem.compute_totals(of=[out], wrt=list(inputs))
        shapes = [problem[out].shape + np.shape(x) for x in values]
        return tuple(found[out, name].reshape(shape) for name, shape in zip(inputs, shapes, strict=True))

    return f, claim


def each(mistake, claim, *more):
    """Return a claim of several inputs with a mistake in that of the last one."""
    return after(claim, lambda found, *_: (*found[:-1], mistake(lambda: found[-1], *more)()))


def aggregated(g):
    return KSfunction.compute(g, 5.0)[0, 0]


def aggregated_gradient(g):
    return KSfunction.derivatives(g, 5.0)[0][0]


def smooth(x):
    return abs_smooth_complex(x, 0.5)


def smooth_slope(x):
    return np.diag(dv_abs_smooth_complex(x, np.ones(1), 0.5)[1])


paraboloid, paraboloid_partials = called(Paraboloid, "f_xy", ("x", "y"))
branin, branin_partials = called(Branin, "f", ("x0", "x1"))
dot, dot_totals = run(om.DotProductComp(length=3), "c", ("a", "b"))
cross, cross_totals = run(om.CrossProductComp(), "c", ("a", "b"))
length, length_totals = run(om.VectorMagnitudeComp(length=3), "a_mag", ("a",))

CASES = [
    Case("KSfunction.derivatives", aggregated, (G,), aggregated_gradient, scaled(aggregated_gradient, 5), glue=4),
    Case("dv_abs_smooth_complex", smooth, (np.array([0.3]),), smooth_slope, negated(smooth_slope), "jac", glue=4),
    Case("Paraboloid.compute_partials", paraboloid, (1.3, -0.4), paraboloid_partials, each(scaled, paraboloid_partials, 0.5), glue=9),
    Case("Branin.compute_partials", branin, (1.3, -0.4), branin_partials, each(negated, branin_partials), glue=9),
    Case("DotProductComp", dot, (A, B), dot_totals, each(negated, dot_totals), "jac", glue=14, ended_by="problem[name] = x"),
    Case("CrossProductComp", cross, (A, B), cross_totals, each(negated, cross_totals), "jac", glue=14, ended_by="problem[name] = x"),
    Case("VectorMagnitudeComp", length, (A,), length_totals, lambda a: 2 * length_totals(a)[0], "jac", glue=14, ended_by="problem[name] = x"),
]  # fmt: skip
