"""What all tests share: the program run in-process, with its streams and status in hand."""

import io
import json
from dataclasses import dataclass
from typing import Any

import pytest

from gradcli.cli import run
from gradcli.world import World


@dataclass(frozen=True)
class Ran:
    """One run of the program."""

    exit_status: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        """Standard output as one strict JSON document."""
        return json.loads(self.stdout, parse_constant=_refuse)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not strict JSON")


def gradcli(*argv: str, stdin: str = "", environ: dict[str, str] | None = None) -> Ran:
    """Run the program in this process."""
    world = World(io.StringIO(stdin), io.StringIO(), io.StringIO(), environ or {})
    status = run(argv, world)
    return Ran(int(status), world.stdout.getvalue(), world.stderr.getvalue())


@pytest.fixture(name="gradcli")
def _gradcli() -> Any:
    return gradcli
