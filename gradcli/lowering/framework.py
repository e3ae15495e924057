"""What the tables of the frameworks have in common: where an operation is looked up, and how a program is run.

An operation is, in this order: an entry of the framework's table, the framework's own function of the same name, or a
formula of other operations. What has none of these is refused by name, and so is what the table refuses.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import Any, ClassVar

from gradcli.core.domain import Domain
from gradcli.core.primitive import PRIMITIVES
from gradcli.errors import NotSupported
from gradcli.lowering.formulas import FORMULAS, MOVES
from gradcli.point import Array

Tensor = Any  # of the framework
Operation = Callable[..., Tensor]
TensorFunction = Callable[..., Tensor]
Pull = Callable[[Array], list[Array]]
SINGLE = 2.0**31  # ulps of float64 that an operation in float32 loses: four of its own
MATCHED = frozenset({"eigenvectors", "singular_vectors", "qr"})  # whose signs numpy chose: they take its value, `like`


class Lowering:
    """One framework as an arithmetic: its operations by the primitive's name, its tensors, and its own derivatives.

    The framework is imported when the first operation, tensor or gradient is asked for.
    """

    name: ClassVar[str]
    package: ClassVar[str]  # what is imported
    refused: ClassVar[frozenset[str]] = frozenset()  # operations that would be found, and have no right derivative
    foreign: ClassVar[frozenset[str]] = frozenset()  # names that mean something else in the framework
    ulps: ClassVar[Mapping[str, float]] = {}  # that operations lose, or their derivatives, where it is more than usual
    holds: ClassVar[Mapping[str, tuple[Domain, ...]]] = {}  # where operations, or their derivatives, are right
    single: ClassVar[frozenset[str]] = frozenset()  # operations that compute in float32, whatever they are given

    def namespaces(self) -> Sequence[Any]:
        """Return where the framework's functions are looked up by the primitive's name."""
        raise NotImplementedError

    def entries(self) -> Mapping[str, Operation]:
        """Return what stands for primitives that have another name or other arguments in the framework."""
        raise NotImplementedError

    def running(self) -> AbstractContextManager[Any]:
        """Return the context in which the framework computes in float64 on the processor, and which it leaves as it was."""
        return nullcontext()

    def tensor(self, x: Array) -> Tensor:
        """Return numbers as a tensor of float64, or truth values as one of truth values."""
        raise NotImplementedError

    def vjp(self, program: TensorFunction, xs: Sequence[Array]) -> tuple[Array, Pull]:
        """Return the program's value, and what takes its cotangent to those of the inputs, as numpy arrays."""
        raise NotImplementedError

    def __init__(self) -> None:
        self.found: dict[str, Operation] = {"number": self.tensor}
        self.F: Any = _Operations(self.found)

    @cached_property
    def table(self) -> Mapping[str, Operation]:
        """Every operation that the framework has, by the primitive's name."""
        found, F = self.found, self.F
        for name in (*PRIMITIVES, *MOVES):
            spaces = () if name in self.foreign else self.namespaces()
            own = next((f for space in spaces if callable(f := getattr(space, name, None))), None)
            if name in MOVES or (own is None and name in FORMULAS):
                found[name] = _of(MOVES.get(name) or FORMULAS[name], F)
            elif own is not None:
                found[name] = own
        found.update(self.entries())
        return {name: f for name, f in found.items() if name not in self.refused}

    def operation(self, name: str) -> Operation:
        """Return what stands for a primitive. Raises NotSupported where the framework has nothing."""
        if name not in PRIMITIVES or name not in self.table:
            raise NotSupported(f"{self.name} has no {name}")
        return self.table[name]


class _Operations:
    """The operations of a framework as attributes, for formulas."""

    def __init__(self, found: dict[str, Operation]) -> None:
        self.__dict__ = found


def _of(formula: Operation, F: _Operations) -> Operation:
    return lambda *xs, **params: formula(F, *xs, **params)


def matched(F: Any, vectors: Tensor, like: Array) -> Tensor:
    """Return eigenvectors or singular vectors, in the columns, with the signs that numpy chose."""
    return vectors * F.reshape(_signs(F, vectors, like), to=(*like.shape[:-2], 1, like.shape[-1]))


def matched_qr(F: Any, found: tuple[Tensor, Tensor], like: Array) -> Tensor:
    """Return Q above R, with the signs that numpy chose."""
    q, r = found
    rows, n = like.shape[-2] - like.shape[-1], like.shape[-1]
    turned = _signs(F, q, like[..., :rows, :])
    columns, lines = ((*like.shape[:-2], *shape) for shape in ((1, n), (n, 1)))
    return F.concatenate(q * F.reshape(turned, to=columns), r * F.reshape(turned, to=lines), axis=len(like.shape) - 2)


def _signs(F: Any, vectors: Tensor, like: Array) -> Tensor:
    return F.sign(F.sum(vectors * F.number(like), axis=(len(like.shape) - 2,)))
