"""Pages: bytes of code and style, bytes of a drawn node, and the seconds to lay out, to write and to open them.

Pages of long programs in four spellings: a loop of numbers, a recurrence of matrices with a branch, layers in a dict called
through a method, and an expression. Opening is measured where playwright and a Chromium on PATH are installed.
"""

import json
import random
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import common  # first: it sets the threads
from common import Figure

import numpy as np

import gradcli
from gradcli.report.drawing.graph import lay_out_boxes
from gradcli.report.forms import render_as_text
from gradcli.report.forms.html import read_asset

CODE, NODE, LAYOUT, OPENED = 60_000, 1_000, 1.0, 2.0  # bytes, bytes, seconds, seconds


def rollout(a: Any, b: Any, x: Any) -> Any:
    s = 0.1
    for _ in range(1430):
        v = np.sin(a * s)
        s = s + 0.01 * (b * v - x * s)
    return s**2


def recurrence(w: Any, x: Any) -> Any:
    h, total = np.zeros(8), 0.0
    for k in range(2000):
        z = w @ h + x
        h = np.tanh(z)
        total = total + np.sum(h**2) if k % 3 else total - h[k % 8]
    return total


class Network:
    def layer(self, parameters: dict[str, Any], x: Any) -> Any:
        return np.tanh(parameters["w"] @ x + parameters["b"])

    def __call__(self, parameters: dict[str, Any], x: Any) -> Any:
        for _ in range(40):
            x = x + 0.1 * self.layer(parameters, x)
        return np.sum(x**2)


def spellings() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    matrix, vector = rng.normal(size=(8, 8)) / 3, rng.normal(size=8)
    network = Network()
    terms = " + ".join(f"sin({k}*x)*y" for k in range(1, 100))
    return {
        "loop of numbers": gradcli.trace(rollout, {"a": 1.5, "b": 0.7, "x": 0.3}),
        "recurrence with a branch": gradcli.trace(recurrence, {"w": matrix, "x": vector}),
        "layers in a dict": proved(lambda p, x: network(p, x), {"p": {"w": matrix, "b": vector}, "x": vector}),
        "expression": proved(terms, {"x": 0.3, "y": 0.7}),
    }


def proved(f: Any, at: dict[str, Any]) -> Any:
    """Return the computation as the page of a check has it, with the digits that balls prove."""
    return gradcli.check(f, at, modes="certified,reverse").walk()


def drawn_bytes(page: str) -> float:
    """Return the bytes of drawing and data of each drawn node, of all levels of the graph together."""
    drawings = re.findall(r"<svg xmlns.*?</svg>", page, re.DOTALL)
    data = re.search(r'<script type="application/json">(.*?)</script>', page, re.DOTALL)
    assert drawings and data is not None
    nodes = sum(len(level["nodes"]) for level in json.loads(data[1])["levels"])
    return (sum(len(drawing.encode()) for drawing in drawings) + len(data[0].encode())) / nodes


def graphs() -> dict[str, tuple[int, list[tuple[int, int]]]]:
    """Return graphs of 400 boxes: layers of a network, a random one, and a chain forward and back."""
    draw = random.Random(0)
    network = [(20 * k + i, 20 * (k + 1) + draw.randrange(20)) for k in range(19) for i in range(20) for _ in range(2)]
    scattered = [(b - draw.randint(1, min(b, 40)), b) for b in range(1, 400) for _ in range(2)]
    back = [*((k, k + 1) for k in range(399)), *((k, 399 - k) for k in range(200))]
    return {"layers": (400, network), "scattered": (400, scattered), "forward and back": (400, back)}


def opened(pages: dict[str, Path], rounds: int) -> dict[str, float]:
    """Return the median seconds until each page is drawn; nothing where there is no browser."""
    browser = next(
        (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
    )
    if browser is None or not common.there("playwright"):
        return {}
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        window = driver.chromium.launch(executable_path=browser, args=["--no-sandbox", "--disable-gpu"])

        def opening(path: Path) -> Callable[[], None]:
            def run() -> None:
                page = window.new_page()
                page.goto(path.as_uri())
                page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
                page.close()

            return run

        return common.medians(common.times({name: opening(path) for name, path in pages.items()}, rounds))


def figures(rounds: int) -> Iterator[Figure]:
    size = len(read_asset("page.js").encode()) + len(read_asset("page.css").encode())
    yield Figure("page", "code and style of a page", size, "bytes", CODE)
    runs = {
        name: (lambda g=graph: lay_out_boxes([(90, 94)] * g[0], g[1], between=60, apart=14))
        for name, graph in graphs().items()
    }
    for name, seconds in common.medians(common.times(runs, max(3, rounds // 3))).items():
        yield Figure("page", f"layout of 400 nodes: {name}", seconds, "s", LAYOUT)
    with tempfile.TemporaryDirectory() as folder:
        pages = {}
        for name, trace in spellings().items():
            start = time.perf_counter()
            page = render_as_text("html", trace)
            took = time.perf_counter() - start
            pages[name] = Path(folder) / f"{len(pages)}.html"
            pages[name].write_text(page, encoding="utf-8")
            work = f"{name}, {len(trace.nodes):,} operations"
            yield Figure("page", f"{work}: drawing and data of a drawn node", drawn_bytes(page), "bytes", NODE)
            yield Figure("page", f"{work}: writing its page", took, "s")
        for name, seconds in opened(pages, max(3, rounds // 3)).items():
            yield Figure("page", f"{name}: opening its page in Chromium", seconds, "s", OPENED)


if __name__ == "__main__":
    common.main(figures, __doc__)
