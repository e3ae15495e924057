"""scipy.fft: the transforms that numpy has as well, and real transforms as linear functions."""

from collections.abc import Callable
from typing import Any

import numpy as np

from gradcli.errors import NoRule
from gradcli.rules.scipy.linear import linear_stand_ins

_NUMPYS = (
    "fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn",
    "fftshift", "ifftshift",
)  # fmt: skip


def _numpy_transform(name: str) -> Callable[..., Any]:
    def stand_in(
        x: Any, *args: Any, overwrite_x: bool = False, workers: Any = None, plan: Any = None, **kwargs: Any
    ) -> Any:
        if len(args) > 3:
            raise NoRule(
                f"scipy.fft.{name} with these positional arguments is not traced", do="name overwrite_x= and workers="
            )
        return getattr(np.fft, name)(x, *args, **kwargs)

    stand_in.__name__ = name
    return stand_in


FUNCTIONS: dict[str, Callable[..., Any]] = {name: _numpy_transform(name) for name in _NUMPYS} | linear_stand_ins(
    "scipy.fft", "x", "dct", "idct", "dst", "idst", "dctn", "idctn", "dstn", "idstn"
)
