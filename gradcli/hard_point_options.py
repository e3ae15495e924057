"""The rows of the options that look for hard points and write repairs; `options.py` has the table they are part of."""

from collections.abc import Mapping
from dataclasses import dataclass

from gradcli.option_rows import as_given, flag_alone, in_seconds, one, row
from gradcli.option_values import duration, sizes_by_name

HARD_POINTS = "Hard points and repairs"


@dataclass(frozen=True)
class HardPointOptions:
    """The values of the options on hard points and repairs."""

    # fmt: off
    stress: bool = row(
        "--stress", "",
        "Also look at points that break gradients: branches, ties, zeros, magnitudes, tails, indices, sizes.",
        on=("check",), group=HARD_POINTS, default=False, kind=bool, write=flag_alone, take=as_given)
    stress_points: int | None = row(
        "--stress-points", "N", "How many such points to look at; asks for --stress.  [default: 400]",
        on=("check",), group=HARD_POINTS, kind=int, low=1, high=100_000, write=one, take=as_given)
    sizes_check: Mapping[str, tuple[int, ...]] | None = row(
        "--sizes-check", "SIZES", 'Sizes to look at, by the names of --shapes; asks for --stress: "n=1,2,31; b=1,2".',
        on=("check",), group=HARD_POINTS, read=sizes_by_name, take=as_given,
        write=lambda found: ["; ".join(f"{name}={','.join(map(str, sizes))}" for name, sizes in found.items())])
    structure: bool = row(
        "--structure", "", "With --stress, and in a suite: the check itself is on what --assume says, not its hard points alone.",
        on=("check",), group=HARD_POINTS, default=False, kind=bool, write=flag_alone, take=as_given)
    digits: float | None = row(
        "--digits", "N", "Fewer right digits of the claim, at a point that is looked at, are a failure.",
        on=("check",), group=HARD_POINTS, kind=float, low=0, high=16, write=one, take=as_given)
    diagnose: float | None = row(
        "--diagnose", "TIME", "Processor time for the cause of a FAIL, besides a limit that is counted: 10s.  [default: 30s]",
        on=("check",), group=HARD_POINTS, read=duration, write=in_seconds, take=as_given)
    no_diagnose: bool = row(
        "--no-diagnose", "", "Look for no cause of a FAIL but what the wrong entries show at once.",
        on=("check",), group=HARD_POINTS, default=False, kind=bool, write=flag_alone, take=as_given)
    patch: str | None = row(
        "--patch", "FILE", "Write the repair of a wrong claim, if one is found, as a diff that git apply takes.",
        on=("check",), group=HARD_POINTS)
    # fmt: on
