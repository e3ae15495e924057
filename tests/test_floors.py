"""The house: a file imports from lower floors and from its own folder, never from above."""

import ast
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1] / "gradcli"
FLOORS = (
    ("errors", "words", "threads", "bytecode", "pipes", "apart", "declared", "relay"),
    ("process",),
    ("point", "reports"),
    ("explanations",),
    ("core",),
    ("primitives",),
    ("lowering",),
    ("interpreters",),
    ("source",),
    ("option_values",),
    ("option_rows",),
    ("program_options", "hard_point_options"),
    ("options",),
    ("replay",),
    ("programs",),
    ("numerics",),
    ("frameworks",),
    ("modes",),
    ("diagnosis",),
    ("verdict",),
    ("verify",),
    ("repair", "stress"),
    ("study",),
    ("derivation",),
    ("full_check",),
    ("discovery",),
    ("drawing",),
    ("forms",),
    ("suite",),
    ("capture",),
    (
        "api",
        "studies_api",
        "notebooks",
        "testing",
        "strategies",
        "commands",
        "cli",
        "world",
        "earlier",
        "link",
        "supervisor",
        "child",
        "__init__",
        "__main__",
    ),
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


def modules(path: Path) -> set[str]:
    """Return the files of gradcli that a file imports, as dotted names: `from gradcli.core import tracer` is of tracer."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= (inner & set(NAMES)) or {node.module}
    return found & set(NAMES)


def circles(imported: Mapping[str, Iterable[str]]) -> set[frozenset[str]]:
    """Return the largest sets of files each of which leads to all others."""
    reached = {name: set(others) for name, others in imported.items()}
    for middle in imported:
        for name in imported:
            if middle in reached[name]:
                reached[name] |= reached[middle]
    return {
        frozenset(other for other in reached[name] if name in reached[other])
        for name in imported
        if name in reached[name]
    }


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


def dotted(path: Path) -> str:
    return ".".join(("gradcli", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")


NAMES = {dotted(path): path for path in files()}


def test_no_files_import_each_other() -> None:
    """Imports inside functions and for types count, too."""
    assert circles({name: modules(path) - SHARED for name, path in NAMES.items()}) == set()


def test_a_circle_is_seen() -> None:
    assert circles({"a": ["b"], "b": ["c"], "c": ["b", "d"], "d": [], "e": ["e"]}) == {
        frozenset({"b", "c"}),
        frozenset({"e"}),
    }


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_imports_only_from_below(path: Path) -> None:
    place = path.relative_to(ROOT).parts[0].removesuffix(".py")
    assert trespasses(place, path.read_text()) == []


@pytest.mark.parametrize(
    "source",
    [
        "from gradcli.modes.mode import Question",
        "import gradcli.verify.check",
        "def f():\n    from gradcli.forms import Page\n",
        "from ..render import Page",
    ],
)
def test_an_upward_import_is_seen(source: str) -> None:
    assert trespasses("primitives", source)


def test_a_peer_renderer_is_seen_as_its_own_folder_only() -> None:
    assert trespasses("interpreters", "from gradcli.source.tokens import tokens")
    assert not trespasses("numerics", "from gradcli.interpreters.tape import Tape")


@pytest.mark.parametrize("path", sorted((ROOT / "forms").glob("*.py")), ids=lambda path: path.stem)
def test_no_renderer_imports_another(path: Path) -> None:
    renderers = (other for other in (ROOT / "forms").glob("*.py") if "\ndef render(" in other.read_text())
    others = {f"gradcli.forms.{other.stem}" for other in renderers}
    assert not imports(path.read_text()) & others


def test_every_file_stands_on_a_floor() -> None:
    assert {path.relative_to(ROOT).parts[0].removesuffix(".py") for path in files()} <= set(FLOOR)


def numbered_lines(source: str) -> list[int]:
    """Return where a source takes a field of a recorded line by its number instead of by unpacking."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and type(node.slice.value) is int:
            taken = node.value.value if isinstance(node.value, ast.Subscript) else node.value
            name = taken.attr if isinstance(taken, ast.Attribute) else taken.id if isinstance(taken, ast.Name) else ""
            if name == "line" or (name == "lines" and taken is not node.value):
                found.append(node.lineno)
    return found


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_recorded_lines_are_read_by_unpacking(path: Path) -> None:
    assert numbered_lines(path.read_text(encoding="utf-8")) == []


def test_one_reverse_sweep_is_written() -> None:
    """Adding up what rules pull back is done in one place; the others look at single products."""
    pulling = {
        path.name for path in files() if "frameworks" not in path.parts and adds_what_is_pulled(path.read_text())
    }
    assert pulling == {"tape.py"}


def adds_what_is_pulled(source: str) -> bool:
    """Whether a function both pulls a cotangent through a rule and adds to a list of them by a slot."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.FunctionDef):
            continue
        pulls = any(isinstance(n, ast.Attribute) and n.attr == "pull" for n in ast.walk(node))
        stores = [
            t for n in ast.walk(node) if isinstance(n, ast.Assign) for t in n.targets if isinstance(t, ast.Subscript)
        ]
        if pulls and any("bar" in ast.unparse(t.value) for t in stores):
            return True
    return False


@pytest.mark.parametrize(
    ("source", "sweeps"),
    [("def f():\n bars[s] = rule.pull(b) + bars[s]", True), ("def f():\n x = rule.pull(b)", False)],
)
def test_a_second_sweep_is_seen(source: str, sweeps: bool) -> None:
    assert adds_what_is_pulled(source) is sweeps


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("line[3]", 1),
        ("mark.line[0]", 1),
        ("tape.lines[k][3]", 1),
        ("lines[k][5]", 1),
        ("lines[0]", 0),
        ("_, y = line", 0),
        ("x[0]", 0),
    ],
)
def test_a_numbered_field_is_seen(source: str, count: int) -> None:
    assert len(numbered_lines(source)) == count


WORDS = {
    "finding": 2,
    "Notice": 2,
    "Finding": 2,
    "inconclusive": 1,
    "Diagnosis": 1,
    "Slip": 1,
    "says": 1,
}  # of what a call says, how many come from gradcli.words


def loose_words(source: str) -> list[int]:
    """Return where a finding's kind or severity is a text instead of a word that all share."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            given = node.args[: WORDS.get(name, 0)]
            found += [a.lineno for a in given if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        if isinstance(node, ast.Compare):
            sides = (node.left, *node.comparators)
            if any(isinstance(a, ast.Attribute) and a.attr == "severity" for a in sides):
                found += [a.lineno for a in sides if isinstance(a, ast.Constant)]
    return found


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_kinds_and_severities_are_words_that_all_share(path: Path) -> None:
    assert loose_words(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ('finding("kink", Severity.INFO, "x")', 1),
        ('case.inconclusive("kink", "x")', 1),
        ('f.severity == "info"', 1),
        ('finding(Kind.KINK, Severity.INFO, "x")', 0),
    ],
)
def test_a_loose_word_is_seen(source: str, count: int) -> None:
    assert len(loose_words(source)) == count
