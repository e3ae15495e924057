"""Python callables as functions of named inputs: the user's code runs unchanged on numpy values, traced on tracers."""

import ast
import contextlib
import functools
import inspect
import re
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import field
from typing import Any

import numpy as np

from gradcli.classes import dataclass
from gradcli.errors import FunctionFailed, GradcliError, NotSupported, TraceEnded, with_causes
from gradcli.request.target_text import Pick
from gradcli.rules import scipy as of_scipy
from gradcli.rules.pairs import ComplexPair
from gradcli.rules.shaping import as_value
from gradcli.targets import replacement_scope
from gradcli.targets.draws import Whole
from gradcli.targets.facts import Notice, OutputPart
from gradcli.targets.nesting import (
    Leaf,
    Node,
    PandasEnded,
    advise_values_of_pandas,
    is_raised_in_pandas,
    labels_by_path,
    paths_of_leaves,
    put_together,
    take_apart,
)
from gradcli.targets.replacement_scope import (
    is_tracing,
    replacement_of,
    solver_tolerances,
    stand_ins,
    users_modules,
    without_tracing,
)
from gradcli.targets.solver_tolerances import TIGHTER, watch_solvers
from gradcli.tracing.primitive import Value, without_ended_sweeps
from gradcli.tracing.provenance import package_raised, place_of_error, source_tree
from gradcli.tracing.shapes import shape
from gradcli.tracing.tracer import FloatResult, Tracer, resolve_forms, traced_result
from gradcli.words import Kind, Severity, TargetKind

_SAME = 1e-14  # relative: values that differ by less do so by rounding
_MOST_SAID = 300  # most characters quoted from an exception's message
_ABOUT_INTEGERS = ("integer", "'float", "float64'", "slice", "as indices must be")
_OF_SEQUENCES = ("'list'", "'tuple'", "sequence by non-int")
_OF_TENSORS = ("type Long", "expected Long", "as indices must be", '"nll_loss', "expected int64", "must have integer")
_POSITIONAL, _KEYWORD, _ALL_POSITIONAL, _ALL_KEYWORDS = "positional", "keyword", "*", "**"


# Convert what a function returns into one number or array; the parts of a tuple or dict are concatenated.

_NUMBER = "return a float, an array of floats, or a tuple or dict of these"


def flatten_result(y: Any, text: str) -> tuple[Value, tuple[OutputPart, ...]]:
    """Return a result as one value, and its parts in order if it is a tuple or dict (none for a single value).

    Shapes  a single value keeps its shape; the parts of a tuple or dict become one vector.
    Raises  FunctionFailed for None, strings and other objects, empty tuples and dicts, and lists of parts that differ in
            shape. Complex numbers pass, for the complex step.
    """
    y = traced_result(resolve_forms(y))
    if isinstance(y, list):
        try:
            y = as_value(_unwrap_float_results(y)) if _holds_tracer(y) else np.asarray(y)
        except ValueError:
            says = f"{text} returns a list of parts with different shapes"
            raise FunctionFailed(says, do="return a tuple of them") from None
    if not isinstance(y, tuple | dict):
        return _result_as_value(y, text), ()
    leaves = {path: _result_as_value(x, text) for path, x in take_apart("", y)[1].items()}
    if not leaves:
        raise FunctionFailed(f"{text} returns an empty {type(y).__name__}", do=_NUMBER)
    outputs = tuple(OutputPart(path.removeprefix("."), shape(x)) for path, x in leaves.items())
    return np.concatenate([np.reshape(x, (-1,)) for x in leaves.values()]), outputs


def _unwrap_float_results(y: Any) -> Any:
    return list(map(_unwrap_float_results, y)) if isinstance(y, list | tuple) else traced_result(y)


def _holds_tracer(y: Any) -> bool:
    return any(map(_holds_tracer, y)) if isinstance(y, list | tuple) else isinstance(y, Tracer | FloatResult)


def _result_as_value(y: Any, text: str) -> Value:
    y = traced_result(y)
    if isinstance(y, Tracer):
        return y
    if y is None:
        raise FunctionFailed(f"{text} returns None", do="does it lack a return statement?")
    array = np.asarray(y)
    if array.dtype == object and array.size and _holds_tracer(array.reshape(-1).tolist()):
        return as_value(array.tolist())
    if array.dtype.kind == "c":
        return array.copy()[()]  # from the complex step; `survey` has checked that the result is real on real inputs
    if array.dtype.kind not in "fiub":
        kind = "a string" if isinstance(y, str) else f"a value of type {type(y).__name__}"
        if isinstance(y, np.ndarray):
            kind = f"an array of {'strings' if y.dtype.kind in 'US' else y.dtype.name}"
        raise FunctionFailed(f"{text} returns {kind}, which has no gradient", do=_NUMBER)
    return array.astype(np.float64)[()]  # a copy: the function may use its array again


def output_entry_names(outputs: tuple[OutputPart, ...]) -> list[str]:
    """Return a name for every entry of the concatenated outputs: `loss`, `aux[3]`."""
    return [
        output.name + (f"[{','.join(map(str, at))}]" if at else "")
        for output in outputs
        for at in np.ndindex(*output.shape)
    ]


# Advice for a call that lacks arguments: the `--at` option to write, with the values given so far and examples.

_WRITTEN = 6  # most entries of an array that is written out
_INDEX = re.compile(r"(?:\[|range\()([^\[\]]*)")  # what follows an opening bracket
_SIZES = re.compile(r"\blen\([^()]*\)|\w+\.shape\b")  # what is whole for any array
_LABELS = 24  # the same of integers


def advise_missing_values(
    function: Callable[..., Any], text: str, given: Mapping[str, Any], examples: Mapping[str, str]
) -> str:
    """Return the `--at` option that completes a call, with an example for each argument that has no value."""
    known = {name: _write_value(x) for name, x in given.items()}
    dicts = {name: hint for name in examples if (hint := advise_dict(function, text, name)) is not None}
    added = [f"{name}={example}" for name, example in examples.items() if name not in dicts]
    if dicts:
        values = [*(f"{name}={x}" for name, x in known.items() if x is not None), *added]
        hint = next(iter(dicts.values())).replace(": --at", ": add --at" if None in known.values() else ": --at", 1)
        return hint + (f' --at "{", ".join(values)}"' if values else "")
    if None in known.values():
        return f'add --at "{", ".join(added)}"'
    return f'--at "{", ".join([*(f"{name}={x}" for name, x in known.items()), *added])}"'


def name_object_of_file(function: Callable[..., Any], text: str, parameter: inspect.Parameter) -> str | None:
    """Return `file.py:NAME` for an object of the target's file that a parameter may take, else None.

    It has the parameter's name, or the class that the parameter's annotation names.
    """
    file, held = text.partition(":")[0], _globals_of(function)
    if not file or file == text:
        return None
    named = held.get(parameter.name)
    if named is not None and not callable(named) and not inspect.ismodule(named):
        return f"{file}:{parameter.name}"
    kind = annotated_class(function, parameter)
    own = kind is not None and kind.__module__ == held.get("__name__")
    return next((f"{file}:{key}" for key, x in held.items() if own and type(x) is kind), None)


def annotated_class(function: Callable[..., Any], parameter: inspect.Parameter) -> type | None:
    """Return the class that the annotation of a parameter names; None for none."""
    kind = parameter.annotation
    kind = _globals_of(function).get(kind) if isinstance(kind, str) else kind
    return kind if inspect.isclass(kind) else None


def _users_function(function: Callable[..., Any]) -> Any:
    return inspect.unwrap(getattr(getattr(function, "prepared", None), "function", function))


def _globals_of(function: Callable[..., Any]) -> dict[str, Any]:
    return getattr(_users_function(function), "__globals__", {})


def advise_dict(function: Callable[..., Any], text: str, name: str) -> str | None:
    """Return `params is a dict: --at file.py:START` for a parameter that the target reads by keys; None for any other."""
    target, file = _users_function(function), text.rpartition(":")[0]
    nodes = ast.walk(source_tree(target) or ast.Module([], []))
    items = [n.slice for n in nodes if isinstance(n, ast.Subscript) and ast.unparse(n.value) == name]
    keys = {key.value for key in items if isinstance(key, ast.Constant) and isinstance(key.value, str)}
    if not keys or not file:
        return None
    held = _globals_of(function)
    fits = [key for key, x in held.items() if isinstance(x, dict) and not key.startswith("_") and keys <= set(x)]
    if not fits or next(iter(inspect.signature(target).parameters), None) != name:
        return f'{name} is a dict: return it by name from a function, {{"{name}": {{...}}}}, and name that: --at {file}:point'
    return f"{name} is a dict: --at {file}:{fits[0]}"


def _suggest_integers(values: Mapping[str, Any], inside: set[str], line: str) -> str:
    """Return the inputs that may be meant as integers in the syntax of `--at`: `n=int(3), target=int([0, 2, 1])`.

    Of those whose values are all whole numbers, those that are named `inside` an index, or on the `line` of the error, or all.
    """
    whole = {name: x for name, x in values.items() if np.size(x) and np.all(np.asarray(x) == np.floor(x))}
    chosen = (inside, set(re.findall(r"\w+", line)))
    named = ({name: x for name, x in whole.items() if name in words} for words in chosen)
    shown = {
        name: np.asarray(x).astype(int).tolist() if np.size(x) <= _LABELS else "[...]"
        for name, x in next(filter(None, named), whole).items()
    }
    return ", ".join(f"{name}=int({x})" for name, x in shown.items())


def _words_in_index(function: Any, line: str) -> set[str]:
    """Return the names that stand in an index on a line, and those of which the function makes them: `y` of `k = y[i]`."""
    words = {word for index in _INDEX.findall(_SIZES.sub("", line)) for word in re.findall(r"\w+", index)}
    tree = source_tree(inspect.unwrap(function)) or ast.Module([], [])
    for node in reversed(list(ast.walk(tree))):  # the last first: what makes a name stands before its use
        pairs: list[tuple[ast.AST, ast.AST]] = []
        if isinstance(node, ast.Assign):
            pairs = [pair for target in node.targets for pair in _match_targets(target, node.value)]
        elif isinstance(node, ast.For | ast.comprehension):
            pairs = list(_match_targets(node.target, node.iter))
        for target, value in pairs:
            if words & _names_of(target):
                words |= _names_of(value)
    return words


def _match_targets(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.AST, ast.AST]]:
    """Yield what is assigned, and what it is made of: both `(i, y)` and `(k, p)` for `for i, k in zip(y, p)`."""
    called = value.func.id if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) else ""
    targets = target.elts if isinstance(target, ast.Tuple) else []
    values = value.elts if isinstance(value, ast.Tuple) else value.args if isinstance(value, ast.Call) else []
    if called == "enumerate" and len(targets) == 2 and values:
        yield from _match_targets(targets[1], values[0])
    elif targets and len(targets) == len(values) and (called == "zip" or isinstance(value, ast.Tuple)):
        for each, part in zip(targets, values, strict=True):
            yield from _match_targets(each, part)
    elif called not in ("range", "len"):
        yield target, value


def _names_of(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def advise_variadic(function: Callable[..., Any], given: Collection[str], key: str = "a") -> str | None:
    """Return the `--at` option for the `*args` or `**kwargs` of a function, if it has some without a value, else None."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    spread = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), None)
    words = next((p.name for p in parameters if p.kind is p.VAR_KEYWORD), None)
    of_spread = f'*{spread}: --at "{spread}=(randn(3), 0.5)"'
    if words is not None and (key != "a" or not given):
        named = f'name the values of **{words}: --at "{key}=randn(3)"'
        return f"{named}; those of {of_spread}" if spread is not None and key == "a" else named
    return f"give the values of {of_spread}" if spread is not None and spread not in given else None


def _write_value(x: Any) -> str | None:
    """Return a value in the syntax of `--at`; None where the string would be long or would round the value."""
    if isinstance(x, bool | str):
        return repr(x)
    try:
        array = np.asarray(x)
    except ValueError:  # a list of arrays of several shapes
        return None
    if array.dtype.kind not in "if" or array.ndim > 1 or array.size > _WRITTEN:
        return None
    entries = [f"{float(entry):.6g}" for entry in array.reshape(-1)]
    if list(map(float, entries)) != array.reshape(-1).tolist():
        return None
    written = f"[{', '.join(entries)}]" if array.ndim else entries[0]
    return f"int({written})" if isinstance(x, Whole | np.ndarray) and array.dtype.kind == "i" else written


class PythonFunction:
    """A Python callable whose arguments have a known structure; its inputs are their float leaves, named by path.

    `arguments` holds the structure of each argument. With `pick` the function returns its value and its gradient, and these
    are the parts of its result that they are; only the value is differentiated. `solvers` are the solvers of scipy that it
    called where it was surveyed, with their tolerances in words, and `tolerance_factor` is that of smaller ones.
    """

    kind: TargetKind = "python"

    def __init__(
        self,
        function: Callable[..., Any],
        text: str,
        arguments: Mapping[str, Node],
        inputs: tuple[str, ...],
        pick: Pick | None = None,
    ) -> None:
        self.function = function
        self.text = text
        self.arguments = {name: arguments[name] for name in order_names(arguments, signature_of(function))}
        self.inputs = inputs
        self.pick = pick
        self.outputs: tuple[OutputPart, ...] = ()
        self.copies = False
        self.calls = 0  # of the function, on numbers and on tracers
        self.solvers: tuple[str, ...] = ()
        self.indices: tuple[str, ...] = ()  # arrays of whole numbers by which the function indexes
        self.tolerance_factor = TIGHTER[0]  # of solvers, where the reference is taken
        self._watched = False  # whether its solvers are: those of a claim are not
        self._passing = ways_to_pass(function, tuple(self.arguments))
        self._labelled = labels_by_path(self.arguments.values())

    def __call__(self, values: Mapping[str, Value]) -> Value:
        """Return the value as one number or array.

        Raises  FunctionFailed with the user's own message and line, or for complex results; TraceEnded, NoRule.
        """
        y = without_ended_sweeps(flatten_result(self.raw(values), self.text)[0])
        if isinstance(y, ComplexPair):
            raise self._complex_error()
        return y

    def _complex_error(self) -> FunctionFailed:
        return FunctionFailed(f"{self.text} returns complex numbers", do="return a real number: np.abs(z)**2, z.real")

    def raw(self, values: Mapping[str, Value]) -> Any:
        """Return what the function itself returns, or only the value if it returns its gradient too."""
        y = self.returned(values)
        return y if self.pick is None else self.pick.value_of(y, self.text)

    def returned(self, values: Mapping[str, Value]) -> Any:
        """Return what the function itself returns; it is called on copies if it writes into its arguments.

        Raises  FunctionFailed for an exception of the user's code; TraceEnded for one on tracers.
        """
        tracers = [x for x in values.values() if isinstance(x, Tracer)]
        try:
            if tracers:
                return self._call_traced(values, max(tracers, key=lambda x: x.level).hold)
            given = {path: np.array(x) for path, x in values.items()} if self.copies else values
            with without_tracing() if is_tracing() else contextlib.nullcontext():
                return self._called(given)
        except GradcliError as error:
            error.where = error.where or place_of_error(error.__traceback__)
            self._advise_values(error, error)
            raise
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            refused = isinstance(error, ValueError) and "read-only" in str(error)
            if refused and not tracers and not self.copies:
                self.copies = True
                return self.returned(values)
            raise self._explain_failure(error, bool(tracers), values) from error

    def _call_traced(self, values: Mapping[str, Value], hold: Callable[[Value], Value]) -> Any:
        """Call the function on tracers; raise TraceEnded even if the function caught that error and went on."""
        before = TraceEnded.raised
        with stand_ins(hold, users_modules()):
            held = {path: x if path in self._labelled else _writable_value(x, hold) for path, x in values.items()}
            y = self._called(held, replacement_of(self.function))
        if TraceEnded.raised != before:
            raise TraceEnded("an except clause of the function caught the error that ended the trace")
        return y

    def _called(self, values: Mapping[str, Value], function: Callable[..., Any] | None = None) -> Any:
        """Call the function, or what stands in for it."""
        self.calls += 1
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for name, node in self.arguments.items():
            x = put_together(node, values)
            how = self._passing.get(name, _POSITIONAL)
            if how == _POSITIONAL:
                args.append(x)
            elif how == _ALL_POSITIONAL:
                args.extend(x if isinstance(x, tuple | list) or np.ndim(x) else (x,))
            elif how == _ALL_KEYWORDS:
                kwargs |= x
            else:
                kwargs[name] = x
        # errstate undoes changes that the function makes to numpy's error handling
        with np.errstate(), watch_solvers() if self._watched else contextlib.nullcontext():
            return (function or self.function)(*args, **kwargs)

    def _explain_failure(self, error: BaseException, tracing: bool, values: Mapping[str, Value]) -> GradcliError:
        """Return our error for an exception of the user's code, with its message and line; TraceEnded while tracing."""
        where = place_of_error(error.__traceback__)
        # numpy replaces our error by its own in `a[i] = t`
        cause = next((each for each in with_causes(error) if isinstance(each, GradcliError)), None)
        if cause is not None:
            cause.where = cause.where or where
            return self._advise_values(cause, error)
        if isinstance(error, SystemExit):
            return FunctionFailed(f"{self.text} called sys.exit({error.code!r})", where=where)
        said = message_of(error)
        if tracing:
            package = package_raised(error.__traceback__)
            what = f"{package[0]} of {package[1]} is not traced" if package is not None else "the trace ended"
            return self._advise_values(TraceEnded(f"{what}: {said}", where=where), error)
        return FunctionFailed(f"{self.text} raised {said}", where=where, do=self._advice_on_error(error, values))

    def _advise_values(self, ended: GradcliError, error: BaseException) -> GradcliError:
        """Let the error that ended a trace inside pandas say to take the values."""
        if isinstance(ended, NotSupported) and not isinstance(ended, PandasEnded) and is_raised_in_pandas(error):
            ended.do = advise_values_of_pandas(next(iter(self._labelled), "df"))
        return ended

    def _advice_on_error(self, error: BaseException, values: Mapping[str, Value]) -> str | None:
        text = message_of(error)
        if isinstance(error, TypeError | AttributeError) and re.search(r"\b(function|method)\b", text):
            for name, node in self.arguments.items():
                if inspect.isroutine(given := put_together(node, values)):
                    called = f"{given.__name__}()"
                    return f"{name} is the function {given.__name__}; {called}, where it needs no arguments, is what it returns"
        if isinstance(error, TypeError | IndexError):
            leaves = [name for name, node in self.arguments.items() if isinstance(node, Leaf)]
            dicts = filter(None, (advise_dict(self.function, self.text, name) for name in leaves))
            if (hint := next(dicts, None)) is not None:
                return hint
            for name, node in self.arguments.items() if any(word in text for word in _OF_SEQUENCES) else ():
                given, numbers = put_together(node, values), [values[path] for path in paths_of_leaves(node)]
                if isinstance(given, list | tuple) and all(np.ndim(x) == 0 for x in numbers):
                    return f"{name} is a {type(given).__name__} of numbers; give an array: np.array({name})"
        key = error.args[0] if isinstance(error, KeyError) and error.args else None
        if isinstance(key, str) and key.isidentifier():
            signature = signature_of(self.function)
            variadic = signature and any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values())
            return advise_variadic(self.function, self.arguments, key) if variadic else None
        words = _ABOUT_INTEGERS if isinstance(error, TypeError | IndexError) else _OF_TENSORS
        if not any(word in text for word in words):
            return None
        where = place_of_error(error.__traceback__)
        line = where.text if where else ""
        arrays = words is _OF_TENSORS or isinstance(error, IndexError) or "ndarray" in text
        floats = {name: values[name] for name in self.inputs if arrays or np.shape(values[name]) == ()}
        inside = _words_in_index(self.function, line)
        arrays_given = {name: np.asarray(x) for name, x in floats.items() if shape(x) and np.size(x)}  # such as labels
        self.indices = tuple(n for n, x in arrays_given.items() if n in inside and np.all(x == np.floor(x)))
        whole = _suggest_integers(floats, inside, line) or "n=int(3)"
        return f'numbers are floats unless written int(3): --at "{whole}"'

    def survey(self, values: Mapping[str, Value]) -> tuple[Value, list[Notice]]:
        """Return the value and notices: the function writes into inputs, is not deterministic, or returns an int.

        Cost    two calls of the function, of which the recording of a framework's function may be one; up to three more if it
                calls a solver of scipy.
        """
        self._watched = True
        with solver_tolerances(1.0) as calls:
            y, self.outputs, notices = self._first(values)
        with solver_tolerances(1.0) as more:  # the first call may have imported scipy
            again = self._value_again(values, y)
        self.solvers = tuple(dict.fromkeys((*self.solvers, *calls, *more)))
        self._watched = bool(self.solvers)
        if self.solvers:
            self.tolerance_factor = min(self.tolerance_factor, self._factor_that_changes(values, y))
        if shape(again) != shape(y) or not np.array_equal(np.asarray(again), np.asarray(y), equal_nan=True):
            a, b = np.asarray(y, dtype=float), np.asarray(again, dtype=float)
            size = f" by {float(np.max(np.abs(a - b), initial=0.0)):.1e}" if a.shape == b.shape else ""
            says = f"two calls with the same arguments give different values{size}"
            hint = "fix the seed inside the function, or pass the random numbers as an input"
            notices.append(Notice(Kind.NOT_DETERMINISTIC, Severity.INCONCLUSIVE, says, hint=hint))
        if self.copies:
            says = f"{self.text} writes into its input; it was given copies"
            notices.append(Notice(Kind.MUTATES_INPUT, Severity.WARNING, says))
        return y, notices

    def _value_again(self, values: Mapping[str, Value], y: Value) -> Value:
        """Return the value by another call, which the run that was recorded is, if it gave just this value."""
        recorded = getattr(self.function, "recorded_result", None)
        if recorded is not None:
            again = flatten_result(recorded, self.text)[0]
            if shape(again) == shape(y) and np.array_equal(again, y):
                return again
        return flatten_result(self.raw(values), self.text)[0]

    def _factor_that_changes(self, values: Mapping[str, Value], y: Value) -> float:
        """Return the factor of the tolerances of solvers that changes the value; a step of a solver may overshoot the first."""
        for factor in TIGHTER:
            with solver_tolerances(factor):
                z = flatten_result(self.raw(values), self.text)[0]
            if shape(z) == shape(y) and np.any(np.abs(z - y) > _SAME * np.abs(y)):
                return factor
        return TIGHTER[0]

    def _first(self, values: Mapping[str, Value]) -> tuple[Value, tuple[OutputPart, ...], list[Notice]]:
        raw = self.raw(values)
        y, outputs = flatten_result(raw, self.text)
        if np.iscomplexobj(y):
            raise self._complex_error()
        if isinstance(raw, int | np.integer) and not isinstance(raw, bool):
            says = f"{self.text} returns an int ({int(raw)}), whose gradient is zero"
            return y, outputs, [Notice(Kind.INTEGER, Severity.WARNING, says, hint="return a float")]
        return y, outputs, [] if self.pick is not None else _value_and_gradient_notice(raw, values, self.inputs)


def signature_of(function: Callable[..., Any]) -> inspect.Signature | None:
    """Return a callable's signature, or None if it has none (some C functions)."""
    return _cached_facts(function).signature


@dataclass(slots=True)
class _Known:
    """Cached facts about a callable: its signature, and how arguments with given names are passed."""

    own: Any
    signature: inspect.Signature | None
    passing: dict[tuple[str, ...], dict[str, str]] = field(default_factory=dict)


_KNOWN: weakref.WeakKeyDictionary[Callable[..., Any], _Known] = weakref.WeakKeyDictionary()


def _cached_facts(function: Callable[..., Any]) -> _Known:
    own = getattr(function, "__signature__", None)
    try:
        known = _KNOWN.get(function)
        if known is None or known.own is not own:
            known = _KNOWN[function] = _Known(own, _read_signature(function))
    except TypeError:  # it is not hashable, or has no weak references
        return _Known(own, _read_signature(function))
    return known


def _read_signature(function: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (ValueError, TypeError):
        return None


def order_names(names: Iterable[str], signature: inspect.Signature | None) -> list[str]:
    """Return argument names in the order of the parameters; names that are no parameter come last."""
    names = list(names)
    if signature is None or list(signature.parameters) == names:
        return names
    order = {name: k for k, name in enumerate(signature.parameters)}
    return sorted(names, key=lambda name: order.get(name, len(order)))


def ways_to_pass(function: Callable[..., Any], given: tuple[str, ...]) -> dict[str, str]:
    """Return how each argument of a function is passed: by position, by name, as `*args` or as `**kwargs`."""
    known = _cached_facts(function)
    if given not in known.passing:
        known.passing[given] = _choose_passing(known.signature, given)
    return known.passing[given]


def _choose_passing(signature: inspect.Signature | None, given: tuple[str, ...]) -> dict[str, str]:
    """Return how each argument is passed: by position up to the first parameter that is left out, then by name."""
    found, unbroken = {}, True
    if signature and any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values()):
        found = {name: _KEYWORD for name in given if name not in signature.parameters and name.isidentifier()}
    for name, parameter in (signature.parameters if signature else {}).items():
        if name not in given:
            unbroken = unbroken and parameter.kind is parameter.VAR_POSITIONAL
        elif parameter.kind is parameter.VAR_POSITIONAL:
            found[name] = _ALL_POSITIONAL
        elif parameter.kind is parameter.VAR_KEYWORD:
            found[name] = _ALL_KEYWORDS
        else:
            found[name] = _POSITIONAL if unbroken and parameter.kind is not parameter.KEYWORD_ONLY else _KEYWORD
    return found


def message_of(error: BaseException) -> str:
    """Return an exception's type and message, in one line."""
    try:
        text = " ".join(str(error).split())
        if len(text) > _MOST_SAID:
            text = text[:_MOST_SAID].rpartition(" ")[0] + " ..."
    except Exception:
        text = "its message cannot be written"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _writable_value(x: Value, hold: Callable[[Value], Value]) -> Value:
    """Return a value that the function may write into: a twin of a tracer, or a float64 array held by the sweep."""
    if isinstance(x, Tracer):
        return x.twin()
    return hold(x) if type(x) is np.ndarray and x.dtype == np.float64 else x


def _value_and_gradient_notice(raw: Any, values: Mapping[str, Value], inputs: tuple[str, ...]) -> list[Notice]:
    """Return a notice if a function returns a scalar and an array shaped like its input, as for scipy's `jac=True`."""
    if not isinstance(raw, tuple) or hasattr(raw, "_fields") or not inputs:
        return []
    wanted = shape(values[inputs[0]])
    kinds = [None if isinstance(part, dict | tuple | list | str | None) else shape(part) for part in raw]
    orders = [(0, 1)] if len(raw) > 2 else [(0, 1), (1, 0)]
    if not wanted or max(map(len, orders)) > len(raw):
        return []
    found = next(((k, j) for k, j in orders if kinds[k] == () and kinds[j] == wanted), None)
    if found is None:
        return []
    hint = "if the second is the gradient: --value-and-grad"
    if len(raw) > 2 or found != (0, 1):
        hint = f"if part {found[1]} is the gradient: --pick value={found[0]},grad={found[1]}"
    says = "it returns a scalar and an array shaped like its input: both are differentiated, as outputs"
    return [Notice(Kind.VALUE_AND_GRADIENT, Severity.WARNING, says, hint=hint)]


# The stand-ins of scipy's solvers and of np.roots: they use those that are in place while tracing, and so are added here.


def _stand_ins_of_solvers(module: str) -> Mapping[str, Callable[..., Any]]:
    from gradcli.targets import solutions

    return solutions.FUNCTIONS[module]


def _replace_roots(p: Value) -> Value:
    from gradcli.targets import solutions

    return solutions.roots(p)


of_scipy.SOLVERS.update(
    (module, functools.partial(_stand_ins_of_solvers, module)) for module in ("integrate", "optimize")
)
replacement_scope.SOLVED["roots"] = _replace_roots
