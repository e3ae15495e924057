"""Save the point of a check in a file that `--at @FILE` can read."""

import json
import os
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradcli.cli.world import World
from gradcli.errors import BadOption
from gradcli.words import Verdict

if TYPE_CHECKING:
    from gradcli.report.check import CheckReport

_ENDINGS = (".npz", ".json")


def writable_point_path(text: str) -> Path:
    """Return the path of `--save-point`. Raises BadOption if its ending is unknown or it cannot be written."""
    path = Path(text)
    if path.suffix.lower() not in _ENDINGS:
        says = f"--save-point writes {' or '.join(_ENDINGS)}, not '{text[:80]}'"
        raise BadOption(says, do="write --save-point point.npz")
    if not path.parent.is_dir() or path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise BadOption(f"{text[:80]} cannot be written", do="name a file in a folder that exists")
    return path


def write_point(report: "CheckReport", path: Path) -> None:
    """Write the first point that did not pass, or else the first point.

    Raises  BadOption for a point with values that are not numeric, or a file that cannot be written.
    """
    point = next((p for p in report.points if p.verdict != Verdict.PASS), report.points[0])
    if not point.at:
        return  # time was up before a point was known
    others = [name for name, x in point.at.items() if isinstance(x, str | bytes) or not _is_numeric(x)]
    if others:
        says = f"the point was not saved: {', '.join(others[:3])} {'is' if len(others) == 1 else 'are'} not numeric"
        raise BadOption(says, do="write a Python function that returns it: --at file.py:point")
    try:
        if path.suffix.lower() == ".json":
            path.write_text(_point_as_json(point.at), encoding="utf-8")
        else:
            _write_npz(point.at, path)
    except (OSError, ValueError, TypeError) as error:
        raise BadOption(f"the point cannot be saved in {path}: {error}", do="name another file") from None


def _is_numeric(x: Any) -> bool:
    import numpy as np

    return np.asarray(x).dtype.kind in "fiub"


def _point_as_json(at: Mapping[str, Any]) -> str:
    """Return a point as strict JSON, with infinities and nan as words, and integers as `int(3)`."""
    import numpy as np

    from gradcli.report.encode import encode

    kept: dict[str, Any] = {}
    for name, array in ((name, np.asarray(x)) for name, x in at.items()):
        kept[name] = f"int({array.tolist()})" if array.dtype.kind in "iu" else encode(array.tolist())
    inside = {"at": kept} if {"at", "points"} & set(kept) else kept  # else these keys would be read as a report's
    return json.dumps(inside, allow_nan=False) + "\n"


def _write_npz(at: Mapping[str, Any], path: Path) -> None:
    """Write a point in the format of numpy.savez, which itself cannot take some names, such as `file`."""
    import numpy as np

    with zipfile.ZipFile(path, "w") as archive:
        for name, x in at.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as stream:
                np.lib.format.write_array(stream, np.asarray(x), allow_pickle=False)


# `--patch FILE`: write the repairs of wrong claims as one diff.


def write_patches(reports: Iterable["CheckReport"], file: str, world: World) -> None:
    """Write the patches that reports hold to a file, and say so; say why there is none.

    Raises  BadOption if the file cannot be written.
    """
    from gradcli.repair.full_check import patch_in, reason_in

    reports = list(reports)
    patches = list(dict.fromkeys(patch for report in reports if (patch := patch_in(report)) is not None))
    if not patches:
        why = reason_in(reports[0]) if len(reports) == 1 else "no repair was found"
        world.tell(f"{file} was not written: {why}")
        return
    try:
        Path(file).write_text("".join(patches), encoding="utf-8", newline="")
    except OSError as error:
        says = f"--patch {file}: {error.strerror or error}"
        raise BadOption(says, do="name a file in a folder that is there") from None
    several = f"{len(patches)} repairs are" if len(patches) > 1 else "the repair is"
    world.tell(f"{several} in {file}: git apply {file}")
