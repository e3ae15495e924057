"""Watch backward passes that a program calls by itself: those of layers, of pairs of functions with a cache, and of networks.

An object is copied before its forward pass, if the backward pass that follows may be one that is kept. By the standard
library alone, as it runs inside the user's program.
"""

import ast
import contextlib
import copy
import functools
import inspect
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import field
from types import FunctionType, ModuleType
from typing import Any

from gradcli.classes import dataclass
from gradcli.project.capture.recorder import (
    LIBRARIES,
    OVERHEAD,
    GradientPair,
    Kept,
    RecordedCalls,
    Recorder,
    State,
    capture_state,
    copy_arrays,
    count_bytes,
    find_caller,
    reference_to,
)
from gradcli.project.discovery.bodies import is_joint_hand_gradient, may_return_gradient
from gradcli.request.target_text import GRADIENT_METHODS, LOSSES, PASSES, backward_names, output_of_pass
from gradcli.tracing.provenance import source_tree
from gradcli.words import DerivativeKind

DECORATOR = "__gradcli_watch__"  # the name by which a script hands over its classes and functions
CACHE = "<the cache>"  # stands for it among the arguments of a backward function
_MOST_OPEN = 64  # forward passes whose backward passes are waited for
_MOST_EARLIER = 3  # open forward passes that are tried where the last one does not fit
_UNKNOWN = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS | inspect.CO_GENERATOR | inspect.CO_COROUTINE  # flags of code
_MOST_VALUES = 10_000  # that are looked at in an object before it is copied
Replace = Callable[[Any, str, Any, Any], None]  # of a holder, the name there, what it is, and what replaces it


@dataclass(frozen=True, slots=True)
class LayerCall:
    """A call before it was made: the object as it was (None for a function), the arguments by name, and the random states.

    The states are those of Python, of numpy, and of the generators of the module and among the arguments. `state` is what a
    function alone reads besides.
    """

    held: Any
    arguments: dict[str, Any]
    states: tuple[Any, Any, list[tuple[Any, Any]]]
    state: State = field(default_factory=State)


@dataclass(slots=True)
class _Open:
    """A forward pass whose backward pass is waited for: what gives the object or the cache by which this is known, and the value.

    `earlier` are forward passes of the same object that are open still: this one may have been an evaluation between.
    """

    known_by: Callable[[], Any]
    call: LayerCall
    value: Any
    earlier: tuple[LayerCall, ...] = ()


class _Watch:
    """One backward pass: its record, how its calls are checked, and the forward passes that are open."""

    def __init__(self, recorded: RecordedCalls, pair: GradientPair) -> None:
        self.recorder, self.recorded, self.pair = recorded.recorder, recorded, pair
        recorded.none_because = "it raised, or no forward pass was seen whose output has the shape of what it got"
        self.drawn = recorded.drawn((), seeks_largest=False)
        self.active: set[int] = set()  # objects with a call under way: a method may call that of its base class
        self.opened: dict[int, list[_Open | None]] = {}  # None for what is not kept
        self._closed: set[int] = set()  # what has had a backward pass since its last forward pass
        self._in_a_row, self._most_in_a_row = 0, 1  # backward passes without a forward pass between them

    def is_far(self, key: int) -> bool:
        """Whether a forward pass need not be noted: no backward pass soon is kept, and none of this object is waited for."""
        drawn = self.drawn
        if drawn is None or not drawn.seen or key in self.opened:
            return False
        self._in_a_row = 0
        return not drawn.seen < drawn.following <= drawn.seen + self._most_in_a_row

    def copy_call(self, held: Any, method: Any, args: tuple[Any, ...], named: dict[str, Any]) -> LayerCall | None:
        """Return the call of a forward pass that begins, with copies, if its backward pass may be kept."""
        self._in_a_row = 0
        if self.drawn is None or not self.drawn.is_near(self._most_in_a_row):
            return None
        with self.recorded.without_harm():
            first = () if held is None else (held,)
            arguments = dict([*inspect.signature(method).bind(*first, *args, **named).arguments.items()][len(first) :])
            if (odd := _class_with_own_new((held, arguments))) is not None:
                self.recorded.unclear.add(f"a copy of {odd} may be the same object: calls are counted alone")
                return None
            if self.recorder.room.holds(_bytes_of_arrays((held, arguments))):
                own, given = copy.deepcopy((held, arguments))
                alone = self.pair.kind == "value-and-grad" and held is None
                state = capture_state((method,)) if alone else State()
                return LayerCall(own, given, _random_states(method, given), state)
            self.recorded.not_kept += 1
        return None

    def expect_backward(self, known_by: Any, call: LayerCall | None, value: Any) -> None:
        """Wait for the backward pass of a forward pass that has ended."""
        key = id(known_by)
        if call is None and key not in self.opened:
            return
        if key in self._closed:
            self._closed.discard(key)
            self.opened.pop(key, None)
        stack = self.opened.get(key)
        if stack is None:
            self.opened[key] = stack = []
        stack.append(None if call is None else _Open(reference_to(known_by, known_by), call, copy_arrays(value)))
        if len(stack) > _MOST_OPEN:
            del stack[0]
        if len(self.opened) > _MOST_OPEN:
            del self.opened[next(iter(self.opened))]

    def note_start(self, role: str, held: Any, plain: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Note a call that begins, and return what `note_end` needs."""
        if role != "backward":
            return self.copy_call(held, plain, args, named)
        try:
            opened = self.take_forward(held, (*args, *named.values()))
            return None if opened is None else (opened, copy_arrays(args), copy_arrays(named), copy_held_arrays(held))
        except Exception as error:  # of the user's objects
            self.recorded.unclear.add(f"a call could not be recorded: {type(error).__name__}")
            return None

    def note_end(self, role: str, held: Any, before: Any, y: Any) -> None:
        """Note a call that has ended."""
        try:
            if role == "forward":
                self.expect_backward(held, before, output_of_pass(held, y))
            elif role == "backward":
                opened, given, named, arrays = before or (None, (), {}, {})
                effects: Any = None if opened is None else (y, arrays, copy_held_arrays(held))
                self.keep_backward(opened, given, named, effects)
            elif self.pair.kind != "value-and-grad" or _is_value_and_gradient(y, held, before):
                self.keep_backward(None if before is None else _Open(lambda: held, before, None), (), {}, (y, {}, {}))
        except Exception as error:  # of the user's objects
            self.recorded.unclear.add(f"a call could not be recorded: {type(error).__name__}")

    def take_forward(self, known_by: Any, cotangents: tuple[Any, ...] = ()) -> _Open | None:
        """Return the last forward pass that is open, if it is kept and has the shapes of what its backward pass gets."""
        key = id(known_by)
        stack = self.opened.get(key)
        if not stack:
            return None
        opened = stack.pop()
        if stack:
            self._closed.add(key)
        else:
            del self.opened[key]
        if opened is None or opened.known_by() is not known_by:
            return None
        opened.earlier = tuple(other.call for other in stack if other is not None)[-_MOST_EARLIER:]
        shapes = [_shape_or_empty(x) for x in cotangents]
        if not shapes or _shape_or_empty(opened.value) in shapes:
            return opened
        # the backward pass of a loss may take the arguments again
        taken = [*map(_shape_or_empty, opened.call.arguments.values())]
        return opened if len(taken) > 1 and all(each in taken for each in shapes) else None

    def keep_backward(
        self, opened: _Open | None, cotangents: tuple[Any, ...], named: dict[str, Any], found: Any
    ) -> None:
        """Count a backward pass, and keep it if it is drawn and its forward pass is known.

        `found` is what it returned, and the arrays of the object before and after it.
        """
        number = next(self.recorded.numbers)
        self._in_a_row += 1
        if self._in_a_row > self._most_in_a_row:
            self._most_in_a_row = min(_MOST_OPEN, self._in_a_row)
        places = () if self.drawn is None else self.drawn.places(0.0)
        if not places or opened is None:
            return
        with self.recorded.without_harm():
            call, returned = opened.call, copy_arrays(found)
            kept = Kept(self.pair, number, (call, *opened.earlier), named, returned, opened.value, at=find_caller())
            kept.cotangents, kept.state = cotangents, call.state
            arrays = _bytes_of_arrays((call.held, call.arguments, found, cotangents))
            kept.size = OVERHEAD + arrays + kept.state.size
            self.recorded.keep((), places, kept)


class Layers:
    """Watches the backward passes of the modules that a program imports, and of the script itself."""

    def __init__(self, recorder: Recorder, replace: Replace) -> None:
        self._recorder, self._replace = recorder, replace
        self._watches: dict[tuple[int, tuple[str, str]], tuple[type, _Watch | None]] = {}  # a class may not be hashable

    def look_at_module(self, module: ModuleType) -> None:
        """Watch what a module defines."""
        for name, x in [*vars(module).items()]:
            kind = type(x)  # isinstance would ask objects that warn when they are used for their class
            if (kind is FunctionType or issubclass(kind, type)) and x.__module__ == module.__name__:
                if issubclass(kind, type):
                    self._watch_class(x)
                elif any(word in name for word in ("backward", "bwd", "bprop")):
                    self._watch_pair_with_cache(name, module)
                elif may_return_gradient(x) and (tree := source_tree(x)) is not None:
                    node = tree.body[0]
                    if isinstance(node, ast.FunctionDef) and is_joint_hand_gradient(node):
                        self._watch_value_and_gradient(name, module)

    def look_at_script(self, tree: ast.Module, scope: dict[str, Any]) -> None:
        """Let a script hand over its classes, and its pairs of passes, as soon as they are defined."""
        functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
        pairs = [(functions[a], functions[b]) for a in functions for b in backward_names(a) if b in functions]
        handed: list[Any] = [max(pair, key=lambda node: node.lineno) for pair in pairs]
        handed += [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
        handed += [node for node in functions.values() if node not in handed and is_joint_hand_gradient(node)]
        for node in handed:
            call = ast.Call(ast.Name(DECORATOR, ast.Load()), [ast.Constant(node.name)], [])
            node.decorator_list.insert(0, ast.fix_missing_locations(ast.copy_location(call, node)))
            scope[DECORATOR] = self._decorator_for_script

    def _decorator_for_script(self, name: str) -> Callable[[Any], Any]:
        """Return the decorator of what a script defines under a name."""

        def handed_over(x: Any) -> Any:
            module = sys.modules["__main__"]
            if isinstance(x, type):
                self._watch_class(x)
            elif isinstance(x, FunctionType):
                setattr(module, name, x)
                self._watch_pair_with_cache(name, module)
                if getattr(module, name) is x and may_return_gradient(x):
                    self._watch_value_and_gradient(name, module)
                return getattr(module, name)
            return x

        return handed_over

    def _watch_class(self, kind: type) -> None:
        # a class may take no other methods, or have no signatures
        with contextlib.suppress(AttributeError, TypeError, ValueError):
            if any(base.__module__.partition(".")[0] in LIBRARIES for base in kind.__mro__):
                return  # which have passes of their own, and modes for them
            for names in PASSES:
                if all(_is_method(kind, name) for name in names):
                    self._replace_own_method(kind, names, "forward")
                    self._replace_own_method(kind, names, "backward")
            loss = next((name for name in LOSSES if _is_method(kind, name)), None)
            if loss is None:
                return
            needed = _required_arguments(kind, loss)
            gradient = next((name for name in GRADIENT_METHODS if _is_method(kind, name)), None)
            if gradient is None or needed <= _required_arguments(kind, gradient):  # else it reads what the loss left
                self._replace_own_method(kind, (loss, gradient or loss), "alone")

    def _replace_own_method(self, kind: type, names: tuple[str, str], role: str) -> None:
        """Replace the method with this role, one of two, if the class itself defines it."""
        name = names[0] if role == "forward" else names[1]
        own = vars(kind).get(name)
        if isinstance(own, FunctionType) and not hasattr(own, "_gradcli"):
            call: Any = functools.wraps(own)(self._make_watched_method(names, role, own))
            call._gradcli = True
            self._replace(kind, name, own, call)

    def _watch_for_class(self, kind: type, names: tuple[str, str]) -> _Watch | None:
        """Return what watches the second of two methods of a class; None if the report is not about it."""
        key = id(kind), names
        if key not in self._watches:
            of, gradient = (inspect.unwrap(getattr(kind, name)) for name in names)
            apart: DerivativeKind = "grad" if names[0] in LOSSES else "backward"
            watch = self._make_watch(of, gradient, "value-and-grad" if names[0] == names[1] else apart)
            self._watches[key] = kind, watch
        return self._watches[key][1]

    def _make_watch(self, function: Any, gradient: Any, kind: DerivativeKind) -> _Watch | None:
        name = function.__qualname__.replace("<locals>.", "")
        recorded = self._recorder.recorded(gradient, kind, None if function is gradient else name)
        pair = GradientPair(kind, function, gradient, "layer")
        return None if recorded is None else _Watch(recorded, pair)

    def _make_watched_method(self, names: tuple[str, str], role: str, plain: Callable[..., Any]) -> Callable[..., Any]:
        """Return a method that is noted, but for objects that are not watched, and for calls within its own.

        It is one frame more, and raises what the method raises alone.
        """
        known: dict[int, _Watch | None] = {}
        recorder, of_class = self._recorder, self._watch_for_class

        def watched_method(held: Any, /, *args: Any, **named: Any) -> Any:
            kind = type(held)
            watch = known[id(kind)] if id(kind) in known else known.setdefault(id(kind), of_class(kind, names))
            if watch is None or not recorder.is_on:
                return plain(held, *args, **named)
            active, key = watch.active, id(held)
            if key in active or (role == "forward" and watch.is_far(key)):
                return plain(held, *args, **named)
            active.add(key)
            try:
                if role == "backward" and key not in watch.opened:
                    y = plain(held, *args, **named)
                    watch.keep_backward(None, (), {}, None)
                    return y
                before = watch.note_start(role, held, plain, args, named)
                y = plain(held, *args, **named)
                watch.note_end(role, held, before, y)
                return y
            finally:
                active.discard(key)

        return watched_method

    def _watch_value_and_gradient(self, name: str, module: ModuleType) -> None:
        """Watch a function that returns its value and its gradient; what scipy calls is watched where that is given to it."""
        plain = vars(module)[name]
        if plain.__code__.co_flags & _UNKNOWN:
            return
        watch = None if hasattr(plain, "_gradcli") else self._make_watch(plain, plain, "value-and-grad")
        if watch is None:
            return

        @functools.wraps(plain)
        def watched_both(*args: Any, **named: Any) -> Any:
            by = sys._getframe(1).f_globals.get("__name__", "").partition(".")[0]
            if not watch.recorder.is_on or by in ("scipy", "gradcli"):
                return plain(*args, **named)
            before = watch.copy_call(None, plain, args, named)
            y = plain(*args, **named)
            watch.note_end("alone", None, before, y)
            return y

        watched_both._gradcli = True  # type: ignore[attr-defined]
        self._replace(module, name, plain, watched_both)

    def _watch_pair_with_cache(self, name: str, module: ModuleType) -> None:
        """Watch a forward and a backward function with a cache, of which the module has defined one after the other."""
        held = vars(module)
        forward_name = next((other for other in held if name in backward_names(other)), name)
        back_name = next((other for other in backward_names(forward_name) if other in held), "")
        forward, back = held.get(forward_name), held.get(back_name)
        if not all(isinstance(f, FunctionType) and not hasattr(f, "_gradcli") for f in (forward, back)):
            return
        assert isinstance(forward, FunctionType) and isinstance(back, FunctionType)
        if not any(p.kind is not p.VAR_POSITIONAL for p in inspect.signature(back).parameters.values()):
            return  # which argument is the cache is not known
        watch = self._make_watch(forward, back, "backward")
        if watch is None:
            return

        @functools.wraps(forward)
        def watched_forward(*args: Any, **named: Any) -> Any:
            call = watch.note_start("forward", None, forward, args, named) if watch.recorder.is_on else None
            y = forward(*args, **named)
            if call is not None and isinstance(y, tuple):
                with watch.recorded.without_harm():
                    watch.expect_backward(y[-1], call, y[:-1])
            return y

        @functools.wraps(back)
        def watched_backward(*args: Any, **named: Any) -> Any:
            opened: _Open | None = None
            given: tuple[Any, ...] = ()
            more: dict[str, Any] = {}
            with watch.recorded.without_harm():
                cache = next((x for x in (*args, *named.values()) if id(x) in watch.opened), None)
                opened = None if cache is None else watch.take_forward(cache)
                if opened is not None:
                    given = tuple(CACHE if x is cache else copy_arrays(x) for x in args)
                    more = {name: CACHE if x is cache else copy_arrays(x) for name, x in named.items()}
            y = back(*args, **named)
            if watch.recorder.is_on:
                watch.keep_backward(opened, given, more, (y, {}, {}))
            return y

        for own, before, watched in ((forward_name, forward, watched_forward), (back_name, back, watched_backward)):
            watched._gradcli = True  # type: ignore[attr-defined]
            self._replace(module, own, before, watched)


def _is_method(kind: type, name: str) -> bool:
    return isinstance(inspect.getattr_static(kind, name, None), FunctionType)


def copy_held_arrays(held: Any) -> dict[str, Any]:
    """Return copies of the arrays that an object holds, also in dictionaries and lists."""
    found: dict[str, Any] = {}
    for name, x in getattr(held, "__dict__", {}).items():
        parts = {f"{name}.{key}": part for key, part in (x if isinstance(x, dict) else {}).items()}
        parts |= {f"{name}[{k}]": part for k, part in enumerate(x if isinstance(x, list | tuple) else ())}
        found |= {path: copy_arrays(part) for path, part in {name: x, **parts}.items() if hasattr(part, "shape")}
    return found


def _is_value_and_gradient(y: Any, held: Any, call: LayerCall | None) -> bool:
    """Whether a call returned a gradient beside its value: a dictionary of arrays, of a function also an argument's shape."""
    if not isinstance(y, tuple) or len(y) < 2 or any(x is None for x in y):
        return False
    if held is not None:
        return len(y) == 2 and isinstance(y[1], dict) and all(hasattr(x, "shape") for x in y[1].values())
    if call is None:
        return True  # it is counted alone
    value_last = len(y) == 2 and _shape_or_empty(y[1]) == () and not isinstance(y[1], dict | list | tuple)
    gradients = y[:1] if value_last else y[1:]
    if any(isinstance(x, dict) for x in gradients):
        return True
    parts = [part for x in gradients for part in (x if isinstance(x, tuple | list) else (x,))]
    shapes = [_shape_or_empty(x) for x in call.arguments.values() if not isinstance(x, dict)]
    return any(_shape_or_empty(part) in shapes for part in parts)


def _required_arguments(kind: type, name: str) -> set[str]:
    """Return the arguments that a method needs."""
    rows = [*inspect.signature(getattr(kind, name)).parameters.values()][1:]
    return {p.name for p in rows if p.default is p.empty and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}


def _random_states(function: Any, arguments: dict[str, Any]) -> tuple[Any, Any, list[tuple[Any, Any]]]:
    np = sys.modules.get("numpy")
    if np is None:
        return random.getstate(), None, []
    plain = inspect.unwrap(function)
    module, names = getattr(plain, "__globals__", {}), getattr(plain, "__code__", None)
    read = [] if names is None else [module.get(name) for name in names.co_names]
    found = {id(x): x for x in (*module.values(), *_walk_values((read, arguments)))}.values()
    generators = [(x, x.bit_generator.state) for x in found if isinstance(x, np.random.Generator)]
    generators += [(x, x.get_state(legacy=False)) for x in found if isinstance(x, np.random.RandomState)]
    return random.getstate(), np.random.get_state(), generators


def _shape_or_empty(x: Any) -> Any:
    try:
        return getattr(x, "shape", ())
    except Exception:  # whatever the attributes of the user's object raise
        return ()


def _walk_values(x: Any) -> Iterator[Any]:
    """Yield a value and all that it holds, each once, up to a number of them."""
    seen: set[int] = set()
    waiting = [x]
    while waiting and len(seen) < _MOST_VALUES:
        part = waiting.pop()
        if id(part) in seen or isinstance(part, type | ModuleType | FunctionType):
            continue
        seen.add(id(part))
        yield part
        if isinstance(part, list | tuple):
            waiting.extend(part)
        elif isinstance(part, dict) or type(part).__dictoffset__:
            waiting.extend((part if isinstance(part, dict) else vars(part)).values())


def _class_with_own_new(x: Any) -> str | None:
    """Return the class of an object inside that makes its objects by a `__new__` of its own: a copy may be the object itself."""
    own = (type(part) for part in _walk_values(x) if not isinstance(part, tuple))
    return next((kind.__name__ for kind in own if isinstance(kind.__new__, FunctionType)), None)


def _bytes_of_arrays(x: Any) -> int:
    """Return the bytes of the arrays that a value holds."""
    return sum(count_bytes(part) for part in _walk_values(x) if not isinstance(part, dict | list | tuple))
