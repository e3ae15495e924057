"""One Python file as it is written: its functions, classes, imports, names bound by assignment, and calls of interest."""

import ast
from collections.abc import Iterator
from dataclasses import field

from gradcli.classes import dataclass
from gradcli.words import DerivativeKind

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_BOUND = (ast.Name, ast.Attribute, ast.Call, ast.Lambda, ast.Dict, ast.IfExp)
DERIVATIVE_ARGUMENTS: dict[str, DerivativeKind] = {  # of functions of scipy, by name
    "jac": "jac", "fprime": "grad", "fprime2": "hess", "grad": "grad", "hess": "hess", "hessp": "hvp", "Dfun": "jac",
    "fun_jac": "jac", "bc_jac": "jac", "fhess": "hess", "fhess_p": "hvp", "fprime_eqcons": "jac", "fprime_ieqcons": "jac",
    "myfprime": "grad",
}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class SourceFunction:
    """A function or lambda: its qualified name, its line, the scope it stands in, and its tree."""

    file: str
    name: str
    line: int
    scope: str
    node: Function
    owner: str | None = None

    @property
    def last(self) -> str:
        """The name without the scopes around it."""
        return self.name.rpartition(".")[2]

    @property
    def decorators(self) -> tuple[ast.expr, ...]:
        """The expressions of the decorators."""
        return () if isinstance(self.node, ast.Lambda) else tuple(self.node.decorator_list)

    @property
    def parameters(self) -> tuple[ast.arg, ...]:
        """The positional parameters, without the object or class of a method."""
        found = (*self.node.args.posonlyargs, *self.node.args.args)
        return found[1:] if self.owner is not None and not self.marked("staticmethod") else found

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all parameters that can be given by name, without the object or class of a method."""
        return tuple(a.arg for a in (*self.parameters, *self.node.args.kwonlyargs))

    @property
    def required(self) -> tuple[str, ...]:
        """The names of the positional parameters without a default."""
        count = len(self.parameters) - len(self.node.args.defaults)
        return tuple(a.arg for a in self.parameters[: max(0, count)])

    def marked(self, *names: str) -> bool:
        """Whether a decorator has one of these last names."""
        return any(last_name(d) in names for d in self.decorators)


@dataclass(frozen=True, slots=True, eq=False)
class Class:
    """A class: its qualified name, the scope it stands in, and the expressions of its bases."""

    file: str
    name: str
    line: int
    scope: str
    bases: tuple[ast.expr, ...]


@dataclass(frozen=True, slots=True)
class Import:
    """Where an imported name comes from: the module, the name in it (None: the module itself), and the leading dots."""

    module: str
    name: str | None
    level: int

    def full_name(self, rest: str = "") -> str:
        """Return the full name of what is imported, or of what has the name `rest` in it."""
        return ".".join(filter(None, ("." * self.level + self.module, self.name, rest)))


@dataclass(slots=True)
class FileScopes:
    """What one file holds, by scope: the qualified name of a function or class, empty for the module."""

    file: str
    functions: dict[str, dict[str, list[SourceFunction]]] = field(default_factory=dict)
    classes: dict[str, Class] = field(default_factory=dict)
    imports: dict[str, Import] = field(default_factory=dict)
    stars: list[Import] = field(default_factory=list)
    bound: dict[str, dict[str, list[ast.expr]]] = field(default_factory=dict)
    calls: list[tuple[str, ast.Call]] = field(default_factory=list)
    dicts: list[tuple[str, ast.Dict]] = field(default_factory=list)
    parameters: dict[str, frozenset[str]] = field(default_factory=dict)
    imported: frozenset[str] = frozenset()  # the outermost modules

    def definitions(self) -> Iterator[SourceFunction]:
        """Yield the functions of all scopes."""
        for scope in self.functions.values():
            for several in scope.values():
                yield from several


def last_name(expression: ast.expr) -> str:
    """Return the last name of a name, an attribute or a call of one; empty for any other expression."""
    while isinstance(expression, ast.Call):
        expression = expression.func
    if isinstance(expression, ast.Attribute):
        return expression.attr
    return expression.id if isinstance(expression, ast.Name) else ""


def dotted_name(expression: ast.expr) -> str | None:
    """Return `a.b.c` for an attribute of an attribute of a name, None for any other expression."""
    found = []
    while isinstance(expression, ast.Attribute):
        found.append(expression.attr)
        expression = expression.value
    if not isinstance(expression, ast.Name):
        return None
    return ".".join((expression.id, *reversed(found)))


def own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a scope, without those of the scopes inside; these scopes themselves are among them."""
    body = node.body if isinstance(node, ast.Lambda) else None
    waiting: list[ast.AST] = [body] if body is not None else [*reversed(getattr(node, "body", []))]
    while waiting:
        found = waiting.pop()
        yield found
        if not isinstance(found, _SCOPES):
            waiting += _child_nodes(found)


def _child_nodes(node: ast.AST) -> list[ast.AST]:
    """Return the nodes right below a node, the last first, without the marks of loading and storing."""
    found: list[ast.AST] = []
    for name in node._fields:
        value = getattr(node, name, None)
        if isinstance(value, list):
            found += [each for each in value if isinstance(each, ast.AST)]
        elif isinstance(value, ast.AST) and not isinstance(value, ast.expr_context | ast.operator):
            found.append(value)
    found.reverse()
    return found


def names_of_parameters(node: Function) -> frozenset[str]:
    """Return the names of all parameters of a function, with those of `*args` and `**options`."""
    args = node.args
    rest = [a for a in (args.vararg, args.kwarg) if a is not None]
    return frozenset(a.arg for a in (*args.posonlyargs, *args.args, *args.kwonlyargs, *rest))


def collect_scopes(tree: ast.Module, file: str) -> FileScopes:
    """Return what a parsed file holds."""
    source = FileScopes(file)
    waiting: list[tuple[ast.AST, str, bool]] = [(tree, "", False)]
    while waiting:
        node, scope, in_class = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            source.parameters[scope] = names_of_parameters(node)
        for found in own_nodes(node):
            if isinstance(found, _SCOPES):
                waiting.append(_enter_scope(source, found, scope, in_class))
            else:
                _note_node(source, found, scope)
    names = {i.module.partition(".")[0] for i in (*source.imports.values(), *source.stars) if not i.level}
    source.imported = frozenset(names)
    return source


def _enter_scope(source: FileScopes, node: ast.AST, scope: str, in_class: bool) -> tuple[ast.AST, str, bool]:
    if isinstance(node, ast.ClassDef):
        name = _qualified_name(scope, node.name)
        source.classes[name] = Class(source.file, name, node.lineno, scope, tuple(node.bases))
        return node, name, True
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    if isinstance(node, ast.Lambda):
        name = _qualified_name(scope, f"<lambda {node.lineno}:{node.col_offset}>")
        return node, name, False
    name = _qualified_name(scope, node.name)
    definition = SourceFunction(source.file, name, node.lineno, scope, node, scope if in_class else None)
    source.functions.setdefault(scope, {}).setdefault(node.name, []).append(definition)
    for decorator in node.decorator_list:
        for inner in ast.walk(decorator):
            _note_node(source, inner, scope)
    return node, name, False


def _qualified_name(scope: str, name: str) -> str:
    return f"{scope}.{name}" if scope else name


def _note_node(source: FileScopes, node: ast.AST, scope: str) -> None:
    """Keep an import, an assignment to a name, a call or a dictionary that may be of interest."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            head = alias.name if alias.asname else alias.name.partition(".")[0]
            source.imports[alias.asname or head] = Import(head, None, 0)
    elif isinstance(node, ast.ImportFrom):
        for alias in node.names:
            if alias.name == "*":
                source.stars.append(Import(node.module or "", None, node.level))
            else:
                source.imports[alias.asname or alias.name] = Import(node.module or "", alias.name, node.level)
    elif isinstance(node, ast.Assign) and isinstance(node.value, _BOUND):
        for target in node.targets:
            if isinstance(target, ast.Name):
                source.bound.setdefault(scope, {}).setdefault(target.id, []).append(node.value)
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and isinstance(node.value, _BOUND):
        source.bound.setdefault(scope, {}).setdefault(node.target.id, []).append(node.value)
    elif isinstance(node, ast.Call):
        source.calls.append((scope, node))
    elif isinstance(node, ast.Dict):
        keys = {key.value for key in node.keys if isinstance(key, ast.Constant) and isinstance(key.value, str)}
        if not keys.isdisjoint(DERIVATIVE_ARGUMENTS):
            source.dicts.append((scope, node))
