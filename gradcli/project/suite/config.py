"""Read the suite of a project: `[tool.gradcli]` of pyproject.toml, or gradcli.toml without the prefix."""

import ast
import dataclasses
import functools
import hashlib
import itertools
import json
import operator
import os
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from gradcli.classes import dataclass
from gradcli.errors import BadOption, GradcliError, Place, closest_name
from gradcli.project.discovery.bodies import collect_scopes
from gradcli.project.discovery.project import enclosing_scopes, python_files
from gradcli.project.discovery.reader import CannotRead, parse_file
from gradcli.request.options import (
    CLAIM_KINDS,
    DEFAULTS,
    Option,
    Options,
    find_claim,
    hint_in_suite,
    options_of_command,
    words_to_repeat,
)
from gradcli.targets.target_request import TargetRequest

NAMES = ("gradcli.toml", "pyproject.toml")  # the first one wins where both are in a folder
KEYS = {row.flag.removeprefix("--"): row for row in options_of_command("check") if row.write is not None}  # of a check
_OF_RUN = ("workers", "cache", "baseline")
_ROWS_OF_RUN = [row for row in options_of_command("check") if row.name in _OF_RUN]
OF_RUN = {row.flag.removeprefix("--").partition("/")[0]: row for row in _ROWS_OF_RUN}
OF_ONE = ("at", "wrt", *CLAIM_KINDS, "value_and_grad", "pick", "shapes", "points", "bounds", "scale")
_HEADS = {"pyproject.toml": ("tool", "gradcli"), "gradcli.toml": ()}


@dataclass(frozen=True, slots=True)
class SuiteCheck:
    """One check of a suite: its id, and what is asked."""

    id: str
    ask: TargetRequest


@dataclass(frozen=True, slots=True)
class Suite:
    """The checks of a project, in declared order.

    `path` is the file that declares them, None if only decorators do, or the command line, which is not `declared`. `folder`
    is what their paths are relative to, `paths` where discovery looks, `profile` the profile in use, and `notes` what is
    worth saying before they run. `without_point` names the gradients of a folder that cannot be checked without a point.
    `only` are the ids that are run, of all in `checks`, where a folder is checked; `words` are those of the command line
    that hold for all checks: folders and options.
    """

    path: Path | None
    folder: Path
    paths: tuple[str, ...] = ()
    checks: tuple[SuiteCheck, ...] = ()
    profile: str | None = None
    options: Options = DEFAULTS
    notes: tuple[str, ...] = ()
    declared: bool = True
    without_point: tuple[str, ...] = ()
    only: frozenset[str] | None = None
    words: tuple[str, ...] = ()

    @property
    def importable(self) -> tuple[str, ...]:
        """The folders from which modules are imported while the suite runs, in this order."""
        return _existing_import_folders(self.folder, self.paths)


def _existing_import_folders(folder: Path, paths: Sequence[str]) -> tuple[str, ...]:
    folders = [folder, *(folder / path for path in paths), folder / "src"]
    return tuple(dict.fromkeys(str(each if each.is_dir() else each.parent) for each in folders if each.exists()))


def import_folders(folder: Path) -> tuple[str, ...]:
    """Return the folders from which the modules of a project are imported: those of its suite's file, and src/ beside it."""
    path = find_suite_file(folder)
    if path is None:
        return _existing_import_folders(folder, ())
    try:
        return _existing_import_folders(path.parent, read_suite(path).paths)
    except GradcliError:  # `gradcli check` says what is wrong with the file
        return _existing_import_folders(path.parent, ())


def find_suite_file(folder: Path) -> Path | None:
    """Return the file with the suite of a folder or of its nearest parent that has one.

    The search ends at the folder that holds `.git`, and at the home folder.
    """
    home = Path.home()
    for here in (folder, *folder.parents):
        for path in (here / name for name in NAMES):
            if path.is_file() and (path.name == "gradcli.toml" or _has_gradcli_table(path)):
                return path
        if (here / ".git").exists() or here == home:
            break
    return None


def find_suite(folder: Path, profile: str | None = None, over: Options = DEFAULTS) -> Suite | None:
    """Return the suite of a folder or of its nearest parent that has one, else of the decorators in it; None if there is none.

    `over` are the options of the command line.

    Raises  BadOption for a file that cannot be read, with its line.
    """
    path = find_suite_file(folder)
    if path is not None:
        suite = read_suite(path, profile, over)
        other = path.with_name(NAMES[1])
        if path != other and other.is_file() and _has_gradcli_table(other):
            note = f"{path.name} is used; the gradcli table of {other.name} beside it is not"
            suite = dataclasses.replace(suite, notes=(note, *suite.notes))
        return suite
    if profile is not None:
        return None
    found = _checks_of_decorators(folder, ["."], {}, {}, over)
    _refuse_duplicate_ids(found, lambda number: None)
    options = dataclasses.replace(DEFAULTS, **options_for_every_check(over))
    return Suite(None, folder, (), tuple(found), None, options) if found else None


# Read TOML that people wrote: every mistake has its line.
#
# `tomllib` gives no positions, so to find a key, a candidate is renamed and the text read again.

_MOST = 10_000_000  # bytes of a file
_MOST_CANDIDATES = 50  # readings of the text, to find a key
_AT = re.compile(r"\(at line (\d+), column (\d+)\)")
_RENAMED = "gradcli-looks-for-this-key"
KeyPath = Sequence[str | int]  # the keys and indices that lead to a value


def read_text(path: Path) -> str:
    """Return the text of a file. Raises BadOption if it is too large, or not readable as UTF-8."""
    try:
        if path.stat().st_size > _MOST:
            raise BadOption(f"{path.name} is larger than {_MOST:,} bytes", do="keep data in files of its own")
        return path.read_text(encoding="utf-8-sig")  # some editors put a mark at the beginning
    except (OSError, UnicodeDecodeError) as error:
        raise BadOption(f"{path} cannot be read: {error}", do="write it in UTF-8, and make it readable") from None


def parse_toml(text: str, name: str) -> dict[str, Any]:
    """Return what a TOML text says. Raises BadOption with the line of a mistake."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        where = _place_of_error(text, name, error)
        what = str(error).partition(" (at ")[0]
        raise BadOption(f"{name} is not valid TOML: {what}", where=where, do="correct this line") from None
    except RecursionError:
        raise BadOption(f"{name} is not usable: its lists are nested too deeply", do="write flat lists") from None
    except ValueError as error:  # a whole number of more digits than Python reads
        raise BadOption(f"{name} is not usable: {error}", do="write a shorter number") from None


def place_of_key(text: str, file: str, path: KeyPath) -> Place | None:
    """Return the line and columns of the last key of a path in a TOML text; None if it is not found.

    The text is read with each candidate renamed. In a table of an array of tables, such as the third `[[check]]`, those of
    this table come first.
    """
    number = next((part for part in path if isinstance(part, int)), None)
    own = None if number is None else _bounds_of_table(text, ".".join(map(str, path[: path.index(number)])), number)
    candidate = re.compile(rf"(?<![\w-])[\"']?{re.escape(str(path[-1]))}[\"']?(?=\s*[=.\]])")
    for start, end in filter(None, (own, (0, len(text)))):
        for match in itertools.islice(candidate.finditer(text, start, end), _MOST_CANDIDATES):
            try:
                renamed: Any = tomllib.loads(text[: match.start()] + _RENAMED + text[match.end() :])
                functools.reduce(operator.getitem, (*path[:-1], _RENAMED), renamed)
            except (tomllib.TOMLDecodeError, KeyError, IndexError, TypeError):
                continue
            return _place_of_characters(text, file, match.start(), len(match.group()))
    return None


def _bounds_of_table(text: str, header: str, number: int) -> tuple[int, int] | None:
    """Return where the table `[[header]]` with this number begins and ends, counted from 0."""
    parts = r"\s*\.\s*".join(rf"[\"']?{re.escape(part)}[\"']?" for part in header.split("."))
    found = list(itertools.islice(re.finditer(rf"^\[\[\s*{parts}\s*\]\]", text, re.MULTILINE), number + 1))
    if number >= len(found):
        return None
    after = re.compile(r"^\[", re.MULTILINE).search(text, found[number].end())
    return found[number].start(), after.start() if after else len(text)


def _place_of_error(text: str, file: str, error: tomllib.TOMLDecodeError) -> Place:
    """Return the place that a message of `tomllib` names: the end of the document if it names none."""
    found = _AT.search(str(error))
    lines = text.splitlines() or [""]
    line, column = (int(found[1]), int(found[2])) if found else (len(lines), len(lines[-1]) + 1)
    line = min(line, len(lines))
    return Place(file, line, lines[line - 1], max(0, min(column - 1, len(lines[line - 1]) - 1)), 1)


def _place_of_characters(text: str, file: str, start: int, length: int) -> Place:
    """Return characters of a text as a place in its file."""
    line = text.count("\n", 0, start)
    return Place(file, line + 1, text.splitlines()[line], start - (text.rfind("\n", 0, start) + 1), length)


def _has_gradcli_table(path: Path) -> bool:
    """Whether a pyproject.toml has our table; one that cannot be read counts, if it names it."""
    text = _read_own_file(path)
    try:
        tool = parse_toml(text, path.name).get("tool")
    except BadOption:
        return "tool.gradcli" in text
    return isinstance(tool, dict) and "gradcli" in tool


def _read_own_file(path: Path) -> str:
    if hasattr(os, "geteuid") and os.environ.get("CI") != "true":  # a CI job has only one user
        mine = {os.geteuid(), 0, int(os.environ.get("SUDO_UID", os.geteuid()))}
        if path.stat().st_uid not in mine:
            says = f"{path} belongs to another user, and what it names would be run as you"
            raise BadOption(says, do="copy it, or change its owner")
    return read_text(path)


def read_suite(path: Path, profile: str | None = None, over: Options = DEFAULTS, *, text: str | None = None) -> Suite:
    """Return the suite that a file declares, by its content or by another `text`.

    Raises  BadOption with the file, the line and a caret.
    """
    text = _read_own_file(path) if text is None else text
    table: Any = parse_toml(text, path.name)
    head = _HEADS[path.name]
    for key in head:
        table = table.get(key, {}) if isinstance(table, dict) else table
    return _Reader(path, text, head, table, over).suite(profile)


class _Reader:
    """Reads one file, whose text gives the places of errors."""

    def __init__(self, path: Path, text: str, head: Sequence[str], table: Any, over: Options) -> None:
        self._path, self._text, self._head, self._over = path, text, head, over
        self._table = self._require_type(dict, table, head, "a table")

    def suite(self, profile: str | None) -> Suite:
        """Return the suite with the options of a profile."""
        known = {**KEYS, **OF_RUN}
        top = self._read_options(self._table, self._head, known, ("paths", "check", "profile"))
        declared = self._require_type(dict, self._table.get("profile", {}), (*self._head, "profile"), "a table")
        profiles: dict[str | None, dict[str, Any]] = {None: {}}
        for name, table in declared.items():
            at: KeyPath = (*self._head, "profile", name)
            profiles[name] = self._read_options(self._require_type(dict, table, at, "a table"), at, known, ())
        if profile is not None and profile not in profiles:
            near = closest_name(profile, tuple(declared))
            listed = f"profiles: {', '.join(declared)}" if declared else f"{self._path.name} has none"
            raise BadOption(f"there is no profile '{profile}'", do=f"did you mean '{near}'?" if near else listed)
        chosen = profiles[profile]
        paths = self._read_texts(self._table.get("paths", []), (*self._head, "paths"))
        checks = self._require_type(list, self._table.get("check", []), (*self._head, "check"), "a list of tables")
        found = [self._read_check(number, entry, top, chosen) for number, entry in enumerate(checks)]
        found += _checks_of_decorators(self._path.parent, paths or ["."], top, chosen, self._over)
        _refuse_duplicate_ids(found, lambda number: self._place_in_check(number, "id"))
        options = dataclasses.replace(DEFAULTS, **{**top, **chosen, **options_for_every_check(self._over)})
        useless = "does nothing: a check always runs, and is never answered from an earlier run"
        notes = (f"cache in {self._path.name} {useless}",) if "cache" in {**top, **chosen} else ()
        return Suite(self._path, self._path.parent, tuple(paths), tuple(found), profile, options, notes)

    def _read_check(self, number: int, entry: Any, top: Mapping[str, Any], chosen: Mapping[str, Any]) -> SuiteCheck:
        at: KeyPath = (*self._head, "check", number)
        table = self._require_type(dict, entry, at, "a table")
        given = self._read_options(table, at, KEYS, ("id", "target"))
        target = table.get("target")
        if not isinstance(target, str) or not target.strip():
            where, do = self._place_in_check(number, "target"), 'write target = "src/losses.py:focal"'
            raise BadOption("a check needs a target", where=where, do=do)
        name = self._require_type(str, table.get("id", target), (*at, "id"), "a text")
        if not name.strip() or not name.isprintable():
            key = "id" if "id" in table else "target"
            says = f"the {key} is empty, or has characters that cannot be printed"
            raise BadOption(says, where=self._place_in_check(number, key), do='write a name: id = "focal"')
        try:
            return build_declared_check(name, target, {**top, **given, **chosen}, self._over)
        except GradcliError as error:
            error.where = error.where or self._place_of_header(number)
            raise

    def _place_in_check(self, number: int, key: str) -> Place | None:
        """Return the place of a key of a check, or of the check's header where it has none."""
        return self._place_of_key((*self._head, "check", number, key)) or self._place_of_header(number)

    def _place_of_header(self, number: int) -> Place | None:
        bounds = _bounds_of_table(self._text, ".".join((*self._head, "check")), number)
        if bounds is None:
            return None
        length = self._text.index("]]", bounds[0]) + 2 - bounds[0]
        return _place_of_characters(self._text, self._path.name, bounds[0], length)

    def _read_options(
        self, table: Mapping[str, Any], at: KeyPath, known: Mapping[str, Option], others: Sequence[str]
    ) -> dict[str, Any]:
        return option_values(table, known, others, self._path.name, lambda key: self._place_of_key((*at, key)))

    def _read_texts(self, given: Any, at: KeyPath) -> list[str]:
        listed = [given] if isinstance(given, str) else self._require_type(list, given, at, "a list of texts")
        found: list[str] = [self._require_type(str, part, at, "a list of texts") for part in listed]
        if any("\0" in part for part in found):
            says = "a path holds a character that no path can have"
            raise BadOption(says, where=self._place_of_key(at), do="remove it")
        return found

    def _require_type(self, kind: type, found: Any, at: KeyPath, what: str) -> Any:
        if not isinstance(found, kind):
            key = next((str(part) for part in reversed(at) if isinstance(part, str)), "gradcli")
            raise BadOption(f"'{key}' must be {what}", where=self._place_of_key(at), do="see: gradcli schema config")
        return found

    def _place_of_key(self, at: KeyPath) -> Place | None:
        return place_of_key(self._text, self._path.name, at) if at and isinstance(at[-1], str) else None


# Read the checks that `@gradcli.checked(...)` declares from the source of a project, without running it.

_NAME = "checked"
_MAY_HAVE = re.compile(rb"from\s+gradcli\s+import\b|\.checked\s*\(")  # other files are not parsed


def find_decorated_functions(folder: Path, paths: Iterable[str]) -> Iterator[tuple[str, dict[str, Any], Place]]:
    """Yield the decorated functions in these paths of a folder, by file and line, each as a target.

    With each come the keywords of its decorator, and the place of that.

    Raises  BadOption for a path that is not there, a file that cannot be read, and a keyword that is no literal.
    """
    seen: set[Path] = set()
    for path in paths:
        if not (folder / path).exists():
            raise BadOption(f"paths names '{path}', and there is no such file or folder", do="correct paths")
        for name in python_files(str(folder / path)):
            file = Path(name)
            if file.resolve() not in seen and _may_have_decorator(file):
                seen.add(file.resolve())
                yield from _decorated_in_file(file, folder)


def _may_have_decorator(file: Path) -> bool:
    try:
        content = file.read_bytes()
    except OSError:
        return False
    return b"gradcli" in content and _NAME.encode() in content and _MAY_HAVE.search(content) is not None


def _decorated_in_file(file: Path, folder: Path) -> Iterator[tuple[str, dict[str, Any], Place]]:
    try:
        tree = parse_file(str(file))
    except CannotRead as error:
        says = f"{file} may declare checks with @gradcli.checked, and cannot be read: {error}"
        raise BadOption(says, do="correct the file, or leave it out of paths") from None
    inside = file.relative_to(folder) if file.is_relative_to(folder) else file
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    names = _spellings_of_decorator(tree)
    source = collect_scopes(tree, inside.as_posix())
    for function in sorted(source.definitions(), key=lambda each: each.line):
        *around, _ = enclosing_scopes(function.scope)  # the module
        if isinstance(function.node, ast.AsyncFunctionDef) or not all(place in source.classes for place in around):
            continue
        for decorator in function.decorators:
            if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) in names:
                place = Place(source.file, decorator.lineno, lines[decorator.lineno - 1])
                yield f"{source.file}:{function.name}", _decorator_keywords(decorator, place), place


def _spellings_of_decorator(tree: ast.Module) -> set[str]:
    """Return how the file may write the decorator."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name == "gradcli" or (alias.name.startswith("gradcli.") and not alias.asname):
                    found.add(f"{alias.asname or 'gradcli'}.{_NAME}")
        elif isinstance(node, ast.ImportFrom) and node.module == "gradcli":
            found |= {alias.asname or alias.name for alias in node.names if alias.name == _NAME}
    return found


def _decorator_keywords(decorator: ast.Call, place: Place) -> dict[str, Any]:
    """Return the keywords of the decorator with hyphens; a bare name of a function is its text."""
    if decorator.args or any(keyword.arg is None for keyword in decorator.keywords):
        do = 'write @gradcli.checked(grad="f_grad", at="x=1")'
        raise BadOption("@gradcli.checked takes keywords", where=place, do=do)
    found = {}
    for keyword in decorator.keywords:
        name, value = str(keyword.arg).replace("_", "-"), keyword.value
        try:
            found[name] = value.id if isinstance(value, ast.Name) else ast.literal_eval(value)
        except (ValueError, SyntaxError, TypeError):
            says = f"{keyword.arg}= of @gradcli.checked is no literal, and the file is read, not run"
            raise BadOption(says, where=place, do='write its value, such as at="x=[1, 2]"') from None
    return found


def _checks_of_decorators(
    folder: Path, paths: Sequence[str], top: Mapping[str, Any], chosen: Mapping[str, Any], over: Options
) -> list[SuiteCheck]:
    """Return the checks that decorators declare in these paths, by file and line; the second of one function is NAME#2.

    `top` are the options of the file, under those of a decorator; `chosen` are those of the profile, over them.
    """
    found = []
    declared = [*find_decorated_functions(folder, paths)]
    names = CheckNames(str(keywords["id"]) for _, keywords, _ in declared if "id" in keywords)
    for target, keywords, place in declared:
        name = keywords["id"] if "id" in keywords else names.of(target)
        given = option_values(keywords, KEYS, ("id",), "@gradcli.checked", lambda key: place)  # noqa: B023 (called at once)
        found.append(build_declared_check(str(name), target, {**top, **given, **chosen}, over))
    return found


# One check of a suite: its name, its options, and what it is known by when they change.


def _refuse_duplicate_ids(checks: Sequence[SuiteCheck], place: Callable[[int], Place | None]) -> None:
    """Raise BadOption if two checks have one id, at the place of the second."""
    seen: set[str] = set()
    for number, check in enumerate(checks):
        if check.id in seen:
            raise BadOption(f"two checks have the id '{check.id}'", where=place(number), do="give each a different id")
        seen.add(check.id)


def option_values(
    table: Mapping[str, Any], known: Mapping[str, Option], others: Sequence[str], source: str,
    place: Callable[[str], Place | None],
) -> dict[str, Any]:  # fmt: skip
    """Return the values of the options in a table, by the names of their fields; keys of `others` are left out.

    Raises  BadOption for an unknown key, and for a value of another kind, at the `place` of the key.
    """
    found = {}
    for key, raw in table.items():
        if key in others:
            continue
        if key not in known:
            near = closest_name(key, (*known, *others))
            do = f"did you mean '{near}'?" if near else f"keys: {', '.join((*others, *known))}"
            raise BadOption(f"unknown key '{key}' in {source}", where=place(key), do=do)
        row = known[key]
        try:
            found[row.name] = convert_option_value(row, key, raw)
        except GradcliError as error:
            error.what, error.do = hint_in_suite(error.what, values=False), error.do and hint_in_suite(error.do)
            error.where = error.where or place(key)
            raise
    return found


class CheckNames:
    """Names of checks that are all different: the second one of the same text ends in #2."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._counts: Counter[str] = Counter()

    def of(self, text: str) -> str:
        """Return a name for one more check of this text."""
        while True:
            self._counts[text] += 1
            name = text if self._counts[text] == 1 else f"{text}#{self._counts[text]}"
            if name not in self._taken:
                self._taken.add(name)
                return name


def build_declared_check(name: str, target: str, values: Mapping[str, Any], over: Options) -> SuiteCheck:
    """Return a check from the values of its options, with those of the command line over them. Raises BadOption."""
    given = options_for_every_check(over)
    if over.part is not None:  # which checks are run, not what ranks have
        del given["shard"]
    return build_check(name, target, dataclasses.replace(DEFAULTS, **{**values, **given}))


def build_check(name: str, target: str, options: Options) -> SuiteCheck:
    """Return a check with these options. Raises BadOption for two claims."""
    find_claim(options)
    options = dataclasses.replace(options, given=frozenset())
    return SuiteCheck(name, TargetRequest(target, options.at, options, separate_points=True))


def digest_of_check(check: SuiteCheck) -> str:
    """Return a digest of what one check asks for: its target, its points, its claim and its options.

    `--seed random` asks for the same in every run, whatever is drawn.
    """
    ask = check.ask
    words = [check.id, ask.target, *ask.at, "", *words_to_repeat(ask.options)]
    if ask.options.seed_is_random:
        words[-1] = "random"
    return hashlib.sha256(json.dumps(words).encode()).hexdigest()


def digest_of_checks(checks: Sequence[SuiteCheck]) -> str:
    """Return a digest of what all checks of a suite ask for."""
    return hashlib.sha256("".join(map(digest_of_check, checks)).encode()).hexdigest()


def options_for_every_check(over: Options) -> dict[str, Any]:
    """Return the options of the command line that hold for every check of a suite."""
    return {row.name: getattr(over, row.name) for row in options_of_command("check") if row.name in over.given}


def convert_option_value(row: Option, key: str, raw: Any) -> Any:
    """Return the value of an option from what TOML or a Python literal holds. Raises BadOption."""
    wrong = BadOption(f"'{key}' takes {_TAKES[row.kind]}, not {raw!r:.60}", do=row.help)
    if row.kind is bool:
        if not isinstance(raw, bool):
            raise wrong
        return raw
    if row.repeated:
        listed = [raw] if isinstance(raw, str) else raw
        if not isinstance(listed, list | tuple) or not all(isinstance(part, str) for part in listed):
            raise BadOption(f"'{key}' takes a text or a list of texts, not {raw!r:.60}", do=row.help)
        return row.value(list(listed))
    if row.kind in (int, float):
        if isinstance(raw, bool) or not isinstance(raw, int | row.kind):
            raise wrong
        low, high = row.low, row.high
        if (low is not None and not raw >= low) or (high is not None and not raw <= high):  # nan is neither
            raise BadOption(f"'{key}' lies outside {low} to {high if high is not None else 'any'}", do=row.help)
        try:
            return row.value(row.kind(raw))
        except OverflowError:  # a whole number that is too large for a float
            raise wrong from None
    if isinstance(raw, list | tuple) and all(isinstance(part, str) for part in raw):
        return row.value(",".join(raw))
    if isinstance(raw, bool) or not isinstance(raw, str | int | float):
        raise wrong
    return row.value(str(raw))


_TAKES: dict[type, str] = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}


def refuse_target_options(options: Options) -> None:
    """Raise BadOption for an option of the command line that belongs to one check, beside a suite."""
    for row in options_of_command("check"):
        if row.name in options.given and row.name in OF_ONE:
            do = f"write it in the check, or name a target: gradcli check TARGET {row.flag} ..."
            raise BadOption(f"{row.flag} is for one target, and a suite has many", do=do)


def schema_of_suite_file() -> dict[str, Any]:
    """Return the JSON Schema of the file."""
    of_check = {key: schema_of_option(row) for key, row in KEYS.items()}
    options = of_check | {key: schema_of_option(row) for key, row in OF_RUN.items()}
    profile = {"type": "object", "additionalProperties": False, "properties": options}
    check = {
        "type": "object", "additionalProperties": False, "required": ["target"],
        "properties": {
            "id": {"type": "string", "description": "The name of the check.  [default: the target]"},
            "target": {"type": "string", "description": "What is checked: file.py:name, module:name, or an expression."},
            **of_check,
        },
    }  # fmt: skip
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "gradcli.toml, and [tool.gradcli] of pyproject.toml",
        "type": "object", "additionalProperties": False,
        "properties": {
            "paths": {
                "type": "array", "items": {"type": "string"},
                "description": "Where gradients are looked for.  [default: the project]",
            },
            "check": {"type": "array", "items": check, "description": "The checks, in this order."},
            "profile": {
                "type": "object", "additionalProperties": profile, "description": "Options by the name of a profile.",
            },
            **options,
        },
    }  # fmt: skip


def schema_of_option(row: Option) -> dict[str, Any]:
    """Return the JSON Schema of the value of an option."""
    kinds: dict[type, dict[str, Any]] = {bool: {"type": "boolean"}, int: {"type": "integer"}, float: {"type": "number"}}
    texts = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
    numeric = {"anyOf": [{"type": "string"}, {"type": "number"}, {"type": "array", "items": {"type": "string"}}]}
    found = dict(kinds.get(row.kind, texts if row.repeated else numeric))
    default = row.default if row.kind in (int, float, str) and isinstance(row.default, int | float | str) else None
    limits = {"minimum": row.low, "maximum": row.high, "default": default}
    found |= {name: x for name, x in limits.items() if x is not None}
    return {**found, "description": row.help} | ({"deprecated": True} if row.hidden else {})
