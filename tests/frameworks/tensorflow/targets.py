"""Targets written in TensorFlow, as users have them in a file."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf


@tf.custom_gradient
def scaled_sine(x: Any, w: Any) -> Any:
    def grad(ybar: Any) -> Any:
        return ybar * tf.cos(x) * w, tf.reduce_sum(ybar * tf.sin(x), axis=0)

    return tf.sin(x) * w, grad


@tf.custom_gradient
def without_weight(x: Any, w: Any) -> Any:
    def grad(ybar: Any) -> Any:
        return ybar * tf.cos(x), tf.reduce_sum(ybar * tf.sin(x), axis=0)

    return tf.sin(x) * w, grad


def right(x: Any, w: Any) -> Any:
    return tf.reduce_sum(tf.tanh(scaled_sine(x, w)) ** 2)


def wrong(x: Any, w: Any) -> Any:
    return tf.reduce_sum(tf.tanh(scaled_sine(x, w) + without_weight(x, w)) ** 2)


@tf.function
def compiled(x: Any, w: Any) -> Any:
    return tf.reduce_sum(tf.tanh(without_weight(x, w)) ** 2)


def single(x: Any) -> Any:
    return tf.reduce_sum(tf.sin(x * tf.constant(2.0)))


def branching(x: Any) -> Any:
    return tf.reduce_sum(x**2) if tf.reduce_sum(x) > 0 else tf.reduce_sum(x**3)


def random(x: Any) -> Any:
    return tf.reduce_sum(x**2 * tf.random.normal(x.shape, dtype=x.dtype))


def integer(x: Any) -> Any:
    return tf.argmax(x)


def text(x: Any) -> Any:
    return "a text"


def mismatched(x: Any) -> Any:
    return tf.reduce_sum(x @ tf.ones((7, 3), x.dtype))


def stopped(x: Any) -> Any:
    return tf.reduce_sum(tf.stop_gradient(x) * x)


def through_numpy(x: Any) -> Any:
    return tf.reduce_sum(tf.constant(np.sin(x.numpy())))


@tf.custom_gradient
def square(x: Any) -> Any:
    return x * x, lambda ybar: ybar * 2.000001 * x


@tf.custom_gradient
def square_wrong_twice(x: Any) -> Any:
    @tf.custom_gradient
    def grad(x: Any, ybar: Any) -> Any:
        return 2 * ybar * x, lambda bar: (3 * bar * ybar, 2 * bar * x)

    return x * x, lambda ybar: grad(x, ybar)


def wrong_twice(x: Any) -> Any:
    return tf.reduce_sum(square_wrong_twice(x) ** 2)


def slightly_wrong(x: Any) -> Any:
    return tf.reduce_sum(square(x))


def single_inside(x: Any) -> Any:
    return tf.reduce_sum(tf.cast(tf.sin(tf.cast(x * 3, tf.float32)), tf.float64))


@tf.function
def loop(x: Any) -> Any:
    return tf.reduce_sum(tf.while_loop(lambda k, y: k < 5, lambda k, y: (k + 1, tf.sin(y) * 1.1), (0, x))[1])


def two_for_one(x: Any) -> Any:
    @tf.custom_gradient
    def double(a: Any) -> Any:
        return 2 * a, lambda ybar: (ybar, ybar)

    return tf.reduce_sum(double(x))


def scalar_for_array(x: Any) -> Any:
    @tf.custom_gradient
    def double(a: Any) -> Any:
        return 2 * a, lambda ybar: tf.reduce_sum(2 * ybar)

    return tf.reduce_sum(double(x))


def raising(x: Any) -> Any:
    @tf.custom_gradient
    def double(a: Any) -> Any:
        return 2 * a, lambda ybar: ybar * {}["factor"]

    return tf.reduce_sum(double(x))


class Net(tf.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = [tf.Variable(tf.random.normal((4, 3))), tf.Variable(tf.random.normal((3, 2)))]
        self.calls = tf.Variable(0.0, trainable=False)

    def __call__(self, x: Any) -> Any:
        self.calls.assign_add(1.0)
        for w in self.layers:
            x = tf.tanh(x @ w)
        return tf.reduce_sum(x**2)


class Model(keras.Model):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.hidden = keras.layers.Dense(5, activation="gelu")
        self.normed = keras.layers.LayerNormalization()

    def call(self, x: Any) -> Any:
        return tf.reduce_sum(self.normed(self.hidden(x)) ** 3)


class Sized(tf.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.w = tf.Variable(tf.ones(size))


def model() -> Any:
    made = Model()
    made(tf.ones((1, 4)))
    return made


def sequence() -> Any:
    return keras.Sequential([
        keras.Input((4,)), keras.layers.Dense(3, activation="tanh"), keras.layers.BatchNormalization(), keras.layers.Dense(1),
    ])  # fmt: skip
