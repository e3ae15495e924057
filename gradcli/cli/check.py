"""`gradcli check`, and `gradcli merge` of the documents that parts of a suite write."""

import dataclasses
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gradcli.cli.output import (
    ReportOutput,
    print_error,
    requested_output,
    writable_point_path,
    write_blocks,
    write_patches,
    write_point,
    write_report,
)
from gradcli.cli.target_requests import request_target
from gradcli.cli.world import World
from gradcli.errors import BadOption, GradcliError, SuiteTimeUp
from gradcli.process.process import FORKS
from gradcli.request.option_values import seed_words
from gradcli.request.options import Options
from gradcli.request.target_text import has_several_targets, is_folder, is_python
from gradcli.targets.target_request import TargetRequest
from gradcli.words import Exit, Verdict, worst_status

if TYPE_CHECKING:
    from gradcli.checks.request import Request

_NAME = re.compile(r"[^\W\d][\w-]*")
_LARGE = 10**7  # entries: the work for more is announced
FORMATS = ("text", "brief", "json", "ndjson", "markdown", "html", "csv", "junit", "github", "sarif")
EXAMPLES = """
    gradcli check "sin(x*y) + exp(-x**2)" x=0.5 y=1.2
    gradcli check "u = W*x; v = u + b; v**2" --at "W=2, x=3, b=1" --json
    gradcli check "-sum(y*log(softmax(z)))" --grad "z=softmax(z)-y, y=-log(softmax(z))" --at "z=[1,2,3], y=[0,0,1]"
    gradcli check losses.py:focal --grad focal_grad --at "z=randn(8), y=ones(8)"
    gradcli check words.py:loss --grad loss_grad --at "W=trained(100, 16), words=zipf(100, 8, 32)"
    gradcli check fit.py:loss_and_grad --pick value=loss,grad=dw --at "w=randn(5)"
    gradcli check layers.py:Tanh --at "x=randn(4)"
    gradcli check model.py:loss --at model.py:point --wrt "params.*" --timeout 90s
    gradcli check "sum(tanh(W@x)**2)" --shapes "W: 3 4; x: 4" --out report.html
Without a target, the checks of pyproject.toml or gradcli.toml are run:
    gradcli check -k "focal and not huber" -n auto --out report.xml
    gradcli check --watch
"""


# `gradcli check --recorded FILE`.

_FORMS = ("text", "json", "markdown", "csv", "junit", "sarif")


def check_recorded(file: str, words: Sequence[str], to: ReportOutput, options: Options, world: World) -> int:
    """Check the calls that `gradcli run --save` has kept, and return the worst status.

    Raises  BadOption for targets beside the file, for a form that a run does not have, and for a file without such calls.
    """
    from gradcli.project.capture.run_report import check_recorded_calls
    from gradcli.project.capture.saved import read_saved_calls

    if words:
        raise BadOption("--recorded names all that is checked", do="leave out the targets")
    if to.form not in _FORMS or any(form not in _FORMS for form, _ in to.files):
        raise BadOption("recorded calls have no report of this form", do=f"forms: {', '.join(_FORMS)}")
    with world.users_code(file, options.timeout), world.working(f"checking {file[:40]}", to.quiet):
        found = read_saved_calls(Path(file), options.allow_python)
        command = ("gradcli", "check", "--recorded", file, *seed_words(options.seed))
        report = check_recorded_calls(found, command, None, options, Path.cwd())
    write_report(report, to, world)
    return report.exit_status


def check(world: World, targets: list[str] | None, options: Options) -> int:
    """Verify the gradient of an expression or a Python function, or a gradient you claim for it (--grad).

    A Python target is written file.py:name or package.module:name. It may be plain numpy code, and gradcli runs it.
    Without values, an expression is checked at three points, drawn where it is smooth. Without a target, gradcli runs
    the checks that pyproject.toml or gradcli.toml declares.
    Formats: text, brief, json, ndjson, markdown, html, csv, junit, github, sarif.
    """
    words = targets or []
    to = requested_output(FORMATS, options, world)
    if options.cache is not None:
        flag = "--cache" if options.cache else "--no-cache"
        world.tell(f"note: {flag} does nothing: a check always runs, and is never answered from an earlier run")
    if options.recorded is not None:
        return check_recorded(options.recorded, words, to, options, world)
    several = options.watch or not words or has_several_targets(words) or is_folder(words[0])
    if several or (len(words) == 1 and _is_module_name(words[0])):
        from gradcli.cli.check_suite import check_suite

        return check_suite(words, to, options, world)
    _refuse_check_id(words[0])
    return _check_one_target(request_target(words, options, world), to, options, world)


def _is_module_name(word: str) -> bool:
    """Whether a word names a module; as an expression it would be a single input, or an attribute of one, and would pass."""
    if not all(part.isidentifier() for part in word.split(".")):
        return False
    from gradcli.cli.check_suite import paths_of_word

    return bool(paths_of_word(word))


def _refuse_check_id(word: str) -> None:
    """Raise BadOption for the id of a check of the project; as an expression it would be a single input, and would pass."""
    if not _NAME.fullmatch(word):
        return
    from gradcli.project.suite.config import find_suite

    try:
        suite = find_suite(Path.cwd())
    except GradcliError:  # what is wrong with the file is said where the suite is asked for
        return
    if suite is not None and word in {check.id for check in suite.checks}:
        raise BadOption(f"'{word}' is a check of the project, and no target", do=f"gradcli check -k {word}")


def _check_one_target(ask: TargetRequest, to: ReportOutput, options: Options, world: World) -> Exit:
    """Check one target, and return its status. Raises GradcliError if it cannot be checked."""
    from gradcli.checks.build import build_request, end_ranks_on_exit
    from gradcli.repair.full_check import verify_with_options, with_cause_and_repair

    keep = None if options.save_point is None else writable_point_path(options.save_point)
    opened = 0
    if FORKS and is_python(ask.target):
        from gradcli.repair.repair import REPAIR_WORKERS

        REPAIR_WORKERS.start(copied=True)
    try:
        with world.users_code(ask.target, options.timeout), end_ranks_on_exit(options):
            with world.working(f"checking {ask.target[:40]}", to.quiet):
                progress = None if options.timeout is None else world.link.point
                asked = build_request(ask)
                _announce_memory(asked, to, world)
                found = verify_with_options(asked, ask, progress)
            if found.report.verdict == Verdict.FAIL and to.form == "text" and not to.quiet:
                opening = found.report.opening()
                write_blocks(opening, world, to.color)
                opened = len(opening)
            report = found.report
            if report.verdict == Verdict.FAIL:
                from gradcli.derivation.right_answer import right_answer

                with world.working("looking for the cause", to.quiet) as tell:
                    report = with_cause_and_repair(found, asked, ask, right_answer, tell)
            if to.pages:
                from gradcli.study.later_walk import with_walk

                report = with_walk(asked, report, later=False)
    except SuiteTimeUp as over:
        from gradcli.project.suite.job import report_unfinished_check

        report = report_unfinished_check(over, ask, ask.command_to_repeat)
        if to.form == "text" and over.report is not None and over.report.points and report.verdict == Verdict.FAIL:
            opened = len(report.opening())  # printed by the process whose time was up
    write_report(dataclasses.replace(report, full=options.verbose), to, world, opened=opened)
    status = Exit(report.exit_status)
    if options.patch is not None:
        write_patches([report], options.patch, world)
    if keep is None:
        return status
    try:
        write_point(report, keep)
    except GradcliError as error:
        print_error(error, None, world)  # the report was written, so that no second JSON document may follow
        status = worst_status((status, Exit.UNUSABLE))
    return status


def _announce_memory(asked: "Request", to: ReportOutput, world: World) -> None:
    """Announce before the work how much memory it takes, if arrays are large."""
    from gradcli.report import numbers
    from gradcli.tracing.shapes import size as size_of

    values = asked.points[0].values
    entries = sum(int(size_of(values[name])) for name in asked.wrt if name in values)
    if entries >= _LARGE and not to.quiet:
        needs = f"each mode needs several arrays of {numbers.write_bytes(8 * entries)}"
        world.tell(f"{entries:,} entries: {needs}; --modes names fewer, --timeout 60s sets a limit")


MERGE_EXAMPLES = """
    gradcli check --shard 1/2 --out first.json
    gradcli check --shard 2/2 --out second.json
    gradcli merge first.json second.json --out report.xml
"""


def merge(world: World, files: list[str], options: Options) -> int:
    """Merge the documents of the shards of a suite into one report of all checks; the exit status is that of the worst.

    Formats: text, brief, json, ndjson, markdown, csv, junit, github, sarif.
    """
    from gradcli.project.suite.selection import merge_shards, read_shard_report

    to = requested_output(FORMATS, options, world)
    if not files:
        raise BadOption("there is no document", do="gradcli merge first.json second.json")
    for _, path in to.files:
        if path.resolve() in [Path(name).resolve() for name in files]:
            raise BadOption(f"--out {path.name} would replace a document that is merged", do="name another file")
    report = merge_shards([(Path(name), read_shard_report(Path(name))) for name in files])
    write_report(report, to, world)
    return report.exit_status
