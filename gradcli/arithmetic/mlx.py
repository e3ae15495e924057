"""Primitives in MLX, by the primitive's name. Some of its operations on float64 compute in float32."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np

from gradcli.arithmetic.devices import CPU, DEVICES
from gradcli.arithmetic.framework import SINGLE, Lowering, Operation, Pull, Tensor, TensorFunction
from gradcli.request.point import Array


class Mlx(Lowering):
    """MLX on the CPU, where it supports float64, differentiated by `mx.vjp`."""

    name = package = "mlx"
    foreign = frozenset({"convolve"})  # computes in float32
    refused = frozenset({
        "beta", "betaln", "cholesky", "det", "eigvalsh", "erfcinv", "erfi", "gamma", "i0", "i1", "inv", "k0", "k1",
        "log_ndtr", "logdet", "loggamma", "ndtr", "pinv", "qr", "rgamma", "solve",
    })  # fmt: skip
    single = frozenset({
        "cos", "cosdg", "cotdg", "erf", "erfinv", "exp", "expit", "log10", "log2", "log_expit", "logaddexp", "logsumexp", "sin",
        "sindg", "tan", "tandg",
    })  # fmt: skip
    ulps: ClassVar[Mapping[str, float]] = {"erf": 4 * SINGLE}

    def namespaces(self) -> Sequence[Any]:
        import mlx.core as mx

        return mx, mx.linalg

    def entries(self) -> Mapping[str, Operation]:
        import mlx.core as mx

        linalg = mx.linalg
        # fmt: off
        return {
            "take": lambda row, at: mx.take(row, mx.array(at)),
            "add_at": lambda n, at, v: mx.zeros(n, dtype=mx.float64).at[mx.array(at)].add(v),
            "absolute": mx.abs, "expit": mx.sigmoid,
            "reshape": lambda x, *, to: mx.reshape(x, to), "transpose": lambda x, *, axes: mx.transpose(x, axes),
            "broadcast_to": lambda x, *, to: mx.broadcast_to(x, to), "concatenate": lambda *xs, axis: mx.concatenate(xs, axis=axis),
            "sum": lambda x, *, axis: mx.sum(x, axis=axis) if axis else x, "max": lambda x, *, axis: mx.max(x, axis=axis) if axis else x,
            "logsumexp": lambda x, *, axis: mx.logsumexp(x, axis=axis) if axis else x,
            "norm": lambda x: linalg.norm(mx.reshape(x, (-1,))), "einsum": lambda *xs, subscripts: mx.einsum(subscripts, *xs),
            "logdet": lambda a: linalg.slogdet(a)[1],
        }
        # fmt: on

    @contextmanager
    def running(self, device: str = CPU) -> Iterator[None]:
        import mlx.core as mx

        with mx.stream(DEVICES[self.name].native(device)):
            yield

    def tensor(self, x: Array) -> Tensor:
        import mlx.core as mx

        plain = np.asarray(x)
        return mx.array(plain, dtype=mx.bool_ if plain.dtype == bool else mx.float64)

    def vjp(self, program: TensorFunction, xs: Sequence[Array]) -> tuple[Array, Pull]:
        import mlx.core as mx

        inputs = [self.tensor(x) for x in xs]

        def pull(ybar: Array) -> list[Array]:
            _, found = mx.vjp(lambda *xs: [program(*xs)], inputs, [self.tensor(ybar)])
            return [np.array(xbar) for xbar in found]

        return np.array(program(*inputs)), pull
