"""In a loop of a claim, something is added where it has its value and before it is read; lines that are right are known."""

import ast
from pathlib import Path
from typing import Any

import numpy as np

from gradcli.api import locate_target
from gradcli.checks.build import Claiming, request_for
from gradcli.modes.claim import ClaimedFunction
from gradcli.repair.code import CodeClaim, SourceFile
from gradcli.repair.contributions import read_forward_pass
from gradcli.repair.loops import LoopBody, constant_terms
from gradcli.repair.search import Right, reshape_like_right
from gradcli.request.options import Options
from tests.rows import for_rows


def body_of(text: str, visits: list[list[dict[str, Any]]]) -> LoopBody:
    loop = ast.parse(text).body[0]
    assert isinstance(loop, ast.For)
    body = LoopBody(loop, {"np": np})
    for visit in visits:
        body.note(-1, {})
        for k, names in enumerate(visit):
            body.note(k if k < len(loop.body) else -1, names)
    return body


TEXT = """\
for k in reversed(range(3)):
    da = dh * 2
    dh = da + 1
    dw += da
"""
VISIT = [{"dh": 1.0, "dw": 0.0, "k": 2}] + [{"dh": x, "dw": 0.0, "da": 2.0, "k": 2} for x in (1.0, 3.0, 3.0)]


@for_rows(
    ("name", "first", "places"),
    [
        ("dh", 0, [0, 2]),  # before it is read; not before it gets another value, but after that
        ("da", 1, [1, 2]),
        ("da", 3, []),  # it is not read any more
        ("dw", 0, [0]),  # wherever it stands, the sum is the same
    ],
)
def test_something_is_added_before_it_is_read(name: str, first: int, places: list[int]) -> None:
    body = body_of(TEXT, [VISIT])
    assert list(body.places_to_add(name, first, 3, {"dw"})) == places


def test_a_name_that_is_assigned_in_the_body_has_several_values() -> None:
    terms = body_of(TEXT, [VISIT]).terms(0, ())
    assert [(t.text, t.first, t.last) for t in terms.texts.values() if t.text in ("dh", "da")] == [
        ("dh", 0, 1),
        ("dh", 2, 3),
        ("da", 1, 3),
    ]
    sum_of_both = terms.spell("dh__2 + da")
    assert sum_of_both is not None and (sum_of_both.text, sum_of_both.first, sum_of_both.last) == ("dh + da", 2, 3)
    assert terms.spell("dh + dh__2") is None and terms.spell("lost") is None


def test_a_name_that_is_none_in_the_first_turn_is_noted() -> None:
    visit = [{**names, "last": None} for names in VISIT]
    assert body_of(TEXT, [visit]).visits[0][0]["last"] is None


def test_items_are_read_by_the_index_of_the_loop() -> None:
    xs = [np.array([1.0, 2.0]), np.array([3.0, 4.0])]
    visits = [[{"xs": xs, "k": k, "y": 0.5}] * 2 for k in (1, 0)]
    body = body_of("for k in reversed(range(2)):\n    y = 1.0\n", visits)
    first, second = (body.terms(k, ()) for k in (0, 1))
    assert [first.values[n][0] for n, t in first.texts.items() if t.text == "xs[k]"] == [3.0]
    assert [second.values[n][0] for n, t in second.texts.items() if t.text == "xs[k]"] == [1.0]
    assert {first.texts[n].text for n in constant_terms([first, second])} == {"y"}


CLAIM = """\
import numpy as np

X = np.array([[0.2, -0.5], [0.7, 0.3], [-0.4, 0.9]])


def f(W, h):
    for x in X:
        a = W @ h + x
        h = np.tanh(a)
    return np.sum(h**2)


def g(W, h):
    hs = [h]
    for x in X:
        hs.append(np.tanh(W @ hs[-1] + x))
    dW = np.zeros_like(W)
    dh = 2 * hs[-1]
    for t in reversed(range(len(X))):
        da = dh * (1 - hs[t + 1] ** 2)
        dW += np.outer(da, hs[t])
        dh = W.T @ da
    return dW, dh
"""


@for_rows(
    ("right", "wrong", "lines", "later"),
    [
        ("", "", {"hs.append", "dh = 2", "da =", "dh = W"}, set()),
        ("W.T @ da", "W @ da", {"hs.append", "dh = 2", "da ="}, set()),
        ("hs[t + 1] ** 2", "hs[t + 1]", {"hs.append", "dh = 2"}, {"dW +=", "dh = W"}),
        ("2 * hs[-1]", "hs[-1]", {"hs.append"}, {"dW +=", "dh = W"}),
    ],
)
def test_lines_that_compute_what_the_function_has_are_right(
    tmp_path: Path, right: str, wrong: str, lines: set[str], later: set[str]
) -> None:
    text = CLAIM.replace(right, wrong) if right else CLAIM
    path = tmp_path / "users.py"
    path.write_text(text)
    names: dict[str, Any] = {}
    exec(compile(text, str(path), "exec"), names)
    at = {"W": np.array([[0.3, -0.2], [0.4, 0.1]]), "h": np.array([0.6, -0.8])}
    options = Options(wrt="W,h")
    request = request_for(locate_target(names["f"], at, options), Claiming("grad", names["g"]), options)
    file, claim = SourceFile.read(str(path)), request.claim
    assert file is not None and isinstance(claim, ClaimedFunction)
    zeros = {n: np.zeros_like(x) for n, x in at.items()}
    point = Right(at, zeros, zeros)
    definition = file.definition(names["g"].__code__)
    assert definition is not None
    subject = CodeClaim(
        file, (definition,), lambda _: reshape_like_right(point, claim(point.copied_values())), ("W", "h")
    )
    subject.forward = read_forward_pass(request.question(request.points[0]), names["f"].__code__, file.definition, 200)
    subject.watch()
    found, statements = subject.right_lines(), text.splitlines()
    starts = ("hs.append", "dh = 2", "da =", "dh = W", "dW +=")
    assert {s for s in starts for k in found if statements[k - 1].strip().startswith(s)} == lines
    assert {s for s in starts for k in subject.later_lines(found) if statements[k - 1].strip().startswith(s)} == later
