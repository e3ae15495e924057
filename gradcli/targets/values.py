"""Read the values of `--at`: numbers, lists, constructors, seeded random draws, and data files."""

import ast
import json
import operator
import re
import warnings
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from gradcli.errors import BadPoint, GradcliError, TooLarge, nearest
from gradcli.request.target_text import folded
from gradcli.targets.draws import BY_SIZE, Sizes, Source
from gradcli.targets.limits import MAX_ENTRIES, Ledger
from gradcli.targets.point_files import data_file, point_file
from gradcli.targets.tokens import Statement, parts

_UNREADABLE = (
    ValueError, OSError, EOFError, KeyError, TypeError, AttributeError, IndexError, RecursionError, SyntaxError, MemoryError,
    OverflowError, NotImplementedError, UserWarning, zipfile.BadZipFile, zlib.error,
)  # fmt: skip


def value(text: str, name: str, seed: int = 0, point: int = 0) -> Any:
    """Return the value that a string such as `0.5` or `randn(3)` describes.

    Raises  BadPoint for a string that cannot be read; TooLarge.
    """
    found = parts(text, ())
    if not found:
        raise BadPoint(f"{name} has no value", do=f"write {name}=0.5")
    return read_value(found[0], Source(seed, name, point))


def read_value(part: Statement, source: Source) -> Any:
    if part.inner:
        raise TooLarge("this value is nested too deeply", where=part.span(0, 1), do="give it as a file: x=@x.npy")
    try:
        tree = ast.parse(part.source, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise BadPoint(
            "this value cannot be read",
            where=part.span(0, len(part.source)),
            do="write a number, a list or randn(3, 4)",
        ) from None
    try:
        return _floats(_Reader(part, source.functions(), source.sizes).read(tree))
    except RecursionError:
        raise TooLarge(
            "this value is nested too deeply", where=part.span(0, 1), do="give it as a file: x=@x.npy"
        ) from None


def _floats(x: Any) -> Any:
    """Return a value in which the numbers of a tuple are floats, as those of a list are."""
    if type(x) is not tuple:
        return x
    return tuple(float(part) if type(part) is int else _floats(part) for part in x)


class _Reader:
    """Reads constant values: arithmetic on numbers, lists, and the known constructors; nothing else."""

    def __init__(self, part: Statement, functions: dict[str, Callable[..., Any]], sizes: Sizes) -> None:
        self.part = part
        self.sizes = sizes
        self.functions = functions
        self.ledger = Ledger()

    def read(self, node: ast.expr) -> Any:
        """Return the value of a node."""
        if isinstance(node, ast.Constant) and type(node.value) in (int, float, str, bool):
            return node.value
        if isinstance(node, ast.Name):
            return self._constant(node)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
            operand = self._number(node.operand)
            return -operand if isinstance(node.op, ast.USub) else operand
        if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
            return self._arithmetic(node)
        if isinstance(node, ast.List | ast.Tuple):
            return self._list(node)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            return self._call(node, node.func.id)
        raise self._error(node, "this is no value", "write a number, a list, a string or randn(3, 4)")

    def _constant(self, node: ast.Name) -> float:
        known = {"pi": np.pi, "e": np.e, "inf": np.inf, "nan": np.nan, **self.sizes}
        if node.id not in known:
            raise self._error(
                node,
                f"unknown value '{node.id}'",
                "values are numbers, lists, strings, pi, e, inf and randn(...), zeros(...)",
            )
        return known[node.id]

    def _number(self, node: ast.expr) -> Any:
        x = self.read(node)
        if isinstance(x, str | bool | list | tuple):
            raise self._error(node, "arithmetic needs numbers", "write the values out")
        return x

    def _arithmetic(self, node: ast.BinOp) -> Any:
        a, b = self._number(node.left), self._number(node.right)
        function = _ARITHMETIC[type(node.op)]
        try:
            self.ledger.admit(function, [a, b], {})
            with np.errstate(all="ignore"):
                return (
                    function(np.float64(a), np.float64(b))
                    if isinstance(node.op, ast.Pow) and np.ndim(a) == np.ndim(b) == 0
                    else function(a, b)
                )
        except GradcliError as error:
            raise self._placed(error, node) from None
        except (ZeroDivisionError, OverflowError, ValueError, MemoryError) as error:
            raise self._error(node, f"this value cannot be computed: {error}", "write the number") from None

    def _placed(self, error: GradcliError, node: ast.AST) -> GradcliError:
        error.where = error.where or self.part.span(
            getattr(node, "col_offset", 0), getattr(node, "end_col_offset", 1) or 1
        )
        return error

    def _list(self, node: ast.List | ast.Tuple) -> Any:
        entries = [self.read(part) for part in node.elts]
        if any(isinstance(x, str) for x in entries):
            return entries
        if isinstance(node, ast.Tuple):
            return tuple(entries)
        try:
            self.ledger.enter(sum(np.size(x) for x in entries))
            return np.array(entries, dtype=float)
        except GradcliError as error:
            raise self._placed(error, node) from None
        except OverflowError:
            raise self._error(
                node, "a number is larger than the largest float64", "write inf, or a smaller number"
            ) from None
        except (ValueError, TypeError):
            raise self._error(
                node, "the rows of this list have different lengths", "make all rows equally long"
            ) from None

    def _call(self, node: ast.Call, name: str) -> Any:
        function = self.functions.get(name)
        if function is None:
            close = nearest(name, self.functions)
            known = "known: " + " ".join(sorted(self.functions))
            raise self._error(
                node.func, f"unknown function '{name}' in a value", f"did you mean '{close}'?" if close else known
            )
        if any(part.arg is None for part in node.keywords) or any(isinstance(part, ast.Starred) for part in node.args):
            raise self._error(node, "* and ** are not part of a value", "write the arguments out")
        args = [self.read(part) for part in node.args]
        kwargs = {str(part.arg): self.read(part.value) for part in node.keywords}
        try:
            self._admit(name, function, args, kwargs)
            return function(*args, **kwargs)
        except GradcliError as error:
            raise self._placed(error, node) from None
        except TypeError:
            raise self._error(
                node, f"{name} cannot take these arguments", _USAGE.get(name, f"write {name} with numbers")
            ) from None
        except (ValueError, IndexError, ArithmeticError, MemoryError) as error:
            raise self._error(
                node, f"{name} cannot be computed: {error}", _USAGE.get(name, f"write {name} with numbers")
            ) from None

    def _admit(self, name: str, function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> None:
        """Refuse an array that would be too large, before it is made."""
        if name in BY_SIZE:
            self.ledger.enter(BY_SIZE[name].entries(*args, **kwargs))
        elif name != "int":
            self.ledger.admit(function, args, kwargs)

    def _error(self, node: ast.AST, what: str, do: str) -> BadPoint:
        start, end = getattr(node, "col_offset", 0), getattr(node, "end_col_offset", 1) or 1
        return BadPoint(what, where=self.part.span(start, end), do=do)


_USAGE = {
    **{name: f"write {each.usage}" for name, each in BY_SIZE.items()},
    "complex": "write complex(re, im) with two arrays of one shape",
    "eye": "write eye(3)", "linspace": "write linspace(0, 1, 5)", "arange": "write arange(5)", "onehot": "write onehot(0, 3)",
    "int": "write int(3)",
}  # fmt: skip
_ARITHMETIC: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv, ast.Pow: operator.pow,
}  # fmt: skip


def from_file(reference: str, name: str) -> Any:
    """Return the array in `@file.npy`, `.npz` (key: the input's name, or `file.npz:key`), `.json` or `.csv`.

    Raises  BadPoint for a file that is missing, of another kind, or unreadable; TooLarge. No message quotes the contents.
    """
    path, key = data_file(reference, name)
    try:
        found = _READERS[path.suffix.lower()](path, key)
    except GradcliError:
        raise
    except _UNREADABLE:
        raise BadPoint(
            f"{path.name} cannot be read as {path.suffix[1:]} data",
            do="write numbers with numpy.save, json.dump or numpy.savetxt",
        ) from None
    return found


def whole_point(reference: str) -> dict[str, Any]:
    """Return the named values in `@point.npz` or `@point.json`; a JSON report of gradcli is read too.

    Raises  BadPoint for a file that is missing or holds no named values; TooLarge.
    """
    path = point_file(reference)
    try:
        if path.suffix.lower() == ".npz":
            with zipfile.ZipFile(path) as archive:
                names = [member.removesuffix(".npy") for member in archive.namelist()]
            return {folded(key): _npz_member(path, key) for key in names}
        document = json.loads(path.read_text())
        at = document["points"][0]["at"] if "points" in document else document.get("at", document)
        return {folded(str(key)): _numeric(path, x) for key, x in at.items()}
    except GradcliError:
        raise
    except _UNREADABLE:
        raise BadPoint(f"{path.name} holds no point", do='write named values: {"x": 0.5, "y": [1, 2]}') from None


def _checked_header(path: Path, stream: Any) -> None:
    """Refuse an .npy stream by its header, before its data is allocated: too many entries, or no real numbers."""
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(stream)
    if int(np.prod(shape, dtype=object)) > MAX_ENTRIES:
        raise TooLarge(f"{path.name} holds more than {MAX_ENTRIES:,} entries", do="use a smaller array")
    if dtype.kind not in "fiub":
        raise BadPoint(f"{path.name} holds something other than real numbers", do="save float64 arrays")


def _npy(path: Path, key: str) -> Any:
    with path.open("rb") as stream:
        _checked_header(path, stream)
        stream.seek(0)
        return _numeric(path, np.load(stream, allow_pickle=False), keep=True)


def _npz(path: Path, key: str) -> Any:
    with zipfile.ZipFile(path) as archive:
        names = [member.removesuffix(".npy") for member in archive.namelist()]
    if key not in names:
        raise BadPoint(
            f"{path.name} has no array '{key}'", do=f"it has: {', '.join(names[:10])}; write @{path.name}:NAME"
        )
    return _npz_member(path, key)


def _npz_member(path: Path, key: str) -> Any:
    with zipfile.ZipFile(path) as archive:
        with archive.open(f"{key}.npy") as stream:
            _checked_header(path, stream)
        with archive.open(f"{key}.npy") as stream:
            return _numeric(path, np.lib.format.read_array(stream, allow_pickle=False), keep=True)


def _json(path: Path, key: str) -> Any:
    document = json.loads(path.read_text())
    return _numeric(path, document[key] if isinstance(document, dict) else document)


def _csv(path: Path, key: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # an empty file is an error, not a warning
        table = np.loadtxt(path, delimiter=",", ndmin=2, dtype=float)
    return table[:, 0] if table.shape[1] == 1 else table


_WHOLE_NUMBERS = re.compile(r"int\(([-\d\s,\[\]]+)\)")  # as the command line and saved points write them
_WORDS = {"nan": np.nan, "inf": np.inf, "-inf": -np.inf}  # as gradcli writes them in JSON


def _numeric(path: Path, x: Any, keep: bool = False) -> Any:
    """Return an array of floats; integers stay integers if the file stores types (`keep`), or writes int(...)."""
    whole = _WHOLE_NUMBERS.fullmatch(x) if isinstance(x, str) else None
    if whole is not None:
        return np.array(json.loads(whole[1]), dtype=np.int64)
    array = np.asarray(_spelled(x) if isinstance(x, str | list) else x)
    if array.dtype.kind not in "fiub":
        raise BadPoint(f"{path.name} holds something other than real numbers", do="use numbers only")
    return array if keep else array.astype(float)


def _spelled(x: Any) -> Any:
    """Return nested lists with the words `nan`, `inf` and `-inf` replaced by numbers."""
    if isinstance(x, list):
        return [_spelled(part) for part in x]
    return _WORDS.get(x, x) if isinstance(x, str) else x


_READERS: dict[str, Callable[[Path, str], Any]] = {".npy": _npy, ".npz": _npz, ".json": _json, ".csv": _csv}
