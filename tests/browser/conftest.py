"""A browser for tests of HTML pages: what a page asks for, says and shows, and whom it shuts out."""

import functools
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import gradcli

NAMES = ("chromium", "chromium-browser", "google-chrome")  # what a browser is called on PATH
QUIET = ("--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync")  # fmt: skip
HEIGHT = 900  # pixels of the window
SPOKEN = ("warning", "error", "assert")  # types of console messages that a page has no reason for

# Events reach the window, whose listeners outlive what a page does to its elements.
RECORD = """
window.refusedByPolicy = [];
addEventListener("securitypolicyviolation",
    event => refusedByPolicy.push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`.trim()));
"""

# Elements that end right of the window, but for those inside an element that scrolls by itself or hides the rest.
STICKING_OUT = """() => [...document.body.querySelectorAll("*")].filter(element => {
    const box = element.getBoundingClientRect();
    if (!box.width || !box.height || box.right <= innerWidth + 0.5) return false;
    for (let outer = element.parentElement; outer && outer !== document.body; outer = outer.parentElement)
        if (getComputedStyle(outer).overflowX !== "visible") return false;
    return true;
}).map(element => element.cloneNode(false).outerHTML)"""


@dataclass
class Opened:
    """A page in a browser, and what it did since it was opened."""

    page: Any  # of playwright
    requests: list[str] = field(default_factory=list)  # addresses, the page's own first; also those that failed
    console: list[str] = field(default_factory=list)  # warnings and errors
    errors: list[str] = field(default_factory=list)  # exceptions of scripts
    dialogs: list[str] = field(default_factory=list)  # which are closed at once

    @property
    def refused(self) -> list[str]:
        """What the page's content security policy did not let it do; always empty without JavaScript."""
        return [said for frame in self.page.frames for said in frame.evaluate("window.refusedByPolicy ?? []")]

    @property
    def complaints(self) -> list[str]:
        """All that a good page has none of."""
        return [*self.console, *self.errors, *self.dialogs, *self.refused]

    @property
    def text(self) -> str:
        """What a reader sees."""
        return str(self.page.inner_text("body"))

    @property
    def url(self) -> str:
        return str(self.page.url.partition("#")[0])

    def axe(self, *rules: str) -> list[str]:
        """Return what axe finds in the page as it stands now, one line an element; `rules` limits it to these."""
        from axe_playwright_python.base import AXE_SCRIPT

        if self.page.evaluate("typeof window.axe") == "undefined":
            self.page.evaluate(AXE_SCRIPT)  # as a debugger does, which the page's policy does not stop
        options = {"resultTypes": ["violations"], "preload": False}
        if rules:
            options["runOnly"] = list(rules)
        found = self.page.evaluate("options => axe.run(document, options)", options)["violations"]
        return [f"{rule['id']}: {rule['help']}: {node['html']}" for rule in found for node in rule["nodes"]]

    def sticking_out(self) -> list[str]:
        """Return the elements that a reader has to scroll the whole page sideways for."""
        wide = self.page.evaluate("document.scrollingElement.scrollWidth > innerWidth")
        return [*self.page.evaluate(STICKING_OUT), *(["the page"] if wide else [])]

    def snapshot(self) -> str:
        """Return the page as a screen reader has it: roles, names and states."""
        return str(self.page.locator("body").aria_snapshot())

    def shot(self, path: Path | str) -> None:
        """Write the whole page as a PNG."""
        self.page.screenshot(path=str(path), full_page=True)

    def pdf(self) -> bytes:
        """Return the page as it is printed."""
        return bytes(self.page.pdf())


@pytest.fixture(name="written", scope="session")
def _written(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Run a command and return the page it wrote; the same command runs once in a process."""

    @functools.cache
    def written(*argv: str) -> Path:
        file = tmp_path_factory.mktemp("page") / "page.html"
        ran = gradcli(*argv, "--out", str(file))
        assert file.exists(), f"no page, status {ran.exit_status}: {ran.stderr}"
        return file

    return written


@pytest.fixture(name="browser", scope="package")
def _browser() -> Iterator[Any]:
    """One browser for all tests here that a process runs one after the other: its loop would stop asyncio in others."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    pytest.importorskip("axe_playwright_python", reason="axe-playwright-python is not installed")
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip(f"no browser on PATH: {', '.join(NAMES)}")
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=found, args=[*QUIET])
        yield browser
        browser.close()


@pytest.fixture(name="open_page")
def _open_page(browser: Any) -> Iterator[Callable[..., Opened]]:
    """Open a file in a window of its own, without a network: as a reader does who was sent it."""
    contexts = []

    def open_page(path: Path, *, dark: bool = False, width: int = 1280, javascript: bool = True, fragment: str = "", **more: Any) -> Opened:  # fmt: skip
        context = browser.new_context(
            viewport={"width": width, "height": HEIGHT}, color_scheme="dark" if dark else "light",
            java_script_enabled=javascript, offline=True, **more,
        )  # fmt: skip
        contexts.append(context)
        context.add_init_script(RECORD)
        opened = Opened(context.new_page())

        def close(dialog: Any) -> None:
            opened.dialogs.append(f"{dialog.type}: {dialog.message}")
            dialog.dismiss()

        context.on("request", lambda request: opened.requests.append(request.url))
        context.on("console", lambda said: opened.console.append(said.text) if said.type in SPOKEN else None)
        context.on("weberror", lambda error: opened.errors.append(str(error.error)))
        context.on("dialog", close)
        opened.page.goto(path.resolve().as_uri() + fragment)
        return opened

    yield open_page
    for context in contexts:
        context.close()
