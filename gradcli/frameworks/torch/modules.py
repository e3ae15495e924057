"""Modules of torch as functions of their parameters, and functions that use modules and tensors of their file."""

import contextlib
import functools
import inspect
import weakref
from collections.abc import Callable
from typing import Any

import torch

from gradcli.frameworks.framework import Placed

FORMATS = {
    "float64": torch.float64, "float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16,
    "tf32": torch.float32,
}  # fmt: skip
_LAST: weakref.WeakKeyDictionary[Any, Placed] = weakref.WeakKeyDictionary()  # where what a function uses was put last


def of_module(module: torch.nn.Module) -> Callable[..., Any]:
    """Return a module as a function of its inputs and parameters; every call gets fresh copies of its buffers.

    The module keeps the parameters of its last call, because a backward pass may call it again, as that of a checkpoint does.
    """
    own = {name: (p, _places(module, p)) for name, p in module.named_parameters()}
    buffers = {name: (b.clone(), _places(module, b)) for name, b in module.named_buffers()}

    def call(*args: Any, parameters: Any = None, **kwargs: Any) -> Any:
        for name, (p, places) in own.items():
            for holder, leaf in places:
                holder._parameters[leaf] = (parameters or {}).get(name, p)
        for b, places in buffers.values():
            fresh = b.clone()
            for holder, leaf in places:
                holder._buffers[leaf] = fresh
        return module(*args, **kwargs)

    taken = list(inspect.signature(module.forward).parameters.values())
    keyword = inspect.Parameter("parameters", inspect.Parameter.KEYWORD_ONLY, default=None)
    last = [p for p in taken if p.kind is p.VAR_KEYWORD]
    call.__signature__ = inspect.Signature([*(p for p in taken if p not in last), keyword, *last])  # type: ignore[attr-defined]
    call.__name__ = type(module).__name__
    return call


def _places(module: torch.nn.Module, x: torch.Tensor) -> list[tuple[torch.nn.Module, str]]:
    """Return where a module holds a tensor: tied weights have several places."""
    return [
        (holder, leaf)
        for holder in module.modules()
        for leaf, held in [*holder._parameters.items(), *holder._buffers.items()]
        if held is x
    ]


def in_format(function: Any, placed: Placed) -> Callable[..., Any]:
    """Return a function whose modules and tensors, of its file and its closure, are in a format whenever it is called.

    Functions that use none are returned as they are.
    """
    inner = inspect.unwrap(getattr(function, "__func__", function))
    if not any(_is_converted(x) for x in (*getattr(inner, "__globals__", {}).values(), *_closure(inner))):
        return function  # type: ignore[no-any-return]

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        if _LAST.get(inner) != placed:
            _convert(inner, placed)
            _LAST[inner] = placed
        return function(*args, **kwargs)

    with contextlib.suppress(TypeError, ValueError):
        run.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    return run


def _is_converted(x: Any) -> bool:
    is_constant = isinstance(x, torch.Tensor) and x.is_floating_point() and not isinstance(x, torch.nn.Parameter)
    return is_constant or isinstance(x, torch.nn.Module)


def _closure(function: Any) -> list[Any]:
    found = []
    for cell in getattr(function, "__closure__", None) or ():
        with contextlib.suppress(ValueError):
            found.append(cell.cell_contents)
    return [x for x in found if isinstance(x, torch.nn.Module)]


def _convert(function: Any, placed: Placed) -> None:
    """Convert modules and tensors in a function's globals, and modules in its closure, to the inputs' format."""
    dtype, space = FORMATS[placed.dtype], getattr(function, "__globals__", {})
    for name, x in list(space.items()):
        if _is_converted(x) and isinstance(x, torch.Tensor):
            space[name] = x.detach().to(placed.device, dtype).requires_grad_(x.requires_grad)
    for x in (*space.values(), *_closure(function)):
        if isinstance(x, torch.nn.Module):
            x.to(placed.device, dtype)
