"""The corpus of kernels: right ones are right, less exact ones lose digits in bfloat16 alone, and each wrong one needs what it says."""

import importlib
import importlib.util
import inspect
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

corpus = importlib.import_module("tests.frameworks.corpus.kernels")
KERNELS, NEEDS = corpus.KERNELS, corpus.NEEDS
SLIPS = [(kernel, said) for kernel in KERNELS for said in kernel.slips]
EXACT = 1e-10
"""The relative difference that two ways of computing in float64 may have; they have 1e-14."""
ROUNDING = 2.0**-7
"""The error of a right kernel in bfloat16, of the largest entry: half of 2**-8 for the result and for each value it keeps."""
VISIBLE = 1e-3
"""The relative error that a slip has at least where it shows, in float64 or float32."""
SEEDS = (1, 2, 3, 4)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Tests run in parallel, and the threads of small operations only wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def named(pairs: Any) -> list[str]:
    return [f"{kernel.name}: {said}" for kernel, said in pairs]


def showing(*needs: str) -> Any:
    """Parametrise over the slips that need one of these."""
    pairs = [(kernel, said) for kernel, said in SLIPS if kernel.needs[said] in needs]
    return pytest.mark.parametrize(("kernel", "said"), pairs, ids=named(pairs))


def tensors(inputs: Mapping[str, Any], dtype: Any) -> dict[str, Any]:
    """Return the inputs in a format; all that are not indices take part in the gradient."""
    xs = {name: torch.from_numpy(np.array(x)) for name, x in inputs.items()}
    return {name: x.to(dtype).requires_grad_() if x.is_floating_point() else x for name, x in xs.items()}


def rounded(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return inputs that bfloat16 has, too."""
    return {
        name: torch.from_numpy(x).to(torch.bfloat16).double().numpy() if x.dtype.kind == "f" else x
        for name, x in inputs.items()
    }


def results(function: Any, xs: Mapping[str, Any], seed: int = 1) -> dict[str, Any]:
    """Return the value and the gradients for a random cotangent, as they are in memory."""
    y = function(**xs)
    drawn = np.random.default_rng(seed).normal(size=tuple(y.shape)) if y.ndim else np.array(1.0)
    variables = {name: x for name, x in xs.items() if x.requires_grad}
    ybar = torch.from_numpy(drawn).to(torch.bfloat16).to(y.dtype)
    bars = torch.autograd.grad(y, list(variables.values()), ybar)
    return {"value": y.detach(), **dict(zip(variables, bars, strict=True))}


def computed(function: Any, inputs: Mapping[str, Any], dtype: Any = torch.float64, seed: int = 1) -> dict[str, Any]:
    return results(function, tensors(inputs, dtype), seed)


def errors(found: Mapping[str, Any], right: Mapping[str, Any]) -> dict[str, float]:
    """Return by result the largest difference, relative to the largest entry; infinite where there is nan or another shape."""
    return {name: _error(found[name], y) for name, y in right.items()}


def _error(found: Any, right: Any) -> float:
    if found.shape != right.shape or not bool(torch.isfinite(found).all()):
        return np.inf
    if right.numel() == 0:
        return 0.0
    return float((found.double() - right.double()).abs().max() / right.double().abs().max().clamp(min=1e-6))


def error(found: Mapping[str, Any], right: Mapping[str, Any]) -> float:
    return max(errors(found, right).values())


def gradient_error(found: Mapping[str, Any], right: Mapping[str, Any]) -> float:
    return max(e for name, e in errors(found, right).items() if name != "value")


def cut(inputs: Mapping[str, Any], axis: int, to: int) -> dict[str, Any]:
    """Return the inputs with an axis of the first made shorter, and with it all axes that have its size."""
    size = next(iter(inputs.values())).shape[axis]
    return {name: x[tuple(slice(to if n == size else n) for n in x.shape)] for name, x in inputs.items()}


def changed(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return inputs with other values, and the same indices."""
    return {name: 0.3 - 0.8 * x if x.dtype.kind == "f" else x for name, x in inputs.items()}


def spread(x: Any) -> Any:
    """Return the same values with a gap between any two that are next to each other in memory."""
    return torch.stack([x.detach(), torch.full_like(x, 7.0)], -1)[..., 0].requires_grad_(x.requires_grad)


def filled(allocate: Any) -> Any:
    """Return a function that allocates memory, and fills it with nan."""
    return lambda *args, **kwargs: allocate(*args, **kwargs).fill_(torch.nan)


def new(kernel: Any, said: str) -> Any:
    """Return a slip as a new process has it: nothing is kept from an earlier call."""
    spec = importlib.util.find_spec(kernel.reference.__module__)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    tables = [x for x in vars(module).values() if isinstance(x, tuple) and x and isinstance(x[0], corpus.Kernel)]
    return next(k for table in tables for k in table if k.name == kernel.name).slips[said]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
class TestKernel:
    def test_the_right_one_has_the_gradient_of_the_reference(self, kernel: Any) -> None:
        assert error(computed(kernel.right, kernel.inputs), computed(kernel.reference, kernel.inputs)) < EXACT

    @pytest.mark.parametrize("rows", [0, 1, 2])
    def test_it_has_it_for_few_rows_and_none(self, kernel: Any, rows: int) -> None:
        inputs = cut(kernel.inputs, 0, rows)
        assert error(computed(kernel.right, inputs), computed(kernel.reference, inputs)) < EXACT

    def test_it_has_it_for_inputs_that_are_not_contiguous_and_leaves_them_as_they_are(self, kernel: Any) -> None:
        xs = {name: spread(x) if x.requires_grad else x for name, x in tensors(kernel.inputs, torch.float64).items()}
        kept = {name: x.detach().clone() for name, x in xs.items()}
        assert error(results(kernel.right, xs), computed(kernel.reference, kernel.inputs)) < EXACT
        assert all(torch.equal(xs[name], kept[name]) for name in xs)

    def test_it_is_as_exact_as_its_format(self, kernel: Any) -> None:
        inputs = rounded(kernel.inputs)
        exact, half = computed(kernel.reference, inputs), computed(kernel.right, inputs, torch.bfloat16)
        assert {y.dtype for y in half.values()} == {torch.bfloat16}
        assert error(half, exact) < ROUNDING
        assert error(computed(kernel.right, inputs, torch.float32), exact) < 1e-5

    def test_the_less_exact_one_is_right_in_float64(self, kernel: Any) -> None:
        assert error(computed(kernel.less_exact, kernel.inputs), computed(kernel.reference, kernel.inputs)) < EXACT

    def test_the_less_exact_one_loses_digits_in_bfloat16(self, kernel: Any) -> None:
        inputs = rounded(kernel.inputs)
        lost = {function: [] for function in (kernel.reference, kernel.right, kernel.less_exact)}
        for seed in SEEDS:
            exact = computed(kernel.reference, inputs, seed=seed)
            for function, found in lost.items():
                found.append(gradient_error(computed(function, inputs, torch.bfloat16, seed), exact))
        reference, right, less_exact = (np.array(found) for found in lost.values())
        assert (less_exact > right).all()
        assert 3 < np.exp(np.log(less_exact / reference).mean()) < 30
        assert (less_exact < 0.3).all()

    def test_its_inputs_are_few_and_of_sizes_at_which_its_slips_are_hidden(self, kernel: Any) -> None:
        sizes = [x.shape for x in kernel.inputs.values()]
        assert all(len(set(shape)) == len(shape) for shape in sizes)
        assert sum(x.size for x in kernel.inputs.values()) <= 4000
        assert sizes[0][0] > 2
        assert sizes[0][1:2] == () or sizes[0][1] % 2 == 0 or "odd" not in kernel.needs.values()
        assert list(kernel.inputs) == list(inspect.signature(kernel.reference).parameters)
        assert len(kernel.slips) >= 3
        assert kernel.needs.keys() == kernel.slips.keys()


@showing("point")
def test_the_gradient_is_wrong_at_the_point(kernel: Any, said: str) -> None:
    right, wrong = computed(kernel.reference, kernel.inputs), computed(kernel.slips[said], kernel.inputs)
    assert _error(wrong["value"], right["value"]) < EXACT
    assert gradient_error(wrong, right) > VISIBLE


@showing("value")
def test_the_value_is_wrong_at_the_point(kernel: Any, said: str) -> None:
    right, wrong = computed(kernel.reference, kernel.inputs), computed(kernel.slips[said], kernel.inputs)
    assert _error(wrong["value"], right["value"]) > VISIBLE


@showing("repeat")
def test_a_second_call_is_wrong(kernel: Any, said: str) -> None:
    slip, other = new(kernel, said), changed(kernel.inputs)
    first = computed(slip, kernel.inputs)
    assert error(first, computed(kernel.reference, kernel.inputs)) < EXACT
    second = error(computed(slip, other), computed(kernel.reference, other))
    assert max(second, error(first, computed(kernel.reference, kernel.inputs))) > VISIBLE


@showing("nan")
def test_memory_that_is_not_written_is_nan(kernel: Any, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("empty", "empty_like"):
        monkeypatch.setattr(torch, name, filled(getattr(torch, name)))
    right, wrong = computed(kernel.right, kernel.inputs), computed(kernel.slips[said], kernel.inputs)
    assert all(bool(torch.isfinite(y).all()) for y in right.values())
    assert any(bool(torch.isnan(y).any()) for y in wrong.values())


@showing("strided")
def test_inputs_with_gaps_are_read_wrongly(kernel: Any, said: str) -> None:
    right = computed(kernel.reference, kernel.inputs)
    assert error(computed(kernel.slips[said], kernel.inputs), right) < EXACT
    xs = {name: spread(x) if x.requires_grad else x for name, x in tensors(kernel.inputs, torch.float64).items()}
    assert error(results(kernel.slips[said], xs), right) > VISIBLE


@showing("in place")
def test_an_input_is_written_to(kernel: Any, said: str) -> None:
    xs = tensors(kernel.inputs, torch.float64)
    kept = {name: x.detach().clone() for name, x in xs.items()}
    assert error(results(kernel.slips[said], xs), computed(kernel.reference, kernel.inputs)) < EXACT
    assert not all(torch.equal(xs[name], kept[name]) for name in xs)


@showing("batch 1", "batch 2", "odd")
def test_other_sizes_are_wrong_and_the_given_ones_right(kernel: Any, said: str) -> None:
    right = computed(kernel.reference, kernel.inputs)
    assert error(computed(kernel.slips[said], kernel.inputs), right) < EXACT
    axis, to = {"batch 1": (0, 1), "batch 2": (0, 2), "odd": (1, -1)}[kernel.needs[said]]
    other = cut(kernel.inputs, axis, to)
    right = computed(kernel.reference, other)
    assert error(computed(kernel.right, other), right) < EXACT
    assert error(computed(kernel.slips[said], other), right) > VISIBLE


@showing("float32")
def test_a_mistake_as_small_as_rounding_shows_in_float32(kernel: Any, said: str) -> None:
    slip, inputs = kernel.slips[said], rounded(kernel.inputs)
    assert error(computed(slip, inputs, torch.bfloat16), computed(kernel.reference, inputs)) < 2 * ROUNDING
    assert error(computed(slip, kernel.inputs, torch.float32), computed(kernel.reference, kernel.inputs)) > 1e-4


@showing("bfloat16")
def test_sums_in_bfloat16_are_those_of_the_less_exact_one(kernel: Any, said: str) -> None:
    assert kernel.slips[said] is kernel.less_exact


def test_there_are_enough_of_them() -> None:
    assert len(KERNELS) == len({kernel.name for kernel in KERNELS}) == 24
    assert {need for kernel in KERNELS for need in kernel.needs.values()} == set(NEEDS)
