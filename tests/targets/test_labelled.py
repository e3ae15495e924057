"""pandas among the arguments; most tests imitate it by small classes, which have what gradcli uses of it."""

from typing import Any

import numpy as np
import pytest

import gradcli
from gradcli import check
from gradcli.errors import GradcliError
from gradcli.report.check import CheckReport
from tests.rows import for_rows


class Series:
    """A Series as gradcli sees it: values, and one label for each."""

    def __init__(self, values: Any, index: Any, name: Any = None) -> None:
        self.held = np.array(values)
        self.index, self.name, self.dtype = list(index), name, self.held.dtype

    def to_numpy(self) -> Any:
        return self.held

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.array(self.held, dtype=dtype)

    def __getitem__(self, label: Any) -> Any:
        if isinstance(label, list):
            return Series([self[each] for each in label], label)
        return self.held[self.index.index(label)]

    def sum(self) -> Any:
        return self.held.sum()

    def __pow__(self, k: Any) -> "Series":
        return Series(self.held**k, self.index)

    def std(self) -> Any:
        return self.held.std(ddof=1)

    def rolling(self) -> Any:
        return self.held[1:] + self.held[:-1]


class Frame:
    """A DataFrame as gradcli sees it: values, labels of rows, and of columns."""

    def __init__(self, values: Any, index: Any, columns: Any) -> None:
        self.held = np.array(values)
        self.index, self.columns = list(index), list(columns)
        self.dtypes = [self.held.dtype] * len(self.columns)

    def to_numpy(self) -> Any:
        return self.held

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.array(self.held, dtype=dtype)

    def __getitem__(self, label: Any) -> Any:
        if isinstance(label, list):
            return Frame(self.held[:, [self.columns.index(each) for each in label]], self.index, label)
        return Series(self.held[:, self.columns.index(label)], self.index, label)


class Table:
    """A table that is no table of floats: one column has texts."""

    index, columns, dtypes = (0, 1), ("k", "v"), (np.dtype(object), np.dtype(float))

    def to_numpy(self) -> Any:
        return np.array([["a", 1.0], ["b", 2.0]], dtype=object)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.to_numpy()

    def weights(self) -> Any:
        return np.array([1.0, 2.0])


S = Series([0.5, 2.0, -1.0], ["a", "b", "c"])
F = Frame([[1.0, 0.5], [2.0, -1.0], [3.0, 2.0]], ["r", "s", "t"], ["a", "b"])


def findings(report: CheckReport) -> dict[str, Any]:
    return {str(finding.kind): finding for finding in report.points[0].findings}


TRACED = {
    "by label":          (lambda x: x["a"] * x["b"] + x["c"], S),
    "several labels":    (lambda x: np.sum(np.asarray(x[["a", "c"]]) ** 3), S),
    "as an array":       (lambda x: np.sum(np.asarray(x) ** 3), S),
    "to_numpy":          (lambda x: np.sum(x.to_numpy() ** 3), S),
    "a power, its sum":  (lambda x: (x**2).sum(), S),
    "a column":          (lambda x: np.sum(x["a"].to_numpy() * x["b"].to_numpy()), F),
    "columns":           (lambda x: np.sum(x[["b", "a"]].to_numpy()[:, 0] ** 2), F),
    "a whole frame":     (lambda x: np.sum(x.to_numpy() ** 2), F),
    "in a dict":         (lambda p: np.sum(p["s"].to_numpy() * p["k"]), {"p": {"s": S, "k": 2.0}}),
}  # fmt: skip


@for_rows("name", TRACED)
def test_a_trace_goes_through_values_and_labels(name: str) -> None:
    f, at = TRACED[name]
    report = check(f, at)
    assert report.verdict == "pass" and "untraced" not in findings(report)


@pytest.mark.parametrize(
    ("f", "said"),
    [
        (lambda x: x.std() ** 2, ".std of a Series is not traced"),
        (lambda x: np.sum(x.rolling() ** 2), ".rolling of a Series"),
    ],
)
def test_what_is_not_traced_says_to_take_the_values(f: Any, said: str) -> None:
    report = check(f, S)
    finding = findings(report)["untraced"]
    assert report.verdict == "inconclusive" and said in finding.message
    assert "x.to_numpy()" in finding.hint


def test_a_claim_is_checked_all_the_same() -> None:
    f = lambda x: np.sum(x.rolling() ** 2)

    def grad(x: Any) -> Any:
        both = 2 * x.rolling()
        return Series(np.append(both, 0.0) + np.insert(both, 0, 0.0), x.index)

    assert check(f, S, grad=grad).verdict == "pass"
    assert check(f, S, grad=lambda x: 2 * x.held).verdict == "fail"


def test_a_gradient_is_a_frame_too() -> None:
    f = lambda x: np.sum(x["a"].to_numpy() * x["b"].to_numpy())
    grad = lambda x: Frame(x.held[:, ::-1], x.index, x.columns)
    assert check(f, F, grad=grad).verdict == "pass"
    assert check(f, F, grad=lambda x: x).verdict == "fail"


def test_fixed_arguments_keep_their_labels() -> None:
    f = lambda w, data: np.sum((data[["b", "a"]].to_numpy() @ w) ** 2) + data["a"].to_numpy()[0]
    report = check(f, {"w": np.array([0.3, 0.7]), "data": F}, wrt="w")
    assert report.verdict == "pass" and report.points[0].differentiated == ("w",)


def test_a_table_of_other_things_is_passed_as_it_is() -> None:
    report = check(lambda w, data: np.sum(data.weights() * w**2), {"w": np.array([0.3, 0.7]), "data": Table()})
    assert report.verdict == "pass" and report.points[0].differentiated == ("w",)


def test_nan_is_pointed_out_with_its_place() -> None:
    f = lambda w, data: np.nansum(data.to_numpy() * w)
    held = np.array([[1.0, np.nan], [2.0, 3.0]])
    report = check(f, {"w": np.array([0.3, 0.7]), "data": Frame(held, ["r", "s"], ["a", "b"])}, wrt="w")
    notice = findings(report)["notice"]
    assert notice.message == "data is nan in 1 entry, first at column 'b', row 'r'" and "data.dropna()" in notice.hint


def test_labels_that_occur_twice_are_pointed_out() -> None:
    twice = Series([1.0, 2.0, 3.0], ["a", "a", "b"])
    report = check(lambda x: np.sum(x.to_numpy() ** 2), twice)
    assert report.verdict == "pass" and findings(report)["notice"].message == "the index of x has 'a' more than once"
    assert "untraced" in findings(check(lambda x: np.sum(x.to_numpy() ** 2) + x["a"], twice))


def test_narrow_floats_are_checked_as_float64() -> None:
    narrow = Series(np.array([0.5, 2.0], dtype=np.float32), ["a", "b"])
    assert "float32" in findings(check(lambda x: x["a"] ** 2 * x["b"], narrow))["precision"].message


def test_the_gradient_of_a_series_is_one() -> None:
    g = gradcli.grad(lambda x: np.sum(x**2))(S)
    assert isinstance(g, Series) and g.index == S.index and g.held.tolist() == [1.0, 4.0, -2.0]


def test_a_program_takes_values() -> None:
    with pytest.raises(GradcliError, match="pandas Series") as error:
        gradcli.compile(lambda x: np.sum(x**2), S)
    assert error.value.do == "compile for its values: x.to_numpy()"


def test_pandas_itself() -> None:
    pd = pytest.importorskip("pandas")
    data = pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": [0.5, -1.0, 2.0]})
    at = {"w": np.array([0.3, 0.7]), "data": data}
    ended = check(lambda w, data: np.sum((data["a"] * w[0] + data["b"] * w[1]) ** 2), at, wrt="w")
    assert "data.to_numpy()" in findings(ended)["untraced"].hint
    assert check(lambda w, data: np.sum((data.to_numpy() @ w) ** 2), at, wrt="w").verdict == "pass"
    kinds = pd.DataFrame({"a": [1.0, 2.0, 3.0], "k": ["u", "v", "u"]})
    groups = lambda w, data: np.sum((data.groupby("k")["a"].sum().to_numpy() * w) ** 2)
    assert check(groups, {**at, "data": kinds}).verdict == "pass"
    series = data["a"].rename("x")
    assert check(lambda x: ((x - x.mean()) ** 2).sum(), series, grad=lambda x: 2 * (x - x.mean())).verdict == "pass"
