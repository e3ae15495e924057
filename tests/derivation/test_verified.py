"""Nothing that is wrong is shown: a planted mistake, in the formula or in the code, is refused."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from gradcli.derivation import derive, languages, sized_recording
from gradcli.derivation.index import Tensor, add, scalar, scale_tensor
from gradcli.derivation.simplify import simplified
from tests.rows import for_rows

ARGV = ("derive", "0.5*sum((W@x - y)**2)", "--shapes", "W: m n; x: n; y: m", "--wrt", "W")


def planted(change: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    return lambda x, cost, steps=None: change(simplified(x, cost, steps))


@for_rows("change", [
    lambda x: scale_tensor(x, Fraction(-1)), lambda x: scale_tensor(x, Fraction(1_000_001, 1_000_000)), lambda x: Tensor(x.free, ()),
    lambda x: add([x, scalar(Fraction(1, 1000))], x.free), lambda x: Tensor(x.free, x.terms[:1]) if len(x.terms) > 1 else scale_tensor(x, Fraction(2)),
])  # fmt: skip
def test_a_planted_mistake_is_refused(
    gradcli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, change: Callable[[Tensor], Tensor]
) -> None:
    monkeypatch.setattr(derive, "simplified", planted(change))
    ran = gradcli(*ARGV)
    assert ran.exit_status == 3 and ran.stderr == ""
    assert "the closed form found for W differs from the certified derivative" in " ".join(ran.stdout.split())
    assert "def gradient" not in ran.stdout and "outer" not in ran.stdout
    document = gradcli(*ARGV, "--json").json
    assert (document["exit_status"], document["results"]) == (3, [])
    assert [f["kind"] for f in document["findings"]] == ["refused"]


def test_what_is_not_planted_is_shown(gradcli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(derive, "simplified", planted(lambda x: x))
    assert gradcli(*ARGV).exit_status == 0


def test_wrong_code_is_refused(gradcli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    right = languages.write_array_code
    monkeypatch.setattr(languages, "write_array_code", lambda *args: right(*args).replace("return ", "return -"))
    ran = gradcli(*ARGV)
    assert ran.exit_status == 3 and "def gradient" not in ran.stdout


def test_one_refusal_leaves_the_others(gradcli: Callable[..., Any]) -> None:
    ran = gradcli("derive", "c*sum(x) + sum(i0e(x))", "--shapes", "x: n; c:", "--json")
    assert ran.exit_status == 3
    assert [r["wrt"] for r in ran.json["results"]] == ["c"]
    assert [f["message"].split(":")[0] for f in ran.json["findings"]] == ["by x"]


def test_a_form_of_wide_matrices_alone_is_refused(gradcli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(
        sized_recording.RULES, "pinv"
    )  # the rule for numbers, which has two cases, is recorded at wide matrices
    ran = gradcli("derive", "norm(pinv(A)@b)**2", "--shapes", "A: m n; b: m", "--wrt", "A", "--json")
    assert ran.exit_status == 3 and not ran.json["results"]
    assert "holds at some sizes only, and not for m = 4, n = 3" in ran.json["findings"][0]["message"]
