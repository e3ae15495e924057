"""Backpropagation written by hand: layers, pairs with a cache and networks, as a function and the product that backward claims.

A layer keeps what its backward pass reads, draws masks, counts, and may change its weights: so each evaluation has a copy of
the object as it was when the check began, and the random states of that moment. The parameters of an object are inputs, where
`backward` leaves a gradient beside them.
"""

import ast
import contextlib
import copy
import functools
import inspect
import itertools
import mmap
import operator
import random
import re
import sys
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np

from gradcli.classes import dataclass
from gradcli.errors import BadClaim, BadOption, BadTarget
from gradcli.request.target_text import GRADIENT_METHODS, LOSSES, PASSES, TARGET, backward_names, output_of_pass
from gradcli.targets.facts import Notice
from gradcli.targets.loading import load, run_user_code, write_constructor
from gradcli.targets.nesting import NamedValues
from gradcli.tracing.provenance import source_tree
from gradcli.tracing.shapes import shape
from gradcli.tracing.tracer import Tracer
from gradcli.words import Kind, Severity

_RATES = ("lr", "learning_rate", "eta", "alpha", "step_size")
_RATE = 0.5  # a rate that is not given; with 1 a missing factor would not show
_CACHES = ("cache", "ctx", "context", "memory", "saved", "stored", "tape", "caches")
_HOLDERS = ("params", "parameters", "weights")
_GRADIENTS = ("grads", "gradients", "grad", "dparams", "derivatives")
_SPELLED = ("d{}", "{}_grad", "grad_{}", "g{}", "d_{}", "grad{}", "{}_gradient", "gradient_{}", "{}grad")
PARAMETERS = "object_parameters"  # the argument that holds the parameters of an object
_LABEL = re.compile(r"y|t|y_?true|targets?|labels?|actual|truth", re.IGNORECASE)
_PREDICTION = re.compile(r"pred|hat|out|logit|score|prob|^p$", re.IGNORECASE)
_INCOMING = re.compile(r"d_?(out|output|y|z|l|loss)|g|.*grad.*|upstream.*", re.IGNORECASE)  # names of cotangents alone
_INPUTS = ("x", "input", "inputs")
_TOTALS = ("calculate", "compute", *LOSSES, "__call__")  # methods that make one number of what forward returns
_STEP = re.compile(r"\w+|\[[^\]]*\]")  # of where a gradient is kept: grads, [1]
_VELOCITY = re.compile(r"(v|m|vel|velocity|mom|momentum)_?(?P<name>\w+)")
_OF_MANY: dict[str, Callable[[Any], Any]] = {
    "mean": np.mean, "sum": np.sum, "mean over rows of the sum": lambda y: np.sum(y) / shape(y)[0],
}  # fmt: skip
_FOUR_DIGITS = 1e-4  # relative: a claimed slope that is nearer is that of the loss
_LARGE = 2**20  # bytes of an array of which evaluations copy what they write to alone
_DEEPEST = 4  # objects within objects in which parameters are looked for


@dataclass(frozen=True, slots=True)
class _Place:
    """Where an object holds a parameter: the steps to its owner, the dict or list of the owner if one holds it, and the key."""

    steps: tuple[Any, ...]
    holder: str | None
    key: Any

    def owner_in(self, used: Any) -> Any:
        """Return the object, inside another one, that has the parameter."""
        owner = used
        for step in self.steps:
            owner = getattr(owner, step) if isinstance(step, str) and hasattr(owner, step) else owner[step]
        return owner

    def holder_in(self, owner: Any) -> Any:
        """Return the dict or list of the owner that holds the parameter: its attributes, if no other does."""
        return vars(owner) if self.holder is None else getattr(owner, self.holder)


class Fresh:
    """An object as it was when the check began, made anew for each evaluation, and the random states of that moment."""

    def __init__(self, held: Any, text: str, make: Callable[[], Any] | None = None) -> None:
        self.held, self.text, self._make = held, text, make
        self._states = random.getstate(), np.random.get_state()
        self.places: dict[str, tuple[_Place, np.ndarray]] = {}
        self.gradient_places: dict[str, str] = {}  # where gradients are kept, as the user says
        self.buffers: list[np.ndarray] = []  # gradients from before, which a backward pass may add to
        self.generators = _generators_of(held)
        self.last: Any = None  # the copy that was made last
        self._files: dict[int, Any] = {}  # of large arrays
        if held is not None:
            found = [(path, place, part) for path, place, part in _walk_held_values(held) if _is_parameter(part)]
            parameters = {(place.steps, place.key) for _, place, _ in found if place.holder in (None, *_HOLDERS)}
            for path, place, part in found:  # what another table has under the name of a parameter is an optimiser's
                if place.holder in (None, *_HOLDERS) or (place.steps, place.key) not in parameters:
                    self.places.setdefault(path, (place, part))
            own = {id(x) for path, (_, x) in self.places.items() if not _is_kept_gradient(path, self.places)}
            kept = (self.gradient(held, path) for path in self.places)
            self.buffers += [x for x in kept if type(x) is np.ndarray and x.dtype.kind == "f" and id(x) not in own]
            self({})

    def __call__(self, parameters: Mapping[str, Any]) -> Any:
        """Return a copy of the object with other parameters and no gradients yet; what else it holds is as it was.

        What cannot be copied is made anew by its constructor, and gets the parameters.

        Raises  BadTarget if it cannot be copied and not made anew.
        """
        random.setstate(self._states[0])
        np.random.set_state(self._states[1])
        memo = {
            id(array): x if isinstance(x, Tracer) else np.array(x)
            for path, (_, array) in self.places.items()
            if (x := parameters.get(path)) is not None
        }
        memo |= {id(x): np.zeros(x.shape) for x in self.buffers}
        large = [x for _, x in self.places.values() if x.nbytes >= _LARGE and id(x) not in memo]
        memo |= {id(x): own for x in large if (own := self._copy_on_write(x)) is not None}
        for generator, state in self.generators:
            generator.bit_generator.state = state
        try:
            self.last = copy.deepcopy(self.held, memo)
        except Exception as error:
            if self._make is None:
                do = "each evaluation needs the object as it was: leave out what cannot be copied, such as a lock or a file"
                raise BadTarget(f"{self.text} cannot be copied: {error}", do=do) from error
            self.last = self._rebuild_object(self._make, parameters)
        return self.last

    def _copy_on_write(self, x: np.ndarray) -> np.ndarray | None:
        """Return an array whose pages are copied when they are written to; None where the system has none."""
        if not x.flags.c_contiguous:
            return None
        try:
            if id(x) not in self._files:
                self._files[id(x)] = file = tempfile.TemporaryFile()  # noqa: SIM115
                weakref.finalize(self, file.close)
                file.write(x.data.cast("B"))
                file.flush()
            pages = mmap.mmap(self._files[id(x)].fileno(), x.nbytes, access=mmap.ACCESS_COPY)
        except OSError:  # no room on the disk
            return None
        return np.frombuffer(pages, x.dtype).reshape(x.shape)

    def _rebuild_object(self, make: Callable[[], Any], parameters: Mapping[str, Any]) -> Any:
        """Return a new object with the parameters, as far as they are not in a tuple."""
        made = make()
        for path, (place, array) in self.places.items():
            given = parameters.get(path)
            x = array if given is None else given
            holder = place.holder_in(place.owner_in(made))
            if isinstance(holder, dict | list):
                holder[place.key] = x if isinstance(x, Tracer) else np.array(x)
        return made

    def leave_out_velocities(self) -> None:
        """Take velocities for no parameters, and let them begin at zero: then a step is that of the gradient alone."""
        shapes = {path: x.shape for path, (_, x) in self.places.items()}
        for path in shapes:  # vW beside W, of the same shape, in the same object
            owner, dot, last = path.rpartition(".")
            of = _VELOCITY.fullmatch(last)
            if of is not None and shapes.get(f"{owner}{dot}{of['name']}") == shapes[path]:
                self.buffers.append(self.places.pop(path)[1])

    def keep_gradients(self, named: Iterable[tuple[str, str]]) -> None:
        """Take the gradients of parameters from where the user says that they are kept. Raises BadOption."""
        for path, where in named:
            if path not in self.places:
                says = f"{self.text} holds no parameter '{path}', which --pick names"
                raise BadOption(says, do=f"its parameters: {', '.join(self.places) or 'none'}")
            self.gradient_places[path] = where

    def gradient(self, used: Any, path: str) -> Any:
        """Return the gradient that an object holds beside a parameter, or where the user says; None if there is none."""
        if path in self.gradient_places:
            found = used
            for step in _STEP.findall(self.gradient_places[path]):
                key = step.strip("[]'\"")
                try:
                    found = found[int(key) if key.isdigit() else key] if step.startswith("[") else getattr(found, key)
                except (AttributeError, LookupError, TypeError):
                    return None
            return found
        place, array = self.places[path]
        candidates = _candidate_gradients(place.owner_in(used), place)
        kept = [x for x in candidates if isinstance(x, np.ndarray | np.floating | float | list)]
        fitting = (x for x in kept if np.size(x) == array.size)
        return next(fitting, next((x for x in kept if isinstance(x, np.ndarray | np.floating)), None))

    def parameter(self, used: Any, path: str) -> Any:
        """Return what an object has in the place of a parameter now."""
        place, _ = self.places[path]
        return place.holder_in(place.owner_in(used))[place.key]


def _walk_held_values(
    owner: Any, prefix: str = "", steps: tuple[Any, ...] = (), seen: set[int] | None = None
) -> Iterator[tuple[str, _Place, Any]]:
    """Yield the float arrays and the objects that an object holds, and those in them: the path of each, where it is, and it."""
    seen = set() if seen is None else seen
    if len(steps) > _DEEPEST or id(owner) in seen or not hasattr(owner, "__dict__"):
        return
    seen.add(id(owner))
    for name, x in vars(owner).items():
        parts: list[tuple[str, _Place, Any]] = [(f"{prefix}{name}", _Place(steps, None, name), x)]
        if isinstance(x, dict):
            before = prefix if name in _HOLDERS else f"{prefix}{name}."
            parts += [(f"{before}{key}", _Place(steps, name, key), part) for key, part in x.items()]
        elif isinstance(x, list | tuple):
            parts += [(f"{prefix}{name}[{k}]", _Place(steps, name, k), part) for k, part in enumerate(x)]
        for path, place, part in parts:
            if name in _GRADIENTS or place.key in _GRADIENTS or id(part) in seen:
                continue
            if _is_parameter(part):
                seen.add(id(part))
                yield path, place, part
            elif _is_user_object(part):
                yield path, place, part
                inside = (*steps, name) if place.holder is None else (*steps, name, place.key)
                yield from _walk_held_values(part, f"{path}.", inside, seen)


def _is_parameter(x: Any) -> bool:
    return type(x) is np.ndarray and x.dtype.kind == "f" and x.size > 0


def _is_user_object(x: Any) -> bool:
    """Whether a value is an object of a class that is not a library's, which may hold parameters of its own."""
    top = (type(x).__module__ or "").partition(".")[0]
    libraries = {"numpy", "scipy", "builtins", *sys.stdlib_module_names}
    return hasattr(x, "__dict__") and not (inspect.isclass(x) or inspect.isroutine(x)) and top not in libraries


def _candidate_gradients(owner: Any, place: _Place) -> Iterator[Any]:
    """Yield what an object holds where the gradient of a parameter usually is."""
    names = [pattern.format(place.key) for pattern in _SPELLED] if isinstance(place.key, str) else []
    own = place.holder_in(owner)
    held = [getattr(owner, name) for name in _GRADIENTS if hasattr(owner, name)]
    for kept in [*held, own] if place.holder is not None else held:
        if isinstance(kept, dict):
            keys = () if kept is own else (place.key,)
            yield from (kept[name] for name in (*keys, *names) if name in kept)
        elif kept is not own and isinstance(kept, list | tuple) and isinstance(place.key, int):
            yield from kept[place.key : place.key + 1]
    yield from (getattr(owner, name) for name in names if hasattr(owner, name))
    if isinstance(own, dict):  # W["grad"] of W["value"], W.grad of W.value
        yield from (own[name] for name in _GRADIENTS if isinstance(own.get(name), np.ndarray))


@dataclass(slots=True)
class Layer:
    """The function of a layer, a pair or a network, and the derivative that it claims: its kind, and the function of it.

    `kind` is None where the object claims nothing itself. `parameters` are those with a gradient, at their values.
    """

    function: Callable[..., Any]
    kind: str | None
    claim: Callable[..., Any] | None
    fresh: Fresh
    parameters: dict[str, Any] = field(default_factory=dict)
    notices: list[Notice] = field(default_factory=list)
    passes: "_Passes | None" = None
    engine: "Engine | None" = None

    def claim_gradient(self, cotangent: str) -> None:
        """Let the claim be the gradient of a loss, and not a product with a cotangent."""
        self.kind = "grad"
        if self.claim is not None:
            signature = inspect.signature(self.claim)
            kept = [p for p in signature.parameters.values() if p.name != cotangent]
            self.claim.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]

    def completed(self, point: Mapping[str, Any]) -> dict[str, Any]:
        """Return a point with the parameters of the object, at their own values where the point gives none."""
        given = {name: point[name] for name in point if name in self.parameters}
        rest = {name: x for name, x in point.items() if name not in given}
        held = {PARAMETERS: NamedValues({**self.parameters, **given})} if self.parameters else {}
        return {**held, **rest}

    def elsewhere(self, point: Mapping[str, Any], seed: int) -> dict[str, Any]:
        """Return other values of the parameters whose entries are all alike: a mistake may vanish there.

        A missing factor of ones is one, and so is what a bias of zeros is multiplied with.
        """
        rng, found = np.random.default_rng([seed, 0x1A7E5]), {}
        for path, x in self.parameters.items():
            if path not in point and np.all(x == x.reshape(-1)[0]) and (x.size > 1 or not np.any(x)):
                away = rng.uniform(0.1, 0.5, x.shape)  # upwards: what must be positive stays so
                found[path] = x * (1 + away) if np.any(x) else away
        return found

    def inner_calls(self, arguments: Mapping[str, Any]) -> list["InnerCall"]:
        """Return the first call of each layer that the object holds, in one evaluation, in the order in which they ended."""
        parts = (part for _, _, part in _walk_held_values(self.fresh.held))
        classes = {type(part) for part in parts if _names_of_passes(part) is not None}
        calls: dict[str, InnerCall] = {}

        def recorder(ahead: Callable[..., Any]) -> Callable[..., Any]:
            def recorded(layer: Any, *args: Any, **named: Any) -> Any:
                path = next((path for path, _, part in _walk_held_values(self.fresh.last) if part is layer), None)
                if path is None or path in calls:
                    return ahead(layer, *args, **named)
                given = inspect.signature(ahead).bind(layer, *args, **named).arguments
                before, own = copy.deepcopy(layer), {name: _copy_argument(x) for name, x in [*given.items()][1:]}
                y = ahead(layer, *args, **named)
                calls.setdefault(path, InnerCall(path, before, own, _copy_argument(output_of_pass(layer, y))))
                return y

            return recorded

        with contextlib.ExitStack() as stack:
            for kind in classes:
                name = (_names_of_passes(kind) or ("",))[0]
                stack.enter_context(_replace_method(kind, name, recorder(getattr(kind, name))))
            stack.enter_context(run_user_code(self.fresh.text, BadClaim))
            self.function(**arguments)
        return [*calls.values()]


@dataclass(frozen=True, slots=True)
class InnerCall:
    """A call of a layer in an object: the path at which it is held, the layer as it was, the arguments, and the result."""

    path: str
    layer: Any
    arguments: Mapping[str, Any]
    result: Any

    @property
    def name(self) -> str:
        """The path, and the class."""
        return f"{self.path} ({type(self.layer).__name__})"

    @property
    def backward(self) -> Callable[..., Any]:
        """The backward pass of the layer."""
        found: Callable[..., Any] = getattr(self.layer, (_names_of_passes(self.layer) or PASSES[0])[1])
        return found


def chain_layers(first: InnerCall, second: InnerCall) -> InnerCall | None:
    """Return two layers as one, where the second takes what the first returns, and passes on what its backward returns."""
    taken = next((name for name, x in second.arguments.items() if _is_equal_and_nonzero(x, first.result)), None)
    others = {name: x for name, x in second.arguments.items() if name != taken}
    if taken is None or others.keys() & first.arguments.keys():
        return None
    (ahead, back), (ahead_2, back_2) = (_names_of_passes(call.layer) or PASSES[0] for call in (first, second))

    class Both:
        def __init__(self) -> None:
            self.first, self.second = first.layer, second.layer

        def forward(self, **given: Any) -> Any:
            y = getattr(self.first, ahead)(**{name: given[name] for name in first.arguments})
            self.output = output_of_pass(self.first, y)
            rest = {name: given[name] for name in others} | {str(taken): self.output}
            return output_of_pass(self.second, getattr(self.second, ahead_2)(**rest))

        def backward(self, *cotangents: Any, **named: Any) -> Any:
            between = getattr(self.second, back_2)(*cotangents, **named)
            if between is None:
                between = _input_gradients(self.second, [str(taken)]).get(str(taken))
            found = getattr(self.first, back)(between[0] if isinstance(between, tuple) else between)
            return _input_gradients(self.first, [*first.arguments]) if found is None else found

    kind, both = inspect.Parameter.POSITIONAL_OR_KEYWORD, {**first.arguments, **others}
    rows = [inspect.Parameter(name, kind) for name in ("self", *both)]
    Both.forward.__signature__ = inspect.Signature(rows)  # type: ignore[attr-defined]
    Both.backward.__signature__ = inspect.signature(getattr(type(second.layer), back_2))  # type: ignore[attr-defined]
    return InnerCall(f"{first.path}, {second.path}", Both(), both, second.result)


def _names_of_passes(layer: Any) -> tuple[str, str] | None:
    """Return the names of the two passes of a layer, or of its class; None for anything else."""
    return next((names for names in PASSES if all(callable(getattr(layer, name, None)) for name in names)), None)


@contextlib.contextmanager
def _replace_method(kind: type, name: str, method: Callable[..., Any]) -> Iterator[None]:
    """Let a class have another method for a while."""
    own = vars(kind).get(name)
    setattr(kind, name, method)
    try:
        yield
    finally:
        if own is None:
            delattr(kind, name)
        else:
            setattr(kind, name, own)


class _Passes:
    """A forward pass with the backward pass that belongs to it, and how the second one is called."""

    def __init__(self, forward: Callable[[Any], Any], backward: Callable[[Any], Any], fresh: Fresh) -> None:
        self.forward, self.backward, self.fresh, self.text = forward, backward, fresh, fresh.text
        ahead, back = forward(fresh.held), backward(fresh.held)
        self.name, self.back_name = ahead.__name__, back.__name__
        self.inputs = parameters_of(ahead)
        self.star = next((p.name for p in self.inputs if p.kind is p.VAR_POSITIONAL), None)
        taken = parameters_of(back)
        known = {p.name for p in self.inputs}
        self.rates = [p.name for p in taken if p.name in _RATES and p.name not in known]
        if self.rates:  # the backward pass makes a step
            fresh.leave_out_velocities()
        self.reused = [p.name for p in taken if p.name in known]
        others = [p for p in taken if p.name not in known and p.name not in self.rates]
        cached = [p for p in others if p.name.lower() in _CACHES]
        if not cached and len(others) > 1 and others[-1].default is inspect.Parameter.empty:
            cached = [p for p in others[-1:] if not re.match(r"d|grad|g_|.*(_grad|_bar)$", p.name.lower())]
        into = [p for p in others if p not in cached]
        self.cotangents = [p.name for p in into]
        self.takes_all = bool(into) and into[-1] is others[-1] and into[-1].kind is into[-1].VAR_POSITIONAL
        self.by_default = any(type(p.default) in (int, float) and p.default == 1 for p in into[:1])
        self.prediction: str | None = None  # the input that a loss takes in the place of a cotangent
        self.hands_output = False  # which is then the output that its object keeps, as of a softmax with its loss
        self.total = ""  # what makes one number of the losses of many rows: a method, or one of _OF_MANY
        self.cache = cached[0].name if cached else None
        needed = [p.name for p in cached if p.default is p.empty]
        self.taken = [p.name for p in taken]
        returned = _returned_expressions(ahead)  # a call or a name may hold a tuple
        if (
            needed
            and returned
            and not any(isinstance(x, ast.Tuple | ast.Call | ast.Name | ast.IfExp) for x in returned)
        ):
            says = f"{self.text}.{self.back_name} takes {', '.join(self.taken)}"
            says += ": it can get a cotangent, and the inputs by name"
            do = f"give {', '.join(needed)} a default, or let {self.name} return it as its last result"
            raise BadTarget(says, do=do)
        self.has_default = {p.name for p in taken if p.default is not p.empty}

    def run(self, given: Mapping[str, Any], parameters: Mapping[str, Any]) -> tuple[Any, Any, Any]:
        """Return the outputs of the forward pass, its cache, and the object that has run it."""
        used = self.fresh(parameters)
        result = _call_by_name(self.forward(used), {name: _copy_argument(x) for name, x in given.items()})
        if self.cache is None:
            y = output_of_pass(used, result)
            if self.prediction is not None and self.total:
                made = getattr(self.fresh(parameters), self.total, None) if self.total not in _OF_MANY else None
                y = made(*map(_copy_argument, given.values())) if made is not None else _OF_MANY[self.total](y)
            return y, None, used
        if not isinstance(result, tuple):
            if self.cache in self.has_default:
                return result, None, used
            says = f"{self.text} returns one value, and {self.back_name} takes {', '.join(self.taken)}"
            raise BadTarget(says, do=f"return {self.cache}, too: return out, {self.cache}")
        *outputs, cache = result
        kept = outputs[: max(len(self.cotangents), 1)]  # what has no cotangent is not differentiated
        return (kept[0] if len(kept) == 1 else tuple(kept)), cache, used

    def pulled(
        self, given: Mapping[str, Any], parameters: Mapping[str, Any], w: Any, rates: Mapping[str, float]
    ) -> dict[str, Any]:
        """Return the gradients that the backward pass gives for a cotangent, by input and by parameter."""
        y, cache, used = self.run(given, parameters)
        arguments: dict[str, Any] = {name: given[name] for name in self.reused if name in given}
        needed = [name for name in self.rates if name in rates or name not in self.has_default]
        arguments |= {name: rates.get(name, _RATE) for name in needed}
        if self.cache is not None and (cache is not None or self.cache not in self.has_default):
            arguments[self.cache] = cache
        if self.prediction is None:
            each, last = _cotangent_of_each_output(w, y), len(self.cotangents) - 1
            parts = [*each[:last], each[last:]] if self.takes_all else each  # `*douts` gets all that are left as a list
            arguments |= zip(self.cotangents, parts, strict=False)
        elif self.cotangents:
            predicted = output_of_pass(used, None) if self.hands_output else given[self.prediction]
            arguments[self.cotangents[0]] = _copy_argument(predicted)
        steps = rates or self.rates
        before = {path: np.array(self.fresh.parameter(used, path)) for path in parameters} if steps else {}
        found = _call_by_name(self.backward(used), arguments)
        gradients = self._gradients_by_input(found, used, given)
        for path in parameters:
            own = self.fresh.gradient(used, path)
            if own is None and path in before:
                rate = next((float(arguments[name]) for name in self.rates if name in arguments), 1.0)
                moved = before[path] - np.asarray(self.fresh.parameter(used, path))
                own = moved / rate if rate and np.any(moved) else None
            if own is not None:
                gradients.setdefault(path, own)
        return gradients

    def _gradients_by_input(self, found: Any, used: Any, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the backward pass returns, by input, else what its object keeps.

        A parameter that its source names is that of the object.
        """
        names = [p.name for p in self.inputs if p.name in given]
        floats = [name for name in names if _is_float(given[name])]
        if found is None:
            return _input_gradients(used, floats)
        if self.star is not None and names == [self.star]:
            return {self.star: [*found] if isinstance(found, tuple | list) else [found]}
        if isinstance(found, dict):
            inside = [f"{name}.{key}" for name in names if isinstance(given[name], dict) for key in given[name]]
            known = [*names, *inside, *self.fresh.places]
            return {match_gradient_name(key, known) or str(key): x for key, x in found.items()}
        if not isinstance(found, tuple | list):
            return {floats[0]: found} if floats else {}
        if len(found) == len(names):
            return {name: x for name, x in zip(names, found, strict=True) if x is not None}
        if len(found) <= len(floats):
            return {name: x for name, x in zip(floats, found, strict=False) if x is not None}
        words, known = returned_names(self.backward(self.fresh.held)), [*names, *self.fresh.places]
        said = [match_gradient_name(word, known) for word in words]
        if len(said) == len(found) and None not in said and len(set(said)) == len(said):
            return {str(name): x for name, x in zip(said, found, strict=True) if x is not None}
        says = f"{self.text}.{self.back_name}" if self.fresh.held is not None else self.back_name
        says += f" returns {len(found)} values, and {self.name} has {len(names)} input{'' if len(names) == 1 else 's'}"
        raise BadClaim(says, do=f"return the gradients by {', '.join(names)} alone")

    def look_at(self, layer: Layer, point: Mapping[str, Any]) -> None:
        """Find the parameters that have a gradient after a backward pass, and whether it depends on what comes in.

        Raises  BadClaim if the backward pass raises.
        """
        known = {p.name for p in self.inputs}
        given = {name: x for name, x in point.items() if name in known}
        rates = {name: float(point[name]) for name in self.rates if name in point}
        candidates = {path: array for path, (_, array) in self.fresh.places.items() if path not in known}
        who = layer.claim.__name__ if layer.claim is not None else self.back_name
        with np.errstate(all="ignore"), run_user_code(who, BadClaim):
            y, _, _ = self.run(given, candidates)
            sizes = [np.ones(shape(part)) for part in (y if isinstance(y, tuple) else (y,))]
            w = np.concatenate([part.reshape(-1) for part in sizes]) if isinstance(y, tuple) else sizes[0]
            self._look_for_prediction(layer, given, w, y)
            found = self.pulled(given, candidates, w, rates)
            multiplies = self.cotangents and self.prediction is None
            twice = self.pulled(given, candidates, 2.0 * w, rates) if multiplies else found
        lacking = {path for path in candidates if found.get(path) is None}
        if absent := sorted(lacking & self.fresh.gradient_places.keys()):
            says = f"after its backward pass {self.text} has nothing at {self.fresh.gradient_places[absent[0]]}"
            held = [name for name, x in vars(self.fresh.last).items() if isinstance(x, np.ndarray | list | dict)]
            do = f"it has {', '.join(held)}: write --pick {absent[0]}=NAME, or NAME[1] of a list"
            raise BadOption(f"{says}, where --pick has the gradient of {absent[0]}", do=do)
        named = {path for path in lacking if self.fresh.places[path][0].holder in _HOLDERS}  # the verdict lists these
        layer.parameters = {path: np.array(x) for path, x in candidates.items() if path in named or path not in lacking}
        if others := sorted(path for path in lacking - named if not _is_kept_gradient(path, self.fresh.places)):
            says = f"no gradient is kept of {', '.join(others)}: not checked"
            layer.notices.append(Notice(Kind.CLAIM, Severity.INFO, says))
        if multiplies and found and all(_is_equal_and_nonzero(found[name], twice.get(name)) for name in found):
            self._note_ignored_cotangent(layer, y)

    def _look_for_prediction(self, layer: Layer, given: Mapping[str, Any], w: np.ndarray, y: Any) -> None:
        """Find out whether the backward pass of a loss takes its prediction in the place of a cotangent.

        It has one argument beside the labels at most. It does so if its result is the slope of the loss along one direction,
        or if it is no multiple of that argument, or raises for a cotangent: then it is wrong, one way or the other.
        """
        labels = [name for name in self.reused if _LABEL.fullmatch(name)]
        free = [p.name for p in self.inputs if p.name not in (self.reused if self.cotangents else labels)]
        if len(free) != 1 or not labels or len(self.cotangents) > 1 or self.by_default or self.cache is not None:
            return
        if (self.cotangents and _INCOMING.fullmatch(self.cotangents[0])) or (not self.cotangents and shape(y) == ()):
            return
        totals = [""] if shape(y) == () else self._find_total_method(given) or [*_OF_MANY]
        multiple = self.cotangents and self._is_multiple(given, w)
        self.prediction = free[0]
        distances = {}
        for reading in itertools.product(totals, (True, False)):
            self.total, self.hands_output = reading
            distances[reading] = self._slope_distance(given)
        self.total, self.hands_output = nearest = min(distances, key=lambda reading: distances[reading])
        if distances[nearest] > (_FOUR_DIGITS if multiple else np.finfo(float).max):
            self.prediction = None
            return
        of = f"the {self.total} of what {self.name} returns" if self.total in _OF_MANY else self.total or self.name
        says = f"{self.back_name} takes the prediction"
        if self.cotangents:
            layer.claim_gradient(self.cotangents[0])
            says += f" as {self.cotangents[0]}, and no incoming gradient"
        layer.notices.append(Notice(Kind.CLAIM, Severity.INFO, f"{says}: it is compared with the gradient of {of}"))

    def _find_total_method(self, given: Mapping[str, Any]) -> list[str]:
        """Return the method beside the two passes that makes one number of the losses of many rows, if there is one."""
        for name in _TOTALS:
            with contextlib.suppress(Exception):  # another method of the user's under that name
                if shape(getattr(self.fresh({}), name)(*given.values())) == ():
                    return [name]
        return []

    def _is_multiple(self, given: Mapping[str, Any], w: np.ndarray) -> bool:
        """Whether the result of the backward pass is a multiple of a cotangent, or takes no notice of it."""
        try:
            once, twice = (self.pulled(given, {}, factor * w, {}) for factor in (1.0, 2.0))
            pairs = [(once[name], twice[name]) for name in once]
            return any(all(np.allclose(k * a, b, equal_nan=True) for a, b in pairs) for k in (1.0, 2.0))
        except Exception:  # of the user's code, which is called with another array than it expects
            return False

    def _slope_distance(self, given: Mapping[str, Any]) -> float:
        """Return how far the claimed slope along one direction is from that of values on both sides, relative to this."""
        name = str(self.prediction)
        x = given[name]
        try:
            found = self.pulled(given, {}, 1.0, {}).get(name)
        except Exception:  # the check says what it raises for a cotangent
            return np.inf
        if found is None or shape(found) != shape(x):
            return np.inf
        d = x * np.random.default_rng(0).uniform(0.5, 1.0, np.shape(x))
        try:
            above, below = (self.run({**given, name: x + h * d}, {})[0] for h in (1e-6, -1e-6))
        except Exception:  # of the user's code
            return np.inf
        slope, claimed = (above - below) / 2e-6, np.sum(np.asarray(found) * d)
        distance = float(abs(slope - claimed) / (abs(slope) + 1e-4 * abs(above)))
        return distance if np.isfinite(distance) else np.inf

    def _note_ignored_cotangent(self, layer: Layer, y: Any) -> None:
        """Note that the backward pass ignores what comes in; of a loss whose cotangent is 1 by default that is no mistake."""
        who = layer.claim.__name__ if layer.claim is not None else self.back_name
        says, at_the_end = f"{who} ignores the incoming gradient", self.by_default and shape(y) == ()
        if at_the_end:
            layer.claim_gradient(self.cotangents[0])
            says = f"{says}: it is right for {self.cotangents[0]} = 1 alone"
        do = f"multiply by {self.cotangents[0]}, which is that of what comes after"
        severity = Severity.INFO if at_the_end else Severity.WARNING
        layer.notices.append(Notice(Kind.IGNORES_COTANGENT, severity, says, hint=do))


def layer_of(found: Any, text: str, backward: Any = None, *, finds_partner: bool) -> Layer | None:
    """Return the layer that a class, an object, a method of an object or a function is; None for anything else.

    `backward` is the function that the user names as the backward pass; with `finds_partner` it is looked for beside a function.

    Raises  BadTarget for a class that cannot be made without arguments, and for an object that cannot be copied.
    """
    if inspect.ismethod(found) and not inspect.isclass(found.__self__):
        return _layer_of_method(found, text)
    if inspect.isfunction(found):
        partner = backward or (find_backward_pass(found) if finds_partner else None)
        if partner is None:
            return None
        fresh = Fresh(None, text)
        fresh.generators = _generators_of(found)
        layer = _make_layer(lambda _: found, lambda _: partner, fresh)
        if backward is None:
            says = f"{partner.__name__}, which stands beside it, is the backward pass that was checked"
            layer.notices.append(Notice(Kind.CLAIM, Severity.INFO, says))
        return layer
    if inspect.isbuiltin(found):
        return None
    if (names := _names_of_passes(found)) is not None:
        try:
            fresh = Fresh(instance_of(found, text), text, _maker_of(found, text))
            return _make_layer(operator.attrgetter(names[0]), operator.attrgetter(names[1]), fresh)
        except (BadTarget, ValueError):  # a signature that cannot be read is a ValueError
            if inspect.isclass(found) or not callable(found):
                raise
            return None
    return _loss_with_gradient(found, text)


def instance_of(found: Any, text: str) -> Any:
    """Return an object of a class that is made without arguments; an object as it is. Raises BadTarget."""
    if not inspect.isclass(found):
        return found
    try:
        inspect.signature(found).bind()
    except TypeError as error:
        do = f'give them: "{write_constructor(found, text)}"'
        raise BadTarget(f"{text}() cannot be made without arguments: {error}", do=do) from error
    with run_user_code(f"{text}()"):
        return found()


def find_backward_pass(function: Callable[..., Any]) -> Callable[..., Any] | None:
    """Return the backward pass that stands beside a forward pass under the usual name, or None."""
    names = getattr(inspect.unwrap(function), "__globals__", {})
    likely = backward_names(function.__name__)
    found = next((names[name] for name in likely if inspect.isfunction(names.get(name))), None)
    return found if found is not None and parameters_of(found) else None


def find_sibling_method(function: Any, name: str) -> Callable[..., Any] | None:
    """Return a method of the object whose method is the target, called on a copy where that is; None where there is none.

    The method may be named with the object's class: `Kind.method`.
    """
    fresh = getattr(function, "fresh", None)
    held = getattr(function, "__self__", None) if inspect.ismethod(function) else getattr(fresh, "held", None)
    kind, _, method = name.rpartition(".")
    if kind in {each.__qualname__ for each in type(held).__mro__}:
        name = method
    if inspect.ismethod(function) and not inspect.isclass(function.__self__):
        found = getattr(function.__self__, name, None) if name.isidentifier() else None
        return found if callable(found) else None
    if not isinstance(fresh, Fresh) or not name.isidentifier() or not callable(getattr(fresh.held, name, None)):
        return None
    return _method_on_copies(fresh, getattr(fresh.held, name), function.holds_parameters)


def _loss_with_gradient(found: Any, text: str) -> Layer | None:
    """Return the loss of an object, with the method beside it that returns its gradient; None for what has no such pair."""
    pairs = [(loss, name) for loss in LOSSES for name in GRADIENT_METHODS]
    names = next((pair for pair in pairs if all(callable(getattr(found, name, None)) for name in pair)), None)
    if names is None or (inspect.isclass(found) and not inspect.isfunction(getattr(found, names[0]))):
        return None
    held = instance_of(found, text)
    loss, gradient = (getattr(held, name) for name in names)
    layer = _layer_of_method(loss, text)
    if layer is None and any(_is_parameter(part) for _, _, part in _walk_held_values(held)):
        fresh = Fresh(held, text)  # the gradient is by an attribute, and not by the arguments
        chosen = {path: np.array(x) for path, (_, x) in fresh.places.items()}
        layer = Layer(_method_on_copies(fresh, loss, True), None, None, fresh, chosen)
    layer = layer or Layer(loss, None, None, Fresh(None, text))
    claim = find_sibling_method(layer.function, names[1]) or gradient
    words = [p.name for p in parameters_of(loss)]
    second = "" if len(words) < 2 else words[1]
    is_prediction = _PREDICTION.search(second) or (second == "y" and words[0] != "y")
    if not layer.parameters and _LABEL.fullmatch(words[0] if words else "") and is_prediction:
        claim = _gradient_by_second(claim, words[1])
    says = f"{names[1]}, which the object has beside {names[0]}, is the gradient that was checked"
    return replace(layer, kind="grad", claim=claim, notices=[Notice(Kind.CLAIM, Severity.INFO, says)])


def _gradient_by_second(gradient: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return the gradient of a loss whose first argument is the label, as that by its second one."""

    @functools.wraps(gradient)
    def by_prediction(*args: Any, **named: Any) -> Any:
        found = gradient(*args, **named)
        return {name: found} if isinstance(found, np.ndarray | float | list) else found

    return by_prediction


def _method_on_copies(fresh: Fresh, method: Any, parameters: bool) -> Callable[..., Any]:
    known = parameters_of(method)

    def called(**given: Any) -> Any:
        used = fresh(given.get(PARAMETERS, {}))
        arguments = {p.name: _copy_argument(given[p.name]) for p in known if p.name in given}
        found = getattr(used, method.__name__)(**arguments)
        own = [path for path, (place, x) in fresh.places.items() if place.holder is None and x.shape == np.shape(found)]
        is_gradient = method.__name__ in GRADIENT_METHODS and isinstance(found, np.ndarray) and found.ndim > 0
        return {own[0]: found} if is_gradient and len(own) == 1 else found

    made = with_name_and_signature(called, method, known, type(fresh.held).__name__, parameters)
    made.fresh, made.holds_parameters = fresh, parameters  # type: ignore[attr-defined]
    return made


def _layer_of_method(found: Any, text: str) -> Layer | None:
    """Return a method of an object that holds its parameters in a dict or a list of them."""
    held = found.__self__
    if not _is_user_object(held) or not any(hasattr(held, name) for name in _HOLDERS):
        return None
    try:
        fresh = Fresh(held, text)
    except BadTarget:  # it cannot be copied, and is called as it is
        return None
    chosen = {path: np.array(x) for path, (place, x) in fresh.places.items() if place.holder in _HOLDERS}
    return Layer(_method_on_copies(fresh, found, True), None, None, fresh, chosen) if chosen else None


def _maker_of(found: Any, text: str) -> Callable[[], Any] | None:
    """Return what makes an object like the one that a target names: its class, or the call of it; None for any other."""
    if inspect.isclass(found):
        return found
    named = TARGET.fullmatch(text)
    return (lambda: load(text).found) if named is not None and named["made"] and not named["after"] else None


def _make_layer(ahead_of: Callable[[Any], Any], back_of: Callable[[Any], Any], fresh: Fresh) -> Layer:
    """Return the layer whose passes these functions give of an object, or of None where the passes are functions."""
    passes = _Passes(ahead_of, back_of, fresh)
    owner = "" if fresh.held is None else type(fresh.held).__name__
    known = {p.name for p in passes.inputs}
    rates = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=_RATE) for name in passes.rates]
    taken = [*passes.inputs, *rates]
    cotangent = passes.cotangents[0] if passes.cotangents else None
    layer: Layer

    def function(**given: Any) -> Any:
        inputs = {name: x for name, x in given.items() if name in known}
        return passes.run(inputs, given.get(PARAMETERS, {}))[0]

    def claim(**given: Any) -> Any:
        w = given.get(cotangent, 1.0) if cotangent is not None and layer.kind == "vjp" else 1.0
        rates = {name: float(given[name]) for name in passes.rates if name in given}
        inputs = {name: x for name, x in given.items() if name in known}
        return passes.pulled(inputs, given.get(PARAMETERS, {}), w, rates)

    ahead = with_name_and_signature(function, ahead_of(fresh.held), taken, owner, bool(fresh.places))
    if cotangent is not None:
        taken.append(inspect.Parameter(cotangent, inspect.Parameter.KEYWORD_ONLY))
    back = with_name_and_signature(claim, back_of(fresh.held), taken, owner, bool(fresh.places))
    layer = Layer(ahead, "grad" if cotangent is None else "vjp", back, fresh, passes=passes)
    return layer


def with_name_and_signature(
    function: Any, original: Any, taken: Sequence[inspect.Parameter], owner: str, parameters: bool = False
) -> Callable[..., Any]:
    """Return a function with the name and the place of the user's, which takes arguments by name: a signature of its own.

    With `parameters`, it takes those of an object too.
    """
    kind = inspect.Parameter.KEYWORD_ONLY
    rows = [p if p.kind is p.VAR_KEYWORD else p.replace(kind=kind) for p in taken]
    rows += [inspect.Parameter(PARAMETERS, kind, default=NamedValues())] if parameters else []
    function.__signature__ = inspect.Signature(rows)
    function.__name__ = f"{owner}.{original.__name__}" if owner else original.__name__
    function.__wrapped__ = original
    made: Callable[..., Any] = function
    return made


def parameters_of(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the parameters of a function that have values of their own; `*inputs` has a list."""
    return [p for p in inspect.signature(function).parameters.values() if p.kind is not p.VAR_KEYWORD]


def _call_by_name(function: Callable[..., Any], given: Mapping[str, Any]) -> Any:
    """Call a function with arguments by name; those of `*inputs` are a list."""
    parameters = parameters_of(function)
    star = next((k for k, p in enumerate(parameters) if p.kind is p.VAR_POSITIONAL), None)
    if star is None:
        return function(**given)
    first = [p.name for p in parameters[:star] if p.name in given]
    rest = {name: x for name, x in given.items() if name not in first and name != parameters[star].name}
    return function(*(given[name] for name in first), *given.get(parameters[star].name, ()), **rest)


def _copy_argument(x: Any) -> Any:
    """Return a copy of an argument, which the user's code may write into; traced values as they are."""
    if isinstance(x, np.ndarray) and not isinstance(x, Tracer):
        return np.array(x)
    return copy.deepcopy(x) if isinstance(x, dict | list | set) and not _holds_tracers(x) else x


def _holds_tracers(x: Any) -> bool:
    parts = x.values() if isinstance(x, dict) else x
    return any(isinstance(part, Tracer) or (isinstance(part, dict | list) and _holds_tracers(part)) for part in parts)


def _is_float(x: Any) -> bool:
    return isinstance(x, float | np.floating | Tracer) or (isinstance(x, np.ndarray) and x.dtype.kind == "f")


def _cotangent_of_each_output(w: Any, y: Any) -> list[Any]:
    """Return the cotangent of each output, to be written into."""
    if not isinstance(y, tuple):
        return [np.array(np.broadcast_to(np.asarray(w, dtype=float), shape(y)))[()]]
    parts, start = [], 0
    flat = np.asarray(w, dtype=float).reshape(-1)
    for output in y:
        size = int(np.prod(shape(output), dtype=int))
        parts.append(np.array(flat[start : start + size]).reshape(shape(output))[()])
        start += size
    return parts


def _is_equal_and_nonzero(a: Any, b: Any) -> bool:
    if b is None or shape(a) != shape(b):
        return False
    a, b = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    return bool(np.array_equal(a, b) and np.any(a))


def match_gradient_name(word: Any, names: Sequence[str]) -> str | None:
    """Return the name whose gradient a word says it is: `dW`, `grad_W` and `W` of W; None where there is none."""
    for letters in (str, str.lower):  # beside an input x and a parameter X: letters as they are come first
        for name in names:
            last = name.rpartition(".")[2]
            spelled = {name, last, *(pattern.format(last) for pattern in _SPELLED)}
            if letters(str(word)) in map(letters, spelled):
                return name
    return None


def _input_gradients(held: Any, inputs: Sequence[str]) -> dict[str, Any]:
    """Return the gradients of inputs that an object keeps, such as `dinputs`; `dx` and the like are that of the first one."""
    found: dict[str, Any] = {}
    for word, x in getattr(held, "__dict__", {}).items():
        of = match_gradient_name(word, inputs) or (match_gradient_name(word, _INPUTS) and inputs[0] if inputs else None)
        if of is not None and word.lower() not in (of.lower(), *_INPUTS) and isinstance(x, np.ndarray | np.floating):
            found.setdefault(of, x)
    return found


def _generators_of(held: Any) -> list[tuple[Any, Any]]:
    """Return the random generators of the module of an object or a function, each with its state."""
    module = sys.modules.get(getattr(held if inspect.isfunction(held) else type(held), "__module__", ""))
    if module is None or (module.__name__ or "").partition(".")[0] in ("numpy", "builtins"):
        return []
    found = [x for x in [*vars(module).values()] if isinstance(x, np.random.Generator)]
    return [(x, x.bit_generator.state) for x in found]


def _is_kept_gradient(path: str, places: Iterable[str]) -> bool:
    """Whether an array is the gradient of another one that the same object holds, from an earlier backward pass."""
    owner, _, last = path.rpartition(".")
    beside = [q.rpartition(".")[2] for q in places if q != path and q.rpartition(".")[0] == owner]
    return match_gradient_name(last, beside) is not None


def returned_names(function: Callable[..., Any]) -> list[str]:
    """Return the names in the last tuple that a function returns, as its source has them."""
    tuples = [value.elts for value in _returned_expressions(function) if isinstance(value, ast.Tuple)]
    return [re.sub(r"^self\.", "", ast.unparse(part)) for part in (tuples or [[]])[-1]]


def _returned_expressions(function: Callable[..., Any]) -> list[ast.expr]:
    """Return the expressions that a function returns, as its source has them; none where there is no source."""
    nodes = ast.walk(source_tree(function) or ast.Module([], []))
    return [node.value for node in nodes if isinstance(node, ast.Return) and node.value is not None]


# Engines: functions whose numbers are objects of the user's own class, with a value, a gradient and `backward`.

_VALUES, _SLOPES = ("data", "value", "val"), ("grad", "gradient")


class Engine:
    """A function whose numbers are objects of a class of one's own, as a function of numbers with its gradients.

    Each number of an input becomes an object of the class, and an array nested lists of them; with `arrays` the array itself.
    """

    def __init__(self, function: Any, kind: Callable[..., Any], text: str, *, arrays: bool) -> None:
        self.function, self.kind, self.text, self.arrays = function, kind, text, arrays
        self.name, self.known = getattr(kind, "__name__", "the engine"), parameters_of(function)
        self._numbers: dict[int, int] = {}  # of the objects by their id: their hash
        self._direction = 1  # in which sets go through the objects

    def value(self, **given: Any) -> Any:
        """Return the value of the function."""
        return self._read_attribute(self._run_function(given)[1], _VALUES)

    def gradients(self, **given: Any) -> dict[str, Any]:
        """Return what one `backward()` of the result leaves beside each input."""
        with self._order_sets():
            values, y = self._run_function(given)
            if not callable(getattr(y, "backward", None)):
                says = f"{self.text} returns {type(y).__name__}, which has no backward()"
                raise BadTarget(says, do="return a value of the engine")
            y.backward()
        found = {
            key: self._slopes_inside(x)
            for key, x in values.items()
            if isinstance(given[key], list | tuple) or _is_float(given[key])
        }
        for key in [key for key in found if not isinstance(given[key], list | tuple)]:
            slopes = np.asarray(found[key], dtype=float)
            found[key] = slopes.reshape(shape(given[key])) if slopes.size == np.size(given[key]) else slopes
        return found

    @contextlib.contextmanager
    def reversed_sets(self) -> Iterator[None]:
        """Let sets go through the engine's objects the other way, which the gradients should not depend on."""
        self._direction = -1
        try:
            yield
        finally:
            self._direction = 1

    @contextlib.contextmanager
    def _order_sets(self) -> Iterator[None]:
        """Let sets go through the objects that are made meanwhile in an order that does not depend on their addresses.

        Addresses are others at each run, and so would be a gradient that depends on the order.
        """
        if not isinstance(self.kind, type) or getattr(self.kind, "__hash__", None) is not object.__hash__:
            yield
            return
        begin: Any = self.kind.__init__  # type: ignore[misc]
        count = itertools.count(2)  # for -1 is no hash

        def numbered(engine_object: Any, *args: Any, **named: Any) -> None:
            self._numbers[id(engine_object)] = self._direction * next(count)
            begin(engine_object, *args, **named)

        def number(engine_object: Any) -> int:
            return self._numbers.get(id(engine_object), object.__hash__(engine_object))

        with _replace_method(self.kind, "__init__", numbered), _replace_method(self.kind, "__hash__", number):
            yield

    @contextlib.contextmanager
    def objects(self) -> Iterator[list[Any]]:
        """Collect the objects of the engine in the order in which they are made meanwhile; none if it is no class."""
        made: list[Any] = []
        if not isinstance(self.kind, type):
            yield made
            return
        begin: Any = self.kind.__init__  # type: ignore[misc]

        def collected(engine_object: Any, *args: Any, **named: Any) -> None:
            made.append(engine_object)
            begin(engine_object, *args, **named)

        with _replace_method(self.kind, "__init__", collected):
            yield made

    def values_of(self, made: Sequence[Any]) -> list[Any]:
        """Return the values of objects."""
        return [self._read_attribute(x, _VALUES) for x in made]

    def slopes_of(self, made: Sequence[Any]) -> list[Any]:
        """Return the gradients that objects have."""
        return [self._read_attribute(x, _SLOPES) for x in made]

    def _run_function(self, given: Mapping[str, Any]) -> tuple[dict[str, Any], Any]:
        values = {p.name: self._wrap_numbers(given[p.name]) for p in self.known if p.name in given}
        return values, self.function(**values)

    def _wrap_numbers(self, x: Any) -> Any:
        if isinstance(x, list | tuple):
            return [self._wrap_numbers(part) for part in x]
        if not _is_float(x):
            return x
        if shape(x) == () or self.arrays:
            return self.kind(x if isinstance(x, Tracer) or shape(x) else float(x))
        return [self._wrap_numbers(x[k]) for k in range(len(x))]

    def _slopes_inside(self, x: Any) -> Any:
        return [self._slopes_inside(part) for part in x] if isinstance(x, list) else self._read_attribute(x, _SLOPES)

    def _read_attribute(self, x: Any, names: Sequence[str]) -> Any:
        found = next((getattr(x, word) for word in names if hasattr(x, word)), None)
        if found is None:
            says = f"{self.text} returns {type(x).__name__}" if names is _VALUES else f"an object of {self.name}"
            do = f"an engine's values have .{_VALUES[0]} and .{_SLOPES[0]}"
            raise BadTarget(f"{says} without .{names[0]}", do=do)
        return found


def engine_of(function: Any, kind: Any, text: str, *, arrays: bool) -> Layer:
    """Return a function of an engine's values as one of numbers, and as its claim the gradients that one `backward()` leaves.

    Raises  BadTarget if the class or its objects are not what an engine has.
    """
    if not callable(kind):
        says = f"--engine names {type(kind).__name__}, not a class"
        raise BadTarget(says, do="name the class of your values: --engine Value")
    engine = Engine(function, kind, text, arrays=arrays)
    claim = with_name_and_signature(lambda **given: engine.gradients(**given), function, engine.known, "")
    claim.__name__ = f"{engine.name}.backward"
    claim.__wrapped__ = getattr(kind, "backward", function)  # type: ignore[attr-defined]
    claim.in_another_order = engine.reversed_sets  # type: ignore[attr-defined]
    ahead = with_name_and_signature(lambda **given: engine.value(**given), function, engine.known, "")
    return Layer(ahead, "grad", claim, Fresh(None, text), engine=engine)
