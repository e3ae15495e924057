"""Every operation of every framework's table: against numpy's value, and against gradcli's reverse mode."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gradcli.errors import GradcliError, NotSupported
from gradcli.modes.framework_modes import FrameworkMode, Lowering
from gradcli.modes.mode import Question
from gradcli.modes.registry import FRAMEWORKS
from gradcli.study.accuracy import PARAMS
from gradcli.tracing.primitive import PRIMITIVES, Params, Primitive
from tests.frameworks.asking import asked, excess, of_row
from tests.rows import for_rows
from tests.rules import test_decompositions, test_fourier
from tests.rules.agreement import drawn
from tests.rules.judging import Place
from tests.rules.test_functions import TABLE
from tests.rules.test_numpy_functions import CALCULUS

EPS = float(np.finfo(np.float64).eps)
ROWS = [row for row in PRIMITIVES.values() if row.rules]
ELEMENTWISE = [(row, params) for row in ROWS if row.kind == "elementwise" for params in PARAMS.get(row.name, ({},))]
FUNCTIONS = (*TABLE, *CALCULUS, *test_decompositions.TABLE, *test_fourier.TABLE)
USEFUL = 1e-9  # of the gradient: a bound in float64 that still says something
LOSSY = 1e-10  # of the value, where the table says of no operation that it loses more
SOME = {"kl_div", "rel_entr"}  # whose values cancel


def here(name: str) -> Lowering:
    mode = FRAMEWORKS[name]
    assert isinstance(mode, FrameworkMode)
    if not mode.available().yes:
        pytest.skip(f"{name} is not installed")
    return mode.lowering


def named(case: Any) -> str:
    return case.name if isinstance(case, Primitive) else "-".join(map(str, case.values())) or "plain"


LEAST = {"torch": 106, "jax": 118, "tensorflow": 119, "mlx": 75}  # operations of primitives, when this was written


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_framework_loses_no_operation(name: str) -> None:
    lowering = here(name)
    assert len({row.name for row in ROWS} & set(lowering.table)) >= LEAST[name]
    assert set(lowering.ulps) | lowering.single <= set(lowering.table)


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_nothing_is_refused_that_is_not_there(name: str) -> None:
    lowering = here(name)
    assert not lowering.refused & set(lowering.table)
    assert lowering.refused <= set(lowering.found)


#  a primitive and arguments outside of where it is smooth, or where some framework is wrong
OUTSIDE: tuple[tuple[str, tuple[float, ...]], ...] = (
    ("beta", (-1.5, 0.3)), ("beta", (-2.3, -0.4)), ("betaln", (-0.22, 0.9)), ("rel_entr", (-1.0, -6.0)), ("kl_div", (3.5, -1.5)),
    ("pseudo_huber", (-1.5, 11.0)), ("digamma", (-28.3,)), ("digamma", (-0.5,)), ("hyp2f1", (0.5, 1.0, 2.5, -2.0)),
    ("log", (-2.0,)), ("logit", (1.5,)), ("arctanh", (2.0,)), ("ndtri", (0.0,)), ("gamma", (-2.5,)), ("log_ndtr", (-3e5,)),
)  # fmt: skip


@pytest.mark.parametrize("name", FRAMEWORKS)
@pytest.mark.parametrize(("primitive", "xs"), OUTSIDE)
def test_slopes_outside_of_the_domain_are_right_or_refused(name: str, primitive: str, xs: tuple[float, ...]) -> None:
    here(name)
    row, i = PRIMITIVES[primitive], len(xs) - 1
    place = Place(row, i, xs, {})
    with np.errstate(all="ignore"):
        q = asked(place.function, [np.float64(xs[i])])
        try:
            found = FRAMEWORKS[name].gradient(q)
        except GradcliError:
            return
    (slope,), (bound,) = found.value.values(), found.bound.values()
    right = place.truth().left
    if np.isnan(slope):
        return
    assert right is not None, "a slope where there is none"
    assert abs(float(slope) - float(right)) <= bound + 1e-9 * abs(float(right))


@pytest.mark.parametrize("name", FRAMEWORKS)
@pytest.mark.parametrize(("row", "params"), ELEMENTWISE, ids=named)
def test_elementwise_operations_have_numpys_gradient(name: str, row: Primitive, params: Params) -> None:
    lowering = here(name)
    if row.name not in lowering.table:
        with pytest.raises(NotSupported, match=f"{name} has no {row.name}"):
            lowering.operation(row.name)
        return
    f, xs = of_row(row, params)
    domains = lowering.holds.get(row.name, ())[-len(xs) :]
    held = np.all([d.contains(x) for d, x in zip(domains, xs, strict=True)], axis=0) if domains else slice(None)
    with np.errstate(all="ignore"):
        q = asked(f, [x[held] for x in xs])
        assert excess(name, q, lossy=bool(row.reason)) <= 1


def kinds(q: Question) -> set[tuple[Any, ...]]:
    """Return the primitives of a program, each with the kinds of its parameters."""

    def kind(x: Any) -> Any:
        if x is None or isinstance(x, bool | str):
            return x
        return (type(x), len(x)) if isinstance(x, tuple) else (type(x), isinstance(x, int) and x < 0)

    params = [
        (line[0].name, part) for line in q.lines if line[0] is not None for part in line if isinstance(part, dict)
    ]
    return {(name, *sorted((key, kind(x)) for key, x in given.items())) for name, given in params}


@pytest.fixture(name="met")
def _met(name: str) -> set[tuple[Any, ...]]:
    """Return a set that the rows of a framework share."""
    here(name)
    return set()


@pytest.mark.parametrize("name", FRAMEWORKS)
@for_rows("what, f, shapes", FUNCTIONS, ids=[what for what, _, _ in FUNCTIONS])
def test_other_operations_have_numpys_value_and_gradient(
    name: str, what: str, f: Callable[..., Any], shapes: Any, met: set[tuple[Any, ...]]
) -> None:
    lowering = here(name)
    xs = drawn(1, shapes)
    w = np.random.default_rng(3).normal(size=np.shape(f(*xs)))
    q = asked(lambda *xs: np.sum(w * f(*xs)), xs)
    new, _ = kinds(q) - met, met.update(kinds(q))
    if name == "jax" and not new:  # which compiles each operation for each shape
        return
    gaps = {line[0].name for line in q.lines if line[0] is not None} - set(lowering.table)
    try:
        assert excess(name, q) <= 1
    except NotSupported as missing:
        assert missing.what in {f"{name} has no {gap}" for gap in gaps}
