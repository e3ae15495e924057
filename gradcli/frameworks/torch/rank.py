"""What one rank of a torch.distributed program does: it joins the others, calls the target, and runs its backward pass."""

import contextlib
import datetime
import inspect
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from gradcli.errors import BadOption, BadTarget, FunctionFailed
from gradcli.frameworks.adapt import recognise_framework
from gradcli.frameworks.framework import Described, Failure, Placed, RankCall, Tensor
from gradcli.frameworks.torch.adapter import (
    FORMATS,
    FRAMEWORK,
    as_plain_function,
    detached_copy,
    find_user_subclasses,
    report_forward_calls,
    seeded,
)
from gradcli.request.point import Array
from gradcli.targets.loading import load
from gradcli.targets.nesting import put_together, take_apart
from gradcli.targets.python import message_of, signature_of
from gradcli.tracing.provenance import place_of_definition, place_of_error

_LATER = 5  # seconds after the limit in which torch ends a collective by itself, if nothing else has

# What gloo says of a failure is between its own file and advice that is not for users.
_GLOO = re.compile(r"\[/\S+/gloo/\S+\] (.*?)(\. This is typically.*|$)", re.DOTALL)


class TorchRank:
    """One rank: it answers what the process that started it asks; what the target raises is a `Failure`."""

    def __init__(
        self,
        rank: int,
        ranks: int,
        file: str,
        target: str | Callable[..., Any],
        placed: Placed,
        seed: int,
        limit: float,
    ) -> None:
        self.rank, self.ranks, self.file, self.target = rank, ranks, file, target
        self.placed, self.seed, self.limit = placed, seed, limit
        self.module: torch.nn.Module | None = None
        self.function: Callable[..., Any] = lambda: None
        self.calls: list[tuple[Any, tuple[Any, ...]]] = []  # of custom functions

    def __call__(self, question: tuple[Any, ...]) -> Any:
        """Return the answer to a question: the name of a method, and its arguments."""
        name, *arguments = question
        try:
            return getattr(self, name)(*arguments)
        except BaseException as error:  # user code raises any type, SystemExit too
            if isinstance(error, FunctionFailed | BadOption | BadTarget):
                return Failure(error.what, raised=False)
            return Failure(_GLOO.sub(r"\1", message_of(error)), place_of_error(error.__traceback__))

    def start(self) -> Described:
        """Join the other ranks, load the target, and return what is known of it."""
        os.environ.update(
            RANK=str(self.rank), LOCAL_RANK=str(self.rank), WORLD_SIZE=str(self.ranks), LOCAL_WORLD_SIZE=str(self.ranks),
            GLOO_SOCKET_IFNAME="lo",
        )  # fmt: skip
        torch.set_num_threads(1)
        torch.set_default_dtype(FORMATS[self.placed.dtype])
        backend = "gloo"
        if self.placed.device.startswith("cuda"):
            torch.cuda.set_device(self.rank)
            self.placed, backend = Placed(self.placed.dtype, f"cuda:{self.rank}"), "nccl"
        store = dist.FileStore(self.file, self.ranks)
        wait = datetime.timedelta(seconds=self.limit + _LATER)
        dist.init_process_group(backend, store=store, rank=self.rank, world_size=self.ranks, timeout=wait)
        found: Any = self.target
        with seeded(self.seed):
            torch.set_default_dtype(FORMATS[self.placed.dtype])
            if isinstance(found, str):
                loaded = load(found)
                if recognise_framework(loaded.found, loaded.module, None) == "jax":
                    raise BadOption("the target uses JAX, and ranks are those of torch", do="add --framework jax")
                found = loaded.found
            if inspect.isclass(found) and issubclass(found, torch.nn.Module):
                found = found()
        if isinstance(found, torch.nn.Module):
            self.module, self.function = found, found
            signature = signature_of(found.forward)
        else:
            self.function = FRAMEWORK.prepared(found, self.placed, self.seed).function
            signature = signature_of(self.function)
        parameters = {name: (_local_array(p.detach()), _shard_axis(p)) for name, p in self._trainable_parameters()}
        synced = isinstance(self.module, torch.nn.parallel.DistributedDataParallel)
        return Described(_plain_signature(signature), parameters, synced)

    def shard(self, place: str | Callable[..., Any], name: str, value: Array) -> Array | None:
        """Return this rank's part of a value by the user's function `place(name, value, rank, ranks)`; None if it has all."""
        found = load(place).found if isinstance(place, str) else place
        part = found(name, value, self.rank, self.ranks)
        if isinstance(part, torch.Tensor):
            part = FRAMEWORK.array(part)
        if part is not None and np.asarray(part).dtype.kind not in "fi":
            raise BadOption(f"the function of --shard returns {type(part).__name__} for {name}", do="return an array")
        return None if part is None else np.asarray(part)

    def value(self, arguments: Mapping[str, Any], parameters: Mapping[str, Array]) -> Array:
        """Return what the target returns, as one vector."""
        self._write_parameters(parameters)
        given, _ = self._to_tensors(arguments, frozenset())
        with self._fresh_run(), torch.no_grad():
            return FRAMEWORK.array(self._join_float_results(self.function(**given)))

    def gradient(
        self, arguments: Mapping[str, Any], parameters: Mapping[str, Array], wrt: frozenset[str], w: Array
    ) -> dict[str, Array | None]:
        """Return what backward leaves on this rank, by input and by parameter, beginning with the cotangent w of the result."""
        self._write_parameters(parameters)
        given, leaves = self._to_tensors(arguments, wrt)
        with self._fresh_run(), torch.enable_grad():
            self._run_backward(self._join_float_results(self.function(**given)), w)
        found = {path: x.grad for path, x in leaves.items()} | {
            name: p.grad for name, p in self._trainable_parameters()
        }
        return {name: None if x is None else _local_array(x) for name, x in found.items() if name in wrt}

    def custom(
        self, arguments: Mapping[str, Any], parameters: Mapping[str, Array], wrt: frozenset[str], w: Array
    ) -> list[RankCall]:
        """Return the calls of the user's custom functions in one run, in order, with what their backward took and returned."""
        self._write_parameters(parameters)
        given, _ = self._to_tensors(arguments, wrt)
        seen: list[tuple[Any, tuple[Any, ...]]] = []
        with self._fresh_run(), torch.enable_grad(), contextlib.ExitStack() as stack:
            for function in find_user_subclasses(torch.autograd.Function):
                keep = lambda f, args: seen.append((f, tuple(map(detached_copy, args))))
                stack.enter_context(report_forward_calls(function, keep))
            y = self._join_float_results(self.function(**given))
            nodes = [node for node in _graph_nodes(y.grad_fn) if hasattr(node, "_forward_cls")]
            found: dict[Any, tuple[Any, Any]] = {}
            for node in nodes:
                node.register_hook(lambda xbars, ybars, node=node: found.__setitem__(node, (ybars, xbars)))
            self._run_backward(y, w)
        self.calls, made = [], []
        waiting = list(seen)
        for node in sorted(nodes, key=lambda node: node._sequence_nr()):
            call = next((c for c in waiting if c[0] is node._forward_cls), None)
            if call is None or node not in found:
                continue
            del waiting[: waiting.index(call) + 1]
            ybars, xbars = ([None if x is None else _local_array(x) for x in bars] for bars in found[node])
            xs = [
                FRAMEWORK.array(x) if isinstance(x, torch.Tensor) and x.is_floating_point() else None for x in call[1]
            ]
            xbars = [*xbars, *[None] * (len(xs) - len(xbars))]
            names = tuple(inspect.signature(as_plain_function(call[0])).parameters)
            names += tuple(f"argument{k}" for k in range(len(names), len(xs)))
            made.append(RankCall(call[0].__name__, names, place_of_definition(call[0].backward), xs, ybars, xbars))
            self.calls.append(call)
        return made

    def apply(self, number: int, xs: Sequence[Array | None]) -> list[Array]:
        """Return the results of a custom function that `custom` saw, at other values of its tensors."""
        function, args = self.calls[number]
        moved = [
            a if x is None else torch.tensor(x, dtype=a.dtype, device=a.device) for a, x in zip(args, xs, strict=True)
        ]
        with self._fresh_run(), torch.no_grad():
            y = as_plain_function(function)(*moved)
        return [
            FRAMEWORK.array(part)
            for part in (y if isinstance(y, tuple | list) else [y])
            if isinstance(part, torch.Tensor)
        ]

    @contextlib.contextmanager
    def _fresh_run(self) -> Iterator[None]:
        """Run the block with seeded random numbers, in the format of the inputs, and no gradient of an earlier run."""
        for _, p in self._trainable_parameters():
            p.grad = None
        with seeded(self.seed):
            torch.set_default_dtype(FORMATS[self.placed.dtype])
            yield

    def _to_tensors(
        self, arguments: Mapping[str, Any], wrt: frozenset[str]
    ) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Return the arguments as tensors, and those that require a gradient by path."""
        given, leaves = dict[str, Any](), dict[str, Tensor]()
        for name, x in arguments.items():
            node, parts = take_apart(name, x)
            made = {
                path: FRAMEWORK.tensor(part, self.placed) if isinstance(part, np.ndarray | np.floating) else part
                for path, part in parts.items()
            }
            leaves |= {path: part.requires_grad_() for path, part in made.items() if path in wrt}
            given[name] = put_together(node, made)
        return given, leaves

    def _trainable_parameters(self) -> list[tuple[str, torch.nn.Parameter]]:
        found = () if self.module is None else self.module.named_parameters()
        return [(name, p) for name, p in found if p.requires_grad and p.is_floating_point()]

    def _write_parameters(self, parameters: Mapping[str, Array]) -> None:
        """Write values into this rank's part of the module's parameters."""
        with torch.no_grad():
            for name, p in self._trainable_parameters():
                to = _local_tensor(p)
                to.copy_(torch.as_tensor(parameters[name], dtype=to.dtype, device=to.device).reshape(to.shape))

    def _join_float_results(self, y: Any) -> Tensor:
        """Return the float results as one vector. Raises FunctionFailed if there are none."""
        parts = [_full_tensor(x) for x in take_apart("", y)[1].values() if isinstance(x, torch.Tensor)]
        parts = [x for x in parts if x.is_floating_point()]
        if not parts:
            raise FunctionFailed("the target returns no tensor of floats", do="return the loss")
        return FRAMEWORK.joined(parts)

    def _run_backward(self, y: Tensor, w: Array) -> None:
        if not y.requires_grad:
            raise FunctionFailed("the result of the target depends on no input that is differentiated")
        torch.dot(y, torch.as_tensor(np.reshape(w, -1), dtype=y.dtype, device=y.device)).backward()


def _plain_signature(signature: inspect.Signature | None) -> inspect.Signature | None:
    """Return a signature that can be sent to another process: other defaults and annotations than plain ones are left out."""
    if signature is None:
        return None
    empty = inspect.Parameter.empty
    return inspect.Signature([
        p.replace(
            default=p.default if p.default is empty or isinstance(p.default, int | float | str | None) else None,
            annotation=p.annotation if p.annotation in (int, float, bool, str, "int", "float", "bool", "str") else empty,
        )
        for p in signature.parameters.values()
    ])  # fmt: skip


def _graph_nodes(root: Any) -> list[Any]:
    """Return all nodes of an autograd graph."""
    seen, waiting = dict[Any, None](), [root]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen[node] = None
            waiting += [other for other, _ in node.next_functions]
    return list(seen)


def _full_tensor(x: Tensor) -> Tensor:
    """Return the whole of a DTensor; any other tensor as it is."""
    return x.full_tensor() if hasattr(x, "full_tensor") else x


def _local_tensor(x: Tensor) -> Tensor:
    """Return this rank's part of a DTensor; any other tensor as it is."""
    return x.to_local() if hasattr(x, "to_local") else x


def _local_array(x: Tensor) -> Array:
    return FRAMEWORK.array(_local_tensor(x))


def _shard_axis(p: Tensor) -> int | None:
    """Return the axis along which the ranks share a DTensor; None for any other tensor."""
    return next((place.dim for place in getattr(p, "placements", ()) if place.is_shard()), None)
