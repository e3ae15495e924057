"""The site is built without a warning and without a network, with a page for each page; it needs the extra `docs`."""

import json
import re
import socket
import warnings
from pathlib import Path
from typing import Any

import pytest

from tests.documents.blocks import ROOT, pages

pytest.importorskip("furo", reason="the extra docs is not installed")
pytest.importorskip("myst_parser", reason="the extra docs is not installed")

SOURCES = [page.removeprefix("docs/").removesuffix(".md") for page in pages() if page.startswith("docs/")]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site, with warnings as errors, and with no way to the network."""
    from sphinx.cmd.build import build_main

    def refused(*_: Any) -> None:
        raise OSError("the site is built without a network")

    folder = tmp_path_factory.mktemp("site")
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Sphinx about itself
        patch.setattr(socket.socket, "connect", refused)
        assert build_main(["-W", "-n", "-q", str(ROOT / "docs"), str(folder)]) == 0
    return folder


def test_every_page_is_in_the_site(site: Path) -> None:
    assert [page for page in SOURCES if not (site / f"{page}.html").exists()] == []
    assert [page for page in SOURCES if not (site / f"{page}.md").exists()] == []


def test_links_of_llms_txt_lead_to_pages(site: Path) -> None:
    links = re.findall(r"\]\(([^)]+)\)", (site / "llms.txt").read_text(encoding="utf-8"))
    assert len(links) > 30
    assert [link for link in links if not (site / link).exists()] == []


def test_pages_of_the_gallery_open(site: Path) -> None:
    links = re.findall(r'href="(pages/\w+\.html)"', (site / "gallery.html").read_text(encoding="utf-8"))
    assert len(set(links)) == 6
    assert [link for link in links if not (site / link).exists()] == []


@pytest.mark.parametrize(("page", "count"), [("index", 1), ("gallery", 6)])
def test_frames_show_pages_and_have_titles(site: Path, page: str, count: int) -> None:
    frames = re.findall(r'<iframe src="([^"]+)" title="[^"]+"', (site / f"{page}.html").read_text(encoding="utf-8"))
    assert len(frames) == count
    assert [frame for frame in frames if not (site / frame).exists()] == []
    links = re.findall(r'href="([^"]+)"', (site / f"{page}.html").read_text(encoding="utf-8"))
    assert set(frames) <= set(links)  # to open it alone


def test_terminals_have_the_colours_of_verdicts_and_edits(site: Path) -> None:
    text = (site / "index.html").read_text(encoding="utf-8")
    assert re.findall(r'class="(?:go )?(go-\w+)"', text)[:3] == ["go-Fail", "go-Old", "go-New"]
    style = (site / "_static" / "gradcli.css").read_text(encoding="utf-8")
    assert [kind for kind in ("Pass", "Fail", "Open", "Old", "New") if f".go-{kind}" not in style] == []


def test_a_search_for_a_wrong_gradient_leads_to_the_tutorial(site: Path) -> None:
    index = json.loads(
        (site / "searchindex.js").read_text(encoding="utf-8").removeprefix("Search.setIndex(").removesuffix(")")
    )
    entries = {
        entry: [(index["docnames"][page], main) for page, _, main in found]
        for entry, found in index["indexentries"].items()
    }
    for words in (
        "wrong gradient",
        "gradient is wrong",
    ):  # an entry that is the main one of its page ranks before all titles
        assert [found for entry, found in entries.items() if words in entry] == [[("tutorial", True)]]


def test_the_python_reference_has_text(site: Path) -> None:
    text = (site / "reference" / "python.html").read_text(encoding="utf-8")
    assert "Raises" in text and "CannotCompile" in text


def test_nothing_is_asked_for_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert not re.search(r'<(?:script|link|img)[^>]*(?:src|href)="https?://', text), page.name
