"""Find the hand-written gradients of a project: start the process that reads, and take what it says."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gradcli.errors import BadOption, GradcliError
from gradcli.project.discovery.found import Declared, Findings, Found, Parameter, Unread

_MOST_CRASHES = 20  # files that end the process before it is given up
_START = "import sys; sys.path.append({root!r}); from gradcli.project.discovery.reader import main; main()"


def find(paths: Sequence[str], declared: Sequence[Declared] = ()) -> Findings:
    """Return the hand-written gradients in files and folders, read by one process without running any of them.

    Raises  BadOption for a path that is not there, or a file that is not Python.
    """
    for path in paths:
        if not Path(path).exists():
            raise BadOption(f"there is no file or folder '{path}'", do="name files or folders that are there")
        if Path(path).is_file() and Path(path).suffix != ".py":
            raise BadOption(f"{path} is no Python file", do="name files that end in .py, or folders")
    skipped: dict[str, str] = {}
    for _ in range(_MOST_CRASHES):
        answer, at, reason = _ask(paths, declared, skipped)
        if answer is not None:
            return findings_of(answer)
        if at is None or at in skipped:
            break
        skipped[at] = reason
    raise GradcliError(f"the process that reads the files ended: {reason}", do="name fewer files")


def _ask(
    paths: Sequence[str], declared: Sequence[Declared], skipped: dict[str, str]
) -> tuple[dict[str, Any] | None, str | None, str]:
    """Return the answer; or, if the process ended, the file that it was reading, and how it ended."""
    root = str(Path(__file__).resolve().parents[3])
    asked = [{"id": d.id, "target": d.target, "claims": d.claims, "folder": str(d.folder)} for d in declared]
    request = json.dumps({"paths": [*paths], "declared": asked, "skipped": skipped})
    command = [sys.executable, "-I", "-S", "-c", _START.format(root=root)]
    ran = subprocess.run(command, input=request.encode(), capture_output=True, check=False)
    lines = ran.stdout.decode("ascii", "replace").splitlines()
    last = _document(lines[-1]) if lines else None
    if ran.returncode == 0 and last is not None and "gradients" in last:
        return last, None, ""
    at = last.get("reading") if last is not None else None
    if ran.returncode < 0:
        return None, at, f"it ends the process that reads it (signal {-ran.returncode})"
    said = ran.stderr.decode(errors="replace").strip().splitlines()
    return None, at, said[-1][:200] if said else f"status {ran.returncode}"


def _document(line: str) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def findings_of(answer: dict[str, Any]) -> Findings:
    """Return the findings of an answer of the process that reads."""
    gradients = []
    for each in answer["gradients"]:
        parameters = tuple(Parameter(**p) for p in each.pop("parameters"))
        gradients.append(Found(**each | {"checked_by": tuple(each["checked_by"]), "parameters": parameters}))
    return Findings(tuple(gradients), tuple(Unread(**u) for u in answer["unreadable"]))
