"""Memory shared between traced arrays: views, and writes that every view must see.

Tracers are values: a write makes a new value. What numpy users expect of `y = x[1:]; y[0] = 5` is kept here: a view
remembers its base, how it reads from it and how its own new value is written into it. A write goes to the base of all
and comes back to every view that is still alive, so that reading costs nothing.
"""

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradcli.core.tracer import Tracer

Read = Callable[["Tracer"], "Tracer"]
Write = Callable[["Tracer", "Tracer"], "Tracer"]


class Storage:
    """The memory behind one traced array: its base (none if it owns its memory), its views, and a count of writes."""

    __slots__ = ("base", "read", "version", "views", "write")

    def __init__(self, base: "Tracer | None" = None, read: Read | None = None, write: Write | None = None) -> None:
        self.base = base
        self.read = read
        self.write = write
        self.version = 0
        self.views: list[weakref.ref[Any]] = []


def storage(x: "Tracer") -> Storage:
    """Return the storage of `x`, made when it is first asked for."""
    if x.storage is None:
        x.storage = Storage()
    return x.storage


def view(base: "Tracer", read: Read, write: Write) -> "Tracer":
    """Return `read(base)`, sharing memory with it: `write(base, new)` is the base after the view became `new`."""
    seen = read(base)
    seen.storage = Storage(base, read, write)
    storage(base).views.append(weakref.ref(seen))
    return seen


def assign(x: "Tracer", new: "Tracer") -> None:
    """Let `x` stand for `new` from now on, in every array that shares its memory."""
    memory = storage(x)
    if memory.base is not None and memory.write is not None:
        assign(memory.base, memory.write(memory.base, new))
        return
    x.rebind(new)
    _refresh(x)


def _refresh(x: "Tracer") -> None:
    memory = storage(x)
    memory.version += 1
    memory.views = [ref for ref in memory.views if ref() is not None]
    for ref in memory.views:
        seen = ref()
        if seen is not None and seen.storage is not None and seen.storage.read is not None:
            seen.rebind(seen.storage.read(x))
            _refresh(seen)
