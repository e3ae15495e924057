"""`gradcli init`: what it writes, what it never touches, and what it says."""

import ast
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gradcli.project.discovery.trial import runs_a_program
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


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize("before", BEFORE)
def test_pyproject_keeps_its_bytes(gradcli: Program, tmp_path: Path, before: str) -> None:
    written(tmp_path, {"a.py": LIVE, "pyproject.toml": before})
    assert gradcli("init").exit_status == 0
    after = (tmp_path / "pyproject.toml").read_bytes()
    assert after.startswith(before.encode())
    assert tomllib.loads(after.decode())["tool"]["gradcli"]["check"][0]["target"] == "a.py:bowl"
    assert not (tmp_path / "gradcli.toml").exists()


REFUSED = {
    "gradcli.toml": ({"gradcli.toml": ""}, "gradcli.toml"),
    "a table": ({"pyproject.toml": "[tool.gradcli]\nseed = 1\n"}, "pyproject.toml"),
    "checks": ({"pyproject.toml": "[[tool.gradcli.check]]\ntarget = 'x'\n"}, "pyproject.toml"),
    "no TOML": ({"pyproject.toml": "[tool"}, "pyproject.toml"),
    "no UTF-8": ({"pyproject.toml": b"# \xff\n"}, "pyproject.toml"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_there_is_not_overwritten(gradcli: Program, tmp_path: Path, case: str) -> None:
    files, name = REFUSED[case]
    written(tmp_path, {"a.py": LIVE, **files})
    contents = lambda: {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    before = contents()
    ran = gradcli("init")
    assert ran.exit_status == 2 and name in ran.stderr and contents() == before
    ran = gradcli("init", "--github", "-q")
    workflow = tmp_path / ".github" / "workflows" / "gradcli.yml"
    if case in ("no TOML", "no UTF-8"):
        assert ran.exit_status == 2 and contents() == before
    else:  # what is missing is written
        assert ran.exit_status == 0 and contents() == before | {workflow: workflow.read_bytes()}


def test_a_workflow_that_is_there_is_kept(gradcli: Program, tmp_path: Path) -> None:
    workflow = tmp_path / ".github" / "workflows" / "gradcli.yml"
    written(tmp_path, {".github/workflows/gradcli.yml": b"mine"})
    ran = gradcli("init", "--github")
    assert (ran.exit_status, workflow.read_text(), (tmp_path / "gradcli.toml").exists()) == (2, "mine", False)


@pytest.mark.slow
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


def test_nothing_found_is_a_suite_without_checks(gradcli: Program, tmp_path: Path) -> None:
    ran = gradcli("init")
    assert (ran.exit_status, tomllib.loads((tmp_path / "gradcli.toml").read_text())) == (0, {"paths": ["."]})
    assert "no hand-written gradient was found" in ran.stdout


@pytest.mark.slow
def test_quiet_says_nothing(gradcli: Program, tmp_path: Path) -> None:
    written(tmp_path, {"a.py": LIVE})
    assert gradcli("init", "-q").stdout == ""
    assert (tmp_path / "gradcli.toml").exists()


@pytest.mark.slow
def test_what_init_writes_is_what_find_reads(gradcli: Program, tmp_path: Path) -> None:
    written(tmp_path, {"a.py": LIVE, "b.py": OPEN})
    gradcli("init", "--no-try")
    assert "\n1 of 2 hand-written gradients are checked\n" in gradcli("find").stdout
