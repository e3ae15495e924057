"""The calls of custom autograd functions, and of modules, during one run, with their actual arguments."""

import contextlib
import copy
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from gradcli.core.provenance import is_users, place_of, position
from gradcli.frameworks.framework import Call, Flat

_MOST = 64  # calls that are collected at most


def custom_calls(run: Callable[[], Any], every: bool) -> list[Call]:
    """Return one call of each custom function for each set of argument shapes in a run; also one of each module if `every`."""

    found: dict[Any, Call] = {}

    def seen(function: type[torch.autograd.Function], args: tuple[Any, ...]) -> None:
        key = (function, tuple(_key(a) for a in args))
        if key in found or len(found) >= _MOST:
            return
        with contextlib.suppress(RuntimeError):  # a module that keeps results cannot be copied, so its call is left out
            own, alone = _with_own_modules(function, args)
            constants = frozenset(k for k, a in enumerate(args) if not _requires_grad(a))
            found[key] = Call(function.__name__, alone, own, {}, position(), place_of(function.backward), constants)

    users = _users(torch.autograd.Function)
    if not users and not every:
        return []
    with ExitStack() as stack:
        for function in users:
            stack.enter_context(_watched(function, function.forward, seen))
        if every:
            stack.enter_context(_hooked(found))
        run()
    return list(found.values())


def declined(f: Flat, leaves: Sequence[torch.Tensor]) -> frozenset[int]:
    """Return the positions of leaves that custom functions take as arguments, and whose backward returns None for them."""
    passed: set[int] = set()

    def seen(function: type[torch.autograd.Function], args: tuple[Any, ...]) -> None:
        passed.update(k for k, x in enumerate(leaves) if any(a is x or _is_clone(a, x) for a in args))

    with ExitStack() as stack:
        for function in _users(torch.autograd.Function):
            stack.enter_context(_watched(function, function.forward, seen))
        y = f(leaves)
        if not passed or not y.requires_grad:
            return frozenset()
        bars = torch.autograd.grad(y, list(leaves), torch.ones_like(y), allow_unused=True)
    return frozenset(k for k in passed if bars[k] is None)


def _is_clone(a: Any, leaf: torch.Tensor) -> bool:
    """Whether a tensor is the clone of a leaf that a custom function gets in its place."""
    behind: tuple[Any, ...] = getattr(getattr(a, "grad_fn", None), "next_functions", ())
    return len(behind) == 1 and getattr(behind[0][0], "variable", None) is leaf and a.grad_fn.name() == "CloneBackward0"


def _users(kind: type) -> list[Any]:
    """Return the subclasses of a class that users' files define."""
    found: list[type] = []
    waiting: list[type] = list(kind.__subclasses__())
    while waiting:
        one = waiting.pop()
        waiting += one.__subclasses__()
        try:
            file = inspect.getfile(one)
        except (TypeError, OSError):
            continue
        if is_users(file):
            found.append(one)
    return found


@contextmanager
def _watched(function: Any, plain: Any, seen: Callable[[Any, tuple[Any, ...]], None]) -> Iterator[None]:
    """Report each forward call of a custom function to `seen` in the block."""
    own = vars(function).get("forward")
    separate = function.setup_context is not torch.autograd.Function.setup_context

    def forward(*args: Any, **kwargs: Any) -> Any:
        seen(function, args if separate else args[1:])
        return plain(*args, **kwargs)

    forward.__signature__ = inspect.signature(plain)  # type: ignore[attr-defined]
    function.forward = staticmethod(forward)
    try:
        yield
    finally:
        if own is not None:
            function.forward = own
        else:
            del function.forward


@contextmanager
def _hooked(found: dict[Any, Call]) -> Iterator[None]:
    """Collect the forward calls of the innermost modules in `found` in the block."""

    def hook(module: torch.nn.Module, args: Any) -> None:
        if next(module.children(), None) is None and id(module) not in found and len(found) < _MOST:
            own = copy.deepcopy(module)
            found[id(module)] = Call(type(module).__name__, own, tuple(map(_copied, args)), {}, position())

    handle = torch.nn.modules.module.register_module_forward_pre_hook(hook)
    try:
        yield
    finally:
        handle.remove()


def _with_own_modules(function: type[torch.autograd.Function], args: tuple[Any, ...]) -> tuple[Any, Callable[..., Any]]:
    """Return copies of the arguments, and a function that applies the custom function to them.

    If an argument is a module and another argument is one of its parameters (as in a checkpoint, whose backward pass calls the
    module again), the copied module uses what is passed for that parameter.
    """
    names = {
        k: [(n, name) for n, a in enumerate(args) if isinstance(a, torch.nn.Module) for name in _names(a, x)]
        for k, x in enumerate(args)
        if isinstance(x, torch.Tensor)
    }
    plain = applied(function)
    own = tuple(map(_copied, args))
    if not any(names.values()):
        return own, plain
    modules = {n: copy.deepcopy(a) for n, a in enumerate(args) if isinstance(a, torch.nn.Module)}
    own = tuple(modules.get(n, a) for n, a in enumerate(own))

    def apply(*given: Any) -> Any:
        for k, held in names.items():
            for n, name in held:
                holder, _, leaf = name.rpartition(".")
                modules[n].get_submodule(holder)._parameters[leaf] = given[k]
        return plain(*given)

    apply.__signature__ = inspect.signature(plain)  # type: ignore[attr-defined]
    apply.__name__ = function.__name__
    return own, apply


def _names(module: torch.nn.Module, x: torch.Tensor) -> list[str]:
    """Return the names under which a module holds a tensor as a parameter."""
    return [name for name, p in module.named_parameters(remove_duplicate=False) if p is x]


def _requires_grad(a: Any) -> bool:
    """Whether a tensor, a tensor in a structure or a parameter of a module requires a gradient."""
    if isinstance(a, torch.nn.Module):
        return any(p.requires_grad for p in a.parameters())
    return any(isinstance(x, torch.Tensor) and x.requires_grad for x in tree_leaves(a))


def _not_a_leaf(x: Any) -> Any:
    """Return a tensor that an operation may write into: torch refuses that for leaves that require a gradient."""
    return x.clone() if isinstance(x, torch.Tensor) and x.is_leaf and x.requires_grad else x


def _key(a: Any) -> Any:
    return (tuple(a.shape), a.dtype) if isinstance(a, torch.Tensor) else repr(a)[:80]


def _copied(a: Any) -> Any:
    return a.detach().clone() if isinstance(a, torch.Tensor) else a


def applied(function: type[torch.autograd.Function]) -> Callable[..., Any]:
    """Return the application of a custom function as a plain function, with the signature of its forward without ctx."""
    parameters = list(inspect.signature(function.forward).parameters.values())
    own_context = "setup_context" in vars(function) or not (parameters and parameters[0].name == "ctx")
    new = function.setup_context is not torch.autograd.Function.setup_context
    kept = parameters if new and own_context else parameters[1:]

    def apply(*args: Any, **kwargs: Any) -> Any:
        order = [*args, *(kwargs[p.name] for p in kept[len(args) :] if p.name in kwargs)]
        return function.apply(*map(_not_a_leaf, order))

    apply.__signature__ = inspect.Signature([p.replace(annotation=p.annotation) for p in kept])  # type: ignore[attr-defined]
    apply.__name__ = function.__name__
    return apply
