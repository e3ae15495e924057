"""Recorded calls in a file: arrays and names, nothing that is executed, so that they can be checked later or elsewhere."""

import ast
import dataclasses
import functools
import importlib
import importlib.util
import inspect
import json
import operator
import os
import re
import sys
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from gradcli.classes import dataclass
from gradcli.errors import BadOption, GradcliError
from gradcli.project.capture.recorder import (
    Definition,
    GradientPair,
    Kept,
    RecordedCalls,
    Recorder,
    ReportedDefinitions,
    squared_norm,
)
from gradcli.project.discovery.proposal import check_lines
from gradcli.project.suite.config import find_suite_file
from gradcli.targets.loading import make_importable
from gradcli.targets.points import read_array_file

_POINTS = "gradcli-points"
_LITERALS = (bool, str, type(None))  # that a point may have beside its numbers
_CLAIMS = ("grad", "jac", "hess", "hvp")
_OF_PAIR = ("convention", "wrt", "own", "joint", "part", "options")  # fields that a file has as they are
_VALUES = ("args", "kwargs", "returned", "value")  # fields of a call with arrays
_FORMAT = "gradcli.recorded/1"
_DOCUMENT = "document"
_OF_LAYER = "what a program calls by itself, as layers, is not saved: gradcli init writes checks of it"


def save_calls(recorder: Recorder, words: Sequence[str], path: Path) -> None:
    """Write the kept calls to a file. Raises BadOption if it cannot be written."""
    arrays: list[Any] = []
    gradients = [_encode_gradient(each, arrays) for each in recorder.all()]
    document = json.dumps({"schema": _FORMAT, "command": ["gradcli", "run", *words], "gradients": gradients})
    members = {_DOCUMENT: np.frombuffer(document.encode(), dtype=np.uint8)}
    members |= {f"a{number}": x for number, x in enumerate(arrays)}
    try:
        _write_arrays(path, members)
    except OSError as error:
        raise BadOption(f"{path} cannot be written: {error.strerror}", do="name another file") from None


def _write_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write arrays as `numpy.savez` does, which takes no array of the name file."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, x in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as stream:
                np.lib.format.write_array(stream, x, allow_pickle=False)


def read_saved_calls(path: Path, allow_python: bool) -> list[tuple[RecordedCalls, str]]:
    """Return the gradients of a file, with their calls where the functions can be imported, and else the reason.

    Modules must lie in the current folder, unless `allow_python` is set; the main script of a program is never run.

    Raises  BadOption for a file that holds no recorded calls.
    """
    try:
        document = json.loads(bytes(np.asarray(read_array_file(f"@{path}:{_DOCUMENT}", ""), dtype=np.uint8)).decode())
        if document["schema"] != _FORMAT:
            says = f"{path} is of another version, {document['schema']}"
            raise BadOption(says, do="record it again: gradcli run --save")
        recorder = Recorder(0, 0, 0, ReportedDefinitions())
        return [_decode_gradient(each, recorder, path, allow_python) for each in document["gradients"]]
    except BadOption:
        raise
    except (GradcliError, KeyError, TypeError, ValueError, AttributeError, RecursionError, StopIteration, IndexError):
        raise BadOption(f"{path} holds no recorded calls", do="gradcli run --save FILE.npz writes them") from None


# Which recorded functions can be named from outside of the program, and their arguments by name.


class NotReachable(Exception):
    """A function cannot be named; the message is the reason, as a part of a sentence."""


@dataclass(frozen=True, slots=True)
class Name:
    """A function as it is named: its module, the file of this, and the names from the module on."""

    module: str
    file: str
    name: str


def unwrap_partials(kept: Kept) -> Kept:
    """Return a call of the functions inside partials, with the arguments that these hold. Raises NotReachable."""
    while isinstance(kept.pair.gradient, functools.partial):
        function: Any = kept.pair.function
        gradient = kept.pair.gradient
        args, named = (function.args, function.keywords) if isinstance(function, functools.partial) else ((), {})
        same = len(args) == len(gradient.args) and named.keys() == gradient.keywords.keys()
        same = same and all(x is y for x, y in zip(args, gradient.args, strict=True))
        if not same or any(x is not gradient.keywords[name] for name, x in named.items()):
            raise NotReachable("its partial holds other arguments than that of the function")
        moved = kept.pair.wrt + len(gradient.args)
        pair = dataclasses.replace(kept.pair, function=function.func, gradient=gradient.func, wrt=moved)
        args, named = (*gradient.args, *kept.args), {**gradient.keywords, **kept.kwargs}
        kept = dataclasses.replace(kept, pair=pair, args=args, kwargs=named)
    return kept


def name_in_module(function: Any) -> Name:
    """Return the name by which a module holds a function. Raises NotReachable."""
    owner = getattr(function, "__self__", None)
    holder = type(owner) if owner is not None and not isinstance(owner, type | ModuleType) else function
    module = sys.modules.get(getattr(holder, "__module__", None) or "")
    file = getattr(module, "__file__", None)
    if module is None or file is None:
        raise NotReachable("no file of Python defines it")
    if holder is not function:
        held_as = _global_name(module, owner)
        if not held_as:
            raise NotReachable(f"it is a method of an object of {type(owner).__name__} that no module holds")
        return Name(module.__name__, file, f"{held_as}.{function.__name__}")
    name = getattr(function, "__qualname__", type(function).__name__)
    if name.endswith("<lambda>"):
        raise NotReachable("a lambda has no name")
    if "<locals>" in name:
        raise NotReachable("it is defined inside a function")
    try:
        found = functools.reduce(getattr, name.split("."), module)
    except AttributeError:
        found = None
    if found is not function and found != function:
        if getattr(module, _global_name(module, function), None) is not function:
            raise NotReachable("its module has no such name")
        name = _global_name(module, function)
    return Name(module.__name__, file, name)


def arguments_by_name(kept: Kept) -> dict[str, Any]:
    """Return the arguments of a kept call by the names that the function has for them. Raises NotReachable."""
    function: Callable[..., Any] = kept.pair.function
    parameters = getattr(function, "forward", function)
    try:
        signature = inspect.signature(parameters)
        names = [p.name for p in signature.parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    except (TypeError, ValueError):
        raise NotReachable("its parameters are not known") from None
    if names[:1] == ["ctx"]:
        names = names[1:]
    if len(kept.args) > len(names):
        raise NotReachable("it takes its arguments without names")
    return dict(zip(names, kept.args, strict=False)) | kept.kwargs


def _global_name(module: ModuleType, x: Any) -> str:
    return next((name for name, held in vars(module).items() if held is x), "")


def _encode_gradient(recorded: RecordedCalls, arrays: list[Any]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "definition": dataclasses.astuple(recorded.definition), "kind": recorded.kind, "of": recorded.of,
        "calls": recorded.calls, "pairs": [], "reason": "",
    }  # fmt: skip
    for call in recorded.kept():
        before = len(arrays)
        try:
            kept = unwrap_partials(call)
            pair = kept.pair
            if pair.convention == "layer":
                raise NotReachable(_OF_LAYER)
            if hasattr(kept.returned, "toarray"):
                kept = dataclasses.replace(kept, returned=kept.returned.toarray())
            found["pairs"].append({
                "function": _importable_name(pair.function), "gradient": _importable_name(pair.gradient),
                **{name: getattr(pair, name) for name in _OF_PAIR}, "number": kept.number, "at": kept.at,
                **{name: _encode_value(getattr(kept, name), arrays) for name in _VALUES},
            })  # fmt: skip
        except NotReachable as error:
            del arrays[before:]
            found["reason"] = str(error)
    return found


def _importable_name(function: Any) -> list[str]:
    name = name_in_module(function)
    if name.module == "__main__":
        raise NotReachable("it is defined in the script that was run: move it to a module")
    return [name.module, name.file, name.name]


def _decode_gradient(
    found: dict[str, Any], recorder: Recorder, path: Path, allow_python: bool
) -> tuple[RecordedCalls, str]:
    recorded = RecordedCalls(recorder, Definition(*found["definition"]), found["kind"], found["of"])
    recorded.elsewhere = operator.index(found["calls"])
    reason = found["reason"]
    for each in found["pairs"]:
        try:
            function, gradient = (_import_function(Name(*each[key]), allow_python) for key in ("function", "gradient"))
        except NotReachable as error:
            reason = str(error)
            continue
        pair = GradientPair(recorded.kind, function, gradient, **{name: each[name] for name in _OF_PAIR})
        args, kwargs, returned, value = (_decode_value(each[name], path) for name in _VALUES)
        at = None if each["at"] is None else tuple(each["at"])
        kept = Kept(pair, each["number"], tuple(args), kwargs, returned, value, at=at)
        recorded.places[(None, len(recorded.places))] = kept
    return recorded, reason


def _import_function(name: Name, allow_python: bool) -> Any:
    """Return a function that a module of the current folder defines. Raises NotReachable."""
    here, file = Path.cwd().resolve(), Path(name.file).resolve()
    depth = name.module.count(".") + (file.name == "__init__.py")
    if here in file.parents and depth < len(file.parents):
        make_importable(str(file.parents[depth]))
    try:
        spec = importlib.util.find_spec(name.module)
    except (ImportError, ValueError):
        spec = None
    if spec is None or not spec.has_location or spec.origin is None:
        raise NotReachable(f"there is no module {name.module} here")
    if not allow_python and here not in Path(spec.origin).resolve().parents:
        raise NotReachable(f"the module {name.module} is not in this folder: --allow-python imports it")
    try:
        found = _find_module_member(importlib.import_module(name.module), name.name)
    except NotReachable:
        raise
    except Exception as error:  # whatever the module raises
        raise NotReachable(f"{name.module} cannot be imported: {type(error).__name__}: {error}") from None
    code = getattr(getattr(found, "__func__", found), "__code__", None)
    is_own = inspect.isclass(found) and found.__module__ == name.module
    source = spec.origin if is_own else getattr(code, "co_filename", "")
    if not source or Path(source).resolve() != Path(spec.origin).resolve():
        raise NotReachable(f"{name.module} does not define {name.name}")
    return found


def _find_module_member(module: ModuleType, name: str) -> Any:
    """Return what a module holds under a dotted name, without a way through another module. Raises NotReachable."""
    found: Any = module
    for part in name.split("."):
        found = None if part.startswith("__") else getattr(found, part, None)
        if found is None or isinstance(found, ModuleType):
            raise NotReachable(f"{module.__name__} has no function {name}")
    return found


def _encode_value(x: Any, arrays: list[Any]) -> Any:
    """Return a value as JSON, with the numbers of arrays. Raises NotReachable."""
    if x is None or isinstance(x, bool | str):
        return x
    if isinstance(x, tuple | list):
        return {"tuple" if isinstance(x, tuple) else "list": [_encode_value(part, arrays) for part in x]}
    if isinstance(x, dict) and all(isinstance(name, str) for name in x):
        return {"dict": {name: _encode_value(part, arrays) for name, part in x.items()}}
    if str(getattr(x, "layout", "")).startswith("torch.sparse"):
        raise NotReachable("an argument is a sparse tensor, which has no form in a file")
    if hasattr(x, "detach"):
        x = x.detach().double().numpy() if x.is_floating_point() else x.detach().numpy()
    array = np.asarray(x)
    if array.dtype.kind not in "fiub":
        raise NotReachable(f"an argument is {type(x).__name__}, which has no form in a file")
    arrays.append(array)
    return {"array": len(arrays) - 1, "scalar": not isinstance(x, np.ndarray)}


def _decode_value(x: Any, path: Path) -> Any:
    if not isinstance(x, dict):
        return x
    if "array" in x:
        found = np.asarray(read_array_file(f"@{path}:a{int(x['array'])}", ""))
        return found.item() if x["scalar"] and found.ndim == 0 else found
    if "dict" in x:
        return {name: _decode_value(part, path) for name, part in x["dict"].items()}
    return (tuple if "tuple" in x else list)(_decode_value(part, path) for part in next(iter(x.values())))


# The checks of what a program used, as a suite: an entry for each gradient, and a file for the point of each.


def write_suite_of_calls(recorder: Recorder, path: Path, failed: Mapping[Definition, int]) -> str:
    """Write a suite for the recorded gradients, and return a line that says so.

    The point of each is its call that `failed`, by number, else the kept call of the largest input. A gradient that cannot
    be named is a comment that says why. Beside a suite in pyproject.toml, the checks are tables of that.

    Raises  BadOption if the suite cannot be written.
    """
    folder = path.parent.resolve()
    known = find_suite_file(folder)
    table = "tool.gradcli.check" if known is not None and known.name != path.name else "check"
    entries, live = [], 0
    try:
        for number, recorded in enumerate(sorted(recorder.all(), key=lambda each: each.definition.line)):
            try:
                entries.append(_suite_entry(recorded, number, folder, table, failed.get(recorded.definition)))
                live += 1
            except NotReachable as error:
                definition = recorded.definition
                place = f"{_relative_path(definition.file, folder)}:{definition.line}"
                entries.append(f"# {definition.name}, {place}: no entry, for {error}.")
        path.write_text("\n\n".join(entries) + "\n", encoding="utf-8")
    except OSError as error:
        says = f"{path} cannot be written: {error.strerror}"
        raise BadOption(says, do="name a file in a folder that exists") from None
    if known is not None and known.name != path.name:
        then = f"add its tables to {os.path.relpath(known)}"
    else:
        then = "gradcli check runs them" if path.name == "gradcli.toml" else "rename it to gradcli.toml to run them"
    return f"{path.name}: {live} of {len(entries)} gradients as checks; {then}"


def _suite_entry(recorded: RecordedCalls, number: int, folder: Path, table: str, failed: int | None) -> str:
    norm = lambda call: squared_norm(call.args[call.pair.wrt]) if len(call.args) > call.pair.wrt else 0.0
    wrong = [call for call in recorded.kept() if call.number == failed]
    kept = next(iter(wrong), max(recorded.kept(), key=norm, default=None))
    if kept is None:
        raise NotReachable("none of its calls was kept")
    if kept.process:
        raise NotReachable("its calls were in another process")
    if kept.pair.convention == "layer":
        raise NotReachable(_OF_LAYER)
    kept = unwrap_partials(kept)
    lines = _target_and_claim(kept, folder)
    given = arguments_by_name(kept)
    literals = {name: x for name, x in given.items() if isinstance(x, _LITERALS)}
    values = _as_numeric_arrays({name: x for name, x in given.items() if name not in literals})
    wrt = [*given][kept.pair.wrt] if kept.pair.convention != "framework" else None
    (folder / _POINTS).mkdir(exist_ok=True)
    stem = re.sub(r"\W+", "-", recorded.definition.name).strip("-")
    point = folder / _POINTS / f"{stem}-{number}.npz"
    _write_arrays(point, values)
    at = f"@{_POINTS}/{point.name}"
    if literals:
        at = ", ".join([f"{name}={at}:{name}" for name in values] + [f"{name}={x!r}" for name, x in literals.items()])
    lines |= {"at": at} | ({} if wrt is None or len(values) == 1 else {"wrt": wrt})
    return check_lines(lines, f"{recorded.definition.name}, call {kept.number}", table)


def _target_and_claim(kept: Kept, folder: Path) -> dict[str, str | bool]:
    """Return the target and the claim of an entry. Raises NotReachable."""
    pair = kept.pair
    if pair.convention == "framework":
        return {"target": _target_text(_require_loadable(name_in_module(pair.function)), folder)}
    plain = pair.convention in ("plain", "along", "transposed") and not pair.options  # as gradcli would call them
    plain = plain or (pair.convention == "elementwise" and np.ndim(kept.args[pair.wrt]) == 0)
    if not plain or pair.kind not in _CLAIMS:
        raise NotReachable("what it takes or returns is by a convention of scipy")
    function = _require_loadable(name_in_module(pair.function))
    if pair.joint and pair.part is not None:
        return {"target": _target_text(function, folder), "value-and-grad": True}
    gradient = _require_loadable(name_in_module(pair.gradient))
    claim = gradient.name if gradient.file == function.file else _target_text(gradient, folder)
    return {"target": _target_text(function, folder), pair.kind: claim}


def _require_loadable(name: Name) -> Name:
    """Return the name of a function whose file can be loaded without running the program. Raises NotReachable."""
    if name.module != "__main__":
        return name
    tree = ast.parse(Path(name.file).read_text(encoding="utf-8"))
    if any(isinstance(node, ast.If) and "__name__" in ast.unparse(node.test) for node in tree.body):
        return name
    script = Path(name.file).name
    raise NotReachable(f'loading {script} would run it: put its main part under if __name__ == "__main__"')


def _target_text(name: Name, folder: Path) -> str:
    return f"{_relative_path(name.file, folder)}:{name.name}"


def _relative_path(file: str, folder: Path) -> str:
    return Path(os.path.relpath(Path(file).resolve(), folder)).as_posix()


def _as_numeric_arrays(values: dict[str, Any]) -> dict[str, Any]:
    """Return values as arrays. Raises NotReachable for a value that is no number."""
    found = {}
    for name, x in values.items():
        if str(getattr(x, "layout", "")).startswith("torch.sparse"):
            raise NotReachable(f"its argument {name} is a sparse tensor")
        x = x.detach().double().numpy() if hasattr(x, "detach") else x
        array = np.asarray(x)
        if array.dtype.kind not in "fiub":
            raise NotReachable(f"its argument {name} is {type(x).__name__}, not numbers")
        found[name] = array
    return found
