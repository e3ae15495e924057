"""Record the calls of torch's custom gradients: `autograd.Function`, and the operators of `torch.library`."""

import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from gradcli.project.capture.recorder import Given, GradientPair, Kept, RecordedCalls, Recorder, find_caller


def replacements(recorder: Recorder) -> Iterator[tuple[Any, str, Any]]:
    """Yield what is replaced in torch."""
    yield torch.autograd.Function, "apply", classmethod(_recording_apply(recorder))
    operators: Any = sys.modules.get("torch._library.custom_ops")
    if hasattr(operators, "CustomOpDef"):
        definition = operators.CustomOpDef
        yield definition, "register_autograd", _recording_register(recorder, definition.register_autograd)
    yield torch.library, "register_autograd", _recording_register(recorder, torch.library.register_autograd)


def _recording_apply(recorder: Recorder) -> Callable[..., Any]:
    """Return what `apply` of a custom function becomes: the same call, which is recorded."""
    plain = torch.autograd.Function.__dict__["apply"].__func__

    def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling() or not recorder.is_on or not _has_values(args):
            return plain(cls, *args, **kwargs)
        rule = inspect.unwrap(cls.backward)  # torch has decorators for it, such as once_differentiable
        recorded = recorder.recorded(rule, "backward", cls.__qualname__.replace("<locals>.", ""))
        kept = None if recorded is None else _keep_call(recorded, cls, rule, args)
        y = plain(cls, *args, **kwargs)
        if kept is not None:
            _keep_results(kept, y)
        return y

    return apply


def _recording_register(recorder: Recorder, plain: Callable[..., Any]) -> Callable[..., Any]:
    """Return a `register_autograd` whose operators record their calls when they save what their gradient needs."""

    @functools.wraps(plain)
    def register_autograd(op: Any, backward: Any, /, *, setup_context: Any = None, **more: Any) -> Any:
        operator = _operator_as_function(op)
        name = op if isinstance(op, str) else str(getattr(op, "_qualname", getattr(op, "__name__", op)))
        recorded = None if operator is None else recorder.recorded(backward, "backward", name)
        if recorded is None or getattr(setup_context, "_gradcli", False):
            return plain(op, backward, setup_context=setup_context, **more)

        def setup(ctx: Any, inputs: tuple[Any, ...], output: Any, **named: Any) -> None:
            if setup_context is not None:
                setup_context(ctx=ctx, inputs=inputs, output=output, **named)
            if recorder.is_on and not torch.compiler.is_compiling() and _has_values(inputs):
                _keep_call(recorded, operator, backward, inputs)

        setup._gradcli = True  # type: ignore[attr-defined]
        return plain(op, backward, setup_context=setup, **more)

    return register_autograd


def _operator_as_function(op: Any) -> Callable[..., Any] | None:
    """Return a registered operator as a function; None where its name is not known."""
    if isinstance(op, str):
        space, _, name = op.partition("::")
        return lambda *args: getattr(getattr(torch.ops, space), name.partition(".")[0])(*args)
    return op if callable(op) else None


def _keep_call(recorded: RecordedCalls, function: Any, rule: Any, args: tuple[Any, ...]) -> Kept | None:
    pair = GradientPair("backward", function, rule, "framework", own=len(args), options={"framework": "torch"})
    shapes = tuple(map(_shape_and_format, args))
    tensors = [[t for t in tree_leaves(x) if isinstance(t, torch.Tensor)] for x in args]
    moving = {k for k, each in enumerate(tensors) if any(t.requires_grad for t in each)}
    constants = frozenset(range(len(args))) - moving if moving else frozenset()
    at = find_caller("torch")
    given: Given = lambda: (tuple(map(_copy_tensor, args)), {})
    return recorded.keep_call(pair, shapes, given, at=at, constants=constants)


def _keep_results(kept: Kept, y: Any) -> None:
    """Keep what a call returned, and what its backward pass gets and gives when that runs."""
    outputs = [x for x in (y if isinstance(y, tuple | list) else [y]) if isinstance(x, torch.Tensor)]
    kept.value = [_copy_tensor(x) for x in outputs]
    node = next((x.grad_fn for x in outputs if x.grad_fn is not None), None)
    if node is not None:

        def ran(returned: Any, cotangents: Any) -> None:
            if kept.returned is None:
                kept.returned, kept.cotangents = [*map(_copy_tensor, returned)], [*map(_copy_tensor, cotangents)]

        node.register_hook(ran)


def _has_values(args: tuple[Any, ...]) -> bool:
    """Whether there are tensors, with values that can be copied now: not those of a trace, or of torch.func."""
    wrapped = torch._C._functorch.is_functorch_wrapped_tensor
    tensors = [x for x in tree_leaves(args) if isinstance(x, torch.Tensor)]
    plain = all(type(x) in (torch.Tensor, torch.nn.Parameter) and not wrapped(x) for x in tensors)
    return plain and any(x.is_floating_point() for x in tensors)


def _shape_and_format(x: Any) -> Any:
    return (tuple(x.shape), str(x.dtype)) if isinstance(x, torch.Tensor) else type(x).__name__


def _copy_tensor(x: Any) -> Any:
    """Return a copy of a tensor in the memory of the host, without its history; anything else as it is."""
    return x.detach().to("cpu", copy=True) if isinstance(x, torch.Tensor) else x
