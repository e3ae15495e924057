"""The pages whose blocks need a framework: they are run, with what is installed, and print what is shown."""

import importlib.util
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.documents.blocks import pages, to_run
from tests.documents.running import run
from tests.documents.test_blocks import check
from tests.loaded import Loaded

FRAMEWORKS = ("torch", "jax", "tensorflow", "mlx")
INSTALLED = frozenset(name for name in FRAMEWORKS if importlib.util.find_spec(name) is not None)
NEEDS = {page: frozenset(FRAMEWORKS).intersection(n for block in to_run(page) for n in block.needs) for page in pages()}


@pytest.mark.repairs
@pytest.mark.parametrize("page", [page for page, needs in NEEDS.items() if needs])
def test_a_page_shows_what_its_commands_print(
    page: str, tmp_path: Path, request: pytest.FixtureRequest, loaded: Callable[..., Loaded]
) -> None:
    if not NEEDS[page] <= INSTALLED:
        pytest.skip(f"{', '.join(NEEDS[page] - INSTALLED)} is not installed")
    program = loaded(*sorted(NEEDS[page])).run
    check(run(page, tmp_path, INSTALLED, program=program), request.config.getoption("--update-docs"))
