"""The process in which edited claims are run: it makes the claim anew, and may then write no file and take little memory."""

import ast
import builtins
import contextlib
import functools
import inspect
import marshal
import math
import os
import pickle
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, NoReturn

import numpy as np

from gradcli.checks.build import build_request
from gradcli.checks.check import call_claim_after_function
from gradcli.checks.inner_gradients import request_of_layer
from gradcli.checks.request import Request
from gradcli.checks.wrong import CauseBudget
from gradcli.classes import dataclass
from gradcli.errors import BadClaim, BadTarget, GradcliError
from gradcli.frameworks.native import native_of
from gradcli.modes.claim import ClaimedFunction
from gradcli.process.process import FORKS, LENGTH, die_with, write_all
from gradcli.repair.code import CodeClaim, SourceFile, codes_run, live_functions
from gradcli.repair.contributions import ForwardPass, read_forward_pass
from gradcli.repair.scope import Gradient, Right
from gradcli.repair.search import (
    NO_POINTS,
    Repair,
    RepairSearch,
    at_smaller_sizes,
    calls_of_edits,
    draw_further_points,
    reshape_like_right,
)
from gradcli.report.common import ABSENT, Absent
from gradcli.report.point_report import NOT_RUN
from gradcli.request.point import Point
from gradcli.targets.derived import original_function
from gradcli.targets.facts import Function
from gradcli.targets.python import PythonFunction, message_of
from gradcli.targets.replacement_scope import call_python_code
from gradcli.targets.target_request import TargetRequest
from gradcli.tracing.provenance import is_users_file
from gradcli.tracing.tracer import closure_values, nested_codes, unwrap_function

WITHIN = "GRADCLI_IN_SEARCH_FOR_REPAIR"  # a variable of the worker's processes: code that checks when it is loaded starts none
_MEMORY = 4 << 30  # bytes beyond those that the process has when the claim is loaded
_START = 30  # seconds of processor time that loading the user's module may take


# The right gradient in closed form, by input, where no edit is found, and the sizes that it names.
Otherwise = Callable[[Request], tuple[dict[str, str], str | Absent]]


@dataclass(frozen=True, slots=True)
class RepairRequest:
    """What is to be repaired: the check, made anew in the process, and the right gradients; `empty` is an empty folder.

    Without points edits are tried at smaller sizes alone, and without names none is.
    """

    ask: TargetRequest
    points: tuple[Right, ...]
    empty: str
    calls: int  # of the claim, that the search may take
    seconds: float  # of processor time, beside those that it takes to start
    otherwise: Otherwise
    layer: str = ""  # of a network, that is repaired alone
    lacks: bool = False  # whether the mistake may be a contribution to the gradient that is missing
    names: tuple[str, ...] = ()  # the inputs of the gradient
    number: int = 0  # of the point at which it is wrong

    def request(self, values: Mapping[str, Any] | None = None) -> Request:
        """Return what is checked, made anew, at the given point or at other values. Raises BadTarget without such a layer.

        Values of parameters that the point leaves at their defaults are given to the function; it is not differentiated by them.
        """
        more = {name: float(x) for name, x in (values or {}).items() if self.points and name not in self.points[0].at}
        if more and not self.layer:
            options = replace(self.ask.options, wrt=",".join(build_request(self.ask).wrt))
            return build_request(replace(self.ask, values={**self.ask.values, **more}, options=options), values)
        if not self.layer:
            return build_request(self.ask, values)
        found = request_of_layer(build_request(self.ask), self.layer, values)
        if found is None:
            raise BadTarget(f"{self.ask.target} holds no {self.layer} now")
        return found


@dataclass(frozen=True, slots=True)
class RepairResult:
    """The repairs of a claim in a file, whose text was `text`; or why there is none, and the right gradient in closed form."""

    path: str = ""
    text: str = ""
    repairs: tuple[Repair, ...] = ()
    right_here: tuple[Repair, ...] = ()
    why: str = ""
    evaluations: int = 0
    closed_form: Mapping[str, str] = field(default_factory=dict)
    shapes: str | Absent = ABSENT  # of the sizes that the closed form names


class _NotTried(Exception):
    """The claim is not run in search of a repair; the text says why."""


def main() -> None:
    """Answer requests from standard input on standard output, each in a copy of this process, which runs no code of the user's.

    Where a process cannot be copied, it answers one request.
    """
    die_with(os.getppid())
    while size := int.from_bytes(sys.stdin.buffer.read(LENGTH), "big"):
        request, template = sys.stdin.buffer.read(size), os.getpid()
        copy = os.fork() if FORKS else 0
        if not copy:
            if FORKS:
                die_with(template)
            _answer_request(request)
        if os.waitpid(copy, 0)[1]:
            os._exit(1)  # so that who waits for the answer sees that there is none


def _answer_request(request: bytes) -> NoReturn:
    """Answer one request on standard output, in the folder and with the environment of the process that asks, and end."""
    folder, path, environ, pickled = marshal.loads(request)
    answers, nothing = os.dup(1), os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    os.chdir(folder)
    sys.path[:] = path
    os.environ.clear()
    os.environ.update({**environ, WITHIN: "1"})
    output = pickle.dumps(result_of_search(pickled))
    with contextlib.suppress(OSError):
        write_all(answers, len(output).to_bytes(LENGTH, "big") + output)
    os._exit(0)


def result_of_search(pickled: bytes) -> RepairResult:
    """Return the result of a search for repairs, which an error of it ends: the text says which."""
    try:
        return _search_for_repairs(pickle.loads(pickled))
    except Exception as error:  # of gradcli, or of the user's objects, whose methods the search calls
        return RepairResult(why=f"an error ended the search for an edit: {_printable_message(error)}")


def _printable_message(error: Exception) -> str:
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in message_of(error))


def _search_for_repairs(wanted: RepairRequest) -> RepairResult:
    for name in ("empty", "empty_like"):
        setattr(np, name, _fill_with_nan(getattr(np, name)))
    try:
        asked = wanted.request()
    except Exception as error:  # what the user's module raises when it is loaded again
        return RepairResult(why=f"the claim cannot be loaded again: {_printable_message(error)}")
    call_python_code()
    asked = call_claim_after_function(asked) or asked
    found = _try_edits(asked, wanted) if wanted.names else RepairResult()
    if found.repairs or wanted.layer:
        return found
    _limit_process(wanted.empty, wanted.seconds)
    try:
        form, shapes = wanted.otherwise(asked)
    except MemoryError:
        return found
    return replace(found, closed_form=form, shapes=shapes)


def _try_edits(asked: Request, wanted: RepairRequest) -> RepairResult:
    """Return the edits that make the claim right, or why there is none.

    Where calls are few because each takes long, edits are tried at smaller sizes first.
    """
    here = Path.cwd()  # the folder of the names of files
    found = RepairResult(why=NO_POINTS)
    given = asked.points[min(wanted.number, len(asked.points) - 1)]
    wanted = replace(wanted, calls=calls_of_edits(asked, wanted.calls))
    small = at_smaller_sizes(asked, given, wanted.names, wanted.request, wanted.calls, wanted.points)
    if small is not None:
        there = replace(wanted, points=tuple(small.points), calls=small.calls)
        found = _search_at(small.request, there, here, small.given)
        found = replace(found, right_here=())  # these edits were tried at the given point last
    if found.repairs or not wanted.points:
        return found
    return _search_at(asked, wanted, here)


def _search_at(asked: Request, wanted: RepairRequest, here: Path, *also: Right) -> RepairResult:
    """Return the edits that make the claim right at some points, and at what is drawn from them; and `also` at some others."""
    calls = _Calls(list(wanted.points))
    try:
        claim = _editable_claim(asked, calls)
        claim.forward, claim.lacks = _forward_pass(asked, wanted.points[0], wanted.calls), wanted.lacks
    except _NotTried as reason:
        return RepairResult(why=str(reason))
    except Exception as error:  # what the user's code raises when it is called again
        return RepairResult(why=f"the claim cannot be called again: {type(error).__name__}: {error}")
    _limit_process(wanted.empty, wanted.seconds)
    try:
        claim.watch()
    except Exception as error:
        says = error.what if isinstance(error, GradcliError) else f"it raised {type(error).__name__}"
        return RepairResult(why=f"the claim cannot be called again: {says}")

    @functools.cache
    def further() -> list[Right]:
        with contextlib.chdir(here):
            found = [*also, *draw_further_points(asked, wanted.points, wanted.request)]
            calls.add(found, wanted.request)
        claim.__dict__.pop("_live", None)  # a claim of another size may have functions of its own
        return found

    search = RepairSearch(wanted.points, further, CauseBudget(wanted.calls, wanted.seconds))
    repairs = tuple(search.repairs(claim))
    why = "" if repairs else "none of the edits of its source that were tried makes the claim right"
    return RepairResult(claim.file.path, claim.file.text, repairs, tuple(search.right_here), why, search.evaluations)


def _fill_with_nan(make: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that makes new arrays full of nan: an edit that reads what nothing has written is not right then."""

    @functools.wraps(make)
    def filled(*args: Any, **more: Any) -> Any:
        made = make(*args, **more)
        if made.dtype.kind in "fc":
            made.fill(np.nan)
        return made

    return filled


@dataclass
class _Calls:
    """The points of a search, and the claim that is called at each of them.

    Where f returns its value and its gradient, it is the claim too: `values` are those that it must keep.
    """

    points: list[Right]
    requests: list[Request] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)
    returns_both: bool = False

    def begin(self, asked: Request) -> None:
        """Let the claim of a request be called at all points."""
        f = original_function(asked.f)
        self.returns_both = isinstance(f, PythonFunction) and f.pick is not None
        self.requests = [asked] * len(self.points)
        self.values = [self._value_at(number) for number in range(len(self.points))]

    def __call__(self, number: int) -> Gradient:
        """Return the claimed gradient at a point. Raises BadClaim if the value of f is another one there."""
        point, claim = self.points[number], self.requests[number].claim
        assert isinstance(claim, ClaimedFunction)
        found = reshape_like_right(point, claim(point.copied_values()))
        if self.returns_both and not np.array_equal(self._value_at(number), self.values[number], equal_nan=True):
            raise BadClaim("the edit changes the value of the function")
        return found

    def add(self, points: Sequence[Right], request_at: Callable[[Mapping[str, Any]], Request]) -> None:
        """Add points; the claim at one of another size is made anew."""
        for point in points:
            asked = request_at(point.at) if point.resized else self.requests[0]
            self.requests.append((call_claim_after_function(asked) or asked) if point.resized else asked)
        self.points += points
        self.values += [self._value_at(number) for number in range(len(self.values), len(self.points))]

    def _value_at(self, number: int) -> Any:
        f, point = original_function(self.requests[number].f), self.points[number]
        return f(point.copied_values()) if self.returns_both else None


# Which code is run again and again in search of a repair: arithmetic alone, nothing that touches files or processes.

_LIBRARIES = frozenset(
    "numpy scipy math cmath random numba torch jax jaxlib tensorflow mlx functools itertools".split()  # noqa: SIM905
)
_BUILTINS = frozenset(
    """
    len range zip enumerate sum abs min max float int list tuple dict set frozenset reversed sorted isinstance map filter any
    all round divmod slice bool str print super type complex pow iter next ValueError TypeError RuntimeError ZeroDivisionError
    NotImplementedError ArithmeticError AssertionError IndexError KeyError staticmethod classmethod property repr format
    """.split()  # noqa: SIM905 (a list is three pages long)
)
_REFUSED = frozenset(
    """
    load save savez savez_compressed loadtxt savetxt genfromtxt fromfile tofile memmap open_memmap dump dumps fromregex
    DataSource system popen remove unlink compile eval exec save_file load_library lib ctypeslib f2py distutils io
    """.split()  # noqa: SIM905
)
_STATEMENTS = (ast.Global, ast.Nonlocal, ast.Delete, ast.AsyncFunctionDef, ast.ClassDef, ast.AsyncFor, ast.AsyncWith)
_EXPRESSIONS = (ast.Await, ast.Yield, ast.YieldFrom)


def reason_to_refuse(definition: ast.AST, names: Mapping[str, Any], *, writes_around: bool = False) -> str | None:
    """Return why a function is not run in search of a repair, as a phrase; None if it may be.

    `names` are the globals of the function. With `writes_around` it may assign to what the functions around it hold, as the
    steps of an engine do. Calls of numpy, scipy, math, the frameworks, of builtin functions that compute,
    of methods of values, of functions of the same module, and of those of the user's other modules that only compute are
    allowed.
    """
    own = _names_assigned(definition)
    of_modules = {  # base in base.softmax, where this may be used
        id(node.value)
        for node in ast.walk(definition)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id not in own
        and isinstance(module := names.get(node.value.id), ModuleType) and node.attr in vars(module)
        and _may_be_used(node.attr, vars(module), names)
    }  # fmt: skip
    for node in ast.walk(definition):
        if isinstance(node, _STATEMENTS) and node is not definition:
            return f"it has a {type(node).__name__.lower()} statement, line {node.lineno}"
        if isinstance(node, _EXPRESSIONS):
            return f"it waits or yields, line {node.lineno}"
        if isinstance(node, ast.Import | ast.ImportFrom):
            modules = [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            if any(name.partition(".")[0] not in _LIBRARIES for name in modules):
                return f"it imports {modules[0]}, line {node.lineno}"
        if isinstance(node, ast.Attribute):
            if node.attr.startswith("__") or node.attr in _REFUSED:
                return f"it uses {node.attr}, line {node.lineno}"
            inner: ast.expr = node
            while isinstance(inner, ast.Attribute):
                inner = inner.value
            root = inner.id if isinstance(inner, ast.Name) else None  # self of `self.w.grad`
            if isinstance(node.ctx, ast.Store) and root not in own:  # a layer's own copy
                if writes_around and root not in names:
                    continue
                return f"it assigns to {ast.unparse(node)}, line {node.lineno}"
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id not in own:
            if id(node) in of_modules or _may_be_used(node.id, names, names):
                continue
            return f"it uses {node.id}, line {node.lineno}"
    return None


def _names_assigned(definition: ast.AST) -> set[str]:
    """Return the names that a function assigns, its parameters, and its inner functions."""
    found = set()
    for node in ast.walk(definition):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.alias):
            found.add((node.asname or node.name).partition(".")[0])
    return found


def _may_be_used(name: str, held: Mapping[str, Any], names: Mapping[str, Any]) -> bool:
    """Whether code with the globals `names` may use a name that this or another module holds."""
    if name not in held:
        return name in _BUILTINS or not hasattr(builtins, name)  # a free variable, or a name that is not there
    x = held[name]
    if name in _BUILTINS and x is getattr(builtins, name):
        return True  # by `from builtins import range`, as code for two versions of Python has it
    if isinstance(x, ModuleType):
        return x.__name__.partition(".")[0] in _LIBRARIES
    if isinstance(x, FunctionType):
        return x.__globals__ is names or x.__module__.partition(".")[0] in _LIBRARIES or _only_computes(x)
    if callable(x):
        module = str(getattr(x, "__module__", None) or getattr(type(x), "__module__", ""))
        return module.partition(".")[0] in _LIBRARIES or module == names.get("__name__")
    return True


_COMPUTES: dict[CodeType, bool] = {}  # whether functions of the user's other modules do nothing but compute


def _only_computes(function: FunctionType) -> bool:
    """Whether a function of the user's, and all that it may call, do nothing but compute."""
    code = function.__code__
    if code not in _COMPUTES:
        _COMPUTES[code] = True  # modules may call each other
        file = SourceFile.read(code.co_filename) if is_users_file(code.co_filename) else None
        definition = file.definition(code) if file is not None else None
        reached = file.reached([definition]) if file is not None and definition is not None else ()
        if not reached or any(reason_to_refuse(each, function.__globals__) is not None for each in reached):
            _COMPUTES.clear()  # those that call it were taken for harmless, too
            _COMPUTES[code] = False
    return _COMPUTES[code]


def _editable_claim(asked: Request, call: _Calls) -> CodeClaim:
    """Return the claim of a request with the functions that may be edited. Raises _NotTried."""
    if not isinstance(asked.claim, ClaimedFunction):
        raise _NotTried("the claim is no Python function")
    call.begin(asked)
    of_f: set[CodeType] = set()
    if not call.returns_both:  # else f is the claim too, and may be edited where its value stays
        of_f = {c for point in call.points for c in codes_run(lambda at=point.at: asked.f(dict(at)))}  # type: ignore[misc]
        of_f |= _codes_that_may_run(asked.f)

    def call_first() -> None:
        with contextlib.suppress(GradcliError):
            call(0)

    run = codes_run(call_first)
    path = next((c.co_filename for c in run if c not in of_f and is_users_file(c.co_filename)), None)
    if path is None:
        raise _NotTried("the claim is computed by what the function itself runs, which is never edited")
    file = SourceFile.read(path)
    if file is None:
        raise _NotTried("the claim's code is in no file that can be edited")
    used = file.reached([d for c in of_f if c.co_filename == path and (d := file.definition(c)) is not None])
    own = [d for c in run if c.co_filename == path and (d := file.definition(c)) is not None]
    inner = (c for c in run if c not in of_f and "<locals>" in c.co_qualname)
    returned = {d for c in inner if (d := file.definition(c)) is not None}
    edited = tuple(dict.fromkeys(d for d in own if (d not in used or d in returned) and d not in file.forwards))
    is_engine = asked.layer is not None and asked.layer.engine is not None
    if is_engine:  # its steps: another gradient to begin with would make one function right, and no other
        edited = tuple(d for d in edited if d in returned)
    if not edited:
        raise _NotTried("the claim is computed by the function itself, which is never edited")
    names: Mapping[str, Any]  # of the module in the file
    names = next((f.__globals__ for functions in live_functions(path).values() for f in functions), {})
    for definition in own:
        why = reason_to_refuse(definition, names, writes_around=is_engine)
        if why is not None:
            raise _NotTried(f"{getattr(definition, 'name', 'the claim')} {NOT_RUN}: {why}")

    def is_harmless(definition: ast.AST) -> bool:
        return reason_to_refuse(definition, names, writes_around=is_engine) is None

    harmless = tuple(d for d in file.definitions.values() if all(map(is_harmless, file.reached([d]))))
    around = tuple(d for d in (*own, *used) if d not in edited and d in harmless)
    beside = file.named_beside(own)
    shared = frozenset(d for d in edited if d is not own[0] and getattr(d, "name", "") in beside)
    return CodeClaim(file, edited, call, asked.claim.names or asked.wrt, around, harmless, shared)


def _codes_that_may_run(f: Function) -> set[CodeType]:
    """Return the code of a Python function, and of functions that it may call: compiled by a framework, none of it runs again."""
    f = original_function(f)
    waiting: list[Any] = [(native_of(f) or f).function] if isinstance(f, PythonFunction) else []
    found: set[CodeType] = set()
    while waiting:
        function = inspect.unwrap(unwrap_function(waiting.pop()))
        if not isinstance(function, FunctionType) or not is_users_file(function.__code__.co_filename):
            continue
        code = function.__code__
        if code in found:
            continue
        found.add(code)
        names = {name for inner in nested_codes(code) for name in inner.co_names}
        held = (function.__globals__[name] for name in names if name in function.__globals__)
        waiting += [*closure_values(function).values(), *filter(callable, held)]
    return found


def _forward_pass(asked: Request, point: Right, most: int) -> ForwardPass | None:
    """Return what a numpy function computes at a point, statement by statement; None if it cannot be read or traced."""
    f = original_function(asked.f)
    function = inspect.unwrap(f.function) if isinstance(f, PythonFunction) and native_of(f) is None else None
    if not isinstance(function, FunctionType):
        return None
    file = SourceFile.read(function.__code__.co_filename)
    if file is None or not isinstance(file.definition(function.__code__), ast.FunctionDef):
        return None
    return read_forward_pass(asked.question(Point(dict(point.at))), function.__code__, file.definition, most)


def _limit_process(empty: str, seconds: float) -> None:
    """Let the process write no file, and take little memory and time."""
    os.chdir(empty)
    try:
        import resource
    except ImportError:  # not on this platform
        return
    with contextlib.suppress(ValueError, OSError):
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * resource.getpagesize() + _MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    most_time = _START + math.ceil(seconds)
    resource.setrlimit(resource.RLIMIT_CPU, (most_time, most_time))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
