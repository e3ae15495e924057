"""What a program's gradients were called with: a few calls of each definition, with copies of what they moved.

This runs inside the user's program: it imports the standard library alone, and numpy as soon as the program has.
"""

import contextlib
import functools
import inspect
import io
import itertools
import math
import os
import random
import signal
import sys
import sysconfig
import threading
import weakref
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from functools import cache, partial
from pathlib import Path
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Literal, NoReturn

from gradcli.classes import dataclass
from gradcli.tracing.provenance import is_gradcli_file
from gradcli.tracing.tracer import UNBOUND, content_of_cell, nested_codes
from gradcli.words import DerivativeKind

# Where a function is defined, and whether it is one that the report is about. By the standard library alone.

LIBRARIES = ("numpy", "scipy", "torch", "torchvision", "jax", "jaxlib", "tensorflow", "keras", "mlx", "gradcli")
_DIFFERENTIATE = (  # by themselves: what they return is not written by hand
    "torch", "jax", "jaxlib", "tensorflow", "keras", "mlx", "autograd", "casadi", "numdifftools", "pytensor", "gradcli",
)  # fmt: skip
_STANDARD = tuple({str(Path(sysconfig.get_path(name)).resolve()) for name in ("stdlib", "platstdlib")})
_MOST_WRAPPERS = 32
_SITES = ("site-packages", "dist-packages")


@dataclass(frozen=True, slots=True)
class Definition:
    """Where a function is defined: its name with the names around it, its file, and its first line."""

    name: str
    file: str
    line: int


class ReportedDefinitions:
    """The definitions that a report is about.

    By default those outside the standard library, numpy, scipy, the frameworks and gradcli; `sources` are folders to which
    they are narrowed, or the word `all`.
    """

    def __init__(self, sources: Sequence[str] = ()) -> None:
        self._all = "all" in sources
        folders = (os.path.realpath(source) for source in sources if source != "all")
        self._folders = tuple(folder.rstrip(os.sep) + os.sep for folder in folders)
        self.holds = cache(self._is_reported)

    def _is_reported(self, file: str) -> bool:
        """Whether the report is about what a file defines."""
        if self._all:
            return True
        path = os.path.realpath(file)
        if self._folders:
            return path.startswith(self._folders) or file.startswith("<")
        return not _is_library(path, LIBRARIES)


def definition_of(function: Any) -> Definition | None:
    """Return where a function is defined; None for one without Python source, or that a library derives by itself.

    Partials, bound methods, callable objects and decorated functions are those of the function inside.
    """
    for _ in range(_MOST_WRAPPERS):
        if isinstance(function, functools.partial):
            function = function.func
            continue
        if isinstance(function, FunctionType) and hasattr(function, "_gradcli"):  # ours, which watches the user's
            function = function.__wrapped__  # type: ignore[attr-defined]
            continue
        function = getattr(function, "__func__", function)
        code = getattr(function, "__code__", None)
        if isinstance(code, CodeType):
            path = _real(code.co_filename)
            wraps = hasattr(function, "__wrapped__")
            if _is_library(path, _DIFFERENTIATE) and not _is_standard(path):
                return None
            if not (wraps and set(_SITES) & set(Path(path).parts)) and not _is_standard(path):  # such as np.errstate
                # a decorator took over the name of the function inside
                name = code.co_qualname if wraps else getattr(function, "__qualname__", code.co_name)
                place = _absolute_path(code.co_filename), code.co_firstlineno
                return Definition(name.replace("<locals>.", ""), *place)
        inner = getattr(function, "__wrapped__", None) or getattr(function, "py_func", None)
        if inner is None and not inspect.isclass(function) and not isinstance(code, CodeType):
            inner = type(function).__dict__.get("__call__")
        if inner is None:
            return None
        function = inner
    return None


def definition_name(function: Any) -> str | None:
    """Return the name of a function as its definition has it; None if it has none."""
    definition = definition_of(function)
    return None if definition is None else definition.name


_real = cache(os.path.realpath)  # which asks the disk for each folder


@cache
def _absolute_path(file: str) -> str:
    return file if file.startswith("<") else str(Path(file).absolute())


@cache
def _is_library(path: str, names: tuple[str, ...]) -> bool:
    """Whether a file is part of the standard library, or of one of these packages."""
    if is_gradcli_file(path) or _is_standard(path):
        return True
    parts = Path(path).parts
    places = [k for k, part in enumerate(parts) if part in _SITES]
    return bool(places) and len(parts) > places[-1] + 1 and parts[places[-1] + 1].removesuffix(".py") in names


def _is_standard(path: str) -> bool:
    if path.startswith("<frozen"):
        return True
    return path.startswith(_STANDARD) and not set(_SITES) & set(Path(path).parts)


# What a function reads besides its arguments, as it is at a call: noted, and put back while the call is checked.
#
# That is the contents of arrays, and what closures, globals and attributes are bound to, in the function itself and in the
# user's functions and objects that it reaches.

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
            if definition_of(x) is None:
                return
            for cell in x.__closure__ or ():
                value = content_of_cell(cell)
                self._note_binding(cell, None, value)
                yield value
            yield from (*(x.__defaults__ or ()), *(x.__kwdefaults__ or {}).values())
            names = dict.fromkeys(name for inner in nested_codes(x.__code__) for name in inner.co_names)
            yield from self._bind_names(x.__globals__, [*names])
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


# What a program's gradients were called with.

Convention = Literal[
    "plain", "transposed", "along", "weighted", "elementwise", "curve", "mesh", "ends", "framework", "layer"
]
Given = Callable[[], tuple[tuple[Any, ...], dict[str, Any]]]
_MOST_SHAPES = 16  # sets of shapes and formats of which calls are kept, for each gradient
OVERHEAD = 200  # bytes of a kept call beside its arrays
_OF_WRAPPED = ("__module__", "__name__", "__qualname__", "__doc__")  # attributes that a function that records has, too


@dataclass(frozen=True, slots=True)
class GradientPair:
    """A function and its hand-written gradient, and how a caller such as scipy calls the two.

    `gradient` is called with `own` arguments of the caller, of which that at `wrt` is differentiated, and then with the
    user's. If `joint`, `function` returns its value before others, and `part` says which part of what `gradient` returns
    is the gradient; None stands for all of it.
    """

    kind: DerivativeKind
    function: Callable[..., Any]
    gradient: Callable[..., Any]
    convention: Convention = "plain"
    wrt: int = 0
    own: int = 1
    joint: bool = False
    part: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Kept:
    """One call of a gradient that is kept.

    `args` are those of the call, with copies of those that the caller gave; `returned` is a copy of the gradient, `value`
    that of the function at the same place if it was called there just before. `state` is what the functions
    read besides. `at` is where the user's code began it, as file and line.
    """

    pair: GradientPair
    number: int
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    returned: Any = None
    value: Any = None
    state: State = field(default_factory=State)
    at: tuple[str, int] | None = None
    changes_input: bool = False
    reuses_array: bool = False
    cotangents: Any = None
    constants: frozenset[int | str] = frozenset()  # positions and names of arguments that no derivative reaches
    drawn: bool = False
    process: int = 0
    size: int = 0


# Which calls of a gradient are kept: the first, the one of largest norm, and others drawn evenly.

FIRST, LARGEST = -1, -2  # places of a kept call; the drawn ones are counted from 0
# times the squared norm so far: less is not kept, so that slow growth does not keep every call; with each call that is
# kept, more is asked for
_LARGER, _STRICTER, _MOST_LARGER = 1.02, 1.05, 1.5


class Drawn:
    """The calls of one gradient with arguments of the same shapes and formats, of which a few are kept.

    Calls are drawn so that each has the same chance, whatever their number, and that most calls cost one comparison.

    Source  Li (1994), Reservoir-sampling algorithms of time complexity O(n(1 + log(N/n))), algorithm L.
    """

    def __init__(self, keep: int, seed: str, *, seeks_largest: bool = True) -> None:
        self._keep, self._seed, self._seeks_largest = keep, seed, seeks_largest and keep > 1
        self.restart()

    def restart(self) -> None:
        """Begin again, as before the first call."""
        self.seen = 0
        self.largest = 0.0 if self._seeks_largest else math.inf
        self._count = self._keep - 1 - self._seeks_largest
        self._random = random.Random(self._seed)
        self._weight = 1.0
        self._larger = _LARGER
        self.following = 2 if self._count else 0  # the number of the next call that is drawn; 0 for none

    def is_near(self, calls: int) -> bool:
        """Whether one of the next calls is kept, of so many; the norm of their input counts for nothing."""
        return self.seen == 0 or self.seen < self.following <= self.seen + calls

    def places(self, norm: float) -> tuple[int, ...]:
        """Return where the next call is kept; `norm` is that of its input, 0 if it is not known."""
        self.seen += 1
        if self.seen == 1:
            self.largest = max(self.largest, norm)
            return (FIRST,)
        found: tuple[int, ...] = (self._draw_place(),) if self.seen == self.following else ()
        if norm > self._larger * self.largest:
            self.largest = norm
            self._larger = min(_MOST_LARGER, self._larger * _STRICTER)
            found = (*found, LARGEST)
        return found

    def _draw_place(self) -> int:
        """Return the place of the call that is drawn now, and choose the next one."""
        filled = self.seen - 2
        slot = filled if filled < self._count else self._random.randrange(self._count)
        if filled + 1 < self._count:
            self.following += 1
            return slot
        self._weight *= math.exp(math.log(1.0 - self._random.random()) / self._count)
        skipped = math.log(1.0 - self._random.random()) / math.log1p(-self._weight) if self._weight < 1 else 0.0
        self.following += int(skipped) + 1
        return slot


class Room:
    """The bytes that kept values may take, shared by all gradients of a program."""

    def __init__(self, most: int) -> None:
        self._left = most
        self._lock = threading.Lock()

    def take(self, size: int) -> bool:
        """Take bytes; return whether there were enough."""
        with self._lock:
            if size > self._left:
                return False
            self._left -= size
            return True

    def holds(self, size: int) -> bool:
        """Whether there is room for so many bytes."""
        return size <= self._left

    def give_back(self, size: int) -> None:
        """Give back the bytes of a call that is no longer kept."""
        with self._lock:
            self._left += size


class RecordedCalls:
    """All calls of one gradient: how many, and those that are kept."""

    def __init__(self, recorder: "Recorder", definition: Definition, kind: DerivativeKind, of: str | None) -> None:
        self.recorder, self.definition, self.kind, self.of = recorder, definition, kind, of
        self.not_kept = 0  # calls, for lack of room
        self.outside = 0  # calls that would be kept, but the function is not finite there
        self.elsewhere = 0  # calls in other processes
        self.unclear: set[str] = set()  # what the report has to say about its calls
        self.none_because = "it raised, or its arguments were given by name"  # where no call is kept
        self.numbers = itertools.count(1)
        self._drawn: dict[Any, Drawn] = {}
        self.places: dict[tuple[Any, int], Kept] = {}
        self.returned: Callable[[], Any] = lambda: None  # the array that the last kept call returned

    @property
    def calls(self) -> int:
        """How often it was called."""
        following = next(self.numbers)
        self.numbers = itertools.count(following)
        return following - 1 + self.elsewhere

    def drawn(self, shapes: Any, *, seeks_largest: bool = True) -> Drawn | None:
        """Return the calls with arguments of these shapes; None if there are too many different ones."""
        found = self._drawn.get(shapes)
        if found is None and len(self._drawn) < _MOST_SHAPES:
            seed = f"{self.recorder.seed} {self.definition.name} {self.definition.line} {shapes}"
            found = self._drawn[shapes] = Drawn(self.recorder.most_kept, seed, seeks_largest=seeks_largest)
        elif found is None:
            self.unclear.add(f"calls of the first {_MOST_SHAPES} sets of shapes are kept; there were more")
        return found

    @contextlib.contextmanager
    def without_harm(self) -> Iterator[None]:
        """Record in the block; what cannot be recorded is noted, and the program goes on."""
        try:
            yield
        except Exception as error:  # whatever the user's objects raise
            self.unclear.add(f"a call could not be recorded: {type(error).__name__}: {str(error)[:100]}")

    def restart(self) -> None:
        """Forget all calls, as in a process that was just forked."""
        self.numbers = itertools.count(1)
        self.places.clear()
        for drawn in self._drawn.values():
            drawn.restart()

    def keep_call(self, pair: GradientPair, shapes: Any, given: Given, **more: Any) -> Kept | None:
        """Count a call of a framework's function, and keep it with what `given` returns, if it is one of those.

        `given` copies the arguments. Return the kept call, None if it is not kept.
        """
        number = next(self.numbers)
        drawn = self.drawn(shapes, seeks_largest=False)
        places = () if drawn is None else drawn.places(0.0)
        if not places:
            return None
        with self.without_harm():
            args, kwargs = given()
            kept = Kept(pair, number, args, kwargs, **more)
            kept.size = OVERHEAD + count_bytes((*args, *kwargs.values()))
            self.keep(shapes, places, kept)
            return kept
        return None

    def keep(self, shapes: Any, places: Iterable[int], call: Kept) -> None:
        """Keep a call at its places, if there is room for it, and drop those that were there."""
        if not self.recorder.room.take(call.size):
            self.not_kept += 1
            return
        before = [self.places.get((shapes, place)) for place in places]
        self.places.update(((shapes, place), call) for place in places)
        for dropped in before:
            if dropped is not None and all(dropped is not other for other in self.places.values()):
                self.recorder.room.give_back(dropped.size)
        if self.recorder.on_kept is not None:
            self.recorder.on_kept(self, call)

    def kept(self) -> list[Kept]:
        """Return the kept calls in their order, each once."""
        each = {id(call): call for call in self.places.values()}
        return sorted(each.values(), key=lambda call: (call.process, call.number))


class Recorder:
    """The gradients of one program."""

    def __init__(self, keep: int, most_bytes: int, seed: int, scope: ReportedDefinitions) -> None:
        self.most_kept, self.seed, self._scope = keep, seed, scope
        self.room = Room(most_bytes)
        self.found: dict[tuple[Definition, DerivativeKind], RecordedCalls] = {}
        self.on_kept: Callable[[RecordedCalls, Kept], None] | None = None  # called with each call that is kept
        self.is_on = True

    def recorded(self, gradient: Any, kind: DerivativeKind, of: str | None) -> RecordedCalls | None:
        """Return the record of a gradient; None if the report is not about its definition."""
        definition = definition_of(gradient)
        if definition is None or not self._scope.holds(definition.file):
            return None
        return self.of_definition(definition, kind, of)

    def of_definition(self, definition: Definition, kind: DerivativeKind, of: str | None) -> RecordedCalls:
        """Return the record of a definition."""
        key = definition, kind
        if key not in self.found:
            self.found[key] = RecordedCalls(self, definition, kind, of)
        return self.found[key]

    def all(self) -> Iterator[RecordedCalls]:
        """Yield the gradients that were called."""
        yield from (recorded for recorded in self.found.values() if recorded.calls)


@dataclass(slots=True)
class Last:
    """The last call of a function: its input with the norm that it had then, and its value."""

    x: Any = None
    norm: float = 0.0
    value: Any = None

    def at(self, x: Any) -> Any:
        """Return a copy of the value, if the last call was at `x`; else None."""
        np = sys.modules.get("numpy")
        if np is None or self.value is None or self.x is None:
            return None
        same = self.x is x or (np.shape(self.x) == np.shape(x) and np.array_equal(self.x, x))
        return copy_arrays(self.value) if same and squared_norm(self.x) == self.norm else None


def note_last_call(function: Callable[..., Any], last: Last, wrt: int = 0) -> Callable[..., Any]:
    """Return a function that notes its last call."""

    def call(*args: Any, **kwargs: Any) -> Any:
        y = function(*args, **kwargs)
        if len(args) > wrt:
            last.x = args[wrt]
            last.norm, last.value = squared_norm(args[wrt]), y
        return y

    return functools.update_wrapper(call, function, _OF_WRAPPED, ())


def record_calls(
    recorded: RecordedCalls, pair: GradientPair, last: Last, at: tuple[str, int] | None, inner: Callable[..., Any]
) -> Callable[..., Any]:
    """Return `inner`, which calls the gradient of a pair, as a function that records its calls.

    Cost  for a call that is not kept, about one microsecond and the norm of its input.
    """
    recorder = recorded.recorder
    wrt: Any = slice(1, None) if pair.convention == "curve" else pair.wrt
    shapes: Any = None  # the shape and the format of the last input
    drawn: Drawn | None = None
    ndarray = getattr(sys.modules.get("numpy"), "ndarray", None)
    # one line can define the gradients of several models, told apart by what each is bound to, or holds
    owner, plain = getattr(pair.gradient, "__self__", None), getattr(pair.gradient, "__func__", pair.gradient)
    held = map(content_of_cell, getattr(plain, "__closure__", None) or ())
    group = type(owner).__qualname__, tuple(type(x).__qualname__ for x in held)

    def call(*args: Any, **kwargs: Any) -> Any:
        nonlocal shapes, drawn
        number = next(recorded.numbers)
        if not recorder.is_on or len(args) <= pair.wrt:
            return inner(*args, **kwargs)
        x = args[wrt]
        here = (x.shape, x.dtype) if type(x) is ndarray else (_shape_of_value(x), None)
        if here != shapes:
            shapes, drawn = here, recorded.drawn((group, here))
        largest = 0.0 if drawn is None else drawn.largest
        places = () if drawn is None else drawn.places(squared_norm(x))
        if not places:
            return inner(*args, **kwargs)
        if not recorder.room.holds(count_bytes(args[: pair.own])):
            recorded.not_kept += 1
            return inner(*args, **kwargs)
        kept: Kept | None = None
        with recorded.without_harm():
            kept = _copy_call(pair, number, args, kwargs, at)
            kept.value = last.at(x)
        y = inner(*args, **kwargs)
        with recorded.without_harm():
            if kept is not None and _complete_call(kept, args[wrt], wrt, y, recorded):
                recorded.keep((group, shapes), places, kept)
            elif drawn is not None:
                recorded.outside += 1
                drawn.largest = largest
        return y

    return functools.update_wrapper(call, inner, _OF_WRAPPED, ())


def _copy_call(
    pair: GradientPair, number: int, args: tuple[Any, ...], kwargs: dict[str, Any], at: tuple[str, int] | None
) -> Kept:
    """Return a call that is kept, with copies of what it is given."""
    own = len(args) if pair.convention == "curve" else pair.own
    kept = Kept(pair, number, (*map(copy_arrays, args[:own]), *args[own:]), kwargs, at=at)
    kept.state = capture_state((pair.function, pair.gradient, *args[own:], kwargs))
    kept.size = OVERHEAD + sum(map(count_bytes, kept.args[:own])) + kept.state.size
    return kept


def _complete_call(kept: Kept, x: Any, wrt: Any, y: Any, recorded: RecordedCalls) -> bool:
    """Note what a kept call returned, and whether it changed its input; return whether the function is finite there.

    A search refuses a step to where it is not.
    """
    gradient = y if kept.pair.part is None else y[kept.pair.part]
    kept.returned = copy_arrays(gradient)
    if kept.pair.joint and kept.pair.part is not None:
        kept.value = copy_arrays(y[0])
    np, floats, before = sys.modules.get("numpy"), getattr(getattr(x, "dtype", None), "kind", "") == "f", kept.args[wrt]
    kept.changes_input = not (np is None or x is before or np.array_equal(x, before, equal_nan=floats))
    kept.reuses_array = gradient is not None and recorded.returned() is gradient
    recorded.returned = reference_to(gradient, None)
    kept.size += count_bytes(kept.returned) + count_bytes(kept.value)
    return _is_finite(kept.value)


def squared_norm(x: Any) -> float:
    """Return the squared norm of an input; 0 where it has none, as for text, and infinity where it overflows."""
    np = sys.modules.get("numpy")
    try:
        if np is not None and isinstance(x, np.ndarray) and x.dtype.kind == "f":
            with np.errstate(all="ignore"):
                flat = x if x.ndim == 1 else x.ravel()
                return float(flat.dot(flat))
        if isinstance(x, tuple | list):
            return sum(map(squared_norm, x))
        return float(x) * float(x) if isinstance(x, int | float) else 0.0
    except (ArithmeticError, TypeError, ValueError):
        return 0.0


def copy_arrays(x: Any) -> Any:
    """Return a copy of arrays, also in lists, tuples and dicts; sparse matrices too; anything else as it is."""
    if type(x) in (tuple, list):
        return type(x)(copy_arrays(part) for part in x)
    if type(x) is dict:
        return {name: copy_arrays(part) for name, part in x.items()}
    if hasattr(x, "dtype") and hasattr(x, "copy"):
        return x.copy()
    return x


def _shape_of_value(x: Any) -> Any:
    """Return the shape of a value that is no plain array."""
    if type(x) in (tuple, list):
        return (len(x), *map(_shape_of_value, x[:1]))
    shape = getattr(x, "shape", ())
    return shape if type(shape) is tuple else ()


def _is_finite(value: Any) -> bool:
    """Whether a value of the function is finite, or not known."""
    np = sys.modules.get("numpy")
    try:
        return value is None or np is None or bool(np.all(np.isfinite(value)))
    except (TypeError, ValueError):
        return True


_INDEX = 16  # bytes of the indices of an entry of a sparse tensor, about


def count_bytes(x: Any) -> int:
    """Return the bytes of an array, dense or sparse, or of those in a list or a tuple."""
    if isinstance(x, tuple | list):
        return sum(map(count_bytes, x))
    if str(getattr(x, "layout", "")).startswith("torch.sparse"):
        return int(x._nnz()) * (int(x.element_size()) + _INDEX)
    return int(getattr(x, "nbytes", 0) or 0) or int(getattr(getattr(x, "data", None), "nbytes", 0) or 0)


def reference_to(x: Any, otherwise: Any) -> Callable[[], Any]:
    """Return what gives an object as long as it lives; `otherwise` for a value that has no such reference."""
    try:
        return weakref.ref(x)
    except TypeError:
        return lambda: otherwise


# Where in the source a call begins that a library makes.


def find_caller(*packages: str) -> tuple[str, int] | None:
    """Return file and line of the innermost frame outside of gradcli and these packages."""
    frame: Any = sys._getframe(1)
    skipped = ("gradcli", *packages)
    while frame is not None:
        if str(frame.f_globals.get("__name__", "")).partition(".")[0] not in skipped:
            return frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back
    return None
