"""Run a Python program as `python` would: a script, a folder or zip file with a `__main__`, or a module by `-m`."""

import ast
import builtins
import importlib.machinery
import io
import os
import pkgutil
import runpy
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

from gradcli.classes import dataclass

_OURS = str(Path(__file__).resolve().parents[2]) + os.sep
_INTERRUPTED = 130
_EXECUTORS = {"concurrent.futures.thread": "_shutdown", "concurrent.futures.process": "_global_shutdown"}


@dataclass(frozen=True, slots=True)
class ProgramEnd:
    """How a program ended: its exit status, and whether an interrupt ended it."""

    status: int
    interrupted: bool = False
    started: bool = True  # whether there was a program to run


Prepare = Callable[[ast.Module, dict[str, Any]], None]  # of the tree of a script, and the scope in which it runs


class CannotStart(Exception):
    """The program cannot be started; the message is that of `python`."""

    def __init__(self, says: str, status: int) -> None:
        super().__init__(says)
        self.status = status


def execute_program(words: Sequence[str], prepare: Prepare) -> ProgramEnd:
    """Run a program, given as `script.py ARGS...` or `-m MODULE ARGS...`, and return how it ended.

    `prepare` may change the tree of its script, and the scope in which it runs.

    What it raises is printed as Python prints it. Its threads are waited for.
    """
    before = sys.argv
    try:
        try:
            _run_script_or_module(words, prepare)
        except CannotStart as error:
            sys.stderr.write(f"{error}\n")
            return ProgramEnd(error.status, started=False)
        finally:
            _wait_for_threads()
        return ProgramEnd(0)
    except SystemExit as error:
        if error.code is None or isinstance(error.code, int):
            return ProgramEnd((error.code or 0) & 0xFF)
        sys.stderr.write(f"{error.code}\n")
        return ProgramEnd(1)
    except KeyboardInterrupt as error:
        _print_exception(error)
        return ProgramEnd(_INTERRUPTED, interrupted=True)
    except BaseException as error:
        _print_exception(error)
        return ProgramEnd(1)
    finally:
        sys.argv = before


def _run_script_or_module(words: Sequence[str], prepare: Prepare) -> None:
    if words[0] == "-m":
        if len(words) == 1:
            raise CannotStart("Argument expected for the -m option", 2)
        _set_import_folder(str(Path.cwd()))
        sys.argv = ["-m", *words[2:]]
        python: Any = runpy  # these names are private, and pdb of the standard library uses them, too
        try:
            _, spec, _ = python._get_module_details(words[1], python._Error)
        except python._Error as error:
            raise CannotStart(f"{sys.executable}: {error}", 1) from None
        sys.argv[0] = spec.origin or words[1]
        return _run_spec(spec, prepare)
    path = os.path.join(Path.cwd(), words[0])  # noqa: PTH118 - Python keeps ./ and ..
    sys.argv = [*words]
    if pkgutil.get_importer(path) is not None:  # a folder, or a zip file
        _set_import_folder(path)
        found = importlib.machinery.PathFinder.find_spec("__main__", [path])
        if found is None:
            raise CannotStart(f"{sys.executable}: can't find '__main__' module in {path!r}", 1)
        return _run_spec(found, prepare)
    try:
        with io.open_code(path) as file:
            source = file.read()
    except OSError as error:
        says = f"{sys.executable}: can't open file {path!r}: [Errno {error.errno}] {error.strerror}"
        raise CannotStart(says, 2) from None
    _set_import_folder(str(Path(path).resolve().parent))
    main = _make_main_module(path, None, importlib.machinery.SourceFileLoader("__main__", path))
    tree: Any = compile(source, path, "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
    prepare(tree, main.__dict__)
    exec(compile(tree, path, "exec", dont_inherit=True), main.__dict__)
    return None


def _run_spec(spec: importlib.machinery.ModuleSpec, prepare: Prepare) -> None:
    """Run the code of a module as `__main__`. Raises CannotStart if it has none."""
    loader: Any = spec.loader
    code = loader.get_code(spec.name) if hasattr(loader, "get_code") else None
    if code is None:
        raise CannotStart(f"{sys.executable}: No code object available for {spec.name}", 1)
    main = _make_main_module(spec.origin, spec, loader)
    source = loader.get_source(spec.name) if hasattr(loader, "get_source") else None
    if source is not None:
        tree = ast.parse(source)
        prepare(tree, main.__dict__)
        code = compile(tree, code.co_filename, "exec", dont_inherit=True)
    exec(code, main.__dict__)


def _make_main_module(file: str | None, spec: importlib.machinery.ModuleSpec | None, loader: Any) -> ModuleType:
    """Return a new module `__main__`, with the attributes that Python gives it."""
    main = ModuleType("__main__")
    main.__dict__.update(
        __file__=file, __spec__=spec, __loader__=loader, __builtins__=builtins, __annotations__={},
        __cached__=spec.cached if spec else None, __package__=spec.parent if spec else None,
    )  # fmt: skip
    sys.modules["__main__"] = main
    return main


def _set_import_folder(folder: str) -> None:
    """Let imports begin in a folder, as for the program alone; Python put the folder of gradcli there."""
    if not sys.flags.safe_path:
        sys.path[0] = folder


def _wait_for_threads() -> None:
    """Wait for the work that Python waits for when a program ends: what executors still have to do, and other threads."""
    for name, flag in _EXECUTORS.items():
        module = sys.modules.get(name)
        finish = getattr(module, "_python_exit", None)
        if finish is not None:
            finish()
            setattr(module, flag, False)  # the checks may use executors too
    for thread in threading.enumerate():
        if thread is not threading.main_thread() and not thread.daemon:
            thread.join()


def _print_exception(error: BaseException) -> None:
    """Print an exception that ended the program as Python does, without the lines of gradcli."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        each = waiting.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        each.__traceback__ = _drop_own_frames(each.__traceback__)
        waiting += [each.__cause__, each.__context__, *getattr(each, "exceptions", ())]
    try:
        sys.excepthook(type(error), error, error.__traceback__)
    except Exception as other:  # whatever the program's own hook raises
        sys.stderr.write("Error in sys.excepthook:\n")
        other.__traceback__, other.__context__ = _drop_own_frames(other.__traceback__), None
        sys.__excepthook__(type(other), other, other.__traceback__)
        sys.stderr.write("\nOriginal exception was:\n")
        sys.__excepthook__(type(error), error, error.__traceback__)


def _drop_own_frames(trace: TracebackType | None) -> TracebackType | None:
    """Return a traceback without the frames of gradcli."""
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_OURS):
        trace = trace.tb_next
    each = trace
    while each is not None:
        while each.tb_next is not None and each.tb_next.tb_frame.f_code.co_filename.startswith(_OURS):
            each.tb_next = each.tb_next.tb_next
        each = each.tb_next
    return trace
