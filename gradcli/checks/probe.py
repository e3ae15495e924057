"""Locate a target: load the function, complete the points that the user gave, and draw points where f is smooth."""

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from gradcli.arithmetic.devices import CPU, find_device
from gradcli.classes import dataclass
from gradcli.errors import (
    BadClaim,
    BadExpression,
    BadOption,
    BadPoint,
    BadShape,
    BadTarget,
    FunctionFailed,
    GradcliError,
    closest_name,
)
from gradcli.frameworks.framework import EPS, Placed
from gradcli.frameworks.native import adapt_target, give_devices, is_format_failure, refuse_options
from gradcli.modes.claim import Claimed, ClaimedFunction, ClaimFormat
from gradcli.modes.mode import Question
from gradcli.request.options import DEFAULTS, Options, RankOptions
from gradcli.request.point import Point
from gradcli.request.target_text import is_python, normalise_name
from gradcli.targets.arguments import bind_arguments, default_of, merge_entries, refuse_coroutine
from gradcli.targets.components import component_of
from gradcli.targets.derived import STEP
from gradcli.targets.draws import NO_SIZES, Sizes, Whole
from gradcli.targets.expression import Expression
from gradcli.targets.facts import Function, Notice, dims_of_values, impose_facts, parse_facts
from gradcli.targets.layers import Layer, engine_of, layer_of
from gradcli.targets.loading import find_member, load, treat_package_as_users
from gradcli.targets.nesting import Leaf, NamedValues, Node, join_complex_pairs, nest_by_path, put_together, take_apart
from gradcli.targets.points import WHOLE, as_input, draw_value, numbers_of_sizes, parse_shape_options, read_points
from gradcli.targets.python import PythonFunction, advise_variadic, signature_of
from gradcli.targets.target_request import TargetRequest, checked_point_texts
from gradcli.words import Kind, Severity

ATTEMPTS = 60
_SAME_LOSS = 1e-6  # relative: the loss of ranks and that of their reference, in whatever format they compute
_FLOATS = 'give floats: --at "x=0.5"; integers stay integers (in Python: 2.0, np.array([1.0, 2.0]), x.astype(float))'


@dataclass(frozen=True, slots=True)
class Located:
    """A function, its points, the inputs to differentiate, and whether the user chose these inputs.

    `arguments` is the structure of each parameter, `module` the module that holds the user's function, and `sizes` maps
    named sizes, such as n, to numbers. `own_claim` is the derivative that the object claims which holds the function: the
    kind of claim, and the function of it. `made_claim` is such a claim by input, as that of several ranks.
    """

    f: Function
    points: tuple[Point, ...]
    wrt: tuple[str, ...]
    chosen: bool
    arguments: dict[str, Node]
    module: ModuleType | None = None
    notices: tuple[Notice, ...] = ()
    sizes: Sizes = field(default_factory=dict)
    own_claim: tuple[str, Callable[..., Any]] | None = None
    layer: Layer | None = None
    made_claim: Claimed | None = None

    def with_function(self, f: Function) -> "Located":
        """Return the same points for another function, whose values there are not known."""
        points = tuple(replace(point, value=None) for point in self.points)
        return replace(self, f=f, points=points)

    def along_line(self, f: Function) -> "Located":
        """Return the same points for a function of the way along a line, at its start."""
        points = tuple(replace(point, values={STEP: np.float64(0), **point.values}) for point in self.points)
        line = replace(self, points=points, wrt=(STEP,), arguments={STEP: Leaf(STEP), **self.arguments})
        return line.with_function(f)


Shapes = Mapping[str, tuple[int, ...]]
_NO_SHAPES: Shapes = {}


def locate(ask: TargetRequest) -> Located:
    """Return the function that a target's text names, at its points; drawn inputs have the shapes and sizes of its options.

    An input with the name of a size gets the number of that size as its value.

    Raises  BadExpression, BadTarget, BadPoint, BadOption, TooLarge.
    """
    text, options = ask.target, ask.options
    at = checked_point_texts(ask)
    sizes = numbers_of_sizes(options.shapes, at, options.seed, ask.sizes, ask.points_of)
    shapes = parse_shape_options(options.shapes, sizes)
    give_devices(options)
    if options.on_ranks is not None:
        points = read_points(at, options.seed, sizes, ask.separate_points)
        return _locate_on_ranks(text, text.strip(), points or [{}], options, options.on_ranks, shapes, typed=True)
    if is_python(text):
        loaded = load(text)
        signature = signature_of(loaded.found) if callable(loaded.found) else None
        named = tuple(signature.parameters) if signature else ()
        points = (
            [ask.point] if ask.point is not None else read_points(at, options.seed, sizes, ask.separate_points, text)
        )
        given = [_fill_in_sizes(point, sizes, named) for point in points or [{}]]
        found = locate_function(
            loaded.found, loaded.text, given, options, shapes, typed=True, module=loaded.module,
            finds_partner=not options.has_claim,
        )  # fmt: skip
        return replace(found, sizes=sizes)
    first, _, rest = text.strip().replace(".py.", ".", 1).partition(".")
    if rest and all(part.isidentifier() for part in text.strip().split(".")) and Path(f"{first}.py").is_file():
        raise BadTarget(f"'{text.strip()}' is not an expression", do=f"did you mean {first}.py:{rest}?")
    refuse_options(options)
    if options.picked is not None or options.gradient_places:
        flag = "--value-and-grad" if options.picked is not None and options.picked.pair else "--pick"
        raise BadOption(f"{flag} is for Python functions", do=f"an expression has one value: drop {flag}")
    points = (
        [ask.point]
        if ask.point is not None
        else read_points(at, options.seed, sizes, ask.separate_points, ask.points_of)
    )
    return locate_expression(text, points, options, shapes, sizes)


def _fill_in_sizes(point: dict[str, Any], sizes: Sizes, names: Sequence[str]) -> dict[str, Any]:
    """Return the point; inputs with the name of a size that have no value get the number of that size."""
    return {name: Whole(n) for name, n in sizes.items() if name in names} | point


def locate_expression(
    text: str, given: list[dict[str, Any]], options: Options = DEFAULTS, shapes: Shapes = _NO_SHAPES, sizes: Sizes = NO_SIZES
) -> Located:  # fmt: skip
    """Return an expression at the given points, or at `options.points` drawn points if none is given.

    Raises  BadExpression, BadPoint, BadShape, TooLarge.
    """
    given = [_point_by_input(point) for point in given]
    f = Expression(text, frozenset(name for point in given for name in point))
    for name in (name for point in (*given, shapes) for name in point if name not in f.inputs):
        close, inputs = closest_name(name, f.inputs), ", ".join(f.inputs) or "none"
        do = f"did you mean '{close}'?" if close else f"its inputs: {inputs}"
        raise BadPoint(f"'{name}' is not an input of the expression", do=do)
    chosen = options.wrt is not None
    fixed = set(sizes) - {name for point in given for name in point}
    moving = [name for name in f.inputs if name not in {*fixed, *f.places} or chosen]
    names = choose_inputs(moving, options.wrt)
    if places := [name for name in names if name in f.places and chosen]:
        others = [name for name in f.inputs if name not in f.places]
        do = f"--wrt {others[0]}" if others else "f has no other input"
        raise BadOption(f"{places[0]} is a position, and no derivative by it exists", do=do)
    drawn_points: list[dict[str, Any]] = [{} for _ in range(options.points if f.inputs else 1)]
    begun = [_fill_in_sizes(point, sizes, f.inputs) for point in given or drawn_points]
    points = tuple(_complete_point(f, point, number, options, shapes) for number, point in enumerate(begun))
    return Located(f, points, names, chosen, {name: Leaf(name) for name in f.inputs}, sizes=sizes)


def _point_by_input(point: dict[str, Any]) -> dict[str, Any]:
    """Return a point by input name, where Python code supplied the point as one dict."""
    found = point.get(WHOLE)
    if found is None:
        return point
    if not isinstance(found, dict) or not all(isinstance(name, str) for name in found):
        raise BadPoint("a point for an expression is a dict of named values", do='return {"x": 0.5, "y": 1.2}')
    return {normalise_name(name): x for name, x in found.items()} | {k: x for k, x in point.items() if k != WHOLE}


def locate_function(
    function: Any, text: str, given: Sequence[dict[str, Any]], options: Options = DEFAULTS, shapes: Shapes = _NO_SHAPES, *,
    typed: bool = False, module: ModuleType | None = None, finds_partner: bool = False,
) -> Located:  # fmt: skip
    """Return a Python function at points given by parameter name, or by the flat paths of a report, such as `p.w[0]`.

    Missing inputs that have `shapes` are drawn. With `finds_partner`, the backward pass of a function that returns a cache
    is looked for beside it.

    A framework's function is wrapped to take and return numpy arrays. The parameters of a framework's module become named
    inputs. A function that cannot be called in float64 is called in float32.

    Raises  BadPoint for points that do not fit the parameters; FunctionFailed if the function raises.
    """
    give_devices(options)
    if options.on_ranks is not None:
        return _locate_on_ranks(function, text, given, options, options.on_ranks, shapes, typed=typed)
    refuse_coroutine(function, text)
    treat_package_as_users(function)
    locator = _Locator(text, options, shapes, typed, module)
    native = adapt_target(function, text, module, options, given)
    if native is None:
        layer: Layer | None
        engine = _find_named_callable(options.engine, module, "--engine")
        if engine is not None:
            layer = engine_of(function, engine, text, arrays=options.engine_arrays)
        else:
            backward = _find_named_callable(options.backward, module, "--backward")
            layer = layer_of(function, text, backward, finds_partner=finds_partner)
        if layer is not None:
            named = [named_arguments(layer.function, point) for point in given]
            if options.gradient_places:
                layer.fresh.keep_gradients(options.gradient_places)
            if layer.passes is not None:
                layer.passes.look_at(layer, locator.first_arguments(layer.function, named))
            given = [layer.completed(point) for point in named]
            found = locator.locate_at_points(layer.function, given)
            others = layer.elsewhere(named[0], options.seed) if len(named) == 1 else {}
            if others:
                found = locator.add_second_point(found, layer.function, layer.completed({**named[0], **others}))
            own = None if layer.kind is None or layer.claim is None else (layer.kind, layer.claim)
            return replace(found, own_claim=own, layer=layer, notices=(*found.notices, *layer.notices))
        if options.gradient_places:
            says = f"{text} is no layer: it keeps no gradients of parameters"
            raise BadOption(says, do="--pick value=...,grad=... takes parts of its result")
        made = component_of(function, text)
        if made is None:
            return locator.locate_at_points(function, given)
        given = [made.completed(point, WHOLE, options.seed, number) for number, point in enumerate(given)]
        found = locator.locate_at_points(made.function, given)
        return replace(found, own_claim=(made.kind, made.claim))
    values = (x for point in given for x in named_arguments(native.function, point).items())
    leaves = (leaf for name, x in values for leaf in take_apart(name, x)[1].items())
    native.given_as_tensors = frozenset(path for path, leaf in leaves if native.framework.holds(leaf))
    given = [native.numbers(join_complex_pairs(point)) for point in given]
    for point in given[:1]:
        native.build({name: x for name, x in point.items() if "." not in name})  # without entries of its parameters
    if native.parameters:
        given = [{"parameters": NamedValues(native.parameters), **point} for point in given]
    try:
        return locator.locate_at_points(native, given)
    except FunctionFailed as error:
        if not is_format_failure(error.what, options.dtype):
            raise
    narrow = adapt_target(function, text, module, replace(options, dtype="float32"))
    if narrow is not None:
        narrow.given_as_tensors = native.given_as_tensors
        given = [narrow.numbers(point) for point in given]
    found = locator.locate_at_points(narrow, given)
    says = "f takes float32 only: its gradient is checked within the bounds of float32"
    return replace(found, notices=(*found.notices, Notice(Kind.PRECISION, Severity.INFO, says)))


def _locate_on_ranks(
    target: Any, text: str, given: Sequence[dict[str, Any]], options: Options, ranks: RankOptions, shapes: Shapes,
    *, typed: bool,
) -> Located:  # fmt: skip
    """Return the loss of a program that several ranks run, as a function of the inputs of all of them, with their gradients.

    With the mean of the losses, what ranks have apart from each other by `--shard` is data: differentiated only if chosen.

    Raises  BadTarget for an expression; BadOption, BadPoint; FunctionFailed if a rank fails.
    """
    from gradcli.frameworks.ranks import Group, RankedFunction, place_inputs

    if isinstance(target, str) and not is_python(target):
        raise BadTarget(f"'{text}' is an expression", do="--ranks is for Python functions: file.py:name")
    if len(given) > 1:
        raise BadPoint("--ranks checks one point", do="check each point alone")
    device = find_device("torch", options.device or CPU)
    group = Group(target, text, Placed(options.dtype or "float64", device), options.seed, ranks)
    described = group.start()

    def stand_in(*args: Any, **kwargs: Any) -> None:
        """Take the target's arguments: it is called on the ranks."""

    if described[0].signature is not None:
        stand_in.__signature__ = described[0].signature  # type: ignore[attr-defined]
    named = _Locator(text, options, shapes, typed).point_by_parameter(stand_in, join_complex_pairs(given[0]))
    bound_to, values, notices = bind_arguments(stand_in, text, named, typed=typed)
    placed = place_inputs(ranks, values, described, group)
    f = RankedFunction(group, bound_to.arguments, values, placed)
    if not f.inputs:
        raise BadPoint(f"{text} has no float input to differentiate", do=_FLOATS)
    value, surveyed = f.survey(f.point)
    shared = [name for name, place in f.by_rank.items() if place.replicated or place.of_module or ranks.loss != "mean"]
    names = choose_inputs(f.inputs, ",".join(shared) if options.wrt is None and shared else options.wrt)
    cut = [name for name, place in f.by_rank.items() if 0 < len({*place.names} & {*names}) < ranks.count]
    if cut:
        raise BadOption(f"--wrt names {cut[0]} on some ranks alone", do=f"write --wrt {cut[0]}")
    dtype = group.placed.dtype
    in_format = "" if dtype == "float64" else f" in {dtype}"
    claim = ClaimedFunction(
        f"torch's gradient on {ranks.count} ranks{in_format}", lambda values: f.gradient(values, names), lambda found: found,
        f.point, ClaimFormat(lambda: EPS[dtype] / EPS["float64"]),
    )  # fmt: skip
    at = Point(f.point, (), 0, (*surveyed, *notices), value)
    arguments: dict[str, Node] = {name: Leaf(name) for name in f.inputs}
    return Located(f, (at,), names, options.wrt is not None, arguments, made_claim=claim)


def replace_by_reference(found: Located, reference: Located) -> Located:
    """Return what ranks compute with a reference on one process in place of its values. Raises BadClaim where they differ."""
    from gradcli.frameworks.ranks import RankedFunction, RankedReference

    if not isinstance(found.f, RankedFunction):
        raise BadTarget("only what ranks compute is compared with a reference here", do="--ranks 2")
    f = RankedReference(reference.f, found.f)
    (point,) = found.points
    value, notices = f.survey(point.values)
    computed = np.asarray(point.value)
    if np.size(value) != 1:
        says = f"the reference {reference.f.text} returns shape {np.shape(value)}"
        raise BadClaim(says, do="return the loss, one number")
    if not np.allclose(value, computed, rtol=_SAME_LOSS, atol=0.0):
        says = f"the ranks compute {float(computed):.8g}, and the reference {reference.f.text} {float(value):.8g}"
        raise BadClaim(says, do="give the reference of the same function")
    says = f"right values are those of the reference {reference.f.text}, which has the loss of the ranks"
    told = (*point.notices, *notices, Notice(Kind.REFERENCE, Severity.INFO, says))
    points = (replace(point, value=np.float64(np.reshape(value, ())), notices=told),)
    return replace(found, f=f, points=points, module=reference.module)


@dataclass(frozen=True, slots=True)
class _Locator:
    """What is the same at every point of a Python function; `typed` says whether the points were typed."""

    text: str
    options: Options
    shapes: Shapes
    typed: bool
    module: ModuleType | None = None

    def locate_at_points(self, function: Any, given: Sequence[dict[str, Any]]) -> Located:
        """Return a function at some points. Raises BadPoint, FunctionFailed."""
        f: PythonFunction | None = None
        points: list[Point] = []
        said: dict[str, Notice] = {notice.message: notice for notice in getattr(function, "notices", ())}
        for number, point in enumerate(given):
            named = self.point_by_parameter(function, point, number)
            f, values, value, surveyed, notices = self.survey(function, named, f)
            if points and list(values) != list(points[0].values):
                raise BadPoint("the points have different structures", do="give each point the same names")
            said |= {notice.message: notice for notice in notices}
            points.append(Point(values, (), number, tuple(surveyed), value))
        if f is None:
            raise BadPoint("no point is given", do='--at "x=randn(3)"')
        if not f.inputs:
            do = advise_variadic(function, f.arguments) or _FLOATS
            raise BadPoint(f"{self.text} has no float input to differentiate", do=do)
        names, chosen = choose_inputs(f.inputs, self.options.wrt), self.options.wrt is not None
        return Located(f, tuple(points), names, chosen, f.arguments, self.module, tuple(said.values()))

    def point_by_parameter(self, function: Any, point: dict[str, Any], number: int = 0) -> dict[str, Any]:
        """Return a point by parameter; inputs that have a shape and no value are drawn, and defaults taken that --wrt names."""
        options = self.options
        named = nest_by_path(merge_entries(function, named_arguments(function, point), self.typed))
        missing = {name: size for name, size in self.shapes.items() if name not in named}
        drawn = {name: draw_value(name, size, options.seed, number, 0) for name, size in missing.items()}
        made = {name: options.stepping.moved_inside(name, x) for name, x in drawn.items()}
        named |= _impose_assumptions(made, made, options)
        wanted = [part.strip() for part in (options.wrt or "").split(",")]
        wanted = [name for name in wanted if name and name not in named and callable(function)]
        return named | {name: x for name in wanted if (x := default_of(function, name)) is not None}

    def survey(
        self, function: Any, named: dict[str, Any], f: PythonFunction | None = None
    ) -> tuple[PythonFunction, dict[str, Any], Any, list[Notice], list[Notice]]:
        """Return the function of a point, or `f` for its value there; the values, that value, and notices of both.

        An array of whole numbers by which the function indexes is taken as integers.
        """
        this, values, notices = self._bind(function, named)
        f = f or this
        whole: list[str] = []
        while True:
            with np.errstate(all="ignore"):
                try:
                    found = f.survey(values)
                    break
                except FunctionFailed:
                    labels = [name for name in f.indices if self.typed and name in named and name in values]
                    labels = [name for name in labels if name not in whole]
                    if not labels:
                        raise
            whole += labels  # and again: the first lines that fail need not index by all of them
            f, values, notices = self._bind(
                function, named | {name: np.asarray(values[name]).astype(int) for name in whole}
            )
        if whole:
            *others, last = whole
            says = f"{', '.join(others)} and {last} are indices" if others else f"{last} is an index"
            notices = [*notices, Notice(Kind.NOTICE, Severity.INFO, f"{says}: taken as integers")]
        return f, values, *found, notices

    def _bind(self, function: Any, named: dict[str, Any]) -> tuple[PythonFunction, dict[str, Any], list[Notice]]:
        return bind_arguments(function, self.text, named, typed=self.typed, pick=self.options.picked)

    def first_arguments(self, function: Callable[..., Any], given: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Return the arguments of a layer's forward pass at the first point, without the parameters of its object."""
        known = signature_of(function)
        point = {name: x for name, x in (given or [{}])[0].items() if known is None or name in known.parameters}
        f, values, *_ = self.survey(function, self.point_by_parameter(function, point))
        return {name: put_together(node, values) for name, node in f.arguments.items()}

    def add_second_point(self, found: Located, function: Any, point: dict[str, Any]) -> Located:
        """Return what was located at a second point, too, where constant parameters have other values; a notice if f fails."""
        try:
            second = self.locate_at_points(function, [point])
            if not np.all(np.isfinite(np.asarray(second.points[0].value, dtype=float))):
                raise FunctionFailed("with other values f is not finite")
        except FunctionFailed as error:
            says = f"parameters whose entries are all alike were not moved: {error.what}"
            return replace(found, notices=(*found.notices, Notice(Kind.NOTICE, Severity.INFO, says)))
        (first,), (other,) = found.points, second.points
        is_alike = list(first.values) == list(other.values)
        return replace(found, points=(first, replace(other, number=1))) if is_alike else found


def _find_named_callable(
    name: str | Callable[..., Any] | None, module: ModuleType | None, flag: str
) -> Callable[..., Any] | None:
    """Return what an option names in the target's file, or in another one. Raises BadTarget."""
    if not isinstance(name, str):
        return name
    found = load(name).found if is_python(name) else None if module is None else find_member(module, name)
    if not callable(found):
        says = f"{flag} names '{name}', which is not there"
        raise BadTarget(says, do="name one of the target's file, or file.py:name")
    made: Callable[..., Any] = found
    return made


def _impose_assumptions(made: dict[str, Any], known: Mapping[str, Any], options: Options) -> dict[str, Any]:
    """Return drawn values moved to where what is assumed of them holds; what is assumed of others is looked at later."""
    if not options.assumptions_of_check or not made:
        return made
    dims = dims_of_values(known)
    parts = [part for text in options.assumptions_of_check for part in text.split(";")]
    rng = np.random.default_rng(options.seed)
    facts = parse_facts([part for part in parts if part.partition(":")[0].strip() in made], dims)
    return made | {name: impose_facts(words, np.asarray(made[name]), rng) for name, words in facts.items()}


def named_arguments(function: Any, point: dict[str, Any]) -> dict[str, Any]:
    """Return a point by parameter name; Python code may have supplied a dict, a tuple in order, or one value.

    Raises  BadPoint for a tuple with more values than there are parameters.
    """
    if WHOLE not in point:
        return point
    found, rest = point[WHOLE], {name: x for name, x in point.items() if name != WHOLE}
    signature = signature_of(function) if callable(function) else None
    names = list(signature.parameters) if signature else []
    kinds = {p.kind: p.name for p in signature.parameters.values()} if signature else {}
    by_name = inspect.Parameter.VAR_KEYWORD in kinds
    if isinstance(found, dict) and all(isinstance(k, str) for k in found) and (set(found) & set(names) or by_name):
        return found | rest
    spread = kinds.get(inspect.Parameter.VAR_POSITIONAL)
    if spread is not None and isinstance(found, tuple) and not hasattr(found, "_fields"):
        before = names[: names.index(spread)]
        after = {spread: found[len(before) :]} if len(found) > len(before) else {}
        return dict(zip(before, found, strict=False)) | after | rest
    if isinstance(found, tuple) and not hasattr(found, "_fields") and (len(names) != 1 or len(found) == 1):
        if len(found) > len(names):
            raise BadPoint(f"the point has {len(found)} values for {len(names)} parameters", do="give a dict by name")
        return dict(zip(names, found, strict=False)) | rest
    return {names[0] if names else "x": found} | rest


def choose_inputs(inputs: Sequence[str], wrt: str | None) -> tuple[str, ...]:
    """Return the inputs that `--wrt` names, or all; a name may be a glob, or a container that stands for all its entries.

    Raises  BadPoint for a name that matches no input.
    """
    if wrt is None:
        return tuple(inputs)
    import fnmatch

    def meant(name: str, pattern: str) -> bool:
        inside = name.startswith((pattern + ".", pattern + "["))
        return name == pattern or inside or fnmatch.fnmatchcase(name, pattern.replace("[", "[[]"))

    patterns = [normalise_name(part.strip()) for part in wrt.split(",") if part.strip()]
    for pattern in patterns:
        if not any(meant(name, pattern) for name in inputs):
            close = closest_name(pattern, inputs)
            do = f"did you mean '{close}'?" if close else f"inputs: {', '.join(inputs) or 'none'}"
            raise BadPoint(f"--wrt names '{pattern}', which is not an input", do=do)
    return tuple(name for name in inputs if any(meant(name, pattern) for pattern in patterns))


def _complete_point(f: Expression, given: dict[str, Any], number: int, options: Options, shapes: Shapes) -> Point:
    """Return a point with every input; missing ones are drawn within their bounds until f is smooth at the point."""
    values = {name: as_input(name, x) for name, x in given.items()}
    seed, stepping = options.seed, options.stepping
    missing = tuple(name for name in f.inputs if name not in values)
    if not missing:
        notices = _survey_expression(f, values, (), shapes)
        return Point({name: values[name] for name in f.inputs}, (), number, notices)
    last = None
    for attempt in range(ATTEMPTS):
        made = {name: draw_value(name, shapes.get(name, ()), seed, number, attempt) for name in missing}
        # 0 and 1 are positions that any axis of two has; x[:m] and x[m:k] have entries where m is 1 and k is 2
        bounds = {name: 1 + k for k, name in enumerate(name for name in f.inputs if name in f.bounds)}
        made |= {name: np.float64(bounds.get(name, number % 2)) for name in f.places if name in made}
        made = _impose_assumptions(made, values | made, options)
        candidate = values | {name: stepping.moved_inside(name, x) for name, x in made.items()}
        notices = _survey_expression(f, candidate, missing, shapes)
        point = Point({name: candidate[name] for name in f.inputs}, missing, number, notices)
        last = last or point
        if is_smooth(Question(f, point, f.inputs, seed)):
            return point
    if last is None:
        raise BadPoint("no point was drawn", do="give one with --at")
    return last


def _survey_expression(
    f: Expression, values: dict[str, Any], missing: Sequence[str], shapes: Mapping[str, tuple[int, ...]]
) -> tuple[Notice, ...]:
    """Evaluate f once, checking sizes before anything is allocated, and return its notices."""
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # numpy warns of empty slices; values that are not finite become findings
            value, notices = f.survey(values)
    except BadShape as error:
        missing = [name for name in missing if name not in shapes]
        if missing:
            drawn_ = f"{', '.join(missing)} {'was' if len(missing) == 1 else 'were'} drawn as scalars"
            error.do = f'{drawn_}; give shapes: --shapes "{missing[0]}: 3 4" or --at "{missing[0]}=randn(3, 4)"'
        raise
    if isinstance(value, tuple) or np.asarray(value).dtype == object:
        raise BadExpression("the result is several values", do="pick one: slogdet(S)[1]")
    if np.iscomplexobj(value):
        raise BadExpression("the result is complex", do="take abs(...), real(...) or imag(...) of it")
    return tuple(notices)


def is_smooth(q: Question) -> bool:
    """Whether f and its gradient are finite, with no kink, and every operation is inside its smooth domain."""
    try:
        _, _, tape = q.recording
        if not np.all(np.isfinite(q.value)) or q.not_finite is not None or q.kinks:
            return False
        elementwise = (
            (row, slots, xs) for row, slots, xs, *_ in tape.lines if row is not None and row.kind == "elementwise"
        )
        places = (at for row, slots, xs in elementwise for at in zip(row.on, slots, xs, strict=False))
        return all(np.all(domain.contains(np.asarray(x))) for domain, slot, x in places if slot >= 0)
    except GradcliError:
        return False
