"""A small convolutional network as a course's assignment has it."""

import numpy as np


def im2col(x, fh, fw, stride=1, pad=0):
    n, c, h, w = x.shape
    oh, ow = (h + 2 * pad - fh) // stride + 1, (w + 2 * pad - fw) // stride + 1
    img = np.pad(x, [(0, 0), (0, 0), (pad, pad), (pad, pad)], "constant")
    col = np.zeros((n, c, fh, fw, oh, ow))
    for i in range(fh):
        for j in range(fw):
            col[:, :, i, j, :, :] = img[:, :, i : i + stride * oh : stride, j : j + stride * ow : stride]
    return col.transpose(0, 4, 5, 1, 2, 3).reshape(n * oh * ow, -1)


def col2im(col, shape, fh, fw, stride=1, pad=0):
    n, c, h, w = shape
    oh, ow = (h + 2 * pad - fh) // stride + 1, (w + 2 * pad - fw) // stride + 1
    col = col.reshape(n, oh, ow, c, fh, fw).transpose(0, 3, 4, 5, 1, 2)
    img = np.zeros((n, c, h + 2 * pad + stride - 1, w + 2 * pad + stride - 1))
    for i in range(fh):
        for j in range(fw):
            img[:, :, i : i + stride * oh : stride, j : j + stride * ow : stride] += col[:, :, i, j, :, :]
    return img[:, :, pad : h + pad, pad : w + pad]


class Convolution:
    def __init__(self, W, b, stride=1, pad=0):
        self.W, self.b, self.stride, self.pad = np.array(W, dtype=float), np.array(b, dtype=float), stride, pad
        self.x = self.col = self.col_W = None
        self.dW = self.db = None

    def forward(self, x):
        fn, _c, fh, fw = self.W.shape
        n, _c, h, w = x.shape
        oh, ow = 1 + int((h + 2 * self.pad - fh) / self.stride), 1 + int((w + 2 * self.pad - fw) / self.stride)
        col = im2col(x, fh, fw, self.stride, self.pad)
        col_W = self.W.reshape(fn, -1).T
        out = np.dot(col, col_W) + self.b
        out = out.reshape(n, oh, ow, -1).transpose(0, 3, 1, 2)
        self.x, self.col, self.col_W = x, col, col_W
        return out

    def backward(self, dout):
        fn, c, fh, fw = self.W.shape
        dout = dout.transpose(0, 2, 3, 1).reshape(-1, fn)
        self.db = np.sum(dout, axis=0)
        self.dW = np.dot(self.col.T, dout).transpose(1, 0).reshape(fn, c, fh, fw)
        return col2im(np.dot(dout, self.col_W.T), self.x.shape, fh, fw, self.stride, self.pad)


class Pooling:
    def __init__(self, h, w, stride=2):
        self.h, self.w, self.stride = h, w, stride

    def forward(self, x):
        n, c, hh, ww = x.shape
        oh, ow = int(1 + (hh - self.h) / self.stride), int(1 + (ww - self.w) / self.stride)
        col = im2col(x, self.h, self.w, self.stride).reshape(-1, self.h * self.w)
        self.arg_max = np.argmax(col, axis=1)
        self.x = x
        return np.max(col, axis=1).reshape(n, oh, ow, c).transpose(0, 3, 1, 2)

    def backward(self, dout):
        dout = dout.transpose(0, 2, 3, 1)
        size = self.h * self.w
        dmax = np.zeros((dout.size, size))
        dmax[np.arange(self.arg_max.size), self.arg_max.flatten()] = dout.flatten()
        dmax = dmax.reshape((*dout.shape, size))
        col = dmax.reshape(dmax.shape[0] * dmax.shape[1] * dmax.shape[2], -1)
        return col2im(col, self.x.shape, self.h, self.w, self.stride)


class Affine:
    def __init__(self, W, b):
        self.W, self.b = W, b

    def forward(self, x):
        self.shape = x.shape
        self.x = x.reshape(x.shape[0], -1)
        return self.x @ self.W + self.b

    def backward(self, dout):
        self.dW = self.x.T @ dout
        self.db = np.sum(dout, axis=0)
        return (dout @ self.W.T).reshape(*self.shape)


class Relu:
    def forward(self, x):
        self.mask = x <= 0
        out = x.copy()
        out[self.mask] = 0
        return out

    def backward(self, dout):
        dout[self.mask] = 0
        return dout


class Net:
    def __init__(self):
        self.params = {}
        self.params["W1"] = 0.3 * np.random.randn(2, 1, 3, 3)
        self.params["b1"] = np.zeros(2)
        self.params["W2"] = 0.3 * np.random.randn(2 * 2 * 2, 3)
        self.params["b2"] = np.zeros(3)
        self.layers = [
            Convolution(self.params["W1"], self.params["b1"]),
            Relu(),
            Pooling(2, 2),
            Affine(self.params["W2"], self.params["b2"]),
        ]
        self.layers[0].W, self.layers[0].b = self.params["W1"], self.params["b1"]

    def predict(self, x):
        for layer in self.layers:
            x = layer.forward(x)
        return x

    def loss(self, x, t):
        y = self.predict(x)
        y = y - np.max(y, axis=1, keepdims=True)
        p = np.exp(y) / np.sum(np.exp(y), axis=1, keepdims=True)
        self.p, self.t = p, t
        return -np.mean(np.log(p[np.arange(len(t)), t]))

    def gradient(self, x, t):
        self.loss(x, t)
        dout = self.p.copy()
        dout[np.arange(len(t)), t] -= 1
        dout /= len(t)
        for layer in reversed(self.layers):
            dout = layer.backward(dout)
        return {"W1": self.layers[0].dW, "b1": self.layers[0].db, "W2": self.layers[3].dW, "b2": self.layers[3].db}
