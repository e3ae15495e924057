"""Evaluation of a concrete function's graph on values that may be traced, with calls and loops unrolled.

An operation on untraced values that has no table entry (random numbers, sets) is left to TensorFlow itself.
"""

import linecache
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import tensorflow as tf

from gradcli.core.primitive import Value
from gradcli.core.provenance import HERE, is_users, shown
from gradcli.core.tracer import Tracer
from gradcli.errors import NotSupported, Place
from gradcli.frameworks.tensorflow.ops import TABLE
from gradcli.frameworks.tensorflow.ops.lists import Items

MOST_STEPS = 10_000  # over all loops together, because each step is replayed separately
CALLS = {"PartitionedCall", "StatefulPartitionedCall"}
BRANCHES = {"If", "StatelessIf"}
CASES = {"Case", "StatelessCase"}
LOOPS = {"While", "StatelessWhile"}
STATEFUL = {"StatefulPartitionedCall", "If", "Case", "While"}  # may write into variables
WRITES: dict[str, Callable[[Value, Value], Value]] = {
    "AssignVariableOp": lambda old, new: new, "AssignAddVariableOp": lambda old, new: old + new,
    "AssignSubVariableOp": lambda old, new: old - new,
}  # fmt: skip
SILENT = {"NoOp", "Assert", "PrintV2", "Print", "StringFormat", "WriteSummary", "WriteScalarSummary"}
READS = {"ReadVariableOp", "ResourceGather", "ResourceGatherNd", "VariableShape", "VarIsInitializedOp"}
Values = Sequence[Value]


class Variable:
    """The value of a TensorFlow variable during one evaluation."""

    def __init__(self, value: Value) -> None:
        self.value = value


class At:
    """The source position of a graph's operation."""

    __slots__ = ("operation",)

    def __init__(self, operation: Any) -> None:
        self.operation = operation

    @property
    def span(self) -> Place | None:
        """The innermost line of the user's code."""
        for file, line, *_ in reversed(list(self.operation.traceback or ())):
            if is_users(file):
                return Place(shown(file), line, linecache.getline(file, line).rstrip("\n"))
        return None


class Line:
    """One operation of a plan: its type, its attributes, and the numbers of its input and output values."""

    __slots__ = ("at", "attributes", "inputs", "operation", "outputs", "type")

    def __init__(self, operation: Any, number: Callable[[Any], int]) -> None:
        self.operation = operation
        self.type = operation.type
        self.attributes = {
            name: operation.get_attr(name)
            for name in operation.node_def.attr
            if not name.startswith("_") and name != "value"
        }
        self.inputs = [number(t) for t in operation.inputs]
        self.outputs = [(number(t), t.dtype) for t in operation.outputs]
        self.at = At(operation)


class Plan:
    """The operations that a graph's outputs and variable writes depend on, in order; constants are read once."""

    def __init__(self, graph: Any) -> None:
        numbers: dict[str, int] = {}
        self.graph = graph
        self.state = _state(graph)

        def number(t: Any) -> int:
            return numbers.setdefault(t.name, len(numbers))

        self.inputs = [(number(t), t.dtype) for t in graph.inputs]
        self.constants: dict[int, Value] = {}
        self.lines: list[Line] = []
        for op in _ordered(graph):
            if op.type == "Const":
                self.constants[number(op.outputs[0])] = settled(
                    tf.make_ndarray(op.get_attr("value")), op.outputs[0].dtype
                )
                continue
            line = Line(op, number)
            if not self._folded(line):
                self.lines.append(line)
        self.outputs = [number(t) for t in graph.outputs]

    def _folded(self, line: Line) -> bool:
        """Let TensorFlow compute a constant of a narrow type, so that it is rounded in that type; return whether it did."""
        narrow = any(dtype.is_floating and dtype != tf.float64 for _, dtype in line.outputs)
        if not narrow or line.type not in TABLE or not line.inputs or any(k not in self.constants for k in line.inputs):
            return False
        found = _left_to_tensorflow(line, [self.constants[k] for k in line.inputs])
        for (number, dtype), x in zip(line.outputs, found, strict=True):
            self.constants[number] = settled(x, dtype)
        return True


def _ordered(graph: Any) -> list[Any]:
    """Return the operations that outputs and writes depend on, each after those that it depends on."""
    done = {t.op.name for t in graph.inputs}
    ends = {t.op.name for t in graph.outputs}
    operations = graph.get_operations()
    waiting = [op for op in reversed(operations) if op.name in ends or op.type in STATEFUL or op.type in WRITES]
    needed, stack = {op.name for op in waiting}, list(waiting)
    while stack:
        more = [t.op for t in stack.pop().inputs if t.op.name not in needed]
        needed |= {op.name for op in more}
        stack += more
    found = []
    while waiting:
        op = waiting[-1]
        before = [t.op for t in op.inputs] + [other for other in op.control_inputs if other.name in needed]
        missing = [other for other in before if other.name not in done] if op.name not in done else []
        if missing:
            waiting += missing
            continue
        if op.name not in done:
            done.add(op.name)
            found.append(op)
        waiting.pop()
    return found


_PLANS: WeakKeyDictionary[Any, Plan] = WeakKeyDictionary()


def planned(graph: Any) -> Plan:
    """Return the cached plan of a graph; it is made again if the graph has grown, as it does under a gradient tape."""
    plan = _PLANS.get(graph)
    if plan is None or plan.state != _state(graph):
        plan = _PLANS[graph] = Plan(graph)
    return plan


def _state(graph: Any) -> tuple[int, int]:
    return graph.version, len(graph.outputs)


def evaluated(concrete_function: Any, values: Values) -> list[Value]:
    """Return the flat list of outputs of a concrete function at `values`, the flat list of its own inputs.

    Untraced real numbers are float64 throughout. What the function captured, such as variables, has its current value. Later
    reads see what the function writes into variables; after the evaluation the writes are discarded.

    Raises  NotSupported for an operation that is not replayed, or loops of over 10,000 steps;
            ValueError for a wrong number of inputs.
    """
    captured = list(concrete_function.captured_inputs)
    variables = {id(v.handle): v for v in concrete_function.graph.variables}
    run = _Run(concrete_function.graph)
    plan = planned(concrete_function.graph)
    if len(values) + len(captured) != len(plan.inputs):
        raise ValueError(f"the function takes {len(plan.inputs) - len(captured)} inputs, not {len(values)}")
    taken = [_captured(x, variables) for x in captured]
    own = tf.nest.flatten(concrete_function.graph.structured_outputs, expand_composites=True)
    count = sum(t is not None for t in own)  # a call under a gradient tape adds extra outputs to the graph
    before = HERE.position
    try:
        with np.errstate(all="ignore"):
            return run.plan(plan, [*values, *taken])[:count]
    finally:
        HERE.position = before


def _captured(x: Any, variables: dict[int, Any]) -> Any:
    if x.dtype != tf.resource:
        return x.numpy() if hasattr(x, "numpy") and x.dtype != tf.variant else x
    if id(x) in variables:
        return Variable(settled(variables[id(x)].numpy(), variables[id(x)].dtype))
    kinds = x._handle_data.shape_and_type if getattr(x, "_handle_data", None) is not None else ()
    if not kinds:
        return x
    dtype = tf.as_dtype(kinds[0].dtype)
    return Variable(settled(tf.raw_ops.ReadVariableOp(resource=x, dtype=dtype).numpy(), dtype))


class _Run:
    """One evaluation, with the number of loop steps that are left."""

    def __init__(self, root: Any) -> None:
        self.root = root
        self.left = MOST_STEPS
        self.own_position = HERE.position is None

    def plan(self, plan: Plan, values: Values) -> list[Value]:
        """Run a graph on values for all its inputs."""
        known: dict[int, Value] = dict(plan.constants)
        for (number, dtype), x in zip(plan.inputs, values, strict=True):
            known[number] = settled(x, dtype)
        for line in plan.lines:
            if self.own_position:
                HERE.position = line.at
            found = self.line(line, plan, [known[k] for k in line.inputs])
            for (number, dtype), x in zip(line.outputs, found, strict=False):
                known[number] = settled(x, dtype)
        return [known[k] for k in plan.outputs]

    def line(self, line: Line, plan: Plan, xs: list[Value]) -> Sequence[Value]:
        """Return the values of one operation's outputs. Raises NotSupported."""
        kind, attributes = line.type, line.attributes
        if kind in WRITES:
            xs[0].value = WRITES[kind](xs[0].value, xs[1])
            return ()
        if kind in READS and isinstance(xs[0], Variable):
            xs = [xs[0].value, *xs[1:]]
            kind = {"VariableShape": "Shape"}.get(kind, kind)
        if kind in TABLE:
            y = TABLE[kind](*xs, **attributes)
            return y if isinstance(y, tuple) and not isinstance(y, Items) else (y,)
        if kind in CALLS:
            return self.call(plan, attributes["f"], xs)
        if kind in BRANCHES:
            return self.call(plan, attributes["then_branch" if _truth(xs[0]) else "else_branch"], xs[1:])
        if kind in CASES:
            branches = attributes["branches"]
            k = int(xs[0])
            return self.call(plan, branches[k if 0 <= k < len(branches) else -1], xs[1:])
        if kind in LOOPS:
            return self.loop(plan, attributes, xs)
        if kind in SILENT:
            return ()
        if any(isinstance(x, Tracer) for x in xs):
            raise NotSupported(
                f"TensorFlow's {kind} is not replayed", where=line.at.span, do="write it with others: gradcli ops"
            )
        return _left_to_tensorflow(line, xs)

    def call(self, plan: Plan, function: Any, xs: list[Value]) -> list[Value]:
        """Run a function of the graph's library."""
        return self.plan(planned(_graph_of(function.name, plan.graph, self.root)), xs)

    def loop(self, plan: Plan, attributes: Any, xs: list[Value]) -> list[Value]:
        """Run the body until the condition fails."""
        while _truth(self.call(plan, attributes["cond"], xs)[0]):
            self.left -= 1
            if self.left < 0:
                raise NotSupported(
                    f"loops of over {MOST_STEPS} steps are not replayed", do="check fewer steps, or another point"
                )
            xs = self.call(plan, attributes["body"], xs)
        return xs


def _truth(x: Value) -> bool:
    """Return a condition as a bool: a number is true if it is not 0."""
    return bool(np.not_equal(x, 0))


def _graph_of(name: str, *graphs: Any) -> Any:
    for graph in graphs:
        while graph is not None:
            found = graph._get_function(name)
            if found is not None and getattr(found, "graph", None) is not None:
                return found.graph
            graph = getattr(graph, "outer_graph", None)
    raise NotSupported(f"the graph's function {name} cannot be found, so it cannot be replayed")


def settled(x: Any, dtype: Any) -> Value:
    """Return a value in gradcli's form: reals in float64, arrays without axes as numpy scalars, integers in their type.

    Values that only TensorFlow understands (resources, strings) and lists of tensors are returned unchanged.
    """
    if isinstance(x, Tracer | Variable | Items) or dtype in (tf.resource, tf.variant, tf.string):
        return x
    y = np.asarray(x)
    wanted = np.dtype(np.float64 if dtype.is_floating else np.complex128 if dtype.is_complex else dtype.as_numpy_dtype)
    y = y if y.dtype == wanted else y.astype(wanted)
    return y if y.shape else y[()]


def _left_to_tensorflow(line: Line, xs: list[Value]) -> Sequence[Value]:
    """Run one operation on untraced values in TensorFlow itself. Raises NotSupported."""
    operation = line.operation
    typed = [
        tf.cast(x, t.dtype) if isinstance(x, np.ndarray | np.generic) and t.dtype.is_floating else x
        for x, t in zip(xs, operation.inputs, strict=True)
    ]
    function = getattr(tf.raw_ops, line.type, None)
    if function is None or any(isinstance(x, Variable | Items) for x in xs):
        raise NotSupported(f"TensorFlow's {line.type} is not replayed", where=line.at.span)
    given: dict[str, Any] = {}
    rest = iter(typed)
    for argument in operation.op_def.input_arg:
        counts = argument.number_attr or argument.type_list_attr
        if counts:
            n = line.attributes[counts]
            given[argument.name] = [next(rest) for _ in range(n if isinstance(n, int) else len(n))]
        else:
            given[argument.name] = next(rest)
    names = {a.name for a in operation.op_def.attr} - {a.type_attr for a in operation.op_def.input_arg}
    names -= {a.number_attr or a.type_list_attr for a in operation.op_def.input_arg}
    given |= {name: x for name, x in line.attributes.items() if name in names}
    y = function(**given)
    ys = y if isinstance(y, list | tuple) else (y,)
    return [part.numpy() if part.dtype not in (tf.resource, tf.variant) else part for part in ys]
