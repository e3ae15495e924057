"""Evaluate f along rays through the point, at x + t v for many t at once, in float64, in other formats, or in balls."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import Any

import numpy as np
from flint import arb

from gradcli.arithmetic.ball import Ball, precision
from gradcli.arithmetic.batch import ALL, ChangedLanes, EntryLanes, Lanes, Mixed, lanes_at_once, run
from gradcli.arithmetic.floats import FLOAT64, Format
from gradcli.arithmetic.recorded_program import record
from gradcli.arithmetic.tape import CONSTANT, Recorded
from gradcli.classes import dataclass
from gradcli.errors import GradcliError, Undecided
from gradcli.modes.mode import Question
from gradcli.request.point import Point
from gradcli.tracing.shapes import shape, size

_LARGE = 64  # entries of an input: for larger ones, only what depends on the moved entry is recomputed
_AS_TRACED = 1e-12  # relative to the value: the allowed difference of the recorded program from the function


@dataclass(frozen=True, slots=True)
class Ray:
    """A direction v: one entry of one input or, if `name` is None, all inputs in proportion to their entries.

    Units  `scale` is in units of the input; t = 1 is a step of the size of the entry.
    """

    name: str | None
    index: tuple[int, ...] = ()
    scale: float = 1.0
    v: tuple[Any, ...] = ()


def entry_rays(q: Question) -> list[Ray]:
    """Return a ray along each entry of each differentiated input."""
    found = []
    for name, x in zip(q.wrt, q.xs, strict=True):
        usual, typical = q.stepping.scales.get(name), float(np.median(np.abs(x))) if size(x) else 1.0
        for at in np.ndindex(shape(x)):
            found.append(Ray(name, at, usual or abs(float(np.asarray(x)[at])) or typical or 1.0))
    return found


def common_ray(q: Question, slopes: dict[str, Any]) -> Ray:
    """Return a ray along all inputs in proportion to their entries, with signs by which no slopes cancel.

    Shapes  `slopes[x]` has the shape of the output, then of the input.
    """
    vs = []
    for name, x in zip(q.wrt, q.xs, strict=True):
        g = np.tensordot(output_weights(q), slopes[name], np.ndim(q.value))
        sizes = np.where(np.asarray(x) == 0, 1.0, np.abs(x))
        vs.append(np.asarray(q.stepping.scales.get(name, sizes) * np.where(g < 0, -1.0, 1.0)))
    return Ray(None, v=tuple(vs))


def output_weights(q: Question) -> Any:
    """Return the weights by which the outputs of f are summed, in the shape of the output; 1 for a scalar."""
    if shape(q.value) == ():
        return np.float64(1)
    return np.random.default_rng([q.seed, 0x57E9]).uniform(0.5, 1.5, shape(q.value))


@dataclass(frozen=True)
class Rays:
    """f, or the weighted sum of its outputs, along rays, in one floating-point format."""

    asked: Question
    form: Format = FLOAT64
    _ready: dict[Any, Lanes] = field(default_factory=dict, compare=False)  # by the inputs that move, and the format
    _mixed: set[str | None] = field(default_factory=set, compare=False)  # inputs whose entries are mixed in f

    @cached_property
    def q(self) -> Question:
        """The question at the point rounded to the format."""
        return self.asked if self.form is FLOAT64 else round_point(self.asked, self.form.rounded)

    @cached_property
    def by_calls(self) -> bool:
        """Whether f must be called for each value, because it was not recorded or its recording gives another value."""
        if self.q.untraced is not None:
            return True
        y = self.q.recording.y
        if not isinstance(y, Recorded) or y.slot == CONSTANT:
            return True
        again, _ = self._compiled_lanes(frozenset((0,)), Lanes, FLOAT64).run({0: np.asarray(self.q.xs[0])[None]})
        apart = np.abs(again[0] - self.q.value)
        return not bool(np.all(apart <= _AS_TRACED * np.abs(self.q.value) + 1e3 * self.q.noise_floor))

    def values(self, rays: Sequence[Ray], ts: Any) -> Any:
        """Return f along each ray; nan where f is undefined, and outside the user's bounds.

        Shapes  (number of rays, number of ts).
        """
        if not rays or not len(ts):
            return np.zeros((len(rays), len(ts)))
        if self.by_calls:
            return np.array([[self._value_by_call(self.moved([ray], np.array([t]))) for t in ts] for ray in rays])
        found, large = [], {name for name, x in zip(self.q.wrt, self.q.xs, strict=True) if size(x) >= _LARGE}
        for name, same in itertools.groupby(rays, key=lambda ray: ray.name):
            group = list(same)
            one_by_one = self._one_by_one(group, ts) if name in large - self._mixed else None
            found.append(self._values_in_groups(group, ts) if one_by_one is None else one_by_one)
        return np.concatenate(found)

    def _values_in_groups(self, rays: Sequence[Ray], ts: Any) -> Any:
        """Return f along rays of one input, in groups of the size that is quickest; a ray along all inputs goes alone."""
        most = lanes_at_once(self.q.recording)
        step = max(1, most // len(ts)) if rays[0].name is not None else 1
        return np.block(
            [
                [self._values_together(rays[k : k + step], ts[i : i + most]) for i in range(0, len(ts), most)]
                for k in range(0, len(rays), step)
            ]
        )

    def _one_by_one(self, rays: Sequence[Ray], ts: Any) -> Any:
        """Return f along rays of single entries, recomputing only what depends on each; None if everything depends on it."""
        y, _, tape = self.q.recording
        if shape(y) != () or self.q.stepping.edges:
            return None
        k = self.q.wrt.index(str(rays[0].name))
        x = np.asarray(self.form.rounded(self.q.xs[k]))
        places, moved = self._flat_positions(rays, x.shape), self._moved_entries(x, rays, ts)
        most = max(1, ALL // (len(tape.lines) * len(ts)))
        found = []
        for start in range(0, len(rays), most):
            part = slice(start, start + most)
            at, values = np.repeat(places[part], len(ts))[:, None], moved[part].reshape(-1, 1)
            try:
                sums, apart = self._compiled_lanes(k, EntryLanes, self.form).run({k: ChangedLanes(x, at, values)})
            except Mixed:
                self._mixed.add(rays[0].name)
                return None
            found.append(self._weighted_sum(sums))
            for lane in np.flatnonzero(apart):
                whole = x.copy()
                whole.reshape(-1)[at[lane]] = values[lane]
                found[-1][lane] = self._value_alone({k: whole})
        return np.concatenate(found).reshape(len(rays), len(ts))

    def _moved_entries(self, x: Any, rays: Sequence[Ray], ts: Any) -> Any:
        """Return the entry of x that each ray moves, after each step t. Shapes: (rays, ts)."""
        rounded = self.form.rounded
        steps = rounded(rounded(np.array([[ray.scale] for ray in rays])) * rounded(np.asarray(ts)))
        return rounded(x.reshape(-1)[self._flat_positions(rays, x.shape)][:, None] + steps)

    @staticmethod
    def _flat_positions(rays: Sequence[Ray], whole: tuple[int, ...]) -> Any:
        """Return the flat positions of the entries that rays move, in an input of shape `whole`."""
        if len(whole) < 2:
            return np.array([ray.index[0] if whole else 0 for ray in rays])
        return np.ravel_multi_index(tuple(np.array([ray.index for ray in rays]).T), whole)

    def stands_still(self, ray: Ray, ts: Any) -> Any:
        """Return a mask of the steps t that are lost in rounding: x + t v is x in this format."""
        moved = self.moved([ray], ts)
        same = [np.reshape(x == self.form.rounded(self.q.xs[k]), (len(ts), -1)) for k, x in moved.items()]
        return np.all(np.concatenate(same, axis=1), axis=1)

    def moved(self, rays: Sequence[Ray], ts: Any) -> dict[int, Any]:
        """Return the moved inputs, by position in `wrt`. Shapes: (rays * ts, shape of the input)."""
        form = self.form
        ts = form.rounded(np.asarray(ts))
        if rays[0].name is None:
            v = rays[0].v
            return {
                k: form.rounded(form.rounded(x) + form.rounded(ts.reshape(-1, *(1,) * np.ndim(x)) * form.rounded(v[k])))
                for k, x in enumerate(self.q.xs)
            }
        k = self.q.wrt.index(str(rays[0].name))
        x = np.asarray(form.rounded(self.q.xs[k]))
        spread = np.empty((len(rays), len(ts), max(1, x.size)), dtype=np.result_type(x, ts))
        spread[...] = x.reshape(-1)
        places = self._flat_positions(rays, x.shape)
        lanes = np.arange(len(rays))[:, None], np.arange(len(ts)), places[:, None]
        spread[lanes] = self._moved_entries(x, rays, ts)
        return {k: spread.reshape(-1, *x.shape)}

    def _values_together(self, rays: Sequence[Ray], ts: Any) -> Any:
        moved = self.moved(rays, ts)
        found, apart = self._compiled_lanes(frozenset(moved), Lanes, self.form).run(moved)
        values = self._weighted_sum(found)
        for lane in np.flatnonzero(apart):
            values[lane] = self._value_alone({k: x[lane] for k, x in moved.items()})
        for k, x in moved.items() if self.q.stepping.edges else ():
            low, high = self.q.stepping.edges_of(self.q.wrt[k])
            real = np.real(x).reshape(len(x), -1)
            values = np.where(np.any((real < low) | (real > high), axis=1), np.nan, values)
        return values.reshape(len(rays), len(ts))

    def _compiled_lanes(self, moving: int | frozenset[int], kind: type[Lanes], form: Format) -> Lanes:
        """Return the recorded program, compiled for points that differ in these inputs, or in entries of one input."""
        if (moving, form.name) not in self._ready:
            whole = moving if isinstance(moving, frozenset) else frozenset((moving,))
            self._ready[moving, form.name] = kind(self.q.recording, whole, form)
        return self._ready[moving, form.name]

    def _weighted_sum(self, y: Any) -> Any:
        """Return the weighted sum of the outputs in each lane."""
        if y.ndim == 1:
            return np.array(y)
        products = self.form.rounded(y * self.form.rounded(output_weights(self.q)))
        return np.array(self.form.rounded(np.sum(products, axis=tuple(range(1, y.ndim)))))

    def _value_alone(self, moved: dict[int, Any]) -> Any:
        """Return the value of one lane that takes other branches than the recorded program."""
        xs = [np.asarray(np.real(moved.get(k, x)), np.float64)[()] for k, x in enumerate(self.q.xs)]
        if self.form is FLOAT64 and not any(np.iscomplexobj(x) for x in moved.values()):
            return np.sum(output_weights(self.q) * self.q.near(*xs))
        try:
            found, _ = run(record(self.q.g, xs), {k: np.asarray(x)[None] for k, x in moved.items()}, self.form)
        except (GradcliError, AttributeError):  # f is not defined here, or a constant
            return np.nan
        return self._weighted_sum(found)[0]

    def _value_by_call(self, moved: dict[int, Any]) -> float:
        xs = [moved[k][0] if k in moved else x for k, x in enumerate(self.q.xs)]
        return float(np.sum(output_weights(self.q) * self.q.near(*xs)))


def round_point(q: Question, rounded: Callable[[Any], Any]) -> Question:
    """Return the question at the point rounded by `rounded`."""
    at = q.point
    values = {name: np.asarray(rounded(at.values[name]), np.float64)[()] for name in q.wrt}
    return replace(q, point=Point({**at.values, **values}, at.drawn, at.number))


def values_in_balls(q: Question, ray: Ray, ts: Sequence[Any], bits: int, kind: type[Ball] = Ball) -> list[arb]:
    """Return the midpoints of f along a ray in balls, or in another class of balls; nan where f is undefined."""
    found = []
    with precision(bits):
        lifted = [kind.lift(x) for x in q.xs]
        for t in ts:
            xs = [x + kind(arb(t)) * v if v is not None else x for x, v in zip(lifted, directions(q, ray), strict=True)]
            try:
                y = kind.lift(0) + np.sum(q.g(*xs) * output_weights(q))
                found.append(y.value.mid())
            except (Undecided, ZeroDivisionError):
                found.append(arb("nan"))
    return found


def directions(q: Question, ray: Ray) -> list[Any]:
    """Return the direction v of a ray for each input in `wrt`; None for inputs that do not move."""
    if ray.name is None:
        return list(ray.v)
    k = q.wrt.index(ray.name)
    v = np.zeros(shape(q.xs[k]))
    v[ray.index] = ray.scale
    return [v[()] if i == k else None for i in range(len(q.wrt))]
