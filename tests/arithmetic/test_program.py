"""Recorded programs, run again: shaken by roundings, or with other rules at some of their lines."""

from typing import Any

import numpy as np
import pytest

from gradcli.arithmetic.recorded_program import RecordedProgram, record
from gradcli.modes.bounds import SIZE, Shake, perturb_program
from gradcli.rules.kinds import Partial
from tests.rows import for_rows

EPS = float(np.finfo(np.float64).eps)
ONE = np.float64(1)
X = np.array([0.4, -1.1, 0.8])
Z = np.array([1.2, 0.3, -0.7])


def program(x: Any, z: Any) -> Any:
    t = np.tanh(x * z)
    for _ in range(2):
        t = np.sin(t) + z
    return np.sum(t * np.exp(x)) if t[0] > 0 else np.sum(t)


def gradient(made: RecordedProgram) -> Any:
    return np.stack(made.pull(ONE))


def lines_of(made: RecordedProgram, name: str) -> list[int]:
    return [k for k, line in enumerate(made.lines) if line[0] is not None and line[0].name == name]


def test_a_run_with_its_own_rules_gives_its_own_gradient() -> None:
    run = record(program, [X, Z])
    own = {k: {0: line[0].rule(0)} for k, line in enumerate(run.lines) if line[0] is not None}
    nothing: dict[int, Any] = {}
    for rules in (nothing, own):
        np.testing.assert_array_equal(gradient(run.with_rules(rules)), gradient(run))


@for_rows("name", ["tanh", "sin", "exp", "multiply"])
def test_a_rule_that_is_replaced_is_replaced_on_its_lines_alone(name: str) -> None:
    run = record(program, [X, Z])
    before, names = gradient(run), [line[0] for line in run.lines]
    changed = [gradient(run.with_rules({k: {0: Partial(lambda y, *xs: 0 * y)}})) for k in lines_of(run, name)]
    assert all(not np.allclose(g, before) for g in changed)
    assert len({g.tobytes() for g in changed}) == len(changed)
    assert [line[0] for line in run.lines] == names  # the run itself is left as it was
    np.testing.assert_array_equal(gradient(run), before)


def test_a_planted_partial_gives_the_gradient_with_that_slip() -> None:
    run = record(lambda x: np.sum(np.tanh(x) ** 2), [X])
    (k,) = lines_of(run, "tanh")
    made = run.with_rules({k: {0: Partial(lambda y, x: 1 - y)}}).pull(ONE)[0]
    np.testing.assert_allclose(made, 2 * np.tanh(X) * (1 - np.tanh(X)), rtol=1e-15)


def test_every_turn_of_a_loop_can_be_changed_apart() -> None:
    run = record(lambda x: np.sin(np.sin(np.sin(x))), [np.float64(0.5)])
    first, _, last = lines_of(run, "sin")
    slip = Partial(lambda y, x: y)
    at = [0.5, np.sin(0.5), np.sin(np.sin(0.5))]
    cos, sin = np.cos(at), np.sin(at)
    for lines, expected in (
        ((first,), sin[0] * cos[1] * cos[2]),
        ((last,), cos[0] * cos[1] * sin[2]),
        ((first, last), sin[0] * cos[1] * sin[2]),
    ):
        (made,) = run.with_rules({k: {0: slip} for k in lines}).pull(ONE)
        np.testing.assert_allclose(made, expected, rtol=1e-14)


def test_lines_of_inputs_have_no_rules_to_change() -> None:
    run = record(program, [X, Z])
    made = run.with_rules({0: {0: Partial(lambda y, x: 0 * y)}})
    np.testing.assert_array_equal(gradient(made), gradient(run))


def test_a_result_that_does_not_move_has_a_gradient_of_zero() -> None:
    run = record(lambda x, z: np.float64(3.0), [X, Z])
    assert not run.moves
    np.testing.assert_array_equal(gradient(run), np.zeros((2, 3)))


def test_a_result_that_moves_is_told() -> None:
    assert record(program, [X, Z]).moves


def test_a_shake_moves_every_entry_by_a_rounding_or_so() -> None:
    x = np.linspace(1.0, 1.5, 40_000)
    moved = (Shake(0)(x) - x) / (EPS * x)
    assert np.max(np.abs(moved)) <= 16 + 1
    assert np.count_nonzero(moved) > 0.9 * x.size
    assert abs(np.sqrt(np.mean(moved**2)) / SIZE - 1) < 0.2


def test_a_shake_is_decided_by_its_seed_and_keeps_shapes() -> None:
    for x in (np.float64(2.0), X, np.ones((3, 4)), np.ones((200, 100))):
        one, two, other = Shake(3)(x), Shake(3)(x), Shake(4)(x)
        assert np.shape(one) == np.shape(x)
        np.testing.assert_array_equal(one, two)
        assert not np.array_equal(one, other)
    shake = Shake(3)
    assert not np.array_equal(shake(np.ones(50)), shake(np.ones(50)))  # two equal values are not moved alike


@pytest.mark.parametrize("kernels", [True, False])
def test_a_shaken_run_is_the_run_up_to_roundings(kernels: bool) -> None:
    run = record(program, [X, Z])
    other = perturb_program(run, Shake(1), kernels)
    assert [line[1] for line in other.lines] == [line[1] for line in run.lines]
    value, moved = run.lines[run.y.slot][3], other.lines[run.y.slot][3]
    assert 0 < abs(moved / value - 1) < 1e3 * EPS
    right, made = gradient(run), gradient(other)
    assert not np.array_equal(right, made)
    np.testing.assert_allclose(made, right, rtol=2e3 * EPS)  # some 16 roundings at each of twenty operations


def test_a_shaken_run_shows_what_cancels() -> None:
    run = record(lambda x: (x + 1e8) - 1e8, [np.float64(0.3)])
    apart = [abs(perturb_program(run, Shake(k)).lines[run.y.slot][3] - 0.3) for k in range(8)]
    assert 1e-9 < max(apart) < 1e-6  # of 1e8, 1.5e-8 is one rounding


def test_a_program_raises_where_a_matrix_has_no_factors() -> None:
    made = record(lambda a: np.sum(np.linalg.cholesky(a)), [np.eye(2)])
    assert made.run([np.array([[1.0, 0.5], [0.5, 2.0]])]) is not None
    with pytest.raises(np.linalg.LinAlgError):
        made.run([np.array([[1.0, 2.0], [2.0, 1.0]])])


def test_a_large_array_is_shaken_by_factors_used_again_and_again() -> None:
    x = np.ones((130, 300)).T
    shake = Shake(3)
    found = shake(x)
    assert found.shape == x.shape and np.all(found != 1.0) and np.max(np.abs(found - 1.0)) <= 16 * np.finfo(float).eps
    assert len(np.unique(np.ravel(found)[:1000])) > 20
