"""Every public function of numpy has its place: primitive, composite, constant, or refused with a reason."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gradcli.arithmetic.recorded_program import vjp
from gradcli.errors import NoRule
from gradcli.rules.constants import MODULES, REFUSED, refused
from gradcli.tracing.primitive import HANDLERS, handler_of
from tests.rows import for_rows
from tests.rules.numpy_partition import CREATED, NO_VALUES, STAND_INS, group_functions, public_functions

PLACES = {"primitive", "composite", "constant", "refused"}
RAISING = {"linalg.eig", "linalg.eigvals"}  # their handler raises, and says more
X = np.array([0.5, 1.5, -2.0])


def test_every_public_function_is_in_exactly_one_place() -> None:
    strays = {name for name, _ in public_functions()} - set(group_functions()) - set(NO_VALUES.split())
    assert strays == set()
    assert set(group_functions().values()) == PLACES


def test_no_function_is_listed_twice() -> None:
    names = [name for reason in REFUSED for name in reason.names.split()]
    listed = Counter(names + CREATED.split() + STAND_INS.split() + NO_VALUES.split())
    assert [name for name, times in listed.items() if times > 1] == []


def test_what_is_listed_is_not_handled_as_well() -> None:
    handled = {name for name, function in public_functions() if function in HANDLERS}
    assert handled & (set(refused()) | set(CREATED.split()) | set(NO_VALUES.split())) == RAISING


def test_every_ufunc_has_its_place() -> None:
    ufuncs = {name for name, function in public_functions() if isinstance(function, np.ufunc)}
    assert ufuncs <= set(group_functions())
    assert len(ufuncs) > 90


def test_most_of_numpy_has_a_derivative() -> None:
    counts = Counter(group_functions().values())
    assert counts["primitive"] > 60 and counts["composite"] > 180
    assert counts["refused"] < 60


@for_rows("name", sorted(refused()))
def test_a_refused_function_says_why_and_what_to_write(name: str) -> None:
    prefix, _, last = name.rpartition(".")
    function = getattr(MODULES[prefix + "." if prefix else ""], last, None)
    if function is None:
        pytest.skip("this numpy does not have it")
    with pytest.raises(NoRule) as caught:
        handler_of(function)(X)
    assert len(caught.value.what) > 20 and caught.value.do


CALLS: dict[str, Callable[[Any], Any]] = {
    "nextafter": lambda x: np.nextafter(x, 1.0),
    "spacing": lambda x: np.spacing(x),
    "bitwise_and": lambda x: np.bitwise_and(x, 1),
    "histogram": lambda x: np.histogram(x),
    "setdiff1d": lambda x: np.setdiff1d(x, [1.0]),
    "roots": lambda x: np.roots(x),
    "lexsort": lambda x: np.lexsort((x, x)),
    "trim_zeros": lambda x: np.trim_zeros(x),
    "save": lambda x: np.save("nowhere", x),
    "isnat": lambda x: np.isnat(x),
}


@for_rows("name", CALLS)
def test_a_refused_call_names_the_function(name: str) -> None:
    with pytest.raises(NoRule, match=f"{name} has no derivative rule: "):
        vjp(CALLS[name], [X])
