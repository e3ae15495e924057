"""A recorded program on many points at once: the values of each point alone, and which took another branch."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from gradcli.arithmetic.batch import ALL, LINE, lanes_at_once, run
from gradcli.arithmetic.floats import format_of
from gradcli.arithmetic.recorded_program import RecordedProgram, record
from gradcli.arithmetic.tape import Recorded
from gradcli.errors import NotSupported
from gradcli.rules import shaping
from gradcli.tracing.primitive import PRIMITIVES, Params, Primitive
from tests.rows import for_rows
from tests.rules import test_decompositions, test_fourier, test_functions, test_numpy_functions
from tests.rules.agreement import EPS, Function, Shapes, drawn
from tests.rules.test_numpy_special import TABLE as SPECIAL
from tests.rules.test_rules import CASES, ROWS, points

LANES = 5
ULPS = 4 * EPS  # arrays and scalars may go different ways in numpy
ROUNDING = 1e-12  # of sums in another order, and of matrices whose condition numbers are below 1e3
LINEAR = (*test_functions.TABLE, *test_decompositions.TABLE, *test_fourier.TABLE)
NUMPY = tuple((f"numpy {name}", f, shapes) for name, f, shapes in
              (*test_numpy_functions.MOVING, *test_numpy_functions.ORDER, *test_numpy_functions.SUMS, *test_numpy_functions.CALCULUS))  # fmt: skip


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    with np.errstate(all="ignore"):  # lanes leave the branch, and the domain, of the recorded one
        yield


def lanes_of(f: Function, lanes: Sequence[Sequence[Any]], moves: Sequence[int]) -> tuple[Any, Any, list[Any]]:
    """Return the values of all lanes together, the mask of those apart, and the values of each lane alone."""
    made = record(f, lanes[0])
    found, apart = run(made, {k: np.array([xs[k] for xs in lanes]) for k in moves})
    alone = [f(*(xs[k] if k in moves else x for k, x in enumerate(lanes[0]))) for xs in lanes]
    return found, apart, alone


def lanes_are_as_alone(f: Function, lanes: Sequence[Sequence[Any]], moves: Sequence[int], tolerance: float) -> Any:
    """Assert that each lane that took the recorded branches has the value of its own call."""
    found, apart, alone = lanes_of(f, lanes, moves)
    assert found.shape == (len(lanes), *np.shape(alone[0])) and apart.shape == (len(lanes),)
    assert not apart[0]  # it is the recorded one
    for value, expected, other in zip(found, alone, apart, strict=True):
        if not other:
            np.testing.assert_allclose(
                value, expected, rtol=tolerance, atol=tolerance * np.max(np.abs(expected), initial=0.0)
            )
    return apart


@for_rows(("row", "params"), CASES)
def test_a_row_has_the_same_values_on_lanes(row: Primitive, params: Params) -> None:
    for moves in [range(len(row.rules))] if len(row.rules) == 1 else [[0], [1], range(len(row.rules))]:
        apart = lanes_are_as_alone(lambda *xs: row(*xs, **params), points(row, LANES), moves, ULPS)
        assert not np.any(apart)


@for_rows(("row", "params"), [case for case in CASES if len(case.values[0].rules) == 2], parts=2)
@for_rows("shapes", [((3,), (2, 3)), ((), (3,)), ((2, 1), (1, 3))], ids=str)
def test_operands_of_different_ranks_are_spread_as_numpy_spreads_them(row: Any, params: Params, shapes: Shapes) -> None:
    rng = np.random.default_rng(len(row.name))
    lanes = [
        [domain.sample(rng, int(np.prod(n))).reshape(n)[()] for domain, n in zip(row.on, shapes, strict=True)]
        for _ in range(LANES)
    ]
    for moves in ([0], [1], [0, 1]):
        lanes_are_as_alone(lambda *xs: row(*xs, **params), lanes, moves, ULPS)


@for_rows(("f", "shapes"), [pytest.param(f, shapes, id=name) for name, f, shapes in LINEAR], parts=3)
def test_a_function_of_arrays_has_the_same_values_on_lanes(f: Function, shapes: Shapes) -> None:
    lanes = [drawn(seed, shapes) for seed in range(1, LANES + 1)]
    for moves in (range(len(shapes)), *([k] for k in range(len(shapes)))):
        lanes_are_as_alone(f, lanes, moves, ROUNDING)


@for_rows(("f", "shapes"), [pytest.param(f, shapes, id=name) for name, f, shapes in NUMPY], parts=2)
def test_lanes_that_stay_on_the_branch_have_the_same_values(f: Function, shapes: Shapes) -> None:
    """Sorted, selected and counted values decide much: those near the recorded point keep its order."""
    near = [[x + 1e-7 * seed for x in drawn(1, shapes)] for seed in range(LANES)]
    far = [drawn(seed, shapes) for seed in range(1, LANES + 1)]
    if isinstance(record(f, far[0])[0], Recorded):
        lanes_are_as_alone(f, near, range(len(shapes)), ROUNDING)
        lanes_are_as_alone(f, far, range(len(shapes)), ROUNDING)


@for_rows(("f", "xs"), [pytest.param(f, xs, id=name) for name, f, xs in SPECIAL])
def test_special_functions_have_the_same_values_on_lanes(f: Function, xs: Sequence[Any]) -> None:
    lanes_are_as_alone(f, [[x * (1 + 1e-3 * k) for x in xs] for k in range(LANES)], range(len(xs)), ROUNDING)


def test_every_primitive_with_a_derivative_was_run_on_lanes() -> None:
    runs = [record(f, drawn(1, shapes))[2] for _, f, shapes in (*LINEAR, *NUMPY)] + [record(f, xs)[2] for _, f, xs in SPECIAL]  # fmt: skip
    ran = {line[0].name for tape in runs for line in tape.lines if line[0] is not None} | {row.name for row in ROWS}
    assert {row.name for row in PRIMITIVES.values() if row.rules} - ran == {
        "solution"
    }  # runs lane by lane: test_solvers.py


X, K = np.arange(12.0).reshape(3, 4), np.arange(24.0).reshape(2, 3, 4)
MASK = np.array([[True, False, True, True]] * 3)
# fmt: off
INDICES: list[Any] = [
    1, -1, (1, 2), (-1, 0), slice(1, None), slice(None, None, -1), (slice(None), slice(0, 3, 2)), (Ellipsis, 0), (None, 1),
    (slice(None), None, 2), [2, 0, 0], np.array([[0, 1], [2, 2]]), ([0, 2], [1, 3]), (slice(None), [3, 0]), ([0, 1], slice(1, 3)),
    ([0, 2], 1), (1, [3, 0]), (1, Ellipsis), MASK, (MASK[:, 0], 2), (slice(None), MASK[0]), np.int64(1), (), (Ellipsis,),
    (slice(None), np.array([], dtype=int)), ([0, 1], None, [2, 3]), ([2, 1], Ellipsis), (None, [1, 2], None), ([[1], [0]], [[0, 3]]),
]
# fmt: on


def written(x: Any, v: Any, index: Any) -> Any:
    y = x.copy()
    y[index] = v
    return y


@for_rows("index", INDICES, ids=str)
def test_every_kind_of_index_reads_and_writes_as_in_numpy(index: Any) -> None:
    rng = np.random.default_rng(0)
    lanes = [[rng.normal(size=X.shape), rng.normal(size=np.shape(X[index]))] for _ in range(LANES)]
    numbers = [[x, np.float64(k)] for k, (x, _) in enumerate(lanes)]
    lanes_are_as_alone(lambda x: x[index], [[x] for x, _ in lanes], [0], 0)
    for moves in ([0], [1], [0, 1]):
        lanes_are_as_alone(lambda x, v: written(x, v, index), lanes, moves, 0)
        lanes_are_as_alone(lambda x, v: written(x, v, index), numbers, moves, 0)


@for_rows("index", [([0, 1], slice(None), [2, 3]), (0, slice(None), [1, 2]), (slice(None), [0, 1], [2, 3]), (1, Ellipsis, [0, 3])], ids=str)  # fmt: skip
def test_arrays_of_indices_apart_from_each_other_move_their_axes_as_in_numpy(index: Any) -> None:
    rng = np.random.default_rng(0)
    lanes = [[rng.normal(size=K.shape), rng.normal(size=np.shape(K[index]))] for _ in range(LANES)]
    lanes_are_as_alone(lambda x, v: x[index] * 2, lanes, [0], 0)
    lanes_are_as_alone(lambda x, v: written(x, v, index), lanes, [0, 1], 0)


@for_rows("f", [
    lambda x: np.max(x, axis=0), lambda x: np.max(x), lambda x: np.max(x, axis=(0, 2), keepdims=True),
    lambda x: np.sum(x, axis=-1), lambda x: np.transpose(x, (2, 0, 1)), lambda x: np.reshape(x, (6, 4)),
    lambda x: np.broadcast_to(x[0], (5, 3, 4)), lambda x: np.einsum("ijk,ilk->jl", x, x), lambda x: np.einsum("ijj->i", x[:, :, :3]),
    lambda x: np.concatenate([x, x[:1], np.ones((1, 3, 4))], axis=0), lambda x: x @ x[0].T, lambda x: x[0] @ np.ones(4),
    lambda x: shaping.SCATTER(x[0, :2, 0], index=([0, 0],), into=(2,)),
])  # fmt: skip
def test_shapes_behind_the_lanes(f: Function) -> None:
    lanes_are_as_alone(f, [drawn(seed, (K.shape,)) for seed in range(LANES)], [0], ROUNDING)


def signed(x: Any) -> Any:
    return x * x if x > 0 else -x


def later(x: Any) -> Any:
    y, z = 2 * x, x - 1
    return y if z > 0 else z


# fmt: off
BRANCHES: list[tuple[Any, list[float], list[bool]]] = [
    (signed,                                    [1.0, 2.0, -1.0, 0.0],         [False, False, True, True]),
    (later,                                     [2.0, 3.0, 0.5, 1.0],          [False, False, True, True]),
    (lambda x: np.floor(x) * x,                 [1.5, 1.9, 2.1, -0.5],         [False, False, True, True]),
    (lambda x: x * (x > 1) * (x < 3),           [2.0, 0.5, 3.5, 2.9],          [False, True, True, False]),
    (lambda x: np.exp(x) if 3.0 > 2.0 else x,   [0.0, 1.0, -2.0],              [False, False, False]),
    (lambda x: x**2 + np.sin(x),                [0.0, 1e9, -2.0],              [False, False, False]),
    (lambda x: np.maximum(x, 1.0),              [0.0, 2.0, 1.0],               [False, False, False]),
    (lambda x: np.sqrt(x) if x > 0 else x,      [1.0, np.nan, np.inf],         [False, True, False]),
]
# fmt: on


@for_rows(("f", "xs", "expected"), BRANCHES)
def test_lanes_that_take_another_branch_are_told(f: Any, xs: list[float], expected: list[bool]) -> None:
    found, apart, alone = lanes_of(f, [[np.float64(x)] for x in xs], [0])
    assert list(apart) == expected
    np.testing.assert_allclose(found[~apart], np.array(alone)[~apart], rtol=ULPS)


def test_a_decision_of_one_entry_parts_its_lane_alone() -> None:
    def f(x: Any) -> Any:
        return np.sum(np.where(x > 0, x, 3 * x))

    lanes = [[np.array([1.0, -1.0])], [np.array([2.0, -3.0])], [np.array([1.0, 1.0])]]
    assert list(lanes_of(f, lanes, [0])[1]) == [False, False, True]


def test_a_result_that_does_not_move_is_the_same_in_all_lanes() -> None:
    made = record(lambda x, z: np.array([1.0, 2.0]) * z, [np.float64(1), np.float64(3)])
    found, apart = run(made, {0: np.arange(4.0)})
    np.testing.assert_array_equal(found, np.broadcast_to([3.0, 6.0], (4, 2)))
    assert not np.any(apart)


@for_rows("f", [lambda z: z * z + 1, np.sin, lambda z: np.exp(z) / z, lambda z: np.sqrt(1 + z) ** 3, np.log])
def test_complex_lanes_have_the_values_of_complex_calls(f: Function) -> None:
    made = record(f, [np.float64(1.2)])
    z = 1.2 + 1j * 10.0 ** -np.arange(0, 40, 4)
    found, apart = run(made, {0: z})
    np.testing.assert_allclose(found, f(z), rtol=ULPS)
    np.testing.assert_allclose(found.imag, f(z).imag, rtol=ULPS)
    assert not np.any(apart)


A, B = np.linspace(0.1, 3, 401), np.linspace(2.9, 0.2, 401)
# fmt: off
OPERATIONS: dict[str, Function] = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide,
    "sqrt": lambda a, b: np.sqrt(a), "square": lambda a, b: np.square(a),
}
FUNCTIONS: dict[str, Function] = {
    "exp": lambda a, b: np.exp(a), "log": lambda a, b: np.log(a), "sin": lambda a, b: np.sin(a), "tanh": lambda a, b: np.tanh(a),
    "two of them": lambda a, b: np.exp(a) * b, "three": lambda a, b: (a * b - a) / b,
}
# fmt: on


def in_format(f: Function, dtype: str) -> Any:
    made = record(f, [np.float64(1), np.float64(2)])
    form = format_of(dtype)
    return run(made, {0: form.rounded(A), 1: form.rounded(B)}, form)[0]


@for_rows("dtype", ["float32", "longdouble"])
@for_rows("name", [*OPERATIONS, *FUNCTIONS])
def test_numpys_own_formats_give_numpys_own_results(name: str, dtype: str) -> None:
    f, kind = (OPERATIONS | FUNCTIONS)[name], np.dtype(dtype).type
    np.testing.assert_array_equal(in_format(f, dtype), f(A.astype(kind), B.astype(kind)))
    assert in_format(f, dtype).dtype == kind


@for_rows("dtype", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
@for_rows("name", OPERATIONS)
def test_narrow_formats_round_correctly(name: str, dtype: str) -> None:
    """A sum, product, quotient or root rounded to 24 bits, then to 11 or fewer, is as if rounded once."""
    kind = np.float16 if dtype == "float16" else getattr(pytest.importorskip("ml_dtypes"), dtype)
    f = OPERATIONS[name]
    expected = f(A.astype(kind), B.astype(kind))
    assert expected.dtype == kind
    np.testing.assert_array_equal(in_format(f, dtype), expected.astype(np.float32))


def test_every_operation_is_rounded_and_not_the_last_alone() -> None:
    made = record(lambda x: (x + 1000.0) - 1000.0, [np.float64(0.3)])
    assert run(made, {0: np.array([0.3])}, format_of("float16"))[0] == [0.5]
    assert abs(run(made, {0: np.array([0.3])})[0] - 0.3) < 1e-12


def test_what_a_format_cannot_compute_is_named() -> None:
    made = record(np.linalg.det, [np.eye(2)])
    with pytest.raises(NotSupported, match="det cannot be computed in longdouble"):
        run(made, {0: np.stack([np.eye(2, dtype=np.longdouble)])}, format_of("longdouble"))


def program(shape: tuple[int, ...], length: int) -> RecordedProgram:
    def f(x: Any) -> Any:
        for _ in range(length):
            x = x + 1.0
        return x

    return record(f, [np.zeros(shape)])


@for_rows(("shape", "length"), [((), 1), ((), 3000), ((10,), 5), ((300, 300), 1), ((LINE,), 2), ((2 * LINE,), 2), ((40,), 2000)], ids=str)  # fmt: skip
def test_memory_is_bounded(shape: tuple[int, ...], length: int) -> None:
    most, each = lanes_at_once(program(shape, length)), max(1, int(np.prod(shape)))
    assert most >= 1
    assert most == 1 or (most * each <= LINE and most * each * (length + 1) <= ALL)
    assert (most + 1) * each > LINE or (most + 1) * each * (length + 1) > ALL  # and no smaller than that


def test_lanes_are_run_together_and_not_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    made = record(lambda x: np.sum(np.sin(x) * np.arange(3.0)), [np.ones(3)])
    for k, line in enumerate(made.tape.lines):
        if line[0] is not None:
            own = line[0]
            counted = Primitive(own.name, lambda *xs, own=own, **p: (calls.append(own.name), own.fun(*xs, **p))[1], own.rules, own.kind)  # fmt: skip
            made.tape.lines[k] = (counted, *line[1:])
    run(made, {0: np.ones((1000, 3))})
    assert sorted(calls) == ["multiply", "sin"]  # the sum has a rule of its own
