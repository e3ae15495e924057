"""Parts of arrays at fixed places: what an index does at all sizes, spans that can be compared, and what is refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import softmax

import gradcli as package
from gradcli.derivation.index import fresh_index
from gradcli.derivation.sized_recording import AxisPick, name_constant_array, parse_index
from gradcli.derivation.units import PositionRange, parse_span, range_of_position
from gradcli.errors import NotSupported
from tests.derivation.evaluate import at_point
from tests.rows import for_rows

LENGTHS = (3, 5, 7)
ALL, NEW = AxisPick("all"), AxisPick("new")

# fmt: off
PICKS = {
    # an index, of n rows and 4 columns           what it does
    "0":             (lambda n: 0,                [AxisPick("at", "0"), ALL]),
    "-1":            (lambda n: -1,               [AxisPick("at", "-1"), ALL]),
    "n - 2":         (lambda n: n - 2,            [AxisPick("at", "-2"), ALL]),
    "numpy's 2":     (lambda n: np.int64(2),      [AxisPick("at", "2"), ALL]),
    ":, 1":          (lambda n: (slice(None), 1), [ALL, AxisPick("at", "1")]),
    "..., -1":       (lambda n: (..., -1),        [ALL, AxisPick("at", "3")]),
    "None, 0":       (lambda n: (None, 0),        [NEW, AxisPick("at", "0"), ALL]),
    "1:":            (lambda n: slice(1, None),   [AxisPick("span", "1:"), ALL]),
    "1:n":           (lambda n: slice(1, n),      [AxisPick("span", "1:"), ALL]),
    ":-1":           (lambda n: slice(None, -1),  [AxisPick("span", ":-1"), ALL]),
    "1:n - 1":       (lambda n: slice(1, n - 1),  [AxisPick("span", "1:-1"), ALL]),
    "-2:":           (lambda n: slice(-2, None),  [AxisPick("span", "-2:"), ALL]),
    "::2":           (lambda n: slice(None, None, 2),  [AxisPick("span", "::2"), ALL]),
    "::-1":          (lambda n: slice(None, None, -1), [AxisPick("span", "::-1"), ALL]),
    "0:n":           (lambda n: slice(0, n),      [ALL, ALL]),
    "[0, 2]":        (lambda n: [0, 2],           [AxisPick("span", "[0, 2]"), ALL]),
    "arange(n)":     (lambda n: np.arange(n),     [ALL, ALL]),
}
NO_PICKS = {
    "places that grow":      lambda n: n // 2,
    "a slice cut off":       lambda n: slice(None, 4),
    "an order of values":    lambda n: np.argsort(np.sin(np.arange(n))),
    "truth values":          lambda n: np.arange(n) > 1,
    "two lists":             lambda n: ([0, 1], [1, 2]),
    "a list and a place":    lambda n: ([0, 1], 2),
    "steps that grow":       lambda n: slice(None, None, n - 2),
    "another rank":          lambda n: (None,) * (n - 3),
}
SPANS = [  # span, place, whether it is known to lie in it, to lie outside
    ("1:", 0, False, True), ("1:", 1, True, False), ("1:", 5, True, False), (":-1", -1, False, True), (":-1", 0, False, False), (":3", 2, True, False),
    (":3", 3, False, True), (":3", -1, False, False), ("1:-1", 1, False, False), ("-2:", -1, True, False), ("-2:", -3, False, True), ("-2:", 0, False, False),
]
# fmt: on


def _indices(index: Callable[[int], Any]) -> tuple[list[Any], list[tuple[int, int]]]:
    return [index(n) for n in LENGTHS], [(n, 4) for n in LENGTHS]


@for_rows(("index", "right"), PICKS.values(), ids=PICKS)
def test_what_an_index_does(index: Callable[[int], Any], right: list[AxisPick]) -> None:
    assert parse_index(*_indices(index)) == right


@for_rows("index", NO_PICKS.values(), ids=NO_PICKS)
def test_what_differs_at_other_sizes_is_refused(index: Callable[[int], Any]) -> None:
    with pytest.raises(NotSupported):
        parse_index(*_indices(index))


@for_rows(("span", "place", "inside", "outside"), SPANS)
def test_spans(span: str, place: int, inside: bool, outside: bool) -> None:
    known = parse_span(span)
    assert known is not None and (range_of_position(place).within(known), range_of_position(place).apart(known)) == (
        inside,
        outside,
    )
    for n in range(6, 11):
        kept = np.arange(n)[
            eval(
                f"slice({span.replace(':', ',') if span[0] != ':' else 'None' + span.replace(':', ',')}{'None' if span[-1] == ':' else ''})"
            )
        ]
        assert (place % n in kept) or not inside
        assert (place % n not in kept) or not outside


@for_rows("text", ["[0, 2]", "::2", "::-1", "1:0", "0:-0"])
def test_what_is_no_span(text: str) -> None:
    assert parse_span(text) is None


def test_spans_that_touch_are_apart() -> None:
    for one, other, known in ((":2", "2:", True), (":-2", "-2:", True), (":2", "1:", False), (":2", "-2:", False), (":m", "m:", True), (":m", "m + 1:", True), (":m + k", "m:", False), (":m", "k:", False), ("m:m + k", "m + k:", True)):  # fmt: skip
        assert _span(one).apart(_span(other)) is known
    for one, other, known in (("1:", ":", True), (":", "1:", False), (":1", ":m", True), (":2", ":m", False), ("m:m + k", "m:", True)):  # fmt: skip
        assert _span(one).within(_span(other)) is known


def _span(text: str) -> PositionRange:
    found = parse_span(text)
    assert found is not None
    return found


@for_rows(("f", "shapes", "wrt", "right"), [
    ("sum((X@W + b)**2)", "X: s n d; W: d k; b: k", "b", lambda X, W, b: np.sum(2 * (X @ W + b), axis=(0, 1))),
    ("sum((X@W + b)**2)", "X: s n d; W: d k; b: k", "X", lambda X, W, b: 2 * (X @ W + b) @ W.T),
    ("sum(A@X)", "A: m n; X: s n d", "A", lambda A, X: np.tile(np.sum(X, axis=(0, 2)), (len(A), 1))),
    ("sum(G*(softmax(Q@swapaxes(K, -1, -2), axis=-1)@V))", "Q: h n d; K: h m d; V: h m d; G: h n d", "V", lambda Q, K, V, G: np.swapaxes(softmax(Q @ np.swapaxes(K, 1, 2), axis=-1), 1, 2) @ G),
])  # fmt: skip
def test_products_of_stacks(
    gradcli: Callable[..., Any], f: str, shapes: str, wrt: str, right: Callable[..., Any]
) -> None:
    (result,) = gradcli("derive", f, "--shapes", shapes, "--wrt", wrt, "--no-steps", "--json").json["results"]
    rng = np.random.default_rng(0)
    values = {}
    for part in shapes.split("; "):
        name, _, dims = part.partition(": ")
        values[name] = rng.normal(size=[{"s": 2, "h": 2, "n": 3, "d": 4, "k": 5, "m": 6}[d] for d in dims.split()])
    scope: dict[str, Any] = {}
    exec(result["code"]["numpy"], scope)
    np.testing.assert_allclose(scope["gradient"](**values), right(**values), rtol=1e-12)


# fmt: off
CONSTANTS: dict[str, Callable[[int], Any]] = {
    "eye":             lambda n: 2.0 * np.eye(n),
    "a row of eye":    lambda n: -np.eye(n)[1],
    "its last row":    lambda n: np.eye(n)[-1] * n,
    "its rows":        lambda n: np.eye(n)[1:],
    "its columns":     lambda n: 0.5 * np.eye(n)[:, :-1],
    "turned round":    lambda n: np.eye(n)[::-1],
    "two rows":        lambda n: np.eye(n)[[0, 2]],
    "tril":            lambda n: np.tril(np.ones((n, n))),
    "tril below":      lambda n: np.tril(np.ones((n, n)), -1),
    "triu above":      lambda n: 3 * np.triu(np.ones((n, n)), 2),
}
NO_CONSTANTS: dict[str, Callable[[int], Any]] = {
    "arange":          lambda n: np.arange(float(n)),
    "a middle row":    lambda n: np.eye(n)[n // 2],
    "a permutation":   lambda n: np.eye(n)[np.argsort(np.sin(np.arange(n)))],
    "two diagonals":   lambda n: np.eye(n) + np.eye(n, k=1),
    "zeros":           lambda n: np.zeros((n, n)),
    "not a number":    lambda n: np.full(n, np.nan),
}
# fmt: on


@for_rows("make", CONSTANTS.values(), ids=CONSTANTS)
def test_constants_that_have_a_name(make: Callable[[int], Any]) -> None:
    arrays = [np.asarray(make(n), dtype=float) for n in LENGTHS]
    dims = ["n" if len({x.shape[k] for x in arrays}) > 1 and arrays[0].shape[k] == 3 else "2" if arrays[0].shape[k] == arrays[1].shape[k] else "n - 1" for k in range(arrays[0].ndim)]  # fmt: skip
    at_ = tuple(fresh_index(d) for d in dims)
    found = name_constant_array(at_, arrays)
    assert found is not None
    np.testing.assert_array_equal(found[1][0] * at_point(found[0], {}, at_), arrays[0])  # of 3 rows, as there


@for_rows("make", NO_CONSTANTS.values(), ids=NO_CONSTANTS)
def test_constants_that_have_none(make: Callable[[int], Any]) -> None:
    arrays = [np.asarray(make(n), dtype=float) for n in LENGTHS]
    assert name_constant_array(tuple(fresh_index("n") for _ in range(arrays[0].ndim)), arrays) is None


SOURCE = """
import numpy as np

def mixed(x, y):
    z = np.exp(y)
    first = np.median(x)
    return first + np.sum(z)

def looped(x):
    h = x
    for _ in range(len(x)):
        h = np.tanh(h)
    return np.sum(h)

def written(x):
    out = np.zeros(3)
    out[1] = x
    return np.sum(out**2)
"""
# fmt: off
REFUSED = [
    # function                                            by   says                                                        where
    ("sum(y) + sum(i0e(x))",       "x: n; y: n",          "x", "i0e has no closed form here",                              "i0e(x)"),
    ("sum(x*arange(3))",           "x: 3",                "x", "an array of constants has no formula",                     "x*arange(3)"),
    ("sum(x[::2])",                "x: n",                "x", "an axis has a length that is no named size",               "x[::2]"),
    ("mixed",                      "x: n; y: n",          "x", "an index that depends on the values",                      "first = np.median(x)"),
    ("looped",                     "x: n",                "x", "the program is another one at another size",               "h = np.tanh(h)"),
    ("written",                    "x: ",                 "x", "an assignment to a part of an array has no formula",         "out[1] = x"),
]
# fmt: on


@pytest.mark.parametrize(("f", "shapes", "wrt", "says", "source"), REFUSED)
def test_refusals_name_the_operation_and_the_line(
    gradcli: Callable[..., Any], tmp_path: Path, f: str, shapes: str, wrt: str, says: str, source: str
) -> None:
    (tmp_path / "mine.py").write_text(SOURCE)
    target = f"{tmp_path}/mine.py:{f}" if f.isidentifier() else f
    ran = gradcli("derive", target, "--shapes", shapes, "--json")
    found = next(x for x in ran.json["findings"] if x["message"].startswith(f"by {wrt}: "))
    assert ran.exit_status == 3 and says in found["message"] and found["source"] == source and found["hint"]
    assert source in " ".join(gradcli("derive", target, "--shapes", shapes).stdout.split())


def test_what_can_be_derived_beside_a_refusal_is_shown(gradcli: Callable[..., Any]) -> None:
    ran = gradcli("derive", "sum(y**2) + sum(i0e(x))", "--shapes", "x: n; y: n", "--json")
    assert [r["wrt"] for r in ran.json["results"]] == ["y"] and ran.exit_status == 3


def test_places_beyond_three(gradcli: Callable[..., Any]) -> None:
    """A size must be larger than the places that f names."""
    ran = gradcli("derive", "x[6]*sum(x[2:8]**2)", "--shapes", "x: n", "--json")
    assert ran.exit_status == 0 and min(s["n"] for s in ran.json["results"][0]["check"]["sizes"]) > 7


def test_an_axis_of_length_one_stays(gradcli: Callable[..., Any]) -> None:
    for shapes, wrt in (("X: m 1; w: 1", "w"), ("X: m 1; w: 1", "X")):
        assert gradcli("derive", "sum((X@w)**2)", "--shapes", shapes, "--wrt", wrt).exit_status == 0


def _attention(Q: Any, K: Any, V: Any, R: Any) -> Any:
    n, d = Q.shape
    S = Q @ K.T / np.sqrt(d)
    S[np.tril(np.ones((n, n))) == 0] = -np.inf
    E = np.exp(S - S.max(axis=1, keepdims=True))
    P = E / E.sum(axis=1, keepdims=True)
    return np.sum(R * (P @ V))


def test_an_assignment_by_a_mask_is_a_choice_and_a_shift_a_constant() -> None:
    (result,) = package.derive(_attention, shapes=dict.fromkeys("QKVR", "n d"), wrt="Q").results
    assert result.formula.unicode.endswith("∂f/∂Q = ((R Vᵀ - (R ∘ (P V)) 𝟏 𝟏ᵀ) ∘ P) K / √d")
    assert "∞" in result.formula.unicode and result.check.finite
    assert any("the shift max_rows(" in (step.condition or "") for step in result.steps)
