"""Recognition of the framework that a function is written in, from the names it uses, or else from its module's imports."""

import inspect
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from gradcli.core.closures import closure, codes
from gradcli.errors import BadOption
from gradcli.frameworks.framework import framework

_PACKAGES = {
    "torch": "torch",
    "jax": "jax",
    "jaxlib": "jax",
    "tensorflow": "tensorflow",
    "keras": "tensorflow",
    "mlx": "mlx",
}
_NUMPY = {"numpy", "scipy", "math", "gradcli"}
_DEPTH = 4  # levels of calls that are followed within the same module


def recognised(found: Any, module: ModuleType | None, wanted: str | None) -> str | None:
    """Return the framework that a target is written in, or None for plain Python and numpy.

    Raises  BadOption if the target uses several frameworks and the user did not choose one.
    """
    if wanted is not None:
        return None if wanted == "numpy" else framework(wanted).name
    tops = set(_tops(found, 0, set()))
    named = {_PACKAGES[top] for top in tops if top in _PACKAGES}
    if not named and not tops & _NUMPY and module is not None:
        named = {_PACKAGES[top] for top in map(_top, vars(module).values()) if top in _PACKAGES}
    if len(named) > 1:
        several = " and ".join(sorted(named))
        raise BadOption(f"the function uses {several}", do=f"say which it is: --framework {min(named)}")
    return next(iter(named), None)


def _tops(found: Any, depth: int, seen: set[int]) -> Iterator[str]:
    """Yield the top-level package of every type and name that a callable uses."""
    found = getattr(found, "__func__", found)
    if id(found) in seen or depth > _DEPTH:
        return
    seen.add(id(found))
    for one in inspect.getmro(found if inspect.isclass(found) else type(found)):
        yield one.__module__.partition(".")[0]
    wraps = inspect.isfunction(found) and hasattr(found, "__wrapped__")
    if wraps:
        yield from _tops(found.__wrapped__, depth + 1, seen)
    inner = inspect.unwrap(found) if callable(found) and not wraps else found
    code = getattr(inner, "__code__", None)
    if code is None:
        if inspect.isfunction(type(found).__call__):
            yield from _tops(type(found).__call__, depth + 1, seen)
        for name in ("fun", "func", "f"):  # attributes in which wrappers (custom_vjp, partial) keep the function
            if callable(getattr(found, name, None)):
                yield from _tops(getattr(found, name), depth + 1, seen)
        return
    space = {**inner.__globals__, **closure(inner)}
    named = [space[name] for each in codes(code) for name in (*each.co_names, *each.co_freevars) if name in space]
    named += [x for x in inspect.get_annotations(inner).values() if not isinstance(x, str)]
    for x in named:
        yield _top(x)
        if callable(x) and _home(x) == inner.__module__:
            yield from _tops(x, depth + 1, seen)


def _top(x: Any) -> str:
    return _home(x).partition(".")[0]


def _home(x: Any) -> str:
    """Return the module of a value: of a module its own name; no attribute of a module is asked for, which may import."""
    if isinstance(x, ModuleType):
        return x.__name__
    return str(getattr(x, "__module__", None) or type(x).__module__)
