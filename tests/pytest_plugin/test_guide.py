"""docs/pytest.md: its examples run and pass, and a failure looks as it says."""

import re
from pathlib import Path

import pytest

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "pytest.md"
BLOCK = re.compile(r"```(?P<kind>\w+)\n(?P<text>.*?)```", re.DOTALL)


def blocks(kind: str) -> list[str]:
    return [match["text"] for match in BLOCK.finditer(GUIDE.read_text(encoding="utf-8")) if match["kind"] == kind]


@pytest.fixture
def folder(pytester: pytest.Pytester) -> Path:
    """A folder with the files of the guide."""
    for text in blocks("python"):
        name, _, source = text.removeprefix("# ").partition("\n")
        (pytester.path / name).write_text(source)
    return pytester.path


def test_the_examples_pass(folder: Path, pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_inprocess("--strict-markers", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=6)
    result.stdout.fnmatch_lines(["gradcli: 4 gradients checked"])


def test_a_failure_has_the_section_that_is_shown(folder: Path, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_wrong="""
        def test_huber(gradcheck):
            gradcheck("losses.py:huber", "r=[0.5, -2, 3]", grad="-clip(r, -1, 1)", seed=0)
        """
    )
    result = pytester.runpytest_inprocess("test_wrong.py")
    (shown,) = blocks("text")
    head, *lines = shown.splitlines()
    assert lines == [line for line in lines if line in result.outlines]
    assert any(line.strip("-") == head.strip("-") for line in result.outlines)


def test_the_guide_names_every_option_and_property() -> None:
    import pytest_gradcli

    text = GUIDE.read_text(encoding="utf-8")
    named = ("--gradcli", "--gradcli-inconclusive", "gradcli_inconclusive", "-p no:gradcli", pytest_gradcli.PROPERTY)
    assert all(name in text for name in (*named, *pytest_gradcli.INCONCLUSIVE))
