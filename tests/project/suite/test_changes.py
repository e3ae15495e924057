"""Which checks `--changed` selects: each kind of file that a check depends on, and none that it does not."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from gradcli.errors import BadOption
from gradcli.project.suite.config import find_suite
from gradcli.project.suite.selection import changed_checks, checks_of_files

BODY = "def f(x):\n    return x**2\ndef g(x):\n    return 2*x\n"
FILES = {
    "gradcli.toml": """seed = 3
[profile.nightly]
seed = 4
[[check]]
id = "plain"
target = "x**2"
[[check]]
id = "file"
target = "losses.py:f"
grad = "g"
at = "x=1"
[[check]]
id = "package"
target = "src/pkg/sub/deep.py:f"
at = ["x=@points/x.npz:key", "@points/whole.npz"]
[[check]]
id = "module"
target = "pkg.models:f"
grad = "claims.py:g"
reference = "twin.py:f"
at = "x=values.py:X"
""",
    "losses.py": f"import shared, numpy as np\n{BODY}",
    "shared.py": "def late():\n    from lazy import K\n    return K\n",
    "lazy.py": "import importlib\nother = importlib.import_module('named')\nK = 1\n",
    "named.py": "K = 1\n",
    "src/pkg/__init__.py": "",
    "src/pkg/sub/__init__.py": "",
    "src/pkg/sub/deep.py": f"from .. import beside\nfrom .near import K\nfrom ..numbers import *\n{BODY}",
    "src/pkg/sub/near.py": "K = 1\n",
    "src/pkg/beside.py": "",
    "src/pkg/numbers.py": "",
    "src/pkg/models.py": f"import numbers\nimport pkg.tables.one\n{BODY}",
    "src/pkg/tables/one.py": "",
    "claims.py": f"import gone\n{BODY}",
    "gone.py": "",
    "twin.py": BODY,
    "values.py": "X = 1.0\n",
    "marked.py": f"import gradcli\n@gradcli.checked(id='marked', at='x=1')\n{BODY}",
    "points/x.npz": "1",
    "points/whole.npz": "1",
    "unused.py": "",
    "README.md": "",
    ".gitignore": "ignored.py\n",
}
Git = Callable[..., object]

# fmt: off
CHANGES = [  # a file, and the checks that depend on it
    ("losses.py",             "file"),
    ("shared.py",             "file"),
    ("lazy.py",               "file"),
    ("named.py",              "file"),
    ("src/pkg/sub/deep.py",   "package"),
    ("src/pkg/sub/near.py",   "package"),
    ("src/pkg/beside.py",     "package"),
    ("src/pkg/numbers.py",    "package"),
    ("src/pkg/sub/__init__.py", "package"),
    ("src/pkg/__init__.py",   "package module"),
    ("src/pkg/models.py",     "module"),
    ("src/pkg/tables/one.py", "module"),
    ("claims.py",             "module"),
    ("twin.py",               "module"),
    ("values.py",             "module"),
    ("marked.py",             "marked"),
    ("points/x.npz",          "package"),
    ("points/whole.npz",      "package"),
    ("unused.py",             ""),
    ("README.md",             ""),
    ("shared/__init__.py",    "file"),    # new: it stands before shared.py
    ("ignored.py",            ""),
]
DECLARATIONS = [  # an edit of the suite, and the checks that are declared differently by it
    ('target = "x**2"',   'target = "x**3"',   "plain"),
    ('id = "plain"',      'id = "simple"',     "simple"),
    ('at = "x=1"',        'at = "x=2"',        "file"),
    ('grad = "g"\n',      "",                  "file"),
    ("seed = 3",          "seed = 5",          "plain file package module marked"),
    ("seed = 4",          "seed = 5",          ""),
    ("seed = 3",          "seed = 3 # three",  ""),
    ('[[check]]\nid = "plain"', '[[check]]\nid = "new"\ntarget = "y"\n[[check]]\nid = "plain"', "new"),
]
# fmt: on


@pytest.fixture(name="git")
def _git(tmp_path: Path) -> Git:
    git = lambda *words: subprocess.run(["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b", *words], check=True, capture_output=True)  # fmt: skip
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    git("init", "-q", "-b", "main")
    git("add", ".")
    git("commit", "-qm", "first")
    return git


def chosen(folder: Path, since: str | None = None, profile: str | None = None) -> str:
    suite = find_suite(folder, profile)
    assert suite is not None
    return " ".join(check.id for check in changed_checks(suite, suite.checks, since))


@pytest.mark.slow
def test_a_file_selects_the_checks_that_depend_on_it(tmp_path: Path, git: Git) -> None:
    for name, ids in CHANGES:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(FILES.get(name, "") + "\n#")
        assert chosen(tmp_path) == ids, name
        path.unlink()
        if name in FILES:
            assert chosen(tmp_path) == (ids if name != "marked.py" else ""), f"{name} is gone"
            path.write_text(FILES[name])
        elif path.parent.name == "shared":
            path.parent.rmdir()
    assert chosen(tmp_path) == ""


def test_files_that_are_named_select_the_same_without_git(tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    suite = find_suite(tmp_path)
    assert suite is not None
    select = lambda *names: " ".join(
        c.id for c in checks_of_files(suite, suite.checks, [tmp_path / name for name in names])
    )
    for name, ids in CHANGES:
        if name in FILES:
            assert select(name) == ids, name
    assert select("claims.py", "unused.py", "losses.py") == "file module"
    assert select("gradcli.toml") == "plain file package module marked"


@pytest.mark.parametrize(("old", "new", "ids"), DECLARATIONS)
def test_a_declaration_selects_its_check(tmp_path: Path, git: Git, old: str, new: str, ids: str) -> None:
    text = FILES["gradcli.toml"]
    assert text.count(old) == 1
    (tmp_path / "gradcli.toml").write_text(text.replace(old, new))
    assert chosen(tmp_path) == ids
    if new == "seed = 5" and old == "seed = 4":
        assert chosen(tmp_path, profile="nightly") == "plain file package module marked"


def test_declarations_that_cannot_be_compared_have_changed(tmp_path: Path, git: Git) -> None:
    (tmp_path / "gradcli.toml").write_text("[[check")
    git("commit", "-qam", "broken")
    (tmp_path / "gradcli.toml").write_text(FILES["gradcli.toml"])
    assert chosen(tmp_path) == "plain file package module marked"
    git("rm", "-q", "--cached", "gradcli.toml")
    assert chosen(tmp_path) == "plain file package module marked"


def test_changes_are_counted_from_where_a_branch_began(tmp_path: Path, git: Git) -> None:
    git("checkout", "-qb", "work")
    (tmp_path / "shared.py").write_text("")
    git("commit", "-qam", "second")
    git("checkout", "-q", "main")
    (tmp_path / "twin.py").write_text("")
    git("commit", "-qam", "third")
    git("checkout", "-q", "work")
    assert (chosen(tmp_path), chosen(tmp_path, "main")) == ("", "file")
    (tmp_path / "losses.py").rename(tmp_path / "ü b.py")
    assert chosen(tmp_path, "main") == "file"
    for since, says in (("nowhere", "git cannot tell"), ("--all", "names no commit")):
        with pytest.raises(BadOption, match=says):
            chosen(tmp_path, since)


def test_links_and_files_that_cannot_be_read_are_followed_as_far_as_they_lead(tmp_path: Path, git: Git) -> None:
    (tmp_path / "shared.py").unlink()
    (tmp_path / "shared.py").symlink_to("unused.py")
    (tmp_path / "lazy.py").write_text("def (")
    git("commit", "-qam", "a link")
    (tmp_path / "unused.py").write_text("K = 2\n")
    assert chosen(tmp_path) == "file"


def test_a_suite_below_the_top_of_a_repository(tmp_path: Path, git: Git) -> None:
    below = tmp_path / "below"
    below.mkdir()
    (below / "gradcli.toml").write_text('[[check]]\nid = "up"\ntarget = "../losses.py:f"\nat = "x=@../points/x.npz"\n')
    (below / "m.py").write_text("")
    git("add", ".")
    git("commit", "-qm", "below")
    assert chosen(below) == ""
    for name in ("shared.py", "points/x.npz"):
        (tmp_path / name).write_text("2")
        assert chosen(below) == "up"
        (tmp_path / name).write_text(FILES[name])


def test_a_folder_outside_a_repository_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "gradcli.toml").write_text(FILES["gradcli.toml"])
    with pytest.raises(BadOption, match="git cannot tell what changed"):
        chosen(tmp_path)
