"""Whether a Python function can do nothing but compute from its arguments: then what it did once, it does again.

Its code, and that of every function of the user's that it calls, is read instruction by instruction. It may call numpy,
math and scipy.special by names that are known to compute, builtins that do, and itself; what it reads from outside must be
numbers, texts, modules or functions of these kinds, or arrays of float64, which become inputs of the program. It may not
write to anything it did not make, catch exceptions, or import. What is read from outside is compared before each use.
"""

import builtins
import dis
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

import numpy as np

from gradcli.core.bind import HANDLERS
from gradcli.core.primitive import Primitive
from gradcli.programs.straight_line import CannotCompile

_INSTRUCTIONS = """
    RESUME NOP CACHE EXTENDED_ARG PRECALL PUSH_NULL POP_TOP COPY SWAP MAKE_CELL COPY_FREE_VARS KW_NAMES NOT_TAKEN TO_BOOL
    LOAD_CONST LOAD_SMALL_INT LOAD_FAST LOAD_FAST_CHECK LOAD_FAST_AND_CLEAR LOAD_FAST_LOAD_FAST LOAD_FAST_BORROW
    LOAD_FAST_BORROW_LOAD_FAST_BORROW STORE_FAST STORE_FAST_LOAD_FAST STORE_FAST_STORE_FAST LOAD_CLOSURE LOAD_DEREF STORE_DEREF
    LOAD_GLOBAL LOAD_ATTR LOAD_METHOD
    BINARY_OP BINARY_SUBSCR BINARY_SLICE UNARY_NEGATIVE UNARY_NOT UNARY_POSITIVE UNARY_INVERT COMPARE_OP CONTAINS_OP
    CALL CALL_KW CALL_FUNCTION_EX MAKE_FUNCTION SET_FUNCTION_ATTRIBUTE RETURN_VALUE RETURN_CONST RETURN_GENERATOR YIELD_VALUE
    BUILD_TUPLE BUILD_LIST BUILD_MAP BUILD_CONST_KEY_MAP BUILD_SLICE LIST_APPEND LIST_EXTEND LIST_TO_TUPLE UNPACK_SEQUENCE
    UNPACK_EX GET_ITER FOR_ITER END_FOR POP_ITER JUMP_FORWARD JUMP_BACKWARD JUMP_BACKWARD_NO_INTERRUPT
    POP_JUMP_FORWARD_IF_FALSE POP_JUMP_FORWARD_IF_TRUE POP_JUMP_BACKWARD_IF_FALSE POP_JUMP_BACKWARD_IF_TRUE
    POP_JUMP_FORWARD_IF_NONE POP_JUMP_FORWARD_IF_NOT_NONE POP_JUMP_BACKWARD_IF_NONE POP_JUMP_BACKWARD_IF_NOT_NONE
    POP_JUMP_IF_FALSE POP_JUMP_IF_TRUE POP_JUMP_IF_NONE POP_JUMP_IF_NOT_NONE JUMP_IF_FALSE_OR_POP JUMP_IF_TRUE_OR_POP
    LOAD_ASSERTION_ERROR RAISE_VARARGS
"""
_KNOWN = frozenset(_INSTRUCTIONS.split())
_BUILTINS = frozenset({
    range, len, sum, abs, min, max, zip, enumerate, reversed, tuple, list, int, float, bool, pow, slice, isinstance, all, any,
    map, divmod, ValueError, TypeError, AssertionError,
})  # fmt: skip
_ALSO = """
    T mT flatten append extend pi e inf nan newaxis float64 ndarray linalg special
    zeros ones eye identity arange linspace full zeros_like ones_like full_like array asarray tri
"""
_COMPUTING = frozenset(_ALSO.split())
_MODULES = frozenset({"numpy", "numpy.linalg", "math", "scipy.special"})
_NUMBERS = (int, float, bool, str, type(None), np.float64, np.int64, type(...))
_FLOAT64 = np.dtype(np.float64)
_MISSING = object()


@dataclass(frozen=True, slots=True)
class Captured:
    """A name outside the function: `read` returns what it stands for now, which must be `seen`."""

    read: Callable[[], Any]
    seen: Any


@dataclass
class Outside:
    """What a function reads from outside: what must stay as it is, and arrays, which are read each time."""

    fixed: list[Captured] = field(default_factory=list)
    arrays: list[Callable[[], Any]] = field(default_factory=list)

    def unchanged(self) -> bool:
        """Whether everything fixed is what it was."""
        return all(captured.read() is captured.seen for captured in self.fixed)


@dataclass
class Isolation:
    """Makes functions of the same code that see nothing but what was looked at; `stand` is called for arrays."""

    outside: Outside
    stand: Callable[[Any], Any]
    _made: dict[int, types.FunctionType] = field(default_factory=dict)
    _names: set[str] = field(default_factory=set)  # of attributes and of keywords

    def refuse_unlike(self) -> None:
        """Raise Unread where the code names anything that numpy does otherwise on an array than the rules do.

        On a tape, an array from outside is numpy's own; in a program it is an input, so that options like `dtype=`, and
        functions that the rules put together in their own way, would come out otherwise.
        """
        unlike = self._names - _alike_names()
        if unlike:
            raise CannotCompile(f"it uses {min(unlike)}, and arrays from outside")

    def isolated(self, f: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function, isolated. Raises Unread where it could do something else next time."""
        if type(f) is partial:
            for name in ("func", "args", "keywords"):
                self.outside.fixed.append(Captured(partial(getattr, f, name), getattr(f, name)))
            self.outside.fixed.append(Captured(partial(len, f.keywords), len(f.keywords)))
            given = [self._value(x, partial(_itself, x)) for x in f.args]
            named = {name: self._value(x, partial(f.keywords.get, name)) for name, x in f.keywords.items()}
            return partial(self.isolated(f.func), *given, **named)
        if not isinstance(f, types.FunctionType):
            raise CannotCompile(f"it is a {type(f).__name__}")
        if id(f) in self._made:
            return self._made[id(f)]
        if f.__kwdefaults__:
            raise CannotCompile("it has defaults that may be changed")
        for name in ("__code__", "__defaults__"):
            self.outside.fixed.append(Captured(partial(getattr, f, name), getattr(f, name)))
        _refuse_mutable(f.__defaults__ or ())
        space: dict[str, Any] = {"__builtins__": {}}
        cells = [types.CellType() for _ in f.__closure__ or ()]
        made = types.FunctionType(f.__code__, space, f.__name__, f.__defaults__, tuple(cells))
        self._made[id(f)] = made
        names, said = _globals(f.__code__)
        self._names |= said
        for name in names:
            space[name] = self._global(f.__globals__, name)
        for cell, own in zip(cells, f.__closure__ or (), strict=True):
            read = partial(_contents, own)
            cell.cell_contents = self._value(read(), read)
        return made

    def _global(self, space: dict[str, Any], name: str) -> Any:
        read = partial(space.get, name, _MISSING)
        x = read()
        if x is not _MISSING:
            return self._value(x, read)
        x = getattr(builtins, name, None)
        if x not in _BUILTINS:
            raise CannotCompile(f"it reads {name}")
        self.outside.fixed.append(Captured(read, _MISSING))
        return x

    def _value(self, x: Any, read: Callable[[], Any]) -> Any:
        """Return what stands for a value from outside in the isolated function."""
        if is_array(x):
            self.outside.arrays.append(read)
            return self.stand(x)
        self.outside.fixed.append(Captured(read, x))
        if isinstance(x, types.FunctionType) and not _only_computes(x):
            return self.isolated(x)
        if isinstance(x, types.ModuleType):
            if x.__name__ not in _MODULES:
                raise CannotCompile(f"it uses the module {x.__name__}")
            self._names |= {x.__name__} - {"numpy"}
        elif _only_computes(x):
            name = str(getattr(x, "__name__", ""))
            self._names.add(name if getattr(np, name, None) is x else f"another {name}")
        else:
            _refuse_mutable(x)
        return x


def is_array(x: Any) -> bool:
    """Whether a value is an array of float64 with axes, which can be an input of a program."""
    return type(x) is np.ndarray and x.dtype == _FLOAT64 and x.ndim > 0


def _itself(x: Any) -> Any:
    return x


def _contents(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # it is empty
        return _MISSING


def _only_computes(x: Any) -> bool:
    """Whether a value is a function of numpy's or math's that is known to compute."""
    if isinstance(x, types.BuiltinFunctionType) and x.__module__ == "math":
        return True
    try:
        return x in HANDLERS and callable(x)
    except TypeError:
        return False


def _refuse_mutable(x: Any) -> None:
    """Raise Unread for what can change although it stays the same object."""
    if isinstance(x, tuple):
        for part in x:
            _refuse_mutable(part)
    elif type(x) not in _NUMBERS:
        raise CannotCompile(f"it reads a {type(x).__name__} from outside")


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """Yield a function's code and those of the functions written in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _globals(code: types.CodeType) -> tuple[set[str], set[str]]:
    """Return the global names that a code reads, and those of attributes and keywords.

    Raises  Unread where it does more than compute.
    """
    names: set[str] = set()
    said: set[str] = set()
    for part in _codes(code):
        for constant in part.co_consts:  # the names of keywords are among them
            if isinstance(constant, tuple) and constant and all(isinstance(word, str) for word in constant):
                said.update(constant)
        for step in dis.get_instructions(part):
            if step.opname == "LOAD_GLOBAL":
                names.add(step.argval)
            elif step.opname in ("LOAD_ATTR", "LOAD_METHOD") and not _computes(step.argval):
                raise CannotCompile(f"it uses .{step.argval}")
            elif step.opname == "STORE_DEREF" and step.argval in code.co_freevars:
                raise CannotCompile(f"it changes {step.argval}, which is not its own")
            elif step.opname not in _KNOWN:
                raise CannotCompile(f"it contains {step.opname}")
            if step.opname in ("LOAD_ATTR", "LOAD_METHOD"):
                said.add(step.argval)
    return names, said


def _computes(name: str) -> bool:
    """Whether every attribute of this name, of arrays and of the modules, computes and does nothing else."""
    return name in _COMPUTING or name in _known_names(len(HANDLERS))


@lru_cache(maxsize=1)
def _known_names(handlers: int) -> frozenset[str]:
    """Return the modules' names of what is known to compute: so many functions are, more when a module is met late."""
    spaces = [vars(sys.modules[name]) for name in _MODULES if name in sys.modules]
    return frozenset(name for space in spaces for name, x in space.items() if _only_computes(x)) - _WRITE


@lru_cache(maxsize=1)
def _alike_names() -> frozenset[str]:
    """Return the names of what the rules do as numpy does, entry for entry."""
    ufuncs = (name for name, x in vars(np).items() if isinstance(x, np.ufunc) and _is_row(HANDLERS.get(x)))
    return frozenset((*ufuncs, *_ALIKE.split()))


def _is_row(x: Any) -> bool:
    return isinstance(x, Primitive) and x.kind == "elementwise"


_ALIKE = """
    T shape ndim size reshape ravel transpose sum mean max min dot matmul outer concatenate stack power axis keepdims
    pi e inf newaxis zeros ones eye identity arange linspace zeros_like ones_like append extend
"""
_WRITE = {"put", "copyto", "place", "putmask", "fill_diagonal", "put_along_axis", "setitem", "sort", "partition"}
