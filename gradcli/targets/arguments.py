"""Bind a user's values to the parameters of a callable: a function of named float inputs, and the point to use."""

import copy
import dataclasses
import inspect
import re
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from gradcli.arithmetic.recorded_program import value_and_gradient
from gradcli.errors import BadPoint, BadTarget, TraceDiffers, closest_name
from gradcli.request.target_text import Pick
from gradcli.targets.draws import Whole
from gradcli.targets.facts import Notice
from gradcli.targets.loading import write_constructor
from gradcli.targets.nesting import (
    ContainerNode,
    Leaf,
    NamedValues,
    Node,
    labels_by_path,
    paths_of_leaves,
    put_together,
    take_apart,
)
from gradcli.targets.python import (
    PythonFunction,
    advise_missing_values,
    annotated_class,
    name_object_of_file,
    order_names,
    signature_of,
)
from gradcli.tracing.primitive import Value
from gradcli.tracing.shapes import redefines_arithmetic, shape, size
from gradcli.tracing.tracer import Tracer, exact_integer
from gradcli.words import Kind, Severity

_SHOWN = 8  # most entries that a message lists
_ROOT = re.compile(r"\w+")
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def bind_arguments(
    function: Callable[..., Any], text: str, given: Mapping[str, Any], *, typed: bool = False, pick: Pick | None = None
) -> tuple[PythonFunction, dict[str, Any], list[Notice]]:
    """Return the function of its float leaves, the values of all leaves by path, and notices about the values.

    A leaf is one value inside the arguments, which may be nested. `typed` values come from the command line, where every
    number is a float unless the user says otherwise.

    Raises  BadTarget for a class, a coroutine function or an object that is not callable; BadPoint for missing and
            unknown arguments and for complex values.
    """
    if inspect.isclass(function):
        made = write_constructor(function, text)
        methods = [name for name, x in vars(function).items() if inspect.isfunction(x) and not name.startswith("_")]
        do = f'"{made}" makes an instance, which is called'
        if methods and "__call__" not in dir(function):
            do = f'name a method of an instance: "{made}.{methods[0]}"'
        if callable(getattr(function, "backward", None)):  # without a forward pass, else it would be a layer
            do = f"if it is an engine, name a function of its objects: file.py:name --engine {function.__name__}"
        raise BadTarget(f"{text} is a class", do=do)
    if not callable(function):
        kind = type(function).__name__
        methods = [n for n, x in vars(type(function)).items() if inspect.isfunction(x) and not n.startswith("_")]
        says = f"{text} is not a function but {'an' if kind[:1].lower() in 'aeiou' else 'a'} {kind}"
        do = f"name a method: {text}.{methods[0]}" if methods else "name a function, or what can be called"
        raise BadTarget(says, do=do)
    refuse_coroutine(function, text)
    signature = signature_of(function)
    parameters = dict(signature.parameters) if signature else {}
    if signature is not None:
        _refuse_unknown_names(given, parameters, text)
    arguments: dict[str, Node] = {}
    values: dict[str, Any] = {}
    notices: list[Notice] = []
    for name in order_names(given, signature):
        x = given[name]
        kind = annotated_class(function, parameters[name]) if name in parameters and type(x) is dict else None
        if kind is not None and dataclasses.is_dataclass(kind):
            x = _make_dataclass(name, kind, x, typed)
        x = _convert_typed_value(name, x, parameters.get(name), typed)
        arguments[name], leaves = take_apart(name, x)
        values |= {path: _normalise_leaf(path, leaf, notices) for path, leaf in leaves.items()}
    _refuse_missing_values(given, parameters, text, function)
    notices += [
        Notice(Kind.NOTICE, Severity.WARNING, says, hint=hint)
        for path, labels in labels_by_path(arguments.values()).items()
        for says, hint in labels.remarks(path, values[path])
    ]
    inputs = tuple(path for path, x in values.items() if is_float(x))
    return PythonFunction(function, text, arguments, inputs, pick), values, notices


def refuse_coroutine(function: Any, text: str) -> None:
    """Raise BadTarget for an `async def`, whose calls return coroutines, not values."""
    if inspect.iscoroutinefunction(function):
        names = ", ".join(inspect.signature(function).parameters)
        name = "h" if function.__name__ == "g" else "g"
        do = f"wrap it: def {name}({names}): return asyncio.run({function.__name__}({names}))"
        raise BadTarget(f"{text} is a coroutine function (async def)", do=do)


def is_float(x: Any) -> bool:
    """Whether a leaf is differentiable: a float, or an array of floats."""
    return isinstance(x, np.float64) or (isinstance(x, np.ndarray) and x.dtype == np.float64)


def missing_parameters(function: Callable[..., Any], given: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the parameters that have no value and no default."""
    signature = signature_of(function)
    return tuple(
        name
        for name, parameter in (signature.parameters if signature else {}).items()
        if name not in given and parameter.default is parameter.empty and parameter.kind not in _VARIADIC
    )


def default_of(function: Callable[..., Any], name: str) -> Any:
    """Return a parameter's default value, or None."""
    signature = signature_of(function)
    parameter = signature.parameters.get(name) if signature else None
    return None if parameter is None or parameter.default is parameter.empty else parameter.default


def _refuse_unknown_names(given: Mapping[str, Any], parameters: Mapping[str, inspect.Parameter], text: str) -> None:
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return
    positional = [p.name for p in parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    spread = [p.name for p in parameters.values() if p.kind is p.VAR_POSITIONAL]
    by_position = bool(spread) and spread[0] not in given and set(positional) <= set(given)
    for name in given:
        if name not in parameters:
            close = closest_name(name, parameters)
            if by_position and close is None:
                continue  # one of the values of *args, in the order in which they are given
            listed = f"its parameters: {', '.join(parameters) or 'none'}"
            do = f"did you mean '{close}'? {listed}" if close else listed
            raise BadPoint(f"'{name}' is not a parameter of {text}", do=do)


def _refuse_missing_values(
    given: Mapping[str, Any], parameters: Mapping[str, inspect.Parameter], text: str, function: Callable[..., Any]
) -> None:
    lacking = missing_parameters(function, given)
    if not lacking:
        return
    what = f"{', '.join(lacking)} {'has' if len(lacking) == 1 else 'have'} no value"
    shown = [n for n, p in parameters.items() if not isinstance(p.default, NamedValues)]  # an object's have values
    if len(shown) > len(lacking):
        what += f" ({text} takes {', '.join(shown)})"
    for name, x in given.items() if len(given) == 1 else ():
        if isinstance(x, list) and len(x) == len(shown):
            do = f"a list is the value of {name} alone: give the {len(x)} values as a tuple, or as a dict by name"
            raise BadPoint(what, do=do)
    examples: dict[str, str] = {}
    for name in lacking:
        kind, known = annotated_class(function, parameters[name]), name_object_of_file(function, text, parameters[name])
        if known is None and kind is not None and dataclasses.is_dataclass(kind):
            examples |= {f"{name}.{part.name}": _example_value(part) for part in _required_members(kind)}
        else:
            examples[name] = known or _example_value(parameters[name])
    raise BadPoint(what, do=advise_missing_values(function, text, given, examples))


def _required_members(kind: type) -> list[inspect.Parameter]:
    """Return the members of a dataclass that have no default."""
    return [part for part in inspect.signature(kind).parameters.values() if part.default is part.empty]


def _make_dataclass(name: str, kind: type, members: Mapping[str, Any], typed: bool) -> Any:
    """Return the dataclass that an annotation names, of members that are given by path. Raises BadPoint for one that lacks."""
    known = inspect.signature(kind).parameters
    lacking = {part.name: part for part in _required_members(kind) if part.name not in members}
    if lacking or not members.keys() <= known.keys():
        unknown, owner = [f"{name}.{key}" for key in members if key not in known], kind.__name__
        says = f"{unknown[0]} is no member of {owner}" if unknown else f"{name}.{next(iter(lacking))} has no value"
        missing = ", ".join(f"{name}.{key}={_example_value(part)}" for key, part in lacking.items())
        do = f'add --at "{missing}"' if missing else None
        raise BadPoint(f"{says} ({owner} has {', '.join(known)})", do=do)
    return kind(**{key: _convert_typed_value(f"{name}.{key}", x, known[key], typed) for key, x in members.items()})


# Which parameters take integers, flags or strings, as their annotations or defaults say.

_UNTOUCHED: tuple[type, ...] = (int, bool, str)
_INTEGER = r"(?:(?:numpy|np|jnp|torch)\.)?(?:u?int(?:\d+|p|c|_)?|(?:signed|unsigned)?integer(?:\[.*\])?|long)"
_ONE = re.compile(rf"(?:typing\.)?(?:Optional\[)?{_INTEGER}\]?(?:\s*\|\s*None)?")
_SEVERAL = re.compile(
    rf"(?:[\w.]+\.)?(?:NDArray\[{_INTEGER}\]|ndarray\[.*dtype\[{_INTEGER}\]\]|(?:Long|Int|Short|Byte)Tensor|"
    r"(?:Int|Integer|UInt)\d*\[.*\])(?:\s*\|\s*None)?"
)
_LISTED = re.compile(
    rf"(?:[\w.]+\.)?(?:list|List|Sequence|Iterable|tuple|Tuple)\[{_INTEGER}(?:, \.\.\.)?\](?:\s*\|\s*None)?"
)


def annotated_type(parameter: inspect.Parameter | None) -> type | None:
    """Return int, bool or str if a parameter's annotation, or without one its default, has this type; else None.

    An array or a list of integers is int too: `NDArray[np.int64]`, `torch.LongTensor`, `list[int]`.
    """
    if parameter is None:
        return None
    for kind in _UNTOUCHED:
        if parameter.annotation in (kind, kind.__name__):
            return kind
    if parameter.annotation is parameter.empty:
        return type(parameter.default) if type(parameter.default) in _UNTOUCHED else None
    return int if any(form.fullmatch(_annotation_text(parameter)) for form in (_ONE, _SEVERAL, _LISTED)) else None


def takes_a_list(parameter: inspect.Parameter | None) -> bool:
    """Whether a parameter is annotated as a list, or another sequence of Python, of integers."""
    return parameter is not None and _LISTED.fullmatch(_annotation_text(parameter)) is not None


def _annotation_text(parameter: inspect.Parameter) -> str:
    annotation: Any = parameter.annotation
    if isinstance(annotation, str):
        return annotation.strip()
    if isinstance(annotation, type) and not hasattr(annotation, "__args__") and "[" not in repr(annotation):
        return f"{annotation.__module__}.{annotation.__qualname__}"
    return repr(annotation)


def _example_value(parameter: inspect.Parameter) -> str:
    kind = annotated_type(parameter)
    if kind is int:
        several = any(form.fullmatch(_annotation_text(parameter)) for form in (_SEVERAL, _LISTED))
        return "int([0, 1, 2])" if several else "3"
    if kind is not None:
        return "True" if kind is bool else "'text'"
    return "0.5" if parameter.annotation in (float, "float") else "randn(3)"


def _convert_typed_value(name: str, x: Any, parameter: inspect.Parameter | None, typed: bool) -> Any:
    """Return the value to pass; a typed number becomes a float unless the annotation, the default or `int(...)` forbids."""
    if not typed:
        return x
    wanted = annotated_type(parameter)
    if wanted is bool and isinstance(x, float | int) and x in (0, 1):
        return bool(x)
    if wanted is int and isinstance(x, float | int) and float(x).is_integer():
        return int(x)
    if wanted is int and isinstance(x, np.ndarray) and np.all(x == np.floor(x)):
        return x.astype(int).tolist() if takes_a_list(parameter) else x.astype(int)
    if wanted is int and type(x) is tuple and all(isinstance(n, float) and n.is_integer() for n in x):
        return tuple(map(int, x))
    if isinstance(x, Whole):
        return int(x)
    if type(x) is tuple:
        return tuple(int(part) if isinstance(part, Whole) else part for part in x)
    if isinstance(x, int) and not isinstance(x, bool):
        return float(x)
    return x


def _normalise_leaf(path: str, x: Any, notices: list[Notice]) -> Any:
    """Return a leaf as it is stored: floats as float64, arrays of floats as read-only float64 copies."""
    if isinstance(x, bool | np.bool_ | int | np.integer | str | bytes | None) or callable(x):
        return x
    if isinstance(x, float | np.floating):
        return np.float64(x)
    if isinstance(x, complex | np.complexfloating):
        raise BadPoint(f"{path} is complex", do="pass its real and imaginary part as two inputs")
    if redefines_arithmetic(x):
        raise BadPoint(f"{path} is a {type(x).__name__}, which redefines arithmetic", do="pass np.asarray(...) of it")
    if str(getattr(x, "layout", "")).startswith("torch.sparse"):
        return x  # it has no array; its framework alone can compute with it
    array = np.asarray(x) if hasattr(x, "__array__") else x
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "fc":
        return x.copy() if type(x) is np.ndarray else x
    if array.dtype.kind == "c":
        raise BadPoint(f"{path} is complex", do="pass its real and imaginary part as two inputs")
    if array.dtype != np.float64:
        says = f"{path} is {array.dtype.name}; it was checked as float64"
        notices.append(Notice(Kind.PRECISION, Severity.INFO, says))
    held = np.array(array, dtype=np.float64)
    if shape(held) == ():
        return held[()]
    held.flags.writeable = False
    return held


# Values for single entries of an argument, such as `params.A=1`: the other entries keep what they have.


def merge_entries(function: Callable[..., Any], point: Mapping[str, Any], typed: bool) -> dict[str, Any]:
    """Return a point whose entries by path, such as `params.A`, are put into the arguments that hold them.

    An argument that has no value has its default; a path into neither stays, for a report writes whole points by path.
    Numbers that are `typed` are floats, or integers where the entry is one.

    Raises  BadPoint for a path that the argument does not have.
    """
    found = dict(point)
    for path in [path for path in point if "." in path or "[" in path]:
        # A module's parameters have names of their own; any other entry is that of its first name.
        first = _ROOT.match(path)
        named = (name for name, x in found.items() if isinstance(x, NamedValues) and path in x)
        root = next(named, first[0] if first else path)
        held = found.get(root, default_of(function, root)) if callable(function) else found.get(root)
        if held is None:
            found[path] = _convert_like(None, point[path]) if typed else point[path]
            continue
        node, leaves = take_apart(root, held)
        own = path if path in leaves else path.removeprefix(f"{root}.") if isinstance(held, NamedValues) else path
        if not isinstance(node, ContainerNode) or own not in leaves:
            raise _missing_entry_error(path, root, list(leaves) if isinstance(node, ContainerNode) else [])
        x = found.pop(path)
        leaves[own] = _convert_like(leaves[own], x) if typed else x
        found[root] = put_together(node, leaves)
    return found


def _convert_like(old: Any, x: Any) -> Any:
    """Return a typed value: a number as a float, or as what was there if that is an integer or a flag."""
    if isinstance(x, Whole):
        return int(x)
    if isinstance(x, bool) or not isinstance(x, int | float):
        return x
    if isinstance(old, bool) and x in (0, 1):
        return bool(x)
    if isinstance(old, int | np.integer) and float(x).is_integer():
        return int(x)
    return float(x)


def _missing_entry_error(path: str, root: str, entries: list[str]) -> BadPoint:
    inside = [entry for entry in entries if entry.startswith((f"{path}.", f"{path}["))]
    if inside:
        return BadPoint(f"{path} holds several entries", do=f"name one: {', '.join(inside[:_SHOWN])}")
    near = closest_name(path, entries)
    listed = f"it has: {', '.join(entries[:_SHOWN])}" if entries else f"it is one value: write {root}=..."
    return BadPoint(f"{root} has no entry '{path}'", do=f"did you mean '{near}'? {listed}" if near else listed)


# One call of a function from Python: its arguments as leaves, and which of them are differentiated.

_FLOAT64 = np.dtype(np.float64)
_LEAVES = {np.ndarray, np.float64, float}
Function = Callable[..., Any]
Wrt = str | int | Sequence[str | int] | None


class Call:
    """One call of a function: its arguments as leaves, and which of them are differentiated."""

    def __init__(self, f: Function, args: Sequence[Any], kwargs: Mapping[str, Any], wrt: Wrt) -> None:
        if not callable(f):
            raise BadTarget(f"{type(f).__name__} is not a function", do="pass a function of numpy arrays")
        refuse_coroutine(f, name_of_callable(f))
        signature = signature_of(f)
        if signature is None:
            named: dict[str, Any] = {f"argument{k}": x for k, x in enumerate(args)} | dict(kwargs)
        elif not kwargs and _count_positional(signature) == len(args):
            named = dict(zip(signature.parameters, args, strict=True))
        else:
            named = _split_varargs(signature, signature.bind(*args, **kwargs).arguments)
        self.arguments: dict[str, Node] = {}
        self.leaves: dict[str, Any] = {}
        for name, x in named.items():
            if type(x) in _LEAVES:
                self.arguments[name], self.leaves[name] = Leaf(name), x
                continue
            self.arguments[name], leaves = take_apart(name, x)
            self.leaves |= leaves
        self.chosen = _select_parameters(list(named), wrt)
        self.one = wrt is None or isinstance(wrt, str | int)
        moving = [path for name in self.chosen for path in paths_of_leaves(self.arguments[name])]
        self.wrt = [path for path in moving if is_differentiable(self.leaves[path])]
        self.xs = [as_float(self.leaves[path]) for path in self.wrt]
        self.function = PythonFunction(f, name_of_callable(f), self.arguments, tuple(self.wrt))

    def blank(self) -> "Call":
        """Return a copy without the values: a template for later calls, which `like` fills."""
        made = copy.copy(self)
        made.leaves, made.xs = dict.fromkeys(self.leaves), []
        return made

    def like(self, values: Mapping[str, Any]) -> "Call":
        """Return a call of the same function with other values of the same types, given by parameter name."""
        made = copy.copy(self)
        made.leaves = {path: values[path] for path in self.leaves}
        made.xs = [np.float64(x) if type(x) is float else x for x in map(made.leaves.__getitem__, self.wrt)]
        return made

    def __call__(self, *xs: Value) -> Value:
        return self.function(self.leaves | dict(zip(self.wrt, xs, strict=True)))

    def pulled(self, xs: Sequence[Value]) -> tuple[Value, list[Value]]:
        """Return the value and its gradient, one cotangent for each differentiated leaf.

        Shapes  each cotangent has the shape of its leaf.
        Raises  BadShape if the value is not a scalar.
        """
        return value_and_gradient(self, xs, lambda y: exact_integer(1, y))

    def gradient(self, xs: Sequence[Value]) -> Value:
        """Return the gradient as one vector, the entries of all inputs one after the other."""
        return np.concatenate([np.reshape(xbar, (-1,)) for xbar in self.pulled(xs)[1]])

    def split(self, flat: Value) -> list[Value]:
        """Split a vector of all inputs' entries into one value for each input, in the input's shape."""
        stops = np.cumsum([size(x) for x in self.xs])
        return [np.reshape(flat[stop - size(x) : stop], shape(x)) for stop, x in zip(stops, self.xs, strict=True)]

    def structured(self, found: Sequence[Any]) -> Any:
        """Return results, one for each differentiated leaf, in the structure of the arguments; None for other leaves."""
        leaves = dict.fromkeys(self.leaves) | dict(zip(self.wrt, _copy_shared_arrays(found, self.xs), strict=True))
        parts = [put_together(self.arguments[name], leaves) for name in self.chosen]
        return parts[0] if self.one else tuple(parts)


class Calls:
    """Repeated calls of one function with the same inputs differentiated; what does not depend on the values is cached."""

    def __init__(self, f: Function, wrt: Wrt) -> None:
        self.f, self.wrt = f, wrt
        self._blank: dict[tuple[str, ...], Call] = {}
        signature = signature_of(f) if callable(f) else None
        self._names = tuple(signature.parameters) if signature and _count_positional(signature) is not None else None

    def names(self, call: Call, form: tuple[int, tuple[str, ...]]) -> Sequence[str] | None:
        """Return the names of a call's arguments in the order they are passed, or None where the order is unknown.

        `form` holds the number of positional arguments and the names of the keyword arguments.
        """
        if self._names is not None:
            return (*self._names[: form[0]], *form[1])
        return None if form[1] else list(call.leaves)

    def of(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Call:
        """Return the call with these arguments."""
        if self._names is None or len(args) > len(self._names) or not all(map(_is_float, (*args, *kwargs.values()))):
            return Call(self.f, args, kwargs, self.wrt)
        names = (*self._names[: len(args)], *kwargs)
        known = self._blank.get(names)
        if known is None:
            call = Call(self.f, args, kwargs, self.wrt)
            self._blank[names] = call.blank()
            return call
        return known.like(dict(zip(names, (*args, *kwargs.values()), strict=True)))


def _is_float(x: Any) -> bool:
    """Whether an argument is a float or a float64 array with axes: always one leaf, and always differentiable."""
    kind = type(x)
    return kind is float or kind is np.float64 or (kind is np.ndarray and x.dtype is _FLOAT64 and x.ndim > 0)


def _count_positional(signature: inspect.Signature) -> int | None:
    """Return the number of parameters if all of them are positional-or-keyword; else None."""
    plain = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = signature.parameters.values()
    return len(parameters) if all(p.kind is plain for p in parameters) else None


def _split_varargs(signature: inspect.Signature, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments by parameter name; each argument of `*xs` gets its own entry (`xs[0]`)."""
    named: dict[str, Any] = {}
    for name, x in given.items():
        if signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL:
            named |= {f"{name}[{k}]": part for k, part in enumerate(x)}
        else:
            named[name] = x
    return named


def _copy_shared_arrays(found: Sequence[Value], xs: Sequence[Value]) -> Iterator[Value]:
    """Yield the results, copied where one is the user's array, the same array as another, or a broadcast view."""
    taken = {id(x) for x in xs}
    for x in found:
        mine = type(x) is not np.ndarray or (x.flags.owndata and x.flags.writeable and id(x) not in taken)
        taken.add(id(x))
        yield x if mine else x.copy()


def copy_array(x: Value) -> Value:
    """Return a copy of an array: a cotangent may be the user's own array, or a broadcast view of one number."""
    return x.copy() if type(x) is np.ndarray else x


def _select_parameters(names: list[str], wrt: Wrt) -> list[str]:
    """Return the parameters that `wrt` selects by name or by position; None selects the first."""
    wanted: Sequence[str | int] = [0] if wrt is None else [wrt] if isinstance(wrt, str | int) else wrt
    found = []
    for name in wanted:
        beyond = isinstance(name, int) and not -len(names) <= name < len(names)
        if beyond or (isinstance(name, str) and name not in names):
            says = f"wrt names {name!r}, which is not an argument given"
            raise BadTarget(says, do=f"arguments: {', '.join(names) or 'none'}")
        found.append(names[name] if isinstance(name, int) else name)
    return found


def is_differentiable(x: Any) -> bool:
    """Whether a leaf of an argument is a number or an array of numbers, and thus differentiable.

    Raises  BadPoint for complex values, np.matrix and masked arrays.
    """
    if isinstance(x, Tracer) or type(x) is float or (type(x) is np.ndarray and x.dtype.kind == "f"):
        return True
    if isinstance(x, bool | str | None):
        return False
    if redefines_arithmetic(x):
        says = f"an argument is a {type(x).__name__}, which redefines arithmetic"
        raise BadPoint(says, do="pass np.asarray(...) of it")
    if np.iscomplexobj(x):
        raise BadPoint("an argument is complex", do="pass its real and imaginary part as two arguments")
    return np.asarray(x).dtype.kind in "fiu"


def as_float(x: Any) -> Value:
    """Return a value as float64; a traced value is returned unchanged."""
    return x if isinstance(x, Tracer) else np.asarray(x, dtype=np.float64)[()]


# Functions whose trace was tested: those that passed, and those that were refused, with the reason.

T = TypeVar("T")
_PASSED: weakref.WeakSet[Function] = weakref.WeakSet()
_REFUSED: weakref.WeakKeyDictionary[Function, str] = weakref.WeakKeyDictionary()


def has_passed(f: Function) -> bool:
    """Whether the trace of a function is known to be the function."""
    return _query_table(_PASSED.__contains__, f) or False


def remember_pass(f: Function) -> None:
    """Let `has_passed` know this function."""
    _query_table(_PASSED.add, f)


def remember_refusal(f: Function, why: str) -> None:
    """Let `refuse_again` refuse this function."""
    _query_table(lambda f: _REFUSED.__setitem__(f, why), f)


def refuse_again(f: Function, refusal: str | None = None) -> None:
    """Raise TraceDiffers if a function was refused at an earlier call, for `refusal` or for what is remembered of it."""
    why = refusal or _query_table(_REFUSED.get, f)
    if why is not None:
        says = f"{name_of_callable(f)} was refused at an earlier call: {why}"
        raise TraceDiffers(says, do="let it depend on its arguments alone, and define it anew")


def name_of_callable(f: Function) -> str:
    """Return the name of a function, or of the type of an object that is called."""
    return str(getattr(f, "__name__", type(f).__name__))


def _query_table(table: Callable[[Function], T], f: Function) -> T | None:
    """Return what a table answers; None for a function that is not hashable, or has no weak references."""
    try:
        return table(f)
    except TypeError:
        return None
