"""The language has what Python code has: every function with a rule or a handler, but for those listed with a reason."""

import inspect

import numpy as np
import pytest

from gradcli.errors import BadExpression
from gradcli.rules import networks
from gradcli.rules.special import COMPOSITES, SAME, WHY
from gradcli.targets.expression import COMPUTED, NOT_TAKEN, STATIC, STATIC_OF, VALUES_OF, Expression, is_static
from gradcli.targets.limits import ENTRIES, STEPS
from gradcli.targets.names import ALIASES, FUNCTIONS, LEFT_OUT, OF_TORCH, REASONS, call_signature
from gradcli.tracing.primitive import HANDLERS, PRIMITIVES
from tests.rows import for_rows

KNOWN = {
    *(getattr(function, "__name__", "") for function in HANDLERS), *PRIMITIVES, *COMPOSITES, *SAME, *WHY,
}  # fmt: skip
SIZES = {  # parameters that make a result larger than the arguments, or a call longer
    "n", "N", "num", "reps", "pad_width", "new_shape", "window_shape", "shape", "repeats", "m", "deg", "num_classes",
    "indices_or_sections", "d",
}  # fmt: skip
BOUNDED = {  # functions that have such a parameter, and no count of their own
    "broadcast_to", "repeat",  # in limits.py
    "angle",  # deg is a choice between degrees and radians
    "linspace", "matrix_power",  # a count of squarings
    "reshape",  # as many entries as before
    "binom", "cov", "fliplr", "flipud", "flip", "tril", "triu", "rot90", "median", "onehot",
}  # fmt: skip


def test_every_function_with_a_derivative_is_in_the_language_or_has_a_reason() -> None:
    strays = {name for name in KNOWN if name not in FUNCTIONS and name not in REASONS}
    assert strays == set()


def test_no_reason_is_given_for_what_is_in_the_language_or_has_no_derivative() -> None:
    assert set(REASONS) & set(FUNCTIONS) == set()
    assert set(REASONS) <= KNOWN


def test_no_function_has_two_reasons() -> None:
    names = [name for row in LEFT_OUT for name in row.names.split()]
    assert sorted(names) == sorted(set(names))


def test_most_functions_are_in_the_language() -> None:
    assert len(FUNCTIONS) > 450
    assert len(REASONS) < 80


@for_rows("name", sorted(REASONS))
def test_a_call_of_what_is_left_out_says_why_and_what_to_write(name: str) -> None:
    with pytest.raises(BadExpression, match=f"^'{name}' is not part of the language: {REASONS[name].why}") as caught:
        Expression(f"{name}(x)")
    assert caught.value.do and caught.value.where is not None


@for_rows(
    ("name", "says"),
    [
        ("np.histogram", "'histogram' is not part of the language: counts jump where a value crosses an edge"),
        ("np.roots", "'roots' is not part of the language: roots and eigenvalues of a matrix"),
        ("scipy.special.zeta", "unknown function 'scipy.special.zeta'"),
        ("np.load", "'load' is not part of the language|unknown function 'np.load'"),
        ("zzzz", "unknown function 'zzzz'"),
    ],
)
def test_a_call_of_what_is_unknown_says_what_is_known_of_it(name: str, says: str) -> None:
    with pytest.raises(BadExpression, match=f"^({says})") as caught:
        Expression(f"{name}(x)")
    assert caught.value.do


def test_an_alias_is_the_function_that_it_names() -> None:
    for alias, name in ALIASES.items():
        assert FUNCTIONS[alias] is FUNCTIONS[name], alias


def test_every_layer_and_loss_is_in_the_language_and_says_what_it_returns() -> None:
    for name, function in vars(networks).items():
        if inspect.isfunction(function) and function.__module__ == networks.__name__ and not name.startswith("_"):
            assert FUNCTIONS[name] is function
            assert (function.__doc__ or "").startswith("Return ")


def test_a_name_of_torch_that_scipy_has_too_is_the_one_of_its_prefix() -> None:
    assert FUNCTIONS["kl_div"] is PRIMITIVES["kl_div"] is not OF_TORCH["F"]["kl_div"]


def signatures() -> dict[str, list[str]]:
    return {
        name: list(found.parameters) for name in FUNCTIONS if (found := call_signature(FUNCTIONS[name])) is not None
    }


def test_every_parameter_that_is_named_as_data_belongs_to_a_function() -> None:
    of_torch = [call_signature(function) for names in OF_TORCH.values() for function in names.values()]
    named = {parameter for parameters in signatures().values() for parameter in parameters}
    named |= {parameter for found in of_torch if found is not None for parameter in found.parameters}
    assert STATIC - named <= {"newshape", "to"}  # of other versions of numpy, and of rows of the table
    assert COMPUTED <= STATIC
    shown = {
        name: set(found.parameters)
        for name, f in OF_TORCH["F"].items() | OF_TORCH["torch"].items()
        if (found := call_signature(f))
    }
    known = {name: {*parameters} | shown.get(name, set()) for name, parameters in signatures().items()}
    assert all(parameter in known[name] for name, parameter in STATIC_OF | VALUES_OF)
    assert NOT_TAKEN & {p for name, p in STATIC_OF} <= {"full"}


def test_every_function_with_a_size_among_its_parameters_is_counted() -> None:
    open_ = {
        name
        for name, parameters in signatures().items()
        if any(p in SIZES and is_static(ALIASES.get(name, name), p) for p in parameters)
        and FUNCTIONS[name] not in ENTRIES
        and FUNCTIONS[name] not in STEPS
    }
    constructors = {"zeros", "ones", "full", "eye", "identity", "onehot", "tri", "fftfreq", "rfftfreq"}
    assert open_ - constructors <= BOUNDED, sorted(open_ - constructors - BOUNDED)


def test_numpys_ufuncs_are_rows_where_they_have_one() -> None:
    assert FUNCTIONS["sin"] is PRIMITIVES["sin"]
    assert FUNCTIONS["sort"] is np.sort
