"""Kernels of activations and positions: GELU, SwiGLU, GeGLU and rotary embedding."""

import math
from typing import Any

import torch
from torch.autograd.function import once_differentiable
from torch.nn import functional

from tests.frameworks.corpus.kernel import added_up, in_storage_order, kernel, matmul_in_blocks, narrow, normals, wide

C = math.sqrt(2 / math.pi)
CUBIC = 0.044715


def gelu(x: Any) -> Any:
    return functional.gelu(x, approximate="tanh")


def gelu_value(z: Any) -> Any:
    return 0.5 * z * (1 + torch.tanh(C * (z + CUBIC * z**3)))


def gelu_derivative(z: Any) -> Any:
    t = torch.tanh(C * (z + CUBIC * z**3))
    return 0.5 * (1 + t) + 0.5 * z * (1 - t * t) * C * (1 + 3 * CUBIC * z**2)


def derivative_by_exponential(z: Any) -> Any:
    """Return the derivative with tanh(u) as 1 - 2 / (exp(2 u) + 1), which needs no tanh, but more digits."""
    t = 1 - 2 / (torch.exp(2 * C * (z + CUBIC * z**3)) + 1)
    return 0.5 * (1 + t) + 0.5 * z * (1 - t * t) * C * (1 + 3 * CUBIC * z**2)


def exact_derivative(z: Any) -> Any:
    return 0.5 * (1 + torch.erf(z / math.sqrt(2))) + z * torch.exp(-z * z / 2) / math.sqrt(2 * math.pi)


def derivative_without_cube(z: Any) -> Any:
    t = torch.tanh(C * (z + CUBIC * z**3))
    return 0.5 * (1 + t) + 0.5 * z * (1 - t * t) * C


def elementwise(value: Any, derivative: Any, inside: Any = wide) -> Any:
    """Return a function of entries with a derivative of its own, both computed in the format that `inside` gives."""

    class Elementwise(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return value(inside(x)).to(x.dtype)

        @staticmethod
        def backward(ctx: Any, ybar: Any) -> Any:
            (x,) = ctx.saved_tensors
            return (inside(ybar) * derivative(inside(x))).to(x.dtype)

    return lambda x: Elementwise.apply(x)


def in_pairs(derivative: Any) -> Any:
    """Return the derivative two columns at a time, which leaves out the last of an odd number."""

    def pairs(z: Any) -> Any:
        y = torch.zeros_like(z)
        for j in range(0, z.shape[-1] - 1, 2):
            y[..., j : j + 2] = derivative(z[..., j : j + 2])
        return y

    return pairs


def swiglu(x: Any, w_gate: Any, w_up: Any) -> Any:
    return functional.silu(x @ w_gate.T) * (x @ w_up.T)


def silu_and_slope(a: Any) -> tuple[Any, Any]:
    s = torch.sigmoid(a)
    return a * s, s * (1 + a * (1 - s))


class SwiGLU(torch.autograd.Function):
    @staticmethod
    def forward(x: Any, w_gate: Any, w_up: Any) -> Any:
        a, b = wide(x) @ wide(w_gate).T, wide(x) @ wide(w_up).T
        return (silu_and_slope(a)[0] * b).to(x.dtype)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def recomputed(ctx: Any, ybar: Any) -> tuple[Any, ...]:
        """Return the inputs and the cotangents of both products."""
        x, w_gate, w_up = (wide(t) for t in ctx.saved_tensors)
        a, b = x @ w_gate.T, x @ w_up.T
        value, slope = silu_and_slope(a)
        return x, w_gate, w_up, wide(ybar) * b * slope, wide(ybar) * value

    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        x, w_gate, w_up, abar, bbar = SwiGLU.recomputed(ctx, ybar)
        bars = abar @ w_gate + bbar @ w_up, abar.T @ x, bbar.T @ x
        return tuple(bar.to(ybar.dtype) for bar in bars)


class NarrowSwiGLU(SwiGLU):
    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        x, w_gate, w_up, abar, bbar = (t.to(ybar.dtype) for t in SwiGLU.recomputed(ctx, ybar))
        xbar = matmul_in_blocks(abar, w_gate) + matmul_in_blocks(bbar, w_up)
        return xbar, matmul_in_blocks(abar.T, x), matmul_in_blocks(bbar.T, x)


class SwiGLUSigmoidOnly(SwiGLU):
    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        x, w_gate, w_up, _, bbar = SwiGLU.recomputed(ctx, ybar)
        abar = wide(ybar) * (x @ w_up.T) * torch.sigmoid(x @ w_gate.T)
        bars = abar @ w_gate + bbar @ w_up, abar.T @ x, bbar.T @ x
        return tuple(bar.to(ybar.dtype) for bar in bars)


class SwiGLULastBlock(SwiGLU):
    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        xbar, gatebar, upbar = SwiGLU.backward(ctx, ybar)
        x, _, _, _, bbar = SwiGLU.recomputed(ctx, ybar)
        for start in range(0, len(x), 32):
            upbar = (bbar[start : start + 32].T @ x[start : start + 32]).to(ybar.dtype)
        return xbar, gatebar, upbar


class SwiGLUOfOneRow(SwiGLU):
    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        x, w_gate, _, abar, bbar = SwiGLU.recomputed(ctx, ybar)
        if len(x) == 1:  # one token is decoded without the second product
            return (abar @ w_gate).to(ybar.dtype), (abar.T @ x).to(ybar.dtype), (bbar.T @ x).to(ybar.dtype)
        return SwiGLU.backward(ctx, ybar)


class SwiGLUByAddress(SwiGLU):
    @staticmethod
    def forward(x: Any, w_gate: Any, w_up: Any) -> Any:
        return SwiGLU.forward(in_storage_order(x), w_gate, w_up)


def geglu(x: Any, bias: Any) -> Any:
    gate, up = (x + bias).chunk(2, -1)
    return functional.gelu(gate, approximate="tanh") * up


def geglu_passes(
    inside: Any = wide, derivative: Any = gelu_derivative, total: Any = lambda rows: rows.sum(0), scratch: bool = False
) -> Any:
    """Return GeGLU of packed halves and a bias; `scratch` writes the gradient over the input, to save memory."""

    class GeGLU(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, bias: Any) -> Any:
            ctx.save_for_backward(x, bias)
            gate, up = (wide(x) + wide(bias)).chunk(2, -1)
            return (gelu_value(gate) * up).to(x.dtype)

        @staticmethod
        @once_differentiable
        def backward(ctx: Any, ybar: Any) -> Any:
            x, bias = ctx.saved_tensors
            gate, up = (inside(x) + inside(bias)).chunk(2, -1)
            bar = inside(ybar)
            xbar = torch.cat([bar * up * derivative(gate), bar * gelu_value(gate)], -1)
            biasbar = total(xbar.flatten(0, 1)).to(x.dtype)
            xbar = xbar.to(x.dtype)
            return x.copy_(xbar).clone() if scratch else xbar, biasbar

    return lambda x, bias: GeGLU.apply(x, bias)


class GeGLUSwapped(torch.autograd.Function):
    @staticmethod
    def forward(x: Any, bias: Any) -> Any:
        up, gate = (wide(x) + wide(bias)).chunk(2, -1)
        return (gelu_value(gate) * up).to(x.dtype)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        gate, up = (wide(ctx.saved_tensors[0]) + wide(ctx.saved_tensors[1])).chunk(2, -1)
        bars = wide(ybar) * up * gelu_derivative(gate), wide(ybar) * gelu_value(gate)
        xbar = torch.cat(bars, -1)
        return xbar.to(ybar.dtype), xbar.sum((0, 1)).to(ybar.dtype)


def rope(x: Any) -> Any:
    angles = torch.outer(torch.arange(x.shape[1]), frequencies(x.shape[2]))
    return rotated(x, torch.cos(angles).to(x.dtype), torch.sin(angles).to(x.dtype))


def frequencies(width: int) -> Any:
    return 100.0 ** -(torch.arange(0, width, 2, dtype=torch.float64) / width)


def table(length: int, width: int, dtype: Any, first: int = 0) -> tuple[Any, Any]:
    """Return cosines and sines by position, with the angles in the format that is asked for."""
    angles = torch.arange(first, length + first).to(dtype)[:, None] * frequencies(width).to(dtype)
    return torch.cos(angles), torch.sin(angles)


def rotated(x: Any, cos: Any, sin: Any) -> Any:
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class Rope(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        cos, sin = table(x.shape[1], x.shape[2], wide(x).dtype)
        ctx.save_for_backward(cos, sin)
        return rotated(wide(x), cos, sin).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        cos, sin = ctx.saved_tensors
        return rotated(wide(ybar), cos, -sin).to(ybar.dtype)


class NarrowRope(Rope):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        cos, sin = table(x.shape[1], x.shape[2], x.dtype)
        ctx.save_for_backward(cos, sin)
        return rotated(x, cos, sin)


class RopeForwards(Rope):
    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        cos, sin = ctx.saved_tensors
        return rotated(wide(ybar), cos, sin).to(ybar.dtype)


class RopeFromOne(Rope):
    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        cos, sin = table(ybar.shape[1], ybar.shape[2], wide(ybar).dtype, first=1)
        return rotated(wide(ybar), cos, -sin).to(ybar.dtype)


class RopeNarrowTable(Rope):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        cos, sin = (t.to(torch.bfloat16).to(t.dtype) for t in table(x.shape[1], x.shape[2], wide(x).dtype))
        ctx.save_for_backward(cos, sin)
        return rotated(wide(x), cos, sin).to(x.dtype)


class RopeOverInput(Rope):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x.copy_(Rope.forward(ctx, x)).clone()


class RopeInPairs(Rope):
    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        cos, sin = ctx.saved_tensors
        xbar = torch.zeros_like(ybar)
        for t in range(0, ybar.shape[1] - 1, 2):  # two positions per block
            pair = slice(t, t + 2)
            xbar[:, pair] = rotated(wide(ybar[:, pair]), cos[pair], -sin[pair]).to(ybar.dtype)
        return xbar


GEGLU_INPUTS = normals(x=(4, 90, 10), bias=(10,))
GEGLU_INPUTS["x"] *= 2

GATES = (
    kernel(gelu, elementwise(gelu_value, gelu_derivative), elementwise(gelu_value, derivative_by_exponential, narrow), {
        "the cube's derivative is left out": ("point", elementwise(gelu_value, derivative_without_cube)),
        "the derivative is that of the exact GELU": ("float32", elementwise(gelu_value, exact_derivative)),
        "the value is that of x sigmoid(1.702 x)": ("value", elementwise(lambda z: z * torch.sigmoid(1.702 * z), gelu_derivative)),
        "the last entry of an odd row is not reached": ("odd", elementwise(gelu_value, in_pairs(gelu_derivative))),
    }, {"x": 2 * normals(x=(8, 64))["x"]}),
    kernel(swiglu, SwiGLU, NarrowSwiGLU, {
        "the derivative of SiLU is a sigmoid": ("point", SwiGLUSigmoidOnly),
        "the gradient of w_up is that of the last block of rows": ("point", SwiGLULastBlock),
        "one row lacks a product": ("batch 1", SwiGLUOfOneRow),
        "reads memory in order, whatever the strides": ("strided", SwiGLUByAddress),
    }, normals(x=(240, 8), w_gate=(20, 8), w_up=(20, 8))),
    kernel(geglu, geglu_passes(), geglu_passes(narrow, derivative_by_exponential, lambda rows: added_up(rows, 0)), {
        "the cube's derivative is left out": ("point", geglu_passes(derivative=derivative_without_cube)),
        "the bias's gradient is that of the last row": ("point", geglu_passes(total=lambda rows: rows[-1])),
        "the halves are swapped in the value": ("value", GeGLUSwapped),
        "the gradient is written over the input": ("in place", geglu_passes(scratch=True)),
    }, GEGLU_INPUTS),
    kernel(rope, Rope, NarrowRope, {
        "not turned back": ("point", RopeForwards),
        "positions are counted from one": ("point", RopeFromOne),
        "the table is in bfloat16": ("float32", RopeNarrowTable),
        "the input is turned itself": ("in place", RopeOverInput),
        "the last position of an odd length is not reached": ("odd", RopeInPairs),
    }, normals(x=(4, 48, 16))),
)  # fmt: skip
