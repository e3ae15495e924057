"""All hand-written gradients of a project, each once, and the checks that cover them."""

import ast
from collections.abc import Iterable, Iterator

from gradcli.discovery.coverage import Covered, checks_of
from gradcli.discovery.custom import Custom, custom_gradients
from gradcli.discovery.found import Declared, Found, Parameter
from gradcli.discovery.pairs import Pair, pairs
from gradcli.discovery.project import Project
from gradcli.discovery.scipy_calls import passed_to_scipy
from gradcli.discovery.source import Class, Definition, Source
from gradcli.words import DerivativeKind, FoundBy

_MORE_EXACT: dict[DerivativeKind, DerivativeKind] = {"jac": "grad"}  # scipy's word for both


def gathered(project: Project, files: Iterable[str], declared: Iterable[Declared]) -> tuple[Found, ...]:
    """Return the gradients that the files define, by file and line."""
    listed = [*files]
    customs = [(file, custom) for file in listed for custom in custom_gradients(project, project.sources[file])]
    inner = {id(d.node) for _, custom in customs for d in custom.inner}
    found: dict[int, tuple[Pair, FoundBy]] = {}
    for file in listed:
        for pair in passed_to_scipy(project, project.sources[file]):
            _merge(found, pair, "scipy")
    for file in listed:
        for pair in pairs(project, project.sources[file]):
            _merge(found, pair, "name")
    covered = checks_of(project, declared)
    wanted = set(listed)
    made = [_of_custom(project, file, custom, covered) for file, custom in customs]
    objects = {file: _objects(project, project.sources[file]) for file in wanted}
    made += [
        _of_pair(project.sources[pair.gradient.file], pair, by, covered, objects[pair.gradient.file])
        for pair, by in found.values()
        if pair.gradient.file in wanted and id(pair.gradient.node) not in inner
    ]
    return tuple(sorted(_once(made), key=lambda gradient: (gradient.file, gradient.line, gradient.name)))


def _once(made: Iterable[Found]) -> Iterator[Found]:
    seen: set[tuple[str, int, str]] = set()
    for each in made:
        place = (each.file, each.line, each.name)
        if place not in seen:
            seen.add(place)
            yield each


def _merge(found: dict[int, tuple[Pair, FoundBy]], pair: Pair, by: FoundBy) -> None:
    """Keep a gradient once: found by scipy before found by name, with the function that either knows."""
    place = id(pair.gradient.node)
    if place not in found:
        found[place] = (pair, by)
        return
    kept, first = found[place]
    kind = _MORE_EXACT.get(kept.kind, kept.kind) if pair.kind == "grad" else kept.kind
    known = kept.of if kept.of is not None and not isinstance(kept.of.node, ast.Lambda) else pair.of or kept.of
    found[place] = (Pair(kept.gradient, kind, known), first)


def _of_custom(project: Project, file: str, custom: Custom, covered: Covered) -> Found:
    ids = covered.of_custom(project.sources[file], custom)
    return Found(custom.name, file, custom.line, custom.kind, custom.of, custom.framework, ids)


def _of_pair(source: Source, pair: Pair, by: FoundBy, covered: Covered, objects: dict[Class, str]) -> Found:
    gradient, of = pair.gradient, pair.of
    function = of or (gradient if pair.kind == "value-and-grad" else None)
    parameters = () if function is None else parameters_with_defaults(function)
    owner = source.classes.get(gradient.owner or "")
    through = "" if owner is None else objects.get(owner, "")
    free = gradient.scope == "" and (of is None or of.scope == "") and not isinstance(gradient.node, ast.Lambda)
    same = function is not None and function.file == gradient.file
    point = "point" in source.bound.get("", {}) or "point" in source.functions.get("", {})
    return Found(
        gradient.name, gradient.file, gradient.line, pair.kind, None if of is None else of.name, by,
        covered.of_definition(gradient), parameters, same and (free or bool(through)), through, point,
    )  # fmt: skip


def parameters_with_defaults(definition: Definition) -> tuple[Parameter, ...]:
    """Return the positional parameters of a function, each with its default as it is written."""
    defaults = definition.node.args.defaults
    plain = len(definition.parameters) - len(defaults)
    return tuple(
        Parameter(p.arg, ast.unparse(defaults[k - plain]) if k >= plain else "")
        for k, p in enumerate(definition.parameters)
    )


def _objects(project: Project, source: Source) -> dict[Class, str]:
    """Return the objects that a module holds, by their classes and the base classes of these."""
    found: dict[Class, str] = {}
    for name, values in source.bound.get("", {}).items():
        for value in values:
            owner = project.class_of_instance(source, "", value) if isinstance(value, ast.Call) else None
            for each in () if owner is None or owner in found else project.lineage(owner):
                found.setdefault(each, name)
    return found
