"""The table of handlers: for each numpy function, the function that runs in its place when an argument is traced."""

from collections.abc import Callable
from typing import Any

from gradcli.errors import NoRule

Function = Callable[..., Any]
HANDLERS: dict[Function, Function] = {}
METHODS: dict[str, Function] = {}  # handlers of ufunc methods: reduce, accumulate, outer, at, reduceat
VIEWS: set[Function] = set()  # functions of one array whose result may be a view of it; storage.py checks whether it is
REASONS: dict[Function, tuple[str, str]] = {}  # why a function has no rule, and what to write instead
_LATE: list[Callable[[Function], Function | None]] = []


def handles(*functions: Function | None) -> Callable[[Function], Function]:
    """Register the decorated function as the handler of each of `functions`.

    None, which stands for a function that the installed numpy lacks, is skipped.
    """

    def declare(handler: Function) -> Function:
        HANDLERS.update({function: handler for function in functions if function is not None})
        return handler

    return declare


def handles_method(name: str) -> Callable[[Function], Function]:
    """Register the decorated function as the handler of a method of every ufunc; its first argument is the ufunc."""

    def declare(handler: Function) -> Function:
        METHODS[name] = handler
        return handler

    return declare


def found_late(lookup: Callable[[Function], Function | None]) -> None:
    """Add a look-up for functions without an entry in HANDLERS, such as those of scipy.special, which is imported late."""
    _LATE.append(lookup)


def handler(function: Function) -> Function:
    """Return the handler that runs in place of `function` on traced arguments.

    Raises  NoRule if there is none; the error says why, and what to write instead.
    """
    known = HANDLERS.get(function)
    if known is not None:
        return known
    original = getattr(function, "__wrapped__", None)  # a stand-in that replaces a numpy function in a trace
    if original in HANDLERS:
        return HANDLERS[original]
    for lookup in _LATE:
        late = lookup(function)
        if late is not None:
            HANDLERS[function] = late
            return late
    name = getattr(function, "__name__", str(function))
    why, do = REASONS.get(function, ("", "write it with functions that have one: gradcli ops"))
    raise NoRule(f"{name} has no derivative rule" + (f": {why}" if why else ""), do=do)


def bind(function: Function, *args: Any, **kwargs: Any) -> Any:
    """Call the handler of the numpy `function`.

    Raises  NoRule if there is none.
    """
    return handler(function)(*args, **kwargs)
