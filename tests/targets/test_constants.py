"""The constants that a function reads, wherever they stand, and the function with other values in their places."""

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from gradcli.targets.constants import Constants

SMALL = 0.25
TABLE = {"scale": [2.0, 3], "name": "table"}
ARRAY = np.array([1.0, 4.0])
COUNTS = np.array([1, 2])


def global_constant(x: Any) -> Any:
    return x * SMALL


def in_containers(x: Any) -> Any:
    return x * TABLE["scale"][0] * ARRAY[1] * COUNTS[0]


def default(x: Any, scale: float = 0.25, *, shift: float = 8.0) -> Any:
    return x * scale + shift


def called(x: Any) -> Any:
    return global_constant(x) + x


def literal(x: Any) -> Any:
    return x * 0.25 + sum(k * 8.0 for k in range(2))


def closure(scale: float) -> Any:
    return lambda x: x * scale


class Model:
    shift = 8.0

    def __init__(self) -> None:
        self.scale = 0.25

    def value(self, x: Any) -> Any:
        return self._scaled(x) + self.shift

    def _scaled(self, x: Any) -> Any:
        return x * self.scale


@dataclass(frozen=True)
class Settings:
    scale: float = 0.25


class Frame:
    """As pandas has it: on the class itself these are properties."""

    index, columns, dtypes = (property(lambda self: [0.5]) for _ in range(3))

    def to_numpy(self) -> Any:
        return ARRAY


class Fixed(type):
    """Classes of this kind take no other values."""

    def __setattr__(cls, name: str, value: Any) -> None:
        raise AttributeError(name)


class Units(metaclass=Fixed):
    tiny = 0.5

    def of(self) -> float:
        return self.tiny


SETTINGS, MODEL = Settings(), Model()


def of_settings(x: Any) -> Any:
    return x * SETTINGS.scale


def of_model(x: Any) -> Any:
    return MODEL.value(x)


def beside_classes(x: Any, kinds: Any = (Frame, 0.25)) -> Any:
    return x.to_numpy() if isinstance(x, Frame) else x * kinds[1]


def of_fixed_class(x: Any) -> Any:
    return x * Units.tiny


@pytest.mark.parametrize(
    ("function", "constants", "doubled"),
    [
        (global_constant, [0.25], 0.5),
        (in_containers, [1.0, 4.0, 2.0], 32.0),
        (default, [0.25, 8.0], 16.5),
        (called, [0.25], 1.5),
        (closure(0.25), [0.25], 0.5),
        (functools.partial(default, scale=0.5, shift=0.25), [0.5, 0.25, 0.25, 8.0], 1.5),
        (MODEL.value, [0.25, 8.0], 16.5),
        (of_model, [0.25, 8.0], 16.5),
        (of_settings, [0.25, 0.25], 0.5),
        (beside_classes, [1.0, 4.0, 0.25], 0.5),
        (of_fixed_class, [], 0.5),
        (literal, [], 8.25),
    ],
)
def test_a_function_runs_with_other_values_for_its_constants(
    function: Any, constants: list[float], doubled: float
) -> None:
    found, before = Constants(function), function(1.0)
    assert sorted(np.concatenate([[], *map(np.ravel, found.numbers)])) == sorted(constants)
    with found.with_numbers([2 * x for x in found.numbers]):
        assert function(1.0) == doubled
    assert function(1.0) == before


def test_literals_are_constants_where_they_are_asked_for() -> None:
    found = Constants(literal, literals=True)
    assert sorted(found.numbers) == [0.25, 8.0]
    code = literal.__code__
    with found.with_numbers([2 * x for x in found.numbers]):
        assert literal(1.0) == 16.5
    assert literal.__code__ is code


def test_constants_are_restored_where_the_function_raises() -> None:
    with pytest.raises(ZeroDivisionError), Constants(MODEL.value).with_numbers([1.0, 1.0]):
        assert MODEL.value(1.0) == 2.0
        raise ZeroDivisionError
    assert MODEL.value(1.0) == 8.25
    assert "shift" not in vars(MODEL)


def test_a_container_of_many_parts_is_left_alone() -> None:
    rows: list[Any] = [[0.5] * 2 for _ in range(400)]
    assert not Constants(lambda x, table=rows: x * table[0][0]).numbers
    rows[:] = [0.5, rows]  # it holds itself
    assert not Constants(lambda x, table=rows: x * table[0]).numbers
    assert Constants(lambda x, table=[0.5] * 400: x * table[0]).numbers


def test_code_of_packages_is_left_alone() -> None:
    assert not Constants(np.linspace).numbers
    assert not Constants(functools.partial(np.linspace, 0)).numbers
