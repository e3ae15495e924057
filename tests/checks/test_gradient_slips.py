"""Mistakes made to a gradient as a whole, or to some of its entries, each told by its kind and its words."""

from typing import Any

import numpy as np
import pytest

import gradcli
from tests.checks.planting import MODES, checked, diagnosis_of, named
from tests.rows import for_rows

RNG = np.random.default_rng(7)
X = RNG.normal(size=5)
A, B = RNG.normal(size=(3, 3)), RNG.normal(size=(3, 4))
S = A @ A.T + 3 * np.eye(3)
NAN = np.nan


def quintic(x: Any) -> Any:
    return np.sum(x**5 + np.cosh(x))


def d_quintic(x: Any) -> Any:
    return 5 * x**4 + np.sinh(x)


def square(a: Any) -> Any:
    return np.sum(np.exp(a) * a)


def d_square(a: Any) -> Any:
    return np.exp(a) * (1 + a)


def set_at(g: Any, at: Any, value: Any) -> Any:
    made = g.copy()
    made[at] = value
    return made


def mixed(g: Any, at: Any, how: Any) -> Any:
    return set_at(g, at, how(g[at]))


# fmt: off
ONE_VECTOR = [
    # what is made of the right gradient, kind, part of the message
    (lambda g: -g,                              "sign",      "the sign is flipped"),
    (np.abs,                                    "sign",      "the sign is lost"),
    (lambda g: mixed(g, [1, 3], lambda v: -v),  "sign",      "the sign is flipped in x[1], x[3]"),
    (lambda g: mixed(g, 2, lambda v: -v),       "sign",      "the sign is flipped in x[2]"),
    (lambda g: 2 * g,                           "factor",    "a factor 2 too large"),
    (lambda g: g / 2,                           "factor",    "a factor 2 too small"),
    (lambda g: -2 * g,                          "factor",    "a factor 2 too large, and the sign is flipped"),
    (lambda g: 5 * g,                           "factor",    "a factor 5 too large: a mean over axis 0 of x became a sum"),
    (lambda g: g / 5,                           "factor",    "a factor 5 too small"),
    (lambda g: g / 4,                           "factor",    "a factor 4 too small"),
    (lambda g: g * 5 / 4,                       "factor",    "a factor 5/4: n and n - 1 are mixed up (n counts axis 0 of x)"),
    (lambda g: g * 4 / 5,                       "factor",    "a factor 4/5: n and n - 1 are mixed up (n counts axis 0 of x)"),
    (lambda g: g * np.pi / 180,                 "factor",    "a factor pi/180: degrees for radians"),
    (lambda g: g * 180 / np.pi,                 "factor",    "a factor 180/pi: radians for degrees"),
    (lambda g: g * np.log(10),                  "factor",    "a factor ln 10: the base of a logarithm"),
    (lambda g: g / np.log(2),                   "factor",    "a factor 1/ln 2: the base of a logarithm"),
    (lambda g: g * np.sqrt(np.pi) / 2,          "factor",    "that of erf is missing"),
    (lambda g: g / (2 * np.pi),                 "factor",    "a factor 2 pi too small"),
    (lambda g: g / 365,                         "factor",    "a factor 365 too small: days of a year"),
    (lambda g: 1000 * g,                        "factor",    "a factor 1000 too large: a unit, such as kJ and J"),
    (lambda g: 1.01 * g,                        "scaled",    "every wrong entry is 1.01 times the right one"),
    (lambda g: (1 + 1e-6) * g,                  "scaled",    "1.000001 times the right one"),
    (lambda g: 0 * g,                           "detached",  "the gradient is zero"),
    (lambda g: mixed(g, slice(1, 4), lambda v: 0 * v), "detached", "in x[1], x[2], x[3]"),
    (lambda g: g[::-1],                         "permuted",  "reversed order"),
    (lambda g: -g[::-1],                        "permuted",  "reversed order, and the sign is flipped"),
    (lambda g: g[[1, 0, 2, 3, 4]],              "permuted",  "two entries are exchanged in x[0], x[1]"),
    (lambda g: g[[2, 0, 3, 4, 1]],              "permuted",  "right but in another order"),
    (lambda g: np.roll(g, 1),                   "shifted",   "shifted by one"),
    (lambda g: np.append(g[1:], 0.0),           "shifted",   "shifted by one"),
    (lambda g: np.insert(g[:-1], 0, 0.0),       "shifted",   "shifted by one"),
    (lambda g: np.full(5, np.sum(g)),           "broadcast", "every entry is the sum of the right ones"),
    (lambda g: np.full(5, np.mean(g)),          "broadcast", "every entry is the mean of the right ones"),
    (lambda g: np.full(5, g[0]),                "broadcast", "along axis 0 every entry is the first of the right ones"),
    (lambda g: g * g,                           "squared",   "the square of the right one"),
    (lambda g: g / np.linalg.norm(g),           "clipped",   "clipped by norm, or divided by it: its norm is 1"),
    (lambda g: 0.5 * g / (np.linalg.norm(g) + 1e-7), "clipped", "clipped by norm"),
    (lambda g: np.clip(g, -1, 1),               "clipped",   "clipped by value, to 1"),
    (lambda g: g + 0.37,                        "constant",  "a constant 0.37 is added"),
    (lambda g: mixed(g, [0, 2, 3], lambda v: v + 0.37), "constant", "a constant 0.37 is added in x[0], x[2], x[3]"),
    (lambda g: mixed(g, 2, lambda v: v + 1e-3), "entry",     "one entry alone is wrong, x[2], by a relative"),
    (lambda g: mixed(g, 4, lambda v: v * 1.23456), "entry",  "one entry alone is wrong, x[4], by a relative 2.3e-01"),
    (lambda g: mixed(g, 3, lambda v: NAN),      "non-finite", "the claim is not finite in x[3], where the right gradient is"),
    (lambda g: g + np.inf,                      "non-finite", "the claim is not finite in every entry"),
]
SQUARE = [
    (lambda g: g.T,                             "transposed", "the gradient is transposed"),
    (lambda g: -g.T,                            "transposed", "transposed, and the sign is flipped"),
    (lambda g: (g + g.T) / 2,                   "one-triangle", "the symmetric part of the right gradient"),
    (lambda g: g + g.T,                         "factor",    "mirrored entries are counted twice"),
    (lambda g: np.broadcast_to(g.sum(1, keepdims=True), g.shape), "broadcast", "along axis 1 every entry is the sum"),
    (lambda g: np.broadcast_to(g.mean(0), g.shape), "broadcast", "along axis 0 every entry is the mean"),
    (lambda g: np.broadcast_to(g[:, :1], g.shape), "broadcast", "along axis 1 every entry is the first"),
    (lambda g: mixed(g, (slice(None), 1), lambda v: -v), "sign", "the sign is flipped in "),
    (lambda g: mixed(g, slice(0, 2), lambda v: 2 * v), "factor", "a factor 2 too large in rows 0, 1 of a"),
    (lambda g: g - np.diag(np.diag(g)),         "detached",  "in a[0,0], a[1,1], a[2,2]"),
    (lambda g: np.diag(np.diag(g)),             "detached",  "in a off the diagonal"),
]
RECTANGLE = [
    (lambda g: g.T.reshape(g.shape),            "transposed", "flattened by columns"),
    (lambda g: g.reshape(g.shape[::-1]).T,      "transposed", "flattened by rows"),
    (lambda g: 3 * g,                           "factor",     "a factor 3 too large"),
    (lambda g: g * 12,                          "factor",     "a factor 12 too large"),
    (lambda g: mixed(g, slice(1, 2), lambda v: 0 * v), "detached", "in row 1 of a"),
    (lambda g: mixed(g, (slice(None), [0, 2]), lambda v: 0 * v), "detached", "in columns 0, 2 of a"),
]
# fmt: on
ALL = [
    pytest.param(f, {name: x}, g, *row, id=f"{name}{np.shape(x)}-{row[1]}-{k}")
    for f, g, name, x, rows in (
        (quintic, d_quintic, "x", X, ONE_VECTOR),
        (square, d_square, "a", A, SQUARE),
        (square, d_square, "a", B, RECTANGLE),
    )
    for k, row in enumerate(rows)
]


@for_rows(("f", "at", "right", "makes", "kind", "says"), ALL, parts=6)
def test_what_was_made_of_the_gradient_is_named(f: Any, at: Any, right: Any, makes: Any, kind: str, says: str) -> None:
    found = named(f, at, lambda **xs: makes(right(**xs)), right)
    assert (found.kind, says in found.message) == (kind, True), found
    assert (found.line, found.source) == (None, None)


@pytest.mark.parametrize(
    ("f", "at", "right"), [(quintic, {"x": X}, d_quintic), (square, {"a": A}, d_square), (square, {"a": B}, d_square)]
)
def test_a_right_gradient_has_no_diagnosis(f: Any, at: Any, right: Any) -> None:
    report = checked(f, at, right)
    assert (report.verdict, report.exit_status, diagnosis_of(report)) == ("pass", 0, None)


def momentum(x: Any, v: Any, dt: Any) -> Any:
    return np.sum(np.cosh(x + dt * v)) / dt


def d_momentum(x: Any, v: Any, dt: Any) -> Any:
    s = np.sinh(x + dt * v)
    return {"x": s / dt, "v": s, "dt": np.sum(s * v) / dt - np.sum(np.cosh(x + dt * v)) / dt**2}


@for_rows(
    ("factor", "says"),
    [
        (lambda dt: dt, "one dt too many, or a division by dt is missing (v)"),
        (lambda dt: 1 / dt, "dt is missing, or a division by dt is one too many (v)"),
        (lambda dt: -1 / dt, "a division by dt is one too many, and the sign is flipped (v)"),
        (lambda dt: dt**2, "dt**2 too many, or a division by dt**2 is missing (v)"),
        (lambda dt: dt**-2, "a division by dt**2 is one too many (v)"),
    ],
)
def test_a_scalar_input_that_is_left_out_is_named(factor: Any, says: str) -> None:
    def wrong(x: Any, v: Any, dt: Any) -> Any:
        right = d_momentum(x, v, dt)
        return right | {"v": right["v"] * factor(dt)}

    found = named(momentum, {"x": X, "v": X[::-1] * 0.7, "dt": 0.037}, wrong, d_momentum)
    assert (found.kind, says in found.message) == ("factor", True), found


def three(x: Any, y: Any, z: Any) -> Any:
    return np.sum(np.exp(x) * y * y) + np.sum(np.cosh(z) * x)


def d_three(x: Any, y: Any, z: Any) -> Any:
    return np.exp(x) * y * y + np.cosh(z), 2 * np.exp(x) * y, np.sinh(z) * x


@for_rows(
    ("order", "says"),
    [
        ((1, 0, 2), "the gradients of x and y are exchanged"),
        ((0, 2, 1), "the gradients of y and z are exchanged"),
        ((0, 0, 2), "the claim for y is the gradient of x"),
        ((1, 2, 0), "the claim for x is the gradient of y; the claim for y is the gradient of z; the claim for z"),
    ],
)
def test_exchanged_gradients_are_named(order: Any, says: str) -> None:
    at = {"x": X, "y": X[::-1] * 0.7, "z": X**2 + 0.1}
    found = named(three, at, lambda x, y, z: tuple(d_three(x, y, z)[k] for k in order), d_three)
    assert (found.kind, says in found.message) == ("swapped", True), found


@pytest.mark.parametrize("name", ["x", "y", "z"])
def test_the_input_that_is_wrong_is_named(name: str) -> None:
    def wrong(x: Any, y: Any, z: Any) -> Any:
        return tuple(-g if n == name else g for n, g in zip("xyz", d_three(x, y, z), strict=True))

    found = named(three, {"x": X, "y": X[::-1] * 0.7, "z": X**2 + 0.1}, wrong, d_three)
    assert (found.kind, found.message) == ("sign", f"the sign is flipped ({name})")


def test_each_of_several_wrong_inputs_has_a_mistake_of_its_own() -> None:
    def wrong(x: Any, y: Any, z: Any) -> Any:
        dx, dy, dz = d_three(x, y, z)
        return -dx, dy / 100, dz

    found = named(three, {"x": X, "y": X[::-1] * 0.7, "z": X**2 + 0.1}, wrong, d_three)
    assert (found.kind, found.message) == ("factor", "the sign is flipped (x); a factor 100 too small: percent (y)")


def test_a_unit_is_named_where_an_argument_is_the_same_number_by_chance() -> None:
    f, g = lambda a, v: np.sum(np.sin(a * v)) / a, lambda a, v: {"v": np.cos(a * v)}
    found = named(f, {"a": 100.0, "v": X}, lambda a, v: {"v": np.cos(a * v) / 100}, g)
    assert (found.kind, "a factor 100 too small: percent" in found.message) == ("factor", True), found


def affine(w: Any, b: Any) -> Any:
    return np.sum(np.cosh(B @ w + b))


def affine_b(w: Any, b: Any, how: Any) -> Any:
    s = np.sinh(B @ w + b)
    return B.T @ s, how(s)


W = RNG.normal(size=4)


@pytest.mark.parametrize(
    ("how", "says"),
    [
        (lambda s: s, "summed over axis 0 it is right: the sum over the axis that b was broadcast along is missing"),
        (lambda s: s * 3, "averaged over axis 0 it is right: the mean over that axis is missing"),
    ],
)
def test_a_sum_over_what_was_broadcast_is_missing(how: Any, says: str) -> None:
    report = checked(affine, {"w": W, "b": 0.3}, lambda w, b: affine_b(w, b, how))
    found = diagnosis_of(report)
    assert report.exit_status == 1
    assert found is not None and found.kind == "shape"
    everything = [found.message, *(str(x) for f in report.points[0].findings for x in (f.message, f.hint))]
    assert any(says in text for text in everything), everything


@pytest.mark.parametrize(
    ("makes", "says"),
    [
        (lambda g: g.T, "); transposed, it is right"),
        (lambda g: g.ravel(), "the entries are right, in another shape: reshape them"),
        (lambda g: g.ravel(order="F"), "the entries are right, flattened by columns"),
    ],
)
def test_a_gradient_of_another_shape_is_told_what_to_do(makes: Any, says: str) -> None:
    report = gradcli.check(square, {"a": B}, grad=lambda a: makes(d_square(a)), modes=MODES)
    found = diagnosis_of(report)
    assert report.exit_status == 1
    assert found is not None and found.kind == "shape"
    everything = [found.message, *(str(x) for f in report.points[0].findings for x in (f.message, f.hint))]
    assert any(says in text for text in everything), everything


def test_a_gradient_that_broadcasts_beside_the_right_shape_and_not_to_it_is_told_its_shape() -> None:
    found = diagnosis_of(gradcli.check("sum(x)", {"x": np.array([[1.0], [2.0]])}, grad="x=[1, 2, 3]", modes=MODES))
    assert found is not None and found.kind == "shape"
    assert found.message == "the claimed gradient of x has shape (3,); the right one has shape (2, 1)"


def test_a_factor_is_named_beside_an_input_whose_square_is_no_float() -> None:
    report = gradcli.check("sum(x**2) + 0*a", {"x": X, "a": 1e200}, wrt="x", grad="x=6.6*x", modes=MODES)
    assert report.verdict == "fail" and diagnosis_of(report) is not None


def test_a_factor_of_no_known_meaning_is_told_by_its_size() -> None:
    found = named(quintic, {"x": X}, lambda x: 7.7 * d_quintic(x), d_quintic)
    assert found.kind == "unknown"
    assert "7.7 times the right one" in found.message


def product(x: Any, y: Any) -> Any:
    a = np.sin(x) * np.exp(y)
    return np.sum(a * a * x)


def d_product(x: Any, y: Any) -> Any:
    a = np.sin(x) * np.exp(y)
    return 2 * a * np.cos(x) * np.exp(y) * x + a * a, 2 * a * a * x


@pytest.mark.parametrize("factor", [5.3, 0.37, -1.7])
def test_an_unnamed_factor_of_the_whole_is_said_of_the_whole(factor: float) -> None:
    at = {"x": X[:3], "y": X[2:]}
    found = named(product, at, lambda x, y: tuple(factor * g for g in d_product(x, y)), d_product)
    assert (found.kind, found.message, found.line) == (
        "unknown",
        f"no mistake that gradcli knows explains the claim: every wrong entry is {factor} times the right one",
        None,
    )


@pytest.mark.parametrize("factor", [7.3, 1 / 7.3])
def test_a_number_inside_the_function_is_named_as_the_factor(factor: float) -> None:
    f, g = lambda x: np.sum(np.sin(7.3 * x)), lambda x: 7.3 * np.cos(7.3 * x)
    found = named(f, {"x": X}, lambda x: factor * g(x), g)
    assert found.kind in ("factor", "slip") and ("7.3" in found.message or "inner" in found.message), found


@for_rows(
    ("factor", "says"),
    [(7.3, "the division by 7.3 is missing, in "), (1 / 7.3, "the division by 7.3 is one too many, in ")],
)
def test_a_number_that_divides_is_named_as_a_division(factor: float, says: str) -> None:
    f, g = lambda x: np.sum((x / 7.3) ** 2), lambda x: 2 * x / 7.3**2
    assert says in named(f, {"x": X}, lambda x: factor * g(x), g).message


def test_an_unnamed_factor_is_no_other_point() -> None:
    found = named(lambda x: np.sum(x**3), {"x": X}, lambda x: 3.63 * x**2, lambda x: 3 * x**2)
    assert (found.kind, "every wrong entry is 1.21 times" in found.message) == ("unknown", True), found


def test_one_number_that_is_off_is_told_by_its_factor() -> None:
    found = named(
        lambda x: np.sin(x) * x,
        {"x": 0.7},
        lambda x: 5.3 * (np.sin(x) + x * np.cos(x)),
        lambda x: np.sin(x) + x * np.cos(x),
    )
    assert (found.kind, "every wrong entry is 5.3 times" in found.message) == ("unknown", True), found
