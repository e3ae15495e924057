"""Which checks of a suite are run: by name, by what happened last time, and by shard; and shards put together again."""

import ast
import contextlib
import dataclasses
import hashlib
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from gradcli.classes import dataclass
from gradcli.errors import BadOption, GradcliError, Span
from gradcli.project.discovery.reader import CannotRead, parse_file
from gradcli.project.suite.config import Suite, SuiteCheck, digest_of_check, read_suite
from gradcli.report.common import ABSENT
from gradcli.report.encode import NotADocument, decode_document
from gradcli.report.point_report import Detects
from gradcli.report.suite import CheckRow, Shard, SuiteReport, count_verdicts, exit_status_of_checks
from gradcli.request.option_values import MOST_SHARDS
from gradcli.request.options import CLAIM_KINDS
from gradcli.request.target_text import TARGET
from gradcli.words import Exit, Severity

Wanted = Callable[[str], bool]  # whether a text in lower case is selected
_WORD = re.compile(r"\s*(?:(?P<quoted>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")|(?P<word>[^\s()'\"]+)|(?P<sign>[()]))")


def select_by_name(checks: Sequence[SuiteCheck], expression: str) -> tuple[SuiteCheck, ...]:
    """Return the checks whose id or target an expression of names with `and`, `or` and `not` selects, as in pytest.

    Raises  BadOption for an expression that cannot be read, or that selects nothing.
    """
    wanted = _Expression(expression).read()
    found = tuple(check for check in checks if wanted(f"{check.id}\n{check.ask.target}".lower()))
    if not found:
        raise BadOption(f"no check is selected by -k '{expression}'", do="gradcli check --list shows all")
    return found


class _Expression:
    """Reads `focal and not (huber or lost)`; names in quotes may hold blanks, and quotes after a backslash."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._words: list[tuple[str, str, int]] = []
        start = 0
        while text[start:].strip():
            match = _WORD.match(text, start)
            if match is None:
                raise self._syntax_error("this quote has no end", len(text) - len(text[start:].lstrip()))
            kind = str(match.lastgroup)
            self._words.append((kind, match[kind], match.start(kind)))
            start = match.end()
        self._k = 0

    def read(self) -> Wanted:
        """Return the predicate. Raises BadOption."""
        found = self._read_alternatives()
        if self._k < len(self._words):
            raise self._syntax_error("this does not belong here", self._words[self._k][2])
        return found

    def _read_alternatives(self) -> Wanted:
        parts = [self._read_conjunction()]
        while self._take_word("or"):
            parts.append(self._read_conjunction())
        return lambda text: any(part(text) for part in parts)

    def _read_conjunction(self) -> Wanted:
        parts = [self._read_term()]
        while self._take_word("and"):
            parts.append(self._read_term())
        return lambda text: all(part(text) for part in parts)

    def _read_term(self) -> Wanted:
        if self._take_word("not"):
            inner = self._read_term()
            return lambda text: not inner(text)
        if self._k == len(self._words):
            raise self._syntax_error("a name is missing here", len(self._text))
        kind, word, start = self._words[self._k]
        self._k += 1
        if (kind, word) == ("sign", "("):
            found = self._read_alternatives()
            if not self._take_word(")"):
                raise self._syntax_error("this bracket is not closed", start)
            return found
        if kind == "sign" or (kind == "word" and word in ("and", "or")):
            raise self._syntax_error("a name is missing here", start)
        name = (re.sub(r"\\(.)", r"\1", word[1:-1]) if kind == "quoted" else word).lower()
        return lambda text: name in text

    def _take_word(self, word: str) -> bool:
        found = self._k < len(self._words) and self._words[self._k][:2] in (("word", word), ("sign", word))
        self._k += found
        return found

    def _syntax_error(self, what: str, start: int) -> BadOption:
        text = self._text or " "
        where = Span(text, min(start, len(text) - 1))
        return BadOption(f"-k cannot be read: {what}", where=where, do='write -k "focal and not huber"')


def select_not_passed(checks: Sequence[SuiteCheck], last: Mapping[str, Any]) -> tuple[SuiteCheck, ...]:
    """Return the checks that did not pass last time, or were not reached. Raises BadOption if there are none."""
    found = tuple(check for check in checks if last.get(check.id, {}).get("verdict") != "pass")
    if not found:
        raise BadOption("every check passed last time", do="without --last-failed all are run")
    return found


def ids_of_shard(ids: Iterable[str], shard: tuple[int, int]) -> frozenset[str]:
    """Return the ids that belong to the K-th of N shards, which depends on the id alone."""
    index, count = shard
    numbers = {name: int(hashlib.sha256(name.encode()).hexdigest()[:16], 16) for name in ids}
    return frozenset(name for name, number in numbers.items() if number % count == index - 1)


# Which checks `--changed` selects: those that depend on a file that differs from git. All of it is read, and nothing is run.

_IMPORTERS = ("import_module", "__import__")  # functions that import the module of a name
_INSTALLED = {"site-packages", "dist-packages"}


def changed_checks(suite: Suite, checks: Iterable[SuiteCheck], since: str | None) -> tuple[SuiteCheck, ...]:
    """Return the checks that depend on what differs from git's HEAD, or from where HEAD left `since`.

    A check depends on its declaration, on the files that it names, and on the modules of the project that are reached by
    imports from those of its target, its claim, its reference and its point.

    Raises  BadOption where there is no git repository, or `since` is not known there.
    """
    if since is not None and since.startswith("-"):
        raise BadOption(f"'{since}' names no commit", do="write --changed-since main")
    top = Path(_run_git(suite.folder, "rev-parse", "--show-toplevel").rstrip("\n"))
    base = "HEAD" if since is None else _run_git(top, "merge-base", "HEAD", since).strip()
    names = _run_git(top, "diff", "--name-only", "--no-renames", "-z", base, "--")
    names += _run_git(top, "ls-files", "--others", "--exclude-standard", "-z")  # new files that git does not ignore
    changed = frozenset(str(top / name) for name in names.split("\0") if name)
    if not changed:
        return ()
    project = _Project(suite, top, changed)
    declared = project.declared_differently(base)
    return tuple(check for check in checks if check.id in declared or project.has_changed_for(check))


def checks_of_files(suite: Suite, checks: Sequence[SuiteCheck], files: Iterable[Path]) -> tuple[SuiteCheck, ...]:
    """Return the checks that depend on one of these files, as `changed_checks` has it; all where one declares the checks."""
    changed = frozenset(str(file.resolve()) for file in files)
    if suite.path is not None and str(suite.path.resolve()) in changed:
        return tuple(checks)
    project = _Project(suite, suite.folder.resolve(), changed)
    return tuple(check for check in checks if project.has_changed_for(check))


class _Project:
    """The files of a project, and those of them that changed."""

    def __init__(self, suite: Suite, top: Path, changed: frozenset[str]) -> None:
        self._suite, self._top, self._changed = suite, top, changed
        folders = (Path(folder).resolve() for folder in (*suite.importable, *sys.path))
        inside = (folder for folder in folders if folder.is_relative_to(top) and not _INSTALLED & {*folder.parts})
        self._importable = frozenset(map(str, inside))
        self._imports, self._imported = cache(_imported_modules), cache(self._files_imported_by)
        self._was_there = cache(lambda file: file in changed or _is_file(file))  # now, or before it changed
        # itself, though it may be there no longer, or the file that a link leads to
        self._has_changed = cache(
            lambda file: file in changed or (_is_file(file) and str(Path(file).resolve()) in changed)
        )
        self._leads_to_change = cache(self._can_reach_change)

    def declared_differently(self, base: str) -> frozenset[str]:
        """Return the ids of the checks whose declaration at a commit was another one, or cannot be read."""
        path, profile = self._suite.path, self._suite.profile
        if path is None or str(path.resolve()) not in self._changed:
            return frozenset()
        now = {check.id: digest_of_check(check) for check in read_suite(path, profile).checks}
        try:
            text = _run_git(self._top, "show", f"{base}:{path.resolve().relative_to(self._top).as_posix()}")
            before = {check.id: digest_of_check(check) for check in read_suite(path, profile, text=text).checks}
        except GradcliError:
            return frozenset(now)
        return frozenset(name for name, found in now.items() if before.get(name) != found)

    def has_changed_for(self, check: SuiteCheck) -> bool:
        """Whether a file changed that a check names, or a module that is reached from one that it names."""
        options = check.ask.options
        claims = (*(getattr(options, kind) for kind in CLAIM_KINDS), options.reference)
        files, folders = set[str](), set[str]()  # modules are imported from these folders too
        for text in (check.ask.target, *check.ask.at, *claims):
            for part in {text, *re.split(r"[,;\n=]", text)} if isinstance(text, str) else ():
                name, match = part.strip(), TARGET.fullmatch(part.strip())
                if name.startswith("@"):
                    named = (name[1:], name[1:].rpartition(":")[0])  # file.npz:key
                    files |= {str(self._path_in_suite(each)) for each in named}
                elif match is not None and not match["file"].endswith(".py"):
                    for folder in self._importable:
                        files |= {*_possible_module_files(folder, match["file"])}
                elif match is not None or name.endswith(".py"):
                    module = self._path_in_suite(name if match is None else match["file"])
                    inits = (str(folder / "__init__.py") for folder in module.parents)
                    packages = [*itertools.takewhile(self._was_there, inits)]
                    files |= {str(module), *packages}
                    folders |= {str(module.parent), str(module.parents[len(packages)])}
        own_folders = frozenset(folders - self._importable)
        return any(self._leads_to_change(file, own_folders) for file in files)

    def _path_in_suite(self, text: str) -> Path:
        return Path(os.path.normpath(self._suite.folder.resolve() / text))

    def _can_reach_change(self, file: str, own_folders: frozenset[str]) -> bool:
        """Whether a file changed, or one that is reached by imports from it."""
        seen, waiting = {file}, [file]
        while waiting:
            here = waiting.pop()
            if self._has_changed(here):
                return True
            found = (self._imported(here, self._importable) | self._imported(here, own_folders)) - seen
            seen |= found
            waiting += found
        return False

    def _files_imported_by(self, file: str, folders: frozenset[str]) -> frozenset[str]:
        """Return the files that a file imports from these folders, and those it would import if they were still there."""
        found = set[str]()
        for level, name in self._imports(file):
            for folder in map(str, Path(file).parents[level - 1 : level]) if level else folders:
                found.update(filter(self._was_there, _possible_module_files(folder, name)))
        return frozenset(found)


def _is_file(file: str) -> bool:
    return os.path.isfile(file)  # noqa: PTH113 (of a path that no file can have, it is False)


def _possible_module_files(folder: str, name: str) -> Iterator[str]:
    """Yield where a module of a dotted name can be below a folder, and the packages that hold it."""
    for part in filter(None, name.split(".")):
        yield from (f"{folder}{os.sep}{part}.py", f"{folder}{os.sep}{part}{os.sep}__init__.py")
        folder += os.sep + part


def _imported_modules(file: str) -> frozenset[tuple[int, str]]:
    """Return the modules that a file imports, each as the number of its leading dots and its name; none if it cannot be read.

    What is imported from a module counts as a module too.
    """
    if not file.endswith(".py"):
        return frozenset()
    try:
        with warnings.catch_warnings(action="ignore"):  # of the user's code
            tree = parse_file(file)
    except CannotRead:
        return frozenset()
    found: set[tuple[int, str]] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {(0, alias.name) for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {(node.level, ".".join(filter(None, (node.module, alias.name)))) for alias in node.names}
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in _IMPORTERS:
            for name in (argument.value for argument in node.args[:1] if isinstance(argument, ast.Constant)):
                found |= {(len(name) - len(name.lstrip(".")), name.lstrip("."))} if isinstance(name, str) else set()
    return frozenset(found)


def _run_git(folder: Path, *words: str) -> str:
    command = ["git", "-c", "core.fsmonitor=false", "-c", "core.quotePath=false", "-C", str(folder), *words]
    try:
        ran = subprocess.run(command, capture_output=True, check=False)
    except OSError:
        raise BadOption("git is not installed, which --changed needs", do="leave it out") from None
    if ran.returncode:
        said = (os.fsdecode(ran.stderr).strip().splitlines() or ["it failed"])[0]
        raise BadOption(f"git cannot tell what changed: {said[:200]}", do="leave --changed out")
    return os.fsdecode(ran.stdout)


# The verdict and the time of each check when it was last run, for `--last-failed` and for the order of workers.
#
# The file is written under another name and then renamed, so that two runs at once, or one that is killed, leave it whole.

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
    text, place, written = json.dumps({"format": _FORMAT, "checks": kept}), folder / FOLDER, None
    try:
        place.mkdir(exist_ok=True)
        for name, content in ((".gitignore", "*\n"), ("CACHEDIR.TAG", _TAG)):  # git and backups leave the folder out
            if not (place / name).exists():
                (place / name).write_text(content)
        handle, written = tempfile.mkstemp(dir=place, prefix=".")
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
        Path(written).replace(place / "last.json")
    except OSError as error:
        if written is not None:
            with contextlib.suppress(OSError):
                Path(written).unlink()
        tell(f"note: the verdicts are not kept for --last-failed: {FOLDER} cannot be written: {error.strerror}")


# The baseline: what is known to fail, so that only what is new stops a job. It holds no lines and no numbers.

_SCHEMA = "gradcli.baseline/1"


class KnownFailure(NamedTuple):
    """One way in which a check is known not to pass: wrong by an input, or without a verdict, and why."""

    id: str
    input: str  # empty where no single one is wrong
    kind: str  # fail or inconclusive
    reason: str  # the likely mistake, or the finding that prevents a verdict

    def text(self) -> str:
        """Return it on one line: `focal: gamma: fail: factor`."""
        return ": ".join(self)


@dataclass(frozen=True)
class Baseline:
    """What is known to fail."""

    checks: tuple[KnownFailure, ...] = ()

    def covers(self, row: CheckRow) -> bool:
        """Whether all that is wrong with a check is listed. Errors are never covered."""
        return row.verdict in ("fail", "inconclusive") and set(failures_of_row(row)) <= set(self.checks)

    def stale(self, rows: Sequence[CheckRow], declared: Sequence[str]) -> tuple[str, ...]:
        """Return the ids of entries that no longer hold: of checks that ran, and of those that are declared no more."""
        now = {known for row in rows for known in failures_of_row(row)}
        ran = {row.id for row in rows if row.verdict != "error"}
        gone = [k.id for k in self.checks if (k.id in ran and k not in now) or k.id not in declared]
        return tuple(dict.fromkeys(gone))

    def updated(self, rows: Sequence[CheckRow], declared: Sequence[str]) -> "Baseline":
        """Return the baseline of what fails now; entries of checks that did not run stay."""
        ran = {row.id for row in rows if row.verdict != "error"}
        kept = [known for known in self.checks if known.id not in ran and known.id in declared]
        return Baseline(tuple(sorted({*kept, *(known for row in rows for known in failures_of_row(row))})))


def failures_of_row(row: CheckRow) -> tuple[KnownFailure, ...]:
    """Return the ways in which a check does not pass."""
    if row.verdict not in ("fail", "inconclusive"):
        return ()
    found: dict[KnownFailure, None] = {}
    for point in row.document["points"]:
        if point["verdict"] == "fail":
            reason = point["diagnosis"]["kind"] if point["diagnosis"] else _kinds_of_findings(point, Severity.ERROR)[0]
            names = dict.fromkeys(entry["input"] for entry in point["mismatches"]) or {"": None}
            found |= dict.fromkeys(KnownFailure(row.id, name, "fail", reason) for name in names)
        elif point["verdict"] == "inconclusive":
            kinds = _kinds_of_findings(point, Severity.INCONCLUSIVE)
            found |= dict.fromkeys(KnownFailure(row.id, "", "inconclusive", kind) for kind in kinds)
    return tuple(found)


def _kinds_of_findings(point: dict[str, Any], severity: Severity) -> list[str]:
    found = dict.fromkeys(f["kind"] for f in point["findings"] if f["severity"] == severity)
    return list(found) or ["unknown"]


def read_baseline(path: Path) -> Baseline:
    """Return the baseline in a file. Raises BadOption if there is none, or it is no baseline."""
    do = "write it anew: --update-baseline"
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(found, dict) or found.get("schema") != _SCHEMA:
            raise BadOption(f"{path.name} is no baseline of this version", do=do)
        return Baseline(tuple(sorted(KnownFailure(*text.rsplit(": ", 3)) for text in found["known"])))
    except IsADirectoryError:
        raise BadOption(f"{path} is a folder", do="name the file of the baseline") from None
    except FileNotFoundError:
        raise BadOption(f"there is no baseline {path}", do="write it: --update-baseline") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise BadOption(f"{path.name} is no baseline", do=do) from None


def write_baseline(path: Path, baseline: Baseline) -> None:
    """Write a baseline. Raises BadOption if the file cannot be written."""
    content = {"schema": _SCHEMA, "known": [known.text() for known in baseline.checks]}
    try:
        path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise BadOption(f"{path} cannot be written: {error.strerror}", do="name another file") from None


# Put the documents of the shards of a suite together again.

_MOST = 2**31  # bytes of a document
_NAMED = 10  # missing shards
_ALIKE = (  # what all shards of one suite have in common, and how it is called
    ("declared", "checks"), ("digest", "declarations of checks"), ("selected", "selections"),
    ("seed", "seeds"), ("profile", "profile"), ("config", "file"), ("environment", "versions"),
)  # fmt: skip


def read_shard_report(path: Path) -> SuiteReport:
    """Return the document in a file. Raises BadOption if it is none of a suite."""
    try:
        if path.stat().st_size > _MOST:
            raise BadOption(f"{path} is too large", do="give documents that gradcli wrote")
        found = decode_document(SuiteReport, json.loads(path.read_text(encoding="utf-8")))
        whole = found.schema == "gradcli.suite/1"
        for row in found.checks:  # whether its document can be shown
            if row.error is None and row.report is None:
                decode_document(Detects, row.document["detects"])
    except OSError as error:
        raise BadOption(f"{path} cannot be read: {error.strerror}", do="give documents of gradcli check") from None
    except (ValueError, NotADocument, RecursionError, KeyError, TypeError, AttributeError):
        whole = False
    if not whole:
        raise BadOption(f"{path} is no document of several checks", do="write one: gradcli check --out FILE.json")
    return found


def merge_shards(documents: Sequence[tuple[Path, SuiteReport]]) -> SuiteReport:
    """Return the report of all checks in declared order, with their counts and their status.

    Checks that were selected and that no shard ran are not reached, which is status 2.

    Raises  BadOption for documents of different suites, seeds or versions, for a shard that is missing or given twice, and
            for a check that two shards have.
    """
    (first, whole), *others = documents
    for path, found in others:
        for name, called in _ALIKE:
            if getattr(found, name) != getattr(whole, name):
                says = f"{path.name} and {first.name} are not of one suite: their {called} differ"
                one_run = "merge the documents of one run"
                raise BadOption(says, do=f"{one_run}: give all shards one --seed" if name == "seed" else one_run)
    _refuse_incomplete_shards([(path, found.shard) for path, found in documents])
    rows = {}
    for path, found in documents:
        for row in found.checks:
            if row.id in rows or row.id not in whole.declared:
                says = f"the check '{row.id}' of {path.name} does not belong there"
                raise BadOption(says, do="merge the documents of one run")
            rows[row.id] = row
    checks = tuple(rows[name] for name in whole.declared if name in rows)
    left = tuple(name for name in whole.selected or whole.declared if name not in rows)
    stale = _unique_texts(found.stale or () for _, found in documents)
    return dataclasses.replace(
        whole, shard=None, checks=checks, counts=count_verdicts(checks),
        exit_status=int(exit_status_of_checks(checks, Exit.UNUSABLE if left or stale else Exit.CONFIRMED)),
        seconds=sum(found.seconds for _, found in documents), not_reached=left or ABSENT, stale=stale or ABSENT,
        renewal=next((found.renewal for _, found in documents if found.renewal), ABSENT),
        no_point=_unique_texts(found.no_point or () for _, found in documents) or ABSENT,
    )  # fmt: skip


def _unique_texts(lists: Iterable[Sequence[str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(itertools.chain.from_iterable(lists)))


def _refuse_incomplete_shards(shards: Sequence[tuple[Path, Shard | None]]) -> None:
    """Raise BadOption unless every shard is there once."""
    parts = [(path, shard or Shard(1, 1)) for path, shard in shards]
    count = parts[0][1].of
    if not all(1 <= shard.index <= shard.of <= MOST_SHARDS for _, shard in parts):
        raise BadOption("a document has a shard that cannot be", do="merge the documents of one run")
    seen: dict[int, Path] = {}
    for path, shard in parts:
        if shard.of != count:
            says = f"{path.name} is one of {shard.of} shards, not of {count}"
            raise BadOption(says, do="merge the documents of one run")
        if shard.index in seen:
            says = f"{path.name} and {seen[shard.index].name} are the same shard, {shard.index}/{count}"
            raise BadOption(says, do="give each shard once")
        seen[shard.index] = path
    missing = [f"{k}/{count}" for k in range(1, count + 1) if k not in seen]
    if missing:
        others = f" and {len(missing) - _NAMED:,} more" if len(missing) > _NAMED else ""
        raise BadOption(f"missing: shard {', '.join(missing[:_NAMED])}{others}", do="give the documents of all shards")
