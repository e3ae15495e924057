"""Custom backward passes in torch, each right and with mistakes that are easy to make."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from tests.frameworks.corpus.case import Case, drawn

Forward = Callable[..., tuple[Any, Any]]
Backward = Callable[[Any, Any], Any]


def custom(name: str, forward: Forward, backward: Backward) -> Callable[..., Any]:
    """Return a function with a backward pass of its own; `forward` returns the result and what is saved."""

    class Made(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *xs: Any) -> Any:
            y, ctx.saved = forward(*xs)
            return y

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx: Any, ybar: Any) -> Any:
            return backward(ctx.saved, ybar)

    Made.__name__ = name

    def function(*xs: Any) -> Any:
        return torch.sum(torch.sin(Made.apply(*xs)))

    function.__name__ = f"loss_of_{name}"
    return function


def case(
    name: str,
    forward: Forward,
    right: Backward,
    inputs: dict[str, Any],
    /,
    expect: tuple[str, ...] = (),
    **wrong: Backward,
) -> Case:
    """Return a case: the same forward with its right backward and with wrong ones, by what their author missed."""
    return Case(
        name, custom(name, forward, right), {said: custom(name, forward, b) for said, b in wrong.items()}, inputs, expect
    )  # fmt: skip


def softmax(x: Any) -> tuple[Any, Any]:
    p = torch.softmax(x, -1)
    return p, p


def softmax_bwd(p: Any, ybar: Any, axis: int = -1) -> Any:
    return p * (ybar - (ybar * p).sum(axis, keepdim=True))


def gather(x: Any, rows: Any) -> tuple[Any, Any]:
    return x.gather(1, rows.long()), (x.shape, rows.long())


def gather_bwd(s: Any, ybar: Any, adds: bool = True) -> Any:
    bar = torch.zeros(s[0], dtype=ybar.dtype)
    return bar.scatter_add(1, s[1], ybar) if adds else bar.scatter(1, s[1], ybar), None


C = float(np.sqrt(2 / np.pi))


def silu(x: Any) -> tuple[Any, Any]:
    s = torch.sigmoid(x)
    return x * s, (x, s)


def euler_steps(x: Any, a: Any) -> tuple[Any, Any]:
    states = [x]
    for _ in range(5):
        states.append(states[-1] + 0.1 * torch.tanh(a @ states[-1]))
    return states[-1], (states, a)


def euler_steps_bwd(s: Any, ybar: Any, keeps: bool = True, ahead: int = 0) -> Any:
    states, a = s
    abar = torch.zeros_like(a)
    for k in range(4, -1, -1):
        x = states[k + ahead]
        tbar = 0.1 * ybar * (1 - torch.tanh(a @ x) ** 2)
        abar = abar + torch.outer(tbar, x)
        ybar = ybar + a.T @ tbar if keeps else a.T @ tbar
    return ybar, abar


def round_through(x: Any) -> tuple[Any, Any]:
    return torch.round(x), x


def clip_through(x: Any) -> tuple[Any, Any]:
    return torch.sign(x), x


def outer(a: Any, b: Any) -> tuple[Any, Any]:
    return torch.outer(a, b), (a, b)


def quadratic(x: Any, a: Any) -> tuple[Any, Any]:
    return x @ a @ x, (x, a)


def determinant(a: Any) -> tuple[Any, Any]:
    d = torch.linalg.det(a)
    return d, (a, d)


def pooled(x: Any) -> tuple[Any, Any]:
    y, at = x.view(len(x), -1, 2).max(-1)
    return y, (x.shape, at)


def pooled_bwd(s: Any, ybar: Any, other: bool = False) -> Any:
    bar = torch.zeros(s[0][0], s[0][1] // 2, 2, dtype=ybar.dtype)
    return bar.scatter(-1, (1 - s[1] if other else s[1])[..., None], ybar[..., None]).view(s[0])


MATRIX, TALL, WIDE, SQUARE = drawn(4, 5), drawn(6, 3), drawn(3, 6), drawn(4, 4)
ROWS = np.array([2, 0, 2, 1, 2])

CASES = [
    case("softmax", softmax, softmax_bwd, {"x": MATRIX}, wrong_axis=lambda p, g: softmax_bwd(p, g, 0),
         diagonal_only=lambda p, g: p * (1 - p) * g),
    case("gather", gather, gather_bwd, {"x": MATRIX, "rows": np.array([[0, 0, 4], [1, 2, 2], [3, 3, 3], [0, 1, 2]])},
         overwrites=lambda s, g: gather_bwd(s, g, False)),
    case("silu", silu, lambda s, g: g * (s[1] + s[0] * s[1] * (1 - s[1])), {"x": MATRIX},
         only_sigmoid=lambda s, g: g * s[1], no_product=lambda s, g: g * (s[1] + s[1] * (1 - s[1]))),
    case("euler_steps", euler_steps, euler_steps_bwd, {"x": drawn(4), "a": SQUARE},
         state_not_carried=lambda s, g: euler_steps_bwd(s, g, keeps=False), next_state=lambda s, g: euler_steps_bwd(s, g, ahead=1)),
    case("round_through", round_through, lambda s, g: g, {"x": MATRIX}, ("straight-through",), doubled=lambda s, g: 2 * g),
    case("clip_through", clip_through, lambda s, g: g * (s.abs() <= 1), {"x": MATRIX}, ("straight-through",),
         sign_flipped=lambda s, g: -g * (s.abs() <= 1)),
    case("quadratic", quadratic, lambda s, g: (g * (s[1] + s[1].T) @ s[0], g * torch.outer(s[0], s[0])),
         {"x": drawn(4), "a": SQUARE}, symmetric_a=lambda s, g: (2 * g * s[1] @ s[0], g * torch.outer(s[0], s[0]))),
    case("determinant", determinant, lambda s, g: g * s[1] * torch.linalg.inv(s[0]).T, {"a": SQUARE},
         transposed=lambda s, g: g * s[1] * torch.linalg.inv(s[0])),
    case("pooled", pooled, pooled_bwd, {"x": drawn(3, 6)}, smaller_one=lambda s, g: pooled_bwd(s, g, True)),
]  # fmt: skip
