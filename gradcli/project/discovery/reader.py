"""The process that reads: files and declared checks come in as one document, gradients go out as another.

It is a process of its own so that a file that needs much memory, or ends the process, takes nothing else with it. Before
each file its number is written, so that the file that ended the process is known.
"""

import ast
import dataclasses
import gc
import io
import json
import os
import subprocess
import sys
import tokenize
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

from gradcli.errors import BadOption, GradcliError
from gradcli.project.discovery.bodies import collect_scopes
from gradcli.project.discovery.gather import files_of_checks, gather_gradients
from gradcli.project.discovery.project import Declared, Findings, Project, paths_of_module, python_files

LARGEST = 5_000_000  # bytes of a file that is read
MEMORY = 4 << 30  # bytes that the process may take
RECURSION = 3_000  # frames; a tree of Python's parser is never deeper than its own limit


class CannotRead(Exception):
    """A file cannot be read; the text says why."""


def parse_file(path: str) -> ast.Module:
    """Return the tree of a file, read in the encoding that it declares. Raises CannotRead."""
    try:
        if Path(path).stat().st_size > LARGEST:
            raise CannotRead(f"larger than {LARGEST // 1_000_000} MB")
        content = Path(path).read_bytes()
        text = content.decode(_declared_encoding(content))
        if "\0" in text:
            raise CannotRead("null bytes")
        return ast.parse(text, path)
    except UnicodeDecodeError as error:
        raise CannotRead(f"not {error.encoding}") from None
    except SyntaxError as error:
        line = f", line {error.lineno}" if error.lineno else ""
        raise CannotRead(f"syntax error{line}: {error.msg}") from None
    except (RecursionError, MemoryError):
        raise CannotRead("nested too deeply") from None
    except OSError as error:
        raise CannotRead(error.strerror or "cannot be opened") from None
    except ValueError as error:
        raise CannotRead(str(error)[:80]) from None


def _declared_encoding(content: bytes) -> str:
    """Return the encoding that a file declares. Raises CannotRead for one that is unknown, or where none is right."""
    try:
        return tokenize.detect_encoding(io.BytesIO(content).readline)[0]
    except SyntaxError as error:
        unknown = str(error.msg).startswith("unknown")
        raise CannotRead(error.msg if unknown else "not UTF-8, and no other encoding is declared") from None


def read_files(request: dict[str, Any], progress: TextIO) -> dict[str, Any]:
    """Return what the files hold, as data: the gradients, and the files that cannot be read."""
    once: dict[str, str] = {}  # by the file itself, which several paths can lead to
    for path in request["paths"]:
        for file in python_files(path):
            once.setdefault(os.path.realpath(file), file)
    files = [*once.values()]
    declared = [Declared(d["id"], d["target"], tuple(d["claims"]), Path(d["folder"])) for d in request["declared"]]
    skipped: dict[str, str] = request["skipped"]
    unreadable = {file: reason for file, reason in skipped.items() if file in files}
    project = Project()
    for file in dict.fromkeys([*files, *files_of_checks(declared, files)]):
        if file in skipped:
            continue
        progress.write(json.dumps({"reading": file}) + "\n")
        progress.flush()
        try:
            project.add(collect_scopes(parse_file(file), file))
        except CannotRead as error:
            unreadable[file] = str(error)
        except RecursionError:
            unreadable[file] = "nested too deeply"
        except MemoryError:
            unreadable[file] = "needs too much memory"
    progress.write(json.dumps({"reading": None}) + "\n")
    found = gather_gradients(project, [file for file in files if file in project.sources], declared)
    shown = [{"file": file, "reason": reason} for file, reason in unreadable.items() if file in files]
    return {"paths": request["paths"], "gradients": [dataclasses.asdict(g) for g in found], "unreadable": shown}


def main() -> None:
    """Read a request from standard input, and write progress and the answer to standard output."""
    limit_resources()
    gc.disable()  # trees hold no cycles, and looking for some takes half of the time
    warnings.simplefilter("ignore")  # such as of escapes in the files
    request = json.loads(sys.stdin.buffer.read())
    out = io.TextIOWrapper(sys.stdout.buffer, encoding="ascii")
    out.write(json.dumps(read_files(request, out)) + "\n")
    out.flush()


def limit_resources() -> None:
    """Bound the memory and the recursion of this process, where the system can."""
    sys.setrecursionlimit(RECURSION)
    try:
        import resource
    except ImportError:  # no such limits on this system
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = MEMORY if hard == resource.RLIM_INFINITY else min(MEMORY, hard)
    if soft == resource.RLIM_INFINITY or soft > most:
        resource.setrlimit(resource.RLIMIT_AS, (most, hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


# Find the hand-written gradients of a project: start the process that reads, and take what it says.

_MOST_CRASHES = 20  # files that end the process before it is given up
_START = "import sys; sys.path.append({root!r}); from gradcli.project.discovery.reader import main; main()"


def find_gradients(paths: Sequence[str], declared: Sequence[Declared] = ()) -> Findings:
    """Return the hand-written gradients in files, folders, and modules by their names, read by one process that runs none.

    Raises  BadOption for a path or module that is not there, or a file that is not Python.
    """
    located = [found for path in paths for found in _locate_path(path)]
    skipped: dict[str, str] = {}
    for _ in range(_MOST_CRASHES):
        answer, at, reason = _run_reader(located, declared, skipped)
        if answer is not None:
            return findings_of_answer(answer)
        if at is None or at in skipped:
            break
        skipped[at] = reason
    raise GradcliError(f"the process that reads the files ended: {reason}", do="name fewer files")


def _locate_path(path: str) -> tuple[str, ...]:
    """Return a path that is there, or else the paths of the module that it names. Raises BadOption."""
    if Path(path).exists():
        if Path(path).is_file() and Path(path).suffix != ".py":
            raise BadOption(f"{path} is no Python file", do="name files that end in .py, or folders")
        return (path,)
    found = paths_of_module(path)
    if not found:
        do = "name files or folders, or modules of this environment such as scipy.optimize"
        raise BadOption(f"there is no file, folder or Python module '{path}'", do=do)
    return found


def _run_reader(
    paths: Sequence[str], declared: Sequence[Declared], skipped: dict[str, str]
) -> tuple[dict[str, Any] | None, str | None, str]:
    """Return the answer; or, if the process ended, the file that it was reading, and how it ended."""
    root = str(Path(__file__).resolve().parents[3])
    asked = [{"id": d.id, "target": d.target, "claims": d.claims, "folder": str(d.folder)} for d in declared]
    request = json.dumps({"paths": [*paths], "declared": asked, "skipped": skipped})
    command = [sys.executable, "-I", "-S", "-c", _START.format(root=root)]
    ran = subprocess.run(command, input=request.encode(), capture_output=True, check=False)
    try:
        last = json.loads(ran.stdout.splitlines()[-1])
    except (IndexError, ValueError):  # the process ended before its first line, or within one
        last = {}
    if ran.returncode == 0 and "gradients" in last:
        return last, None, ""
    at = last.get("reading")
    if ran.returncode < 0:
        return None, at, f"it ends the process that reads it (signal {-ran.returncode})"
    said = ran.stderr.decode(errors="replace").strip().splitlines()
    return None, at, said[-1][:200] if said else f"status {ran.returncode}"


def findings_of_answer(answer: dict[str, Any]) -> Findings:
    """Return the findings of an answer of the process that reads, which loads no numpy."""
    from gradcli.report.encode import decode_document

    return decode_document(Findings, answer)
