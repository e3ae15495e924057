"""`gradcli check`."""

import dataclasses
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from gradcli.commands.ended import TimeIsUp, unfinished_check
from gradcli.commands.output import DATA, Output, emit, output, print_error
from gradcli.commands.points import keep_point, keepable
from gradcli.commands.suite_page import SuitePage
from gradcli.commands.target_requests import TargetRequest, checked_point_texts, several, target_requests
from gradcli.errors import GradcliError
from gradcli.options import Options, replayed, with_claim
from gradcli.source.targets import is_python
from gradcli.words import Exit, Kind, worst
from gradcli.world import World

if TYPE_CHECKING:
    from gradcli.reports.check import CheckReport
    from gradcli.verify.build import Settings
    from gradcli.verify.request import Request

_LARGE = 10**7  # entries: the work for more is announced
FORMATS = ("text", "json", "ndjson", "markdown", "csv", "junit", "github")
EXAMPLES = """Examples:

    gradcli check "sin(x*y) + exp(-x**2)" x=0.5 y=1.2

    gradcli check "u = W*x; v = u + b; v**2" --at "W=2, x=3, b=1" --json

    gradcli check "-sum(y*log(softmax(z)))" --grad "z=softmax(z)-y, y=-log(softmax(z))" --at "z=[1,2,3], y=[0,0,1]"

    gradcli check losses.py:focal --grad focal_grad --at "z=randn(8), y=ones(8)"

    gradcli check model.py:loss --at model.py:point --wrt "params.*" --timeout 90s

    gradcli check "sum(tanh(W@x)**2)" --shapes "W: 3 4; x: 4" --out report.md
"""


def check(world: World, targets: list[str], options: Options) -> int:
    """Verify the gradient of an expression or a Python function, or a gradient you claim for it (--grad).

    Python: file.py:name or package.module:name, plain numpy code as it is; it is run. Without
    values, an expression is checked at three points drawn where it is smooth.
    Formats: text, json, ndjson, markdown, csv, junit, github.
    """
    from gradcli.verify.build import settings_of

    to = output(FORMATS, options, world)
    settings = settings_of(options)
    keep = None if options.save_point is None else keepable(options.save_point)
    wanted = CheckOptions(settings, options.points or 3, keep)
    page = SuitePage(to, options.verbose, world) if several(targets) else None
    return _all(target_requests(targets, options, world), wanted, to if page is None else page.each, world, page)


def _all(
    found: Iterator[TargetRequest], wanted: "CheckOptions", to: Output, world: World, page: "SuitePage | None"
) -> int:
    """Check the targets that no earlier process has done, and return the worst status; `page` shows several together."""
    earlier = world.link.earlier
    statuses = [Exit(status) for status in earlier.statuses]
    first = not earlier.written
    for ask in found:
        if world.link.is_done(ask.target_index, ask.line or 0):
            continue
        if {Exit.WRONG, Exit.INCONCLUSIVE} & set(statuses):
            wanted = dataclasses.replace(wanted, keep=None)  # the first point that does not pass is saved already
        started = time.perf_counter()
        status, report, error = _one(ask, wanted, to, world, page is not None, first)
        row = None if page is None else page.add(ask.target, report, error, time.perf_counter() - started)
        world.link.result(ask.target_index, ask.line or 0, status, report is not None, row)
        statuses.append(status)
        first = first and report is None
    if page is not None:
        page.end()
    return worst(statuses)


@dataclasses.dataclass(frozen=True, slots=True)
class CheckOptions:
    """The options that hold for every target."""

    settings: "Settings"
    points: int = 1
    keep: Path | None = None
    sizes: Mapping[str, int] = dataclasses.field(default_factory=dict)


def _one(
    ask: TargetRequest, wanted: CheckOptions, to: Output, world: World, many: bool, first: bool
) -> tuple[Exit, "CheckReport | None", str | None]:
    """Check one target; return its status, and either its report or the text of the error.

    With several targets (`many`), an error is the result of its target, and the next target follows.
    """
    from gradcli.verify.check import check as verify

    timeout = wanted.settings.options.timeout
    try:
        try:
            with (
                world.users_code(ask.target, ask.target_index, ask.line or 0, ask.text, timeout),
                world.working(f"checking {ask.target[:40]}", to.quiet),
            ):
                progress = None if timeout is None else world.link.point
                asked = request(ask, wanted)
                _announce(asked, to, world)
                report = verify(asked, progress)
        except TimeIsUp as over:
            report = _unfinished(over, ask, wanted)
    except GradcliError as error:
        if not many:
            raise
        print_error(error, to.form in DATA, world, ask.line, compact=True)
        return Exit.UNUSABLE, None, error.what
    if ask.line is not None:
        report = dataclasses.replace(report, line=ask.line)
    if wanted.settings.options.verbose:
        report = dataclasses.replace(report, full=True)
    emit(report, to, world, first)
    status = Exit(report.exit_status)
    if wanted.keep is None or not (first or status):
        return status, report, None
    try:
        keep_point(report, wanted.keep)
    except GradcliError as error:
        print_error(error, False, world, ask.line)  # the report was written, so that no second JSON document may follow
        status = worst((status, Exit.UNUSABLE))
    return status, report, None


def _announce(asked: "Request", to: Output, world: World) -> None:
    """Announce before the work how much memory it takes, if arrays are large."""
    from gradcli.core.shapes import size as size_of
    from gradcli.reports import numbers

    values = asked.points[0].values
    entries = sum(int(size_of(values[name])) for name in asked.wrt if name in values)
    if entries >= _LARGE and not to.quiet:
        size = numbers.octets(8 * entries)
        world.tell(
            f"{entries:,} entries: each mode needs several arrays of {size}; --modes names fewer, --timeout 60s sets a limit"
        )


def _unfinished(over: TimeIsUp, ask: TargetRequest, wanted: CheckOptions) -> "CheckReport":
    from gradcli.reports.common import Target

    target = Target("python" if is_python(ask.target) else "expression", ask.target)
    claim = None if ask.claim is None else ask.claim[1]
    options = wanted.settings.options
    command = _replay(ask, wanted, ask.at)
    return unfinished_check(over, target, claim, command, options.seed, Kind.TIMEOUT in options.allow)


def request(ask: TargetRequest, wanted: CheckOptions) -> "Request":
    """Return the request to check one target, with the command that repeats it."""
    from gradcli.source.points import shapes as read_shapes
    from gradcli.source.sizes import numbers
    from gradcli.verify.build import request_for
    from gradcli.verify.claims import Claiming
    from gradcli.verify.probe import LocateOptions, locate

    settings = wanted.settings
    seed, shapes = settings.options.seed, settings.options.shapes
    at = checked_point_texts(ask)
    sizes = numbers(shapes, at, seed, wanted.sizes)
    looked_at = LocateOptions(
        seed, read_shapes(shapes, sizes), wanted.points, ask.wrt, settings.options.value_and_grad, sizes, settings.stepping,
        settings.framework_options,
    )  # fmt: skip
    found = locate(ask.target, at, looked_at)
    claiming = None if ask.claim is None else Claiming(*ask.claim)
    return request_for(found, claiming, settings, _replay(ask, wanted, at))


def _replay(ask: TargetRequest, wanted: CheckOptions, at: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command that repeats this check exactly."""
    points = None if wanted.points == 3 else wanted.points
    options = dataclasses.replace(wanted.settings.options, at=at, wrt=ask.wrt, points=points)
    return ("gradcli", "check", ask.target, *replayed(with_claim(options, ask.claim)))
