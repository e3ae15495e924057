"""All hand-written gradients of a project, each once, and the checks that cover them."""

import ast
import contextlib
import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from gradcli.classes import dataclass
from gradcli.project.discovery import bodies
from gradcli.project.discovery.bodies import Class, FileScopes, NameReading, SourceFunction
from gradcli.project.discovery.parameters import describe_parameters
from gradcli.project.discovery.project import (
    Declared,
    HandGradient,
    Parameter,
    ParameterKind,
    Project,
    modules_of_project,
)
from gradcli.request.target_text import backward_names
from gradcli.words import DerivativeKind, FoundBy

# Gradients that are registered with a framework: torch, JAX, TensorFlow and MLX.

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
        if bodies.last_name(call.func) != "register_autograd":
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
    return None if value is None else bodies.dotted_name(value)


def _is_framework_decorator(
    project: Project, source: FileScopes, value: ast.expr, framework: str, names: tuple[str, ...]
) -> bool:
    """Whether an expression is a framework's decorator: by itself, called with options, or inside `partial`."""
    if isinstance(value, ast.Call):
        inner = value.args[0] if bodies.last_name(value.func) == "partial" and value.args else value.func
        return _is_framework_decorator(project, source, inner, framework, names)
    whole = project.origin(source, value)
    return whole.partition(".")[0] == framework and whole.rpartition(".")[2] in names


# By the name of a function: the kind, the line, and the functions of its rule.
_Rules = dict[str, tuple[DerivativeKind, int, tuple[SourceFunction, ...]]]


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
                found[bodies.dotted_name(decorator.value) or ""] = (_DEFINING[decorator.attr], rule.line, (rule,))
    for scope, call in source.calls:
        if isinstance(call.func, ast.Attribute) and call.func.attr in _DEFINING:
            given = (*call.args, *(k.value for k in call.keywords))
            functions = tuple(f for value in given for f in project.functions(source, scope, value))
            found[bodies.dotted_name(call.func.value) or ""] = (_DEFINING[call.func.attr], call.lineno, functions)
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
            shown = inner or definition
            of: str | None = definition.name
            if bodies.last_name(decorator) == "RegisterGradient":
                named = decorator.args if isinstance(decorator, ast.Call) else []
                of = _text_or_name(next(iter(named), None))
            kept = (definition,) if inner is None else (definition, inner)
            yield Custom(shown.name, shown.line, "vjp", of, "tensorflow", definition, kept)
        if isinstance(decorator, ast.Attribute) and decorator.attr in ("vjp", "jvp"):
            kind: DerivativeKind = "vjp" if decorator.attr == "vjp" else "jvp"
            for function in project.functions(source, definition.scope, decorator.value):
                own = function.decorators
                if any(_is_framework_decorator(project, source, d, "mlx", ("custom_function",)) for d in own):
                    yield Custom(definition.name, definition.line, kind, function.name, "mlx", function, (definition,))


def _returned_inner_function(source: FileScopes, definition: SourceFunction) -> SourceFunction | None:
    """Return the function inside that is returned beside the value."""
    inside = source.functions.get(definition.name, {})
    for value in bodies.returned_expressions(definition):
        if isinstance(value, ast.Tuple) and len(value.elts) == 2 and bodies.last_name(value.elts[1]) in inside:
            return inside[bodies.last_name(value.elts[1])][-1]
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


# All hand-written gradients of a project, each once.

_MORE_EXACT: dict[DerivativeKind, DerivativeKind] = {"jac": "grad"}  # scipy's word for both


PLACES = {  # the functions of scipy that take a derivative without its name: after how many arguments, and as what
    "minimize": {4: "jac", 5: "hess", 6: "hessp"}, "least_squares": {2: "jac"}, "leastsq": {3: "Dfun"},
    "fmin_bfgs": {2: "fprime"}, "fmin_cg": {2: "fprime"}, "fmin_ncg": {2: "fprime", 3: "fhess_p", 4: "fhess"},
    "fmin_l_bfgs_b": {2: "fprime"}, "fmin_tnc": {2: "fprime"}, "newton": {2: "fprime"},
    "fmin_slsqp": {3: "f_eqcons", 5: "f_ieqcons", 7: "fprime", 8: "fprime_eqcons", 9: "fprime_ieqcons"},
    "solve_bvp": {1: "bc", 6: "fun_jac", 7: "bc_jac"},
    "fsolve": {3: "fprime"}, "root": {4: "jac"}, "odeint": {4: "Dfun"}, "ode": {1: "jac"}, "check_grad": {1: "grad"},
    "line_search": {1: "myfprime"}, "NonlinearConstraint": {3: "jac", 4: "hess"},
}  # fmt: skip
_FUNCTIONS = ("fun", "func", "f")
_OF_OTHERS = {  # derivatives of another argument than the first
    "bc_jac": "bc", "fprime_eqcons": "f_eqcons", "fprime_ieqcons": "f_ieqcons",
}  # fmt: skip
STATES = dict.fromkeys(("solve_ivp", "ode", "BDF", "Radau", "LSODA"), 1)  # whose functions take t, y
_OF_SCALARS = frozenset({
    "minimize", "basinhopping", "dual_annealing", "shgo", "fmin_bfgs", "fmin_cg", "minimize_scalar",
})  # fmt: skip
_UP_TO_APPROX = 5  # arguments of these, with approx_grad
_GIVES_BOTH = frozenset({"fmin_l_bfgs_b", "fmin_tnc"})  # without fprime, unless approx_grad


# Gradients that are found by their names: pairs in one module, scope or class, and functions that return both.

BOTH: DerivativeKind = "value-and-grad"
_CERTAIN = frozenset({"grad", "jac", "hess", "hvp", "jvp", "vjp"})
_MOST = 100  # functions of one scope that a gradient is compared with: generated files take no longer than others
_SHORT = 2  # letters of a function such as f, for whose derivative df a call is enough
_PRODUCTS = frozenset({"hvp", "jvp", "vjp"})


@dataclass(frozen=True, slots=True, eq=False)
class GradientMatch:
    """A gradient by its definition, its kind, and the function it is a gradient of, None where that is not known.

    `state` is the place among the arguments of what it is a derivative by, where scipy's convention says so. It is given to
    `curve_fit` where that takes it, a column for each parameter.
    """

    gradient: SourceFunction
    kind: DerivativeKind
    of: SourceFunction | None
    state: int | None = None
    of_curve: bool = False
    found_by: FoundBy = "name"


class SiblingFunctions:
    """The functions of one scope, by what a gradient looks for among them."""

    def __init__(self, known: Collection[SourceFunction], is_class: bool) -> None:
        self.is_class = is_class
        self.by_key: dict[str, list[SourceFunction]] = {}  # the forms of their names
        self.by_required: dict[tuple[str, ...], list[SourceFunction]] = {}  # their required parameters
        for each in known:
            for form in bodies.lookup_keys(each.last):
                self.by_key.setdefault(form, []).append(each)
            if each.required:
                self.by_required.setdefault(each.required, []).append(each)
        self.by_backward_name = {name: each for each in known for name in backward_names(each.last)}
        self.forward = [each for each in known if bodies.is_forward_pass_name(each.last)][:_MOST]
        self.values = [each for each in known if bodies.has_only_value_words(each.last)][:_MOST]
        plain = [each for each in known if not each.marked("property", "cached_property")]
        self.likelihoods = [each for each in plain if bodies.is_likelihood_name(each.last)][:_MOST]
        values = (e for e in plain if bodies.is_value_name(e.last) or bodies.normalise_name(e.last) in bodies.MAPS)
        named = (e for e in values if all(r.word == "d" for r in bodies.read_derivative_name(e.last)))
        self.computed = [*itertools.islice(named, _MOST)]  # by a class


def match_by_names(project: Project, source: FileScopes) -> Iterator[GradientMatch]:
    """Yield the gradients of a file that names show."""
    origins = project.origins(source)
    for place, functions in source.functions.items():
        owner = source.classes.get(place)
        known = project.methods(owner) if owner is not None else {n: several[-1] for n, several in functions.items()}
        scope = SiblingFunctions(known.values(), owner is not None)
        if owner is not None and bodies.is_autodiff_engine(known.values()):
            yield from (GradientMatch(each, "backward", None) for each in functions.get("backward", [])[-1:])
        for definition in itertools.chain.from_iterable(functions.values()):
            found = _match_definition(definition, scope)
            if found is not None and bodies.has_own_body(definition) and bodies.is_written_by_hand(definition, origins):
                yield found


def _match_definition(definition: SourceFunction, scope: SiblingFunctions) -> GradientMatch | None:
    if bodies.has_stop_word(definition.last) or not bodies.has_result(definition):
        return _match_backward_pass(definition, scope)  # whose names may have any words: lstm_step_backward
    of_both = _match_value_and_gradient(definition) or _match_backward_pass(definition, scope)
    return of_both or _match_by_readings(definition, scope) or _match_without_function(definition)


def _match_value_and_gradient(definition: SourceFunction) -> GradientMatch | None:
    """Return a function that gives the value and the gradient, always or where a parameter asks for it."""
    if not definition.names:
        return None
    if (
        bodies.returns_value_and_gradient(definition)
        or bodies.returns_gradient_if_asked(definition)
        or (bodies.is_joint_gradient_name(definition.last) and not bodies.has_only_lookups(definition))
    ):
        return GradientMatch(definition, BOTH, None)
    return None


def _match_without_function(definition: SourceFunction) -> GradientMatch | None:
    """Return a function that is a derivative by what stands around it, whatever it is a gradient of.

    That is one that writes into an argument named for a derivative, and a product such as `hessp` inside a gradient.
    """
    for reading in bodies.read_derivative_name(definition.last):
        if reading.word == "d" or reading.word in bodies.WEAK:
            continue
        around = bodies.read_derivative_name(definition.scope.rpartition(".")[2]) if definition.owner is None else ()
        in_gradient = any(r.word != "d" and not bodies.has_stop_word(r.word) for r in around)
        product = reading.kind in _PRODUCTS and reading.bare and in_gradient
        if product or (bodies.fills_a_gradient(definition) and bodies.has_arithmetic(definition)):
            return GradientMatch(definition, reading.kind, None)
    return None


def _match_backward_pass(definition: SourceFunction, scope: SiblingFunctions) -> GradientMatch | None:
    """Return a backward pass with the forward pass beside it: two methods of a class, or two functions of a module."""
    if scope.is_class:
        part = definition.last.startswith("__")  # of a backward pass
        is_own = bodies.is_backward_pass_name(definition.last) and not part
        forward = scope.forward[0] if scope.forward and is_own else None
    else:
        forward = scope.by_backward_name.get(definition.last) if definition.names else None
    if forward is None:
        return None
    works = any(f(definition) for f in (bodies.has_arithmetic, bodies.writes_entries, bodies.passes_on_argument))
    gives_output = bodies.returned_expressions(forward) or bodies.has_stored_output(forward)
    keeps = scope.is_class and bodies.has_stored_values(definition) and gives_output
    gives = bodies.returned_expressions(definition) or keeps
    return GradientMatch(definition, "backward", forward) if works and gives else None


def _match_by_readings(definition: SourceFunction, scope: SiblingFunctions) -> GradientMatch | None:
    for reading in bodies.read_derivative_name(definition.last):
        partner = _find_function_by_name(definition, reading, scope)
        if partner is not None:
            return GradientMatch(definition, reading.kind, partner)
        if scope.is_class and reading.word != "d" and _is_gradient_in_class(definition, reading, scope):
            return GradientMatch(definition, reading.kind, _find_value_method(definition, reading, scope))
    return None


def _find_function_by_name(
    definition: SourceFunction, reading: NameReading, scope: SiblingFunctions
) -> SourceFunction | None:
    """Return the function whose name is that of the gradient without its word, or with a word for the value in its place."""
    direct = [other for wanted in reading.plain for other in scope.by_key.get(wanted, ())[:_MOST]]
    near = [other for wanted in reading.swapped for other in scope.by_key.get(wanted, ())[:_MOST]]
    if reading.bare and reading.word != "d":
        near += scope.values
    if scope.is_class:  # two methods share a parameter, or have none
        near = [o for o in near if _has_shared_parameter(definition, o) or not (definition.names or o.names)]
    suitable = (o for o in (*direct, *near) if _can_be_gradient_of(definition, o, reading, scope.is_class))
    return next((other for other in suitable if other.last != definition.last), None)


def _can_be_gradient_of(definition: SourceFunction, other: SourceFunction, reading: NameReading, method: bool) -> bool:
    """Whether the parameters of a function are such that another can be its gradient."""
    mine, theirs = definition.names, other.names
    if reading.word == "d":
        return bool(mine) and mine == other.names and bodies.has_arithmetic(definition, len(other.last) <= _SHORT)
    inner = bool(definition.scope) and not method  # functions inside of one function belong together
    of_likelihood = (inner or bodies.is_likelihood_name(other.last)) and _has_shared_parameter(definition, other)
    if reading.word in ("score", "scoreobs") and not of_likelihood:
        return False
    if other.marked("property", "cached_property"):
        return False
    if not mine or not theirs:
        return method and mine == theirs and not bodies.has_only_lookups(definition)
    more = 2 if reading.kind in _PRODUCTS else 1
    return _has_shared_parameter(definition, other) or abs(len(definition.required) - len(other.required)) <= more


def _has_shared_parameter(a: SourceFunction, b: SourceFunction) -> bool:
    return not set(a.names).isdisjoint(b.names)


def _is_gradient_in_class(definition: SourceFunction, reading: NameReading, scope: SiblingFunctions) -> bool:
    """Whether a method with a word for a derivative first or last in its name belongs to something the class computes."""
    words = bodies.words_of_name(definition.last)
    outer = {words[0], words[-1], *words[:2]}
    if not definition.names or reading.word not in outer:
        return False
    if _related_value_methods(definition, reading, scope):
        return True
    if reading.word in bodies.WEAK or not reading.bare or reading.kind not in _CERTAIN:
        return False
    same = [o for o in scope.by_required.get(definition.required, ())[:_MOST] if o.last != definition.last]
    others = (r for o in same for r in bodies.read_derivative_name(o.last) if r.kind in _CERTAIN - {reading.kind})
    values = (o for o in same if not bodies.read_derivative_name(o.last))
    return any(r.bare for r in others) or any(map(bodies.has_result, values))


def _find_value_method(
    definition: SourceFunction, reading: NameReading, scope: SiblingFunctions
) -> SourceFunction | None:
    """Return the method of the class that has a value, and the most parameters in common with the gradient.

    What the name says beside the word for a derivative must be parameters of it: `derivative_exog`, but not `hessian_factor`.
    """
    near = _related_value_methods(definition, reading, scope)
    if reading.word in bodies.HESSIANS:
        near = [other for other in near if bodies.normalise_name(other.last) not in bodies.OF_ARRAYS]
    named = [o for o in near if {*reading.rest} <= {*o.names, *(f"d{name}" for name in o.names)}]
    return max(named, key=lambda other: len(set(definition.names) & set(other.names)), default=None)


def _related_value_methods(
    definition: SourceFunction, reading: NameReading, scope: SiblingFunctions
) -> list[SourceFunction]:
    """Return what the class computes of a parameter that the gradient has, too."""
    near = scope.likelihoods if reading.word in ("score", "scoreobs") else scope.computed
    return [other for other in near if other.last != definition.last and _has_shared_parameter(definition, other)]


def match_scipy_arguments(project: Project, source: FileScopes) -> Iterator[GradientMatch]:
    """Yield the functions of the project that a file passes to scipy as derivatives."""
    of_stars = any(star.module.startswith("scipy") for star in source.stars)
    for scope, call in source.calls:
        whole, last = project.origin(source, call.func), bodies.last_name(call.func)
        if whole.startswith("scipy."):
            yield from _match_call_arguments(project, source, scope, call, whole.rpartition(".")[2])
        elif of_stars and last in PLACES:
            yield from _match_call_arguments(project, source, scope, call, last)
    for scope, found in source.dicts if "scipy" in source.imported else ():
        # such as of a constraint, `{"type": "eq", "fun": f, "jac": g}`
        given = _entries_of_dictionary(source, scope, found)
        yield from _match_derivatives(project, source, scope, given, project.functions(source, scope, given.get("fun")))


def _match_call_arguments(
    project: Project, source: FileScopes, scope: str, call: ast.Call, name: str
) -> Iterator[GradientMatch]:
    given = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg is not None}
    for keyword in call.keywords:
        if keyword.arg is None:
            given |= _entries_of_dictionary(source, scope, keyword.value)
    fun = next((given[key] for key in _FUNCTIONS if key in given), call.args[0] if call.args else None)
    places = PLACES.get(name, {})
    given |= {places[k]: value for k, value in enumerate(call.args) if k in places}
    functions = project.functions(source, scope, fun)
    yield from _match_derivatives(project, source, scope, given, functions, name)
    alone = name in _GIVES_BOTH and not {"fprime", "approx_grad"} & given.keys() and len(call.args) < _UP_TO_APPROX
    if alone and functions and _is_by_hand(project, functions[0]):
        yield GradientMatch(functions[0], BOTH, None, found_by="scipy")


def _match_derivatives(
    project: Project, source: FileScopes, scope: str, given: Mapping[str, ast.expr], functions: list[SourceFunction],
    name: str = "",
) -> Iterator[GradientMatch]:  # fmt: skip
    """Yield the derivatives among what is given to a function of scipy, or to a constraint, beside its function."""
    for key, value in given.items():
        if key not in bodies.DERIVATIVE_ARGUMENTS:
            continue
        own = project.functions(source, scope, given.get(_OF_OTHERS[key])) if key in _OF_OTHERS else functions
        kind, of = bodies.DERIVATIVE_ARGUMENTS[key], next(iter(own), None)
        if isinstance(value, ast.Constant):  # jac=True
            found, kind, of = functions if value.value is True else [], BOTH, None
            if len(found) > 1:  # bound in several branches: to a value where no gradient is asked for
                found = [definition for definition in found if bodies.may_return_tuple(definition)]
        else:
            found = project.functions(source, scope, value)
            kind = "grad" if key == "jac" and name in _OF_SCALARS else kind
        for definition in found:
            if bodies.has_own_body(definition) and _is_by_hand(project, definition):
                state = STATES.get(name) if key == "jac" else None
                match = GradientMatch(definition, kind, of, state, name == "curve_fit", "scipy")
                yield _unwrap_lambda(project, match)


def _is_by_hand(project: Project, definition: SourceFunction) -> bool:
    return bodies.is_written_by_hand(definition, project.origins(project.sources[definition.file]))


def _unwrap_lambda(project: Project, pair: GradientMatch) -> GradientMatch:
    """Return the gradient that a lambda calls, if that is all that it does."""
    node = pair.gradient.node
    if not isinstance(node, ast.Lambda) or not isinstance(node.body, ast.Call):
        return pair
    if not all(isinstance(a, ast.Name | ast.Constant | ast.Starred | ast.Attribute) for a in node.body.args):
        return pair
    source = project.sources[pair.gradient.file]
    found = project.functions(source, pair.gradient.scope, node.body.func)
    return replace(pair, gradient=found[0]) if len(found) == 1 and bodies.has_own_body(found[0]) else pair


def _entries_of_dictionary(source: FileScopes, scope: str, value: ast.expr) -> dict[str, ast.expr]:
    """Return the entries of a dictionary that is written in place, or bound to a name in the same scope."""
    if isinstance(value, ast.Name):
        bound = source.bound.get(scope, {}).get(value.id, [])
        value = bound[-1] if bound else value
    if isinstance(value, ast.Dict):
        pairs = zip(value.keys, value.values, strict=True)
        return {k.value: v for k, v in pairs if isinstance(k, ast.Constant) and isinstance(k.value, str)}
    if isinstance(value, ast.Call) and bodies.last_name(value.func) == "dict":
        return {k.arg: k.value for k in value.keywords if k.arg is not None}
    return {}


def gather_gradients(project: Project, files: Iterable[str], declared: Iterable[Declared]) -> tuple[HandGradient, ...]:
    """Return the gradients that the files define, by file and line."""
    listed = [*files]
    customs = [(file, custom) for file in listed for custom in custom_gradients(project, project.sources[file])]
    inner = {id(d.node) for _, custom in customs for d in custom.inner}
    found: dict[int, GradientMatch] = {}
    for match, file in itertools.product((match_scipy_arguments, match_by_names), listed):
        for pair in match(project, project.sources[file]):
            place = id(pair.gradient.node)
            found[place] = _merge_matches(found[place], pair) if place in found else pair
    covered = Coverage(project, declared)
    wanted = set(listed)
    made = [_gradient_of_custom(project, file, custom, covered) for file, custom in customs]
    objects = {file: _objects_by_class(project, project.sources[file]) for file in wanted}
    made += [
        _gradient_of_match(project.sources[pair.gradient.file], pair, covered, objects[pair.gradient.file])
        for pair in found.values()
        if pair.gradient.file in wanted and id(pair.gradient.node) not in inner and not _is_by_differences(pair)
    ]
    unique = {(each.file, each.line, each.name): each for each in reversed(made)}  # the first of several stays
    return tuple(each for _, each in sorted(unique.items(), key=lambda item: item[0]))


def _is_by_differences(pair: GradientMatch) -> bool:
    """Whether a gradient is computed by differences of its function, or a Hessian by those of a gradient."""
    functions = set() if pair.of is None else {pair.of.last}
    if pair.kind == "hess":
        calls = (node for node in bodies.own_nodes(pair.gradient.node) if isinstance(node, ast.Call))
        functions |= set(filter(bodies.is_gradient_name, map(bodies.last_name, calls)))
    return bodies.has_difference_quotients(pair.gradient, functions)


def _merge_matches(kept: GradientMatch, other: GradientMatch) -> GradientMatch:
    """Return a gradient that was found twice: by scipy before by its name, with the function that either knows."""
    kind = _MORE_EXACT.get(kept.kind, kept.kind) if other.kind == "grad" else kept.kind
    of = kept.of if kept.of is not None and not isinstance(kept.of.node, ast.Lambda) else other.of or kept.of
    state = kept.state if kept.state is not None else other.state
    return replace(kept, kind=kind, of=of, state=state, of_curve=kept.of_curve or other.of_curve)


def _gradient_of_custom(project: Project, file: str, custom: Custom, covered: Coverage) -> HandGradient:
    ids = covered.of_custom(project.sources[file], custom)
    wrt = ""
    if isinstance(custom.function, SourceFunction):
        parameters = describe_parameters(custom.function)
    else:  # the first argument of forward is ctx, unless setup_context takes that
        methods = project.methods(custom.function)
        forward = methods.get("forward")
        has_context = forward is not None and forward.marked("staticmethod") and "setup_context" not in methods
        parameters = () if forward is None else describe_parameters(forward, has_context)
        parameters = tuple(_parameters_as_applied(project.sources[file], custom.name, parameters))
        wrt = _differentiated_parameters(methods["backward"], parameters)
    return HandGradient(
        custom.name, file, custom.line, custom.kind, custom.of, custom.framework, ids, parameters, wrt=wrt
    )


def _differentiated_parameters(backward: SourceFunction, parameters: Sequence[Parameter]) -> str:
    """Return the parameters by which a backward pass gives gradients, where it gives None for an array; else an empty text."""
    given = [value.elts for value in bodies.returned_expressions(backward) if isinstance(value, ast.Tuple)]
    if not given or any(len(elements) != len(parameters) for elements in given):
        return ""
    is_none = lambda value: isinstance(value, ast.Constant) and value.value is None
    without = [p for p, *each in zip(parameters, *given, strict=True) if all(map(is_none, each))]
    if not any(p.kind in ("", "array") and not p.default for p in without):
        return ""
    return ",".join(p.name for p in parameters if p not in without)


def _parameters_as_applied(source: FileScopes, name: str, parameters: Sequence[Parameter]) -> Iterator[Parameter]:
    """Yield the parameters of a custom function with the constants that `NAME.apply(...)` is given, or has by default."""
    kinds: dict[type, ParameterKind] = {float: "number", int: "integer", bool: "flag", str: "text"}
    given: dict[int, object] = {}
    for scope, call in source.calls:
        if bodies.dotted_name(call.func) != f"{name}.apply":
            continue
        around = source.functions.get(scope.rpartition(".")[0], {}).get(scope.rpartition(".")[2], [])
        defaults = {p.name: p.default for definition in around for p in describe_parameters(definition)}
        for k, value in enumerate(call.args):
            text = defaults.get(value.id, "") if isinstance(value, ast.Name) else ast.unparse(value)
            with contextlib.suppress(ValueError, SyntaxError):
                given.setdefault(k, ast.literal_eval(text))
    for k, parameter in enumerate(parameters):
        kind = kinds.get(type(given.get(k)))
        known = kind is not None and parameter.kind in ("", kind) and not parameter.values and not parameter.default
        yield replace(parameter, kind=kind, values=(str(given[k]),)) if kind is not None and known else parameter


def _gradient_of_match(
    source: FileScopes, pair: GradientMatch, covered: Coverage, objects: dict[Class, str]
) -> HandGradient:
    gradient, of = pair.gradient, pair.of
    function = of or (gradient if pair.kind == "value-and-grad" else None)
    parameters = () if function is None else describe_parameters(function)
    state = pair.state if pair.state is not None else _place_of_state(pair, parameters)
    wrt = ""
    if state is not None and state < len(parameters):
        wrt = parameters[state].name
        count = None if of is None else bodies.count_returned_entries(of)
        if count is not None and parameters[state].sizes is None:  # a state has as many entries as its slope
            sized = replace(parameters[state], sizes=(str(count),))
            parameters = (*parameters[:state], sized, *parameters[state + 1 :])
    owner = source.classes.get(gradient.owner or "")
    through = "" if owner is None else objects.get(owner, "")
    free = gradient.scope == "" and (of is None or of.scope == "") and not isinstance(gradient.node, ast.Lambda)
    same = function is not None and function.file == gradient.file
    point = "point" in source.bound.get("", {}) or "point" in source.functions.get("", {})
    return HandGradient(
        gradient.name, gradient.file, gradient.line, pair.kind, None if of is None else of.name, pair.found_by,
        covered.of_definition(gradient), parameters, same and (free or bool(through)), through, point,
        _why_not_nameable(pair, owner), wrt,
    )  # fmt: skip


def _why_not_nameable(pair: GradientMatch, owner: Class | None) -> str:
    """Return why no check can name a gradient, so that it is checked while a program uses it; empty where one can."""
    if owner is None and pair.gradient.scope:
        return f"it stands inside {pair.gradient.scope}"
    if pair.gradient.last == "<lambda>" or (pair.of is not None and pair.of.last == "<lambda>"):
        return "a lambda has no name"
    return "curve_fit takes a column for each parameter" if pair.of_curve else ""


TIMES = frozenset({"t", "time"})
_STATE = re.compile(r"[xyzuqs]\d*|[XY]|state\w*|vars?|values?|pop\w*|conc\w*|species")


def _place_of_state(pair: GradientMatch, parameters: Sequence[Parameter]) -> int | None:
    """Return the place of the state of a differential equation, f(t, y) or f(y, t), whose Jacobian is by it; else None."""
    first = [parameter.name for parameter in parameters[:2] if not parameter.default]
    if pair.kind != "jac" or len(first) < 2 or TIMES.isdisjoint(first):
        return None
    place = 1 if first[0] in TIMES else 0
    return place if _STATE.fullmatch(first[place]) else None


def _objects_by_class(project: Project, source: FileScopes) -> dict[Class, str]:
    """Return the objects that a module holds, by their classes and the base classes of these."""
    found: dict[Class, str] = {}
    for name, values in source.bound.get("", {}).items():
        for value in values:
            owner = project.class_of_instance(source, "", value) if isinstance(value, ast.Call) else None
            for each in () if owner is None or owner in found else project.lineage(owner):
                found.setdefault(each, name)
    return found
