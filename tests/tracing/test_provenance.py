"""Recorded positions name the operation as it is written, and code is the user's wherever it is linked to."""

from pathlib import Path

import pytest

import gradcli
from gradcli.tracing.provenance import is_users_file, treat_folder_as_users

SOURCE = """import numpy as np


def größe(θ, λ):
    σ = 1 / (1 + np.exp(-θ * λ))  # ∂σ
    return σ * "äö".count("ä") + λ**2
"""


def test_operations_on_lines_with_other_letters_than_ascii(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "letters.py").write_text(SOURCE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    nodes = gradcli.trace("letters.py:größe", {"θ": 0.5, "λ": 1.5}).nodes
    assert [node.text for node in nodes if node.operation != "input"] == [
        "-θ", "-θ * λ", "np.exp(-θ * λ)", "1 + np.exp(-θ * λ)", "1 / (1 + np.exp(-θ * λ))", 'σ * "äö".count("ä")', "λ**2",
        'σ * "äö".count("ä") + λ**2',
    ]  # fmt: skip


def test_a_module_that_is_linked_into_an_environment_is_the_users(tmp_path: Path) -> None:
    installed, mine = tmp_path / "site-packages", tmp_path / "mine"
    for folder in (installed, mine):
        folder.mkdir()
        (folder / "own.py").touch()
    (installed / "linked.py").symlink_to(mine / "own.py")
    assert not is_users_file(str(installed / "linked.py"))  # nothing is named yet
    treat_folder_as_users(str(mine))
    assert is_users_file(str(mine / "own.py")) and is_users_file(str(installed / "linked.py"))
    assert not is_users_file(str(installed / "own.py"))


def test_naming_the_same_folder_again_forgets_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    treat_folder_as_users(str(tmp_path))
    assert is_users_file(str(tmp_path / "own.py"))
    monkeypatch.setattr(Path, "resolve", lambda self: tmp_path)
    treat_folder_as_users(str(tmp_path))
    monkeypatch.setattr(Path, "resolve", lambda self: pytest.fail("the disk was asked again"))
    assert is_users_file(str(tmp_path / "own.py"))
