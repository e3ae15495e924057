"""From a numpy function to what runs in its place when an argument is traced."""

from collections.abc import Callable
from typing import Any

from gradcli.errors import NoRule

Function = Callable[..., Any]
HANDLERS: dict[Function, Function] = {}
METHODS: dict[str, Function] = {}  # of ufuncs: reduce, accumulate, outer, at, reduceat
VIEWS: set[Function] = set()  # functions of one array whose result may share its memory; storage asks numpy whether
REASONS: dict[Function, tuple[str, str]] = {}  # why a function has no rule, and what to write instead
_LATE: list[Callable[[Function], Function | None]] = []


def handles(*functions: Function | None) -> Callable[[Function], Function]:
    """Declare that the decorated function stands for each of the numpy `functions`, those it has, on traced arguments."""

    def declare(handler: Function) -> Function:
        HANDLERS.update({function: handler for function in functions if function is not None})
        return handler

    return declare


def handles_method(name: str) -> Callable[[Function], Function]:
    """Declare that the decorated function stands for a method of every ufunc: it is called with the ufunc first."""

    def declare(handler: Function) -> Function:
        METHODS[name] = handler
        return handler

    return declare


def found_late(lookup: Callable[[Function], Function | None]) -> None:
    """Add a look-up for functions that are met before they are imported here (scipy.special's)."""
    _LATE.append(lookup)


def handler(function: Function) -> Function:
    """Return what stands for `function` on traced arguments.

    Raises  NoRule.
    """
    known = HANDLERS.get(function)
    if known is not None:
        return known
    original = getattr(function, "__wrapped__", None)  # a stand-in, met while it acts
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
    """Call what stands for the numpy `function`."""
    return handler(function)(*args, **kwargs)
