"""Which Python files are read: those of folders that are not hidden, built, installed, ignored by git, or tests."""

import fnmatch
import os
import re
from collections.abc import Iterator
from pathlib import Path

SKIPPED = frozenset({
    "build", "dist", "node_modules", "site-packages", "__pycache__", "_build", "venv", "env", "virtualenv",
    "htmlcov",
})  # fmt: skip
_TEST_FOLDERS = frozenset({"tests", "test", "testing"})
_TEST_FILE = re.compile(r"(test_.*|.*_test|conftest)\.py")


def python_files(path: str) -> Iterator[str]:
    """Yield the Python files of a path with forward slashes: a file itself, or those of a folder, in order.

    What is named is read, whatever it is. Inside a folder, folders are skipped that are hidden, built, virtual
    environments or tests, and what its `.gitignore` files, and those of the folders above up to the repository, name.
    """
    if Path(path).is_file():
        yield _slashes(path)
        return
    tests = not _TEST_FOLDERS.isdisjoint(Path(os.path.relpath(path)).parts)
    waiting: list[tuple[str, list[_Rule]]] = [(path, _rules_above(Path(path)))]
    while waiting:
        folder, above = waiting.pop()
        here = above if folder == path else above + _rules(Path(folder))
        inner: list[str] = []
        for name in sorted(_listed(folder)):
            whole = name if folder == "." else f"{folder.rstrip('/')}/{name}"
            if Path(whole).is_dir():
                skipped = Path(whole).is_symlink() or _is_skipped(name, whole) or (name in _TEST_FOLDERS and not tests)
                if not skipped and not _ignored(whole, True, here):
                    inner.append(whole)
            elif (
                name.endswith(".py") and (tests or not _TEST_FILE.fullmatch(name)) and not _ignored(whole, False, here)
            ):
                yield _slashes(whole)
        waiting += [(whole, here) for whole in reversed(inner)]


def _listed(folder: str) -> list[str]:
    try:
        return [path.name for path in Path(folder).iterdir()]
    except OSError:
        return []


def _slashes(path: str) -> str:
    return path.replace("\\", "/") if os.sep == "\\" else path


def _is_skipped(name: str, path: str) -> bool:
    return (
        name.startswith(".")
        or name in SKIPPED
        or name.endswith((".egg-info", ".dist-info", ".libs"))
        or Path(path, "pyvenv.cfg").exists()
    )


_Rule = tuple[Path, re.Pattern[str], bool, bool]  # the folder it is in, what it matches, only folders, not ignored


def _rules_above(folder: Path) -> list[_Rule]:
    """Return the rules of the folder and of those above it, up to that of the repository; none outside of one."""
    whole = folder.resolve()
    chain = [whole, *whole.parents]
    root = next((k for k, each in enumerate(chain) if (each / ".git").exists()), None)
    if root is None:
        return _rules(whole)
    return [rule for each in reversed(chain[: root + 1]) for rule in _rules(each)]


def _rules(folder: Path) -> list[_Rule]:
    """Return the rules of a folder's `.gitignore`: names, paths, `*`, `**`, `?`, `[...]`, a final `/` and a first `!`."""
    try:
        lines = (folder / ".gitignore").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        text = line.rstrip()
        if not text or text.startswith("#"):
            continue
        kept, text = text.startswith("!"), text.removeprefix("!").removeprefix("\\")
        only_folders, text = text.endswith("/"), text.rstrip("/")
        if text:
            found.append((folder.resolve(), re.compile(_pattern(text)), only_folders, kept))
    return found


def _pattern(text: str) -> str:
    """Return a rule as a regular expression for the path below the folder of the rule."""
    anchored, text = "/" in text, text.removeprefix("/")
    parts = text.split("/")
    made = "".join(_part(part, k == len(parts) - 1) for k, part in enumerate(parts))
    return made if anchored else f"(?:.*/)?{made}"


def _part(part: str, is_last: bool) -> str:
    if part == "**":
        return ".*" if is_last else "(?:.*/)?"
    one = fnmatch.translate(part).removesuffix("\\Z").removesuffix("\\z").removeprefix("(?s:").removesuffix(")")
    return one.replace(".*", "[^/]*") + ("" if is_last else "/")


def _ignored(path: str, is_folder: bool, rules: list[_Rule]) -> bool:
    """Whether the last rule that matches a path says that git ignores it."""
    if not rules:
        return False
    whole = Path(path).resolve()
    ignored = False
    for folder, pattern, only_folders, kept in rules:
        if only_folders and not is_folder:
            continue
        if whole.is_relative_to(folder) and pattern.fullmatch(whole.relative_to(folder).as_posix()):
            ignored = not kept
    return ignored
