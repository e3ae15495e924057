"""The house: a file imports from lower floors and from its own folder, never from above."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1] / "gradcli"
FLOORS = (
    ("errors", "exits", "threads"),
    ("point", "report"),
    ("core",),
    ("primitives",),
    ("lowering",),
    ("interpreters",),
    ("source",),
    ("programs",),
    ("numerics",),
    ("frameworks",),
    ("modes",),
    ("diagnosis",),
    ("verify",),
    ("study",),
    ("derivation",),
    ("render",),
    ("api", "commands", "cli", "world", "apart", "earlier", "link", "supervisor", "process", "__init__", "__main__"),
)
FLOOR = {name: number for number, names in enumerate(FLOORS) for name in names}
TOP = len(FLOORS) - 1
SHARED = {"gradcli"}  # the package itself: its version


def imports(source: str) -> set[str]:
    """Return every gradcli module a source imports, inside functions too."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module)
        elif isinstance(node, ast.ImportFrom) and node.level:
            found.add("gradcli.relative")
    return {name for name in found if name.split(".")[0] == "gradcli"}


def trespasses(place: str, source: str) -> list[str]:
    """Return the imports of a file that the house does not allow; `place` is its first folder or its own name."""
    bad = []
    for name in sorted(imports(source) - SHARED):
        target = name.split(".")[1]
        if target == place or FLOOR.get(target, TOP + 1) < FLOOR[place]:
            continue
        if FLOOR[place] == TOP and FLOOR.get(target) == TOP:
            continue
        bad.append(name)
    return bad


def files() -> list[Path]:
    return sorted(ROOT.rglob("*.py"))


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_imports_only_from_below(path: Path) -> None:
    place = path.relative_to(ROOT).parts[0].removesuffix(".py")
    assert trespasses(place, path.read_text()) == []


@pytest.mark.parametrize(
    "source",
    [
        "from gradcli.modes.mode import Question",
        "import gradcli.verify.check",
        "def f():\n    from gradcli.render import Page\n",
        "from ..render import Page",
    ],
)
def test_an_upward_import_is_seen(source: str) -> None:
    assert trespasses("primitives", source)


def test_a_peer_renderer_is_seen_as_its_own_folder_only() -> None:
    assert trespasses("interpreters", "from gradcli.source.tokens import tokens")
    assert not trespasses("numerics", "from gradcli.interpreters.tape import Tape")


@pytest.mark.parametrize("path", sorted((ROOT / "render").glob("*.py")), ids=lambda path: path.stem)
def test_no_renderer_imports_another(path: Path) -> None:
    renderers = (other for other in (ROOT / "render").glob("*.py") if "\ndef render(" in other.read_text())
    others = {f"gradcli.render.{other.stem}" for other in renderers}
    assert not imports(path.read_text()) & others


def test_every_file_stands_on_a_floor() -> None:
    assert {path.relative_to(ROOT).parts[0].removesuffix(".py") for path in files()} <= set(FLOOR)


def test_no_file_is_longer_than_400_lines_but_the_tables() -> None:
    tables = {"primitives"}
    long = [
        p.name for p in files() if p.relative_to(ROOT).parts[0] not in tables and len(p.read_text().splitlines()) > 400
    ]
    assert long == []


def test_no_function_is_longer_than_50_lines() -> None:
    long = [
        f"{path.name}:{node.name}"
        for path in files()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef) and (node.end_lineno or 0) - node.lineno + 1 > 50
    ]
    assert long == []
