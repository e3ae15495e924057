"""Advice for a call that lacks arguments: the `--at` option to write, with the values given so far and examples."""

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from gradcli.targets.draws import Whole

_WRITTEN = 6  # most entries of an array that is written out
_INDEX = re.compile(r"(?:\[|range\()([^\[\]]*)")  # what follows an opening bracket
_LABELS = 24  # the same of integers


def what_to_add(function: Callable[..., Any], text: str, given: Mapping[str, Any], examples: Mapping[str, str]) -> str:
    """Return the `--at` option that completes a call, with an example for each argument that has no value."""
    known = {name: _written(x) for name, x in given.items()}
    dicts = {name: hint for name in examples if (hint := as_dict(function, text, name)) is not None}
    added = [f"{name}={example}" for name, example in examples.items() if name not in dicts]
    if dicts:
        values = [*(f"{name}={x}" for name, x in known.items() if x is not None), *added]
        hint = next(iter(dicts.values())).replace(": --at", ": add --at" if None in known.values() else ": --at", 1)
        return hint + (f' --at "{", ".join(values)}"' if values else "")
    if None in known.values():
        return f'add --at "{", ".join(added)}"'
    return f'--at "{", ".join([*(f"{name}={x}" for name, x in known.items()), *added])}"'


def as_dict(function: Callable[..., Any], text: str, name: str) -> str | None:
    """Return `params is a dict: --at file.py:START` for a parameter that the target reads by keys; None for any other."""
    target = inspect.unwrap(getattr(getattr(function, "prepared", None), "function", function))
    keys = _keys_read(target, name)
    file = text.rpartition(":")[0]
    if not keys or not file:
        return None
    held = getattr(target, "__globals__", {})
    fits = [key for key, x in held.items() if isinstance(x, dict) and not key.startswith("_") and keys <= set(x)]
    if not fits or next(iter(inspect.signature(target).parameters), None) != name:
        return f'{name} is a dict: return it by name from a function, {{"{name}": {{...}}}}, and name that: --at {file}:point'
    return f"{name} is a dict: --at {file}:{fits[0]}"


def as_integers(values: Mapping[str, Any], line: str) -> str:
    """Return the inputs that may be meant as integers in the syntax of `--at`: `n=int(3), target=int([0, 2, 1])`.

    Of those whose values are all whole numbers, those that the `line` of the error names, or all.
    """
    whole = {name: x for name, x in values.items() if np.size(x) and np.all(np.asarray(x) == np.floor(x))}
    words = set(re.findall(r"\w+", line))
    inside = {word for index in _INDEX.findall(line) for word in re.findall(r"\w+", index)}
    for chosen in (words & inside, words):
        named = {name: x for name, x in whole.items() if name in chosen}
        if named:
            whole = named
            break
    return ", ".join(f"{name}=int({_whole(x)})" for name, x in whole.items())


def _whole(x: Any) -> str:
    if np.size(x) > _LABELS:
        return "[...]"
    return str(np.asarray(x).astype(int).tolist())


def open_ended(function: Callable[..., Any], given: Collection[str], key: str = "a") -> str | None:
    """Return the `--at` option for the `*args` or `**kwargs` of a function, if it has some without a value, else None."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(p.kind is p.VAR_KEYWORD for p in parameters) and (key != "a" or not given):
        named = (
            f'name the values of **{next(p.name for p in parameters if p.kind is p.VAR_KEYWORD)}: --at "{key}=randn(3)"'
        )
        spread = [p.name for p in parameters if p.kind is p.VAR_POSITIONAL]
        return f'{named}; those of *{spread[0]}: --at "{spread[0]}=(randn(3), 0.5)"' if spread and key == "a" else named
    spread = [p.name for p in parameters if p.kind is p.VAR_POSITIONAL and p.name not in given]
    return f'give the values of *{spread[0]}: --at "{spread[0]}=(randn(3), 0.5)"' if spread else None


def _keys_read(target: Any, name: str) -> set[str]:
    """Return the keys by which a function's source reads a parameter, `w` of `params["w"]`."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(target)))
    except (OSError, TypeError, SyntaxError):
        return set()
    read = (node for node in ast.walk(tree) if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name))
    slices = [node.slice for node in read if isinstance(node.value, ast.Name) and node.value.id == name]
    return {key.value for key in slices if isinstance(key, ast.Constant) and isinstance(key.value, str)}


def _written(x: Any) -> str | None:
    """Return a value in the syntax of `--at`; None where the string would be long or would round the value."""
    if isinstance(x, bool | str):
        return repr(x)
    array = np.asarray(x)
    if array.dtype.kind not in "if" or array.ndim > 1 or array.size > _WRITTEN:
        return None
    entries = [f"{float(entry):.6g}" for entry in array.reshape(-1)]
    if not _exact(entries, array.reshape(-1).tolist()):
        return None
    written = f"[{', '.join(entries)}]" if array.ndim else entries[0]
    return f"int({written})" if isinstance(x, Whole | np.ndarray) and array.dtype.kind == "i" else written


def _exact(texts: Sequence[str], entries: Sequence[float]) -> bool:
    return all(float(text) == entry for text, entry in zip(texts, entries, strict=True))
