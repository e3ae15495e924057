"""The process that reads: which files it takes, and files that are made to stop it."""

import sys
from pathlib import Path

import pytest

from gradcli.errors import BadOption, GradcliError
from gradcli.project.discovery import reader
from gradcli.project.discovery.project import python_files
from gradcli.project.discovery.reader import find_gradients
from tests.project.discovery.reading import written
from tests.rows import for_rows

PAIR = "def f(x): return x * x\ndef f_grad(x): return 2 * x\n"


@pytest.fixture(autouse=True)
def _inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


HOSTILE: dict[str, tuple[bytes, str]] = {
    "syntax.py": (b"def f(:\n", "syntax error"),
    "two.py": (b"print 'python 2'\n", "syntax error"),
    "null.py": (b"x = 1\0\n", "null bytes"),
    "latin.py": (b"x = '\xe9'\n", "not UTF-8"),
    "unknown.py": (b"# -*- coding: no-such-code -*-\n", "unknown encoding"),
    "wide.py": ("x = 1\n".encode("utf-16"), "not UTF-8"),
    "deep.py": (b"x = " + b"(" * 5_000 + b")" * 5_000 + b"\n", ""),
    "minus.py": (b"x = " + b"-" * 200_000 + b"1\n", ""),
    "dots.py": (b"x = a" + b".b" * 200_000 + b"\n", ""),
    "huge.py": (b"#" + b"x" * reader.LARGEST + b"\n", "larger than 5 MB"),
}


def test_hostile_files_are_listed_and_the_others_read(tmp_path: Path) -> None:
    written(tmp_path, {name: content for name, (content, _) in HOSTILE.items()} | {"good.py": PAIR})
    findings = find_gradients(["."])
    assert [(g.file, g.name) for g in findings.gradients] == [("good.py", "f_grad")]
    reasons = {unread.file: unread.reason for unread in findings.unreadable}
    for name, (_, said) in HOSTILE.items():
        assert said in reasons[name], name
    assert set(reasons) == set(HOSTILE)


GOOD = {
    "declared": b"# -*- coding: latin-1 -*-\n# \xe9\n" + PAIR.encode(),
    "marked": b"\xef\xbb\xbf" + PAIR.encode(),
    "lines of windows": PAIR.replace("\n", "\r\n").encode(),
    "names in other scripts": "def größe(x): return x * x\ndef größe_grad(x): return 2 * x\n".encode(),
    "many elifs": PAIR.encode() + b"if x: pass\n" + b"elif x: pass\n" * 900,
    "a long sum": PAIR.encode() + b"x = " + b" + ".join([b"1"] * 900) + b"\n",
}


@pytest.mark.parametrize("case", GOOD)
def test_unusual_files_are_read(tmp_path: Path, case: str) -> None:
    written(tmp_path, {"a.py": GOOD[case]})
    findings = find_gradients(["a.py"])
    assert (len(findings.gradients), findings.unreadable) == (1, ())


LOOP = """from scipy.optimize import minimize
from a import x
x = y
y = x
class C(C):
    def f(self, x): return x * x
    def f_grad(self, x): return x * 2
class D(E): pass
class E(D): pass
minimize(sum, [1], jac=x)
"""
TREE_OF_NAMES = "from scipy.optimize import minimize\n" + "".join(
    f"x{k} = x{k + 1} if a else x{k + 1}\n" for k in range(60)
)


def test_names_that_lead_in_a_circle_are_left(tmp_path: Path) -> None:
    written(tmp_path, {"a.py": LOOP, "b.py": TREE_OF_NAMES + "minimize(sum, [1], jac=x0)\n"})
    assert [g.name for g in find_gradients(["."]).gradients] == ["C.f_grad"]


def test_nothing_is_imported_and_nothing_is_run(tmp_path: Path) -> None:
    mark = "import pathlib\npathlib.Path('ran').write_text('')\n"
    written(tmp_path, {"a.py": mark + PAIR, **{f"{name}.py": mark for name in ("ast", "json", "gradcli", "tokenize")}})
    assert len(find_gradients(["."]).gradients) == 1
    assert not (tmp_path / "ran").exists()


def test_the_process_imports_only_the_standard_library() -> None:
    import subprocess

    code = "import sys, gradcli.project.discovery.reader; print(*(m for m in sys.modules))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"numpy", "scipy", "sympy", "typer", "rich"} & set(ran.stdout.split())


def test_a_file_that_ends_the_process_costs_only_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, {"a.py": PAIR, "bad.py": "x = 'end it'\n", "c.py": PAIR})
    start = (
        "import os, sys; sys.path.append({root!r}); from gradcli.project.discovery import reader; read = reader.parse_file\n"
        "reader.parse_file = lambda path: os.abort() if path == 'bad.py' else read(path)\nreader.main()"
    )
    monkeypatch.setattr(reader, "_START", start)
    findings = find_gradients(["."])
    assert [g.file for g in findings.gradients] == ["a.py", "c.py"]
    ((bad, reason),) = [(u.file, u.reason) for u in findings.unreadable]
    assert bad == "bad.py"
    assert "ends the process" in reason


def test_a_process_that_cannot_start_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_START", "raise SystemExit('no reader')")
    with pytest.raises(GradcliError, match="no reader"):
        find_gradients(["."])


@pytest.mark.parametrize(
    ("path", "says"), [("nowhere", "no file, folder or Python module"), ("a.txt", "no Python file")]
)
def test_paths_that_cannot_be_read_are_refused(tmp_path: Path, path: str, says: str) -> None:
    written(tmp_path, {"a.txt": "x"})
    with pytest.raises(BadOption, match=says):
        find_gradients([path])


TREE = dict.fromkeys(("a.py", "pkg/b.py", "pkg/tests/t.py", "tests/test_a.py", "test_c.py", "c_test.py", "conftest.py", "build/x.py", "dist/x.py", ".hidden/x.py", "node_modules/x.py", "lib/site-packages/x.py", "own/pyvenv.cfg", "own/x.py", "note.txt", "__pycache__/x.py", "a.egg-info/x.py", "ignored.py", "made/x.py", "keep/made.py", "keep/gen_1.py", "keep/gen_2.py", "deep/a/b/c.py"), "")  # fmt: skip
IGNORE = "# what is made\nignored.py\n/made/\ngen_*.py\n!gen_2.py\ndeep/**/c.py\n"


def test_folders_that_hold_no_source_are_skipped(tmp_path: Path) -> None:
    written(tmp_path, TREE | {".gitignore": IGNORE})
    assert [*python_files(".")] == ["a.py", "keep/gen_2.py", "keep/made.py", "pkg/b.py"]


@for_rows(
    ("path", "files"),
    [
        ("test_c.py", ["test_c.py"]),
        ("ignored.py", ["ignored.py"]),
        ("tests", ["tests/test_a.py"]),
        ("pkg/tests/", ["pkg/tests/t.py"]),
        ("build", ["build/x.py"]),
        (".hidden", [".hidden/x.py"]),
        ("own", ["own/x.py"]),
        ("./pkg", ["pkg/b.py"]),
    ],
)
def test_what_is_named_is_read(tmp_path: Path, path: str, files: list[str]) -> None:
    written(tmp_path, TREE | {".gitignore": IGNORE})
    assert [*python_files(path)] == files


def test_the_rules_of_the_folders_above_count_inside_a_repository(tmp_path: Path) -> None:
    written(
        tmp_path,
        {
            ".git/HEAD": "",
            ".gitignore": "made.py\n",
            "pkg/made.py": "",
            "pkg/a.py": "",
            "pkg/.gitignore": "b.py\n",
            "pkg/b.py": "",
        },
    )
    assert [*python_files("pkg")] == ["pkg/a.py"]


def test_links_to_folders_are_not_followed(tmp_path: Path) -> None:
    written(tmp_path, {"a/b.py": ""})
    (tmp_path / "a" / "again").symlink_to(tmp_path / "a")
    assert [*python_files(".")] == ["a/b.py"]
