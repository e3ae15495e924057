"""From a numpy function to what runs in its place when an argument is traced."""

from collections.abc import Callable
from typing import Any

from gradcli.errors import NoRule

HANDLERS: dict[Callable[..., Any], Callable[..., Any]] = {}
_LATE: list[Callable[[Callable[..., Any]], Callable[..., Any] | None]] = []


def handles(*functions: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare that the decorated function stands for each of the numpy `functions` on traced arguments."""

    def declare(handler: Callable[..., Any]) -> Callable[..., Any]:
        for function in functions:
            HANDLERS[function] = handler
        return handler

    return declare


def found_late(lookup: Callable[[Callable[..., Any]], Callable[..., Any] | None]) -> None:
    """Add a look-up for functions that are met before they are imported here (scipy.special's)."""
    _LATE.append(lookup)


def handler(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return what stands for `function` on traced arguments.

    Raises  NoRule.
    """
    known = HANDLERS.get(function)
    if known is not None:
        return known
    for lookup in _LATE:
        late = lookup(function)
        if late is not None:
            HANDLERS[function] = late
            return late
    name = getattr(function, "__name__", str(function))
    raise NoRule(f"{name} has no derivative rule", do="write it with functions that have one: gradcli ops")


def bind(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call what stands for the numpy `function`."""
    return handler(function)(*args, **kwargs)
