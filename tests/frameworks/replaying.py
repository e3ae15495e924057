"""A torch function recorded call by call and run again in numpy through the table, for tests of the table."""

from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from gradcli.core.shapes import shape
from gradcli.core.tracer import Tracer, plain
from gradcli.frameworks.torch.aten import LAID_OUT, UP_TO_SIGN
from gradcli.interpreters.program import value_and_pulled

LEFT_OUT = {"dtype", "layout", "device", "pin_memory", "memory_format", "non_blocking", "implicit"}
TYPES = (torch.dtype, torch.layout, torch.device, torch.memory_format)
UNSET = {"empty_like", "new_empty", "new_empty_strided"}  # their entries are whatever memory held: zeros, here
VALUES, SLOPES = 1e-12, 1e-9  # of the largest entry
ROUNDED = 1e-13  # what may be left of numbers of size 1 that cancel


CUTS = ContextVar("CUTS", default=True)  # whether detached values stand still: torch also detaches results it keeps


class Missing(Exception):
    """An operation that the table does not have."""


class Differs(Exception):
    """A result that is not torch's."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call of aten: its operands, with tensors in them, what they held before, and its results after."""

    name: str
    writes: bool
    drawn: bool
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    held: dict[int, Any]
    results: list[Any]
    after: list[Any]


def array(t: torch.Tensor) -> Any:
    """Return a copy of a tensor as numpy has it, 0-d as a number."""
    return t.detach().resolve_conj().resolve_neg().cpu().numpy().copy()[()]


def leaves(a: Any) -> Iterator[Any]:
    """Yield what is in nested lists, tuples and dicts."""
    if isinstance(a, Mapping):
        a = tuple(a.values())
    if isinstance(a, list | tuple):
        for part in a:
            yield from leaves(part)
    else:
        yield a


def tensors(a: Any) -> list[torch.Tensor]:
    """Return the tensors in nested lists, tuples and dicts."""
    return [t for t in leaves(a) if isinstance(t, torch.Tensor)]


@dataclass
class Recording(TorchDispatchMode):
    """The calls of aten while it is active."""

    calls: list[Call] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func.overloadpacket.__name__
        held = {id(t): array(t) for t in tensors((args, kwargs))}
        y = func(*args, **kwargs)
        if name in UNSET:
            y.zero_()
        writes = name.endswith("_") and not name.endswith("__")
        results = list(leaves(y)) if isinstance(y, list | tuple) else [y]
        after = [array(t) if isinstance(t, torch.Tensor) else t for t in results]
        drawn = torch.Tag.nondeterministic_seeded in func.tags
        self.calls.append(Call(name, writes, drawn, tuple(args), dict(kwargs), held, results, after))
        return y


def replay(calls: list[Call], table: Mapping[str, Any], inputs: dict[int, Any], check: bool = False) -> dict[int, Any]:
    """Return the value of every tensor that depends on the inputs, all given by the tensors' ids.

    Raises  Missing; Differs where `check` is on and a result is not torch's.
    """
    values = dict(inputs)
    traced = [x for x in inputs.values() if isinstance(x, Tracer)]
    hold = traced[0].hold if traced else np.array

    def filled(a: Any) -> Any:
        if isinstance(a, torch.Tensor):
            return values.get(id(a), call.held.get(id(a)))
        return (
            type(a)(filled(part) for part in a) if isinstance(a, list | tuple) else None if isinstance(a, TYPES) else a
        )

    for call in calls:
        if call.name == "_local_scalar_dense" or not any(id(t) in values for t in tensors((call.args, call.kwargs))):
            continue
        name = call.name.removesuffix("_") if call.writes else call.name
        row = table.get(name)
        if row is None and call.drawn:
            values |= {id(t): hold(after) for t, after in zip(call.results, call.after, strict=True)}
            continue
        if row is None:
            raise Missing(call.name)
        args, kwargs = filled(list(call.args)), {k: filled(a) for k, a in call.kwargs.items() if k not in LEFT_OUT}
        y = hold(plain(args[0])) if name == "detach" and CUTS.get() else row(*args, **kwargs)
        if call.writes:
            target = call.args[0]
            if name in LAID_OUT or not shape(args[0]):
                values[id(target)] = y
            else:
                if id(target) not in values:
                    values[id(target)] = hold(args[0])
                values[id(target)][...] = y
            y = values[id(target)]
        ours = list(y) if isinstance(y, tuple | list) else [y]
        for t, mine, theirs in zip(call.results, ours, call.after, strict=False):
            if not isinstance(t, torch.Tensor):
                continue
            if mine is None or not (t.is_floating_point() or t.is_complex()):
                mine = _compared(call, mine, theirs) if check and mine is not None and name != "_to_copy" else theirs
            elif check:
                _compared(call, mine, theirs)
            values[id(t)] = mine
    return values


def _compared(call: Call, mine: Any, theirs: Any) -> Any:
    if call.name in UP_TO_SIGN | {"detach"}:
        mine, theirs = np.abs(mine), np.abs(theirs)
    if np.shape(mine) != np.shape(theirs):
        raise Differs(f"{call.name}: shape {np.shape(mine)} for {np.shape(theirs)}")
    if np.size(theirs) and not near(mine, theirs, VALUES):
        raise Differs(f"{call.name}: {np.ravel(mine)[:4]} for {np.ravel(theirs)[:4]}")
    return theirs


def near(a: Any, b: Any, rtol: float) -> bool:
    """Whether two arrays differ by less than a part of their largest finite entry."""
    a, b = np.asarray(a), np.asarray(b)
    size = np.max(np.abs(b), initial=0.0, where=np.isfinite(b))
    return np.allclose(a, b, rtol=0.0, atol=rtol * float(size) + ROUNDED, equal_nan=True)


def checked(f: Callable[[], Any], xs: list[torch.Tensor], table: Mapping[str, Any]) -> list[Call]:
    """Run f, which uses xs, in torch and through the table; return its calls.

    Raises  Missing; Differs where a result of any operation, or the gradient of the whole, is not torch's.
    """
    recording = Recording()
    with recording:
        y = f()
    calls = recording.calls
    ys = [t for t in tensors(y) if t.is_floating_point()]
    with np.errstate(all="ignore"):
        replay(calls, table, {id(x): array(x) for x in xs}, check=True)
        wrt = [x for x in xs if x.requires_grad]
        ys = [t for t in ys if t.requires_grad]
        if wrt and ys:
            _same_slopes(calls, table, xs, wrt, ys)
    return calls


def _same_slopes(calls: list[Call], table: Any, xs: list[Any], wrt: list[Any], ys: list[Any]) -> None:
    draw = np.random.default_rng(0)
    weights = [draw.normal(size=tuple(t.shape)) for t in ys]
    total = sum((t * torch.as_tensor(w)).sum() for t, w in zip(ys, weights, strict=True))
    theirs = torch.autograd.grad(total, wrt, allow_unused=True)
    fixed = {id(x): array(x) for x in xs if not x.requires_grad}

    def g(*values: Any) -> Any:
        found = replay(calls, table, dict(zip(map(id, wrt), values, strict=True)) | fixed)
        y: Any = np.float64(0)
        for t, w in zip(ys, weights, strict=True):
            y = y + np.sum(found.get(id(t), array(t)) * w)
        return y

    _, ours = value_and_pulled(g, [array(x) for x in wrt], lambda y: np.float64(1))
    for x, mine, bar in zip(wrt, ours, theirs, strict=True):
        expected = np.zeros(tuple(x.shape)) if bar is None else array(bar)
        if not near(mine, expected, SLOPES):
            raise Differs(f"gradient: {np.ravel(mine)[:4]} for {np.ravel(expected)[:4]}")
