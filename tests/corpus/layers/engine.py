"""A small engine of scalars, as a lecture writes it."""

import math


class Scalar:
    def __init__(self, data, children=()):
        self.data, self.grad, self.children, self._backward = data, 0.0, children, lambda: None

    def __add__(self, other):
        other = other if isinstance(other, Scalar) else Scalar(other)
        out = Scalar(self.data + other.data, (self, other))

        def _backward():
            self.grad += out.grad
            other.grad += out.grad

        out._backward = _backward
        return out

    def __mul__(self, other):
        other = other if isinstance(other, Scalar) else Scalar(other)
        out = Scalar(self.data * other.data, (self, other))

        def _backward():
            self.grad += other.data * out.grad
            other.grad += self.data * out.grad

        out._backward = _backward
        return out

    def exp(self):
        out = Scalar(math.exp(self.data), (self,))

        def _backward():
            self.grad += out.data * out.grad

        out._backward = _backward
        return out

    __radd__, __rmul__ = __add__, __mul__

    def backward(self):
        order, seen = [], set()

        def visit(v):
            if v not in seen:
                seen.add(v)
                for child in v.children:
                    visit(child)
                order.append(v)

        visit(self)
        self.grad = 1.0
        for v in reversed(order):
            v._backward()


def loss(x, w):
    s = sum(a * b for a, b in zip(x, w, strict=True))
    return (s * s + x[0]).exp()


def plain(x, w):
    return x[0].data * 2.0


def square(x):
    return x * x
