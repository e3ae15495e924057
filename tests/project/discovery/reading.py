"""What the tests of discovery share: files written into a folder, and what is found in them, read in this process."""

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gradcli.project.discovery.project import Findings
from gradcli.project.discovery.reader import findings_of_answer, read_files

HEAD = "import numpy as np\nfrom scipy.optimize import minimize, least_squares, newton\n"


def written(folder: Path, files: Mapping[str, str | bytes]) -> None:
    """Write files below a folder."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


def found(folder: Path, files: Mapping[str, str | bytes], paths: tuple[str, ...] = (".",), *declared: Any) -> list[Any]:
    """Return the gradients that are found in files, which are written first; the process is in the folder."""
    written(folder, files)
    checks = [{"id": i, "target": t, "claims": c, "folder": str(folder)} for i, t, *c in declared]
    return read_files({"paths": paths, "declared": checks, "skipped": {}}, io.StringIO())["gradients"]


def names(folder: Path, source: str) -> list[tuple[str, str, str | None, str]]:
    """Return name, kind, function and evidence of what is found in one file."""
    return [(g["name"], g["kind"], g["of"], g["found_by"]) for g in found(folder, {"a.py": source}, ("a.py",))]


def find(paths: Sequence[str]) -> Findings:
    """Return what is found in files and folders, as `find_gradients` does, without a process."""
    answer = read_files({"paths": [*paths], "declared": [], "skipped": {}}, io.StringIO())
    return findings_of_answer(json.loads(json.dumps(answer)))
