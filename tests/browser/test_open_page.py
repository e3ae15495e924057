"""The harness itself: each fault planted in a page is reported where a test looks for it, and a good page has none."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import Opened

PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>a page</title>{head}
<meta name="viewport" content="width=device-width"></head><body><main><h1>a page</h1>{body}</main></body></html>"""
STRICT = """<meta http-equiv="Content-Security-Policy" content="default-src 'none'">"""
LONG = "w" * 200
FAULTS = [
    ("an image from this machine", "", '<img alt="a" src="a.png">', lambda page: page.requests[1:]),
    ("an image from outside", "", '<img alt="a" src="http://a.invalid/a.png">', lambda page: page.requests[1:]),
    ("a style sheet", '<link rel="stylesheet" href="a.css">', "", lambda page: page.requests[1:]),
    ("a message", "", "<script>console.warn('x')</script>", lambda page: page.console),
    ("an exception", "", "<script>throw new Error('x')</script>", lambda page: page.errors),
    ("a dialog", "", "<script>alert('x')</script>", lambda page: page.dialogs),
    ("a script that the policy forbids", STRICT, "<script>1</script>", lambda page: page.refused),
    ("an image that the policy forbids", STRICT, '<img alt="a" src="a.png">', lambda page: page.refused),
    ("a style that the policy forbids", STRICT, '<p style="color: red">a</p>', lambda page: page.refused),
    ("an image without a name", "", '<img src="data:image/gif;base64,R0lGODlhAQABAAAAACw=">', Opened.axe),
    ("grey on white", "", '<p style="color: #bbb; background: #fff">grey words</p>', lambda page: page.axe("color-contrast")),
    ("an image without a name, under a policy", STRICT, '<svg role="img"></svg>', Opened.axe),
    ("a long word", "", f"<p>{LONG}</p>", Opened.sticking_out),
    ("a wide element", "", '<p style="width: 150vw">a</p>', Opened.sticking_out),
    ("a positioned element", "", '<p style="position: absolute; left: 100vw">a</p>', Opened.sticking_out),
]  # fmt: skip


def saved(folder: Path, head: str, body: str) -> Path:
    file = folder / "page.html"
    file.write_text(PAGE.format(head=head, body=body), encoding="utf-8")
    return file


@pytest.mark.parametrize(("head", "body", "seen"), [row[1:] for row in FAULTS], ids=[row[0] for row in FAULTS])
def test_a_fault_is_seen(open_page: Callable[..., Opened], tmp_path: Path, head: str, body: str, seen: Callable[[Opened], Any]) -> None:  # fmt: skip
    assert seen(open_page(saved(tmp_path, head, body)))


GOOD = [("", "<p>a</p>"), (STRICT, "<p>a</p>"), ("", f'<pre tabindex="0" style="overflow-x: auto">{LONG}</pre>')]


@pytest.mark.parametrize(("head", "body"), GOOD)
def test_a_good_page_has_no_fault(open_page: Callable[..., Opened], tmp_path: Path, head: str, body: str) -> None:
    page = open_page(saved(tmp_path, head, body))
    assert page.axe() == page.complaints == page.sticking_out() == []
    assert page.requests == [page.url]


def test_a_page_is_seen_as_asked_for(open_page: Callable[..., Opened], tmp_path: Path) -> None:
    file = saved(tmp_path, "<style>@media (prefers-color-scheme: dark) { h1::after { content: ' at night' } }</style>",
                 "<script>document.querySelector('h1').append(` ${innerWidth}`, location.hash)</script>")  # fmt: skip
    assert open_page(file).snapshot() == '- main:\n  - heading "a page 1280" [level=1]'
    assert 'heading "a page 400#b7 at night"' in open_page(file, width=400, dark=True, fragment="#b7").snapshot()
    assert open_page(file, javascript=False).text == "a page"


def test_a_page_can_be_kept(open_page: Callable[..., Opened], tmp_path: Path) -> None:
    page = open_page(saved(tmp_path, "", "<p>a</p>"))
    page.shot(tmp_path / "page.png")
    assert (tmp_path / "page.png").read_bytes().startswith(b"\x89PNG") and page.pdf().startswith(b"%PDF")
