"""The common base of the frameworks' tables: how an operation is looked up, and how a program is run.

An operation is, in this order: an entry of the framework's table, the framework's own function of the same name, or a
formula of other operations. An operation that is none of these is refused by name, and so is one that is in `refused`.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from typing import Any, ClassVar

from gradcli.arithmetic.devices import CPU
from gradcli.arithmetic.formulas import FORMULAS, MOVES
from gradcli.errors import NotSupported
from gradcli.request.point import Array
from gradcli.tracing.domain import Domain
from gradcli.tracing.primitive import PRIMITIVES

Tensor = Any  # a tensor of the framework
Operation = Callable[..., Tensor]
TensorFunction = Callable[..., Tensor]
Pull = Callable[[Array], list[Array]]
SINGLE = 2.0**31  # ulps of float64 that an operation in float32 loses: four ulps of float32
MATCHED = frozenset({"eigenvectors", "singular_vectors", "qr"})  # signs are arbitrary: numpy's are used, from `like`


class Lowering:
    """One framework as an arithmetic: its operations by the primitive's name, its tensors, and its own derivatives.

    The framework is imported when the first operation, tensor or gradient is requested.
    """

    name: ClassVar[str]
    package: ClassVar[str]  # the name to import
    refused: ClassVar[frozenset[str]] = frozenset()  # operations that would be found, but lack a correct derivative
    foreign: ClassVar[frozenset[str]] = frozenset()  # names that mean something else in the framework
    ulps: ClassVar[Mapping[str, float]] = {}  # lost by operations or their derivatives, if more than usual
    holds: ClassVar[Mapping[str, tuple[Domain, ...]]] = {}  # where operations and their derivatives are correct
    single: ClassVar[frozenset[str]] = frozenset()  # operations that compute in float32, also for float64 tensors

    def namespaces(self) -> Sequence[Any]:
        """Return the modules in which the framework's functions are looked up by the primitive's name."""
        raise NotImplementedError

    def entries(self) -> Mapping[str, Operation]:
        """Return the operations for primitives that have another name or other arguments in the framework."""
        raise NotImplementedError

    def running(self, device: str = CPU) -> AbstractContextManager[Any]:
        """Return a context in which the framework computes in float64 on a device; its settings are restored on exit."""
        raise NotImplementedError

    def tensor(self, x: Array) -> Tensor:
        """Return an array as a tensor of float64 on the context's device, or of booleans if the array is boolean."""
        raise NotImplementedError

    def vjp(self, program: TensorFunction, xs: Sequence[Array]) -> tuple[Array, Pull]:
        """Return the program's value and a function that pulls a cotangent of the value back to the inputs.

        Shapes  all are numpy arrays; each pulled cotangent has the shape of its input.
        """
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
        """Return the framework's operation for a primitive.

        Raises  NotSupported if there is none.
        """
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
    """Return eigenvectors or singular vectors, in the columns, with the signs of numpy's vectors `like`."""
    return vectors * F.reshape(_signs(F, vectors, like), to=(*like.shape[:-2], 1, like.shape[-1]))


def matched_qr(F: Any, found: tuple[Tensor, Tensor], like: Array) -> Tensor:
    """Return Q stacked on top of R, with the signs of numpy's value `like`."""
    q, r = found
    rows, n = like.shape[-2] - like.shape[-1], like.shape[-1]
    turned = _signs(F, q, like[..., :rows, :])
    columns, lines = ((*like.shape[:-2], *shape) for shape in ((1, n), (n, 1)))
    return F.concatenate(q * F.reshape(turned, to=columns), r * F.reshape(turned, to=lines), axis=len(like.shape) - 2)


def _signs(F: Any, vectors: Tensor, like: Array) -> Tensor:
    return F.sign(F.sum(vectors * F.number(like), axis=(len(like.shape) - 2,)))
