"""The verdict and the time of each check when it was last run, for `--last-failed` and for the order of workers.

The file is written under another name and then renamed, so that two runs at once, or one that is killed, leave it whole.
"""

import contextlib
import json
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gradcli.report.suite import CheckRow

FOLDER = ".gradcli_cache"  # in the folder of the suite
_FORMAT = 2
_TAG = "Signature: 8a477f597d28d172789f06886806bc55\n# This folder holds what gradcli remembers of its last runs.\n"
Tell = Callable[[str], None]


def read_last_run(folder: Path, tell: Tell) -> dict[str, dict[str, Any]]:
    """Return what is known of the last run of each check of a suite in a folder, by its id; `tell` takes why there is nothing."""
    try:
        content = json.loads((folder / FOLDER / "last.json").read_text(encoding="utf-8"))
        if content["format"] == _FORMAT:
            return {name: entry for name, entry in content["checks"].items() if isinstance(entry, dict)}
    except FileNotFoundError:
        return {}
    except OSError as error:
        tell(f"note: {FOLDER} cannot be read: {error.strerror}")
        return {}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        pass
    tell(f"note: {FOLDER}/last.json is damaged or of another version, and is ignored")
    return {}


def write_last_run(folder: Path, rows: Sequence[CheckRow], not_reached: Sequence[str], tell: Tell) -> None:
    """Keep the verdict and the time of checks, beside those of other checks; `tell` takes why they cannot be kept."""
    if not rows and not not_reached:
        return
    kept = read_last_run(folder, lambda note: None)  # it was told when the run began
    kept |= {row.id: {"verdict": row.verdict, "seconds": row.seconds} for row in rows}
    kept |= {name: {**kept.get(name, {}), "verdict": "not reached"} for name in not_reached}
    try:
        _write(folder / FOLDER, json.dumps({"format": _FORMAT, "checks": kept}))
    except OSError as error:
        tell(f"note: the verdicts are not kept for --last-failed: {FOLDER} cannot be written: {error.strerror}")


def _write(folder: Path, text: str) -> None:
    """Write the file, and what tells git and backups to leave its folder out. Raises OSError."""
    folder.mkdir(exist_ok=True)
    for name, content in ((".gitignore", "*\n"), ("CACHEDIR.TAG", _TAG)):
        if not (folder / name).exists():
            (folder / name).write_text(content)
    handle, name = tempfile.mkstemp(dir=folder, prefix=".")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
        Path(name).replace(folder / "last.json")
    except OSError:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise
