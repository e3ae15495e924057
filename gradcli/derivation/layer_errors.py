"""The layers of a network, and the errors of backpropagation: the derivative of f by what each layer passes to its function.

A layer is a product with an input of f, its weights, to which a bias may be added. Layers are a chain where each takes a
function, entry by entry, of what the one before gave.

Source   Nielsen (2015), Neural Networks and Deep Learning, chapter 2: the four equations of backpropagation.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from gradcli.arithmetic.tape import CONSTANT, Recorded
from gradcli.arithmetic.value_graph import GraphNode
from gradcli.classes import dataclass
from gradcli.derivation.sized_recording import Sweep, sweep_back_by_names, walk_operands_first
from gradcli.report.derive import split_subscript

_PRODUCTS = {"matmul", "einsum", "dot"}
_MOVING = {"reshape", "transpose", "broadcast_to", "positive"}  # operations that change no entry


@dataclass(frozen=True)
class NetworkLayer:
    """A layer of a network: the node of what it passes on, and the name of its weights."""

    node: GraphNode
    weights: str


def find_layer_chain(y: GraphNode) -> tuple[NetworkLayer, ...]:
    """Return the layers of which a value is a function, the first one first; none where they are no chain."""
    users: dict[int, list[GraphNode]] = {}
    order = list(walk_operands_first(y.fixed()))
    for node in order:
        for x in node.args:
            if isinstance(x, GraphNode):
                users.setdefault(id(x), []).append(node)
    found: dict[int, NetworkLayer] = {}
    for node in order:
        inputs = [x for x in map(_skip_rearrangements, node.args) if _is_input(x)] if node.op in _PRODUCTS else []
        if inputs and len(node.args) == 2:
            end = _output_of_layer(node, users)
            # the weights: the input or, of two inputs, the one that is a matrix, the last of two
            weights = max(reversed(inputs), key=lambda x: len(x.shape)).op.removeprefix("input ")
            found.setdefault(id(end), NetworkLayer(end, weights))
    chain: list[NetworkLayer] = []
    for layer in (own for node in order if (own := found.get(id(node))) is not None and node is not y.fixed()):
        if chain and not _is_next_layer(layer.node, chain[-1].node):
            return ()
        chain.append(layer)
    return tuple(chain)


def layer_numbers(chain: Sequence[NetworkLayer]) -> tuple[str, ...]:
    """Return the number of each layer: that of its weights, where all have one and they rise by one, else its place."""
    own = [split_subscript(layer.weights)[1] for layer in chain]
    counted = own and own[0] and own == [str(int(own[0]) + k) for k in range(len(own))]
    return tuple(own) if counted else tuple(str(k) for k in range(1, len(chain) + 1))


def _skip_rearrangements(x: Any) -> Any:
    """Return what a node moves the entries of; any other node as it is."""
    while isinstance(x, GraphNode) and x.op in _MOVING:
        x = x.args[0]
    return x


def _is_input(x: Any) -> bool:
    return isinstance(x, GraphNode) and x.op.startswith("input ")


def _output_of_layer(product: GraphNode, users: Mapping[int, list[GraphNode]]) -> GraphNode:
    """Return what a layer passes on: its product, other products and inputs added."""
    node = product
    while len(own := users.get(id(node), [])) == 1:
        (user,) = own
        others = [_skip_rearrangements(x) for x in user.args if x is not node]
        added = user.op == "add" and all(
            _is_input(x) or (isinstance(x, GraphNode) and x.op in _PRODUCTS) for x in others
        )
        if not (added or (user.op == "reshape" and user.shape == tuple(n for n in node.shape if n != 1))):
            break
        node = user
    return node


def _is_next_layer(z: GraphNode, before: GraphNode) -> bool:
    """Whether a layer's product is with a function, entry by entry, of what the layer before gave."""
    pending: list[Any] = [z]
    while pending:
        node = pending.pop()
        if not isinstance(node, GraphNode):
            continue
        if node.op in _PRODUCTS:
            return any(_is_elementwise_function(_skip_rearrangements(x), before) for x in node.args)
        pending += node.args if node.op == "add" or node.op in _MOVING else []
    return False


def _is_elementwise_function(x: Any, z: GraphNode) -> bool:
    """Whether a value is a function of z entry by entry, and not z itself: all between them have the shape of z."""
    if x is z or not isinstance(x, GraphNode) or x.shape != z.shape:
        return False
    met = False
    pending = [x]
    seen: set[int] = set()
    while pending:
        node = pending.pop()
        for a in (a for a in node.args if isinstance(a, GraphNode) and a is not z and id(a) not in seen):
            seen.add(id(a))
            if (a.shape != z.shape or a.op in _PRODUCTS) and any(n is z for n in walk_operands_first(a)):
                return False
            pending.append(a)
        met = met or any(a is z for a in node.args)
    return met


# The errors, by a reverse sweep that goes on with their names.


def find_layer_errors(sweeps: Sequence[Sweep], names: Sequence[str]) -> tuple[dict[str, list[Any]], list[Any]]:
    """Return the errors of the layers that depend on the one input, and the derivative in terms of them, in every recording.

    `names` has one for each layer, the first layer's first; the errors have them, the last layer's first.
    """
    found: dict[str, list[Any]] = {}
    derivative: list[Any] = []
    for sweep in sweeps:
        if not isinstance(sweep.y, Recorded) or sweep.y.slot == CONSTANT:
            return {}, []
        by_node = {
            id(layer.node): name
            for layer, name in zip(find_layer_chain(sweep.tape.value(sweep.y.slot)), names, strict=True)
        }
        own: dict[str, list[Any]] = {}
        named: dict[int, tuple[str, list[Any]]] = {}
        lines = sweep.tape.lines[: sweep.y.slot + 1]
        for k, (primitive, _, _, y, _, _) in enumerate(lines):
            name = by_node.get(id(y.fixed()), "") if primitive is not None and isinstance(y, GraphNode) else ""
            if name:
                named[k] = name, own.setdefault(name, [None])
        bars = sweep_back_by_names(lines, GraphNode.lift(1.0), named)
        derivative.append(bars[sweep.inputs[0].slot])
        for name, (bar,) in own.items():
            found.setdefault(name, []).append(bar)
    return {name: found[name] for name in reversed(names) if name in found}, derivative
