"""What a function holds: the values in its closure, and the code of the functions inside it."""

from collections.abc import Iterator
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any

UNBOUND: Any = type("Unbound", (), {"__repr__": lambda self: "unbound"})()


def content(cell: CellType) -> Any:
    """Return the value in a cell of a closure; UNBOUND if its name has no value yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return UNBOUND


def closure(function: FunctionType) -> dict[str, Any]:
    """Return the names of a function's closure that have a value, with their values."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    return {name: x for name, cell in cells if (x := content(cell)) is not UNBOUND}


def codes(code: CodeType) -> Iterator[CodeType]:
    """Yield a code object and those of the functions inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes(constant)


def python_code(x: Any) -> Any:
    """Return the function of Python inside a bound method, or inside a function that numba compiles; anything else as it is."""
    inner = x.__func__ if isinstance(x, MethodType) else getattr(x, "__dict__", {}).get("py_func")
    return inner if isinstance(inner, FunctionType) else x
