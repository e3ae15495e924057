"""Custom backward passes of products, solvers, sums and steps."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.linalg import cho_factor, cho_solve

from tests.frameworks.corpus.case import Case, Function, drawn


def with_vjp(f: Function, fwd: Function, bwd: Function) -> Function:
    """Return a function with a backward pass of its own."""
    made = jax.custom_vjp(f)
    made.defvjp(fwd, bwd)
    return made


def kept(f: Function) -> Function:
    """Return a fwd that keeps all inputs."""
    return lambda *xs: (f(*xs), xs)


def batched_matmul(a: Any, b: Any) -> Any:
    return a @ b


def batched_matmul_bwd(saved: Any, ybar: Any) -> Any:
    a, b = saved
    return ybar @ jnp.swapaxes(b, -1, -2), jnp.sum(jnp.swapaxes(a, -1, -2) @ ybar, axis=0)


def batched_matmul_not_transposed(saved: Any, ybar: Any) -> Any:
    a, b = saved
    return ybar @ b, jnp.sum(jnp.swapaxes(a, -1, -2) @ ybar, axis=0)


def batched_matmul_mean(saved: Any, ybar: Any) -> Any:
    a, b = saved
    return ybar @ jnp.swapaxes(b, -1, -2), jnp.mean(jnp.swapaxes(a, -1, -2) @ ybar, axis=0)


def outer(u: Any, v: Any) -> Any:
    return u[:, None] * v[None, :]


def outer_bwd(saved: Any, ybar: Any) -> Any:
    u, v = saved
    return ybar @ v, ybar.T @ u


def outer_transposed(saved: Any, ybar: Any) -> Any:
    u, v = saved
    return ybar.T @ v, ybar @ u


def bilinear(x: Any, a: Any, y: Any) -> Any:
    return x @ a @ y


def bilinear_bwd(saved: Any, zbar: Any) -> Any:
    x, a, y = saved
    return zbar * (a @ y), zbar * jnp.outer(x, y), zbar * (x @ a)


def bilinear_transposed(saved: Any, zbar: Any) -> Any:
    x, a, y = saved
    return zbar * (a.T @ y), zbar * jnp.outer(x, y), zbar * (a @ x)


def bilinear_other_outer(saved: Any, zbar: Any) -> Any:
    x, a, y = saved
    return zbar * (a @ y), zbar * jnp.outer(y, x), zbar * (x @ a)


def cholesky_solve(a: Any, b: Any) -> Any:
    return cho_solve(cho_factor((a + a.T) / 2), b)


def cholesky_solve_fwd(a: Any, b: Any) -> Any:
    factor = cho_factor((a + a.T) / 2)
    x = cho_solve(factor, b)
    return x, (factor[0], x)


def cholesky_solve_bwd(saved: Any, xbar: Any) -> Any:
    factor, x = saved
    bbar = cho_solve((factor, False), xbar)
    abar = -jnp.outer(bbar, x)
    return (abar + abar.T) / 2, bbar


def cholesky_solve_sign(saved: Any, xbar: Any) -> Any:
    abar, bbar = cholesky_solve_bwd(saved, xbar)
    return -abar, bbar


def cholesky_solve_one_sided(saved: Any, xbar: Any) -> Any:
    factor, x = saved
    bbar = cho_solve((factor, False), xbar)
    return -jnp.outer(bbar, x), bbar


def log_determinant(a: Any) -> Any:
    return jnp.linalg.slogdet(a)[1]


def log_determinant_bwd(saved: Any, ybar: Any) -> Any:
    return (ybar * jnp.linalg.inv(saved[0]).T,)


def log_determinant_not_transposed(saved: Any, ybar: Any) -> Any:
    return (ybar * jnp.linalg.inv(saved[0]),)


def cumulative_sum(x: Any) -> Any:
    return jnp.cumsum(x)


def cumulative_sum_bwd(saved: Any, ybar: Any) -> Any:
    return (jnp.cumsum(ybar[::-1])[::-1],)


def cumulative_sum_forward(saved: Any, ybar: Any) -> Any:
    return (jnp.cumsum(ybar),)


def cumulative_sum_exclusive(saved: Any, ybar: Any) -> Any:
    return (jnp.cumsum(ybar[::-1])[::-1] - ybar,)


def polynomial(coefficients: Any, x: Any) -> Any:
    y = jnp.zeros_like(x)
    for c in coefficients[::-1]:
        y = y * x + c
    return y


def polynomial_bwd(saved: Any, ybar: Any) -> Any:
    coefficients, x = saved
    powers = jnp.arange(coefficients.shape[0])
    slope = sum(k * coefficients[k] * x ** (k - 1) for k in range(1, coefficients.shape[0]))
    return jnp.sum(ybar * x ** powers[:, None], axis=1), ybar * slope


def polynomial_off_by_one(saved: Any, ybar: Any) -> Any:
    coefficients, x = saved
    slope = sum((k + 1) * coefficients[k] * x**k for k in range(coefficients.shape[0] - 1))
    return polynomial_bwd(saved, ybar)[0], ybar * slope


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


SPD = drawn(3, 3) @ drawn(3, 3).T + 2 * np.eye(3)
MATRICES = (
    case("batched_matmul", batched_matmul, kept(batched_matmul), batched_matmul_bwd,
         {"b is not transposed": batched_matmul_not_transposed, "a mean over the batch for a sum": batched_matmul_mean},
         a=drawn(2, 3, 3), b=drawn(3, 3)),
    case("outer", outer, kept(outer), outer_bwd, {"the cotangent is transposed": outer_transposed}, u=drawn(3), v=drawn(3, low=-1.0)),
    case("bilinear", bilinear, kept(bilinear), bilinear_bwd,
         {"a is transposed": bilinear_transposed, "the outer product is transposed": bilinear_other_outer},
         x=drawn(3), a=drawn(3, 3), y=drawn(3, high=1.0)),
    case("cholesky_solve", cholesky_solve, cholesky_solve_fwd, cholesky_solve_bwd,
         {"the sign of a's gradient": cholesky_solve_sign, "a's gradient is not symmetric": cholesky_solve_one_sided},
         a=SPD, b=drawn(3)),
    case("log_determinant", log_determinant, kept(log_determinant), log_determinant_bwd,
         {"the inverse is not transposed": log_determinant_not_transposed}, a=drawn(3, 3) + 2 * np.eye(3)),
    case("cumulative_sum", cumulative_sum, kept(cumulative_sum), cumulative_sum_bwd,
         {"summed from the front": cumulative_sum_forward, "without the entry itself": cumulative_sum_exclusive}, x=drawn(5)),
    case("polynomial", polynomial, kept(polynomial), polynomial_bwd,
         {"the powers are off by one": polynomial_off_by_one}, coefficients=drawn(4), x=drawn(3)),
    case("fixed_point", fixed_point, fixed_point_fwd, fixed_point_bwd,
         {"as if there were one step": fixed_point_one_step, "eight terms of the series": fixed_point_few_terms, "w is not transposed": fixed_point_not_transposed},
         w=drawn(3, 3) / 4, x=drawn(3)),
    case("heun_step", heun_step, kept(heun_step), heun_step_bwd,
         {"the second stage's way through the first": heun_step_second_stage, "h inside the second stage": heun_step_h},
         s=drawn(2), h=np.float64(0.3)),
)  # fmt: skip
