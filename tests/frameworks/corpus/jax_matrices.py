"""Custom backward passes of products, solvers, sums and steps."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.frameworks.corpus.case import Case, Function, drawn


def with_vjp(f: Function, fwd: Function, bwd: Function) -> Function:
    """Return a function with a backward pass of its own."""
    made = jax.custom_vjp(f)
    made.defvjp(fwd, bwd)
    return made


def kept(f: Function) -> Function:
    """Return a fwd that keeps all inputs."""
    return lambda *xs: (f(*xs), xs)


def outer(u: Any, v: Any) -> Any:
    return u[:, None] * v[None, :]


STEPS = 60  # of an iteration that halves its error at least


def _towards(_: Any, state: Any) -> Any:  # no closure, which would be compiled at every call
    w, x, z = state
    return w, x, jnp.tanh(w @ z + x)


def fixed_point(w: Any, x: Any) -> Any:
    return lax.fori_loop(0, STEPS, _towards, (w, x, jnp.zeros_like(x)))[2]


def fixed_point_fwd(w: Any, x: Any) -> Any:
    z = fixed_point(w, x)
    return z, (w, z)


def fixed_point_bwd(saved: Any, zbar: Any) -> Any:
    w, z = saved
    slope = 1 - z**2
    u = jnp.linalg.solve(jnp.eye(z.size) - w.T * slope, zbar)
    return jnp.outer(u * slope, z), u * slope


def fixed_point_one_step(saved: Any, zbar: Any) -> Any:
    _, z = saved
    ubar = zbar * (1 - z**2)
    return jnp.outer(ubar, z), ubar


def fixed_point_few_terms(saved: Any, zbar: Any) -> Any:
    w, z = saved
    slope = 1 - z**2
    u = zbar
    for _ in range(8):
        u = zbar + w.T @ (slope * u)
    return jnp.outer(u * slope, z), u * slope


def fixed_point_not_transposed(saved: Any, zbar: Any) -> Any:
    w, z = saved
    slope = 1 - z**2
    u = jnp.linalg.solve(jnp.eye(z.size) - w * slope, zbar)
    return jnp.outer(u * slope, z), u * slope


def _pull(s: Any) -> Any:
    return jnp.stack([s[1], -jnp.sin(s[0])])


def _pull_slope(s: Any, ubar: Any) -> Any:
    return jnp.stack([-jnp.cos(s[0]) * ubar[1], ubar[0]])


def heun_step(s: Any, h: Any) -> Any:
    a = _pull(s)
    return s + h / 2 * (a + _pull(s + h * a))


def heun_step_bwd(saved: Any, ybar: Any) -> Any:
    s, h = saved
    a = _pull(s)
    inner = _pull_slope(s + h * a, h / 2 * ybar)
    sbar = ybar + inner + _pull_slope(s, h / 2 * ybar + h * inner)
    return sbar, jnp.sum(ybar * (a + _pull(s + h * a)) / 2) + jnp.sum(inner * a)


def heun_step_second_stage(saved: Any, ybar: Any) -> Any:
    s, h = saved
    a = _pull(s)
    inner = _pull_slope(s + h * a, h / 2 * ybar)
    sbar = ybar + inner + _pull_slope(s, h / 2 * ybar)
    return sbar, jnp.sum(ybar * (a + _pull(s + h * a)) / 2) + jnp.sum(inner * a)


def heun_step_h(saved: Any, ybar: Any) -> Any:
    s, h = saved
    a = _pull(s)
    return heun_step_bwd(saved, ybar)[0], jnp.sum(ybar * (a + _pull(s + h * a)) / 2)


def case(name: str, f: Function, fwd: Function, bwd: Function, wrong: dict[str, Function], **inputs: Any) -> Case:
    """Return a case whose versions differ in the backward pass alone."""
    return Case(name, with_vjp(f, fwd, bwd), {says: with_vjp(f, fwd, one) for says, one in wrong.items()}, inputs)


MATRICES = (
    case("fixed_point", fixed_point, fixed_point_fwd, fixed_point_bwd,
         {"as if there were one step": fixed_point_one_step, "eight terms of the series": fixed_point_few_terms, "w is not transposed": fixed_point_not_transposed},
         w=drawn(2, 2) / 4, x=drawn(2)),
    case("heun_step", heun_step, kept(heun_step), heun_step_bwd,
         {"the second stage's way through the first": heun_step_second_stage, "h inside the second stage": heun_step_h},
         s=drawn(2), h=np.float64(0.3)),
)  # fmt: skip
