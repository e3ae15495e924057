"""Every name after `torch.` and `F.` in an expression computes what torch computes, or is refused: several calls of each."""

import contextlib
import warnings
from typing import Any

import numpy as np
import pytest

from gradcli.errors import BadExpression, GradcliError
from gradcli.targets.expression import Expression
from gradcli.targets.names import FUNCTIONS, OF_TORCH

torch: Any = pytest.importorskip("torch", reason="torch is not installed")
F: Any = torch.nn.functional

MODULES = {
    "torch": torch, "torch.linalg": torch.linalg, "torch.special": torch.special, "torch.fft": torch.fft, "F": F,
    "torch.nn.functional": F,
}  # fmt: skip
VALUES: dict[str, Any] = {
    "x": np.array([0.3, -0.7, 1.2, 0.5]), "y": np.array([0.8, 0.2, -0.4, 1.0]), "p": np.array([0.2, 0.7, 0.4, 0.9]),
    "X": np.array([[0.5, -0.3, 0.8], [1.1, 0.4, -0.6]]), "Y": np.array([[0.1, 0.9, -0.2], [0.7, -1.1, 0.3]]),
    "A": np.array([[2.0, 0.3, 0.1], [0.3, 1.5, -0.2], [0.1, -0.2, 1.1]]), "b": np.array([0.5, -0.2, 0.9]),
    "T": np.linspace(-1.3, 1.7, 24).reshape(2, 4, 3), "u": np.array([0.5, 1.5, -0.8]), "w": np.array([0.5, 1.5, -0.8, 1.1]),
    "k": np.array([2.0, 0.0]),
}  # fmt: skip
CALLS = [
    "x", "X", "A", "T", "p", "x, y", "X, Y", "p, p", "A, b", "A, A", "X, A", "x, 0", "X, 0", "X, 1", "X, 2", "T, 1", "T, 2", "x, 2",
    "X, dim=0", "X, dim=1", "X, 1, True", "X, dim=1, keepdim=True", "X, 0, 1", "X, [0, 1]", "X, (0, 1)", "X, [1]", "X, [3]",
    "X, [3], u, b", "X, [3], weight=u", "T, [4, 3]", "T, [3]", "T, 2, w, w", "T, 2", "X, False", "X, unbiased=False",
    "X, correction=0", "X, 1, False", "X, 2.0", "X, 1.0", "X, inf", "X, 'fro'", "X, 'nuc'", "X, 2, 1", "X, 2, dim=0", "X, 0.5",
    "X, 0.25, 1", "X, 1.5, 0.5", "X, -0.5, 0.5", "X, min=0.1", "X, X, Y", "x, y, 0.3", "X, Y, 1", "X, k", "X, k, u",
    "X, Y, reduction='sum'", "X, Y, reduction='none'", "X, Y, X*X", "x, x, y", "X, b, X*X + 0.1", "2, x", "x*x, 2", "X, A, u", "p, p*p",
    "p, p, w*w", "X, b*0, b*b + 0.5", "X, b*0, b*b + 0.5, u, b", "X, b*0, b*b + 0.5, u, b, True", "X, None, None, u, b, True",
    "T, T, T", "T, T, T, None, 0.0, True", "T, T, T, is_causal=True", "X, Y, A[0:2]", "[X, Y]", "[X, Y], 1", "[X, Y], dim=1", "[x, y]",
    "X, (1, 0)", "X, X, x[0:2]", "2, 3", "3", "0, 1, 5", "30*x", "40*x, 1, 20", "30*x, 2", "'ij,jk->ik', X, A", "A + A.T",
    "X, diagonal=1", "X, p=1", "X, p=1, dim=0", "X, nan=0.5", "p, 0.3", "X, x", "X, Y, 'sum'", "X, Y, 0.5", "X, Y, None, None, None, 'sum'",
]  # fmt: skip
PAIRS = [
    (space, name)
    for space, module in MODULES.items()
    for name in sorted({*FUNCTIONS, *OF_TORCH[space]})
    if hasattr(module, name)
]


def by_torch(space: str, name: str, call: str) -> Any:
    """Return what torch computes in float64; None where torch refuses, warns of its deprecation, or returns several results."""
    tensors = {n: torch.tensor(v) for n, v in VALUES.items()} | {"k": torch.tensor([2, 0])}
    with warnings.catch_warnings(), contextlib.suppress(Exception):
        warnings.simplefilter("ignore")
        y = eval(f"f({call})", {"f": getattr(MODULES[space], name), "inf": float("inf"), **tensors})
        if isinstance(y, torch.Tensor):
            return y.resolve_conj().numpy()
    return None


def by_gradcli(space: str, name: str, call: str) -> Any:
    """Return what the expression computes; None where it is refused."""
    try:
        f = Expression(f"{space}.{name}({call})", frozenset(VALUES))
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return f({n: VALUES[n] for n in f.inputs})
    except (GradcliError, np.linalg.LinAlgError):
        return None


@pytest.mark.parametrize(("space", "name"), PAIRS)
def test_a_name_computes_what_torch_computes(space: str, name: str) -> None:
    wrong = []
    for call in CALLS:
        ours = by_gradcli(space, name, call)
        theirs = None if ours is None else by_torch(space, name, call)
        if theirs is None or isinstance(ours, tuple | list):
            continue
        x, y = np.asarray(ours), np.asarray(theirs)
        if name == "cond" and np.min(x) > 1e15:  # of a singular matrix
            continue
        if x.shape != y.shape or not np.allclose(x, y, rtol=1e-6, atol=1e-9, equal_nan=True):
            wrong.append(f"{space}.{name}({call}): {np.array2string(x)} and not {np.array2string(y)}")
    assert not wrong, "\n".join(wrong)


ACCEPTED = [
    "F.layer_norm(X, [3])", "F.layer_norm(X, [3], u, b)", "F.layer_norm(T, [4, 3], eps=0.1)", "F.rms_norm(X, [3])", "F.rms_norm(X, [3], u)",
    "F.group_norm(T, 2, w, w)", "F.batch_norm(X, b*0, b*b + 0.5)", "F.batch_norm(X, b*0, b*b + 0.5, u, b, True)", "torch.var(X)",
    "torch.var(X, dim=1)", "torch.var(X, 1, False)", "torch.var(X, unbiased=False)", "torch.std(x, correction=0)", "torch.norm(X, 2)",
    "torch.norm(X)", "torch.norm(X, dim=1)", "torch.norm(X, 1.0)", "torch.median(x)", "torch.max(x)", "torch.max(x, y)",
    "torch.sum(X, 1, True)", "torch.logsumexp(X, 1)", "torch.softmax(X, 0)", "F.softmax(X)", "F.log_softmax(X, dim=1)",
    "F.cross_entropy(X, k)", "F.cross_entropy(X, k, reduction='sum')", "F.cross_entropy(X, softmax(Y, axis=1), label_smoothing=0.1)",
    "F.nll_loss(X, k)", "F.mse_loss(X, Y, reduction='none')", "F.softplus(30*x)", "F.gelu(x, approximate='tanh')", "F.normalize(X)",
    "F.cosine_similarity(X, Y)", "F.linear(X, A, b)", "torch.clamp(X, min=0.1)", "torch.transpose(X, 0, 1)", "torch.cumsum(x, 0)",
    "torch.quantile(x, 0.3)", "torch.linalg.norm(A, 2)", "torch.linalg.vector_norm(X)", "torch.linalg.solve(A, b)", "torch.special.expit(x)",
    "torch.cat([X, Y], 1)", "torch.cov(X)", "torch.where(x > 0, x, y)", "F.scaled_dot_product_attention(T, T, T)",
]  # fmt: skip
REFUSED = [
    "torch.cummax(x, 0)", "torch.split(x, 2)", "torch.svd(A)", "torch.sort(x)", "torch.gamma(x)", "torch.gradient(x)", "torch.max(X, 1)",
    "torch.softmax(X)", "torch.cumsum(x)", "F.pad(x, [1, 1])", "F.mse_loss(x, y, 'sum')", "torch.layer_norm(X, u)", "F.sin(x)",
    "F.cross_entropy(X, k, u)", "torch.meshgrid(x, y)",
]  # fmt: skip


@pytest.mark.parametrize("text", ACCEPTED)
def test_usual_calls_are_accepted(text: str) -> None:
    space = text.partition("(")[0].rpartition(".")[0]
    name, call = text[len(space) + 1 :].split("(", 1)
    ours = by_gradcli(space, name, call[:-1])
    call = call[:-1].replace("softmax(Y, axis=1)", "torch.softmax(Y, 1)")
    tensors = {n: torch.tensor(v) for n, v in VALUES.items()} | {"k": torch.tensor([2, 0])}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = eval(f"f({call})", {"f": getattr(MODULES[space], name), "torch": torch, **tensors})
    np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("text", REFUSED)
def test_what_torch_means_otherwise_is_refused(text: str) -> None:
    space = text.partition("(")[0].rpartition(".")[0]
    name, call = text[len(space) + 1 :].split("(", 1)
    assert by_gradcli(space, name, call[:-1]) is None


def test_names_that_torch_lacks_are_refused() -> None:
    for space, module in MODULES.items():
        for name in sorted(FUNCTIONS):
            if not hasattr(module, name):
                with pytest.raises(BadExpression):
                    Expression(f"{space}.{name}(x)")


def test_names_that_are_accepted_are_torchs() -> None:
    assert not [
        (space, name) for space, names in OF_TORCH.items() for name in names if not hasattr(MODULES[space], name)
    ]
