"""Closed forms of functions beyond those of textbooks."""

import gradcli
from tests.rows import for_rows


@for_rows(
    ("f", "shapes", "wrt", "order", "shown"),
    [
        ("log(1 + sum(exp(z)))", "z: n", "z", 1, "∂f/∂z = exp(z) / (1 + sum(exp(z)))"),
        ("log(2 + sum(exp(2*z)))", "z: n", "z", 1, "∂f/∂z = 2 exp(2 z) / (2 + sum(exp(2 z)))"),
        ("sum(gamma(x))", "x: n", "x", 1, "∂f/∂x = gamma(x) ∘ digamma(x)"),
        ("sum(gammaln(x))", "x: n", "x", 2, "∂²f/∂x² = diag(polygamma(1, x))"),
        ("beta(a, b)", "a:; b:", "a", 1, "∂f/∂a = beta(a, b) (digamma(a) - digamma(a + b))"),
        ("j0(x)", "x:", "x", 1, "∂f/∂x = -j1(x)"),
        ("norm(X)", "X: m n", "X", 1, "∂f/∂X = X / ‖X‖"),
    ],
)
def test_closed_forms_of_further_functions(f: str, shapes: str, wrt: str, order: int, shown: str) -> None:
    sizes = {name.strip(): dims.strip() for name, dims in (part.split(":") for part in shapes.split(";"))}
    (result,) = gradcli.derive(f, shapes=sizes, wrt=wrt, order=order).results
    assert result.formula.unicode == shown and result.check.verdict == "pass"


def test_a_symmetric_inverse_is_not_transposed() -> None:
    f = "0.5*log(det(S)) + 0.5*(x-u)@inv(S)@(x-u)"
    sizes = {"S": "n n", "x": "n", "u": "n"}
    (result,) = gradcli.derive(f, shapes=sizes, assume={"S": "spd"}, wrt="S").results
    assert result.formula.unicode == "u1 = S⁻¹ (x - u); ∂f/∂S = 0.5 S⁻¹ - 0.5 u1 u1ᵀ"


def test_what_has_no_matrix_form_as_it_was_found_has_one_with_indices() -> None:
    f, sizes = "sum(softmax(einsum('hnd,hmd->hnm', Q, K), axis=-1)*M)", {"Q": "h n d", "K": "h m d", "M": "h n m"}
    (result,) = gradcli.derive(f, shapes=sizes, wrt="Q").results
    assert result.formula.unicode.startswith("∂f/∂Q[i,j,k] = sum_l ") and "einsum" in result.formula.expression


def test_a_triangle_inside_an_inverse_has_its_name() -> None:
    (result,) = gradcli.derive("L = tril(A); logdet(L@L.T)", shapes={"A": "n n"}, wrt="A").results
    assert result.formula.unicode == "L = tril(A); ∂f/∂A = 2 tril((L Lᵀ)⁻¹ L)"


def test_a_huge_number_is_a_power_of_ten() -> None:
    f, sizes = "sum(R*scaled_dot_product_attention(Q, K, V, is_causal=True))", dict.fromkeys("QKVR", "n d")
    (result,) = gradcli.derive(f, shapes=sizes, wrt="Q").results
    assert "10³⁰⁰" in result.formula.unicode and "0000000" not in result.formula.unicode


@for_rows(
    ("f", "shapes", "wrt", "lines"),
    [
        (
            "x@A@x", {"A": "n n", "x": "n"}, "x",
            [
                "read off: G[i] = sum_j,k x[j]*A[j,k]*delta[k,i] + sum_j,k A[j,k]*x[k]*delta[j,i]",
                "Kronecker delta: G[i] = sum_j x[j]*A[j,i] + sum_j A[i,j]*x[j]",
                "collect: G[i] = sum_j (A[i,j] + A[j,i])*x[j]",
            ],
        ),
        (
            "trace(A@X)", {"A": "n m", "X": "m n"}, "X",
            [
                "read off: G[i,j] = sum_k,l A[k,l]*delta[l,i]*delta[k,j]",
                "Kronecker delta: G[i,j] = A[j,i]",
            ],
        ),
        ("x**2*y", {"x": "", "y": ""}, "x", ["read off: G = 2*y*x"]),
    ],
)  # fmt: skip
def test_indices_are_read_off_with_kronecker_deltas(f: str, shapes: dict[str, str], wrt: str, lines: list[str]) -> None:
    (result,) = gradcli.derive(f, shapes=shapes, wrt=wrt, style="index").results
    assert [f"{step.rule}: {step.after}" for step in result.steps[-len(lines) :]] == lines


def test_python_takes_shapes_and_assumptions_as_the_command_line_does() -> None:
    by_name = gradcli.derive("x @ A @ x", {"A": "n n", "x": "n"}, assume={"A": "symmetric"}, wrt="x")
    by_text = gradcli.derive("x @ A @ x", "A: n n; x: n", assume="A: symmetric", wrt="x")
    assert by_text.results == by_name.results
