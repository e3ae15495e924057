"""Carry kept calls from child processes to the parent: functions made inside others as code, all else by pickle.

The files lie in a folder that only this user can read, and both ends run the user's program: nothing in them is less
trusted than the program itself.
"""

import functools
import io
import marshal
import pickle
import sys
from pathlib import Path
from types import CellType, CodeType, FunctionType
from typing import Any, BinaryIO

from gradcli.core.closures import UNBOUND, content


class _Pickler(pickle.Pickler):
    """Pickles functions that no module has under their name, such as lambdas and closures."""

    def reducer_override(self, x: Any) -> Any:
        if not isinstance(x, FunctionType) or _is_importable(x):
            return NotImplemented
        cells = tuple(None if (held := content(cell)) is UNBOUND else (held,) for cell in x.__closure__ or ())
        made = marshal.dumps(x.__code__), x.__module__, x.__qualname__, x.__defaults__, x.__kwdefaults__, cells
        return rebuilt, made


def append(file: BinaryIO, what: Any) -> bool:
    """Write one object to the end of a file at once; return whether it can be pickled."""
    buffer = io.BytesIO()
    try:
        _Pickler(buffer, protocol=pickle.HIGHEST_PROTOCOL).dump(what)
    except Exception:  # whatever the user's objects raise
        return False
    file.write(buffer.getvalue())
    file.flush()
    return True


def read(path: Path) -> list[Any]:
    """Return the objects of a file, up to the first that is cut off or cannot be made here."""
    found = []
    with path.open("rb") as file:
        while True:
            try:
                found.append(pickle.load(file))
            except EOFError:
                return found
            except Exception:  # whatever the user's objects raise
                return found


def rebuilt(code: bytes, module: str, name: str, defaults: Any, named: Any, cells: tuple[Any, ...]) -> FunctionType:
    """Return a function made of its code, in the module that has it in this process."""
    made: CodeType = marshal.loads(code)
    scope = sys.modules[module].__dict__
    closure = tuple(CellType() if each is None else CellType(each[0]) for each in cells)
    function = FunctionType(made, scope, made.co_name, defaults, closure or None)
    function.__kwdefaults__, function.__qualname__, function.__module__ = named, name, module
    return function


def _is_importable(function: FunctionType) -> bool:
    module: Any = sys.modules.get(function.__module__ or "")
    try:
        return functools.reduce(getattr, function.__qualname__.split("."), module) is function
    except AttributeError:
        return False
