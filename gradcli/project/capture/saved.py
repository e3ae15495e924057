"""Recorded calls in a file: arrays and names, nothing that is executed, so that they can be checked later or elsewhere."""

import dataclasses
import importlib
import importlib.util
import inspect
import json
import operator
import zipfile
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from gradcli.errors import BadOption, GradcliError
from gradcli.project.capture.definitions import Definition
from gradcli.project.capture.recorder import Kept, Pair, Recorded, Recorder, norm_of
from gradcli.project.capture.shared_state import Name, NotReachable, named, without_partials
from gradcli.targets.loading import importable
from gradcli.targets.points import from_file

_FORMAT = "gradcli.recorded/1"
_DOCUMENT = "document"


class _Unsaved(Exception):
    """A value has no form in a file."""


def save(recorder: Recorder, words: Sequence[str], path: Path) -> None:
    """Write the kept calls to a file. Raises BadOption if it cannot be written."""
    arrays: list[Any] = []
    gradients = [_written(each, arrays) for each in recorder.all()]
    document = json.dumps({"schema": _FORMAT, "command": ["gradcli", "run", *words], "gradients": gradients})
    members = {_DOCUMENT: np.frombuffer(document.encode(), dtype=np.uint8)}
    members |= {f"a{number}": x for number, x in enumerate(arrays)}
    try:
        with zipfile.ZipFile(path, "w") as archive:
            for name, x in members.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as stream:
                    np.lib.format.write_array(stream, x, allow_pickle=False)
    except OSError as error:
        raise BadOption(f"{path} cannot be written: {error.strerror}", do="name another file") from None


def read(path: Path, allow_python: bool) -> list[tuple[Recorded, str]]:
    """Return the gradients of a file, with their calls where the functions can be imported, and else the reason.

    Modules must lie in the current folder, unless `allow_python` is set; the main script of a program is never run.

    Raises  BadOption for a file that holds no recorded calls.
    """
    try:
        document = json.loads(bytes(np.asarray(from_file(f"@{path}:{_DOCUMENT}", ""), dtype=np.uint8)).decode())
        if document["schema"] != _FORMAT:
            raise BadOption(
                f"{path} is of another version, {document['schema']}", do="record it again: gradcli run --save"
            )
        return [_listed(each, path, allow_python) for each in document["gradients"]]
    except BadOption:
        raise
    except (GradcliError, KeyError, TypeError, ValueError, AttributeError, RecursionError, StopIteration, IndexError):
        raise BadOption(f"{path} holds no recorded calls", do="gradcli run --save FILE.npz writes them") from None


def _written(recorded: Recorded, arrays: list[Any]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "definition": dataclasses.astuple(recorded.definition), "kind": recorded.kind, "of": recorded.of,
        "calls": recorded.calls, "pairs": [], "reason": "",
    }  # fmt: skip
    for call in recorded.kept():
        before = len(arrays)
        try:
            kept = without_partials(call)
            pair = kept.pair
            found["pairs"].append({
                "function": _name(pair.function), "gradient": _name(pair.gradient), "convention": pair.convention,
                "wrt": pair.wrt, "own": pair.own, "joint": pair.joint, "part": pair.part, "options": dict(pair.options),
                "number": kept.number, "at": kept.at, "args": _encoded(kept.args, arrays),
                "kwargs": _encoded(kept.kwargs, arrays), "returned": _encoded(_dense(kept.returned), arrays),
                "value": _encoded(kept.value, arrays),
            })  # fmt: skip
        except (_Unsaved, NotReachable) as error:
            del arrays[before:]
            found["reason"] = str(error)
    return found


def _name(function: Any) -> list[str]:
    name = named(function)
    if name.module == "__main__":
        raise NotReachable("it is defined in the script that was run: move it to a module")
    return [name.module, name.file, name.name]


def _listed(found: dict[str, Any], path: Path, allow_python: bool) -> tuple[Recorded, str]:
    definition = Definition(*found["definition"])
    recorded = Recorded(definition, found["kind"], found["of"], len(found["pairs"]), "")
    recorded.elsewhere = operator.index(found["calls"])
    reason = found["reason"]
    for each in found["pairs"]:
        try:
            function, gradient = (_imported(Name(*each[key]), allow_python) for key in ("function", "gradient"))
        except NotReachable as error:
            reason = str(error)
            continue
        pair = Pair(
            recorded.kind, function, gradient, each["convention"], each["wrt"], each["own"], each["joint"], each["part"],
            each["options"],
        )  # fmt: skip
        args, kwargs, returned, value = (_decoded(each[key], path) for key in ("args", "kwargs", "returned", "value"))
        at = None if each["at"] is None else tuple(each["at"])
        kept = Kept(pair, each["number"], tuple(args), kwargs, returned, value, at=at)
        recorded.places[(None, len(recorded.places))] = kept
    return recorded, reason


def _imported(name: Name, allow_python: bool) -> Any:
    """Return a function that a module of the current folder defines. Raises NotReachable."""
    here, file = Path.cwd().resolve(), Path(name.file).resolve()
    depth = name.module.count(".") + (file.name == "__init__.py")
    if here in file.parents and depth < len(file.parents):
        importable(str(file.parents[depth]))
    try:
        spec = importlib.util.find_spec(name.module)
    except (ImportError, ValueError):
        spec = None
    if spec is None or not spec.has_location or spec.origin is None:
        raise NotReachable(f"there is no module {name.module} here")
    if not allow_python and here not in Path(spec.origin).resolve().parents:
        raise NotReachable(f"the module {name.module} is not in this folder: --allow-python imports it")
    try:
        found = _member(importlib.import_module(name.module), name.name)
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


def _member(module: ModuleType, name: str) -> Any:
    """Return what a module holds under a dotted name, without a way through another module. Raises NotReachable."""
    found: Any = module
    for part in name.split("."):
        found = None if part.startswith("__") else getattr(found, part, None)
        if found is None or isinstance(found, ModuleType):
            raise NotReachable(f"{module.__name__} has no function {name}")
    return found


def _dense(x: Any) -> Any:
    return x.toarray() if hasattr(x, "toarray") else x


def _encoded(x: Any, arrays: list[Any]) -> Any:
    """Return a value as JSON, with the numbers of arrays. Raises _Unsaved."""
    if x is None or isinstance(x, bool | str):
        return x
    if isinstance(x, tuple | list):
        return {"tuple" if isinstance(x, tuple) else "list": [_encoded(part, arrays) for part in x]}
    if isinstance(x, dict) and all(isinstance(name, str) for name in x):
        return {"dict": {name: _encoded(part, arrays) for name, part in x.items()}}
    if hasattr(x, "detach"):
        x = x.detach().double().numpy() if x.is_floating_point() else x.detach().numpy()
    array = np.asarray(x)
    if array.dtype.kind not in "fiub":
        raise _Unsaved(f"an argument is {type(x).__name__}, which has no form in a file")
    arrays.append(array)
    return {"array": len(arrays) - 1, "scalar": not isinstance(x, np.ndarray)}


def _decoded(x: Any, path: Path) -> Any:
    if not isinstance(x, dict):
        return x
    if "array" in x:
        found = np.asarray(from_file(f"@{path}:a{int(x['array'])}", ""))
        return found.item() if x["scalar"] and found.ndim == 0 else found
    if "dict" in x:
        return {name: _decoded(part, path) for name, part in x["dict"].items()}
    return (tuple if "tuple" in x else list)(_decoded(part, path) for part in next(iter(x.values())))


def largest(calls: Sequence[Kept]) -> Kept:
    """Return the call whose input has the largest norm."""
    return max(calls, key=lambda kept: norm_of(kept.args[kept.pair.wrt]) if len(kept.args) > kept.pair.wrt else 0.0)
