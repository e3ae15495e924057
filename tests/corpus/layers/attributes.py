"""Layers whose passes return nothing: `output` and `dinputs` hold what they computed; and losses that take their prediction."""

import numpy as np


class Dense:
    def __init__(self, inputs, neurons):
        self.weights = 0.1 * np.random.randn(inputs, neurons)
        self.biases = np.zeros((1, neurons))

    def forward(self, inputs):
        self.inputs = inputs
        self.output = np.dot(inputs, self.weights) + self.biases

    def backward(self, dvalues):
        self.dweights = np.dot(self.inputs.T, dvalues)
        self.dbiases = np.sum(dvalues, axis=0, keepdims=True)
        self.dinputs = np.dot(dvalues, self.weights.T)


class Rectified:
    def forward(self, inputs):
        self.inputs = inputs
        self.output = np.maximum(0, inputs)

    def backward(self, dvalues):
        self.dinputs = dvalues.copy()
        self.dinputs[self.inputs <= 0] = 0


class Softmax:
    def forward(self, inputs):
        powers = np.exp(inputs - np.max(inputs, axis=1, keepdims=True))
        self.output = powers / np.sum(powers, axis=1, keepdims=True)

    def backward(self, dvalues):
        self.dinputs = np.empty_like(dvalues)
        for k, (y, d) in enumerate(zip(self.output, dvalues, strict=True)):
            self.dinputs[k] = (np.diagflat(y) - np.outer(y, y)) @ d


class Loss:
    def calculate(self, output, y):
        return np.mean(self.forward(output, y))


class CrossEntropy(Loss):
    def forward(self, y_pred, y_true):
        return -np.log(np.clip(y_pred, 1e-7, 1 - 1e-7)[range(len(y_pred)), y_true])

    def backward(self, dvalues, y_true):
        self.dinputs = -np.eye(len(dvalues[0]))[y_true] / dvalues
        self.dinputs = self.dinputs / len(dvalues)


class SumOfSquares:
    """Its gradient is that of the sum of what forward returns."""

    def forward(self, prediction, target):
        return 0.5 * (prediction - target) ** 2

    def backward(self, output, target):
        return output - target


class SoftmaxWithLoss:
    def __init__(self):
        self.activation, self.loss = Softmax(), CrossEntropy()

    def forward(self, inputs, y_true):
        self.activation.forward(inputs)
        self.output = self.activation.output
        return self.loss.calculate(self.output, y_true)

    def backward(self, dvalues, y_true):
        self.dinputs = dvalues.copy()
        self.dinputs[range(len(dvalues)), y_true] -= 1
        self.dinputs = self.dinputs / len(dvalues)


class AbsoluteError:
    """The gradient is a multiple of nothing that it gets: its numbers are signs."""

    def forward(self, pred, target):
        return np.abs(pred - target).sum() / len(pred)

    def backward(self, output, target):
        return np.sign(output - target) / len(output)


class Squares:
    """Another method makes one number of the losses; the prediction has its own name in both passes."""

    def forward(self, output, y_true):
        return (output - y_true) ** 2

    def cost(self, output, y_true):
        return np.mean(np.sum(self.forward(output, y_true), axis=1))

    def backward(self, output, y_true):
        return 2 * (output - y_true) / len(output)


class Elements(Squares):
    """As above, where no method tells."""

    cost = None


class FromLogits:
    def forward(self, logits, y):
        powers = np.exp(logits - logits.max(axis=1, keepdims=True))
        self.output = powers / powers.sum(axis=1, keepdims=True)
        return -np.mean(np.log(self.output[np.arange(len(y)), y]))

    def backward(self, z, y):
        powers = np.exp(z - z.max(axis=1, keepdims=True))
        p = powers / powers.sum(axis=1, keepdims=True)
        p[np.arange(len(y)), y] -= 1
        return p / len(y)


class Proportional:
    """A loss that takes labels and an incoming gradient."""

    def forward(self, pred, y):
        self.pred = pred
        return np.mean((pred - y) ** 2)

    def backward(self, dvalue, y):
        return dvalue * 2 * (self.pred - y) / y.size
