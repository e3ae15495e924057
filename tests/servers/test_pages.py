"""The calls of agents that pages show return what is shown: a `json` block with a name and arguments, and the text after it."""

import json
from pathlib import Path
from typing import Any

import pytest
from mcp.client.client import Client

from tests.documents.blocks import ROOT, Block, blocks, pages, read
from tests.documents.comparing import differs
from tests.servers.test_mcp import asked, text

pytestmark = [pytest.mark.slow, pytest.mark.repairs]


def call(block: Block) -> dict[str, Any] | None:
    """Return the call that a block is, if it is one."""
    found = json.loads(block.text) if block.kind == "json" else {}
    return found if isinstance(found, dict) and {"name", "arguments"} == found.keys() else None


PAGES = [page for page in pages() if any(call(block) for block in blocks(read(page)))]


def test_pages_have_calls() -> None:
    assert {"docs/how-to/mcp.md", "docs/walkthroughs/agents.md"} <= set(PAGES)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_shows_what_its_calls_return(page: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    shown = blocks(read(page))
    wrong: list[str] = []
    renewed: list[tuple[Block, str]] = []

    async def calls(one: Client) -> None:
        for block, after in zip(shown, [*shown[1:], None], strict=True):
            if block.file is not None:
                (tmp_path / block.file).parent.mkdir(parents=True, exist_ok=True)
                (tmp_path / block.file).write_text(block.text)
            if (asks := call(block)) is None:
                continue
            assert after is not None and after.kind == "text", f"{block.text} has no result"
            returned = "".join(f"{line}\n" for line in text(await one.call_tool(asks["name"], asks["arguments"])))
            if (apart := differs(after.text, returned)) is not None:
                wrong.append(f"{block.text}{apart}\n--- shown\n{after.text}--- returned\n{returned}")
                renewed.append((after, returned))

    asked(tmp_path, calls)
    if request.config.getoption("--update-docs"):
        content = read(page)
        for block, returned in reversed(renewed):
            content = content[: block.start] + returned + content[block.start + len(block.text) :]
        (ROOT / page).write_text(content, encoding="utf-8")
    else:
        assert not wrong, f"{page}: --update-docs rewrites it\n\n" + "\n\n".join(wrong)
