"""Both distributions can be built, from the repository and from their source distributions, and have one version."""

import email
import subprocess
import sys
import tarfile
import zipfile
from email.message import Message
from pathlib import Path

import pytest

import gradcli

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = {"gradcli": ROOT, "pytest-gradcli": ROOT / "pytest-gradcli"}


def built(folder: Path, kind: str, to: Path) -> Path:
    """Build a distribution of a folder, `wheel` or `sdist`, and return its file."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(to)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    (found,) = to.glob("*.whl" if kind == "wheel" else "*.tar.gz")
    return found


def contents(wheel: Path) -> tuple[list[str], Message, str]:
    """Return the files of a wheel, its metadata and its entry points."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        (entries,) = (name for name in names if name.endswith("entry_points.txt"))
        return names, email.message_from_bytes(archive.read(metadata)), archive.read(entries).decode()


@pytest.mark.slow
@pytest.mark.parametrize("source", ["repository", "sdist"])
@pytest.mark.parametrize("name", FOLDERS)
def test_a_wheel_has_what_it_must(name: str, source: str, tmp_path: Path) -> None:
    folder = FOLDERS[name]
    if source == "sdist":
        archive = built(folder, "sdist", tmp_path / "sdist")
        with tarfile.open(archive) as content:
            content.extractall(tmp_path / "source", filter="data")
        (folder,) = (tmp_path / "source").iterdir()
    files, metadata, entries = contents(built(folder, "wheel", tmp_path / "wheel"))
    assert (metadata["Name"], metadata["Version"]) == (name, gradcli.__version__)
    requires = metadata.get_all("Requires-Dist")
    assert any(file.endswith("LICENSE") for file in files)
    if name == "gradcli":
        assert "pytest-gradcli; extra == 'pytest'" in requires
        assert "gradcli/testing.py" in files and "pytest11" not in entries
    else:
        assert sorted(requires) == [f"gradcli=={gradcli.__version__}", "pytest>=8"]
        assert [file for file in files if ".dist-info/" not in file] == ["pytest_gradcli.py"]
        assert entries.split("\n")[:2] == ["[pytest11]", "gradcli = pytest_gradcli"]
