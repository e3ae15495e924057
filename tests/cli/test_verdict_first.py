"""The verdict on a wrong claim is printed before its cause is looked for, and the search has counted limits."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gradcli.report.check import CheckReport

WRONG = ("check", "sum(x**2)", "x=[1, 2, 3, 4, 5]", "--grad", "x")


def written(folder: Path, text: str) -> str:
    path = folder / "claims.py"
    path.write_text("import numpy as np\n" + text)
    return str(path)


def test_the_verdict_comes_before_the_search_for_the_cause(
    gradcli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> CheckReport:
        raise RuntimeError("a bug in the search")

    monkeypatch.setattr("gradcli.repair.full_check.with_cause_and_repair", broken)
    ran = gradcli(*WRONG)
    assert ran.exit_status == 70
    assert ran.stdout.startswith(
        "FAIL  sum(x**2): the claimed gradient is wrong in 5 of 5 entries\n\n  the worst first"
    )


def test_entries_come_first_then_the_cause_then_the_modes_and_the_last_line_is_the_verdict(
    gradcli: Callable[..., Any],
) -> None:
    lines = [line.strip() for line in gradcli(*WRONG).stdout.splitlines() if line.strip()]
    found = [
        next(k for k, line in enumerate(lines) if line.startswith(word))
        for word in ("FAIL", "entry", "2 more wrong", "Likely", "mode")
    ]
    assert found == sorted(found) and found[0] == 0
    assert [line.split()[0] for line in lines[3:6]] == ["x[4]", "x[3]", "x[2]"]
    assert lines[-1] == "FAIL  sum(x**2): a factor 2 too small"


def test_a_document_is_one_document(gradcli: Callable[..., Any]) -> None:
    ran = gradcli(*WRONG, "--json")
    assert ran.json["verdict"] == "fail" and ran.json["points"][0]["diagnosis"]["kind"] == "factor"


@pytest.mark.repairs
def test_without_a_search_only_what_the_entries_show_is_named(gradcli: Callable[..., Any]) -> None:
    seen = gradcli(*WRONG, "--no-diagnose", "--json").json["points"][0]["diagnosis"]
    assert (seen["kind"], seen["patch"], seen["no_patch"]) == ("factor", None, "it was not looked for (--no-diagnose)")
    slip = ("check", "sum(tanh(x)**2)", "x=[1, 2]", "--grad", "2*tanh(x)*(1-tanh(x))")
    assert gradcli(*slip, "--json").json["points"][0]["diagnosis"]["kind"] == "slip"
    unknown = gradcli(*slip, "--no-diagnose", "--json").json["points"][0]["diagnosis"]
    assert unknown["kind"] == "unknown" and "not all mistakes were tried" in unknown["message"]


def test_no_cause_is_shown_that_was_found_after_the_time_limit(gradcli: Callable[..., Any]) -> None:
    ran = gradcli(
        "check", "sum(tanh(x)**2)", "x=[1, 2]", "--grad", "2*tanh(x)*(1-tanh(x))", "--diagnose", "0.0001ms", "--json"
    )
    (point,) = ran.json["points"]
    assert (ran.exit_status, point["diagnosis"]) == (1, None)
    (late,) = [f for f in point["findings"] if f["kind"] == "timeout"]
    assert "no cause is shown" in late["message"] and "--diagnose" in late["hint"]


@pytest.mark.repairs
def test_a_verdict_stands_when_the_time_is_up_before_the_cause_is_found(
    process: Callable[..., Any], tmp_path: Path
) -> None:
    text = """
        import os, time
        if "GRADCLI_IN_SEARCH_FOR_REPAIR" in os.environ:
            time.sleep(1000)
        def f(x): return np.sum(np.exp(x) * x)
        def bad(x): return np.exp(x) * (1 + x**2) + 0.3 * x
    """
    import textwrap

    target = f"{written(tmp_path, textwrap.dedent(text))}:f"
    ran = process("check", target, "x=[0.5, 2]", "--grad", "bad", "--modes", "rev,fd", "--timeout", "4s", "--json")
    (point,) = ran.json["points"]
    assert (ran.exit_status, ran.json["verdict"], ran.json["claim"]) == (1, "fail", "bad")
    assert any(f["kind"] == "timeout" and "before the cause was found" in f["message"] for f in point["findings"])
