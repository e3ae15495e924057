"""Which memory the values of a program lie in, and when it is free to be used again."""

from collections.abc import Sequence

import numpy as np

from gradcli.core.primitive import Primitive, named
from gradcli.core.shapes import shape
from gradcli.primitives.elementwise import INTEGER_POWER, RELU
from gradcli.primitives.linalg import MATMUL
from gradcli.primitives.reductions import SUM
from gradcli.primitives.shaping import JOIN, PUT, SCATTER, SELECT, is_simple
from gradcli.programs.straight_line import Node, StraightLine

REUSED = 2**11  # entries, from which on memory is worth using again
_ADD = named("add")
_NEW = (INTEGER_POWER, RELU, MATMUL, SUM, SCATTER, SELECT, JOIN, PUT)  # beside numpy's ufuncs: they return new arrays


class Memory:
    """The memory of the nodes that results are computed from.

    `of[k]` are the nodes whose arrays node k may lie in: its own for an operation that returns a new array, or a number;
    for any other, those of its operands, of which the result may be a view. `added[k] = j` says that addition k adds what
    scatter j would spread over zeros into the memory of its other operand, so that j itself is not made. `written[k] = j`
    says that put k writes into the memory of its operand j.
    """

    def __init__(self, program: StraightLine, results: Sequence[int], inputs: Sequence[int]) -> None:
        self.program = program
        self.order = program.needed([*results, *inputs])
        self.results = frozenset(results)
        self.of: dict[int, frozenset[int]] = {}
        self.added: dict[int, int] = {}
        self.written: dict[int, int] = {}
        self._uses = self._readers()
        self._merge()
        self.unmade = frozenset(self.added.values())
        self.last = self._last_uses()
        self._free: dict[tuple[int, ...], list[int]] = {}

    def shape(self, k: int) -> tuple[int, ...]:
        """Return the shape of a node."""
        return shape(self.program.nodes[k].value)

    def is_new(self, k: int) -> bool:
        """Whether a node is an array that nobody else has."""
        primitive = self.program.nodes[k].operation
        if not isinstance(primitive, Primitive) or not self.shape(k):
            return False
        return isinstance(primitive.fun, np.ufunc) or primitive.is_a(*_NEW)

    def is_whole(self, k: int) -> bool:
        """Whether a node is all of an array that nobody else has."""
        (root, *others) = self.of[k]
        own = root == k or k in self.added or k in self.written
        return not others and self.is_new(root) and self.shape(root) == self.shape(k) and own

    def is_simple_scatter(self, k: int) -> bool:
        """Whether a node is zeros with another one written into a part of them, no entry twice."""
        node = self.program.nodes[k]
        return node.operation is SCATTER and is_simple(node.params["index"])

    def _readers(self) -> dict[int, list[int]]:
        uses: dict[int, list[int]] = {}
        for k in self.order:
            for j in self.program.nodes[k].operands:
                uses.setdefault(j, []).append(k)
        return uses

    def _merge(self) -> None:
        """Find where each node lies, and what is written into the memory of an operand that nothing reads later."""
        latest: dict[int, float] = {}  # of an array: its last reader
        for k in self.order:
            node = self.program.nodes[k]
            if node.operation is _ADD:
                self._add_into(k, node)
            elif node.operation is PUT and self._may_write(k, node, latest):
                self.written[k] = node.operands[0]
            self.of[k] = self._lies_in(k, node)
            last = float("inf") if k in self.results else max(self._uses.get(k, [k]))
            for root in self.of[k]:
                latest[root] = last if k in self.written else max(latest.get(root, 0), last)

    def _lies_in(self, k: int, node: Node) -> frozenset[int]:
        if k in self.written:
            return self.of[self.written[k]]
        if not node.operands or not self.shape(k) or (self.is_new(k) and k not in self.added):
            return frozenset((k,))
        return frozenset().union(*(self.of[j] for j in node.operands if j != self.added.get(k)))

    def _add_into(self, k: int, node: Node) -> None:
        for scatter, other in (node.operands[::-1], node.operands):
            alone = all(self._uses[x] == [k] and x not in self.results for x in (scatter, other))
            whole = alone and self.is_simple_scatter(scatter) and self.is_whole(other)
            if whole and self.shape(other) == self.shape(k) and not self._is_written_before(scatter, k):
                self.added[k] = scatter
                return

    def _is_written_before(self, scatter: int, k: int) -> bool:
        """Whether what a scatter reads is written over before node k, which would read it then."""
        (operand,) = self.program.nodes[scatter].operands
        return any(scatter < put < k and not self.of[put].isdisjoint(self.of[operand]) for put in self.written)

    def _may_write(self, k: int, node: Node, latest: dict[int, float]) -> bool:
        """Whether a put can write into its operand's memory: that is all its own, and not read any more."""
        base, v = node.operands
        if not self.is_whole(base) or not self.of[v].isdisjoint(self.of[base]):
            return False
        (root,) = self.of[base]
        return latest[root] <= k and self.program.nodes[base].dtype == node.dtype

    def operands(self, k: int) -> tuple[int, ...]:
        """Return what is read for a node: an addition reads for the scatter that it does the work of."""
        if k in self.unmade:
            return ()
        nodes = self.program.nodes
        return tuple(nodes[j].operands[0] if j == self.added.get(k) else j for j in nodes[k].operands)

    def _last_uses(self) -> dict[int, list[int]]:
        """Return the arrays that are read no more after each node; those of inputs, constants and results stay."""
        last: dict[int, int] = {}
        for k in self.order:
            for j in (k, *self.operands(k)):
                last |= dict.fromkeys(self.of[j], k)
        kept = frozenset().union(*(self.of[k] for k in self.results))
        found: dict[int, list[int]] = {}
        for root, k in last.items():
            if self.is_new(root) and root not in kept:
                found.setdefault(k, []).append(root)
        return found

    def taken(self, k: int) -> int | None:
        """Return the node into whose memory an elementwise node can be written, or None for new memory."""
        wanted, node = self.shape(k), self.program.nodes[k]
        if node.value.size < REUSED or not self._is_float(k):
            return None
        for root in self.last.get(k, ()):
            if root != k and root in self.operands(k) and self.shape(root) == wanted and self._is_float(root):
                self.last[k].remove(root)
                return root
        free = self._free.get(wanted)
        return free.pop() if free else None

    def _is_float(self, k: int) -> bool:
        return self.program.nodes[k].dtype == np.float64

    def release(self, k: int) -> None:
        """Make free what is read no more after a node."""
        for root in self.last.get(k, ()):
            if self._is_float(root):
                self._free.setdefault(self.shape(root), []).append(root)
