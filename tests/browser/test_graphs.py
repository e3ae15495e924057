"""Graphs can be read: the size of their letters, and that no word lies on another, on a box or on an edge."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import Opened
from tests.conftest import gradcli

# Of each visible word of the graph: its size in pixels, and what it lies on: other words, other boxes, and edges but its own.
MEASURED = """() => {
    const graph = [...document.querySelectorAll("svg.graph")].find(one => one.getBoundingClientRect().width);
    const shown = element => getComputedStyle(element).visibility === "visible" && element.textContent;
    const words = [...graph.querySelectorAll("text")].filter(shown);
    const place = element => element.getBoundingClientRect();
    const meet = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
        && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 4;
    const boxes = [...graph.querySelectorAll("g > rect")];
    const paths = [...graph.querySelectorAll(".edges path")].map(path => {
        const matrix = path.getScreenCTM(), spots = [];
        for (let at = 0; at <= path.getTotalLength(); at += 3) {
            const spot = path.getPointAtLength(at).matrixTransform(matrix);
            spots.push([spot.x, spot.y]);
        }
        return [path.id, spots];
    });
    const scale = graph.getScreenCTM().a;
    return words.map(word => {
        const own = place(word), on = [];
        for (const other of words) if (other !== word && meet(own, place(other))) on.push("word " + other.textContent);
        for (const box of boxes) if (box.parentElement !== word.parentElement && meet(own, place(box))) on.push("a box");
        for (const [id, spots] of paths)
            if (id !== word.dataset.edge && spots.some(([x, y]) => x > own.left && x < own.right && y > own.top + 3 && y < own.bottom - 3))
                on.push("edge " + id);
        return [word.textContent, parseFloat(getComputedStyle(word).fontSize) * scale, on];
    });
}"""

CODE = """import numpy as np


def softmax(z):
    e = np.exp(z - np.max(z, axis=1, keepdims=True))
    return e / np.sum(e, axis=1, keepdims=True)


def network(W1, b1, W2, x, y):
    h = np.tanh(x @ W1 + b1)
    p = softmax(h @ W2)
    return -np.mean(np.log(p[np.arange(len(y)), y]))


def recurrent(x, w, u):
    h = 0.0
    for k in range(6):
        h = np.tanh(w * h + u * x[k])
    return h * h


def long(x):
    h = x
    for k in range(250):
        h = 0.9 * h + 0.1 * np.sin(h)
    return h @ h
"""
POINTS = {
    "network": "W1=randn(3,4), b1=randn(4), W2=randn(4,2), x=randn(5,3), y=[0,1,1,0,1]",
    "recurrent": "x=randn(6), w=0.5, u=0.3",
    "long": "x=[1, 2]",
}
PROGRAMS = [
    ("v3 = x1 + x2; v3 * x1", "x1=3, x2=4"),
    ("x*y*z*w + x*y + z*w + x*w + y*z", "x=1, y=2, z=3, w=4"),
    ("sigmoid(w*x + b)", "w=2, x=1, b=-1"),
    ("(x*sin(y) - y*cos(x))/(1 + x**2 + y**2)", "x=1.234567, y=-0.0001234"),
    ("norm(W@x - b)", "W=randn(3,4), x=randn(4), b=randn(3)"),
    ("sum(exp(-(x - m)**2/(2*s**2)))", "x=randn(5), m=0.1, s=2"),
    ("log(sum(exp(x))) - x[0]", "x=randn(3)"),
    ("network", POINTS["network"]),
    ("recurrent", POINTS["recurrent"]),
    ("long", POINTS["long"]),
]


@pytest.fixture(name="page_of", scope="module")
def _page_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    folder = tmp_path_factory.mktemp("graphs")
    (folder / "code.py").write_text(CODE)

    def page_of(target: str, at: str, direction: str = "right") -> Path:
        named = f"{folder}/code.py:{target}" if target in POINTS else target
        file = folder / f"{abs(hash((target, direction)))}.html"
        gradcli("trace", named, "--at", at, "--direction", direction, "--out", str(file), "-q")
        return file

    return page_of


def assert_clear(page: Opened) -> None:
    found = page.page.evaluate(MEASURED)
    assert found
    assert [(word, size) for word, size, _ in found if not 10.99 <= size <= 20.01] == []
    assert [(word, on) for word, _, on in found if on] == []


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program[0][:12])
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (400, True)])
def test_no_word_lies_on_anything(open_page: Any, page_of: Any, program: Any, width: int, dark: bool) -> None:
    page = open_page(page_of(*program), width=width, dark=dark, fragment="#end")
    assert_clear(page)
    assert page.sticking_out() == [] and page.complaints == []


@pytest.mark.parametrize("program", PROGRAMS[::3], ids=lambda program: program[0][:12])
def test_graphs_that_run_downwards_can_be_read(open_page: Any, page_of: Any, program: Any) -> None:
    page = open_page(page_of(*program, "down"), fragment="#end")
    high, wide = page.page.locator("svg.graph:visible").evaluate("svg => [svg.clientHeight, svg.clientWidth]")
    assert_clear(page)
    assert page.complaints == [] and high > 0.4 * wide


@pytest.mark.parametrize("program", PROGRAMS[:3] + PROGRAMS[-3:], ids=lambda program: program[0][:12])
def test_printed_graphs_fill_the_width(open_page: Any, page_of: Any, program: Any) -> None:
    page = open_page(page_of(*program))
    page.page.emulate_media(media="print")
    wide, room = page.page.evaluate(
        "[document.querySelector('svg.graph').getBoundingClientRect().width, document.querySelector('main').clientWidth]"
    )
    assert wide == pytest.approx(room, rel=0.02)
    assert [(word, on) for word, _, on in page.page.evaluate(MEASURED) if on] == []
