"""Recording of a JAX function as a program in numpy, primitive by primitive.

A custom trace receives every primitive with its actual values, so that control flow on values is followed as it
happened; jitted functions and other calls are opened. Each primitive is also run in numpy, and compared with JAX's own
result: if the two differ, the recording is refused.
"""

import inspect
import linecache
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.extend.core import Literal, set_current_trace

from gradcli.errors import NotSupported, Place
from gradcli.frameworks.jax.evaluate import CALLS, LOOPS, evaluated, known, settled
from gradcli.frameworks.ops import TABLE
from gradcli.frameworks.recorder import RecordedSteps, Slot, Step, is_same, ran, rounds_to
from gradcli.tracing.provenance import is_users, position, shown

_NOT_ANALYTIC = {"conj", "sign"}


def host(x: Any) -> Any:
    """Return an array in numpy: floats in float64, an array without axes as a number."""
    x = np.asarray(x)
    if x.dtype.kind in "iub":
        return x[()]
    return np.array(x, dtype=np.complex128 if x.dtype.kind == "c" else np.float64)[()]


class At:
    """The source position of a jaxpr's equation."""

    __slots__ = ("traceback",)

    def __init__(self, traceback: Any) -> None:
        self.traceback = traceback

    @property
    def span(self) -> Place | None:
        """The innermost line of the user's code."""
        for frame in self.traceback.frames if self.traceback is not None else ():
            if is_users(frame.file_name):
                text = linecache.getline(frame.file_name, frame.line_num).rstrip("\n")
                return Place(shown(frame.file_name), frame.line_num, text)
        return None


class Recorded(jax.core.Tracer):  # type: ignore[misc]
    """A value that depends on the inputs."""

    __slots__ = ("number", "value")

    def __init__(self, trace: "Recorder", value: Any, number: int) -> None:
        super().__init__(trace, jax.typeof(value))
        self.value = value
        self.number = number

    def to_concrete_value(self) -> Any:
        """Return the value, so that code may branch on it."""
        return self.value


class Recorder(jax.core.Trace):  # type: ignore[misc]
    """A trace that records the primitives applied to values that depend on the inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.program = RecordedSteps()
        self.shadows: dict[int, Any] = {}
        self.here: Any = None
        self.count = -1

    def input(self, x: Any) -> Recorded:
        """Return an input wrapped, so that operations on it are recorded."""
        new = self._new(x)
        self.program.inputs.append(new.number)
        self.shadows[new.number] = host(x)
        return new

    def process_primitive(self, primitive: Any, xs: Sequence[Any], params: dict[str, Any], /) -> Any:
        """Run a primitive, and record it if one of its operands is recorded."""
        if not any(self._ours(x) for x in xs):
            with jax.core.eval_context():
                return primitive.bind(*xs, **params)
        inner = params.get(CALLS.get(primitive.name, ""))
        if inner is not None:
            own = known(inner) if primitive.name == "custom_jvp_call" else None
            ys = self._run(inner, xs) if own is None else self._opaque(inner, own, xs)
            return ys if primitive.multiple_results else ys[0]
        values = [x.value if self._ours(x) else x for x in xs]
        with jax.core.eval_context():
            y = primitive.bind(*values, **params)
        news = self._step(
            primitive.name, lambda: entry(primitive, params, values), xs, y if primitive.multiple_results else [y]
        )
        return news if primitive.multiple_results else news[0]

    def _step(self, name: str, made: Callable[[], Any], xs: Sequence[Any], ys: Sequence[Any]) -> list[Recorded]:
        """Record one operation with JAX's results `ys`; `made` returns the function that computes it in numpy."""
        news = [self._new(y) for y in ys]
        if not news:
            return news
        where = self.here if self.here is not None else position()
        args = tuple(Slot(x.number) if self._ours(x) else settled(x, jax.typeof(x)) for x in xs)
        step = Step(
            f"lax.{name}", _settling(made(), [t.aval for t in news]), args, {}, tuple(t.number for t in news), where,
            rounds_to=None if name in LOOPS else rounds_to(t.dtype.name for t in news),
        )  # fmt: skip
        ran(step, self.shadows)
        if name == "stop_gradient":
            self.program.cuts.append(("stop", where))
        for t in news:
            self._compared(step, t)
            self.program.narrow(t.dtype.name)
        self.program.steps.append(step)
        return news

    def _opaque(self, inner: Any, own: Callable[..., Any], xs: Sequence[Any]) -> list[Recorded]:
        """Record a function of JAX's library, which gradcli implements itself, as one operation."""
        values = [x.value if self._ours(x) else x for x in xs]
        with jax.core.eval_context():
            ys = jax.core.eval_jaxpr(inner.jaxpr, inner.consts, *values)
        return self._step(inner.jaxpr.debug_info.func_name, lambda: own, xs, ys)

    def process_call(self, primitive: Any, f: Any, xs: Sequence[Any], params: Any, /) -> Any:
        """Run a called function under this trace."""
        with set_current_trace(self):
            return f.call_wrapped(*xs)

    def process_custom_jvp_call(self, primitive: Any, fun: Any, jvp: Any, xs: Sequence[Any], /, **params: Any) -> Any:
        """Run the function itself, without its rule."""
        own = known(fun)
        if own is None or not any(self._ours(x) for x in xs):
            with set_current_trace(self):
                return fun.call_wrapped(*xs)
        with jax.core.eval_context():
            ys = fun.call_wrapped(*(x.value if self._ours(x) else x for x in xs))
        return self._step(fun.debug_info.func_name, lambda: own, xs, ys)

    def process_custom_vjp_call(
        self, primitive: Any, fun: Any, fwd: Any, bwd: Any, xs: Sequence[Any], /, **params: Any
    ) -> Any:
        """Run the function itself, without its rule."""
        with set_current_trace(self):
            return fun.call_wrapped(*xs)

    def stage_value(self, x: Any) -> Any:
        """Return a recorded value unchanged, and a plain number as a JAX array."""
        if self._ours(x):
            return x
        with jax.core.eval_context():
            return jax.numpy.asarray(x)

    def _run(self, inner: Any, xs: Sequence[Any]) -> list[Any]:
        """Run the equations of a jaxpr one by one."""
        jaxpr, constants = getattr(inner, "jaxpr", inner), getattr(inner, "consts", ())
        values: dict[Any, Any] = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*constants, *xs), strict=True))
        before = self.here
        for equation in jaxpr.eqns:
            operands = [v.val if isinstance(v, Literal) else values[v] for v in equation.invars]
            found = At(equation.source_info.traceback)
            self.here = found if found.span is not None else before
            y = self.process_primitive(equation.primitive, operands, equation.params)
            values.update(zip(equation.outvars, y if equation.primitive.multiple_results else [y], strict=True))
        self.here = before
        return [v.val if isinstance(v, Literal) else values[v] for v in jaxpr.outvars]

    def _compared(self, step: Step, t: Recorded) -> None:
        """Raise NotSupported if numpy gives a primitive a different value from JAX."""
        if not jax.numpy.issubdtype(t.dtype, jax.numpy.floating):
            return
        ours, theirs = self.shadows[t.number], host(t.value)
        if not is_same(ours, theirs, t.dtype.name):
            place = step.position.span if isinstance(step.position, At) else None
            raise NotSupported(f"gradcli reads {step.name} differently from JAX", where=place)
        self.shadows[t.number] = theirs  # so that rounding errors do not add up over steps

    def _ours(self, x: Any) -> bool:
        return isinstance(x, Recorded) and x._trace is self

    def _new(self, x: Any) -> Recorded:
        self.count += 1
        return Recorded(self, x, self.count)

    def value(self, x: Any) -> Any:
        """Return the plain value of a result."""
        return x.value if self._ours(x) else x

    def result(self, x: Any) -> int:
        """Return the slot of one of the function's results."""
        if self._ours(x):
            return int(x.number)
        self.count += 1
        self.program.constants[self.count] = host(x)
        return self.count


class Analytic(Recorder):
    """A trace that refuses what is not the analytic continuation of the real function: |z|^2 for a square, say."""

    def input(self, x: Any) -> Recorded:
        """Return a complex input wrapped, so that operations on it are checked."""
        return self._new(x)

    def _step(self, name: str, made: Callable[[], Any], xs: Sequence[Any], ys: Sequence[Any]) -> list[Recorded]:
        of_parts = any(
            self._ours(x) and x.dtype.kind == "f" for x in xs
        )  # real parts and absolute values are allowed in comparisons only
        if name in _NOT_ANALYTIC or (of_parts and any(jax.typeof(y).dtype.kind in "fc" for y in ys)):
            raise TypeError(f"lax.{name} is not analytic here")
        return [self._new(y) for y in ys]


def entry(primitive: Any, params: dict[str, Any], values: Sequence[Any]) -> Callable[..., Any]:
    """Return a function that computes a primitive in numpy, for operands of the same types as `values`."""
    known_entry = TABLE.get(primitive.name)
    if known_entry is not None:
        return partial(known_entry, **params)
    closed = jax.make_jaxpr(lambda *xs: primitive.bind(*xs, **params))(*values)

    def replayed(*xs: Any) -> list[Any]:
        with jax.enable_x64(True):
            return evaluated(closed, xs)

    return replayed


def _settling(compute: Callable[..., Any], avals: Sequence[Any]) -> Callable[..., Any]:
    """Return a function with its results converted to gradcli's formats."""

    def settling(*xs: Any) -> list[Any]:
        with np.errstate(all="ignore"):
            y = compute(*xs)
        ys = y if isinstance(y, tuple | list) else (y,)
        return [settled(part, aval) for part, aval in zip(ys, avals, strict=True)]

    return settling


@contextmanager
def _plainly() -> Iterator[None]:
    """Let custom_vjp functions take recorded values for their nondiff_argnums; their rules are not needed here."""
    own = jax.custom_vjp.__call__

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        given = inspect.signature(self.fun).bind(*args, **kwargs).args if self.nondiff_argnums else ()
        held = [given[k] for k in self.nondiff_argnums if k < len(given)]
        return self.fun(*args, **kwargs) if any(isinstance(x, Recorded) for x in held) else own(self, *args, **kwargs)

    jax.custom_vjp.__call__ = call
    try:
        yield
    finally:
        jax.custom_vjp.__call__ = own


def recorded(
    call: Callable[[list[Any]], Any], inputs: Sequence[Any], outputs: Callable[[Any], list[Any]]
) -> tuple[RecordedSteps, Any]:
    """Record a call as a program of its inputs; return it with the call's result. Raises NotSupported."""
    recorder = Recorder()
    with set_current_trace(recorder), _plainly():
        y = call([recorder.input(x) for x in inputs])
    recorder.program.results = [recorder.result(t) for t in outputs(y)]
    return recorder.program, y
