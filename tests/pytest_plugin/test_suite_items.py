"""`pytest --gradcli`: the checks of the project's suite as tests."""

import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable

import pytest

from tests.pytest_plugin.conftest import GOOD_AND_BAD

Project = Callable[..., pytest.RunResult]
SUMMARY = "gradcli: 4 gradients checked, 1 failed, 1 inconclusive, 1 error"
A_TEST = "def test_a(): pass\n"


def outcomes(result: pytest.RunResult) -> dict[str, int]:
    return {name: n for name, n in result.parseoutcomes().items() if name not in ("seconds", "warnings")}


@pytest.mark.slow
def test_each_check_is_an_item_beside_the_tests(project: Project) -> None:
    result = project(A_TEST, "--gradcli", "-v", suite=GOOD_AND_BAD)
    assert outcomes(result) == {"passed": 2, "failed": 3}
    result.stdout.fnmatch_lines(["test_it.py::test_a PASSED*"])
    result.stdout.fnmatch_lines(
        ["gradcli.toml::gradcli::focal PASSED*", "gradcli.toml::gradcli::hinge FAILED*", SUMMARY]
    )
    assert result.ret == pytest.ExitCode.TESTS_FAILED


@pytest.mark.slow
def test_a_failure_shows_the_report_and_the_section(project: Project) -> None:
    result = project("", "--gradcli", suite="hinge: failed\n")
    result.stdout.fnmatch_lines(
        ["FAIL  x[*][*]2: the claimed gradient is wrong in 1 of 1 entry", "*corrected: x = 2, not -2"]
    )
    shown = ["*- gradcli -*", "FAIL  hinge: 1 of 1 entry wrong"]
    shown += ["likely mistake: the sign is flipped", "again: gradcli check -k hinge"]
    result.stdout.fnmatch_lines(shown, consecutive=True)
    result.stdout.no_fnmatch_line("*pytest_gradcli.py*")


def test_without_the_option_there_is_none(project: Project) -> None:
    result = project(A_TEST, "gradcli.toml", "test_it.py", suite=GOOD_AND_BAD)
    assert "focal" not in result.stdout.str()
    assert "gradcli:" not in result.stdout.str()


# fmt: off
CHOSEN = {
    "by -k":             (("--gradcli", "-k", "focal or hinge"),                 {"passed": 1, "failed": 1, "deselected": 3}),
    "by its id":         (("--gradcli", "gradcli.toml::gradcli::focal"),         {"passed": 1}),
    "by file":           (("--gradcli", "gradcli.toml"),                         {"passed": 1, "failed": 3}),
    "beside a file":     (("--gradcli", "test_it.py"),                           {"passed": 2, "failed": 3}),
    "with the folder":   (("--gradcli", "."),                                    {"passed": 2, "failed": 3}),
    "beside a folder":   (("--gradcli", "tests"),                                {"passed": 2, "failed": 3}),
    "skipped":           (("--gradcli", "--gradcli-inconclusive=skip"),          {"passed": 2, "failed": 2, "skipped": 1}),
    "xfailed":           (("--gradcli", "--gradcli-inconclusive=xfail"),         {"passed": 2, "failed": 2, "xfailed": 1}),
    "by the ini value":  (("--gradcli", "-o", "gradcli_inconclusive=skip"),      {"passed": 2, "failed": 2, "skipped": 1}),
    "the option counts": (("--gradcli", "-o", "gradcli_inconclusive=skip", "--gradcli-inconclusive=fail"), {"passed": 2, "failed": 3}),
}
# fmt: on


@pytest.mark.slow
@pytest.mark.parametrize("how", CHOSEN)
def test_checks_are_chosen(project: Project, pytester: pytest.Pytester, how: str) -> None:
    args, expected = CHOSEN[how]
    if "tests" in args:
        pytester.mkdir("tests").joinpath("test_below.py").write_text(A_TEST)
    assert outcomes(project(A_TEST, *args, suite=GOOD_AND_BAD)) == expected


def test_ids_are_collected(project: Project) -> None:
    result = project("", "--gradcli", "--collect-only", "-q", suite="focal: passed\nsrc/losses.py:hinge: passed\n")
    result.stdout.fnmatch_lines(["gradcli.toml::gradcli::focal", "gradcli.toml::gradcli::src/losses.py:hinge"])


def test_a_suite_may_be_above_the_root_folder(
    project: Project, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    project("", suite="focal: passed\n")
    folder = pytester.mkdir("tests")
    (pytester.path / "pytest.ini").rename(folder / "pytest.ini")
    monkeypatch.chdir(folder)
    result = pytester.runpytest_inprocess("--gradcli", "-v")
    result.stdout.fnmatch_lines(["../gradcli.toml::gradcli::focal PASSED*"])


def test_a_missing_suite_is_an_error_of_usage(project: Project, pytester: pytest.Pytester) -> None:
    project("", suite="focal: passed\n")
    (pytester.path / "gradcli.toml").unlink()
    result = pytester.runpytest_inprocess("--gradcli")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [f"ERROR: --gradcli: there is no suite in {pytester.path} or above; gradcli init writes one"]
    )


def test_a_wrong_ini_value_is_an_error_of_usage(project: Project) -> None:
    result = project(A_TEST, "-o", "gradcli_inconclusive=ignore")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: gradcli_inconclusive is one of fail, skip, xfail"])


@pytest.mark.slow
def test_under_xdist_all_is_the_same_and_each_process_has_one_thread(
    project: Project, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENBLAS_NUM_THREADS")
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    tests = """
def test_threads(gradcheck):
    import os
    assert (os.environ["OPENBLAS_NUM_THREADS"], os.environ["OMP_NUM_THREADS"]) == ("1", "2")
    gradcheck("x**2", "x=1", grad="x=2*x", modes="reverse,fd")
"""
    result = project(tests, "--gradcli", "-n1", "--dist", "loadgroup", "--junitxml=report.xml", suite=GOOD_AND_BAD)
    assert outcomes(result) == {"passed": 2, "failed": 3}
    result.stdout.fnmatch_lines(["*- gradcli -*", "FAIL  hinge: *", SUMMARY.replace("4", "5")])
    cases = ElementTree.parse(pytester.path / "report.xml").getroot().iter("testcase")
    properties = {case.get("name"): {p.get("name"): p.get("value") for p in case.iter("property")} for case in cases}
    assert properties["hinge"] == {
        "gradcli_outcome": "failed", "gradcli_replay": "gradcli check -k hinge", "gradcli_seed": "0",
    }  # fmt: skip


@pytest.mark.slow
def test_what_the_baseline_lists_is_expected_to_fail(pytester: pytest.Pytester) -> None:
    checks = "".join(
        f'[[check]]\nid = "{n}"\ntarget = "x**2"\ngrad = "{g}"\nat = "x=3"\n'
        for n, g in (("old", "-2*x"), ("new", "x"))
    )
    (pytester.path / "gradcli.toml").write_text(f'modes = "reverse,fd"\nbaseline = "known.json"\n{checks}')
    (pytester.path / "known.json").write_text('{"schema": "gradcli.baseline/1", "known": ["old: x: fail: sign"]}')
    result = pytester.runpytest_subprocess("--gradcli")
    assert outcomes(result) == {"failed": 1, "xfailed": 1}
    result.stdout.fnmatch_lines(["gradcli: 2 gradients checked, 1 failed, 1 known"])


@pytest.mark.slow
@pytest.mark.parametrize(("chosen", "failed"), [((), 1), (("-k", "old"), 0)])
def test_what_the_baseline_lists_and_is_so_no_longer_fails_where_it_is_run(
    pytester: pytest.Pytester, chosen: tuple[str, ...], failed: int
) -> None:
    checks = "".join(
        f'[[check]]\nid = "{n}"\ntarget = "x**2"\ngrad = "{g}"\nat = "x=3"\n'
        for n, g in (("old", "-2*x"), ("mended", "2*x"))
    )
    (pytester.path / "gradcli.toml").write_text(f'modes = "reverse,fd"\nbaseline = "known.json"\n{checks}')
    known = ["old: x: fail: sign", "mended: x: fail: sign", "gone: x: fail: sign"]
    (pytester.path / "known.json").write_text(json.dumps({"schema": "gradcli.baseline/1", "known": known}))
    result = pytester.runpytest_subprocess("--gradcli", *chosen)
    assert outcomes(result) == {"xfailed": 1, **({"failed": 1} if failed else {"deselected": 1})}
    assert result.ret == failed
    if failed:
        lines = ["mended: the baseline lists a failure that is no longer there"]
        result.stdout.fnmatch_lines(
            ["PASS  mended: *", *lines, "write the baseline anew: gradcli check --update-baseline"]
        )
        result.stdout.fnmatch_lines(["gradcli: 2 gradients checked, 1 known, 1 stale"])
