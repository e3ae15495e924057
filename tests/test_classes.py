"""Our dataclasses are the standard ones: each class is made both ways, and they behave the same."""

import copy
import dataclasses
import inspect
import pickle
from dataclasses import field
from typing import Any

import pytest

from gradcli.classes import dataclass


def both(**options: Any) -> tuple[type, type]:
    made = []
    for decorator in (dataclass, dataclasses.dataclass):

        class Base:
            """What classes below inherit."""

            a: int
            b: list[int] = field(default_factory=list)

        base = decorator(**options)(Base)

        class Row(base):
            """One with every kind of field."""

            c: str = "c"
            hidden: int = field(default=3, repr=False)
            beside: int = field(default=4, compare=False)
            made: list[int] = field(default_factory=lambda: [1], init=False)
            only: int = field(default=5, kw_only=True)

        made.append(decorator(**options)(Row))
    return made[0], made[1]


OPTIONS = [
    {},
    {"slots": True},
    {"frozen": True},
    {"frozen": True, "slots": True},
    {"frozen": True, "slots": True, "eq": False},
    {"frozen": True, "repr": False},
    {"kw_only": True},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_class_behaves_as_the_standard_one(options: dict[str, Any]) -> None:
    ours, standard = both(**options)
    assert str(inspect.signature(ours)) == str(inspect.signature(standard))
    kept = ours.__match_args__, ours.__doc__, hasattr(ours, "__slots__"), ours.__hash__ is None
    assert kept == (
        standard.__match_args__,
        standard.__doc__,
        hasattr(standard, "__slots__"),
        standard.__hash__ is None,
    )
    x, y = ours(a=1), standard(a=1)
    assert dataclasses.asdict(x) == dataclasses.asdict(y)
    assert (x == ours(a=1), x == ours(a=2), x == ours(a=1, beside=9)) == (
        y == standard(a=1), y == standard(a=2), y == standard(a=1, beside=9)
    )  # fmt: skip
    assert (x == y) is False
    assert (repr(x) == object.__repr__(x)) == (repr(y) == object.__repr__(y))
    if "repr" not in options:
        assert repr(x) == repr(y)
    assert x.b == [] and x.b is not ours(a=1).b and x.made == [1]
    assert dataclasses.replace(x, c="d").c == "d" and copy.deepcopy(x).b == []
    with pytest.raises(TypeError):
        ours()


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_only_a_frozen_instance_refuses_what_is_set(options: dict[str, Any]) -> None:
    for kind in both(**options):
        x = kind(a=1)
        if options.get("frozen"):
            with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'a'"):
                x.a = 2
            with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'a'"):
                del x.a
        else:
            x.a = 2
        assert x.a == (1 if options.get("frozen") else 2)


@dataclass(frozen=True, slots=True)
class Point:
    """A point that says where it is."""

    x: float
    y: float = 0.0
    norm: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "norm", abs(self.x) + abs(self.y))

    def __repr__(self) -> str:
        return f"at {self.x}, {self.y}"


def test_what_a_class_defines_itself_is_kept_and_an_instance_is_pickled() -> None:
    p = Point(3.0, -4.0)
    assert (repr(p), p.norm) == ("at 3.0, -4.0", 7.0)
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(p, protocol)) == p
    assert hash(p) == hash(Point(3.0, -4.0)) and {p: 1}[Point(3.0, -4.0)] == 1


def test_an_instance_that_holds_itself_is_shown() -> None:
    @dataclass
    class Node:
        """One that knows others."""

        near: list[Any]

    node = Node([])
    node.near.append(node)
    assert repr(node).endswith("Node(near=[...])")
