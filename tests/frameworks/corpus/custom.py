"""How each framework gives a function a backward pass of its own, and where people have one: in the middle of a program."""

import functools
import importlib
import inspect
from collections.abc import Callable
from typing import Any

from tests.frameworks.corpus.arrays import xp
from tests.frameworks.corpus.case import Case, Function
from tests.frameworks.corpus.functions import CASES


def _tuple(bars: Any) -> tuple[Any, ...]:
    return tuple(bars) if isinstance(bars, tuple | list) else (bars,)


def in_torch(f: Function, rule: Function) -> Function:
    torch = importlib.import_module("torch")

    class Made(torch.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(ctx: Any, *xs: Any) -> Any:
            y = f(*xs)
            ctx.save_for_backward(y, *xs)
            return y

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx: Any, ybar: Any) -> Any:
            return _tuple(rule(ybar, *ctx.saved_tensors))

    Made.__name__ = f.__name__
    return functools.wraps(f)(lambda *xs: Made.apply(*xs))


def in_jax(f: Function, rule: Function) -> Function:
    made = importlib.import_module("jax").custom_vjp(f)

    def fwd(*xs: Any) -> Any:
        y = f(*xs)
        return y, (y, xs)

    made.defvjp(fwd, lambda saved, ybar: _tuple(rule(ybar, saved[0], *saved[1])))
    return made  # type: ignore[no-any-return]


def in_tensorflow(f: Function, rule: Function) -> Function:
    @functools.wraps(f)
    def ruled(*xs: Any) -> Any:
        y = f(*xs)
        return y, lambda ybar: rule(ybar, y, *xs)

    return importlib.import_module("tensorflow").custom_gradient(ruled)  # type: ignore[no-any-return]


def in_mlx(f: Function, rule: Function) -> Function:
    made = importlib.import_module("mlx.core").custom_function(f)
    made.vjp(lambda primals, ybar, y: rule(ybar, y, *_tuple(primals)))
    return made  # type: ignore[no-any-return]


WAYS: dict[str, Callable[[Function, Function], Function]] = {
    "torch": in_torch, "jax": in_jax, "tensorflow": in_tensorflow, "mlx": in_mlx,
}  # fmt: skip


def cases(framework: str) -> list[Case]:
    """Return the cases in a framework."""
    return [rules.case(WAYS[framework]) for rules in CASES]


def program(custom: Function, names: tuple[str, ...]) -> Function:
    """Return a loss of inputs of these names that has a custom function inside."""

    def loss(*args: Any) -> Any:
        y = custom(*args)
        rest = [xp.sum(xp.sigmoid(x)) for x in args if "float" in str(x.dtype)]
        return xp.sum(xp.sin(y) + 0.3 * y) + 0.1 * sum(rest[1:], start=rest[0])

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    loss.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in names])  # type: ignore[attr-defined]
    return loss
