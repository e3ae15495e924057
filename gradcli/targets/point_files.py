"""Which files the strings of a point name, `x=@x.npy` or `@point.npz`, and whether they are there; nothing is read."""

import re
from collections.abc import Iterator
from pathlib import Path

from gradcli.errors import BadPoint, TooLarge

MAX_FILE_BYTES = 2**30
PATH_OF_AN_ENTRY = r"\w+(?:\.\w+|\[\d+\])*"
_KINDS = (".npy", ".npz", ".json", ".csv")
_VALUE = re.compile(r"(?:(?<=^)|(?<=[,;\n]))\s*(?P<name>\w+)\s*=\s*@(?P<file>[^,;\n]+)")
_ASSIGNED = re.compile(rf"\s*{PATH_OF_AN_ENTRY}\s*=(?!=)")
_QUOTED = re.compile(r"'[^'\n]*'|\"[^\"\n]*\"")


def without_quotes(text: str) -> str:
    """Return the string with each quoted part replaced by blanks, so that columns do not shift."""
    return _QUOTED.sub(lambda match: " " * len(match.group()), text)


def file_values(text: str) -> Iterator[re.Match[str]]:
    """Yield where a string of `--at` has values that are files, `x=@x.npy`: the spans of the groups `name` and `file`."""
    yield from _VALUE.finditer(without_quotes(text))


def gives_values(text: str) -> bool:
    """Whether a string of `--at` begins with `NAME=`, so that it is no path of a file that happens to have `=` in it."""
    match = _ASSIGNED.match(text)
    return match is not None and not exists(Path(text.partition(".py")[0] + ".py"))


def data_file(reference: str, name: str) -> tuple[Path, str]:
    """Return the path in `@file.npy` or `@file.npz:key`, and the key, which is the input's name if there is none.

    Raises  BadPoint for a file that is missing or of another kind; TooLarge.
    """
    path_text, key = reference.removeprefix("@"), name
    if not exists(Path(path_text)) and ":" in path_text:
        path_text, _, key = path_text.rpartition(":")
    path = _regular(Path(path_text))
    if path.suffix.lower() not in _KINDS:
        raise BadPoint(f"{path.name} is not a kind of file gradcli reads", do="use .npy, .npz, .json or .csv")
    return path, key


def point_file(reference: str) -> Path:
    """Return the path in `@point.npz` or `@point.json`. Raises BadPoint, TooLarge."""
    path = _regular(Path(reference.removeprefix("@")))
    if path.suffix.lower() not in (".npz", ".json"):
        do = "use .npz or .json for a whole point, x=@file.npy for one input"
        raise BadPoint(f"{path.name} holds no point", do=do)
    return path


def exists(path: Path) -> bool:
    """Whether there is such a file or folder; False for a path that no file can have."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _regular(path: Path) -> Path:
    if not exists(path):
        raise BadPoint(f"there is no file {path}", do="check the path")
    if not path.is_file():
        raise BadPoint(f"{path} is not a regular file", do="give a data file")
    if path.stat().st_size > MAX_FILE_BYTES:
        raise TooLarge(f"{path.name} is larger than {MAX_FILE_BYTES:,} bytes", do="use a smaller file")
    return path
