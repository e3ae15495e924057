"""The tape: a flat program, swept without recursion."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gradcli.arithmetic.dual import cotangent_rows as jacobian
from gradcli.arithmetic.recorded_program import record, vjp
from gradcli.arithmetic.tape import CONSTANT, Recorded, Tape, transpose
from gradcli.errors import TraceEnded
from gradcli.rules import shaping
from gradcli.tracing import primitive
from gradcli.tracing.primitive import primitive_by_name
from gradcli.tracing.provenance import HERE
from tests.rows import for_rows

ONE, TWO, THREE = np.float64(1), np.float64(2), np.float64(3)
V = np.array([0.5, -1.0, 2.0])


def test_a_hundred_thousand_operations_need_no_recursion() -> None:
    def chain(x: Any) -> Any:
        y = x
        for _ in range(50_000):
            y = y * 0.5 + x  # converges to 2 x, exactly in binary
        return y

    y, pull = vjp(chain, [THREE])
    assert y == 6.0
    assert pull(ONE) == [2.0]


@for_rows("places", [[0, 1, 2], [slice(1, 3), -1, 0], [[0, 0, 2], 1, np.array([True, False, True])]])
def test_what_is_read_from_an_array_adds_to_its_adjoint_alone(places: Any) -> None:
    """Both operands of a sum have one array as their adjoint before parts are added to that of one of them."""
    w = np.array([1.0, 10.0, 100.0])

    def f(x: Any) -> Any:
        y, v = 3.0 * x, 2.0 * x
        s = sum(np.sum(np.sin(y[place])) for place in places)
        return s + np.sum((y + v) * w)

    counts = np.zeros(len(V))
    for place in places:
        np.add.at(counts, place, 1.0)
    _, pull = vjp(f, [V])
    for _ in range(2):
        np.testing.assert_allclose(pull(ONE)[0], 5 * w + 3 * counts * np.cos(3 * V), rtol=1e-14)


def test_a_loop_over_an_array_makes_one_array_of_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    monkeypatch.setattr(
        shaping.np, "zeros", lambda *args, zeros=np.zeros, **kwargs: made.append(args) or zeros(*args, **kwargs)
    )
    _, pull = vjp(lambda x: sum(x[k] ** 2 for k in range(3)), [V])
    assert (pull(ONE)[0] == 2 * V).all() and made == [((3,),)]


def test_each_operation_is_one_line_in_order() -> None:
    _, inputs, tape = record(lambda x, y: np.sin(x) * y + 2.0, [TWO, THREE])
    assert [line[0] and line[0].name for line in tape.lines] == [None, None, "sin", "multiply", "add"]
    assert [line[1] for line in tape.lines] == [(), (), (0,), (2, 1), (3, CONSTANT)]
    assert [x.slot for x in inputs] == [0, 1]


def test_the_fast_operators_record_what_the_slow_ones_would() -> None:
    programs = (
        (lambda x: x + 2.0, "add"), (lambda x: 2.0 - x, "subtract"), (lambda x: x * x, "multiply"),
        (lambda x: 2 / x, "divide"),
    )  # fmt: skip
    for program, name in programs:
        fast = record(program, [THREE])[2].lines[-1]
        slow = record(lambda x, fast=fast, name=name: primitive_by_name(name)(*_again(x, fast)), [THREE])[2].lines[-1]
        assert (fast[0], fast[1], tuple(fast[2]), fast[3]) == (slow[0], slow[1], tuple(slow[2]), slow[3])


def _again(x: Recorded, line: Any) -> list[Any]:
    return [x if slot != CONSTANT else operand for slot, operand in zip(line[1], line[2], strict=True)]


def test_unused_inputs_get_zeros_of_their_shape() -> None:
    xbar, ybar, zbar = vjp(lambda x, y, z: x * 2, [TWO, V, THREE])[1](ONE)
    assert xbar == 2.0
    np.testing.assert_array_equal(ybar, np.zeros(3))
    assert zbar == 0.0
    assert type(zbar) is np.float64


@for_rows("f", [lambda x: 5.0, lambda x: np.floor(x) * 2.0, lambda x: (x > 1) * 1.0, lambda x: V])
def test_a_constant_function_has_a_zero_gradient(f: Any) -> None:
    y, pull = vjp(f, [TWO])
    np.testing.assert_array_equal(y, f(TWO))
    assert pull(np.ones(np.shape(y))) == [0.0]


def test_the_identity_passes_the_cotangent() -> None:
    y, pull = vjp(lambda x: x, [V])
    assert y is V
    np.testing.assert_array_equal(pull(2 * V)[0], 2 * V)


def test_cotangents_add_up_where_a_value_is_used_twice() -> None:
    assert vjp(lambda x, y: x * y + x * x + x, [TWO, THREE])[1](ONE) == [3 + 4 + 1, 2.0]


def test_every_output_of_a_vector_is_a_row_of_the_jacobian() -> None:
    rows = np.stack(
        [row[0] for row in jacobian(record(lambda x: np.stack([x[0] * x[1], x[1] ** 2, 3 * x[2]]), [V]), ONE)]
    )
    np.testing.assert_array_equal(rows, [[V[1], V[0], 0], [0, 2 * V[1], 0], [0, 0, 3]])


def test_a_tape_can_be_swept_again() -> None:
    _, pull = vjp(lambda x: np.exp(x) * V, [TWO])
    first, second = pull(V)[0], pull(V)[0]
    assert first == second
    assert pull(2 * V)[0] == 2 * first


def test_sweep_stops_at_the_slot_it_starts_from() -> None:
    y, _, tape = record(lambda x: (x * 2, x * 3)[0], [TWO])
    bars = tape.sweep(y.slot, ONE)
    assert bars == [2.0, 1.0, None]


def test_levels_are_restored_after_an_exception() -> None:
    def fails(x: Any) -> Any:
        vjp(lambda y: 1 / 0, [x])

    with pytest.raises(ZeroDivisionError):
        vjp(fails, [TWO])
    assert primitive.sweep_depth() == 0


def test_levels_count_the_sweeps_under_way() -> None:
    def outer(x: Any) -> Any:
        return vjp(lambda y: y * primitive.sweep_depth(), [x])[0]

    assert primitive.sweep_depth() == 0
    assert vjp(outer, [TWO])[0] == 4.0


def test_a_value_of_another_tape_is_a_constant() -> None:
    leaked, _, _ = record(lambda x: x * 2, [TWO])
    _, pull = vjp(lambda x: x * leaked.primal, [THREE])
    assert pull(ONE) == [4.0]


def test_transposing_a_linear_program_gives_its_adjoint() -> None:
    matrix = np.array([[1.0, 2.0, 0.0], [0.5, -1.0, 3.0]])
    np.testing.assert_array_equal(transpose(lambda x: matrix @ x, V, np.array([1.0, -2.0])), matrix.T @ [1.0, -2.0])


def test_transposing_keeps_the_shape_of_a_program_that_ignores_its_argument() -> None:
    np.testing.assert_array_equal(transpose(lambda x: np.zeros(2), V, np.ones(2)), np.zeros(3))


def test_lines_remember_where_they_were_made() -> None:
    def f(x: Any) -> Any:
        HERE.position = "first"
        y = x * 2
        HERE.position = "second"
        return np.sin(y)

    try:
        lines = record(f, [TWO])[2].lines
    finally:
        HERE.position = None
    assert [line[5] for line in lines] == [None, "first", "second"]


def test_an_input_is_a_line_without_a_primitive() -> None:
    tape = Tape(1)
    x = tape.variable(TWO)
    assert (x.slot, x.level, x.primal) == (0, 1, 2.0)
    assert tape.lines == [(None, (), (), TWO, None, None)]


@pytest.fixture(name="short")
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a trace end after 1,000 lines."""
    monkeypatch.setattr("gradcli.arithmetic.tape.MOST_LINES", 1000)


# fmt: off
LINES = {
    "scalars":   (lambda x: x * 2.0,                        np.float64(1.0)),
    "arrays":    (lambda x: x * 2.0,                        np.ones(3)),
    "reflected": (lambda x: 2.0 - x,                        np.float64(1.0)),
    "ufuncs":    (lambda x: np.sin(x),                      np.float64(1.0)),
    "powers":    (lambda x: x**2,                           np.float64(1.0)),
    "sums":      (lambda x: np.sum(x) * np.ones(2),         np.ones(2)),
    "slow path": (lambda x: np.where(x > 0, x, x),          np.ones(2)),
    "products":  (lambda x: np.eye(2) @ x,                  np.ones((2, 2))),
}
# fmt: on


@pytest.mark.parametrize("what", LINES)
def test_a_trace_that_never_ends_is_ended(short: None, what: str) -> None:
    step, x = LINES[what]

    def forever(x: object) -> None:
        while True:
            x = step(x)

    with pytest.raises(TraceEnded, match="more than 1,000 lines"):
        record(forever, [x])


def test_a_trace_of_the_most_lines_is_whole(short: None) -> None:
    def turns(number: int) -> Callable:
        def f(x: object) -> object:
            for _ in range(number):
                x = x * 2.0
            return x

        return f

    assert len(record(turns(999), [np.float64(1.0)])[2].lines) == 1000
    with pytest.raises(TraceEnded):
        record(turns(1000), [np.float64(1.0)])
