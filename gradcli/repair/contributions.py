"""What a value of the function contributes to the gradient through one statement, as code in the names of the claim.

A hand-written backward pass that lacks a line lacks such a contribution: `dcentred += 2 * centred * dvar / n` for
`var = np.mean(centred**2, axis=1)`. It is written from the function's own statement by the rules of the textbook, with the
claim's names for the values and adjoints that it has. What is written is a candidate: it is tried like every other edit.
"""

import ast
import math
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import cached_property, reduce
from types import CodeType, ModuleType
from typing import Any

import numpy as np

from gradcli.arithmetic.tape import Recorded
from gradcli.classes import dataclass
from gradcli.modes.mode import Question
from gradcli.repair.executed_statements import Block, NamedStatements, StatementRecorder
from gradcli.repair.scope import UNKNOWN, is_index, is_number, shape_of
from gradcli.targets.nesting import put_together, take_apart
from gradcli.tracing.shapes import shape
from gradcli.tracing.tracer import plain_value

_NUMPY = "numpy_of_f"  # stands for the name that the function's file has for numpy
_ADJOINT = "adjoint_of_"  # before a name of the function: its adjoint, until the claim's name for it is known
_DEPTH = 4  # statements written into each other for a value that has no name in the claim
_SHORT = 8  # characters of a product of numbers that is written as one
_LONGEST = 100  # characters of what is added
_SAME = 1e-9  # relative to the largest entry: two values that are the same but for rounding
Adjoint = ast.expr | None  # None stands for one


@dataclass(frozen=True)
class ForwardPass:
    """What a function computes at one point, outside of its loops or in one visit of a loop: statements, values, adjoints.

    `statements` are pairs of the name that is assigned, "" for what is returned, and the expression. The first `own` of them
    are those looked at. Each name stands for one value; `plain` is what the function calls it.
    """

    statements: tuple[tuple[str, ast.expr], ...]
    values: Mapping[str, Any]
    adjoints: Mapping[str, Any]
    most: int  # expressions that are evaluated
    plain: Mapping[str, str]
    own: int
    visit: int  # of the loop, 0 outside of loops
    shared: frozenset[str]  # names of values that have another name, too: their adjoints are those of all of these
    varying: frozenset[str] = frozenset()  # what the function calls the values that each visit of the loop has anew
    # of loops: the last ones
    visits: Mapping[tuple[int, ast.stmt], Mapping[int, "ForwardPass"]] = field(default_factory=dict)
    counts: Mapping[tuple[int, ast.stmt], int] = field(default_factory=dict)  # the visits of each loop
    known: dict[str, Any] = field(default_factory=dict)

    @property
    def numpy(self) -> str:
        """The name that the function's file has for numpy."""
        return next((name for name, x in self.values.items() if x is np), "np")

    def value(self, node: ast.expr) -> Any:
        """Return the value of an expression in the names of the function; UNKNOWN where it has none, or `most` are known."""
        text = ast.unparse(node)
        if text not in self.known and len(self.known) < self.most:
            names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
            held = {n: self.values[n] for n in names if n in self.values}
            adjoints = {n: self.adjoints[n.removeprefix(_ADJOINT)] for n in names if n.startswith(_ADJOINT)}
            try:
                with np.errstate(all="ignore"):
                    found = eval(compile(text, "<statement>", "eval"), {**held, **adjoints, _NUMPY: np})
            except Exception:  # the user's names and shapes: whatever is wrong with it, nothing is written from it
                found = UNKNOWN
            self.known[text] = found
        return self.known.get(text, UNKNOWN)

    def has_result(self, value: Any, name: str, *, of_values: bool) -> bool:
        """Whether a value that a claim gives a name is the adjoint of a value of the statements, or, `of_values`, such a value.

        Where some of these are spelled like the name, it is one of them. Zero and one tell nothing.
        """
        wanted = shape_of(value)
        fitting = [r for r in self._results if is_number(value) and r[2].shape == wanted and (of_values or r[1])]
        spelled = [r for r in fitting if r[0].lower() in name.lower()] or fitting
        return any(bool(np.all(np.abs(x - value) <= _SAME * np.max(np.abs(x)))) for _, _, x in spelled)

    @cached_property
    def _results(self) -> list[tuple[str, bool, Any]]:
        """What the function calls the names in the statements, with each value and adjoint that is neither zero nor one."""
        own = self.statements[: self.own]
        names = {n.id for _, e in own for n in ast.walk(e) if isinstance(n, ast.Name)}.union(out for out, _ in own)
        held = [
            (self.plain[n], is_adjoint, np.asarray(of[n]))
            for n in sorted(names & self.plain.keys())
            for is_adjoint, of in ((False, self.values), (True, self.adjoints))
            if n in of and is_number(of[n]) and not is_index(of[n])
        ]
        return [r for r in held if r[2].dtype.kind == "f" and np.any(r[2]) and (r[2].shape or abs(r[2]) != 1)]

    @cached_property
    def chains(self) -> list[tuple[ast.expr, ...]]:
        """The adjoints from that of each name in the statements to those of operands from which it is computed by entries."""
        own = [(out, e, self.adjoints[out]) for out, e in reversed(self.statements[: self.own]) if out in self.adjoints]
        told = [(out, e) for out, e, x in own if np.any(x) and not (shape_of(x) == () and abs(x) == 1)]
        return [chain for out, e in told for chain in _pull_entries(self, e, (_name(_ADJOINT + out),))]

    def adjoint_of(self, text: str) -> Any:
        """Return the adjoint of a name, or of a part of it; UNKNOWN if it has none."""
        node = ast.parse(text, mode="eval").body
        for n in ast.walk(node):
            if isinstance(n, ast.Name) and n.id in self.adjoints and n.id == text.partition("[")[0]:
                n.id = _ADJOINT + n.id
                break
        else:
            return UNKNOWN
        return self.value(node)


def read_forward_pass(
    q: Question, code: CodeType, definitions: Callable[[CodeType], ast.AST | None], most: int
) -> ForwardPass | None:
    """Return the statements of the function of a question and what they computed; None if it cannot be traced to a number.

    `definitions` gives the function that a code object was compiled from; `most` expressions are evaluated.
    """
    recorder = StatementRecorder(code, definitions)
    before = sys.gettrace()
    sys.settrace(recorder.trace)
    try:
        traced = q.untraced is None and q.recording.moves
    finally:
        sys.settrace(before)
    if not traced or shape(q.value) != () or not isinstance(q.recording.y, Recorded):
        return None
    tape = q.recording.tape
    run = next((r for r in reversed(recorder.runs) if r.made is not None and r.is_on(tape)), None)
    if run is None:
        return None
    bars = tape.sweep(q.recording.y.slot, np.float64(1.0))
    named = NamedStatements.of(run)
    held = {n: tape.value(x.slot) if x.tape is tape else _plain_parts(x.value) for n, x in named.seen.items()}
    values = {**named.outer, **held}
    slots = {n: x.slot for n, x in named.seen.items() if x.tape is tape}
    adjoints = {n: bars[slot] for n, slot in slots.items() if bars[slot] is not None}
    for part, (whole, index) in named.parts.items():
        if whole in adjoints:
            try:
                place = eval(ast.unparse(ast.Subscript(_name("_"), index, ast.Load())), {**values, "_": _IndexItself()})
                values[part], adjoints[part] = values[whole][place], adjoints[whole][place]
            except Exception:  # an index of the user's: whatever is wrong with it, nothing is written from it
                continue
    times = Counter(slots.values())
    shared = frozenset(n for n, slot in slots.items() if times[slot] > 1)
    blocks: dict[Block, list[tuple[str, ast.expr]]] = {None: []}
    for s in named.statements:
        blocks.setdefault(s.block, []).append((s.name, s.expression))
    ends = {s.block: k for k, s in enumerate(named.statements)}
    visits: dict[tuple[int, ast.stmt], dict[int, ForwardPass]] = {}
    for block, own in blocks.items():
        if block is not None:
            loop = block[:2]
            is_last = block[2] == named.visits[loop] - 1
            after = [(s.name, s.expression) for s in named.statements[ends[block] + 1 :] if s.block is None]
            seen = (*own, *(after if is_last else ()))
            stored = {n.id for n in ast.walk(loop[1]) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
            varying = frozenset(stored.union(named.plain[out] for out, _ in own if out))
            visit = ForwardPass(seen, values, adjoints, most, named.plain, len(own), block[2], shared, varying)
            visits.setdefault(loop, {})[block[2]] = visit
    straight = tuple(blocks[None])
    return ForwardPass(
        straight, values, adjoints, most, named.plain, len(straight), 0, shared, visits=visits, counts=named.visits
    )


def _plain_parts(x: Any) -> Any:
    """Return a value without tracing, also inside a list or a dict that the function keeps values in."""
    node, parts = take_apart("", x)
    return put_together(node, {path: plain_value(part) for path, part in parts.items()})


class _IndexItself:
    def __getitem__(self, index: Any) -> Any:
        return index


@dataclass(frozen=True)
class MissingPart:
    """What is added to the adjoint of a value, or of the part of it that `index` names: the code, and its sign.

    `name` is the value, and `part` the part of it, in names of the statements. It is `indirect` where the claim has no name for
    the adjoint of the statement.
    """

    name: str
    index: str
    sign: str
    code: str
    indirect: bool
    part: str = ""


def list_contributions(
    forward: ForwardPass, claimed: Mapping[str, Any], constant: frozenset[str] = frozenset()
) -> Iterator[MissingPart]:
    """Yield what each value contributes through each statement, in the names of the claim, whose values are `claimed`.

    Of these, the `constant` ones are the same in each visit of a loop.
    """
    names = _ClaimNames(forward, claimed, constant)
    for out, expression in reversed(forward.statements[: forward.own]):
        if out in forward.adjoints and not names.has_adjoint(out):
            names.write_adjoint(out)
        adjoint = names.adjoint(out)
        if adjoint is None:
            continue
        found: dict[tuple[str, str, str], list[ast.expr]] = {}
        for name, index, code in _pull_back(forward, expression, adjoint[0]):
            if name in forward.adjoints:
                part = name if index is None else f"{name}[{_text_in_brackets(index)}]"
                place = name, part, "" if index is None else _text_in_brackets(names.translate(index))
                found.setdefault(place, []).append(names.translate(code or ast.Constant(1.0)))
        for (name, part, text_of_index), parts in found.items():
            for code in [*parts, reduce(_add, parts)] if len(parts) > 1 else parts:
                negative = isinstance(code, ast.UnaryOp) and isinstance(code.op, ast.USub)
                text = text_of_code(code.operand if isinstance(code, ast.UnaryOp) and negative else code)
                if len(text) <= _LONGEST:
                    sign = "-" if negative else "+"
                    yield MissingPart(name, text_of_index, sign, text, not names.has_adjoint(out), part)


def list_steps(
    forward: ForwardPass, claimed: Mapping[str, Any], held: Sequence[Any], constant: frozenset[str] = frozenset()
) -> Iterator[tuple[Any, str]]:
    """Yield the adjoint of a value, and what it is multiplied by or divided by to be that of an operand, entry by entry.

    For `s = q @ k.T / np.sqrt(d)` these are the adjoint of s and ` / np.sqrt(d)`, in the names of the claim, whose values are
    `claimed`. A claim that lacks such a step passes on the adjoint of the value as that of the operand. Adjoints are those
    among the values `held`.
    """
    names = _ClaimNames(forward, claimed, constant)
    for chain in forward.chains:
        *values, y = map(forward.value, chain)
        for x, start in zip(values, chain, strict=False):
            if not is_number(x) or not is_number(y) or is_same(x, y) or not any(is_same(x, own) for own in held):
                continue
            usual = [
                f" * {slope.format(n)}"
                for n, own in names.numbers.items()
                for slope, of in _USUAL_SLOPES.items()
                if own.shape == shape_of(x) and is_same(x * of(own), y)
            ]
            text, whole = (text_of_code(names.translate(code)) for code in (start, chain[-1]))
            more = re.fullmatch(rf"(?:([\w.]+) \* )?{re.escape(text)}( [*/] .*)?", whole)
            step = f"{more[2] or ''}{f' * {more[1]}' if more[1] else ''}" if more else ""
            yield from ((x, found) for found in usual[:1] or [step] if 0 < len(found) <= _LONGEST)


_USUAL_SLOPES: dict[str, Callable[[Any], Any]] = {  # of functions of a user's own, by their value
    "{0} * (1 - {0})": lambda y: y * (1 - y),
    "(1 - {0}**2)": lambda y: 1 - y**2,
}


def text_of_code(code: ast.expr) -> str:
    """Return code as text, with short powers as people write them."""
    return re.sub(r"(?<![\w.)\]])([\w.]+) \*\* ([\w.]+)", r"\1**\2", ast.unparse(code))


def is_same(x: Any, y: Any) -> bool:
    """Whether two values are the same but for rounding."""
    return (
        shape_of(x) == shape_of(y)
        and is_number(y)
        and bool(np.all(np.abs(x - y) <= _SAME * np.max(np.abs(x), initial=0.0)))
    )


def count_names(forward: ForwardPass, claimed: Mapping[str, Any], constant: frozenset[str]) -> int:
    """Return how many of the values and adjoints of the statements the claim has a name for."""
    names = _ClaimNames(forward, claimed, constant)
    own = forward.statements[: forward.own]
    read = {n.id for _, e in own for n in ast.walk(e) if isinstance(n, ast.Name)} | {out for out, _ in own if out}
    varying = [n for n in read if forward.plain.get(n) in forward.varying]
    held = [x for n in varying for x in (forward.values.get(n), forward.adjoints.get(n)) if is_number(x) and np.any(x)]
    return sum(names.name_of(x, varies=True) is not None for x in held)


@dataclass(frozen=True)
class _ClaimNames:
    """The names of a claim for what the function computes."""

    forward: ForwardPass
    claimed: Mapping[str, Any]
    constant: frozenset[str]
    written: dict[str, tuple[Adjoint]] = field(default_factory=dict)  # adjoints that have no name
    known: dict[tuple[int, str, bool], str | None] = field(default_factory=dict)

    @cached_property
    def assigned(self) -> dict[str, ast.expr]:
        """What each name of the function was assigned."""
        return dict(self.forward.statements)

    def _varies(self, node: ast.expr) -> bool:
        """Whether an expression reads a value that each visit of the loop has anew."""
        names = (n.id for n in ast.walk(node) if isinstance(n, ast.Name))
        return any(self.forward.plain.get(n) in self.forward.varying for n in names)

    def _is_lost(self, node: ast.expr) -> bool:
        """Whether an expression is a name of the function for which the claim has none."""
        if not isinstance(node, ast.Name) or node.id not in self.forward.plain:
            return False
        plain = self.forward.plain[node.id]
        return self.name_of(self.forward.values.get(node.id, UNKNOWN), plain, self._varies(node)) is None

    def index_of(self, value: Any, likely: str) -> str | None:
        """Return the claim's name of a whole number that the function calls `likely`. None if it has none."""
        names = [n for n, x in self.claimed.items() if is_index(x) and x == value]
        if likely in self.forward.varying:
            names = [n for n in names if n not in self.constant]
        return next((n for n in names if n == likely), names[0] if names and likely in self.forward.varying else None)

    def name_of(self, value: Any, likely: str = "", varies: bool = False) -> str | None:
        """Return the claim's name of a value that is no whole number; `likely`, or a name with it inside, comes first.

        One that `varies` is never the name of what is constant.
        """
        if value is UNKNOWN or not is_number(value) or np.asarray(value).dtype.kind != "f":
            return None
        key = id(value), likely, varies
        if key not in self.known:
            wanted, room = shape_of(value), _SAME * float(np.max(np.abs(value), initial=0.0))
            fitting = (n for n, x in self.numbers.items() if x.shape == wanted and np.all(np.abs(x - value) <= room))
            fitting = (n for n in fitting if not varies or n not in self.constant)
            self.known[key] = min(fitting, key=lambda n: (n != likely, likely not in n), default=None)
        return self.known[key]

    def name_of_adjoint(self, out: str) -> str | None:
        """Return the claim's name of an adjoint, one that is spelled like the value before others; None if it has none."""
        return self.name_of(self.forward.adjoints[out], self.forward.plain.get(out, out))

    @cached_property
    def numbers(self) -> dict[str, Any]:
        """The claim's names of values that are no whole numbers."""
        found = {name: np.asarray(x) for name, x in self.claimed.items() if is_number(x)}
        return {name: x for name, x in found.items() if x.dtype.kind == "f"}

    def has_adjoint(self, out: str) -> bool:
        """Whether the claim has a name for the adjoint of a value, as that of what is returned is one."""
        return not out or self._is_one(out) or self.name_of_adjoint(out) is not None

    def _is_one(self, out: str) -> bool:
        """Whether the adjoint of a value is 1 or -1, as that of a loss is."""
        x = self.forward.adjoints[out]
        return shape_of(x) == () and bool(abs(x) == 1)

    def adjoint(self, out: str) -> tuple[Adjoint] | None:
        """Return the adjoint of a value, by its name or as it was written; None if it is not known."""
        if not out:
            return (None,)
        if out not in self.forward.adjoints or not np.any(self.forward.adjoints[out]):
            return None
        if self._is_one(out):
            return (None,) if self.forward.adjoints[out] > 0 else (_negate(None),)
        return (_name(_ADJOINT + out),) if self.has_adjoint(out) else self.written.get(out)

    def write_adjoint(self, out: str) -> None:
        """Write the adjoint of a value from those of later statements, unless that is longer than anybody writes."""
        parts: list[ast.expr] = []
        for later, expression in self.forward.statements:
            adjoint = self.adjoint(later)
            if adjoint is not None and any(isinstance(n, ast.Name) and n.id == out for n in ast.walk(expression)):
                found = _pull_back(self.forward, expression, adjoint[0])
                parts += [code or ast.Constant(1.0) for name, index, code in found if name == out and index is None]
        whole = reduce(_add, parts) if parts else None
        if whole is not None and len(ast.unparse(whole)) <= 2 * _LONGEST:  # the names of adjoints are longer here
            self.written[out] = (whole,)

    def translate(self, code: ast.expr, depth: int = 0) -> ast.expr:
        """Return code in the names of the function as code in those of the claim; a value without a name is computed.

        A number is written before the array that it multiplies.
        """

        def translate_node(node: ast.AST) -> ast.AST:
            if isinstance(node, ast.Name):
                if node.id == _NUMPY:
                    return _name(self.forward.numpy)
                if node.id.startswith(_ADJOINT):
                    return _name(self.name_of_adjoint(node.id.removeprefix(_ADJOINT)) or node.id)
                x = self.forward.values.get(node.id, UNKNOWN)
                own = self.name_of(x, self.forward.plain.get(node.id, node.id), self._varies(node))
                if own is None and node.id in self.forward.plain and is_index(x):
                    own = self.index_of(x, self.forward.plain[node.id])
                assigned = self.assigned.get(node.id)
                if own is None and assigned is not None and depth < _DEPTH and node.id not in self.claimed:
                    return self.translate(assigned, depth + 1)
                return _name(own or node.id)
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "len" and self._is_lost(node.args[0]):
                return ast.Constant(self.forward.value(node))
            is_item = isinstance(node, ast.Subscript) and self._is_lost(node.value)
            if is_item or isinstance(node, ast.Call | ast.BinOp):
                own = self.name_of(self.forward.value(node), varies=self._varies(node))  # type: ignore[arg-type]
                if own is not None:
                    return _name(own)
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
                last = lambda x: shape_of(self.forward.value(x)) != () or isinstance(x, ast.Call)
                factors = sorted(_factors(node), key=last)
                return reduce(lambda a, b: _operation(a, ast.Mult(), b), map(translate_node, factors))  # type: ignore[arg-type]
            for each, value in ast.iter_fields(node):
                if isinstance(value, list):
                    setattr(node, each, [translate_node(v) if isinstance(v, ast.expr) else v for v in value])
                elif isinstance(value, ast.expr) and not (isinstance(node, ast.Call) and each == "func"):
                    setattr(node, each, translate_node(value))
                elif isinstance(value, ast.Attribute):  # `x` of `x.sum()`, and numpy's own name
                    value.value = translate_node(value.value)  # type: ignore[assignment]
            return node

        # parsed anew, for parts of `code` may be parts of other code; in brackets, where slices may stand
        own_tree = ast.parse(f"_[{_text_in_brackets(code)}]", mode="eval").body
        assert isinstance(own_tree, ast.Subscript)
        return translate_node(own_tree.slice)  # type: ignore[return-value]


# The rules of the textbook, on expressions: what each operand contributes, given the adjoint of the result.

_Contributions = Iterator[tuple[str, ast.expr | None, Adjoint]]


def _text_in_brackets(index: ast.expr) -> str:
    return ast.unparse(ast.Subscript(_name("_"), index, ast.Load()))[2:-1]


def _name(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def _operation(left: ast.expr, operator: ast.operator, right: ast.expr) -> ast.expr:
    return ast.BinOp(left, operator, right)


def _multiply(a: Adjoint, b: Adjoint) -> Adjoint:
    """Return the product; a sign goes in front of it."""
    if a is None or b is None:
        return b if a is None else a
    for one, other, first in ((a, b, True), (b, a, False)):
        if isinstance(one, ast.UnaryOp) and isinstance(one.op, ast.USub):
            x = None if isinstance(one.operand, ast.Constant) and one.operand.value == 1 else one.operand
            return _negate(_multiply(x, other) if first else _multiply(other, x))
    if isinstance(b, ast.BinOp) and isinstance(b.op, ast.Mult | ast.Div):  # a * (b * c) as a * b * c
        start = _multiply(a, b.left)
        return _multiply(start, b.right) if isinstance(b.op, ast.Mult) else _divide(start, b.right)
    return _operation(a, ast.Mult(), b)


def _factors(node: ast.expr) -> list[ast.expr]:
    """Return the factors of a product; numbers that have a short product are one number, and 1 is none."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult):
        return [node]
    found = [*_factors(node.left), *_factors(node.right)]
    numbers = [x for x in found if isinstance(x, ast.Constant) and isinstance(x.value, int | float)]
    product: float = math.prod(x.value for x in numbers)  # type: ignore[misc]
    if (len(numbers) < 2 and product != 1) or len(repr(product)) > _SHORT:
        return found
    others = [x for x in found if x not in numbers]
    one = ast.Constant(int(product) if product == int(product) else product)
    return others if product == 1 and others else [one, *others]


def _divide(a: Adjoint, b: ast.expr) -> ast.expr:
    if isinstance(a, ast.UnaryOp) and isinstance(a.op, ast.USub):
        return _negate(_divide(a.operand, b))
    return _operation(a or ast.Constant(1), ast.Div(), b)


def _add(a: ast.expr, b: ast.expr) -> ast.expr:
    if isinstance(b, ast.UnaryOp) and isinstance(b.op, ast.USub):
        return _operation(a, ast.Sub(), b.operand)
    return _operation(a, ast.Add(), b)


def _negate(a: Adjoint) -> ast.expr:
    if isinstance(a, ast.UnaryOp) and isinstance(a.op, ast.USub):
        return a.operand
    return ast.UnaryOp(ast.USub(), a or ast.Constant(1))


def _square(a: ast.expr) -> ast.expr:
    return _operation(a, ast.Pow(), ast.Constant(2))


def _call(like: ast.Call, name: str, *args: ast.expr, **keywords: ast.expr) -> ast.expr:
    """Return a call of another function of the module that a call names."""
    module = like.func.value if isinstance(like.func, ast.Attribute) else _name(_NUMPY)
    function = ast.Attribute(module, name, ast.Load())
    return ast.Call(function, [*args], [ast.keyword(k, v) for k, v in keywords.items()])


def _sum_rows(a: Adjoint) -> ast.expr:
    """Return the sums along the last axis, which is kept."""
    options = [ast.keyword("axis", ast.Constant(-1)), ast.keyword("keepdims", ast.Constant(True))]
    return ast.Call(ast.Attribute(_name(_NUMPY), "sum", ast.Load()), [a or ast.Constant(1)], options)


def _multiply_matrices(a: ast.expr, b: ast.expr) -> ast.expr:
    return _operation(a, ast.MatMult(), b)


def _transpose(a: ast.expr) -> ast.expr:
    return a.value if isinstance(a, ast.Attribute) and a.attr == "T" else ast.Attribute(a, "T", ast.Load())


def _transpose_each(a: ast.expr) -> ast.expr:
    """Return the transposes of a stack of matrices."""
    match a:
        case ast.Call(ast.Attribute(of, "transpose"), [*axes]) if ast.unparse(axes) in ("0, 2, 1", "0, 1, 3, 2"):  # type: ignore[arg-type]
            return of
    return ast.Call(ast.Attribute(a, "swapaxes", ast.Load()), [ast.Constant(-1), ast.Constant(-2)], [])


_OF_MATRICES = ("diag", "inv", "transpose")  # functions whose value is no number
# By the name of a function of one argument: its slope times the adjoint, given the call and the argument.
_SLOPES: dict[str, Callable[[Any, Any, Any], Adjoint]] = {
    "exp": lambda g, call, u: _multiply(g, call),
    "expm1": lambda g, call, u: _multiply(g, _call(call, "exp", u)),
    "log": lambda g, call, u: _divide(g, u),
    "log1p": lambda g, call, u: _divide(g, _operation(ast.Constant(1), ast.Add(), u)),
    "log2": lambda g, call, u: _divide(g, _operation(u, ast.Mult(), _call(call, "log", ast.Constant(2)))),
    "log10": lambda g, call, u: _divide(g, _operation(u, ast.Mult(), _call(call, "log", ast.Constant(10)))),
    "sqrt": lambda g, call, u: _divide(g, _operation(ast.Constant(2), ast.Mult(), call)),
    "tanh": lambda g, call, u: _multiply(g, _operation(ast.Constant(1), ast.Sub(), _square(call))),
    "expit": lambda g, call, u: _multiply(_multiply(g, call), _operation(ast.Constant(1), ast.Sub(), call)),
    "sin": lambda g, call, u: _multiply(g, _call(call, "cos", u)),
    "cos": lambda g, call, u: _negate(_multiply(g, _call(call, "sin", u))),
    "square": lambda g, call, u: _multiply(_multiply(ast.Constant(2), u), g),
    "abs": lambda g, call, u: _multiply(g, _call(call, "sign", u)),
    "softmax": lambda g, call, u: _multiply(call, _operation(g, ast.Sub(), _sum_rows(_multiply(g, call)))),
    "transpose": lambda g, call, u: _transpose(g),
    "diag": lambda g, call, u: _call(call, "diag", g),
    "copy": lambda g, call, u: g,
    "asarray": lambda g, call, u: g,
    "inv": lambda g, call, u: _negate(_multiply_matrices(_multiply_matrices(_transpose(call), g), _transpose(call))),
}  # fmt: skip
_BY_ENTRIES = {*_SLOPES, "maximum", "minimum", "where"} - {*_OF_MATRICES, "copy", "asarray"}


def _pull_back(forward: ForwardPass, node: ast.expr, g: Adjoint) -> _Contributions:
    """Yield each name below an expression, the index of the part that is read of it, and what it contributes.

    `g` is the adjoint of the expression, or may be broadcast to it.
    """
    if isinstance(node, ast.Name):
        yield node.id, None, g
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield from _pull_back(forward, node.operand, _negate(g))
    elif isinstance(node, ast.Attribute) and node.attr == "T" and g is not None:
        yield from _pull_back(forward, node.value, _transpose(g))
    elif isinstance(node, ast.Subscript):
        if isinstance(node.value, ast.Name):
            yield node.value.id, node.slice, g
        elif isinstance(node.value, ast.Call) and node.value.args and ast.unparse(node.value.func).endswith("slogdet"):
            inverse = _transpose(_call(node.value, "inv", *node.value.args))
            yield from _pull_back(forward, node.value.args[0], _multiply(g, inverse))
    else:
        pairs = _pull_operation(forward, node, g) if isinstance(node, ast.BinOp) else _pull_call(forward, node, g)
        for operand, pulled in pairs:
            fitted = _sum_broadcast_axes(forward, pulled, operand)
            if fitted is not UNKNOWN:
                yield from _pull_back(forward, operand, fitted)


def _pull_entries(forward: ForwardPass, node: ast.expr, chain: tuple[ast.expr, ...]) -> Iterator[tuple[ast.expr, ...]]:
    """Yield the adjoints from that of an expression to that of each operand from which it is computed entry by entry.

    The last one of `chain` is the adjoint of the expression.
    """
    pairs: list[tuple[ast.expr, Adjoint]] = []
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        pairs = [(node.operand, _negate(chain[-1]))]
    elif isinstance(node, ast.BinOp) and not isinstance(node.op, ast.MatMult):
        pairs = [*_pull_operation(forward, node, chain[-1])]
    elif isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in _BY_ENTRIES:
        pairs = [*_pull_call(forward, node, chain[-1])]
    for operand, pulled in pairs:
        if pulled is not None and shape_of(forward.value(operand)) == shape_of(forward.value(node)):
            longer = chain if pulled is chain[-1] else (*chain, pulled)
            if longer is not chain:
                yield longer
            yield from _pull_entries(forward, operand, longer)


def _pull_operation(forward: ForwardPass, node: ast.BinOp, g: Adjoint) -> Iterator[tuple[ast.expr, Adjoint]]:
    a, b = node.left, node.right
    if isinstance(node.op, ast.Add | ast.Sub):
        yield a, g
        yield b, g if isinstance(node.op, ast.Add) else _negate(g)
    elif isinstance(node.op, ast.Mult):
        yield a, _multiply(g, b)
        yield b, _multiply(g, a)
    elif isinstance(node.op, ast.Div):
        yield a, _divide(g, b)
        yield b, _negate(_divide(_multiply(g, a), _square(b)))
    elif isinstance(node.op, ast.MatMult):
        yield from _pull_product(forward, a, b, g)
    elif isinstance(node.op, ast.Pow):
        if isinstance(b, ast.Constant) and isinstance(b.value, int | float):
            less = ast.Constant(b.value - 1)
            power = a if less.value == 1 else _operation(a, ast.Pow(), less)
        else:
            power = _operation(a, ast.Pow(), _operation(b, ast.Sub(), ast.Constant(1)))
        yield a, _multiply(_multiply(b, power), g)


def _pull_call(forward: ForwardPass, node: ast.expr, g: Adjoint) -> Iterator[tuple[ast.expr, Adjoint]]:
    if not isinstance(node, ast.Call):
        return
    function = getattr(node.func, "attr", getattr(node.func, "id", ""))
    of = getattr(node.func, "value", None)
    is_method = of is not None and not isinstance(forward.value(of), ModuleType)
    args: list[Any] = [of, *node.args] if is_method else node.args
    if not args:
        return
    u, options = args[0], {k.arg: k.value for k in node.keywords}
    if function in ("sum", "mean"):
        axis = args[1] if len(args) > 1 else options.get("axis")
        expanded = _expand_sum(forward, u, g, axis, "keepdims" in options)
        yield u, _divide(expanded, _count_entries(forward, u, axis)) if function == "mean" else expanded
    elif function in ("dot", "matmul") and len(args) == 2:
        yield from _pull_product(forward, u, args[1], g)
    elif function in ("maximum", "minimum") and len(args) == 2:
        for one, other in (args, args[::-1]):
            compared = ast.Compare(one, [ast.Gt() if function == "maximum" else ast.Lt()], [other])
            yield one, _multiply(g or ast.Constant(1.0), compared)
    elif function == "where" and len(args) == 3:
        zero, whole = ast.Constant(0.0), g or ast.Constant(1.0)
        yield args[1], _call(node, "where", u, whole, zero)
        yield args[2], _call(node, "where", u, zero, whole)
    elif function in ("array", "stack") and isinstance(u, ast.List | ast.Tuple) and g is not None:
        axis = forward.value(options["axis"]) if "axis" in options else 0
        for k, item in enumerate(u.elts):
            index = ast.Tuple([ast.Slice(), ast.Constant(k)], ast.Load()) if axis == 1 else ast.Constant(k)
            yield item, ast.Subscript(g, index, ast.Load())
    elif function == "concatenate" and isinstance(u, ast.List | ast.Tuple) and len(u.elts) == 2 and g is not None:
        first = ast.Call(_name("len"), [u.elts[0]], [])
        for item, part in zip(u.elts, (ast.Slice(None, first), ast.Slice(first)), strict=True):
            yield item, ast.Subscript(g, part, ast.Load())
    elif function == "outer" and len(args) == 2 and g is not None:
        yield u, _multiply_matrices(g, args[1])
        yield args[1], _multiply_matrices(u, g)
    elif function == "reshape" and g is not None:
        shape_of_u = ast.Attribute(u, "shape", ast.Load())
        yield u, ast.Call(ast.Attribute(g, "reshape", ast.Load()), [shape_of_u], [])
    elif function in ("transpose", "swapaxes") and len(args) > 1 and g is not None:
        axes = [forward.value(a) for a in (args[1].elts if isinstance(args[1], ast.Tuple) else args[1:])]
        if all(map(is_index, axes)):
            back = [int(k) for k in (np.argsort(axes) if function == "transpose" else axes)]
            yield u, ast.Call(ast.Attribute(g, function, ast.Load()), [ast.Constant(k) for k in back], [])
    elif function in _SLOPES and (g is not None or function not in _OF_MATRICES):
        yield u, _SLOPES[function](g, node, u)


def _pull_product(forward: ForwardPass, a: ast.expr, b: ast.expr, g: Adjoint) -> Iterator[tuple[ast.expr, Adjoint]]:
    """Yield what the factors of a matrix product contribute."""
    axes = tuple(len(shape_of(forward.value(x))) for x in (a, b))
    if axes == (1, 1):
        yield a, _multiply(g, b)
        yield b, _multiply(g, a)
    elif g is not None and axes in ((2, 2), (2, 1), (1, 2)):
        product = ast.Attribute(_name(_NUMPY), "outer", ast.Load())
        yield a, ast.Call(product, [g, b], []) if axes == (2, 1) else _multiply_matrices(g, _transpose(b))
        yield b, ast.Call(product, [a, g], []) if axes == (1, 2) else _multiply_matrices(_transpose(a), g)
    elif g is not None and min(axes) > 1:  # stacks of matrices
        yield a, _multiply_matrices(g, _transpose_each(b))
        yield b, _multiply_matrices(_transpose_each(a), g)


def _expand_sum(forward: ForwardPass, u: ast.expr, g: Adjoint, axis: ast.expr | None, kept: bool) -> Adjoint:
    """Return the adjoint of a sum with the axes that were summed, so that it can be broadcast to the argument."""
    axes = len(shape_of(forward.value(u)))
    if g is None or axis is None or kept or axes < 2:
        return g
    k = forward.value(axis)
    if not isinstance(k, int) or k % axes == 0:
        return g
    index = [ast.Constant(None) if n == k % axes else ast.Slice() for n in range(k % axes + 1)]
    return ast.Subscript(g, ast.Tuple(index, ast.Load()), ast.Load())  # type: ignore[arg-type]


def _count_entries(forward: ForwardPass, u: ast.expr, axis: ast.expr | None) -> ast.expr:
    """Return the number of entries along an axis, as the shape of a name that has it; of all entries without an axis."""
    value = forward.value(u)
    names = [n for n in ast.walk(u) if isinstance(n, ast.Name) and shape_of(forward.value(n)) == shape_of(value)]
    of: ast.expr = names[0] if names and is_number(forward.value(names[0])) else u
    if axis is None:
        return ast.Attribute(of, "size", ast.Load())
    k = forward.value(axis)
    if k == 0:
        return ast.Call(_name("len"), [of], [])
    return ast.Subscript(ast.Attribute(of, "shape", ast.Load()), axis, ast.Load())


def _sum_broadcast_axes(forward: ForwardPass, code: Adjoint, operand: ast.expr) -> Any:
    """Return what was pulled back, summed over the axes along which the operand was broadcast; UNKNOWN if it does not fit."""
    if code is None:
        return None
    value, x = forward.value(code), forward.value(operand)
    if value is UNKNOWN or x is UNKNOWN:
        return UNKNOWN
    made, wanted = shape_of(value), shape_of(x)
    try:
        if np.broadcast_shapes(made, wanted) == wanted:
            return code
    except ValueError:
        return UNKNOWN
    if isinstance(code, ast.UnaryOp) and isinstance(code.op, ast.USub):
        fitted = _sum_broadcast_axes(forward, code.operand, operand)
        return fitted if fitted is UNKNOWN else _negate(fitted)
    function = ast.Attribute(_name(_NUMPY), "sum", ast.Load())
    if wanted == ():
        return ast.Call(function, [code], [])
    more = len(made) - len(wanted)
    if more:
        code = ast.Call(function, [code], [ast.keyword("axis", ast.Constant(0))])
        return _sum_broadcast_axes(forward, code, operand)
    k = next(k for k, n in enumerate(wanted) if n == 1 != made[k])
    options = [ast.keyword("axis", ast.Constant(k)), ast.keyword("keepdims", ast.Constant(True))]
    return _sum_broadcast_axes(forward, ast.Call(function, [code], options), operand)
