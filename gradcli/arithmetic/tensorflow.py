"""Primitives in TensorFlow, by the primitive's name."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from gradcli.arithmetic.devices import CPU, DEVICES
from gradcli.arithmetic.formulas import same_stacks
from gradcli.arithmetic.framework import Lowering, Operation, Pull, Tensor, TensorFunction, matched, matched_qr
from gradcli.arithmetic.quiet import quiet_imports
from gradcli.request.point import Array

_RENAMED = {
    "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh",
    "arctan2": "atan2", "power": "pow", "absolute": "abs", "remainder": "floormod", "gammaln": "lgamma", "loggamma": "lgamma",
    "expit": "sigmoid", "log_expit": "log_sigmoid", "gammainc": "igamma", "gammaincc": "igammac",
}  # fmt: skip
_BESSEL = ("i0", "i0e", "i1", "i1e", "j0", "j1", "k0", "k0e", "k1", "k1e", "y0", "y1")


class TensorFlow(Lowering):
    """TensorFlow in eager mode, differentiated by `tf.GradientTape`."""

    name = package = "tensorflow"
    refused = frozenset({"logm"})  # of complex matrices alone

    def namespaces(self) -> Sequence[Any]:
        tf = _tensorflow()
        return tf.math, tf.math.special, tf.linalg

    def entries(self) -> Mapping[str, Operation]:
        tf = _tensorflow()
        F, linalg, special = self.F, tf.linalg, tf.math.special
        # fmt: off
        return {name: getattr(tf.math, own) for name, own in _RENAMED.items()} | {
            name: getattr(special, f"bessel_{name}") for name in _BESSEL
        } | {
            "take": lambda row, at: tf.gather(row, at), "add_at": lambda n, at, v: tf.math.unsorted_segment_sum(v, at, n),
            "where": tf.where, "relu": tf.nn.relu, "trunc": lambda x: tf.sign(x) * tf.floor(tf.abs(x)),
            "reshape": lambda x, *, to: tf.reshape(x, to), "transpose": lambda x, *, axes: tf.transpose(x, axes),
            "broadcast_to": lambda x, *, to: tf.broadcast_to(x, to), "concatenate": lambda *xs, axis: tf.concat(xs, axis),
            "sum": lambda x, *, axis: tf.reduce_sum(x, axis), "cumsum": lambda x, *, axis: tf.cumsum(x, axis),
            "max": lambda x, *, axis: tf.reduce_max(x, axis), "logsumexp": lambda x, *, axis: tf.reduce_logsumexp(x, axis),
            "norm": lambda x: tf.norm(x), "einsum": lambda *xs, subscripts: tf.einsum(subscripts, *xs),
            "integer_power": lambda x, *, n: tf.pow(x, F.number(float(n))),
            "logaddexp": lambda a, b: tf.where(a > b, a + tf.nn.softplus(b - a), b + tf.nn.softplus(a - b)),
            "polygamma": lambda x, *, n: tf.math.polygamma(F.number(float(n)), x),
            "fresnel_s": special.fresnel_sin, "fresnel_c": special.fresnel_cos,
            "solve": lambda a, b: linalg.solve(*same_stacks(F, a, b)), "logdet": lambda a: linalg.slogdet(a)[1], "eigvalsh": lambda s, *, uplo: linalg.eigvalsh(_lower(s, uplo)),
            "eigenvectors": lambda s, *, uplo, like: matched(F, linalg.eigh(_lower(s, uplo))[1], like),
            "svdvals": lambda a: linalg.svd(a, compute_uv=False), "singular_vectors": lambda a, *, like: matched(F, _above(*linalg.svd(a)), like),
            "qr": lambda a, *, like: matched_qr(F, linalg.qr(a), like), "pinv": lambda a, *, rcond: linalg.pinv(a, rcond),
        }
        # fmt: on

    @contextmanager
    def running(self, device: str = CPU) -> Iterator[None]:
        tf = _tensorflow()
        logger = tf.get_logger()
        before = logger.level
        logger.setLevel("ERROR")  # its own derivatives use functions that it reports as deprecated
        try:
            with tf.device(DEVICES[self.name].native(device)):
                yield
        finally:
            logger.setLevel(before)

    def tensor(self, x: Array) -> Tensor:
        plain = np.asarray(x)
        return _tensorflow().constant(plain if plain.dtype == bool else plain.astype(np.float64))

    def vjp(self, program: TensorFunction, xs: Sequence[Array]) -> tuple[Array, Pull]:
        tf = _tensorflow()
        inputs = [self.tensor(x) for x in xs]
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(inputs)
            y = program(*inputs)

        def pull(ybar: Array) -> list[Array]:
            zeros = tf.UnconnectedGradients.ZERO
            found = tape.gradient(y, inputs, self.tensor(ybar), unconnected_gradients=zeros)
            return [tf.convert_to_tensor(xbar).numpy() for xbar in found]

        return y.numpy(), pull


def _tensorflow() -> Any:
    with quiet_imports():
        import tensorflow
    return tensorflow


def _lower(s: Tensor, uplo: str) -> Tensor:
    """Return a matrix whose lower triangle is the triangle `uplo` of `s`, because TensorFlow reads the lower one."""
    return s if uplo == "L" else _tensorflow().linalg.matrix_transpose(s)


def _above(s: Tensor, u: Tensor, v: Tensor) -> Tensor:
    return _tensorflow().concat([u, v], -2)
