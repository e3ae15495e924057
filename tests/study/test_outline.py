"""What a reverse sweep keeps, what checkpoints change, and the order of a chain of Jacobians."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from gradcli.modes.mode import Question
from gradcli.request.point import Point
from gradcli.study.outline import (
    Checkpoints,
    ProgramLine,
    Segment,
    chain_of_sizes,
    count_entries,
    count_operations,
    kept_values,
    lines_of_calls,
    operations_of_lines,
    outline,
    owners_of,
    products_in_order,
)
from gradcli.targets.arguments import bind_arguments
from tests.rows import for_rows

X, W, B = np.linspace(-1, 1, 12).reshape(4, 3), np.linspace(0.2, 0.9, 15).reshape(3, 5), np.ones(5)
MASK = np.tri(4, 3)
SUM = ("matmul",)


def steps_of(f: Callable[..., Any], **at: Any) -> tuple[ProgramLine, ...]:
    return outline(question(f, **at)).function


def question(f: Callable[..., Any], **at: Any) -> Question:
    return Question(bind_arguments(f, "f", at)[0], Point(at), tuple(at))


# fmt: off
KEPT = [  # what is kept: the operation that made it, its entries, whether it is a mask
    (lambda x: np.sum(x),                           []),
    (lambda x: np.sum(x + x),                       []),
    (lambda x: np.sum(3.0 * x),                     []),
    (lambda x: np.sum(np.tanh(x)),                  [("tanh", 12, False)]),     # its value alone
    (lambda x: np.sum(np.exp(x)),                   [("exp", 12, False)]),
    (lambda x: np.sum(1 / (1 + np.exp(-x))),        [("exp", 12, False), ("add", 12, False), ("divide", 12, False)]),
    (lambda x: np.sum(np.sin(x + 1)),               [("add", 12, False)]),      # its operand
    (lambda x: np.sum(np.maximum(x, 0)),            [("maximum", 12, True)]),   # which entries
    (lambda x: np.sum(np.maximum(x, 0) ** 2),       [("maximum", 12, False)]),  # which its result shows
    (lambda x: np.sum((x + 1)[[0, 0, 1, 2, 3]] ** 2),  [("add", 12, False)]),   # entries that are moved or repeated
    (lambda x: np.sum((x + 1)[[1, 2]] ** 2),        [("getitem", 6, False)]),   # a part
    (lambda x: np.sum(np.abs(x)),                   [("absolute", 12, True)]),
    (lambda x: np.sum(np.where(MASK > 0, x, 0)),    [("where", 12, True)]),
    (lambda x: np.sum(x * MASK),                    [("multiply", 12, False)]), # a constant of the program
    (lambda x: np.sum((x + 1) * (x + 2)),           [("add", 12, False), ("add", 12, False)]),
    (lambda x: np.sum((x + 1).T @ (x + 2)),         [("add", 12, False), ("add", 12, False)]),  # a view keeps its array
    (lambda x: np.sum(np.max(x, axis=0)),           [("max", 12, True)]),
    (lambda x: np.sum(np.tanh(x) * np.tanh(x)[0]),  [("tanh", 12, False), ("tanh", 12, False)]),
]
# fmt: on


@for_rows(("f", "expected"), KEPT)
def test_a_reverse_sweep_keeps_what_its_rules_read(f: Callable[..., Any], expected: list) -> None:
    steps = steps_of(f, x=X)
    found = [
        (op.name, value.entries, value.mask) for value in kept_values(steps) if (op := steps[value.line].operation)
    ]
    assert found == expected


def test_a_layer_keeps_its_input_if_weights_are_differentiated_and_weights_if_the_input_is() -> None:
    def layer(x: Any, w: Any) -> Any:
        return np.sum(np.tanh(np.sin(x) @ np.sin(w)))

    made = {
        steps[v.line].operation.name: v.entries for steps in [steps_of(layer, x=X, w=W)] for v in kept_values(steps)
    }
    assert made == {"sin": 15, "tanh": 20}  # the two sines, of 12 and of 15 entries, and the value of tanh


def test_memory_is_that_of_a_run_that_frees_what_is_not_needed() -> None:
    steps = steps_of(lambda x: np.sum(np.tanh(np.tanh(np.tanh(x)))), x=X)
    found = [(m.backward, m.values // 12, m.adjoints // 12) for m in Checkpoints(steps, 1).memory_by_line()]
    forward, backward = ([row[1:] for row in found if row[0] == which] for which in (False, True))
    assert forward == [(0, 0), (1, 0), (2, 0), (3, 0), (3, 0)]
    assert backward == [
        (3, 1),
        (3, 2),
        (2, 2),
        (1, 1),
    ]  # of the sum, and of three tanh: the gradient of x is not counted


# Checkpoints


OPERATIONS: list[Callable[[Any, Any], Any]] = [
    lambda a, b: np.tanh(a), lambda a, b: np.sin(a), lambda a, b: a + np.sum(b), lambda a, b: np.exp(-a) * np.mean(b),
    lambda a, b: np.concatenate([a, a])[: len(a)] * a, lambda a, b: np.maximum(a, 0.2),
]  # fmt: skip


def random_program(rng: np.random.Generator) -> tuple[ProgramLine, ...]:
    """A program of at most eight lines after its input, on values of several sizes, some used late."""
    choices = [(int(rng.integers(0, 6)), int(rng.integers(0, 100))) for _ in range(rng.integers(1, 5))]

    def f(x: Any) -> Any:
        values = [x]
        for operation, other in choices:
            values.append(OPERATIONS[operation](values[-1], values[other % len(values)]))
        return np.sum(values[-1] * np.sum(values[choices[0][1] % len(values)]))

    steps = steps_of(f, x=np.linspace(0.1, 0.9, 6))
    return steps if len(steps) <= 9 else random_program(rng)


def every_plan(first: int, stop: int) -> Iterator[list[Segment]]:
    inner = range(first + 1, stop)
    for count in range(len(inner) + 1):
        for cuts in itertools.combinations(inner, count):
            pairs = list(itertools.pairwise([first, *cuts, stop]))
            for again in itertools.product((False, True), repeat=len(pairs)):
                yield [Segment(a, b, x) for (a, b), x in zip(pairs, again, strict=True)]


def simulated(steps: tuple[ProgramLine, ...], segments: list[Segment], width: int) -> tuple[int, int]:
    """Return the most bytes that are held, and the operations that are repeated, by doing what a plan says, value by value."""
    owners = owners_of(steps)
    kept = kept_values(steps)
    readers = {v.line: v.readers for v in kept if not (v.mask or v.constant)}
    own = {
        k: sum(v.entries * (1 if v.mask else width) for v in kept if v.line == k and (v.mask or v.constant))
        for k in range(len(steps))
    }
    uses: dict[int, set[int]] = {}
    for k, step in enumerate(steps):
        for slot in step.slots:
            if slot >= 0:
                uses.setdefault(owners[slot], set()).add(k)
    size = lambda k: count_entries(steps[k].result) * width if steps[k].is_new else 0
    held: list[dict[Any, int]] = []
    for start, stop, again in segments:
        inside = range(start, stop)
        crossing = {k for k in inside if any(u >= stop for u in (*uses.get(k, ()), *readers.get(k, ())))}
        needed = {k for k in inside if any(r in inside for r in readers.get(k, ()))}
        masks = {("own", k): own[k] for k in inside}
        held.append({k: size(k) for k in crossing} if again else {**{k: size(k) for k in crossing | needed}, **masks})
    peak, repeated = sum(sum(part.values()) for part in held), 0
    for i in range(len(segments) - 1, -1, -1):
        start, stop, again = segments[i]
        if again:
            inside = range(start, stop)
            needed = {k for k in inside if any(r in inside for r in readers.get(k, ()))}
            now = (
                sum(sum(part.values()) for part in held[:i])
                + sum(size(k) for k in needed)
                + sum(own[k] for k in inside)
            )
            peak = max(peak, now)
            run = set()
            todo = [k for k in needed if k not in held[i]] + [k for k in inside if own[k]]
            while todo:  # what is not there is made again, from what it is made of
                k = todo.pop()
                if k in inside and k not in run:
                    run.add(k)
                    todo += [o for slot in steps[k].slots if slot >= 0 and (o := owners[slot]) not in held[i]]
            repeated += operations_of_lines([steps[k] for k in run])
    return peak, repeated


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 5))])
def test_the_best_checkpoints_are_those_of_all_choices(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(10 if seed else 3):
        steps = random_program(rng)
        checkpoints = Checkpoints(steps, 4)
        plans = [simulated(steps, plan, 4) for plan in every_plan(checkpoints.first, len(steps))]
        assert checkpoints.everything_kept().bytes == plans[0][0]
        for budget in sorted({peak for peak, _ in plans}):
            best = checkpoints.best(budget)
            assert best is not None and best.bytes <= budget
            assert best.operations == min(again for peak, again in plans if peak <= budget)
            assert simulated(steps, list(best.segments), 4) == (best.bytes, best.operations)
        least = min(peak for peak, _ in plans)
        assert checkpoints.least()[1:] == (least, min(again for peak, again in plans if peak == least))
        assert checkpoints.best(least - 1) is None


def layers(x: Any, depth: int = 100) -> Any:
    for _ in range(depth):
        x = np.tanh(x)
    return np.sum(x)


def test_a_hundred_layers_in_ten_segments_hold_a_fifth_for_a_fifth_more() -> None:
    q = question(layers, x=np.ones(1000))
    checkpoints = Checkpoints(outline(q).function, 4)
    everything, ten = checkpoints.everything_kept(), checkpoints.uniform(10)
    assert everything.bytes == 100 * 4000
    assert everything.bytes / ten.bytes == pytest.approx(5.3, abs=0.1)  # 9 values between segments, 10 inside one
    assert ten.operations / count_operations(q).gradient == pytest.approx(
        0.81 / 4, abs=0.01
    )  # nine of ten, in nine segments


def test_calls_of_the_users_functions_are_run_again_each_by_itself() -> None:
    q = question(with_attention, x=X)
    checkpoints = Checkpoints(outline(q).function, 8)
    spans, known = lines_of_calls(q, ["attention"])
    assert len(spans) == 2 and {"attention", "squares", "with_attention"} <= known
    assert all(b > a for a, b in spans) and spans[0][1] <= spans[1][0]
    plan = checkpoints.calls(spans)
    assert sum(segment.again for segment in plan.segments) == 2
    assert plan.bytes < checkpoints.everything_kept().bytes and plan.operations > 0
    assert lines_of_calls(q, ["with_attention"])[0] == [(checkpoints.first, len(checkpoints.steps))]


def squares(x: Any) -> Any:
    return np.sin(x) ** 2


def attention(x: Any) -> Any:
    weights = np.exp(x @ x.T)
    return weights @ squares(weights) @ x


def with_attention(x: Any) -> Any:
    return np.sum(attention(np.tanh(attention(x))))


# Chains of Jacobians


def test_ten_layers_of_a_thousand_take_9e9_multiplied_out_and_1e7_as_products() -> None:
    sizes = [1000] * 11
    forward, reverse, best = products_in_order(sizes)
    assert forward == reverse == best == 9 * 1000**3
    assert sum(a * b for a, b in itertools.pairwise(sizes)) == 10 * 1000**2


@for_rows(("sizes", "order"), [([2, 50, 50, 50], 0), ([50, 50, 50, 2], 1), ([30, 35, 15, 5, 10, 20, 25][::-1], 2)])
def test_the_best_order_is_forward_for_tall_reverse_for_wide(sizes: list[int], order: int) -> None:
    found = products_in_order(sizes)
    assert found[2] == min(found) and (found[order] == found[2])
    assert found[2] == 15125 if order == 2 else found[1 - order] > found[2]  # the textbook's chain


def test_a_chain_goes_through_what_every_path_passes() -> None:
    a, b = np.ones((4, 3)), np.ones((5, 4))
    f = lambda x: np.sum(np.tanh(b @ np.tanh(a @ x)))
    assert chain_of_sizes(steps_of(f, x=np.ones(3)), 0) == [3, 4, 5, 1]
    assert chain_of_sizes(steps_of(lambda x: np.sum(a @ x) + np.sum(x), x=np.ones(3)), 0) == [3, 1]
    assert chain_of_sizes(steps_of(lambda x: np.sum(x), x=np.ones(3)), 0) == [3, 1]
