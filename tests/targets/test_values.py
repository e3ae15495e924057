"""What a point can say: numbers, lists, constructors, seeded draws, and data files that never speak in messages."""

import json
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradcli.errors import BadPoint, GradcliError, TooLarge
from gradcli.targets.draws import Whole
from gradcli.targets.missing import MAX_FILE_BYTES
from gradcli.targets.points import (
    as_input,
    draw_value,
    parse_assignments,
    parse_value,
    read_array_file,
    read_point_file,
)
from tests.rows import for_rows

SECRET = "hunter2"

# fmt: off
CONSTANTS = [
    ("0.5",               0.5),            ("-1/3",             -1 / 3),         ("2*pi",             2 * np.pi),
    ("e",                 np.e),           ("-inf",             -np.inf),        ("nan",              np.nan),
    ("2^3",               8.0),            ("2**-1",            0.5),            ("-2^2",             -4.0),
    ("+3",                3.0),            ("1e-3",             1e-3),           ("int(3)",           3),
    ("int(-6/2)",         -3),             ("1_000",            1000.0),         ("(1 + 2)*3 - 4",    5.0),
    ("[1, 2, 3]",         [1, 2, 3]),      ("[[1, 2], [3, 4]]", [[1, 2], [3, 4]]), ("[1/2, 2*pi]",    [0.5, 2 * np.pi]),
    ("2*[1, 2]",          [2, 4]),         ("-[1, 2] + 1",      [0, -1]),        ("[1, 2]**2",        [1, 4]),
    ("[ones(2), zeros(2)]", [[1, 1], [0, 0]]), ("2*eye(2) + 1", [[3, 1], [1, 3]]), ("[-1]",             [-1]),
]
CONSTRUCTED = [
    ("zeros(3)",           np.zeros(3)),          ("zeros((2, 3))",      np.zeros((2, 3))),   ("zeros(2, 3)",        np.zeros((2, 3))),
    ("ones(2)",            np.ones(2)),           ("ones((2, 1))",       np.ones((2, 1))),    ("ones(2, 3)",         np.ones((2, 3))),
    ("zeros()",            0.0),                  ("full(0.5, 3)",       np.full(3, 0.5)),    ("full(0.5, 2, 3)",    np.full((2, 3), 0.5)),
    ("full((2, 3), 0.5)",  np.full((2, 3), 0.5)), ("full([2], 0.5)",    np.full(2, 0.5)),    ("ones(shape=(2, 1))", np.ones((2, 1))),
    ("linspace(0, 1, 5)",  np.linspace(0, 1, 5)), ("linspace(0, 1)",     np.linspace(0, 1)),  ("linspace(0, 1, num=3)", np.array([0, 0.5, 1])),
    ("arange(4)",          np.arange(4.0)),       ("arange(1, 4)",       np.arange(1.0, 4)),  ("arange(0, 1, 0.25)", np.arange(0, 1, 0.25)),
    ("eye(3)",             np.eye(3)),            ("identity(2)",        np.eye(2)),          ("onehot(1, 3)",       np.eye(3)[1]),
]
DRAWS = [
    ("randn()",               ()),     ("randn(3)",              (3,)),   ("randn(3, 4)",           (3, 4)), ("randn((3, 4))",  (3, 4)),
    ("randn([3, 4])",         (3, 4)), ("rand(5)",               (5,)),   ("rand()",                ()),     ("uniform(2, 3)",  ()),
    ("uniform(2, 3, 4)",      (4,)),   ("uniform(2, 3, 4, 5)",   (4, 5)), ("spd(3)",                (3, 3)), ("spd(1)",         (1, 1)),
    ("uniform(2, 3, size=4)", (4,)),   ("uniform(2, high=3, size=(4, 5))", (4, 5)), ("randn(size=3)", (3,)), ("uniform(low=2, high=3)", ()),
]
# fmt: on


@for_rows(("text", "expected"), CONSTANTS + CONSTRUCTED)
def test_value(text, expected):
    found = as_input("x", parse_value(text, "x"))
    assert found.dtype == np.float64 and np.shape(found) == np.shape(expected)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("text", "expected"), [("'sum'", "sum"), ('"a, b"', "a, b"), ("['a', 'b']", ["a", "b"])])
def test_a_string_stays_a_string(text, expected):
    assert parse_assignments(f"mode={text}") == {"mode": expected}


def test_only_int_makes_an_integer():
    found = parse_assignments("n=int(3), x=3.0")
    assert (found, type(found["n"])) == ({"n": 3, "x": 3.0}, Whole)


@settings(max_examples=60, deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_float_is_read_back(x):
    assert parse_assignments(f"x={x!r}")["x"] == x


# Draws.


@for_rows(("text", "shape"), DRAWS)
def test_a_draw_has_the_shape_asked_for(text, shape):
    assert np.shape(parse_value(text, "x")) == shape


@for_rows("text", [text for text, _ in DRAWS])
def test_the_same_seed_draws_the_same(text):
    np.testing.assert_array_equal(parse_value(text, "x", seed=7), parse_value(text, "x", seed=7))


@for_rows(
    ("one", "other"),
    [
        (("x", 0, 0), ("y", 0, 0)),
        (("x", 0, 0), ("x", 1, 0)),
        (("x", 0, 0), ("x", 0, 1)),
        (("x", 1, 0), ("x", 0, 1)),
        (("plumless", 0, 0), ("buckeroo", 0, 0)),  # two names of the same CRC-32
    ],
)
def test_another_name_seed_or_point_draws_something_else(one, other):
    assert not np.any(parse_value("randn(9)", *one) == parse_value("randn(9)", *other))


def test_another_input_changes_no_draw():
    alone = parse_assignments("x=randn(4)", seed=3)
    among = parse_assignments("a=rand(2), x=randn(4), b=randn(4)", seed=3)
    assert np.array_equal(alone["x"], among["x"])
    assert not np.any(among["x"] == among["b"])


def test_two_draws_in_one_value_differ():
    first, second = parse_value("[randn(3), randn(3)]", "x")
    assert not np.any(first == second)


def test_draws_come_from_their_distributions():
    assert abs(np.mean(parse_value("randn(10_000)", "x"))) < 0.05  # five standard errors of the mean
    uniform = parse_value("uniform(2, 3, 1000)", "x")
    assert 2 <= uniform.min() < 2.1 and 2.9 < uniform.max() < 3
    assert 0 <= parse_value("rand(1000)", "x").min() < 0.1
    a = parse_value("spd(6)", "x")
    assert np.array_equal(a, a.T) and np.linalg.eigvalsh(a).min() > 0


@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
def test_what_gradcli_draws_itself_has_the_shape_and_is_repeatable(shape):
    first = draw_value("x", shape, 0, 0, 0)
    assert np.shape(first) == shape and first.dtype == np.float64
    assert np.array_equal(first, draw_value("x", shape, 0, 0, 0))
    assert not np.any(first == draw_value("y", shape, 0, 0, 0))


@pytest.mark.parametrize(("attempt", "low", "high"), [(1, 0.1, 0.9), (2, 1.1, 3.0)])
def test_later_attempts_draw_from_parts_of_the_line(attempt, low, high):
    x = draw_value("x", (50,), 0, 0, attempt)
    assert low <= x.min() and x.max() <= high


# Refusals.

READS = "write a number, a list, a string or randn(3, 4)"
# fmt: off
#    text                  what is wrong                                        what to do                                 the text under the carets
REFUSED = [
    ("x=1, x=2",           "'x' is given twice",                                "leave one out",                           "x"),
    ("y=1, \u00b5=1, \u03bc=2", "'\u03bc' is given twice",                      "leave one out",                           "\u03bc"),
    ("x=1, 2",             "a point names its values",                          "a list has brackets: x=[1, 2]",           "2"),
    ("y=3, q=1, -0.2,.5e-1, t=2", "a point names its values",                   "a list has brackets: q=[1, -0.2, .5e-1]", "-0.2"),
    ("x=1, y",             "a point names its values",                          "write x=0.5, y=[1, 2]",                   "y"),
    ("1, 2",               "a point names its values",                          "write x=0.5, y=[1, 2]",                   "1"),
    ("x=tril(3)",          "unknown function 'tril' in a value",                "a mask of 1 on and below the diagonal is causal(4)", "tril"),
    ("y=randint(3)",       "unknown function 'randint' in a value",
     "whole numbers below k are zipf(k, 3, 4), those of a mask zipf(2, 3, 4); or write int([0, 2, 1])",                   "randint"),
    ("x=np.array([1, 2])", "this is no value",                                  "write the list alone: [1, 2]",            "np.array([1, 2])"),
    ("x=np.random.randn(3)", "this is no value",                                "write randn(...) alone",                  "np.random.randn(3)"),
    ("x=foo",              "unknown value 'foo'",                               "values are numbers, lists, strings, pi, e, inf and randn(...), zeros(...)", "foo"),
    ("x=sin(1)",           "unknown function 'sin' in a value",                 "write the numbers",                       "sin"),
    ("x=abs(randn(3))",    "unknown function 'abs' in a value",                 "positive numbers are uniform(0.1, 3, 3, 4)", "abs"),
    ("x=[0.5]*4",          "this has two meanings: copies in Python, and a product of an array",
     "write full(0.5, 4) for 4 copies, or [4*0.5] for a product",                                                        "[0.5]*4"),
    ("x=1, y=rendn(3)",    "unknown function 'rendn' in a value",               "did you mean 'randn'?",                   "rendn"),
    ("x=1/0",              "this value cannot be computed: division by zero",   "write the number",                        "1/0"),
    ("x='a' + 'b'",        "arithmetic needs numbers",                          "write the values out",                    "'a'"),
    ("x=True + 1",         "arithmetic needs numbers",                          "write the values out",                    "True"),
    ("x=2*(1, 2)",         "arithmetic needs numbers",                          "write the values out",                    "(1, 2)"),
    ("x=[[1, 2], [3]]",    "the rows of this list have different lengths",      "make all rows equally long",              "[[1, 2], [3]]"),
    ("x=sin.y",            "this is no value",                                  READS,                                     "sin.y"),
    ("x=1 < 2",            "this is no value",                                  READS,                                     "1 < 2"),
    ("x=(1)(2)",           "this is no value",                                  READS,                                     "(1)(2)"),
    ("x=1 /* 2",           "this value cannot be read",                         "write a number, a list or randn(3, 4)",   "1 /* 2"),
]
# fmt: on


@for_rows(("text", "what", "do", "under"), REFUSED)
def test_a_bad_value_says_what_where_and_what_to_do(text, what, do, under):
    with pytest.raises(BadPoint) as caught:
        parse_assignments(text)
    assert (caught.value.what, caught.value.do, caught.value.where.source) == (what, do, under)


@for_rows(
    ("text", "under"),
    [("randn(-1)", "randn(-1)"), ("2*eye('a')", "eye('a')"), ("zeros(nan)", "zeros(nan)"), ("randn(inf)", "randn(inf)")]
    + [(text, text) for text in ("int('a')", "int([1.5, 2])", "eye(3, k=1)", "uniform(1)", "uniform(0, 1, mode=2)", "randn(3, size=2)", "spd()", "arange()", "linspace(0)")]
    + [(text, text) for text in ("zeros(2.5)", "randn(2.5)", "eye(1.5)", "onehot(3, 3)", "onehot(-1, 3)", "onehot(0.5, 3)")]
    + [(text, text) for text in ("arange(0, 1, 0)", "uniform(0, inf, 2)", "zeros(3, **y)", "zeros('3')")],
)  # fmt: skip
def test_a_bad_constructor_is_refused_at_its_place(text, under):
    with pytest.raises(BadPoint) as caught:
        parse_assignments(f"x={text}")
    assert caught.value.where.source == under
    assert "lambda" not in caught.value.what


LONG = "1" + "0" * 399


@for_rows("text", [f"[{LONG}]", f"{LONG}**2", f"2**{LONG}", f"{LONG}*0.5", f"zeros({LONG})", f"-[{LONG}]"])
def test_numbers_beyond_float64_are_refused(text):
    with pytest.raises(GradcliError):
        parse_assignments(f"x={text}")


@for_rows("x", ["abc", [1, "a"], 1j, [1j], None, 10**400, {}, [None]])
def test_an_input_that_is_not_real_is_refused(x):
    with pytest.raises(BadPoint, match="x is not a number or an array of numbers"):
        as_input("x", x)


@for_rows("x", [3, True, 0.5, np.float32(0.5), np.int8(3), [1, 2], [[True]], np.arange(3)])
def test_an_input_is_float64_of_its_own(x):
    found = as_input("x", x)
    assert found.dtype == np.float64 and np.array_equal(found, x)
    assert isinstance(found, np.float64 if np.ndim(x) == 0 else np.ndarray)


PIECES = [
    "x=", ",", "y=", "[", "]", "(", ")", "1", "0.5", "-", "+", "*", "**", "^", "/", "'a'", "pi", "nan", "inf", "2", "=", ";", ".",
    "randn(", "zeros(", "eye(", "full(", "linspace(", "arange(", "onehot(", "spd(", "int(", "uniform(", "num=",
    "student(", "outliers(", "trained(", "zipf(", "onehots(", "ragged(", "causal(", "@", " ", "\u00b5",
]  # fmt: skip


@pytest.mark.slow
@settings(max_examples=600, deadline=None)
@given(st.text(max_size=30).map("x={}".format) | st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
def test_garbage_raises_only_our_errors(text):
    try:
        parse_assignments(text)
    except GradcliError as error:
        assert error.what


# Files.

TABLE = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.5]])


@pytest.fixture(name="here", autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(name, content):
    Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())


def saved(name, x):
    np.save(name, x, allow_pickle=True)


def header(shape, descr="'<f8'", data=b""):
    """An .npy file of any header."""
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + data


# fmt: off
FILES = [
    (lambda: saved("f.npy", TABLE),                                    "x=@f.npy",          TABLE),
    (lambda: saved("f.npy", TABLE.T),                                  "x=@f.npy",          TABLE.T),
    (lambda: saved("f.npy", np.arange(3)),                             "x=@f.npy",          [0, 1, 2]),
    (lambda: saved("f.npy", np.float32(0.5)),                          "x=@f.npy",          0.5),
    (lambda: saved("f.NPY.npy", TABLE),                                "x = @f.NPY.npy",    TABLE),
    (lambda: np.savez("f.npz", x=TABLE, y=1.0),                        "x=@f.npz",          TABLE),
    (lambda: np.savez("f.npz", x=TABLE, y=1.0),                        "x=@f.npz:y",        1.0),
    (lambda: np.savez_compressed("f.npz", x=TABLE),                    "x=@f.npz",          TABLE),
    (lambda: write("f.json", "[[1, 2], [3, 4]]"),                      "x=@f.json",         [[1, 2], [3, 4]]),
    (lambda: write("f.json", '{"x": [1, 2], "y": 3}'),                 "x=@f.json",         [1, 2]),
    (lambda: write("f.json", '{"x": [1, 2], "y": 3}'),                 "x=@f.json:y",       3.0),
    (lambda: write("f.json", '{"x": "-inf"}'),                         "x=@f.json",         -np.inf),
    (lambda: write("f.json", '{"x": [[1, "inf"], ["nan", 2]]}'),       "x=@f.json",         [[1, np.inf], [np.nan, 2]]),
    (lambda: write("f.csv", "1,2,3\n4,5,6.5\n"),                       "x=@f.csv",          TABLE),
    (lambda: write("f.csv", "1\n2\n3"),                                "x=@f.csv",          [1, 2, 3]),
    (lambda: write("f.csv", "1,2,3\n"),                                "x=@f.csv",          [[1, 2, 3]]),
]
# fmt: on


@for_rows(("make", "text", "expected"), FILES)
def test_a_file_is_read(make, text, expected):
    make()
    found = as_input("x", parse_assignments(text)["x"])
    assert np.shape(found) == np.shape(expected)
    np.testing.assert_array_equal(found, expected)


@for_rows(
    "text", ["x=@f.npy, y=2", "y=2, x=@f.npy", "y = 2 ,x = @f.npy", "y=2; x=@f.npy", "x=@f.npy; y=2", "y=2\nx=@f.npy"]
)
def test_a_file_stands_beside_other_values(text):
    saved("f.npy", TABLE)
    found = parse_assignments(text)
    assert found["y"] == 2 and np.array_equal(found["x"], TABLE)


@pytest.mark.parametrize("text", ["x=@f.npy, x=2", "x=2, x=@f.npy", "x=@f.npy, x=@f.npy"])
def test_a_file_cannot_name_an_input_again(text):
    saved("f.npy", TABLE)
    with pytest.raises(BadPoint, match="'x' is given twice"):
        parse_assignments(text)


def test_an_at_sign_in_a_string_names_no_file():
    assert parse_assignments("s='a, x=@f.npy'") == {"s": "a, x=@f.npy"}


def pickled():
    saved("f.npy", np.array([{SECRET: SECRET}], dtype=object))


def truncated(name, keep, **options):
    (np.savez_compressed if options else np.savez)(name, x=np.arange(1000.0))
    content = Path(name).read_bytes()
    write(name, content[: int(len(content) * keep)])


def damaged(name):
    np.savez_compressed(name, x=np.arange(1000.0))
    content = bytearray(Path(name).read_bytes())
    content[100:400] = bytes(b ^ 0xFF for b in content[100:400])
    write(name, bytes(content))


def zipped(name, member, content):
    with zipfile.ZipFile(name, "w") as archive:
        archive.writestr(member, content)


# fmt: off
#    what lies there                                                              value          what is wrong
UNREADABLE = [
    (lambda: None,                                                                "x=@f.npy",    "there is no file f.npy"),
    (lambda: None,                                                                "x=@f.npz:y",  "there is no file f.npz"),
    (lambda: Path("f.npy").mkdir(),                                                   "x=@f.npy",    "f.npy is not a regular file"),
    (lambda: os.mkfifo("f.npy"),                                                  "x=@f.npy",    "f.npy is not a regular file"),
    (lambda: write("f.txt", SECRET),                                              "x=@f.txt",    "f.txt is not a kind of file gradcli reads"),
    (lambda: write("f", SECRET),                                                  "x=@f",        "f is not a kind of file gradcli reads"),
    (lambda: write("f.npy", SECRET),                                              "x=@f.npy",    "f.npy cannot be read as npy data"),
    (lambda: write("f.npy", ""),                                                  "x=@f.npy",    "f.npy cannot be read as npy data"),
    (pickled,                                                                     "x=@f.npy",    "f.npy holds something other than real numbers"),
    (lambda: saved("f.npy", np.array([SECRET])),                                  "x=@f.npy",    None),
    (lambda: saved("f.npy", np.zeros(2, dtype=[(SECRET, "f8")])),                 "x=@f.npy",    None),
    (lambda: saved("f.npy", np.ones(2) * 1j),                                     "x=@f.npy",    "f.npy holds something other than real numbers"),
    (lambda: write("f.npy", header("(100,)", data=b"\0" * 799)),                  "x=@f.npy",    "f.npy cannot be read as npy data"),
    (lambda: write("f.npy", header("(2,)", descr=f"'{SECRET}'")),                 "x=@f.npy",    "f.npy cannot be read as npy data"),
    (lambda: write("f.npy", header(f"({SECRET},)")),                              "x=@f.npy",    "f.npy cannot be read as npy data"),
    (lambda: write("f.npy", header("(-3,)", data=b"\0" * 24)),                    "x=@f.npy",    "f.npy cannot be read as npy data"),
    (lambda: write("f.npy", b"\x93NUMPY\x09\x09" + SECRET.encode()),              "x=@f.npy",    "f.npy cannot be read as npy data"),
    (lambda: np.savez("f.npz", y=1.0),                                            "x=@f.npz",    "f.npz has no array 'x'"),
    (lambda: np.savez("f.npz", x=np.array([SECRET], dtype=object)),               "x=@f.npz",    "f.npz holds something other than real numbers"),
    (lambda: write("f.npz", SECRET),                                              "x=@f.npz",    "f.npz cannot be read as npz data"),
    (lambda: write("f.npz", "PK\x03\x04" + SECRET),                               "x=@f.npz",    "f.npz cannot be read as npz data"),
    (lambda: saved("f.npz.npy", TABLE) or Path("f.npz.npy").rename("f.npz"),        "x=@f.npz",    "f.npz cannot be read as npz data"),
    (lambda: truncated("f.npz", 0.5),                                             "x=@f.npz",    "f.npz cannot be read as npz data"),
    (lambda: truncated("f.npz", 0.9, compressed=True),                            "x=@f.npz",    "f.npz cannot be read as npz data"),
    (lambda: damaged("f.npz"),                                                    "x=@f.npz",    "f.npz cannot be read as npz data"),
    (lambda: zipped("f.npz", "x.npy", header("(3,)")),                            "x=@f.npz",    "f.npz cannot be read as npz data"),
    (lambda: zipped("f.npz", "x", SECRET),                                        "x=@f.npz",    "f.npz cannot be read as npz data"),
    (lambda: write("f.json", SECRET),                                             "x=@f.json",   "f.json cannot be read as json data"),
    (lambda: write("f.json", b"\xff\xfe"),                                        "x=@f.json",   "f.json cannot be read as json data"),
    (lambda: write("f.json", '{"y": 1}'),                                         "x=@f.json",   None),
    (lambda: write("f.json", f'"{SECRET}"'),                                      "x=@f.json",   None),
    (lambda: write("f.json", f'["{SECRET}", 1]'),                                 "x=@f.json",   "f.json holds something other than real numbers"),
    (lambda: write("f.json", "[[1, 2], [3]]"),                                    "x=@f.json",   "f.json cannot be read as json data"),
    (lambda: write("f.json", "[" * 100_000),                                      "x=@f.json",   "f.json cannot be read as json data"),
    (lambda: write("f.json", "[" * 100 + "1" + "]" * 100),                        "x=@f.json",   "f.json cannot be read as json data"),
    (lambda: write("f.json", "null"),                                             "x=@f.json",   "f.json holds something other than real numbers"),
    (lambda: write("f.json", "9" * 500),                                          "x=@f.json",   "f.json holds something other than real numbers"),
    (lambda: write("f.csv", f"{SECRET},1\n2,3\n"),                                "x=@f.csv",    "f.csv cannot be read as csv data"),
    (lambda: write("f.csv", "1,2\n3\n"),                                          "x=@f.csv",    "f.csv cannot be read as csv data"),
    (lambda: write("f.csv", b"\xff\xfe1"),                                        "x=@f.csv",    "f.csv cannot be read as csv data"),
    (lambda: write("f.csv", ""),                                                  "x=@f.csv",    "f.csv cannot be read as csv data"),
    (lambda: None,                                                                "x=@" + "f" * 300 + ".npy", None),
    (lambda: None,                                                                "x=@f\0.npy",  None),
]
# fmt: on


def sentences(error):
    return " ".join([error.what, error.do or "", error.where.text if error.where else ""])


@pytest.mark.parametrize("row", range(len(UNREADABLE)))
def test_a_file_that_cannot_be_used_is_refused_and_not_quoted(row):
    make, text, what = UNREADABLE[row]
    make()
    with pytest.raises(BadPoint) as caught:
        parse_assignments(text)
    assert what in (None, caught.value.what)
    assert caught.value.do
    assert SECRET not in sentences(caught.value)


@for_rows("shape", ["(134217729,)", "(1099511627776, 1099511627776)"])
@for_rows("ending", ["npy", "npz"])
def test_a_header_that_asks_for_too_much_is_refused_before_allocation(shape, ending):
    content = header(shape)
    write("f.npy", content) if ending == "npy" else zipped("f.npz", "x.npy", content)
    with pytest.raises(TooLarge, match=rf"f\.{ending} holds more than 134,217,728 entries"):
        read_array_file(f"@f.{ending}", "x")


def test_a_file_over_the_size_limit_is_refused():
    with Path("f.csv").open("wb") as stream:
        stream.truncate(MAX_FILE_BYTES + 1)  # sparse: takes no space
    with pytest.raises(TooLarge, match=r"f\.csv is larger than 1,073,741,824 bytes"):
        read_array_file("@f.csv", "x")


def test_pickles_are_never_loaded():
    class Trap:
        def __reduce__(self):
            return os.mkdir, ("sprung",)

    saved("f.npy", np.array([Trap()], dtype=object))
    np.savez("f.npz", x=np.array([Trap()], dtype=object))
    for read in (
        lambda: read_array_file("@f.npy", "x"),
        lambda: read_array_file("@f.npz", "x"),
        lambda: read_point_file("@f.npz"),
    ):
        with pytest.raises(BadPoint):
            read()
    assert not Path("sprung").exists()


# Whole points.

REPORT = {"schema": "gradcli.check/3", "points": [{"at": {"x": 0.5, "y": [1, "inf"]}, "verdict": "pass"}]}


# fmt: off
@for_rows(
    ("make", "name", "expected"),
    [
        (lambda: np.savez("p.npz", x=TABLE, y=2.0),                         "p.npz",   {"x": TABLE, "y": 2.0}),
        (lambda: write("p.json", '{"x": 0.5, "y": [1, 2]}'),                "p.json",  {"x": 0.5, "y": [1, 2]}),
        (lambda: write("p.json", '{"at": {"x": 0.5}}'),                     "p.json",  {"x": 0.5}),
        (lambda: write("p.json", '{"x": "nan", "y": "-inf"}'),              "p.json",  {"x": np.nan, "y": -np.inf}),
        (lambda: write("p.json", json.dumps(REPORT)),                       "p.json",  {"x": 0.5, "y": [1, np.inf]}),
        (lambda: write("p.json", '{"\u00b5": 1}'),                          "p.json",  {"\u03bc": 1.0}),
        (lambda: zipped("p.npz", "\u00b5.npy", header("()", data=b"\0" * 8)),                      "p.npz",   {"\u03bc": 0.0}),
    ],
)
# fmt: on
def test_a_whole_point_is_read(make, name, expected):
    make()
    found = read_point_file(f"@{name}")
    assert found.keys() == expected.keys()
    for key, x in expected.items():
        np.testing.assert_array_equal(found[key], x)


@for_rows(
    ("name", "content"),
    [
        ("p.json", SECRET), ("p.json", "[1, 2]"), ("p.json", "3"), ("p.json", '{"points": []}'), ("p.json", '{"points": 3}'),
        ("p.json", f'{{"x": "{SECRET}"}}'), ("p.json", f'{{"at": ["{SECRET}"]}}'), ("p.json", b"\xff"), ("p.json", ""),
        ("p.json", '{"x": null}'), ("p.json", '{"x": [[1], [1, 2]]}'), ("p.npz", SECRET), ("p.npz", "PK\x03\x04"), ("p.npz", ""),
        ("p.npy", SECRET), ("p.csv", "1,2"), ("p", SECRET),
    ],
)  # fmt: skip
def test_a_file_without_a_point_is_refused_and_not_quoted(name, content):
    write(name, content)
    with pytest.raises(BadPoint) as caught:
        read_point_file(f"@{name}")
    assert caught.value.do
    assert SECRET not in sentences(caught.value)


def test_a_missing_point_is_refused():
    with pytest.raises(BadPoint, match=r"there is no file p\.npz"):
        read_point_file("@p.npz")
