"""Points where a claim is wrong are made simpler as long as it stays wrong."""

import numpy as np

from gradcli.repair.stress import shrink_point


def test_numbers_become_short_and_the_rest_is_as_it_was_given() -> None:
    given = {"x": np.array([1.0, 2.0]), "y": np.float64(3.0)}
    found = shrink_point(
        {"x": np.array([7.123456, -8.7654]), "y": np.float64(0.123)}, given, ("x", "y"), lambda at: at["x"][0] > 5
    )
    assert found["x"].tolist() == [7.0, 2.0] and found["y"] == 3.0


def test_what_does_not_fail_is_not_taken() -> None:
    values = {"x": np.array([7.123456, -8.7654])}
    found = shrink_point(values, {"x": np.array([1.0, 2.0])}, ("x",), lambda at: np.array_equal(at["x"], values["x"]))
    assert np.array_equal(found["x"], values["x"])


def test_it_ends() -> None:
    calls: list[int] = []
    values = {"x": np.linspace(0.1234567, 1.234567, 12)}
    shrink_point(values, {"x": np.zeros(12)}, ("x",), lambda at: bool(calls.append(1)) or len(calls) % 2 == 0)
    assert len(calls) <= 120
