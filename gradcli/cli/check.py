"""`gradcli check`."""

import dataclasses
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gradcli.cli.output import ReportOutput, emit, output, page, print_error, written
from gradcli.cli.saved_point import keep_point, keepable, write_patches
from gradcli.cli.target_requests import only, target_requests
from gradcli.cli.world import World
from gradcli.errors import BadOption, GradcliError
from gradcli.process.process import FORKS
from gradcli.request.option_values import seed_words
from gradcli.request.options import Options
from gradcli.request.target_text import is_folder, is_python, several
from gradcli.targets.target_request import TargetRequest
from gradcli.words import Exit, Kind, Verdict, worst_status

if TYPE_CHECKING:
    from gradcli.checks.build import CheckOptions
    from gradcli.checks.request import Request
    from gradcli.project.suite.ended import SuiteTimeUp
    from gradcli.report.check import CheckReport

_NAME = re.compile(r"[^\W\d][\w-]*")
_LARGE = 10**7  # entries: the work for more is announced
FORMATS = ("text", "brief", "json", "ndjson", "markdown", "html", "csv", "junit", "github", "sarif")
EXAMPLES = """Examples:

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
    from gradcli.project.capture.run_report import report_of
    from gradcli.project.capture.saved import read

    if words:
        raise BadOption("--recorded names all that is checked", do="leave out the targets")
    if to.form not in _FORMS or any(form not in _FORMS for form, _ in to.files):
        raise BadOption("recorded calls have no report of this form", do=f"forms: {', '.join(_FORMS)}")
    with world.users_code(file, options.timeout), world.working(f"checking {file[:40]}", to.quiet):
        found = read(Path(file), options.allow_python)
        command = ("gradcli", "check", "--recorded", file, *seed_words(options.seed))
        report = report_of(found, command, None, options, Path.cwd())
    emit(report, to, world)
    return report.exit_status


def check(world: World, targets: list[str] | None, options: Options) -> int:
    """Verify the gradient of an expression or a Python function, or a gradient you claim for it (--grad).

    Python: file.py:name or package.module:name, plain numpy code as it is; it is run. Without values, an expression is
    checked at three points drawn where it is smooth. Without a target, the checks of the project are run, which
    pyproject.toml or gradcli.toml declares.
    Formats: text, brief, json, ndjson, markdown, html, csv, junit, github, sarif.
    """
    words = targets or []
    to = output(FORMATS, options, world)
    if options.cache is not None:
        flag = "--cache" if options.cache else "--no-cache"
        world.tell(f"note: {flag} does nothing: a check always runs, and is never answered from an earlier run")
    if options.recorded is not None:
        return check_recorded(options.recorded, words, to, options, world)
    if (
        options.watch
        or not words
        or several(words)
        or is_folder(words[0])
        or (len(words) == 1 and _names_module(words[0]))
    ):
        from gradcli.cli.check_suite import check_suite

        return check_suite(words, to, options, world)
    _refuse_id(words[0])
    return _check_one(only(target_requests(words, options, world)), to, options, world)


def _names_module(word: str) -> bool:
    """Whether a word names a module; as an expression it would be a single input, or an attribute of one, and would pass."""
    if not all(part.isidentifier() for part in word.split(".")):
        return False
    from gradcli.cli.check_suite import paths_of

    return bool(paths_of(word))


def _refuse_id(word: str) -> None:
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


def _check_one(ask: TargetRequest, to: ReportOutput, options: Options, world: World) -> Exit:
    """Check one target, and return its status. Raises GradcliError if it cannot be checked."""
    from gradcli.checks.build import CheckOptions, ranks_end, request, settings_of
    from gradcli.derivation.right_answer import right_answer
    from gradcli.project.suite.ended import SuiteTimeUp
    from gradcli.repair.full_check import verified, with_cause_and_repair
    from gradcli.repair.repair import REPAIR_WORKERS
    from gradcli.study.later_walk import with_walk

    keep = None if options.save_point is None else keepable(options.save_point)
    wanted = CheckOptions(settings_of(options), options.points or 3)
    opened = 0
    if FORKS and is_python(ask.target):
        REPAIR_WORKERS.start(copied=True)
    try:
        with world.users_code(ask.target, options.timeout), ranks_end(options):
            with world.working(f"checking {ask.target[:40]}", to.quiet):
                progress = None if options.timeout is None else world.link.point
                asked = request(ask, wanted)
                _announce(asked, to, world)
                found = verified(asked, ask, wanted, progress)
            if found.report.verdict == Verdict.FAIL and to.form == "text" and not to.quiet:
                opening = found.report.opening()
                written(opening, page(world, world.stdout, to.color), world)
                opened = len(opening)
            with world.working("looking for the cause", to.quiet) as tell:
                report = with_cause_and_repair(found, asked, ask, wanted, right_answer, tell)
                report = with_walk(asked, report) if to.pages else report
    except SuiteTimeUp as over:
        report = _unfinished(over, ask, wanted)
        if to.form == "text" and over.report is not None and over.report.points and report.verdict == Verdict.FAIL:
            opened = len(report.opening())  # printed by the process whose time was up
    emit(dataclasses.replace(report, full=options.verbose), to, world, opened=opened)
    status = Exit(report.exit_status)
    if options.patch is not None:
        write_patches([report], options.patch, world)
    if keep is None:
        return status
    try:
        keep_point(report, keep)
    except GradcliError as error:
        print_error(error, None, world)  # the report was written, so that no second JSON document may follow
        status = worst_status((status, Exit.UNUSABLE))
    return status


def _announce(asked: "Request", to: ReportOutput, world: World) -> None:
    """Announce before the work how much memory it takes, if arrays are large."""
    from gradcli.report import numbers
    from gradcli.tracing.shapes import size as size_of

    values = asked.points[0].values
    entries = sum(int(size_of(values[name])) for name in asked.wrt if name in values)
    if entries >= _LARGE and not to.quiet:
        size = numbers.octets(8 * entries)
        world.tell(
            f"{entries:,} entries: each mode needs several arrays of {size}; --modes names fewer, --timeout 60s sets a limit"
        )


def _unfinished(over: "SuiteTimeUp", ask: TargetRequest, wanted: "CheckOptions") -> "CheckReport":
    from gradcli.checks.build import replay_of
    from gradcli.project.suite.ended import unfinished_check
    from gradcli.report.common import Target

    target = Target("python" if is_python(ask.target) else "expression", ask.target)
    claim = None if ask.claim is None else ask.claim[1]
    options = wanted.settings.options
    command = replay_of(ask, wanted, ask.at)
    return unfinished_check(over, target, claim, command, options.seed, Kind.TIMEOUT in options.allow)
