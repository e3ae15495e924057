"""What a check reads is seen, however it is read: no pass is used again after what it depends on has changed."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import started
from tests.suite.test_cache import cached

Process = Callable[..., Any]
Change = Callable[[Path], object]
HEAD = "import functools, importlib.util, os, runpy, sys, time\nfrom pathlib import Path\nimport numpy as np\n"
BODY = "\ndef f(x):\n    return k() * x**2\n\ndef f_grad(x):\n    return 4*x\n"
SPEC = (
    "spec = importlib.util.spec_from_file_location('spec_h', 'sub/{0}.py')\n{1}h = importlib.util.module_from_spec(spec)\n"
    "{1}spec.loader.exec_module(h)\n{1}"
)


def text(name: str, new: str) -> Change:
    return lambda folder: (folder / name).write_text(new)


def link(name: str, to: str) -> Change:
    def point_elsewhere(folder: Path) -> None:
        (folder / name).unlink()
        (folder / name).symlink_to(to)

    return point_elsewhere


def shadowing_package(folder: Path) -> None:
    (folder / "package" / "h").mkdir()
    (folder / "package" / "h" / "__init__.py").write_text("V = 3.0\n")


# How k() comes to 2.0, and what would make it 3.0. Files of this project hold `V = 2.0`, or the text 2.0.
CHANGES: dict[str, tuple[str, Change]] = {
    "by_import": ("from by_import_h import V\ndef k(): return V", text("by_import_h.py", "V = 3.0\n")),
    "inside": ("def k():\n    import inside_h\n    return inside_h.V", text("inside_h.py", "V = 3.0\n")),
    "text": ("def k(): return float(Path('text.txt').read_text())", text("text.txt", "3.0")),
    "at_load": ("V = np.loadtxt('at_load.txt')\ndef k(): return float(V)", text("at_load.txt", "3.0")),
    "source": ("def k():\n    ns = {}\n    exec(open('source.py_').read(), ns)\n    return ns['V']", text("source.py_", "V = 3.0\n")),
    "python": ("def k():\n    ns = {}\n    exec(open('python_h.py').read(), ns)\n    return ns['V']", text("python_h.py", "V = 3.0\n")),
    "by_path": ("def k(): return runpy.run_path('by_path_h.py')['V']", text("by_path_h.py", "V = 3.0\n")),
    "by_spec": (SPEC.format("by_spec", "") + "def k(): return h.V", text("sub/by_spec.py", "V = 3.0\n")),
    "spec_twice": (
        "def k():\n    " + SPEC.format("spec_twice", "    ") + "return h.V", text("deep.py", "V = 3.0\n"),
    ),
    "spec_again": (
        "def k():\n    " + SPEC.format("spec_twice", "    ") + "return h.V", text("deep.py", "V = 3.0\n"),
    ),
    "by_name": ("h = __import__('by_name_h')\ndef k(): return h.V", text("by_name_h.py", "V = 3.0\n")),
    "name_inside": ("def k(): return __import__('inside_h').V", text("inside_h.py", "V = 3.0\n")),
    "once": ("from cached import k", text("cached.txt", "3.0")),
    "once_more": ("from cached import k", text("cached.txt", "3.0")),
    "linked": ("def k(): return float(open('linked.txt').read())", link("linked.txt", "v3.txt")),
    "resolved": ("def k(): return float(Path('resolved.txt').resolve().read_text())", link("resolved.txt", "v3.txt")),
    "linked_module": ("from linked_h import V\ndef k(): return V", link("linked_h.py", "v3.py")),
    "exists": ("def k(): return 3.0 if os.path.exists('flag') else 2.0", text("flag", "")),
    "is_file": ("def k(): return 3.0 if Path('flag').is_file() else 2.0", text("flag", "")),
    "size": ("def k(): return os.path.getsize('size.txt') * 2.0 / 3", text("size.txt", "3.00")),
    "listed": ("def k(): return 2.0 + len(os.listdir('sub/empty'))", text("sub/empty/a", "")),
    "shadowed": ("from package import h\ndef k(): return h.V", shadowing_package),
}  # fmt: skip
NEVER = {
    "environ": "def k(): return float(os.environ.get('NOT_SET', '2'))",
    "posix_environ": "import posix\ndef k(): return float(posix.environ.get(b'NOT_SET', 2))",
    "env_once": "@functools.cache\ndef k(): return float(os.environ.get('NOT_SET', '2'))",
    "clock": "def k(): return 2.0 + 0 * min(time.time(), 0)",
    "date": "from datetime import datetime as D\ndef k(): return 2.0 + 0 * D.now().year",
    "numpy_date": "def k(): return 2.0 + 0 * np.datetime64('now').astype(float)",
    "host": "import platform\ndef k(): return 2.0 + 0 * len(platform.node())",
    "counter": "def k(): return 2.0 + 0 * time.perf_counter_ns()",
    "drawn": "V = 2.0 + 0 * np.random.default_rng().normal()\ndef k(): return V",
    "drawn_globally": "V = 2.0 + 0 * np.random.normal()\ndef k(): return V",
    "writes": "def k():\n    open('out.txt', 'w').close()\n    return 2.0",
    "database": "import sqlite3\ndef k():\n    sqlite3.connect(':memory:').close()\n    return 2.0",
    "process": "import subprocess\nV = float(subprocess.run(['echo', '2'], capture_output=True).stdout)\ndef k(): return V",
}
ALWAYS = {
    "plain": "def k(): return 2.0",
    "beside": "V = float((Path(__file__).resolve().parent / 'v2.txt').read_text())\ndef k(): return V",
    "numpys": "V = np.loadtxt(os.path.join(os.path.dirname(os.path.abspath(__file__)), 'v2.txt'))\ndef k(): return float(V)",
    "seeded": "V = 2.0 + 0 * np.random.default_rng(0).normal()\ndef k(): return V",
    "warns": "import warnings\nwarnings.warn('x')\ndef k(): return 2.0",
    "package": "import scipy.special\ndef k(): return float(scipy.special.expit(0)) * 4",
}
CODE = {name: code for name, (code, _) in CHANGES.items()} | NEVER | ALWAYS


def written(folder: Path) -> Path:
    """Write all checks; the name of the folder holds a word that is a folder of installed packages elsewhere."""
    for name in ("sub/empty", "package"):
        (folder / name).mkdir(parents=True)
    for name, code in CODE.items():
        (folder / f"{name}.py").write_text(HEAD + code + BODY)
    modules = (
        "by_import_h",
        "inside_h",
        "python_h",
        "by_path_h",
        "sub/by_spec",
        "by_name_h",
        "deep",
        "package/h",
        "v2",
    )
    files = {f"{name}.py": "V = 2.0\n" for name in modules} | {"package/__init__.py": "", "v3.py": "V = 3.0\n"}
    files |= {f"{name}.txt": "2.0" for name in ("text", "at_load", "cached", "v2", "size")} | {"v3.txt": "3.0"}
    files |= {"source.py_": "V = 2.0\n", "sub/spec_twice.py": "import deep\nV = deep.V\n"}
    files["cached.py"] = "import functools\n@functools.cache\ndef k(): return float(open('cached.txt').read())\n"
    for name, content in files.items():
        (folder / name).write_text(content)
    for name, to in (("linked.txt", "v2.txt"), ("resolved.txt", "v2.txt"), ("linked_h.py", "v2.py")):
        (folder / name).symlink_to(to)
    checks = "".join(f'[[check]]\nid = "{n}"\ntarget = "{n}.py:f"\ngrad = "f_grad"\nat = "x=1.5"\n' for n in CODE)
    (folder / "gradcli.toml").write_text(f'modes = "reverse,fd"\n{checks}')
    return folder


def test_no_pass_is_used_after_a_change(process: Process, tmp_path: Path) -> None:
    folder = written(tmp_path / "my-site-packages")
    first, second = process("check", cwd=folder), process("check", cwd=folder)
    assert first.exit_status == 0 and cached(first) == set()
    assert cached(second) & {*NEVER} == set() and cached(second) >= {*ALWAYS}
    asks = {"exists", "is_file", "size", "listed"}  # these are run every time
    assert cached(second) == {*ALWAYS, *CHANGES} - asks
    for _, change in CHANGES.values():
        change(folder)
    third = process("check", cwd=folder)
    assert cached(third) == {*ALWAYS}
    assert third.stdout.partition("\n\n")[0].count("FAIL") == len(CHANGES)


def test_a_file_that_changes_during_a_run_is_checked_again(process: Process, tmp_path: Path) -> None:
    slow = HEAD + "Path('loaded').touch()\ntime.sleep(1)\ndef k(): return 2.0" + BODY
    (tmp_path / "slow.py").write_text(slow)
    (tmp_path / "gradcli.toml").write_text(
        '[[check]]\ntarget = "slow.py:f"\ngrad = "f_grad"\nat = "x=1.5"\nmodes = "reverse,fd"\n'
    )
    with started("check", cwd=tmp_path) as run:
        while not (tmp_path / "loaded").exists():
            time.sleep(0.01)
        (tmp_path / "slow.py").write_text(slow.replace("return 2.0", "return 3.0"))
        assert run.communicate()[0].startswith("PASS")
    assert process("check", cwd=tmp_path).exit_status == 1


def test_a_package_found_elsewhere_is_another_one(
    process: Process, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PYTHONPATH may put another package before an installed one."""
    monkeypatch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    (tmp_path / "m.py").write_text("def f(x):\n    return x**2\n")
    (tmp_path / "gradcli.toml").write_text(
        '[[check]]\nid = "f"\ntarget = "m.py:f"\nat = "x=1.5"\nmodes = "reverse,fd"\n'
    )
    run = lambda path: cached(process("check", cwd=tmp_path, environ={"PYTHONPATH": path}))
    here = os.environ["PYTHONPATH"]
    assert (run(here), run(here), run(f"{tmp_path}{os.pathsep}{here}")) == (set(), {"f"}, set())


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs a C compiler")
def test_a_library_that_is_built_again_is_another_one(process: Process, tmp_path: Path) -> None:
    def build(value: float) -> None:
        (tmp_path / "k.c").write_text(f"double k(void) {{ return {value}; }}\n")
        (tmp_path / "libk.so").unlink(missing_ok=True)
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", tmp_path / "libk.so", tmp_path / "k.c"], check=True)

    build(2.0)
    load = "import ctypes\nlibrary = ctypes.CDLL('./libk.so')\nlibrary.k.restype = ctypes.c_double\ndef k(): return library.k()"
    (tmp_path / "m.py").write_text(HEAD + load + BODY)
    (tmp_path / "gradcli.toml").write_text(
        '[[check]]\nid = "f"\ntarget = "m.py:f"\ngrad = "f_grad"\nat = "x=1.5"\nmodes = "reverse,fd"\n'
    )
    run = lambda: process("check", cwd=tmp_path)
    assert (run().exit_status, cached(run())) == (0, {"f"})
    build(3.0)
    assert run().exit_status == 1
