"""`--patch FILE`: write the repairs of wrong claims as one diff."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from gradcli.cli.world import World
from gradcli.errors import BadOption

if TYPE_CHECKING:
    from gradcli.report.check import CheckReport


def write_patches(reports: Iterable["CheckReport"], file: str, world: World) -> None:
    """Write the patches that reports hold to a file, and say so; say why there is none.

    Raises  BadOption if the file cannot be written.
    """
    from gradcli.repair.full_check import patch_in, reason_in

    reports = list(reports)
    patches = list(dict.fromkeys(patch for report in reports if (patch := patch_in(report)) is not None))
    if not patches:
        why = reason_in(reports[0]) if len(reports) == 1 else "no repair was found"
        world.tell(f"{file} was not written: {why}")
        return
    try:
        Path(file).write_text("".join(patches), encoding="utf-8", newline="")
    except OSError as error:
        says = f"--patch {file}: {error.strerror or error}"
        raise BadOption(says, do="name a file in a folder that is there") from None
    several = f"{len(patches)} repairs are" if len(patches) > 1 else "the repair is"
    world.tell(f"{several} in {file}: git apply {file}")
