"""The frameworks as modes: the recorded program is run in torch, JAX, TensorFlow or MLX, and differentiated by it."""

import importlib.util
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import cached_property, partial
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np

from gradcli.arithmetic.devices import CPU, DEVICES, find_device, framework_version, quiet_imports
from gradcli.arithmetic.dual import jacobian_from_rows, unit_directions
from gradcli.arithmetic.recorded_program import RecordedProgram, record
from gradcli.arithmetic.tape import CONSTANT, Line
from gradcli.errors import GradcliError, NotSupported, install_command
from gradcli.modes.bounds import changes_by_random_rounding
from gradcli.modes.kinks import refuse_undefined
from gradcli.modes.mode import Available, Question
from gradcli.modes.rounding import EPS, has_factored_matrix
from gradcli.request.point import Array, Estimate, EstimateCost, Witness
from gradcli.tracing.primitive import ABOVE_MINUS_10000, INSIDE_1, POSITIVE, PRIMITIVES, REAL, Domain, Value
from gradcli.tracing.shapes import shape, size
from gradcli.words import RanOn

# The common base of the frameworks' tables: how an operation is looked up, and how a program is run.
#
# An operation is, in this order: an entry of the framework's table, the framework's own function of the same name, or a
# formula of other operations. An operation that is none of these is refused by name, and so is one that is in `refused`.

_RENAMED = {
    "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh",
    "arctan2": "atan2", "power": "pow", "absolute": "abs", "remainder": "floormod", "gammaln": "lgamma", "loggamma": "lgamma",
    "expit": "sigmoid", "log_expit": "log_sigmoid", "gammainc": "igamma", "gammaincc": "igammac",
}  # fmt: skip
_BESSEL = ("i0", "i0e", "i1", "i1e", "j0", "j1", "k0", "k0e", "k1", "k1e", "y0", "y1")


# of new tensors; torch's own setting slows every operation
_DEVICE: ContextVar[str] = ContextVar("device", default=CPU)
Tensor = Any  # a tensor of the framework
Operation = Callable[..., Tensor]
TensorFunction = Callable[..., Tensor]
Pull = Callable[[Array], list[Array]]
SINGLE = 2.0**31  # ulps of float64 that an operation in float32 loses: four ulps of float32
MATCHED = frozenset({"eigenvectors", "singular_vectors", "qr"})  # signs are arbitrary: numpy's are used, from `like`


# Formulas of a framework's other operations for primitives that the framework has no function for.
#
# `F` holds the framework's operations as attributes. numpy computes which entries move where; `F.take` and `F.add_at`
# receive positions only.

LN2, LN10, ROOT2, DEGREE = float(np.log(2)), float(np.log(10)), float(np.sqrt(2)), float(np.pi / 180)
_SERIES = 18  # terms of (exp(x) - 1) / x that are not below rounding for |x| < 1


def selected_positions(shape: tuple[int, ...], index: Any) -> Any:
    """Return the positions, counted in C order, of the entries that an index selects from an array of this shape."""
    return np.array(np.arange(int(np.prod(shape))).reshape(shape)[index], order="C")


def as_vector(F: Any, x: Tensor) -> Tensor:
    """Return the entries of a tensor as a vector."""
    return F.reshape(x, to=(int(np.prod(tuple(x.shape))),))


def getitem(F: Any, x: Tensor, *, index: Any) -> Tensor:
    """Return x[index]."""
    return F.take(as_vector(F, x), selected_positions(tuple(x.shape), index))


def scatter(F: Any, v: Tensor, *, index: Any, into: tuple[int, ...]) -> Tensor:
    """Return zeros of shape `into` with `v` added at `index`."""
    at = selected_positions(into, index)
    spread = as_vector(F, F.broadcast_to(v, to=at.shape))
    return F.reshape(F.add_at(int(np.prod(into)), at.reshape(-1), spread), to=into)


def put(F: Any, x: Tensor, v: Tensor, *, index: Any) -> Tensor:
    """Return a copy of `x` with `v` written at `index`; of several values at one position, the last one is kept."""
    shape = tuple(x.shape)
    at = selected_positions(shape, index)
    source = np.full(int(np.prod(shape)), -1)
    source[at.reshape(-1)] = np.arange(at.size)
    if not at.size:
        return x
    written = F.take(as_vector(F, F.broadcast_to(v, to=at.shape)), np.maximum(source, 0))
    return F.reshape(F.where(F.number(source < 0), as_vector(F, x), written), to=shape)


def broadcast_stacks(F: Any, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Return two stacks of matrices broadcast to the same axes before the last two."""
    stack = np.broadcast_shapes(tuple(a.shape[:-2]), tuple(b.shape[:-2]))
    return F.broadcast_to(a, to=(*stack, *a.shape[-2:])), F.broadcast_to(b, to=(*stack, *b.shape[-2:]))


def convolve(F: Any, a: Tensor, v: Tensor) -> Tensor:
    """Return the full convolution of two vectors.

    Shapes  (n,) and (m,) give (n + m - 1,).
    """
    n, m = a.shape[0], v.shape[0]
    k = np.arange(n + m - 1)[:, None] - np.arange(n)[None, :]
    shifted = F.where(F.number((k >= 0) & (k < m)), F.take(v, np.clip(k, 0, m - 1)), F.number(0.0))
    return as_vector(F, F.matmul(shifted, F.reshape(a, to=(n, 1))))


def fourier_sums(F: Any, x: Tensor, axis: int, wave: Callable[[Any], Any]) -> Tensor:
    """Return the sums of x_k wave(2 pi j k / n) along an axis."""
    n, ndim = x.shape[axis], len(x.shape)
    turns = np.outer(np.arange(n), np.arange(n)) % n
    letters = "abcdefghijklmnopqrstuvwxy"[:ndim]
    subscripts = f"{letters},{letters[axis]}z->{letters[:axis]}z{letters[axis + 1 :]}"
    return F.einsum(x, F.number(wave(2 * np.pi * turns / n)), subscripts=subscripts)


def exprel(F: Any, x: Tensor) -> Tensor:
    """Return (exp(x) - 1) / x, by its series near 0."""
    near = F.absolute(x) < 1
    small = F.where(near, x, F.number(0.0))
    y = small * 0 + 1
    for k in range(_SERIES, 1, -1):
        y = 1 + y * small / k
    safe = F.where(near, F.number(1.0), x)
    return F.where(near, y, F.expm1(safe) / safe)


def with_gamma_sign(F: Any, size: Tensor, *xs: Tensor) -> Tensor:
    """Return `size` with the sign of the product of the gamma functions of `xs`; each changes sign at its poles."""
    for x in xs:
        odd = (x < 0) & (F.remainder(F.floor(x), F.number(2.0)) > 0.5)
        size = F.where(odd, -size, size)
    return size


def gamma(F: Any, x: Tensor) -> Tensor:
    """Return the gamma function by its logarithm."""
    return with_gamma_sign(F, F.exp(F.gammaln(x)), x)


def beta(F: Any, a: Tensor, b: Tensor) -> Tensor:
    """Return the beta function by its logarithm."""
    return with_gamma_sign(F, F.exp(F.betaln(a, b)), a, b, a + b)


def log_ndtr(F: Any, x: Tensor) -> Tensor:
    """Return the logarithm of the normal distribution function, valid where erfc does not underflow."""
    right = F.where(x > 0, x, F.number(0.0))
    left = F.where(x > 0, F.number(0.0), x)
    return F.where(x > 0, F.log1p(-F.erfc(right / ROOT2) / 2), F.log(F.erfc(-left / ROOT2) / 2))


# fmt: off
MOVES: dict[str, Callable[..., Tensor]] = {"getitem": getitem, "scatter": scatter, "put": put}
FORMULAS: dict[str, Callable[..., Tensor]] = {
    "positive": lambda F, x: x, "real": lambda F, x: x, "negative": lambda F, x: -x,
    "integer_power": lambda F, x, *, n: x**n, "square": lambda F, x: x * x, "reciprocal": lambda F, x: 1 / x,
    "cbrt": lambda F, x: F.sign(x) * F.absolute(x) ** (1 / 3), "hypot": lambda F, a, b: F.sqrt(a * a + b * b),
    "exp2": lambda F, x: F.power(F.number(2.0), x), "log2": lambda F, x: F.log(x) / LN2, "log10": lambda F, x: F.log(x) / LN10,
    "fmod": lambda F, a, b: a - b * F.trunc(a / b), "relu": lambda F, x: F.maximum(x, F.number(0.0)),
    "norm": lambda F, x: F.sqrt(F.sum(x * x, axis=tuple(range(len(x.shape))))), "convolve": convolve,
    "dft_cos": lambda F, x, *, axis: fourier_sums(F, x, axis, np.cos), "dft_sin": lambda F, x, *, axis: fourier_sums(F, x, axis, np.sin),
    "erfcinv": lambda F, x: -F.ndtri(x / 2) / ROOT2, "erfi": lambda F, x: 2 / np.pi**0.5 * F.exp(x * x) * F.dawsn(x),
    "ndtr": lambda F, x: F.erfc(-x / ROOT2) / 2, "log_ndtr": log_ndtr,
    "expit": lambda F, x: F.sigmoid(x), "logit": lambda F, x: F.log(x / (1 - x)), "log_expit": lambda F, x: -F.logaddexp(F.number(0.0), -x),
    "entr": lambda F, x: -x * F.log(x), "xlogy": lambda F, a, b: a * F.log(b), "xlog1py": lambda F, a, b: a * F.log1p(b),
    "rel_entr": lambda F, a, b: a * F.log(a / b), "kl_div": lambda F, a, b: a * F.log(a / b) - a + b,
    "pseudo_huber": lambda F, d, r: r * r / (1 + F.sqrt(1 + (r / d) ** 2)), "exprel": exprel,
    "gamma": gamma, "rgamma": lambda F, x: 1 / F.gamma(x), "loggamma": lambda F, x: F.gammaln(x),
    "betaln": lambda F, a, b: F.gammaln(a) + F.gammaln(b) - F.gammaln(a + b), "beta": beta,
    "i0": lambda F, x: F.exp(F.absolute(x)) * F.i0e(x), "i1": lambda F, x: F.exp(F.absolute(x)) * F.i1e(x),
    "k0": lambda F, x: F.exp(-x) * F.k0e(x), "k1": lambda F, x: F.exp(-x) * F.k1e(x),
    "sindg": lambda F, x: F.sin(x * DEGREE), "cosdg": lambda F, x: F.cos(x * DEGREE),
    "tandg": lambda F, x: F.tan(x * DEGREE), "cotdg": lambda F, x: 1 / F.tan(x * DEGREE),
}
# fmt: on


class Lowering:
    """One framework as an arithmetic: its operations by the primitive's name, its tensors, and its own derivatives.

    The framework is imported when the first operation, tensor or gradient is requested.
    """

    name: ClassVar[str]
    package: ClassVar[str]  # the name to import
    refused: ClassVar[frozenset[str]] = frozenset()  # operations that would be found, but lack a correct derivative
    foreign: ClassVar[frozenset[str]] = frozenset()  # names that mean something else in the framework
    ulps: ClassVar[Mapping[str, float]] = {}  # lost by operations or their derivatives, if more than usual
    holds: ClassVar[Mapping[str, tuple[Domain, ...]]] = {}  # where operations and their derivatives are correct
    single: ClassVar[frozenset[str]] = frozenset()  # operations that compute in float32, also for float64 tensors

    def namespaces(self) -> Sequence[Any]:
        """Return the modules in which the framework's functions are looked up by the primitive's name."""
        raise NotImplementedError

    def entries(self) -> Mapping[str, Operation]:
        """Return the operations for primitives that have another name or other arguments in the framework."""
        raise NotImplementedError

    def running(self, device: str = CPU) -> AbstractContextManager[Any]:
        """Return a context in which the framework computes in float64 on a device; its settings are restored on exit."""
        raise NotImplementedError

    def tensor(self, x: Array) -> Tensor:
        """Return an array as a tensor of float64 on the context's device, or of booleans if the array is boolean."""
        raise NotImplementedError

    def vjp(self, program: TensorFunction, xs: Sequence[Array]) -> tuple[Array, Pull]:
        """Return the program's value and a function that pulls a cotangent of the value back to the inputs.

        Shapes  all are numpy arrays; each pulled cotangent has the shape of its input.
        """
        raise NotImplementedError

    def __init__(self) -> None:
        self.F: Any = SimpleNamespace(number=self.tensor)  # the operations as attributes, for formulas
        self.found: dict[str, Operation] = vars(self.F)

    @cached_property
    def table(self) -> Mapping[str, Operation]:
        """Every operation that the framework has, by the primitive's name."""
        found, F = self.found, self.F
        for name in (*PRIMITIVES, *MOVES):
            spaces = () if name in self.foreign else self.namespaces()
            own = next((f for space in spaces if callable(f := getattr(space, name, None))), None)
            if name in MOVES or (own is None and name in FORMULAS):
                found[name] = partial(MOVES.get(name) or FORMULAS[name], F)
            elif own is not None:
                found[name] = own
        found.update(self.entries())
        return {name: f for name, f in found.items() if name not in self.refused}

    def operation(self, name: str) -> Operation:
        """Return the framework's operation for a primitive.

        Raises  NotSupported if there is none.
        """
        if name not in PRIMITIVES or name not in self.table:
            raise NotSupported(f"{self.name} has no {name}")
        return self.table[name]


def match_signs(F: Any, vectors: Tensor, like: Array) -> Tensor:
    """Return eigenvectors or singular vectors, in the columns, with the signs of numpy's vectors `like`."""
    return vectors * F.reshape(_relative_signs(F, vectors, like), to=(*like.shape[:-2], 1, like.shape[-1]))


def match_qr_signs(F: Any, found: tuple[Tensor, Tensor], like: Array) -> Tensor:
    """Return Q stacked on top of R, with the signs of numpy's value `like`."""
    q, r = found
    rows, n = like.shape[-2] - like.shape[-1], like.shape[-1]
    turned = _relative_signs(F, q, like[..., :rows, :])
    columns, lines = ((*like.shape[:-2], *shape) for shape in ((1, n), (n, 1)))
    return F.concatenate(q * F.reshape(turned, to=columns), r * F.reshape(turned, to=lines), axis=len(like.shape) - 2)


def _relative_signs(F: Any, vectors: Tensor, like: Array) -> Tensor:
    return F.sign(F.sum(vectors * F.number(like), axis=(len(like.shape) - 2,)))


# Primitives in torch, by the primitive's name.


class TorchLowering(Lowering):
    """torch in eager mode, differentiated by `torch.autograd.grad`."""

    name = package = "torch"
    foreign = frozenset({"kl_div"})
    refused = frozenset({"erfi", "k0", "k1"})
    holds: ClassVar[Mapping[str, tuple[Domain, ...]]] = {"log_ndtr": (ABOVE_MINUS_10000,)}
    ulps: ClassVar[Mapping[str, float]] = {"digamma": 2.0**22, "polygamma": 2.0**22}

    def namespaces(self) -> Sequence[Any]:
        import torch

        return torch.linalg, torch, torch.special

    def entries(self) -> Mapping[str, Operation]:
        import torch

        F, linalg, fft = self.F, torch.linalg, torch.fft
        stacked: Any = lambda u, s, vt: torch.cat([u, vt.mT], dim=-2)
        # fmt: off
        return {
            "take": lambda row, at: row[torch.as_tensor(at)],
            "add_at": lambda n, at, v: v.new_zeros(n).index_add(0, torch.as_tensor(at, device=v.device), v),
            "reshape": lambda x, *, to: torch.reshape(x, to), "transpose": lambda x, *, axes: torch.permute(x, axes),
            "broadcast_to": lambda x, *, to: torch.broadcast_to(x, to), "concatenate": lambda *xs, axis: torch.cat(xs, dim=axis),
            "sum": lambda x, *, axis: torch.sum(x, dim=axis) if axis else x, "cumsum": lambda x, *, axis: torch.cumsum(x, dim=axis),
            "max": lambda x, *, axis: torch.amax(x, dim=axis) if axis else x,
            "logsumexp": lambda x, *, axis: torch.logsumexp(x, dim=axis) if axis else x,
            "norm": lambda x: linalg.vector_norm(x), "einsum": lambda *xs, subscripts: torch.einsum(subscripts, *xs),
            "integer_power": lambda x, *, n: torch.pow(x, n), "power": torch.pow, "expit": torch.sigmoid,
            "log_expit": torch.nn.functional.logsigmoid, "polygamma": lambda x, *, n: torch.polygamma(n, x), "loggamma": torch.lgamma,
            "solve": lambda a, b: linalg.solve(*broadcast_stacks(F, a, b)), "logdet": lambda a: linalg.slogdet(a).logabsdet,
            "eigvalsh": lambda s, *, uplo: linalg.eigvalsh(s, UPLO=uplo),
            "eigenvectors": lambda s, *, uplo, like: match_signs(F, linalg.eigh(s, UPLO=uplo).eigenvectors, like),
            "singular_vectors": lambda a, *, like: match_signs(F, stacked(*linalg.svd(a, full_matrices=False)), like),
            "qr": lambda a, *, like: match_qr_signs(F, linalg.qr(a), like),
            "pinv": lambda a, *, rcond: linalg.pinv(a, rtol=rcond),
            "dft_cos": lambda x, *, axis: fft.fft(x, dim=axis).real, "dft_sin": lambda x, *, axis: -fft.fft(x, dim=axis).imag,
        }
        # fmt: on

    @contextmanager
    def running(self, device: str = CPU) -> Iterator[None]:
        import torch

        before = _DEVICE.set(device)
        try:
            with torch.enable_grad():
                yield
        finally:
            _DEVICE.reset(before)

    def tensor(self, x: Array) -> Tensor:
        import torch

        plain = np.asarray(x)
        return torch.tensor(plain, dtype=torch.bool if plain.dtype == bool else torch.float64, device=_DEVICE.get())

    def vjp(self, program: TensorFunction, xs: Sequence[Array]) -> tuple[Array, Pull]:
        import torch

        inputs = [self.tensor(x).requires_grad_() for x in xs]
        y = program(*inputs)

        def pull(ybar: Array) -> list[Array]:
            try:
                found = torch.autograd.grad(y, inputs, self.tensor(ybar), retain_graph=True, materialize_grads=True)
            except (NotImplementedError, RuntimeError) as error:
                line = str(error).split("\n")[0][:200]
                raise NotSupported(f"torch has no derivative here: {line}") from None
            return [xbar.cpu().numpy() for xbar in found]

        return y.detach().cpu().numpy(), pull


# Primitives in JAX, by the primitive's name.


class JaxLowering(Lowering):
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
        stacked: Any = lambda u, s, vt: jnp.concatenate([u, jnp.swapaxes(vt, -1, -2)], axis=-2)
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
            "eigenvectors": lambda s, *, uplo, like: match_signs(F, linalg.eigh(s, UPLO=uplo, symmetrize_input=False)[1], like),
            "cholesky": lambda s: linalg.cholesky(s, symmetrize_input=False),
            "svdvals": lambda a: linalg.svd(a, full_matrices=False, compute_uv=False),
            "singular_vectors": lambda a, *, like: match_signs(F, stacked(*linalg.svd(a, full_matrices=False)), like),
            "qr": lambda a, *, like: match_qr_signs(F, linalg.qr(a), like), "pinv": lambda a, *, rcond: linalg.pinv(a, rtol=rcond),
            "dft_cos": lambda x, *, axis: jnp.fft.fft(x, axis=axis).real, "dft_sin": lambda x, *, axis: -jnp.fft.fft(x, axis=axis).imag,
        }
        # fmt: on

    @contextmanager
    def running(self, device: str = CPU) -> Iterator[None]:
        import jax

        with _enable_jax_float64(), jax.default_device(DEVICES[self.name].native(device)):
            yield

    def tensor(self, x: Array) -> Tensor:
        import jax

        plain = np.asarray(x)
        return jax.numpy.asarray(plain if plain.dtype == bool else plain.astype(np.float64))

    def vjp(self, program: TensorFunction, xs: Sequence[Array]) -> tuple[Array, Pull]:
        import jax

        y, pullback = jax.vjp(program, *[self.tensor(x) for x in xs])
        return np.asarray(y), lambda ybar: [np.asarray(xbar) for xbar in pullback(self.tensor(ybar))]


def _enable_jax_float64() -> AbstractContextManager[Any]:
    import jax

    if hasattr(jax, "enable_x64"):
        return jax.enable_x64(True)  # type: ignore[no-any-return]
    from jax.experimental import enable_x64

    return enable_x64()  # type: ignore[no-any-return]


# Primitives in TensorFlow, by the primitive's name.


class TensorFlowLowering(Lowering):
    """TensorFlow in eager mode, differentiated by `tf.GradientTape`."""

    name = package = "tensorflow"
    refused = frozenset({"logm"})  # of complex matrices alone

    def namespaces(self) -> Sequence[Any]:
        tf = _import_tensorflow()
        return tf.math, tf.math.special, tf.linalg

    def entries(self) -> Mapping[str, Operation]:
        tf = _import_tensorflow()
        F, linalg, special = self.F, tf.linalg, tf.math.special
        stacked: Any = lambda s, u, v: tf.concat([u, v], -2)
        lower: Any = lambda s, uplo: (
            s if uplo == "L" else linalg.matrix_transpose(s)
        )  # TensorFlow reads the lower triangle
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
            "solve": lambda a, b: linalg.solve(*broadcast_stacks(F, a, b)), "logdet": lambda a: linalg.slogdet(a)[1], "eigvalsh": lambda s, *, uplo: linalg.eigvalsh(lower(s, uplo)),
            "eigenvectors": lambda s, *, uplo, like: match_signs(F, linalg.eigh(lower(s, uplo))[1], like),
            "svdvals": lambda a: linalg.svd(a, compute_uv=False), "singular_vectors": lambda a, *, like: match_signs(F, stacked(*linalg.svd(a)), like),
            "qr": lambda a, *, like: match_qr_signs(F, linalg.qr(a), like), "pinv": lambda a, *, rcond: linalg.pinv(a, rcond),
        }
        # fmt: on

    @contextmanager
    def running(self, device: str = CPU) -> Iterator[None]:
        tf = _import_tensorflow()
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
        return _import_tensorflow().constant(plain if plain.dtype == bool else plain.astype(np.float64))

    def vjp(self, program: TensorFunction, xs: Sequence[Array]) -> tuple[Array, Pull]:
        tf = _import_tensorflow()
        inputs = [self.tensor(x) for x in xs]
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(inputs)
            y = program(*inputs)

        def pull(ybar: Array) -> list[Array]:
            zeros = tf.UnconnectedGradients.ZERO
            found = tape.gradient(y, inputs, self.tensor(ybar), unconnected_gradients=zeros)
            return [tf.convert_to_tensor(xbar).numpy() for xbar in found]

        return y.numpy(), pull


def _import_tensorflow() -> Any:
    with quiet_imports():
        import tensorflow
    return tensorflow


# Primitives in MLX, by the primitive's name. Some of its operations on float64 compute in float32.


class MlxLowering(Lowering):
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


# The frameworks as modes.

USUAL = 8.0  # times the textbook's rounding: for other orders of summation and other libraries of functions
_FACTORED = 64.0  # ulps of the largest slope: an entry that is zero by one matrix factorisation may not be by another
_LINE = 100_000  # scalar operations that take as long as one operation of a framework and its derivative
_TWICE = 1e9  # scalar operations: a larger program is not run a second time to be timed
_FLOAT32 = np.finfo(np.float32)

Step = tuple[int, TensorFunction, tuple[tuple[int, Tensor], ...], dict[str, Any]]


class FrameworkMode:
    """One framework: its own operations, and its own derivatives of them."""

    def __init__(self, lowering: Lowering, witness: Witness) -> None:
        self.lowering = lowering
        self.name = self.lowering.name
        self.rests_on = frozenset({witness, Witness.TRACING})
        self.__doc__ = type(self.lowering).__doc__

    def available(self) -> Available:
        if importlib.util.find_spec(self.lowering.package) is not None:
            return Available()
        return Available(False, f"{self.name} is not installed", install_command(self.name))

    def gradient(self, q: Question) -> Estimate:
        """Return the gradient that the framework computes for the recorded program.

        Error   that of the textbook's partials in float64, more if the framework is known to lose more; an estimate.
        Raises  NotSupported if the framework lacks an operation, or its derivative, or fails; NotRun, Undecided; BadOption for a
                device that is not there.
        """
        q.refuse_untraced()
        refuse_undefined(q.value)
        q.refuse_large_jacobian()
        calls = len(q.lines) * (1 + size(q.value))
        named = q.device is not None
        q.budget.admit(_LINE * calls + q.reverse_work, f"{calls:,} operations of {self.name}", essential=named)
        device = find_device(self.name, q.device or CPU, in_float64=True)
        if not q.recording.moves:
            zeros = {name: np.zeros(shape(q.value) + shape(x))[()] for name, x in zip(q.wrt, q.xs, strict=True)}
            return Estimate(zeros, zeros, cost=EstimateCost(evaluations=1))
        try:
            with np.errstate(all="ignore"), self.lowering.running(device):
                rows, seconds = self._cotangent_rows(q)
        except GradcliError:
            raise
        except Exception as error:  # each framework has its own kinds
            said = (str(error) or type(error).__name__).split("\n")[0][:200]
            raise NotSupported(f"{self.name} cannot do it: {said}") from error
        value = {name: jacobian_from_rows(rows, q.value, k, q.xs[k]) for k, name in enumerate(q.wrt)}
        cost = EstimateCost(1, q.operations * (1 + 2 * size(q.value)), seconds)
        ran_on = RanOn(self.name, framework_version(self.name), device)
        return Estimate(value, self._rounding_bound(q), statistical=True, cost=cost, ran_on=ran_on)

    def _cotangent_rows(self, q: Question) -> tuple[list[list[Array]], float]:
        """Return the cotangents of the inputs for each entry of the value, and the seconds that this takes.

        A small program runs twice: the first run compiles and loads, and the second is timed.
        """
        program = lower_program(self.lowering, q.recording)
        seeds = list(unit_directions(q.value))

        def once() -> list[list[Array]]:
            _, pull = self.lowering.vjp(program, q.xs)
            return [pull(seed) for seed in seeds]

        if q.reverse_work <= _TWICE:
            once()
        start = time.perf_counter()
        return once(), time.perf_counter() - start

    def _rounding_bound(self, q: Question) -> dict[str, Array]:
        usual = q.rounding_of_textbook.errors
        used = {primitive.name for primitive, *_ in q.lines if primitive is not None}
        loose = dict.fromkeys(self.lowering.single, SINGLE) | dict(self.lowering.ulps)
        rough = {name: ulps for name, ulps in loose.items() if name in used}
        more = changes_by_random_rounding(q, kernels=False, rough=rough) if rough else [np.float64(0)] * len(q.wrt)
        largest = max((float(np.max(np.abs(q.slopes[name]), initial=0.0)) for name in q.wrt), default=0.0)
        least = _FACTORED * EPS * largest if has_factored_matrix(q.lines) else 0.0
        return {name: (USUAL * usual[name] + moved + least)[()] for name, moved in zip(q.wrt, more, strict=True)}


def lower_program(lowering: Lowering, program: RecordedProgram) -> TensorFunction:
    """Return a recorded program as a function of a framework's tensors, on the branches that were taken.

    Raises  NotSupported for an operation that the framework does not have.
    """
    y, inputs, tape = program
    if not program.moves:
        still = lowering.tensor(_constant_operand(y, False))
        return lambda *xs: still
    needed = {y.slot}  # those of the lines that the value depends on
    for k in range(y.slot, -1, -1):
        if k in needed:
            needed.update(s for s in tape.operands(k) if s != CONSTANT)
    found = (_lower_line(lowering, slot, line) for slot, line in enumerate(tape.lines[: y.slot + 1]) if slot in needed)
    steps = [step for step in found if step is not None]

    def run(*xs: Tensor) -> Tensor:
        values = {x.slot: tensor for x, tensor in zip(inputs, xs, strict=True)}
        for slot, operation, operands, params in steps:
            values[slot] = operation(*(constant if k == CONSTANT else values[k] for k, constant in operands), **params)
        return values[y.slot]

    return run


def _lower_line(lowering: Lowering, slot: int, line: Line) -> Step | None:
    primitive, slots, xs, y, given, _ = line
    if primitive is None:
        return None
    name, params = primitive.name, dict(given or {})
    if PRIMITIVES.get(name) is not primitive:
        if not primitive.body:
            raise NotSupported(f"{lowering.name} has no {name}")

        def body(*moving: Value) -> Value:
            rest = iter(moving)
            return primitive.fun(
                *(x if s == CONSTANT else next(rest) for s, x in zip(slots, xs, strict=True)), **(given or {})
            )

        lowered = lower_program(lowering, record(body, [x for s, x in zip(slots, xs, strict=True) if s != CONSTANT]))
        return slot, lowered, tuple((s, None) for s in slots if s != CONSTANT), {}
    for value in [*xs, y] if name in lowering.single else ():  # which the framework computes in float32
        sizes = np.abs(np.asarray(value, dtype=float))
        if np.any(((sizes > 0) & (sizes < _FLOAT32.tiny)) | ((sizes > _FLOAT32.max) & np.isfinite(sizes))):
            raise NotSupported(f"{lowering.name} computes {name} in float32, which these values are outside of")
    for domain, x in zip(lowering.holds.get(name, ()), xs, strict=False):  # beyond, the framework is known to be wrong
        if not np.all(domain.contains(np.asarray(x, dtype=float))):
            raise NotSupported(f"{lowering.name} is wrong for {name} unless {domain.name}")
    if name in MATCHED:
        params["like"] = y
    constants = [
        None if s != CONSTANT else lowering.tensor(_constant_operand(x, name == "where" and i == 0))
        for i, (s, x) in enumerate(zip(slots, xs, strict=True))
    ]
    return slot, lowering.operation(name), tuple(zip(slots, constants, strict=True)), params


def _constant_operand(x: Value, condition: bool) -> Array:
    """Return a constant operand as float64, or as truth values if it is a condition."""
    plain = np.asarray(x)
    if plain.dtype.kind == "c":
        raise NotSupported("complex numbers are not lowered into a framework")
    return plain.astype(bool) if condition else plain.astype(np.float64)
