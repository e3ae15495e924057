"""A torch function as gradcli records it, compared with torch: its values and its gradient, for the tests of the recorder."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from gradcli.arithmetic.recorded_program import value_and_gradient
from gradcli.frameworks.framework import RecordedSteps
from gradcli.frameworks.torch.record import record_program, to_numpy
from gradcli.targets.nesting import take_apart

VALUES, SLOPES = 1e-12, 1e-9  # of the largest entry
ROUNDED = 1e-13  # what may be left of numbers of size 1 that cancel


class Differs(Exception):
    """A value or a gradient that is not torch's."""


def floats(y: Any) -> list[torch.Tensor]:
    """Return the float tensors in nested lists, tuples and dicts."""
    return [t for t in take_apart("", y)[1].values() if isinstance(t, torch.Tensor) and t.is_floating_point()]


def record(f: Callable[[], Any], xs: Sequence[torch.Tensor]) -> tuple[RecordedSteps, list[torch.Tensor]]:
    """Return what f, which uses xs, did as a program of xs, and the float tensors it returned. Raises NotSupported."""
    program, y = record_program(f, list(xs), floats)
    return program, floats(y)


def near(a: Any, b: Any, rtol: float) -> bool:
    """Whether two arrays differ by less than a part of their largest finite entry."""
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape:
        return False
    size = np.max(np.abs(b), initial=0.0, where=np.isfinite(b))
    return np.allclose(a, b, rtol=0.0, atol=rtol * float(size) + ROUNDED, equal_nan=True)


def checked(f: Callable[[], Any], xs: Sequence[torch.Tensor]) -> RecordedSteps:
    """Record f, which uses xs, and compare the program's values and gradient with torch's; return the program.

    Raises  NotSupported for what is not recorded; Differs for a value or a gradient that is not torch's.
    """
    program, ys = record(f, xs)
    with np.errstate(all="ignore"):
        found = program([to_numpy(x) for x in xs])
        for mine, t in zip(found, ys, strict=True):
            if not near(mine, to_numpy(t), VALUES):
                raise Differs(f"value: {np.ravel(mine)[:4]} for {np.ravel(to_numpy(t))[:4]}")
        _same_slopes(program, xs, ys)
    return program


def _same_slopes(program: RecordedSteps, xs: Sequence[torch.Tensor], ys: Sequence[torch.Tensor]) -> None:
    wanted = [k for k, t in enumerate(ys) if t.requires_grad]
    if not wanted:
        return
    draw = np.random.default_rng(0)
    weights = {k: draw.normal(size=tuple(ys[k].shape)) for k in wanted}
    total = sum((ys[k] * torch.as_tensor(w)).sum() for k, w in weights.items())
    theirs = torch.autograd.grad(total, list(xs), allow_unused=True)

    def weighted(*values: Any) -> Any:
        found = program(values)
        return sum((np.sum(found[k] * w) for k, w in weights.items()), start=np.float64(0))

    _, ours = value_and_gradient(weighted, [to_numpy(x) for x in xs], lambda y: np.float64(1))
    for x, mine, bar in zip(xs, ours, theirs, strict=True):
        expected = np.zeros(tuple(x.shape)) if bar is None else to_numpy(bar)
        if not near(mine, expected, SLOPES):
            raise Differs(f"gradient: {np.ravel(mine)[:4]} for {np.ravel(expected)[:4]}")
