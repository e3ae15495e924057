"""The cost of a torch gradient, and runs in mixed precision or with deterministic algorithms."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from gradcli.errors import FunctionFailed
from gradcli.frameworks.framework import Measured

_RUNS = 3
_ENOUGH = 0.05  # seconds: what takes longer is measured only twice; the first run may compile


def in_mixed_precision(function: Callable[..., Any], device: str, dtype: torch.dtype) -> Callable[..., Any]:
    """Return a function that runs under autocast, as in a training loop."""
    kind = torch.device(device).type

    def autocast(*args: Any, **kwargs: Any) -> Any:
        with torch.autocast(kind, dtype):
            return function(*args, **kwargs)

    return autocast


@contextmanager
def deterministic() -> Iterator[None]:
    """Allow only deterministic algorithms in the block, where torch raises if an operation has none; restore the setting."""
    before, warns = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before, warn_only=warns)


def measured(
    forward: Callable[[Sequence[torch.Tensor]], torch.Tensor], leaves: Sequence[torch.Tensor], ybar: torch.Tensor
) -> Measured | None:
    """Return the time and the memory of the forward and the backward pass; None if nothing requires a gradient.

    None, too, for functions that use torch.func inside, because torch cannot run these with hooks on saved tensors.

    Units   seconds, and bytes.
    """
    on_gpu = any(x.is_cuda for x in leaves)
    best: Measured | None = None
    for k in range(_RUNS):
        try:
            found = _once(forward, leaves, ybar, on_gpu)
        except (RuntimeError, FunctionFailed) as error:
            if "saved tensor hooks" not in str(error):
                raise
            return None
        if found is None:
            return None
        best = found if best is None or found.forward + found.backward < best.forward + best.backward else best
        if k and found.forward + found.backward > _ENOUGH:
            break
    return best


def _once(forward: Any, leaves: Sequence[torch.Tensor], ybar: torch.Tensor, on_gpu: bool) -> Measured | None:
    own = {x.untyped_storage()._cdata for x in leaves}
    kept: dict[int, int] = {}

    def keep(t: torch.Tensor) -> torch.Tensor:
        storage = t.untyped_storage()
        if storage._cdata not in own:
            kept[storage._cdata] = storage.nbytes()
        return t.detach()  # the tensor itself, if it is a result, would keep its own graph alive

    before = _start(on_gpu)
    start = time.perf_counter()
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
        y = forward(leaves)
    _finish(on_gpu)
    half = time.perf_counter()
    if not y.requires_grad:
        return None
    torch.autograd.grad(y, leaves, ybar, allow_unused=True)
    _finish(on_gpu)
    end = time.perf_counter()
    peak = torch.cuda.max_memory_allocated() - before if on_gpu else None
    return Measured(half - start, end - half, sum(kept.values()), peak)


def _start(on_gpu: bool) -> int:
    """Return the bytes that are allocated on the GPU before a run, and reset the peak."""
    if not on_gpu:
        return 0
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    return int(torch.cuda.memory_allocated())


def _finish(on_gpu: bool) -> None:
    if on_gpu:
        torch.cuda.synchronize()
