"""Which boxes a drawing has, level by level: a node alone, or one box for a loop, a turn of it, a function, or neighbours.

Only neighbours in the order of computation are joined, so that what is joined never forms a cycle.
"""

import heapq
from collections.abc import Collection, Sequence
from dataclasses import replace

from gradcli.classes import dataclass
from gradcli.report import numbers
from gradcli.report.common import Absent
from gradcli.report.trace import CodeBlock, Node, TraceReport

MOST = 60  # boxes of one level
_DRAWN = 100  # boxes of all levels


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Neighbouring nodes that are drawn as one box, by the numbers of the first and the last.

    title   What several nodes are; empty for one.
    opened  The loops and functions that need no box of their own inside of this one.
    turns   The turns of a loop, or the calls of a function, that it consists of: the number of each and of its first node.
    level   The number of the level that shows what is inside; None where none does.
    """

    first: int
    last: int
    title: str = ""
    opened: tuple[CodeBlock, ...] = ()
    turns: tuple[tuple[int, int], ...] = ()
    level: int | None = None

    @property
    def count(self) -> int:
        """The number of nodes in the group."""
        return self.last - self.first + 1


@dataclass(frozen=True, slots=True)
class Level:
    """The boxes that are drawn together: those of the whole computation, or those inside of one box.

    `above` has the numbers of the level and of the box that open this one; None for the whole.
    """

    groups: tuple[NodeGroup, ...]
    title: str = ""
    above: tuple[int, int] | None = None


def levels_of(trace: TraceReport) -> tuple[Level, ...]:
    """Return the levels of a drawing, the whole first; each has at most 60 boxes.

    All of them have a limited number of boxes: what is not drawn has no level. Before others come the first and the last box
    of each level, a box that is the only one to be opened, and the one in which a claim first goes wrong.
    """
    code = _Code(trace)
    found = [Level(tuple(code.split(NodeGroup(0, len(trace.nodes) - 1))))]
    room = _DRAWN - len(found[0].groups)
    waiting = code.closed(found[0], 0, 0)
    while waiting:
        behind, above, k = heapq.heappop(waiting)
        level = found[above]
        inside = Level(tuple(code.split(level.groups[k])), level.groups[k].title, (above, k))
        room -= len(inside.groups)
        if room < 0:
            break
        opened = replace(level.groups[k], level=len(found))
        found[above] = replace(level, groups=(*level.groups[:k], opened, *level.groups[k + 1 :]))
        found.append(inside)
        for closed in code.closed(inside, len(found) - 1, behind):
            heapq.heappush(waiting, closed)
    return tuple(found)


class _Code:
    """What the source says of the nodes: in which functions and loops they are."""

    def __init__(self, trace: TraceReport) -> None:
        self._nodes = trace.nodes
        self._departs = next((k for k, node in enumerate(trace.nodes) if node.name == trace.departs), -1)
        self._around: list[list[CodeBlock]] = []  # the functions and loops that each node is in, the outermost first
        for node in trace.nodes:
            line = -1 if node.line is None else node.line
            blocks = [b for b in trace.blocks_of_code if b.file == node.file and b.first <= line <= b.last]
            self._around.append(sorted(blocks, key=lambda block: block.first - block.last))

    def closed(self, level: Level, number: int, behind: int) -> list[tuple[int, int, int]]:
        """Return the boxes that can be opened, each as how many come before it, the number of the level, and its own."""
        several = [k for k, group in enumerate(level.groups) if group.count > 1]
        wrong = (k for k in several if level.groups[k].first <= self._departs <= level.groups[k].last)
        ends = {*several[:1], *several[-1:], *wrong}
        return [(behind + (k not in ends), number, k) for k in several]

    def split(self, group: NodeGroup) -> list[NodeGroup]:
        """Return what a group consists of: its nodes, if these are few enough, else turns, loops, functions and nodes."""
        if group.count <= MOST:
            return [NodeGroup(k, k) for k in range(group.first, group.last + 1)]
        if len(group.turns) > 1:
            ends = [first - 1 for _, first in group.turns[1:]] + [group.last]
            turn = "call" if group.opened and group.opened[-1].is_function else "turn"
            parts = [
                NodeGroup(first, end, f"{turn} {number}" * (end > first), group.opened, ((number, first),))
                for (number, first), end in zip(group.turns, ends, strict=True)
            ]
        else:  # the nodes of one loop or of one function together
            parts, k = [], group.first
            while k <= group.last:
                block, end = self._inner_block(k, group.opened), k
                if block is not None:
                    end = self._end_of_block(k, group.last, block, group.opened)
                elif self._is_input(k) and (inputs := sum(map(self._is_input, range(k, group.last + 1)))) > MOST // 2:
                    end = k + inputs - 1
                parts.append(NodeGroup(k, k) if k == end else self._group_nodes(k, end, block, group.opened))
                k = end + 1
        if len(parts) == 1:  # such as a function that is one loop
            if len(parts[0].turns) > 1 or parts[0].opened != group.opened:
                return self.split(parts[0])
            parts = [NodeGroup(k, k) for k in range(group.first, group.last + 1)]
        return parts if len(parts) <= MOST else self._join_neighbours(parts)

    def _is_input(self, k: int) -> bool:
        return self._nodes[k].operation == "input"

    def _inner_block(self, k: int, opened: Sequence[CodeBlock]) -> CodeBlock | None:
        """Return the outermost loop or function that a node is in and that is not opened; None if there is none.

        Of a function that the code calls, it is the innermost: what lies around it is no part of the call.
        """
        around, function = self._around[k], self._function_of_node(k)
        if function != self._current_function(opened):
            return function
        inside = around[around.index(function) + 1 :] if function is not None else around
        return next((block for block in inside if block not in opened), None)

    def _function_of_node(self, k: int) -> CodeBlock | None:
        """Return the function in whose own lines a node is."""
        return next((block for block in reversed(self._around[k]) if block.is_function), None)

    def _current_function(self, opened: Sequence[CodeBlock]) -> CodeBlock | None:
        """Return the function whose own lines are seen: the one opened last, or the one whose value the result is."""
        opened_last = next((block for block in reversed(opened) if block.is_function), None)
        return opened_last or self._function_of_node(len(self._nodes) - 1)

    def _end_of_block(self, k: int, last: int, block: CodeBlock, opened: Sequence[CodeBlock]) -> int:
        """Return the last node of a loop, or of calls of one function in a row, that begin with the k-th node."""
        here, own, end, seen = self._current_function(opened), k, k, set[tuple[object, ...]]()
        after: dict[object, set[CodeBlock | None]] = {}  # the calls that followed an operation in earlier turns
        for j in range(k, last + 1):
            if block in self._around[j]:
                again = j > k and self._is_step_back(j, own, seen)
                if again and block.is_function and j > own + 1:
                    break  # another function was called between two calls
                if again:
                    seen.clear()
                seen.add(self._source_key(j))
                after.setdefault(self._source_key(own), set()).update(
                    self._inner_block(i, opened) for i in range(own + 1, j)
                )
                own = end = j
            elif self._function_of_node(j) == here:
                break
            elif end == j - 1 and self._inner_block(j, opened) in after.get(self._source_key(own), ()):
                end = j  # at the end of the last turn
        return end

    def _group_nodes(self, first: int, last: int, block: CodeBlock | None, opened: tuple[CodeBlock, ...]) -> NodeGroup:
        if block is None:
            return NodeGroup(first, last, self._title_of_nodes(first, last), opened)
        turns, opened, title = self._starts_of_turns(first, last, block), (*opened, block), block.title
        while len(turns) == 1 and not block.is_function:  # a loop that has nothing but a loop inside
            inner = self._inner_block(first, opened)
            if inner is None or inner.is_function or self._end_of_block(first, last, inner, opened) < last:
                break
            turns, opened = self._starts_of_turns(first, last, inner), (*opened, inner)
            title, block = f"{title}, {inner.title}", inner
        at = (self._nodes[k].line or 0 for k in range(first, last + 1) if block in self._around[k])
        if any(start <= line <= end for line in at for start, end in block.uneven):
            turns = [first]  # the lines do not say where a turn ends
        if len(turns) > 1:
            title += f"{'' if block.is_function else ':'} ×{len(turns):,}"
        own = [self._function_of_node(k - 1) == self._function_of_node(k) for k in turns[1:]]
        if not all(own) and self._function_of_node(last) == self._current_function(opened):
            turns = [first]  # a call before a turn may be the beginning of it
        return NodeGroup(first, last, title, opened, tuple(enumerate(turns, 1)))

    def _starts_of_turns(self, first: int, last: int, block: CodeBlock) -> list[int]:
        """Return the first nodes of the turns of a loop, or of the calls of a function.

        A turn begins where an operation comes again, or an operand after what it is a part of, or an earlier line, which no loop
        inside explains.
        """
        starts, seen, before = [first], set[tuple[object, ...]](), first
        for k in range(first, last + 1):
            if block not in self._around[k] or isinstance(self._nodes[k].column, Absent):
                continue
            common = [b for b in self._around[k] if b in self._around[before]]
            if self._is_step_back(k, before, seen) and common[-1] == block:
                starts.append(k)
                seen.clear()
            seen.add(self._source_key(k))
            before = k
        return starts

    def _is_step_back(self, k: int, before: int, seen: Collection[tuple[object, ...]]) -> bool:
        """Whether a node is an operation that was seen, an operand of the one before it, or on an earlier line."""
        node, previous = self._nodes[k], self._nodes[before]
        return self._source_key(k) in seen or (node.line or 0) < (previous.line or 0) or _is_within(node, previous)

    def _source_key(self, k: int) -> tuple[object, ...]:
        """Return what tells an operation of the source from others."""
        return self._nodes[k].line, self._nodes[k].column, self._nodes[k].text

    def _join_neighbours(self, parts: Sequence[NodeGroup]) -> list[NodeGroup]:
        """Join so many neighbours that few enough are left."""
        size = numbers.round_step(len(parts) / MOST)
        found = []
        for k in range(0, len(parts), size):
            joined = parts[k : k + size]
            first, last = joined[0], joined[-1]
            turns = [turn for part in joined for turn in part.turns]
            if len(joined) == 1:
                found.append(first)
            elif len(turns) == len(joined) and all(len(part.turns) == 1 for part in joined):
                title = f"turns {turns[0][0]:,}-{turns[-1][0]:,}"
                found.append(NodeGroup(first.first, last.last, title, first.opened, tuple(turns)))
            else:
                title = self._title_of_nodes(first.first, last.last)
                found.append(NodeGroup(first.first, last.last, title, first.opened))
        return found

    def _title_of_nodes(self, first: int, last: int) -> str:
        """Return what several nodes are: inputs, or the lines they are on and their number."""
        members = self._nodes[first : last + 1]
        if all(node.operation == "input" for node in members):
            return f"{len(members):,} inputs"
        lines = [node.line for node in members if node.line is not None and node.file == members[-1].file]
        if not lines:
            return f"{len(members):,} steps"
        where = f"line {lines[0]}" if min(lines) == max(lines) else f"lines {min(lines)}-{max(lines)}"
        return f"{where}: {len(members):,} steps"


def _is_within(node: Node, other: Node) -> bool:
    """Whether the source of a node is a part of another's, on one line."""
    if node is other or node.line != other.line or isinstance(node.column, Absent) or isinstance(other.column, Absent):
        return False
    if isinstance(node.text, Absent) or isinstance(other.text, Absent) or node.column < other.column:
        return False
    return node.column + len(node.text) <= other.column + len(other.text)
