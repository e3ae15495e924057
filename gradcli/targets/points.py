"""Read points and shapes from the strings of the command line: merge strings into points, draw values."""

import ast
import itertools
import json
import operator
import re
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gradcli.errors import BadOption, BadPoint, GradcliError, Span, TooLarge, closest_name
from gradcli.request.target_text import is_python, normalise_name
from gradcli.targets.draws import BY_SIZE, NO_SIZES, RandomStream, Sizes, Whole
from gradcli.targets.facts import SIZE, length_of, size_names
from gradcli.targets.limits import MAX_ENTRIES, Ledger
from gradcli.targets.loading import NOTEBOOK, load, module_of, public_names, run_user_code
from gradcli.targets.missing import (
    PATH_OF_AN_ENTRY,
    blank_quoted_parts,
    data_file,
    find_file_values,
    has_assignment,
    point_file,
)
from gradcli.targets.tokens import Statement, split_parts
from gradcli.tracing.shapes import shape

SMALL = (5, 3, 4)  # sizes for names without a value: all different, the first the largest, so that matrices are tall
WHOLE = "*"  # the key of a point that Python code supplies as one object
_BETWEEN = re.compile(r"[;\n]|,(?=\s*\w+\s*:)")  # also a comma, if another input follows
_BY = re.compile(r"(?<=\d)\s*[x×]\s*(?=\d)")
_PLUS = re.compile(r"(?<=\w)(?:\s+([+-])\s+|([+-]))(?=\w)")
_PAIR = re.compile(r"\s*(?P<name>\w+)\s*:\s*(?P<sizes>[^;:]*)")
_NAME = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")


def read_points(
    texts: Sequence[str], seed: int = 0, sizes: Sizes = NO_SIZES, separate: bool = False, target: str = ""
) -> list[dict[str, Any]]:
    """Return the points that `--at` strings and NAME=VALUE arguments name, in order.

    The strings are merged into one point. Naming an input again begins the next point, which inherits the other values.
    If `separate`, each string is a whole point, which inherits nothing. Where the `target` is Python code, a bare name is
    a point in its module, and a value may be `file.py:NAME`.

    Raises  BadPoint, TooLarge for values that cannot be read; BadTarget for Python code that cannot be loaded.
    """
    if separate:
        return [_parse_point(text, seed, number, sizes, target) for number, text in enumerate(texts)]
    points: list[dict[str, Any]] = []
    named: set[str] = set()
    for text in texts:
        found = _parse_point(text, seed, max(0, len(points) - 1), sizes, target)
        if points and named & found.keys():
            found = _parse_point(text, seed, len(points), sizes, target)
            points.append({**points[-1]})
            named = set()
        points = points or [{}]
        points[-1] |= found
        named |= found.keys()
    return points


_INNER = re.compile(r"(?:(?<=^)|(?<=[,;\n]))\s*(?P<name>\w+(?:\.\w+|\[\d+\])+)\s*=(?!=)")
_DICT_VALUE = re.compile(r"(?P<name>[^\W\d]\w*)\s*=\s*(?P<dict>\{[^{}]*\})")
_PYTHON_VALUE = re.compile(
    rf"(?:(?<=^)|(?<=[,;\n]))\s*(?P<name>{PATH_OF_AN_ENTRY})\s*=\s*"
    r"(?P<code>(?:[^,;\n@=()\[\]]+\.py|[^\W\d][\w.]*)::?[^\W\d][\w.]*(?:\(\))?)[^\S\n]*(?=[,;\n]|$)"
)


# Read the values of `--at`: numbers, lists, constructors, seeded random draws, and data files.

_UNREADABLE = (
    ValueError, OSError, EOFError, KeyError, TypeError, AttributeError, IndexError, RecursionError, SyntaxError, MemoryError,
    OverflowError, NotImplementedError, UserWarning, zipfile.BadZipFile, zlib.error,
)  # fmt: skip


def parse_value(text: str, name: str, seed: int = 0, point: int = 0) -> Any:
    """Return the value that a string such as `0.5` or `randn(3)` describes.

    Raises  BadPoint for a string that cannot be read; TooLarge.
    """
    found = split_parts(text, ())
    if not found:
        raise BadPoint(f"{name} has no value", do=f"write {name}=0.5")
    return read_value(found[0], RandomStream(seed, name, point))


def read_value(part: Statement, source: RandomStream, file: str = "") -> Any:
    """Return the value that a part of a point describes; `file` is that of a Python target.

    Raises  BadPoint, TooLarge.
    """
    too_deep = TooLarge("this value is nested too deeply", where=part.span(0, 1), do="give it as a file: x=@x.npy")
    if part.inner:
        raise too_deep
    try:
        tree = ast.parse(part.source, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        where, do = part.span(0, len(part.source)), "write a number, a list or randn(3, 4)"
        raise BadPoint("this value cannot be read", where=where, do=do) from None
    try:
        return _floats_in_tuple(_Reader(part, source.functions(), source.sizes, file).read(tree))
    except RecursionError:
        raise too_deep from None


def _floats_in_tuple(x: Any) -> Any:
    """Return a value in which the numbers of a tuple are floats, as those of a list are."""
    if type(x) is not tuple:
        return x
    return tuple(float(part) if type(part) is int else _floats_in_tuple(part) for part in x)


class _Reader:
    """Reads constant values: arithmetic on numbers, lists, and the known constructors; nothing else."""

    def __init__(self, part: Statement, functions: dict[str, Callable[..., Any]], sizes: Sizes, file: str = "") -> None:
        self.part = part
        self.sizes = sizes
        self.file = file
        self.functions = functions
        self.ledger = Ledger()

    def read(self, node: ast.expr) -> Any:
        """Return the value of a node."""
        if isinstance(node, ast.Constant) and type(node.value) in (int, float, str, bool):
            return node.value
        if isinstance(node, ast.Name):
            known = {"pi": np.pi, "e": np.e, "inf": np.inf, "nan": np.nan, **self.sizes}
            if node.id not in known:
                do = "values are numbers, lists, strings, pi, e, inf and randn(...), zeros(...)"
                do += f"; of a Python file: {self.file}:{node.id}" if self.file else ""
                raise self._error_at(node, f"unknown value '{node.id}'", do)
            return known[node.id]
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
            operand = self._read_number(node.operand)
            return -operand if isinstance(node.op, ast.USub) else operand
        if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
            return self._read_arithmetic(node)
        if isinstance(node, ast.List | ast.Tuple):
            return self._read_list(node)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            return self._read_call(node, node.func.id)
        do = "write a number, a list, a string or randn(3, 4)"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            do = self._advise_instead(node.func.attr) or do
        raise self._error_at(node, "this is no value", do)

    def _read_number(self, node: ast.expr) -> Any:
        x = self.read(node)
        if isinstance(x, str | bool | list | tuple):
            raise self._error_at(node, "arithmetic needs numbers", "write the values out")
        return x

    def _read_arithmetic(self, node: ast.BinOp) -> Any:
        a, b = self._read_number(node.left), self._read_number(node.right)
        function = _ARITHMETIC[type(node.op)]
        for part, count in ((node.left, node.right), (node.right, node.left)) if isinstance(node.op, ast.Mult) else ():
            is_count = isinstance(count, ast.Constant) and type(count.value) is int
            if is_count and isinstance(part, ast.List) and len(part.elts) == 1:
                one, n = ast.unparse(part.elts[0]), ast.unparse(count)
                do = f"write full({one}, {n}) for {n} copies, or [{n}*{one}] for a product"
                raise self._error_at(node, "this has two meanings: copies in Python, and a product of an array", do)
        try:
            self.ledger.admit(function, [a, b], {})
            if isinstance(node.op, ast.Pow) and np.ndim(a) == np.ndim(b) == 0:
                a, b = np.float64(a), np.float64(b)
            with np.errstate(all="ignore"):
                return function(a, b)
        except GradcliError as error:
            raise self._with_place(error, node) from None
        except (ZeroDivisionError, OverflowError, ValueError, MemoryError) as error:
            raise self._error_at(node, f"this value cannot be computed: {error}", "write the number") from None

    def _with_place(self, error: GradcliError, node: ast.AST) -> GradcliError:
        error.where = error.where or self._span_of(node)
        return error

    def _read_list(self, node: ast.List | ast.Tuple) -> Any:
        entries = [self.read(part) for part in node.elts]
        if any(isinstance(x, str) for x in entries):
            return entries
        if isinstance(node, ast.Tuple):
            return tuple(entries)
        try:
            self.ledger.enter(sum(np.size(x) for x in entries))
            return np.array(entries, dtype=float)
        except GradcliError as error:
            raise self._with_place(error, node) from None
        except OverflowError:
            says, do = "a number is larger than the largest float64", "write inf, or a smaller number"
            raise self._error_at(node, says, do) from None
        except (ValueError, TypeError):
            says, do = "the rows of this list have different lengths", "make all rows equally long"
            raise self._error_at(node, says, do) from None

    def _read_call(self, node: ast.Call, name: str) -> Any:
        function = self.functions.get(name)
        if function is None:
            close = closest_name(name, self.functions)
            if callable(getattr(np, name, None)):  # a function that exists, and is no misspelling
                do = "write the numbers" + (f", or a value of a Python file: {self.file}:NAME" if self.file else "")
            else:
                do = f"did you mean '{close}'?" if close else "known: " + " ".join(sorted(self.functions))
            raise self._error_at(node.func, f"unknown function '{name}' in a value", self._advise_instead(name) or do)
        if any(part.arg is None for part in node.keywords) or any(isinstance(part, ast.Starred) for part in node.args):
            raise self._error_at(node, "* and ** are not part of a value", "write the arguments out")
        args = [self.read(part) for part in node.args]
        kwargs = {str(part.arg): self.read(part.value) for part in node.keywords}
        do = _USAGE.get(name, f"write {name} with numbers")
        try:
            if name in BY_SIZE:  # before the array is made
                args, kwargs = BY_SIZE[name].read_arguments(args, kwargs), {}
                self.ledger.enter(BY_SIZE[name].entries(*args))
            elif name != "int":
                self.ledger.admit(function, args, kwargs)
            return function(*args, **kwargs)
        except GradcliError as error:
            raise self._with_place(error, node) from None
        except TypeError:
            raise self._error_at(node, f"{name} cannot take these arguments", do) from None
        except (ValueError, IndexError, ArithmeticError, MemoryError) as error:
            raise self._error_at(node, f"{name} cannot be computed: {error}", do) from None

    def _advise_instead(self, name: str) -> str | None:
        """Return what to write for a function of numpy, as `randn` for `np.random.randn`; None where nothing is known."""
        return f"write {name}(...) alone" if name in self.functions else _INSTEAD.get(name)

    def _error_at(self, node: ast.AST, what: str, do: str) -> BadPoint:
        return BadPoint(what, where=self._span_of(node), do=do)

    def _span_of(self, node: ast.AST) -> Span:
        return self.part.span(getattr(node, "col_offset", 0), getattr(node, "end_col_offset", 1) or 1)


_USAGE = {
    **{name: f"write {each.usage}" for name, each in BY_SIZE.items()},
    "complex": "write complex(re, im) with two arrays of one shape",
    "eye": "write eye(3)", "linspace": "write linspace(0, 1, 5)", "arange": "write arange(5)", "onehot": "write onehot(0, 3)",
    "int": "write int(3)",
}  # fmt: skip
_OF_WHOLE_NUMBERS = "whole numbers below k are zipf(k, 3, 4), those of a mask zipf(2, 3, 4); or write int([0, 2, 1])"
_INSTEAD = {  # by the name that numpy and others have for it
    **dict.fromkeys(("array", "asarray", "tensor", "Tensor"), "write the list alone: [1, 2]"),
    **dict.fromkeys(("random", "random_sample"), "write rand(3, 4)"),
    **dict.fromkeys(("normal", "standard_normal", "gauss"), "write randn(3, 4), or 2 + 0.5*randn(3, 4)"),
    **dict.fromkeys(("randint", "integers", "choice", "bernoulli", "binomial"), _OF_WHOLE_NUMBERS),
    **dict.fromkeys(
        ("abs", "absolute", "exp", "square", "lognormal", "exponential", "gamma"),
        "positive numbers are uniform(0.1, 3, 3, 4)",
    ),
    **dict.fromkeys(("tril", "tri"), "a mask of 1 on and below the diagonal is causal(4)"),
}
_ARITHMETIC: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv, ast.Pow: operator.pow,
}  # fmt: skip


def read_array_file(reference: str, name: str) -> Any:
    """Return the array in `@file.npy`, `.npz` (key: the input's name, or `file.npz:key`), `.json` or `.csv`.

    Raises  BadPoint for a file that is missing, of another kind, or unreadable; TooLarge. No message quotes the contents.
    """
    path, key = data_file(reference, name)
    try:
        return _READERS[path.suffix.lower()](path, key)
    except GradcliError:
        raise
    except _UNREADABLE:
        says = f"{path.name} cannot be read as {path.suffix[1:]} data"
        raise BadPoint(says, do="write numbers with numpy.save, json.dump or numpy.savetxt") from None


def read_point_file(reference: str) -> dict[str, Any]:
    """Return the named values in `@point.npz` or `@point.json`; a JSON report of gradcli is read too.

    Raises  BadPoint for a file that is missing or holds no named values; TooLarge.
    """
    path = point_file(reference)
    try:
        if path.suffix.lower() == ".npz":
            with zipfile.ZipFile(path) as archive:
                names = _names_in(archive)
            return {normalise_name(key): _read_npz(path, key) for key in names}
        document = json.loads(path.read_text())
        at = document["points"][0]["at"] if "points" in document else document.get("at", document)
        return {normalise_name(str(key)): _as_numeric_array(path, x) for key, x in at.items()}
    except GradcliError:
        raise
    except _UNREADABLE:
        raise BadPoint(f"{path.name} holds no point", do='write named values: {"x": 0.5, "y": [1, 2]}') from None


def _check_header(path: Path, stream: Any) -> None:
    """Refuse an .npy stream by its header, before its data is allocated: too many entries, or no real numbers."""
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(stream)
    if int(np.prod(shape, dtype=object)) > MAX_ENTRIES:
        raise TooLarge(f"{path.name} holds more than {MAX_ENTRIES:,} entries", do="use a smaller array")
    if dtype.kind not in "fiub":
        raise BadPoint(f"{path.name} holds something other than real numbers", do="save float64 arrays")


def _read_npy(path: Path, key: str) -> Any:
    with path.open("rb") as stream:
        _check_header(path, stream)
        stream.seek(0)
        return _as_numeric_array(path, np.load(stream, allow_pickle=False), keep=True)


def _read_npz(path: Path, key: str) -> Any:
    with zipfile.ZipFile(path) as archive:
        names = _names_in(archive)
        if key not in names:
            do = f"it has: {', '.join(names[:10])}; write @{path.name}:NAME"
            raise BadPoint(f"{path.name} has no array '{key}'", do=do)
        with archive.open(f"{key}.npy") as stream:
            _check_header(path, stream)
        with archive.open(f"{key}.npy") as stream:
            return _as_numeric_array(path, np.lib.format.read_array(stream, allow_pickle=False), keep=True)


def _names_in(archive: zipfile.ZipFile) -> list[str]:
    return [member.removesuffix(".npy") for member in archive.namelist()]


def _read_json(path: Path, key: str) -> Any:
    document = json.loads(path.read_text())
    return _as_numeric_array(path, document[key] if isinstance(document, dict) else document)


def _read_csv(path: Path, key: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # an empty file is an error, not a warning
        table = np.loadtxt(path, delimiter=",", ndmin=2, dtype=float)
    return table[:, 0] if table.shape[1] == 1 else table


_WHOLE_NUMBERS = re.compile(r"int\(([-\d\s,\[\]]+)\)")  # as the command line and saved points write them
_WORDS = {"nan": np.nan, "inf": np.inf, "-inf": -np.inf}  # as gradcli writes them in JSON


def _as_numeric_array(path: Path, x: Any, keep: bool = False) -> Any:
    """Return an array of floats; integers stay integers if the file stores types (`keep`), or writes int(...)."""
    whole = _WHOLE_NUMBERS.fullmatch(x) if isinstance(x, str) else None
    if whole is not None:
        return np.array(json.loads(whole[1]), dtype=np.int64)
    array = np.asarray(_replace_number_words(x) if isinstance(x, str | list) else x)
    if array.dtype.kind not in "fiub":
        raise BadPoint(f"{path.name} holds something other than real numbers", do="use numbers only")
    return array if keep else array.astype(float)


def _replace_number_words(x: Any) -> Any:
    """Return nested lists with the words `nan`, `inf` and `-inf` replaced by numbers."""
    if isinstance(x, list):
        return [_replace_number_words(part) for part in x]
    return _WORDS.get(x, x) if isinstance(x, str) else x


_READERS: dict[str, Callable[[Path, str], Any]] = {
    ".npy": _read_npy, ".npz": _read_npz, ".json": _read_json, ".csv": _read_csv,
}  # fmt: skip


def parse_assignments(
    text: str,
    seed: int = 0,
    point: int = 0,
    sizes: Sizes = NO_SIZES,
    from_python: Callable[[str], Any] | None = None,
    file: str = "",
) -> dict[str, Any]:
    """Return the values named in `x=0.5, W=randn(3,4)`; a name may be a path into an argument, such as `params.A`.

    `from_python` returns what `file.py:DATA` names; without it such a value is refused. `file` is that of the target.

    Raises  BadPoint, with the place, for a value that cannot be read, has no name, or is given twice; TooLarge.
    """

    def read_code(code: str, name: str) -> Any:
        if from_python is None:
            says = f"the value of {name}, {code}, is Python code, which runs for Python functions only"
            raise BadPoint(says, do=f"give the values of an expression as data: {name}=@{name}.npy")
        return from_python(code)

    found: dict[str, Any] = {}
    unquoted = blank_quoted_parts(text)
    taken = []
    in_code = _PYTHON_VALUE.finditer(unquoted)
    dicts = iter(()) if from_python is None else _DICT_VALUE.finditer(text)
    for matches, group, read in (
        (find_file_values(text), "file", read_array_file), (in_code, "code", read_code),
        (dicts, "dict", _parse_literal_dict),
    ):  # fmt: skip
        for match in matches:
            name = normalise_name(match["name"])
            where = Span(text, match.start("name"), len(match["name"]))
            _refuse_second_value(name, found, where)
            try:
                found[name] = read(text[match.start(group) : match.end(group)].strip(), name)
            except GradcliError as error:
                if group == "code":
                    error.where = error.where or Span(text, match.start(group), match.end(group) - match.start(group))
                raise
            taken.append(match.span())
    rest = _fill_spans(text, taken, " ")
    inner = {match.start("name"): match["name"] for match in _INNER.finditer(_fill_spans(unquoted, taken, " "))}
    rest = _fill_spans(rest, [(start, start + len(path)) for start, path in inner.items()], "_")
    name, parts = "", split_parts(rest)
    for k, part in enumerate(parts):
        if part.name is None:
            more = itertools.takewhile(lambda one: one.name is None, parts[k:])
            entries = [one.source.strip() for one in (*parts[max(k - 1, 0) : k], *more)]
            numbers = name and all(re.fullmatch(r"[-+]?[\d.]+(?:[eE][-+]?\d+)?", entry) for entry in entries)
            do = f"a list has brackets: {name}=[{', '.join(entries)}]" if numbers else "write x=0.5, y=[1, 2]"
            raise BadPoint("a point names its values", where=part.span(0, len(part.source)), do=do)
        name = normalise_name(inner.get(part.name.start, part.name.text))
        _refuse_second_value(name, found, Span(text, part.name.start, len(part.name.text)))
        found[name] = read_value(part, RandomStream(seed, name, point, sizes), file)
    return found


def _parse_literal_dict(text: str, name: str) -> Any:
    """Return a dict of literals, for an argument of a Python function that is one. Raises BadPoint."""
    try:
        return {key: _array_if_floats(x) for key, x in ast.literal_eval(text).items()}
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError, AttributeError):
        do = f'write {{"eps": 1e-5, "mode": "train"}}, or its entries one by one: {name}.W=randn(3,2)'
        raise BadPoint(f"the value of {name} is no dict of literals", do=do) from None


def _array_if_floats(x: Any) -> Any:
    """Return a list of numbers that are not all whole as an array; anything else as it is."""
    try:
        made = np.array(x) if isinstance(x, list) else None
    except ValueError:  # its rows have several lengths
        return x
    return made if made is not None and made.dtype.kind == "f" else x


def _refuse_second_value(name: str, found: dict[str, Any], where: Span) -> None:
    if name in found:
        raise BadPoint(f"'{name}' is given twice", where=where, do="leave one out")


def _fill_spans(text: str, spans: list[tuple[int, int]], fill: str) -> str:
    """Return the string with pieces replaced by blanks or another character, so that columns do not shift."""
    for start, end in spans:
        text = text[:start] + fill * (end - start) + text[end:]
    return text


def _parse_point(text: str, seed: int, point: int, sizes: Sizes, target: str) -> dict[str, Any]:
    stripped = text.strip()
    if stripped.startswith("@"):
        return read_point_file(stripped)
    named = is_python(stripped) and not has_assignment(stripped)
    if named or (is_python(target) and _NAME.fullmatch(stripped)):
        found = load(stripped).found if named else _find_in_module(stripped, target)
        if not callable(found):
            return {WHOLE: found}
        with run_user_code(f"{stripped}()", BadPoint):
            return {WHOLE: found()}
    if not stripped:
        raise BadPoint("the point is empty", do='write --at "x=0.5, y=1.2"')
    if not is_python(target):
        return parse_assignments(text, seed, point, sizes)
    file = target.partition(":")[0].strip()
    return parse_assignments(text, seed, point, sizes, _load_argument, "" if file == NOTEBOOK else file)


def _load_argument(text: str) -> Any:
    """Return an object of the user's code as the value of one argument."""
    found = load(text, "value").found
    return Whole(found) if type(found) is int else found


def _find_in_module(name: str, target: str) -> Any:
    """Return what a name refers to in the target's module. Raises BadPoint."""
    module = module_of(target)
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            near = closest_name(name, public_names(module))
            where = target.rpartition(":")[0].rstrip(":")
            do = f"did you mean {near}?" if near else f'name a point there, or write values: --at "{name}=0.5"'
            raise BadPoint(f"{where} has no '{name}'", do=do)
        found = getattr(found, part)
    return found


def parse_shape_options(texts: Iterable[str], sizes: Sizes = NO_SIZES) -> dict[str, tuple[int, ...]]:
    """Return the shapes in `W:3,4` or `W: 3 4; x: 4; lam:`.

    Raises  BadOption for a string that cannot be read, or a size that is neither an integer nor a name in `sizes`.
    """
    found: dict[str, tuple[int, ...]] = {}
    for name, words in split_shapes(texts):
        readable = all(len(word) < 15 and SIZE.fullmatch(word) for word in words)
        if not readable or {*size_names([words])} - {*sizes}:
            says = f"the sizes of {name} are not whole numbers: {' '.join(words)}"
            raise BadOption(says, do="values need numbers: --shapes W:3,4")
        found[name] = tuple(length_of(word, sizes) for word in words)
        if min(found[name], default=0) < 0:
            raise BadOption(f"a size of {name} is negative: {' '.join(words)}", do="give the sizes other numbers")
    return found


def split_shapes(texts: Iterable[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each input and the words of its sizes in `W:3,4`, `W: 3x4` or `W: m n; x: n`. Raises BadOption."""
    for text in texts:
        for part in filter(None, (piece.strip() for piece in _BETWEEN.split(text))):
            match = _PAIR.fullmatch(part)
            if match is None:
                raise BadOption(f"the shape '{part}' cannot be read", do='write --shapes "W: 3 4; x: 4"')
            sizes = _PLUS.sub(r"\1\2", _BY.sub(" ", match["sizes"].strip("()[] "))).replace(",", " ")
            plain = [_NAME.sub(_normalise_match, word) for word in sizes.split()]
            yield normalise_name(match["name"]), tuple(_PLUS.sub(r" \1\2 ", word) for word in plain)


def _normalise_match(found: re.Match[str]) -> str:
    return normalise_name(found[0]) if found[0].isidentifier() else found[0]


def as_input(name: str, x: Any) -> Any:
    """Return a value in the form that an expression takes: a float64 array, or np.float64 for a scalar.

    Raises  BadPoint for a value that is not numeric.
    """
    array = np.asarray(x)
    if array.dtype.kind not in "fiub":
        raise BadPoint(f"{name} is not a number or an array of numbers", do=f"write {name}=0.5 or {name}=[1, 2, 3]")
    array = np.array(array, dtype=np.float64)
    return array[()] if array.ndim == 0 else array


def draw_value(name: str, shape: tuple[int, ...], seed: int, point: int, attempt: int) -> Any:
    """Return a random value; later attempts use other distributions, for functions that are not defined everywhere."""
    size = ", ".join(map(str, shape))
    rest = f", {size}" if size else ""
    kinds = (f"randn({size})", f"uniform(0.1, 0.9{rest})", f"uniform(1.1, 3{rest})")
    # after six attempts with the same distribution for all, inputs get different ones
    shift = 0 if attempt < 6 else sum(map(ord, name)) * (attempt // 3)
    return as_input(name, parse_value(kinds[(attempt + shift) % 3], name, seed, point + 1000 * attempt))


# Named sizes, such as m and n in `W: m n`: read from the shapes of the given values, or set to small numbers.


def numbers_of_sizes(
    texts: Sequence[str], at: Sequence[str], seed: int = 0, fixed: Sizes = NO_SIZES, target: str = ""
) -> Sizes:
    """Return a number for every size that `W: m n; x: n` names, together with the `fixed` ones.

    Raises  BadOption if two values disagree on a size, or a value has another number of axes; BadPoint for points that
            cannot be read.
    """
    dims = dict(split_shapes(texts))
    every = size_names(dims.values())
    names = [n for n in every if n not in fixed]
    if not every:
        return fixed
    small = itertools.chain(SMALL, itertools.count(6))
    found: dict[str, int] = {**dict(zip(names, small, strict=False)), **fixed}
    lengths = list(_lengths_of_axes(dims, read_points(at, seed, found, target=target)))
    found |= {n: k for _, n, k in reversed(lengths) if n in names}
    owners: dict[str, str] = {}
    for owner, name, length in _lengths_of_axes(dims, read_points(at, seed, found, target=target)):
        known = length_of(name, found)
        if length != known:
            other = owners.get(name, "--shapes" if name in found else "its terms")
            says = f"the size {name} is {known} by {other} and {length} by {owner}"
            raise BadOption(says, do="give sizes that differ names that differ, and one point at a time")
        owners.setdefault(name, owner)
    return found


def _lengths_of_axes(
    dims: Mapping[str, Sequence[str]], points: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[str, str, int]]:
    """Yield (input, name of the size, length) for each named axis of each input that has a value."""
    for point in points:
        whole = point.get(WHOLE)
        values = {**(whole if isinstance(whole, dict) else {}), **point}
        for name, words in dims.items():
            if name not in values:
                continue
            lengths = shape(values[name])
            if len(lengths) != len(words):
                says = f"{name} has shape {lengths}, and --shapes says {' '.join(words) or 'a number'}"
                raise BadOption(says, do="write a name or a number for each of its axes")
            yield from ((name, word, n) for word, n in zip(words, lengths, strict=True) if size_names([(word,)]))
