"""Figures that texts on backpropagation give on cost: each is reproduced, or shown to be off by arithmetic."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.rows import for_rows

Gradcli = Callable[..., Any]
GIGA = 10**9
BLOCK = """
import numpy as np

def softmax(s):
    e = np.exp(s - np.max(s, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)

def norm(x):
    centred = x - np.mean(x, axis=-1, keepdims=True)
    return centred / np.sqrt(np.mean(centred * centred, axis=-1, keepdims=True) + 1e-5)

def gelu(x):
    return 0.5 * x * (1 + np.tanh(0.79788 * (x + 0.044715 * x * x * x)))

def attention(x, Q, K, V, O, h):
    b, n, d = x.shape
    heads = lambda y: np.transpose(np.reshape(y, (b, n, h, d // h)), (0, 2, 1, 3))
    weights = softmax(heads(x @ Q) @ np.swapaxes(heads(x @ K), -1, -2) / np.sqrt(d // h))
    return np.reshape(np.transpose(weights @ heads(x @ V), (0, 2, 1, 3)), (b, n, d)) @ O

def block(x, Q, K, V, O, W1, W2, h=12):
    x = x + attention(norm(x), Q, K, V, O, h)
    return x + gelu(norm(x) @ W1) @ W2

def loss(x, Q, K, V, O, W1, W2, h=12):
    return np.mean(block(x, Q, K, V, O, W1, W2, h) ** 2)

def deep(x, Q, K, V, O, W1, W2, L=6, h=12):
    for _ in range(L):
        x = block(x, Q, K, V, O, W1, W2, h)
    return np.mean(x ** 2)
"""
POINT = "x=randn(b, n, d), Q=randn(d, d), K=randn(d, d), V=randn(d, d), O=randn(d, d), W1=randn(d, f), W2=randn(f, d)"
WEIGHTS = "Q,K,V,O,W1,W2"


def cost(gradcli: Gradcli, *argv: str) -> Any:
    ran = gradcli("cost", *argv, "--json")
    assert ran.exit_status == 0, ran.stderr
    return ran.json


def passes(document: Any) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in document["passes"]}


def memory(document: Any) -> dict[str, float]:
    return {row["name"]: row["bytes"] / GIGA for row in document["memory"]}


def kept(document: Any) -> float:
    return sum(row["bytes"] for row in document["kept"]) / GIGA


# Passes


@for_rows(("model", "parameters"), [("gpt-3", 175e9), ("llama-2-70b", 69e9), ("bert-base", 110e6), ("vit-b-16", 86e6)])
def test_published_models_have_their_published_parameters(gradcli: Gradcli, model: str, parameters: float) -> None:
    assert cost(gradcli, "--model", model)["parameters"] == pytest.approx(parameters, rel=0.01)


def test_counts_of_published_weights_are_exact(gradcli: Gradcli) -> None:
    exact = {"llama-2-70b": 68_976_648_192, "llama-2-7b": 6_738_415_616, "bert-base": 109_482_240, "vit-b-16": 86_567_656,
             "gpt-2": 124_439_808}  # fmt: skip
    assert {name: cost(gradcli, "--model", name)["parameters"] for name in exact} == exact


def test_a_gradient_takes_n_plus_1_forward_2n_central_n_tangents_or_one_pass_each_way(gradcli: Gradcli) -> None:
    found = passes(cost(gradcli, "sum(tanh(w)**2)", "--shapes", "w: N", "--sizes", "N=175e9"))
    n = 175 * GIGA
    both = lambda name: (found[name]["forward"], found[name]["backward"])
    assert both("forward differences") == (n + 1, 0) and both("central differences") == (2 * n, 0)  # 175e9 and 350e9
    assert both("forward mode") == (n, 0) and both("reverse mode") == (1, 1)


def test_seventy_billion_parameters_at_half_a_second_take_1100_years(gradcli: Gradcli) -> None:
    row = passes(cost(gradcli, "sum(w**2)", "--shapes", "w: N", "--sizes", "N=7e10", "--pass-time", "0.5s"))
    assert row["forward differences"]["seconds"] == pytest.approx(3.5e10)
    assert row["forward differences"]["seconds"] / (365.25 * 86400) == pytest.approx(1100, rel=0.01)


def test_a_jacobian_takes_n_forward_or_m_reverse_sweeps_and_fewer_operations_are_counted(gradcli: Gradcli) -> None:
    document = cost(gradcli, "tanh(W@x)", "--shapes", "W: m n; x: n", "--sizes", "m=10, n=1000", "--wrt", "x")
    rows, columns = (passes(document)[name] for name in ("reverse mode, by rows", "forward mode, by columns"))
    assert (rows["backward"], columns["forward"]) == (10, 1000)
    assert rows["operations"] < columns["operations"] and "by rows (reverse mode)" in document["notes"][0]


@for_rows(("f", "shapes", "low", "high"), [
    ("sum((W2@tanh(W1@X))**2)", "W1: f d; W2: d f; X: d b", 2.9, 3.1),  # products: a backward pass is two forward ones
    ("sum(tanh(w)**2)", "w: d", 2, 3), ("prod(w)", "w: d", 2, 10),
])  # fmt: skip
def test_a_gradient_takes_two_to_four_times_f_but_for_prod(
    gradcli: Gradcli, f: str, shapes: str, low: float, high: float
) -> None:
    document = cost(gradcli, f, "--shapes", shapes, "--sizes", ", ".join(f"{n}=300" for n in "fdb" if n in shapes))
    assert low < passes(document)["reverse mode"]["ratio"] < high


def test_ten_layers_of_a_thousand_are_9e9_multiplied_out_and_1e7_as_products(gradcli: Gradcli, tmp_path: Any) -> None:
    (tmp_path / "chain.py").write_text(
        "import numpy as np\n\ndef f(x, W, depth=10):\n    for k in range(depth):\n        x = np.tanh(W[k] @ x)\n    return x\n"
    )
    argv = (f"{tmp_path / 'chain.py'}:f", "--at", "x=randn(n), W=randn(depth, n, n)", "--wrt", "x")
    chain = cost(gradcli, *argv, "--sizes", "n=1000, depth=10")["chain"]
    assert chain["sizes"] == [1000] * 11 and chain["entries"] == 10**6
    assert chain["forward"] == chain["reverse"] == chain["best"] == 9 * GIGA
    assert chain["products"] == 1000 * 10**7  # 1e7 a row


# Bytes


@for_rows(("parameters", "dtype", "gigabytes"), [
    ("7e10", "bfloat16", 140), ("7e10", "float8", 70), ("175e9", "float32", 700), ("70e9", "float32", 280),
])  # fmt: skip
def test_parameters_and_their_gradients_take_bytes_by_their_format(
    gradcli: Gradcli, parameters: str, dtype: str, gigabytes: float
) -> None:
    held = memory(cost(gradcli, "sum(w**2)", "--shapes", "w: N", "--sizes", f"N={parameters}", "--dtype", dtype))
    assert held["parameters"] == held["gradients"] == gigabytes


@for_rows(("more", "adam"), [((), 280), (("--master", "float32"), 560)])
def test_adam_keeps_two_numbers_a_parameter(gradcli: Gradcli, more: tuple[str, ...], adam: float) -> None:
    argv = ("sum(w**2)", "--shapes", "w: N", "--sizes", "N=7e10", "--dtype", "bfloat16", "--optimizer", "adam", *more)
    held = memory(cost(gradcli, *argv))
    assert held["adam"] == adam
    if more:  # sixteen bytes a parameter
        names = ("parameters", "gradients", "copy of the parameters", "adam")
        assert sum(held[name] for name in names) == 16 * 70


def test_activations_of_a_large_model_are_more_than_100_gigabytes(gradcli: Gradcli) -> None:
    document = cost(gradcli, "--model", "llama-2-70b", "--batch", "4", "--seq", "4096", "--dtype", "bfloat16")
    weights = next(row["bytes"] for row in document["kept"] if row["name"] == "attention weights") / GIGA
    one = 80 * 4 * 4096 * 8192 * 2 / GIGA  # L b n d, one tensor a layer
    assert one == pytest.approx(21.5, abs=0.1) and kept(document) - weights > 100
    single = cost(gradcli, "--model", "llama-2-70b", "--seq", "4096", "--dtype", "bfloat16")
    assert 200 < kept(single) < 600  # with attention's matrices, one sequence


def test_350_gigabytes_are_a_trillion_parameters_bytes_and_no_activations_of_gpt_3(gradcli: Gradcli) -> None:
    """With 1,024 tokens a step they are below, with 1,024 sequences far above; 350 GB are its parameters in bfloat16."""
    tokens = cost(gradcli, "--model", "gpt-3", "--seq", "1024", "--dtype", "bfloat16")
    sequences = cost(gradcli, "--model", "gpt-3", "--batch", "1024", "--dtype", "bfloat16")
    assert kept(tokens) < 120 and kept(sequences) > 100_000
    assert memory(tokens)["parameters"] == pytest.approx(350, rel=0.01)


def test_one_tensor_a_layer_of_a_hundred_layers_is_54_gigabytes() -> None:
    from gradcli.study.accounting import SizePolynomial

    assert 2 * SizePolynomial.read("L b n d", ("L", "b", "n", "d")).at(
        {"L": 100, "b": 32, "n": 2048, "d": 4096}
    ) / GIGA == (pytest.approx(53.7, abs=0.1))


@pytest.mark.slow
def test_a_tensor_of_a_block_takes_50_megabytes_and_a_written_out_block_keeps_more_than_ten(
    gradcli: Gradcli, tmp_path: Any
) -> None:
    (tmp_path / "block.py").write_text(BLOCK)
    argv = (f"{tmp_path / 'block.py'}:loss", "--at", POINT, "--wrt", WEIGHTS, "--sizes", "b=32, n=512, d=768, f=3072")
    document = cost(gradcli, *argv)
    tensor = 32 * 512 * 768 * 4
    assert tensor == pytest.approx(50e6, rel=0.01)
    per_token = sum(row["bytes"] for row in document["kept"] if row["shape"][-1:] == [768]) / tensor
    inside = sum(row["bytes"] for row in document["kept"] if row["shape"][-1:] == [3072]) / tensor
    assert (
        5 <= per_token <= 10 and inside > 10
    )  # five to ten of the width itself; gelu written out keeps five of 4 d more
    assert 12 * kept(document) > 6  # so that twelve blocks take more than the 3 to 6 GB that texts give


# fmt: off
NEEDED = [("sigmoid(2*x)", {"expit"}), ("tanh(2*x)", {"tanh"}), ("2*x + 1", set()), ("(x + 1)*(x + 2)", {"add"})]
# fmt: on


@for_rows(("f", "names"), NEEDED)
def test_what_a_backward_pass_reads(gradcli: Gradcli, f: str, names: set[str]) -> None:
    document = cost(gradcli, f"sum({f})", "--shapes", "x: n", "--sizes", "n=50")
    assert {row["name"] for row in document["kept"]} == names
    mask = cost(gradcli, "sum(relu(x))", "--shapes", "x: n", "--sizes", "n=50")["kept"]
    assert [(row["mask"], row["bytes"]) for row in mask] == [(True, 50)]


@pytest.mark.slow
def test_checkpoints_of_a_hundred_layers_save_a_factor_of_five_for_a_forward_pass(
    gradcli: Gradcli, tmp_path: Any
) -> None:
    """2 sqrt(L) values are held, so that a hundred layers save a factor of 5, not 10; f is run once more, less one segment."""
    (tmp_path / "deep.py").write_text(
        "import numpy as np\n\ndef f(W, x, depth=100):\n    for k in range(depth):\n        x = W[k] @ x\n    return np.sum(x)\n"
    )
    argv = (
        f"{tmp_path / 'deep.py'}:f",
        "--at",
        "W=randn(depth, n, n), x=randn(n)",
        "--wrt",
        "W",
        "--sizes",
        "n=200, depth=100",
    )
    document = cost(gradcli, *argv)
    rows = {row["name"]: row for row in document["checkpoints"]}
    equal = next(row for name, row in rows.items() if "equal segments" in name)
    one = 200 * 4
    assert rows["everything kept"]["bytes"] == 100 * one
    assert rows["fewest bytes found"]["bytes"] <= 15 * one  # segments that become shorter: 14 = sqrt(2 L)
    assert 3.5 < rows["everything kept"]["bytes"] / equal["bytes"] < 6
    f = passes(document)["f"]["operations"]
    assert 0.7 * f < equal["operations"] < f


def test_running_blocks_again_costs_a_third_of_a_gradient(gradcli: Gradcli) -> None:
    rows = cost(gradcli, "--model", "llama-2-70b", "--dtype", "bfloat16")["checkpoints"]
    assert rows[1]["percent"] == pytest.approx(33.2, abs=0.2) and rows[1]["bytes"] < rows[0]["bytes"] / 20


@pytest.mark.slow
def test_attention_alone_run_again_frees_half_for_less_than_half_of_a_forward_pass(
    gradcli: Gradcli, tmp_path: Any
) -> None:
    (tmp_path / "block.py").write_text(BLOCK)
    at = (
        f"{tmp_path / 'block.py'}:deep",
        "--at",
        POINT,
        "--wrt",
        WEIGHTS,
        "--sizes",
        "b=4, n=1024, d=768, f=3072, L=6",
    )
    document = cost(gradcli, *at, "--checkpoint", "attention")
    rows = {row["name"].split()[0]: row for row in document["checkpoints"]}
    whole, named = rows["everything"], rows["attention"]
    assert named["segments"] == 6 and named["bytes"] < 0.55 * whole["bytes"]
    assert named["operations"] < 0.5 * passes(document)["f"]["operations"]


def test_offloading_is_bytes_over_a_link(gradcli: Gradcli) -> None:
    document = cost(gradcli, "--model", "gpt-2", "--link", "1000000000")
    assert document["offload"] == pytest.approx(2 * kept(document))


def test_micro_batches_keep_a_share_of_the_activations(gradcli: Gradcli) -> None:
    whole, quarter = (cost(gradcli, "--model", "bert-base", "--batch", n) for n in ("32", "8"))
    assert kept(whole) == 4 * kept(quarter)


@for_rows(("stage", "bytes_each", "times"), [(1, 4 + 12 / 8, 2), (2, 2 + 14 / 8, 2), (3, 16 / 8, 3)])
def test_zero_divides_by_the_number_of_ranks(gradcli: Gradcli, stage: int, bytes_each: float, times: int) -> None:
    argv = ("sum(w**2)", "--shapes", "w: N", "--sizes", "N=8e9", "--dtype", "bfloat16", "--master", "float32")
    rank = cost(gradcli, *argv, "--optimizer", "adam", "--shard", "8", "--zero", str(stage))["ranks"]
    assert rank["bytes"] == 8 * GIGA * bytes_each and rank["moved"] == times * 16 * GIGA * 7 // 8
