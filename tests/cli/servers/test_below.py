"""What an agent names must lie below the folder of the server, however it is written."""

from pathlib import Path

import pytest

from gradcli.cli.servers import refuse_outside
from gradcli.errors import BadOption


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a server, in which there is a link that leads out of it."""
    inside = tmp_path / "inside"
    (inside / "package").mkdir(parents=True)
    (inside / "a=").mkdir()
    for file in ("f.py", "package/g.py", "package/__init__.py", "x.npy"):
        (inside / file).touch()
    for file in ("secret.py", "secret.npz"):
        (tmp_path / file).touch()
    (inside / "link.py").symlink_to(tmp_path / "secret.py")
    (inside / "out").symlink_to(tmp_path)
    monkeypatch.chdir(inside)
    return inside


@pytest.mark.parametrize(
    "text",
    [
        "../secret.py:f", "../secret.py", "/etc/passwd.py:f", "link.py:f", "out/secret.py:f", "f.py/../../secret.py:f", "out/",
        "out", "..", "@../secret.npz", "@out/secret.npz:x", "x=@../secret.npz", "x=1, y=@../secret.npz:key", "data=../secret.py:D",
        "x=1; y=out/secret.py:make(3)", "os:system", "numpy.linalg:norm", "sys:exit", "not_there:f", "x=@a=/../../secret.npz",
        "@a=/../../secret.npz", " ../secret.py:f ", "x=@ ../secret.npz", "f.py:f(open('../secret.py'))",
    ],
)  # fmt: skip
@pytest.mark.parametrize("is_word", [True, False])
def test_what_lies_outside_is_refused(text: str, is_word: bool, folder: Path) -> None:
    with pytest.raises(BadOption):
        refuse_outside(folder, [text] if is_word else [], [] if is_word else [text])


@pytest.mark.parametrize("module", ["numpy", "statistics"])
def test_a_module_that_is_installed_is_refused(module: str, folder: Path) -> None:
    with pytest.raises(BadOption, match="no module below"):
        refuse_outside(folder, [module])


@pytest.mark.parametrize(
    "text",
    [
        "f.py:f", "./f.py:f", "package/g.py:g", "package.g:g", "package/", "package", ".", "sin(x)/y", "x / y + (a)/b", "x", "1/x",
        "@x.npy", "x=@x.npy", "x=@x.npy:key, y=2", "f.py:f(3).loss", "@checked", "not_there.py:f", "x[0]", "a = b", "2*x", "",
    ],
)  # fmt: skip
def test_what_lies_inside_and_formulas_are_taken(text: str, folder: Path) -> None:
    refuse_outside(folder, [text], [text])
