"""An implementation of a function, which is checked against a reference: another implementation of the same function."""

import platform
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from gradcli.checks.probe import Located
from gradcli.classes import dataclass
from gradcli.errors import BadClaim, BadTarget
from gradcli.frameworks.adapt import adapt_target
from gradcli.frameworks.native import Native
from gradcli.modes.claim import prepare_claim
from gradcli.process.threads import thread_count
from gradcli.request.options import Options
from gradcli.request.target_text import is_python
from gradcli.targets.loading import load
from gradcli.targets.python import PythonFunction
from gradcli.tracing.shapes import shape


@dataclass(frozen=True, slots=True)
class Implementation:
    """A function that takes the inputs of its reference by their names; `native` is its function in a framework, if any."""

    text: str
    f: PythonFunction
    native: Native | None


def implementation_of(
    target: str | Callable[..., Any], reference: Located, options: Options
) -> tuple[Implementation, Located]:
    """Return the implementation that a target names, and its reference at values that its format holds.

    Raises  BadTarget if it is no Python function; BadClaim if its result has another size than the reference's.
    """
    module, text = None, getattr(target, "__qualname__", type(target).__name__)
    function: Any = target
    if isinstance(target, str):
        if not is_python(target):
            raise BadTarget(f"'{target}' is an expression", do="--reference is for Python functions: file.py:name")
        loaded = load(target)
        module, function, text = loaded.module, loaded.found, loaded.text
    native = adapt_target(function, text, module, options)
    taken = prepare_claim(function if native is None else native, text, reference.arguments).function
    found = Implementation(text, taken, native)
    if native is not None:
        points = []
        for point in reference.points:
            values = dict(point.values)
            for name, x in point.values.items():
                if isinstance(x, float | np.ndarray) and np.asarray(x).dtype.kind == "f":
                    values[name] = native.numbers(x)
            points.append(replace(point, values=values, value=None))
        reference = replace(reference, points=tuple(points))
    values = reference.points[0].values
    ours, theirs = np.asarray(found.f(values)), np.asarray(reference.f(values))
    if ours.size != theirs.size:
        says = f"{found.text} returns shape {shape(ours)}, and its reference {reference.f.text} shape {shape(theirs)}"
        raise BadClaim(says, do="give a reference with the same result")
    return found, replace(reference, module=module)


# The versions and settings that a report records about the machine.


def installed_version(package: str) -> str | None:
    """Return the version of an installed package without importing it, or None if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def describe_environment(frameworks: tuple[str, ...] = ()) -> dict[str, str | int]:
    """Return the versions that a result depends on, with those of the frameworks used, and the thread limit if one is set."""
    limit = thread_count()
    return _collect_versions(frameworks) if limit is None else {**_collect_versions(frameworks), "threads": limit}


@cache
def _collect_versions(frameworks: tuple[str, ...]) -> dict[str, str | int]:
    own: dict[str, str | int] = {
        "gradcli": installed_version("gradcli") or "unknown", "python": platform.python_version(), "numpy": np.__version__,
    }  # fmt: skip
    return own | {name: installed_version(name) or "unknown" for name in frameworks}
