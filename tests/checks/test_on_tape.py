"""Slips in the source of a right hand-written gradient: what each is called, and the line of the function it is on."""

from typing import Any

import numpy as np
import pytest

from tests.checks.planting import Program, Slip, checked, diagnosis_of, named, on_line, slipped
from tests.rows import for_rows

RNG = np.random.default_rng(11)
FIRST_TURN = "the turn before the first is the value that the loop starts from, which is not tried"
LATER_OPERAND = "the way to a term goes down into the operand that is computed later"


def network(x: Any, W: Any, b: Any, V: Any) -> Any:
    h = W @ x + b
    t = np.tanh(h)
    o = V @ t
    e = np.exp(o)
    return np.sum(e * o) + 0.1 * np.sum(W * W)


def d_network(x: Any, W: Any, b: Any, V: Any) -> Any:
    t = np.tanh(W @ x + b)
    o = V @ t
    e = np.exp(o)
    do = e + e * o
    dV = np.outer(do, t)
    dt = V.T @ do
    dh = dt * (1 - t**2)
    dW = np.outer(dh, x) + 0.2 * W
    return W.T @ dh, dW, dh, dV


def variance(x: Any) -> Any:
    n = len(x)
    m = np.sum(x) / n
    d = x - m
    v = np.sum(d * d) / (n - 1)
    s = np.sqrt(v)
    return m / s + np.log(v)


def d_variance(x: Any) -> Any:
    n = len(x)
    m = np.sum(x) / n
    d = x - m
    v = np.sum(d * d) / (n - 1)
    s = np.sqrt(v)
    dm = 1 / s
    ds = -m / s**2
    dv = 1 / v + ds * 0.5 / s
    dd = dv * 2 * d / (n - 1)
    dx = dd - np.sum(dd) / n
    return dx + dm / n


DRAWN = np.array([1, 3, 3])


def negatives(V: Any, c: Any) -> Any:
    """The loss of word2vec, whose negative samples may be one word twice."""
    scores = V[DRAWN] @ c
    return np.sum(np.log(1 + np.exp(scores)))


def d_negatives(V: Any, c: Any) -> Any:
    d = 1 / (1 + np.exp(-V[DRAWN] @ c))
    dV = np.zeros_like(V)
    np.add.at(dV, DRAWN, np.outer(d, c))
    return dV, V[DRAWN].T @ d


def angles(theta: Any, r: Any) -> Any:
    a = theta * np.pi / 180
    c = r * np.cos(a)
    s = r * np.sin(a)
    q = np.arctan2(s, c + 2)
    return np.sum(q * q) + np.sum(np.cosh(r))


def d_angles(theta: Any, r: Any) -> Any:
    a = theta * np.pi / 180
    c = r * np.cos(a)
    s = r * np.sin(a)
    q = np.arctan2(s, c + 2)
    n = s**2 + (c + 2) ** 2
    dq = 2 * q
    ds = dq * (c + 2) / n
    dc = -dq * s / n
    dr = ds * np.sin(a) + dc * np.cos(a)
    da = ds * r * np.cos(a) - dc * r * np.sin(a)
    return da * np.pi / 180, dr + np.sinh(r)


def decibels(p: Any, q: Any) -> Any:
    d = np.log10(p)
    r = d / q
    return np.sum(r * r) + np.sum(p * q)


def d_decibels(p: Any, q: Any) -> Any:
    d = np.log10(p)
    r = d / q
    dr = 2 * r
    dd = dr / q
    dq = -dr * d / q**2 + p
    return dd / (p * np.log(10)) + q, dq


def recurrence(x: Any, w: Any) -> Any:
    h = 0.1
    total = 0.0
    for k in range(len(x)):
        z = w * h + x[k]
        h = np.tanh(z)
        total = total + h * h
    return total


def d_recurrence(x: Any, w: Any) -> Any:
    hs = [0.1]
    for k in range(len(x)):
        hs.append(np.tanh(w * hs[-1] + x[k]))
    dx, dw, dh = np.zeros(len(x)), 0.0, 0.0
    for k in reversed(range(len(x))):
        dh = dh + 2 * hs[k + 1]
        dz = dh * (1 - hs[k + 1] ** 2)
        dx[k] = dz
        dw = dw + dz * hs[k]
        dh = dz * w
    return dx, dw


def neighbours(x: Any) -> Any:
    d = x[1:] - x[:-1]
    s = x[2:] * x[:-2]
    return np.sum(np.cosh(d)) + np.sum(np.exp(s))


def d_neighbours(x: Any) -> Any:
    dd = np.sinh(x[1:] - x[:-1])
    ds = np.exp(x[2:] * x[:-2])
    dx = np.zeros(len(x))
    dx[1:] += dd
    dx[:-1] -= dd
    dx[2:] += ds * x[:-2]
    dx[:-2] += ds * x[2:]
    return dx


INDEX = np.array([0, 2, 2, 1, 0, 3])


def gathered(x: Any) -> Any:
    y = x[INDEX]
    return np.sum(np.exp(y) * np.arange(1.0, 7.0)) + np.sum(np.cosh(x))


def d_gathered(x: Any) -> Any:
    y = x[INDEX]
    dy = np.exp(y) * np.arange(1.0, 7.0)
    dx = np.sinh(x)
    np.add.at(dx, INDEX, dy)
    return dx


def fan(x: Any, y: Any) -> Any:
    a = x * y
    b = np.sin(a)
    c = np.exp(a)
    return np.sum(b * c) + np.sum(a * a)


def d_fan(x: Any, y: Any) -> Any:
    a = x * y
    b = np.sin(a)
    c = np.exp(a)
    db, dc = c, b
    da = 2 * a
    da += db * np.cos(a)
    da += dc * c
    return da * y, da * x


def sigmoid(x: Any, w: Any) -> Any:
    z = w * x
    p = 1 / (1 + np.exp(-z))
    return np.sum(p * p) + np.sum(np.cosh(w))


def d_sigmoid(x: Any, w: Any) -> Any:
    p = 1 / (1 + np.exp(-w * x))
    dz = 2 * p * p * (1 - p)
    return dz * w, dz * x + np.sinh(w)


def stable(z: Any, c: Any) -> Any:
    m = np.max(z, axis=1, keepdims=True)
    e = np.exp(z - m)
    p = e / np.sum(e, axis=1, keepdims=True)
    return np.sum(c * p)


def d_stable(z: Any, c: Any) -> Any:
    e = np.exp(z - np.max(z, axis=1, keepdims=True))
    p = e / np.sum(e, axis=1, keepdims=True)
    return p * (c - np.sum(p * c, axis=1, keepdims=True)), p


def attention(x: Any, v: Any) -> Any:
    z = np.sinh(x)
    e = np.exp(z)
    p = e / np.sum(e)
    return p @ v * (p @ np.exp(v))


def d_attention(x: Any, v: Any) -> Any:
    e = np.exp(np.sinh(x))
    p = e / np.sum(e)
    u = np.exp(v)
    dp = v * (p @ u) + u * (p @ v)
    dz = p * (dp - p @ dp)
    return dz * np.cosh(x), p * (p @ u) + p * u * (p @ v)


def batch(X: Any, w: Any, b: Any) -> Any:
    z = X * w + b
    return np.sum(z**3) + np.sum(np.cosh(b))


def d_batch(X: Any, w: Any, b: Any) -> Any:
    z = X * w + b
    dz = 3 * z**2
    dw = np.sum(dz * X, axis=0)
    db = np.sum(dz, axis=0) + np.sinh(b)
    return dz * w, dw, db


def energy(q: Any, m: Any, k: Any) -> Any:
    kinetic = np.sum(m * q * q) / 2
    spring = k * np.sum(q**4)
    return kinetic + spring - np.sum(np.cosh(q))


def d_energy(q: Any, m: Any, k: Any) -> Any:
    dq = m * q
    dq = dq + 4 * k * q**3
    dq = dq - np.sinh(q)
    return dq, q * q / 2, np.sum(q**4)


def distorted(x: Any, u: Any) -> Any:
    r2 = u @ u
    return np.sum(x * r2) * np.exp(0.01 * r2) + np.sum(np.sin(u) * x)


def d_distorted(x: Any, u: Any) -> Any:
    r2 = u @ u
    e = np.exp(0.01 * r2)
    dr2 = np.sum(x) * e + 0.01 * np.sum(x * r2) * e
    return r2 * e + np.sin(u), dr2 * 2 * u + np.cos(u) * x


# fmt: off
PROGRAMS = [
    Program(distorted, {"x": RNG.normal(size=3), "u": RNG.normal(size=3)}, d_distorted, (
        Slip("dr2 * 2 * u",      "dr2 * u",          "slip",     "a factor 2 too small",                "r2 = u @ u"),
    )),
    Program(network, {"x": RNG.normal(size=3), "W": RNG.normal(size=(4, 3)), "b": RNG.normal(size=4), "V": RNG.normal(size=(2, 4))}, d_network, (
        Slip("(1 - t**2)",       "(1 - t)",          "slip",     "tanh' is 1 - y**2, not 1 - y",        "t = np.tanh(h)"),
        Slip("(1 - t**2)",       "(1 + t**2)",       "slip",     "not 1 + y**2",                        "t = np.tanh(h)"),
        Slip("(1 - t**2)",       "t * (1 - t)",      "slip",     "that of the sigmoid",                 "t = np.tanh(h)"),
        Slip(" * (1 - t**2)",    "",                 "slip",     "the derivative of tanh is missing (used as if it were 1)", "t = np.tanh(h)"),
        Slip("dh = dt",          "dh = -dt",         "negated",  "the derivative of one operation has the wrong sign", "o = V @ t"),
        Slip("dh = dt",          "dh = 3 * dt",      "slip",     "in the derivative of one operation, a factor 3 too large",  "o = V @ t"),
        Slip("dh = dt",          "dh = 2.3 * dt",    "factor",   "through one operation is 2.3 times the right one", "o = V @ t"),
        Slip("+ 0.2 * W",        "",                 "term",     "the gradient of one term of the function is missing", "return np.sum(e * o) + 0.1 * np.sum(W * W)"),
        Slip("+ 0.2 * W",        "+ 0.1 * W",        "slip",     "a factor 2 too small",                "return np.sum(e * o) + 0.1 * np.sum(W * W)"),
        Slip("+ 0.2 * W",        "- 0.2 * W",        "negated",  "wrong sign",                          "return np.sum(e * o) + 0.1 * np.sum(W * W)"),
        Slip("do = e + e * o",   "do = e * o",       "overwritten", "the gradient through `e * o` is missing", "return np.sum(e * o) + 0.1 * np.sum(W * W)"),
        Slip("do = e + e * o",   "do = e",           "overwritten", "the gradient through `np.exp(o)` is missing", "e = np.exp(o)"),
    )),
    Program(variance, {"x": RNG.normal(size=6) + 1}, d_variance, (
        Slip("2 * d / (n - 1)",  "2 * d / n",        "slip",     "a factor 5/6: n and n - 1 are mixed up", "v = np.sum(d * d) / (n - 1)"),
        Slip("2 * d / (n - 1)",  "2 * d",            "slip",     "the factor 1/(n - 1) is missing (n - 1 = 5)", "v = np.sum(d * d) / (n - 1)"),
        Slip("ds * 0.5 / s",     "ds / s",           "slip",     "sqrt' is 1/(2 sqrt(x)): the 1/2 is missing", "s = np.sqrt(v)"),
        Slip("ds * 0.5 / s",     "ds * 0.5 * s",     "slip",     "not sqrt(x)/2",                       "s = np.sqrt(v)"),
        Slip("-m / s**2",        "-m / s",           "slip",     "b is not squared",                    "return m / s + np.log(v)"),
        Slip("-m / s**2",        "m / s**2",         "negated",  "wrong sign",                          "return m / s + np.log(v)"),
        Slip("1 / v + ",         "v + ",             "slip",     "log' is 1/x, not x",                  "return m / s + np.log(v)"),
        Slip("1 / v + ",         "",                 "term",     "the gradient of one term of the function is missing", "return m / s + np.log(v)"),
        Slip(" + dm / n",        " + dm",            "slip",     "the factor 1/n is missing (n = 6)", "m = np.sum(x) / n"),
    )),
    Program(angles, {"theta": RNG.normal(size=4) * 40, "r": RNG.uniform(0.5, 1.5, 4)}, d_angles, (
        Slip("da * np.pi / 180", "da",               "factor",   "a factor 180/pi: radians for degrees (theta)", None),
        Slip("ds * r * np.cos(a) -", "ds * r * np.sin(a) -", "slip", "sin' is cos, not sin",            "s = r * np.sin(a)"),
        Slip("- dc * r * np.sin(a)", "+ dc * r * np.sin(a)", "negated", "wrong sign",                   "c = r * np.cos(a)"),
        Slip("- dc * r * np.sin(a)", "- dc * r * np.cos(a)", "slip", "cos' is -sin, not -cos",          "c = r * np.cos(a)"),
        Slip("+ dc * np.cos(a)", "",                 "overwritten", "", "c = r * np.cos(a)"),
        Slip("dc = -dq",         "dc = dq",          "negated",  "wrong sign",                          "q = np.arctan2(s, c + 2)"),
    )),
    Program(decibels, {"p": RNG.uniform(0.5, 3, 4), "q": RNG.uniform(0.5, 3, 4)}, d_decibels, (
        Slip("(p * np.log(10))", "p",                "slip",     "ln 10 is missing",                   "d = np.log10(p)"),
        Slip("/ q**2",           "/ q",              "slip",     "b is not squared",                    "r = d / q"),
        Slip("-dr * d / q**2",   "-dr / q**2",       "slip",     "the a is missing",                   "r = d / q"),
        Slip("+ q, dq",          "+ p, dq",          "slip",     "the derivative of a*b by a is b, not a", "return np.sum(r * r) + np.sum(p * q)"),
    )),
    Program(recurrence, {"x": RNG.normal(size=5), "w": 0.8}, d_recurrence, (
        Slip("(1 - hs[k + 1] ** 2)", "(1 - hs[k] ** 2)", "stale", "the values of the iteration before",      "h = np.tanh(z)", FIRST_TURN),
        Slip("(1 - hs[k + 1] ** 2)", "(1 - hs[max(k, 1)] ** 2)", "stale", "the values of the iteration before", "h = np.tanh(z)"),
        Slip("(1 - hs[k + 1] ** 2)", "(1 - hs[min(k + 2, len(x))] ** 2)", "stale", "the values of the iteration after", "h = np.tanh(z)"),
        Slip("dz * hs[k]",       "dz * hs[k + 1]",   "swapped",  "another value is used",        "z = w * h + x[k]"),
        Slip("(1 - hs[k + 1] ** 2)", "(1 - hs[k + 1])", "slip",  "tanh' is 1 - y**2, not 1 - y",        "h = np.tanh(z)"),
        Slip("dh = dz * w",      "dh = -dz * w",     "negated",  "wrong sign",                          "z = w * h + x[k]"),
        Slip("dh = dz * w",      "dh = 0.0",         "overwritten", "the gradient through `w * h` is missing",             "z = w * h + x[k]"),
    )),
    Program(neighbours, {"x": RNG.normal(size=6)}, d_neighbours, (
        Slip("dx[:-1] -= dd",    "dx[:-1] = -dd",    "overwritten", "overwritten instead of added",     "d = x[1:] - x[:-1]"),
        Slip("dx[2:] += ds",     "dx[2:] = ds",      "overwritten", "replaces what was there", "s = x[2:] * x[:-2]"),
        Slip("dx[:-2] += ds",    "dx[:-2] = ds",     "overwritten", "replaces what was there", "s = x[2:] * x[:-2]"),
        Slip("dx[:-1] -= dd",    "dx[:-1] += dd",    "negated",  "wrong sign",                          "d = x[1:] - x[:-1]"),
    )),
    Program(gathered, {"x": RNG.normal(size=4)}, d_gathered, (
        Slip("np.add.at(dx, INDEX, dy)", "dx[INDEX] += dy", "overwritten", "only the last is counted (np.add.at adds them all)", "y = x[INDEX]"),
    )),
    Program(fan, {"x": RNG.normal(size=4), "y": RNG.normal(size=4)}, d_fan, (
        Slip("da += dc * c",     "da = dc * c",      "overwritten", "overwritten instead of added",     "c = np.exp(a)"),
        Slip("da += db * np.cos(a)", "da = db * np.cos(a)", "term", "the gradient of one term of the function is missing", "return np.sum(b * c) + np.sum(a * a)"),
        Slip("da += dc * c",     "",                 "overwritten", "the gradient through `np.exp(a)` is missing", "c = np.exp(a)"),
        Slip("da * y, da * x",   "da * y, da * y",   "swapped",  "", None),
        Slip("da * y, da * x",   "da * y, da * a",   "swapped",  "another value is used",          "a = x * y"),
    )),
    Program(sigmoid, {"x": RNG.normal(size=4), "w": RNG.normal(size=4)}, d_sigmoid, (
        Slip("p * p * (1 - p)",  "p * p",            "slip",     "computed as y, the value itself",        "p = 1 / (1 + np.exp(-z))"),
        Slip("p * p * (1 - p)",  "p * p * (1 + p)",  "slip",     "computed as y*(1 + y)",                  "p = 1 / (1 + np.exp(-z))"),
        Slip("p * p * (1 - p)",  "p * (1 - p * p)",  "slip",     "which is that of tanh",                            "p = 1 / (1 + np.exp(-z))"),
        Slip("p * p * (1 - p)",  "p * (w * x) * (1 - w * x)", "slip", "x*(1 - x) of its argument",      "p = 1 / (1 + np.exp(-z))"),
    )),
    Program(attention, {"x": RNG.normal(size=4), "v": RNG.normal(size=4)}, d_attention, (
        Slip("p * (dp - p @ dp)", "p * (1 - p) * dp", "slip",    "only the diagonal of the Jacobian",         "p = e / np.sum(e)"),
        Slip("p * (dp - p @ dp)", "dp",              "slip",     "missing (used as if it were 1)",               "p = e / np.sum(e)"),
        Slip("p * (dp - p @ dp)", "p * dp",          "overwritten", "the gradient through `np.sum(e)` is missing", "p = e / np.sum(e)"),
    )),
    Program(stable, {"z": RNG.normal(size=(3, 4)), "c": RNG.normal(size=(3, 4))}, d_stable, (
        Slip(" - np.sum(p * c, axis=1, keepdims=True)", "", "overwritten", "the gradient through `np.sum(e, axis=1, keepdims=True)` is missing", "p = e / np.sum(e, axis=1, keepdims=True)"),
        Slip("p * (c - np.sum(p * c, axis=1, keepdims=True))", "p * (1 - p) * c", "slip", "only the diagonal of the Jacobian", "p = e / np.sum(e, axis=1, keepdims=True)"),
    )),
    Program(batch, {"X": RNG.normal(size=(3, 3)), "w": RNG.normal(size=3), "b": RNG.normal(size=3)}, d_batch, (
        Slip("np.sum(dz * X, axis=0)", "np.sum(dz * X, axis=1)", "axis", "summed over the wrong axis",   "z = X * w + b"),
        Slip("np.sum(dz * X, axis=0)", "np.mean(dz * X, axis=0)", "factor", "a factor 3 too small",      None),
        Slip("np.sum(dz, axis=0)", "np.mean(dz, axis=0)", "broadcast", "averaged over the axes", "z = X * w + b"),
        Slip("np.sum(dz, axis=0)", "dz[0]",          "broadcast", "the first of the broadcast copies",  "z = X * w + b"),
        Slip("3 * z**2",         "z**2",             "slip",     "the n is missing",                   "return np.sum(z**3) + np.sum(np.cosh(b))"),
        Slip("3 * z**2",         "3 * z**3",         "slip",     "the exponent is not lowered",         "return np.sum(z**3) + np.sum(np.cosh(b))"),
    )),
    Program(negatives, {"V": np.linspace(-1, 1, 12).reshape(4, 3), "c": np.array([0.4, -0.7, 1.1])}, d_negatives, (
        Slip("np.add.at(dV, DRAWN, np.outer(d, c))", "dV[DRAWN] += np.outer(d, c)", "overwritten", "of repeated positions in the index of `V[DRAWN]` only the last is counted", "scores = V[DRAWN] @ c"),
        Slip("np.outer(d, c)",   "2 * np.outer(d, c)", "factor", "a factor 2 too large",                None),
    )),
    Program(energy, {"q": RNG.normal(size=5), "m": RNG.uniform(1, 2, 5), "k": 0.7}, d_energy, (
        Slip("dq = dq + 4 * k", "dq = 4 * k",        "term",     "the gradient of one term of the function is missing", "kinetic = np.sum(m * q * q) / 2", LATER_OPERAND),
        Slip("4 * k * q**3",     "k * q**3",         "slip",     "the n is missing",                   "spring = k * np.sum(q**4)"),
        Slip("4 * k * q**3",     "4 * q**3",         "slip",     "the factor k is missing", "spring = k * np.sum(q**4)"),
        Slip("dq = dq - np.sinh(q)", "dq = dq + np.sinh(q)", "negated", "wrong sign",                   "return kinetic + spring - np.sum(np.cosh(q))"),
        Slip("dq = dq - np.sinh(q)", "",             "term",     "missing",                             "return kinetic + spring - np.sum(np.cosh(q))"),
    )),
]
# fmt: on
PLANTED = [
    pytest.param(
        p,
        s,
        id=f"{p.f.__name__}-{s.kind}-{k}",
        marks=[pytest.mark.xfail(strict=True, reason=s.defect)] * bool(s.defect),
    )
    for p in PROGRAMS
    for k, s in enumerate(p.slips)
]


@for_rows("program", PROGRAMS, ids=lambda program: program.f.__name__)
def test_the_right_gradient_has_no_diagnosis(program: Program) -> None:
    report = checked(program.f, program.at, program.g)
    assert (report.verdict, report.exit_status, diagnosis_of(report)) == ("pass", 0, None)


@pytest.mark.parametrize(("program", "slip"), PLANTED)
def test_a_slip_in_the_source_is_named_on_its_line(program: Program, slip: Slip) -> None:
    found = named(program.f, program.at, slipped(program.g, slip.old, slip.new), program.g)
    assert (found.kind, slip.says in found.message) == (slip.kind, True), found
    on_line(found, program.f, slip.source)
