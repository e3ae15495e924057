"""Draws that look like what networks see: what their entries are, and what they refuse."""

import numpy as np
import pytest

from gradcli.errors import BadPoint
from gradcli.targets.draws import BY_SIZE, MOST_CLASSES
from gradcli.targets.points import read_points
from tests.rows import for_rows

NAMES = ("student", "outliers", "trained", "zipf", "onehots", "ragged", "causal")
# fmt: off
MADE = [  # the text, its shape, and whether it is integers
    ("student(5, 3)",       (3,),      False),
    ("student(1.5, 3, 4)",  (3, 4),    False),
    ("student(5, [3, 4])",  (3, 4),    False),
    ("outliers(4)",         (4,),      False),
    ("outliers(2, 3, 4)",   (2, 3, 4), False),
    ("trained(3, 4)",       (3, 4),    False),
    ("he(3, 4)",            (3, 4),    False),
    ("xavier(3, 4)",        (3, 4),    False),
    ("trained((3, 4))",     (3, 4),    False),
    ("0.02*trained(1, 1)",  (1, 1),    False),
    ("zipf(5, 3)",          (3,),      True),
    ("zipf(1, 3, 4)",       (3, 4),    True),
    ("onehots(3, 4)",       (3, 4),    False),
    ("ragged(3, 4)",        (3, 4),    True),
    ("ragged(1, 1)",        (1, 1),    True),
    ("causal(3)",           (3, 3),    True),
]
REFUSED = [
    ("trained()",           "trained cannot be computed: no size is given",                      "write trained(3, 4)"),
    ("trained(3, 0)",       "trained cannot be computed: a size is 0",                           "write trained(3, 4)"),
    ("trained(-1)",         "trained cannot be computed: a size is negative",                    "write trained(3, 4)"),
    ("trained(2.5)",        "trained cannot be computed: 2.5 is not a whole number",             "write trained(3, 4)"),
    ("trained(n=3)",        "trained cannot take these arguments",                               "write trained(3, 4)"),
    ("outliers()",          "outliers cannot be computed: no size is given",                     "write outliers(3, 4)"),
    ("outliers(0)",         "outliers cannot be computed: a size is 0",                          "write outliers(3, 4)"),
    ("student(5)",          "student cannot be computed: no size is given",                      "write student(df, 3, 4)"),
    ("student(5, 0)",       "student cannot be computed: a size is 0",                           "write student(df, 3, 4)"),
    ("student(0.5, 3)",     "student cannot be computed: df is 0.5, not a finite number of 1 or more", "write student(df, 3, 4)"),
    ("student(inf, 3)",     "student cannot be computed: df is inf, not a finite number of 1 or more", "write student(df, 3, 4)"),
    ("student(nan, 3)",     "student cannot be computed: df is nan, not a finite number of 1 or more", "write student(df, 3, 4)"),
    ("student([1, 2], 3)",  "student cannot take these arguments",                               "write student(df, 3, 4)"),
    ("zipf(5)",             "zipf cannot be computed: no size is given",                         "write zipf(k, 3, 4)"),
    ("zipf(5, 0)",          "zipf cannot be computed: a size is 0",                              "write zipf(k, 3, 4)"),
    ("zipf(0, 3)",          "zipf cannot be computed: k is 0, not 1 to 16,777,216",              "write zipf(k, 3, 4)"),
    ("zipf(-2, 3)",         "zipf cannot be computed: k is -2, not 1 to 16,777,216",             "write zipf(k, 3, 4)"),
    ("zipf(2**24 + 1, 3)",  "zipf cannot be computed: k is 16,777,217, not 1 to 16,777,216",     "write zipf(k, 3, 4)"),
    ("zipf(2.5, 3)",        "zipf cannot be computed: 2.5 is not a whole number",                "write zipf(k, 3, 4)"),
    ("onehots(3)",          "onehots cannot take these arguments",                               "write onehots(rows, n)"),
    ("onehots(0, 3)",       "onehots cannot be computed: a size is 0",                           "write onehots(rows, n)"),
    ("ragged(3)",           "ragged cannot take these arguments",                                "write ragged(rows, n)"),
    ("ragged(3, 0)",        "ragged cannot be computed: a size is 0",                            "write ragged(rows, n)"),
    ("causal()",            "causal cannot take these arguments",                                "write causal(3)"),
    ("causal(0)",           "causal cannot be computed: a size is 0",                            "write causal(3)"),
]
# fmt: on


def drawn(text: str, seed: int = 0) -> np.ndarray:
    return read_points([f"x={text}"], seed)[0]["x"]


def scales(x: np.ndarray) -> np.ndarray:
    """Return the median size of each channel."""
    return np.median(np.abs(x), axis=0)


@for_rows(("text", "shape", "is_whole"), MADE)
def test_a_draw_has_its_shape_and_its_kind(text: str, shape: tuple[int, ...], is_whole: bool) -> None:
    x = drawn(text)
    assert (x.shape, x.dtype) == (shape, np.dtype(int if is_whole else float)) and np.all(np.isfinite(x))


@for_rows("text", ["student(3, 9)", "outliers(9)", "trained(9)", "zipf(99, 9)", "onehots(9, 9)", "ragged(9, 9)"])  # fmt: skip
def test_a_draw_depends_on_the_seed_the_name_and_the_point_alone(text: str) -> None:
    first, second = read_points([f"x={text}, y={text}", f"x={text}"], 5)
    assert np.array_equal(first["x"], read_points([f"x={text}"], 5)[0]["x"])
    assert not any(np.array_equal(first["x"], other) for other in (first["y"], second["x"], drawn(text, 6)))


def test_tails_are_heavier_for_fewer_degrees_of_freedom() -> None:
    least, more, normal = (
        np.mean(np.abs(drawn(text)) > 6) for text in ("student(1, 9999)", "student(5, 9999)", "randn(9999)")
    )
    assert least > 0.05 > more > normal == 0  # of Cauchy's draws 0.105, of 5 degrees of freedom 0.0018


def test_one_channel_in_a_hundred_is_an_outlier() -> None:
    found = scales(drawn("outliers(999, 300)"))
    large = found > 5
    assert large.sum() == 3 and np.all(found[large] < 100)
    assert np.all((found[~large] > 0.5) & (found[~large] < 0.9))  # 0.67 is the median of a normal draw's size


def test_every_array_has_an_outlier_channel() -> None:
    assert (scales(drawn("outliers(999, 4)")) > 5).sum() == (scales(drawn("outliers(999, 4)", 1)) > 5).sum() == 1


def test_a_trained_array_has_outlier_channels_means_and_heavy_tails() -> None:
    x = drawn("trained(9999, 200)")
    centre, spread = np.median(x, axis=0), np.median(np.abs(x - np.median(x, axis=0)), axis=0)
    assert (spread > 5).sum() == 2 and np.sum(spread < 1) == 198
    scale = spread / 0.727  # the median size of a draw from Student's t with 5 degrees of freedom
    assert 0.8 < np.std(centre / scale) < 1.2
    assert np.mean(np.abs(x - centre) > 6 * scale) > 1e-3


def test_small_integers_are_the_most_frequent_by_zipfs_law() -> None:
    counts = np.bincount(drawn("zipf(100, 99999)"), minlength=100)
    expected = 99999 / np.arange(1, 101) / np.sum(1 / np.arange(1, 101))
    assert len(counts) == 100 and np.all(np.abs(counts - expected) < 5 * np.sqrt(expected))


def test_the_most_classes_are_allowed() -> None:
    x = drawn(f"zipf({MOST_CLASSES}, 3)")
    assert np.all((x >= 0) & (x < MOST_CLASSES))


def test_one_hot_rows_have_one_entry_drawn_evenly() -> None:
    x = drawn("onehots(4000, 4)")
    assert np.all(np.sort(x, axis=1) == [0, 0, 0, 1])
    assert np.all(np.abs(x.sum(axis=0) - 1000) < 140)  # five standard deviations


@for_rows("seed", range(20))
def test_rows_of_a_ragged_mask_begin_with_an_entry_and_one_is_full(seed: int) -> None:
    mask = drawn("ragged(5, 7)", seed)
    lengths = mask.sum(axis=1)
    assert lengths.min() >= 1 and lengths.max() == 7
    assert np.array_equal(mask, np.arange(7) < lengths[:, None])


def test_ragged_rows_have_many_lengths() -> None:
    assert set(drawn("ragged(200, 7)").sum(axis=1)) == set(range(1, 8))


def test_a_causal_mask_is_lower_triangular() -> None:
    assert drawn("causal(3)").tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]


@for_rows(("text", "what", "do"), REFUSED)
def test_a_bad_draw_says_what_where_and_what_to_do(text: str, what: str, do: str) -> None:
    with pytest.raises(BadPoint) as caught:
        drawn(f"2*{text}")
    where = caught.value.where
    assert (caught.value.what, caught.value.do, where and where.source) == (what, do, text)


@for_rows("name", NAMES)
def test_every_draw_of_this_file_refuses_something(name: str) -> None:
    assert name in BY_SIZE and any(text.startswith(f"{name}(") for text, _, _ in REFUSED)


def test_integers_are_passed_as_such_and_not_differentiated(gradcli, tmp_path) -> None:
    (tmp_path / "words.py").write_text(
        "import numpy as np\n"
        "def pooled(W, words, mask): return np.sum(np.sum(W[words], axis=2)*mask)\n"
        "def twice(W, words, mask):\n    g = np.zeros_like(W)\n    g[words] = mask[..., None]\n    return g\n"
    )
    at = ("--at", "W=trained(9, 4), words=zipf(9, 3, 5), mask=ragged(3, 5)", "--modes", "reverse,fd", "--json")
    point = gradcli("check", f"{tmp_path}/words.py:pooled", *at).json["points"][0]
    assert (point["differentiated"], point["constant"], point["verdict"]) == (["W"], ["words", "mask"], "pass")
    wrong = gradcli("check", f"{tmp_path}/words.py:pooled", *at, "--grad", "twice")  # repeated words are counted once
    assert wrong.exit_status == 1
