"""Which modes a check of a suite runs: those that can change its verdict, unless others are asked for."""

from gradcli.project.suite.job import Job, answer_job
from gradcli.request.options import Options
from gradcli.targets.target_request import TargetRequest


def statuses(expression: str, point: str, **options: str) -> dict[str, str]:
    document = answer_job(Job("a", TargetRequest(expression, (point,), options=Options(**options)), ".")).document
    assert document["verdict"] == "pass"
    return {mode: result["status"] for mode, result in document["points"][0]["modes"].items()}


def test_a_check_without_a_claim_runs_no_more_than_its_verdict_needs() -> None:
    found = statuses("x**2*sin(y)", "x=2, y=3")
    assert (found["certified"], found["reverse"]) == ("ok", "ok")
    assert {found[mode] for mode in ("symbolic", "forward", "complex-step", "finite-difference")} == {"not run"}


def test_modes_that_are_asked_for_run() -> None:
    assert statuses("x**2*sin(y)", "x=2, y=3", modes="all")["finite-difference"] == "ok"
