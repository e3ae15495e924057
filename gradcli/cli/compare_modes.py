"""`gradcli compare-modes`."""

import re
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING

from gradcli.cli.output import emit, output
from gradcli.cli.target_requests import only, target_requests
from gradcli.cli.world import World
from gradcli.errors import BadOption
from gradcli.request.option_values import words_of
from gradcli.request.options import Options
from gradcli.request.target_text import folded
from gradcli.targets.target_request import TargetRequest

if TYPE_CHECKING:
    from gradcli.checks.build import CheckOptions
    from gradcli.targets.facts import Function

_SIZE = re.compile(r"\d[\d_]{0,30}(\.\d{1,30})?([eE]\+?\d{1,2})?")
FORMATS = ("text", "json", "ndjson", "markdown", "html", "csv")
_LARGEST = 10**13  # the largest size: its counts are still exact, and nothing of it is allocated
EXAMPLES = """Examples:

    gradcli compare-modes "sin(x*y) + exp(-x**2)" x=0.5 y=1.2

    gradcli compare-modes "sum(tanh(W@x)**2)" --shapes "W: 3 4; x: 4" --wrt x --cost

    gradcli compare-modes "sum(tanh(W@x)**2)" --at "W=randn(n,n), x=randn(n)" --wrt x --sizes n=10,30,100

    gradcli compare-modes nets.py:deep --at "x=randn(1000)" --sizes depth=16,64,256 --modes reverse,forward

    gradcli compare-modes losses.py:focal --at "z=randn(8), y=ones(8)" --dtype float16,bfloat16 --plot modes.svg
"""


def compare_modes(world: World, target: list[str], options: Options) -> int:
    """Set all modes side by side: values, right digits, error bounds, evaluations of f, operations, time and memory.

    Below them error against step size, in short (all of it: gradcli sweep). --sizes shows how evaluations, time and memory
    grow; --dtype what low precision does. Formats: text, json, ndjson, markdown, html, csv; files also .pdf, .svg, .png.
    """
    from gradcli.checks.build import CheckOptions, request, settings_of
    from gradcli.study.compare import Studies
    from gradcli.study.compare import compare_modes as study

    to = output(FORMATS, options, world, pictures=True)
    name, values = sizes_of(options.sizes)
    ask = only(target_requests(target, options, world))
    wanted = CheckOptions(settings_of(options), sizes={name: values[0]} if name else {})
    if options.loss_scale is not None and not options.formats:
        raise BadOption("--loss-scale is for low precision", do="name one: --dtype float16")
    studies = Studies(
        options.cost, columns_of(options.columns), options.jacobian, options.formats, options.loss_scale, options.accumulate,
        (name, values, lambda n: request(ask, replace(wanted, sizes={name: n}))) if name else None,
    )  # fmt: skip

    with world.users_code(ask.target, seconds=options.timeout), world.working("comparing modes", options.quiet):
        asked = request(ask, wanted)
        _varied(name, ask, wanted, asked.f)
        report = study(asked, studies)
    emit(report, to, world)
    return report.exit_status


def columns_of(text: str | None) -> tuple[str, ...]:
    """Return the columns that `--columns` names. Raises BadOption."""
    from gradcli.report.compare import COLUMNS

    found = words_of(text)
    if text is not None and not found:
        raise BadOption("--columns names no column", do=f"columns: {', '.join(COLUMNS)}")
    for word in found:
        if word not in COLUMNS:
            raise BadOption(f"there is no column '{word}'", do=f"columns: {', '.join(COLUMNS)}")
    return found


def _varied(name: str, ask: TargetRequest, wanted: "CheckOptions", f: "Function") -> None:
    """Raise BadOption if the size in --sizes is not used, or has a value in the point."""
    from gradcli.targets.derived import root_of
    from gradcli.targets.points import read

    root = root_of(f)
    words = {folded(word) for text in (*ask.at, *wanted.settings.options.shapes) for word in re.findall(r"\w+", text)}
    if not name:
        return
    if name not in words and name not in getattr(root, "arguments", root.inputs):
        raise BadOption(
            f"--sizes varies '{name}', which neither the point nor the target uses",
            do=f'use it: --at "x=randn({name})"',
        )
    if any(name in point for point in read(ask.at, wanted.settings.options.seed, wanted.sizes, target=ask.target)):
        raise BadOption(f"'{name}' has a value in the point, and sizes in --sizes", do="leave one out")


def sizes_of(text: str | None) -> tuple[str, tuple[int, ...]]:
    """Return the name and the sorted values of `n=10,100,1000`; an empty name without a string. Raises BadOption."""
    if text is None:
        return "", ()
    name, _, listed = text.partition("=")
    words = words_of(listed)
    found = [_size(word) for word in words]
    bad = [word for word, size in zip(words, found, strict=True) if size is None]
    if not name.strip().isidentifier() or not words or bad:
        why = f": {bad[0]} is not a whole number from 1 to 10^13" if bad else ""
        raise BadOption(f"--sizes takes NAME=SIZE,SIZE,..., not '{text}'{why}", do="--sizes n=10,100,1000")
    return folded(name.strip()), tuple(sorted({size for size in found if size is not None}))


def _size(word: str) -> int | None:
    """Return the size in a word, such as 70000000000, 70_000_000_000 or 7e10; None for any other word."""
    if not _SIZE.fullmatch(word):
        return None
    size = Decimal(word.replace("_", ""))
    return int(size) if 1 <= size <= _LARGEST and size == size.to_integral_value() else None
