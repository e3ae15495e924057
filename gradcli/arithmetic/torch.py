"""Primitives in torch, by the primitive's name."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ClassVar

import numpy as np

from gradcli.arithmetic.devices import CPU
from gradcli.arithmetic.formulas import same_stacks
from gradcli.arithmetic.framework import Lowering, Operation, Pull, Tensor, TensorFunction, matched, matched_qr
from gradcli.errors import NotSupported
from gradcli.request.point import Array
from gradcli.tracing.domain import ABOVE_MINUS_10000, Domain

_DEVICE: ContextVar[str] = ContextVar(
    "device", default=CPU
)  # of new tensors; torch's own setting slows every operation


class Torch(Lowering):
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
            "solve": lambda a, b: linalg.solve(*same_stacks(F, a, b)), "logdet": lambda a: linalg.slogdet(a).logabsdet,
            "eigvalsh": lambda s, *, uplo: linalg.eigvalsh(s, UPLO=uplo),
            "eigenvectors": lambda s, *, uplo, like: matched(F, linalg.eigh(s, UPLO=uplo).eigenvectors, like),
            "singular_vectors": lambda a, *, like: matched(F, _above(*linalg.svd(a, full_matrices=False)), like),
            "qr": lambda a, *, like: matched_qr(F, linalg.qr(a), like),
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
                raise NotSupported(f"torch has no derivative here: {_first(error)}") from None
            return [xbar.cpu().numpy() for xbar in found]

        return y.detach().cpu().numpy(), pull


def _above(u: Tensor, s: Tensor, vt: Tensor) -> Tensor:
    import torch

    return torch.cat([u, vt.mT], dim=-2)


def _first(error: Exception) -> str:
    return str(error).split("\n")[0][:200]
