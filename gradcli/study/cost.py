"""The cost of modes: operations counted on recorded programs, and measured memory and time."""

import time
import tracemalloc
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from gradcli.arithmetic.dual import jvp
from gradcli.arithmetic.program import record, value_and_pulled, vjp
from gradcli.arithmetic.tape import CONSTANT, Line, read_by_rules
from gradcli.modes.mode import Question
from gradcli.modes.problem import work
from gradcli.request.point import Cost
from gradcli.targets.derived import inside, keeping
from gradcli.tracing.cost import Operations
from gradcli.tracing.primitive import Primitive
from gradcli.tracing.shapes import Forgotten, shape, size

FLOAT = 8  # bytes of a float64
_COUNTED = ("n", "subscripts")  # parameters on which the number of operations depends
_QUARTERS_OF_A_CALL = 12_000  # quarters of an operation that take as long as one numpy call
_FUNCTION = 10  # operations that take as long as one entry of a transcendental function
BALL = 200  # multiply-adds of a matrix product that take as long as one operation in balls

Shape = tuple[int, ...]


class Step(NamedTuple):
    """One recorded line without numbers.

    `views` is the number of the operand whose memory the result shares, or -1. `captured` are the shapes of constant
    arrays that the tape holds for this line. `inside` are the lines of a checkpointed call.
    """

    operation: Primitive | None
    slots: tuple[int, ...]
    operands: tuple[Shape, ...]
    result: Shape
    params: tuple[tuple[str, Any], ...]
    views: int
    captured: tuple[Shape, ...]
    inside: tuple["Step", ...]

    @property
    def line(self) -> Line:
        """The step as a line of the tape whose values hold only their shapes."""
        xs = tuple(map(Forgotten, self.operands))
        return self.operation, self.slots, xs, Forgotten(self.result), dict(self.params), None


class Outline(NamedTuple):
    """The programs of one size: f, the tape of its reverse sweep, f with one reverse sweep, f with one tangent.

    `tape` differs from `function` only if parts of f are checkpointed. `stored` is the gradient if f stored everything.
    All programs are empty for a function that cannot be traced.
    """

    inputs: tuple[Shape, ...]
    differentiated: tuple[Shape, ...]
    output: Shape
    function: tuple[Step, ...]
    tape: tuple[Step, ...]
    gradient: tuple[Step, ...]
    stored: tuple[Step, ...]
    tangent: tuple[Step, ...]


_AGAIN = 10**8  # operations of one run: longer ones are not repeated to measure time or memory
_CALL = 1_000  # operations that take as long as running one line of numpy code
_TIMES = 5
MOST_LINES = 20_000  # of a program whose operations are counted by recording its gradient


def counted(lines: Iterable[Line]) -> Operations:
    """Return the operations of recorded lines, also inside checkpointed calls; moving entries counts nothing."""
    total = Operations()
    for line in lines:
        again = inside(line)
        total += counted(again) if again else _of(line)
    return total


def _of(line: Line) -> Operations:
    primitive, _, xs, y, params, _ = line
    return Operations() if primitive is None else primitive.cost.operations(xs, y, params or {})


def of_function(q: Question) -> Operations:
    """Return the operations of one evaluation of f."""
    return counted(q.lines)


def of_reverse(q: Question) -> Operations:
    """Return the operations of a gradient by the reverse mode: f, reverse sweeps, and what checkpoints recompute.

    They are counted by recording the gradient itself. For a vector result: f once, and one reverse sweep for each row of
    the Jacobian.
    """
    once, f = _recorded(*gradient_of(q)), of_function(q)
    return f + (once - f).times(size(q.value))


def recomputed(q: Question) -> Operations:
    """Return the operations that one reverse sweep repeats because f is checkpointed."""
    if not q.checkpointed:
        return Operations()
    again = _recorded(*gradient_of(q))
    with keeping():
        return again - _recorded(*gradient_of(q))


def of_forward(q: Question) -> Operations:
    """Return the operations of one directional derivative by the forward mode."""
    return _recorded(*tangent_of(q))


def gradient_of(q: Question) -> tuple[Callable[..., Any], list[Any]]:
    """Return f with one reverse sweep as a function, and the arguments to record it at."""

    def gradient(*xs: Any) -> Any:
        *primals, ybar = xs
        return _flat(vjp(q.g, primals)[1](ybar))

    return gradient, [*q.xs, np.ones(shape(q.value))[()]]


def tangent_of(q: Question) -> tuple[Callable[..., Any], list[Any]]:
    """Return f with one tangent as a function, and the arguments to record it at."""
    count = len(q.xs)
    vs = [np.ones(shape(x))[()] for x in q.xs]
    return lambda *at: _flat([jvp(q.g, at[:count], at[count:])[1]]), [*q.xs, *vs]


def _flat(parts: list[Any]) -> Any:
    return np.concatenate([np.zeros(0), *(np.reshape(part, (-1,)) for part in parts)])


def _recorded(f: Callable[..., Any], xs: list[Any]) -> Operations:
    with np.errstate(all="ignore"):
        _, _, tape = record(f, xs)
    return counted(tape.lines)


def peak_bytes(work: Callable[[], Any]) -> int:
    """Return the peak memory of `work` in bytes, beyond what was held before.

    Memory that C libraries do not report to Python, such as python-flint's numbers, is not included.
    """
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        with np.errstate(all="ignore"):
            work()
        return max(0, tracemalloc.get_traced_memory()[1] - before)
    finally:
        tracemalloc.stop()


def takes_at_most(q: Question, most: int, runs: int) -> bool:
    """Whether this many runs of f take at most `most` operations; a numpy call counts as 1,000. False without a trace."""
    return not q.untraced and runs * (q.operations + _CALL * len(q.lines)) <= most


def measured_bytes(q: Question, mode: str) -> int | None:
    """Return the peak memory of one run of a mode in bytes; None if it cannot be measured, or is too much work."""
    run = one_run(q, mode) if takes_at_most(q, _AGAIN, 1) else None
    return None if run is None else min(peak_bytes(run) for _ in range(2))  # the first run also fills caches


def least_seconds(q: Question, mode: str, cost: Cost) -> float:
    """Return the seconds of a mode; if its repeated part is quick, at most the best time of this part times its repeats."""
    rows = size(q.value) if mode == "reverse" else cost.evaluations
    run = one_run(q, mode) if takes_at_most(q, _AGAIN, _TIMES) else None
    if run is None:
        return cost.seconds
    best = np.inf
    with np.errstate(all="ignore"):
        for _ in range(_TIMES):
            start = time.perf_counter()
            run()
            best = min(best, time.perf_counter() - start)
    return float(min(cost.seconds, rows * best))


def one_run(q: Question, mode: str) -> Callable[[], Any] | None:
    """Return the part of a mode that repeats, a sweep or an evaluation; None for modes that cannot be measured."""
    vs = [np.ones(shape(x))[()] for x in q.xs]
    if mode == "reverse":
        return lambda: value_and_pulled(lambda *xs: np.sum(q.g(*xs)), q.xs, lambda y: np.float64(1))
    if mode == "forward":
        return lambda: jvp(q.g, q.xs, vs)
    if mode == "complex-step":
        return lambda: q.g(*[x + 1e-20j for x in q.xs])
    return (lambda: q.g(*q.xs)) if mode == "finite-difference" else None


# Count the operations, sweeps and bytes of a program from the shapes of its recorded lines.
#
# A `Step` is a recorded line without its numbers, and an `Outline` holds the programs of one size. Since it holds only
# shapes, an outline can be made for sizes that no memory could hold.


class Counts(NamedTuple):
    """The cost of a function at one size.

    If not `counted`, operations, lines, work, `tape_bytes` and `live_bytes` are unknown. `gradient` is f with one reverse
    sweep, `tangent` f with one tangent, and `recomputed` what each reverse sweep repeats. A reverse sweep holds
    `tape_bytes`; f holds at most `live_bytes` while it runs, if each array is freed after its last use. `largest_bytes`
    is the size of the largest differentiated input.

    Units  scalar operations, bytes, and `work` in quarters of the time that one addition takes.
    """

    traced: int
    counted: int
    checkpointed: int
    entries: int
    outputs: int
    lines: int
    input_bytes: int
    jacobian_bytes: int
    tape_bytes: int
    live_bytes: int
    largest_bytes: int
    function: int
    gradient: int
    tangent: int
    recomputed: int
    function_work: int
    gradient_work: int
    tangent_work: int
    ball_work: int

    @property
    def of_shapes(self) -> "Counts":
        """The counts that depend only on the shapes of the inputs and the result; the others are 0."""
        kept = ("traced", "checkpointed", "entries", "outputs", "input_bytes", "jacobian_bytes", "largest_bytes")
        return Counts(**{name: getattr(self, name) if name in kept else 0 for name in self._fields})

    @property
    def recomputed_evaluations(self) -> int:
        """The evaluations of f that the reverse sweeps of a Jacobian repeat, rounded up."""
        return -(-self.outputs * self.recomputed // max(1, self.function))

    def evaluations(self, mode: str) -> int | None:
        """Return how often a mode evaluates f, with recomputation; None if that depends on values."""
        if not self.traced:
            return None
        if mode == "reverse" and self.checkpointed and not self.counted:
            return None
        per_mode = {"reverse": 1 + self.recomputed_evaluations, "forward": self.entries, "complex-step": self.entries}
        return per_mode.get(mode)

    def sweeps(self, mode: str) -> int | None:
        """Return the sweeps of a Jacobian: one reverse sweep for each output, or one forward sweep for each input entry."""
        return {"reverse": self.outputs, "forward": self.entries}.get(mode) if self.traced else None

    def operations(self, mode: str, evaluations: int | None) -> int | None:
        """Return the scalar operations of a mode; None for a mode that does not run in float64."""
        if not self.counted:
            return None
        if mode == "reverse":
            return self.function + self.outputs * (self.gradient - self.function)
        if mode == "forward":
            return self.entries * self.tangent
        if mode in ("complex-step", "finite-difference") and evaluations is not None:
            return evaluations * self.function
        return None

    def held_bytes(self, mode: str) -> int | None:
        """Return the bytes a mode holds besides inputs and Jacobian; None for a mode that does not run in float64."""
        if not self.counted:
            return None
        return {
            "reverse": self.tape_bytes,
            "forward": 2 * self.live_bytes + self.largest_bytes,
            "complex-step": 2 * (self.live_bytes + self.largest_bytes),
            "finite-difference": self.live_bytes + self.largest_bytes,
        }.get(mode)

    def work(self, mode: str, calls: int) -> int:
        """Return the work of a mode; for the certified mode, in ball operations. Differences make `calls` for each entry."""
        if mode == "certified":
            return self.ball_work * (1 + self.outputs) // BALL
        if mode == "symbolic":
            return self.function * self.entries
        each = {
            "forward": self.entries * self.tangent_work,
            "complex-step": 2 * self.entries * self.function_work,
            "finite-difference": calls * self.entries * self.function_work,
        }
        return each.get(mode, self.function_work + self.outputs * (self.gradient_work - self.function_work))


def outline(q: Question, size_name: str = "") -> Outline | None:
    """Return the programs of a question as shapes; None if they have too many lines. The named size is not an input."""
    values = {name: x for name, x in q.point.values.items() if name != size_name or name in q.wrt}
    inputs = tuple(shape(x) for x in values.values() if isinstance(x, np.ndarray | float))
    facts = inputs, tuple(map(shape, q.xs)), shape(q.value)
    if q.untraced or not q.wrt:
        return Outline(*facts, (), (), (), (), ())
    if len(q.lines) > MOST_LINES:
        return None
    still = [x for x in q.point.values.values() if isinstance(x, np.ndarray)]
    function = _steps(q.lines, still)
    stored = _steps(_lines(*gradient_of(q), keep=True), still)
    tape = _steps(_lines(q.g, q.xs), still) if q.checkpointed else function
    gradient = _steps(_lines(*gradient_of(q)), still) if q.checkpointed else stored
    return Outline(*facts, function, tape, gradient, stored, _steps(_lines(*tangent_of(q)), still))


def _lines(f: Callable[..., Any], xs: Sequence[Any], keep: bool = False) -> list[Line]:
    with np.errstate(all="ignore"):
        if not keep:
            return record(f, xs)[2].lines
        with keeping():
            return record(f, xs)[2].lines


def _steps(lines: Sequence[Line], inputs: Sequence[Any]) -> tuple[Step, ...]:
    seen = {id(x) for x in inputs}
    return tuple(_step(line, seen) for line in lines)


def _step(line: Line, seen: set[int]) -> Step:
    primitive, slots, xs, y, params, _ = line
    captured = []
    for slot, x in zip(slots, xs, strict=True):
        if slot == CONSTANT and type(x) is np.ndarray and id(x) not in seen:
            seen.add(id(x))
            captured.append(x.shape)
    views = next((k for k, x in enumerate(xs) if _shares(x, y)), -1)
    kept = tuple((name, (params or {})[name]) for name in _COUNTED if name in (params or {}))
    inner = tuple(_step(each, set()) for each in inside(line))
    return Step(primitive, slots, tuple(map(shape, xs)), shape(y), kept, views, tuple(captured), inner)


def _shares(x: Any, y: Any) -> bool:
    return type(x) is np.ndarray and type(y) is np.ndarray and np.may_share_memory(x, y)


def counts(made: Outline) -> Counts:
    """Return the cost of the programs of one size."""
    entries, outputs = sum(map(_entries, made.differentiated)), _entries(made.output)
    f, gradient, stored, tangent = map(_operations, (made.function, made.gradient, made.stored, made.tangent))
    return Counts(
        traced=int(bool(made.function)), counted=int(bool(made.function)),
        checkpointed=int(made.tape != made.function), entries=entries, outputs=outputs, lines=len(made.function),
        input_bytes=FLOAT * sum(map(_entries, made.inputs)), jacobian_bytes=FLOAT * entries * outputs,
        tape_bytes=tape_bytes(made.tape), live_bytes=live_bytes(made.function),
        largest_bytes=FLOAT * max(map(_entries, made.differentiated), default=0),
        function=f, gradient=gradient, tangent=tangent, recomputed=gradient - stored,
        function_work=_work(made.function), gradient_work=_work(made.gradient), tangent_work=_work(made.tangent),
        ball_work=sum(BALL * found.entries + found.products for found in map(work, _plain(made.function))),
    )  # fmt: skip


def tape_bytes(steps: Sequence[Step]) -> int:
    """Return the bytes held for a reverse sweep: each array that a rule reads, except inputs, counted once.

    Checkpointed calls are recorded during the sweep, one after another; the largest of them is added.
    """
    owners = _owners(steps)
    held: set[int] = set()
    for k, step in enumerate(steps):
        if step.operation is not None:
            read = read_by_rules(step.operation, tuple(slot != CONSTANT for slot in step.slots))
            places = (k, *step.slots)
            held |= {owners[places[p]] for p in read if p < len(places) and places[p] != CONSTANT}
    captured = sum(_entries(x) for step in steps for x in step.captured)
    again = max((sum(_entries(x.result) for x in step.inside if _is_new(x)) for step in steps), default=0)
    return FLOAT * (sum(_entries(steps[k].result) for k in held if _is_new(steps[k])) + captured + again)


def live_bytes(steps: Sequence[Step]) -> int:
    """Return the peak bytes of the results of operations, if each array is freed after its last use."""
    owners, last = _owners(steps), {}
    for k, step in enumerate(steps):
        for slot in (k, *step.slots):
            if slot != CONSTANT:
                last[owners[slot]] = k
    if steps:
        last[owners[len(steps) - 1]] = len(steps)
    ending: dict[int, list[int]] = {}
    for owner, k in last.items():
        ending.setdefault(k, []).append(owner)
    live = most = 0
    for k, step in enumerate(steps):
        live += _entries(step.result) if _is_new(step) else 0
        most = max(most, live)
        live -= sum(_entries(steps[owner].result) for owner in ending.get(k, ()) if _is_new(steps[owner]))
    return FLOAT * most


def _owners(steps: Sequence[Step]) -> list[int]:
    """Return, for each step, the number of the step that owns the memory of its result."""
    owners: list[int] = []
    for k, step in enumerate(steps):
        slot = step.slots[step.views] if step.views >= 0 else CONSTANT
        owners.append(k if slot == CONSTANT else owners[slot])
    return owners


def _is_new(step: Step) -> bool:
    """Whether a step allocates a new array."""
    return step.operation is not None and step.views < 0


def _operations(steps: Sequence[Step]) -> int:
    return counted(_plain(steps)).total


def _plain(steps: Sequence[Step]) -> Iterator[Line]:
    """Yield the lines of steps; a checkpointed call is replaced by the lines inside it."""
    for step in steps:
        if step.inside:
            yield from _plain(step.inside)
        else:
            yield step.line


def _work(steps: Sequence[Step]) -> int:
    """Return the work of steps in quarters of an operation, with a fixed cost for each numpy call."""
    total = 0
    for line in _plain(steps):
        primitive, *_ = line
        found: Operations = counted([line])
        products = work(line).products
        simple = products if products else 4 * (found.additions + found.multiplications)
        total += simple + 4 * _FUNCTION * found.transcendental + (_QUARTERS_OF_A_CALL if primitive is not None else 0)
    return total


def _entries(x: Shape) -> int:
    return size(Forgotten(x))
