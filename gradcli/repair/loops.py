"""The loops of a claim: what its names hold in the first visits of a loop's body, and where something can be added."""

import ast
import builtins
import itertools
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from typing import Any

import numpy as np

from gradcli.classes import dataclass
from gradcli.repair.contributions import ForwardPass, MissingPart, text_of_code
from gradcli.repair.executed_statements import VISITS
from gradcli.repair.scope import UNKNOWN, is_index, is_number, shape_of

Loop = ast.For | ast.While
_ROOM = 1e-7  # relative to the largest entry: how near a name is to an adjoint but for a part of it


@dataclass(frozen=True, slots=True)
class LoopTerm:
    """A name or an item of an array, and the statements of a loop's body before which it has one value."""

    text: str
    first: int
    last: int
    of_claim: bool = True  # whether it reads a name that is no global one


@dataclass(frozen=True)
class LoopTerms:
    """What has a value in one visit of a loop's body: each value has a name here, which stands for a text in the code."""

    values: Mapping[str, Any]
    texts: Mapping[str, LoopTerm]
    outer: Mapping[str, Any]
    held: Mapping[str, Sequence[Any]]  # the values of each name of the function, in their order

    def value(self, added: MissingPart) -> Any:
        """Return the value of a contribution, with its sign; UNKNOWN if it has none."""
        try:
            with np.errstate(all="ignore"):
                x = eval(added.code, dict(self.outer), dict(self.values))
        except Exception:  # the user's names and shapes: whatever is wrong with it, nothing is written from it
            return UNKNOWN
        return (x if added.sign == "+" else -x) if is_number(x) else UNKNOWN

    def items_of_shape(self, shape: tuple[int, ...]) -> list[tuple[str, str]]:
        """Return the arrays and indices of the items that have a shape."""
        found = []
        for key, term in self.texts.items():
            name, bracket, index = term.text.partition("[")
            if bracket and name in self.held and shape_of(self.values[key]) == shape:
                found.append((name, index[:-1]))
        return list(dict.fromkeys(found))

    def lacks(self, seen: Sequence["LoopTerms"], name: str, place: str, part: Any, adjoint: Any) -> bool | None:
        """Return whether a name, or an item of it, holds anything, if that is an adjoint but for a part of it; None if not."""
        room = _ROOM * float(np.max(np.abs(adjoint), initial=0.0))
        for x in [x for terms in seen for x in terms.held.get(name, ())]:
            if place:
                try:
                    x = eval(f"_[{place}]", dict(self.outer), {**self.values, "_": x})
                except Exception:  # the user's names and shapes: whatever is wrong with it, it lacks nothing
                    continue
            if shape_of(x) == shape_of(adjoint) and (np.abs(x + part - adjoint) <= room).all():
                return bool(np.any(x))
        return None

    def spell(self, code: str) -> LoopTerm | None:
        """Return code in the names of the claim, and where it has this value; None if a name has none in the claim."""
        tree = ast.parse(f"_[{code}]", mode="eval").body
        assert isinstance(tree, ast.Subscript)
        used = [n for n in ast.walk(tree.slice) if isinstance(n, ast.Name)]
        if any(n.id not in self.texts and n.id not in self.outer and not hasattr(builtins, n.id) for n in used):
            return None
        terms = [self.texts[n.id] for n in used if n.id in self.texts]
        for n in used:
            n.id = self.texts[n.id].text if n.id in self.texts else n.id
        first, last = max((t.first for t in terms), default=0), min((t.last for t in terms), default=sys.maxsize)
        if first > last:
            return None
        return LoopTerm(text_of_code(tree)[2:-1], first, last, any(t.of_claim for t in terms))


@dataclass
class LoopBody:
    """A loop of a claim, and the values of its names before each statement of the body, and after it, in the first visits."""

    loop: Loop
    outer: Mapping[str, Any]
    visits: list[dict[int, dict[str, Any]]] = field(default_factory=list)
    count: int = 0  # of all visits
    shared: set[str] = field(default_factory=set)  # arrays that have another name, too
    _within: bool = False
    _held: dict[str, Any] = field(default_factory=dict)  # the values noted last

    def note(self, k: int, names: Mapping[str, Any]) -> None:
        """Note the values before statement `k` of the body; -1 stands for the loop itself."""
        if k == 0 and not self._within:
            self._within = True
            self.count += 1
            if len(self.visits) < VISITS:
                self.visits.append({})
        elif k == -1:
            k, was_within = len(self.loop.body), self._within
            self._within = False
            if not was_within:
                return
        if self.count == len(self.visits) and self.visits and k not in self.visits[-1]:
            held = [(n, x) for n, x in (*names.items(), *self.outer.items()) if isinstance(x, np.ndarray)]
            times = Counter(id(x) for _, x in held)
            self.shared |= {n for n, x in held if times[id(x)] > 1}
            same = {n: old for n, old in self._held.items() if n in names and is_same_value(names[n], old)}
            self.visits[-1][k] = self._held = {n: same[n] if n in same else copy_value(x) for n, x in names.items()}

    @cached_property
    def numbers(self) -> dict[str, tuple[int, ...]]:
        """The names of numbers that are no indices, with their shapes, at the end of the first visit."""
        held = self.visits[0][max(self.visits[0])] if self.visits and self.visits[0] else {}
        return {n: shape_of(x) for n, x in held.items() if is_number(x) and not is_index(x)}

    @cached_property
    def assigned(self) -> set[str]:
        """The names that the body gives another value than one that is made of their own."""
        found = [n for s in self.loop.body for n in ast.walk(s) if isinstance(n, ast.Assign)]
        return {name for n in found for name in names_stored(n) - names_read(n)}

    @cached_property
    def _uses(self) -> list[tuple[set[str], set[str]]]:
        """The names that each statement of the body reads, and those that it assigns; what it adds to is neither."""
        found = []
        for s in self.loop.body:
            nodes = [n for n in ast.walk(s) if isinstance(n, ast.Name)]
            parts = [n.value for n in ast.walk(s) if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store)]
            own = {id(n) for n in (*parts, getattr(s, "target", None))} if not isinstance(s, ast.For) else set()
            others = [n for n in nodes if id(n) not in own]
            reads = {n.id for n in others if isinstance(n.ctx, ast.Load)}
            found.append((reads, {n.id for n in others if isinstance(n.ctx, ast.Store)}))
        return found

    def right_statements(self, pairs: Sequence[tuple[int, ForwardPass]]) -> Iterator[int]:
        """Yield the statements of the body whose value in the first visit is one that the function has, or an adjoint of it.

        In no other visit do they make another value of such values. `pairs` are visits of both loops.
        """
        visits = dict(reversed(pairs))
        if 0 not in visits:
            return
        for k, s in enumerate(self.loop.body):
            inputs = [n for n in names_read(s) if self._has_results(visits, 0, k, [ast.Name(n)])]
            others = [v for v in visits if v and all(self._has_results(visits, v, k, [ast.Name(n)]) for n in inputs)]
            if all(self._has_results(visits, v, k + 1, parts_assigned(s)) for v in (0, *others)):
                yield k

    def _has_results(self, visits: Mapping[int, ForwardPass], visit: int, k: int, parts: Sequence[ast.expr]) -> bool:
        """Whether names, or the last items of lists, have values of the function before a statement of the body in a visit."""
        held = self.visits[visit].get(k, {}) if visit < len(self.visits) else {}
        if visit not in visits or not parts:
            return False
        forwards = visits[0].visit == 0  # else what is read of earlier visits may be of another one than it should
        own = visits[visit]
        return all(own.has_result(value_of_part(p, held), ast.unparse(p), of_values=forwards) for p in parts)

    def terms(self, visit: int, texts: Sequence[str]) -> LoopTerms:
        """Return what has a value in a visit: names, and items of arrays by the given texts and by indices of the loop."""
        seen = self.visits[visit]
        spans: dict[str, list[tuple[int, int, Any]]] = {}
        for k in sorted(seen):
            for n, x in seen[k].items():
                own = spans.setdefault(n, [])
                if own and own[-1][1] == k - 1 and is_same_value(own[-1][2], x):
                    own[-1] = own[-1][0], k, x
                else:
                    own.append((k, k, x))
        values, found = {}, {}
        for n, own in spans.items():
            for number, (first, last, x) in enumerate(own):
                if is_number(x):
                    key = f"{n}__{number + 1}" if number else n
                    values[key], found[key] = x, LoopTerm(n, first, last)
        for number, text in enumerate(dict.fromkeys((*texts, *self._items(seen)))):
            code = compile(text, "<item>", "eval")
            used = [n for n in code.co_names if n in spans]
            starts = sorted({0, *(first for n in used for first, _, _ in spans[n])})
            for first, after in itertools.pairwise((*starts, len(self.loop.body) + 1)):
                if first in seen:
                    try:
                        x = eval(code, dict(self.outer), seen[first])
                    except Exception:  # the user's names and shapes: whatever is wrong with it, it is no term
                        continue
                    if is_number(x):
                        key = f"_item_{number}_{first}"
                        values[key], found[key] = x, LoopTerm(text, first, after - 1)
        outer = {n: x for n, x in self.outer.items() if n not in spans}
        for n, x in outer.items():
            if is_number(x):
                values[n], found[n] = x, LoopTerm(n, 0, len(self.loop.body), of_claim=False)
        held = {n: [np.asarray(x) for _, _, x in own if is_number(x)] for n, own in spans.items()}
        return LoopTerms(values, found, outer, held)

    def _items(self, seen: Mapping[int, Mapping[str, Any]]) -> Iterator[str]:
        """Yield items of the arrays and lists that are as long as the loop, by the index of the loop and its neighbours."""
        held = seen[min(seen)] if seen else {}
        indices = [n.id for n in ast.walk(getattr(self.loop, "target", self.loop)) if isinstance(n, ast.Name)]
        for t in [n for n in indices if is_index(held.get(n))] if isinstance(self.loop, ast.For) else ():
            for n, x in {**self.outer, **held}.items():
                length = len(x) if type(x) is list else shape_of(x)[0] if is_number(x) and shape_of(x) else 0
                if self.count <= length <= self.count + 2:
                    yield from (f"{n}[{t}]", f"{n}[{t} + 1]", f"{n}[{t} - 1]")

    def places_to_add(self, name: str, first: int, last: int, outside: Collection[str]) -> Iterator[int]:
        """Yield the statements of the body before which something can be added to a name, one of those that are the same.

        `outside` are the names that the function reads outside of the loop.
        """
        reads, writes = ([name in names[k] for names in self._uses] for k in (0, 1))
        first_use = next((reads[j] for j in range(len(reads)) if reads[j] or writes[j]), False)
        later = name in outside or first_use
        begun = False
        for k in range(first, min(last, len(reads)) + 1):
            begun = begun and not (reads[k - 1] or writes[k - 1])
            if begun or name not in self.visits[0].get(k, {}):
                continue
            begun = True
            used = next((reads[j] for j in range(k, len(reads)) if reads[j] or writes[j]), later)
            if used:
                yield k


def constant_terms(visits: Sequence[LoopTerms]) -> frozenset[str]:
    """Return what has the same value in each of several visits; nothing where there is one visit."""
    names = visits[0].values if len(visits) > 1 else {}
    return frozenset(n for n, x in names.items() if all(is_same_value(x, v.values.get(n)) for v in visits[1:]))


def is_same_value(x: Any, y: Any) -> bool:
    """Whether two values are the same; lists are where they are as long."""
    if x is y or type(x) is not type(y):
        return x is y
    if is_number(x) and is_number(y):
        return shape_of(x) == shape_of(y) and bool(np.array_equal(x, y))
    return type(x) is list and len(x) == len(y)


def subscripts_in(loop: Loop) -> tuple[str, ...]:
    """Return the items of arrays that a loop reads."""
    items = (n for s in loop.body for n in ast.walk(s) if isinstance(n, ast.Subscript))
    return tuple(dict.fromkeys(ast.unparse(n) for n in items if isinstance(n.ctx, ast.Load)))


def names_stored(node: ast.AST) -> set[str]:
    """Return the names that a statement assigns."""
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def parts_assigned(statement: ast.stmt) -> list[ast.expr]:
    """Return the names that a statement gives values, or the last item of a list that it appends to; nothing for copies."""
    match statement:
        case ast.Assign(_, ast.Name()):  # a copy may be one of another value than it should
            return []
        case ast.Assign([ast.Name() as name]) | ast.AugAssign(ast.Name() as name):
            return [name]
        case ast.Assign([ast.Tuple(names)]) if all(isinstance(n, ast.Name) for n in names):
            return names
        case ast.Expr(ast.Call(ast.Attribute(ast.Name() as name, "append"))):
            return [ast.Subscript(name, ast.Constant(-1), ast.Load())]
    return []


def value_of_part(part: ast.expr, held: Mapping[str, Any]) -> Any:
    """Return the value of a name, or of the last item of a list; UNKNOWN if it has none."""
    if isinstance(part, ast.Name):
        return held.get(part.id, UNKNOWN)
    items = value_of_part(part.value, held) if isinstance(part, ast.Subscript) else UNKNOWN
    return items[-1] if isinstance(items, list) and items else UNKNOWN


def names_read(node: ast.AST) -> set[str]:
    """Return the names in an expression, or in the value that a statement assigns."""
    within = node.value if isinstance(node, ast.Assign | ast.AugAssign) else node
    return {n.id for n in ast.walk(within) if isinstance(n, ast.Name)}


def copy_value(x: Any) -> Any:
    """Return a value that does not change when an array or list is written into."""
    if isinstance(x, np.ndarray):
        return x.copy()
    if type(x).__module__ == "torch" and hasattr(x, "detach"):
        return x.detach().clone()
    return list(x) if type(x) is list else x
