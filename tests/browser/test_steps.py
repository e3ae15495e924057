"""The steps through a computation: by keyboard, slider, link and click, each with the values of the document."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import Opened
from tests.conftest import gradcli

Open = Callable[..., Opened]
Written = Callable[..., Path]

SCALARS = ("trace", "v3 = x1 + x2; w = tanh(v3)*x2; w*x1 - exp(v3/x2)", "x1=3", "x2=4")
ARRAYS = ("trace", "norm(W@x)", "--at", "W=[[1, 2], [0, 1], [3, -1]], x=[0.5, -1]")
WRONG = ("check", "x**2*sin(y)", "--grad", "x=2*x*sin(y), y=x**2*sin(y)", "x=1.5", "y=0.7")
LONG = ("trace", "sum(x[:5])" + " + sin(x[0]*x[1])" * 150, "--at", "x=randn(8)")
FULL = re.compile(r"-?\d[\d.]*(?:e[-+]\d+)?")


def document(argv: tuple[str, ...]) -> Any:
    return json.loads(gradcli(*argv, "--json").stdout)


def said(page: Opened) -> str:
    return page.page.locator(".said").inner_text()


def details(page: Opened) -> dict[str, str]:
    names, values = (page.page.locator(f".step {tag}").all_inner_texts() for tag in ("dt", "dd"))
    return dict(zip(names, values, strict=True))


def steps(page: Opened) -> list[tuple[str, dict[str, str], str]]:
    """Go from the first step to the last by the arrow key; return what each says, shows, and its formula as text."""
    page.page.get_by_role("button", name="first step").click()
    found = []
    for _ in range(int(page.page.get_by_role("slider", name="step").get_attribute("max") or 0)):
        page.page.keyboard.press("ArrowRight")
        formula = page.page.locator(".step > math")
        found.append((said(page), details(page), (formula.text_content() or "") if formula.count() else ""))
    return found


@pytest.mark.parametrize("argv", [SCALARS, ARRAYS])
def test_every_step_by_keyboard_has_the_values_of_the_document(open_page: Open, written: Written, argv: tuple[str, ...]) -> None:  # fmt: skip
    page = open_page(written(*argv))
    nodes = {node["name"]: node for node in document(argv)["nodes"]}
    seen = steps(page)
    forward = {m[1]: rows for says, rows, _ in seen if (m := re.search(r"forward: (\S+) =", says))}
    backward = {m[1]: rows for says, rows, _ in seen if (m := re.search(r"backward: the adjoint of (\S+) is", says))}
    assert set(forward) == {name for name, node in nodes.items() if node["operation"] != "input"}
    assert set(backward) == set(nodes)
    for name, node in nodes.items():
        for rows, row, key in ((forward.get(name), "value", "value"), (backward[name], "adjoint", "adjoint")):
            if rows is not None and isinstance(node[key], float):
                assert float(rows[row]) == node[key]
            elif rows is not None:
                assert f"{max(map(abs, flat(node[key]))):.6g}" in rows[row]
    assert seen[-1][0].startswith("end") and page.complaints == [] and page.requests == [page.url]


def flat(x: Any) -> list[float]:
    return [entry for part in x for entry in flat(part)] if isinstance(x, list) else [x]


def test_products_of_the_chain_rule_appear_one_by_one(open_page: Open, written: Written) -> None:
    page = open_page(written(*SCALARS))
    nodes = {node["name"]: node for node in document(SCALARS)["nodes"]}
    seen = [(says, text) for says, _, text in steps(page) if "x2" in says]
    terms = len(nodes["x2"]["contributions"])
    assert terms == 3 and [says.partition("backward: ")[2][:11] for says, _ in seen] == [
        "term 1 of 3",
        "term 2 of 3",
        "the adjoint",
    ]
    assert [text.count("·") for _, text in seen] == [2, 4, 6]  # of derivatives, and of numbers
    numbers = [float(x) for x in FULL.findall(seen[-1][1].rpartition("=")[2])]
    assert numbers == [nodes["x2"]["adjoint"]]


def test_certified_digits_are_shown(open_page: Open, written: Written) -> None:
    page = open_page(written(*SCALARS))
    found = [rows for _, rows, _ in steps(page) if "certified" in rows]
    assert found and all(len(rows["certified"]) > 20 or rows["right digits"] == "17" for rows in found)
    assert all(
        float(rows["certified"]) == pytest.approx(float(rows.get("value") or rows["adjoint"]), rel=1e-14)
        for rows in found
    )


def test_a_wrong_claim_is_laid_over_the_graph(open_page: Open, written: Written) -> None:
    page = open_page(written(*WRONG))
    point = document(WRONG)["points"][0]
    red = page.page.locator(".node.bad")
    assert "claimed 1.4495" in (red.last.text_content() or "")
    rows = next(rows for says, rows, _ in steps(page) if "adjoint of y is" in says)
    assert float(rows["claimed"]) == point["modes"]["claim"]["gradient"]["y"]
    assert float(rows["adjoint"]) == pytest.approx(point["gradient"]["y"], rel=1e-14)


def test_a_page_of_a_wrong_claim_begins_where_it_goes_wrong(open_page: Open, written: Written) -> None:
    network = Path(__file__).resolve().parents[2] / "examples" / "pages" / "network.py"
    page = open_page(
        written("check", f"{network}:loss", "--grad", "slope_of_tanh", "--at", f"{network}:point", "--wrt", "W,b,w")
    )
    assert "adjoint of z is" in said(page) and "here the claim first goes wrong" in said(page)
    assert page.page.locator(".code .lit.slip").text_content() == "8    h = np.tanh(z)"
    assert "first wrong" in (page.page.locator(".node.on").text_content() or "")


def test_keys_are_left_to_what_has_the_focus(open_page: Open, written: Written) -> None:
    page = open_page(written(*SCALARS))
    page.page.locator(".stage").focus()
    page.page.keyboard.press("ArrowRight")
    assert said(page).startswith("start")
    page.page.get_by_role("button", name="next step").focus()
    page.page.keyboard.press("End")
    assert said(page).startswith("end")


def test_a_link_leads_to_a_step_and_back(open_page: Open, written: Written) -> None:
    page = open_page(written(*SCALARS), fragment="#b1.2")
    assert "term 2 of 3 of the adjoint of x2" in said(page)
    page.page.keyboard.press("ArrowRight")
    assert page.page.locator(".here").get_attribute("href") == "#b1"
    page.page.locator(".here").click()
    assert page.page.url.endswith("#b1")
    page.page.evaluate("window.location.hash = '#f2'")
    page.page.wait_for_function("document.querySelector('.said').textContent.includes('forward: v3')")


def test_buttons_slider_and_clicks_step(open_page: Open, written: Written) -> None:
    page = open_page(written(*SCALARS))
    page.page.get_by_role("button", name="first step").click()
    assert said(page).startswith("start")
    page.page.get_by_role("button", name="next step").click()
    assert "forward: v3 = 7.0" in said(page)
    page.page.get_by_role("slider", name="step").press("ArrowRight")
    assert "forward" in said(page) and "v3" not in said(page).partition("=")[0]
    page.page.locator("#n0 .n").click()
    assert "adjoint of x1" in said(page)
    page.page.get_by_role("button", name="first step").click()  # from which it plays for long
    page.page.get_by_role("button", name="play").click()
    assert page.page.get_by_role("button", name="pause").count() == 1
    page.page.get_by_role("button", name="pause").click()
    assert page.page.get_by_role("button", name="play").count() == 1 and page.complaints == []


def test_values_that_are_not_known_yet_are_hidden(open_page: Open, written: Written) -> None:
    page = open_page(written(*SCALARS))
    shown = (
        "[...document.querySelectorAll('.graph .%s')].filter(e => getComputedStyle(e).visibility === 'visible').length"
    )
    count = page.page.locator(".node").count()
    seen = [[page.page.evaluate(shown % look) for look in "va"]]
    while not said(page).startswith("end"):
        page.page.keyboard.press("ArrowRight")
        seen.append([page.page.evaluate(shown % look) for look in "va"])
    assert (seen[0], seen[-1]) == ([2, 0], [count, count])
    assert seen == sorted(seen) and {values for values, _ in seen} == set(range(2, count + 1))
    assert {adjoints for _, adjoints in seen} == set(range(count + 1))
    page.page.get_by_role("button", name="first step").click()
    assert [page.page.evaluate(shown % look) for look in "va"] == [2, 0]
    page.page.get_by_role("button", name="last step").click()
    assert [page.page.evaluate(shown % look) for look in "va"] == [count, count]


def test_names_of_the_parts_are_accessible(open_page: Open, written: Written) -> None:
    found = open_page(written(*SCALARS)).snapshot()
    for part in (
        'region "steps of the computation"',
        'group "steps"',
        'slider "step"',
        'button "next step"',
        "status",
        'img "Graph of',
    ):
        assert part in found


def test_a_larger_array_is_a_map_with_indices_and_the_numbers_of_its_ends(open_page: Open, written: Written) -> None:
    page = open_page(written("trace", "norm(W)", "--at", "W=randn(30, 4)"), fragment="#b0")
    drawn = page.page.locator(".step .map svg")
    assert drawn.locator("rect").count() == 32 + 9
    *indices, low, high, middle = drawn.locator("text").all_text_contents()
    assert indices == ["0", "29", "0", "3"] and middle == "0" and float(low) == -float(high) < 0
    assert (
        page.page.locator(".step figcaption").inner_text() == "adjoint; each square is the largest of up to 4 entries"
    )
    assert page.complaints == [] and page.axe() == []


def test_the_claimed_map_is_beside_the_right_one_on_one_scale(open_page: Open, written: Written) -> None:
    argv = ("check", "sum(x**2)", "--grad", "-x", "--at", "x=[1, 2, 3, 4, 5, 6, 7]")
    page = open_page(written(*argv), fragment="#b0", dark=True, width=400)
    maps = page.page.locator(".step .map")
    assert maps.locator("figcaption").all_inner_texts() == ["adjoint", "claimed"]
    for drawn in maps.locator("svg").all():
        assert drawn.locator("text").all_text_contents() == ["0", "6", "-14", "14", "0"]
    found = page.page.locator(".picture.map")
    assert found.locator("figcaption").all_inner_texts()[:2] == ["df/dx, claimed", "df/dx, right"]
    assert page.axe() == [] and page.sticking_out() == [] and page.complaints == []


PRODUCT = ("trace", "y = A@B; sum(y*y)", "--at", "A=[[1, 3], [2, 0], [-1, 5]], B=[[1, 2], [0, -4]]")


def met(page: Opened) -> tuple[str, list[list[str]]]:
    """Return the sum that is shown, and the entries of each matrix that are lit."""
    lit = "[...document.querySelectorAll('.product math')].map(m => [...m.querySelectorAll('.lit')].map(e => e.textContent))"
    return page.page.locator(".product p").inner_text(), page.page.evaluate(lit)


@pytest.mark.parametrize(("dark", "width"), [(False, 1280), (True, 400)])
def test_a_product_of_matrices_shows_how_each_entry_is_made(open_page: Open, written: Written, dark: bool, width: int) -> None:  # fmt: skip
    page = open_page(written(*PRODUCT), fragment="#f2", dark=dark, width=width)
    names = [math.split("=")[0] for math in page.page.locator(".product math").all_text_contents()]
    assert names == ["A", "B", "y"]
    assert met(page) == ("y[0,0] = 1·1 + 3·0 = 1", [["1", "3"], ["1", "0"], ["1"]])
    forth, back = (page.page.get_by_role("button", name=f"{word} entry") for word in ("next", "previous"))
    forth.focus()
    page.page.keyboard.press("Enter")
    assert met(page) == ("y[0,1] = 1·2 + 3·(-4) = -10", [["1", "3"], ["2", "-4"], ["-10"]])
    assert page.axe() == [] and page.sticking_out() == [] and page.complaints == []
    page.page.keyboard.press("Enter")
    assert met(page)[0] == "y[1,0] = 2·1 + 0·0 = 2"
    for _ in range(3):
        back.click()
    assert met(page) == ("y[2,1] = -1·2 + 5·(-4) = -22", [["-1", "5"], ["2", "-4"], ["-22"]])
    page.page.locator(".product math").last.locator("mtd").first.click()
    assert met(page)[0] == "y[0,0] = 1·1 + 3·0 = 1" and said(page).startswith("step 1 of")


def test_adjoints_of_a_product_are_products(open_page: Open, written: Written) -> None:
    page = open_page(written(*PRODUCT), fragment="#b1")
    assert (
        met(page) == ("adjoint[0,0] = 1·2 + 2·4 + -1·2 = 8", [["1", "2", "-1"], ["2", "4", "2"], ["8"]]) or met(page)[0]
    )
    assert met(page)[0].startswith("adjoint[0,0] = ")
    left, right, whole = (
        [[float(x) for x in row] for row in rows]
        for rows in page.page.evaluate(
            "[...document.querySelectorAll('.product math')].map(m =>"
            " [...m.querySelectorAll('mtr')].map(r => [...r.children].map(e => e.textContent)))"
        )
    )
    for i, row in enumerate(whole):
        for j, entry in enumerate(row):
            assert entry == pytest.approx(sum(left[i][k] * right[k][j] for k in range(len(right))))
    assert whole == {node["name"]: node for node in document(PRODUCT)["nodes"]}["B"]["adjoint"]
    square = open_page(written("trace", "sum(A@A@A)", "--at", "A=[[1, 2], [3, 4]]"), fragment="#b0.1")
    assert met(square)[0].startswith("term[0,0] = ") and square.complaints == []


def test_a_vector_is_a_row_or_a_column_of_a_product(open_page: Open, written: Written) -> None:
    page = open_page(written("trace", "W@x", "--at", "W=[[1, 3], [2, 0]], x=[1, -2]"), fragment="#f2")
    page.page.get_by_role("button", name="next entry").click()
    assert met(page) == ("result[1] = 2·1 + 0·(-2) = 2", [["2", "0"], ["1", "-2"], ["2"]])


def test_a_matrix_is_drawn_as_one_and_a_sentence_says_its_shape(open_page: Open, written: Written) -> None:
    page = open_page(written("trace", "sum(A*A)", "--at", "A=[[1, 2, 3], [4, 5, 6], [7, 8, 9]]"), fragment="#f1")
    assert said(page).endswith("forward: t1 = a 3 × 3 matrix")
    rows = page.page.locator(".step dd mtr").all()
    assert [row.locator("mtd").all_text_contents() for row in rows] == [
        ["1", "4", "9"],
        ["16", "25", "36"],
        ["49", "64", "81"],
    ]


@pytest.mark.parametrize("dark", [False, True])
def test_a_step_is_accessible(open_page: Open, written: Written, dark: bool) -> None:
    page = open_page(written(*WRONG), dark=dark, width=400, fragment="#b0")
    assert page.axe() == [] and page.sticking_out() == [] and page.complaints == []


def test_long_programs_are_collapsed_and_step(open_page: Open, written: Written) -> None:
    page = open_page(written(*LONG))
    assert 1 < page.page.locator("svg.graph:visible .node").count() <= 60
    page.page.keyboard.press("ArrowRight")
    assert "forward" in said(page) and page.complaints == []


def test_series_of_a_chart_are_switched_without_a_script(open_page: Open, written: Written) -> None:
    page = open_page(written("sweep", "sin(x)*exp(x)", "x=1", "--dtype", "float64,float32"), javascript=False)
    visible = page.page.locator(".lines .wide g[class^=n]:visible")
    before = visible.count()
    page.page.get_by_role("checkbox", name="forward").uncheck()
    assert visible.count() == before - 2
    page.page.get_by_role("checkbox", name="float32", exact=True).uncheck()
    assert 0 < visible.count() < before - 2


def test_links_of_a_suite_lead_to_its_checks(open_page: Open, written: Written) -> None:
    page = open_page(written("check", "sin(x)", "sum(abs(y))", "x=0.5", "y=0"))
    page.page.get_by_role("link", name="sum(abs(y))").click()
    assert page.page.url.endswith("#check-2")
    assert page.page.locator("#check-2").inner_text() == "sum(abs(y))"


@pytest.mark.parametrize("part", [".node .n", ".here", "[data-go=play]", "[data-go=first]"])
def test_keys_step_after_a_click_on_what_steps(open_page: Open, written: Written, part: str) -> None:
    page = open_page(written(*SCALARS), fragment="#f2")
    page.page.locator(part).first.click()
    page.page.locator("[data-go=first]").focus()
    page.page.locator(part).first.click()
    before = said(page)
    page.page.keyboard.press("ArrowRight")
    assert said(page) != before and page.complaints == []


def test_a_graph_is_made_larger_and_fitted_again(open_page: Open, written: Written) -> None:
    page = open_page(written(*SCALARS))

    def wide() -> float:
        return float(page.page.locator("svg.graph").evaluate("svg => svg.getBoundingClientRect().width"))

    fitted = wide()
    page.page.get_by_role("button", name="larger").click()
    assert wide() == pytest.approx(1.25 * fitted, abs=2)
    page.page.get_by_role("button", name="fit").click()
    assert wide() == fitted
    page.page.keyboard.press("ArrowRight")
    assert "forward" in said(page)


def test_a_graph_is_moved_by_the_mouse(open_page: Open, written: Written) -> None:
    page = open_page(written(*LONG))
    stage = page.page.locator(".stage")
    for _ in range(4):
        page.page.get_by_role("button", name="larger").click()
    before = stage.evaluate("stage => stage.scrollLeft")
    box = stage.bounding_box()
    page.page.mouse.move(box["x"] + 300, box["y"] + 20)
    page.page.mouse.down()
    page.page.mouse.move(box["x"] + 200, box["y"] + 20, steps=4)
    page.page.mouse.up()
    assert stage.evaluate("stage => stage.scrollLeft") == pytest.approx(before + 100, abs=2)
    assert said(page).startswith("start")


def test_partials_appear_when_they_are_used(open_page: Open, written: Written) -> None:
    page = open_page(written(*SCALARS), fragment="#start")
    shown = (
        "[...document.querySelectorAll('.edges text')].filter(e => getComputedStyle(e).visibility === 'visible').length"
    )
    seen = []
    while True:
        seen.append((said(page), page.page.evaluate(shown)))
        if seen[-1][0].startswith("end"):
            break
        page.page.keyboard.press("ArrowRight")
    assert all(count == 0 for says, count in seen if "backward" not in says and "end" not in says)
    backward = [count for says, count in seen if "backward" in says]
    assert backward == sorted(backward) and seen[-1][1] == page.page.locator(".edges text").count() == backward[-1]


LOOP = """import numpy as np


def softmax(z):
    e = np.exp(z)
    return e / np.sum(e)


def f(x):
    h = x
    for k in range(250):
        h = 0.9 * h + np.sin(h)
    return np.sum(softmax(h) * h)
"""


def test_a_loop_is_one_box_that_opens(open_page: Open, tmp_path: Path) -> None:
    (tmp_path / "f.py").write_text(LOOP)
    gradcli("trace", f"{tmp_path}/f.py:f", "x=[1,2]", "--out", str(tmp_path / "page.html"))
    page = open_page(tmp_path / "page.html")
    path, names = page.page.locator(".path"), page.page.locator("svg.graph:visible .node .n")
    assert names.all_text_contents() == ["x", "for k: ×250", "softmax", "t503", "result"]
    page.page.locator("svg.graph:visible .node").nth(1).click()
    assert path.inner_text() == "the whole computation › for k: ×250"
    assert names.all_text_contents()[:2] == ["turns 1-5", "turns 6-10"]
    page.page.get_by_role("button", name="next step").click()
    page.page.keyboard.press("o")
    assert "turns 1-5" in path.inner_text() and names.count() == 15
    assert re.fullmatch(r"#l\d-start", page.page.locator(".here").get_attribute("href") or "") and page.axe() == []
    page.page.keyboard.press("Escape")
    page.page.get_by_role("button", name="the whole computation").click()
    assert said(page).startswith("start") and names.count() == 5  # where it was left
    page.page.get_by_role("button", name="next step").click()
    page.page.get_by_role("button", name="open for k: ×250").click()
    assert said(page).startswith("start") and page.complaints == []


def test_other_controls_stop_what_plays(open_page: Open, written: Written) -> None:
    page = open_page(written(*SCALARS))
    play = page.page.locator("[data-go=play]")
    for act in (
        lambda: page.page.get_by_role("slider", name="step").fill("3"),
        lambda: page.page.evaluate("window.location.hash = '#f2'"),
        lambda: page.page.locator("#n0 .n").click(),
    ):
        play.click()
        assert page.page.locator(".said").get_attribute("aria-live") == "off"
        act()
        page.page.wait_for_function("document.querySelector('[data-go=play]').textContent.includes('play')")
        assert page.page.locator(".said").get_attribute("aria-live") == "polite"


def test_printing_leaves_the_reader_where_they_were(open_page: Open, written: Written) -> None:
    page = open_page(written(*SCALARS), fragment="#b1")
    before = said(page)
    page.page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert said(page).startswith("end") and page.page.locator(".all").get_attribute("open") is not None
    page.page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert said(page) == before and page.page.locator(".all").get_attribute("open") is None


def test_an_address_that_names_no_step_does_nothing(open_page: Open, written: Written) -> None:
    page = open_page(written(*SCALARS), fragment="#%E0%A4%A")
    assert said(page).startswith("start") and page.complaints == []


def test_the_operation_itself_is_underlined(open_page: Open, written: Written) -> None:
    page = open_page(written("trace", "x + x*x - x*x*x", "x=2"))
    seen = []
    for _ in range(6):
        page.page.keyboard.press("ArrowRight")
        if "forward" in said(page):
            seen.append(page.page.evaluate("document.querySelector('.code mark').previousSibling.textContent.length"))
    assert seen == [4, 0, 10, 10, 0]


def test_entries_that_are_not_finite_are_told_apart(open_page: Open, written: Written) -> None:
    page = open_page(written("trace", "sum(x*x)", "--at", "x=[1,2,3,4,5,6,inf]"), fragment="#b0")
    assert page.page.locator(".step svg .hx").count() == 1
    assert "grey where not finite" in page.page.locator(".step figcaption").inner_text()
