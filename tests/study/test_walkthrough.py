"""`trace`: forward values, local partials, adjoints and how they were summed."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.rows import for_rows

EXAMPLE = ("v3 = x1 + x2; v3 * x1", "x1=3", "x2=4")


@pytest.fixture(name="nodes")
def _nodes(gradcli: Callable[..., Any]) -> Callable[..., dict[str, Any]]:
    def nodes(*argv: str) -> dict[str, Any]:
        return {node["name"]: node for node in gradcli("trace", *argv, "--json").json["nodes"]}

    return nodes


def test_the_worked_example_forward(nodes: Callable[..., Any]) -> None:
    found = nodes(*EXAMPLE)
    assert [(n["name"], n["operation"], n["value"]) for n in found.values()] == [
        ("x1", "input", 3.0),
        ("x2", "input", 4.0),
        ("v3", "add", 7.0),
        ("result", "multiply", 21.0),
    ]


def test_the_worked_example_back(nodes: Callable[..., Any]) -> None:
    found = nodes(*EXAMPLE)
    assert {name: node["adjoint"] for name, node in found.items()} == {"result": 1.0, "v3": 3.0, "x2": 3.0, "x1": 10.0}
    assert found["v3"]["partials"] == {"x1": 1.0, "x2": 1.0}
    assert found["result"]["partials"] == {"v3": 3.0, "x1": 7.0}


def test_the_worked_example_sums_its_contributions(nodes: Callable[..., Any]) -> None:
    assert nodes(*EXAMPLE)["x1"]["contributions"] == [
        {"from": "v3", "adjoint": 3.0, "partial": 1.0, "product": 3.0, "formula": "dL/dv3", "rule": "1"},
        {
            "from": "result",
            "adjoint": 1.0,
            "partial": 7.0,
            "product": 7.0,
            "formula": "(dL/dresult) * v3",
            "rule": "v3",
        },
    ]


def test_nodes_have_the_keys_of_the_contract(nodes: Callable[..., Any]) -> None:
    wanted = {"id", "name", "operation", "inputs", "value", "adjoint", "partials", "contributions", "line"}
    assert all(wanted <= set(node) for node in nodes(*EXAMPLE).values())


# fmt: off
EXPRESSIONS = [
    ("x*x + sin(x*x)", "x=2"),
    ("u = x*x; u = u + x; u*u", "x=2"),
    ("sigmoid(w*x + b)", "w=2", "x=1", "b=-1"),
    ("sum(tanh(W@x)**2)", "W=randn(3,4)", "x=randn(4)"),
    ("sum(x[1:]*x[:2])/norm(x)", "x=[1,2,3]"),
    ("[x*y, x + y]", "x=3", "y=2"),
    ("x if x > 0 else -x", "x=-2"),
]
# fmt: on


@for_rows("argv", EXPRESSIONS)
def test_the_adjoints_of_the_inputs_are_the_gradient(gradcli: Callable[..., Any], argv: tuple) -> None:
    document = gradcli("trace", *argv, "--json").json
    total = (f"sum({argv[0]})" if ";" not in argv[0] else argv[0], *argv[1:])
    gradient = gradcli("grad", *total, "--json").json["gradient"]
    adjoints = {node["name"]: node["adjoint"] for node in document["nodes"] if node["operation"] == "input"}
    assert set(adjoints) == set(gradient)
    for name, adjoint in adjoints.items():
        np.testing.assert_allclose(adjoint, gradient[name], rtol=1e-13)


@for_rows("argv", EXPRESSIONS)
def test_every_adjoint_is_the_sum_of_its_contributions(gradcli: Callable[..., Any], argv: tuple) -> None:
    nodes = gradcli("trace", *argv, "--json").json["nodes"]
    used = [node for node in nodes if node["contributions"]]
    assert used
    for node in used:
        total = sum(np.asarray(part["product"]) for part in node["contributions"])
        np.testing.assert_allclose(total, node["adjoint"], rtol=1e-13)


@for_rows("argv", EXPRESSIONS)
def test_nodes_come_in_order_and_have_names_of_their_own(gradcli: Callable[..., Any], argv: tuple) -> None:
    nodes = gradcli("trace", *argv, "--json").json["nodes"]
    names = [node["name"] for node in nodes]
    kinds = [node["operation"] == "input" for node in nodes]
    assert [node["id"] for node in nodes] == list(range(len(nodes)))
    assert len(set(names)) == len(names)
    assert kinds == sorted(kinds, reverse=True)
    assert names[-1] == "result"


def test_a_node_used_twice_by_one_operation_contributes_twice(nodes: Callable[..., Any]) -> None:
    found = nodes("x*x", "x=3")
    assert [part["product"] for part in found["x"]["contributions"]] == [3.0, 3.0]
    assert found["result"]["partials"] == {"x": 6.0}
    assert found["x"]["adjoint"] == 6.0


def test_names_given_again_are_numbered(nodes: Callable[..., Any]) -> None:
    found = nodes("u = x*x; u = u + x; u*u", "x=2")
    assert [name for name in found if name.startswith("u")] == ["u₁", "u₂"]
    assert found["u₂"]["inputs"] == ["u₁", "x"]


def test_a_literal_is_not_an_input_of_the_same_value(nodes: Callable[..., Any]) -> None:
    found = nodes("3*x + y*x*3", "x=2", "y=3", "--wrt", "x")
    assert [node["inputs"] for node in found.values()][1:4] == [["3.0", "x"], ["y", "x"], ["t2", "3.0"]]


MODULE = """import numpy as np


def softmax(z):
    e = np.exp(z)
    return e / e.sum()


def f(x):
    p = softmax(x * 2)
    s = 0.0
    for k in range(2):
        s = s * p[k] + x[k]
    m = (
        x[1:]
        * p[1:]
    ).mean()
    m += np.linalg.multi_dot([np.outer(x, x), np.ones((3, 3)), x])[0] * np.prod(x[:2])
    return s + m
"""


def test_each_line_of_python_says_what_is_computed_and_named_there(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "f.py").write_text(MODULE)
    made = gradcli("trace", f"{tmp_path}/f.py:f", "x=[1,2,3.5]", "--json").json["nodes"]
    # fmt: off
    assert [(node["name"], node.get("text")) for node in made] == [
        ("x", None), ("t1", "x * 2"), ("e", "np.exp(z)"), ("t2", "e.sum()"), ("t3", "e / e.sum()"),
        ("t4", "p[k]"), ("t5", "s * p[k]"), ("t6", "x[k]"), ("s₁", "s * p[k] + x[k]"),
        ("t7", "p[k]"), ("t8", "s * p[k]"), ("t9", "x[k]"), ("s₂", "s * p[k] + x[k]"),
        ("t10", "x[1:]"), ("t11", "p[1:]"), ("t12", "x[1:] * p[1:]"), ("m₁", "( x[1:] * p[1:] ).mean()"),
        ("t13", "np.outer(x, x)"), ("t14", "3x3 [1, 1, 1, 1, ... 9 entries] @ x"),
        ("t15", "np.linalg.multi_dot([np.outer(x, x), np.ones((3, 3)), x])"),
        ("t16", "np.linalg.multi_dot([np.outer(x, x), np.ones((3, 3)), x])[0]"), ("t17", "x[:2]"), ("t18", "np.prod(x[:2])"),
        ("t19", "np.linalg.multi_dot([np.outer(x, x), np.ones((3, 3)), x])[0] * np.prod(x[:2])"),
        ("m₂", "m + np.linalg.multi_dot([np.outer(x, x), np.ones((3, 3)), x])[0] * np.prod(x[:2])"), ("result", "s + m"),
    ]
    # fmt: on


def test_unnamed_steps_are_numbered_and_the_last_is_the_result(nodes: Callable[..., Any]) -> None:
    assert list(nodes("sin(x) + cos(x)", "x=1")) == ["x", "t1", "t2", "result"]


def test_a_named_result_keeps_its_name(nodes: Callable[..., Any]) -> None:
    assert list(nodes("a = x**2; loss = a + 1", "x=1"))[-1] == "loss"


def test_linear_operations_on_arrays_name_the_transpose(nodes: Callable[..., Any]) -> None:
    (product,) = (
        n for n in nodes("sum((W@X)**2)", "W=randn(2,3)", "X=randn(3,2)").values() if "matmul" in n["operation"]
    )
    assert product["partials"] == {"W": "transpose of matmul", "X": "transpose of matmul"}


def test_elementwise_operations_on_arrays_have_arrays_of_partials(nodes: Callable[..., Any]) -> None:
    found = nodes("sum(x**2)", "x=[1,2]")
    assert found["t1"]["partials"] == {"x": [2.0, 4.0]}
    assert found["result"]["partials"] == {"t1": [1.0, 1.0]}


def test_a_step_says_what_the_user_wrote_and_its_line(nodes: Callable[..., Any]) -> None:
    found = nodes("a = x + 1\nb = a * x\nb", "x=1")
    assert [(found[name]["text"], found[name]["line"]) for name in ("a", "b")] == [("x + 1", 1), ("a * x", 2)]


# fmt: off
FINDINGS = [
    (("abs(x)", "x=0"),   "kink"),
    (("floor(x)", "x=1.5"), "staircase"),
    (("log(x)", "x=0"),   "non-finite"),
]
# fmt: on


@pytest.mark.parametrize(("argv", "kind"), FINDINGS)
def test_what_is_odd_at_the_point_is_said(gradcli: Callable[..., Any], argv: tuple, kind: str) -> None:
    ran = gradcli("trace", *argv, "--json")
    assert [finding["kind"] for finding in ran.json["findings"]] == [kind]
    assert f"{kind}: " in gradcli("trace", *argv).stdout


def test_a_smooth_point_has_no_findings(gradcli: Callable[..., Any]) -> None:
    assert gradcli("trace", *EXAMPLE, "--json").json["findings"] == []


NET = "h = tanh(W1@x + b); sum((W2@h - y)**2)", "--shapes", "W1: 3 2; x: 2; b: 3; W2: 2 3; y: 2"
# fmt: off
FORMULAS = [
    ("W1", ["(dL/dt1) xᵀ"]), ("x", ["W1ᵀ (dL/dt1)"]), ("b", ["dL/dt2"]), ("t2", ["(dL/dh) ∘ tanh'(t2)"]), ("h", ["W2ᵀ (dL/dt3)"]),
    ("W2", ["(dL/dt3) hᵀ"]), ("y", ["-(dL/dt4)"]), ("t4", ["(dL/dt5) ∘ 2 t4"]), ("t5", ["(dL/dresult) in every entry"]),
]
# fmt: on


@pytest.mark.parametrize(("name", "formulas"), FORMULAS)
def test_adjoints_are_written_in_matrices(nodes: Callable[..., Any], name: str, formulas: list[str]) -> None:
    assert [part["formula"] for part in nodes(*NET)[name]["contributions"]] == formulas


@pytest.mark.parametrize(
    ("f", "name", "formula"),
    [
        ("sum(a@B)", "B", "a (dL/dt1)ᵀ"), ("sum(a@B)", "a", "B (dL/dt1)"), ("a@c", "a", "(dL/dresult) * c"), ("sum(B*c)", "c", "sum of (dL/dt1) ∘ B"),
        ("sum(softmax(a))", "a", "softmax'(a)ᵀ (dL/dt1)"), ("sum(B/c)", "B", "(dL/dt1) / c"), ("sum(B.T)", "B", "(dL/dt1)ᵀ"),
    ],
)  # fmt: skip
def test_other_products_and_functions(nodes: Callable[..., Any], f: str, name: str, formula: str) -> None:
    sizes = {"a": "3", "B": "3 3", "c": "3"}
    names = re.findall(r"\b[aBc]\b", f)
    found = nodes(f, "--shapes", "; ".join(f"{n}: {sizes[n]}" for n in dict.fromkeys(names)))
    assert found[name]["contributions"][0]["formula"] == formula


def test_what_numpy_reshapes_for_a_product_is_no_step(nodes: Callable[..., Any]) -> None:
    assert [node["operation"] for node in nodes("sum(W@x)", "--shapes", "W: 2 3; x: 3").values()] == [
        "input", "input", "matmul", "sum",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "operations"),
    [
        ("x = np.tanh(x)", ["tanh"] * 3),
        ("x = A @ x", ["matmul"] * 3),
        ("x = x*x*x", ["multiply"] * 6),
        ("x = np.tanh(A @ x + 1)", ["matmul", "add", "tanh"] * 3),
    ],
)
def test_a_line_in_a_loop_is_a_step_each_time(
    nodes: Callable[..., Any], tmp_path: Path, line: str, operations: list[str]
) -> None:
    file = tmp_path / "loops.py"
    file.write_text(
        "import numpy as np\n\nA = np.array([[1.0, 0.2], [0.1, 0.5]])\n\n"
        f"def loss(x):\n    for _ in range(3):\n        {line}\n    return np.sum(x)\n"
    )
    found = nodes(f"{file}:loss", "--at", "x=[0.3,0.4]")
    assert [node["operation"] for node in found.values()] == ["input", *operations, "sum"]


def test_a_python_function_keeps_its_names(nodes: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "net.py"
    file.write_text(
        "import numpy as np\n\ndef loss(W, x):\n    z = W @ x\n    a = np.tanh(z)\n    return np.sum(a ** 2)\n"
    )
    found = nodes(f"{file}:loss", "--shapes", "W: 3 2; x: 2")
    assert list(found) == ["W", "x", "z", "a", "t1", "result"]
    assert found["W"]["contributions"][0]["formula"] == "(dL/dz) xᵀ"


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ("q, r = np.linalg.qr(A); return np.trace(r) + np.sum(q**2 * A)", {"q", "r"}),
        ("u, s, vt = np.linalg.svd(A); return np.sum(2*s) + np.sum(u @ vt)", {"u", "s", "vt"}),
        ("(a, b), c = (A[0], 2*A[1]), A[1, 1]; return np.sum(a*b)*c", {"a", "b", "c"}),
    ],
)
def test_values_that_are_unpacked_keep_their_names(
    nodes: Callable[..., Any], tmp_path: Path, body: str, names: set[str]
) -> None:
    code = "import numpy as np\n\n\ndef f(A):\n" + "".join(f"    {line}\n" for line in body.split("; "))
    (tmp_path / "unpacked.py").write_text(code)
    found = nodes(f"{tmp_path / 'unpacked.py'}:f", "A=[[2, 1], [0.5, 3]]")
    assert names <= set(found)
    parts = [node["text"] for node in found.values() if node["name"] in names and "linalg" in body]
    assert not any("np.linalg" in text for text in parts)  # each is a part of what the call returns


def test_wrt_keeps_the_names_of_what_is_held(nodes: Callable[..., Any]) -> None:
    found = nodes(*NET, "--wrt", "W1")
    assert "x" not in found
    assert found["W1"]["contributions"][0]["formula"] == "(dL/dt1) xᵀ"
    assert found["h"]["contributions"][0]["formula"] == "W2ᵀ (dL/dt3)"


RESULTS = """
import numpy as np

def continued(x):
    y = x * x
    z = np.sin(y)
    return y

def given(x, w):
    z = x * w
    return w

def constant(x):
    z = np.sin(x)
    return 3.0
"""


@pytest.mark.parametrize(("name", "point", "result", "value", "adjoints"), [
    ("continued", ("x=2",), "y", 4.0, {"x": 4.0, "y": 1.0}), ("given", ("x=2", "w=3"), "w", 3.0, {"x": 0.0, "w": 1.0}),
    ("constant", ("x=2",), None, 3.0, {"x": 0.0}),
])  # fmt: skip
def test_the_result_is_what_is_returned(
    gradcli: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, point: tuple[str, ...],
    result: str | None, value: float, adjoints: dict[str, float],
) -> None:  # fmt: skip
    (tmp_path / "results.py").write_text(RESULTS)
    monkeypatch.chdir(tmp_path)
    found = gradcli("trace", f"results.py:{name}", *point, "--json").json
    assert (found.get("result"), found["value"]) == (result, value)
    assert {node["name"]: node["adjoint"] for node in found["nodes"]} == adjoints
    text = gradcli("trace", f"results.py:{name}", *point).stdout
    assert f"L is {result or 'f'}" in text and ("does not depend" in text) == (result is None)


@for_rows("form", ["text", "json", "markdown", "html", "csv", "mermaid", "svg"])
def test_a_target_without_an_input_is_a_constant(gradcli: Callable[..., Any], form: str) -> None:
    assert gradcli("trace", "x=[1,2]", "--format", form).exit_status == 0


def test_an_operation_has_its_column(nodes: Callable[..., Any]) -> None:
    found = nodes("a = x*x;  a + x*x", "x=3")
    assert [(node["text"], node["column"]) for node in found.values() if "column" in node] == [
        ("x*x", 5), ("x*x", 15), ("a + x*x", 11),
    ]  # fmt: skip


def test_a_long_sum_is_traced_without_reading_its_text_again_for_each_term(
    gradcli: Callable[..., Any], tmp_path: Path
) -> None:
    ran = gradcli("trace", "x" + " + sin(x)" * 1500, "x=1", "-q", "-o", str(tmp_path / "page.html"))
    assert ran.exit_status == 0 and (tmp_path / "page.html").stat().st_size < 200_000
