"""The suite that is proposed: TOML that is read back, live where the point is known, comments where it is not."""

import tomllib
from pathlib import Path

import pytest

from gradcli.project.discovery.proposal import (
    ADDRESS,
    check_ids,
    commented_ids,
    describe_left_out,
    is_complete_check,
    quote_for_toml,
    suite_text,
    workflow_text,
)
from tests.project.discovery.reading import HEAD, find, written
from tests.rows import for_rows

LIVE = "def bowl(x=1.0, c=2.5): return c * x * x\ndef bowl_grad(x=1.0, c=2.5): return 2 * c * x\n"
OPEN = "def focal(r, c=1.5, mask=None): return c * r @ r\ndef focal_grad(r, c=1.5, mask=None): return 2 * c * r\n"
POINT = "point = {'r': [1.0]}\n"


@pytest.fixture(autouse=True)
def _inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def proposed(folder: Path, files: dict[str, str | bytes], table: str = "") -> str:
    written(folder, files)
    return suite_text(find(["."]).gradients, ["."], table)


def uncommented(text: str) -> dict:
    """Return the suite as it is when the marks of its comments are removed; its notes stay comments."""
    lines = [
        line.removeprefix("# ")
        if line.startswith(("# [[", "# id", "# target", "# at", "# grad", "# jac", "# hess", "# v"))
        else line
        for line in text.splitlines()
    ]
    return tomllib.loads("\n".join(lines))


def test_a_check_whose_defaults_are_floats_is_live(tmp_path: Path) -> None:
    found = tomllib.loads(proposed(tmp_path, {"a.py": LIVE}, "tool.gradcli"))["tool"]["gradcli"]
    assert found["check"] == [{"id": "bowl_grad", "target": "a.py:bowl", "grad": "bowl_grad"}]


def test_a_check_whose_module_has_a_point_is_live(tmp_path: Path) -> None:
    assert [c["target"] for c in tomllib.loads(proposed(tmp_path, {"a.py": OPEN + POINT}))["check"]] == ["a.py:focal"]


def test_any_other_check_is_a_comment_that_says_what_to_fill_in(tmp_path: Path) -> None:
    text = proposed(tmp_path, {"pkg/a.py": OPEN})
    assert "check" not in tomllib.loads(text)
    assert '# at = ["r=randn(?), c=1.5"]' in text
    assert uncommented(text)["check"] == [
        {"id": "focal_grad", "target": "pkg/a.py:focal", "grad": "focal_grad", "at": ["r=randn(?), c=1.5"]}
    ]


KINDS = {
    "def f(x=1.0): return x\ndef f_jac(x=1.0): return 1.0\n": {"jac": "f_jac"},
    "def f(x=1.0): return x\ndef f_hess(x=1.0): return 0.0\n": {"hess": "f_hess"},
    "def f(x=1.0): return x\ndef f_hvp(x=1.0, v=1.0): return 0.0\n": {"hvp": "f_hvp"},
    "def value_and_grad(x=1.0): return x * x, 2 * x\n": {"value-and-grad": True},
}


@pytest.mark.parametrize("text", KINDS)
def test_each_kind_has_its_key(tmp_path: Path, text: str) -> None:
    (check,) = tomllib.loads(proposed(tmp_path, {"a.py": text}))["check"]
    assert {k: v for k, v in check.items() if k not in ("id", "target")} == KINDS[text]


def test_a_method_is_named_through_an_object_of_the_module(tmp_path: Path) -> None:
    model = "class P:\n    def loglike(self, b): return b @ b\n    def score(self, b): return 2 * b\n"
    (check,) = uncommented(proposed(tmp_path, {"a.py": model + "counts = P()\n"}))["check"]
    assert (check["target"], check["grad"], check["at"]) == ("a.py:counts.loglike", "counts.score", ["b=randn(?)"])
    text = proposed(tmp_path, {"a.py": model})
    assert "# Where P needs arguments, write P(?) here" in text
    (check,) = uncommented(text)["check"]
    assert (check["target"], check["grad"]) == ("a.py:P().loglike", "score")


def test_a_class_with_both_passes_is_one_target(tmp_path: Path) -> None:
    layer = "class Tanh:\n    def forward(self, x): return x * x\n    def backward(self, g): return 2 * g * self.x\n"
    (check,) = uncommented(proposed(tmp_path, {"a.py": layer}))["check"]
    assert check == {"id": "Tanh.backward", "target": "a.py:Tanh", "at": ["x=randn(?)"]}
    assert "Where Tanh needs arguments" in proposed(tmp_path, {"a.py": layer})
    (check,) = uncommented(proposed(tmp_path, {"a.py": layer + "layer = Tanh()\n"}))["check"]
    assert check["target"] == "a.py:layer"


def test_what_cannot_be_named_says_what_to_do(tmp_path: Path) -> None:
    text = HEAD + "def fit(x0):\n    return minimize(sum, x0, jac=lambda x: 2 * x)\n"
    assert "write it as a function of the module" in proposed(tmp_path, {"a.py": text})


def test_a_custom_function_is_its_own_target(tmp_path: Path) -> None:
    text = "import torch\nclass T(torch.autograd.Function):\n    def forward(ctx, x): return x\n    def backward(ctx, g): return g * 2\n"
    (check,) = uncommented(proposed(tmp_path, {"a.py": text}))["check"]
    assert check == {"id": "T", "target": "a.py:T", "at": ["x=randn(5,3)"]}


def test_the_point_has_what_is_known(tmp_path: Path) -> None:
    text = 'def f(x, k: int, w, mode="l2"):\n    """x (n, 16), w"""\n    return x\n'
    (check,) = uncommented(
        proposed(tmp_path, {"a.py": text + text.replace("def f(", "def f_grad(").replace("return x", "return 2 * x")})
    )["check"]
    assert check["at"] == ["x=randn(5,16), k=int(2), w=randn(?)"]


def test_checks_in_comments_are_known_by_their_ids(tmp_path: Path) -> None:
    for table in ("", "tool.gradcli"):
        text = proposed(tmp_path, {"a.py": LIVE + OPEN, 'q"uo.py': OPEN.replace("focal", "huber")}, table)
        assert commented_ids(text) == {"focal_grad", "huber_grad"}
    assert commented_ids("# [[check]]\n# target = 'x'\n[[check]]\nid = \"live\"\n") == set()


def test_ids_are_unlike(tmp_path: Path) -> None:
    written(tmp_path, {"a.py": LIVE, "b.py": LIVE, "c/b.py": LIVE, "d.py": OPEN})
    assert check_ids(find(["."]).gradients) == ("a.bowl_grad", "b.bowl_grad#1", "b.bowl_grad#2", "focal_grad")


NAMES = [
    'quo"te.py',
    "back\\slash.py",
    "größe.py",
    "a b.py",
    "new\nline.py",
    "tab\t.py",
    "bell\x07.py",
    "del\x7f.py",
    "a]]=#.py",
]


@pytest.mark.parametrize("name", NAMES)
def test_names_of_files_are_escaped(tmp_path: Path, name: str) -> None:
    (check,) = tomllib.loads(proposed(tmp_path, {name: LIVE}))["check"]
    assert check["target"] == f"{name}:bowl"
    text = suite_text(find(["."]).gradients[:0], [name])
    assert tomllib.loads(text)["tool"]["gradcli"]["paths"] == [name]


@for_rows("text", ["", "plain", '"', "\\", "\u2028", "\x00", "\x7f", "😀", "é"])
def test_a_text_is_read_back(text: str) -> None:
    assert tomllib.loads(f"x = {quote_for_toml(text)}")["x"] == text


def test_nothing_found_is_a_suite_without_checks() -> None:
    assert tomllib.loads(suite_text([], ["src"])) == {"tool": {"gradcli": {"paths": ["src"]}}}


def test_a_live_check_is_reachable_and_of_no_framework(tmp_path: Path) -> None:
    nested = "def fit():\n    def f(x=1.0): return x\n    def f_grad(x=1.0): return 1.0\n    return f\n"
    written(tmp_path, {"a.py": nested})
    assert not any(map(is_complete_check, find(["."]).gradients))


def test_the_workflow_checks_out_installs_and_checks() -> None:
    lines = [line.strip() for line in workflow_text(".").splitlines()]
    steps = [line for line in lines if line.startswith("- ")]
    assert [step.split()[1:3] for step in steps] == [
        ["uses:", "actions/checkout@v4"], ["uses:", "actions/setup-python@v5"], ["run:", "pip"], ["run:", "gradcli"],
        ["uses:", "actions/upload-artifact@v4"],
    ]  # fmt: skip
    assert f'- run: pip install "{ADDRESS}" .' in lines
    assert f'- run: pip install "{ADDRESS}"\n' in workflow_text("")
    assert "- run: gradcli check --out gradcli.xml" in lines


def test_the_address_is_that_of_the_documents() -> None:
    root = Path(__file__).resolve().parents[3]
    for page in ("README.md", "docs/how-to/ci.md", "docs/tutorial.md", "examples/ci/gradients.yml"):
        assert f'pip install . "{ADDRESS}"' in (root / page).read_text(encoding="utf-8"), page


def test_arrays_without_a_gradient_are_named(tmp_path: Path) -> None:
    (tmp_path / "ops.py").write_text(
        "import torch\n\n\nclass Lin(torch.autograd.Function):\n"
        "    @staticmethod\n    def forward(ctx, x, weight):\n        ctx.save_for_backward(x, weight)\n        return x @ weight.t()\n\n"
        "    @staticmethod\n    def backward(ctx, g):\n        x, weight = ctx.saved_tensors\n        return g @ weight, None\n"
    )
    (gradient,) = find([str(tmp_path)]).gradients
    assert gradient.wrt == "x" and describe_left_out(gradient).startswith(
        "leaves out weight, for which backward returns None"
    )
