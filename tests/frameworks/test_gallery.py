"""The page of the gallery that needs torch is what its command writes."""

from pathlib import Path

import pytest

from tests.test_gallery import check_page, commands, needs_torch

pytest.importorskip("torch")


@pytest.mark.repairs
@pytest.mark.parametrize("name", [name for name, words in commands().items() if needs_torch(words)])
def test_a_page_is_what_its_command_writes(name: str, tmp_path: Path) -> None:
    check_page(name, tmp_path)
