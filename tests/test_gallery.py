"""The pages and pictures of the gallery are what the commands of docs/pages.md write.

`python -m tests.test_gallery` writes them anew; what needs torch is written where torch is installed.
"""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.test_goldens import words_apart

ROOT = Path(__file__).resolve().parents[1]
GALLERY = ROOT / "examples" / "pages"
GUIDE = ROOT / "docs" / "pages.md"
_TIMES = re.compile(r"(?<![\w.])[\d.,]+ m?s\b|(?<=\+)cpu|torch \d[\w.+]*")
_HASHED = re.compile(r"sha256-[\w+/=]+|<style>.*?</style>|<script>.*?</script>", re.DOTALL)


def commands() -> dict[str, list[str]]:
    """Return the commands of the guide by the file that each writes."""
    shown = re.findall(r"^\$ gradcli (.*)$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE)
    return {Path(words[words.index("-o") + 1]).name: words for words in map(shlex.split, shown)}


def needs_torch(words: list[str]) -> bool:
    """Whether a command is run beside the gallery, in the folder of the examples that need torch."""
    return any(word.startswith("../pages/") for word in words)


def written(name: str, words: list[str], folder: Path) -> str:
    """Run a command in the gallery's folder, with its file in another folder, and return the file's text."""
    file = folder / name
    argv = [str(file) if Path(word).name == name else word for word in words]
    environ = {key: value for key, value in os.environ.items() if not key.startswith("GITHUB_")}
    command = [sys.executable, "-m", "gradcli", *argv]
    place = GALLERY.parent / "frameworks" if needs_torch(words) else GALLERY
    done = subprocess.run(command, cwd=place, env=environ, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode in (0, 1, 3), done.stderr
    return file.read_text(encoding="utf-8")


def apart(old: str, new: str) -> Iterator[str]:
    """Yield where two pages differ, but for times, versions, and the style and the script, which all pages share."""
    yield from words_apart(*(_HASHED.sub("", _TIMES.sub("", text)) for text in (old, new)))


def check_page(name: str, folder: Path) -> None:
    """Compare a committed page with what its command writes now."""
    new = written(name, commands()[name], folder)
    old = (GALLERY / name).read_text(encoding="utf-8")
    assert not list(apart(old, new)), "if it should change: python -m tests.test_gallery, and look at the page"
    assert _HASHED.findall(old) == _HASHED.findall(new), "style or script have changed: python -m tests.test_gallery"


@pytest.mark.repairs
@pytest.mark.parametrize("name", [name for name, words in commands().items() if not needs_torch(words)])
def test_a_page_is_what_its_command_writes(name: str, tmp_path: Path) -> None:
    check_page(name, tmp_path)


def test_every_page_has_a_command() -> None:
    assert {path.name for path in GALLERY.iterdir() if path.suffix in (".html", ".svg")} == set(commands())
    assert len([name for name in commands() if name.endswith(".html")]) == 6


if __name__ == "__main__":
    for page, argv in commands().items():
        if not needs_torch(argv) or find_spec("torch") is not None:
            written(page, argv, GALLERY)
            print(f"wrote {page}")
