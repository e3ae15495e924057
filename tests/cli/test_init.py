"""`gradcli init`: what it writes, what it never touches, and what it says."""

import ast
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from gradcli.project.discovery.proposal import runs_a_program
from tests.project.discovery.reading import written

Program = Callable[..., Any]
LIVE = "def bowl(x=1.0): return x * x\ndef bowl_grad(x=1.0): return 2 * x\n"
OPEN = "def focal(z): return z @ z\ndef focal_grad(z): return 2 * z\n"


@pytest.fixture(autouse=True)
def _inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


LAYERS = """
import numpy as np


class Affine:
    def __init__(self, W): self.W = W
    def forward(self, x):
        return x @ self.W
    def backward(self, dout):
        return dout @ self.W.T


class Recurrent:
    def __init__(self, Wx, Wh, b, rng): self.Wx, self.Wh, self.b, self.scale = Wx, Wh, b, rng.normal()
    def forward(self, x, h_prev):
        self.x, self.h, self.y = x, h_prev, np.tanh(x @ self.Wx + h_prev @ self.Wh + self.b)
        return self.y * self.scale
    def backward(self, d):
        d = d * self.scale * (1 - self.y**2)
        self.dWx, self.dWh, self.db = self.x.T @ d, self.h.T @ d, d.sum(axis=0)
        return d @ self.Wx.T, d @ self.Wh.T


class Looked:
    def __init__(self, W): self.W = W
    def forward(self, idx):
        self.idx = idx
        return self.W[idx]
    def backward(self, d):
        self.dW = np.zeros_like(self.W)
        np.add.at(self.dW, self.idx, d)


class Sampled:
    def __init__(self, sampler): self.W = sampler.weights
    def forward(self, x): return x @ self.W
    def backward(self, d): return d @ self.W.T


class Dense:
    def __init__(self, n, m): self.W = np.random.randn(n, m)
    def forward(self, x):
        self.x = x
        return x @ self.W
    def backward(self, dout):
        self.dW = 2 * self.x.T @ dout
        return dout @ self.W.T


class Ridge:
    def __init__(self, strength): self.strength = strength
    def loss(self, w, X, y): return np.sum((X @ w - y) ** 2) + self.strength * w @ w
    def gradient(self, w, X, y): return 2 * X.T @ (X @ w - y) + 2 * self.strength * w
"""


@pytest.mark.parametrize(
    ("code", "runs"),
    [
        ("import numpy as np\nW = np.zeros(3)\n", False),
        ("import sys, os\nsys.path.append(os.pardir)\nnp.random.seed(0)\n", False),
        ("class A: pass\nOBJECT = A()\n", False),
        ("def main(): pass\nif __name__ == '__main__': main()\n", False),
        ("def main(): pass\nmain()\n", True),
        ("def main(): pass\nhistory = main()\n", True),
        ("import sys\nif sys.argv: print(1)\n", True),
        ("try:\n    print(1)\nexcept OSError: pass\n", True),
        ("for k in range(3): x = k\n", True),
    ],
)
def test_a_file_that_runs_a_program_is_known(code: str, runs: bool) -> None:
    assert runs_a_program(ast.parse(code)) == runs


@pytest.mark.slow
def test_checks_are_tried_before_they_are_written(gradcli: Program, tmp_path: Path) -> None:
    script = "open('ran', 'w').write('')\nprint('training')\n"
    written(tmp_path, {"layers.py": LAYERS, "train.py": f"{script}{OPEN}"})
    ran = gradcli("init")
    assert (ran.exit_status, ran.stdout.splitlines()) == (0, [
        "gradcli.toml: written, 7 checks, 2 of them as comments",
        "5 ran at a point that was tried: 4 passed, 1 failed",
        "failed: Dense.backward",
        "not run:",
        "  Sampled.backward  Sampled(3) raised: AttributeError: 'int' object has no",
        "                    attribute 'weights'",
        "  focal_grad        its file runs a program when it is imported",
        "next: fill in what gradcli.toml marks with ?, then gradcli check",
    ])  # fmt: skip
    text = (tmp_path / "gradcli.toml").read_text()
    assert tomllib.loads(text)["check"] == [
        {"id": "Affine.backward", "target": "layers.py:Affine(randn(3,4))", "at": "x=randn(5,3)"},
        {"id": "Recurrent.backward", "target": "layers.py:Recurrent(randn(3,4), randn(4,4), zeros(4), default_rng(0))",
         "at": "x=randn(5,3), h_prev=randn(5,4)"},
        {"id": "Looked.backward", "target": "layers.py:Looked(randn(3,4))", "at": "idx=int([0, 2, 1, 0, 2])"},
        {"id": "Dense.backward", "target": "layers.py:Dense(3, 4)", "at": "x=randn(5,3)"},
        {"id": "Ridge.gradient", "target": "layers.py:Ridge(3)",
         "at": "w=randn(3), X=randn(5,3), y=[0, 1, 0, 1, 0]"},
    ]  # fmt: skip
    assert "# Tried, and not run: Sampled(3) raised: AttributeError: 'int' object has no attribute 'weights'" in text
    assert "# Tried, and not run: its file runs a program when it is imported" in text
    assert not [*tmp_path.rglob("ran")]
    listed = gradcli("check", "--json").json
    assert [row["verdict"] for row in listed["checks"]] == ["pass", "pass", "pass", "fail", "pass"]


def test_a_suite_is_written(gradcli: Program, tmp_path: Path) -> None:
    written(tmp_path, {"src/a.py": LIVE, "src/b.py": OPEN, "notes.py": OPEN})
    ran = gradcli("init", "--no-try")
    assert (ran.exit_status, ran.stderr) == (0, "")
    assert ran.stdout == (
        "gradcli.toml: written, 2 checks, 1 of them as comments\n"
        "next: fill in what gradcli.toml marks with ?, then gradcli check\n"
    )
    found = tomllib.loads((tmp_path / "gradcli.toml").read_text())
    assert found == {"paths": ["src"], "check": [{"id": "bowl_grad", "target": "src/a.py:bowl", "grad": "bowl_grad"}]}
    assert '# target = "src/b.py:focal"' in (tmp_path / "gradcli.toml").read_text()


BEFORE = [
    '[project]\nname = "mine"   # a comment\n',
    '[project]\r\nname = "mine"',
    "",
    "# größe\n[tool.other]\nx = 1\n\n\n",
]


@pytest.mark.parametrize("before", BEFORE)
def test_pyproject_keeps_its_bytes(gradcli: Program, tmp_path: Path, before: str) -> None:
    written(tmp_path, {"a.py": LIVE, "pyproject.toml": before})
    assert gradcli("init").exit_status == 0
    after = (tmp_path / "pyproject.toml").read_bytes()
    assert after.startswith(before.encode())
    assert tomllib.loads(after.decode())["tool"]["gradcli"]["check"][0]["target"] == "a.py:bowl"
    assert not (tmp_path / "gradcli.toml").exists()


@pytest.mark.parametrize("name", ["gradcli.toml", "pyproject.toml"])
def test_a_suite_that_is_there_is_left_as_it_is(gradcli: Program, tmp_path: Path, name: str) -> None:
    before = "" if name == "gradcli.toml" else "[tool.gradcli]\nseed = 1\n"
    written(tmp_path, {"a.py": LIVE, name: before})
    ran = gradcli("init")
    assert ran.exit_status == 2 and name in ran.stderr and "gradcli init --add" in ran.stderr
    assert gradcli("init", "--github", "-q").exit_status == 0  # what is missing is written
    assert (tmp_path / ".github/workflows/gradcli.yml").exists() and (tmp_path / name).read_text() == before


THERE = {  # suites that are there, where src/a.py has a gradient that none of their checks covers
    "an empty gradcli.toml": ("gradcli.toml", "", 1),
    "a table":               ("pyproject.toml", "[tool.gradcli]\nseed = 1\n", 1),
    "checks":                ("pyproject.toml", "[[tool.gradcli.check]]\nid = 'bowl_grad'\ntarget = 'x**2'\nat = 'x=1'   # mine", 2),
    "other tables after it": ("pyproject.toml", "[tool.gradcli]\nseed = 1\n\n[tool.other]\nx = 1\n", 1),
}  # fmt: skip


@pytest.mark.parametrize("case", THERE)
def test_checks_that_a_suite_lacks_are_added_at_its_end(gradcli: Program, tmp_path: Path, case: str) -> None:
    name, before, count = THERE[case]
    written(tmp_path, {"a.py": LIVE, name: before})
    ran = gradcli("init", "--add")
    assert (ran.exit_status, ran.stdout) == (
        0,
        f"{name}: added at its end, 1 check, 0 of them as comments\nnext: gradcli check\n",
    )
    after = (tmp_path / name).read_text()
    assert after.startswith(before)
    suite = tomllib.loads(after)
    added = (suite if name == "gradcli.toml" else suite["tool"]["gradcli"])["check"]
    assert len(added) == count
    assert added[-1] == {"id": "bowl_grad" if count == 1 else "bowl_grad#2", "target": "a.py:bowl", "grad": "bowl_grad"}
    assert gradcli("check", "--list").exit_status == 0
    again = gradcli("init", "--add")
    assert (
        again.stdout
        == f"{name}: left as it is, each hand-written gradient has a check there, or a comment\nnext: gradcli check\n"
    )
    assert (tmp_path / name).read_text() == after


def test_what_stands_as_a_comment_is_not_added_again(gradcli: Program, tmp_path: Path) -> None:
    written(tmp_path, {"a.py": OPEN})
    gradcli("init", "--no-try")
    before = (tmp_path / "gradcli.toml").read_text()
    ran = gradcli("init", "--add", "--no-try")
    assert ran.stdout.splitlines()[-1] == "next: fill in what gradcli.toml marks with ?, then gradcli check"
    assert (tmp_path / "gradcli.toml").read_text() == before
    assert gradcli("find").stderr.endswith(
        "next: fill in the checks that gradcli.toml has as comments, then gradcli check\n"
    )
    written(tmp_path, {"b.py": LIVE})
    assert "added at its end, 1 check" in gradcli("init", "--add", "--no-try").stdout
    assert tomllib.loads((tmp_path / "gradcli.toml").read_text())["check"][0]["id"] == "bowl_grad"


def test_checks_of_another_form_are_printed_instead(gradcli: Program, tmp_path: Path) -> None:
    before = "check = [{target = 'x**2', at = 'x=1'}]\n"
    written(tmp_path, {"a.py": LIVE, "gradcli.toml": before})
    ran = gradcli("init", "--add")
    assert ran.stdout.splitlines()[:4] == [
        "gradcli.toml: left as it is, since its checks are no tables [[...]]; these can be added:", "",
        "[[check]]", 'id = "bowl_grad"',
    ]  # fmt: skip
    assert (tmp_path / "gradcli.toml").read_text() == before


def test_a_check_in_the_code_counts(gradcli: Program, tmp_path: Path) -> None:
    written(tmp_path, {"a.py": "import gradcli\n@gradcli.checked(grad='bowl_grad', at='x=1')\n" + LIVE})
    ran = gradcli("init", "--no-try")
    assert (ran.exit_status, tomllib.loads((tmp_path / "gradcli.toml").read_text())) == (0, {"paths": ["."]})


@pytest.mark.parametrize("content", ["[tool", b"# \xff\n"])
def test_a_file_that_cannot_be_read_is_refused(gradcli: Program, tmp_path: Path, content: str | bytes) -> None:
    written(tmp_path, {"a.py": LIVE, "pyproject.toml": content})
    ran = gradcli("init", "--github")
    assert ran.exit_status == 2 and "pyproject.toml" in ran.stderr
    assert not (tmp_path / ".github").exists()


INSTALLED = [  # files of a project, and what is installed beside gradcli
    ({"pyproject.toml": "[project]\nname = 'mine'\n"}, " ."),
    ({"setup.py": ""}, " ."),
    ({"requirements.txt": "numpy\n"}, " -r requirements.txt"),
    ({"pyproject.toml": "[tool.other]\nx = 1\n"}, ""),
    ({}, ""),
]  # fmt: skip


@pytest.mark.parametrize(("files", "installed"), INSTALLED)
def test_the_workflow_installs_what_can_be_installed(
    gradcli: Program, tmp_path: Path, files: dict[str, str | bytes], installed: str
) -> None:
    written(tmp_path, files)
    gradcli("init", "--github")
    lines = (tmp_path / ".github/workflows/gradcli.yml").read_text().splitlines()
    assert f'      - run: pip install "gradcli @ git+https://github.com/gradcli/gradcli"{installed}' in lines


def test_in_a_subfolder_the_workflow_is_written_at_the_top(
    gradcli: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, {".git/HEAD": "", "services/ml: 1/a.py": LIVE})
    monkeypatch.chdir(tmp_path / "services" / "ml: 1")
    assert "../../.github/workflows/gradcli.yml: written" in gradcli("init", "--github").stdout.splitlines()
    assert not Path(".github").exists()
    job = yaml.safe_load((tmp_path / ".github/workflows/gradcli.yml").read_text())["jobs"]["gradients"]
    assert job["defaults"] == {"run": {"working-directory": "services/ml: 1"}}
    assert job["steps"][-1]["with"]["path"] == "services/ml: 1/gradcli.xml"  # which knows no working directory
    ran = gradcli("init", "--github")
    assert ran.exit_status == 2 and "../../.github/workflows/gradcli.yml is there already" in ran.stderr


def test_a_workflow_that_is_there_is_kept(gradcli: Program, tmp_path: Path) -> None:
    workflow = tmp_path / ".github" / "workflows" / "gradcli.yml"
    written(tmp_path, {".github/workflows/gradcli.yml": b"mine"})
    ran = gradcli("init", "--github")
    assert (ran.exit_status, workflow.read_text(), (tmp_path / "gradcli.toml").exists()) == (2, "mine", False)


def test_the_workflow_is_written_once(gradcli: Program, tmp_path: Path) -> None:
    written(tmp_path, {"a.py": LIVE})
    ran = gradcli("init", "--github")
    assert (ran.exit_status, ran.stdout.splitlines()[1:]) == (
        0,
        [".github/workflows/gradcli.yml: written", "next: gradcli check"],
    )
    workflow = tmp_path / ".github" / "workflows" / "gradcli.yml"
    assert "gradcli check --out gradcli.xml" in workflow.read_text()
    (tmp_path / "gradcli.toml").unlink()
    workflow.write_text("mine")
    ran = gradcli("init", "--github")
    assert (ran.exit_status, workflow.read_text()) == (2, "mine")
    assert ".github/workflows/gradcli.yml" in ran.stderr
    assert not (tmp_path / "gradcli.toml").exists()


@pytest.mark.parametrize("words", [(), ("--quiet",)])
def test_beside_a_suite_the_workflow_alone_is_written(gradcli: Program, tmp_path: Path, words: tuple[str, ...]) -> None:
    written(tmp_path, {"gradcli.toml": b'paths = ["."]'})
    ran = gradcli("init", "--github", *words)
    assert (ran.exit_status, (tmp_path / "gradcli.toml").read_text()) == (0, 'paths = ["."]')
    assert (tmp_path / ".github/workflows/gradcli.yml").exists() and bool(ran.stdout) == (not words)


def test_nothing_found_is_a_suite_without_checks(gradcli: Program, tmp_path: Path) -> None:
    ran = gradcli("init")
    assert (ran.exit_status, tomllib.loads((tmp_path / "gradcli.toml").read_text())) == (0, {"paths": ["."]})
    assert "no hand-written gradient was found" in ran.stdout


def test_quiet_says_nothing(gradcli: Program, tmp_path: Path) -> None:
    written(tmp_path, {"a.py": LIVE})
    assert gradcli("init", "-q").stdout == ""
    assert (tmp_path / "gradcli.toml").exists()


def test_what_init_writes_is_what_find_reads(gradcli: Program, tmp_path: Path) -> None:
    written(tmp_path, {"a.py": LIVE, "b.py": OPEN})
    gradcli("init", "--no-try")
    assert "\n1 of 2 hand-written gradients are checked\n" in gradcli("find").stdout
