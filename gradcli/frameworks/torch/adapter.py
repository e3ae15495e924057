"""The adapter for torch: converts tensors, computes torch's own gradients, and records its functions."""

import contextlib
import copy
import functools
import inspect
import time
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, cast

import numpy as np
import torch
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import checkpoint

from gradcli.errors import BadOption, FunctionFailed, NotSupported
from gradcli.frameworks.framework import (
    CustomCall,
    Flat,
    Framework,
    Measured,
    Placed,
    Prepared,
    RecordedSteps,
    Run,
    Tensor,
    replace_attribute,
    reraise_as_runtime_error,
    with_parameters,
)
from gradcli.frameworks.torch.record import record_program, to_numpy
from gradcli.request.point import Array
from gradcli.targets.facts import Notice
from gradcli.targets.nesting import take_apart
from gradcli.targets.python import message_of
from gradcli.tracing.provenance import current_position, is_users_file, place_of_definition
from gradcli.words import Kind, Severity

_DIFFERENTIATING = {"grad", "backward", "jacobian", "hessian", "enable_grad"}  # names in functions that differentiate
_INSIDE = ("not require grad", "doesn't require grad", "requires_grad=False")  # of inputs that f must have require one
_BY_INPUTS: weakref.WeakSet[Any] = weakref.WeakSet()  # functions that differentiate with respect to their inputs inside
_MOST_ALONE = 8  # inputs at most, to be differentiated one at a time
_NO_FORWARD = ("jvp", "forward AD", "setup_context", "forward-mode", "forward mode")


class _WithCotangent(torch.autograd.Function):  # type: ignore[misc]
    """A number whose derivative by y is the cotangent."""

    @staticmethod
    def forward(ctx: Any, y: torch.Tensor, ybar: torch.Tensor) -> torch.Tensor:
        ctx.ybar = ybar
        return torch.zeros((), dtype=torch.float32, device=y.device)  # which every device has

    @staticmethod
    def backward(ctx: Any, *_: Any) -> tuple[torch.Tensor, None]:
        return ctx.ybar, None


def pull_back(
    y: torch.Tensor, leaves: Sequence[torch.Tensor], ybar: torch.Tensor, create_graph: bool = False
) -> Sequence[torch.Tensor | None]:
    """Return the gradient of <ybar, y> by each leaf; None where y does not depend on it.

    torch.autograd.grad(y, leaves, ybar) does the same, but imports sympy, which takes longer than most checks.
    """
    number = _WithCotangent.apply(y, ybar)
    with reraise_as_runtime_error():  # the user's backward passes and hooks raise errors of any type
        return torch.autograd.grad(number, list(leaves), allow_unused=True, create_graph=create_graph)  # type: ignore[no-any-return]


# The calls of custom autograd functions, and of modules, during one run, with their actual arguments.

_MOST = 64  # calls that are collected at most


def custom_calls(run: Callable[[], Any], every: bool) -> list[CustomCall]:
    """Return one call of each custom function for each set of argument shapes in a run; also one of each module if `every`."""

    found: dict[Any, CustomCall] = {}

    def seen(function: type[torch.autograd.Function], args: tuple[Any, ...]) -> None:
        key = (function, tuple(_argument_key(a) for a in args))
        if key in found or len(found) >= _MOST or any(map(_is_inside_vmap, args)):
            return
        with contextlib.suppress(RuntimeError):  # a module that keeps results cannot be copied, so its call is left out
            own, alone = _copy_call(function, args)
            rule = place_of_definition(inspect.unwrap(function.backward))
            constants = frozenset(k for k, a in enumerate(args) if not _requires_grad(a))
            has_forward = function.jvp is not torch.autograd.Function.jvp or len(constants) == len(args)
            found[key] = CustomCall(
                function.__name__, alone, own, {}, current_position(), rule, constants,
                no_forward="" if has_forward else f"{function.__name__} has no jvp",
            )  # fmt: skip

    users = find_user_subclasses(torch.autograd.Function)
    if not users and not every:
        return []
    with ExitStack() as stack:
        stack.enter_context(report_forward_calls(users, seen))
        if every:
            stack.enter_context(_collect_module_calls(found))
        run()
    return list(found.values())


def _is_inside_vmap(a: Any) -> bool:
    """Whether an argument is a tensor that exists inside a transformation of torch.func alone."""
    return isinstance(a, torch.Tensor) and torch._C._functorch.is_functorch_wrapped_tensor(a)


def find_declined_inputs(f: Flat, leaves: Sequence[torch.Tensor]) -> frozenset[int]:
    """Return the positions of leaves that custom functions take as arguments, and whose backward returns None for them."""
    passed: set[int] = set()

    def seen(function: type[torch.autograd.Function], args: tuple[Any, ...]) -> None:
        passed.update(k for k, x in enumerate(leaves) if any(a is x or _is_clone(a, x) for a in args))

    with report_forward_calls(find_user_subclasses(torch.autograd.Function), seen):
        y = f(leaves)
        if not passed or not y.requires_grad:
            return frozenset()
        bars = pull_back(y, leaves, torch.ones_like(y))
    return frozenset(k for k in passed if bars[k] is None)


def _is_clone(a: Any, leaf: torch.Tensor) -> bool:
    """Whether a tensor is the clone of a leaf that a custom function gets in its place."""
    behind: tuple[Any, ...] = getattr(getattr(a, "grad_fn", None), "next_functions", ())
    return len(behind) == 1 and getattr(behind[0][0], "variable", None) is leaf and a.grad_fn.name() == "CloneBackward0"


def find_user_subclasses(kind: type) -> list[Any]:
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
        if is_users_file(file):
            found.append(one)
    return found


@contextmanager
def report_forward_calls(functions: Sequence[Any], seen: Callable[[Any, tuple[Any, ...]], None]) -> Iterator[None]:
    """Report each forward call of custom functions to `seen` in the block.

    A function whose class inherits its forward, or calls that of its base, is reported, and its base is not.
    """

    def reporting(function: Any, plain: Callable[..., Any]) -> Callable[..., Any]:
        separate = function.setup_context is not torch.autograd.Function.setup_context

        def forward(*args: Any, **kwargs: Any) -> Any:
            if separate or args[0]._forward_cls is function:
                seen(function, args if separate else args[1:])
            return plain(*args, **kwargs)

        forward.__signature__ = inspect.signature(plain)  # type: ignore[attr-defined]
        return forward

    plain = [function.forward for function in functions]  # all are read before any is replaced
    own = [vars(function).get("forward") for function in functions]
    for function, forward in zip(functions, plain, strict=True):
        function.forward = staticmethod(reporting(function, forward))
    try:
        yield
    finally:
        for function, forward in zip(functions, own, strict=True):
            if forward is not None:
                function.forward = forward
            else:
                del function.forward


@contextmanager
def _collect_module_calls(found: dict[Any, CustomCall]) -> Iterator[None]:
    """Collect the forward calls of the innermost modules in `found` in the block."""

    def hook(module: torch.nn.Module, args: Any) -> None:
        if next(module.children(), None) is None and id(module) not in found and len(found) < _MOST:
            own = copy.deepcopy(module)
            found[id(module)] = CustomCall(
                type(module).__name__, own, tuple(map(detached_copy, args)), {}, current_position()
            )

    handle = torch.nn.modules.module.register_module_forward_pre_hook(hook)
    try:
        yield
    finally:
        handle.remove()


def _copy_call(function: type[torch.autograd.Function], args: tuple[Any, ...]) -> tuple[Any, Callable[..., Any]]:
    """Return copies of the arguments, and a function that applies the custom function to them.

    If an argument is a module and another argument is one of its parameters (as in a checkpoint, whose backward pass calls the
    module again), the copied module uses what is passed for that parameter.
    """
    names = {
        k: [
            (n, name)
            for n, a in enumerate(args)
            if isinstance(a, torch.nn.Module)
            for name, p in a.named_parameters(remove_duplicate=False)
            if p is x
        ]
        for k, x in enumerate(args)
        if isinstance(x, torch.Tensor)
    }
    plain = as_plain_function(function)
    own = tuple(map(detached_copy, args))
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


def _requires_grad(a: Any) -> bool:
    """Whether a tensor, a tensor in a structure or a parameter of a module requires a gradient."""
    if isinstance(a, torch.nn.Module):
        return any(p.requires_grad for p in a.parameters())
    return any(isinstance(x, torch.Tensor) and x.requires_grad for x in tree_leaves(a))


def _clone_if_leaf(x: Any) -> Any:
    """Return a tensor that an operation may write into: torch refuses that for leaves that require a gradient."""
    return x.clone() if isinstance(x, torch.Tensor) and x.is_leaf and x.requires_grad else x


def _argument_key(a: Any) -> Any:
    return (tuple(a.shape), a.dtype) if isinstance(a, torch.Tensor) else repr(a)[:80]


def detached_copy(a: Any) -> Any:
    """Return a copy of a tensor outside of any graph; anything else as it is."""
    return a.detach().clone() if isinstance(a, torch.Tensor) else a


def as_plain_function(function: type[torch.autograd.Function]) -> Callable[..., Any]:
    """Return the application of a custom function as a plain function, with the signature of its forward without ctx."""
    parameters = list(inspect.signature(function.forward).parameters.values())
    own_context = "setup_context" in vars(function) or not (parameters and parameters[0].name == "ctx")
    new = function.setup_context is not torch.autograd.Function.setup_context
    kept = parameters if new and own_context else parameters[1:]

    def apply(*args: Any, **kwargs: Any) -> Any:
        order = [*args, *(kwargs[p.name] for p in kept[len(args) :] if p.name in kwargs)]
        return function.apply(*map(_clone_if_leaf, order))

    apply.__signature__ = inspect.Signature([p.replace(annotation=p.annotation) for p in kept])  # type: ignore[attr-defined]
    apply.__name__ = function.__name__
    return apply


# Modules of torch as functions of their parameters, and functions that use modules and tensors of their file.

FORMATS = {
    "float64": torch.float64, "float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16,
    "tf32": torch.float32,
}  # fmt: skip
_LAST: weakref.WeakKeyDictionary[Any, Placed] = weakref.WeakKeyDictionary()  # where what a function uses was put last


Hooks = Sequence[Callable[[Tensor], Tensor | None]]


def hooks_of_parameters(module: torch.nn.Module) -> dict[str, Hooks]:
    """Return the hooks that were registered on parameters of a module, by name: they may change the gradient."""
    return {name: list(p._backward_hooks.values()) for name, p in module.named_parameters() if p._backward_hooks}


def function_of_module(module: torch.nn.Module, hooks: Mapping[str, Hooks]) -> Callable[..., Any]:
    """Return a module as a function of its inputs and parameters; every call gets fresh copies of its buffers.

    `hooks` are called with the gradient of each parameter.

    The module keeps the parameters of its last call, because a backward pass may call it again, as that of a checkpoint does.
    """
    own = {name: (p, _places_of_tensor(module, p)) for name, p in module.named_parameters()}
    buffers = {name: (b.clone(), _places_of_tensor(module, b)) for name, b in module.named_buffers()}

    def call(*args: Any, parameters: Any = None, **kwargs: Any) -> Any:
        for name, (p, places) in own.items():
            x = (parameters or {}).get(name, p)
            if name in hooks and x is not p and x.requires_grad and torch.is_grad_enabled():
                x = x.view_as(x)  # which belongs to this call alone, as its hooks do
                for hook in hooks[name]:
                    x.register_hook(hook)
            for holder, leaf in places:
                holder._parameters[leaf] = x
        for b, places in buffers.values():
            fresh = b.clone()
            for holder, leaf in places:
                holder._buffers[leaf] = fresh
        return module(*args, **kwargs)

    return with_parameters(call, module.forward, type(module).__name__)


def _places_of_tensor(module: torch.nn.Module, x: torch.Tensor) -> list[tuple[torch.nn.Module, str]]:
    """Return where a module holds a tensor: tied weights have several places."""
    return [
        (holder, leaf)
        for holder in module.modules()
        for leaf, held in [*holder._parameters.items(), *holder._buffers.items()]
        if held is x
    ]


def run_in_format(function: Any, placed: Placed) -> Callable[..., Any]:
    """Return a function whose modules and tensors, of its file and its closure, are in a format whenever it is called.

    Functions that use none are returned as they are.
    """
    inner = inspect.unwrap(getattr(function, "__func__", function))
    if not any(_is_convertible(x) for x in (*getattr(inner, "__globals__", {}).values(), *_modules_in_closure(inner))):
        return function  # type: ignore[no-any-return]

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        if _LAST.get(inner) != placed:
            _convert_used_values(inner, placed)
            _LAST[inner] = placed
        return function(*args, **kwargs)

    with contextlib.suppress(TypeError, ValueError):
        run.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    return run


def _is_convertible(x: Any) -> bool:
    is_constant = isinstance(x, torch.Tensor) and x.is_floating_point() and not isinstance(x, torch.nn.Parameter)
    return is_constant or isinstance(x, torch.nn.Module)


def _modules_in_closure(function: Any) -> list[Any]:
    found = []
    for cell in getattr(function, "__closure__", None) or ():
        with contextlib.suppress(ValueError):
            found.append(cell.cell_contents)
    return [x for x in found if isinstance(x, torch.nn.Module)]


def _convert_used_values(function: Any, placed: Placed) -> None:
    """Convert modules and tensors in a function's globals, and modules in its closure, to the inputs' format."""
    dtype, space = FORMATS[placed.dtype], getattr(function, "__globals__", {})
    for name, x in list(space.items()):
        if _is_convertible(x) and isinstance(x, torch.Tensor):
            space[name] = x.detach().to(placed.device, dtype).requires_grad_(x.requires_grad)
    for x in (*space.values(), *_modules_in_closure(function)):
        if isinstance(x, torch.nn.Module):
            x.to(placed.device, dtype)


# Further runs of a torch function: measured, in mixed precision, with deterministic algorithms, in turn at several values.

_RUNS = 3
_ENOUGH = 0.05  # seconds: what takes longer is measured only twice; the first run may compile


@contextmanager
def deterministic_algorithms(warn_only: bool = False) -> Iterator[None]:
    """Allow only deterministic algorithms in the block, where torch raises or warns if an operation has none."""
    before, warns = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True, warn_only=warn_only)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before, warn_only=warns)


@contextmanager
def fill_memory_with_nan() -> Iterator[None]:
    """Have torch fill memory that it allocates with nan in the block, where an operation is left to write it."""
    filled = replace_attribute(torch.utils.deterministic, "fill_uninitialized_memory", True)
    with deterministic_algorithms(warn_only=True), filled, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of operations that have no deterministic algorithm
        yield


def value_and_gradient(f: Flat, leaves: Sequence[torch.Tensor], w: Array) -> tuple[Array, list[Array]]:
    """Return the value of f at leaves that require a gradient, and the gradient of <w, f>."""
    y = f(leaves)
    zeros = [np.zeros(tuple(x.shape))[()] for x in leaves]
    if not y.requires_grad:
        return to_numpy(y), zeros
    bars = pull_back(y, leaves, _tensor_like(w, y))
    return to_numpy(y), [zero if bar is None else to_numpy(bar) for zero, bar in zip(zeros, bars, strict=True)]


def _strided_copy(x: torch.Tensor) -> torch.Tensor:
    """Return a tensor of the same values whose memory has gaps, and its axes in the opposite order."""
    if x.dim() == 0:
        return x.detach().clone()
    wide = torch.zeros((*reversed(x.shape), 2), dtype=x.dtype, device=x.device)
    view = wide[..., 0].permute(*reversed(range(x.dim())))
    return view.copy_(x.detach())


def measure_cost(
    forward: Callable[[Sequence[torch.Tensor]], torch.Tensor], leaves: Sequence[torch.Tensor], ybar: torch.Tensor
) -> Measured | None:
    """Return the time and the memory of the forward and the backward pass; None if nothing requires a gradient.

    None, too, for functions that use torch.func inside, because torch cannot run these with hooks on saved tensors.

    Units   seconds, and bytes.
    """
    on_gpu = any(x.is_cuda for x in leaves)
    best: Measured | None = None
    for k in range(_RUNS):
        try:
            found = _once(forward, leaves, ybar, on_gpu)
        except (RuntimeError, FunctionFailed) as error:
            if "saved tensor hooks" not in str(error):
                raise
            return None
        if found is None:
            return None
        best = found if best is None or found.forward + found.backward < best.forward + best.backward else best
        if k and found.forward + found.backward > _ENOUGH:
            break
    return best


def _once(forward: Any, leaves: Sequence[torch.Tensor], ybar: torch.Tensor, on_gpu: bool) -> Measured | None:
    own = {x.untyped_storage()._cdata for x in leaves}
    kept: dict[int, int] = {}

    def keep(t: torch.Tensor) -> torch.Tensor:
        storage = t.untyped_storage()
        if storage._cdata not in own:
            kept[storage._cdata] = storage.nbytes()
        return t.detach()  # the tensor itself, if it is a result, would keep its own graph alive

    if on_gpu:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated() if on_gpu else 0
    start = time.perf_counter()
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
        y = forward(leaves)
    _wait_for_gpu(on_gpu)
    half = time.perf_counter()
    if not y.requires_grad:
        return None
    pull_back(y, leaves, ybar)
    _wait_for_gpu(on_gpu)
    end = time.perf_counter()
    peak = torch.cuda.max_memory_allocated() - before if on_gpu else None
    return Measured(half - start, end - half, sum(kept.values()), peak)


def _wait_for_gpu(on_gpu: bool) -> None:
    if on_gpu:
        torch.cuda.synchronize()


class Torch(Framework):
    """The adapter for torch."""

    name = "torch"

    def holds(self, x: Any) -> bool:
        """Whether it is a dense tensor; a sparse one is handed on as it is, and is not differentiated."""
        return isinstance(x, torch.Tensor) and x.layout == torch.strided

    def owns(self, x: Any) -> bool:
        """Whether it is a module, a custom function, or a method of one of these."""
        of = getattr(x, "__self__", x)
        kinds = (torch.nn.Module, torch.autograd.Function)
        return isinstance(of, kinds) or (inspect.isclass(of) and issubclass(of, kinds))

    def tensor(self, x: Array, placed: Placed) -> Tensor:
        x = np.asarray(x)
        dtype = FORMATS[placed.dtype] if x.dtype.kind == "f" else None  # complex numbers stay double
        return torch.tensor(x, dtype=dtype, device=placed.device)

    def array(self, x: Tensor) -> Array:
        return to_numpy(x)

    def is_float(self, x: Tensor) -> bool:
        return bool(x.is_floating_point())

    def joined(self, ys: Sequence[Tensor]) -> Tensor:
        return torch.cat([y.reshape(-1) for y in ys])

    def complex(self, real: Tensor, imag: Tensor) -> Tensor:
        return torch.complex(real, imag)

    def parts(self, y: Tensor) -> Tensor:
        return torch.view_as_real(y.resolve_conj()) if y.is_complex() else y

    def prepared(self, found: Any, placed: Placed, seed: int) -> Prepared:
        if placed.dtype not in FORMATS:
            raise BadOption(f"torch has no format '{placed.dtype}'", do=f"formats: {', '.join(FORMATS)}")
        of = getattr(found, "__self__", None)
        is_method = inspect.isclass(of) and issubclass(of, torch.autograd.Function)
        if is_method and getattr(found, "__name__", "") == "apply":
            found = of
        if inspect.isclass(found) and issubclass(found, torch.autograd.Function):
            return Prepared(as_plain_function(found), found.__name__, {})
        if inspect.isclass(found) and issubclass(found, torch.nn.Module):
            with seeded(seed):
                found = found()
        if isinstance(found, torch.nn.Module):
            notices: list[Notice] = []
            module = copy.deepcopy(found).to(placed.device, FORMATS[placed.dtype])
            changing = torch.nn.modules.batchnorm._BatchNorm | torch.nn.Dropout
            if any(isinstance(part, changing) for part in module.modules()):
                mode = "training" if module.training else "evaluation"
                notices.append(Notice(Kind.MODULE, Severity.INFO, f"checked in {mode} mode, as it was handed over"))
            parameters = {
                name: to_numpy(p) for name, p in module.named_parameters() if p.requires_grad and p.is_floating_point()
            }
            function = function_of_module(module, hooks_of_parameters(found))  # copies of parameters have no hooks
            return Prepared(function, type(module).__name__, parameters, tuple(notices))
        return Prepared(run_in_format(found, placed), getattr(found, "__name__", type(found).__name__), {})

    def called(
        self, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], seed: int, differentiates: bool
    ) -> Any:
        if differentiates:
            with seeded(seed), torch.enable_grad():
                return function(*args, **kwargs)
        return _call_for_value(function, lambda: function(*args, **kwargs), (args, kwargs), seed)

    def gradient(self, f: Flat, xs: Sequence[Tensor], w: Array, seed: int) -> list[Array]:
        return self._pull_wanted_inputs(f, xs, w, seed)[0]

    def pulled(self, f: Flat, xs: Sequence[Tensor], w: Array, seed: int) -> tuple[Array, list[Array]]:
        with torch.enable_grad(), seeded(seed):
            return value_and_gradient(f, [x.detach().requires_grad_() for x in xs], w)

    def value(self, f: Flat, xs: Sequence[Tensor], seed: int) -> Array:
        with torch.no_grad(), seeded(seed):
            return to_numpy(f(xs))

    def declined(self, f: Flat, xs: Sequence[Tensor], seed: int) -> frozenset[int]:
        with torch.enable_grad(), seeded(seed):
            return find_declined_inputs(f, [x.detach().clone().requires_grad_() for x in xs])

    def in_turn(self, f: Flat, xs: Sequence[Tensor], others: Sequence[Tensor], w: Array, seed: int) -> Iterator[Run]:
        """Yield runs in which results that were kept, or memory that was not written, would show."""

        def run(name: str, leaves: Sequence[torch.Tensor]) -> Run:
            inputs = [to_numpy(x) for x in leaves]
            with torch.enable_grad(), seeded(seed):
                return Run(name, inputs, *value_and_gradient(f, leaves, w))

        def fresh(xs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
            return [x.detach().clone().requires_grad_() for x in xs]

        leaves = fresh(xs)
        inputs = [to_numpy(x) for x in leaves]
        with torch.enable_grad(), seeded(seed):
            first = f(leaves)
            depends = first.requires_grad
            bars = pull_back(first, leaves, _tensor_like(w, first)) if depends else [None] * len(xs)
        with torch.no_grad():
            for leaf, other in zip(leaves, others, strict=True):
                leaf.copy_(other)
        yield run("changed values, same memory", leaves)
        kept = [np.zeros(np.shape(x)) if bar is None else to_numpy(bar) for x, bar in zip(inputs, bars, strict=True)]
        yield Run("the first results, after a second call", inputs, to_numpy(first), kept)
        yield run("the first values again, fresh memory", fresh(xs))
        yield run("changed values, fresh memory", fresh(others))
        yield run("non-contiguous inputs", [_strided_copy(x).requires_grad_() for x in xs])
        with fill_memory_with_nan():
            filled = run("outputs prefilled with nan", fresh(xs))
        yield filled

    def tangent(self, f: Flat, xs: Sequence[Tensor], vs: Sequence[Array], seed: int) -> Array:
        try:
            return _forward_derivative(f, xs, vs, seed, inside=False)
        except (RuntimeError, FunctionFailed) as error:
            if not _needs_gradients(error):
                raise _classify_error(error, _NO_FORWARD) from error
        try:
            return _forward_derivative(f, xs, vs, seed, inside=True)
        except (RuntimeError, FunctionFailed) as error:
            raise _classify_error(error, (*_NO_FORWARD, *_INSIDE)) from error

    def curvature(self, f: Flat, xs: Sequence[Tensor], w: Array, vs: Sequence[Array], seed: int) -> list[Array]:
        with torch.enable_grad(), seeded(seed):
            leaves = [x.detach().clone().requires_grad_() for x in xs]
            y = f(leaves)
            still = [np.zeros(tuple(x.shape))[()] for x in xs]
            if not y.requires_grad:
                return still
            try:
                bars = pull_back(y, leaves, _tensor_like(w, y), create_graph=True)
            except RuntimeError as error:
                raise _classify_error(error, ("use_reentrant",)) from error
            along = [
                torch.sum(bar * _tensor_like(v, bar))
                for bar, v in zip(bars, vs, strict=True)
                if bar is not None and bar.requires_grad
            ]
            if not along:
                return still
            try:
                again = torch.autograd.grad(torch.stack(along).sum(), leaves, allow_unused=True)
            except RuntimeError as error:
                raise _classify_error(
                    error, ("once_differentiable", "not implemented", "does not require grad")
                ) from error
        return [zero if bar is None else to_numpy(bar) for zero, bar in zip(still, again, strict=True)]

    def mapped(self, f: Flat, xs: Sequence[Tensor], others: Sequence[Tensor], w: Array, seed: int) -> list[Array]:
        def one(*leaves: Tensor) -> Tensor:
            y = f(list(leaves))
            return torch.sum(y * _tensor_like(w, y))

        pairs = [torch.stack([a.detach(), b.detach()]) for a, b in zip(xs, others, strict=True)]
        with seeded(seed), warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # torch warns of slow operations without a batching rule, and only gradcli uses vmap
            try:
                gradient = torch.func.grad(one, argnums=tuple(range(len(xs))))
                return [to_numpy(g) for g in torch.func.vmap(gradient, randomness="same")(*pairs)]
            except (RuntimeError, FunctionFailed) as error:
                cause = error.__cause__ or error
                raise NotSupported(" ".join(str(cause).split())[:200]) from error

    def variants(
        self, f: Flat, xs: Sequence[Tensor], w: Array, seed: int, own: frozenset[int]
    ) -> dict[str, list[Array | None] | str | NotSupported]:
        """Return the gradient at strided inputs, one input at a time, and whether the backward writes into its cotangent."""
        found: dict[str, list[Array | None] | str | NotSupported] = {}
        if any(x.dim() > 0 for k, x in enumerate(xs) if k not in own):
            strided = [x if k in own else _strided_copy(x) for k, x in enumerate(xs)]
            found["non-contiguous inputs"] = _unless_refused(lambda: list(self.gradient(f, strided, w, seed)))
        if 1 < len(xs) <= _MOST_ALONE:
            gradient = lambda k: self._pull_wanted_inputs(f, xs, w, seed, {k})[0][k]
            found["one input at a time"] = _unless_refused(lambda: list(map(gradient, range(len(xs)))))
        if not self._pull_wanted_inputs(f, xs, w, seed)[1]:
            found["cotangent"] = (
                "the backward pass writes into the cotangent it is given: work on a copy of grad_output"
            )
        return found

    def _pull_wanted_inputs(
        self, f: Flat, xs: Sequence[Tensor], w: Array, seed: int, wanted: Iterable[int] | None = None
    ) -> tuple[list[Array], bool]:
        """Return the gradient with respect to the wanted inputs, by default all, and whether the cotangent is unchanged."""
        wanted = range(len(xs)) if wanted is None else wanted
        with torch.enable_grad(), seeded(seed):
            leaves = [x.detach().requires_grad_(k in wanted) for k, x in enumerate(xs)]
            y = f(leaves)
            still = [np.zeros(tuple(x.shape))[()] for x in xs]
            if not y.requires_grad:
                return still, True
            ybar = _tensor_like(w, y)
            before = ybar.clone()
            bars = pull_back(y, [x for x in leaves if x.requires_grad], ybar)
        given = dict(zip(sorted(wanted), bars, strict=True))
        found = [still[k] if given.get(k) is None else to_numpy(given[k]) for k in range(len(xs))]
        return found, bool(torch.equal(ybar, before))

    def mixed(self, function: Callable[..., Any], placed: Placed, dtype: str) -> Callable[..., Any]:
        """Return a function that runs under autocast, as in a training loop."""
        kind = torch.device(placed.device).type

        def autocast(*args: Any, **kwargs: Any) -> Any:
            with torch.autocast(kind, FORMATS[dtype]):
                return function(*args, **kwargs)

        return autocast

    def settled(self, f: Flat, xs: Sequence[Tensor], w: Array, seed: int) -> list[Array]:
        try:
            with deterministic_algorithms():
                return self.gradient(f, xs, w, seed)
        except (RuntimeError, FunctionFailed) as error:  # the function's own errors arrive as FunctionFailed
            if "deterministic" not in str(error):
                raise
            raise NotSupported(str(error.__cause__ or error).partition(",")[0]) from error

    def measured(self, f: Flat, xs: Sequence[Tensor], w: Array, seed: int) -> Measured | None:
        with torch.enable_grad(), seeded(seed):
            leaves = [x.detach().requires_grad_() for x in xs]
            return measure_cost(f, leaves, _tensor_like(w, f(leaves)))

    def compiled(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return torch.compile(function)  # type: ignore[no-any-return]

    def other_way(self, function: Callable[..., Any], way: str) -> Callable[..., Any]:
        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            if way == "checkpoint":
                return checkpoint(function, *args, use_reentrant=False, **kwargs)
            with torch.compiler.set_stance("force_eager"):
                return function(*args, **kwargs)

        return run

    def recorded(
        self, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], xs: Sequence[Tensor], seed: int
    ) -> tuple[RecordedSteps, Any]:
        def outputs(y: Any) -> list[Tensor]:
            leaves = take_apart("", y)[1].values()
            return [t for t in leaves if isinstance(t, torch.Tensor) and t.is_floating_point()]

        record = lambda: record_program(lambda: function(*args, **kwargs), list(xs), outputs)
        return cast("tuple[RecordedSteps, Any]", _call_for_value(function, record, (args, kwargs), seed))

    def calls(self, f: Flat, xs: Sequence[Tensor], seed: int, every: bool) -> list[CustomCall]:
        with torch.enable_grad(), seeded(seed):
            return custom_calls(lambda: f([x.detach().clone().requires_grad_() for x in xs]), every)


def _unless_refused(compute: Callable[[], list[Array | None]]) -> list[Array | None] | NotSupported:
    """Return gradients, or why there are none: f, or its backward pass, need not take its inputs in every way."""
    try:
        return compute()
    except FunctionFailed as error:
        return NotSupported(error.what)
    except (RuntimeError, TypeError, ValueError) as error:
        return NotSupported(f"the backward pass raises {message_of(error)}")


def _tensor_like(v: Array, x: Tensor) -> Tensor:
    return torch.tensor(np.asarray(v), dtype=x.dtype, device=x.device).reshape(x.shape)


def _needs_gradients(error: Exception) -> bool:
    """Whether a function failed because inputs do not require a gradient: it differentiates by them, or hooks their gradient."""
    return any(words in str(error) for words in _INSIDE)


def _classify_error(error: Exception, words: Sequence[str]) -> Exception:
    """Return NotSupported if the message says that torch cannot do this, else the error itself."""
    error = error.__cause__ if isinstance(error.__cause__, Exception) else error
    said = str(error)
    if isinstance(error, AssertionError):  # of torch's own, for functions with generate_vmap_rule
        return NotSupported(f"torch fails in itself: {said}")
    if isinstance(error, NotImplementedError) or any(word in said for word in words):
        return NotSupported(" ".join(said.split())[:200])
    return error


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Run the block with seeded random numbers and float64 as the default type; restore both afterwards."""
    generators = [torch.default_generator, *(torch.cuda.default_generators if torch.cuda.is_initialized() else ())]
    before, states = torch.get_default_dtype(), [(g, g.get_state()) for g in generators]
    for generator in generators:  # torch.manual_seed is not used because it also records where it is called
        generator.manual_seed(seed)
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
        for generator, state in states:
            generator.set_state(state)


def _forward_derivative(f: Flat, xs: Sequence[Tensor], vs: Sequence[Array], seed: int, inside: bool) -> Array:
    """Return the derivative along vs by the forward mode; `inside` lets f differentiate with respect to its inputs, too."""
    import torch.autograd.forward_ad as forward

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # this uses torch.jit, which is deprecated
        from torch._decomp import decompositions_for_jvp  # noqa: F401  else the forward mode imports it, and warns
    with torch.enable_grad(), seeded(seed), forward.dual_level():
        leaves = [x.detach().clone().requires_grad_(inside) for x in xs]
        y = forward.unpack_dual(f([forward.make_dual(x, _tensor_like(v, x)) for x, v in zip(leaves, vs, strict=True)]))
        return np.zeros(tuple(y.primal.shape)) if y.tangent is None else to_numpy(y.tangent)


def _call_for_value(function: Callable[..., Any], call: Callable[[], Any], given: Any, seed: int) -> Any:
    """Call a function for its value, without autograd unless the function differentiates inside.

    A function that turns out to differentiate with respect to its inputs is called again, with inputs that require a gradient.
    """
    known = getattr(function, "__func__", function)
    if known not in _BY_INPUTS:
        code = getattr(inspect.unwrap(known), "__code__", None)
        inside = code is not None and bool(_DIFFERENTIATING & set(code.co_names))
        try:
            with seeded(seed), torch.set_grad_enabled(inside):
                return call()
        except RuntimeError as error:
            if not _needs_gradients(error):
                raise
    with seeded(seed), torch.enable_grad():
        for x in take_apart("", given)[1].values():
            if isinstance(x, torch.Tensor) and x.is_floating_point() and x.is_leaf:
                x.requires_grad_()
        y = call()
    with contextlib.suppress(TypeError):  # without weak references, it is tried again at each call
        _BY_INPUTS.add(known)
    return y


FRAMEWORK = Torch()
