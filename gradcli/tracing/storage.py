"""Memory shared between traced arrays: views, and writes that every view must see.

A tracer is a value, and a write makes a new value. In numpy, `y = x[1:]; y[0] = 5` also changes `x`; this module makes
traced arrays behave in the same way. A view stores its base and the numpy call that made it. To find which entries of
the base it holds, the same call is made on an array of positions, but only when something is written. A write changes
the owner of the memory and then updates every view that is still alive, so that reads cost nothing.
"""

import operator
import weakref
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from gradcli.errors import TraceEnded
from gradcli.tracing.bind import bind
from gradcli.tracing.shapes import size

_MANY = 64


class Shared(Protocol):
    """A traced array, which is rebound to a new value after a write to its memory."""

    storage: "Storage | None"

    @property
    def shape(self) -> tuple[int, ...]: ...

    def rebind(self, other: Any) -> None: ...


class Storage:
    """The memory behind one traced array: its views, a count of writes and, for a view, its base and the call on it."""

    __slots__ = ("base", "index", "version", "views")

    def __init__(self, base: Shared | None = None, index: Callable[[Any], Any] | None = None) -> None:
        self.base = base
        self.index = index
        self.version = 0
        self.views: list[weakref.ref[Any]] = []


def storage(x: Shared) -> Storage:
    """Return the storage of `x`, which is created on the first call."""
    if x.storage is None:
        x.storage = Storage()
    return x.storage


def view(base: Shared, index: Callable[[Any], Any]) -> Any:
    """Return `index(base)`, as a view where numpy would return one; `index` accepts tracers and plain arrays."""
    seen = index(base)
    if not seen.shape or seen is base or not base.shape:
        return seen
    seen.storage = Storage(base, index)
    views = storage(base).views
    if len(views) >= _MANY:
        views[:] = [ref for ref in views if ref() is not None]
    views.append(weakref.ref(seen))
    return seen


def positions(x: Shared) -> tuple[Shared, Any]:
    """Return the owner of the memory behind `x`, and the positions of the entries of `x` in it.

    If numpy made a copy of the base and no view, `x` becomes the owner of its memory.

    Shapes  the positions count the owner's entries in C order, and have the shape of `x`.
    """
    memory = storage(x)
    if memory.base is None or memory.index is None:
        return x, np.arange(size(x)).reshape(x.shape)
    owner, of_base = positions(memory.base)
    mine = memory.index(of_base)
    if np.may_share_memory(mine, of_base):
        return owner, mine
    memory.base = memory.index = None
    return x, np.arange(size(x)).reshape(x.shape)


def shares(x: Shared, y: Shared) -> bool:
    """Return whether two traced arrays have an entry of memory in common."""
    (owner, mine), (other, yours) = positions(x), positions(y)
    return owner is other and np.intersect1d(mine, yours).size > 0


def assign(x: Shared, new: Shared) -> None:
    """Replace the value of `x` by `new`, in every array that shares its memory.

    Shapes  `new` has the shape of `x`.
    Raises  ValueError if `x` is a view that numpy makes read-only.
    """
    owner, at = positions(x)
    if not at.flags.writeable:
        raise ValueError("assignment destination is read-only")
    if owner is x:
        x.rebind(new)
    else:
        flat = bind(operator.setitem, bind(np.reshape, owner, -1), at, new)
        owner.rebind(bind(np.reshape, flat, owner.shape))
    _refresh(owner)


def write(x: Any, index: Any, value: Any) -> None:
    """Write `value` into `x` at `index`, as `x[index] = value` does.

    Raises  TraceEnded if `x` is a plain array; ValueError if it is a read-only view.
    """
    if not hasattr(x, "storage"):
        raise TraceEnded(
            "a traced result is stored into a plain array, where its derivative is lost",
            do="write a = a + t instead of a += t, or make the array inside the function",
        )
    assign(x, bind(operator.setitem, x, index, value))


def _refresh(x: Shared) -> None:
    memory = storage(x)
    memory.version += 1
    for seen in [view for ref in memory.views if (view := ref()) is not None]:
        positions(seen)  # if the call turns out to copy, this ends the sharing
        if seen.storage.base is not None:
            seen.rebind(seen.storage.index(x))
            _refresh(seen)
    memory.views = [ref for ref in memory.views if (view := ref()) is not None and view.storage.base is not None]
