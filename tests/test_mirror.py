"""Where a test goes: the folders of the tests are those of the packages."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TESTS, PACKAGE = ROOT / "tests", ROOT / "gradcli"
ACROSS = {
    "browser",
    "corpus",
    "documents",
    "frameworks/corpus",
    "goldens",
    "goldens/documents",
    "goldens/screens",
    "packages",
    "pytest_plugin",
}  # what no package does alone


def folders() -> list[str]:
    found = (path.relative_to(TESTS).as_posix() for path in TESTS.rglob("*") if path.is_dir())
    return sorted(name for name in found if "__pycache__" not in name)


@pytest.mark.parametrize(
    "folder", [name for name in folders() if name not in ACROSS and not name.startswith("goldens")]
)
def test_a_folder_of_tests_is_that_of_a_package(folder: str) -> None:
    assert (PACKAGE / folder / "__init__.py").exists()


def test_every_package_has_tests() -> None:
    packages = {path.parent.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("__init__.py")} - {"."}
    inside = {folder.rpartition("/")[0] for folder in packages}
    assert {name for name in packages if name.count("/") == 0} <= set(folders()) | inside


@pytest.mark.parametrize(
    "line", [line for line in (ROOT / "CONTRIBUTING.md").read_text().splitlines() if "`tests/" in line]
)
def test_what_contributing_names_is_there(line: str) -> None:
    named = [part for part in line.split("`")[1::2] if part.startswith("tests/")]
    assert all((ROOT / name).exists() for name in named), named
