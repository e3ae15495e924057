"""What a torch function did, operation by operation, as a program of gradcli's own.

A dispatch mode sees every aten call below autograd with the tensors it really got, so that control flow is followed as it
was. Each call is run in numpy at once beside torch's own result: where the two differ, our reading of it is not used.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from gradcli.core.primitive import Primitive
from gradcli.core.provenance import place, position
from gradcli.errors import GradcliError, NotSupported, Span
from gradcli.frameworks.framework import EPS
from gradcli.frameworks.recorded_steps import RecordedSteps, Slot, Step, filled, largest, ran
from gradcli.frameworks.torch.aten import TABLE
from gradcli.frameworks.torch.aten.rows import UP_TO_SIGN
from gradcli.frameworks.torch.quietly import decomposition_table

_LEFT_OUT = {"dtype", "layout", "device", "pin_memory", "memory_format", "non_blocking", "implicit"}
_SAME = {torch.float64: 1e-9, torch.float32: 1e-3}  # of the largest entry: the same operation, rounded in another order
_LOOSE = 5e-2  # for narrower formats
_CANCELS = 1e-3  # of the largest operand: a smaller result may be what is left of terms that cancel
_DRAW = Primitive("draw", lambda *xs, y: y, (), kind="constant", on=())
_DRAWS = {"bernoulli", "multinomial", "poisson", "binomial"}
_DEEPEST = 20  # an operation that is made of itself has no end
_INSIDE = None  # of a custom function: among the blocks that are entered
_SCALAR = "_local_scalar_dense"


def host(x: torch.Tensor) -> Any:
    """Return a tensor as numpy has it: floats in float64, 0-d as a number."""
    x = x.detach().resolve_conj().resolve_neg()
    if x.dtype in (torch.bfloat16, torch.float16, torch.float32):
        x = x.to(torch.float64)
    return x.cpu().numpy().copy()[()]


class Recorder(TorchDispatchMode):  # type: ignore[misc]
    """Records the aten calls that are made while it is active."""

    def __init__(self, inputs: list[torch.Tensor]) -> None:
        super().__init__()
        self.program = RecordedSteps()
        self.slots: dict[int, int] = {}
        self.kept: list[torch.Tensor] = []  # so that no id is used twice
        self.moving: set[int] = set()  # storages that depend on the inputs
        self.memory: dict[tuple[Any, ...], int] = {}
        self.depth = 0  # of operations that are recorded as those they are made of
        self.shadows: dict[int, Any] = {}
        self.stopping: list[bool | None] = [
            False
        ]  # by the user's blocks that are entered, innermost last: whether nothing is differentiated
        for x in inputs:
            number = self._new(x)
            self.program.inputs.append(number)
            self.shadows[number] = host(x)
            self.moving.add(_storage(x))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func.overloadpacket.__name__
        of_shape = name.startswith("new_") or name.endswith("_like")  # what they return has no entry of their operand
        moved = not of_shape and self._moves((args, kwargs))
        if name == _SCALAR:
            if moved:
                self.program.cuts.append(("item", position()))
            return func(*args, **kwargs)
        inplace = func._schema.is_mutable and name.endswith("_") and not name.endswith("__")
        writes = inplace and torch.Tag.inplace_view not in func.tags
        compute = TABLE.get(name[:-1] if inplace else name) if func.namespace == "aten" and not of_shape else None
        drawn = moved and name.removesuffix("_") in _DRAWS
        if (
            compute is None and torch.Tag.nondeterministic_seeded in func.tags
        ):  # a row refuses what it would have to draw
            moved = False
        if compute is None and moved:
            parts = decomposed(func) if self.depth < _DEEPEST else None
            if parts is not None:
                return self._in_parts(func, parts, args, kwargs)
            raise NotSupported(f"gradcli does not know {func.namespace}.{name}", where=_place())
        if name == "detach" and moved and not torch.is_grad_enabled():  # where it is, autograd detaches what it keeps
            self.program.cuts.append(("detach", position()))
        operands = (
            [self._operand(a) for a in args],
            {k: self._operand(a) for k, a in kwargs.items() if k not in _LEFT_OUT},
        )
        factory = compute is None or not any(isinstance(a, torch.Tensor) for a in _flat((args, kwargs)))
        y = func(*args, **kwargs)
        if "empty" in name:
            y.zero_()
        if factory or _whole(name, y):
            for t in _tensors(y):
                number = self._constant(t)
                if drawn:
                    self._draw(name, operands[0], self.program.constants.pop(number), number)
            return y
        self._step(name, compute, *operands, y, writes, moved)
        return y

    def _in_parts(self, func: Any, parts: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Record an operation as those that torch makes it of. Raises NotSupported where they give another value."""
        theirs = func(*_copied(args), **_copied(kwargs)) if self.depth == 0 else None
        self.depth += 1
        try:
            with self:
                y = parts(*args, **kwargs)
        finally:
            self.depth -= 1
        operands = [largest(host(t)) for t in _tensors(args)]
        for ours, right in zip(_tensors(y), _tensors(theirs), strict=False):
            if right.is_floating_point() and not _same(host(ours), host(right), right.dtype, operands):
                raise NotSupported(f"torch's decomposition of {func} gives another value", where=_place())
        return y

    def _step(self, name: str, compute: Any, args: Any, kwargs: Any, y: Any, writes: bool, moved: bool) -> None:
        results = [y] if isinstance(y, torch.Tensor) else list(y) if isinstance(y, tuple | list) else []
        outs = tuple(self._new(t) if isinstance(t, torch.Tensor) else -1 for t in results)
        if writes and results and isinstance(args[0], Slot):  # torch returns the tensor that was written to
            outs = (args[0].number,)
            self.slots[id(results[0])] = args[0].number
        stopped = moved and self.stopping[-1] is True
        step = Step(f"aten.{name}", compute, tuple(args), kwargs, outs, position(), writes, stopped)
        ran(step, self.shadows)
        for number, t in zip(outs, results, strict=False):
            if isinstance(t, torch.Tensor):
                self._compared(step, number, t)
                if moved:
                    self.moving.add(_storage(t))
                    self._narrowed(t)
        if moved and writes:
            self.moving.add(_storage(results[0]))
        self.program.steps.append(step)
        if writes and results and results[0].dim() == 0:
            self._through(results[0], outs[0])

    def _draw(self, name: str, operands: Sequence[Any], value: Any, number: int) -> None:
        """Record a draw, whose value moves with its parameters in steps alone."""
        xs = tuple(a for a in operands if isinstance(a, Slot))
        self.program.steps.append(Step(f"aten.{name}", partial(_DRAW, y=value), xs, {}, (number,), position()))

    def _through(self, t: torch.Tensor, number: int) -> None:
        """Write a number into the array that it is an entry of."""
        base = t._base
        if base is None or id(base) not in self.slots:
            return
        offset, at = t.storage_offset() - base.storage_offset(), []
        for stride in base.stride():
            at.append(offset // stride if stride else 0)
            offset -= at[-1] * stride
        step = Step(
            "put",
            _putting(tuple(at)),
            (Slot(self.slots[id(base)]), Slot(number)),
            {},
            (self.slots[id(base)],),
            position(),
        )
        ran(step, self.shadows)
        self.program.steps.append(step)
        if _storage(t) in self.moving:
            self.moving.add(_storage(base))

    def _narrowed(self, t: torch.Tensor) -> None:
        """Note a narrower format on the way."""
        name = str(t.dtype).removeprefix("torch.")
        if EPS.get(name, 0.0) > EPS[self.program.narrowest]:
            self.program.narrowest = name

    def _compared(self, step: Step, number: int, t: torch.Tensor) -> None:
        """Refuse a reading of an operation that gives another value than torch does."""
        ours = self.shadows.get(number)
        if ours is None or not t.is_floating_point():
            self.shadows[number] = host(t)
            return
        theirs = host(t)
        if step.name.removeprefix("aten.") in UP_TO_SIGN:
            ours, theirs = np.abs(ours), np.abs(theirs)
        operands = [largest(filled(a, self.shadows)) for a in step.args if isinstance(a, Slot)]
        if not _same(ours, theirs, t.dtype, operands):
            raise NotSupported(f"gradcli reads {step.name} differently from torch", where=_place())
        if not step.writes:  # what rounding did so far is no fault of the next operation
            if (
                isinstance(ours, np.ndarray)
                and ours.flags.writeable
                and step.name.removeprefix("aten.") not in UP_TO_SIGN
            ):
                ours[...] = theirs  # in place: it may be a view of what is written into later
            else:
                self.shadows[number] = host(t)

    def _operand(self, a: Any) -> Any:
        if isinstance(a, torch.Tensor):
            return Slot(self._slot(a))
        if isinstance(a, list | tuple):
            return type(a)(self._operand(part) for part in a)
        if isinstance(a, torch.dtype | torch.device | torch.layout | torch.memory_format):
            return None
        return a

    def _slot(self, t: torch.Tensor) -> int:
        number = self.slots.get(id(t))
        if number is not None:
            return number
        number = self.memory.get(_memory(t))
        if (
            number is not None and _storage(t) in self.moving
        ):  # the same memory, past autograd: x.data, torch.from_numpy
            self.program.cuts.append(("data", position()))
            self.slots[id(t)] = number
            self.kept.append(t)
            return number
        return self._constant(t)

    def _constant(self, t: torch.Tensor) -> int:
        number = self._new(t)
        self.program.constants[number], self.shadows[number] = host(t), host(t)
        return number

    def _new(self, t: torch.Tensor) -> int:
        number = len(self.kept)
        self.kept.append(t)
        self.slots[id(t)] = number
        self.memory[_memory(t)] = number
        return number

    def _moves(self, a: Any) -> bool:
        return any(isinstance(t, torch.Tensor) and _storage(t) in self.moving for t in _flat(a))

    def result(self, t: torch.Tensor) -> int:
        """Return the slot of a result of the whole."""
        return self._slot(t)


def decomposed(func: Any) -> Callable[..., Any] | None:
    """Return how torch itself makes an operation of others, None for one that is made of no others."""
    if func in decomposition_table:
        return decomposition_table[func]  # type: ignore[no-any-return]
    if func.namespace == "prims":  # what decompositions are written with
        return func.impl_aten  # type: ignore[no-any-return]
    return func.decompose if func._can_decompose() else None


def _putting(at: tuple[int, ...]) -> Callable[[Any, Any], Any]:
    def put(base: Any, number: Any) -> Any:
        base[at] = number
        return base

    return put


def _whole(name: str, y: Any) -> bool:
    """Whether an operation makes whole numbers of floats: they are constants."""
    return name == "_to_copy" and not y.is_floating_point() and not y.is_complex()


def _same(ours: Any, theirs: Any, dtype: torch.dtype, operands: Sequence[float]) -> bool:
    """Whether two results of an operation on operands of these sizes are the same but for rounding."""
    size = max(largest(theirs), _CANCELS * max(operands, default=0.0))
    room = _SAME.get(dtype, _LOOSE) * size + 1e-300
    return np.shape(ours) == np.shape(theirs) and np.allclose(ours, theirs, rtol=0.0, atol=room, equal_nan=True)


def _copied(a: Any) -> Any:
    """Return arguments with tensors of their own in place of tensors, which may be written to."""
    return tree_map_only(torch.Tensor, torch.clone, a)


def _storage(t: torch.Tensor) -> int:
    return int(t.untyped_storage()._cdata)


def _memory(t: torch.Tensor) -> tuple[Any, ...]:
    return t.data_ptr(), tuple(t.shape), t.stride(), t.dtype


def _flat(a: Any) -> Any:
    if isinstance(a, dict):
        a = tuple(a.values())
    if isinstance(a, list | tuple):
        for part in a:
            yield from _flat(part)
    else:
        yield a


def _tensors(y: Any) -> list[torch.Tensor]:
    return [t for t in _flat(y) if isinstance(t, torch.Tensor)]


def _place() -> Any:
    found = place(position())
    return found if not isinstance(found, Span) else None


@contextmanager
def _stops_watched(stopping: list[bool | None]) -> Iterator[None]:
    """Keep in `stopping` whether the user's code lets nothing be differentiated, by no_grad and the like.

    What is inside a custom function has a gradient of its own, whatever its forward switches off.
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
        stopping.append(_INSIDE)
        try:
            return apply.__get__(None, function)(*args, **kwargs)
        finally:
            stopping.pop()

    for block, (enter, leave) in own.items():
        block.__enter__, block.__exit__ = entering(block, enter), leaving(leave)
    torch.autograd.Function.apply = classmethod(applied)
    try:
        yield
    finally:
        torch.autograd.Function.apply = apply
        for block, (enter, leave) in own.items():
            block.__enter__, block.__exit__ = enter, leave


def recorded(
    call: Callable[[], Any], inputs: list[torch.Tensor], outputs: Callable[[Any], list[torch.Tensor]]
) -> tuple[RecordedSteps, Any]:
    """Return what a call did as a program of its inputs, and the call's result. Raises NotSupported."""
    recorder = Recorder(inputs)
    try:
        with recorder, _stops_watched(recorder.stopping):
            y = call()
    except GradcliError as error:
        raise NotSupported(error.what, where=error.where, do=error.do) from error
    recorder.program.results = [recorder.result(t) for t in outputs(y)]
    return recorder.program, y
