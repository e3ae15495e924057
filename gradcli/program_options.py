"""The rows of the options on programs that run; `options.py` has the table they are part of."""

from dataclasses import dataclass

from gradcli.option_rows import row
from gradcli.option_values import as_tuple, duration, octets

PROGRAM, LIMITS = "Programs", "Precision and limits"


@dataclass(frozen=True)
class ProgramOptions:
    """The values of the options on programs that run, and on what was recorded of them."""

    # fmt: off
    checking_time: float | None = row(
        "--timeout", "TIME", "Time for the checks after the program: 90s, 5min; calls that are left are listed.",
        on=("run",), group=LIMITS, read=duration)
    keep: int = row(
        "--keep", "N", "Calls of each gradient that are checked: the first, that of the largest input, others drawn evenly.",
        on=("run",), group=PROGRAM, default=3, kind=int, low=1, high=100_000)
    keep_bytes: int | None = row(
        "--keep-bytes", "SIZE", "Memory for the values of these calls: 256MB, 2GB.  [default: 256MB]",
        on=("run",), group=PROGRAM, read=octets)
    source: tuple[str, ...] = row(
        "--source", "FOLDER", "Only gradients defined in this folder; all: those of libraries too. Repeatable.",
        on=("run",), group=PROGRAM, default=(), repeated=True, read=as_tuple)
    exclude: tuple[str, ...] = row(
        "--exclude", "NAME", "Leave out a gradient, by its name; globs allowed. Repeatable.",
        on=("run",), group=PROGRAM, default=(), repeated=True, read=as_tuple)
    save: str | None = row(
        "--save", "FILE", "Keep the recorded calls in a file .npz, for gradcli check --recorded.", on=("run",), group=PROGRAM)
    write_suite: str | None = row(
        "--write-suite", "FILE", "Write a suite of checks at the recorded points: gradcli.toml.", on=("run",), group=PROGRAM)
    recorded: str | None = row(
        "--recorded", "FILE", "Check the calls that gradcli run --save FILE has kept.", on=("check",), group=PROGRAM)
    # fmt: on
