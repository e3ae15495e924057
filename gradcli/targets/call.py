"""One call of a function from Python: its arguments as leaves, and which of them are differentiated."""

import copy
import inspect
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from gradcli.arithmetic.recorded_program import value_and_gradient
from gradcli.errors import BadPoint, BadTarget, TraceDiffers
from gradcli.targets.arguments import refuse_coroutine
from gradcli.targets.nesting import Leaf, Node, paths_of_leaves, put_together, take_apart
from gradcli.targets.python import PythonFunction, signature_of
from gradcli.tracing.primitive import Value
from gradcli.tracing.shapes import redefines_arithmetic, shape, size
from gradcli.tracing.tracer import Tracer, exact_integer

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
