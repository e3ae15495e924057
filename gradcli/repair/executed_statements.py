"""The statements that a function ran, one after the other, with every value that was assigned under a name of its own.

A name that is assigned again, as in a loop, stands for several values: `h`, `h__2`, `h__3`. What functions of the same file ran
stands where they were called.
"""

import ast
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from types import CodeType, FrameType
from typing import Any, cast

from gradcli.arithmetic.tape import CONSTANT, Recorded
from gradcli.classes import dataclass

VISITS = 3  # of a loop's body, from the first and from the last one, that are looked at
_MOST = 20_000  # statements that are run
_LONGEST_LIST = 300
Definitions = Callable[[CodeType], ast.AST | None]  # the function that a code object was compiled from


@dataclass(frozen=True)
class _NamedValue:
    """A value of a name: its place on the tape, where it has one, or the value."""

    tape: Any
    slot: int
    value: Any

    @classmethod
    def of(cls, x: Any) -> "_NamedValue":
        if isinstance(x, Recorded) and x.slot != CONSTANT:
            return cls(x.tape, x.slot, None)
        return cls(None, CONSTANT, getattr(x, "primal", x))


@dataclass
class _StatementRun:
    """A statement that was run, or the next visit of a loop's body: what it assigned, and the calls that it made."""

    statement: ast.stmt
    loop: ast.stmt | None  # the innermost one around it
    visit: int  # of the loop's body; -1 outside of it
    stored: dict[str, _NamedValue] = field(default_factory=dict)
    calls: deque["_Call"] = field(default_factory=deque)


@dataclass
class _Call:
    """A call of a function, and the statements that it ran."""

    definition: ast.FunctionDef
    code: CodeType
    outer: Mapping[str, Any]
    given: dict[str, _NamedValue]
    ran: list[_StatementRun] = field(default_factory=list)
    visits: Counter[ast.stmt] = field(default_factory=Counter)
    made: _NamedValue | None = None

    def is_on(self, tape: Any) -> bool:
        """Whether a value of the call is on a tape."""
        stored = (x for ran in self.ran for x in ran.stored.values())
        return any(x.tape is tape for x in (*stored, self.made) if x is not None)


class _Layout:
    """Where the statements of a function stand: by their lines, and the loop around each."""

    def __init__(self, definition: ast.FunctionDef) -> None:
        self.at: dict[int, ast.stmt] = {}
        self.loop: dict[ast.stmt, ast.stmt | None] = {}
        self.first: dict[ast.stmt, ast.stmt] = {}  # the loop whose body a statement begins
        self._add(definition.body, None)

    def _add(self, block: list[ast.stmt], loop: ast.stmt | None) -> None:
        for s in block:
            inner: list[ast.stmt] = getattr(s, "body", [])
            for line in range(s.lineno, (s.lineno if inner else s.end_lineno or s.lineno) + 1):
                self.at.setdefault(line, s)
            self.loop[s] = loop
            inside = s if isinstance(s, ast.For | ast.While) else loop
            if inside is s:
                self.first[inner[0]] = s
            if not isinstance(s, ast.FunctionDef | ast.ClassDef):
                self._add(inner, inside)
            for name in ("orelse", "finalbody"):
                self._add(getattr(s, name, []), loop)


def _names_stored(statement: ast.stmt) -> set[str]:
    """Return the names that a statement gives a value, changes in part, or appends to."""
    match statement:
        case ast.For(target):
            roots: list[ast.AST] = [target]
        case ast.Assign(targets):
            roots = [*targets]
        case ast.AugAssign(target) | ast.AnnAssign(target):
            roots = [target]
        case ast.Expr(ast.Call(ast.Attribute(ast.Name(name), "append"))):
            return {name}
        case _:
            return set()
    return {n.id for root in roots for n in ast.walk(root) if isinstance(n, ast.Name)}


class StatementRecorder:
    """Records the statements that a function and the functions of its file run, while it is traced."""

    def __init__(self, code: CodeType, definitions: Definitions) -> None:
        self.runs: list[_Call] = []  # of the function itself
        self._root = code.co_name, code.co_firstlineno
        self._path = code.co_filename
        self._definitions = definitions
        self._layouts: dict[CodeType, _Layout | None] = {}
        self._open: dict[FrameType | None, _Call] = {}
        self._count = 0

    def trace(self, frame: FrameType, event: str, _: Any) -> Any:
        """Trace a call, as `sys.settrace` wants it."""
        code = frame.f_code
        if event != "call" or code.co_filename != self._path or self._count > _MOST:
            return None
        is_root = (code.co_name, code.co_firstlineno) == self._root
        parent = None if is_root else self._open.get(frame.f_back)
        if not is_root and parent is None:
            return None
        layout = self._layout(code)
        if layout is None:
            return None
        definition = self._definitions(code)
        assert isinstance(definition, ast.FunctionDef)
        given = {n: _NamedValue.of(x) for n, x in frame.f_locals.items()}
        call = _Call(definition, code, frame.f_globals, given)
        if is_root:
            self.runs.append(call)
        elif parent is not None and parent.ran:
            parent.ran[-1].calls.append(call)
        self._open[frame] = call
        return self._trace_lines(call, layout)

    def _layout(self, code: CodeType) -> _Layout | None:
        if code not in self._layouts:
            definition = self._definitions(code)
            self._layouts[code] = _Layout(definition) if isinstance(definition, ast.FunctionDef) else None
        return self._layouts[code]

    def _trace_lines(self, call: _Call, layout: _Layout) -> Callable[..., Any]:
        def note_values(frame: FrameType) -> None:
            if call.ran:
                last = call.ran[-1]
                held = frame.f_locals
                for n in _names_stored(last.statement):
                    if n in held and n not in last.stored:
                        x = held[n]
                        last.stored[n] = _NamedValue.of(x)
                        if type(x) is list:  # it may grow
                            last.stored[n] = _NamedValue(None, CONSTANT, x[:] if len(x) <= _LONGEST_LIST else None)

        def trace_line(frame: FrameType, event: str, arg: Any) -> Any:
            self._count += 1
            if self._count > _MOST:
                return None
            if event == "line":
                s = layout.at.get(frame.f_lineno)
                if s is None or (call.ran and call.ran[-1].statement is s and not hasattr(s, "body")):
                    return trace_line
                note_values(frame)
                loop = layout.first.get(s)
                if loop is not None:
                    call.visits[loop] += 1
                    if call.ran and call.ran[-1].statement is loop:
                        call.ran[-1].visit = call.visits[loop] - 1
                around = s if isinstance(s, ast.For) else layout.loop[s]  # its targets belong to its body
                visit = -1 if around is None or around is s else call.visits[around] - 1
                call.ran.append(_StatementRun(s, around, visit))
            elif event == "return":
                note_values(frame)
                call.made = _NamedValue.of(arg)
                self._open.pop(frame, None)
            return trace_line

        return trace_line


Block = tuple[int, ast.stmt, int] | None  # one visit of a loop's body, in one call; None is what is in no loop


@dataclass(frozen=True)
class NamedStatement:
    """What is assigned to a name that stands for one value; the name is "" for what is returned."""

    name: str
    expression: ast.expr
    block: Block


@dataclass
class NamedStatements:
    """The statements of one call of a function, and what each name stands for."""

    outer: Mapping[str, Any]
    statements: list[NamedStatement] = field(default_factory=list)
    seen: dict[str, _NamedValue] = field(default_factory=dict)
    parts: dict[str, tuple[str, ast.expr]] = field(default_factory=dict)  # of parts of arrays: the array, the index
    plain: dict[str, str] = field(default_factory=dict)  # each name as the function calls it
    visits: dict[tuple[int, ast.stmt], int] = field(default_factory=dict)  # of each loop's body
    _used: Counter[str] = field(default_factory=Counter)
    _lambdas: dict[str, ast.Lambda] = field(default_factory=dict)  # by the name that a statement gave them
    _by_slot: dict[tuple[int, int], str] = field(default_factory=dict)  # the first name of a value on the tape

    @classmethod
    def of(cls, call: _Call) -> "NamedStatements":
        """Return the statements of a call that was recorded."""
        found = cls(call.outer)
        found._add(call, {n: found._new_name(n, x) for n, x in call.given.items()}, None, is_root=True)
        return found

    def _new_name(self, plain: str, x: _NamedValue | None) -> str:
        self._used[plain] += 1
        name = plain if self._used[plain] == 1 else f"{plain}__{self._used[plain]}"
        self.plain[name] = plain
        if x is not None:
            self.seen[name] = x
            if x.tape is not None:
                self._by_slot.setdefault((id(x.tape), x.slot), name)
        return name

    def _add(self, call: _Call, names: dict[str, str], around: Block, *, is_root: bool) -> ast.expr | None:
        """Add the statements of a call, whose names are changed, and return what it returns."""
        made: ast.expr | None = None
        for loop, count in call.visits.items():
            self.visits[id(call), loop] = count
        for ran in call.ran:
            s = ran.statement
            if isinstance(s, ast.For) and ran.visit < 0:  # the loop has ended
                continue
            block, count = around, 0
            if ran.loop is not None:
                block, count = (id(call), ran.loop, ran.visit), call.visits[ran.loop]
            within = _PlaceOfRun(ran, names, block)
            if block is around or ran.visit < VISITS or ran.visit >= count - VISITS:
                match s:
                    case ast.For(target, iterated):
                        step = self._new_name("step", _NamedValue(None, CONSTANT, ran.visit))
                        self._assign_items(target, iterated, ast.Name(step, ast.Load()), within)
                    case ast.Assign([ast.Name(n)], ast.Lambda() as function):
                        self._lambdas[n] = function
                    case ast.Assign(targets, value):
                        code = self._translate(value, within)
                        for target in targets:
                            self._assign(target, code, within)
                    case ast.AnnAssign(target, _, value) if value is not None:
                        self._assign(target, self._translate(value, within), within)
                    case ast.AugAssign(target, operator, value):
                        code = self._translate(value, within)
                        if isinstance(target, ast.Name):
                            code = ast.BinOp(self._translate(target, within), operator, code)
                        elif isinstance(operator, ast.Sub):
                            code = ast.UnaryOp(ast.USub(), code)
                        if isinstance(target, ast.Name) or isinstance(operator, ast.Add | ast.Sub):
                            self._assign(target, code, within)
                    case ast.Expr(ast.Call(ast.Attribute(ast.Name(n), "append"), [value])):
                        held = ran.stored.get(n)
                        if held is not None and isinstance(held.value, list) and held.value:
                            code = self._translate(value, within)
                            item = self._new_name(n, _NamedValue.of(held.value[-1]))
                            self.statements.append(NamedStatement(item, code, block))
                    case ast.Return(value) if value is not None:
                        made = self._translate(value, within)
                        if is_root:
                            whole = made.elts[0] if isinstance(made, ast.Tuple) and made.elts else made
                            self.statements.append(NamedStatement("", whole, block))
            for n, x in ran.stored.items():
                if n not in within.assigned:
                    names[n] = self._new_name(n, x)
            names.update(within.assigned)
        return made

    def _assign(self, target: ast.expr, code: ast.expr, within: "_PlaceOfRun") -> None:
        stored = within.ran.stored
        match target:
            case ast.Name(n):
                last, value = self.statements[-1:], getattr(within.ran.statement, "value", None)
                called = getattr(value.func, "id", None) if isinstance(value, ast.Call) else None
                if isinstance(code, ast.Name) and last and last[0].name == code.id and self.plain[code.id] == called:
                    code = self.statements.pop().expression  # what the function returned has a name now
                new = within.assigned[n] = self._new_name(n, stored.get(n))
                self.statements.append(NamedStatement(new, code, within.block))
            case ast.Tuple(items) | ast.List(items):
                parts: list[ast.expr] = [ast.Subscript(code, ast.Constant(k), ast.Load()) for k in range(len(items))]
                if isinstance(code, ast.Tuple | ast.List) and len(code.elts) == len(items):
                    parts = code.elts
                for item, part in zip(items, parts, strict=True):
                    self._assign(item, part, within)
            case ast.Subscript(ast.Name(n), index):
                place = self._translate(index, within)
                whole = within.assigned[n] = self._new_name(n, stored.get(n))
                part_name = self._new_name(n, None)
                self.parts[part_name] = whole, place
                self.statements.append(NamedStatement(part_name, code, within.block))

    def _assign_items(self, target: ast.expr, iterated: ast.expr, step: ast.expr, within: "_PlaceOfRun") -> None:
        """Assign the items of arrays that a loop runs over."""
        match target, iterated:
            case ast.Name(), ast.Name():
                self._assign(target, ast.Subscript(self._translate(iterated, within), step, ast.Load()), within)
            case ast.Tuple(items), ast.Call(ast.Name("zip"), arrays) if len(items) == len(arrays):
                for item, array in zip(items, arrays, strict=True):
                    self._assign_items(item, array, step, within)
            case ast.Tuple([_, item]), ast.Call(ast.Name("enumerate"), [array]):
                self._assign_items(item, array, step, within)

    def _translate(self, code: ast.expr, within: "_PlaceOfRun") -> ast.expr:
        """Return an expression of the function in names that stand for one value each, with calls of its own functions inside."""
        match code:
            case ast.Name(n):
                return ast.Name(within.names.get(n, n), ast.Load())
            case ast.Subscript(ast.Name(n), index):
                held = self.seen.get(within.names.get(n, ""))
                place = self._translate(index, within)
                item = self._item_of_list(held.value, place) if held is not None else None
                return item or ast.Subscript(self._translate(code.value, within), place, ast.Load())
            case ast.Call(ast.Name(n), given, []) if n in self._lambdas:
                parameters = [a.arg for a in self._lambdas[n].args.args]
                free = {n: x for n, x in within.names.items() if n not in parameters}
                body = self._translate(self._lambdas[n].body, replace(within, names=free))
                values = dict(zip(parameters, [self._translate(x, within) for x in given], strict=False))
                return cast(ast.expr, _Substitution(values).visit(body))
            case ast.Call(ast.Name(n), args, keywords):
                given = [self._translate(a, within) for a in args]
                named = {k.arg: self._translate(k.value, within) for k in keywords}
                calls = within.ran.calls
                if calls and calls[0].definition.name == n:
                    made = self._call(calls.popleft(), given, named, within)
                    if made is not None:
                        return made
                return ast.Call(code.func, given, [ast.keyword(k, v) for k, v in named.items()])
            case ast.Lambda() | ast.ListComp() | ast.GeneratorExp() | ast.DictComp() | ast.SetComp():
                return code
        made_anew = type(code)(**dict(ast.iter_fields(code)))
        for name, value in ast.iter_fields(code):
            if isinstance(value, ast.expr):
                setattr(made_anew, name, self._translate(value, within))
            elif isinstance(value, list):
                translated = [
                    self._translate(v, within) if isinstance(v, ast.expr)
                    else ast.keyword(v.arg, self._translate(v.value, within)) if isinstance(v, ast.keyword)
                    else v
                    for v in value
                ]  # fmt: skip
                setattr(made_anew, name, translated)
        return made_anew

    def _item_of_list(self, held: Any, place: ast.expr) -> ast.expr | None:
        if not isinstance(held, list):
            return None
        values = {n.id: self.seen[n.id].value for n in ast.walk(place) if isinstance(n, ast.Name) and n.id in self.seen}
        try:
            x = _NamedValue.of(held[eval(ast.unparse(place), {}, values)])
        except Exception:  # whatever is wrong with the index, nothing is written from it
            return None
        name = self._by_slot.get((id(x.tape), x.slot)) if x.tape is not None else self._new_name("item", x)
        return ast.Name(name, ast.Load()) if name is not None else None

    def _call(
        self, call: _Call, given: Sequence[ast.expr], named: Mapping[str | None, ast.expr], within: "_PlaceOfRun"
    ) -> ast.expr | None:
        """Add the statements of a function that was called, and return what it returns."""
        parameters = [a.arg for a in (*call.definition.args.posonlyargs, *call.definition.args.args)]
        arguments = {**dict(zip(parameters, given, strict=False)), **{n: v for n, v in named.items() if n is not None}}
        names: dict[str, str] = {}
        for n, x in call.given.items():
            argument = arguments.get(n)
            if argument is None and n in within.names and n not in parameters:  # of the function around it
                names[n] = within.names[n]
            elif argument is None:
                names[n] = self._new_name(n, x)
            elif isinstance(argument, ast.Name) and argument.id in self.plain:
                names[n] = argument.id
            else:
                names[n] = self._new_name(n, x)
                self.statements.append(NamedStatement(names[n], argument, within.block))
        made = self._add(call, names, within.block, is_root=False)
        if made is None or isinstance(made, ast.Tuple | ast.Name) or call.made is None:
            return made
        name = self._new_name(call.definition.name, call.made)
        self.statements.append(NamedStatement(name, made, within.block))
        return ast.Name(name, ast.Load())


class _Substitution(ast.NodeTransformer):
    """Puts expressions in the places of names."""

    def __init__(self, values: Mapping[str, ast.expr]) -> None:
        self._values = values

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._values.get(node.id, node)


@dataclass
class _PlaceOfRun:
    """A statement that was run, the names before it, and those that it assigns."""

    ran: _StatementRun
    names: dict[str, str]
    block: Block
    assigned: dict[str, str] = field(default_factory=dict)
