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


def layer_norm(x: Any, w: Any, b: Any) -> tuple[Any, Any]:
    sigma = torch.sqrt(x.var(-1, correction=0, keepdim=True) + 1e-5)
    z = (x - x.mean(-1, keepdim=True)) / sigma
    return z * w + b, (z, sigma, w)


def layer_norm_bwd(s: Any, ybar: Any, centre: bool = True, width: bool = True, summed: bool = True) -> Any:
    z, sigma, w = s
    zbar = ybar * w
    mean = zbar.mean(-1, keepdim=True) if centre else 0.0
    along = z * (zbar * z).mean(-1, keepdim=True) if width else 0.0
    return (zbar - mean - along) / sigma, (ybar * z).sum(0) if summed else (ybar * z).mean(0), ybar.sum(0)


def rms_norm(x: Any, w: Any) -> tuple[Any, Any]:
    r = torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-6)
    return x / r * w, (x, r, w)


def rms_norm_bwd(s: Any, ybar: Any, power: int = 3) -> Any:
    x, r, w = s
    xbar = ybar * w / r - x * (ybar * w * x).mean(-1, keepdim=True) / r**power
    return xbar, (ybar * x / r).sum(0)


def softmax(x: Any) -> tuple[Any, Any]:
    p = torch.softmax(x, -1)
    return p, p


def softmax_bwd(p: Any, ybar: Any, axis: int = -1) -> Any:
    return p * (ybar - (ybar * p).sum(axis, keepdim=True))


def cross_entropy(z: Any, y: Any) -> tuple[Any, Any]:
    return -(torch.log_softmax(z, -1) * y).sum() / len(z), (torch.softmax(z, -1), y)


def conv1d(x: Any, k: Any) -> tuple[Any, Any]:
    return torch.nn.functional.conv1d(x[None, None], k[None, None])[0, 0], (x, k)


def conv1d_bwd(s: Any, ybar: Any, turned: bool = True) -> Any:
    x, k = s
    n = len(k) - 1
    padded = torch.nn.functional.pad(ybar, (n, n))
    kernel = k.flip(0) if turned else k
    xbar = torch.nn.functional.conv1d(padded[None, None], kernel[None, None])[0, 0]
    return xbar, torch.nn.functional.conv1d(x[None, None], ybar[None, None])[0, 0]


def attention(q: Any, k: Any, v: Any) -> tuple[Any, Any]:
    scale = q.shape[-1] ** -0.5
    p = torch.softmax(q @ k.mT * scale, -1)
    return p @ v, (q, k, v, p, scale)


def attention_bwd(s: Any, ybar: Any, scaled: bool = True, summed: bool = True) -> Any:
    q, k, v, p, scale = s
    pbar = ybar @ v.mT
    z = p * (pbar - (pbar * p).sum(-1, keepdim=True)) if summed else p * (1 - p) * pbar
    z = z * scale if scaled else z
    return z @ k, z.mT @ q, p.mT @ ybar


def embedding(table: Any, rows: Any) -> tuple[Any, Any]:
    return table[rows.long()], (table.shape, rows.long())


def embedding_bwd(s: Any, ybar: Any, adds: bool = True) -> Any:
    shape, rows = s
    bar = torch.zeros(shape, dtype=ybar.dtype)
    bar.index_put_((rows,), ybar, accumulate=adds)
    return bar, None


def batched(a: Any, b: Any) -> tuple[Any, Any]:
    return a @ b, (a, b)


def batched_bwd(s: Any, ybar: Any, summed: bool = True, turned: bool = True) -> Any:
    a, b = s
    bbar = a.mT @ ybar if turned else (ybar.mT @ a)
    return ybar @ b.mT, bbar.sum(0) if summed else bbar[0]


def logsumexp(x: Any) -> tuple[Any, Any]:
    y = torch.logsumexp(x, -1)
    return y, (x, y)


def cholesky_solve(a: Any, b: Any) -> tuple[Any, Any]:
    spd = a @ a.T + torch.eye(len(a), dtype=a.dtype)
    x = torch.cholesky_solve(b[:, None], torch.linalg.cholesky(spd))[:, 0]
    return x, (a, spd, x)


def cholesky_solve_bwd(s: Any, ybar: Any, both: bool = True, sign: float = -1.0) -> Any:
    a, spd, x = s
    bbar = torch.linalg.solve(spd, ybar)
    sbar = sign * torch.outer(bbar, x)
    return (sbar + sbar.T) @ a if both else 2 * sbar @ a, bbar


def gather(x: Any, rows: Any) -> tuple[Any, Any]:
    return x.gather(1, rows.long()), (x.shape, rows.long())


def gather_bwd(s: Any, ybar: Any, adds: bool = True) -> Any:
    bar = torch.zeros(s[0], dtype=ybar.dtype)
    return bar.scatter_add(1, s[1], ybar) if adds else bar.scatter(1, s[1], ybar), None


def gelu(x: Any) -> tuple[Any, Any]:
    return x * (1 + torch.erf(x / 2**0.5)) / 2, x


def gelu_bwd(x: Any, ybar: Any, width: float = 2.0) -> Any:
    return ybar * ((1 + torch.erf(x / 2**0.5)) / 2 + x * torch.exp(-x * x / width) / (2 * np.pi) ** 0.5)


C = float(np.sqrt(2 / np.pi))


def gelu_tanh(x: Any) -> tuple[Any, Any]:
    t = torch.tanh(C * (x + 0.044715 * x**3))
    return x * (1 + t) / 2, (x, t)


def gelu_tanh_bwd(s: Any, ybar: Any, third: float = 3.0) -> Any:
    x, t = s
    return ybar * ((1 + t) / 2 + x * (1 - t * t) * C * (1 + third * 0.044715 * x * x) / 2)


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


def huber(x: Any) -> tuple[Any, Any]:
    small = x.abs() <= 1
    return torch.where(small, x * x / 2, x.abs() - 0.5), (x, small)


def unit(x: Any) -> tuple[Any, Any]:
    n = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    return x / n, (x / n, n)


def cumulative(x: Any) -> tuple[Any, Any]:
    return torch.cumsum(x, -1), None


def outer(a: Any, b: Any) -> tuple[Any, Any]:
    return torch.outer(a, b), (a, b)


def quadratic(x: Any, a: Any) -> tuple[Any, Any]:
    return x @ a @ x, (x, a)


def determinant(a: Any) -> tuple[Any, Any]:
    d = torch.linalg.det(a)
    return d, (a, d)


def bias(x: Any, b: Any) -> tuple[Any, Any]:
    return x + b, b.shape


def pooled(x: Any) -> tuple[Any, Any]:
    y, at = x.view(len(x), -1, 2).max(-1)
    return y, (x.shape, at)


def pooled_bwd(s: Any, ybar: Any, other: bool = False) -> Any:
    bar = torch.zeros(s[0][0], s[0][1] // 2, 2, dtype=ybar.dtype)
    return bar.scatter(-1, (1 - s[1] if other else s[1])[..., None], ybar[..., None]).view(s[0])


MATRIX, TALL, WIDE, SQUARE = drawn(4, 5), drawn(6, 3), drawn(3, 6), drawn(4, 4)
ROWS = np.array([2, 0, 2, 1, 2])

CASES = [
    case("layer_norm", layer_norm, layer_norm_bwd, {"x": MATRIX, "w": drawn(5), "b": drawn(5, low=-1.0)},
         no_mean=lambda s, g: layer_norm_bwd(s, g, centre=False), no_width=lambda s, g: layer_norm_bwd(s, g, width=False),
         weights_averaged=lambda s, g: layer_norm_bwd(s, g, summed=False)),
    case("rms_norm", rms_norm, rms_norm_bwd, {"x": MATRIX, "w": drawn(5)}, power_of_r=lambda s, g: rms_norm_bwd(s, g, 2)),
    case("softmax", softmax, softmax_bwd, {"x": MATRIX}, wrong_axis=lambda p, g: softmax_bwd(p, g, 0),
         diagonal_only=lambda p, g: p * (1 - p) * g),
    case("cross_entropy", cross_entropy, lambda s, g: (g * (s[0] - s[1]) / len(s[0]), None),
         {"z": MATRIX, "y": np.eye(5)[[0, 3, 1, 1]].astype(int)}, no_batch=lambda s, g: (g * (s[0] - s[1]), None),
         no_cotangent=lambda s, g: ((s[0] - s[1]) / len(s[0]), None)),
    case("conv1d", conv1d, conv1d_bwd, {"x": drawn(9), "k": drawn(3)}, kernel_not_turned=lambda s, g: conv1d_bwd(s, g, False)),
    case("attention", attention, attention_bwd, {"q": drawn(4, 3), "k": drawn(5, 3), "v": drawn(5, 2)},
         no_scale=lambda s, g: attention_bwd(s, g, scaled=False), softmax_diagonal=lambda s, g: attention_bwd(s, g, summed=False)),
    case("embedding", embedding, embedding_bwd, {"table": TALL, "rows": ROWS}, overwrites=lambda s, g: embedding_bwd(s, g, False)),
    case("batched_product", batched, batched_bwd, {"a": drawn(2, 3, 3), "b": drawn(3, 3)},
         first_of_batch=lambda s, g: batched_bwd(s, g, summed=False), transposed=lambda s, g: batched_bwd(s, g, turned=False)),
    case("logsumexp", logsumexp, lambda s, g: g[:, None] * torch.exp(s[0] - s[1][:, None]), {"x": MATRIX},
         normalised_over_all=lambda s, g: g[:, None] * torch.softmax(s[0].flatten(), 0).view_as(s[0])),
    case("cholesky_solve", cholesky_solve, cholesky_solve_bwd, {"a": SQUARE, "b": drawn(4)},
         one_side=lambda s, g: cholesky_solve_bwd(s, g, both=False), sign=lambda s, g: cholesky_solve_bwd(s, g, sign=1.0)),
    case("gather", gather, gather_bwd, {"x": MATRIX, "rows": np.array([[0, 0, 4], [1, 2, 2], [3, 3, 3], [0, 1, 2]])},
         overwrites=lambda s, g: gather_bwd(s, g, False)),
    case("gelu", gelu, gelu_bwd, {"x": MATRIX}, width_of_density=lambda s, g: gelu_bwd(s, g, 1.0)),
    case("gelu_tanh", gelu_tanh, gelu_tanh_bwd, {"x": MATRIX}, cube=lambda s, g: gelu_tanh_bwd(s, g, 1.0)),
    case("silu", silu, lambda s, g: g * (s[1] + s[0] * s[1] * (1 - s[1])), {"x": MATRIX},
         only_sigmoid=lambda s, g: g * s[1], no_product=lambda s, g: g * (s[1] + s[1] * (1 - s[1]))),
    case("euler_steps", euler_steps, euler_steps_bwd, {"x": drawn(4), "a": SQUARE},
         state_not_carried=lambda s, g: euler_steps_bwd(s, g, keeps=False), next_state=lambda s, g: euler_steps_bwd(s, g, ahead=1)),
    case("round_through", round_through, lambda s, g: g, {"x": MATRIX}, ("straight-through",), doubled=lambda s, g: 2 * g),
    case("clip_through", clip_through, lambda s, g: g * (s.abs() <= 1), {"x": MATRIX}, ("straight-through",),
         sign_flipped=lambda s, g: -g * (s.abs() <= 1)),
    case("huber", huber, lambda s, g: g * torch.where(s[1], s[0], torch.sign(s[0])), {"x": 2 * MATRIX},
         no_sign=lambda s, g: g * torch.where(s[1], s[0], torch.ones_like(s[0]))),
    case("unit", unit, lambda s, g: (g - s[0] * (s[0] * g).sum(-1, keepdim=True)) / s[1], {"x": MATRIX},
         norm_taken_constant=lambda s, g: g / s[1], sum_over_all=lambda s, g: (g - s[0] * (s[0] * g).sum()) / s[1]),
    case("cumulative", cumulative, lambda s, g: g.flip(-1).cumsum(-1).flip(-1), {"x": MATRIX},
         not_turned=lambda s, g: g.cumsum(-1)),
    case("outer", outer, lambda s, g: (g @ s[1], g.T @ s[0]), {"a": drawn(4), "b": drawn(4, low=-1.0)},
         not_turned=lambda s, g: (g @ s[1], g @ s[0])),
    case("quadratic", quadratic, lambda s, g: (g * (s[1] + s[1].T) @ s[0], g * torch.outer(s[0], s[0])),
         {"x": drawn(4), "a": SQUARE}, symmetric_a=lambda s, g: (2 * g * s[1] @ s[0], g * torch.outer(s[0], s[0]))),
    case("determinant", determinant, lambda s, g: g * s[1] * torch.linalg.inv(s[0]).T, {"a": SQUARE},
         transposed=lambda s, g: g * s[1] * torch.linalg.inv(s[0])),
    case("bias", bias, lambda s, g: (g, g.sum(0)), {"x": MATRIX, "b": drawn(5)}, averaged=lambda s, g: (g, g.mean(0)),
         one_row=lambda s, g: (g, g[0])),
    case("pooled", pooled, pooled_bwd, {"x": drawn(3, 6)}, smaller_one=lambda s, g: pooled_bwd(s, g, True)),
]  # fmt: skip
