"""What a torch gradient costs, and what it is when torch runs it otherwise: in mixed precision, or deterministically."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from gradcli.frameworks.framework import Measured

_RUNS = 3
_ENOUGH = 0.05  # seconds: what takes longer is measured twice, for the first run may compile


def in_mixed_precision(function: Callable[..., Any], device: str, dtype: torch.dtype) -> Callable[..., Any]:
    """Return a function that runs under autocast, as a training loop does."""
    kind = torch.device(device).type

    def autocast(*args: Any, **kwargs: Any) -> Any:
        with torch.autocast(kind, dtype):
            return function(*args, **kwargs)

    return autocast


@contextmanager
def deterministic() -> Iterator[None]:
    """Let torch take deterministic algorithms only, and raise where there is none; what was set before is put back."""
    before, warns = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before, warn_only=warns)


def measured(
    forward: Callable[[Sequence[torch.Tensor]], torch.Tensor], leaves: Sequence[torch.Tensor], ybar: torch.Tensor
) -> Measured | None:
    """Return the time and the memory of a run and of the way back; None where nothing requires a gradient."""
    on_gpu = any(x.is_cuda for x in leaves)
    best: Measured | None = None
    for k in range(_RUNS):
        found = _once(forward, leaves, ybar, on_gpu)
        if found is None:
            return None
        best = found if best is None or found.forward + found.backward < best.forward + best.backward else best
        if k and found.forward + found.backward > _ENOUGH:
            break
    return best


def _once(forward: Any, leaves: Sequence[torch.Tensor], ybar: torch.Tensor, on_gpu: bool) -> Measured | None:
    before = _start(on_gpu)
    start = time.perf_counter()
    y = forward(leaves)
    _finish(on_gpu)
    half = time.perf_counter()
    if not y.requires_grad:
        return None
    own = {x.untyped_storage()._cdata for x in leaves}
    kept = {cdata: nbytes for cdata, nbytes in _saved(y) if cdata not in own}
    begun = time.perf_counter()
    y.backward(ybar)
    _finish(on_gpu)
    end = time.perf_counter()
    for x in leaves:
        x.grad = None
    peak = torch.cuda.max_memory_allocated() - before if on_gpu else None
    return Measured(half - start, end - begun, sum(kept.values()), peak)


def _saved(y: torch.Tensor) -> Iterator[tuple[int, int]]:
    """Yield the storages, with their bytes, that the graph of a result keeps for the way back.

    The graph is read rather than hooked into: torch.func refuses to differentiate under hooks.
    """
    waiting, seen, names = [y.grad_fn], set(), {}
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        waiting += [before for before, _ in node.next_functions]
        kind = type(node)
        if kind not in names:
            names[kind] = [n for n in dir(node) if n.startswith("_saved_") or n == "saved_tensors"]
        for name in names[kind]:
            held = getattr(node, name)
            for t in held if isinstance(held, tuple | list) else (held,):
                if isinstance(t, torch.Tensor):
                    yield t.untyped_storage()._cdata, t.untyped_storage().nbytes()


def _start(on_gpu: bool) -> int:
    """Return the bytes that are taken on the GPU before a run."""
    if not on_gpu:
        return 0
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    return int(torch.cuda.memory_allocated())


def _finish(on_gpu: bool) -> None:
    if on_gpu:
        torch.cuda.synchronize()
