"""What a function reads besides its arguments, as it is at a call: noted, and put back while the call is checked.

That is the contents of arrays, and what closures, globals and attributes are bound to, in the function itself and in the
user's functions and objects that it reaches.
"""

import contextlib
import io
import os
import random
import signal
import sys
import threading
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field
from functools import cache, partial
from types import CellType, FunctionType, MethodType, ModuleType
from typing import Any, NoReturn

from gradcli.classes import dataclass
from gradcli.project.capture.definitions import ReportedDefinitions, definition_of
from gradcli.tracing.captured import UNBOUND, content_of_cell, nested_codes

_MOST_COPIED = 2**18  # bytes of an array that is copied; of a larger one there is a fingerprint
_MOST_READ = 2**18  # bytes of an array that its fingerprint reads
_DEEPEST = 5
_MOST_ARRAYS = 64
_MOST_BINDINGS = 512
_PLAIN = (str, bytes, int, float, complex, bool, type(None))


@dataclass(frozen=True, slots=True)
class HeldArray:
    """An array that a function reads, with its fingerprint and, if it is not large, its content."""

    array: Any
    fingerprint: int
    content: Any

    @property
    def size(self) -> int:
        """The bytes of the copied content."""
        return 0 if self.content is None else int(self.content.nbytes)

    @property
    def changed(self) -> bool:
        """Whether the array has another content now."""
        return _fingerprint(self.array) != self.fingerprint


@dataclass(frozen=True, slots=True)
class Binding:
    """A cell of a closure, a name of a module or an attribute of an object, and what it was bound to."""

    holder: Any  # a cell, a dictionary, a class, or an object with slots
    name: Any
    value: Any

    def now(self) -> Any:
        """Return what it is bound to now."""
        if isinstance(self.holder, CellType):
            return content_of_cell(self.holder)
        if isinstance(self.holder, dict):
            return self.holder.get(self.name, UNBOUND)
        return getattr(self.holder, self.name, UNBOUND)

    def bind(self, value: Any) -> None:
        """Bind it to a value."""
        if isinstance(self.holder, dict):
            if value is UNBOUND:
                self.holder.pop(self.name, None)
            else:
                self.holder[self.name] = value
        elif value is not UNBOUND:
            setattr(self.holder, "cell_contents" if isinstance(self.holder, CellType) else self.name, value)


@dataclass(slots=True)
class State:
    """All that some functions read besides their arguments."""

    arrays: list[HeldArray] = field(default_factory=list)
    bindings: list[Binding] = field(default_factory=list)
    lists: list[tuple[list[Any], list[Any]]] = field(default_factory=list)  # each with its content

    def rebind(self) -> None:
        """Bind all names to what they were bound to; the contents of arrays stay."""
        for each in self.bindings:
            if each.now() is not each.value:
                each.bind(each.value)
        for found, held in self.lists:
            if len(found) != len(held) or any(x is not y for x, y in zip(found, held, strict=True)):
                found[:] = held

    @property
    def size(self) -> int:
        """The bytes of what was copied."""
        return sum(each.size for each in self.arrays)


def capture_state(parts: Sequence[Any]) -> State:
    """Return what functions and other values read, as it is now."""
    np = sys.modules.get("numpy")
    if np is None:
        return State()
    walk = _Walk(np.ndarray)
    for part in parts:
        walk.visit(part, _DEEPEST)
    return State([_hold_array(array) for array in walk.arrays.values()], walk.bindings, walk.lists)


@contextmanager
def restored_state(state: State) -> Iterator[None]:
    """Put a state back, and the present one afterwards."""
    bound = [(each, each.now()) for each in state.bindings]
    present = State(lists=[(found, [*found]) for found, _ in state.lists])
    state.rebind()
    known = (each for each in state.arrays if each.changed and each.content is not None)
    changed = [each for each in known if each.array.flags.writeable]
    contents = [each.array.copy() for each in changed]
    for held in changed:
        held.array[...] = held.content
    try:
        yield
    finally:
        for held, content in zip(changed, contents, strict=True):
            held.array[...] = content
        for each, value in bound:
            each.bind(value)
        present.rebind()


class _Walk:
    """Goes from functions to all that they read."""

    def __init__(self, array: type) -> None:
        self._array = array
        self._seen: set[int] = set()
        self.arrays: dict[int, Any] = {}
        self.bindings: list[Binding] = []
        self.lists: list[tuple[list[Any], list[Any]]] = []

    def visit(self, x: Any, depth: int) -> None:
        """Note an array, or what a function, a container or an object holds."""
        if isinstance(x, _PLAIN) or id(x) in self._seen or depth == 0:
            return
        self._seen.add(id(x))
        if isinstance(x, self._array):
            if len(self.arrays) < _MOST_ARRAYS:
                self.arrays[id(x)] = x
            return
        for part in self._parts_of_value(x):
            self.visit(part, depth - 1)

    def _parts_of_value(self, x: Any) -> Iterator[Any]:
        if isinstance(x, FunctionType) and hasattr(x, "_gradcli"):
            yield x.__wrapped__  # type: ignore[attr-defined]  # the user's, which this one watches
        elif isinstance(x, FunctionType):
            if definition_of(x) is not None:
                yield from self._parts_of_function(x)
        elif isinstance(x, MethodType):
            yield from (x.__func__, x.__self__)
        elif isinstance(x, partial):
            yield from (x.func, x.args, x.keywords)
        elif isinstance(x, list):
            if len(x) <= _MOST_BINDINGS:
                self.lists.append((x, [*x]))
            yield from x[:_MOST_ARRAYS]
        elif isinstance(x, tuple | set | frozenset):
            yield from [*x][:_MOST_ARRAYS]
        elif isinstance(x, dict):
            yield from self._bind_names(x, [*x])
        elif isinstance(x, ModuleType):
            if _is_users_file(getattr(x, "__file__", None)):
                named = ((name, y) for name, y in vars(x).items() if not name.startswith("__"))
                data = [name for name, y in named if not callable(y) and not isinstance(y, ModuleType)]
                yield from self._bind_names(vars(x), data)
        elif isinstance(x, type):  # its methods are reached where they are called
            if _is_users_file(getattr(sys.modules.get(x.__module__), "__file__", None)):
                for name, value in [*vars(x).items()]:
                    if not name.startswith("__") and not callable(value) and not hasattr(value, "__get__"):
                        yield from self._bind_attribute(x, name)
        else:
            yield type(x)
            attributes = getattr(x, "__dict__", None)
            if isinstance(attributes, dict):
                yield from self._bind_names(attributes, [*attributes])
            for name in getattr(type(x), "__slots__", ()):
                yield from self._bind_attribute(x, name)

    def _bind_attribute(self, holder: Any, name: str) -> Iterator[Any]:
        value = getattr(holder, name, UNBOUND)
        if value is not UNBOUND:
            self._note_binding(holder, name, value)
            yield value

    def _parts_of_function(self, function: FunctionType) -> Iterator[Any]:
        for cell in function.__closure__ or ():
            value = content_of_cell(cell)
            self._note_binding(cell, None, value)
            yield value
        yield from function.__defaults__ or ()
        yield from (function.__kwdefaults__ or {}).values()
        names = dict.fromkeys(name for inner in nested_codes(function.__code__) for name in inner.co_names)
        yield from self._bind_names(function.__globals__, [*names])

    def _bind_names(self, scope: dict[Any, Any], names: Sequence[Any]) -> Iterator[Any]:
        for name in names[:_MOST_ARRAYS]:
            value = scope.get(name, UNBOUND)
            if value is not UNBOUND:
                if not isinstance(value, ModuleType | type | FunctionType):
                    self._note_binding(scope, name, value)
                yield value

    def _note_binding(self, holder: Any, name: Any, value: Any) -> None:
        if len(self.bindings) < _MOST_BINDINGS:
            self.bindings.append(Binding(holder, name, value))


@cache
def _is_users_file(file: str | None) -> bool:
    """Whether a file is the user's: not of an installed package, nor of the standard library."""
    return file is not None and ReportedDefinitions().holds(file) and "site-packages" not in file


def _hold_array(array: Any) -> HeldArray:
    keeps = array.nbytes <= _MOST_COPIED and array.flags.writeable
    return HeldArray(array, _fingerprint(array), array.copy() if keeps else None)


def _fingerprint(array: Any) -> int:
    """Return a number that differs for another content; of a large array, evenly spaced entries are read."""
    if array.dtype.hasobject or not array.size:
        return 0
    step = max(1, round((array.nbytes / _MOST_READ) ** (1 / max(1, array.ndim))))
    return zlib.crc32(array[(slice(None, None, step),) * array.ndim].tobytes())


# The state of a process while the checks call the user's functions again: what they change is put back afterwards.


class ChecksTimeUp(BaseException):
    """The time for the checks is over."""


class Exits(Exception):
    """A function that is called again ends the process."""


@contextlib.contextmanager
def protected_process_state() -> Iterator[None]:
    """Check in the block: standard input is empty, `os._exit` raises, and random generators are as before afterwards."""
    np, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    python = random.getstate()
    legacy = None if np is None else np.random.get_state()
    torchs = None if torch is None else torch.get_rng_state()
    leave, stdin = os._exit, sys.stdin

    def refuse(status: int) -> NoReturn:
        raise Exits(f"os._exit({status})")

    os._exit, sys.stdin = refuse, io.StringIO()
    try:
        yield
    finally:
        os._exit, sys.stdin = leave, stdin
        random.setstate(python)
        if np is not None:
            np.random.set_state(legacy)
        if torch is not None:
            torch.set_rng_state(torchs)


@contextlib.contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """Raise ChecksTimeUp in the block after so many seconds, where the system has timers and this is the main thread."""
    here = threading.current_thread() is threading.main_thread()
    if seconds is None or not here or not hasattr(signal, "setitimer"):
        yield
        return

    def over(number: int, frame: Any) -> NoReturn:
        raise ChecksTimeUp

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-6))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
