"""Recording of a torch function as a program in numpy, operation by operation.

A dispatch mode sees every aten call below autograd with its actual tensors, so that control flow is followed as it
happened. Each call is also run in numpy, and compared with torch's own result: if the two differ, the recording is
refused.
"""

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from typing import Any

import numpy as np
import torch
from torch._decomp import decomposition_table
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from gradcli.errors import GradcliError, NotSupported, Span
from gradcli.frameworks.framework import (
    EXACT,
    FrameworkStep,
    RecordedSteps,
    Slot,
    fill_slots,
    is_equal_up_to_rounding,
    largest_entry,
    rounds_to,
    run_step,
)
from gradcli.frameworks.torch.aten import TABLE
from gradcli.frameworks.torch.aten.rows import ROUNDED_BETWEEN, UP_TO_SIGN
from gradcli.tracing.primitive import Primitive
from gradcli.tracing.provenance import current_position, place_of_position

_LEFT_OUT = {"dtype", "layout", "device", "pin_memory", "memory_format", "non_blocking", "implicit"}
_CANCELS = 1e-3  # relative to the largest operand: a smaller result may be mostly cancellation error
_DRAW = Primitive("draw", lambda *xs, y: y, (), kind="constant", on=())
_DRAWS = {"bernoulli", "multinomial", "poisson", "binomial"}
_DEEPEST = 20  # levels of decomposition, because an operation may decompose into itself
_INSIDE = None  # stands for a custom function among the entered blocks
_SCALARS = {"_local_scalar_dense", "equal", "allclose"}  # operations whose result is a number of Python's


def to_numpy(x: torch.Tensor) -> Any:
    """Return a tensor in numpy: floats in float64, an array without axes as a number."""
    x = x.detach().resolve_conj().resolve_neg()
    if x.is_floating_point():
        x = x.to(torch.float64)
    return x.cpu().numpy().copy()[()]


class TorchRecorder(TorchDispatchMode):  # type: ignore[misc]
    """A dispatch mode that records the aten calls made while it is active."""

    def __init__(self, inputs: list[torch.Tensor]) -> None:
        super().__init__()
        self.program = RecordedSteps()
        self.slots: dict[int, int] = {}
        self.kept: list[torch.Tensor] = []  # so that no id is reused
        self.sharing: dict[int, list[torch.Tensor]] = {}  # tensors with slots, by their storage
        self.moving: set[int] = set()  # storages that depend on the inputs
        self.memory: dict[tuple[Any, ...], int] = {}
        self.depth = 0  # of nested decompositions that are being recorded
        self.shadows: dict[int, Any] = {}
        # for each block that the user's code entered, innermost last: whether it switches differentiation off
        self.stopping: list[bool | None] = [False]
        for x in inputs:
            number = self._new_slot(x)
            self.program.inputs.append(number)
            self.shadows[number] = to_numpy(x)
            self.moving.add(_storage_id(x))

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Keep torch from loading its compiler, which takes over a second, only to switch it off in `__torch_dispatch__`."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        record = self._record_uncompiled if "torch._dynamo" in sys.modules else self._record
        return record(func, args, kwargs or {})

    def _record(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run an operation, and record it if it depends on the inputs."""
        name = func.overloadpacket.__name__
        of_shape = name.startswith("new_") or name.endswith("_like")  # their result contains no entry of their operand
        tensors = _tensors_in((args, kwargs))
        moved = not of_shape and any(_storage_id(t) in self.moving for t in tensors)
        if name in _SCALARS:
            if moved and name == "_local_scalar_dense" and tensors[0].is_floating_point():  # else it is a decision
                self.program.cuts.append(("item", current_position()))
            return func(*args, **kwargs)
        inplace = func._schema.is_mutable and name.endswith("_") and not name.endswith("__")
        writes = inplace and torch.Tag.inplace_view not in func.tags
        compute = TABLE.get(name[:-1] if inplace else name) if func.namespace == "aten" and not of_shape else None
        if name in ROUNDED_BETWEEN and any(t.is_floating_point() and t.dtype != torch.float64 for t in tensors):
            compute = None
        drawn = moved and name.removesuffix("_") in _DRAWS
        if compute is None and torch.Tag.nondeterministic_seeded in func.tags:
            moved = False  # without a row, a random result is a constant
        if compute is None and moved:
            parts = find_decomposition(func) if self.depth < _DEEPEST else None
            if parts is not None:
                return self._record_decomposition(func, parts, args, kwargs)
            raise NotSupported(f"gradcli does not know {func.namespace}.{name}", where=_source_place())
        if name == "detach" and moved and not torch.is_grad_enabled():  # else autograd detaches what it saves
            self.program.cuts.append(("detach", current_position()))
        operands = [self._operand(a) for a in args]
        named = {k: self._operand(a) for k, a in kwargs.items() if k not in _LEFT_OUT}
        y = func(*args, **kwargs)
        if "empty" in name:
            y.zero_()
        to_integers = name == "_to_copy" and not y.is_floating_point() and not y.is_complex()
        if compute is None or not tensors or to_integers:  # then it is a constant
            if func._schema.is_mutable and not moved:
                self._forget_constants(y)
            for t in _tensors_in(y):
                number = self._add_constant(t)
                if drawn:  # its derivative with respect to its parameters is 0
                    draw = partial(_DRAW, y=self.program.constants.pop(number))
                    xs = tuple(a for a in operands if isinstance(a, Slot))
                    step = FrameworkStep(f"aten.{name}", draw, xs, {}, (number,), current_position(), rounds_to=EXACT)
                    self.program.steps.append(step)
            return y
        form = EXACT if func.is_view else rounds_to(map(_format_name, _tensors_in(y)))
        self._record_step(name, compute, operands, named, y, writes, moved, form)
        return y

    _record_uncompiled = torch._disable_dynamo(_record)

    def _record_decomposition(self, func: Any, parts: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Record an operation as torch's decomposition of it. Raises NotSupported if that gives a different value."""
        theirs = func(*_clone_tensors(args), **_clone_tensors(kwargs)) if self.depth == 0 else None
        self.depth += 1
        try:
            with self:
                y = parts(*args, **kwargs)
        finally:
            self.depth -= 1
        size = _CANCELS * max((largest_entry(to_numpy(t)) for t in _tensors_in(args)), default=0.0)
        for ours, right in zip(_tensors_in(y), _tensors_in(theirs), strict=False):
            if right.is_floating_point() and not is_equal_up_to_rounding(
                to_numpy(ours), to_numpy(right), _format_name(right), size
            ):
                raise NotSupported(f"torch's decomposition of {func} gives another value", where=_source_place())
        return y

    def _record_step(
        self, name: str, compute: Any, args: Any, kwargs: Any, y: Any, writes: bool, moved: bool, form: str
    ) -> None:
        results = [y] if isinstance(y, torch.Tensor) else list(y) if isinstance(y, tuple | list) else []
        outs = tuple(self._new_slot(t) if isinstance(t, torch.Tensor) else -1 for t in results)
        if writes and results and isinstance(args[0], Slot):  # torch returns the tensor it wrote to
            outs = (args[0].number,)
            self.slots[id(results[0])] = args[0].number
        stopped = moved and self.stopping[-1] is True
        step = FrameworkStep(
            f"aten.{name}", compute, tuple(args), kwargs, outs, current_position(), writes, stopped, form
        )
        run_step(step, self.shadows)
        for number, t in zip(outs, results, strict=False):
            if isinstance(t, torch.Tensor):
                self._compare_with_torch(step, number, t)
                if moved:
                    self.moving.add(_storage_id(t))
                    self.program.narrow(_format_name(t))
        if moved and writes:
            self.moving.add(_storage_id(results[0]))
        self.program.steps.append(step)
        if writes and results and results[0].dim() == 0:
            self._write_to_base(results[0], outs[0])

    def _write_to_base(self, t: torch.Tensor, number: int) -> None:
        """Write a number into the array that it is a view of."""
        base = t._base
        if base is None or id(base) not in self.slots:
            return
        offset, at = t.storage_offset() - base.storage_offset(), []
        for stride in base.stride():
            at.append(offset // stride if stride else 0)
            offset -= at[-1] * stride

        def put(base: Any, number: Any) -> Any:
            base[place] = number
            return base

        to, place = self.slots[id(base)], tuple(at)
        step = FrameworkStep("put", put, (Slot(to), Slot(number)), {}, (to,), current_position(), rounds_to=EXACT)
        run_step(step, self.shadows)
        self.program.steps.append(step)
        if _storage_id(t) in self.moving:
            self.moving.add(_storage_id(base))

    def _compare_with_torch(self, step: FrameworkStep, number: int, t: torch.Tensor) -> None:
        """Raise NotSupported if numpy gives an operation a different value from torch."""
        ours, theirs = self.shadows.get(number), to_numpy(t)
        if ours is None or not t.is_floating_point():
            self._store_torch_value(number, ours, theirs)
            return
        up_to_sign = step.name.removeprefix("aten.") in UP_TO_SIGN
        pair = (np.abs(ours), np.abs(theirs)) if up_to_sign else (ours, theirs)
        operands = [largest_entry(fill_slots(a, self.shadows)) for a in step.args if isinstance(a, Slot)]
        if not is_equal_up_to_rounding(*pair, _format_name(t), _CANCELS * max(operands, default=0.0)):
            raise NotSupported(f"gradcli reads {step.name} differently from torch", where=_source_place())
        if not step.writes:  # so that rounding errors do not add up over steps
            self._store_torch_value(number, None if up_to_sign else ours, theirs)

    def _store_torch_value(self, number: int, ours: Any, theirs: Any) -> None:
        """Give a slot torch's value, in place where possible: ours may be a view of memory that is written to later."""
        if isinstance(ours, np.ndarray) and ours.flags.writeable and ours.dtype == np.asarray(theirs).dtype:
            ours[...] = theirs
        else:
            self.shadows[number] = theirs

    def _operand(self, a: Any) -> Any:
        if isinstance(a, torch.Tensor):
            return Slot(self.slot_of(a))
        if isinstance(a, list | tuple):
            return type(a)(self._operand(part) for part in a)
        if isinstance(a, torch.dtype | torch.device | torch.layout | torch.memory_format):
            return None
        return a

    def slot_of(self, t: torch.Tensor) -> int:
        """Return the slot of an operand or a result."""
        number = self.slots.get(id(t))
        if number is not None:
            return number
        number = self.memory.get(_memory_key(t))
        if number is not None and _storage_id(t) in self.moving:
            # the same memory, bypassing autograd: x.data, torch.from_numpy
            self.program.cuts.append(("data", current_position()))
            self.slots[id(t)] = number
            self.kept.append(t)
            return number
        return self._add_constant(t)

    def _add_constant(self, t: torch.Tensor) -> int:
        number = self._new_slot(t)
        self.program.constants[number], self.shadows[number] = to_numpy(t), to_numpy(t)
        return number

    def _forget_constants(self, y: Any) -> None:
        """Forget the slots of constants that share memory with a result, which was written to, so that they are read again."""
        for t in _tensors_in(y):
            for other in self.sharing.pop(_storage_id(t), ()):
                self.slots.pop(id(other), None)

    def _new_slot(self, t: torch.Tensor) -> int:
        number = len(self.kept)
        self.kept.append(t)
        self.slots[id(t)] = number
        self.memory[_memory_key(t)] = number
        self.sharing.setdefault(_storage_id(t), []).append(t)
        return number


def find_decomposition(func: Any) -> Callable[..., Any] | None:
    """Return torch's decomposition of an operation into others; None if it has none."""
    if func in decomposition_table:
        return decomposition_table[func]  # type: ignore[no-any-return]
    if func.namespace == "prims":  # the operations that decompositions use
        return func.impl_aten  # type: ignore[no-any-return]
    return func.decompose if func._can_decompose() else None


def _format_name(t: torch.Tensor) -> str:
    return str(t.dtype).removeprefix("torch.")


def _clone_tensors(a: Any) -> Any:
    """Return arguments with each tensor cloned, because the operation may write into it."""
    return tree_map_only(torch.Tensor, torch.clone, a)


def _storage_id(t: torch.Tensor) -> int:
    return int(t.untyped_storage()._cdata)


def _memory_key(t: torch.Tensor) -> tuple[Any, ...]:
    return t.data_ptr(), tuple(t.shape), t.stride(), t.dtype


def _flatten(a: Any) -> Any:
    if isinstance(a, dict):
        a = tuple(a.values())
    if isinstance(a, list | tuple):
        for part in a:
            yield from _flatten(part)
    else:
        yield a


def _tensors_in(y: Any) -> list[torch.Tensor]:
    return [t for t in _flatten(y) if isinstance(t, torch.Tensor)]


def _source_place() -> Any:
    found = place_of_position(current_position())
    return found if not isinstance(found, Span) else None


@contextmanager
def _track_no_grad(stopping: list[bool | None], program: RecordedSteps) -> Iterator[None]:
    """Keep in `stopping` whether the user's code has switched differentiation off, by no_grad and the like.

    So does torch.autograd.grad without create_graph. It does not count inside a custom function, which has its own gradient,
    whatever its forward switches off; the program is told of these.
    """
    blocks = {torch.no_grad: True, torch.inference_mode: True, torch.enable_grad: False}
    own = {block: (block.__enter__, block.__exit__) for block in blocks}
    apply = torch.autograd.Function.__dict__["apply"]

    def entering(block: Any, enter: Any) -> Any:
        def entered(self: Any) -> Any:
            stopping.append(blocks[block] and _INSIDE not in stopping)
            return enter(self)

        return entered

    def leaving(leave: Any) -> Any:
        def left(self: Any, *error: Any) -> Any:
            stopping.pop()
            return leave(self, *error)

        return left

    def applied(function: Any, *args: Any, **kwargs: Any) -> Any:
        program.has_custom_gradients = True
        stopping.append(_INSIDE)
        try:
            return apply.__get__(None, function)(*args, **kwargs)
        finally:
            stopping.pop()

    grad = torch.autograd.grad

    def graph_freeing_grad(*args: Any, **kwargs: Any) -> Any:
        given = inspect.signature(grad).bind_partial(*args, **kwargs).arguments
        stops = not given.get("create_graph") and _INSIDE not in stopping
        if stops:
            program.cuts.append(("grad", current_position()))
        stopping.append(stops)
        try:
            return grad(*args, **kwargs)
        finally:
            stopping.pop()

    for block, (enter, leave) in own.items():
        block.__enter__, block.__exit__ = entering(block, enter), leaving(leave)
    torch.autograd.Function.apply = classmethod(applied)
    torch.autograd.grad = graph_freeing_grad
    try:
        yield
    finally:
        torch.autograd.grad = grad
        torch.autograd.Function.apply = apply
        for block, (enter, leave) in own.items():
            block.__enter__, block.__exit__ = enter, leave


@contextmanager
def _track_numbers(recorder: TorchRecorder) -> Iterator[None]:
    """Note where torch takes numbers out of tensors without an operation: in torch.tensor([x[0], x[1]]) and x.tolist()."""
    makers = {name: getattr(torch, name) for name in ("tensor", "as_tensor", "asarray")}
    tolist = torch.Tensor.tolist

    def note(x: Any) -> None:
        if any(t.is_floating_point() and _storage_id(t) in recorder.moving for t in _tensors_in(x)):
            recorder.program.cuts.append(("item", current_position()))

    def watch(make: Any) -> Any:
        @wraps(make)
        def make_and_note(data: Any, *args: Any, **kwargs: Any) -> Any:
            if isinstance(data, list | tuple):
                note(data)
            return make(data, *args, **kwargs)

        return make_and_note

    def list_and_note(self: torch.Tensor) -> Any:
        note(self)
        return tolist(self)

    for name, make in makers.items():
        setattr(torch, name, watch(make))
    torch.Tensor.tolist = list_and_note
    try:
        yield
    finally:
        del torch.Tensor.tolist  # which it inherits
        for name, make in makers.items():
            setattr(torch, name, make)


def record_program(
    call: Callable[[], Any], inputs: list[torch.Tensor], outputs: Callable[[Any], list[torch.Tensor]]
) -> tuple[RecordedSteps, Any]:
    """Record a call as a program of its inputs; return it with the call's result. Raises NotSupported."""
    recorder = TorchRecorder(inputs)
    try:
        with recorder, _track_no_grad(recorder.stopping, recorder.program), _track_numbers(recorder):
            y = call()
    except GradcliError as error:
        raise NotSupported(error.what, where=error.where, do=error.do) from error
    recorder.program.results = [recorder.slot_of(t) for t in outputs(y)]
    recorder.program.first = [recorder.shadows[slot] for slot in recorder.program.results]
    return recorder.program, y
