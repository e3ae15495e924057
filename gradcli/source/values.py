"""What `--at` can say: numbers, lists, constructors, seeded random draws, and data files."""

import ast
import json
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from gradcli.errors import BadPoint, GradcliError, Span, TooLarge
from gradcli.source.limits import MAX_ENTRIES, Ledger
from gradcli.source.names import CONSTRUCTORS, nearest
from gradcli.source.tokens import Statement, folded, parts

MAX_FILE_BYTES = 2**30
_FILE_VALUE = re.compile(r"(?:(?<=^)|(?<=,))\s*(?P<name>\w+)\s*=\s*@(?P<file>[^,]+)")


class Source:
    """Random numbers for one input at one point: their own stream, so that adding an input changes no other."""

    def __init__(self, seed: int, name: str, point: int) -> None:
        self.rng = np.random.default_rng([seed, zlib.crc32(name.encode()), point])

    def functions(self) -> dict[str, Callable[..., Any]]:
        """The drawing functions, by the names they have in `--at`."""
        rng = self.rng
        return {
            "randn": lambda *shape: rng.standard_normal(_shape(shape)),
            "rand": lambda *shape: rng.random(_shape(shape)),
            "uniform": lambda low, high, *shape: rng.uniform(low, high, _shape(shape)),
            "spd": lambda n: _spd(rng, int(n)),
        }


def _shape(shape: tuple[Any, ...]) -> tuple[int, ...]:
    parts_ = shape[0] if len(shape) == 1 and isinstance(shape[0], list | tuple) else shape
    return tuple(int(n) for n in parts_)


def _spd(rng: Any, n: int) -> Any:
    """Return a symmetric positive definite matrix with eigenvalues of about one."""
    a = rng.standard_normal((n, n))
    return a @ a.T / n + np.eye(n)


def assignments(text: str, seed: int = 0, point: int = 0) -> dict[str, Any]:
    """Return the values named in `x=0.5, W=randn(3,4)`.

    Raises  BadPoint, with the place; a name given twice in one text is an error.
    """
    found: dict[str, Any] = {}
    for match in _FILE_VALUE.finditer(text):
        found[folded(match["name"])] = from_file(match["file"].strip(), folded(match["name"]))
    for part in parts(_FILE_VALUE.sub(lambda match: " " * len(match.group()), text)):
        if part.name is None:
            raise BadPoint("a point names its values", where=part.span(0, len(part.source)), do="write x=0.5, y=[1, 2]")
        name = folded(part.name.text)
        if name in found:
            raise BadPoint(
                f"'{name}' is given twice", where=Span(text, part.name.start, len(part.name.text)), do="leave one out"
            )
        found[name] = _value(part, Source(seed, name, point))
    return found


def value(text: str, name: str, seed: int = 0, point: int = 0) -> Any:
    """Return the value that one text names."""
    found = parts(text, ())
    if not found:
        raise BadPoint(f"{name} has no value", do=f"write {name}=0.5")
    return _value(found[0], Source(seed, name, point))


def _value(part: Statement, source: Source) -> Any:
    try:
        tree = ast.parse(part.source, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise BadPoint(
            "this value cannot be read",
            where=part.span(0, len(part.source)),
            do="write a number, a list or randn(3, 4)",
        ) from None
    functions: dict[str, Callable[..., Any]] = {**source.functions(), **CONSTRUCTORS, "int": int}
    try:
        return _Reader(part, functions).read(tree)
    except RecursionError:
        raise TooLarge(
            "this value is nested too deeply", where=part.span(0, 1), do="give it as a file: x=@x.npy"
        ) from None


class _Reader:
    """Reads constant values: arithmetic on numbers, lists, and the known constructors; nothing else."""

    def __init__(self, part: Statement, functions: dict[str, Callable[..., Any]]) -> None:
        self.part = part
        self.functions = functions

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
        known = {"pi": np.pi, "e": np.e, "inf": np.inf, "nan": np.nan}
        if node.id not in known:
            raise self._error(
                node,
                f"unknown value '{node.id}'",
                "values are numbers, lists, strings, pi, e, inf and randn(...), zeros(...)",
            )
        return known[node.id]

    def _number(self, node: ast.expr) -> Any:
        x = self.read(node)
        if isinstance(x, str | bool | list):
            raise self._error(node, "arithmetic needs numbers", "write the values out")
        return x

    def _arithmetic(self, node: ast.BinOp) -> Any:
        a, b = self._number(node.left), self._number(node.right)
        if isinstance(node.op, ast.Pow):
            a, b = np.float64(a), np.float64(b)
        try:
            with np.errstate(all="ignore"):
                return _ARITHMETIC[type(node.op)](a, b)
        except (ZeroDivisionError, OverflowError, ValueError) as error:
            raise self._error(node, f"this value cannot be computed: {error}", "write the number") from None

    def _list(self, node: ast.List | ast.Tuple) -> Any:
        entries = [self.read(part) for part in node.elts]
        if any(isinstance(x, str) for x in entries):
            return entries
        try:
            return np.array(entries, dtype=float) if isinstance(node, ast.List) else tuple(entries)
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
        args = [self.read(part) for part in node.args]
        kwargs = {part.arg: self.read(part.value) for part in node.keywords if part.arg}
        try:
            self._admit(name, function, args, kwargs)
            return function(*args, **kwargs)
        except GradcliError as error:
            error.where = error.where or self.part.span(node.col_offset, node.end_col_offset or 0)
            raise
        except (TypeError, ValueError, IndexError, OverflowError, MemoryError) as error:
            raise self._error(
                node, f"{name} cannot be computed: {error}", f"write {name} with whole numbers for sizes"
            ) from None

    def _admit(self, name: str, function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> None:
        if name in ("randn", "rand", "uniform"):
            wanted = _shape(tuple(args[2:] if name == "uniform" else args))
            Ledger().admit(CONSTRUCTORS["zeros"], [list(wanted)], {})
        elif name == "spd":
            Ledger().admit(CONSTRUCTORS["eye"], args, kwargs)
        elif name != "int":
            Ledger().admit(function, args, kwargs)

    def _error(self, node: ast.AST, what: str, do: str) -> BadPoint:
        start, end = getattr(node, "col_offset", 0), getattr(node, "end_col_offset", 1) or 1
        return BadPoint(what, where=self.part.span(start, end), do=do)


_ARITHMETIC: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b, ast.Sub: lambda a, b: a - b, ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b, ast.Pow: lambda a, b: a**b,
}  # fmt: skip


def from_file(reference: str, name: str) -> Any:
    """Return the array in `@file.npy`, `.npz` (key: the input's name, or `file.npz:key`), `.json` or `.csv`.

    Raises  BadPoint; the contents of a file are never part of a message.
    """
    path_text, key = reference.removeprefix("@"), name
    if not Path(path_text).exists() and ":" in path_text:
        path_text, _, key = path_text.rpartition(":")
    path = Path(path_text)
    _regular(path)
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise BadPoint(f"{path.name} is not a kind of file gradcli reads", do="use .npy, .npz, .json or .csv")
    try:
        found = reader(path, key)
    except GradcliError:
        raise
    except (ValueError, OSError, EOFError, KeyError, TypeError, RecursionError, SyntaxError):
        raise BadPoint(
            f"{path.name} cannot be read as {path.suffix[1:]} data",
            do="write numbers with numpy.save, json.dump or numpy.savetxt",
        ) from None
    return found


def whole_point(reference: str) -> dict[str, Any]:
    """Return the named values in `@point.npz` or `@point.json` (a gradcli report serves too)."""
    path = Path(reference.removeprefix("@"))
    _regular(path)
    try:
        if path.suffix.lower() == ".npz":
            with np.load(path, allow_pickle=False) as data:
                return {key: _npz_member(path, key) for key in data.files}
        if path.suffix.lower() == ".json":
            document = json.loads(path.read_text())
            at = document["points"][0]["at"] if "points" in document else document.get("at", document)
            return {str(key): _numeric(path, x) for key, x in at.items()}
    except GradcliError:
        raise
    except (ValueError, OSError, KeyError, TypeError, AttributeError, IndexError, RecursionError, EOFError):
        raise BadPoint(f"{path.name} holds no point", do='write named values: {"x": 0.5, "y": [1, 2]}') from None
    raise BadPoint(f"{path.name} holds no point", do="use .npz or .json for a whole point, x=@file.npy for one input")


def _regular(path: Path) -> None:
    if not path.exists():
        raise BadPoint(f"there is no file {path}", do="check the path")
    if not path.is_file():
        raise BadPoint(f"{path} is not a regular file", do="give a data file")
    if path.stat().st_size > MAX_FILE_BYTES:
        raise TooLarge(f"{path.name} is larger than {MAX_FILE_BYTES:,} bytes", do="use a smaller file")


def _checked_header(path: Path, stream: Any) -> None:
    """Refuse an .npy stream whose header asks for too much, before its data is allocated."""
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(stream)
    if int(np.prod(shape, dtype=object)) > MAX_ENTRIES:
        raise TooLarge(f"{path.name} holds more than {MAX_ENTRIES:,} entries", do="use a smaller array")
    if dtype.kind not in "fiub":
        raise BadPoint(f"{path.name} holds no real numbers (dtype {dtype})", do="save float64 arrays")


def _npy(path: Path, key: str) -> Any:
    with path.open("rb") as stream:
        _checked_header(path, stream)
    return _numeric(path, np.load(path, allow_pickle=False))


def _npz(path: Path, key: str) -> Any:
    with np.load(path, allow_pickle=False) as data:
        names = list(data.files)
    if key not in names:
        raise BadPoint(
            f"{path.name} has no array '{key}'", do=f"it has: {', '.join(names[:10])}; write @{path.name}:NAME"
        )
    return _npz_member(path, key)


def _npz_member(path: Path, key: str) -> Any:
    import zipfile

    with zipfile.ZipFile(path) as archive, archive.open(f"{key}.npy") as stream:
        _checked_header(path, stream)
    with np.load(path, allow_pickle=False) as data:
        return _numeric(path, data[key])


def _json(path: Path, key: str) -> Any:
    document = json.loads(path.read_text())
    return _numeric(path, document[key] if isinstance(document, dict) else document)


def _csv(path: Path, key: str) -> Any:
    table = np.loadtxt(path, delimiter=",", ndmin=2, dtype=float)
    return table[:, 0] if table.shape[1] == 1 else table


def _numeric(path: Path, x: Any) -> Any:
    if isinstance(x, str):
        return {"nan": np.nan, "inf": np.inf, "-inf": -np.inf}[x]
    array = np.asarray(x)
    if array.dtype.kind not in "fiub":
        raise BadPoint(f"{path.name} holds something other than real numbers", do="use numbers only")
    return array.astype(float)


_READERS: dict[str, Callable[[Path, str], Any]] = {".npy": _npy, ".npz": _npz, ".json": _json, ".csv": _csv}
