"""torch and JAX code whose gradient is right and was called wrong or left open; a planted mistake is made of each."""

import importlib
import inspect
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from torch.utils.checkpoint import checkpoint

_SLIP = 1.001  # by which the planted mistake multiplies the cotangent


@dataclass(frozen=True, slots=True)
class Case:
    """A target with its point; `package` is what has to be installed, and the verdict what it comes to."""

    name: str
    target: Callable[..., Any]
    at: Mapping[str, Any]
    options: Mapping[str, Any] = field(default_factory=dict)
    package: str = "torch"
    verdict: str = "pass"


X, Z, V = np.array([0.3, -0.8, 1.4]), np.array([0.4, 1.1, -0.6]), np.array([-0.5, 0.9, 0.2])


def _imported(name: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # packages warn of others that they use
        return importlib.import_module(name)


class Slip(torch.autograd.Function):
    """The identity with a backward pass that is off by a thousandth."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        return g * _SLIP


@jax.custom_vjp
def slip(x):
    return x


slip.defvjp(lambda x: (x, None), lambda _, g: (g * _SLIP,))


def slipped(case: Case) -> Callable[..., Any]:
    """Return the target with a gradient that is off by a thousandth."""
    target = case.target
    if isinstance(target, torch.nn.Module):
        return Slipped(target)
    wrong = slip if case.options.get("framework") == "jax" else Slip.apply

    def inside(*args, **kwargs):
        return wrong(target(*args, **kwargs))

    inside.__signature__ = inspect.signature(target)
    return inside


class Slipped(torch.nn.Module):
    """A module whose result has a backward pass that is off by a thousandth."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return Slip.apply(self.inner(x))


class PlainCheckpoint(torch.nn.Module):
    """A checkpoint of a function that uses a parameter."""

    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.tensor([0.5, -1.2, 0.8], dtype=torch.float64))

    def forward(self, x):
        return checkpoint(lambda x: torch.sin(x * self.w), x, use_reentrant=False).sum()


class LinearCheckpoint(torch.nn.Module):
    """A checkpoint of a layer."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(3, 3)

    def forward(self, x):
        return checkpoint(self.layer, x, use_reentrant=False).pow(2).sum()


class RunAgain(torch.autograd.Function):
    """Runs the module again on the way back, as reversible and implicit layers do."""

    @staticmethod
    def forward(ctx, module, x, *parameters):
        ctx.module = module
        ctx.save_for_backward(x)
        with torch.no_grad():
            return module.inside(x)

    @staticmethod
    def backward(ctx, g):
        with torch.enable_grad():
            x = ctx.saved_tensors[0].detach().requires_grad_()
            y = ctx.module.inside(x)
        return None, *torch.autograd.grad(y, (x, *ctx.module.parameters()), g)


class Reversible(torch.nn.Module):
    """A layer that keeps its input alone."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(3, 3)

    def inside(self, x):
        return torch.tanh(self.layer(x))

    def forward(self, x):
        return RunAgain.apply(self, x, *self.parameters()).sum()


class Flow(torch.nn.Module):
    """An ODE whose gradient is that of the adjoint equation: exact to the solver's tolerance."""

    class Field(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.layer = torch.nn.Linear(2, 2)

        def forward(self, t, y):
            return torch.tanh(self.layer(y))

    def __init__(self):
        super().__init__()
        self.field = self.Field()

    def forward(self, x):
        times = torch.linspace(0, 1, 12)
        return _imported("torchdiffeq").odeint_adjoint(self.field, x, times, method="rk4")[-1].sum()


def penalty(x, w):
    y = torch.sum(torch.sin(x * w))
    (g,) = torch.autograd.grad(y, x, create_graph=True)
    return (g.norm() - 1) ** 2


def adapted(w, x):
    inner = lambda w: torch.sum(torch.sin(w * x))
    return inner(w - 0.1 * torch.func.grad(inner)(w))


def adapted_by_hand(w, x):
    (g,) = torch.autograd.grad(torch.sum(torch.sin(w * x)), w, create_graph=True)
    return torch.sum(torch.sin((w - 0.1 * g) * x))


def taught(w, v, x):
    teacher = torch.tanh(v * x).detach()
    return torch.sum((torch.tanh(w * x) - teacher) ** 2) + torch.sum(v**2)


def taught_without_gradients(w, v, x):
    with torch.no_grad():
        teacher = 2 * torch.tanh(v * x)
    return torch.sum((torch.tanh(w * x) - teacher) ** 2) + torch.sum(v**2)


class Square(torch.autograd.Function):
    """A custom function whose forward switches gradients off itself."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        with torch.no_grad():
            return x * x

    @staticmethod
    def backward(ctx, g):
        return 2 * ctx.saved_tensors[0] * g


def taught_beside_a_custom_function(w, x):
    with torch.no_grad():
        first, *_ = torch.tanh(x).unbind()
    teacher = torch.tanh(x).detach()
    teacher.mul_(2)
    return torch.sum((Square.apply(w) - teacher) ** 2) + first * torch.sum(w)


def hard_gumbel(z, c):
    return torch.sum(torch.nn.functional.gumbel_softmax(z, hard=True) * c)


def hard_choice(z, c):
    soft = torch.softmax(z, -1)
    hard = torch.nn.functional.one_hot(soft.argmax(-1), 3).to(soft)
    return torch.sum((hard - soft.detach() + soft) * c)


def drawn(p, x):
    return torch.sum(torch.bernoulli(p) * x)


def sparse_weights(x):
    return torch.sum(_imported("entmax").normmax_bisect(x, alpha=2, n_iter=60) * torch.tensor([0.3, -0.7, 1.1]))


def log_sum(x):
    return jax.nn.logsumexp(x)


def integer_labels(z):
    losses = _imported("optax")
    return jnp.sum(losses.softmax_cross_entropy_with_integer_labels(z, jnp.array([1, 0])))


def hubers(x):
    return jnp.sum(_imported("optax").huber_loss(x, jnp.zeros(3)))


def transported(x):
    return _imported("ott.math.utils").logsumexp(x)


def with_constant(x):
    scale = jnp.asarray(2.0)
    return jnp.sum(x * scale) if scale.ndim == 0 else jnp.sum(x)


def taught_in_jax(w, v, x):
    teacher = jax.lax.stop_gradient(jnp.tanh(v * x))
    return jnp.sum((jnp.tanh(w * x) - teacher) ** 2) + jnp.sum(v**2)


def hard_choice_in_jax(z, c):
    soft = jax.nn.softmax(z)
    hard = jax.nn.one_hot(jnp.argmax(z), 3)
    return jnp.sum((soft + jax.lax.stop_gradient(hard - soft)) * c)


def rounded_in_jax(x):
    return jnp.sum(jnp.round(x) ** 2)


TORCH, JAX = {"framework": "torch"}, {"framework": "jax"}
STOPS, PASSES = {"expect": "stop-gradient"}, {"expect": "straight-through"}
THREE = {"w": Z, "v": V, "x": X}
CASES = [
    Case("checkpoint with a parameter", PlainCheckpoint(), {"x": X}),
    Case("checkpoint with a layer", LinearCheckpoint(), {"x": np.stack([X, Z])}),
    Case("reversible layer", Reversible(), {"x": np.stack([X, Z])}),
    Case("adjoint of an ODE", Flow(), {"x": X[:2]}, {"rtol": 1e-6}, "torchdiffeq"),
    Case("gradient penalty", penalty, {"x": X, "w": Z}, TORCH),
    Case("inner step by torch.func", adapted, {"w": Z, "x": X}, TORCH),
    Case("inner step by autograd", adapted_by_hand, {"w": Z, "x": X}, TORCH),
    Case("teacher", taught, THREE, TORCH | STOPS),
    Case("teacher under no_grad", taught_without_gradients, THREE, TORCH | STOPS),
    Case("teacher beside a custom function", taught_beside_a_custom_function, {"w": Z, "x": X}, TORCH | STOPS),
    Case("hard gumbel", hard_gumbel, {"z": Z, "c": X}, TORCH | PASSES),
    Case("hard choice", hard_choice, {"z": Z, "c": X}, TORCH | PASSES),
    Case("draws", drawn, {"p": np.array([0.3, 0.5, 0.6]), "x": X}, TORCH, verdict="inconclusive"),
    Case("entmax", sparse_weights, {"x": X / 5}, TORCH, "entmax", "inconclusive"),  # comparisons of a bisection are close
    Case("logsumexp", log_sum, {"x": X}, JAX, "jax"),
    Case("integer labels", integer_labels, {"z": np.stack([X, Z])}, JAX, "optax"),
    Case("optax's huber", hubers, {"x": X}, JAX, "optax"),
    Case("ott's logsumexp", transported, {"x": X}, JAX, "ott"),
    Case("a constant's shape", with_constant, {"x": X}, JAX, "jax"),
    Case("teacher in JAX", taught_in_jax, THREE, JAX | STOPS, "jax"),
    Case("hard choice in JAX", hard_choice_in_jax, {"z": Z, "c": X}, JAX | PASSES, "jax"),
    Case("rounding in JAX", rounded_in_jax, {"x": X}, JAX, "jax", "inconclusive"),
]  # fmt: skip
