"""Python targets: what can be named, what is offered instead, and what a file raises while it is loaded."""

import importlib
import itertools
import json
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradcli.errors import BadTarget
from gradcli.request.target_text import is_python
from gradcli.targets.loading import likely_gradients, load
from tests.rows import for_rows

QUICK = ("--modes", "forward,reverse,fd")
NUMBER = itertools.count()


def written(folder: Path, code: str, name: str = "") -> str:
    """Write a file of the user's and return its path; each has a module name of its own."""
    path = folder / (name or f"users_{next(NUMBER)}.py")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("import numpy as np\n" + textwrap.dedent(code), encoding="utf-8")
    importlib.invalidate_caches()
    return str(path)


def xfail(reason: str) -> pytest.MarkDecorator:
    """Mark what the contract asks for and the program does not do yet."""
    return pytest.mark.xfail(strict=True, reason=reason)


@pytest.fixture(autouse=True)
def _importable_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))


# fmt: off
TEXTS = [
    ("losses.py:focal",            True),
    ("losses.py::focal",           True),
    ("losses.py",                  True),
    ("a/b c/losses.py:Model.loss", True),
    ("/abs/losses.py:make()",      True),
    ("package.module:name",        True),
    ("package.module::name",       True),
    ("module:Model.loss",          True),
    ("module:make()",              True),
    ("C:/code/losses.py:focal",    True),
    ("x",                          False),
    ("x[1:2]",                     False),
    ("x[a:b]",                     False),
    ("sin(x)",                     False),
    ("losses.focal",               False),
    ("x.sum()",                    False),
    ("losses.py:focal(3)",         True),
    ("losses.py:Net(3, b=[1]).f",  True),
    ("losses.py:",                 False),
    (":focal",                     False),
    ("1:2",                        False),
]
# fmt: on


@for_rows(("text", "python"), TEXTS)
def test_what_names_python_code(text: str, python: bool) -> None:
    assert is_python(text) is python


TARGETS_FILE = """
    import functools

    def square(x):
        return np.sum(x**2)

    def scaled(k, x, *, power=2.0):
        return k * np.sum(x**power)

    class Model:
        def __init__(self, k=1.0):
            self.k = k
        def __call__(self, x):
            return self.k * np.sum(x**2)
        def loss(self, x):
            return self.k * np.sum(x**2)
        @staticmethod
        def fixed(x):
            return np.sum(x**2)
        @classmethod
        def of_class(cls, x):
            return np.sum(x**2)
        class Inner:
            def loss(self, x):
                return np.sum(x**2)

    model = Model(1.0)
    triple = Model(3.0)
    make = lambda: Model(1.0)
    part = functools.partial(scaled, 1.0)
    keyed = functools.partial(scaled, k=1.0)

    def plainly(f):
        def inner(*args, **kwargs):
            return f(*args, **kwargs)
        return inner

    def wrapping(f):
        @functools.wraps(f)
        def inner(*args, **kwargs):
            return f(*args, **kwargs)
        return inner

    @plainly
    def decorated(x):
        return np.sum(x**2)

    @wrapping
    def wrapped(x):
        return np.sum(x**2)

    @functools.lru_cache
    def cached_factory():
        return Model(1.0)

    total = np.sum
"""
NAMES = [
    "square", "Model.fixed", "Model.of_class", "Model.loss", "Model.Inner.loss", "Model()", "model", "model.loss",
    "make()", "cached_factory()", "part", "wrapped",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("separator", [":", "::"])
def test_everything_that_can_be_called_can_be_named(
    gradcli: Callable[..., Any], tmp_path: Path, name: str, separator: str
) -> None:
    file = written(tmp_path, TARGETS_FILE)
    ran = gradcli("check", f"{file}{separator}{name}", "x=[0.5, 2]", *QUICK, "--json")
    assert ran.exit_status == 0, ran.stdout + ran.stderr
    assert ran.json["points"][0]["gradient"]["x"] == [1.0, 4.0]
    assert ran.json["target"]["kind"] == "python"


@pytest.mark.parametrize("name", ["keyed", "decorated"])
def test_functions_that_take_anything_are_called_with_what_is_given(
    gradcli: Callable[..., Any], tmp_path: Path, name: str
) -> None:
    ran = gradcli("check", f"{written(tmp_path, TARGETS_FILE)}:{name}", "x=[0.5, 2]", *QUICK, "--json")
    assert ran.exit_status == 0, ran.stdout
    assert ran.json["points"][0]["gradient"]["x"] == [1.0, 4.0]


def test_an_instance_keeps_its_state(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    ran = gradcli("grad", f"{written(tmp_path, TARGETS_FILE)}:triple.loss", "x=[0.5, 2]", "--json")
    assert ran.json["gradient"] == {"x": [3.0, 12.0]}


def test_numpys_own_functions_can_be_named(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    ran = gradcli("grad", f"{written(tmp_path, TARGETS_FILE)}:total", "a=[0.5, 2]", "--json")
    assert ran.json["gradient"] == {"a": [1.0, 1.0]}


# fmt: off
MISSING = [
    ("{file}:squar",        "'squar'",         "square"),
    ("{file}:Model.los",    "'los'",           "Model.loss"),
    ("{file}:Modle.loss",   "'Modle'",         "Model"),
    ("{file}:nothing_like", "'nothing_like'",  "square"),
]
# fmt: on


@pytest.mark.parametrize(("target", "what", "near"), MISSING)
def test_a_wrong_name_gets_near_ones(
    gradcli: Callable[..., Any], tmp_path: Path, target: str, what: str, near: str
) -> None:
    ran = gradcli("check", target.format(file=written(tmp_path, TARGETS_FILE)), "x=1", *QUICK)
    assert (ran.exit_status, ran.stdout) == (2, "")
    assert what in ran.stderr.splitlines()[0] and near in ran.stderr


def test_a_wrong_file_gets_a_near_one(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    written(tmp_path, "def f(x): return x", "losses.py")
    ran = gradcli("check", str(tmp_path / "lossse.py") + ":f", "x=1", *QUICK)
    assert ran.exit_status == 2
    assert "no file" in ran.stderr and "losses.py" in ran.stderr


def test_a_folder_is_no_file(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "folder.py").mkdir()
    ran = gradcli("check", str(tmp_path / "folder.py") + ":f", "x=1", *QUICK)
    assert ran.exit_status == 2 and "folder" in ran.stderr.splitlines()[0]


def test_a_class_that_needs_arguments_says_so(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    code = "class Net:\n    def __init__(self, k): pass\n    def loss(self, x): return x\n"
    ran = gradcli("check", f"{written(tmp_path, code)}:Net.loss", "x=1", *QUICK)
    assert ran.exit_status == 2
    assert "Net.loss needs an instance" in ran.stderr and "without arguments" in ran.stderr
    assert 'py:Net(k=...).loss"' in ran.stderr


BOND = """
    class Bond:
        def __init__(self, coupon): self.coupon = coupon
        def price(self, y): return self.coupon / y
        def slope(self, y): return -self.coupon / y**2
    def worth(y, bond): return bond.price(y)
    def cost(y, held: "Bond"): return held.price(y)
    def slope(y): return -5 / y**2
"""


@pytest.mark.parametrize("claim", ["slope", "Bond.slope"])
def test_a_claim_may_name_the_class_of_the_object_whose_method_is_checked(
    gradcli: Callable[..., Any], tmp_path: Path, claim: str
) -> None:
    ran = gradcli("check", f"{written(tmp_path, BOND)}:Bond(coupon=5).price", "y=2", "--grad", claim, *QUICK)
    assert ran.exit_status == 0


def test_a_claim_by_a_class_that_needs_arguments_says_how_to_make_one(
    gradcli: Callable[..., Any], tmp_path: Path
) -> None:
    file = written(tmp_path, BOND)
    ran = gradcli("check", f"{file}:slope", "y=2", "--grad", "Bond.slope", *QUICK)
    assert ran.exit_status == 2 and "error: Bond.slope needs an instance, and Bond() cannot" in ran.stderr
    assert f'name one: "{Path(file).stem}:Bond(coupon=...).slope"' in ran.stderr


STATE = """
    from dataclasses import dataclass
    @dataclass
    class State:
        pos: np.ndarray
        n: int
        mass: float = 1.0
    def f(s: State): return s.mass * np.sum(s.pos**s.n)
    def quoted(s: "State"): return f(s)
    def g(s): return State(s.mass * s.n * s.pos**(s.n - 1), None, np.sum(s.pos**s.n))
"""


@pytest.mark.parametrize("target", ["f", "quoted"])
def test_a_dataclass_is_made_of_members_that_are_given_by_path(
    gradcli: Callable[..., Any], tmp_path: Path, target: str
) -> None:
    file = f"{written(tmp_path, STATE)}:{target}"
    ran = gradcli("check", file, "--grad", "g", *QUICK)
    assert ran.exit_status == 2 and '--at "s.pos=randn(3), s.n=3"' in ran.stderr
    ran = gradcli("check", file, "--grad", "g", "--at", "s.pos=randn(3), s.n=3", *QUICK)
    assert ran.exit_status == 0 and "df/ds.mass" in ran.stdout
    ran = gradcli("check", file, "--grad", "g", "s.n=2", "s.mass=3", *QUICK)
    assert ran.exit_status == 2 and "s.pos has no value (State has pos, n, mass)" in ran.stderr
    assert 'add --at "s.pos=randn(3)"' in ran.stderr
    ran = gradcli("check", file, "--grad", "g", "s.n=2", "s.pos=[1, 2]", "s.speed=3", *QUICK)
    assert ran.exit_status == 2 and "s.speed is no member of State (State has pos, n, mass)" in ran.stderr


def test_an_instance_in_the_file_is_named(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    file = written(tmp_path, BOND + "    held = bond = Bond(5)\n")
    ran = gradcli("check", f"{file}:Bond.price", "y=2", *QUICK)
    assert ran.exit_status == 2 and f"name one: {file}:held.price" in ran.stderr


@pytest.mark.parametrize(("target", "name"), [("worth", "bond"), ("cost", "held")])
def test_an_object_of_the_file_is_proposed_as_the_value_that_is_missing(
    gradcli: Callable[..., Any], tmp_path: Path, target: str, name: str
) -> None:
    file = written(tmp_path, BOND + "    bond = Bond(5)\n")
    advice = f"y=2, {name}={file}:bond"
    ran = gradcli("check", f"{file}:{target}", "y=2", *QUICK)
    assert ran.exit_status == 2 and f'--at "{advice}"' in ran.stderr
    assert gradcli("check", f"{file}:{target}", "--at", advice, "--wrt", "y", "--grad", "slope").exit_status == 0
    ran = gradcli("check", f"{file}:{target}", f"y=2, {name}=bond", *QUICK)
    assert ran.exit_status == 2 and f"of a Python file: {file}:bond" in ran.stderr


@pytest.mark.parametrize(
    ("method", "does"),
    [
        ("loss(self, x): return x", 'name a method of an instance: "{}:Net(k=...).loss"'),
        ("__call__(self, x): return x", '"{}:Net(k=...)" makes an instance'),
        ("backward(self): pass", "file.py:name --engine Net"),
    ],
)
def test_a_class_that_is_a_target_says_what_to_name(
    gradcli: Callable[..., Any], tmp_path: Path, method: str, does: str
) -> None:
    code = f"class Net:\n    def __init__(self, k): pass\n    def {method}\n"
    file = written(tmp_path, code)
    assert does.format(file) in gradcli("check", f"{file}:Net", "x=1", *QUICK).stderr


@pytest.mark.parametrize(("value", "said"), [("3", "an int"), ("np.ones(2)", "a"), ("'text'", "a str")])
def test_what_cannot_be_called_is_said_to_be_so(
    gradcli: Callable[..., Any], tmp_path: Path, value: str, said: str
) -> None:
    ran = gradcli("check", f"{written(tmp_path, f'f = {value}')}:f", "x=1", *QUICK)
    assert ran.exit_status == 2
    assert f"is not a function but {said}" in ran.stderr


@pytest.mark.parametrize(
    "name",
    ["Model", pytest.param("make", marks=xfail("a factory named without its brackets is not offered with them"))],
)
def test_a_factory_without_brackets_is_offered_with_them(
    gradcli: Callable[..., Any], tmp_path: Path, name: str
) -> None:
    ran = gradcli("check", f"{written(tmp_path, TARGETS_FILE)}:{name}", "x=[0.5, 2]", *QUICK)
    assert ran.exit_status == 2
    assert f"{name}()" in ran.stderr


PAIR_FILE = """
    import math
    from numpy import sin

    class Net:
        pass

    def focal(z):
        return np.sum(z**2)

    def focal_grad(z):
        return 2*z

    def other(z):
        return z

    def dother(z):
        return 1.0

    def _private(z):
        return z
"""


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_file_alone_lists_its_functions_and_likely_pairs(
    gradcli: Callable[..., Any], tmp_path: Path, form: str
) -> None:
    file = written(tmp_path, PAIR_FILE)
    ran = gradcli("check", file, "--format", form, *QUICK)
    assert ran.exit_status == 2
    said = ran.stderr if form == "text" else ran.json["error"]["hint"]
    assert all(name in said for name in ("focal", "focal_grad", "other", "dother"))
    assert f"gradcli check {file}:focal --grad focal_grad" in said
    assert f"gradcli check {file}:other --grad dother" in said
    assert not any(name in said for name in ("_private", "sin", "Net"))


def test_a_file_without_functions_says_so(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    ran = gradcli("check", written(tmp_path, "x = 3"), *QUICK)
    assert ran.exit_status == 2 and "no functions" in ran.stderr


@pytest.mark.parametrize("other", ["f_grad", "grad_f", "df", "f_jac", "f_gradient"])
def test_likely_pairs_are_told_where_no_claim_is_checked(
    gradcli: Callable[..., Any], tmp_path: Path, other: str
) -> None:
    file = written(tmp_path, f"def f(x): return np.sum(x**2)\ndef {other}(x): return 2*x\n")
    ran = gradcli("check", f"{file}:f", "x=[1, 2]", *QUICK, "--json")
    (finding,) = ran.json["points"][0]["findings"]
    assert ran.exit_status == 0 and ran.json["claim"] is None
    assert other in finding["message"] and finding["hint"] == f"--grad {other}"
    assert likely_gradients(load(f"{file}:f").module, "f") == [other]


def test_a_checked_claim_is_not_offered(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    file = written(tmp_path, "def f(x): return np.sum(x**2)\ndef f_grad(x): return 2*x\n")
    ran = gradcli("check", f"{file}:f", "x=[1, 2]", "--grad", "f_grad", *QUICK, "--json")
    assert ran.json["claim"] == "f_grad"
    assert ran.json["points"][0]["findings"] == []


@pytest.mark.parametrize("name", ["losses.focal", "losses.py.focal"])
def test_a_dotted_name_of_a_file_here_is_offered_with_a_colon(
    gradcli: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    written(tmp_path, "def focal(x): return x", "losses.py")
    monkeypatch.chdir(tmp_path)
    ran = gradcli("check", name, "x=1", *QUICK)
    assert ran.exit_status == 2
    assert "did you mean losses:focal?" in ran.stderr or "did you mean losses.py:focal?" in ran.stderr


# fmt: off
BROKEN = [
    ("raise ValueError('rates are missing')\n",            "ValueError: rates are missing",     2, "raise ValueError"),
    ("import no_such_module_anywhere\n",                   "no_such_module_anywhere",           2, "import no_such"),
    ("def g():\n    return {}['key']\nk = g()\n",          "KeyError: 'key'",                   3, "return {}['key']"),
    ("x = 1 +\n",                                          "not valid Python",                  2, "x = 1 +"),
    ("def f(x)\n    return x\n",                           "not valid Python",                  2, "def f(x)"),
    ("if True:\nx = 1\n",                                  "not valid Python",                  3, "x = 1"),
    ("import sys\nsys.exit(0)\n",                          "sys.exit(0)",                       3, "sys.exit(0)"),
    ("import sys\nsys.exit('no licence')\n",               "no licence",                        3, "sys.exit"),
    ("assert 1 > 2, 'impossible'\n",                       "AssertionError: impossible",        2, "assert"),
    ("open('no such file')\n",                             "no such file",                      2, "open("),
    ("def r(): return r()\nr()\n",                         "RecursionError",                    2, "r()"),
]
# fmt: on


@pytest.mark.parametrize(("code", "said", "line", "source"), BROKEN)
def test_a_file_that_cannot_be_loaded_says_its_own_message_and_line(
    gradcli: Callable[..., Any], tmp_path: Path, code: str, said: str, line: int, source: str
) -> None:
    file = written(tmp_path, code + "def ok(x): return x\n")
    ran = gradcli("check", f"{file}:ok", "x=1", *QUICK)
    assert (ran.exit_status, ran.stdout) == (2, "")
    assert said in ran.stderr and "Traceback" not in ran.stderr and "internal" not in ran.stderr
    assert f"{Path(file).name}:{line} " in ran.stderr
    assert source in ran.stderr


def test_the_line_is_that_of_the_users_other_file(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    written(tmp_path, "\n\nraise ValueError('inner')\n", "inner_broken.py")
    file = written(tmp_path, "import inner_broken\ndef f(x): return x\n")
    ran = gradcli("check", f"{file}:f", "x=1", *QUICK)
    assert "inner_broken.py:4 " in ran.stderr and "ValueError: inner" in ran.stderr


def test_a_broken_file_can_be_corrected_and_loaded_again(tmp_path: Path) -> None:
    file = written(tmp_path, "raise ValueError('first')\n", "corrected_later.py")
    with pytest.raises(BadTarget, match="first"):
        load(f"{file}:f")
    written(tmp_path, "def f(x): return x\n", "corrected_later.py")
    assert load(f"{file}:f").found(3) == 3


def test_a_factory_that_raises_says_its_own_message_and_line(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    file = written(tmp_path, "def make():\n    raise OSError('no weights')\n")
    ran = gradcli("check", f"{file}:make()", "x=1", *QUICK)
    assert ran.exit_status == 2
    assert "OSError: no weights" in ran.stderr and f"{Path(file).name}:3 " in ran.stderr


@pytest.fixture(name="package")
def _package(tmp_path: Path) -> tuple[Path, str]:
    """A package with relative imports; the name is new in each test, as Python keeps what it has imported."""
    name = f"package_{next(NUMBER)}"
    written(tmp_path, "POWER = 2.0\n", f"{name}/__init__.py")
    written(tmp_path, "", f"{name}/inner/__init__.py")
    written(tmp_path, "def base(x): return np.sum(x**2)\n", f"{name}/inner/other.py")
    code = "from .. import POWER\nfrom .other import base\ndef f(x): return base(x) * POWER / 2\n"
    written(tmp_path, code, f"{name}/inner/losses.py")
    return tmp_path, name


@pytest.mark.parametrize("target", ["{0}.inner.losses:f", "{0}.inner.losses::f", "{0}/inner/losses.py:f"])
def test_modules_of_packages_are_imported_as_such(
    gradcli: Callable[..., Any], package: tuple[Path, str], monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    folder, name = package
    monkeypatch.chdir(folder)
    ran = gradcli("grad", target.format(name), "x=[0.5, 2]", "--json")
    assert ran.exit_status == 0, ran.stdout
    assert ran.json["gradient"] == {"x": [1.0, 4.0]}
    assert f"{name}.inner.losses" in sys.modules


def test_a_file_in_a_package_is_found_from_inside_and_from_elsewhere(
    gradcli: Callable[..., Any], package: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, name = package
    monkeypatch.chdir(folder / name / "inner")
    assert gradcli("grad", "losses.py:f", "x=[0.5, 2]").exit_status == 0
    monkeypatch.chdir("/")
    assert gradcli("grad", f"{folder / name / 'inner' / 'losses.py'}:f", "x=[0.5, 2]").exit_status == 0


# fmt: off
MODULES = [
    ("no_such_package.losses:f", "no module 'no_such_package.losses'"),
    ("{0}.inner.los:f",          "inner.los"),
    ("{0}.inner.losses:g",       "no function 'g'"),
]
# fmt: on


@pytest.mark.parametrize(("target", "said"), MODULES)
def test_wrong_modules_are_the_users_error(
    gradcli: Callable[..., Any], package: tuple[Path, str], monkeypatch: pytest.MonkeyPatch, target: str, said: str
) -> None:
    folder, name = package
    monkeypatch.chdir(folder)
    ran = gradcli("check", target.format(name), "x=1", *QUICK)
    assert ran.exit_status == 2
    assert said in ran.stderr and "Traceback" not in ran.stderr


def test_a_module_named_without_its_file_here_offers_the_file(
    gradcli: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, "def f(x): return x**2\n", "module_here.py")
    monkeypatch.chdir(tmp_path)
    assert gradcli("grad", "module_here:f", "x=3").exit_status == 0


def test_the_files_folder_is_importable(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    written(tmp_path, "def g(x): return np.sum(x**2)\n", "beside_the_file.py")
    file = written(tmp_path, "from beside_the_file import g\ndef f(x): return g(x)\n")
    assert gradcli("grad", f"{file}:f", "x=[1, 2]").exit_status == 0


def test_the_current_folder_is_importable(
    gradcli: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, "def g(x): return np.sum(x**2)\n", "in_current_folder.py")
    file = written(tmp_path / "deeper", "from in_current_folder import g\ndef f(x): return g(x)\n")
    monkeypatch.chdir(tmp_path)
    assert gradcli("grad", f"{file}:f", "x=[1, 2]").exit_status == 0


# fmt: off
READERS = [
    "np.array([float(word) for word in Path('data/weights.csv').read_text().split(',')])",
    "np.load('data/weights.npy')",
    "np.fromfile('data/weights.bin')",
    "np.loadtxt('data/weights.csv', delimiter=',')",
]
# fmt: on


@pytest.mark.parametrize("reader", READERS)
def test_data_files_beside_the_file_are_found(
    gradcli: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reader: str
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "weights.csv").write_text("1,2\n")
    np.save(tmp_path / "data" / "weights.npy", np.array([1.0, 2.0]))
    np.array([1.0, 2.0]).tofile(tmp_path / "data" / "weights.bin")
    file = written(tmp_path, f"from pathlib import Path\nW = {reader}\ndef f(x): return np.sum(W*x)\n")
    monkeypatch.chdir("/")
    ran = gradcli("grad", f"{file}:f", "x=[1, 2]", "--json")
    assert ran.exit_status == 0, ran.stdout
    assert ran.json["gradient"] == {"x": [1.0, 2.0]}
    assert Path.cwd() == Path("/")


@pytest.mark.parametrize("name", ["json.py", "random.py", "losses-v2.py", "1st.py", "ünïcode.py", "with space.py"])
def test_files_may_have_any_name(gradcli: Callable[..., Any], tmp_path: Path, name: str) -> None:
    before = sys.modules["json"]
    file = written(tmp_path, "def f(x): return x**2\ndef g(x): return 2*x\n", name)
    ran = gradcli("check", f"{file}:f", "x=3", "--grad", f"{file}:g", *QUICK, "--json")
    assert ran.exit_status == 0
    assert sys.modules["json"] is before is json


def test_a_file_whose_name_is_taken_is_run_once(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    code = """
        class P:
            pass
        def f(p):
            assert isinstance(p["kind"], P)
            return p["x"]**2
        def point():
            return {"p": {"kind": P(), "x": 3.0}}
    """
    file = written(tmp_path, code, "json.py")
    ran = gradcli("check", f"{file}:f", "--at", f"{file}:point", *QUICK)
    assert ran.exit_status == 0, ran.stderr


def test_files_of_one_name_in_two_folders_are_two_modules(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    files = [
        written(tmp_path / folder, f"def f(x): return x**{k}\n", "same_name.py") for k, folder in ((2, "a"), (3, "b"))
    ]
    found = [gradcli("grad", f"{file}:f", "x=2", "--json").json["gradient"]["x"] for file in files]
    assert found == [4.0, 12.0]


def test_a_file_is_run_once_for_target_point_and_claim(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    code = """
        from pathlib import Path
        log = Path(__file__).with_suffix(".log")
        log.write_text(log.read_text() + "run " if log.exists() else "run ")
        def f(x): return x**2
        def g(x): return 2*x
        point = {"x": 3.0}
    """
    file = written(tmp_path, code)
    assert gradcli("check", f"{file}:f", "--grad", f"{file}:g", "--at", f"{file}:point", *QUICK).exit_status == 0
    assert Path(file).with_suffix(".log").read_text() == "run "


def test_what_runs_under_main_is_not_run(gradcli: Callable[..., Any], tmp_path: Path) -> None:
    file = written(tmp_path, "def f(x): return x**2\nif __name__ == '__main__':\n    raise SystemExit(4)\n")
    assert gradcli("grad", f"{file}:f", "x=3").exit_status == 0


def test_a_package_of_another_environment_says_where_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    (tmp_path / ".venv" / "pyvenv.cfg").touch()
    (tmp_path / ".venv" / "lib" / "python3.11" / "site-packages" / "no_such_package").mkdir(parents=True)
    with pytest.raises(BadTarget) as caught:
        load(f"{written(tmp_path, 'import no_such_package.nn')}:f")
    assert f"install gradcli where no_such_package is: {python} -m pip install " in (caught.value.do or "")
    with pytest.raises(BadTarget) as caught:
        load(f"{written(tmp_path, 'import another_module')}:f")
    assert caught.value.do is None  # it may be a module of the user's own


def test_a_module_of_the_folder_src_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "src" / "of_the_source").mkdir(parents=True)
    (tmp_path / "src" / "of_the_source" / "losses.py").write_text("def f(x): return x\n")
    assert load("of_the_source.losses:f").found(3) == 3
