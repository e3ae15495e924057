"""A claim in Python code, as text that can be edited: its functions get the code of each edited text, and are called."""

import ast
import contextlib
import gc
import itertools
import re
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

import numpy as np

from gradcli.classes import dataclass
from gradcli.errors import BadClaim
from gradcli.modes.claim import WrongShape
from gradcli.repair.contributions import ForwardPass, MissingPart, count_names, is_same, list_contributions, list_steps
from gradcli.repair.edits import edits_of, missing_part_edits
from gradcli.repair.executed_statements import VISITS
from gradcli.repair.loops import (
    Loop,
    LoopBody,
    LoopTerms,
    constant_terms,
    copy_value,
    names_read,
    names_stored,
    parts_assigned,
    subscripts_in,
    value_of_part,
)
from gradcli.repair.scope import (
    BINDING,
    UNKNOWN,
    CandidateTerm,
    Change,
    Edit,
    EditPlace,
    Gradient,
    Right,
    Scope,
    Text,
    apply_changes,
    binding_strength,
    bracket_operand,
    is_index,
    is_number,
    lines_of,
    shape_of,
    spans_of,
    texts_of_expressions,
    walk_expressions,
    write_operation,
)
from gradcli.tracing.provenance import is_users_file
from gradcli.tracing.tracer import closure_values, nested_codes

_MOST_IN_LOOPS = 60  # contributions that are written in loops
MOST_LINES = 100  # times the lines that the claim itself runs, for each edited text
_OF_SHARED = 1.0  # added to the cost of edits of functions that other code may use as they are
_VISITS = 6  # of a line, the last of which gives the values of its names
_SCALE, _SHIFT = 1 + 2**-10, 2**-10  # a value is multiplied by one and the other is added, to see what depends on it
_CHANGING = (
    ".append(", ".pop(", ".extend(", ".insert(", ".remove(", ".clear(", ".update(", ".sort(", "next(", ".fill(",
)  # fmt: skip
_LIBRARIES = ("numpy", "torch", "jax.numpy", "tensorflow", "mlx.core")  # of arrays
_OF_SLOPES = {  # constants in the slopes of functions, and these functions
    "{0}log(10)": re.compile(r"\blog10\("), "{0}log(2)": re.compile(r"\blog2\("), "{0}sqrt({0}pi)": re.compile(r"\berfc?\("),
    "{0}sqrt(2 * {0}pi)": re.compile(r"\b(?:ndtr|norm\.\w+)\("),
}  # fmt: skip
_FUTURE = 0x1FE0000  # the bits of a code object's flags that `from __future__` sets


class TooManyLines(Exception):
    """An edited text runs far more lines than the claim does."""


# The edits of whole statements: `=` for `+=`, the sign of an update, a statement that is left out.

_UPDATES = ("=", "+=", "-=", "*=", "/=")
_TWINS = {"=": ("+=", "-="), "+=": ("-=", "="), "-=": ("+=", "="), "*=": ("/=",), "/=": ("*=",)}


def statement_edits(statement: ast.stmt, text: Text, scope: Scope | None, alone: bool) -> Iterator[Edit]:
    """Yield the edits of a statement; one that is `alone` in its block cannot be left out."""
    if isinstance(statement, ast.AugAssign):
        target: ast.expr = statement.target
    elif isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
    else:
        return
    between = text.span(target)[1], text.span(statement.value)[0]
    own = next((sign for sign in reversed(_UPDATES) if sign in text.text[slice(*between)]), "=")
    start = text.text.index(own, between[0])
    has_value = isinstance(target, ast.Name | ast.Attribute) and scope is not None
    there = has_value and scope is not None and is_number(scope.value(text.piece(target)))
    known = isinstance(statement, ast.AugAssign) or isinstance(target, ast.Subscript)
    reads_itself = own == "=" and any(text.piece(n) == text.piece(target) for n, _ in walk_expressions(statement.value))
    for sign in _TWINS[own] if (known or there) and not reads_itself else ():  # nobody writes h += h - a
        kind = "sign" if {own, sign} == {"+=", "-="} else "assignment"
        yield Edit(kind, 1.0, statement.lineno, (Change(start, start + len(own), sign),))
    if known and not alone:
        first = text.text.rfind("\n", 0, text.span(statement)[0]) + 1
        last = text.text.find("\n", text.span(statement)[1]) + 1 or len(text.text)
        if text.text[first:last].strip() == text.piece(statement).strip():
            cost = 0.9 if own in ("*=", "/=") else 2.0  # before a factor 1
            yield Edit("statement", cost, statement.lineno, (Change(first, last, ""),))
    if own in ("+=", "-=") and isinstance(target, ast.Subscript) and scope is not None and scope.prefix:
        function = f"{scope.prefix}{'add' if own == '+=' else 'subtract'}.at"
        new = f"{function}({text.piece(target.value)}, {text.piece(target.slice)}, {text.piece(statement.value)})"
        yield Edit("assignment", 1.3, statement.lineno, (Change(*text.span(statement), new),))


def update_edits(statement: ast.stmt, text: Text, scope: Scope) -> Iterator[Edit]:
    """Yield edits that add an update of the name that a statement assigns, or writes into.

    It is a value of its shape that is added, or a product of two, which stands in the assignment itself where there is one; a
    division by its sum; one less at the entry of each row that an array of indices names, as in the gradient of cross-entropy;
    or, after a write into it, a division by a size.
    """
    target = getattr(statement, "target", None) or getattr(statement, "targets", [None])[0]
    name = target.value if isinstance(target, ast.Subscript) else target
    if not isinstance(statement, ast.Assign | ast.AugAssign) or not isinstance(name, ast.Name):
        return
    own = scope.value(name.id if name is not target else text.piece(statement.value))
    if not is_number(own) or is_index(own) or own is UNKNOWN:
        return
    start = text.text.rfind("\n", 0, text.span(statement)[0]) + 1
    end = text.span(statement)[1]
    indent = text.text[start : text.span(statement)[0]]
    new_line = "; " if indent.strip() else f"\n{indent}"
    if isinstance(statement, ast.AugAssign):
        for term in scope.sizes:
            change = Change(end, end, f"{new_line}{name.id} /= {term.text}")
            yield Edit("factor", 2.2, statement.lineno, (change,))
    if name is not target:
        return
    updates = []
    if isinstance(statement, ast.Assign) and shape_of(own):
        over = "axis=-1, keepdims=True" if len(shape_of(own)) > 1 else ""
        updates = [f" /= {name.id}.sum({over})"]
        rows = ((f"{scope.prefix}arange(len({indices}))", indices) for indices in _indices_of_rows(scope, own))
        updates += [f"[{row}, {entry}] -= 1" for row, entry in rows]
    made = own if isinstance(statement, ast.Assign) else scope.value(name.id)
    updates += [f"[{entry}] -= 1" for entry in _indices_of_entries(scope, made)]
    for update in updates:
        yield Edit("statement", 2.2, statement.lineno, (Change(end, end, f"{new_line}{name.id}{update}"),))
    for cost, update in _possible_updates(scope, shape_of(own), name.id, isinstance(statement, ast.AugAssign)):
        for sign, operator in (("+", ast.Add), ("-", ast.Sub)):
            change = Change(end, end, f"{new_line}{name.id} {sign}= {update}")
            if isinstance(statement, ast.Assign):
                whole, _ = write_operation(operator, text.code(statement.value), (update, BINDING[ast.Mult]))
                change = Change(*text.span(statement.value), whole)
            yield Edit("statement", cost, statement.lineno, (change,))


def _indices_of_rows(scope: Scope, own: Any) -> Iterator[str]:
    """Yield the names of arrays that have, for each row of a matrix, the index of one of its entries."""
    shape = shape_of(own)
    for term in scope.names if len(shape) == 2 and scope.prefix else ():
        x = term.value
        if shape_of(x) == shape[:1] and "int" in str(x.dtype) and bool((x < shape[1]).all()):
            yield term.text


def _indices_of_entries(scope: Scope, own: Any) -> Iterator[str]:
    """Yield the names and expressions that are the index of an entry of a vector."""
    shape = shape_of(own)
    for term in (*scope.names, *scope.terms) if len(shape) == 1 else ():
        if is_index(term.value) and shape_of(term.value) == () and 0 <= int(term.value) < shape[0]:
            yield term.text


def rename_edits(statement: ast.stmt, text: Text, scope: Scope) -> Iterator[Edit]:
    """Yield edits that take another value of the same shape for a name, wherever the statement reads it more than once."""
    read: dict[str, list[ast.Name]] = {}
    for node, parent in walk_expressions(statement):
        is_function = isinstance(parent, ast.Call) and parent.func is node
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and not is_function:
            read.setdefault(node.id, []).append(node)
    for name, nodes in read.items():
        own = scope.value(name)
        if len(nodes) < 2 or not is_number(own) or is_index(own):
            continue
        for term in scope.names:
            if term.text != name and not is_index(term.value) and shape_of(term.value) == shape_of(own):
                changes = tuple(Change(*text.span(node), term.text) for node in nodes)
                yield Edit("name", 1.3 if term.unread else 1.9, statement.lineno, changes)


def _possible_updates(scope: Scope, shape: tuple[int, ...], own: str, single: bool) -> Iterator[tuple[float, str]]:
    """Yield values of a shape: products of two names, sums of products; `single` names and expressions of the code, too."""
    names = [term for term in scope.names if not is_index(term.value) and term.text != own]
    for term in (*names, *scope.terms) if single else ():
        if shape_of(term.value) == shape:
            yield 3.0, term.text
    for k, a in enumerate(names):
        for b in names[k:]:
            yield from _possible_products(a, b, shape, scope.prefix)
    for a in names:
        for b in scope.terms:
            for cost, new in _possible_products(a, replace(b, text=f"({b.text})"), shape, scope.prefix):
                yield cost + 0.4, new


def _possible_products(
    one: CandidateTerm, other: CandidateTerm, shape: tuple[int, ...], prefix: str
) -> Iterator[tuple[float, str]]:
    a, b, first, second = one.text, other.text, shape_of(one.value), shape_of(other.value)
    try:
        broadcast = np.broadcast_shapes(first, second)
    except ValueError:
        broadcast = (-1,)
    if broadcast == shape:
        yield 3.1, f"{a} * {b}"
        yield 3.4, f"{a} / {b}"
        yield 3.4, f"{b} / {a}"
    if shape == () and broadcast not in ((), (-1,)):
        yield 3.1, f"{prefix}sum({a} * {b})"
    ways = ((a, b, first, second), (b, a, second, first))
    for p, q, left, right in ways:
        if len(left) == len(right) == 1 and left + right == shape:
            yield 3.1, f"{prefix}outer({p}, {q})"
    for p, q, left, right in ways:
        if left and right and len(left) == 2:
            for spelled, rows, inner in ((p, left[0], left[1]), (f"{p}.T", left[1], left[0])):
                if inner == right[0] and (rows, *right[1:]) == shape:
                    yield 3.1, f"{spelled} @ {q}"


# The functions of a claim: which of the user's code it runs, the live functions with this code, and its syntax.

Definition = ast.FunctionDef | ast.Lambda
_LARGEST = 1_000_000  # bytes of a file that is edited
_WITH_CUSTOM_GRADIENT = {"custom_function", "custom_jvp", "custom_vjp"}  # decorators of JAX and MLX


def codes_run(call: Callable[[], Any]) -> list[CodeType]:
    """Return the code of the user's functions that a call runs, in the order of their first calls."""
    found: dict[CodeType, None] = {}

    def heard(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and is_users_file(frame.f_code.co_filename) and not frame.f_code.co_filename.startswith("<"):
            found.setdefault(frame.f_code)

    before = sys.getprofile()
    sys.setprofile(heard)
    try:
        call()
    finally:
        sys.setprofile(before)
    return list(found)


def live_functions(path: str) -> dict[str, list[FunctionType]]:
    """Return the functions of a file that exist now, by their qualified name."""
    found: dict[str, list[FunctionType]] = {}
    for x in gc.get_objects():
        if type(x) is FunctionType and x.__code__.co_filename == path:
            found.setdefault(x.__code__.co_qualname, []).append(x)
    return found


@dataclass(frozen=True)
class SourceFile:
    """A file of the user's, as text with the line ends as they are."""

    path: str
    text: str

    @classmethod
    def read(cls, path: str) -> "SourceFile | None":
        """Return a file in UTF-8; None if it is large, in another encoding, or no Python."""
        try:
            content = Path(path).read_bytes()
            found = cls(path, content.decode("utf-8"))
            _ = found.tree
        except (OSError, UnicodeDecodeError, SyntaxError, ValueError, RecursionError):
            return None
        return found if len(content) <= _LARGEST and not content.startswith(b"\xef\xbb\xbf") else None

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def definitions(self) -> dict[tuple[int, str], Definition]:
        """The functions of the file, by their first line and name, as their code objects give them."""
        found: dict[tuple[int, str], Definition] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.FunctionDef):
                found[first_line(node), node.name] = node
            elif isinstance(node, ast.Lambda):
                found.setdefault((node.lineno, "<lambda>"), node)
        return found

    def definition(self, code: CodeType) -> Definition | None:
        """Return the function that a code object was compiled from."""
        return self.definitions.get((code.co_firstlineno, code.co_name))

    @cached_property
    def forwards(self) -> set[Definition]:
        """The functions that compute the value: those with a custom gradient, and what `defvjp` registers beside it."""
        calls = [n for n in ast.walk(self.tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)]
        named = {getattr(n.args[0], "id", "") for n in calls if getattr(n.func, "attr", "") == "defvjp" and n.args}
        found = set()
        for (_, name), node in self.definitions.items():
            words = [word for d in getattr(node, "decorator_list", ()) for word in ast.walk(d)]
            custom = {getattr(w, "attr", getattr(w, "id", "")) for w in words} & _WITH_CUSTOM_GRADIENT
            if custom or name in named:
                found.add(node)
        return found

    def named_beside(self, those: Collection[Definition]) -> set[str]:
        """Return the names that the other functions of the file use."""
        return {name for node in self.definitions.values() if node not in those for name in _names_used(node)}

    def reached(self, roots: list[Definition]) -> set[Definition]:
        """Return the functions of this file that some of them may call, by their names, and these themselves."""
        named: dict[str, list[Definition]] = {}
        for (_, name), node in self.definitions.items():
            named.setdefault(name, []).append(node)
        found, waiting = set(roots), list(roots)
        while waiting:
            for name in _names_used(waiting.pop()):
                for other in named.get(name, []):
                    if other not in found:
                        found.add(other)
                        waiting.append(other)
        return found


_SCOPES = ast.FunctionDef | ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


def _names_used(definition: Definition) -> set[str]:
    """Return the names and attributes that a function uses, without those that it assigns itself, as `f` and `g` of an LSTM."""
    nodes = [*ast.walk(definition)]
    own = {a.arg for a in ast.walk(definition.args) if isinstance(a, ast.arg)}
    waiting: list[ast.AST] = definition.body if isinstance(definition, ast.FunctionDef) else []  # type: ignore[assignment]
    while waiting:
        inner = [n for n in waiting if not isinstance(n, _SCOPES)]  # those have names of their own
        own |= {n.id for n in inner if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        waiting = [child for n in inner for child in ast.iter_child_nodes(n)]
    names = {n.id for n in nodes if isinstance(n, ast.Name)}
    return (names - own) | {n.attr for n in nodes if isinstance(n, ast.Attribute)}


@dataclass(frozen=True)
class Unit:
    """A piece of a file that is compiled anew: a function or method, with what it is defined in."""

    first: int  # its lines, counted from 0
    last: int
    header: str  # the line of the class that the method is in


def unit_of(tree: ast.Module, node: ast.AST) -> Unit:
    """Return the smallest piece around a function that can be compiled alone."""
    line = getattr(node, "lineno", 1)
    top = next(s for s in tree.body if first_line(s) <= line <= (s.end_lineno or s.lineno))
    if isinstance(top, ast.ClassDef):
        for s in top.body:
            if first_line(s) <= line <= (s.end_lineno or s.lineno) and isinstance(s, ast.FunctionDef):
                return Unit(s.lineno - 1, s.end_lineno or s.lineno, f"class {top.name}:\n")
    start = top.lineno if isinstance(top, ast.FunctionDef) else first_line(top)
    return Unit(start - 1, top.end_lineno or top.lineno, "")


def first_line(node: ast.AST) -> int:
    """Return the first line of a definition or a statement, with its decorators."""
    line: int = getattr(node, "lineno", 1)
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([line, *(d.lineno for d in decorators)])


@dataclass
class CodeClaim:
    """A claim in a file: the functions that may be edited, and how it is called at each point.

    `call(number)` returns the gradient at a point in the shapes of the right one, and raises where there is none.
    """

    file: SourceFile
    definitions: tuple[Definition, ...]
    call: Callable[[int], Gradient]
    names: tuple[str, ...]  # the inputs, in the order of a tuple that is returned
    around: tuple[Definition, ...] = ()  # other functions, whose expressions may stand in the claim
    callable: tuple[Definition, ...] = ()  # functions that may be called in the place of another
    # those that may be edited and that code outside of the claim names, too
    shared: frozenset[Definition] = frozenset()
    forward: ForwardPass | None = None  # of the function
    lacks: bool = False  # whether what the function contributes may be missing
    scopes: dict[int, tuple[dict[str, Any], dict[str, Any]]] = field(default_factory=dict)
    loops: dict[Loop, LoopBody] = field(default_factory=dict)  # those that were run
    most_lines: dict[int, int] = field(default_factory=dict)  # that an edited text may run, by point

    @property
    def text(self) -> str:
        return self.file.text

    def watch(self) -> None:
        """Call the claim once, to know the values of its names at each line, and how many lines it runs."""
        statements, visits = self._lines_of_statements, Counter[int]()
        bodies = self._lines_of_loops if self.forward is not None else {}

        def note_values(frame: FrameType) -> None:
            statement = statements.get((frame.f_code.co_name, frame.f_lineno))
            for loop, k in bodies.get((frame.f_code.co_name, frame.f_lineno), ()):
                self.loops.setdefault(loop, LoopBody(loop, frame.f_globals)).note(k, frame.f_locals)
            if statement is not None and visits[statement] < _VISITS:
                visits[statement] += 1
                self.scopes[statement] = frame.f_globals, {n: copy_value(x) for n, x in frame.f_locals.items()}

        with _tracing_lines(self.file.path, note_values), contextlib.suppress(WrongShape):
            self.call(0)
        self._protect_arrays()

    def _protect_arrays(self) -> None:
        """Let no edited text write into arrays that outlive a call, unless the claim itself does."""
        functions = [f for functions in self._live.values() for f in functions]
        held = [x for f in functions for x in (*f.__globals__.values(), *closure_values(f).values())]
        kept = [x for x in held if isinstance(x, np.ndarray) and x.flags.writeable]
        for x in kept:
            x.flags.writeable = False
        try:
            with contextlib.suppress(WrongShape):
                self.call(0)
        except (BadClaim, ValueError):
            for x in kept:
                x.flags.writeable = True

    def _most_lines_at(self, number: int) -> int:
        """Return how many lines an edited text may run at a point, by those that the claim runs there, counted once."""
        if number not in self.most_lines:
            lines = 0

            def count_line(frame: FrameType) -> None:
                nonlocal lines
                lines += 1

            # what the claim raises here is said where it is called for its gradient
            with _tracing_lines(self.file.path, count_line), contextlib.suppress(Exception):
                self.call(number)
            self.most_lines[number] = MOST_LINES * max(lines, 10)
        return self.most_lines[number]

    def gradient(self, changes: Sequence[Change], number: int) -> Gradient | None:
        replaced: list[tuple[FunctionType, CodeType]] = []
        left = self._most_lines_at(number)

        def count_line(frame: FrameType) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise TooManyLines

        try:
            for function, code in self._changed_codes(changes):
                replaced.append((function, function.__code__))
                function.__code__ = code
            with np.errstate(all="ignore"), _tracing_lines(self.file.path, count_line):
                return self.call(number)
        except Exception:  # the edited text may raise anything; then it is no repair
            return None
        finally:
            for function, code in reversed(replaced):
                function.__code__ = code

    def edits(self, without: Collection[int] = ()) -> Iterator[Edit]:
        for definition in self.definitions:
            dearer = _OF_SHARED if definition in self.shared else 0.0
            for edit in self._edits_of(definition, without):
                yield replace(edit, cost=edit.cost + dearer) if dearer else edit

    def _edits_of(self, definition: Definition, without: Collection[int]) -> Iterator[Edit]:
        yield from exchange_of_statements(definition, self._source_text)
        yield from self._next_steps(definition)
        yield from self._contribution_edits(definition)
        yield from itertools.islice(self._contributions_in_loops(definition), _MOST_IN_LOOPS)
        # a factor is missing where it is used last
        for statement, alone in reversed([*_statements_of(definition)]):
            if statement.lineno in without:
                continue
            scope = self._scope_at(definition, statement)
            if isinstance(statement, ast.stmt):
                yield from statement_edits(statement, self._source_text, scope, alone)
                if scope is not None:
                    yield from update_edits(statement, self._source_text, scope)
                    yield from rename_edits(statement, self._source_text, scope)
            for node, parent in walk_expressions(statement):
                if scope is not None or isinstance(node, ast.Constant | ast.BinOp | ast.UnaryOp):
                    within = scope or Scope({}, lambda text: UNKNOWN)
                    yield from edits_of(EditPlace(node, parent, self._source_text, within))

    def _next_steps(self, definition: Definition) -> Iterator[Edit]:
        """Yield edits that take an adjoint one step further back: `ds / np.sqrt(d)` where `ds` is passed on as it is."""
        if self.forward is None or isinstance(definition, ast.Lambda):
            return
        for statement in definition.body:
            scope = self._scope_at(definition, statement)
            if scope is not None:
                places = self._places_of_steps(statement, scope)
                held = [place.value for place in places]
                yield from _write_steps(places, list_steps(self.forward, scope.values, held))
        for loop in [n for n in ast.walk(definition) if isinstance(n, ast.For | ast.While) and n in self.loops]:
            terms, pairs = self._visits_of_both[loop]
            constant = constant_terms(list(terms.values()))
            for k, statement in enumerate(loop.body) if pairs and pairs[0][0] == 0 else ():
                here, names = terms[0], self.loops[loop].visits[0].get(k, {})
                both = dict(here.outer), dict(names)
                places = self._places_of_steps(statement, Scope(names, lambda text, both=both: eval(text, *both)))  # type: ignore[misc]
                found = list_steps(pairs[0][1], here.values, [place.value for place in places], constant)
                spelled = [(x, term) for x, step in found if (term := here.spell(f"1{step}")) is not None]
                yield from _write_steps(places, [(x, t.text[1:]) for x, t in spelled if t.first <= k <= t.last])

    def _places_of_steps(self, statement: ast.stmt, scope: Scope) -> list[EditPlace]:
        """Return what a statement assigns, with its terms and items: after these, a step may be written."""
        if not isinstance(statement, ast.Assign | ast.AugAssign):
            return []
        nodes = walk_expressions(statement)
        places = (EditPlace(node, parent, self._source_text, scope) for node, parent in nodes)
        whole = ast.stmt | ast.List | ast.Tuple
        return [p for p in places if p.carries_numbers and (p.is_term or isinstance(p.parent, whole))]

    def _contribution_edits(self, definition: Definition) -> Iterator[Edit]:
        """Yield edits that add to a name of the claim what a value of the function contributes through one statement.

        It is added after the last assignment of what the contribution is computed from. Names that are
        spelled like the value, as `dx` and `grad_x` are, come before others of its shape.
        """
        if self.forward is None or not self.lacks or isinstance(definition, ast.Lambda):
            return
        body = definition.body
        _, claimed = self.scopes.get(body[-1].lineno, ({}, {}))
        written: dict[str, list[int]] = {}  # the statements of the body that write each name, and that read it
        read: dict[str, list[int]] = {}
        for k, statement in enumerate(body):
            for node in ast.walk(statement):
                base = node.value if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) else node
                if isinstance(base, ast.Name):
                    is_written = isinstance(getattr(node, "ctx", None), ast.Store)
                    (written if is_written else read).setdefault(base.id, []).append(k)
        targets = [n for n in written if n in claimed and is_number(claimed[n]) and not is_index(claimed[n])]
        for added in list_contributions(self.forward, claimed):
            wanted, plain = shape_of(self.forward.values[added.name]), self.forward.plain[added.name]
            fitting = [n for n in targets if n != plain and shape_of(claimed[n]) == wanted]
            used = {n.id for n in ast.walk(ast.parse(added.code)) if isinstance(n, ast.Name)}
            spelled = [n for n in fitting if plain in n] or fitting
            known = all(n in claimed or n not in self.forward.plain for n in used)
            for name in fitting if known and (used or spelled is not fitting) else ():
                k = max([written[name][0], *(written[n][-1] for n in used if n in written)])
                if max(read.get(name, [0])) > k:
                    cost = (0.8 if name in spelled else 2.4) + 0.1 * added.indirect + len(added.code) / 1000
                    change = self._add_after(body[k], name, added)
                    yield Edit("statement", cost, body[written[name][0]].lineno, (change,))

    def _contributions_in_loops(self, definition: Definition) -> Iterator[Edit]:
        """Yield edits that add, in a loop of the claim, what a value contributes in one visit of a loop of the function.

        Loops belong together that are run as often, forwards or backwards, and whose values have names in both. What is added
        stands where all that it is computed from has its value, before the name that it is added to is read again.
        """
        if self.forward is None or not self.lacks:
            return
        tried: set[tuple[Change, ...]] = set()
        names = [n for n in ast.walk(definition) if isinstance(n, ast.Name)]
        right = self.right_lines()
        # the line that assigns a name first, 0 if it assigns others too, or is right so far
        written: dict[str, int] = {}
        outputs: dict[str, tuple[str, ...]] = {}  # the inputs of the function whose gradients names are returned as
        for s, _ in _statements_of(definition):
            outputs |= {n.id: of for n, of in self._outputs_returned(definition, s).items() if isinstance(n, ast.Name)}
            stored = set() if hasattr(s, "body") else names_stored(s)
            for n in stored:
                written.setdefault(n, s.lineno if len(stored) == 1 and s.lineno not in right else 0)
        for body in [b for b in self.loops.values() if any(b.loop is n for n in ast.walk(definition))]:
            within = {id(n) for n in ast.walk(body.loop)}
            outside = {n.id for n in names if isinstance(n.ctx, ast.Load) and id(n) not in within}
            terms, pairs = self._visits_of_both[body.loop]
            constant = constant_terms(list(terms.values()))
            for k, visit in pairs:
                for added in list_contributions(visit, terms[k].values, constant):
                    for edit in self._added_in_loop(body, k, terms, visit, added, written, outside, outputs):
                        if edit.changes not in tried:
                            tried.add(edit.changes)
                            yield edit

    @cached_property
    def _visits_of_both(self) -> dict[Loop, tuple[dict[int, LoopTerms], list[tuple[int, ForwardPass]]]]:
        """For each loop of the claim what has a value in its first visits, and with them the visits of the function's loops."""
        found = {}
        for loop, body in self.loops.items():
            texts, numbers = subscripts_in(loop), range(min(VISITS, len(body.visits)))
            terms = {k: body.terms(k, texts) for k in numbers}
            constant = constant_terms(list(terms.values()))
            pairs: list[tuple[int, ForwardPass]] = []
            for other, visits in self.forward.visits.items() if self.forward is not None else ():
                if self.forward is not None and self.forward.counts[other] == body.count:
                    orders = ({k: body.count - 1 - k for k in numbers}, {k: k for k in numbers})
                    ways = [[(k, visits[order[k]]) for k in numbers if order[k] in visits] for order in orders]
                    named = [sum(count_names(visit, terms[k].values, constant) for k, visit in way) for way in ways]
                    pairs += ways[named.index(max(named))] if any(named) else []
            found[loop] = terms, pairs
        return found

    def right_lines(self) -> set[int]:
        """Return the lines of statements whose value is one that the function has, too, or the adjoint of one."""
        found: set[int] = set()
        if self.forward is None:
            return found
        for definition in self.definitions:
            body = [] if isinstance(definition, ast.Lambda) else definition.body
            for statement, later in itertools.pairwise(body):
                _, held = self.scopes.get(later.lineno, ({}, {}))
                if isinstance(later, ast.For | ast.While) and later in self.loops and self.loops[later].visits:
                    held = self.loops[later].visits[0].get(0, {})  # and not those of a later visit
                parts = parts_assigned(statement)
                values = [(value_of_part(part, held), ast.unparse(part)) for part in parts]
                if parts and all(self.forward.has_result(x, name, of_values=True) for x, name in values):
                    found |= set(range(statement.lineno, (statement.end_lineno or statement.lineno) + 1))
        for loop, loop_body in self.loops.items():
            _, pairs = self._visits_of_both[loop]
            for k in loop_body.right_statements(pairs):
                statement = loop.body[k]
                found |= set(range(statement.lineno, (statement.end_lineno or statement.lineno) + 1))
        return found

    def later_lines(self, right: Collection[int]) -> set[int]:
        """Return the lines of statements that read what another one of their block, not on a `right` line, has computed."""
        found: set[int] = set()
        known = [d for d in self.definitions if any(s.lineno in right for s, _ in _statements_of(d))]
        for block in itertools.chain.from_iterable(map(_blocks_of, known)):
            doubtful: set[str] = set()
            for s in block:
                if s.lineno in right:
                    doubtful -= names_stored(s)
                elif isinstance(s, ast.Assign | ast.AugAssign):
                    if names_read(s) & doubtful:
                        found |= set(range(s.lineno, (s.end_lineno or s.lineno) + 1))
                    if any(isinstance(n, ast.BinOp | ast.Call) for n in ast.walk(s.value)):  # else it is only read
                        doubtful |= names_stored(s)
        return found

    def _added_in_loop(
        self, body: LoopBody, number: int, terms: Mapping[int, LoopTerms], visit: ForwardPass, added: MissingPart,
        written: Mapping[str, int], outside: Collection[str], outputs: Mapping[str, tuple[str, ...]],
    ) -> Iterator[Edit]:  # fmt: skip
        """Yield edits that add a contribution of one visit to a name: to one that lacks it in this visit or in the next one.

        A sum over all visits is not known before the last one: what is added to it is found by its spelling.
        """
        here = terms[number]
        code, index = here.spell(added.code), here.spell(added.index) if added.index else None
        if code is None or (added.index and index is None):
            return
        first = max(code.first, index.first if index else 0)
        last = min(code.last, index.last if index else code.last)
        plain = visit.plain[added.name]
        stem = plain.lower().rstrip("s") or plain.lower()
        whole, wanted = visit.values[added.name], visit.value(ast.parse(added.part, mode="eval").body)
        targets = [(n, index.text if index else "") for n, shape in body.numbers.items() if shape == shape_of(whole)]
        if index is not None:  # or the adjoint of the part has a name of its own
            targets += [(n, "") for n, shape in body.numbers.items() if shape == shape_of(wanted)]
        targets += here.items_of_shape(shape_of(wanted))
        targets = [t for t in targets if t[0] in written and t[0] not in (plain, code.text)]
        spelled = [t for t in targets if stem in t[0].lower()]
        x, adjoint = here.value(added), visit.adjoint_of(added.part)
        if adjoint is UNKNOWN or not np.any(x) or (plain in visit.varying and not code.of_claim):
            return
        seen = [terms[k] for k in range(number, len(terms))]
        lacking = {t: holds for t in targets if (holds := here.lacks(seen, *t, x, adjoint)) is not None}
        varies = plain in visit.varying
        if varies:
            sure = [t for t in lacking if t in spelled] or [t for t in lacking if lacking[t]] or [*lacking]
            targets = list(dict.fromkeys((*sure, *(spelled if added.name in visit.shared else ()))))
        else:  # it is summed over all visits
            returned = [t for t in targets if plain in outputs.get(t[0], ())]
            targets = [t for t in targets if (t in spelled or t in returned) and t[0] not in body.assigned]
        for name, place in targets:
            for k in body.places_to_add(name, first, last, outside):
                change = self._add_in_loop(body, k, MissingPart(name, place, added.sign, code.text, added.indirect))
                if change is not None:
                    doubts = added.indirect + (varies and (name, place) not in lacking)
                    yield Edit("statement", 0.8 + 0.1 * doubts + len(code.text) / 1000, written[name], (change,))

    def _add_in_loop(self, body: LoopBody, k: int, added: MissingPart) -> Change | None:
        """Return the change that adds to a name before statement `k` of a loop's body; None where no line can be written."""
        statements, text = body.loop.body, self._source_text
        by_name = added.name in body.shared and not added.index and not isinstance(statements[k - 1], ast.Assign)
        if k and not hasattr(statements[k - 1], "body") and not by_name:
            return self._add_after(statements[k - 1], added.name, added)
        at = text.span(statements[k])[0] if k < len(statements) else len(self.text)
        start = self.text.rfind("\n", 0, at) + 1
        indent = self.text[start:at]
        if indent.strip() or k == len(statements):
            return None
        target = f"{added.name}[{added.index}]" if added.index else added.name
        if added.name in body.shared and not added.index:
            return Change(start, start, f"{indent}{target} = {target} {added.sign} {added.code}\n")
        return Change(start, start, f"{indent}{target} {added.sign}= {added.code}\n")

    def _add_after(self, statement: ast.stmt, name: str, added: MissingPart) -> Change:
        """Return the change that adds to a name, or to a part of it: in its own assignment, or in a line of its own after it."""
        text = self._source_text
        if isinstance(statement, ast.Assign) and text.piece(statement.targets[0]) == name and not added.index:
            operator = ast.Add if added.sign == "+" else ast.Sub
            code = added.code, binding_strength(ast.parse(added.code, mode="eval").body)
            if isinstance(statement.value, ast.Constant) and statement.value.value == 0:
                return Change(*text.span(statement.value), f"-({added.code})" if added.sign == "-" else added.code)
            return Change(*text.span(statement.value), write_operation(operator, text.code(statement.value), code)[0])
        end = self.text.find("\n", text.span(statement)[1])
        target = f"{name}[{added.index}]" if added.index else name
        return Change(end, end, f"\n{' ' * statement.col_offset}{target} {added.sign}= {added.code}")

    def composed(self, right: Right) -> Iterator[Edit]:
        claimed = self.gradient((), 0) or {}
        for definition in self.definitions:
            for statement, _ in _statements_of(definition):
                scope = self._scope_at(definition, statement)
                outputs = self._outputs_returned(definition, statement)
                if scope is None or not outputs:
                    continue
                for node, parent in walk_expressions(statement):
                    place = EditPlace(node, parent, self._source_text, scope)
                    for name in outputs.get(node, ()):
                        if name in right.gradient:
                            yield from missing_part_edits(place, name, claimed, right)

    def scaled(self) -> Mapping[int, tuple[Change, ...]]:
        found: dict[int, tuple[Change, ...]] = {}
        for definition in self.definitions:
            for statement, _ in _statements_of(definition):
                value = getattr(statement, "value", None)
                scope = self._scope_at(definition, statement)
                if not isinstance(statement, ast.Assign | ast.AugAssign) or value is None or scope is None:
                    continue
                x = scope.value(self._source_text.piece(value))
                if is_number(x) and np.asarray(x).dtype.kind == "f":
                    start, end = self._source_text.span(value)
                    change = Change(start, end, f"{_SCALE} * ({self._source_text.piece(value)}) + {_SHIFT}")
                    for line in range(statement.lineno, (statement.end_lineno or statement.lineno) + 1):
                        found[line] = (change,)
        return found

    def after(self, edit: Edit) -> "CodeClaim | None":
        text = apply_changes(self.text, edit.changes)
        try:
            file = SourceFile(self.file.path, text)
            definitions = []
            for d in self.definitions:
                name, first = getattr(d, "name", "<lambda>"), first_line(d)
                lines = (first, first - 1)  # it may have moved up by one
                definitions.append(next(file.definitions[k, name] for k in lines if (k, name) in file.definitions))
            codes = list(self._changed_codes(edit.changes))
        except (SyntaxError, KeyError, StopIteration):
            return None
        for function, code in codes:  # the process is there for this search alone
            function.__code__ = code
        shared = frozenset(d for d, own in zip(definitions, self.definitions, strict=True) if own in self.shared)
        other = CodeClaim(file, tuple(definitions), self.call, self.names, shared=shared, most_lines=self.most_lines)
        try:
            other.watch()
        except Exception:  # the half-repaired claim may raise anything; then nothing is built on it
            return None
        return other

    @cached_property
    def _source_text(self) -> Text:
        return Text(self.text, spans_of(self.text))

    @cached_property
    def _source_lines(self) -> list[str]:
        return lines_of(self.text)

    @cached_property
    def _live(self) -> dict[str, list[FunctionType]]:
        return live_functions(self.file.path)

    @cached_property
    def _units_by_definition(self) -> dict[Definition, Unit]:
        return {d: unit_of(self.file.tree, d) for d in self.definitions}

    def _changed_codes(self, changes: Sequence[Change]) -> Iterator[tuple[FunctionType, CodeType]]:
        """Yield the functions whose code changes, with their new code. Raises SyntaxError."""
        if not changes:
            return
        line = self.text.count("\n", 0, changes[0].start)
        unit = next(u for u in self._units_by_definition.values() if u.first <= line < u.last)
        start = sum(map(len, self._source_lines[: unit.first]))
        piece = "".join(self._source_lines[unit.first : unit.last])
        moved = [Change(c.start - start, c.end - start, c.new) for c in changes]
        flags = next((f.__code__.co_flags & _FUTURE for fs in self._live.values() for f in fs), 0)
        edited = unit.header + apply_changes(piece, moved)
        seen: dict[str, int] = {}
        for code in nested_codes(compile(edited, self.file.path, "exec", flags=flags, dont_inherit=True)):
            if code.co_name == "<module>":
                continue
            number = seen[code.co_qualname] = seen.get(code.co_qualname, -1) + 1
            functions = self._live.get(code.co_qualname, [])
            lines = sorted({f.__code__.co_firstlineno for f in functions})
            for function in functions:
                if len(lines) == 1 or (number < len(lines) and function.__code__.co_firstlineno == lines[number]):
                    yield function, code

    @cached_property
    def _lines_of_statements(self) -> dict[tuple[str, int], int]:
        """The line of the statement that each line of an edited function belongs to, by the function's name and the line."""
        found: dict[tuple[str, int], int] = {}
        for definition in self.definitions:
            name = getattr(definition, "name", "<lambda>")
            for statement, _ in _statements_of(definition):
                last = statement.lineno if hasattr(statement, "body") else statement.end_lineno or statement.lineno
                for line in range(statement.lineno, last + 1):
                    found[name, line] = statement.lineno
        return found

    @cached_property
    def _lines_of_loops(self) -> dict[tuple[str, int], list[tuple[Loop, int]]]:
        """The loops that a line of an edited function belongs to, by the function's name and the line.

        Each has the number of the statement of its body that begins there; -1 is the line of the loop itself.
        """
        found: dict[tuple[str, int], list[tuple[Loop, int]]] = {}
        for definition in self.definitions:
            name = getattr(definition, "name", "<lambda>")
            for loop, _ in _statements_of(definition):
                if isinstance(loop, ast.For | ast.While):
                    for k, statement in [(-1, loop), *enumerate(loop.body)]:
                        found.setdefault((name, statement.lineno), []).append((loop, k))
        return found

    def _scope_at(self, definition: Definition, statement: ast.AST) -> Scope | None:
        seen = self.scopes.get(getattr(statement, "lineno", 0))
        if seen is None:
            return None
        outer, values = seen

        def evaluate(text: str) -> Any:
            if any(word in text for word in _CHANGING):
                return UNKNOWN
            return eval(compile(text, self.file.path, "eval"), outer, dict(values))

        nodes = [n for n in ast.walk(definition) if isinstance(n, ast.Name)]
        loaded = {n.id for n in nodes if isinstance(n.ctx, ast.Load)}
        stored = {n.id for n in nodes if isinstance(n.ctx, ast.Store)}
        given = {a.arg for a in ast.walk(definition) if isinstance(a, ast.arg)}
        shared = {n: x for n, x in outer.items() if n in loaded and is_number(x)}
        own = {n: x for n, x in outer.items() if isinstance(x, FunctionType) and x.__globals__ is outer}
        functions = {n: x for n, x in own.items() if self.file.definition(x.__code__) in self.callable}
        unread = frozenset((stored | given) - loaded)
        # how the code spells its array library: `np.`
        modules = [(name, getattr(x, "__name__", "")) for name, x in outer.items() if type(x).__name__ == "module"]
        prefix = next((f"{name}." for library in _LIBRARIES for name, of in modules if of == library), "np.")
        around, of_f = self._texts_around
        of_slopes = [new.format(prefix) for new, named in _OF_SLOPES.items() if any(map(named.search, around))]
        around = (*(text for text in of_slopes if text not in around), *around)
        return Scope(
            {**functions, **shared, **values}, evaluate, unread, prefix, around, of_f.union(of_slopes), frozenset(given)
        )

    @cached_property
    def _texts_around(self) -> tuple[tuple[str, ...], frozenset[str]]:
        """The texts of the expressions of the code, and those of them that only other functions have."""
        around = texts_of_expressions(self._source_text, [*self.definitions, *self.around])
        return around, frozenset(around) - frozenset(texts_of_expressions(self._source_text, self.definitions))

    def _outputs_returned(self, definition: Definition, statement: ast.AST) -> Mapping[ast.AST, tuple[str, ...]]:
        """Return which inputs' gradients an expression of a return statement is, in the function that is called first."""
        value = statement.body if isinstance(statement, ast.Lambda) else getattr(statement, "value", None)
        if definition is not self.definitions[0] or not isinstance(statement, ast.Return | ast.Lambda) or value is None:
            return {}
        if isinstance(value, ast.Dict):
            keys = [k.value if isinstance(k, ast.Constant) else None for k in value.keys]
            return {v: (k,) for k, v in zip(keys, value.values, strict=True) if isinstance(k, str)}
        if isinstance(value, ast.Call) and getattr(value.func, "id", "") == "dict":
            return {k.value: (k.arg,) for k in value.keywords if k.arg}
        if isinstance(value, ast.Tuple | ast.List):
            return {v: (n,) for v, n in zip(value.elts, self.names, strict=False)}
        return {value: self.names[:1]}


def _write_steps(places: Sequence[EditPlace], steps: Iterable[tuple[Any, str]]) -> Iterator[Edit]:
    """Yield edits that write a step after each place that has its value: where it is copied, before where it is made."""
    for x, step in steps:
        for place in places:
            if is_same(x, place.value):
                cost = (0.85 if isinstance(place.node, ast.Name) else 0.9) + len(step) / 1000
                new = bracket_operand(*place.code, ast.Mult) + step
                yield replace(place.edit("factor", cost, new, BINDING[ast.Mult]), is_next_step=True)


def _statements_of(definition: Definition) -> Iterator[tuple[Any, bool]]:
    """Yield the statements of a function, with whether each is alone in its block; a lambda is a statement itself."""
    if isinstance(definition, ast.Lambda):
        yield definition, True
    for block in _blocks_of(definition):
        for statement in block:
            is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
            if not isinstance(statement, ast.FunctionDef | ast.ClassDef) and not is_text:
                yield statement, len(block) == 1


def _blocks_of(definition: Definition) -> Iterator[list[ast.stmt]]:
    """Yield the blocks of a function, the outer ones first, without those of functions inside it."""
    blocks = [] if isinstance(definition, ast.Lambda) else [definition.body]
    while blocks:
        block = blocks.pop(0)
        yield block
        for statement in block:
            if isinstance(statement, ast.FunctionDef | ast.ClassDef):
                continue
            for name in ("body", "orelse", "finalbody"):
                inner = getattr(statement, name, None)
                if isinstance(inner, list) and inner and isinstance(inner[0], ast.stmt):
                    blocks.append(inner)


def exchange_of_statements(definition: Definition, text: Text) -> Iterator[Edit]:
    """Yield edits that exchange two statements, of which one updates a name and the other reads it, as in a recursion."""
    for block in _blocks_of(definition):
        for first, second in itertools.pairwise(block):
            if isinstance(second, ast.Return):
                continue
            if any(_updates(a) & names_read(b) for a, b in ((first, second), (second, first))):
                whole = Change(*text.span(first), text.piece(second)), Change(*text.span(second), text.piece(first))
                yield Edit("order", 1.2, first.lineno, whole)


def _updates(statement: ast.stmt) -> set[str]:
    """Return the name that a statement gives another value, made of its own: `x` of `x = a * x` and of `x += a`."""
    if isinstance(statement, ast.AugAssign):
        return names_read(statement.target)
    if not isinstance(statement, ast.Assign):
        return set()
    return {n.id for n in statement.targets if isinstance(n, ast.Name)} & names_read(statement.value)


@contextlib.contextmanager
def _tracing_lines(path: str, note: Callable[[FrameType], None]) -> Iterator[None]:
    """Call `note` before each line of a file's functions that is run within."""

    def trace_line(frame: FrameType, event: str, _: Any) -> Any:
        note(frame)
        return trace_line

    before = sys.gettrace()
    sys.settrace(lambda frame, event, _: trace_line if frame.f_code.co_filename == path else None)
    try:
        yield
    finally:
        sys.settrace(before)
