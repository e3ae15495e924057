"""One watched program: begin to watch, end, and what was recorded. There is one at a time in a process."""

import atexit
import importlib
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from gradcli.capture import scipy_functions
from gradcli.capture.children import Children
from gradcli.capture.definitions import Scope, name_of
from gradcli.capture.patches import Patches
from gradcli.capture.recorder import Last, Pair, Recorder, watched
from gradcli.words import DerivativeKind

G = TypeVar("G", bound=Callable[..., Any])
_FRAMEWORKS = {
    "torch": "gradcli.capture.torch", "jax": "gradcli.capture.jax", "tensorflow": "gradcli.capture.tensorflow",
    "mlx.core": "gradcli.capture.mlx",
}  # fmt: skip
DEFAULT_BYTES = 256 * 2**20
_CURRENT: list["Session"] = []


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is recorded: how many calls of each gradient, in how many bytes, of which definitions, and the seed."""

    keep: int = 3
    keep_bytes: int = DEFAULT_BYTES
    sources: tuple[str, ...] = ()
    seed: int = 0


class Session:
    """The watching of one program."""

    def __init__(self, wanted: Wanted) -> None:
        self.recorder = Recorder(wanted.keep, wanted.keep_bytes, wanted.seed, Scope(wanted.sources))
        self._wanted = wanted
        self._patches = Patches()
        self._children = Children(self.recorder)
        self._exit = os._exit
        self._folder: Path | None = None

    def begin(self, at_exit: Callable[[int], int] | None = None) -> None:
        """Begin to watch. `at_exit` is called with the status before `os._exit` ends the process, and returns the status."""
        self._folder = self._children.begin()
        self._watch(at_exit)

    def begin_in(self, folder: Path) -> None:
        """Begin to watch in a child that was not forked."""
        self._children.begin_in(folder)
        atexit.register(self._children.ended)
        self._watch(None)

    def _watch(self, at_exit: Callable[[int], int] | None) -> None:
        for module in scipy_functions.modules():
            self._patches.add(module, partial(scipy_functions.replacements, self.recorder))
        for package, ours in _FRAMEWORKS.items():
            self._patches.add(package, partial(_of_framework, self.recorder, ours))
        self._patches.add("multiprocessing.spawn", self._spawning)
        self._patches.begin()

        def leave(status: int) -> NoReturn:
            if self._children.is_child:
                self._children.ended()
            elif at_exit is not None:
                status = at_exit(status)
            self._exit(status)

        os._exit = leave
        _CURRENT.append(self)

    @property
    def is_child(self) -> bool:
        """Whether this process is a child of the program."""
        return self._children.is_child

    def end_child(self) -> None:
        """Write what a child has recorded."""
        self._children.ended()

    def end(self) -> Recorder:
        """Stop watching, put everything back, and return what was recorded."""
        self.recorder.is_on = False
        self._patches.end()
        os._exit = self._exit
        if self in _CURRENT:
            _CURRENT.remove(self)
        self._children.merge()
        return self.recorder

    def watch(self, function: Callable[..., Any], gradient: G, kind: DerivativeKind) -> G:
        """Return a gradient that records its calls."""
        recorded = self.recorder.recorded(gradient, kind, name_of(function))
        if recorded is None:
            return gradient
        frame = sys._getframe(2)
        at = frame.f_code.co_filename, frame.f_lineno
        of_hvp = kind == "hvp"
        pair = Pair(kind, function, gradient, "along" if of_hvp else "plain", own=2 if of_hvp else 1)
        return watched(self.recorder, recorded, pair, Last(), at, gradient)  # type: ignore[return-value]

    def _spawning(self, name: str) -> Iterator[tuple[Any, str, Any]]:
        """Yield what makes a process that is started anew watch its gradients too."""
        spawn = sys.modules[name]
        plain = spawn.get_preparation_data

        def get_preparation_data(name: str) -> dict[str, Any]:
            more = {} if self._folder is None else {"gradcli": Stowaway(self._wanted, str(self._folder))}
            return {**plain(name), **more}

        yield spawn, "get_preparation_data", get_preparation_data


class Stowaway:
    """Travels with the data of a process that is started anew, and begins to watch there when it is unpacked."""

    def __init__(self, wanted: Wanted, folder: str) -> None:
        self._state = wanted, folder

    def __getstate__(self) -> tuple[Wanted, str]:
        return self._state

    def __setstate__(self, state: tuple[Wanted, str]) -> None:
        self._state = state
        Session(state[0]).begin_in(Path(state[1]))


def watch(function: Callable[..., Any], gradient: G, kind: DerivativeKind = "grad") -> G:
    """Return a gradient that `gradcli run` checks with the function, at arguments that it was called with.

    For pairs that a program calls by itself; outside `gradcli run` it returns the gradient untouched. `kind` says what
    `gradient` returns: `grad`, `jac`, `hess`, or `hvp` for a function of the arguments and a vector.

    >>> def loss(x): return (x * x).sum()
    >>> def loss_grad(x): return 2 * x
    >>> watch(loss, loss_grad) is loss_grad
    True
    """
    return _CURRENT[-1].watch(function, gradient, kind) if _CURRENT else gradient


def _of_framework(recorder: Recorder, ours: str, package: str) -> Iterator[tuple[Any, str, Any]]:
    """Yield what is replaced in a framework."""
    yield from importlib.import_module(ours).replacements(recorder)
