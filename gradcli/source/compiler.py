"""Compile Python's syntax tree into a program: a whitelist says what each kind of node becomes, the rest is refused.

Generators walk the tree and hand their children to a driver, so that a deep tree does not need a deep call stack.
"""

import ast
import dataclasses
import operator
from collections.abc import Callable, Generator
from typing import Any

import numpy as np

from gradcli.errors import BadExpression, Span, TooLarge
from gradcli.primitives.linalg import inverse
from gradcli.source.adapted import as_number, entry_at
from gradcli.source.indices import parts_of, places, written_out
from gradcli.source.instructions import LIST, Choice, Instruction, Instructions, Step
from gradcli.source.limits import MAX_EXPONENT, MAX_NODES, indexed
from gradcli.source.names import ALIASES, CONSTANTS, FUNCTIONS, METHODS, PREFIXES, SEQUENCES, taken_along
from gradcli.source.notices import NOTICES, Notice, transposed
from gradcli.source.operators import BINARY, COMPARE, LOGICAL, REFUSED
from gradcli.source.parameters import KEYWORD_SPELLINGS, is_static, is_written_out
from gradcli.source.parsing import characters, extent, parsed
from gradcli.source.signatures import positional
from gradcli.source.spellings import DOTS, INVERSE
from gradcli.source.static import NOT_STATIC, dotted_name, fact, integer
from gradcli.source.tokens import Statement, folded
from gradcli.source.torch_names import OF_TORCH

Compiling = Generator[ast.expr, int, int]


class Compiler:
    """Compiles statements into one program; a name in `given` is an input even if it is also a constant's, such as `e`."""

    def __init__(self, given: frozenset[str] = frozenset()) -> None:
        self.program = Instructions()
        self.steps: list[Step] = self.program.steps
        self.names: dict[str, int] = {}
        self.given: set[str] = set(given)
        self.nodes = 0

    def add(self, statement: Statement) -> int:
        """Compile one statement and return the register of its value.

        Raises  BadExpression for syntax and names outside the language; TooLarge.
        """
        for part in statement.inner:
            self.add(part)
        self.statement = statement
        tree = parsed(statement)
        result = self._drive(tree)
        if statement.name is not None:
            name = folded(statement.name.text)
            self._label(result, name)
            self.names[name] = result
        self.program.result = result
        return result

    def _label(self, register: int, name: str) -> None:
        blocks = [(self.steps, register)]
        while blocks:
            steps, wanted = blocks.pop()
            for k, step in enumerate(steps):
                if step.to == wanted and step.name is None:
                    steps[k] = dataclasses.replace(step, name=name)
                    blocks += [step.yes, step.no] if isinstance(step, Choice) else []

    def _drive(self, root: ast.expr) -> int:
        stack: list[Compiling] = [self._compile(root)]
        value: Any = None
        while stack:
            try:
                child = stack[-1].send(value)
            except StopIteration as stop:
                stack.pop()
                value = stop.value
            else:
                stack.append(self._compile(child))
                value = None
        return int(value)

    def _compile(self, node: ast.expr) -> Compiling:
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise TooLarge(
                f"the expression has more than {MAX_NODES:,} parts", where=self._span(node), do="use arrays: sum(x**2)"
            )
        rule = _RULES.get(type(node))
        if rule is None:
            what = type(node).__name__.lower()
            raise BadExpression(
                f"a {what} is not part of the language",
                where=self._span(node),
                do=REFUSED.get(type(node), "an expression has operators, calls, indices, lists and comparisons"),
            )
        return rule(self, node)

    # Registers.

    def _register(self, value: Any = None) -> int:
        self.program.registers.append(value)
        return len(self.program.registers) - 1

    def _named(self, name: str) -> int:
        register = self._register(np.float64(CONSTANTS[name]))
        if name in ("pi", "e"):
            self.program.constants[register] = name
        return register

    def _emit(
        self,
        node: ast.AST,
        function: Any,
        operation: str,
        args: list[int],
        kwargs: Any = (),
        notice: Notice | None = None,
    ) -> int:
        to = self._register()
        self.steps.append(
            Instruction(function, operation, tuple(args), tuple(kwargs), to, self._span(node), None, notice)
        )
        return to

    def _span(self, node: ast.AST) -> Span:
        source = self.statement.source
        start, end = (characters(source, line, at) for line, at in extent(node))
        return self.statement.span(start, max(end, start + 1))

    # One method per kind of node.

    def _constant(self, node: ast.Constant) -> Compiling:
        yield from ()
        if isinstance(node.value, bool | str) or node.value is None:
            raise BadExpression(
                f"{node.value!r} is no value here", where=self._span(node), do="write a number or a name"
            )
        if isinstance(node.value, complex):
            raise BadExpression(
                "complex numbers are not supported", where=self._span(node), do="write real and imaginary parts"
            )
        if not isinstance(node.value, int | float):
            raise BadExpression(
                f"{node.value!r} is not part of the language", where=self._span(node), do="leave it out"
            )
        return self._register(np.float64(self._float(node, node.value)))

    def _float(self, node: ast.AST, number: float) -> float:
        try:
            value = float(number)
        except OverflowError:
            value = float("inf")
        if value in (float("inf"), float("-inf")):
            raise BadExpression(
                "this number is larger than the largest float64",
                where=self._span(node),
                do="write inf, or a smaller number",
            )
        return value

    def _name(self, node: ast.Name) -> Compiling:
        yield from ()
        name = node.id
        if name in self.names:
            return self.names[name]
        if name in CONSTANTS and name not in self.given:
            return self._named(name)
        if name not in self.program.inputs:
            self.program.inputs[name] = self._register()
        return self.program.inputs[name]

    def _binary(self, node: ast.BinOp) -> Compiling:
        if type(node.op) not in BINARY:
            raise BadExpression(
                "this operator is not part of the language", where=self._span(node), do="write and, or, * or **"
            )
        function, operation = BINARY[type(node.op)]
        if isinstance(node.op, ast.MatMult) and (sign := self._dot(node)):
            function, operation = np.dot, sign
        left = yield node.left
        exponent = integer(node.right) if isinstance(node.op, ast.Pow) else None
        if exponent is None:
            right = yield node.right
        else:
            if abs(exponent) > MAX_EXPONENT:
                raise TooLarge(
                    f"the integer exponent {exponent} is over the limit of {MAX_EXPONENT:,}",
                    where=self._span(node.right),
                )
            right = self._register(exponent)
        return self._emit(node, function, operation, [left, right])

    def _dot(self, node: ast.BinOp) -> str | None:
        """Return the dot (`·`) if the user wrote the product with one, else None."""
        _, (line, end) = extent(node.left)
        at = self.statement.source.index("@", characters(self.statement.source, line, end))
        sign = self.statement.text[self.statement.columns[at]]
        return sign if sign in DOTS else None

    def _unary(self, node: ast.UnaryOp) -> Compiling:
        whole = integer(node)
        if whole is not None:
            return self._register(np.float64(self._float(node, whole)))
        operand = yield node.operand
        if isinstance(node.op, ast.Not):
            return self._emit(node, as_number(np.logical_not), "not", [operand])
        if isinstance(node.op, ast.Invert):
            raise BadExpression("'~' is not part of the language", where=self._span(node), do="write not")
        return operand if isinstance(node.op, ast.UAdd) else self._emit(node, operator.neg, "-", [operand])

    def _comparison(self, node: ast.Compare) -> Compiling:
        left = yield node.left
        result = None
        for op, right_node in zip(node.ops, node.comparators, strict=True):
            if type(op) not in COMPARE:
                raise BadExpression(
                    "this comparison is not part of the language",
                    where=self._span(node),
                    do="write <, <=, >, >=, == or !=",
                )
            right = yield right_node
            one = self._emit(node, *COMPARE[type(op)], [left, right])
            result = one if result is None else self._emit(node, *LOGICAL[ast.And], [result, one])
            left = right
        return result if result is not None else left

    def _logical(self, node: ast.BoolOp) -> Compiling:
        result = yield node.values[0]
        for value in node.values[1:]:
            other = yield value
            result = self._emit(node, *LOGICAL[type(node.op)], [result, other])
        return result

    def _conditional(self, node: ast.IfExp) -> Compiling:
        condition = yield node.test
        outer = self.steps
        blocks = []
        for branch in (node.body, node.orelse):
            self.steps = []
            result = yield branch
            blocks.append((self.steps, result))
        self.steps = outer
        to = self._register()
        self.steps.append(Choice(condition, blocks[0], blocks[1], to, self._span(node)))
        return to

    def _list(self, node: ast.List) -> Compiling:
        if not node.elts:
            raise BadExpression(
                "an empty list has no values", where=self._span(node), do="write zeros(0), or the values"
            )
        entries = []
        for element in node.elts:
            entry = yield element
            entries.append(entry)
        return self._emit(node, lambda *xs: np.stack(xs), "[...]", entries)

    def _attribute(self, node: ast.Attribute) -> Compiling:
        dotted = dotted_name(node)
        if dotted and dotted.rpartition(".")[0] in PREFIXES and node.attr in CONSTANTS:
            return self._named(node.attr)
        if node.attr == "T":
            base = yield node.value
            return self._emit(node, np.transpose, ".T", [base], notice=transposed)
        if node.attr == "I":
            base = yield node.value
            return self._emit(node, inverse, INVERSE, [base])
        raise BadExpression(
            f"'.{node.attr}' is not part of the language",
            where=self._span(node),
            do=f"known: .T and .{', .'.join(METHODS)}(...)",
        )

    def _subscript(self, node: ast.Subscript) -> Compiling:
        base = yield node.value
        parts = parts_of(node.slice)
        if not parts:
            raise BadExpression("the index is empty", where=self._span(node), do="write x[0] or x[1:]")
        for axis in places(parts, self.names, self.given):
            place = yield parts[axis]
            base = self._emit(node, entry_at, "[]", [base, place, self._register(axis)])
            self.program.places.add(folded(ast.unparse(parts.pop(axis))))
        if not parts:
            return base
        index = tuple(written_out(part, self._span) for part in parts)
        index = index if isinstance(node.slice, ast.Tuple) else index[0]
        return self._emit(node, indexed, "[]", [base, self._register(index)])

    def _call(self, node: ast.Call) -> Compiling:
        if (
            isinstance(node.func, ast.Attribute)
            and node.func.attr in METHODS
            and dotted_name(node.func.value) not in PREFIXES
        ):
            base = yield node.func.value
            function, name, args = FUNCTIONS[node.func.attr], node.func.attr, [base]
            if name == "reshape" and len(node.args) > 1:
                node.args = [ast.copy_location(ast.Tuple([*node.args], ast.Load()), node)]
        else:
            function, name, args = *self._function(node), []
        names = self._parameters(node, name, function, len(args))
        for argument, parameter in zip(node.args, names, strict=False):
            value = yield from self._argument(argument, parameter, name)
            args.append(value)
        kwargs = []
        for keyword in node.keywords:
            parameter = KEYWORD_SPELLINGS.get(str(keyword.arg), str(keyword.arg))
            value = yield from self._argument(keyword.value, parameter, name)
            kwargs.append((parameter, value))
        notice = NOTICES.get(name) if function is FUNCTIONS.get(name) else None
        return self._emit(node, function, name, args, kwargs, notice)

    def _argument(self, node: ast.expr, parameter: str, function: str) -> Compiling:
        """Compile an argument: a static one (an axis, a shape), a list of values of different shapes, or one value."""
        if is_static(ALIASES.get(function, function), parameter):
            known = self._fact(node)
            if known is not NOT_STATIC:
                return self._register(known)
            if is_written_out(ALIASES.get(function, function), parameter):
                what = f"{function} takes {parameter} as data, known before the expression runs"
                raise BadExpression(what, where=self._span(node), do=f"write it out, such as {parameter}=1")
        if function in SEQUENCES and isinstance(node, ast.List | ast.Tuple) and node.elts:
            result = yield from self._sequence(node, nested=function == "block")
            return result
        register = yield node
        return register

    def _fact(self, node: ast.expr) -> Any:
        """Return the value of a static argument, which may be a number with a name (`n = 3`), or NOT_STATIC."""
        named = self.names.get(node.id) if isinstance(node, ast.Name) else None
        number = None if named is None else self.program.registers[named]
        if isinstance(number, np.float64):
            return int(number) if number.is_integer() else float(number)
        return fact(node, self.given | set(self.names))

    def _sequence(self, node: ast.List | ast.Tuple, nested: bool) -> Compiling:
        """Compile a list whose entries may have different shapes; `nested` ones may be such lists."""
        entries = []
        for element in node.elts:
            if nested and isinstance(element, ast.List | ast.Tuple) and element.elts:
                entry = yield from self._sequence(element, nested)
            else:
                entry = yield element
            entries.append(entry)
        return self._emit(node, lambda *xs: list(xs), LIST, entries)

    def _parameters(self, node: ast.Call, name: str, function: Any, already: int) -> list[str]:
        """Return the parameter name of each positional argument, after checking the call against the signature."""
        keywords = [KEYWORD_SPELLINGS.get(str(keyword.arg), str(keyword.arg)) for keyword in node.keywords]
        where = self._span(node)
        for keyword in node.keywords:
            if keyword.arg is None:
                at = self._span(keyword.value)
                raise BadExpression("** is not part of the language here", where=at, do="write the arguments out")
        return positional(name, function, already + len(node.args), keywords, where)[already:]

    def _function(self, node: ast.Call) -> tuple[Callable[..., Any], str]:
        dotted = dotted_name(node.func)
        if dotted is None:
            raise BadExpression(
                "only named functions can be called", where=self._span(node.func), do="to multiply, write *"
            )
        prefix, _, name = dotted.rpartition(".")
        if not prefix and name in ("max", "min") and len(node.args) == 2:
            return FUNCTIONS[name + "imum"], name
        if prefix and prefix not in PREFIXES:
            raise BadExpression(
                f"'{dotted}' is not part of the language",
                where=self._span(node.func),
                do="methods known: .T, ." + ", .".join(METHODS),
            )
        if prefix in OF_TORCH and name in OF_TORCH[prefix]:
            return OF_TORCH[prefix][name], name
        if prefix in OF_TORCH and name in FUNCTIONS:
            says = f"'{dotted}' is not part of the language: torch has no such function, or one with other results"
            raise BadExpression(says, where=self._span(node.func), do=f"write {name}(...), which is gradcli's own")
        if name in FUNCTIONS:
            return FUNCTIONS[name], name
        if not prefix and (along := taken_along(name)) is not None:
            return along, name
        known = not prefix and (name in self.names or name in self.program.inputs)
        from gradcli.source.unknown import unknown

        raise unknown(dotted, self._span(node.func), known)


_RULES: dict[type[ast.AST], Callable[[Compiler, Any], Compiling]] = {
    ast.Constant: Compiler._constant, ast.Name: Compiler._name, ast.BinOp: Compiler._binary, ast.UnaryOp: Compiler._unary,
    ast.Compare: Compiler._comparison, ast.BoolOp: Compiler._logical, ast.IfExp: Compiler._conditional, ast.List: Compiler._list,
    ast.Attribute: Compiler._attribute, ast.Subscript: Compiler._subscript, ast.Call: Compiler._call,
}  # fmt: skip
