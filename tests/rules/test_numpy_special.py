"""scipy.special's functions on traced values; one-argument rows are tested with the rule table."""

from typing import Any

import numpy as np
import pytest
import scipy.special as sc

from gradcli.arithmetic.recorded_program import vjp
from gradcli.errors import NoRule
from gradcli.tracing.primitive import PRIMITIVES
from tests.rows import for_rows
from tests.rules.test_numpy_functions import Function, check

ORDERS = np.array([0.0, 1.0, 2.5])
X = np.array([0.6, 1.7, 3.1])
U = np.array([0.2, 0.55, 0.83])

# fmt: off
#    name               function                                    at
TABLE: tuple[tuple[str, Function, tuple[Any, ...]], ...] = (
    ("jv",              lambda x: sc.jv(ORDERS, x),                 (X,)),
    ("jn scalar",       lambda x: sc.jn(2, x),                      (np.float64(0.9),)),
    ("yv",              lambda x: sc.yv(ORDERS, x),                 (X,)),
    ("yn",              lambda x: sc.yn(2, x),                      (X,)),
    ("iv",              lambda x: sc.iv(ORDERS, x),                 (X,)),
    ("kv",              lambda x: sc.kv(ORDERS, x),                 (X,)),
    ("kn",              lambda x: sc.kn(2, x),                      (X,)),
    ("ive",             lambda x: sc.ive(ORDERS, x),                (X,)),
    ("kve",             lambda x: sc.kve(ORDERS, x),                (X,)),
    ("expn",            lambda x: sc.expn([3, 1, 2], x),            (X,)),
    ("gammainc",        lambda x: sc.gammainc(2.5, x),              (X,)),
    ("gammaincc",       lambda x: sc.gammaincc([0.5, 1, 3], x),     (X,)),
    ("stdtr",           lambda x: sc.stdtr([1, 3.5, 8], x),         (X,)),
    ("pdtr",            lambda x: sc.pdtr(2, x) * sc.pdtrc(1, x),   (X,)),
    ("gdtr",            lambda x: sc.gdtr(x, 2.5, x) * sc.gdtrc(1.5, 2, x), (X,)),
    ("fdtr",            lambda x: sc.fdtr(3, 4, x) * sc.fdtrc(2, 5, x),     (X,)),
    ("betainc",         lambda x: sc.betainc(2.5, 0.7, x),          (U,)),
    ("betaincc",        lambda x: sc.betaincc(2.5, 0.7, x),         (U,)),
    ("gamma by order",  lambda a, x: sc.gammainc(a, x) * sc.gammaincc(a + 1, x), (X, X + 0.3)),
    ("chi squared",     lambda d, x: sc.chdtr(d, x),                (X, X + 0.3)),
    ("chdtr",           lambda x: sc.chdtr(3, x),                   (X,)),
    ("chdtrc",          lambda x: sc.chdtrc(3, x),                  (X,)),
    ("hyp0f1",          lambda x: sc.hyp0f1(1.5, x),                (X,)),
    ("hyp1f1",          lambda x: sc.hyp1f1(0.5, 1.5, x),           (X,)),
    ("hyp2f1",          lambda x: sc.hyp2f1(0.5, 1.0, 2.5, x),      (U,)),
    ("hyperu",          lambda x: sc.hyperu(0.5, 1.5, x),           (X,)),
    ("jacobi",          lambda x: sc.eval_jacobi(3, 0.5, 1.5, x),   (U,)),
    ("legendre",        lambda x: sc.eval_legendre([0, 1, 4], x),   (U,)),
    ("gegenbauer",      lambda x: sc.eval_gegenbauer(3, 0.5, x),    (U,)),
    ("chebyt",          lambda x: sc.eval_chebyt([0, 1, 4], x),     (U,)),
    ("chebyu",          lambda x: sc.eval_chebyu([0, 1, 4], x),     (U,)),
    ("chebyc",          lambda x: sc.eval_chebyc(3, x),             (U,)),
    ("chebys",          lambda x: sc.eval_chebys(3, x),             (U,)),
    ("sh_legendre",     lambda x: sc.eval_sh_legendre(3, x),        (U,)),
    ("sh_chebyt",       lambda x: sc.eval_sh_chebyt(3, x),          (U,)),
    ("sh_chebyu",       lambda x: sc.eval_sh_chebyu(3, x),          (U,)),
    ("hermite",         lambda x: sc.eval_hermite([0, 1, 4], x),    (U,)),
    ("hermitenorm",     lambda x: sc.eval_hermitenorm([0, 1, 4], x), (U,)),
    ("laguerre",        lambda x: sc.eval_laguerre([0, 1, 4], x),   (X,)),
    ("genlaguerre",     lambda x: sc.eval_genlaguerre(3, 0.5, x),   (X,)),
    ("huber",           lambda d, r: sc.huber(1 + d**2, r),         (U, X)),
    ("pseudo_huber",    lambda d, r: sc.pseudo_huber(d, r),         (U, X - 2)),
    ("boxcox",          lambda x, p: sc.boxcox(x, p),               (X, U)),
    ("boxcox 0",        lambda x, p: sc.boxcox(x, p),               (X, np.float64(0))),
    ("boxcox1p",        lambda x, p: sc.boxcox1p(x, p),             (X, -U)),
    ("inv_boxcox",      lambda x, p: sc.inv_boxcox(x, p),           (X, U)),
    ("inv_boxcox 0",    lambda x, p: sc.inv_boxcox(x, p),           (U, np.float64(0))),
    ("inv_boxcox1p",    lambda x, p: sc.inv_boxcox1p(x, p),         (X, U)),
    ("binom",           lambda n, k: sc.binom(n + 3, k),            (X, X)),
    ("poch",            lambda z, m: sc.poch(z, m),                 (X, U)),
    ("cosm1",           lambda x: sc.cosm1(x),                      (X,)),
    ("powm1",           lambda x, y: sc.powm1(x, y),                (X, U)),
    ("exp10",           lambda x: sc.exp10(x),                      (U,)),
    ("radian",          lambda d, m: sc.radian(d, m, 30.0),         (X, U)),
    ("sici",            lambda x: np.stack(sc.sici(x)),             (X,)),
    ("shichi",          lambda x: np.stack(sc.shichi(x)),           (X,)),
    ("fresnel",         lambda x: np.stack(sc.fresnel(x)),          (X,)),
    ("ellipkm1",        lambda x: sc.ellipkm1(x),                   (U,)),
    ("log1p",           lambda x: sc.log1p(x) + sc.expm1(x) + sc.exp2(x) + sc.cbrt(x), (X,)),
    ("beta",            lambda a, b: sc.beta(a, b) + sc.betaln(a, b), (X, U)),
    ("exprel at 0",     lambda x: sc.exprel(x),                     (np.array([0.0, 1e-9, 0.4]),)),
    ("i0 of numpy",     lambda x: np.i0(x),                         (X,)),
    ("xlogy broadcast", lambda x, y: sc.xlogy(x, y),                (X.reshape(3, 1) - 1, U)),
)
# fmt: on


@for_rows(("f", "at"), [pytest.param(f, at, id=name) for name, f, at in TABLE])
def test_every_witness_agrees(f: Function, at: tuple[Any, ...]) -> None:
    check(f, at, ulps=1024)  # scipy's functions lose some digits of their values


@pytest.mark.parametrize(
    "f",
    [
        lambda v: sc.jv(v, 1.0),
        lambda v: sc.hyp1f1(1.0, v, 0.5),
        lambda v: sc.pdtr(v, 1.0),
        lambda v: sc.betainc(1.0, v, 0.5),
        lambda v: sc.fdtr(v, 2.0, 1.0),
    ],
)
def test_a_traced_order_is_refused(f: Function) -> None:
    with pytest.raises(NoRule, match="has no derivative by its order"):
        vjp(f, [np.float64(1.5)])


@pytest.mark.parametrize(
    ("f", "says"), [(sc.airy, "four complex-valued"), (sc.zetac, "zeta"), (sc.kolmogorov, "no derivative rule")]
)
def test_what_has_no_rule_says_so(f: Function, says: str) -> None:
    with pytest.raises(NoRule, match=says):
        vjp(f, [np.float64(1.5)])


def test_what_is_like_sine_has_slope_1_at_0() -> None:
    for name in ("si", "shi"):
        assert vjp(PRIMITIVES[name], [np.float64(0)])[1](np.float64(1)) == [1.0]
