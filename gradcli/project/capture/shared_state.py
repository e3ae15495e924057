"""Which recorded functions can be named from outside of the program, and their arguments by name."""

import dataclasses
import functools
import inspect
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from gradcli.project.capture.recorder import Kept


class NotReachable(Exception):
    """A function cannot be named; the message is the reason, as a part of a sentence."""


@dataclass(frozen=True, slots=True)
class Name:
    """A function as it is named: its module, the file of this, and the names from the module on."""

    module: str
    file: str
    name: str


def without_partials(kept: Kept) -> Kept:
    """Return a call of the functions inside partials, with the arguments that these hold. Raises NotReachable."""
    while isinstance(kept.pair.gradient, functools.partial):
        function: Any = kept.pair.function
        gradient = kept.pair.gradient
        held = (function.args, function.keywords) if isinstance(function, functools.partial) else ((), {})
        same = len(held[0]) == len(gradient.args) and held[1].keys() == gradient.keywords.keys()
        if not same or any(
            x is not y for x, y in zip((*held[0], *held[1].values()), _held(gradient, held[1]), strict=True)
        ):
            raise NotReachable("its partial holds other arguments than that of the function")
        moved = kept.pair.wrt + len(gradient.args)
        pair = dataclasses.replace(kept.pair, function=function.func, gradient=gradient.func, wrt=moved)
        kept = dataclasses.replace(
            kept, pair=pair, args=(*gradient.args, *kept.args), kwargs={**gradient.keywords, **kept.kwargs}
        )
    return kept


def _held(partial: functools.partial[Any], names: Iterable[str]) -> tuple[Any, ...]:
    return (*partial.args, *(partial.keywords[name] for name in names))


def named(function: Any) -> Name:
    """Return the name by which a module holds a function. Raises NotReachable."""
    owner = getattr(function, "__self__", None)
    holder = type(owner) if owner is not None and not isinstance(owner, type | ModuleType) else function
    module = sys.modules.get(getattr(holder, "__module__", None) or "")
    file = getattr(module, "__file__", None)
    if module is None or file is None:
        raise NotReachable("no file of Python defines it")
    if holder is not function:
        return Name(module.__name__, file, f"{_global_of(module, owner)}.{function.__name__}")
    name = getattr(function, "__qualname__", type(function).__name__)
    if name.endswith("<lambda>"):
        raise NotReachable("a lambda has no name")
    if "<locals>" in name:
        raise NotReachable("it is defined inside a function")
    try:
        found = functools.reduce(getattr, name.split("."), module)
    except AttributeError:
        found = None
    if found is not function and found != function:
        if getattr(module, _global_name(module, function), None) is not function:
            raise NotReachable("its module has no such name")
        name = _global_name(module, function)
    return Name(module.__name__, file, name)


def arguments(kept: Kept) -> dict[str, Any]:
    """Return the arguments of a kept call by the names that the function has for them. Raises NotReachable."""
    function: Callable[..., Any] = kept.pair.function
    parameters = getattr(function, "forward", function)
    try:
        signature = inspect.signature(parameters)
        names = [p.name for p in signature.parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    except (TypeError, ValueError):
        raise NotReachable("its parameters are not known") from None
    if names[:1] == ["ctx"]:
        names = names[1:]
    if len(kept.args) > len(names):
        raise NotReachable("it takes its arguments without names")
    return dict(zip(names, kept.args, strict=False)) | kept.kwargs


def _global_of(module: ModuleType, owner: Any) -> str:
    name = _global_name(module, owner)
    if not name:
        raise NotReachable(f"it is a method of an object of {type(owner).__name__} that no module holds")
    return name


def _global_name(module: ModuleType, x: Any) -> str:
    return next((name for name, held in vars(module).items() if held is x), "")
