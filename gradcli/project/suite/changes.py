"""Which checks `--changed` selects: those that depend on a file that differs from git. All of it is read, and nothing is run."""

import ast
import itertools
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from gradcli.errors import BadOption, GradcliError
from gradcli.project.discovery.reader import CannotRead, parsed
from gradcli.project.suite.config import Check, Suite, digest_of_check, read_suite
from gradcli.request.target_text import TARGET

_IMPORTERS = ("import_module", "__import__")  # functions that import the module of a name
_INSTALLED = {"site-packages", "dist-packages"}


def changed_checks(suite: Suite, checks: Iterable[Check], since: str | None) -> tuple[Check, ...]:
    """Return the checks that depend on what differs from git's HEAD, or from where HEAD left `since`.

    A check depends on its declaration, on the files that it names, and on the modules of the project that are reached by
    imports from those of its target, its claim, its reference and its point.

    Raises  BadOption where there is no git repository, or `since` is not known there.
    """
    if since is not None and since.startswith("-"):
        raise BadOption(f"'{since}' names no commit", do="write --changed-since main")
    top = Path(_git(suite.folder, "rev-parse", "--show-toplevel").rstrip("\n"))
    base = "HEAD" if since is None else _git(top, "merge-base", "HEAD", since).strip()
    names = _git(top, "diff", "--name-only", "--no-renames", "-z", base, "--")
    new = _git(top, "ls-files", "--others", "--exclude-standard", "-z")  # new files that git does not ignore count too
    changed = frozenset(str(top / name) for name in (names + new).split("\0") if name)
    if not changed:
        return ()
    project = _Project(suite, top, changed)
    declared = project.declared_differently(base)
    return tuple(check for check in checks if check.id in declared or project.has_changed_for(check))


class _Project:
    """The files of a project, and those of them that changed."""

    def __init__(self, suite: Suite, top: Path, changed: frozenset[str]) -> None:
        self._suite, self._top, self._changed = suite, top, changed
        folders = (Path(folder).resolve() for folder in (*suite.importable, *sys.path))
        inside = (folder for folder in folders if folder.is_relative_to(top) and not _INSTALLED & {*folder.parts})
        self._importable = frozenset(map(str, inside))
        self._imports, self._imported = cache(_imports), cache(self._find_imported)
        self._was_there, self._has_changed = cache(self._look_for), cache(self._compare)
        self._leads_to_change = cache(self._follow_imports)

    def declared_differently(self, base: str) -> frozenset[str]:
        """Return the ids of the checks whose declaration at a commit was another one, or cannot be read."""
        path, profile = self._suite.path, self._suite.profile
        if path is None or str(path.resolve()) not in self._changed:
            return frozenset()
        now = {check.id: digest_of_check(check) for check in read_suite(path, profile).checks}
        try:
            text = _git(self._top, "show", f"{base}:{path.resolve().relative_to(self._top).as_posix()}")
            before = {check.id: digest_of_check(check) for check in read_suite(path, profile, text=text).checks}
        except GradcliError:
            return frozenset(now)
        return frozenset(name for name, found in now.items() if before.get(name) != found)

    def has_changed_for(self, check: Check) -> bool:
        """Whether a file changed that a check names, or a module that is reached from one that it names."""
        claim, options = check.ask.claim, check.options
        claims = (options.grad, options.reference, None if claim is None else claim[1])
        files, folders = set[str](), set[str]()  # modules are imported from these folders too
        for text in (check.ask.target, *check.ask.at, *claims):
            for part in {text, *re.split(r"[,;\n=]", text)} if isinstance(text, str) else ():
                name, match = part.strip(), TARGET.fullmatch(part.strip())
                if name.startswith("@"):
                    files |= {str(self._path(name[1:])), str(self._path(name[1:].rpartition(":")[0]))}  # file.npz:key
                elif match is not None and not match["file"].endswith(".py"):
                    files |= {file for folder in self._importable for file in _files_of(folder, match["file"])}
                elif match is not None or name.endswith(".py"):
                    module = self._path(name if match is None else match["file"])
                    inits = (str(folder / "__init__.py") for folder in module.parents)
                    packages = [*itertools.takewhile(self._was_there, inits)]
                    files |= {str(module), *packages}
                    folders |= {str(module.parent), str(module.parents[len(packages)])}
        own_folders = frozenset(folders - self._importable)
        return any(self._leads_to_change(file, own_folders) for file in files)

    def _path(self, text: str) -> Path:
        return Path(os.path.normpath(self._suite.folder.resolve() / text))

    def _look_for(self, file: str) -> bool:
        """Whether a file is there, or was before it changed."""
        return file in self._changed or _is_file(file)

    def _compare(self, file: str) -> bool:
        """Whether a file changed, which may be there no longer, or the one that a link leads to."""
        return file in self._changed or (_is_file(file) and str(Path(file).resolve()) in self._changed)

    def _follow_imports(self, file: str, own_folders: frozenset[str]) -> bool:
        """Whether a file changed, or one that is reached by imports from it."""
        seen, waiting = {file}, [file]
        while waiting:
            here = waiting.pop()
            if self._has_changed(here):
                return True
            found = (self._imported(here, self._importable) | self._imported(here, own_folders)) - seen
            seen |= found
            waiting += found
        return False

    def _find_imported(self, file: str, folders: frozenset[str]) -> frozenset[str]:
        """Return the files that a file imports from these folders, and those it would import if they were still there."""
        found = set[str]()
        for level, name in self._imports(file):
            for folder in map(str, Path(file).parents[level - 1 : level]) if level else folders:
                found.update(filter(self._was_there, _files_of(folder, name)))
        return frozenset(found)


def _is_file(file: str) -> bool:
    return os.path.isfile(file)  # noqa: PTH113 (of a path that no file can have, it is False)


def _files_of(folder: str, name: str) -> Iterator[str]:
    """Yield where a module of a dotted name can be below a folder, and the packages that hold it."""
    for part in filter(None, name.split(".")):
        yield from (f"{folder}{os.sep}{part}.py", f"{folder}{os.sep}{part}{os.sep}__init__.py")
        folder += os.sep + part


def _imports(file: str) -> frozenset[tuple[int, str]]:
    """Return the modules that a file imports, each as the number of its leading dots and its name; none if it cannot be read.

    What is imported from a module counts as a module too.
    """
    if not file.endswith(".py"):
        return frozenset()
    try:
        with warnings.catch_warnings(action="ignore"):  # of the user's code
            tree = parsed(file)
    except CannotRead:
        return frozenset()
    found: set[tuple[int, str]] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {(0, alias.name) for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {(node.level, ".".join(filter(None, (node.module, alias.name)))) for alias in node.names}
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in _IMPORTERS:
            for name in (argument.value for argument in node.args[:1] if isinstance(argument, ast.Constant)):
                found |= {(len(name) - len(name.lstrip(".")), name.lstrip("."))} if isinstance(name, str) else set()
    return frozenset(found)


def _git(folder: Path, *words: str) -> str:
    command = ["git", "-c", "core.fsmonitor=false", "-c", "core.quotePath=false", "-C", str(folder), *words]
    try:
        ran = subprocess.run(command, capture_output=True, check=False)
    except OSError:
        raise BadOption("git is not installed, which --changed needs", do="leave it out") from None
    if ran.returncode:
        said = (os.fsdecode(ran.stderr).strip().splitlines() or ["it failed"])[0]
        raise BadOption(f"git cannot tell what changed: {said[:200]}", do="leave --changed out")
    return os.fsdecode(ran.stdout)
