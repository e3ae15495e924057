"""Expressions as functions."""

import ast
import dataclasses
import operator
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

import numpy as np

from gradcli.errors import BadExpression, Span, TooLarge, closest_name
from gradcli.request.target_text import normalise_name
from gradcli.rules.constants import MODULES
from gradcli.rules.linalg import inverse
from gradcli.targets.facts import Notice, OutputPart
from gradcli.targets.instructions import LIST, CallNotice, Choice, Instruction, Instructions, Step, Watch
from gradcli.targets.limits import MAX_EXPONENT, MAX_NODES, index_value
from gradcli.targets.names import (
    ALIASES,
    CONSTANTS,
    FUNCTIONS,
    METHODS,
    OF_TORCH,
    PREFIXES,
    REASONS,
    SEQUENCES,
    as_number,
    call_signature,
    entry_at,
    function_along_axis,
    span_at,
)
from gradcli.targets.tokens import DOTS, FUNCTION_NAMES, INVERSE, Statement, shared_and_parts, split_statements
from gradcli.tracing import primitive
from gradcli.tracing.primitive import Value
from gradcli.tracing.shapes import shape
from gradcli.words import Kind, Severity, TargetKind

# Generators hand their children to a driver, so that a deep tree does not need a deep call stack.
Compiling = Generator[ast.expr, int, int]


BINARY: dict[type[ast.AST], tuple[Callable[..., Any], str]] = {
    ast.Add: (operator.add, "+"), ast.Sub: (operator.sub, "-"), ast.Mult: (operator.mul, "*"), ast.Div: (operator.truediv, "/"),
    ast.Pow: (operator.pow, "**"), ast.MatMult: (np.matmul, "@"),
    ast.Mod: (operator.mod, "%"), ast.FloorDiv: (operator.floordiv, "//"),
}  # fmt: skip
COMPARE: dict[type[ast.AST], tuple[Callable[..., Any], str]] = {
    ast.Lt: (as_number(np.less), "<"), ast.LtE: (as_number(np.less_equal), "<="), ast.Gt: (as_number(np.greater), ">"),
    ast.GtE: (as_number(np.greater_equal), ">="), ast.Eq: (as_number(np.equal), "=="), ast.NotEq: (as_number(np.not_equal), "!="),
}  # fmt: skip
LOGICAL = {ast.And: (as_number(np.logical_and), "and"), ast.Or: (as_number(np.logical_or), "or")}
REFUSED = {ast.Tuple: "give several outputs as a list: [a, b]", ast.Starred: "write the arguments out"}


def _axes_of_moving_slices(parts: list[ast.expr]) -> list[int]:
    """Return the axes whose index is a slice with a bound that is not written out: `x[:m]`, `x[m:m + k]`."""
    bounds = [[b for b in (p.lower, p.upper) if b] if isinstance(p, ast.Slice) and not p.step else [] for p in parts]
    computed = [[b for b in own if literal_integer(b) is None] for own in bounds]
    return [k for k, own in enumerate(computed) if own and all(map(_is_sum_of_names, own))]


def _is_sum_of_names(bound: ast.expr) -> bool:
    """Whether a bound is made of names and numbers alone, whose values are whole numbers: not of functions of inputs."""
    nodes = (n for n in ast.walk(bound) if isinstance(n, ast.expr))
    return all(isinstance(n, ast.Name | ast.Constant | ast.BinOp | ast.UnaryOp) for n in nodes)


# Facts about a syntax tree that are known without running it: integers, axes, shapes, dotted names.

INTEGERS = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Pow: operator.pow,
}  # fmt: skip
ARITHMETIC = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}
NOT_STATIC = object()


def _static_value(node: ast.expr, taken: set[str]) -> Any:
    """Return the value of a static node (an axis, a shape, a string, `2*pi`), or NOT_STATIC if it must be computed."""
    if isinstance(node, ast.Constant) and (isinstance(node.value, bool | str | float) or node.value is None):
        return node.value
    if isinstance(node, ast.Name) and node.id in CONSTANTS and node.id not in taken:
        return CONSTANTS[node.id]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and literal_integer(node) is None:
        inner = _static_value(node.operand, taken)
        return -inner if isinstance(inner, float) else NOT_STATIC
    if isinstance(node, ast.Tuple | ast.List):
        parts = [_static_value(part, taken) for part in node.elts]
        return NOT_STATIC if any(part is NOT_STATIC for part in parts) else tuple(parts)
    if (whole := literal_integer(node)) is not None:
        return whole
    if not isinstance(node, ast.BinOp) or type(node.op) not in ARITHMETIC or _tree_height(node) > 20:
        return NOT_STATIC
    left, right = _static_value(node.left, taken), _static_value(node.right, taken)
    if not all(isinstance(x, int | float) and abs(x) < 2**53 for x in (left, right)):
        return NOT_STATIC
    return NOT_STATIC if isinstance(node.op, ast.Div) and right == 0 else ARITHMETIC[type(node.op)](left, right)


def literal_integer(root: ast.expr) -> int | None:
    """Return the value of integer arithmetic on literals; None for anything else, and where numbers become too large."""
    node, sign = root, 1
    while isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node, sign = node.operand, -sign
    if isinstance(node, ast.Constant):
        return sign * node.value if type(node.value) is int else None
    if not isinstance(node, ast.BinOp) or type(node.op) not in INTEGERS or _tree_height(node) > 20:
        return None
    left, right = literal_integer(node.left), literal_integer(node.right)
    if left is None or right is None or abs(left) > 2**53 or abs(right) > 2**53:
        return None
    undefined = isinstance(node.op, ast.FloorDiv) and right == 0
    large = isinstance(node.op, ast.Pow) and (right < 0 or right * abs(left).bit_length() > 64)
    return None if undefined or large else sign * int(INTEGERS[type(node.op)](left, right))


def _tree_height(node: ast.expr) -> int:
    """Return the height of a tree of binary operators, counted to 21 at most."""
    level, height = [node], 0
    while level and height <= 20:
        level = [child for n in level if isinstance(n, ast.BinOp) for child in (n.left, n.right)][:1000]
        height += 1
    return height


def dotted_name(node: ast.expr) -> str | None:
    """Return a chain of attributes as text (`np.linalg.norm`), or None for anything else."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(names)]) if isinstance(node, ast.Name) else None


# Axes, shapes, sizes, orders and modes: where such an argument is written out, it is passed as it is.
STATIC = {
    "axis", "axes", "axis1", "axis2", "axisa", "axisb", "axisc", "shape", "newshape", "new_shape", "window_shape", "keepdims",
    "ddof", "ord", "k", "n", "N", "num", "offset", "repeats", "reps", "indices", "indices_or_sections", "source",
    "destination", "decimals", "subscripts", "approximate", "order", "to", "shift", "kth", "pad_width", "mode", "method",
    "side", "increasing", "rowvar", "bias", "ind", "obj", "edge_order", "endpoint", "indexing", "UPLO", "upper", "norm",
    "deg", "discont", "period", "full_matrices", "compute_uv", "rcond", "rtol", "atol", "tol",
    "include_initial", "nan", "posinf", "neginf", "equal_nan", "fweights", "sparse", "reduction", "log_input", "log_target",
    "num_groups", "num_classes", "is_causal", "normalized_shape", "correction", "unbiased", "training", "dim0", "dim1",
}  # fmt: skip
# The same, of parameters whose name means a value in other functions.
STATIC_OF = {
    ("cond", "p"), ("norm", "p"), ("normalize", "p"), ("pairwise_distance", "p"), ("triplet_margin_loss", "p"), ("dist", "p"),
    ("polyder", "m"), ("polyint", "m"), ("digitize", "right"), ("rollaxis", "start"), ("multigammaln", "d"),
    ("gaussian_nll_loss", "full"), ("tri", "M"),
    *((name, "q") for name in ("quantile", "percentile", "nanquantile", "nanpercentile")),
    *((name, "s") for name in ("fftn", "ifftn", "rfftn", "irfftn", "fft2", "ifft2", "rfft2", "irfft2")),
}  # fmt: skip
# Values, although other functions have a size of that name.
VALUES_OF = {
    ("scaled_dot_product_attention", "k"),
    *((name, "bias") for name in ("linear", "layer_norm", "group_norm", "batch_norm", "instance_norm")),
}
# Those that may also be computed.
COMPUTED = {
    "indices", "shape", "n", "k", "num", "nan", "posinf", "neginf", "period", "discont", "fweights", "repeats", "N",
}  # fmt: skip
# Options about memory, types and further results, and those that no rule knows.
NOT_TAKEN = {
    "out", "dtype", "where", "like", "subok", "casting", "initial", "returned", "optimize", "device", "copy", "order",
    "hermitian", "kind", "stable", "sorter", "overwrite_input", "retstep", "return_index", "return_inverse", "return_counts",
    "sorted", "writeable", "cov", "full",
}  # fmt: skip
TAKEN_BY = {("gaussian_nll_loss", "full")}
KEYWORD_SPELLINGS = {"dim": "axis", "keepdim": "keepdims", "dims": "axis", "shifts": "shift"}


def is_static(function: str, parameter: str) -> bool:
    """Return whether an argument that is written out is data, and no value."""
    return (parameter in STATIC and (function, parameter) not in VALUES_OF) or (function, parameter) in STATIC_OF


def _positional_parameters(
    name: str, function: Callable[..., Any], count: int, keywords: Sequence[str], where: Span
) -> list[str]:
    """Return the parameter name of each of `count` positional arguments of a call with these keywords.

    Raises  BadExpression for a call that does not fit the signature, and for options that an expression does not take.
    """
    signature = call_signature(function)
    if signature is None:
        return ["x"] * count
    try:
        bound = signature.bind(*range(count), **dict.fromkeys(keywords, -1))
    except TypeError as error:
        shown = ", ".join(p.name if p.default is p.empty else f"{p.name}=..." for p in signature.parameters.values())
        raise BadExpression(f"{name}: {error}", where=where, do=f"write {name}({shown})") from None
    refused = {p for p in NOT_TAKEN.intersection(bound.arguments) if (ALIASES.get(name, name), p) not in TAKEN_BY}
    if refused:
        raise BadExpression(f"{name} takes no {min(refused)} here", where=where, do="leave it out")
    by_position: dict[int, str] = {}
    for parameter, value in bound.arguments.items():
        if isinstance(value, dict):
            raise BadExpression(f"{name} takes no {min(value)}", where=where, do="leave it out")
        for k in value if isinstance(value, tuple) else (value,):
            by_position[k] = parameter
    return [by_position[k] for k in range(count)]


# The error for a function that is not in the language: why it is not, or which one was meant.

SIZES_HAVE_NAMES = 'a size has the name that --shapes gives it: with --shapes "x: n", write n'
SCIPYS = {
    "comb": "write binom(n, k)", "factorial": "write gamma(n + 1)",
    "zeta": "write polygamma(n, x) for sums of 1/(k + x)**(n + 1)",
    "len": SIZES_HAVE_NAMES,
    "cdist": "write sqrt(sum((x[:, None] - y)**2, axis=-1))", "dropout": "it draws at random: multiply by a mask",
}  # fmt: skip


def unknown_function_error(dotted: str, where: Span, is_value: bool) -> BadExpression:
    """Return the error for a call of an unknown function; `is_value` if the name is one of the user's values."""
    name = dotted.rpartition(".")[2]
    if is_value:
        do = f"'{name}' is a value; to multiply, write {name}*(...)"
        return BadExpression(f"unknown function '{dotted}'", where=where, do=do)
    left_out = REASONS.get(name)
    if left_out is not None:
        says = f"'{name}' is not part of the language: {left_out.why}"
        return BadExpression(says, where=where, do=left_out.do)
    numpys = next((f for module in MODULES.values() if (f := vars(module).get(name)) is not None), None)
    if isinstance(numpys, np.ufunc | type(np.sum) | type(len)) and numpys in primitive.REASONS:
        why, do = primitive.REASONS[numpys]
        return BadExpression(f"'{name}' is not part of the language: {why}", where=where, do=do)
    close = FUNCTION_NAMES.get(name) or closest_name(name, FUNCTIONS)
    advice = SCIPYS.get(name) or (f"did you mean '{close}'?" if close else "gradcli ops lists the functions")
    return BadExpression(f"unknown function '{dotted}'", where=where, do=advice)


# Parse one statement with Python's parser, raising our errors, and locate the nodes in the statement's source.


def extent_of_node(node: ast.AST) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return where a node begins and ends, as (line, byte) pairs."""
    begin = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
    return begin, (getattr(node, "end_lineno", 1) or 1, getattr(node, "end_col_offset", 0) or 0)


def column_in_characters(source: str, at: int) -> int:
    """Return Python's position in UTF-8 bytes as a position in characters."""
    return at if source.isascii() else len(source.encode()[:at].decode(errors="ignore"))


def parse_statement(statement: Statement) -> ast.expr:
    """Return Python's syntax tree of one statement.

    Raises  BadExpression for invalid syntax; TooLarge for nesting that is too deep for Python's parser.
    """
    import warnings

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # gradcli gives its own advice, not Python's ("perhaps you missed a comma")
            return ast.parse(statement.source, mode="eval").body
    except SyntaxError as error:
        at = max(0, min((error.offset or 1) - 1, len(statement.source) - 1))
        message = (error.msg or "invalid syntax").split(". Perhaps")[0].split(". Did you")[0]
        do = "check the operators and brackets around this place"
        raise BadExpression(message, where=statement.span(at, at + 1), do=do) from None
    except (RecursionError, MemoryError, ValueError):
        do = "name parts of it: u = ...; ..."
        raise TooLarge("the expression is nested too deeply", where=statement.span(0, 1), do=do) from None


# Warnings about calls that run but may not mean what the user intended; they depend on the values of a run.


def _first_argument(args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
    return args[0] if args else next(iter(kwargs.values()))


def warn_of_vector_transpose(args: Any, kwargs: Any) -> str | None:
    """Warn of `.T` of a vector."""
    says = ".T of a vector does nothing: for the product of a column and a row write outer(a, b)"
    return says if len(shape(_first_argument(args, kwargs))) == 1 else None


def warn_of_missing_axis(args: Any, kwargs: Any) -> str | None:
    """Warn of a softmax or logsumexp over all entries of a matrix."""
    if len(shape(_first_argument(args, kwargs))) < 2 or len(args) > 1 or "axis" in kwargs:
        return None
    return "without axis, all entries of the matrix are taken together: write axis=-1 for rows, axis=0 for columns"


def warn_of_double_softmax(args: Any, kwargs: Any) -> str | None:
    """Warn of logits that look like the result of a softmax."""
    z = np.asarray(_first_argument(args, kwargs))
    axis = kwargs.get("axis", -1)
    if z.ndim and np.all(z >= 0) and np.allclose(np.sum(z, axis=axis), 1):
        return "these logits look like probabilities: cross_entropy takes the softmax itself"
    return None


NOTICES: dict[str, CallNotice] = {
    **dict.fromkeys(("softmax", "log_softmax", "logsumexp"), warn_of_missing_axis),
    "cross_entropy": warn_of_double_softmax,
}


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
        result = self._compile_tree(parse_statement(statement))
        if statement.name is not None:
            name = normalise_name(statement.name.text)
            blocks = [(self.steps, result)]
            while blocks:
                steps, wanted = blocks.pop()
                for k, step in enumerate(steps):
                    if step.to == wanted and step.name is None:
                        steps[k] = dataclasses.replace(step, name=name)
                        blocks += [step.yes, step.no] if isinstance(step, Choice) else []
            self.names[name] = result
        self.program.result = result
        return result

    def _compile_tree(self, root: ast.expr) -> int:
        stack: list[Compiling] = [self._compile_node(root)]
        value: Any = None
        while stack:
            try:
                child = stack[-1].send(value)
            except StopIteration as stop:
                stack.pop()
                value = stop.value
            else:
                stack.append(self._compile_node(child))
                value = None
        return int(value)

    def _compile_node(self, node: ast.expr) -> Compiling:
        self.nodes += 1
        if self.nodes > MAX_NODES:
            says = f"the expression has more than {MAX_NODES:,} parts"
            raise TooLarge(says, where=self._span_of(node), do="use arrays: sum(x**2)")
        rule = _RULES.get(type(node))
        if rule is None:
            do = REFUSED.get(type(node), "an expression has operators, calls, indices, lists and comparisons")
            raise self._refusal(node, f"a {type(node).__name__.lower()} is not part of the language", do)
        return rule(self, node)

    def _refusal(self, node: ast.AST, says: str, do: str) -> BadExpression:
        return BadExpression(says, where=self._span_of(node), do=do)

    # Registers.

    def _add_register(self, value: Any = None) -> int:
        self.program.registers.append(value)
        return len(self.program.registers) - 1

    def _add_constant(self, name: str) -> int:
        register = self._add_register(np.float64(CONSTANTS[name]))
        if name in ("pi", "e"):
            self.program.constants[register] = name
        return register

    def _emit_instruction(
        self,
        node: ast.AST,
        function: Any,
        operation: str,
        args: list[int],
        kwargs: Any = (),
        notice: CallNotice | None = None,
    ) -> int:
        to, span = self._add_register(), self._span_of(node)
        self.steps.append(Instruction(function, operation, tuple(args), tuple(kwargs), to, span, None, notice))
        return to

    def _span_of(self, node: ast.AST) -> Span:
        source = self.statement.source
        start, end = (column_in_characters(source, at) for _, at in extent_of_node(node))
        return self.statement.span(start, max(end, start + 1))

    # One method per kind of node.

    def _compile_constant(self, node: ast.Constant) -> Compiling:
        yield from ()
        if isinstance(node.value, bool | str) or node.value is None:
            raise self._refusal(node, f"{node.value!r} is no value here", "write a number or a name")
        if not isinstance(node.value, int | float):
            raise self._refusal(node, f"{node.value!r} is not part of the language", "leave it out")
        return self._add_number(node, node.value)

    def _add_number(self, node: ast.AST, number: float) -> int:
        try:
            value = np.float64(number)
        except OverflowError:
            value = np.float64("inf")
        if np.isinf(value):
            says = "this number is larger than the largest float64"
            raise self._refusal(node, says, "write inf, or a smaller number")
        return self._add_register(value)

    def _compile_name(self, node: ast.Name) -> Compiling:
        yield from ()
        name = node.id
        if name in self.names:
            return self.names[name]
        if name in CONSTANTS and name not in self.given:
            return self._add_constant(name)
        if name not in self.program.inputs:
            self.program.inputs[name] = self._add_register()
        return self.program.inputs[name]

    def _compile_binary(self, node: ast.BinOp) -> Compiling:
        if type(node.op) not in BINARY:
            raise self._refusal(node, "this operator is not part of the language", "write and, or, * or **")
        function, operation = BINARY[type(node.op)]
        if isinstance(node.op, ast.MatMult) and (sign := self._dot_sign(node)):
            function, operation = np.dot, sign
        by_name = isinstance(node.op, ast.Pow) and isinstance(node.left, ast.Name) and node.left.id == "e"
        if by_name and "e" not in self.names and "e" not in self.given:
            raised = yield node.right
            return self._emit_instruction(node, FUNCTIONS["exp"], "exp", [raised])
        left = yield node.left
        exponent = literal_integer(node.right) if isinstance(node.op, ast.Pow) else None
        if exponent is None:
            right = yield node.right
        else:
            if abs(exponent) > MAX_EXPONENT:
                says = f"the integer exponent {exponent} is over the limit of {MAX_EXPONENT:,}"
                raise TooLarge(says, where=self._span_of(node.right))
            right = self._add_register(exponent)
        return self._emit_instruction(node, function, operation, [left, right])

    def _dot_sign(self, node: ast.BinOp) -> str | None:
        """Return the dot (`·`) if the user wrote the product with one, else None."""
        _, (_, end) = extent_of_node(node.left)
        at = self.statement.source.index("@", column_in_characters(self.statement.source, end))
        sign = self.statement.text[self.statement.columns[at]]
        return sign if sign in DOTS else None

    def _compile_unary(self, node: ast.UnaryOp) -> Compiling:
        whole = literal_integer(node)
        if whole is not None:
            return self._add_number(node, whole)
        operand = yield node.operand
        if isinstance(node.op, ast.Not):
            return self._emit_instruction(node, as_number(np.logical_not), "not", [operand])
        return operand if isinstance(node.op, ast.UAdd) else self._emit_instruction(node, operator.neg, "-", [operand])

    def _compile_comparison(self, node: ast.Compare) -> Compiling:
        left = yield node.left
        result = None
        for op, right_node in zip(node.ops, node.comparators, strict=True):
            right = yield right_node
            one = self._emit_instruction(node, *COMPARE[type(op)], [left, right])
            result = one if result is None else self._emit_instruction(node, *LOGICAL[ast.And], [result, one])
            left = right
        return result if result is not None else left

    def _compile_logical(self, node: ast.BoolOp) -> Compiling:
        result = yield node.values[0]
        for value in node.values[1:]:
            other = yield value
            result = self._emit_instruction(node, *LOGICAL[type(node.op)], [result, other])
        return result

    def _compile_conditional(self, node: ast.IfExp) -> Compiling:
        condition = yield node.test
        outer = self.steps
        blocks = []
        for branch in (node.body, node.orelse):
            self.steps = []
            result = yield branch
            blocks.append((self.steps, result))
        self.steps = outer
        to = self._add_register()
        self.steps.append(Choice(condition, blocks[0], blocks[1], to, self._span_of(node)))
        return to

    def _compile_list(self, node: ast.List) -> Compiling:
        if not node.elts:
            raise self._refusal(node, "an empty list has no values", "write zeros(0), or the values")
        entries = []
        for element in node.elts:
            entry = yield element
            entries.append(entry)
        return self._emit_instruction(node, lambda *xs: np.stack(xs), "[...]", entries)

    def _compile_attribute(self, node: ast.Attribute) -> Compiling:
        dotted = dotted_name(node)
        if dotted and dotted.rpartition(".")[0] in PREFIXES and node.attr in CONSTANTS:
            return self._add_constant(node.attr)
        if node.attr == "T":
            base = yield node.value
            return self._emit_instruction(node, np.transpose, ".T", [base], notice=warn_of_vector_transpose)
        if node.attr == "I":
            base = yield node.value
            return self._emit_instruction(node, inverse, INVERSE, [base])
        known = f"known: .T and .{', .'.join(METHODS)}(...)"
        do = SIZES_HAVE_NAMES if node.attr in ("shape", "size") else known
        raise self._refusal(node, f"'.{node.attr}' is not part of the language", do)

    def _compile_subscript(self, node: ast.Subscript) -> Compiling:
        base = yield node.value
        parts = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
        if not parts:
            raise self._refusal(node, "the index is empty", "write x[0] or x[1:]")
        # `...` and new axes move the axes after them: beside these, an index is written out
        fixed = any(isinstance(p, ast.Constant) and p.value in (None, ...) for p in parts)
        for axis in () if fixed else reversed([k for k, part in enumerate(parts) if self._is_input(part)]):
            place = yield parts[axis]
            base = self._emit_instruction(node, entry_at, "[]", [base, place, self._add_register(axis)])
            self.program.places.add(normalise_name(ast.unparse(parts.pop(axis))))
        if not parts:
            return base
        for axis in () if fixed else _axes_of_moving_slices(parts):
            part = parts[axis]
            assert isinstance(part, ast.Slice)
            bounds = []
            for bound in (part.lower, part.upper):
                value = self._add_register(None)
                if bound is not None:
                    value = yield bound
                    words = {normalise_name(n.id) for n in ast.walk(bound) if isinstance(n, ast.Name)}
                    named = words & {*self.program.inputs}
                    self.program.places |= named
                    self.program.bounds |= named
                bounds.append(value)
            base = self._emit_instruction(node, span_at, "[]", [base, *bounds, self._add_register(axis)])
            parts[axis] = ast.Slice()
        if all(isinstance(part, ast.Slice) and ast.unparse(part) == ":" for part in parts):
            return base
        index = tuple(map(self._literal_index, parts))
        index = index if isinstance(node.slice, ast.Tuple) else index[0]
        return self._emit_instruction(node, index_value, "[]", [base, self._add_register(index)])

    def _is_input(self, node: ast.expr) -> bool:
        name = node.id if isinstance(node, ast.Name) else None
        return name is not None and name not in self.names and (name not in CONSTANTS or name in self.given)

    def _literal_index(self, node: ast.expr) -> Any:
        """Return an index that is written out. Raises BadExpression for any other."""
        if isinstance(node, ast.Tuple):
            return tuple(map(self._literal_index, node.elts))
        if isinstance(node, ast.List):
            return list(map(self._literal_index, node.elts))
        if isinstance(node, ast.Slice):
            ends = (node.lower, node.upper, node.step)
            return slice(*(None if part is None else self._literal_index(part) for part in ends))
        if isinstance(node, ast.Constant) and (node.value is None or node.value is Ellipsis):
            return node.value
        whole = literal_integer(node)
        if whole is None:
            says = "an index must be a whole number, an input, a slice or a list of numbers"
            raise self._refusal(node, says, "write x[0], x[k], x[1:] or x[0, :]")
        return whole

    def _compile_call(self, node: ast.Call) -> Compiling:
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
            function, name, args = *self._find_function(node), []
        for keyword in node.keywords:
            if keyword.arg is None:
                raise self._refusal(keyword.value, "** is not part of the language here", "write the arguments out")
        named = [(KEYWORD_SPELLINGS.get(str(k.arg), str(k.arg)), k.value) for k in node.keywords]
        count, keywords = len(args) + len(node.args), [parameter for parameter, _ in named]
        names = _positional_parameters(name, function, count, keywords, self._span_of(node))
        for argument, parameter in zip(node.args, names[len(args) :], strict=False):
            value = yield from self._compile_argument(argument, parameter, name)
            args.append(value)
        kwargs = []
        for parameter, argument in named:
            value = yield from self._compile_argument(argument, parameter, name)
            kwargs.append((parameter, value))
        notice = NOTICES.get(name) if function is FUNCTIONS.get(name) else None
        return self._emit_instruction(node, function, name, args, kwargs, notice)

    def _compile_argument(self, node: ast.expr, parameter: str, function: str) -> Compiling:
        """Compile an argument: a static one (an axis, a shape), a list of values of different shapes, or one value."""
        if is_static(ALIASES.get(function, function), parameter):
            known = self._static_argument(node)
            if known is not NOT_STATIC:
                return self._add_register(known)
            if parameter not in COMPUTED:
                do = f"write it out, such as {parameter}=1"
                if function in SEQUENCES:
                    do = f"write the arrays as a list: {function}([x, y])"
                if parameter == "ord":
                    do += "; for a vector x and an input p: sum(abs(x)**p)**(1/p)"
                raise self._refusal(node, f"{function} takes {parameter} as data, known before the expression runs", do)
        if function in SEQUENCES and isinstance(node, ast.List | ast.Tuple) and node.elts:
            result = yield from self._compile_sequence(node, nested=function == "block")
            return result
        register = yield node
        return register

    def _static_argument(self, node: ast.expr) -> Any:
        """Return the value of a static argument, which may be a number with a name (`n = 3`), or NOT_STATIC."""
        named = self.names.get(node.id) if isinstance(node, ast.Name) else None
        number = None if named is None else self.program.registers[named]
        if isinstance(number, np.float64):
            return int(number) if number.is_integer() else float(number)
        return _static_value(node, self.given | set(self.names))

    def _compile_sequence(self, node: ast.List | ast.Tuple, nested: bool) -> Compiling:
        """Compile a list whose entries may have different shapes; `nested` ones may be such lists."""
        entries = []
        for element in node.elts:
            if nested and isinstance(element, ast.List | ast.Tuple) and element.elts:
                entry = yield from self._compile_sequence(element, nested)
            else:
                entry = yield element
            entries.append(entry)
        return self._emit_instruction(node, lambda *xs: list(xs), LIST, entries)

    def _find_function(self, node: ast.Call) -> tuple[Callable[..., Any], str]:
        dotted = dotted_name(node.func)
        if dotted is None:
            raise self._refusal(node.func, "only named functions can be called", "to multiply, write *")
        prefix, _, name = dotted.rpartition(".")
        if not prefix and name in ("max", "min") and len(node.args) == 2:
            return FUNCTIONS[name + "imum"], name
        if prefix and prefix not in PREFIXES:
            do = "methods known: .T, ." + ", .".join(METHODS)
            raise self._refusal(node.func, f"'{dotted}' is not part of the language", do)
        if prefix in OF_TORCH and name in OF_TORCH[prefix]:
            return OF_TORCH[prefix][name], name
        if prefix in OF_TORCH and name in FUNCTIONS:
            says = f"'{dotted}' is not part of the language: torch has no such function, or one with other results"
            raise self._refusal(node.func, says, f"write {name}(...), which is gradcli's own")
        if name in FUNCTIONS:
            return FUNCTIONS[name], name
        if not prefix and (along := function_along_axis(name)) is not None:
            return along, name
        known = not prefix and (name in self.names or name in self.program.inputs)
        raise unknown_function_error(dotted, self._span_of(node.func), known)


_RULES: dict[type[ast.AST], Callable[[Compiler, Any], Compiling]] = {
    ast.Constant: Compiler._compile_constant, ast.Name: Compiler._compile_name, ast.BinOp: Compiler._compile_binary,
    ast.UnaryOp: Compiler._compile_unary,
    ast.Compare: Compiler._compile_comparison, ast.BoolOp: Compiler._compile_logical,
    ast.IfExp: Compiler._compile_conditional, ast.List: Compiler._compile_list,
    ast.Attribute: Compiler._compile_attribute, ast.Subscript: Compiler._compile_subscript, ast.Call: Compiler._compile_call,
}  # fmt: skip


def compile_expression(text: str, given: frozenset[str] = frozenset()) -> Instructions:
    """Return the program of an expression. Raises BadExpression, TooLarge."""
    compiler = Compiler(given)
    *named, last = split_statements(text)
    for statement in named:
        if statement.name is None:
            where = statement.span(0, len(statement.source))
            do = "name it (u = ...), or put brackets around an expression of several lines"
            raise BadExpression("the value of this statement is not used", where=where, do=do)
        compiler.add(statement)
    compiler.add(last)
    result = compiler.program.registers[compiler.program.result]
    if isinstance(result, str | bool):
        raise BadExpression("the result is not a number", where=Span(text, 0, len(text)), do="write a formula")
    return compiler.program


def check_claim(text: str, given: frozenset[str]) -> None:
    """Check that a claim, such as `p = softmax(z); z=p-y, b=1`, is in the language. Raises BadExpression, TooLarge."""
    shared, pieces = shared_and_parts(text)
    compiler = Compiler(given)
    for piece in (*shared, *(piece for piece in pieces if piece.source != "None")):
        compiler.add(piece)


class Expression:
    """A parsed expression: data, never executed as Python.

    Raises  BadExpression for a string that is not in the language; TooLarge over its limits.

    >>> Expression("u = W*x; v = u + b; v**2").inputs
    ('W', 'x', 'b')
    """

    kind: TargetKind = "expression"
    outputs: tuple[OutputPart, ...] = ()

    def __init__(self, text: str, given: frozenset[str] = frozenset()) -> None:
        self.text = text
        self.given = given
        try:
            self.program = compile_expression(text, given)
        except BadExpression as error:
            from gradcli.targets.hand_notation import read_notation

            found = read_notation(text, dict.fromkeys(given), lambda line: compile_expression(line, given))
            if found is None:
                raise
            error = found.refusal(text) if found.question else error
            error.do = found.advice
            raise error from None

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(self.program.inputs)

    @property
    def places(self) -> frozenset[str]:
        """The inputs whose values are positions in arrays, by which nothing is differentiated unless it is asked for."""
        return frozenset(self.program.places)

    @property
    def bounds(self) -> frozenset[str]:
        """Those of the places that bound slices."""
        return frozenset(self.program.bounds)

    @property
    def has_constants(self) -> bool:
        """Whether pi or e is in it, which float64 rounds."""
        return bool(self.program.constants)

    def __call__(self, values: Mapping[str, Value]) -> Value:
        return self.program.run(values)

    def watched(self, values: Mapping[str, Value], watch: Watch) -> Value:
        """Return the value, and call `watch(step, args, kwargs)` before each operation."""
        return self.program.run(values, watch)

    def survey(self, values: Mapping[str, Value]) -> tuple[Value, list[Notice]]:
        y, said = self.program.survey(values)
        return y, [Notice(Kind.NOTICE, Severity.WARNING, message, span) for message, span in said]

    def __reduce__(self) -> tuple[type["Expression"], tuple[str, frozenset[str]]]:
        return Expression, (self.text, self.given)
