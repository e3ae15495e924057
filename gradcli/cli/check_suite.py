"""`gradcli check` of several targets, of lines of standard input, and of the checks that a project declares."""

import json
import os
import re
import secrets
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from gradcli.cli.find import declared_checks
from gradcli.cli.output import (
    DATA,
    ReportOutput,
    print_error,
    print_error_text,
    refuse_pictures,
    writable_point_path,
    write_blocks,
    write_patches,
    write_point,
    write_report,
)
from gradcli.cli.target_requests import assign_own_values, target_requests
from gradcli.cli.world import World
from gradcli.errors import BadOption, GradcliError, ProcessEnded
from gradcli.project.discovery import proposal
from gradcli.project.discovery.project import modules_of_project, paths_of_module
from gradcli.project.discovery.reader import find_gradients
from gradcli.project.suite import selection
from gradcli.project.suite.config import (
    KEYS,
    CheckNames,
    Suite,
    SuiteCheck,
    build_check,
    digest_of_checks,
    find_suite,
    option_values,
    refuse_target_options,
)
from gradcli.project.suite.executors import local_executor, remote_executor
from gradcli.project.suite.job import Executors, Job, job_of_check, run_jobs
from gradcli.project.suite.selection import changed_checks, read_last_run, write_last_run
from gradcli.report.common import ABSENT, ErrorDetail
from gradcli.report.suite import CheckRow, Shard, SuiteReport, count_verdicts, exit_status_of_checks
from gradcli.request.option_values import seed_words
from gradcli.request.options import Options, options_of_command, words_to_repeat
from gradcli.request.target_text import TARGET, is_folder
from gradcli.words import Exit, worst_status

if TYPE_CHECKING:
    from gradcli.project.suite.selection import Baseline

_OF_A_PROJECT = ("last_failed", "changed", "changed_since", "profile")  # options that need declared checks
#  that need all of them at once
_OF_A_LIST = ("select", "list_only", "shard", "baseline", "update_baseline", "executor")


# `gradcli check DIR/`, `gradcli check MODULE`: the checks of the gradients there, and of those found whose point is known.

_DOTTED = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")


def paths_of_word(word: str) -> tuple[str, ...]:
    """Return the folder or the file that a word names: a folder, or a module of the project or of an installed package."""
    if is_folder(word):
        return (word,)
    is_module = _DOTTED.fullmatch(word) and word.partition(".")[0] not in sys.stdlib_module_names
    return paths_of_module(word) if is_module else ()


def has_only_paths(words: Sequence[str]) -> bool:
    """Whether the words of the command line name folders, or modules. Raises BadOption if only some of them do."""
    named = [word for word in words if paths_of_word(word)]
    if named and len(named) < len(words):
        what = "a folder" if is_folder(named[0]) else "a module"
        raise BadOption(f"{named[0]} is {what}, and other words are not", do="check it alone: gradcli check src/")
    return bool(named)


def suite_of_paths(words: Sequence[str], options: Options) -> Suite:
    """Return the suite with the checks found in folders and modules that have a point.

    `only` are these, and its own whose gradient, or whose target, lies there.

    The gradients that lack a point are the suite's `without_point`.

    Raises  BadOption.
    """
    refuse_target_options(options)
    suite = find_suite(Path.cwd(), options.profile, options) or Suite(None, Path.cwd(), options=options)
    paths = [path for word in words for path in paths_of_word(word)]
    gradients = find_gradients(paths, declared_checks(suite)).gradients
    only = {name for gradient in gradients for name in gradient.checked_by}
    only |= {check.id for check in suite.checks if _is_target_in_paths(check.ask.target, suite.folder, paths)}
    checks = [*suite.checks]
    names = CheckNames(check.id for check in checks)
    open_ = [gradient for gradient in gradients if not gradient.checked_by]
    for gradient in filter(proposal.is_complete_check, open_):
        inside = Path(os.path.relpath(gradient.file, suite.folder)).as_posix()
        values = proposal.keys_of_check(replace(gradient, file=inside))
        given = option_values(values, KEYS, ("target",), gradient.file, lambda key: None)
        own = replace(suite.options, **given)
        checks.append(build_check(names.of(gradient.name), str(values["target"]), own))
        only.add(checks[-1].id)
    without = tuple(f"{g.file}:{g.line}  {g.name}" for g in open_ if not proposal.is_complete_check(g))
    return replace(suite, checks=tuple(checks), without_point=without, only=frozenset(only), words=tuple(words))


def _is_target_in_paths(target: str, folder: Path, paths: Sequence[str]) -> bool:
    """Whether the file of a target, which is named from the suite's folder, is one of the paths, or in one."""
    match = TARGET.fullmatch(target.strip())
    if match is None:
        return False
    named = match["file"]
    files = [folder / named] if named.endswith(".py") else modules_of_project(folder, named)
    return any(file.resolve().is_relative_to(Path(path).resolve()) for file in files for path in paths if file.exists())


def check_suite(words: Sequence[str], to: ReportOutput, options: Options, world: World) -> int:
    """Run several checks, show them as they end, and return the worst status."""
    _refuse_useless_options(words, options)
    if options.watch:
        return _watch_checks(words, to, options, world)
    if list(words[:1]) == ["-"]:
        return _Run(_suite_of_targets((), options, world), to, options, world).of_lines(words)
    suite = _choose_suite(words, options, world)
    for note in suite.notes:
        world.tell(f"note: {note}")
    if not words and not suite.checks and not options.list_only:
        do = "write one, or fill in those that are comments and remove their leading #"
        raise BadOption(f"{suite.path and suite.path.name} declares no check", do=do)
    given = words_to_repeat(options, only=options.given - {"seed"})  # the seed is written by each check
    suite = replace(suite, words=(*suite.words, *given))
    return _Run(suite, to, options, world).of_suite()


def _choose_suite(words: Sequence[str], options: Options, world: World) -> Suite:
    """Return what the words name as a suite, that of the project where there are none. Raises BadOption."""
    if words:
        return suite_of_paths(words, options) if has_only_paths(words) else _suite_of_targets(words, options, world)
    refuse_target_options(options)
    suite = find_suite(Path.cwd(), options.profile, options)
    if suite is None:
        do = 'gradcli check "sin(x*y)" checks an expression; gradcli init writes a suite for this project'
        raise BadOption("there is no target, and no suite in this folder or above it", do=do)
    return suite


def _watch_checks(words: Sequence[str], to: ReportOutput, options: Options, world: World) -> int:
    """Run checks whenever a file that they depend on is saved. Raises BadOption."""
    if list(words[:1]) == ["-"] or to.form != "text" or to.files:
        what = "standard input" if list(words[:1]) == ["-"] else "other forms and files"
        raise BadOption(f"--watch prints lines of text, and takes no {what}", do="leave it out")

    def selected() -> tuple[Suite, tuple[SuiteCheck, ...]]:
        suite = _choose_suite(words, options, world)
        checks = tuple(check for check in suite.checks if suite.only is None or check.id in suite.only)
        return suite, checks if options.select is None else selection.select_by_name(checks, options.select)

    from gradcli.cli.servers import import_with_extra

    return int(import_with_extra("gradcli.cli.servers.watch", "watch").watch(selected, to, world))


def _refuse_useless_options(words: Sequence[str], options: Options) -> None:
    """Raise BadOption for an option that has no meaning for these words, or not with another one."""
    of_list = _OF_A_LIST if list(words[:1]) == ["-"] else ()
    of_project = _OF_A_PROJECT if words and not has_only_paths(words) else ()
    for row in options_of_command("check"):
        if row.name in options.given and row.name in (*of_project, *of_list):
            flag = row.flag.partition("/")[0]
            raise BadOption(f"{flag} is for the checks of a project", do="leave out the targets: gradcli check")
    if options.list_only and (options.json or options.format not in (None, "text")):
        raise BadOption("--list prints text", do="leave --format out; --json without --list has every id too")


def _suite_of_targets(words: Sequence[str], options: Options, world: World) -> Suite:
    """Return the targets of the command line as a suite without a file."""
    names = CheckNames()
    asked = [*target_requests(words, options, world)] if words else []
    checks = tuple(SuiteCheck(names.of(ask.target), ask) for ask in assign_own_values(asked, options.at))
    return Suite(None, Path.cwd(), checks=checks, options=options, declared=False)


class _Run:
    """One run of a suite.

    A line of each check is shown when it ends, then the details of those that did not pass, and counts.
    """

    def __init__(self, suite: Suite, to: ReportOutput, over: Options, world: World) -> None:
        to = replace(to, page=replace(to.page, folder=str(suite.folder)))  # where the paths of its documents begin
        self._suite, self._options, self._world, self._to = suite, suite.options, world, to
        options = suite.options
        refuse_pictures(to)
        self._longest = max((len(check.id) for check in suite.checks), default=40)
        self._shown_errors: set[ErrorDetail] = set()  # an error that several checks have is shown once
        self._keep = None if options.save_point is None else writable_point_path(options.save_point)
        self._started = time.perf_counter()
        self._token = secrets.token_hex(8)  # a worker elsewhere that stays is not used by another run
        self._rows: list[CheckRow] = []
        self._selected_ids: tuple[str, ...] = ()  # if not all are selected
        self._baseline_words = ("--baseline", str(options.baseline)) if "baseline" in over.given else ()
        here = Path.cwd() if self._baseline_words else suite.folder
        self._baseline_path = None if options.baseline is None else (here / options.baseline).absolute()
        self._refuse_unusable_files()

    def _refuse_unusable_files(self) -> None:
        """Raise BadOption if the baseline cannot be written, or a report would replace it or the suite."""
        baseline_path = self._baseline_path
        if self._options.update_baseline and baseline_path is None:
            raise BadOption("--update-baseline needs a file", do="write --baseline FILE --update-baseline")
        if self._options.update_baseline and baseline_path is not None and not baseline_path.parent.is_dir():
            raise BadOption(f"there is no folder {baseline_path.parent}", do="name a baseline in a folder that exists")
        for kind, path in (("baseline", baseline_path), ("suite", self._suite.path)):
            if path is not None and path.resolve() in [file.resolve() for _, file in self._to.files]:
                raise BadOption(f"--out {path.name} would replace the {kind}", do="name another file")

    def of_lines(self, words: Sequence[str]) -> int:
        """Run the lines of standard input, each as soon as it is there."""
        options, world = self._options, self._world

        def jobs() -> Iterator[Job]:
            names = CheckNames()
            for ask in target_requests(words, options, world):
                yield job_of_check(self._suite, SuiteCheck(names.of(ask.target), ask))

        apart = options.allow_python or options.timeout is not None
        with self._choose_executor(options.workers, apart) as executor:
            return self._show_rows(run_jobs(jobs(), executor), ())

    def of_suite(self) -> int:
        """Run the selected checks of the suite."""
        known = read_last_run(self._suite.folder, self._world.tell) if self._suite.declared else {}
        chosen = self._select_checks(known)
        if self._options.list_only:
            return self._list_checks(chosen)
        known_failures: Baseline | None = None
        baseline = self._baseline_path
        if baseline is not None:
            anew = self._options.update_baseline and not baseline.exists()
            known_failures = selection.Baseline() if anew else selection.read_baseline(baseline)
        jobs = [job_of_check(self._suite, check, run=self._token) for check in chosen]
        apart = any(check.ask.runs_python or check.ask.options.timeout is not None for check in chosen)
        count = min(self._options.workers, max(1, len(chosen)))
        seconds = {name: entry["seconds"] for name, entry in known.items() if isinstance(entry.get("seconds"), float)}
        longest_first = None if count == 1 or self._options.exit_first else seconds
        path = self._suite.path
        if path is not None and path.parent != Path.cwd() and self._to.form == "text" and not self._to.quiet:
            self._world.stdout.write(f"suite: {os.path.relpath(path)}\n")
        if not chosen:
            return self._show_rows(iter(()), chosen, known_failures)
        with self._choose_executor(count, apart) as executor:
            return self._show_rows(run_jobs(jobs, executor, longest_first), chosen, known_failures)

    def _select_checks(self, known: dict[str, dict[str, object]]) -> tuple[SuiteCheck, ...]:
        """Return the selected checks. Raises BadOption if there are none before sharding."""
        options, only = self._options, self._suite.only
        checks = tuple(check for check in self._suite.checks if only is None or check.id in only)
        if options.select is not None:
            checks = selection.select_by_name(checks, options.select)
        if options.last_failed:
            checks = selection.select_not_passed(checks, known)
        if options.changed or options.changed_since is not None:
            checks = changed_checks(self._suite, checks, options.changed_since)
            if not checks:
                raise BadOption("no check has changed", do="without --changed all are run")
        if len(checks) < len(self._suite.checks):
            self._selected_ids = tuple(check.id for check in checks)
        if options.part is not None:
            ids = selection.ids_of_shard((check.id for check in checks), options.part)
            checks = tuple(check for check in checks if check.id in ids)
        return checks

    def _list_checks(self, chosen: Sequence[SuiteCheck]) -> int:
        wide = max((len(check.id) for check in chosen), default=0)
        for check in chosen:
            target = "" if check.ask.target == check.id else check.ask.target
            self._world.stdout.write(f"{check.id.ljust(min(wide, 40))}  {target}".rstrip() + "\n")
        if not self._suite.checks:
            do = "fill in what is marked with ?, and remove the leading #"
            self._world.stdout.write(f"every check is a comment: {do}\n")
        return Exit.CONFIRMED

    def _choose_executor(self, count: int, apart: bool) -> Executors:
        url = self._options.executor
        if url is not None:
            return remote_executor(url)
        return local_executor(count, self._options.threads, apart, self._world.on_github)

    def _show_rows(
        self, rows: Iterator[CheckRow], chosen: Sequence[SuiteCheck], known: "Baseline | None" = None
    ) -> int:
        """Show rows as they come, write the end of the page, and return the status; Ctrl-C ends with what is there."""
        stopped = Exit.CONFIRMED
        try:
            while (row := self._wait_for_row(rows, len(chosen))) is not None:
                if known is not None and not self._options.update_baseline:
                    row = replace(row, known=known.covers(row))
                self._rows.append(row)
                self._show_check(row)
                if self._options.exit_first and row.status is Exit.WRONG:
                    break
        except KeyboardInterrupt:
            stopped = Exit.INTERRUPTED
            self._world.stderr.write("interrupted\n")
        except ProcessEnded as error:  # no worker can be started
            stopped = Exit.UNUSABLE
            print_error(error, None, self._world)
        report = self._build_report(chosen, known, stopped)
        self._show_end(report)
        if self._suite.declared:
            write_last_run(self._suite.folder, self._rows, self._ids_not_reached(chosen), self._world.tell)
        saved = self._save_point()
        if self._options.patch is not None:
            reports = [row.report for row in self._rows if row.report is not None]
            write_patches(reports, self._options.patch, self._world)
        return worst_status((Exit(report.exit_status), saved))

    def _show_check(self, row: CheckRow) -> None:
        """Show one check: its line, and its error; as a document on a line in ndjson."""
        to, world = self._to, self._world
        if row.error is not None and to.form not in DATA and row.error.error not in self._shown_errors:
            detail = row.error.error
            self._shown_errors.add(detail)
            if row.error.line is None and row.id not in detail.message:
                detail = replace(detail, message=f"{row.id}: {detail.message}")
            print_error_text(detail, world, row.error.line, to.color)
        if to.form == "ndjson":
            world.stdout.write(json.dumps(row.document, allow_nan=False) + "\n")
            world.stdout.flush()
        elif to.form == "text" and not to.quiet:
            write_blocks((row.line(world.width(world.stdout), self._longest),), world, to.color)

    def _show_end(self, report: SuiteReport) -> None:
        """Write the end of the page: the checks that did not pass, in full, and counts; other forms and files get all of it."""
        to, world = self._to, self._world
        if to.form == "text":
            reports = () if to.quiet else report.reports()
            lines = tuple(row.last_line(world.width(world.stdout)) for row in report.not_passed()) if reports else ()
            for blocks in (reports, (*lines, *report.last())):
                write_blocks(blocks, world, to.color, apart=len(blocks) > 1 and not to.quiet)
        write_report(report, to, world, shown=to.form not in ("text", "ndjson"))

    def _wait_for_row(self, rows: Iterator[CheckRow], wanted: int) -> CheckRow | None:
        """Return the next row; `wanted` is how many there will be, 0 where that is unknown."""
        done = len(self._rows)
        says = f"{done} of {wanted} checked" if wanted else f"{done} checked"
        if done and wanted:
            from gradcli.report import numbers

            left = (time.perf_counter() - self._started) / done * (wanted - done)
            says += f", about {numbers.write_seconds(left)} left"
        with self._world.working(says, self._to.quiet):
            return next(rows, None)

    def _build_report(self, chosen: Sequence[SuiteCheck], known: "Baseline | None", stopped: Exit) -> SuiteReport:
        from gradcli.checks.framework_claim import describe_environment

        suite, options = self._suite, self._options
        rows = tuple(self._rows)
        declared = tuple(check.id for check in suite.checks) or tuple(row.id for row in rows)
        stale: tuple[str, ...] = ()
        status = exit_status_of_checks(rows)
        if known is not None and options.update_baseline:
            selection.write_baseline(self._baseline_path or Path(), known.updated(rows, declared))
            status = worst_status([Exit.CONFIRMED, *(row.status for row in rows if row.verdict == "error")])
        elif known is not None:
            stale = known.stale(rows, declared)
            status = worst_status((status, Exit.UNUSABLE)) if stale else status
        status = worst_status((status, stopped))
        shard = None if options.part is None else Shard(*options.part)
        config = None if suite.path is None else suite.path.name
        again = ("gradcli", "check", *self._words_to_repeat())
        return SuiteReport(
            again, options.seed, config, suite.profile, shard, declared,
            digest_of_checks(suite.checks), count_verdicts(rows), int(status), time.perf_counter() - self._started, rows,
            describe_environment(),
            self._selected_ids or ABSENT, self._ids_not_reached(chosen) or ABSENT, stale or ABSENT,
            suite.without_point or ABSENT, full=options.verbose,
            renewal=(*again, *self._baseline_words, "--update-baseline") if stale else ABSENT,
        )  # fmt: skip

    def _ids_not_reached(self, chosen: Sequence[SuiteCheck]) -> tuple[str, ...]:
        reached = {row.id for row in self._rows}
        return tuple(check.id for check in chosen if check.id not in reached)

    def _words_to_repeat(self) -> tuple[str, ...]:
        """Return the words that run this suite again."""
        suite, seed = self._suite, self._options.seed
        # --seed would replace one that a check has of its own
        same = all(check.ask.options.seed == seed for check in suite.checks)
        words = seed_words(seed) if same else ()
        if not suite.declared:
            return (*(check.ask.target for check in suite.checks), *words)
        return (*suite.words, *(() if suite.profile is None else ("--profile", suite.profile)), *words)

    def _save_point(self) -> Exit:
        """Save the first point that does not pass, or the first; return the status of that."""
        rows = [row for row in self._rows if row.error is None]
        if self._keep is None or not rows:
            return Exit.CONFIRMED
        row = next((row for row in rows if row.status is not Exit.CONFIRMED), rows[0])
        try:
            if row.report is None:
                says = "the arrays of this point are too large for a document"
                raise BadOption(says, do=f"save it alone: {row.replay()}")
            write_point(row.report, self._keep)
        except GradcliError as error:
            print_error(error, None, self._world)
            return Exit.UNUSABLE
        return Exit.CONFIRMED
