"""Gradients that are registered with a framework: torch, JAX, TensorFlow and MLX."""

import ast
import itertools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from gradcli.classes import dataclass
from gradcli.project.discovery import bodies
from gradcli.project.discovery.project import Declared, Project, modules_of_project
from gradcli.project.discovery.source import Class, FileScopes, SourceFunction, dotted_name, last_name
from gradcli.request.target_text import backward_names
from gradcli.words import DerivativeKind, FoundBy

_OWN = ("backward", "bprop", "backward_pass", "compute_partials")  # what a check of a class or of its object checks


@dataclass(frozen=True, slots=True)
class CheckTarget:
    """The target of a check: the file and the name of what it means, and the names that this mentions."""

    id: str
    file: str
    name: str
    mentions: frozenset[str]


_DEFINING: dict[str, DerivativeKind] = {  # the methods that give a custom function its rule
    "defvjp": "vjp", "def_fwd": "vjp", "def_bwd": "vjp", "defjvp": "jvp", "defjvps": "jvp", "def_jvp": "jvp",
}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Custom:
    """A custom gradient: the class or function that has it, its name, its line, its kind and its framework.

    `inner` are the definitions that belong to it, and are no gradients of their own.
    """

    name: str
    line: int
    kind: DerivativeKind
    of: str | None
    framework: FoundBy
    function: SourceFunction | Class
    inner: tuple[SourceFunction, ...] = ()


def custom_gradients(project: Project, source: FileScopes) -> Iterator[Custom]:
    """Yield the custom gradients of a file."""
    for found in source.classes.values():
        if is_torch_function(project, found):
            methods = project.methods(found)
            if "backward" in methods and bodies.has_own_body(methods["backward"]):
                own = tuple(d for several in source.functions.get(found.name, {}).values() for d in several)
                yield Custom(found.name, found.line, "backward", None, "torch", found, own)
    yield from _torch_registrations(project, source)
    yield from _jax_gradients(project, source)
    for definition in source.definitions():
        yield from _gradients_of_decorators(project, source, definition)


def is_torch_function(project: Project, found: Class) -> bool:
    """Whether a class is a `torch.autograd.Function`, itself or by a base class of the project."""
    bases = ((project.sources[each.file], base) for each in project.lineage(found) for base in each.bases)
    names = (project.origin(source, base) for source, base in bases)
    return any(name.startswith("torch.") and name.endswith("Function") for name in names)


def _torch_registrations(project: Project, source: FileScopes) -> Iterator[Custom]:
    """Yield what `torch.library.register_autograd(op, backward)` and `op.register_autograd(backward)` are given."""
    if "torch" not in source.imported:
        return
    for scope, call in source.calls:
        if last_name(call.func) != "register_autograd":
            continue
        free = project.origin(source, call.func).startswith("torch.")
        given = {k.arg: k.value for k in call.keywords}
        place = 1 if free else 0
        value = given.get("backward") or (call.args[place] if len(call.args) > place else None)
        named = call.func.value if isinstance(call.func, ast.Attribute) else None
        of = _text_or_name(call.args[0] if free and call.args else named)
        for found in project.functions(source, scope, value):
            yield Custom(found.name, found.line, "backward", of, "torch", found, (found,))


def _text_or_name(value: ast.expr | None) -> str | None:
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        return value.value
    return None if value is None else dotted_name(value)


def _is_framework_decorator(
    project: Project, source: FileScopes, value: ast.expr, framework: str, names: tuple[str, ...]
) -> bool:
    """Whether an expression is a framework's decorator: by itself, called with options, or inside `partial`."""
    if isinstance(value, ast.Call):
        inner = value.args[0] if last_name(value.func) == "partial" and value.args else value.func
        return _is_framework_decorator(project, source, inner, framework, names)
    whole = project.origin(source, value)
    return whole.partition(".")[0] == framework and whole.rpartition(".")[2] in names


_Rules = dict[
    str, tuple[DerivativeKind, int, tuple[SourceFunction, ...]]
]  # the kind, the line, and the functions of a rule


def _jax_gradients(project: Project, source: FileScopes) -> Iterator[Custom]:
    """Yield one gradient for each rule: what `f.defvjp(fwd, bwd)`, `f.defjvp(rule)` or `@f.defjvp` has, by its function."""
    if not {"jax", "flax", "equinox"} & source.imported:
        return
    names = ("custom_vjp", "custom_jvp", "filter_custom_vjp", "filter_custom_jvp")
    rules = _jax_rules(project, source)
    for function in source.definitions():
        both = itertools.product(function.decorators, ("jax", "equinox"))
        if any(_is_framework_decorator(project, source, decorator, lib, names) for decorator, lib in both):
            yield _gradient_of_rule(function, function.name, rules)
    for scope, bound in source.bound.items():
        for name, value in ((name, value) for name, values in bound.items() for value in values):
            if not isinstance(value, ast.Call) or not value.args:
                continue
            if _is_framework_decorator(project, source, value.func, "jax", names):
                for function in project.functions(source, scope, value.args[0]):
                    yield _gradient_of_rule(function, f"{scope}.{name}" if scope else name, rules)


def _jax_rules(project: Project, source: FileScopes) -> _Rules:
    """Return the rules of custom functions by the names that these have where they get them."""
    found: _Rules = {}
    for rule in source.definitions():
        for decorator in rule.decorators:
            if isinstance(decorator, ast.Attribute) and decorator.attr in _DEFINING:
                found[dotted_name(decorator.value) or ""] = (_DEFINING[decorator.attr], rule.line, (rule,))
    for scope, call in source.calls:
        if isinstance(call.func, ast.Attribute) and call.func.attr in _DEFINING:
            given = (*call.args, *(k.value for k in call.keywords))
            functions = tuple(f for value in given for f in project.functions(source, scope, value))
            found[dotted_name(call.func.value) or ""] = (_DEFINING[call.func.attr], call.lineno, functions)
    return found


def _gradient_of_rule(function: SourceFunction, name: str, rules: _Rules) -> Custom:
    """Return the gradient of a custom function under the name of its rule, or under its own where that has none."""
    if name.rpartition(".")[2] not in rules:
        is_jvp = any("jvp" in ast.unparse(decorator) for decorator in function.decorators)
        return Custom(name, function.line, "jvp" if is_jvp else "vjp", name, "jax", function)
    kind, line, inner = rules[name.rpartition(".")[2]]
    if not inner or isinstance(inner[-1].node, ast.Lambda):
        return Custom(name, line, kind, name, "jax", function, inner)
    return Custom(inner[-1].name, inner[-1].line, kind, name, "jax", function, inner)


def _gradients_of_decorators(project: Project, source: FileScopes, definition: SourceFunction) -> Iterator[Custom]:
    """Yield the gradient of a function with a decorator of TensorFlow or MLX."""
    for decorator in definition.decorators:
        if _is_framework_decorator(project, source, decorator, "tensorflow", ("custom_gradient", "RegisterGradient")):
            inner = _returned_inner_function(source, definition)
            shown, named = inner or definition, decorator.args if isinstance(decorator, ast.Call) else []
            of = (
                definition.name
                if last_name(decorator) != "RegisterGradient"
                else _text_or_name(next(iter(named), None))
            )
            kept = (definition,) if inner is None else (definition, inner)
            yield Custom(shown.name, shown.line, "vjp", of, "tensorflow", definition, kept)
        if isinstance(decorator, ast.Attribute) and decorator.attr in ("vjp", "jvp"):
            kind: DerivativeKind = "vjp" if decorator.attr == "vjp" else "jvp"
            for function in project.functions(source, definition.scope, decorator.value):
                mlx = (
                    _is_framework_decorator(project, source, d, "mlx", ("custom_function",))
                    for d in function.decorators
                )
                if any(mlx):
                    yield Custom(definition.name, definition.line, kind, function.name, "mlx", function, (definition,))


def _returned_inner_function(source: FileScopes, definition: SourceFunction) -> SourceFunction | None:
    """Return the function inside that is returned beside the value."""
    inside = source.functions.get(definition.name, {})
    for value in bodies.returned_expressions(definition):
        if isinstance(value, ast.Tuple) and len(value.elts) == 2 and last_name(value.elts[1]) in inside:
            return inside[last_name(value.elts[1])][-1]
    return None


# Which declared checks cover which gradients: a claim is read as the definition that it names.


class Coverage:
    """The checks that cover each definition."""

    def __init__(self, project: Project, declared: Iterable[Declared]) -> None:
        self._project = project
        self._places = {str(Path(file).resolve()): source for file, source in project.sources.items()}
        self._claims: dict[int, list[str]] = {}
        self._targets: list[CheckTarget] = []
        for check in declared:
            self._add_check(check)

    def of_definition(self, definition: SourceFunction) -> tuple[str, ...]:
        """Return the checks whose claim, or target with its own gradient, is this function."""
        return tuple(dict.fromkeys(self._claims.get(id(definition.node), ())))

    def of_custom(self, source: FileScopes, custom: Custom) -> tuple[str, ...]:
        """Return the checks whose target is the custom function, or a function of the same file that mentions it."""
        last = custom.function.name.rpartition(".")[2]
        wanted = {last} if custom.of is None else {last, custom.of.rpartition(".")[2]}
        ids = []
        for target in self._targets:
            same = target.file == custom.function.file and target.name == custom.function.name
            if same or (target.file == source.file and not wanted.isdisjoint(target.mentions)):
                ids.append(target.id)
        return tuple(dict.fromkeys([*ids, *(i for d in custom.inner for i in self.of_definition(d))]))

    def _add_check(self, check: Declared) -> None:
        source, inside = self._source_of_target(check.folder, check.target), _split_target(check.target)[1]
        target = None if source is None else self._resolve_target(source, inside)
        covered: list[object] = []
        if isinstance(target, SourceFunction | Class):
            nodes = ast.walk(target.node) if isinstance(target, SourceFunction) else ()
            mentions = frozenset(n.id for n in nodes if isinstance(n, ast.Name))
            self._targets.append(CheckTarget(check.id, target.file, target.name, mentions))
        elif target is not None and source is not None:
            self._targets.append(CheckTarget(check.id, source.file, "", target))
        if not check.claims and source is not None:
            if isinstance(target, SourceFunction):
                beside = source.functions.get(target.scope, {})
                covered += [target, *(beside[name][-1] for name in backward_names(target.last) if name in beside)]
            covered += self._own_gradients(source, target)
        methods = self._sibling_methods(source, inside)
        for claim in check.claims:
            there = self._source_of_target(check.folder, claim) or source
            name = _split_target(claim)[1] or claim
            covered.append(methods.get(claim) or (None if there is None else self._resolve_target(there, name)))
        for found in covered:
            if isinstance(found, SourceFunction):
                self._claims.setdefault(id(found.node), []).append(check.id)

    def _sibling_methods(self, source: FileScopes | None, target: str) -> dict[str, SourceFunction]:
        """Return the methods of the class whose method, or whose object's method, is the target, by their names."""
        before, project = target.rpartition(".")[0], self._project
        if source is None or not before:
            return {}
        expression = ast.parse(before, mode="eval").body
        owner = project.class_of(source, expression) or project.class_of_instance(source, "", expression)
        return {} if owner is None else project.methods(owner)

    def _own_gradients(self, source: FileScopes, target: object) -> list[SourceFunction]:
        """Return the gradients of a class with its function: of the target, or of which an object of the file is made."""
        owners = [target] if isinstance(target, Class) else []
        if isinstance(target, frozenset):
            found = (self._project.class_of(source, ast.Name(name, ast.Load())) for name in sorted(target))
            owners = [owner for owner in found if owner is not None]
        methods = [self._project.methods(owner) for owner in owners]
        return [held[name] for held in methods for name in _OWN if name in held]

    def _source_of_target(self, folder: Path, text: str) -> FileScopes | None:
        path = _file_of_target(folder, text)
        if path is not None:
            return self._places.get(str(path.resolve()))
        before, _ = _split_target(text)
        ends = self._project.ends.get(before, []) if before and not before.endswith(".py") else []
        return self._project.sources[ends[0]] if len(ends) == 1 else None

    def _resolve_target(self, source: FileScopes, name: str) -> SourceFunction | Class | frozenset[str] | None:
        """Return the function or class of a file that a dotted name means, or the names in the expression it is bound to."""
        if not name or not all(part.isidentifier() for part in name.split(".")):
            return None
        expression = ast.parse(name, mode="eval").body
        owner = self._project.class_of(source, expression)
        if owner is not None:
            return owner
        nested = (definition for definition in source.definitions() if definition.name == name)
        found = next(iter([*self._project.functions(source, "", expression)[-1:], *nested]), None)
        if found is not None:
            return found
        values = source.bound.get("", {}).get(name.partition(".")[0], [])
        return frozenset(n.id for v in values for n in ast.walk(v) if isinstance(n, ast.Name)) if values else None


def files_of_checks(declared: Iterable[Declared], near: Iterable[str]) -> tuple[str, ...]:
    """Return the files that targets and claims name and that are there, spelled as those that are read anyway."""
    known = {str(Path(file).resolve()): file for file in near}
    found: dict[str, None] = {}
    for check in declared:
        for text in (check.target, *check.claims):
            path = _file_of_target(check.folder, text)
            if path is not None:
                found[known.get(str(path.resolve()), _path_from_here(path))] = None
    return tuple(found)


def _path_from_here(path: Path) -> str:
    """Return a path as files below the current folder are named."""
    whole, here = path.resolve(), Path.cwd()
    return whole.relative_to(here).as_posix() if whole.is_relative_to(here) else whole.as_posix()


def _split_target(text: str) -> tuple[str, str]:
    """Return the file or module of a target and the name in it; both are empty for an expression."""
    before, colon, after = re.sub(r"\(.*\)", "", text, flags=re.DOTALL).rpartition(":")
    good = colon and all(part.isidentifier() for part in after.split("."))
    return (before, after) if good else ("", "")


def _file_of_target(folder: Path, text: str) -> Path | None:
    before, _ = _split_target(text)
    if before.endswith(".py"):
        path = folder / before
        return path if path.is_file() else None
    found = (path / "__init__.py" if path.is_dir() else path for path in modules_of_project(folder, before))
    return next((path for path in found if path.is_file()), None)
