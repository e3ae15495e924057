"""What earlier runs leave: passes that hold while nothing changes, and the last verdict, time and files of every check.

Everything is JSON, with a checksum before it, and written under another name and then renamed, so that two runs at once, or
one that is killed, leave nothing half written. Nothing that is read back is executed.
"""

import contextlib
import dataclasses
import hashlib
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from gradcli.options import DEFAULTS, with_claim
from gradcli.replay import replayed
from gradcli.reports.suite import CheckRow
from gradcli.suite.config import Check, Suite
from gradcli.suite.recorder import Used

FOLDER = ".gradcli_cache"
_TAG = "Signature: 8a477f597d28d172789f06886806bc55\n# This folder holds what gradcli remembers of its last runs.\n"
_ALWAYS = ("numpy", "scipy", "sympy", "python-flint", "ml_dtypes")
_FORMAT = 1


class Cache:
    """The cache of one suite; a check whose seed is drawn is not in it.

    `notes` says what could not be read or written, each thing once.
    """

    def __init__(self, suite: Suite, threads: int, *, reads: bool) -> None:
        self._suite, self._threads, self._reads = suite, threads, reads
        self._root = suite.folder / FOLDER
        self._importable = [_modules_in(Path(folder)) for folder in suite.importable]
        self._hashes, self._names = cache(_hash_of), cache(_modules_in)
        self._began = time.time_ns()
        self.notes: list[str] = []
        self._writable = True

    def find(self, check: Check) -> tuple[dict[str, Any], float] | None:
        """Return the document and the seconds of an earlier pass of a check, if everything it depends on is the same."""
        if not self._reads or check.options.seed_is_random:
            return None
        entry = self._read(self._entry(check))
        if entry is None or entry.get("format") != _FORMAT:
            return None
        try:
            same = all(self._hashes(self._suite.folder / name) == kept for name, kept in entry["files"].items())
            same = same and all(
                self._names(self._suite.folder / name) == kept for name, kept in entry["folders"].items()
            )
            same = same and all(_version(name) == kept for name, kept in entry["distributions"].items())
            return (dict(entry["document"]), float(entry["seconds"])) if same else None
        except (KeyError, TypeError, AttributeError, ValueError):
            return None

    def keep(self, check: Check, row: CheckRow, used: Used | None) -> None:
        """Keep a pass, if all that it depends on is known."""
        if row.verdict != "pass" or row.cached or used is None or used.why_not is not None or not self._may_keep(check):
            return
        folder = self._suite.folder
        if any(_changed_at(folder / name) >= self._began for name in used.files):
            return  # what ran may be an earlier version of it
        packages = {Path(name).parent.as_posix() for name in used.files if name.endswith(".py")}
        self._write(self._entry(check), {
            "format": _FORMAT, "id": check.id, "seconds": row.seconds, "document": row.document,
            "files": {name: self._hashes(folder / name) for name in used.files},
            "folders": {name: self._names(folder / name) for name in packages},
            "distributions": {name: _version(name) for name in (*_ALWAYS, *used.distributions)},
        })  # fmt: skip

    def last(self) -> dict[str, Any]:
        """Return what is known of the last run of each check, by its id."""
        found = (self._read(self._root / "last.json") or {}).get("checks", {})
        return (
            {name: entry for name, entry in found.items() if isinstance(entry, dict)} if isinstance(found, dict) else {}
        )

    def remember(
        self, rows: Sequence[tuple[CheckRow, Used | None]], left: Sequence[str], checks: Mapping[str, Check]
    ) -> None:
        """Keep the verdict, the time and the files of checks; those of `left` were selected, and not reached."""
        if not rows and not left:
            return
        kept = self.last()
        for row, used in rows:
            known = kept.get(row.id, {}).get("files")
            files = known if row.cached else None if used is None else list(used.files)
            kept[row.id] = {
                "verdict": row.verdict, "seconds": row.seconds, "declared": declaration(checks[row.id]), "files": files,
            }  # fmt: skip
        for name in left:
            kept[name] = {**kept.get(name, {}), "verdict": "not reached"}
        self._write(self._root / "last.json", {"format": _FORMAT, "checks": kept})

    def _entry(self, check: Check) -> Path:
        path = os.environ.get("PYTHONPATH", "")
        text = json.dumps([_FORMAT, _stamp(), self._threads, digest(check), self._importable, path])
        return self._root / "passes" / f"{hashlib.sha256(text.encode()).hexdigest()}.json"

    def _may_keep(self, check: Check) -> bool:
        return check.options.device in (None, "cpu") and not check.options.seed_is_random

    def _read(self, path: Path) -> dict[str, Any] | None:
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            self._say(f"{FOLDER} cannot be read: {error.strerror}")
            return None
        head, _, body = content.partition(b"\n")
        if head.decode("ascii", "replace") != hashlib.sha256(body).hexdigest():
            self._say(f"an entry of {FOLDER} is damaged or of another version, and is ignored")
            return None
        found = json.loads(body)
        return found if isinstance(found, dict) else None

    def _write(self, path: Path, content: Mapping[str, Any]) -> None:
        if not self._writable:
            return
        body = json.dumps(content).encode()
        try:
            self._make()
            path.parent.mkdir(exist_ok=True)
            handle, name = tempfile.mkstemp(dir=path.parent, prefix=".")
            try:
                with os.fdopen(handle, "wb") as stream:
                    stream.write(hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
                Path(name).replace(path)
            except OSError:
                with contextlib.suppress(OSError):
                    Path(name).unlink()
                raise
        except OSError as error:
            self._writable = False
            self._say(f"runs without a cache: {FOLDER} cannot be written: {error.strerror}")

    def _make(self) -> None:
        """Make the folder, with what tells git and backups to leave it out."""
        self._root.mkdir(exist_ok=True)
        for name, text in ((".gitignore", "*\n"), ("CACHEDIR.TAG", _TAG)):
            if not (self._root / name).exists():
                (self._root / name).write_text(text)

    def _say(self, note: str) -> None:
        if note not in self.notes:
            self.notes.append(note)


def digest(check: Check) -> str:
    """Return a digest of what a check asks for: its target, its points, its claim and its options.

    `--seed random` asks for the same in every run, whatever is drawn.
    """
    ask = check.ask
    plain = with_claim(check.options, ask.claim)
    words = [check.id, ask.target, *ask.at, "", *replayed(plain)]
    if plain.seed_is_random:
        words[-1] = "random"
    return hashlib.sha256(json.dumps(words).encode()).hexdigest()


def declaration(check: Check) -> str:
    """Return a digest of what the project declares of a check: the options of the command line are left out."""
    defaults = {name: getattr(DEFAULTS, name) for name in check.over}
    return digest(dataclasses.replace(check, options=dataclasses.replace(check.options, **defaults)))


def digest_of(checks: Sequence[Check]) -> str:
    """Return a digest of what all checks of a suite ask for."""
    return hashlib.sha256("".join(map(digest, checks)).encode()).hexdigest()


@cache
def _stamp() -> list[Any]:
    """Return the versions that every result depends on; for gradcli also what its files are, as it may be under development."""
    root = Path(__file__).resolve().parents[1]
    files = sorted((path.relative_to(root).as_posix(), *_size_and_time(path)) for path in root.rglob("*.py"))
    return [sys.version, platform.platform(), files, {name: _version(name) for name in _ALWAYS}]


def _size_and_time(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_size, found.st_mtime_ns


@cache
def _version(name: str) -> str | None:
    """Return the version of a distribution, or of the one that a module's name belongs to; None if it is not known."""
    try:
        return version(name)
    except PackageNotFoundError:
        return ",".join(f"{other}=={version(other)}" for other in sorted(_providers().get(name, ()))) or None


@cache
def _providers() -> Mapping[str, list[str]]:
    from importlib.metadata import packages_distributions

    return packages_distributions()


def _modules_in(folder: Path) -> list[str] | None:
    """Return the names that can be imported from a folder: a new one may stand before another module. None if it is gone."""
    try:
        found = [path for path in folder.iterdir() if path.suffix in (".py", ".so", ".pyd") or path.is_dir()]
    except OSError:
        return None
    return sorted(path.name for path in found if not path.name.startswith((".", "__pycache__")))


def _changed_at(path: Path) -> int:
    """Return when a file was last changed or put in its place, in nanoseconds; 0 if it is gone."""
    try:
        found = path.stat()
    except OSError:
        return 0
    return max(found.st_mtime_ns, found.st_ctime_ns)


def _hash_of(path: Path) -> str | None:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None
