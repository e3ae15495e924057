"""Pages as a reader has them: whole in one file, in both colour schemes, on a phone, on paper, with a keyboard or a screen
reader, and without scripts; no name that stands in one acts there."""

from collections.abc import Callable
from pathlib import Path

import pytest

from gradcli.report.blocks import Chart, Code, Heading, Headline, Paragraph, Piece, Series, Table
from gradcli.report.forms import render_as_text
from tests.browser.conftest import Opened
from tests.report.forms.test_html import HIDDEN, SAID, Page

Open = Callable[..., Opened]
Written = Callable[..., Path]

LEAST = ("--shapes", "X: m n; w: n; y: m")
MATRICES = "W=[[0.5, -1, 0.2], [1, 2, -0.3]], x=[0.3, 0.7, -0.4]"
PAGES = [  # a name, the command without --out, and what a reader finds in its page
    ("derivation", ("derive", "sum((X@w-y)**2)", *LEAST, "--code", "all"), ("gradient by w", "checked", "def gradient")),
    ("answer", ("derive", "sum((X@w-y)**2)", *LEAST, "--style", "graph", "--wrt", "w", "--answer", "X.T@(X@w-y)", "--show"),
     ("FAIL", "off by 0.5", "adjoint")),
    ("answer alone", ("derive", "sum((X@w-y)**2)", *LEAST, "--wrt", "w", "--answer", "X.T@(X@w-y)"),
     ("FAIL", "off by 0.5", "The derivation, the result and its code")),
    ("index", ("derive", "norm(W@x)", "--shapes", "W: m n; x: n", "--style", "index"), ("gradient by W",)),
    ("hessian", ("derive", "sum(W**3)", "--shapes", "W: m n", "--order", "2"), ("relative error",)),
    ("matrices", ("derive", "log(det(S)) + x@inv(S)@x", "--shapes", "S: n n; x: n", "--assume", "S: spd"), ("spd",)),
    ("lecture", ("derive", "w2@tanh(W1@x)", "--at", "w2=[1, -1], W1=[[1, 2], [0, 1]], x=[0.5, -1]"),
     ("Forward and backward at the point", "PASS", "certified", "0.180707", "-0.14355")),
    ("trace", ("trace", "v3 = x1 + x2; v3 * x1", "x1=3", "x2=4"), ("v3", "3*1 + 1*7", "21", "10")),
    ("passing check", ("check", "sin(x*y)", "x=0.5", "y=1.2"), ("PASS", "certified", "0.990402")),
    ("wrong claim", ("check", "tanh(W@x)@w", "--grad", "x=W.T@((1-tanh(W@x))*w)", "--at", MATRICES + ", w=[1, -2]"),
     ("FAIL", "first wrong", "Likely mistake", "claimed")),
    ("kink", ("check", "sum(relu(x))", "--at", "x=[1, 0, -2]"), ("INCONCLUSIVE", "kink")),
    ("jacobian", ("check", "tanh(W@x)", "--jac", "x=W", "--at", MATRICES, "--wrt", "x"), ("FAIL", "claimed", "right")),
    ("sweep", ("sweep", "sin(x)*exp(x)", "x=1", "--dtype", "float64,float32"), ("7-point", "float32", "digits")),
    ("modes", ("compare-modes", "sum(tanh(W@x)**2)", "--at", MATRICES), ("finite-difference", "evaluations")),
    ("suite", ("check", "sin(x)", "sum(abs(y))", "x=0.5", "y=0"), ("1 passed", "INCONCLUSIVE", "sin(x)")),
]  # fmt: skip
each_page = pytest.mark.parametrize("argv", [row[1] for row in PAGES], ids=[row[0] for row in PAGES])
SCREENS = [(1280, False), (400, True)]  # width, dark: no rule is of both
each_screen = pytest.mark.parametrize(("width", "dark"), SCREENS, ids=["wide", "narrow-dark"])


@each_page
@each_screen
def test_everybody_can_use_it(open_page: Open, written: Written, argv: tuple[str, ...], width: int, dark: bool) -> None:
    page = open_page(written(*argv), width=width, dark=dark)
    assert page.axe() == []
    assert page.sticking_out() == []
    assert page.complaints == []
    assert page.requests == [page.url]


@pytest.mark.parametrize(("argv", "says"), [row[1:] for row in PAGES], ids=[row[0] for row in PAGES])
def test_it_can_be_read_without_scripts(open_page: Open, written: Written, argv: tuple[str, ...], says: tuple[str, ...]) -> None:  # fmt: skip
    page = open_page(written(*argv), javascript=False)
    for title in page.page.locator("details:not([open]) > summary").all():
        title.click()
    assert [words for words in says if words not in page.text] == []
    assert page.requests == [page.url]


@each_page
def test_it_can_be_printed(open_page: Open, written: Written, argv: tuple[str, ...]) -> None:
    page = open_page(written(*argv), dark=True)
    assert page.pdf().startswith(b"%PDF")
    page.page.emulate_media(media="print")
    ink = page.page.evaluate("getComputedStyle(document.querySelector('main')).color")
    assert max(map(int, ink.removeprefix("rgb(").removesuffix(")").split(","))) < 128, "light ink on white paper"
    folded = page.page.evaluate(
        "[...document.querySelectorAll('details > :not(summary)')].filter(e => !e.checkVisibility({contentVisibilityAuto: true})).length"
    )
    assert folded == 0, "what is folded is not printed"


@each_page
def test_nothing_is_cut_on_paper(open_page: Open, written: Written, argv: tuple[str, ...]) -> None:
    page = open_page(written(*argv), width=700)
    page.page.emulate_media(media="print")
    assert page.sticking_out() == []
    controls = page.page.locator("button, input, .hint")
    assert [control for control in controls.all() if control.is_visible()] == []


def test_the_chart_of_a_sweep_fits_a_phone_with_its_best_step(open_page: Open, written: Written) -> None:
    page = open_page(written("sweep", "sin(x)*exp(x)", "x=1"), width=400, dark=True).page
    wide, frame, size = page.evaluate(
        "(e => [e.scrollWidth <= e.clientWidth, e.getBoundingClientRect().toJSON(),"
        " 12 * e.querySelector('svg').getScreenCTM().a])(document.querySelector('.lines .wide'))"
    )
    (name,) = page.locator(".lines .wide text", has_text="h = 1e-05, central").all()
    for box in (name.bounding_box(), name.locator("xpath=../*[1]").bounding_box()):
        assert frame["left"] <= box["x"] and box["x"] + box["width"] <= frame["right"]
    assert wide and size > 8.5


SCROLLS = (
    "e !== document.scrollingElement && e.checkVisibility() && e.scrollWidth > e.clientWidth"
    " && /auto|scroll/.test(getComputedStyle(e).overflowX)"
)


@each_page
def test_what_scrolls_by_itself_does_so_by_keyboard(open_page: Open, written: Written, argv: tuple[str, ...]) -> None:
    """An arrow may show another step, which is wider or narrower: what scrolls is asked anew at each stop."""
    page = open_page(written(*argv), width=400).page
    page.evaluate("window.reached = new Set()")
    for _ in range(page.locator("[tabindex='0'], a[href], button, input, summary").count()):
        page.keyboard.press("Tab")
        if page.evaluate(f"(e => {{ reached.add(e); e.scrollLeft = 0; return {SCROLLS}; }})(document.activeElement)"):
            page.keyboard.press("ArrowRight")
            assert page.evaluate(
                "new Promise(done => { const e = document.activeElement; let left = 30;"
                " const look = () => e.scrollLeft > 0 || !left-- ? done(e.scrollLeft > 0) : requestAnimationFrame(look);"
                " look(); })"
            )
    assert page.evaluate(f"[...document.querySelectorAll('*')].filter(e => {SCROLLS} && !reached.has(e)).length") == 0


ACTIVE = """<img src=x onerror=alert(1)><svg onload=alert(2)></svg><script>alert(3)</script>"><iframe src=x></iframe>
' onfocus=alert(4) autofocus x='<style>*{display:none}</style></pre></table></main></math><annotation-xml>"""
NASTY = SAID + ACTIVE.replace("\n", " ")
HOSTILE = [
    ("comment", lambda said: ("derive", f"sum(x**2) # {said}", "--shapes", "x: n")),
    ("lecture", lambda said: ("derive", f"sum(x**2) # {said}", "--at", "x=[1, 2]")),
    ("trace", lambda said: ("trace", f"sum(x**2) # {said}", "--at", "x=[1, 2]")),
    ("check", lambda said: ("check", f"sum(x**2) # {said}", "--grad", f"x # {said}", "--at", "x=[1, 2]")),
    ("suite", lambda said: ("check", f"sum(x**2) # {said}", "sin(y)", "--at", "x=[1, 2], y=1")),
]
BLOCKS = {
    "heading": lambda said: Heading(said, 2),
    "headline": lambda said: Headline("FAIL", "bad", said),
    "verdict": lambda said: Headline(said, "bad", "a"),
    "paragraph": lambda said: Paragraph((Piece(said, "good"), Piece("b"))),
    "code": lambda said: Code(said),
    "table": lambda said: Table(("a", said), ((said, "1"), (Piece(said, "dim"), "2")), frozenset({1}), said),
    "list": lambda said: Table(("", ""), ((said, "c"), ("d", said))),
    "chart": lambda said: Chart(said, said, said, (Series(said, ((1.0, 1.0), (2.0, 4.0))),)),
}  # fmt: skip


def tags(page: Opened) -> list[str]:
    return list(page.page.evaluate("[...document.querySelectorAll('*')].map(element => element.localName)"))


def harmless(page: Opened, tame: Opened) -> bool:
    assert (page.complaints, page.requests) == ([], [page.url])
    assert tags(page) == tags(tame)
    assert not page.page.evaluate(
        "[...document.querySelectorAll('*')].some(e => e.getAttributeNames().some(name => /^on|^src$|^autofocus$/.test(name)"
        " || (name === 'href' && !e.getAttribute(name).startsWith('#'))))"
    )
    return True


@pytest.mark.parametrize("argv", [row[1] for row in HOSTILE], ids=[row[0] for row in HOSTILE])
def test_hostile_names_stay_text(open_page: Open, written: Written, argv: Callable[[str], tuple[str, ...]]) -> None:
    page = open_page(written(*argv(NASTY + HIDDEN)))
    assert harmless(page, open_page(written(*argv("a"))))
    assert NASTY in page.page.text_content("body")


@pytest.mark.parametrize("block", BLOCKS.values(), ids=BLOCKS)
def test_hostile_text_stays_text_in_every_block(
    open_page: Open, tmp_path: Path, block: Callable[[str], object]
) -> None:
    hostile, tame = tmp_path / "hostile.html", tmp_path / "tame.html"
    for file, said in ((hostile, NASTY + HIDDEN), (tame, "a")):
        file.write_text(render_as_text("html", Page((block(said),))), encoding="utf-8")
    page = open_page(hostile)
    assert harmless(page, open_page(tame))
    assert NASTY in page.page.text_content("main") or isinstance(block(""), Chart)  # whose lines have a width
    assert page.axe() == []
