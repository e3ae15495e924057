"""Recorded calls in a file, and a suite made of them."""

import importlib
import json
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from gradcli.errors import BadOption
from gradcli.project.capture.saved import read_saved_calls, save_calls, write_suite_of_calls
from gradcli.project.capture.session import RecordingRequest, Session

MODULE = """
import numpy as np
from functools import partial

def loss(x, a, b=1.0):
    return np.sum(a * x**4) + b * np.sum(x**2)

def loss_grad(x, a, b=1.0):
    return {factor} * a * x**3 + 2 * b * x

class Model:
    a = np.array([1.0, 2.0])
    def value(self, x):
        return loss(x, self.a)
    def gradient(self, x):
        return loss_grad(x, self.a)

model = Model()

def twice(x, a, how=None):
    return loss(x, a) if how is None else loss(x, a) / 2

def twice_grad(x, a, how=None):
    return loss_grad(x, a)
"""
START = np.array([0.7, -0.4])
A = np.array([1.0, 2.0])


@pytest.fixture(name="module")
def _module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module of the user in the current folder, with what is right as it is."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "losses_of_mine.py").write_text(MODULE.format(factor=4))
    import losses_of_mine

    return losses_of_mine


def recorded(work: Any) -> Any:
    session = Session(RecordingRequest())
    session.begin()
    work()
    return session.end()


def test_saved_calls_are_checked_later(module: Any, tmp_path: Path, gradcli: Any) -> None:
    def work() -> None:
        minimize(module.loss, START, (A,), jac=module.loss_grad)
        minimize(module.model.value, START, jac=module.model.gradient)
        minimize(lambda x: np.sum(x**2), START, jac=lambda x: 2 * x)

    save_calls(recorded(work), ["script.py"], tmp_path / "calls.npz")
    document = gradcli("check", "--recorded", "calls.npz", "--json").json
    assert document["schema"] == "gradcli.run/1"
    assert document["program"] is None
    found = {each["name"].rpartition(".")[2]: each for each in document["gradients"]}
    assert {name: each["verdict"] for name, each in found.items()} == {
        "loss_grad": "pass", "gradient": "pass", "<lambda>": "inconclusive",
    }  # fmt: skip
    assert found["<lambda>"]["notes"] == ["a lambda has no name"]
    assert document["exit_status"] == 3


def test_a_random_seed_is_in_the_command(module: Any, tmp_path: Path, gradcli: Any) -> None:
    save_calls(recorded(lambda: minimize(module.loss, START, (A,), jac=module.loss_grad)), [], tmp_path / "calls.npz")
    document = gradcli("check", "--recorded", "calls.npz", "--seed", "random", "--json").json
    assert document["command"] == ["gradcli", "check", "--recorded", "calls.npz", "--seed", str(document["seed"])]


def test_a_module_that_has_changed_fails(module: Any, tmp_path: Path, gradcli: Any) -> None:
    save_calls(recorded(lambda: minimize(module.loss, START, (A,), jac=module.loss_grad)), [], tmp_path / "calls.npz")
    changed: dict[str, Any] = {}
    exec(compile(MODULE.format(factor=3), module.__file__, "exec"), changed)
    module.loss_grad.__code__ = changed["loss_grad"].__code__
    assert gradcli("check", "--recorded", "calls.npz").exit_status == 1


def test_a_module_outside_the_folder_is_imported_where_that_is_allowed(
    module: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gradcli: Any
) -> None:
    save_calls(recorded(lambda: minimize(module.loss, START, (A,), jac=module.loss_grad)), [], tmp_path / "calls.npz")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    refused = gradcli("check", "--recorded", "../calls.npz")
    assert refused.exit_status == 3
    assert "is not in this folder: --allow-python imports it" in " ".join(refused.stdout.split())
    assert gradcli("check", "--recorded", "../calls.npz", "--allow-python").exit_status == 0


def archive(path: Path, document: Any, **arrays: Any) -> None:
    text = np.frombuffer(json.dumps(document).encode(), dtype=np.uint8)
    with zipfile.ZipFile(path, "w") as file:
        for name, x in {"document": text, **arrays}.items():
            with file.open(f"{name}.npy", "w") as stream:
                np.lib.format.write_array(stream, x, allow_pickle=True)


@pytest.mark.parametrize(
    "document",
    [
        {}, [], {"schema": "gradcli.recorded/1"}, {"schema": "gradcli.recorded/1", "gradients": [{}]}, {"schema": "other/9"},
        {"schema": "gradcli.recorded/1", "gradients": [{"definition": 3, "pairs": []}]},
    ],
)  # fmt: skip
def test_a_file_that_holds_something_else_is_refused(document: Any, tmp_path: Path) -> None:
    archive(tmp_path / "calls.npz", document)
    with pytest.raises(BadOption):
        read_saved_calls(tmp_path / "calls.npz", True)


def test_no_object_is_unpacked(module: Any, tmp_path: Path) -> None:
    save_calls(recorded(lambda: minimize(module.loss, START, (A,), jac=module.loss_grad)), [], tmp_path / "calls.npz")
    with zipfile.ZipFile(tmp_path / "calls.npz") as file:
        document = json.loads(np.load(file.open("document.npy")).tobytes())
    archive(tmp_path / "calls.npz", document, a0=np.array([print], dtype=object))
    with pytest.raises(BadOption):
        read_saved_calls(tmp_path / "calls.npz", True)


@pytest.mark.slow
def test_a_suite_is_written_for_what_can_be_named(module: Any, tmp_path: Path, gradcli: Any) -> None:
    def work() -> None:
        minimize(module.loss, START, (A,), jac=module.loss_grad)
        minimize(module.partial(module.loss, a=A), START, jac=module.partial(module.loss_grad, a=A))
        minimize(module.model.value, START, jac=module.model.gradient)
        minimize(lambda x: np.sum(x**2), START, jac=lambda x: 2 * x)

    said = write_suite_of_calls(recorded(work), tmp_path / "gradcli.toml", {})
    assert said == "gradcli.toml: 2 of 3 gradients as checks; gradcli check runs them"
    text = (tmp_path / "gradcli.toml").read_text()
    assert 'target = "losses_of_mine.py:model.value"\ngrad = "model.gradient"' in text
    assert "no entry, for a lambda has no name" in text
    report = gradcli("check", "--json").json
    assert [check["verdict"] for check in report["checks"]] == ["pass", "pass"]


@pytest.mark.parametrize("name", ["os.system", "loss.__globals__.get", "np.sum", "partial", "__builtins__", "nothing"])
def test_only_functions_that_the_module_defines_are_called(
    name: str, module: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gradcli: Any
) -> None:
    save_calls(recorded(lambda: minimize(module.loss, START, (A,), jac=module.loss_grad)), [], tmp_path / "calls.npz")
    with zipfile.ZipFile(tmp_path / "calls.npz") as file:
        arrays = {n.removesuffix(".npy"): np.load(file.open(n)) for n in file.namelist()}
    document = json.loads(arrays.pop("document").tobytes())
    for pair in document["gradients"][0]["pairs"]:
        pair["function"][2] = pair["gradient"][2] = name
        pair["args"] = {"tuple": [f"touch {tmp_path}/run"]}
    archive(tmp_path / "calls.npz", document, **arrays)
    assert gradcli("check", "--recorded", "calls.npz").exit_status == 3
    for pair in document["gradients"][0]["pairs"]:
        pair["function"] = pair["gradient"] = ["os", "os.py", "system"]
    archive(tmp_path / "calls.npz", document, **arrays)
    assert gradcli("check", "--recorded", "calls.npz").exit_status == 3
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_the_entry_has_the_call_that_failed_and_is_a_table_of_the_suite_that_is_there(
    module: Any, tmp_path: Path, gradcli: Any
) -> None:
    def work() -> None:
        minimize(lambda x: module.loss(x, A), START, jac=module.partial(module.loss_grad, a=A))
        minimize(module.twice, START, (A, "half"), jac=module.twice_grad, options={"maxiter": 1})
        minimize(module.twice, 10 * START, (A, None), jac=module.twice_grad)

    (tmp_path / "pyproject.toml").write_text('[tool.gradcli]\npaths = ["losses_of_mine.py"]\n')
    kept = recorded(work)
    wrong = next(each for each in kept.all() if each.definition.name == "twice_grad")
    said = write_suite_of_calls(kept, tmp_path / "checks.toml", {wrong.definition: 1})
    assert said == "checks.toml: 1 of 2 gradients as checks; add its tables to pyproject.toml"
    text = (tmp_path / "checks.toml").read_text()
    assert "[[tool.gradcli.check]]" in text and "how='half'" in text
    with (tmp_path / "pyproject.toml").open("a") as suite:
        suite.write(f"\n{text}")
    assert [check["verdict"] for check in gradcli("check", "--json").json["checks"]] == ["fail"]


def test_a_suite_has_names_of_files_with_rare_letters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    name = "losses_of_\U00010330"  # TOML has no surrogates, by which JSON writes such a letter
    (tmp_path / f"{name}.py").write_text("def f(x): return x[0] ** 2\ndef f_grad(x): return [2 * x[0]]\n")
    module = importlib.import_module(name)
    kept = recorded(lambda: minimize(module.f, [1.0], jac=module.f_grad))
    write_suite_of_calls(kept, tmp_path / "gradcli.toml", {})
    (check,) = tomllib.loads((tmp_path / "gradcli.toml").read_text(encoding="utf-8"))["check"]
    assert check["target"] == f"{name}.py:f"
