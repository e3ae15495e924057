"""One watched program: run it, watch, end, and what was recorded. There is one at a time in a process."""

import ast
import atexit
import builtins
import contextlib
import copy
import dataclasses
import functools
import importlib
import importlib.machinery
import inspect
import io
import marshal
import os
import pickle
import pkgutil
import runpy
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import CellType, CodeType, FunctionType, ModuleType, TracebackType
from typing import Any, BinaryIO, NoReturn, TypeVar

from gradcli.classes import dataclass
from gradcli.project.capture.backward_passes import Layers
from gradcli.project.capture.recorder import (
    Convention,
    Definition,
    GradientPair,
    Kept,
    Last,
    RecordedCalls,
    Recorder,
    ReportedDefinitions,
    State,
    definition_name,
    note_last_call,
    record_calls,
)
from gradcli.tracing.provenance import is_gradcli_file
from gradcli.tracing.tracer import UNBOUND, content_of_cell
from gradcli.words import DerivativeKind

# The functions of scipy that take a gradient, and how each calls it, as a table.


@dataclass(frozen=True, slots=True)
class Taken:
    """A parameter of a function of scipy that takes a derivative, and the parameter `of` that takes its function.

    `own` and `wrt` are as in a Pair; `of_own` is how many arguments scipy gives to the function. `joint` names the part of
    what the function returns that is the derivative, where the parameter is True, or is left out if it is `alone`.
    """

    name: str
    kind: DerivativeKind
    of: str
    convention: Convention = "plain"
    wrt: int = 0
    own: int = 1
    joint: int | None = None
    alone: bool = False


_MINIMIZED = (
    Taken("jac", "grad", "fun", joint=1), Taken("hess", "hess", "fun"), Taken("hessp", "hvp", "fun", "along", own=2),
)  # fmt: skip
_ODE = (Taken("jac", "jac", "fun", wrt=1, own=2),)
FUNCTIONS: Mapping[str, tuple[Taken, ...]] = {
    "scipy.optimize.minimize": _MINIMIZED,
    "scipy.optimize.basinhopping": _MINIMIZED,  # its own parameters are in `minimizer_kwargs`
    "scipy.optimize.dual_annealing": _MINIMIZED,
    "scipy.optimize.shgo": _MINIMIZED,
    "scipy.optimize.differential_evolution": (),  # constraints alone
    "scipy.optimize.least_squares": (Taken("jac", "jac", "fun"),),
    "scipy.optimize.leastsq": (Taken("Dfun", "jac", "func", "transposed"),),
    "scipy.optimize.root": (Taken("jac", "jac", "fun", "transposed", joint=1),),
    "scipy.optimize.fsolve": (Taken("fprime", "jac", "func", "transposed"),),
    "scipy.optimize.newton": (
        Taken("fprime", "grad", "func", "elementwise"), Taken("fprime2", "hess", "func", "elementwise"),
    ),
    "scipy.optimize.root_scalar": (
        Taken("fprime", "grad", "f", "elementwise", joint=1), Taken("fprime2", "hess", "f", "elementwise", joint=2),
    ),
    "scipy.optimize.curve_fit": (Taken("jac", "jac", "f", "curve", wrt=1),),
    "scipy.optimize.fmin_bfgs": (Taken("fprime", "grad", "f"),),
    "scipy.optimize.fmin_cg": (Taken("fprime", "grad", "f"),),
    "scipy.optimize.fmin_ncg": (
        Taken("fprime", "grad", "f"), Taken("fhess_p", "hvp", "f", "along", own=2), Taken("fhess", "hess", "f"),
    ),
    "scipy.optimize.fmin_l_bfgs_b": (Taken("fprime", "grad", "func", joint=1, alone=True),),
    "scipy.optimize.fmin_tnc": (Taken("fprime", "grad", "func", joint=1, alone=True),),
    "scipy.optimize.fmin_slsqp": (
        Taken("fprime", "grad", "func"), Taken("fprime_eqcons", "jac", "f_eqcons"),
        Taken("fprime_ieqcons", "jac", "f_ieqcons"),
    ),
    "scipy.optimize.line_search": (Taken("myfprime", "grad", "f"),),
    "scipy.optimize.check_grad": (Taken("grad", "grad", "func"),),
    "scipy.integrate.solve_ivp": _ODE,
    "scipy.integrate.odeint": (Taken("Dfun", "jac", "func", "transposed", own=2),),
    "scipy.integrate.solve_bvp": (
        Taken("fun_jac", "jac", "fun", "mesh", wrt=1, own=3), Taken("bc_jac", "jac", "bc", "ends", own=3),
    ),
    "scipy.integrate.ode.__init__": (Taken("jac", "jac", "f", wrt=1, own=2),),
    "scipy.integrate.BDF.__init__": _ODE,
    "scipy.integrate.Radau.__init__": _ODE,
    "scipy.integrate.LSODA.__init__": _ODE,
}  # fmt: skip
_NESTED = {"minimizer_kwargs": "func", "options": "func"}  # dictionaries that hold derivatives of another parameter
MODULES = ("scipy.optimize", "scipy.integrate")


def replacements(recorder: Recorder, module: str) -> Iterator[tuple[Any, str, Callable[..., Any]]]:
    """Yield the object that holds each function of a module of scipy, its name there, and what replaces it."""
    for whole, taken in FUNCTIONS.items():
        inside = whole.removeprefix(f"{module}.")
        if inside == whole:
            continue
        *path, name = inside.split(".")
        holder: Any = sys.modules[module]
        for part in path:
            holder = getattr(holder, part, None)
        original = getattr(holder, name, None)
        if original is not None:
            replacement = _recording_function(recorder, original, taken)
            replacement.__module__, replacement.__qualname__ = module, inside  # by which pickle finds it
            yield holder, name, replacement


def _recording_function(
    recorder: Recorder, original: Callable[..., Any], taken: tuple[Taken, ...]
) -> Callable[..., Any]:
    """Return a function of scipy that records the gradients that it is given, and does what it did."""
    signature = inspect.signature(original)
    others = next((p.name for p in signature.parameters.values() if p.kind is p.VAR_KEYWORD), "")

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        caller = sys._getframe(1)
        if not recorder.is_on or str(caller.f_globals.get("__name__", "")).startswith("scipy."):
            return original(*args, **kwargs)  # one function of scipy calls another
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError:
            return original(*args, **kwargs)  # scipy says what is wrong
        further = bound.arguments.pop(others, {})  # such as the options of solve_ivp, of which jac is one
        flat = {**bound.arguments, **further}
        try:
            _Given(recorder, flat, (caller.f_code.co_filename, caller.f_lineno)).replace(taken)
        except Exception:  # whatever the user's objects raise: the call is not watched
            return original(*args, **kwargs)
        bound.arguments.update((name, flat[name]) for name in bound.arguments)
        return original(*bound.args, **bound.kwargs, **{name: flat[name] for name in further})

    return call


class _Given:
    """The arguments of one call of scipy, in which gradients are replaced."""

    def __init__(self, recorder: Recorder, arguments: dict[str, Any], at: tuple[str, int]) -> None:
        self._recorder, self._arguments, self._at = recorder, arguments, at

    def replace(self, taken: tuple[Taken, ...]) -> None:
        """Replace the gradients, and the functions that they belong to, by ones that record their calls."""
        arguments = self._arguments
        self._replace_gradients(arguments, taken)
        for name, of in _NESTED.items():
            if isinstance(arguments.get(name), dict) and of in arguments:
                inside = {**arguments[name], "fun": arguments[of]}
                self._replace_gradients(inside, taken)
                arguments[of] = inside.pop("fun")
                if "constraints" in inside:
                    inside["constraints"] = self._record_constraints(inside["constraints"])
                arguments[name] = inside
        if "constraints" in arguments:
            arguments["constraints"] = self._record_constraints(arguments["constraints"])

    def _replace_gradients(self, arguments: dict[str, Any], taken: tuple[Taken, ...]) -> None:
        functions: dict[str, tuple[Any, Last]] = {}
        for each in taken:
            function, gradient = arguments.get(each.of), arguments.get(each.name)
            if not callable(function):
                continue
            plain, last = functions.setdefault(each.of, (function, Last()))
            joint = gradient is True or (each.alone and gradient is None and not arguments.get("approx_grad"))
            recorder, options, at = self._recorder, self._options_of_gradient(each), self._at
            if joint and each.joint is not None:
                pair = GradientPair(
                    each.kind, plain, plain, each.convention, each.wrt, each.own, True, each.joint, options
                )
                recorded = recorder.recorded(plain, each.kind, None)
                if recorded is not None:
                    arguments[each.of] = record_calls(recorded, pair, Last(), at, arguments[each.of])
            elif callable(gradient) and not isinstance(gradient, type):
                more = any(arguments.get(other.name) is True for other in taken if other.of == each.of)  # beside values
                wrt = 1 if options.get("tfirst") else each.wrt
                pair = GradientPair(each.kind, plain, gradient, each.convention, wrt, each.own, more, None, options)
                recorded = recorder.recorded(gradient, each.kind, definition_name(plain))
                if recorded is None:
                    continue
                if arguments[each.of] is plain and not more:
                    arguments[each.of] = note_last_call(plain, last, wrt)
                arguments[each.name] = record_calls(recorded, pair, last, at, gradient)

    def _options_of_gradient(self, each: Taken) -> dict[str, Any]:
        """Return the options of scipy that say what the gradient returns, or takes."""
        more = self._arguments.get("options")
        known = {**(more if isinstance(more, dict) else {}), **self._arguments}
        return {name: True for name in ("col_deriv", "tfirst") if known.get(name)}

    def _record_constraints(self, given: Any) -> Any:
        """Return constraints that record their derivatives: dictionaries, and objects with a function `fun`."""
        if isinstance(given, list | tuple):
            return type(given)([self._record_constraints(each) for each in given])
        taken = (Taken("jac", "jac", "fun"), Taken("hess", "hess", "fun", "weighted", own=2))
        if isinstance(given, dict):
            inside = dict(given)
            self._replace_gradients(inside, taken)
            return inside
        if callable(getattr(given, "fun", None)) and hasattr(given, "jac"):
            inside = dict(vars(given))
            self._replace_gradients(inside, taken)
            given = copy.copy(given)
            vars(given).update(inside)
        return given


# One watched program.

G = TypeVar("G", bound=Callable[..., Any])
_FRAMEWORKS = {
    "torch": "gradcli.project.capture.torch", "jax": "gradcli.project.capture.jax",
    "tensorflow": "gradcli.project.capture.tensorflow", "mlx.core": "gradcli.project.capture.mlx",
}  # fmt: skip
DEFAULT_BYTES = 256 * 2**20
_CURRENT: list["Session"] = []


@dataclass(frozen=True, slots=True)
class RecordingRequest:
    """What is recorded: how many calls of each gradient, in how many bytes, of which definitions, and the seed."""

    keep: int = 3
    keep_bytes: int = DEFAULT_BYTES
    sources: tuple[str, ...] = ()
    seed: int = 0


# Replace functions of modules when the program imports them, in every module that holds them, and put them back.

# of a module: the holder, the name there, what replaces it
Replacements = Callable[[str], Iterator[tuple[Any, str, Any]]]


class Patches:
    """What is replaced, and how it was before."""

    def __init__(self) -> None:
        self._waiting: Mapping[str, Replacements] = {}
        self._before: list[tuple[Any, str, Any, bool]] = []
        self._inside: list[tuple[Any, Any]] = []  # of modules: what was replaced, and by what

    def begin(self, replacements: Mapping[str, Replacements]) -> None:
        """Replace functions of these modules: now of those that are loaded, else when one has been imported."""
        self._waiting = replacements
        for name in replacements:
            if name in sys.modules:
                self.imported(name)

    def end(self) -> None:
        """Put everything back."""
        for holder, name, before, own in reversed(self._before):
            with contextlib.suppress(AttributeError, TypeError):
                if own:
                    setattr(holder, name, before)
                else:
                    delattr(holder, name)
        self._before.clear()
        imported = {id(replacement): before for before, replacement in self._inside}
        for module in [m for m in [*sys.modules.values()] if isinstance(m, ModuleType)] if imported else ():
            for name in [name for name, x in [*vars(module).items()] if id(x) in imported]:
                setattr(module, name, imported[id(vars(module)[name])])  # imported while it was replaced
        self._inside.clear()

    def imported(self, name: str) -> None:
        """Replace the functions of a module that has just been imported, in every module that holds them.

        The modules of its own package are left out: their functions call each other.
        """
        inside: dict[int, tuple[Any, Any]] = {}
        for holder, attribute, replacement in [*self._waiting[name](name)] if name in self._waiting else ():
            own = attribute in vars(holder)
            before = vars(holder)[attribute] if own else getattr(holder, attribute)
            self._set_attribute(holder, attribute, replacement, before, own)
            if isinstance(holder, ModuleType):
                inside[id(before)] = before, replacement
        self._inside += inside.values()
        package = name.partition(".")[0]
        for module in [*sys.modules.values()] if inside else ():
            if not isinstance(module, ModuleType) or module.__name__.partition(".")[0] == package:
                continue
            for other in [name for name, x in [*vars(module).items()] if id(x) in inside]:
                before, replacement = inside[id(vars(module)[other])]
                self._set_attribute(module, other, replacement, before, True)

    def replace(self, holder: Any, name: str, before: Any, replacement: Any) -> None:
        """Replace one attribute of a module or a class."""
        self._set_attribute(holder, name, replacement, before, True)
        if isinstance(holder, ModuleType):
            self._inside.append((before, replacement))

    def _set_attribute(self, holder: Any, name: str, replacement: Any, before: Any, own: bool) -> None:
        setattr(holder, name, replacement)
        self._before.append((holder, name, before, own))


# Child processes of the program: each writes what it keeps to a file of its own, and the parent puts them together.

_DONE = "done"


@dataclass(slots=True)
class ChildCalls:
    """What a child writes: how often a gradient was called so far, and a call that it keeps."""

    definition: Definition
    kind: DerivativeKind
    of: str | None
    calls: int
    call: Kept | None = None
    is_whole: bool = True  # whether a call that was kept could be written


# Carry kept calls from child processes to the parent: functions made inside others as code, all else by pickle.
#
# The files lie in a folder that only this user can read, and both ends run the user's program: nothing in them is less
# trusted than the program itself.


class _Pickler(pickle.Pickler):
    """Pickles functions that no module has under their name, such as lambdas and closures."""

    def reducer_override(self, x: Any) -> Any:
        if not isinstance(x, FunctionType) or _is_importable(x):
            return NotImplemented
        cells = tuple(None if (held := content_of_cell(cell)) is UNBOUND else (held,) for cell in x.__closure__ or ())
        made = marshal.dumps(x.__code__), x.__module__, x.__qualname__, x.__defaults__, x.__kwdefaults__, cells
        return rebuild_function, made


def append_object(file: BinaryIO, what: Any) -> bool:
    """Write one object to the end of a file at once; return whether it can be pickled."""
    buffer = io.BytesIO()
    try:
        _Pickler(buffer, protocol=pickle.HIGHEST_PROTOCOL).dump(what)
    except Exception:  # whatever the user's objects raise
        return False
    file.write(buffer.getvalue())
    file.flush()
    return True


def read_objects(path: Path) -> list[Any]:
    """Return the objects of a file, up to the first that is cut off or cannot be made here."""
    found = []
    with path.open("rb") as file, contextlib.suppress(Exception):  # at its end, and whatever the user's objects raise
        while True:
            found.append(pickle.load(file))
    return found


def rebuild_function(
    code: bytes, module: str, name: str, defaults: Any, named: Any, cells: tuple[Any, ...]
) -> FunctionType:
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


class Children:
    """The files of the child processes, in a folder that is removed at the end."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._parent = os.getpid()
        self.folder: Path | None = None
        self._file: BinaryIO | None = None

    @property
    def is_child(self) -> bool:
        """Whether this process is a child of the one that was started."""
        return os.getpid() != self._parent

    def begin(self, folder: Path | None) -> None:
        """Have child processes write files of their own; `folder` is that of the parent, in a child that was not forked."""
        self.folder = folder or Path(tempfile.mkdtemp(prefix="gradcli-run-"))
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.forked)
        if folder is not None:
            self._parent = 0
            self.forked()
            atexit.register(self.ended)

    def forked(self) -> None:
        """Begin again in a child: forget what the parent recorded, and write what is kept from now on."""
        if self.folder is None or not self._recorder.is_on:
            return
        for recorded in self._recorder.found.values():
            recorded.restart()
        self._file = (self.folder / f"{os.getpid()}.calls").open("ab")
        self._recorder.on_kept = self._write_calls

    def ended(self) -> None:
        """Write the counts of a child that ends."""
        if self._file is not None and not self._file.closed:
            for recorded in self._recorder.all():
                self._write_calls(recorded, None)
            append_object(self._file, _DONE)
            self._file.close()

    def _write_calls(self, recorded: RecordedCalls, call: Kept | None) -> None:
        if self._file is None or self._file.closed:
            return
        carried_call = None if call is None else dataclasses.replace(call, state=State())  # closures hold it themselves
        written = ChildCalls(recorded.definition, recorded.kind, recorded.of, recorded.calls, carried_call)
        if not append_object(self._file, written):
            written.call, written.is_whole = None, False
            append_object(self._file, written)

    def merge(self) -> None:
        """Add what the children wrote to the record of the parent, and remove the files."""
        if self.folder is None or self.is_child:
            return
        for path in sorted(self.folder.glob("*.calls")):
            self._merge_child(read_objects(path), int(path.stem))
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder = None

    def _merge_child(self, found: list[Any], process: int) -> None:
        calls: dict[Any, int] = {}
        for written in found:
            if not isinstance(written, ChildCalls):
                continue
            recorded = self._recorder.of_definition(written.definition, written.kind, written.of)
            key = written.definition, written.kind
            recorded.elsewhere += written.calls - calls.get(key, 0)
            calls[key] = written.calls
            if not written.is_whole:
                says = "what it holds in a child process cannot be carried to the parent: calls are counted alone"
                recorded.unclear.add(says)
            if written.call is not None and len(recorded.places) < self._recorder.most_kept:
                written.call.process = process
                recorded.keep(process, (len(recorded.places),), written.call)
        if found and found[-1] != _DONE:
            for definition, kind in calls:
                record = self._recorder.of_definition(definition, kind, None)
                record.unclear.add("a process was ended before it wrote its last counts: there may be more calls")


class Session:
    """The watching of one program."""

    def __init__(self, wanted: RecordingRequest) -> None:
        self.recorder = Recorder(wanted.keep, wanted.keep_bytes, wanted.seed, ReportedDefinitions(wanted.sources))
        self._wanted = wanted
        self._patches = Patches()
        self.layers = Layers(self.recorder, self._patches.replace)
        self.children = Children(self.recorder)
        self._exit = os._exit

    def begin(self, at_exit: Callable[[int], int] | None = None, folder: Path | None = None) -> None:
        """Begin to watch. `at_exit` is called with the status before `os._exit` ends the process, and returns the status.

        In a child that was not forked, `folder` is where it writes.
        """
        self.children.begin(folder)
        of_framework = lambda package: importlib.import_module(_FRAMEWORKS[package]).replacements(self.recorder)
        self._patches.begin({
            **dict.fromkeys(MODULES, partial(replacements, self.recorder)),
            **dict.fromkeys(_FRAMEWORKS, of_framework),
            "multiprocessing.spawn": self._patch_spawning,
            "importlib.machinery": self._patch_imports,
        })  # fmt: skip

        def leave(status: int) -> NoReturn:
            if self.children.is_child:
                self.children.ended()
            elif at_exit is not None:
                status = at_exit(status)
            self._exit(status)

        os._exit = leave
        _CURRENT.append(self)

    def end(self) -> Recorder:
        """Stop watching, put everything back, and return what was recorded."""
        self.recorder.is_on = False
        self._patches.end()
        os._exit = self._exit
        if self in _CURRENT:
            _CURRENT.remove(self)
        self.children.merge()
        return self.recorder

    def watch(self, function: Callable[..., Any], gradient: G, kind: DerivativeKind) -> G:
        """Return a gradient that records its calls."""
        recorded = self.recorder.recorded(gradient, kind, definition_name(function))
        if recorded is None:
            return gradient
        frame = sys._getframe(2)
        at = frame.f_code.co_filename, frame.f_lineno
        of_hvp = kind == "hvp"
        pair = GradientPair(kind, function, gradient, "along" if of_hvp else "plain", own=2 if of_hvp else 1)
        return record_calls(recorded, pair, Last(), at, gradient)  # type: ignore[return-value]

    def _patch_imports(self, name: str) -> Iterator[tuple[Any, str, Any]]:
        """Yield what lets modules be looked at, and have their functions replaced, when they have been imported."""
        machinery = sys.modules[name]

        def after(plain: Callable[[Any, ModuleType], None]) -> Callable[[Any, ModuleType], None]:
            def exec_module(loader: Any, module: ModuleType) -> None:
                plain(loader, module)
                if isinstance(loader, machinery.SourceFileLoader):
                    self.layers.look_at_module(module)
                self._patches.imported(module.__name__)

            return exec_module

        for kind in (machinery.SourceFileLoader, machinery.SourcelessFileLoader, machinery.ExtensionFileLoader):
            yield kind, "exec_module", after(kind.exec_module)

    def _patch_spawning(self, name: str) -> Iterator[tuple[Any, str, Any]]:
        """Yield what makes a process that is started anew watch its gradients too."""
        spawn = sys.modules[name]
        plain = spawn.get_preparation_data

        def get_preparation_data(name: str) -> dict[str, Any]:
            folder = self.children.folder
            return {**plain(name), **({} if folder is None else {"gradcli": Stowaway(self._wanted, str(folder))})}

        yield spawn, "get_preparation_data", get_preparation_data


class Stowaway:
    """Travels with the data of a process that is started anew, and begins to watch there when it is unpacked."""

    def __init__(self, wanted: RecordingRequest, folder: str) -> None:
        self._state = wanted, folder

    def __getstate__(self) -> tuple[RecordingRequest, str]:
        return self._state

    def __setstate__(self, state: tuple[RecordingRequest, str]) -> None:
        self._state = state
        Session(state[0]).begin(folder=Path(state[1]))


def watch(function: Callable[..., Any], gradient: G, kind: DerivativeKind = "grad") -> G:
    """Return a gradient that `gradcli run` checks with the function, at arguments that it was called with.

    For pairs that a program calls by itself; outside `gradcli run` it returns the gradient untouched. `kind` says what
    `gradient` returns: `grad`, `jac`, `hess`, or `hvp` for a function of the arguments and a vector.

    >>> def loss(x): return (x * x).sum()
    >>> def loss_grad(x): return 2 * x
    >>> watch(loss, loss_grad) is loss_grad
    True
    """
    return _CURRENT[-1].watch(function, gradient, kind) if _CURRENT else gradient


# Run a Python program as `python` would: a script, a folder or zip file with a `__main__`, or a module by `-m`.

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
    while trace is not None and is_gradcli_file(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    each = trace
    while each is not None:
        while each.tb_next is not None and is_gradcli_file(each.tb_next.tb_frame.f_code.co_filename):
            each.tb_next = each.tb_next.tb_next
        each = each.tb_next
    return trace
