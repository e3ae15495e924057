"""Fewer nodes for a drawing of a long computation: by source line, by turn of a loop, by loop, and at last by count.

Only neighbours in the order of computation are joined, so that what is joined never forms a cycle.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from gradcli.core.repeats import turns
from gradcli.reports.trace import Node

MOST = 400  # nodes of a drawing


@dataclass(frozen=True, slots=True)
class Group:
    """Nodes that are drawn as one, by the numbers of the first and the last; `turns` counts the turns of a loop in it."""

    first: int
    last: int
    turns: int = 1

    @property
    def count(self) -> int:
        """The number of nodes in the group."""
        return self.last - self.first + 1


def collapsed(nodes: Sequence[Node], most: int = MOST) -> tuple[Group, ...]:
    """Return at most `most` groups of nodes, in order; each node is a group of its own where there are few enough."""
    groups = [Group(k, k) for k in range(len(nodes))]
    for joined in (_inputs, _by_line, _by_turn, _by_loop, _by_turn, _by_loop):
        if len(groups) <= most:
            return tuple(groups)
        groups = joined(nodes, groups, most)
    return tuple(groups if len(groups) <= most else _by_count(groups, most))


def _inputs(nodes: Sequence[Node], groups: Sequence[Group], most: int) -> list[Group]:
    """Join the inputs, where they alone take more than half of the room."""
    inputs = [group for group in groups if nodes[group.last].operation == "input"]
    return [_joined(inputs), *groups[len(inputs) :]] if len(inputs) > most // 2 else [*groups]


def _by_line(nodes: Sequence[Node], groups: Sequence[Group], most: int) -> list[Group]:
    """Join neighbours on one line of the source, the turns of a loop on one line apart."""

    def key(group: Group) -> object:
        node = nodes[group.last]
        return group.first if node.operation == "input" or node.line is None else (node.file, node.line)

    found: list[Group] = []
    for _, run in groupby(groups, key):
        line = [*run]
        parts = turns(line, [nodes[group.last].operation for group in line])
        room = most * len(line) // len(groups)  # of a line that repeats nothing, as a loop of growing length
        found += _by_count(line, room) if len(parts) == 1 and len(line) > most else map(_joined, parts)
    return found


def _by_turn(nodes: Sequence[Node], groups: Sequence[Group], most: int) -> list[Group]:
    """Join neighbours whose lines ascend: the turns of a loop."""
    runs: list[list[Group]] = []
    for group in groups:
        before = nodes[runs[-1][-1].last] if runs else None
        here = nodes[group.first]
        ascends = (
            before is not None and before.file == here.file and before.line is not None and here.line is not None
            and before.operation != "input" and before.line < here.line
        )  # fmt: skip
        if ascends:
            runs[-1].append(group)
        else:
            runs.append([group])
    return [_joined(run) for run in runs]


def _by_loop(nodes: Sequence[Node], groups: Sequence[Group], most: int) -> list[Group]:
    """Join turns that begin on the same line, as many as are needed, at most the whole loop."""
    loops = [[*run] for _, run in groupby(groups, lambda group: _start(nodes, group))]
    left = most - sum(len(run) == 1 for run in loops)
    several = [len(run) for run in loops if len(run) > 1]
    size = next(size for size in _round_numbers() if size >= max(several, default=1) or _parts(several, size) <= left)
    parts = [run[k : k + size] for run in loops for k in range(0, len(run), size)]
    return [Group(part[0].first, part[-1].last, len(part)) for part in parts]


def _by_count(groups: Sequence[Group], most: int) -> list[Group]:
    """Join so many neighbours that few enough are left."""
    size = next(size for size in _round_numbers() if -(-len(groups) // size) <= most)
    return [_joined(groups[k : k + size]) for k in range(0, len(groups), size)]


def _start(nodes: Sequence[Node], group: Group) -> object:
    node = nodes[group.first]
    return group.first if node.line is None or node.operation == "input" else (node.file, node.line)


def _parts(lengths: Sequence[int], size: int) -> int:
    return sum(-(-length // size) for length in lengths)


def _round_numbers() -> Iterator[int]:
    """Yield 1, 2, 5, 10, 20, 50 and so on."""
    unit = 1
    while True:
        yield from (unit, 2 * unit, 5 * unit)
        unit *= 10


def _joined(groups: Sequence[Group]) -> Group:
    return Group(groups[0].first, groups[-1].last, groups[0].turns if len(groups) == 1 else 1)


def edges_between(nodes: Sequence[Node], groups: Sequence[Group]) -> list[tuple[int, int, int, int]]:
    """Return the edges of a drawing: from and to, as numbers of groups, and one operand and one user of the edge.

    Edges between the same two groups are one.
    """
    group_of = [number for number, group in enumerate(groups) for _ in range(group.count)]
    numbers = {node.name: k for k, node in enumerate(nodes)}
    found: dict[tuple[int, int], tuple[int, int]] = {}
    for k, node in enumerate(nodes):
        for operand in node.partials:
            before = numbers.get(operand)
            if before is not None and group_of[before] != group_of[k]:
                found[group_of[before], group_of[k]] = (before, k)
    return [(a, b, before, k) for (a, b), (before, k) in sorted(found.items())]


def titled(nodes: Sequence[Node], group: Group) -> str:
    """Return what a group of several nodes is: its operations, lines and turns of a loop."""
    members = nodes[group.first : group.last + 1]
    if all(node.operation == "input" for node in members):
        return f"{group.count:,} inputs"
    steps = f"{group.count:,} steps"
    lines = [node.line for node in members if node.line is not None]
    if not lines:
        return steps
    first, last = min(lines), max(lines)
    where = f"line {first}" if first == last else f"lines {first}-{last}"
    return f"{where}{f' x {group.turns:,}' if group.turns > 1 else ''}: {steps}"
