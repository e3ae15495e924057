"""Custom backward passes of activations and losses, some of them as forward rules."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import erf

from tests.frameworks.corpus.case import Case, Function, drawn
from tests.frameworks.corpus.jax_matrices import case, kept, with_vjp

C = np.sqrt(2 / np.pi)


def with_jvp(f: Function, rule: Function) -> Function:
    """Return a function with a forward rule of its own."""
    made = jax.custom_jvp(f)
    made.defjvp(rule)
    return made


def slope(f: Function, partial_of: Function) -> Function:
    """Return the forward rule of an elementwise function with this derivative."""
    return lambda xs, xdots: (f(*xs), partial_of(*xs) * xdots[0])


def _gelu_tanh(x: Any, third: float = 3.0, c: float = C) -> Any:
    t = jnp.tanh(c * (x + 0.044715 * x**3))
    return (1 + t) / 2 + x * (1 - t**2) * c * (1 + third * 0.044715 * x**2) / 2


def gelu_erf(x: Any) -> Any:
    return x * (1 + erf(x / np.sqrt(2))) / 2


def _gelu_erf(x: Any) -> Any:
    return (1 + erf(x / np.sqrt(2))) / 2 + x * jnp.exp(-(x**2) / 2) / np.sqrt(2 * np.pi)


def _gelu_erf_width(x: Any) -> Any:
    return (1 + erf(x / np.sqrt(2))) / 2 + x * jnp.exp(-(x**2)) / np.sqrt(2 * np.pi)


def softplus(x: Any) -> Any:
    return jnp.logaddexp(x, 0.0)


def sinc(x: Any) -> Any:
    return jnp.sin(x) / x


def _sinc(x: Any) -> Any:
    return (jnp.cos(x) - jnp.sin(x) / x) / x


def _sinc_no_quotient(x: Any) -> Any:
    return jnp.cos(x) / x - jnp.sin(x) / x


def log1mexp(x: Any) -> Any:
    return jnp.log(-jnp.expm1(-x))


def hypotenuse(x: Any, y: Any) -> Any:
    return jnp.sqrt(x**2 + y**2)


def hypotenuse_jvp(xs: Any, xdots: Any) -> Any:
    (x, y), (xdot, ydot) = xs, xdots
    r = hypotenuse(x, y)
    return r, (x * xdot + y * ydot) / r


def hypotenuse_jvp_one(xs: Any, xdots: Any) -> Any:
    (x, y), (xdot, ydot) = xs, xdots
    r = hypotenuse(x, y)
    return r, (x * xdot + x * ydot) / r


def clip(x: Any, low: Any, high: Any) -> Any:
    return jnp.minimum(jnp.maximum(x, low), high)


def clip_bwd(saved: Any, ybar: Any) -> Any:
    x, low, high = saved
    return (
        jnp.where((x > low) & (x < high), ybar, 0.0),
        jnp.sum(jnp.where(x <= low, ybar, 0.0)),
        jnp.sum(jnp.where(x >= high, ybar, 0.0)),
    )


def clip_one_side(saved: Any, ybar: Any) -> Any:
    x, _, high = saved
    _, lowbar, highbar = clip_bwd(saved, ybar)
    return jnp.where(x < high, ybar, 0.0), lowbar, highbar


def clip_ends_swapped(saved: Any, ybar: Any) -> Any:
    xbar, lowbar, highbar = clip_bwd(saved, ybar)
    return xbar, highbar, lowbar


DELTA = 0.7


def huber(x: Any, delta: float) -> Any:
    return jnp.sum(jnp.where(jnp.abs(x) < delta, x**2 / 2, delta * (jnp.abs(x) - delta / 2)))


def huber_with(bwd: Function) -> Function:
    """Return the function at one delta, which has no gradient."""
    made = jax.custom_vjp(huber, nondiff_argnums=(1,))
    made.defvjp(lambda x, delta: (huber(x, delta), x), bwd)
    return lambda x: made(x, DELTA)


def huber_bwd(delta: float, x: Any, ybar: Any) -> Any:
    return (ybar * jnp.clip(x, -delta, delta),)


def huber_unit(delta: float, x: Any, ybar: Any) -> Any:
    return (ybar * jnp.where(jnp.abs(x) < delta, x, jnp.sign(x)),)


def huber_no_sign(delta: float, x: Any, ybar: Any) -> Any:
    return (ybar * jnp.where(jnp.abs(x) < delta, x, delta),)


def logsumexp(x: Any) -> Any:
    top = jnp.max(x, axis=-1)
    return top + jnp.log(jnp.sum(jnp.exp(x - top[:, None]), axis=-1))


def logsumexp_fwd(x: Any) -> Any:
    y = logsumexp(x)
    return y, (x, y)


def logsumexp_bwd(saved: Any, ybar: Any) -> Any:
    x, y = saved
    return (ybar[:, None] * jnp.exp(x - y[:, None]),)


def logsumexp_wrong_rows(saved: Any, ybar: Any) -> Any:
    x, y = saved
    return (ybar[None, :] * jnp.exp(x - y[:, None]),)


def logsumexp_saved_top(x: Any) -> Any:
    return logsumexp(x), (x, jnp.max(x, axis=-1))


def weighted_error(x: Any, target: Any, weight: Any) -> Any:
    return jnp.mean(weight * (x - target) ** 2)


def weighted_error_bwd(saved: Any, ybar: Any) -> Any:
    x, target, weight = saved
    xbar = ybar * 2 * weight * (x - target) / x.size
    return xbar, -xbar, ybar * (x - target) ** 2 / x.size


def weighted_error_rows(saved: Any, ybar: Any) -> Any:
    return tuple(bar * saved[0].size / saved[0].shape[0] for bar in weighted_error_bwd(saved, ybar))


def weighted_error_target(saved: Any, ybar: Any) -> Any:
    xbar, _, weightbar = weighted_error_bwd(saved, ybar)
    return xbar, xbar, weightbar


LOGSUMEXP = Case(
    "logsumexp",
    with_vjp(logsumexp, logsumexp_fwd, logsumexp_bwd),
    {
        "the cotangent runs along the wrong axis": with_vjp(logsumexp, logsumexp_fwd, logsumexp_wrong_rows),
        "the maximum is saved, not the result": with_vjp(logsumexp, logsumexp_saved_top, logsumexp_bwd),
    },
    {"x": drawn(2, 2)},
)
HUBER = Case(
    "huber",
    huber_with(huber_bwd),
    {"1 for delta outside": huber_with(huber_unit), "the sign is lost outside": huber_with(huber_no_sign)},
    {"x": drawn(4)},
)


def forward_case(name: str, f: Function, partial_of: Function, wrong: dict[str, Function], **inputs: Any) -> Case:
    """Return a case of an elementwise function that states its derivative."""
    versions = {says: with_jvp(f, slope(f, one)) for says, one in wrong.items()}
    return Case(name, with_jvp(f, slope(f, partial_of)), versions, inputs)


SCALARS = (
    forward_case("gelu_erf", gelu_erf, _gelu_erf, {"exp(-x^2) for exp(-x^2/2)": _gelu_erf_width, "of the approximation by tanh": _gelu_tanh}, x=drawn(4)),
    forward_case("softplus", softplus, jax.nn.sigmoid, {"of -x": lambda x: jax.nn.sigmoid(-x)}, x=drawn(4)),
    forward_case("sinc", sinc, _sinc, {"not divided by x twice": _sinc_no_quotient}, x=drawn(4, low=0.3)),
    forward_case("log1mexp", log1mexp, lambda x: 1 / jnp.expm1(x), {"exp for expm1": lambda x: jnp.exp(-x)}, x=drawn(4, low=0.3)),
    Case("hypotenuse", with_jvp(hypotenuse, hypotenuse_jvp), {"x for y": with_jvp(hypotenuse, hypotenuse_jvp_one)},
         {"x": drawn(4), "y": drawn(4, low=0.2)}),
    case("clip", clip, kept(clip), clip_bwd,
         {"only from above": clip_one_side, "the ends are swapped": clip_ends_swapped},
         x=drawn(8), low=np.float64(-0.6), high=np.float64(0.4)),
    HUBER,
    LOGSUMEXP,
    case("weighted_error", weighted_error, kept(weighted_error), weighted_error_bwd,
         {"divided by the rows alone": weighted_error_rows, "the sign of the target's": weighted_error_target},
         x=drawn(2, 2), target=drawn(2, 2, low=-1.0), weight=drawn(2, 2, low=0.2)),
)  # fmt: skip
