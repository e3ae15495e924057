"""Which declared checks cover which gradients: a claim is read as the definition that it names."""

import ast
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from gradcli.project.discovery.custom import Custom
from gradcli.project.discovery.found import Declared
from gradcli.project.discovery.project import Project
from gradcli.project.discovery.source import Class, Definition, Source

_OWN = ("backward", "bprop", "backward_pass", "compute_partials")  # what a check of a class or of its object checks
_FOLDERS = ("", "src", "lib")  # below the folder of the suite, where its modules can be


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a check: the file and the name of what it means, and the names that this mentions."""

    id: str
    file: str
    name: str
    mentions: frozenset[str]


@dataclass(frozen=True, slots=True)
class Covered:
    """The ids of the checks of each definition, and the targets of the checks with what they mention."""

    claims: dict[int, list[str]]
    targets: tuple["Target", ...]

    def of_definition(self, definition: Definition) -> tuple[str, ...]:
        """Return the checks whose claim, or target with its own gradient, is this function."""
        return tuple(dict.fromkeys(self.claims.get(id(definition.node), ())))

    def of_custom(self, source: Source, custom: Custom) -> tuple[str, ...]:
        """Return the checks whose target is the custom function, or a function of the same file that mentions it."""
        last = custom.function.name.rpartition(".")[2]
        wanted = {last} if custom.of is None else {last, custom.of.rpartition(".")[2]}
        ids = []
        for target in self.targets:
            same = target.file == custom.function.file and target.name == custom.function.name
            if same or (target.file == source.file and not wanted.isdisjoint(target.mentions)):
                ids.append(target.id)
        return tuple(dict.fromkeys([*ids, *(i for d in custom.inner for i in self.of_definition(d))]))


def files_of(declared: Iterable[Declared], near: Iterable[str]) -> tuple[str, ...]:
    """Return the files that targets and claims name and that are there, spelled as those that are read anyway."""
    known = {str(Path(file).resolve()): file for file in near}
    found: dict[str, None] = {}
    for check in declared:
        for text in (check.target, *check.claims):
            path = _file(check.folder, text)
            if path is not None:
                found[known.get(str(path.resolve()), _from_here(path))] = None
    return tuple(found)


def _from_here(path: Path) -> str:
    """Return a path as files below the current folder are named."""
    whole, here = path.resolve(), Path.cwd()
    return whole.relative_to(here).as_posix() if whole.is_relative_to(here) else whole.as_posix()


def _split(text: str) -> tuple[str, str]:
    """Return the file or module of a target and the name in it; both are empty for an expression."""
    before, colon, after = text.rpartition(":")
    good = colon and all(part.isidentifier() for part in after.split("."))
    return (before, after) if good else ("", "")


def _file(folder: Path, text: str) -> Path | None:
    before, _ = _split(text)
    if before.endswith(".py"):
        path = folder / before
        return path if path.is_file() else None
    if not before or not all(part.isidentifier() for part in before.split(".")):
        return None
    inside = Path(*before.split("."))
    for top in _FOLDERS:
        for path in (folder / top / inside.with_suffix(".py"), folder / top / inside / "__init__.py"):
            if path.is_file():
                return path
    return None


def checks_of(project: Project, declared: Iterable[Declared]) -> Covered:
    """Return which definitions the checks cover."""
    places = {str(Path(file).resolve()): source for file, source in project.sources.items()}
    claims: dict[int, list[str]] = {}
    targets = []
    for check in declared:
        source = _source(project, places, check.folder, check.target)
        target = None if source is None else _meant(project, source, _split(check.target)[1])
        if isinstance(target, Definition | Class):
            targets.append(Target(check.id, target.file, target.name, _mentioned(target)))
        elif target is not None and source is not None:
            targets.append(Target(check.id, source.file, "", target))
        if isinstance(target, Definition) and not check.claims:
            claims.setdefault(id(target.node), []).append(check.id)
        if not check.claims and source is not None:
            for method in _own_gradients(project, source, target):
                claims.setdefault(id(method.node), []).append(check.id)
        for claim in check.claims:
            there = _source(project, places, check.folder, claim) or source
            name = _split(claim)[1] or claim
            meant = None if there is None else _meant(project, there, name)
            if isinstance(meant, Definition):
                claims.setdefault(id(meant.node), []).append(check.id)
    return Covered(claims, tuple(targets))


def _own_gradients(project: Project, source: Source, target: object) -> list[Definition]:
    """Return the gradients of a class with its function, which is the target, or of which an object of the file is made."""
    owners = [target] if isinstance(target, Class) else []
    if isinstance(target, frozenset):
        found = (project.class_of(source, ast.Name(name, ast.Load())) for name in sorted(target))
        owners = [owner for owner in found if owner is not None]
    methods = [project.methods(owner) for owner in owners]
    return [held[name] for held in methods for name in _OWN if name in held]


def _source(project: Project, places: dict[str, Source], folder: Path, text: str) -> Source | None:
    path = _file(folder, text)
    if path is not None:
        return places.get(str(path.resolve()))
    before, _ = _split(text)
    ends = project.ends.get(before, []) if before and not before.endswith(".py") else []
    return project.sources[ends[0]] if len(ends) == 1 else None


def _meant(project: Project, source: Source, name: str) -> "Definition | Class | frozenset[str] | None":
    """Return the function or class of a file that a dotted name means, or the names in the expression it is bound to."""
    if not name or not all(part.isidentifier() for part in name.split(".")):
        return None
    expression = ast.parse(name, mode="eval").body
    owner = project.class_of(source, expression)
    if owner is not None:
        return owner
    found = project.function(source, "", expression)
    if not isinstance(found, str) and found:
        return found[-1]
    nested = next((d for d in source.definitions() if d.name == name), None)
    if nested is not None:
        return nested
    values = source.bound.get("", {}).get(name.partition(".")[0], [])
    return frozenset(n.id for v in values for n in ast.walk(v) if isinstance(n, ast.Name)) if values else None


def _mentioned(target: Definition | Class) -> frozenset[str]:
    if isinstance(target, Class):
        return frozenset()
    return frozenset(n.id for n in ast.walk(target.node) if isinstance(n, ast.Name))
