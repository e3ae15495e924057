"""Layouts: steps, result, indices, code and JSON have one and the same derivative, or its transpose."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gradcli.targets.expression import Expression
from tests.rows import for_rows

SIZES = {"m": 3, "n": 4}
PROBLEMS = [  # a function, the shapes, the input, how many axes the result has
    ("sum((A@x - b)**2)", "A: m n; x: n; b: m", "x", 0),
    ("sum((A@x - b)**2)", "A: m n; x: n; b: m", "A", 0),
    ("x@B@x",             "B: n n; x: n",       "B", 0),
    ("trace(B@B@B)",      "B: n n",             "B", 0),
    ("tanh(A@x)",         "A: m n; x: n",       "x", 1),
    ("tanh(A@x)",         "A: m n; x: n",       "A", 1),
    ("A@tanh(A.T@b)",     "A: m n; b: m",       "b", 1),
    ("log(y)*x",          "x: n; y:",           "y", 1),
]  # fmt: skip


def _point(shapes: str) -> dict[str, Any]:
    rng = np.random.default_rng(3)
    named = (part.partition(":") for part in shapes.split(";"))
    return {n.strip(): rng.uniform(0.5, 1.5, [SIZES[d] for d in own.split()])[()] for n, _, own in named}


def _value(text: str, known: Mapping[str, Any]) -> Any:
    f = Expression(text)
    return np.asarray(f({n: known[n] for n in f.inputs}))


@for_rows(("f", "shapes", "wrt", "outputs"), PROBLEMS, parts=4)
def test_all_forms_have_one_layout(gradcli: Callable[..., Any], f: str, shapes: str, wrt: str, outputs: int) -> None:
    at = _point(shapes)
    known = at | {n: np.float64(k) for n, k in SIZES.items()}
    found = {}
    for layout in ("mixed", "numerator", "denominator"):
        ran = gradcli("derive", f, "--shapes", shapes, "--wrt", wrt, "--layout", layout, "--json").json
        assert ran["layout"].startswith(f"{layout}: ")
        (result,) = ran["results"]
        value = _value(result["formula"]["expression"], known)
        scope: dict[str, Any] = {}
        exec(result["code"]["numpy"], scope)  # generated code, which is what is tested
        np.testing.assert_allclose(scope[result["kind"]](**at), value)
        own, last = dict(known), ""
        for step in result["steps"]:
            last, _, text = step["after"].partition(" = ")
            if step["rule"] == "name":
                own[last] = _value(text, own)
        assert last.startswith("G") and result["index"].startswith("G")
        if last == "G":
            np.testing.assert_allclose(_value(text, own), value)
        found[layout] = value
    inputs = np.ndim(at[wrt])
    turned = np.moveaxis(found["mixed"], range(-inputs, 0), range(inputs)) if inputs else found["mixed"]
    np.testing.assert_allclose(found["denominator"], turned if outputs else found["mixed"])
    np.testing.assert_allclose(found["numerator"], found["mixed"] if outputs else found["mixed"].T)


def test_a_gradient_by_a_vector_is_a_row_in_numerator_layout_in_the_steps_too(gradcli: Callable[..., Any]) -> None:
    ran = gradcli(
        "derive", "sum((A@x - b)**2)", "--shapes", "A: m n; x: n; b: m", "--wrt", "x", "--layout", "numerator", "--json"
    )
    (result,) = ran.json["results"]
    assert result["steps"][-1]["unicode"] == "G = 2 t1ᵀ A" and result["formula"]["unicode"] == "∂f/∂x = 2 (A x - b)ᵀ A"
    assert result["steps"][-1]["before"] == "df = G@dx"


def test_entries_say_which_index_is_whose(gradcli: Callable[..., Any]) -> None:
    argv = ("derive", "tanh(A@x)", "--shapes", "A: m n; x: n", "--wrt", "A", "--json", "--layout")
    left = [
        gradcli(*argv, layout).json["results"][0]["formula"]["unicode"].partition(" =")[0]
        for layout in ("numerator", "denominator")
    ]
    assert left == ["∂f[i]/∂A[j,k]", "∂f[k]/∂A[i,j]"]


def test_an_answer_has_the_layout(gradcli: Callable[..., Any]) -> None:
    argv = ("derive", "tanh(A@x)", "--shapes", "A: m n; x: n", "--wrt", "x", "--answer", "A.T*(1 - tanh(A@x)**2)")
    assert gradcli(*argv, "--layout", "denominator").exit_status == 0
    assert gradcli(*argv).exit_status == 1
