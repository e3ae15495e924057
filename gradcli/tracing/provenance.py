"""Positions: which piece of the user's code is running, so that a recorded line can be traced back to it.

An expression sets the position while it runs. For Python code, a position is the innermost frame of user code, stored as
`(code, instruction)`. It is converted to a file, a line and a column only when it is shown.
"""

import ast
import itertools
import linecache
import os
import sys
from functools import cache, lru_cache
from pathlib import Path
from types import CodeType, TracebackType
from typing import Any

from gradcli.errors import Place, Span

_OURS = str(Path(__file__).resolve().parents[1]) + os.sep
_PREFIXES = (sys.prefix, sys.base_prefix)
_INSTALLED = tuple({prefix + os.sep for name in _PREFIXES for prefix in (name, str(Path(name).resolve()))})
_MOST_WRITTEN = 10
_MOST_PLACES = 4096  # positions and files that are remembered
_USERS: dict[str, bool] = {}
known_as_users = _USERS.get  # for callers that ask often: true of a file that is known to be the user's
_OWN: set[str] = set()


def source_tree(function: Any) -> ast.Module | None:
    """Return the syntax tree of the source of a function; None where there is no source, or it is no whole statement."""
    import inspect
    import textwrap

    try:
        return ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return None


class Here:
    """The position in an expression that is running; the expression sets it, and a tape reads it."""

    __slots__ = ("position",)

    def __init__(self) -> None:
        self.position: Any = None


HERE = Here()
WRITTEN: list[Any] = []  # positions where traced values were converted to text since the last recording began


def note_text_conversion() -> None:
    """Record that a traced value is converted to text here; a number read back from the text is no longer traced."""
    if len(WRITTEN) < _MOST_WRITTEN:
        WRITTEN.append(current_position())


def treat_folder_as_users(folder: str) -> None:
    """Treat the code in a folder as the user's, even if it is installed, because the user named it as the target."""
    resolved = str(Path(folder).resolve()) + os.sep
    if resolved not in _OWN:
        _OWN.add(resolved)
        _USERS.clear()


def is_users_file(file: str) -> bool:
    """Return whether the code of a file is the user's: not part of gradcli, of Python or of an installed package."""
    known = _USERS.get(file)
    if known is None:
        known = _USERS[file] = _decide_users_file(file)
    return known


def is_gradcli_file(file: str) -> bool:
    """Return whether a file is part of gradcli."""
    return file.startswith(_OURS)


def _decide_users_file(file: str) -> bool:
    if file.startswith("<"):
        return not file.startswith("<frozen")
    if file.startswith(_OURS):
        return False
    installed = file.startswith(_INSTALLED) or "site-packages" in file
    if installed and not _OWN:
        return False
    resolved = _resolve_file(file, installed)
    if resolved.startswith(_OURS):
        return False
    if not installed and not resolved.startswith(_INSTALLED) and "site-packages" not in resolved:
        return True
    return any(resolved.startswith(folder) and not _is_in_environment(folder, resolved) for folder in _OWN)


@lru_cache(maxsize=8192)
def _resolve_file(file: str, installed: bool) -> str:
    """Return where a file is without links: one look at the disk for a file, and one for all of an installed package's folder."""
    if installed and not os.path.islink(file):  # noqa: PTH114 (pathlib is slow, and there are a thousand files)
        parent, _, name = file.rpartition(os.sep)
        return f"{_resolve_file(parent, installed=False)}{os.sep}{name}"
    return str(Path(file).resolve())


def _is_in_environment(folder: str, file: str) -> bool:
    """Return whether a file in a folder belongs to a virtual environment inside that folder."""
    inside = any(prefix.startswith(folder) and file.startswith(prefix) for prefix in _INSTALLED)
    return inside or "site-packages" in file.removeprefix(folder)


def current_position() -> Any:
    """Return the current position in user code: an instruction of an expression, `(code, instruction)`, or None."""
    if HERE.position is not None:
        return HERE.position
    frame: Any = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if known_as_users(code.co_filename) or (code.co_filename not in _USERS and is_users_file(code.co_filename)):
            return code, frame.f_lasti
        frame = frame.f_back
    return None


def place_of_position(position: Any) -> Span | Place | None:
    """Return a recorded position as a piece of the expression or a line of the user's file; None if it is unknown."""
    span = getattr(position, "span", None)
    if isinstance(span, Span | Place) or not isinstance(position, tuple):
        return span
    code, instruction = position
    if not is_users_file(code.co_filename):
        return None
    line, end, column, stop = columns(code, instruction)
    return _make_place(code, line, column, stop if end == line else None)


def code_at(position: Any) -> str:
    """Return the user's code at a recorded position as text; an empty text if the position is unknown."""
    at = place_of_position(position)
    if isinstance(at, Place):
        whole = _source_of(*position) if isinstance(position, tuple) else b""
        return " ".join(whole.decode(errors="ignore").split()) or at.operation
    return at.source if isinstance(at, Span) else ""


def place_of_error(traceback: TracebackType | None) -> Place | None:
    """Return the innermost line of user code in a traceback, or None."""
    found = None
    while traceback is not None:
        code = traceback.tb_frame.f_code
        text = code.co_filename.startswith("<") and found is not None and not found.file.startswith("<")
        if is_users_file(code.co_filename) and not text:  # for code run by exec or eval, report the line that runs it
            line, end, column, stop = columns(code, traceback.tb_lasti)
            found = _make_place(code, traceback.tb_lineno, column, stop if end == line == traceback.tb_lineno else None)
        traceback = traceback.tb_next
    return found


def place_of_definition(function: Any) -> Place | None:
    """Return the line where a function is defined, or None if it is not user code."""
    code = getattr(function, "__code__", None)
    if code is None or not is_users_file(code.co_filename):
        return None
    found = _make_place(code, code.co_firstlineno, None, None)
    return _make_place(code, code.co_firstlineno + 1, None, None) if found.source.startswith("@") else found


@lru_cache(maxsize=_MOST_PLACES)
def columns(code: CodeType, instruction: int) -> tuple[int, int | None, int | None, int | None]:
    """Return where the source of an instruction stands: line, last line, column and end in bytes, from 0; None if unknown."""
    for k, (line, end, column, stop) in enumerate(code.co_positions()):
        if k == instruction // 2:
            return line or code.co_firstlineno, end, column, stop
    return code.co_firstlineno, None, None, None


def _make_place(code: CodeType, line: int, column: int | None, stop: int | None) -> Place:
    """Return a line of a file as a place; `column` and `stop` count bytes of UTF-8, as Python's positions do."""
    text = linecache.getline(code.co_filename, line).rstrip("\n")
    if column is None or stop is None:
        return Place(path_for_display(code.co_filename), line, text)
    written = text.encode()
    first, last = (len(written[:count].decode(errors="ignore")) for count in (column, stop))
    return Place(path_for_display(code.co_filename), line, text, first, last - first)


def whole_extent(code: CodeType, instruction: int) -> tuple[int, int | None, int | None, int | None]:
    """Return the same as `columns`, of a call of a method from its object on: Python's own begins at a name on another line."""
    line, end, column, stop = found = columns(code, instruction)
    before = linecache.getline(code.co_filename, line).encode()[: column or 0]
    return _extents_of_calls(code.co_filename).get((end, stop), found) if before.rstrip().endswith(b".") else found


@lru_cache(maxsize=_MOST_PLACES)
def _extents_of_calls(file: str) -> dict[tuple[int | None, int | None], tuple[int, int | None, int | None, int | None]]:
    """Return the places of the calls in a file, by where they end."""
    try:
        calls = [node for node in ast.walk(ast.parse("".join(linecache.getlines(file)))) if isinstance(node, ast.Call)]
    except (SyntaxError, ValueError):
        return {}
    return {(c.end_lineno, c.end_col_offset): (c.lineno, c.end_lineno, c.col_offset, c.end_col_offset) for c in calls}


def _source_of(code: CodeType, instruction: int) -> bytes:
    """Return the source of what an instruction computes, of all its lines; nothing where it is not known."""
    line, end, column, stop = whole_extent(code, instruction)
    if column is None or stop is None or end is None:
        return b""
    lines = [linecache.getline(code.co_filename, k).encode() for k in range(line, end + 1)]
    lines[-1] = lines[-1][:stop]
    lines[0] = lines[0][column:]
    return b"".join(lines)


@cache
def called_name(code: CodeType, instruction: int) -> tuple[str, str]:
    """Return how the call at an instruction names its function, and the name.

    For `np.zeros(3)` the result is `("attribute", "zeros")`, for `zeros(3)` it is `("name", "zeros")`. Both parts are
    empty for any other call, and where there is no source.
    """
    try:
        node = ast.parse(b"(" + _source_of(code, instruction) + b")", mode="eval").body
    except (SyntaxError, ValueError):
        return "", ""
    if isinstance(node, ast.Call):
        node = node.func
    if isinstance(node, ast.Attribute):
        return "attribute", node.attr
    return ("name", node.id) if isinstance(node, ast.Name) else ("", "")


def package_called() -> tuple[str, str] | None:
    """Return what the user's code calls at present, as (function, package), such as ("logpdf", "scipy.stats").

    A package's function that gradcli itself calls, because it is the target, is named as its class has it. None if no
    package is installed between the user's code and the caller, or the call does not name its function.
    """
    frame: Any = sys._getframe(1)
    package = name = ""
    while frame is not None and not is_users_file(frame.f_code.co_filename):
        ours = frame.f_code.co_filename.startswith(_OURS)
        private = name.rpartition(".")[2].startswith("_") and not name.endswith("__")
        if ours and package and not private:
            break
        if not ours and not frame.f_code.co_filename.startswith("<frozen"):
            package, name = str(frame.f_globals.get("__name__", "")), frame.f_code.co_qualname
        frame = frame.f_back
    if frame is not None and is_users_file(frame.f_code.co_filename):
        name = called_name(frame.f_code, frame.f_lasti)[1]
    public = itertools.takewhile(lambda part: not part.startswith("_"), package.split("."))
    return (name, ".".join(public)) if name and package else None


def package_raised(traceback: TracebackType | None) -> tuple[str, str] | None:
    """Return what the user's code called when an installed package raised an exception, as (function, package).

    None if the user's own code raised it, or the call does not name its function.
    """
    found: tuple[str, str] | None = None
    caller: TracebackType | None = None
    while traceback is not None:
        frame = traceback.tb_frame
        if is_users_file(frame.f_code.co_filename):
            found, caller = None, traceback
        elif caller is not None and found is None and not frame.f_code.co_filename.startswith((_OURS, "<frozen")):
            name = called_name(caller.tb_frame.f_code, caller.tb_lasti)[1]
            module = str(frame.f_globals.get("__name__", "")).split(".")
            package = itertools.takewhile(lambda part: not part.startswith("_"), module)
            found = (name, ".".join(package)) if name else None
        traceback = traceback.tb_next
    return found


def path_for_display(file: str) -> str:
    """Return a path for display: relative to the current folder if the file lies in it, `Cell In[3]` for a notebook's cell."""
    return _name_of_cell(file) or _relative_path(file, Path.cwd())


@lru_cache(maxsize=_MOST_PLACES)
def _relative_path(file: str, folder: Path) -> str:
    try:
        near = os.path.relpath(file, folder)
    except ValueError:  # another drive
        return file
    return file if near.startswith("..") or file.startswith("<") else near


def _name_of_cell(file: str) -> str | None:
    """Return how IPython names the cell that it keeps under the name of a file; None if the file is no cell of its own."""
    if "ipykernel_" not in file and not file.startswith("<ipython-"):
        return None
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    named = None if shell is None else shell.compile.format_code_name(file)
    return None if named is None else " ".join(named)
