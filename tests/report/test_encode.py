"""Reports as data: strict JSON, floats that round-trip, large arrays summarised, absent fields left out."""

import json
import math
from dataclasses import dataclass
from enum import Enum

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradcli.report.common import ABSENT, Absent, Opaque
from gradcli.report.encode import MAX_ENTRIES, WORST, encode
from tests.rows import for_rows


class Colour(Enum):
    RED = "red"


@dataclass(frozen=True)
class Sample:
    """A report in small."""

    kept: int | None
    from_: str = "a"
    absent: int | Absent = ABSENT


TABLE = [
    (math.nan, "nan"),
    (math.inf, "inf"),
    (-math.inf, "-inf"),
    (np.float64("nan"), "nan"),
    (np.float64(0.1), 0.1),
    (np.float32(0.5), 0.5),
    (np.int64(3), 3),
    (np.bool_(True), True),
    (None, None),
    ("text", "text"),
    (Colour.RED, "red"),
    ((1, (2.0, math.nan)), [1, [2.0, "nan"]]),
    (frozenset({4}), [4]),
    ({"x": np.array([1.0, math.inf])}, {"x": [1.0, "inf"]}),
    (np.array([[1.0, 2.0], [math.nan, -math.inf]]), [[1.0, 2.0], ["nan", "-inf"]]),
    (np.zeros((0, 3)), []),
    (np.zeros((2, 0)), [[], []]),
    (np.array(2.5), 2.5),
    (np.array([1, 2]), [1, 2]),
    (np.array([True, False]), [True, False]),
    (1 + 2j, {"re": 1.0, "im": 2.0}),
    (np.array([1j]), [{"re": 0.0, "im": 1.0}]),
]


@for_rows(("x", "data"), TABLE, ids=[repr(x) for x, _ in TABLE])
def test_values_become_plain_data(x: object, data: object) -> None:
    found = encode(x)
    assert found == data
    json.dumps(found, allow_nan=False)


@pytest.mark.parametrize("x", [np.bool_(True), np.int64(3), np.float64(0.5)])
def test_no_numpy_type_is_left(x: object) -> None:
    assert type(encode(x)) in (bool, int, float)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_round_trip(x: float) -> None:
    assert json.loads(json.dumps(encode(np.float64(x)), allow_nan=False)) == x


def test_absent_fields_are_left_out_and_none_is_kept() -> None:
    assert encode(Sample(None)) == {"kept": None, "from": "a"}


def test_a_field_that_is_no_longer_absent_appears() -> None:
    assert encode(Sample(1, absent=2)) == {"kept": 1, "from": "a", "absent": 2}


def test_absent_is_false() -> None:
    assert not ABSENT


def test_arrays_are_listed_up_to_the_limit() -> None:
    assert encode(np.ones(MAX_ENTRIES)) == [1.0] * MAX_ENTRIES


def test_the_limit_is_that_of_the_contract() -> None:
    assert MAX_ENTRIES == 10_000


def test_larger_arrays_become_shape_norm_and_worst_entries() -> None:
    x = np.zeros((101, 100))
    x[7, 3], x[100, 99] = -4.0, 3.0
    found = encode(x)
    assert list(found) == ["shape", "norm", "worst"]
    assert found["shape"] == [101, 100]
    assert found["norm"] == 5.0
    assert found["worst"][:2] == [{"index": [7, 3], "value": -4.0}, {"index": [100, 99], "value": 3.0}]
    assert len(found["worst"]) == WORST


def test_entries_that_are_not_finite_are_the_worst() -> None:
    x = np.ones(MAX_ENTRIES + 1)
    x[[5, 9]] = np.nan, -np.inf
    worst = encode(x)["worst"]
    assert {(entry["index"][0], entry["value"]) for entry in worst[:2]} == {(5, "nan"), (9, "-inf")}


def test_of_equal_entries_the_first_are_the_worst() -> None:
    worst = encode(np.tile([1.0, 3.0, 2.0], MAX_ENTRIES))["worst"]
    assert [entry["index"] for entry in worst] == [[1 + 3 * k] for k in range(WORST)]


def test_the_worst_entries_of_a_large_complex_array_have_both_parts() -> None:
    x = np.full(MAX_ENTRIES + 1, 3 + 4j)
    assert encode(x)["worst"][0] == {"index": [0], "value": {"re": 3.0, "im": 4.0}}


def test_a_large_array_of_objects_has_no_norm_and_is_listed() -> None:
    x = np.array([1.5, None, Opaque("Model")] * MAX_ENTRIES, dtype=object)
    assert encode(x) == [1.5, None, "<Model>"] * MAX_ENTRIES


def test_a_summary_is_strict_json() -> None:
    x = np.full(MAX_ENTRIES + 1, np.nan)
    assert json.loads(json.dumps(encode(x), allow_nan=False))["norm"] == "nan"
