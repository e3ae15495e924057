"""Fourier transforms and complex numbers."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradcli.frameworks.torch.aten.rows import register
from gradcli.tracing.primitive import Value
from gradcli.tracing.shapes import shape

FORWARD: tuple[Any, ...] = (
    "backward",
    "ortho",
    "forward",
)  # numpy's name for torch's 0 (as is), 1 (1 / sqrt(n)) and 2 (1 / n)
BACKWARD: tuple[Any, ...] = ("forward", "ortho", "backward")


def _real_to_complex(x: Value, dim: Sequence[int], normalization: int, onesided: bool) -> Value:
    transform = np.fft.rfftn if onesided else np.fft.fftn
    return transform(x, axes=tuple(dim), norm=FORWARD[normalization])


def _complex_to_real(x: Value, dim: Sequence[int], normalization: int, last_dim_size: int) -> Value:
    sizes = [shape(x)[k] for k in dim[:-1]] + [int(last_dim_size)]
    return np.fft.irfftn(x, s=sizes, axes=tuple(dim), norm=BACKWARD[normalization])


def _complex_to_complex(x: Value, dim: Sequence[int], normalization: int, forward: bool) -> Value:
    if forward:
        return np.fft.fftn(x, axes=tuple(dim), norm=FORWARD[normalization])
    return np.fft.ifftn(x, axes=tuple(dim), norm=BACKWARD[normalization])


# fmt: off
register({
    "_fft_r2c": _real_to_complex, "_fft_c2r": _complex_to_real, "_fft_c2c": _complex_to_complex,
    "conj_physical": np.conj, "_conj": np.conj, "conj": np.conj, "_conj_physical": np.conj,
    "complex": lambda re, im: re + 1j * im, "polar": lambda size, angle: size * np.cos(angle) + 1j * (size * np.sin(angle)),
    "view_as_real": lambda x: np.stack([np.real(x), np.imag(x)], axis=-1),
    "view_as_complex": lambda x: x[..., 0] + 1j * x[..., 1],
    "real": np.real, "imag": np.imag,
})
# fmt: on
