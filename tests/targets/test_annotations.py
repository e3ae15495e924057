"""Integers by annotation: class labels, sizes, indices; and what an error says where nothing is annotated."""

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from gradcli.targets.arguments import annotated_type, takes_a_list
from tests.rows import for_rows
from tests.targets.test_loading import written

QUICK = ("--modes", "forward,reverse,fd", "--json")


def parameter(annotation: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    return inspect.Parameter("n", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=annotation, default=default)


INTEGERS = [
    int, "int", np.int64, "np.int64", "numpy.int32", "int | None", int | None, "Optional[int]", "np.integer",
    npt.NDArray[np.int64], "NDArray[np.int64]", "npt.NDArray[np.int_]", "np.typing.NDArray[np.integer]", npt.NDArray[np.intp],
    "torch.LongTensor", "LongTensor", "Int[Array, 'n']", "jaxtyping.Int[np.ndarray, 'n']", "NDArray[np.int64] | None",
    list[int], "list[int]", tuple[int, ...], Sequence[int], list[int], "typing.Sequence[int]",
]  # fmt: skip
OTHERS = [
    float, "float", np.ndarray, "np.ndarray", "NDArray[np.float64]", npt.NDArray[np.float64], "dict[str, int]", "float | int",
    list[float], "Callable[[int], float]", tuple[int, float], inspect.Parameter.empty, "Interval", "torch.Tensor", "list[list[int]]",
]  # fmt: skip


@for_rows("annotation", INTEGERS, ids=str)
def test_an_annotation_says_integer(annotation: Any) -> None:
    assert annotated_type(parameter(annotation)) is int


@for_rows("annotation", OTHERS, ids=str)
def test_another_annotation_says_nothing(annotation: Any) -> None:
    assert annotated_type(parameter(annotation)) is None


def test_defaults_and_lists() -> None:
    assert (
        annotated_type(parameter(inspect.Parameter.empty, 3)) is int and annotated_type(parameter("float", 3)) is None
    )
    assert annotated_type(parameter("bool")) is bool and annotated_type(None) is None
    assert takes_a_list(parameter(list[int])) and not takes_a_list(parameter(npt.NDArray[np.int64]))


CODE = """
    from numpy.typing import NDArray
    def picked(z, target): return np.sum(z[np.arange(3), target]**2)
    def array(z, target: NDArray[np.int64]): return picked(z, target)
    def listed(z, target: "list[int]"):
        assert type(target) is list and type(target[0]) is int
        return picked(z, target)
    def repeated(x, n): return np.sum(x)*sum(1.0 for _ in range(n))
    def looped(z, target):
        rows = target
        return sum(z[i, rows[i]]**2 for i in range(len(z)))
    def named(z, target, w=(1.0, 2.0, 3.0)):
        for i, (k, part) in enumerate(zip(target, w)):
            z = z*part + z[i, k]
        return np.sum(z)
    def nested(z, w, rows):
        for i, columns in zip(w, rows):
            z = z + z[i]
            for k in columns: z = z*z[0, k]
        return np.sum(z)
    def scaled(k, z): return np.sum(z[int(1)]*k) + z[k]
"""


@pytest.mark.parametrize(
    ("target", "labels"),
    [("array", "[0,2,1]"), ("listed", "[0,2,1]"), ("picked", "int([0,2,1])"), ("array", "int([0,2,1])")],
)
def test_labels_are_integers(gradcli: Callable[..., Any], tmp_path: Path, target: str, labels: str) -> None:
    file = written(tmp_path, CODE)
    ran = gradcli("check", f"{file}:{target}", "--at", f"z=randn(3,3), target={labels}", *QUICK)
    assert ran.exit_status == 0, ran.stdout
    assert ran.json["points"][0]["differentiated"] == ["z"]


@pytest.mark.parametrize(
    ("target", "at", "do"),
    [
        ("repeated", "x=[1, 2], n=3", '--at "n=int(3)"'),
        ("scaled", "k=2, z=[1, 2, 3]", '--at "k=int(2)"'),
        ("array", "z=randn(3,3)", 'add --at "target=int([0, 1, 2])"'),
    ],
)
def test_an_error_says_how_integers_are_written(
    gradcli: Callable[..., Any], tmp_path: Path, target: str, at: str, do: str
) -> None:
    ran = gradcli("check", f"{written(tmp_path, CODE)}:{target}", "--at", at, *QUICK)
    assert ran.exit_status == 2 and do in ran.json["error"]["hint"]


@pytest.mark.parametrize("target", ["picked", "looped", "named"])
@pytest.mark.parametrize("z", ["randn(3,3)", "[[1,2,3],[4,5,6],[7,8,9]]"])
def test_an_array_that_the_function_indexes_by_is_taken_as_integers_and_told(
    gradcli: Callable[..., Any], tmp_path: Path, z: str, target: str
) -> None:
    at = f"z={z}, target=[0,2,1]" + (", w=[1,2,1]" if target == "named" else "")
    ran = gradcli("check", f"{written(tmp_path, CODE)}:{target}", "--at", at, *QUICK)
    (point,) = ran.json["points"]
    assert ran.exit_status == 0 and point["differentiated"] == (["z", "w"] if target == "named" else ["z"])
    assert "target is an index: taken as integers" in [found["message"] for found in point["findings"]]


def test_arrays_that_other_lines_index_by_are_taken_as_integers_too(
    gradcli: Callable[..., Any], tmp_path: Path
) -> None:
    at = "z=randn(3,3), w=[0, 2], rows=[[0, 1], [2, 1]]"
    ran = gradcli("check", f"{written(tmp_path, CODE)}:nested", "--at", at, *QUICK)
    (point,) = ran.json["points"]
    assert ran.exit_status == 0 and point["differentiated"] == ["z"]
    assert "w and rows are indices: taken as integers" in [found["message"] for found in point["findings"]]


def test_labels_that_are_no_whole_numbers_stay_floats(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    ran = gradcli("check", f"{written(tmp_path, CODE)}:array", "--at", "z=randn(3,3), target=[0,0.5,1]", *QUICK)
    assert ran.exit_status == 2 and "int(" in ran.json["error"]["hint"]
