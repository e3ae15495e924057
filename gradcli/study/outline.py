"""A function's program as lines of shapes: what its reverse sweep keeps, what checkpoints change, and what modes cost."""

import itertools
import math
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from gradcli.arithmetic.dual import jvp
from gradcli.arithmetic.recorded_program import record, value_and_gradient, vjp
from gradcli.arithmetic.tape import CONSTANT, Line, values_read_by_rules
from gradcli.errors import GradcliError, NotSupported, Place
from gradcli.modes.mode import Question
from gradcli.request.point import EstimateCost
from gradcli.targets.derived import lines_of_checkpoint, record_checkpoints
from gradcli.tracing.primitive import MOVE, Operations, Primitive
from gradcli.tracing.provenance import is_users_file, place_of_position
from gradcli.tracing.shapes import Forgotten, shape, size
from gradcli.tracing.tracer import plain_value

MOST_LINES = 200_000  # of a program whose cost is counted
_COUNTED = ("n", "subscripts")  # parameters on which the number of operations depends
_LIMITS = ("maximum", "minimum")  # which with a number show in their result where it is the limit
_MASKS = (*_LIMITS, "relu", "absolute", "max")  # whose rules need to know which entries, and no values

Shape = tuple[int, ...]


class ProgramLine(NamedTuple):
    """One line of a program.

    `views` is the number of the operand whose memory the result shares, or -1. `constants` are the operands that are arrays
    which the program holds itself, each with its shape, where it is first used. `function` and `place` say in which
    function, and where, the line was recorded.
    """

    operation: Primitive | None
    slots: tuple[int, ...]
    operands: tuple[Shape, ...]
    result: Shape
    params: tuple[tuple[str, Any], ...]
    views: int
    constants: tuple[tuple[int, Shape], ...]
    function: str
    place: str

    @property
    def line(self) -> Line:
        """The step as a line of the tape whose values hold only their shapes."""
        xs = tuple(map(Forgotten, self.operands))
        return self.operation, self.slots, xs, Forgotten(self.result), dict(self.params), None

    @property
    def is_new(self) -> bool:
        """Whether the line allocates a new array."""
        return self.operation is not None and self.views < 0


class Outline(NamedTuple):
    """The program of a function at one size, with the shapes of what it is differentiated by and of its result."""

    parameters: tuple[Shape, ...]
    output: Shape
    function: tuple[ProgramLine, ...]


def outline(q: Question) -> Outline:
    """Return the program of a question, in which checkpointed functions are recorded line by line.

    Raises  NotSupported for a function that cannot be recorded, or that is too long.
    """
    q.refuse_untraced()
    if len(q.lines) > MOST_LINES:
        what = f"the program has more than {MOST_LINES:,} lines"
        raise NotSupported(what, do="a smaller problem, or larger operations")
    inputs = [x for x in q.point.values.values() if isinstance(x, np.ndarray)]
    seen: set[int] = set()
    found = []
    for primitive, slots, xs, y, params, position in q.lines:
        constants = []
        for k, (slot, x) in enumerate(zip(slots, xs, strict=True)):
            if slot == CONSTANT and type(x) is np.ndarray and id(x) not in seen:
                seen.add(id(x))
                if not any(x is given or np.array_equal(x, given) for given in inputs):
                    constants.append((k, x.shape))
        arrays = (k for k, x in enumerate(xs) if type(x) is type(y) is np.ndarray)
        views = next((k for k in arrays if np.may_share_memory(xs[k], y)), -1)
        needed = tuple((name, params[name]) for name in _COUNTED if name in params) if params else ()
        shapes = tuple(map(shape, xs))
        found.append(
            ProgramLine(primitive, slots, shapes, shape(y), needed, views, tuple(constants), *_source_of_line(position))
        )
    return Outline(tuple(map(shape, q.xs)), shape(plain_value(q.recording.y)), tuple(found))


class PassCounts(NamedTuple):
    """Scalar operations of f, of f with one reverse sweep, of f with one tangent, and of a Hessian times a vector.

    `product` is -1 where f is no scalar, or has an operation whose rule cannot be differentiated.
    """

    function: int
    gradient: int
    tangent: int
    product: int


def count_operations(q: Question) -> PassCounts:
    """Return the operations of f and its derivatives, counted by recording these."""
    scalar = shape(plain_value(q.recording.y)) == ()
    count, vs = len(q.xs), [np.ones(shape(x))[()] for x in q.xs]

    def product_of_hessian(*at: Any) -> Any:  # the gradient of a tangent
        return as_one_vector(vjp(lambda *xs: jvp(q.g, xs, at[count:])[1], at[:count])[1](np.float64(1)))

    with record_checkpoints(), np.errstate(all="ignore"):
        gradient, tangent = (count_recorded(*made).total for made in (gradient_of(q), tangent_of(q)))
        try:
            product = count_recorded(product_of_hessian, [*q.xs, *vs]).total if scalar else -1
        except GradcliError:  # a rule has no rule of its own
            product = -1
    return PassCounts(count_line_operations(q.lines).total, gradient, tangent, product)


def lines_of_calls(q: Question, names: Iterable[str]) -> tuple[list[tuple[int, int]], set[str]]:
    """Return the lines of each call of some functions of the user's, the outermost alone, and the names of all that are called.

    A method is known by its own name, that of its class, and both.
    """
    wanted, known = frozenset(names), set[str]()
    spans: list[tuple[int, int]] = []
    lines: list[Line] = []
    within: list[Any] = []  # the frame of the call that is running

    def watch(frame: Any, event: str, _: Any) -> None:
        if event == "call" and is_users_file(frame.f_code.co_filename):
            own = {frame.f_code.co_name, frame.f_code.co_qualname, frame.f_code.co_qualname.rpartition(".")[0]}
            known.update(own)
            if not within and own & wanted:
                within.append((frame, len(lines)))
        elif event == "return" and within and within[0][0] is frame:
            start = within.pop()[1]
            spans.extend([(start, len(lines))] if start < len(lines) else [])

    def f(*xs: Any) -> Any:
        nonlocal lines
        lines = xs[0].tape.lines
        before = sys.getprofile()
        sys.setprofile(watch)
        try:
            return q.g(*xs)
        finally:
            sys.setprofile(before)

    with record_checkpoints(), np.errstate(all="ignore"):
        record(f, q.xs)
    return spans, {name for name in known if name and "<" not in name}


def _source_of_line(position: Any) -> tuple[str, str]:
    """Return in which function a line was recorded, and where: `file.py:12`, or the text of an expression."""
    if position is None:
        return "", ""
    at = place_of_position(position)
    function = position[0].co_name if isinstance(position, tuple) and hasattr(position[0], "co_name") else ""
    if isinstance(at, Place):
        return function, f"{at.file.rpartition('/')[2]}:{at.line}"
    return function, "" if at is None else at.source


def count_entries(x: Shape) -> int:
    """Return the number of entries of an array of some shape."""
    return size(Forgotten(x))


def operations_of_lines(steps: Sequence[ProgramLine]) -> int:
    """Return the number of scalar operations of lines: a product and a sum are two, moving entries is none."""
    return count_line_operations(step.line for step in steps).total


# What a reverse sweep keeps of a program.


class KeptValue(NamedTuple):
    """A value that is kept for the reverse sweep: which line made it, how many entries it has, and which lines read it.

    A mask has one byte an entry, whatever the format is. `constant` is an array that the program holds itself.
    """

    line: int
    entries: int
    readers: tuple[int, ...]
    mask: bool = False
    constant: bool = False


def kept_values(steps: Sequence[ProgramLine]) -> tuple[KeptValue, ...]:
    """Return what a reverse sweep over a program reads beside its inputs.

    A sum keeps nothing, a product the operands whose partners are differentiated, tanh and exp their values alone, and what
    chooses between values keeps a mask, unless its kept result shows it. Values that share memory are one, and so are a
    value and one with its entries in other places, which is made again without an operation.
    """
    owners = owners_of(steps)
    readers: dict[int, list[int]] = {}
    others, choices = [], []
    for k, step in enumerate(steps):
        if step.operation is None:
            continue
        if step.operation.name in _MASKS:
            choices.append((k, step.operation.name))
            continue
        read = _values_read(step)
        for p in read:
            slot = (k, *step.slots)[p]
            source = CONSTANT if slot == CONSTANT else _source_before_moves(steps, owners, slot)
            if source != CONSTANT and steps[source].is_new:
                readers.setdefault(source, []).append(k)
        mask = step.operation.name == "where"
        held = [(p, x) for p, x in step.constants if (mask and p == 0) or p + 1 in read]
        others += [KeptValue(k, count_entries(x), (k,), mask and p == 0, constant=True) for p, x in held]
    for k, name in choices:
        shown = name == "relu" or (name in _LIMITS and () in steps[k].operands)
        if shown and owners[k] in readers:
            readers[owners[k]].append(k)  # which entries are at the limit is seen in the result
        else:
            others.append(KeptValue(k, max(map(count_entries, (steps[k].result, *steps[k].operands))), (k,), mask=True))
    values = [KeptValue(line, count_entries(steps[line].result), tuple(by)) for line, by in readers.items()]
    return tuple(sorted((*values, *others)))


def _source_before_moves(steps: Sequence[ProgramLine], owners: Sequence[int], slot: int) -> int:
    """Return the line of the value whose entries a value has, moved or repeated, of which there are no more."""
    line = owners[slot]
    while True:
        step = steps[line]
        moves = step.operation is not None and step.operation.cost is MOVE and len(step.slots) == 1
        if not moves or count_entries(step.operands[0]) > count_entries(step.result):
            return line
        line = owners[step.slots[0]]


def _values_read(step: ProgramLine) -> frozenset[int]:
    """Return what the rules of a line read: 0 is its result, 1, 2, ... are its operands. Shapes alone are not read."""
    operation = step.operation
    assert operation is not None
    moving = tuple(slot != CONSTANT for slot in step.slots)
    if operation.kind == "linear":
        return frozenset()
    if operation.kind == "bilinear":
        return frozenset(k + 1 for k in range(len(moving)) if any(m for i, m in enumerate(moving) if i != k))
    return values_read_by_rules(operation, moving, kernels=False)


def owners_of(steps: Sequence[ProgramLine]) -> list[int]:
    """Return, for each line, the number of the line that owns the memory of its result."""
    owners: list[int] = []
    for k, step in enumerate(steps):
        slot = step.slots[step.views] if step.views >= 0 else CONSTANT
        owners.append(k if slot == CONSTANT else owners[slot])
    return owners


class Moment(NamedTuple):
    """What is held after one line of the forward run, or of the reverse sweep: bytes of values, and of adjoints."""

    line: int
    backward: bool
    values: int
    adjoints: int


# Checkpoints: which parts of a program are run again in the reverse sweep instead of being kept.


class Segment(NamedTuple):
    """Lines `start` to `stop` of a program, which are run again, or whose values are kept."""

    start: int
    stop: int
    again: bool


class CheckpointPlan(NamedTuple):
    """What checkpoints cost: the most bytes of kept values at any time, and the operations that are repeated."""

    segments: tuple[Segment, ...]
    bytes: int
    operations: int


#  bytes held before a place, operations repeated, and the segments before it
Label = tuple[int, int, tuple[Segment, ...]]


class Checkpoints:
    """What a program holds line by line, and the costs of running parts of it again.

    Of a segment that is run again, only those values are held that later lines use; when the sweep reaches it, the values
    that its own rules read are there as well, and all that belongs to later segments is gone.
    """

    _CUTS = (8, 64)  # places where a program may be cut by the best plan, those where the fewest bytes cross
    _WORK = 4 * 10**6  # lines that are looked at, of all segments between these places

    def __init__(self, steps: Sequence[ProgramLine], width: int) -> None:
        self.steps, self.width = steps, width
        owners = self.owners = owners_of(steps)
        self.first = next((k for k, step in enumerate(steps) if step.operation is not None), len(steps))
        count = len(steps)
        self.held = np.array([count_entries(step.result) * width if step.is_new else 0 for step in steps], dtype=object)
        self.last = np.full(count, -1)  # the last line that uses a value
        self.first_reader = np.full(count, count)  # the first line whose rule reads it
        for k, step in enumerate(steps):
            for slot in step.slots:
                if slot != CONSTANT:
                    self.last[owners[slot]] = k
        self.own = np.zeros(count, dtype=object)  # bytes of masks and constants of each line
        for value in kept_values(steps):
            if value.mask or value.constant:
                self.own[value.line] += value.entries * (1 if value.mask else width)
            else:
                self.last[value.line] = max(self.last[value.line], *value.readers)
                self.first_reader[value.line] = min(value.readers)
        self.costs = [operations_of_lines([step]) if step.operation is not None else 0 for step in steps]

    def memory_by_line(self) -> Iterator[Moment]:
        """Yield what is held line by line: in the forward run, then in the reverse sweep, besides inputs.

        A value is freed after its last use, an adjoint after its line is swept; gradients of inputs are not counted.
        """
        count = len(self.steps)
        ends, freed = [0] * count, [0] * count  # bytes that go with a line of the forward run, and of the reverse sweep
        for k, size_of in enumerate(self.held):
            if self.first_reader[k] < count:
                freed[self.first_reader[k]] += size_of
            elif k != self.owners[-1]:  # all but the result
                ends[max(k, self.last[k])] += size_of
        held = 0
        for k in range(count):
            held += self.held[k] + self.own[k]
            yield Moment(k, False, held, 0)
            held -= ends[k]
        adjoints = {count - 1: count_entries(self.steps[-1].result) * self.width} if count else {}
        for k in range(count - 1, -1, -1):
            step = self.steps[k]
            if step.operation is None or k not in adjoints:
                continue
            for slot in step.slots:
                if slot != CONSTANT and self.steps[slot].operation is not None:
                    adjoints.setdefault(slot, count_entries(self.steps[slot].result) * self.width)
            yield Moment(k, True, held, sum(adjoints.values()))
            del adjoints[k]
            held -= self.own[k] + freed[k]

    def _segment_costs(self, segment: Segment) -> tuple[int, int, int]:
        """Return the bytes that a segment holds until the sweep reaches it, those its own sweep needs, and its operations."""
        start, stop, again = segment
        held, own = self.held[start:stop], int(self.own[start:stop].sum())
        crosses, read = self.last[start:stop] >= stop, self.first_reader[start:stop] < stop
        if not again:
            return int(held[crosses | read].sum()) + own, 0, 0
        return int(held[crosses].sum()), int(held[read].sum()) + own, self._repeated_operations(start, stop)

    def _repeated_operations(self, start: int, stop: int) -> int:
        """Return the operations by which the values are made again that the rules of a segment read, from those held."""
        needed, total = set(), 0
        for k in range(stop - 1, start - 1, -1):
            if self.own[k] or (self.last[k] < stop and (k in needed or self.first_reader[k] < stop)):
                total += self.costs[k]
                needed |= {self.owners[slot] for slot in self.steps[k].slots if slot != CONSTANT}
        return total

    def plan(self, segments: Iterable[Segment]) -> CheckpointPlan:
        """Return what some segments cost, which follow each other and cover the program."""
        found, held, peak, again = [], 0, 0, 0
        for segment in segments:
            holds, needs, repeats = self._segment_costs(segment)
            found.append(segment)
            peak = max(peak, held + needs)
            held, again = held + holds, again + repeats
        return CheckpointPlan(tuple(found), max(peak, held), again)

    def everything_kept(self) -> CheckpointPlan:
        """Return the plan without checkpoints."""
        return self.plan([Segment(self.first, len(self.steps), False)])

    def uniform(self, count: int) -> CheckpointPlan:
        """Return the plan of `count` segments of as many lines, of which all but the last are run again."""
        total = len(self.steps) - self.first
        edges = [self.first + total * k // count for k in range(count + 1)]
        return self.plan(Segment(a, b, b != edges[-1]) for a, b in itertools.pairwise(edges) if a != b)

    def calls(self, spans: Iterable[tuple[int, int]]) -> CheckpointPlan:
        """Return the plan in which the lines of some calls are run again, each call by itself, and the rest is kept."""
        segments, at = [], self.first
        for start, stop in spans:
            segments += [Segment(at, start, False)] if at < start else []
            segments.append(Segment(start, stop, True))
            at = stop
        return self.plan([*segments, *([Segment(at, len(self.steps), False)] if at < len(self.steps) else [])])

    @property
    def is_cut_everywhere(self) -> bool:
        """Whether the best plan may cut the program after each of its lines, so that no plan is better."""
        return len(self._cut_places) == len(self.steps) - self.first + 1

    @cached_property
    def _cut_places(self) -> list[int]:
        """Where the best plan may cut the program: everywhere in a short one, else where the fewest bytes cross."""
        inner = list(range(self.first + 1, len(self.steps)))
        few, many = self._CUTS
        cuts = min(many, max(few, math.isqrt(self._WORK // max(1, len(inner)))))
        if len(inner) > cuts:
            change = [0] * (len(self.steps) + 1)
            for k, (held, last) in enumerate(zip(self.held, self.last, strict=True)):
                change[k + 1] += held
                change[max(k, last) + 1] -= held
            crossing = list(itertools.accumulate(change))
            most = sorted(crossing[k] for k in inner)[cuts - 1]
            below = [k for k in inner if crossing[k] < most]
            as_many = [k for k in inner if crossing[k] == most]
            spread = -(-len(as_many) // (cuts - len(below)))
            inner = sorted((*below, *as_many[::spread]))
        return [self.first, *inner, len(self.steps)]

    def best(self, budget: int) -> CheckpointPlan | None:
        """Return the plan with the fewest repeated operations that holds at most `budget` bytes; None if none does.

        Source  dynamic programming over (place, bytes held): what comes before a place matters by what it holds alone.
        """
        places = self._cut_places
        fronts: dict[int, list[Label]] = {places[0]: [(0, 0, ())]}
        for j, stop in enumerate(places[1:], 1):
            labels: list[Label] = []
            for start in places[:j]:
                for segment in (Segment(start, stop, False), Segment(start, stop, True)):
                    holds, needs, repeats = self._costs_of_segments[segment]
                    for held, done, before in fronts[start]:
                        if held + max(needs, holds) <= budget:
                            labels.append((held + holds, done + repeats, (*before, segment)))
            front = fronts.setdefault(stop, [])
            for label in sorted(labels, key=lambda label: label[:2]):
                if not front or label[1] < front[-1][1]:  # it holds more bytes, and repeats fewer operations
                    front.append(label)
        found = min(fronts[places[-1]], key=lambda label: label[1], default=None)
        return None if found is None else self.plan(found[2])

    def least(self) -> CheckpointPlan:
        """Return the plan that holds the fewest bytes, with the fewest repeated operations among those."""
        best = self.everything_kept()
        low, high = 0, best.bytes
        while low < high:
            middle = (low + high) // 2
            found = self.best(middle)
            best = best if found is None else found
            low, high = (middle + 1, high) if found is None else (low, found.bytes)
        return self.best(high) or best

    @cached_property
    def _costs_of_segments(self) -> dict[Segment, tuple[int, int, int]]:
        pairs = itertools.combinations(self._cut_places, 2)
        segments = [Segment(a, b, again) for a, b in pairs for again in (False, True)]
        return {segment: self._segment_costs(segment) for segment in segments}


# The chain of Jacobians from an input to the result.


def chain_of_sizes(steps: Sequence[ProgramLine], start: int) -> list[int]:
    """Return the sizes of the values through which every path from line `start` to the result goes.

    Consecutive values with a diagonal Jacobian between them, or one that only moves entries, count once.
    """
    far = {start: start}  # by line that depends on the input: the last line that uses it
    for k in range(start + 1, len(steps)):
        used = [slot for slot in steps[k].slots if slot in far]
        far |= dict.fromkeys(used, k)
        if used:
            far[k] = k
    if len(steps) - 1 not in far:
        return []
    sizes, edge, is_diagonal = [count_entries(steps[start].result)], far[start], True
    for k in list(far)[1:]:
        step = steps[k]
        by_entry = step.views >= 0 or (step.operation is not None and step.operation.kind == "elementwise")
        is_diagonal &= by_entry and count_entries(step.result) == sizes[-1]
        if edge <= k:  # no value from before is used later
            if not is_diagonal:
                sizes.append(count_entries(step.result))
            is_diagonal = True
        edge = max(edge, far[k])
    return sizes


def products_in_order(sizes: Sequence[int]) -> tuple[int, int, int]:
    """Return the multiplications of a chain of Jacobians: from the input on, from the result back, in the best order.

    Shapes  Jacobian i is (sizes[i + 1], sizes[i]).
    Source  dynamic programming over intervals (Cormen et al., Introduction to Algorithms, chapter 15).
    """
    count = len(sizes) - 1
    forward = sum(sizes[i + 1] * sizes[i] * sizes[0] for i in range(1, count))
    reverse = sum(sizes[-1] * sizes[i + 1] * sizes[i] for i in range(count - 1))
    best = {(i, i): 0 for i in range(count)}
    for length in range(2, count + 1):
        for i in range(count - length + 1):
            j = i + length - 1
            costs = (best[i, k] + best[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1] for k in range(i, j))
            best[i, j] = min(costs)
    return forward, reverse, best[0, count - 1]


# The cost of modes: operations counted on recorded programs, and measured memory and time.

_AGAIN = 10**8  # operations of one run: longer ones are not repeated to measure time or memory
_CALL = 1_000  # operations that take as long as running one line of numpy code
_TIMES = 5
MOST_COUNTED = 20_000  # of a program whose operations are counted by recording its gradient


def count_line_operations(lines: Iterable[Line]) -> Operations:
    """Return the operations of recorded lines, also inside checkpointed calls; moving entries counts nothing."""
    total = Operations()
    for line in lines:
        primitive, _, xs, y, params, _ = line
        again = lines_of_checkpoint(line)
        if again:
            total += count_line_operations(again)
        elif primitive is not None:
            total += primitive.cost.operations(xs, y, params or {})
    return total


def operations_of_function(q: Question) -> Operations:
    """Return the operations of one evaluation of f."""
    return count_line_operations(q.lines)


def operations_of_reverse(q: Question) -> Operations:
    """Return the operations of a gradient by the reverse mode: f, reverse sweeps, and what checkpoints recompute.

    They are counted by recording the gradient itself. For a vector result: f once, and one reverse sweep for each row of
    the Jacobian.
    """
    once, f = count_recorded(*gradient_of(q)), operations_of_function(q)
    return f + (once - f).times(size(q.value))


def recomputed_operations(q: Question) -> Operations:
    """Return the operations that one reverse sweep repeats because f is checkpointed."""
    if not q.checkpointed:
        return Operations()
    again = count_recorded(*gradient_of(q))
    with record_checkpoints():
        return again - count_recorded(*gradient_of(q))


def operations_of_forward(q: Question) -> Operations:
    """Return the operations of one directional derivative by the forward mode."""
    return count_recorded(*tangent_of(q))


def gradient_of(q: Question) -> tuple[Callable[..., Any], list[Any]]:
    """Return f with one reverse sweep as a function, and the arguments to record it at."""

    def gradient(*xs: Any) -> Any:
        *primals, ybar = xs
        return as_one_vector(vjp(q.g, primals)[1](ybar))

    return gradient, [*q.xs, np.ones(shape(q.value))[()]]


def tangent_of(q: Question) -> tuple[Callable[..., Any], list[Any]]:
    """Return f with one tangent as a function, and the arguments to record it at."""
    count = len(q.xs)
    vs = [np.ones(shape(x))[()] for x in q.xs]
    return lambda *at: as_one_vector([jvp(q.g, at[:count], at[count:])[1]]), [*q.xs, *vs]


def as_one_vector(parts: list[Any]) -> Any:
    """Return the entries of all parts as one vector."""
    return np.concatenate([np.zeros(0), *(np.reshape(part, (-1,)) for part in parts)])


def count_recorded(f: Callable[..., Any], xs: list[Any]) -> Operations:
    """Return the operations of a function, counted by recording it."""
    with np.errstate(all="ignore"):
        _, _, tape = record(f, xs)
    return count_line_operations(tape.lines)


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


def measure_bytes(q: Question, mode: str) -> int | None:
    """Return the peak memory of one run of a mode in bytes; None if it cannot be measured, or is too much work."""
    run = one_run(q, mode) if takes_at_most(q, _AGAIN, 1) else None
    return None if run is None else min(peak_bytes(run) for _ in range(2))  # the first run also fills caches


def least_seconds(q: Question, mode: str, cost: EstimateCost) -> float:
    """Return the seconds of a mode; if its repeated part is quick, at most the best time of this part times its repeats."""
    rows = size(q.value) if mode == "reverse" else cost.evaluations
    run = one_run(q, mode) if takes_at_most(q, _AGAIN, _TIMES) else None
    return cost.seconds if run is None else min(cost.seconds, rows * time_runs(run)[1])


def time_runs(run: Callable[[], Any], times: int = _TIMES) -> tuple[Any, float]:
    """Return the result of a run and its seconds, the best of several."""
    best, value = np.inf, None
    with np.errstate(all="ignore"):
        for _ in range(times):
            start = time.perf_counter()
            value = run()
            best = min(best, time.perf_counter() - start)
    return value, float(best)


def one_run(q: Question, mode: str) -> Callable[[], Any] | None:
    """Return the part of a mode that repeats, a sweep or an evaluation; None for modes that cannot be measured."""
    vs = [np.ones(shape(x))[()] for x in q.xs]
    if mode == "reverse":
        return lambda: value_and_gradient(lambda *xs: np.sum(q.g(*xs)), q.xs, lambda y: np.float64(1))
    if mode == "forward":
        return lambda: jvp(q.g, q.xs, vs)
    if mode == "complex-step":
        return lambda: q.g(*[x + 1e-20j for x in q.xs])
    return (lambda: q.g(*q.xs)) if mode == "finite-difference" else None
