"""Eighty problems that were written before the work they measure: right, none wrong, and of textbook size but for a few."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import digamma, gamma, gammaln

from gradcli.derivation.sized_problem import parse_shapes
from gradcli.derivation.study import derive
from gradcli.report.derive import Result
from gradcli.request.options import Options
from gradcli.targets.expression import Expression
from tests.derivation.test_textbook import BY_HAND, DRAWN

PROBLEMS = [json.loads(line) for line in (Path(__file__).parent / "corpus.jsonl").read_text("utf-8").splitlines()]
SIZES = {"n": 3, "m": 4, "d": 2, "k": 5, "p": 6}
LARGER = 1.5  # times the operations of the textbook's form
WANTED = 75  # of 80 that are not larger


def softmax(z: Any, axis: int | None = None) -> Any:
    shifted = np.exp(z - np.max(z, axis=axis, keepdims=True))
    return shifted / np.sum(shifted, axis=axis, keepdims=True)


KNOWN = {
    **BY_HAND, **{name: getattr(np, name) for name in ["arctan", "arcsin", "arccos", "where", "dot", "tan", "arange", "ones_like", "square", "log1p", "logaddexp", "concatenate", "zeros_like", "clip", "isclose", "roll", "kron", "sinh", "swapaxes"]},
    "softmax": softmax, "np": np, "gamma": gamma, "digamma": digamma, "gammaln": gammaln, "logdet": lambda A: np.linalg.slogdet(A)[1],
    "tr": np.trace, **SIZES,
}  # fmt: skip


def derived(problem: dict[str, Any]) -> Result:
    dims = parse_shapes([problem["shapes"]] if "shapes" in problem else [])
    assume = (problem["assume"],) if "assume" in problem else ()
    f = Expression(problem["expression"])
    (result,) = derive(f, dims, Options(assume=assume, wrt=problem["wrt"], no_steps=True)).results
    return result


def drawn(problem: dict[str, Any], names: dict[str, tuple[str, ...]], seed: int) -> dict[str, Any]:
    """Return values of the inputs that the problem is meant for."""
    rng = np.random.default_rng(seed)
    words = dict(part.split(": ") for part in problem.get("assume", "").split("; ") if part)
    found = {}
    for name, dims in names.items():
        size = [int(d) if d.isdecimal() else SIZES[d] for d in dims]
        sample = problem.get("sample", {}).get(name)
        x = rng.uniform(*sample, size) if isinstance(sample, list) else rng.normal(size=size)
        x = x + (len(x) + 1) * np.eye(len(x)) if sample == "dominant" else x
        for word in words.get(name, "").split(", "):
            x = DRAWN[word](x) if word else x
        found[name] = np.asarray(x)[()]
    return found


@pytest.mark.slow
def test_the_corpus_is_right_and_of_textbook_size(subtests: pytest.Subtests) -> None:
    large = []
    for problem in PROBLEMS:
        with subtests.test(problem["expression"]):
            result = derived(problem)
            scope: dict[str, Any] = {}
            exec(result.code["numpy"], scope)
            inputs = parse_shapes([problem["shapes"]] if "shapes" in problem else [])
            words = {word for own in inputs.values() for word in own}
            names = {
                name: inputs.get(name, ()) for name in Expression(problem["expression"]).inputs if name not in words
            }
            for seed in range(3):
                values = drawn(problem, names, seed)
                expected = eval(problem["expected"], {**KNOWN, **values})
                np.testing.assert_allclose(scope["gradient"](**values), expected, rtol=1e-6, atol=1e-8)
            if result.operations["program"] > max(2, LARGER * problem["size"]):
                large.append(problem["expression"])
    assert len(PROBLEMS) - len(large) >= WANTED, large
