"""Custom backward passes in the middle of a right gradient, numbers that they decline, and sets that inputs lie on."""

from typing import Any

import numpy as np
import pytest

import gradcli
from gradcli.errors import BadOption

torch: Any = pytest.importorskip("torch", reason="torch is not installed")


class Entropy(torch.autograd.Function):  # type: ignore[misc]
    """The negative entropy of rows; on the simplex its gradient may lack the ones."""

    @staticmethod
    def forward(ctx: Any, p: Any) -> Any:
        ctx.save_for_backward(p)
        return (p * p.log()).sum(-1)

    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        (p,) = ctx.saved_tensors
        return ybar[..., None] * p.log()


class Turned(torch.autograd.Function):  # type: ignore[misc]
    """A vector times a weight; its gradient lacks what points along the vector."""

    @staticmethod
    def forward(ctx: Any, u: Any, w: Any) -> Any:
        ctx.save_for_backward(u, w)
        return u * w

    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        u, w = ctx.saved_tensors
        g = ybar * w
        return g - u * (u * g).sum(), ybar * u


class Twice(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return 2 * x

    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        return ybar


class Total(torch.autograd.Function):  # type: ignore[misc]
    """A sum of squares whose backward forgets its cotangent."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return (x * x).sum()

    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        return 2 * ctx.saved_tensors[0]


X = torch.tensor([0.3, -0.7, 1.1], dtype=torch.float64)
W = torch.tensor([0.5, 1.5, -0.4], dtype=torch.float64)

UNREACHED = {
    "behind a softmax":    lambda x: Entropy.apply(torch.softmax(x, -1)),
    "rows of a batch":     lambda x: Entropy.apply(torch.softmax(torch.outer(x, x), -1)).sum(),
    "a vector of norm 1":  lambda x: Turned.apply(x / x.norm(), W).sum(),
}  # fmt: skip


@pytest.mark.parametrize("what", UNREACHED)
def test_a_difference_that_the_inputs_do_not_reach_is_a_note(what: str) -> None:
    report = gradcli.check(UNREACHED[what], X)
    assert (report.verdict, report.exit_status) == ("pass", 0), str(report)
    (part,) = report.native.parts
    assert (part.verdict, part.reached) == ("inconclusive", False)
    notes = [f for f in report.points[0].findings if f.kind == "inner-gradient"]
    assert [f.severity for f in notes] == ["info"] and "do not reach" in notes[0].message


REACHED = {
    "its result is not used":    lambda x: torch.sum(x + 0 * Twice.apply(x)),
    "two mistakes that cancel":  lambda x: torch.sum(Twice.apply(x) - Twice.apply(x.clone()) + x),
}  # fmt: skip


@pytest.mark.parametrize("what", REACHED)
def test_another_one_leaves_a_right_gradient_open_and_is_excused_by_name(what: str) -> None:
    report = gradcli.check(REACHED[what], X)
    assert (report.verdict, report.exit_status) == ("inconclusive", 3), str(report)
    assert report.decisive() == "inner-gradient" and report.native.parts[0].reached is True
    report = gradcli.check(REACHED[what], X, allow="inner-gradient")
    assert (report.verdict, report.exit_status) == ("inconclusive", 0)


WRONG = {
    "reached after all":            lambda x: Entropy.apply(torch.softmax(x, -1) * torch.tensor([1.0, 2.0, 1.0], dtype=torch.float64)),
    "the whole is wrong":           lambda x: Twice.apply(x).sum(),
    "it forgets its cotangent":     lambda x: Total.apply(x),
    "it forgets it further inside": lambda x: Total.apply(torch.sin(x)),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_one_fails(what: str) -> None:
    report = gradcli.check(WRONG[what], X)
    assert (report.verdict, report.exit_status) == ("fail", 1), str(report)
    assert [part.verdict for part in report.native.parts] == ["fail"]


@pytest.mark.parametrize("what", [what for what in WRONG if "forgets" in what])
def test_one_that_forgets_its_cotangent_is_named_so(what: str) -> None:
    report = gradcli.check(WRONG[what], X)
    says = "does not change where the incoming gradient is doubled"
    assert [f.message for f in report.points[0].findings if f.kind == "inner-gradient"] == [
        f"Total: its own gradient {says}"
    ]
    assert [part.message for part in report.native.parts] == [f"it {says}"]


class Shifted(torch.autograd.Function):  # type: ignore[misc]
    """x / (norm + eps), which is not differentiated by eps."""

    @staticmethod
    def forward(ctx: Any, x: Any, eps: Any = 1e-3) -> Any:
        norm = x.norm() + eps
        ctx.save_for_backward(x, norm)
        ctx.eps = eps
        return x / norm

    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        x, norm = ctx.saved_tensors
        return ybar / norm - x * (ybar * x).sum() / (norm**2 * (norm - ctx.eps)), None


class Halved(Shifted):
    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        return 0.5 * Shifted.backward(ctx, ybar)[0], None


@pytest.mark.parametrize("function", [Shifted, lambda x, eps: Shifted.apply(x, eps).sum() + x.sum()])
def test_a_number_that_a_backward_declines_is_not_differentiated(function: Any) -> None:
    report = gradcli.check(function, {"x": X, "eps": 0.25}, framework="torch")
    assert report.exit_status == 0, str(report)
    assert report.gist().startswith("PASS (eps not differentiated): ")
    assert report.points[0].differentiated == ("x",) and report.native.declined == ("eps",)


def test_a_wrong_gradient_beside_it_is_wrong_still() -> None:
    report = gradcli.check(Halved, {"x": X, "eps": 0.25})
    assert report.exit_status == 1 and report.points[0].diagnosis.kind == "factor"


@pytest.mark.parametrize("function", [
    Shifted, lambda x, eps: Shifted.apply(x, eps).sum() + eps.detach() * x.sum(),
])  # fmt: skip
def test_a_tensor_that_a_backward_declines_is_wrong(function: Any) -> None:
    report = gradcli.check(function, {"x": X, "eps": torch.tensor(0.25, dtype=torch.float64)}, framework="torch")
    assert report.exit_status == 1 and {m.input for m in report.points[0].mismatches} == {"eps"}, str(report)


def test_a_number_that_no_custom_function_takes_is_differentiated() -> None:
    report = gradcli.check(
        lambda x, c: (x * float(c)).sum() + 0 * Twice.apply(x).sum(), {"x": X, "c": 0.25}, framework="torch"
    )
    assert report.exit_status == 1, str(report)


def test_a_declined_number_alone_leaves_nothing_to_check() -> None:
    with pytest.raises(BadOption, match="backward returns None for eps"):
        gradcli.check(Shifted, {"x": X, "eps": 0.25}, wrt="eps")


SPD = np.array([[2.0, 0.3, -0.4], [0.3, 1.5, 0.2], [-0.4, 0.2, 1.8]])
ON_SETS = {
    "cholesky":    (lambda A: torch.linalg.cholesky(A).diagonal().log().sum(), SPD, "A: spd"),
    "eigenvalues": (lambda A: torch.linalg.eigh(A)[0].log().sum(), SPD, "A: symmetric"),
}  # fmt: skip


@pytest.mark.parametrize("what", ON_SETS)
def test_gradients_of_symmetric_matrices_pass_where_that_is_assumed_and_are_open_elsewhere(what: str) -> None:
    f, at, assume = ON_SETS[what]
    report = gradcli.check(f, {"A": at}, assume=assume)
    assert report.exit_status == 0 and "on symmetric" in report.gist(), str(report)
    assert not [aspect for aspect in report.native.aspects if aspect.status == "wrong"], str(report)
    report = gradcli.check(f, {"A": at})
    assert report.exit_status == 3 and "assume='A: symmetric'" in " ".join(str(report).split()), str(report)
    assert gradcli.check(lambda A: f(A) + (Twice.apply(A)).sum(), {"A": at}, assume=assume).exit_status == 1


def test_a_set_needs_float64() -> None:
    with pytest.raises(BadOption, match="needs float64"):
        gradcli.check(lambda A: (A.float() ** 2).sum(), {"A": SPD}, framework="torch", assume="A: symmetric")


class Normed(torch.autograd.Function):  # type: ignore[misc]
    """A vector over its norm, which leaves torch; the backward treats it as a constant."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.n = float(x.norm())
        return x / ctx.n

    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        return ybar / ctx.n


class Alternating(torch.autograd.Function):  # type: ignore[misc]
    """An exponential whose gradient is wrong in every second call, for cotangents that are not uniform."""

    calls = 0

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x.exp()

    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        (x,) = ctx.saved_tensors
        Alternating.calls += not bool((ybar == ybar[0]).all())
        return ybar * x.exp() * (1.5 if Alternating.calls % 2 == 0 else 1.0)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: (torch.nn.functional.normalize(Normed.apply(x), dim=0) * W).sum(),
        lambda x: torch.relu(Normed.apply(x) - 100).sum() + (x**2).sum(),
    ],
)
def test_a_wrong_part_that_the_whole_does_not_depend_on_is_not_right(f: Any) -> None:
    report = gradcli.check(f, {"x": X})
    (part,) = report.native.parts
    assert part.verdict != "pass" and report.verdict != "pass", str(report)


def test_a_part_that_is_wrong_in_every_second_call_is_not_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Alternating, "calls", 1)
    report = gradcli.check(lambda x: Alternating.apply(x).sum() + x.sum(), {"x": X})
    assert report.verdict != "pass", str(report)


class Counted(torch.autograd.Function):  # type: ignore[misc]
    calls = 0

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        Counted.calls += 1
        ctx.n = Counted.calls
        return x * Counted.calls

    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        return ybar * ctx.n


def test_a_part_that_counts_its_calls_gives_no_verdict() -> None:
    assert gradcli.check(lambda x: Counted.apply(x).pow(2).sum(), {"x": X}).exit_status == 3
