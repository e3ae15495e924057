"""Dataclasses that are made quickly: of their methods, `__init__` alone is compiled for each class.

The standard decorator compiles up to seven methods for each class, which was half of the time in which gradcli is imported.
What `dataclass` makes here is a dataclass for `fields`, `replace`, `asdict`, and for type checkers.
"""

import dataclasses
from collections.abc import Callable, Sequence
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

_GIVEN = dataclasses.MISSING


class _Factory:
    """What a signature shows in place of a default that is made for each instance."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls: type | None = None, /, *, frozen=False, slots=False, eq=True, repr=True, kw_only=False) -> Any:
        """Make a class a dataclass; the options mean what they mean to `dataclasses.dataclass`."""

        def make(cls: type) -> type:
            own_hash = vars(cls).get("__hash__", _GIVEN)
            may_hash = own_hash is _GIVEN or (own_hash is None and "__eq__" in vars(cls))
            made = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)(cls)
            every = dataclasses.fields(made)
            methods = {"__init__": _make_init(made, every, frozen)}
            if repr:
                methods["__repr__"] = _make_repr([field.name for field in every if field.repr])
            compared = _make_value_getter([field.name for field in every if field.compare])
            if eq:
                methods["__eq__"] = _make_eq(compared)
            for name, method in methods.items():
                if name not in vars(made):
                    method.__qualname__ = f"{made.__qualname__}.{name}"
                    setattr(made, name, method)
            if eq and may_hash:
                made.__hash__ = (lambda self: hash(compared(self))) if frozen else None
            if frozen:
                _freeze(made, frozenset(field.name for field in every), slots)
            return made

        return make if cls is None else make(cls)


def _make_init(cls: type, every: Sequence["dataclasses.Field[Any]"], frozen: bool) -> Any:
    scope: dict[str, Any] = {"_set": object.__setattr__, "_factory": _FACTORY}
    in_order = [*(f for f in every if not f.kw_only), None, *(f for f in every if f.kw_only)]
    parameters, body = ["self"], []
    for field in in_order:
        if field is None:
            parameters += ["*"] if in_order[-1] is not None else []
            continue
        name, default = field.name, f"_of_{field.name}"
        value, is_made = name, field.default_factory is not _GIVEN
        scope[default] = field.default_factory if is_made else field.default
        if field.init:
            is_required = field.default is _GIVEN and not is_made
            parameters.append(name if is_required else f"{name}=_factory" if is_made else f"{name}={default}")
            value = f"{default}() if {name} is _factory else {name}" if is_made else name
        elif is_made:
            value = f"{default}()"
        else:
            continue
        body.append(f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    exec(f"def __init__({', '.join(parameters)}):\n " + "\n ".join(body or ["pass"]), scope)
    init = scope["__init__"]
    init.__annotations__ = {field.name: field.type for field in every if field.init} | {"return": None}
    return init


def _make_value_getter(names: Sequence[str]) -> Callable[[Any], Any]:
    return attrgetter(*names) if names else lambda _: ()


def _make_repr(names: Sequence[str]) -> Any:
    @recursive_repr()
    def __repr__(self: Any) -> str:
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    return __repr__


def _make_eq(compared: Callable[[Any], Any]) -> Any:
    def __eq__(self: Any, other: Any) -> Any:
        return (compared(self),) == (compared(other),) if type(other) is type(self) else NotImplemented

    return __eq__


def _freeze(cls: Any, names: frozenset[str], slots: bool) -> None:
    """Let no field of an instance be set or deleted; one with slots is pickled by its values."""

    def __setattr__(self: Any, name: str, value: Any) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def __delattr__(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    cls.__setattr__, cls.__delattr__ = __setattr__, __delattr__
    if slots:
        cls.__getstate__ = lambda self: [getattr(self, field.name) for field in dataclasses.fields(self)]
        cls.__setstate__ = _set_state


def _set_state(self: Any, state: Sequence[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
