"""Bind a user's values to the parameters of a callable: a function of named float inputs, and the point to use."""

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gradcli.errors import BadPoint, BadTarget, closest_name
from gradcli.request.pick import Pick
from gradcli.targets.draws import Whole
from gradcli.targets.facts import Notice
from gradcli.targets.loading import write_constructor
from gradcli.targets.nesting import ContainerNode, NamedValues, Node, labels_by_path, put_together, take_apart
from gradcli.targets.python import PythonFunction, advise_missing_values, order_names, signature_of
from gradcli.tracing.shapes import redefines_arithmetic, shape
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
        x = _convert_typed_value(name, given[name], parameters.get(name), typed)
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
    shown = [
        name for name, p in parameters.items() if not isinstance(p.default, NamedValues)
    ]  # an object's have values
    if len(shown) > len(lacking):
        what += f" ({text} takes {', '.join(shown)})"
    examples = {name: _example_value(parameters[name]) for name in lacking}
    raise BadPoint(what, do=advise_missing_values(function, text, given, examples))


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
