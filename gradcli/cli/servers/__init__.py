"""Servers for agents and editors, and checks on every save; each loads what its extra installs when it begins."""

import importlib
import os
import re
import signal
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType

from gradcli.errors import BadOption, install_command
from gradcli.project.discovery.project import modules_of_project, paths_of_module
from gradcli.request.target_text import TARGET, is_folder
from gradcli.targets.missing import find_file_values


def import_with_extra(module: str, extra: str) -> ModuleType:
    """Import a module that needs what an extra installs. Raises BadOption if that is not installed."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] == "gradcli":
            raise
        says = f"the Python package {error.name} is not installed, which this needs"
        raise BadOption(says, do=install_command(extra)) from None


def end_on_signals(end: Callable[[], None]) -> None:
    """End this process at once on Ctrl-C and SIGTERM, after `end` was called: a thread that reads its input would hold it."""

    def handle(number: int, frame: object) -> None:
        end()
        os._exit(128 + number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handle)


# Which files the arguments of a request name, and whether they lie below a folder.

_FILE = re.compile(r"[^\s,;=@\"'()]*\.py\b")
_DOTTED = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")


def refuse_outside(folder: Path, words: Iterable[str], options: Iterable[str] = ()) -> None:
    """Refuse arguments that name a file, a folder or a module which lies outside of a folder, where links lead too.

    `words` are the targets or paths, `options` the texts of options. Raises BadOption.
    """
    folder = folder.resolve()
    words = tuple(words)
    for text in (*words, *options):
        for path in _paths_in_text(text):
            try:
                inside = (folder / path).resolve().is_relative_to(folder)
            except (OSError, ValueError):  # no file can have this path
                inside = False
            if not inside:
                do = "name files below this folder; others are not read"
                raise BadOption(f"{path[:80]} lies outside of {folder}", do=do)
        match = TARGET.fullmatch(text.strip())
        if match is not None and not match["file"].endswith(".py"):
            _refuse_foreign_module(folder, match["file"])
    for word in words:
        if _DOTTED.fullmatch(word) and not Path(word).exists() and paths_of_module(word):
            _refuse_foreign_module(folder, word)


def _paths_in_text(text: str) -> Iterator[str]:
    """Yield the files and folders that a text may name: of Python code, of data (`x=@x.npy:key`), and the text itself."""
    yield from _FILE.findall(text)
    values = ("@" + text[slice(*match.span("file"))] for match in find_file_values(text))
    for part in (text.strip(), *values, *(part.strip() for part in re.split(r"[,;\n=]", text))):
        file = part.removeprefix("@").strip()
        if part.startswith("@"):
            yield from filter(None, (file, file.rpartition(":")[0]))
        elif part.endswith(".py") or is_folder(part) or part.startswith(".."):
            yield part


def _refuse_foreign_module(folder: Path, name: str) -> None:
    """Refuse a module that is not one of the project: an installed one would be run wherever it is."""
    paths = [path for path in modules_of_project(folder, name) if path.resolve().is_relative_to(folder)]
    if not paths:
        raise BadOption(f"{name[:80]} is no module below {folder}", do="name a file: path/to/file.py:name")
