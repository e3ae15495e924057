"""Gradients that are found by their names: pairs in one module, scope or class, and functions that return both."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gradcli.discovery import bodies
from gradcli.discovery.project import Project
from gradcli.discovery.source import Definition, Source
from gradcli.discovery.spelling import (
    MAPS,
    WEAK,
    Reading,
    is_backward,
    is_forward,
    is_likelihood,
    is_only_value,
    is_value,
    key,
    keys,
    of_value_and_gradient,
    parts,
    readings,
    stopped,
)
from gradcli.words import DerivativeKind

BOTH: DerivativeKind = "value-and-grad"
_CERTAIN = frozenset({"grad", "jac", "hess", "hvp", "jvp", "vjp"})
_MOST = (
    100  # functions of one scope that a gradient is compared with, so that generated files take no longer than others
)
_SHORT = 2  # letters of a function such as f, for whose derivative df a call is enough
_PRODUCTS = frozenset({"hvp", "jvp", "vjp"})


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """A gradient by its definition, its kind, and the function it is a gradient of, None where that is not known."""

    gradient: Definition
    kind: DerivativeKind
    of: Definition | None


@dataclass(frozen=True, slots=True)
class Scope:
    """The functions that stand beside each other, as a gradient looks for its own among them.

    `by_key` has them by the forms of their names, `by_required` by their required parameters; `forward`, `values`,
    `likelihoods` and `computed` are those whose names say so, the last of these with what a class computes otherwise.
    """

    is_class: bool
    by_key: dict[str, list[Definition]]
    by_required: dict[tuple[str, ...], list[Definition]]
    forward: list[Definition]
    values: list[Definition]
    likelihoods: list[Definition]
    computed: list[Definition]


def scope_of(known: Iterable[Definition], is_class: bool) -> Scope:
    """Return the functions of one scope by what gradients look for."""
    scope = Scope(is_class, {}, {}, [], [], [], [])
    for each in known:
        name = each.last
        for form in keys(name):
            scope.by_key.setdefault(form, []).append(each)
        if each.required:
            scope.by_required.setdefault(each.required, []).append(each)
        plain = not each.marked("property", "cached_property")
        of_function = not any(r.word != "d" for r in readings(name))
        chosen = (
            (is_forward(name), scope.forward),
            (is_only_value(name), scope.values),
            (plain and is_likelihood(name), scope.likelihoods),
            (plain and of_function and (is_value(name) or key(name) in MAPS), scope.computed),
        )
        for fits, several in chosen:
            if fits and len(several) < _MOST:
                several.append(each)
    return scope


def pairs(project: Project, source: Source) -> Iterator[Pair]:
    """Yield the gradients of a file that names show."""
    origins = project.origins(source)
    for place, functions in source.functions.items():
        owner = source.classes.get(place)
        known = project.methods(owner) if owner is not None else {n: several[-1] for n, several in functions.items()}
        scope = scope_of(known.values(), owner is not None)
        for several in functions.values():
            for definition in several:
                found = _found(definition, scope)
                if found is not None and bodies.is_written(definition) and bodies.is_by_hand(definition, origins):
                    yield found


def _found(definition: Definition, scope: Scope) -> Pair | None:
    if stopped(definition.last) or not bodies.gives_something(definition):
        return None
    return _of_both(definition) or _by_name(definition, scope) or _certain(definition)


def _of_both(definition: Definition) -> Pair | None:
    """Return a function that gives the value and the gradient, always or where a parameter asks for it."""
    if not definition.names:
        return None
    asked = bodies.flag(definition)
    if (
        bodies.returns_value_and_gradient(definition)
        or (asked is not None and bodies.gives_tuple_if_asked(definition, asked))
        or (of_value_and_gradient(definition.last) and not bodies.only_looks_up(definition))
    ):
        return Pair(definition, BOTH, None)
    return None


def _certain(definition: Definition) -> Pair | None:
    """Return a function that is a derivative by what stands around it, whatever it is a gradient of.

    That is one that writes into an argument named for a derivative, and a product such as `hessp` inside a gradient.
    """
    for reading in readings(definition.last):
        if reading.word == "d" or reading.word in WEAK:
            continue
        around = readings(definition.scope.rpartition(".")[2]) if definition.owner is None else ()
        inside = (
            reading.kind in _PRODUCTS and reading.bare and any(r.word != "d" and not stopped(r.word) for r in around)
        )
        if inside or (bodies.fills_a_gradient(definition) and bodies.computes(definition)):
            return Pair(definition, reading.kind, None)
    return None


def _by_name(definition: Definition, scope: Scope) -> Pair | None:
    backward = scope.is_class and bool(scope.forward and definition.names) and is_backward(definition.last)
    if backward and bodies.returned(definition) and bodies.computes(definition):
        return Pair(definition, "backward", scope.forward[0])
    for reading in readings(definition.last):
        partner = _partner(definition, reading, scope)
        if partner is not None:
            return Pair(definition, reading.kind, partner)
        if scope.is_class and reading.word != "d" and _in_class(definition, reading, scope):
            return Pair(definition, reading.kind, _value_of(definition, reading, scope))
    return None


def _partner(definition: Definition, reading: Reading, scope: Scope) -> Definition | None:
    """Return the function whose name is that of the gradient without its word, or with a word for the value in its place."""
    direct = [other for wanted in reading.plain for other in scope.by_key.get(wanted, ())[:_MOST]]
    near = [other for wanted in reading.swapped for other in scope.by_key.get(wanted, ())[:_MOST]]
    if reading.bare and reading.word != "d":
        near += scope.values
    if scope.is_class:
        near = [other for other in near if _alike(definition, other)]
    suitable = (o for o in (*direct, *near) if _suits(definition, o, reading, scope.is_class))
    return next((other for other in suitable if other.last != definition.last), None)


def _alike(definition: Definition, other: Definition) -> bool:
    """Whether two methods share a parameter, or have none."""
    return _shares(definition, other) or not (definition.names or other.names)


def _suits(definition: Definition, other: Definition, reading: Reading, method: bool) -> bool:
    """Whether the parameters of a function are such that another can be its gradient."""
    mine, theirs = definition.names, other.names
    if reading.word == "d":
        return bool(mine) and mine == other.names and bodies.has_arithmetic(definition, len(other.last) <= _SHORT)
    inner = bool(definition.scope) and not method  # functions inside of one function belong together
    if reading.word in ("score", "scoreobs") and not (
        (inner or is_likelihood(other.last)) and _shares(definition, other)
    ):
        return False
    if other.marked("property", "cached_property"):
        return False
    if not mine or not theirs:
        nothing = not mine and not theirs
        return method and nothing and not bodies.only_looks_up(definition)
    more = 2 if reading.kind in _PRODUCTS else 1
    return _shares(definition, other) or abs(len(definition.required) - len(other.required)) <= more


def _shares(a: Definition, b: Definition) -> bool:
    return not set(a.names).isdisjoint(b.names)


def _in_class(definition: Definition, reading: Reading, scope: Scope) -> bool:
    """Whether a method with a word for a derivative first or last in its name belongs to something the class computes."""
    words = parts(definition.last)
    outer = {words[0], words[-1], *words[:2]}
    if not definition.names or reading.word not in outer:
        return False
    if _value_of(definition, reading, scope) is not None:
        return True
    if reading.word in WEAK or not reading.bare or reading.kind not in _CERTAIN:
        return False
    same = [o for o in scope.by_required.get(definition.required, ())[:_MOST] if o.last != definition.last]
    second = any(r.kind != reading.kind and r.bare for o in same for r in readings(o.last) if r.kind in _CERTAIN)
    return second or any(not readings(o.last) and bodies.gives_something(o) for o in same)


def _value_of(definition: Definition, reading: Reading, scope: Scope) -> Definition | None:
    """Return the method of the class that has a value, and the most parameters in common with the gradient."""
    near = scope.likelihoods if reading.word in ("score", "scoreobs") else scope.computed
    good = [other for other in near if other.last != definition.last and _shares(definition, other)]
    return max(good, key=lambda other: len(set(definition.names) & set(other.names)), default=None)
