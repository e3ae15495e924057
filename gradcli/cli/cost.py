"""`gradcli cost`."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from gradcli.cli.output import requested_output, write_report
from gradcli.cli.target_requests import require_one_target, target_requests
from gradcli.cli.world import World
from gradcli.errors import BadOption
from gradcli.request.options import Options
from gradcli.request.target_text import normalise_name
from gradcli.targets.target_request import TargetRequest

if TYPE_CHECKING:
    from gradcli.study.accounting import Training

FORMATS = ("text", "brief", "json", "ndjson", "markdown", "html", "csv")
EXAMPLES = """Examples:

    gradcli cost "sum(tanh(W@x)**2)" --shapes "W: m n; x: n" --sizes "m=300, n=400" --wrt W

    gradcli cost block.py:loss --shapes "x: b n d; W: d d" --sizes "b=32, n=512, d=768" --dtype bfloat16 --optimizer adam

    gradcli cost net.py:loss --at "x=randn(64, 100)" --checkpoint attention --memory 2GB

    gradcli cost --model llama-2-70b --batch 4 --seq 4096 --dtype bfloat16 --optimizer adam --master float32 --shard 64 --zero 3

    gradcli cost "sum(w**2)" --shapes "w: N" --sizes N=7e10 --pass-time 0.5s
"""


def cost(world: World, target: list[str] | None, options: Options) -> int:
    """Count what a gradient costs: passes, operations and bytes, and what checkpoints, formats and ranks change.

    gradcli counts the operations of the recorded program. With --sizes, the counts are formulas of the sizes, and
    nothing is run at large sizes. With --model, the counts are those of a published model. Nothing is timed without
    --time.

    Formats: text, brief, json, ndjson, markdown, html, csv. A file may also be .pdf, .svg or .png.
    """
    from gradcli.study.accounting import account, account_model

    to = requested_output(FORMATS, options, world, pictures=True)
    how = _training_options(options)
    if options.model is not None:
        if target:
            raise BadOption("--model is a target of its own", do="leave the other one out")
        for name in ("at", "shapes", "sizes", "wrt", "checkpoint", "memory", "time", "norms"):
            if name in options.given:
                raise BadOption(f"--{name} is for a function, and --model counts by formulas", do="leave it out")
        write_report(account_model(options.model, options.batch, options.seq, how), to, world)
        return 0
    if not target:
        raise BadOption("there is no target", do="name a function or an expression, or a model: --model llama-2-70b")
    if options.seq is not None or options.batch != 1:
        raise BadOption("--batch and --seq are sizes of a model", do="write sizes of a function: --sizes b=32")

    from gradcli.checks.build import build_request

    # formats of cost are counted with, and the target runs in its own
    alone = replace(options, points=1, dtype=None, autocast=None)
    ask = require_one_target(target_requests(target, alone, world))
    sizes = _values_of_sizes(options, ask)
    with world.users_code(ask.target, seconds=options.timeout), world.working("counting", options.quiet):
        report = account(lambda at: build_request(replace(ask, sizes=at)), sizes, how)
    write_report(report, to, world)
    return report.exit_status


def _training_options(options: Options) -> "Training":
    """Return how a training step computes. Raises BadOption."""
    from gradcli.study.accounting import Training

    if options.zero is not None and options.shards is None:
        raise BadOption("--zero divides over ranks, and their number is not given", do="--shard 8 --zero 3")
    return Training(
        options.dtype or "float32", options.autocast, options.optimizer, options.master, options.checkpoint, options.memory,
        options.link, options.shards, options.zero or 1, options.pass_time, options.time, options.norms,
    )  # fmt: skip


def _values_of_sizes(options: Options, ask: TargetRequest) -> Mapping[str, tuple[int, ...]]:
    """Return the values of every size that has a name. Raises BadOption for one that nothing uses."""
    from gradcli.targets.points import numbers_of_sizes

    given = {normalise_name(name): values for name, values in (options.sizes or {}).items()}
    fixed = {name: values[-1] for name, values in given.items()}
    words = {normalise_name(word) for text in (*ask.at, *options.shapes) for word in re.findall(r"\w+", text)}
    for name, values in given.items():
        if min(values) < 1:
            raise BadOption(f"{name}={min(values)}: a size is at least 1", do=f"--sizes {name}=1")
        if name not in words and not ask.runs_python:
            says = f"--sizes has '{name}', which neither the point nor the shapes use"
            raise BadOption(says, do=f'use it: --shapes "x: {name}"')
    small = numbers_of_sizes(options.shapes, [], options.seed, {name: min(n, 12) for name, n in fixed.items()})
    return {**{name: (n,) for name, n in small.items() if name not in given}, **given}
