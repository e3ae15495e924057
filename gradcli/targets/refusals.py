"""Functions whose trace was tested: those that passed, and those that were refused, with the reason."""

import weakref
from collections.abc import Callable
from typing import Any, TypeVar

from gradcli.errors import TraceDiffers

T = TypeVar("T")
Function = Callable[..., Any]
_PASSED: weakref.WeakSet[Function] = weakref.WeakSet()
_REFUSED: weakref.WeakKeyDictionary[Function, str] = weakref.WeakKeyDictionary()


def has_passed(f: Function) -> bool:
    """Whether the trace of a function is known to be the function."""
    return _ask(_PASSED.__contains__, f) or False


def remember_pass(f: Function) -> None:
    """Let `has_passed` know this function."""
    _ask(_PASSED.add, f)


def remember_refusal(f: Function, why: str) -> None:
    """Let `refuse_again` refuse this function."""
    _ask(lambda f: _REFUSED.__setitem__(f, why), f)


def refuse_again(f: Function, refusal: str | None = None) -> None:
    """Raise TraceDiffers if a function was refused at an earlier call, for `refusal` or for what is remembered of it."""
    why = refusal or _ask(_REFUSED.get, f)
    if why is not None:
        says = f"{name_of(f)} was refused at an earlier call: {why}"
        raise TraceDiffers(says, do="let it depend on its arguments alone, and define it anew")


def name_of(f: Function) -> str:
    """Return the name of a function, or of the type of an object that is called."""
    return str(getattr(f, "__name__", type(f).__name__))


def _ask(table: Callable[[Function], T], f: Function) -> T | None:
    """Return what a table answers; None for a function that is not hashable, or has no weak references."""
    try:
        return table(f)
    except TypeError:
        return None
