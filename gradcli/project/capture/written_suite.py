"""The checks of what a program used, as a suite: an entry for each gradient, and a file for the point of each."""

import ast
import json
import os
import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from gradcli.errors import BadOption
from gradcli.project.capture.recorder import Kept, Recorded, Recorder
from gradcli.project.capture.saved import largest
from gradcli.project.capture.shared_state import Name, NotReachable, arguments, named, without_partials

_POINTS = "gradcli-points"
_CLAIMS = {"grad": "grad", "jac": "jac", "hess": "hess", "hvp": "hvp"}


def write_suite(recorder: Recorder, path: Path) -> str:
    """Write a suite for the recorded gradients, and return a line that says so.

    The point of each is the kept call of the largest input. A gradient that cannot be named is a comment that says why.

    Raises  BadOption if the suite cannot be written.
    """
    folder = path.parent.resolve()
    entries, live = [], 0
    try:
        for number, recorded in enumerate(sorted(recorder.all(), key=lambda each: each.definition.line)):
            try:
                entries.append(_entry(recorded, number, folder))
                live += 1
            except NotReachable as error:
                definition = recorded.definition
                place = f"{_relative(definition.file, folder)}:{definition.line}"
                entries.append(f"# {definition.name}, {place}: no entry, for {error}.")
        path.write_text("\n\n".join(entries) + "\n", encoding="utf-8")
    except OSError as error:
        raise BadOption(
            f"{path} cannot be written: {error.strerror}", do="name a file in a folder that exists"
        ) from None
    return f"{path.name}: {live} of {len(entries)} gradients as checks; gradcli check runs them"


def _entry(recorded: Recorded, number: int, folder: Path) -> str:
    kept = largest(recorded.kept()) if recorded.places else None
    if kept is None:
        raise NotReachable("none of its calls was kept")
    if kept.process:
        raise NotReachable("its calls were in another process")
    kept = without_partials(kept)
    lines = _target(kept, folder)
    values = _numbers(arguments(kept))
    wrt = [*values][kept.pair.wrt] if kept.pair.convention != "framework" else None
    (folder / _POINTS).mkdir(exist_ok=True)
    stem = re.sub(r"\W+", "-", recorded.definition.name).strip("-")
    point = folder / _POINTS / f"{stem}-{number}.npz"
    with zipfile.ZipFile(point, "w") as archive:
        for name, x in values.items():
            with archive.open(f"{name}.npy", "w") as stream:
                np.lib.format.write_array(stream, x, allow_pickle=False)
    lines |= {"at": f"@{_POINTS}/{point.name}"} | ({} if wrt is None or len(values) == 1 else {"wrt": wrt})
    body = "\n".join(f"{key} = {json.dumps(value)}" for key, value in lines.items())
    return f"[[check]]\nid = {json.dumps(f'{recorded.definition.name}, call {kept.number}')}\n{body}"


def _target(kept: Kept, folder: Path) -> dict[str, Any]:
    """Return the target and the claim of an entry. Raises NotReachable."""
    pair = kept.pair
    if pair.convention == "framework":
        return {"target": _written(_loadable(named(pair.function)), folder)}
    if not _is_plain(kept) or pair.kind not in _CLAIMS:
        raise NotReachable("what it takes or returns is by a convention of scipy")
    function = _loadable(named(pair.function))
    if pair.joint and pair.part is not None:
        return {"target": _written(function, folder), "value-and-grad": True}
    gradient = _loadable(named(pair.gradient))
    claim = gradient.name if gradient.file == function.file else _written(gradient, folder)
    return {"target": _written(function, folder), _CLAIMS[pair.kind]: claim}


def _is_plain(kept: Kept) -> bool:
    """Whether the function and its gradient are called as gradcli would call them."""
    pair = kept.pair
    if pair.convention == "elementwise":
        return np.ndim(kept.args[pair.wrt]) == 0
    return pair.convention in ("plain", "along", "transposed") and not pair.options


def _loadable(name: Name) -> Name:
    """Return the name of a function whose file can be loaded without running the program. Raises NotReachable."""
    if name.module != "__main__":
        return name
    tree = ast.parse(Path(name.file).read_text(encoding="utf-8"))
    if any(isinstance(node, ast.If) and "__name__" in ast.unparse(node.test) for node in tree.body):
        return name
    raise NotReachable(
        f'loading {Path(name.file).name} would run it: put its main part under if __name__ == "__main__"'
    )


def _written(name: Name, folder: Path) -> str:
    return f"{_relative(name.file, folder)}:{name.name}"


def _relative(file: str, folder: Path) -> str:
    return Path(os.path.relpath(Path(file).resolve(), folder)).as_posix()


def _numbers(values: dict[str, Any]) -> dict[str, Any]:
    """Return values as arrays. Raises NotReachable for a value that is no number."""
    found = {}
    for name, x in values.items():
        x = x.detach().double().numpy() if hasattr(x, "detach") else x
        array = np.asarray(x)
        if array.dtype.kind not in "fiub":
            raise NotReachable(f"its argument {name} is {type(x).__name__}, not numbers")
        found[name] = array
    return found
