"""Targets written in MLX, as users have them in a file."""

from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np


@mx.custom_function
def scaled_sine(x: Any, w: Any) -> Any:
    return mx.sin(x) * w


@scaled_sine.vjp
def scaled_sine_vjp(primals: Any, ybar: Any, y: Any) -> Any:
    x, w = primals
    return ybar * mx.cos(x) * w, mx.sum(ybar * mx.sin(x), axis=0)


@mx.custom_function
def without_weight(x: Any, w: Any) -> Any:
    return mx.sin(x) * w


@without_weight.vjp
def without_weight_vjp(primals: Any, ybar: Any, y: Any) -> Any:
    x, _ = primals
    return ybar * mx.cos(x), mx.sum(ybar * mx.sin(x), axis=0)


def answering(answer: Any) -> Any:
    """Return a loss with a custom function whose vjp rule answers so."""

    @mx.custom_function
    def product(x: Any, w: Any) -> Any:
        return x * w

    product.vjp(lambda primals, ybar, y: answer(ybar))
    return lambda x, w: mx.sum(product(x, w))


too_few = answering(lambda ybar: (ybar,))
nothing = answering(lambda ybar: None)
none_for_one = answering(lambda ybar: (ybar, None))
numbers = answering(lambda ybar: (ybar, 1.0))
scalar_for_array = answering(lambda ybar: (ybar, mx.sum(ybar)))
raising = answering(lambda ybar: {}["factor"])


def right(x: Any, w: Any) -> Any:
    return mx.sum(mx.tanh(scaled_sine(x, w)) ** 2)


def wrong(x: Any, w: Any) -> Any:
    return mx.sum(mx.tanh(scaled_sine(x, w) + without_weight(x, w)) ** 2)


def branching(x: Any) -> Any:
    return mx.sum(x**2) if mx.sum(x).item() > 0 else mx.sum(x**3)


def random(x: Any) -> Any:
    return mx.sum(x**2 * mx.random.normal(x.shape))


def integer(x: Any) -> Any:
    return mx.argmax(x)


def text(x: Any) -> Any:
    return "a text"


def mismatched(x: Any) -> Any:
    return mx.sum(x @ mx.ones((7, 3)))


def stopped(x: Any) -> Any:
    return mx.sum(mx.stop_gradient(x) * x)


def through_numpy(x: Any) -> Any:
    return mx.sum(mx.array(np.sin(np.array(x))))


@mx.custom_function
def square(x: Any) -> Any:
    return x * x


square.vjp(lambda x, ybar, y: ybar * 2.001 * x)


@mx.custom_function
def product(x: Any, ybar: Any) -> Any:
    return 2 * ybar * x


@product.vjp
def product_vjp(primals: Any, bar: Any, y: Any) -> Any:
    x, ybar = primals
    return 3 * bar * ybar, 2 * bar * x


@mx.custom_function
def square_wrong_twice(x: Any) -> Any:
    return x * x


square_wrong_twice.vjp(lambda x, ybar, y: product(x, ybar))


def wrong_twice(x: Any) -> Any:
    return mx.sum(square_wrong_twice(x) ** 2)


def slightly_wrong(x: Any) -> Any:
    return mx.sum(square(x))


def half_inside(x: Any) -> Any:
    return mx.sum(mx.sin(x.astype(mx.float16)).astype(mx.float32))


def sum_of_many(x: Any) -> Any:
    """Return a mean of so many terms that float32 loses digits in its sum."""
    return mx.mean(mx.sin(mx.tile(x, (1000, 1))))


class Net(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.layers = [nn.Linear(4, 5), nn.Linear(5, 2)]
        self.normed = nn.LayerNorm(5)

    def __call__(self, x: Any) -> Any:
        return mx.sum(self.layers[1](nn.gelu(self.normed(self.layers[0](x)))) ** 2)


class Sized(nn.Module):  # type: ignore[misc]
    def __init__(self, size: int) -> None:
        super().__init__()
        self.w = mx.ones(size)


def net() -> Any:
    return Net()
