"""Recorded positions name the operation as it is written, whatever the letters on its line."""

from pathlib import Path

import pytest

import gradcli

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
