"""All files that were read: which definition a name, an attribute or an expression means, across files."""

import ast
import fnmatch
import importlib.util
import itertools
import os
import re
from collections.abc import Iterator
from dataclasses import field
from functools import cache
from pathlib import Path, PurePath, PurePosixPath
from typing import Literal

from gradcli.classes import dataclass
from gradcli.project.discovery.bodies import Class, FileScopes, Import, SourceFunction, dotted_name, last_name
from gradcli.words import DerivativeKind, FoundBy

_DEEP = 8  # imports and names that lead to another, one after the other
_TRANSPARENT = frozenset({
    "partial", "jit", "njit", "vectorize", "lru_cache", "cache", "wraps", "jitclass", "checkpoint", "guvectorize",
    "array", "asarray",
})  # fmt: skip
_UNREAD = FileScopes("")


@dataclass(slots=True)
class Project:
    """The sources by file, and the files by the ends of their dotted names."""

    sources: dict[str, FileScopes] = field(default_factory=dict)
    ends: dict[str, list[str]] = field(default_factory=dict)

    def add(self, source: FileScopes) -> None:
        """Add a file."""
        self.sources[source.file] = source
        names = module_parts(source.file)
        for k in range(len(names)):
            self.ends.setdefault(".".join(names[k:]), []).append(source.file)

    def origins(self, source: FileScopes) -> dict[str, str]:
        """Return the full names of what a file imports."""
        return {name: found.full_name() for name, found in source.imports.items()}

    def origin(self, source: FileScopes, expression: ast.expr) -> str:
        """Return the full name of an imported thing, such as `scipy.optimize.minimize`; empty where it is not imported."""
        text = dotted_name(expression)
        if text is None:
            return ""
        head, _, rest = text.partition(".")
        found = source.imports.get(head)
        if found is None:
            return ""
        local = self._resolve_import(source, found)
        if isinstance(local, FileScopes) and found.name is not None and not rest:
            return ""
        whole = found.full_name(rest)
        for _ in range(_DEEP):  # another file of the project may import it itself, such as scipy's functions
            file = self.module(source, found.module, found.level)
            if file is None or found.name is None or found.name not in self.sources[file].imports:
                break
            source = self.sources[file]
            found = source.imports[found.name]
            whole = found.full_name()
        return whole

    def module(self, source: FileScopes, name: str, level: int = 0) -> str | None:
        """Return the file of a module that a source imports, or None where it was not read."""
        if level:
            folder = PurePosixPath(source.file.replace("\\", "/")).parent
            for _ in range(level - 1):
                folder = folder.parent
            base = folder.joinpath(*name.split(".")) if name else folder
            for path in (f"{base}.py", str(base / "__init__.py")):
                if path in self.sources:
                    return path
            return None
        return max(self.ends.get(name, []), key=lambda file: _count_shared_parts(file, source.file), default=None)

    def _resolve_import(self, source: FileScopes, found: Import) -> "FileScopes | SourceFunction | Class | None":
        """Return what an import brings into a file: a module, a function, a class, or None where it was not read."""
        for _ in range(_DEEP):
            if found.name is None:
                file = self.module(source, found.module, found.level)
                return None if file is None else self.sources[file]
            whole = f"{found.module}.{found.name}" if found.module else found.name
            file = self.module(source, found.module, found.level) if found.module or found.level else None
            there = _UNREAD if file is None else self.sources[file]
            if found.name in there.functions.get("", {}):
                return there.functions[""][found.name][-1]
            if found.name in there.classes:
                return there.classes[found.name]
            if found.name in there.imports:
                source, found = there, there.imports[found.name]
            elif found.name in there.bound.get("", {}):
                return None
            else:
                inner = self.module(source, whole, found.level)
                return None if inner is None else self.sources[inner]
        return None

    def named(self, source: FileScopes, name: str) -> "FileScopes | SourceFunction | Class | None":
        """Return what an imported name means in a file."""
        found = source.imports.get(name)
        return None if found is None else self._resolve_import(source, found)

    def module_named(self, source: FileScopes, text: str) -> FileScopes | None:
        """Return the file of the module that a dotted name means in a file, such as `losses` or `package.losses`."""
        head, _, rest = text.partition(".")
        found = source.imports.get(head)
        if found is None:
            return None
        whole = ".".join(filter(None, (found.module, found.name, rest)))
        file = self.module(source, whole, found.level)
        if file is not None:
            return self.sources[file]
        meant = self._resolve_import(source, found)
        return meant if isinstance(meant, FileScopes) and not rest else None

    def class_of(self, source: FileScopes, expression: ast.expr) -> Class | None:
        """Return the class that an expression names in a file."""
        text = dotted_name(expression)
        if text is None:
            return None
        if text in source.classes:
            return source.classes[text]
        before, _, last = text.rpartition(".")
        module = self.module_named(source, before) if before else source
        if module is None:
            return None
        found = module.classes.get(last) or self.named(module, last)
        return found if isinstance(found, Class) else None

    def lineage(self, found: Class) -> tuple[Class, ...]:
        """Return a class and all its base classes that were read, the nearest first."""
        chain: list[Class] = []
        waiting = [found]
        while waiting:
            here = waiting.pop(0)
            if here in chain:
                continue
            chain.append(here)
            source = self.sources[here.file]
            waiting += [base for base in (self.class_of(source, b) for b in here.bases) if base is not None]
        return tuple(chain)

    def methods(self, found: Class) -> dict[str, SourceFunction]:
        """Return the methods of a class, those of its bases among them."""
        known: dict[str, SourceFunction] = {}
        for each in self.lineage(found):
            for name, several in self.sources[each.file].functions.get(each.name, {}).items():
                known.setdefault(name, several[-1])
        return known

    def functions(self, source: FileScopes, scope: str, expression: ast.expr | None) -> list[SourceFunction]:
        """Return the functions that an expression means in a scope; none where it is a parameter, or not known."""
        return self._find_functions(source, scope, expression, 0) or []

    def _find_functions(
        self, source: FileScopes, scope: str, expression: ast.expr | None, depth: int
    ) -> list[SourceFunction] | None:
        """Return the functions that an expression means, None where it may be a parameter."""
        if depth > _DEEP:
            return []
        if isinstance(expression, ast.Lambda):
            around = [part for part in scope.split(".") if part and not part.startswith("<lambda")]
            name = ".".join([*around, "<lambda>"])
            return [SourceFunction(source.file, name, expression.lineno, scope, expression)]
        if isinstance(expression, ast.IfExp):
            both = [self._find_functions(source, scope, e, depth + 1) for e in (expression.body, expression.orelse)]
            return [d for found in both for d in found or ()]
        if isinstance(expression, ast.Call) and last_name(expression.func) in _TRANSPARENT and expression.args:
            return self._find_functions(source, scope, expression.args[0], depth + 1)
        if isinstance(expression, ast.Name):
            return self._functions_by_name(source, scope, expression.id, depth)
        if isinstance(expression, ast.Attribute):
            return self._functions_by_attribute(source, scope, expression, depth)
        return []

    def _functions_by_name(self, source: FileScopes, scope: str, name: str, depth: int) -> list[SourceFunction] | None:
        for place in lookup_scopes(source, scope):
            if name in source.functions.get(place, {}):
                return source.functions[place][name]
            if name in source.bound.get(place, {}):
                found: list[SourceFunction] = []
                for value in source.bound[place][name]:
                    each = self._find_functions(source, place, value, depth + 1)
                    if each is None:
                        return None
                    found += [d for d in each if d not in found]
                return [_rename_lambda(d, place, name) for d in found]
            if name in source.parameters.get(place, frozenset()):
                return None
        imported = self.named(source, name)
        return [imported] if isinstance(imported, SourceFunction) else []

    def _functions_by_attribute(
        self, source: FileScopes, scope: str, node: ast.Attribute, depth: int
    ) -> list[SourceFunction] | None:
        text = dotted_name(node.value)
        if text in ("self", "cls"):
            owner = next((source.classes[p] for p in enclosing_scopes(scope) if p in source.classes), None)
        else:
            owner = self.class_of(source, node.value) or self.class_of_instance(source, scope, node.value, depth)
        if owner is not None:
            found = self.methods(owner).get(node.attr)
            return [found] if found is not None else []
        module = None if text in (None, "self", "cls") else self.module_named(source, text)
        return [] if module is None else self._functions_by_name(module, "", node.attr, depth + 1)

    def class_of_instance(self, source: FileScopes, scope: str, value: ast.expr, depth: int = 0) -> Class | None:
        """Return the class of the object that an expression means: `Model(...)`, or a name that was set to it."""
        if isinstance(value, ast.Call):
            return self.class_of(source, value.func)
        if isinstance(value, ast.Name) and depth <= _DEEP:
            for place in lookup_scopes(source, scope):
                for bound in source.bound.get(place, {}).get(value.id, []):
                    found = self.class_of_instance(source, place, bound, depth + 1)
                    if found is not None:
                        return found
        return None


def _rename_lambda(definition: SourceFunction, scope: str, name: str) -> SourceFunction:
    """Return a lambda under the name that it was bound to."""
    if not isinstance(definition.node, ast.Lambda) or not definition.name.endswith("<lambda>"):
        return definition
    whole = f"{scope}.{name}" if scope else name
    return SourceFunction(definition.file, whole, definition.line, scope, definition.node)


def enclosing_scopes(scope: str) -> Iterator[str]:
    """Yield a scope and those around it, the module last."""
    while scope:
        yield scope
        scope = scope.rpartition(".")[0]
    yield ""


def lookup_scopes(source: FileScopes, scope: str) -> Iterator[str]:
    """Yield the scopes in which a name is looked for: inside out, without the classes around."""
    for k, place in enumerate(enclosing_scopes(scope)):
        if k == 0 or place not in source.classes:
            yield place


@cache
def module_parts(file: str) -> tuple[str, ...]:
    """Return the parts of a file's dotted name: `src/pkg/__init__.py` is src, pkg."""
    names = [*PurePath(file.replace("\\", "/")).with_suffix("").parts]
    if names and names[-1] == "__init__":
        names.pop()
    return tuple(name for name in names if name not in ("/", ".", ".."))


def _count_shared_parts(a: str, b: str) -> int:
    both = zip(module_parts(a), module_parts(b), strict=False)
    return sum(1 for _ in itertools.takewhile(lambda parts: parts[0] == parts[1], both))


# Which Python files are read: those of folders that are not hidden, built, installed, ignored by git, or tests.

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
    Those above do not count for a folder that they name, such as one of an environment that is ignored as a whole.
    """
    path = PurePath(path).as_posix()  # without ./, so that each file has one name
    if Path(path).is_file():
        yield _with_forward_slashes(path)
        return
    tests = not _TEST_FOLDERS.isdisjoint(Path(os.path.relpath(path)).parts)
    above = _ignore_rules_above(Path(path))
    waiting = [(path, _ignore_rules(Path(path)) if _is_ignored(path, True, above) else above)]
    while waiting:
        folder, above = waiting.pop()
        here = above if folder == path else above + _ignore_rules(Path(folder))
        inner: list[str] = []
        try:
            names = sorted(each.name for each in Path(folder).iterdir())
        except OSError:
            continue
        for name in names:
            whole = name if folder == "." else f"{folder.rstrip('/')}/{name}"
            is_code = name.endswith(".py") and (tests or not _TEST_FILE.fullmatch(name))
            if Path(whole).is_dir():
                skipped = Path(whole).is_symlink() or (name in _TEST_FOLDERS and not tests)
                if not (skipped or _is_skipped_folder(name, whole) or _is_ignored(whole, True, here)):
                    inner.append(whole)
            elif is_code and not _is_ignored(whole, False, here):
                yield _with_forward_slashes(whole)
        waiting += [(whole, here) for whole in reversed(inner)]


def is_read_from(folder: str, file: str) -> bool:
    """Whether a file that was found lies in a folder, and is no test and in no folder inside that is skipped."""
    whole, top = Path(file).resolve(), Path(folder).resolve()
    if not whole.is_relative_to(top):
        return False
    inside = [*whole.relative_to(top).parents][:-1]
    skipped = any(_is_skipped_folder(each.name, str(top / each)) or each.name in _TEST_FOLDERS for each in inside)
    return not skipped and not _TEST_FILE.fullmatch(whole.name)


def _with_forward_slashes(path: str) -> str:
    return path.replace("\\", "/") if os.sep == "\\" else path


def _is_skipped_folder(name: str, path: str) -> bool:
    by_name = name.startswith(".") or name in SKIPPED or name.endswith((".egg-info", ".dist-info", ".libs"))
    return by_name or Path(path, "pyvenv.cfg").exists()


_Rule = tuple[Path, re.Pattern[str], bool, bool]  # the folder it is in, what it matches, only folders, not ignored


def _ignore_rules_above(folder: Path) -> list[_Rule]:
    """Return the rules of the folder and of those above it, up to that of the repository; none outside of one."""
    whole = folder.resolve()
    chain = [whole, *whole.parents]
    root = next((k for k, each in enumerate(chain) if (each / ".git").exists()), None)
    if root is None:
        return _ignore_rules(whole)
    return [rule for each in reversed(chain[: root + 1]) for rule in _ignore_rules(each)]


def _ignore_rules(folder: Path) -> list[_Rule]:
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
            found.append((folder.resolve(), re.compile(_pattern_of_rule(text)), only_folders, kept))
    return found


def _pattern_of_rule(text: str) -> str:
    """Return a rule as a regular expression for the path below the folder of the rule."""
    anchored, text = "/" in text, text.removeprefix("/")
    parts = text.split("/")
    made = "".join(_pattern_of_part(part, k == len(parts) - 1) for k, part in enumerate(parts))
    return made if anchored else f"(?:.*/)?{made}"


def _pattern_of_part(part: str, is_last: bool) -> str:
    if part == "**":
        return ".*" if is_last else "(?:.*/)?"
    one = fnmatch.translate(part).removesuffix("\\Z").removesuffix("\\z").removeprefix("(?s:").removesuffix(")")
    return one.replace(".*", "[^/]*") + ("" if is_last else "/")


def _is_ignored(path: str, is_folder: bool, rules: list[_Rule]) -> bool:
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


# Modules and packages by their names.

_FOLDERS = ("", "src", "lib")  # below the folder of a project, where its modules can be


def modules_of_project(folder: Path, name: str) -> Iterator[Path]:
    """Yield the files and folders that a dotted name can mean in a project, by its folder."""
    inside = name.split(".")
    for top in _FOLDERS if all(part.isidentifier() for part in inside) else ():
        package = folder.joinpath(top, *inside)
        module = package.with_suffix(".py")
        yield from (path for path, there in ((module, module.is_file()), (package, package.is_dir())) if there)


def paths_of_module(name: str) -> tuple[str, ...]:
    """Return the file or the folders of a module or package: one of the project in this folder, else an installed one.

    Nothing is imported. It is empty where there is none, or none that is written in Python.
    """
    for path in modules_of_project(Path(), name):
        return (path.as_posix(),)
    top, *inside = name.split(".")
    if not all(part.isidentifier() for part in (top, *inside)):
        return ()
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):  # such as of a module that was made without one
        return ()
    if spec is None:
        return ()
    if spec.submodule_search_locations is None:
        alone = spec.has_location and str(spec.origin).endswith(".py") and not inside
        return (_with_forward_slashes(str(spec.origin)),) if alone else ()
    found = (Path(location, *inside) for location in spec.submodule_search_locations)
    both = (path for each in found for path in ([each.with_suffix(".py"), each] if inside else [each]))
    return tuple(path.as_posix() for path in both if path.exists())


# What is found in a project, and what is declared for it, as plain data that the reading process can send.


@dataclass(frozen=True, slots=True)
class Declared:
    """A check that the project declares: its id, its target, the texts of its claims, and the folder they are relative to.

    A target is `file.py:name`, `package.module:name`, or an expression; a claim is a name, `file.py:name`, or an expression.
    """

    id: str
    target: str
    claims: tuple[str, ...]
    folder: Path


ParameterKind = Literal[
    "", "array", "integers", "definite", "number", "period", "integer", "flag", "text", "table", "function"
]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a function: its name, and its default as it is written, empty if it has none.

    `kind` is what the function says of it, empty where it says nothing: an array of real numbers or of integers, or one that is
    symmetric positive definite, one number, integer or flag, a period by which others are reduced, mostly one number, a text,
    a table by keys, or a function. `sizes` are those of an
    array, as names, integers or `n+1`; None where they are not known. `values` are those of a text, and the keys of a table.
    """

    name: str
    default: str = ""
    kind: ParameterKind = ""
    sizes: tuple[str, ...] | None = None
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HandGradient:
    """A hand-written gradient: where it is defined, what it is, of which function, and the checks that cover it.

    `parameters` are those of the function that it is a gradient of, and `reachable` says whether both can be named from
    outside: functions of a module, or methods of an object of the module, which `through` names. `only_run` says why
    no check can name it, so that it is checked while a program runs. `wrt` are the parameters that it is a derivative by,
    empty where that is all of them or not known.
    """

    name: str
    file: str
    line: int
    kind: DerivativeKind
    of: str | None
    found_by: FoundBy
    checked_by: tuple[str, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    reachable: bool = False
    through: str = ""
    point: bool = False
    only_run: str = ""
    wrt: str = ""


@dataclass(frozen=True, slots=True)
class Unread:
    """A file that cannot be read, and why."""

    file: str
    reason: str


@dataclass(frozen=True, slots=True)
class Findings:
    """The paths that were read, the hand-written gradients in them, by file and line, and the files that cannot be read."""

    paths: tuple[str, ...]
    gradients: tuple[HandGradient, ...]
    unreadable: tuple[Unread, ...]
