"""The house: a file imports from lower floors and from its own folder, never from above, and no files import each other."""

import ast
import functools
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1] / "gradcli"
ROOMS = (  # from the ground up, as ARCHITECTURE.md has them
    "classes", "errors", "words", "process", "request", "report", "tracing", "rules", "arithmetic", "targets", "compiling", "frameworks",
    "modes", "checks", "repair", "derivation", "study", "project",
)  # fmt: skip
TOP = ("cli", "api", "testing", "strategies", "__init__", "__main__")  # which share the topmost floor
FLOOR = {name: number for number, name in enumerate(ROOMS)} | dict.fromkeys(TOP, len(ROOMS))
SHARED = {"gradcli"}  # the package itself: its version


def dotted(path: Path) -> str:
    return ".".join(("gradcli", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")


FILES = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in sorted(ROOT.rglob("*.py"))}
NAMES = {dotted(ROOT / place): source for place, source in FILES.items()}


STARTED = {"gradcli.process.workers": "gradcli.modes.symbolic_worker"}  # as a process


@functools.cache
def nodes(source: str) -> list[ast.AST]:
    return list(ast.walk(ast.parse(source)))


def imports(source: str) -> set[str]:
    """Return every gradcli module a source imports, inside functions too, and those that a text names."""
    found = set()
    for node in nodes(source):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= (inner & NAMES.keys()) or {node.module}
        elif isinstance(node, ast.ImportFrom) and node.level:
            found.add("gradcli.relative")
    return {name for name in found if name.split(".")[0] == "gradcli"} | by_text(source)


def by_text(source: str) -> set[str]:
    """Return the gradcli modules that a source names in a text, to import them while it runs: `gradcli.x.y` or `gradcli.x.y:f`."""
    texts = (node.value for node in nodes(source) if isinstance(node, ast.Constant))
    return {text.partition(":")[0] for text in texts if isinstance(text, str)} & NAMES.keys() - SHARED


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
    """Return the imports of a file that the house does not allow."""
    room = place.split("/")[0].removesuffix(".py")
    bad = []
    for name in sorted(imports(source) - SHARED):
        target = name.split(".")[1]
        below = FLOOR.get(target, len(FLOOR)) < FLOOR[room] or (room in TOP and target in TOP)
        if not below and target != room and name != STARTED.get(dotted(ROOT / place)):
            bad.append(name)
    return bad


def numbered_fields(place: str, source: str) -> list[int]:
    """Return where a source takes a field of a recorded line by its number instead of by unpacking."""
    found = []
    for node in nodes(source):
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and type(node.slice.value) is int:
            taken = node.value.value if isinstance(node.value, ast.Subscript) else node.value
            name = taken.attr if isinstance(taken, ast.Attribute) else taken.id if isinstance(taken, ast.Name) else ""
            if name == "line" or (name == "lines" and taken is not node.value):
                found.append(node.lineno)
    return found


WORDS = {
    "finding": 2, "Notice": 2, "Finding": 2, "inconclusive": 1, "Diagnosis": 1, "Slip": 1, "says": 1,
}  # fmt: skip  # of what a call says, how many come from gradcli.words


def loose_words(place: str, source: str) -> list[int]:
    """Return where a finding's kind or severity is a text instead of a word that all share."""
    found = []
    for node in nodes(source):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            given = node.args[: WORDS.get(name, 0)]
            found += [a.lineno for a in given if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        if isinstance(node, ast.Compare):
            sides = (node.left, *node.comparators)
            if any(isinstance(a, ast.Attribute) and a.attr == "severity" for a in sides):
                found += [a.lineno for a in sides if isinstance(a, ast.Constant)]
    return found


RENDERERS = {f"gradcli.report.forms.{Path(place).stem}" for place, source in FILES.items() if "\ndef render_" in source}


def other_renderers(place: str, source: str) -> list[str]:
    """Return the renderers that another one imports."""
    return sorted(imports(source) & RENDERERS) if place.startswith("report/forms/") else []


def second_sweeps(place: str, source: str) -> list[str]:
    """Return the functions that both pull a cotangent through a rule and add to a list of them by a slot.

    That is done in one place; the others look at single products.
    """
    if place == "arithmetic/tape.py" or place.startswith("frameworks/"):
        return []
    found = []
    for node in (node for node in nodes(source) if isinstance(node, ast.FunctionDef)):
        pulls = any(isinstance(n, ast.Attribute) and n.attr == "pull" for n in ast.walk(node))
        stores = [
            t for n in ast.walk(node) if isinstance(n, ast.Assign) for t in n.targets if isinstance(t, ast.Subscript)
        ]
        if pulls and any("bar" in ast.unparse(t.value) for t in stores):
            found.append(node.name)
    return found


def slow_dataclasses(place: str, source: str) -> list[int]:
    """Return where the standard decorator of dataclasses is used, which makes them slowly."""
    if place == "classes.py":
        return []
    found = []
    for node in nodes(source):
        if isinstance(node, ast.ImportFrom) and node.module == "dataclasses":
            found += [node.lineno for name in node.names if name.name == "dataclass"]
        if isinstance(node, ast.Attribute) and ast.unparse(node) == "dataclasses.dataclass":
            found.append(node.lineno)
    return found


RULES: dict[str, tuple[Callable[[str, str], list], dict[str, int]]] = {  # with sources in rules/ and what they break
    "a file imports only from below": (trespasses, {
        "from gradcli.modes.mode import Question": 1,
        "import gradcli.checks.check": 1,
        "def f():\n    from gradcli.cli.output import print_error\n": 1,
        "import_module('gradcli.checks.check')": 1,
        "KNOWN = {'run': 'gradcli.project.suite.executors:run'}": 1,
        "from ..render import Page": 1,
        "from gradcli.tracing.tracer import Tracer": 0,
    }),
    "no renderer imports another": (other_renderers, {}),
    "recorded lines are read by unpacking": (numbered_fields, {
        "line[3]": 1, "mark.line[0]": 1, "tape.lines[k][3]": 1, "lines[k][5]": 1, "lines[0]": 0, "_, y = line": 0, "x[0]": 0,
    }),
    "kinds and severities are words that all share": (loose_words, {
        'finding("kink", Severity.INFO, "x")': 1,
        'case.inconclusive("kink", "x")': 1,
        'f.severity == "info"': 1,
        'finding(Kind.KINK, Severity.INFO, "x")': 0,
    }),
    "dataclasses are those of gradcli.classes": (slow_dataclasses, {
        "from dataclasses import dataclass, field": 1, "import dataclasses\n@dataclasses.dataclass\nclass A: ...": 1,
        "from dataclasses import field, replace": 0,
    }),
    "one reverse sweep is written": (second_sweeps, {
        "def f():\n bars[s] = rule.pull(b) + bars[s]": 1, "def f():\n x = rule.pull(b)": 0,
    }),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES)
def test_all_files_keep_the_rule(rule: str) -> None:
    breaks, _ = RULES[rule]
    assert {place: bad for place, source in FILES.items() if (bad := breaks(place, source))} == {}


@pytest.mark.parametrize("rule", RULES)
def test_what_breaks_the_rule_is_seen(rule: str) -> None:
    breaks, examples = RULES[rule]
    assert {source: len(breaks("rules/example.py", source)) for source in examples} == examples


def test_a_renderer_that_imports_another_is_seen() -> None:
    assert other_renderers("report/forms/figure.py", "from gradcli.report.forms.html import render_html") == [
        "gradcli.report.forms.html"
    ]


@pytest.mark.slow
def test_no_files_import_each_other() -> None:
    """Imports inside functions, for types and by a text count, too."""
    imported = {name: imports(source) & NAMES.keys() - SHARED - {STARTED.get(name)} for name, source in NAMES.items()}
    assert circles(imported) == set()


def test_a_circle_is_seen() -> None:
    assert circles({"a": ["b"], "b": ["c"], "c": ["b", "d"], "d": [], "e": ["e"]}) == {
        frozenset({"b", "c"}),
        frozenset({"e"}),
    }


def test_every_file_stands_on_a_floor() -> None:
    assert {place.split("/")[0].removesuffix(".py") for place in FILES} <= FLOOR.keys()
