"""The product of a plain array with a traced one by the array's own method, `A.dot(x)`, which numpy computes in C.

The method takes a traced operand by `__array__`. What it gets is an array of linear forms, one for each entry: sums and
products with numbers are all that the product needs. The coefficients of the result are those of A, and at its first use
the result becomes one traced product.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

_MOST_COEFFICIENTS = 1_000_000
Multiply = Callable[[Any, Any], Any]


class LinearForm:
    """A number that is a linear function of the entries of a traced array: coefficients by the entry's position.

    As soon as something else than a sum or a product with a number is asked of it, it is the traced number.
    """

    __slots__ = ("coefficients", "operand")
    __array_priority__ = 2000.0

    def __init__(self, operand: "Operand", coefficients: dict[int, float]) -> None:
        self.operand, self.coefficients = operand, coefficients

    def traced(self) -> Any:
        """Return the form as a traced number."""
        return self.operand.product([self])[0]

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, int | float):
            return LinearForm(self.operand, {k: c * other for k, c in self.coefficients.items()})
        return self.traced() * (other.traced() if isinstance(other, LinearForm) else other)

    def __add__(self, other: Any) -> Any:
        if isinstance(other, LinearForm) and other.operand is self.operand:
            found = dict(self.coefficients)
            for k, c in other.coefficients.items():
                found[k] = found.get(k, 0.0) + c
            return LinearForm(self.operand, found)
        if isinstance(other, int) and other == 0:
            return self
        return self.traced() + (other.traced() if isinstance(other, LinearForm) else other)

    __rmul__, __radd__ = __mul__, __add__

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return getattr(ufunc, method)(*map(settle, inputs), **kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return function(*settle(args), **settle(kwargs))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # numpy looks for its protocols, which are not those of a traced value
            raise AttributeError(name)
        return getattr(self.traced(), name)


def _delegating(name: str) -> Callable[..., Any]:
    def method(self: LinearForm, *args: Any) -> Any:
        return getattr(self.traced(), name)(*map(settle, args))

    return method


for _name in (
    "sub", "rsub", "truediv", "rtruediv", "pow", "rpow", "neg", "abs", "pos", "lt", "le", "gt", "ge", "eq", "ne", "bool", "float",
    "hash", "mod", "rmod", "floordiv", "rfloordiv", "matmul", "rmatmul", "format", "round",
):  # fmt: skip
    setattr(LinearForm, f"__{_name}__", _delegating(f"__{_name}__"))


class Operand:
    """A traced array whose entries are linear forms for the time of a product; `multiply` records the product."""

    def __init__(self, x: Any, multiply: Multiply) -> None:
        self.x, self.multiply = x, multiply

    def forms(self) -> "Dotted":
        """Return an array of linear forms in the shape of the traced array."""
        entries = np.empty(self.x.shape, dtype=object)
        flat = entries.reshape(-1)
        for k in range(flat.size):
            flat[k] = LinearForm(self, {k: 1.0})
        made = entries.view(Dotted)
        made.operand = self
        return made

    def product(self, forms: Sequence[LinearForm]) -> Any:
        """Return linear forms as one traced vector: the product with the matrix of their coefficients."""
        matrix = np.zeros((len(forms), int(np.prod(self.x.shape, dtype=int))))
        for row, form in zip(matrix, forms, strict=True):
            for k, c in form.coefficients.items():
                row[k] = c
        return self.multiply(matrix, self.x)


class Dotted(np.ndarray[Any, Any]):
    """The result of `A.dot(x)` in numpy's hands: an array of linear forms that becomes traced when something uses it."""

    __array_priority__ = 2000.0  # above a plain array's: the product gets this class, and the operand
    operand: Operand | None = None

    def __array_finalize__(self, made_from: Any) -> None:
        self.operand = getattr(made_from, "operand", None)

    def traced(self) -> Any:
        """Return the array as a traced one."""
        plain = self.view(np.ndarray)
        return plain if self.operand is None else self.operand.product(plain.reshape(-1).tolist()).reshape(plain.shape)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return getattr(ufunc, method)(*map(settle, inputs), **kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return function(*settle(args), **settle(kwargs))

    def __getitem__(self, index: Any) -> Any:
        return self.traced()[index]

    def __iter__(self) -> Any:
        return iter(self.traced())


for _name in (
    "dot",
    "astype",
    "sum",
    "mean",
    "max",
    "min",
    "tolist",
    "item",
    "copy",
    "clip",
    "cumsum",
    "prod",
    "std",
    "var",
):
    setattr(Dotted, _name, _delegating(_name))


def settle(x: Any) -> Any:
    """Return a value, or a container of values, with linear forms as traced values."""
    if isinstance(x, LinearForm | Dotted):
        return x.traced()
    if isinstance(x, list | tuple) and any(isinstance(part, LinearForm | Dotted | list | tuple) for part in x):
        return type(x)(map(settle, x))
    if isinstance(x, dict):
        return {key: settle(value) for key, value in x.items()}
    return x


def affordable(x: Any) -> bool:
    """Whether the forms of a traced array are few enough; the matrix of a square product is taken for granted."""
    return float(np.prod(x.shape, dtype=float)) ** 2 <= _MOST_COEFFICIENTS
