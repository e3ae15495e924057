"""Further runs of a torch function: measured, in mixed precision, with deterministic algorithms, in turn at several values."""

import functools
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np
import torch
from torch.utils.checkpoint import checkpoint

from gradcli.errors import FunctionFailed
from gradcli.frameworks.framework import Flat, Measured, Run
from gradcli.frameworks.torch.record import host
from gradcli.point import Array

_RUNS = 3
_ENOUGH = 0.05  # seconds: what takes longer is measured only twice; the first run may compile


def in_mixed_precision(function: Callable[..., Any], device: str, dtype: torch.dtype) -> Callable[..., Any]:
    """Return a function that runs under autocast, as in a training loop."""
    kind = torch.device(device).type

    def autocast(*args: Any, **kwargs: Any) -> Any:
        with torch.autocast(kind, dtype):
            return function(*args, **kwargs)

    return autocast


def checkpointed(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function whose intermediate values are computed again in the backward pass."""

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        return checkpoint(function, *args, use_reentrant=False, **kwargs)

    return run


def eager(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function in which torch.compile has no effect."""

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        with torch.compiler.set_stance("force_eager"):
            return function(*args, **kwargs)

    return run


@contextmanager
def deterministic() -> Iterator[None]:
    """Allow only deterministic algorithms in the block, where torch raises if an operation has none; restore the setting."""
    before, warns = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before, warn_only=warns)


@contextmanager
def filled_with_nan() -> Iterator[None]:
    """Have torch fill memory that it allocates with nan, where an operation is left to write it; restore the settings."""
    before, warns = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    fills = torch.utils.deterministic.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of operations that have no deterministic algorithm
            yield
    finally:
        torch.utils.deterministic.fill_uninitialized_memory = fills
        torch.use_deterministic_algorithms(before, warn_only=warns)


def pulled(f: Flat, leaves: Sequence[torch.Tensor], w: Array) -> tuple[Array, list[Array]]:
    """Return the value of f at leaves that require a gradient, and the gradient of <w, f>."""
    y = f(leaves)
    zeros = [np.zeros(tuple(x.shape))[()] for x in leaves]
    if not y.requires_grad:
        return host(y), zeros
    ybar = torch.tensor(np.asarray(w), dtype=y.dtype, device=y.device).reshape(y.shape)
    bars = torch.autograd.grad(y, list(leaves), ybar, allow_unused=True)
    return host(y), [zero if bar is None else host(bar) for zero, bar in zip(zeros, bars, strict=True)]


def in_turn(
    f: Flat,
    xs: Sequence[torch.Tensor],
    others: Sequence[torch.Tensor],
    w: Array,
    seeded: Callable[[], AbstractContextManager[None]],
) -> Iterator[Run]:
    """Yield runs in which results that were kept, or memory that was not written, would show."""

    def run(name: str, leaves: Sequence[torch.Tensor]) -> Run:
        inputs = [host(x) for x in leaves]
        with torch.enable_grad(), seeded():
            return Run(name, inputs, *pulled(f, leaves, w))

    def fresh(xs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        return [x.detach().clone().requires_grad_() for x in xs]

    leaves = fresh(xs)
    inputs = [host(x) for x in leaves]
    with torch.enable_grad(), seeded():
        first = f(leaves)
        ybar = torch.tensor(np.asarray(w), dtype=first.dtype, device=first.device).reshape(first.shape)
        bars = torch.autograd.grad(first, leaves, ybar, allow_unused=True) if first.requires_grad else [None] * len(xs)
    with torch.no_grad():
        for leaf, other in zip(leaves, others, strict=True):
            leaf.copy_(other)
    yield run("changed values, same memory", leaves)
    kept = [np.zeros(np.shape(x)) if bar is None else host(bar) for x, bar in zip(inputs, bars, strict=True)]
    yield Run("the first results, after a second call", inputs, host(first), kept)
    yield run("the first values again, fresh memory", fresh(xs))
    yield run("changed values, fresh memory", fresh(others))
    yield run("non-contiguous inputs", [_strided(x).requires_grad_() for x in xs])
    with filled_with_nan():
        yield run("outputs prefilled with nan", fresh(xs))


def _strided(x: torch.Tensor) -> torch.Tensor:
    """Return a tensor of the same values whose memory has gaps, and its axes in the opposite order."""
    if x.dim() == 0:
        return x.detach().clone()
    wide = torch.zeros((*reversed(x.shape), 2), dtype=x.dtype, device=x.device)
    view = wide[..., 0].permute(*reversed(range(x.dim())))
    return view.copy_(x.detach())


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
