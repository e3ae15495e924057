"""Earlier passes are used while nothing that they depend on has changed, and no damage to the cache changes a verdict."""

import json
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradcli.reports.suite import row_of
from gradcli.suite.cache import FOLDER, Cache
from gradcli.suite.config import Suite, find_suite
from gradcli.suite.recorder import Used
from tests.conftest import gradcli
from tests.suite.project import QUICK

Process = Callable[..., Any]
FILES = {
    "lazily.py": "import shared\ndef f(x):\n    import late\n    return late.f(x[0])\n",
    "reads.py": "import shared\nimport numpy as np\ndef f(x):\n    return np.load('values.npy') @ x\n",
    "at_import.py": "import shared\nfrom data import table\ndef f(x):\n    return table @ x\n",
    "shared.py": "import deeper\n",
    "deeper.py": "K = 1\n",
    "late.py": "def f(x):\n    return x**2\n",
    "data.py": "import numpy as np\ntable = np.loadtxt('table.txt')\n",
    "table.txt": "1 2\n",
}
NAMES = {"lazily", "reads", "at_import"}
SUITE = QUICK + "".join(f'[[check]]\nid = "{n}"\ntarget = "{n}.py:f"\nat = "x=[1.5, 2.0]"\n' for n in sorted(NAMES))


@pytest.fixture(name="folder")
def _folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    np.save(tmp_path / "values.npy", [1.0, 2.0])
    (tmp_path / "gradcli.toml").write_text(SUITE)
    return tmp_path


def cached(ran: Any) -> set[str]:
    return set(re.findall(r"^PASS \(cached\) +(\w+)", ran.stdout, re.MULTILINE))


def test_only_the_checks_that_depend_on_a_change_are_run_again(process: Process, folder: Path) -> None:
    run = lambda: cached(process("check", cwd=folder))
    assert (run(), run()) == (set(), NAMES)
    for name, text, again in (
        ("deeper.py", "K = 2\n", NAMES),
        ("late.py", "def f(x):\n    return x**3\n", {"lazily"}),
        ("table.txt", "2 2\n", {"at_import"}),
    ):
        (folder / name).write_text(text)
        assert run() == NAMES - again, name
        assert run() == NAMES
    np.save(folder / "values.npy", [1.0, 3.0])
    assert run() == NAMES - {"reads"}


def test_options_belong_to_the_key(process: Process, folder: Path) -> None:
    process("check", cwd=folder)
    for words in (("--seed", "3"), ("--no-cache",), ("--seed", "random"), ("--threads", "2")):
        assert cached(process("check", *words, cwd=folder)) == set(), words
    assert cached(process("check", cwd=folder, environ={"CI": "true"})) == set()
    assert cached(process("check", "--cache", "-k", "lazily", cwd=folder, environ={"CI": "true"})) == {"lazily"}


@pytest.fixture(name="suite")
def _suite(tmp_path: Path) -> Suite:
    (tmp_path / "gradcli.toml").write_text(f'{QUICK}[[check]]\nid = "a"\ntarget = "x**2"\nat = "x=1"\n')
    found = find_suite(tmp_path)
    assert found is not None
    return found


def kept(suite: Suite) -> Cache:
    cache = Cache(suite, 1, reads=True)
    document = gradcli("check", "x**2", "x=1", "--modes", "reverse,fd", "--json").json
    row = row_of("a", "x**2", document, 0.1)
    cache.keep(suite.checks[0], row, Used())
    cache.remember([(row, Used())], [], {"a": suite.checks[0]})
    return cache


def test_no_damage_is_believed(suite: Suite) -> None:
    """Whatever bytes of an entry are lost or changed: it is the same pass, or none, and never an exception."""
    whole = kept(suite).find(suite.checks[0])
    files = list((suite.folder / FOLDER).rglob("*.json"))
    assert whole is not None and len(files) == 2
    draw = random.Random(0)
    for _ in range(200):
        path = draw.choice(files)
        good = path.read_bytes()
        bad = bytearray(good)
        if draw.random() < 0.3:
            bad = bad[: draw.randrange(len(bad))]
        else:
            for _ in range(draw.randrange(1, 4)):
                bad[draw.randrange(len(bad))] = draw.randrange(256)
        path.write_bytes(bad)
        cache = Cache(suite, 1, reads=True)
        found, last = cache.find(suite.checks[0]), cache.last()
        assert found in (None, whole) and last in ({}, Cache(suite, 1, reads=True).last())
        assert found is not None or last == {} or cache.notes or bytes(bad) == good
        path.write_bytes(good)


def test_a_folder_that_cannot_be_written_is_said_once(suite: Suite) -> None:
    (suite.folder / FOLDER).write_text("a file")
    cache = kept(suite)
    assert len([note for note in cache.notes if "runs without a cache" in note]) == 1


def test_an_entry_of_another_version_is_ignored(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    kept(suite)
    monkeypatch.setattr("gradcli.suite.cache._FORMAT", 99)
    assert Cache(suite, 1, reads=True).find(suite.checks[0]) is None


def test_its_folder_is_marked(suite: Suite) -> None:
    kept(suite)
    assert (suite.folder / FOLDER / ".gitignore").read_text() == "*\n"
    assert (
        (suite.folder / FOLDER / "CACHEDIR.TAG").read_text().startswith("Signature: 8a477f597d28d172789f06886806bc55")
    )
    shutil.rmtree(suite.folder / FOLDER)
    assert json.dumps(Cache(suite, 1, reads=True).last()) == "{}"
