"""A function that several ranks evaluate in step, as one function of numpy arrays: the shards of all ranks are its inputs.

An input `x` becomes `x.rank0`, `x.rank1`, ... A shard is displaced on its rank alone. A value that all ranks hold is displaced
on all of them at once, whichever of its names is: each rank has a gradient of it, and each of them must be the whole one.
"""

import contextlib
import datetime
import hashlib
import inspect
import linecache
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from gradcli.classes import dataclass
from gradcli.errors import BadOption, BadTarget, FunctionFailed, NotSupported, closest_name
from gradcli.frameworks.framework import EPS, Described, Failure, Placed, RankCall, Tensor
from gradcli.frameworks.native import recognise_framework
from gradcli.frameworks.torch.adapter import (
    FORMATS,
    FRAMEWORK,
    as_plain_function,
    detached_copy,
    find_user_subclasses,
    report_forward_calls,
    seeded,
)
from gradcli.process.copies import Ranks, Silent
from gradcli.request.options import RankOptions
from gradcli.request.point import Array
from gradcli.targets.facts import Notice, OutputPart
from gradcli.targets.loading import load
from gradcli.targets.nesting import Node, put_together, take_apart
from gradcli.targets.python import message_of, signature_of
from gradcli.tracing.primitive import Value
from gradcli.tracing.provenance import is_users_file, path_for_display, place_of_definition, place_of_error
from gradcli.tracing.shapes import shape, size
from gradcli.tracing.tracer import Tracer
from gradcli.words import Kind, Severity, TargetKind

_ALIKE = 1e-12  # relative: results of ranks that are one value
_EQUAL = 1000.0  # roundings of the largest value: ranks may sum in other orders
# Values that are kept: the entries of a value that all ranks hold are displaced once for each of them.
_MOST_KEPT = 100_000
_STEP = np.finfo(float).eps ** (1 / 3)


@dataclass(frozen=True, slots=True)
class Placement:
    """Where the ranks have an input: its shape, and the entries of each rank, as positions in the flat array.

    Of a value that all ranks hold, `positions` is None.
    """

    names: tuple[str, ...]
    whole: tuple[int, ...] = ()
    positions: tuple[Any, ...] | None = None
    of_module: bool = False

    @property
    def replicated(self) -> bool:
        """Whether all ranks hold the same value."""
        return self.positions is None


class Group:
    """The ranks of one target: started at the first question, and again after a failure."""

    def __init__(
        self, target: str | Callable[..., Any], text: str, placed: Placed, seed: int, options: RankOptions
    ) -> None:
        self.target, self.text, self.placed, self.seed, self.options = target, text, placed, seed, options
        self._ranks: Ranks | None = None

    @property
    def count(self) -> int:
        """The number of ranks."""
        return self.options.count

    def start(self) -> list[Described]:
        """Start the ranks and return what each knows of the target. Raises BadOption, FunctionFailed."""
        if not Ranks.available:
            raise BadOption("--ranks starts copies of a process, which is safe on Linux alone", do="run it on Linux")
        from gradcli.frameworks.native import import_framework

        import_framework("torch")  # loaded once, before the copies are made

        def serve(rank: int, file: str) -> TorchRank:
            return TorchRank(rank, self.count, file, self.target, self.placed, self.seed, self.options.timeout)

        self._ranks = Ranks(self.count, serve, self.options.timeout)
        return self._ask_ranks([("start",)] * self.count)

    def ask(self, name: str, *arguments: Any) -> list[Any]:
        """Return the answer of each rank to a question; `arguments` have a part for each rank. Raises FunctionFailed."""
        if self._ranks is None or self._ranks.closed:
            self.start()
        return self._ask_ranks([(name, *parts) for parts in zip(*arguments, strict=True)])

    def _ask_ranks(self, questions: Sequence[Any]) -> list[Any]:
        answers = [] if self._ranks is None else self._ranks.ask(questions)
        failed = [k for k, answer in enumerate(answers) if isinstance(answer, Failure | Silent)]
        if not failed:
            return answers
        said = "; ".join(f"rank {k}{_describe_answer(answer)}" for k, answer in enumerate(answers))
        if len(set(map(_describe_answer, answers))) == 1:
            said = f"every rank{_describe_answer(answers[0])}"
        ended = any(isinstance(a, Silent) and a.ended for a in answers)
        failures = (a.where for a in answers if isinstance(a, Failure) and a.where is not None)
        where = None if ended else next(failures, None)  # others fail because one has ended
        do = None
        if not ended and not any(isinstance(a, Failure) for a in answers):
            said = f"{said} (limit: {self.options.timeout:g} s)"
            do = "all ranks have to call the same collectives, in the same order"
        raise FunctionFailed(f"{self.text} on {self.count} ranks: {said}", where=where, do=do)


def _describe_answer(answer: Any) -> str:
    """Return in words, after the rank's number, what it did while another one failed."""
    if isinstance(answer, Failure):
        at = f" ({path_for_display(answer.where.file)}:{answer.where.line})" if answer.where is not None else ""
        return f" raises {answer.message}{at}" if answer.raised else f": {answer.message}"
    if not isinstance(answer, Silent):
        return " returns"
    if answer.ended:
        return f" ended with {answer.ended}"
    file, number = next(((file, number) for file, number, _ in answer.stack if is_users_file(file)), ("", 0))
    inside = [name for file, _, name in answer.stack if Path(file).parent.name == "distributed" and name != "wrapper"]
    doing = f" waits in {inside[-1]}" if inside else " has not returned"
    return f"{doing} ({path_for_display(file)}:{number}: {linecache.getline(file, number).strip()})" if file else doing


def cut_along(value: Array, axis: int, count: int, name: str) -> tuple[Any, ...]:
    """Return for each rank the positions of its part of a value that is cut along an axis. Raises BadOption."""
    if not -np.ndim(value) <= axis < np.ndim(value):
        raise BadOption(
            f"--shard cuts {name} along axis {axis}, and it has shape {shape(value)}", do=f'--shard "{name}: 0"'
        )
    if shape(value)[axis] % count:
        says = f"axis {axis} of {name} has {shape(value)[axis]} entries, which {count} ranks cannot share equally"
        raise BadOption(says, do="choose another size, or cut it yourself: --shard file.py:place")
    return tuple(np.split(np.arange(size(value)).reshape(shape(value)), count, axis))


def parse_axes(text: str) -> dict[str, int | None]:
    """Return the axis of each input in `W: 1, b: all`; None where all ranks hold the value. Raises BadOption."""
    found: dict[str, int | None] = {}
    for part in filter(None, (part.strip() for part in text.replace(";", ",").split(","))):
        name, _, axis = (word.strip() for word in part.rpartition(":"))
        if not name or not (axis == "all" or axis.removeprefix("-").isdecimal()):
            raise BadOption(
                f"--shard does not read '{part}'", do='write --shard "W: 1, b: all", or --shard file.py:place'
            )
        if name in found:
            raise BadOption(f"--shard names '{name}' twice", do="an input is cut along one axis")
        found[name] = None if axis == "all" else int(axis)
    return found


class OnRanks:
    """A function of values that several ranks hold, by name: `by_rank` has the place of each of them, `point` where they are.

    It cannot be traced.
    """

    kind: TargetKind = "python"
    outputs: tuple[OutputPart, ...] = ()
    loss: str | None = None  # what the value is of those of the ranks: `sum` or `mean`; None if they have one value

    def __init__(self, group: Group, text: str, by_rank: Mapping[str, Placement], point: Mapping[str, Any]) -> None:
        self.group, self.text, self.by_rank, self.point = group, text, by_rank, dict(point)
        self.inputs = tuple(name for place in by_rank.values() for name in place.names)
        self._kept: dict[bytes, float] = {}

    def values_by_rank(self, values: Mapping[str, Value]) -> list[dict[str, Value]]:
        """Return the values of each rank by the user's names; a value that all hold is displaced on all by each displacement."""
        found: list[dict[str, Value]] = [{} for _ in range(self.group.count)]
        for name, place in self.by_rank.items():
            parts = [values[part] for part in place.names]
            if place.replicated:
                parts = [sum_displacements(parts, self.point[place.names[0]])] * self.group.count
            for mine, part in zip(found, parts, strict=True):
                mine[name] = part
        return found

    def __call__(self, values: Mapping[str, Value]) -> Value:
        """Return the value. Raises NotSupported for traced values; FunctionFailed if a rank fails."""
        if any(isinstance(x, Tracer) for x in values.values()):
            raise NotSupported("no trace reaches the processes of other ranks", do="give a --reference on one process")
        on_ranks = self.values_by_rank(values)
        key = hashlib.sha256(b"".join(np.asarray(x).tobytes() for mine in on_ranks for x in mine.values())).digest()
        if key not in self._kept:
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            self._kept[key] = self.value(on_ranks)
        return np.float64(self._kept[key])

    def losses(self, on_ranks: list[dict[str, Value]]) -> list[float]:
        """Return the loss of each rank at its values; they evaluate it in step."""
        raise NotImplementedError

    def value(self, on_ranks: list[dict[str, Value]]) -> float:
        """Return the loss of all ranks together."""
        raise NotImplementedError

    def slopes_of_own(self, name: str) -> list[Array]:
        """Return for each rank the derivative of its own loss by its own shard of an input, by central differences."""
        found = []
        for rank, part in enumerate(self.by_rank[name].names):
            x = np.asarray(self.point[part])
            slope = np.empty(x.shape)
            for k in np.ndindex(x.shape):
                h = _STEP * max(1.0, abs(float(x[k])))
                ends = []
                for moved in (h, -h):
                    other = x.copy()
                    other[k] += moved
                    ends.append(self.losses(self.values_by_rank({**self.point, part: other[()]}))[rank])
                slope[k] = (ends[0] - ends[1]) / (2 * h)
            found.append(slope)
        return found

    def survey(self, values: Mapping[str, Value]) -> tuple[Value, list[Notice]]:
        """Return the value, and a notice where a second call returns another one."""
        on_ranks = self.values_by_rank(values)
        first, again = self.value(on_ranks), self.value(on_ranks)
        if first == again or (np.isnan(first) and np.isnan(again)):
            return np.float64(first), []
        says = f"two calls with the same arguments give different values by {abs(first - again):.1e}"
        return np.float64(first), [Notice(Kind.NOT_DETERMINISTIC, Severity.INCONCLUSIVE, says, hint="fix the seed")]


@dataclass(frozen=True, slots=True)
class SharedInCall:
    """What all ranks have in common in one call of a custom function, wherever the program is evaluated.

    `arguments` are the numbers of those that are the same on all ranks; `one` is whether results and their cotangents are.
    """

    arguments: frozenset[int]
    one: bool


class RankedFunction(OnRanks):
    """The loss of a program that ranks run in step, as a function of the inputs of all ranks."""

    def __init__(
        self, group: Group, arguments: Mapping[str, Node], values: Mapping[str, Any], placed: "PlacedInputs"
    ) -> None:
        super().__init__(group, group.text, placed.by_rank, placed.point)
        self.arguments, self.given, self.loss = arguments, values, group.options.loss
        self.data = placed.data
        self.parameters = {name for name, place in placed.by_rank.items() if place.of_module}
        self.at_point: list[float] = []  # the loss of each rank
        self._last: list[float] = []
        self._largest = 0.0
        self.w: Any = None

    def _rank_arguments(self, on_ranks: list[dict[str, Value]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Return the arguments of the target and the parameters of the module, for each rank."""
        made = [
            {name: put_together(node, {**self.given, **data, **mine}) for name, node in self.arguments.items()}
            for data, mine in zip(self.data, on_ranks, strict=True)
        ]
        return made, [{name: mine[name] for name in self.parameters} for mine in on_ranks]

    def losses(self, on_ranks: list[dict[str, Value]]) -> list[float]:
        """Return the loss of each rank. Raises FunctionFailed if a rank fails, or returns another shape than the others."""
        ys = self.group.ask("value", *self._rank_arguments(on_ranks))
        if len(set(map(size, ys))) > 1:
            sizes = "; ".join(f"rank {k} returns {size(y)} numbers" for k, y in enumerate(ys))
            raise FunctionFailed(f"{self.text}: {sizes}", do="return the same shape on every rank")
        if self.w is None:
            self.w = np.ones(1) if size(ys[0]) == 1 else random_weights(self.group.seed, size(ys[0]))
        self._largest = max(float(np.dot(np.abs(self.w), np.abs(np.ravel(y)))) for y in ys)
        self._last = [float(np.dot(self.w, np.ravel(y))) for y in ys]
        return self._last

    def value(self, on_ranks: list[dict[str, Value]]) -> float:
        """Return the loss. Raises FunctionFailed if the losses of the ranks differ, and it is not said what the loss is."""
        losses = self.losses(on_ranks)
        room = _EQUAL * EPS[self.group.placed.dtype] * self._largest
        if self.loss is None and np.any(np.abs(np.subtract(losses, losses[0])) > room):
            said = ", ".join(f"{loss:.6g} on rank {k}" for k, loss in enumerate(losses))
            says = f"the ranks return different values: {said}"
            raise FunctionFailed(says, do="say what the loss is: --loss sum, or --loss mean, as DDP averages")
        return float(np.sum(losses)) if self.loss == "sum" else float(np.mean(losses))

    def survey(self, values: Mapping[str, Value]) -> tuple[Value, list[Notice]]:
        """Return the loss, and a notice where a second call returns another one; keep that of each rank."""
        found = super().survey(values)
        self.at_point = self._last
        return found

    def joined(self, values: Mapping[str, Value]) -> dict[str, Value]:
        """Return the whole values by the user's names, with the target's other arguments."""
        given = dict(self.given)
        for name, place in self.by_rank.items():
            parts = [values[part] for part in place.names]
            if place.positions is None:
                given[name] = sum_displacements(parts, self.point[place.names[0]])
                continue
            order = np.argsort(np.concatenate([np.ravel(p) for p in place.positions]))
            flat = np.concatenate([np.reshape(x, (-1,)) for x in parts])
            given[name] = np.reshape(flat[order], place.whole)
        return given

    def gradient(self, values: Mapping[str, Value], wrt: Sequence[str]) -> dict[str, Array]:
        """Return what backward leaves on each rank, by input; zero where it leaves nothing. Raises FunctionFailed."""
        arguments, parameters = self._rank_arguments(self.values_by_rank(values))
        found = self._ask_with_cotangent("gradient", arguments, parameters, wrt)
        bars = {}
        for name, place in self.by_rank.items():
            for part, on_rank in zip(place.names, found, strict=True):
                if part in wrt:
                    bar = on_rank.get(name)
                    to = shape(values[part])
                    bars[part] = (np.zeros(to) if bar is None else np.reshape(bar, to))[()]
        return bars

    def custom_calls(self, values: Mapping[str, Value], wrt: Sequence[str]) -> list[list[RankCall]]:
        """Return the calls of custom functions on each rank. Raises FunctionFailed."""
        return self._ask_with_cotangent("custom", *self._rank_arguments(self.values_by_rank(values)), wrt)

    def shared_in_calls(self, wrt: Sequence[str]) -> list[SharedInCall]:
        """Return what all ranks have in common in each call, seen beside the point, where what they do not share differs."""
        rng = np.random.default_rng([self.group.seed, 0xBE51DE])
        nearby = dict(self.point)
        for (
            place
        ) in self.by_rank.values():  # every entry is moved by up to a hundredth of itself, and what all hold, once
            for name in place.names[:1] if place.replicated else place.names:
                x = np.asarray(self.point[name])
                nearby[name] = (x + rng.uniform(0.001, 0.01, x.shape) * np.where(x == 0, 1.0, x))[()]
        ranks = self.custom_calls(nearby, wrt)
        found = []
        for number, calls in enumerate(zip(*ranks, strict=False)):
            held = frozenset(k for k in range(len(calls[0].xs)) if _has_equal_parts([call.xs[k] for call in calls]))
            ys = self.group.ask("apply", [number] * len(calls), [[None] * len(call.xs) for call in calls])
            pairs = zip(ys, calls, strict=True)
            one = all(_has_same_values(y, ys[0]) and _has_same_values(call.ybars, calls[0].ybars) for y, call in pairs)
            found.append(SharedInCall(held, one))
        return found

    def _ask_with_cotangent(self, name: str, arguments: Any, parameters: Any, wrt: Sequence[str]) -> list[Any]:
        moved = [
            frozenset(name for name, place in self.by_rank.items() if place.names[rank] in wrt)
            for rank in range(self.group.count)
        ]
        return self.group.ask(name, arguments, parameters, moved, [self.w] * self.group.count)


class RankedCall(OnRanks):
    """One call of a custom function on all ranks, as a function of the tensors that it got there.

    Its value is the product of its results with the cotangents that its backward got, summed over the ranks; where these are
    one value, it is that of one rank.
    """

    def __init__(self, ranked: RankedFunction, calls: Sequence[RankCall], number: int, shared: SharedInCall) -> None:
        self.calls, self.number, self.one = calls, number, shared.one
        by_rank, point, self.places = {}, dict[str, Any](), dict[str, int]()
        for k, name in enumerate(calls[0].names):
            xs = [call.xs[k] for call in calls]
            if any(x is None for x in xs) or all(call.xbars[k] is None for call in calls):
                continue
            held = k in shared.arguments
            if held and ranked.group.options.loss == "mean":
                continue  # it is averaged by what comes later, or not at all
            names = tuple(f"{name}.rank{rank}" for rank in range(len(calls)))
            by_rank[name] = Placement(names, shape(xs[0]), None if held else tuple(np.arange(size(x)) for x in xs))
            point |= zip(names, xs, strict=True)
            self.places[name] = k
        super().__init__(ranked.group, calls[0].name, by_rank, point)
        self.loss = ranked.loss

    def losses(self, on_ranks: list[dict[str, Value]]) -> list[float]:
        """Return the product of the results of each rank with its cotangents. Raises FunctionFailed."""
        xs: list[list[Array | None]] = [[None] * len(call.xs) for call in self.calls]
        for mine, given in zip(xs, on_ranks, strict=True):
            for name, k in self.places.items():
                mine[k] = given[name]
        ys = self.group.ask("apply", [self.number] * self.group.count, xs)
        return [
            sum(float(np.sum(bar * part)) for part, bar in zip(y, call.ybars, strict=False) if bar is not None)
            for y, call in zip(ys, self.calls, strict=True)
        ]

    def value(self, on_ranks: list[dict[str, Value]]) -> float:
        """Return the product, of one rank or of all. Raises FunctionFailed."""
        losses = self.losses(on_ranks)
        return losses[0] if self.one else float(np.sum(losses))

    def claimed(self) -> dict[str, Array]:
        """Return what backward returned on each rank, by the names of the inputs."""
        return {
            part: np.zeros(shape(self.point[part]))[()] if (bar := call.xbars[self.places[name]]) is None else bar
            for name, place in self.by_rank.items()
            for part, call in zip(place.names, self.calls, strict=True)
        }


def _has_same_values(a: Sequence[Array | None], b: Sequence[Array | None]) -> bool:
    return len(a) == len(b) and all(
        x is y
        or (x is not None and y is not None and shape(x) == shape(y) and np.allclose(x, y, rtol=_ALIKE, atol=0.0))
        for x, y in zip(a, b, strict=True)
    )


class RankedReference:
    """A reference on one process as a function of the inputs of all ranks, whose shards it joins."""

    kind: TargetKind = "python"
    outputs: tuple[OutputPart, ...] = ()

    def __init__(self, reference: Any, ranked: RankedFunction) -> None:
        self.reference, self.ranked = reference, ranked
        self.text, self.inputs, self.by_rank, self.loss = ranked.text, ranked.inputs, ranked.by_rank, ranked.loss

    def __call__(self, values: Mapping[str, Value]) -> Value:
        """Return the value of the reference. Raises what it raises."""
        value: Value = self.reference(self.ranked.joined(values))
        return np.reshape(value, ())

    def survey(self, values: Mapping[str, Value]) -> tuple[Value, list[Notice]]:
        """Return the value of the reference, and its notices."""
        found: tuple[Value, list[Notice]] = self.reference.survey(self.ranked.joined(values))
        return found


def sum_displacements(parts: Sequence[Value], at: Array) -> Value:
    """Return a value that all ranks hold, moved from `at` by the sum of what each of its names was moved."""
    return reduce(lambda x, other: x + (other - at), parts)


def random_weights(seed: int, count: int) -> Any:
    """Return random weights of so many outputs, with absolute values from 0.5 to 1.5."""
    rng = np.random.default_rng([seed, 0xCAFE])
    return rng.integers(8, 25, count) / 16 * rng.choice([-1.0, 1.0], count)


@dataclass(frozen=True, slots=True)
class PlacedInputs:
    """Where the ranks have the inputs that are differentiated, and their values by the names of the ranks.

    `data` has for each rank its part of the others that are cut, as labels are.
    """

    by_rank: dict[str, Placement]
    point: dict[str, Any]
    data: list[dict[str, Any]]


def place_inputs(
    options: RankOptions, values: Mapping[str, Any], described: Sequence[Described], group: Group
) -> PlacedInputs:
    """Return where the ranks have each input and each parameter of a module.

    Raises  BadOption for an input that is not there or cannot be cut; FunctionFailed if the user's function `place` fails.
    """
    axes = parse_axes(options.shard) if isinstance(options.shard, str) and not options.places else {}
    parameters = described[0].parameters
    for name in axes:
        if not any(_is_part_of(path, name) for path in (*values, *parameters)):
            near = closest_name(name, [*values, *parameters])
            do = f"did you mean '{near}'?" if near else f"inputs: {', '.join((*values, *parameters))}"
            raise BadOption(f"--shard names '{name}', which is not an input", do=do)
    found = PlacedInputs({}, {}, [{} for _ in range(group.count)])
    for name, x in values.items():
        if not isinstance(x, np.ndarray | np.generic):
            continue
        axis = next((axes[key] for key in axes if _is_part_of(name, key)), None)
        positions = None if axis is None else cut_along(x, axis, group.count, name)
        if options.places:
            positions = _positions_by_user(options.shard, name, x, group)
        parts = [x] * group.count if positions is None else [np.ravel(x)[p] for p in positions]
        if np.asarray(x).dtype.kind != "f":
            for data, part in zip(found.data, parts, strict=True):
                data[name] = part
            continue
        names = tuple(f"{name}.rank{k}" for k in range(group.count))
        found.by_rank[name] = Placement(names, shape(x), positions)
        found.point.update(zip(names, (np.array(part)[()] for part in parts), strict=True))
    for name in parameters:
        parts = [one.parameters[name][0] for one in described]
        said = [axes[key] for key in axes if _is_part_of(name, key)]
        axis = next(iter(said), parameters[name][1])
        if not said and axis is None and not described[0].synced and options.loss != "mean" and _has_equal_parts(parts):
            says = f"{name} has the same values on all ranks: it may be one parameter that all hold, or each rank's own part"
            raise BadOption(says, do=f'say which: --shard "{name}: all", or its axis, as --shard "{name}: 0"')
        names = tuple(f"{name}.rank{k}" for k in range(group.count))
        found.by_rank[name] = _place_parameter(names, parts, axis)
        found.point.update(zip(names, parts, strict=True))
    return found


def _is_part_of(path: str, name: str) -> bool:
    """Whether a path is that of an input, or of a part of it."""
    return name == path or path.startswith((f"{name}.", f"{name}["))


def _has_equal_parts(parts: Sequence[Any]) -> bool:
    return all(np.array_equal(np.asarray(part), np.asarray(parts[0])) for part in parts)


def _place_parameter(names: tuple[str, ...], parts: list[Array], axis: int | None) -> Placement:
    """Return where the ranks have a parameter: equal values are one that all hold, unless it is cut along an axis."""
    if axis is None and _has_equal_parts(parts):
        return Placement(names, shape(parts[0]), None, of_module=True)
    starts = np.cumsum([0, *map(size, parts)])
    apart = [start + np.arange(size(part)).reshape(shape(part)) for start, part in zip(starts, parts, strict=False)]
    if axis is None:
        return Placement(names, (int(starts[-1]),), tuple(apart), of_module=True)
    whole = np.concatenate(apart, axis)
    numbers = np.argsort(np.ravel(whole))
    return Placement(names, shape(whole), tuple(numbers[part] for part in apart), of_module=True)


def _positions_by_user(place: Any, name: str, x: Array, group: Group) -> tuple[Any, ...] | None:
    """Return the positions of each rank by the user's function; None if every rank has the whole value."""
    numbers = np.arange(size(x), dtype=float).reshape(shape(x))
    found = group.ask("shard", *([x] * group.count for x in (place, name, numbers)))
    if all(part is None or np.array_equal(part, numbers) for part in found):
        return None
    parts = [part for part in found if part is not None]
    if not np.array_equal(np.sort(np.concatenate([np.ravel(part) for part in parts])), np.ravel(numbers)):
        says = f"what the function of --shard returns for {name} is not each entry of it on one rank"
        raise BadOption(
            says, do="let every rank return its own entries, or each of them None, where all hold the value"
        )
    return tuple((np.empty(0) if part is None else part).astype(int) for part in found)


# What one rank of a torch.distributed program does: it joins the others, calls the target, and runs its backward pass.

_LATER = 5  # seconds after the limit in which torch ends a collective by itself, if nothing else has

# What gloo says of a failure is between its own file and advice that is not for users.
_GLOO = re.compile(r"\[/\S+/gloo/\S+\] (.*?)(\. This is typically.*|$)", re.DOTALL)


class TorchRank:
    """One rank: it answers what the process that started it asks; what the target raises is a `Failure`."""

    def __init__(
        self,
        rank: int,
        ranks: int,
        file: str,
        target: str | Callable[..., Any],
        placed: Placed,
        seed: int,
        limit: float,
    ) -> None:
        self.rank, self.ranks, self.file, self.target = rank, ranks, file, target
        self.placed, self.seed, self.limit = placed, seed, limit
        self.module: torch.nn.Module | None = None
        self.function: Callable[..., Any] = lambda: None
        self.calls: list[tuple[Any, tuple[Any, ...]]] = []  # of custom functions

    def __call__(self, question: tuple[Any, ...]) -> Any:
        """Return the answer to a question: the name of a method, and its arguments."""
        name, *arguments = question
        try:
            return getattr(self, name)(*arguments)
        except BaseException as error:  # user code raises any type, SystemExit too
            if isinstance(error, FunctionFailed | BadOption | BadTarget):
                return Failure(error.what, raised=False)
            return Failure(_GLOO.sub(r"\1", message_of(error)), place_of_error(error.__traceback__))

    def start(self) -> Described:
        """Join the other ranks, load the target, and return what is known of it."""
        os.environ.update(
            RANK=str(self.rank), LOCAL_RANK=str(self.rank), WORLD_SIZE=str(self.ranks), LOCAL_WORLD_SIZE=str(self.ranks),
            GLOO_SOCKET_IFNAME="lo",
        )  # fmt: skip
        torch.set_num_threads(1)
        torch.set_default_dtype(FORMATS[self.placed.dtype])
        backend = "gloo"
        if self.placed.device.startswith("cuda"):
            torch.cuda.set_device(self.rank)
            self.placed, backend = Placed(self.placed.dtype, f"cuda:{self.rank}"), "nccl"
        store = dist.FileStore(self.file, self.ranks)
        wait = datetime.timedelta(seconds=self.limit + _LATER)
        dist.init_process_group(backend, store=store, rank=self.rank, world_size=self.ranks, timeout=wait)
        found: Any = self.target
        with seeded(self.seed):
            torch.set_default_dtype(FORMATS[self.placed.dtype])
            if isinstance(found, str):
                loaded = load(found)
                if recognise_framework(loaded.found, loaded.module, None) == "jax":
                    raise BadOption("the target uses JAX, and ranks are those of torch", do="add --framework jax")
                found = loaded.found
            if inspect.isclass(found) and issubclass(found, torch.nn.Module):
                found = found()
        if isinstance(found, torch.nn.Module):
            self.module, self.function = found, found
            signature = signature_of(found.forward)
        else:
            self.function = FRAMEWORK.prepared(found, self.placed, self.seed).function
            signature = signature_of(self.function)
        parameters = {name: (_local_array(p.detach()), _shard_axis(p)) for name, p in self._trainable_parameters()}
        synced = isinstance(self.module, torch.nn.parallel.DistributedDataParallel)
        return Described(_plain_signature(signature), parameters, synced)

    def shard(self, place: str | Callable[..., Any], name: str, value: Array) -> Array | None:
        """Return this rank's part of a value by the user's function `place(name, value, rank, ranks)`; None if it has all."""
        found = load(place).found if isinstance(place, str) else place
        part = found(name, value, self.rank, self.ranks)
        if isinstance(part, torch.Tensor):
            part = FRAMEWORK.array(part)
        if part is not None and np.asarray(part).dtype.kind not in "fi":
            raise BadOption(f"the function of --shard returns {type(part).__name__} for {name}", do="return an array")
        return None if part is None else np.asarray(part)

    def value(self, arguments: Mapping[str, Any], parameters: Mapping[str, Array]) -> Array:
        """Return what the target returns, as one vector."""
        self._write_parameters(parameters)
        given, _ = self._to_tensors(arguments, frozenset())
        with self._fresh_run(), torch.no_grad():
            return FRAMEWORK.array(self._join_float_results(self.function(**given)))

    def gradient(
        self, arguments: Mapping[str, Any], parameters: Mapping[str, Array], wrt: frozenset[str], w: Array
    ) -> dict[str, Array | None]:
        """Return what backward leaves on this rank, by input and by parameter, beginning with the cotangent w of the result."""
        self._write_parameters(parameters)
        given, leaves = self._to_tensors(arguments, wrt)
        with self._fresh_run(), torch.enable_grad():
            self._run_backward(self._join_float_results(self.function(**given)), w)
        found = {path: x.grad for path, x in leaves.items()} | {
            name: p.grad for name, p in self._trainable_parameters()
        }
        return {name: None if x is None else _local_array(x) for name, x in found.items() if name in wrt}

    def custom(
        self, arguments: Mapping[str, Any], parameters: Mapping[str, Array], wrt: frozenset[str], w: Array
    ) -> list[RankCall]:
        """Return the calls of the user's custom functions in one run, in order, with what their backward took and returned."""
        self._write_parameters(parameters)
        given, _ = self._to_tensors(arguments, wrt)
        seen: list[tuple[Any, tuple[Any, ...]]] = []
        keep = lambda f, args: seen.append((f, tuple(map(detached_copy, args))))
        reported = report_forward_calls(find_user_subclasses(torch.autograd.Function), keep)
        with self._fresh_run(), torch.enable_grad(), reported:
            y = self._join_float_results(self.function(**given))
            nodes = [node for node in _graph_nodes(y.grad_fn) if hasattr(node, "_forward_cls")]
            found: dict[Any, tuple[Any, Any]] = {}
            for node in nodes:
                node.register_hook(lambda xbars, ybars, node=node: found.__setitem__(node, (ybars, xbars)))
            self._run_backward(y, w)
        self.calls, made = [], []
        waiting = list(seen)
        for node in sorted(nodes, key=lambda node: node._sequence_nr()):
            call = next((c for c in waiting if c[0] is node._forward_cls), None)
            if call is None or node not in found:
                continue
            del waiting[: waiting.index(call) + 1]
            ybars, xbars = ([None if x is None else _local_array(x) for x in bars] for bars in found[node])
            xs = [
                FRAMEWORK.array(x) if isinstance(x, torch.Tensor) and x.is_floating_point() else None for x in call[1]
            ]
            xbars = [*xbars, *[None] * (len(xs) - len(xbars))]
            names = tuple(inspect.signature(as_plain_function(call[0])).parameters)
            names += tuple(f"argument{k}" for k in range(len(names), len(xs)))
            made.append(RankCall(call[0].__name__, names, place_of_definition(call[0].backward), xs, ybars, xbars))
            self.calls.append(call)
        return made

    def apply(self, number: int, xs: Sequence[Array | None]) -> list[Array]:
        """Return the results of a custom function that `custom` saw, at other values of its tensors."""
        function, args = self.calls[number]
        moved = [
            a if x is None else torch.tensor(x, dtype=a.dtype, device=a.device) for a, x in zip(args, xs, strict=True)
        ]
        with self._fresh_run(), torch.no_grad():
            y = as_plain_function(function)(*moved)
        return [
            FRAMEWORK.array(part)
            for part in (y if isinstance(y, tuple | list) else [y])
            if isinstance(part, torch.Tensor)
        ]

    @contextlib.contextmanager
    def _fresh_run(self) -> Iterator[None]:
        """Run the block with seeded random numbers, in the format of the inputs, and no gradient of an earlier run."""
        for _, p in self._trainable_parameters():
            p.grad = None
        with seeded(self.seed):
            torch.set_default_dtype(FORMATS[self.placed.dtype])
            yield

    def _to_tensors(
        self, arguments: Mapping[str, Any], wrt: frozenset[str]
    ) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Return the arguments as tensors, and those that require a gradient by path."""
        given, leaves = dict[str, Any](), dict[str, Tensor]()
        for name, x in arguments.items():
            node, parts = take_apart(name, x)
            made = {
                path: FRAMEWORK.tensor(part, self.placed) if isinstance(part, np.ndarray | np.floating) else part
                for path, part in parts.items()
            }
            leaves |= {path: part.requires_grad_() for path, part in made.items() if path in wrt}
            given[name] = put_together(node, made)
        return given, leaves

    def _trainable_parameters(self) -> list[tuple[str, torch.nn.Parameter]]:
        found = () if self.module is None else self.module.named_parameters()
        return [(name, p) for name, p in found if p.requires_grad and p.is_floating_point()]

    def _write_parameters(self, parameters: Mapping[str, Array]) -> None:
        """Write values into this rank's part of the module's parameters."""
        with torch.no_grad():
            for name, p in self._trainable_parameters():
                to = _local_tensor(p)
                to.copy_(torch.as_tensor(parameters[name], dtype=to.dtype, device=to.device).reshape(to.shape))

    def _join_float_results(self, y: Any) -> Tensor:
        """Return the float results as one vector. Raises FunctionFailed if there are none."""
        parts = [_full_tensor(x) for x in take_apart("", y)[1].values() if isinstance(x, torch.Tensor)]
        parts = [x for x in parts if x.is_floating_point()]
        if not parts:
            raise FunctionFailed("the target returns no tensor of floats", do="return the loss")
        return FRAMEWORK.joined(parts)

    def _run_backward(self, y: Tensor, w: Array) -> None:
        if not y.requires_grad:
            raise FunctionFailed("the result of the target depends on no input that is differentiated")
        torch.dot(y, torch.as_tensor(np.reshape(w, -1), dtype=y.dtype, device=y.device)).backward()


def _plain_signature(signature: inspect.Signature | None) -> inspect.Signature | None:
    """Return a signature that can be sent to another process: other defaults and annotations than plain ones are left out."""
    if signature is None:
        return None
    empty = inspect.Parameter.empty
    return inspect.Signature([
        p.replace(
            default=p.default if p.default is empty or isinstance(p.default, int | float | str | None) else None,
            annotation=p.annotation if p.annotation in (int, float, bool, str, "int", "float", "bool", "str") else empty,
        )
        for p in signature.parameters.values()
    ])  # fmt: skip


def _graph_nodes(root: Any) -> list[Any]:
    """Return all nodes of an autograd graph."""
    seen, waiting = dict[Any, None](), [root]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen[node] = None
            waiting += [other for other, _ in node.next_functions]
    return list(seen)


def _full_tensor(x: Tensor) -> Tensor:
    """Return the whole of a DTensor; any other tensor as it is."""
    return x.full_tensor() if hasattr(x, "full_tensor") else x


def _local_tensor(x: Tensor) -> Tensor:
    """Return this rank's part of a DTensor; any other tensor as it is."""
    return x.to_local() if hasattr(x, "to_local") else x


def _local_array(x: Tensor) -> Array:
    return FRAMEWORK.array(_local_tensor(x))


def _shard_axis(p: Tensor) -> int | None:
    """Return the axis along which the ranks share a DTensor; None for any other tensor."""
    return next((place.dim for place in getattr(p, "placements", ()) if place.is_shard()), None)
