"""What a program takes, counted on the shapes of its recorded lines: operations, sweeps and bytes, and no time.

A `Step` is a recorded line without its numbers, an `Outline` the programs of one size. As shapes are all there is in it, an
outline can be made for sizes that no memory holds.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from gradcli.core.cost import Operations
from gradcli.core.primitive import Primitive
from gradcli.core.shapes import Forgotten, shape, size
from gradcli.interpreters.liveness import read_by_rules
from gradcli.interpreters.program import record
from gradcli.interpreters.tape import CONSTANT, Line
from gradcli.modes.mode import Question
from gradcli.modes.work import work
from gradcli.source.checkpoint import inside, keeping
from gradcli.study.cost import MOST_LINES, counted, gradient_of, tangent_of

FLOAT = 8  # bytes of a float64
_COUNTED = ("n", "subscripts")  # parameters that decide how many operations a line takes
_CALL = 12_000  # quarters of an operation that take as long as one call of numpy does
_FUNCTION = 10  # operations that take as long as a transcendental function of one entry
BALL = 200  # multiply-adds of a matrix product that take as long as one operation in balls

Shape = tuple[int, ...]


class Step(NamedTuple):
    """One recorded line: `views` is the operand in whose memory the result lies, -1 for memory of its own.

    `captured` are the shapes of constant arrays that the tape holds for this line; `inside` the lines of a checkpointed call.
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
        """The step as a line of the tape, whose values are shapes alone."""
        xs = tuple(map(Forgotten, self.operands))
        return self.operation, self.slots, xs, Forgotten(self.result), dict(self.params), None


class Outline(NamedTuple):
    """The programs of one size: f, the tape that its reverse sweep uses, f and one such sweep, f and one tangent.

    `tape` is that of f unless parts of f are checkpointed, `stored` the gradient of an f that stores everything. All are
    empty for a function that can only be called.
    """

    inputs: tuple[Shape, ...]
    differentiated: tuple[Shape, ...]
    output: Shape
    function: tuple[Step, ...]
    tape: tuple[Step, ...]
    gradient: tuple[Step, ...]
    stored: tuple[Step, ...]
    tangent: tuple[Step, ...]


class Counts(NamedTuple):
    """What one size takes. Units: scalar operations, bytes, and `work` in quarters of an operation that adds one entry.

    Unless it is `counted`, nothing is known of operations, lines, work and what is held. `gradient` is f and one reverse
    sweep, `tangent` f and one tangent, `recomputed` what each reverse sweep runs again; `tape_bytes` are held for a reverse
    sweep, `live_bytes` at most while f runs, each array until its last use; `largest_bytes` is the largest of the inputs
    that are differentiated.
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
        """What the shapes of inputs and result decide alone."""
        kept = ("traced", "checkpointed", "entries", "outputs", "input_bytes", "jacobian_bytes", "largest_bytes")
        return Counts(**{name: getattr(self, name) if name in kept else 0 for name in self._fields})

    @property
    def recomputed_evaluations(self) -> int:
        """The evaluations of f that reverse sweeps run again for a Jacobian, a part counted as a whole one."""
        return -(-self.outputs * self.recomputed // max(1, self.function))

    def evaluations(self, mode: str) -> int | None:
        """Return how often a mode evaluates f, what it recomputes included; None where that depends on values."""
        if not self.traced:
            return None
        if mode == "reverse" and self.checkpointed and not self.counted:
            return None
        per_mode = {"reverse": 1 + self.recomputed_evaluations, "forward": self.entries, "complex-step": self.entries}
        return per_mode.get(mode)

    def sweeps(self, mode: str) -> int | None:
        """Return how many sweeps a Jacobian takes: back for each output, forward for each entry of the inputs."""
        return {"reverse": self.outputs, "forward": self.entries}.get(mode) if self.traced else None

    def operations(self, mode: str, evaluations: int | None) -> int | None:
        """Return the scalar operations of a mode; None for a mode that is no float64 program."""
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
        """Return what a mode holds beside the inputs and the Jacobian; None for a mode that is no float64 program."""
        if not self.counted:
            return None
        return {
            "reverse": self.tape_bytes,
            "forward": 2 * self.live_bytes + self.largest_bytes,
            "complex-step": 2 * (self.live_bytes + self.largest_bytes),
            "finite-difference": self.live_bytes + self.largest_bytes,
        }.get(mode)

    def work(self, mode: str, calls: int) -> int:
        """Return the work of a mode, differences with so many calls for each entry; of balls in operations of theirs."""
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
    """Return the programs of a question as shapes; None for programs of too many lines. The name of a size is no input."""
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
    """Return what the programs of one size take."""
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
    """Return the bytes held for a reverse sweep: each array once that a rule reads and that is no input.

    Of checkpointed calls, which are recorded on the way back one after another, the largest is held as well.
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
    """Return the most bytes that results of operations take at once, each array freed after its last use."""
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
    """Return for each step the one whose memory its result lies in."""
    owners: list[int] = []
    for k, step in enumerate(steps):
        slot = step.slots[step.views] if step.views >= 0 else CONSTANT
        owners.append(k if slot == CONSTANT else owners[slot])
    return owners


def _is_new(step: Step) -> bool:
    """Whether a step makes an array that was not there before."""
    return step.operation is not None and step.views < 0


def _operations(steps: Sequence[Step]) -> int:
    return counted(_plain(steps)).total


def _plain(steps: Sequence[Step]) -> Iterator[Line]:
    """Yield the lines of steps, those of checkpointed calls in place of them."""
    for step in steps:
        if step.inside:
            yield from _plain(step.inside)
        else:
            yield step.line


def _work(steps: Sequence[Step]) -> int:
    """Return how much there is to do, in quarters of an operation: calls of numpy count, and functions more than sums."""
    total = 0
    for line in _plain(steps):
        primitive, *_ = line
        found: Operations = counted([line])
        products = work(line).products
        simple = products if products else 4 * (found.additions + found.multiplications)
        total += simple + 4 * _FUNCTION * found.transcendental + (_CALL if primitive is not None else 0)
    return total


def _entries(x: Shape) -> int:
    return size(Forgotten(x))
