"""Primitives in JAX, by the primitive's name."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, ClassVar

import numpy as np

from gradcli.arithmetic.devices import CPU, DEVICES
from gradcli.arithmetic.framework import Lowering, Operation, Pull, Tensor, TensorFunction, matched, matched_qr
from gradcli.request.point import Array
from gradcli.tracing.domain import ABOVE_MINUS_10000, INSIDE_1, POSITIVE, REAL, Domain


class Jax(Lowering):
    """JAX without `jax.jit`, differentiated by `jax.vjp`."""

    name = package = "jax"
    refused = frozenset({"k0", "k1", "spence"})
    ulps: ClassVar[Mapping[str, float]] = {"log_ndtr": 2.0**18, "hyp1f1": 2.0**34}
    holds: ClassVar[Mapping[str, tuple[Domain, ...]]] = {
        "digamma": (POSITIVE,), "polygamma": (POSITIVE,), "hyp2f1": (REAL, REAL, REAL, INSIDE_1), "log_ndtr": (ABOVE_MINUS_10000,),
        "rel_entr": (POSITIVE, POSITIVE), "kl_div": (POSITIVE, POSITIVE),
    }  # fmt: skip

    def namespaces(self) -> Sequence[Any]:
        import jax
        import jax.scipy.special

        return jax.numpy, jax.scipy.special, jax.numpy.linalg

    def entries(self) -> Mapping[str, Operation]:
        import jax
        import jax.scipy.special as special

        jnp, F = jax.numpy, self.F
        linalg = jnp.linalg
        # fmt: off
        return {
            "take": lambda row, at: jnp.take(row, at), "add_at": lambda n, at, v: jnp.zeros(n).at[at].add(v),
            "reshape": lambda x, *, to: jnp.reshape(x, to), "transpose": lambda x, *, axes: jnp.transpose(x, axes),
            "broadcast_to": lambda x, *, to: jnp.broadcast_to(x, to), "concatenate": lambda *xs, axis: jnp.concatenate(xs, axis=axis),
            "logsumexp": lambda x, *, axis: special.logsumexp(x, axis=axis), "norm": lambda x: linalg.norm(jnp.ravel(x)),
            "einsum": lambda *xs, subscripts: jnp.einsum(subscripts, *xs), "relu": jax.nn.relu,
            "integer_power": lambda x, *, n: jax.lax.integer_pow(x, n), "expit": jax.nn.sigmoid, "log_expit": jax.nn.log_sigmoid,
            "polygamma": lambda x, *, n: special.polygamma(n, x), "loggamma": special.gammaln,
            "si": lambda x: special.sici(x)[0], "ci": lambda x: special.sici(x)[1],
            "fresnel_s": lambda x: special.fresnel(x)[0], "fresnel_c": lambda x: special.fresnel(x)[1],
            "logdet": lambda a: linalg.slogdet(a)[1],
            "eigvalsh": lambda s, *, uplo: linalg.eigvalsh(s, UPLO=uplo, symmetrize_input=False),
            "eigenvectors": lambda s, *, uplo, like: matched(F, linalg.eigh(s, UPLO=uplo, symmetrize_input=False)[1], like),
            "cholesky": lambda s: linalg.cholesky(s, symmetrize_input=False),
            "svdvals": lambda a: linalg.svd(a, full_matrices=False, compute_uv=False),
            "singular_vectors": lambda a, *, like: matched(F, _above(*linalg.svd(a, full_matrices=False)), like),
            "qr": lambda a, *, like: matched_qr(F, linalg.qr(a), like), "pinv": lambda a, *, rcond: linalg.pinv(a, rtol=rcond),
            "dft_cos": lambda x, *, axis: jnp.fft.fft(x, axis=axis).real, "dft_sin": lambda x, *, axis: -jnp.fft.fft(x, axis=axis).imag,
        }
        # fmt: on

    @contextmanager
    def running(self, device: str = CPU) -> Iterator[None]:
        import jax

        with _float64(), jax.default_device(DEVICES[self.name].native(device)):
            yield

    def tensor(self, x: Array) -> Tensor:
        import jax

        plain = np.asarray(x)
        return jax.numpy.asarray(plain if plain.dtype == bool else plain.astype(np.float64))

    def vjp(self, program: TensorFunction, xs: Sequence[Array]) -> tuple[Array, Pull]:
        import jax

        y, pullback = jax.vjp(program, *[self.tensor(x) for x in xs])
        return np.asarray(y), lambda ybar: [np.asarray(xbar) for xbar in pullback(self.tensor(ybar))]


def _float64() -> AbstractContextManager[Any]:
    import jax

    if hasattr(jax, "enable_x64"):
        return jax.enable_x64(True)  # type: ignore[no-any-return]
    from jax.experimental import enable_x64

    return enable_x64()  # type: ignore[no-any-return]


def _above(u: Tensor, s: Tensor, vt: Tensor) -> Tensor:
    import jax

    return jax.numpy.concatenate([u, jax.numpy.swapaxes(vt, -1, -2)], axis=-2)
